package stats

import (
	"fmt"
	"maps"
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

// level is a limit and the requests that it is about.
type level struct {
	scenario.Limit
	// workload names the one whose requests it is about, empty for all; turn is
	// first, later or empty for all.
	workload, turn string
	retrieval      bool
}

// The turns that a workload's limits are about.
const (
	turnFirst = "first"
	turnLater = "later"
)

// levelsOf lists the limits that come with a workload.
func (w *WorkloadLimits) levelsOf(workload string) []level {
	var out []level
	for _, g := range []struct {
		turn   string
		limits []scenario.Limit
	}{{turnFirst, w.First}, {turnLater, w.Later}, {"", w.All}} {
		for _, l := range g.limits {
			out = append(out, level{l, workload, g.turn, w.WithRetrieval && l.Metric == "ttft"})
		}
	}
	return out
}

// limits lists what a part is judged by: one workload by its own limits, if it has
// any, else by those of the run.
func (c *Collector) limits(p part) []level {
	if p.workload >= 0 {
		name := c.workloads[p.workload]
		if w := c.in.Workloads[name]; len(w.All)+len(w.First)+len(w.Later) > 0 {
			return w.levelsOf(name)
		}
	}
	var out []level
	for _, l := range c.in.Limits {
		out = append(out, level{Limit: l})
	}
	if c.in.WorkloadsCount && p.workload < 0 {
		for _, name := range slices.Sorted(maps.Keys(c.in.Workloads)) {
			w := c.in.Workloads[name]
			out = append(out, w.levelsOf(name)...)
		}
	}
	return out
}

// about says whether a limit is about row i of k.
func (c *Collector) about(l *level, k *chunk, i int) bool {
	switch {
	case l.workload != "" && c.workloads[k.workload[i]] != l.workload:
		return false
	case l.turn == turnFirst:
		return !k.later[i]
	case l.turn == turnLater:
		return k.later[i]
	}
	return true
}

// figureOf returns the figure that a limit is about.
func (c *Collector) figureOf(l *level) (m metric, fromSchedule bool) {
	m, fromSchedule, ok := c.sloMetric(l.Metric)
	switch {
	case !ok:
		panic(fmt.Sprintf("BUG: a limit on %q passed validation", l.Metric))
	case l.retrieval && fromSchedule:
		m = mTTFTWithRetrievalFromSchedule
	case l.retrieval:
		m = mTTFTWithRetrieval
	}
	return m, fromSchedule
}

// slo judges the limits of the chosen part over it; nil when there are none. A
// request is good when every limit that is about it holds for it; one that no limit
// is about, when it is ok.
//
// A cancelled request whose figure never came is a lower bound: it counts as
// over the limit when it had waited longer than that, and not at all otherwise.
func (c *Collector) slo(p part, f *figures) *SLO {
	limits := c.limits(p)
	if len(limits) == 0 {
		return nil
	}
	s := &SLO{Met: true, Limits: []Limit{}, Own: p.workload >= 0 && limits[0].workload != ""}
	bad := make([]bool, 0, f.group.req.Scheduled)
	for n := range limits {
		l := &limits[n]
		m, fromSchedule := c.figureOf(l)
		limit := float64(l.Value)
		var values []float64
		var infinite, at int64
		c.rows(p, func(k *chunk, i int, _ uint16) {
			q := Judged{Status: k.status[i], Buffered: k.buffered[i]}
			q.Value, q.Has = k.value(m, i)
			if q.Status == record.Cancelled && !q.Has {
				q.Waited, q.Waits = k.waited(i, m, fromSchedule)
			}
			over := q.Status != record.OK // only an ok request can be good
			if c.about(l, k, i) {
				var counted, endless bool
				if over, counted, endless = q.judge(m == mTPOT || m == mITL, limit); counted {
					values = append(values, q.Value)
				}
				if endless {
					infinite++
				}
			}
			if n == 0 {
				bad = append(bad, over)
			} else {
				bad[at] = bad[at] || over
			}
			at++
		})
		out := Limit{Metric: l.Metric, Stat: l.Stat, Limit: limit / perMS, FromSchedule: fromSchedule, Turn: l.turn, WithRetrieval: l.retrieval}
		if p.workload < 0 {
			out.Workload = l.workload
		}
		v := StatOf(values, infinite, l.Stat)
		if m == mITL {
			v = PooledStat(c.itlsOf(p, f, l), int64(len(values)), infinite, l.Stat)
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

// itlsOf returns the times between the tokens that a limit is about. They are pooled
// over the turns of a workload: a limit for some of the turns is judged by all.
func (c *Collector) itlsOf(p part, f *figures, l *level) []*histogram.Histogram {
	if l.workload == "" || p.workload >= 0 {
		return f.group.itls
	}
	w, ok := c.names[l.workload]
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
