package twin

import (
	"fmt"
	"slices"
)

// EngineConfig is what one engine is made of.
type EngineConfig struct {
	// Timer gives the length of steps.
	Timer StepTimer
	// MaxNumSeqs bounds the sequences that run at once, MaxNumBatchedTokens the
	// tokens of one step; the second may not be below the first.
	MaxNumSeqs, MaxNumBatchedTokens int
	// Blocks is the number of KV blocks that sequences can have, BlockTokens their
	// size in tokens; 0 is 16.
	Blocks, BlockTokens int
	// Window is how many tokens the layers with a window see, 0 for a model without
	// such layers. So many tokens as a block has then take FullBlocks for the layers
	// that see everything, and WindowBlocks more until they are outside the window.
	// FullBlocks may be 0, and there is no prefix cache then.
	Window, FullBlocks, WindowBlocks int
	// PrefixCache keeps full blocks for other sequences that begin alike.
	PrefixCache bool
	// Policy is whose scheduler it is; empty is VLLM.
	Policy Policy
	// ByPriority serves sequences by Priority, then arrival, and takes the memory of
	// the one that would be served last; else first come is first served. Of VLLM
	// only.
	ByPriority bool
	// LongPrefill caps one sequence's chunk in a step; 0 is no cap.
	LongPrefill int
	// WholePrompts turns chunked prefill off: a prompt waits for a step that can
	// compute it at once.
	WholePrompts bool
	// Watermark is the share of blocks kept free when a waiting sequence is
	// admitted beside running ones.
	Watermark float64
	// Slowdown is a fault: by which share of its length every step lasts longer for
	// each minute of the driver's clock, as a host does that leaks. 0 is none.
	Slowdown float64
}

// Unlimited is a number of blocks or tokens that nothing reaches.
const Unlimited = 1 << 40

// MaxSlowdown is the most by which steps may become longer in a minute.
const MaxSlowdown = 10

// Engine is one inference engine that advances by scheduler steps, with the
// semantics of vLLM's V1 scheduler: one token budget per step, running sequences
// first in order of admission, chunked prefill, waiting sequences only when
// nothing was preempted, whole prompts reserved before admission, preemption of
// the last running sequence by recompute, full blocks cached for prompts that
// begin alike. What other policies do instead is in policy.go.
//
// It has no clock and no goroutine: the driver calls Begin, lets the returned
// time pass, and calls End. Work per step grows with chunks and finishes, not
// with the sequences that decode: those are held as sums. An engine is used by
// one goroutine.
type Engine struct {
	cfg       EngineConfig
	watermark int
	kvPool

	running, waiting seqList
	// chunks are the running sequences whose prompt is not done, in order.
	chunks []*Seq
	finish finishHeap
	// promised is how many of the free blocks are kept for running sequences, under
	// a policy that reserves.
	promised int
	// tick counts the steps that have ended.
	tick int64
	// decodes and kv are the number of decoding sequences and the sum of their
	// computed tokens. phase[(p+tick) mod block] counts those that need a block in
	// this step; p is fixed while a sequence decodes.
	decodes int
	kv      int64
	phase   []int
	// For a timer with a window: the sum of the decoding sequences' computed tokens,
	// each cut to it, the number of those below it, and how many of them reach it
	// at which tick, modulo the ring's length.
	window  int
	cutKV   int64
	growing int
	reach   []int
	// full and slide are what a block of tokens takes and what of it the window
	// gives back, per both. shed[(p+tick) mod block] counts the decoding sequences
	// of which a block of tokens leaves the window when that tick begins.
	full, slide, per int
	shed             []int

	cancels  []*Seq
	stepping bool
	// preempted is whether the step under way took somebody's memory, alone whether
	// it is one of prompts, beside which nobody decodes.
	preempted, alone bool
	began            float64
	batch            Batch
	plan             []*Seq // the sequences whose chunk is in this step
	done             []*Seq // the sequences that the last step finished

	// stalled are the sequences that decode, but not in the step under way.
	stalled []*Seq
	// blocked is the head of the queue when it was found not to fit, for want of
	// wanted free blocks. Only more of them help it as long as changes is the same:
	// nobody has come, gone or cached anything since.
	blocked             *Seq
	wanted              int
	changes, blockedWas int64
	sglang              sglang

	// Counters are totals since the start.
	Counters Counters
}

// Counters are an engine's totals.
type Counters struct {
	Steps, Preemptions         int64
	PromptTokens, OutputTokens int64
	Finished, Cancelled        int64
	// ComputedTokens counts all tokens that went through the model, those
	// computed again included.
	ComputedTokens int64
	// CachedTokens counts what of PromptTokens was found in the prefix cache: at the
	// first token, when the prompt is counted, where PrefixHits counts at admission.
	CachedTokens int64
	// PrefixQueries counts the prompt tokens that were looked up in the prefix
	// cache, PrefixHits those found there; both once per sequence.
	PrefixQueries, PrefixHits int64
}

// NewEngine checks the configuration and returns an empty engine.
func NewEngine(cfg EngineConfig) (*Engine, error) {
	switch {
	case cfg.Timer == nil:
		panic("BUG: engine without a step time")
	case cfg.MaxNumSeqs < 1:
		return nil, fmt.Errorf("max-num-seqs %d: want at least 1", cfg.MaxNumSeqs)
	case cfg.MaxNumBatchedTokens < cfg.MaxNumSeqs:
		return nil, fmt.Errorf("max-num-batched-tokens %d: want at least max-num-seqs %d, so that every running sequence can get a token in a step", cfg.MaxNumBatchedTokens, cfg.MaxNumSeqs)
	case cfg.Blocks < 1:
		return nil, fmt.Errorf("kv blocks %d: want at least 1", cfg.Blocks)
	case cfg.LongPrefill < 0:
		return nil, fmt.Errorf("long prefill threshold %d: want 0 or more", cfg.LongPrefill)
	case !(cfg.Slowdown >= 0 && cfg.Slowdown <= MaxSlowdown):
		return nil, fmt.Errorf("slowdown %v: want a share of 0 to %v a minute", cfg.Slowdown, float64(MaxSlowdown))
	case !(cfg.Watermark >= 0 && cfg.Watermark < 1):
		return nil, fmt.Errorf("watermark %v: want a share in [0, 1)", cfg.Watermark)
	}
	if cfg.BlockTokens == 0 {
		cfg.BlockTokens = blockTokens
	}
	if cfg.BlockTokens < 1 {
		return nil, fmt.Errorf("KV blocks of %d tokens: want at least 1", cfg.BlockTokens)
	}
	if err := cfg.checkPolicy(); err != nil {
		return nil, err
	}
	if err := cfg.checkWindow(); err != nil {
		return nil, err
	}
	e := &Engine{
		cfg: cfg, kvPool: newPool(cfg.Blocks, cfg.BlockTokens, cfg.PrefixCache),
		watermark: int(cfg.Watermark * float64(cfg.Blocks)), phase: make([]int, cfg.BlockTokens),
		sglang: sglang{ratio: tokenRatio},
		full:   cfg.FullBlocks, slide: cfg.WindowBlocks, per: cfg.FullBlocks + cfg.WindowBlocks,
	}
	e.weight, e.radix = e.full, cfg.Policy == SGLang
	e.window = cfg.Window
	if t, ok := cfg.Timer.(Windower); ok && t.Window() > 0 {
		if cfg.Window != 0 && cfg.Window != t.Window() {
			panic("BUG: a window for time and another for memory")
		}
		e.window = t.Window()
	}
	if e.window > 0 {
		e.reach = make([]int, e.window+1)
	}
	if e.slide > 0 {
		e.shed = make([]int, cfg.BlockTokens)
	}
	return e, nil
}

// Fits returns an error when a sequence could never run, even alone. output is
// the longest that its answer may become.
func (e *Engine) Fits(prompt, output int) error {
	tokens := prompt + output
	if e.cfg.Policy != TRTLLM {
		tokens-- // the last is never computed
	}
	if need := e.cfg.most(tokens); need > e.cfg.Blocks {
		return fmt.Errorf("%d prompt and %d output tokens need %d KV blocks of %d tokens, the engine has %d", prompt, output, need, e.block, e.cfg.Blocks)
	}
	// After a preemption the answer so far is computed like a prompt.
	if e.cfg.WholePrompts && prompt+output-1 > e.cfg.MaxNumBatchedTokens {
		return fmt.Errorf("%d prompt and %d output tokens do not fit one step of %d tokens, and chunked prefill is off", prompt, output, e.cfg.MaxNumBatchedTokens)
	}
	return nil
}

// Submit puts a sequence at the end of the waiting queue. The driver calls it in
// order of arrival, and only with sequences that Fits.
func (e *Engine) Submit(s *Seq) {
	if s.state != idle || s.Prompt < 1 || s.Output < 1 {
		panic("BUG: submit of a sequence that is in an engine or empty")
	}
	if s.Limit != 0 && s.Limit < s.Output {
		panic("BUG: submit of a sequence with an answer beyond its limit")
	}
	if err := e.Fits(s.Prompt, s.limit()); err != nil {
		panic("BUG: submit of a sequence that does not fit: " + err.Error())
	}
	s.seat.rise()
	*s = Seq{
		Prompt: s.Prompt, Output: s.Output, Limit: s.Limit, Priority: s.Priority,
		Content: s.Content, Answer: s.Answer, Salt: s.Salt, Owner: s.Owner,
		Account: Account{Arrival: s.Account.Arrival, Prompt: s.Prompt},
		runs:    s.runs[:0], seat: s.seat, state: waiting,
	}
	e.enqueue(s)
}

// enqueue puts a sequence at its place in the queue.
func (e *Engine) enqueue(s *Seq) {
	after := e.waiting.tail
	if e.cfg.ByPriority {
		for after != nil && s.before(after) {
			after = after.prev
		}
	}
	e.waiting.insert(s, after)
}

// before is the order of service by priority.
func (s *Seq) before(t *Seq) bool {
	return s.Priority < t.Priority || s.Priority == t.Priority && s.Account.Arrival < t.Account.Arrival
}

// limit is the longest that the engine must expect the answer to become.
func (s *Seq) limit() int { return max(s.Limit, s.Output) }

// ResetPrefixCache forgets what is cached. It does nothing and returns false
// while a sequence holds memory.
func (e *Engine) ResetPrefixCache() bool {
	if e.free != e.cfg.Blocks {
		return false
	}
	if e.caching {
		e.reset()
	}
	return true
}

// Cancel gives a sequence up. Its place and memory are free from the next Begin
// on. A sequence that has finished is left alone.
func (e *Engine) Cancel(s *Seq) {
	if s.state == idle || s.cancel {
		return
	}
	s.cancel = true
	e.cancels = append(e.cancels, s)
}

// Idle is true when there is nothing to schedule.
func (e *Engine) Idle() bool { return e.running.n == 0 && e.waiting.n == 0 }

// Load is an engine's state between or in steps.
type Load struct {
	Running, Waiting int
	// Blocks of KV memory, of which Free hold nothing.
	Blocks, Free int
}

// Load returns the current state.
func (e *Engine) Load() Load {
	return Load{Running: e.running.n, Waiting: e.waiting.n, Blocks: e.cfg.Blocks, Free: e.free}
}

// Begin schedules the step that starts at now (ns) and returns its length in ns.
// ok is false when there is nothing to do.
func (e *Engine) Begin(now float64) (length float64, ok bool) {
	if e.stepping {
		panic("BUG: begin of a step within a step")
	}
	e.dropCancelled(now)
	if e.Idle() {
		return 0, false
	}
	e.began = now
	e.plan, e.batch.Chunks = e.plan[:0], e.batch.Chunks[:0]
	e.batch.Sampled = 0

	e.preempted, e.alone = false, false
	if e.cfg.Policy == SGLang {
		e.scheduleSGLang(now)
	} else {
		var budget int
		budget, e.preempted = e.scheduleRunning(now)
		for e.preempted && e.running.n > 0 && e.decodes == 0 && len(e.plan) == 0 {
			// By priority the first in line can be the one that has to give way, before
			// anybody had a turn. vLLM runs an empty step then; here the next begins at once.
			e.resume()
			budget, _ = e.scheduleRunning(now)
		}
		// Blocks are cached when the step that fills them is scheduled: who is admitted
		// to the same step may use them.
		for _, s := range e.plan {
			e.cache(s, s.computed+s.planned)
		}
		if !e.preempted {
			e.scheduleWaiting(now, budget)
		}
	}
	e.batch.Decodes, e.batch.KV, e.batch.Windowed, e.batch.Growing = 0, 0, 0, 0
	if !e.alone {
		e.batch.Decodes = e.decodes
		// The context of a decoding sequence includes the token of this step.
		e.batch.KV = e.kv + int64(e.decodes)
		e.batch.Sampled += e.decodes
		if e.window > 0 {
			e.batch.Windowed = e.cutKV + int64(e.growing)
			e.batch.Growing = e.growing - *e.reachAt(e.tick + 1)
		}
	}
	if e.batch.Decodes == 0 && len(e.plan) == 0 {
		panic("BUG: a step without work: " + e.String())
	}
	e.stepping = true
	length = e.cfg.Timer.StepTime(&e.batch)
	if e.cfg.Slowdown > 0 {
		length *= 1 + e.cfg.Slowdown*max(now, 0)/60e9
	}
	return length, true
}

// Batch returns the work of the step that Begin scheduled, valid until the next
// Begin.
func (e *Engine) Batch() *Batch { return &e.batch }

// context is the number of computed tokens.
func (s *Seq) context(tick int64) int {
	if s.state == decoding {
		return s.Prompt + int(tick-s.base) - 1
	}
	return s.computed
}

// tokens is the number of tokens that must be computed before the next sample.
func (s *Seq) tokens() int { return s.Prompt + s.made }

// phaseOf is the fixed part of a decoding sequence's place in phase: its context
// is a multiple of a block at the ticks where phaseOf + tick is.
func (s *Seq) phaseOf() int64 { return int64(s.Prompt) - s.base - 1 }

func (e *Engine) phaseAt(s *Seq) *int {
	return &e.phase[e.inBlock(-s.phaseOf())]
}

// inBlock is x modulo the size of a block, also for x below 0.
func (e *Engine) inBlock(x int64) int {
	if x %= int64(e.block); x < 0 {
		x += int64(e.block)
	}
	return int(x)
}

// reachAt is the number of decoding sequences that fill the window at a tick, at
// most the window's length away.
func (e *Engine) reachAt(tick int64) *int {
	return &e.reach[uint64(tick)%uint64(len(e.reach))]
}

// cut adds a decoding sequence of so many computed tokens to the sum of cut
// contexts, or takes it out (sign -1).
func (e *Engine) cut(computed int, sign int) {
	if e.window == 0 {
		return
	}
	e.cutKV += int64(sign * min(computed, e.window))
	if left := e.window - computed; left > 0 {
		e.growing += sign
		*e.reachAt(e.tick + int64(left)) += sign
	} else if e.slide > 0 {
		e.shed[e.inBlock(e.tick-int64(computed-e.window+1))] += sign
	}
}

// grow moves the sum of cut contexts on by a step; the tick has moved already.
func (e *Engine) grow() {
	if e.window == 0 {
		return
	}
	e.cutKV += int64(e.growing)
	full := e.reachAt(e.tick)
	e.growing -= *full
	e.slides(*full, e.tick)
	*full = 0
	if e.slide > 0 {
		e.giveBack(e.slide * e.shed[e.inBlock(e.tick)])
	}
}

// scheduleRunning gives every running sequence its tokens, in order, and returns
// what is left of the budget.
func (e *Engine) scheduleRunning(now float64) (budget int, preempted bool) {
	budget = e.cfg.MaxNumBatchedTokens
	// What everybody wants. When there is enough of everything the order does not
	// matter; a last chunk may take what is left.
	needed := e.phase[e.inBlock(e.tick)]
	left := budget - e.decodes
	for _, s := range e.chunks {
		s.planned = min(s.tokens()-s.computed, e.threshold(), left)
		if s.planned < min(s.tokens()-s.computed, e.threshold()) && s != e.running.tail {
			left = -1
			break
		}
		left -= s.planned
		needed += e.blocksOf(s.computed+s.planned) - s.blocks
	}
	if left < 0 || needed*e.per > e.free {
		return e.scheduleTight(now)
	}
	e.use(needed * e.per)
	for _, s := range e.chunks {
		if s.planned > 0 {
			s.blocks = e.blocksOf(s.computed + s.planned)
			e.addChunk(s)
		}
	}
	return left, false
}

// use takes free blocks for running sequences.
func (e *Engine) use(n int) {
	e.take(n)
	if e.cfg.Policy == TRTLLM {
		e.promised -= n
	}
}

func (e *Engine) threshold() int {
	if e.cfg.LongPrefill > 0 {
		return e.cfg.LongPrefill
	}
	return Unlimited
}

// scheduleTight is scheduleRunning one sequence at a time, for steps in which
// not everybody finds memory.
func (e *Engine) scheduleTight(now float64) (budget int, preempted bool) {
	budget = e.cfg.MaxNumBatchedTokens
	for _, s := range e.chunks {
		s.planned = 0
	}
	s := e.running.head
	for ; s != nil && budget > 0; s = s.next {
		n, need := 1, 0
		if s.state == decoding {
			if s.context(e.tick)%e.block == 0 {
				need = 1
			}
		} else {
			n = min(s.tokens()-s.computed, e.threshold(), budget)
			need = e.blocksOf(s.computed+n) - s.blocks
		}
		for need*e.per > e.free {
			victim, after := e.victim(), s.next
			budget += e.unschedule(victim)
			e.preempt(victim, now)
			preempted = true
			if victim == s {
				// Nobody after it has a turn in this step.
				for ; after != nil; after = after.next {
					e.stall(after)
				}
				return budget, true
			}
		}
		e.use(need * e.per)
		budget -= n
		s.turn, s.took = e.tick+1, int32(need)
		if s.state == chunking {
			s.planned = n
			s.blocks += need
			e.addChunk(s)
		}
	}
	// What running sequences want of the budget never grows between steps, except
	// for a prompt that was cut short, and that one is the last: so no decoding
	// sequence ever goes without.
	for ; s != nil; s = s.next {
		if s.state == decoding {
			panic("BUG: a decoding sequence got no token: " + e.String())
		}
	}
	return budget, preempted
}

// victim is the running sequence that loses its memory first.
func (e *Engine) victim() *Seq {
	v := e.running.tail
	if e.cfg.ByPriority {
		for s := v.prev; s != nil; s = s.prev {
			if v.before(s) {
				v = s
			}
		}
	}
	return v
}

// unschedule takes a sequence out of the step in which it had its turn already,
// and returns what it had of the budget.
func (e *Engine) unschedule(s *Seq) int {
	if s.turn != e.tick+1 {
		return 0
	}
	if s.state == decoding {
		s.extra = s.took
		return 1
	}
	i := slices.Index(e.plan, s)
	e.plan = slices.Delete(e.plan, i, i+1)
	e.batch.Chunks = slices.Delete(e.batch.Chunks, i, i+1)
	n := s.planned
	if s.computed+n == s.tokens() {
		e.batch.Sampled--
	}
	s.planned = 0
	return n
}

// stall keeps a decoding sequence from getting a token in this step.
func (e *Engine) stall(s *Seq) {
	if s.state == decoding {
		s.endRun(e.tick)
		e.pause(s)
		s.state = stalled
		e.stalled = append(e.stalled, s)
	}
}

// resume lets the stalled sequences decode again.
func (e *Engine) resume() {
	for i, s := range e.stalled {
		e.stalled[i] = nil
		e.decode(s)
	}
	e.stalled = e.stalled[:0]
}

// preempt takes a running sequence's memory and puts it where it is served next;
// its tokens are computed again, except for those that are still cached.
func (e *Engine) preempt(s *Seq, now float64) {
	if s.redo == 0 {
		s.redo = now
	}
	if s.state == decoding {
		s.endRun(e.tick)
	}
	e.leave(s, true)
	s.computed, s.state = 0, waiting
	s.Account.Preemptions++
	e.Counters.Preemptions++
	if e.cfg.ByPriority || e.cfg.Policy == SGLang {
		e.enqueue(s)
	} else {
		e.waiting.pushFront(s)
	}
}

// endRun notes which steps made the tokens until now.
func (s *Seq) endRun(tick int64) {
	s.runs = append(s.runs, tokenRun{last: int(tick - s.base), base: s.base, start: s.start})
	s.start = 0
}

// leave takes a sequence out of running and frees its memory. made and computed
// are brought up to date. What it made is cached if somebody could ask for it: the
// sequence itself when it resumes, or a prompt that sends its answer back.
func (e *Engine) leave(s *Seq, resumes bool) {
	e.running.remove(s)
	if e.cfg.Policy == TRTLLM || s.state == chunking {
		e.promised -= e.owed(s)
	}
	if s.state == decoding {
		e.pause(s)
		s.blocks = e.blocksOf(s.computed) + int(s.extra)
		s.extra = 0
	} else {
		e.dropChunk(s)
	}
	if e.caching {
		switch {
		case resumes && e.cfg.Policy == SGLang:
			e.register(s, max(s.holds(), min(s.computed, s.Prompt)/e.block))
		case resumes || s.Content != nil && s.Answer != 0:
			e.register(s, max(s.holds(), s.computed/e.block))
		}
	}
	e.changes++
	e.sglang.full = false
	e.release(s, e.holding(s.blocks, s.computed))
	s.blocks = 0
}

// owed is how many blocks were promised to a running sequence that it has not
// taken.
func (e *Engine) owed(s *Seq) int {
	switch {
	case e.cfg.Policy == VLLM:
		return 0
	case s.state == decoding:
		c := s.context(e.tick)
		return s.most - e.holding(e.blocksOf(c), c)
	default:
		return s.most - e.holding(s.blocks, s.computed)
	}
}

// cache makes a sequence's full blocks up to a number of tokens known to others.
func (e *Engine) cache(s *Seq, tokens int) {
	if e.caching && s.Content != nil && tokens/e.block > s.holds() {
		e.register(s, tokens/e.block)
		e.changes++
	}
}

// pause takes a decoding sequence out of the sums and writes down where it is.
func (e *Engine) pause(s *Seq) {
	s.computed = s.context(e.tick)
	s.made = int(e.tick - s.base)
	s.Account.Steps += s.made
	e.kv -= int64(s.computed)
	e.cut(s.computed, -1)
	e.decodes--
	*e.phaseAt(s)--
	e.finish.remove(s)
}

// decode adds a sequence to the sums whose last token was made in the step that
// has ended, or that had one before and was stalled.
func (e *Engine) decode(s *Seq) {
	s.base = e.tick - int64(s.made)
	s.state = decoding
	s.Account.Steps -= s.made
	e.decodes++
	e.kv += int64(s.computed)
	e.cut(s.computed, 1)
	*e.phaseAt(s)++
	e.finish.push(s)
}

func (e *Engine) dropChunk(s *Seq) {
	if i := slices.Index(e.chunks, s); i >= 0 {
		e.chunks = slices.Delete(e.chunks, i, i+1)
	}
}

// scheduleWaiting admits waiting sequences in order until one does not fit.
func (e *Engine) scheduleWaiting(now float64, budget int) {
	for budget > 0 && e.waiting.head != nil && e.running.n < e.cfg.MaxNumSeqs {
		s := e.waiting.head
		if e.blocked == s && e.blockedWas == e.changes && e.wanted > e.free {
			return
		}
		hits, idle := e.find(s)
		total := s.tokens()
		n := min(total-hits*e.block, e.threshold())
		if e.cfg.WholePrompts && n > budget {
			return
		}
		n = min(n, budget)
		keep := e.promised
		if e.running.n > 0 {
			keep += e.watermark
		}
		// The whole sequence must fit now, although only the chunk's blocks are
		// taken: otherwise half-computed prompts would starve each other. Hits that
		// nobody holds are free blocks like others.
		s.most = e.cfg.most(total)
		if e.cfg.Policy == TRTLLM {
			s.most = e.cfg.most(s.Prompt + s.limit())
		}
		if want := s.most - (hits-idle)*e.full + keep; want > e.free {
			e.blocked, e.wanted, e.blockedWas = s, want, e.changes
			return
		}
		e.admit(s, hits, n, now)
		if e.cfg.Policy == TRTLLM {
			e.promised += e.owed(s)
		}
		e.cache(s, s.computed+n)
		budget -= n
	}
}

// find looks up the cached prefix of a waiting sequence. At least one token is
// left to compute, so that there is something to sample from.
func (e *Engine) find(s *Seq) (hits, idle int) {
	if !e.caching || s.Content == nil && s.Account.Preemptions == 0 {
		return 0, 0
	}
	return e.lookup(s, (s.tokens()-1)/e.block)
}

// admit makes the head of the queue run, with what find found for it and a first
// chunk of n tokens.
func (e *Engine) admit(s *Seq, hits, n int, now float64) {
	e.waiting.remove(s)
	e.running.pushBack(s)
	e.chunks = append(e.chunks, s)
	s.state = chunking
	if e.caching && (s.Content != nil || s.Account.Preemptions > 0) {
		e.acquire(s)
	}
	if s.Account.Preemptions == 0 {
		s.Account.Admitted = now
		if e.caching {
			s.Account.Cached = hits * e.block
			e.Counters.PrefixQueries += int64(s.Prompt)
			e.Counters.PrefixHits += int64(hits * e.block)
		}
	}
	s.computed, s.planned = hits*e.block, n
	s.blocks = e.blocksOf(s.computed + n)
	e.take(e.holding(s.blocks, s.computed) - hits*e.full)
	e.changes++
	e.addChunk(s)
}

func (e *Engine) addChunk(s *Seq) {
	e.plan = append(e.plan, s)
	e.batch.Chunks = append(e.batch.Chunks, Chunk{New: s.planned, Past: s.computed})
	if s.computed+s.planned == s.tokens() {
		e.batch.Sampled++
	}
}

// End finishes the step at the instant now. emit is called once for every token
// that the step sampled, in order of admission, with the token's index and
// whether it is the sequence's last; a sequence with a last token has left the
// engine when End returns, and emit may not call the engine. emit may be nil.
func (e *Engine) End(now float64, emit func(s *Seq, index int, last bool)) {
	if !e.stepping {
		panic("BUG: end of a step that was not begun")
	}
	e.stepping = false
	e.done = e.done[:0]
	if !e.alone {
		e.tick++
		e.kv += int64(e.batch.Decodes)
		e.grow()
	}
	e.Counters.Steps++
	e.Counters.OutputTokens += int64(e.batch.Sampled)
	e.Counters.ComputedTokens += int64(e.batch.Decodes)
	for _, s := range e.plan {
		if e.slide > 0 {
			e.slideChunk(s)
		}
		s.computed += s.planned
		s.Account.Steps++
		e.Counters.ComputedTokens += int64(s.planned)
		s.planned = 0
		if e.cfg.Policy == SGLang {
			e.cache(s, s.computed) // only now: prompts of one step do not find each other
		}
		if s.computed == s.tokens() {
			e.startDecoding(s, now)
		}
	}
	switch {
	case emit == nil:
	case e.alone:
		for _, s := range e.plan {
			if s.state == decoding {
				emit(s, s.made-1, s.made == s.Output)
			}
		}
	default:
		for s := e.running.head; s != nil; s = s.next {
			if s.state == decoding {
				made := int(e.tick - s.base)
				emit(s, made-1, made == s.Output)
			}
		}
	}
	e.resume()
	for len(e.finish) > 0 && e.finish[0].tick <= e.tick {
		s := e.finish[0].seq
		e.leave(s, false)
		e.close(s, now)
		e.done = append(e.done, s)
		e.Counters.Finished++
	}
}

// Done returns the sequences that the last End finished, in the order of their
// finishing; it is valid until the next.
func (e *Engine) Done() []*Seq { return e.done }

// close ends the engine's hold on a sequence.
func (e *Engine) close(s *Seq, now float64) {
	s.state, s.cancel = idle, false
	s.Account.Finished = now
	s.Account.Output = s.made
}

// dropCancelled takes out the sequences that were given up since the last step.
func (e *Engine) dropCancelled(now float64) {
	for i, s := range e.cancels {
		e.cancels[i] = nil
		if s.state == idle || !s.cancel {
			continue
		}
		if s.state == waiting {
			e.waiting.remove(s)
		} else {
			e.leave(s, false)
		}
		s.Account.Cancelled = true
		e.close(s, now)
		e.Counters.Cancelled++
	}
	e.cancels = e.cancels[:0]
}

// String describes the engine's state in one line.
func (e *Engine) String() string {
	return fmt.Sprintf("running %d (%d decode %d tokens of context, %d chunking), waiting %d, blocks %d of %d free, step %d",
		e.running.n, e.decodes, e.kv, len(e.chunks), e.waiting.n, e.free, e.cfg.Blocks, e.tick)
}

// startDecoding turns a sequence whose tokens are all computed into one that
// makes a token per step; the first has just been sampled.
func (e *Engine) startDecoding(s *Seq, now float64) {
	if e.cfg.Policy == SGLang {
		e.promised -= e.owed(s)
	}
	e.dropChunk(s)
	if s.made == 0 {
		s.Account.First = now
		e.Counters.PromptTokens += int64(s.Prompt)
		e.Counters.CachedTokens += int64(s.Account.Cached)
	}
	if s.redo != 0 {
		s.Account.Preempted += now - s.redo
		if s.made == 0 {
			s.Account.PreemptedEarly = s.Account.Preempted
		}
		s.redo = 0
	}
	if e.alone {
		s.start = now
	}
	s.made++
	e.decode(s)
}
