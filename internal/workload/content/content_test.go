package content

import (
	"bytes"
	"go/parser"
	"go/token"
	"hash/fnv"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"plimsoll/internal/message"
	"plimsoll/internal/tokenizer"
)

// The model's own tokenizer cuts texts exactly.
var _ Tokenizer = (*tokenizer.Tokenizer)(nil)

// each runs f for every generator of documents in each language.
func each(t *testing.T, f func(t *testing.T, g Generator, lang Lang)) {
	for name, d := range kinds {
		for _, lang := range []Lang{English, Chinese} {
			t.Run(name+"/"+lang.String(), func(t *testing.T) { f(t, d, lang) })
		}
	}
}

// A text is the same whatever stands before it and whatever was written before
// with the same pooled state, and shorter texts are beginnings of longer ones.
func TestTextDependsOnItsPartAlone(t *testing.T) {
	each(t, func(t *testing.T, g Generator, lang Lang) {
		want := g.Append(nil, 7, 3000, lang)
		g.Append(nil, 8, 500, lang)
		got := g.Append([]byte("before "), 7, 3000, lang)[len("before "):]
		if !bytes.Equal(got, want) {
			t.Error("the same part made two texts")
		}
		if short := g.Append(nil, 7, 1000, lang); !bytes.HasPrefix(want, short) {
			t.Error("a shorter text is not the beginning of the longer one")
		}
	})
}

// Lengths are those of the calibration, less the last word; the text is valid
// and holds nothing of the grammar's own marks.
func TestLengths(t *testing.T) {
	each(t, func(t *testing.T, g Generator, lang Lang) {
		for n := range 60 {
			text := g.Append(nil, uint64(n), n*n, lang)
			want := bytesOf(n*n, g.BytesPerToken(lang))
			if len(text) > want || len(text) < want-25 {
				t.Fatalf("asked for %d bytes, got %d", want, len(text))
			}
			if !utf8.Valid(text) {
				t.Fatalf("text of %d tokens is not UTF-8", n*n)
			}
		}
		text := string(g.Append(nil, 1, 100_000, lang))
		for _, mark := range []string{"  [", "{+", "{$", "{!", ";;", "<nil>", "%!", "\x00"} {
			if i := strings.Index(text, mark); i >= 0 && !strings.HasPrefix(g.(*document).name, "code") {
				t.Errorf("%q in the text: %q", mark, text[max(0, i-60):min(len(text), i+60)])
			}
		}
	})
}

// The first 24 bytes spell the seed and nothing else, so that texts of different
// seeds, kinds or languages share no block of a prefix cache.
func TestSaltIsFirst(t *testing.T) {
	each(t, func(t *testing.T, g Generator, lang Lang) {
		rapid.Check(t, func(t *rapid.T) {
			a := rapid.Uint64().Draw(t, "a")
			b := a ^ 1<<rapid.IntRange(0, 63).Draw(t, "bit")
			x, y := g.Append(nil, a, 40, lang), g.Append(nil, b, 40, lang)
			if bytes.Equal(x[:24], y[:24]) {
				t.Fatalf("seeds %#x and %#x both start %q", a, b, x[:24])
			}
		})
	})
	seen := map[string]string{}
	each(t, func(t *testing.T, g Generator, lang Lang) {
		s := string(g.Append(nil, 5, 40, lang)[:24])
		if other := seen[s]; other != "" {
			t.Errorf("starts like %s", other)
		}
		seen[s] = t.Name()
	})
}

func TestDigits(t *testing.T) {
	// Every digit of the salt can hold every value: 2^64-1 has twenty digits.
	if got := string(appendSalt(nil, 0)); len(got) != 24 || strings.Count(got, "-") != 4 {
		t.Errorf("salt %q", got)
	}
}

// Code is code: the whole of a file parses, and so does its beginning after the
// last function that is whole.
func TestCodeParses(t *testing.T) {
	for _, lang := range []Lang{English, Chinese} {
		for seed := range uint64(40) {
			text := string(kinds["code"].Append(nil, seed, 30_000, lang))
			files := strings.Split(text[24:], "\npackage ")
			if len(files) < 3 {
				t.Fatalf("only %d files", len(files)-1)
			}
			// The last file is cut; what precedes package of the next one are
			// its comments.
			for _, f := range files[1 : len(files)-1] {
				if _, err := parser.ParseFile(token.NewFileSet(), "", "package "+f, 0); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		}
	}
}

// What filings state in tables must add up.
func TestFilingsAddUp(t *testing.T) {
	figure := func(s string) (v int64) {
		s = strings.TrimSpace(s)
		neg := strings.HasPrefix(s, "(")
		for _, c := range s {
			if '0' <= c && c <= '9' {
				v = v*10 + int64(c-'0')
			}
		}
		if neg {
			v = -v
		}
		return v
	}
	for seed := range uint64(20) {
		text := string(kinds["filing"].Append(nil, seed, 60_000, English))
		at := map[string][2]int64{}
		checked := 0
		for line := range strings.SplitSeq(text, "\n") {
			f := strings.Split(line, "|")
			if len(f) != 5 {
				continue
			}
			at[strings.TrimSpace(f[1])] = [2]int64{figure(f[2]), figure(f[3])}
			switch strings.TrimSpace(f[1]) {
			case "Net income":
				for y := range 2 {
					want := at["Net sales"][y] - at["Cost of sales"][y] - at["Selling, general and administrative"][y] -
						at["Research and development"][y] - at["Interest expense"][y] - at["Provision for income taxes"][y]
					if got := at["Net income"][y]; got != want {
						t.Errorf("seed %d: net income %d, want %d", seed, got, want)
					}
				}
				checked++
			case "Cash at end of year":
				for y := range 2 {
					want := at["Cash at beginning of year"][y] + at["Operating activities"][y] + at["Investing activities"][y] + at["Financing activities"][y]
					if got := at["Cash at end of year"][y]; got != want {
						t.Errorf("seed %d: cash %d, want %d", seed, got, want)
					}
				}
				checked++
			case "Total liabilities and equity":
				for y := range 2 {
					want := at["Accounts payable"][y] + at["Total debt"][y] + at["Other liabilities"][y] + at["Shareholders' equity"][y]
					if got := at["Total liabilities and equity"][y]; got != want || got != at["Total assets"][y] {
						t.Errorf("seed %d: balance %d, want %d", seed, got, want)
					}
				}
				checked++
			}
		}
		if checked < 6 {
			t.Errorf("seed %d: only %d tables", seed, checked)
		}
	}
}

// Findings are of a patient whom the text before them has named: they name nobody, and
// no age, sex or year that could be another's. Records of patients do.
func TestFindingsNameNoOtherPatient(t *testing.T) {
	marks := [2]*regexp.Regexp{
		English: regexp.MustCompile(`PATIENT:|MRN|DOB|SEX:|year-old|\d{4}-\d\d-\d\d|(January|February|March|April|May|June|July|August|September|October|November|December) \d`),
		Chinese: regexp.MustCompile(`姓名|住院号|性别|年龄|\d{4}-\d\d-\d\d|(19|20)\d\d年`),
	}
	for lang, mark := range marks {
		for seed := range uint64(40) {
			text := kinds["findings"].Append(nil, seed, 5000, Lang(lang))[saltBytes:]
			if at := mark.FindIndex(text); at != nil {
				t.Errorf("%s, seed %d: %q", Lang(lang), seed, text[max(0, at[0]-60):min(len(text), at[1]+60)])
			}
			if record := kinds["patient"].Append(nil, seed, 200, Lang(lang))[saltBytes:]; !mark.Match(record) {
				t.Errorf("%s, seed %d: a record names nobody: %q", Lang(lang), seed, record)
			}
		}
	}
}

func TestNumerals(t *testing.T) {
	for v, want := range map[int64]string{1: "一", 10: "十", 12: "十二", 20: "二十", 101: "一百零一", 110: "一百一十", 1005: "一千零五"} {
		if got := string(appendHan(nil, v)); got != want {
			t.Errorf("%d is %s, want %s", v, got, want)
		}
	}
	for v, want := range map[int64]string{
		1: "壹", 10: "壹拾", 105: "壹佰零伍", 43_000: "肆万叁仟", 60_000_000: "陆仟万", 1_650_000: "壹佰陆拾伍万",
		100_005: "壹拾万零伍", 120_300_000: "壹亿贰仟零叁拾万", 1_005_000: "壹佰万零伍仟",
	} {
		if got := string(appendCapital(nil, v)); got != want {
			t.Errorf("%d is %s, want %s", v, got, want)
		}
	}
	for v, want := range map[int64]string{4: "IV", 19: "XIX", 49: "XLIX"} {
		if got := string(appendRoman(nil, v)); got != want {
			t.Errorf("%d is %s, want %s", v, got, want)
		}
	}
	for day, want := range map[int64]string{0: "1970-01-01", 11016: "2000-02-29", 19782: "2024-02-29", 20088: "2024-12-31", firstDay: "2004-01-01"} {
		if got := string(appendISO(nil, day)); got != want {
			t.Errorf("day %d is %s, want %s", day, got, want)
		}
	}
}

// Texts are pinned, so that a seed means the same prompts in every process and,
// until somebody decides otherwise, in every version.
func TestTextsArePinned(t *testing.T) {
	for name, want := range pinned {
		g, lang, err := Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		h := fnv.New64a()
		for seed := range uint64(4) {
			h.Write(g.Append(nil, seed, 20_000, lang))
		}
		if got := h.Sum64(); got != want {
			t.Errorf("%q: %#x,", name, got)
		}
	}
	if len(pinned) != 2*len(kinds) {
		t.Errorf("%d texts are pinned, want %d", len(pinned), 2*len(kinds))
	}
}

func TestNoAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools")
	}
	each(t, func(t *testing.T, g Generator, lang Lang) {
		buf := make([]byte, 0, 64<<10)
		seed := uint64(0)
		buf = g.Append(buf[:0], seed, 4000, lang)
		if n := testing.AllocsPerRun(50, func() { seed++; buf = g.Append(buf[:0], seed, 4000, lang) }); n > 0.2 {
			// The collector may empty the pool of states now and then.
			t.Errorf("%.2f allocations per text", n)
		}
	})
}

func BenchmarkGenerators(b *testing.B) {
	for _, name := range Names() {
		for _, lang := range []Lang{English, Chinese} {
			if name == WordsName && lang == Chinese {
				continue
			}
			b.Run(name+"/"+lang.String(), func(b *testing.B) {
				g, err := Lookup(name)
				if err != nil {
					b.Fatal(err)
				}
				var buf []byte
				var n int64
				seed := uint64(0)
				for b.Loop() {
					seed++
					buf = g.Append(buf[:0], seed, 4096, lang)
					n += int64(len(buf))
				}
				b.SetBytes(n / int64(b.N))
				b.ReportAllocs()
			})
		}
	}
}

func TestLookup(t *testing.T) {
	f := func(name, want string) {
		t.Helper()
		if _, _, err := Parse(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
	f("contrct", `did you mean "contract"?`)
	f("lorem", "want one of caselaw, code, contract, filing, findings, paper, patient, prose, ticks, words, or file:PATH")
	f("contract/fr", "want en or zh")
	f("words/zh", "English only")
	for _, name := range Names() {
		if _, _, err := Parse(name); err != nil {
			t.Error(err)
		}
	}
}

// letters is a tokenizer of four bytes a token, so that exact lengths are easy to
// check.
type letters struct{}

func (letters) Count(text string) int { return (len(text) + 3) / 4 }

func (letters) Cut(text string, n int) int { return min(len(text), 4*n) }

func TestRenderer(t *testing.T) {
	for _, name := range []string{"", "words", "contract", "caselaw/zh", "ticks", "unknown"} {
		p := message.Part{Generator: name, Seed: 3, Tokens: 700}
		plain, exact := new(Renderer), &Renderer{Tokenizer: letters{}}
		a, b := plain.AppendText(nil, &p), exact.AppendText([]byte("> "), &p)
		if len(a) == 0 || len(b) != 2+4*700 {
			t.Errorf("%q: %d bytes, exactly cut %d", name, len(a), len(b)-2)
		}
		p.Tokens = 0
		if got := plain.AppendText(nil, &p); len(got) != 0 {
			t.Errorf("%q: %d bytes for no tokens", name, len(got))
		}
		p.Text = "as given"
		if got := string(exact.AppendText(nil, &p)); got != "as given" {
			t.Errorf("%q: %q", name, got)
		}
	}
	own := &Renderer{BytesPerToken: map[string]int{"contract": 2000}}
	if n := len(own.AppendText(nil, &message.Part{Generator: "contract", Tokens: 500})); n > 1000 || n < 975 {
		t.Errorf("%d bytes at two bytes a token", n)
	}
	if err := own.Check("contract"); err != nil {
		t.Error(err)
	}
	if err := own.Check("file:a.txt"); err == nil {
		t.Error("a file without a folder")
	}
	if err := own.Check("contrat"); err == nil {
		t.Error("an unknown name")
	}
}

func TestFit(t *testing.T) {
	milli, over, err := Fit([]Sample{{400, 112}, {800, 212}, {4000, 1012}})
	if err != nil || milli != 4000 || over < 11.99 || over > 12.01 {
		t.Errorf("%d, %g, %v", milli, over, err)
	}
	if milli, _, err := Fit([]Sample{{400, 412}, {800, 812}}); err != nil || milli != 1000 {
		t.Errorf("a token for each byte: %d, %v", milli, err)
	}
	for _, s := range [][]Sample{
		nil,
		{{100, 3}},
		{{100, 3}, {100, 4}},
		{{100, 30}, {200, 10}},
		{{100, 200}, {200, 500}},     // more tokens than bytes
		{{1000, 1000}, {9000, 1001}}, // the prompts would be of gigabytes
		{{1000, 900}, {1000, 20}, {8000, 3000}, {8000, 500}}, // drawn by lot
	} {
		if _, _, err := Fit(s); err == nil {
			t.Errorf("%v fits", s)
		}
	}
}

// Texts that are made side by side are those that are made one after another; the race
// detector sees to what they share.
func TestTextsSideBySide(t *testing.T) {
	r := new(Renderer)
	text := func(i int) string {
		return string(r.AppendText(nil, &message.Part{Generator: []string{"contract", "prose/zh", "paper"}[i%3], Seed: uint64(i), Tokens: 20 + 37*i}))
	}
	want := make([]string, 40)
	for i := range want {
		want[i] = text(i)
	}
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range want {
				if at := (i + worker*11) % len(want); text(at) != want[at] {
					t.Errorf("text %d is another beside others", at)
				}
			}
		})
	}
	all.Wait()
}
