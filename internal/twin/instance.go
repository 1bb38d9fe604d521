package twin

import (
	"slices"
	"sort"

	"plimsoll/internal/record"
)

// maxPieces bounds what is planned ahead: an arrival throws the rest away.
const maxPieces = 8

// instance is one replica in virtual time.
type instance struct {
	wake
	engine Engine
	liner  Liner
	index  int
	desk   desk
	// coming are the sequences on their way to the engine, by the time at which it
	// gets them; leaving those that it has finished and whose answers are not over.
	coming  []entrant
	leaving []*session

	stepping, ending bool
	// free is when the last step ended: the next begins no earlier.
	free float64
	// plan is when the steps under way end, in order; fed is the first piece of it
	// whose tokens the API process has not had yet.
	plan []piece
	fed  int
	// past is when the steps before ended, in order. What nobody can ask for any more
	// is dropped: dropped is the number of those pieces, keep the length of past at
	// which to look for more.
	past    []piece
	dropped int64
	keep    int
	recent  recent
	gaps    gapCounts

	// Integrals over time of running sequences and of the share of blocks in use,
	// and the largest share.
	runningNS, usedNS float64
	used, peak        float64
}

// entrant is a sequence that the engine gets at an instant.
type entrant struct {
	at  int64
	seq *Seq
}

// submit hands a sequence to the engine, which sees it in the first step that
// begins at an instant, now or later, or after it.
func (in *instance) submit(d *driver, q *Seq, at int64) {
	i := len(in.coming)
	in.coming = append(in.coming, entrant{})
	// Beside another tokenizer a short prompt may overtake.
	for ; i > 0 && in.coming[i-1].at > at; i-- {
		in.coming[i] = in.coming[i-1]
	}
	in.coming[i] = entrant{at, q}
	in.disturb(d, at)
}

// take gives the engine the sequences that have come by an instant.
func (in *instance) take(now float64) {
	n := 0
	for n < len(in.coming) && float64(in.coming[n].at) <= now {
		in.engine.Submit(in.coming[n].seq)
		n++
	}
	if n > 0 {
		left := copy(in.coming, in.coming[n:])
		clear(in.coming[left:])
		in.coming = in.coming[:left]
	}
}

// turnBack gives up a sequence that is on its way to the engine.
func (in *instance) turnBack(q *Seq) {
	i := slices.IndexFunc(in.coming, func(e entrant) bool { return e.seq == q })
	in.coming = slices.Delete(in.coming, i, i+1)
}

// over forgets the answer of a sequence.
func (in *instance) over(q *Seq) {
	if q.Account.First > 0 {
		in.past[q.first-in.dropped].needed--
	}
}

// cancel gives a sequence up that the engine has.
func (in *instance) cancel(d *driver, q *Seq) {
	in.over(q)
	q.Owner = nil
	in.engine.Cancel(q)
	d.router.Left(in.index)
	in.disturb(d, d.now)
}

// enter takes a request in and returns when the engine gets it.
func (in *instance) enter(d *driver, prompt int) int64 {
	in.catchUp(d.now) // what the steps made is before it in the queue
	return int64(in.desk.enter(float64(d.now), prompt))
}

// catchUp gives the API process the tokens of the steps that have ended by now.
func (in *instance) catchUp(now int64) {
	if in.stepping && in.desk.costs.OutputToken > 0 {
		for in.fed < len(in.plan) {
			p := &in.plan[in.fed]
			n := p.endedBy(now)
			if n == 0 {
				break
			}
			if n < p.n {
				in.plan = slices.Insert(in.plan, in.fed+1, p.split(n))
			}
			in.feed()
		}
	}
}

// feed gives the API process the tokens of the next piece.
func (in *instance) feed() {
	p := &in.plan[in.fed]
	in.fed++
	p.before, p.cost = in.desk.api, in.desk.costs.OutputToken*float64(p.tokens)
	if p.cost > 0 {
		in.desk.api = p.sent(p.n)
	}
}

// disturb lets the engine look at what has changed, or will have at an instant to
// come: only the steps that begin before it stay in the plan.
func (in *instance) disturb(d *driver, at int64) {
	if in.ending {
		return // the next step has not begun yet
	}
	if !in.stepping {
		if begins, ok := d.agenda.due(&in.wake); !ok || at < begins {
			d.agenda.set(&in.wake, at, classBegin)
		}
		return
	}
	if in.cut(float64(at)) {
		d.agenda.set(&in.wake, int64(in.free), classEnd)
	}
}

// cut takes the steps out of the plan that do not begin before an instant, except
// for the first, and returns whether there were any.
func (in *instance) cut(at float64) bool {
	last := len(in.plan) - 1
	if p := &in.plan[last]; last == 0 && p.n == 1 || p.end(p.n-1) < at {
		return false
	}
	for last > 0 && in.plan[last].start >= at {
		last--
	}
	p := &in.plan[last]
	p.n = max(p.begunBefore(at), 1)
	in.plan = in.plan[:last+1]
	in.free = p.end(p.n)
	return true
}

// turn is what the agenda calls: a row of steps has ended, or the next may begin.
func (in *instance) turn(d *driver) {
	if in.stepping {
		in.ending = true
		in.end(d)
		in.ending = false
		if next, ok := d.agenda.next(); !ok || next > d.now {
			in.begin(d) // nothing else is due at this instant
		} else {
			d.agenda.set(&in.wake, d.now, classBegin)
		}
		return
	}
	in.free = max(in.free, float64(d.now))
	in.begin(d)
}

// begin begins as many steps as are sure to follow each other.
func (in *instance) begin(d *driver) {
	e := &in.engine
	start := in.free
	in.take(start)
	length, ok := e.Begin(start)
	if !ok {
		if len(in.coming) > 0 {
			d.agenda.set(&in.wake, in.coming[0].at, classBegin)
		}
		return
	}
	if len(in.past) >= in.keep {
		in.prune()
	}
	in.stepping = true
	in.plan, in.fed = in.plan[:0], 0
	step := e.tick + 1
	n := int64(1)
	if in.liner != nil {
		n = e.Ahead()
	}
	if n == 1 {
		p := piece{step: step, n: 1, start: start, first: length}
		p.tokens = int32(e.batch.Sampled)
		if e.alone {
			p.step, p.apart = e.tick, true
		}
		in.plan = append(in.plan, p)
		in.free = start + length
	} else {
		b := &d.ahead
		*b = e.batch
		per := int64(b.Decodes)
		for len(in.plan) < maxPieces && n > 0 {
			ns, perToken, until := in.liner.Line(b)
			m := n
			if until != maxKV {
				m = min(n, (until-b.KV)/per+1)
			}
			p := piece{step: step, n: m, start: start, first: ns, growth: perToken * float64(per), tokens: int32(b.Sampled)}
			in.plan = append(in.plan, p)
			start = p.end(m)
			step += m
			n -= m
			b.KV += m * per
			b.Windowed += m * int64(b.Growing)
		}
		in.free = start
		if len(in.coming) > 0 {
			in.cut(float64(in.coming[0].at))
		}
	}
	d.agenda.set(&in.wake, int64(in.free), classEnd)
}

// end ends the steps under way.
func (in *instance) end(d *driver) {
	e := &in.engine
	in.stepping = false
	e.Leap(in.planned())
	l := e.Load()
	used := 1 - float64(l.Free)/float64(l.Blocks)
	span := in.free - in.plan[0].start
	in.runningNS += float64(l.Running) * span
	in.usedNS += (in.used + used) / 2 * span
	in.peak = max(in.peak, used)
	e.End(in.free, nil)
	number := in.dropped + int64(len(in.past)+len(in.plan)) - 1
	begun := &in.plan[len(in.plan)-1].needed
	for _, q := range e.plan {
		if q.Account.First == in.free && q.Owner != nil {
			q.first = number
			*begun++
		}
	}
	for _, q := range e.done {
		q.last = number
	}
	if !in.desk.none() {
		for in.fed < len(in.plan) {
			in.feed()
		}
		p := &in.plan[len(in.plan)-1]
		sent := p.sent(p.n)
		for _, q := range e.plan {
			if q.Account.First == in.free {
				q.Account.FirstSent = sent
			}
			if q.start == in.free {
				q.start = sent
			}
		}
		for _, q := range e.done {
			q.Account.Sent = sent
		}
	}
	if in.recent.wanted {
		in.recent.add(in.plan)
	}
	in.past = append(in.past, in.plan...)
	if len(e.done) > 0 {
		l = e.Load()
		used = 1 - float64(l.Free)/float64(l.Blocks)
		for _, q := range e.done {
			if u, ok := q.Owner.(*session); ok {
				d.finished(u, in)
			}
		}
	}
	in.used = used
}

// settle counts the steps of the plan that have ended at the end of all. Whoever
// they were for has given up.
func (in *instance) settle(now int64) {
	if !in.stepping {
		return
	}
	in.engine.Leap(in.planned())
	if int64(in.free) <= now {
		in.engine.End(in.free, nil)
	}
	in.stepping = false
}

// planned is the number of steps under way.
func (in *instance) planned() int64 {
	var n int64
	for i := range in.plan {
		n += in.plan[i].n
	}
	return n
}

// prune drops the pieces that no sequence's answer reaches back to.
func (in *instance) prune() {
	drop := 0
	for drop < len(in.past) && in.past[drop].needed == 0 {
		drop++
	}
	in.countPieces(drop)
	in.dropped += int64(drop)
	left := in.past[drop:]
	in.keep = len(left) + len(left)/2 + 32
	if room := in.keep + 2*maxPieces; cap(in.past) < room {
		in.past = append(make([]piece, 0, room), left...)
	} else {
		in.past = append(in.past[:0], left...)
	}
}

// find returns the index of the piece of the past with a step, or how many there
// are.
func (in *instance) find(step int64) int {
	return sort.Search(len(in.past), func(i int) bool { return in.past[i].step+in.past[i].n > step })
}

// Finished is a request that has ended, as the driver hands it over.
type Finished struct {
	// Request is complete but for its Events: see Events.
	Request record.Request
	// Stages is where its time went.
	Stages Stages

	replica *instance
	seq     *Seq
	until   int64
	times   []int64
}

// Replica is the index of the engine that worked on the request, -1 when none
// did.
func (f *Finished) Replica() int {
	if f.replica == nil {
		return -1
	}
	return f.replica.index
}

// Times returns when each token of the answer came, in order. It is nil for an
// answer that did not come as a stream.
func (f *Finished) Times() []int64 {
	if f.seq == nil || !f.Request.Streamed {
		return nil
	}
	if len(f.times) == 0 {
		f.times = f.appendTimes(f.times)
	}
	return f.times
}

// Events fills in the request's events: one token each, each in a read of its
// own.
func (f *Finished) Events() {
	if f.replica != nil {
		f.replica.recent.wanted = true
	}
	f.listEvents()
}

func (f *Finished) listEvents() {
	r := &f.Request
	r.Events = r.Events[:0]
	for i, at := range f.Times() {
		r.Events = append(r.Events, record.Event{
			At: at, Cumulative: record.Unknown, Tokens: 1, Read: uint32(i), Channel: record.Content,
		})
	}
}

func (f *Finished) appendTimes(dst []int64) []int64 {
	q := f.seq
	made := 0
	add := func(start float64, base, last int64) {
		if start != 0 {
			if int64(start) > f.until {
				return
			}
			dst = append(dst, int64(start))
			made++
		}
		dst = f.replica.appendTimes(dst, base+int64(made)+1, last, f.until)
	}
	for _, run := range q.runs {
		add(run.start, run.base, run.base+int64(run.last))
		made = run.last
	}
	switch {
	case q.state == idle: // it has finished
		add(q.start, q.base, q.base+int64(q.Output))
	case q.state == decoding:
		add(q.start, q.base, maxKV)
	}
	return dst
}

// maxKV is beyond any step, time or KV sum.
const maxKV = 1<<63 - 1

// leastRecent and mostRecent bound the steps whose times are kept: the answers of
// many replicas must not need much memory each.
const (
	leastRecent = 1 << 9
	mostRecent  = 1 << 13
)

// recent is when the tokens of the latest steps were sent. All sequences of a step
// share it, so that it is worked out once. Steps from first to before next are
// known, step i at i modulo the length, which is a power of two.
type recent struct {
	// wanted is set once the times of whole answers are asked for.
	wanted      bool
	times       []int64
	first, next int64
}

// add takes the pieces of steps that have ended, whose tokens are sent.
func (r *recent) add(pieces []piece) {
	if r.times == nil {
		r.times = make([]int64, leastRecent)
	}
	for i := range pieces {
		p := &pieces[i]
		if p.apart {
			continue
		}
		size := int64(len(r.times))
		from := max(p.n-size, 0)
		if p.step != r.next || from > 0 {
			r.first = p.step + from
		}
		for from < p.n {
			at := (p.step + from) & (size - 1)
			to := min(from+size-at, p.n)
			p.appendSent(r.times[at:at], from, to)
			from = to
		}
		r.next = p.step + p.n
		r.first = max(r.first, r.next-size)
	}
}

// appendTimes appends the times of the steps from first to last, if all are known.
// It makes room for more when there are too many.
func (r *recent) appendTimes(dst []int64, first, last int64) ([]int64, bool) {
	if first > last || last >= r.next {
		return dst, false
	}
	size := int64(len(r.times))
	if first < r.first {
		if r.next-first > size && size < mostRecent {
			larger := make([]int64, 2*size)
			for i := r.first; i < r.next; i++ {
				larger[i&(2*size-1)] = r.times[i&(size-1)]
			}
			r.times = larger
		}
		return dst, false
	}
	i, n := first&(size-1), last-first+1
	if i+n <= size {
		return append(dst, r.times[i:i+n]...), true
	}
	dst = append(dst, r.times[i:]...)
	return append(dst, r.times[:i+n-size]...), true
}

// appendTimes appends when the steps from first to last ended, up to a time.
func (in *instance) appendTimes(dst []int64, first, last, until int64) []int64 {
	if all, ok := in.recent.appendTimes(dst, first, last); ok {
		for i := len(dst); until != maxKV && i < len(all); i++ {
			if all[i] > until {
				return all[:i]
			}
		}
		return all
	}
	for _, pieces := range [][]piece{in.past[in.find(first):], in.underWay()} {
		for i := range pieces {
			p := &pieces[i]
			if p.apart {
				continue
			}
			from, to := max(first-p.step, 0), min(last-p.step, p.n-1)
			for k := from; k <= to; k++ {
				t := int64(p.sent(k + 1))
				if t > until {
					return dst
				}
				dst = append(dst, t)
			}
		}
	}
	return dst
}

// underWay is the plan while its steps have not ended.
func (in *instance) underWay() []piece {
	if in.stepping {
		return in.plan
	}
	return nil
}

// counts fills in what follows from an answer of n tokens that came one by one.
func (f *Finished) counts(n int) {
	r := &f.Request
	r.StreamedTokens, r.FirstEventTokens = int32(n), 1
	r.StreamEvents, r.Reads = uint32(n), uint32(n)
	if n > 1 {
		r.Basis = record.BasisFirstEvent
	}
	f.times = f.times[:0]
	if n > 1 && 20*(r.End-r.FirstToken) <= r.End-r.Start {
		// What record calls a buffered stream needs a look at each gap.
		f.listEvents()
		r.Resolve(nil)
		r.Events = r.Events[:0]
	}
}

// cutShort fills in what is known of an answer that was cut.
func (f *Finished) cutShort() {
	r := &f.Request
	r.Streamed = r.AskedStream
	f.times = f.times[:0]
	times := f.Times()
	if len(times) == 0 {
		r.Streamed = false
		return
	}
	r.HTTPStatus = 200
	r.Prompt, r.Output, r.Source = int32(f.seq.Prompt), int32(len(times)), record.SourceServer
	first, last := times[0], times[len(times)-1]
	r.FirstEvent, r.FirstToken, r.FirstContent, r.LastToken = first, first, first, last
	f.counts(len(times))
	f.times = times
}
