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
	q := stats.Judged{Status: v.status(row), Buffered: record.Flags(v.flags[row])&record.BufferedStream != 0}
	q.Value, q.Has = v.known(row, r.figure)
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
	if workload >= 0 || !v.sorted {
		v.eachGood(workload, b.from, b.from+int64(b.n)*b.step, func(t int64) { out[(t-b.from)/b.step]++ })
		return out
	}
	s.goodOnce.Do(func() {
		v.eachGood(-1, 0, math.MaxInt64, func(t int64) {
			for int64(len(s.goods)) <= t/s.meta.Step {
				s.goods = append(s.goods, 0)
			}
			s.goods[t/s.meta.Step]++
		})
	})
	for i := range out {
		from := b.from + int64(i)*b.step
		for k := max(from, 0) / s.meta.Step; k < min((from+b.step)/s.meta.Step, int64(len(s.goods))); k++ {
			out[i] += int64(s.goods[k])
		}
	}
	return out
}

// eachGood calls do with the schedule in [from, to) of every request that is within
// every limit.
func (v *view) eachGood(workload int, from, to int64, do func(t int64)) {
	list := rules(&v.input)
	first, last := v.rows(from, to)
rows:
	for row := first; row < last; row++ {
		t := v.scheduled[row]
		if t < from || t >= to || workload >= 0 && int(v.workload[row]) != workload {
			continue
		}
		for i := range list {
			r := &list[i]
			if over, _, _ := v.judged(row, r).Judge(r.Metric, float64(r.Value)); over {
				continue rows
			}
		}
		do(t)
	}
}
