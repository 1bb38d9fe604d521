package dialect

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// jsonText draws a JSON document that looks like a chunk or body more or less:
// the keys that matter and others, in any order, sometimes twice, with values
// of any kind, and white space anywhere.
type jsonText struct {
	t *rapid.T
	b strings.Builder
}

func (j *jsonText) pick(s ...string) string { return rapid.SampledFrom(s).Draw(j.t, "pick") }

func (j *jsonText) chance(percent int) bool {
	return rapid.IntRange(0, 99).Draw(j.t, "chance") < percent
}

func (j *jsonText) write(s string) {
	j.b.WriteString(s)
	if j.chance(8) {
		j.b.WriteString(j.pick(" ", "\n", "\t", "\r", "  "))
	}
}

func (j *jsonText) object(field func(key string), keys ...string) {
	j.write("{")
	n := rapid.IntRange(0, len(keys)).Draw(j.t, "fields")
	order := rapid.Permutation(keys).Draw(j.t, "keys")[:n]
	if n > 0 && j.chance(3) {
		order = append(order, order[0]) // twice
	}
	for i, k := range order {
		if i > 0 {
			j.write(",")
		}
		if j.chance(2) {
			j.write(`"` + strings.Replace(k, "e", `\u0065`, 1) + `"`)
		} else {
			j.write(`"` + k + `"`)
		}
		j.write(":")
		if j.chance(4) {
			j.value(0)
		} else {
			field(k)
		}
	}
	j.write("}")
}

func (j *jsonText) list(item func()) {
	j.write("[")
	for i := range rapid.IntRange(0, 3).Draw(j.t, "items") {
		if i > 0 {
			j.write(",")
		}
		if j.chance(3) {
			j.value(0)
		} else {
			item()
		}
	}
	j.write("]")
}

// value is a value of any kind.
func (j *jsonText) value(depth int) {
	switch rapid.IntRange(0, 8).Draw(j.t, "kind") {
	case 0:
		j.write("null")
	case 1:
		j.write(j.pick("true", "false"))
	case 2:
		j.number()
	case 3:
		if depth < 3 {
			j.list(func() { j.value(depth + 1) })
			return
		}
		j.write("[]")
	case 4:
		if depth < 3 {
			j.object(func(string) { j.value(depth + 1) }, "content", "text", "usage", "x")
			return
		}
		j.write("{}")
	default:
		j.text()
	}
}

func (j *jsonText) text() {
	j.write(`"` + j.pick("", "", "a", "null", " token", "é", "中文", `\n`, `\"`, `\\`, `\u00e9`, `\ud83d\ude00`, `\ud83d`, "\xff", `{\"a\":[1`, "}]", "stop", "error", "length", strings.Repeat("long ", 20)) + `"`)
}

func (j *jsonText) number() {
	j.write(j.pick("0", "1", "2", "7", "96", "-1", "2.5", "5.0", "1e2", "2147483647", "2147483648", "99999999999999999999", "null", `"3"`))
}

func (j *jsonText) details() {
	j.object(func(string) { j.number() }, "cached_tokens", "reasoning_tokens", "audio_tokens")
}

func (j *jsonText) usage() {
	j.object(func(k string) {
		if strings.HasSuffix(k, "details") {
			j.details()
		} else {
			j.number()
		}
	}, "prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details", "completion_tokens_details", "cached_tokens", "prompt_cache_hit_tokens", "reasoning_tokens")
}

func (j *jsonText) function() { j.object(func(string) { j.text() }, "name", "arguments", "x") }

func (j *jsonText) delta() {
	j.object(func(k string) {
		switch k {
		case "tool_calls":
			j.list(func() {
				j.object(func(k string) {
					switch k {
					case "index":
						j.number()
					case "function":
						j.function()
					default:
						j.text()
					}
				}, "index", "id", "type", "function")
			})
		case "function_call":
			j.function()
		default:
			j.text()
		}
	}, "role", "content", "refusal", "reasoning_content", "reasoning", "reasoning_text", "thinking", "tool_calls", "function_call")
}

func (j *jsonText) choice() {
	j.object(func(k string) {
		switch k {
		case "index":
			j.number()
		case "delta", "message":
			j.delta()
		case "usage":
			j.usage()
		case "error":
			j.value(2)
		default:
			j.text()
		}
	}, "index", "delta", "message", "text", "finish_reason", "usage", "error", "logprobs")
}

func (j *jsonText) chunk() {
	j.object(func(k string) {
		switch k {
		case "choices":
			j.list(j.choice)
		case "usage":
			j.usage()
		case "x_groq":
			j.object(func(string) { j.usage() }, "usage", "id")
		case "error":
			if j.chance(70) {
				j.write("null")
			} else {
				j.object(func(string) { j.text() }, "message", "type", "code")
			}
		default:
			j.text()
		}
	}, "id", "choices", "usage", "error", "object", "message", "detail", "code", "type", "x_groq", "model")
}

// The scanner and encoding/json agree on documents of all shapes, and the
// scanner does understand those of the usual shape.
func TestScanStructures(t *testing.T) {
	scanned, all := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		j := jsonText{t: t}
		j.chunk()
		data := trim([]byte(j.b.String()))
		if !json.Valid(data) {
			t.Fatalf("drew %q", data)
		}
		all++
		a, body := api(rapid.Bool().Draw(t, "completions")), rapid.Bool().Draw(t, "body")
		var s, p Decoder
		s.Reset(a, true)
		p.Reset(a, true)
		if !s.chunk.walk(data, a, body) || !s.chunk.sound(data) {
			return
		}
		scanned++
		if !p.chunk.parse(data, a, body) {
			t.Fatalf("scanned, not parsed: %s", data)
		}
		got, want := says(&s, data), says(&p, data)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s\nencoding/json -, scanner +\n%s", data, diff)
		}
	})
	t.Logf("scanned %d of %d", scanned, all)
	if scanned*10 < all {
		t.Errorf("scanned only %d of %d", scanned, all)
	}
}

// A chunk read with what was learnt of one that is nearly the same means what
// it means alone.
func TestLearningStructures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := jsonText{t: t}
		j.chunk()
		one := j.b.String()
		two := one
		for range rapid.IntRange(0, 4).Draw(t, "changes") {
			from := j.pick(` token`, `"a"`, `""`, `\n`, `7`, `96`, `1`, `null`, `}`, `,`)
			to := j.pick(` token`, `"b"`, `"\"`, `"\\"`, `"\\\"`, `"x","content":"y"`, `8`, `0`, `97`, `1.5`, `-2`, `"`, ``, "\xff")
			if at := strings.Index(two, from); at >= 0 {
				two = two[:at] + to + two[at+len(from):]
			}
		}
		var alone, warm Decoder
		a := api(rapid.Bool().Draw(t, "completions"))
		alone.Reset(a, true)
		warm.Reset(a, true)
		hear(&alone, one)
		alone.learnt = false
		hear(&warm, one)
		want, got := hear(&alone, two), hear(&warm, two)
		want.Fallbacks, got.Fallbacks = 0, 0
		if diff := cmp.Diff(want, got); diff != "" && json.Valid([]byte(two)) {
			t.Fatalf("%s\n%s\nalone -, after the first +\n%s", one, two, diff)
		}
	})
}
