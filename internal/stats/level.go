package stats

import (
	"maps"
	"math"
	"slices"

	"plimsoll/internal/histogram"
	"plimsoll/internal/record"
	"plimsoll/internal/scenario"
)

// Level is a limit and the requests that it is about.
type Level struct {
	scenario.Limit
	// Workload names the one whose requests it is about, empty for all; Turn is
	// TurnFirst, TurnLater or empty for all.
	Workload, Turn string
	// WithRetrieval makes ttft count from the beginning of the retrieval.
	WithRetrieval bool
}

// The turns that a workload's limits are about: the first of a session, and the
// others.
const (
	TurnFirst = "first"
	TurnLater = "later"
)

// levels lists the limits that come with a workload.
func (w *WorkloadLimits) levels(workload string) []Level {
	var out []Level
	for _, g := range []struct {
		turn   string
		limits []scenario.Limit
	}{{TurnFirst, w.First}, {TurnLater, w.Later}, {"", w.All}} {
		for _, l := range g.limits {
			out = append(out, Level{l, workload, g.turn, w.WithRetrieval && l.Metric == "ttft"})
		}
	}
	return out
}

// Levels lists what the requests of a workload are judged by: its own limits, if it
// has any, else those of the run; for no workload, what the run is.
func (in *Input) Levels(workload string) []Level {
	if w := in.Workloads[workload]; workload != "" {
		if own := w.levels(workload); len(own) > 0 {
			return own
		}
	}
	var out []Level
	for _, l := range in.Limits {
		out = append(out, Level{Limit: l})
	}
	if in.WorkloadsCount && workload == "" {
		for _, name := range slices.Sorted(maps.Keys(in.Workloads)) {
			w := in.Workloads[name]
			out = append(out, w.levels(name)...)
		}
	}
	return out
}

// AllLevels lists every limit of a run: those that the run is judged by and, behind
// them, those that only workloads are.
func (in *Input) AllLevels() []Level {
	out := in.Levels("")
	if in.WorkloadsCount {
		return out
	}
	for _, name := range slices.Sorted(maps.Keys(in.Workloads)) {
		w := in.Workloads[name]
		out = append(out, w.levels(name)...)
	}
	return out
}

// Decides says whether l is one that the run is judged by.
func (in *Input) Decides(l *Level) bool { return l.Workload == "" || in.WorkloadsCount }

// Of says which requests l is about, "" for all.
func (l *Level) Of() string {
	s := ""
	switch l.Turn {
	case TurnFirst:
		s = " of first turns"
	case TurnLater:
		s = " of later turns"
	}
	if l.Workload != "" {
		s += " of " + l.Workload
	}
	return s
}

// JudgesITL says whether any limit is about the time between tokens.
func (in *Input) JudgesITL() bool {
	itl := func(limits []scenario.Limit) bool {
		return slices.ContainsFunc(limits, func(l scenario.Limit) bool { return l.Metric == "itl" })
	}
	if itl(in.Limits) {
		return true
	}
	for _, w := range in.Workloads {
		if itl(w.All) || itl(w.First) || itl(w.Later) {
			return true
		}
	}
	return false
}

// About says whether l is about the requests of a workload that are, or are not, of
// a session's later turns.
func (l *Level) About(workload string, later bool) bool {
	return (l.Workload == "" || l.Workload == workload) && (l.Turn == "" || (l.Turn == TurnLater) == later)
}

// Figure returns the name of the figure that l is about, to which WithRetrieval adds
// the retrieval, in a run that is driven by rates or not, and whether it counts from
// the schedule.
func (l *Level) Figure(rateDriven bool) (name string, fromSchedule bool) {
	switch l.Metric {
	case "ttft", "e2e":
		if rateDriven {
			return l.Metric + "_from_schedule", true
		}
	case "ttft_from_schedule", "e2e_from_schedule":
		return l.Metric, true
	}
	return l.Metric, false
}

// perToken says whether l is about the spacing of tokens.
func (l *Level) perToken() bool { return l.Metric == "tpot" || l.Metric == "itl" }

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

// has says whether a figure of a request counts: the spacing of a buffered stream is
// a proxy's, not the server's.
func (q *Judged) has(l *Level) bool { return q.Has && !(l.perToken() && q.Buffered) }

// Over says whether a request that l is about is not good. Only an ok one can be.
func (l *Level) Over(q Judged) bool {
	return q.Status != record.OK || q.has(l) && q.Value > float64(l.Value)
}

// Tally gathers what the statistic of one limit is of. The zero value is empty.
type Tally struct {
	values []float64
	// infinite counts the requests that are over any limit, without the ok ones that
	// have no such figure.
	infinite, without int64
}

// Add counts a request that l is about.
func (t *Tally) Add(q Judged, l *Level) {
	switch has := q.has(l); {
	case q.Status == record.Failed || q.Status == record.Incomplete:
		t.infinite++
	case has:
		t.values = append(t.values, q.Value)
	case q.Status == record.OK:
		t.without++
	case !l.perToken() && q.Waits && q.Waited > float64(l.Value):
		t.infinite++
	}
}

// Judge returns the statistic of l in ms and whether it is within the limit. Both are
// nil when it was not measured: no request was there, or none that ended well can have
// the figure, so that failures say nothing of it. Only the value is when it is
// infinite. Pooled are the times between tokens that a limit on itl is about.
func (t *Tally) Judge(l *Level, pooled []*histogram.Histogram) (value *float64, met *bool) {
	if len(t.values) == 0 && (t.infinite == 0 || t.without > 0) {
		return nil, nil
	}
	v := 0.0
	if l.Metric == "itl" {
		v = PooledStat(pooled, int64(len(t.values)), t.infinite, l.Stat)
	} else {
		v = statOf(t.values, t.infinite, l.Stat)
	}
	switch {
	case math.IsNaN(v):
		return nil, nil
	case math.IsInf(v, 1):
		return nil, new(false)
	}
	return known(v / perMS), new(v <= float64(l.Value))
}

// Worse says whether what Judge returned of a limit for one part of a run is worse
// than that of another part: missed by more, infinite ones most; what was not
// measured is not worse than anything.
func Worse(met *bool, value *float64, thanMet *bool, thanValue *float64) bool {
	switch {
	case met == nil || thanMet != nil && thanValue == nil:
		return false
	case thanMet == nil || value == nil:
		return true
	}
	return *value > *thanValue
}
