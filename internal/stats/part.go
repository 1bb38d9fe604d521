package stats

import (
	"slices"

	"plimsoll/internal/histogram"
	"plimsoll/internal/record"
)

// What a reader needs that has the figures of requests in columns of its own and
// wants those of a part of a run: the definitions of a summary, piece by piece.

// Ascending makes a distribution, without deviation and intervals, of values that come
// in ascending order and of which it is known how many they are, without keeping them.
type Ascending struct {
	n, at int64
	sum   float64
	// next is the rank of the next value that is asked for, ranks those after it.
	next  int64
	ranks []int64
	of    []float64
}

// NewAscending returns an Ascending of n values.
func NewAscending(n int64) *Ascending {
	a := &Ascending{n: n}
	if n == 0 {
		return a
	}
	a.ranks = append(a.ranks, 1, n)
	for _, q := range quantiles {
		a.ranks = append(a.ranks, q.rank(n))
	}
	slices.Sort(a.ranks)
	a.ranks = slices.Compact(a.ranks)
	a.next = a.ranks[0]
	return a
}

// Add adds v, which is not below those before.
func (a *Ascending) Add(v float64) {
	a.sum += v
	if a.at++; a.at == a.next {
		a.keep(v)
	}
}

func (a *Ascending) keep(v float64) {
	a.of = append(a.of, v)
	a.next = 0
	if len(a.of) < len(a.ranks) {
		a.next = a.ranks[len(a.of)]
	}
}

// Dist returns the distribution with values divided by unit. All n values must have been
// added.
func (a *Ascending) Dist(unit float64) *Dist {
	d := &Dist{Count: a.n}
	if a.at != a.n {
		panic("BUG: not as many values as were announced")
	}
	if a.n == 0 {
		return d
	}
	at := func(rank int64) float64 {
		i, _ := slices.BinarySearch(a.ranks, rank)
		return a.of[i] / unit
	}
	d.Mean = known(a.sum / float64(a.n) / unit)
	d.Min, d.Max = known(at(1)), known(at(a.n))
	d.fill(func(q quantile) float64 { return at(q.rank(a.n)) })
	d.judge(a.n)
	return d
}

// DistOfHistogram returns the distribution of the values of h divided by unit, without
// intervals; h may be nil.
func DistOfHistogram(h *histogram.Histogram, unit float64) *Dist { return distOfHistogram(h, unit) }

// Rank returns the nearest rank of a percentile, in thousandths, among n values, 1
// being the smallest.
func Rank(permille int, n int64) int64 { return quantile(permille).rank(n) }

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
