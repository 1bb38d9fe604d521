package twin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"plimsoll/internal/message"
	"plimsoll/internal/pace"
	"plimsoll/internal/random"
	"plimsoll/internal/record"
	"plimsoll/internal/workload"
)

// Step is one level of load, with the meaning that the load generator gives it.
// Exactly one of Users and Rate is above 0, or both with Streams; and exactly one of
// Duration and Requests.
type Step struct {
	// Users is the number of users of a closed loop.
	Users int
	// Rate is the mean number of requests per second of an open loop, Arrival its
	// arrival process, of a Burstiness where it has one. Shape, when not nil, is how
	// the rate goes from the start of the steady window on; Rate is its base.
	Rate       float64
	Arrival    string
	Burstiness float64
	Shape      *pace.Shape
	// Times, when not nil, are when the sessions of an open loop start, instead of
	// all that; Rate is only their mean then, and Requests the number of requests of
	// all sessions, warm-up included. The window lasts until the last of them has
	// ended, and the sessions come to their own ends.
	Times *pace.Times
	// Streams, when there are any, are the arrivals of the parts of the population
	// instead of Arrival, Burstiness and Shape: session n of stream p has the number
	// workload.StreamNumber(p, n). Rate is the sum of theirs. Users beside them are
	// those of other parts; the sessions' users are numbered after them.
	Streams []pace.Stream
	// Warmup is the time from the step's start to that of its steady window,
	// Duration the window's length, Requests the number of requests scheduled in
	// it, Drain how long its end waits for them.
	Warmup   time.Duration
	Duration time.Duration
	Requests int
	Drain    time.Duration
}

// Population makes the users of a closed loop and the sessions of an open one.
// *workload.Synthetic is one.
type Population interface {
	User(step, user uint32) workload.Machine
	Session(step uint32, session uint64) workload.Machine
}

// Reuser is a Population that can make the machine of a session, as Session does,
// in the memory of one of its machines that nobody calls any more.
type Reuser interface {
	Reuse(old workload.Machine, step uint32, session uint64) workload.Machine
}

// Sink receives every request when it has ended, in order of time. f and what it
// refers to is valid only until Record returns.
type Sink interface{ Record(f *Finished) }

// PredictConfig says what to predict. Cluster, Population, Steps and Sink are
// required.
type PredictConfig struct {
	Cluster *Cluster
	// Router names how requests are spread over the replicas.
	Router     string
	Seed       uint64
	Population Population
	Steps      []Step
	// MaxInFlight caps the requests in flight, 0 for no cap.
	MaxInFlight int
	// MaxErrorShare stops when more than that share of the last 100 requests was
	// refused, MaxTotalTokens before more tokens than that can be used; 0 turns
	// them off.
	MaxErrorShare  float64
	MaxTotalTokens int64
	// Stream says that answers come token by token; else they come whole.
	Stream bool
	// Template adds to each prompt what a chat template adds.
	Template bool
	// Exact makes every answer as long as asked; else only requests that ask for
	// it, and other answers end by themselves, as the server's do.
	Exact bool
	Sink  Sink
	// More is asked before each step but the first, when everything of the steps
	// before it has been recorded; false ends the prediction, which is complete
	// then. Nil runs all steps.
	More func(step int) bool

	// stepping turns the skipping of steps off.
	stepping bool
}

// StopReason says why a prediction ended.
type StopReason uint8

// The reasons. Completed is the zero value.
const (
	Completed StopReason = iota
	// Interrupted: the context ended.
	Interrupted
	// TooManyRefused: more than MaxErrorShare allows.
	TooManyRefused
	// TokenLimit: MaxTotalTokens was about to be exceeded.
	TokenLimit
)

// Prediction is how a prediction went, beside the requests.
type Prediction struct {
	// Steps are the steps that were started, in order.
	Steps   []StepResult
	Stopped StopReason
	Message string
	// Start and End are when the first step started and when the last request had
	// ended, in ns of virtual time.
	Start, End int64
	// Counters are totals over the engines. Events is the number of times that the
	// driver had to look at something.
	Counters Counters
	Events   int64
	// MeanInFlight is the number of requests in flight, MeanRunning that of
	// sequences that an engine of the cluster works on, MeanKV the share of an
	// engine's KV blocks in use, all as means over the time from Start to End;
	// PeakKV is the largest share that any engine reached.
	MeanInFlight, MeanRunning, MeanKV, PeakKV float64
}

// StepResult is one step as it went; times are ns of virtual time.
type StepResult struct {
	Step
	Index uint32
	// Start is the step's time 0. SteadyStart and SteadyEnd bound its window,
	// SteadyEnd excluded; End is when its last request had ended.
	Start, SteadyStart, SteadyEnd, End int64
	// Scheduled counts its requests, Steady those scheduled in the window.
	Scheduled, Steady uint64
	// Complete is true when the window lasted as long as asked.
	Complete bool
}

// refusalTime is what a server takes to refuse a request, a guess. Above 0, so
// that users who are only ever refused make time pass.
const refusalTime = int64(time.Millisecond)

// labelArrivals and labelAnswer keep draws apart; the first is the load
// generator's, so that both make the same arrivals of a seed.
const (
	labelArrivals = 3
	labelAnswer   = 0x616e73 // "ans"
	labelHistory  = 0x686973 // "his"
	labelTemplate = 0x746d70 // "tmp"
)

// can is what users may ask for beside plain requests and waits: tokens stand for
// the text of answers, and only their number for what else is in a body. A search
// at a URL is none of a simulated cluster's.
const can = workload.NeedFork | workload.NeedCancel | workload.NeedRetrieval | workload.NeedText |
	workload.NeedMedia | workload.NeedTools | workload.NeedSchema | workload.NeedEffort

// refusedWindow is the number of requests over which MaxErrorShare is taken.
const refusedWindow = 100

// contextEvery is how many events pass between two looks at the context.
const contextEvery = 4096

// Predict drives the users of cfg against the cluster in virtual time. It is a
// function of cfg alone: equal configurations give equal records, whatever the
// machine does. It runs on the calling goroutine. An error is of the
// configuration; when ctx ends, the prediction says so.
func Predict(ctx context.Context, cfg *PredictConfig) (*Prediction, error) {
	if cfg.Sink == nil {
		panic("BUG: twin.PredictConfig without a sink")
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	d := &driver{cfg: cfg, ctx: ctx, slots: cfg.MaxInFlight}
	d.reuser, _ = cfg.Population.(Reuser)
	d.own = workload.NeedsOf(cfg.Population) != 0 || slices.ContainsFunc(cfg.Steps, func(s Step) bool { return s.Users > 0 && s.Rate > 0 })
	n := cfg.Cluster.Config.Replicas
	var err error
	if d.router, err = NewRouter(cfg.Router, n); err != nil {
		return nil, err
	}
	liner, _ := cfg.Cluster.Engine.Timer.(Liner)
	if cfg.stepping || cfg.Cluster.Engine.Slowdown > 0 { // no step is like the one before
		liner = nil
	}
	d.instances = make([]instance, n)
	for i := range d.instances {
		e, err := NewEngine(cfg.Cluster.Engine)
		if err != nil {
			return nil, err
		}
		in := &d.instances[i]
		*in = instance{engine: *e, liner: liner, index: i, desk: newDesk(cfg.Cluster.Stages)}
		in.wake.instance = in
	}
	for i := range cfg.Steps {
		if d.soft || i > 0 && cfg.More != nil && !cfg.More(i) {
			break
		}
		d.run(uint32(i))
	}
	return d.conclude(), nil
}

func (c *PredictConfig) check() error {
	switch {
	case c.Cluster == nil, c.Population == nil:
		panic("BUG: twin.PredictConfig without cluster or population")
	case len(c.Steps) == 0:
		return errors.New("steps: none is given")
	}
	if err := workload.Refuse(c.Population, can); err != nil {
		return err
	}
	for i := range c.Steps {
		s := &c.Steps[i]
		switch {
		case s.Users < 0 || s.Users == 0 && !(s.Rate > 0) || s.Users > 0 && s.Rate > 0 && len(s.Streams) == 0:
			return fmt.Errorf("step %d: want either users or a rate above 0, or users beside streams, got users %d and rate %g", i, s.Users, s.Rate)
		case s.Times != nil && (s.Times.Len() == 0 || s.Users > 0 || s.Requests == 0):
			return fmt.Errorf("step %d: times: want at least one, with a mean rate and the number of requests", i)
		case (s.Duration > 0) == (s.Requests > 0):
			return fmt.Errorf("step %d: want either a duration or a number of requests, got %v and %d", i, s.Duration, s.Requests)
		case s.Warmup < 0 || s.Drain < 0:
			return fmt.Errorf("step %d: warmup and drain: want 0 or more, got %v and %v", i, s.Warmup, s.Drain)
		}
		if _, err := pace.ByName(s.Arrival, s.Burstiness, 0); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		for j := range s.Streams {
			if err := s.Streams[j].Check(); err != nil {
				return fmt.Errorf("step %d: stream %d: %w", i, j, err)
			}
		}
		if s.Shape != nil {
			if err := s.Shape.Check(); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
		}
	}
	return nil
}

// driver is one prediction under way.
type driver struct {
	cfg       *PredictConfig
	ctx       context.Context
	agenda    agenda
	now       int64
	events    int64
	router    Router
	instances []instance
	res       Prediction

	step *stepRun
	// sessions are all that there ever were; idle are those that have left, to be
	// used again.
	sessions, idle []*session
	reuser         Reuser // nil when machines are not used again
	next           uint64 // the next request's number
	// own says that the first requests of sessions wait for a slot themselves, in
	// line with all others, and not behind one another.
	own bool
	// soft is set when nothing new may be started.
	soft      bool
	stoppedAt int64

	// slots are what is left of the cap in flight; waiters wait for one, in order.
	slots   int
	waiters fifo // nil for the dispatcher of an open loop
	// spent and reserved are tokens, refused a ring of the latest requests.
	spent, reserved int64
	refused         [refusedWindow]bool
	refusedAt       int
	refusedSum      int

	fin Finished
	// ahead is the batch of a step that is planned.
	ahead Batch
	// inFlight is integrated over time in inFlightNS, up to inFlightAt.
	inFlight   int64
	inFlightAt int64
	inFlightNS float64
}

// stepRun is the step under way.
type stepRun struct {
	res StepResult
	// live is the number of sessions at work.
	live int
	// left counts the requests that the window may still have.
	left    int64
	lastEnd int64
	lastDue int64 // when the last request of a number of them was scheduled
	cut     wake
	isCut   bool
	// enough is set when no further request can be scheduled: nobody waits any more
	// for what would only bring one.
	enough bool

	// Of an open loop: the arrivals, and those that are due and wait for the
	// dispatcher, who is held by the cap until capped.
	arrive   wake
	schedule *pace.Schedule
	end      int64
	drawn    uint64
	number   uint64 // of the session that arrives next
	coming   bool
	due      fifo
	held     bool
	capped   int64
}

// session is one user of a closed loop, or one session of an open one.
type session struct {
	wake
	machine workload.Machine
	action  workload.Action
	state   sessionState
	user    uint32

	// Of the request. prompt and output are what it asks for.
	id      uint64
	prompt  int32
	output  int32
	phase   record.Phase
	since   int64 // when it began to wait for a slot
	capWait int64
	start   int64
	asked   int64
	exact   bool
	limit   int
	stops   bool // the answer ends before its limit
	refusal string
	replica *instance
	seq     *Seq
	place   int // in replica.leaving

	// searchStart and searchEnd are those of its retrieval, quits that its user has
	// seen enough before the answer's end, quit when the user gives it up.
	searchStart, searchEnd int64
	quits                  bool
	quit                   wake

	// Of a branch: whose it is, what became of its last request, and when it was told
	// something last. Of a session that has forked: its branches at work, whether one
	// was given up, and what they came to so far.
	parent *session
	last   workload.Outcome
	told   int64
	forked int
	broken bool
	joined workload.Outcome
}

type sessionState uint8

const (
	away sessionState = iota // not at work
	acting
	sleeping  // until a request is due, or a wait is over
	searching // before a request
	forking   // until its branches have ended
	queued    // for a slot
	sent
	refusing // the refusal is under way
	leaving  // on the way back from the engine
)

// run carries out one step.
func (d *driver) run(index uint32) {
	c := d.cfg.Steps[index]
	s := &stepRun{left: math.MaxInt64, lastEnd: record.Unset}
	s.res = StepResult{Step: c, Index: index, Start: d.now, SteadyStart: d.now + int64(c.Warmup), SteadyEnd: math.MaxInt64}
	d.step = s
	s.cut.task = d.cut
	s.arrive.task = d.arrive
	if c.Requests > 0 && c.Times == nil {
		s.left = int64(c.Requests)
	}
	if c.Duration > 0 {
		s.res.SteadyEnd = s.res.SteadyStart + int64(c.Duration)
	}
	if c.Rate > 0 {
		d.open()
	}
	if s.res.SteadyEnd != math.MaxInt64 {
		d.cutAt(s.res.SteadyEnd)
	}
	users := make([]*session, c.Users)
	for i := range users {
		users[i] = d.enter(uint32(i))
		users[i].machine = d.cfg.Population.User(index, uint32(i))
	}
	// After all have entered: what the first does may end the step.
	for _, u := range users {
		d.act(u, u.machine.Start(s.res.Start))
	}
	for s.live > 0 || s.coming || s.due.len() > 0 {
		if d.events++; d.events%contextEvery == 0 && d.ctx.Err() != nil {
			d.stop(Interrupted, "interrupted")
			d.cutLive(record.Cancelled)
			continue
		}
		w, at := d.agenda.pop()
		d.now = at
		switch {
		case w.instance != nil:
			w.instance.turn(d)
		case w.session != nil:
			d.wakeUp(w.session)
		default:
			w.task()
		}
	}
	d.agenda.remove(&s.cut)
	d.agenda.remove(&s.arrive)
	s.res.End = max(d.now, s.res.Start)
	if c.Times != nil {
		s.res.Complete = !d.soft
		s.res.SteadyEnd = max(s.lastEnd+1, s.res.SteadyStart)
	} else if c.Requests > 0 {
		s.res.Complete = s.res.Steady == uint64(c.Requests)
		if c.Users > 0 {
			// Just after it, since the end is excluded.
			s.res.SteadyEnd = max(s.lastEnd+1, s.res.SteadyStart)
		} else if d.own && s.enough {
			// Later turns are requests of the window too: it is over with the last.
			s.res.SteadyEnd = min(s.res.SteadyEnd, max(s.lastDue+1, s.res.SteadyStart))
		}
	} else {
		s.res.Complete = !d.soft || d.stoppedAt >= s.res.SteadyEnd
	}
	if !s.res.Complete {
		s.res.SteadyEnd = min(s.res.SteadyEnd, max(d.stoppedAt, s.res.SteadyStart))
	}
	d.res.Steps = append(d.res.Steps, s.res)
}

// conclude sums up.
func (d *driver) conclude() *Prediction {
	p := &d.res
	p.End, p.Events = d.now, d.events
	d.flight(0)
	for i := range d.instances {
		in := &d.instances[i]
		in.settleGaps()
		in.settle(d.now)
		c := &in.engine.Counters
		p.Counters.Steps += c.Steps
		p.Counters.Preemptions += c.Preemptions
		p.Counters.PromptTokens += c.PromptTokens
		p.Counters.OutputTokens += c.OutputTokens
		p.Counters.Finished += c.Finished
		p.Counters.Cancelled += c.Cancelled
		p.Counters.ComputedTokens += c.ComputedTokens
		p.Counters.CachedTokens += c.CachedTokens
		p.Counters.PrefixQueries += c.PrefixQueries
		p.Counters.PrefixHits += c.PrefixHits
		p.MeanRunning += in.runningNS
		p.MeanKV += in.usedNS
		p.PeakKV = max(p.PeakKV, in.peak)
	}
	if span := float64(p.End - p.Start); span > 0 {
		p.MeanInFlight = d.inFlightNS / span
		p.MeanRunning /= span
		p.MeanKV /= span * float64(len(d.instances))
	}
	return p
}

// stop lets nothing new begin; the first reason holds.
func (d *driver) stop(why StopReason, message string) {
	if d.res.Stopped == Completed {
		d.res.Stopped, d.res.Message = why, message
	}
	if d.soft {
		return
	}
	d.soft, d.stoppedAt = true, d.now
	s := d.step
	d.agenda.remove(&s.arrive)
	s.coming = false
	d.cutAt(d.now)
	d.waiters, s.due, s.held = fifo{}, fifo{}, false
	// Who sleeps will not send any more, who waits for a slot gets none.
	for _, u := range d.sessions {
		switch u.state {
		case sleeping, searching:
			d.agenda.remove(&u.wake)
			d.leave(u, false)
		case queued:
			d.unsent(u, record.Cancelled)
		case away, acting, sent, refusing, leaving, forking:
		}
	}
}

// cutAt sets the end of the drain of what is in flight at end.
func (d *driver) cutAt(end int64) {
	s := d.step
	at := end + int64(s.res.Drain)
	if at < end {
		at = math.MaxInt64
	}
	d.agenda.set(&s.cut, at, classCut)
}

// cut ends what the drain limit found still in flight.
func (d *driver) cut() {
	d.step.isCut = true
	d.cutLive(record.Incomplete)
}

func (d *driver) cutLive(status record.Status) {
	d.waiters, d.step.due, d.step.held = fifo{}, fifo{}, false
	for _, u := range d.sessions {
		switch u.state {
		case sent, refusing, leaving:
			d.abandon(u, status)
		case queued:
			d.unsent(u, status)
		case away, acting, sleeping, searching, forking:
		}
	}
}

// enter begins a session, whose machine may be one that has ended.
func (d *driver) enter(user uint32) *session {
	var u *session
	if n := len(d.idle); n > 0 {
		u, d.idle = d.idle[n-1], d.idle[:n-1]
	} else {
		u = new(session)
		u.wake.session = u
		d.sessions = append(d.sessions, u)
	}
	u.user, u.state = user, acting
	d.step.live++
	return u
}

// leave ends a session: by itself, or given up with its step.
func (d *driver) leave(u *session, byItself bool) {
	u.state = away
	d.step.live--
	p := u.parent
	if p == nil {
		d.idle = append(d.idle, u)
		return
	}
	// Its machine is none of the population's sessions.
	u.parent, u.machine = nil, nil
	d.idle = append(d.idle, u)
	p.joined.Join(&u.last, u.told)
	p.broken = p.broken || !byItself
	d.join(p)
}

// fork begins the branches of a session.
func (d *driver) fork(u *session) {
	branches := u.action.Branches
	u.state, u.forked, u.broken = forking, 1+len(branches), false
	u.joined = workload.Outcome{Ended: d.now}
	// All enter before the first acts: what it does may end the step.
	all := make([]*session, len(branches))
	for i, m := range branches {
		c := d.enter(u.user)
		c.parent, c.machine, c.told, c.last = u, m, d.now, workload.Outcome{}
		all[i] = c
	}
	for _, c := range all {
		if c.parent == u && c.state == acting {
			d.act(c, c.machine.Start(d.now))
		}
	}
	d.join(u)
}

// join goes on with a session one of whose branches has ended.
func (d *driver) join(u *session) {
	if u.forked--; u.forked > 0 {
		return
	}
	if u.broken {
		d.leave(u, false)
		return
	}
	o := u.joined
	u.told = o.Ended
	d.act(u, u.machine.Done(o.Ended, o))
}

// act carries out what a machine wants.
func (d *driver) act(u *session, a workload.Action) {
	s := d.step
	for {
		u.action, u.state = a, acting
		switch a.Kind {
		case workload.End:
			d.leave(u, true)
			return
		case workload.Wait:
			if d.noMore(a.At) {
				d.leave(u, false)
				return
			}
			if a.At > d.now {
				u.state = sleeping
				d.agenda.set(&u.wake, a.At, classDue)
				return
			}
			a = d.waited(u)
		case workload.Send:
			if d.soft || a.Retrieval == nil && !d.admit(u) || a.Retrieval != nil && (s.enough || a.At >= s.res.SteadyEnd) {
				d.leave(u, false)
				return
			}
			if a.At > d.now {
				u.state = sleeping
				d.agenda.set(&u.wake, a.At, classDue)
				return
			}
			d.begun(u)
			return
		case workload.Fork:
			if d.noMore(a.At) {
				d.leave(u, false)
				return
			}
			if a.At > d.now {
				u.state = sleeping
				d.agenda.set(&u.wake, a.At, classDue)
				return
			}
			d.fork(u)
			return
		}
	}
}

// noMore says whether what begins at an instant can bring no request of the step.
func (d *driver) noMore(at int64) bool {
	return d.soft || d.step.enough || at >= d.step.res.SteadyEnd
}

// waited tells a machine that its wait is over.
func (d *driver) waited(u *session) workload.Action {
	u.told = max(u.told, u.action.At)
	return u.machine.Done(d.now, workload.Outcome{})
}

// begun goes on with a request whose time has come: to its retrieval, where it has
// one, else to a slot.
func (d *driver) begun(u *session) {
	a := &u.action
	u.searchStart, u.searchEnd = record.Unset, record.Unset
	if a.Retrieval == nil {
		d.becomeDue(u)
		d.slot(u)
		return
	}
	u.searchStart = a.At
	end := a.At + max(0, a.Retrieval.Duration)
	if a.CancelAt > 0 && a.CancelAt < end {
		end = max(a.At, a.CancelAt)
	} else {
		u.searchEnd = end
	}
	a.At = end
	if end > d.now {
		u.state = searching
		d.agenda.set(&u.wake, end, classDue)
		return
	}
	d.found(u)
}

// found goes on with a request whose retrieval is over.
func (d *driver) found(u *session) {
	u.state = acting
	if !d.admit(u) {
		d.leave(u, false)
		return
	}
	d.becomeDue(u)
	d.slot(u)
}

// wakeUp goes on with a session that slept.
func (d *driver) wakeUp(u *session) {
	switch {
	case u.state == refusing:
		d.refuse(u)
	case u.state == leaving:
		u.replica.left(u)
		d.complete(u)
	case u.state == searching:
		d.found(u)
	case u.action.Kind == workload.Wait:
		d.act(u, d.waited(u))
	case u.action.Kind == workload.Fork:
		d.fork(u)
	default:
		d.begun(u)
	}
}

// giveUp is what a user does who has waited long enough for an answer.
func (d *driver) giveUp(u *session) {
	switch u.state {
	case queued:
		d.waiters.remove(u)
		d.unsent(u, record.Cancelled)
	case sent, refusing, leaving:
		d.abandon(u, record.Cancelled)
	case away, acting, sleeping, searching, forking:
	}
}

// quitAt sets when the user of a request gives it up.
func (d *driver) quitAt(u *session, at int64) {
	if u.quit.task == nil {
		u.quit.task = func() { d.giveUp(u) }
	}
	d.agenda.set(&u.quit, max(at, d.now), classDue)
}

// admit decides whether a request belongs to the step, and in which phase.
func (d *driver) admit(u *session) bool {
	s := d.step
	switch at := u.action.At; {
	case at < s.res.SteadyStart:
		u.phase = record.Warmup
		return true
	case at >= s.res.SteadyEnd:
		return false
	}
	if s.left--; s.left < 0 {
		return false
	}
	if s.left == 0 {
		s.lastDue = u.action.At
		if s.res.SteadyEnd == math.MaxInt64 {
			d.cutAt(d.now)
		}
		d.suffice()
	}
	u.phase = record.Steady
	return true
}

// suffice sends everybody home who could only bring further requests.
func (d *driver) suffice() {
	d.step.enough = true
	if d.own {
		d.agenda.remove(&d.step.arrive)
		d.step.coming = false
	}
	for _, u := range d.sessions {
		switch u.state {
		case sleeping:
			if u.action.Kind == workload.Send && u.action.Retrieval == nil {
				continue
			}
		case searching:
		default:
			continue
		}
		d.agenda.remove(&u.wake)
		d.leave(u, false)
	}
}

// becomeDue counts a request that is due.
func (d *driver) becomeDue(u *session) {
	s := d.step
	s.res.Scheduled++
	if s.res.Times != nil && s.res.Scheduled == uint64(s.res.Requests) {
		d.cutAt(d.now)
	}
	if u.phase == record.Steady {
		s.res.Steady++
	}
	u.id, u.capWait, u.start, u.asked = d.next, 0, record.Unset, 0
	req := u.action.Request
	u.prompt, u.output, u.exact = int32(req.PromptTokens()), int32(req.MaxTokens), req.Exact || d.cfg.Exact
	d.next++
}

// slot sends a request when the cap in flight lets it.
func (d *driver) slot(u *session) {
	quit := u.action.CancelAt
	if quit > 0 && quit <= d.now {
		d.unsentAt(u, record.Cancelled, max(quit, u.action.At))
		return
	}
	if d.cfg.MaxInFlight == 0 {
		d.send(u)
		return
	}
	if d.slots > 0 && d.waiters.len() == 0 {
		d.slots--
		d.send(u)
		return
	}
	u.state, u.since = queued, max(d.now, u.action.At)
	d.waiters.push(u)
	if quit > 0 {
		d.quitAt(u, quit)
	}
}

// free gives a slot back, to who waits first.
func (d *driver) free() {
	if d.cfg.MaxInFlight == 0 {
		return
	}
	d.slots++
	for d.slots > 0 && d.waiters.len() > 0 {
		u := d.waiters.pop()
		d.slots--
		if u != nil {
			u.capWait = d.now - u.since
			d.send(u)
			continue
		}
		// The dispatcher.
		s := d.step
		s.held, s.capped = false, d.now
		u = s.due.pop()
		u.capWait = max(0, s.capped-u.action.At)
		d.send(u)
		d.dispatch()
	}
}

// send starts a request that has its slot.
func (d *driver) send(u *session) {
	c := d.cfg
	req := u.action.Request
	u.state = acting
	if d.step.isCut {
		d.slots++ // whoever asked looks for the next
		d.unsent(u, record.Incomplete)
		return
	}
	prompt, output := int(u.prompt), int(u.output)
	u.asked = int64(prompt) + int64(output)
	if limit := c.MaxTotalTokens; limit > 0 {
		if d.spent+d.reserved+u.asked > limit {
			why := fmt.Sprintf("max-total-tokens: %d tokens are used and %d asked for by requests in flight; one more request of %d could exceed %d",
				d.spent, d.reserved, u.asked, limit)
			d.slots++
			d.stop(TokenLimit, why) // first, or the user would ask again and again
			d.unsent(u, record.Cancelled)
			return
		}
		d.reserved += u.asked
	}
	u.start = d.now
	d.flight(1)
	if c.Template {
		prompt += templateTokens + templateMessageTokens*len(req.Parts)
	}
	prompt = max(prompt, 1)
	a := &u.action
	quit := int64(math.MaxInt64)
	if a.CancelAfter > 0 {
		quit = d.now + a.CancelAfter
	}
	if a.CancelAt > 0 {
		quit = min(quit, a.CancelAt)
	}
	if quit != math.MaxInt64 {
		d.quitAt(u, quit)
	}
	u.refusal, u.quits = d.sizes(u, &prompt, &output), false
	if c := int(a.CancelTokens); c > 0 && c <= output && d.cfg.Stream {
		// The connection closes when the token has come: to the engine that is an
		// answer of so many.
		output, u.quits = c, true
	}
	if u.refusal != "" {
		u.state = refusing
		d.agenda.set(&u.wake, d.now+refusalTime, classDue)
		return
	}
	if u.seq == nil {
		u.seq = new(Seq)
	}
	u.state = sent
	q := u.seq
	q.Prompt, q.Output, q.Limit, q.Owner = prompt, output, u.limit, u
	q.Content, q.Answer = contentOf(q.Content[:0], req, c.Template), answerID(req.Answer)
	q.Account.Arrival = float64(d.now)
	in := &d.instances[d.router.Pick(q)]
	u.replica = in
	at := d.now
	if !in.desk.none() {
		at = in.enter(d, prompt)
		q.Account.Arrival = float64(at)
	}
	in.submit(d, q, at)
}

// finished is what the driver does when an engine has made a request's last token.
func (d *driver) finished(u *session, in *instance) {
	d.router.Left(in.index)
	if in.desk.none() {
		d.complete(u)
		return
	}
	a := &u.seq.Account
	ends := int64(in.desk.leave(a.Sent, u.seq.Output))
	u.state, u.place = leaving, len(in.leaving)
	in.leaving = append(in.leaving, u)
	d.agenda.set(&u.wake, max(ends, d.now), classEnd)
}

// left takes a request off those that are on the way back.
func (in *instance) left(u *session) {
	last := len(in.leaving) - 1
	moved := in.leaving[last]
	in.leaving[u.place], moved.place = moved, u.place
	in.leaving[last] = nil
	in.leaving = in.leaving[:last]
}

// contentOf appends what a prompt has in common with others: its parts up to the
// last that somebody else may send too, all of them when the session goes on from
// there. With a template each part is followed by what that adds.
func contentOf(dst []Extent, req *message.Request, template bool) []Extent {
	shared := 0
	for i := range req.Parts {
		if req.Parts[i].Layer != message.LayerTurn || req.Again || req.Answer != 0 {
			shared = i + 1
		}
	}
	if shared == 0 {
		return nil
	}
	if template {
		dst = append(dst, Extent{ID: labelTemplate, Tokens: templateTokens})
	}
	for i := range req.Parts[:shared] {
		p := &req.Parts[i]
		id := answerID(p.Seed)
		if p.Layer != message.LayerHistory || p.Seed == 0 {
			id = random.Derive(p.Seed, uint64(p.Tokens), hashText(p.Generator), hashText(p.Text))
		}
		dst = append(dst, Extent{ID: id, Tokens: p.Tokens})
		if template {
			dst = append(dst, Extent{ID: random.Derive(labelTemplate, uint64(p.Role)), Tokens: templateMessageTokens})
		}
	}
	return dst
}

// answerID names the text of an answer that comes back under a seed, 0 for none.
func answerID(seed uint64) uint64 {
	if seed == 0 {
		return 0
	}
	return random.Derive(seed, labelHistory)
}

// sizes settles how long an answer is, or says why the request is refused, as
// the server does.
func (d *driver) sizes(u *session, prompt, output *int) string {
	context := d.cfg.Cluster.Context
	req := u.action.Request
	if req.Choices > 1 {
		return fmt.Sprintf("%d answers to one request are not simulated", req.Choices)
	}
	if *prompt >= context {
		return fmt.Sprintf("HTTP 400: the context is %d tokens, the prompt has %d, and at least one is needed for the answer", context, *prompt)
	}
	if *output == 0 {
		*output = context - *prompt
	} else if *prompt+*output > context {
		return fmt.Sprintf("HTTP 400: the context is %d tokens, %d were requested (%d in the prompt, %d in the answer)", context, *prompt+*output, *prompt, *output)
	}
	u.stops, u.limit = false, *output
	if !u.exact {
		seed := random.Derive(d.cfg.Seed, labelAnswer)
		for i := range req.Parts {
			seed = random.Derive(seed, req.Parts[i].Seed, uint64(req.Parts[i].Tokens))
		}
		if n := naturalAnswer.Int(random.Stream(seed), 1); n < *output {
			*output, u.stops = n, true
		}
	}
	if err := d.instances[0].engine.Fits(*prompt, u.limit); err != nil {
		return "HTTP 400: " + err.Error()
	}
	return ""
}

// flight changes the number of requests in flight by n.
func (d *driver) flight(n int64) {
	d.inFlightNS += float64(d.inFlight) * float64(d.now-d.inFlightAt)
	d.inFlightAt = d.now
	d.inFlight += n
}

// begin fills in what is known of a request before it is sent.
func (d *driver) begin(u *session) *record.Request {
	r := &d.fin.Request
	r.Reset()
	a := &u.action
	r.ID = u.id
	r.Session, r.Turn, r.User, r.Step = a.Session, a.Turn, u.user, d.step.res.Index
	r.Workload = a.Workload
	r.Phase = u.phase
	r.Scheduled, r.Start, r.CapWait = a.At, u.start, u.capWait
	r.RetrievalStart, r.RetrievalEnd = u.searchStart, u.searchEnd
	r.AskedStream = d.cfg.Stream
	r.AskedPrompt, r.AskedOutput, r.AskedExact = u.prompt, u.output, u.exact
	if a.Request.Guessed {
		r.AskedPrompt = 0
	}
	r.AskedText = int32(a.Request.TextTokens())
	if a.Lost {
		r.Flags |= record.AfterFailure
	}
	if u.start != record.Unset {
		r.Sent = u.start
	}
	d.fin.Stages = Stages{}
	d.fin.replica, d.fin.seq, d.fin.until, d.fin.times = nil, nil, maxKV, d.fin.times[:0]
	return r
}

// unsent ends a request that is due and is not sent any more.
func (d *driver) unsent(u *session, status record.Status) { d.unsentAt(u, status, d.now) }

func (d *driver) unsentAt(u *session, status record.Status, at int64) {
	u.start = record.Unset
	if u.state == queued {
		u.capWait = d.now - u.since
	}
	r := d.begin(u)
	r.Status, r.End = status, at
	d.finish(u)
}

// refuse ends a request that the server refuses.
func (d *driver) refuse(u *session) {
	r := d.begin(u)
	r.Status, r.Error, r.HTTPStatus, r.Message = record.Failed, record.HTTPStatusError, 400, u.refusal
	r.Headers, r.End = d.now, d.now
	d.fin.Stages.Queue = d.now - u.start
	d.settle(u, true)
	d.finish(u)
}

// abandon ends a request in flight before its answer is whole.
func (d *driver) abandon(u *session, status record.Status) {
	r := d.begin(u)
	r.Status, r.End = status, d.now
	if u.state == refusing {
		d.agenda.remove(&u.wake)
		d.fin.Stages.Queue = d.now - u.start
	} else {
		q, in := u.seq, u.replica
		in.take(float64(d.now))
		if u.state == sent && q.state == idle {
			in.turnBack(q)
			d.router.Left(in.index)
			d.fin.Stages.Tokenization = d.now - u.start
		} else {
			in.catchUp(d.now)
			d.fin.replica, d.fin.seq, d.fin.until = in, q, d.now
			d.fin.Stages = stagesOf(&q.Account, u.start, d.now)
			d.fin.cutShort()
			if u.state == leaving {
				d.agenda.remove(&u.wake)
				in.left(u)
				in.over(q)
			} else {
				in.cancel(d, q)
				u.seq = nil // the engine holds it until its next step
			}
		}
	}
	d.settle(u, false)
	d.finish(u)
}

// complete ends a request whose last token was made at the end of a step.
func (d *driver) complete(u *session) {
	q, in := u.seq, u.replica
	r := d.begin(u)
	d.fin.replica, d.fin.seq = in, q
	n := int32(q.Output)
	first, last := int64(q.Account.First), int64(q.Account.Finished)
	end := last
	if !in.desk.none() {
		first, last, end = int64(q.Account.FirstSent), int64(q.Account.Sent), d.now
	}
	r.End, r.HTTPStatus = end, 200
	d.whole(u, r)
	if u.quits {
		r.Status, r.Finish = record.Cancelled, ""
		in.engine.Counters.Finished--
		in.engine.Counters.Cancelled++
	}
	if d.cfg.Stream {
		r.Streamed = true
		r.FirstEvent, r.FirstToken, r.FirstContent, r.LastToken = first, first, first, last
		d.fin.counts(int(n))
	}
	d.fin.Stages = stagesOf(&q.Account, u.start, end)
	in.over(q)
	d.settle(u, false)
	d.finish(u)
}

// whole fills in what the end of an answer says of it.
func (d *driver) whole(u *session, r *record.Request) {
	q := u.seq
	r.Prompt, r.Output, r.Source = int32(q.Prompt), int32(q.Output), record.SourceServer
	if n := u.action.Request.ReasoningTokens; n > 0 {
		r.Reasoning = min(int32(n), r.Output)
	}
	if d.cfg.Cluster.Engine.PrefixCache {
		r.Cached = int32(q.Account.Cached)
	}
	r.Finish = finishLength
	if u.stops {
		r.Finish = finishStop
	}
}

// settle accounts for the end of a request that was sent.
func (d *driver) settle(u *session, refused bool) {
	d.flight(-1)
	r := &d.fin.Request
	if d.cfg.MaxTotalTokens > 0 {
		d.reserved -= u.asked
		d.spent += max(int64(r.Prompt), 0) + max(int64(r.Output), 0)
	}
	if r.Status != record.OK && !refused {
		return
	}
	if d.refused[d.refusedAt] {
		d.refusedSum--
	}
	if d.refused[d.refusedAt] = refused; refused {
		d.refusedSum++
	}
	d.refusedAt = (d.refusedAt + 1) % refusedWindow
}

// finish hands over an ended request and goes on with its session.
func (d *driver) finish(u *session) {
	r := &d.fin.Request
	s := d.step
	if r.Phase == record.Steady {
		s.lastEnd = max(s.lastEnd, r.End)
	}
	u.state = acting
	sent := r.Start != record.Unset
	o := workload.Outcome{Status: r.Status, OutputTokens: r.Output, Ended: r.End}
	if r.Reasoning != record.Unknown {
		o.ReasoningTokens = r.Reasoning
	}
	d.agenda.remove(&u.quit)
	u.last, u.told = o, o.Ended
	d.cfg.Sink.Record(&d.fin)
	if share := d.cfg.MaxErrorShare; share > 0 && share < 1 && float64(d.refusedSum) > share*refusedWindow {
		d.stop(TooManyRefused, fmt.Sprintf("%d of the last %d requests were refused, more than max-error-share %g allows; the last refusal: %s",
			d.refusedSum, refusedWindow, share, u.refusal))
	}
	if sent {
		d.free()
	}
	d.act(u, u.machine.Done(o.Ended, o))
}

// open prepares the arrivals of a step of an open loop.
func (d *driver) open() {
	s := d.step
	c := &s.res.Step
	s.schedule, s.end = c.schedule(d.cfg.Seed, s.res.Index), c.end(d.cfg.Seed, s.res.Index)
	if c.Requests > 0 && c.Times == nil && c.Users == 0 {
		s.res.SteadyEnd = s.res.Start + s.end
	}
	s.coming = true
	d.nextArrival()
}

// schedule returns the arrivals of a step of an open loop from the first on.
func (s *Step) schedule(seed uint64, index uint32) *pace.Schedule {
	if s.Times != nil {
		return pace.New(pace.Even{}, s.Times)
	}
	if len(s.Streams) > 0 {
		return pace.SideBySide(s.Streams, random.Derive(seed, labelArrivals, uint64(index)), s.Warmup)
	}
	gaps, err := pace.ByName(s.Arrival, s.Burstiness, random.Derive(seed, labelArrivals, uint64(index)))
	if err != nil {
		panic("BUG: " + err.Error()) // the configuration was checked
	}
	return pace.New(gaps, pace.Along(s.Rate, s.Warmup, s.Shape))
}

// end is when the schedule of an open loop ends, in ns from the step's start.
func (s *Step) end(seed uint64, index uint32) int64 {
	if s.Times != nil {
		return math.MaxInt64
	}
	if s.Duration > 0 {
		return int64(s.Warmup) + int64(s.Duration)
	}
	if s.Users > 0 {
		return math.MaxInt64 // its requests count too
	}
	// The window ends where the arrival after its last would be.
	end := int64(math.MaxInt64)
	look := s.schedule(seed, index)
	for n := 0; n <= s.Requests; {
		t, ok := look.Next()
		if !ok {
			break
		}
		if t >= int64(s.Warmup) {
			n++
		}
		end = t
	}
	return end
}

// FirstWindow returns the steady window of the first step of cfg, if it is known
// before anything runs: unless it ends with the answer to the last request.
func FirstWindow(cfg *PredictConfig) (start, end int64, ok bool) {
	if cfg.check() != nil {
		return 0, 0, false
	}
	s := &cfg.Steps[0]
	if s.Duration == 0 && (s.Users > 0 || s.Times != nil) {
		return 0, 0, false
	}
	return int64(s.Warmup), s.end(cfg.Seed, 0), true
}

// nextArrival puts the next arrival on the agenda.
func (d *driver) nextArrival() {
	s := d.step
	t, ok := s.schedule.Next()
	if !ok || t >= s.end {
		s.coming = false
		return
	}
	s.number = s.drawn
	if len(s.res.Streams) > 0 {
		s.number = workload.StreamNumber(s.schedule.Last())
	}
	d.agenda.set(&s.arrive, s.res.Start+t, classDue)
}

// arrive begins the session whose time has come.
func (d *driver) arrive() {
	s := d.step
	user, n := uint32(s.res.Users)+uint32(s.drawn), s.number
	s.drawn++
	at := d.now
	d.nextArrival()
	u := d.enter(user)
	if u.machine != nil && d.reuser != nil {
		u.machine = d.reuser.Reuse(u.machine, s.res.Index, n)
	} else {
		u.machine = d.cfg.Population.Session(s.res.Index, n)
	}
	u.told = at
	a := u.machine.Start(at)
	if a.Kind != workload.Send || a.At > at || a.Retrieval != nil || d.own {
		d.act(u, a)
		return
	}
	u.action = a
	if !d.admit(u) {
		d.leave(u, false)
		return
	}
	u.searchStart, u.searchEnd = record.Unset, record.Unset
	d.becomeDue(u)
	u.state, u.since = queued, d.now
	s.due.push(u)
	d.dispatch()
}

// dispatch sends what is due, in order, as far as the cap in flight lets it.
func (d *driver) dispatch() {
	s := d.step
	for s.due.len() > 0 && !s.held {
		if d.cfg.MaxInFlight > 0 && (d.slots == 0 || d.waiters.len() > 0) {
			s.held = true
			d.waiters.push(nil)
			return
		}
		u := s.due.pop()
		if d.cfg.MaxInFlight > 0 {
			d.slots--
		}
		u.capWait = max(0, s.capped-u.action.At)
		d.send(u)
	}
}
