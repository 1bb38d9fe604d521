package pace

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func take(s *Schedule, n int) []int64 {
	var ts []int64
	for range n {
		t, ok := s.Next()
		if !ok {
			break
		}
		ts = append(ts, t)
	}
	return ts
}

// A thousand arrivals at 200 a second end at 4.995 s, however long each send
// takes: the times are absolute.
func TestConstantDoesNotDrift(t *testing.T) {
	ts := take(New(Even{}, Rate(200)), 1000)
	for k, at := range ts {
		if want := int64(k) * int64(5*time.Millisecond); at != want {
			t.Fatalf("arrival %d is at %d ns, want %d", k, at, want)
		}
	}
	if last := ts[999]; last != int64(4995*time.Millisecond) {
		t.Errorf("the last arrival is at %d ns", last)
	}
}

// At a rate that no float holds exactly the error stays below 1 ns after ten
// million arrivals.
func TestConstantKeepsItsRateForLong(t *testing.T) {
	s := New(Even{}, Rate(3))
	var at int64
	const n = 10_000_000
	for range n + 1 {
		at, _ = s.Next()
	}
	if want := int64(math.Round(float64(n) / 3 * 1e9)); max(at-want, want-at) > 1 {
		t.Errorf("arrival %d is at %d ns, want %d", n, at, want)
	}
}

// The first second of a rate of 10 has 10 arrivals.
func TestConstantHasNoBurstAtTheStart(t *testing.T) {
	n := 0
	for _, at := range take(New(Even{}, Rate(10)), 100) {
		if at < int64(time.Second) {
			n++
		}
	}
	if n != 10 {
		t.Errorf("%d arrivals in the first second, want 10", n)
	}
}

// Pinned: see the same test of package random.
func TestPoissonIsPinned(t *testing.T) {
	got := take(New(Poisson(42), Rate(100)), 5)
	want := []int64{10490995, 22813759, 25881068, 41387269, 43436131}
	if !slices.Equal(got, want) {
		t.Errorf("arrivals are at %v, want %v", got, want)
	}
}

func TestPoissonIsPoisson(t *testing.T) {
	const rate, n = 50.0, 50_000
	ts := take(New(Poisson(1), Rate(rate)), n)
	// The count of a second has mean and variance 50.
	counts := map[int64]int{}
	for _, at := range ts {
		counts[at/1e9]++
	}
	seconds := ts[n-1] / 1e9
	var sum, squares float64
	for s := range seconds {
		c := float64(counts[s])
		sum += c
		squares += c * c
	}
	m := float64(seconds)
	mean := sum / m
	variance := squares/m - mean*mean
	if math.Abs(mean-rate) > 4*math.Sqrt(rate/m) {
		t.Errorf("mean count of a second is %.2f, want %.0f", mean, rate)
	}
	// The variance of a sample variance is about 2σ⁴/m.
	if math.Abs(variance-rate) > 4*rate*math.Sqrt(2/m) {
		t.Errorf("variance of the count of a second is %.2f, want %.0f", variance, rate)
	}
	// Gaps are exponential: a share 1/e of them is longer than the mean.
	long := 0
	for i := 1; i < n; i++ {
		if float64(ts[i]-ts[i-1]) > 1e9/rate {
			long++
		}
	}
	if share := float64(long) / n; math.Abs(share-1/math.E) > 0.01 {
		t.Errorf("share of gaps over the mean is %.3f, want %.3f", share, 1/math.E)
	}
}

func TestSchedulesAreRepeatableAndNeverFall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		name := rapid.SampledFrom(Arrivals()).Draw(t, "arrival")
		rate := Rate(rapid.Float64Range(0.01, 1e5).Draw(t, "rate"))
		one := func() []int64 {
			g, err := ByName(name, 0, seed)
			if err != nil {
				t.Fatal(err)
			}
			return take(New(g, rate), 200)
		}
		ts := one()
		if !slices.IsSorted(ts) || ts[0] < 0 {
			t.Fatalf("times fall: %v", ts)
		}
		if !slices.Equal(ts, one()) {
			t.Fatal("the same seed gave another schedule")
		}
	})
}

// Doubling the rate halves the times and changes nothing else, so that a list
// of rates is comparable.
func TestRateScalesTheSameArrivals(t *testing.T) {
	a, b := take(New(Poisson(7), Rate(10)), 100), take(New(Poisson(7), Rate(20)), 100)
	for i := range a {
		if d := a[i] - 2*b[i]; d < -1 || d > 1 {
			t.Fatalf("arrival %d is at %d and %d", i, a[i], b[i])
		}
	}
}

func TestTimesThatCannotBeAreTheEnd(t *testing.T) {
	f := func(r Rate, n float64) {
		t.Helper()
		if at, ok := r.Time(n); ok {
			t.Errorf("Rate(%v).Time(%v) = %d, true", float64(r), n, at)
		}
	}
	f(1, 1e300)
	f(0, 1)
	f(0, 0)
	f(-1, 1)
	f(1, math.NaN())
	f(Rate(math.NaN()), 1)
}

func TestByNameNamesTheNearest(t *testing.T) {
	f := func(name, want string) {
		t.Helper()
		_, err := ByName(name, 0, 1)
		if err == nil || err.Error() != want {
			t.Errorf("ByName(%q) says %v, want %s", name, err, want)
		}
	}
	f("const", `arrival: unknown process "const", did you mean "constant"`)
	f("Pois", `arrival: unknown process "Pois", did you mean "poisson"`)
	f("bursty", `arrival: unknown process "bursty", want one of constant, poisson, gamma`)
}

// Given times come as they are, the last too, and nothing after it.
func TestGivenTimes(t *testing.T) {
	given := []int64{0, 0, 7, 7, 1e15}
	at, err := At(given)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the curve keeps no place
		if got := take(New(Even{}, at), 10); !slices.Equal(got, given) {
			t.Errorf("arrivals at %v, want %v", got, given)
		}
	}
	if at.Len() != 5 || at.Last() != 1e15 {
		t.Errorf("%d times, the last at %d", at.Len(), at.Last())
	}
	for _, bad := range [][]int64{{-1}, {0, 5, 4}} {
		if _, err := At(bad); err == nil {
			t.Errorf("times %v are taken", bad)
		}
	}
}

// Merged schedules keep their own arrivals, in order, and say whose each is.
func TestMerge(t *testing.T) {
	at := func(times ...int64) *Schedule {
		c, err := At(times)
		if err != nil {
			t.Fatal(err)
		}
		return New(Even{}, c)
	}
	s := Merge(at(5, 5, 20), at(), at(0, 5, 7))
	var got [][3]int64
	for {
		when, ok := s.Next()
		if !ok {
			break
		}
		part, n := s.Last()
		got = append(got, [3]int64{when, int64(part), int64(n)})
	}
	want := [][3]int64{{0, 2, 0}, {5, 0, 0}, {5, 0, 1}, {5, 2, 1}, {7, 2, 2}, {20, 0, 2}}
	if !slices.Equal(got, want) {
		t.Errorf("merged %v, want %v", got, want)
	}
	// What a stream does is its own affair.
	alone := SideBySide([]Stream{{Rate: 3, Arrival: "poisson"}}, 9, 0)
	beside := SideBySide([]Stream{{Rate: 3, Arrival: "poisson"}, {Rate: 50, Arrival: "constant"}}, 9, 0)
	for range 20 {
		a, _ := alone.Next()
		for {
			b, _ := beside.Next()
			if part, _ := beside.Last(); part == 0 {
				if a != b {
					t.Fatalf("an arrival at %d is at %d beside another stream", a, b)
				}
				break
			}
		}
	}
	for _, bad := range []Stream{{}, {Rate: 1, Arrival: "often"}, {Rate: math.Inf(1)}, {Rate: 1, Burstiness: 2}} {
		if bad.Check() == nil {
			t.Errorf("%+v passes", bad)
		}
	}
}
