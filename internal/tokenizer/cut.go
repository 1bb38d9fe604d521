package tokenizer

import "unicode/utf8"

// Bounds of the search for a cut.
const (
	// Pieces before the one with the wanted token in which a prefix may end, and
	// pieces behind it: text that is cut off changes the last pieces before the cut
	// (white space, contractions), never earlier ones.
	piecesBefore = 16
	piecesBehind = 3
	// Bytes that are encoded anew to try prefixes, the longest first: those of a
	// common text, with words of 5 to 20 bytes, are below 50 thousand.
	maxTried = 1 << 20
	// Prefixes that are encoded whole, to be sure.
	maxWholeTries = 64
)

// Cut returns the length of the longest prefix of text that has exactly n tokens
// when it is encoded alone. That is seldom where the n-th token of the whole text
// ends: cutting changes the tokens before the cut. It never cuts within a
// character. Where no prefix has n tokens, it returns the length of the longest one
// with fewer: all of text if that has too few, or the part before a character that
// brings several tokens at once. Text far behind the cut costs little.
//
// The result never has more than n tokens. That it is the longest such prefix is
// certain but for words of thousands of characters, of which only some places are
// tried.
func (t *Tokenizer) Cut(text string, n int) int {
	n = max(n, 0)
	s := t.state()
	s.track, s.cutting, s.wanted = true, true, n
	s.text(text)
	// The piece that holds the wanted token, and where the tries begin and end.
	last := len(s.pieces) - 1
	for last > 0 && s.pieces[last] >= n {
		last--
	}
	from, before := 0, 0
	if k := last - piecesBefore; k > 0 && s.pieces[k] > 0 {
		before = s.pieces[k]
		from = s.ends[before-1]
	}
	to, near := len(text), len(text)
	if len(s.ends) > 1 {
		near = s.ends[min(n, len(s.ends)-2)+1]
		if s.full {
			to = s.ends[len(s.ends)-1]
		}
	}
	t.release(s)

	fewer, tried := -1, 0
	for p, whole := to, 0; p >= from && tried < maxTried && whole < maxWholeTries; p-- {
		if 0 < p && p < len(text) && !utf8.RuneStart(text[p]) {
			continue
		}
		tried += p - from
		k := before + t.rest(text[from:p], from > 0)
		if k < n && fewer < 0 {
			fewer = p
		}
		if k != n {
			continue
		}
		if from == 0 || t.Count(text[:p]) == n {
			return p
		}
		whole++
	}
	if tried < maxTried && (from == 0 || fewer >= 0 && t.Count(text[:fewer]) < n) {
		return fewer
	}
	// Where from was no place from which text can be encoded alone, such as between
	// a letter and its marks, or a word is too long to try all its places.
	fewer = -1
	for p, whole := near, 0; p >= 0 && whole < maxWholeTries; p-- {
		if 0 < p && p < len(text) && !utf8.RuneStart(text[p]) {
			continue
		}
		whole++
		k := t.Count(text[:p])
		if k == n {
			return p
		}
		if k < n && fewer < 0 {
			fewer = p
		}
	}
	return max(fewer, 0)
}

// rest counts the tokens of text that follows other text, if it does.
func (t *Tokenizer) rest(text string, follows bool) int {
	s := t.state()
	defer t.release(s)
	s.inside = follows
	s.text(text)
	return len(s.ids)
}
