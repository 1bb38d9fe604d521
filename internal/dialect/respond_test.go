package dialect

import (
	"encoding/json"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/message"
)

// hearResponse reads a stream of the Responses API as the client does, and returns the
// names of its events. Events are numbered without a gap and name themselves.
func hearResponse(t *testing.T, d *Decoder, stream []byte) (names []string, last Delta) {
	t.Helper()
	d.Reset(OpenAIResponses, true)
	for e := range strings.SplitSeq(strings.TrimSuffix(string(stream), "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(strings.TrimPrefix(e, "event: "), "\ndata: ")
		var w struct {
			Type string
			Seq  int `json:"sequence_number"`
		}
		if err := json.Unmarshal([]byte(data), &w); !ok || err != nil || w.Type != name || w.Seq != len(names) {
			t.Fatalf("event %d: %q: %v", len(names), e, err)
		}
		names = append(names, strings.TrimPrefix(name, "response."))
		last = d.Event([]byte(name), []byte(data))
	}
	return names, last
}

// What the server side writes, the client side reads: reasoning, text and calls, as a
// stream and whole.
func TestResponseRoundTrip(t *testing.T) {
	u := &WriterUsage{Prompt: 9, Completion: 5, Cached: 4, Reasoning: 2}
	var d Decoder
	f := func(write func(w *Writer, b []byte) []byte, whole Answer, names []string, want Result) {
		t.Helper()
		w := NewResponseWriter("resp_7", "m", 3, `"store":true`)
		b := w.AppendRole(w.AppendCreated(nil), 0, nil)
		b = w.AppendDone(w.AppendUsage(write(w, b), u))
		got, last := hearResponse(t, &d, b)
		if diff := cmp.Diff(append([]string{"created", "in_progress"}, names...), got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		want.ID, want.Done, want.Finished, want.Usage = "resp_7", true, true, Usage{9, 4, 5, 2}
		if diff := cmp.Diff(&want, d.Result()); diff != "" || !last.Terminal {
			t.Errorf("stream (-want +got):\n%s", diff)
		}
		d.Reset(OpenAIResponses, true)
		body := NewResponseWriter("resp_7", "m", 3, `"store":true`).AppendBody(nil, []Answer{whole}, u)
		d.Body(body)
		if diff := cmp.Diff(&want, d.Result()); diff != "" {
			t.Errorf("body %s (-want +got):\n%s", body, diff)
		}
		// The last event has what the body has.
		var end struct{ Response json.RawMessage }
		if err := json.Unmarshal(b[strings.LastIndex(string(b), "data: ")+6:], &end); err != nil || string(end.Response) != string(body) {
			t.Errorf("the stream ends with %s, the body is %s: %v", end.Response, body, err)
		}
	}
	f(func(w *Writer, b []byte) []byte {
		b = w.AppendReasoning(b, 0, "hm", nil)
		b = w.AppendReasoning(b, 0, " \"é", nil)
		b = w.AppendText(b, 0, "a\n", "", nil)
		return w.AppendText(b, 0, "b", "stop", nil)
	}, Answer{Reasoning: "hm \"é", Text: "a\nb", Finish: "stop"}, []string{
		"output_item.added", "reasoning_part.added", "reasoning_text.delta", "reasoning_text.delta", "reasoning_text.done", "reasoning_part.done", "output_item.done",
		"output_item.added", "content_part.added", "output_text.delta", "output_text.delta", "output_text.done", "content_part.done", "output_item.done", "completed",
	}, Result{Finish: "stop", Text: []string{"a\nb"}, Reasoning: []string{"hm \"é"}})
	f(func(w *Writer, b []byte) []byte {
		b = w.AppendCall(b, 0, 0, &Call{ID: "c", Name: "f"}, nil)
		b = w.AppendCall(b, 0, 0, &Call{Arguments: `{"a":`}, nil)
		b = w.AppendCall(b, 0, 0, &Call{Arguments: `1}`}, nil)
		return w.AppendFinish(b, 0, "tool_calls", nil)
	}, Answer{Calls: []Call{{"c", "f", `{"a":1}`}}, Finish: "tool_calls"}, []string{
		"output_item.added", "function_call_arguments.delta", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done", "completed",
	}, Result{Finish: "tool_calls", Calls: []Call{{"c", "f", `{"a":1}`}}})
	f(func(w *Writer, b []byte) []byte {
		return w.AppendText(b, 0, "cut", "length", nil)
	}, Answer{Text: "cut", Finish: "length"}, []string{
		"output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done", "output_item.done", "incomplete",
	}, Result{Finish: "length", Text: []string{"cut"}})
	f(func(w *Writer, b []byte) []byte { // all of it was thought
		b = w.AppendReasoning(b, 0, "hm", nil)
		return w.AppendFinish(b, 0, "length", nil)
	}, Answer{Reasoning: "hm", Finish: "length"}, []string{
		"output_item.added", "reasoning_part.added", "reasoning_text.delta", "reasoning_text.done", "reasoning_part.done", "output_item.done", "incomplete",
	}, Result{Finish: "length", Reasoning: []string{"hm"}})
}

// The server side reads what the client side sends, and what else the API has.
func TestParseResponse(t *testing.T) {
	half := 0.5
	req := message.Request{
		Parts: []message.Part{
			{Role: message.System, Text: "s"},
			{Text: "q"},
			{Role: message.Assistant, Text: "let me see"},
			{Role: message.Assistant, Calls: []message.Call{{ID: "c1", Name: "f", Arguments: "{}"}, {ID: "c2", Name: "g", Arguments: "[]"}}},
			{Role: message.Tool, CallID: "c1", Text: "r"},
		},
		MaxTokens: 9, Exact: true, Tools: []message.Function{{Name: "f", Parameters: "{}"}}, ToolChoice: "required", ReasoningEffort: "low", Again: true,
	}
	got, err := ParseRequest(OpenAIResponses, []byte(body(t, OpenAIResponses, &req, nil, &Options{Model: "m", Stream: true, Temperature: &half})))
	if err != nil {
		t.Fatal(err)
	}
	want := &ServerRequest{
		Model: "m", Stream: true, MaxTokens: 9, MinTokens: 9, N: 1, IgnoreEOS: true, Temperature: &half, Tools: 1, ToolNames: []string{"f"}, ToolChoice: "required", Effort: "low", Store: true,
		Messages: []ServerMessage{{Role: "system", Text: "s"}, {Role: "user", Text: "q"}, {Role: "assistant", Text: "let me see f{} g[]"}, {Role: "tool", Text: "r"}},
		Echo: `"instructions":null,"max_output_tokens":9,"metadata":{},"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":"low"},"store":true,"temperature":0.5,` +
			`"text":{"format":{"type":"text"}},"tool_choice":"required","tools":[{"type":"function","name":"f","parameters":{}}],"top_p":1,"truncation":"disabled"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
	got, err = ParseRequest(OpenAIResponses, []byte(`{"input":"hi","instructions":"be brief","previous_response_id":"resp_1","store":false,"tools":[{"type":"function","name":"g"}],"tool_choice":{"type":"function","name":"g"}}`))
	if err != nil {
		t.Fatal(err)
	}
	got.Echo = ""
	if diff := cmp.Diff(&ServerRequest{N: 1, Messages: []ServerMessage{{Role: "user", Text: "hi"}}, Instructions: "be brief", Previous: "resp_1", Tools: 1, ToolNames: []string{"g"}, ToolName: "g"}, got); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
	got, err = ParseRequest(OpenAIResponses, []byte(`{"input":[{"type":"reasoning","summary":[]},{"role":"assistant","type":"message","content":[{"type":"output_text","text":"a"},{"type":"refusal","refusal":"b"}]},
		{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"r"}]}]}`))
	if err != nil || cmp.Diff([]ServerMessage{{Role: "assistant", Text: "ab"}, {Role: "tool", Text: "r"}}, got.Messages) != "" {
		t.Errorf("items are read as %+v, %v", got, err)
	}

	bad := func(body, field string) {
		t.Helper()
		_, err := ParseRequest(OpenAIResponses, []byte(body))
		if e, ok := errors.AsType[*RequestError](err); !ok || e.Field != field {
			t.Errorf("%s: error %v, want one of field %q", body, err, field)
		}
	}
	bad(`{`, "")
	bad(`{}`, "input")
	bad(`{"input":[]}`, "input")
	bad(`{"input":7}`, "input")
	bad(`{"input":[{"type":"reasoning"}]}`, "input")
	bad(`{"input":[{"role":"boss","content":"a"}]}`, "input[0].role")
	bad(`{"input":[{"role":"user","content":7}]}`, "input[0].content")
	bad(`{"input":[{"role":"user","content":[{"type":"input_file","file_id":"f"}]}]}`, "input[0].content")
	bad(`{"input":[{"role":"user","content":[{"type":"input_image","image_url":"http://10.0.0.1/x.png"}]}]}`, "input[0].content")
	bad(`{"input":[{"type":"item_reference","id":"x"}]}`, "input[0].type")
	bad(`{"input":[{"type":"function_call","name":"f"}]}`, "input[0].type")
	bad(`{"input":[{"type":"function_call_output","output":"x"}]}`, "input[0].call_id")
	bad(`{"input":"a","max_output_tokens":0}`, "max_output_tokens")
	bad(`{"input":"a","n":2}`, "n")
	bad(`{"input":"a","background":true}`, "background")
	bad(`{"input":"a","reasoning":{"effort":"lots"}}`, "reasoning.effort")
	bad(`{"input":"a","conversation":"c"}`, "conversation")
	bad(`{"input":"a","prompt":{"id":"p"}}`, "prompt")
	bad(`{"input":"a","reasoning":"high"}`, "reasoning")
	bad(`{"input":"a","tools":[{"type":"web_search"}]}`, "tools")
	bad(`{"input":"a","tool_choice":{"type":"web_search"}}`, "tool_choice")
}

// A token of a response costs the server no more than its text.
func TestResponseTextDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	w := NewResponseWriter("resp_1", "m", 7, `"store":true`)
	b := w.AppendText(make([]byte, 0, 4096), 0, "one", "", nil)
	w.r.text = make([]byte, 0, 1<<16)
	if n := testing.AllocsPerRun(200, func() { b = w.AppendText(b[:0], 0, " word", "", nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// An error about a field names it as the body does.
func TestErrorNamesFieldOfBody(t *testing.T) {
	f := func(body, want string) {
		t.Helper()
		_, err := ParseRequest(OpenAIResponses, []byte(body))
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", body, err, want)
		}
	}
	f(`{"input":"a","previous_response_id":7}`, "read request body: previous_response_id: want a string, got number")
	f(`{"input":"a","store":"yes"}`, "read request body: store: want true or false, got string")
	f(`{"input":"a","modalities":"text"}`, "read request body: modalities: want a list, got string")
	f(`{"input":"a","stream_options":{"include_usage":1}}`, "read request body: stream_options.include_usage: want true or false, got number")
}

// What a message with many calls takes grows as they do: each joined to the text so far
// on its own, ten times as many would take a hundred times the memory.
func TestManyCallsAreJoinedOnce(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	f := func(name string, api API, head, call, tail string) {
		t.Helper()
		taken := func(n int) uint64 {
			body := []byte(head + strings.Repeat(call+",", n) + call + tail)
			least := uint64(math.MaxUint64) // the first fills buffers
			for range 5 {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				if _, err := ParseRequest(api, body); err != nil {
					t.Fatal(err)
				}
				runtime.ReadMemStats(&after)
				least = min(least, after.TotalAlloc-before.TotalAlloc)
			}
			return least
		}
		if few, many := taken(400), taken(4000); few == 0 || many > 20*few {
			t.Errorf("%s: 400 calls take %d bytes, 4000 take %d", name, few, many)
		}
	}
	f("a response", OpenAIResponses, `{"input":[`, `{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`, `]}`)
	f("a chat", OpenAIChat, `{"messages":[{"role":"assistant","tool_calls":[`, `{"function":{"name":"f","arguments":"{}"}}`, `]}]}`)
}
