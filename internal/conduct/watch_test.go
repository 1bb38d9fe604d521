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
	cpu := func() int64 {
		ns, ok := processTime()
		if !ok {
			t.Skip("this system does not say how much processor time a process has used")
		}
		return ns
	}
	before := cpu()
	w := startWatch(now, start, nil, 0)
	begun := cpu()
	n := 0.0
	for i := 0; i < 1e5 && cpu()-begun < int64(50*time.Millisecond); i++ {
		for range 100_000 {
			n += math.Sqrt(n + 1)
		}
	}
	runtime.GC()
	runtime.GC()
	ended := cpu()
	w.stop()
	after := cpu()
	// However long anything took: between its first and its last look it saw what the
	// process used, no less than in the work within and no more than around it all.
	from, to := w.samples[0].at, w.samples[len(w.samples)-1].at
	share, ok := w.cpuShare(from, to)
	used := int64(math.Round(share * float64(to-from) * float64(runtime.GOMAXPROCS(0))))
	if !ok || ended-begun < int64(50*time.Millisecond) || used < ended-begun-1 || used > after-before+1 {
		t.Errorf("cpuShare = %v, %v: %d ns of the processors; the work took %d, all of it %d (%v)", share, ok, used, ended-begun, after-before, n)
	}
	if p := w.gcPauses(0, now()+1); len(p) < 2 {
		t.Errorf("%d pauses of 2 or more collections", len(p))
	}
}
