package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/internal/histogram"
)

func TestEnoughFrom(t *testing.T) {
	for permille, want := range map[int]int64{900: 64, 950: 130, 990: 662, 999: 6636, 10: 662, 50: 130, 0: math.MaxInt64, 1000: math.MaxInt64} {
		if got := EnoughFrom(permille); got != want {
			t.Errorf("enough for %d thousandths from %d on, want %d", permille, got, want)
		}
	}
	// The rule in its own words, summed up without logarithms.
	for permille := 500; permille < 1000; permille += 13 {
		tail := float64(1000-permille) / 1000
		enough := func(n int64) bool {
			none := math.Pow(1-tail, float64(n))
			one := float64(n) * tail * math.Pow(1-tail, float64(n-1))
			return 1-none-one >= 0.99
		}
		if n := EnoughFrom(permille); !enough(n) || enough(n-1) {
			t.Errorf("enough for %d thousandths from %d on", permille, n)
		}
	}
}

func TestEnoughCountsRequestsNotTokens(t *testing.T) {
	h := new(histogram.Histogram)
	h.RecordN(5, 100_000)
	d := distOfHistograms([]*histogram.Histogram{h}, 130, 1, blocking{})
	if d.Count != 100_000 || !d.Enough["p95"] || d.Enough["p99"] {
		t.Errorf("count %d, enough %v", d.Count, d.Enough)
	}
}

func TestRanks(t *testing.T) {
	for _, c := range []struct {
		q    quantile
		n    int64
		want int64
	}{{q50, 1, 1}, {q50, 2, 1}, {q50, 3, 2}, {q99, 100, 99}, {q99, 101, 100}, {q99, 1000, 990}, {q999, 1000, 999}, {q1, 1, 1}, {70, 100, 7}} {
		if got := c.q.rank(c.n); got != c.want {
			t.Errorf("rank of %d thousandths of %d is %d, want %d", c.q, c.n, got, c.want)
		}
	}
}

// TestOrderRanksAgainstTable compares with the binomial distribution summed up
// one by one.
func TestOrderRanksAgainstTable(t *testing.T) {
	for _, m := range []int64{1, 2, 5, 6, 10, 30, 97} {
		for _, q := range []float64{0.01, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999} {
			cdf := func(k int64) float64 { // P(X <= k)
				var sum float64
				for i := int64(0); i <= k; i++ {
					c := 1.0
					for j := range i {
						c *= float64(m-j) / float64(i-j)
					}
					sum += c * math.Pow(q, float64(i)) * math.Pow(1-q, float64(m-i))
				}
				return sum
			}
			wantL, wantU := int64(0), m+1
			for k := int64(1); k <= m; k++ {
				if cdf(k-1) <= 0.025 {
					wantL = k
				}
				if cdf(k-1) >= 0.975 && wantU > k {
					wantU = k
				}
			}
			if l, u := orderRanks(m, q); l != wantL || u != wantU {
				t.Errorf("ranks of %v among %d are %d, %d, want %d, %d", q, m, l, u, wantL, wantU)
			}
		}
	}
	// Large samples approach the normal distribution.
	l, u := orderRanks(10_000_000, 0.99)
	sd := math.Sqrt(10_000_000 * 0.99 * 0.01)
	if math.Abs(float64(l)-(9_900_000-z*sd)) > 3 || math.Abs(float64(u)-(9_900_000+z*sd)) > 3 {
		t.Errorf("ranks among ten million are %d, %d", l, u)
	}
}

func TestStudentT(t *testing.T) {
	// From tables of the distribution.
	for dof, want := range map[float64]float64{7: 2.365, 15: 2.131, 31: 2.040, 1000: 1.962} {
		if got := studentT(dof); math.Abs(got-want) > 0.012*want {
			t.Errorf("t of %v degrees is %v, want %v", dof, got, want)
		}
	}
}

// coverage simulates runs of n requests over a window of 32 blocks, whose value
// is drawn by draw from the time as a share of the window, and returns how often
// the interval holds the true quantile, and how often one does that takes the
// requests as independent.
func coverage(t *testing.T, q quantile, n int, truth float64, r *rand.Rand, begin func(), draw func(at float64) float64) (blocks, naive float64) {
	t.Helper()
	const runs = 400
	name := ""
	for _, j := range judged {
		if j.q == q {
			name = j.name
		}
	}
	for range runs {
		begin()
		s := make([]sample, n)
		values := make([]float64, n)
		for i := range s {
			at := r.Float64()
			s[i] = sample{draw(at), uint16(at * windowBlocks)}
			values[i] = s[i].v
		}
		d := distOf(s, 1, blocking{1, 1})
		in := func(lo, hi *float64) bool { return (lo == nil || *lo <= truth) && (hi == nil || truth <= *hi) }
		if pair := d.CI95[name]; in(pair[0], pair[1]) {
			blocks += 1.0 / runs
		}
		slices.Sort(values)
		at := func(i int64) *float64 {
			if i < 1 || i > int64(n) {
				return nil
			}
			return &values[i-1]
		}
		l, u := orderRanks(int64(n), float64(q)/1000)
		if in(at(l), at(u)) {
			naive += 1.0 / runs
		}
	}
	return blocks, naive
}

func TestIntervalsCoverIndependentRequests(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, c := range []struct {
		q quantile
		n int
	}{{q50, 40}, {q50, 500}, {q90, 500}, {q95, 1000}, {q99, 1000}} {
		truth := -math.Log(1 - float64(c.q)/1000)
		blocks, naive := coverage(t, c.q, c.n, truth, r, func() {}, func(float64) float64 { return r.ExpFloat64() })
		t.Logf("%d of %d: %.3f covered, %.3f if independence is known", c.q, c.n, blocks, naive)
		// 400 runs tell 0.95 within 0.025. Ranks are whole, so that even the
		// narrowest interval covers more than that; ours may be a little wider,
		// since it never takes requests to be better than independent.
		if blocks < 0.925 || blocks > naive+0.035 {
			t.Errorf("interval of %d thousandths of %d requests covers %.3f, want about 0.95", c.q, c.n, blocks)
		}
	}
}

func TestIntervalsCoverCorrelatedRequests(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	// All requests of a block share a load level: value = level * exponential.
	var levels [windowBlocks]float64
	begin := func() {
		for i := range levels {
			levels[i] = math.Exp(0.7 * r.NormFloat64())
		}
	}
	draw := func(at float64) float64 { return levels[int(at*windowBlocks)] * r.ExpFloat64() }
	all := make([]float64, 0, 300_000)
	for len(all) < cap(all) {
		all = append(all, math.Exp(0.7*r.NormFloat64())*r.ExpFloat64())
	}
	slices.Sort(all)
	for _, q := range []quantile{q50, q90, q99} {
		truth := all[q.rank(int64(len(all)))-1]
		blocks, naive := coverage(t, q, 3200, truth, r, begin, draw)
		t.Logf("%d: %.3f covered, %.3f as if independent", q, blocks, naive)
		if blocks < 0.91 || blocks > 0.99 {
			t.Errorf("interval of %d thousandths covers %.3f, want about 0.95", q, blocks)
		}
		if q != q99 && naive > 0.7 {
			t.Errorf("independent order statistics cover %.3f: the simulation is no test", naive)
		}
	}
}

// TestIntervalsOfPooledValues compares the interval of values pooled over
// requests with that of the same values one by one, where requests do not bound
// it, and checks that they do otherwise.
func TestIntervalsOfPooledValues(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	parts := make([]*histogram.Histogram, windowBlocks)
	var s []sample
	for b := range parts {
		parts[b] = new(histogram.Histogram)
		level := math.Exp(14 + 0.5*r.NormFloat64())
		for range 200 {
			v := int64(level * r.ExpFloat64())
			parts[b].Record(v)
			s = append(s, sample{float64(v), uint16(b)})
		}
	}
	bl := blocking{1, 1}
	want, got := distOf(s, 1, bl), distOfHistograms(parts, int64(len(s)), 1, bl)
	few := distOfHistograms(parts, 20, 1, bl)
	for _, j := range judged[:4] {
		for e := range 2 {
			w, g := want.CI95[j.name][e], got.CI95[j.name][e]
			if w == nil || g == nil || math.Abs(*w-*g) > 0.02**w {
				t.Errorf("interval of %s is %v, want %v", j.name, deref(g), deref(w))
			}
		}
	}
	if w, n := got.CI95["p50"], few.CI95["p50"]; *n[0] >= *w[0] || *n[1] <= *w[1] {
		t.Errorf("interval of 20 requests is %v to %v, of many %v to %v", *n[0], *n[1], *w[0], *w[1])
	}
	if few.CI95["p99"][1] != nil {
		t.Errorf("20 requests bound p99 by %v", *few.CI95["p99"][1])
	}
}

func TestBlockingNeedsLongBlocks(t *testing.T) {
	for _, c := range []struct {
		e2e  float64
		want int
	}{{1e9, 1}, {2e9, 1}, {2.1e9, 2}, {4e9, 2}, {8e9, 4}, {8.1e9, 0}, {math.NaN(), 0}} {
		if got := blockingFor(c.e2e, []int64{64 * sec, 100 * sec}); got.join != c.want {
			t.Errorf("requests of %v s join %d blocks, want %d", c.e2e/1e9, got.join, c.want)
		}
	}
	if got := blockingFor(0, []int64{0}); got.join != 0 {
		t.Errorf("an empty window joins %d blocks", got.join)
	}
}

// Large samples are sorted by their digits, to the same order.
func TestSortSamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{0, 1, 100, radixFrom - 1, radixFrom, 3 * radixFrom}).Draw(t, "n")
		whole := rapid.Bool().Draw(t, "whole")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		s := make([]sample, n, n*rapid.IntRange(1, 3).Draw(t, "room"))
		sums := map[float64]int{}
		for i := range s {
			v := r.NormFloat64() * math.Exp(20*r.Float64())
			if whole {
				v = math.Round(v)
			}
			s[i] = sample{v, uint16(r.IntN(64))}
			sums[v] += int(s[i].block)
		}
		want := make([]float64, n)
		for i := range s {
			want[i] = s[i].v
		}
		slices.Sort(want)
		sortSamples(s)
		for i := range s {
			if s[i].v != want[i] {
				t.Fatalf("value %d of %d is %v, want %v", i, n, s[i].v, want[i])
			}
			sums[s[i].v] -= int(s[i].block)
		}
		for v, sum := range sums {
			if sum != 0 {
				t.Fatalf("the blocks of %v have changed", v)
			}
		}
	})
}
