package twin

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"plimsoll/internal/message"
	"plimsoll/internal/random"
	"plimsoll/internal/workload"
)

// maxPieceLetters is where a long run of letters is cut; no everyday word is
// longer.
const maxPieceLetters = 16

// nextPiece returns the length in bytes of the first token of s, which is not
// empty. The twin's tokenizer is a rule: a token is one white-space character at
// most with what follows it, which is a run of up to 16 letters, a run of up to
// three digits, or one other character. White space that is followed by more of
// it is a token of its own.
func nextPiece(s string) int {
	i := 0
	r, n := utf8.DecodeRuneInString(s)
	if unicode.IsSpace(r) {
		i = n
		if i == len(s) {
			return i
		}
		if r, n = utf8.DecodeRuneInString(s[i:]); unicode.IsSpace(r) {
			return i
		}
	}
	limit := 1
	class := func(rune) bool { return false }
	switch {
	case 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r >= utf8.RuneSelf && unicode.IsLetter(r) && !unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai):
		limit, class = maxPieceLetters, isLetter
	case '0' <= r && r <= '9':
		limit, class = 3, isDigit
	}
	for i += n; limit > 1 && i < len(s); limit-- {
		r, n = utf8.DecodeRuneInString(s[i:])
		if !class(r) {
			break
		}
		i += n
	}
	return i
}

func isLetter(r rune) bool { return r == '\'' || unicode.IsLetter(r) }
func isDigit(r rune) bool  { return '0' <= r && r <= '9' }

// CountTokens returns the number of tokens of a text by the twin's rule, which
// is also what /tokenize counts and what a prompt is charged.
func CountTokens(text string) int {
	n := 0
	for len(text) > 0 {
		text = text[nextPiece(text):]
		n++
	}
	return n
}

// speechTokens is how many tokens of an answer are made at a time, saltTokens how
// many the generator starts a text with to make it unlike any other: eight words
// and a full stop, which make no sentence. It ends a text with what fills it up,
// no more than speechFill bytes, which makes none either.
const (
	speechTokens = 320
	saltTokens   = 9
	speechFill   = 300
)

// speech makes an answer's text piece by piece: sentences of everyday words, the
// same for the same seed, however long it gets. It holds only the part that is
// being sent.
type speech struct {
	seed uint64
	left int // tokens not yet said
	part uint64
	text string // not yet said
	// After skip tokens a new text starts, of which cut bytes are said before a stop
	// text; below 0, all are.
	skip, cut int
}

// next returns the next piece of text, one token with the space before it, empty
// after the cut.
func (s *speech) next() string {
	if s.left--; s.left < 0 {
		panic("BUG: an answer went on after its last token")
	}
	if s.text == "" {
		s.text = s.sentences()
	}
	n := nextPiece(s.text)
	piece := s.text[:n]
	s.text = s.text[n:]
	switch {
	case s.skip > 1:
		s.skip--
	case s.skip == 1:
		s.skip = 0
		s.text = strings.TrimPrefix(s.sentences(), " ")
	case s.cut >= 0:
		piece = piece[:min(len(piece), s.cut)]
		s.cut -= len(piece)
	}
	return piece
}

// sentences makes the next part of the text: whole sentences, with a space before
// each but the first.
func (s *speech) sentences() string {
	p := message.Part{Generator: workload.WordsGenerator, Seed: random.Derive(s.seed, s.part), Tokens: speechTokens}
	text := string(workload.Words{}.AppendText(make([]byte, 0, 8*speechTokens), &p))
	for range saltTokens {
		text = text[nextPiece(text):]
	}
	text = text[:strings.LastIndexByte(text[:len(text)-speechFill], '.')+1]
	if s.part == 0 {
		text = strings.TrimPrefix(text, " ")
	}
	s.part++
	return text
}

// stopAt returns at which of limit tokens, after the first skip, the text holds
// one of the stop texts for the first time, 0 for never, and where to cut the text
// behind the skipped tokens. keep leaves the stop text in.
func (s speech) stopAt(stops []string, skip, limit int, keep bool) (tokens, cut int) {
	longest := 0
	for _, stop := range stops {
		longest = max(longest, len(stop))
	}
	if longest == 0 {
		return 0, -1
	}
	s.skip, s.cut = skip, -1
	var text []byte
	for i := range limit {
		piece := s.next()
		if i < skip {
			continue
		}
		from := max(0, len(text)-longest+1)
		text = append(text, piece...)
		at, end := -1, 0
		for _, stop := range stops {
			if j := bytes.Index(text[from:], []byte(stop)); stop != "" && j >= 0 && (at < 0 || from+j < at) {
				at, end = from+j, from+j+len(stop)
			}
		}
		if at >= 0 {
			if keep {
				at = end
			}
			return i + 1, at
		}
	}
	return 0, -1
}

// An answer that nobody prescribes a length for has a length drawn from its
// seed: lognormal with these quantiles, a guess at what chat users get.
var naturalAnswer = random.Dist{Kind: random.Lognormal, A: 200, B: 1000}

// textSeed derives a seed from a prompt, so that equal prompts get equal
// answers.
func textSeed(server uint64, text string, choice int) uint64 {
	return random.Derive(server, hashText(text), uint64(choice))
}

// hashText is FNV-1a.
func hashText(text string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return h
}
