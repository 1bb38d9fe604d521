package telemetry

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/signal"
	"plimsoll/internal/strictyaml"
)

// goldenPage is what testdata/golden.yaml says of one page.
type goldenPage struct {
	Sources []string          `yaml:"sources"`
	Signals map[string]string `yaml:"signals"`
	Absent  map[string]string `yaml:"absent"`
	// NaN and Duplicate are how many values were left out because they are no number or repeat a series.
	NaN       int `yaml:"nan"`
	Duplicate int `yaml:"duplicate"`
	// Page is the page itself and Labels are those of the instances of a signal, in composed.yaml.
	Page   string              `yaml:"page"`
	Labels map[string][]string `yaml:"labels"`
}

func readGolden(t *testing.T, file string) map[string]goldenPage {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var g map[string]goldenPage
	if err := strictyaml.Unmarshal(file, data, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// arithmetic computes an expression of numbers, + - * / and parentheses.
func arithmetic(t *testing.T, text string) float64 {
	t.Helper()
	e, err := parser.ParseExpr(text)
	if err != nil {
		t.Fatalf("%q is no arithmetic: %v", text, err)
	}
	var value func(e ast.Expr) float64
	value = func(e ast.Expr) float64 {
		switch e := e.(type) {
		case *ast.ParenExpr:
			return value(e.X)
		case *ast.UnaryExpr:
			if e.Op == token.SUB {
				return -value(e.X)
			}
		case *ast.BasicLit:
			if v, err := strconv.ParseFloat(e.Value, 64); err == nil {
				return v
			}
		case *ast.BinaryExpr:
			x, y := value(e.X), value(e.Y)
			switch e.Op {
			case token.ADD:
				return x + y
			case token.SUB:
				return x - y
			case token.MUL:
				return x * y
			case token.QUO:
				return x / y
			}
		}
		t.Fatalf("%q is no arithmetic", text)
		return 0
	}
	return value(e)
}

// near says whether two values agree but for rounding.
func near(a, b float64) bool {
	return a == b || math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b))
}

func contentType(page string) string {
	if strings.HasSuffix(page, ".json") {
		return "application/json"
	}
	return "text/plain; version=0.0.4; charset=utf-8"
}

func readPage(t *testing.T, page string) []byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata/pages", page))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// TestPagesSayWhatTheySay reads every page and compares with what was worked out by hand.
func TestPagesSayWhatTheySay(t *testing.T) {
	golden := readGolden(t, "golden.yaml")
	entries, err := os.ReadDir("testdata/pages")
	if err != nil {
		t.Fatal(err)
	}
	pages := 0
	for _, e := range entries {
		if e.Name() == "README.md" {
			continue
		}
		pages++
		want, ok := golden[e.Name()]
		if !ok {
			t.Errorf("%s: no golden", e.Name())
			continue
		}
		t.Run(e.Name(), func(t *testing.T) { checkGolden(t, readPage(t, e.Name()), contentType(e.Name()), want) })
	}
	if pages != len(golden) {
		t.Errorf("%d pages and %d goldens", pages, len(golden))
	}
}

// TestComposedPages does the same with small pages written for what no other page has.
func TestComposedPages(t *testing.T) {
	for name, want := range readGolden(t, "composed.yaml") {
		t.Run(name, func(t *testing.T) {
			checkGolden(t, []byte(want.Page), contentType(name), want)
			checkLabels(t, []byte(want.Page), want.Labels)
		})
	}
}

// checkLabels compares the labels that instances of a signal keep.
func checkLabels(t *testing.T, page []byte, want map[string][]string) {
	var sink totals
	if _, err := NewReader(Options{}).Read(page, "", 0, 0, &sink); err != nil {
		t.Fatal(err)
	}
	for name, labels := range want {
		var got []string
		for _, s := range sink.series {
			if s.Signal.String() == name && !slices.Contains(got, s.Labels) {
				got = append(got, s.Labels)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(labels, got); diff != "" {
			t.Errorf("labels of %s (-want +got):\n%s", name, diff)
		}
	}
}

func checkGolden(t *testing.T, page []byte, contentType string, want goldenPage) {
	got, err := ReadPage(page, contentType)
	if err != nil && !(errors.Is(err, ErrNotAPage) && len(want.Sources) == 0) {
		t.Fatal(err)
	}
	if got == nil {
		got = &Reading{}
	}
	sources := slices.Sorted(slices.Values(got.Sources))
	if diff := cmp.Diff(want.Sources, sources, cmp.Transformer("empty", func(s []string) string { return strings.Join(s, " ") })); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
	if i := got.Info; i.Malformed != 0 || i.NaN != want.NaN || i.Duplicate != want.Duplicate {
		t.Errorf("%d malformed lines, %d values that are no number, %d duplicates, want 0, %d, %d: %v",
			i.Malformed, i.NaN, i.Duplicate, want.NaN, want.Duplicate, i.Problems)
	}
	for _, name := range slices.Sorted(maps.Keys(want.Signals)) {
		v := arithmetic(t, want.Signals[name])
		switch g, ok := got.Signals[name]; {
		case !ok:
			t.Errorf("%s is absent, want %s = %v", name, want.Signals[name], v)
		case !near(g, v):
			t.Errorf("%s is %v, want %s = %v", name, g, want.Signals[name], v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want.Absent)) {
		if g, ok := got.Signals[name]; ok {
			t.Errorf("%s is %v, want it absent: %s", name, g, want.Absent[name])
		}
	}
	for name, v := range got.Signals {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.Errorf("%s is %v", name, v)
		}
		base := name
		if _, ok := signal.Lookup(name); !ok {
			base = strings.TrimSuffix(name, "_max")
		}
		if _, ok := signal.Lookup(base); !ok {
			t.Errorf("%s is no canonical signal", name)
		}
	}
	for _, m := range got.Missing {
		if m.Why == "" {
			t.Errorf("%s of %s is missing for no reason", m.Signal, m.Source)
		}
		if v, ok := got.Signals[m.Signal]; ok {
			t.Logf("%s says nothing of %s, which another source gives as %v", m.Source, m.Signal, v)
		}
	}
}

// goldenDelta is what testdata/deltas.yaml says of two pages of one server.
type goldenDelta struct {
	From     string            `yaml:"from"`
	To       string            `yaml:"to"`
	Increase map[string]string `yaml:"increase"`
	Mean     map[string]string `yaml:"mean"`
	Ratio    map[string]string `yaml:"ratio"`
}

// totals is a sink that keeps the last value of every series, by signal and field.
type totals struct {
	series []signal.Series
	last   []float64
}

func (x *totals) Declare(s signal.Series) int32 {
	x.series = append(x.series, s)
	x.last = append(x.last, math.NaN())
	return int32(len(x.series) - 1)
}

func (x *totals) Add(samples []signal.Sample) {
	for _, s := range samples {
		x.last[s.Series] = s.Value
	}
}

// sum adds the last values of all series of a signal and field.
func (x *totals) sum(id signal.ID, f signal.Field) (float64, bool) {
	v, found := 0.0, false
	for i, s := range x.series {
		if s.Signal == id && s.Field == f && !math.IsNaN(x.last[i]) {
			v, found = v+x.last[i], true
		}
	}
	return v, found
}

// TestTwoPagesGiveTheDifferences reads two pages with one reader, as a scraper does, and
// takes differences of what reached the sink.
func TestTwoPagesGiveTheDifferences(t *testing.T) {
	data, err := os.ReadFile("testdata/deltas.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var deltas []goldenDelta
	if err := strictyaml.Unmarshal("deltas.yaml", data, &deltas); err != nil {
		t.Fatal(err)
	}
	if len(deltas) == 0 {
		t.Fatal("no deltas")
	}
	for _, d := range deltas {
		t.Run(d.From+" to "+d.To, func(t *testing.T) {
			var sink totals
			r := NewReader(Options{})
			read := func(page string, at int64) map[string]float64 {
				info, err := r.Read(readPage(t, page), contentType(page), at, at+1e6, &sink)
				if err != nil {
					t.Fatal(err)
				}
				if info.Restarts != 0 {
					t.Errorf("%s: a restart", page)
				}
				out := map[string]float64{}
				for _, def := range signal.All() {
					for _, f := range []signal.Field{signal.Value, signal.TotalSum, signal.TotalCount} {
						if v, ok := sink.sum(def.ID, f); ok {
							out[fmt.Sprint(def.Name, " ", f)] = v
						}
					}
				}
				return out
			}
			a, b := read(d.From, 0), read(d.To, 45e9)
			increase := func(name string, f signal.Field) float64 {
				key := fmt.Sprint(name, " ", f)
				if _, ok := a[key]; !ok {
					t.Errorf("%s is absent from %s", key, d.From)
				}
				if _, ok := b[key]; !ok {
					t.Errorf("%s is absent from %s", key, d.To)
				}
				return b[key] - a[key]
			}
			compare := func(name, text string, got float64) {
				if want := arithmetic(t, text); !near(got, want) {
					t.Errorf("%s is %v, want %s = %v", name, got, text, want)
				}
			}
			for name, text := range d.Increase {
				compare(name, text, increase(name, signal.Value))
			}
			for name, text := range d.Mean {
				compare(name, text, increase(name, signal.TotalSum)/increase(name, signal.TotalCount))
			}
			for name, text := range d.Ratio {
				id, ok := signal.Lookup(name)
				if !ok || id.Def().Kind != signal.Ratio {
					t.Fatalf("%s is no ratio", name)
				}
				compare(name, text, increase(id.Def().Part.String(), signal.Value)/increase(id.Def().Whole.String(), signal.Value))
			}
		})
	}
}
