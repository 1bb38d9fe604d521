package twin

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/internal/random"
)

// blockwise is the prefix cache block by block, written from the description of
// vLLM's: lists and maps of single blocks, nothing shared or put off.
type blockwise struct {
	block   int
	queue   []*oneBlock            // free, the next to be taken first
	byHash  map[string][]*oneBlock // the eldest first
	evicted int64
}

type oneBlock struct {
	hash    string
	holders int
}

func newBlockwise(blocks, block int) *blockwise {
	b := &blockwise{block: block, byHash: map[string][]*oneBlock{}}
	for range blocks {
		b.queue = append(b.queue, &oneBlock{})
	}
	return b
}

// tokensOf spells a sequence's text out, token by token.
func tokensOf(s *Seq, n int) []string {
	var all []string
	for _, e := range s.Content {
		for i := range e.Tokens {
			all = append(all, fmt.Sprintf("%d.%d", e.ID, i))
		}
	}
	for i := 0; len(all) < s.Prompt; i++ {
		all = append(all, fmt.Sprintf("own%p.%d", s, i))
	}
	for i := 0; len(all) < n; i++ {
		all = append(all, fmt.Sprintf("%d.%d", s.Answer, i))
	}
	return all[:n]
}

func (b *blockwise) hashes(s *Seq, n int) []string {
	tokens := tokensOf(s, n*b.block)
	all := make([]string, n)
	h := fmt.Sprint("salt", s.Salt)
	for i := range all {
		h += fmt.Sprint(tokens[i*b.block : (i+1)*b.block])
		all[i] = h
	}
	return all
}

func (b *blockwise) lookup(s *Seq, limit int) (hit []*oneBlock, idle int) {
	for _, h := range b.hashes(s, limit) {
		blocks := b.byHash[h]
		if len(blocks) == 0 {
			break
		}
		hit = append(hit, blocks[0])
		if blocks[0].holders == 0 {
			idle++
		}
	}
	return hit, idle
}

func (b *blockwise) acquire(hit []*oneBlock) {
	for _, o := range hit {
		if o.holders == 0 {
			b.queue = slices.DeleteFunc(b.queue, func(q *oneBlock) bool { return q == o })
		}
		o.holders++
	}
}

func (b *blockwise) take(n int) []*oneBlock {
	got := slices.Clone(b.queue[:n])
	b.queue = b.queue[n:]
	for _, o := range got {
		if o.hash != "" {
			b.byHash[o.hash] = slices.DeleteFunc(b.byHash[o.hash], func(q *oneBlock) bool { return q == o })
			o.hash = ""
			b.evicted++
		}
		o.holders = 1
	}
	return got
}

func (b *blockwise) register(s *Seq, held []*oneBlock, upto int) {
	for i, h := range b.hashes(s, upto) {
		if held[i].hash == "" {
			held[i].hash = h
			b.byHash[h] = append(b.byHash[h], held[i])
		}
	}
}

func (b *blockwise) release(held []*oneBlock) {
	for _, o := range slices.Backward(held) {
		if o.holders--; o.holders == 0 {
			b.queue = append(b.queue, o)
		}
	}
}

// checkPool recounts a pool.
func checkPool(t interface{ Fatalf(string, ...any) }, p *kvPool, blocks int, held []*Seq) {
	p.settle()
	n := 0
	for e := p.head; e != nil; e = e.next {
		if n += e.n; e.text != nil {
			n += e.n * (p.weight - 1)
		}
		if e.holders != 0 || e.n < 1 || e.next != nil && e.next.prev != e || e.next == nil && p.tail != e {
			t.Fatalf("queue: row of %d blocks with %d holders", e.n, e.holders)
		}
	}
	if n != p.free {
		t.Fatalf("queue of %d blocks, free %d", n, p.free)
	}
	holders := map[*row]int{}
	for _, s := range held {
		from := 0
		for _, h := range s.seat.held {
			for e := h.row; ; e = e.rest {
				if e.text.from != from {
					t.Fatalf("held row from %d after %d", e.text.from, from)
				}
				from = e.text.to
				holders[e]++
				if from >= h.end {
					break
				}
			}
			if from != h.end {
				t.Fatalf("held to %d, rows end at %d", h.end, from)
			}
		}
		if from != s.holds() {
			t.Fatalf("holds %d cached blocks, rows have %d", s.holds(), from)
		}
	}
	children := map[*passage]int{}
	for key, x := range p.index {
		if x.key != key || x.to <= x.from || len(x.copies) == 0 {
			t.Fatalf("passage %d to %d with %d copies", x.from, x.to, len(x.copies))
		}
		tokens := 0
		for _, sp := range x.spans {
			tokens += int(sp.n)
		}
		if tokens != (x.to-x.from)*p.block {
			t.Fatalf("passage of %d blocks with %d tokens", x.to-x.from, tokens)
		}
		for _, e := range x.copies {
			if e.text != x || e.n != x.to-x.from || e.holders != holders[e] {
				t.Fatalf("row of %d blocks with %d of %d holders in a passage of %d", e.n, e.holders, holders[e], x.to-x.from)
			}
			delete(holders, e)
		}
		if x.parent != nil {
			children[x.parent]++
			if x.parent.to != x.from {
				t.Fatalf("passage from %d after one to %d", x.from, x.parent.to)
			}
		}
	}
	if len(holders) > 0 {
		t.Fatalf("%d held rows are not in the index", len(holders))
	}
	for _, x := range p.index {
		if x.children != children[x] {
			t.Fatalf("passage with %d of %d children", x.children, children[x])
		}
	}
}

// The extents must do exactly what single blocks do: the same hits, the same
// blocks free, and the same blocks evicted at the same time.
func TestPrefixCacheAgainstSingleBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		block := rapid.SampledFrom([]int{1, 2, 3, 4}).Draw(t, "block")
		blocks := rapid.IntRange(4, 40).Draw(t, "blocks")
		p := newPool(blocks, block, true)
		ref := newBlockwise(blocks, block)
		type running struct {
			seq    *Seq
			tokens int
			held   []*oneBlock
		}
		var all []*running
		seqs := func() []*Seq {
			var s []*Seq
			for _, r := range all {
				s = append(s, r.seq)
			}
			return s
		}
		answers := uint64(1000)
		grow := func(r *running, n int) bool {
			need := p.blocksOf(r.tokens+n) - p.blocksOf(r.tokens)
			if need > p.free {
				return false
			}
			p.take(need)
			r.held = append(r.held, ref.take(need)...)
			r.tokens += n
			return true
		}
		register := func(r *running) {
			p.register(r.seq, r.tokens/block)
			ref.register(r.seq, r.held, r.tokens/block)
		}
		for range rapid.IntRange(1, 60).Draw(t, "actions") {
			switch rapid.IntRange(0, 7).Draw(t, "action") {
			case 0, 1, 2: // admit
				s := &Seq{Salt: uint64(rapid.IntRange(0, 9).Draw(t, "salt") / 9)}
				for range rapid.IntRange(0, 4).Draw(t, "parts") {
					// Few texts of few lengths, and earlier answers.
					id := uint64(rapid.IntRange(1, 3).Draw(t, "text"))
					if rapid.IntRange(0, 3).Draw(t, "history") == 0 && answers > 1000 {
						id = 1000 + uint64(rapid.IntRange(1, int(answers-1000)).Draw(t, "answer"))
					}
					n := rapid.IntRange(0, 3*block).Draw(t, "tokens")
					s.Content = append(s.Content, Extent{id, n})
					s.Prompt += n
				}
				s.Prompt += max(rapid.IntRange(-20, 2*block).Draw(t, "open"), 0)
				if s.Prompt == 0 {
					continue
				}
				answers++
				s.Answer = answers
				limit := (s.Prompt - 1) / block
				hits, idle := p.lookup(s, limit)
				hit, refIdle := ref.lookup(s, limit)
				if hits != len(hit) || idle != refIdle {
					t.Fatalf("hit %d blocks, %d idle; single blocks %d and %d", hits, idle, len(hit), refIdle)
				}
				need := p.blocksOf(s.Prompt) - hits
				if need+idle > p.free {
					continue
				}
				p.acquire(s)
				ref.acquire(hit)
				r := &running{seq: s, tokens: hits * block, held: hit}
				n := rapid.IntRange(1, s.Prompt-r.tokens).Draw(t, "chunk")
				if !grow(r, n) {
					t.Fatalf("admitted without memory")
				}
				register(r)
				all = append(all, r)
			case 3, 4: // the next chunk, or some of the answer
				if len(all) == 0 {
					continue
				}
				r := rapid.SampledFrom(all).Draw(t, "grows")
				if grow(r, rapid.IntRange(1, 3*block).Draw(t, "more")) && rapid.Bool().Draw(t, "register") {
					register(r)
				}
			default: // leave
				if len(all) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(all)-1).Draw(t, "leaves")
				r := all[i]
				all = slices.Delete(all, i, i+1)
				register(r)
				p.release(r.seq, len(r.held))
				ref.release(r.held)
			}
			if p.free != len(ref.queue) {
				t.Fatalf("%d blocks free, single blocks %d", p.free, len(ref.queue))
			}
			if rapid.Bool().Draw(t, "look") {
				checkPool(t, &p, blocks, seqs())
				if p.Evicted != ref.evicted {
					t.Fatalf("%d blocks evicted, single blocks %d", p.Evicted, ref.evicted)
				}
				// The queue block by block.
				i := 0
				for e := p.head; e != nil; e = e.next {
					for range e.n {
						if (ref.queue[i].hash != "") != (e.text != nil) {
							t.Fatalf("block %d of the queue: cached %v, single blocks %v", i, e.text != nil, ref.queue[i].hash != "")
						}
						i++
					}
				}
			}
		}
		for _, r := range all {
			p.release(r.seq, len(r.held))
			ref.release(r.held)
		}
		checkPool(t, &p, blocks, nil)
		if p.free != blocks || p.Evicted != ref.evicted {
			t.Fatalf("at the end %d of %d blocks are free, %d evicted (single blocks %d)", p.free, blocks, p.Evicted, ref.evicted)
		}
	})
}

// radixTree is SGLang's prefix cache token by token (or page by page), written from
// what its tree does: a node per block of text with the last time it was looked at.
type radixTree struct {
	free    int
	nodes   map[string]*radixNode
	now     int
	evicted int64
}

type radixNode struct{ holders, looked, depth int }

func (r *radixTree) idle() (n int) {
	for _, x := range r.nodes {
		if x.holders == 0 {
			n++
		}
	}
	return n
}

// take evicts when nothing is free: what was looked at least lately, the end of a
// text before its beginning.
func (r *radixTree) take(n int) {
	for range n {
		if r.free > 0 {
			r.free--
			continue
		}
		oldest := ""
		for h, x := range r.nodes {
			if o := r.nodes[oldest]; x.holders == 0 && (o == nil || x.looked < o.looked || x.looked == o.looked && x.depth > o.depth) {
				oldest = h
			}
		}
		delete(r.nodes, oldest)
		r.evicted++
	}
}

func TestRadixCacheAgainstSingleBlocks(t *testing.T) {
	spell := &blockwise{}
	rapid.Check(t, func(t *rapid.T) {
		block, blocks := rapid.IntRange(1, 3).Draw(t, "block"), rapid.IntRange(4, 40).Draw(t, "blocks")
		spell.block = block
		p := newPool(blocks, block, true)
		p.radix = true
		ref := &radixTree{free: blocks, nodes: map[string]*radixNode{}}
		type running struct {
			seq                    *Seq
			tokens, blocks, cached int
		}
		var all []*running
		register := func(r *running) {
			upto := r.tokens / block
			p.register(r.seq, upto)
			for i, h := range spell.hashes(r.seq, upto)[r.cached:] {
				if x := ref.nodes[h]; x != nil {
					x.holders++
					ref.free++
				} else {
					ref.nodes[h] = &radixNode{holders: 1, depth: r.cached + i}
				}
			}
			r.cached = upto
		}
		leave := func(i int) {
			r := all[i]
			all = slices.Delete(all, i, i+1)
			p.release(r.seq, r.blocks)
			ref.now++
			for _, h := range spell.hashes(r.seq, r.cached) {
				ref.nodes[h].holders--
				ref.nodes[h].looked = ref.now
			}
			ref.free += r.blocks - r.cached
		}
		grow := func(r *running, n int) {
			if need := p.blocksOf(r.tokens+n) - r.blocks; need <= p.free {
				p.take(need)
				ref.take(need)
				r.tokens += n
				r.blocks += need
			}
		}
		answers := uint64(1000)
		for range rapid.IntRange(1, 60).Draw(t, "actions") {
			switch rapid.IntRange(0, 6).Draw(t, "action") {
			case 0, 1, 2:
				answers++
				s := &Seq{Answer: answers}
				for range rapid.IntRange(1, 4).Draw(t, "parts") {
					n := rapid.IntRange(0, 3*block).Draw(t, "tokens")
					s.Content = append(s.Content, Extent{uint64(rapid.IntRange(1, 3).Draw(t, "text")), n})
					s.Prompt += n
				}
				if s.Prompt == 0 {
					continue
				}
				hits, idle := p.lookup(s, (s.Prompt-1)/block)
				want, wantIdle := 0, 0
				hashes := spell.hashes(s, (s.Prompt-1)/block)
				for _, h := range hashes {
					x := ref.nodes[h]
					if x == nil {
						break
					}
					want++
					if x.holders == 0 {
						wantIdle++
					}
				}
				if hits != want || idle != wantIdle {
					t.Fatalf("hit %d blocks, %d idle; single blocks %d and %d", hits, idle, want, wantIdle)
				}
				if p.blocksOf(s.Prompt)-hits+idle > p.free || rapid.IntRange(0, 3).Draw(t, "waits") == 0 {
					p.touch()
					ref.now++
					for _, h := range hashes[:hits] {
						ref.nodes[h].looked = ref.now
					}
					continue
				}
				p.acquire(s)
				for _, h := range hashes[:hits] {
					ref.nodes[h].holders++
				}
				r := &running{seq: s, tokens: hits * block, blocks: hits, cached: hits}
				grow(r, s.Prompt-r.tokens)
				if rapid.Bool().Draw(t, "cached") {
					register(r)
				}
				all = append(all, r)
			case 3:
				if len(all) > 0 {
					grow(rapid.SampledFrom(all).Draw(t, "grows"), rapid.IntRange(1, 2*block).Draw(t, "more"))
				}
			default:
				if len(all) > 0 {
					i := rapid.IntRange(0, len(all)-1).Draw(t, "leaves")
					if rapid.Bool().Draw(t, "cached") {
						register(all[i])
					}
					leave(i)
				}
			}
			if p.free != ref.free+ref.idle() {
				t.Fatalf("%d blocks free, single blocks %d and %d idle", p.free, ref.free, ref.idle())
			}
			if rapid.Bool().Draw(t, "look") {
				var seqs []*Seq
				for _, r := range all {
					seqs = append(seqs, r.seq)
				}
				checkPool(t, &p, blocks, seqs)
				if p.Evicted != ref.evicted {
					t.Fatalf("%d blocks evicted, single blocks %d", p.Evicted, ref.evicted)
				}
			}
		}
	})
}

// What an engine keeps of texts is bounded by its memory, however many sequences it has
// served: of conversations that begin alike and part, of texts that came once, and
// of those who left early.
func TestPrefixCacheStaysBounded(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector takes memory")
	}
	for name, cfg := range map[string]EngineConfig{
		"vllm":    {Policy: VLLM, Blocks: 2000},
		"sglang":  {Policy: SGLang, Blocks: 32_000, BlockTokens: 1},
		"windows": {Policy: VLLM, Blocks: 2000, Window: 128, FullBlocks: 1, WindowBlocks: 1},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.MaxNumSeqs, cfg.MaxNumBatchedTokens, cfg.PrefixCache = 64, 2048, true
			e := newTestEngine(t, cfg)
			rng, now, texts := random.Stream(1), 0.0, uint64(0)
			serve := func(n int) {
				var last [100][]Extent // what each of so many users has said and heard
				for range n {
					u := rng.IntN(len(last))
					if len(last[u]) == 0 || len(last[u]) > 12 {
						last[u] = []Extent{{ID: rng.Uint64() % 4, Tokens: 100}}
					}
					texts += 2
					content := append(slices.Clone(last[u]), Extent{1000 + texts, 30})
					s := &Seq{Content: content, Answer: 1001 + texts, Output: 1 + rng.IntN(80), Account: Account{Arrival: now}}
					for _, x := range content {
						s.Prompt += x.Tokens
					}
					last[u] = append(content, Extent{s.Answer, s.Output})
					e.Submit(s)
					if rng.IntN(50) == 0 {
						e.Cancel(s)
					}
					for e.running.n+e.waiting.n > 40 {
						length, _ := e.Begin(now)
						now += length
						e.End(now, nil)
					}
				}
				for e.running.n+e.waiting.n > 0 {
					length, _ := e.Begin(now)
					now += length
					e.End(now, nil)
				}
			}
			live := func() int64 {
				var m runtime.MemStats
				runtime.GC()
				runtime.GC()
				runtime.ReadMemStats(&m)
				return int64(m.HeapAlloc)
			}
			serve(2000)
			if e.Evicted == 0 || e.Counters.PrefixHits == 0 {
				t.Fatalf("%d blocks evicted, %d tokens found: nothing to see", e.Evicted, e.Counters.PrefixHits)
			}
			before := live()
			const n = 40_000
			serve(n)
			// One pointer kept of each would be 8 bytes, what it leads to many more.
			if grown := live() - before; grown > 16*n {
				t.Errorf("%d bytes more are kept after %d more sequences", grown, n)
			}
			runtime.KeepAlive(e)
		})
	}
}
