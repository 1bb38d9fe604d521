package pace

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// lowerGamma is the regularised lower incomplete gamma function by its power
// series: the distribution function of a gamma distribution of scale 1.
func lowerGamma(a, x float64) float64 {
	if x <= 0 {
		return 0
	}
	lg, _ := math.Lgamma(a + 1)
	term := math.Exp(a*math.Log(x) - x - lg)
	sum := term
	for n := 1.0; term > 1e-16*sum || n < x; n++ {
		term *= x / (a + n)
		sum += term
		if n > 100_000 {
			break
		}
	}
	return min(1, sum)
}

// renewals is the expected number of arrivals in (0, t] after an arrival at 0,
// for gamma gaps of mean 1: the sum of the distribution functions of the sums of
// gaps.
func renewals(shape, t float64) float64 {
	var sum float64
	for j := 1; j < 10_000; j++ {
		p := lowerGamma(float64(j)*shape, shape*t)
		sum += p
		if p < 1e-10 {
			break
		}
	}
	return sum
}

// dispersion is the variance over the mean of the number of arrivals in a window
// of w mean gaps of a stationary renewal process (Cox: Renewal Theory, 4.5).
func dispersion(shape, w float64) float64 {
	const n = 2000
	var integral float64
	for i := range n {
		u := (float64(i) + 0.5) * w / n
		integral += (renewals(shape, u) - u) * w / n
	}
	return 1 + 2*integral/w
}

// The dispersion of the counts over windows from half a mean gap to fifty is that
// of the theory, for bursty, random and even arrivals; so is the mean, from the
// very start.
func TestDispersionOfCounts(t *testing.T) {
	const rate, length = 100.0, 2000.0 // s
	for _, shape := range []float64{0.25, 0.5, 1, 2, 8} {
		ts := take(New(Gamma(shape, 11), Rate(rate)), int(rate*length*1.2))
		for _, gaps := range []float64{0.5, 2, 10, 50} {
			w := gaps / rate
			n := int(length / w)
			counts := make([]float64, n)
			for _, at := range ts {
				if i := int(float64(at) / 1e9 / w); i < n {
					counts[i]++
				}
			}
			mean, variance := moments(counts)
			got, want := variance/mean, dispersion(shape, gaps)
			// The relative error of a variance of n values of kurtosis up to 3+1/var.
			tolerance := 5 * math.Sqrt((2+1/variance)/float64(n)) * max(1, math.Sqrt(1/shape))
			if math.Abs(got/want-1) > tolerance {
				t.Errorf("gamma %g, windows of %g gaps: dispersion %.4f, want %.4f (±%.1f %%)", shape, gaps, got, want, 100*tolerance)
			}
		}
	}
}

// The oracle is right where it is known: 1 for Poisson, and the closed form of
// gaps that are sums of two exponential ones.
func TestDispersionOracle(t *testing.T) {
	for _, w := range []float64{0.5, 2, 10} {
		if d := dispersion(1, w); math.Abs(d-1) > 1e-6 {
			t.Errorf("dispersion of Poisson over %g is %g", w, d)
		}
		want := 0.5 + (1-math.Exp(-4*w))/(8*w)
		if d := dispersion(2, w); math.Abs(d-want) > 1e-4 {
			t.Errorf("dispersion of gamma 2 over %g is %g, want %g", w, d, want)
		}
	}
}

func moments(xs []float64) (mean, variance float64) {
	for _, x := range xs {
		mean += x
	}
	mean /= float64(len(xs))
	for _, x := range xs {
		variance += (x - mean) * (x - mean)
	}
	return mean, variance / float64(len(xs)-1)
}

// kolmogorov is the p-value of n values that should be uniform on 0 to 1 (the
// asymptotic series with Stephens' correction).
func kolmogorov(us []float64) float64 {
	slices.Sort(us)
	n := float64(len(us))
	var d float64
	for i, u := range us {
		d = max(d, u-float64(i)/n, float64(i+1)/n-u)
	}
	x := d * (math.Sqrt(n) + 0.12 + 0.11/math.Sqrt(n))
	var p float64
	for k := 1.0; k < 100; k++ {
		p += 2 * math.Pow(-1, k-1) * math.Exp(-2*k*k*x*x)
	}
	return min(1, max(0, p))
}

// fits says whether the p-values of many seeds are those of a fit that is right:
// uniform. One seed would be wrong now and then, or by luck never.
func fits(t *testing.T, what string, pvalues []float64) {
	t.Helper()
	low := 0
	for _, p := range pvalues {
		if p < 0.01 {
			low++
		}
	}
	// The number of them below 1 % is binomial.
	n := float64(len(pvalues))
	if limit := 0.01*n + 4*math.Sqrt(0.0099*n); float64(low) > limit {
		t.Errorf("%s: %d of %d seeds do not fit", what, low, len(pvalues))
	}
	if p := kolmogorov(pvalues); p < 1e-4 {
		t.Errorf("%s: the p-values of %d seeds are not uniform (p = %g)", what, len(pvalues), p)
	}
}

const seeds = 300

func TestGammaGapsFit(t *testing.T) {
	for _, shape := range []float64{0.1, 0.5, 1, 3, 20} {
		var ps []float64
		for seed := range uint64(seeds) {
			g := Gamma(shape, seed)
			us := make([]float64, 200)
			for i := range us {
				us[i] = lowerGamma(shape, g.Next()*shape)
			}
			ps = append(ps, kolmogorov(us))
		}
		fits(t, "gamma", ps)
		// The first gap, over the seeds: its density is the share of gaps that are
		// longer, so its distribution function is the integral of that.
		us := make([]float64, 4000)
		for i := range us {
			x := Gamma(shape, uint64(i)+1e6).First()
			us[i] = x*(1-lowerGamma(shape, x*shape)) + lowerGamma(shape+1, x*shape)
		}
		if p := kolmogorov(us); p < 1e-3 {
			t.Errorf("gamma %g: the first gap does not fit (p = %g)", shape, p)
		}
	}
}

// shapes are all kinds, each with its rate over time written down again.
var shapes = []struct {
	name string
	s    Shape
	rate func(t float64) float64 // multiples, t in seconds from the shape's start
}{
	{"ramp", Shape{Pieces: []Piece{{Length: 60 * time.Second, From: 0.5, To: 3}}, Rest: 3}, func(t float64) float64 {
		return min(3, 0.5+2.5*t/60)
	}},
	{"ramp from nothing and back", Shape{Pieces: []Piece{{Length: 40 * time.Second, To: 2}, {Length: 40 * time.Second, From: 2}}, Rest: 1}, func(t float64) float64 {
		switch {
		case t < 40:
			return t / 20
		case t < 80:
			return 2 - (t-40)/20
		}
		return 1
	}},
	{"square", Shape{Pieces: []Piece{{Length: 25 * time.Second, From: 1, To: 1}, {Length: 5 * time.Second, From: 8, To: 8}}, Repeat: true}, func(t float64) float64 {
		if math.Mod(t, 30) < 25 {
			return 1
		}
		return 8
	}},
	{"market open", Shape{Pieces: []Piece{{Length: 20 * time.Second, From: 1, To: 1}, {Form: Fade, Length: 80 * time.Second, From: 10, To: 1, Fade: 15 * time.Second}}, Rest: 1}, func(t float64) float64 {
		if t < 20 || t >= 100 {
			return 1
		}
		return 1 + 9*math.Exp(-(t-20)/15)
	}},
	{"diurnal", Shape{Pieces: []Piece{{Form: Wave, Length: 70 * time.Second, From: 0, To: 2}}, Repeat: true}, func(t float64) float64 {
		return 1 - math.Cos(2*math.Pi*t/70)
	}},
	{"on-off", Shape{Pieces: []Piece{{Length: 7 * time.Second, From: 2, To: 2}, {Length: 11 * time.Second}}, Repeat: true}, func(t float64) float64 {
		if math.Mod(t, 18) < 7 {
			return 2
		}
		return 0
	}},
}

// integral adds up a rate from the start of its shape in small steps.
func integral(rate func(float64) float64, until float64) []float64 {
	out := []float64{0}
	var sum float64
	for i := range int(until * 1000) {
		sum += rate((float64(i)+0.5)/1000) / 1000
		out = append(out, sum)
	}
	return out
}

// A Poisson process along a shape, seen on the scale of its own expected counts,
// is one of rate 1: its gaps there are exponential, for every seed, and counts
// over windows are as dispersed as Poisson's, short and long.
func TestShapesFit(t *testing.T) {
	const rate, lead, until = 20.0, 10.0, 150.0
	for _, c := range shapes {
		if err := c.s.Check(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		all := integral(c.rate, until)
		expected := func(at float64) float64 { // by interpolation
			if at < lead {
				return rate * at * c.rate(0)
			}
			x := (at - lead) * 1000
			i := min(int(x), len(all)-2)
			return rate * (lead*c.rate(0) + all[i] + (all[i+1]-all[i])*(x-float64(i)))
		}
		var ps []float64
		windows := []float64{1, 5, 30}
		chi := make([]float64, len(windows))
		cells := make([]int, len(windows))
		for seed := range uint64(seeds) {
			s := New(Poisson(seed), Along(rate, time.Duration(lead*1e9), &c.s))
			var us []float64
			last := 0.0
			counts := map[[2]int]float64{}
			for {
				at, ok := s.Next()
				sec := float64(at) / 1e9
				if !ok || sec >= until {
					break
				}
				n := expected(sec)
				us = append(us, 1-math.Exp(last-n))
				last = n
				for i, w := range windows {
					counts[[2]int{i, int(sec / w)}]++
				}
			}
			ps = append(ps, kolmogorov(us[:min(len(us), 400)]))
			for i, w := range windows {
				for k := range int(until / w) {
					e := expected(float64(k+1)*w) - expected(float64(k)*w)
					n := counts[[2]int{i, k}]
					if e < 1e-9 {
						if n > 0 && e < 1e-12 {
							t.Fatalf("%s: %g arrivals where the rate is 0", c.name, n)
						}
						continue
					}
					chi[i] += (n - e) * (n - e) / e
					cells[i]++
				}
			}
		}
		fits(t, c.name, ps)
		for i, w := range windows {
			// The mean of the squares is 1; their variance is 2 + 1/e, at most some 5.
			n := float64(cells[i])
			if d := chi[i] / n; math.Abs(d-1) > 5*math.Sqrt(5/n) {
				t.Errorf("%s: counts over %g s are dispersed %.3f times as Poisson's", c.name, w, d)
			}
		}
	}
}

// Even arrivals along a shape are exactly where the integral of the rate says.
func TestEvenArrivalsAlongAShape(t *testing.T) {
	s := Shape{Pieces: []Piece{{Length: 2 * time.Second, From: 1, To: 1}, {Length: time.Second}, {Length: time.Second, From: 2, To: 2}}, Repeat: true}
	got := take(New(Even{}, Along(2, time.Second, &s)), 14)
	const h = int64(500 * time.Millisecond)
	// The lead and two seconds at 2 a second, a second without, one at 4, and again.
	want := []int64{0, h, 2 * h, 3 * h, 4 * h, 5 * h, 8 * h, 8*h + h/2, 9 * h, 9*h + h/2, 10 * h, 11 * h, 12 * h, 13 * h}
	if !slices.Equal(got, want) {
		t.Errorf("arrivals are at %v, want %v", got, want)
	}
}

// Stages end, and arrivals with them.
func TestAShapeWithoutRestEnds(t *testing.T) {
	s := Shape{Pieces: []Piece{{Length: time.Second, From: 10, To: 10}, {Length: time.Second, From: 10}}}
	if got := take(New(Even{}, Along(1, 0, &s)), 100); len(got) != 15 || got[14] >= int64(2*time.Second) {
		t.Errorf("%d arrivals, the last at %d, want 15 within 2 s", len(got), got[len(got)-1])
	}
}

// Time and Expected are inverses, and Time never falls, whatever the pieces.
func TestTimeInvertsExpected(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Shape
		for range rapid.IntRange(1, 4).Draw(t, "pieces") {
			s.Pieces = append(s.Pieces, Piece{
				Form: Form(rapid.IntRange(0, 2).Draw(t, "form")), Length: time.Duration(rapid.Int64Range(1e6, 1e12).Draw(t, "length")),
				From: rapid.SampledFrom([]float64{0, 0.001, 1, 7.5}).Draw(t, "from"), To: rapid.Float64Range(0, 20).Draw(t, "to"),
				Fade: time.Duration(rapid.Int64Range(1e6, 1e11).Draw(t, "fade")),
			})
		}
		s.Repeat = rapid.Bool().Draw(t, "repeat")
		s.Rest = rapid.SampledFrom([]float64{0, 1}).Draw(t, "rest")
		if s.Check() != nil || s.total() < 1e-6 {
			t.Skip("a rate of nothing")
		}
		rate := rapid.Float64Range(0.1, 1000).Draw(t, "rate")
		lead := time.Duration(rapid.Int64Range(0, 1e10).Draw(t, "lead"))
		c := Along(rate, lead, &s)
		r := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "draws")))
		all := Expected(rate, lead, &s, lead+2*s.Length())
		var last int64
		n := 0.0
		for range 50 {
			n += all * r.Float64() / 25
			at, ok := c.Time(n)
			if !ok {
				if s.Repeat || s.Rest > 0 {
					t.Fatalf("%g arrivals are never expected", n)
				}
				return
			}
			if at < last-1 {
				t.Fatalf("%g arrivals are expected at %d, fewer at %d", n, at, last)
			}
			last = at
			if back := Expected(rate, lead, &s, time.Duration(at)); math.Abs(back-n) > 1e-6*max(1, n)+rate*30e-9 {
				t.Fatalf("%g arrivals are expected at %d, by when %g are", n, at, back)
			}
		}
	})
}

func TestCheckSaysWhatIsWrong(t *testing.T) {
	f := func(s Shape, want string) {
		t.Helper()
		if err := s.Check(); err == nil || err.Error() != want {
			t.Errorf("Check of %+v says %v, want %s", s, err, want)
		}
	}
	f(Shape{}, "shape: it has no pieces")
	f(Shape{Pieces: []Piece{{From: 1, To: 1}}}, "shape: piece 0: want a length above 0, got 0s")
	f(Shape{Pieces: []Piece{{Length: 1, From: math.NaN(), To: 1}}}, "shape: piece 0: want a rate of 0 to 1e+06 times the base, got NaN to 1")
	f(Shape{Pieces: []Piece{{Length: 1, Form: Fade, From: 1, To: 1}}}, "shape: piece 0: want a fade above 0, got 0s")
	f(Shape{Pieces: []Piece{{Length: time.Second}}, Repeat: true}, "shape: its rate is 0 all the time")
	f(Shape{Pieces: []Piece{{Length: time.Second, From: 1, To: 1}}, Rest: -1}, "shape: want a rate of 0 to 1e+06 times the base after its pieces, got -1")
}

func TestByNameChecksTheBurstiness(t *testing.T) {
	f := func(name string, burstiness float64, want string) {
		t.Helper()
		if _, err := ByName(name, burstiness, 1); err == nil || err.Error() != want {
			t.Errorf("ByName(%q, %g) says %v, want %s", name, burstiness, err, want)
		}
	}
	f("poisson", 2, `burstiness: only gamma arrivals have one, not "poisson"`)
	f("gamma", -1, "burstiness: want a number from 0.01 to 1000, got -1")
	f("gamma", math.NaN(), "burstiness: want a number from 0.01 to 1000, got NaN")
}
