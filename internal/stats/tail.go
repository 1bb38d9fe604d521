package stats

import (
	"plimsoll/internal/histogram"
	"plimsoll/internal/phrase"
)

// TailRank returns the rank, 1 being the smallest, of the lower end of the 95 % interval
// of p99 among n values, n > 0: order statistics of the binomial (Hahn and Meeker,
// Statistical Intervals, 5.2), as for CI95 but with each request for itself, since each
// that was late is wrong in the figures whatever its neighbours were. Where the value of
// that rank is over a limit, chance puts the true p99 within it at most once in 40 times.
func TailRank(n int64) int64 {
	l, _ := orderRanks(n, 0.99)
	return l
}

// tail is how many of n values are over a limit, and the lower end of the interval of
// their p99 in ms.
type tail struct {
	n, over int64
	least   *float64
}

// needed is how many of the values must be over the limit before a verdict rests on it.
func (t *tail) needed() int64 {
	if t.n == 0 {
		return 1
	}
	return t.n - TailRank(t.n) + 1
}

// proves says whether as many are.
func (t *tail) proves() bool { return t.over >= t.needed() }

// few are the values of a sentence that says that they are not.
func (t *tail) few() []phrase.Value {
	return []phrase.Value{phrase.Count(t.n), phrase.Count(t.over), phrase.Count(t.needed())}
}

// tailOf is the tail of sorted samples in ns over a limit in ms.
func tailOf(s []sample, limit float64) tail {
	t := tail{n: int64(len(s))}
	if t.n == 0 {
		return t
	}
	for i := len(s) - 1; i >= 0 && s[i].v/perMS > limit; i-- {
		t.over++
	}
	t.least = known(s[TailRank(t.n)-1].v / perMS)
	return t
}

// tailOfHistogram is tailOf for a histogram of ns, which may be nil.
func tailOfHistogram(h *histogram.Histogram, limit float64) tail {
	if h == nil || h.Count() == 0 {
		return tail{}
	}
	n := int64(h.Count())
	return tail{n, n - int64(h.CountAtMost(int64(limit*perMS))), known(float64(h.AtRank(uint64(TailRank(n)))) / perMS)}
}
