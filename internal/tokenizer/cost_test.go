package tokenizer

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// prose is about n bytes of text with words, numbers, signs and two scripts.
func prose(n int) string {
	const page = "The tenant shall pay the rent of $4,250.00 on the first day of each month; it's HTTPServer's job (see 12.3).\n\n  Übrigens: 東京都の天気は晴れ。\n"
	return strings.Repeat(page, n/len(page)+1)
}

// cpuTime returns what f takes of this process' time, the least of a few times: a
// machine that others use adds to the clock on the wall, little to this.
func cpuTime(t *testing.T, f func()) time.Duration {
	t.Helper()
	now := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	least := time.Duration(1 << 62)
	for range 5 {
		// Long enough for the kernel's account of time.
		n, began := 0, now()
		for n == 0 || now()-began < 20*time.Millisecond {
			f()
			n++
		}
		least = min(least, (now()-began)/time.Duration(n))
	}
	return least
}

// TestLongWordTime: sixteen times the word may take a few times more than sixteen
// times as long, as its memory no longer fits into the caches. Merging by looking
// at all pairs again and again would take more than 256 times.
func TestLongWordTime(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector and others change what time is spent on")
	}
	tok := byName(t, "llama3")
	for name, letters := range map[string]string{"one letter": "a", "words": "thetenantandtherent", "bytes": "漢字東"} {
		word := strings.Repeat(letters, 200_000/len(letters))
		short := cpuTime(t, func() { tok.Count(word[:len(word)/16/3*3]) })
		long := cpuTime(t, func() { tok.Count(word) })
		t.Logf("%s: %v and %v, %.1f times", name, short, long, float64(long)/float64(short))
		if long > 128*short {
			t.Errorf("%s: %v for 16 times what takes %v", name, long, short)
		}
	}
}

// TestSplitterTime: a splitter that is not faster than the general engine would
// have no reason to be.
func TestSplitterTime(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector and others change what time is spent on")
	}
	text := prose(20_000)
	for expr, next := range patterns {
		var spans []span
		own := cpuTime(t, func() { spans = quick{next, basicPlane()}.split(spans[:0], text) })
		engine := general(t, expr)
		other := cpuTime(t, func() { spans = engine.split(spans[:0], text) })
		t.Logf("%.50s: %v and %v, %.1f times", expr, own, other, float64(other)/float64(own))
		if other < 2*own {
			t.Errorf("%.50s: %v, by the general engine %v", expr, own, other)
		}
	}
}

// TestCutTime: a cut may take a few times what encoding the part that is kept
// takes, however long the text is.
func TestCutTime(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector and others change what time is spent on")
	}
	text := prose(400_000)
	for _, name := range []string{"llama3", "gemma", "deepseek"} {
		tok := byName(t, name)
		n := tok.Count(prose(20_000))
		kept := text[:tok.Cut(text, n)]
		encode := cpuTime(t, func() { tok.Count(kept) })
		cut := cpuTime(t, func() { tok.Cut(text, n) })
		whole := cpuTime(t, func() { tok.Count(text) })
		t.Logf("%s: encode %v, cut %v, the whole text %v", name, encode, cut, whole)
		if cut > whole {
			t.Errorf("%s: cutting to a twentieth takes %v, encoding all of it %v", name, cut, whole)
		}
	}
}

func BenchmarkLongWord(b *testing.B) {
	tok := byName(b, "llama3")
	for _, n := range []int{8, 24, 48, 96, 192, 1000, 100_000} {
		word := strings.Repeat("thetenantandtherent", n/19+1)[:n]
		for name, merge := range map[string]func(*merger){
			"short": func(g *merger) { g.short(&tok.model) },
			"long":  func(g *merger) { g.long(&tok.model) },
		} {
			if n > 1000 && name == "short" {
				continue
			}
			b.Run(name+"/"+strconv.Itoa(n), func(b *testing.B) {
				b.SetBytes(int64(n))
				var g merger
				for b.Loop() {
					g.symbols = g.symbols[:0]
					g.fromBytes(&tok.model, word)
					merge(&g)
				}
			})
		}
	}
}

func BenchmarkSplit(b *testing.B) {
	text := prose(100_000)
	for name, expr := range map[string]string{"gpt2": gpt2Pattern, "llama3": llama3Pattern, "o200k": o200kPattern, "kimi": kimiPattern, "deepseek": deepseekWordsPattern} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			var spans []span
			for b.Loop() {
				spans = quick{patterns[expr], basicPlane()}.split(spans[:0], text)
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	text := prose(100_000)
	for _, name := range []string{"llama3", "qwen", "deepseek", "gemma", "general"} {
		tok := byName(b, name)
		var ids, ends []int32
		b.Run(name+"/ids", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				ids = tok.Encode(ids[:0], text)
			}
		})
		b.Run(name+"/ends", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				ends = tok.AppendEnds(ends[:0], text)
			}
		})
	}
}
