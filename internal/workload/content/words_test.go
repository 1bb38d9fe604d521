package content

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/internal/message"
)

// pieces counts by the documented rule.
func pieces(text []byte) int {
	n := len(bytes.Fields(text))
	for _, b := range text {
		if b == '.' || b == ',' {
			n++
		}
	}
	return n
}

func words(seed uint64, n int) string {
	p := message.Part{Generator: WordsName, Seed: seed, Tokens: n}
	return string(Words{}.AppendText(nil, &p))
}

func TestWordsHaveTheAskedLength(t *testing.T) {
	for n := range 400 {
		if text := words(uint64(n)*7919, n); pieces([]byte(text)) != n {
			t.Fatalf("asked for %d pieces, got %d: %q", n, pieces([]byte(text)), text)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 20_000).Draw(t, "n")
		seed := rapid.Uint64().Draw(t, "seed")
		if got := pieces([]byte(words(seed, n))); got != n {
			t.Fatalf("asked for %d pieces, got %d", n, got)
		}
	})
}

// The same part is the same text, in every process and version.
func TestWordsArePinned(t *testing.T) {
	want := "future education light chance car charge full complex. The close father increased another easy dream. " +
		"Their great farm had often forced every big door during the calm frame. Our bottle of century finished the boat. " +
		"Our flat entry checked the open culture. color full constant bird card narrow crime new amount garden direction friend."
	if got := words(42, 60); got != want {
		t.Errorf("text is\n%s\nwant\n%s", got, want)
	}
}

// The first eight words tell all 2^64 seeds apart: every byte of the seed is a
// word of its own.
func TestSaltIsOneToOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Uint64().Draw(t, "a")
		b := a ^ 1<<rapid.IntRange(0, 63).Draw(t, "bit")
		head := func(s uint64) string { return strings.Join(strings.Fields(words(s, 100))[:saltWords], " ") }
		if head(a) == head(b) {
			t.Fatalf("seeds %#x and %#x start alike", a, b)
		}
	})
	seen := map[string]bool{}
	for _, w := range tables().salt {
		if seen[w] {
			t.Errorf("salt word %q twice", w)
		}
		seen[w] = true
	}
}

// The text must look like text: sentences, and not the same ones over again.
func TestWordsAreVaried(t *testing.T) {
	text := words(3, 20_000)
	sentences := strings.Split(text, ".")
	seen := map[string]int{}
	for _, s := range sentences {
		seen[s]++
	}
	if share := float64(len(seen)) / float64(len(sentences)); share < 0.99 {
		t.Errorf("%.1f %% of the sentences are different", share*100)
	}
	fields := strings.Fields(text)
	grams, repeated := map[string]bool{}, 0
	for i := range len(fields) - 3 {
		g := strings.Join(fields[i:i+4], " ")
		if grams[g] {
			repeated++
		}
		grams[g] = true
	}
	if share := float64(repeated) / float64(len(fields)); share > 0.10 {
		t.Errorf("%.1f %% of the 4-grams are repeated", share*100)
	}
	if mean := float64(len(fields)) / float64(len(sentences)); mean < 5 || mean > 30 {
		t.Errorf("a sentence has %.1f words", mean)
	}
}

func TestWordsKeepGivenText(t *testing.T) {
	p := message.Part{Text: "as given", Seed: 1, Tokens: 50}
	if got := string(Words{}.AppendText([]byte("> "), &p)); got != "> as given" {
		t.Errorf("got %q", got)
	}
}

func TestWordsDoNotAllocate(t *testing.T) {
	p := message.Part{Generator: WordsName, Seed: 5, Tokens: 1000}
	buf := Words{}.AppendText(nil, &p)
	if n := testing.AllocsPerRun(100, func() { p.Seed++; buf = Words{}.AppendText(buf[:0], &p) }); n > 0.1 {
		// Texts differ in length, so that the buffer may grow a last time.
		t.Errorf("%.1f allocations per text", n)
	}
}

func BenchmarkWords(b *testing.B) {
	p := message.Part{Generator: WordsName, Tokens: 4096}
	var buf []byte
	var n int64
	for b.Loop() {
		p.Seed++
		buf = Words{}.AppendText(buf[:0], &p)
		n += int64(len(buf))
	}
	b.SetBytes(n / int64(b.N))
}
