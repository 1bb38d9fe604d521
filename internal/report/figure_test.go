package report

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestFigure(t *testing.T) {
	f := func(v float64, want string) {
		t.Helper()
		if got := Figure(v); got != want {
			t.Errorf("Figure(%v) = %q, want %q", v, got, want)
		}
	}
	f(0, "0")
	f(0.0004, "<0.001")
	f(-0.0004, ">-0.001")
	f(0.0005, "0.001")
	f(0.0123, "0.012")
	f(0.9994, "0.999")
	f(0.9996, "1.00")
	f(1.234, "1.23")
	f(9.994, "9.99")
	f(9.996, "10.0")
	f(99.94, "99.9")
	f(99.96, "100")
	f(999.6, "1,000")
	f(1234567, "1,234,567")
	f(-1234.4, "-1,234")
	f(-100, "-100")
	f(math.NaN(), "-")
	f(math.Inf(1), "-")
}

// Values exactly halfway between two figures, as the panel writes them too: its tests
// read the same file.
func TestFigureTies(t *testing.T) {
	b, err := os.ReadFile("../../web/testdata/ties.json")
	if err != nil {
		t.Fatal(err)
	}
	var ties []struct {
		Value float64
		Text  string
	}
	if err := json.Unmarshal(b, &ties); err != nil || len(ties) < 10 {
		t.Fatalf("%d values, %v", len(ties), err)
	}
	for _, tie := range ties {
		if got := Figure(tie.Value); got != tie.Text {
			t.Errorf("Figure(%v) = %q, want %q", tie.Value, got, tie.Text)
		}
		if got := Figure(-tie.Value); got != "-"+tie.Text {
			t.Errorf("Figure(%v) = %q, want -%q", -tie.Value, got, tie.Text)
		}
	}
}

func TestSeconds(t *testing.T) {
	f := func(v float64, want string) {
		t.Helper()
		if got := Seconds(v); got != want {
			t.Errorf("Seconds(%v) = %q, want %q", v, got, want)
		}
	}
	f(0, "0 s")
	f(0.000_012, "12.0 us")
	f(0.0123, "12.3 ms")
	f(0.99951, "1.00 s")
	f(60, "60.0 s")
	f(119.96, "120 s")
	f(120, "2m")
	f(150, "2m30s")
	f(3600, "60m")
	f(7200, "2h")
	f(7290, "2h2m")
	f(math.NaN(), "-")
}

func TestBytes(t *testing.T) {
	f := func(n int64, want string) {
		t.Helper()
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
	f(0, "0 B")
	f(999, "999 B")
	f(1000, "1.00 kB")
	f(12_345_678, "12.3 MB")
	f(5e12, "5.00 TB")
}

// TestFigureRoundTrip: what is printed is within half a unit of the third digit
// of what was measured.
func TestFigureRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64Range(0.1, 1e9).Draw(t, "v")
		got := parse(t, Figure(v))
		if math.Abs(got-v) > 0.00501*v {
			t.Fatalf("Figure(%v) = %s", v, Figure(v))
		}
	})
}

func parse(t *rapid.T, s string) float64 {
	var v, scale float64 = 0, 0
	for _, r := range s {
		switch {
		case r == ',':
		case r == '.':
			scale = 1
		case r >= '0' && r <= '9':
			v = v*10 + float64(r-'0')
			scale *= 10
		default:
			t.Fatalf("%q is no figure", s)
		}
	}
	if scale > 0 {
		v /= scale
	}
	return v
}

func TestPrintable(t *testing.T) {
	f := func(s, want string) {
		t.Helper()
		if got := Printable(s); got != want {
			t.Errorf("Printable(%q) = %q, want %q", s, got, want)
		}
	}
	f("llama-3.1-8b", "llama-3.1-8b")
	f("größer 模型", "größer 模型")
	f("a\x1b[31mred", `a\x1b[31mred`)
	f("a\r\nb\tc", `a\r\nb\tc`)
	f("del\x7f", `del\x7f`)
	f("c1\u009b31m", `c1\u{9b}31m`)
	f("bidi\u202etxt", `bidi\u{202e}txt`)
	f("zero\u200bwidth", `zero\u{200b}width`)
	f("bad\xff\xc3", `bad\xff\xc3`)
}

// FuzzPrintable: nothing that acts on a terminal is left, whatever comes in.
func FuzzPrintable(f *testing.F) {
	f.Add("a\x1b]0;title\x07")
	f.Add("\xff\u202e\u009b")
	f.Fuzz(func(t *testing.T, s string) {
		out := Printable(s)
		if !utf8.ValidString(out) {
			t.Fatalf("Printable(%q) is not valid UTF-8", s)
		}
		for _, r := range out {
			if r < ' ' || (r >= 0x7f && r < 0xa0) || (r >= 0x202a && r <= 0x202e) || (r >= 0x2066 && r <= 0x2069) {
				t.Fatalf("Printable(%q) holds %U", s, r)
			}
		}
	})
}

func TestWrap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`[a-zé ]{0,200}`).Draw(t, "s")
		w := rapid.IntRange(1, 40).Draw(t, "w")
		lines := Wrap(s, w)
		for _, l := range lines {
			if n := utf8.RuneCountInString(l); n > w || n == 0 {
				t.Fatalf("line of %d columns, want 1 to %d: %q", n, w, l)
			}
		}
		if got, want := strings.Join(strings.Fields(strings.Join(lines, "")), ""), strings.Join(strings.Fields(s), ""); got != want {
			t.Fatalf("Wrap lost text: %q, want %q", got, want)
		}
	})
}

func TestCutAndPad(t *testing.T) {
	if got := Cut("abcdef", 5); got != "ab..." {
		t.Errorf("Cut = %q", got)
	}
	if got := Cut("äöü", 3); got != "äöü" {
		t.Errorf("Cut = %q", got)
	}
	if got := CutFront("a/bäcdef", 5); got != "…cdef" {
		t.Errorf("CutFront = %q", got)
	}
	if got := CutFront("äöü", 3); got != "äöü" {
		t.Errorf("CutFront = %q", got)
	}
	if got := Pad("ä", 3) + "|" + PadLeft("ä", 3); got != "ä  |  ä" {
		t.Errorf("Pad = %q", got)
	}
}

// No figure of a course is wider than its column, whatever a server claims.
func TestCompactFits(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 12.34: "12.3", 99_999: "99,999", 123_456: "123k", 12.3e6: "12.3M", 12.3e9: "12.3G", 12.3e12: "12.3T",
		2.345e18: "2.3e+18", -1e308: "-1e+308",
	} {
		if got := compact(v); got != want || len(got) >= courseValue {
			t.Errorf("%v: got %q, want %q, shorter than %d", v, got, want, courseValue)
		}
	}
}
