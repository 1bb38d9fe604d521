package strictyaml

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// plainly is what a node says, without places.
func plainly(n *node) any {
	switch n.kind {
	case mapping:
		m := map[string]any{}
		for _, e := range n.entries {
			m[e.key] = plainly(e.value)
		}
		return m
	case sequence:
		list := []any{}
		for _, x := range n.items {
			list = append(list, plainly(x))
		}
		return list
	case scalar:
		return n.text
	}
	return nil
}

// Values in brackets and braces are what they are in lines of their own.
func TestFlowForms(t *testing.T) {
	type m = map[string]any
	type l = []any
	f := func(text string, want any) {
		t.Helper()
		doc, err := Parse("f.yaml", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			return
		}
		if d := cmp.Diff(want, plainly(doc.root)); d != "" {
			t.Errorf("%s (-want +got):\n%s", text, d)
		}
	}
	f("data: {telemetry: [http://h:1/x]}", m{"data": m{"telemetry": l{"http://h:1/x"}}})
	f("data: {telemetry: [http://h:1/x, http://g:2/y], out: c:d}", m{"data": m{"telemetry": l{"http://h:1/x", "http://g:2/y"}, "out": "c:d"}})
	f("{a: [b:c, d:e:f, 10:30, 7], g: h:i}", m{"a": l{"b:c", "d:e:f", "10:30", "7"}, "g": "h:i"})
	f("{a: [ http://h:1/x , é:é ]}", m{"a": l{"http://h:1/x", "é:é"}})
	f("é: {ü: [ö:ß, {x: [ö:ß:a]}]}", m{"é": m{"ü": l{"ö:ß", m{"x": l{"ö:ß:a"}}}}})
	f("{a: [lognormal:p50=400,p99=4000]}", m{"a": l{"lognormal:p50=400", "p99=4000"}})
	f("{a: [http://h:1/x?q=1#f]}", m{"a": l{"http://h:1/x?q=1#f"}})
	f("a: {b: [\n  http://h:1/x,   # one\n  {url: http://h:2/y, kind: z}\n]}", m{"a": m{"b": l{"http://h:1/x", m{"url": "http://h:2/y", "kind": "z"}}}})
	// A colon and a blank, or the end, are a key's.
	f("{a: [b: c]}", m{"a": l{m{"b": "c"}}})
	f("{a: [b: c:d]}", m{"a": l{m{"b": "c:d"}}})
	f(`{a: ["b": c]}`, m{"a": l{m{"b": "c"}}})
	f("{a: [{b: c}, d]}", m{"a": l{m{"b": "c"}, "d"}})
	f(`a: {"b": 1, 'c d': 2, "e":3}`, m{"a": m{"b": "1", "c d": "2", "e": "3"}})
	f("a: &x {b: [c:d]}\ne: {f: *x}", m{"a": m{"b": l{"c:d"}}, "e": m{"f": m{"b": l{"c:d"}}}})
	f(`{a: [x:"y", x:'z'], b:"c"}`, m{"a": l{m{"x": "y"}, m{"x": "z"}}, "b": "c"})
	f("{}", m{})
	f("{a: [], b: {}}", m{"a": l{}, "b": m{}})
}

// What cannot be read says where it is and how to write it.
func TestFlowErrors(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if _, err := Parse("f.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want %q", text, err, want)
		}
	}
	f("a: {b: [http://[::1]:80/x]}", "f.yaml:1:")
	f("a: [http://[::1]:80/x]", "put a value with [ ] { } or , in it in quotes")
	f("a: {b: [c:d}", "f.yaml:1:")
	f("a: {b: *x}", "alias *x has no anchor &x above it")
	f("a: [*.go]", "alias *.go has no anchor &.go above it; put a text that begins with * in quotes")
	// What is text to YAML and an alias, an anchor or a block to the lexer.
	for _, c := range []string{"*", "&", "|", ">", "@", "`", "%"} {
		f("{a: [x:"+c+"y]}", "f.yaml:1:6: x:"+c+"… may be a text or a key with its value: put the text in quotes, or a blank behind the colon of the key")
		f("{a: {x:"+c+"y}}", "f.yaml:1:6: x:"+c+"…")
	}
	f("{b: &y 1,\na: [x:*y]}", "f.yaml:2:5: x:*…")
	f("{a: [x:!y]}", "found invalid tag character '}'; put a text that begins with ! in quotes")
	f("a: @b", "put a text that begins with it in quotes")
	f("a: b: c", "put a text with a colon and a blank in it in quotes")
	f("a: {b: !!str 1}", "tags (!) are not supported")
	f("a: {<<: *x}", "merge keys")
	f("\xff\xfea\x00", "f.yaml:1:1: it is UTF-16: save it as UTF-8")
}

// value draws what a document may hold: texts, lists and groups.
func value(t *rapid.T, depth int) any {
	kind := 0
	if depth > 0 {
		kind = rapid.IntRange(0, 4).Draw(t, "kind")
	}
	switch {
	case kind == 3:
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			list = append(list, value(t, depth-1))
		}
		return list
	case kind == 4:
		m := map[string]any{}
		for range rapid.IntRange(1, 3).Draw(t, "fields") {
			m[rapid.StringMatching(`[a-z]([a-z0-9._-]{0,5}[a-z0-9])?`).Draw(t, "key")] = value(t, depth-1)
		}
		return m
	}
	return rapid.StringMatching(`([a-z0-9é]+:)?(//)?[a-z0-9é.=+/-][a-z0-9é.=+/-]{0,6}(:[a-z0-9/=é]{1,4}){0,2}(#[a-z]{1,3})?( [a-z0-9(/]{1,3}(:[0-9a]{1,2})?)?[a-z0-9]`).Draw(t, "text")
}

// write writes v in brackets and braces, in quotes also some that need none.
func write(t *rapid.T, v any) string {
	blank := rapid.SampledFrom([]string{"", " "}).Draw(t, "blank")
	switch v := v.(type) {
	case []any:
		var all []string
		for _, x := range v {
			all = append(all, write(t, x))
		}
		return "[" + blank + strings.Join(all, blank+", ") + blank + "]"
	case map[string]any:
		var all []string
		for k, x := range v {
			if rapid.IntRange(0, 3).Draw(t, "quote") == 0 {
				k = `"` + k + `"`
			}
			all = append(all, k+": "+write(t, x))
		}
		return "{" + blank + strings.Join(all, ","+blank) + blank + "}"
	}
	switch text := v.(string); rapid.IntRange(0, 5).Draw(t, "quote") {
	case 0:
		return "'" + text + "'"
	case 1:
		return `"` + text + `"`
	default:
		if strings.IndexByte("*-=+/.:#", text[0]) >= 0 || strings.Contains(text, " #") {
			return "'" + text + "'" // these have a meaning of their own
		}
		return text
	}
}

// blockOf writes v in lines.
func blockOf(v any, indent string) string {
	switch v := v.(type) {
	case []any:
		if len(v) == 0 {
			return " []\n"
		}
		s := "\n"
		for _, x := range v {
			s += indent + "-" + blockOf(x, indent+"  ")
		}
		return s
	case map[string]any:
		s := "\n"
		for k, x := range v {
			s += indent + k + ":" + blockOf(x, indent+"  ")
		}
		return s
	}
	return fmt.Sprintf(" '%s'\n", v)
}

// Any document says the same in brackets and braces as in lines with quotes.
func TestFlowIsBlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := map[string]any{"a": value(t, 4)}
		for _, text := range []string{write(t, want), "a: " + write(t, want["a"]), blockOf(want, "")} {
			doc, err := Parse("f.yaml", []byte(text))
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if d := cmp.Diff(want, plainly(doc.root)); d != "" {
				t.Fatalf("%s (-want +got):\n%s", text, d)
			}
		}
	})
}
