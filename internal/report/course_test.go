package report

import (
	"math"
	"strings"
	"testing"

	"plimsoll/internal/signal"
)

func TestChart(t *testing.T) {
	nan := math.NaN()
	f := func(values []float64, n int, least, most float64, want string) {
		t.Helper()
		if got := chart(values, n, least, most); got != want {
			t.Errorf("%v: %q, want %q", values, got, want)
		}
	}
	f([]float64{0, 1, 2, 3, 4, 5, 6, 7}, 8, 0, 7, "▁▂▃▄▅▆▇█")
	f([]float64{0, 0, 8, nan, nan, nan, 8, 8}, 4, 0, 8, "▁█ █")
	f([]float64{0, 8}, 18, 0, 8, "▁█")
	f([]float64{3, 3, nan}, 3, 3, 3, "▄▄ ")
	f([]float64{0, 0}, 2, 0, 0, "▁▁")
	f(nil, 8, 0, 0, "")
}

func TestSignals(t *testing.T) {
	nan := math.NaN()
	ramp := func(to float64) []float64 {
		var v []float64
		for i := range 60 {
			v = append(v, to*float64(i)/59)
		}
		return v
	}
	c := &Courses{Start: 0, Step: 1, List: []Course{
		{Signal: "requests_running", Unit: "requests", Group: signal.Engine, Values: ramp(64), Beside: &Course{Signal: "client.requests_in_flight", Unit: "requests", Values: ramp(66)}},
		{Signal: "kv_cache_usage", Of: "engine=1", Unit: "1", Group: signal.Engine, Values: append([]float64{nan, nan, nan, nan}, ramp(0.93)...)},
		{Signal: "ttft", Unit: "s", Group: signal.Engine, Values: ramp(0.25), Beside: &Course{Signal: "client.ttft", Unit: "s", Values: ramp(2.5)}},
		{Signal: "fb_used", Unit: "bytes", Group: signal.Accelerator, Values: ramp(8.1e10)},
		{Signal: "throttled", Unit: "1", State: true, Group: signal.Accelerator, Values: []float64{0, 1}},
		{Signal: "a_signal_with_a_very_long_name", Of: "gpu=0,host=node-with-a-long-name.example.com,uuid=GPU-1234567", Unit: "tokens/s", Group: signal.Host, Values: []float64{nan}},
		{Signal: "power", Unit: "W", Group: signal.Accelerator, Values: ramp(12_345)},
	}, Notes: []string{"a note"}}
	var b strings.Builder
	if err := Signals(&b, c); err != nil {
		t.Fatal(err)
	}
	golden(t, "signals", b.String())
	b.Reset()
	if err := Signals(&b, &Courses{}); err != nil || !strings.Contains(b.String(), "none were read") {
		t.Errorf("%v %q", err, b.String())
	}
}
