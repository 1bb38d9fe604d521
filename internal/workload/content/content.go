package content

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"plimsoll/internal/random"
	"plimsoll/internal/strictyaml"
)

// Lang is the language of a text.
type Lang uint8

// The languages that every generator writes, except words (English only).
const (
	English Lang = iota
	Chinese
)

// String returns the language's code, "en" or "zh".
func (l Lang) String() string {
	if l == Chinese {
		return "zh"
	}
	return "en"
}

// Generator makes texts of one kind. It may be used from many goroutines at once.
type Generator interface {
	// Append appends a text of about tokens tokens made of seed and returns the
	// extended slice. Equal (seed, tokens, lang) give equal bytes on every
	// machine; different seeds differ within their first tokens, where the text
	// spells the seed's 64 bits as a number that such a document carries. The
	// text ends when its length in bytes is the asked tokens times
	// BytesPerToken, at the end of a word. Beyond dst's growth nothing is
	// allocated in steady use.
	Append(dst []byte, seed uint64, tokens int, lang Lang) []byte
	// BytesPerToken is the calibrated length of a token of this kind of text,
	// in thousandths of a byte; see calibrations for where it comes from.
	BytesPerToken(lang Lang) int
}

//go:embed grammar/*.txt
var grammars embed.FS

// Names lists the generators, sorted.
func Names() []string {
	names := make([]string, 0, len(kinds)+1)
	for n := range kinds {
		names = append(names, n)
	}
	names = append(names, WordsName)
	slices.Sort(names)
	return names
}

// Parse splits the name of a part's generator: "contract" is English,
// "contract/zh" Chinese.
func Parse(name string) (Generator, Lang, error) {
	base, code, has := strings.Cut(name, "/")
	lang := English
	switch {
	case !has || code == "en":
	case code == "zh":
		lang = Chinese
	default:
		return nil, 0, fmt.Errorf("look up generator %q: unknown language %q, want en or zh", name, code)
	}
	g, err := Lookup(base)
	if err == nil && lang == Chinese && base == WordsName {
		err = fmt.Errorf("look up generator %q: words are English only; prose/zh is plain Chinese", name)
	}
	return g, lang, err
}

// Lookup returns the generator of a name without a language: one of Names. The
// error names the nearest ones.
func Lookup(name string) (Generator, error) {
	if name == WordsName {
		return wordsGenerator{}, nil
	}
	if g, ok := kinds[name]; ok {
		return g, nil
	}
	if near := strictyaml.Nearest(name, Names()); near != "" {
		return nil, fmt.Errorf("look up generator %q: unknown; did you mean %q? (known: %s, and file:PATH)", name, near, strings.Join(Names(), ", "))
	}
	return nil, fmt.Errorf("look up generator %q: unknown, want one of %s, or file:PATH", name, strings.Join(Names(), ", "))
}

// wordsGenerator is Words as a Generator.
type wordsGenerator struct{}

func (wordsGenerator) Append(dst []byte, seed uint64, tokens int, _ Lang) []byte {
	return appendWords(dst, seed, tokens)
}

func (wordsGenerator) BytesPerToken(Lang) int { return calibrations[WordsName][English].mean }

// document is a Generator made of one grammar for each language.
type document struct {
	name  string
	table [2]func() *grammarTable
}

// kinds are the generators of documents.
var kinds = func() map[string]*document {
	m := map[string]*document{}
	for _, name := range []string{"contract", "caselaw", "filing", "patient", "findings", "paper", "ticks", "code", "prose"} {
		d := &document{name: name}
		for _, lang := range []Lang{English, Chinese} {
			d.table[lang] = sync.OnceValue(func() *grammarTable { return load(name, lang) })
		}
		m[name] = d
	}
	return m
}()

// load compiles a grammar: its own rules, those that a patient's record and findings
// on a patient share, and the names that all kinds of a language share.
func load(name string, lang Lang) *grammarTable {
	var text strings.Builder
	files := []string{name, "names"}
	if name == "patient" || name == "findings" {
		files = []string{name, "clinical", "names"}
	}
	for _, f := range files {
		f += "." + lang.String()
		b, err := grammars.ReadFile("grammar/" + f + ".txt")
		if err != nil {
			panic("BUG: no grammar " + f)
		}
		text.Write(b)
		text.WriteByte('\n')
	}
	return compile(name+"."+lang.String(), text.String(), lang == Chinese, builtins)
}

// states are documents that nobody writes.
var states = sync.Pool{New: func() any { return new(state) }}

// maxBytes bounds one text: 2^20 tokens, four bytes each, are well below it.
const maxBytes = 64 << 20

func (d *document) BytesPerToken(lang Lang) int { return calibrations[d.name][lang].mean }

func (d *document) Append(dst []byte, seed uint64, tokens int, lang Lang) []byte {
	return d.appendBytes(dst, seed, bytesOf(tokens, d.BytesPerToken(lang)), lang)
}

// saltBytes is the length of the number that a text begins with, saltTokens what it
// counts: the mean of 15 (Llama 3.1, gpt-oss, DeepSeek V3) and 25 (Qwen 3, Gemma 3, a
// token a digit). A byte of it counts three to four times what one of English prose does,
// which decides about the length of short texts.
const (
	saltBytes  = 24
	saltTokens = 19
)

// bytesOf is the length of a text of tokens tokens: its number, then text of milli
// thousandths of a byte a token.
func bytesOf(tokens, milli int) int {
	if tokens <= saltTokens {
		return max(tokens, 0) * saltBytes / saltTokens
	}
	return int(min(saltBytes+int64(tokens-saltTokens)*int64(milli)/1000, maxBytes))
}

// appendBytes appends a text of about n bytes, at most n.
func (d *document) appendBytes(dst []byte, seed uint64, n int, lang Lang) []byte {
	if n <= 0 {
		return dst
	}
	s := states.Get().(*state)
	g := d.table[lang]()
	s.reset(g, random.Derive(seed, g.kind))
	from := len(dst)
	limit := from + n
	s.limit = limit
	dst = appendSalt(dst, seed^g.kind)
	dst = s.rule(dst, g.start)
	for len(dst) < limit {
		before := len(dst)
		if dst = s.rule(dst, g.more); len(dst) == before {
			panic("BUG: grammar " + g.name + ": rule more makes nothing")
		}
	}
	states.Put(s) // another's from here on
	return cut(dst, from, limit)
}

// appendSalt appends the number that tells the seed's document from all others:
// 20 digits, which hold 64 bits one to one, in groups of four, as document
// management systems stamp them.
func appendSalt(dst []byte, seed uint64) []byte {
	v := random.Derive(seed) // without labels one to one
	var b [saltBytes]byte
	for i := len(b) - 1; i >= 0; i-- {
		if i%5 == 4 && i < 23 {
			b[i] = '-'
			continue
		}
		b[i] = byte('0' + v%10)
		v /= 10
	}
	return append(dst, b[:]...)
}
