package tokenizer

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/record"
)

var _ record.Counter = (*Tokenizer)(nil)

func byName(t testing.TB, name string) *Tokenizer {
	t.Helper()
	k := kind{name: name}
	readFile(t, "testdata/kinds/"+name+".json", &k)
	return k.load(t)
}

// TestEnds puts tokens where they end in the text as it was given, whatever
// normalization made of it.
func TestEnds(t *testing.T) {
	f := func(name, text string, want ...int32) {
		t.Helper()
		if got := byName(t, name).AppendEnds([]int32{-7}, text); !slices.Equal(got, append([]int32{-7}, want...)) {
			t.Errorf("%s: %q ends at %d, want %d", name, text, got[1:], want)
		}
	}
	f("bytelevel", "")
	f("bytelevel", " the 1\n", 4, 6, 7)
	f("bytelevel", "漢", 1, 2, 3)
	f("bytelevel-prefix", "the", 3)
	f("bytelevel-prefix", "a  <mask>x", 1, 9, 9, 10) // a space of nowhere before x
	f("qwen", "e\u0301", 3)                          // one token, added
	f("qwen", "xe\u0301y", 1, 4, 5)
	f("nfd", "é", 1+1, 2, 2) // e, and two bytes of a mark, all of them from é
	f("gemma", "the the", 3, 7)
	f("gemma", "🦄 ", 1, 2, 3, 4, 5) // four bytes, and a space that is three
	f("llama2", "the", 3)
	f("llama2", " ", 0, 1)            // what was put before it ends before the text
	f("unknown-dropped", "the🦄🦄", 11) // what has no token belongs to the last one
	f("unknown-dropped", "🦄")
	f("unknown-fused", "🦄🦄the", 8, 11)
	f("split-removed", "the   ", 6)
	f("bytelevel", "a\xffb", 1, 2, 2, 2, 3)
}

// TestLongWord merges long words with a heap to the same tokens as short ones by
// looking at all pairs.
func TestLongWord(t *testing.T) {
	tok := byName(t, "bytelevel")
	rng := rand.New(rand.NewPCG(5, 6))
	letters := "thenadrio e"
	for range 500 {
		var b strings.Builder
		for range 1 + rng.IntN(200) {
			b.WriteByte(letters[rng.IntN(len(letters))])
		}
		word := b.String()
		var short, long merger
		short.fromBytes(&tok.model, word)
		short.short(&tok.model)
		long.fromBytes(&tok.model, word)
		long.long(&tok.model)
		strip := func(s []symbol) (out [][2]int) {
			for _, x := range s {
				out = append(out, [2]int{int(x.id), x.end})
			}
			return out
		}
		if diff := cmp.Diff(strip(short.symbols), strip(long.symbols)); diff != "" {
			t.Fatalf("%q (-short, +long):\n%s", word, diff)
		}
	}
}

// TestConcurrent shares one tokenizer, with words that take each other's places.
func TestConcurrent(t *testing.T) {
	tok := byName(t, "qwen")
	_, texts := kinds(t)
	want := make([][]int32, len(texts))
	for i, text := range texts {
		want[i] = tok.Encode(nil, text)
	}
	tok = byName(t, "qwen")
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range texts {
				i = (i + g*100) % len(texts)
				if got := tok.Encode(nil, texts[i]); !slices.Equal(got, want[i]) {
					t.Errorf("%q: %d, want %d", texts[i], got, want[i])
				}
				tok.Cut(texts[i], len(want[i])/2)
			}
		})
	}
	wg.Wait()
}

// TestMemoryIsBounded encodes more words than are remembered, and a long text; the
// tokenizer keeps little of them.
func TestMemoryIsBounded(t *testing.T) {
	tok := byName(t, "qwen")
	heap := func() int64 {
		runtime.GC()
		runtime.GC() // what a sync.Pool held goes at the second
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	var b strings.Builder
	for i := range 1 << 18 {
		b.WriteString(" w")
		for x := i; x > 0; x /= 26 {
			b.WriteByte(byte('a' + x%26))
		}
	}
	tok.AppendEnds(nil, b.String())
	b.Reset()
	used := heap() - before
	if limit := int64(cachedWords * 250); used > limit {
		t.Errorf("%d bytes are kept of 2 MB of words, want at most %d", used, limit)
	}
	runtime.KeepAlive(tok)
}

// TestSteady encodes known words without allocating.
func TestSteady(t *testing.T) {
	tok := byName(t, "llama3")
	text := strings.Repeat("The tenant shall pay the rent on the first day of each month. It's 1234 items, 漢字.\n", 20)
	dst := tok.Encode(nil, text)
	if n := testing.AllocsPerRun(50, func() { dst = tok.Encode(dst[:0], text) }); n > 4 {
		t.Errorf("%v allocations for a text of known words, want a few for the call", n)
	}
}

// TestCutLong cuts long texts, which takes little more than encoding what is kept.
func TestCutLong(t *testing.T) {
	for _, name := range []string{"llama3", "qwen", "gemma", "llama2", "deepseek", "metaspace-first"} {
		tok := byName(t, name)
		times := 400
		if testing.Short() {
			times = 200
		}
		text := strings.Repeat("The tenant shall pay the rent on the first day of each month, it's 12345 items.\n\n  漢字 é ", times)
		for _, n := range []int{0, 1, 17, 1000, 10 * times} {
			want := n
			if n == 1 && tok.Count("T") > 1 {
				want = 0 // no prefix has one
			}
			if p := tok.Cut(text, n); tok.Count(text[:p]) != want {
				t.Errorf("%s to %d tokens: cut at %d, which has %d", name, n, p, tok.Count(text[:p]))
			}
		}
		if p := tok.Cut(text, len(text)+1); p != len(text) {
			t.Errorf("%s: more tokens than bytes at %d", name, p)
		}
		if testing.Short() {
			continue
		}
		long := strings.Repeat("theand", 5_000)
		if p := tok.Cut(long, 2000); tok.Count(long[:p]) != 2000 {
			t.Errorf("%s: a word of 30,000 characters is cut at %d", name, p)
		}
	}
}
