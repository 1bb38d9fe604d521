package twin

import "math"

// Liner is a StepTimer that knows where it is straight, so that many steps can be
// added up at once. A timer that is no Liner is stepped through.
type Liner interface {
	StepTimer
	// Line returns, for a batch without chunks, the length of the step in ns, by
	// how much it grows with each token of the KV sum, and the largest KV sum up to
	// which that holds when nothing else of the batch changes; it is at least b.KV.
	Line(b *Batch) (ns, perToken float64, until int64)
}

// Line returns the fixed length, which nothing changes.
func (f FixedStep) Line(*Batch) (ns, perToken float64, until int64) {
	return float64(f), 0, math.MaxInt64
}

// Line returns the piece of the table of decoding attention that b lies on, cut
// where the device overtakes the host.
func (r *Roofline) Line(b *Batch) (ns, perToken float64, until int64) {
	until = int64(math.MaxInt64)
	slope := 0.0
	if i := kvIndex(b.KV); b.Decodes > 0 && i < kvPoints-1 {
		x0, x1 := kvPoint(i), kvPoint(i+1)
		slope = (r.attention[i+1] - r.attention[i]) / float64(x1-x0)
		until = x1
	}
	if i := kvIndex(b.Windowed); r.window > 0 && b.Growing > 0 && i < kvPoints-1 {
		// The other sum grows by Growing with every step, the KV sum by Decodes.
		x0, x1 := kvPoint(i), kvPoint(i+1)
		slope += (r.windowed[i+1] - r.windowed[i]) / float64(x1-x0) * float64(b.Growing) / float64(b.Decodes)
		until = min(until, b.KV+(x1-b.Windowed)/int64(b.Growing)*int64(b.Decodes))
	}
	device, host := r.times(b)
	switch {
	case !r.overlap:
		return 1e9 * (device + host + r.serial), 1e9 * slope, until
	case device >= host:
		if slope < 0 {
			until = min(until, b.KV+int64((device-host)/-slope))
		}
		return 1e9 * (device + r.serial), 1e9 * slope, until
	default:
		if slope > 0 {
			until = min(until, b.KV+int64((host-device)/slope))
		}
		return 1e9 * (host + r.serial), 0, until
	}
}

// Ahead returns how many steps in a row would be like the one that Begin
// scheduled, itself included, if nothing were submitted or cancelled: each with
// the same sequences decoding and nothing else, up to the first that finishes
// something. It is 1 when the step is not of that kind.
func (e *Engine) Ahead() int64 {
	if len(e.plan) > 0 || e.preempted || e.decodes == 0 || len(e.cancels) > 0 {
		return 1
	}
	// What waits now could not be admitted, for want of a place, of budget or of
	// memory, and none of them grows before something finishes.
	n := e.finish[0].tick - e.tick
	if n <= 1 {
		return 1
	}
	// From the next step on, no sequence may fill its window: the sum of the cut
	// contexts has to grow evenly.
	if e.window > 0 && e.batch.Growing > 0 {
		for i := int64(2); i < min(n, int64(len(e.reach))); i++ {
			if *e.reachAt(e.tick + i) > 0 {
				n = i
			}
		}
	}
	if e.slide > 0 {
		return e.aheadSliding(n)
	}
	// As many steps as a block has tokens take a block for each sequence. The first step has its own.
	per, size := int64(e.decodes), int64(e.block)
	if blocks := ((n-1)/size + 1) * per; blocks > int64(e.free) {
		cycles := int64(e.free) / per
		left := int64(e.free) - cycles*per
		more := cycles * size
		for more < n-1 {
			left -= int64(e.phase[e.inBlock(e.tick+1+more)])
			if left < 0 {
				break
			}
			more++
		}
		n = min(n, more+1)
	}
	return n
}

// Leap makes the step that Begin scheduled the last of n that are alike, n being
// at most what Ahead returned: the ones before have ended when it returns, and
// End ends the last.
func (e *Engine) Leap(n int64) {
	more := n - 1
	if more == 0 {
		return
	}
	if e.slide > 0 {
		e.slides(*e.reachAt(e.tick + 1), e.tick+1)
		e.leapSliding(more)
	} else {
		blocks := more / int64(e.block) * int64(e.decodes)
		for i := range more % int64(e.block) {
			blocks += int64(e.phase[e.inBlock(e.tick+1+i)])
		}
		if blocks > int64(e.free) {
			panic("BUG: a leap beyond the memory: " + e.String())
		}
		e.use(int(blocks))
	}
	if e.window > 0 {
		*e.reachAt(e.tick + 1) = 0
		e.growing = e.batch.Growing
		e.batch.Windowed += more * int64(e.growing)
		e.cutKV = e.batch.Windowed - int64(e.growing)
		e.batch.Growing -= *e.reachAt(e.tick + more + 1)
	}
	e.tick += more
	e.kv += more * int64(e.decodes)
	e.batch.KV += more * int64(e.decodes)
	e.Counters.Steps += more
	e.Counters.OutputTokens += more * int64(e.batch.Sampled)
	e.Counters.ComputedTokens += more * int64(e.batch.Decodes)
}

// tokenRun is a part of a sequence's answer that was made one token per step:
// token i, counted from 1, by the engine's step base + i. The first token of a
// run is the one after the last of the run before.
type tokenRun struct {
	last int
	base int64
	// start is when its first token was made, if that was in a step without
	// decoding, which has no number; else 0.
	start float64
}

// piece is a row of steps whose lengths grow evenly. Steps are numbered from 1
// over an engine's life.
type piece struct {
	step, n       int64 // the first step and the number of steps
	start         float64
	first, growth float64
	// apart is a step without decoding. It has the number of the step before it.
	apart bool
	// after is by how many more answers the next piece is counted for, by track; see
	// gapCounts.
	after [tracks]int32
	// needed is the number of answers that began in it and are not over.
	needed int32
	// tokens is what each step made. Sending them keeps the API process busy for cost
	// per step; it was busy until before when the first step ended.
	tokens       int32
	before, cost float64
}

// sent returns when the tokens of the k-th step are sent, k from 1 to n: after the
// step, and after the tokens of the steps before.
func (p *piece) sent(k int64) float64 {
	if p.cost == 0 {
		return p.end(k)
	}
	// The longest of the waits that began with a step j of the piece, or before it:
	// end(j) + (k-j+1) cost. Steps that grow make that largest at an end of the piece.
	x := float64(k)
	at := max(p.before+x*p.cost, p.end(1)+x*p.cost, p.end(k)+p.cost)
	if p.growth < 0 {
		j := int64((p.cost-p.first)/p.growth) + 1
		for i := max(j-1, 1); i <= min(j+1, k); i++ {
			at = max(at, p.end(i)+float64(k-i+1)*p.cost)
		}
	}
	return at
}

// appendSent appends when the tokens of the steps after the from-th, up to the
// to-th, are sent.
func (p *piece) appendSent(dst []int64, from, to int64) []int64 {
	if p.cost == 0 || p.growth < 0 {
		for k := from; k < to; k++ {
			dst = append(dst, int64(p.sent(k+1)))
		}
		return dst
	}
	// What p.sent says, with one comparison for all that wait.
	busy := max(p.before, p.end(1))
	for k := from; k < to; k++ {
		at := p.end(k+1) + p.cost
		if queued := busy + float64(k+1)*p.cost; queued > at {
			at = queued
		}
		dst = append(dst, int64(at))
	}
	return dst
}

// split divides a piece after k steps.
func (p *piece) split(k int64) (rest piece) {
	rest = *p
	rest.step, rest.n = p.step+k, p.n-k
	rest.start, rest.first = p.end(k), p.first+float64(k)*p.growth
	p.n = k
	return rest
}

// end returns when the k-th step of the piece ends, k from 0 (its start) to n.
func (p *piece) end(k int64) float64 {
	x := float64(k)
	return p.start + x*p.first + p.growth*(x*(x-1)/2)
}

// endedBy returns how many steps of the piece have ended by t, which is in whole ns
// as everything on the agenda is: a step that ends within the ns has ended.
func (p *piece) endedBy(t int64) int64 {
	lo, hi := int64(0), p.n
	for lo < hi {
		if mid := (lo + hi) / 2; int64(p.end(mid+1)) <= t {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// begunBefore returns how many steps of the piece begin before t.
func (p *piece) begunBefore(t float64) int64 {
	lo, hi := int64(0), p.n
	for lo < hi {
		if mid := (lo + hi) / 2; p.end(mid) < t {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}
