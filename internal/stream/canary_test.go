package stream

import (
	"testing"
	"time"
)

// TestCanary lets both forms run for a moment. What they measure is the
// machine's; here it only matters that they measure at the right pace.
func TestCanary(t *testing.T) {
	for _, off := range []bool{false, true} {
		began := time.Now()
		c := NewCanary(Config{NoKernelTimes: off})
		if c.Kernel != (kernelTimesHere && !off) {
			t.Errorf("kernel times %v", c.Kernel)
		}
		time.Sleep(300 * time.Millisecond) // real time: a real socket and timer
		untilLags(t, c, 5)
		c.Stop()
		// The time that went by, not the time that was asked for: a busy machine
		// sleeps longer, and holds up a look as long as it likes; and a wall clock that
		// was set makes a lag of what it was set by.
		took := max(time.Since(began), time.Now().Round(0).Sub(began.Round(0)))
		lags := c.Lags()
		if n := int64(lags.Count()); n > 2+int64(took/(7500*time.Microsecond)) {
			t.Errorf("%d lags in %v, want at most one each 7.5 ms", n, took)
		}
		if lags.Max() <= 0 || lags.Max() > 2*int64(took) {
			t.Errorf("largest lag %d ns in %v", lags.Max(), took)
		}
		t.Logf("kernel %v: %d lags, p50 %d us, p99 %d us", c.Kernel, lags.Count(), lags.Quantile(0.5)/1000, lags.Quantile(0.99)/1000)
	}
}

// TestCanaryIgnores holds a canary to leaving out what came before a time.
func TestCanaryIgnores(t *testing.T) {
	for _, off := range []bool{false, true} {
		start := time.Now()
		now := func() int64 { return int64(time.Since(start)) }
		c := NewCanary(Config{NoKernelTimes: off, Now: now, Start: start})
		untilLags(t, c, 1)
		c.Ignore(now() + int64(time.Hour))
		before := c.Lags().Count()
		time.Sleep(100 * time.Millisecond) // real time: a real socket and timer
		if n := c.Lags().Count(); n != before {
			t.Errorf("%d lags more although the time has not come", n-before)
		}
		c.Ignore(now())
		untilLags(t, c, before+3)
		c.Stop()
	}
}

// untilLags waits for the canary to have looked so many times.
func untilLags(t *testing.T, c *Canary, n uint64) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); c.Lags().Count() < n; time.Sleep(5 * time.Millisecond) { // real time: a real socket and timer
		if time.Now().After(deadline) {
			t.Fatalf("%d lags within a minute, want %d", c.Lags().Count(), n)
		}
	}
}
