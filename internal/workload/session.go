package workload

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"plimsoll/internal/message"
	"plimsoll/internal/random"
	"plimsoll/internal/record"
)

// Sessions is the population of a File: its users and their sessions. What a
// session says depends on the seed, the workload's name, the step and the
// session's own number alone, so that any number of agents who share out users
// or sessions say the same. Only the server's own answers, where they come back
// as history, are not of the seed. It may be used from many goroutines at once;
// the machines it makes may not.
type Sessions struct {
	file *File
	seed uint64
	// system is the part that everybody shares, if there is one.
	system []message.Part
	tools  []message.Function
}

// NewSessions returns the population of f under a run's seed.
func NewSessions(seed uint64, f *File) *Sessions {
	s := &Sessions{file: f, seed: random.Derive(seed, labelFile, hashName(f.Name))}
	if f.Prompt.System.given() {
		src := random.Derive(s.seed, labelSystem)
		s.system = []message.Part{{
			Role: message.System, Layer: message.LayerSystem, Generator: f.Prompt.System.Content, Text: f.Prompt.System.Text,
			Seed: src, Tokens: f.compiled.system.Int(random.Stream(src), 1),
		}}
	}
	if f.Tools != nil {
		for _, t := range f.Tools.Offer {
			s.tools = append(s.tools, message.Function{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
		}
	}
	return s
}

// File returns what the population was made of. It is not to be changed.
func (s *Sessions) File() *File { return s.file }

// Needs says what its machines may ask for.
func (s *Sessions) Needs() Needs { return s.file.compiled.needs }

// hashName is FNV-1a of a name.
func hashName(name string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 0x100000001b3
	}
	return h
}

// Labels of the streams of a file's population, apart from those of the run.
const (
	labelFile     = 0x66696c65 // "file"
	labelSystem   = 1
	labelGroup    = 2
	labelOfUser   = 3
	labelOfOne    = 4
	labelDocument = 5
	labelTurn     = 6
	labelQuestion = 7
	labelAnswer   = 8
	labelPassage  = 9
	labelMedia    = 10
	labelResult   = 11
	labelBranch   = 12
	labelFound    = 13
	labelChoose   = 14
	labelPause    = 15
)

// User returns the machine of one endless user, who has one session after
// another.
func (s *Sessions) User(step, user uint32) Machine {
	m := new(session)
	m.start(s, labelOfUser, step, uint64(user), uint64(step)<<stepShift|uint64(user)<<userShift, -1)
	return m
}

// Session returns the machine of one session.
func (s *Sessions) Session(step uint32, n uint64) Machine { return s.Reuse(new(session), step, n) }

// Reuse returns the machine that Session does, in the memory of one of a Sessions
// that nobody calls any more.
func (s *Sessions) Reuse(old Machine, step uint32, n uint64) Machine {
	m := old.(*session)
	m.start(s, labelOfOne, step, n, uint64(step)<<stepShift|n, 1)
	return m
}

// stage is what a session's last action was about.
type stage uint8

const (
	answering stage = iota // the turn's last request
	calling                // a request that should call a tool
	forking                // branches
)

// session is the machine of one user's sessions, or of one session.
type session struct {
	s     *Sessions
	label uint64
	step  uint32
	user  uint64 // number of the user, or of the session in an open loop
	next  uint64 // number of the next session
	left  int    // sessions left, negative for no end

	// Of the session under way.
	number      uint64
	seed        uint64
	turn, turns int
	due         int64 // of the turn, when turns follow a clock
	// parts is the prompt: the first kept of them are the session's context, of
	// context tokens; the rest is what the turn adds.
	parts         []message.Part
	kept, context int

	lost bool // a question failed
	// previous names the last answer, where the server keeps it with the first known
	// of parts; empty when all must be sent.
	previous string
	known    int
	guessed  bool // the length of media is an estimate

	// Of the turn under way.
	stage    stage
	output   int
	reason   int
	cancel   bool
	calls    int // left
	call     int // number of the next
	tool     int // that is being called
	branches []branch
	machines []Machine
	question message.Part // of a join

	src rand.PCG
	r   rand.Rand // of src
	req message.Request
}

// start makes m the machine of left sessions from the number first on.
func (m *session) start(s *Sessions, label uint64, step uint32, user, first uint64, left int) {
	parts, branches, machines := m.parts[:0], m.branches[:0], m.machines[:0]
	clear(m.parts)
	*m = session{s: s, label: label, step: step, user: user, next: first, left: left, parts: parts, branches: branches, machines: machines}
	m.r = *rand.New(&m.src)
}

// draw makes what is drawn next the stream that labels name under the session's
// seed.
func (m *session) draw(labels ...uint64) *rand.Rand {
	random.Seed(&m.src, random.Derive(m.seed, labels...))
	return &m.r
}

// Start begins the first session at time now.
func (m *session) Start(now int64) Action { return m.begin(now) }

// begin begins the next session at a time.
func (m *session) begin(at int64) Action {
	if m.left == 0 {
		clear(m.parts) // the texts of the last session
		m.parts = m.parts[:0]
		return Action{Kind: End}
	}
	m.left--
	m.number = m.next
	m.next++
	m.seed = random.Derive(m.s.seed, m.label, m.number)
	f, k := m.s.file, &m.s.file.compiled
	r := m.draw()
	m.turn, m.turns, m.due, m.lost, m.guessed = 0, k.turns.Int(r, 1), at, false, false
	clear(m.parts)
	m.kept, m.context = 0, 0
	m.previous, m.known = "", 0
	m.parts = append(m.parts[:0], m.s.system...)
	m.group(r)
	if f.Prompt.Session.Tokens.Kind != "" {
		for d := range k.documents.Int(r, 1) {
			m.parts = append(m.parts, message.Part{
				Layer: message.LayerSession, Generator: f.Prompt.Session.Content,
				Seed: random.Derive(m.seed, labelDocument, uint64(d)), Tokens: k.document.Int(r, 1),
			})
		}
	}
	m.media(r, "session", 0)
	m.keep()
	return m.ask(at)
}

// group adds the text that the session's group shares.
func (m *session) group(r *rand.Rand) {
	g, k := &m.s.file.Prompt.Group, &m.s.file.compiled
	if g.Tokens.Kind == "" {
		return
	}
	var n uint64
	switch {
	case g.Users > 0:
		n = m.user / uint64(g.Users)
	case g.Order == OrderRandom:
		n = r.Uint64N(uint64(g.Sets))
	case g.Order == OrderZipf:
		d := random.Dist{Kind: random.Zipf, A: 0, B: 1, Max: float64(g.Sets - 1)}
		n = uint64(d.Int(r, 0))
	case m.label == labelOfUser:
		// Users take turns with the sets, each beginning with another.
		n = (m.user + m.number&(1<<userShift-1)) % uint64(g.Sets)
	default:
		n = m.user % uint64(g.Sets)
	}
	seed := random.Derive(m.s.seed, labelGroup, n)
	if g.Users > 0 {
		// The groups of another step are others.
		seed = random.Derive(seed, uint64(m.step))
	}
	m.parts = append(m.parts, message.Part{
		Layer: message.LayerGroup, Generator: g.Content, Seed: seed, Tokens: k.group.Int(random.Stream(seed), 1),
	})
}

// media adds images and sounds that stand at a place.
func (m *session) media(r *rand.Rand, place string, turn int) {
	for i := range m.s.file.Media {
		spec := &m.s.file.Media[i]
		at := spec.At
		if at == "" {
			at = "session"
		}
		if at != place {
			continue
		}
		layer := message.LayerSession
		if place == "turn" {
			layer = message.LayerTurn
		}
		for n := range m.s.file.compiled.mediaCounts[i].Int(r, 0) {
			seed := random.Derive(m.seed, labelMedia, uint64(turn), uint64(i), uint64(n))
			m.parts = append(m.parts, message.Part{Layer: layer, Seed: seed, Tokens: spec.Tokens, Media: spec.media(seed)})
			m.guessed = m.guessed || spec.guessed
		}
	}
}

// keep makes all of the prompt the session's context.
func (m *session) keep() {
	for i := m.kept; i < len(m.parts); i++ {
		m.context += m.parts[i].Tokens
	}
	m.kept = len(m.parts)
}

// drop takes back what the turn added.
func (m *session) drop() {
	clear(m.parts[m.kept:])
	m.parts = m.parts[:m.kept]
}

// ask begins the turn that is due at a time.
func (m *session) ask(at int64) Action {
	f, k := m.s.file, &m.s.file.compiled
	r := m.draw(labelTurn, uint64(m.turn))
	t := uint64(m.turn)
	// Whatever the turn is, the draws come in one order.
	m.output, m.reason = 0, 0
	if k.hasOutput {
		d := &k.output
		if m.turn == 0 && k.hasFirst {
			d = &k.first
		}
		m.output = d.Int(r, 1)
	}
	if k.hasReasoning {
		m.reason = k.reasoning.Int(r, 0)
		if m.output > 0 {
			m.reason = min(m.reason, m.output-1)
		}
	}
	m.cancel = f.Cancel != nil && r.Float64() < k.cancelShare
	m.calls, m.call = 0, 0
	if f.Tools != nil && r.Float64() < k.toolShare {
		m.calls = k.calls.Int(r, 1)
	}
	var search int64
	passages := 0
	if f.Retrieval != nil {
		search = nanoseconds(&k.latency, r)
		passages = k.passages.Int(r, 0)
		for i := range passages {
			m.parts = append(m.parts, message.Part{
				Layer: message.LayerTurn, Generator: f.Retrieval.Content,
				Seed: random.Derive(m.seed, labelPassage, t, uint64(i)), Tokens: k.passage.Int(r, 1),
			})
		}
	}
	m.media(r, "turn", m.turn)
	var question message.Part
	if k.hasTurn {
		question = message.Part{
			Layer: message.LayerTurn, Generator: f.Prompt.Turn.Content, Text: f.Prompt.Turn.Text,
			Seed: random.Derive(m.seed, labelQuestion, t), Tokens: k.turn.Int(r, 1),
		}
	}
	if f.Fork != nil {
		return m.fork(at, r, question)
	}
	if k.hasTurn {
		m.parts = append(m.parts, question)
	}
	if m.full() {
		return m.begin(at)
	}
	a := m.request(at)
	if f.Retrieval != nil {
		a.Retrieval = &Retrieval{Duration: search, URL: f.Retrieval.URL, Model: f.Retrieval.Model, Query: question, Passages: passages}
	}
	return a
}

// full says whether the turn would exceed the longest context. The first is sent
// whatever its length, so that a session sends something.
func (m *session) full() bool {
	n := m.context + m.output
	for i := m.kept; i < len(m.parts); i++ {
		n += m.parts[i].Tokens
	}
	return m.turn > 0 && n > m.s.file.Session.MaxContext
}

// request sends the prompt as it is: to call a tool, when calls are left, or for
// the turn's answer.
func (m *session) request(at int64) Action {
	f, k := m.s.file, &m.s.file.compiled
	again := f.Session.History != HistoryNone && m.turn+1 < m.turns
	m.req = message.Request{Parts: m.parts, Tools: m.s.tools, Guessed: m.guessed, Previous: m.previous, Known: m.known}
	if f.Output.Reasoning != nil {
		m.req.ReasoningEffort = f.Output.Reasoning.Effort
	}
	a := Action{Kind: Send, At: at, Request: &m.req, Session: m.number, Turn: uint32(m.turn), Workload: f.Name, Lost: m.lost}
	if m.calls > 0 {
		m.stage = calling
		m.calls--
		m.tool = 0
		r := m.draw(labelChoose, uint64(m.turn), uint64(m.call))
		if n := len(f.Tools.Offer); n > 1 {
			m.tool = r.IntN(n)
		}
		if k.hasCalls {
			m.req.MaxTokens, m.req.Exact = k.callOutput.Int(r, 1), f.Output.Stop == StopExact
		}
		m.req.ToolChoice, m.req.Again, m.req.Answer = f.Tools.Choice, true, m.answerSeed(uint64(1+m.call))
		return a
	}
	m.stage = answering
	m.req.MaxTokens, m.req.Exact = m.output, m.output > 0 && f.Output.Stop == StopExact
	m.req.ReasoningTokens, m.req.ResponseSchema = m.reason, f.Output.Schema
	m.req.Again = again
	if again && f.Session.History == HistoryServer && m.reason == 0 {
		m.req.Answer = m.answerSeed(0)
	}
	if m.cancel {
		switch f.Cancel.When {
		case CancelFirstToken:
			a.CancelTokens = 1
		case CancelAfterTime:
			a.CancelAfter = max(1, nanoseconds(&k.after, m.draw(labelChoose, uint64(m.turn))))
		case CancelSuperseded:
			a.CancelAt = m.due + m.gap()
		}
	}
	return a
}

// answerSeed names the answer to request n of the turn, the last being 0.
func (m *session) answerSeed(n uint64) uint64 {
	return random.Derive(m.seed, labelAnswer, uint64(m.turn), n)
}

// gap is the time from this turn to the next by the clock, or from its end.
func (m *session) gap() int64 {
	k := &m.s.file.compiled
	d := &k.think
	if m.ticks() {
		d = &k.tick
	}
	return nanoseconds(d, m.draw(labelPause, uint64(m.turn)))
}

func (m *session) ticks() bool { return m.s.file.Session.Tick.Kind != "" }

// nanoseconds draws a duration of at most a week, so that sums of them are times.
func nanoseconds(d *random.Dist, r *rand.Rand) int64 {
	const most = 7 * 24 * 3600e9
	return int64(math.Round(min(max(d.Float(r), 0), most)))
}

// Done goes on after the outcome of the last action.
func (m *session) Done(_ int64, o Outcome) Action {
	switch m.stage {
	case calling:
		return m.called(o)
	case forking:
		return m.joined(o)
	case answering:
	}
	switch o.Status {
	case record.OK, record.Cancelled:
		m.answered(o)
	default:
		return m.failed(o)
	}
	return m.over(o.Ended)
}

// Foresee yields the parts that the next request brings, whatever the answer says; of
// branches, what they ask and what the turn goes on with. Where an answer as long as was
// asked would be too much for the context, the turn after a short one is foreseen, too.
func (m *session) Foresee(yield func(p *message.Part), _ func(func())) {
	if m.stage == forking {
		for i := range m.parts {
			yield(&m.parts[i])
		}
		for i := range m.branches {
			yield(&m.branches[i].question)
		}
	}
	if !m.foresee(yield, false) && m.turn+1 < m.turns {
		m.foresee(yield, true)
	}
}

// foresee is Foresee for answers as long as was asked or of one token. It returns
// whether the session goes on then.
func (m *session) foresee(yield func(p *message.Part), short bool) bool {
	answer := func(asked int) Outcome {
		o := Outcome{Status: record.OK, OutputTokens: int32(asked)}
		if short {
			o.OutputTokens = 1
		}
		if m.s.file.Session.History == HistoryServer {
			o.Text = "." // the server's own: nothing to make
		}
		return o
	}
	n := *m
	n.r = *rand.New(&n.src)
	n.parts = slices.Clone(m.parts)
	n.branches, n.machines = nil, nil
	if m.stage == forking {
		n.branches = slices.Clone(m.branches)
		for i := range n.branches {
			n.branches[i].outcome = answer(n.branches[i].output)
		}
	}
	a := n.Done(0, answer(n.req.MaxTokens))
	before := m.kept
	if n.number != m.number {
		before = 0
	}
	for i := min(before, len(n.parts)); i < len(n.parts); i++ {
		yield(&n.parts[i])
	}
	if a.Kind == Fork {
		for i := range n.branches {
			yield(&n.branches[i].question)
		}
	}
	return a.Kind != End && n.number == m.number
}

// failed goes on after a request that was not answered: nobody keeps its question, and
// nobody asks it again. Where the server keeps the history there is no going on.
func (m *session) failed(o Outcome) Action {
	m.drop()
	m.lost = true
	if m.s.file.Session.OnFailure == OnFailureEnd || o.Kept {
		m.turn = max(m.turn, m.turns-1)
	}
	return m.over(o.Ended)
}

// refer remembers the name of an answer, with all that is in parts by then.
func (m *session) refer(o Outcome) {
	m.previous, m.known = "", 0
	if o.Kept && o.Status == record.OK && m.s.file.Session.History == HistoryServer {
		m.previous, m.known = o.ID, len(m.parts)
	}
}

// answered makes the turn and its answer a part of the session's context.
func (m *session) answered(o Outcome) {
	f := m.s.file
	if m.turn+1 >= m.turns || f.Session.History == HistoryNone {
		m.drop()
		return
	}
	p := message.Part{
		Role: message.Assistant, Layer: message.LayerHistory, Generator: m.generator(), Seed: m.answerSeed(0),
		Text: o.Text, Tokens: m.visible(o, m.reason),
	}
	if f.Session.History == HistoryRecorded {
		if p.Text = ""; m.output > 0 {
			p.Tokens = m.output - m.reason
		}
	}
	if p.Tokens > 0 || p.Text != "" {
		m.parts = append(m.parts, p)
	}
	m.keep()
	m.refer(o)
}

// generator makes what stands in for an answer of which only the length is known.
func (m *session) generator() string {
	p := &m.s.file.Prompt
	for _, g := range []string{p.Turn.Content, p.Session.Content} {
		if g != "" {
			return g
		}
	}
	return defaultContent
}

// visible is the length of an answer without its reasoning: what the server says
// of it, else what was expected. Of text without any count it is a guess, never 0,
// so that a context cannot grow without an end.
func (m *session) visible(o Outcome, reason int) int {
	if o.ReasoningTokens > 0 {
		reason = int(o.ReasoningTokens)
	}
	if n := int(o.OutputTokens) - reason; n > 0 || o.Text == "" {
		return max(n, 0)
	}
	return (len(o.Text) + 3) / 4
}

// called goes on when a tool has answered.
func (m *session) called(o Outcome) Action {
	f, k := m.s.file, &m.s.file.compiled
	if o.Status != record.OK {
		m.calls = 0
		return m.failed(o)
	}
	calls, offers := m.made(o.Calls)
	m.parts = append(m.parts, message.Part{
		Role: message.Assistant, Layer: message.LayerHistory, Generator: m.generator(), Seed: m.answerSeed(uint64(1 + m.call)),
		Text: o.Text, Tokens: m.visible(o, 0), Calls: calls,
	})
	if len(o.Calls) > 0 { // a call that stands in is none that the server knows
		m.refer(o)
	} else {
		m.previous, m.known = "", 0
	}
	r := m.draw(labelResult, uint64(m.turn), uint64(m.call))
	var wait int64 // of calls side by side
	for i := range calls {
		at := offers[i]
		spec := &f.Tools.Offer[at]
		wait = max(wait, nanoseconds(&k.toolDelays[at], r))
		m.parts = append(m.parts, message.Part{
			Role: message.Tool, Layer: message.LayerTurn, Generator: spec.Result.Content, Text: spec.Result.Text, CallID: calls[i].ID,
			Seed:   random.Derive(m.seed, labelResult, uint64(m.turn), uint64(m.call), uint64(i)),
			Tokens: k.toolResults[at].Int(r, 1),
		})
	}
	m.call++
	if m.full() {
		return m.begin(o.Ended)
	}
	return m.request(o.Ended + wait)
}

// made returns the calls that go into the history, and which tool each is of: the
// answer's own, where it made some, else the recorded one. What a server could not
// read again is mended: a call without a name of its own for it gets one, arguments
// that were cut off are the recorded ones. A call of a tool that was never offered
// has the result of the one that was expected.
func (m *session) made(own []message.Call) (calls []message.Call, offers []int) {
	offer := m.s.file.Tools.Offer
	if len(own) == 0 {
		own = []message.Call{{Name: offer[m.tool].Name}}
	}
	for i, c := range own {
		at := slices.IndexFunc(offer, func(t ToolSpec) bool { return t.Name == c.Name })
		if at < 0 {
			at = m.tool
		}
		if c.ID == "" {
			c.ID = fmt.Sprintf("call_%012x", random.Derive(m.answerSeed(uint64(1+m.call)), uint64(i))>>16)
		}
		if !json.Valid([]byte(c.Arguments)) {
			c.Arguments = offer[at].Arguments
		}
		calls, offers = append(calls, c), append(offers, at)
	}
	return calls, offers
}

// over goes on after a turn that ended at a time: with the next turn, or with the
// next session.
func (m *session) over(ended int64) Action {
	gap := m.gap()
	at := ended + gap
	if m.ticks() {
		m.due += gap
		at = max(m.due, ended)
	}
	if m.turn++; m.turn < m.turns {
		return m.ask(at)
	}
	if m.s.file.compiled.hasPause {
		at = ended + nanoseconds(&m.s.file.compiled.pause, m.draw(labelPause, uint64(m.turn)))
	}
	return m.begin(at)
}

// fork asks the sub-queries of a round.
func (m *session) fork(at int64, r *rand.Rand, question message.Part) Action {
	f, k := m.s.file, &m.s.file.compiled
	n, t := k.branches.Int(r, 1), uint64(m.turn)
	// What the turn itself asks comes after what the branches bring.
	m.stage, m.question = forking, question
	clear(m.branches)
	m.branches = m.branches[:0]
	for i := range n {
		b := branch{
			session: m.number, turn: uint32(m.turn), name: f.Name,
			question: message.Part{
				Layer: message.LayerTurn, Generator: f.Fork.Turn.Content, Text: f.Fork.Turn.Text,
				Seed: random.Derive(m.seed, labelBranch, t, uint64(i)), Tokens: k.query.Int(r, 1),
			},
		}
		if f.Fork.Output.Kind != "" {
			b.output = k.branchOutput.Int(r, 1)
		}
		b.exact = b.output > 0 && f.Output.Stop != StopNatural
		if k.hasFound {
			b.found = k.found.Int(r, 1)
		}
		m.branches = append(m.branches, b)
	}
	longest, answers := 0, 0
	for i := range m.branches {
		longest = max(longest, m.branches[i].question.Tokens+m.branches[i].output)
		answers += m.branches[i].output
	}
	if m.turn > 0 && m.context+max(longest, answers+question.Tokens+m.output) > f.Session.MaxContext {
		return m.begin(at)
	}
	m.machines = m.machines[:0]
	for i := range m.branches {
		b := &m.branches[i]
		b.parts = append(m.parts[:m.kept:m.kept], b.question)
		b.effort = ""
		if f.Output.Reasoning != nil {
			b.effort = f.Output.Reasoning.Effort
		}
		m.machines = append(m.machines, b)
	}
	m.req = message.Request{}
	return Action{Kind: Fork, At: at, Session: m.number, Turn: uint32(m.turn), Workload: f.Name, Branches: m.machines}
}

// joined asks what the round comes to, on what its branches found.
func (m *session) joined(o Outcome) Action {
	f, k := m.s.file, &m.s.file.compiled
	t := uint64(m.turn)
	// The answers of the rounds to come go before what this one found.
	_, most := k.branches.Bounds()
	coming := most*k.branchOutput.Mean() + k.output.Mean() + k.turn.Mean()
	room := f.Session.MaxContext - m.context - m.output - int(coming)*(m.turns-m.turn-1)
	room -= m.question.Tokens
	any := false
	for i := range m.branches {
		b := &m.branches[i]
		if b.outcome.Status != record.OK {
			continue
		}
		any = true
		p := message.Part{
			Layer: message.LayerSession, Generator: f.Fork.Turn.Content, Seed: random.Derive(m.seed, labelAnswer, t, 1, uint64(i)),
			Text: b.outcome.Text, Tokens: m.visible(b.outcome, 0),
		}
		if f.Session.History == HistoryRecorded {
			if p.Text = ""; b.output > 0 {
				p.Tokens = b.output
			}
		}
		if p.Tokens > 0 || p.Text != "" {
			m.parts = append(m.parts, p)
			room -= p.Tokens
		}
	}
	for i := range m.branches {
		b := &m.branches[i]
		if n := min(b.found, room); n > 0 && b.outcome.Status == record.OK {
			m.parts = append(m.parts, message.Part{
				Layer: message.LayerSession, Generator: f.Fork.Found.Content, Text: f.Fork.Found.Text,
				Seed: random.Derive(m.seed, labelFound, t, uint64(i)), Tokens: n,
			})
			room -= n
		}
	}
	if !any {
		return m.failed(o)
	}
	if k.hasTurn {
		m.parts = append(m.parts, m.question)
	}
	if m.full() { // the answers are longer than was asked
		return m.begin(o.Ended)
	}
	return m.request(o.Ended)
}

// branch is the machine of one sub-query.
type branch struct {
	session uint64
	turn    uint32
	name    string
	effort  string

	question      message.Part
	output, found int
	exact         bool
	parts         []message.Part
	req           message.Request
	outcome       Outcome
}

// Start asks the sub-query.
func (b *branch) Start(now int64) Action {
	b.outcome = Outcome{Status: record.Cancelled} // until it has one
	b.req = message.Request{Parts: b.parts, MaxTokens: b.output, Exact: b.exact, ReasoningEffort: b.effort}
	return Action{Kind: Send, At: now, Request: &b.req, Session: b.session, Turn: b.turn, Workload: b.name}
}

// Foresee yields nothing: what comes after the branch is the session's.
func (b *branch) Foresee(func(p *message.Part), func(func())) {}

// Done ends the branch.
func (b *branch) Done(_ int64, o Outcome) Action {
	b.outcome = o
	return Action{Kind: End}
}
