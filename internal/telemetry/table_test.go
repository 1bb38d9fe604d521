package telemetry

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"plimsoll/internal/signal"
	"plimsoll/internal/strictyaml"
)

func TestBuiltinTablesAreWhole(t *testing.T) {
	tables := Builtin()
	if len(tables) < 30 {
		t.Fatalf("%d tables", len(tables))
	}
	for _, x := range tables {
		if Lookup(x.Source) != x {
			t.Errorf("%s is not found under its name", x.Source)
		}
		for _, y := range x.Yields {
			if Lookup(y) == nil || y == x.Source {
				t.Errorf("%s yields to %s, which is no other table", x.Source, y)
			}
		}
		for name, ways := range x.Signals {
			id, _ := signal.Lookup(name)
			if g := id.Def().Group; g == signal.Client || g == signal.Scrape {
				t.Errorf("%s gives %s, which only the client itself can say", x.Source, name)
			}
			// A preference for a name over itself is a slip.
			seen := map[string]bool{}
			for _, w := range ways {
				if len(w.Needs) > 0 || w.Help != "" || len(w.Over) > 0 || len(w.Times) > 0 || len(w.Labels) > 0 {
					continue // which may give nothing although the series is there
				}
				for _, s := range w.From {
					if seen[s.String()] {
						t.Errorf("%s: %s names %s twice", x.Source, name, s)
					}
					seen[s.String()] = true
				}
			}
		}
	}
	if Lookup("nothing") != nil {
		t.Error("there is no such table")
	}
}

func TestErrorsOfTables(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		x, err := LoadTable("own.yaml", []byte(text))
		if err == nil || x != nil {
			t.Errorf("%s\nwas read", text)
			return
		}
		got := strings.Split(strings.TrimPrefix(err.Error(), "read table: "), "\n")
		same(t, got, want)
		if _, ok := errors.AsType[strictyaml.Errors](err); !ok {
			t.Errorf("%T does not hold the places", err)
		}
	}
	const head = "source: a\ndetect: b\n"
	f("detect: b\n", `own.yaml: source: want a name of lower-case letters, digits and dashes, got ""`)
	f("source: A b\n",
		`own.yaml:1:9: source: want a name of lower-case letters, digits and dashes, got "A b"`,
		`own.yaml: detect: want at least one selector by which a page is recognised`)
	f(head+"signals:\n  requests_runing: a\n  power: {}\n",
		`own.yaml:4:20: signals.requests_runing: want the name of a canonical signal, got "requests_runing"; did you mean requests_running?`,
		`own.yaml:5:10: signals.power[0]: want from, sum or total with the series that give it`)
	f(head+"signals:\n  power:\n    - a\n    - {from: b, sum: c}\n",
		`own.yaml:6:7: signals.power[1]: want only one of from, sum and total`)
	f(head+"signals:\n  ttft: {sum: [a, b]}\n  power: {total: a, count: b}\n  itl: {total: a}\n",
		`own.yaml:4:15: signals.ttft[0].sum: ttft is a distribution, of which only the unit can be changed`,
		`own.yaml:5:10: signals.power[0]: total and count make a distribution, and power is a gauge`,
		`own.yaml:6:8: signals.itl[0]: want total and count together`)
	f(head+"keep: {gpu: g}\nsignals:\n  power: {from: a, keep: gpus, combine: avg, range: [2, 1], factor: -1, mask: x, refresh: often}\n",
		`own.yaml:5:26: signals.power[0].keep: want a label that the table keeps, got "gpus"; did you mean gpu?`,
		`own.yaml:5:41: signals.power[0].combine: want sum, mean, max, min or count, got "avg"`,
		`own.yaml:5:53: signals.power[0].range: want the least and the greatest value, as in [0, 100]`,
		`own.yaml:5:69: signals.power[0].factor: want a number > 0`,
		`own.yaml:5:79: signals.power[0].mask: want bits as in 0xec, got "x"`,
		`own.yaml:5:91: signals.power[0].refresh: want step, scrape, finish or a duration, as in 30s, got "often"`)
	f(head+"like: vlm\nformat: xml\nrefresh: 0s\nabsent: {gpu_tmp: no}\nkeep: {\"a=b\": c}\n",
		`own.yaml:3:7: like: want the source of another built-in table, got "vlm"`,
		`own.yaml:4:9: format: want prometheus or json, got "xml"`,
		`own.yaml:5:10: refresh: want step, scrape, finish or a duration, as in 30s, got "0s"`,
		`own.yaml:6:19: absent.gpu_tmp: want the name of a canonical signal, got "gpu_tmp"; did you mean gpu_temp?`,
		`own.yaml:7:15: keep["a=b"]: want a label name without = and commas`)
	f(head+"signal: {power: a}\n", `own.yaml:3:1: signal: unknown field; did you mean signals?`)
	f(head+"raw: a{b=c}\n", `own.yaml:3:6: raw: want labels as {name="value",other=~"a|b"}; a selector with a comma must be an item of a list, got "a{b=c}"`)
	f(head+"signals:\n  power: a{b=~\"(\"}\n", "own.yaml:4:10: signals.power: label b: want a regular expression: error parsing regexp: missing closing ): `(`, got \"a{b=~\\\"(\\\"}\"")
	f("\tsource: a\n", `own.yaml:1:1: a tab before the first letter of a line: indent with spaces`)
}

func TestLike(t *testing.T) {
	x := table(t, `source: wrapped
like: vllm
detect: w_vllm_*
alias: [{from: w_vllm_, to: "vllm:"}]
signals:
  requests_waiting: w_backlog
`)
	page := "w_vllm_num_requests_running{engine=\"1\"} 4\nw_vllm_num_requests_waiting{engine=\"1\"} 5\nw_backlog 6\nw_vllm_time_to_first_token_seconds_sum 3\nw_vllm_time_to_first_token_seconds_count 2\n"
	got, err := ReadPage([]byte(page), "", x)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got.Sources, []string{"wrapped"})
	same(t, got.Signals, map[string]float64{"requests_running": 4, "requests_waiting": 6, "ttft": 1.5})
	if x.Signals["preemptions"] == nil || Lookup("vllm").Signals["requests_waiting"][0].From[0].Name != "vllm:num_requests_waiting" {
		t.Error("the table that is extended must stay as it is, and give what is not said")
	}
}

// A table that extends one of JSON may be of text, and says nothing where it is of JSON too.
func TestLikeOfAnotherFormat(t *testing.T) {
	for format, want := range map[string]string{"": "json", "format: json\n": "json", "format: prometheus\n": "prometheus"} {
		if x := table(t, "source: mine\nlike: ollama\ndetect: x_*\n"+format); x.Format != want {
			t.Errorf("%q is %q, want %q", format, x.Format, want)
		}
	}
	if x := table(t, "source: mine\nlike: vllm\ndetect: x_*\n"); x.Format != "prometheus" {
		t.Errorf("like vllm is %q", x.Format)
	}
}

// A user's table of the same source takes the place of the built-in one.
func TestOwnTableReplacesBuiltin(t *testing.T) {
	x := table(t, "source: vllm\ndetect: vllm:*\nsignals: {requests_running: vllm:num_requests_waiting}\n")
	got, err := ReadPage(readFile(t, "vllm_v1.t1.prom"), "", x)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got.Sources, []string{"vllm"})
	same(t, got.Signals, map[string]float64{"requests_running": 66})
}

func TestFamiliesNameEverythingThatIsRead(t *testing.T) {
	x := table(t, `source: x
detect: z
alias: [{from: n_, to: o_}]
raw: [r, "s_*"]
signals:
  power: [a, o_b_total]
  ttft: h
  energy: {sum: [c, d], less: e, times: f, over: g, needs: i}
  itl: {total: j, count: k}
`)
	var got []string
	for _, s := range x.Families() {
		got = append(got, s.String())
	}
	want := "a a_total o_b_total n_b_total o_b n_b c c_total d d_total e e_total f f_total g g_total i i_total " +
		"h_sum h_total_sum h_count h_total_count h_bucket h_total_bucket j j_total k k_total r r_total s_*"
	have := map[string]bool{}
	for _, s := range got {
		have[s] = true
	}
	for w := range strings.FieldsSeq(want) {
		if !have[w] {
			t.Errorf("%s is not named", w)
		}
	}
	if n := len(strings.Fields(want)); len(got) != n {
		t.Errorf("%d names, want %d: %q", len(got), n, got)
	}
	// What a reader takes from a page is all among the names, for every built-in table: asking for them by name loses nothing.
	for name, page := range allPages(t) {
		whole, err := ReadPage(page, "")
		if err != nil {
			t.Fatal(err)
		}
		var kept []string
		for line := range strings.Lines(string(page)) {
			series, _, _ := strings.Cut(strings.TrimSpace(line), "{")
			series, _, _ = strings.Cut(series, " ")
			for _, x := range Builtin() {
				if strings.HasPrefix(line, "# HELP") || x.index.relevant(series) || x.detects(series) {
					kept = append(kept, line)
					break
				}
			}
		}
		part, err := ReadPage([]byte(strings.Join(kept, "")), "")
		if err != nil {
			t.Fatal(name, err)
		}
		same(t, part.Signals, whole.Signals)
	}
}

// detects says whether a series of this name decides whether the table is the page's.
func (t *Table) detects(name string) bool {
	for _, list := range [][]Selector{t.Detect, t.Not} {
		for i := range list {
			if list[i].matchesName(name) {
				return true
			}
		}
	}
	return false
}

func TestSelectors(t *testing.T) {
	f := func(text, name string, labels map[string]string, want bool) {
		t.Helper()
		var s Selector
		if err := s.UnmarshalText([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
			return
		}
		if got := s.matchesName(name) && s.matchesLabels(func(l string) string { return labels[l] }); got != want {
			t.Errorf("%s of %s%v: %v", text, name, labels, got)
		}
	}
	type m = map[string]string
	f("a", "a", nil, true)
	f("a", "ab", nil, false)
	f("a*", "ab", nil, true)
	f("a*", "ba", nil, false)
	f(`a{x="1"}`, "a", m{"x": "1"}, true)
	f(`a{x="1"}`, "a", m{"x": "12"}, false)
	f(`a{x=""}`, "a", m{"y": "1"}, true)
	f(`a{x!=""}`, "a", m{"y": "1"}, false)
	f(`a{x!="1"}`, "a", nil, true)
	f(`a{x=~"1|2"}`, "a", m{"x": "2"}, true)
	f(`a{x=~"1|2"}`, "a", m{"x": "12"}, false)
	f(`a{x=~"a.c"}`, "a", m{"x": "a\nc"}, true)
	f(`a{x!~"1|2"}`, "a", m{"x": "12"}, true)
	f(`a*{ x = "1" , y != "2", }`, "ab", m{"x": "1", "y": "3"}, true)
	f(`a{x="1",y!="2"}`, "a", m{"x": "1", "y": "2"}, false)
	f(`a{x="q\"}"}`, "a", m{"x": `q"}`}, true)
	for _, bad := range []string{"", "*", "{x=\"1\"}", "a b", "a{", "a{x}", "a{x=1}", `a{x="1"`, `a{x="1"}y`, `a{="1"}`, `a{x=~"("}`, `a{x="1" y="2"}`, "a}", `a{x~"1"}`, "a**"} {
		var s Selector
		if s.UnmarshalText([]byte(bad)) == nil {
			t.Errorf("%q is read as %v", bad, s)
		}
	}
}

// What docs/telemetry.md shows is a table that can be read, and it names every field.
func TestDocumentation(t *testing.T) {
	data, err := os.ReadFile("../../docs/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(data)
	n := 0
	for rest := doc; ; n++ {
		_, after, ok := strings.Cut(rest, "```yaml\nsource:")
		if !ok {
			break
		}
		block, tail, _ := strings.Cut(after, "```")
		if _, err := LoadTable(fmt.Sprintf("docs/telemetry.md block %d", n), []byte("source:"+block)); err != nil {
			t.Error(err)
		}
		rest = tail
	}
	if n == 0 {
		t.Error("no table is shown")
	}
	for _, x := range []reflect.Type{reflect.TypeFor[Table](), reflect.TypeFor[Way]()} {
		for i := range x.NumField() {
			name, _, _ := strings.Cut(x.Field(i).Tag.Get("yaml"), ",")
			if name != "" && !strings.Contains(doc, "`"+name+"`") {
				t.Errorf("%s of a %s is not explained", name, x.Name())
			}
		}
	}
}
