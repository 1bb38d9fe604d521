package plainjson

import (
	"encoding/json"
	"testing"
	"unicode"
)

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		`{"a": "b"}` + "\n":    `{"a": "b"}` + "\n",
		"\"é 😀 \u4f60\"":       "\"é 😀 \u4f60\"",
		"\"\u009b31m\x7f\"":    `"\u009b31m\u007f"`,
		"\"a\u202eb\u2066\"":   `"a\u202eb\u2066"`,
		"\"\u2028\U000e0041\"": `"\u2028\udb40\udc41"`,
		"\"\xff\"":             `"\ufffd"`,
	} {
		if got := string(Escape([]byte(in))); got != want {
			t.Errorf("Escape(%q) = %q, want %q", in, got, want)
		}
	}
}

// A JSON text means the same afterwards, and shows nothing but what is printable.
func FuzzEscape(f *testing.F) {
	f.Add("\x1b[31m\u009b\u202e\\\"\xff\U000e0041")
	f.Fuzz(func(t *testing.T, s string) {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var want, got string
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		b = Escape(b)
		if err := json.Unmarshal(b, &got); err != nil || got != want {
			t.Fatalf("%q became %q, %v", want, got, err)
		}
		for _, r := range string(b) {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q holds %q", b, r)
			}
		}
	})
}
