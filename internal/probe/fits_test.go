package probe

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"
)

func near(a, b, tolerance float64) bool {
	return a == b || math.Abs(a-b) <= tolerance*max(1, math.Abs(a), math.Abs(b))
}

// The distributions are those of another library.
func TestQuantilesAreThoseOfAnotherLibrary(t *testing.T) {
	for _, p := range []float64{0.5, 0.6, 0.9, 0.95, 0.975, 0.995, 0.9995} {
		if got, want := normal(p), distuv.UnitNormal.Quantile(p); !near(got, want, 1e-9) {
			t.Errorf("normal %v: %v, want %v", p, got, want)
		}
		for _, dof := range []float64{1, 2, 3, 5, 7, 12, 30, 200} {
			d := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: dof}
			if got := studentT(p, dof); !near(d.CDF(got), p, 1e-9) {
				t.Errorf("student %v of %v: %v, whose probability is %v", p, dof, got, d.CDF(got))
			}
		}
	}
}

// The ranks of a median's interval are those that a sum of binomials gives.
func TestRanksOfTheMedian(t *testing.T) {
	for n := 1; n <= 400; n++ {
		b := distuv.Binomial{N: float64(n), P: 0.5}
		want := -1
		for r := range n {
			if b.CDF(float64(r)) > 0.025 {
				break
			}
			want = r
		}
		if got := medianRank(n); got != want {
			t.Errorf("of %d: rank %d, want %d", n, got, want)
		}
	}
	// The normal approximation of many is close to them.
	for _, n := range []int{1001, 5000} {
		b := distuv.Binomial{N: float64(n), P: 0.5}
		if p := b.CDF(float64(medianRank(n))); p < 0.021 || p > 0.026 {
			t.Errorf("of %d the rank %d has the probability %v below it", n, medianRank(n), p)
		}
	}
}

// naiveTheilSen finds the slope as the value that has as many concordant as
// discordant pairs left, and the bounds as those where Kendall's S leaves its
// interval, by going through the candidates: no list of ranks.
func naiveTheilSen(x, y []float64) (slope, lo, hi float64) {
	s := func(b float64) (sum int) {
		for i := range x {
			for j := range i {
				sum += sign((x[i] - x[j]) * ((y[i] - b*x[i]) - (y[j] - b*x[j])))
			}
		}
		return sum
	}
	var candidates []float64
	for i := range x {
		for j := range i {
			if x[i] != x[j] {
				candidates = append(candidates, (y[i]-y[j])/(x[i]-x[j]))
			}
		}
	}
	slices.Sort(candidates)
	n := float64(len(x))
	variance := n * (n - 1) * (2*n + 5) / 18
	counts := map[float64]float64{}
	for _, v := range x {
		counts[v]++
	}
	for _, c := range counts {
		variance -= c * (c - 1) * (2*c + 5) / 18
	}
	limit := 1.959963984540054 * math.Sqrt(variance)
	lo, hi = math.Inf(-1), math.Inf(1)
	var above, below []float64
	for i, c := range candidates {
		// In between two candidates S is constant; just beside one it is this.
		left, right := c-1e-9, c+1e-9
		if float64(s(left)) > limit && float64(s(right)) <= limit+2 && i >= 0 {
			lo = c
		}
		if float64(s(right)) < -limit && hi == math.Inf(1) {
			hi = c
		}
		if s(right) <= 0 {
			above = append(above, c)
		}
		if s(left) >= 0 {
			below = append(below, c)
		}
	}
	return (above[0] + below[len(below)-1]) / 2, lo, hi
}

func sign(x float64) int {
	switch {
	case x > 1e-12:
		return 1
	case x < -1e-12:
		return -1
	}
	return 0
}

// Theil and Sen's line is that of its definition by Kendall's S.
func TestTheilSenIsWhereKendallsSVanishes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(8, 22).Draw(t, "n")
		x, y := make([]float64, n), make([]float64, n)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		for i := range x {
			x[i] = float64(r.IntN(n)) // with ties
			y[i] = 3*x[i] + 10*r.NormFloat64()
		}
		if len(slices.Compact(slices.Sorted(slices.Values(x)))) < 4 {
			t.Skip("nearly all at one place")
		}
		got := theilSen(x, y, confidence).slope
		slope, lo, hi := naiveTheilSen(x, y)
		if !near(got.value, slope, 1e-6) {
			t.Fatalf("slope %v, want %v", got.value, slope)
		}
		if got.bounded() {
			// Sen's ranks are rounded outwards: at most one candidate from the bounds.
			if got.lo > lo+1e-9 && !math.IsInf(lo, 0) || got.hi < hi-1e-9 && !math.IsInf(hi, 0) {
				t.Fatalf("interval %v to %v is inside of %v to %v", got.lo, got.hi, lo, hi)
			}
		}
	})
}

// The coefficients and their covariance are those of the normal equations of another
// library.
func TestLeastSquaresIsThatOfAnotherLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(5, 40).Draw(t, "n")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
		const k = 3
		cols := make([][]float64, k)
		y, w := make([]float64, n), make([]float64, n)
		a, b := mat.NewDense(n, k, nil), mat.NewVecDense(n, nil)
		for j := range k {
			cols[j] = make([]float64, n)
		}
		for i := range n {
			w[i], y[i] = 0.5+r.Float64(), 5*r.NormFloat64()
			for j := range k {
				cols[j][i] = r.NormFloat64()
				a.Set(i, j, w[i]*cols[j][i])
			}
			b.SetVec(i, w[i]*y[i])
		}
		got, ok := leastSquares(cols, y, w)
		if !ok {
			t.Fatal("not fitted")
		}
		var want mat.VecDense
		if err := want.SolveVec(a, b); err != nil {
			t.Fatal(err)
		}
		var normal, inverse mat.Dense
		normal.Mul(a.T(), a)
		if err := inverse.Inverse(&normal); err != nil {
			t.Fatal(err)
		}
		var rest mat.VecDense
		rest.MulVec(a, &want)
		rest.SubVec(b, &rest)
		rss := mat.Dot(&rest, &rest)
		for i := range k {
			if !near(got.beta[i], want.AtVec(i), 1e-9) {
				t.Fatalf("coefficient %d is %v, want %v", i, got.beta[i], want.AtVec(i))
			}
			for j := range k {
				if v := inverse.At(i, j) * rss / float64(n-k); !near(got.covariance[i][j], v, 1e-8) {
					t.Fatalf("covariance %d %d is %v, want %v", i, j, got.covariance[i][j], v)
				}
			}
		}
	})
}

// A parabola of the lengths of prompts keeps its digits, and what cannot be told
// apart is refused.
func TestParabolaOfLongPrompts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := rapid.Float64Range(1, 100).Draw(t, "a"), rapid.Float64Range(0.005, 1).Draw(t, "b"), rapid.Float64Range(1e-8, 1e-5).Draw(t, "c")
		var x, y []float64
		for n := 512.0; n <= 65536; n *= 2 {
			x, y = append(x, n), append(y, a+b*n+c*n*n)
		}
		fit, ok := parabola(x, y)
		if !ok || !near(fit.beta[0], a, 1e-6) || !near(fit.beta[1]/b, 1, 1e-8) || !near(fit.beta[2]/c, 1, 1e-6) {
			t.Fatalf("%v, want %v %v %v", fit.beta, a, b, c)
		}
		if bend := fit.quotient(1, 2); !near(bend.value/(b/c), 1, 1e-6) {
			t.Fatalf("bend %v, want %v", bend, b/c)
		}
	})
	if _, ok := parabola([]float64{5, 5, 5, 5, 7}, []float64{1, 2, 3, 4, 5}); ok {
		t.Error("two lengths were taken for a parabola")
	}
}

// The median of all differences, and the bounds that a test by ranks gives, found by
// trying shifts.
func TestShiftIsWhereTheRankSumsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
		a, b := make([]float64, rapid.IntRange(6, 20).Draw(t, "n")), make([]float64, rapid.IntRange(6, 20).Draw(t, "m"))
		for i := range a {
			a[i] = r.NormFloat64()
		}
		for i := range b {
			b[i] = 2 + r.NormFloat64()
		}
		// Mann and Whitney's U of b less a shift over a.
		u := func(d float64) (n float64) {
			for _, x := range a {
				for _, y := range b {
					if y-d > x {
						n++
					}
				}
			}
			return n
		}
		e := shift(a, b)
		half := float64(len(a)*len(b)) / 2
		if below, above := u(e.value-1e-9), u(e.value+1e-9); below < half || above > half {
			t.Fatalf("at the shift %v U goes from %v to %v, half is %v", e.value, below, above, half)
		}
		sd := math.Sqrt(float64(len(a)*len(b)*(len(a)+len(b)+1)) / 12)
		if z := (u(e.lo+1e-9) - half) / sd; z < 1.7 || z > 2.2 {
			t.Fatalf("at the lower bound z is %v", z)
		}
		if z := (half - u(e.hi-1e-9)) / sd; z < 1.7 || z > 2.2 {
			t.Fatalf("at the upper bound z is %v", z)
		}
	})
}

func TestMeanAndShare(t *testing.T) {
	v := []float64{3, 5, 4, 9, 2, 7}
	m, sd := stat.MeanStdDev(v, nil)
	e := mean(v)
	half := distuv.StudentsT{Sigma: 1, Nu: 5}.Quantile(0.975) * sd / math.Sqrt(6)
	if !near(e.value, m, 1e-12) || !near(e.lo, m-half, 1e-9) || !near(e.hi, m+half, 1e-9) {
		t.Errorf("mean %v, want %v ± %v", e, m, half)
	}
	// Wilson's bounds are the shares from which the share seen is z away.
	for _, c := range []struct{ k, n int }{{0, 10}, {3, 10}, {10, 10}, {997, 1000}} {
		e := share(c.k, c.n)
		p := float64(c.k) / float64(c.n)
		for _, bound := range []float64{e.lo, e.hi} {
			if bound == 0 || bound == 1 {
				continue
			}
			if z := math.Abs(p-bound) / math.Sqrt(bound*(1-bound)/float64(c.n)); !near(z, 1.959964, 1e-5) {
				t.Errorf("%d of %d: %v is %v away", c.k, c.n, bound, z)
			}
		}
	}
}

// trials is the number of simulated measurements of which intervals are checked: the
// share that covers the truth has a standard deviation of 0.6 %.
const trials = 1200

// Each kind of interval covers what is true in 92 to 98 of 100 measurements.
func TestIntervalsCoverAtTheirRate(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	sample := func(n int, of func() float64) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = of()
		}
		return v
	}
	// Most as it should be, and one in twenty far off on one side.
	skewed := func() float64 {
		x := 0.05 * r.NormFloat64()
		if r.IntN(20) == 0 {
			x += 5 * r.ExpFloat64()
		}
		return math.Exp(x)
	}
	lengths := []float64{512, 1024, 2048, 4096, 8192, 16384, 32768, 65536}
	curve := func(n float64) float64 { return 10 + 0.023*n + 4e-7*n*n }
	rungs := []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}
	steps := func(n float64) float64 { return 6.5 + 0.035*n }
	prefill := func() regression {
		y := make([]float64, len(lengths))
		for i, n := range lengths {
			y[i] = median(sample(8, func() float64 { return curve(n) * skewed() })).value
		}
		fit, ok := parabola(lengths, y)
		if !ok {
			t.Fatal("not fitted")
		}
		return fit
	}
	knee := func() (estimate, estimate) {
		var b []batch
		for _, n := range rungs {
			b = append(b, batch{users: n, tpot: sample(max(n, 6), func() float64 { return steps(float64(n)) * math.Exp(0.02*r.NormFloat64()) })})
		}
		return kneeOf(b)
	}
	mid := func() float64 { // the median of skewed, from very many
		v := make([]float64, 0, 400_001)
		q := rand.New(rand.NewPCG(5, 6))
		for range 400_001 {
			x := 0.05 * q.NormFloat64()
			if q.IntN(20) == 0 {
				x += 5 * q.ExpFloat64()
			}
			v = append(v, math.Exp(x))
		}
		slices.Sort(v)
		return v[200_000]
	}()
	for i, c := range []struct {
		name  string
		truth float64
		of    func() estimate
	}{
		{"median of 40", mid, func() estimate { return median(sample(40, skewed)) }},
		{"median of 12", mid, func() estimate { return median(sample(12, skewed)) }},
		{"mean", 7, func() estimate { return mean(sample(9, func() float64 { return 7 + r.NormFloat64() })) }},
		{"share", 0.3, func() estimate {
			return share(int(sum(sample(120, func() float64 { return b2f(r.Float64() < 0.3) }))), 120)
		}},
		{"shift", 2, func() estimate { return shift(sample(20, skewed), sample(25, func() float64 { return 2 + skewed() })) }},
		{"ratio", 3, func() estimate { return ratio(sample(16, skewed), sample(16, func() float64 { return 3 * skewed() })) }},
		{"slope in outliers", 0.5, func() estimate { return lineThrough(30, 0.5, skewed).slope }},
		{"slope, few", 0.5, func() estimate { return lineThrough(10, 0.5, skewed).slope }},
		{"per token", 0.023, func() estimate { f := prefill(); return f.combine(0, 1, 0) }},
		{"bend", 0.023 / 4e-7, func() estimate { f := prefill(); return f.quotient(1, 2) }},
		{"knee", 6.5 / 0.035, func() estimate { k, _ := knee(); return k }},
		{"slope of the users", 0.035, func() estimate { _, s := knee(); return s }},
	} {
		// Draws of its own: what one case finds does not depend on which came before.
		r = rand.New(rand.NewPCG(11, uint64(i)))
		n, bounded := 0, 0
		times := trials
		if c.name == "knee" || c.name == "slope of the users" {
			times = trials / 5 // each is a thousand resamples
		}
		for range times {
			e := c.of()
			if !e.bounded() {
				continue
			}
			bounded++
			if e.lo <= c.truth && c.truth <= e.hi {
				n++
			}
		}
		if rate := float64(n) / float64(bounded); bounded < times*9/10 || rate < 0.92 || rate > 0.98 {
			t.Errorf("%s: %.3f of %d intervals (of %d measurements) cover %v", c.name, rate, bounded, times, c.truth)
		}
	}
}

func sum(v []float64) (s float64) {
	for _, x := range v {
		s += x
	}
	return s
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func lineThrough(n int, slope float64, noise func() float64) line {
	x, y := make([]float64, n), make([]float64, n)
	for i := range x {
		x[i] = float64(i)
		y[i] = 4 + slope*x[i] + noise()
	}
	return theilSen(x, y, confidence)
}

// A third of all points less one may be anywhere.
func TestTheilSenWithstandsOutliers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 4))
		slope := rapid.Float64Range(-5, 5).Draw(t, "slope")
		var x, y []float64
		for i := range 60 {
			x, y = append(x, float64(i)), append(y, 3+slope*float64(i)+0.1*r.NormFloat64())
		}
		for range 12 {
			y[r.IntN(60)] = 1e6 * r.ExpFloat64()
		}
		l := theilSen(x, y, confidence)
		if math.Abs(l.slope.value-slope) > 0.1 || math.Abs(l.intercept-3) > 3 {
			t.Fatalf("slope %v intercept %v, want %v and 3", l.slope.value, l.intercept, slope)
		}
	})
}

// A bootstrap is the same for equal records and in whatever order they come.
func TestBootstrapDependsOnTheValuesAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	g := [][]float64{nil, nil}
	for i := range g {
		for range 20 {
			g[i] = append(g[i], r.ExpFloat64())
		}
	}
	of := func(m []float64) float64 { return m[1] / m[0] }
	a := bootstrap(g, of)
	slices.Reverse(g[0])
	if b := bootstrap(g, of); a != b {
		t.Errorf("%v and %v", a, b)
	}
	if !a.bounded() || a.lo >= a.value || a.hi <= a.value {
		t.Errorf("%v", a)
	}
	if e := bootstrap([][]float64{{1, 2, 3}, {}}, of); e.known() {
		t.Errorf("of nothing: %v", e)
	}
}

// The resampled median is that of a sample drawn with replacement.
func TestResampledMedian(t *testing.T) {
	for _, n := range []int{5, 8, 300} {
		v := make([]float64, n)
		for i := range v {
			v[i] = float64(i)
		}
		r := rand.New(rand.NewPCG(3, uint64(n)))
		var fast, slow []float64
		for range 4000 {
			fast = append(fast, resampledMedian(v, r))
			s := make([]float64, n)
			for i := range s {
				s[i] = v[r.IntN(n)]
			}
			slices.Sort(s)
			slow = append(slow, middle(s))
		}
		mf, sf := stat.MeanStdDev(fast, nil)
		ms, ss := stat.MeanStdDev(slow, nil)
		if math.Abs(mf-ms) > 0.1*ss || math.Abs(sf/ss-1) > 0.06 {
			t.Errorf("of %d: mean %v and %v, deviation %v and %v", n, mf, ms, sf, ss)
		}
	}
}
