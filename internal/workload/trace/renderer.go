package trace

import (
	"bytes"
	"strconv"
	"strings"

	"plimsoll/internal/message"
	"plimsoll/internal/workload/content"
)

// A block that is full in one prompt may be the last, cut one of another, and must
// then be the beginning of the same text. Generators may make texts of different
// lengths that begin differently, so a cut part names the length that it is cut
// from.

// cutPrefix begins the generator's name of a cut part: cut:FULL:NAME.
const cutPrefix = "cut:"

// CutName returns the generator of a part that is the first tokens tokens of a
// text of full tokens made by generator: generator itself when it is all of it.
func CutName(generator string, tokens, full int) string {
	if tokens >= full {
		return generator
	}
	if _, of, inner := cutOf(generator); of > 0 {
		full, generator = of, inner // a cut of a cut
	}
	return cutPrefix + strconv.Itoa(full) + ":" + generator
}

// Whole returns the generator that a name, perhaps of a cut part, stands for.
func Whole(name string) string {
	_, _, inner := cutOf(name)
	return inner
}

// cutOf takes such a name apart.
func cutOf(name string) (ok bool, full int, inner string) {
	rest, ok := strings.CutPrefix(name, cutPrefix)
	if !ok {
		return false, 0, name
	}
	digits, inner, ok := strings.Cut(rest, ":")
	full, err := strconv.Atoi(digits)
	if !ok || err != nil || full < 1 || full > maxTokens {
		return false, 0, name
	}
	return true, full, inner
}

// Renderer renders the parts of a replay: those that are cut by the beginning of
// what they are cut from, all others as Inner does.
type Renderer struct {
	Inner message.Renderer
	// Cut returns the length in bytes of the longest beginning of text that is at
	// most tokens tokens; a tokenizer's own. Nil cuts plain words where words and
	// punctuation marks end, exactly where each is a token, and others by the share of
	// the length.
	Cut func(text string, tokens int) int
}

// Whole returns the part whose text begins with that of p, and whether it is another.
func (r *Renderer) Whole(p *message.Part) (message.Part, bool) {
	ok, full, inner := cutOf(p.Generator)
	whole := *p
	if p.Text != "" || !ok {
		return whole, false
	}
	whole.Generator, whole.Tokens = inner, full
	return whole, true
}

// AppendCut appends the text of p, which is a beginning of text: that of Whole. It
// makes none.
func (r *Renderer) AppendCut(dst, text []byte, p *message.Part) []byte {
	_, full, inner := cutOf(p.Generator)
	end := len(text)
	switch {
	case p.Tokens >= full:
	case r.Cut != nil:
		end = r.Cut(string(text), p.Tokens)
	case inner == content.WordsName || inner == "":
		end = pieces(text, p.Tokens, full)
	default:
		end = end * p.Tokens / full
		for end > 0 && text[end-1]&0xc0 == 0x80 {
			end-- // never inside a character
		}
		if end > 0 && end < len(text) && text[end-1] >= 0xc0 {
			end--
		}
	}
	return append(dst, text[:end]...)
}

// AppendText appends the text of p.
func (r *Renderer) AppendText(dst []byte, p *message.Part) []byte {
	whole, cut := r.Whole(p)
	if !cut {
		return r.Inner.AppendText(dst, p)
	}
	from := len(dst)
	dst = r.Inner.AppendText(dst, &whole)
	return r.AppendCut(dst[:from], dst[from:], p) // onto itself
}

// AppendMedia appends media as Inner does, which makes them where there are any.
func (r *Renderer) AppendMedia(dst []byte, m *message.Media) []byte {
	return r.Inner.(message.MediaRenderer).AppendMedia(dst, m)
}

// pieces returns the length of the beginning of text that is to it as tokens to full,
// in words and punctuation marks: as many of them as tokens where each is one. It
// counts by stretches, since to go through the text costs more than to make it.
func pieces(text []byte, tokens, full int) int {
	if tokens <= 0 || len(text) == 0 {
		return 0
	}
	n := max(1, tokens*(1+beginnings(text))/full)
	end := 0
	const stretch = 1024
	for end+stretch <= len(text) {
		k := beginnings(text[end : end+stretch])
		if k >= n {
			break
		}
		n -= k
		end += stretch
	}
	for ; end < len(text); end++ {
		if c := text[end]; c == ' ' || c == '.' || c == ',' {
			if n--; n == 0 {
				break
			}
		}
	}
	return end
}

// beginnings counts the words and marks of text that begin in it: a word does with the
// space before it, but for the first of all.
func beginnings(text []byte) int {
	return bytes.Count(text, []byte{' '}) + bytes.Count(text, []byte{'.'}) + bytes.Count(text, []byte{','})
}
