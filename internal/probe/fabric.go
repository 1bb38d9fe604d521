package probe

import (
	"fmt"
	"math"
	"slices"

	"plimsoll/internal/conduct"
	"plimsoll/internal/run"
)

var fanOut = kind{
	question: "How many events a second come through, and how evenly?",
	x:        run.ProbeAxis{Name: "streams", Unit: "streams"}, y: run.ProbeAxis{Name: "events", Unit: "1/s"},
	events: true,
	steps:  fanOutSteps,
	enough: func(d *data, last int) bool {
		if last == 0 {
			return false
		}
		now, before := streamsOf(&d.steps[last]), streamsOf(&d.steps[last-1])
		return now.rate.value < (1+gain)*before.rate.value
	},
	fit: fitFanOut,
}

// streams is what came of a step of many streams.
type streams struct {
	rate  estimate // events a second, of the seconds of the step
	gaps  []float64
	first []float64 // ms until the first of each stream
}

// quantile of sorted values.
func quantile(sorted []float64, q float64) float64 {
	return sorted[min(max(int(math.Ceil(q*float64(len(sorted))))-1, 0), len(sorted)-1)]
}

func streamsOf(st *level) streams {
	var s streams
	from, to := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range st.requests {
		r := &st.requests[i]
		s.gaps = append(s.gaps, gapsOf(r)...)
		if !math.IsNaN(r.ttft) {
			s.first = append(s.first, r.ttft)
		}
		if n := len(r.events); n > 0 {
			from, to = min(from, r.events[0].at), max(to, r.events[n-1].at)
		}
	}
	if st.Duration > 0 {
		to = min(to, from+int64(st.Duration))
	}
	const second = int64(1e9)
	n := int((to - from) / second)
	if n < 1 {
		s.rate = unknown
		return s
	}
	// Whole seconds from the first event on.
	seconds := make([]float64, n)
	for i := range st.requests {
		for _, e := range st.requests[i].events {
			if b := (e.at - from) / second; b < int64(n) {
				seconds[b]++
			}
		}
	}
	s.rate = median(seconds)
	slices.Sort(s.gaps)
	return s
}

func fitFanOut(d *data, out *run.Probe) {
	top, users := unknown, 0
	for i := range d.steps {
		st := &d.steps[i]
		s := streamsOf(st)
		if !s.rate.known() || len(s.gaps) == 0 {
			continue
		}
		point(out, "events", float64(st.Users), s.rate, len(st.requests))
		if !(s.rate.value <= top.value) {
			top, users = s.rate, st.Users
		}
		result(out, "gap p99/p50, "+plural(st.Users, "streams"), estimate{quantile(s.gaps, 0.99) / quantile(s.gaps, 0.5), math.NaN(), math.NaN()}, "times", true,
			"How uneven %s gaps between events are: the 99th percentile over the median, %.3g ms.", count(float64(len(s.gaps))), quantile(s.gaps, 0.5))
	}
	if !top.known() {
		result(out, "events", unknown, "1/s", false, "No rung had events for a whole second.")
		return
	}
	last := d.steps[d.ran()-1].Users
	result(out, "events", top, "1/s", users < last || d.ran() < len(d.steps), "The most of any rung, with %s (median of its seconds, interval by order statistics)%s.", plural(users, "streams"),
		map[bool]string{true: "; more streams would bring more", false: ""}[users == last && d.ran() == len(d.steps)])
	fitWay(d, out)
}

// fitWay compares what engines and the client say of the time of whole requests, in the
// first rung of which all were answered: an engine counts those that the client gave
// up, too.
func fitWay(d *data, out *run.Probe) {
	for i := range d.steps {
		st := &d.steps[i]
		from, to := st.span()
		engine := d.engineE2E(from, to+1e9)
		if len(st.requests) == 0 || st.good() < len(st.requests) || math.IsNaN(engine) {
			continue
		}
		mine := mean(st.values(func(r *request) float64 { return r.e2e }))
		result(out, "way", mine.minus(engine).scale(100/mine.value), "%", mine.value > engine, "The share of the time between client and engine, with %s: the client's mean of %.4g ms (Student's interval) less the engine's of %.4g ms.", plural(st.Users, "streams"), mine.value, engine)
		return
	}
	note(out, "no telemetry says how long the engine took for a rung that was answered whole: the share of the way is not known")
}

var payload = kind{
	question: "How long do megabytes take to be sent, beside the time until the first token?",
	x:        run.ProbeAxis{Name: "request body", Unit: "bytes"}, y: run.ProbeAxis{Name: "upload", Unit: "ms"},
	users: []int{1}, requests: func(int) int { return 8 },
	fit: fitPayload,
}

func fitPayload(d *data, out *run.Probe) {
	var x, up []float64
	var shares []float64
	for i := range d.steps {
		st := &d.steps[i]
		var bytes, ups []float64
		for j := range st.requests {
			r := &st.requests[j]
			if !r.ok() || math.IsNaN(r.upload) || r.sentBytes <= 0 {
				continue
			}
			bytes, ups = append(bytes, float64(r.sentBytes)), append(ups, r.upload)
			x, up = append(x, float64(r.sentBytes)), append(up, r.upload)
			if r.ttft > 0 {
				shares = append(shares, 100*r.upload/r.ttft)
			}
		}
		if len(bytes) > 0 {
			point(out, "upload", median(bytes).value, median(ups), len(ups))
		}
	}
	l := theilSen(x, up, confidence)
	if !l.slope.known() {
		result(out, "bandwidth", unknown, "MB/s", false, "No bodies of different sizes were sent: a prediction sends none.")
		return
	}
	// A buffer takes what fits at once: then the slope is that of memory.
	result(out, "bandwidth", l.slope.inverse().scale(1e-3), "MB/s", l.slope.lo > 0, "Of the bodies of %s, from what a byte more takes to be handed to the kernel (Theil and Sen); what fits the buffers of the connection is not seen on its way.", plural(len(x), "requests"))
	result(out, "share of ttft", median(shares), "%", true, "How much of the time to the first token the upload is (median of all requests).")
}

var churn = kind{
	question: "What does a new connection for every request cost?",
	x:        usersAxis, y: run.ProbeAxis{Name: "connect", Unit: "ms"},
	steps:         churnSteps,
	newConnection: true,
	fit:           fitChurn,
}

func fitChurn(d *data, out *run.Probe) {
	var all, shares []float64
	failed, n, reused := 0, 0, 0
	fastest := 0.0
	for i := range d.steps {
		st := &d.steps[i]
		v := st.values(func(r *request) float64 { return r.connect })
		for j := range st.requests {
			r := &st.requests[j]
			n++
			if r.reused {
				reused++
			}
			if !r.ok() && !reached(r.connected) {
				failed++
			}
			if r.ok() && r.ttft > 0 && !math.IsNaN(r.connect) {
				shares = append(shares, 100*r.connect/r.ttft)
			}
		}
		if len(v) == 0 {
			continue
		}
		all = append(all, v...)
		point(out, "connect", float64(st.Users), median(v), len(v))
		if from, to := st.span(); to > from {
			fastest = max(fastest, float64(len(v))/seconds(to-from))
		}
	}
	if len(all) == 0 {
		result(out, "connect", unknown, "ms", false, "No connection was seen to be made: no request was answered, or this is a prediction, which has none.")
		return
	}
	k := len(all)
	e := median(all)
	result(out, "connect", e, "ms", reused == 0, "Until a connection was ready, TLS included (median of %s, interval by order statistics).", plural(k, "requests"))
	result(out, "connect p99", estimate{quantile(all, 0.99), math.NaN(), math.NaN()}, "ms", k >= 662, "The 99th percentile; 662 requests make it meaningful.")
	result(out, "share of ttft", median(shares), "%", true, "How much of the time to the first token the connection takes (median).")
	result(out, "failures", share(failed, n).scale(100), "%", failed == 0, "Requests that got no connection: %s of %s (Wilson's interval).", count(float64(failed)), count(float64(n)))
	result(out, "connections", estimate{fastest, math.NaN(), math.NaN()}, "1/s", true, "The most in a second, over a rung. A port that was used rests for a minute: 28,000 to one address are about 470 a second for long.")
	if reused > 0 {
		note(out, "%d of %d requests ran on a connection that had served another: set target.new-connection", reused, n)
	}
}

var transfer = kind{
	question: "Where prompts are computed apart from answers: how much of the time to the first token is the handing over of keys and values?",
	x:        promptAxis, y: ttftAxis,
	events: true,
	users:  []int{1}, requests: func(int) int { return 10 },
	fit: fitTransfer,
}

func fitTransfer(d *data, out *run.Probe) {
	var short, long, second, usual []float64
	var length float64
	for i := range d.steps {
		st := &d.steps[i]
		v := st.values(ttft)
		if len(v) == 0 {
			continue
		}
		one := st.Set["output.tokens"] == "1"
		point(out, map[bool]string{true: "one token", false: "long answers"}[one], st.prompt(), median(slices.Clone(v)), len(v))
		if one {
			continue
		}
		length, long = st.prompt(), v
		for j := range d.steps {
			if o := &d.steps[j]; j != i && o.Set["output.tokens"] == "1" && o.Set["prompt.turn"] == st.Set["prompt.turn"] {
				short = o.values(ttft)
			}
		}
		for j := range st.requests {
			if g := gapsOf(&st.requests[j]); st.requests[j].ok() && len(g) > 2 {
				second = append(second, g[0]-median(slices.Clone(g[1:])).value)
				usual = append(usual, g[1:]...)
			}
		}
	}
	if len(short) == 0 || len(long) == 0 {
		result(out, "later first token", unknown, "ms", false, "Prompts of one length with one token and with many are needed.")
		return
	}
	base := median(slices.Clone(short)).value
	later := shift(short, long)
	result(out, "later first token", later, "ms", true, "By how much the first token of a long answer comes later than that of an answer of one token, for prompts of %s tokens: nothing has to be handed over for one token (Hodges and Lehmann).", count(length))
	result(out, "share of ttft", later.scale(100/base), "%", true, "The same as a share of the time to the first token, %.4g ms.", base)
	wait := median(second)
	if !wait.known() {
		note(out, "no answer had three tokens: how long the second takes is not known")
	} else {
		result(out, "wait for the second", wait, "ms", true, "By how much the second token comes later than those after it, %.3g ms apart (median, interval by order statistics): where the first token comes before the handing over, this is it.", median(usual).value)
	}
	if v := d.signals["kv_transfer_time"]; len(v) > 0 {
		var all []float64
		for _, s := range v {
			all = append(all, 1000*s.value)
		}
		note(out, "the server says that a transfer took %.3g ms (median)", median(all).value)
	} else {
		note(out, "evidence: the client's times alone; no telemetry says how long transfers took")
	}
	if later.lo <= 0 && wait.lo <= 0 {
		note(out, "neither shows: nothing is handed over, or it costs less than can be told from chance")
	}
}

var parallelLatency = kind{
	question: "How long is a step beyond what reading the weights takes, alone and for many users?",
	x:        usersAxis, y: tpotAxis,
	users: []int{1, 64}, requests: func(users int) int { return max(8, users) },
	fit: fitParallel,
}

func fitParallel(d *data, out *run.Probe) {
	type cell struct {
		users  int
		prompt float64
		v      []float64
	}
	var cells []cell
	for i := range d.steps {
		st := &d.steps[i]
		if v := st.values(tpot); len(v) > 0 {
			cells = append(cells, cell{st.Users, st.prompt(), v})
			point(out, "prompts of "+count(st.prompt()), float64(st.Users), median(slices.Clone(v)), len(v))
		}
	}
	if len(cells) == 0 {
		result(out, "step", unknown, "ms", false, "No answer had a time per token.")
		return
	}
	slices.SortStableFunc(cells, func(a, b cell) int { return a.users - b.users })
	first := cells[0]
	step := median(slices.Clone(first.v))
	result(out, "step", step, "ms", true, "Of one token for %s after prompts of %s tokens (median, interval by order statistics).", plural(first.users, "users"), count(first.prompt))
	if least := conduct.TPOTFloor(d.scenario); least != nil {
		floor := *least
		over := step.minus(floor)
		result(out, "above the roofline", over, "ms", over.lo > -0.02*floor, "The step less what the declared hardware takes to read the weights, %.3g ms: launches, the host, and what devices send each other.", floor)
	} else {
		result(out, "above the roofline", unknown, "ms", false, "Not known: say what the server runs on, as in --hardware 2xh100, and a model of the catalogue.")
	}
	for i, c := range cells[1:] {
		for _, b := range cells[:i+1] {
			switch {
			case b.users == c.users && b.prompt != c.prompt:
				lo, hi := b, c
				if lo.prompt > hi.prompt {
					lo, hi = hi, lo
				}
				result(out, fmt.Sprintf("long prompts, %s", plural(c.users, "users")), shift(lo.v, hi.v).scale(1000/(hi.prompt-lo.prompt)), "ms/1000 tokens", true, "What 1,000 tokens more of context add to a step for %s (Hodges and Lehmann).", plural(c.users, "users"))
			case b.users != c.users && b.prompt == c.prompt:
				result(out, "many users, prompts of "+count(c.prompt), shift(b.v, c.v), "ms", true, "What %d users add to the step of %d (Hodges and Lehmann).", c.users, b.users)
			}
		}
	}
}
