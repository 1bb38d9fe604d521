package dialect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/record"
)

// heard is all that a decoder says of a stream, for comparison.
type heard struct {
	Marks              []Mark // of all events
	Cumulative         []int32
	Text, Reason, Deny []string
	Calls              []Call
	Usage              Usage
	Finish             string
	Finished           bool
	Done, Err, Bad     bool
	Message, Type      string
	Fallbacks          uint32
}

const unknown = record.Unknown

var noUsage = Usage{unknown, unknown, unknown, unknown}

// chatChunk is a chunk with one choice 0 as most servers send it.
func chatChunk(delta, finish string) string {
	if finish != "null" {
		finish = `"` + finish + `"`
	}
	return `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}`
}

func hear(d *Decoder, events ...string) heard {
	var h heard
	for _, e := range events {
		name := ""
		if rest, ok := strings.CutPrefix(e, "event: "); ok {
			name, e, _ = strings.Cut(rest, "\n")
		}
		delta := d.Event([]byte(name), []byte(e))
		h.Marks = append(h.Marks, delta.Marks...)
		h.Cumulative = append(h.Cumulative, delta.Cumulative)
		h.Err = h.Err || delta.Err
	}
	h.fill(d)
	return h
}

func (h *heard) fill(d *Decoder) {
	r := d.Result()
	h.Text, h.Reason, h.Deny, h.Calls = r.Text, r.Reasoning, r.Refusal, r.Calls
	h.Usage, h.Finish, h.Finished, h.Done, h.Bad = r.Usage, r.Finish, r.Finished, r.Done, r.Bad
	h.Message, h.Type, h.Fallbacks = r.ErrorMessage, r.ErrorType, r.Fallbacks
}

func TestEvents(t *testing.T) {
	content := func(n uint32) Mark { return Mark{0, record.Content, n} }
	u := unknown
	tests := []struct {
		name   string
		api    API
		events []string
		want   heard
	}{
		{
			name: "plain chat with usage at the end",
			events: []string{
				chatChunk(`{"role":"assistant","content":""}`, "null"), chatChunk(`{"content":"a"}`, "null"),
				chatChunk(`{"content":"b"}`, "null"), chatChunk(`{}`, "stop"),
				`{"id":"c1","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":2,"total_tokens":13}}`, "[DONE]",
			},
			want: heard{
				Marks: []Mark{content(1), content(1)}, Cumulative: []int32{u, u, u, u, 2, u}, Text: []string{"ab"},
				Usage: Usage{11, u, 2, u}, Finish: "stop", Finished: true, Done: true,
			},
		},
		{
			name:   "choices null, usage chunk without choices, error null",
			events: []string{`{"choices":null,"error":null}`, chatChunk(`{"content":"a"}`, "stop"), `{"usage":{"prompt_tokens":1,"completion_tokens":2}}`},
			want: heard{
				Marks: []Mark{content(1)}, Cumulative: []int32{u, u, 2}, Text: []string{"a"}, Usage: Usage{1, u, 2, u},
				Finish: "stop", Finished: true,
			},
		},
		{
			name:   "empty, null and missing contents are structural",
			events: []string{chatChunk(`{"content":""}`, "null"), chatChunk(`{"content":null}`, "null"), chatChunk(`{}`, "null"), chatChunk(`null`, "null"), "null", "", "{}"},
			want:   heard{Cumulative: []int32{u, u, u, u, u, u, u}, Text: []string{""}, Usage: noUsage},
		},
		{
			name: "the spellings of reasoning, both at once count once",
			events: []string{
				chatChunk(`{"reasoning":"x","reasoning_content":"x"}`, "null"), chatChunk(`{"reasoning_content":"y","reasoning":"y"}`, "null"),
				chatChunk(`{"reasoning":"z"}`, "null"), chatChunk(`{"thinking":"w","reasoning":""}`, "null"),
				chatChunk(`{"reasoning":"not this","reasoning_content":"v"}`, "null"), chatChunk(`{"reasoning_content":"u","reasoning":"not this"}`, "null"),
			},
			want: heard{
				Marks:      []Mark{{0, record.Reasoning, 1}, {0, record.Reasoning, 1}, {0, record.Reasoning, 1}, {0, record.Reasoning, 1}, {0, record.Reasoning, 1}, {0, record.Reasoning, 1}},
				Cumulative: []int32{u, u, u, u, u, u}, Reason: []string{"xyzwvu"}, Usage: noUsage,
			},
		},
		{
			name:   "reasoning and content in one event are one mark",
			events: []string{chatChunk(`{"reasoning":"end","content":"Hi"}`, "null")},
			want: heard{
				Marks: []Mark{{0, record.Reasoning | record.Content, 5}}, Cumulative: []int32{u},
				Text: []string{"Hi"}, Reason: []string{"end"}, Usage: noUsage,
			},
		},
		{
			name: "tool calls interleaved by index, an id alone is no output",
			events: []string{
				chatChunk(`{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"search","arguments":""}}]}`, "null"),
				chatChunk(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"q\""}}]}`, "null"),
				chatChunk(`{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"open","arguments":""}}]}`, "null"),
				chatChunk(`{"tool_calls":[{"index":0,"function":{"arguments":":\"x"}},{"index":1,"function":{"arguments":"{}"}}]}`, "null"),
				chatChunk(`{"tool_calls":[{"index":0,"function":{"arguments":"\"}"}}]}`, "null"),
				chatChunk(`{"tool_calls":[{"index":2,"id":"call_c","type":"function"}]}`, "tool_calls"),
			},
			want: heard{
				Marks:      []Mark{{0, record.ToolCall, 6}, {0, record.ToolCall, 4}, {0, record.ToolCall, 4}, {0, record.ToolCall, 5}, {0, record.ToolCall, 2}},
				Cumulative: []int32{u, u, u, u, u, u}, Usage: noUsage, Finish: "tool_calls", Finished: true,
				Calls: []Call{{"call_a", "search", `{"q":"x"}`}, {"call_b", "open", "{}"}, {"call_c", "", ""}},
			},
		},
		{
			name: "whole tool calls without an index",
			events: []string{
				chatChunk(`{"tool_calls":[{"function":{"name":"a","arguments":"{}"},"id":"1"}]}`, "null"),
				chatChunk(`{"tool_calls":[{"function":{"name":"b","arguments":{"k":[1]}},"id":"2"}]}`, "null"),
				chatChunk(`{"tool_calls":[{"function":{"name":"c","arguments":"{}"},"id":"3"}]}`, "null"),
			},
			want: heard{
				Marks: []Mark{{0, record.ToolCall, 3}, {0, record.ToolCall, 10}, {0, record.ToolCall, 3}}, Cumulative: []int32{u, u, u}, Usage: noUsage,
				Calls: []Call{{"1", "a", "{}"}, {"2", "b", `{"k":[1]}`}, {"3", "c", "{}"}}, Fallbacks: 1,
			},
		},
		{
			name:   "legacy function call",
			events: []string{chatChunk(`{"function_call":{"name":"f","arguments":""}}`, "null"), chatChunk(`{"function_call":{"arguments":"{}"}}`, "function_call")},
			want: heard{
				Marks: []Mark{{0, record.ToolCall, 1}, {0, record.ToolCall, 2}}, Cumulative: []int32{u, u}, Usage: noUsage,
				Calls: []Call{{"", "f", "{}"}}, Finish: "function_call", Finished: true,
			},
		},
		{
			name:   "refusal",
			events: []string{chatChunk(`{"content":null,"refusal":"I "}`, "null"), chatChunk(`{"refusal":"cannot"}`, "stop")},
			want: heard{
				Marks: []Mark{{0, record.Refusal, 2}, {0, record.Refusal, 6}}, Cumulative: []int32{u, u}, Usage: noUsage,
				Deny: []string{"I cannot"}, Finish: "stop", Finished: true,
			},
		},
		{
			name: "usage with details, running, merged by maximum",
			events: []string{
				`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":96,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":95}}}`,
				`{"choices":[{"delta":{"content":"b"}}],"usage":{"prompt_tokens":96,"completion_tokens":7,"completion_tokens_details":{"reasoning_tokens":3},"prompt_tokens_details":null}}`,
				`{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":5},"timings":{"cache_n":95,"prompt_n":1}}`,
			},
			want: heard{
				Marks: []Mark{content(1), content(1)}, Cumulative: []int32{1, 7, 5}, Text: []string{"ab"}, Usage: Usage{96, 95, 7, 3},
			},
		},
		{
			name: "running usage in chunks that are alike",
			events: []string{
				`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}}`,
				`{"choices":[{"delta":{"content":"b"}}],"usage":{"prompt_tokens":9,"completion_tokens":10,"total_tokens":19}}`,
				`{"choices":[{"delta":{"content":""}}],"usage":{"prompt_tokens":9,"completion_tokens":11,"total_tokens":20}}`,
				`{"choices":[{"delta":{"content":"\n"}}],"usage":{"prompt_tokens":9,"completion_tokens":12.0,"total_tokens":21}}`,
				`{"choices":[{"delta":{"content":"\n"}}],"usage":{"prompt_tokens":9,"completion_tokens":0,"total_tokens":9}}`,
			},
			want: heard{
				Marks: []Mark{content(1), content(1), content(1), content(1)}, Cumulative: []int32{9, 10, 11, 12, u}, Text: []string{"ab\n\n"},
				Usage: Usage{9, u, 12, u}, Fallbacks: 1,
			},
		},
		{
			name: "counts that are read by what was learnt",
			events: []string{
				`{"choices":[{"delta":{"content":""},"usage":{"completion_tokens":1}}],"usage":{"completion_tokens":0}}`,
				`{"choices":[{"delta":{"content":"b"},"usage":{"completion_tokens":9}}],"usage":{"completion_tokens":2}}`,
			},
			want: heard{Marks: []Mark{content(1)}, Cumulative: []int32{1, 9}, Text: []string{"b"}, Usage: Usage{u, u, 9, u}},
		},
		{
			name:   "zeros beside a text that is read by what was learnt",
			events: []string{`{"choices":[{"delta":{"content":""}}],"usage":{"completion_tokens":0}}`, `{"choices":[{"delta":{"content":"b"}}],"usage":{"completion_tokens":0}}`},
			want:   heard{Marks: []Mark{content(1)}, Cumulative: []int32{u, u}, Text: []string{"b"}, Usage: noUsage},
		},
		{
			name:   "other places of usage",
			events: []string{`{"x_groq":{"id":"r","usage":{"prompt_tokens":3,"completion_tokens":4}}}`, `{"choices":[{"index":0,"delta":{},"usage":{"cached_tokens":2,"reasoning_tokens":1}}]}`, `{"usage":{"prompt_cache_hit_tokens":3}}`},
			want:   heard{Cumulative: []int32{4, u, u}, Usage: Usage{3, 3, 4, 1}},
		},
		{
			name: "zeros on each chunk", api: OpenAICompletions,
			events: []string{
				`{"choices":[{"text":"a","index":0,"finish_reason":null}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`,
				`{"choices":[{"text":"","index":0,"finish_reason":"length"}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`,
			},
			want: heard{Marks: []Mark{content(1)}, Cumulative: []int32{u, u}, Text: []string{"a"}, Usage: noUsage, Finish: "length", Finished: true},
		},
		{
			name:   "counts that are none",
			events: []string{`{"usage":{"prompt_tokens":-4,"completion_tokens":2.5}}`, `{"usage":{"prompt_tokens":1e99,"completion_tokens":"7"}}`, `{"usage":{"prompt_tokens":5.0,"completion_tokens":3000000000}}`, `{"usage":7}`, `{"usage":{"completion_tokens":4294967299}}`},
			want:   heard{Cumulative: []int32{u, u, u, u, u}, Usage: Usage{5, u, u, u}, Fallbacks: 5},
		},
		{
			name: "two choices, also in one event",
			events: []string{
				`{"choices":[{"index":1,"delta":{"content":"x"}}]}`, `{"choices":[{"index":0,"delta":{"content":"a"}},{"delta":{"content":"yz"},"index":1}]}`,
				`{"choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}`,
			},
			want: heard{
				Marks: []Mark{{1, record.Content, 1}, content(1), {1, record.Content, 2}}, Cumulative: []int32{u, u, u},
				Text: []string{"a", "xyz"}, Usage: noUsage, // choice 0 is not at its end
			},
		},
		{
			name:   "two choices, both at their end",
			events: []string{`{"choices":[{"index":1,"finish_reason":"stop"},{"index":0,"delta":{},"finish_reason":"length"}]}`},
			want:   heard{Cumulative: []int32{u}, Usage: noUsage, Finish: "length", Finished: true},
		},
		{
			name: "an answer that the server gave up", events: []string{chatChunk(`{"content":"a"}`, "abort")},
			want: heard{Marks: []Mark{content(1)}, Cumulative: []int32{u}, Text: []string{"a"}, Usage: noUsage, Err: true, Finish: "abort", Finished: true, Message: "finish_reason abort", Type: "abort"},
		},
		{
			name:   "finish reason null as a word",
			events: []string{chatChunk(`{"content":"a"}`, `null`), `{"choices":[{"delta":{"content":"b"},"finish_reason":"null"}]}`, " [DONE] "},
			want:   heard{Marks: []Mark{content(1), content(1)}, Cumulative: []int32{u, u, u}, Text: []string{"ab"}, Usage: noUsage, Done: true},
		},
		{
			name:   "error object",
			events: []string{chatChunk(`{"content":"a"}`, "null"), `{"error":{"message":"engine failed","type":"InternalServerError","param":null,"code":500}}`, "[DONE]"},
			want: heard{
				Marks: []Mark{content(1)}, Cumulative: []int32{u, u, u}, Text: []string{"a"}, Usage: noUsage, Done: true,
				Err: true, Message: "engine failed", Type: "InternalServerError",
			},
		},
		{
			name: "error as a text", events: []string{`{"error":"no \"room\""}`},
			want: heard{Cumulative: []int32{u}, Usage: noUsage, Err: true, Message: `no "room"`},
		},
		{
			name: "error by object", events: []string{`{"object":"error","message":"bad","type":"BadRequestError","code":400}`},
			want: heard{Cumulative: []int32{u}, Usage: noUsage, Err: true, Message: "bad", Type: "BadRequestError"},
		},
		{
			name: "error by event name", events: []string{"event: error\n" + `{"message":"gone","code":"overloaded_error"}`},
			want: heard{Cumulative: []int32{u}, Usage: noUsage, Err: true, Message: "gone", Type: "overloaded_error"},
		},
		{
			name: "error by event name without JSON", events: []string{"event: error\nupstream died"},
			want: heard{Cumulative: []int32{u}, Usage: noUsage, Err: true, Message: "upstream died"},
		},
		{
			name: "error inside a choice", events: []string{`{"choices":[{"index":0,"delta":{"content":""},"error":{"code":502,"message":"provider"},"finish_reason":"error"}]}`},
			want: heard{Cumulative: []int32{u}, Text: []string{""}, Usage: noUsage, Err: true, Message: "provider", Finish: "error", Finished: true},
		},
		{
			name: "empty error values beside an answer", events: []string{`{"choices":[{"delta":{"content":"a"}}],"error":{}}`, `{"choices":[],"error":""}`, `{"choices":[],"error":false}`},
			want: heard{Marks: []Mark{content(1)}, Cumulative: []int32{u, u, u}, Text: []string{"a"}, Usage: noUsage},
		},
		{
			name: "text that looks like an error", events: []string{chatChunk(`{"content":"{\"error\":1}"}`, "null")},
			want: heard{Marks: []Mark{content(11)}, Cumulative: []int32{u}, Text: []string{`{"error":1}`}, Usage: noUsage},
		},
		{
			name: "an empty last delta without a model is no finish", events: []string{chatChunk(`{"role":"assistant","content":"a"}`, "null"), `{"model":"","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`},
			want: heard{Marks: []Mark{content(1)}, Cumulative: []int32{u, u}, Text: []string{"a"}, Usage: noUsage},
		},
		{
			name: "pings with a name", events: []string{"event: ping\nhello", "event: ping\n{}"},
			want: heard{Cumulative: []int32{u, u}, Usage: noUsage},
		},
		{
			name: "no JSON", events: []string{"<html>"},
			want: heard{Cumulative: []int32{u}, Usage: noUsage, Bad: true, Fallbacks: 1},
		},
		{
			name: "cut JSON", events: []string{`{"choices":[{"index":0,"delta":{"content":"a"`},
			want: heard{Cumulative: []int32{u}, Usage: noUsage, Bad: true, Fallbacks: 1},
		},
		{
			name: "two chunks in one event", events: []string{chatChunk(`{"content":"a"}`, "null") + "\n" + chatChunk(`{"content":"bc"}`, "stop") + "\n[DONE]"},
			want: heard{Marks: []Mark{content(1), content(2)}, Cumulative: []int32{u}, Text: []string{"abc"}, Usage: noUsage, Finish: "stop", Finished: true, Done: true, Fallbacks: 1},
		},
		{
			name: "content in parts", events: []string{chatChunk(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"ok!"}]}`, "null")},
			want: heard{Marks: []Mark{{0, record.Content | record.Reasoning, 5}}, Cumulative: []int32{u}, Text: []string{"ok!"}, Reason: []string{"hm"}, Usage: noUsage, Fallbacks: 1},
		},
		{
			name: "chat chunks with a second copy of the text", events: []string{`{"choices":[{"index":0,"text":"a","message":{"content":"so far a"},"delta":{"content":"a"}}]}`},
			want: heard{Marks: []Mark{content(1)}, Cumulative: []int32{u}, Text: []string{"a"}, Usage: noUsage},
		},
		{
			name: "escapes, surrogates, broken UTF-8", events: []string{
				chatChunk(`{"content":"\u4e2d\ud83d\ude00\/\n"}`, "null"), chatChunk(`{"content":"\ud83d"}`, "null"), chatChunk("{\"content\":\"\xff\"}", "null"),
				chatChunk(`{"content":"\\"}`, "null"), chatChunk(`{"content":"\""}`, "null"),
			},
			want: heard{
				Marks: []Mark{content(9), content(3), content(3), content(1), content(1)}, Cumulative: []int32{u, u, u, u, u},
				Text: []string{"中😀/\n\ufffd\ufffd\\\""}, Usage: noUsage,
			},
		},
		{
			name: "an escaped key and a doubled key", events: []string{`{"choi\u0063es":[{"delta":{"content":"a"}}]}`, `{"choices":[{"delta":{"content":"a","content":"b"}}]}`},
			want: heard{Marks: []Mark{content(1), content(1)}, Cumulative: []int32{u, u}, Text: []string{"ab"}, Usage: noUsage, Fallbacks: 2},
		},
		{
			name: "white space everywhere", events: []string{" \t{ \"choices\" : [ { \"delta\" : { \"content\" : \"a\" , \"x\" : [ ] } , \"index\" : 0 } ] , \"usage\" : { \"completion_tokens\" : 1 } } \r\n"},
			want: heard{Marks: []Mark{content(1)}, Cumulative: []int32{1}, Text: []string{"a"}, Usage: Usage{u, u, 1, u}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			api := tt.api
			if api == "" {
				api = OpenAIChat
			}
			var d Decoder
			d.Reset(api, true)
			got := hear(&d, tt.events...)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("want -, got +\n%s", diff)
			}
			// Without text the same must come out, but for the text.
			d.Reset(api, false)
			got2 := hear(&d, tt.events...)
			got.Text, got.Reason, got.Deny, got.Calls = nil, nil, nil, nil
			if diff := cmp.Diff(got, got2); diff != "" {
				t.Errorf("with text -, without +\n%s", diff)
			}
		})
	}
}

func TestBody(t *testing.T) {
	u := unknown
	mark := func(choice uint8, c record.Channel, n uint32) []Mark { return []Mark{{choice, c, n}} }
	long := strings.Repeat("é", 400)
	tests := []struct {
		name, body string
		api        API
		want       heard
	}{
		{
			name: "chat", body: "\xef\xbb\xbf" + `{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"hello","refusal":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":1}}` + "\n",
			want: heard{Marks: mark(0, record.Content, 5), Text: []string{"hello"}, Usage: Usage{5, u, 1, u}, Finish: "stop", Finished: true},
		},
		{
			name: "completions", api: OpenAICompletions, body: `{"choices":[{"text":"a","index":1,"finish_reason":"length"},{"text":"b","index":0,"finish_reason":"stop"}],"error":null}`,
			want: heard{Marks: []Mark{{1, record.Content, 1}, {0, record.Content, 1}}, Text: []string{"b", "a"}, Usage: noUsage, Finish: "stop", Finished: true},
		},
		{
			name: "choices without an index, by place", body: `{"choices":[{"message":{"content":"a"}},{"message":{"content":"b"}}]}`,
			want: heard{Marks: []Mark{{0, record.Content, 1}, {1, record.Content, 1}}, Text: []string{"a", "b"}, Usage: noUsage},
		},
		{
			name: "reasoning and tool calls without an index", body: `{"choices":[{"message":{"content":null,"reasoning_content":"hm","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}},{"id":"2","function":{"name":"g","arguments":""}}]},"finish_reason":"tool_calls"}]}`,
			want: heard{
				Marks: mark(0, record.Reasoning|record.ToolCall, 6), Reason: []string{"hm"}, Calls: []Call{{"1", "f", "{}"}, {"2", "g", ""}},
				Usage: noUsage, Finish: "tool_calls", Finished: true,
			},
		},
		{
			name: "no output", body: `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":0}}`,
			want: heard{Usage: Usage{3, u, 0, u}},
		},
		{name: "empty", body: "", want: heard{Usage: noUsage, Bad: true, Fallbacks: 1}},
		{name: "login page", body: "<!DOCTYPE html><html><body>Sign in</body></html>", want: heard{Usage: noUsage, Bad: true, Fallbacks: 1}},
		{name: "other JSON", body: `{"status":"ok"}`, want: heard{Usage: noUsage, Bad: true}},
		{name: "null", body: `null`, want: heard{Usage: noUsage, Bad: true, Fallbacks: 1}},
		{name: "a number", body: `7`, want: heard{Usage: noUsage, Bad: true, Fallbacks: 1}},
		{name: "list", body: `[1,2]`, want: heard{Usage: noUsage, Bad: true, Fallbacks: 1}},
		{name: "cut", body: `{"choices":[{"message":{"content":"hel`, want: heard{Usage: noUsage, Bad: true, Fallbacks: 1}},
		{name: "events", body: "data: {\"choices\":[]}\n\n", want: heard{Usage: noUsage, Bad: true, Fallbacks: 1}},
		{
			name: "error object", body: `{"error":{"message":"` + long + `","type":"overloaded_error","code":529}}`,
			want: heard{Usage: noUsage, Err: true, Message: long[:512], Type: "overloaded_error"},
		},
		{
			name: "error object cut inside a character", body: `{"error":{"message":"x` + long + `"}}`,
			want: heard{Usage: noUsage, Err: true, Message: "x" + long[:510]},
		},
		{name: "error text", body: `{"error":"no such model"}`, want: heard{Usage: noUsage, Err: true, Message: "no such model"}},
		{name: "error number", body: `{"error":17}`, want: heard{Usage: noUsage, Err: true, Message: "17"}},
		{name: "error without a message", body: `{"error":{"code":"x"}}`, want: heard{Usage: noUsage, Err: true, Message: `{"code":"x"}`, Type: "x"}},
		{name: "empty error", body: `{"error":{}}`, want: heard{Usage: noUsage, Err: true, Message: "error without a message"}},
		{name: "error in a list", body: `[{"error":{"message":"m","status":"UNAVAILABLE"}}]`, want: heard{Usage: noUsage, Err: true, Message: "m", Type: "UNAVAILABLE", Fallbacks: 1}},
		{name: "detail", body: `{"detail":"Not Found"}`, want: heard{Usage: noUsage, Err: true, Message: "Not Found"}},
		{name: "detail list", body: `{"detail":[{"msg":"field required"}]}`, want: heard{Usage: noUsage, Err: true, Message: `[{"msg":"field required"}]`}},
		{name: "message", body: `{"message":"limit","code":"rate_limit"}`, want: heard{Usage: noUsage, Err: true, Message: "limit", Type: "rate_limit"}},
		{name: "broken UTF-8 in an error", body: "{\"error\":\"a\xff\xfe\"}", want: heard{Usage: noUsage, Err: true, Message: "a\ufffd\ufffd"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			api := tt.api
			if api == "" {
				api = OpenAIChat
			}
			var d Decoder
			for range 2 { // the second time with used buffers
				d.Reset(api, true)
				var got heard
				delta := d.Body([]byte(tt.body))
				got.Marks, got.Err = append(got.Marks, delta.Marks...), delta.Err
				got.fill(&d)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Fatalf("want -, got +\n%s", diff)
				}
			}
		})
	}
}

// Output that nobody sane sends costs no more than its own size.
func TestHostileSizes(t *testing.T) {
	big := strings.Repeat("x", 8<<20)
	var d Decoder
	d.Reset(OpenAIChat, true)
	h := hear(&d, chatChunk(`{"content":"`+big+`"}`, "null"), chatChunk(`{"content":"`+big+`"}`, "null"))
	if len(h.Text[0]) != 2*len(big) || h.Fallbacks != 0 {
		t.Errorf("text of %d bytes, %d fallbacks", len(h.Text[0]), h.Fallbacks)
	}
	if cap(d.literals) > 2*templateLimit {
		t.Errorf("%d bytes of template", cap(d.literals))
	}
	// What was grown for it is not kept for the next answer.
	d.Reset(OpenAIChat, true)
	if len(d.text) != 0 || cap(d.text) == 0 || cap(d.text[:1][0]) != 0 {
		t.Error("a huge text buffer was kept")
	}
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	h = hear(&d, `{"x":`+deep+`,"choices":[{"delta":{"content":"a"}}]}`, `{"choices":`+deep+`}`, strings.Repeat(`{"choices":[`, 100_000), strings.Repeat("\n", 1<<20))
	if len(h.Text) != 1 || h.Text[0] != "a" || !h.Bad {
		t.Errorf("text %q, bad %v", h.Text, h.Bad)
	}
	d.Reset(OpenAIChat, true)
	var calls strings.Builder
	for i := range 5000 {
		if i > 0 {
			calls.WriteByte(',')
		}
		calls.WriteString(`{"index":` + string(appendInt(nil, int64(i))) + `,"function":{"name":"f"}}`)
	}
	h = hear(&d, chatChunk(`{"tool_calls":[`+calls.String()+`]}`, "null"))
	if len(h.Calls) != maxCalls || h.Marks[0].TextBytes != 5000 {
		t.Errorf("%d calls, marks %v", len(h.Calls), h.Marks)
	}
	h = hear(&d, `{"error":"`+big+`"}`)
	if len(h.Message) != MessageLimit {
		t.Errorf("message of %d bytes", len(h.Message))
	}
}
