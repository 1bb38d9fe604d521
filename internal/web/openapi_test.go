package web

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"plimsoll/internal/detail"
	"plimsoll/internal/live"
)

var update = flag.Bool("update", false, "write openapi.json anew")

// operation is what the document says of one method of one address. The types are
// those that the handlers encode; everything else of the document follows from them.
type operation struct {
	method, path, summary string
	query                 []parameter
	body                  any // nil for none
	status                int // of success
	answer                any // nil for an empty one
	kind                  string
}

type parameter struct{ name, kind, text string }

var (
	fromTo = []parameter{
		{"from", "number", "begin of the range, ms since the run's start"},
		{"to", "number", "end of the range, ms; without from and to the whole run"},
	}
	points   = parameter{"points", "integer", "most buckets of time, 1 to 4000, 600 by default"}
	ofOne    = parameter{"workload", "string", "one workload; all together without"}
	filtered = parameter{"filter", "string", "terms that must all hold, as in workload:legal ttft>2s -status:ok"}
)

// schemaFree stands for an answer whose form is another standard's.
type schemaFree map[string]any

func operations() []operation {
	ranged := func(more ...parameter) []parameter { return slices.Concat(fromTo, more) }
	return []operation{
		{method: "GET", path: "/api/version", summary: "What is served", status: 200, answer: version{}},
		{method: "GET", path: "/api/openapi.json", summary: "This document", status: 200, answer: schemaFree{}},
		{method: "POST", path: "/api/logout", summary: "Forget the cookie with the token", status: 204},
		{method: "GET", path: "/api/runs", summary: "All runs, the newest first", status: 200, answer: runList{}},
		{method: "POST", path: "/api/runs", summary: "Start a run, as plimsoll run does; one at a time. A scenario that is not right is refused with 400 and its errors, a target that does not answer with 502, a second run with 409", body: scenarioText{}, status: 201, answer: runID{}},
		{method: "GET", path: "/api/runs/{id}", summary: "All that the panel needs of a run beside lanes and requests", status: 200, answer: detail.RunDoc{}},
		{method: "PATCH", path: "/api/runs/{id}", summary: "Change note, name and tags, which are kept beside the run; what is absent stays, a tag that is null goes", body: RunPatch{}, status: 200, answer: detail.RunRow{}},
		{method: "DELETE", path: "/api/runs/{id}", summary: "Delete an ended run for good", query: []parameter{{"confirm", "string", "the id again"}}, status: 204},
		{method: "POST", path: "/api/runs/{id}/stop", summary: "Ask a run under way to end; what is in flight may end", status: 202, answer: runID{}},
		{method: "GET", path: "/api/runs/{id}/events", summary: "A run under way, once a second: events snapshot (data: a Snapshot; its id is the number, and Last-Event-ID or after=N goes on behind it without a gap), resync (what was missed is not kept: read the run and its data again), end", query: []parameter{{"after", "integer", "number of the last snapshot that is known; without it from five before the newest on"}}, status: 200, answer: live.Snapshot{}, kind: "text/event-stream"},
		{method: "GET", path: "/api/runs/{id}/report.html", summary: "The page of an ended run in one file that works offline", status: 200, answer: "", kind: "text/html"},
		{method: "GET", path: "/api/runs/{id}/opening", summary: "How much is made, 0 to 1, of what the panel draws of a run that is opened for the first time; null while nothing is", status: 200, answer: opening{}},
		{method: "GET", path: "/api/runs/{id}/series", summary: "The signals that there are, and why lanes have none", status: 200, answer: seriesList{}},
		{method: "GET", path: "/api/runs/{id}/data", summary: "Courses of series on one grid", query: ranged(parameter{"series", "string", "ids with commas, 400 at most"}, points), status: 200, answer: detail.Grid{}},
		{method: "GET", path: "/api/runs/{id}/bands", summary: "Percentiles of latencies over time", query: ranged(parameter{"figure", "string", "names with commas: " + strings.Join(detail.BandFigures(), ", ")}, ofOne, points), status: 200, answer: detail.BandsGrid{}},
		{method: "GET", path: "/api/runs/{id}/heat", summary: "Counts of a latency by time and size", query: ranged(parameter{"figure", "string", "ttft by default"}, ofOne, parameter{"columns", "integer", "most buckets of time, 300 by default"}), status: 200, answer: detail.HeatGrid{}},
		{method: "GET", path: "/api/runs/{id}/envelope", summary: "Lowest, middle and highest of a signal over all sources and devices", query: ranged(parameter{"signal", "string", "name of the signal"}, parameter{"stat", "string", "value by default"}, points), status: 200, answer: detail.EnvelopeGrid{}},
		{method: "GET", path: "/api/runs/{id}/figures", summary: "Figures of the requests scheduled in a range; of the whole run those of summary.json", query: fromTo, status: 200, answer: detail.Figures{}},
		{method: "GET", path: "/api/runs/{id}/requests", summary: "Requests of a range that a filter takes", query: ranged(filtered, parameter{"sort", "string", "a field of a request without _ms or _tokens, - before it for the largest first; by time without"}, parameter{"limit", "integer", "1 to 1000, 200 by default"}, parameter{"offset", "integer", "how many to leave out"}), status: 200, answer: detail.Rows{}},
		{method: "GET", path: "/api/runs/{id}/requests/{n}", summary: "One request with its events and what the servers said meanwhile", status: 200, answer: detail.One{}},
		{method: "GET", path: "/api/runs/{id}/scatter", summary: "Requests as points of time and a figure, above 5,000 as tiles with the extreme points of each", query: ranged(filtered, parameter{"y", "string", "figure, ttft by default"}, parameter{"color", "string", "workload (default) or status"}, parameter{"width", "integer", "of the picture in pixels"}, parameter{"height", "integer", "likewise"}), status: 200, answer: detail.Scatter{}},
		{method: "GET", path: "/api/runs/{id}/common", summary: "What the requests in a box of a scatter share more often than the others", query: ranged(filtered, parameter{"y", "string", "figure, ttft by default"}, parameter{"xmin", "number", "ms"}, parameter{"xmax", "number", "ms"}, parameter{"ymin", "number", "of the figure"}, parameter{"ymax", "number", "of the figure"}), status: 200, answer: detail.Common{}},
		{method: "GET", path: "/api/schema", summary: "JSON Schema of a scenario", status: 200, answer: schemaFree{}},
		{method: "GET", path: "/api/scenarios", summary: "The stored scenarios", status: 200, answer: scenarioList{}},
		{method: "GET", path: "/api/scenarios/{name}", summary: "A stored scenario", status: 200, answer: namedScenario{}},
		{method: "PUT", path: "/api/scenarios/{name}", summary: "Store a scenario, right or not", body: scenarioText{}, status: 200, answer: namedScenario{}},
		{method: "DELETE", path: "/api/scenarios/{name}", summary: "Delete a stored scenario", status: 204},
		{method: "POST", path: "/api/scenarios/check", summary: "What is wrong with a scenario, or what it would do; nothing is sent", body: scenarioText{}, status: 200, answer: checked{}},
		{method: "GET", path: "/api/compare", summary: "Figures of 2 to 8 runs against the first, with 95 % intervals", query: []parameter{{"runs", "string", "ids with commas"}}, status: 200, answer: comparison{}},
		{method: "GET", path: "/api/workloads", summary: "The library of workloads", query: []parameter{{"model", "string", "a name of the catalogue"}}, status: 200, answer: workloadList{}},
		{method: "GET", path: "/api/workloads/{family}/{name}", summary: "A workload and its shape on a model", query: []parameter{{"model", "string", "a name of the catalogue, llama-3.1-8b by default"}}, status: 200, answer: workloadDoc{}},
		{method: "GET", path: "/api/twin/catalogue", summary: "What a twin can be made of", status: 200, answer: twinCatalogue{}},
		{method: "POST", path: "/api/twin/predict", summary: "Predicted figures of a cluster over levels of load, in under a second; levels that the time does not reach are left out and named", body: PredictRequest{}, status: 200, answer: Prediction{}},
	}
}

// nullable are the lists and maps that are null where nothing is known.
var nullable = []string{"SummaryDist.ci95", "SummaryDist.enough", "One.text"}

// builder makes the schemas of the document. Types with a name of their own are
// components.
type builder struct {
	fixed map[reflect.Type]*jsonschema.Schema
	names map[reflect.Type]string
	done  map[string]*jsonschema.Schema
	docs  map[string]map[string]string // package folder: Type or Type.Field: comment
}

func newBuilder() *builder {
	number := func() *jsonschema.Schema { return &jsonschema.Schema{Type: "number"} }
	list := func() *jsonschema.Schema {
		return &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Types: []string{"number", "null"}}}
	}
	b := &builder{
		fixed: map[reflect.Type]*jsonschema.Schema{
			reflect.TypeFor[detail.Ms]():     number(),
			reflect.TypeFor[detail.Times]():  list(),
			reflect.TypeFor[detail.Values](): list(),
			reflect.TypeFor[live.Cell]():     {Type: "array", Items: &jsonschema.Schema{Type: "number"}, Description: "series, t, value"},
			reflect.TypeFor[distText]():      {Types: []string{"string", "number"}},
			reflect.TypeFor[schemaFree]():    {Type: "object"},
		},
		names: map[reflect.Type]string{}, done: map[string]*jsonschema.Schema{}, docs: map[string]map[string]string{},
	}
	return b
}

// of returns the schema of a type.
func (b *builder) of(t *testing.T, typ reflect.Type) *jsonschema.Schema {
	t.Helper()
	b.collect(t, typ)
	return b.infer(t, typ, nil)
}

func (b *builder) infer(t *testing.T, typ, own reflect.Type) *jsonschema.Schema {
	t.Helper()
	schemas := map[reflect.Type]*jsonschema.Schema{}
	for k, v := range b.fixed {
		schemas[k] = v
	}
	for k, name := range b.names {
		if k != own {
			schemas[k] = &jsonschema.Schema{Ref: "#/components/schemas/" + name}
		}
	}
	// Numbers as keys are text in JSON.
	schemas[reflect.TypeFor[map[int]detail.Course]()] = &jsonschema.Schema{
		Type: "object", AdditionalProperties: schemas[reflect.TypeFor[detail.Course]()],
	}
	s, err := jsonschema.ForType(typ, &jsonschema.ForOptions{TypeSchemas: schemas})
	if err != nil {
		t.Fatal(err)
	}
	walk(s, func(x *jsonschema.Schema) {
		if x.Ref != "" && len(x.Types) == 1 {
			x.AnyOf = []*jsonschema.Schema{{Ref: x.Ref}, {Type: "null"}}
			x.Ref, x.Types = "", nil
		}
		// A list is never null here, unless a type says so.
		if slices.Equal(x.Types, []string{"null", "array"}) {
			x.Types, x.Type = nil, "array"
		}
	})
	return s
}

// collect makes components of the named structs that a type refers to.
func (b *builder) collect(t *testing.T, typ reflect.Type) {
	t.Helper()
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
		if b.fixed[typ] == nil {
			b.collect(t, typ.Elem())
		}
		return
	case reflect.Struct:
	default:
		return
	}
	if b.fixed[typ] != nil || b.names[typ] != "" && b.done[b.names[typ]] != nil || typ.Name() == "" || typ.PkgPath() == "time" {
		return
	}
	if b.names[typ] == "" {
		b.names[typ] = componentName(typ)
	}
	name := b.names[typ]
	for other, n := range b.names {
		if n == name && other != typ {
			t.Fatalf("%v and %v have one name in the document", other, typ)
		}
	}
	b.done[name] = &jsonschema.Schema{} // so that cycles end
	for i := range typ.NumField() {
		if f := typ.Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
			b.collect(t, f.Type)
		}
	}
	s := b.infer(t, typ, typ)
	for field, p := range s.Properties {
		if slices.Contains(nullable, name+"."+field) {
			p.Types, p.Type = []string{p.Type, "null"}, ""
		}
	}
	b.describe(t, s, typ)
	b.done[name] = s
}

// componentName is the name of a type in the document: that of Go, behind that of what
// it belongs to where two packages might have the same.
func componentName(typ reflect.Type) string {
	name := strings.ToUpper(typ.Name()[:1]) + typ.Name()[1:]
	if name == "Summary" || name == "Snapshot" {
		return name
	}
	switch filepath.Base(typ.PkgPath()) {
	case "stats":
		return "Summary" + name
	case "live":
		return "Snapshot" + name
	case "workload":
		return "Workload" + name
	}
	return name
}

// describe adds the comments of a type's source.
func (b *builder) describe(t *testing.T, s *jsonschema.Schema, typ reflect.Type) {
	folder := filepath.Join("..", strings.TrimPrefix(typ.PkgPath(), "plimsoll/internal/"))
	docs := b.docs[folder]
	if docs == nil {
		docs = comments(t, folder)
		b.docs[folder] = docs
	}
	s.Description = docs[typ.Name()]
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if p := s.Properties[name]; p != nil && docs[typ.Name()+"."+f.Name] != "" {
			p.Description = docs[typ.Name()+"."+f.Name]
		}
	}
}

// comments returns what is said of the types of a package and of their fields.
func comments(t *testing.T, folder string) map[string]string {
	t.Helper()
	out := map[string]string{}
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	text := func(doc *ast.CommentGroup, line *ast.CommentGroup) string {
		if s := doc.Text(); s != "" {
			return strings.Join(strings.Fields(s), " ")
		}
		return strings.TrimSpace(line.Text())
	}
	for _, name := range names {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			d, ok := n.(*ast.GenDecl)
			if !ok {
				return true
			}
			for _, spec := range d.Specs {
				ts, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				doc := ts.Doc
				if len(d.Specs) == 1 {
					doc = d.Doc
				}
				out[ts.Name.Name] = text(doc, ts.Comment)
				st, ok := ts.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, field := range st.Fields.List {
					for _, id := range field.Names {
						out[ts.Name.Name+"."+id.Name] = text(field.Doc, field.Comment)
					}
				}
			}
			return true
		})
	}
	return out
}

// walk calls do with a schema and all schemas in it.
func walk(s *jsonschema.Schema, do func(*jsonschema.Schema)) {
	if s == nil {
		return
	}
	do(s)
	for _, m := range []map[string]*jsonschema.Schema{s.Properties, s.Defs, s.PatternProperties} {
		for _, x := range m {
			walk(x, do)
		}
	}
	for _, l := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf, s.AllOf, s.PrefixItems} {
		for _, x := range l {
			walk(x, do)
		}
	}
	walk(s.Items, do)
	walk(s.AdditionalProperties, do)
}

// document makes the OpenAPI document.
func document(t *testing.T) []byte {
	t.Helper()
	type object = map[string]any
	b := newBuilder()
	content := func(typ any) object {
		return object{"application/json": object{"schema": b.of(t, reflect.TypeOf(typ))}}
	}
	refused := object{"description": "Refused or failed: what is wrong, where, and what to do", "content": content(refusal{})}
	paths := map[string]object{}
	for _, o := range operations() {
		op := object{"summary": o.summary, "operationId": operationID(&o)}
		var params []object
		for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(o.path, -1) {
			params = append(params, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
		}
		for _, q := range o.query {
			params = append(params, object{"name": q.name, "in": "query", "description": q.text, "schema": object{"type": q.kind}})
		}
		if len(params) > 0 {
			op["parameters"] = params
		}
		if o.body != nil {
			op["requestBody"] = object{"required": true, "content": content(o.body)}
		}
		ok := object{"description": http.StatusText(o.status)}
		switch {
		case o.kind != "":
			ok["content"] = object{o.kind: object{"schema": b.of(t, reflect.TypeOf(o.answer))}}
		case o.answer != nil:
			ok["content"] = content(o.answer)
		}
		op["responses"] = object{strconv.Itoa(o.status): ok, "default": refused}
		if paths[o.path] == nil {
			paths[o.path] = object{}
		}
		paths[o.path][strings.ToLower(o.method)] = op
	}
	doc := object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Plimsoll", "version": strconv.Itoa(panelVersion),
			"description": "Runs of Plimsoll: looked at, compared, started and stopped. Times are ms since the run's start instant, durations ms, absolute times RFC 3339 in UTC; what is not known is null. " +
				"POST, PUT, PATCH and DELETE need an Origin that is this server's or the header " + ChangeHeader + "; their bodies are application/json. On an address that others can reach every request needs the token that is printed at the start, as Authorization: Bearer or as the cookie that /?token= sets.",
		},
		"security": []object{{}, {"token": []string{}}, {"cookie": []string{}}},
		"paths":    paths,
		"components": object{
			"schemas": b.done,
			"securitySchemes": object{
				"token":  object{"type": "http", "scheme": "bearer"},
				"cookie": object{"type": "apiKey", "in": "cookie", "name": "plimsoll-PORT"},
			},
		},
	}
	out, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}

// operationID is a name for programs that are made from the document.
func operationID(o *operation) string {
	id := strings.ToLower(o.method)
	for part := range strings.FieldsFuncSeq(strings.TrimPrefix(o.path, "/api"), func(r rune) bool { return strings.ContainsRune("/{}.", r) }) {
		id += strings.ToUpper(part[:1]) + part[1:]
	}
	return id
}

// TestDocument holds the committed document against the types that the handlers
// encode, and its addresses against the handlers.
func TestDocument(t *testing.T) {
	want := document(t)
	if *update {
		if err := os.WriteFile("openapi.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		openAPIDocument = want
		parsed = readOnce()
	}
	if diff := cmp.Diff(string(want), string(openAPIDocument)); diff != "" {
		t.Errorf("openapi.json is not what the handlers answer; go test ./internal/web -run TestDocument -update writes it anew (-want +got):\n%.3000s", diff)
	}
	said := map[string]bool{}
	for path, methods := range readDocument(t).Paths {
		for method := range methods {
			said[strings.ToUpper(method)+" "+path] = true
		}
	}
	for _, r := range newServer(t, nil).routes() {
		name := r.method + " " + r.path
		if !said[name] {
			t.Errorf("the document does not have %s", name)
		}
		delete(said, name)
	}
	for name := range said {
		t.Errorf("the document has %s, which nobody answers", name)
	}
}

// openDocument is what tests read of the document.
type openDocument struct {
	Paths map[string]map[string]struct {
		RequestBody *struct {
			Content map[string]struct{ Schema json.RawMessage }
		}
		Responses map[string]struct {
			Content map[string]struct{ Schema json.RawMessage }
		}
	}
	Components struct{ Schemas map[string]json.RawMessage }
}

// parsed is the document, read once.
var parsed = readOnce()

func readOnce() func() (*openDocument, error) {
	return sync.OnceValues(func() (*openDocument, error) {
		d := new(openDocument)
		return d, json.Unmarshal(openAPIDocument, d)
	})
}

func readDocument(t *testing.T) *openDocument {
	t.Helper()
	d, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// resolved are the schemas of the committed document by where they stand in it.
var resolved sync.Map

// schemaAt makes a validator of a schema of the document.
func schemaAt(t *testing.T, where string, d *openDocument, schema json.RawMessage) *jsonschema.Resolved {
	t.Helper()
	if r, ok := resolved.Load(where); ok {
		return r.(*jsonschema.Resolved)
	}
	text := fmt.Sprintf(`{"$defs": %s, "allOf": [%s]}`, must(t, d.Components.Schemas), schema)
	s := new(jsonschema.Schema)
	if err := json.Unmarshal([]byte(strings.ReplaceAll(text, "#/components/schemas/", "#/$defs/")), s); err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	resolved.Store(where, r)
	return r
}

func must(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// conforms holds an answer against the document: its status must be there, and its
// body as it says. Everything that tests of this package ask goes through it.
func conforms(t *testing.T, s *Server, r *http.Request, status int, h http.Header, body []byte) {
	t.Helper()
	_, pattern := s.mux.Handler(r)
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		return // no address of the API
	}
	d := readDocument(t)
	op, ok := d.Paths[path][strings.ToLower(method)]
	if !ok {
		t.Errorf("the document does not have %s", pattern)
		return
	}
	key := strconv.Itoa(status)
	answer, ok := op.Responses[key]
	if !ok {
		key = "default"
		if answer, ok = op.Responses[key]; !ok || status < 400 {
			t.Errorf("%s: the document has no status %d", pattern, status)
			return
		}
	}
	if len(answer.Content) == 0 {
		if len(body) > 0 {
			t.Errorf("%s: status %d has a body", pattern, status)
		}
		return
	}
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	content, ok := answer.Content[kind]
	if err != nil || !ok {
		t.Errorf("%s: the document has no body of type %q for status %d", pattern, h.Get("Content-Type"), status)
		return
	}
	if kind != "application/json" {
		return
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Errorf("%s: %v in %.200s", pattern, err, body)
		return
	}
	if err := schemaAt(t, pattern+" "+key, d, content.Schema).Validate(v); err != nil {
		t.Errorf("%s: the answer is not as the document says: %v\n%.600s", pattern, err, body)
	}
}

// TestConformsCanFail shows answers that are not as the document says.
func TestConformsCanFail(t *testing.T) {
	d := readDocument(t)
	row := d.Paths["/api/runs"]["get"].Responses["200"].Content["application/json"].Schema
	v := schemaAt(t, "test", d, row)
	for text, want := range map[string]bool{
		`{"runs": []}`:            true,
		`{"runs": null}`:          false,
		`{"runs": [{"id": "x"}]}`: false,
		`{"runs": [], "more": 1}`: false,
		`{}`:                      false,
	} {
		if err := v.Validate(decode[any](t, []byte(text))); (err == nil) != want {
			t.Errorf("%s: %v, want valid %v", text, err, want)
		}
	}
}
