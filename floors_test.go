package plimsoll_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "plimsoll"

// floors says how high each room stands. A room imports only from lower floors;
// a folder inside a room belongs to that room. docs/architecture.md is the same
// list in words.
var floors = map[string]int{
	"message": 0, "random": 0, "strictyaml": 0, "assets": 0, "clock": 0, "histogram": 0, "tokenizer": 0, "signal": 0, "plainjson": 0, "infile": 0, "phrase": 0, "skim": 0,
	"memconn": 0, "play": 0,
	"scenario": 1, "pace": 1, "stream": 1, "record": 1,
	"dialect": 2, "workload": 2, "telemetry": 2, "stats": 2,
	"load": 3, "twin": 3, "run": 3,
	"align": 4, "diagnose": 5, "detail": 5, "live": 6, "conduct": 7,
	"capacity": 8, "fleet": 8, "report": 8, "probe": 8,
	"web": 9, "cli": 10,
}

// walls are the pairs that must not meet, not even through others.
var walls = []struct{ from, to, why string }{
	{"load", "run", "load emits to an interface of its own"},
	{"load", "live", "load emits to an interface of its own"},
	{"load", "web", "load emits to an interface of its own"},
	{"load", "fleet", "load emits to an interface of its own"},
	{"twin", "load", "client and simulated server must not hide each other's errors"},
	{"twin", "stream", "client and simulated server must not hide each other's errors"},
	{"dialect", "stream", "bodies and events are bytes, whatever carried them"},
}

// testSupport are the rooms that exist for tests: nothing that ships imports
// them.
var testSupport = []string{"memconn", "play"}

// doors are the modules that the rooms may use, each with the rooms that may:
// what is behind one door can be replaced, and is audited, in one place.
var doors = map[string][]string{
	"github.com/alecthomas/kong":      {"cli"},
	"github.com/goccy/go-yaml":        {"strictyaml"},
	"github.com/google/jsonschema-go": {"scenario", "stats"},
	// What is kept, and traces that come so.
	"github.com/parquet-go/parquet-go": {"run", "workload"},
	// Only its parser of exposition pages, with the labels that it needs.
	"github.com/prometheus/prometheus": {"telemetry"},
	"github.com/klauspost/compress":    {"run", "stream"},
	"golang.org/x/sys":                 {"clock", "stream", "twin", "run", "conduct"},
	"golang.org/x/sync":                {"load", "conduct", "twin"},
	// Texts of PDFs, by PDFium as WebAssembly.
	"github.com/klippa-app/go-pdfium": {"workload"},
	"github.com/tetratelabs/wazero":   {"workload"},
	// Regular expressions of tokenizers that have no splitter of their own, and
	// normalization forms, of theirs and of hosts' names in data sets.
	"github.com/dlclark/regexp2/v2": {"tokenizer"},
	"golang.org/x/text":             {"tokenizer", "workload"},
}

// pkg is what `go list` says about one package of this module.
type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

// room returns the room that an import path of this module lies in: the folder
// under internal/, "cmd", or "" for everything that only tests.
func room(path string) string {
	rest, ok := strings.CutPrefix(path, module+"/")
	if !ok {
		return ""
	}
	if inner, ok := strings.CutPrefix(rest, "internal/"); ok {
		name, _, _ := strings.Cut(inner, "/")
		return name
	}
	if strings.HasPrefix(rest, "cmd/") {
		return "cmd"
	}
	return ""
}

// ours says whether path is a package of this module.
func ours(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

// door returns the module of doors that an import path lies in, the path itself
// for a module without a door, and "" for the standard library.
func door(path string) string {
	if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
		return ""
	}
	for m := range doors {
		if path == m || strings.HasPrefix(path, m+"/") {
			return m
		}
	}
	return path
}

// broken returns every breach of floors and walls in the import graph g (import
// path to direct imports), each with the chain that makes it.
func broken(g map[string][]string) []string {
	var out []string
	paths := make([]string, 0, len(g))
	for p := range g {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	for _, p := range paths {
		from := room(p)
		height, known := floors[from]
		switch {
		case from == "cmd":
			height = 11
		case from == "":
			continue // tests may look at everything
		case !known:
			out = append(out, fmt.Sprintf("%s: room %q stands on no floor; give it one in floors_test.go and docs/architecture.md", p, from))
			continue
		}
		for _, q := range g[p] {
			if !ours(q) {
				if m := door(q); m != "" && !slices.Contains(doors[m], from) {
					out = append(out, fmt.Sprintf("%s -> %s: room %s has no door to it; use the room that has, or add one to doors with care", p, q, from))
				}
				continue
			}
			to := room(q)
			switch h, known := floors[to]; {
			case to == from:
			case to == "":
				out = append(out, fmt.Sprintf("%s -> %s: a room imports a package that exists for tests", p, q))
			case known && h >= height:
				out = append(out, fmt.Sprintf("%s -> %s: floor %d imports floor %d; only lower floors may be imported", p, q, height, h))
			}
		}
		for _, w := range walls {
			if w.from != from {
				continue
			}
			if chain := path(g, p, func(q string) bool { return room(q) == w.to }); chain != nil {
				out = append(out, fmt.Sprintf("%s: %s never imports %s: %s", strings.Join(chain, " -> "), w.from, w.to, w.why))
			}
		}
		if from == "cmd" {
			for _, s := range testSupport {
				if chain := path(g, p, func(q string) bool { return room(q) == s }); chain != nil {
					out = append(out, fmt.Sprintf("%s: %s is test support and never ships", strings.Join(chain, " -> "), s))
				}
			}
		}
	}
	return out
}

// path returns a shortest chain of imports from start to a package that found
// accepts, nil when there is none.
func path(g map[string][]string, start string, found func(string) bool) []string {
	from := map[string]string{start: ""}
	for queue := []string{start}; len(queue) > 0; queue = queue[1:] {
		for _, q := range g[queue[0]] {
			if _, seen := from[q]; seen || !ours(q) {
				continue
			}
			from[q] = queue[0]
			if !found(q) {
				queue = append(queue, q)
				continue
			}
			var chain []string
			for p := q; p != ""; p = from[p] {
				chain = append(chain, p)
			}
			slices.Reverse(chain)
			return chain
		}
	}
	return nil
}

// list asks the go command for this module's packages as they are built for
// goos.
func list(t *testing.T, goos string) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports", "./...")
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	b, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list for %s: %v\n%s", goos, err, stderr.Bytes())
	}
	var out []pkg
	for d := json.NewDecoder(bytes.NewReader(b)); ; {
		var p pkg
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return out
		case err != nil:
			t.Fatalf("go list for %s: %v", goos, err)
		}
		out = append(out, p)
	}
}

// TestFloorsAreDocumented compares the table of docs/architecture.md with the
// rooms that exist.
func TestFloorsAreDocumented(t *testing.T) {
	b, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \| ([a-z, ]+) \|`).FindAllStringSubmatch(string(b), -1) {
		for name := range strings.SplitSeq(m[2], ", ") {
			documented[name] = m[1]
		}
	}
	for _, p := range list(t, "linux") {
		name := room(p.ImportPath)
		if name == "" || name == "cmd" {
			continue
		}
		if got, want := documented[name], strconv.Itoa(floors[name]); got != want {
			t.Errorf("docs/architecture.md puts room %s on floor %q, floors_test.go on %s", name, got, want)
		}
	}
}

func TestFloors(t *testing.T) {
	for _, goos := range []string{"linux", "darwin"} {
		g := map[string][]string{}
		for _, p := range list(t, goos) {
			g[p.ImportPath] = p.Imports
		}
		if len(g) < 5 {
			t.Fatalf("go list for %s found only %d packages", goos, len(g))
		}
		for _, b := range broken(g) {
			t.Errorf("%s: %s", goos, b)
		}
	}
}

// TestFloorsCanFail shows made-up houses to the rules and asks for each breach.
func TestFloorsCanFail(t *testing.T) {
	in := func(name string) string { return module + "/internal/" + name }
	for name, c := range map[string]struct {
		graph map[string][]string
		want  string
	}{
		"upwards":        {map[string][]string{in("clock"): {"time", in("cli")}}, in("clock") + " -> " + in("cli") + ": floor 0 imports floor 10"},
		"same floor":     {map[string][]string{in("run"): {in("load")}}, "floor 3 imports floor 3"},
		"no floor":       {map[string][]string{in("util"): nil}, `room "util" stands on no floor`},
		"inner folder":   {map[string][]string{in("clock/inner"): {in("stats")}}, "floor 0 imports floor 2"},
		"wall":           {map[string][]string{in("dialect"): {in("stream")}}, in("dialect") + " -> " + in("stream") + ": dialect never imports stream"},
		"wall, two away": {map[string][]string{in("twin"): {in("dialect")}, in("dialect"): {in("stream")}}, in("twin") + " -> " + in("dialect") + " -> " + in("stream") + ": twin never imports stream"},
		"test support": {
			map[string][]string{module + "/cmd/plimsoll": {in("cli")}, in("cli"): {in("play")}},
			module + "/cmd/plimsoll -> " + in("cli") + " -> " + in("play") + ": play is test support",
		},
		"no door":     {map[string][]string{in("load"): {"github.com/alecthomas/kong"}}, in("load") + " -> github.com/alecthomas/kong: room load has no door"},
		"new module":  {map[string][]string{in("load"): {"example.org/x"}}, "room load has no door"},
		"tests below": {map[string][]string{in("cli"): {module + "/test/gguf"}}, "a room imports a package that exists for tests"},
	} {
		t.Run(name, func(t *testing.T) {
			got := broken(c.graph)
			if !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, c.want) }) {
				t.Errorf("breaches %q, want one with %q", got, c.want)
			}
		})
	}
	clean := map[string][]string{
		module + "/cmd/plimsoll": {in("cli"), "os"},
		in("cli"):                {in("conduct"), in("report"), "github.com/alecthomas/kong", "net/http"},
		in("conduct"):            {in("load"), in("run")},
		in("report"):             {in("run"), in("stats")},
		in("load"):               {in("dialect"), in("stream")},
		in("dialect"):            {in("dialect/inner"), in("message")},
		module + "/test":         {in("play"), in("run")},
	}
	if got := broken(clean); len(got) > 0 {
		t.Errorf("a clean house has breaches: %q", got)
	}
}
