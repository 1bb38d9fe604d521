package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// kind is a small tokenizer and what the reference implementation (HuggingFace's
// tokenizers 0.22.2) made of strings.json with it. test/tokenizer/kinds.mjs wrote
// them.
type kind struct {
	name      string
	Extra     int             `json:"extra"`
	Tokenizer json.RawMessage `json:"tokenizer"`
	IDs       []string        `json:"ids"`
}

func readFile(t testing.TB, path string, into any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}

// kinds returns every kind, and the texts.
func kinds(t testing.TB) ([]kind, []string) {
	t.Helper()
	paths, err := filepath.Glob("testdata/kinds/*.json")
	if err != nil || len(paths) < 20 {
		t.Fatalf("%d kinds, %v", len(paths), err)
	}
	var out []kind
	var texts []string
	for _, p := range paths {
		if filepath.Base(p) == "strings.json" {
			readFile(t, p, &texts)
			continue
		}
		k := kind{name: strings.TrimSuffix(filepath.Base(p), ".json")}
		readFile(t, p, &k)
		out = append(out, k)
	}
	return out, texts
}

func (k kind) load(t testing.TB) *Tokenizer {
	t.Helper()
	tok, err := Load(k.name+".json", k.Tokenizer)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func (k kind) ids(t testing.TB, i int) []int32 {
	t.Helper()
	var out []int32
	for f := range strings.FieldsSeq(k.IDs[i]) {
		id, err := strconv.ParseInt(f, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, int32(id))
	}
	return out
}

// TestKinds encodes as the reference does, with every kind of component.
func TestKinds(t *testing.T) {
	all, texts := kinds(t)
	for _, k := range all {
		t.Run(k.name, func(t *testing.T) {
			tok := k.load(t)
			if tok.Extra() != k.Extra {
				t.Errorf("%d special tokens around a text, want %d", tok.Extra(), k.Extra)
			}
			if len(k.IDs) != len(texts) {
				t.Fatalf("%d goldens for %d texts", len(k.IDs), len(texts))
			}
			wrong := 0
			for i, text := range texts {
				want := k.ids(t, i)
				if got := tok.Encode(nil, text); !slices.Equal(got, want) {
					if wrong++; wrong <= 5 {
						t.Errorf("%q:\n got %d\nwant %d", text, got, want)
					}
				}
				check(t, tok, text)
			}
			if wrong > 0 {
				t.Errorf("%d of %d texts differ", wrong, len(texts))
			}
		})
	}
}

// check holds what a tokenizer says about one text to itself.
func check(t testing.TB, tok *Tokenizer, text string) {
	t.Helper()
	ids := tok.Encode(nil, text)
	if n := tok.Count(text); n != len(ids) {
		t.Errorf("%q: count %d of %d tokens", text, n, len(ids))
	}
	ends := tok.AppendEnds(nil, text)
	if len(ends) != len(ids) || !slices.IsSorted(ends) || len(ends) > 0 && (ends[0] < 0 || int(ends[len(ends)-1]) != len(text)) {
		t.Errorf("%q: %d tokens end at %d of %d bytes", text, len(ids), ends, len(text))
	}
}

// cuts returns where text is to be cut to 0, 1, ... up to most tokens, by trying all
// prefixes: the longest one with so many, else the longest one with fewer.
func cuts(tok *Tokenizer, text string, most int) []int {
	longest := map[int]int{}
	for p := range len(text) + 1 {
		if p == len(text) || utf8.RuneStart(text[p]) {
			longest[tok.Count(text[:p])] = p
		}
	}
	out, fewer := make([]int, most+1), 0
	for n := range out {
		p, ok := longest[n]
		if out[n] = p; !ok {
			out[n] = fewer
		}
		fewer = max(fewer, p)
	}
	return out
}

// TestCutKinds compares cuts with a look at every prefix.
func TestCutKinds(t *testing.T) {
	all, texts := kinds(t)
	for _, k := range all {
		t.Run(k.name, func(t *testing.T) {
			tok := k.load(t)
			for i, text := range texts {
				if i%6 > 0 || testing.Short() && i%60 > 0 {
					continue
				}
				for n, want := range cuts(tok, text, tok.Count(text)+2) {
					if got := tok.Cut(text, n); got != want {
						t.Errorf("%q to %d tokens: cut at %d, want %d", text, n, got, want)
					}
				}
				if got := tok.Cut(text, -1); got != tok.Cut(text, 0) {
					t.Errorf("%q to -1 tokens: cut at %d", text, got)
				}
			}
		})
	}
}
