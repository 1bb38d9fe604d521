package telemetry

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll/internal/signal"
)

// state is what came of one output on the last page.
type state uint8

const (
	stateOK state = iota
	// stateOff: the value is 0, which means that the server does not count it.
	stateOff
	stateRange
	stateNaN
)

// why says why there is no value.
func (o *output) why() string {
	switch o.state {
	case stateOff:
		return "it is 0, which the server also says when it does not count this"
	case stateRange:
		return fmt.Sprintf("its value %v cannot be true: want %v to %v", o.last, o.way.least, o.way.greatest)
	case stateNaN:
		return "its value is no number"
	}
	panic("BUG: a value that is there is not missing")
}

// name returns which value it is, and between which bounds it can be true. It has no value:
// what is said of one page must be the same for the next.
func (o *output) name() string {
	name := o.key.raw
	if o.id != signal.None {
		name = o.id.String()
	}
	if o.key.labels != "" {
		name += " of " + o.key.labels
	}
	return fmt.Sprintf("%s, which is from %v to %v", name, o.way.least, o.way.greatest)
}

// courseKey is the identity of a course of values, whatever gives it from page to page.
type courseKey struct {
	source int
	id     signal.ID
	raw    string
	labels string
	field  signal.Field
	bound  float64
}

// course is one course of values.
type course struct {
	declared bool
	index    int32
	stamp    int64   // the source's own time of the last sample
	on       bool    // a value other than 0 was seen
	total    float64 // of elements, in JSON pages
}

// operand is one group of series in the making of a value.
type operand struct {
	op      byte // + - * /
	combine combine
	in      []*series
	// constant replaces the values of in, for products of labels.
	constant []float64
}

// output is one value that the page gives.
type output struct {
	source *sourceState
	id     signal.ID
	way    *Way // nil for raw series
	key    courseKey
	course *course
	ops    []operand
	factor float64

	state state
	last  float64
}

// compile works out which series give which signals, from the series of this page.
func (r *Reader) compile() {
	r.replan = false
	for _, st := range r.sources {
		if st.seen && !st.refused && !st.active {
			st.active = true
			st.index = len(r.active)
			if r.opts.Source != nil {
				st.index = r.opts.Source(st.table)
			}
			r.active = append(r.active, st)
		}
	}
	// A source may turn out to be another, when what rules it out comes late.
	r.active = slices.DeleteFunc(r.active, func(st *sourceState) bool {
		st.active = !st.refused
		return st.refused
	})
	names := make([]string, len(r.active))
	for i, st := range r.active {
		names[i] = st.table.Source
	}
	r.info.Sources = names

	r.plannedN, r.seenN = 0, 0
	byName := map[string][]*series{}
	for _, s := range r.all {
		s.planned = s.relevant && s.page == r.page
		if s.planned {
			r.plannedN++
			byName[s.name] = append(byName[s.name], s)
			s.counter = false // of others it stands: one that comes back may have started again
		}
	}
	r.seenN = r.plannedN

	r.plan = r.plan[:0]
	gives := map[string]map[signal.ID]bool{}
	var compiled []compiledSource
	used := map[*series]bool{}
	for _, st := range r.active {
		c := compiler{r: r, st: st, names: byName, used: used}
		c.source()
		if !st.judged {
			st.judged = true
			c.verify()
		}
		compiled = append(compiled, compiledSource{st, c.out})
		set := map[signal.ID]bool{}
		for i := range c.out {
			set[c.out[i].id] = true
		}
		gives[st.table.Source] = set
	}
	for _, c := range compiled {
		for _, o := range c.out {
			if !slices.ContainsFunc(c.st.table.Yields, func(s string) bool { return o.id != signal.None && gives[s][o.id] }) {
				r.plan = append(r.plan, o)
			}
		}
	}
	if r.opts.Raw && len(r.active) > 0 {
		// A page of several sources keeps what none of them maps with the first.
		c := compiler{r: r, st: r.active[0], used: used}
		for _, name := range sortedKeys(byName) {
			for _, s := range byName[name] {
				c.keepRaw(s)
			}
		}
		r.plan = append(r.plan, c.out...)
	}
	for i := range r.plan {
		o := &r.plan[i]
		grows := o.id != signal.None && (o.id.Def().Kind == signal.Counter || o.key.field == signal.TotalCount)
		for _, op := range o.ops {
			for _, s := range op.in {
				s.counter = s.counter || grows && op.op == '+' && op.constant == nil
				if s.counter && s.high < s.value {
					s.high = s.value
				}
			}
		}
		if o.course = r.courses[o.key]; o.course == nil {
			o.course = &course{}
			r.courses[o.key] = o.course
		}
	}
}

type compiledSource struct {
	st  *sourceState
	out []output
}

// compiler works out the outputs of one source.
type compiler struct {
	r     *Reader
	st    *sourceState
	names map[string][]*series
	used  map[*series]bool
	out   []output
}

func (c *compiler) source() {
	t := c.st.table
	if len(t.Alias) > 0 {
		c.names = aliased(t.Alias, c.names)
	}
	if t.Format == "json" != c.r.json {
		return
	}
	for _, w := range t.ways {
		for i := range w.ways {
			if c.way(w.id, &w.ways[i]) {
				break
			}
		}
	}
	c.stated()
	for i := range t.Raw {
		for _, s := range c.pick(&t.Raw[i], "") {
			c.keepRaw(s)
		}
	}
}

// verify says so when nothing on the page shows that it is the server's own.
func (c *compiler) verify() {
	genuine := c.st.table.Genuine
	if len(genuine) == 0 || slices.ContainsFunc(genuine, func(s Selector) bool { return len(c.pick(&s, "")) > 0 }) {
		return
	}
	c.r.problem(0, fmt.Sprintf("unverified: the page has the names of %s and nothing of %s, as a simulator or another server that borrows them", c.st.table.Title, genuine[0].String()))
}

// aliased returns names under which the table knows them.
func aliased(aliases []Alias, names map[string][]*series) map[string][]*series {
	out := make(map[string][]*series, len(names))
	for _, name := range sortedKeys(names) {
		as := name
		for _, a := range aliases {
			if rest, ok := strings.CutPrefix(name, a.From); ok {
				as = a.To + rest
				break
			}
		}
		out[as] = append(out[as], names[name]...)
	}
	return out
}

// stated drops ratios that the server states where it gives the counters of which they are made.
func (c *compiler) stated() {
	has := map[signal.ID]bool{}
	for i := range c.out {
		has[c.out[i].id] = true
	}
	c.out = slices.DeleteFunc(c.out, func(o output) bool {
		d := o.id.Def()
		return d.Kind == signal.Ratio && has[d.Part] && has[d.Whole]
	})
}

// keepRaw keeps a series that no signal is made of under the server's own name.
func (c *compiler) keepRaw(s *series) {
	if c.used[s] || strings.HasSuffix(s.name, "_created") {
		return
	}
	c.used[s] = true
	var b strings.Builder
	for i, l := range s.labels {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(l.Name + "=" + labelText(l.Value))
	}
	c.out = append(c.out, output{
		source: c.st, factor: 1, ops: []operand{{op: '+', in: []*series{s}}},
		key: courseKey{source: c.st.index, raw: s.name, labels: b.String()},
	})
}

// way adds what one way gives of one signal, and returns false when it gives nothing.
func (c *compiler) way(id signal.ID, w *Way) bool {
	for i := range w.Needs {
		if len(c.pick(&w.Needs[i], "")) == 0 {
			return false
		}
	}
	if w.Help != "" && !c.helps(w) {
		return false
	}
	if id.Def().Kind == signal.Distribution {
		before := len(c.out)
		switch {
		case len(w.Total) > 0:
			total, count := *w, *w
			total.Sum, total.Total = w.Total, nil
			count.Sum, count.Total, count.Factor = w.Count, nil, 1
			if c.values(id, &total, signal.TotalSum) && c.values(id, &count, signal.TotalCount) {
				return true
			}
			c.out = c.out[:before]
			return false
		case c.st.table.Format == "json":
			if c.values(id, w, signal.TotalSum) && c.values(id, w, signal.TotalCount) {
				return true
			}
			c.out = c.out[:before]
			return false
		default:
			return c.distribution(id, w)
		}
	}
	return c.values(id, w, signal.Value)
}

// helps says whether the page explains the first family that the way names as the way wants it.
func (c *compiler) helps(w *Way) bool {
	for _, list := range [][]Selector{w.From, w.Sum, w.Total} {
		for i := range list {
			for _, v := range variants(list[i].Name) {
				if line := helpLine(c.r.body, v); strings.Contains(line, w.Help) {
					return true
				}
			}
		}
	}
	return false
}

// helpLine returns the text of a family's HELP line on a page, empty when there is none.
func helpLine(body []byte, name string) string {
	start := "# HELP " + name + " "
	for from := 0; ; {
		i := bytes.Index(body[from:], []byte(start))
		if i < 0 {
			return ""
		}
		i += from
		if i == 0 || body[i-1] == '\n' {
			text, _, _ := bytes.Cut(body[i+len(start):], []byte("\n"))
			return string(text)
		}
		from = i + 1
	}
}

// values adds the values of instances that operands give.
func (c *compiler) values(id signal.ID, w *Way, field signal.Field) bool {
	var base []group
	switch {
	case len(w.Sum) > 0:
		base = c.groups(&w.Sum[0], w)
		if base == nil {
			return false
		}
	default:
		for i := range w.From {
			if base = c.groups(&w.From[i], w); base != nil {
				break
			}
		}
	}
	if base == nil {
		return false
	}
	type made struct {
		labels string
		ops    []operand
	}
	var all []made
	for _, g := range base {
		all = append(all, made{g.labels, []operand{{op: '+', combine: w.combine, in: g.in}}})
	}
	apply := func(op byte, list []Selector, must bool) bool {
		for i := range list {
			gs := c.groups(&list[i], w)
			if gs == nil {
				if must {
					return false
				}
				continue
			}
			kept := all[:0]
			for _, m := range all {
				j := slices.IndexFunc(gs, func(g group) bool { return g.labels == m.labels })
				if j < 0 && len(gs) == 1 && gs[0].labels == "" {
					j = 0 // one figure for all instances
				}
				if j >= 0 {
					m.ops = append(m.ops, operand{op: op, combine: w.combine, in: gs[j].in})
				} else if must {
					continue
				}
				kept = append(kept, m)
			}
			if op == '+' {
				for _, g := range gs { // instances that only this one has
					if !slices.ContainsFunc(kept, func(m made) bool { return m.labels == g.labels }) && g.labels != "" {
						kept = append(kept, made{g.labels, []operand{{op: '+', combine: w.combine, in: g.in}}})
					}
				}
			}
			all = kept
		}
		return len(all) > 0
	}
	if len(w.Sum) > 1 && !apply('+', w.Sum[1:], false) {
		return false
	}
	if !apply('-', w.Less, false) || !apply('*', w.Times, true) || !apply('/', w.Over, true) {
		return false
	}
	factor := cmp.Or(w.Factor, 1)
	added := false
	for _, m := range all {
		if len(w.Labels) > 0 && !productOf(m.ops, w.Labels) {
			continue
		}
		for _, op := range m.ops {
			for _, s := range op.in {
				c.used[s] = true
			}
		}
		c.out = append(c.out, output{
			source: c.st, id: id, way: w, ops: m.ops, factor: factor,
			key: courseKey{source: c.st.index, id: id, labels: m.labels, field: field},
		})
		added = true
	}
	return added
}

// productOf replaces the values of the base by the product of the numbers in their labels.
func productOf(ops []operand, names []string) bool {
	base := &ops[0]
	for _, s := range base.in {
		v := 1.0
		for _, name := range names {
			// A unit may follow, as in "400 Gb/sec (4X NDR)".
			number, _, _ := strings.Cut(s.label(name), " ")
			x, err := strconv.ParseFloat(number, 64)
			if err != nil || !finite(x) {
				return false
			}
			v *= x
		}
		base.constant = append(base.constant, v)
	}
	return true
}

// distribution adds sum, count and buckets of a family.
func (c *compiler) distribution(id signal.ID, w *Way) bool {
	for i := range w.From {
		before := len(c.out)
		sel := &w.From[i]
		sums, counts, buckets := c.pick(sel, "_sum"), c.pick(sel, "_count"), c.pick(sel, "_bucket")
		counted := map[string]bool{}
		for _, part := range []struct {
			field signal.Field
			in    []*series
		}{{signal.TotalSum, sums}, {signal.TotalCount, counts}} {
			for _, g := range c.group(part.in, w) {
				f := 1.0
				if part.field == signal.TotalSum {
					f = cmp.Or(w.Factor, 1)
				} else {
					counted[g.labels] = true
				}
				c.add(id, w, g, part.field, 0, f)
			}
		}
		for _, g := range c.group(buckets, w) {
			c.buckets(id, w, g, counted)
		}
		if len(c.out) > before {
			return true
		}
	}
	return false
}

// buckets adds the buckets of one instance. Several histograms can be added up only if
// their edges are the same.
func (c *compiler) buckets(id signal.ID, w *Way, g group, counted map[string]bool) {
	byBound := map[float64][]*series{}
	owners := map[string]bool{}
	for _, s := range g.in {
		le, err := strconv.ParseFloat(s.label("le"), 64)
		if err != nil || math.IsNaN(le) {
			c.r.problem(0, "a bucket without a number as its bound: "+s.name)
			continue
		}
		byBound[le] = append(byBound[le], s)
		owners[without(s, []string{"le"})] = true
	}
	bounds := slices.Sorted(maps.Keys(byBound))
	for _, le := range bounds {
		if len(byBound[le]) != len(owners) {
			c.r.problem(0, "histograms with different bounds cannot be added up, their buckets are left out: "+g.in[0].name)
			return
		}
	}
	f := cmp.Or(w.Factor, 1)
	for _, le := range bounds {
		c.add(id, w, group{g.labels, byBound[le]}, signal.TotalBucket, le*f, 1)
		if math.IsInf(le, 1) && !counted[g.labels] {
			c.add(id, w, group{g.labels, byBound[le]}, signal.TotalCount, 0, 1)
		}
	}
}

// add adds one total of a distribution.
func (c *compiler) add(id signal.ID, w *Way, g group, field signal.Field, bound, factor float64) {
	for _, s := range g.in {
		c.used[s] = true
	}
	c.out = append(c.out, output{
		source: c.st, id: id, way: w, factor: factor,
		ops: []operand{{op: '+', combine: combineSum, in: g.in}},
		key: courseKey{source: c.st.index, id: id, labels: g.labels, field: field, bound: bound},
	})
}

// group is the series of one instance.
type group struct {
	labels string
	in     []*series
}

// groups returns the series that a selector means by instance, nil when there are none.
func (c *compiler) groups(sel *Selector, w *Way) []group { return c.group(c.pick(sel, ""), w) }

// group sorts series by instance, in the order of the labels.
func (c *compiler) group(in []*series, w *Way) []group {
	if len(in) == 0 {
		return nil
	}
	by := map[string][]*series{}
	for _, s := range in {
		k := c.instance(s, w)
		by[k] = append(by[k], s)
	}
	out := make([]group, 0, len(by))
	for _, k := range sortedKeys(by) {
		out = append(out, group{k, by[k]})
	}
	return out
}

// instance returns the labels that tell an instance apart, as signal.Series.Labels has them.
func (c *compiler) instance(s *series, w *Way) string {
	var parts []string
	for _, keep := range []map[string][]string{c.st.table.Keep, c.r.opts.Keep} {
		for name, labels := range keep {
			if len(w.Keep) > 0 && c.st.table.Keep[name] != nil && !slices.Contains(w.Keep, name) {
				continue
			}
			for _, l := range labels {
				if v := s.label(l); v != "" {
					parts = append(parts, name+"="+labelText(v))
					break
				}
			}
		}
	}
	slices.Sort(parts)
	return strings.Join(slices.Compact(parts), ",")
}

// labelText returns a label's value without the marks that separate labels.
func labelText(v string) string {
	if strings.ContainsAny(v, ",\n\r") {
		return strings.NewReplacer(",", ";", "\n", " ", "\r", " ").Replace(v)
	}
	return v
}

// variants returns the names under which a counter may stand: clients differ in whether they add _total.
func variants(name string) [2]string {
	if short, ok := strings.CutSuffix(name, "_total"); ok {
		return [2]string{name, short}
	}
	return [2]string{name, name + "_total"}
}

// pick returns the series that a selector means, without those that repeat others.
func (c *compiler) pick(sel *Selector, ending string) []*series {
	var out []*series
	if sel.Prefix {
		for _, name := range sortedKeys(c.names) {
			if strings.HasPrefix(name, sel.Name) && strings.HasSuffix(name, ending) && !strings.HasSuffix(name, "_created") {
				out = c.matching(out, sel, name)
			}
		}
	} else {
		for _, v := range variants(sel.Name) {
			if out = c.matching(nil, sel, v+ending); out != nil {
				break
			}
		}
	}
	return c.unrepeated(out)
}

func (c *compiler) matching(out []*series, sel *Selector, name string) []*series {
	for _, s := range c.names[name] {
		if sel.matchesLabels(s.label) {
			out = append(out, s)
		}
	}
	return out
}

// unrepeated drops series that repeat the figures of another.
func (c *compiler) unrepeated(in []*series) []*series {
	repeats := c.st.table.Repeats
	if len(repeats) == 0 || len(in) < 2 {
		return in
	}
	best := map[string]*series{}
	var order []string
	for _, s := range in {
		k := s.name + "\xff" + without(s, repeats)
		old := best[k]
		if old == nil {
			order = append(order, k)
		}
		if old == nil || lower(s, old, repeats) {
			best[k] = s
		}
	}
	out := make([]*series, len(order))
	for i, k := range order {
		out[i] = best[k]
	}
	return out
}

// lower says whether a has the lower values in these labels, as numbers where they are.
func lower(a, b *series, labels []string) bool {
	for _, l := range labels {
		x, y := a.label(l), b.label(l)
		if x == y {
			continue
		}
		i, err1 := strconv.Atoi(x)
		j, err2 := strconv.Atoi(y)
		if err1 == nil && err2 == nil {
			return i < j
		}
		return x < y
	}
	return false
}

// without returns the labels of s that are not in drop, as one string.
func without(s *series, drop []string) string {
	var b strings.Builder
	for _, l := range s.labels {
		if !slices.Contains(drop, l.Name) {
			b.WriteString(l.Name + "\xff" + l.Value + "\xff")
		}
	}
	return b.String()
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// emit works the outputs out and gives what is a value to sink.
func (r *Reader) emit(start, end int64, sink signal.Sink) {
	r.samples = r.samples[:0]
	for i := range r.plan {
		o := &r.plan[i]
		v, stamp := o.work()
		o.judge(v)
		if o.id == signal.EngineStart && o.state == stateOK {
			r.started(o.last)
		}
		r.out(o, stamp, start, end, sink)
	}
	if sink != nil && len(r.samples) > 0 {
		sink.Add(r.samples)
	}
}

// started notes when the server says it started.
func (r *Reader) started(s float64) {
	if r.startAt != 0 && s != r.startAt {
		r.info.Restarts = 1
	}
	r.startAt = s
	r.info.Start = nanos(s)
}

// mostSkew is how far a source's own time may be from ours to be taken for a time at all: some
// exporters write seconds where milliseconds are meant. Clocks that are wrong by hours exist.
const mostSkew = int64(24 * time.Hour)

// out makes a sample of an output that has a value.
func (r *Reader) out(o *output, stamp, start, end int64, sink signal.Sink) {
	switch o.state {
	case stateOK:
	case stateRange:
		if r.info.OutOfRange++; r.info.OutOfRange == 1 {
			r.info.FirstOutOfRange = o.name()
		}
		return
	default:
		return
	}
	if at := stamp - r.opts.WallZero; stamp != 0 && r.opts.WallZero != 0 && at > start-mostSkew && at < end+mostSkew {
		if stamp <= o.course.stamp {
			// The source has nothing newer. A sink takes samples in the order of their times only.
			if stamp < o.course.stamp && r.info.Backwards == 0 {
				r.problem(0, "values with a time before that of the value before are left out")
			}
			if stamp < o.course.stamp {
				r.info.Backwards++
			}
			return
		}
		o.course.stamp = stamp
		start, end = at, at
	}
	r.info.Samples++
	if sink == nil {
		return
	}
	if !o.course.declared {
		if r.opts.Room != nil && !r.opts.Room() {
			r.info.Samples--
			r.info.NoRoom++
			return
		}
		o.course.declared = true
		o.course.index = sink.Declare(signal.Series{
			Source: o.key.source, Signal: o.id, Raw: o.key.raw, Labels: o.key.labels, Field: o.key.field, Bound: o.key.bound,
		})
	}
	r.samples = append(r.samples, signal.Sample{Series: o.course.index, Start: start, End: end, Value: o.last})
}

// work returns the value of an output in the signal's unit, NaN when an input is, and the newest of the inputs' own times.
func (o *output) work() (v float64, stamp int64) {
	for i := range o.ops {
		op := &o.ops[i]
		x := op.value()
		if op.constant == nil {
			for _, s := range op.in {
				stamp = max(stamp, s.stamp)
			}
		}
		switch {
		case i == 0:
			v = x
		case op.op == '+':
			v += x
		case op.op == '-':
			v -= x
		case op.op == '*':
			v *= x
		default:
			v /= x
		}
	}
	if w := o.way; w != nil {
		if w.Invert {
			v = 1 - v
		}
		if o.factor != 1 {
			v *= o.factor
		}
		if w.mask != 0 && finite(v) {
			v = bits(v, w.mask)
		}
	}
	return v, stamp
}

func bits(v float64, mask uint64) float64 {
	if v >= 0 && v < 1<<63 && uint64(v)&mask != 0 {
		return 1
	}
	return 0
}

// value combines the series of an operand. A missing part makes a sum unknown; a mean or maximum is of those that are there.
func (op *operand) value() float64 {
	if len(op.in) == 1 && op.constant == nil && op.combine != combineCount {
		return op.in[0].value
	}
	sum, n := 0.0, 0
	least, most := math.Inf(1), math.Inf(-1)
	for i, s := range op.in {
		x := s.value
		if op.constant != nil {
			x = op.constant[i]
		}
		if math.IsNaN(x) {
			if op.combine == combineSum {
				return math.NaN()
			}
			continue
		}
		n++
		sum += x
		least, most = min(least, x), max(most, x)
	}
	switch {
	case n == 0:
		return math.NaN()
	case op.combine == combineMean:
		return sum / float64(n)
	case op.combine == combineMax:
		return most
	case op.combine == combineMin:
		return least
	case op.combine == combineCount:
		return float64(n)
	}
	return sum
}

// judge decides whether v is a value.
func (o *output) judge(v float64) {
	o.last = v
	w := o.way
	switch {
	case !finite(v):
		o.state = stateNaN
	case w == nil || o.key.field != signal.Value && v >= 0:
		o.state = stateOK
	case v < w.least || v > w.greatest:
		o.state = stateRange
	case w.ZeroIsOff && v == 0 && !o.course.on:
		o.state = stateOff
	default:
		o.course.on = o.course.on || v != 0
		o.state = stateOK
	}
}

// nameIndex says which names of series a table may read.
type nameIndex struct {
	exact    map[string]bool
	prefixes []string
}

func newNameIndex(t *Table) nameIndex {
	x := nameIndex{exact: map[string]bool{}}
	for _, f := range t.Families() {
		if f.Prefix {
			x.prefixes = append(x.prefixes, f.Name)
		} else {
			x.exact[f.Name] = true
		}
	}
	return x
}

func (x *nameIndex) relevant(name string) bool {
	return x.exact[name] || slices.ContainsFunc(x.prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}
