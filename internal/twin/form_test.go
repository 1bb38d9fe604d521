package twin

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	gocmp "github.com/google/go-cmp/cmp"

	"plimsoll/internal/dialect"
	"plimsoll/internal/message"
)

// The simplest value of each kind of schema, with the place of the words as _.
func TestForms(t *testing.T) {
	f := func(schema, want string) {
		t.Helper()
		form, err := formOf(schema)
		if err != nil {
			t.Errorf("%s: %v", schema, err)
			return
		}
		got := strings.Join(form.head, "")
		if form.free {
			got += "_" + strings.Join(form.tail, "")
		}
		if got != want {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
		if !json.Valid([]byte(got)) {
			t.Errorf("%s is no JSON", got)
		}
	}
	f(`{"type":"object"}`, `{"text": "_"}`)
	f(`{}`, `"_"`)
	f(`true`, `"_"`)
	f(`{"type":"object","additionalProperties":false}`, `{}`)
	f(`{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer"},"c":{"type":"string"}}}`, `{"a": 1, "b": "_", "c": ""}`)
	f(`{"properties":{"b":{"type":"string"},"a":{"type":"boolean"}},"required":["a","x"]}`, `{"a": true, "x": "_"}`)
	f(`{"type":"array","items":{"enum":["yes","no"]},"minItems":2}`, `["yes", "yes"]`)
	f(`{"type":"array","prefixItems":[{"type":"null"}],"maxItems":1}`, `[null]`)
	f(`{"type":"array","maxItems":0}`, `[]`)
	f(`{"type":"number","minimum":2.5}`, `3`)
	f(`{"type":"number","minimum":0.25,"maximum":0.75}`, `0.5`)
	f(`{"type":"number","exclusiveMinimum":0,"maximum":1}`, `1`)
	f(`{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1}`, `0.5`)
	f(`{"type":"integer","maximum":-4}`, `-4`)
	f(`{"type":"integer","exclusiveMinimum":7,"exclusiveMaximum":9}`, `8`)
	f(`{"type":["null","string"],"minLength":3,"maxLength":9}`, `"xxx"`)
	f(`{"anyOf":[{"type":"null"},{"const":{"a":"\"b"}}]}`, `{"a":"\"b"}`)
	f(`{"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"name":{"type":"string"},"sub":{"type":"array","items":{"$ref":"#/$defs/node"}}}}}}`,
		`{"name": "_", "sub": [{"name": "", "sub": []}]}`)

	bad := func(schema, want string) {
		t.Helper()
		if _, err := formOf(schema); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: error %v, want %q", schema, err, want)
		}
	}
	bad(`{"type":"string","pattern":"^a"}`, `"pattern" of the schema is not understood`)
	bad(`{"type":"integer","minimum":0.25,"maximum":0.75}`, "no number is between the bounds")
	bad(`{"type":"number","minimum":2,"maximum":1}`, "no number is between the bounds")
	bad(`{"type":"number","minimum":1,"exclusiveMaximum":1}`, "no number is between the bounds")
	bad(`{"type":"date"}`, `type "date" of the schema is not known`)
	bad(`{"$ref":"#/$defs/none"}`, `$ref "#/$defs/none" is not in the schema`)
	bad(`{"$ref":"#"}`, "deeper than 16 levels")
	bad(`{"type":"array","minItems":1e300}`, "longer than 65536 bytes")
	bad(`{"type":"array","minItems":9,"items":{"type":"array","minItems":9999}}`, "longer than 65536 bytes")
	bad(`{"type":"string","minLength":1e300}`, "too long")
	bad(`false`, "nothing follows the schema")
	bad(`7`, "nothing follows the schema")
	bad(`{`, "read the schema")
}

func FuzzForms(f *testing.F) {
	f.Add(`{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer","minimum":1e308}}}`)
	f.Add(`{"$ref":"#/a","a":{"anyOf":[{"$ref":"#"}]}}`)
	f.Add(`{"type":"array","items":{"type":"array","items":{"enum":["\u2028"]}},"minItems":-3}`)
	f.Fuzz(func(t *testing.T, schema string) {
		form, err := formOf(schema)
		if err != nil {
			return
		}
		text := strings.Join(form.head, "") + strings.Join(form.tail, "")
		if !json.Valid([]byte(text)) {
			t.Fatalf("%s: %s", schema, text)
		}
	})
}

// An answer that has a schema follows it, by any API, with thoughts before it and
// without, at its own length and at the one that was asked for; one that is cut is cut.
func TestStructuredAnswers(t *testing.T) { synctest.Test(t, testStructuredAnswers) }

func testStructuredAnswers(t *testing.T) {
	_, url := startFake(t, ServerConfig{Step: fast})
	const schema = `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["age","name"]}`
	ask := func(api dialect.API, req message.Request, schema string, stream bool) (answered, map[string]any) {
		t.Helper()
		req.Parts, req.ResponseSchema = []message.Part{{Text: "Who are you?"}}, schema
		a, _ := askIn(t, url, api, &req, &dialect.Options{Stream: stream, Usage: true})
		var v map[string]any
		if json.Unmarshal([]byte(a.Text), &v) != nil {
			v = nil
		}
		return a, v
	}
	for _, api := range dialect.APIs() {
		for _, stream := range []bool{true, false} {
			a, v := ask(api, message.Request{MaxTokens: 5000}, schema, stream)
			words, _ := v["name"].(string)
			if v["age"] != 1.0 || len(words) == 0 || len(v) != 2 || a.Finish != "stop" {
				t.Errorf("%s: %+v", api, a)
			}
			if n := CountTokens(a.Text); n != int(a.Usage.Completion) {
				t.Errorf("%s: %d tokens in %q, want %d", api, n, a.Text, a.Usage.Completion)
			}
			a, v = ask(api, message.Request{MaxTokens: 40, Exact: true}, schema, stream)
			if v["age"] != 1.0 || a.Usage.Completion != 40 || CountTokens(a.Text) != 40 {
				t.Errorf("%s: exactly 40 tokens: %+v", api, a)
			}
			if a, v = ask(api, message.Request{MaxTokens: 12}, schema, stream); v != nil || !strings.HasPrefix(a.Text, `{"age": 1, "name": "`) || a.Finish != "length" {
				t.Errorf("%s: cut: %+v", api, a)
			}
			if a, v = ask(api, message.Request{MaxTokens: 20, Exact: true}, `{"type":"object","properties":{"a":{"type":"null"}}}`, stream); gocmp.Diff(map[string]any{"a": nil}, v) != "" || a.Usage.Completion != 20 {
				t.Errorf("%s: without words: %+v", api, a)
			}
			if api == dialect.OpenAICompletions {
				continue
			}
			for _, effort := range []string{"low", "high"} {
				a, v = ask(api, message.Request{ReasoningEffort: effort}, `{"type":"object","properties":{"a":{"type":"null"}}}`, stream)
				if v == nil || a.Reasoning == "" || a.Finish != "stop" || CountTokens(a.Text)+int(a.Usage.Reasoning) != int(a.Usage.Completion) {
					t.Errorf("%s: with thoughts: %+v", api, a)
				}
				a, v = ask(api, message.Request{ReasoningEffort: effort, MaxTokens: 60, Exact: true}, schema, stream)
				if v["age"] != 1.0 || a.Reasoning == "" || a.Usage.Completion != 60 {
					t.Errorf("%s: with thoughts, exactly 60 tokens: %+v", api, a)
				}
			}
		}
	}
}

// What would change an answer and cannot be followed is refused by its name, and what
// says nothing is not.
func TestFieldsThatAreRefused(t *testing.T) { synctest.Test(t, testFieldsThatAreRefused) }

func testFieldsThatAreRefused(t *testing.T) {
	_, url := startFake(t, ServerConfig{Step: fast})
	prompts := map[string]string{"/v1/chat/completions": `"messages":[{"role":"user","content":"x"}]`, "/v1/completions": `"prompt":"x"`, "/v1/responses": `"input":"x"`}
	for _, tt := range []struct{ name, value, empty string }{
		{"logprobs", "true", "false"},
		{"top_logprobs", "5", "0"},
		{"prompt_logprobs", "1", "null"},
		{"echo", "true", "false"},
		{"suffix", `"end"`, `""`},
		{"best_of", "2", "1"},
		{"use_beam_search", "true", "false"},
		{"prompt_embeds", `"AAAA"`, "null"},
		{"guided_json", `{"type":"object"}`, "null"},
		{"guided_regex", `"a+"`, "null"},
		{"guided_choice", `["a"]`, "[]"},
		{"guided_grammar", `"a"`, "null"},
		{"structured_outputs", `{"json":{}}`, "{ }"},
		{"stop_token_ids", "[7]", "[]"},
		{"return_token_ids", "true", "false"},
		{"return_tokens_as_token_ids", "true", "false"},
		{"truncate_prompt_tokens", "5", "null"},
		{"continue_final_message", "true", "false"},
		{"kv_transfer_params", `{"a":1}`, "null"},
		{"priority", "3", "0"},
		{"modalities", `["text","audio"]`, `["text"]`},
		{"audio", `{"voice":"a"}`, "null"},
		{"include", `["message.output_text.logprobs"]`, "[]"},
		{"response_format", `{"type":"grammar"}`, `{"type":"text"}`},
	} {
		for path, prompt := range prompts {
			status, answer := post(t, url+path, fmt.Sprintf(`{%s,"max_tokens":1,"max_output_tokens":1,%q:%s}`, prompt, tt.name, tt.value))
			var e struct {
				Error struct{ Param, Type, Message string }
			}
			if json.Unmarshal([]byte(answer), &e) != nil || status != 400 || e.Error.Param != tt.name || e.Error.Type != "BadRequestError" || !strings.HasPrefix(e.Error.Message, tt.name+": ") {
				t.Errorf("%s with %s %s: status %d: %s", path, tt.name, tt.value, status, answer)
			}
			if status, answer = post(t, url+path, fmt.Sprintf(`{%s,"max_tokens":1,"max_output_tokens":1,%q:%s}`, prompt, tt.name, tt.empty)); status != 200 {
				t.Errorf("%s with %s %s: status %d: %s", path, tt.name, tt.empty, status, answer)
			}
		}
	}
	for _, body := range []string{`{"messages":[{"role":"user","content":[{"type":"video_url","video_url":{"url":"x"}}]}]}`, `{"messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_object"},"stop":"a"}`} {
		if status, answer := post(t, url+"/v1/chat/completions", body); status != 400 {
			t.Errorf("%s: status %d: %s", body, status, answer)
		}
	}
}

// Prompts with different salts share nothing.
func TestCacheSalt(t *testing.T) { synctest.Test(t, testCacheSalt) }

func testCacheSalt(t *testing.T) {
	_, url := startFake(t, ServerConfig{})
	cached := func(salt string) int {
		var u cachedUsage
		_, answer := post(t, url+"/v1/completions", fmt.Sprintf(`{"prompt":%q,"max_tokens":1,"cache_salt":%q}`, strings.Repeat(" word", 65), salt))
		if err := json.Unmarshal([]byte(answer), &u); err != nil || u.Usage.Details == nil {
			t.Fatalf("%v: %s", err, answer)
		}
		return u.Usage.Details.Cached
	}
	if a, b, c, d := cached("one"), cached("two"), cached("one"), cached(""); a != 0 || b != 0 || c != 64 || d != 0 {
		t.Errorf("%d, %d, %d and %d tokens cached, want 0, 0, 64 and 0", a, b, c, d)
	}
}
