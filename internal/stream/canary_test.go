package stream

import (
	"testing"
	"time"
)

// TestCanary lets both forms run for a moment. What they measure is the
// machine's; here it only matters that they measure at the right pace.
func TestCanary(t *testing.T) {
	for _, off := range []bool{false, true} {
		c := NewCanary(Config{NoKernelTimes: off})
		if c.Kernel != (kernelTimesHere && !off) {
			t.Errorf("kernel times %v", c.Kernel)
		}
		time.Sleep(300 * time.Millisecond) // real time: a real socket and timer
		c.Stop()
		lags := c.Lags()
		if n := lags.Count(); n < 5 || n > 40 {
			t.Errorf("%d lags in 0.3 s, want some 30", n)
		}
		if lags.Max() <= 0 || lags.Max() > int64(time.Second) {
			t.Errorf("largest lag %d ns", lags.Max())
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
		c.Ignore(now() + int64(time.Hour))
		time.Sleep(100 * time.Millisecond) // real time: a real socket and timer
		if n := c.Lags().Count(); n > 5 {
			t.Errorf("%d lags although the time has not come", n)
		}
		before := c.Lags().Count()
		c.Ignore(now())
		time.Sleep(200 * time.Millisecond) // real time: likewise
		c.Stop()
		if n := c.Lags().Count(); n < before+3 {
			t.Errorf("%d lags, %d of them before the time", n, before)
		}
	}
}
