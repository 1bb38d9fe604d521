package scenario

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/strictyaml"
)

const docsPage = "../../docs/scenario.md"

func TestEveryFieldHasHelp(t *testing.T) {
	paths := Paths()
	for _, p := range paths {
		h, ok := Help(p)
		if !ok || h.Help == "" || h.Example == "" {
			t.Errorf("%s has no help or no example", p)
		}
	}
	for p := range fieldHelp {
		if !slices.Contains(paths, p) {
			t.Errorf("help for %s, which is no field", p)
		}
	}
	page := strictyaml.Paths(reflect.TypeFor[Page]())
	for _, p := range page {
		if h := pageHelp[p]; h.Help == "" || h.Example == "" {
			t.Errorf("%s of a page has no help or no example", p)
		}
	}
	if len(pageHelp) != len(page) {
		t.Errorf("help for %d fields of a page, which has %d", len(pageHelp), len(page))
	}
	for p := range reserved {
		if slices.Contains(paths, p) {
			t.Errorf("%s is a field and reserved", p)
		}
	}
}

// Every example must be a value that the field takes.
func TestExamplesAreRight(t *testing.T) {
	for _, p := range Paths() {
		h, _ := Help(p)
		group, name, nested := strings.Cut(p, ".")
		if !nested {
			group, name = "", p
		}
		file := map[string][]string{
			"target": {"url: http://h:8000"},
			"load":   {"users: 4"},
		}
		switch p {
		case "target.url":
			file["target"] = nil
		case "target.cert":
			file["target"] = append(file["target"], "key: k.pem")
		case "target.key":
			file["target"] = append(file["target"], "cert: c.pem")
		case "load.users", "load.rate", "load.stages", "load.steps", "load.workloads":
			file["load"] = nil
		case "load.arrival", "load.shape":
			file["load"] = []string{"rate: 2"}
		case "load.burstiness":
			file["load"] = []string{"rate: 2", "arrival: gamma"}
		case "users.trace":
			file["load"] = nil
		default:
			if slices.Contains(replayFields, p) {
				file["users"] = append(file["users"], "trace: moon.jsonl")
				file["load"] = nil
			}
		}
		file[group] = append(file[group], name+": "+h.Example)
		var b strings.Builder
		for _, g := range []string{"", "target", "users", "load", "guards", "data"} {
			if len(file[g]) == 0 {
				continue
			}
			indent := ""
			if g != "" {
				b.WriteString(g + ":\n")
				indent = "  "
			}
			for _, l := range file[g] {
				b.WriteString(indent + l + "\n")
			}
		}
		env := func(n string) (string, bool) { return "x", n == "TEAM_KEY" }
		s, err := Read(Source{Name: "example", Data: []byte(b.String()), Seed: seed7, Getenv: env})
		if err != nil {
			t.Errorf("%s: %v\n%s", p, err, b.String())
			continue
		}
		if !s.given(p) {
			t.Errorf("%s: the example does not give it:\n%s", p, b.String())
		}
	}
}

func TestExamplesOfPagesAreRight(t *testing.T) {
	for name, h := range pageHelp {
		file := "target: {url: 'http://h:8000'}\nload: {users: 4}\ndata:\n  telemetry:\n  - auto\n  - "
		switch name {
		case "url":
			file += "url: " + h.Example
		case "match":
			file += "url: http://p:9090\n    kind: prometheus\n    match: " + h.Example
		case "cert":
			file += "url: http://p:9090\n    key: k.pem\n    cert: " + h.Example
		case "key":
			file += "url: http://p:9090\n    cert: c.pem\n    key: " + h.Example
		default:
			file += "url: http://p:9090\n    " + name + ": " + h.Example
		}
		s, err := Read(Source{Name: "example", Data: []byte(file), Seed: seed7})
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, file)
			continue
		}
		if !s.given("data.telemetry[1]." + name) {
			t.Errorf("%s: the example does not give it:\n%s", name, file)
		}
	}
}

// fieldsPage is the part of the page that is made from the types.
func fieldsPage() string {
	defaults := map[string]string{}
	for _, l := range strictyaml.Leaves(Default(), nil) {
		defaults[l.Path] = l.Text
	}
	var b strings.Builder
	last := "none yet"
	for _, p := range Paths() {
		group, name, nested := strings.Cut(p, ".")
		if !nested {
			group, name = "", p
		}
		if group != last {
			last = group
			if group == "" {
				b.WriteString("\n### At the top\n")
			} else {
				fmt.Fprintf(&b, "\n### %s\n\n%s%s.\n", group, strings.ToUpper(groups[group][:1]), groups[group][1:])
			}
			b.WriteString("\n| field | default | example | meaning |\n|---|---|---|---|\n")
		}
		h, _ := Help(p)
		def := ""
		if d := defaults[p]; d != "" {
			def = "`" + d + "`"
		}
		help := h.Help
		if len(h.Choices) > 1 {
			help += " One of `" + strings.Join(h.Choices, "`, `") + "`."
		}
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s |\n", name, def, h.Example, help)
	}
	for _, list := range []struct {
		title string
		of    reflect.Type
		help  map[string]Field
	}{
		{"A step of load.steps", reflect.TypeFor[LoadStep](), stepHelp},
		{"A part of a step", reflect.TypeFor[StepPart](), partHelp},
		{"A workload of load.workloads", reflect.TypeFor[LoadPart](), loadPartHelp},
	} {
		fmt.Fprintf(&b, "\n### %s\n\n| field | example | meaning |\n|---|---|---|\n", list.title)
		for _, p := range strictyaml.Paths(list.of) {
			fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", p, list.help[p].Example, list.help[p].Help)
		}
	}
	b.WriteString("\n### A page of data.telemetry\n\n| field | example | meaning |\n|---|---|---|\n")
	for _, p := range strictyaml.Paths(reflect.TypeFor[Page]()) {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", p, pageHelp[p].Example, pageHelp[p].Help)
	}
	return b.String()
}

func TestDocsPageHasEveryField(t *testing.T) {
	page, err := os.ReadFile(docsPage)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "do not edit below -->\n"
	head, tail, ok := strings.Cut(string(page), mark)
	if !ok {
		t.Fatalf("%s has no line that ends in %q", docsPage, mark)
	}
	if *update {
		if err := os.WriteFile(docsPage, []byte(head+mark+fieldsPage()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if tail != fieldsPage() {
		t.Errorf("%s is not what the types say: run go test ./internal/scenario -update", docsPage)
	}
	for _, p := range Paths() {
		if !strings.Contains(tail, "| `"+p[strings.LastIndexByte(p, '.')+1:]+"` |") {
			t.Errorf("%s lacks %s", docsPage, p)
		}
	}
}

// The file at the top of the page and its flags must be what the page says:
// the same plan.
func TestDocsExampleRuns(t *testing.T) {
	page, err := os.ReadFile(docsPage)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	file, rest, _ := strings.Cut(rest, "```")
	_, rest, _ = strings.Cut(rest, "plimsoll run ")
	command, _, _ := strings.Cut(rest, "```")
	fromFile, err := Read(Source{Name: "docs", Data: []byte(file), Seed: seed7})
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(strings.ReplaceAll(command, "\\\n", " "))
	src := Source{Seed: seed7}
	for i := 0; i+1 < len(words); i += 2 {
		path, ok := FlagPath(strings.TrimPrefix(words[i], "--"))
		if !ok {
			t.Fatalf("no flag %s", words[i])
		}
		src.Settings = append(src.Settings, Setting{Path: path, Value: words[i+1], Origin: words[i]})
	}
	fromFlags, err := Read(src)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := fromFile.Marshal()
	b, _ := fromFlags.Marshal()
	if len(words) < 10 || string(a) != string(b) {
		t.Errorf("file:\n%s\nflags:\n%s", a, b)
	}
}

func TestDocsErrorsAreReal(t *testing.T) {
	page, err := os.ReadFile(docsPage)
	if err != nil {
		t.Fatal(err)
	}
	file := "target:\n  url: http://h\n  model: m\n  temprature: 1\nload:\n  duration: 30\nguards:\n  slo: ttft.p59=1s\n"
	_, err = Read(Source{Name: "run.yaml", Data: []byte(file)})
	if err == nil || !strings.Contains(string(page), "```\n"+err.Error()+"\n```") {
		t.Errorf("the page does not show these errors:\n%v", err)
	}
}
