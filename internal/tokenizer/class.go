package tokenizer

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// What the patterns of the field ask of a character, as bits.
const (
	upper    = 1 << iota // Lu, Lt
	lower                // Ll
	caseless             // Lm, Lo
	mark                 // M
	number               // N
	space                // White_Space
	punct                // P, S
	han                  // script Han

	letter = upper | lower | caseless
)

// classes holds the bits of every character of the basic plane; the others are
// looked up.
type classes [0x10000]uint8

var ranges = []struct {
	bit    uint8
	tables []*unicode.RangeTable
}{
	{upper, []*unicode.RangeTable{unicode.Lu, unicode.Lt}},
	{lower, []*unicode.RangeTable{unicode.Ll}},
	{caseless, []*unicode.RangeTable{unicode.Lm, unicode.Lo}},
	{mark, []*unicode.RangeTable{unicode.M}},
	{number, []*unicode.RangeTable{unicode.N}},
	{space, []*unicode.RangeTable{unicode.White_Space}},
	{punct, []*unicode.RangeTable{unicode.P, unicode.S}},
	{han, []*unicode.RangeTable{unicode.Han}},
}

// basicPlane is made at the first use and never changes.
var basicPlane = sync.OnceValue(func() *classes {
	var c classes
	for _, r := range ranges {
		for _, t := range r.tables {
			for _, r16 := range t.R16 {
				for x := int(r16.Lo); x <= int(r16.Hi); x += int(r16.Stride) {
					c[x] |= r.bit
				}
			}
		}
	}
	return &c
})

// at returns the class and the size of the character at s[i:], 0 and 0 at the
// end.
func (c *classes) at(s string, i int) (uint8, int) {
	if i >= len(s) {
		return 0, 0
	}
	if b := s[i]; b < utf8.RuneSelf {
		return c[b], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return c.of(r), n
}

func (c *classes) of(r rune) uint8 {
	if r < 0x10000 {
		return c[r]
	}
	var bits uint8
	for _, g := range ranges {
		if unicode.IsOneOf(g.tables, r) {
			bits |= g.bit
		}
	}
	return bits
}

// run returns where the characters of s from i on that have a bit of want and
// none of not end.
func (c *classes) run(s string, i int, want, not uint8) int {
	for {
		k, n := c.at(s, i)
		if k&want == 0 || k&not != 0 {
			return i
		}
		i += n
	}
}

// runNot returns where the characters of s from i on that have no bit of not
// end.
func (c *classes) runNot(s string, i int, not uint8) int {
	for i < len(s) {
		k, n := c.at(s, i)
		if k&not != 0 {
			return i
		}
		i += n
	}
	return i
}

// wordly says whether \w of the reference's regular expressions matches r.
func wordly(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control)
}

// blank says whether \s does.
func blank(r rune) bool { return unicode.Is(unicode.White_Space, r) }
