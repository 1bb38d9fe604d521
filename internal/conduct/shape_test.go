package conduct

import (
	"math"
	"testing"
	"time"

	"plimsoll/internal/load"
	"plimsoll/internal/scenario"
)

// Every shape of a scenario is the rate that its page in docs says.
func TestShapes(t *testing.T) {
	f := func(text string, rates map[time.Duration]float64) {
		t.Helper()
		s, err := scenario.ParseShape(text)
		if err != nil {
			t.Fatal(err)
		}
		p := shape(s)
		if err := p.Check(); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		top := 0.0
		for at, want := range rates {
			if got := p.At(at); math.Abs(got-want) > 1e-9 {
				t.Errorf("%s: the rate after %v is %g times the base, want %g", text, at, got, want)
			}
			top = max(top, want)
		}
		if top > s.Peak() {
			t.Errorf("%s: the peak is %g, but the rate reaches %g", text, s.Peak(), top)
		}
	}
	const sec = time.Second
	f("ramp:to=3,over=60s", map[time.Duration]float64{0: 0, 20 * sec: 1, 60 * sec: 3, time.Hour: 3})
	f("ramp:from=2,over=10s", map[time.Duration]float64{0: 2, 5 * sec: 1.5, 10 * sec: 1})
	f("spikes:to=5,every=1m,for=5s", map[time.Duration]float64{0: 1, 54 * sec: 1, 55 * sec: 5, 60 * sec: 1, 115 * sec: 5})
	f("market-open:to=10,after=30s,fade=1m", map[time.Duration]float64{29 * sec: 1, 30 * sec: 10, 90 * sec: 1 + 9/math.E, 2 * time.Hour: 1})
	f("market-open:to=10,fade=1s,every=1m", map[time.Duration]float64{0: 10, 1 * sec: 1 + 9/math.E, 60 * sec: 10})
	f("diurnal:low=0.2,high=1.8,period=24h", map[time.Duration]float64{0: 0.2, 6 * time.Hour: 1, 12 * time.Hour: 1.8, 36 * time.Hour: 1.8})
	f("on-off:on=10s,off=20s", map[time.Duration]float64{0: 1, 9 * sec: 1, 10 * sec: 0, 29 * sec: 0, 30 * sec: 1})
	if shape(scenario.Shape{}) != nil {
		t.Error("no shape is one")
	}
}

// What a plan says of a shaped rate: requests by the integral of the rate, and how
// long a number of them takes.
func TestPlansOfShapes(t *testing.T) {
	spikes := shape(scenario.Shape{Kind: scenario.Spikes, To: 5, Every: time.Minute, For: 10 * time.Second})
	s := load.Step{Rate: 2, Shape: spikes, Warmup: 30 * time.Second, Duration: 2 * time.Minute}
	if n := requests(&s); n != 60+2*(100+100) {
		t.Errorf("%d requests in two minutes of spikes and half a minute of warm-up, want 460", n)
	}
	s.Duration, s.Requests = 0, 400
	if n, d := requests(&s), window(&s); n != 460 || d != 2*time.Minute {
		t.Errorf("400 requests of the window are %d in all and take %v, want 460 and 2m", n, d)
	}
	st := staged(load.Step{}, []scenario.Stage{{Length: 30 * time.Second, From: 10, To: 10}, {Length: time.Minute, From: 10, To: 50}, {Length: 30 * time.Second}})
	if n := requests(&st); n != 300+1800 || st.Duration != 2*time.Minute || st.Rate != 17.5 {
		t.Errorf("stages are %d requests at a mean of %g in %v, want 2100, 17.5 and 2m", n, st.Rate, st.Duration)
	}
}
