package twin

import (
	"context"
	"hash/maphash"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"plimsoll/internal/dialect"
	"plimsoll/internal/histogram"
	"plimsoll/internal/random"
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
	// staged is whether the way around the engine takes time.
	staged bool
	sender sender

	mu      sync.Mutex // guards the fields below
	desk    desk
	due     due
	inbox   []*answer // in the order in which the engine gets them
	cancels []*answer
	asleep  bool
	reset   bool // the prefix cache is to be forgotten
	wake    chan struct{}

	// Of the goroutine alone.
	out    []byte
	ended  []*answer // answers whose last token was in this step
	closed []*choice // choices whose account is complete after this step
	end    float64   // of the step under way
	firsts []float64 // times to first token in s of this step
	gaps   []gap     // times between tokens of this step
	batch  []made    // what this step made, when it is not sent at once
	sums   Counters  // the engine's before this step

	state struct {
		running, waiting, free atomic.Int64
		computed, cached       atomic.Int64 // of the prompts
		output                 atomic.Int64
		preemptions, steps     atomic.Int64
		queries, hits          atomic.Int64
		stop, length, abort    atomic.Int64
		rebased                atomic.Int64
	}

	logMu    sync.Mutex // guards the fields below
	late     histogram.Histogram
	last     histogram.Histogram
	hists    *engineHists
	worked   worked
	accounts []logged
	next     int // where the next account goes once the ring is full
}

// logged is the account of a sequence with when its request came, which is before
// it reached the engine.
type logged struct {
	Account
	came int64
}

// made is a token that waits to be sent.
type made struct {
	c      *choice
	index  int
	last   bool
	cached int
}

// parcel is what a step made, to be sent at an instant; some answers in it end,
// each at its own.
type parcel struct {
	at     float64
	end    float64 // of the step
	tokens []made
	ended  []ending
}

type ending struct {
	a  *answer
	at float64
}

// due is the step under way as the API process sees it: when it ends, with how
// many tokens, and when they are sent once it has taken them.
type due struct {
	end    float64
	tokens int
	taken  bool
	sent   float64
}

// takeStep gives the API process the tokens of the step under way when it has
// ended by now, whether the engine's goroutine is late or not: who comes after
// that waits behind them. The caller holds mu.
func (r *replica) takeStep(now float64) {
	if d := &r.due; !d.taken && d.tokens > 0 && d.end <= now {
		d.sent, d.taken = r.desk.step(d.end, d.tokens), true
	}
}

// sender sends what steps made when the API process would: it takes its time, and
// the engine goes on meanwhile.
type sender struct {
	mu     sync.Mutex // guards what follows
	queue  []parcel
	spare  []parcel
	asleep bool
	wake   chan struct{}
}

// gap is how often a time between tokens was seen.
type gap struct {
	ns float64
	n  uint64
}

// answer is one request while it is served.
type answer struct {
	conn    *conn
	replica *replica
	w       *dialect.Writer
	ask     exchange
	// Of a response: its name, what it goes on from, what was asked, and whether it may
	// be gone on from.
	id     string
	before *dialogue
	asked  []dialect.ServerMessage
	keeps  bool
	// arrival is when it came, ready when the engine gets it.
	arrival int64
	ready   float64
	prompt  int
	limit   int // max_tokens
	n       int // choices per prompt
	// leaving is the number of choices in the engine, open that of those that have
	// not finished, longest the length of the longest that has.
	leaving, open, longest int
	choices                []choice
	// unfinished is the number of choices that go on; it is the engine goroutine's.
	// What follows is of who sends: completion is the number of tokens sent,
	// reasoning that of those which were thought, -1 when none were asked for, cached
	// the number of prompt tokens that were in the prefix cache, -1 without one.
	unfinished, completion, reasoning int
	// over is when the end of the answer is sent, where that is after its last token.
	over                        float64
	cached                      int
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
	seed   uint64
	speech speech
	// thinking is the number of tokens at the start that are reasoning, tool the
	// function that is called instead of an answer.
	thinking int
	tool     string
	// form is the JSON text that it follows, nil for free text; closed says that it
	// comes to its end.
	form   *form
	closed bool
	last   float64 // when its last token was made
	held   []byte  // text that waits for more of its event
	sent   int     // the index of the last token sent
	// whole and thought are the text so far of an answer that is not a stream, or that
	// is kept.
	whole, thought []byte
	// blocks is how its text goes on, for the prefix cache.
	blocks     blocks
	remembered bool
}

func (r *replica) submit(a *answer) {
	r.mu.Lock()
	// Stamped under the lock, so that the inbox is in order of arrival.
	a.arrival = r.srv.clock.Now()
	a.ready = float64(a.arrival)
	i := len(r.inbox)
	if r.staged {
		r.takeStep(a.ready)
		a.ready = r.desk.enter(a.ready, a.prompt)
		// Beside another tokenizer a short prompt may overtake.
		for i > 0 && r.inbox[i-1].ready > a.ready {
			i--
		}
	}
	r.inbox = slices.Insert(r.inbox, i, a)
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
		if ok && r.srv.meter != nil {
			r.measure(start, length)
		}
		if !ok {
			next, ok := r.waitForWork(ctx)
			if !ok {
				return
			}
			start = r.srv.onGrid(r.index, max(start, next))
			if r.srv.clock.SleepUntil(ctx, int64(start)) != nil {
				return
			}
			continue
		}
		end := start + length
		if r.staged {
			r.mu.Lock()
			r.due = due{end: end, tokens: r.engine.Batch().Sampled}
			r.mu.Unlock()
		}
		if r.srv.clock.SleepUntil(ctx, int64(end)) != nil {
			return
		}
		late := r.srv.clock.Now() - int64(end)
		r.end = end
		r.engine.End(end, r.emit)
		// Before any answer ends: who has the whole of one finds its tokens in the metrics.
		r.publish()
		if r.staged {
			r.post(end)
		}
		r.settle()
		for i, a := range r.ended {
			if !r.staged {
				r.out = a.finish(r.out)
			}
			r.ended[i] = nil
		}
		r.ended = r.ended[:0]
		r.log(late, r.srv.clock.Now()-int64(end))
		start = end
		if late > int64(behindLimit) {
			start = float64(r.srv.clock.Now())
			r.state.rebased.Add(1)
		}
	}
}

// onGrid returns when an idle replica may start a step at or after start. Replicas
// whose steps have one fixed length would stay for ever in the order in which
// their first requests came, which is nearly at once, and so would their bursts of
// tokens: each keeps to its own share of a step.
func (s *Server) onGrid(replica int, start float64) float64 {
	if s.cfg.Step == 0 || len(s.replicas) == 1 {
		return start
	}
	step := float64(s.cfg.Step)
	phase := step * float64(replica) / float64(len(s.replicas))
	return phase + step*math.Ceil((start-phase)/step)
}

// measure notes what the step that begins makes the devices do.
func (r *replica) measure(start, length float64) {
	w := r.srv.meter.Work(r.engine.Batch())
	w.Busy = min(w.Busy, length/1e9)
	watts := r.srv.cluster.Layout.GPU.power(&w, length/1e9)
	r.logMu.Lock()
	r.worked.begin(start, start+length, w, watts)
	r.logMu.Unlock()
}

// log notes a step that has ended: how late its first and its last token were
// written, and what vLLM's histograms see of it.
func (r *replica) log(late, last int64) {
	c := &r.engine.Counters
	tokens := c.PromptTokens - r.sums.PromptTokens + c.OutputTokens - r.sums.OutputTokens
	r.sums = *c
	r.logMu.Lock()
	defer r.logMu.Unlock()
	r.late.Record(late)
	r.last.Record(last)
	r.worked.end()
	if tokens > 0 {
		r.hists[histIteration].observe(float64(tokens), 1)
	}
	for _, v := range r.firsts {
		r.hists[histFirstToken].observe(v, 1)
	}
	for _, g := range r.gaps {
		r.hists[histToken].observe(g.ns/1e9, g.n)
	}
	r.firsts, r.gaps = r.firsts[:0], r.gaps[:0]
}

// take moves into the engine what arrived until the start of the step.
func (r *replica) take(start float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget()
	n := 0
	for n < len(r.inbox) && r.inbox[n].ready <= start {
		a := r.inbox[n]
		r.inbox[n] = nil
		n++
		if a.gone.Load() {
			r.state.abort.Add(int64(len(a.choices)))
			r.srv.router.left(r.index)
			continue
		}
		for i := range a.choices {
			c := &a.choices[i]
			c.seq.Owner = c
			c.seq.Account.Arrival = a.ready
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

// forget resets the prefix cache when that was asked for. The caller holds mu and
// is the replica's goroutine.
func (r *replica) forget() {
	if r.reset {
		r.reset = false
		r.engine.ResetPrefixCache()
	}
}

// publish makes the engine's state and its counters known.
func (r *replica) publish() {
	l, c := r.engine.Load(), &r.engine.Counters
	s := &r.state
	s.running.Store(int64(l.Running))
	s.waiting.Store(int64(l.Waiting))
	s.free.Store(int64(l.Free))
	s.computed.Store(c.PromptTokens - c.CachedTokens)
	s.cached.Store(c.CachedTokens)
	s.output.Store(c.OutputTokens)
	s.preemptions.Store(c.Preemptions)
	s.steps.Store(c.Steps)
	s.queries.Store(c.PrefixQueries)
	s.hits.Store(c.PrefixHits)
}

// settle publishes the engine's state and the accounts that are complete.
func (r *replica) settle() {
	r.publish()
	if len(r.closed) == 0 {
		return
	}
	r.logMu.Lock()
	for i, c := range r.closed {
		a := c.answer
		// What was given up is counted, but not observed.
		if acc := &c.seq.Account; !acc.Cancelled {
			r.hists.finished(acc, a)
			a.longest = max(a.longest, acc.Output)
			if a.open--; a.open == 0 {
				r.hists[histMaxGeneration].observe(float64(a.longest), 1)
				r.hists[histChoices].observe(float64(a.n), 1)
			}
		}
		if a.leaving--; a.leaving == 0 {
			r.srv.router.left(r.index)
		}
		if e := (logged{c.seq.Account, a.arrival}); len(r.accounts) < accountsKept {
			r.accounts = append(r.accounts, e)
		} else {
			r.accounts[r.next] = e
			r.next = (r.next + 1) % accountsKept
		}
		r.closed[i] = nil
	}
	r.closed = r.closed[:0]
	r.logMu.Unlock()
}

// waitForWork returns when the next answer is ready for the engine, false when ctx
// ended.
func (r *replica) waitForWork(ctx context.Context) (float64, bool) {
	for {
		r.mu.Lock()
		var soon <-chan time.Time
		if len(r.inbox) > 0 {
			next := r.inbox[0].ready
			// Until then somebody may overtake.
			early := time.Duration(next-float64(r.srv.clock.Now())) - timerSlack
			if early <= 0 {
				r.mu.Unlock()
				return next, true
			}
			soon = time.After(early)
		}
		r.cancels = r.cancels[:0] // the engine is empty: nothing to take back
		r.forget()
		r.asleep = true
		r.mu.Unlock()
		select {
		case <-r.wake:
		case <-soon:
			r.mu.Lock()
			if !r.asleep {
				<-r.wake
			}
			r.asleep = false
			r.mu.Unlock()
		case <-ctx.Done():
			return 0, false
		}
	}
}

// timerSlack is how late the runtime's timers may be; what matters sleeps on the
// clock after that.
const timerSlack = 3 * time.Millisecond

// post hands what the step that ended made to the sender.
func (r *replica) post(end float64) {
	if len(r.batch) == 0 {
		return
	}
	p := parcel{end: end}
	r.sender.mu.Lock()
	if n := len(r.sender.spare); n > 0 {
		p, r.sender.spare = r.sender.spare[n-1], r.sender.spare[:n-1]
		p.end = end
	}
	r.sender.mu.Unlock()
	p.tokens, r.batch = r.batch, p.tokens[:0]
	r.mu.Lock()
	r.takeStep(end)
	p.at = r.due.sent
	for _, m := range p.tokens {
		if m.index == 0 {
			m.c.seq.Account.FirstSent = p.at
		}
		if m.last {
			m.c.seq.Account.Sent = p.at
		}
	}
	for _, a := range r.ended {
		n := 0
		for i := range a.choices {
			n += a.choices[i].seq.Output
		}
		a.over = r.desk.leave(p.at, n)
		p.ended = append(p.ended, ending{a, a.over})
	}
	r.mu.Unlock()
	q := &r.sender
	q.mu.Lock()
	q.queue = append(q.queue, p)
	if q.asleep {
		q.asleep = false
		q.wake <- struct{}{}
	}
	q.mu.Unlock()
}

// send is the sender's goroutine.
func (r *replica) send(ctx context.Context) {
	q := &r.sender
	var out []byte
	for {
		q.mu.Lock()
		if len(q.queue) == 0 {
			q.asleep = true
			q.mu.Unlock()
			select {
			case <-q.wake:
			case <-ctx.Done():
				return
			}
			continue
		}
		p := q.queue[0]
		q.queue = q.queue[:copy(q.queue, q.queue[1:])]
		q.mu.Unlock()
		if r.srv.clock.SleepUntil(ctx, int64(p.at)) != nil {
			return
		}
		for _, m := range p.tokens {
			if m.index == 0 {
				r.logMu.Lock()
				r.hists[histFirstToken].observe((p.at-float64(m.c.answer.arrival))/1e9, 1)
				r.logMu.Unlock()
			}
			out = r.say(out, m)
		}
		for _, e := range p.ended {
			if e.at <= p.at {
				out = e.a.finish(out)
				continue
			}
			r.srv.goroutines.Go(func() {
				if r.srv.clock.SleepUntil(ctx, int64(e.at)) == nil {
					e.a.finish(nil)
				}
			})
		}
		clear(p.tokens)
		clear(p.ended)
		q.mu.Lock()
		q.spare = append(q.spare, parcel{tokens: p.tokens[:0], ended: p.ended[:0]})
		q.mu.Unlock()
	}
}

// emit takes one token from the engine, and sends it unless that takes time.
func (r *replica) emit(s *Seq, index int, last bool) {
	c := s.Owner.(*choice)
	a := c.answer
	m := made{c: c, index: index, last: last}
	if index == 0 {
		if c.index%a.n == 0 { // the choices of a prompt share it
			m.cached = s.Account.Cached
		}
		if !r.staged {
			r.firsts = append(r.firsts, (r.end-s.Account.Arrival)/1e9)
		}
	} else if ns, n := r.end-c.last, len(r.gaps); n > 0 && r.gaps[n-1].ns == ns {
		r.gaps[n-1].n++
	} else {
		r.gaps = append(r.gaps, gap{ns, 1})
	}
	c.last = r.end
	if last {
		if c.finish == finishLength {
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
	if r.staged {
		r.batch = append(r.batch, m)
	} else {
		r.out = r.say(r.out, m)
	}
}

// say makes one token's text and sends it. out is where it is written down.
func (r *replica) say(out []byte, m made) []byte {
	c, index, last := m.c, m.index, m.last
	a := c.answer
	if a.cached >= 0 {
		a.cached += m.cached
	}
	piece := ""
	switch {
	case c.form != nil && index >= c.thinking:
		piece = c.form.piece(index-c.thinking, c.seq.Output-c.thinking, c.closed, c.speech.next)
	case c.tool == "" || index > 0: // the first token of a call is its function
		piece = c.speech.next()
	}
	a.completion++
	if c.remembered {
		c.blocks.add(maphash.String(r.srv.hash, piece))
		if last {
			c.tell(&r.srv.answers)
		}
	}
	if index < c.thinking {
		a.reasoning++
	}
	if c.tool != "" {
		piece = c.argument(piece, index, last)
	}
	if !a.stream || a.keeps {
		if index < c.thinking {
			c.thought = append(c.thought, piece...)
		} else {
			c.whole = append(c.whole, piece...)
		}
	}
	if !a.stream {
		return out
	}
	if a.gone.Load() {
		return out
	}
	if n := r.srv.cfg.TokensPerEvent; n > 1 {
		// As vLLM's stream interval: the first at once, then every n tokens.
		c.held = append(c.held, piece...)
		if index > 0 && !last && index+1 != c.thinking && index-c.sent < n {
			return out
		}
		piece, c.held = string(c.held), c.held[:0]
	}
	c.sent = index
	if piece == "" && index > 0 && !last && c.tool == "" {
		return out // behind the stop text
	}
	var u *dialect.WriterUsage
	if a.runningUsage {
		// As vLLM counts it: the tokens of all choices until now.
		u = a.tokens()
	}
	out = a.begin(out[:0])
	if index == 0 {
		out = a.w.AppendRole(out, c.index, u)
	}
	switch {
	case c.tool != "":
		call := dialect.Call{Arguments: piece}
		if index == 0 {
			call.ID, call.Name = c.callID(), c.tool
		}
		out = a.w.AppendCall(out, c.index, 0, &call, u)
		if last {
			out = a.w.AppendFinish(out, c.index, c.finish, u)
		}
	case index < c.thinking:
		out = a.w.AppendReasoning(out, c.index, piece, u)
		if last {
			out = a.w.AppendFinish(out, c.index, c.finish, u)
		}
	case last:
		out = a.w.AppendText(out, c.index, piece, c.finish, u)
	default:
		out = a.w.AppendText(out, c.index, piece, "", u)
	}
	out = a.close(out)
	if !a.send(out, last) {
		r.cancel(a)
	}
	return out
}

// send sends a part of the answer. The end of a response says all of it again: that is
// as long as it is, whatever waits before it.
func (a *answer) send(p []byte, end bool) bool {
	if end && a.id != "" {
		return a.conn.sendUpTo(p, math.MaxInt)
	}
	return a.conn.send(p)
}

// argument turns a piece of text into one of the arguments of a call: the token
// with the function's name has none, and only a call that ends by itself is
// closed.
func (c *choice) argument(piece string, index int, last bool) string {
	switch {
	case index == 0:
		return ""
	case index == 1:
		piece = `{"text": "` + piece
	}
	if last && c.finish != finishLength {
		piece += `"}`
	}
	return piece
}

// callID is the id of the choice's call.
func (c *choice) callID() string {
	return "call_" + strconv.FormatUint(random.Derive(c.seed, 0x63616c6c), 16)
}

// tokens is the account of tokens so far.
func (a *answer) tokens() *dialect.WriterUsage {
	return &dialect.WriterUsage{Prompt: a.prompt, Completion: a.completion, Cached: a.cached, Reasoning: a.reasoning}
}

// begin and close frame what is between them as one chunk of the body.
func (a *answer) begin(dst []byte) []byte {
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
	const header = len("0000\r\n")
	n := len(dst) - header
	if n > 0xffff {
		// The end of a long response, as several chunks.
		var all []byte
		for p := range slices.Chunk(dst[header:], 0xffff) {
			all = append(all, a.close(append(a.begin(nil), p...))...)
		}
		return all
	}
	for i := range 4 {
		dst[3-i] = digits[n>>(4*i)&15]
	}
	return append(dst, '\r', '\n')
}

// finish sends what follows the last token, or the whole answer. out is where it is
// written down.
func (a *answer) finish(out []byte) []byte {
	a.complete.Store(true)
	u := a.tokens()
	if a.keeps {
		a.keep()
	}
	if a.stream {
		out = a.begin(out[:0])
		if a.usage {
			out = a.w.AppendUsage(out, u)
		}
		out = a.w.AppendDone(out)
		out = a.close(out)
		if a.chunked {
			out = append(out, "0\r\n\r\n"...)
		}
		a.send(out, true)
		a.release()
		return out
	}
	// A whole answer can be large: another goroutine writes it down.
	a.replica.srv.goroutines.Go(func() {
		answers := make([]dialect.Answer, len(a.choices))
		for i := range a.choices {
			c := &a.choices[i]
			if c.tool != "" {
				answers[i] = dialect.Answer{Finish: c.finish, Calls: []dialect.Call{{ID: c.callID(), Name: c.tool, Arguments: string(c.whole)}}}
			} else {
				answers[i] = dialect.Answer{Text: string(c.whole), Reasoning: string(c.thought), Finish: c.finish}
			}
			c.whole, c.thought = nil, nil
		}
		a.conn.respond(&a.ask, 200, "application/json", a.w.AppendBody(nil, answers, u), a.keepAlive)
		a.release()
	})
	return out
}

// keep makes the answer one that may be gone on from. What was thought is left out of
// the history, as chat templates do.
func (a *answer) keep() {
	c := &a.choices[0]
	said := dialect.ServerMessage{Role: "assistant", Text: string(c.whole)}
	if c.tool != "" {
		said.Text = dialect.CallText(c.tool, said.Text)
	}
	a.replica.srv.dialogues.put(a.id, a.before, append(slices.Clip(a.asked), said))
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
	s := a.replica.srv
	if a.stream {
		s.http.observe(&a.ask, 200, s.clock.Now()-a.ask.began, 0)
	}
	s.dialogues.release(a.before)
	a.replica.srv.counters.inFlight.Add(-1)
	a.replica.srv.counters.sequences.Add(-int64(len(a.choices)))
	close(a.done)
	return true
}
