package stats

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"plimsoll/internal/histogram"
	"plimsoll/internal/record"
	"plimsoll/internal/scenario"
)

// sloMetric returns the figure that a limit on name is about, and whether it is
// one from the schedule.
func (c *Collector) sloMetric(name string) (m metric, fromSchedule, ok bool) {
	name, fromSchedule = LimitFigure(name, c.in.RateDriven)
	m, ok = map[string]metric{
		"ttft": mTTFT, "ttft_from_schedule": mTTFTFromSchedule, "ttfc": mTTFC, "ttlt": mTTLT,
		"e2e": mE2E, "e2e_from_schedule": mE2EFromSchedule, "tpot": mTPOT, "itl": mITL,
	}[name]
	return m, fromSchedule, ok
}

// ParseStat reads the name of a statistic of a limit: mean, max, or a
// percentile as p50, p99, p99.9 or, from p90 on, p999. Of a percentile it returns the
// thousandths, of the others 0.
func ParseStat(s string) (permille int, err error) {
	if s == "mean" || s == "max" {
		return 0, nil
	}
	digits, ok := strings.CutPrefix(s, "p")
	if !ok {
		return 0, fmt.Errorf("read statistic %q: want mean, max or a percentile such as p95", s)
	}
	whole, fraction, dotted := strings.Cut(digits, ".")
	if !dotted && len(digits) == 3 && digits[0] == '9' {
		whole, fraction = digits[:2], digits[2:]
	}
	if len(fraction) > 1 || dotted && fraction == "" {
		return 0, fmt.Errorf("read statistic %q: want at most one digit after the point", s)
	}
	if fraction == "" {
		fraction = "0"
	}
	v, err := strconv.ParseUint(whole+fraction, 10, 32)
	if err != nil || v == 0 || v >= 1000 {
		return 0, fmt.Errorf("read statistic %q: want a percentile above 0 and below 100", s)
	}
	return int(v), nil
}

// slo judges the limits over the chosen part; nil when there are none.
//
// A cancelled request whose figure never came is a lower bound: it counts as
// over the limit when it had waited longer than that, and not at all otherwise.
func (c *Collector) slo(p part, f *figures) *SLO {
	if len(c.in.Limits) == 0 {
		return nil
	}
	s := &SLO{Met: true, Limits: []Limit{}}
	bad := make([]bool, 0, f.group.req.Scheduled)
	for n, l := range c.in.Limits {
		m, fromSchedule, ok := c.sloMetric(l.Metric)
		if !ok {
			panic(fmt.Sprintf("BUG: a limit on %q passed validation", l.Metric))
		}
		limit := float64(l.Value)
		var values []float64
		var infinite, at int64
		c.rows(p, func(k *chunk, i int, _ uint16) {
			q := Judged{Status: k.status[i], Buffered: k.buffered[i]}
			q.Value, q.Has = k.value(m, i)
			if q.Status == record.Cancelled && !q.Has {
				q.Waited, q.Waits = k.waited(i, m, fromSchedule)
			}
			over, counted, endless := q.judge(m == mTPOT || m == mITL, limit)
			if counted {
				values = append(values, q.Value)
			}
			if endless {
				infinite++
			}
			if n == 0 {
				bad = append(bad, over)
			} else {
				bad[at] = bad[at] || over
			}
			at++
		})
		out := Limit{Metric: l.Metric, Stat: l.Stat, Limit: limit / perMS, FromSchedule: fromSchedule}
		v := StatOf(values, infinite, l.Stat)
		if m == mITL {
			v = PooledStat(f.group.itls, int64(len(values)), infinite, l.Stat)
		}
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			out.Value, out.Met = known(v/perMS), v <= limit
		}
		s.Met = s.Met && out.Met
		s.Limits = append(s.Limits, out)
	}
	for _, b := range bad {
		if !b {
			f.good++
		}
	}
	if f.window > 0 {
		s.GoodputRPS = known(float64(f.good) / (float64(f.window) / perS))
	}
	if n := f.group.req.Scheduled; n > 0 {
		s.Attainment = known(float64(f.good) / float64(n))
	}
	return s
}

// waited returns how long a request had waited for figure m when it ended. It
// says nothing of figures per token.
func (k *chunk) waited(i int, m metric, fromSchedule bool) (float64, bool) {
	if m == mTPOT || m == mITL {
		return 0, false
	}
	end, ok := k.cols[colEnd].get(i)
	delay, has := k.cols[colDelay].get(i)
	if fromSchedule {
		return float64(end + delay), ok && has
	}
	return float64(end), ok
}

// StatOf returns a statistic of values and of a number of infinite ones: NaN
// when there are none at all, +Inf when it is infinite. It sorts values.
func StatOf(values []float64, infinite int64, stat string) float64 {
	n := int64(len(values))
	slices.Sort(values)
	switch permille, err := ParseStat(stat); {
	case err != nil:
		panic("BUG: a limit passed validation: " + err.Error())
	case n+infinite == 0:
		return math.NaN()
	case permille > 0:
		r := quantile(permille).rank(n + infinite)
		if r > n {
			return math.Inf(1)
		}
		return values[r-1]
	case infinite > 0:
		return math.Inf(1)
	case stat == "max":
		return values[n-1]
	}
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(n)
}

// PooledStat is StatOf for values pooled over requests; each infinite request
// stands for as many values as the others have on average. Parts may be nil.
func PooledStat(parts []*histogram.Histogram, requests, infinite int64, stat string) float64 {
	var h histogram.Histogram
	for _, p := range parts {
		h.Merge(p)
	}
	n := int64(h.Count())
	switch permille, err := ParseStat(stat); {
	case err != nil:
		panic("BUG: a limit passed validation: " + err.Error())
	case n == 0 && infinite == 0:
		return math.NaN()
	case n == 0 || requests == 0:
		return math.Inf(1)
	case permille > 0:
		r := quantile(permille).rank(n + int64(math.Ceil(float64(infinite)*float64(n)/float64(requests))))
		if r > n {
			return math.Inf(1)
		}
		return float64(h.AtRank(uint64(r)))
	case infinite > 0:
		return math.Inf(1)
	case stat == "max":
		return float64(h.Max())
	}
	return h.Mean()
}

// worst returns the service levels of a run of several steps: goodput and
// attainment of all, each limit with its worst step.
func worst(all *SLO, steps []Step) *SLO {
	if all == nil {
		return nil
	}
	out := *all
	out.Met = true
	out.Limits = slices.Clone(all.Limits)
	for i := range out.Limits {
		w := &out.Limits[i]
		for n, s := range steps {
			l := s.SLO.Limits[i]
			if n == 0 || l.Value == nil || w.Value != nil && *l.Value > *w.Value {
				*w = l
			}
			out.Met = out.Met && l.Met
		}
	}
	return &out
}

// LimitMetrics returns the names of the figures that a limit can be about.
func LimitMetrics() []string {
	return []string{"ttft", "ttft_from_schedule", "ttfc", "ttlt", "e2e", "e2e_from_schedule", "tpot", "itl"}
}

// CheckLimit says whether l names a figure and a statistic that exist.
func CheckLimit(l scenario.Limit) error {
	if !slices.Contains(LimitMetrics(), l.Metric) {
		return fmt.Errorf("read limit %s.%s: figure %q is none of %s", l.Metric, l.Stat, l.Metric, strings.Join(LimitMetrics(), ", "))
	}
	_, err := ParseStat(l.Stat)
	return err
}
