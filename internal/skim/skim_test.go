package skim

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// members reads all members of an object, and those of objects in it the same way.
func members(r *Reader, object func(func(string) error) error) (map[string]any, error) {
	out := map[string]any{}
	err := object(func(name string) error {
		if strings.HasPrefix(name, "skip") {
			return nil
		}
		if strings.HasPrefix(name, "in") {
			in, err := members(r, r.Inner)
			out[name] = in
			return err
		}
		var v any
		err := r.Value(&v)
		out[name] = v
		return err
	})
	return out, err
}

func TestObject(t *testing.T) {
	f := func(text string, want map[string]any) {
		t.Helper()
		for _, src := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)), iotest.DataErrReader(strings.NewReader(text))} {
			r := New(src)
			got, err := members(r, r.Object)
			if err != nil {
				t.Errorf("%.100s: %v", text, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%.100s: (-want +got)\n%.1000s", text, diff)
			}
		}
	}
	f(`{}`, map[string]any{})
	f(` { "a" : 1 , "skip" : [{"x": "]}\\\""}, [[]], null], "b":"\u0041\"" }`, map[string]any{"a": 1.0, "b": `A"`})
	f(`{"in": {"in1": null, "skip": {}, "c": [true]}, "skip": -1e5, "d": {"e": {}}}`, map[string]any{
		"in": map[string]any{"in1": map[string]any{}, "c": []any{true}}, "d": map[string]any{"e": map[string]any{}},
	})
	long := strings.Repeat("x\\\"", 3*chunk)
	f(`{"skip": "`+long+`", "a": "`+long+`"}`, map[string]any{"a": strings.Repeat(`x"`, 3*chunk)})
}

func TestSyntax(t *testing.T) {
	f := func(text string, offset int64) {
		t.Helper()
		r := New(strings.NewReader(text))
		_, err := members(r, r.Object)
		at, ok := errors.AsType[*SyntaxError](err)
		if !ok || at.Offset != offset {
			t.Errorf("%q: error %v, want one at byte %d", text, err, offset)
		}
	}
	f(``, 0)
	f(`null`, 0)
	f(`[]`, 0)
	f(`{"a" 1}`, 5)
	f(`{"a": 1`, 7)
	f(`{"a": 1 "b": 2}`, 8)
	f(`{"skip": "abc`, 13)
	f(`{"skip": "abc\\`, 15)
	f(`{"a": tru}`, 6)
	f(`{"in": 3}`, 7)
	f(`{"skip": }`, 9)
	f("{\"a\": \x00}", 6)
	f(`{"skip": `+strings.Repeat("[", mostDepth+1), 9+mostDepth+1)
	for _, text := range []string{`{"a": "` + strings.Repeat("x", 2*mostValue) + `"}`, `{"` + strings.Repeat("x", 2*mostValue) + `": 1}`} {
		r := New(strings.NewReader(text))
		if _, err := members(r, r.Object); err == nil || len(err.Error()) > 200 {
			t.Errorf("a value of %d bytes: %.300v", len(text), err)
		}
		if cap(r.buf) > 4*mostValue {
			t.Errorf("%d bytes are kept of a value of %d", cap(r.buf), len(text))
		}
	}
	broken := errors.New("broken")
	r := New(io.MultiReader(strings.NewReader(`{"a": 1, "skip": [`), iotest.ErrReader(broken)))
	if _, err := members(r, r.Object); !errors.Is(err, broken) {
		t.Errorf("a source that fails: %v", err)
	}
}

// counting counts what is read of it.
type counting struct {
	io.Reader
	n int
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += n
	return n, err
}

// TestEnough reads no further than it must, and keeps little of what it passes over.
func TestEnough(t *testing.T) {
	text := `{"skip": "` + strings.Repeat("x", 1<<20) + `", "in": {"a": 1, "b": 2}, "rest": "` + strings.Repeat("y", 8<<20) + `"}`
	src := &counting{Reader: strings.NewReader(text)}
	r := New(src)
	got := 0
	err := r.Object(func(name string) error {
		if name != "in" {
			return nil
		}
		return r.Inner(func(string) error {
			if err := r.Value(&got); err != nil {
				return err
			}
			return ErrEnough
		})
	})
	if err != nil || got != 1 {
		t.Errorf("a is %d, %v", got, err)
	}
	if src.n > 1<<20+4*chunk || cap(r.buf) > 4*chunk {
		t.Errorf("%d bytes were read and %d kept", src.n, cap(r.buf))
	}
}

// What encoding/json reads is read alike.
func FuzzObject(f *testing.F) {
	for _, s := range []string{`{"a": [1, {"b": null}], "skip": "\\"}`, `{"in": {"x": 1}}`, `{"in": null, "a": tru}`, `{"\u0061": 1e400}`, "{\"a\": \"\x00\"}", `{"skip": [}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := New(iotest.HalfReader(strings.NewReader(text)))
		got, err := members(r, r.Object)
		var want map[string]any
		if json.Unmarshal([]byte(text), &want) != nil || want == nil {
			return // what is passed over may be anything
		}
		if err != nil {
			if at, ok := errors.AsType[*SyntaxError](err); ok && strings.HasSuffix(at.Text, "where an object is wanted") {
				return // by members
			}
			t.Fatalf("%q: %v", text, err)
		}
		var plain func(m map[string]any)
		plain = func(m map[string]any) {
			for k, v := range m {
				switch {
				case strings.HasPrefix(k, "skip"):
					delete(m, k)
				case strings.HasPrefix(k, "in"):
					in, _ := v.(map[string]any)
					if in == nil {
						in = map[string]any{}
					}
					plain(in)
					m[k] = in
				}
			}
		}
		plain(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q: (-want +got)\n%.1000s", text, diff)
		}
	})
}
