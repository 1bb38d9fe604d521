package twin

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// newTestEngine has steps of 10 ms, so that only scheduling decisions matter.
func newTestEngine(t testing.TB, cfg EngineConfig) *Engine {
	t.Helper()
	cfg.Timer = FixedStep(10 * time.Millisecond)
	e, err := NewEngine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// trace runs steps and writes down what each did: the chunks as name:new+past,
// the tokens sampled as name#index, then free blocks.
type trace struct {
	e     *Engine
	now   float64
	lines []string
}

func (tr *trace) steps(n int) {
	for range n {
		length, ok := tr.e.Begin(tr.now)
		if !ok {
			tr.lines = append(tr.lines, "idle")
			return
		}
		var b strings.Builder
		fmt.Fprintf(&b, "d%d", tr.e.batch.Decodes)
		for i, s := range tr.e.plan {
			c := tr.e.batch.Chunks[i]
			fmt.Fprintf(&b, " %s:%d+%d", s.Owner, c.New, c.Past)
		}
		b.WriteString(" |")
		tr.now += length
		tr.e.End(tr.now, func(s *Seq, index int, last bool) {
			fmt.Fprintf(&b, " %s#%d", s.Owner, index)
			if last {
				b.WriteByte('.')
			}
		})
		fmt.Fprintf(&b, " | free %d", tr.e.free)
		tr.lines = append(tr.lines, b.String())
	}
}

func (tr *trace) submit(name string, prompt, output int) *Seq {
	s := &Seq{Prompt: prompt, Output: output, Owner: name, Account: Account{Arrival: tr.now}}
	tr.e.Submit(s)
	return s
}

// Each table is worked by hand from the scheduler's rules.
func TestScheduler(t *testing.T) {
	tests := []struct {
		name, rule string
		cfg        EngineConfig
		do         func(tr *trace)
		want       []string
	}{
		{
			name: "one request",
			rule: "allocate_slots takes a block when a token needs one; the last token is never computed",
			cfg:  EngineConfig{MaxNumSeqs: 4, MaxNumBatchedTokens: 100, Blocks: 10},
			do: func(tr *trace) {
				tr.submit("a", 30, 4)
				tr.steps(5)
			},
			// 30 tokens hold 2 blocks; the 33rd token (third decode) needs a third.
			want: []string{
				"d0 a:30+0 | a#0 | free 8",
				"d1 | a#1 | free 8",
				"d1 | a#2 | free 8",
				"d1 | a#3. | free 10",
				"idle",
			},
		},
		{
			name: "chunks ride with decodes and share the budget",
			rule: "budget = max_num_batched_tokens; RUNNING first, in order; then WAITING; n = min(tokens - computed, budget)",
			cfg:  EngineConfig{MaxNumSeqs: 4, MaxNumBatchedTokens: 50, Blocks: 100},
			do: func(tr *trace) {
				tr.submit("a", 20, 5)
				tr.submit("b", 100, 2)
				tr.submit("c", 10, 2)
				tr.steps(6)
			},
			// Step 1: a whole, b gets the 30 left. Step 2: a decodes, b 49. Step 3: a
			// decodes, b's last 21, then c fits. The prompt that is cut holds the rest back.
			want: []string{
				"d0 a:20+0 b:30+0 | a#0 | free 96",
				"d1 b:49+30 | a#1 | free 93",
				"d1 b:21+79 c:10+0 | a#2 b#0 c#0 | free 90",
				"d3 | a#3 b#1. c#1. | free 98",
				"d1 | a#4. | free 100",
				"idle",
			},
		},
		{
			name: "max_num_seqs holds the queue",
			rule: "WAITING: stop at max_num_seqs",
			cfg:  EngineConfig{MaxNumSeqs: 2, MaxNumBatchedTokens: 100, Blocks: 100},
			do: func(tr *trace) {
				tr.submit("a", 10, 2)
				tr.submit("b", 10, 3)
				tr.submit("c", 10, 1)
				tr.steps(4)
			},
			want: []string{
				"d0 a:10+0 b:10+0 | a#0 b#0 | free 98",
				"d2 | a#1. b#1 | free 99",
				"d1 c:10+0 | b#2. c#0. | free 100",
				"idle",
			},
		},
		{
			name: "a whole prompt must fit, and the head of the queue blocks the rest",
			rule: "scheduler_reserve_full_isl: the whole prompt must fit; failure: stop (head-of-line blocking)",
			cfg:  EngineConfig{MaxNumSeqs: 8, MaxNumBatchedTokens: 32, Blocks: 6},
			do: func(tr *trace) {
				tr.submit("a", 32, 3)
				tr.submit("b", 80, 1)
				tr.submit("c", 16, 1)
				tr.steps(8)
			},
			// a holds 2 blocks and grows to 3; b needs 5 of 6 and waits, although its
			// first chunk would fit, and c waits behind b.
			want: []string{
				"d0 a:32+0 | a#0 | free 4",
				"d1 | a#1 | free 3",
				"d1 | a#2. | free 6",
				"d0 b:32+0 | | free 4",
				"d0 b:32+32 | | free 2",
				"d0 b:16+64 c:16+0 | b#0. c#0. | free 6",
				"idle",
			},
		},
		{
			name: "the last running sequence is preempted and computed again",
			rule: "on failure preempt (FCFS: last running) and retry; computed = 0, blocks freed, prepended to waiting; WAITING only if nothing was preempted",
			cfg:  EngineConfig{MaxNumSeqs: 8, MaxNumBatchedTokens: 64, Blocks: 4},
			do: func(tr *trace) {
				tr.submit("a", 16, 18)
				b := tr.submit("b", 16, 18)
				c := tr.submit("c", 16, 2)
				tr.steps(25)
				tr.lines = append(tr.lines, fmt.Sprint("preempted for ", b.Account.Preempted/1e6, " and ", c.Account.Preempted/1e6, " ms"))
			},
			// Blocks: 3 prompts of one block, one free. Step 2: a takes the last one, b
			// finds none and takes c's (the last running), nobody else is admitted.
			// Step 3..: c waits: it needs 2 blocks (17 tokens). Ticks 2-17 fill the second
			// blocks; at 33 tokens a needs a third block, preempts b (2 blocks).
			want: []string{
				"d0 a:16+0 b:16+0 c:16+0 | a#0 b#0 c#0 | free 1",
				"d2 | a#1 b#1 | free 0",
				"d2 | a#2 b#2 | free 0",
				"d2 | a#3 b#3 | free 0",
				"d2 | a#4 b#4 | free 0",
				"d2 | a#5 b#5 | free 0",
				"d2 | a#6 b#6 | free 0",
				"d2 | a#7 b#7 | free 0",
				"d2 | a#8 b#8 | free 0",
				"d2 | a#9 b#9 | free 0",
				"d2 | a#10 b#10 | free 0",
				"d2 | a#11 b#11 | free 0",
				"d2 | a#12 b#12 | free 0",
				"d2 | a#13 b#13 | free 0",
				"d2 | a#14 b#14 | free 0",
				"d2 | a#15 b#15 | free 0",
				"d2 | a#16 b#16 | free 0",
				"d1 | a#17. | free 4",
				// b was put before c: 16 prompt and 17 answered tokens are 3 blocks, and then
				// c's 17 tokens need 2 of the one that is left.
				"d0 b:33+0 | b#17. | free 4",
				"d0 c:17+0 | c#1. | free 4",
				"idle",
				// b from the start of step 18 to the end of 19, c from that of 2 to that of 20.
				"preempted for 20 and 190 ms",
			},
		},
		{
			name: "long prompts are capped and short ones pass them",
			rule: "n capped by long_prefill_token_threshold",
			cfg:  EngineConfig{MaxNumSeqs: 8, MaxNumBatchedTokens: 40, Blocks: 100, LongPrefill: 20},
			do: func(tr *trace) {
				tr.submit("a", 50, 2)
				tr.submit("b", 30, 2)
				tr.submit("c", 5, 1)
				tr.steps(5)
			},
			want: []string{
				"d0 a:20+0 b:20+0 | | free 96",
				"d0 a:20+20 b:10+20 c:5+0 | b#0 c#0. | free 95",
				"d1 a:10+40 | a#0 b#1. | free 96",
				"d1 | a#1. | free 100",
				"idle",
			},
		},
		{
			name: "decodes behind a capped chunk keep their token, the last chunk gets the rest",
			rule: "RUNNING in order, each capped by threshold and budget",
			cfg:  EngineConfig{MaxNumSeqs: 3, MaxNumBatchedTokens: 20, Blocks: 100, LongPrefill: 10},
			do: func(tr *trace) {
				tr.submit("a", 40, 1)
				tr.submit("b", 4, 4)
				tr.submit("c", 40, 1)
				tr.steps(9)
			},
			// Step 1: a 10, b 4, c the 6 left. Step 2: a 10, b 1, c 9. Order of service is
			// a, b, c, so c gets what is left.
			want: []string{
				"d0 a:10+0 b:4+0 c:6+0 | b#0 | free 97",
				"d1 a:10+10 c:9+6 | b#1 | free 96",
				"d1 a:10+20 c:9+15 | b#2 | free 95",
				"d1 a:10+30 c:9+24 | a#0. b#3. | free 97",
				"d0 c:7+33 | c#0. | free 100",
				"idle",
			},
		},
		{
			name: "whole prompts wait for a step of their own size",
			rule: "chunked prefill off and n > budget: stop",
			cfg:  EngineConfig{MaxNumSeqs: 8, MaxNumBatchedTokens: 50, Blocks: 100, WholePrompts: true},
			do: func(tr *trace) {
				tr.submit("a", 30, 2)
				tr.submit("b", 40, 1)
				tr.submit("c", 5, 1)
				tr.steps(3)
			},
			want: []string{
				"d0 a:30+0 | a#0 | free 98",
				"d1 b:40+0 c:5+0 | a#1. b#0. c#0. | free 100",
				"idle",
			},
		},
		{
			name: "the watermark keeps blocks free while something runs",
			rule: "watermark, only for waiting ones while something runs",
			cfg:  EngineConfig{MaxNumSeqs: 8, MaxNumBatchedTokens: 64, Blocks: 10, Watermark: 0.3},
			do: func(tr *trace) {
				tr.submit("a", 60, 2)
				tr.steps(1)
				tr.submit("b", 60, 1)
				tr.steps(3)
			},
			// 4 blocks each: with 6 free and 3 to be kept b waits until a has gone.
			want: []string{
				"d0 a:60+0 | a#0 | free 6",
				"d1 | a#1. | free 10",
				"d0 b:60+0 | b#0. | free 10",
				"idle",
			},
		},
		{
			name: "a cancelled sequence frees its place at the next step",
			rule: "an aborted request leaves before the next schedule",
			cfg:  EngineConfig{MaxNumSeqs: 1, MaxNumBatchedTokens: 64, Blocks: 10},
			do: func(tr *trace) {
				a := tr.submit("a", 20, 100)
				b := tr.submit("b", 20, 1)
				c := tr.submit("c", 20, 1)
				tr.steps(2)
				tr.e.Cancel(a)
				tr.e.Cancel(b)
				tr.e.Cancel(a)
				tr.steps(2)
				if !a.Account.Cancelled || a.Account.Output != 2 || !b.Account.Cancelled || c.Account.Cancelled {
					tr.lines = append(tr.lines, "wrong accounts")
				}
			},
			want: []string{
				"d0 a:20+0 | a#0 | free 8",
				"d1 | a#1 | free 8",
				"d0 c:20+0 | c#0. | free 10",
				"idle",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := &trace{e: newTestEngine(t, tt.cfg)}
			tt.do(tr)
			if d := cmp.Diff(tt.want, tr.lines); d != "" {
				t.Errorf("%s: steps (-want +got):\n%s", tt.rule, d)
			}
		})
	}
}

func TestAccountSumsToLatency(t *testing.T) {
	e := newTestEngine(t, EngineConfig{MaxNumSeqs: 1, MaxNumBatchedTokens: 10, Blocks: 100})
	tr := &trace{e: e}
	tr.submit("a", 25, 3)
	b := tr.submit("b", 10, 2)
	tr.steps(20)
	// a: chunks of 10, 10, 5 and two decodes: 5 steps; b waits for them, then one
	// chunk and one decode.
	want := Account{Arrival: 0, Admitted: 50e6, First: 60e6, Finished: 70e6, Steps: 2, Prompt: 10, Output: 2}
	if d := cmp.Diff(want, b.Account); d != "" {
		t.Errorf("account of b (-want +got):\n%s", d)
	}
}

// check recounts everything that the engine keeps as sums.
func check(t *rapid.T, e *Engine) {
	held, decodes, kv := 0, 0, int64(0)
	phase, shed := make([]int, e.block), make([]int, len(e.shed))
	// What a sequence sees of its window, token by token: the blocks of tokens of which
	// the next token sees any, and those that come after them.
	inWindow := func(blocks, computed int) int {
		n := 0
		for b := range blocks {
			if (b+1)*e.block > computed-e.cfg.Window+1 {
				n++
			}
		}
		return n
	}
	for s := e.running.head; s != nil; s = s.next {
		c := s.context(e.tick)
		switch s.state {
		case decoding:
			decodes++
			kv += int64(c)
			held += (e.blocksOf(c)-s.holds())*e.cfg.FullBlocks + inWindow(e.blocksOf(c), c)*e.cfg.WindowBlocks
			phase[e.inBlock(e.tick+int64(e.block-c%e.block))]++
			if e.slide > 0 && c >= e.cfg.Window {
				at := int64(1)
				for (c+int(at)-e.cfg.Window+1)%e.block != 0 {
					at++
				}
				shed[e.inBlock(e.tick+at)]++
			}
		case chunking:
			held += (s.blocks-s.holds())*e.cfg.FullBlocks + inWindow(s.blocks, c)*e.cfg.WindowBlocks
			if s.blocks != e.blocksOf(c) {
				t.Fatalf("chunking sequence holds %d blocks for %d tokens", s.blocks, c)
			}
		default:
			t.Fatalf("running sequence in state %d", s.state)
		}
	}
	for s := e.waiting.head; s != nil; s = s.next {
		if s.state != waiting || s.blocks != 0 || s.holds() != 0 {
			t.Fatalf("waiting sequence in state %d with %d blocks", s.state, s.blocks)
		}
	}
	// Cached blocks are counted once, whoever holds them.
	if e.caching {
		var seqs []*Seq
		rows := map[*row]bool{}
		for s := e.running.head; s != nil; s = s.next {
			if s.seat == nil {
				continue
			}
			seqs = append(seqs, s)
			for _, h := range s.seat.held {
				for r := h.row; ; r = r.rest {
					if !rows[r] {
						rows[r] = true
						held += r.n * e.weight
					}
					if r.text.to >= h.end {
						break
					}
				}
			}
		}
		checkPool(t, &e.kvPool, e.cfg.Blocks, seqs)
	}
	if promised := e.promisedNow(); promised != e.promised || promised > e.free {
		t.Fatalf("promised %d, counted %d, free %d", e.promised, promised, e.free)
	}
	if held+e.free != e.cfg.Blocks {
		t.Fatalf("blocks: %d held + %d free != %d", held, e.free, e.cfg.Blocks)
	}
	if decodes != e.decodes || kv != e.kv || !slices.Equal(phase, e.phase) || !slices.Equal(shed, e.shed) || len(e.finish) != decodes {
		t.Fatalf("sums: decodes %d/%d kv %d/%d phase %v/%v shed %v/%v heap %d", e.decodes, decodes, e.kv, kv, e.phase, phase, e.shed, shed, len(e.finish))
	}
	if e.running.n > e.cfg.MaxNumSeqs {
		t.Fatalf("%d running of at most %d", e.running.n, e.cfg.MaxNumSeqs)
	}
}

// promisedNow counts what is promised.
func (e *Engine) promisedNow() int {
	n := 0
	for s := e.running.head; s != nil; s = s.next {
		if e.cfg.Policy == TRTLLM || e.cfg.Policy == SGLang && s.state == chunking {
			n += e.owed(s)
		}
	}
	return n
}

func TestConservation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seqs := rapid.IntRange(1, 8).Draw(t, "max seqs")
		cfg := EngineConfig{
			Timer:               FixedStep(time.Millisecond),
			MaxNumSeqs:          seqs,
			MaxNumBatchedTokens: rapid.IntRange(seqs, 120).Draw(t, "budget"),
			Blocks:              rapid.IntRange(8, 30).Draw(t, "blocks"),
			LongPrefill:         rapid.SampledFrom([]int{0, 0, 1, 10, 40}).Draw(t, "threshold"),
			Watermark:           rapid.SampledFrom([]float64{0, 0, 0.1, 0.5}).Draw(t, "watermark"),
			BlockTokens:         rapid.SampledFrom([]int{16, 16, 1, 5}).Draw(t, "block"),
			PrefixCache:         rapid.Bool().Draw(t, "prefix cache"),
			Policy:              rapid.SampledFrom([]Policy{VLLM, VLLM, TRTLLM, SGLang}).Draw(t, "policy"),
		}
		cfg.ByPriority = cfg.Policy == VLLM && rapid.Bool().Draw(t, "by priority")
		cfg.Blocks = cfg.Blocks * blockTokens / cfg.BlockTokens
		cfg.WholePrompts = rapid.IntRange(0, 4).Draw(t, "whole prompts") == 0
		if rapid.IntRange(0, 2).Draw(t, "windows") == 0 {
			cfg.Window = rapid.IntRange(1, 60).Draw(t, "window")
			cfg.FullBlocks, cfg.WindowBlocks = rapid.IntRange(0, 3).Draw(t, "full"), rapid.IntRange(1, 4).Draw(t, "in windows")
			cfg.PrefixCache = cfg.PrefixCache && cfg.FullBlocks > 0
			cfg.Blocks *= rapid.IntRange(1, cfg.FullBlocks+cfg.WindowBlocks).Draw(t, "times")
		}
		e, err := NewEngine(cfg)
		if err != nil {
			t.Fatal(err)
		}
		type life struct {
			seq    *Seq
			tokens int
			last   bool
		}
		var all []*life
		now, prompts, outputs := 0.0, int64(0), int64(0)
		step := func() bool {
			length, ok := e.Begin(now)
			if !ok {
				return false
			}
			if n := e.batch.tokens(); n > cfg.MaxNumBatchedTokens || n < 1 {
				t.Fatalf("step of %d tokens with a budget of %d", n, cfg.MaxNumBatchedTokens)
			}
			kv, decodes := int64(0), 0
			for s := e.running.head; s != nil; s = s.next {
				if s.state == decoding && !e.alone {
					kv += int64(s.context(e.tick)) + 1
					decodes++
				}
			}
			if kv != e.batch.KV || decodes != e.batch.Decodes {
				t.Fatalf("batch %+v, decoding contexts sum to %d", e.batch, kv)
			}
			now += length
			sampled := 0
			e.End(now, func(s *Seq, index int, last bool) {
				l := s.Owner.(*life)
				if index != l.tokens || l.last {
					t.Fatalf("token %d after %d", index, l.tokens)
				}
				l.tokens++
				l.last = last
				sampled++
				outputs++
			})
			if sampled != e.batch.Sampled {
				t.Fatalf("sampled %d, batch says %d", sampled, e.batch.Sampled)
			}
			check(t, e)
			return true
		}
		for range rapid.IntRange(1, 60).Draw(t, "actions") {
			switch rapid.IntRange(0, 9).Draw(t, "action") {
			case 0, 1, 2:
				l := &life{}
				l.seq = &Seq{
					Prompt: rapid.IntRange(1, 90).Draw(t, "prompt"), Output: rapid.IntRange(1, 40).Draw(t, "output"),
					Priority: rapid.IntRange(0, 2).Draw(t, "priority"), Owner: l, Account: Account{Arrival: now},
				}
				if rapid.Bool().Draw(t, "limit") {
					l.seq.Limit = l.seq.Output + rapid.IntRange(0, 30).Draw(t, "beyond")
				}
				if rapid.IntRange(0, 2).Draw(t, "content") > 0 {
					// Few texts, in few orders, so that much is shared.
					left := l.seq.Prompt
					for range rapid.IntRange(1, 3).Draw(t, "parts") {
						n := min(left, rapid.IntRange(0, 40).Draw(t, "tokens"))
						l.seq.Content = append(l.seq.Content, Extent{uint64(rapid.IntRange(1, 3).Draw(t, "text")), n})
						left -= n
					}
					l.seq.Answer = uint64(rapid.IntRange(0, 3).Draw(t, "answer"))
				}
				if e.Fits(l.seq.Prompt, l.seq.limit()) != nil {
					continue
				}
				e.Submit(l.seq)
				all = append(all, l)
			case 3:
				if len(all) > 0 {
					e.Cancel(rapid.SampledFrom(all).Draw(t, "victim").seq)
				}
			default:
				step()
			}
		}
		for n := 0; step(); n++ {
			if n > 100_000 {
				t.Fatalf("does not end: %v", e)
			}
		}
		if e.free != cfg.Blocks || !e.Idle() {
			t.Fatalf("at the end: %v", e)
		}
		cancelled, admitted := int64(0), 0.0
		for _, l := range all {
			a := l.seq.Account
			// Nobody is passed by those who came later.
			if !cfg.ByPriority && l.tokens > 0 {
				if a.Admitted < admitted {
					t.Fatalf("admitted at %v, one that came later at %v", a.Admitted, admitted)
				}
				admitted = a.Admitted
			}
			if a.Cancelled {
				cancelled++
			} else if l.tokens != l.seq.Output || !l.last {
				t.Fatalf("sequence made %d of %d tokens", l.tokens, l.seq.Output)
			}
			if a.Output != l.tokens {
				t.Fatalf("account says %d tokens, %d were emitted", a.Output, l.tokens)
			}
			if !a.Cancelled && (a.Preempted > 0) != (a.Preemptions > 0) || l.tokens > 0 && a.Preempted > a.Finished-a.Admitted {
				t.Fatalf("time of preemption: %+v", a)
			}
			if l.tokens > 0 {
				prompts += int64(l.seq.Prompt)
				if !(a.Arrival <= a.Admitted && a.Admitted < a.First && a.First <= a.Finished) {
					t.Fatalf("time runs backwards: %+v", a)
				}
			}
		}
		c := e.Counters
		if cfg.Policy == TRTLLM && c.Preemptions > 0 {
			t.Fatalf("%d preemptions under a policy without", c.Preemptions)
		}
		if c.PrefixHits > c.PrefixQueries || !cfg.PrefixCache && c.PrefixQueries > 0 {
			t.Fatalf("prefix cache: %+v", c)
		}
		if c.Cancelled != cancelled || c.Finished != int64(len(all))-cancelled || c.OutputTokens != outputs || c.PromptTokens != prompts {
			t.Fatalf("counters %+v, counted %d cancelled, %d prompt, %d output tokens", c, cancelled, prompts, outputs)
		}
	})
}

// By priority the first in line can be the one whose memory goes, before a prompt
// behind it had its turn: the next step begins at once.
func TestFirstInLineGivesWay(t *testing.T) {
	e := newTestEngine(t, EngineConfig{MaxNumSeqs: 2, MaxNumBatchedTokens: 2, Blocks: 8, LongPrefill: 1, ByPriority: true})
	tr := &trace{e: e}
	tr.submit("a", 28, 38).Priority = 1
	tr.steps(12)
	tr.submit("b", 60, 1)
	tr.steps(300)
	// Both get a token in each step. In step 65 a needs a fifth block for its 65th
	// token, and b, which is served first, holds the other four for 52.
	if tr.lines[len(tr.lines)-1] != "idle" || e.Counters.Finished != 2 || e.Counters.OutputTokens != 39 || e.Counters.Preemptions != 1 {
		t.Errorf("counters %+v, last step %q", e.Counters, tr.lines[len(tr.lines)-1])
	}
}
