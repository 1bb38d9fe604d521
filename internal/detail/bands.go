package detail

import (
	"math"
	"math/bits"
	"slices"

	"plimsoll/internal/histogram"
	"plimsoll/internal/record"
	"plimsoll/internal/stats"
)

// itl is the one figure of which a request has many values.
const itl = "itl"

// BandFigures are the names of the figures that Bands and Heat know.
func BandFigures() []string {
	return append(slices.DeleteFunc(slices.Clone(figureNames[:]), func(s string) bool { return s == "" }), itl)
}

// gather calls do with the values of a figure of ok requests in the buckets, those of
// one bucket, in ns and many at once, after those of another. Send lag is of all
// requests. Rows are in the bucket of their schedule, those filed after settled in that
// of their end.
func (v *view) gather(f figure, workload int, b buckets, settled int64, do func(bucket int, ns []int64)) {
	until := b.from + int64(b.n)*b.step
	takes := v.perProfile(func(p *profile) bool {
		return (workload < 0 || int(p.workload) == workload) && (f == figSendLag || p.status() == record.OK)
	})
	values := newBlock()
	if v.sorted {
		first, last := v.rows(b.from, until)
		for first < last {
			// The bucket of the next row, and the rows in it.
			bucket := int((v.scheduled[first] - b.from) / b.step)
			end, _ := slices.BinarySearch(v.scheduled[first:last], b.from+int64(bucket+1)*b.step)
			for end += first; first < end; {
				n := min(blockRows, end-first)
				do(bucket, v.whole(f, values, takes, first, n))
				first += n
			}
		}
		return
	}
	// By bucket first: rows are in the order of their ends.
	rows := v.columns.rows()
	of := make([]int32, rows)
	starts := make([]int32, b.n+1)
	for row := range rows {
		t := v.scheduled[row]
		if t >= settled {
			if end, ok := v.end(row); ok {
				t = end
			}
		}
		of[row] = -1
		if t >= b.from && t < until {
			of[row] = int32((t - b.from) / b.step)
			starts[of[row]+1]++
		}
	}
	for i := 1; i < len(starts); i++ {
		starts[i] += starts[i-1]
	}
	order := make([]int32, starts[b.n])
	next := slices.Clone(starts)
	for row, bucket := range of {
		if bucket >= 0 {
			order[next[bucket]] = int32(row)
			next[bucket]++
		}
	}
	for bucket := range b.n {
		known := values.a[:0]
		for _, row := range order[starts[bucket]:starts[bucket+1]] {
			if takes[v.profile[row]] == 0 {
				continue
			}
			if ns, ok := v.value(int(row), f); ok {
				if known = append(known, int64(math.Round(ns))); len(known) == blockRows {
					do(bucket, known)
					known = known[:0]
				}
			}
		}
		do(bucket, known)
	}
}

// whole returns the values of a figure, in whole ns, of those of n rows from first on
// that takes has 1 of and that are known. They are valid until b is used again.
func (v *view) whole(f figure, b *block, takes []uint8, first, n int) []int64 {
	values := b.values[:n]
	v.fill(f, b, first, values)
	known := 0
	for i, p := range v.profile[first : first+n] {
		ns := values[i]
		if f == figTPOT {
			ns = math.Round(ns)
		}
		b.a[known] = int64(ns)
		known += int(takes[p] & bit(ns == ns))
	}
	return b.a[:known]
}

// perBucket calls done with the histogram of each bucket of a figure that has values;
// it is valid until the next call. False says that there is no such figure.
func (s *Store) perBucket(name string, workload int, b buckets, done func(bucket int, h *histogram.Histogram)) bool {
	var h histogram.Histogram
	if name == itl {
		s.mu.RLock()
		defer s.mu.RUnlock()
		for bucket := range b.n {
			h.Reset()
			from := b.from + int64(bucket)*b.step
			s.gapsBetween(&h, workload, from, from+b.step)
			if h.Count() > 0 {
				done(bucket, &h)
			}
		}
		return true
	}
	f, ok := figureOf(name)
	if !ok {
		return false
	}
	s.mu.RLock()
	settled := s.settled()
	s.mu.RUnlock()
	v := s.view()
	last := 0
	flush := func() {
		if h.Count() > 0 {
			done(last, &h)
			h.Reset()
		}
	}
	v.gather(f, workload, b, settled, func(bucket int, ns []int64) {
		if bucket != last {
			flush()
			last = bucket
		}
		h.RecordAll(ns)
	})
	flush()
	return true
}

// gapsBetween adds the times between tokens of requests filed under [from, to), whole
// cells, to h. A workload below 0 is all of them.
func (s *Store) gapsBetween(h *histogram.Histogram, workload int, from, to int64) {
	settled := s.settled()
	for l := len(s.coarse) - 1; l >= 0; l-- {
		length := int64(levels[l]) * second
		if from < 0 || from%length != 0 || to%length != 0 || length%s.grid.step != 0 || length == s.grid.step {
			continue
		}
		for of, cells := range s.coarse[l] {
			if workload >= 0 && of/gapsKinds != workload {
				continue
			}
			for _, c := range cells[min(int(from/length), len(cells)):min(int(to/length), len(cells))] {
				mergeAll(h, c)
			}
		}
		return
	}
	if a, b := max(from, 0), min(to, settled); a < b {
		first, last := s.grid.cell(a), s.grid.cell(b-1)
		for w := range s.gaps {
			if workload >= 0 && w/gapsKinds != workload {
				continue
			}
			cells := s.gaps[w]
			for _, c := range cells[min(first, len(cells)):min(last+1, len(cells))] {
				mergeAll(h, c)
			}
		}
	}
	for _, u := range s.unsettled {
		if u.end >= from && u.end < to && (workload < 0 || u.of/gapsKinds == workload) {
			mergeAll(h, u.gaps)
		}
	}
}

// workloadOf returns the index of a workload, -1 for all of them, and false when there
// is none of that name.
func (s *Store) workloadOf(name string) (int, bool) {
	if name == "" {
		return -1, true
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	i, ok := s.workloads.index[name]
	return i, ok
}

// bandBuckets are the buckets of a question about requests.
func (s *Store) bandBuckets(from, to int64, points int) (b buckets, provisional *Ms) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	from, to = s.clip(from, to)
	if !s.lasting {
		m := ToMs(s.settled())
		provisional = &m
	}
	return bucketsFor(from, to, s.meta.Step, points), provisional
}

// Bands returns percentiles of figures of one workload, "" for all, in [from, to) ns
// as at most points buckets. A range without length is the whole run; figures that
// do not exist are left out.
func (s *Store) Bands(figures []string, workload string, from, to int64, points int) BandsGrid {
	b, provisional := s.bandBuckets(from, to, points)
	g := BandsGrid{From: ToMs(b.from), StepMs: ToMs(b.step), N: b.n, Provisional: provisional, Figures: make(map[string]Band)}
	w, there := s.workloadOf(workload)
	if there {
		g.Good = s.good(w, b)
	}
	for _, name := range figures {
		band := Band{
			Count: make([]int64, b.n), Min: unknown(b.n), P50: unknown(b.n), P95: unknown(b.n), P99: unknown(b.n), Max: unknown(b.n),
		}
		ok := !there && (name == itl || slices.Contains(figureNames[:], name)) || there && s.perBucket(name, w, b, func(i int, h *histogram.Histogram) {
			n := int64(h.Count())
			at := func(permille int) float64 { return float64(h.AtRank(uint64(stats.Rank(permille, n)))) / 1e6 }
			band.Count[i], band.Min[i], band.Max[i] = n, float64(h.Min())/1e6, float64(h.Max())/1e6
			band.P50[i], band.P95[i], band.P99[i] = at(500), at(950), at(990)
		})
		if ok && name != "" {
			g.Figures[name] = band
		}
	}
	return g
}

// mostHeatRows bounds the rows of a heat map.
const mostHeatRows = 64

// Heat returns how many values of a figure of one workload, "" for all, there were by
// time and size, in [from, to) ns as at most columns buckets of time. The rows grow by
// a constant number of steps per doubling, as many as fit.
func (s *Store) Heat(name, workload string, from, to int64, columns int) HeatGrid {
	b, provisional := s.bandBuckets(from, to, columns)
	g := HeatGrid{From: ToMs(b.from), StepMs: ToMs(b.step), N: b.n, Provisional: provisional, EdgesMs: Times{}, Cells: []int64{}}
	w, there := s.workloadOf(workload)
	if !there {
		return g
	}
	// Finest rows first: they are put together once it is known how many there are.
	type entry struct {
		bucket, row int
		n           int64
	}
	var entries []entry
	low, high := math.MaxInt, -1
	s.perBucket(name, w, b, func(bucket int, h *histogram.Histogram) {
		for _, c := range h.Buckets() {
			row := heatRow(c.Low)
			low, high = min(low, row), max(high, row)
			if n := len(entries); n > 0 && entries[n-1].bucket == bucket && entries[n-1].row == row {
				entries[n-1].n += int64(c.Count)
				continue
			}
			entries = append(entries, entry{bucket, row, int64(c.Count)})
		}
	})
	if high < 0 {
		return g
	}
	shift := 0
	for high>>shift-low>>shift >= mostHeatRows {
		shift++
	}
	for row := low >> shift; row <= high>>shift+1; row++ {
		g.EdgesMs = append(g.EdgesMs, float64(heatLow(row<<shift))/1e6)
	}
	for i := range entries {
		e := &entries[i]
		row := int64(e.row>>shift - low>>shift)
		if n := len(g.Cells); n > 0 && g.Cells[n-3] == int64(e.bucket) && g.Cells[n-2] == row {
			g.Cells[n-1] += e.n
			continue
		}
		g.Cells = append(g.Cells, int64(e.bucket), row, e.n)
	}
	return g
}

// The finest rows of a heat map: 16 per doubling from heatUnit ns on, each a whole
// number of buckets of a histogram; all below are the first.
const (
	heatUnit  = 1 << 10
	heatSteps = 16
)

// heatRow returns the finest row of v.
func heatRow(v int64) int {
	if v < heatUnit {
		return 0
	}
	e := bits.Len64(uint64(v)) - 1
	return (e-10)*heatSteps + int((v>>(e-4))&(heatSteps-1)) + 1
}

// heatLow returns the smallest value of a finest row.
func heatLow(row int) int64 {
	if row <= 0 {
		return 0
	}
	row--
	e := row/heatSteps + 10
	if e > 62 {
		return math.MaxInt64
	}
	return 1<<e + int64(row%heatSteps)<<(e-4)
}
