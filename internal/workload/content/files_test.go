package content

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var long, rows, lines strings.Builder
	for i := range 400 {
		fmt.Fprintf(&long, "Sentence number %d of the manual. ", i)
		fmt.Fprintf(&rows, "%d,\"a, b\",%d\n", i, i*i)
		fmt.Fprintf(&lines, "{\"id\": %d, \"text\": \"document %d speaks\"}\n", i, i)
	}
	write("a.txt", long.String())
	write("docs/b.md", "# B\r\n\r\n"+long.String())
	write("docs/c.md", "# C\n\n中文文本也可以作为文档。"+long.String())
	write("t.csv", "\xef\xbb\xbfid,name,square\n"+rows.String())
	write("d.jsonl", lines.String())
	write("list.json", `["`+long.String()+`", {"content": "`+long.String()+`"}, {"other": 1}]`)
	write("short.txt", "too short")
	write("latin.txt", "caf\xe9 "+long.String())
	write("zero.txt", "\x00"+long.String())
	write("x.pdf", "%PDF-1.4 "+long.String())
	write("empty.pdf", "")
	if !raceEnabled {
		write("docs/p.PDF", string(pdfFile(t, false, long.String())))
	}
	write("x.exe", long.String())
	write("bad.json", `[{"text": `)
	write("bad.csv", "a,b\n1,2,3\n")
	outside := filepath.Join(t.TempDir(), "secret.txt")
	if err := os.WriteFile(outside, []byte(long.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link.txt")); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "linux" {
		if err := syscall.Mkfifo(filepath.Join(dir, "pipe.txt"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, err := OpenFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := &Renderer{Files: f}

	for _, good := range []string{"a.txt", "docs/*.md", "docs/*", "t.csv", "d.jsonl", "list.json"} {
		if err := r.Check("file:" + good); err != nil {
			t.Error(err)
			continue
		}
		g, _ := r.find("file:" + good)
		a, b := g.Append(nil, 1, 200, English), g.Append(nil, 2, 200, English)
		if !bytes.Equal(a, g.Append(nil, 1, 200, English)) {
			t.Errorf("%s: two windows of one seed", good)
		}
		if bytes.Equal(a[:24], b[:24]) || bytes.Equal(a[26:90], b[26:90]) {
			t.Errorf("%s: the windows of two seeds are alike:\n%s\n%s", good, a, b)
		}
		if want := bytesOf(200, g.BytesPerToken(English)); len(a) > want || len(a) < want-25 {
			t.Errorf("%s: %d bytes, want %d", good, len(a), want)
		}
		if big := g.Append(nil, 3, 100_000, English); len(big) < 300_000 {
			t.Errorf("%s: no more than %d bytes", good, len(big))
		}
	}
	g, _ := r.find("file:t.csv")
	if text := g.Append(nil, 4, 100, English); !bytes.Contains(text, []byte("\n\nid,name,square\n")) {
		t.Errorf("no header in %q", text)
	}

	for name, size := range map[string]int64{"large.txt": 1 << 33, "large.exe": 1 << 33} {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(name, size); err != nil {
			t.Skip(err) // a file system without holes
		}
	}
	bad := map[string]string{
		"large.txt":     "large.txt has 8589934592 bytes, more than 64 MiB",
		"large.exe":     `large.exe: unknown kind ".exe", want .txt`,
		"":              "no path",
		"none.txt":      "there is no none.txt in the workload file's folder",
		"*.xyz":         "no file matches",
		"docs":          "is a folder; name its files, such as docs/*.md",
		"../secret.txt": "relative to the workload file's folder",
		"/etc/hostname": "relative to the workload file's folder",
		`docs\b.md`:     "relative to the workload file's folder",
		"link.txt":      "escapes",
		"short.txt":     "only 9 bytes",
		"latin.txt":     "not UTF-8",
		"zero.txt":      "not UTF-8",
		"x.pdf":         "x.pdf: PDF: ",
		"empty.pdf":     "empty.pdf: PDF: ",
		"x.exe":         `unknown kind ".exe"`,
		"bad.json":      "JSON at byte",
		"bad.csv":       "wrong number of fields",
	}
	if runtime.GOOS == "linux" {
		bad["pipe.txt"] = "not a regular file"
	}
	if raceEnabled {
		delete(bad, "x.pdf")
		delete(bad, "empty.pdf")
	}
	for name, want := range bad {
		if err := r.Check("file:" + name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
	if _, err := f.one("short.txt", 8); err == nil || err.Error() != "more than 256 MiB in all, with short.txt" {
		t.Errorf("a file without room: %v", err)
	}
	if _, err := OpenFiles(filepath.Join(dir, "none")); err == nil {
		t.Error("a folder that is not there")
	}
}

func FuzzDocuments(f *testing.F) {
	f.Add("a.json", []byte(`[{"text": "x"}, "y", 3]`))
	f.Add("a.jsonl", []byte("{\"body\": \"x\"}\n{}\nnull"))
	f.Add("a.csv", []byte("a,b\n1,2\n"))
	f.Add("a.md", []byte("# x"))
	f.Fuzz(func(t *testing.T, name string, b []byte) {
		docs, err := documents(name, b)
		if err != nil {
			return
		}
		set := &fileSet{docs: docs}
		for i := range docs {
			set.total += len(docs[i].body)
		}
		if set.total < fewestBytes {
			return
		}
		for seed := range uint64(3) {
			if out := set.Append(nil, seed, 100, English); len(out) > bytesOf(100, set.BytesPerToken(English)) {
				t.Fatalf("%d bytes", len(out))
			}
		}
	})
}
