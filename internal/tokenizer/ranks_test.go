package tokenizer

import (
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestRanks encodes as tiktoken 0.14.0 does, by every encoding.
// test/tokenizer/ranks.py wrote the goldens.
func TestRanks(t *testing.T) {
	data, err := os.ReadFile("testdata/ranks/small.tiktoken")
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	readFile(t, "testdata/kinds/strings.json", &texts)
	differ := map[string]bool{}
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			var want []string
			readFile(t, "testdata/ranks/"+e.name+".json", &want)
			tok, err := Load(e.name+":small.tiktoken", data)
			if err != nil {
				t.Fatal(err)
			}
			for i, text := range texts {
				got := ""
				for _, id := range tok.Encode(nil, text) {
					got += " " + strconv.Itoa(int(id))
				}
				if got = strings.TrimPrefix(got, " "); got != want[i] {
					t.Errorf("%q:\n got %s\nwant %s", text, got, want[i])
				}
				check(t, tok, text)
			}
			differ[strings.Join(want, "\n")] = true
		})
	}
	if len(differ) != len(encodings) {
		t.Errorf("the goldens tell only %d of %d encodings apart", len(differ), len(encodings))
	}
}

// ranks makes a file of the 256 bytes and of more tokens.
func ranks(more ...string) []byte {
	var out []byte
	for i := range 256 {
		out = fmt.Appendf(out, "%s %d\n", base64.StdEncoding.EncodeToString([]byte{byte(i)}), i)
	}
	for i, token := range more {
		out = fmt.Appendf(out, "%s %d\n", base64.StdEncoding.EncodeToString([]byte(token)), 256+i)
	}
	return out
}

// TestRanksTie merges the leftmost of equal pairs, and looks at what a pair makes,
// not at what it is made of.
func TestRanksTie(t *testing.T) {
	tok, err := Load("o200k_base.tiktoken", ranks("aa", "aaa"))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]int32{
		"aaaaa":  {256, 257},      // aa aa a, and only then aa and a
		"aaaa":   {256, 256},      // aa aa
		"aaaaaa": {256, 256, 256}, // aa aa aa
		"aaa":    {257},
	} {
		if got := tok.Encode(nil, text); !slices.Equal(got, want) {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}

// TestEncodingByName finds the encoding in the path or before it.
func TestEncodingByName(t *testing.T) {
	data := ranks()
	digits := func(name string) int { // 1234 is split into 1+1+1+1, 3+1 or 4
		tok, err := Load(name, data)
		if err != nil {
			t.Fatal(err)
		}
		spans := tok.stages[0].split(nil, "1234")
		return spans[0].to
	}
	for name, want := range map[string]int{
		"r50k:x": 4, "qwen:x": 1, "cl100k:x": 3, "kimi:/m/tiktoken.model": 3, "/m/Qwen-7B/qwen.tiktoken": 1, "/m/Kimi-K2/tiktoken.model": 3,
		"o200k_base.tiktoken": 3, "gpt2.tiktoken": 4, "qwen:/m/cl100k_base.tiktoken": 1, "Meta-Llama-3-8B/tokenizer.model": 3,
	} {
		if got := digits(name); got != want {
			t.Errorf("%s: pieces of %d digits, want %d", name, got, want)
		}
	}
	for name, want := range map[string]string{"kimi:/m/t.model": "/m/t.model", "/m/t.model": "/m/t.model", `C:\t.model`: `C:\t.model`, "other:x": "other:x", "qwen:": ""} {
		if got := Path(name); got != want {
			t.Errorf("path of %s: %s, want %s", name, got, want)
		}
	}
}

// TestCheckName has something to say of a word before a colon that is no encoding.
func TestCheckName(t *testing.T) {
	for name, want := range map[string]string{
		"foo:x.tiktoken":     `load tokenizer x.tiktoken: encoding "foo" is not known, want one of r50k, cl100k, o200k, llama3, qwen, kimi before a colon`,
		"kimi:x.tiktoken":    "",
		"x.tiktoken":         "",
		"dir/foo:x.tiktoken": "",
		`C:\x.tiktoken`:      "",
	} {
		err := CheckName(name)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
