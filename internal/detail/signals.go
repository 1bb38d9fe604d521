package detail

import (
	"cmp"
	"math"
	"slices"

	"plimsoll/internal/run"
	"plimsoll/internal/signal"
)

// Key names one course of cells: a figure of a signal, of one source and of the
// engine, device or port that the labels name, or of all together where they are
// empty, and of one workload or all.
type Key struct{ Signal, Stat, Source, Labels, Workload string }

// signals are the courses of the signals, in cells of the grid.
type signals struct {
	step   int64
	series []Series
	keys   []Key
	index  map[Key]int
	// courses are those of a run that goes on; those of one on disk are in file.
	courses []course
	file    *seriesFile
	// first and last bound the cells.
	first, last int64
	any         bool
}

// course has the values of cells from first on, NaN for unknown.
type course struct {
	first  int64
	values []float64
}

// AddCell sets the value of a signal in the cell of the grid that begins at t, in ns,
// and returns the ID of its Series. Cells may come in any order; one that comes again
// takes the place of the first. Those far from the run's time are left out.
func (s *Store) AddCell(t int64, key Key, v float64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signals.add(t, key, v)
}

// addRows adds the cells of a timeline.
func (s *Store) addRows(rows []run.TimelineRow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range rows {
		r := &rows[i]
		s.signals.add(r.T, Key{r.Signal, r.Stat, r.Source, r.Labels, r.Workload}, r.Value)
	}
}

func (g *signals) add(t int64, key Key, v float64) int {
	if g.file != nil {
		panic("BUG: a cell of a run that is over")
	}
	id, ok := g.index[key]
	if !ok {
		if g.index == nil {
			g.index = make(map[Key]int)
		}
		id = len(g.keys)
		g.index[key] = id
		g.keys = append(g.keys, key)
		g.series = append(g.series, describe(id, key))
		g.courses = append(g.courses, course{})
	}
	i := floor(t, g.step)
	if math.IsNaN(v) || math.IsInf(v, 0) || i < -mostCells || i > mostCells {
		return id
	}
	if !g.any {
		g.first, g.last, g.any = i, i, true
	}
	g.first, g.last = min(g.first, i), max(g.last, i)
	c := &g.courses[id]
	if len(c.values) == 0 {
		c.first = i
	}
	if i < c.first {
		c.values = slices.Insert(c.values, 0, unknown(int(c.first-i))...)
		c.first = i
	}
	if n := int(i-c.first) + 1 - len(c.values); n > 0 {
		for range n {
			c.values = append(c.values, nan)
		}
	}
	c.values[i-c.first] = v
	return id
}

// unknown returns n values that are not known.
func unknown(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = nan
	}
	return out
}

// floor returns the number of the cell of a length in which t lies.
func floor(t, step int64) int64 {
	i := t / step
	if t%step < 0 {
		i--
	}
	return i
}

// span returns the time in ns that cells are known of.
func (g *signals) span() (from, to int64) {
	if !g.any {
		return 0, 0
	}
	return g.first * g.step, (g.last + 1) * g.step
}

// describe returns what the panel must know of a course.
func describe(id int, k Key) Series {
	out := Series{
		ID: id, Signal: k.Signal, Stat: k.Stat, Source: k.Source, Labels: k.Labels, Workload: k.Workload,
		Kind: "gauge", Title: k.Signal,
	}
	of, ok := signal.Lookup(k.Signal)
	if !ok {
		if k.Stat == "rate" {
			out.Kind = "rate"
		}
		return out
	}
	d := of.Def()
	out.Unit, out.Title = d.Unit, d.Help
	switch {
	case k.Stat == "rate":
		out.Kind, out.Unit = "rate", d.RateUnit()
	case k.Stat == "imbalance":
		out.Unit = "1"
	case d.Unit == "1" && d.Combine == signal.Max:
		out.Kind = "state"
	case d.Unit == "1":
		out.Kind = "share"
	case d.Unit == "s" && d.Kind == signal.Distribution:
		out.Kind = "duration"
	}
	return out
}

// Series returns all signals that have cells; the ID of each is its index.
func (s *Store) Series() []Series { return s.SeriesFrom(0) }

// SeriesFrom returns the series from an ID on: those that are new to a reader who
// knows as many as that.
func (s *Store) SeriesFrom(id int) []Series {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.signals.series[min(max(id, 0), len(s.signals.series)):])
}

// sum is what several cells come to: sum of the values times their weights.
type sum struct{ min, max, sum, weight float64 }

func (a *sum) add(v, weight float64) {
	if a.weight == 0 {
		a.min, a.max = v, v
	}
	a.min, a.max, a.sum, a.weight = min(a.min, v), max(a.max, v), a.sum+v*weight, a.weight+weight
}

func (a *sum) merge(b sum) {
	if b.weight == 0 {
		return
	}
	if a.weight == 0 {
		*a = b
		return
	}
	a.min, a.max, a.sum, a.weight = min(a.min, b.min), max(a.max, b.max), a.sum+b.sum, a.weight+b.weight
}

func (a *sum) mean() float64 {
	if a.weight == 0 {
		return nan
	}
	return a.sum / a.weight
}

// buckets is a grid that a question is answered on.
type buckets struct {
	from, step int64
	n          int
}

const (
	defaultPoints = 600
	mostPoints    = 10_000
)

// nice are the lengths of buckets, in cells of one second.
var nice = []int64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600}

// bucketsFor returns the shortest buckets of a whole number of cells of which at most
// points cover [from, to).
func bucketsFor(from, to, cellStep int64, points int) buckets {
	if points <= 0 {
		points = defaultPoints
	}
	points = min(points, mostPoints)
	if from < 0 {
		points++ // no bucket goes beyond 0
	}
	if to <= from {
		to = from + 1
	}
	fits := func(step int64) (buckets, bool) {
		b := buckets{from: floor(from, step) * step, step: step}
		n := (to - b.from + step - 1) / step
		b.n = int(n)
		return b, n <= int64(points)
	}
	for _, k := range nice {
		if k*second%cellStep == 0 {
			if b, ok := fits(k * second); ok {
				return b
			}
		}
	}
	step := max(3600*second, cellStep)
	for {
		if b, ok := fits(step); ok || step > math.MaxInt64/4 {
			return b
		}
		step *= 2
	}
}

// clip makes a range of a question one of the run: what is not said is the whole.
func (s *Store) clip(from, to int64) (int64, int64) {
	first, last := s.span()
	if to <= 0 && from <= 0 || to <= from {
		return first, max(last, first+1)
	}
	// A little beyond the ends is shown as empty, far beyond is nobody's wish.
	length := max(last-first, second)
	from, to = max(from, first-length), min(to, last+length)
	if to <= from {
		return first, max(last, first+1)
	}
	return from, to
}

// Data returns the courses of series in [from, to) ns as at most points buckets. A
// range without length is the whole run; IDs that do not exist are left out.
func (s *Store) Data(ids []int, from, to int64, points int) Grid {
	s.mu.RLock()
	defer s.mu.RUnlock()
	from, to = s.clip(from, to)
	b := bucketsFor(from, to, s.meta.Step, points)
	g := Grid{From: ToMs(b.from), StepMs: ToMs(b.step), N: b.n, Series: make(map[int]Course)}
	sums := make([]sum, b.n)
	for _, id := range ids {
		if id < 0 || id >= len(s.signals.series) {
			continue
		}
		s.signals.sums(id, b, sums)
		c := Course{Mean: make(Values, b.n)}
		if b.step > s.meta.Step {
			c.Min, c.Max = make(Values, b.n), make(Values, b.n)
		}
		for i := range sums {
			c.Mean[i] = sums[i].mean()
			if c.Min == nil {
				continue
			}
			c.Min[i], c.Max[i] = nan, nan
			if sums[i].weight > 0 {
				c.Min[i], c.Max[i] = sums[i].min, sums[i].max
			}
		}
		if isPercentile(s.signals.keys[id].Stat) && c.Min != nil {
			c.Mean = unknown(b.n)
		}
		g.Series[id] = c
	}
	return g
}

// isPercentile says whether a figure is a percentile, or a bound of one: their mean
// means nothing.
func isPercentile(stat string) bool {
	return len(stat) > 1 && stat[0] == 'p' && stat[1] >= '0' && stat[1] <= '9'
}

// sums fills out with what the cells of a series come to in each bucket.
func (g *signals) sums(id int, b buckets, out []sum) {
	clear(out)
	if g.file != nil {
		g.file.sums(id, b, out)
		return
	}
	c := &g.courses[id]
	first := floor(b.from, g.step)
	per := b.step / g.step
	lo, hi := max(first, c.first), min(first+int64(b.n)*per, c.first+int64(len(c.values)))
	weigh := g.weights(id)
	for i := lo; i < hi; i++ {
		if v := c.values[i-c.first]; v == v {
			if w := weigh(i); w > 0 {
				out[(i-first)/per].add(v, w)
			}
		}
	}
}

// weights returns how much the cells of a series count for a mean: one each, but
// those of a mean of observations by how many observations there were.
func (g *signals) weights(id int) func(cell int64) float64 {
	one := func(int64) float64 { return 1 }
	k := g.keys[id]
	if k.Stat != "mean" {
		return one
	}
	k.Stat = "rate"
	rate, ok := g.index[k]
	if !ok {
		return one
	}
	c := &g.courses[rate]
	return func(i int64) float64 {
		if i -= c.first; i < 0 || i >= int64(len(c.values)) || c.values[i] != c.values[i] {
			return 1
		}
		return c.values[i]
	}
}

// Envelope returns what the members of a signal come to: sources, or engines and
// devices where sources tell them apart. A range without length is the whole run.
func (s *Store) Envelope(name, stat string, from, to int64, points int) EnvelopeGrid {
	s.mu.RLock()
	defer s.mu.RUnlock()
	from, to = s.clip(from, to)
	b := bucketsFor(from, to, s.meta.Step, points)
	members := s.signals.members(name, stat)
	b = s.signals.coarser(b, from, to, len(members))
	g := EnvelopeGrid{
		From: ToMs(b.from), StepMs: ToMs(b.step), N: b.n, Members: len(members),
		Min: Values(unknown(b.n)), Median: Values(unknown(b.n)), Max: Values(unknown(b.n)),
	}
	if len(members) == 0 {
		return g
	}
	// Means by bucket, then by member, so that a bucket's are together.
	means := make([]float64, b.n*len(members))
	known := make([]int, b.n)
	sums := make([]sum, b.n)
	whole := make([]float64, 0, len(members))
	of := make([]int, 0, len(members))
	for _, id := range members {
		s.signals.sums(id, b, sums)
		var all sum
		for i := range sums {
			a := &sums[i]
			if a.weight == 0 {
				continue
			}
			all.merge(*a)
			means[i*len(members)+known[i]] = a.mean()
			if known[i] == 0 || a.min < g.Min[i] {
				g.Min[i] = a.min
			}
			if known[i] == 0 || a.max > g.Max[i] {
				g.Max[i] = a.max
			}
			known[i]++
		}
		if all.weight > 0 {
			whole, of = append(whole, all.mean()), append(of, id)
		}
	}
	for i, n := range known {
		if n > 0 {
			g.Median[i] = median(means[i*len(members) : i*len(members)+n])
		}
	}
	if len(whole) > 0 {
		middle := median(slices.Clone(whole))
		far := 0
		for i := range whole {
			if math.Abs(whole[i]-middle) > math.Abs(whole[far]-middle) {
				far = i
			}
		}
		k := s.signals.keys[of[far]]
		g.Worst = &Member{Source: k.Source, Labels: k.Labels, Value: whole[far], Series: of[far]}
	}
	return g
}

// mostEnvelopeCells is how many cells of members are looked at for one envelope
// where buckets can be longer instead.
const mostEnvelopeCells = 4 << 20

// coarser makes buckets longer while the members have too many cells for them.
func (g *signals) coarser(b buckets, from, to int64, members int) buckets {
	for _, k := range levels {
		step := int64(k) * second
		if step <= b.step || step%g.step != 0 {
			continue
		}
		if (to-from)/g.levelFor(b.step)*int64(members) <= mostEnvelopeCells {
			break
		}
		b = buckets{from: floor(from, step) * step, step: step}
		b.n = int((to - b.from + step - 1) / step)
	}
	return b
}

// members returns the series of single sources, engines or devices of a signal, in
// the order of their names.
func (g *signals) members(name, stat string) []int {
	labelled := make(map[string]bool)
	sources := false
	var of []int
	for id := range g.keys {
		k := &g.keys[id]
		if k.Signal == name && k.Stat == stat && k.Workload == "" && k.Source+k.Labels != "" {
			of = append(of, id)
			labelled[k.Source] = labelled[k.Source] || k.Labels != ""
			sources = sources || k.Source != ""
		}
	}
	// Of a source that tells its devices apart the total is no member, nor is a device
	// of all sources together beside those of each.
	of = slices.DeleteFunc(of, func(id int) bool {
		k := &g.keys[id]
		return k.Labels == "" && labelled[k.Source] || k.Source == "" && sources
	})
	slices.SortFunc(of, func(a, b int) int {
		return cmp.Or(cmp.Compare(g.keys[a].Source, g.keys[b].Source), cmp.Compare(g.keys[a].Labels, g.keys[b].Labels))
	})
	return of
}

// median returns the middle of v, the lower of two, and reorders v.
func median(v []float64) float64 {
	k := (len(v) - 1) / 2
	lo, hi := 0, len(v)-1
	for lo < hi {
		p := v[lo+(hi-lo)/2]
		i, j := lo, hi
		for i <= j {
			for v[i] < p {
				i++
			}
			for v[j] > p {
				j--
			}
			if i <= j {
				v[i], v[j] = v[j], v[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case k <= j:
			hi = j
		case k >= i:
			lo = i
		default:
			return v[k]
		}
	}
	return v[k]
}

// levels are the lengths in seconds of the cells of the pyramids above the grid's own.
var levels = []int{10, 60, 600}

// levelFor returns the length in ns of the longest cells that buckets of a length are
// made of.
func (g *signals) levelFor(step int64) int64 {
	of := g.step
	if g.file == nil {
		return of
	}
	for _, k := range levels {
		if l := int64(k) * second; l > of && l%g.step == 0 && step%l == 0 {
			of = l
		}
	}
	return of
}
