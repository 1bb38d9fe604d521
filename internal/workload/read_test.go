package workload

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"plimsoll/internal/message"
	"plimsoll/internal/random"
	"plimsoll/internal/scenario"
)

func TestErrorsOfFiles(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		_, err := Read("own.yaml", []byte(text), nil)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if w := strings.Join(want, "\n"); got != w {
			t.Errorf("%s\nerrors are\n%s\nwant\n%s", text, got, w)
		}
	}
	const head = "name: own\n"
	const turn = "prompt: {turn: 5}\n"
	f(head + turn)
	f("prompt: {turn: 5}", "own.yaml: name: want a name, as in team/support-chat")
	f("name: Own\n"+turn, `own.yaml:1:7: name: want lower-case letters, digits, - and /, at most 80, got "Own"`)
	f(head, "own.yaml: prompt.turn: want the length of the question of a turn")
	f(head+"prompt: {turm: 5}", "own.yaml:2:10: prompt.turm: unknown field; did you mean prompt.turn?")
	f(head+"prompt: {turn: unifrom:1..3}",
		`own.yaml:2:16: prompt.turn: unknown distribution "unifrom", did you mean uniform? want 512, uniform:100..900, normal:512,64 or lognormal:p50=400,p99=4000, got "unifrom:1..3"`)
	f(head+"prompt: {turn: {tokens: 5, content: contrcat}}",
		`own.yaml:2:37: prompt.turn.content: look up generator "contrcat": unknown; did you mean "contract"? (known: caselaw, code, contract, filing, findings, paper, patient, prose, ticks, words, and file:PATH)`)
	f(head+"prompt: {turn: {tokens: 5, content: 'file:a.txt'}}",
		`own.yaml:2:37: prompt.turn.content: look up generator "file:a.txt": no folder of documents is given`)
	f(head+turn+"stresses: [kv, gpu]", `own.yaml:3:11: stresses: want one of compute, bandwidth, kv, network, scheduler, got "gpu"`)
	f(head+turn+"arrival: spike", `own.yaml:3:10: arrival: want one of users, rate, spikes, got "spike"; did you mean spikes?`)
	f(head+turn+"session: {turns: 3, think: 20}", "own.yaml:3:28: session.think: want a duration with a unit: write 20s, got 20")
	f(head+turn+"session: {turns: 0}", "own.yaml:3:18: session.turns: want a whole number of at least 1, got 0")
	f(head+turn+"session: {turns: 'lognormal:p50=5,p99=9'}",
		`own.yaml:3:18: session.turns: want at most 100000, and there is no largest one: add max=100000, got lognormal:p50=5,p99=9`)
	f(head+turn+"session: {think: 1s, tick: 1s}", "own.yaml:3:28: session.tick: give either think or tick: turns follow either the answers or the clock")
	f(head+"session: {max-context: 100}\nprompt: {turn: 5000}\noutput: 10", "own.yaml:2:24: session.max-context: the first prompt and its answer are at least 5010 tokens: want at least so many, or a shorter prompt.turn, got 100")
	f(head+"session: {max-context: 1000}\nprompt: {system: 900, turn: 50}\noutput: {tokens: 10, first: 51}", "own.yaml:2:24: session.max-context: the first prompt and its answer are at least 1001 tokens: want at least so many, or a shorter prompt.system, got 1000")
	f(head + "session: {max-context: 1000}\nprompt: {system: 900, turn: uniform:50..5000}\noutput: {tokens: 10, first: 50}")
	f(head+turn+"session: {tick: 0s}", "own.yaml:3:17: session.tick: want ticks that are always longer than 0: add a min, got 0s")
	f(head+turn+"session: {history: servers}", `own.yaml:3:20: session.history: want one of server, recorded, none, got "servers"; did you mean server?`)
	f(head+"prompt: {turn: 5, group: {tokens: 5, users: 3, sets: 2}}", "own.yaml:2:26: prompt.group: want either users (how many share one text) or sets (how many texts there are)")
	f(head+"prompt: {turn: 5, group: {users: 3}}", "own.yaml:2:26: prompt.group: want the length of the text that the group shares: add tokens")
	f(head+turn+"output: {first: 5}", "own.yaml:3:17: output.first: want the length of the later answers too: add tokens")
	f(head+turn+"output: {stop: exact}", "own.yaml:3:16: output.stop: want the exact length: add tokens")
	f(head+turn+"output: {tokens: 5, schema: '[1]'}", `own.yaml:3:29: output.schema: want a JSON object, got "[1]"`)
	f(head+turn+"retrieval: {passages: 3, tokens: 9}", "own.yaml:3:12: retrieval: want either a latency (an emulated search) or a url (a real one)")
	f(head+turn+"retrieval: {passages: 3, latency: 1s}", "own.yaml:3:12: retrieval: want passages and tokens (their number and the length of each), or neither")
	f(head+turn+"retrieval: {passages: 3, tokens: 9, url: localhost}", `own.yaml:3:42: retrieval.url: want the whole URL of an embeddings or search endpoint, got "localhost"`)
	f(head+turn+"fork: {branches: 65, turn: 4}", "own.yaml:3:18: fork.branches: want at most 64, and it can be 65: add max=64, got 65")
	f(head+turn+"fork: {turn: 4}", "own.yaml:3:7: fork.branches: want the number of branches")
	f(head+turn+"session: {history: none}\nfork: {branches: 3, turn: 4}", "own.yaml:3:20: session.history: a workload that forks keeps what it found: want server or recorded, got none")
	f(head+turn+"tools: {offer: []}", "own.yaml:3:16: tools.offer: want at least one tool")
	f(head+turn+"tools: {offer: [{name: a b, result: 4}]}", `own.yaml:3:24: tools.offer[0].name: want letters, digits, - and _, got "a b"`)
	f(head+turn+"cancel: {when: superseded}", "own.yaml:3:16: cancel.when: an answer is superseded by the next tick: add session.tick, got superseded")
	f(head+turn+"cancel: {when: after}", "own.yaml:3:9: cancel.after: want how long the user waits, as in 5s")
	f(head+turn+"cancel: {when: first-token, share: 2}", "own.yaml:3:36: cancel.share: want a share of 0 to 1, got 2")
	f(head+turn+"media: [{kind: image, width: 5}]", "own.yaml:3:9: media[0]: want width and height of 1 to 8192 pixels, got 5 x 0")
	f(head+turn+"media: [{kind: video}]", `own.yaml:3:16: media[0].kind: want image or audio, got "video"`)
	f(head+turn+"slo: {all: [ttft.p95=8]}", `own.yaml:3:13: slo.all[0]: want a duration with a unit: write ttft.p95=8ms or ttft.p95=8s, got "ttft.p95=8"`)
	f(head+turn+"slo: {with-retrieval: true}", "own.yaml:3:23: slo.with-retrieval: there is no retrieval in this workload")
	f(head+turn+"vary: [{prompt.turn.tokens: 5}, {prompt.turn: x}, {prompt.tern: 1, prompt.turn: 3}]",
		`own.yaml:3:33: vary[1]: prompt.turn: want 512, uniform:100..900, normal:512,64 or lognormal:p50=400,p99=4000, got "x"`,
		`own.yaml:3:51: vary[2]: prompt.tern: unknown field: want one of system, group, session, turn`)
	f(head+turn+"vary: [{vary: 5}]", `own.yaml:3:15: vary[0].vary: a rung cannot change the ladder`)
	f(head+"prompt: {turn: {text: What now?, content: prose}}", "own.yaml:2:43: prompt.turn.content: give either text or content")
}

// The example of the manual is a workload.
func TestExampleOfTheManual(t *testing.T) {
	page, err := os.ReadFile("../../docs/workload.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "```yaml\n")
	text, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatal("the manual has no example")
	}
	f, err := Read("workload.md", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := NewSessions(1, f)
	if got := s.Needs(); got != NeedText|NeedTools|NeedCancel {
		t.Errorf("it needs %s", got)
	}
	calls := 0
	for n := range uint64(100) {
		for _, g := range carryOut(t, s.Session(0, n), 0, 100, saying) {
			for _, p := range g.parts {
				if p.Role == message.Tool {
					calls++
				}
			}
		}
	}
	if calls == 0 {
		t.Error("no tool was called")
	}
	for _, name := range Names() {
		if family, _, _ := strings.Cut(name, "/"); family == "legal" || family == "finance" || family == "research" {
			if !strings.Contains(string(page), "| "+name+" |") {
				t.Errorf("the manual does not list %s", name)
			}
		}
	}
}

func TestFilesMayNameNumbers(t *testing.T) {
	around := &Around{ReadFile: func(path string) ([]byte, error) {
		if path != "lengths.txt" {
			return nil, fs.ErrNotExist
		}
		return []byte("# tokens\n10\n\n20\n30.5\n"), nil
	}}
	f, err := Read("own.yaml", []byte("name: own\nprompt: {turn: 'file:lengths.txt,max=25'}\nsession: {think: 'file:lengths.txt'}\n"), around)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	r := random.Stream(1)
	for range 100 {
		seen[f.compiled.turn.Int(r, 1)] = true
	}
	if len(seen) != 3 || !seen[10] || !seen[20] || !seen[25] {
		t.Errorf("drew %v", seen)
	}
	if lo, hi := f.compiled.think.Bounds(); lo != 10e9 || hi != 30.5e9 {
		t.Errorf("thinks %g to %g ns, want seconds", lo, hi)
	}
	bad := func(text, want string) {
		t.Helper()
		around.ReadFile = func(string) ([]byte, error) { return []byte(text), nil }
		_, err := Read("own.yaml", []byte("name: own\nprompt: {turn: 'file:n.txt'}\n"), around)
		if err == nil || err.Error() != "own.yaml:2:16: prompt.turn.tokens: "+want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	bad("1\nx\n", `n.txt:2: want one number of at least 0, got "x"`)
	bad("1\n-3\n", `n.txt:2: want one number of at least 0, got "-3"`)
	bad("", "n.txt:1: want at least one number")
}

func TestSettingsReplaceFields(t *testing.T) {
	f, err := Lookup("legal/contract-review", scenario.Setting{Path: "prompt.session.tokens", Value: "9000", Origin: "--set"})
	if err != nil {
		t.Fatal(err)
	}
	if d := f.compiled.document; d.Kind != random.Fixed || d.A != 9000 {
		t.Errorf("documents are %+v", d)
	}
	_, err = Lookup("legal/contract-review", scenario.Setting{Path: "prompt.session.tokns", Value: "9000", Origin: "--set"})
	if want := "--set: prompt.session.tokns: unknown field; did you mean prompt.session.tokens?"; err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

func TestLookupNamesTheNearest(t *testing.T) {
	for name, want := range map[string]string{
		"legal/contract-reviw": `look up workload "legal/contract-reviw": it is not in the library; did you mean legal/contract-review?`,
		"../read":              `look up workload "../read": it is not in the library, want one of `,
	} {
		_, err := Lookup(name)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
}

// Whatever a file holds: an error or a workload whose sessions begin, never more.
func FuzzRead(f *testing.F) {
	for _, name := range Names() {
		data, err := Source(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("name: a\nprompt: {turn: 'mix:1*5|2*zipf:s=1,max=9'}\nmedia: [{kind: audio, seconds: 3}]\n"))
	f.Add([]byte("name: a\nprompt: {turn: 1}\ntools: {offer: [{name: x, result: 3, arguments: '{}'}]}\nvary: [{prompt.turn.tokens: 1}, {prompt.turn.tokens: 2}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return
		}
		file, err := Read("f.yaml", data, nil)
		if err != nil {
			if err.Error() == "" || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("error is %v", err)
			}
			return
		}
		m := NewSessions(1, file).Session(0, 1)
		a := m.Start(0)
		if a.Kind != Send && a.Kind != Fork {
			t.Fatalf("the first action is %+v", a)
		}
	})
}
