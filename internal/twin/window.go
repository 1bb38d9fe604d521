package twin

import "fmt"

// The memory of a model some of whose layers see only the last tokens (a window):
// what is outside it is given back, so that a sequence's use stops growing in those
// layers. It is that of vLLM's hybrid KV cache manager: one pool of blocks for
// layers of all kinds, and a block of tokens takes some of them for the layers that
// see everything and some for those with a window. After a step with c computed
// tokens the next one sees the tokens from c - window + 1 on; blocks that lie
// before are free.
//
// Two things are simpler than there. Blocks of a window are given back at the end
// of the step that moved it and not at the sequence's next turn, which is the same
// instant. And what is cached of a text are the blocks of the layers that see
// everything; who finds a prefix there takes blocks of its own for the window at
// its end, where vLLM looks for those, too.

// checkWindow fills in what a block of tokens takes and refuses what cannot be.
func (c *EngineConfig) checkWindow() error {
	switch {
	case c.Window < 0 || c.FullBlocks < 0 || c.WindowBlocks < 0:
		return fmt.Errorf("window %d with %d and %d blocks: want 0 or more", c.Window, c.FullBlocks, c.WindowBlocks)
	case c.Window == 0 && c.WindowBlocks > 0 || c.Window > 0 && c.WindowBlocks == 0:
		return fmt.Errorf("window of %d tokens with %d blocks: want both or none", c.Window, c.WindowBlocks)
	case c.PrefixCache && c.Window > 0 && c.FullBlocks == 0:
		return fmt.Errorf("prefix cache of a model all of whose layers have a window: there is none here; turn it off")
	}
	if c.Window == 0 {
		c.FullBlocks = 1
	}
	return nil
}

// blocks is the number of blocks that hold so many tokens.
func (c *EngineConfig) blocks(tokens int) int { return (tokens + c.BlockTokens - 1) / c.BlockTokens }

// windowful is the most blocks of tokens that a sequence has in a window: those that
// it sees and those of a step's chunk.
func (c *EngineConfig) windowful() int {
	chunk := c.MaxNumBatchedTokens
	if c.LongPrefill > 0 && c.Policy != SGLang { // which has no such thing
		chunk = min(chunk, c.LongPrefill)
	}
	return c.blocks(c.Window-1+chunk) + 1
}

// most is how many blocks a sequence of so many tokens takes at most on its way.
func (c *EngineConfig) most(tokens int) int {
	n := c.blocks(tokens)
	if c.Window == 0 {
		return n
	}
	return n*c.FullBlocks + min(n, c.windowful())*c.WindowBlocks
}

// Longest is the number of tokens of the longest sequence that the memory holds.
func (c *EngineConfig) Longest() int {
	d := *c
	if d.BlockTokens == 0 {
		d.BlockTokens = blockTokens
	}
	if d.Window == 0 {
		return d.Blocks * d.BlockTokens
	}
	n := d.Blocks / (d.FullBlocks + d.WindowBlocks)
	if full := d.windowful(); n > full {
		if d.FullBlocks == 0 {
			return Unlimited
		}
		n = (d.Blocks - full*d.WindowBlocks) / d.FullBlocks
	}
	return n * d.BlockTokens
}

// outside is how many blocks of tokens the next token of a sequence does not see.
func (e *Engine) outside(computed int) int { return max(0, computed-e.cfg.Window+1) / e.block }

// holding is how many blocks of the memory so many blocks of tokens take, of which
// so many tokens are computed.
func (e *Engine) holding(blocks, computed int) int {
	if e.slide == 0 {
		return blocks
	}
	return blocks*e.per - e.outside(computed)*e.slide
}

// needed is how many blocks the decoding sequences need in this step.
func (e *Engine) needed() int { return e.phase[e.inBlock(e.tick)] * e.per }

// giveBack makes blocks that were taken for windows free.
func (e *Engine) giveBack(n int) {
	if n == 0 {
		return
	}
	e.free += n
	if e.caching {
		e.push(nil, n)
	}
	if e.cfg.Policy == TRTLLM {
		e.promised += n
	}
}

// slideChunk gives back what a sequence's chunk moves out of its window.
func (e *Engine) slideChunk(s *Seq) {
	n := e.slide * (e.outside(s.computed+s.planned) - e.outside(s.computed))
	e.giveBack(n)
	if e.cfg.Policy == SGLang {
		e.promised += n
	}
}

// slides counts n decoding sequences that filled their window at a tick: each gives a
// block of tokens back as often as it begins one.
func (e *Engine) slides(n int, tick int64) {
	if e.slide > 0 {
		e.shed[e.inBlock(tick-1)] += n
	}
}

// worth is what more tokens of a sequence of so many take, in tokens of one block of
// the memory.
func (e *Engine) worth(computed, more int) int {
	if e.slide == 0 {
		return more
	}
	limit := e.cfg.Window + e.block
	return more*e.full + max(min(computed+more, limit)-computed, 0)*e.slide
}

// net is how many blocks the i-th step after the one that Begin scheduled takes, less
// those that are given back before it, as long as nobody else fills a window. Who
// fills it in the step under way gives nothing back for as many steps as a block has
// tokens, and is left out: it makes a row shorter than it could be, no more.
func (e *Engine) net(i int64) int64 {
	x := e.inBlock(e.tick + i)
	return int64(e.phase[x]*e.per - e.shed[x]*e.slide)
}

// aheadSliding returns how many of n steps in a row find their memory before the head
// of the queue could.
func (e *Engine) aheadSliding(n int64) int64 {
	size, free := int64(e.block), int64(e.free)
	wanted := int64(maxKV)
	if e.cfg.Policy == VLLM && e.blocked != nil && e.blocked == e.waiting.head && e.blockedWas == e.changes && e.running.n < e.cfg.MaxNumSeqs {
		wanted = int64(e.wanted)
	}
	// What a block's length of steps takes is the same each time, and never below 0.
	var sum, high int64
	for i := range min(n-1, size) {
		sum += e.net(1 + i)
		high = max(high, sum)
		if sum > free || free-sum >= wanted {
			return i + 1
		}
	}
	if n-1 <= size || sum == 0 {
		return n
	}
	more := ((free-high)/sum + 1) * size
	left := free - more/size*sum
	for more < n-1 {
		left -= e.net(1 + more)
		if left < 0 {
			break
		}
		more++
	}
	return min(n, more+1)
}

// leapSliding takes and gives back the blocks of the steps that Leap skips; who fills
// the window in the first has been counted.
func (e *Engine) leapSliding(more int64) {
	size := int64(e.block)
	var need, shed, most int64
	// most is what was missing at worst, when each step has what was given back before.
	add := func(n, times int64) {
		var taken, given, high int64
		for i := range n {
			x := e.inBlock(e.tick + 1 + i)
			taken += int64(e.phase[x] * e.per)
			given += int64(e.shed[x] * e.slide)
			high = max(high, taken-given)
		}
		most = max(most, need-shed+(times-1)*(taken-given)+high)
		need += times * taken
		shed += times * given
	}
	if cycles := more / size; cycles > 0 {
		add(size, cycles)
	}
	add(more%size, 1)
	if need-shed > int64(e.free) {
		panic("BUG: a leap beyond the memory: " + e.String())
	}
	if e.radix {
		// Blocks that are given back are taken again first: no more texts go than for what
		// was missing.
		e.use(int(most))
		if e.caching {
			e.settle()
		}
		e.giveBack(int(most - need + shed))
		return
	}
	e.giveBack(int(shed))
	e.use(int(need))
}
