package detail

import (
	"math"

	"plimsoll/internal/record"
	"plimsoll/internal/scenario"
	"plimsoll/internal/stats"
)

// rule is a limit with the figure of a request that it is about.
type rule struct {
	scenario.Limit
	figure figure
	waited figure // what a request that its user abandoned has waited for
}

// rules returns the limits of a run.
func rules(in *stats.Input) []rule {
	var out []rule
	for _, l := range in.Limits {
		name, fromSchedule := stats.LimitFigure(l.Metric, in.RateDriven)
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

// judged is the request of a row as a rule looks at it.
func (v *view) judged(row int, r *rule) stats.Judged {
	p := v.of(row)
	q := stats.Judged{Status: p.status(), Buffered: record.Flags(p.flags)&record.BufferedStream != 0}
	q.Value, q.Has = v.shown(row, r.figure)
	if q.Status == record.Cancelled && !q.Has {
		q.Waited, q.Waits = v.value(row, r.waited)
	}
	return q
}

// good counts the requests of a workload, below 0 of all, that are within every limit,
// in each bucket by the time at which they were scheduled; nil where there is no limit.
func (s *Store) good(workload int, b buckets) []int64 {
	v := s.view()
	if len(v.input.Limits) == 0 {
		return nil
	}
	out := make([]int64, b.n)
	if !v.sorted {
		v.eachGood(b.from, b.from+int64(b.n)*b.step, func(t int64, of int) {
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
		if s.goods != nil || len(v.input.Limits) == 0 {
			return
		}
		s.goods = make([][]uint32, len(v.workloads))
		v.eachGood(0, math.MaxInt64, func(t int64, workload int) {
			cells := s.goods[workload]
			for k := t / s.meta.Step; int64(len(cells)) <= min(k, mostCells); {
				cells = append(cells, 0)
			}
			cells[min(t/s.meta.Step, mostCells)]++
			s.goods[workload] = cells
		})
	})
}

// eachGood calls do with the schedule in [from, to), and the workload, of every request
// that is within every limit.
func (v *view) eachGood(from, to int64, do func(t int64, workload int)) {
	list := rules(&v.input)
	first, last := v.rows(from, to)
rows:
	for row := first; row < last; row++ {
		t := v.scheduled[row]
		if t < from || t >= to {
			continue
		}
		for i := range list {
			r := &list[i]
			if over, _, _ := v.judged(row, r).Judge(r.Metric, float64(r.Value)); over {
				continue rows
			}
		}
		do(t, int(v.of(row).workload))
	}
}
