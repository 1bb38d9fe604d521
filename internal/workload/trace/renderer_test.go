package trace

import (
	"strings"
	"testing"
	"unicode/utf8"

	"plimsoll/internal/message"
	"plimsoll/internal/workload/content"
)

func TestCutName(t *testing.T) {
	for _, c := range []struct {
		name         string
		tokens, full int
		want         string
	}{
		{"words", 512, 512, "words"},
		{"words", 100, 512, "cut:512:words"},
		{"cut:512:words", 50, 100, "cut:512:words"},
		{"file:a:b", 1, 2, "cut:2:file:a:b"},
	} {
		if got := CutName(c.name, c.tokens, c.full); got != c.want {
			t.Errorf("%s, %d of %d: %q, want %q", c.name, c.tokens, c.full, got, c.want)
		}
	}
	for _, name := range []string{"words", "cut:", "cut:x:words", "cut:0:words", "cut:-1:words", "cut:5"} {
		if ok, _, _ := cutOf(name); ok {
			t.Errorf("%q passes for a cut", name)
		}
	}
}

// A cut text is the beginning of the whole one and as long as asked, with plain
// words exactly.
func TestCutText(t *testing.T) {
	r := &Renderer{Inner: content.Words{}}
	whole := string(r.AppendText(nil, &message.Part{Generator: "words", Seed: 7, Tokens: 300}))
	for n := range 301 {
		got := string(r.AppendText(nil, &message.Part{Generator: CutName("words", n, 300), Seed: 7, Tokens: n}))
		if !strings.HasPrefix(whole, got) || tokens(got) != n {
			t.Fatalf("%d tokens: %d in %q", n, tokens(got), got)
		}
	}
	if tokens(whole) != 300 {
		t.Errorf("the whole has %d tokens", tokens(whole))
	}
	// Other generators are cut by their share of the length, never inside a character.
	r.Inner = &content.Renderer{}
	whole = string(r.AppendText(nil, &message.Part{Generator: "contract/zh", Seed: 7, Tokens: 300}))
	for _, n := range []int{1, 17, 150, 299} {
		got := string(r.AppendText([]byte("x"), &message.Part{Generator: CutName("contract/zh", n, 300), Seed: 7, Tokens: n}))[1:]
		share := float64(len(got)) / float64(len(whole)) * 300
		if !strings.HasPrefix(whole, got) || !utf8.ValidString(got) || share < float64(n)-2 || share > float64(n)+2 {
			t.Errorf("%d tokens: %.1f in %q", n, share, got)
		}
	}
	// A tokenizer's cut is taken for what it says.
	r.Cut = func(string, int) int { return 3 }
	if got := string(r.AppendText([]byte("ab"), &message.Part{Generator: "cut:300:contract", Seed: 7, Tokens: 9})); len(got) != 5 {
		t.Errorf("%q", got)
	}
}
