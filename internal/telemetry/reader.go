package telemetry

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"plimsoll/internal/signal"
	"plimsoll/internal/strictyaml"
)

// Options change how pages of one endpoint are read.
type Options struct {
	// Tables are the sources that may be recognised; Builtin when empty. Of two with
	// one source name the later one counts.
	Tables []*Table
	// Source returns the index that samples of a source bear (signal.Series.Source); called once for each source, when it is first seen on
	// the endpoint's pages. By default 0, 1, ... in the order in which they are seen.
	Source func(t *Table) int
	// Keep are labels kept beside those of the tables, as canonical name to names on the page: instance and the like
	// of a source that holds many endpoints.
	Keep map[string][]string
	// WallZero is the unix time in ns at which the run's clock was 0, by which a page's
	// own timestamps become times of the run (on the source's wall clock); with 0 they are left unused.
	WallZero int64
	// MaxSeries bounds the series of one page; DefaultMaxSeries when 0. What is beyond is left out and is a Problem.
	MaxSeries int
	// Room says whether one more course of values may be declared, and counts it; nil means always. What has no room
	// is left out and is a Problem: labels that change with every reading must not fill memory and disk.
	Room func() bool
	// Raw says that series of which no signal is made are kept under their own names as well, once a source is known.
	Raw bool
}

// Problem is something on a page that could not be used; the rest of the page was.
type Problem struct {
	// Line counts from 1; 0 when no line is meant.
	Line int
	// Text says what is wrong, with the beginning of the line.
	Text string
}

// PageInfo says what one page held.
type PageInfo struct {
	// Sources are the source names seen on the endpoint so far, in the order of detection.
	Sources []string
	// Series is the number of series on the page.
	Series int
	// Samples is the number of samples that the page gave.
	Samples int
	// New is the number of series first seen on this page.
	New int
	// NaN, Duplicate and Malformed count values that are no number, series given twice (the first counts), and lines
	// that are none.
	NaN, Duplicate, Malformed int
	// OutOfRange counts values that cannot be true, by the ranges of the tables.
	OutOfRange int
	// FirstNaN is the first series whose value was no number, as the page writes it;
	// FirstOutOfRange the first signal, with its instance and range, whose value could
	// not be true. Empty when there was none.
	FirstNaN, FirstOutOfRange string
	// NoRoom counts values of courses for which there was no room.
	NoRoom int
	// Backwards counts values whose own time lies before that of the value before.
	Backwards int
	// Problems are the first few of what could not be used.
	Problems []Problem
	// Restarts is 1 when a counter that gives a signal went down, or the server's start time changed, since the page before.
	Restarts int
	// Timestamps is the number of series with a time of their own, and Newest the newest
	// of those in unix ns.
	Timestamps int
	Newest     int64
	// Start is the unix time in ns at which the server's process says it started, 0 when it does not say.
	Start int64
}

// maxProblems bounds what is said of one page.
const maxProblems = 10

// ErrNotAPage is the error of a body that is no page of telemetry at all, as HTML.
var ErrNotAPage = errors.New("no telemetry page")

// series is one series of the endpoint's pages.
type series struct {
	name   string
	labels []Label // in the order of the names, none empty
	value  float64 // on the page it was last on
	high   float64 // the last value that was one, of a counter
	stamp  int64   // unix ns, 0 for none
	page   uint64  // the page it was last on
	// relevant: some table may read it; planned: the plan took it into account; counter: it
	// feeds a signal that only grows.
	relevant, planned, counter bool
}

// label returns the value of a label, empty when there is none.
func (s *series) label(name string) string {
	for i := range s.labels {
		if s.labels[i].Name == name {
			return s.labels[i].Value
		}
	}
	return ""
}

// ref is a series as one page writes it.
type ref struct {
	text string
	s    *series
}

// sourceState is one table with what was seen of it.
type sourceState struct {
	table *Table
	// want and not are the selectors of Detect and Not; seen says that one of them matched.
	seen, refused bool
	active        bool
	judged        bool // whether the page is the server's own
	index         int
}

// nameInfo is what a name alone decides.
type nameInfo struct {
	relevant bool
	detect   []detection
}

// detection is a selector whose name is right; the labels remain to be looked at.
type detection struct {
	state *sourceState
	sel   *Selector
	not   bool
}

// Reader reads the pages of one endpoint, one after another. It remembers the series that it has
// seen, so that a further page costs little. Not for use by several goroutines at once.
type Reader struct {
	opts    Options
	sources []*sourceState
	active  []*sourceState
	names   map[string]*nameInfo

	byText map[string]ref
	byKey  map[string]*series
	order  []ref // of the page before
	at     int
	all    []*series
	page   uint64

	tolerant bool // the strict parser failed on this endpoint
	replan   bool
	plannedN int // series in the plan
	seenN    int // of those, seen on this page
	plan     []output
	courses  map[courseKey]*course
	samples  []signal.Sample
	info     PageInfo
	startAt  float64
	key      []byte
	json     bool
	body     []byte // of the page being read
}

// NewReader returns a reader that has seen nothing.
func NewReader(o Options) *Reader {
	if o.MaxSeries == 0 {
		o.MaxSeries = DefaultMaxSeries
	}
	tables := o.Tables
	if len(tables) == 0 {
		tables = builtin()
	}
	r := &Reader{
		opts: o, names: map[string]*nameInfo{}, byText: map[string]ref{}, byKey: map[string]*series{},
		courses: map[courseKey]*course{},
	}
	for i, t := range tables {
		if !slices.ContainsFunc(tables[i+1:], func(x *Table) bool { return x.Source == t.Source }) {
			r.sources = append(r.sources, &sourceState{table: t})
		}
	}
	return r
}

// Read reads one page that was fetched between start and end (ns of the run's clock), declares what is new
// and adds its samples to sink, which may be nil. The body is not kept. An error means that nothing was usable.
func (r *Reader) Read(body []byte, contentType string, start, end int64, sink signal.Sink) (PageInfo, error) {
	if what := looksLike(body); what != "" {
		return PageInfo{}, fmt.Errorf("%w: the body is %s (%s)", ErrNotAPage, what, excerpt(body))
	}
	if elements, ok := decodeJSON(body); ok {
		return r.readJSON(elements, start, end, sink)
	}
	r.form(false)
	r.body = body
	defer func() { r.body = nil }()
	openMetrics := strings.HasPrefix(contentType, "application/openmetrics-text")
	r.begin()
	if !r.tolerant {
		if err := parsePage(body, openMetrics, r); err != nil {
			// Once and for all: a server that writes one such page writes them all so. What was new and what went
			// down was noted already and is not found again.
			r.tolerant = true
			fresh, restarts := r.info.New, r.info.Restarts
			r.begin()
			r.info.New, r.info.Restarts = fresh, restarts
		}
	}
	if r.tolerant {
		scanPage(body, openMetrics, r)
	}
	if r.info.Series == 0 && r.info.Malformed > 0 {
		info := r.info
		return info, fmt.Errorf("%w: none of its %d lines is a sample (%s)", ErrNotAPage, info.Malformed, excerpt(body))
	}
	r.finish(start, end, sink)
	return r.info, nil
}

// excerpt returns the beginning of a body for an error.
func excerpt(body []byte) string {
	body = bytes.TrimSpace(body)
	first, _, _ := bytes.Cut(body[:min(len(body), 200)], []byte("\n"))
	return strictyaml.Quote(strings.ToValidUTF8(string(first), "\ufffd"))
}

// Label is a name with its value.
type Label struct{ Name, Value string }

// Point is one value of one series of a source that gives no pages, as Prometheus' answer to a query.
type Point struct {
	// Name is the series' name as a page would give it.
	Name string
	// Labels are its labels in any order, le among them for buckets.
	Labels []Label
	// Value is its value.
	Value float64
}

// ReadPoints is Read for values that do not come as a page: points are all values that held between
// start and end. The strings are kept.
func (r *Reader) ReadPoints(points []Point, start, end int64, sink signal.Sink) (PageInfo, error) {
	r.form(false)
	r.begin()
	for i := range points {
		p := &points[i]
		if r.info.Series >= r.opts.MaxSeries {
			r.full()
			break
		}
		r.key = append(r.key[:0], p.Name...)
		for _, l := range p.Labels {
			r.key = append(append(append(append(r.key, 0xff), l.Name...), 0xff), l.Value...)
		}
		f := r.known(r.key)
		if f.s == nil {
			if p.Name == "" {
				r.malformed(0, nil, "a series without a name")
				continue
			}
			f = r.meet(string(r.key), p.Name, slices.DeleteFunc(slices.Clone(p.Labels), func(l Label) bool { return l.Value == "" }))
		}
		r.value(f, p.Value, 0, 0)
	}
	r.finish(start, end, sink)
	return r.info, nil
}

// form notes whether the page is JSON, for which other tables hold.
func (r *Reader) form(json bool) {
	r.replan = r.replan || r.json != json
	r.json = json
}

// begin starts a page.
func (r *Reader) begin() {
	r.page++
	r.at, r.seenN = 0, 0
	r.info = PageInfo{Sources: r.info.Sources}
}

// take takes one sample of a text page.
func (r *Reader) take(l *line) bool {
	if r.info.Series >= r.opts.MaxSeries {
		r.full()
		return false
	}
	f := r.known(l.series)
	if f.s == nil {
		text := string(l.series)
		name, lset, ok := parseSeries(text)
		if !ok {
			r.malformed(l.number, l.series, "labels that cannot be read")
			return true
		}
		f = r.meet(text, name, lset)
	}
	r.value(f, l.value, l.stamp, l.number)
	return true
}

func (r *Reader) full() {
	r.problem(0, fmt.Sprintf("more than %d series: the rest of the page was left out", r.opts.MaxSeries))
}

func (r *Reader) malformed(number int, text []byte, why string) {
	r.info.Malformed++
	if len(r.info.Problems) < maxProblems {
		r.problem(number, why+": "+excerpt(text))
	}
}

func (r *Reader) problem(number int, text string) {
	p := Problem{Line: number, Text: text}
	if len(r.info.Problems) < maxProblems && !slices.Contains(r.info.Problems, p) {
		r.info.Problems = append(r.info.Problems, p)
	}
}

// again returns the line in which a series stands on a page for the second time, 0 when it does not. The
// strict parser counts no lines; this is for the few that need one.
func again(body []byte, series string) int {
	seen := false
	for number := 1; len(body) > 0; number++ {
		text, rest, _ := bytes.Cut(body, []byte("\n"))
		if after, ok := bytes.CutPrefix(bytes.TrimLeft(text, " \t"), []byte(series)); ok && (len(after) == 0 || after[0] == ' ' || after[0] == '\t') {
			if seen {
				return number
			}
			seen = true
		}
		body = rest
	}
	return 0
}

// known finds a series by its text: mostly it is the one that followed on the page before too.
func (r *Reader) known(text []byte) ref {
	if r.at < len(r.order) && r.order[r.at].text == string(text) {
		return r.order[r.at]
	}
	return r.byText[string(text)]
}

// meet makes a series known that was not.
func (r *Reader) meet(text, name string, lset []Label) ref {
	slices.SortFunc(lset, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
	r.key = append(r.key[:0], name...)
	for _, l := range lset {
		r.key = append(append(append(append(r.key, 0xff), l.Name...), 0xff), l.Value...)
	}
	s := r.byKey[string(r.key)]
	if s == nil {
		info := r.name(name)
		s = &series{name: name, labels: lset, high: math.Inf(-1), relevant: info.relevant || r.opts.Raw}
		r.byKey[string(r.key)] = s
		r.all = append(r.all, s)
		r.info.New++
		for _, d := range info.detect {
			r.detect(d, s)
		}
	}
	f := ref{text, s}
	r.byText[text] = f
	return f
}

// name returns what the name of a series decides.
func (r *Reader) name(name string) *nameInfo {
	info := r.names[name]
	if info == nil {
		info = &nameInfo{}
		for _, st := range r.sources {
			info.relevant = info.relevant || st.table.index.relevant(name)
			for i := range st.table.Detect {
				if sel := &st.table.Detect[i]; sel.matchesName(name) {
					info.detect = append(info.detect, detection{st, sel, false})
				}
			}
			for i := range st.table.Not {
				if sel := &st.table.Not[i]; sel.matchesName(name) {
					info.detect = append(info.detect, detection{st, sel, true})
				}
			}
		}
		r.names[name] = info
	}
	return info
}

// detect looks whether a new series says whose the page is.
func (r *Reader) detect(d detection, s *series) {
	if (d.state.table.Format == "json") != r.json || d.not && d.state.refused || !d.not && d.state.seen || !d.sel.matchesLabels(s.label) {
		return
	}
	if d.not {
		d.state.refused = true
	} else {
		d.state.seen = true
	}
	r.replan = true
}

// value notes the value of a series that stands in a line of this page, 0 when it has no lines.
func (r *Reader) value(f ref, v float64, stamp int64, line int) {
	s := f.s
	if s.page == r.page {
		r.info.Duplicate++
		if r.info.Duplicate <= maxProblems {
			if line == 0 {
				line = again(r.body, f.text)
			}
			r.problem(line, "given twice, the first counts: "+excerpt([]byte(f.text)))
		}
		return
	}
	if r.at < len(r.order) {
		r.order[r.at] = f
	} else {
		r.order = append(r.order, f)
	}
	r.at++
	s.page = r.page
	r.info.Series++
	if s.planned {
		r.seenN++
	} else if s.relevant {
		r.replan = true
	}
	s.stamp = stamp
	if stamp != 0 {
		r.info.Timestamps++
		r.info.Newest = max(r.info.Newest, stamp)
	}
	s.value = v
	switch {
	case !finite(v):
		s.value = math.NaN()
		if r.info.NaN++; r.info.NaN == 1 {
			r.info.FirstNaN = f.text
		}
	case s.counter:
		if v < s.high {
			r.info.Restarts = 1
		}
		s.high = v
	}
}

// finish makes samples of what the page said.
func (r *Reader) finish(start, end int64, sink signal.Sink) {
	r.order = r.order[:min(r.at, len(r.order))]
	if r.replan || r.seenN != r.plannedN {
		r.compile()
	}
	r.emit(start, end, sink)
	r.forget()
}

// forget drops series that are gone once they are more than those that are there: names that
// change with every page must not fill the memory.
func (r *Reader) forget() {
	if len(r.all) < 2*r.info.Series+1000 {
		return
	}
	r.all = slices.DeleteFunc(r.all, func(s *series) bool { return s.page != r.page })
	for text, f := range r.byText {
		if f.s.page != r.page {
			delete(r.byText, text)
		}
	}
	for key, s := range r.byKey {
		if s.page != r.page {
			delete(r.byKey, key)
		}
	}
	if len(r.names) > 2*r.info.Series+1000 {
		clear(r.names)
	}
	used := make(map[*course]bool, len(r.plan))
	for i := range r.plan {
		used[r.plan[i].course] = true
	}
	for key, c := range r.courses {
		if !c.declared && !used[c] {
			delete(r.courses, key)
		}
	}
}

// Missing returns the signals that the tables of the sources seen so far know and the last page did not
// give, in the order of the sources and the catalogue.
func (r *Reader) Missing() []Missing {
	type key struct {
		st *sourceState
		id signal.ID
	}
	worst := map[key]*output{}
	has := map[signal.ID]bool{}
	for i := range r.plan {
		o := &r.plan[i]
		worst[key{o.source, o.id}] = o
		has[o.id] = has[o.id] || o.state == stateOK
	}
	known := func(id signal.ID) bool {
		d := id.Def()
		return has[id] || d.Kind == signal.Ratio && has[d.Part] && has[d.Whole]
	}
	var out []Missing
	for _, st := range r.active {
		for _, w := range st.table.ways {
			if known(w.id) {
				continue
			}
			m := Missing{Source: st.table.Source, Signal: w.id.String()}
			if o := worst[key{st, w.id}]; o != nil {
				m.Why = o.why()
			} else {
				m.Why = r.lacks(st.table, w.ways)
			}
			for i := range w.ways {
				if m.Enable = w.ways[i].Enable; m.Enable != "" {
					break
				}
			}
			out = append(out, m)
		}
		for _, name := range sortedKeys(st.table.Absent) {
			if id, _ := signal.Lookup(name); !known(id) && st.table.Signals[name] == nil {
				out = append(out, Missing{Source: st.table.Source, Signal: name, Why: st.table.Absent[name]})
			}
		}
	}
	return out
}

// lacks says which series the page would need for a signal.
func (r *Reader) lacks(t *Table, ways []Way) string {
	var names []string
	since := ""
	for i := range ways {
		w := &ways[i]
		if since == "" {
			since = w.Since
		}
		for _, list := range [][]Selector{w.Needs, w.From, w.Sum, w.Total, w.Count, w.Times, w.Over} {
			for j := range list {
				if text := list[j].String(); !slices.Contains(names, text) && !r.has(t, &list[j]) {
					names = append(names, text)
				}
			}
		}
	}
	if len(names) == 0 {
		return "the series of it that the page has do not go together"
	}
	const shown = 3
	why := "the page has no " + strings.Join(names[:min(len(names), shown)], ", no ")
	if since != "" {
		why += " (there since " + since + ")"
	}
	return why
}

// has says whether the last page had a series of this selector, or one of its totals.
func (r *Reader) has(t *Table, sel *Selector) bool {
	return slices.ContainsFunc(r.all, func(s *series) bool {
		if !s.planned || !sel.matchesLabels(s.label) {
			return false
		}
		name := s.name
		for _, a := range t.Alias {
			if rest, ok := strings.CutPrefix(name, a.From); ok {
				name = a.To + rest
				break
			}
		}
		if sel.Prefix {
			return strings.HasPrefix(name, sel.Name)
		}
		for _, v := range variants(sel.Name) {
			if rest, ok := strings.CutPrefix(name, v); ok && (rest == "" || rest == "_sum" || rest == "_count" || rest == "_bucket") {
				return true
			}
		}
		return false
	})
}

// Tables returns the tables of the sources seen so far, in the order of detection.
func (r *Reader) Tables() []*Table {
	out := make([]*Table, len(r.active))
	for i, st := range r.active {
		out[i] = st.table
	}
	return out
}
