package content

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A grammar is a text file of rules. docs/content.md describes the form; in
// short:
//
//	name =            begins a rule; each line below it is an alternative
//	name ~            the same, but no alternative comes twice before every other
//	  text {rule} [a|b|] \n
//
// In braces: a rule; ^rule with its first letter capitalised; &rule with "a" or
// "an" before it; 2-5*rule several
// times in a row; $rule expanded once per document and the same from then on;
// =rule expanded anew, silently, for $rule; #2-90 a whole number, with .2 two
// decimals, with , in groups of thousands, with ! padded by zeros; +name a
// counter that goes up and prints, @name prints it, ?name a number between 1
// and it, -name sets it to zero; with :I, :a, :A or :一 in that numbering;
// !name a part that is made by code.

// opKind is what one step of a compiled alternative does.
type opKind uint8

const (
	opText    opKind = iota // append text
	opRule                  // expand rule a
	opUpper                 // expand rule a, first letter capitalised
	opArticle               // expand rule a with "a" or "an" before it
	opRepeat                // expand rule a lo..hi times
	opOnce                  // expand rule a once per document
	opAgain                 // expand rule a anew for opOnce, silently
	opNumber                // a number of lo..hi
	opCount                 // raise counter a and print it
	opPrint                 // print counter a
	opEarlier               // print a number of 1..counter a
	opReset                 // set counter a to zero
	opCode                  // call builtin a
)

type op struct {
	kind opKind
	// style is, of numbers, 0, ',' or '!'; of counters 'I', 'a', 'A' or 'z'; of
	// texts ' ' or '.' when they begin with a space or a mark.
	style  byte
	digits uint8
	a      int32
	lo, hi int64
	text   string
}

type rule struct {
	name string
	alts [][]op
	// cycle says that the alternatives are dealt like cards; slot is the rule's
	// place among the dealt ones, or among the ones expanded once.
	cycle bool
	slot  int32
	once  int32
}

// A grammarTable is a compiled grammar. It is never changed after compiling.
type grammarTable struct {
	name     string
	rules    []rule
	index    map[string]int32
	start    int32 // the beginning of a text
	more     int32 // what follows, again and again
	cycles   int
	onces    int
	counters int
	builtins []builtin
	zh       bool
	// kind is a hash of the name (FNV-1a): texts of one seed and two kinds have
	// nothing in common.
	kind uint64
}

// builtin appends a part made by code.
type builtin func(s *state, dst []byte) []byte

// compiler is a grammar being read.
type compiler struct {
	g        *grammarTable
	counters map[string]int32
	line     int
}

// compile reads a grammar. The texts are embedded, so that an error is a
// mistake of ours: it panics.
func compile(name, text string, zh bool, builtins map[string]builtin) *grammarTable {
	g := &grammarTable{name: name, index: map[string]int32{}, zh: zh}
	g.kind = 14695981039346656037
	for i := range len(name) {
		g.kind = (g.kind ^ uint64(name[i])) * 1099511628211
	}
	c := &compiler{g: g, counters: map[string]int32{}}
	var current int32 = -1
	for line := range strings.SplitSeq(text, "\n") {
		c.line++
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "" || trimmed[0] == '#' && line[0] == '#':
		case line[0] != ' ' && line[0] != '\t':
			head, kind, _ := strings.Cut(trimmed, " ")
			if kind != "=" && kind != "~" {
				c.bug("a rule begins with its name and = or ~, got %q", line)
			}
			current = c.rule(head)
			if len(g.rules[current].alts) > 0 {
				c.bug("rule %s twice", head)
			}
			if g.rules[current].cycle = kind == "~"; g.rules[current].cycle {
				g.rules[current].slot = int32(g.cycles)
				g.cycles++
			}
		case current < 0:
			c.bug("an alternative before the first rule")
		default:
			// Lists of plain words may share a line.
			for alt := range strings.SplitSeq(trimmed, " ;; ") {
				seq := c.sequence(alt, builtins)
				g.rules[current].alts = append(g.rules[current].alts, seq)
			}
		}
	}
	for i := range g.rules {
		if len(g.rules[i].alts) == 0 {
			c.bug("rule %s is not defined", g.rules[i].name)
		}
	}
	g.counters = len(c.counters)
	g.start, g.more = c.mustRule("start"), c.mustRule("more")
	return g
}

func (c *compiler) bug(format string, args ...any) {
	panic(fmt.Sprintf("BUG: grammar %s:%d: %s", c.g.name, c.line, fmt.Sprintf(format, args...)))
}

func (c *compiler) mustRule(name string) int32 {
	i, ok := c.g.index[name]
	if !ok {
		c.bug("no rule %s", name)
	}
	return i
}

func (c *compiler) rule(name string) int32 {
	if i, ok := c.g.index[name]; ok {
		return i
	}
	i := int32(len(c.g.rules))
	c.g.rules = append(c.g.rules, rule{name: name, once: -1})
	c.g.index[name] = i
	return i
}

func (c *compiler) counter(name string) int32 {
	i, ok := c.counters[name]
	if !ok {
		i = int32(len(c.counters))
		c.counters[name] = i
	}
	return i
}

// sequence compiles one alternative.
func (c *compiler) sequence(s string, builtins map[string]builtin) []op {
	var seq []op
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			o := op{kind: opText, text: text.String()}
			switch o.text[0] {
			case ' ':
				o.style = ' '
			case '.', ',', ';', ':', ')':
				o.style = '.'
			}
			seq = append(seq, o)
			text.Reset()
		}
	}
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if i++; i == len(s) {
				c.bug("a line ends in a backslash")
			}
			switch s[i] {
			case 'n':
				text.WriteByte('\n')
			case 't':
				text.WriteByte('\t')
			case 's':
				text.WriteByte(' ')
			default:
				text.WriteByte(s[i])
			}
		case '{':
			end := strings.IndexByte(s[i:], '}')
			if end < 0 {
				c.bug("no } after %q", s[i:])
			}
			flush()
			seq = append(seq, c.brace(s[i+1:i+end], builtins))
			i += end
		case '[':
			depth, j, from := 1, i+1, i+1
			var alts [][]op
			for ; j < len(s) && depth > 0; j++ {
				switch s[j] {
				case '\\':
					j++
				case '[':
					depth++
				case ']':
					depth--
				}
				if depth == 0 || depth == 1 && s[j] == '|' {
					alts = append(alts, c.sequence(s[from:j], builtins))
					from = j + 1
				}
			}
			if depth > 0 {
				c.bug("no ] after %q", s[i:])
			}
			flush()
			n := c.rule(fmt.Sprintf("%d:%d:%d", c.line, i, len(c.g.rules)))
			c.g.rules[n].alts = alts
			seq = append(seq, op{kind: opRule, a: n})
			i = j - 1
		default:
			text.WriteByte(s[i])
		}
	}
	flush()
	return seq
}

// brace compiles what stands between { and }.
func (c *compiler) brace(s string, builtins map[string]builtin) op {
	if s == "" {
		c.bug("empty braces")
	}
	rest := s[1:]
	switch s[0] {
	case '^':
		return op{kind: opUpper, a: c.rule(rest)}
	case '&':
		return op{kind: opArticle, a: c.rule(rest)}
	case '$', '=':
		a := c.rule(rest)
		if r := &c.g.rules[a]; r.once < 0 {
			r.once = int32(c.g.onces)
			c.g.onces++
		}
		if s[0] == '=' {
			return op{kind: opAgain, a: a}
		}
		return op{kind: opOnce, a: a}
	case '+', '@', '?', '-':
		name, style, _ := strings.Cut(rest, ":")
		o := op{a: c.counter(name)}
		o.kind = map[byte]opKind{'+': opCount, '@': opPrint, '?': opEarlier, '-': opReset}[s[0]]
		switch style {
		case "":
		case "I", "a", "A":
			o.style = style[0]
		case "一":
			o.style = 'z'
		default:
			c.bug("unknown numbering %q", style)
		}
		return o
	case '!':
		f, ok := builtins[rest]
		if !ok {
			c.bug("unknown builtin %q", rest)
		}
		c.g.builtins = append(c.g.builtins, f)
		return op{kind: opCode, a: int32(len(c.g.builtins) - 1)}
	case '#':
		o := op{kind: opNumber}
		for len(rest) > 0 {
			switch last := rest[len(rest)-1]; last {
			case ',', '!':
				o.style, rest = last, rest[:len(rest)-1]
				continue
			}
			break
		}
		rest, digits, has := strings.Cut(rest, ".")
		if has {
			n, err := strconv.Atoi(digits)
			if err != nil {
				c.bug("decimals of %q", s)
			}
			o.digits = uint8(n)
		}
		lo, hi := c.span(rest)
		o.lo, o.hi = lo, hi
		return o
	}
	if span, name, ok := strings.Cut(s, "*"); ok {
		lo, hi := c.span(span)
		return op{kind: opRepeat, a: c.rule(name), lo: lo, hi: hi}
	}
	return op{kind: opRule, a: c.rule(s)}
}

// span reads "2-5" or "2".
func (c *compiler) span(s string) (lo, hi int64) {
	a, b, two := strings.Cut(s, "-")
	lo, err := strconv.ParseInt(a, 10, 64)
	hi = lo
	if err == nil && two {
		hi, err = strconv.ParseInt(b, 10, 64)
	}
	if err != nil || hi < lo {
		c.bug("bad range %q", s)
	}
	return lo, hi
}

// state is a document being written. States are pooled: in steady use nothing
// is allocated.
type state struct {
	g *grammarTable
	// rng is a SplitMix64 counter: one multiplication less than PCG, and a
	// document needs no more than independence of its seed.
	rng      uint64
	deals    []deal
	once     []span
	scratch  []byte
	counters []int64
	depth    int
	// day is the document's clock in days since 2000-01-01; doc counts the
	// documents of the text.
	day int
	doc int
	// walk is a price or a measure that goes on from one row to the next.
	walk [8]int64
	// limit is the length of dst at which writing may stop.
	limit int
}

// deal is where a rule stands in its own order of alternatives.
type deal struct {
	at, step, left uint32
}

// span is a part of scratch; zero length means not yet expanded.
type span struct{ from, to int32 }

// maxDepth bounds recursion; a grammar that reaches it is wrong.
const maxDepth = 64

func (s *state) reset(g *grammarTable, seed uint64) {
	s.g, s.rng, s.depth, s.day, s.doc = g, seed, 0, 0, 0
	s.deals = zeroed(s.deals, g.cycles)
	s.once = zeroed(s.once, g.onces)
	s.counters = zeroed(s.counters, g.counters)
	s.scratch = s.scratch[:0]
	s.walk = [8]int64{}
}

// newDocument forgets names and counters, not what has been dealt.
func (s *state) newDocument() {
	clear(s.once)
	clear(s.counters)
	s.scratch = s.scratch[:0]
	s.day = 0
	s.walk = [8]int64{}
	s.doc++
}

func zeroed[T any](list []T, n int) []T {
	if cap(list) < n {
		return make([]T, n)
	}
	list = list[:n]
	clear(list)
	return list
}

// next draws 64 bits (SplitMix64).
func (s *state) next() uint64 {
	s.rng += 0x9e3779b97f4a7c15
	z := s.rng
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// below draws a number of 0..n-1 by multiplication, whose bias at these sizes
// is below 2^-40.
func (s *state) below(n int) int {
	hi, _ := bits.Mul64(s.next(), uint64(n))
	return int(hi)
}

// between draws a number of lo..hi.
func (s *state) between(lo, hi int64) int64 {
	h, _ := bits.Mul64(s.next(), uint64(hi-lo)+1)
	return lo + int64(h)
}

// pick chooses an alternative of r.
func (s *state) pick(r *rule) []op {
	n := len(r.alts)
	if n == 1 {
		return r.alts[0]
	}
	if !r.cycle {
		return r.alts[s.below(n)]
	}
	d := &s.deals[r.slot]
	if d.left == 0 {
		d.left = uint32(n)
		d.at = uint32(s.below(n))
		d.step = coprime(uint32(s.below(n)), uint32(n))
	}
	d.left--
	d.at += d.step
	if d.at >= uint32(n) {
		d.at -= uint32(n)
	}
	return r.alts[d.at]
}

// coprime returns the first number from x up, modulo n, that shares no divisor
// with n and is at least 1.
func coprime(x, n uint32) uint32 {
	for {
		if x %= n; x > 0 {
			a, b := x, n
			for b != 0 {
				a, b = b, a%b
			}
			if a == 1 {
				return x
			}
		}
		x++
	}
}

func (s *state) rule(dst []byte, i int32) []byte {
	if s.depth++; s.depth > maxDepth {
		panic("BUG: grammar " + s.g.name + ": rule " + s.g.rules[i].name + " has no end")
	}
	dst = s.run(dst, s.pick(&s.g.rules[i]))
	s.depth--
	return dst
}

// named expands a rule by its name.
func (s *state) named(dst []byte, name string) []byte { return s.rule(dst, s.g.index[name]) }

func (s *state) run(dst []byte, seq []op) []byte {
	for i := range seq {
		if len(dst) >= s.limit {
			break // what follows would be cut off
		}
		o := &seq[i]
		switch o.kind {
		case opText:
			text := o.text
			if n := len(dst); n > 0 && dst[n-1] == ' ' && o.style != 0 {
				// An empty choice came before: no second space, and none before
				// a full stop.
				if o.style == ' ' {
					text = text[1:]
				} else {
					dst = dst[:n-1]
				}
			}
			dst = append(dst, text...)
		case opRule:
			dst = s.rule(dst, o.a)
		case opUpper:
			from := len(dst)
			dst = s.rule(dst, o.a)
			if from < len(dst) && 'a' <= dst[from] && dst[from] <= 'z' {
				dst[from] -= 'a' - 'A'
			}
		case opArticle:
			from := len(dst) + 2
			dst = append(dst, "a "...)
			dst = s.rule(dst, o.a)
			if from < len(dst) && strings.IndexByte("aeiouAEIOU", dst[from]) >= 0 {
				dst = append(dst, 0)
				copy(dst[from:], dst[from-1:])
				dst[from-1] = 'n'
			}
		case opRepeat:
			for n := s.between(o.lo, o.hi); n > 0; n-- {
				dst = s.rule(dst, o.a)
			}
		case opOnce:
			dst = s.kept(dst, o.a)
		case opAgain:
			s.once[s.g.rules[o.a].once] = span{}
			from := len(dst)
			dst = s.kept(dst, o.a)[:from]
		case opNumber:
			dst = appendNumber(dst, s.between(o.lo, o.hi), o.style, o.digits)
		case opCount:
			s.counters[o.a]++
			dst = appendCounter(dst, s.counters[o.a], o.style)
		case opPrint:
			dst = appendCounter(dst, s.counters[o.a], o.style)
		case opEarlier:
			dst = appendCounter(dst, s.between(1, max(1, s.counters[o.a])), o.style)
		case opReset:
			s.counters[o.a] = 0
		case opCode:
			dst = s.g.builtins[o.a](s, dst)
		}
	}
	return dst
}

// kept appends rule i as it was expanded first in this document.
func (s *state) kept(dst []byte, i int32) []byte {
	r := &s.g.rules[i]
	if k := s.once[r.once]; k.to > k.from {
		return append(dst, s.scratch[k.from:k.to]...)
	}
	from := len(dst)
	dst = s.rule(dst, i)
	at := int32(len(s.scratch))
	s.scratch = append(s.scratch, dst[from:]...)
	s.once[r.once] = span{at, int32(len(s.scratch))}
	return dst
}

// appendNumber appends v, whose last digits digits are decimals.
func appendNumber(dst []byte, v int64, style byte, digits uint8) []byte {
	if v < 0 {
		dst = append(dst, '-')
		v = -v
	}
	unit := int64(1)
	for range digits {
		unit *= 10
	}
	switch whole := v / unit; style {
	case ',':
		dst = appendGrouped(dst, whole)
	case '!':
		if whole < 10 {
			dst = append(dst, '0')
		}
		dst = strconv.AppendInt(dst, whole, 10)
	default:
		dst = strconv.AppendInt(dst, whole, 10)
	}
	if digits > 0 {
		dst = append(dst, '.')
		for unit /= 10; unit > 0; unit /= 10 {
			dst = append(dst, byte('0'+v/unit%10))
		}
	}
	return dst
}

// appendGrouped appends v >= 0 in groups of thousands.
func appendGrouped(dst []byte, v int64) []byte {
	if v >= 1000 {
		dst = appendGrouped(dst, v/1000)
		r := v % 1000
		return append(dst, ',', byte('0'+r/100), byte('0'+r/10%10), byte('0'+r%10))
	}
	return strconv.AppendInt(dst, v, 10)
}

func appendCounter(dst []byte, v int64, style byte) []byte {
	switch style {
	case 'I':
		return appendRoman(dst, v)
	case 'a':
		return append(dst, byte('a'+max(0, v-1)%26))
	case 'A':
		return append(dst, byte('A'+max(0, v-1)%26))
	case 'z':
		return appendHan(dst, v)
	}
	return strconv.AppendInt(dst, v, 10)
}

func appendRoman(dst []byte, v int64) []byte {
	values := [...]int64{100, 90, 50, 40, 10, 9, 5, 4, 1}
	signs := [...]string{"C", "XC", "L", "XL", "X", "IX", "V", "IV", "I"}
	for i, x := range values {
		for ; v >= x; v -= x {
			dst = append(dst, signs[i]...)
		}
	}
	return dst
}

const hanDigits = "零一二三四五六七八九"

func hanDigit(d int64) string { return hanDigits[3*d : 3*d+3] }

// appendHan appends 0 <= v < 10,000 in Chinese numerals.
func appendHan(dst []byte, v int64) []byte {
	if v == 0 {
		return append(dst, "零"...)
	}
	started, gap := false, false
	for i, unit := range [...]int64{1000, 100, 10, 1} {
		d := v / unit % 10
		if d == 0 {
			gap = started
			continue
		}
		if gap {
			dst = append(dst, "零"...)
			gap = false
		}
		if d != 1 || unit != 10 || started {
			dst = append(dst, hanDigit(d)...)
		}
		dst = append(dst, [...]string{"千", "百", "十", ""}[i]...)
		started = true
	}
	return dst
}

// cut shortens text to at most limit bytes, at the end of a word or, in
// Chinese, of a character.
func cut(text []byte, from, limit int) []byte {
	if len(text) <= limit {
		return text
	}
	end := limit
	for end > from && !utf8.RuneStart(text[end]) {
		end--
	}
	// Go back to the end of a word, but not far: a long number or name may be
	// cut.
	for i := end; i > from && i > end-24; i-- {
		if c := text[i]; c == ' ' || c == '\n' || c >= utf8.RuneSelf {
			if c >= utf8.RuneSelf && !utf8.RuneStart(c) {
				continue
			}
			return text[:i]
		}
	}
	return text[:end]
}
