package twin

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/internal/random"
	"plimsoll/internal/workload"
)

// windowed is a step time that only asks for a window.
type windowed struct {
	FixedStep
	window int
}

func (w windowed) Window() int { return w.window }

// The engine's sum of cut contexts is what counting them one by one gives, in every
// step, whatever is preempted or cancelled.
func TestSumOfCutContexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := rapid.IntRange(1, 60).Draw(t, "window")
		e, err := NewEngine(EngineConfig{
			Timer: windowed{FixedStep(time.Millisecond), window}, MaxNumSeqs: 8,
			MaxNumBatchedTokens: rapid.IntRange(8, 100).Draw(t, "budget"), Blocks: rapid.IntRange(8, 30).Draw(t, "blocks"),
		})
		if err != nil {
			t.Fatal(err)
		}
		now := 0.0
		var all []*Seq
		for range 200 {
			switch rapid.IntRange(0, 9).Draw(t, "action") {
			case 0, 1:
				s := &Seq{Prompt: rapid.IntRange(1, 70).Draw(t, "prompt"), Output: rapid.IntRange(1, 50).Draw(t, "output")}
				if e.Fits(s.Prompt, s.Output) == nil {
					e.Submit(s)
					all = append(all, s)
				}
			case 2:
				if len(all) > 0 {
					e.Cancel(rapid.SampledFrom(all).Draw(t, "victim"))
				}
			}
			length, ok := e.Begin(now)
			if !ok {
				continue
			}
			sum, growing := int64(0), 0
			for s := e.running.head; s != nil; s = s.next {
				if s.state == decoding {
					c := s.context(e.tick) + 1
					sum += int64(min(c, window))
					if c < window {
						growing++
					}
				}
			}
			if b := e.Batch(); b.Windowed != sum || b.Growing != growing {
				t.Fatalf("the batch has %d tokens in windows, %d of them growing; counted %d and %d", b.Windowed, b.Growing, sum, growing)
			}
			now += length
			e.End(now, nil)
		}
	})
}

// windowCluster is a model of which half the layers see 64 tokens.
func windowCluster(t testing.TB, attention ModelAttention) *Cluster {
	t.Helper()
	cl := testCluster(t, ClusterConfig{Model: "qwen3-8b", MaxNumSeqs: 32, MaxNumBatchedTokens: 300})
	m := *cl.Model
	m.Attention = attention
	if err := m.check(); err != nil {
		t.Fatal(err)
	}
	cl.Model, cl.Layout.Model = &m, &m
	cl.Engine.Timer = NewRoofline(Builtin(), cl.Layout)
	return cl
}

// Rows of steps that are skipped end where a sequence fills its window: the times
// of all tokens are those of stepping through them.
func TestSkippedWindows(t *testing.T) {
	shapes := map[string]ModelAttention{
		"window": {Kind: GQA, Heads: 32, KVHeads: 8, HeadDim: 128, Window: 64, WindowLayers: 18},
		"sparse": {Kind: MLA, Heads: 32, HeadDim: 128, ValueDim: 128, QueryRank: 1536, KVRank: 512, RopeDim: 64, IndexHeads: 64, IndexDim: 128, TopK: 200},
	}
	for name, shape := range shapes {
		cl := windowCluster(t, shape)
		run := func(stepping bool) (*Prediction, *kept) {
			k := &kept{events: true}
			p := predict(t, &PredictConfig{
				Cluster: cl, Seed: 3, Stream: true, Exact: true, Sink: k, stepping: stepping,
				Population: &workload.Synthetic{
					Seed: 3, Prompt: random.Dist{Kind: random.Uniform, A: 1, B: 150}, Output: random.Dist{Kind: random.Uniform, A: 1, B: 400}, Exact: true,
				},
				Steps: []Step{{Users: 12, Requests: 120, Drain: time.Hour}},
			})
			return p, k
		}
		p, a := run(false)
		q, b := run(true)
		if p.Counters != q.Counters || len(a.requests) != len(b.requests) {
			t.Fatalf("%s: counters %+v, stepped %+v", name, p.Counters, q.Counters)
		}
		for i := range a.requests {
			x, y := a.requests[i].Events, b.requests[i].Events
			if len(x) != len(y) {
				t.Fatalf("%s: request %d has %d tokens, stepped %d", name, i, len(x), len(y))
			}
			for j := range x {
				if !nearly(x[j].At, y[j].At) {
					t.Fatalf("%s: request %d: token %d at %d, stepped at %d", name, i, j, x[j].At, y[j].At)
				}
			}
		}
		if p.Events*2 > q.Events {
			t.Errorf("%s: %d events with skipping, %d without", name, p.Events, q.Events)
		}
	}
}

// The number of pairs of tokens of a chunk is what counting them gives, up to the
// half pair per token that the formula rounds.
func TestPairsOfTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Chunk{New: rapid.IntRange(1, 300).Draw(t, "new"), Past: rapid.IntRange(0, 300).Draw(t, "past")}
		window := rapid.IntRange(1, 400).Draw(t, "window")
		want := 0.0
		for i := 1; i <= c.New; i++ {
			want += math.Min(float64(c.Past+i), float64(window))
		}
		got := pairs(c, float64(window))
		if math.Abs(got-want) > float64(c.New)/2+1e-9 {
			t.Errorf("%+v in a window of %d: %v pairs, counted %v", c, window, got, want)
		}
	})
}
