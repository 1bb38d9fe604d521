package stats

import (
	"plimsoll/internal/histogram"
	"plimsoll/internal/record"
)

// What a reader needs that has the figures of requests in columns of its own and
// wants those of a part of a run: the definitions of a summary, piece by piece.

// Sorted are values in ascending order of which a distribution is wanted. The zero
// value is empty.
type Sorted struct{ s []sample }

// Reset makes s empty, with room for n values.
func (s *Sorted) Reset(n int) {
	if cap(s.s) < n {
		s.s = make([]sample, 0, n)
	}
	s.s = s.s[:0]
}

// Append adds v, which is not below those before.
func (s *Sorted) Append(v float64) { s.s = append(s.s, sample{v: v}) }

// Len returns the number of values.
func (s *Sorted) Len() int { return len(s.s) }

// Dist returns their distribution with values divided by unit, without intervals.
func (s *Sorted) Dist(unit float64) *Dist { return distOfSorted(s.s, unit, blocking{}) }

// DistOfHistogram returns the distribution of the values of h divided by unit, without
// intervals; h may be nil.
func DistOfHistogram(h *histogram.Histogram, unit float64) *Dist { return distOfHistogram(h, unit) }

// Rank returns the nearest rank of a percentile, in thousandths, among n values, 1
// being the smallest.
func Rank(permille int, n int64) int64 { return quantile(permille).rank(n) }

// LimitFigure returns the name of the figure that a limit on metric is about, in a
// run that is driven by rates or not, and whether it counts from the schedule. The
// metric is one of LimitMetrics.
func LimitFigure(metric string, rateDriven bool) (name string, fromSchedule bool) {
	switch metric {
	case "ttft", "e2e":
		if rateDriven {
			return metric + "_from_schedule", true
		}
	case "ttft_from_schedule", "e2e_from_schedule":
		return metric, true
	}
	return metric, false
}

// Judged is what a limit on one figure must know of a request.
type Judged struct {
	Status record.Status
	// Buffered is the flag BufferedStream.
	Buffered bool
	// Value is the figure in ns, where Has says that there is one.
	Value float64
	Has   bool
	// Waited is how long in ns the request had waited for the figure when it was
	// cancelled, where Waits says that this is known; figures per token never are.
	Waited float64
	Waits  bool
}

// Judge holds q against a limit in ns on figure: over says that the request is not
// good, counted that its value is among those of which the limit's statistic is, and
// endless that it counts there as infinite.
func (q Judged) Judge(figure string, limit float64) (over, counted, endless bool) {
	return q.judge(figure == "tpot" || figure == "itl", limit)
}

func (q Judged) judge(perToken bool, limit float64) (over, counted, endless bool) {
	has := q.Has && !(perToken && q.Buffered) // the spacing is a proxy's, not the server's
	switch q.Status {
	case record.OK:
		return has && q.Value > limit, has, false
	case record.Failed, record.Incomplete:
		return true, false, true
	case record.Cancelled:
		// Only an ok request can be good.
		return true, has, !has && !perToken && q.Waits && q.Waited > limit
	}
	return true, false, false
}

// Arrived is the output that arrived in a stretch of time.
type Arrived struct {
	// Tokens are those that somebody counted, Events the output events of which
	// nobody counted any, Bodies the whole answers of which nobody did.
	Tokens, Events, Bodies int64
	// Any says that a request started in the stretch, or output arrived.
	Any bool
}

// PerS returns the tokens per second over a length in seconds, given how many tokens
// how many events of the whole run carried; nil when it is not known.
func (a Arrived) PerS(seconds float64, tokens, events int64) *float64 {
	out, _, ok := a.total(tokens, events)
	if !ok || seconds <= 0 {
		return nil
	}
	return known(out / seconds)
}

// total returns the tokens, and how many of them are an estimate.
//
// A rate of 0 is a figure when nothing came; it is unknown when something came that
// nobody counted.
func (a Arrived) total(tokens, events int64) (out, estimated float64, ok bool) {
	out = float64(a.Tokens)
	if a.Events > 0 && events > 0 {
		estimated = float64(a.Events) * float64(tokens) / float64(events)
		out += estimated
	}
	return out, estimated, a.Bodies == 0 && (a.Events == 0 || events > 0) && (a.Any || a.Events > 0)
}

// ErrorName returns the name under which failures of a kind are counted.
func ErrorName(k record.ErrorKind) string {
	if s := k.String(); s != "" {
		return s
	}
	return "unknown"
}
