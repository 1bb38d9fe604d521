package conduct

import (
	"sync"

	"plimsoll/internal/signal"
)

// ServerNow is what the servers said last, over all of them; nil where they say
// nothing.
type ServerNow struct {
	// Running and Waiting are requests; KV is the share of the fullest KV cache in
	// use, 0 to 1.
	Running, Waiting, KV *float64
}

// tap passes telemetry on and remembers the last values of what is shown while the
// run goes on. Safe for concurrent use.
type tap struct {
	next signal.Sink

	mu sync.Mutex
	// watched has the place in last, plus one, of each series that is shown.
	watched []int32
	last    []lastValue
}

// lastValue is the last value of one series.
type lastValue struct {
	id    signal.ID
	at    int64 // ns on the run's clock
	value float64
}

func (t *tap) Declare(s signal.Series) int32 {
	i := t.next.Declare(s)
	switch s.Signal {
	case signal.RequestsRunning, signal.RequestsWaiting, signal.KVCacheUsage:
	default:
		return i
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for int(i) >= len(t.watched) {
		t.watched = append(t.watched, 0)
	}
	if t.watched[i] == 0 {
		t.last = append(t.last, lastValue{id: s.Signal, at: -1})
		t.watched[i] = int32(len(t.last))
	}
	return i
}

func (t *tap) Add(samples []signal.Sample) {
	t.next.Add(samples)
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range samples {
		s := &samples[i]
		if int(s.Series) >= len(t.watched) || t.watched[s.Series] == 0 {
			continue
		}
		v := &t.last[t.watched[s.Series]-1]
		v.at, v.value = s.End, s.Value
	}
}

// now returns what was said from time since of the run's clock on; nil for nothing.
func (t *tap) now(since int64) *ServerNow {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out ServerNow
	add := func(to **float64, v float64) {
		if *to == nil {
			*to = new(float64)
		}
		**to += v
	}
	for i := range t.last {
		v := &t.last[i]
		if v.at < since || v.at < 0 {
			continue
		}
		switch v.id {
		case signal.RequestsRunning:
			add(&out.Running, v.value)
		case signal.RequestsWaiting:
			add(&out.Waiting, v.value)
		case signal.KVCacheUsage:
			if out.KV == nil || *out.KV < v.value {
				out.KV = new(v.value)
			}
		}
	}
	if out == (ServerNow{}) {
		return nil
	}
	return &out
}
