// Package report turns the figures of a run into something to read: text for a
// terminal, JSON and JSON lines for programs. It owns units, rounding and
// layout, and it prints the formula beside every figure. It never computes a
// figure of its own (stats does) and never lets a character that came from a
// server act on the terminal.
package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Width is the number of columns that text output fits into.
const Width = 80

// Figure writes v with three significant digits, digits grouped by thousands
// before the point and never an exponent. Whole parts are kept whole: 1,234.
// What is not finite is written as a dash, since it is no figure.
func Figure(v float64) string {
	a := math.Abs(v)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case a == 0:
		return "0"
	case a < 0.0005:
		if v < 0 {
			return ">-0.001"
		}
		return "<0.001"
	case a < 0.9995:
		return strconv.FormatFloat(v, 'f', 3, 64)
	case a < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a < 1e15:
		return group(strconv.FormatFloat(v, 'f', 0, 64))
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// Count writes a whole number with its digits grouped by thousands.
func Count[T ~int | ~int32 | ~int64 | ~uint32 | ~uint64](n T) string {
	return group(strconv.FormatInt(int64(n), 10))
}

func group(s string) string {
	neg := strings.HasPrefix(s, "-")
	s = strings.TrimPrefix(s, "-")
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if neg {
		return "-" + s
	}
	return s
}

// Percent writes a share in 0..1 as a percentage.
func Percent(share float64) string { return Figure(share*100) + " %" }

// Seconds writes a length of time given in seconds with the unit that suits it.
func Seconds(s float64) string {
	a := math.Abs(s)
	switch {
	case math.IsNaN(s) || math.IsInf(s, 0):
		return "-"
	case a == 0:
		return "0 s"
	case a < 0.0009995:
		return Figure(s*1e6) + " us"
	case a < 0.9995:
		return Figure(s*1e3) + " ms"
	case a < 120:
		return Figure(s) + " s"
	case a < 7200:
		n := int64(math.Round(a))
		return sign(s) + parts(n/60, "m", n%60, "s")
	}
	n := int64(math.Round(a / 60))
	return sign(s) + parts(n/60, "h", n%60, "m")
}

func sign(v float64) string {
	if v < 0 {
		return "-"
	}
	return ""
}

func parts(big int64, bigUnit string, small int64, smallUnit string) string {
	if small == 0 {
		return Count(big) + bigUnit
	}
	return fmt.Sprintf("%s%s%d%s", Count(big), bigUnit, small, smallUnit)
}

// Bytes writes a number of bytes with a decimal unit.
func Bytes(n int64) string {
	v := float64(n)
	for _, u := range []string{"B", "kB", "MB", "GB"} {
		if math.Abs(v) < 1000 {
			if u == "B" {
				return Count(n) + " B"
			}
			return Figure(v) + " " + u
		}
		v /= 1000
	}
	return Figure(v) + " TB"
}

// Printable returns s with everything that could act on a terminal written out
// as an escape: control characters, invalid UTF-8, and marks that reorder or
// hide text. Names and messages that came from elsewhere go through it.
func Printable(s string) string {
	plain := true
	for _, r := range s {
		if r == utf8.RuneError || !printable(r) {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[i])+0x100, 16)[1:])
		case printable(r):
			b.WriteRune(r)
		case r < 0x80:
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteString(`\u{` + strconv.FormatInt(int64(r), 16) + `}`)
		}
		i += n
	}
	return b.String()
}

func printable(r rune) bool {
	return r == ' ' || (unicode.IsPrint(r) && !unicode.Is(unicode.Cf, r))
}

// PrintableLines is Printable for text of several lines: line ends stay.
func PrintableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = Printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

// Cut shortens s to at most n columns, ending in "..." where it was cut.
func Cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	if n <= 3 {
		return strings.Repeat(".", max(n, 0))
	}
	i := 0
	for range n - 3 {
		_, w := utf8.DecodeRuneInString(s[i:])
		i += w
	}
	return s[:i] + "..."
}

// CutFront shortens s to n columns, of which there must be some, and keeps its end:
// names of one family differ there.
func CutFront(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return "…" + string(r[len(r)-n+1:])
	}
	return s
}

// Wrap breaks s at spaces into lines of at most width columns. A word that is
// longer than that gets a line of its own, cut into pieces.
func Wrap(s string, width int) []string {
	var lines []string
	line := ""
	n := 0
	flush := func() {
		lines = append(lines, line)
		line, n = "", 0
	}
	for word := range strings.FieldsSeq(s) {
		w := utf8.RuneCountInString(word)
		if n > 0 && n+1+w > width {
			flush()
		}
		for n == 0 && w > width {
			r := []rune(word)
			line = string(r[:width])
			flush()
			word = string(r[width:])
			w -= width
		}
		if n > 0 {
			line += " "
			n++
		}
		line += word
		n += w
	}
	if n > 0 {
		flush()
	}
	return lines
}

// Pad returns s filled up with spaces on the right to n columns; PadLeft on the
// left.
func Pad(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-utf8.RuneCountInString(s)))
}

// PadLeft returns s filled up with spaces on the left to n columns.
func PadLeft(s string, n int) string {
	return strings.Repeat(" ", max(0, n-utf8.RuneCountInString(s))) + s
}
