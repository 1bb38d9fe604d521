package load

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll/internal/message"
	"plimsoll/internal/pace"
	"plimsoll/internal/play"
	"plimsoll/internal/random"
	"plimsoll/internal/record"
	"plimsoll/internal/workload"
	"plimsoll/internal/workload/content"
	"plimsoll/internal/workload/trace"
)

// watched is a renderer that notes what is made by goroutines that carry users out
// once their step has begun.
type watched struct {
	content.Renderer
	now func() int64

	mu     sync.Mutex
	start  int64 // of the step
	calls  int
	caught []string
}

func (w *watched) AppendText(dst []byte, p *message.Part) []byte {
	if p.Text == "" && p.Tokens >= pantryTokens {
		w.note(fmt.Sprintf("%d tokens of %s", p.Tokens, p.Generator))
	}
	return w.Renderer.AppendText(dst, p)
}

func (w *watched) AppendMedia(dst []byte, m *message.Media) []byte {
	w.note("an " + m.Kind.String())
	return w.Renderer.AppendMedia(dst, m)
}

// note looks at who calls.
func (w *watched) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	if w.now() < w.start {
		return // users get ready
	}
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if strings.HasSuffix(f.Function, "load.(*step).drive") || strings.HasSuffix(f.Function, "load.(*step).session") {
			w.caught = append(w.caught, fmt.Sprintf("%s at %v", what, time.Duration(w.now()-w.start)))
			return
		}
	}
}

// Nobody who sends makes a text of pantryTokens or more, or a medium, from the step's
// start on: it has been made before, however long the answers are that it goes by.
func TestNothingIsMadeOnTheSendPath(t *testing.T) {
	// Answers are of 2 tokens first, whatever was asked for, and of 300 from the third on.
	answers := answering(slowAnswer)
	for range 2 {
		answers.Responses = append(answers.Responses, answers.Responses[0])
	}
	last := &answers.Responses[2]
	last.Writes = []play.Write{last.Writes[0], {
		At: last.Writes[1].At, Text: strings.Replace(last.Writes[1].Text, `"completion_tokens":2`, `"completion_tokens":300`, 1),
	}}
	users := []Step{{Users: 2, Requests: 24, Drain: time.Hour}}
	arrivals := []Step{{Rate: 0.5, Requests: 12, Drain: time.Hour}}
	run := func(t *testing.T, keepText, cuts bool, set func(t *testing.T, g *rig, w *watched)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, answers)
			w := &watched{now: g.cfg.Clock.Now}
			g.cfg.Renderer = w
			if cuts {
				g.cfg.Renderer = &trace.Renderer{Inner: w}
			}
			g.cfg.KeepText = keepText
			g.cfg.Begun = func(s StepResult) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.start = s.Start
			}
			set(t, g, w)
			g.run()
			for i, what := range w.caught {
				if i < 10 {
					t.Errorf("who sends made %s", what)
				}
			}
			for _, q := range g.records {
				if q.Status == record.OK && q.Start != q.Scheduled {
					t.Errorf("request %d is %d ns late", q.ID, q.Start-q.Scheduled)
				}
			}
			if ok := g.count()["ok"]; ok < 4 {
				t.Errorf("%v requests", g.count())
			}
			if w.calls == 0 && !strings.Contains(t.Name(), "bodies") {
				t.Error("nothing was made at all")
			}
		})
	}
	sessions := func(name, text string) {
		t.Helper()
		for way, steps := range map[string][]Step{"users": users, "arrivals": arrivals} {
			t.Run(name+"/"+way, func(t *testing.T) {
				run(t, true, false, func(t *testing.T, g *rig, _ *watched) {
					g.cfg.Population = workload.NewSessions(1, file(t, text))
					g.cfg.Steps = steps
				})
			})
		}
	}
	sessions("recorded answers", "{name: w, prompt: {system: 400, session: 3000, turn: 200}, output: 300, session: {turns: 4, history: recorded}}")
	sessions("the server's answers", "{name: w, prompt: {group: {tokens: 400, sets: 2}, session: 3000, turn: 200}, output: 300, session: {turns: 4}}")
	sessions("a context that is full", "{name: w, prompt: {session: 3000, turn: 200}, output: 300, session: {turns: 9, max-context: 3900}}")
	sessions("no history", "{name: w, prompt: {turn: 200}, output: 300, session: {history: none}}")
	for _, history := range []string{"server", "recorded"} {
		sessions("forks with answers of "+history, "{name: w, prompt: {session: 900, turn: 200}, output: 50, session: {turns: 2, history: "+history+"}, fork: {branches: 3, turn: 90, output: 40, found: 100}}")
		sessions("tools with answers of "+history, "{name: w, prompt: {session: 900, turn: 200}, output: 300, session: {turns: 3, history: "+history+"}, tools: {calls: 2, offer: [{name: a, result: 700}]}, media: [{kind: image, width: 9, height: 9, at: turn}, {kind: audio, seconds: 0.1}]}")
	}
	sessions("a search", "{name: w, prompt: {session: 900, turn: 200}, output: 50, session: {turns: 3}, retrieval: {passages: 4, tokens: 100, latency: 0s}}")
	sessions("a search at a URL", `{name: w, prompt: {session: 900, turn: 200}, output: 50, session: {turns: 3}, retrieval: {passages: 4, tokens: 100, url: "http://server:80/search"}}`)

	synthetic := func() *workload.Synthetic {
		return &workload.Synthetic{Seed: 3, Prompt: random.Dist{Kind: random.Uniform, A: 100, B: 400}, Output: random.Dist{A: 20}}
	}
	for way, steps := range map[string][]Step{"users": users, "arrivals": arrivals} {
		t.Run("requests alone/"+way, func(t *testing.T) {
			run(t, false, false, func(_ *testing.T, g *rig, _ *watched) { g.cfg.Population, g.cfg.Steps = synthetic(), steps })
		})
	}
	t.Run("users beside rates", func(t *testing.T) {
		run(t, true, false, func(t *testing.T, g *rig, w *watched) {
			w.BytesPerToken = map[string]int{"contract": 3000, "words": 9000} // calibrated lengths
			parts := []workload.Population{
				workload.NewSessions(1, file(t, "{name: a, prompt: {session: {tokens: 900, content: contract}, turn: 200}, output: 300, session: {turns: 3}}")),
				synthetic(),
				workload.NewSessions(1, file(t, "{name: b, prompt: {session: 900, turn: 200}, output: 50, session: {turns: 2}, fork: {branches: 3, turn: 90, output: 40, found: 100}}")),
			}
			mixed, err := workload.NewParallel(parts, []int{2, 1, 0})
			if err != nil {
				t.Fatal(err)
			}
			g.cfg.Population = mixed
			g.cfg.Steps = []Step{{Users: 3, Rate: 0.2, Streams: []pace.Stream{{Rate: 0.2}}, Duration: 2 * time.Minute, Drain: time.Hour}}
		})
	})

	replays := func(name string, o trace.ReplayOptions, format, rows string) {
		t.Helper()
		for _, generator := range []string{"words", "contract"} {
			t.Run(name+"/"+generator, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "rows.jsonl")
				if err := os.WriteFile(path, []byte(rows), 0o600); err != nil {
					t.Fatal(err)
				}
				tr, err := trace.Load(path, trace.Options{Format: format}, trace.Selection{})
				if err != nil {
					t.Fatal(err)
				}
				run(t, false, true, func(t *testing.T, g *rig, w *watched) {
					o.Generator = generator
					w.BytesPerToken = map[string]int{"contract": 3000, "words": 9000}
					p, err := trace.NewReplay(tr, o)
					if err != nil {
						t.Fatal(err)
					}
					g.cfg.Population = p
					if g.cfg.Steps = []Step{{Users: 2, Requests: 24, Drain: time.Hour}}; !o.Untimed {
						times, err := pace.At(p.Starts())
						if err != nil {
							t.Fatal(err)
						}
						g.cfg.Steps = []Step{{Rate: 1, Times: times, Requests: p.Groups(), Drain: time.Hour}}
					}
				})
			})
		}
	}
	turns := func(first string, row func(i int) string) string {
		var b strings.Builder
		for i := range 6 {
			at := `"delay": 0`
			if i == 0 {
				at = `"timestamp": 0` + first
			}
			fmt.Fprintf(&b, `{"session_id": "a", %s, %s}`+"\n", at, row(i))
		}
		return b.String()
	}
	lengths := turns("", func(i int) string { return fmt.Sprintf(`"input_length": %d, "output_length": 300`, 500*(i+1)) })
	for _, timing := range []trace.Timing{trace.Causal, trace.Absolute} {
		replays("turns of lengths, "+string(timing), trace.ReplayOptions{Timing: timing}, "mooncake", lengths)
	}
	replays("a data set of lengths", trace.ReplayOptions{Untimed: true}, "mooncake", lengths+strings.ReplaceAll(lengths, `"a"`, `"b"`))
	replays("answers without a limit", trace.ReplayOptions{}, "mooncake", strings.ReplaceAll(lengths, `, "output_length": 300`, ""))
	replays("turns that begin anew", trace.ReplayOptions{}, "mooncake", turns("", func(i int) string {
		return fmt.Sprintf(`"input_length": %d, "output_length": 300`, 1500-500*(i%3))
	}))
	own := func(row func(i int) string) string {
		var b strings.Builder
		for i := range 6 {
			at := ""
			if i == 0 {
				at = `"at_ns": 0, `
			}
			fmt.Fprintf(&b, `{%s"session": "a", "id": "%d", %s}`+"\n", at, i, row(i))
		}
		return b.String()
	}
	replays("turns that bring what is new", trace.ReplayOptions{}, "plimsoll", own(func(int) string { return `"input_tokens": 200, "output_tokens": 300, "delta": true` }))
	replays("turns that keep a prefix", trace.ReplayOptions{}, "plimsoll", own(func(i int) string {
		return fmt.Sprintf(`"input_tokens": %d, "output_tokens": 300, "prefix_tokens": %d`, 500*(i+1), max(0, 500*i+100))
	}))
	replays("forks and joins", trace.ReplayOptions{}, "plimsoll", `{"at_ns": 0, "id": "1", "session": "a", "input_tokens": 400, "output_tokens": 300}
{"id": "2", "session": "a", "input_tokens": 900, "output_tokens": 300}
{"id": "3", "session": "b", "parent_session": "a", "forked": true, "after": ["1"], "input_tokens": 950, "output_tokens": 300}
{"id": "4", "session": "c", "after": ["1"], "input_tokens": 350, "output_tokens": 300}
{"id": "5", "session": "a", "after": ["3", "4"], "input_tokens": 2000, "output_tokens": 300}
{"id": "6", "session": "a", "input_tokens": 2500, "output_tokens": 300}
{"at_ns": 0, "id": "7", "session": "d", "input_tokens": 400, "output_tokens": 300}
{"id": "8", "session": "e", "after": ["7", "6"], "input_tokens": 400, "output_tokens": 300}
`)
	replays("blocks", trace.ReplayOptions{}, "mooncake", turns("", func(i int) string {
		return fmt.Sprintf(`"input_length": %d, "output_length": 300, "hash_ids": [1, %d, %d]`, 1200+i, i+2, i+20)
	}))
	replays("images", trace.ReplayOptions{ImageWidth: 9, ImageHeight: 9}, "plimsoll", own(func(int) string {
		return `"images": 2, "output_tokens": 300, "messages": [{"role": "user", "text": "look"}]`
	}))
	replays("raw bodies", trace.ReplayOptions{Untimed: true}, "raw-payload", strings.Repeat(`{"model": "m", "messages": [{"role": "user", "content": "Say it"}], "max_tokens": 300}`+"\n", 6))
}
