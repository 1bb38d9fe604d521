package random

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The values are pinned: a run must be repeatable with a later version of the
// program, so a change here is a change of every scenario.
func TestStreamsArePinned(t *testing.T) {
	r := Stream(Derive(42, 7))
	var got []uint64
	for range 4 {
		got = append(got, r.Uint64())
	}
	want := []uint64{0xb91cf20a55ff80d8, 0xa92cbfd07eb0cfc8, 0x41fbfe90cb89528e, 0xe84a72b4e6ea769d}
	if !slices.Equal(got, want) {
		t.Errorf("the stream of 42, 7 draws %#x, want %#x", got, want)
	}
	if got, want := Derive(42, 1, 2), uint64(0x663392a185fe5d77); got != want {
		t.Errorf("Derive(42, 1, 2) = %#x, want %#x", got, want)
	}
	f := func(d Dist, want ...int) {
		t.Helper()
		r := Stream(Derive(1, 0))
		var got []int
		for range want {
			got = append(got, d.Int(r, 1))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v draws %v, want %v", d, got, want)
		}
	}
	f(Dist{Kind: Fixed, A: 512}, 512, 512)
	f(Dist{Kind: Uniform, A: 100, B: 900}, 866, 138, 439, 387)
	f(Dist{Kind: Normal, A: 512, B: 64}, 540, 558, 328, 537)
	f(Dist{Kind: Lognormal, A: 400, B: 4000}, 620, 815, 23, 590)
	f(Dist{Kind: Lognormal, A: 400, B: 4000, Min: 300, Max: 500}, 500, 500, 300, 500)
	f(Dist{Kind: Gamma, A: 400, B: 0.5}, 458, 46, 522, 410)
	f(Dist{Kind: Gamma, A: 400, B: 2}, 33, 366, 1, 6)
	f(Dist{Kind: Zipf, A: 1, B: 1.1, Max: 1000}, 4, 95, 1, 25)
	f(Dist{Kind: Empirical, Values: []float64{7, 8, 9}}, 9, 7, 8, 8)
	f(Dist{Kind: Mixture, Parts: []Part{{3, Dist{A: 5}}, {1, Dist{Kind: Uniform, A: 10, B: 90}}}}, 5, 5, 39, 5)
}

func TestDeriveKeepsStreamsApart(t *testing.T) {
	seen := map[uint64][]uint64{}
	add := func(labels ...uint64) {
		t.Helper()
		h := Derive(9, labels...)
		if old, ok := seen[h]; ok {
			t.Errorf("labels %v and %v give one stream", old, labels)
		}
		seen[h] = labels
	}
	add()
	for a := range uint64(60) {
		add(a)
		for b := range uint64(60) {
			add(a, b)
		}
	}
	if Derive(1, 2) == Derive(2, 1) {
		t.Error("seed and label are exchangeable")
	}
}

// Nearby seeds and users must not give correlated streams.
func TestNeighboursAreUncorrelated(t *testing.T) {
	const n = 4000
	var xs, ys []float64
	for u := range uint64(n) {
		xs = append(xs, Stream(Derive(3, u)).Float64())
		ys = append(ys, Stream(Derive(3, u+1)).Float64())
	}
	var sx, sy, sxx, syy, sxy float64
	for i := range xs {
		sx += xs[i]
		sy += ys[i]
		sxx += xs[i] * xs[i]
		syy += ys[i] * ys[i]
		sxy += xs[i] * ys[i]
	}
	r := (n*sxy - sx*sy) / math.Sqrt((n*sxx-sx*sx)*(n*syy-sy*sy))
	// Four standard errors of a correlation of nothing.
	if math.Abs(r) > 4/math.Sqrt(n) {
		t.Errorf("correlation of the first draws of neighbours is %.3f", r)
	}
	if mean := sx / n; math.Abs(mean-0.5) > 4*math.Sqrt(1.0/12/n) {
		t.Errorf("mean of the first draws is %.4f", mean)
	}
}

func TestDistributionsHaveTheirParameters(t *testing.T) {
	const n = 100_000
	sample := func(d Dist) []float64 {
		r := Stream(Derive(11, 0))
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = d.Float(r)
		}
		slices.Sort(xs)
		return xs
	}
	near := func(name string, got, want, rel float64) {
		t.Helper()
		if math.Abs(got-want) > rel*math.Abs(want) {
			t.Errorf("%s is %.2f, want %.2f within %.1f %%", name, got, want, rel*100)
		}
	}
	xs := sample(Dist{Kind: Lognormal, A: 400, B: 4000})
	near("lognormal median", xs[n/2], 400, 0.03)
	near("lognormal p99", xs[n*99/100], 4000, 0.08)
	xs = sample(Dist{Kind: Normal, A: 512, B: 64})
	near("normal median", xs[n/2], 512, 0.01)
	near("normal p84", xs[n*8413/10000], 576, 0.01)
	xs = sample(Dist{Kind: Uniform, A: 100, B: 900})
	near("uniform p10", xs[n/10], 180, 0.03)
	near("uniform p90", xs[n*9/10], 820, 0.01)
	d := Dist{Kind: Lognormal, A: 400, B: 4000}
	var sum float64
	for _, x := range sample(d) {
		sum += x
	}
	near("lognormal mean", d.Mean(), sum/n, 0.03)
}

func TestBoundsHoldAlways(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Dist{
			Kind: Kind(rapid.IntRange(0, 3).Draw(t, "kind")),
			A:    rapid.Float64Range(0, 1e6).Draw(t, "a"),
			B:    rapid.Float64Range(0, 1e6).Draw(t, "b"),
		}
		d.Min = rapid.Float64Range(1, 1000).Draw(t, "min")
		d.Max = d.Min + rapid.Float64Range(0, 1000).Draw(t, "span")
		r := Stream(Derive(rapid.Uint64().Draw(t, "seed"), 0))
		for range 50 {
			if x := d.Float(r); x < d.Min || x > d.Max {
				t.Fatalf("%+v draws %v", d, x)
			}
			if n := d.Int(r, 1); float64(n) < d.Min-0.5 || float64(n) > d.Max+0.5 {
				t.Fatalf("%+v draws %d", d, n)
			}
		}
		if m := d.Mean(); m < d.Min || m > d.Max {
			t.Fatalf("%+v has mean %v", d, m)
		}
	})
}

func TestUniformWholeNumbersAreEquallyLikely(t *testing.T) {
	d := Dist{Kind: Uniform, A: 1, B: 4}
	r := Stream(Derive(5, 0))
	var n [6]int
	const draws = 40_000
	for range draws {
		n[d.Int(r, 0)]++
	}
	for v := 1; v <= 4; v++ {
		if math.Abs(float64(n[v])-draws/4) > 4*math.Sqrt(draws*0.25*0.75) {
			t.Errorf("%d was drawn %d times of %d", v, n[v], draws)
		}
	}
	if n[0]+n[5] != 0 {
		t.Errorf("values outside were drawn: %v", n)
	}
}

func TestFurtherDistributionsHaveTheirParameters(t *testing.T) {
	const n = 200_000
	moments := func(d Dist) (mean, cv float64) {
		r := Stream(Derive(13, 0))
		var sum, squares float64
		for range n {
			x := d.Float(r)
			sum += x
			squares += x * x
		}
		mean = sum / n
		return mean, math.Sqrt(squares/n-mean*mean) / mean
	}
	for _, cv := range []float64{0.2, 0.5, 1, 2} {
		d := Dist{Kind: Gamma, A: 400, B: cv}
		mean, got := moments(d)
		if math.Abs(mean-400) > 400*4*cv/math.Sqrt(n) {
			t.Errorf("gamma of cv %g has mean %.2f", cv, mean)
		}
		if math.Abs(got-cv) > 0.03*cv {
			t.Errorf("gamma of cv %g has cv %.3f", cv, got)
		}
		if d.Mean() != 400 {
			t.Errorf("gamma says its mean is %g", d.Mean())
		}
	}
	// Every number of a Zipf distribution as often as its law says, by chi-square:
	// below the 99.9th percentile of 19 degrees of freedom.
	for _, s := range []float64{0.5, 1, 1.1, 2.5} {
		d := Dist{Kind: Zipf, A: 3, B: s, Max: 22}
		r := Stream(Derive(17, 0))
		var got [20]float64
		sum := 0.0
		for range n {
			x := d.Int(r, 0)
			got[x-3]++
			sum += float64(x)
		}
		var total, chi float64
		for k := range got {
			total += math.Pow(float64(k+1), -s)
		}
		for k := range got {
			want := n * math.Pow(float64(k+1), -s) / total
			chi += (got[k] - want) * (got[k] - want) / want
		}
		if chi > 43.82 {
			t.Errorf("zipf of s %g: chi-square is %.1f", s, chi)
		}
		if math.Abs(sum/n-d.Mean()) > 0.01*d.Mean() {
			t.Errorf("zipf of s %g has mean %.3f, says %.3f", s, sum/n, d.Mean())
		}
	}
	mixed := Dist{Kind: Mixture, Parts: []Part{{3, Dist{A: 100}}, {1, Dist{Kind: Uniform, A: 200, B: 400}}}}
	if mean, _ := moments(mixed); math.Abs(mean-mixed.Mean()) > 1 || mixed.Mean() != 150 {
		t.Errorf("mixture has mean %.2f and says %g", mean, mixed.Mean())
	}
	r := Stream(Derive(1, 1))
	fixed := 0
	for range n {
		if mixed.Int(r, 0) == 100 {
			fixed++
		}
	}
	if share := float64(fixed) / n; math.Abs(share-0.75) > 0.005 {
		t.Errorf("three quarters of the mixture are %.4f", share)
	}
}

// Nothing is drawn outside of what Bounds says.
func TestBoundsHold(t *testing.T) {
	var dist func(depth int) *rapid.Generator[Dist]
	dist = func(depth int) *rapid.Generator[Dist] {
		return rapid.Custom(func(t *rapid.T) Dist {
			kinds := int(Empirical)
			if depth < 2 {
				kinds = int(Mixture)
			}
			d := Dist{
				Kind: Kind(rapid.IntRange(0, kinds).Draw(t, "kind")),
				A:    rapid.Float64Range(1, 1000).Draw(t, "a"), B: rapid.Float64Range(0, 5).Draw(t, "b"),
			}
			if rapid.Bool().Draw(t, "clipped") {
				d.Min = rapid.Float64Range(1, 10).Draw(t, "min")
				d.Max = d.Min + rapid.Float64Range(0, 1000).Draw(t, "range")
			}
			switch d.Kind {
			case Uniform:
				d.A = math.Round(d.A)
				d.B = d.A + math.Round(d.B)
			case Zipf:
				d.Max = d.A + rapid.Float64Range(0, 500).Draw(t, "top")
			case Empirical:
				d.Values = rapid.SliceOfN(rapid.Float64Range(0, 100), 1, 5).Draw(t, "values")
			case Mixture:
				for range rapid.IntRange(1, 3).Draw(t, "parts") {
					d.Parts = append(d.Parts, Part{rapid.Float64Range(0.1, 3).Draw(t, "weight"), dist(depth+1).Draw(t, "part")})
				}
			default:
			}
			return d
		})
	}
	// Below the least value by a bit: 1 + 1/2^52 is not what it was when 1 is added and taken away.
	bit := Dist{Kind: Zipf, A: math.Nextafter(1, 2), B: 1, Max: 2.5}
	least, _ := bit.Bounds()
	for r := range uint64(20) {
		if x := bit.Float(Stream(r)); x < least {
			t.Fatalf("%+v draws %g, less than %g", bit, x, least)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := dist(0).Draw(t, "d")
		least, most := d.Bounds()
		r := Stream(rapid.Uint64().Draw(t, "seed"))
		for range 50 {
			if x := d.Float(r); math.IsNaN(x) || max(x, 0) < least || x > most {
				t.Fatalf("%+v draws %g, outside of %g to %g", d, x, least, most)
			}
			if n := d.Int(r, 0); float64(n) < math.Round(least) || float64(n) > math.Round(most) && n != math.MaxInt32 {
				t.Fatalf("%+v draws %d, outside of %g to %g", d, n, least, most)
			}
		}
	})
}
