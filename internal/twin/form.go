package twin

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// form is a JSON text that follows a schema, as tokens: what stands before and behind
// the place where words go. Without such a place it is all in head.
type form struct {
	head, tail []string
	free       bool
}

// Bounds of what is made for a schema.
const (
	maxFormDepth = 16
	maxFormBytes = 64 << 10
)

// formOf makes the form of a JSON Schema: its required fields, or all when none are
// required, each with the simplest value. The error says what of the schema is not
// understood here.
func formOf(schema string) (*form, error) {
	b := formBuilder{at: -1}
	if err := json.Unmarshal([]byte(schema), &b.root); err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	if err := b.value(b.root, 0); err != nil {
		return nil, err
	}
	text := b.text.String()
	if b.at < 0 {
		return &form{head: pieces(text)}, nil
	}
	return &form{head: pieces(text[:b.at]), tail: pieces(text[b.at:]), free: true}, nil
}

// pieces returns the tokens of a text.
func pieces(text string) (all []string) {
	for text != "" {
		n := nextPiece(text)
		all = append(all, text[:n])
		text = text[n:]
	}
	return all
}

// least is the number of tokens of the text when it is complete.
func (f *form) least() int {
	n := len(f.head) + len(f.tail)
	if f.free {
		n++
	}
	return n
}

// piece returns token i of n, the empty text behind the end; whole says that the text
// is to be complete by then. word makes the next token of the words.
func (f *form) piece(i, n int, whole bool, word func() string) string {
	if i < len(f.head) {
		return f.head[i]
	}
	if !f.free {
		return ""
	}
	if rest := i - (n - len(f.tail)); whole && rest >= 0 && n >= f.least() {
		return f.tail[rest]
	}
	return word()
}

type formBuilder struct {
	root any
	text strings.Builder
	at   int // where words go, -1 for nowhere yet
}

// value writes a value that follows a schema.
func (b *formBuilder) value(schema any, depth int) error {
	if depth > maxFormDepth || b.text.Len() > maxFormBytes {
		return fmt.Errorf("the schema is deeper than %d levels, or its least answer longer than %d bytes", maxFormDepth, maxFormBytes)
	}
	s, ok := schema.(map[string]any)
	if !ok {
		if schema == true {
			return b.words(nil)
		}
		return errors.New("nothing follows the schema")
	}
	for _, name := range [...]string{"pattern", "format", "multipleOf", "not", "if", "allOf", "patternProperties", "minProperties", "contains", "uniqueItems"} {
		if _, ok := s[name]; ok {
			return fmt.Errorf("%q of the schema is not understood here", name)
		}
	}
	if v, ok := s["const"]; ok {
		return b.literal(v)
	}
	if list, ok := s["enum"].([]any); ok && len(list) > 0 {
		return b.literal(list[0])
	}
	if ref, ok := s["$ref"].(string); ok {
		to, err := b.resolve(ref)
		if err != nil {
			return err
		}
		return b.value(to, depth+1)
	}
	for _, name := range [...]string{"anyOf", "oneOf"} {
		list, _ := s[name].([]any)
		for _, one := range list {
			if m, ok := one.(map[string]any); ok && m["type"] == "null" {
				continue
			}
			return b.value(one, depth+1)
		}
	}
	kind, _ := s["type"].(string)
	if list, ok := s["type"].([]any); ok {
		for _, one := range list {
			if name, ok := one.(string); ok && (kind == "" || kind == "null") {
				kind = name
			}
		}
	}
	if _, ok := s["properties"]; ok && kind == "" {
		kind = "object"
	}
	switch kind {
	case "object":
		return b.object(s, depth)
	case "array":
		return b.array(s, depth)
	case "string", "":
		return b.words(s)
	case "integer", "number":
		return b.number(s, kind == "integer")
	case "boolean":
		return b.literal(true)
	case "null":
		return b.literal(nil)
	}
	return fmt.Errorf("type %q of the schema is not known", kind)
}

// literal writes a value as it is.
func (b *formBuilder) literal(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write a value of the schema: %w", err)
	}
	b.text.Write(text)
	return nil
}

// words writes a string; the first that may be of any length is where words go.
func (b *formBuilder) words(s map[string]any) error {
	least, _ := s["minLength"].(float64)
	if _, bounded := s["maxLength"]; !bounded && b.at < 0 && least <= 1 {
		b.text.WriteByte('"')
		b.at = b.text.Len()
		b.text.WriteByte('"')
		return nil
	}
	if least > maxFormBytes {
		return fmt.Errorf("a string of at least %v characters is too long", least)
	}
	return b.literal(strings.Repeat("x", int(max(0, least))))
}

// number writes the whole number nearest to 1 that is allowed; where there is none, one
// in the middle of those that are.
func (b *formBuilder) number(s map[string]any, whole bool) error {
	bound := func(name string, none float64) float64 {
		if v, ok := s[name].(float64); ok {
			return v
		}
		return none
	}
	lo, over := bound("minimum", math.Inf(-1)), bound("exclusiveMinimum", math.Inf(-1))
	hi, under := bound("maximum", math.Inf(1)), bound("exclusiveMaximum", math.Inf(1))
	least, most := max(math.Ceil(lo), math.Floor(over)+1), min(math.Floor(hi), math.Ceil(under)-1)
	v := min(max(1, least), most)
	if least > most {
		lo, hi = max(lo, over), min(hi, under)
		if v = lo + (hi-lo)/2; whole || lo > hi || v <= over || v >= under {
			return errors.New("no number is between the bounds of the schema")
		}
	}
	b.text.WriteString(strconv.FormatFloat(v, 'f', -1, 64))
	return nil
}

func (b *formBuilder) object(s map[string]any, depth int) error {
	fields, _ := s["properties"].(map[string]any)
	var names []string
	required, _ := s["required"].([]any)
	for _, one := range required {
		if name, ok := one.(string); ok {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(fields))
	}
	if len(fields) == 0 && len(names) == 0 && b.at < 0 && s["additionalProperties"] != false {
		names = []string{"text"} // any object
	}
	b.text.WriteByte('{')
	for i, name := range names {
		if i > 0 {
			b.text.WriteString(", ")
		}
		if err := b.literal(name); err != nil {
			return err
		}
		b.text.WriteString(": ")
		field, ok := fields[name]
		if !ok {
			field = true
		}
		if err := b.value(field, depth+1); err != nil {
			return err
		}
	}
	b.text.WriteByte('}')
	return nil
}

func (b *formBuilder) array(s map[string]any, depth int) error {
	n := 1
	if depth > maxFormDepth/4 {
		n = 0 // what holds its own kind has an end
	}
	if least, ok := s["minItems"].(float64); ok {
		n = int(min(least, maxFormBytes))
	}
	if most, ok := s["maxItems"].(float64); ok && float64(n) > most {
		n = int(most)
	}
	first, _ := s["prefixItems"].([]any)
	items, ok := s["items"]
	if !ok {
		items = true
	}
	b.text.WriteByte('[')
	for i := range n {
		if i > 0 {
			b.text.WriteString(", ")
		}
		one := items
		if i < len(first) {
			one = first[i]
		}
		if err := b.value(one, depth+1); err != nil {
			return err
		}
	}
	b.text.WriteByte(']')
	return nil
}

// resolve follows a reference within the schema.
func (b *formBuilder) resolve(ref string) (any, error) {
	path, ok := strings.CutPrefix(ref, "#")
	at := b.root
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if name == "" {
			continue
		}
		m, is := at.(map[string]any)
		at, ok = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)], ok && is
	}
	if !ok || at == nil {
		return nil, fmt.Errorf("$ref %q is not in the schema", ref)
	}
	return at, nil
}
