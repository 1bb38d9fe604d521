package align

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

const (
	ms  = int64(1e6)
	sec = int64(1e9)
)

// readEvery reads value every scrape ns until end and returns the changes.
func readEvery(scrape, end int64, value func(t int64) float64) (out []change) {
	before, last := math.NaN(), int64(0)
	for t := int64(0); t < end; t += scrape {
		v := value(t)
		if !math.IsNaN(before) && v != before {
			out = append(out, change{last, t})
		}
		before, last = v, t
	}
	return out
}

// share returns the share of readings that brought another value, from the first
// change to the last.
func share(c []change, scrape int64) float64 {
	if len(c) < 2 {
		return 0
	}
	return float64(len(c)-1) * float64(scrape) / float64(c[len(c)-1].to-c[0].to)
}

// cached is a value that is renewed every period, with jitter, and then is
// another one with some chance.
func cached(rng *rand.Rand, period, jitter int64, chance float64, end int64) func(int64) float64 {
	var at []int64
	var values []float64
	v := 0.0
	for t := rng.Int64N(period) - period; t < end; t += period {
		if rng.Float64() < chance {
			v++
		}
		j := int64(0)
		if jitter > 0 {
			j = rng.Int64N(2*jitter) - jitter
		}
		at, values = append(at, t+j), append(values, v)
	}
	i := 0
	return func(t int64) float64 {
		for i+1 < len(at) && at[i+1] <= t {
			i++
		}
		return values[i]
	}
}

// TestPeriodWithinATenth reads sources that renew their values every so often,
// not always with another value.
func TestPeriodWithinATenth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		scrape := rapid.SampledFrom([]int64{100 * ms, 500 * ms, sec}).Draw(t, "scrape")
		period := int64(rapid.Float64Range(2, 60).Draw(t, "ratio") * float64(scrape))
		jitter := period * rapid.Int64Range(0, 4).Draw(t, "jitter") / 100
		chance := rapid.Float64Range(0.6, 1).Draw(t, "chance")
		// Where readings are few to a period, it takes more of them to tell.
		end := period * rapid.Int64Range(25, 60).Draw(t, "periods")
		if period < 5*scrape {
			end += 40 * period
			chance = max(chance, 0.9)
		}
		c := readEvery(scrape, end, cached(rng, period, jitter, chance, end))
		if int64(len(c)) < max(end/period*6/10, 15) {
			t.Skip("too few renewals brought another value")
		}
		if len(c) > keptChanges {
			c = c[len(c)-keptChanges:]
		}
		u := findPeriod(c, scrape, share(c, scrape))
		if off := math.Abs(float64(u.period-period)) / float64(period); off > 0.1 || u.atMost {
			t.Fatalf("period is %d (read every %d, jitter %d, %d changes), found %+v", period, scrape, jitter, len(c), u)
		}
	})
}

func TestPeriodOfKnownExporters(t *testing.T) {
	for _, c := range []struct {
		name           string
		period, jitter int64
		chance         float64
		scrape, run    int64
	}{
		{"dcgm by default, a run of two minutes", 30 * sec, 0, 1, sec, 125 * sec},
		{"dcgm by default, read every 5 s", 30 * sec, 200 * ms, 1, 5 * sec, 400 * sec},
		{"triton", 2 * sec, 20 * ms, 0.9, sec, 60 * sec},
		{"ray", 10 * sec, 100 * ms, 0.9, sec, 100 * sec},
		{"2.5 readings", 2500 * ms, 0, 1, sec, 60 * sec},
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		list := readEvery(c.scrape, c.run, cached(rng, c.period, c.jitter, c.chance, c.run))
		u := findPeriod(list, c.scrape, share(list, c.scrape))
		if off := math.Abs(float64(u.period-c.period)) / float64(c.period); off > 0.1 || u.atMost {
			t.Errorf("%s: found %+v", c.name, u)
		}
	}
}

// TestNoPeriodWithoutOrder reads values that change whenever they like.
func TestNoPeriodWithoutOrder(t *testing.T) {
	wrong := 0
	const tries = 400
	for seed := range uint64(tries) {
		rng := rand.New(rand.NewPCG(seed, 3))
		mean := float64(sec) * (0.5 + 8*rng.Float64())
		end := int64(60+rng.IntN(600)) * sec
		next, v := 0.0, 0.0
		c := readEvery(sec, end, func(t int64) float64 {
			for next <= float64(t) {
				next += rng.ExpFloat64() * mean
				v++
			}
			return v
		})
		if len(c) > keptChanges {
			c = c[len(c)-keptChanges:]
		}
		if u := findPeriod(c, sec, share(c, sec)); u.period > 0 && !u.atMost {
			wrong++
			t.Logf("seed %d: %d changes in %d s, found %v", seed, len(c), end/sec, float64(u.period)/1e9)
		}
	}
	if wrong > tries/100 {
		t.Errorf("found a period in %d of %d series without one", wrong, tries)
	}
}

func TestPeriodOfLittle(t *testing.T) {
	if u := findPeriod(nil, sec, 0); u != (updates{}) {
		t.Errorf("no change: %+v", u)
	}
	if u := findPeriod([]change{{0, sec}, {30 * sec, 31 * sec}}, sec, 1.0/30); u != (updates{}) {
		t.Errorf("two changes: %+v", u)
	}
	every := readEvery(sec, 60*sec, func(t int64) float64 { return float64(t) })
	if u := findPeriod(every, sec, 1); u.period != sec || !u.atMost {
		t.Errorf("a value that is always another one: %+v", u)
	}
}
