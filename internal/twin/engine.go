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
	// Blocks is the number of KV blocks of 16 tokens.
	Blocks int
	// LongPrefill caps one sequence's chunk in a step; 0 is no cap.
	LongPrefill int
	// WholePrompts turns chunked prefill off: a prompt waits for a step that can
	// compute it at once.
	WholePrompts bool
	// Watermark is the share of blocks kept free when a waiting sequence is
	// admitted beside running ones.
	Watermark float64
}

// Unlimited is a number of blocks or tokens that nothing reaches.
const Unlimited = 1 << 40

// Engine is one inference engine that advances by scheduler steps, with the
// semantics of vLLM's V1 scheduler: one token budget per step, running sequences
// first in order of admission, chunked prefill, waiting sequences only when
// nothing was preempted, whole prompts reserved before admission, preemption of
// the last running sequence by recompute.
//
// It has no clock and no goroutine: the driver calls Begin, lets the returned
// time pass, and calls End. Work per step grows with chunks and finishes, not
// with the sequences that decode: those are held as sums. An engine is used by
// one goroutine.
type Engine struct {
	cfg       EngineConfig
	watermark int

	running, waiting seqList
	// chunks are the running sequences whose prompt is not done, in order.
	chunks []*Seq
	finish finishHeap
	free   int
	// tick counts the steps that have ended.
	tick int64
	// decodes and kv are the number of decoding sequences and the sum of their
	// computed tokens. phase[(p+tick) mod 16] counts those that need a block in
	// this step; p is fixed while a sequence decodes.
	decodes int
	kv      int64
	phase   [blockTokens]int
	// For a timer with a window: the sum of the decoding sequences' computed tokens,
	// each cut to it, the number of those below it, and how many of them reach it
	// at which tick, modulo the ring's length.
	window  int
	cutKV   int64
	growing int
	reach   []int

	cancels  []*Seq
	stepping bool
	// preempted is whether the step under way took somebody's memory.
	preempted bool
	began     float64
	batch     Batch
	plan      []*Seq // the sequences whose chunk is in this step
	done      []*Seq // the sequences that the last step finished

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
	case !(cfg.Watermark >= 0 && cfg.Watermark < 1):
		return nil, fmt.Errorf("watermark %v: want a share in [0, 1)", cfg.Watermark)
	}
	e := &Engine{cfg: cfg, free: cfg.Blocks, watermark: int(cfg.Watermark * float64(cfg.Blocks))}
	if t, ok := cfg.Timer.(Windower); ok && t.Window() > 0 {
		e.window = t.Window()
		e.reach = make([]int, e.window+1)
	}
	return e, nil
}

// blocksOf is the number of blocks that hold so many tokens.
func blocksOf(tokens int) int { return (tokens + blockTokens - 1) / blockTokens }

// Fits returns an error when a sequence could never run, even alone.
func (e *Engine) Fits(prompt, output int) error {
	if need := blocksOf(prompt + output - 1); need > e.cfg.Blocks {
		return fmt.Errorf("%d prompt and %d output tokens need %d KV blocks of %d tokens, the engine has %d", prompt, output, need, blockTokens, e.cfg.Blocks)
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
	if err := e.Fits(s.Prompt, s.Output); err != nil {
		panic("BUG: submit of a sequence that does not fit: " + err.Error())
	}
	*s = Seq{Prompt: s.Prompt, Output: s.Output, Owner: s.Owner, Account: Account{Arrival: s.Account.Arrival, Prompt: s.Prompt}, runs: s.runs[:0], state: waiting}
	e.waiting.pushBack(s)
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

	budget, preempted := e.scheduleRunning(now)
	e.preempted = preempted
	if !preempted {
		e.scheduleWaiting(now, budget)
	}
	e.batch.Decodes = e.decodes
	// The context of a decoding sequence includes the token of this step.
	e.batch.KV = e.kv + int64(e.decodes)
	e.batch.Sampled += e.decodes
	if e.window > 0 {
		e.batch.Windowed = e.cutKV + int64(e.growing)
		e.batch.Growing = e.growing - *e.reachAt(e.tick + 1)
	}
	if e.decodes == 0 && len(e.plan) == 0 {
		panic("BUG: a step without work: " + e.String())
	}
	e.stepping = true
	return e.cfg.Timer.StepTime(&e.batch), true
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
// is a multiple of 16 at the ticks where phaseOf + tick is.
func (s *Seq) phaseOf() int64 { return int64(s.Prompt) - s.base - 1 }

func (e *Engine) phaseAt(s *Seq) *int {
	return &e.phase[uint64(-s.phaseOf())%blockTokens]
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
	*full = 0
}

// scheduleRunning gives every running sequence its tokens, in order, and returns
// what is left of the budget.
func (e *Engine) scheduleRunning(now float64) (budget int, preempted bool) {
	budget = e.cfg.MaxNumBatchedTokens
	// What everybody wants. When there is enough of everything the order does not
	// matter; a last chunk may take what is left.
	needed := e.phase[uint64(e.tick)%blockTokens]
	left := budget - e.decodes
	for _, s := range e.chunks {
		s.planned = min(s.tokens()-s.computed, e.threshold(), left)
		if s.planned < min(s.tokens()-s.computed, e.threshold()) && s != e.running.tail {
			left = -1
			break
		}
		left -= s.planned
		needed += blocksOf(s.computed+s.planned) - s.blocks
	}
	if left < 0 || needed > e.free {
		return e.scheduleTight(now)
	}
	e.free -= needed
	for _, s := range e.chunks {
		if s.planned > 0 {
			s.blocks = blocksOf(s.computed + s.planned)
			e.addChunk(s)
		}
	}
	return left, false
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
			if s.context(e.tick)%blockTokens == 0 {
				need = 1
			}
		} else {
			n = min(s.tokens()-s.computed, e.threshold(), budget)
			need = blocksOf(s.computed+n) - s.blocks
		}
		for need > e.free {
			victim := e.running.tail
			e.preempt(victim, now)
			preempted = true
			if victim == s {
				return budget, true
			}
		}
		e.free -= need
		budget -= n
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

// preempt takes a running sequence's memory and puts it at the head of the
// queue; its tokens are computed again.
func (e *Engine) preempt(s *Seq, now float64) {
	if s.redo == 0 {
		s.redo = now
	}
	if s.state == decoding {
		s.runs = append(s.runs, tokenRun{last: int(e.tick - s.base), base: s.base})
	}
	e.leave(s)
	s.computed, s.state = 0, waiting
	s.Account.Preemptions++
	e.Counters.Preemptions++
	e.waiting.pushFront(s)
}

// leave takes a sequence out of running and frees its memory. made and computed
// are brought up to date.
func (e *Engine) leave(s *Seq) {
	e.running.remove(s)
	if s.state == decoding {
		s.computed = s.context(e.tick)
		s.made = int(e.tick - s.base)
		s.Account.Steps += s.made
		s.blocks = blocksOf(s.computed)
		e.kv -= int64(s.computed)
		e.cut(s.computed, -1)
		e.decodes--
		*e.phaseAt(s)--
		e.finish.remove(s)
	} else {
		e.dropChunk(s)
	}
	e.free += s.blocks
	s.blocks = 0
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
		total := s.tokens()
		n := min(total, e.threshold())
		if e.cfg.WholePrompts && n > budget {
			return
		}
		n = min(n, budget)
		keep := 0
		if e.running.n > 0 {
			keep = e.watermark
		}
		// The whole sequence must fit now, although only the chunk's blocks are
		// taken: otherwise half-computed prompts would starve each other.
		if blocksOf(total)+keep > e.free {
			return
		}
		e.waiting.remove(s)
		e.running.pushBack(s)
		e.chunks = append(e.chunks, s)
		s.state = chunking
		if s.Account.Preemptions == 0 {
			s.Account.Admitted = now
		}
		s.planned = n
		s.blocks = blocksOf(n)
		e.free -= s.blocks
		budget -= n
		e.addChunk(s)
	}
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
	e.tick++
	e.kv += int64(e.batch.Decodes)
	e.grow()
	e.Counters.Steps++
	e.Counters.OutputTokens += int64(e.batch.Sampled)
	e.Counters.ComputedTokens += int64(e.batch.Decodes)
	for _, s := range e.plan {
		s.computed += s.planned
		s.Account.Steps++
		e.Counters.ComputedTokens += int64(s.planned)
		s.planned = 0
		if s.computed == s.tokens() {
			e.startDecoding(s, now)
		}
	}
	if emit != nil {
		for s := e.running.head; s != nil; s = s.next {
			if s.state == decoding {
				made := int(e.tick - s.base)
				emit(s, made-1, made == s.Output)
			}
		}
	}
	for len(e.finish) > 0 && e.finish[0].finishTick() <= e.tick {
		s := e.finish[0]
		e.leave(s)
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
			e.leave(s)
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
	e.dropChunk(s)
	if s.made == 0 {
		s.Account.First = now
		e.Counters.PromptTokens += int64(s.Prompt)
	}
	if s.redo != 0 {
		s.Account.Preempted += now - s.redo
		if s.made == 0 {
			s.Account.PreemptedEarly = s.Account.Preempted
		}
		s.redo = 0
	}
	s.made++
	s.base = e.tick - int64(s.made)
	s.state = decoding
	s.Account.Steps -= s.made
	e.decodes++
	e.kv += int64(s.computed)
	e.cut(s.computed, 1)
	*e.phaseAt(s)++
	e.finish.push(s)
}
