package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"plimsoll/internal/dialect"
	"plimsoll/internal/message"
	"plimsoll/internal/pace"
	"plimsoll/internal/record"
	"plimsoll/internal/stream"
	"plimsoll/internal/workload"
)

// A step's time 0 lies leadTime after its start is decided, and later by what
// it takes to make the first prompts: everybody is ready when it comes, so that
// nothing piles up behind the preparation and is sent in a burst.
const (
	leadTime = 20 * time.Millisecond
	// leadLimit bounds the time given to the preparation; what is not ready by
	// then is late, and recorded so.
	leadLimit = 10 * time.Second
)

// can is what users may ask for beside plain requests and waits; plain is what of it
// an API of plain text has a form for. The rest is refused beforehand, so that
// nothing is left out in silence.
const (
	can = workload.NeedFork | workload.NeedCancel | workload.NeedRetrieval | workload.NeedSearch | workload.NeedText |
		workload.NeedSchema | workload.NeedEffort | workload.NeedMedia | workload.NeedTools
	plain = can &^ (workload.NeedMedia | workload.NeedTools)
)

// Refuse says what the users of a population may ask for and no run carries out, nil
// when there is nothing of the kind. Run does so too; before it nothing has been made.
func Refuse(p Population) error { return workload.Refuse(p, can) }

// errDrained is the cause of a context that the drain limit ended.
var errDrained = errors.New("drain limit")

// run is one call of Run.
type run struct {
	cfg    Config
	client *stream.Client
	header http.Header
	live   *Live
	next   atomic.Uint64
	guard  guard
	// keepText is whether the decoders keep the answers: to record or count them,
	// or since they come back as history.
	keepText bool
	// search sends the queries of retrievals; nil where no user searches.
	search *searcher
	// sessions and ahead are maxSessions and aheadBytes but in tests.
	sessions int
	ahead    int64
	// branches is the number of branches at work, spare what carries them out.
	branches atomic.Int64
	spare    sync.Pool
	// pantry makes and keeps what sessions say; bodies counts the bytes of the bodies
	// of requests that are prepared or under way.
	pantry *pantry
	bodies atomic.Int64
	most   int64 // maxBodies but in tests
	// own says that the first requests of sessions wait for their slots themselves, in
	// line with all others.
	own bool
	// slots holds one value per request in flight under a cap; nil without cap.
	slots chan struct{}

	// soft ends when nothing new may be started; hard when what is in flight
	// must end too.
	soft, hard       context.Context
	endSoft, endHard context.CancelFunc

	stopMu  sync.Mutex
	reason  StopReason
	message string
	stopped int64 // when, on the run's clock
}

// Run carries out the steps of cfg, one after another, and returns when every
// request has ended and has been recorded. The error is of the configuration
// alone, and nothing has been sent then; how requests fared is in the records.
// When ctx ends, requests in flight are cancelled and the result says so.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	r, err := newRun(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	defer r.close()
	if ctx.Err() != nil {
		r.stop(Interrupted, "interrupted", true)
	}
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		stop := cfg.Stop // a nil channel waits for ever
		for {
			select {
			case <-stop:
				r.stop(Interrupted, "interrupted", false)
				stop = nil // the context may still end the drain
			case <-ctx.Done():
				r.stop(Interrupted, "interrupted", true)
				return
			case <-done:
				return
			}
		}
	})

	res := &Result{Start: record.Unset}
	for i := range cfg.Steps {
		if r.soft.Err() != nil || i > 0 && cfg.More != nil && !cfg.More(i) {
			break
		}
		s := r.step(uint32(i))
		if i == 0 {
			res.Start = s.Start
		}
		res.Steps = append(res.Steps, *s)
	}
	close(done)
	watch.Wait()
	res.End = cfg.Clock.Now()
	if n := len(res.Steps); n > 0 {
		res.End = res.Steps[n-1].End
	}
	if res.Start == record.Unset {
		res.Start = res.End
	}
	r.stopMu.Lock()
	defer r.stopMu.Unlock()
	res.Stopped, res.Message = r.reason, r.message
	res.Endpoints = r.client.Endpoints()
	return res, nil
}

// newRun gets everything ready that the steps share.
func newRun(ctx context.Context, cfg Config) (*run, error) {
	// What can be wrong with a body is wrong with all of them.
	probe := message.Request{Parts: []message.Part{{Text: "x"}}}
	if _, err := dialect.AppendRequest(nil, cfg.API, &probe, cfg.Renderer, &cfg.Options); err != nil {
		return nil, err
	}
	if err := Refuse(cfg.Population); err != nil {
		return nil, err
	}
	if cfg.API == dialect.OpenAICompletions {
		if err := workload.Refuse(cfg.Population, plain); err != nil {
			return nil, fmt.Errorf("%s has no form for what the users send; %s has: %w", cfg.API, dialect.OpenAIChat, err)
		}
	}
	if _, ok := cfg.Renderer.(message.MediaRenderer); !ok && workload.NeedsOf(cfg.Population)&workload.NeedMedia != 0 {
		panic("BUG: media, and a renderer that makes none")
	}
	client, err := stream.New(cfg.Stream)
	if err != nil {
		return nil, err
	}
	r := &run{cfg: cfg, client: client, header: header(&cfg), live: cfg.Live, sessions: maxSessions, ahead: aheadBytes, most: maxBodies, pantry: newPantry(cfg.Renderer, pantryBytes)}
	if cfg.limit != nil {
		cfg.limit(r)
	}
	if r.live == nil {
		r.live = new(Live)
	}
	r.live.client.Store(client)
	r.guard.maxShare, r.guard.maxTotal = cfg.MaxErrorShare, cfg.MaxTotalTokens
	needs := workload.NeedsOf(cfg.Population)
	r.keepText = cfg.KeepText || cfg.Tokenizer != nil || needs&workload.NeedText != 0
	r.own = needs != 0 || slices.ContainsFunc(cfg.Steps, func(s Step) bool { return s.Users > 0 && s.Rate > 0 })
	if needs&workload.NeedSearch != 0 {
		r.search = newSearcher(client, r.pantry, cfg.Clock)
	}
	if cfg.MaxInFlight > 0 {
		r.slots = make(chan struct{}, cfg.MaxInFlight)
	}
	// Neither follows ctx by itself: the reason is set before they end.
	r.hard, r.endHard = context.WithCancel(context.WithoutCancel(ctx))
	r.soft, r.endSoft = context.WithCancel(r.hard)
	return r, nil
}

func (r *run) close() {
	r.endSoft()
	r.endHard()
	r.client.Close()
	r.pantry.close()
}

// header is what every request carries.
func header(c *Config) http.Header {
	h := c.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	// Set here, so that no exchange has to make a copy.
	if h.Get("Accept-Encoding") == "" {
		h.Set("Accept-Encoding", "identity")
	}
	if h.Get("User-Agent") == "" {
		h.Set("User-Agent", "plimsoll")
	}
	if h.Get("Accept") == "" {
		if c.Options.Stream {
			h.Set("Accept", "text/event-stream, application/json")
		} else {
			h.Set("Accept", "application/json")
		}
	}
	return h
}

// check refuses a configuration that cannot be carried out.
func (c *Config) check() error {
	switch {
	case c.Clock == nil, c.Population == nil, c.Renderer == nil, c.Sink == nil:
		panic("BUG: load.Config without clock, population, renderer or sink")
	case len(c.URLs) == 0:
		return errors.New("url: none is given")
	case len(c.Steps) == 0:
		return errors.New("steps: none is given")
	case c.MaxInFlight < 0:
		return fmt.Errorf("max-in-flight: want 0 or more, got %d", c.MaxInFlight)
	}
	for i := range c.Steps {
		s := &c.Steps[i]
		if s.Users < 0 || s.Users == 0 && !(s.Rate > 0) || s.Users > 0 && s.Rate > 0 && len(s.Streams) == 0 {
			return fmt.Errorf("step %d: want either users or a rate above 0, or users beside streams, got users %d and rate %g", i, s.Users, s.Rate)
		}
		if s.Rate > 0 && (math.IsInf(s.Rate, 0) || s.Rate > maxRate) {
			return fmt.Errorf("step %d: rate: want at most %g, got %g", i, float64(maxRate), s.Rate)
		}
		if s.Times != nil && (s.Times.Len() == 0 || s.Users > 0 || s.Requests == 0) {
			return fmt.Errorf("step %d: times: want at least one, with a mean rate and the number of requests", i)
		}
		if (s.Duration > 0) == (s.Requests > 0) {
			return fmt.Errorf("step %d: want either a duration or a number of requests, got %v and %d", i, s.Duration, s.Requests)
		}
		if s.Warmup < 0 || s.Drain < 0 {
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

// stop ends the run; the first reason holds.
func (r *run) stop(why StopReason, message string, cancel bool) {
	r.stopMu.Lock()
	if r.reason == Completed {
		r.reason, r.message, r.stopped = why, message, r.cfg.Clock.Now()
	}
	r.stopMu.Unlock()
	r.endSoft()
	if cancel {
		r.endHard()
	}
}

// stoppedAt returns when the run was stopped, and whether it was.
func (r *run) stoppedAt() (int64, bool) {
	r.stopMu.Lock()
	defer r.stopMu.Unlock()
	return r.stopped, r.reason != Completed
}

// step is one step under way.
type step struct {
	run *run
	res StepResult
	// hard ends when the drain limit or the run's hard end comes.
	hard context.Context
	cut  context.CancelCauseFunc
	// more ends when no further request can be scheduled: nobody waits any more for
	// what would only bring one.
	more   context.Context
	enough context.CancelFunc
	// left counts the requests that may still be scheduled in the steady window
	// of a number of requests.
	left atomic.Int64
	// lastEnd is when the last request of the steady window ended.
	lastEnd atomic.Int64
	// lastDue is when the last request of a number of them was scheduled.
	lastDue atomic.Int64

	scheduled, steady atomic.Uint64
	// over is closed when the steady window's last request has been scheduled
	// in a closed loop with a number of requests, and in an open one of given times.
	over     chan struct{}
	overOnce sync.Once
}

// step carries out step i.
func (r *run) step(i uint32) *StepResult {
	c := r.cfg.Steps[i]
	lead := r.rehearse(i, &c)
	s := &step{run: r, res: StepResult{Step: c, Index: i}, over: make(chan struct{})}
	s.hard, s.cut = context.WithCancelCause(r.hard)
	defer s.cut(nil)
	s.more, s.enough = context.WithCancel(r.soft)
	defer s.enough()
	s.left.Store(math.MaxInt64)
	if c.Requests > 0 && c.Times == nil {
		s.left.Store(int64(c.Requests))
	}
	s.lastEnd.Store(record.Unset)
	s.lastDue.Store(math.MaxInt64 - 1)
	s.res.Start = r.cfg.Clock.Now() + int64(lead)
	s.res.SteadyStart = s.res.Start + int64(c.Warmup)
	s.res.SteadyEnd = math.MaxInt64
	if c.Duration > 0 {
		s.res.SteadyEnd = s.res.SteadyStart + int64(c.Duration)
	}
	r.live.step.Store(int64(i))
	if r.cfg.Begun != nil {
		r.cfg.Begun(s.res)
	}

	drained, stopDrain := context.WithCancel(context.Background())
	var drain sync.WaitGroup
	var arrivals *arrivals
	if c.Rate > 0 {
		arrivals = s.arrivals()
	}
	drain.Go(func() { s.drain(drained) })
	var users sync.WaitGroup
	if c.Users > 0 {
		users.Go(s.closed)
	}
	if arrivals != nil {
		s.open(arrivals)
	}
	users.Wait()
	stopDrain()
	drain.Wait()

	s.res.End = max(r.cfg.Clock.Now(), s.res.Start)
	s.res.Scheduled, s.res.Steady = s.scheduled.Load(), s.steady.Load()
	at, stopped := r.stoppedAt()
	if c.Times != nil {
		s.res.Complete = !stopped
		s.res.SteadyEnd = max(s.lastEnd.Load()+1, s.res.SteadyStart)
	} else if c.Requests > 0 {
		s.res.Complete = s.res.Steady == uint64(c.Requests)
		if c.Users > 0 {
			// A window of a number of requests ends just after the last byte of the
			// last of them: its end is excluded, and that request's is not.
			s.res.SteadyEnd = max(s.lastEnd.Load()+1, s.res.SteadyStart)
		} else if r.own {
			// Later turns are requests of the window too: it is over with the last.
			s.res.SteadyEnd = min(s.res.SteadyEnd, max(s.lastDue.Load()+1, s.res.SteadyStart))
		}
	} else {
		s.res.Complete = !stopped || at >= s.res.SteadyEnd
	}
	if !s.res.Complete {
		s.res.SteadyEnd = min(s.res.SteadyEnd, max(at, s.res.SteadyStart))
	}
	return &s.res
}

// rehearse makes a prompt that is never sent and returns how long the step
// needs to get ready.
func (r *run) rehearse(i uint32, c *Step) time.Duration {
	var cost int64
	var body []byte
	last := uint64(math.MaxUint64)
	if c.Times != nil {
		last = uint64(max(c.Times.Len()-1, 0)) // there are no others
	}
	// The first time pays for tables and buffers; the second is of another session,
	// since what was counted once is known.
	for t := range uint64(2) {
		which := last - min(t, last)
		begun := r.cfg.Clock.Now()
		a := r.cfg.Population.Session(i, which).Start(begun)
		if a.Kind != workload.Send {
			continue
		}
		body = r.renderBy(r.cfg.Renderer, body[:0], &a)
		cost = r.cfg.Clock.Now() - begun
	}
	n := int64(c.Users)
	if c.Rate > 0 {
		n += ahead
	}
	// Four times the estimate: lengths vary.
	workers := min(c.Users, runtime.GOMAXPROCS(0))
	lead := leadTime + time.Duration(4*cost*n)/time.Duration(max(workers, 1))
	return min(lead, leadLimit)
}

// render makes the body of a's request, which m made, in the memory of dst. It is to
// be given back by release.
func (r *run) render(dst []byte, m workload.Machine, a *workload.Action) []byte {
	text := r.cfg.Renderer
	if _, ok := m.(workload.Foreseer); ok {
		text = r.pantry
		if !a.Request.Again && a.Retrieval == nil { // its query is of the turn, too
			text = r.pantry.lastTime(a.Request.Parts)
		}
	}
	body := r.renderBy(text, dst[:0], a)
	r.bodies.Add(int64(len(body)))
	return body
}

func (r *run) renderBy(text message.Renderer, dst []byte, a *workload.Action) []byte {
	dst, err := dialect.AppendRequest(dst, r.cfg.API, a.Request, text, &r.cfg.Options)
	if err != nil {
		panic("BUG: " + err.Error()) // newRun has tried
	}
	return dst
}

// drain cuts what is in flight when the drain limit comes.
func (s *step) drain(ctx context.Context) {
	clock := s.run.cfg.Clock
	end := s.res.SteadyEnd
	if end == math.MaxInt64 {
		select {
		case <-s.over:
		case <-s.run.soft.Done():
		case <-ctx.Done():
			return
		}
		end = clock.Now()
	} else {
		// A run that is stopped drains from then on.
		c, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(s.run.soft, cancel)
		err := clock.SleepUntil(c, end)
		stop()
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			end = clock.Now()
		}
	}
	if clock.SleepUntil(ctx, end+int64(s.res.Drain)) == nil {
		s.cut(errDrained)
	}
}

// admit decides whether a request that is due at a.At belongs to the step, and
// in which phase. In a window of a number of requests it takes one of them.
func (s *step) admit(a *workload.Action) (record.Phase, bool) {
	switch {
	case a.At < s.res.SteadyStart:
		return record.Warmup, true
	case a.At >= s.res.SteadyEnd:
		return record.Drain, false
	}
	switch n := s.left.Add(-1); {
	case n < 0:
		return record.Drain, false
	case n == 0:
		s.lastDue.Store(a.At)
		s.overOnce.Do(func() {
			close(s.over)
			s.enough()
		})
	}
	return record.Steady, true
}

// due counts a request that has become due and returns its number.
func (s *step) due(phase record.Phase) uint64 {
	n := s.scheduled.Add(1)
	if phase == record.Steady {
		s.steady.Add(1)
	}
	s.run.live.scheduled.Add(1)
	if s.res.Times != nil && n == uint64(s.res.Requests) {
		s.overOnce.Do(func() { close(s.over) })
	}
	return s.run.next.Add(1) - 1
}

// slot waits under the cap in flight, and records how long. When the wait ends
// without a slot the request has ended, never sent, and false is returned; so it
// is when the user gives up meanwhile.
func (s *step) slot(r *record.Request, a *workload.Action) bool {
	clock := s.run.cfg.Clock
	begun := max(clock.Now(), r.Scheduled)
	if a.CancelAt > 0 && a.CancelAt <= begun {
		s.gaveUp(r, max(a.CancelAt, r.Scheduled))
		return false
	}
	if s.run.slots == nil {
		return true
	}
	select {
	case s.run.slots <- struct{}{}:
		return true
	default:
	}
	var quit <-chan struct{}
	if a.CancelAt > 0 {
		ctx, cancel := context.WithTimeout(s.hard, time.Duration(a.CancelAt-begun))
		defer cancel()
		quit = ctx.Done()
	}
	ok := s.wait(quit)
	now := clock.Now()
	switch {
	case ok:
		r.CapWait = now - begun
	case a.CancelAt > 0 && now >= a.CancelAt && s.run.soft.Err() == nil && s.hard.Err() == nil:
		r.CapWait = a.CancelAt - begun
		s.gaveUp(r, a.CancelAt)
	default:
		r.CapWait = now - begun
		s.unsent(r)
	}
	return ok
}

// wait takes a slot, and returns false when the run, the step or quit ended first;
// a nil quit does not.
func (s *step) wait(quit <-chan struct{}) bool {
	select {
	case s.run.slots <- struct{}{}:
		return true
	case <-quit:
	case <-s.run.soft.Done():
	case <-s.hard.Done():
	}
	return false
}

// keepBody is the size of a buffer that is kept for the next request, and maxBodies
// that of all bodies that are prepared or under way at once: a request beyond is a
// failure of this machine.
const (
	keepBody  = 1 << 20
	maxBodies = 4 << 30
)

// fits fails a request when the bodies are too many. It comes after render, and
// before release.
func (w *worker) fits() bool {
	n := w.run.bodies.Load()
	if n > w.run.most {
		w.fail(record.ClientResource, fmt.Sprintf("the bodies of the requests that are under way are %d bytes, and one process holds at most %d", n, w.run.most))
	}
	return n <= w.run.most
}

// release gives back what render made and returns its buffer, if that is to be kept.
func (r *run) release(body []byte) []byte {
	r.bodies.Add(-int64(len(body)))
	if cap(body) > keepBody {
		return nil
	}
	return body[:0]
}

// unsent ends a request that was due and is not sent any more.
func (s *step) unsent(r *record.Request) {
	r.Status = record.Cancelled
	if context.Cause(s.hard) == errDrained {
		r.Status = record.Incomplete
	}
	r.End = s.run.cfg.Clock.Now()
}

// gaveUp ends a request whose user gave it up before it was sent.
func (s *step) gaveUp(r *record.Request, at int64) { r.Status, r.End = record.Cancelled, at }

// send sends a request that has a slot, and gives the slot back.
func (s *step) send(w *worker, a *workload.Action, body []byte) {
	r, rec := s.run, &w.rec
	free := func() {
		if r.slots != nil {
			<-r.slots
		}
	}
	asked := int64(a.Request.PromptTokens()) + int64(rec.AskedOutput)*int64(w.choices)
	if why := r.guard.reserve(asked); why != "" {
		free()
		r.stop(TokenLimit, why, false)
		s.unsent(rec)
		return
	}
	ctx := s.hard
	if patience := s.patience(a); patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(patience))
		defer cancel()
	}
	if a.CancelTokens > 0 {
		ctx, w.abandon = context.WithCancel(ctx)
		defer w.abandon()
	}
	if w.flow == &r.live.other || w.flow.workload != rec.Workload {
		w.flow = r.live.flow(rec.Workload)
	}
	r.live.sent.Add(1)
	r.live.inFlight.Add(1)
	w.flow.sent.Add(1)
	w.flow.inFlight.Add(1)
	w.exchange(ctx, body)
	r.live.inFlight.Add(-1)
	w.flow.inFlight.Add(-1)
	if w.decoding {
		w.decoding = false
		w.flow.decoding.Add(-1)
	}
	free()
	if rec.Status == record.Cancelled && context.Cause(s.hard) == errDrained {
		rec.Status = record.Incomplete
	}
	known := w.counted
	if rec.Output != record.Unknown {
		known = int64(rec.Output)
	}
	w.flow.outputTokens.Add(known - w.counted)
	if rec.Prompt != record.Unknown {
		r.live.promptTokens.Add(int64(rec.Prompt))
	}
	if why, message := r.guard.ended(rec, asked); why != Completed {
		r.stop(why, message, true)
	}
}

// patience is how many ns from now the user of a request waits for all of its
// answer; 0 for one who waits for ever.
func (s *step) patience(a *workload.Action) int64 {
	d := a.CancelAfter
	if a.CancelAt > 0 {
		left := max(1, a.CancelAt-s.run.cfg.Clock.Now())
		if d <= 0 || left < d {
			d = left
		}
	}
	return max(d, 0)
}

// finish counts and hands over an ended request.
func (s *step) finish(w *worker) {
	r := &w.rec
	if r.End == record.Unset {
		r.End = s.run.cfg.Clock.Now()
	}
	if r.Phase == record.Steady {
		for {
			last := s.lastEnd.Load()
			if r.End <= last || s.lastEnd.CompareAndSwap(last, r.End) {
				break
			}
		}
	}
	s.run.live.ended(r)
	s.run.cfg.Sink.Record(r)
}

// closed runs the users of a closed loop.
func (s *step) closed() {
	live := s.run.live
	live.users.Add(int64(s.res.Users))
	var users sync.WaitGroup
	for i := range uint32(s.res.Users) {
		users.Go(func() {
			m := s.run.cfg.Population.User(s.res.Index, i)
			s.drive(s.run.newWorker(), m, m.Start(s.res.Start), &visit{user: i})
			live.users.Add(-1)
		})
	}
	users.Wait()
}
