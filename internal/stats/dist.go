package stats

import (
	"math"
	"slices"

	"plimsoll/internal/histogram"
)

// quantile is a percentile of a Dist in thousandths, so that ranks are whole
// arithmetic: 0.07 * 100 is not 7 in floating point.
type quantile int64

// The percentiles of a Dist.
const (
	q1   quantile = 10
	q5   quantile = 50
	q25  quantile = 250
	q50  quantile = 500
	q75  quantile = 750
	q90  quantile = 900
	q95  quantile = 950
	q99  quantile = 990
	q999 quantile = 999
)

// quantiles are all of them.
var quantiles = [...]quantile{q1, q5, q25, q50, q75, q90, q95, q99, q999}

// judged are the percentiles that get an interval and a word on whether there
// are enough requests, with their names in the file.
var judged = [...]struct {
	name string
	q    quantile
}{{"p50", q50}, {"p75", q75}, {"p90", q90}, {"p95", q95}, {"p99", q99}, {"p999", q999}}

// rank returns the nearest rank of q among n values, 1 being the smallest.
func (q quantile) rank(n int64) int64 {
	// n stays far below MaxInt64/1000.
	return max((n*int64(q)+999)/1000, 1)
}

// EnoughFrom returns the number of requests from which on a percentile, given
// in thousandths of (0, 1000), is called enough: the least n such that at least
// two of n samples lie beyond the quantile, on its scarcer side, with
// probability 0.99 (MLPerf's early-stopping rule). It gives 64 for p90, 130 for
// p95, 662 for p99 and 6636 for p99.9.
func EnoughFrom(permille int) int64 {
	tail := float64(min(permille, 1000-permille)) / 1000
	if tail <= 0 {
		return math.MaxInt64
	}
	// P(at most one beyond) falls with n; find where it reaches 0.01.
	few := func(n float64) float64 {
		log := (n - 1) * math.Log1p(-tail)
		return math.Exp(log) * (1 - tail + n*tail)
	}
	lo, hi := int64(1), int64(2)
	for few(float64(hi)) > 0.01 {
		hi *= 2
	}
	for lo < hi {
		if mid := (lo + hi) / 2; few(float64(mid)) > 0.01 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// sample is one value and the block of time that its request belongs to.
type sample struct {
	v     float64
	block uint16
}

// windowBlocks is the number of equal blocks that a window is cut into. Two or
// four neighbours are put together when requests outlast a block.
const windowBlocks = 32

// blocking says how to put blocks together: join neighbours, 1, 2 or 4, or 0
// when even the largest blocks are too short to be independent.
type blocking struct{ steps, join int }

// blockingFor returns the finest blocking in which the mean request fits into a
// block of the shortest window.
func blockingFor(meanE2E float64, windows []int64) blocking {
	if len(windows) == 0 || math.IsNaN(meanE2E) {
		return blocking{}
	}
	shortest := float64(slices.Min(windows))
	for _, join := range []int{1, 2, 4} {
		if shortest*float64(join)/windowBlocks >= meanE2E && shortest > 0 {
			return blocking{len(windows), join}
		}
	}
	return blocking{}
}

func known(v float64) *float64 { return &v }

// distOf returns the distribution of s with values divided by unit, and sorts s.
// Equal values are interchangeable but for their block, which no sum over values
// sees: any order of the input gives the same bytes.
func distOf(s []sample, unit float64, bl blocking) *Dist {
	sortSamples(s)
	return distOfSorted(s, unit, bl)
}

// distOfSorted is distOf for samples that are sorted already. Blocks are numbered
// step * windowBlocks + block within the step, with steps counted from 0 in the
// order of bl.
func distOfSorted(s []sample, unit float64, bl blocking) *Dist {
	d := &Dist{Count: int64(len(s))}
	if len(s) == 0 {
		return d
	}
	n := d.Count
	var sum float64
	for i := range s {
		sum += s[i].v
	}
	mean := sum / float64(n)
	d.Mean = known(mean / unit)
	if n > 1 {
		var sq float64
		for i := range s {
			sq += (s[i].v - mean) * (s[i].v - mean)
		}
		d.Std = known(math.Sqrt(sq/float64(n-1)) / unit)
	}
	at := func(r int64) float64 { return s[r-1].v / unit }
	d.Min, d.Max = known(at(1)), known(at(n))
	d.fill(func(q quantile) float64 { return at(q.rank(n)) })
	d.judge(n)
	if bl.join == 0 {
		return d
	}
	below, total := make([]int64, bl.blocks()), make([]int64, bl.blocks())
	for i := range s {
		total[bl.of(s[i].block)]++
	}
	d.CI95 = make(map[string]Interval, len(judged))
	i := 0
	for _, j := range judged {
		x := s[j.q.rank(n)-1].v
		for ; i < len(s) && s[i].v <= x; i++ {
			below[bl.of(s[i].block)]++
		}
		lo, hi := interval(j.q, n, n, below, total, bl)
		d.CI95[j.name] = Interval{atOrNil(lo, at), atOrNil(hi, at)}
	}
	return d
}

// radixFrom is the number of samples from which on counting their digits is
// faster than comparing them.
const radixFrom = 1 << 12

// sortSamples sorts by value; the order of equal values is not defined. It uses
// the spare capacity of s, where there is enough.
func sortSamples(s []sample) {
	if len(s) < radixFrom {
		slices.SortFunc(s, func(a, b sample) int {
			switch { // no NaN gets here, which cmp.Compare would look for
			case a.v < b.v:
				return -1
			case a.v > b.v:
				return 1
			}
			return 0
		})
		return
	}
	const (
		digit  = 11
		digits = (64 + digit - 1) / digit
		values = 1 << digit
	)
	// key orders like the value: negative ones are turned round.
	key := func(v float64) uint64 {
		b := math.Float64bits(v)
		if b>>63 != 0 {
			return ^b
		}
		return b | 1<<63
	}
	var counts [digits][values]int
	for i := range s {
		k := key(s[i].v)
		for d := range digits {
			counts[d][k>>(d*digit)%values]++
		}
	}
	from, to := s, s[len(s):cap(s)]
	if len(to) < len(s) {
		to = make([]sample, len(s))
	}
	to = to[:len(s)]
	for d := range digits {
		c := &counts[d]
		if c[key(from[0].v)>>(d*digit)%values] == len(s) {
			continue // all alike: whole numbers of ns leave most digits empty
		}
		sum := 0
		for i, n := range c {
			c[i] = sum
			sum += n
		}
		for i := range from {
			at := &c[key(from[i].v)>>(d*digit)%values]
			to[*at] = from[i]
			*at++
		}
		from, to = to, from
	}
	if &from[0] != &s[0] {
		copy(s, from)
	}
}

// distOfHistograms returns the distribution of values pooled over requests:
// parts are the histograms per block, nil where there was nothing.
func distOfHistograms(parts []*histogram.Histogram, requests int64, unit float64, bl blocking) *Dist {
	var h histogram.Histogram
	for _, p := range parts {
		h.Merge(p)
	}
	d := distOfHistogram(&h, unit)
	if d.Count == 0 {
		return d
	}
	d.judge(requests)
	if bl.join == 0 {
		return d
	}
	d.CI95 = make(map[string]Interval, len(judged))
	n := d.Count
	at := func(r int64) float64 { return float64(h.AtRank(uint64(r))) / unit }
	for _, j := range judged {
		below, total := make([]int64, bl.blocks()), make([]int64, bl.blocks())
		x := h.AtRank(uint64(j.q.rank(n)))
		for b, p := range parts {
			if p != nil {
				below[bl.of(uint16(b))] += int64(p.CountAtMost(x))
				total[bl.of(uint16(b))] += int64(p.Count())
			}
		}
		lo, hi := interval(j.q, n, requests, below, total, bl)
		d.CI95[j.name] = Interval{atOrNil(lo, at), atOrNil(hi, at)}
	}
	return d
}

// distOfHistogram returns the distribution of the values of h, without
// intervals; h may be nil.
func distOfHistogram(h *histogram.Histogram, unit float64) *Dist {
	if h == nil || h.Count() == 0 {
		return &Dist{}
	}
	n := int64(h.Count())
	d := &Dist{Count: n, Mean: known(h.Mean() / unit)}
	if n > 1 {
		d.Std = known(h.Std() / unit)
	}
	d.Min, d.Max = known(float64(h.Min())/unit), known(float64(h.Max())/unit)
	d.fill(func(q quantile) float64 { return float64(h.AtRank(uint64(q.rank(n)))) / unit })
	return d
}

func (d *Dist) fill(at func(quantile) float64) {
	d.P1, d.P5, d.P25 = known(at(q1)), known(at(q5)), known(at(q25))
	d.P50, d.P75, d.P90 = known(at(q50)), known(at(q75)), known(at(q90))
	d.P95, d.P99, d.P999 = known(at(q95)), known(at(q99)), known(at(q999))
}

func (d *Dist) judge(requests int64) {
	d.Enough = make(map[string]bool, len(judged))
	for _, j := range judged {
		d.Enough[j.name] = requests >= EnoughFrom(int(j.q))
	}
}

func atOrNil(rank int64, at func(int64) float64) *float64 {
	if rank == 0 {
		return nil
	}
	return known(at(rank))
}

func (b blocking) perStep() int           { return windowBlocks / b.join }
func (b blocking) blocks() int            { return b.steps * b.perStep() }
func (b blocking) of(block uint16) int    { return int(block) / b.join }
func (b blocking) freedom() (dof float64) { return float64(b.steps * (b.perStep() - 1)) }

// z is the 97.5 % point of the normal distribution.
const z = 1.959963984540054

// interval returns the ranks among n values of a 95 % interval for quantile q,
// 0 for an end that no value reaches. below and total count per block the
// values up to the quantile and all values.
//
// Requests that are near in time share the same queue, so n of them say less
// than n independent ones. How much less is seen from how much the share of
// values below the quantile varies between blocks (Woodruff's method for
// clusters: ratio estimator, stratified by step); the order statistics are then
// those of an independent sample of the equivalent size, which is never taken
// to be more than the number of requests.
func interval(q quantile, n, requests int64, below, total []int64, bl blocking) (lo, hi int64) {
	var variance, binomial float64
	per := bl.perStep()
	for s := range bl.steps {
		a, t := below[s*per:(s+1)*per], total[s*per:(s+1)*per]
		var as, ts int64
		for b := range a {
			as, ts = as+a[b], ts+t[b]
		}
		if ts == 0 {
			continue
		}
		p := float64(as) / float64(ts)
		binomial += p * (1 - p) * float64(ts)
		var sq float64
		for b := range a {
			d := float64(a[b]) - p*float64(t[b])
			sq += d * d
		}
		variance += sq * float64(per) / float64(per-1)
	}
	effect := 1.0
	if binomial > 0 {
		// The variance is itself an estimate from few blocks.
		t := studentT(bl.freedom()) / z
		effect = max(1, variance/binomial*t*t)
	}
	m := min(max(int64(float64(n)/effect), 1), requests)
	l, u := orderRanks(m, float64(q)/1000)
	scale := float64(n) / float64(m)
	if l > 0 {
		lo = max(int64(math.Floor(float64(l)*scale)), 1)
	}
	if u <= m {
		hi = min(int64(math.Ceil(float64(u)*scale)), n)
	}
	return lo, hi
}

// orderRanks returns the ranks l and u among m independent values such that
// the value of rank l is above the quantile q with probability at most 0.025,
// and so is that of rank u below it. l is 0 and u is m+1 when there is no such
// value.
func orderRanks(m int64, q float64) (l, u int64) {
	// The number of values below the quantile is binomial (m, q). Sum its
	// probabilities upwards from where they begin to matter.
	mean, sd := float64(m)*q, math.Sqrt(float64(m)*q*(1-q))
	k := max(int64(mean-10*sd)-30, 0)
	lgM, _ := math.Lgamma(float64(m) + 1)
	lgK, _ := math.Lgamma(float64(k) + 1)
	lgR, _ := math.Lgamma(float64(m-k) + 1)
	p := math.Exp(lgM - lgK - lgR + float64(k)*math.Log(q) + float64(m-k)*math.Log1p(-q))
	cdf := 0.0
	u = m + 1
	for ; k <= m; k++ {
		// cdf is P(X <= k-1): the chance that the value of rank k is above.
		if cdf <= 0.025 {
			l = k
		}
		if cdf >= 0.975 {
			u = k
			break
		}
		cdf += p
		p *= float64(m-k) / float64(k+1) * q / (1 - q)
	}
	return l, u
}

// studentT returns the 97.5 % point of Student's distribution for dof degrees
// of freedom, at least 7, by its expansion in 1/dof (error below 1 %).
func studentT(dof float64) float64 {
	z3, z5 := z*z*z, z*z*z*z*z
	return z + (z3+z)/(4*dof) + (5*z5+16*z3+3*z)/(96*dof*dof)
}
