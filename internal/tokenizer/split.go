package tokenizer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// span is text[from:to].
type span struct{ from, to int }

// A stage is one pre-tokenizer: it appends the pieces of s, in order. s is not
// empty, and no piece is.
type stage interface {
	split(dst []span, s string) []span
}

// quick splits by a pattern with a splitter of its own.
type quick struct {
	next pattern
	c    *classes
}

func (q quick) split(dst []span, s string) []span {
	for at := 0; at < len(s); {
		n := q.next(q.c, s[at:])
		dst = append(dst, span{at, at + n})
		at += n
	}
	return dst
}

// engine finds the matches of any other regular expression.
type engine struct{ re *regexp2.Regexp }

// newEngine compiles an expression in the syntax of the reference's engine
// (Oniguruma), as far as regexp2 speaks it.
func newEngine(expr string) (*engine, error) {
	if what := foreign(expr); what != "" {
		return nil, fmt.Errorf("regular expression %.60q: %s is not supported: it may mean something else here than where the model was made", expr, what)
	}
	// There ^ and $ are of lines.
	re, err := regexp2.Compile(expr, regexp2.Multiline)
	if err != nil {
		return nil, fmt.Errorf("regular expression %.60q: %w", expr, err)
	}
	return &engine{re}, nil
}

// foreign returns the first thing in an expression that the two engines understand
// differently, such as what a word character is.
func foreign(expr string) string {
	for i := 0; i+1 < len(expr); i++ {
		switch two := expr[i : i+2]; {
		case two == "&&", two == "[:":
			return two
		case two[0] == '\\':
			if strings.Contains("wWbBhHRXKGyYNOZ", two[1:]) {
				return two
			}
			i++
		}
	}
	return ""
}

// matches returns where the expression matches in s, ascending.
func (e *engine) matches(s string) []span {
	var out []span
	runes := []rune(s)
	at, bytes := 0, 0
	size := func(to int) {
		for ; at < to; at++ {
			bytes += utf8.RuneLen(runes[at])
		}
	}
	// Without a time limit no error is possible; what a limit of the engine's own
	// would leave out stays one piece.
	_ = e.re.FindRunesMatches(runes, 0, func(m regexp2.MatchView) bool {
		from, n, _ := m.GroupRange(0)
		size(from)
		start := bytes
		size(from + n)
		out = append(out, span{start, bytes})
		return true
	})
	return out
}

// literal finds the places of a text.
type literal string

func (l literal) matches(s string) []span {
	var out []span
	for at := 0; ; {
		i := strings.Index(s[at:], string(l))
		if i < 0 {
			return out
		}
		out = append(out, span{at + i, at + i + len(l)})
		at += i + len(l)
	}
}

// each finds every single character that is of a kind.
type each func(rune) bool

func (f each) matches(s string) []span {
	var out []span
	for i, r := range s {
		if f(r) {
			out = append(out, span{i, i + utf8.RuneLen(r)})
		}
	}
	return out
}

func digit(r rune) bool { return unicode.IsNumber(r) }

func punctuation(r rune) bool {
	return unicode.IsPunct(r) || r < utf8.RuneSelf && unicode.IsSymbol(r)
}

// behavior is what becomes of the places at which text is split.
type behavior string

const (
	removed            behavior = "Removed"
	isolated           behavior = "Isolated"
	mergedWithPrevious behavior = "MergedWithPrevious"
	mergedWithNext     behavior = "MergedWithNext"
	contiguous         behavior = "Contiguous"
)

// delimited splits at what finds matches.
type delimited struct {
	find   interface{ matches(s string) []span }
	how    behavior
	invert bool
}

func (d delimited) split(dst []span, s string) []span {
	// The whole of s as pieces, each with whether it is a delimiter.
	type part struct {
		span
		is bool
	}
	var parts []part
	at := 0
	for _, m := range d.find.matches(s) {
		if m.from > at {
			parts = append(parts, part{span{at, m.from}, d.invert})
		}
		parts = append(parts, part{m, !d.invert})
		at = m.to
	}
	if at < len(s) {
		parts = append(parts, part{span{at, len(s)}, d.invert})
	}
	first := len(dst)
	add := func(p span) { dst = append(dst, p) }
	was := false
	switch d.how {
	case removed:
		for _, p := range parts {
			if !p.is {
				add(p.span)
			}
		}
	case contiguous:
		for i, p := range parts {
			if i > 0 && p.is == was {
				dst[len(dst)-1].to = p.to
			} else {
				add(p.span)
			}
			was = p.is
		}
	case mergedWithPrevious:
		for _, p := range parts {
			if p.is && !was && len(dst) > first {
				dst[len(dst)-1].to = p.to
			} else {
				add(p.span)
			}
			was = p.is
		}
	case mergedWithNext:
		// As the reference does it, from the end: a delimiter joins what follows,
		// unless that is a delimiter too.
		for i, p := range parts {
			if i > 0 && was && !p.is {
				dst[len(dst)-1].to = p.to
			} else {
				add(p.span)
			}
			was = p.is
		}
	default: // isolated
		for _, p := range parts {
			add(p.span)
		}
	}
	kept := dst[:first]
	for _, p := range dst[first:] {
		if p.from < p.to { // an expression may match nothing at all
			kept = append(kept, p)
		}
	}
	return kept
}

// wordsOnly makes pieces of runs of word characters and of runs of other signs,
// without the white space between.
type wordsOnly struct{}

func (wordsOnly) split(dst []span, s string) []span {
	const none, word, sign = 0, 1, 2
	was := none
	for i, r := range s {
		is := sign
		switch {
		case wordly(r):
			is = word
		case blank(r):
			is = none
		}
		switch to := i + utf8.RuneLen(r); {
		case is == none:
		case is == was:
			dst[len(dst)-1].to = to
		default:
			dst = append(dst, span{i, to})
		}
		was = is
	}
	return dst
}

// seams splits before each ▁ behind a character over which no token reaches. It
// changes no token, and lets words be looked up rather than merged anew.
type seams struct {
	// joined are the characters that stand before a ▁ within a token.
	joined map[rune]bool
}

const metaspace = "▁"

func (w seams) split(dst []span, s string) []span {
	from := 0
	for at := 0; ; {
		i := strings.Index(s[at:], metaspace)
		if i < 0 {
			return append(dst, span{from, len(s)})
		}
		at += i
		if at > from {
			if r, _ := utf8.DecodeLastRuneInString(s[from:at]); !w.joined[r] {
				dst = append(dst, span{from, at})
				from = at
			}
		}
		at += len(metaspace)
	}
}
