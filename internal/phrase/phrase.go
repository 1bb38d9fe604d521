// Package phrase owns sentences that a program can read: each has a code, a text
// in English with named holes, and values that fill them. It never translates:
// who shows a sentence in another language has a text of its own for its code.
package phrase

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Value is what fills a hole: a number, or a text.
type Value struct {
	// Number is nil for a text. A share is from 0 to 1.
	Number *float64 `json:"number,omitempty"`
	// Unit is that of the number: ms, s, 1 for a share, /s; empty for a count.
	Unit string `json:"unit,omitempty"`
	// Text is a text of this program, which another language may say otherwise.
	Text string `json:"text,omitempty"`
	// Quote is what someone else wrote, or a name: the same in every language.
	Quote string `json:"quote,omitempty"`
}

// Said is what a program reads beside the sentence; its zero value is a sentence
// without a code, as a server or a user wrote it.
type Said struct {
	// Code is the stable name of the sentence.
	Code string `json:"code,omitempty"`
	// Values are those of the holes by name.
	Values map[string]Value `json:"values,omitempty"`
}

// Phrase is one sentence. It does not change after New.
type Phrase struct {
	code, text string
	holes      []string
}

// all are the phrases of the program by code: New is called while packages begin,
// which happens one after the other.
var all = map[string]*Phrase{}

var hole = regexp.MustCompile(`\{([a-z_]+)\}`)

// New makes a phrase. It belongs into a variable of a package, so that All has
// every phrase that the program can say; a code that is taken is a bug.
func New(code, text string) *Phrase {
	if all[code] != nil {
		panic("BUG: two phrases with the code " + code)
	}
	p := &Phrase{code: code, text: text}
	for _, m := range hole.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(p.holes, m[1]) {
			p.holes = append(p.holes, m[1])
		}
	}
	all[code] = p
	return p
}

// All returns the phrases of all packages that are linked in, by code.
func All() []*Phrase {
	out := make([]*Phrase, 0, len(all))
	for _, p := range all {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *Phrase) int { return strings.Compare(a.code, b.code) })
	return out
}

// Code is the stable name.
func (p *Phrase) Code() string { return p.code }

// Text is the sentence in English with its holes, as {name}.
func (p *Phrase) Text() string { return p.text }

// Holes are the names of the values, in the order of the text.
func (p *Phrase) Holes() []string { return slices.Clone(p.holes) }

// Say fills the holes with values in the order of Holes, and returns the sentence
// in English beside what a program reads. Another number of values is a bug.
func (p *Phrase) Say(values ...Value) (string, Said) {
	if len(values) != len(p.holes) {
		panic(fmt.Sprintf("BUG: the phrase %s has %d holes, not %d", p.code, len(p.holes), len(values)))
	}
	said := Said{Code: p.code}
	if len(values) > 0 {
		said.Values = make(map[string]Value, len(values))
	}
	for i, v := range values {
		said.Values[p.holes[i]] = v
	}
	return hole.ReplaceAllStringFunc(p.text, func(name string) string {
		return said.Values[name[1:len(name)-1]].String()
	}), said
}

// Count is a number of things.
func Count[T ~int | ~int64 | ~uint32 | ~uint64](n T) Value { return Number(float64(n), "") }

// Share is a share from 0 to 1, which is shown in per cent.
func Share(v float64) Value { return Number(v, "1") }

// Number is a number in a unit; what is not finite is a dash, since JSON has no
// word for it.
func Number(v float64, unit string) Value {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return Text("–")
	}
	return Value{Number: &v, Unit: unit}
}

// Text is a text of this program in English.
func Text(s string) Value { return Value{Text: s} }

// Quote is what someone else wrote, or a name.
func Quote(s string) Value { return Value{Quote: s} }

// String writes the value as an English sentence has it: counts whole, all else
// with three significant digits, times from a second on in seconds, as the report does.
func (v Value) String() string {
	switch {
	case v.Number == nil:
		return v.Text + v.Quote
	case v.Unit == "" && *v.Number == math.Trunc(*v.Number):
		return strconv.FormatFloat(*v.Number, 'f', 0, 64)
	case v.Unit == "ms" && math.Abs(*v.Number) >= 999.5:
		return Number(*v.Number/1e3, "s").String()
	case v.Unit == "1":
		return three(100**v.Number) + " %"
	}
	return strings.TrimSuffix(three(*v.Number)+" "+v.Unit, " ")
}

// three writes a figure with three significant digits.
func three(v float64) string {
	if math.Abs(v) >= 999.5 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strings.TrimSuffix(fmt.Sprintf("%#.3g", v), ".")
}
