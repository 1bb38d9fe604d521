package conduct

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"plimsoll/internal/align"
	"plimsoll/internal/clock"
	"plimsoll/internal/detail"
	"plimsoll/internal/dialect"
	"plimsoll/internal/histogram"
	"plimsoll/internal/live"
	"plimsoll/internal/load"
	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/scenario"
	"plimsoll/internal/signal"
	"plimsoll/internal/stats"
	"plimsoll/internal/stream"
	"plimsoll/internal/telemetry"
)

// Config says what to run and where to keep it.
type Config struct {
	// Scenario is complete and valid. Its model is filled in when it names none.
	Scenario *scenario.Scenario
	// Root is the folder of runs, made when it is not there.
	Root string
	// Version is that of this program, for run.json.
	Version string
	// LookupEnv returns environment variables, ReadFile the files that the target
	// names.
	LookupEnv func(name string) (string, bool)
	ReadFile  func(name string) ([]byte, error)
	// Dir is the folder that names of traces, data sets and documents are relative
	// to; "" when none may be read, since the scenario came over the network.
	Dir string
	// Stop, when closed, ends the run softly: nothing new is started and what is
	// in flight may end within its drain. Ending the context cancels what is in
	// flight. Either way what was measured is kept.
	Stop <-chan struct{}
	// Steer, when not nil, makes what decides how many of the steps are run.
	Steer func() Steering
	// Progress, when not nil, is called about once a second, at once when the run
	// is asked to stop, when the load is over, and then while what the panel draws
	// is made; never by two goroutines at once.
	Progress func(Progress)
	// Note, when not nil, is told before the load what of it will be refused, a sentence
	// at a time.
	Note func(text string)
	// Watch, when not nil, is told of the run as it goes on; it may ask it to stop. It
	// is a new one, and ended with the run, once that has begun.
	Watch *live.Watch
	// Limits are those of the telemetry; the zero value has the usual ones.
	Limits Limits
}

// Progress is how far a run has come.
type Progress struct {
	// Folder is where the run is kept, Model what it asks for.
	Folder, Model string
	// Phase is warmup, steady or drain.
	Phase record.Phase
	// Step counts from 0; Users or Rate is its load, or both.
	Step, Steps int
	Users       int
	Rate        float64
	// Elapsed is the time since the load began. Share is the part of the planned
	// load that is done, 0 to 1, and Left the time that the rest may take without
	// drains; both are negative when they cannot be known.
	Elapsed time.Duration
	Share   float64
	Left    time.Duration
	// Counts are of the whole run. EndedPerS and TokensPerS are over the last
	// interval.
	Counts                load.Snapshot
	EndedPerS, TokensPerS float64
	// Server is what the servers said last, nil when they say nothing.
	Server *ServerNow
	// Stopping is true once the run has been asked to stop, Over when the load is over.
	Stopping, Over bool
	// Making is, where the load is over and all figures are known, how much of what the
	// panel draws is made, 0 to 1. It comes alone, and only where that takes long.
	Making float64
}

// Result is a run that was carried out, however it went.
type Result struct {
	// Folder is where it is kept, ID its name.
	Folder, ID string
	Summary    *stats.Summary
	// Stopped and Message say why it ended, Completed when it ran to its end.
	Stopped load.StopReason
	Message string
	// Broken is why not all of the run could be kept, nil when it was.
	Broken error
}

// progressInterval is how often Progress is called.
const progressInterval = time.Second

// UsageError is what is wrong with what the user asked for.
type UsageError struct{ Err error }

// Error returns the text of the cause.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }

// Run carries out one run. A *UsageError or *PreflightError says that it was not
// started; other errors are of keeping the run. How the requests fared
// is in the result, never an error.
func Run(ctx context.Context, cfg *Config) (*Result, error) {
	// The scenario is the caller's: what is found out goes into a copy.
	own := *cfg.Scenario
	s := &own
	access, err := NewAccess(&s.Target, cfg.LookupEnv, cfg.ReadFile)
	if err != nil {
		return nil, &UsageError{Err: err}
	}
	urls, err := endpoints(s)
	if err != nil {
		return nil, &UsageError{Err: err}
	}
	if _, err := checkHardware(s); err != nil {
		return nil, &UsageError{Err: err}
	}
	around, err := newPages(s, access, cfg.LookupEnv, cfg.ReadFile)
	if err != nil {
		return nil, &UsageError{Err: err}
	}
	around.limits = cfg.Limits
	counter, err := loadTokenizer(&s.Target, cfg.ReadFile)
	if err != nil {
		return nil, &UsageError{Err: err}
	}
	src := &sources{readFile: cfg.ReadFile, dir: cfg.Dir, done: cfg.Stop}
	defer src.close()
	users, err := newCrowd(s, src, counter)
	if err != nil {
		return nil, scenarioError(err)
	}
	if err := load.Refuse(users.Population); err != nil {
		return nil, &UsageError{Err: err}
	}
	plan := users.steps(s)
	if err := stream.CheckDescriptors(descriptors(plan, s.Load.MaxInFlight)); err != nil {
		return nil, &PreflightError{Kind: record.ClientResource, Err: err}
	}
	// Before the run begins either way of stopping ends it at once.
	pctx, done := context.WithCancel(ctx)
	defer done()
	go func() {
		select {
		case <-cfg.Stop:
			done()
		case <-pctx.Done():
		}
	}()
	target, err := preflight(pctx, s, access)
	if err != nil {
		return nil, err
	}
	notes, err := users.fits(s, len(plan), target)
	if err != nil {
		return nil, &UsageError{Err: err}
	}
	tellNotes(cfg.Note, notes)
	plan = users.steps(s) // without what does not fit
	lengths := &calibration{info: run.Lengths{By: run.LengthsTokenizer}}
	switch {
	case wantsLengths(s, counter):
		if lengths, err = newCalibration(pctx, s, users, access, urls[0]); err != nil {
			return nil, err
		}
	case counter == nil:
		lengths = nil
	}
	if s.Target.ResetPrefixCache {
		if err := resetPrefixCache(pctx, s, access); err != nil {
			return nil, err
		}
	}
	c := clock.New()
	read, found, err := around.find(pctx, c)
	if err != nil {
		return nil, &UsageError{Err: err}
	}
	if found != nil {
		target.discovered(found)
	}
	var reading *readings
	if len(read) > 0 {
		if reading, err = newReadings(read, around, c); err != nil {
			return nil, &UsageError{Err: err}
		}
	}
	if pctx.Err() != nil {
		return nil, pctx.Err()
	}

	if s.Name == "" {
		s.Name = "run"
	}
	text, err := s.Marshal()
	if err != nil {
		return nil, fmt.Errorf("write the scenario: %w", err)
	}
	k := &keeper{
		cfg: cfg, scenario: s, plan: plan, target: target, access: access, counter: counter, users: users, lengths: lengths, clock: c, live: new(load.Live),
		begun: make(chan load.StepResult, len(plan)), steer: newSteer(cfg.Steer),
		input: stats.Input{
			Name: s.Name, Started: c.Start().UTC(), RateDriven: s.RateDriven(),
			MaxInFlight:   s.Load.MaxInFlight,
			IntendedReuse: intendedReuse(s, users.replay), TPOTFloorMS: TPOTFloor(s),
		},
	}
	if err := serviceLevels(&k.input, s, src); err != nil {
		return nil, &UsageError{Err: err}
	}
	k.input.Steps = planned(plan, 0)
	k.writer, err = run.Create(cfg.Root, run.Info{
		Name: s.Name, Tags: s.Tags, Version: cfg.Version, Host: host(), Target: target.json(),
		Clocks: run.Clocks{Source: "CLOCK_MONOTONIC", KernelTimes: false},
		Agents: 1, ScenarioHash: s.Hash(), Start: c.Start().UTC(), Replay: users.planned(), Input: &k.input,
	}, text)
	if err != nil {
		return nil, err
	}
	k.input.ID = k.writer.ID()
	if k.readings = reading; reading != nil {
		reading.tap.next = k.writer.Sink()
		if cfg.Watch != nil {
			reading.tap.next = cfg.Watch.Sink(k.writer.Sink())
		}
	}
	return k.run(ctx, users, access, urls, string(text))
}

// tellNotes tells of each of some notes whoever wants to hear.
func tellNotes(tell func(string), notes []string) {
	if tell == nil {
		return
	}
	for _, n := range notes {
		tell(n)
	}
}

// planned are the steps as they are expected to come, without drains, from time
// 0 of the run's clock on.
func planned(plan []load.Step, at int64) []stats.StepInput {
	out := make([]stats.StepInput, 0, len(plan))
	for _, p := range plan {
		length := window(&p)
		if length == 0 {
			// Nobody knows: as long as the run's clock goes on.
			length = math.MaxInt64/4 - time.Duration(at) - p.Warmup
		}
		start := at + int64(p.Warmup)
		out = append(out, stats.StepInput{Users: p.Users, Rate: p.Rate, Start: start, End: start + int64(length), Asked: asked(&p)})
		at = start + int64(length)
		if p.Duration == 0 && p.Users > 0 {
			break
		}
	}
	return out
}

// keeper looks after one run while it goes on.
type keeper struct {
	cfg      *Config
	scenario *scenario.Scenario
	plan     []load.Step
	target   *Facts
	access   *Access
	counter  record.Counter // nil without a tokenizer
	clock    *clock.Clock
	live     *load.Live
	writer   *run.Writer
	input    stats.Input
	readings *readings // nil when nothing is read
	users    *crowd
	lengths  *calibration // nil when lengths are estimated
	steer    *steer       // nil when nobody steers

	// begun carries the steps that were started to the goroutine that tells of
	// them, so that the load never waits for a disk.
	begun chan load.StepResult
	// completed says whether the load ran to its end; set before over is closed.
	completed bool
}

// Record hands a record to the run on disk.
func (k *keeper) Record(r *record.Request) {
	k.steer.record(r)
	k.lengths.add(r)
	// r is the load's: what is changed is a copy, as long as Add takes.
	var c record.Request
	if r.Message != "" {
		c = *r
		c.Message = k.access.Redact(r.Message)
		r = &c
	}
	if !k.scenario.Data.SaveText && (len(r.Text) > 0 || r.ReasoningText != "" || r.RefusalText != "") {
		// Answers were kept to be counted, or to come back as history.
		c = *r
		c.Text, c.ReasoningText, c.RefusalText = nil, "", ""
		r = &c
	}
	k.writer.Add(r)
	if w := k.cfg.Watch; w != nil {
		w.Record(r)
	}
}

func (k *keeper) run(ctx context.Context, users *crowd, access *Access, urls []string, text string) (*Result, error) {
	t := &k.scenario.Target
	w := k.writer
	// A disk that is full ends the run softly, like the user.
	stop := make(chan struct{})
	over := make(chan struct{})
	var beside sync.WaitGroup
	beside.Go(func() {
		select {
		case <-k.cfg.Stop:
			close(stop)
		case <-k.asked():
			close(stop)
		case <-w.Failed():
			close(stop)
		case <-over:
		}
	})
	var sink signal.Sink
	if k.readings != nil {
		sink = w.Sink() // not by way of the readings, which show what servers say
	}
	watch := startWatch(k.clock.Now, k.clock.Start(), sink, k.readings.host())
	canary := stream.NewCanary(stream.Config{Now: k.clock.Now, Start: k.clock.Start()})
	k.showTo(canary, text)
	beside.Go(func() { k.tell(over) })
	k.readings.begin(ctx, stop)

	res, err := load.Run(ctx, load.Config{
		Clock: k.clock,
		Stream: stream.Config{
			Now: k.clock.Now, Start: k.clock.Start(), TLS: access.TLS, Proxy: access.Proxy,
			ConnectTimeout: t.ConnectTimeout, NewConnection: t.NewConnection,
		},
		URLs: urls, Header: access.Header, API: dialect.API(t.API), Options: options(k.scenario),
		HeaderTimeout: t.HeaderTimeout, IdleTimeout: t.IdleTimeout, TotalTimeout: t.Timeout,
		Seed: k.scenario.Seed, Population: users.Population, Renderer: users.renderer, Steps: k.plan,
		MaxInFlight: k.scenario.Load.MaxInFlight, MaxErrorShare: k.scenario.Guards.MaxErrorShare,
		MaxTotalTokens: k.scenario.Guards.MaxTotalTokens, KeepText: k.scenario.Data.SaveText, Tokenizer: k.counter,
		Sink: k, Live: k.live, Stop: stop, More: k.steer.more(),
		Begun: func(s load.StepResult) {
			canary.Ignore(s.SteadyStart)
			k.begun <- s
		},
	})
	watch.stop()
	canary.Stop()
	k.completed = err == nil && res.Stopped == load.Completed
	k.readings.end(ctx, stop)
	close(over)
	beside.Wait()
	closed := w.Close()
	if err != nil {
		_ = w.Update(func(i *run.Info) { i.State, i.Message = run.Failed, err.Error() }) // the first error is told
		_ = k.shown(nil, nil)                                                            // as above
		return nil, err
	}
	out, err := k.finish(res, watch, canary.Lags(), closed)
	if out == nil {
		return nil, errors.Join(err, k.shown(nil, res.Steps))
	}
	out.Broken = errors.Join(out.Broken, k.shown(out.Summary, res.Steps))
	return out, err
}

// finish makes the summary of a run that is over and writes it.
func (k *keeper) finish(res *load.Result, watch *watch, lags *histogram.Histogram, closed error) (*Result, error) {
	w, in := k.writer, &k.input
	in.Steps = k.steer.went(k.plan, res.Steps, res.End, res.Stopped == load.Completed)
	in.Duration = res.End - res.Start
	in.Client = stats.ClientInput{CanaryLag: lags, DroppedRecords: w.Dropped(), OpenConnections: new(k.live.MostConnections())}
	if k.readings != nil {
		in.Client.DroppedSamples = w.Sink().Dropped()
	}
	from, to := in.Steps[0].Start, res.End
	if n := len(res.Steps); n > 0 {
		to = max(res.Steps[n-1].SteadyEnd, from)
	}
	if share, ok := watch.cpuShare(from, to); ok {
		in.Client.CPUShare = &share
	}
	in.Client.GCPause = new(histogram.Histogram)
	for _, ns := range watch.gcPauses(from, to) {
		in.Client.GCPause.Record(ns)
	}
	closed = errors.Join(closed, w.Update(func(i *run.Info) {
		if r := k.users.replay; r != nil {
			i.Replay = r.ended()
		}
		i.Lengths = k.lengths.ended()
	}))
	out := &Result{Folder: w.Dir(), ID: w.ID(), Stopped: res.Stopped, Message: k.access.Redact(res.Message)}
	return conclude(w, in, out, k.clock.Wall(res.End).UTC(), k.connected(res.Endpoints), k.readings.info(k.access), closed, making(k.cfg.Progress, progressInterval))
}

// windows are the steady windows of the steps as they went, in a run that ended
// at end.
func windows(plan []load.Step, went []load.StepResult, end int64) []stats.StepInput {
	out := make([]stats.StepInput, 0, len(plan))
	for _, s := range went {
		out = append(out, stats.StepInput{Users: s.Users, Rate: s.Rate, Start: s.SteadyStart, End: s.SteadyEnd, Asked: asked(&s.Step), Complete: s.Complete})
	}
	for _, p := range plan[len(went):] {
		// Never started: a window without length, so that the run is not taken for
		// a whole one.
		out = append(out, stats.StepInput{Users: p.Users, Rate: p.Rate, Start: end, End: end, Asked: asked(&p)})
	}
	return out
}

// conclude writes what a run that ended at end came to. Without a summary in out
// it makes one from the records.
// made is told how much is made of what the panel draws, 0 to 1.
func conclude(w *run.Writer, in *stats.Input, out *Result, end time.Time, target json.RawMessage, sources []telemetry.SourceInfo, closed error, made func(share float64)) (*Result, error) {
	if err := w.Err(); err != nil {
		out.Message = "it could not be kept: " + err.Error()
	}
	state := run.Done
	switch out.Stopped {
	case load.Completed, load.TokenLimit:
	case load.Interrupted:
		state = run.Interrupted
	default:
		state = run.Failed
	}
	// On a full disk none of this works; what was measured is told all the same.
	kept := errors.Join(closed, w.Update(func(i *run.Info) {
		i.State, i.Message, i.End, i.Input = state, out.Message, &end, in
		i.Target, i.Telemetry = target, sources
	}))
	var aligned *run.Alignment
	if out.Summary == nil {
		saved, err := run.Open(w.Dir())
		if err != nil {
			return nil, errors.Join(kept, err)
		}
		in.Server = totals(saved)
		out.Summary = stats.Summarize(*in, saved.Requests())
		result, err := align.Run(saved)
		aligned = put(out.Summary, result, err)
	}
	var times []run.SourceTimes
	if aligned != nil {
		times = aligned.Sources
	}
	b, err := out.Summary.Marshal()
	if err != nil {
		return nil, errors.Join(kept, err)
	}
	out.Broken = errors.Join(
		kept,
		w.WriteSummary(b),
		w.Update(func(i *run.Info) {
			i.Verdict = out.Summary.Run.Verdict
			ts := out.Summary.Client.Timestamps
			i.Clocks.KernelTimes = ts != nil && *ts == "kernel"
			i.Input, i.Alignment = in, aligned
			for _, t := range times {
				if t.Source < len(i.Telemetry) {
					i.Telemetry[t.Source].ClockOffset, i.Telemetry[t.Source].ClockUncertainty = t.OffsetNS, t.UncertaintyNS
				}
			}
		}),
	)
	if out.Broken == nil {
		// What the panel draws; where it cannot be made now the first opening makes it.
		if saved, err := run.Open(w.Dir()); err == nil {
			_ = detail.Make(saved, Timeline(saved), detail.Progress(made))
		}
	}
	return out, nil
}

// making returns what passes on, at most once in an interval, how much is made of what
// the panel draws. The first interval passes without a word.
func making(tell func(Progress), interval time.Duration) func(share float64) {
	if tell == nil {
		return func(float64) {}
	}
	last := time.Now()
	return func(share float64) {
		if now := time.Now(); now.Sub(last) >= interval && share > 0 {
			last = now
			tell(Progress{Over: true, Making: share, Share: -1, Left: -1})
		}
	}
}

// connected adds what became of the connections to what is known of the target.
func (k *keeper) connected(ends []stream.EndpointStats) json.RawMessage {
	f := k.target
	for _, e := range ends {
		f.Connections = append(f.Connections, Connections{
			Host: e.Host, Opened: e.Opened, Reused: e.Reused, IdleDeaths: e.IdleDeaths, SentAgain: e.Stale,
			LateEnds: e.LateEnds, ReuseOff: e.ReuseOff, Addresses: e.Addresses,
		})
	}
	return f.json()
}

// tell keeps run.json up to date with the steps that begin, and tells of the
// progress, until the load is over.
func (k *keeper) tell(over <-chan struct{}) {
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	t := teller{k: k}
	stop, asked := k.cfg.Stop, k.asked()
	for {
		select {
		case <-stop:
			stop, t.stopping = nil, true
			t.progress(false)
		case <-asked:
			asked, t.stopping = nil, true
			t.progress(false)
		case s := <-k.begun:
			t.begin(s)
		case <-tick.C:
			t.progress(false)
		case <-over:
			for {
				select {
				case s := <-k.begun:
					t.begin(s)
					continue
				default:
				}
				break
			}
			// The load may be over before anybody here has heard that it was asked to stop.
			select {
			case <-stop:
				t.stopping = true
			case <-asked:
				t.stopping = true
			default:
			}
			t.progress(true)
			return
		}
	}
}

type teller struct {
	k    *keeper
	step load.StepResult
	// any is true once a step has begun.
	any, stopping bool
	// At the beginning of the step under way, and at the last call.
	atBegin, last load.Snapshot
	lastAt        int64
}

func (t *teller) begin(s load.StepResult) {
	k := t.k
	first := !t.any
	t.step, t.any, t.atBegin = s, true, k.live.Snapshot()
	if first {
		t.lastAt = s.Start
	}
	// What is known of the windows, should this process be killed: those of the
	// steps that began, and the plan for the others.
	i := int(s.Index)
	end := s.SteadyEnd
	rest := planned(k.plan[i:], s.Start)
	if end == math.MaxInt64 {
		end = rest[0].End
	}
	rest[0].Start, rest[0].End = s.SteadyStart, end
	steps := append(slices.Clone(k.input.Steps[:min(i, len(k.input.Steps))]), rest...)
	// The run goes on without: what is lost then is only precision after a kill.
	_ = k.writer.Update(func(info *run.Info) {
		in := k.input
		in.Steps = steps
		k.input.Steps = steps
		info.Input, info.Telemetry = &in, k.readings.info(k.access)
	})
	if w := k.cfg.Watch; w != nil {
		w.Step(s, k.input)
	}
}

func (t *teller) progress(over bool) {
	k := t.k
	if k.cfg.Progress == nil && k.cfg.Watch == nil || !t.any {
		return
	}
	now, snap := k.clock.Now(), k.live.Snapshot()
	p := Progress{
		Folder: k.writer.Dir(), Model: k.scenario.Target.Model,
		Step: int(t.step.Index), Steps: len(k.plan), Users: t.step.Users, Rate: t.step.Rate,
		Counts: snap, Stopping: t.stopping, Over: over, Share: -1, Left: -1, Server: k.readings.now(),
		Elapsed: time.Duration(max(0, now-k.firstStart(t))),
	}
	switch {
	case now < t.step.SteadyStart:
		p.Phase = record.Warmup
	case now < t.step.SteadyEnd && snap.Scheduled-t.atBegin.Scheduled < t.limit():
		p.Phase = record.Steady
	default:
		p.Phase = record.Drain
	}
	if dt := float64(now-t.lastAt) / 1e9; dt > 0 {
		p.EndedPerS = float64(snap.Ended()-t.last.Ended()) / dt
		p.TokensPerS = max(0, float64(snap.OutputTokens-t.last.OutputTokens)/dt)
	}
	t.last, t.lastAt = snap, now
	p.Share, p.Left = t.share(now, &snap)
	if over {
		p.Left = 0
		if k.completed {
			p.Share = 1
		}
	}
	if w := k.cfg.Watch; w != nil {
		w.Progress(live.Progress{Draining: p.Phase == record.Drain, Share: p.Share, Left: p.Left, Stopping: p.Stopping})
	}
	if k.cfg.Progress != nil {
		k.cfg.Progress(p)
	}
}

// limit is how many requests the step under way may schedule.
func (t *teller) limit() int64 {
	if t.step.Requests > 0 && t.step.Warmup == 0 {
		return int64(t.step.Requests)
	}
	return math.MaxInt64
}

// firstStart is when the load began.
func (k *keeper) firstStart(t *teller) int64 {
	if t.step.Index == 0 {
		return t.step.Start
	}
	return k.input.Steps[0].Start - int64(k.plan[0].Warmup)
}

// share returns how much of the planned load is done and how long the rest may
// take, by time where the windows have a length, else by requests.
func (t *teller) share(now int64, snap *load.Snapshot) (float64, time.Duration) {
	var total, gone time.Duration
	for i, p := range t.k.plan {
		length := window(&p)
		if length == 0 {
			return t.shareOfRequests(now, snap)
		}
		length += p.Warmup
		total += length
		switch {
		case i < int(t.step.Index):
			gone += length
		case i == int(t.step.Index):
			gone += min(length, time.Duration(max(0, now-t.step.Start)))
		}
	}
	return float64(gone) / float64(total), total - gone
}

func (t *teller) shareOfRequests(now int64, snap *load.Snapshot) (float64, time.Duration) {
	n := float64(len(t.k.plan))
	of := 0.0
	if t.step.Requests > 0 {
		of = min(1, float64(snap.Ended()-t.atBegin.Ended())/float64(t.step.Requests))
	}
	share := (float64(t.step.Index) + of) / n
	spent := now - t.k.firstStart(t)
	if of <= 0 || spent <= 0 {
		return share, -1
	}
	return share, time.Duration(float64(spent) * (1 - share) / share)
}

// host describes this machine.
func host() run.Host {
	h := run.Host{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version(), PID: os.Getpid()}
	if name, err := os.Hostname(); err == nil {
		h.Name = name
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		h.Kernel = strings.TrimSpace(string(b))
	}
	return h
}
