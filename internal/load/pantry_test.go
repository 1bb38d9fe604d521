package load

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll/internal/message"
	"plimsoll/internal/pace"
	"plimsoll/internal/record"
	"plimsoll/internal/workload"
	"plimsoll/internal/workload/content"
	"plimsoll/internal/workload/trace"
)

// dawdler is a renderer that takes a second for a long text and notes what it made.
type dawdler struct {
	content.Renderer
	mu   sync.Mutex
	made map[uint64]int // by seed
}

func (s *dawdler) AppendText(dst []byte, p *message.Part) []byte {
	if p.Tokens >= 256 {
		time.Sleep(time.Second)
		s.mu.Lock()
		s.made[p.Seed]++
		s.mu.Unlock()
	}
	return s.Renderer.AppendText(dst, p)
}

const slowAnswer = 6 * time.Second

func file(t *testing.T, text string) *workload.File {
	t.Helper()
	f, err := workload.Read("test.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// What a session will say is made while the answer before it comes, and once: a
// user who does not think is never late for it.
func TestPromptsAreMadeAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(slowAnswer))
		r := &dawdler{made: map[uint64]int{}}
		g.cfg.Renderer = r
		g.cfg.Population = workload.NewSessions(1, file(t, "{name: w, prompt: {system: 400, session: 5000, turn: 500}, output: 2, session: {turns: 3, history: recorded}}"))
		g.cfg.Steps = []Step{{Users: 2, Requests: 20, Drain: time.Hour}}
		g.run()
		if len(g.records) != 20 {
			t.Fatalf("%d records", len(g.records))
		}
		for _, q := range g.byID() {
			if q.Status != record.OK || q.Start != q.Scheduled {
				t.Errorf("request %d of session %d, turn %d: %v, %d ns late", q.ID, q.Session, q.Turn, q.Status, q.Start-q.Scheduled)
			}
		}
		again := 0
		for _, n := range r.made {
			if n > 1 {
				again += n - 1
			}
		}
		// The rehearsal makes its prompt twice, and the system's text with it.
		if again > 5 {
			t.Errorf("%d texts were made again", again)
		}
	})
}

// What the turns and the next requests of a trace bring is made while an answer
// comes, and its given text is counted then: nobody is late for it. Blocks may be short.
func TestReplayedPromptsAreMadeAhead(t *testing.T) {
	f := func(name string, untimed, counts bool, row func(i int) string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			t.Helper()
			var rows strings.Builder
			for i := range 12 {
				rows.WriteString(row(i) + "\n")
			}
			path := filepath.Join(t.TempDir(), "rows.jsonl")
			if err := os.WriteFile(path, []byte(rows.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			tr, err := trace.Load(path, trace.Options{Format: "mooncake"}, trace.Selection{})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, answering(slowAnswer))
				r := &dawdler{made: map[uint64]int{}}
				g.cfg.Renderer = &trace.Renderer{Inner: r}
				o := trace.ReplayOptions{Untimed: untimed, Exact: true}
				var counted atomic.Int64
				if counts {
					o.Count = func(text string) int {
						time.Sleep(time.Second)
						counted.Add(1)
						return len(text)
					}
				}
				replay, err := trace.NewReplay(tr, o)
				if err != nil {
					t.Fatal(err)
				}
				g.cfg.Population = replay
				want := 10
				g.cfg.Steps = []Step{{Users: 1, Requests: want, Drain: time.Hour}}
				if !untimed {
					want = 12
					times, err := pace.At(replay.Starts())
					if err != nil {
						t.Fatal(err)
					}
					g.cfg.Steps = []Step{{Rate: 1, Times: times, Requests: replay.Groups(), Drain: time.Hour}}
				}
				g.run()
				if len(g.records) != want {
					t.Fatalf("%d records", len(g.records))
				}
				for _, q := range g.byID() {
					if q.Status != record.OK || q.Start != q.Scheduled {
						t.Errorf("request %d of session %d, turn %d: %v, %d ns late", q.ID, q.Session, q.Turn, q.Status, q.Start-q.Scheduled)
					}
				}
				if made := len(r.made) + int(counted.Load()); made < 10 {
					t.Errorf("%d texts were made or counted", made)
				}
			})
		})
	}
	// Of a data set a user goes from one row to the next.
	f("blocks of a data set", true, false, func(i int) string {
		return fmt.Sprintf(`{"timestamp": %d, "input_length": 1030, "output_length": 2, "hash_ids": [0, %d, %d]}`, i, 2*i+1, 2*i+2)
	})
	// Turns that come at once.
	f("turns with blocks", false, false, func(i int) string {
		if i == 0 {
			return `{"session_id": "a", "timestamp": 0, "input_length": 512, "output_length": 2, "hash_ids": [1]}`
		}
		return fmt.Sprintf(`{"session_id": "a", "delay": 0, "input_length": 1024, "output_length": 2, "hash_ids": [1, %d]}`, i+1)
	})
	f("turns of lengths", false, false, func(i int) string {
		if i == 0 {
			return `{"session_id": "a", "timestamp": 0, "input_length": 500, "output_length": 2}`
		}
		return fmt.Sprintf(`{"session_id": "a", "delay": 0, "input_length": %d, "output_length": 2}`, 500*(i+1))
	})
	// The answers are of 2 tokens, so that each turn needs another text than was likely.
	f("turns of lengths whose answers are short", false, false, func(i int) string {
		if i == 0 {
			return `{"session_id": "a", "timestamp": 0, "input_length": 500, "output_length": 400}`
		}
		return fmt.Sprintf(`{"session_id": "a", "delay": 0, "input_length": %d, "output_length": 400}`, 900*(i+1))
	})
	f("given text", false, true, func(i int) string {
		first := ""
		if i == 0 {
			first = `"timestamp": 0, `
		} else {
			first = `"delay": 0, `
		}
		return fmt.Sprintf(`{"session_id": "a", %s"message_mode": "delta", "messages": [{"role": "user", "content": "Say %d"}], "output_length": 2}`, first, i)
	})
	f("the given text of a data set", true, true, func(i int) string {
		return fmt.Sprintf(`{"timestamp": %d, "text_input": "Say %d", "output_length": 2}`, i, i)
	})
}

// What is kept is bounded, and what was used last is kept.
func TestPantryIsBounded(t *testing.T) {
	p := newPantry(workload.Words{}, 10_000)
	defer p.close()
	part := func(seed uint64) *message.Part {
		return &message.Part{Generator: workload.WordsGenerator, Seed: seed, Tokens: 500}
	}
	for i := range uint64(50) {
		want := string(workload.Words{}.AppendText(nil, part(i)))
		if got := string(p.AppendText(nil, part(i))); got != want {
			t.Fatalf("part %d is %q, want %q", i, got, want)
		}
		if string(p.AppendText(nil, part(0))) == want && i > 0 {
			t.Fatal("two seeds, one text")
		}
	}
	if p.bytes > 10_000 || p.bytes < 5_000 || p.order.Len() != len(p.kept) {
		t.Errorf("%d bytes in %d of %d servings are kept", p.bytes, p.order.Len(), len(p.kept))
	}
	has := func(part *message.Part) bool { return p.kept[dishOf(part)] != nil }
	if !has(part(0)) || !has(part(49)) || has(part(1)) {
		t.Error("it is not the last used that are kept")
	}
	short := part(99)
	short.Tokens = pantryTokens - 1
	if p.AppendText(nil, short); has(short) {
		t.Error("a short text is kept")
	}
}

// Bodies beyond what one process holds are failures of this machine, and buffers of
// great ones are not kept.
func TestTooManyBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := func(s Step) {
			t.Helper()
			g := newRig(t, answering(slowAnswer))
			var r *run
			g.cfg.limit = func(x *run) { x.most, r = 100_000, x }
			g.cfg.Renderer = new(content.Renderer)
			g.cfg.Population = workload.NewSessions(1, file(t, "{name: w, prompt: {turn: 8000}, output: 2, session: {history: none}}"))
			g.cfg.Steps = []Step{s}
			g.run()
			ok, resource := 0, 0
			for _, q := range g.records {
				switch {
				case q.Status == record.OK:
					ok++
				case q.Error == record.ClientResource && strings.Contains(q.Message, "at most 100000"):
					resource++
				}
			}
			if ok == 0 || resource == 0 || ok+resource != len(g.records) {
				t.Errorf("%+v: %d ok and %d without room of %d", s, ok, resource, len(g.records))
			}
			if n := r.bodies.Load(); n != 0 {
				t.Errorf("%+v: %d bytes of bodies are left at the end", s, n)
			}
			if kept := r.release(make([]byte, 0, keepBody+1)); kept != nil {
				t.Error("the buffer of a great body is kept")
			}
		}
		f(Step{Users: 8, Requests: 8, Drain: time.Hour})
		f(Step{Rate: 4, Duration: 4 * time.Second, Drain: time.Hour})
	})
}

// Media are sent as the library makes them, by the rules of the dialect.
func TestMediaAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(slowAnswer))
		g.cfg.Renderer = new(content.Renderer)
		g.cfg.Population = workload.NewSessions(1, file(t, `{name: w, prompt: {turn: 20}, output: 2, session: {turns: 2, think: 1s},
media: [{kind: image, width: 64, height: 48}, {kind: audio, seconds: 0.1, at: turn}]}`))
		g.cfg.Steps = []Step{{Users: 1, Requests: 2, Drain: time.Hour}}
		g.run()
		var sent [2]struct {
			Messages []struct{ Content any }
		}
		for i, q := range g.server.Requests() {
			if err := json.Unmarshal(q.Body, &sent[i]); err != nil {
				t.Fatal(err)
			}
		}
		parts := sent[0].Messages[0].Content.([]any)
		image := parts[0].(map[string]any)["image_url"].(map[string]any)["url"].(string)
		if !strings.HasPrefix(image, "data:image/jpeg;base64,/9j/") || len(parts) != 3 {
			t.Errorf("the first request has %d parts and the image %.40q", len(parts), image)
		}
		again := sent[1].Messages[0].Content.([]any)
		if again[0].(map[string]any)["image_url"].(map[string]any)["url"] != image || len(sent[1].Messages) != 3 {
			t.Error("the second turn does not bring the session's image again")
		}
	})
}
