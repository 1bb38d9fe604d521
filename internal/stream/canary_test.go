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
