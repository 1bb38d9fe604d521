package probe

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"plimsoll/internal/record"
	"plimsoll/internal/run"
)

var capacity = kind{
	question: "How many tokens of keys and values does the server hold?",
	x:        run.ProbeAxis{Name: "contexts wanted at once", Unit: "tokens"}, y: run.ProbeAxis{Name: "contexts held at once", Unit: "tokens"},
	climbs: true, events: true,
	steps: capacitySteps,
	enough: func(d *data, last int) bool {
		f := findCapacity(d, last+1)
		return f.memory && f.h.kept >= 16
	},
	fit: fitCapacity,
}

// holding is how much of a step's contexts a server held at once, as its client
// sees it.
type holding struct {
	// wanted is what all contexts of the users come to, asked what of the answers is
	// asked for in it.
	wanted float64
	// held is the most that sequences whose tokens came held at one time: their
	// prompts and what of their answers had come. reserved is the same with the whole
	// of the answers that they asked for, kept the number of sequences then.
	held, reserved float64
	kept           int
	// stalls is the number of times that an answer stood still while those of others
	// went on: its memory had been taken.
	stalls int
	// idle is the longest time, in ns, during which requests waited while no prompt can
	// have been computed; full says that requests waited for memory.
	idle int64
	full bool
	// most is the largest number of sequences at one time, n that of requests.
	most, n int
}

// missed is how many tokens an answer must go without, while each of the others has
// as many, to have lost its memory.
const missed = 3

// change is what happens to what is held at an instant.
type change struct {
	at             int64
	held, reserved int
	sequences      int
	first          bool // it is the first token of a request
}

func holdingOf(st *level) holding {
	var h holding
	var all []int64 // times of all events
	var prompts []float64
	for i := range st.requests {
		r := &st.requests[i]
		if len(r.events) == 0 {
			continue
		}
		h.n++
		prompts = append(prompts, float64(r.tokens()+max(r.askedOutput, 0)))
		for _, e := range r.events {
			all = append(all, e.at)
		}
	}
	if h.n == 0 {
		return h
	}
	h.wanted = mean(prompts).value * float64(st.Users)
	slices.Sort(all)
	span := float64(all[len(all)-1] - all[0])
	decoding := 0.0
	for i := range st.requests {
		if e := st.requests[i].events; len(e) > 0 {
			decoding += float64(e[len(e)-1].at - e[0].at)
		}
	}
	beside := max(decoding/max(span, 1), 1) // sequences at a time, in the mean
	between := func(a, b int64) int {
		i, _ := slices.BinarySearch(all, a+1)
		j, _ := slices.BinarySearch(all, b)
		return j - i
	}
	var changes []change
	var starts []int64 // when requests were sent, and had their first token
	for i := range st.requests {
		r := &st.requests[i]
		if len(r.events) == 0 {
			continue
		}
		gaps := make([]int64, 0, len(r.events))
		for k := 1; k < len(r.events); k++ {
			gaps = append(gaps, r.events[k].at-r.events[k-1].at)
		}
		usual := int64(math.MaxInt64)
		if len(gaps) > 0 {
			slices.Sort(gaps)
			usual = gaps[len(gaps)/2]
		}
		context, limit := r.tokens(), r.tokens()+max(r.askedOutput, r.output, 0)
		on := func(at int64, first bool) { changes = append(changes, change{at, context, limit, 1, first}) }
		off := func(at int64) { changes = append(changes, change{at, -context, -limit, -1, false}) }
		on(r.events[0].at, true)
		for k, e := range r.events {
			if k > 0 {
				last := r.events[k-1].at
				if gap := e.at - last; gap > 2*usual && float64(between(last, e.at)) >= missed*beside {
					h.stalls++
					off(last + 1)
					on(e.at, false)
				}
			}
			context += e.tokens
			changes = append(changes, change{at: e.at, held: e.tokens})
		}
		off(r.events[len(r.events)-1].at + 1)
		starts = append(starts, r.start)
	}
	slices.SortFunc(changes, func(a, b change) int {
		// Who leaves does so before who comes.
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.sequences, b.sequences))
	})
	h.sweep(changes, starts, st)
	return h
}

// sweep goes through the changes in the order of time.
func (h *holding) sweep(changes []change, starts []int64, st *level) {
	slices.Sort(starts)
	var held, reserved, n int
	// How fast prompts are computed: the first tokens after the start of the step come one prompt
	// after another.
	perToken := prefillTime(st)
	longest := 0
	for i := range st.requests {
		longest = max(longest, st.requests[i].tokens())
	}
	begun := 0    // requests that were sent
	admitted := 0 // of them those that have had their first token
	last := int64(math.MinInt64)
	for i, c := range changes {
		for begun < len(starts) && starts[begun] <= c.at {
			begun++
		}
		waiting := begun - admitted
		held, reserved, n = held+c.held, reserved+c.reserved, n+c.sequences
		if c.first {
			admitted++
		}
		if c.sequences != 0 {
			if waiting > 0 && last != math.MinInt64 {
				h.idle = max(h.idle, c.at-last)
			}
			last = c.at
		}
		if i+1 < len(changes) && changes[i+1].at == c.at {
			continue
		}
		h.most = max(h.most, n)
		if float64(held) > h.held {
			h.held, h.kept = float64(held), n
		}
		h.reserved = max(h.reserved, float64(reserved))
	}
	patience := int64(4 * perToken * float64(longest))
	h.full = h.stalls > 0 || h.idle > patience && patience > 0 && h.most < st.Users
}

// prefillTime is the time in ns that a token of a prompt takes: between the first
// tokens of the step's first requests, of which each waits for the prompt before it.
func prefillTime(st *level) float64 {
	var firsts []*request
	for i := range st.requests {
		if r := &st.requests[i]; r.first != record.Unset && len(r.events) > 0 {
			firsts = append(firsts, r)
		}
	}
	slices.SortFunc(firsts, func(a, b *request) int { return cmp.Compare(a.first, b.first) })
	var per []float64
	for i := 1; i < len(firsts) && i <= 16; i++ {
		if n := firsts[i].tokens(); n > 0 && firsts[i].first > firsts[i-1].first {
			per = append(per, float64(firsts[i].first-firsts[i-1].first)/float64(n))
		}
	}
	e := median(per)
	if !e.known() {
		return 0
	}
	return e.value
}

// finding is the rung of a ladder at which the memory was full, or what else kept
// requests waiting.
type finding struct {
	h  holding
	at int
	// memory says that it was the memory: some was taken back from a rung that wanted
	// clearly more than it held, or two rungs with contexts of different lengths held
	// as many tokens. capped says that two rungs held as many sequences, however long.
	memory, capped bool
	// waited says that requests waited, for whichever reason.
	waited bool
}

// alike is how near, relatively, what two rungs held must be to be the same, short how
// much of what a rung wanted must be missing for what it held to be all there is: one
// answer alone may stand still for other reasons, such as a lost packet.
const (
	alike = 0.1
	short = 0.87
)

// findCapacity looks through the first steps of a ladder.
func findCapacity(d *data, steps int) finding {
	var f finding
	var before *holding
	for i := range d.steps[:steps] {
		if len(d.steps[i].requests) == 0 {
			continue
		}
		h := holdingOf(&d.steps[i])
		if !h.full {
			continue
		}
		f.waited = true
		if h.stalls > 0 {
			if h.held < short*h.wanted || before != nil && math.Abs(h.held/before.held-1) < alike {
				return finding{h: h, at: i, memory: true, waited: true}
			}
		} else if before != nil {
			tokens, sequences := math.Abs(h.reserved/before.reserved-1), math.Abs(float64(h.most)/float64(before.most)-1)
			switch {
			case tokens < alike && tokens < sequences:
				// The one of more sequences leaves less to chance.
				return finding{h: *before, at: f.at, memory: true, waited: true}
			case sequences < alike:
				f.capped = true
			}
		}
		before = &h
		f.h, f.at = h, i
	}
	return f
}

func fitCapacity(d *data, out *run.Probe) {
	most := 0.0
	for i := range d.steps {
		if len(d.steps[i].requests) == 0 {
			continue
		}
		h := holdingOf(&d.steps[i])
		most = max(most, h.held)
		point(out, "held", h.wanted, estimate{h.held, math.NaN(), math.NaN()}, h.n)
	}
	found := findCapacity(d, len(d.steps))
	h, at := found.h, found.at
	const name = "kv capacity"
	stated := unknown
	if v := d.signals["kv_capacity"]; len(v) > 0 {
		stated.value = v[len(v)-1].value
		note(out, "the server states a capacity of %s tokens", count(stated.value))
	}
	if !found.memory {
		text := fmt.Sprintf("No request waited for memory up to the top of the ladder, with %s tokens held at once: the capacity is larger.", count(most))
		switch {
		case found.capped:
			text = fmt.Sprintf("At most %s ran at once whatever their length: a cap of the number of sequences comes before the memory, which holds at least %s tokens.", plural(h.most, "sequences"), count(most))
		case found.waited:
			text = fmt.Sprintf("Requests waited at one rung only, with %s and %s tokens at once: memory or a cap of the number of sequences, which cannot be told apart.", plural(h.most, "sequences"), count(h.held))
		}
		result(out, name, unknown, "tokens", false, "%s", text)
		return
	}
	e := estimate{value: h.held, lo: h.held, hi: h.reserved}
	evidence := ""
	switch {
	case h.stalls > 0:
		// The memory was full whenever somebody lost it. Between two sequences of the
		// average length lies what the largest sum may miss.
		evidence = fmt.Sprintf("%s of answers while others went on: their memory was taken (preemption)", plural(h.stalls, "standstills"))
		e.hi = h.held * (1 + 1/float64(max(h.kept, 1)))
	default:
		// Nothing is ever taken back: the whole of each answer is set aside before it
		// begins.
		evidence = "requests waited while no prompt was computed, two rungs held as many tokens, and no answer ever stood still: the whole of each answer is set aside (queueing)"
		e = estimate{h.reserved, h.held, h.reserved * (1 + 1/float64(max(h.most, 1)))}
	}
	from, to := d.steps[at].span()
	source := "from the client's figures alone"
	if v := d.during("kv_cache_usage", from, to); len(v) > 0 {
		source = fmt.Sprintf("the server's own use of the cache reached %.0f %%", 100*slices.Max(v))
		if p := d.during("preemptions", from, to); len(p) > 0 {
			// A rate in each cell of the timeline, of which most are a second long.
			source += fmt.Sprintf(" with up to %.3g preemptions a second", slices.Max(p))
		}
		if w := d.during("requests_waiting", from, to); len(w) > 0 {
			source += fmt.Sprintf(" and up to %.0f requests waiting", slices.Max(w))
		}
	}
	result(out, name, e, "tokens", true, "The most that sequences held at once when others had to wait: their prompts and %s, over %s. Evidence: %s. The interval reaches from what was seen to be held to one sequence more.",
		map[bool]string{true: "what of their answers had come", false: "all of their answers"}[h.stalls > 0], plural(h.n, "requests"), evidence)
	result(out, "sequences", estimate{float64(h.kept), math.NaN(), math.NaN()}, "", true, "How many of them there were then.")
	note(out, "evidence: %s; %s", evidence, source)
	if stated.known() && math.Abs(stated.value/e.value-1) > 0.1 {
		note(out, "what the server states and what it held are %.0f %% apart", 100*math.Abs(stated.value/e.value-1))
	}
	jump(d, at, out)
}

// jump compares the time to the first token in the step where the memory was full
// with that of the step before.
func jump(d *data, at int, out *run.Probe) {
	if at == 0 {
		return
	}
	before, full := d.steps[at-1].values(ttft), d.steps[at].values(ttft)
	// Longer prompts take longer: what counts is the time per token.
	a, b := d.steps[at-1].prompt()*float64(d.steps[at-1].Users), d.steps[at].prompt()*float64(d.steps[at].Users)
	e := ratio(before, full)
	if !e.known() || a <= 0 {
		return
	}
	if e = e.scale(a / b); !(e.lo > 1) {
		note(out, "the usual time to the first token did not jump where memory was full: most requests did not wait")
		return
	}
	result(out, "ttft jump", e, "times", true, "The time to the first token where memory was full over that of the rung before, beyond what %.3g times the tokens explain (Hodges and Lehmann on logarithms).", b/a)
}

var prefixReuse = kind{
	question: "How much of what prompts have in common does the server find again, and what is that worth?",
	x:        run.ProbeAxis{Name: "declared reuse", Unit: "%"}, y: ttftAxis,
	users:    []int{2},
	requests: func(users int) int { return 20 * users },
	fit:      fitReuse,
}

// warm are the requests of a step that began after the first had ended: what is
// shared can have been found by then.
func (l *level) warm() []*request {
	first := int64(math.MaxInt64)
	for i := range l.requests {
		if r := &l.requests[i]; r.ok() {
			first = min(first, r.end)
		}
	}
	var out []*request
	for i := range l.requests {
		if r := &l.requests[i]; r.ok() && r.start >= first {
			out = append(out, r)
		}
	}
	return out
}

// reused are the times to the first token of a rung.
type reused struct {
	declared float64
	v        []float64
}

func fitReuse(d *data, out *run.Probe) {
	var x, y, gaps []float64
	var ends []reused
	silent, engine := 0, false
	for i := range d.steps {
		st := &d.steps[i]
		declared, ok := declaredReuse(d, i)
		rs := st.warm()
		if !ok || len(rs) == 0 {
			continue
		}
		var times, shares []float64
		for _, r := range rs {
			times = append(times, r.ttft)
			x, y = append(x, 100*declared), append(y, r.ttft)
			if r.cached >= 0 && r.tokens() > 0 {
				shares = append(shares, 100*float64(r.cached)/float64(r.tokens()))
			}
		}
		ends = append(ends, reused{declared, slices.Clone(times)})
		point(out, "ttft", 100*declared, median(times), len(times))
		hit := mean(shares)
		if !hit.known() {
			silent++
			from, to := st.span()
			if v := d.during("prefix_cache_hit_ratio", from, to); len(v) > 0 {
				hit, engine = median(v).scale(100), true
			}
		}
		if hit.known() {
			point(out, "hit rate, %", 100*declared, hit, max(len(shares), 1))
			gaps = append(gaps, math.Abs(hit.value-100*declared))
			result(out, fmt.Sprintf("hit rate at %.0f %%", 100*declared), hit, "%", math.Abs(hit.value-100*declared) <= 2,
				"Of %s whose prompts have %.1f %% in common: the mean of their cached tokens (Student's interval).", plural(len(rs), "requests"), 100*declared)
		}
	}
	if len(gaps) > 0 {
		worst := slices.Max(gaps)
		result(out, "largest difference", estimate{worst, math.NaN(), math.NaN()}, "points", worst <= 2, "Between the measured and the declared reuse, over all rungs.")
	} else {
		result(out, "largest difference", unknown, "points", false, "Neither the answers nor the telemetry say what was found in the cache: only the times below do.")
	}
	slices.SortStableFunc(ends, func(a, b reused) int { return cmp.Compare(a.declared, b.declared) })
	fitted := theilSen(x, y, confidence)
	result(out, "ttft per point", fitted.slope, "ms", fitted.slope.bounded(), "What a further hundredth of reuse changes of the time to the first token (Theil and Sen); below 0 it is worth something.")
	if len(ends) > 1 {
		// From the rung that declares least to the one that declares most.
		e := ratio(ends[0].v, ends[len(ends)-1].v)
		worth := estimate{100 * (1 - e.value), 100 * (1 - e.hi), 100 * (1 - e.lo)}
		result(out, "worth of reuse", worth, "%", worth.lo > 0, "How much of the time to the first token goes from %.0f to %.0f %% of reuse (Hodges and Lehmann on logarithms).", 100*ends[0].declared, 100*ends[len(ends)-1].declared)
	}
	switch {
	case engine:
		note(out, "evidence: the server's telemetry; its answers do not say what was cached")
	case silent > 0:
		note(out, "%d rungs without a word about cached tokens: the times alone speak", silent)
	default:
		note(out, "evidence: the cached tokens that the answers state")
	}
}

var eviction = kind{
	question: "From which working set on does the server forget what comes back?",
	x:        run.ProbeAxis{Name: "working set", Unit: "tokens"}, y: run.ProbeAxis{Name: "hit rate", Unit: "%"},
	steps: evictionSteps,
	enough: func(d *data, last int) bool {
		// Twice in order with nothing found again: the working set is beyond it.
		n := 0
		for i := range d.steps[:last+1] {
			if h := hitsOf(d, i); h.order == "cycle" && h.of > 0 && float64(h.found) < 0.02*float64(h.of) {
				n++
			}
		}
		return n >= 2 && hitsOf(d, last).order == "random"
	},
	fit: fitEviction,
}

// hits are what the last third of a step's requests found in the cache.
type hits struct {
	order     string
	set       float64 // tokens of the working set
	found, of int
}

func hitsOf(d *data, i int) hits {
	st := &d.steps[i]
	h := hits{order: st.Set["prompt.group.order"]}
	sets, length := groupOf(d, i)
	h.set = float64(sets) * length
	for j := len(st.requests) - len(st.requests)/3; j < len(st.requests); j++ {
		if r := &st.requests[j]; r.ok() && r.cached >= 0 {
			h.of++
			if float64(r.cached) > length/2 {
				h.found++
			}
		}
	}
	return h
}

func fitEviction(d *data, out *run.Probe) {
	var kept, lost float64
	var estimates []float64
	sum := unknown
	for i := range d.steps {
		h := hitsOf(d, i)
		if h.of == 0 {
			continue
		}
		e := share(h.found, h.of)
		point(out, map[string]string{"cycle": "in order", "random": "at random"}[h.order], h.set, e.scale(100), h.of)
		switch h.order {
		case "cycle":
			if e.value >= 0.5 {
				kept = max(kept, h.set)
			} else if lost == 0 {
				lost = h.set
			}
		case "random":
			// Of a set larger than the cache, visited at random, what is found is
			// the part that it holds.
			if lost > 0 && h.set >= lost && h.found > 0 {
				estimates = append(estimates, e.value*h.set)
				if c := e.scale(h.set); !sum.known() || c.hi-c.lo < sum.hi-sum.lo {
					sum = c
				}
			}
		}
	}
	switch {
	case kept == 0 && lost == 0:
		result(out, "cache", unknown, "tokens", false, "The answers do not say what was cached: there is no hit rate.")
		return
	case lost == 0:
		result(out, "cache", unknown, "tokens", false, "Up to the top of the ladder, %s tokens, everything was found again: the cache is larger, or has further tiers.", count(kept))
		return
	case kept == 0:
		result(out, "falls at", estimate{lost, math.NaN(), math.NaN()}, "tokens", false, "Already the smallest working set was not found again: there is no prefix cache, or it is very small.")
		return
	}
	result(out, "falls at", estimate{math.Sqrt(kept * lost), kept, lost}, "tokens", true, "In order a cache that forgets what was used least lately finds all or nothing: the interval is that between the last rung with half of it found and the first without.")
	if sum.known() {
		ok := sum.hi >= kept && sum.lo <= lost
		result(out, "cache", sum, "tokens", ok, "At random the hit rate is the part of the working set that is held: their product (the rung with the narrowest of Wilson's intervals, of %s).", plural(len(estimates), "rungs"))
		if !ok {
			note(out, "in order and at random the cache seems to be of two sizes: it does not forget what was used least lately, or has more than one tier")
		}
	}
}

var growth = kind{
	question: "Does anything grow over time under a constant load?",
	x:        run.ProbeAxis{Name: "time", Unit: "s"}, y: tpotAxis,
	steps: growthSteps,
	fit:   fitGrowth,
}

const (
	// growthBlocks is the number of stretches of time whose medians the trend is of:
	// requests beside each other have much in common, stretches little.
	growthBlocks = 30
	// sure is the confidence at which a growth is called one, for each of up to five
	// figures: of a thousand constant loads two or three may be called so.
	sure = 0.999
	// settling is the share of the time at its start that is not looked at.
	settling = 0.1
)

func fitGrowth(d *data, out *run.Probe) {
	if len(d.steps) == 0 || len(d.steps[0].requests) == 0 {
		result(out, "growth", unknown, "%/min", false, "There is no request.")
		return
	}
	st := &d.steps[0]
	from, to := st.span()
	begin := from + int64(settling*float64(to-from))
	leak := false
	grows := func(name string, x, y []float64, unit string) {
		if len(x) < 8 {
			return
		}
		l, certain := theilSen(x, y, confidence), theilSen(x, y, sure)
		level := median(slices.Clone(y)).value
		if level == 0 || !l.slope.bounded() || !certain.slope.bounded() {
			return
		}
		// Relative to the start.
		start := l.intercept + l.slope.value*x[0]
		e := l.slope.scale(100 * 60 / start)
		up := certain.slope.above(0)
		leak = leak || up
		verdict := "no growth can be told from chance"
		if up {
			verdict = fmt.Sprintf("IT GROWS: even the %.2f %% interval lies above 0", 100*sure)
		}
		result(out, "growth of "+name, e, "%/min", !up, "Slope of the medians of %d stretches over %.3g min, of %.4g %s at the start (Theil and Sen); %s.", len(x), (x[len(x)-1]-x[0])/60, start, unit, verdict)
	}
	block := float64(to-begin) / growthBlocks
	for _, f := range []struct {
		name string
		of   func(*request) float64
	}{{"tpot", tpot}, {"ttft", ttft}} {
		parts := make([][]float64, growthBlocks)
		for i := range st.requests {
			r := &st.requests[i]
			v := f.of(r)
			if !r.ok() || math.IsNaN(v) || r.start < begin {
				continue
			}
			b := min(int(float64(r.start-begin)/block), growthBlocks-1)
			parts[b] = append(parts[b], v)
		}
		var x, y []float64
		for b, v := range parts {
			if len(v) < 3 {
				continue
			}
			n := len(v)
			e := median(v)
			at := seconds(begin-from) + (float64(b)+0.5)*block/1e9
			x, y = append(x, at), append(y, e.value)
			point(out, f.name, at, e, n)
		}
		grows(f.name, x, y, "ms")
	}
	for _, s := range []struct {
		signal, name, unit string
		sign               float64
	}{{"kv_cache_usage", "kv cache in use", "", 1}, {"fb_used", "device memory in use", "bytes", 1}, {"host_mem_available", "host memory free", "bytes", -1}} {
		var parts [growthBlocks][]float64
		for _, v := range d.signals[s.signal] {
			if v.at >= begin && v.at < to {
				b := min(int(float64(v.at-begin)/block), growthBlocks-1)
				parts[b] = append(parts[b], v.value)
			}
		}
		var x, y []float64
		for b, v := range parts {
			if len(v) > 0 {
				x, y = append(x, seconds(begin-from)+(float64(b)+0.5)*block/1e9), append(y, median(v).value)
			}
		}
		if s.sign > 0 {
			grows(s.name, x, y, s.unit)
			continue
		}
		for i := range y {
			y[i] = -y[i]
		}
		grows(s.name, x, y, s.unit)
	}
	if len(out.Fits) == 0 {
		result(out, "growth", unknown, "%/min", false, "Too few requests for a trend: at least eight stretches of time with three requests each are needed.")
		return
	}
	if d.signals == nil || len(d.signals["fb_used"])+len(d.signals["kv_cache_usage"])+len(d.signals["host_mem_available"]) == 0 {
		note(out, "evidence: the client's times alone; no telemetry says how memory went")
	}
	if leak {
		note(out, "something grows under a constant load: a leak, fragmentation, or a cache that fills")
	}
}
