package telemetry

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"plimsoll/internal/clock"
)

// TestAskClocks reads a server whose clock is off and which only says the second:
// a few requests between the points of the grid tell it to some ms.
func TestAskClocks(t *testing.T) {
	for _, x := range []struct {
		name  string
		ahead time.Duration
		way   time.Duration
		ask   bool
		most  time.Duration // uncertainty
		extra int           // requests beside the grid, at most
	}{
		{"ahead", 2345 * ms, ms, true, 20 * ms, 9},
		{"behind", -61_789 * ms, 3 * ms, true, 20 * ms, 9},
		{"not asked", 2345 * ms, ms, false, time.Second, 0},
		{"too slow to ask", 2345 * ms, 15 * ms, false, time.Second, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			fake(t, func(t *testing.T, net *servers, c *clock.Clock) {
				requests := 0
				net.handle("a:80", func(w http.ResponseWriter, _ *http.Request) {
					requests++
					sleep(c, time.Duration(c.Now())+x.way)
					w.Header().Set("Date", time.Now().Add(x.ahead).UTC().Format(http.TimeFormat))
					text(w, running(1))
					sleep(c, time.Duration(c.Now())+x.way)
				})
				var sink sinkLog
				s := newScraper(t, Config{Clock: c, Sink: &sink, Dial: net.Dial, AskClocks: x.ask || x.way > 10*ms, Targets: []Target{{URL: "http://a/metrics"}}})
				s.Baseline(t.Context())
				s.Start(t.Context())
				sleep(c, 30*time.Second+500*ms)
				s.Final(t.Context())
				// 30 points of the grid, the baseline and the final one.
				if extra := requests - 32; extra > x.extra || x.ask && extra < 5 {
					t.Errorf("%d requests beside the grid", extra)
				}
				o := clock.NewOffset(c.Start())
				for _, r := range s.Info()[0].Clock {
					o.Observe(r.Start, r.End, r.Server, r.Resolution)
				}
				offset, uncertainty, ok := o.At(c.Now())
				if off := time.Duration(offset) - x.ahead; !ok || off > x.most || off < -x.most || time.Duration(uncertainty) > x.most {
					t.Errorf("off by %v +- %v, found %v", x.ahead, time.Duration(uncertainty), time.Duration(offset))
				}
				if len(o.Steps()) > 0 {
					t.Errorf("the clock was set at %v", o.Steps())
				}
				// The grid is as it was, and every reading of the clock is a sample.
				grid := sink.starts(0)
				for i := range 30 {
					if !slices.Contains(grid, time.Duration(i+1)*time.Second) {
						t.Errorf("no reading at %d s", i+1)
					}
				}
				if n := len(sink.of(0, ClockSeries, "kind=date")); n != requests {
					t.Errorf("%d readings of the clock from %d requests", n, requests)
				}
			})
		})
	}
}

// TestAskClocksInVain has a server that hands out the same Date for a second, as
// uvicorn does: it is believed to two seconds and not asked for ever.
func TestAskClocksInVain(t *testing.T) {
	fake(t, func(t *testing.T, net *servers, c *clock.Clock) {
		requests := 0
		start := time.Now()
		net.handle("a:80", func(w http.ResponseWriter, _ *http.Request) {
			requests++
			kept := time.Since(start) / time.Second * time.Second // made once a second
			w.Header().Set("Date", start.Add(kept).Add(700*ms).UTC().Format(http.TimeFormat))
			w.Header().Set("Server", "uvicorn")
			text(w, running(1))
		})
		var sink sinkLog
		s := newScraper(t, Config{Clock: c, Sink: &sink, Dial: net.Dial, AskClocks: true, Targets: []Target{{URL: "http://a/metrics"}}})
		s.Baseline(t.Context())
		s.Start(t.Context())
		sleep(c, 60*time.Second+500*ms)
		s.Final(t.Context())
		if extra := requests - 62; extra > clockTries {
			t.Errorf("%d requests beside the grid", extra)
		}
		o := clock.NewOffset(c.Start())
		for _, r := range s.Info()[0].Clock {
			o.Observe(r.Start, r.End, r.Server, r.Resolution)
		}
		if offset, u, ok := o.At(c.Now()); !ok || time.Duration(offset-u) > 700*ms || time.Duration(offset+u) < 700*ms {
			t.Errorf("found %v +- %v", time.Duration(offset), time.Duration(u))
		}
		if n := len(sink.of(0, ClockSeries, "kind=date,resolution=2.2s")); n != requests {
			t.Errorf("%d readings of the clock from %d requests", n, requests)
		}
	})
}
