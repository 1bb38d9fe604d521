package live

import (
	"sync"
	"sync/atomic"

	"plimsoll/internal/record"
	"plimsoll/internal/signal"
)

// Bounds of what may wait to be looked at, some 50 MB of each: it is looked at
// four times a second.
const (
	mostRequests = 1 << 15
	mostEvents   = 1 << 20
	mostSamples  = 1 << 20
	// keptEvents bounds the events of a request whose memory is kept for another.
	keptEvents = 1 << 12
)

// queue holds the requests that ended and have not been looked at. It is safe for
// concurrent use.
type queue struct {
	dropped atomic.Int64

	mu     sync.Mutex // guards the fields below
	list   []*record.Request
	free   []*record.Request
	events int // of the list, and of what is being copied into it
	room   int // how many more requests may come
}

// put queues a copy of r, or counts it as dropped.
func (q *queue) put(r *record.Request) {
	q.mu.Lock()
	if q.room == 0 || q.events+len(r.Events) > mostEvents {
		q.mu.Unlock()
		q.dropped.Add(1)
		return
	}
	q.room--
	q.events += len(r.Events)
	var c *record.Request
	if n := len(q.free); n > 0 {
		c, q.free = q.free[n-1], q.free[:n-1]
	} else {
		c = new(record.Request)
	}
	q.mu.Unlock()
	events := append(c.Events[:0], r.Events...)
	*c = *r
	c.Events = events
	c.Text, c.ReasoningText, c.RefusalText = nil, "", "" // nobody shows them live
	q.mu.Lock()
	q.list = append(q.list, c)
	q.mu.Unlock()
}

// take returns what is queued; it is given back with done.
func (q *queue) take(into []*record.Request) []*record.Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	into = append(into, q.list...)
	clear(q.list)
	q.list = q.list[:0]
	return into
}

// done gives back what was taken.
func (q *queue) done(list []*record.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range list {
		q.events -= len(c.Events)
		q.room++
		if cap(c.Events) <= keptEvents {
			q.free = append(q.free, c)
		}
	}
}

// tap passes telemetry on and keeps a copy of what has not been looked at. It is
// safe for concurrent use.
type tap struct {
	next    signal.Sink
	dropped atomic.Int64

	mu      sync.Mutex // guards the fields below, and the order of declarations
	series  []signal.Series
	samples []signal.Sample
}

func (t *tap) Declare(s signal.Series) int32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.next.Declare(s)
	for int(i) > len(t.series) {
		t.series = append(t.series, signal.Series{Source: s.Source}) // of somebody else: no sample of it comes here
	}
	if int(i) == len(t.series) {
		t.series = append(t.series, s)
	}
	return i
}

func (t *tap) Add(samples []signal.Sample) {
	t.next.Add(samples)
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range samples {
		if int(samples[i].Series) >= len(t.series) || len(t.samples) >= mostSamples {
			t.dropped.Add(int64(len(samples) - i))
			return
		}
		t.samples = append(t.samples, samples[i])
	}
}

// take returns the series from the known-th on, and the samples in place of
// spare's.
func (t *tap) take(known int, spare []signal.Sample) (series []signal.Series, samples []signal.Sample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	series = t.series[known:len(t.series):len(t.series)]
	samples, t.samples = t.samples, spare[:0]
	return series, samples
}
