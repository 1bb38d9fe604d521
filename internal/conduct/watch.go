package conduct

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	"plimsoll/internal/signal"
)

// watchInterval is how often this process looks at itself.
const watchInterval = 250 * time.Millisecond

// usage is the processor time of this process at one moment of the run.
type usage struct{ at, cpu int64 } // ns on the run's clock, ns of user and system time

// pause is one stop of the world by the garbage collector.
type pause struct{ end, ns int64 } // end in ns on the run's clock

// watch looks at what this process itself used while the run went on: the
// client must not become the bottleneck unseen. It has one goroutine, which
// stop waits for.
type watch struct {
	now    func() int64
	start  time.Time // the instant of now() == 0
	cancel context.CancelFunc
	done   sync.WaitGroup

	// sink takes the share of the processors that was used, under series, once a
	// second; nil where nothing is kept of it. said is the look of the last time.
	sink   signal.Sink
	series int32
	said   usage

	// Written by the goroutine alone, read after stop.
	samples []usage
	pauses  []pause
	gcs     int64
}

// startWatch begins to look. Sink, unless nil, takes the course of the processor
// time as a signal of the source of an index.
func startWatch(now func() int64, start time.Time, sink signal.Sink, source int) *watch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{now: now, start: start, cancel: cancel, sink: sink}
	if sink != nil {
		w.series = sink.Declare(signal.Series{Source: source, Signal: signal.ClientCPU})
	}
	var gc debug.GCStats
	debug.ReadGCStats(&gc)
	w.gcs = gc.NumGC
	w.look()
	w.done.Go(func() {
		t := time.NewTicker(watchInterval)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				w.look()
				return
			case <-t.C:
				w.look()
			}
		}
	})
	return w
}

func (w *watch) look() {
	if cpu, ok := processTime(); ok {
		w.samples = append(w.samples, usage{at: w.now(), cpu: cpu})
		w.say()
	}
	var gc debug.GCStats
	debug.ReadGCStats(&gc)
	// The runtime keeps the last 256 pauses, the newest first, by the wall clock, which may
	// be set at any time: what counts is how long ago each ended.
	at := time.Now()
	n := min(gc.NumGC-w.gcs, int64(len(gc.Pause)), int64(len(gc.PauseEnd)))
	for i := n - 1; i >= 0; i-- {
		w.pauses = append(w.pauses, pause{end: int64(at.Sub(w.start) - at.Sub(gc.PauseEnd[i])), ns: int64(gc.Pause[i])})
	}
	w.gcs = gc.NumGC
}

// say tells the sink of the last second.
func (w *watch) say() {
	last := w.samples[len(w.samples)-1]
	switch dt := last.at - w.said.at; {
	case w.sink == nil:
	case len(w.samples) == 1:
		w.said = last
	case dt >= int64(time.Second)-int64(watchInterval)/2:
		share := float64(last.cpu-w.said.cpu) / float64(dt) / float64(runtime.GOMAXPROCS(0))
		// Its time is the middle of the two.
		w.sink.Add([]signal.Sample{{Series: w.series, Start: w.said.at, End: last.at, Value: max(0, share)}})
		w.said = last
	}
}

// stop ends the looking and waits for it.
func (w *watch) stop() {
	w.cancel()
	w.done.Wait()
}

// cpuShare returns the share of the processors that this process may use which
// it did use between two times, and false when it was not watched that long.
func (w *watch) cpuShare(from, to int64) (float64, bool) {
	a, okA := w.cpuAt(from)
	b, okB := w.cpuAt(to)
	if !okA || !okB || to <= from {
		return 0, false
	}
	return float64(b-a) / float64(to-from) / float64(runtime.GOMAXPROCS(0)), true
}

// cpuAt returns the processor time used up to a moment, on the straight line
// between the two looks around it; moments outside are moved to the nearest look
// when that is at most one interval away.
func (w *watch) cpuAt(t int64) (int64, bool) {
	i, found := slices.BinarySearchFunc(w.samples, t, func(u usage, t int64) int {
		switch {
		case u.at < t:
			return -1
		case u.at > t:
			return 1
		}
		return 0
	})
	switch {
	case len(w.samples) == 0:
		return 0, false
	case found:
		return w.samples[i].cpu, true
	case i == 0:
		return w.samples[0].cpu, w.samples[0].at-t <= int64(watchInterval)
	case i == len(w.samples):
		last := w.samples[i-1]
		return last.cpu, t-last.at <= int64(watchInterval)
	}
	a, b := w.samples[i-1], w.samples[i]
	return a.cpu + int64(float64(b.cpu-a.cpu)*float64(t-a.at)/float64(b.at-a.at)), true
}

// gcPauses returns the pauses in ns that ended between two times.
func (w *watch) gcPauses(from, to int64) []int64 {
	var out []int64
	for _, p := range w.pauses {
		if p.end >= from && p.end < to {
			out = append(out, p.ns)
		}
	}
	return out
}

// processTime returns the user and system time of this process in ns.
func processTime() (int64, bool) {
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		return 0, false
	}
	return ru.Utime.Nano() + ru.Stime.Nano(), true
}
