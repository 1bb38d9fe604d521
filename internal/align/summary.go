package align

import (
	"math"
	"slices"

	"plimsoll/internal/signal"
	"plimsoll/internal/stats"
)

// weighted is a value that held for some time.
type weighted struct{ v, w float64 }

// tally is a distribution of values by the time for which they held. Number, mean,
// deviation, least and most are exact; of very many values neighbours are put
// together, so that a percentile is off by less than one part in a thousand of the
// values.
type tally struct {
	n           int64
	w, wv, wvv  float64 // sums
	least, most float64
	values      []weighted
}

// keptValues is the number of values from which on neighbours are put together.
const keptValues = 1 << 12

func (t *tally) add(v, w float64) {
	if t.n == 0 {
		t.least, t.most = v, v
	}
	t.least, t.most = min(t.least, v), max(t.most, v)
	t.n, t.w, t.wv, t.wvv = t.n+1, t.w+w, t.wv+v*w, t.wvv+v*v*w
	t.keep(weighted{v, w})
}

func (t *tally) keep(x weighted) {
	if len(t.values) == keptValues {
		t.sort()
		for i := range keptValues / 2 {
			a, b := t.values[2*i], t.values[2*i+1]
			w := a.w + b.w
			t.values[i] = weighted{(a.v*a.w + b.v*b.w) / w, w}
		}
		t.values = t.values[:keptValues/2]
	}
	t.values = append(t.values, x)
}

func (t *tally) sort() {
	slices.SortFunc(t.values, func(a, b weighted) int {
		switch {
		case a.v < b.v:
			return -1
		case a.v > b.v:
			return 1
		}
		return 0
	})
}

// merge adds the values of o.
func (t *tally) merge(o *tally) {
	if o.n == 0 {
		return
	}
	if t.n == 0 {
		t.least, t.most = o.least, o.most
	}
	t.least, t.most = min(t.least, o.least), max(t.most, o.most)
	t.n, t.w, t.wv, t.wvv = t.n+o.n, t.w+o.w, t.wv+o.wv, t.wvv+o.wvv
	for _, x := range o.values {
		t.keep(x)
	}
}

// dist returns the distribution: every percentile is the value that was not
// exceeded for that share of the time.
func (t *tally) dist() *stats.Dist {
	d := &stats.Dist{Count: t.n}
	if t.n == 0 {
		return d
	}
	mean := t.wv / t.w
	d.Mean = known(mean)
	if t.n > 1 {
		d.Std = known(math.Sqrt(max(0, t.wvv/t.w-mean*mean)))
	}
	d.Min, d.Max = known(t.least), known(t.most)
	t.sort()
	total := 0.0
	for _, x := range t.values {
		total += x.w
	}
	at := func(q float64) *float64 {
		left := q * total * (1 - 1e-12)
		for _, x := range t.values {
			if left -= x.w; left <= 0 {
				return known(x.v)
			}
		}
		return known(t.most)
	}
	d.P1, d.P5, d.P25, d.P50, d.P75 = at(0.01), at(0.05), at(0.25), at(0.5), at(0.75)
	d.P90, d.P95, d.P99, d.P999 = at(0.9), at(0.95), at(0.99), at(0.999)
	return d
}

// figure collects what all sources together state of one signal in one window.
type figure struct {
	values tally
	// other has the highest of several where they are averaged, or how unevenly they
	// share where they are added.
	other tally
	// sum and weight make the mean of a ratio: that of all, not that of its cells.
	sum, weight float64
}

func (f *figure) add(v, other, weight, n float64, counted bool) {
	f.values.add(v, n)
	if !math.IsNaN(other) {
		f.other.add(other, n)
	}
	if counted {
		f.sum, f.weight = f.sum+v*weight*n, f.weight+weight*n
	}
}

func known(v float64) *float64 { return &v }

// figures returns the distributions of all signals over some of the windows.
func (s *server) figures(windows []int) map[string]*stats.Dist {
	out := make(map[string]*stats.Dist)
	for i := range s.groups {
		g := &s.groups[i]
		if g.source >= 0 || g.id.Def().Group == signal.Client {
			continue // the client's figures are not the servers'
		}
		name := g.id.String()
		if g.observed {
			if d := s.observations(g, windows); d.Count > 0 {
				out[name] = d
			}
			continue
		}
		var all figure
		for _, w := range windows {
			f := &g.figures[w]
			all.values.merge(&f.values)
			all.other.merge(&f.other)
			all.sum, all.weight = all.sum+f.sum, all.weight+f.weight
		}
		if all.values.n == 0 {
			continue
		}
		d := all.values.dist()
		switch {
		case all.weight > 0:
			d.Mean = known(all.sum / all.weight)
		case g.id.Def().Kind == signal.Counter:
			if rate, ok := s.rate(g, windows); ok {
				d.Mean = known(rate)
			}
		case len(g.courses) == 1:
			s.highest(g, d)
		}
		out[name] = d
		if len(g.courses) < 2 || all.other.n == 0 {
			continue
		}
		other := all.other.dist()
		switch {
		case g.unequal:
			out[name+"_imbalance"] = other
		case g.id.Def().Highest() != "":
			s.highest(g, other)
			out[g.id.Def().Highest()] = other
		}
	}
	return out
}

// highest sets the maximum to the highest single reading.
func (s *server) highest(g *group, d *stats.Dist) {
	for _, j := range g.courses {
		c := &s.courses[j]
		if c.part >= 0 || !c.gaugeLike() {
			continue
		}
		if st := &s.states[c.value]; st.any && st.most > *d.Max {
			d.Max = known(st.most)
		}
	}
}

// rate returns the mean rate per second of a group of counters. ok is false when
// one of them is not known for most of the time.
func (s *server) rate(g *group, windows []int) (rate float64, ok bool) {
	for _, j := range g.courses {
		var a acc
		for _, w := range windows {
			b := s.inside[w][s.courses[j].value]
			a.x, a.y = a.x+b.x, a.y+b.y
		}
		if a.y <= 0 {
			continue // it was not there
		}
		rate, ok = rate+a.x/a.y*1e9, true
	}
	return rate, ok
}

// observations returns the distribution of what servers observed in some of the
// windows, as far as differences of their totals tell: number and mean exactly,
// percentiles within their buckets. The bounds of the bucket stand in CI95; the
// value is taken inside it as if observations were spread evenly, and is unknown
// where they all lie in one bucket or in the last, open one.
func (s *server) observations(g *group, windows []int) *stats.Dist {
	var n, sum float64
	sums := true
	for _, j := range g.courses {
		c := &s.courses[j]
		if c.count < 0 {
			continue // it states a value of its own
		}
		for _, w := range windows {
			n += s.inside[w][c.count].x
			if c.sum >= 0 {
				sum += s.inside[w][c.sum].x
			} else {
				sums = false
			}
		}
	}
	d := &stats.Dist{Count: int64(math.Round(n))}
	if d.Count == 0 {
		return d
	}
	if sums {
		d.Mean = known(sum / n)
	}
	if len(g.le) == 0 {
		return d
	}
	le, cum := g.le, make([]float64, len(g.le))
	for b := range le {
		for _, j := range g.courses {
			for _, w := range windows {
				cum[b] += s.inside[w][s.courses[j].buckets[b].series].x
			}
		}
	}
	d.CI95 = make(map[string]stats.Interval)
	for _, q := range []struct {
		name string
		q    float64
		to   **float64
	}{
		{"p1", 0.01, &d.P1},
		{"p5", 0.05, &d.P5},
		{"p25", 0.25, &d.P25},
		{"p50", 0.5, &d.P50},
		{"p75", 0.75, &d.P75},
		{"p90", 0.9, &d.P90},
		{"p95", 0.95, &d.P95},
		{"p99", 0.99, &d.P99},
		{"p999", 0.999, &d.P999},
	} {
		low, high, ok := between(le, cum, q.q)
		if !ok {
			continue
		}
		if math.IsInf(high, 1) {
			d.CI95[q.name] = stats.Interval{known(low), nil}
			continue
		}
		d.CI95[q.name] = stats.Interval{known(low), known(high)}
		if v, ok := inside(le, cum, q.q); ok {
			*q.to = known(v)
		}
	}
	if len(d.CI95) == 0 {
		d.CI95 = nil
	}
	return d
}

// inside returns where in its bucket a quantile lies if the observations are
// spread evenly over it; ok is false when they all lie in this one.
func inside(le, cum []float64, q float64) (v float64, ok bool) {
	low, high, ok := between(le, cum, q)
	if !ok || math.IsInf(high, 1) {
		return 0, false
	}
	i := slices.Index(le, high)
	below := 0.0
	if i > 0 {
		below = cum[i-1]
	}
	n := cum[len(cum)-1]
	mass := cum[i] - below
	if mass <= 0 || mass >= n*(1-1e-9) {
		return 0, false
	}
	return min(low+(high-low)*min(max((q*n-below)/mass, 0), 1), high), true
}
