package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Position says where a value was written.
type Position struct {
	// File is the name given to Parse; empty for a value that is in no file.
	File string
	// Line and Col count from 1, Col in characters; both 0 when unknown.
	Line, Col int
	// Origin is the label given to Set (--set, --users); empty for a value of
	// the file.
	Origin string
}

// String returns the origin, or file:line:col with the parts that are known.
func (p Position) String() string {
	if p.Origin != "" {
		return p.Origin
	}
	if p.Line == 0 {
		return p.File
	}
	s := strconv.Itoa(p.Line) + ":" + strconv.Itoa(p.Col)
	if p.File != "" {
		s = p.File + ":" + s
	}
	return s
}

// Error is one thing that is wrong in a document. It holds each part of its
// text apart, so that a program can show it in its own way.
type Error struct {
	Position
	// Path is the field, as in load.users[1]; empty for the whole document.
	Path string
	// Value is what was written there, shortened; empty when it does not
	// matter or must not be shown.
	Value string
	// Problem says what is wrong or what was expected, with the fix.
	Problem string
	// Nearest is the valid name that is most like the one written; may be
	// empty.
	Nearest string
}

// Error returns "file:line:col: path: problem, got value; did you mean name?".
func (e *Error) Error() string {
	var b strings.Builder
	if p := e.Position.String(); p != "" {
		b.WriteString(p + ": ")
	}
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Problem)
	if e.Value != "" {
		b.WriteString(", got " + e.Value)
	}
	if e.Nearest != "" {
		b.WriteString("; did you mean " + e.Nearest + "?")
	}
	return b.String()
}

// Errors is everything that is wrong in a document, in the order of the lines;
// never empty when returned as an error.
type Errors []*Error

// maxShown is how many errors the text of Errors shows: more help nobody, and
// a megabyte of nonsense must not become a megabyte of messages.
const maxShown = 50

// Error returns one line for each error.
func (e Errors) Error() string {
	var b strings.Builder
	for i, x := range e {
		if i > 0 {
			b.WriteByte('\n')
		}
		if i == maxShown {
			fmt.Fprintf(&b, "and %d more errors", len(e)-maxShown)
			break
		}
		b.WriteString(x.Error())
	}
	return b.String()
}

// Unwrap returns the errors one by one, for errors.As.
func (e Errors) Unwrap() []error {
	out := make([]error, len(e))
	for i, x := range e {
		out[i] = x
	}
	return out
}

// Sort orders the errors as a reader meets them: by line and column, those of
// values that are in no file last.
func (e Errors) Sort() {
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(
			cmp.Compare(rank(a), rank(b)),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Col, b.Col),
		)
	})
}

func rank(e *Error) int {
	switch {
	case e.Origin != "":
		return 2
	case e.Line == 0:
		return 1
	default:
		return 0
	}
}

// Quote returns text as an error shows it: numbers and plain words bare, all
// else quoted, at most 60 characters of it.
func Quote(text string) string {
	const limit = 60
	if utf8.RuneCountInString(text) > limit {
		r := []rune(text)
		text = string(r[:limit]) + "…"
	}
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < '0' || r > '9') && r != '.' && r != '-' && r != '+'
	}) {
		return text
	}
	return strconv.Quote(text)
}

// Nearest returns the name of known that is most like name, or "" when none is
// near: at most one edit in three letters. Case is ignored and _ is the same
// as -.
func Nearest(name string, known []string) string {
	best, bestDist := "", -1
	n := fold(name)
	if len(n) > 100 {
		return ""
	}
	for _, k := range known {
		f := fold(k)
		d := Distance(n, f)
		limit := max(1, min(len(n), len(f))/3)
		if min(len(n), len(f)) <= 2 {
			limit = 0
		}
		if d <= limit && (bestDist < 0 || d < bestDist) {
			best, bestDist = k, d
		}
	}
	return best
}

func fold(s string) string {
	return strings.ReplaceAll(strings.ToLower(s), "_", "-")
}

// Distance is the number of bytes to insert, delete, change or swap with their
// neighbour to make b of a. It takes time with the product of their lengths.
func Distance(a, b string) int {
	prev2 := make([]int, len(b)+1)
	prev := make([]int, len(b)+1)
	cur := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
