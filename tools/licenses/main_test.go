package main

import (
	"bytes"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every module that the binary is linked with is named with its licence, whatever lists it,
// and NOTICE knows it.
func TestEveryModuleIsNamed(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	var text bytes.Buffer
	if err := write(&text, "./cmd/plimsoll", []string{"linux/amd64", "darwin/arm64"}); err != nil {
		t.Fatal(err)
	}
	notice, err := os.ReadFile("NOTICE")
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", "./cmd/plimsoll")
	list.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for name := range strings.Lines(string(out)) {
		if name = strings.TrimSpace(name); name == "" || named[name] {
			continue
		}
		named[name] = true
		_, after, ok := strings.Cut(text.String(), "\n"+strings.Repeat("=", 80)+"\n"+name+"\n")
		if section, _, _ := strings.Cut(after, "\n"+strings.Repeat("=", 80)+"\n"); !ok || !regexp.MustCompile(`(?i)permi|licensed`).MatchString(section) {
			t.Errorf("%s is linked and has no licence there: %.100q", name, section)
		}
		module, _, _ := strings.Cut(name, " ")
		if strings.HasPrefix(path.Base(module), "v") {
			module = path.Dir(module)
		}
		if !regexp.MustCompile(`\b` + regexp.QuoteMeta(path.Base(module)) + `\b`).Match(notice) {
			t.Errorf("NOTICE does not name %s", module)
		}
	}
	if len(named) < 10 {
		t.Errorf("%d modules", len(named))
	}
}

// A module without a licence is an error; what lies on the way to a linked package counts,
// and what lies elsewhere does not.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("You may.\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := &module{Path: "a.example/m", Version: "v1.0.0", Dir: dir, folders: map[string]bool{dir: true, filepath.Join(dir, "x", "linked"): true}}
	write("x/linked/code.go")
	write("x/LICENSE")
	write("README.md")
	write("license.go")
	if files, err := m.files(); err == nil || !strings.Contains(err.Error(), "module a.example/m v1.0.0 has no file of its licence") {
		t.Errorf("files %q, error %v", files, err)
	}
	for _, name := range []string{"LICENSE.md", "NOTICE", "x/linked/COPYING", "y/LICENSE"} {
		write(name)
	}
	files, err := m.files()
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i] = strings.TrimPrefix(files[i], dir+"/")
	}
	if got, want := strings.Join(files, " "), "LICENSE.md NOTICE x/LICENSE x/linked/COPYING"; got != want {
		t.Errorf("files %s, want %s", got, want)
	}
}
