package align

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"plimsoll/internal/run"
	"plimsoll/internal/signal"
)

// course is what one engine, device or port of one source states of one signal.
type course struct {
	source int
	id     signal.ID
	labels string
	// value is the series of a gauge or counter, count and sum those of a
	// distribution; -1 for none.
	value, count, sum int32
	buckets           []bucket
	// part and whole are the courses of a ratio, -1 for what the server states itself.
	part, whole int
	// tokens are the courses that count the tokens of the same engine, for a gauge
	// that is only true while the engine works.
	tokens []int
	idle   int // for how many cells those have not moved
	// first and last bound when it was there; last is the end of time where its
	// source stopped answering, rather than stopped stating it.
	first, last int64
	updates     updates
}

// bucket is one bucket of a distribution.
type bucket struct {
	bound  float64
	series int32
}

// gaugeLike says whether its values are those of an instant.
func (c *course) gaugeLike() bool {
	return c.value >= 0 && c.id.Def().Kind != signal.Counter
}

// group is several courses that become one.
type group struct {
	id      signal.ID
	source  int // -1 for all sources together
	courses []int
	edges   bool      // distributions have the same buckets
	le      []float64 // their upper bounds, where they do
	// observed says that it is of distributions; what states a value of its own instead
	// has rows of its own only.
	observed bool
	// unequal is where load that ought to be spread is told how it is spread.
	unequal bool
	figures []figure // of all sources together: one for each window
}

// acc is what is collected of one series in one cell: of a gauge the sum of its
// readings and their number, or a value that was held and -1; of what counts, by
// how much it rose and during how many ns that is known.
type acc struct{ x, y float64 }

// state is what is known of one series while samples are read.
type state struct {
	gauge   *gauge
	counter *counter
	most    float64 // the highest reading inside a window
	any     bool
	before  acc // of a gauge's readings before the first request
}

// window is a stretch of time with figures of its own.
type window struct{ start, end int64 }

// overlap returns how many ns of a stretch are inside.
func (w window) overlap(from, to int64) int64 { return max(0, min(to, w.end)-max(from, w.start)) }

// server makes the servers' rows.
type server struct {
	v       *survey
	in      *Input
	step    int64
	names   []string // of the sources, in rows
	courses []course
	groups  []group // by signal, then source, all sources together last
	states  []state
	windows []window
	inside  [][]acc // by window, by series: how much it rose in the window
	weights [][]acc // by window, by course: the sum of values by time, and that time
	idle    []acc   // by course, of the time before the first request
	quiet   int64   // when the first request was scheduled
	cells   map[int64][]acc
	free    [][]acc
	closed  int64 // cells before this one are complete
	behind  int64
	reach   int64 // how far from its time a reading may stand for a gauge
	newest  int64
	any     bool
	done    bool
	lateOf  int64 // samples that came too late for their cell
	next    func() ([]signal.Sample, bool)
	stop    func()
	vals    []val
	cums    []float64
}

// working are the gauges that an engine writes when it takes a step, so that the
// last value stays when there are no more (telemetry pitfall of vLLM #22545).
var working = []signal.ID{
	signal.RequestsRunning, signal.RequestsWaiting, signal.WaitingDeferred, signal.RequestsPaused,
	signal.KVCacheUsage, signal.KVUsedTokens,
}

// spread are the signals of which it is told how evenly engines have them.
var spread = []signal.ID{signal.RequestsRunning, signal.RequestsWaiting, signal.KVUsedTokens, signal.PromptTokens, signal.GenerationTokens}

// mostBehind bounds how late a sample may come after newer ones.
const mostBehind = int64(600e9)

// newServer finds the courses and groups of a run; step is set later.
func newServer(in *Input, v *survey) *server {
	s := &server{v: v, in: in, cells: make(map[int64][]acc), quiet: math.MinInt64}
	for _, w := range in.Run.Steps {
		s.windows = append(s.windows, window{w.Start, w.End})
	}
	s.nameSources()
	s.findCourses()
	s.findGroups()
	for range s.windows {
		s.inside = append(s.inside, make([]acc, len(v.series)))
		s.weights = append(s.weights, make([]acc, len(s.courses)))
	}
	s.idle = make([]acc, len(s.courses))
	s.vals = make([]val, len(s.courses))
	return s
}

// told says whether a signal has rows of its own.
func told(id signal.ID) bool { return id != signal.None && id != signal.EngineStart }

func (s *server) findCourses() {
	type key struct {
		source int
		id     signal.ID
		labels string
	}
	index := make(map[key]int)
	for i := range s.v.series {
		d := &s.v.series[i]
		if !told(d.Signal) || s.v.tracks[i].n == 0 {
			continue
		}
		k := key{d.Source, d.Signal, d.Labels}
		at, ok := index[k]
		if !ok {
			at = len(s.courses)
			index[k] = at
			s.courses = append(s.courses, course{source: d.Source, id: d.Signal, labels: d.Labels, value: -1, count: -1, sum: -1, part: -1, whole: -1})
		}
		c := &s.courses[at]
		switch d.Field {
		case signal.Value:
			c.value = int32(i)
		case signal.TotalSum:
			c.sum = int32(i)
		case signal.TotalCount:
			c.count = int32(i)
		case signal.TotalBucket:
			c.buckets = append(c.buckets, bucket{d.Bound, int32(i)})
		}
	}
	stated := len(s.courses)
	for i := range stated {
		c := &s.courses[i]
		slices.SortFunc(c.buckets, func(a, b bucket) int { return cmp.Compare(a.bound, b.bound) })
		if n := len(c.buckets); c.count < 0 && n > 0 && math.IsInf(c.buckets[n-1].bound, 1) {
			c.count = c.buckets[n-1].series // the last bucket counts them all
		}
		if d := c.id.Def(); d.Kind == signal.Counter {
			for _, r := range ratios {
				if r.Part != c.id {
					continue
				}
				whole, ok := index[key{c.source, r.Whole, c.labels}]
				if !ok {
					continue
				}
				at, ok := index[key{c.source, r.ID, c.labels}]
				if !ok {
					at = len(s.courses)
					s.courses = append(s.courses, course{source: c.source, id: r.ID, labels: c.labels, value: -1, count: -1, sum: -1})
				}
				s.courses[at].part, s.courses[at].whole, s.courses[at].value = i, whole, -1
			}
		}
	}
	for i := range s.courses {
		c := &s.courses[i]
		if slices.Contains(working, c.id) {
			for _, labels := range []string{c.labels, ""} {
				for _, id := range []signal.ID{signal.GenerationTokens, signal.PromptTokens} {
					if at, ok := index[key{c.source, id, labels}]; ok {
						c.tokens = append(c.tokens, at)
					}
				}
				if len(c.tokens) > 0 {
					break
				}
			}
		}
		s.lifetime(c)
	}
}

// ratios are the signals that are made of two counters.
var ratios = func() (out []signal.Def) {
	for _, d := range signal.All() {
		if d.Kind == signal.Ratio {
			out = append(out, d)
		}
	}
	return out
}()

// main returns the series that stands for a course.
func (c *course) main() int32 {
	if c.value >= 0 {
		return c.value
	}
	return c.count
}

func (s *server) lifetime(c *course) {
	of := c.main()
	if c.part >= 0 {
		of = s.courses[c.part].main()
	}
	if of < 0 {
		return
	}
	s.bounds(c, of)
	c.updates = s.v.updates(of)
}

// bounds says from when to when a course of main series of was there.
func (s *server) bounds(c *course, of int32) {
	k, g := &s.v.tracks[of], &s.v.origins[c.source]
	c.first, c.last = k.first, k.last
	if k.last >= g.last-5*s.v.usual(of)/2 { // exporters renew groups of values at times of their own
		c.last = math.MaxInt64
	}
}

// uuid returns the label that names a device everywhere.
func uuid(labels string) string {
	for pair := range strings.SplitSeq(labels, ",") {
		if v, ok := strings.CutPrefix(pair, "uuid="); ok {
			return v
		}
	}
	return ""
}

func (s *server) findGroups() {
	bySignal := make(map[signal.ID][]int)
	for i := range s.courses {
		bySignal[s.courses[i].id] = append(bySignal[s.courses[i].id], i)
	}
	ids := make([]signal.ID, 0, len(bySignal))
	for id := range bySignal {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		list := bySignal[id]
		slices.SortStableFunc(list, func(a, b int) int {
			if c := s.courses[a].source - s.courses[b].source; c != 0 {
				return c
			}
			return strings.Compare(s.courses[a].labels, s.courses[b].labels)
		})
		for i := 0; i < len(list); {
			j := i + 1
			for j < len(list) && s.courses[list[j]].source == s.courses[list[i]].source {
				j++
			}
			if j-i > 1 {
				s.groups = append(s.groups, s.group(id, s.courses[list[i]].source, list[i:j]))
			}
			i = j
		}
		if all := s.together(id, list); len(all) > 0 {
			g := s.group(id, -1, all)
			g.figures = make([]figure, len(s.windows))
			s.groups = append(s.groups, g)
		}
	}
}

func (s *server) group(id signal.ID, source int, courses []int) group {
	g := group{id: id, source: source, courses: courses, edges: true, unequal: len(courses) > 1 && slices.Contains(spread, id)}
	for _, i := range courses[1:] {
		a, b := s.courses[courses[0]].buckets, s.courses[i].buckets
		if !slices.EqualFunc(a, b, func(a, b bucket) bool { return a.bound == b.bound }) {
			g.edges = false
		}
	}
	for _, i := range courses {
		c := &s.courses[i]
		g.observed = g.observed || c.count >= 0 && !c.gaugeLike()
	}
	if g.edges {
		for _, b := range s.courses[courses[0]].buckets {
			g.le = append(g.le, b.bound)
		}
	}
	return g
}

// together returns the courses that all sources together are made of: none of
// this machine itself but what the client says of itself, none twice.
func (s *server) together(id signal.ID, list []int) []int {
	direct := slices.ContainsFunc(list, func(i int) bool {
		o := s.of(s.courses[i].source)
		return !o.Client && !o.handsOn(id)
	})
	gateway := s.gateway(id, list)
	var out []int
	seen := make(map[string]int) // devices, and the source that has them
	for _, i := range list {
		c := &s.courses[i]
		o := s.of(c.source)
		if o.Client && id.Def().Group != signal.Client || o.handsOn(id) && direct || o.Gateway != gateway && gateway != "" {
			continue
		}
		if u := uuid(c.labels); u != "" && id.Def().Group == signal.Accelerator {
			if by, ok := seen[u]; ok && by != c.source {
				continue // two exporters state the same device
			}
			seen[u] = c.source
		}
		out = append(out, i)
	}
	return out
}

// gateway returns the gateway of which a signal counts: of several kinds that state it
// the first that is nothing else, or the first, since each sees the requests that went
// through the one before it. It is empty when all count.
func (s *server) gateway(id signal.ID, list []int) string {
	name := ""
	if id.Def().Group != signal.Gateway {
		return name
	}
	for _, i := range list {
		switch o := s.of(s.courses[i].source); {
		case o.Client || o.Relayed || o.Gateway == "":
		case o.Front:
			return o.Gateway
		case name == "":
			name = o.Gateway
		}
	}
	return name
}

// of returns a source, which need not have been named.
func (s *server) of(i int) Source {
	if i < len(s.in.Sources) {
		return s.in.Sources[i]
	}
	return Source{}
}

// rowsPerCell returns how many rows a cell has at most.
func (s *server) rowsPerCell() int64 {
	n := int64(0)
	per := func(id signal.ID, whole bool) int64 {
		switch d := id.Def(); {
		case d.Kind == signal.Distribution && whole:
			return 8
		case d.Kind == signal.Distribution, d.Combine == signal.Mean && whole:
			return 2
		}
		return 1
	}
	for i := range s.courses {
		n += per(s.courses[i].id, false)
	}
	for i := range s.groups {
		n += per(s.groups[i].id, true)
	}
	return n
}

// start begins reading with cells of a length.
func (s *server) start(step int64) {
	s.step = step
	s.states = make([]state, len(s.v.series))
	for i := range s.courses {
		c := &s.courses[i]
		of := c.main()
		if c.part >= 0 || of < 0 {
			continue
		}
		usual := s.v.usual(of)
		p := pace{usual: usual}
		s.behind = max(s.behind, 3*usual, s.v.tracks[of].longest)
		r := renewal{}
		if u := c.updates; !u.atMost && float64(u.period) > 1.2*float64(usual) {
			r.period = u.period
			s.behind = max(s.behind, 3*r.period+2*usual)
		}
		if s.ready(c, p, r); c.gaugeLike() {
			s.reach = max(s.reach, usual/2, r.period)
		}
	}
	s.behind = min(s.behind+s.v.behind, mostBehind) + step
	s.reach = min(s.reach, mostBehind)
	s.closed = floor(s.v.first-s.reach, step)
	s.next, s.stop = iter.Pull(s.in.Samples.All())
}

// ready makes the states of the series of a course that have none.
func (s *server) ready(c *course, p pace, r renewal) {
	if c.gaugeLike() {
		if st := &s.states[c.value]; st.gauge == nil {
			st.gauge = &gauge{pace: p, renewal: r}
		}
		return
	}
	count := func(series int32) {
		if series >= 0 && s.states[series].counter == nil {
			s.states[series].counter = &counter{pace: p, renewal: r}
		}
	}
	count(c.value)
	count(c.count)
	count(c.sum)
	for _, b := range c.buckets {
		count(b.series)
	}
}

// cell returns the collection of cell i, nil when it is complete.
func (s *server) cell(i int64) []acc {
	if i < s.closed {
		return nil
	}
	cell, ok := s.cells[i]
	if !ok {
		if n := len(s.free); n > 0 {
			cell, s.free = s.free[n-1], s.free[:n-1]
			clear(cell)
		} else {
			cell = make([]acc, len(s.v.series))
		}
	}
	if more := len(s.v.series) - len(cell); more > 0 { // series came meanwhile
		cell, ok = append(cell, make([]acc, more)...), false
	}
	if !ok {
		s.cells[i] = cell
	}
	return cell
}

// advance reads samples until cell i is complete.
func (s *server) advance(i int64) {
	for !s.done && (!s.any || s.newest < (i+1)*s.step+s.behind) {
		batch, ok := s.next()
		if !ok {
			s.done = true
			return
		}
		for j := range batch {
			s.add(&batch[j])
		}
	}
}

func (s *server) add(x *signal.Sample) {
	st := &s.states[x.Series]
	if st.gauge == nil && st.counter == nil {
		return
	}
	d := &s.v.series[x.Series]
	g := &s.v.origins[d.Source]
	t := g.at(x, d)
	if g.stated(x, d) && s.v.strange(t) {
		return
	}
	if !s.any || t > s.newest {
		s.any, s.newest = true, t
	}
	i := floor(t, s.step)
	if i < s.closed {
		s.lateOf++
		return
	}
	if st.gauge != nil {
		at, held, fresh := st.gauge.add(t, x.Value)
		if !fresh {
			return
		}
		for _, h := range held {
			if h.from < h.to {
				s.hold(x.Series, h)
			}
		}
		if cell := s.cell(floor(at, s.step)); cell != nil {
			a := &cell[x.Series]
			if a.y <= 0 {
				*a = acc{}
			}
			a.x, a.y = a.x+x.Value, a.y+1
		}
		if at <= s.quiet {
			st.before.x, st.before.y = st.before.x+x.Value, st.before.y+1
		}
		for _, w := range s.windows {
			if at >= w.start && at < w.end && (!st.any || x.Value > st.most) {
				st.any, st.most = true, x.Value
			}
		}
		return
	}
	c := st.counter
	inc, ok := c.add(t, x.Value, c.any && g.restarted(c.seen, t))
	if !ok || inc.to <= inc.from {
		return
	}
	length := float64(inc.to - inc.from)
	for w := range s.windows {
		if n := s.windows[w].overlap(inc.from, inc.to); n > 0 {
			a := &s.inside[w][x.Series]
			a.x, a.y = a.x+inc.by*float64(n)/length, a.y+float64(n)
		}
	}
	if inc.gap {
		return // it rose, but nobody knows when
	}
	for i := floor(inc.from, s.step); i <= floor(inc.to-1, s.step); i++ {
		cell := s.cell(i)
		if cell == nil {
			continue
		}
		n := window{i * s.step, (i + 1) * s.step}.overlap(inc.from, inc.to)
		a := &cell[x.Series]
		a.x, a.y = a.x+inc.by*float64(n)/length, a.y+float64(n)
	}
}

// hold gives cells without a reading whose middle is in a stretch of time the
// value that held then.
func (s *server) hold(series int32, h stretch) {
	half := s.step / 2
	for i := floor(h.from-half+s.step-1, s.step); i*s.step+half < h.to; i++ {
		if cell := s.cell(i); cell != nil && cell[series].y <= 0 {
			cell[series] = acc{h.v, -1}
		}
	}
}

// val is what a cell says of one course.
type val struct {
	known bool
	// v is a gauge's value, a counter's rate, a ratio.
	v float64
	// by is how much a counter rose, or the sum of a distribution; n its count, rate
	// that per second.
	by, n, rate float64
}

// value works out what a cell says of course i.
func (s *server) value(i int, cell []acc, busy bool) val {
	c := &s.courses[i]
	enough := func(series int32) (acc, bool) {
		if series < 0 {
			return acc{}, false
		}
		a := cell[series]
		return a, a.y >= float64(s.step)/2
	}
	switch {
	case c.part >= 0:
		part, whole := s.vals[c.part], s.vals[c.whole]
		if part.known && whole.known && whole.by > 0 {
			return val{known: true, v: part.by / whole.by, by: part.by, n: whole.by}
		}
	case c.gaugeLike():
		a := cell[c.value]
		switch {
		case a.y > 0:
			a.x /= a.y
		case a.y == 0:
			return val{}
		}
		if a.x != 0 && s.stands(c, busy) {
			return val{}
		}
		return val{known: true, v: a.x}
	case c.value >= 0:
		if a, ok := enough(c.value); ok {
			return val{known: true, v: a.x / a.y * 1e9, by: a.x}
		}
	case c.count >= 0:
		n, ok := enough(c.count)
		if !ok {
			return val{}
		}
		out := val{known: true, n: n.x, rate: n.x / n.y * 1e9, by: math.NaN()}
		if sum, ok := enough(c.sum); ok {
			out.by = sum.x
		}
		return out
	}
	return val{}
}

// stands says whether a gauge only stands still: the engine takes no step, since
// no token was counted for two cells and the client has nothing there.
func (s *server) stands(c *course, busy bool) bool { return !busy && c.idle >= 2 }

// watch counts for how many cells engines have counted no token.
func (s *server) watch(cell []acc, busy bool) {
	for i := range s.courses {
		s.watchOne(&s.courses[i], cell, busy)
	}
}

func (s *server) watchOne(c *course, cell []acc, busy bool) {
	if len(c.tokens) == 0 {
		return
	}
	still := !busy
	for _, t := range c.tokens {
		a := cell[s.courses[t].value]
		still = still && a.y >= float64(s.step)/2 && a.x == 0
	}
	if c.idle++; !still {
		c.idle = 0
	}
}

// rows appends the rows of cell i, which must be complete; cells come in order.
// busy says whether the client had a request in flight.
func (s *server) rows(i int64, busy bool, rows []run.TimelineRow) []run.TimelineRow {
	s.closed = i + 1
	cell, ok := s.cells[i]
	if !ok {
		for j := range s.courses {
			s.courses[j].idle = 0
		}
		return rows
	}
	delete(s.cells, i)
	t := i * s.step
	s.watch(cell, busy)
	for _, ratio := range []bool{false, true} { // what ratios are made of first
		for j := range s.courses {
			if (s.courses[j].part >= 0) == ratio {
				s.vals[j] = s.value(j, cell, busy)
			}
		}
	}
	for j := range s.courses {
		c, v := &s.courses[j], &s.vals[j]
		if rows = s.own(j, t, rows); v.known && c.part < 0 && c.value >= 0 {
			s.weigh(j, t, v.v)
		}
	}
	for j := range s.groups {
		rows = s.combine(&s.groups[j], t, cell, rows)
	}
	s.free = append(s.free, cell)
	return rows
}

// own appends the rows of course j for the cell at t, whose value is known by now.
func (s *server) own(j int, t int64, rows []run.TimelineRow) []run.TimelineRow {
	c, v := &s.courses[j], &s.vals[j]
	if !v.known {
		return rows
	}
	row := run.TimelineRow{T: t, Signal: c.id.String(), Source: s.name(c.source), Labels: c.labels}
	put := func(stat string, x float64) {
		row.Stat, row.Value = stat, x
		rows = append(rows, row)
	}
	switch {
	case c.part >= 0 || c.gaugeLike():
		put(statValue, v.v)
	case c.value >= 0:
		put(statRate, v.v)
	default:
		put(statRate, v.rate)
		if v.n > 0 && !math.IsNaN(v.by) {
			put(statMean, v.by/v.n)
		}
	}
	return rows
}

// weigh adds a value of course j that held for the cell at t to its windows.
func (s *server) weigh(j int, t int64, v float64) {
	if t+s.step <= s.quiet {
		s.idle[j].x, s.idle[j].y = s.idle[j].x+v, s.idle[j].y+1
	}
	for w := range s.windows {
		if n := s.windows[w].overlap(t, t+s.step); n > 0 {
			a := &s.weights[w][j]
			a.x, a.y = a.x+v*float64(n), a.y+float64(n)
		}
	}
}

// name returns the name of a source in rows.
func (s *server) name(i int) string { return s.names[i] }

// nameSources gives every source a name that no other has.
func (s *server) nameSources() {
	taken := make(map[string]bool)
	for i := range s.v.origins {
		name := s.of(i).Name
		if name == "" || taken[name] {
			name = strings.TrimSpace(fmt.Sprintf("%s source %d", name, i))
		}
		taken[name] = true
		s.names = append(s.names, name)
	}
}

// combine appends the rows of a group.
func (s *server) combine(g *group, t int64, cell []acc, rows []run.TimelineRow) []run.TimelineRow {
	row := run.TimelineRow{T: t, Signal: g.id.String()}
	if g.source >= 0 {
		row.Source = s.name(g.source)
	}
	put := func(stat string, x float64) {
		row.Stat, row.Value = stat, x
		rows = append(rows, row)
	}
	note := func(v, most, weight float64, counted bool) {
		if g.source >= 0 {
			return
		}
		for w := range s.windows {
			if n := s.windows[w].overlap(t, t+s.step); n > 0 {
				g.figures[w].add(v, most, weight, float64(n), counted)
			}
		}
	}
	d := g.id.Def()
	var sum, most, by, whole, rate float64
	known, distributions, counters, missing := 0, 0, 0, false
	sums := true
	for _, j := range g.courses {
		c, v := &s.courses[j], &s.vals[j]
		if !v.known {
			missing = missing || t+s.step/2 >= c.first && t+s.step/2 <= c.last
			continue
		}
		if known++; known == 1 {
			most = v.v
		}
		switch {
		case c.part >= 0:
			counters++
			by, whole = by+v.by, whole+v.n
		case c.value < 0:
			distributions++
			if math.IsNaN(v.by) {
				sums = false
			} else {
				by += v.by
			}
			whole, rate = whole+v.n, rate+v.rate
			continue
		case d.Kind == signal.Counter:
			counters++
		}
		sum, most = sum+v.v, max(most, v.v)
	}
	switch {
	case known == 0:
	case distributions > 0:
		if missing {
			return rows
		}
		put(statRate, rate)
		if whole > 0 && sums {
			put(statMean, by/whole)
		}
		if g.edges && whole > 0 {
			cum := s.mass(g, cell)
			for _, q := range quantiles {
				low, high, ok := between(g.le, cum, q.q)
				if !ok {
					continue
				}
				put(q.low, low)
				if !math.IsInf(high, 1) {
					put(q.high, high)
				}
			}
		}
	case d.Kind == signal.Ratio && counters > 0:
		put(statValue, by/whole)
		if len(g.courses) > 1 {
			put(statMax, most)
		}
		note(by/whole, most, whole, true)
	case d.Combine == signal.Mean:
		put(statValue, sum/float64(known))
		if len(g.courses) > 1 {
			put(statMax, most)
		}
		note(sum/float64(known), most, 0, false)
	case d.Combine == signal.Max:
		put(statValue, most)
		note(most, most, 0, false)
	case missing:
		// Part of a sum is not the sum.
	default:
		stat := statValue
		if counters > 0 {
			stat = statRate
		}
		put(stat, sum)
		mean := sum / float64(known)
		if g.unequal && known > 1 && mean > 0 {
			put(statImbalance, most/mean)
			note(sum, most/mean, 0, false)
		} else {
			note(sum, math.NaN(), 0, false)
		}
	}
	return rows
}

// mass returns how many observations of a group in a cell are not above each
// bound. It is valid until the next call.
func (s *server) mass(g *group, cell []acc) []float64 {
	s.cums = s.cums[:0]
	for b := range g.le {
		n := 0.0
		for _, j := range g.courses {
			n += cell[s.courses[j].buckets[b].series].x
		}
		s.cums = append(s.cums, n)
	}
	return s.cums
}

// between returns the bounds of the bucket that a quantile lies in. The upper
// bound is infinite in the last one. ok is false without buckets, and when all
// observations are in the last, open one: then nothing is known.
func between(le, cum []float64, q float64) (low, high float64, ok bool) {
	n := len(le)
	if n == 0 || cum[n-1] <= 0 {
		return 0, 0, false
	}
	if math.IsInf(le[n-1], 1) && (n == 1 || cum[n-2] < 1e-9*cum[n-1]) {
		return 0, 0, false
	}
	want := q * cum[n-1] * (1 - 1e-12)
	i := 0
	for i < n-1 && cum[i] < want {
		i++
	}
	low = math.Min(0, le[0]) // times, tokens and counts are not below 0
	if i > 0 {
		low = le[i-1]
	}
	return low, le[i], true
}
