package live

import (
	"context"
	"errors"
	"io"
	"sync"
)

// Kept is how many snapshots are kept for readers that come late.
const Kept = 900

// ErrResync tells a reader that snapshots it has not seen are no longer kept: what
// it shows must be read again as a whole.
var ErrResync = errors.New("snapshots were missed: read the run again")

// Ring keeps the last snapshots of a run. It is safe for concurrent use, and can be
// read when the run and its Watch are gone.
type Ring struct {
	mu   sync.Mutex // guards the fields below
	list []*Snapshot
	last int64         // the number of the newest
	more chan struct{} // closed when another one comes
	over bool
}

// add takes the next snapshot, whose number it sets.
func (r *Ring) add(s *Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	s.N = r.last
	if len(r.list) < Kept {
		r.list = append(r.list, s)
	} else {
		r.list[(r.last-1)%Kept] = s
	}
	r.wake()
}

// end says that no more come.
func (r *Ring) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	r.wake()
}

func (r *Ring) wake() {
	if r.more != nil {
		close(r.more)
		r.more = nil
	}
}

// Reader returns a reader of the snapshots after the one of a number; below 0 from
// the newest on.
func (r *Ring) Reader(after int64) *Reader { return &Reader{ring: r, after: after} }

// Newest returns the newest snapshot, nil before the first.
func (r *Ring) Newest() *Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == 0 {
		return nil
	}
	return r.list[(r.last-1)%Kept]
}

// Reader goes through the snapshots of a Watch at its own pace. It is for one
// goroutine.
type Reader struct {
	ring *Ring
	// after is the number of the last snapshot that was read; below 0 the newest is
	// the next.
	after int64
}

// Next returns the next snapshot, for which it waits. The error is ErrResync after
// a gap, once, and the newest snapshot comes next; io.EOF after the last; or that
// of ctx.
func (r *Reader) Next(ctx context.Context) (*Snapshot, error) {
	g := r.ring
	for {
		g.mu.Lock()
		switch {
		case r.after < 0 && g.last > 0:
			r.after = g.last - 1
		case r.after > g.last || r.after >= 0 && g.last-r.after > Kept:
			// Too long ago, or of another run.
			r.after = -1
			g.mu.Unlock()
			return nil, ErrResync
		}
		if r.after >= 0 && g.last > r.after {
			s := g.list[r.after%Kept]
			r.after++
			g.mu.Unlock()
			return s, nil
		}
		if g.over {
			g.mu.Unlock()
			return nil, io.EOF
		}
		if g.more == nil {
			g.more = make(chan struct{})
		}
		more := g.more
		g.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
