package telemetry

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"plimsoll/internal/clock"
)

// TestGridHolds has servers of any speed that fail at any time: every reading begins at a multiple of the period asked for, at most one is
// under way, each point of the grid is read or counted as skipped while the period stays, and all is noted.
func TestGridHolds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		every := time.Duration(rapid.SampledFrom([]int{50, 100, 1000}).Draw(rt, "every")) * ms
		delays := rapid.SliceOfN(rapid.IntRange(0, 400), 1, 20).Draw(rt, "delays (hundredths of the period)")
		fails := rapid.SliceOfN(rapid.Bool(), len(delays), len(delays)).Draw(rt, "fails")
		synctest.Test(t, func(t *testing.T) {
			var net servers
			defer net.close()
			c := clock.NewFake()
			n, under := 0, 0
			net.handle("a:80", func(w http.ResponseWriter, _ *http.Request) {
				i := n % len(delays)
				n++
				if under++; under > 1 {
					rt.Error("two readings at once")
				}
				time.Sleep(every * time.Duration(delays[i]) / 100)
				under--
				if fails[i] {
					w.WriteHeader(http.StatusInternalServerError)
					return
				}
				text(w, running(1))
			})
			var sink sinkLog
			s, err := New(Config{Clock: c, Sink: &sink, Dial: net.Dial, Every: every, Targets: []Target{{URL: "http://a/metrics"}}})
			if err != nil {
				rt.Fatal(err)
			}
			s.Start(t.Context())
			sleep(c, 40*every+every/2)
			s.Close()
			info := s.Info()[0]
			starts := sink.starts(0)
			if int64(len(starts)) != info.Scrapes+info.Failures || len(starts) == 0 {
				rt.Errorf("%d readings, %d and %d noted", len(starts), info.Scrapes, info.Failures)
			}
			for i, at := range starts {
				if at%every != 0 || i > 0 && at <= starts[i-1] {
					rt.Errorf("reading %d at %v", i, at)
				}
			}
			if p := info.Period / info.PeriodAsked; info.Period%info.PeriodAsked != 0 || p&(p-1) != 0 || p > 200 {
				rt.Errorf("period %d of %d", info.Period, info.PeriodAsked)
			}
			// A reading that the end cut short is in neither.
			last, points := int64(starts[len(starts)-1]/every), int64(len(starts))+info.Skipped
			if info.BackoffCount == 0 && (points < last || points > 40) {
				rt.Errorf("%d readings and %d skipped, the last at point %d of 40", len(starts), info.Skipped, last)
			}
			var up int64
			for _, x := range sink.of(0, "scrape_up", "") {
				up += int64(x.Value)
			}
			if up != info.Scrapes || len(sink.of(0, "requests_running", "*")) != int(up) {
				rt.Errorf("%d up of %d", up, info.Scrapes)
			}
		})
	})
}
