package conduct

import (
	"math"
	"runtime"
	"testing"
	"time"
)

func TestCPUShare(t *testing.T) {
	cores := float64(runtime.GOMAXPROCS(0))
	// 40 % of one core for 1 s, then all of one core for 1 s.
	w := &watch{samples: []usage{{0, 100e6}, {1e9, 500e6}, {2e9, 1500e6}}}
	f := func(from, to int64, want float64, ok bool) {
		t.Helper()
		got, gotOK := w.cpuShare(from, to)
		if gotOK != ok || (ok && math.Abs(got-want/cores) > 1e-12) {
			t.Errorf("cpuShare(%d, %d) = %v, %v; want %v of a core, %v", from, to, got, gotOK, want, ok)
		}
	}
	f(0, 1e9, 0.4, true)
	f(1e9, 2e9, 1, true)
	f(0, 2e9, 0.7, true)
	f(500e6, 1500e6, 0.7, true)
	f(1e9, 1e9, 0, false)
	f(0, 3e9, 0, false) // it was not watched that long
	f(-1e9, 2e9, 0, false)
	if _, ok := (&watch{}).cpuShare(0, 1); ok {
		t.Error("a share without a single look")
	}
}

// TestWatch: a process that works shows processor time and the pauses of the
// collections that happened while it was watched.
func TestWatch(t *testing.T) {
	start := time.Now()
	now := func() int64 { return int64(time.Since(start)) }
	w := startWatch(now, start, nil, 0)
	n := 0.0
	for time.Since(start) < 50*time.Millisecond {
		n += math.Sqrt(n + 1)
	}
	runtime.GC()
	runtime.GC()
	w.stop()
	end := now()
	share, ok := w.cpuShare(0, end)
	if !ok || share <= 0 || share > 1.5 {
		t.Errorf("cpuShare = %v, %v (work %v)", share, ok, n)
	}
	if p := w.gcPauses(0, end+1); len(p) < 2 {
		t.Errorf("%d pauses of 2 or more collections", len(p))
	}
}
