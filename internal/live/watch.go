package live

import (
	"sync"
	"time"

	"plimsoll/internal/align"
	"plimsoll/internal/detail"
	"plimsoll/internal/histogram"
	"plimsoll/internal/load"
	"plimsoll/internal/record"
	"plimsoll/internal/signal"
	"plimsoll/internal/stats"
	"plimsoll/internal/telemetry"
)

const (
	second = int64(time.Second)
	// quarter is the time in ns between two looks at what came. A snapshot of a
	// second is made a quarter after it, when the servers have been read.
	quarter = second / 4
)

// Run is what a Watch is told of a run when it begins. Now, Live, Plan and Input
// are required.
type Run struct {
	// Row has what is known of the run in the list of runs, Dir is its folder and
	// Scenario its text.
	Row      detail.RunRow
	Dir      string
	Scenario string
	// Start is the start instant of the run's clock, Now its time in ns.
	Start time.Time
	Now   func() int64
	// Live are the load's counters.
	Live *load.Live
	// Plan is the load that is to come.
	Plan []load.Step
	// Input has the limits and, as far as it is known, the windows.
	Input stats.Input
	// Workloads are those that will come, in the order of their colours.
	Workloads []string
	// Sessions says that the rates of Plan are those of sessions.
	Sessions bool
	// Every is the time between readings of telemetry, 0 without.
	Every time.Duration
	// Sources returns what is known of the sources of telemetry; nil without. Hints
	// say how to get those that were looked for and not found.
	Sources func() []telemetry.SourceInfo
	Hints   []telemetry.Hint
	// Health returns how this process does; nil when nobody knows.
	Health func() Health
}

// Health is how the process that makes the load does.
type Health struct {
	// CPU is the time in ns that its threads have used so far, 0 when that is not
	// known; Cores is how many processors it may use.
	CPU   int64
	Cores int
	// Canary has the lags of the canary so far in ns, nil when there is none; it is
	// the Watch's.
	Canary *histogram.Histogram
}

// Progress is how far the run has come, as its conductor works it out.
type Progress struct {
	// Draining says that nothing more is scheduled in the step under way.
	Draining bool
	// Share is the part of the planned load that is done, 0 to 1, Left the time that
	// the rest may take; below 0 when they cannot be known.
	Share float64
	Left  time.Duration
	// Stopping says that the run has been asked to stop.
	Stopping bool
}

// Watch looks at one run. The zero value does not work; see New. Its methods are
// for concurrent use, but that Begin, End and Close are called once, in this order.
type Watch struct {
	begun, ended, stop chan struct{}
	stopOnce           sync.Once
	run                Run
	queue              queue
	tap                tap
	ring               *Ring
	store              *detail.Store

	over chan struct{} // closed to end the loop
	done sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	progress Progress
	steps    []load.StepResult // that began
	final    *stats.Summary    // nil before the end
	doc      doc

	// The rest is the loop's alone.
	running   *align.Running
	rows      rows
	batch     []*record.Request
	samples   []signal.Sample
	firsts    []load.First
	look      look
	sets      map[int64]*set
	ttft      recent
	tpot      recent
	sendLag   recent
	e2e       recent
	canary    recent
	lastLags  *histogram.Histogram
	limits    []*limit
	outcomes  outcomes
	late      stretch
	lateMark  int
	failing   stretch
	failMark  int
	lost      map[int]*source
	good      int64
	firstFail bool
	// pending is the second that is sampled and not yet told, -1 for none.
	pending int64
	busyAt  map[int64]bool
}

// New returns a Watch for a run that is to come.
func New() *Watch {
	w := &Watch{ring: new(Ring), begun: make(chan struct{}), ended: make(chan struct{}), stop: make(chan struct{}), over: make(chan struct{})}
	w.queue.room = mostRequests
	w.pending = -1
	w.sets, w.busyAt, w.lost = make(map[int64]*set), make(map[int64]bool), make(map[int]*source)
	return w
}

// Begun is closed when the run has begun: from then on it has an ID.
func (w *Watch) Begun() <-chan struct{} { return w.begun }

// Ended is closed when the run is over and its summary is on disk.
func (w *Watch) Ended() <-chan struct{} { return w.ended }

// ID returns the name of the run, "" before it has begun.
func (w *Watch) ID() string {
	if !closed(w.begun) {
		return ""
	}
	return w.run.Row.ID
}

// Store returns what is known of the run, nil before it has begun.
func (w *Watch) Store() *detail.Store {
	if !closed(w.begun) {
		return nil
	}
	return w.store
}

// Stop asks the run to end: nothing new is started, what is in flight may end.
func (w *Watch) Stop() { w.stopOnce.Do(func() { close(w.stop) }) }

// Asked is closed when Stop has been called.
func (w *Watch) Asked() <-chan struct{} { return w.stop }

// Ring returns the last snapshots, for who wants to read them behind the end, too.
func (w *Watch) Ring() *Ring { return w.ring }

// Reader returns a reader of the snapshots after the one of a number; below 0 from
// the newest on.
func (w *Watch) Reader(after int64) *Reader { return w.ring.Reader(after) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Sink returns a sink that passes telemetry on to next and looks at it. It is to be
// called before Begin, at most once.
func (w *Watch) Sink(next signal.Sink) signal.Sink {
	w.tap.next = next
	return &w.tap
}

// Record takes a request that has ended; it is not kept. It never waits: what
// there is no room for is counted and left out.
func (w *Watch) Record(r *record.Request) { w.queue.put(r) }

// Step says that a step of the load has begun, and what is known of the windows since.
func (w *Watch) Step(s load.StepResult, in stats.Input) {
	w.store.SetInput(in)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps = append(w.steps, s)
}

// Progress says how far the run has come.
func (w *Watch) Progress(p Progress) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.progress = p
}

// Begin begins to look at a run. Nothing is taken before.
func (w *Watch) Begin(r Run) {
	w.run = r
	w.store = detail.New(detail.Meta{Dir: r.Dir, Input: r.Input, Workloads: r.Workloads})
	w.running = align.NewRunning(r.Start, int64(r.Every), second)
	w.limits = newLimits(&r.Input)
	r.Live.TakeFirsts(nil) // from now on they are kept
	w.look.before = []past{{at: r.Now()}}
	w.doc.begin(w)
	close(w.begun)
	w.done.Go(w.loop)
}

// End says how the run ended: what has not been looked at is, and a last snapshot is
// made. A nil summary is that of a run that came to nothing; steps are those that
// were carried out. Close follows, when everything of the run is on disk.
func (w *Watch) End(summary *stats.Summary, steps []load.StepResult) {
	w.mu.Lock()
	if len(steps) > 0 {
		w.steps = steps
	}
	w.final = summary
	w.mu.Unlock()
	close(w.over)
	w.done.Wait()
	w.ring.end()
}

// Close says that the run's files are complete.
func (w *Watch) Close() { close(w.ended) }

// loop looks at what comes until the end.
func (w *Watch) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for {
		now := w.run.Now()
		timer.Reset(time.Duration((now/quarter+1)*quarter - now))
		select {
		case <-timer.C:
			w.tick(w.run.Now())
		case <-w.over:
			w.last()
			return
		}
	}
}

// tick does what is due at a time: on a machine that is too busy several looks fall
// together, and seconds are left out.
func (w *Watch) tick(now int64) {
	w.drain(now)
	k := now / second
	if w.pending < 0 && k > w.look.second || w.pending >= 0 && k > w.pending {
		if w.pending >= 0 {
			w.publish(now, w.pending, false) // late, but in order
		}
		w.sample(now, k)
		w.pending = k
	}
	if w.pending >= 0 && now >= w.pending*second+quarter {
		w.publish(now, w.pending, false)
		w.pending = -1
	}
}

// last makes the last snapshot.
func (w *Watch) last() {
	now := w.run.Now()
	w.drain(now)
	if w.pending >= 0 {
		w.publish(now, w.pending, false)
	}
	w.sample(now, now/second+1) // the second that is under way counts as one
	w.publish(now, now/second+1, true)
}

// drain takes what came.
func (w *Watch) drain(now int64) {
	w.batch = w.queue.take(w.batch[:0])
	for _, r := range w.batch {
		w.store.AddRequest(r)
		w.requestEnded(r)
	}
	w.queue.done(w.batch)
	clear(w.batch)
	w.firsts = w.run.Live.TakeFirsts(w.firsts[:0])
	for _, f := range w.firsts {
		w.set(f.At).add(fTTFT, f.Flow+1, f.TTFT)
		w.ttft.add(f.TTFT)
	}
	series, samples := w.tap.take(w.rows.declared, w.samples)
	for _, s := range series {
		w.running.Declare(s)
	}
	w.rows.declared += len(series)
	w.running.Add(now, samples)
	w.samples = samples
}
