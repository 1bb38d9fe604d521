package content

import (
	"strings"
	"testing"
)

// Real text that ours is held against, measured with measure on its first 60,000
// bytes. Only the figures are kept here.
var (
	// agreements: the GNU GPL 1, 2 and 3, LGPL 2.1 and 3, MPL 1.1 and 2.0, the
	// Artistic and Apache licenses and the Eclipse Public License, one after
	// another, as Debian's base-files and others ship them.
	agreements = traits{repeated: 0.203, gzip: 3.49, words: 9489, vocabulary: 1173, heaps: 0.54, sentence: 18.8, spread: 0.90}
	// novels: Jane Austen, Emma (public domain), as Debian's r-cran-janeaustenr has it.
	novels = traits{repeated: 0.008, gzip: 2.59, words: 10968, vocabulary: 1886, heaps: 0.65, sentence: 14.2, spread: 0.86}
	// papers: articles of the Journal of Statistical Software by Zeileis and
	// others, the vignettes of the R packages strucchange, sandwich, zoo and lme4.
	papers = traits{repeated: 0.051, gzip: 2.88, words: 9622, vocabulary: 1662, heaps: 0.70, sentence: 10.9, spread: 1.10}
	// programs: the package net/http of Go 1.26 (BSD licence).
	programs = traits{repeated: 0.169, gzip: 3.44, words: 8428, vocabulary: 1090, heaps: 0.49, sentence: 19.2, spread: 0.85}
	// statutes: the Civil Code of the People's Republic of China, of 2020 (laws are
	// not under copyright there, article 5 of the Copyright Law).
	statutes = traits{repeated: 0.358, gzip: 3.72, words: 17952, vocabulary: 748, heaps: 0.38, sentence: 32.2, spread: 0.51}
	// news: the People's Daily of January 1998, as a segmentation corpus has it.
	news = traits{repeated: 0.120, gzip: 2.38, words: 17894, vocabulary: 1463, heaps: 0.41, sentence: 45.2, spread: 0.58}
)

// sameAs says which real text each kind is held against, and how far it may be
// from it. No text in the public domain could be had here of court opinions,
// filings, patient records and market data, nor novels and papers in Chinese:
// those are held against the nearest kind there was, and the distance says so.
var sameAs = map[string]struct {
	real traits
	// repeated is how much the share of repeated 4-grams may exceed the real
	// text's; gzip how many times the compression may; vocabulary the least and
	// the most share of the real vocabulary; sentence likewise of the length.
	repeated, gzip       float64
	vocabulary, sentence [2]float64
}{
	"contract/en": {agreements, 0.04, 1.15, [2]float64{0.9, 1.4}, [2]float64{0.8, 1.2}},
	"caselaw/en":  {agreements, 0.02, 1.15, [2]float64{0.9, 1.6}, [2]float64{0.4, 1.2}},
	"filing/en":   {agreements, 0.06, 1.20, [2]float64{0.9, 1.6}, [2]float64{0.6, 1.2}},
	"patient/en":  {agreements, 0.04, 1.10, [2]float64{0.9, 1.6}, [2]float64{0.3, 1.0}},
	"paper/en":    {papers, 0.10, 1.35, [2]float64{0.7, 1.2}, [2]float64{0.7, 1.3}},
	"prose/en":    {novels, 0.12, 1.35, [2]float64{0.6, 1.2}, [2]float64{0.7, 1.3}},
	"code/en":     {programs, 0.28, 1.55, [2]float64{0.6, 1.3}, [2]float64{0.6, 1.4}},
	"contract/zh": {statutes, 0.08, 1.10, [2]float64{0.9, 1.7}, [2]float64{0.6, 1.2}},
	"caselaw/zh":  {statutes, 0.20, 1.35, [2]float64{0.9, 1.7}, [2]float64{0.6, 1.2}},
	"filing/zh":   {statutes, 0.12, 1.15, [2]float64{0.9, 2.0}, [2]float64{0.5, 1.2}},
	"patient/zh":  {statutes, 0.18, 1.35, [2]float64{0.9, 2.0}, [2]float64{0.3, 1.2}},
	"paper/zh":    {news, 0.34, 1.65, [2]float64{0.6, 1.2}, [2]float64{0.3, 1.2}},
	"prose/zh":    {news, 0.15, 1.55, [2]float64{0.4, 1.2}, [2]float64{0.3, 1.2}},
	"code/zh":     {programs, 0.30, 1.50, [2]float64{0.6, 1.4}, [2]float64{0.6, 1.4}},
}

// The text has the traits of real text: it repeats itself no more, packs no
// better, and has as many words, within the stated distance.
func TestTraits(t *testing.T) {
	each(t, func(t *testing.T, g Generator, lang Lang) {
		name := g.(*document).name + "/" + lang.String()
		b, ok := sameAs[name]
		if !ok {
			if !strings.HasPrefix(name, "ticks") {
				t.Fatal("held against nothing")
			}
			return
		}
		for seed := range uint64(3) {
			got := measure(g.(*document).appendBytes(nil, seed, 60_000, lang))
			within := func(what string, v, lo, hi float64) {
				t.Helper()
				if v < lo || v > hi {
					t.Errorf("seed %d: %s %.3f, want %.3f to %.3f", seed, what, v, lo, hi)
				}
			}
			within("share of repeated 4-grams", got.repeated, b.real.repeated/4, b.real.repeated+b.repeated)
			within("compression", got.gzip, b.real.gzip*0.8, b.real.gzip*b.gzip)
			v := float64(b.real.vocabulary)
			within("vocabulary", float64(got.vocabulary), v*b.vocabulary[0], v*b.vocabulary[1])
			within("words of a sentence", got.sentence, b.real.sentence*b.sentence[0], b.real.sentence*b.sentence[1])
			within("spread of sentences", got.spread, b.real.spread*0.5, b.real.spread*1.7)
		}
	})
}

// The vocabulary goes on growing, as that of real text does, and in 100,000
// tokens hardly a long line comes again.
func TestTextDoesNotRepeat(t *testing.T) {
	each(t, func(t *testing.T, g Generator, lang Lang) {
		text := string(g.Append(nil, 11, 100_000, lang))
		seen := map[string]bool{}
		lines, again := 0, 0
		for line := range strings.SplitSeq(text, "\n") {
			if len(line) < 160 {
				continue // headings, rows, lines of code
			}
			lines++
			if seen[line] {
				again++
			}
			seen[line] = true
		}
		// Definitions and notices that the law words come again in each document;
		// a Chinese judgment ends with two of them.
		limit := lines / 50
		if name := g.(*document).name; name == "caselaw" && lang == Chinese {
			limit = lines / 10
		}
		if again > limit {
			t.Errorf("%d of %d long lines come again", again, lines)
		}
		words, _ := split(text)
		vocabulary, quarter := map[string]bool{}, 0
		for i, w := range words {
			if i == len(words)/4 {
				quarter = len(vocabulary)
			}
			vocabulary[w] = true
		}
		if len(vocabulary) <= quarter {
			t.Errorf("%d different words in a quarter, no more in all", quarter)
		}
	})
}

// The traits must tell real text from what it must never be.
func TestTraitsCanTell(t *testing.T) {
	lorem := strings.Repeat("Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor. ", 700)
	if m := measure([]byte(lorem)); m.repeated < 0.9 || m.gzip < 20 {
		t.Errorf("lorem ipsum: %+v", m)
	}
	s := state{rng: 1}
	var random []byte
	for range 10_000 {
		for range 2 + s.below(7) {
			random = append(random, byte('a'+s.below(26)))
		}
		random = append(random, ' ')
	}
	if m := measure(random); m.repeated > 0.001 || m.vocabulary < 8000 {
		t.Errorf("random letters: %+v", m)
	}
	m := measure([]byte("One two three. Four five! 中文句子。"))
	if m.words != 9 || m.sentence != 3 {
		t.Errorf("%+v", m)
	}
}
