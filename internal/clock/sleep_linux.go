package clock

import (
	"container/heap"
	"context"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// sleeper wakes any number of sleeping goroutines from one timerfd in the
// runtime's network poller. The kernel fires it to the microsecond, where the
// poller's own time-out, which all of the runtime's timers share, is rounded up
// to a millisecond.
//
// A goroutine reads the timer only while somebody sleeps, so that a clock needs
// no closing; the descriptor goes with the garbage collector (os.File).
type sleeper struct {
	file *os.File
	fd   int

	mu      sync.Mutex // guards the fields below
	waiting wakeups
	running bool
}

// wakeup is one sleeping goroutine.
type wakeup struct {
	at    int64
	index int // in the heap, -1 once woken
	done  chan struct{}
}

var wakeupPool = sync.Pool{New: func() any { return &wakeup{done: make(chan struct{}, 1)} }}

func newSleeper() *sleeper {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil // a sandbox without timerfd: the runtime's timers do
	}
	return &sleeper{file: os.NewFile(uintptr(fd), "timerfd"), fd: fd}
}

// runtimeClockIsFake reports whether the runtime's clock is not the kernel's.
// A bubble's clock starts in the year 2000.
func runtimeClockIsFake(now time.Time) bool {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &ts); err != nil {
		return true
	}
	d := now.UnixNano() - ts.Nano()
	return d < -int64(time.Hour) || d > int64(time.Hour)
}

// sleep blocks until t on c or the end of ctx. It returns false when the timer
// does not work and the caller has to sleep in another way.
func (s *sleeper) sleep(ctx context.Context, c *Clock, t int64) (bool, error) {
	w := wakeupPool.Get().(*wakeup)
	w.at = t
	s.mu.Lock()
	heap.Push(&s.waiting, w)
	if s.waiting[0] == w && !s.arm(c) {
		heap.Remove(&s.waiting, w.index)
		s.mu.Unlock()
		wakeupPool.Put(w)
		return false, nil
	}
	if !s.running {
		s.running = true
		go s.run(c)
	}
	s.mu.Unlock()

	select {
	case <-w.done:
		wakeupPool.Put(w)
		return true, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	if w.index >= 0 {
		heap.Remove(&s.waiting, w.index)
		if len(s.waiting) == 0 {
			s.arm(c) // wakes the reader, which then ends
		}
	} else {
		<-w.done // woken at the same moment: the channel must be empty for reuse
	}
	s.mu.Unlock()
	wakeupPool.Put(w)
	return true, ctx.Err()
}

// arm sets the timer to the earliest wakeup, or to fire at once when there is
// none. The caller holds s.mu.
func (s *sleeper) arm(c *Clock) bool {
	d := int64(1)
	if len(s.waiting) > 0 {
		d = max(1, s.waiting[0].at-c.Now())
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(d)}
	return unix.TimerfdSettime(s.fd, 0, &spec, nil) == nil
}

// run wakes sleepers until none is left.
func (s *sleeper) run(c *Clock) {
	var expirations [8]byte
	for {
		_, err := s.file.Read(expirations[:])
		s.mu.Lock()
		// A read that fails is answered by waking everybody: SleepUntil would
		// rather be checked again by its caller than never return. It cannot
		// happen while the file is open.
		now := c.Now()
		for len(s.waiting) > 0 && (err != nil || s.waiting[0].at <= now) {
			w := heap.Pop(&s.waiting).(*wakeup)
			w.done <- struct{}{}
		}
		if len(s.waiting) == 0 {
			s.running = false
			s.mu.Unlock()
			return
		}
		s.arm(c)
		s.mu.Unlock()
	}
}

// wakeups is a heap by time.
type wakeups []*wakeup

func (h wakeups) Len() int           { return len(h) }
func (h wakeups) Less(i, j int) bool { return h[i].at < h[j].at }
func (h wakeups) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *wakeups) Push(x any) {
	w := x.(*wakeup)
	w.index = len(*h)
	*h = append(*h, w)
}

func (h *wakeups) Pop() any {
	old := *h
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	w.index = -1
	return w
}
