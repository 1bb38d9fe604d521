package dialect

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/message"
	"plimsoll/internal/record"
)

type renderer map[string]string

func (r renderer) AppendText(dst []byte, p *message.Part) []byte {
	return append(dst, r[p.Generator]...)
}

func TestAppendRequest(t *testing.T) {
	r := renderer{"words": "lorem ipsum", "odd": "a\"b\xffc\n"}
	half := 0.5
	parts := []message.Part{
		{Role: message.System, Text: "Be terse."},
		{Role: message.User, Generator: "words", Tokens: 2},
		{Role: message.User, Generator: "words", Tokens: 2},
		{Role: message.User, Generator: "odd", Tokens: 2},
		{Role: message.User, Text: "end"},
		{Role: message.Assistant, Text: "\u2028ok"},
		{Role: message.Tool, Text: ""},
	}
	tests := []struct {
		name string
		api  API
		req  message.Request
		o    Options
		want string
	}{
		{
			name: "chat", api: OpenAIChat,
			req: message.Request{Parts: parts, MaxTokens: 16},
			o:   Options{Model: "m\"1", Stream: true, Usage: true, Temperature: &half},
			want: `{"model":"m\"1","messages":[{"role":"system","content":"Be terse."},{"role":"user","content":"lorem ipsum lorem ipsum a\"b` + "\ufffd" + `c\nend"},` +
				`{"role":"assistant","content":"` + "\u2028" + `ok"},{"role":"tool","content":""}],"max_tokens":16,"temperature":0.5,"stream":true,"stream_options":{"include_usage":true}}`,
		},
		{
			name: "completions, exact", api: OpenAICompletions,
			req:  message.Request{Parts: parts[:2], MaxTokens: 8, Exact: true, Choices: 2},
			o:    Options{Model: "m", Stream: true, RunningUsage: true},
			want: `{"model":"m","prompt":"Be terse. lorem ipsum","max_tokens":8,"n":2,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"ignore_eos":true,"min_tokens":8}`,
		},
		{
			name: "extra fields win, nil leaves a field out", api: OpenAICompletions,
			req: message.Request{Parts: parts[:1], MaxTokens: 8, Choices: 1},
			o: Options{Model: "m", Usage: true, IgnoreEOS: true, Extra: map[string]any{
				"max_completion_tokens": 9, "min_tokens": nil, "model": "other", "a<b": []any{1, "x"},
			}},
			want: `{"prompt":"Be terse.","ignore_eos":true,"a<b":[1,"x"],"max_completion_tokens":9,"model":"other"}`,
		},
		{
			name: "nothing", api: OpenAIChat,
			want: `{"model":"","messages":[]}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := AppendRequest([]byte("before"), tt.api, &tt.req, r, &tt.o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff("before"+tt.want, string(got)); diff != "" {
				t.Errorf("want -, got +\n%s", diff)
			}
			if !json.Valid(got[6:]) {
				t.Errorf("not valid JSON: %s", got)
			}
		})
	}
}

func TestAppendRequestErrors(t *testing.T) {
	f := func(api API, req message.Request, o Options, want string) {
		t.Helper()
		got, err := AppendRequest([]byte("x"), api, &req, nil, &o)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
		if string(got) != "x" {
			t.Errorf("dst is %q after an error", got)
		}
	}
	f("openai.chatt", message.Request{}, Options{}, `"openai.chatt" is not known`)
	f(OpenAIChat, message.Request{Parts: []message.Part{{Generator: "words"}}}, Options{}, "part 0 has no text")
	f(OpenAIChat, message.Request{}, Options{Extra: map[string]any{"bad": func() {}}}, `extra field "bad"`)
}

// What the server side writes, the client side must read, in both forms.
func TestWriterRoundTrip(t *testing.T) {
	split := func(stream []byte) []string {
		var out []string
		for e := range strings.SplitSeq(strings.TrimSuffix(string(stream), "\n\n"), "\n\n") {
			out = append(out, strings.TrimPrefix(e, "data: "))
		}
		return out
	}
	u := unknown
	for _, api := range []API{OpenAIChat, OpenAICompletions} {
		w := NewWriter(api, "id\"1", "m", 7)
		b := w.AppendRole(nil, 0, &WriterUsage{Prompt: 9, Cached: -1, Reasoning: -1})
		roles := len(b)
		b = w.AppendText(b, 0, "a\n", "", &WriterUsage{Prompt: 9, Completion: 1, Cached: 4, Reasoning: 0})
		b = w.AppendText(b, 0, "é", "length", nil)
		b = w.AppendUsage(b, &WriterUsage{Prompt: 9, Completion: 2, Cached: -1, Reasoning: -1})
		b = w.AppendDone(b)
		var d Decoder
		d.Reset(api, true)
		got := hear(&d, split(b)...)
		want := heard{
			Marks: []Mark{{0, record.Content, 2}, {0, record.Content, 2}}, Cumulative: []int32{u, 1, u, 2, u},
			Text: []string{"a\né"}, Usage: Usage{9, 4, 2, 0}, Finish: "length", Finished: true, Done: true,
		}
		if api == OpenAICompletions {
			if roles != 0 {
				t.Errorf("completions have a role chunk: %s", b[:roles])
			}
			want.Cumulative = want.Cumulative[1:]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s stream: want -, got +\n%s", api, diff)
		}

		body := w.AppendBody(nil, []Answer{{Text: "a", Finish: "stop"}, {Text: "b", Finish: "length"}}, &WriterUsage{Prompt: 1, Completion: 2, Cached: -1, Reasoning: -1})
		d.Reset(api, true)
		var h heard
		h.Marks = append(h.Marks, d.Body(body).Marks...)
		h.fill(&d)
		want = heard{
			Marks: []Mark{{0, record.Content, 1}, {1, record.Content, 1}}, Text: []string{"a", "b"},
			Usage: Usage{1, u, 2, u}, Finish: "stop", Finished: true,
		}
		if diff := cmp.Diff(want, h); diff != "" {
			t.Errorf("%s body: want -, got +\n%s", api, diff)
		}
	}
	w := NewWriter(OpenAIChat, "i", "m", 7)
	b := w.AppendReasoning(nil, 0, "hm", nil)
	b = w.AppendCall(b, 0, 0, &Call{ID: "c", Name: "f"}, nil)
	b = w.AppendCall(b, 0, 0, &Call{Arguments: "{}"}, nil)
	b = w.AppendFinish(b, 0, "tool_calls", nil)
	b = append(AppendError(append(b, "data: "...), "boom", "server_error", "", 500), "\n\n"...)
	var d Decoder
	d.Reset(OpenAIChat, true)
	got := hear(&d, split(b)...)
	want := heard{
		Marks: []Mark{{0, record.Reasoning, 2}, {0, record.ToolCall, 1}, {0, record.ToolCall, 2}}, Cumulative: []int32{u, u, u, u, u},
		Reason: []string{"hm"}, Calls: []Call{{"c", "f", "{}"}}, Usage: noUsage, Finish: "tool_calls", Finished: true,
		Err: true, Message: "boom", Type: "server_error",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
	body := w.AppendBody(nil, []Answer{{Reasoning: "hm", Finish: "tool_calls", Calls: []Call{{"c", "f", "{}"}}}}, nil)
	d.Reset(OpenAIChat, true)
	marks := d.Body(body).Marks
	if diff := cmp.Diff([]Mark{{0, record.Reasoning | record.ToolCall, 5}}, marks); diff != "" {
		t.Errorf("body: want -, got +\n%s", diff)
	}
	var list struct{ Data []struct{ ID string } }
	if err := json.Unmarshal(AppendModels(nil, []string{"a", "b\""}, 1), &list); err != nil || len(list.Data) != 2 || list.Data[1].ID != `b"` {
		t.Errorf("model list %v, %v", list, err)
	}
}

func TestParseRequest(t *testing.T) {
	half := 0.5
	o := Options{Model: "m", Stream: true, RunningUsage: true, Temperature: &half, Extra: map[string]any{"stop": "x", "seed": 3, "tools": []any{1}, "tool_choice": "none"}}
	req := message.Request{Parts: []message.Part{{Role: message.System, Text: "s"}, {Text: "u"}}, MaxTokens: 5, Exact: true, Choices: 2}
	seed := int64(3)
	want := &ServerRequest{
		Model: "m", Stream: true, IncludeUsage: true, ContinuousUsage: true, MaxTokens: 5, MinTokens: 5, N: 2, IgnoreEOS: true,
		Stop: []string{"x"}, Temperature: &half, Seed: &seed, Tools: 1, ToolChoice: "none",
		Messages: []ServerMessage{{Role: "system", Text: "s"}, {Role: "user", Text: "u"}},
	}
	for _, api := range []API{OpenAIChat, OpenAICompletions} {
		body, err := AppendRequest(nil, api, &req, nil, &o)
		if err != nil {
			t.Fatal(err)
		}
		if api == OpenAICompletions {
			want.Messages, want.Prompts, want.PromptTokens = nil, []string{"s u"}, []int{0}
		}
		got, err := ParseRequest(api, body)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: want -, got +\n%s", api, diff)
		}
	}

	prompts := func(body string, texts []string, tokens []int) {
		t.Helper()
		r, err := ParseRequest(OpenAICompletions, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(texts, r.Prompts); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(tokens, r.PromptTokens); diff != "" {
			t.Error(diff)
		}
	}
	prompts(`{"prompt":["a","b"]}`, []string{"a", "b"}, []int{0, 0})
	prompts(`{"prompt":[5,6,7]}`, []string{""}, []int{3})
	prompts(`{"prompt":[[5,6],[7]]}`, []string{"", ""}, []int{2, 1})

	r, err := ParseRequest(OpenAIChat, []byte(`{"messages":[{"role":"user","content":"a"}],"reasoning_effort":"low","chat_template_kwargs":{"enable_thinking":false,"x":1},
		"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}},7],"tool_choice":{"type":"function","function":{"name":"g"}},"stop":["a","b"],"include_stop_str_in_output":true}`))
	if err != nil {
		t.Fatal(err)
	}
	no := false
	if diff := cmp.Diff(&ServerRequest{
		N: 1, Messages: []ServerMessage{{Role: "user", Text: "a"}}, Tools: 3, ToolNames: []string{"f", "g"}, ToolName: "g",
		Effort: "low", Thinking: &no, Stop: []string{"a", "b"}, KeepStop: true,
	}, r); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}

	bad := func(api API, body, field string) {
		t.Helper()
		_, err := ParseRequest(api, []byte(body))
		e, ok := errors.AsType[*RequestError](err)
		if !ok || e.Field != field {
			t.Errorf("%s: error %v, want one of field %q", body, err, field)
		}
	}
	bad(OpenAIChat, `{"messages":[`, "")
	bad(OpenAIChat, `{}`, "messages")
	bad(OpenAIChat, `{"messages":[{"role":"user","content":7}]}`, "messages[0].content")
	bad(OpenAIChat, `{"messages":[{"role":"user","content":"a"}],"max_tokens":0}`, "max_tokens")
	bad(OpenAIChat, `{"messages":[{"role":"user","content":"a"}],"max_completion_tokens":-1}`, "max_completion_tokens")
	bad(OpenAIChat, `{"messages":[{"role":"user","content":"a"}],"n":0}`, "n")
	bad(OpenAIChat, `{"messages":[{"role":"user","content":"a"}],"max_tokens":3,"min_tokens":4}`, "min_tokens")
	bad(OpenAIChat, `{"messages":[{"role":"user","content":"a"}],"stop":4}`, "stop")
	bad(OpenAIChat, `{"messages":[{"role":"user","content":"a"}],"tool_choice":4}`, "tool_choice")
	bad(OpenAIChat, `{"messages":[{"role":"user","content":"a"}],"reasoning_effort":"lots"}`, "reasoning_effort")
	bad(OpenAIChat, `{"messages":[{"role":"user","content":"a"}],"reasoning_effort":"lo"}`, "reasoning_effort")
	bad(OpenAICompletions, `{"prompt":null}`, "prompt")
	bad(OpenAICompletions, `{"prompt":[]}`, "prompt")
}

func TestEffortAndSchemaAreSent(t *testing.T) {
	req := &message.Request{
		Parts:           []message.Part{{Text: "Hello"}},
		ReasoningEffort: "low",
		ResponseSchema:  `{"type":"object"}`,
	}
	body, err := AppendRequest(nil, OpenAIChat, req, nil, &Options{Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"model":"m","messages":[{"role":"user","content":"Hello"}],"reasoning_effort":"low",` +
		`"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object"}}}}`
	if string(body) != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
	req.ResponseSchema = "{"
	if _, err := AppendRequest(nil, OpenAIChat, req, nil, &Options{Model: "m"}); err == nil {
		t.Error("a schema that is not JSON was sent")
	}
}
