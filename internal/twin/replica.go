package twin

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"plimsoll/internal/dialect"
	"plimsoll/internal/histogram"
)

// behindLimit is how late a step may be before its engine gives up catching up
// and starts anew from now: the process was stopped, not slow.
const behindLimit = 2 * time.Second

// accountsKept bounds the accounts in memory, per replica.
const accountsKept = 1 << 16

// replica is one engine in real time. One goroutine runs it on an absolute
// schedule: a step ends its length after the step before ended by schedule,
// however late the goroutine woke, so that lateness never adds up. The same
// goroutine writes every token of the step.
type replica struct {
	srv    *Server
	index  int
	engine *Engine

	mu      sync.Mutex // guards the fields below
	inbox   []*answer
	cancels []*answer
	asleep  bool
	wake    chan struct{}

	// Of the goroutine alone.
	out    []byte
	ended  []*answer // answers whose last token was in this step
	closed []*choice // choices whose account is complete after this step

	state struct {
		running, waiting, free atomic.Int64
		prompt, output         atomic.Int64
		preemptions, steps     atomic.Int64
		stop, length, abort    atomic.Int64
		rebased                atomic.Int64
	}

	logMu    sync.Mutex // guards the fields below
	late     histogram.Histogram
	accounts []Account
	next     int // where the next account goes once the ring is full
}

// answer is one request while it is served.
type answer struct {
	conn    *conn
	replica *replica
	w       *dialect.Writer
	arrival int64
	prompt  int
	choices []choice
	// unfinished is the number of choices that go on, completion the number of
	// tokens sent; both are the engine goroutine's.
	unfinished, completion      int
	stream, usage, runningUsage bool
	chunked, keepAlive          bool
	// complete is set before the last bytes are sent: a client that leaves after
	// that has not left early. gone is set when nobody waits any more.
	complete, gone atomic.Bool
	done           chan struct{}
}

// choice is one sequence of an answer.
type choice struct {
	seq    Seq
	answer *answer
	index  int
	finish string
	speech speech
	whole  []byte // the text so far of an answer that is not a stream
}

func (r *replica) submit(a *answer) {
	r.mu.Lock()
	// Stamped under the lock, so that the inbox is in order of arrival.
	a.arrival = r.srv.clock.Now()
	r.inbox = append(r.inbox, a)
	r.rouse()
	r.mu.Unlock()
}

// cancel gives an answer up; its memory is free from the next step on.
func (r *replica) cancel(a *answer) {
	if !a.end() {
		return
	}
	if a.complete.Load() {
		return
	}
	r.srv.counters.aborted.Add(1)
	r.mu.Lock()
	r.cancels = append(r.cancels, a)
	r.rouse()
	r.mu.Unlock()
}

// rouse wakes the goroutine if it has nothing to do. The caller holds mu.
func (r *replica) rouse() {
	if r.asleep {
		r.asleep = false
		r.wake <- struct{}{}
	}
}

// run is the replica's goroutine.
func (r *replica) run(ctx context.Context) {
	start := 0.0
	for {
		r.take(start)
		length, ok := r.engine.Begin(start)
		r.settle()
		if !ok {
			next, ok := r.waitForWork(ctx)
			if !ok {
				return
			}
			start = max(start, next)
			continue
		}
		end := start + length
		if r.srv.clock.SleepUntil(ctx, int64(end)) != nil {
			return
		}
		late := r.srv.clock.Now() - int64(end)
		r.engine.End(end, r.emit)
		for i, a := range r.ended {
			a.finish(r)
			r.ended[i] = nil
		}
		r.ended = r.ended[:0]
		r.settle()
		r.logMu.Lock()
		r.late.Record(late)
		r.logMu.Unlock()
		start = end
		if late > int64(behindLimit) {
			start = float64(r.srv.clock.Now())
			r.state.rebased.Add(1)
		}
	}
}

// take moves into the engine what arrived until the start of the step.
func (r *replica) take(start float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for n < len(r.inbox) && float64(r.inbox[n].arrival) <= start {
		a := r.inbox[n]
		r.inbox[n] = nil
		n++
		if a.gone.Load() {
			r.state.abort.Add(int64(len(a.choices)))
			continue
		}
		for i := range a.choices {
			c := &a.choices[i]
			c.seq.Owner = c
			c.seq.Account.Arrival = float64(a.arrival)
			r.engine.Submit(&c.seq)
		}
	}
	r.inbox = append(r.inbox[:0], r.inbox[n:]...)
	for i, a := range r.cancels {
		for j := range a.choices {
			c := &a.choices[j]
			if c.seq.state != idle && !c.seq.cancel {
				r.engine.Cancel(&c.seq)
				r.closed = append(r.closed, c)
				r.state.abort.Add(1)
			}
		}
		r.cancels[i] = nil
	}
	r.cancels = r.cancels[:0]
}

// settle publishes the engine's state and the accounts that are complete.
func (r *replica) settle() {
	l, c := r.engine.Load(), &r.engine.Counters
	s := &r.state
	s.running.Store(int64(l.Running))
	s.waiting.Store(int64(l.Waiting))
	s.free.Store(int64(l.Free))
	s.prompt.Store(c.PromptTokens)
	s.output.Store(c.OutputTokens)
	s.preemptions.Store(c.Preemptions)
	s.steps.Store(c.Steps)
	if len(r.closed) == 0 {
		return
	}
	r.logMu.Lock()
	for i, c := range r.closed {
		if len(r.accounts) < accountsKept {
			r.accounts = append(r.accounts, c.seq.Account)
		} else {
			r.accounts[r.next] = c.seq.Account
			r.next = (r.next + 1) % accountsKept
		}
		r.closed[i] = nil
	}
	r.closed = r.closed[:0]
	r.logMu.Unlock()
}

// waitForWork returns the arrival of the next answer, false when ctx ended.
func (r *replica) waitForWork(ctx context.Context) (float64, bool) {
	for {
		r.mu.Lock()
		if len(r.inbox) > 0 {
			next := r.inbox[0].arrival
			r.mu.Unlock()
			return float64(next), true
		}
		r.cancels = r.cancels[:0] // the engine is empty: nothing to take back
		r.asleep = true
		r.mu.Unlock()
		select {
		case <-r.wake:
		case <-ctx.Done():
			return 0, false
		}
	}
}

// emit sends one token.
func (r *replica) emit(s *Seq, index int, last bool) {
	c := s.Owner.(*choice)
	a := c.answer
	piece := c.speech.next()
	a.completion++
	finish := ""
	if last {
		finish = c.finish
		if finish == finishLength {
			r.state.length.Add(1)
		} else {
			r.state.stop.Add(1)
		}
		r.closed = append(r.closed, c)
		a.unfinished--
		if a.unfinished == 0 {
			r.ended = append(r.ended, a)
		}
	}
	if !a.stream {
		c.whole = append(c.whole, piece...)
		return
	}
	if a.gone.Load() {
		return
	}
	var u *dialect.WriterUsage
	if a.runningUsage {
		// As vLLM counts it: the tokens of all choices until now.
		u = &dialect.WriterUsage{Prompt: a.prompt, Completion: a.completion, Cached: -1, Reasoning: -1}
	}
	r.out = a.open(r.out[:0])
	if index == 0 {
		r.out = a.w.AppendRole(r.out, c.index, u)
	}
	r.out = a.w.AppendText(r.out, c.index, piece, finish, u)
	r.out = a.close(r.out)
	if !a.conn.send(r.out) {
		r.cancel(a)
	}
}

// open and close frame what is between them as one chunk of the body.
func (a *answer) open(dst []byte) []byte {
	if a.chunked {
		dst = append(dst, "0000\r\n"...)
	}
	return dst
}

func (a *answer) close(dst []byte) []byte {
	if !a.chunked {
		return dst
	}
	const digits = "0123456789abcdef"
	n := len(dst) - len("0000\r\n")
	if n > 0xffff {
		panic("BUG: a chunk of the answer is too long for its header")
	}
	for i := range 4 {
		dst[3-i] = digits[n>>(4*i)&15]
	}
	return append(dst, '\r', '\n')
}

// finish sends what follows the last token, or the whole answer.
func (a *answer) finish(r *replica) {
	a.complete.Store(true)
	u := &dialect.WriterUsage{Prompt: a.prompt, Completion: a.completion, Cached: -1, Reasoning: -1}
	if a.stream {
		r.out = a.open(r.out[:0])
		if a.usage {
			r.out = a.w.AppendUsage(r.out, u)
		}
		r.out = dialect.AppendDone(r.out)
		r.out = a.close(r.out)
		if a.chunked {
			r.out = append(r.out, "0\r\n\r\n"...)
		}
		a.conn.send(r.out)
		a.release()
		return
	}
	// A whole answer can be large: another goroutine writes it down.
	r.srv.goroutines.Go(func() {
		answers := make([]dialect.Answer, len(a.choices))
		for i := range a.choices {
			c := &a.choices[i]
			answers[i] = dialect.Answer{Text: string(c.whole), Finish: c.finish}
			c.whole = nil
		}
		a.conn.respond(200, "application/json", a.w.AppendBody(nil, answers, u), a.keepAlive)
		a.release()
	})
}

// release gives the connection back to its reader.
func (a *answer) release() {
	if !a.keepAlive {
		a.conn.finish()
	} else {
		_ = a.conn.nc.SetReadDeadline(time.Now().Add(idleTimeout)) // an error shows at the next read
	}
	a.end()
}

// end marks the answer as over, and is true for the first who does.
func (a *answer) end() bool {
	if a.gone.Swap(true) {
		return false
	}
	a.replica.srv.counters.inFlight.Add(-1)
	a.replica.srv.counters.sequences.Add(-int64(len(a.choices)))
	close(a.done)
	return true
}
