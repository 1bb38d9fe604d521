package detail

import (
	"math"

	"plimsoll/internal/record"
	"plimsoll/internal/stats"
)

// rule is a limit with the figure of a request that it is about.
type rule struct {
	stats.Level
	figure figure
	waited figure // what a request that its user abandoned has waited for
}

// rules returns the limits that a workload is judged by, those of the run for "".
func (v *view) rules(workload string) []rule {
	var out []rule
	for _, l := range v.input.Levels(workload) {
		name, fromSchedule := l.Figure(v.input.RateDriven)
		f, ok := figureOf(name)
		if l.Metric == itl {
			f, ok = figMeanITL, true
		}
		if !ok {
			panic("BUG: a limit on " + l.Metric + " passed validation")
		}
		r := rule{l, f, figE2E}
		if fromSchedule {
			r.waited = figE2EFromSchedule
		}
		out = append(out, r)
	}
	return out
}

// about says whether a rule is about the request of a row.
func (v *view) about(row int, r *rule) bool {
	return r.About(v.workloads[v.of(row).workload], v.turn[row] > 0)
}

// judged is the request of a row as a rule looks at it.
func (v *view) judged(row int, r *rule) stats.Judged {
	p := v.of(row)
	q := stats.Judged{Status: p.status(), Buffered: record.Flags(p.flags)&record.BufferedStream != 0}
	q.Value, q.Has = v.shown(row, r.figure)
	search, searched := 0.0, true
	if r.WithRetrieval {
		search, searched = v.value(row, figRetrieval)
	}
	q.Value, q.Has = q.Value+search, q.Has && searched
	if q.Status == record.Cancelled && !q.Has {
		q.Waited, q.Waits = v.value(row, r.waited)
		q.Waited += search
	}
	return q
}

// Limits lists every limit of a run, those that it is judged by first.
func Limits(in *stats.Input) []SLO {
	out := []SLO{}
	for _, l := range in.AllLevels() {
		_, fromSchedule := l.Figure(in.RateDriven)
		out = append(out, SLO{
			Metric: l.Metric, Stat: l.Stat, Limit: float64(l.Value) / perMS, Text: l.String() + l.Of(),
			Workload: l.Workload, Turn: l.Turn, FromSchedule: fromSchedule, WithRetrieval: l.WithRetrieval, Aside: !in.Decides(&l),
		})
	}
	return out
}

// good counts the requests of a workload, below 0 of all, that are within every limit,
// in each bucket by the time at which they were scheduled; nil where there is no limit.
func (s *Store) good(workload int, b buckets) []int64 {
	v := s.view()
	name := ""
	if workload >= 0 {
		name = v.workloads[workload]
	}
	list := v.rules(name)
	if len(list) == 0 {
		return nil
	}
	out := make([]int64, b.n)
	// What is counted once is by the limits of the run.
	if own := workload >= 0 && list[0].Workload != ""; own || !v.sorted {
		v.eachGood(list, b.from, b.from+int64(b.n)*b.step, func(t int64, of int) {
			if workload < 0 || of == workload {
				out[(t-b.from)/b.step]++
			}
		})
		return out
	}
	s.countGood(&v)
	for w, cells := range s.goods {
		if workload >= 0 && w != workload {
			continue
		}
		for i := range out {
			from := b.from + int64(i)*b.step
			for k := max(from, 0) / s.meta.Step; k < min((from+b.step)/s.meta.Step, int64(len(cells))); k++ {
				out[i] += int64(cells[k])
			}
		}
	}
	return out
}

// countGood counts the good requests of an ended run by workload and cell, once.
func (s *Store) countGood(v *view) {
	s.goodOnce.Do(func() {
		list := v.rules("")
		if s.goods != nil || len(list) == 0 {
			return
		}
		goods := make([][]uint32, len(v.workloads))
		v.eachGood(list, 0, math.MaxInt64, func(t int64, workload int) {
			cells := goods[workload]
			for k := t / s.meta.Step; int64(len(cells)) <= min(k, mostCells); {
				cells = append(cells, 0)
			}
			cells[min(t/s.meta.Step, mostCells)]++
			goods[workload] = cells
		})
		s.mu.Lock() // Size may be asked at the same time
		defer s.mu.Unlock()
		s.goods = goods
	})
}

// eachGood calls do with the schedule in [from, to), and the workload, of every request
// that is within every limit of a list.
func (v *view) eachGood(list []rule, from, to int64, do func(t int64, workload int)) {
	first, last := v.rows(from, to)
rows:
	for row := first; row < last; row++ {
		t := v.scheduled[row]
		if t < from || t >= to || v.of(row).status() != record.OK {
			continue
		}
		for i := range list {
			r := &list[i]
			if v.about(row, r) && r.Over(v.judged(row, r)) {
				continue rows
			}
		}
		do(t, int(v.of(row).workload))
	}
}
