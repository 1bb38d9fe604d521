package twin

import "fmt"

// Policy names whose scheduler an engine follows.
type Policy string

// The policies.
//
// VLLM admits a sequence when its prompt fits the free memory, and takes memory
// back from running ones when it was too much.
//
// TRTLLM is TensorRT-LLM's GUARANTEED_NO_EVICT: a sequence is admitted when its
// prompt and its longest possible answer fit beside the longest possible answers
// of all that run, so nobody is ever preempted.
//
// SGLang runs prompts in steps of their own, ahead of decoding: while there are
// prompts to compute that fit, nobody decodes. What running sequences will still
// need is estimated as a share of their limits, a share that shrinks as long as
// all goes well; when it was too small, sequences with the shortest answers lose
// theirs ("retraction"). Its cache is a radix tree (kvPool).
const (
	VLLM   Policy = "vllm"
	TRTLLM Policy = "trtllm"
	SGLang Policy = "sglang"
)

// blockTokens is the size of a KV block that the policy's engine takes by default:
// vLLM's block_size, TensorRT-LLM's tokens_per_block, SGLang's page_size (mid-2026).
func (p Policy) blockTokens() int {
	switch p {
	case TRTLLM:
		return 32
	case SGLang:
		return 1
	default:
		return blockTokens
	}
}

// checkPolicy fills in the default and refuses what the policy cannot do.
func (c *EngineConfig) checkPolicy() error {
	switch c.Policy {
	case "":
		c.Policy = VLLM
	case VLLM, TRTLLM, SGLang:
	default:
		return fmt.Errorf("scheduler policy %q: want %s, %s or %s", c.Policy, VLLM, TRTLLM, SGLang)
	}
	if c.ByPriority && c.Policy != VLLM {
		return fmt.Errorf("scheduling by priority with the policy %s: only %s has it here", c.Policy, VLLM)
	}
	return nil
}

// The constants are SGLang's defaults (SGLANG_INIT_NEW_TOKEN_RATIO,
// SGLANG_MIN_NEW_TOKEN_RATIO_FACTOR, SGLANG_NEW_TOKEN_RATIO_DECAY_STEPS,
// SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION, SGLANG_RETRACT_DECODE_STEPS), mid-2026.
const (
	tokenRatio      = 0.7
	tokenRatioMin   = 0.14 * tokenRatio
	tokenRatioDecay = (tokenRatio - tokenRatioMin) / 600 // per decoding step
	longestEstimate = 4096
	retractSteps    = 20
)

// sglang is what SGLang's scheduler remembers.
type sglang struct {
	// ratio is the share of their limits that answers are expected to use, as of
	// the step after tick since.
	ratio float64
	since int64
	// full is set when a sequence did not fit, and until one leaves.
	full bool
}

// ratioNow is the share at a tick: it shrinks with every decoding step.
func (g *sglang) ratioNow(tick int64) float64 {
	return max(tokenRatioMin, g.ratio-tokenRatioDecay*float64(tick-g.since))
}

// expected is the number of tokens that an answer may still take.
func (s *Seq) expected(made int) int { return min(max(s.limit()-made, 0), longestEstimate) }

// scheduleSGLang schedules either prompts or decoding.
func (e *Engine) scheduleSGLang(now float64) {
	e.schedulePrompts(now)
	if len(e.plan) > 0 {
		e.alone = true
		return
	}
	if e.needed() > e.free {
		e.retract(now)
		e.preempted = true
	}
	e.use(e.needed())
}

// schedulePrompts gives the step's tokens to the prompt that was cut short by the
// step before, then to waiting ones, the last of which may be cut short again.
func (e *Engine) schedulePrompts(now float64) {
	if len(e.chunks) == 0 && (e.waiting.head == nil || e.sglang.full) {
		return
	}
	budget := e.cfg.MaxNumBatchedTokens
	left := e.free * e.block
	ratio := e.sglang.ratioNow(e.tick)
	for s := e.running.head; s != nil; s = s.next {
		if s.state == decoding {
			left -= e.worth(s.context(e.tick), int(ratio*float64(s.expected(int(e.tick-s.base)))))
		}
	}
	reserve := func(s *Seq, n int) {
		budget -= n
		left -= e.worth(s.computed, (n+e.block-1)/e.block*e.block+e.block)
		if s.computed+n == s.tokens() {
			left -= e.worth(s.tokens(), s.expected(s.made))
		}
	}
	for _, s := range e.chunks {
		s.planned = min(s.tokens()-s.computed, budget)
		need := e.blocksOf(s.computed+s.planned) - s.blocks
		e.use(need * e.per)
		e.promised -= need * e.per
		s.blocks += need
		reserve(s, s.planned)
		e.addChunk(s)
	}
	for budget > 0 && e.waiting.head != nil && !e.sglang.full {
		if e.running.n == e.cfg.MaxNumSeqs {
			e.sglang.full = true
			return
		}
		s := e.waiting.head
		hits, idle := e.find(s)
		rest := s.tokens() - hits*e.block
		s.most = e.cfg.most(s.tokens())
		// Alone, a sequence runs if it can at all, whatever it may come to.
		estimate := e.worth(hits*e.block, rest+s.expected(s.made)+e.block) < left-idle*e.block*e.full || e.running.n == 0
		if !estimate || s.most-(hits-idle)*e.full > e.free-e.promised {
			e.sglang.full = true
			e.look(hits)
			return
		}
		n := min(rest, budget)
		if e.cfg.WholePrompts && n < rest {
			e.look(hits)
			return
		}
		e.admit(s, hits, n, now)
		e.promised += e.owed(s)
		left -= idle * e.block * e.full
		reserve(s, n)
	}
}

// look notes that a prefix of so many blocks was found, although its sequence waits.
func (e *Engine) look(hits int) {
	if hits > 0 {
		e.touch()
	}
}

// retract takes the memory of the sequences with the shortest answers (of equal
// ones that with the longest prompt, then the latest) until the others can go on.
func (e *Engine) retract(now float64) {
	for first := true; first || e.needed() > e.free; first = false {
		var v *Seq
		for s := e.running.head; s != nil; s = s.next {
			if s.state != decoding {
				continue
			}
			if v == nil || s.base > v.base || s.base == v.base && s.Prompt >= v.Prompt {
				v = s
			}
		}
		if e.decodes == 1 {
			panic("BUG: the last sequence does not fit: " + e.String())
		}
		e.preempt(v, now)
	}
	made, limits, n := 0, 0, 0
	for s := e.running.head; s != nil; s = s.next {
		made += int(e.tick - s.base)
		limits += s.limit()
		n++
	}
	e.sglang.ratio = min(1, float64(made+retractSteps*n)/float64(limits+1))
	e.sglang.since = e.tick
	// A step with a retraction does not count.
	e.sglang.since++
}
