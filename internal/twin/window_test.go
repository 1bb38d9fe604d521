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

// drawWindows is an engine whose sequences give back what leaves their window.
func drawWindows(t *rapid.T) EngineConfig {
	seqs := rapid.IntRange(1, 8).Draw(t, "max seqs")
	cfg := EngineConfig{
		Timer: FixedStep(time.Millisecond), MaxNumSeqs: seqs,
		MaxNumBatchedTokens: rapid.IntRange(seqs, 100).Draw(t, "budget"), BlockTokens: rapid.SampledFrom([]int{16, 5, 1}).Draw(t, "block"),
		Policy: rapid.SampledFrom([]Policy{VLLM, VLLM, TRTLLM, SGLang}).Draw(t, "policy"), PrefixCache: rapid.Bool().Draw(t, "prefix cache"),
		Window:     rapid.IntRange(1, 60).Draw(t, "window"),
		FullBlocks: rapid.IntRange(0, 3).Draw(t, "full"), WindowBlocks: rapid.IntRange(1, 4).Draw(t, "in windows"),
		WholePrompts: rapid.IntRange(0, 3).Draw(t, "whole prompts") == 0,
	}
	cfg.PrefixCache = cfg.PrefixCache && cfg.FullBlocks > 0
	cfg.Blocks = rapid.IntRange(100, 500).Draw(t, "tokens") * (cfg.FullBlocks + cfg.WindowBlocks) / cfg.BlockTokens
	cfg.Blocks = max(cfg.Blocks, 1)
	return cfg
}

// An engine that skips rows of steps has the blocks and admits the sequences of one
// that takes them one by one.
func TestLeapsGiveBackWindows(t *testing.T) {
	leaps := 0
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawWindows(t)
		var engines [2]*Engine
		for i := range engines {
			e, err := NewEngine(cfg)
			if err != nil {
				t.Fatal(err)
			}
			engines[i] = e
		}
		leaping, stepping := engines[0], engines[1]
		now := 0.0
		turn := func() bool {
			length, ok := leaping.Begin(now)
			if _, other := stepping.Begin(now); other != ok {
				t.Fatalf("idle: %v and %v", ok, other)
			}
			if !ok {
				return false
			}
			n := leaping.Ahead()
			leaping.Leap(n)
			for range n - 1 {
				if len(stepping.batch.Chunks) > 0 || stepping.preempted {
					t.Fatalf("a step of %d in a row has chunks or a preemption: %v", n, stepping)
				}
				now += length
				stepping.End(now, nil)
				if len(stepping.Done()) > 0 {
					t.Fatalf("a step of %d in a row finishes somebody", n)
				}
				stepping.Begin(now)
				leaps++
			}
			now += length
			leaping.End(now, nil)
			stepping.End(now, nil)
			a, b := leaping, stepping
			if a.free != b.free || a.tick != b.tick || a.promised != b.promised || a.Counters != b.Counters || a.Load() != b.Load() || a.batch.KV != b.batch.KV {
				t.Fatalf("after %d steps:\n%v %+v\n%v %+v", n, a, a.Counters, b, b.Counters)
			}
			return true
		}
		for range rapid.IntRange(1, 40).Draw(t, "turns") {
			if rapid.Bool().Draw(t, "submit") {
				prompt, output := rapid.IntRange(1, 90).Draw(t, "prompt"), rapid.IntRange(1, 150).Draw(t, "output")
				content := rapid.IntRange(0, prompt).Draw(t, "shared")
				if leaping.Fits(prompt, output) != nil {
					continue
				}
				for _, e := range engines {
					e.Submit(&Seq{Prompt: prompt, Output: output, Content: []Extent{{1, content}}, Account: Account{Arrival: now}})
				}
			}
			turn()
		}
		for n := 0; turn(); n++ {
			if n > 100_000 {
				t.Fatalf("does not end: %v", leaping)
			}
			check(t, leaping)
		}
		if leaping.free != cfg.Blocks {
			t.Fatalf("at the end: %v", leaping)
		}
	})
	if leaps < 100 { // what the short form, of a fifth of the draws, makes many times over
		t.Errorf("%d steps skipped", leaps)
	}
}

// Memory stops growing at the window: two blocks of 16 hold the 16 tokens that are
// seen, wherever they begin, and the layers that see everything go on.
func TestWindowBoundsMemory(t *testing.T) {
	tests := []struct {
		name   string
		cfg    EngineConfig
		most   int // blocks
		steady int
	}{
		// 30 + 470 tokens are 32 blocks of tokens, the last token of all is never
		// computed. The 31st computed token moves the first block out of a window of 16,
		// the 33rd needs a third.
		{"all", EngineConfig{Window: 16, WindowBlocks: 1}, 2, 2},
		{"half", EngineConfig{Window: 16, FullBlocks: 1, WindowBlocks: 1}, 34, 34},
		// A window of 100 begins 7 blocks before the one it ends in, but in the last
		// step, which sees tokens 400 to 499, it begins with one.
		{"most", EngineConfig{Window: 100, FullBlocks: 1, WindowBlocks: 5}, 32 + 5*8, 32 + 5*7},
		{"none", EngineConfig{}, 32, 32},
	}
	for _, tt := range tests {
		tt.cfg.MaxNumSeqs, tt.cfg.MaxNumBatchedTokens, tt.cfg.Blocks = 1, 30, 1000
		e := newTestEngine(t, tt.cfg)
		e.Submit(&Seq{Prompt: 30, Output: 471})
		most, last := 0, 0
		for now := 0.0; ; now += 1e6 {
			if _, ok := e.Begin(now); !ok {
				break
			}
			last = e.cfg.Blocks - e.free
			most = max(most, last)
			e.End(now, nil)
		}
		if most != tt.most || last != tt.steady {
			t.Errorf("%s: %d blocks at most, %d in the last step, want %d and %d", tt.name, most, last, tt.most, tt.steady)
		}
		if e.free != 1000 {
			t.Errorf("%s: %d blocks free in the end", tt.name, e.free)
		}
	}
}

// The catalogue's models with windows hold what their layers need: shares of a block
// by groups of layers, and contexts as long as the memory allows.
func TestSharesOfWindows(t *testing.T) {
	tests := []struct {
		model, engine string
		full, window  int
		bytes         float64
	}{
		// 18 and 18 layers of 8 heads of 64, keys and values in bf16.
		{"gpt-oss-120b", "vllm", 1, 1, 18 * 2048},
		// 10 of 62 layers see everything: six groups of 10 for the 52 others, the last not full.
		{"gemma-3-27b", "vllm", 1, 6, 10 * 8192},
		{"gemma-3-27b", "sglang", 5, 26, 2 * 8192},
		{"gemma-3-12b", "vllm", 1, 5, 8 * 8192},
		// 9 layers of 4 heads of 192 + 128, 39 of 8.
		{"mimo-v2-flash", "vllm", 1, 10, 9 * 2560},
		{"mimo-v2-flash", "trtllm", 3, 26, 3 * 2560},
		// Chunks keep everything: one share of 48 layers.
		{"llama-4-scout", "vllm", 1, 0, 48 * 4096},
		{"llama-3.1-8b", "vllm", 1, 0, 32 * 4096},
	}
	for _, tt := range tests {
		l := testLayout(t, tt.model, "b300", 1, BF16)
		var err error
		if l.Engine, err = Builtin().Engine(tt.engine); err != nil {
			t.Fatal(err)
		}
		full, window, bytes := l.kvShares()
		if full != tt.full || window != tt.window || bytes != tt.bytes {
			t.Errorf("%s on %s: shares %d and %d of %v bytes, want %d and %d of %v", tt.model, tt.engine, full, window, bytes, tt.full, tt.window, tt.bytes)
		}
	}
}
