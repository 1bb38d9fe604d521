package web

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"plimsoll/internal/phrase"
	"plimsoll/internal/scenario"
	"plimsoll/internal/signal"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/workload"
)

// rooms are the packages whose texts the panel shows without a code, and their files
// that hold such texts, nil for all.
var rooms = []struct {
	name  string
	files []string
}{
	{"conduct", []string{"floor.go", "lengths.go", "plan.go", "predict.go", "preflight.go", "replay.go", "room.go", "run.go", "target.go", "telemetry.go", "tokenizer.go", "users.go"}},
	{"detail", []string{"filter.go", "one.go", "requests.go", "scatter.go"}},
	{"live", []string{"marks.go"}},
	{"load", []string{"guard.go"}},
	{"probe", nil},
	{"report", []string{"row.go"}},
	{"scenario", []string{"dist.go", "hardware.go", "read.go", "replay.go", "secret.go", "shape.go", "share.go", "validate.go"}},
	{"stats", []string{"level.go"}},
	{"strictyaml", []string{"decode.go", "document.go", "flow.go", "set.go"}},
	{"telemetry", []string{"discover.go", "host.go", "json.go", "page.go", "plan.go", "prometheus.go", "reader.go", "scrape.go", "scrape_fetch.go"}},
	{"web", nil},
	{"workload", []string{"dist.go", "machine.go", "read.go", "shape.go"}},
}

// quiet are texts of those files that no panel shows: headers and bodies of HTTP, what
// only the command line says, and bare joints.
var quiet = regexp.MustCompile(`^BUG: |; charset=|^(event|retry|id): |still here|default-src|sandbox allow|filename=|^max-age|^public, |^Bearer |^GET|^Cookie|^# HELP|^POST %s$|\\p\{L\}|^listen |^abcdef|^\n|^name: plain|^http |^[^ ]+: %w$|^%s: 1$|^text/plain|telemetry url|^telemetry: want|^read table`)

// says is what a text has that is more than joints between its holes.
var says = regexp.MustCompile(`\pL`)

// verb is a hole of a text that is put together.
var verb = regexp.MustCompile(`%[-+#0-9.]*[a-zA-Z]`)

// texts are what the files of a room say in strings, with holes as {}.
func texts(t *testing.T, room string, files []string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("..", room, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, name := range found {
		if strings.HasSuffix(name, "_test.go") || files != nil && !slices.Contains(files, filepath.Base(name)) {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ImportSpec:
				return false
			case *ast.Field:
				return n.Tag == nil
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok {
					if x, ok := f.X.(*ast.Ident); ok && (x.Name == "regexp" || x.Name == "phrase" || x.Name == "strings" && f.Sel.Name != "Join" && f.Sel.Name != "TrimPrefix") {
						return false
					}
				}
			case ast.Expr:
				s, ok := literal(n)
				if !ok {
					break
				}
				if strings.Contains(strings.TrimSpace(s), " ") && !quiet.MatchString(s) {
					s = strings.ReplaceAll(verb.ReplaceAllString(strings.ReplaceAll(s, "%%", "\x00"), "{}"), "\x00", "%")
					if says.MatchString(s) {
						out[s] = true
					}
				}
				return false
			}
			return true
		})
	}
	return slices.Sorted(maps.Keys(out))
}

// literal is the text of an expression of strings; what is no literal in it is a hole.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			s, err := strconv.Unquote(e.Value)
			return s, err == nil
		}
	case *ast.ParenExpr:
		return literal(e.X)
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			break
		}
		a, ok := literal(e.X)
		b, too := literal(e.Y)
		if !ok {
			a = "%s"
		}
		if !too {
			b = "%s"
		}
		return a + b, ok || too
	}
	return "", false
}

// TestCodes holds the list that the panel's dictionaries are held against: every phrase
// that has a code, with its holes, and every other text that the server may show.
func TestCodes(t *testing.T) {
	type code struct {
		Code   string   `json:"code"`
		Text   string   `json:"text"`
		Values []string `json:"values"`
	}
	var list struct {
		Codes []code              `json:"codes"`
		Texts map[string][]string `json:"texts"`
	}
	for _, p := range phrase.All() {
		list.Codes = append(list.Codes, code{p.Code(), p.Text(), append([]string{}, p.Holes()...)})
	}
	list.Texts = map[string][]string{}
	for _, r := range rooms {
		list.Texts[r.name] = texts(t, r.name, r.files)
	}

	seen := map[string]bool{}
	collect := func(name string, add func(say func(string))) {
		clear(seen)
		add(func(s string) {
			if s = strings.TrimSpace(s); s != "" {
				seen[s] = true
			}
		})
		list.Texts[name] = slices.Sorted(maps.Keys(seen))
	}
	collect("fields of a scenario", func(say func(string)) {
		b, err := scenario.Schema()
		if err != nil {
			t.Fatal(err)
		}
		s := new(jsonschema.Schema)
		if err := json.Unmarshal(b, s); err != nil {
			t.Fatal(err)
		}
		walk(s, func(s *jsonschema.Schema) { say(s.Description) })
	})
	collect("library", func(say func(string)) {
		for _, name := range workload.Names() {
			f, err := workload.Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			say(f.About)
		}
	})
	collect("signals", func(say func(string)) {
		for _, d := range signal.All() {
			say(d.Help)
		}
	})
	collect("tables of telemetry", func(say func(string)) {
		for _, table := range telemetry.Builtin() {
			say(table.Enable)
			for _, why := range table.Absent {
				say(why)
			}
			for _, ways := range table.Signals {
				for _, w := range ways {
					say(w.Enable)
				}
			}
		}
	})

	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(list); err != nil {
		t.Fatal(err)
	}
	const file = "../../web/testdata/codes.json"
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("codes.json is not what the server may say; go test ./internal/web -run TestCodes -update writes it anew, and the panel's dictionary must follow (-want +got):\n%.3000s", diff)
	}
}
