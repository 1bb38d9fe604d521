package align

import (
	"math"
	"slices"
	"time"

	"plimsoll/internal/run"
	"plimsoll/internal/signal"
)

// Running puts the samples of a run that still goes on onto the grid, by the
// arithmetic of Build. What it says is provisional: Build looks at all samples
// first and knows how often values are renewed, while Running learns that on the
// way, and a cell is told once, as soon as its source has been read after its
// end. It is for one goroutine.
type Running struct {
	in     Input
	v      survey
	s      *server
	o      observer
	every  int64
	series []signal.Series
	from   []progress // by source
	groups []int64    // by group: its cells before this one are told
	fresh  bool       // the courses must be found again
	looked int64      // when periods were looked for
	open   []int64    // the cells that are open, for reuse
}

// progress is how far the cells of one source are told.
type progress struct {
	read  int64 // the newest reading that has ended
	done  int64 // its cells before this one are told
	ready int64 // and may be told before this one
	late  int64 // how late a sample came, at most, of a source that hands on others' times
}

const (
	// patience is how many times its period a source is waited for.
	patience = 3
	// mostPatience bounds that in ns.
	mostPatience = int64(60 * time.Second)
	// lookEvery is the time in ns between two looks at how often sources renew
	// what they state.
	lookEvery = int64(10 * time.Second)
)

// NewRunning begins. Start is the start instant of the run's clock, every the time
// between readings that was asked for in ns, step the length of a cell in ns.
func NewRunning(start time.Time, every, step int64) *Running {
	r := &Running{every: max(every, 1), fresh: true, looked: math.MinInt64 / 2}
	r.in = Input{Start: start, Step: step}
	r.v = survey{in: &r.in, brief: true}
	r.s = newServer(&r.in, &r.v)
	r.s.step, r.s.closed = step, math.MinInt64
	return r
}

// Sources says what is known of the sources by now.
func (r *Running) Sources(list []Source) {
	if slices.Equal(list, r.in.Sources) {
		return
	}
	r.in.Sources, r.fresh = slices.Clone(list), true
	for i := range list {
		g := r.v.origin(i)
		g.shift, g.relayed = list[i].OwnTimes, list[i].Relayed
	}
}

// Declare makes a series known. They come in the order of their indices.
func (r *Running) Declare(d signal.Series) {
	r.series = append(r.series, d)
	r.v.series = r.series
	r.v.tracks = append(r.v.tracks, track{})
	r.s.states = append(r.s.states, state{})
	r.v.origin(d.Source)
	r.o.know(r.series)
}

// Add takes samples of declared series that came by now, in ns of the run's clock.
// New series make it find its courses anew, so that what came together is to be
// given together.
func (r *Running) Add(now int64, samples []signal.Sample) {
	for i := range samples {
		x := &samples[i]
		d := &r.series[x.Series]
		g := r.v.origin(d.Source)
		switch {
		case r.o.kind[x.Series] != "":
			r.o.observe(g.offset, x)
			continue
		case d.Signal == signal.None || r.stranger(now, g, x, d):
			continue
		}
		r.fresh = r.fresh || r.v.tracks[x.Series].n == 0
		r.v.add(g, d, x)
		p, t := r.progress(d.Source), g.at(x, d)
		switch {
		case g.stated(x, d):
			p.late = min(max(p.late, now-t), mostPatience)
		case d.Signal == signal.ScrapeUp:
			p.read = max(p.read, t)
		}
	}
	if r.fresh {
		r.find()
	}
	for i := range samples {
		x := &samples[i]
		if d := &r.series[x.Series]; r.o.kind[x.Series] == "" && d.Signal != signal.None && !r.stranger(now, r.v.origin(d.Source), x, d) {
			r.s.add(x)
		}
	}
}

// stranger says whether a sample states a time that is so far from now that it
// would not be shown, or that its clock is wrong.
func (r *Running) stranger(now int64, g *origin, x *signal.Sample, d *signal.Series) bool {
	if !g.stated(x, d) {
		return false
	}
	t := g.at(x, d)
	return t < now-2*mostPatience || t > now+mostPatience
}

func (r *Running) progress(source int) *progress {
	for len(r.from) <= source {
		first := int64(math.MinInt64)
		r.from = append(r.from, progress{read: first, done: first, ready: first})
	}
	return &r.from[source]
}

// find finds the courses and groups anew: series or sources came.
func (r *Running) find() {
	r.fresh = false
	old, told := r.s, make(map[[2]int]int64, len(r.groups))
	for i := range old.groups {
		told[[2]int{int(old.groups[i].id), old.groups[i].source}] = r.groups[i]
	}
	s := newServer(&r.in, &r.v)
	s.step, s.closed, s.states, s.cells, s.free = old.step, old.closed, old.states, old.cells, old.free
	s.any, s.newest = old.any, old.newest
	r.s, r.groups = s, make([]int64, len(s.groups))
	for i := range s.courses {
		c := &s.courses[i]
		if c.part < 0 && c.main() >= 0 {
			s.ready(c, pace{usual: r.every}, renewal{})
		}
	}
	for i := range s.groups {
		n, ok := told[[2]int{int(s.groups[i].id), s.groups[i].source}]
		if !ok {
			n = math.MinInt64
		}
		r.groups[i] = n
	}
}

// renewals looks how often sources renew what they state. Of counters that stand
// still between renewals the rate since the renewal before is told when it comes,
// and nothing in between.
func (r *Running) renewals() {
	period := make([]int64, len(r.v.origins))
	for i := range r.v.origins {
		g := &r.v.origins[i]
		if u := g.updates(); !u.atMost && float64(u.period) > 1.2*float64(g.ticks.between.median()) {
			period[i] = u.period
		}
	}
	for i := range r.s.states {
		if c := r.s.states[i].counter; c != nil {
			c.renewal.period = period[r.series[i].Source]
		}
	}
}

// waits says how long after the end of a cell a source is waited for.
func (r *Running) waits(source int) int64 {
	g := &r.v.origins[source]
	return min(patience*max(r.every, g.ticks.between.median()), mostPatience)
}

// Rows appends the rows of the cells that became complete by now, in ns of the
// run's clock: of each source when it has been read after the end of the cell, or
// has been waited for long enough; of several sources together when all have.
// Rows of one course come in the order of time. busy says whether the client had
// a request in flight in the cell of an index.
func (r *Running) Rows(now int64, busy func(cell int64) bool, rows []run.TimelineRow) []run.TimelineRow {
	if r.fresh {
		r.find()
	}
	if now-r.looked >= lookEvery {
		r.looked = now
		r.renewals()
	}
	for i := range r.v.origins {
		p, g := r.progress(i), &r.v.origins[i]
		until := now - r.waits(i)
		if g.relayed {
			until = now - 2*p.late - r.every // a counter's rise reaches back to the sample before
		} else if p.read != math.MinInt64 {
			until = max(until, p.read)
		}
		p.ready = max(p.done, floor(until, r.s.step))
	}
	s := r.s
	for i := range s.courses {
		if c := &s.courses[i]; c.part < 0 && c.main() >= 0 {
			s.bounds(c, c.main())
		} else if c.part >= 0 {
			s.bounds(c, s.courses[c.part].main())
		}
	}
	r.open = r.open[:0]
	for i := range s.cells {
		r.open = append(r.open, i)
	}
	slices.Sort(r.open)
	for _, i := range r.open {
		rows = r.cell(i, busy, rows)
	}
	least := int64(math.MaxInt64)
	for i := range r.from {
		p := &r.from[i]
		p.done = p.ready
		least = min(least, p.done)
	}
	if len(r.from) == 0 {
		return rows
	}
	for i := range s.groups {
		r.groups[i] = max(r.groups[i], r.groupReady(&s.groups[i]))
	}
	s.closed = max(s.closed, least)
	for _, i := range r.open {
		if i < s.closed {
			s.free = append(s.free, s.cells[i])
			delete(s.cells, i)
		}
	}
	return rows
}

// groupReady returns before which cell a group may be told.
func (r *Running) groupReady(g *group) int64 {
	least := int64(math.MaxInt64)
	for _, j := range g.courses {
		least = min(least, r.from[r.s.courses[j].source].ready)
	}
	return least
}

// cell appends what can be told of cell i and has not been.
func (r *Running) cell(i int64, busy func(int64) bool, rows []run.TimelineRow) []run.TimelineRow {
	s := r.s
	any := false
	for j := range r.from {
		any = any || i >= r.from[j].done && i < r.from[j].ready
	}
	if !any {
		return rows
	}
	t, cell, work := i*s.step, s.cell(i), busy(i)
	for j := range s.courses {
		c := &s.courses[j]
		if p := &r.from[c.source]; i >= p.done && i < p.ready {
			s.watchOne(c, cell, work)
		}
	}
	for _, ratio := range []bool{false, true} { // what ratios are made of first
		for j := range s.courses {
			if c := &s.courses[j]; (c.part >= 0) == ratio {
				if s.vals[j] = (val{}); i < r.from[c.source].ready {
					s.vals[j] = s.value(j, cell, work)
				}
			}
		}
	}
	for j := range s.courses {
		if p := &r.from[s.courses[j].source]; i >= p.done && i < p.ready {
			rows = s.own(j, t, rows)
		}
	}
	for j := range s.groups {
		if g := &s.groups[j]; i >= r.groups[j] && i < r.groupReady(g) {
			rows = s.combine(g, t, cell, rows)
		}
	}
	return rows
}
