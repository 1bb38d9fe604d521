package live

import (
	"slices"

	"plimsoll/internal/detail"
	"plimsoll/internal/histogram"
	"plimsoll/internal/record"
	"plimsoll/internal/stats"
)

// The figures of which there are bands.
const (
	fTTFT = iota
	fTPOT
	fITL
	fE2E
	figures
)

var figureNames = [figures]string{"ttft", "tpot", "itl", "e2e"}

const (
	// keptSets is how many seconds back a band may still change.
	keptSets = 30
	// mostGaps bounds the times between tokens that are looked at in one second, those
	// of whole requests in the order of their ends: enough for any percentile, and a
	// bound on what looking costs.
	mostGaps = 1 << 15
)

// set are the values of one second.
type set struct {
	// values are by workload, all of them together first.
	values [][figures]histogram.Histogram
	// lags are send lag and read lag.
	send, read histogram.Histogram
	gaps       int
	dirty      bool // changed since it was told
}

// add counts a value of a workload, which are numbered from 1 on; 0 is of none.
func (s *set) add(figure, workload int, v int64) {
	s.at(figure, workload, func(h *histogram.Histogram) { h.Record(v) })
}

// at changes a figure of a workload and that of all.
func (s *set) at(figure, workload int, change func(*histogram.Histogram)) {
	for len(s.values) <= workload {
		s.values = append(s.values, [figures]histogram.Histogram{})
	}
	s.dirty = true
	change(&s.values[0][figure])
	if workload > 0 {
		change(&s.values[workload][figure])
	}
}

// request counts a request that ended.
func (s *set) request(r *record.Request, workload int) {
	if v, ok := stats.SendLag(r); ok {
		s.send.Record(v)
	}
	if v, ok := stats.ReadLag(r); ok {
		s.read.Record(v)
	}
	if r.Status != record.OK {
		return
	}
	if v, ok := stats.E2E(r); ok {
		s.add(fE2E, workload, v)
	}
	if v, _, ok := stats.TPOT(r); ok {
		s.add(fTPOT, workload, int64(v+0.5))
	}
	if s.gaps < mostGaps {
		s.at(fITL, workload, func(h *histogram.Histogram) {
			stats.ITL(r, func(gap int64, tokens int32) { h.RecordShared(gap, uint64(tokens)) })
		})
		s.gaps += len(r.Events)
	}
}

// bands appends the bands of a second, of the workloads whose names are given.
func (s *set) bands(second0 int64, names []string, dst []Band) []Band {
	for w := range s.values {
		name := ""
		if w > 0 {
			if len(names) < 2 || w > len(names) {
				continue // one workload is all of them
			}
			name = names[w-1]
		}
		for f := range s.values[w] {
			h := &s.values[w][f]
			if h.Count() == 0 {
				continue
			}
			dst = append(dst, Band{
				Figure: figureNames[f], Workload: name, T: detail.ToMs(second0 * second), Count: int64(h.Count()),
				Min: detail.ToMs(h.Min()), P50: detail.ToMs(h.Quantile(0.5)), P95: detail.ToMs(h.Quantile(0.95)),
				P99: detail.ToMs(h.Quantile(0.99)), Max: detail.ToMs(h.Max()),
			})
		}
	}
	return dst
}

// outcomes are the last requests that ended, of which the failure share is.
type outcomes struct {
	failed [100]bool
	n, bad int
	next   int
}

func (o *outcomes) add(failed bool) {
	if o.n == len(o.failed) {
		if o.failed[o.next] {
			o.bad--
		}
	} else {
		o.n++
	}
	if o.failed[o.next] = failed; failed {
		o.bad++
	}
	o.next = (o.next + 1) % len(o.failed)
}

// share returns the share of failures, nil before anything has ended.
func (o *outcomes) share() *float64 {
	if o.n == 0 {
		return nil
	}
	v := float64(o.bad) / float64(o.n)
	return &v
}

// sortedSeconds returns the seconds of sets in order.
func sortedSeconds(sets map[int64]*set) []int64 {
	out := make([]int64, 0, len(sets))
	for k := range sets {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
