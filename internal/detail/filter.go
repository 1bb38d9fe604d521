package detail

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"plimsoll/internal/record"
)

// FilterError is what is wrong with a filter, with its place in characters.
type FilterError struct {
	At, Length int
	Text, Fix  string
}

// Error returns the text with its place.
func (e *FilterError) Error() string {
	return fmt.Sprintf("read filter at character %d: %s", e.At+1, e.Text)
}

const (
	mostTerms      = 32
	mostCharacters = 1000
)

// test says whether requests of a profile are taken.
type test func(p *profile) bool

// filter takes the rows that pass all tests.
type filter struct {
	profiles []test
	rows     []rowTest
}

func (f *filter) takes(p *profile) bool {
	for _, t := range f.profiles {
		if !t(p) {
			return false
		}
	}
	return true
}

// all says whether all rows are taken.
func (f *filter) all() bool { return len(f.profiles)+len(f.rows) == 0 }

// rowTest compares a field of rows.
type rowTest struct {
	fill filler
	op   string
	to   float64
	not  uint8 // 1 takes the others
}

// keep takes those rows from first on out of keep that do not pass.
func (t *rowTest) keep(c *columns, b *block, first int, keep []uint8) {
	values := b.values[:len(keep)]
	t.fill(c, b, first, values)
	to, not := t.to, t.not
	switch t.op {
	case "<":
		for i, v := range values {
			keep[i] &= bit(v < to) ^ not
		}
	case "<=":
		for i, v := range values {
			keep[i] &= bit(v <= to) ^ not
		}
	case ">":
		for i, v := range values {
			keep[i] &= bit(v > to) ^ not
		}
	case ">=":
		for i, v := range values {
			keep[i] &= bit(v >= to) ^ not
		}
	default:
		for i, v := range values {
			keep[i] &= bit(v == to) ^ not
		}
	}
}

// word is a term with its place in characters.
type word struct {
	text       string
	at, length int
}

// split cuts a filter at blanks that do not stand in quotes. open is the word whose
// quotes do not end, nil when there is none.
func split(s string) (words []word, open *word) {
	var b strings.Builder
	begin, at, quoted := -1, 0, false
	end := func() {
		if begin >= 0 {
			words = append(words, word{b.String(), begin, at - begin})
			b.Reset()
			begin = -1
		}
	}
	for _, r := range s {
		if !quoted && (r == ' ' || r == '\t' || r == '\n' || r == '\r') {
			end()
			at++
			continue
		}
		if begin < 0 {
			begin = at
		}
		if r == '"' {
			quoted = !quoted
		}
		b.WriteRune(r)
		at++
	}
	end()
	if quoted {
		open = &words[len(words)-1]
	}
	return words, open
}

// parseFilter reads a filter. The lists are those that texts are indexes of.
func parseFilter(text string, workloads, finishes []string) (*filter, error) {
	words, open := split(text)
	if n := len([]rune(text)); n > mostCharacters {
		return nil, &FilterError{0, n, fmt.Sprintf("%d characters, want at most %d", n, mostCharacters), "leave terms out"}
	}
	f := new(filter)
	for i, w := range words {
		wrong := func(text, fix string) error { return &FilterError{w.at, w.length, text, fix} }
		switch {
		case i >= mostTerms:
			return nil, wrong(fmt.Sprintf("more than %d terms", mostTerms), "leave terms out")
		case open != nil && open.at == w.at:
			return nil, wrong("a quote that does not end", `write "`+" after the value")
		}
		if err := f.add(w.text, workloads, finishes); err != nil {
			err.At, err.Length = w.at, w.length
			return nil, err
		}
	}
	return f, nil
}

// operators of the three kinds of fields.
var (
	textOps   = []string{":"}
	numberOps = []string{":", "=", "<", "<=", ">", ">="}
	figureOps = []string{"=", "<", "<=", ">", ">="}
)

// rowFields are the whole numbers that each row has of its own, tokenFields its counts
// of tokens, and profileFields the numbers that are of its profile, negative for unknown.
var (
	rowFields = map[string]filler{
		"n":       columnFiller(func(c *columns) []uint32 { return c.id }),
		"session": columnFiller(func(c *columns) []uint64 { return c.session }),
		"turn":    columnFiller(func(c *columns) []uint32 { return c.turn }),
		"user":    columnFiller(func(c *columns) []uint32 { return c.user }),
	}
	tokenFields = map[string]filler{
		"prompt": columnFiller(func(c *columns) []int32 { return c.prompt }),
		"cached": columnFiller(func(c *columns) []int32 { return c.cached }),
		"output": columnFiller(func(c *columns) []int32 { return c.output }),
	}
	profileFields = map[string]func(p *profile) int64{
		"step":   func(p *profile) int64 { return int64(p.step) },
		"target": func(p *profile) int64 { return int64(p.target) },
		"http": func(p *profile) int64 {
			if p.http == 0 {
				return -1
			}
			return int64(p.http)
		},
	}
)

// filterFigures are the durations that a filter may speak about.
var filterFigures = []figure{figTTFT, figTTFC, figTPOT, figE2E, figTTLT, figRetrieval, figSendLag}

// filterFields are the names of all fields.
func filterFields() []string {
	out := []string{"workload", "finish", "status", "phase", "error"}
	for _, f := range filterFigures {
		out = append(out, figureNames[f])
	}
	for _, names := range []iter.Seq[string]{maps.Keys(rowFields), maps.Keys(tokenFields), maps.Keys(profileFields)} {
		out = slices.AppendSeq(out, names)
	}
	slices.Sort(out)
	return out
}

// add adds the test of a term.
func (f *filter) add(text string, workloads, finishes []string) *FilterError {
	bad := func(fix, format string, args ...any) *FilterError {
		return &FilterError{Text: fmt.Sprintf(format, args...), Fix: fix}
	}
	body, not := strings.CutPrefix(text, "-")
	if body == "" || body[0] == '-' {
		return bad("write one - before a term, as -status:ok", "a - without a term")
	}
	i := strings.IndexAny(body, ":<>=")
	if i <= 0 {
		return bad("write FIELD:VALUE or FIELD>VALUE, as workload:"+quoted(body), "%q is no term", body)
	}
	name, op, value := body[:i], body[i:i+1], body[i+1:]
	if (op == "<" || op == ">") && strings.HasPrefix(value, "=") {
		op, value = op+"=", value[1:]
	}
	ofRow, isOfRow := rowFields[name]
	ofProfile, isOfProfile := profileFields[name]
	tokens, isTokens := tokenFields[name]
	figure, isFigure := figureOf(name)
	isFigure = isFigure && slices.Contains(filterFigures, figure)
	ops := textOps
	switch {
	case isOfRow || isOfProfile:
		ops = numberOps
	case isTokens || isFigure:
		ops = figureOps
	case !slices.Contains([]string{"workload", "finish", "status", "phase", "error"}, name):
		return bad("want one of "+strings.Join(filterFields(), ", "), "there is no field %q", name)
	}
	if !slices.Contains(ops, op) {
		return bad("want "+name+" "+strings.Join(ops, " or "+name+" ")+" VALUE", "%s cannot be asked with %s", name, op)
	}
	if value == "" {
		return bad("write what "+name+" is to be", "%s without a value", name)
	}
	if strings.Contains(value, `"`) {
		if len(value) < 2 || value[0] != '"' || strings.IndexByte(value[1:], '"') != len(value)-2 {
			return bad("put the whole value into quotes", "quotes inside a value")
		}
		value = value[1 : len(value)-1]
	}
	row := rowTest{op: op, not: bit(not)}
	var of test
	switch {
	case isOfRow || isOfProfile:
		n, err := strconv.ParseUint(value, 10, 53)
		if err != nil || value[0] == '+' {
			return bad("write "+name+" as a whole number", "%s is %q, want a whole number", name, value)
		}
		if row.fill, row.to = ofRow, float64(n); isOfProfile {
			is := comparison(op, int64(n))
			of = func(p *profile) bool { v := ofProfile(p); return v >= 0 && is(v) }
		}
	case isTokens:
		n, unit, ok := decimal(value)
		scale, has := map[string]float64{"": 1, "k": 1e3, "M": 1e6}[unit]
		if !ok || !has {
			return bad("write "+name+" as 200, 4k or 1.5M", "%s is %q, want a number of tokens", name, value)
		}
		row.fill, row.to = tokens, n*scale
	case isFigure:
		n, unit, ok := decimal(value)
		scale, has := map[string]float64{"us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}[unit]
		if !ok || !has {
			return bad("write "+name+" with its unit, as 40ms or 2s", "%s is %q, want a time", name, value)
		}
		row.fill, row.to = inWhole(figure), math.Round(n*scale)
	default:
		var text string
		if of, text = textTest(name, value, workloads, finishes); of == nil {
			return bad("want one of "+text, "there is no %s %q", name, value)
		}
	}
	switch {
	case of == nil:
		f.rows = append(f.rows, row)
	case not:
		f.profiles = append(f.profiles, func(p *profile) bool { return !of(p) })
	default:
		f.profiles = append(f.profiles, of)
	}
	return nil
}

// inWhole is the filler of a figure in whole ns, which all but one are anyway.
func inWhole(f figure) filler {
	fill := figureFiller(f)
	if f != figTPOT {
		return fill
	}
	return func(c *columns, b *block, first int, out []float64) {
		fill(c, b, first, out)
		for i, v := range out {
			out[i] = math.Round(v)
		}
	}
}

func quoted(s string) string {
	if strings.ContainsAny(s, " \t") {
		return `"` + s + `"`
	}
	return s
}

// textTest returns the test of a field of text, nil and what there is when there is no
// such value.
func textTest(name, value string, workloads, finishes []string) (test, string) {
	switch name {
	case "workload":
		in := contain(workloads, value)
		return func(p *profile) bool { return in[p.workload] }, ""
	case "finish":
		in := contain(finishes, value)
		return func(p *profile) bool { return in[p.finish] }, ""
	}
	var all []string
	for i := range 256 {
		var s string
		switch name {
		case "status":
			s = record.Status(i).String()
		case "phase":
			s = record.Phase(i).String()
		case "error":
			s = record.ErrorKind(i).String()
		}
		if s == "unknown" {
			break
		}
		all = append(all, s)
	}
	i := uint8(slices.Index(all, value))
	switch {
	case value == "" || !slices.Contains(all, value):
		return nil, strings.TrimPrefix(strings.Join(all, ", "), ", ")
	case name == "status":
		return func(p *profile) bool { return p.status() == record.Status(i) }, ""
	case name == "phase":
		return func(p *profile) bool { return p.phase() == record.Phase(i) }, ""
	}
	return func(p *profile) bool { return p.err == i }, ""
}

// contain says of each text whether it contains part, whatever the case of its ASCII
// letters.
func contain(list []string, part string) []bool {
	out := make([]bool, len(list))
	for i, s := range list {
		out[i] = strings.Contains(lower(s), lower(part))
	}
	return out
}

func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// decimal reads digits with at most one point, and what follows them.
func decimal(s string) (v float64, unit string, ok bool) {
	i := 0
	for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '.') {
		i++
	}
	v, err := strconv.ParseFloat(s[:i], 64)
	return v, s[i:], err == nil
}

func comparison(op string, to int64) func(int64) bool {
	switch op {
	case "<":
		return func(v int64) bool { return v < to }
	case "<=":
		return func(v int64) bool { return v <= to }
	case ">":
		return func(v int64) bool { return v > to }
	case ">=":
		return func(v int64) bool { return v >= to }
	}
	return func(v int64) bool { return v == to }
}
