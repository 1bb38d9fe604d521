package telemetry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// line is one sample as it stands on a page.
type line struct {
	// series is its name and labels, valid until the next one.
	series []byte
	value  float64
	// stamp is its own time in unix ns, 0 when it has none.
	stamp int64
	// number counts from 1; 0 when the parser does not count.
	number int
}

// taker takes the samples of a page. It returns false when it wants no more.
type taker interface {
	take(l *line) bool
	malformed(number int, text []byte, why string)
}

// errMalformed says that a page breaks the rules of the format at some line.
var errMalformed = errors.New("malformed page")

// parsePage gives t the samples of a text page by textparse, which stops at the
// first line that breaks a rule.
func parsePage(body []byte, openMetrics bool, t taker) (err error) {
	// The lexers are generated and index into the page by state: what they do with a hostile page must not end the run.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errMalformed, p)
		}
	}()
	// The parser may append a line end: full capacity makes that a copy, not a write into the caller's memory.
	body = body[:len(body):len(body)]
	if longLine(body) {
		return errMalformed
	}
	var p textparse.Parser
	if openMetrics {
		p = textparse.NewOpenMetricsParser(body, labels.NewSymbolTable())
	} else {
		p = textparse.NewPromParser(body, labels.NewSymbolTable(), false)
	}
	var l line
	for {
		e, err := p.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return errMalformed
		case e != textparse.EntrySeries:
			continue
		}
		series, ms, v := p.Series()
		l.series, l.value, l.stamp = series, v, 0
		if ms != nil {
			l.stamp = nanos(float64(*ms) / 1e3)
		}
		if !t.take(&l) {
			return nil
		}
	}
}

// maxLine bounds one line: no server writes such, and the strict parser puts all of a line that it cannot read into an error.
const maxLine = 64 << 10

// longLine says whether a line of the page is longer than any may be.
func longLine(body []byte) bool {
	for len(body) > maxLine {
		i := bytes.LastIndexByte(body[:maxLine], '\n')
		if i < 0 {
			return true
		}
		body = body[i+1:]
	}
	return false
}

// nanos turns unix seconds into ns, 0 for what cannot be a time of this era.
func nanos(s float64) int64 {
	if !(s > 0) || s > 1e10 {
		return 0
	}
	return int64(s*1e3) * 1e6
}

// scanPage gives t the samples of a text page line by line; lines that are none are
// told to t and passed over.
func scanPage(body []byte, openMetrics bool, t taker) {
	unit := 1e-3 // timestamps are ms
	if openMetrics {
		unit = 1
	}
	l := line{}
	for len(body) > 0 {
		text := body
		if i := bytes.IndexByte(body, '\n'); i >= 0 {
			text, body = body[:i], body[i+1:]
		} else {
			body = nil
		}
		l.number++
		text = bytes.Trim(text, " \t\r")
		if len(text) == 0 || text[0] == '#' {
			continue
		}
		if len(text) > maxLine {
			t.malformed(l.number, text, fmt.Sprintf("a line of %d bytes", len(text)))
			continue
		}
		if why := scanLine(text, unit, &l); why != "" {
			t.malformed(l.number, text, why)
			continue
		}
		if !t.take(&l) {
			return
		}
	}
}

// scanLine reads one sample: series, value, perhaps a time, perhaps an exemplar.
func scanLine(text []byte, unit float64, l *line) (why string) {
	n := seriesEnd(text)
	if n <= 0 {
		return "no name, or labels that do not end"
	}
	l.series, l.stamp = text[:n], 0
	rest := bytes.TrimLeft(text[n:], " \t")
	value, rest := word(rest)
	v, ok := sampleValue(value)
	if !ok {
		return "no value"
	}
	l.value = v
	if stamp, after := word(rest); len(stamp) > 0 && stamp[0] != '#' {
		s, ok := sampleValue(stamp)
		if !ok {
			return "words after the value"
		}
		l.stamp = nanos(s * unit)
		rest = after
	}
	if len(rest) > 0 && rest[0] != '#' {
		return "words after the time"
	}
	return ""
}

// word cuts the first word off.
func word(b []byte) (first, rest []byte) {
	i := bytes.IndexAny(b, " \t")
	if i < 0 {
		return b, nil
	}
	return b[:i], bytes.TrimLeft(b[i:], " \t")
}

// sampleValue reads a value of the exposition format: a decimal number, NaN or Inf with a sign or without.
func sampleValue(b []byte) (float64, bool) {
	if len(b) == 0 || len(b) > 400 || bytes.ContainsAny(b, "_xXpP") {
		return 0, false
	}
	v, err := strconv.ParseFloat(view(b), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	return v, true
}

// view returns b as a string without a copy, for calls that do not keep it.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// seriesEnd returns the length of name and labels at the beginning of text, and 0 when there are none.
func seriesEnd(text []byte) int {
	i := bytes.IndexAny(text, " \t{")
	if i < 0 || (i == 0 && text[0] != '{') {
		return 0
	}
	// Spaces may stand between the name and the brace.
	j := i
	for j < len(text) && (text[j] == ' ' || text[j] == '\t') {
		j++
	}
	if j == len(text) {
		return 0
	}
	if text[j] != '{' {
		return i
	}
	quoted := false
	for j++; j < len(text); j++ {
		switch c := text[j]; {
		case quoted && c == '\\':
			j++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return j + 1
		}
	}
	return 0
}

// maxLabels bounds the labels of one series.
const maxLabels = 256

// parseSeries reads a name with labels; the strings are copies.
func parseSeries(text string) (name string, lset []Label, ok bool) {
	name, rest, braces := strings.Cut(text, "{")
	name = strings.Trim(name, " \t")
	if name != "" && !bareName(name) {
		return "", nil, false
	}
	if !braces {
		return name, nil, bareName(name)
	}
	for {
		rest = strings.TrimLeft(rest, " \t,")
		if rest == "}" {
			break
		}
		var label string
		if strings.HasPrefix(rest, `"`) {
			if label, rest, ok = unquote(rest); !ok {
				return "", nil, false
			}
			rest = strings.TrimLeft(rest, " \t")
			if name == "" && (strings.HasPrefix(rest, ",") || rest == "}") {
				name = label
				continue
			}
		} else {
			i := strings.IndexByte(rest, '=')
			if i < 0 {
				return "", nil, false
			}
			label, rest = strings.TrimRight(rest[:i], " \t"), rest[i:]
			if !bareName(label) {
				return "", nil, false
			}
		}
		if rest, ok = strings.CutPrefix(rest, "="); !ok {
			return "", nil, false
		}
		var value string
		if value, rest, ok = unquote(strings.TrimLeft(rest, " \t")); !ok || len(lset) >= maxLabels {
			return "", nil, false
		}
		if value != "" {
			lset = append(lset, Label{strings.Clone(label), value})
		}
		rest = strings.TrimLeft(rest, " \t")
		if !strings.HasPrefix(rest, ",") && rest != "}" {
			return "", nil, false
		}
	}
	return strings.Clone(name), lset, name != "" && utf8.ValidString(name)
}

// bareName says whether s can be a name without quotes.
func bareName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_', c == ':':
		case i > 0 && c >= '0' && c <= '9':
		default:
			return false
		}
	}
	return s != ""
}

// unquote reads a quoted string from the beginning of s; escapes other than \n, \" and \\ stand for themselves.
func unquote(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		return "", "", false
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			value = s[1:i]
			if strings.IndexByte(value, '\\') >= 0 {
				value = escapes.Replace(value)
			}
			return strings.ToValidUTF8(strings.Clone(value), "\ufffd"), s[i+1:], true
		}
	}
	return "", "", false
}

var escapes = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\"`, `"`)

// looksLike names what a body is that is no page of telemetry, and returns an empty string when it may be one.
func looksLike(body []byte) string {
	b := bytes.TrimLeft(body, " \t\r\n\ufeff")
	switch {
	case len(b) == 0:
		return ""
	case b[0] == '<':
		return "HTML or XML"
	case len(b) >= 2 && b[0] == 0x1f && b[1] == 0x8b:
		return "compressed with gzip"
	case bytes.IndexByte(b[:min(len(b), 512)], 0) >= 0:
		return "binary"
	}
	return ""
}

// finite says whether v is a value at all.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
