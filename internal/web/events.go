package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"plimsoll/internal/live"
)

// overlap is how many snapshots a client gets again that does not say what it has
// seen: it read the run's data a moment before, and may not miss what came between.
const overlap = 5

// events tells of a run under way, once a second. A client that comes back says by
// Last-Event-ID what it has seen, and misses nothing that is still kept, also when the
// run has ended meanwhile.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	ring, done, over := s.work.snapshots(id)
	if over { // it may have been deleted since
		if err := checkID(id); err != nil {
			return err
		}
		if _, is := s.stamp(id); !is {
			return noRun(id)
		}
	}
	after := int64(-1)
	if ring != nil {
		if s := ring.Newest(); s != nil {
			after = max(s.N-overlap, 0)
		}
	}
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		last = r.URL.Query().Get("after")
	}
	if last != "" {
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil || n < 0 {
			return wrong("Last-Event-ID", "%q: want the number of a snapshot", last)
		}
		after = n
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return nil // it has no end to wait for
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		h.Del("X-Accel-Buffering")
		h.Set("Retry-After", "10")
		return &Problem{Status: http.StatusServiceUnavailable, Text: "there are as many streams as there may be", Fix: "close another window"}
	}
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Time{}) // fails in tests: the time for a request does not count for its answer
	w.WriteHeader(http.StatusOK)
	e := stream{w: w, c: c, time: s.limits.event}
	if ring == nil || over && last == "" {
		e.send("event: end\ndata: {}\n\n") // nothing goes on
		return nil
	}
	e.send("retry: 1000\n\n")
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	for reader := ring.Reader(after); e.err == nil; {
		wait, stop := context.WithTimeout(ctx, s.limits.beat)
		snap, err := reader.Next(wait)
		stop()
		switch {
		case err == nil:
			e.send("id: " + strconv.FormatInt(snap.N, 10) + "\nevent: snapshot\ndata: " + string(snap.JSON()) + "\n\n")
		case errors.Is(err, live.ErrResync):
			e.send("event: resync\ndata: {}\n\n")
		case errors.Is(err, io.EOF):
			// The rest is written a moment after the last snapshot.
			select {
			case <-done:
			case <-ctx.Done():
			}
			e.send("event: end\ndata: {}\n\n")
			return nil
		case ctx.Err() != nil:
			return nil
		default:
			e.send(": still here\n\n")
		}
	}
	return nil
}

// stream writes events until the first error.
type stream struct {
	w    http.ResponseWriter
	c    *http.ResponseController
	time time.Duration // of one event
	err  error
}

func (e *stream) send(text string) {
	if e.err != nil {
		return
	}
	_ = e.c.SetWriteDeadline(time.Now().Add(e.time)) // fails in tests
	if _, e.err = io.WriteString(e.w, text); e.err == nil {
		e.err = e.c.Flush()
	}
}
