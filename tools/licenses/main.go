// Command licenses prints the licences of everything that a release of Plimsoll is linked
// with, on any platform: Go's own, those of exactly the modules that the packages come from,
// as they lie in the module cache, and files that are named. A module without a licence is
// an error.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	var also []string
	flag.Func("also", "a file to print too; may be given several times", func(name string) error {
		also = append(also, name)
		return nil
	})
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "licenses [-also FILE]... PACKAGE OS/ARCH...: prints the licences of what the package is linked with there")
	}
	flag.Parse()
	if flag.NArg() < 2 {
		flag.Usage()
		os.Exit(2)
	}
	var text bytes.Buffer
	err := write(&text, flag.Arg(0), flag.Args()[1:])
	for _, file := range also {
		if err == nil {
			err = section(&text, filepath.Base(file), []string{file})
		}
	}
	if err == nil {
		_, err = os.Stdout.Write(text.Bytes())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

// module is one that packages are linked from.
type module struct {
	Path, Version, Dir string
	Main               bool
	// folders are those of the packages, below Dir.
	folders map[string]bool
}

// modules returns those that a package is linked with on some platforms, in the order of
// their paths.
func modules(name string, platforms []string) ([]*module, error) {
	all := map[string]*module{}
	for _, platform := range platforms {
		goos, arch, ok := strings.Cut(platform, "/")
		if !ok {
			return nil, fmt.Errorf("platform %q: want OS/ARCH", platform)
		}
		list := exec.Command("go", "list", "-deps", "-json=Dir,Module", name)
		list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch)
		list.Stderr = os.Stderr
		out, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("list what %s is linked with: %w", name, err)
		}
		for in := json.NewDecoder(bytes.NewReader(out)); ; {
			var p struct {
				Dir    string
				Module *module
			}
			if err := in.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("read what %s is linked with: %w", name, err)
			}
			m := p.Module
			if m == nil || m.Main { // of the library of Go, or of this one
				continue
			}
			if all[m.Path] == nil {
				m.folders = map[string]bool{}
				all[m.Path] = m
			}
			all[m.Path].folders[p.Dir] = true
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *module) int { return cmp.Compare(a.Path, b.Path) }), nil
}

var (
	license = regexp.MustCompile(`(?i)^(licen[cs]e|copying)([._-].*)?$`)
	beside  = regexp.MustCompile(`(?i)^(notice|patents|authors|copyright)([._-].*)?$`)
)

// files returns the licence files of a module, and what lies beside them: in its root, and
// in every folder from there to one that something is linked from, since code of others
// often has its own. A module without a licence in its root is an error.
func (m *module) files() ([]string, error) {
	folders := map[string]bool{m.Dir: true}
	for dir := range m.folders {
		for ; len(dir) > len(m.Dir); dir = filepath.Dir(dir) {
			folders[dir] = true
		}
	}
	var found []string
	licensed := false
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			is := license.MatchString(e.Name())
			if !e.Type().IsRegular() || strings.HasSuffix(e.Name(), ".go") || !is && !beside.MatchString(e.Name()) {
				continue
			}
			licensed = licensed || is && dir == m.Dir
			found = append(found, filepath.Join(dir, e.Name()))
		}
	}
	if !licensed {
		return nil, fmt.Errorf("module %s %s has no file of its licence in %s", m.Path, m.Version, m.Dir)
	}
	return found, nil
}

// write writes the licences of Go and of the modules, after a list of them.
func write(w *bytes.Buffer, name string, platforms []string) error {
	all, err := modules(name, platforms)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("%s is linked with no module", name)
	}
	fmt.Fprintln(w, "Plimsoll is linked with Go's own library and the modules below. Each is followed by the files of its licence.")
	fmt.Fprintln(w)
	for _, m := range all {
		fmt.Fprintln(w, "  "+m.Path, m.Version)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("find Go: %w", err)
	}
	goroot := strings.TrimSpace(string(root))
	if err := section(w, "Go", []string{filepath.Join(goroot, "LICENSE"), filepath.Join(goroot, "PATENTS")}); err != nil {
		return err
	}
	for _, m := range all {
		files, err := m.files()
		if err != nil {
			return err
		}
		if err := section(w, m.Path+" "+m.Version, files); err != nil {
			return err
		}
	}
	return nil
}

// section writes files below a heading.
func section(w *bytes.Buffer, title string, files []string) error {
	fmt.Fprintf(w, "\n%s\n%s\n", strings.Repeat("=", 80), title)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read the licence of %s: %w", title, err)
		}
		fmt.Fprintf(w, "%s\n%s\n\n%s\n", strings.Repeat("-", 80), filepath.Base(file), bytes.TrimSpace(text))
	}
	return nil
}
