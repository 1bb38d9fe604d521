package dialect

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/message"
	"plimsoll/internal/record"
)

// respond reads events of the Responses API, and returns how much text each brought.
func respond(t *testing.T, d *Decoder, events ...string) (lens []int, last Delta) {
	t.Helper()
	d.Reset(OpenAIResponses, true)
	for _, e := range events {
		name, data, _ := strings.Cut(e, "|")
		last = d.Event([]byte(name), []byte(data))
		n := 0
		for _, m := range last.Marks {
			n += int(m.TextBytes)
		}
		lens = append(lens, n)
	}
	return lens, last
}

// What real servers answer is read to its end: text as it comes, the account, the id.
func TestResponsesCaptures(t *testing.T) {
	f := func(server, text, id string, prompt, cached int32) {
		t.Helper()
		raw, err := os.ReadFile("testdata/responses/" + server + ".http")
		if err != nil {
			t.Fatal(err)
		}
		var d Decoder
		d.Reset(OpenAIResponses, true)
		marks, terminal := 0, 0
		for event := range bytes.SplitSeq(answers(t, raw)[0].body, []byte("\n\n")) {
			var name, data []byte
			for line := range bytes.SplitSeq(event, []byte("\n")) {
				if v, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
					name = v
				}
				if v, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
					data = v
				}
			}
			delta := d.Event(name, data)
			marks += len(delta.Marks)
			if delta.Terminal {
				terminal++
			}
		}
		r := d.Result()
		want := Usage{Prompt: prompt, Cached: cached, Completion: 4, Reasoning: r.Usage.Reasoning}
		if marks != 4 || terminal != 1 || !r.Done || !r.Finished || r.Bad || r.Fallbacks != 0 || r.Usage != want {
			t.Errorf("%s: %d marks, %d ends, %+v", server, marks, terminal, r)
		}
		if r.Text[0] != text || !strings.HasPrefix(r.ID, id) {
			t.Errorf("%s: text %q of %q", server, r.Text[0], r.ID)
		}
	}
	f("llama.cpp", " droondweam dreandpleand troonbroor joorannan", "resp_43Qf", 25, 1)
	f("ollama", " kairdrend leldrainzoond plairflodral ploonrail", "resp_883189", 25, 0)
}

// All that an event may say is told apart: reasoning, calls, refusals, ends, errors.
func TestResponsesEvents(t *testing.T) {
	var d Decoder
	lens, last := respond(t, &d,
		`response.created|{"type":"response.created","response":{"id":"resp_1"}}`,
		`|{"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"hm \"é\u00e9"}`,
		`|{"delta":"a\nb","type":"response.output_text.delta","logprobs":[],"x":{"type":"no"}}`,
		`|{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"c1","name":"f"}}`,
		`|{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"a\":"}`,
		`|{"type":"response.function_call_arguments.delta","output_index":1,"delta":"1}"}`,
		`|{"type":"response.function_call_arguments.done","output_index":1,"arguments":"{\"a\":1}"}`,
		`|{"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[{"type":"function_call"}],"usage":{"input_tokens":7,"output_tokens":9,"output_tokens_details":{"reasoning_tokens":3}}}}`)
	r := d.Result()
	if diff := cmp.Diff([]int{0, 8, 3, 1, 5, 2, 0, 0}, lens); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	want := &Result{
		Usage: Usage{7, record.Unknown, 9, 3}, Finish: "tool_calls", Finished: true, Done: true, ID: "resp_1",
		Text: []string{"a\nb"}, Reasoning: []string{`hm "éé`}, Calls: []Call{{ID: "c1", Name: "f", Arguments: `{"a":1}`}},
	}
	if diff := cmp.Diff(want, r); diff != "" || !last.Terminal {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if lens, _ := respond(t, &d, `response.output_text.delta|{"delta":"abc"}`); lens[0] != 3 {
		t.Errorf("of text whose type stands beside the data alone %d bytes came, want 3", lens[0])
	}

	f := func(want Result, events ...string) {
		t.Helper()
		_, last := respond(t, &d, events...)
		got := *d.Result()
		got.Usage, got.Text = Usage{}, nil
		if diff := cmp.Diff(want, got); diff != "" || last.Err != (want.ErrorType != "") {
			t.Errorf("%v: error %v (-want +got):\n%s", events, last.Err, diff)
		}
	}
	f(Result{Finish: "length", Finished: true, Done: true}, `|{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`)
	f(Result{Finish: "content_filter", Finished: true, Done: true}, `|{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}`)
	f(Result{ErrorMessage: "no room", ErrorType: "server_error"}, `|{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"no room"}}}`)
	f(Result{ErrorMessage: "slow down", ErrorType: "rate_limit"}, `error|{"type":"error","code":"rate_limit","message":"slow down"}`)
	f(Result{ErrorMessage: "broken", ErrorType: "error"}, `error|{"message":"broken"}`)
	f(Result{ErrorMessage: "slow down", ErrorType: "rate_limit"}, `error|{"type":"error","error":{"type":"rate_limit","message":"slow down"}}`)
	f(Result{ErrorMessage: "slow down", ErrorType: "error"}, `|{"type":"error","code":429,"message":"slow down"}`)
	f(Result{ErrorMessage: "no room", ErrorType: "server_error"}, `|{"error":{"code":500,"message":"no room","type":"server_error"}}`)
	f(Result{ID: "resp_1", Finish: "stop", Finished: true, Done: true}, // types that stand beside the data alone
		`response.created|{"response":{"id":"resp_1"}}`, `response.output_text.delta|{"delta":"a"}`, `response.completed|{"response":{"status":"completed"}}`)
	f(Result{Bad: true}, `|{"type":"response.output_text.delta","delta":`)
	f(Result{}, `response.queued|{"response":{}}`, `|{"type":"response.output_text.delta"}`)
	f(Result{Done: true}, `|[DONE]`)
}

func TestResponsesBody(t *testing.T) {
	var d Decoder
	d.Reset(OpenAIResponses, true)
	delta := d.Body([]byte(`{"id":"resp_2","object":"response","status":"completed","output":[{"type":"reasoning","summary":[{"text":"hm"}]},
		{"type":"message","content":[{"type":"output_text","text":"yes"},{"type":"refusal","refusal":"no"}]}],"usage":{"input_tokens":5,"output_tokens":6}}`))
	r := d.Result()
	if len(delta.Marks) != 1 || delta.Marks[0].TextBytes != 7 || r.ID != "resp_2" || r.Text[0] != "yes" || r.Refusal[0] != "no" || r.Reasoning[0] != "hm" || r.Usage.Completion != 6 || r.Finish != "stop" {
		t.Errorf("the body says %+v, %+v", delta, r)
	}
	d.Reset(OpenAIResponses, true)
	d.Body([]byte(`{"error":{"message":"bad input","type":"invalid_request_error"}}`))
	if r := d.Result(); r.ErrorMessage != "bad input" || r.Bad {
		t.Errorf("an error object: %+v", r)
	}
	d.Reset(OpenAIResponses, true)
	if d.Body([]byte(`{"object":"list"}`)); !d.Result().Bad {
		t.Error("a body of something else passes")
	}
}

// A request has the names of its API, and one that refers to an earlier answer brings
// only what is new (case 146).
func TestAppendResponse(t *testing.T) {
	req := message.Request{
		Parts: []message.Part{
			{Role: message.System, Text: "s"},
			{Text: "q"},
			{Media: &message.Media{}},
			{Role: message.Assistant, Calls: []message.Call{{ID: "c1", Name: "f", Arguments: "{}"}}},
			{Role: message.Tool, CallID: "c1", Text: "r"},
		},
		MaxTokens: 9, Exact: true, Tools: []message.Function{{Name: "f", Parameters: "{}"}}, ReasoningEffort: "low", ResponseSchema: `{"a":1}`,
	}
	got := body(t, OpenAIResponses, &req, filer("AA=="), &Options{Model: "m", Stream: true, Usage: true})
	want := `{"model":"m","input":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"input_text","text":"q"},{"type":"input_image","image_url":"data:image/jpeg;base64,AA=="}]},` +
		`{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"r"}],"store":false,"max_output_tokens":9,` +
		`"reasoning":{"effort":"low"},"text":{"format":{"type":"json_schema","name":"answer","schema":{"a":1}}},"tools":[{"type":"function","name":"f","parameters":{}}],"stream":true,"ignore_eos":true,"min_tokens":9}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
	got = body(t, OpenAIResponses, &message.Request{Parts: req.Parts[:2], Previous: "resp_1", Known: 1}, nil, &Options{Model: "m"})
	if want := `{"model":"m","previous_response_id":"resp_1","input":[{"role":"user","content":"q"}],"store":true}`; got != want {
		t.Errorf("what refers to an answer is %s, want %s", got, want)
	}
}

// Text costs no allocation.
func TestResponsesTextDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	var d Decoder
	d.Reset(OpenAIResponses, false)
	name := []byte("response.output_text.delta")
	data := []byte(`{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"sequence_number":17,"delta":" wörd"}`)
	if n := testing.AllocsPerRun(200, func() {
		if delta := d.Event(name, data); len(delta.Marks) != 1 {
			t.Fatal("no text")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// No bytes make the decoder fail in another way than to say so.
func FuzzResponses(f *testing.F) {
	f.Add("", `{"type":"response.output_text.delta","delta":"a\u00e9"}`)
	f.Add("error", `{"code":null}`)
	f.Add("response.completed", `{"response":{"usage":{"input_tokens":1}}}`)
	f.Fuzz(func(t *testing.T, name, data string) {
		var d Decoder
		d.Reset(OpenAIResponses, true)
		delta := d.Event([]byte(name), []byte(data))
		n := 0
		for _, m := range delta.Marks {
			n += int(m.TextBytes)
		}
		r := d.Result()
		for _, texts := range [][]string{r.Text, r.Reasoning, r.Refusal} {
			for _, s := range texts {
				n -= len(s)
			}
		}
		for _, c := range r.Calls {
			n -= len(c.Name) + len(c.Arguments)
		}
		if n != 0 {
			t.Errorf("%q: marks and text differ by %d bytes", data, n)
		}
		d.Reset(OpenAIResponses, true)
		d.Body([]byte(data))
	})
}
