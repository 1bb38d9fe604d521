package twin

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// texts submits a sequence whose prompt is made of extents.
func (tr *trace) texts(name string, output int, content ...Extent) *Seq {
	s := &Seq{Output: output, Content: content, Owner: name, Account: Account{Arrival: tr.now}}
	for _, e := range content {
		s.Prompt += e.Tokens
	}
	tr.e.Submit(s)
	return s
}

func (tr *trace) urgent(name string, priority, prompt, output int) *Seq {
	s := &Seq{Prompt: prompt, Output: output, Priority: priority, Owner: name, Account: Account{Arrival: tr.now}}
	tr.e.Submit(s)
	return s
}

// Each table is worked by hand from the rule that it shows.
func TestPrefixCacheDecisions(t *testing.T) {
	tests := []struct {
		name, rule string
		cfg        EngineConfig
		do         func(tr *trace)
		want       []string
	}{
		{
			name: "full blocks only, and the last is computed again",
			rule: "prefix lookup over full blocks with max hit = num_tokens - 1",
			cfg:  EngineConfig{MaxNumSeqs: 4, MaxNumBatchedTokens: 100, Blocks: 10},
			do: func(tr *trace) {
				tr.texts("a", 2, Extent{1, 32})
				tr.steps(2)
				tr.texts("b", 1, Extent{1, 32}) // all cached: 31 tokens are one full block
				tr.steps(1)
				tr.texts("c", 1, Extent{1, 40})
				tr.steps(1)
				tr.texts("d", 1, Extent{1, 31}, Extent{2, 20}) // differs in its second block
				tr.steps(1)
			},
			want: []string{
				"d0 a:32+0 | a#0 | free 8",
				"d1 | a#1. | free 10",
				"d0 b:16+16 | b#0. | free 10",
				"d0 c:8+32 | c#0. | free 10",
				"d0 d:35+16 | d#0. | free 10",
			},
		},
		{
			name: "a prompt finds what is computed in the same step",
			rule: "allocate_slots caches the full blocks of the tokens that it schedules",
			cfg:  EngineConfig{MaxNumSeqs: 4, MaxNumBatchedTokens: 100, Blocks: 6},
			do: func(tr *trace) {
				tr.texts("a", 2, Extent{1, 48}, Extent{2, 2})
				tr.texts("b", 2, Extent{1, 48}, Extent{3, 2})
				tr.texts("c", 2, Extent{1, 48}, Extent{4, 20}) // two blocks of its own, one is left
				tr.steps(2)
			},
			want: []string{
				"d0 a:50+0 b:2+48 | a#0 b#0 | free 1",
				"d2 | a#1. b#1. | free 6",
			},
		},
		{
			name: "the end of a text is forgotten before its beginning, the oldest text first",
			rule: "free queue: pop head (evict hash then); freed request appends its blocks reversed; a hit removes from the queue",
			cfg:  EngineConfig{MaxNumSeqs: 1, MaxNumBatchedTokens: 100, Blocks: 6},
			do: func(tr *trace) {
				tr.texts("a", 1, Extent{1, 48})
				tr.steps(1) // queue: 3 empty, a3 a2 a1
				tr.texts("b", 1, Extent{2, 48})
				tr.steps(1) // a3 a2 a1 b3 b2 b1
				tr.texts("c", 1, Extent{3, 32})
				tr.steps(1) // a1 b3 b2 b1 c2 c1
				tr.texts("d", 1, Extent{1, 48})
				tr.steps(1) // hits a1, takes b3 b2: b1 c2 c1 d3 d2 a1
				tr.texts("e", 1, Extent{2, 48})
				tr.steps(1) // hits b1, takes c2 c1: d3 d2 a1 e3 e2 b1
				tr.texts("f", 1, Extent{3, 32})
				tr.steps(1) // takes d3 d2: a1 e3 e2 b1 f2 f1
				tr.texts("g", 1, Extent{2, 49})
				tr.steps(1) // hits b1 e2 e3
			},
			want: []string{
				"d0 a:48+0 | a#0. | free 6",
				"d0 b:48+0 | b#0. | free 6",
				"d0 c:32+0 | c#0. | free 6",
				"d0 d:32+16 | d#0. | free 6",
				"d0 e:32+16 | e#0. | free 6",
				"d0 f:32+0 | f#0. | free 6",
				"d0 g:1+48 | g#0. | free 6",
			},
		},
		{
			name: "who is preempted finds what is left of its own",
			rule: "victim: computed = 0, blocks freed, prepended to waiting (its blocks may still be prefix hits)",
			cfg:  EngineConfig{MaxNumSeqs: 8, MaxNumBatchedTokens: 64, Blocks: 4},
			do: func(tr *trace) {
				tr.submit("a", 16, 18)
				tr.submit("b", 16, 18)
				tr.steps(20)
				tr.lines = tr.lines[15:]
			},
			// At 33 tokens a needs a third block. b's two are full and cached; a gets the
			// second, so that the first is found again.
			want: []string{
				"d2 | a#15 b#15 | free 0",
				"d2 | a#16 b#16 | free 0",
				"d1 | a#17. | free 4",
				"d0 b:17+16 | b#17. | free 4",
				"idle",
			},
		},
		{
			name: "other salts are other texts",
			rule: "hash = H(parent, token ids, extra keys: ... cache_salt in block 0)",
			cfg:  EngineConfig{MaxNumSeqs: 8, MaxNumBatchedTokens: 100, Blocks: 10},
			do: func(tr *trace) {
				tr.texts("a", 1, Extent{1, 40})
				tr.steps(1)
				s := &Seq{Prompt: 40, Output: 1, Content: []Extent{{1, 40}}, Salt: 5, Owner: "b"}
				tr.e.Submit(s)
				tr.steps(1)
			},
			want: []string{
				"d0 a:40+0 | a#0. | free 10",
				"d0 b:40+0 | b#0. | free 10",
			},
		},
		{
			name: "an answer that is sent back is found, but for its last token",
			rule: "the token ids of a block are those of prompt and answer alike",
			cfg:  EngineConfig{MaxNumSeqs: 8, MaxNumBatchedTokens: 100, Blocks: 10},
			do: func(tr *trace) {
				s := &Seq{Prompt: 30, Output: 19, Content: []Extent{{1, 30}}, Answer: 7, Owner: "a"}
				tr.e.Submit(s)
				tr.steps(19)
				tr.lines = tr.lines[18:]
				tr.texts("b", 1, Extent{1, 30}, Extent{7, 19}, Extent{2, 5})
				tr.steps(1)
				tr.texts("c", 1, Extent{1, 30}, Extent{8, 19}, Extent{2, 5})
				tr.steps(1)
			},
			// 30 + 18 computed tokens are 3 full blocks; the first of them has 14 tokens of
			// the answer's block.
			want: []string{
				"d1 | a#18. | free 10",
				"d0 b:6+48 | b#0. | free 10",
				"d0 c:38+16 | c#0. | free 10",
			},
		},
		{
			name: "what a hit does not need is free for the rest",
			rule: "hits count as needed only while nobody else holds them",
			cfg:  EngineConfig{MaxNumSeqs: 8, MaxNumBatchedTokens: 100, Blocks: 5},
			do: func(tr *trace) {
				tr.texts("a", 3, Extent{1, 49})
				tr.steps(1)
				tr.texts("b", 1, Extent{1, 48}, Extent{2, 16}) // 4 blocks, 3 held by a
				tr.texts("c", 1, Extent{1, 48}, Extent{3, 16})
				tr.steps(2)
			},
			want: []string{
				"d0 a:49+0 | a#0 | free 1",
				"d1 b:16+48 | a#1 b#0. | free 1",
				"d1 c:16+48 | a#2. c#0. | free 5",
			},
		},
		{
			name: "equal blocks computed beside each other stay two",
			rule: "identical blocks are not de-duplicated",
			cfg:  EngineConfig{MaxNumSeqs: 8, MaxNumBatchedTokens: 32, Blocks: 10},
			do: func(tr *trace) {
				tr.texts("a", 2, Extent{1, 64})
				tr.steps(1)
				tr.texts("b", 2, Extent{1, 64})
				tr.steps(3)
			},
			// b starts when a has all scheduled; its last block is its own.
			want: []string{
				"d0 a:32+0 | | free 8",
				"d0 a:32+32 | a#0 | free 6",
				"d1 b:16+48 | a#1. b#0 | free 6",
				"d1 | b#1. | free 10",
			},
		},
		{
			name: "sglang: blocks without text are taken before what is cached",
			rule: "evict only when too few slots are free",
			cfg:  EngineConfig{MaxNumSeqs: 8, MaxNumBatchedTokens: 100, Blocks: 4, Policy: SGLang},
			do: func(tr *trace) {
				tr.texts("a", 1, Extent{1, 16})
				tr.steps(1)
				tr.submit("x", 16, 1)
				tr.steps(1)
				tr.submit("y", 48, 1)
				tr.steps(1)
				tr.texts("b", 1, Extent{1, 16}, Extent{2, 4})
				tr.steps(1)
			},
			want: []string{
				"d0 a:16+0 | a#0. | free 4",
				"d0 x:16+0 | x#0. | free 4",
				"d0 y:48+0 | y#0. | free 4",
				"d0 b:4+16 | b#0. | free 4",
			},
		},
		{
			name: "sglang: equal texts of one step become one",
			rule: "inserting what the tree has frees the request's own slots",
			cfg:  EngineConfig{MaxNumSeqs: 8, MaxNumBatchedTokens: 100, Blocks: 10, Policy: SGLang},
			do: func(tr *trace) {
				tr.texts("a", 3, Extent{1, 32})
				tr.texts("b", 3, Extent{1, 32})
				tr.steps(3)
			},
			want: []string{
				"d0 a:32+0 b:32+0 | a#0 b#0 | free 8",
				"d2 | a#1 b#1 | free 6",
				"d2 | a#2. b#2. | free 10",
			},
		},
		{
			name: "sglang: what was looked at least lately is forgotten",
			rule: "leaves are evicted by last access; matching a prefix is an access, whether it is admitted or not",
			cfg:  EngineConfig{MaxNumSeqs: 8, MaxNumBatchedTokens: 100, Blocks: 6, Policy: SGLang},
			do: func(tr *trace) {
				tr.texts("a", 1, Extent{1, 16})
				tr.steps(1)
				tr.texts("b", 1, Extent{2, 16})
				tr.steps(1)
				tr.submit("r", 48, 20)
				tr.steps(1)
				tr.texts("w", 1, Extent{1, 16}, Extent{3, 60})
				tr.steps(20)
				tr.lines = tr.lines[21:]
			},
			// r takes three blocks and the last free one, so w waits, but has looked at a's.
			// At 65 tokens r takes b's.
			want: []string{
				"d1 | r#19. | free 6",
				"d0 w:60+16 | w#0. | free 6",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.PrefixCache = true
			tr := &trace{e: newTestEngine(t, tt.cfg)}
			tt.do(tr)
			if d := cmp.Diff(tt.want, tr.lines); d != "" {
				t.Errorf("%s: steps (-want +got):\n%s", tt.rule, d)
			}
		})
	}
}

func TestPolicies(t *testing.T) {
	tests := []struct {
		name, rule string
		cfg        EngineConfig
		do         func(tr *trace)
		want       []string
	}{
		{
			name: "vllm by priority: the least urgent waits",
			rule: "PRIORITY: victim max(priority, arrival); if the victim is the request itself, stop",
			cfg:  EngineConfig{MaxNumSeqs: 8, MaxNumBatchedTokens: 64, Blocks: 3, ByPriority: true},
			do: func(tr *trace) {
				tr.urgent("a", 1, 16, 2)
				tr.urgent("b", 0, 16, 4)
				tr.steps(5)
			},
			want: []string{
				"d0 b:16+0 a:16+0 | b#0 a#0 | free 1",
				"d1 | b#1 | free 1",
				"d1 | b#2 | free 1",
				"d1 | b#3. | free 3",
				"d0 a:17+0 | a#1. | free 3",
			},
		},
		{
			name: "vllm by priority: one that had its turn gives it back",
			rule: "a victim that was scheduled in this step is taken out, its tokens are back in the budget",
			cfg:  EngineConfig{MaxNumSeqs: 8, MaxNumBatchedTokens: 64, Blocks: 3, ByPriority: true},
			do: func(tr *trace) {
				tr.urgent("a", 1, 16, 4)
				tr.steps(1)
				tr.urgent("b", 0, 16, 3)
				tr.steps(4)
			},
			want: []string{
				"d0 a:16+0 | a#0 | free 2",
				"d1 b:16+0 | a#1 b#0 | free 0",
				"d1 | b#1 | free 1",
				"d1 | b#2. | free 3",
				"d0 a:18+0 | a#2 | free 1",
			},
		},
		{
			name: "vllm by priority: one that gives way itself ends the turns of the step",
			rule: "if the victim is the request itself, stop",
			cfg:  EngineConfig{MaxNumSeqs: 8, MaxNumBatchedTokens: 64, Blocks: 4, ByPriority: true},
			do: func(tr *trace) {
				tr.urgent("x", 0, 20, 10)
				tr.steps(1)
				tr.urgent("b", 1, 15, 10)
				tr.steps(1)
				tr.urgent("a", 0, 5, 10)
				tr.steps(3)
			},
			want: []string{
				"d0 x:20+0 | x#0 | free 2",
				"d1 b:15+0 | x#1 b#0 | free 1",
				"d2 a:5+0 | x#2 b#1 a#0 | free 0",
				"d1 | x#3 | free 1",
				"d2 | x#4 a#1 | free 1",
			},
		},
		{
			name: "nobody is admitted in a step with a preemption",
			rule: "WAITING only if nothing was preempted in this step",
			cfg:  EngineConfig{MaxNumSeqs: 8, MaxNumBatchedTokens: 64, Blocks: 4, ByPriority: true},
			do: func(tr *trace) {
				tr.urgent("a", 1, 16, 3)
				tr.urgent("b", 1, 33, 2)
				tr.steps(1)
				tr.urgent("c", 0, 16, 1)
				tr.steps(3)
			},
			// a takes one of the three blocks that b loses; c would fit the other two.
			want: []string{
				"d0 a:16+0 b:33+0 | a#0 b#0 | free 0",
				"d1 | a#1 | free 2",
				"d1 c:16+0 | a#2. c#0. | free 4",
				"d0 b:34+0 | b#1. | free 4",
			},
		},
		{
			name: "vllm in order of arrival: the last gives way, whatever its priority",
			rule: "FCFS: last running",
			cfg:  EngineConfig{MaxNumSeqs: 8, MaxNumBatchedTokens: 64, Blocks: 3},
			do: func(tr *trace) {
				tr.urgent("a", 1, 16, 4)
				tr.urgent("b", 0, 16, 4)
				tr.steps(2)
			},
			want: []string{
				"d0 a:16+0 b:16+0 | a#0 b#0 | free 1",
				"d1 | a#1 | free 1",
			},
		},
		{
			name: "trtllm: nobody is admitted who might need what is promised",
			rule: "GUARANTEED_NO_EVICT reserves prompt + max_output",
			cfg:  EngineConfig{MaxNumSeqs: 8, MaxNumBatchedTokens: 64, Blocks: 6, Policy: TRTLLM},
			do: func(tr *trace) {
				tr.e.Submit(&Seq{Prompt: 16, Output: 2, Limit: 33, Owner: "a"}) // 4 blocks
				tr.e.Submit(&Seq{Prompt: 16, Output: 3, Limit: 16, Owner: "b"}) // 2 blocks
				tr.e.Submit(&Seq{Prompt: 16, Output: 1, Limit: 1, Owner: "c"})  // 2 blocks
				tr.steps(3)
			},
			// 2 of 6 blocks are taken, but all are promised. a ends long before its limit.
			want: []string{
				"d0 a:16+0 b:16+0 | a#0 b#0 | free 4",
				"d2 | a#1. b#1 | free 4",
				"d1 c:16+0 | b#2. c#0. | free 6",
			},
		},
		{
			name: "trtllm: a prefix that somebody holds needs no reservation, an idle one does",
			rule: "GUARANTEED_NO_EVICT discounts blocks that are in use",
			cfg:  EngineConfig{MaxNumSeqs: 8, MaxNumBatchedTokens: 64, Blocks: 5, Policy: TRTLLM, PrefixCache: true},
			do: func(tr *trace) {
				tr.texts("a", 4, Extent{1, 40}) // 3 blocks
				tr.steps(1)
				tr.texts("b", 4, Extent{1, 32}, Extent{2, 20}) // 4 blocks, 2 of them a's
				tr.texts("c", 4, Extent{1, 32}, Extent{3, 20})
				tr.steps(5)
			},
			want: []string{
				"d0 a:40+0 | a#0 | free 2",
				"d1 b:20+32 | a#1 b#0 | free 0",
				"d2 | a#2 b#1 | free 0",
				"d2 | a#3. b#2 | free 1",
				"d1 | b#3. | free 5",
				"d0 c:20+32 | c#0 | free 1",
			},
		},
		{
			name: "sglang: prompts run ahead of decoding",
			rule: "SGLang runs prefill batches ahead of decode",
			cfg:  EngineConfig{MaxNumSeqs: 8, MaxNumBatchedTokens: 40, Blocks: 100, Policy: SGLang},
			do: func(tr *trace) {
				tr.submit("a", 20, 3)
				tr.steps(1)
				tr.submit("b", 60, 2)
				tr.submit("c", 10, 2)
				tr.steps(4)
			},
			want: []string{
				"d0 a:20+0 | a#0 | free 98",
				"d0 b:40+0 | | free 95",
				"d0 b:20+40 c:10+0 | b#0 c#0 | free 93",
				"d3 | a#1 b#1. c#1. | free 98",
				"d1 | a#2. | free 100",
			},
		},
		{
			name: "sglang: who does not fit waits until somebody leaves",
			rule: "a prompt must fit with its limit beside a share of the limits of those that run",
			cfg:  EngineConfig{MaxNumSeqs: 8, MaxNumBatchedTokens: 40, Blocks: 16, BlockTokens: 4, Policy: SGLang},
			do: func(tr *trace) {
				tr.submit("a", 4, 30)
				tr.submit("b", 4, 30)
				tr.steps(2)
				tr.submit("c", 1, 1)
				tr.steps(1)
			},
			// 64 tokens: a takes 4 + 4 and 30; b would need 4 + 30 + 4 of the 26 left.
			want: []string{
				"d0 a:4+0 | a#0 | free 15",
				"d1 | a#1 | free 14",
				"d1 | a#2 | free 14",
			},
		},
		{
			name: "sglang: the shortest answer is retracted and comes last",
			rule: "retraction: fewest output tokens first, back to the end of the queue",
			cfg:  EngineConfig{MaxNumSeqs: 8, MaxNumBatchedTokens: 40, Blocks: 16, BlockTokens: 4, Policy: SGLang},
			do: func(tr *trace) {
				tr.submit("a", 4, 30)
				tr.steps(1)
				tr.submit("b", 4, 30) // 60 free tokens less 0.7 x 29, and it wants 38
				tr.steps(28)
				tr.submit("c", 1, 1)
				tr.steps(4)
				tr.lines = tr.lines[27:]
			},
			// At 32 tokens each both need a ninth block and none is left, nor was there one
			// for c. b, the later of two equals, loses its 8 and is behind c from then on.
			want: []string{
				"d2 | a#26 b#26 | free 0",
				"d2 | a#27 b#27 | free 0",
				"d2 | a#28 b#28 | free 0",
				"d1 | a#29. | free 16",
				"d0 c:1+0 b:33+0 | c#0. b#29. | free 16",
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

// The share of the limits that SGLang expects shrinks with every decoding step,
// and a retraction sets it to what was seen.
func TestSGLangEstimate(t *testing.T) {
	g := sglang{ratio: tokenRatio}
	for _, tt := range []struct {
		tick int64
		want float64
	}{{0, 0.7}, {300, 0.399}, {600, 0.098}, {10_000, 0.098}} {
		if got := g.ratioNow(tt.tick); got < tt.want-1e-9 || got > tt.want+1e-9 {
			t.Errorf("after %d steps %v, want %v", tt.tick, got, tt.want)
		}
	}
	// 160 tokens of memory. b (4 + 78) fits beside a's 4 and 0.7 of its other 99. When
	// both have 80 tokens b gives way, and a has made 77 of 100: (77 + 20) / (100 + 1).
	e := newTestEngine(t, EngineConfig{MaxNumSeqs: 8, MaxNumBatchedTokens: 40, Blocks: 40, BlockTokens: 4, Policy: SGLang})
	tr := &trace{e: e}
	tr.submit("a", 4, 100)
	tr.steps(1)
	tr.submit("b", 4, 78)
	for e.Counters.Preemptions == 0 && len(tr.lines) < 200 {
		tr.steps(1)
	}
	if got, want := e.sglang.ratio, 97.0/101; got < want-1e-9 || got > want+1e-9 {
		t.Errorf("after a retraction %v, want %v", got, want)
	}
	if got := e.sglang.ratioNow(e.tick); got != e.sglang.ratio {
		t.Errorf("the step of the retraction shrinks it to %v", got)
	}
}
