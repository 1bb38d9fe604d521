package detail

import (
	"cmp"
	"math"
	"slices"

	"plimsoll/internal/histogram"
	"plimsoll/internal/record"
	"plimsoll/internal/stats"
)

// perMS is the number of ns in a ms.
const perMS = 1e6

// latencies are the figures of Figures by name.
var latencies = []figure{
	figTTFT, figTTFC, figTPOT, figE2E, figTTFTFromSchedule, figE2EFromSchedule, figSendLag,
}

// window is a stretch of time of which figures are, of the step that it belongs to,
// -1 for none. It is without bounds where the range covers the step's own window on
// that side, so that its requests are in it whatever their time says.
type window struct {
	step     int
	from, to int64
	// low and high are from and to, or no bounds.
	low, high int64
}

// windows are the parts of the steady windows in a range or, where it touches none,
// the range.
func windows(in *stats.Input, from, to int64) (out []window, steady bool) {
	for i := range in.Steps {
		s := &in.Steps[i]
		from, to := near(from, s.Start), near(to, s.End)
		a, b := max(from, s.Start), min(to, s.End)
		if a > b || a == b && s.Start < s.End { // a step that never began counts as covered
			continue
		}
		steady = steady || a < b
		w := window{i, a, b, a, b}
		if from <= s.Start {
			w.low = math.MinInt64
		}
		if to >= s.End {
			w.high = math.MaxInt64
		}
		out = append(out, w)
	}
	if steady {
		return out, true
	}
	return []window{{-1, from, to, from, to}}, false
}

// near returns end where t is it but for the digits that a time in ms has in JSON.
func near(t, end int64) int64 {
	if d := t - end; d > -1000 && d < 1000 {
		return end
	}
	return t
}

// The marks of the rows that figures are of.
const (
	markOut   = iota
	markOther // in it, but not ok
	markOK
)

// selection are the rows of a range.
type selection struct {
	*view
	windows []window
	byStep  []int32 // which window, by step; -1 for none
	// first and last bound the rows, marks has one for each of them.
	first, last int
	marks       []uint8
}

// take returns the rows of windows.
func (v *view) take(windows []window, steady bool) *selection {
	s := &selection{view: v, windows: windows}
	from, to := int64(math.MaxInt64), int64(math.MinInt64)
	for i, w := range windows {
		from, to = min(from, w.low), max(to, w.high)
		if w.step >= 0 {
			for len(s.byStep) <= w.step {
				s.byStep = append(s.byStep, -1)
			}
			s.byStep[w.step] = int32(i)
		}
	}
	s.first, s.last = v.rows(from, to)
	if to == math.MaxInt64 {
		s.last = v.columns.rows()
	}
	// Which window the rows of a profile may be in, -1 for none, and as what.
	which, as := make([]int32, len(v.profiles)), make([]uint8, len(v.profiles))
	for i := range v.profiles {
		p := &v.profiles[i]
		if which[i] = 0; steady {
			which[i] = -1
			if step := int(p.step); p.phase() == record.Steady && step < len(s.byStep) {
				which[i] = s.byStep[step]
			}
		}
		if as[i] = markOther; p.status() == record.OK {
			as[i] = markOK
		}
	}
	s.marks = make([]uint8, s.last-s.first)
	scheduled, profiles := v.scheduled[s.first:s.last], v.profile[s.first:s.last]
	for i := range s.marks {
		p := profiles[i]
		if which[p] < 0 {
			continue
		}
		if w, t := &windows[which[p]], scheduled[i]; t >= w.low && t < w.high {
			s.marks[i] = as[p]
		}
	}
	return s
}

// order returns rows, among them those of a selection that have a figure, ascending by
// it. Values are those of the selection.
func (s *Store) order(sel *selection, f figure, values []float64) []uint32 {
	if sel.sorted && len(sel.marks) > sel.columns.rows()/64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.orders[f] == nil {
			s.orders[f] = sel.ascending(f)
		}
		return s.orders[f]
	}
	out := make([]uint32, 0, len(values))
	for i, v := range values {
		if v == v {
			out = append(out, uint32(sel.first+i))
		}
	}
	slices.SortFunc(out, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(values[int(a)-sel.first], values[int(b)-sel.first]), cmp.Compare(a, b))
	})
	return out
}

// ascending sorts the rows that have a figure by it.
func (c *columns) ascending(f figure) []uint32 {
	rows, keys := make([]uint32, 0, c.rows()), make([]uint64, 0, c.rows())
	b := newBlock()
	for first := 0; first < c.rows(); first += blockRows {
		values := b.values[:min(blockRows, c.rows()-first)]
		c.fill(f, b, first, values)
		for i, v := range values {
			if v != v {
				continue
			}
			rows = append(rows, uint32(first+i))
			if f == figTPOT {
				keys = append(keys, keyOf(v))
			} else { // whole numbers have fewer digits
				keys = append(keys, uint64(int64(v))^1<<63)
			}
		}
	}
	return sortByKey(keys, rows)
}

// Figures returns the figures of the requests scheduled in [from, to) ns, by the
// definitions of a summary: over whole steady windows they are those of the run's
// summary, to the digit. A range without length is the whole run. Inter-token
// latencies and token rates are of whole cells of the grid, which is cut at the ends
// of the steady windows. While a run goes on a range ends with what is known: nothing
// is divided by time that has not passed.
func (s *Store) Figures(from, to int64) Figures {
	s.mu.RLock()
	first, last := s.span()
	whole := s.whole
	if !s.lasting && len(s.meta.Input.Steps) == 0 && to > last {
		to = max(last, from+1)
	}
	s.mu.RUnlock()
	if to <= 0 && from <= 0 || to <= from {
		from, to = first, max(last, first+1)
	}
	v := s.view()
	ws, steady := windows(&v.input, from, to)
	if whole != nil && len(ws) == len(v.input.Steps) && !slices.ContainsFunc(ws, func(w window) bool { return w.low != math.MinInt64 || w.high != math.MaxInt64 }) {
		out := *whole
		out.From, out.To = ToMs(from), ToMs(to)
		return out
	}
	sel := v.take(ws, steady)
	out := Figures{
		From: ToMs(from), To: ToMs(to), Steady: steady,
		Requests: stats.Requests{ByError: map[string]int64{}}, Latency: make(map[string]*Stat), SLO: []stats.Limit{}, Workloads: make(map[string]WorkloadFigure),
	}
	var length int64
	for _, w := range ws {
		length += w.to - w.from
	}
	out.WindowS = float64(length) / 1e9
	own := sel.count(&out, len(v.workloads))
	started, completed := sel.during(len(v.workloads))
	total := int64(0)
	for _, n := range started {
		total += n
	}
	if length > 0 {
		out.OfferedRPS = known(float64(out.Requests.Scheduled) / out.WindowS)
		out.AchievedRPS = known(float64(total) / out.WindowS)
		out.CompletedRPS = known(float64(completed) / out.WindowS)
	}
	s.latency(sel, &out, own)
	s.rates(&out, ws, own, started)
	s.judge(sel, &out, own)
	for w, name := range v.workloads {
		if o := &own[w]; o.Requests > 0 {
			out.Workloads[name] = o.WorkloadFigure
		}
	}
	return out
}

func known(v float64) *float64 { return &v }

// share is what is worked out of one workload.
type share struct {
	WorkloadFigure
	ok int64
}

// gapsUntil is where the gaps of a window end.
func (s *selection) gapsUntil(w window) int64 {
	if w.step < 0 {
		return w.to
	}
	return min(w.to, filedUntil(s.input.Steps, w.step))
}

// outside is the kind of gaps that a selection leaves out.
func (s *selection) outside() int {
	if s.byStep != nil {
		return gapsOutside
	}
	return 0
}

// count counts the requests and their tokens.
func (s *selection) count(out *Figures, workloads int) []share {
	own := make([]share, workloads)
	var kinds [256]int64
	profiles := make([]int64, len(s.profiles))
	var sums, known [3]int64
	columns := [3][]int32{s.prompt[s.first:s.last], s.cached[s.first:s.last], s.output[s.first:s.last]}
	for i, mark := range s.marks {
		if mark == markOut {
			continue
		}
		profiles[s.profile[s.first+i]]++
		for k := range columns {
			if n := columns[k][i]; n >= 0 {
				sums[k] += int64(n)
				known[k]++
			}
		}
	}
	for k, to := range []**int64{&out.Tokens.Prompt, &out.Tokens.Cached, &out.Tokens.Output} {
		if known[k] > 0 {
			*to = &sums[k]
		}
	}
	r := &out.Requests
	for i, n := range profiles {
		p := &s.profiles[i]
		o := &own[p.workload]
		r.Scheduled += n
		o.Requests += n
		if p.kind&kindSent != 0 {
			r.Sent += n
		}
		switch p.status() {
		case record.OK:
			r.OK += n
			o.ok += n
		case record.Failed:
			r.Error += n
			o.Errors += n
			kinds[p.err] += n
		case record.Cancelled:
			r.Cancelled += n
		case record.Incomplete:
			r.Incomplete += n
		}
	}
	for i, n := range kinds {
		if n > 0 {
			r.ByError[stats.ErrorName(record.ErrorKind(i))] += n
		}
	}
	return own
}

// during counts the requests that started, by workload, and those that ended well, inside the
// windows, whenever they were scheduled.
func (s *selection) during(workloads int) (started []int64, completed int64) {
	started = make([]int64, workloads)
	profiles := make([]int64, len(s.profiles))
	ok := s.perProfile(func(p *profile) bool { return p.status() == record.OK })
	b := newBlock()
	for _, w := range s.windows {
		first, last := s.rows(w.from-s.longest, w.to)
		for ; first < last; first += blockRows {
			n := min(blockRows, last-first)
			delays, ends := b.a[:n], b.b[:n]
			s.durations[colDelay].load(first, delays)
			s.durations[colEnd].load(first, ends)
			for i, t := range s.scheduled[first : first+n] {
				start, end := t+delays[i], t+ends[i]
				if delays[i] == none || start >= w.to {
					continue
				}
				p := s.profile[first+i]
				profiles[p] += int64(bit(start >= w.from))
				completed += int64(ok[p] & bit(ends[i] != none && end >= w.from && end < w.to))
			}
		}
	}
	for i, n := range profiles {
		started[s.profiles[i].workload] += n
	}
	return started, completed
}

// latency fills in the distributions.
func (s *Store) latency(sel *selection, out *Figures, own []share) {
	values := make([]float64, len(sel.marks))
	b := newBlock()
	for _, f := range latencies {
		out.Latency[figureNames[f]] = nil
		if f == figSendLag && sel.input.Virtual {
			continue // nobody sent anything
		}
		least := uint8(markOK)
		if f == figSendLag {
			least = markOther
		}
		n := int64(0)
		profiles := make([]int64, len(sel.profiles))
		for at := 0; at < len(values); at += blockRows {
			end := min(at+blockRows, len(values))
			some := values[at:end]
			sel.fill(f, b, sel.first+at, some)
			for i, mark := range sel.marks[at:end] {
				if mark < least {
					some[i] = nan
				} else if some[i] == some[i] {
					n++
					profiles[sel.profile[sel.first+at+i]]++
				}
			}
		}
		per := make([]int64, len(own))
		for i, n := range profiles {
			per[sel.profiles[i].workload] += n
		}
		if n == 0 {
			continue
		}
		all := stats.NewAscending(n)
		var each []*stats.Ascending
		if f == figTTFT || f == figTPOT {
			for _, n := range per {
				each = append(each, stats.NewAscending(n))
			}
		}
		for _, row := range s.order(sel, f, values) {
			i := int(row) - sel.first
			if uint(i) >= uint(len(values)) || values[i] != values[i] {
				continue
			}
			all.Add(values[i])
			if each != nil {
				each[sel.of(int(row)).workload].Add(values[i])
			}
		}
		out.Latency[figureNames[f]] = statOf(all.Dist(perMS))
		for w := range each {
			if d := each[w].Dist(perMS); f == figTTFT {
				own[w].TTFTP95 = d.P95
			} else {
				own[w].TPOTP95 = d.P95
			}
		}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var h histogram.Histogram
	for _, w := range sel.windows {
		s.gapsWithin(&h, -1, w.from, sel.gapsUntil(w), sel.outside())
	}
	out.Latency[itl] = nil
	if h.Count() > 0 {
		out.Latency[itl] = statOf(stats.DistOfHistogram(&h, perMS))
	}
}

func statOf(d *stats.Dist) *Stat {
	return &Stat{Count: d.Count, Mean: d.Mean, Min: d.Min, P50: d.P50, P75: d.P75, P90: d.P90, P95: d.P95, P99: d.P99, Max: d.Max}
}

// gapsWithin adds the times between tokens of requests of a workload, below 0 of all,
// filed under cells that lie whole in [from, to), but those of kinds that are to be left
// out.
func (s *Store) gapsWithin(h *histogram.Histogram, workload int, from, to int64, without int) {
	first, last, length := s.grid.within(from, to)
	if length == 0 {
		return
	}
	for of, cells := range s.gaps {
		if of&without != 0 || workload >= 0 && of/gapsKinds != workload {
			continue
		}
		for _, c := range cells[min(first, len(cells)):min(last, len(cells))] {
			mergeAll(h, c)
		}
	}
	for _, u := range s.unsettled {
		if u.scheduled >= from && u.scheduled < to && u.of&without == 0 && (workload < 0 || u.of/gapsKinds == workload) {
			mergeAll(h, u.gaps)
		}
	}
}

// rates fills in tokens per second.
func (s *Store) rates(out *Figures, ws []window, own []share, started []int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all cell
	var length int64
	each := make([]cell, len(own))
	for _, w := range ws {
		first, last, l := s.grid.within(w.from, w.to)
		length += l
		for i := range s.cells {
			if l == 0 || i >= len(each) {
				continue
			}
			cells := s.cells[i]
			for j := min(first, len(cells)); j < min(last, len(cells)); j++ {
				each[i].merge(&cells[j])
			}
		}
	}
	for i := range each {
		all.merge(&each[i])
	}
	out.TokenWindowS = float64(length) / 1e9
	perS := func(c *cell, started int64) *float64 {
		came := stats.Arrived{Tokens: c.tokens, Events: int64(c.events), Bodies: int64(c.bodies), Any: started > 0 || c.outputs > 0}
		return came.PerS(out.TokenWindowS, s.tokens, s.events)
	}
	total := int64(0)
	for i := range own {
		total += started[i]
		own[i].OutputPerS = perS(&each[i], started[i])
	}
	out.Tokens.OutputPerS = perS(&all, total)
	if all.prompts > 0 && length > 0 {
		out.Tokens.PromptPerS = known(float64(all.prompt) / out.TokenWindowS)
	}
}

// judge holds the limits of the run and of the workloads against the requests, by the
// rules of a summary.
func (s *Store) judge(sel *selection, out *Figures, own []share) {
	if o := s.levels(sel, -1, out.Requests.Scheduled, out.WindowS); o != nil {
		out.SLO, out.GoodputRPS, out.Attainment = o.Limits, o.GoodputRPS, o.Attainment
	}
	for w := range own {
		if o := &own[w]; o.Requests > 0 {
			o.SLO = s.levels(sel, w, o.Requests, out.WindowS)
		}
	}
}

// levels judges a workload, below 0 the run, of which so many requests were scheduled;
// nil where it has no limits. Over several steps a limit has its worst step.
func (s *Store) levels(sel *selection, workload int, scheduled int64, window float64) *stats.SLO {
	name := ""
	if workload >= 0 {
		name = sel.workloads[workload]
	}
	limits := sel.rules(name)
	if len(limits) == 0 {
		return nil
	}
	out := &stats.SLO{Limits: []stats.Limit{}, Own: workload >= 0 && limits[0].Workload != ""}
	bad := make([]bool, len(sel.marks))
	for k := range limits {
		l := &limits[k]
		tallies := make([]stats.Tally, len(sel.windows))
		for i, mark := range sel.marks {
			row := sel.first + i
			if mark == markOut || workload >= 0 && int(sel.of(row).workload) != workload {
				continue
			}
			if !sel.about(row, l) {
				bad[i] = bad[i] || mark != markOK
				continue
			}
			w := 0
			if sel.byStep != nil {
				w = int(sel.byStep[sel.of(row).step])
			}
			q := sel.judged(row, l)
			bad[i] = bad[i] || l.Over(q)
			tallies[w].Add(q, &l.Level)
		}
		var worst stats.Limit
		for w := range tallies {
			_, fromSchedule := l.Figure(sel.input.RateDriven)
			x := stats.Limit{
				Metric: l.Metric, Stat: l.Stat, Limit: float64(l.Value) / perMS, FromSchedule: fromSchedule,
				Turn: l.Turn, WithRetrieval: l.WithRetrieval,
			}
			if workload < 0 {
				x.Workload = l.Workload
			}
			var pooled []*histogram.Histogram
			if l.Metric == itl {
				pooled = []*histogram.Histogram{s.gapsOfLimit(sel, w, workload, l)}
			}
			x.Value, x.Met = tallies[w].Judge(&l.Level, pooled)
			if w == 0 || stats.Worse(x.Met, x.Value, worst.Met, worst.Value) {
				worst = x
			}
		}
		out.Limits = append(out.Limits, worst)
	}
	if out.Met = stats.AllMet(out.Limits); out.Met == nil {
		return out
	}
	good := int64(0)
	for i, mark := range sel.marks {
		if mark != markOut && !bad[i] && (workload < 0 || int(sel.of(sel.first+i).workload) == workload) {
			good++
		}
	}
	if window > 0 {
		out.GoodputRPS = known(float64(good) / window)
	}
	if scheduled > 0 {
		out.Attainment = known(float64(good) / float64(scheduled))
	}
	return out
}

// gapsOfLimit are the times between tokens in a window that a limit of a workload,
// below 0 of the run, is about: those of all turns.
func (s *Store) gapsOfLimit(sel *selection, window, workload int, l *rule) *histogram.Histogram {
	h := new(histogram.Histogram)
	if workload < 0 && l.Workload != "" {
		if workload = slices.Index(sel.workloads, l.Workload); workload < 0 {
			return h
		}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.gapsWithin(h, workload, sel.windows[window].from, sel.gapsUntil(sel.windows[window]), sel.outside()|gapsBuffered)
	return h
}
