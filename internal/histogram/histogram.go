// Package histogram counts durations in buckets whose width grows with the
// value, so that any quantile of any number of values costs a few kilobytes and
// is wrong by at most 0.4 %. Histograms of the same kind merge without loss. It
// owns the bucket layout, its arithmetic and its codec; it never locks, knows no
// unit but "int64, in practice nanoseconds", and never interpolates between
// histograms: percentiles are merged, not averaged.
package histogram

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// MaxError is the largest relative error of Quantile: half the width of a
// bucket over its lower bound, 1/256.
const MaxError = 1.0 / (2 << subBits)

const (
	// subBits gives 128 buckets per octave.
	subBits    = 7
	subBuckets = 1 << subBits
	// buckets is the number of buckets that cover [0, MaxInt64].
	buckets = (63-subBits)*subBuckets + subBuckets
)

// Histogram counts int64 values of at least 0; a negative value counts as 0.
// Values below 256 have buckets of their own and are exact. Count, sum, minimum
// and maximum are exact always. The zero value is ready for use. It is for one
// goroutine at a time; use one per worker and Merge them.
type Histogram struct {
	// counts has the length of the highest bucket that was ever needed,
	// rounded up to a whole octave.
	counts       []uint64
	n            uint64
	sumHi, sumLo uint64 // 128 bits: ten million requests of 15 minutes overflow 63
	// invMin is the complement of the minimum, so that the zero value works
	// and both extremes are a plain maximum.
	invMin, max int64
}

// index returns the bucket of v, which must be at least 0.
func index(v int64) int {
	u := uint64(v)
	// Below 256 the shift is 0 and the bucket is the value.
	e := bits.Len64(u|subBuckets) - (subBits + 1)
	return e<<subBits + int(u>>uint(e))
}

// bounds returns the lowest and highest value of bucket i.
func bounds(i int) (lo, hi int64) {
	if i < 2*subBuckets {
		return int64(i), int64(i)
	}
	e := uint(i>>subBits) - 1
	lo = int64(i-int(e)<<subBits) << e
	return lo, lo + (1<<e - 1)
}

// middle returns the value that stands for bucket i: the middle of its bounds.
func middle(i int) int64 {
	lo, hi := bounds(i)
	return lo + (hi-lo)/2
}

// Record counts v once. It allocates only when v is in a higher octave than any
// value before it.
func (h *Histogram) Record(v int64) {
	if v < 0 {
		v = 0
	}
	i := index(v)
	if i >= len(h.counts) {
		h.grow(i)
	}
	h.counts[i]++
	h.n++
	var carry uint64
	h.sumLo, carry = bits.Add64(h.sumLo, uint64(v), 0)
	h.sumHi += carry
	h.max = max(h.max, v)
	h.invMin = max(h.invMin, math.MaxInt64-v)
}

// RecordAll counts each of the values once. It allocates only when one of them is in a
// higher octave than any value before.
func (h *Histogram) RecordAll(values []int64) {
	if len(values) == 0 {
		return
	}
	most, least := int64(0), int64(math.MaxInt64)
	hi, lo := h.sumHi, h.sumLo
	for _, v := range values {
		v = max(v, 0)
		i := index(v)
		if i >= len(h.counts) {
			h.grow(i)
		}
		h.counts[i]++
		var carry uint64
		lo, carry = bits.Add64(lo, uint64(v), 0)
		hi += carry
		most, least = max(most, v), min(least, v)
	}
	h.sumHi, h.sumLo = hi, lo
	h.n += uint64(len(values))
	h.max = max(h.max, most)
	h.invMin = max(h.invMin, math.MaxInt64-least)
}

// RecordN counts v n times.
func (h *Histogram) RecordN(v int64, n uint64) {
	if n == 0 {
		return
	}
	if v < 0 {
		v = 0
	}
	i := index(v)
	if i >= len(h.counts) {
		h.grow(i)
	}
	h.counts[i] += n
	h.n += n
	hi, lo := bits.Mul64(uint64(v), n)
	var carry uint64
	h.sumLo, carry = bits.Add64(h.sumLo, lo, 0)
	h.sumHi, _ = bits.Add64(h.sumHi, hi, carry)
	h.max = max(h.max, v)
	h.invMin = max(h.invMin, math.MaxInt64-v)
}

// RecordShared divides total into n values that differ by at most 1 and counts
// each of them, so that the sum of the histogram grows by exactly total. It is
// for a gap that brought n tokens.
func (h *Histogram) RecordShared(total int64, n uint64) {
	if n == 1 { // the usual case
		h.Record(total)
		return
	}
	if n == 0 {
		return
	}
	if total < 0 {
		total = 0
	}
	q, r := uint64(total)/n, uint64(total)%n
	h.RecordN(int64(q), n-r)
	h.RecordN(int64(q)+1, r)
}

// RecordGaps counts the differences of successive times, which must not fall.
func (h *Histogram) RecordGaps(times []int64) { h.RecordGapsN(times, 1) }

// RecordGapsN counts the differences of successive times, which must not fall, n
// times each.
func (h *Histogram) RecordGapsN(times []int64, n uint64) {
	if len(times) < 2 || n == 0 {
		return
	}
	most, least := int64(0), int64(math.MaxInt64)
	last := times[0]
	// Neighbours are often of one bucket, that from lo on, and counted together.
	lo, width, run, at := int64(0), uint64(0), uint64(0), 0
	for _, t := range times[1:] {
		v := max(t-last, 0)
		last = t
		if uint64(v-lo) < width {
			run += n
		} else {
			if run > 0 {
				h.counts[at] += run
			}
			at = index(v)
			if at >= len(h.counts) {
				h.grow(at)
			}
			low, high := bounds(at)
			lo, width, run = low, uint64(high-low)+1, n
		}
		most, least = max(most, v), min(least, v)
	}
	h.counts[at] += run
	h.n += n * uint64(len(times)-1)
	hi, rest := bits.Mul64(uint64(last-times[0]), n)
	var carry uint64
	h.sumLo, carry = bits.Add64(h.sumLo, rest, 0)
	h.sumHi, _ = bits.Add64(h.sumHi, hi, carry)
	h.max = max(h.max, most)
	h.invMin = max(h.invMin, math.MaxInt64-least)
}

func (h *Histogram) grow(i int) {
	size := min((i>>subBits+1)<<subBits, buckets)
	c := make([]uint64, size)
	copy(c, h.counts)
	h.counts = c
}

// Merge adds all values of o to h. o is unchanged. Merging is exact: it is
// associative, commutative, and the same as having recorded all values in one.
func (h *Histogram) Merge(o *Histogram) {
	if o == nil || o.n == 0 {
		return
	}
	if len(o.counts) > len(h.counts) {
		h.grow(len(o.counts) - 1)
	}
	for i, c := range o.counts {
		h.counts[i] += c
	}
	h.n += o.n
	var carry uint64
	h.sumLo, carry = bits.Add64(h.sumLo, o.sumLo, 0)
	h.sumHi, _ = bits.Add64(h.sumHi, o.sumHi, carry)
	h.max = max(h.max, o.max)
	h.invMin = max(h.invMin, o.invMin)
}

// errNotEarlier is returned when the subtrahend has values that h lacks.
var errNotEarlier = errors.New("subtract histogram: the other is not an earlier state of this one")

// Subtract takes an earlier state of h away from it, which leaves what was
// recorded since. Count, sum and buckets are exact. The minimum and maximum of
// the difference cannot be known from two totals: they become the outer bounds
// of the outermost buckets, cut to the extremes of h. On an error h is
// unchanged.
func (h *Histogram) Subtract(earlier *Histogram) error {
	if earlier == nil || earlier.n == 0 {
		return nil
	}
	if h.n < earlier.n || h.invMin < earlier.invMin || h.max < earlier.max {
		return errNotEarlier
	}
	for i, c := range earlier.counts {
		if c > 0 && (i >= len(h.counts) || c > h.counts[i]) {
			return errNotEarlier
		}
	}
	lo, borrow := bits.Sub64(h.sumLo, earlier.sumLo, 0)
	hi, borrow := bits.Sub64(h.sumHi, earlier.sumHi, borrow)
	if borrow != 0 {
		return errNotEarlier
	}
	d := Histogram{counts: slices.Clone(h.counts), n: h.n - earlier.n, sumHi: hi, sumLo: lo}
	first, last := -1, -1
	for i := range d.counts {
		if i < len(earlier.counts) {
			d.counts[i] -= earlier.counts[i]
		}
		if d.counts[i] > 0 {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if d.n > 0 {
		low, _ := bounds(first)
		_, high := bounds(last)
		d.invMin = min(h.invMin, math.MaxInt64-low)
		d.max = min(h.max, high)
	}
	if !d.sumFits() {
		return errNotEarlier
	}
	*h = d
	return nil
}

// sumFits says whether the sum is one that values in these buckets can have.
func (h *Histogram) sumFits() bool {
	var minHi, minLo, maxHi, maxLo uint64
	for i, c := range h.counts {
		if c > 0 {
			lo, hi := bounds(i)
			lo, hi = max(lo, h.Min()), min(hi, h.max)
			minHi, minLo = addProduct(minHi, minLo, uint64(lo), c)
			maxHi, maxLo = addProduct(maxHi, maxLo, uint64(hi), c)
		}
	}
	return !less(h.sumHi, h.sumLo, minHi, minLo) && !less(maxHi, maxLo, h.sumHi, h.sumLo)
}

func addProduct(hi, lo, v, n uint64) (newHi, newLo uint64) {
	ph, pl := bits.Mul64(v, n)
	lo, carry := bits.Add64(lo, pl, 0)
	hi, _ = bits.Add64(hi, ph, carry)
	return hi, lo
}

func less(aHi, aLo, bHi, bLo uint64) bool {
	return aHi < bHi || aHi == bHi && aLo < bLo
}

// Reset forgets all values and keeps the memory.
func (h *Histogram) Reset() {
	if h.n > 0 {
		clear(h.counts[index(h.Min()) : index(h.max)+1]) // there is nothing beyond the extremes
	}
	*h = Histogram{counts: h.counts}
}

// Clone returns a copy that shares nothing with h. The clone of nil is nil.
func (h *Histogram) Clone() *Histogram {
	if h == nil {
		return nil
	}
	c := *h
	c.counts = slices.Clone(h.counts)
	return &c
}

// Count returns the number of values.
func (h *Histogram) Count() uint64 { return h.n }

// Min returns the smallest value, 0 when there are none.
func (h *Histogram) Min() int64 {
	if h.n == 0 {
		return 0
	}
	return math.MaxInt64 - h.invMin
}

// Max returns the largest value, 0 when there are none.
func (h *Histogram) Max() int64 { return h.max }

// Sum returns the sum of all values, and false when it does not fit.
func (h *Histogram) Sum() (int64, bool) {
	if h.sumHi != 0 || h.sumLo > math.MaxInt64 {
		return math.MaxInt64, false
	}
	return int64(h.sumLo), true
}

// Mean returns the mean, exact but for the rounding of the result; NaN when
// there are no values.
func (h *Histogram) Mean() float64 {
	if h.n == 0 {
		return math.NaN()
	}
	if h.sumHi < h.n {
		// Quotient and remainder apart keep all 53 bits of the result.
		q, r := bits.Div64(h.sumHi, h.sumLo, h.n)
		return float64(q) + float64(r)/float64(h.n)
	}
	return (math.Ldexp(float64(h.sumHi), 64) + float64(h.sumLo)) / float64(h.n)
}

// Std returns the sample standard deviation, with each value taken as the
// middle of its bucket, and NaN when there are fewer than two.
func (h *Histogram) Std() float64 {
	if h.n < 2 {
		return math.NaN()
	}
	// The mean is that of the middles: with the exact one, equal values would
	// seem to differ by the distance to their bucket's middle.
	var mean float64
	for i, c := range h.counts {
		if c > 0 {
			mean += float64(middle(i)) * (float64(c) / float64(h.n))
		}
	}
	if math.MaxInt64-h.invMin == h.max {
		return 0
	}
	var sq float64
	for i, c := range h.counts {
		if c > 0 {
			d := float64(middle(i)) - mean
			sq += d * d * float64(c)
		}
	}
	return math.Sqrt(sq / float64(h.n-1))
}

// AtRank returns the value of the given rank in ascending order, 1 being the
// smallest: the middle of its bucket, but the exact extreme at both ends. Ranks
// outside [1, Count] are taken as the nearest; 0 when there are no values.
func (h *Histogram) AtRank(rank uint64) int64 {
	switch {
	case h.n == 0:
		return 0
	case rank <= 1:
		return h.Min()
	case rank >= h.n:
		return h.max
	}
	var seen uint64
	for i := index(h.Min()); i < len(h.counts); i++ { // there is nothing below the minimum
		if seen += h.counts[i]; seen >= rank {
			return min(max(middle(i), h.Min()), h.max)
		}
	}
	panic("BUG: histogram's count is not the sum of its buckets")
}

// Quantile returns the value at quantile q of [0, 1] by nearest rank: the
// smallest value such that at least q of all values are not above it. The
// result is within MaxError of that value, and 0 when there are none.
func (h *Histogram) Quantile(q float64) int64 {
	// The factor undoes the rounding of a product that is whole in decimals:
	// 0.07 times 100 is a little above 7.
	r := math.Ceil(q * float64(h.n) * (1 - 4e-16))
	if !(r > 1) {
		return h.AtRank(1)
	}
	if r >= float64(h.n) {
		return h.AtRank(h.n)
	}
	return h.AtRank(uint64(r))
}

// CountAtMost returns how many values are counted in buckets up to and with
// that of v.
func (h *Histogram) CountAtMost(v int64) uint64 {
	if v < 0 {
		return 0
	}
	var n uint64
	for _, c := range h.counts[:min(index(v)+1, len(h.counts))] {
		n += c
	}
	return n
}

// Bucket is a range of values and how many fell into it.
type Bucket struct {
	Low, High int64 // both inclusive
	Count     uint64
}

// Buckets returns the buckets that are not empty, in ascending order.
func (h *Histogram) Buckets() []Bucket {
	var out []Bucket
	for i, c := range h.counts {
		if c > 0 {
			lo, hi := bounds(i)
			out = append(out, Bucket{lo, hi, c})
		}
	}
	return out
}

// String says what is in h, for test output.
func (h *Histogram) String() string {
	return fmt.Sprintf("histogram of %d: min %d, mean %.6g, p50 %d, p99 %d, max %d",
		h.n, h.Min(), h.Mean(), h.Quantile(0.5), h.Quantile(0.99), h.max)
}
