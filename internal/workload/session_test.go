package workload

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/internal/message"
	"plimsoll/internal/record"
	"plimsoll/internal/scenario"
	"plimsoll/internal/workload/content"
)

var update = flag.Bool("update", false, "rewrite golden files")

// describe writes down what a request is, without making its text.
func describe(b *bytes.Buffer, a *Action, parts []message.Part) {
	r := a.Request
	fmt.Fprintf(b, "%d %d at %d max %d %v %d %q %q\n", a.Session, a.Turn, a.At, r.MaxTokens, r.Exact, r.ReasoningTokens, r.ReasoningEffort, r.ToolChoice)
	if a.Retrieval != nil {
		fmt.Fprintf(b, " search %d %d\n", a.Retrieval.Duration, a.Retrieval.Passages)
	}
	fmt.Fprintf(b, " cancel %d %d %d\n", a.CancelAfter, a.CancelAt, a.CancelTokens)
	for i := range parts {
		p := &parts[i]
		fmt.Fprintf(b, " %v %d %s %x %d %q", p.Role, p.Layer, p.Generator, p.Seed, p.Tokens, p.Text)
		if p.Media != nil {
			fmt.Fprintf(b, " %+v", *p.Media)
		}
		fmt.Fprintln(b)
	}
}

// What a seed makes of each workload is pinned: it must stay the same in later
// versions, on other machines, or runs can't be repeated.
func TestFirstPromptsArePinned(t *testing.T) {
	var got strings.Builder
	for _, name := range Names() {
		s := NewSessions(42, lookup(t, name))
		var b bytes.Buffer
		for n := range uint64(5) {
			for _, g := range carryOut(t, s.Session(0, n), 0, 40, promptly) {
				describe(&b, &g.action, g.parts)
			}
			for _, g := range carryOut(t, s.User(1, uint32(n)), 0, 40, promptly) {
				describe(&b, &g.action, g.parts)
			}
		}
		sum := sha256.Sum256(b.Bytes())
		fmt.Fprintf(&got, "%s %s\n", name, hex.EncodeToString(sum[:8]))
	}
	golden := filepath.Join("testdata", "first-prompts.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("prompts are\n%s\nwant\n%s", got.String(), want)
	}
}

// saying is a server that answers with words of its own.
func saying(a *Action) Outcome {
	o := promptly(a)
	o.Text = fmt.Sprintf("answer %d of session %d to %d tokens", a.Turn, a.Session, a.Request.PromptTokens())
	return o
}

// The same seed says the same, byte for byte, however users and sessions are
// shared out over agents, and whatever else they do.
func TestAgentsSayTheSame(t *testing.T) {
	var r content.Renderer
	for _, name := range []string{"legal/case-research", "finance/strategy-simulation", "healthcare/clinical-reasoning"} {
		f := lookup(t, name)
		texts := func(agent, agents uint32) map[string][32]byte {
			s := NewSessions(7, lookup(t, name)) // each agent reads its own file
			out := map[string][32]byte{}
			for user := agent; user < 6; user += agents {
				said := func(kind string, all []asked) {
					for i, g := range all {
						var b []byte
						for j := range g.parts {
							b = r.AppendText(b, &g.parts[j])
							b = append(b, 0)
						}
						out[fmt.Sprintf("%s %d request %d", kind, user, i)] = sha256.Sum256(b)
					}
				}
				said("user", carryOut(t, s.User(0, user), 0, 6, saying))
				said("session", carryOut(t, s.Session(1, uint64(user)), 0, 6, saying))
			}
			return out
		}
		one := texts(0, 1)
		for _, agents := range []uint32{2, 5} {
			all := map[string][32]byte{}
			for agent := range agents {
				for k, v := range texts(agent, agents) {
					all[k] = v
				}
			}
			if len(all) != len(one) {
				t.Fatalf("%s: %d agents say %d prompts, one says %d", name, agents, len(all), len(one))
			}
			for k, v := range one {
				if all[k] != v {
					t.Errorf("%s: %s differs on %d agents", name, k, agents)
				}
			}
		}
		_ = f
	}
}

// A session of clinical reasoning is about one patient: what its turns bring names no
// other. With records for findings, as they were, each turn named one.
func TestClinicalReasoningIsAboutOnePatient(t *testing.T) {
	var r content.Renderer
	named := func(f *File, n uint64) (patients, turns int) {
		all := carryOut(t, NewSessions(5, f).Session(0, n), 0, 20, promptly)
		var text []byte
		for i := range all[len(all)-1].parts {
			text = r.AppendText(text, &all[len(all)-1].parts[i])
		}
		return bytes.Count(text, []byte("PATIENT: ")), len(all)
	}
	records, err := Lookup("healthcare/clinical-reasoning", scenario.Setting{Path: "prompt.turn.content", Value: "patient", Origin: "--set"})
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint64(20) {
		if patients, turns := named(lookup(t, "healthcare/clinical-reasoning"), n); patients != 1 || turns < 6 {
			t.Errorf("session %d of %d turns names %d patients", n, turns, patients)
		}
		if patients, turns := named(records, n); patients <= turns {
			t.Errorf("session %d: %d turns of records name only %d patients", n, turns, patients)
		}
	}
}

// anyFile draws a workload.
func anyFile(t *rapid.T) *File {
	var b strings.Builder
	w := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	n := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
	yes := func(name string) bool { return rapid.Bool().Draw(t, name) }
	w("name: test/any")
	w("session:")
	w("  turns: %d", n("turns", 1, 6))
	w("  history: %s", rapid.SampledFrom([]string{HistoryServer, HistoryRecorded, HistoryNone}).Draw(t, "history"))
	forks := yes("forks")
	if forks {
		b.Reset()
		w("name: test/any")
		w("session:")
		w("  turns: %d", n("turns", 1, 4))
	}
	if yes("bounded") {
		w("  max-context: %d", n("max", 400, 3000)) // room for the shortest first turn
	}
	if !forks && yes("tick") {
		w("  tick: %dms", n("tick", 1, 5000))
		if yes("superseded") {
			w("cancel: {when: superseded, share: 0.5}")
		}
	} else {
		w("  think: uniform:0s..%ds", n("think", 1, 20))
		if !forks && yes("cancelled") {
			w("cancel: {when: after, after: 10ms, share: 0.5}")
		}
	}
	w("prompt:")
	if yes("system") {
		w("  system: %d", n("system", 1, 300))
	}
	if yes("group") {
		w("  group: {tokens: uniform:10..90, %s: %d}", rapid.SampledFrom([]string{"users", "sets"}).Draw(t, "by"), n("group", 1, 5))
	}
	if yes("documents") {
		w("  session: {tokens: uniform:1..400, documents: uniform:1..3}")
	}
	w("  turn: uniform:1..50")
	w("output: {tokens: uniform:1..60}")
	if forks {
		w("fork: {branches: uniform:1..4, turn: 10, output: uniform:1..20, found: uniform:5..50}")
	} else {
		if yes("retrieval") {
			w("retrieval: {latency: uniform:0s..1s, passages: uniform:1..3, tokens: 40}")
		}
		if yes("tools") {
			w("tools: {share: 0.7, calls: uniform:1..3, tokens: 12, offer: [{name: a, result: 30, delay: 200ms}, {name: b, result: 10}]}")
		}
	}
	f, err := Read("any.yaml", []byte(b.String()), nil)
	if err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	return f
}

// unpredictable is a server of any behaviour.
func unpredictable(t *rapid.T) answer {
	return func(a *Action) Outcome {
		o := saying(a)
		o.Status = rapid.SampledFrom([]record.Status{record.OK, record.OK, record.OK, record.Failed, record.Cancelled}).Draw(t, "status")
		o.OutputTokens = int32(rapid.IntRange(0, a.Request.MaxTokens).Draw(t, "output"))
		o.Ended = a.At + int64(rapid.IntRange(0, 5e9).Draw(t, "time"))
		switch {
		case o.OutputTokens == 0 || o.Status == record.Failed:
			o.Text = ""
		case rapid.IntRange(0, 9).Draw(t, "uncounted") == 0:
			o.OutputTokens = record.Unknown
		}
		return o
	}
}

// same says whether two parts are the same text.
func same(a, b *message.Part) bool {
	return a.Role == b.Role && a.Generator == b.Generator && a.Seed == b.Seed && a.Tokens == b.Tokens && a.Text == b.Text && a.CallID == b.CallID
}

// shared is the number of parts that two prompts begin with alike.
func shared(a, b []message.Part) int {
	n := 0
	for n < len(a) && n < len(b) && same(&a[n], &b[n]) {
		n++
	}
	return n
}

// Whatever the server does: the context of a session only grows, every request
// begins with all of it, a question is asked once, and what one session says no
// other does, apart from what is declared as shared.
func TestSessionsAreAsTheyAreDeclared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFile(t)
		s := NewSessions(rapid.Uint64().Draw(t, "seed"), f)
		seen := map[uint64]string{} // seed of a part to whose it is
		numbers := map[uint64]bool{}
		for n := range uint64(3) {
			var m Machine
			if n < 2 {
				m = s.Session(0, n)
			} else {
				m = s.User(0, 1)
			}
			var context []message.Part // of the session, as far as it is known to be kept
			number, turn := uint64(1<<63), -1
			var ended int64
			for i, g := range drive2(t, m, 25, unpredictable(t)) {
				if g.action.Session != number {
					number, turn, context = g.action.Session, -1, nil
					if numbers[number] {
						t.Fatalf("session %d came twice", number)
					}
					numbers[number] = true
				}
				if int(g.action.Turn) < turn || int(g.action.Turn) > turn+1 && turn >= 0 {
					// A turn is left out when all the branches of its fork failed.
					if f.Fork == nil {
						t.Fatalf("turn %d follows turn %d", g.action.Turn, turn)
					}
				}
				if g.action.At < ended && !g.branch && f.Fork == nil {
					t.Fatalf("request %d is due at %d, before the one before ended at %d", i, g.action.At, ended)
				}
				ended = g.ended
				// The context of the session is where every prompt begins.
				if k := shared(context, g.parts); k < len(context) {
					t.Fatalf("request %d (turn %d) shares %d of %d parts of the context before", i, g.action.Turn, k, len(context))
				}
				if max := f.Session.MaxContext; g.action.Turn > 0 && tokensOf(g.parts)+g.req.MaxTokens > max && g.req.ToolChoice == "" {
					t.Fatalf("request %d of %d and %d tokens is over max-context %d", i, tokensOf(g.parts), g.req.MaxTokens, max)
				}
				turn = int(g.action.Turn)
				for j := range g.parts {
					p := &g.parts[j]
					if p.Tokens < 0 || p.Seed == 0 {
						t.Fatalf("part is %+v", p)
					}
					who := fmt.Sprint("session ", number)
					switch p.Layer {
					case message.LayerSystem:
						who = "everybody"
					case message.LayerGroup:
						who = "a group"
					default:
					}
					if was, ok := seen[p.Seed]; ok && was != who {
						t.Fatalf("%s says what %s does", who, was)
					}
					seen[p.Seed] = who
				}
				if f.Session.History != HistoryNone && !g.branch && g.action.Turn == uint32(turn) && g.kept && g.req.ToolChoice == "" && len(s.tools) == 0 {
					// The prompt stays, and the answer follows it.
					context = slices.Clone(g.parts)
				}
			}
		}
	})
}

func tokensOf(parts []message.Part) int {
	n := 0
	for i := range parts {
		n += parts[i].Tokens
	}
	return n
}

// drawn is a request and whether its turn was answered.
type drawn struct {
	asked
	kept bool
}

// drive2 drives a machine under rapid, which has no testing.TB to hand on.
func drive2(t *rapid.T, m Machine, most int, say answer) []drawn {
	var out []drawn
	var run func(m Machine, a Action, branch bool) (last Outcome)
	run = func(m Machine, a Action, branch bool) (last Outcome) {
		for len(out) < most {
			switch a.Kind {
			case Send:
				req := *a.Request
				req.Parts = slices.Clone(req.Parts)
				last = say(&a)
				again := req.Again && (last.Status == record.OK || last.Status == record.Cancelled)
				out = append(out, drawn{asked{a, req.Parts, req, branch, last.Ended}, again})
				a = m.Done(last.Ended, last)
			case Fork:
				var all Outcome
				for _, b := range slices.Clone(a.Branches) {
					o := run(b, b.Start(a.At), true)
					all.Ended = max(all.Ended, o.Ended)
				}
				a = m.Done(all.Ended, all)
			default:
				return last
			}
		}
		return last
	}
	run(m, m.Start(0), false)
	return out
}

// A session in the memory of an old one does what it would have done in its own.
func TestMachinesCanBeUsedAgain(t *testing.T) {
	for _, name := range Names() {
		s := NewSessions(3, lookup(t, name))
		var old Machine = s.Session(0, 9)
		carryOut(t, old, 0, 1000, saying)
		var a, b bytes.Buffer
		for _, g := range carryOut(t, s.Reuse(old, 0, 4), 0, 1000, saying) {
			describe(&a, &g.action, g.parts)
		}
		for _, g := range carryOut(t, s.Session(0, 4), 0, 1000, saying) {
			describe(&b, &g.action, g.parts)
		}
		if a.String() != b.String() {
			t.Errorf("%s: a machine used again does otherwise", name)
		}
	}
}

// A session of very many turns holds no more than its longest context, whether or
// not the server counts what it says.
func TestLongSessionsAreBounded(t *testing.T) {
	for _, counted := range []bool{true, false} {
		f, err := Read("long.yaml", []byte("name: long\nsession: {turns: 100000, max-context: 20000}\nprompt: {turn: 10}\noutput: 50\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		m := NewSessions(1, f).User(0, 0).(*session)
		a := m.Start(0)
		most, sessions := 0, map[uint64]bool{}
		for range 5000 {
			sessions[a.Session] = true
			bytes := 0
			for i := range m.parts {
				bytes += len(m.parts[i].Text)
			}
			if most = max(most, cap(m.parts)); bytes > 4*20_000 {
				t.Fatalf("a session holds %d bytes of text", bytes)
			}
			o := Outcome{Text: strings.Repeat("word ", 40), OutputTokens: 50, Ended: a.At + 1}
			if !counted {
				o.OutputTokens = record.Unknown
			}
			a = m.Done(o.Ended, o)
		}
		if most > 2*2*20_000/60 {
			t.Errorf("room for %d parts", most)
		}
		if n := len(sessions); n < 5000/(20_000/60)-1 || n > 5000/(20_000/60)+2 {
			t.Errorf("%d sessions", n)
		}
	}
}

// What a session foresees is what its next request brings, and asking changes
// nothing.
func TestForesee(t *testing.T) {
	for _, name := range append(Names(), "tools") {
		var f *File
		var err error
		if name == "tools" {
			f, err = Read("t.yaml", []byte(`{name: t, prompt: {session: 900, turn: 20}, output: 30, session: {turns: 3, history: recorded},
tools: {calls: 2, offer: [{name: a, result: 700}]}, media: [{kind: image, width: 9, height: 9, at: turn}]}`), nil)
		} else {
			f, err = Lookup(name)
		}
		if err != nil {
			t.Fatal(err)
		}
		asked, other := NewSessions(1, f).User(0, 0).(*session), NewSessions(1, f).User(0, 0)
		a, b := asked.Start(0), other.Start(0)
		var foreseen []message.Part
		new := 0
		brings := func(r *message.Request) {
			t.Helper()
			for i := range r.Parts {
				p := &r.Parts[i]
				if p.Layer == message.LayerHistory {
					continue
				}
				new++
				if !slices.ContainsFunc(foreseen, func(q message.Part) bool { return same(p, &q) }) {
					t.Fatalf("%s: a request brings %+v, which was not foreseen", name, *p)
				}
			}
		}
		for range 60 {
			if a.Kind != b.Kind || a.At != b.At || len(a.Branches) != len(b.Branches) {
				t.Fatalf("%s: asking has changed what comes: %+v instead of %+v", name, a, b)
			}
			if a.Kind == Fork {
				foreseen = slices.Clone(asked.parts)
				asked.Foresee(func(p *message.Part) { foreseen = append(foreseen, *p) }, func(func()) { t.Error("there is nothing to count") })
				for i := range a.Branches { // whose outcomes the join looks at
					x := a.Branches[i].Start(a.At)
					b.Branches[i].Start(a.At)
					brings(x.Request)
					o := Outcome{OutputTokens: int32(x.Request.MaxTokens), Text: ".", Ended: a.At}
					a.Branches[i].Done(a.At, o)
					b.Branches[i].Done(a.At, o)
				}
				a, b = asked.Done(a.At, Outcome{Ended: a.At}), other.Done(a.At, Outcome{Ended: a.At})
				continue
			}
			if foreseen != nil {
				brings(a.Request)
			}
			foreseen = slices.Clone(a.Request.Parts)
			asked.Foresee(func(p *message.Part) { foreseen = append(foreseen, *p) }, func(func()) { t.Error("there is nothing to count") })
			o := Outcome{OutputTokens: int32(a.Request.MaxTokens), Text: ".", Ended: a.At + 5}
			a, b = asked.Done(a.At+5, o), other.Done(a.At+5, o)
		}
		if new == 0 {
			t.Errorf("%s: nothing was compared", name)
		}
	}
}

// What a server called is answered by that tool, and what it could not read again is
// mended; where it called nothing, the recorded call stands in.
func TestCallsAreAnswered(t *testing.T) {
	f, err := Read("t.yaml", []byte(`{name: t, prompt: {turn: 20}, output: 30,
tools: {tokens: 12, offer: [{name: a, arguments: '{"x": 1}', result: 7, delay: 1s}, {name: b, result: 9, delay: 2s}]}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	told := func(calls ...message.Call) (Action, []message.Part) {
		m := NewSessions(4, f).Session(0, 0)
		if a := m.Start(0); a.Request.ToolChoice != "auto" || len(a.Request.Tools) != 2 || a.Request.MaxTokens != 12 {
			t.Fatalf("the first request is %+v", a.Request)
		}
		a := m.Done(10, Outcome{OutputTokens: 12, Calls: calls, Ended: 10, Text: "say"})
		return a, a.Request.Parts[1:]
	}
	a, parts := told(message.Call{ID: "c9", Name: "b", Arguments: `{"y":2}`}, message.Call{Name: "a", Arguments: `{"x`})
	if a.At != 10+2e9 || len(parts) != 3 || a.Request.ToolChoice != "" || a.Request.MaxTokens != 30 {
		t.Fatalf("the answer is asked for by %+v at %d with %+v", a.Request, a.At, parts)
	}
	said, b, x := &parts[0], &parts[1], &parts[2]
	if said.Role != message.Assistant || said.Text != "say" || len(said.Calls) != 2 || said.Calls[0] != (message.Call{ID: "c9", Name: "b", Arguments: `{"y":2}`}) || said.Calls[1].Arguments != `{"x": 1}` || said.Calls[1].ID == "" {
		t.Errorf("the calls in the history are %+v", said)
	}
	if b.Role != message.Tool || b.CallID != "c9" || b.Tokens != 9 || x.CallID != said.Calls[1].ID || x.Tokens != 7 {
		t.Errorf("the results are %+v and %+v", b, x)
	}
	_, parts = told()
	if len(parts) != 2 || len(parts[0].Calls) != 1 || parts[0].Calls[0].Name == "" || parts[1].CallID != parts[0].Calls[0].ID {
		t.Errorf("without a call of the server's the history is %+v", parts)
	}
	if _, again := told(); again[0].Calls[0] != parts[0].Calls[0] {
		t.Error("the recorded call is another each time")
	}
}

// A question that fails is kept out of the session, which says so from then on; a user
// who gives up begins another one. Nobody asks again.
func TestFailedQuestions(t *testing.T) {
	f := func(option string, fork bool, want string) {
		t.Helper()
		text := "{name: w, prompt: {session: 50, turn: 20}, output: 5, session: {turns: 3, history: recorded" + option + "}}"
		if fork {
			text = strings.TrimSuffix(text, "}") + ", fork: {branches: 2, turn: 3, output: 5}}"
		}
		n := 0
		out := carryOut(t, NewSessions(1, mustRead(t, text)).User(0, 0), 0, map[bool]int{true: 11, false: 5}[fork], func(a *Action) Outcome {
			o := promptly(a)
			if n++; a.Session == 0 && a.Turn == 1 {
				o.Status = record.Failed
			}
			return o
		})
		var got []string
		asked := map[uint64]bool{}
		for _, r := range out {
			question := r.parts[len(r.parts)-1]
			if asked[question.Seed] {
				t.Errorf("question %d is asked again", question.Seed)
			}
			asked[question.Seed] = true
			if r.branch {
				continue
			}
			s := fmt.Sprintf("%d.%d:%d", r.action.Session, r.action.Turn, len(r.parts))
			if r.action.Lost {
				s += "!"
			}
			got = append(got, s)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("on-failure %q: requests %q, want %q", option, s, want)
		}
	}
	// Document and question; the answer and another question; without what failed.
	f("", false, "0.0:2 0.1:4 0.2:4! 1.0:2 1.1:4")
	f(", on-failure: go-on", false, "0.0:2 0.1:4 0.2:4! 1.0:2 1.1:4")
	f(", on-failure: end", false, "0.0:2 0.1:4 1.0:2 1.1:4 1.2:6")
	// A round none of whose branches was answered is not joined.
	f("", true, "0.0:4 0.2:8! 1.0:4")
	f(", on-failure: end", true, "0.0:4 1.0:4 1.1:8")
}

// The length of media is a guess unless the file says it: it is nothing that was asked
// for.
func TestMediaLengthsAreGuesses(t *testing.T) {
	f := func(tokens string, want int, guessed bool) {
		t.Helper()
		w := mustRead(t, "{name: w, prompt: {turn: 10}, output: 5, media: [{kind: image, width: 100, height: 57"+tokens+"}]}")
		r := NewSessions(1, w).Session(0, 0).Start(0).Request
		if r.Guessed != guessed || r.PromptTokens() != want || r.TextTokens() != 10 {
			t.Errorf("with %q the prompt is %d tokens, %d of text, guessed %v", tokens, r.PromptTokens(), r.TextTokens(), r.Guessed)
		}
	}
	f("", 10+4*3, true)
	f(", tokens: 884", 894, false)
}
