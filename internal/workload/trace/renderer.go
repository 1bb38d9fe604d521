package trace

import (
	"strconv"
	"strings"

	"plimsoll/internal/message"
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
	// most tokens tokens; a tokenizer's own. Nil cuts where words and punctuation
	// marks end, so many of them as there are tokens, which is exact for plain words
	// and an estimate by the share of the length for others.
	Cut func(text string, tokens int) int
}

// Makes returns the length of the text that is made for p, in tokens, of which its
// own may be only the beginning.
func (r *Renderer) Makes(p *message.Part) int {
	_, full, _ := cutOf(p.Generator)
	return max(full, p.Tokens)
}

// AppendText appends the text of p.
func (r *Renderer) AppendText(dst []byte, p *message.Part) []byte {
	ok, full, inner := cutOf(p.Generator)
	if p.Text != "" || !ok {
		return r.Inner.AppendText(dst, p)
	}
	whole := *p
	whole.Generator, whole.Tokens = inner, full
	from := len(dst)
	dst = r.Inner.AppendText(dst, &whole)
	if p.Tokens >= full {
		return dst
	}
	if r.Cut != nil {
		return dst[:from+r.Cut(string(dst[from:]), p.Tokens)]
	}
	if text := dst[from:]; inner == "words" || inner == "" {
		return dst[:from+pieces(text, p.Tokens)]
	}
	end := from + (len(dst)-from)*p.Tokens/full
	for end > from && dst[end-1]&0xc0 == 0x80 {
		end-- // never inside a character
	}
	if end > from && end < len(dst) && dst[end-1] >= 0xc0 {
		end--
	}
	return dst[:end]
}

// AppendMedia appends media as Inner does, which makes them where there are any.
func (r *Renderer) AppendMedia(dst []byte, m *message.Media) []byte {
	return r.Inner.(message.MediaRenderer).AppendMedia(dst, m)
}

// pieces returns the length of the first n words and punctuation marks of text.
func pieces(text []byte, n int) int {
	i := 0
	for ; n > 0 && i < len(text); n-- {
		if text[i] == ' ' {
			i++
		}
		if i < len(text) && (text[i] == '.' || text[i] == ',') {
			i++
			continue
		}
		for i < len(text) && text[i] != ' ' && text[i] != '.' && text[i] != ',' {
			i++
		}
	}
	return i
}
