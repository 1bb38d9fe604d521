package stats

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"plimsoll/internal/histogram"
	"plimsoll/internal/record"
)

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

// figureOf returns the figure that a limit is about.
func (c *Collector) figureOf(l *Level) (m metric, fromSchedule bool) {
	name, fromSchedule := l.Figure(c.in.RateDriven)
	m, ok := map[string]metric{
		"ttft": mTTFT, "ttft_from_schedule": mTTFTFromSchedule, "ttfc": mTTFC, "ttlt": mTTLT,
		"e2e": mE2E, "e2e_from_schedule": mE2EFromSchedule, "tpot": mTPOT, "itl": mITL,
	}[name]
	switch {
	case !ok:
		panic(fmt.Sprintf("BUG: a limit on %q passed validation", l.Metric))
	case l.WithRetrieval && fromSchedule:
		m = mTTFTWithRetrievalFromSchedule
	case l.WithRetrieval:
		m = mTTFTWithRetrieval
	}
	return m, fromSchedule
}

// slo judges the limits of the chosen part; nil when there are none. Over several steps
// each limit has its worst one, while goodput and attainment are of all; where no limit
// was measured these are not known.
func (c *Collector) slo(p part, f *figures) *SLO {
	s := c.judge(p, f)
	if s == nil {
		return nil
	}
	if steps := c.steps(p); len(steps) > 1 {
		s.Limits = nil
		for _, step := range steps {
			q := part{step, p.workload}
			of := c.judge(q, &figures{group: c.merged(q), window: c.window(q)}).Limits
			if s.Limits == nil {
				s.Limits = of
				continue
			}
			for i, l := range of {
				if w := &s.Limits[i]; Worse(l.Met, l.Value, w.Met, w.Value) {
					*w = l
				}
			}
		}
	}
	if s.Met = AllMet(s.Limits); s.Met == nil {
		s.GoodputRPS, s.Attainment = nil, nil
	}
	return s
}

// judge holds the limits of the chosen part against the requests of all its steps
// together. A request is good when every limit that is about it holds for it; one that
// no limit is about, when it is ok.
//
// A cancelled request whose figure never came is a lower bound: it counts as
// over the limit when it had waited longer than that, and not at all otherwise.
func (c *Collector) judge(p part, f *figures) *SLO {
	limits := c.in.Levels("")
	if p.workload >= 0 {
		limits = c.in.Levels(c.workloads[p.workload])
	}
	if len(limits) == 0 {
		return nil
	}
	s := &SLO{Limits: []Limit{}, Own: p.workload >= 0 && limits[0].Workload != ""}
	bad := make([]bool, 0, f.group.req.Scheduled)
	for n := range limits {
		l := &limits[n]
		m, fromSchedule := c.figureOf(l)
		var tally Tally
		at := 0
		c.rows(p, func(k *chunk, i int, _ uint16) {
			q := Judged{Status: k.status[i], Buffered: k.buffered[i]}
			q.Value, q.Has = k.value(m, i)
			if q.Status == record.Cancelled && !q.Has {
				q.Waited, q.Waits = k.waited(i, m, fromSchedule)
			}
			over := q.Status != record.OK // only an ok request can be good
			if l.About(c.workloads[k.workload[i]], k.later[i]) {
				over = l.Over(q)
				tally.Add(q, l)
			}
			if n == 0 {
				bad = append(bad, over)
			} else {
				bad[at] = bad[at] || over
			}
			at++
		})
		out := Limit{
			Metric: l.Metric, Stat: l.Stat, Limit: float64(l.Value) / perMS, FromSchedule: fromSchedule,
			Workload: l.Workload, Turn: l.Turn, WithRetrieval: l.WithRetrieval,
		}
		if p.workload >= 0 {
			out.Workload = ""
		}
		var pooled []*histogram.Histogram
		if m == mITL {
			pooled = c.itlsOf(p, f, l)
		}
		out.Value, out.Met = tally.Judge(l, pooled)
		s.Limits = append(s.Limits, out)
	}
	good := 0
	for _, b := range bad {
		if !b {
			good++
		}
	}
	if f.window > 0 {
		s.GoodputRPS = known(float64(good) / (float64(f.window) / perS))
	}
	if n := f.group.req.Scheduled; n > 0 {
		s.Attainment = known(float64(good) / float64(n))
	}
	return s
}

// AllMet says whether the limits that were measured are met, nil when none was.
func AllMet(limits []Limit) *bool {
	var met *bool
	for i := range limits {
		if m := limits[i].Met; m != nil && (met == nil || !*m) {
			met = m
		}
	}
	return met
}

// itlsOf returns the times between the tokens that a limit is about. They are pooled
// over the turns of a workload: a limit for some of the turns is judged by all.
func (c *Collector) itlsOf(p part, f *figures, l *Level) []*histogram.Histogram {
	if l.Workload == "" || p.workload >= 0 {
		return f.group.itls
	}
	w, ok := c.names[l.Workload]
	if !ok {
		return nil
	}
	return c.merged(part{p.step, int(w)}).itls
}

// waited returns how long a request had waited for figure m when it ended. It
// says nothing of figures per token.
func (k *chunk) waited(i int, m metric, fromSchedule bool) (float64, bool) {
	if m == mTPOT || m == mITL {
		return 0, false
	}
	end, ok := k.cols[colEnd].get(i)
	delay, has := k.cols[colDelay].get(i)
	if m == mTTFTWithRetrieval || m == mTTFTWithRetrievalFromSchedule {
		search, _ := k.cols[colRetrieval].get(i)
		end += search
	}
	if fromSchedule {
		return float64(end + delay), ok && has
	}
	return float64(end), ok
}

// statOf returns a statistic of values and of a number of infinite ones: NaN
// when there are none at all, +Inf when it is infinite. It sorts values.
func statOf(values []float64, infinite int64, stat string) float64 {
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

// PooledStat returns a statistic of values pooled over requests and of a number of
// infinite requests: NaN when there are none at all, +Inf when it is infinite. Each
// infinite request stands for as many values as the others have on average. Parts may
// be nil.
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
