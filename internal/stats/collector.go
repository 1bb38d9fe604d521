package stats

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"sort"
	"sync"

	"plimsoll/internal/histogram"
	"plimsoll/internal/record"
)

// lateAfter is how long after the end of a window a request of it may start
// and still count as started in time: the limit on the client's lateness.
const lateAfter = 5e6

// Collector makes a Summary of records. It keeps some 70 bytes per request, the
// histograms of the windows, and no record. It is safe for concurrent use.
type Collector struct {
	mu        sync.Mutex
	in        Input
	names     map[string]uint16
	workloads []string
	// groups are indexed by step, then by workload.
	groups [][]*group
	grids  []grid
	chunks []*chunk
	// tokens and events are those of requests whose tokens per event are known.
	tokens, events int64
	wantITL        bool
	lastEnd        int64
	own            own
	// scratch is what samples returned last, for the next to use again.
	scratch []sample
	differ  differences
}

// differences says which figures of a request ever differed from others of the
// same request. Those that never did have one distribution, worked out once.
type differences struct {
	// schedule: requests did not start when they were scheduled; content: the first
	// visible content was not the first token; end: answers did not end with their
	// last token.
	schedule, content, end bool
}

// group counts what needs no distribution, of one workload in one step.
type group struct {
	req         Requests
	byError     [int(record.ClientResource) + 1]int64
	prompt      total
	cached      total
	output      total
	reasoning   total
	source      Source
	basis       Basis
	promptOff   total // |asked - counted| / asked in 1e-9, per request
	short, long int64 // outputs below and up to what was asked
	moreEvents  int64
	countOff    histogram.Histogram // |server - tokenizer| / server in 1e-6
	outputs     int64               // output events
	bounded     int64
	kernel      int64
	user        int64
	readLagMax  int64
	buffered    int64
	late        int64 // not started in time, held back by a cap or not
	capHeld     int64

	// What happened inside the window, of whatever request.
	started, completed       int64
	promptIn                 total
	outputIn                 total
	reasoningIn              total
	eventsUncounted          int64
	bodiesUncounted          int64
	gaps, itls, itlsBuffered []*histogram.Histogram // by block
	// plain are the gaps of events of one token each: both gaps and itls.
	plain                    []*histogram.Histogram
	gapRequests, itlRequests int64
}

// total is a sum and the number of requests that had a part in it.
type total struct{ sum, n int64 }

func (t *total) add(v int64) { t.sum, t.n = t.sum+v, t.n+1 }

func (t *total) merge(o total) { t.sum, t.n = t.sum+o.sum, t.n+o.n }

func (t total) orNil() *int64 {
	if t.n == 0 {
		return nil
	}
	return &t.sum
}

// NewCollector returns a Collector for the windows of in, which decide which
// tokens are counted and must be final. What in says of the client may be
// changed by SetClient until Summary.
func NewCollector(in Input) *Collector {
	c := &Collector{in: in, names: make(map[string]uint16), lastEnd: record.Unset}
	c.groups = make([][]*group, len(in.Steps))
	for _, s := range in.Steps {
		c.grids = append(c.grids, newGrid(s.Start, s.End))
	}
	c.wantITL = in.JudgesITL()
	return c
}

// SetClient sets what the client knows of itself.
func (c *Collector) SetClient(ci ClientInput) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in.Client = ci
}

// SetServer sets what the servers counted.
func (c *Collector) SetServer(si *ServerInput) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in.Server = si
}

// SetDuration sets the length of the whole run in ns.
func (c *Collector) SetDuration(d int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in.Duration = d
}

// Summarize makes the summary of all requests of seq.
func Summarize(in Input, seq iter.Seq[*record.Request]) *Summary {
	c := NewCollector(in)
	for r := range seq {
		c.Add(r)
	}
	return c.Summary()
}

func (c *Collector) group(step int, workload uint16) *group {
	for len(c.groups[step]) <= int(workload) {
		c.groups[step] = append(c.groups[step], &group{})
	}
	return c.groups[step][workload]
}

// Add counts one request, whose tokens per event have been resolved. r is not
// kept.
func (c *Collector) Add(r *record.Request) { c.add(r, noTokens{}) }

// Timeline is when the tokens of an answer came, each in an event of its own and
// all of one choice, for sources that need not list them. The first came at
// FirstToken of the request, the last at LastToken.
type Timeline interface {
	// Tokens is their number.
	Tokens() int
	// Times lists them in order. The list is not kept.
	Times() []int64
	// CountGaps counts the times between them in h, which others write to as well.
	// It may put that off, but not beyond Summary.
	CountGaps(h *histogram.Histogram)
}

// noTokens is the Timeline of a request that has Events or no output.
type noTokens struct{}

func (noTokens) Tokens() int                    { return 0 }
func (noTokens) Times() []int64                 { return nil }
func (noTokens) CountGaps(*histogram.Histogram) {}

// AddTimeline counts one request like Add, whose output came as t says. r has no
// Events.
func (c *Collector) AddTimeline(r *record.Request, t Timeline) {
	if len(r.Events) > 0 {
		panic("BUG: a request with both events and a timeline")
	}
	c.add(r, t)
}

// named returns the number of a workload.
func (c *Collector) named(workload string) uint16 {
	w, ok := c.names[workload]
	if !ok {
		if len(c.workloads) == math.MaxUint16 {
			panic("BUG: more workloads than a run can have")
		}
		w = uint16(len(c.workloads))
		c.workloads = append(c.workloads, workload)
		c.names[workload] = w
	}
	return w
}

func (c *Collector) add(r *record.Request, t Timeline) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.named(r.Workload)
	step := notSteady
	if r.Phase == record.Steady && int(r.Step) < len(c.in.Steps) {
		step = int(r.Step)
	}
	if r.End != record.Unset {
		c.lastEnd = max(c.lastEnd, r.End)
	}
	tokens := t.Tokens()
	c.arrivals(r, t, tokens, w)
	if !c.in.Virtual {
		c.own.add(r, len(r.Events)+tokens)
	}
	block := 0
	if step != notSteady {
		block = c.block(step, r.Scheduled)
		c.count(r, t, tokens, c.group(step, w), step, block)
	}
	c.row(r, tokens, step, w, block)
}

// block returns which of the window's blocks of time t belongs to.
func (c *Collector) block(step int, t int64) int {
	s := &c.in.Steps[step]
	if s.End <= s.Start {
		return 0
	}
	b := int64(float64(t-s.Start) * (windowBlocks / float64(s.End-s.Start)))
	return int(min(max(b, 0), windowBlocks-1))
}

// row stores what distributions over requests are made of.
func (c *Collector) row(r *record.Request, tokens int, step int, w uint16, block int) {
	if len(c.chunks) == 0 || c.chunks[len(c.chunks)-1].n == chunkRows {
		c.chunks = append(c.chunks, newChunk())
	}
	k := c.chunks[len(c.chunks)-1]
	i := k.n
	k.n++
	k.scheduled[i], k.session[i] = r.Scheduled, r.Session
	k.step[i], k.workload[i], k.block[i] = uint16(step), w, uint8(block)
	k.status[i], k.buffered[i] = r.Status, r.Flags&record.BufferedStream != 0
	k.prompt[i], k.later[i] = r.Prompt, r.Turn > 0
	_, k.tpotTokens[i], _ = tpotOf(r, len(r.Events)+tokens)
	if r.Start == record.Unset {
		k.tpotTokens[i] = 0
	}
	put := func(col int, v int64, ok bool) { k.put(col, i, v, ok) }
	v, ok := between(r.Scheduled, r.Start)
	put(colDelay, v, ok)
	c.differ.schedule = c.differ.schedule || r.Start != record.Unset && r.Scheduled != r.Start
	v, ok = between(r.Start, r.End)
	put(colEnd, v, ok)
	if step == notSteady {
		return // only in flight beside the window's own
	}
	if lag, ok := SendLag(r); ok {
		delay, _ := between(r.Scheduled, r.Start)
		put(colCapWait, delay-lag, delay != lag)
	}
	v, ok = TTFT(r)
	put(colTTFT, v, ok)
	v, ok = TTFC(r)
	put(colTTFC, v, ok)
	c.differ.content = c.differ.content || r.FirstContent != r.FirstToken
	v, ok = TTLT(r)
	put(colTTLT, v, ok)
	c.differ.end = c.differ.end || r.Status == record.OK && r.LastToken != r.End
	v, ok = Connect(r)
	put(colConnect, v, ok)
	v, ok = Upload(r)
	put(colUpload, v, ok)
	v, ok = Retrieval(r)
	put(colRetrieval, v, ok)
	v, ok = ReadLag(r)
	put(colReadLag, v, ok)
	if c.wantITL && r.Flags&record.BufferedStream == 0 {
		var sum, n int64
		if tokens > 1 {
			sum, n = r.LastToken-r.FirstToken, int64(tokens-1)
			put(colITL, (sum+n/2)/n, true)
		} else if ITL(r, func(gap int64, tokens int32) { sum, n = sum+gap, n+int64(tokens) }) {
			put(colITL, (sum+n/2)/n, true)
		}
	}
}

// count adds a request to the group of the window that it was scheduled in.
func (c *Collector) count(r *record.Request, t Timeline, tokens int, g *group, step, block int) {
	g.req.Scheduled++
	if r.Sent != record.Unset || r.Headers != record.Unset {
		g.req.Sent++
	}
	switch r.Status {
	case record.OK:
		g.req.OK++
	case record.Failed:
		g.req.Error++
		if searchFailed(r) {
			g.req.SearchFailed++
		}
		g.byError[min(int(r.Error), len(g.byError)-1)]++
	case record.Cancelled:
		g.req.Cancelled++
	case record.Incomplete:
		g.req.Incomplete++
	}
	for _, t := range []struct {
		to *total
		v  int32
	}{{&g.prompt, r.Prompt}, {&g.cached, r.Cached}, {&g.output, r.Output}, {&g.reasoning, r.Reasoning}} {
		if t.v >= 0 {
			t.to.add(int64(t.v))
		}
	}
	end := c.in.Steps[step].End
	if (r.Start == record.Unset && !searchFailed(r)) || r.Start >= end+lateAfter {
		g.late++
		if r.Start == record.Unset && (r.CapWait > 0 || c.in.MaxInFlight > 0) ||
			r.Start != record.Unset && r.Start-r.CapWait < end+lateAfter {
			g.capHeld++
		}
	}
	if r.Headers != record.Unset {
		if r.KernelTimes {
			g.kernel++
		} else {
			g.user++
		}
	}
	if r.KernelTimes && r.ReadLagMax != record.Unset {
		g.readLagMax = max(g.readLagMax, r.ReadLagMax)
	}
	g.outputs += int64(len(r.Events) + tokens)
	for i := range r.Events {
		if r.Events[i].Bounded {
			g.bounded++
		}
	}
	if r.Status != record.OK {
		return
	}
	switch r.Source {
	case record.SourceServer:
		g.source.Server++
	case record.SourceTokenizer:
		g.source.Tokenizer++
	case record.SourceNone:
		g.source.None++
	}
	switch _, _, basis := tpotOf(r, len(r.Events)+tokens); basis {
	case record.BasisFirstEvent:
		g.basis.FirstEvent++
	case record.BasisNMinus1:
		g.basis.NMinus1++
	case record.BasisNone:
	}
	if r.AskedPrompt > 0 && r.Prompt >= 0 {
		off := int64(r.AskedPrompt) - int64(r.Prompt)
		g.promptOff.add(max(off, -off) * 1e9 / int64(r.AskedPrompt))
	}
	if r.AskedOutput > 0 && r.Output >= 0 {
		if r.Output < r.AskedOutput {
			g.short++
		} else {
			g.long++
		}
	}
	if r.Flags&record.MoreEventsThanTokens != 0 {
		g.moreEvents++
	}
	if r.Source == record.SourceServer && r.Output > 0 && r.TokenizerOutput >= 0 {
		off := int64(r.Output) - int64(r.TokenizerOutput)
		g.countOff.Record(max(off, -off) * 1e6 / int64(r.Output))
	}
	buffered := r.Flags&record.BufferedStream != 0
	if buffered {
		g.buffered++
	}
	switch {
	case tokens > 1:
		to := &g.plain
		if buffered {
			t.CountGaps(blockOf(&g.gaps, block))
			to = &g.itlsBuffered
		}
		t.CountGaps(blockOf(to, block))
		g.gapRequests++
		g.itlRequests++
	case len(r.Events) > 1:
		h := blockOf(&g.gaps, block)
		before := h.Count()
		EventGaps(r, h.Record)
		if h.Count() > before {
			g.gapRequests++
		}
		to := &g.itls
		if buffered {
			to = &g.itlsBuffered
		}
		h = blockOf(to, block)
		if ITL(r, func(gap int64, tokens int32) { h.RecordShared(gap, uint64(tokens)) }) {
			g.itlRequests++
		}
	}
}

func blockOf(parts *[]*histogram.Histogram, block int) *histogram.Histogram {
	if *parts == nil {
		*parts = make([]*histogram.Histogram, windowBlocks)
	}
	if (*parts)[block] == nil {
		(*parts)[block] = new(histogram.Histogram)
	}
	return (*parts)[block]
}

// arrivals counts what of r happened inside each window, whichever window r
// itself belongs to.
func (c *Collector) arrivals(r *record.Request, t Timeline, tokens int, w uint16) {
	ev := r.Events
	events := len(ev) + tokens
	counted := events > 0
	streamed := int64(tokens)
	for i := range ev {
		if ev[i].Tokens < 0 {
			counted = false
			break
		}
		streamed += int64(ev[i].Tokens)
	}
	if counted {
		c.tokens, c.events = c.tokens+streamed, c.events+int64(events)
	}
	for s := range c.in.Steps {
		start, end := c.in.Steps[s].Start, c.in.Steps[s].End
		in := func(t int64) bool { return t != record.Unset && t >= start && t < end }
		c.grids[s].add(r.Start, r.End)
		if r.Start == record.Unset || r.Start >= end || r.End != record.Unset && r.End < start {
			continue
		}
		g := c.group(s, w)
		if in(r.Start) {
			g.started++
		}
		if r.Status == record.OK && in(r.End) {
			g.completed++
		}
		promptAt := r.FirstToken
		if promptAt == record.Unset {
			promptAt = r.End
		}
		if r.Prompt >= 0 && in(promptAt) {
			g.promptIn.add(int64(r.Prompt))
		}
		if events == 0 {
			// One body, or no output at all.
			switch {
			case !in(r.End):
			case r.Output >= 0:
				g.outputIn.add(int64(r.Output))
				if r.Reasoning >= 0 {
					g.reasoningIn.add(int64(r.Reasoning))
				}
			case r.TextBytes > 0:
				g.bodiesUncounted++
			}
			continue
		}
		var from, to int
		switch {
		case tokens > 0 && in(r.FirstToken) && in(r.LastToken):
			from, to = 0, tokens
		case tokens > 0:
			times := t.Times()
			from, _ = slices.BinarySearch(times, start)
			to, _ = slices.BinarySearch(times, end)
		default:
			from = sort.Search(len(ev), func(i int) bool { return ev[i].At >= start })
			to = sort.Search(len(ev), func(i int) bool { return ev[i].At >= end })
		}
		if from >= to {
			continue
		}
		n := int64(events)
		// share gives the part of v that came with the events of the window,
		// such that the parts of all windows add up to v.
		share := func(v int64) int64 { return v*int64(to)/n - v*int64(from)/n }
		switch {
		case counted:
			sum := int64(to - from)
			if len(ev) > 0 {
				sum = 0
				for i := from; i < to; i++ {
					sum += int64(ev[i].Tokens)
				}
			}
			// Reasoning that was counted but not streamed came before the first
			// event.
			if from == 0 && int64(r.Output) > streamed {
				sum += int64(r.Output) - streamed
			}
			g.outputIn.add(sum)
		case r.Output >= 0:
			g.outputIn.add(share(int64(r.Output)))
		default:
			g.eventsUncounted += int64(to - from)
		}
		if r.Reasoning >= 0 {
			g.reasoningIn.add(share(int64(r.Reasoning)))
		}
	}
}

// grid counts what is in flight at equally spaced instants of a window.
type grid struct {
	start, end int64
	// change[i] is by how much the number at instant i differs from that
	// before.
	change []int32
}

// newGrid has an instant every 100 ms, but at least 100 and at most 36,000.
func newGrid(start, end int64) grid {
	if end <= start {
		return grid{}
	}
	n := min(max((end-start)/1e8, 100), 36_000)
	return grid{start, end, make([]int32, n+1)}
}

// first returns the first instant that is not before t.
func (g *grid) first(t int64) int {
	n := int64(len(g.change)) - 1
	at := func(i int64) int64 { return g.start + int64((float64(i)+0.5)*float64(g.end-g.start)/float64(n)) }
	// A good guess, then the first for sure.
	i := min(max(int64(float64(t-g.start)/float64(g.end-g.start)*float64(n)), 0), n)
	for i > 0 && at(i-1) >= t {
		i--
	}
	for i < n && at(i) < t {
		i++
	}
	return int(i)
}

// add counts something that is in flight from start until end, which may be
// Unset for "still".
func (g *grid) add(start, end int64) {
	if len(g.change) == 0 || start == record.Unset || start >= g.end || end != record.Unset && end <= g.start {
		return
	}
	g.change[g.first(start)]++
	if end != record.Unset && end < g.end {
		g.change[g.first(end)]--
	}
}

// counts calls yield with the number at each instant.
func (g *grid) counts(yield func(int64)) {
	var n int64
	for i := range max(len(g.change)-1, 0) {
		n += int64(g.change[i])
		yield(n)
	}
}

// sessionGrids returns the grids of sessions: each from the first scheduled
// time of its requests to their last end.
func (c *Collector) sessionGrids() []grid {
	type life struct {
		session  uint64
		from, to int64
	}
	grids := make([]grid, len(c.in.Steps))
	for s, st := range c.in.Steps {
		grids[s] = newGrid(st.Start, st.End)
	}
	// of calls yield with the life of each request.
	of := func(yield func(l life)) {
		for _, k := range c.chunks {
			for i := range k.n {
				if k.scheduled[i] == record.Unset {
					continue
				}
				l := life{k.session[i], k.scheduled[i], math.MaxInt64}
				delay, ok := k.cols[colDelay].get(i)
				if end, has := k.cols[colEnd].get(i); ok && has {
					l.to = l.from + delay + end
				} else if !ok {
					l.to = l.from // never started
				}
				yield(l)
			}
		}
	}
	n := 0
	for _, k := range c.chunks {
		n += k.n
	}
	if c.oneRequestEach(n) {
		of(func(l life) {
			for s := range grids {
				grids[s].add(l.from, l.to)
			}
		})
		return grids
	}
	lives := make([]life, 0, n)
	of(func(l life) { lives = append(lives, l) })
	slices.SortFunc(lives, func(a, b life) int { return cmp.Compare(a.session, b.session) })
	for i := 0; i < len(lives); {
		all := lives[i]
		for ; i < len(lives) && lives[i].session == all.session; i++ {
			all.from, all.to = min(all.from, lives[i].from), max(all.to, lives[i].to)
		}
		for s := range grids {
			grids[s].add(all.from, all.to)
		}
	}
	return grids
}

// oneRequestEach is whether no session of the n requests has more than one.
func (c *Collector) oneRequestEach(n int) bool {
	sessions := make([]uint64, 0, n)
	for _, k := range c.chunks {
		sessions = append(sessions, k.session[:k.n]...)
	}
	slices.Sort(sessions)
	for i := 1; i < len(sessions); i++ {
		if sessions[i] == sessions[i-1] {
			return false
		}
	}
	return true
}
