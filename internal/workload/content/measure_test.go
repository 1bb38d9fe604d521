package content

import (
	"bytes"
	"compress/gzip"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// traits are the figures that real text of a kind and ours are compared by. In
// Chinese every character is a word.
type traits struct {
	// repeated is the share of 4-grams of words that have come before.
	repeated float64
	// gzip is how many times smaller gzip makes the text, at its default level.
	gzip float64
	// words is the number of words, vocabulary that of different ones.
	words, vocabulary int
	// heaps is the exponent of the growth of the vocabulary from a quarter of the
	// text to all of it.
	heaps float64
	// sentence is the mean length of sentences in words, spread their deviation
	// over the mean.
	sentence, spread float64
}

// measure takes the traits of a text.
func measure(text []byte) traits {
	var tr traits
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write(text)
	w.Close()
	tr.gzip = float64(len(text)) / float64(z.Len())

	words, ends := split(strings.ToValidUTF8(string(text), ""))
	tr.words = len(words)
	grams, vocabulary := map[string]bool{}, map[string]bool{}
	quarter := 0
	for i, word := range words {
		if i == len(words)/4 {
			quarter = len(vocabulary)
		}
		vocabulary[word] = true
		if i+4 <= len(words) {
			g := strings.Join(words[i:i+4], " ")
			if grams[g] {
				tr.repeated++
			}
			grams[g] = true
		}
	}
	tr.repeated /= float64(max(1, len(words)-3))
	tr.vocabulary = len(vocabulary)
	tr.heaps = math.Log(float64(len(vocabulary))/float64(max(1, quarter))) / math.Log(4)

	var n, sum, squares float64
	last := 0
	for _, e := range ends {
		if l := float64(e - last); l > 0 {
			n, sum, squares = n+1, sum+l, squares+l*l
		}
		last = e
	}
	tr.sentence = sum / max(n, 1)
	tr.spread = math.Sqrt(max(0, squares/max(n, 1)-tr.sentence*tr.sentence)) / max(tr.sentence, 1)
	return tr
}

// split returns the words of a text, and before which word each sentence ends: at
// a full stop before a space, at its Chinese kin, and at an empty line.
func split(text string) (words []string, ends []int) {
	start := -1
	flush := func(at int) {
		if start >= 0 {
			words = append(words, strings.ToLower(text[start:at]))
			start = -1
		}
	}
	for i, c := range text {
		switch {
		case unicode.Is(unicode.Han, c):
			flush(i)
			words = append(words, text[i:i+utf8.RuneLen(c)])
		case unicode.IsLetter(c) || unicode.IsDigit(c) || c == '\'' && start >= 0:
			if start < 0 {
				start = i
			}
		default:
			flush(i)
			rest := text[i+utf8.RuneLen(c):]
			if c == '。' || c == '！' || c == '？' || c == '；' ||
				(c == '.' || c == '!' || c == '?' || c == ';') && (rest == "" || rest[0] == ' ' || rest[0] == '\n') ||
				c == '\n' && strings.HasPrefix(rest, "\n") {
				ends = append(ends, len(words))
			}
		}
	}
	flush(len(text))
	return words, ends
}
