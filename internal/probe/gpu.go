package probe

import (
	"math"
	"slices"

	"plimsoll/internal/record"
	"plimsoll/internal/run"
)

var (
	promptAxis = run.ProbeAxis{Name: "prompt", Unit: "tokens"}
	usersAxis  = run.ProbeAxis{Name: "users", Unit: "users"}
	ttftAxis   = run.ProbeAxis{Name: "ttft", Unit: "ms"}
	tpotAxis   = run.ProbeAxis{Name: "tpot", Unit: "ms"}
)

var prefillLadder = kind{
	question: "How fast is a prompt computed, and from which length on does attention take more than the rest?",
	x:        promptAxis, y: ttftAxis,
	users: []int{1, 4}, requests: func(users int) int { return max(8, 2*users) },
	climbs: true,
	fit:    fitPrefill,
}

// alone is the name of the series of one user.
const alone = "one at a time"

// misfitLimit is how far, relatively, rungs may lie off the curve of a prefill until
// the shortest is left out: there the time is not that of arithmetic.
const misfitLimit = 0.02

func fitPrefill(d *data, out *run.Probe) {
	var x, y []float64
	best := unknown
	batch := 0
	for i := range d.steps {
		st := &d.steps[i]
		n := st.prompt()
		v := st.values(ttft)
		if len(v) == 0 {
			continue
		}
		if st.Users == 1 {
			e := median(v)
			point(out, alone, n, e, len(v))
			x, y = append(x, n), append(y, e.value)
			continue
		}
		point(out, st.who(), n, median(v), len(v))
		// Together: tokens of prompts over the time in which they were computed.
		from, to, tokens := int64(math.MaxInt64), int64(math.MinInt64), 0
		for j := range st.requests {
			if r := &st.requests[j]; r.ok() && r.first != record.Unset {
				from, to = min(from, r.start), max(to, r.first)
				tokens += r.tokens()
			}
		}
		if rate := float64(tokens) / seconds(to-from); to > from && !(rate < best.value) {
			best, batch = estimate{rate, math.NaN(), math.NaN()}, st.Users
		}
	}
	left := 0
	fit, ok := parabola(x, y)
	for ok && len(x) > 5 && fit.misfit() > misfitLimit {
		x, y = x[1:], y[1:]
		left++
		fit, ok = parabola(x, y)
	}
	if !ok || len(x) < 4 {
		result(out, "prefill speed", unknown, "tokens/s", false, "Prompts of at least four lengths are needed, one user at a time; there are %d.", len(x))
		return
	}
	b, c := fit.combine(0, 1, 0), fit.combine(0, 0, 1)
	curved := c.lo > 0
	good := b.lo > 0 && fit.misfit() < 0.05
	result(out, "prefill speed", b.inverse().scale(1000), "tokens/s", good,
		"Of a token beside no others: the inverse of b in ttft = a + b n + c n² (least squares of the medians of %d lengths from %.0f tokens, errors in proportion, Student's interval). It holds tokenization and everything else that takes its time per token.", len(x), x[0])
	at := x[0]
	for _, n := range x {
		if math.Abs(math.Log(n/8192)) < math.Abs(math.Log(at/8192)) {
			at = n
		}
	}
	slope := fit.combine(0, 1, 2*at)
	result(out, "speed at "+count(at), slope.inverse().scale(1000), "tokens/s", slope.lo > 0, "What the next token adds to a prompt of %s tokens: the inverse of b + 2 c n.", count(at))
	if curved {
		result(out, "bend", fit.quotient(1, 2), "tokens", good, "From this length on the part that grows with the square of the length, attention, takes more than the rest: b / c, Fieller's interval.")
	} else {
		result(out, "bend", unknown, "tokens", false, "The time grows in proportion to the length over the whole ladder: attention cannot be told from the rest.")
	}
	result(out, "base", fit.combine(1, 0, 0), "ms", true, "What a request takes before its length counts: a.")
	if best.known() {
		result(out, "speed together", best, "tokens/s", true, "The best rate of a rung with %d users at once: all tokens of its prompts, from the first start to the last first token.", batch)
	}
	if left > 0 {
		note(out, "the shortest prompts (%s) are not in the curve: their time is not that of arithmetic", plural(left, "lengths"))
	}
	if fit.misfit() >= 0.05 {
		note(out, "the lengths lie %.0f %% off the curve: caching, batching by others, or a server that treats lengths differently", 100*fit.misfit())
	}
}

var decodeLadder = kind{
	question: "How does the time of a token grow with the number of users, and from which number on is arithmetic what limits it?",
	x:        usersAxis, y: tpotAxis,
	climbs: true,
	steps:  decodeSteps,
	enough: decodeEnough,
	fit:    fitDecode,
}

// gain is by how much twice the users must bring more tokens for the ladder to go on.
const gain = 0.05

// batch is what a rung of a decode ladder came to.
type batch struct {
	users int
	tpot  []float64
	// running is the mean number of users whose tokens came, from the first token to
	// the last of the rung; rate is the tokens that came in a second of it.
	running, rate float64
}

func batchOf(st *level) batch {
	b := batch{users: st.Users, tpot: st.values(tpot)}
	from, to := int64(math.MaxInt64), int64(math.MinInt64)
	var decoding int64
	tokens := 0
	for i := range st.requests {
		r := &st.requests[i]
		if !r.ok() || r.first == record.Unset || r.last == record.Unset {
			continue
		}
		from, to = min(from, r.first), max(to, r.last)
		decoding += r.last - r.first
		tokens += max(r.output, 0)
	}
	if to > from {
		b.running, b.rate = float64(decoding)/float64(to-from), float64(tokens)/seconds(to-from)
	}
	return b
}

// crowded says that not all users had their tokens at once: some waited for others
// to end.
func (b *batch) crowded() bool { return b.running < 0.8*float64(b.users) }

func decodeEnough(d *data, last int) bool {
	now := batchOf(&d.steps[last])
	if now.crowded() {
		return true
	}
	if last == 0 {
		return false
	}
	before := batchOf(&d.steps[last-1])
	return now.rate < (1+gain)*before.rate
}

func fitDecode(d *data, out *run.Probe) {
	var rungs []batch
	top := batch{}
	crowded, cut := 0, 0
	for i := range d.steps {
		b := batchOf(&d.steps[i])
		if len(b.tpot) == 0 {
			if cut == 0 && len(d.steps[i].requests) > 0 {
				cut = b.users
			}
			continue
		}
		point(out, "tpot", float64(b.users), median(slices.Clone(b.tpot)), len(b.tpot))
		if b.rate > top.rate {
			top = b
		}
		if b.crowded() {
			if crowded == 0 {
				crowded = b.users
			}
			continue
		}
		rungs = append(rungs, b)
	}
	if len(rungs) == 0 {
		result(out, "knee", unknown, "users", false, "No rung was answered by all of its users at once.")
		return
	}
	result(out, "flat", median(slices.Clone(rungs[0].tpot)), "ms", true, "The time of a token for %s: the weights are read for each (median, interval by order statistics).", plural(rungs[0].users, "users"))
	knee, slope := kneeOf(rungs)
	result(out, "slope", slope, "ms/user", len(rungs) > 2, "What a user more adds to the time of everybody's token at the top of the ladder: keys and values to be read, and arithmetic.")
	const means = "Twice the users bring less than a third more tokens from here on: where the rate is half of what the slope at the top lets it become (bootstrap of the requests of each rung)."
	switch most := float64(rungs[len(rungs)-1].users); {
	case len(rungs) < 4:
		result(out, "knee", unknown, "users", false, "Four rungs are needed, without any in which users waited for one another; there are %d.", len(rungs))
	case !(knee.value <= most) && cut > 0:
		result(out, "knee", unknown, "users", false, "Not known: up to %s users more of them bring more tokens almost in proportion, and of %d users nobody was answered to the end: a longer --drain gives them the time.", count(most), cut)
	case !(knee.value <= most):
		result(out, "knee", unknown, "users", false, "Not reached: up to %s users more of them bring more tokens almost in proportion. Memory bandwidth is the limit, not arithmetic.", count(most))
	default:
		result(out, "knee", knee, "users", true, means)
	}
	result(out, "top rate", estimate{top.rate, math.NaN(), math.NaN()}, "tokens/s", true, "The most tokens a second of any rung, with %s.", plural(top.users, "users"))
	if crowded > 0 {
		note(out, "from %d users on some waited until others had ended (memory, or the server's cap of sequences): those rungs are in no fit but the top rate", crowded)
	}
}

// kneeOf is where a ladder's rate of tokens is half of what the slope of its two top
// rungs lets it become, with that slope. Both are of medians, their intervals from a
// bootstrap of the requests.
func kneeOf(rungs []batch) (knee, slope estimate) {
	groups := make([][]float64, len(rungs))
	x := make([]float64, len(rungs))
	for i, b := range rungs {
		groups[i], x[i] = b.tpot, float64(b.users)
	}
	if len(rungs) < 2 {
		return unknown, unknown
	}
	n := len(x)
	top := func(m []float64) float64 { return (m[n-1] - m[n-2]) / (x[n-1] - x[n-2]) }
	slope = bootstrap(groups, top)
	knee = bootstrap(groups, func(m []float64) float64 {
		s := top(m)
		if s <= 0 {
			return math.Inf(1)
		}
		// tpot = 2 s n: straight in between the rungs.
		for i := range n {
			if m[i] > 2*s*x[i] {
				continue
			}
			if i == 0 {
				return x[0]
			}
			a, b := m[i-1]-2*s*x[i-1], m[i]-2*s*x[i]
			return x[i-1] + (x[i]-x[i-1])*a/(a-b)
		}
		return math.Inf(1)
	})
	return knee, slope
}

var interference = kind{
	question: "How long do the tokens of others wait while a long prompt is computed?",
	x:        run.ProbeAxis{Name: "prompt of the prefill", Unit: "tokens"}, y: run.ProbeAxis{Name: "itl", Unit: "ms"},
	events: true,
	steps:  interferenceSteps,
	fit:    fitInterference,
}

// fitInterference compares the gaps between tokens during prefills with those in
// the step without any.
func fitInterference(d *data, out *run.Probe) {
	var calm, beside []float64
	worst := []float64{} // the longest gap beside each prefill
	lengths := []float64{}
	for i := range d.steps {
		st := &d.steps[i]
		var prefills [][2]int64
		for j := range st.requests {
			if r := &st.requests[j]; r.workload == interferencePrefill && r.first != record.Unset {
				prefills = append(prefills, [2]int64{r.start, r.first})
				lengths = append(lengths, float64(r.tokens()))
			}
		}
		long := make([]float64, len(prefills))
		for j := range st.requests {
			r := &st.requests[j]
			if r.workload == interferencePrefill {
				continue
			}
			for k := 1; k < len(r.events); k++ {
				gap := float64(r.events[k].at-r.events[k-1].at) / 1e6
				if len(prefills) == 0 && i == 0 {
					calm = append(calm, gap)
					continue
				}
				for p, at := range prefills {
					if r.events[k].at > at[0] && r.events[k-1].at < at[1] {
						beside = append(beside, gap)
						long[p] = max(long[p], gap)
					}
				}
			}
		}
		for _, g := range long {
			if g > 0 {
				worst = append(worst, g)
			}
		}
	}
	length := median(lengths).value
	if len(calm) == 0 || len(worst) == 0 {
		result(out, "stall", unknown, "ms", false, "No token came beside a long prompt, or none without any: there is nothing to compare.")
		return
	}
	base := median(calm)
	p99 := func(v []float64) float64 {
		slices.Sort(v)
		return v[int(math.Ceil(0.99*float64(len(v))))-1]
	}
	point(out, "without", 0, base, len(calm))
	point(out, "beside a prefill", length, median(slices.Clone(beside)), len(beside))
	stall := median(slices.Clone(worst))
	result(out, "stall", stall, "ms", true, "The longest time between two tokens of anybody beside a prompt of %s tokens: the median over %s, interval by order statistics.", count(length), plural(len(worst), "prefills"))
	result(out, "times as long", stall.scale(1/base.value), "", true, "The stall over the usual time between two tokens, %.3g ms.", base.value)
	result(out, "itl p99/p50", estimate{p99(beside) / base.value, math.NaN(), math.NaN()}, "", true, "The 99th percentile of the gaps at the instants of the prefills over the median without any (%.3g over %.3g ms; without any the same ratio is %.3g).", p99(beside), base.value, p99(calm)/base.value)
}
