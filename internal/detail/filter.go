package detail

import (
	"fmt"
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

// test says whether the request of a row is taken.
type test func(c *columns, row int) bool

// filter takes the rows that pass all tests.
type filter []test

func (f filter) takes(c *columns, row int) bool {
	for _, t := range f {
		if !t(c, row) {
			return false
		}
	}
	return true
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
func parseFilter(text string, workloads, finishes []string) (filter, error) {
	words, open := split(text)
	if n := len([]rune(text)); n > mostCharacters {
		return nil, &FilterError{0, n, fmt.Sprintf("%d characters, want at most %d", n, mostCharacters), "leave terms out"}
	}
	var f filter
	for i, w := range words {
		wrong := func(text, fix string) error { return &FilterError{w.at, w.length, text, fix} }
		switch {
		case i >= mostTerms:
			return nil, wrong(fmt.Sprintf("more than %d terms", mostTerms), "leave terms out")
		case open != nil && open.at == w.at:
			return nil, wrong("a quote that does not end", `write "`+" after the value")
		}
		t, err := parseTerm(w.text, workloads, finishes)
		if err != nil {
			err.At, err.Length = w.at, w.length
			return nil, err
		}
		f = append(f, t)
	}
	return f, nil
}

// operators of the three kinds of fields.
var (
	textOps   = []string{":"}
	numberOps = []string{":", "=", "<", "<=", ">", ">="}
	figureOps = []string{"=", "<", "<=", ">", ">="}
)

// numberFields are whole numbers, negative for unknown.
var numberFields = map[string]func(c *columns, row int) int64{
	"n":       func(c *columns, row int) int64 { return int64(c.id[row]) },
	"session": func(c *columns, row int) int64 { return int64(min(c.session[row], math.MaxInt64)) },
	"turn":    func(c *columns, row int) int64 { return int64(c.turn[row]) },
	"user":    func(c *columns, row int) int64 { return int64(c.user[row]) },
	"step":    func(c *columns, row int) int64 { return int64(c.step[row]) },
	"target":  func(c *columns, row int) int64 { return int64(c.target[row]) },
	"http": func(c *columns, row int) int64 {
		if c.http[row] == 0 {
			return -1
		}
		return int64(c.http[row])
	},
}

// tokenFields are counts of tokens, negative for unknown.
var tokenFields = map[string]func(c *columns, row int) int64{
	"prompt": func(c *columns, row int) int64 { return int64(c.prompt[row]) },
	"cached": func(c *columns, row int) int64 { return int64(c.cached[row]) },
	"output": func(c *columns, row int) int64 { return int64(c.output[row]) },
}

// filterFigures are the durations that a filter may speak about.
var filterFigures = []figure{figTTFT, figTTFC, figTPOT, figE2E, figTTLT, figRetrieval, figSendLag}

// filterFields are the names of all fields.
func filterFields() []string {
	out := []string{"workload", "finish", "status", "phase", "error"}
	for _, f := range filterFigures {
		out = append(out, figureNames[f])
	}
	for _, m := range []map[string]func(*columns, int) int64{tokenFields, numberFields} {
		for name := range m {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func parseTerm(text string, workloads, finishes []string) (test, *FilterError) {
	bad := func(fix, format string, args ...any) (test, *FilterError) {
		return nil, &FilterError{Text: fmt.Sprintf(format, args...), Fix: fix}
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
	number, isNumber := numberFields[name]
	tokens, isTokens := tokenFields[name]
	f, isFigure := figureOf(name)
	isFigure = isFigure && slices.Contains(filterFigures, f)
	ops := textOps
	switch {
	case isNumber:
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
	var t test
	switch {
	case isNumber:
		n, err := strconv.ParseUint(value, 10, 53)
		if err != nil || value[0] == '+' {
			return bad("write "+name+" as a whole number", "%s is %q, want a whole number", name, value)
		}
		is := comparison(op, float64(n))
		t = func(c *columns, row int) bool { v := number(c, row); return v >= 0 && is(float64(v)) }
	case isTokens:
		n, unit, ok := decimal(value)
		scale, has := map[string]float64{"": 1, "k": 1e3, "M": 1e6}[unit]
		if !ok || !has {
			return bad("write "+name+" as 200, 4k or 1.5M", "%s is %q, want a number of tokens", name, value)
		}
		is := comparison(op, n*scale)
		t = func(c *columns, row int) bool { v := tokens(c, row); return v >= 0 && is(float64(v)) }
	case isFigure:
		n, unit, ok := decimal(value)
		scale, has := map[string]float64{"us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}[unit]
		if !ok || !has {
			return bad("write "+name+" with its unit, as 40ms or 2s", "%s is %q, want a time", name, value)
		}
		is := comparison(op, math.Round(n*scale))
		t = func(c *columns, row int) bool { v, ok := c.known(row, f); return ok && is(math.Round(v)) }
	default:
		var text string
		if t, text = textTest(name, value, workloads, finishes); t == nil {
			return bad("want one of "+text, "there is no %s %q", name, value)
		}
	}
	if not {
		yes := t
		t = func(c *columns, row int) bool { return !yes(c, row) }
	}
	return t, nil
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
		return func(c *columns, row int) bool { return in[c.workload[row]] }, ""
	case "finish":
		in := contain(finishes, value)
		return func(c *columns, row int) bool { return in[c.finish[row]] }, ""
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
		return func(c *columns, row int) bool { return c.status(row) == record.Status(i) }, ""
	case name == "phase":
		return func(c *columns, row int) bool { return c.phase(row) == record.Phase(i) }, ""
	}
	return func(c *columns, row int) bool { return c.err[row] == i }, ""
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

func comparison(op string, to float64) func(float64) bool {
	switch op {
	case "<":
		return func(v float64) bool { return v < to }
	case "<=":
		return func(v float64) bool { return v <= to }
	case ">":
		return func(v float64) bool { return v > to }
	case ">=":
		return func(v float64) bool { return v >= to }
	}
	return func(v float64) bool { return v == to }
}
