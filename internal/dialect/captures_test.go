package dialect

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/record"
)

// answer is one response of a capture.
type answer struct {
	status int
	stream bool
	whole  bool // the body ended as its framing says
	body   []byte
}

// answers takes the responses of one connection apart.
func answers(t *testing.T, raw []byte) []answer {
	t.Helper()
	var out []answer
	r := bufio.NewReader(bytes.NewReader(raw))
	for {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return out
			}
			t.Fatal(err)
		}
		if resp.StatusCode < 200 {
			continue
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		out = append(out, answer{
			status: resp.StatusCode, whole: err == nil, body: body,
			stream: strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"),
		})
		if err != nil {
			return out
		}
	}
}

// sse returns the data of the whole events of a body, which in these captures
// are one line each with bare line feeds. An event without its empty line has
// not arrived.
func sse(body []byte) [][]byte {
	var out [][]byte
	for e := range bytes.SplitSeq(body[:bytes.LastIndex(body, []byte("\n\n"))+1], []byte("\n\n")) {
		for line := range bytes.SplitSeq(e, []byte("\n")) {
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				out = append(out, data)
			}
		}
	}
	return out
}

// wire is all that these servers put into a chunk or body, for encoding/json.
type wire struct {
	Choices []struct {
		Index          int
		Text           string
		Delta, Message struct {
			Content, Refusal string
			ReasoningContent string `json:"reasoning_content"`
			Reasoning        string
			ToolCalls        []struct {
				Index    int
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		FinishReason string `json:"finish_reason"`
	}
	Usage *struct {
		PromptTokens     int32 `json:"prompt_tokens"`
		CompletionTokens int32 `json:"completion_tokens"`
		PromptDetails    *struct {
			CachedTokens int32 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	Error *struct{ Message, Type string }
}

// slow reads an answer by encoding/json alone.
func slow(t *testing.T, a answer) (h heard, events int) {
	t.Helper()
	h.Usage = noUsage
	var text, reason []string
	grow := func(s *[]string, i int) *string {
		for len(*s) <= i {
			*s = append(*s, "")
		}
		return &(*s)[i]
	}
	one := func(data []byte) {
		var w wire
		if err := json.Unmarshal(data, &w); err != nil {
			h.Bad = true
			return
		}
		for _, c := range w.Choices {
			m := c.Delta
			if !a.stream {
				m = c.Message
			}
			*grow(&text, c.Index) += m.Content + c.Text
			output := m.Content + c.Text
			for _, r := range []string{m.ReasoningContent, m.Reasoning} {
				if r != "" {
					*grow(&reason, c.Index) += r
					output += r
					break
				}
			}
			for i, call := range m.ToolCalls {
				if !a.stream {
					call.Index = i
				}
				if call.Index == len(h.Calls) {
					h.Calls = append(h.Calls, Call{ID: call.ID})
				}
				k := &h.Calls[call.Index]
				k.Name += call.Function.Name
				k.Arguments += call.Function.Arguments
				output += call.Function.Name + call.Function.Arguments
			}
			if output != "" {
				events++
			}
			if c.FinishReason != "" {
				h.Finished = true
				if c.Index == 0 {
					h.Finish = c.FinishReason
				}
			}
		}
		if u := w.Usage; u != nil {
			h.Usage.Prompt = max(h.Usage.Prompt, u.PromptTokens)
			h.Usage.Completion = max(h.Usage.Completion, u.CompletionTokens)
			if u.PromptDetails != nil {
				h.Usage.Cached = max(h.Usage.Cached, u.PromptDetails.CachedTokens)
			}
		}
		if w.Error != nil {
			h.Err, h.Message, h.Type = true, w.Error.Message, w.Error.Type
		}
	}
	if a.stream {
		for _, data := range sse(a.body) {
			if string(data) == "[DONE]" {
				h.Done = true
				continue
			}
			one(data)
		}
	} else {
		one(a.body)
	}
	h.Text, h.Reason = text, reason
	return h, events
}

// take reads an answer with the decoder, as a user of it does.
func take(a answer, api API, keep bool) (h heard, r *record.Request) {
	var d Decoder
	d.Reset(api, keep)
	r = &record.Request{}
	r.Reset()
	note := func(delta Delta) {
		h.Err = h.Err || delta.Err
		for _, m := range delta.Marks {
			r.TextBytes += int64(m.TextBytes)
			if a.stream {
				r.Events = append(r.Events, record.Event{Cumulative: delta.Cumulative, Tokens: record.Unknown, TextBytes: m.TextBytes, Choice: m.Choice, Channel: m.Channel})
			}
		}
	}
	if a.stream {
		for _, data := range sse(a.body) {
			note(d.Event(nil, data))
		}
	} else {
		note(d.Body(a.body))
	}
	h.fill(&d)
	h.Deny = nil
	r.Streamed, r.Finish, r.Output, r.Reasoning = a.stream, h.Finish, h.Usage.Completion, h.Usage.Reasoning
	r.Resolve(nil)
	return h, r
}

func captures(t *testing.T, f func(name string, api API, a answer)) {
	t.Helper()
	files, err := filepath.Glob("testdata/captures/*/*.http")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 130 {
		t.Fatalf("%d captures, want at least 130", len(files))
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		req, err := os.ReadFile(strings.TrimSuffix(file, "http") + "req")
		if err != nil {
			t.Fatal(err)
		}
		api := OpenAIChat
		if bytes.HasPrefix(req, []byte("POST /v1/completions ")) {
			api = OpenAICompletions
		}
		name := filepath.Base(filepath.Dir(file)) + "/" + strings.TrimSuffix(filepath.Base(file), ".http")
		list := answers(t, raw)
		if len(list) == 0 {
			t.Errorf("%s: no answer", name)
		}
		for _, a := range list {
			f(name, api, a)
		}
	}
}

// Every capture says the same to the decoder as to encoding/json, whether text
// is kept or not, and no usual chunk needs the fallback.
func TestCaptures(t *testing.T) {
	captures(t, func(name string, api API, a answer) {
		want, events := slow(t, a)
		if want.Usage.Prompt == 0 {
			want.Usage.Prompt = record.Unknown
		}
		got, r := take(a, api, true)
		if got.Fallbacks != 0 && !got.Bad {
			t.Errorf("%s: %d fallbacks", name, got.Fallbacks)
		}
		got.Fallbacks = 0
		for _, h := range []*heard{&want, &got} { // a choice without text is no text
			for _, s := range []*[]string{&h.Text, &h.Reason} {
				if strings.Join(*s, "") == "" {
					*s = nil
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: encoding/json -, decoder +\n%s", name, diff)
		}
		if a.stream && events != len(r.Events) {
			t.Errorf("%s: %d output events, want %d", name, len(r.Events), events)
		}
		bare, _ := take(a, api, false)
		got.Text, got.Reason, got.Calls, bare.Fallbacks = nil, nil, nil, 0
		if diff := cmp.Diff(got, bare); diff != "" {
			t.Errorf("%s: with text -, without +\n%s", name, diff)
		}
	})
}

// What the servers were made to say, and what they got wrong, by hand.
func TestCapturesByHand(t *testing.T) {
	const (
		u     = record.Unknown
		fox   = "The quick brown fox says café and 日😀 to one lazy dog."
		toCut = "The quick brown fox says café and "
	)
	type known struct {
		text, reason, finish, calls, message, kind string
		prompt, cached, output                     int32
		events                                     int
		flags                                      string
		noDone, bad                                bool
	}
	tests := map[string]known{
		"llama.cpp/80-scripted-tools-stream":        {finish: "tool_calls", calls: `get_weather {"city": "Oslo", "days": 3}`, prompt: 497, cached: 0, output: 13, events: 6, flags: "multi_token_events"},
		"llama.cpp/81-scripted-tools-nonstream":     {finish: "tool_calls", calls: `get_weather {"city": "Oslo", "days": 3}`, prompt: 497, cached: 496, output: 13},
		"llama.cpp/82-scripted-utf8-stream":         {text: fox, finish: "stop", prompt: 36, cached: 0, output: 22, events: 15, flags: "multi_token_events"},
		"llama.cpp/83-scripted-utf8-nonstream":      {text: fox, finish: "stop", prompt: 36, cached: 35, output: 22},
		"llama.cpp/84-scripted-utf8-completions":    {text: fox, finish: "stop", prompt: 2, cached: 1, output: 22, events: 15, flags: "multi_token_events"},
		"llama.cpp/85-scripted-utf8-cut-in-char":    {text: toCut, finish: "length", prompt: 36, cached: 35, output: 11, events: 8, flags: "multi_token_events"},
		"llama.cpp/86-scripted-logprobs":            {text: toCut + "日", finish: "length", prompt: u, cached: u, output: u, events: 9},
		"llama.cpp/87-scripted-reasoning-stream":    {text: "The answer is 42!", reason: "Let me reason.\n", finish: "stop", prompt: 22, cached: 0, output: 12, events: 9, flags: "multi_token_events"},
		"llama.cpp/88-scripted-reasoning-nonstream": {text: "The answer is 42!", reason: "Let me reason.\n", finish: "stop", prompt: 22, cached: 21, output: 12},
		"ollama/80-scripted-tools-stream":           {finish: "tool_calls", calls: `get_weather {"city":"Oslo","days":3}`, prompt: 258, cached: u, output: 13, events: 1, flags: "multi_token_events"},
		"ollama/81-scripted-tools-nonstream":        {finish: "tool_calls", calls: `get_weather {"city":"Oslo","days":3}`, prompt: 258, cached: u, output: 13},
		"ollama/82-scripted-utf8-stream":            {text: fox, finish: "stop", prompt: 36, cached: u, output: 22, events: 15, flags: "multi_token_events"},
		"ollama/83-scripted-utf8-nonstream":         {text: fox, finish: "stop", prompt: 36, cached: u, output: 22},
		"ollama/84-scripted-utf8-completions":       {text: fox, finish: "stop", prompt: u, cached: u, output: u, events: 15},
		"ollama/85-scripted-utf8-cut-in-char":       {text: toCut, finish: "length", prompt: 36, cached: u, output: 11, events: 8, flags: "multi_token_events"},
		"ollama/86-scripted-logprobs":               {text: toCut + "日", finish: "length", prompt: u, cached: u, output: u, events: 9},
		"ollama/87-scripted-reasoning-stream":       {text: "The answer is 42!", reason: "Let me reason.\n", finish: "stop", prompt: 22, cached: u, output: 12, events: 9, flags: "multi_token_events"},
		"ollama-0.6.5/80-scripted-tools-stream":     {finish: "tool_calls", calls: `get_weather {"city":"Oslo","days":3}`, prompt: 370, cached: u, output: 13, events: 1, flags: "multi_token_events"},
		"ollama-0.6.5/81-scripted-tools-nonstream":  {finish: "tool_calls", calls: `get_weather {"city":"Oslo","days":3}`, prompt: 370, cached: u, output: 13},
		"ollama-0.6.5/82-scripted-utf8-stream":      {text: fox, finish: "stop", prompt: 36, cached: u, output: 22, events: 15, flags: "multi_token_events"},
		"ollama-0.6.5/83-scripted-utf8-nonstream":   {text: fox, finish: "stop", prompt: 36, cached: u, output: 22},
		"ollama-0.6.5/84-scripted-utf8-completions": {text: fox, finish: "stop", prompt: u, cached: u, output: u, events: 15},
		"ollama-0.6.5/85-scripted-utf8-cut-in-char": {text: toCut, finish: "length", prompt: 36, cached: u, output: 11, events: 8, flags: "multi_token_events"},
		"ollama-0.6.5/86-scripted-logprobs":         {text: toCut + "日", finish: "length", prompt: u, cached: u, output: u, events: 9},

		// One token an event: nothing is flagged.
		"ollama-0.6.5/12-chat-stream-usage-continuous": {text: "The quick brown fox says caf", finish: "length", prompt: 52, cached: u, output: 6, events: 6},
		// Zeros on every chunk, the count at the end.
		"ollama-0.6.5/20-completions-stream": {text: "The quick brown fox says café", finish: "length", prompt: 29, cached: u, output: 8, events: 7, flags: "multi_token_events"},
		// Stopped before a word of the stop list.
		"ollama-0.6.5/15-chat-stream-stop": {text: "The quick brown fox s", finish: "stop", prompt: u, cached: u, output: u, events: 5},
		// Two choices: each has its own usage event, and they are not summed.
		"llama.cpp/16-chat-stream-n2": {
			text:   " wavonddrar poovean jaind ranzen ra hamfom| deamtroomfor ramkam stoldeaflean teagen jend plearploom",
			finish: "length", prompt: 50, cached: 49, output: 6, events: 12, flags: "multi_token_events more_events_than_tokens",
		},
		// The first event of two prompts is "data: null".
		"llama.cpp/22-completions-batch-prompts": {
			text: " ko jallond roomstoom| jooson peamroom bondpaim", finish: "length", prompt: 10, cached: 9, output: 3, events: 6,
			flags: "multi_token_events more_events_than_tokens",
		},
		// The model's process was killed: an empty delta, a proper end, no reason.
		"ollama/58-runner-killed-midstream": {text: "?", prompt: u, cached: u, output: u, events: 171, noDone: true},

		"llama.cpp/54-midstream-error-kv-full": {text: "?", prompt: u, cached: u, output: u, events: 164, message: "Context size has been exceeded.", kind: "server_error", noDone: true},
		"llama.cpp/42-err-prompt-too-long":     {prompt: u, cached: u, output: u, message: "request (120023 tokens) exceeds the available context size (4096 tokens), try increasing it", kind: "exceed_context_size_error"},
		"llama.cpp/45-err-no-messages":         {prompt: u, cached: u, output: u, message: "'messages' is required", kind: "invalid_request_error"},
		"llama.cpp/47-err-405":                 {prompt: u, cached: u, output: u, message: "File Not Found", kind: "not_found_error"},
		"llama.cpp/57-loading-503":             {prompt: u, cached: u, output: u, message: "Loading model", kind: "unavailable_error"},
		"llama.cpp/58-err-401-no-key":          {prompt: u, cached: u, output: u, message: "Invalid API Key", kind: "authentication_error"},
		"ollama/41-err-unknown-model":          {prompt: u, cached: u, output: u, message: "model 'no-such-model' not found", kind: "api_error"},
		"ollama/47-err-405":                    {prompt: u, cached: u, output: u, bad: true},
		"ollama/56-err-503-queue-full":         {prompt: u, cached: u, output: u, message: "server busy, please try again.  maximum pending requests exceeded", kind: "api_error"},
		"ollama-0.6.5/40-err-bad-json":         {prompt: u, cached: u, output: u, message: "unexpected EOF", kind: "invalid_request_error"},
	}
	seen := map[string]bool{}
	captures(t, func(name string, api API, a answer) {
		want, ok := tests[name]
		if !ok {
			return
		}
		seen[name] = true
		h, r := take(a, api, true)
		var calls []string
		for _, c := range h.Calls {
			calls = append(calls, c.Name+" "+c.Arguments)
		}
		got := known{
			text: strings.Join(h.Text, "|"), reason: strings.Join(h.Reason, "|"), finish: h.Finish, calls: strings.Join(calls, "|"),
			message: h.Message, kind: h.Type, prompt: h.Usage.Prompt, cached: h.Usage.Cached, output: h.Usage.Completion,
			events: len(r.Events), flags: strings.Join((r.Flags &^ record.NoOutput).Names(), " "), noDone: a.stream && !h.Done, bad: h.Bad,
		}
		if want.text == "?" {
			got.text = "?"
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(known{})); diff != "" {
			t.Errorf("%s: want -, got +\n%s", name, diff)
		}
	})
	for name := range tests {
		if !seen[name] {
			t.Errorf("%s: no such capture", name)
		}
	}
}
