package telemetry

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"plimsoll/internal/signal"
	"plimsoll/internal/strictyaml"
)

// Table says how the page of one kind of server is recognised and read: one
// source as data. The built-in ones are the files tables/*.yaml, in the
// language that docs/telemetry.md describes; users add their own.
//
//	source: vllm                    # the name in run.json, reports and options
//	title: vLLM                     # the name for people
//	detect:                         # any of these makes a page this source's ...
//	  - vllm:*{engine!=""}          # (a family, or a beginning with *, and labels)
//	not: [vllm:healthy_pods_total]  # ... unless one of these is there
//	keep:                           # labels that tell instances apart, by canonical name
//	  engine: engine
//	  host: [Hostname, hostname]    # the first of them that a series has
//	repeats: [tp_rank]              # labels of which each value repeats the same figures: the lowest is taken
//	signals:
//	  requests_running: vllm:num_requests_running
//	  kv_cache_usage: vllm:kv_cache_usage_perc, vllm:gpu_cache_usage_perc # the first that is there
//	  requests_finished:
//	    from: vllm:request_success_total{finished_reason=~"stop|length"}
//	  kv_capacity: {from: vllm:cache_config_info, labels: [block_size, num_gpu_blocks]}
//	  queue_time: vllm:request_queue_time_seconds
type Table struct {
	// Source is the name of the source: lower case, digits and dashes.
	Source string `yaml:"source"`
	// Title is the name for people.
	Title string `yaml:"title"`
	// Like is the built-in source whose table this one extends: format, keep, repeats, alias, refresh,
	// raw, signals and absent that this one lacks are taken from there.
	Like string `yaml:"like"`
	// Page says where the source usually serves its page, as ":8000/metrics".
	Page []string `yaml:"page"`
	// Enable says how to make the server publish the page, when it does not by itself.
	Enable string `yaml:"enable"`
	// Format is prometheus (text, the default unless Like has another) or json.
	Format string `yaml:"format"`
	// Detect are the selectors of which any makes a page this source's. Detection sees
	// the names as they stand on the page, before Alias.
	Detect []Selector `yaml:"detect"`
	// Not are the selectors of which none may match.
	Not []Selector `yaml:"not"`
	// Genuine are selectors of which the server itself always has some. A page without any of them comes from something that uses
	// its names: a simulator, a proxy, an excerpt. It is read all the same, and said to be unverified.
	Genuine []Selector `yaml:"genuine"`
	// Alias gives families other names before the signals are looked up.
	Alias []Alias `yaml:"alias"`
	// Keep are the labels that tell instances of one signal apart: the canonical
	// name with the names that pages use, of which the first is taken that a
	// series has with a value. Series that differ only in other labels are combined.
	Keep map[string][]string `yaml:"keep"`
	// Repeats are labels of which each value repeats the same figures, as ranks that
	// all report the work they share: of series that differ only in these, the one with the lowest value is taken.
	Repeats []string `yaml:"repeats"`
	// Yields names the sources to which this one leaves a signal that both of them give on one page.
	Yields []string `yaml:"yields"`
	// Refresh says when values change on the page: "step" (with the engine's steps), "scrape" (at each
	// reading), "finish" (when requests end) or a duration, the default period of an exporter that caches.
	Refresh string `yaml:"refresh"`
	// Timestamps says that the page gives each sample its own time.
	Timestamps bool `yaml:"timestamps"`
	// Drains says that reading the page removes what was read: only one reader may
	// exist, and a failed reading must not be repeated.
	Drains bool `yaml:"drains"`
	// Signals are the canonical signals that the page can give, each with the ways
	// to get it by preference: the first is used of which the page has the series.
	Signals map[string][]Way `yaml:"signals"`
	// Absent says of canonical signals that users may expect why the source cannot give them.
	Absent map[string]string `yaml:"absent"`
	// Raw are selectors of series that are kept under the server's own names.
	Raw []Selector `yaml:"raw"`
	// Note is what else a reader of the figures should know.
	Note string `yaml:"note"`

	ways  []compiledWays       // in the order of signal.ID
	index nameIndex            // of Families
	doc   *strictyaml.Document // where things were written, until finish
}

// compiledWays are the ways of one signal.
type compiledWays struct {
	id   signal.ID
	ways []Way
}

// Alias lets families that begin with From be read as if they began with To.
type Alias struct {
	From string `yaml:"from"`
	To   string `yaml:"to"`
}

// Way is one way to get a signal out of a page; a single value instead of a group is its From. Exactly one of From, Sum and Total
// gives the base; Less, Times and Over change it, instance by instance; then Labels, Invert, Factor, Mask and
// Range apply in this order.
//
// A selector of a gauge, counter or constant names series as they stand on the page
// (so "x_sum" of a histogram x is one), and is found with and without the ending _total. A
// selector of a distribution names the family, whose _sum, _count and _bucket are read. The kind is
// that of the signal; the TYPE that a page states is ignored.
type Way struct {
	// From are selectors by preference: the first that matches any series is taken, and only that.
	From []Selector `yaml:"from,short"`
	// Sum are selectors whose values add up; those without series are left out, the first must have some.
	Sum []Selector `yaml:"sum"`
	// Total and Count are counters that make a distribution without buckets: the
	// running sum of what was measured, and of how many. Selectors of each add up as those of Sum.
	Total []Selector `yaml:"total"`
	Count []Selector `yaml:"count"`
	// Less are subtracted, where they exist.
	Less []Selector `yaml:"less"`
	// Times are multiplied with; each must exist, or the way gives nothing.
	Times []Selector `yaml:"times"`
	// Over are divided by; each must exist and not be 0, or the way gives nothing.
	Over []Selector `yaml:"over"`
	// Labels replaces the value by the product of the numbers in these labels, as for an info family; a
	// unit after a space is left out.
	Labels []string `yaml:"labels"`
	// Invert turns v into 1-v.
	Invert bool `yaml:"invert"`
	// Factor turns the page's unit into the signal's; 1 when it is 0.
	Factor float64 `yaml:"factor"`
	// Mask turns a bit set into 1 when any of these bits is set and else 0, as 0xec.
	Mask string `yaml:"mask"`
	// Needs are selectors of which each must match something on the page, or the way gives nothing.
	Needs []Selector `yaml:"needs"`
	// Help is text that the page's HELP of the first family must hold, or the way gives nothing: for
	// servers that changed the unit and not the name.
	Help string `yaml:"help"`
	// Range is the least and the greatest value that can be true, in the signal's
	// unit: others are missing. By default [0, 1.05] for ratios (unit 1), [0, 1e15] for others, and anything for temperatures.
	Range []float64 `yaml:"range"`
	// ZeroIsOff says that 0 means that the server does not count this: the signal is missing until the value is another.
	ZeroIsOff bool `yaml:"zero-is-off"`
	// Combine says how series that differ only in dropped labels become one: sum,
	// mean, max, min, or count (how many series there are); by default as the signal combines.
	Combine string `yaml:"combine"`
	// Keep are those of the table's kept labels that tell instances of this signal apart; all by default.
	Keep []string `yaml:"keep"`
	// Last says of JSON pages with one element per step that the last element gives the value, also of a counter (because
	// it is a running total already). Without it, elements of counters and distributions add up.
	Last bool `yaml:"last"`
	// Enable says how to make the server publish it.
	Enable string `yaml:"enable"`
	// Since says from which version of the server on it is there.
	Since string `yaml:"since"`
	// Refresh is as in Table, where this signal differs.
	Refresh string `yaml:"refresh"`
	// Note is what else a reader of the figure should know.
	Note string `yaml:"note"`

	mask     uint64
	combine  combine
	least    float64
	greatest float64
}

// combine is how series become one.
type combine uint8

const (
	combineSum combine = iota
	combineMean
	combineMax
	combineMin
	combineCount
)

//go:embed tables/*.yaml
var tableFiles embed.FS

var builtin = sync.OnceValue(func() []*Table {
	t, err := readBuiltin(tableFiles)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return t
})

// Builtin returns the built-in tables in the order of their source names. The
// slice is the caller's, the tables are shared and must not be changed.
func Builtin() []*Table { return slices.Clone(builtin()) }

// Lookup returns the built-in table of a source, and nil when there is none.
func Lookup(source string) *Table {
	for _, t := range builtin() {
		if t.Source == source {
			return t
		}
	}
	return nil
}

func readBuiltin(files fs.FS) ([]*Table, error) {
	names, err := fs.Glob(files, "tables/*.yaml")
	if err != nil {
		return nil, err
	}
	raw := map[string]*Table{}
	for _, name := range names {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		t, err := parseTable(name, data)
		if err != nil {
			return nil, err
		}
		if t.Source+".yaml" != path.Base(name) {
			return nil, fmt.Errorf("read table %s: source: want the name of the file, got %q", name, t.Source)
		}
		raw[t.Source] = t
	}
	out := make([]*Table, 0, len(raw))
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		t := raw[name]
		if err := t.finish(func(s string) *Table { return raw[s] }); err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// LoadTable reads a user's own table. Name is the file's name for errors, which hold everything that is wrong, with
// line and column. A table with the source name of a built-in one replaces it where both are given to NewReader.
func LoadTable(name string, data []byte) (*Table, error) {
	t, err := parseTable(name, data)
	if err != nil {
		return nil, err
	}
	if err := t.finish(Lookup); err != nil {
		return nil, err
	}
	return t, nil
}

// parseTable reads the fields of one table.
func parseTable(name string, data []byte) (*Table, error) {
	d, err := strictyaml.Parse(name, data)
	if err != nil {
		return nil, fmt.Errorf("read table: %w", err)
	}
	t := &Table{}
	if err := d.Decode(t, strictyaml.Options{}); err != nil {
		return nil, fmt.Errorf("read table: %w", err)
	}
	t.doc = d
	return t, nil
}

// checker collects what is wrong in a table.
type checker struct {
	doc  *strictyaml.Document
	errs strictyaml.Errors
}

func (c *checker) fail(path, problem, value, nearest string) {
	at, _ := c.doc.At(path)
	c.errs = append(c.errs, &strictyaml.Error{Position: at, Path: path, Problem: problem, Value: value, Nearest: nearest})
}

// finish checks the table, takes over what it extends and prepares it for use.
func (t *Table) finish(lookup func(source string) *Table) error {
	c := checker{doc: t.doc}
	if !sourceName(t.Source) {
		c.fail("source", "want a name of lower-case letters, digits and dashes", strictyaml.Quote(t.Source), "")
	}
	if t.Title == "" {
		t.Title = t.Source
	}
	if len(t.Detect) == 0 {
		c.fail("detect", "want at least one selector by which a page is recognised", "", "")
	}
	if t.Like != "" {
		base := lookup(t.Like)
		if base == nil || base == t {
			c.fail("like", "want the source of another built-in table", strictyaml.Quote(t.Like), "")
		} else if base.Like != "" {
			c.fail("like", "want a table that extends none itself", strictyaml.Quote(t.Like), "")
		} else {
			t.extend(base)
		}
	}
	if t.Format == "" {
		t.Format = "prometheus"
	}
	if t.Format != "prometheus" && t.Format != "json" {
		c.fail("format", "want prometheus or json", strictyaml.Quote(t.Format), strictyaml.Nearest(t.Format, []string{"prometheus", "json"}))
	}
	for _, name := range slices.Sorted(maps.Keys(t.Keep)) {
		at := strictyaml.Join("keep", name)
		if len(t.Keep[name]) == 0 {
			c.fail(at, "want the label's names on the page", "", "")
		}
		if strings.ContainsAny(name, "=,\n") || name == "" {
			c.fail(at, "want a label name without = and commas", "", "")
		}
	}
	checkRefresh(&c, "refresh", t.Refresh)
	for _, name := range slices.Sorted(maps.Keys(t.Absent)) {
		if _, ok := signal.Lookup(name); !ok {
			c.fail(strictyaml.Join("absent", name), "want the name of a canonical signal", strictyaml.Quote(name), nearestSignal(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Signals)) {
		path := strictyaml.Join("signals", name)
		id, ok := signal.Lookup(name)
		if !ok {
			c.fail(path, "want the name of a canonical signal", strictyaml.Quote(name), nearestSignal(name))
			continue
		}
		ways := t.Signals[name]
		if len(ways) == 0 {
			c.fail(path, "want at least one way to get it", "", "")
		}
		for i := range ways {
			p := fmt.Sprintf("%s[%d]", path, i)
			if !t.doc.Has(p) {
				p = path
			}
			ways[i].check(&c, p, id.Def(), t)
		}
		t.ways = append(t.ways, compiledWays{id: id, ways: ways})
	}
	slices.SortFunc(t.ways, func(a, b compiledWays) int { return int(a.id) - int(b.id) })
	t.doc = nil
	if len(c.errs) > 0 {
		c.errs.Sort()
		return fmt.Errorf("read table: %w", c.errs)
	}
	t.index = newNameIndex(t)
	return nil
}

// extend takes over what base says and t does not.
func (t *Table) extend(base *Table) {
	if t.Keep == nil {
		t.Keep = base.Keep
	}
	if t.Repeats == nil {
		t.Repeats = base.Repeats
	}
	if t.Alias == nil {
		t.Alias = base.Alias
	}
	if t.Refresh == "" {
		t.Refresh = base.Refresh
	}
	if t.Format == "" {
		t.Format = base.Format
	}
	if t.Raw == nil {
		t.Raw = base.Raw
	}
	t.Signals = over(base.Signals, t.Signals)
	t.Absent = over(base.Absent, t.Absent)
}

// Gateway says whether the table is that of a gateway: of something that stands before engines and says so.
func (t *Table) Gateway() bool {
	for name := range t.Signals {
		if id, ok := signal.Lookup(name); ok && id.Def().Group == signal.Gateway {
			return true
		}
	}
	return false
}

// over returns a copy of base with the entries of own in place of its.
func over[V any](base, own map[string]V) map[string]V {
	out := make(map[string]V, len(base)+len(own))
	maps.Copy(out, base)
	maps.Copy(out, own)
	return out
}

func sourceName(s string) bool {
	if s == "" || len(s) > 40 {
		return false
	}
	for _, r := range s {
		if r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') {
			return false
		}
	}
	return true
}

func nearestSignal(name string) string {
	all := signal.All()
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	return strictyaml.Nearest(name, names)
}

func checkRefresh(c *checker, path, text string) {
	switch text {
	case "", "step", "scrape", "finish":
		return
	}
	if d, err := time.ParseDuration(text); err != nil || d <= 0 {
		c.fail(path, "want step, scrape, finish or a duration, as in 30s", strictyaml.Quote(text), "")
	}
}

// check checks one way and prepares it. What it prepares depends on nothing but the way
// and its signal, so that a table that extends another may share ways with it.
func (w *Way) check(c *checker, path string, def *signal.Def, t *Table) {
	bases := 0
	for _, s := range [][]Selector{w.From, w.Sum, w.Total} {
		if len(s) > 0 {
			bases++
		}
	}
	switch {
	case bases == 0:
		c.fail(path, "want from, sum or total with the series that give it", "", "")
	case bases > 1:
		c.fail(path, "want only one of from, sum and total", "", "")
	case (len(w.Total) > 0) != (len(w.Count) > 0):
		c.fail(path, "want total and count together", "", "")
	case len(w.Total) > 0 && def.Kind != signal.Distribution:
		c.fail(path, fmt.Sprintf("total and count make a distribution, and %s is a %s", def.Name, def.Kind), "", "")
	}
	if def.Kind == signal.Distribution && t.Format != "json" {
		for _, x := range []struct {
			name string
			on   bool
		}{
			{"sum", len(w.Sum) > 0},
			{"less", len(w.Less) > 0},
			{"times", len(w.Times) > 0},
			{"over", len(w.Over) > 0},
			{"labels", len(w.Labels) > 0},
			{"invert", w.Invert},
			{"mask", w.Mask != ""},
		} {
			if x.on {
				c.fail(strictyaml.Join(path, x.name), def.Name+" is a distribution, of which only the unit can be changed", "", "")
			}
		}
	}
	// Nothing of what is told can be less than nothing, but temperatures: servers write -1 for what they do not know.
	w.least, w.greatest = 0, 1e15
	switch def.Unit {
	case "1":
		w.greatest = 1.05
	case "C":
		w.least = -1e15
	}
	if def.Kind == signal.Counter || def.Kind == signal.Distribution {
		// Counters may be of any size: 1e15 bytes is a busy day of one link.
		w.least, w.greatest = 0, math.MaxFloat64
	}
	switch {
	case len(w.Range) == 0:
	case len(w.Range) != 2 || !(w.Range[0] <= w.Range[1]):
		c.fail(strictyaml.Join(path, "range"), "want the least and the greatest value, as in [0, 100]", "", "")
	default:
		w.least, w.greatest = w.Range[0], w.Range[1]
	}
	if w.Mask != "" {
		m, err := strconv.ParseUint(w.Mask, 0, 64)
		if err != nil || m == 0 {
			c.fail(strictyaml.Join(path, "mask"), "want bits as in 0xec", strictyaml.Quote(w.Mask), "")
		}
		w.mask = m
	}
	if math.IsNaN(w.Factor) || math.IsInf(w.Factor, 0) || w.Factor < 0 {
		c.fail(strictyaml.Join(path, "factor"), "want a number > 0", "", "")
	}
	w.combine = combine(def.Combine)
	if w.Combine != "" {
		i := slices.Index(combineNames, w.Combine)
		if i < 0 {
			c.fail(strictyaml.Join(path, "combine"), "want sum, mean, max, min or count", strictyaml.Quote(w.Combine), strictyaml.Nearest(w.Combine, combineNames))
		}
		w.combine = combine(max(i, 0))
	}
	for _, k := range w.Keep {
		if t.Keep[k] == nil {
			c.fail(strictyaml.Join(path, "keep"), "want a label that the table keeps", strictyaml.Quote(k), strictyaml.Nearest(k, slices.Sorted(maps.Keys(t.Keep))))
		}
	}
	checkRefresh(c, strictyaml.Join(path, "refresh"), w.Refresh)
}

var combineNames = []string{combineSum: "sum", combineMean: "mean", combineMax: "max", combineMin: "min", combineCount: "count"}

// Families returns the names of the series that the table may read, each with Prefix where every
// name that begins so is meant; for sources that must be asked by name.
func (t *Table) Families() []Selector {
	seen := map[string]bool{}
	var out []Selector
	add := func(list []Selector, endings ...string) {
		for _, s := range list {
			names := []string{s.Name}
			if !s.Prefix {
				v := variants(s.Name)
				names = names[:0]
				for _, e := range endings {
					names = append(names, v[0]+e, v[1]+e)
				}
			}
			for _, name := range names {
				for _, n := range append([]string{name}, t.unaliased(name)...) {
					f := Selector{Name: n, Prefix: s.Prefix}
					if key := f.String(); !seen[key] {
						seen[key] = true
						out = append(out, f)
					}
				}
			}
		}
	}
	for _, w := range t.ways {
		for _, way := range w.ways {
			if w.id.Def().Kind == signal.Distribution && t.Format != "json" {
				add(way.From, "_sum", "_count", "_bucket")
			} else {
				add(way.From, "")
			}
			for _, list := range [][]Selector{way.Sum, way.Total, way.Count, way.Less, way.Times, way.Over, way.Needs} {
				add(list, "")
			}
		}
	}
	add(t.Raw, "")
	add(t.Genuine, "")
	return out
}

// unaliased returns the names under which a page may have what the table calls name.
func (t *Table) unaliased(name string) []string {
	var out []string
	for _, a := range t.Alias {
		if rest, ok := strings.CutPrefix(name, a.To); ok {
			out = append(out, a.From+rest)
		}
	}
	return out
}
