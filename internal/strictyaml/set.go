package strictyaml

import (
	"fmt"
	"reflect"
	"strings"
)

// Set writes one value into the document as if the file had it: path as
// load.users, value as a flag gives it. V is what the document will be decoded
// into; its type says which fields there are. Origin is the label for errors
// and for At, as --set or --users.
//
// A list takes its parts between commas, or YAML in brackets; setting it again
// from the same origin adds to it when add is true, and else replaces it. A
// mapping takes K=V, which adds one name, or YAML in braces, which replaces
// all. The value null removes the field, so that its default counts.
func (d *Document) Set(v any, path, value, origin string, add bool, o Options) error {
	at := Position{File: d.file, Origin: origin}
	fail := func(problem, got, nearest string) error {
		return Errors{{Position: at, Path: path, Problem: problem, Value: got, Nearest: nearest}}
	}
	root := reflect.TypeOf(v)
	for root.Kind() == reflect.Pointer {
		root = root.Elem()
	}
	keys, t, problem, nearest := resolvePath(root, path)
	if text, ok := o.Reserved[path]; ok {
		problem, nearest = text, ""
	} else if problem != "" {
		// A field of a group that is none here.
		group, _, _ := strings.Cut(path, ".")
		if text, ok := o.Reserved[group]; ok {
			problem, nearest = text, ""
		}
	}
	if problem != "" {
		return fail(problem, "", nearest)
	}
	if strings.TrimSpace(value) == "null" {
		d.remove(keys)
		return nil
	}
	n := &node{Position: at, kind: scalar, text: value}
	isText := reflect.PointerTo(t).Implements(unmarshalerType)
	switch {
	case isText:
	case hasShort(t):
	case t.Kind() == reflect.Struct:
		return fail("is a group: set one of its fields ("+list(names(fields(t)))+")", "", "")
	case t.Kind() == reflect.Map:
		if strings.HasPrefix(strings.TrimSpace(value), "{") {
			sub, err := d.flow(value, at)
			if err != "" {
				return fail(err, "", "")
			}
			n = sub
			break
		}
		key, val, ok := strings.Cut(value, "=")
		if !ok || strings.TrimSpace(key) == "" {
			return fail("want NAME=VALUE", "", "")
		}
		keys = append(keys, strings.TrimSpace(key))
		n.text = val
	case t.Kind() == reflect.Slice:
		n = &node{Position: at, kind: sequence}
		if strings.HasPrefix(strings.TrimSpace(value), "[") {
			sub, err := d.flow(value, at)
			if err != "" {
				return fail(err, Quote(value), "")
			}
			n = sub
		} else {
			n.items = append(n.items, split(&node{Position: at, kind: scalar, text: value})...)
		}
		if old := d.find(keys); add && old != nil && old.kind == sequence && old.Origin == origin {
			old.items = append(old.items, n.items...)
			return nil
		}
	case t.Kind() == reflect.Interface:
		if s := strings.TrimSpace(value); s != "" && strings.ContainsAny(s[:1], `[{"'`) {
			sub, err := d.flow(value, at)
			if err != "" {
				return fail(err, "", "")
			}
			n = sub
		}
	}
	d.spell(root, keys)
	d.put(keys, n, at)
	return nil
}

// spell writes out the groups above the last of keys that stand as a single
// value, so that other fields can be set beside it.
func (d *Document) spell(t reflect.Type, keys []string) {
	n := d.root
	for _, k := range keys[:len(keys)-1] {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return
		}
		for _, f := range fields(t) {
			if f.name == k {
				t = f.typ
				break
			}
		}
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if n = n.get(k); n == nil {
			return
		}
		if t.Kind() != reflect.Struct {
			return
		}
		if short := shortField(fields(t)); short != nil && n.kind == scalar {
			value := *n
			*n = node{Position: n.Position, kind: mapping, entries: []entry{{key: short.name, line: n.Line, col: n.Col, value: &value}}}
		}
	}
}

// flow parses a value written in brackets or braces, as JSON is too.
func (d *Document) flow(value string, at Position) (*node, string) {
	sub, err := Parse("", []byte(value))
	if err != nil {
		return nil, "want YAML or JSON: " + err.(Errors)[0].Problem
	}
	sub.root.place(at)
	return sub.root, ""
}

func (n *node) place(at Position) {
	n.Position = at
	for i := range n.entries {
		n.entries[i].line, n.entries[i].col = 0, 0
		n.entries[i].value.place(at)
	}
	for _, item := range n.items {
		item.place(at)
	}
}

// resolvePath splits a path by what the types say: below a mapping of plain
// values the rest of the path is one key, so that header names may have dots.
func resolvePath(root reflect.Type, path string) (keys []string, t reflect.Type, problem, nearest string) {
	t = root
	rest := path
	for rest != "" {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch {
		case t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(unmarshalerType):
			name, tail, _ := strings.Cut(rest, ".")
			fs := fields(t)
			found := false
			for _, f := range fs {
				if f.name == name {
					keys, t, rest, found = append(keys, name), f.typ, tail, true
					break
				}
			}
			if !found {
				near := Nearest(path, Paths(root))
				if near == "" {
					near = elsewhere(root, path, lastName(path), false)
				}
				problem := "unknown field"
				if near == "" {
					problem += ": want one of " + list(names(fs))
				}
				return nil, nil, problem, near
			}
		case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Interface, t.Kind() == reflect.Interface:
			name, tail, _ := strings.Cut(rest, ".")
			if name == "" {
				return nil, nil, "want a name between the dots", ""
			}
			keys, rest = append(keys, name), tail
			if t.Kind() == reflect.Map {
				t = t.Elem()
			}
			if len(keys) > MaxDepth {
				return nil, nil, fmt.Sprintf("values are nested more than %d deep", MaxDepth), ""
			}
		case t.Kind() == reflect.Map:
			keys, t, rest = append(keys, rest), t.Elem(), ""
		default:
			return nil, nil, fmt.Sprintf("%s has no fields inside", strings.Join(keys, ".")), strings.Join(keys, ".")
		}
	}
	if len(keys) == 0 {
		return nil, nil, "want the path of a field, as in load.users=8", ""
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return keys, t, "", ""
}

func (d *Document) find(keys []string) *node {
	n := d.root
	for _, k := range keys {
		if n = n.get(k); n == nil {
			return nil
		}
	}
	return n
}

func (d *Document) put(keys []string, value *node, at Position) {
	n := d.root
	for _, k := range keys[:len(keys)-1] {
		next := n.get(k)
		switch {
		case next == nil:
			next = &node{Position: at, kind: mapping}
			n.entries = append(n.entries, entry{key: k, value: next})
		case next.kind == null:
			next.kind = mapping
		case next.kind != mapping:
			return // Decode will say that the file has no group there
		}
		n = next
	}
	last := keys[len(keys)-1]
	for i := range n.entries {
		if n.entries[i].key == last {
			n.entries[i].value = value
			return
		}
	}
	n.entries = append(n.entries, entry{key: last, value: value})
}

func (d *Document) remove(keys []string) {
	n := d.find(keys[:len(keys)-1])
	if n == nil {
		return
	}
	for i := range n.entries {
		if n.entries[i].key == keys[len(keys)-1] {
			n.entries = append(n.entries[:i], n.entries[i+1:]...)
			return
		}
	}
}
