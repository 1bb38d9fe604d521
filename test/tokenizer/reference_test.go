// Package tokenizer_test compares the tokenizer with the reference implementation
// on the real vocabularies of five model families. The vocabularies are too large
// to keep here; vocabularies.sh fetches them, and what it cannot fetch is skipped.
package tokenizer_test

import (
	"bufio"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unicode/utf8"

	"plimsoll/internal/tokenizer"
)

// families are the names of the goldens, which are those of the vocabularies.
var families = []string{"llama3", "qwen3", "gptoss", "deepseek_v3", "gemma3"}

// load reads a family's vocabulary, or skips the test.
func load(t testing.TB, family string) *tokenizer.Tokenizer {
	t.Helper()
	dir := os.Getenv("PLIMSOLL_VOCABULARIES")
	if dir == "" {
		t.Skip("PLIMSOLL_VOCABULARIES is not set; `make integration` sets it")
	}
	path := filepath.Join(dir, family+".json")
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		t.Skipf("%s could not be fetched (test/tokenizer/vocabularies.sh says why)", family)
	}
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Load(path, b)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func strings(t testing.TB) []string {
	t.Helper()
	b, err := os.ReadFile("testdata/strings.json")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	if len(out) < 1500 {
		t.Fatalf("only %d strings", len(out))
	}
	return out
}

// ids reads what the reference made of the strings.
func ids(t testing.TB, family string, n int) [][]int32 {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "ids-"+family+".gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(z)
	next := func() int {
		v, err := binary.ReadUvarint(r)
		if err != nil {
			t.Fatal(err)
		}
		return int(v)
	}
	out := make([][]int32, n)
	for i := range out {
		for range next() {
			out[i] = append(out[i], int32(next()))
		}
	}
	if _, err := r.ReadByte(); err == nil {
		t.Fatal("more ids than strings")
	}
	return out
}

// TestReference encodes every string as the reference does, and holds counts, ends
// and cuts to what must be true of them.
func TestReference(t *testing.T) {
	texts := strings(t)
	for _, family := range families {
		t.Run(family, func(t *testing.T) {
			tok := load(t, family)
			t.Run("ids", func(t *testing.T) {
				wrong := 0
				for i, want := range ids(t, family, len(texts)) {
					if got := tok.Encode(nil, texts[i]); !slices.Equal(got, want) {
						if wrong++; wrong <= 10 {
							t.Errorf("%q:\n got %d\nwant %d", texts[i], got, want)
						}
					}
				}
				if wrong > 0 {
					t.Errorf("%d of %d strings differ", wrong, len(texts))
				}
			})
			t.Run("ends", func(t *testing.T) {
				for _, text := range texts {
					n, ends := len(tok.Encode(nil, text)), tok.AppendEnds(nil, text)
					if tok.Count(text) != n || len(ends) != n || !slices.IsSorted(ends) || n > 0 && int(ends[n-1]) != len(text) {
						t.Errorf("%q: %d tokens end at %d of %d bytes", text, n, ends, len(text))
					}
				}
			})
			t.Run("cut", func(t *testing.T) { cuts(t, tok, texts) })
		})
	}
}

// cuts looks at every prefix of every third string: a cut is the longest one with so
// many tokens, or with fewer if none has as many.
func cuts(t *testing.T, tok *tokenizer.Tokenizer, texts []string) {
	for i, text := range texts {
		if len(text) > 200 || i%3 > 0 {
			continue
		}
		want := map[int]int{}
		for p := range len(text) + 1 {
			if p == len(text) || utf8.RuneStart(text[p]) {
				want[tok.Count(text[:p])] = p
			}
		}
		fewer := 0
		for n := range tok.Count(text) + 2 {
			p, ok := want[n]
			fewer = max(fewer, p)
			if !ok {
				p = fewer
			}
			if got := tok.Cut(text, n); got != p {
				t.Errorf("%q to %d tokens: cut at %d, want %d", text, n, got, p)
			}
		}
	}
}

// TestRanks encodes by ranks of tiktoken that hold the tokens of gpt-oss, which are
// those of o200k_base, and comes to the same ids.
func TestRanks(t *testing.T) {
	dir := os.Getenv("PLIMSOLL_VOCABULARIES")
	load(t, "gptoss") // or skip
	b, err := os.ReadFile(filepath.Join(dir, "gptoss.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Model struct {
			Vocab map[string]int `json:"vocab"`
		} `json:"model"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	var ranks []byte
	for token, rank := range file.Model.Vocab {
		var raw []byte
		for _, r := range token {
			// Bytes that cannot be shown have the characters from U+0100 on.
			switch {
			case r < 0x100:
			case r <= 0x120:
				r -= 0x100
			case r <= 0x142:
				r += 0x7f - 0x121
			default:
				r = 0xad
			}
			raw = append(raw, byte(r))
		}
		ranks = fmt.Appendf(ranks, "%s %d\n", base64.StdEncoding.EncodeToString(raw), rank)
	}
	tok, err := tokenizer.Load("o200k_base.tiktoken", ranks)
	if err != nil {
		t.Fatal(err)
	}
	texts := strings(t)
	compared := 0
	for i, want := range ids(t, "gptoss", len(texts)) {
		if slices.ContainsFunc(want, func(id int32) bool { return id >= 199_998 }) {
			continue // ranks have no special tokens
		}
		compared++
		if got := tok.Encode(nil, texts[i]); !slices.Equal(got, want) {
			t.Errorf("%q:\n got %d\nwant %d", texts[i], got, want)
		}
	}
	if compared < 1800 {
		t.Errorf("only %d texts compared", compared)
	}
}
