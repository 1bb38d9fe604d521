package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// general returns the general engine for a pattern, in its own syntax.
func general(t testing.TB, expr string) delimited {
	t.Helper()
	expr = strings.ReplaceAll(expr, `&&[^\p{Han}]]`, `-[\p{Han}]]`)
	expr = strings.ReplaceAll(expr, `\s++$`, `\s++\z`)
	e, err := newEngine(expr)
	if err != nil {
		t.Fatal(err)
	}
	return delimited{e, isolated, false}
}

// alphabet are the characters that patterns tell apart.
var alphabet = []rune(" \n\r\t\u00a0\u3000\u0085\u2028aZsStTrReEvVmMlLdDſKǅªʰéÉ漢〇々⺀かカ\u0301\u0903\u20dd1٣½Ⅷ²!'’/<|.,$+^`~_-😀\u200d\u00ad\u0000\u0378\U0001d7d8\U00020000▁你é龥\u9fa6한ﬀ")

func checkPatterns(t *testing.T, engines map[string]delimited, text string) {
	t.Helper()
	if text == "" {
		return
	}
	for expr, next := range patterns {
		got := quick{next, basicPlane()}.split(nil, text)
		want := engines[expr].split(nil, text)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(span{})); diff != "" {
			t.Errorf("%q by %.60s (-general, +own):\n%s", text, expr, diff)
		}
	}
}

func engines(t testing.TB) map[string]delimited {
	out := map[string]delimited{}
	for expr := range patterns {
		out[expr] = general(t, expr)
	}
	return out
}

// TestPatterns compares each splitter with a general engine of regular
// expressions, over short texts of all characters that make a difference.
func TestPatterns(t *testing.T) {
	all := engines(t)
	rounds := 5_000
	if testing.Short() {
		rounds = 300
	}
	for _, a := range alphabet {
		for _, b := range alphabet {
			if !testing.Short() {
				checkPatterns(t, all, string([]rune{a, b}))
			}
		}
	}
	for _, text := range []string{
		"x'ſt A'ſB 'ſ", "it'LLx'rEy", "a\n  ", "\n \n x", "  \t x", "!\n/x", "AbCdEF", "a\u0301\u0301B", "12345", "漢a漢A", "x'", "\r\n\r\n", " \u00a0 x", "1\u0301a", "Ⅷa",
	} {
		checkPatterns(t, all, text)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range rounds {
		text := make([]rune, 3+rng.IntN(10))
		for i := range text {
			text[i] = alphabet[rng.IntN(len(alphabet))]
		}
		checkPatterns(t, all, string(text))
	}
}

// TestClasses compares the table with the standard library's for every character.
func TestClasses(t *testing.T) {
	c := basicPlane()
	if testing.Short() {
		t.Skip("a million characters, one after the other")
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		got := c.of(r)
		for _, g := range ranges {
			if want := unicode.In(r, g.tables...); want != (got&g.bit != 0) {
				t.Fatalf("%U: class %08b, bit %08b should be %v", r, got, g.bit, want)
			}
		}
	}
}

func FuzzPatterns(f *testing.F) {
	for _, s := range []string{"it's 1234 o'clock\n\n  HTTPServer/x", "漢字kanji  \r\n", "a\u0301b'LLx", "  !/\n/x", "\u0301\u0301A"} {
		f.Add(s)
	}
	all := engines(f)
	f.Fuzz(func(t *testing.T, text string) {
		checkPatterns(t, all, valid(text, nil))
	})
}
