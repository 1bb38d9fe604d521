package scenario

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"plimsoll/internal/strictyaml"
)

// The patterns of the text forms. They are for editors: close enough to help
// while typing, while Read has the last word.
const (
	durationPattern = `^([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)(([0-9]+(\.[0-9]*)?)(ns|us|µs|ms|s|m|h))*$`
	distPattern     = `^([0-9]+|fixed:[0-9]+|uniform:[0-9]+\.\.[0-9]+|normal:[0-9.]+, *[0-9.]+(, *(min|max)=[0-9.]+)*|lognormal:(p50|p99|min|max)=[0-9.]+(, *(p50|p99|min|max)=[0-9.]+)+|gamma:.+|zipf:.+|file:.+|mix:.+)$`
	shapePattern    = `^(ramp|spikes|market-open|diurnal|on-off):[a-z]+=[0-9.a-zµ]+(, *[a-z]+=[0-9.a-zµ]+)*$`
	stagePattern    = `^[0-9.a-zµ]+:[0-9.e+-]+(\.\.[0-9.e+-]+)?$`
	variablePattern = `\$\{`
)

// Schema returns the JSON Schema (draft 2020-12) of a scenario file, made from
// the types, for editors and other programs.
func Schema() ([]byte, error) {
	b, err := json.MarshalIndent(schema(), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("make scenario schema: %w", err)
	}
	return append(b, '\n'), nil
}

func schema() *jsonschema.Schema {
	defaults := map[string]string{}
	for _, l := range strictyaml.Leaves(Default(), nil) {
		defaults[l.Path] = l.Text
	}
	s := structSchema(reflect.TypeFor[Scenario](), "", defaults)
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "Plimsoll scenario"
	s.Description = "One measured run of plimsoll."
	s.Properties["users"].AllOf = []*jsonschema.Schema{
		{Description: "trace or dataset, not both", Not: &jsonschema.Schema{Type: "object", Required: []string{"trace", "dataset"}}},
	}
	load := s.Properties["load"]
	load.AllOf = []*jsonschema.Schema{
		{Description: "users or rate, not both", Not: &jsonschema.Schema{Required: []string{"users", "rate"}}},
		{Description: "stages or users, not both", Not: &jsonschema.Schema{Required: []string{"users", "stages"}}},
		{Description: "stages or rate, not both", Not: &jsonschema.Schema{Required: []string{"rate", "stages"}}},
		{Description: "steps or users, not both", Not: &jsonschema.Schema{Required: []string{"users", "steps"}}},
		{Description: "steps or rate, not both", Not: &jsonschema.Schema{Required: []string{"rate", "steps"}}},
		{Description: "workloads or users, not both", Not: &jsonschema.Schema{Required: []string{"users", "workloads"}}},
		{Description: "workloads or rate, not both", Not: &jsonschema.Schema{Required: []string{"rate", "workloads"}}},
		{Description: "workloads or stages, not both", Not: &jsonschema.Schema{Required: []string{"stages", "workloads"}}},
		{Description: "workloads or steps, not both", Not: &jsonschema.Schema{Required: []string{"steps", "workloads"}}},
		{Description: "steps or stages, not both", Not: &jsonschema.Schema{Required: []string{"stages", "steps"}}},
		{Description: "duration or requests, not both", Not: &jsonschema.Schema{Required: []string{"duration", "requests"}}},
	}
	return s
}

func structSchema(t reflect.Type, path string, defaults map[string]string) *jsonschema.Schema {
	s := &jsonschema.Schema{
		// A group whose fields are all commented out is null.
		Types:                []string{"object", "null"},
		Properties:           map[string]*jsonschema.Schema{},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
		Description:          groups[path],
	}
	if path == "" {
		s.Types, s.Type = nil, "object"
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		if f.Anonymous {
			inner := structSchema(f.Type, path, defaults)
			maps.Copy(s.Properties, inner.Properties)
			s.PropertyOrder = append(s.PropertyOrder, inner.PropertyOrder...)
			continue
		}
		p := strictyaml.Join(path, name)
		var child *jsonschema.Schema
		if f.Type.Kind() == reflect.Struct && !isText(f.Type) {
			child = structSchema(f.Type, p, defaults)
		} else {
			child = valueSchema(f.Type, fieldHelp[p])
			child.Description = fieldHelp[p].Help
			if text, ok := defaults[p]; ok {
				child.Default = defaultJSON(text)
			}
		}
		s.Properties[name] = child
		s.PropertyOrder = append(s.PropertyOrder, name)
	}
	return s
}

// groupSchema is that of an item of a list: of a Page, which may be a URL alone, of
// a LoadStep, a StepPart or a LoadPart.
func groupSchema(t reflect.Type) *jsonschema.Schema {
	help, page := pageHelp, false
	switch t {
	case reflect.TypeFor[LoadStep]():
		help = stepHelp
	case reflect.TypeFor[StepPart]():
		help = partHelp
	case reflect.TypeFor[LoadPart]():
		help = loadPartHelp
	default:
		page = true
	}
	s := &jsonschema.Schema{
		Type: "object", Properties: map[string]*jsonschema.Schema{},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		child := valueSchema(f.Type, help[name])
		child.Description = help[name].Help
		s.Properties[name] = child
		s.PropertyOrder = append(s.PropertyOrder, name)
	}
	if !page {
		return s
	}
	s.Required = []string{"url"}
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, s}}
}

func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// defaultJSON turns the text of a default into JSON: numbers and booleans as
// they are, all else as a string.
func defaultJSON(text string) json.RawMessage {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	b, err := json.Marshal(text)
	if err != nil {
		panic("BUG: a default is not text: " + err.Error())
	}
	return b
}

// variable is what may stand instead of any value.
func variable() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: variablePattern}
}

func number(kind string, low float64, above bool) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: kind}
	if above {
		s.ExclusiveMinimum = &low
	} else {
		s.Minimum = &low
	}
	return s
}

func valueSchema(t reflect.Type, help Field) *jsonschema.Schema {
	switch {
	case t.Kind() == reflect.Pointer:
		s := valueSchema(t.Elem(), help)
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{s, {Type: "null"}}}
	case t == reflect.TypeFor[time.Duration]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string", Pattern: durationPattern}, variable()}}
	case t == reflect.TypeFor[Dist]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{number("integer", 1, false), {Type: "string", Pattern: distPattern}, variable()}}
	case t == reflect.TypeFor[Shape]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string", Pattern: shapePattern}, variable()}}
	case t == reflect.TypeFor[Share]():
		return &jsonschema.Schema{Type: "string"}
	case t == reflect.TypeFor[Stage]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string", Pattern: stagePattern}, variable()}}
	case t == reflect.TypeFor[Hardware]():
		return &jsonschema.Schema{Type: "string"}
	case t == reflect.TypeFor[Limit]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string", Pattern: limitPattern()}, variable()}}
	case len(help.Choices) > 0:
		s := &jsonschema.Schema{Type: "string"}
		for _, c := range help.Choices {
			s.Enum = append(s.Enum, c)
		}
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{s, variable()}}
	}
	switch t.Kind() {
	case reflect.Struct:
		return groupSchema(t)
	case reflect.String:
		// Numbers and truth values are text where text is wanted.
		return &jsonschema.Schema{Types: []string{"string", "number", "boolean"}}
	case reflect.Bool:
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "boolean"}, variable()}}
	case reflect.Int, reflect.Int64:
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{number("integer", 1, false), variable()}}
	case reflect.Uint64:
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{number("integer", 1, false), variable()}}
	case reflect.Float64:
		// A rate and a share are above 0; a temperature, the only pointer, may
		// be 0, and Read says the rest.
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{number("number", 0, false), variable()}}
	case reflect.Slice:
		item := valueSchema(t.Elem(), Field{})
		one := 1
		any := []*jsonschema.Schema{{Type: "array", Items: item, MinItems: &one}, valueSchema(t.Elem(), Field{})}
		if k := t.Elem().Kind(); k == reflect.Int || k == reflect.Float64 {
			any = append(any, &jsonschema.Schema{Type: "string", Pattern: `^ *[0-9.]+ *(, *[0-9.]+ *)+$`})
		}
		if t.Elem() == reflect.TypeFor[Stage]() {
			p := strings.TrimSuffix(strings.TrimPrefix(stagePattern, "^"), "$")
			any = append(any, &jsonschema.Schema{Type: "string", Pattern: "^" + p + "(, *" + p + ")+$"})
		}
		if t.Elem() == reflect.TypeFor[Limit]() {
			p := strings.TrimSuffix(strings.TrimPrefix(limitPattern(), "^"), "$")
			any = append(any, &jsonschema.Schema{Type: "string", Pattern: "^" + p + "(, *" + p + ")+$"})
		}
		return &jsonschema.Schema{AnyOf: any}
	case reflect.Map:
		s := &jsonschema.Schema{Types: []string{"object", "null"}}
		if t.Elem().Kind() == reflect.String {
			s.AdditionalProperties = &jsonschema.Schema{Types: []string{"string", "number", "boolean"}}
		}
		return s
	}
	panic("BUG: no schema for " + t.String())
}

func limitPattern() string {
	d := strings.TrimSuffix(strings.TrimPrefix(durationPattern, "^"), "$")
	return "^((" + strings.Join(SLOMetrics, "|") + `)\.(` + strings.Join(SLOStats, "|") + ") *= *" + d + "|" + OfWorkloads + ")$"
}
