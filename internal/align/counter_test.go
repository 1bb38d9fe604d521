package align

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"pgregory.net/rapid"
)

// increases feeds readings to a counter, a missing one being NaN.
func increases(c *counter, every int64, values ...float64) (out []increase) {
	for i, v := range values {
		if math.IsNaN(v) {
			continue
		}
		if inc, ok := c.add(int64(i)*every, v, false); ok {
			out = append(out, inc)
		}
	}
	return out
}

func total(list []increase) (sum float64, restarts, gaps int) {
	for _, i := range list {
		sum += i.by
		if i.restart {
			restarts++
		}
		if i.gap {
			gaps++
		}
	}
	return sum, restarts, gaps
}

// TestCounterReset is case 121: a server restart during the run, and a reading
// that is missing.
func TestCounterReset(t *testing.T) {
	var in struct {
		Scrapes []float64  `json:"scrapes"`
		WithGap []*float64 `json:"with_gap"`
	}
	var want struct {
		Increase float64 `json:"increase"`
		Resets   int     `json:"resets"`
		WithGap  float64 `json:"with_gap"`
	}
	read(t, "testdata/121-counter-reset/input.json", &in)
	read(t, "testdata/121-counter-reset/expected.json", &want)
	sum, restarts, gaps := total(increases(&counter{pace: pace{usual: sec}}, sec, in.Scrapes...))
	if sum != want.Increase || restarts != want.Resets || gaps != 0 {
		t.Errorf("increase %v, %d restarts, %d gaps, want %v, %d and none", sum, restarts, gaps, want.Increase, want.Resets)
	}
	var values []float64
	for _, v := range in.WithGap {
		if v == nil {
			values = append(values, math.NaN())
		} else {
			values = append(values, *v)
		}
	}
	sum, restarts, gaps = total(increases(&counter{pace: pace{usual: sec}}, sec, values...))
	if sum != want.WithGap || restarts != 0 || gaps != 1 {
		t.Errorf("with a gap: increase %v, %d restarts, %d gaps, want %v, 0 and 1", sum, restarts, gaps, want.WithGap)
	}
}

func read(t testing.TB, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}

func TestCounterOfARestartThatOvertook(t *testing.T) {
	c := &counter{pace: pace{usual: sec}}
	c.add(0, 100, false)
	// The server started anew and has counted more than before: only its start time tells.
	if inc, ok := c.add(sec, 130, true); !ok || inc.by != 130 || !inc.restart {
		t.Errorf("%+v, %v", inc, ok)
	}
}

func TestCounterThatIsRenewedEvery10Readings(t *testing.T) {
	c := &counter{pace: pace{usual: sec}, renewal: renewal{period: 10 * sec}}
	var list []increase
	for i := range int64(45) {
		v := float64(i/10) * 70
		if i >= 30 {
			v -= 70 // nothing rose in the fourth period
		}
		if inc, ok := c.add(i*sec, v, false); ok {
			list = append(list, inc)
		}
	}
	// Renewed between 9 s and 10 s, from a value of unknown age; between 19 s and 20 s;
	// with the same value after that, and then between 39 s and 40 s.
	want := []increase{
		{from: 9500 * ms, to: 19500 * ms, by: 70},
		{from: 19500 * ms, to: 29500 * ms, by: 0},
		{from: 29500 * ms, to: 39500 * ms, by: 70},
	}
	if len(list) != len(want) {
		t.Fatalf("%+v, want %+v", list, want)
	}
	for i := range want {
		if list[i] != want[i] {
			t.Errorf("increase %d is %+v, want %+v", i, list[i], want[i])
		}
	}
}

func TestPaceOfASourceThatIsReadLessOften(t *testing.T) {
	c := &counter{pace: pace{usual: sec}}
	var gaps []int64
	for _, at := range []int64{0, 1, 2, 3, 5, 7, 9, 13, 17, 18, 19, 25, 26} { // 5, 13 and 25 come late
		if inc, ok := c.add(at*sec, float64(at), false); ok && inc.gap {
			gaps = append(gaps, inc.to/sec)
		}
	}
	if len(gaps) != 3 || gaps[0] != 5 || gaps[1] != 13 || gaps[2] != 25 {
		t.Errorf("gaps before %v, want 5, 13 and 25", gaps)
	}
	if _, ok := c.add(26*sec, 99, false); ok {
		t.Error("a reading of the same time counts")
	}
	if _, ok := c.add(20*sec, 99, false); ok {
		t.Error("an older reading counts")
	}
}

// TestCounterKeepsTheSum compares with the plain sum of what rose, for random
// counters with restarts and missing readings.
func TestCounterKeepsTheSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &counter{pace: pace{usual: sec}}
		n := rapid.IntRange(2, 200).Draw(t, "readings")
		value, sum := 0.0, 0.0
		last, any := 0.0, false
		var list []increase
		for i := range n {
			if rapid.IntRange(0, 30).Draw(t, "restart") == 0 {
				value = 0
			}
			value += float64(rapid.IntRange(0, 1000).Draw(t, "rise"))
			if rapid.IntRange(0, 5).Draw(t, "missing") == 0 {
				continue
			}
			if any { // the naive one
				if value >= last {
					sum += value - last
				} else {
					sum += value
				}
			}
			last, any = value, true
			if inc, ok := c.add(int64(i)*sec, value, false); ok {
				list = append(list, inc)
			}
		}
		got, _, _ := total(list)
		if got != sum {
			t.Errorf("sum is %v, want %v", got, sum)
		}
		for i := 1; i < len(list); i++ {
			if list[i].from != list[i-1].to {
				t.Errorf("increases do not meet: %+v, %+v", list[i-1], list[i])
			}
		}
	})
}

func TestGaugeHoldsWhatIsNear(t *testing.T) {
	var got []stretch
	g := &gauge{pace: pace{usual: sec}}
	for _, r := range []struct {
		t int64
		v float64
	}{{0, 1}, {sec, 2}, {4 * sec, 3}} {
		_, held, _ := g.add(r.t, r.v)
		for _, h := range held {
			if h.from < h.to {
				got = append(got, h)
			}
		}
	}
	want := []stretch{
		{-500 * ms, 0, 1},
		{0, 500 * ms, 1},
		{0, 500 * ms, 1},
		{500 * ms, sec, 2},
		{sec, 1500 * ms, 2}, // 1.5 s to 3.5 s: nobody knows
		{3500 * ms, 4 * sec, 3},
		{4 * sec, 4500 * ms, 3},
	}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("stretch %d is %v, want %v", i, got[i], want[i])
		}
	}
	if _, held, fresh := g.add(4*sec, 9); fresh || held != [3]stretch{} {
		t.Error("an old reading is a new one")
	}
}

// TestGaugeThatIsRenewedEvery10Readings has its values at the instants of their
// renewal: a page shows them for ten seconds more.
func TestGaugeThatIsRenewedEvery10Readings(t *testing.T) {
	g := &gauge{pace: pace{usual: sec}, renewal: renewal{period: 10 * sec}}
	var got []stretch
	for i := range int64(50) {
		v := float64((i + 3) / 10) // renewed at 6.5 s, 16.5 s, ...
		if i >= 37 {
			v = 3 // and from 36.5 s on always the same
		}
		at, held, fresh := g.add(i*sec, v)
		if fresh {
			got = append(got, stretch{at, held[2].to, v})
		}
	}
	want := []stretch{{-5 * sec, 0, 0}, {6500 * ms, 11500 * ms, 1}, {16500 * ms, 21500 * ms, 2}, {26500 * ms, 31500 * ms, 3}, {36500 * ms, 41500 * ms, 3}, {46500 * ms, 51500 * ms, 3}}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("reading %d is %v, want %v", i, got[i], want[i])
		}
	}
}
