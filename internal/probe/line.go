package probe

import (
	"math"
	"slices"
)

// confidence is that of every interval, unless its text says otherwise.
const confidence = 0.95

// estimate is a figure with its interval. lo and hi are NaN where there is too
// little to say, value is NaN where there is nothing.
type estimate struct{ value, lo, hi float64 }

var unknown = estimate{math.NaN(), math.NaN(), math.NaN()}

// known says whether there is a value.
func (e estimate) known() bool { return !math.IsNaN(e.value) }

// bounded says whether there is an interval.
func (e estimate) bounded() bool { return !math.IsNaN(e.lo) && !math.IsNaN(e.hi) }

// above says whether all of the interval lies above x.
func (e estimate) above(x float64) bool { return e.lo > x }

// scale multiplies by a number, which may be below 0.
func (e estimate) scale(k float64) estimate {
	e.value, e.lo, e.hi = e.value*k, e.lo*k, e.hi*k
	if k < 0 {
		e.lo, e.hi = e.hi, e.lo
	}
	return e
}

// minus takes a number off.
func (e estimate) minus(x float64) estimate { return estimate{e.value - x, e.lo - x, e.hi - x} }

// inverse is 1/x; the interval is lost where it has both signs.
func (e estimate) inverse() estimate {
	out := estimate{1 / e.value, 1 / e.hi, 1 / e.lo}
	if e.value == 0 {
		return unknown
	}
	if !(e.lo*e.hi > 0) {
		out.lo, out.hi = math.NaN(), math.NaN()
	}
	return out
}

// normal is the quantile of the standard normal distribution.
func normal(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// median returns the median of values with its interval by order statistics: the
// ranks between which a fair coin, thrown for each value, falls with at least 95 %.
// Below 6 values there are no such ranks. It sorts the values.
func median(v []float64) estimate {
	n := len(v)
	if n == 0 {
		return unknown
	}
	slices.Sort(v)
	e := estimate{(v[(n-1)/2] + v[n/2]) / 2, math.NaN(), math.NaN()}
	if r := medianRank(n); r >= 0 {
		e.lo, e.hi = v[r], v[n-1-r]
	}
	return e
}

// medianRank is the largest rank r, from 0, so that n throws of a coin have at most
// r heads with at most 2.5 %; -1 when there is none.
func medianRank(n int) int {
	if n > 1000 {
		return int(math.Floor((float64(n) - 1 - normal((1+confidence)/2)*math.Sqrt(float64(n))) / 2))
	}
	r, below := -1, 0.0
	log := float64(-n) * math.Ln2 // of the probability of k heads
	for k := 0; k < n; k++ {
		if below += math.Exp(log); below > (1-confidence)/2 {
			break
		}
		r = k
		log += math.Log(float64(n-k)) - math.Log(float64(k+1))
	}
	return r
}

// line is a straight line through points. Its height at 0 comes without an interval.
type line struct {
	slope     estimate
	intercept float64
}

// theilSen is the line of Theil and Sen through points: the median of the slopes of
// all pairs, with Sen's interval from the variance of Kendall's tau under ties of x
// at a confidence. It withstands outliers in up to 29 % of the points, and assumes
// nothing of the noise but that it is alike and independent. The intercept is the
// median of what is left at x = 0. Beyond 2,000 points it takes every k-th.
func theilSen(x, y []float64, conf float64) line {
	const most = 2000
	if n := len(x); n > most {
		k := (n + most - 1) / most
		var fx, fy []float64
		for i := 0; i < n; i += k {
			fx, fy = append(fx, x[i]), append(fy, y[i])
		}
		x, y = fx, fy
	}
	n := len(x)
	var slopes []float64
	for i := range n {
		for j := i + 1; j < n; j++ {
			if dx := x[j] - x[i]; dx != 0 {
				slopes = append(slopes, (y[j]-y[i])/dx)
			}
		}
	}
	if len(slopes) == 0 {
		return line{unknown, math.NaN()}
	}
	slices.Sort(slopes)
	m := len(slopes)
	slope := estimate{(slopes[(m-1)/2] + slopes[m/2]) / 2, math.NaN(), math.NaN()}
	variance := float64(n) * float64(n-1) * float64(2*n+5)
	sorted := slices.Sorted(slices.Values(x))
	for i := 0; i < n; {
		j := i
		for j < n && sorted[j] == sorted[i] {
			j++
		}
		t := float64(j - i)
		variance -= t * (t - 1) * (2*t + 5)
		i = j
	}
	c := normal((1+conf)/2) * math.Sqrt(variance/18)
	lo, hi := int(math.Floor((float64(m)-c)/2)), int(math.Ceil((float64(m)+c)/2))
	if lo >= 1 && hi < m {
		slope.lo, slope.hi = slopes[lo-1], slopes[hi]
	}
	rest := make([]float64, n)
	for i := range x {
		rest[i] = y[i] - slope.value*x[i]
	}
	return line{slope, median(rest).value}
}

// shift is by how much b lies above a: the median of all differences (Hodges and
// Lehmann), with the interval that the rank sum test of Wilcoxon turns into, in the
// normal approximation. It assumes that both are alike but for the shift.
func shift(a, b []float64) estimate {
	if len(a) == 0 || len(b) == 0 {
		return unknown
	}
	a, b = thin(a, 1000), thin(b, 1000)
	d := make([]float64, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			d = append(d, y-x)
		}
	}
	slices.Sort(d)
	m := len(d)
	e := estimate{(d[(m-1)/2] + d[m/2]) / 2, math.NaN(), math.NaN()}
	n, k := float64(len(a)), float64(len(b))
	r := int(math.Floor(n*k/2 - normal((1+confidence)/2)*math.Sqrt(n*k*(n+k+1)/12)))
	if r >= 1 {
		e.lo, e.hi = d[r-1], d[m-r]
	}
	return e
}

// ratio is how many times a b is: the shift of the logarithms. Values that are not
// above 0 are left out.
func ratio(a, b []float64) estimate {
	e := shift(logs(a), logs(b))
	return estimate{math.Exp(e.value), math.Exp(e.lo), math.Exp(e.hi)}
}

func logs(v []float64) []float64 {
	out := make([]float64, 0, len(v))
	for _, x := range v {
		if x > 0 {
			out = append(out, math.Log(x))
		}
	}
	return out
}

// thin takes every k-th value so that about most are left.
func thin(v []float64, most int) []float64 {
	if len(v) <= most {
		return v
	}
	k := (len(v) + most - 1) / most
	var out []float64
	for i := 0; i < len(v); i += k {
		out = append(out, v[i])
	}
	return out
}

// share is k of n with Wilson's interval.
func share(k, n int) estimate {
	if n == 0 {
		return unknown
	}
	z := normal((1 + confidence) / 2)
	p, m := float64(k)/float64(n), float64(n)
	mid := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	e := estimate{p, max(0, mid-half), min(1, mid+half)}
	if k == 0 {
		e.lo = 0 // but for the rounding
	}
	if k == n {
		e.hi = 1
	}
	return e
}

// mean is the mean of values with Student's interval.
func mean(v []float64) estimate {
	n := float64(len(v))
	if n == 0 {
		return unknown
	}
	m, ss := 0.0, 0.0
	for _, x := range v {
		m += x / n
	}
	for _, x := range v {
		ss += (x - m) * (x - m)
	}
	e := estimate{m, math.NaN(), math.NaN()}
	if n > 1 {
		half := studentT((1+confidence)/2, n-1) * math.Sqrt(ss/(n-1)/n)
		e.lo, e.hi = m-half, m+half
	}
	return e
}
