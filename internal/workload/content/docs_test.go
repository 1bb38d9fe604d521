package content

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the samples of docs/content.md anew")

// sample is a passage out of the middle of a document.
func sample(t *testing.T, name string) string {
	g, lang, err := Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	text := g.Append(nil, 2, 4000, lang)
	if name == WordsName {
		return string(cut(text, 0, 400))
	}
	at := len(text) / 2
	if i := bytes.Index(text[at:], []byte("\n\n")); i >= 0 {
		at += i + 2
	} else {
		at += bytes.IndexByte(text[at:], '\n') + 1
	}
	return strings.TrimSpace(string(cut(text[at:], 0, 640)))
}

// The samples that the documentation shows are what is made.
func TestDocumentedSamples(t *testing.T) {
	const file, mark = "../../../docs/content.md", "\n## Samples\n"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(b), mark)
	if !ok {
		t.Fatal("no samples in docs/content.md")
	}
	var want strings.Builder
	want.WriteString(head + mark + "\nPassages out of the middle of texts of seed 2; `go test ./internal/workload/content -run Documented -update` writes them anew.\n")
	for _, name := range Names() {
		for _, n := range []string{name, name + "/zh"} {
			if n == WordsName+"/zh" {
				continue
			}
			want.WriteString("\n`" + n + "`\n\n```text\n" + sample(t, n) + "\n```\n")
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want.String() != string(b) {
		t.Error("docs/content.md shows other samples; run with -update and look at them")
	}
}
