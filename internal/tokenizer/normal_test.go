package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

// TestForms compares a normalization form with the library's, of texts that it
// does not put joiners into.
func TestForms(t *testing.T) {
	marks := []rune("aeoAEO1 \u0301\u0323\u0307\u030a\u0344\u212b\u1100\u1161\u11a8각가ﬁ①\u0f43\u0958é漢\U0001d15e\u0301\u0302")
	rng := rand.New(rand.NewPCG(3, 4))
	for range 5_000 {
		text := make([]rune, rng.IntN(12))
		for i := range text {
			text[i] = marks[rng.IntN(len(marks))]
		}
		s := string(text)
		for _, f := range []norm.Form{norm.NFC, norm.NFD, norm.NFKC, norm.NFKD} {
			var e edits
			got := form{f}.apply(s, atStart, &e)
			if want := f.String(s); got != want {
				t.Fatalf("form %d of %+q: %+q, want %+q", f, s, got, want)
			}
			if long := (form{f}).long(s); long != f.String(s) {
				t.Fatalf("form %d of %+q the long way: %+q, want %+q", f, s, long, f.String(s))
			}
			checkEdits(t, s, got, e)
		}
	}
}

// TestLongForms keeps runs of more marks than the library takes at once.
func TestLongForms(t *testing.T) {
	for in, want := range map[string]string{
		"e" + strings.Repeat("\u0301", 100):                                 "é" + strings.Repeat("\u0301", 99),
		"e" + strings.Repeat("\u0301\u0323", 40):                            "ẹ" + strings.Repeat("\u0323", 39) + strings.Repeat("\u0301", 40),
		strings.Repeat("\u0301", 50) + "e\u0301":                            strings.Repeat("\u0301", 50) + "é",
		"x" + strings.Repeat("\u0305", 31) + "\u0301":                       "x" + strings.Repeat("\u0305", 31) + "\u0301",
		"\u1100" + "\u1161" + "\u11a8" + strings.Repeat("\u0301", 35) + "a": "각" + strings.Repeat("\u0301", 35) + "a",
	} {
		if got := (form{norm.NFC}).apply(in, atStart, nil); got != want {
			t.Errorf("%+q: %+q, want %+q", in, got, want)
		}
	}
}

// checkEdits says whether what lies between the edits is the same in both texts.
func checkEdits(t *testing.T, in, out string, e edits) {
	t.Helper()
	i, o := 0, 0
	for _, x := range append(slices.Clone(e), edit{len(in), len(in), len(out), len(out)}) {
		if x.inFrom < i || x.outFrom < o || x.inTo < x.inFrom || x.outTo < x.outFrom || x.inTo > len(in) || x.outTo > len(out) || in[i:x.inFrom] != out[o:x.outFrom] {
			t.Fatalf("%+q to %+q: edits %v", in, out, e)
		}
		i, o = x.inTo, x.outTo
	}
}

// TestBack turns ends around: within a changed place, at its borders, behind it.
func TestBack(t *testing.T) {
	// "ab c" became "_ab___c": something before, a space of one byte made three.
	e := edits{{0, 0, 0, 1}, {2, 3, 3, 6}}
	ends := []int{1, 2, 3, 4, 5, 6, 7}
	e.back(ends)
	if want := []int{0, 1, 2, 3, 3, 3, 4}; !slices.Equal(ends, want) {
		t.Errorf("%v, want %v", ends, want)
	}
}

// TestValid replaces each byte that is no character.
func TestValid(t *testing.T) {
	for in, want := range map[string]string{"": "", "aé漢😀": "aé漢😀", "\xff": "\ufffd", "a\xe6\xbcb": "a\ufffd\ufffdb", "\xf0\x9f\x98": "\ufffd\ufffd\ufffd", "\ufffd": "\ufffd", "é\xed\xa0\x80": "é\ufffd\ufffd\ufffd"} {
		var e edits
		if got := valid(in, &e); got != want {
			t.Errorf("%+q: %+q, want %+q", in, got, want)
		}
		checkEdits(t, in, want, e)
		if got := valid(in, nil); got != want {
			t.Errorf("%+q without edits: %+q, want %+q", in, got, want)
		}
	}
}
