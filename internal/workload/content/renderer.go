package content

import (
	"fmt"
	"math"
	"strings"

	"plimsoll/internal/message"
)

// Tokenizer counts and cuts text as a model does. Implementations must be safe
// for concurrent use.
type Tokenizer interface {
	// Count returns the number of tokens of text.
	Count(text string) int
	// Cut returns the length in bytes of the longest prefix of text that is
	// exactly n tokens when it is encoded alone; of all of text when it has no
	// more.
	Cut(text string, n int) int
}

// Renderer makes the text of parts: given text as it is, and otherwise what the
// generator that the part names makes of its seed. Names are those of Names,
// with "/zh" for Chinese, or "file:PATH" for windows of the user's documents. It
// never fails: callers ask Check about every name before a run; a name that it
// does not know is rendered as words. The zero value is ready for use. It may be
// used from many goroutines at once, if its Tokenizer may.
type Renderer struct {
	// Tokenizer, when given, makes every length exact, at the cost of encoding
	// the text; it belongs off the send path. Otherwise lengths are calibrated.
	Tokenizer Tokenizer
	// BytesPerToken overrides the calibration of single generators, by the name
	// that parts use, in thousandths of a byte; see Fit.
	BytesPerToken map[string]int
	// Files are the user's documents; nil means that there are none.
	Files *Files
}

var _ message.MediaRenderer = (*Renderer)(nil)

// Check reports whether a part may name generator name; the error names the
// nearest known one, or what is wrong with the file.
func (r *Renderer) Check(name string) error {
	if path, ok := strings.CutPrefix(name, filePrefix); ok {
		if r.Files == nil {
			return fmt.Errorf("look up generator %q: no folder of documents is given", name)
		}
		return r.Files.Load(path)
	}
	if name == "" {
		return nil
	}
	_, _, err := Parse(name)
	return err
}

// sized is a generator whose length is asked for in bytes.
type sized interface {
	appendBytes(dst []byte, seed uint64, n int, lang Lang) []byte
}

// AppendText appends the text of p.
func (r *Renderer) AppendText(dst []byte, p *message.Part) []byte {
	if p.Text != "" {
		return append(dst, p.Text...)
	}
	if p.Tokens <= 0 {
		return dst
	}
	g, lang := r.find(p.Generator)
	milli := g.BytesPerToken(lang)
	if own, ok := r.BytesPerToken[p.Generator]; ok && own > 0 {
		milli = own
	}
	if r.Tokenizer != nil {
		return r.exact(dst, g, lang, milli, p)
	}
	if s, ok := g.(sized); ok {
		return s.appendBytes(dst, p.Seed, bytesOf(p.Tokens, milli), lang)
	}
	// Of words a token each: fewer where the server counts more of them.
	return g.Append(dst, p.Seed, max(1, p.Tokens*milli/g.BytesPerToken(lang)), lang)
}

func (r *Renderer) find(name string) (Generator, Lang) {
	if path, ok := strings.CutPrefix(name, filePrefix); ok {
		if r.Files != nil {
			if g := r.Files.find(path); g != nil {
				return g, English
			}
		}
		return wordsGenerator{}, English
	}
	if name == "" {
		return wordsGenerator{}, English
	}
	g, lang, err := Parse(name)
	if err != nil {
		return wordsGenerator{}, English
	}
	return g, lang
}

// exact appends a text of exactly p.Tokens tokens, where a prefix of the
// document has such a length; otherwise the longest one below it. The document
// is begun with a margin and made longer until it has enough tokens, so that its
// beginning does not depend on the margin.
func (r *Renderer) exact(dst []byte, g Generator, lang Lang, milli int, p *message.Part) []byte {
	from := len(dst)
	for tokens := p.Tokens + p.Tokens/8 + 16; ; tokens *= 2 {
		before := len(dst)
		if s, ok := g.(sized); ok {
			dst = s.appendBytes(dst[:from], p.Seed, bytesOf(tokens, milli), lang)
		} else {
			// The length is part of what the words are made of: ask for enough
			// at once, and for the same each time.
			dst = g.Append(dst[:from], p.Seed, tokens, lang)
		}
		text := string(dst[from:])
		if end := r.Tokenizer.Cut(text, p.Tokens); end < len(text) || len(dst) == before || tokens > 64*(p.Tokens+16) {
			return dst[:from+end]
		}
	}
}

// NumberTokens is what the number at the beginning of each text of generator name
// counts beyond what its bytes would at milli thousandths of a byte a token. Fit takes
// it for a part of what the template adds, which it is not: it is in every asked length.
func NumberTokens(name string, milli int) float64 {
	if name == "" || name == WordsName || milli <= 0 {
		return 0
	}
	return max(0, saltTokens-saltBytes*1000/float64(milli))
}

// Sample is what a server counted for one request.
type Sample struct {
	// Bytes is the length of the sent text, Tokens the prompt tokens that the
	// server reported.
	Bytes, Tokens int
}

// maxBytesPerToken is far from what any vocabulary makes of text: the greatest mean
// that was measured is 5.5, and a server that only counts words comes to 8.
const maxBytesPerToken = 64

// Fit returns the calibration that the samples of one generator show: thousandths
// of a byte per token, and the tokens that the server's chat template adds to
// each request, by least squares of tokens on bytes. It needs samples of at least
// two lengths, and refuses counts that no tokenizer can have made.
func Fit(samples []Sample) (milli int, overhead float64, err error) {
	var n, sx, sy, sxx, sxy float64
	for _, s := range samples {
		x, y := float64(s.Bytes), float64(s.Tokens)
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	d := n*sxx - sx*sx
	if n < 2 || d <= 0 {
		return 0, 0, fmt.Errorf("fit bytes per token: want samples of at least 2 lengths, got %d samples", len(samples))
	}
	slope := (n*sxy - sx*sy) / d
	if slope <= 0 {
		return 0, 0, fmt.Errorf("fit bytes per token: tokens do not grow with the text's length (%.4g per byte)", slope)
	}
	overhead = (sy - slope*sx) / n
	if slope > 1.01 || slope < 1.0/maxBytesPerToken {
		return 0, 0, fmt.Errorf("fit bytes per token: %.4g bytes a token cannot be: want 1 to %d", 1/slope, maxBytesPerToken)
	}
	for _, s := range samples {
		if made := slope * float64(s.Bytes); math.Abs(float64(s.Tokens)-overhead-made) > made/4+8 {
			return 0, 0, fmt.Errorf("fit bytes per token: the counts do not go by the texts' lengths: %d tokens of %d bytes, where the others make it %.0f", s.Tokens, s.Bytes, overhead+made)
		}
	}
	return int(1000/slope + 0.5), overhead, nil
}
