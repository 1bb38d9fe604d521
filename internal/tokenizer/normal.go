package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A step rewrites text before it is split. It notes in e what it changed, unless
// e is nil.
type step interface {
	apply(s string, at place, e *edits) string
}

// edits are the places where a rewritten text differs from what it was made of,
// ascending; between them both are the same.
type edits []edit

// edit says that out[outFrom:outTo] was made of in[inFrom:inTo].
type edit struct{ inFrom, inTo, outFrom, outTo int }

func (e *edits) add(inFrom, inTo, outFrom, outTo int) {
	if e != nil {
		*e = append(*e, edit{inFrom, inTo, outFrom, outTo})
	}
}

// back turns ascending ends in the rewritten text into ends in the text it was
// made of. A token that ends within a changed place needs all of it.
func (e edits) back(ends []int) {
	i, shift := 0, 0
	for k, end := range ends {
		for i < len(e) && end >= e[i].outTo {
			shift = e[i].inTo - e[i].outTo
			i++
		}
		if i < len(e) && end > e[i].outFrom {
			ends[k] = e[i].inTo
		} else {
			ends[k] = end + shift
		}
	}
}

// valid replaces every byte that is not UTF-8 by U+FFFD, as bodies in JSON do.
func valid(s string, e *edits) string {
	if utf8.ValidString(s) {
		return s
	}
	out := make([]byte, 0, len(s)+len(s)/8)
	for i := 0; i < len(s); {
		r, n := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(s[i:])
		}
		if r == utf8.RuneError && n == 1 {
			e.add(i, i+1, len(out), len(out)+3)
			out = append(out, "\uFFFD"...)
		} else {
			out = append(out, s[i:i+n]...)
		}
		i += n
	}
	return string(out)
}

// replace puts new for each old.
type replace struct{ old, new string }

func (r replace) apply(s string, _ place, e *edits) string {
	if e == nil {
		return strings.ReplaceAll(s, r.old, r.new)
	}
	i := strings.Index(s, r.old)
	if i < 0 {
		return s
	}
	out := make([]byte, 0, len(s)+len(s)/4)
	for at := 0; ; {
		if i < 0 {
			return string(append(out, s[at:]...))
		}
		out = append(out, s[at:at+i]...)
		at += i
		e.add(at, at+len(r.old), len(out), len(out)+len(r.new))
		out = append(out, r.new...)
		at += len(r.old)
		i = strings.Index(s[at:], r.old)
	}
}

// substitute puts new for each match of a regular expression.
type substitute struct {
	old *engine
	new string
}

func (r substitute) apply(s string, _ place, e *edits) string {
	var out []byte
	at := 0
	for _, m := range r.old.matches(s) {
		out = append(out, s[at:m.from]...)
		e.add(m.from, m.to, len(out), len(out)+len(r.new))
		out = append(out, r.new...)
		at = m.to
	}
	if out == nil {
		return s
	}
	return string(append(out, s[at:]...))
}

// prepend puts text before every section that is not empty, before the first one
// only, or only where the section does not begin so.
type prepend struct {
	text        string
	onlyFirst   bool
	unlessThere bool
}

func (p prepend) apply(s string, at place, e *edits) string {
	if s == "" || at == inside || p.onlyFirst && at != atStart || p.unlessThere && strings.HasPrefix(s, p.text) {
		return s
	}
	e.add(0, 0, 0, len(p.text))
	return p.text + s
}

// form is a normalization form of Unicode.
type form struct{ f norm.Form }

func (n form) apply(s string, _ place, e *edits) string {
	if n.f.IsNormalString(s) {
		return s
	}
	out := make([]byte, 0, len(s)+len(s)/8)
	for at := 0; at < len(s); {
		if s[at] < utf8.RuneSelf && (at+1 == len(s) || s[at+1] < utf8.RuneSelf) {
			out = append(out, s[at])
			at++
			continue
		}
		seg, marks := n.segment(s[at:])
		var made string
		if marks <= maxMarks {
			made = n.f.String(seg)
		} else {
			made = n.long(seg)
		}
		if made != seg {
			e.add(at, at+len(seg), len(out), len(out)+len(made))
		}
		out = append(out, made...)
		at += len(seg)
	}
	return string(out)
}

// maxMarks is how many combining marks in a row golang.org/x/text/unicode/norm
// leaves alone. It puts a joiner behind more of them, for streams; the reference
// does not.
const maxMarks = 30

// segment returns the start of s up to the next character that nothing before it
// can join, and how many characters may join in it.
func (n form) segment(s string) (string, int) {
	p := n.f.PropertiesString(s)
	i, marks := p.Size(), 0
	if p.CCC() != 0 || p.TrailCCC() != 0 {
		marks++
	}
	for i < len(s) {
		if p = n.f.PropertiesString(s[i:]); p.BoundaryBefore() {
			break
		}
		i += p.Size()
		marks++
	}
	return s[:i], marks
}

// long is the form of a segment of any length, by the algorithm of the standard:
// decompose, order the marks, compose.
func (n form) long(s string) string {
	apart := norm.NFD
	if n.f == norm.NFKC || n.f == norm.NFKD {
		apart = norm.NFKD
	}
	type char struct {
		r   rune
		ccc uint8
	}
	var chars []char
	for _, r := range s {
		for _, d := range apart.String(string(r)) {
			chars = append(chars, char{d, norm.NFD.PropertiesString(string(d)).CCC()})
		}
	}
	for from := 0; from < len(chars); {
		to := from + 1
		if chars[from].ccc != 0 {
			for to < len(chars) && chars[to].ccc != 0 {
				to++
			}
			slices.SortStableFunc(chars[from:to], func(a, b char) int { return int(a.ccc) - int(b.ccc) })
		}
		from = to
	}
	var out []rune
	starter, last := -1, uint8(0) // the last starter in out, and the class of what stands last behind it
	for _, c := range chars {
		if n.f == norm.NFC || n.f == norm.NFKC {
			if free := starter == len(out)-1 || last < c.ccc && last != 0; starter >= 0 && free {
				both := []rune(norm.NFC.String(string([]rune{out[starter], c.r})))
				if len(both) == 1 {
					out[starter] = both[0]
					continue
				}
			}
		}
		out = append(out, c.r)
		if c.ccc == 0 {
			starter = len(out) - 1
		}
		last = c.ccc
	}
	return string(out)
}
