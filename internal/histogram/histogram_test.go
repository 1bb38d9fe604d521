package histogram

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// values draws values over all magnitudes, so that small exact buckets, wide
// ones and the extremes all occur.
func values() *rapid.Generator[[]int64] {
	one := rapid.Custom(func(t *rapid.T) int64 {
		bits := rapid.IntRange(0, 63).Draw(t, "bits")
		v := rapid.Int64Range(0, math.MaxInt64).Draw(t, "v")
		return v >> bits
	})
	return rapid.SliceOfN(one, 0, 200)
}

func of(vs []int64) *Histogram {
	h := new(Histogram)
	for _, v := range vs {
		h.Record(v)
	}
	return h
}

func binaryOf(h *Histogram) string {
	b, err := h.MarshalBinary()
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestBucketsTileAllValues(t *testing.T) {
	if got := index(math.MaxInt64); got != buckets-1 {
		t.Fatalf("index of the largest value is %d, want %d", got, buckets-1)
	}
	want := int64(0)
	for i := range buckets {
		lo, hi := bounds(i)
		if lo != want || hi < lo {
			t.Fatalf("bucket %d is [%d, %d], want it to begin at %d", i, lo, hi, want)
		}
		if index(lo) != i || index(hi) != i {
			t.Fatalf("bucket %d is [%d, %d] but their indexes are %d, %d", i, lo, hi, index(lo), index(hi))
		}
		if m := middle(i); float64(max(m-lo, hi-m)) > MaxError*float64(max(lo, 1)) {
			t.Fatalf("bucket %d: middle %d of [%d, %d] is too far off", i, m, lo, hi)
		}
		want = hi + 1 // wraps after the last bucket
	}
	if want != math.MinInt64 {
		t.Errorf("the last bucket ends at %d", want-1)
	}
}

func TestQuantileIsWithinBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vs := values().Filter(func(v []int64) bool { return len(v) > 0 }).Draw(t, "values")
		permille := rapid.IntRange(0, 1000).Draw(t, "permille")
		h := of(vs)
		slices.Sort(vs)
		rank := max((permille*len(vs)+999)/1000, 1)
		want := vs[rank-1]
		for name, got := range map[string]int64{
			"Quantile": h.Quantile(float64(permille) / 1000),
			"AtRank":   h.AtRank(uint64(rank)),
		} {
			if diff := math.Abs(float64(got) - float64(want)); diff > MaxError*float64(want) {
				t.Fatalf("%s of rank %d of %d is %d, want %d within %g", name, rank, len(vs), got, want, MaxError)
			}
		}
		if h.Quantile(0) != vs[0] || h.Quantile(1) != vs[len(vs)-1] {
			t.Fatalf("extremes are %d, %d, want %d, %d", h.Quantile(0), h.Quantile(1), vs[0], vs[len(vs)-1])
		}
	})
}

func TestExactFigures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vs := values().Draw(t, "values")
		h := of(vs)
		sum := new(big.Int)
		for _, v := range vs {
			sum.Add(sum, big.NewInt(v))
		}
		got := new(big.Int).Lsh(new(big.Int).SetUint64(h.sumHi), 64)
		got.Add(got, new(big.Int).SetUint64(h.sumLo))
		if got.Cmp(sum) != 0 {
			t.Fatalf("sum is %v, want %v", got, sum)
		}
		if s, ok := h.Sum(); ok != sum.IsInt64() || ok && s != sum.Int64() {
			t.Fatalf("Sum is %d, %v, want %v", s, ok, sum)
		}
		if h.Count() != uint64(len(vs)) {
			t.Fatalf("count is %d, want %d", h.Count(), len(vs))
		}
		if len(vs) == 0 {
			if h.Min() != 0 || h.Max() != 0 || !math.IsNaN(h.Mean()) || h.Quantile(0.5) != 0 {
				t.Fatalf("empty: %v", h)
			}
			return
		}
		if h.Min() != slices.Min(vs) || h.Max() != slices.Max(vs) {
			t.Fatalf("extremes are %d, %d, want %d, %d", h.Min(), h.Max(), slices.Min(vs), slices.Max(vs))
		}
		mean, _ := new(big.Float).Quo(new(big.Float).SetInt(sum), big.NewFloat(float64(len(vs)))).Float64()
		if diff := math.Abs(h.Mean() - mean); diff > 1e-12*mean {
			t.Fatalf("mean is %v, want %v", h.Mean(), mean)
		}
	})
}

func TestMergeIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := values().Draw(t, "a"), values().Draw(t, "b"), values().Draw(t, "c")
		all := of(slices.Concat(a, b, c))

		left := of(a)
		left.Merge(of(b))
		left.Merge(of(c))
		right := of(b)
		right.Merge(of(c))
		outer := of(a)
		outer.Merge(right)
		swapped := of(c)
		swapped.Merge(of(b))
		swapped.Merge(of(a))
		for name, h := range map[string]*Histogram{"(a+b)+c": left, "a+(b+c)": outer, "c+b+a": swapped} {
			if binaryOf(h) != binaryOf(all) {
				t.Fatalf("%s is %v, want %v", name, h, all)
			}
		}
	})
}

func TestSubtractLeavesWhatCameAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := values().Draw(t, "before"), values().Draw(t, "after")
		h := of(slices.Concat(before, after))
		if err := h.Subtract(of(before)); err != nil {
			t.Fatal(err)
		}
		want := of(after)
		if h.Count() != want.Count() || h.sumHi != want.sumHi || h.sumLo != want.sumLo || !slices.Equal(h.Buckets(), want.Buckets()) {
			t.Fatalf("difference is %v, want %v", h, want)
		}
		if h.Count() > 0 && (h.Min() > want.Min() || h.Max() < want.Max() || index(h.Min()) != index(want.Min()) || index(h.Max()) != index(want.Max())) {
			t.Fatalf("extremes are %d, %d, want the buckets of %d, %d", h.Min(), h.Max(), want.Min(), want.Max())
		}
	})
}

func TestSubtractRefusesWhatIsNotEarlier(t *testing.T) {
	for name, o := range map[string]*Histogram{
		"other bucket": of([]int64{1 << 40}),
		"more of one":  of([]int64{5, 5}),
		"larger sum":   of([]int64{1001}),
		"other sum":    of([]int64{5, 1001}),
	} {
		h := of([]int64{5, 1000})
		if err := h.Subtract(o); err == nil {
			t.Errorf("%s: no error", name)
		}
		if binaryOf(h) != binaryOf(of([]int64{5, 1000})) {
			t.Errorf("%s: changed to %v", name, h)
		}
	}
}

func TestRecordShared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Int64Range(0, 1<<50).Draw(t, "total")
		n := rapid.Uint64Range(1, 100).Draw(t, "n")
		h := new(Histogram)
		h.RecordShared(total, n)
		if sum, _ := h.Sum(); sum != total || h.Count() != n {
			t.Fatalf("sum is %d over %d, want %d over %d", sum, h.Count(), total, n)
		}
		if h.Max()-h.Min() > 1 {
			t.Fatalf("values from %d to %d", h.Min(), h.Max())
		}
		one := new(Histogram)
		for i := range n {
			v := total / int64(n)
			if i < uint64(total)%n {
				v++
			}
			one.Record(v)
		}
		if binaryOf(one) != binaryOf(h) {
			t.Fatalf("got %v, want %v", h, one)
		}
	})
}

func TestNegativeCountsAsZero(t *testing.T) {
	h := of([]int64{-5})
	h.RecordN(-7, 2)
	h.RecordShared(-1, 3)
	if h.Count() != 6 || h.Min() != 0 || h.Max() != 0 || h.Mean() != 0 {
		t.Errorf("got %v", h)
	}
}

func TestStd(t *testing.T) {
	if got := of([]int64{10_000_001, 10_000_001, 10_000_001}).Std(); got != 0 {
		t.Errorf("deviation of equal values is %v", got)
	}
	if got := of([]int64{5}).Std(); !math.IsNaN(got) {
		t.Errorf("deviation of one value is %v", got)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var vs []int64
	var mean, sq float64
	for range 10_000 {
		v := int64(1e6 * r.ExpFloat64())
		vs = append(vs, v)
		mean += float64(v) / 10_000
	}
	for _, v := range vs {
		sq += (float64(v) - mean) * (float64(v) - mean)
	}
	want := math.Sqrt(sq / 9_999)
	if got := of(vs).Std(); math.Abs(got-want) > MaxError*want {
		t.Errorf("deviation is %v, want %v", got, want)
	}
}

// TestAgainstHdrHistogram compares with another implementation of the same
// idea at four significant digits, which is finer than ours.
func TestAgainstHdrHistogram(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	ours, theirs := new(Histogram), hdrhistogram.New(1, int64(time.Hour), 4)
	for range 200_000 {
		v := int64(math.Exp(14 + 2*r.NormFloat64()))
		ours.Record(v)
		if err := theirs.RecordValue(v); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []float64{1, 5, 25, 50, 75, 90, 95, 99, 99.9, 99.99} {
		got, want := float64(ours.Quantile(p/100)), float64(theirs.ValueAtQuantile(p))
		if math.Abs(got-want) > (MaxError+1e-4)*want {
			t.Errorf("p%v is %v, HdrHistogram says %v", p, got, want)
		}
	}
}

func TestAgentsMerge(t *testing.T) {
	var a, b Histogram
	a.RecordN(int64(10*time.Millisecond), 990)
	b.RecordN(int64(1000*time.Millisecond), 10)
	a.Merge(&b)
	for _, c := range []struct {
		q    float64
		want time.Duration
	}{{0.5, 10 * time.Millisecond}, {0.99, 10 * time.Millisecond}, {0.995, time.Second}, {1, time.Second}} {
		got := float64(a.Quantile(c.q))
		if math.Abs(got-float64(c.want)) > MaxError*float64(c.want) {
			t.Errorf("quantile %v is %v, want %v", c.q, time.Duration(got), c.want)
		}
	}
}

func TestCodecRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := of(values().Draw(t, "values"))
		var back, text Histogram
		if err := back.UnmarshalBinary([]byte(binaryOf(h))); err != nil {
			t.Fatal(err)
		}
		b, err := h.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		if err := text.UnmarshalText(b); err != nil {
			t.Fatal(err)
		}
		if binaryOf(&back) != binaryOf(h) || binaryOf(&text) != binaryOf(h) {
			t.Fatalf("got %v and %v, want %v", &back, &text, h)
		}
		if h.Count() > 0 && back.Quantile(0.5) != h.Quantile(0.5) {
			t.Fatalf("median is %d, want %d", back.Quantile(0.5), h.Quantile(0.5))
		}
	})
}

// Many values at once count as each of them does, in a histogram that was used before.
func TestRecordAllIsRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := of(values().Draw(t, "before"))
		h.Reset()
		a, b := values().Draw(t, "a"), values().Draw(t, "b")
		h.RecordAll(a)
		h.RecordAll(b)
		want := of(slices.Concat(a, b))
		if binaryOf(h) != binaryOf(want) {
			t.Fatalf("got %v, want %v", h, want)
		}
		for rank := range want.Count() {
			if got, want := h.AtRank(rank+1), want.AtRank(rank+1); got != want {
				t.Fatalf("at rank %d: %d, want %d", rank+1, got, want)
			}
		}
	})
}

func TestMergeBinaryIsMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := values().Draw(t, "a"), values().Draw(t, "b")
		joint := binaryOf(of(a)) + binaryOf(of(b)) + "rest"
		h := new(Histogram)
		rest, err := h.MergeBinary([]byte(joint))
		if err != nil {
			t.Fatal(err)
		}
		if rest, err = h.MergeBinary(rest); err != nil || string(rest) != "rest" {
			t.Fatalf("what follows is %q, error %v", rest, err)
		}
		if want := of(slices.Concat(a, b)); binaryOf(h) != binaryOf(want) {
			t.Fatalf("got %v, want %v", h, want)
		}
	})
}

func FuzzMergeBinary(f *testing.F) {
	for _, vs := range [][]int64{nil, {0}, {1, 1, 300}, {math.MaxInt64, math.MaxInt64}, {255, 256, 1 << 40}} {
		f.Add([]byte(binaryOf(of(vs))))
	}
	f.Add([]byte{1, 5, 0, 9, 1, 3, 2, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		var h, other Histogram
		rest, err := h.MergeBinary(b)
		defer func() {
			// Nothing of it stays behind.
			h.Reset()
			h.Record(1 << 40)
			if h.AtRank(1) != 1<<40 || binaryOf(&h) != binaryOf(of([]int64{1 << 40})) {
				t.Fatalf("after a reset and one value it is %v", &h)
			}
		}()
		if err != nil {
			if h.Count() != 0 {
				t.Fatalf("%d values after error %v", h.Count(), err)
			}
			return
		}
		if len(rest) >= len(b) {
			t.Fatalf("%d bytes follow %d", len(rest), len(b))
		}
		// What Unmarshal takes is the same; Merge need not refuse all that it refuses.
		if other.UnmarshalBinary(b[:len(b)-len(rest)]) == nil && binaryOf(&other) != binaryOf(&h) {
			t.Fatalf("merged %v, unmarshalled %v", &h, &other)
		}
		h.AtRank(h.Count())
	})
}

func FuzzUnmarshalBinary(f *testing.F) {
	for _, vs := range [][]int64{nil, {0}, {1, 1, 300}, {math.MaxInt64, math.MaxInt64, math.MaxInt64}, {255, 256, 1 << 40}} {
		f.Add([]byte(binaryOf(of(vs))))
	}
	f.Add([]byte{1, 0x80, 0})
	f.Add([]byte{1, 1, 0, 0, 0, 0, 1, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		var h Histogram
		h.Record(77)
		if err := h.UnmarshalBinary(b); err != nil {
			if h.Count() != 1 || h.Min() != 77 {
				t.Fatalf("changed by an error: %v", &h)
			}
			return
		}
		if got := binaryOf(&h); got != string(b) {
			t.Fatalf("%x decodes but encodes to %x", b, got)
		}
		// Nothing that decodes may make the figures impossible.
		if m := h.Mean(); h.Count() > 0 && (m < float64(h.Min())*(1-1e-9) || m > float64(h.Max())*(1+1e-9)) {
			t.Fatalf("mean %v outside [%d, %d]", m, h.Min(), h.Max())
		}
		h.AtRank(h.Count() / 2)
		h.Std()
	})
}

func TestRecordAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	h := of([]int64{1 << 40})
	v := int64(1)
	if n := testing.AllocsPerRun(1000, func() { h.Record(v); v = v * 3 % (1 << 40) }); n != 0 {
		t.Errorf("%v allocations per record", n)
	}
}

// TestRecordCostsAtMostTwoAtomicAdds compares the two in turns and takes the
// fastest round of each, so that a busy machine slows neither alone.
func TestRecordCostsAtMostTwoAtomicAdds(t *testing.T) {
	if testing.Short() || raceEnabled || testing.CoverMode() != "" {
		t.Skip("costs are not what they are")
	}
	const n = 1 << 16
	vs := make([]int64, n)
	r := rand.New(rand.NewPCG(5, 6))
	for i := range vs {
		vs[i] = int64(math.Exp(16 + r.NormFloat64()))
	}
	h := of(vs)
	var total atomic.Int64
	record, add := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for range 40 {
		start := time.Now()
		for _, v := range vs {
			h.Record(v)
		}
		record = min(record, time.Since(start))
		start = time.Now()
		for _, v := range vs {
			total.Add(v)
		}
		add = min(add, time.Since(start))
	}
	ratio := float64(record) / float64(add)
	t.Logf("record %.2f ns, atomic add %.2f ns, ratio %.2f", float64(record)/n, float64(add)/n, ratio)
	if ratio > 2 {
		t.Errorf("a record costs %.2f atomic adds, want at most 2", ratio)
	}
}

func BenchmarkRecord(b *testing.B) {
	h := of([]int64{1 << 40})
	v := int64(1)
	for b.Loop() {
		h.Record(v)
		v = v * 3 & (1<<40 - 1)
	}
}

func BenchmarkMerge(b *testing.B) {
	h, o := of([]int64{1 << 40}), of([]int64{1, 1 << 40})
	for b.Loop() {
		h.Merge(o)
	}
}

// Gaps that are counted together count like each on its own.
func TestRecordGaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var one, all Histogram
		for range rapid.IntRange(1, 3).Draw(t, "answers") {
			at := rapid.Int64Range(0, 1e12).Draw(t, "start")
			times := []int64{at}
			n := rapid.Uint64Range(0, 3).Draw(t, "times each")
			for range rapid.IntRange(0, 60).Draw(t, "gaps") {
				gap := rapid.OneOf(rapid.Int64Range(0, 300), rapid.Int64Range(8_780_000, 8_850_000), rapid.Int64Range(0, 1e15)).Draw(t, "gap")
				at += gap
				times = append(times, at)
				one.RecordN(gap, n)
			}
			all.RecordGapsN(times, n)
			if n == 1 && len(times) > 1 {
				one.Record(times[1] - times[0])
				all.RecordGaps(times[:2])
			}
		}
		if diff := cmp.Diff(one.Buckets(), all.Buckets()); diff != "" {
			t.Fatalf("buckets (-one by one +together):\n%s", diff)
		}
		if one.String() != all.String() || one.sumLo != all.sumLo || one.sumHi != all.sumHi {
			t.Fatalf("one by one %v, together %v", &one, &all)
		}
	})
}
