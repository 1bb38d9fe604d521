package load

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"plimsoll/internal/pace"
	"plimsoll/internal/random"
	"plimsoll/internal/record"
	"plimsoll/internal/workload"
)

const (
	// ahead bounds the requests that are prepared before they are due,
	// aheadBytes the bodies of them.
	ahead      = 256
	aheadBytes = 64 << 20
	// maxSessions bounds the sessions at work at once in an open loop; a request
	// that finds as many is a failure of this machine.
	maxSessions = 1 << 16
	// maxRate is the highest rate of one dispatcher, in requests per second.
	maxRate = 1e6
)

// labelArrivals keeps the draws of the arrivals apart from all others.
const labelArrivals = 3

// job is a session whose first request is prepared.
type job struct {
	machine workload.Machine
	first   workload.Action
	body    []byte
	phase   record.Phase
	user    uint32
	id      uint64
	// at is when the session arrived; own says that its request waits for its slot
	// itself.
	at  int64
	own bool
	// waited is the time that the dispatcher spent waiting for a slot for this
	// request, slot whether it got one, crowded whether there was no worker.
	waited        int64
	slot, crowded bool
}

// direct says whether the session begins with a request that is due as it arrives.
func (j *job) direct() bool {
	a := &j.first
	return a.Kind == workload.Send && a.Retrieval == nil && a.At <= j.at
}

// arrivals is the schedule of one step of an open loop.
type arrivals struct {
	schedule *pace.Schedule
	// end is the end of the schedule in ns from the step's start; warm the
	// length of its warm-up; n the number of arrivals after it, 0 when only end
	// counts.
	end, warm int64
	n         int
	drawn     uint64
	streams   bool // the sessions are numbered by stream
}

// arrivals returns the schedule of the step and sets the end of its window. It
// is a function of the seed and the step alone.
func (s *step) arrivals() *arrivals {
	a := &arrivals{schedule: s.schedule(), end: math.MaxInt64, warm: int64(s.res.Warmup), n: s.res.Requests, streams: len(s.res.Streams) > 0}
	if s.res.Times != nil {
		return a
	}
	if s.res.Duration > 0 {
		a.end = a.warm + int64(s.res.Duration)
		return a
	}
	if s.res.Users > 0 {
		return a // those of the users count too
	}
	// The window ends where the arrival after its last would be.
	look := s.schedule()
	for n := 0; n <= a.n; {
		t, ok := look.Next()
		if !ok {
			break
		}
		if t >= a.warm {
			n++
		}
		a.end = t
	}
	s.res.SteadyEnd = s.res.Start + a.end
	return a
}

// schedule returns the step's arrivals from the first on.
func (s *step) schedule() *pace.Schedule {
	if s.res.Times != nil {
		return pace.New(pace.Even{}, s.res.Times)
	}
	if len(s.res.Streams) > 0 {
		return pace.SideBySide(s.res.Streams, random.Derive(s.run.cfg.Seed, labelArrivals, uint64(s.res.Index)), s.res.Warmup)
	}
	gaps, err := pace.ByName(s.res.Arrival, s.res.Burstiness, random.Derive(s.run.cfg.Seed, labelArrivals, uint64(s.res.Index)))
	if err != nil {
		panic("BUG: " + err.Error()) // the configuration was checked
	}
	return pace.New(gaps, pace.Along(s.res.Rate, s.res.Warmup, s.res.Shape))
}

// next returns the time of the next arrival, its number, and that of its session.
func (a *arrivals) next() (at int64, n, session uint64, ok bool) {
	t, ok := a.schedule.Next()
	if !ok || t >= a.end {
		return 0, 0, 0, false
	}
	n = a.drawn
	a.drawn++
	session = n
	if a.streams {
		session = workload.StreamNumber(a.schedule.Last())
	}
	return t, n, session, true
}

// crew are the goroutines of an open loop that carry sessions out. Idle ones
// are kept, the last used first.
type crew struct {
	step *step
	jobs *sync.Pool
	// busy are the sessions at work, all the goroutines.
	busy, all sync.WaitGroup
	// size and spare are the dispatcher's alone: how many workers there are,
	// and one for requests that find none.
	size  int
	spare *worker

	mu   sync.Mutex
	idle []*worker
}

// open dispatches the sessions of an open loop.
func (s *step) open(a *arrivals) {
	queue := make(chan *job, ahead)
	pool := &sync.Pool{New: func() any { return new(job) }}
	c := &crew{step: s, jobs: pool, spare: s.run.newWorker()}
	var bytes atomic.Int64
	room := make(chan struct{}, 1)
	var prepare sync.WaitGroup
	prepare.Go(func() {
		defer close(queue)
		s.prepare(a, queue, pool, &bytes, room)
	})
	s.dispatch(queue, c, func(j *job) {
		bytes.Add(-int64(len(j.body)))
		select {
		case room <- struct{}{}:
		default:
		}
	})
	prepare.Wait()
	c.busy.Wait()
	for _, w := range c.idle { // all of them
		close(w.jobs)
	}
	c.all.Wait()
}

// prepare makes the sessions' first requests ahead of their times. When the run
// is stopped it goes on, without bodies, to what is due by then and was held up
// by a cap: that was scheduled and must be counted.
func (s *step) prepare(a *arrivals, queue chan<- *job, pool *sync.Pool, bytes *atomic.Int64, room <-chan struct{}) {
	for {
		at, n, session, ok := a.next()
		if !ok {
			return
		}
		for bytes.Load() > s.run.ahead && s.run.soft.Err() == nil {
			select {
			case <-room:
			case <-s.run.soft.Done():
			}
		}
		if s.res.Users > 0 && s.more.Err() != nil {
			return // there may be no end to the arrivals
		}
		stopped := s.run.soft.Err() != nil
		if stopped && s.res.Start+at > s.run.cfg.Clock.Now() {
			return
		}
		j := pool.Get().(*job)
		*j = job{body: j.body[:0]}
		j.user = uint32(s.res.Users) + uint32(n)
		j.machine = s.run.cfg.Population.Session(s.res.Index, session)
		j.at = s.res.Start + at
		j.first = j.machine.Start(j.at)
		switch {
		case stopped:
		case !j.direct():
			if j.first.Kind == workload.Send {
				s.run.pantry.expect(j.machine, j.first.Request)
			} else {
				s.run.pantry.foresee(j.machine)
			}
		default:
			j.body = s.run.render(j.body, j.machine, &j.first)
			s.run.pantry.foresee(j.machine)
			bytes.Add(int64(len(j.body)))
		}
		queue <- j // the dispatcher takes all of them
	}
}

// dispatch starts every session at its time. A late one is started at once and
// its time stays what it was. A cap in flight is waited for here, in order, and
// the wait is recorded: also that of the requests that became due behind it. Where
// sessions are more than a request each they wait themselves: one behind another
// may have something else to do first, or be given up.
func (s *step) dispatch(queue <-chan *job, c *crew, taken func(*job)) {
	clock := s.run.cfg.Clock
	var capped int64 // until when the cap held the dispatcher
	for j := range queue {
		a := &j.first
		taken(j)
		if s.run.own && clock.SleepUntil(s.more, j.at) != nil {
			s.run.release(j.body)
			continue // later turns have had what was left, or the run was stopped
		}
		if !j.direct() {
			// A session that begins with something else has all of its requests driven.
			if w := c.take(); w != nil && a.Kind != workload.End {
				c.start(w, j)
			}
			continue
		}
		var ok bool
		if j.phase, ok = s.admit(a); !ok || clock.SleepUntil(s.run.soft, a.At) != nil && a.At > clock.Now() {
			s.run.release(j.body)
			continue
		}
		j.id = s.due(j.phase)
		w := c.take()
		j.crowded = w == nil
		j.slot = !j.crowded && s.run.soft.Err() == nil && s.hard.Err() == nil
		if j.own = s.run.own; s.run.slots != nil && j.slot && !j.own {
			select {
			case s.run.slots <- struct{}{}:
			default:
				j.slot = s.wait(nil)
				capped = clock.Now()
			}
		}
		j.waited = max(0, capped-a.At)
		c.start(w, j)
	}
}

// take returns a worker that has nothing to do, nil when there are too many.
func (c *crew) take() *worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.idle); n > 0 {
		w := c.idle[n-1]
		c.idle = c.idle[:n-1]
		return w
	}
	if c.size == c.step.run.sessions {
		return nil
	}
	c.size++
	w := c.step.run.newWorker()
	w.jobs = make(chan *job, 1)
	c.all.Go(func() { c.work(w) })
	return w
}

// start hands j to w, or says at once that there is no worker for it.
func (c *crew) start(w *worker, j *job) {
	if w == nil {
		c.step.session(c.spare, j)
		c.jobs.Put(j)
		return
	}
	c.busy.Add(1)
	w.jobs <- j
}

// work carries out the sessions that w is given.
func (c *crew) work(w *worker) {
	for j := range w.jobs {
		c.step.session(w, j)
		c.jobs.Put(j)
		c.mu.Lock()
		c.idle = append(c.idle, w)
		c.mu.Unlock()
		c.busy.Done()
	}
}

// session carries out a session whose first request is due.
func (s *step) session(w *worker, j *job) {
	live := s.run.live
	live.users.Add(1)
	defer live.users.Add(-1)
	a := j.first
	v := visit{user: j.user, ended: j.at}
	if j.direct() {
		w.begin(s, &a, j.user, j.phase)
		w.rec.ID, w.rec.CapWait = j.id, j.waited
		fits := w.fits()
		switch {
		case j.crowded:
			w.fail(record.ClientResource, fmt.Sprintf("%d sessions are at work already, and one process carries out no more", s.run.sessions))
			s.finish(w)
			j.body = s.run.release(j.body)
			return
		case !fits: // and the slot is given back
			if j.slot && !j.own && s.run.slots != nil {
				<-s.run.slots
			}
		case !j.slot:
			s.unsent(&w.rec)
		case j.own:
			v.enter(s, a.Session)
			if w.rec.CapWait = 0; s.slot(&w.rec, &a) {
				s.send(w, &a, j.body)
			}
		default:
			v.enter(s, a.Session)
			s.send(w, &a, j.body)
		}
		s.finish(w)
		j.body = s.run.release(j.body)
		a = v.told(s, j.machine, w.outcome())
	}
	s.drive(w, j.machine, a, &v)
}
