package plimsoll_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// file is one Go file: its path below the root and its syntax.
type file struct {
	path string
	tree *ast.File
}

// parse reads one Go file. It fails the test when the file is not Go.
func parse(t *testing.T, fset *token.FileSet, path string, src any) file {
	t.Helper()
	tree, err := parser.ParseFile(fset, path, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatalf("parse %s: %v", path, err)
	}
	return file{filepath.ToSlash(path), tree}
}

// tracked returns the files of the project: those that git tracks or would,
// else (no git, no repository) everything that is not hidden or built.
func tracked(t *testing.T) []string {
	t.Helper()
	if b, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output(); err == nil {
		var out []string
		for p := range strings.SplitSeq(strings.Trim(string(b), "\x00"), "\x00") {
			if st, err := os.Lstat(p); err == nil && st.Mode().IsRegular() { // a removed file is still listed
				out = append(out, p)
			}
		}
		return out
	}
	var out []string
	err := filepath.WalkDir(".", func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			hidden := strings.HasPrefix(d.Name(), ".") && p != "." && p != ".ci"
			if hidden || slices.Contains([]string{"bin", "dist", "runs", "node_modules"}, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() {
			out = append(out, filepath.ToSlash(p))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// goFiles parses the project's Go files, tests too.
func goFiles(t *testing.T) (*token.FileSet, []file) {
	t.Helper()
	fset := token.NewFileSet()
	var out []file
	for _, p := range tracked(t) {
		if strings.HasSuffix(p, ".go") && !strings.Contains(p, "testdata/") {
			out = append(out, parse(t, fset, p, nil))
		}
	}
	if len(out) < 5 {
		t.Fatalf("only %d Go files found", len(out))
	}
	return fset, out
}

func isTest(path string) bool { return strings.HasSuffix(path, "_test.go") }

// undocumented returns what lacks words: packages without exactly one doc
// comment that says what they own and never do, exported names without a
// comment, and packages named after nothing.
func undocumented(fset *token.FileSet, files []file) []string {
	var out []string
	packages := map[string][]file{}
	var dirs []string
	for _, f := range files {
		if isTest(f.path) {
			continue
		}
		dir := filepath.ToSlash(filepath.Dir(f.path))
		if packages[dir] == nil {
			dirs = append(dirs, dir)
		}
		packages[dir] = append(packages[dir], f)
	}
	for _, dir := range dirs {
		var docs []string
		name := packages[dir][0].tree.Name.Name
		for _, f := range packages[dir] {
			if f.tree.Doc.Text() != "" {
				docs = append(docs, f.tree.Doc.Text())
			}
			out = append(out, bare(fset, f.tree)...)
		}
		switch name {
		case "util", "utils", "common", "lib", "helpers", "helper", "base", "manager", "misc", "shared":
			out = append(out, fmt.Sprintf("%s: package %s says nothing of what it holds", dir, name))
		}
		if len(docs) != 1 {
			out = append(out, fmt.Sprintf("%s: package %s has %d doc comments, want one", dir, name, len(docs)))
			continue
		}
		head := "Package " + name + " "
		if name == "main" {
			head = "Command " + filepath.Base(dir) + " "
		}
		if !strings.HasPrefix(docs[0], head) {
			out = append(out, fmt.Sprintf("%s: the doc comment begins %.40q, want %q", dir, docs[0], head))
		}
		if name == "main" {
			continue
		}
		if len(docs[0]) < 120 || !regexp.MustCompile(`(?i)\b(never|nothing|no|not|nor)\b`).MatchString(docs[0]) {
			out = append(out, fmt.Sprintf("%s: the doc comment of package %s must say what it owns and what it never does", dir, name))
		}
	}
	return out
}

// bare returns the exported names of one file that have no comment. A comment
// on a group of constants or variables speaks for all of them; methods that
// only satisfy a well-known interface need none.
func bare(fset *token.FileSet, f *ast.File) []string {
	var out []string
	miss := func(pos token.Pos, name string) {
		out = append(out, fmt.Sprintf("%s: %s has no doc comment", fset.Position(pos), name))
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if !d.Name.IsExported() || d.Doc.Text() != "" {
				continue
			}
			name := d.Name.Name
			if d.Recv != nil {
				of := receiver(d.Recv.List[0].Type)
				if !ast.IsExported(of) || slices.Contains([]string{"Error", "Unwrap", "Len", "Less", "Swap"}, name) {
					continue
				}
				name = of + "." + name
			}
			miss(d.Pos(), name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() && d.Doc.Text() == "" && s.Doc.Text() == "" {
						miss(s.Pos(), s.Name.Name)
					}
				case *ast.ValueSpec:
					for _, n := range s.Names {
						if n.IsExported() && d.Doc.Text() == "" && s.Doc.Text() == "" && s.Comment.Text() == "" {
							miss(n.Pos(), n.Name)
						}
					}
				}
			}
		}
	}
	return out
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// processNames are what package os says of this process. Only main and cli's
// Env see them, so that every command can run inside a test.
var processNames = []string{
	"Args", "Chdir", "Environ", "Exit", "ExpandEnv", "Executable", "Getenv", "Getwd", "LookupEnv", "Setenv", "Stdin", "Stdout",
	"Stderr", "UserCacheDir", "UserConfigDir", "UserHomeDir",
}

// osAllowed says which rooms use package os for more than its error values and
// types, and why.
var osAllowed = map[string]string{
	"run":       "it is the run on disk",
	"clock":     "a timer file descriptor in the poller",
	"stream":    "error values and descriptors of sockets",
	"scenario":  "reads the scenario file it is asked to load",
	"workload":  "reads data sets and traces that the scenario names",
	"tokenizer": "reads tokenizer.json",
	"twin":      "reads the configuration file of a model that the user names",
	"play":      "test support: reads recorded inputs",
	"conduct":   "host name, process identity and secrets from files for the run's record",
	"infile":    "opens what the user names",
	"detail":    "its files beside the run",
	"report":    "writes the report where it is asked to",
	"web":       "serves a folder of runs",
	"cli":       "Env is where the rest of the house gets it from",
}

// usersFiles are the rooms that read files which the user names: by infile, which waits
// for nothing for ever.
var usersFiles = []string{"cli", "scenario", "tokenizer", "twin", "workload"}

// osErrors are names of package os that look at nothing.
var osErrors = regexp.MustCompile(`^(Err[A-Z]|Is[A-Z]|PathError$|SyscallError$|LinkError$|FileMode$|FileInfo$|DirEntry$|Mode[A-Z]|O_|Interrupt$|Signal$|NewSyscallError$)`)

// reachesOut returns uses of package os that go round cli.Env, precise sleeping
// outside clock, and unit tests that wait for real time.
func reachesOut(fset *token.FileSet, files []file) []string {
	var out []string
	for _, f := range files {
		in := room(module + "/" + filepath.ToSlash(filepath.Dir(f.path)))
		if in == "" {
			continue // tests of whole processes
		}
		bubble := imports(f.tree, "testing/synctest")
		hasOS := imports(f.tree, "os")
		ast.Inspect(f.tree, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := s.X.(*ast.Ident)
			if !ok {
				return true
			}
			name, at := s.Sel.Name, fset.Position(s.Pos())
			switch {
			case isTest(f.path):
				if x.Name == "time" && name == "Sleep" && !bubble && !excused(fset, f.tree, at.Line) {
					out = append(out, fmt.Sprintf("%s: a unit test sleeps in real time; use testing/synctest, or say why in a comment `real time: ...` on the line", at))
				}
			case (x.Name == "unix" || x.Name == "syscall") && strings.Contains(strings.ToLower(name), "nanosleep") && in != "clock":
				out = append(out, fmt.Sprintf("%s: %s.%s outside clock", at, x.Name, name))
			case x.Name != "os" || !hasOS || in == "cmd":
			case osErrors.MatchString(name):
			case slices.Contains(processNames, name) && in != "cli":
				out = append(out, fmt.Sprintf("%s: os.%s belongs to cli's Env", at, name))
			case slices.Contains(usersFiles, in) && (name == "Open" || name == "ReadFile"):
				out = append(out, fmt.Sprintf("%s: os.%s of what a user may have named; use infile", at, name))
			case osAllowed[in] == "":
				out = append(out, fmt.Sprintf("%s: os.%s in a room that has no business with the system; take it as a parameter, or give a reason in osAllowed", at, name))
			}
			return true
		})
	}
	return out
}

func imports(f *ast.File, path string) bool {
	return slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"`+path+`"` })
}

// excused says whether line carries a comment that gives a reason for real time.
func excused(fset *token.FileSet, f *ast.File, line int) bool {
	for _, g := range f.Comments {
		for _, c := range g.List {
			if fset.Position(c.Pos()).Line == line && strings.Contains(c.Text, "real time: ") {
				return true
			}
		}
	}
	return false
}

// A forbidden string is written here in two pieces, so that this file may be
// searched too.
var (
	unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`)
	machines   = regexp.MustCompile(`(^|[\s"'(=:` + "`" + `])(/wo` + `rk/|/ro` + `ot/|/ho` + `me/[a-z]+/|/Use` + `rs/[a-z]+/|/tmp/w` + `t/|/tmp/bash_` + `jobs)` +
		`|\.\./sha` + `red/|proxy\.go` + `lang\.org|registry\.np` + `mjs|files\.python` + `hosted|(^|[^a-z])py` + `pi\.org|deb\.deb` + `ian\.org`)
)

// forbidden returns the lines of a tracked file that must not be there.
func forbidden(path string, content []byte) []string {
	if strings.HasSuffix(path, ".sum") || bytes.IndexByte(content[:min(len(content), 8000)], 0) >= 0 {
		return nil // hashes, and data that is not text
	}
	ci := strings.HasPrefix(path, ".ci/")
	var out []string
	n := 0
	for line := range bytes.Lines(content) {
		n++
		if m := machines.Find(line); m != nil && !ci {
			out = append(out, fmt.Sprintf("%s:%d: %q is a path or host of one machine", path, n, m))
		}
		if m := unfinished.Find(line); m != nil && !strings.Contains(path, "testdata/") {
			out = append(out, fmt.Sprintf("%s:%d: %s: finish it or write it into the issue tracker", path, n, m))
		}
	}
	return out
}

func TestDocComments(t *testing.T) {
	for _, s := range undocumented(goFiles(t)) {
		t.Error(s)
	}
}

func TestReachesOut(t *testing.T) {
	for _, s := range reachesOut(goFiles(t)) {
		t.Error(s)
	}
}

func TestForbiddenStrings(t *testing.T) {
	const limit = 2 << 20 // a clone must stay quick; larger data is generated or fetched
	for _, p := range tracked(t) {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > limit {
			t.Errorf("%s: %d bytes, more than %d", p, len(b), limit)
		}
		for _, s := range forbidden(p, b) {
			t.Error(s)
		}
	}
}

// TestHouseCanFail shows made-up files to the rules and asks for each breach,
// and for silence on a clean file.
func TestHouseCanFail(t *testing.T) {
	const clean = `// Package clock owns time sources and precise absolute sleeping for the whole house. It never decides
// when anything should start: that is the business of pace and load.
package clock

import "os"

// Limits of a sleep, in ns.
const (
	Least = 1
	Most  = 2
)

// Sleep sleeps. It returns an error that wraps os.ErrDeadlineExceeded.
func Sleep() error { _, _ = os.Open("x"); return os.ErrDeadlineExceeded }

type hidden struct{}

func (hidden) Exported() {}
`
	for name, c := range map[string]struct{ path, src, want string }{
		"clean":             {"internal/clock/clock.go", clean, ""},
		"no doc":            {"internal/clock/clock.go", "package clock\n", "has 0 doc comments"},
		"thin doc":          {"internal/clock/clock.go", "// Package clock is about time and such, on the whole.\npackage clock\n", "must say what it owns"},
		"other doc":         {"internal/clock/clock.go", "// Time.\npackage clock\n", `want "Package clock "`},
		"noun":              {"internal/util/util.go", "// Package util never.\npackage util\n", "says nothing"},
		"bare func":         {"internal/clock/clock.go", clean + "\nfunc Now() {}\n", "Now has no doc comment"},
		"bare method":       {"internal/clock/clock.go", clean + "\n// T is.\ntype T struct{}\n\nfunc (*T) Now() {}\n", "T.Now has no doc comment"},
		"bare type":         {"internal/clock/clock.go", clean + "\ntype T struct{}\n", "T has no doc comment"},
		"bare const":        {"internal/clock/clock.go", clean + "\nconst C = 1\n", "C has no doc comment"},
		"process":           {"internal/clock/clock.go", clean + "\nvar x = os.Getenv(\"X\")\n", "os.Getenv belongs to cli's Env"},
		"file":              {"internal/pace/pace.go", strings.ReplaceAll(clean, "clock", "pace"), "os.Open in a room that has no business"},
		"exit in cli":       {"internal/cli/cli.go", strings.ReplaceAll(strings.ReplaceAll(clean, "clock", "cli"), `os.Open("x")`, `os.Stat("x")`) + "\nfunc f() { os.Exit(1) }\n", ""},
		"user's file":       {"internal/cli/cli.go", strings.ReplaceAll(clean, "clock", "cli"), "use infile"},
		"nanosleep":         {"internal/load/load.go", "// Package load.\npackage load\n\nvar _ = unix.ClockNanosleep\n", "unix.ClockNanosleep outside clock"},
		"real sleep":        {"internal/load/load_test.go", "package load\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n", "sleeps in real time"},
		"real sleep, said":  {"internal/load/load_test.go", "package load\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) } // real time: sockets\n", ""},
		"sleep in a bubble": {"internal/load/load_test.go", "package load\n\nimport (\n\t\"testing/synctest\"\n\t\"time\"\n)\n\nfunc f() { time.Sleep(1); synctest.Wait() }\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			fset := token.NewFileSet()
			files := []file{parse(t, fset, c.path, c.src)}
			got := append(undocumented(fset, files), reachesOut(fset, files)...)
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("breaches %q, want none", got)
			case c.want != "" && !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, c.want) }):
				t.Errorf("breaches %q, want one with %q", got, c.want)
			}
		})
	}
	for line, want := range map[string]string{
		"see /wo" + "rk/notes":                          "path or host",
		"GOPROXY=https://proxy.go" + "lang.org":         "path or host",
		"x := 1 // TO" + "DO later":                     "finish it",
		"a network/path, a todo list and a framework/x": "",
	} {
		got := forbidden("docs/x.md", []byte("first\n"+line+"\n"))
		if (want == "") != (len(got) == 0) || (want != "" && !strings.Contains(got[0], want)) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
