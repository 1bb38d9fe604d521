package tokenizer

import "unicode/utf8"

// A pattern splits text as one regular expression of the field does. It returns
// where the first piece of s ends, s being neither empty nor cut from within a
// piece. None of these expressions looks behind itself, so the rest of a text
// splits as if it stood alone.
type pattern func(c *classes, s string) int

// The regular expressions that have a splitter of their own, as files write them.
const (
	// gpt2Pattern is GPT-2's, and ByteLevel's own.
	gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	// llama3Pattern is also GLM 4's, and cl100k as tokenizer.json files have it.
	llama3Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	// cl100kPattern is the one of tiktoken 0.14: white space at the end is one piece.
	cl100kPattern = `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s`
	// qwenPattern is that of Qwen 2 to 3, qwen35Pattern that of Qwen 3.5.
	qwenPattern   = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen35Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	// o200kPattern is that of GPT-4o and gpt-oss.
	o200kPattern = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	// kimiPattern is that of Moonlight and Kimi K2. It intersects character classes,
	// which the general engine cannot.
	kimiPattern = `[\p{Han}]+` +
		`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	// DeepSeek V3 has three, one behind the other.
	deepseekNumbersPattern = `\p{N}{1,3}`
	deepseekCJKPattern     = `[一-龥぀-ゟ゠-ヿ]+`
	deepseekWordsPattern   = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+" +
		"| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
)

// patterns are the splitters. Every other expression goes through a general
// engine, several times slower.
var patterns = map[string]pattern{
	gpt2Pattern:            gpt2,
	llama3Pattern:          llama3,
	cl100kPattern:          cl100k,
	qwenPattern:            qwen,
	qwen35Pattern:          qwen35,
	o200kPattern:           o200k,
	kimiPattern:            kimi,
	deepseekNumbersPattern: deepseekNumbers,
	deepseekCJKPattern:     deepseekCJK,
	deepseekWordsPattern:   deepseekWords,
}

func gpt2(c *classes, s string) int {
	if s[0] == '\'' {
		if n := contraction(s, false); n > 0 {
			return n
		}
	}
	i := 0
	if s[0] == ' ' {
		i = 1
	}
	switch k, _ := c.at(s, i); {
	case i == len(s) || k&space != 0:
		return blanks(c, s, gpt2Blanks)
	case k&letter != 0:
		return c.run(s, i, letter, 0)
	case k&number != 0:
		return c.run(s, i, number, 0)
	default:
		return c.runNot(s, i, space|letter|number)
	}
}

func llama3(c *classes, s string) int { return words(c, s, letter, 3, false) }
func cl100k(c *classes, s string) int { return words(c, s, letter, 3, true) }
func qwen(c *classes, s string) int   { return words(c, s, letter, 1, false) }
func qwen35(c *classes, s string) int { return words(c, s, letter|mark, 1, false) }

// words splits as cl100k and its kin do: word is what words are made of, digits
// how many digits make one piece, tail whether white space at the end of the text
// is one piece.
func words(c *classes, s string, word uint8, digits int, tail bool) int {
	first, n := c.at(s, 0)
	if s[0] == '\'' {
		if n := contraction(s, true); n > 0 {
			return n
		}
	}
	if first&(letter|number) == 0 && s[0] != '\n' && s[0] != '\r' {
		// [^\r\n\p{L}\p{N}]? takes one character, if a word follows it.
		if k, _ := c.at(s, n); k&word != 0 {
			return c.run(s, n, word, 0)
		}
	}
	if first&word != 0 {
		return c.run(s, 0, word, 0)
	}
	if first&number != 0 {
		return few(c, s, digits)
	}
	if end := signs(c, s, space|word|number, false); end > 0 {
		return end
	}
	if tail {
		return blanks(c, s, tailBlanks)
	}
	return blanks(c, s, lineBlanks)
}

func o200k(c *classes, s string) int { return camel(c, s, 0, true) }

func kimi(c *classes, s string) int {
	if k, _ := c.at(s, 0); k&han != 0 {
		return c.run(s, 0, han, 0)
	}
	return camel(c, s, han, false)
}

// camel splits as o200k and its kin do, where words also end between lower and
// upper case. Characters of not are in no word; slash says whether slashes join
// the signs before them.
func camel(c *classes, s string, not uint8, slash bool) int {
	first, n := c.at(s, 0)
	prefix := first&(letter|number) == 0 && s[0] != '\n' && s[0] != '\r'
	for _, ends := range [...]func(*classes, string, int, uint8) int{capitalized, shouted} {
		end := 0
		if prefix {
			end = ends(c, s, n, not)
		}
		if end == 0 {
			end = ends(c, s, 0, not)
		}
		if end > 0 {
			return end + contraction(s[end:], true)
		}
	}
	if first&number != 0 {
		return few(c, s, 3)
	}
	if end := signs(c, s, space|letter|number, slash); end > 0 {
		return end
	}
	return blanks(c, s, lineBlanks)
}

const (
	notLower = upper | caseless | mark
	notUpper = lower | caseless | mark
)

// capitalized is [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+ from i
// on; 0 where it does not match.
func capitalized(c *classes, s string, i int, not uint8) int {
	giveBack := 0 // the end behind the last character that both halves may take
	for {
		k, n := c.at(s, i)
		if k&notLower == 0 || k&not != 0 {
			break
		}
		i += n
		if k&notUpper != 0 {
			giveBack = i
		}
	}
	if end := c.run(s, i, notUpper, not); end > i {
		return end
	}
	return giveBack
}

// shouted is [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]* from i on; 0
// where it does not match.
func shouted(c *classes, s string, i int, not uint8) int {
	end := c.run(s, i, notLower, not)
	if end == i {
		return 0
	}
	return c.run(s, end, notUpper, not)
}

// contraction is (?i:'s|'t|'re|'ve|'m|'ll|'d) at the start of s, without regard to
// case if fold; 0 where it does not match.
func contraction(s string, fold bool) int {
	if len(s) < 2 || s[0] != '\'' {
		return 0
	}
	at := func(i int) byte {
		if i >= len(s) {
			return 0
		}
		if b := s[i]; fold && 'A' <= b && b <= 'Z' {
			return b + 'a' - 'A'
		}
		return s[i]
	}
	switch a, b := at(1), at(2); {
	case a == 's', a == 't', a == 'm', a == 'd':
		return 2
	case a == 'r' && b == 'e', a == 'v' && b == 'e', a == 'l' && b == 'l':
		return 3
	case fold && a == 0xc5 && b == 0xbf: // the long s is an s in another case
		return 3
	}
	return 0
}

// few returns where at most n digits at the start of s end.
func few(c *classes, s string, n int) int {
	i := 0
	for range n {
		k, size := c.at(s, i)
		if k&number == 0 {
			break
		}
		i += size
	}
	return i
}

// signs is ` ?[^not]+[\r\n]*`, with slashes in the last class if slash; 0 where it
// does not match.
func signs(c *classes, s string, not uint8, slash bool) int {
	from := 0
	if s[0] == ' ' {
		from = 1
	}
	i := c.runNot(s, from, not)
	if i == from {
		return 0
	}
	return lines(s, i, slash)
}

func lines(s string, i int, slash bool) int {
	for i < len(s) && (s[i] == '\n' || s[i] == '\r' || slash && s[i] == '/') {
		i++
	}
	return i
}

// The ways in which patterns take white space.
const (
	gpt2Blanks = iota // \s+(?!\S)|\s+
	lineBlanks        // \s*[\r\n]+|\s+(?!\S)|\s+
	tailBlanks        // \s+$|\s*[\r\n]+|\s+(?!\S)|\s+
)

// blanks returns where white space at the start of s ends in that way.
func blanks(c *classes, s string, way int) int {
	i, last, line := 0, 0, 0
	for {
		k, n := c.at(s, i)
		if k&space == 0 {
			break
		}
		if s[i] == '\n' || s[i] == '\r' {
			line = i + 1
		}
		last = i
		i += n
	}
	switch {
	case i == 0:
		return other(s)
	case i == len(s) && (way != lineBlanks || line == 0):
		return i
	case line > 0 && way != gpt2Blanks:
		return line
	case i < len(s) && last > 0:
		return last // \s+(?!\S) leaves the last one to what follows
	}
	return i
}

// other is one character that no alternative takes.
func other(s string) int {
	_, n := utf8.DecodeRuneInString(s)
	return n
}

func deepseekNumbers(c *classes, s string) int {
	if n := few(c, s, 3); n > 0 {
		return n
	}
	return c.runNot(s, 0, number)
}

func deepseekCJK(_ *classes, s string) int {
	in := func(r rune) bool { return 0x4e00 <= r && r <= 0x9fa5 || 0x3040 <= r && r <= 0x30ff }
	first, i := utf8.DecodeRuneInString(s)
	for i < len(s) {
		r, n := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(s[i:])
		}
		if in(r) != in(first) {
			break
		}
		i += n
	}
	return i
}

func deepseekWords(c *classes, s string) int {
	for i := 0; i < len(s); {
		if end := deepseekWord(c, s[i:]); end > 0 {
			if i > 0 {
				return i // what no alternative takes is a piece of its own
			}
			return end
		}
		i += other(s[i:])
	}
	return len(s)
}

func deepseekWord(c *classes, s string) int {
	first, n := c.at(s, 0)
	if n == 1 && first&punct != 0 {
		i := 1
		for i < len(s) && ('a' <= s[i]|0x20 && s[i]|0x20 <= 'z') {
			i++
		}
		if i > 1 {
			return i
		}
	}
	if first&(letter|punct) == 0 && s[0] != '\n' && s[0] != '\r' {
		if k, _ := c.at(s, n); k&(letter|mark) != 0 {
			return c.run(s, n, letter|mark, 0)
		}
	}
	if first&(letter|mark) != 0 {
		return c.run(s, 0, letter|mark, 0)
	}
	from := 0
	if s[0] == ' ' {
		from = 1
	}
	if i := c.run(s, from, punct, 0); i > from {
		return lines(s, i, false)
	}
	if first&space != 0 {
		return blanks(c, s, lineBlanks)
	}
	return 0
}
