package content

import (
	"math"
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
	// events: the requests of a service as rows of times and numbers, the trace of 2023
	// of conversations of Azure (CC-BY). It has no sentences.
	events = traits{repeated: 0.409, gzip: 3.93, words: 14491, vocabulary: 2423, heaps: 0.76}
	// news: the People's Daily of January 1998, as a segmentation corpus has it.
	news = traits{repeated: 0.120, gzip: 2.38, words: 17894, vocabulary: 1463, heaps: 0.41, sentence: 45.2, spread: 0.58}
)

// sameAs says which real text each kind is held against, and how far it may be
// from it. No text in the public domain could be had here of court opinions,
// filings, patient records and trades, nor novels and papers in Chinese:
// those are held against the nearest kind there was, and the distance says so.
var sameAs = map[string]struct {
	real traits
	// repeated is how much the share of repeated 4-grams may exceed the real
	// text's; gzip how many times the compression may; vocabulary the least and
	// the most share of the real vocabulary; sentence likewise of the length.
	repeated, gzip       float64
	vocabulary, sentence [2]float64
	// growth is the least share of the real text's exponent by which the vocabulary
	// grows; late that of the new words which the real text would have in the last
	// half of 100,000 tokens, if it went on by its exponent.
	growth, late float64
}{
	"contract/en": {agreements, 0.04, 1.15, [2]float64{0.9, 1.4}, [2]float64{0.8, 1.2}, 0.6, 0.16},
	"caselaw/en":  {agreements, 0.02, 1.15, [2]float64{0.9, 1.6}, [2]float64{0.4, 1.2}, 0.6, 0.45},
	"filing/en":   {agreements, 0.06, 1.20, [2]float64{0.9, 1.6}, [2]float64{0.6, 1.2}, 0.5, 0.3},
	"patient/en":  {agreements, 0.04, 1.10, [2]float64{0.9, 1.6}, [2]float64{0.3, 1.0}, 0.38, 0.16},
	"findings/en": {agreements, 0.08, 1.30, [2]float64{0.9, 1.6}, [2]float64{0.3, 1.0}, 0.38, 0.2},
	"paper/en":    {papers, 0.10, 1.35, [2]float64{0.7, 1.2}, [2]float64{0.7, 1.3}, 0.45, 0.27},
	"prose/en":    {novels, 0.12, 1.35, [2]float64{0.6, 1.2}, [2]float64{0.7, 1.3}, 0.25, 0.06},
	"code/en":     {programs, 0.28, 1.55, [2]float64{0.6, 1.3}, [2]float64{0.6, 1.4}, 0.6, 0.7},
	"contract/zh": {statutes, 0.08, 1.10, [2]float64{0.9, 1.7}, [2]float64{0.6, 1.2}, 0.5, 0.75},
	"caselaw/zh":  {statutes, 0.20, 1.35, [2]float64{0.9, 1.7}, [2]float64{0.6, 1.2}, 0.5, 0.5},
	"filing/zh":   {statutes, 0.12, 1.15, [2]float64{0.9, 2.0}, [2]float64{0.5, 1.2}, 0.6, 0.75},
	"patient/zh":  {statutes, 0.18, 1.35, [2]float64{0.9, 2.0}, [2]float64{0.3, 1.2}, 0.45, 1},
	"findings/zh": {statutes, 0.24, 1.50, [2]float64{0.9, 2.0}, [2]float64{0.3, 1.2}, 0.55, 0.9},
	"paper/zh":    {news, 0.34, 1.65, [2]float64{0.6, 1.2}, [2]float64{0.3, 1.2}, 0.5, 0.33},
	"prose/zh":    {news, 0.15, 1.55, [2]float64{0.4, 1.2}, [2]float64{0.3, 1.2}, 0.12, 0.001},
	"ticks/en":    {events, 0.02, 1.05, [2]float64{0.6, 1.2}, [2]float64{}, 0.85, 0.5},
	"ticks/zh":    {events, 0.06, 1.30, [2]float64{0.5, 1.2}, [2]float64{}, 0.75, 0.4},
	"code/zh":     {programs, 0.30, 1.50, [2]float64{0.6, 1.4}, [2]float64{0.6, 1.4}, 0.5, 0.6},
}

// The text has the traits of real text: it repeats itself no more, packs no
// better, and has as many words, within the stated distance.
func TestTraits(t *testing.T) {
	each(t, func(t *testing.T, g Generator, lang Lang) {
		name := g.(*document).name + "/" + lang.String()
		b, ok := sameAs[name]
		if !ok {
			t.Fatal("held against nothing")
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
			within("growth of the vocabulary", got.heaps, b.real.heaps*b.growth, b.real.heaps*1.2)
			if b.real.sentence == 0 {
				continue
			}
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
		b := sameAs[g.(*document).name+"/"+lang.String()]
		if late, law := lateWords(words), b.real.late(len(words)); late < b.late*law {
			t.Errorf("%.2f new words a thousand in the last half, want %.2f at least: %g of what real text goes on with", late, b.late*law, b.late)
		}
	})
}

// late is how many new words a thousand the last half of a text of n words would have,
// if its vocabulary grew by the exponent (Heaps' law).
func (tr *traits) late(n int) float64 {
	law := func(n float64) float64 {
		return float64(tr.vocabulary) * math.Pow(n/float64(tr.words), tr.heaps)
	}
	return 1000 * (law(float64(n)) - law(float64(n)/2)) / (float64(n) / 2)
}

// lateWords is how many new words a thousand the last half of a text has.
func lateWords(words []string) float64 {
	seen := map[string]bool{}
	half := 0
	for i, w := range words {
		if i == len(words)/2 {
			half = len(seen)
		}
		seen[w] = true
	}
	return 1000 * float64(len(seen)-half) / float64(len(words)-len(words)/2)
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
	// Words of a closed list are soon all there; invented ones never are.
	closed := wordsGenerator{}.Append(nil, 1, 100_000, English)
	few, _ := split(string(closed))
	for name, b := range sameAs {
		if m := measure(closed[:60_000]); m.heaps >= b.real.heaps*b.growth {
			t.Errorf("%s: a closed list grows by %.3f", name, m.heaps)
		}
		if late := lateWords(few); late >= b.late*b.real.late(len(few)) {
			t.Errorf("%s: a closed list has %.2f new words a thousand", name, late)
		}
		if m := measure(random); m.heaps <= b.real.heaps*1.2 {
			t.Errorf("%s: invented words grow by %.3f", name, m.heaps)
		}
	}
	m := measure([]byte("One two three. Four five! 中文句子。"))
	if m.words != 9 || m.sentence != 3 {
		t.Errorf("%+v", m)
	}
}
