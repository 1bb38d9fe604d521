package trace

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"plimsoll/internal/message"
	"plimsoll/internal/random"
	"plimsoll/internal/record"
	"plimsoll/internal/workload"
	"plimsoll/internal/workload/content"
)

// Timing says when a request that waits for others starts.
type Timing string

// The timings.
const (
	// Absolute: at its recorded time, or when what it waits for has ended,
	// whichever is later. A request without a time of its own is Causal.
	Absolute Timing = "absolute"
	// Causal: as long after the end of what it waits for as it was recorded.
	Causal Timing = "causal"
)

// ReplayOptions say how a trace is replayed.
type ReplayOptions struct {
	// Name labels the requests; empty is the trace's file.
	Name string
	Seed uint64
	// Timing is Absolute when empty.
	Timing Timing
	// Speed divides all times of the trace, 0 is 1.
	Speed float64
	// GapCap, when above 0, is the longest time without a start and the longest
	// wait between an end and what waits for it, before Speed.
	GapCap time.Duration
	// Exact asks for exactly the recorded number of output tokens.
	Exact bool
	// Output is the limit of requests of which the trace has neither the length of the
	// output nor the answer; 0 leaves it to the server.
	Output int
	// Generator makes the text of prompts of which only the length is known; empty
	// is plain words.
	Generator string
	// Untimed leaves the times of the file out: its sessions are a data set.
	Untimed bool
	// Count counts the tokens of given text; it may be called from many goroutines at
	// once. Nil estimates by the length in bytes, and requests say so.
	Count func(text string) int
	// ImageWidth and ImageHeight, when above 0, send as many images of that size with
	// a request as the trace says it had, beside the tokens that it says.
	ImageWidth, ImageHeight int
	// RecordedAnswers puts the recorded answers into the history of later turns;
	// else those that the server gives now.
	RecordedAnswers bool
}

// Replay makes the machines of a trace: one for each session, or for each set of
// sessions whose requests wait for each other. It may be used from many
// goroutines at once; the machines it makes may not.
type Replay struct {
	opts   ReplayOptions
	trace  *Trace
	nodes  []request
	groups []group
	// order of the groups is that of their starts; sessions counts them.
	sessions int
	needs    workload.Needs
	timed    bool
	counts   []atomic.Pointer[counted] // by record; empty without Count

	late    atomic.Int64
	lateSum atomic.Int64
	lateMax atomic.Int64
	aborted atomic.Int64
}

// request is one request in the graph of a group.
type request struct {
	group   int32
	session int32 // number of the session in the whole trace
	waits   int32 // how many others it waits for
	next    []int32
	from    int32 // whose history a forked session begins with, -1 for none
	at      int64 // Unset when only what it waits for says when
	delay   int64
	tools   []message.Function
}

// group is what one machine carries out.
type group struct {
	nodes []int32
	roots []int32
	start int64
}

// NewReplay checks that the trace can be replayed and lays it out.
func NewReplay(t *Trace, opts ReplayOptions) (*Replay, error) {
	switch opts.Timing {
	case "":
		opts.Timing = Absolute
	case Absolute, Causal:
	default:
		return nil, fmt.Errorf("timing: want absolute or causal, got %q", opts.Timing)
	}
	if opts.Speed == 0 {
		opts.Speed = 1
	}
	if !(opts.Speed > 0) || math.IsInf(opts.Speed, 0) {
		return nil, fmt.Errorf("speed: want a number above 0, got %g", opts.Speed)
	}
	if opts.GapCap < 0 || opts.Output < 0 {
		return nil, fmt.Errorf("gap cap and output: want 0 or more, got %v and %d", opts.GapCap, opts.Output)
	}
	if opts.Generator == "" {
		opts.Generator = content.WordsName
	}
	if opts.Name == "" {
		opts.Name = t.File
	}
	p := &Replay{opts: opts, trace: t, timed: t.Summary.Timed > 0 && !opts.Untimed}
	if opts.Count != nil {
		p.counts = make([]atomic.Pointer[counted], len(t.Records))
	}
	if err := p.link(); err != nil {
		return nil, err
	}
	p.schedule()
	p.gather()
	return p, nil
}

// link finds who waits for whom.
func (p *Replay) link() error {
	recs := p.trace.Records
	p.nodes = make([]request, len(recs))
	byID := map[string]int32{}
	for i := range recs {
		if recs[i].ID != "" {
			byID[recs[i].ID] = int32(i)
		}
	}
	parent := make([]int32, len(recs))
	for i := range parent {
		parent[i] = int32(i)
	}
	find := func(i int32) int32 {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	wait := func(i, on int32) {
		p.nodes[i].waits++
		p.nodes[on].next = append(p.nodes[on].next, i)
		parent[find(i)] = find(on)
	}
	numbers := map[string]int32{}
	previous := map[string]int32{}
	for k := range recs {
		r, i := &recs[k], int32(k)
		n := &p.nodes[i]
		n.from = -1
		if r.Session == "" {
			n.session = int32(p.sessions)
			p.sessions++
		} else {
			number, known := numbers[r.Session]
			if !known {
				number = int32(p.sessions)
				numbers[r.Session] = number
				p.sessions++
			}
			n.session = number
			before, turn := previous[r.Session]
			switch {
			case r.Graph:
				// Its dependencies are all that it waits for, but turns of one session stay
				// one group: they share a history.
				if turn {
					parent[find(i)] = find(before)
				}
			case turn:
				wait(i, before)
			}
			previous[r.Session] = i
		}
		for _, d := range r.Deps {
			on, ok := byID[d]
			if !ok {
				return &Error{File: p.trace.File, Line: r.Line, Field: "wait_for", Text: shown(d) + " is no request of the trace"}
			}
			if on == i {
				return &Error{File: p.trace.File, Line: r.Line, Field: "wait_for", Text: shown(d) + " waits for itself"}
			}
			wait(i, on)
			if r.Forked && n.from < 0 {
				n.from = on
			}
		}
		if len(r.Body) == 0 || r.Delta {
			n.tools = functions(r.Tools)
		}
	}
	at := map[int32]int{}
	for k := range recs {
		i := int32(k)
		root := find(i)
		g, ok := at[root]
		if !ok {
			g = len(p.groups)
			at[root] = g
			p.groups = append(p.groups, group{})
		}
		p.nodes[i].group = int32(g)
		p.groups[g].nodes = append(p.groups[g].nodes, i)
		if p.nodes[i].waits == 0 {
			p.groups[g].roots = append(p.groups[g].roots, i)
		}
	}
	return p.acyclic()
}

// acyclic refuses circles, which explicit dependencies and the order of turns may
// make together.
func (p *Replay) acyclic() error {
	left := make([]int32, len(p.nodes))
	var ready []int32
	for i := range p.nodes {
		if left[i] = p.nodes[i].waits; left[i] == 0 {
			ready = append(ready, int32(i))
		}
	}
	done := 0
	for len(ready) > 0 {
		i := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		done++
		for _, j := range p.nodes[i].next {
			if left[j]--; left[j] == 0 {
				ready = append(ready, j)
			}
		}
	}
	for i := range left {
		if done < len(p.nodes) && left[i] > 0 {
			return &Error{File: p.trace.File, Line: p.trace.Records[i].Line, Field: "wait_for", Text: "the request waits for itself, by way of others or of the turns of its session"}
		}
	}
	return nil
}

// at is when a request was made, Unset where that is not to count.
func (p *Replay) at(r *Record) int64 {
	if p.opts.Untimed {
		return Unset
	}
	return r.At
}

// schedule works out when requests start, as far as the trace says.
func (p *Replay) schedule() {
	recs := p.trace.Records
	// Idle time above the cap is taken out of all times after it.
	capped := func(at int64) int64 { return at }
	if limit := int64(p.opts.GapCap); limit > 0 {
		var times, cut []int64
		last, removed := int64(0), int64(0)
		for i := range recs {
			if at := p.at(&recs[i]); at != Unset {
				removed += max(0, at-last-limit)
				last = at
				times, cut = append(times, at), append(cut, removed)
			}
		}
		capped = func(at int64) int64 {
			i, found := slices.BinarySearch(times, at)
			if !found {
				return at
			}
			return at - cut[i]
		}
	}
	ends := p.ends()
	for i := range recs {
		r, n := &recs[i], &p.nodes[i]
		n.at, n.delay = Unset, 0
		if at := p.at(r); at != Unset && (n.waits == 0 || p.opts.Timing == Absolute) {
			n.at = p.fast(capped(at))
		}
		if n.waits == 0 {
			if n.at == Unset {
				n.at = 0
			}
			continue
		}
		switch {
		case r.Delay != Unset:
			n.delay = r.Delay
		case p.at(r) != Unset && ends[i] != Unset:
			n.delay = max(0, r.At-ends[i])
		}
		n.delay += r.ToolWait
		if limit := int64(p.opts.GapCap); limit > 0 {
			n.delay = min(n.delay, limit)
		}
		n.delay = p.fast(n.delay)
	}
	for g := range p.groups {
		gr := &p.groups[g]
		gr.start = math.MaxInt64
		for _, i := range gr.roots {
			gr.start = min(gr.start, p.nodes[i].at)
		}
		slices.SortStableFunc(gr.roots, func(a, b int32) int { return int(min(1, max(-1, p.nodes[a].at-p.nodes[b].at))) })
	}
	// Groups in order of their starts; nodes know theirs by number.
	slices.SortStableFunc(p.groups, func(a, b group) int { return int(min(1, max(-1, a.start-b.start))) })
	for g := range p.groups {
		for _, i := range p.groups[g].nodes {
			p.nodes[i].group = int32(g)
		}
	}
}

// ends returns, for each request, when what it waits for was recorded to end: when
// it started where the trace does not say how long it took; Unset where it says
// neither.
func (p *Replay) ends() []int64 {
	out := make([]int64, len(p.nodes))
	for i := range out {
		out[i] = Unset
	}
	for i := range p.nodes {
		if r := &p.trace.Records[i]; p.at(r) != Unset {
			for _, j := range p.nodes[i].next {
				out[j] = max(out[j], r.At+r.Took)
			}
		}
	}
	return out
}

func (p *Replay) fast(ns int64) int64 {
	if p.opts.Speed == 1 {
		return ns
	}
	return int64(math.Round(float64(ns) / p.opts.Speed))
}

// gather finds out what the machines may ask of their driver.
func (p *Replay) gather() {
	for g := range p.groups {
		if len(p.groups[g].roots) > 1 {
			p.needs |= workload.NeedFork
		}
	}
	for i := range p.nodes {
		r := &p.trace.Records[i]
		if len(p.nodes[i].next) > 1 {
			p.needs |= workload.NeedFork
		}
		if r.Cancelled && r.Took > 0 {
			p.needs |= workload.NeedCancel
		}
		if r.Delta && len(r.Messages) > 0 && len(p.nodes[i].next) > 0 && !p.opts.RecordedAnswers {
			p.needs |= workload.NeedText
		}
		if len(p.nodes[i].tools) > 0 {
			p.needs |= workload.NeedTools
		}
		if p.images(r) > 0 {
			p.needs |= workload.NeedMedia
		}
	}
}

// Tokens returns the prompt and output tokens of all requests, estimates where text
// is given and not counted; false when prompts grow by what a server answers. Outputs
// that are left to the server count 0.
func (p *Replay) Tokens() (prompt, output int64, ok bool) {
	for k := range p.nodes {
		i, r := int32(k), &p.trace.Records[k]
		if r.Delta {
			return 0, 0, false
		}
		output += int64(p.output(i))
		if len(r.Messages) == 0 {
			prompt += int64(max(r.Input, 1))
			continue
		}
		for j := range r.Messages {
			prompt += int64(p.given(i, j, false).Tokens)
		}
	}
	return prompt, output, true
}

// TooLong returns what is wrong with the requests whose prompt and output together are
// longer than a context in tokens. Prompts of given text are looked at when they can
// be counted, or when estimates are all that there will ever be, and those that grow
// by what a server answers not at all.
func (p *Replay) TooLong(context int, estimates bool) (out []*Error) {
	for k := range p.nodes {
		i, r := int32(k), &p.trace.Records[k]
		field, n := p.trace.length, r.Input
		switch {
		case r.Delta:
			continue
		case len(r.Messages) > 0:
			bytes := 0
			for j := range r.Messages {
				bytes += len(r.Messages[j].Text)
			}
			if bytes+p.output(i) <= context || p.opts.Count == nil && !estimates {
				continue // no token is shorter than a byte
			}
			field, n = "messages", 0
			for j := range r.Messages {
				n += p.given(i, j, false).Tokens
			}
		}
		if answer := p.output(i); n+answer > context {
			out = append(out, &Error{
				File: p.trace.File, Line: r.Line, Field: field,
				Text: fmt.Sprintf("%d tokens, and %d of the answer, are more than the context of %d tokens: leave such rows out with --on-bad-row skip, or ask a model with a longer context", n, answer, context),
			})
		}
	}
	return out
}

// images is how many images go with a request; a given body has its own.
func (p *Replay) images(r *Record) int {
	if p.opts.ImageWidth <= 0 || p.opts.ImageHeight <= 0 || len(r.Body) > 0 && !r.Delta {
		return 0
	}
	return r.Images
}

// Needs returns what the machines may ask of their driver.
func (p *Replay) Needs() workload.Needs { return p.needs }

// Groups returns the number of machines that carry out the whole trace at once:
// its users in a step that replays it.
func (p *Replay) Groups() int { return len(p.groups) }

// Sessions returns the number of sessions.
func (p *Replay) Sessions() int { return p.sessions }

// Starts returns when each session, or set of sessions that wait for each other,
// starts: ns from the step's start, in order. It is what an open loop needs.
func (p *Replay) Starts() []int64 {
	out := make([]int64, len(p.groups))
	for i := range p.groups {
		out[i] = p.groups[i].start
	}
	return out
}

// Span returns the time from the step's start to the last request that has a time
// of its own.
func (p *Replay) Span() time.Duration {
	last := int64(0)
	for i := range p.nodes {
		last = max(last, p.nodes[i].at)
	}
	return time.Duration(last)
}

// Late says how many requests could not start at their recorded time because
// what they waited for had not ended, by how much at most, and on average over
// these. With Causal timing there are none.
func (p *Replay) Late() (n int64, most, mean time.Duration) {
	if n = p.late.Load(); n > 0 {
		mean = time.Duration(p.lateSum.Load() / n)
	}
	return n, time.Duration(p.lateMax.Load()), mean
}

// Aborted says how many requests were not made because an earlier turn, whose
// answer their history needs, had failed.
func (p *Replay) Aborted() int64 { return p.aborted.Load() }

// Restart forgets what Late and Aborted have counted, before the trace is replayed
// once more.
func (p *Replay) Restart() {
	for _, n := range []*atomic.Int64{&p.late, &p.lateSum, &p.lateMax, &p.aborted} {
		n.Store(0)
	}
}

// Describe says in one line what is replayed and how.
func (p *Replay) Describe() string {
	var b strings.Builder
	what := "trace"
	if !p.timed {
		what = "data set"
	}
	fmt.Fprintf(&b, "%s %s %s: %d requests in %d sessions", p.trace.Format, what, p.trace.File, len(p.nodes), p.sessions)
	if p.timed {
		fmt.Fprintf(&b, " over %v", p.Span().Round(time.Millisecond))
	} else {
		b.WriteString(" without their times")
	}
	switch {
	case len(p.groups) == len(p.nodes):
	case !p.timed:
		b.WriteString(", later turns after the answers and the waits that the file gives")
	default:
		if p.opts.Timing == Causal {
			b.WriteString(", later turns as long after the answers as recorded (causal)")
		} else {
			b.WriteString(", later turns at their recorded times but not before the answers (absolute)")
		}
	}
	fmt.Fprintf(&b, ", speed %g", p.opts.Speed)
	if p.opts.GapCap > 0 {
		fmt.Fprintf(&b, ", gaps of at most %v", p.opts.GapCap)
	}
	if p.trace.spread {
		b.WriteString(", instants spread")
	}
	if p.trace.part != "" {
		b.WriteString(", window " + p.trace.part)
	}
	images, unsent := 0, map[string]int{}
	for i := range p.trace.Records {
		r := &p.trace.Records[i]
		if len(r.Body) == 0 {
			images += r.Images
		}
		for _, name := range r.Unsent {
			tick(unsent, name)
		}
	}
	switch {
	case images == 0:
	case p.needs&workload.NeedMedia != 0:
		fmt.Fprintf(&b, ", with images of %dx%d", p.opts.ImageWidth, p.opts.ImageHeight)
	default:
		fmt.Fprintf(&b, "; its %d images are not sent", images)
	}
	if len(unsent) > 0 {
		b.WriteString("; not sent beside its text: " + Counts(unsent))
	}
	return b.String()
}

// Labels of what is derived from the seed.
const (
	labelBlock   = 0x626c6f636b // "block"
	labelTail    = 0x7461696c   // "tail"
	labelAnswer  = 0x616e73     // "ans"
	labelSession = 0x73657373   // "sess"
	labelImage   = 0x696d67     // "img"
)

// Numbers of sessions are unique in a run and stay below 2^53: 2^20 steps of 2^32
// sessions.
const stepShift = 32

// User returns the machine of one user during one step. Of a trace with times, it
// carries out group number user from the step's start on, and ends; users beyond
// Groups do nothing. Of a data set without times, it goes through its sessions
// for ever, each user from another place.
func (p *Replay) User(step, user uint32) workload.Machine {
	if p.timed {
		if int(user) >= len(p.groups) {
			return done{}
		}
		return &machine{p: p, step: step, group: int(user), left: 1}
	}
	from := random.Derive(p.opts.Seed, labelSession, uint64(user)) % uint64(len(p.groups))
	return &machine{p: p, step: step, group: int(from), left: -1, round: uint64(user) << 12}
}

// Session returns the machine of one session of an open loop: of a trace with
// times the group of that number, at Starts; of a data set the groups in turn.
func (p *Replay) Session(step uint32, session uint64) workload.Machine {
	n := uint64(len(p.groups))
	if p.timed && session >= n {
		return done{}
	}
	return &machine{p: p, step: step, group: int(session % n), left: 1, round: session / n, arrive: true}
}

// done is a machine that has nothing to do.
type done struct{}

func (done) Start(int64) workload.Action { return workload.Action{Kind: workload.End} }

func (done) Done(int64, workload.Outcome) workload.Action { return workload.Action{Kind: workload.End} }

// history is what a session has said so far.
type history struct {
	parts []message.Part
	// tokens is the length of parts, prompt that of the last prompt, without the
	// answer to it.
	tokens, prompt int
	// odd: an answer to the last prompt is not as long as was asked, or there are
	// several.
	odd bool
	// broken: a turn failed whose answer is missing here.
	broken bool
}

// play is a group under way, shared by the machines of its branches.
type play struct {
	mu     sync.Mutex
	origin int64 // the run's time of the trace's time 0
	round  uint64
	waits  map[int32]int32
	begun  map[int32]int32 // how many of what a request waits for have begun
	ended  map[int32]int64 // the latest end of what a request waits for
	said   map[int32]*history
}

// machine carries out a group, or one branch of it.
type machine struct {
	p      *Replay
	step   uint32
	group  int
	left   int // groups left, negative for no end
	round  uint64
	arrive bool // its group starts when it does
	play   *play
	// node is the one under way; branch that the machine is a branch, forked that
	// its branches are under way.
	node           int32
	branch, forked bool
	into           []int32 // what the branches begin with
	req            message.Request
	parts          []message.Part
	answer         uint64
}

// Start begins at time now.
func (m *machine) Start(now int64) workload.Action {
	if m.branch {
		return m.go1(now, m.node)
	}
	g := &m.p.groups[m.group]
	m.play = &play{origin: now, round: m.round, waits: map[int32]int32{}, begun: map[int32]int32{}, ended: map[int32]int64{}, said: map[int32]*history{}}
	if m.arrive || !m.p.timed {
		m.play.origin = now - g.start
	}
	return m.fork(now, g.roots)
}

// Done goes on with what waited for the request that has ended.
func (m *machine) Done(now int64, o workload.Outcome) workload.Action {
	if m.forked {
		m.forked = false
		return m.over(now)
	}
	return m.fork(now, m.finish(m.node, o))
}

// over ends a group.
func (m *machine) over(now int64) workload.Action {
	if m.branch {
		return workload.Action{Kind: workload.End}
	}
	if m.left > 0 {
		m.left--
	}
	if m.left == 0 {
		return workload.Action{Kind: workload.End}
	}
	m.group++
	if m.group == len(m.p.groups) {
		m.group, m.round = 0, m.round+1
	}
	return m.Start(now)
}

// fork goes on with nodes: none ends, one is this machine's own.
func (m *machine) fork(now int64, nodes []int32) workload.Action {
	switch len(nodes) {
	case 0:
		return m.over(now)
	case 1:
		return m.go1(now, nodes[0])
	}
	m.forked, m.into = true, nodes
	a := workload.Action{Kind: workload.Fork, At: now, Workload: m.p.opts.Name}
	for _, n := range nodes {
		a.Branches = append(a.Branches, &machine{p: m.p, step: m.step, round: m.round, play: m.play, node: n, branch: true})
	}
	return a
}

// go1 sends one request, or goes on without it when its session has come to an
// end.
func (m *machine) go1(now int64, i int32) workload.Action {
	p, pl := m.p, m.play
	for {
		m.node = i
		r, n := &p.trace.Records[i], &p.nodes[i]
		pl.mu.Lock()
		for _, j := range n.next {
			pl.begun[j]++
		}
		due := pl.origin + n.at
		if n.waits > 0 {
			ended := pl.ended[i]
			switch {
			case n.at == Unset:
				due = ended + n.delay
			case due < ended:
				late := ended - due
				p.late.Add(1)
				p.lateSum.Add(late)
				for was := p.lateMax.Load(); late > was && !p.lateMax.CompareAndSwap(was, late); was = p.lateMax.Load() {
				}
				due = ended
			}
		}
		h := m.history(i)
		if !h.broken {
			m.prompt(i, h)
			pl.mu.Unlock()
			a := workload.Action{
				Kind: workload.Send, At: due, Request: &m.req, Turn: uint32(r.Turn), Workload: p.opts.Name,
				Session: uint64(m.step)<<stepShift | (uint64(n.session)+m.round*uint64(p.sessions))&(1<<stepShift-1),
			}
			if r.Cancelled && r.Took > 0 {
				a.CancelAfter = r.Took
			}
			return a
		}
		pl.mu.Unlock()
		p.aborted.Add(1)
		next := m.finish(i, workload.Outcome{Status: record.Cancelled, Ended: max(now, pl.endOf(i))})
		if len(next) != 1 {
			return m.fork(now, next)
		}
		i = next[0]
	}
}

// endOf is when what a request waits for had ended.
func (pl *play) endOf(i int32) int64 {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	return pl.ended[i]
}

// history returns what the session of a request has said. The lock is held.
func (m *machine) history(i int32) *history {
	n := &m.p.nodes[i]
	h := m.play.said[n.session]
	if h == nil {
		h = new(history)
		*h = m.before(i)
		m.play.said[n.session] = h
	}
	return h
}

// before returns a copy of what the session of a request has said, or that from which
// it comes. The lock is held.
func (m *machine) before(i int32) (h history) {
	n := &m.p.nodes[i]
	of := m.play.said[n.session]
	if of == nil && n.from >= 0 {
		of = m.play.said[m.p.nodes[n.from].session]
	}
	if of != nil {
		h = *of
		h.parts = slices.Clone(of.parts)
	}
	return h
}

// finish records the end of a request and returns those that nothing holds back
// any more. Of two that free the same one, the later gets it.
func (m *machine) finish(i int32, o workload.Outcome) []int32 {
	p, pl := m.p, m.play
	n := &p.nodes[i]
	pl.mu.Lock()
	defer pl.mu.Unlock()
	m.answered(i, o)
	var ready []int32
	for _, j := range n.next {
		pl.ended[j] = max(pl.ended[j], o.Ended)
		left, known := pl.waits[j]
		if !known {
			left = p.nodes[j].waits
		}
		left--
		pl.waits[j] = left
		if left == 0 {
			ready = append(ready, j)
		}
	}
	return ready
}

// Foresee calls part with what the requests bring that wait for the one under way and,
// if for others too, for none that has not begun, or that branches begin with; and work
// to count given text. Where the lengths of later prompts go by that of the answer it
// takes the answer to be as long as it may be, and adds the text of which a shorter
// answer would need more.
func (m *machine) Foresee(part func(p *message.Part), work func(do func())) {
	p, pl := m.p, m.play
	free := 0
	pl.mu.Lock()
	if m.forked {
		for _, j := range m.into {
			m.foresee(j, pl, part, work)
		}
	} else {
		for _, j := range p.nodes[m.node].next {
			left, known := pl.waits[j]
			if !known {
				left = p.nodes[j].waits
			}
			if left == 1 {
				free++
			}
			if left == 1 || pl.begun[j] == p.nodes[j].waits || m.continues(j, pl) {
				m.foresee(j, pl, part, work)
			}
		}
	}
	pl.mu.Unlock()
	if free > 0 || m.branch || m.left == 1 {
		return
	}
	group, round := m.group+1, m.round
	if group == len(p.groups) {
		group, round = 0, round+1
	}
	for _, j := range p.groups[group].roots {
		m.foresee(j, &play{round: round, said: map[int32]*history{}}, part, work)
	}
}

// continues says whether request j of a play, whose lock is held, goes on from the
// history that the one under way belongs to.
func (m *machine) continues(j int32, pl *play) bool {
	n := &m.p.nodes[j]
	of := n.session
	if pl.said[of] == nil && n.from >= 0 {
		of = m.p.nodes[n.from].session
	}
	return pl == m.play && !m.forked && of == m.p.nodes[m.node].session
}

// foresee is Foresee of request j of a play, whose lock is held.
func (m *machine) foresee(j int32, pl *play, part func(p *message.Part), work func(do func())) {
	p, r := m.p, &m.p.trace.Records[j]
	ahead := machine{p: p, play: pl, node: j}
	switch {
	case len(r.Messages) > 0: // its text is given
		if p.opts.Count != nil && p.counts[j].Load() == nil {
			work(func() { p.count(j) })
		}
		ahead.pictures(j)
	case len(r.Hashes) > 0 || r.Session == "" || pl != m.play:
		ahead.prompt(j, new(history))
	default:
		h := ahead.before(j)
		var answer []message.Part // which may be too long for the prompt
		if m.continues(j, pl) {
			said := len(h.parts)
			h.answered(m, m.node, &workload.Outcome{Status: record.OK, OutputTokens: int32(p.longest(m.node))})
			answer = slices.Clone(h.parts[said:])
		}
		most := h.mostFresh(r)
		ahead.prompt(j, &h)
		ahead.parts = append(ahead.parts, answer...)
		if most > 0 {
			ahead.made(j, most, message.LayerTurn)
		}
	}
	for k := range ahead.parts {
		part(&ahead.parts[k])
	}
}

// seed derives a number for a request of this round.
func (m *machine) seed(label uint64, i int32) uint64 {
	return random.Derive(m.p.opts.Seed, label, uint64(i), m.play.round)
}

// prompt makes the request of a node. The lock is held; h is its session's.
func (m *machine) prompt(i int32, h *history) {
	p, r := m.p, &m.p.trace.Records[i]
	m.parts = m.parts[:0]
	m.answer = m.seed(labelAnswer, i)
	needed := len(p.nodes[i].next) > 0
	keep := false // the prompt becomes the session's history
	switch {
	case len(r.Messages) > 0:
		if r.Delta {
			m.parts = append(m.parts, h.parts...)
			keep = needed
		}
		for j := range r.Messages {
			m.parts = append(m.parts, p.given(i, j, j == len(r.Messages)-1))
		}
	case len(r.Hashes) > 0:
		m.blocks(i, r)
	case r.Input > 0 && r.Session != "":
		m.grow(i, r, h)
		keep = needed
	default:
		m.made(i, max(r.Input, 1), message.LayerTurn)
	}
	m.pictures(i)
	m.req = message.Request{Parts: m.parts, MaxTokens: p.output(i), ReasoningTokens: r.Reasoning, Tools: p.nodes[i].tools}
	if len(r.Body) > 0 && !r.Delta {
		m.req.Body = string(r.Body)
	}
	m.req.Guessed = p.opts.Count == nil && len(r.Messages) > 0 || p.images(r) > 0
	m.req.Exact = p.opts.Exact && m.req.MaxTokens > 0
	if keep {
		h.parts = append(h.parts[:0], m.parts...)
		h.tokens = m.req.PromptTokens()
		h.prompt, h.odd = h.tokens, false
		for j := range h.parts {
			if h.parts[j].Layer == message.LayerTurn {
				h.parts[j].Layer = message.LayerSession
			}
		}
		if !p.opts.RecordedAnswers || r.Answer == "" {
			m.req.Answer = m.answer
		}
		// Later turns begin with this one, whose own parts are therefore the session's.
		for j := range m.parts {
			if m.parts[j].Layer == message.LayerTurn {
				m.parts[j].Layer = message.LayerSession
			}
		}
	}
}

// pictures appends the images that go with a request.
func (m *machine) pictures(i int32) {
	p := m.p
	for k := range p.images(&p.trace.Records[i]) {
		m.parts = append(m.parts, message.Part{
			Role: message.User, Layer: message.LayerTurn,
			Media: &message.Media{Kind: message.Image, Width: p.opts.ImageWidth, Height: p.opts.ImageHeight, Seed: m.seed(labelImage, i) + uint64(k)},
		})
	}
}

// charsPerToken is what the length of given text is estimated with where nothing
// counts it: the common rule of thumb for English.
const charsPerToken = 4

// counted are the lengths in tokens of the given texts of a record.
type counted struct {
	messages []int
	answer   int
}

// count returns those of record i. A data set is gone through again and again, and
// counting costs more than all else.
func (p *Replay) count(i int32) *counted {
	if p.opts.Count == nil {
		return nil
	}
	c := p.counts[i].Load()
	if c == nil {
		r := &p.trace.Records[i]
		c = &counted{messages: make([]int, len(r.Messages))}
		for j := range r.Messages {
			c.messages[j] = p.opts.Count(r.Messages[j].Text)
		}
		if r.Answer != "" {
			c.answer = p.opts.Count(r.Answer)
		}
		p.counts[i].Store(c) // who was as fast has counted the same
	}
	return c
}

func estimate(text string) int { return (len(text) + charsPerToken - 1) / charsPerToken }

// output is the limit of a request's output.
func (p *Replay) output(i int32) int {
	r := &p.trace.Records[i]
	switch {
	case r.Output > 0:
		return r.Output
	case r.Answer == "":
		return p.opts.Output
	}
	if c := p.count(i); c != nil {
		return c.answer
	}
	return estimate(r.Answer)
}

// unlimited is how long the answers are whose text is made ahead where no limit is
// asked for: most chat answers are shorter, and what is made for nothing is little.
const unlimited = 2048

// longest is the longest answer to a request whose text is made ahead.
func (p *Replay) longest(i int32) int {
	if n := p.output(i); n > 0 {
		return n
	}
	return unlimited
}

// given is the part of a message of a record. A tool's result is sent as the user's
// word: the calls that it answers are of another run, and servers refuse results
// without their call.
func (p *Replay) given(i int32, j int, last bool) message.Part {
	m := &p.trace.Records[i].Messages[j]
	tokens := estimate(m.Text)
	if c := p.count(i); c != nil {
		tokens = c.messages[j]
	}
	return givenPart(m, tokens, last)
}

func givenPart(m *Message, tokens int, last bool) message.Part {
	p := message.Part{Role: m.Role, Layer: message.LayerSession, Text: m.Text, Tokens: tokens}
	if p.Role == message.Tool {
		p.Role = message.User
	}
	switch {
	case p.Role == message.System:
		p.Layer = message.LayerSystem
	case last:
		p.Layer = message.LayerTurn
	}
	return p
}

// made appends a part of made text that nobody else has.
func (m *machine) made(i int32, tokens int, layer message.Layer) {
	m.parts = append(m.parts, message.Part{
		Role: message.User, Layer: layer, Generator: m.p.opts.Generator, Seed: m.seed(labelTail, i), Tokens: tokens,
	})
}

// blocks makes a prompt of hashed blocks: each is text of its own hash, so that
// prompts with equal hashes begin with equal text.
func (m *machine) blocks(i int32, r *Record) {
	left := r.Input
	for _, h := range r.Hashes {
		n := min(left, r.BlockTokens)
		left -= n
		m.parts = append(m.parts, message.Part{
			Role: message.User, Layer: message.LayerGroup, Generator: CutName(m.p.opts.Generator, n, r.BlockTokens),
			Seed: random.Derive(m.p.opts.Seed, labelBlock, h), Tokens: n,
		})
	}
	if left > 0 {
		m.made(i, left, message.LayerTurn)
	}
}

// split returns the length of the prompt of a record of which only the length is known,
// in a session that has said so many tokens, and how many of them it begins with.
func (h *history) split(r *Record, tokens int) (total, keep int) {
	total, keep = r.Input, tokens
	switch {
	case r.Delta:
		total = tokens + r.Input
	case r.Prefix != Unknown:
		keep = min(r.Prefix, tokens)
	case r.Input < h.prompt:
		keep = 0 // another context
	case r.Input < tokens:
		keep = h.prompt // the answer did not come back whole
	}
	return total, min(keep, total)
}

// mostFresh is the length of the new text of such a prompt at most: without any answer
// to the one before.
func (h *history) mostFresh(r *Record) int {
	total, keep := h.split(r, h.prompt)
	return total - keep
}

// grow makes a prompt of which only the length is known, in a session: as much of
// what was said before as the trace says, or all that fits, and then new text. That
// is the beginning of a text made ahead where the answer's length tells how long it is.
func (m *machine) grow(i int32, r *Record, h *history) {
	total, keep := h.split(r, h.tokens)
	left := keep
	for j := range h.parts {
		part := h.parts[j]
		if left == 0 {
			break
		}
		if part.Tokens > left {
			if part.Text != "" {
				break // the server's own words cannot be cut by tokens here
			}
			part.Generator = CutName(part.Generator, left, part.Tokens)
			part.Tokens = left
		}
		left -= part.Tokens
		m.parts = append(m.parts, part)
	}
	if fresh := total - (keep - left); fresh > 0 {
		m.made(i, fresh, message.LayerTurn)
		if h.odd {
			last := &m.parts[len(m.parts)-1]
			last.Generator = CutName(last.Generator, fresh, h.mostFresh(r))
		}
	}
}

// answered puts an answer into the session's history. The lock is held.
func (m *machine) answered(i int32, o workload.Outcome) {
	if len(m.p.nodes[i].next) == 0 {
		return
	}
	m.history(i).answered(m, i, &o)
}

// answered puts an answer into the history, if later turns begin with it.
func (h *history) answered(m *machine, i int32, o *workload.Outcome) {
	p, r := m.p, &m.p.trace.Records[i]
	if h.broken {
		return
	}
	text := len(r.Messages) > 0
	if len(r.Hashes) > 0 || text && !r.Delta || !text && r.Session == "" {
		return // later turns say their whole prompts
	}
	h.odd = h.odd || h.tokens > h.prompt
	if p.opts.RecordedAnswers && r.Answer != "" {
		tokens := estimate(r.Answer)
		if c := p.count(i); c != nil {
			tokens = c.answer
		}
		h.parts = append(h.parts, givenPart(&Message{Role: message.Assistant, Text: r.Answer}, tokens, false))
		h.tokens += h.parts[len(h.parts)-1].Tokens
		return
	}
	if o.Status != record.OK {
		h.broken = r.Delta
		return
	}
	part := message.Part{Role: message.Assistant, Layer: message.LayerHistory, Text: o.Text, Tokens: int(o.OutputTokens)}
	most := p.longest(i)
	h.odd = h.odd || part.Tokens != most
	if o.Text == "" {
		if part.Tokens <= 0 {
			return
		}
		part.Generator, part.Seed = CutName(p.opts.Generator, part.Tokens, most), m.answer
	} else if part.Tokens <= 0 {
		part.Tokens = estimate(o.Text)
	}
	h.parts = append(h.parts, part)
	h.tokens += part.Tokens
}

// functions reads definitions of tools in the form of the chat APIs; what is in
// another form is left out.
func functions(b json.RawMessage) []message.Function {
	if len(b) == 0 {
		return nil
	}
	var list []struct {
		Function *struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	}
	if json.Unmarshal(b, &list) != nil {
		return nil
	}
	var out []message.Function
	for _, t := range list {
		if t.Function != nil && t.Function.Name != "" {
			out = append(out, message.Function{Name: t.Function.Name, Description: t.Function.Description, Parameters: string(t.Function.Parameters)})
		}
	}
	return out
}
