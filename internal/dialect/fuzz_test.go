package dialect

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/message"
)

// hostile are chunks that servers and attackers send, each the seed of a fuzz.
var hostile = []string{
	``, ` `, `null`, `[DONE]`, `{}`, `[]`, `[{"error":{"message":"in a list"}}]`, `{"a":`, `{"choices":[`, `{"choices":[{"delta":{"content":"\`,
	`{"choices":[{"delta":{"content":"\u12`, `{"choices":[{"delta":{"content":"\ud83d\ud83d\ude00\ude00"}}]}`,
	`{"choices":[{"delta":{"content":"\q"}}]}`, "{\"choices\":[{\"delta\":{\"content\":\"\xf0\x9f\x98\"}}]}",
	`{"choices":[{"index":-1,"delta":{"content":"a"}},{"index":300,"delta":{"content":"b"}},{"index":1.0,"delta":{"content":"c"}}]}`,
	`{"choices":[{"index":99999999999999999999,"delta":{"content":"a","content":"b"}}],"choices":null}`,
	`{"choices":[null,7],"usage":{"prompt_tokens":-1,"completion_tokens":1e400,"prompt_tokens_details":[],"completion_tokens_details":{"reasoning_tokens":01}}}`,
	`{"choices":{},"usage":"x","error":0}`, `{"choices":[{"delta":[],"finish_reason":{}}]}`, `{"error":{"message":{"deep":[1]},"code":429}}`,
	`{"choices":[{"delta":{"tool_calls":[{"index":1e3,"function":{"name":1,"arguments":{"a":"b"}}},null,{}],"function_call":{"name":"f"}}}]}`,
	`{"choices":[{"text":"t","delta":{"content":"d","reasoning":"r","reasoning_content":"","thinking":"x","refusal":"no"},"finish_reason":"null"}]}`,
	`{"object":"error","message":"m","type":null,"code":"c"}`, `{"obj\u0065ct":"error"}`, `{"object":"\u0065rror"}`, `{"detail":[{"loc":["body"],"msg":"field required"}]}`,
	`{"x_groq":{"usage":{"completion_tokens":3}},"usage":null}`, "{\"choices\":[]}\n[DONE]", `{"choices":[]} x`, `{"choices":[],}`, `{"choices":[]]}`,
	`{"usage":{"prompt_tokens":2147483647,"completion_tokens":2147483648,"cached_tokens":1,"cached_tokens":2}}`,
	strings.Repeat("[", 20000), `{"a":` + strings.Repeat(`{"a":`, 5000), `{"choices":[{"delta":{"content":` + strings.Repeat(`[`, 300) + strings.Repeat(`]`, 300) + `}}]}`,
}

func addSeeds(f *testing.F, add func(data []byte)) {
	for _, s := range hostile {
		add([]byte(s))
	}
	for _, s := range []string{string(tokenEvent), string(runningEvent), chatChunk(`{"role":"assistant","content":null}`, "null"), chatChunk(`{}`, "stop")} {
		add([]byte(s))
	}
	for _, file := range []string{"llama.cpp/80-scripted-tools-stream", "llama.cpp/16-chat-stream-n2", "llama.cpp/22-completions-batch-prompts", "ollama/87-scripted-reasoning-stream", "llama.cpp/86-scripted-logprobs"} {
		raw, err := os.ReadFile(filepath.Join("testdata/captures", file+".http"))
		if err != nil {
			f.Fatal(err)
		}
		for line := range bytes.SplitSeq(raw, []byte("\n")) {
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				add(data)
			}
		}
	}
}

func api(completions bool) API {
	if completions {
		return OpenAICompletions
	}
	return OpenAIChat
}

// says is what d heard after one chunk that was put into it by commit.
func says(d *Decoder, data []byte) heard {
	out := Delta{Cumulative: unknown}
	d.commit(data, &out)
	h := heard{Marks: d.marks, Cumulative: []int32{out.Cumulative}, Err: out.Err}
	h.fill(d)
	h.Fallbacks = 0
	return h
}

// What the scanner understands, encoding/json understands the same way.
func FuzzScan(f *testing.F) {
	addSeeds(f, func(data []byte) {
		f.Add(data, false, false)
		f.Add(data, false, true)
		f.Add(data, true, false)
	})
	f.Fuzz(func(t *testing.T, data []byte, completions, body bool) {
		var a, b Decoder
		a.Reset(api(completions), true)
		b.Reset(api(completions), true)
		data = trim(data)
		if !a.chunk.walk(data, a.api, body) || !a.chunk.sound(data) || !json.Valid(data) {
			return
		}
		if !b.chunk.parse(data, b.api, body) {
			t.Fatalf("scanned, not parsed: %s", data)
		}
		if a.chunk.hasChoices != b.chunk.hasChoices || a.chunk.hasUsage != b.chunk.hasUsage {
			t.Fatalf("choices %v usage %v, want %v %v", a.chunk.hasChoices, a.chunk.hasUsage, b.chunk.hasChoices, b.chunk.hasUsage)
		}
		got, want := says(&a, data), says(&b, data)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("encoding/json -, scanner +\n%s", diff)
		}
	})
}

// A chunk means the same whatever came before it, and text may be kept or not.
func FuzzEvents(f *testing.F) {
	var last []byte
	addSeeds(f, func(data []byte) {
		f.Add(last, data, []byte(""), false)
		f.Add(data, data, []byte("error"), true)
		last = data
	})
	f.Add([]byte(`{"choices":[{"delta":{"content":"a"}}]}`), []byte(`{"choices":[{"delta":{"content":"a\"}}]}`), []byte(""), false)
	f.Add([]byte(`{"choices":[{"delta":{"content":"a"}}]}`), []byte(`{"choices":[{"delta":{"content":"a\\"}}]}`), []byte(""), false)
	f.Add([]byte(`{"choices":[{"delta":{"content":"a"}}]}`), []byte(`{"choices":[{"delta":{"content":"a","content":"b"}}]}`), []byte(""), false)
	f.Add([]byte(`{"choices":[{"delta":{"content":"a"},"finish_reason":"abort"}]}`), []byte(`{"choices":[{"delta":{"content":"b"},"finish_reason":"abort"}]}`), []byte(""), false)
	f.Add([]byte(`{"choices":[{"delta":{"content":"a"}}],"error":"x"}`), []byte(`{"choices":[{"delta":{"content":"b"}}],"error":"x"}`), []byte(""), false)
	f.Fuzz(func(t *testing.T, first, second, name []byte, completions bool) {
		var fresh, warm, bare Decoder
		for _, d := range []*Decoder{&fresh, &warm, &bare} {
			d.Reset(api(completions), d != &bare)
		}
		play := func(d *Decoder, forget bool) (h heard, ends []bool) {
			for i, e := range [][]byte{first, second, first, second, second, first} {
				if forget {
					d.learnt = false
				}
				var n []byte
				if i == 4 {
					n = name
				}
				delta := d.Event(n, e)
				h.Marks = append(h.Marks, delta.Marks...)
				h.Cumulative = append(h.Cumulative, delta.Cumulative)
				h.Err = h.Err || delta.Err
				ends = append(ends, delta.Err, delta.Terminal)
			}
			h.fill(d)
			return h, ends
		}
		want, wantEnds := play(&fresh, true)
		got, ends := play(&warm, false)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("forgetting -, learning +\n%s", diff)
		}
		if diff := cmp.Diff(wantEnds, ends); diff != "" {
			t.Fatalf("ends: forgetting -, learning +\n%s", diff)
		}
		got, _ = play(&bare, false)
		want.Text, want.Reason, want.Deny, want.Calls = nil, nil, nil, nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("with text -, without +\n%s", diff)
		}
		sane(t, warm.Result(), want.Marks)
	})
}

// sane is what holds of any result.
func sane(t *testing.T, r *Result, marks []Mark) {
	t.Helper()
	for _, s := range []string{r.ErrorMessage, r.ErrorType, r.Finish} {
		if len(s) > MessageLimit || !utf8.ValidString(s) {
			t.Fatalf("text of %d bytes, valid %v", len(s), utf8.ValidString(s))
		}
	}
	u := r.Usage
	if u.Prompt < unknown || u.Cached < unknown || u.Completion < unknown || u.Reasoning < unknown || u.Prompt == 0 {
		t.Fatalf("usage %+v", u)
	}
	texts := 0
	for _, l := range [][]string{r.Text, r.Reasoning, r.Refusal} {
		for _, s := range l {
			if !utf8.ValidString(s) {
				t.Fatalf("text %q is not valid", s)
			}
			texts += len(s)
		}
	}
	marked := 0
	for _, m := range marks {
		if m.TextBytes == 0 || m.Channel == 0 {
			t.Fatalf("empty mark %+v", m)
		}
		marked += int(m.TextBytes)
	}
	if texts > marked {
		t.Fatalf("%d bytes of text, marks of %d", texts, marked)
	}
}

func FuzzBody(f *testing.F) {
	addSeeds(f, func(data []byte) { f.Add(data, false) })
	f.Add([]byte("<!DOCTYPE html><html><body>Sign in</body></html>"), false)
	f.Add([]byte(`{"choices":[{"message":{"content":"a"}}]}`), false)
	f.Add([]byte(`{"choices":[{"text":"a"}]}`), true)
	f.Fuzz(func(t *testing.T, data []byte, completions bool) {
		var d Decoder
		d.Reset(api(completions), true)
		delta := d.Body(data)
		r := d.Result()
		sane(t, r, delta.Marks)
		if r.Bad && (delta.Err || len(delta.Marks) > 0) {
			t.Fatal("bad and yet understood")
		}
		if !r.Bad && !json.Valid(trim(data)) && len(d.chunk.pieces) == 0 && !d.chunk.hasChoices && !delta.Err {
			t.Fatalf("accepted %q", data)
		}
	})
}

// Any text goes out as valid JSON and comes back as itself, but for its invalid
// bytes.
func FuzzRequest(f *testing.F) {
	for _, s := range append(hostile, "a\x00\x1f\x7f\u2028é", "\xff\xfe", " x ", "line\nline") {
		f.Add(s, "tail")
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		req := message.Request{Parts: []message.Part{{Text: one}, {Role: message.Assistant, Text: two}, {Generator: "g", Tokens: 1}}}
		for _, a := range []API{OpenAIChat, OpenAICompletions} {
			body, err := AppendRequest(nil, a, &req, renderer{"g": one}, &Options{Model: two})
			if err != nil {
				t.Fatal(err)
			}
			if !json.Valid(body) || !utf8.Valid(body) {
				t.Fatalf("body %q", body)
			}
			r, err := ParseRequest(a, body)
			if err != nil {
				t.Fatal(err)
			}
			clean := func(s string) string { return string([]rune(s)) }
			if r.Model != clean(two) {
				t.Fatalf("model %q, want %q", r.Model, clean(two))
			}
			if a == OpenAIChat {
				if got, want := r.Messages[0].Text, clean(one); got != want {
					t.Fatalf("text %q, want %q", got, want)
				}
			} else if !strings.HasPrefix(r.Prompts[0], clean(one)) || !strings.HasSuffix(r.Prompts[0], clean(one)) {
				t.Fatalf("prompt %q", r.Prompts[0])
			}
		}
	})
}

// The inside of a JSON string decodes as encoding/json decodes it.
func FuzzText(f *testing.F) {
	for _, s := range append(hostile, `\u0000`, `\ud800`, `\ud83d\ude00`, `\ud83dx`, `\ud83d\n`, `\u00e9\/`, "\xff\u00e9\xe4\xb8", `\`, `\u12`, `a\"b`) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if end, _ := str(append(bytes.Clone(raw), '"'), 0); end != len(raw) {
			return
		}
		var want string
		err := json.Unmarshal(append(append([]byte{'"'}, raw...), '"'), &want)
		got, ok := appendText(nil, raw)
		n, ok2 := textLen(raw)
		if ok != ok2 || ok && n != len(got) {
			t.Fatalf("length %d %v, text of %d %v", n, ok2, len(got), ok)
		}
		if err == nil && (!ok || string(got) != want) {
			t.Fatalf("%q %v, want %q", got, ok, want)
		}
		if err == nil && string(appendEscaped(nil, want)) != string(appendEscaped(nil, got)) {
			t.Fatal("escaping a string and bytes differ")
		}
	})
}

func FuzzParseRequest(f *testing.F) {
	for _, s := range append(hostile, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url"}]}],"stop":["a"],"n":2}`, `{"prompt":[[1,2],[3]]}`,
		`{"input":[{"role":"user","content":"a"},{"type":"function_call","name":"f","call_id":"c"}],"text":{"format":{"type":"text"}},"previous_response_id":"r"}`, `{"input":"a","metadata":{"a":[1e400]}}`) {
		for api := range APIs() {
			f.Add([]byte(s), uint8(api))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, which uint8) {
		api := APIs()[int(which)%len(APIs())]
		r, err := ParseRequest(api, body)
		if (r == nil) == (err == nil) {
			t.Fatalf("%v, %v", r, err)
		}
		if r == nil {
			return
		}
		if r.N < 1 || r.MaxTokens < 0 || r.MinTokens < 0 || len(r.Prompts) != len(r.PromptTokens) || (api == OpenAICompletions) != (len(r.Prompts) > 0) || (api == OpenAICompletions) != (len(r.Messages) == 0) {
			t.Fatalf("%+v", r)
		}
		if (r.Echo != "") != (api == OpenAIResponses) || !json.Valid([]byte("{"+r.Echo+"}")) {
			t.Fatalf("what is repeated is no JSON: %s", r.Echo)
		}
	})
}

// What needs no escape stands in a JSON string as it is, and only that.
func FuzzNeedsEscape(f *testing.F) {
	for _, s := range append(hostile, "plain text of some length", "é and 中 and 😀 of some length", "\x1f", "0123456\x7f", "01234567\n", "012345678\"", "\xc3") {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, want := needsEscape(b), string(appendEscaped(nil, b)) != string(b); got != want {
			t.Fatalf("needsEscape(%q) = %v, want %v", b, got, want)
		}
	})
}
