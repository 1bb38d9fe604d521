package dialect

import (
	"strings"
	"testing"

	"plimsoll/internal/message"
)

// A given body goes out as it is, but for what the run decides on.
func TestGivenBody(t *testing.T) {
	warm := 0.5
	f := func(body string, o Options, r message.Request, want string) {
		t.Helper()
		r.Body = body
		b, err := AppendRequest([]byte("<"), OpenAIChat, &r, nil, &o)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(b); got != "<"+want {
			t.Errorf("body %s\n got %s\nwant <%s", body, got, want)
		}
	}
	chat := `{"messages":[{"role":"user","content":"a \u00e4 b"}],"model":"theirs","stream":false,"stream_options":null,"top_p":0.10,"max_completion_tokens":7}`
	f(chat, Options{Model: "ours"}, message.Request{MaxTokens: 7},
		`{"model":"ours","messages":[{"role":"user","content":"a \u00e4 b"}],"top_p":0.10,"max_completion_tokens":7}`)
	f(chat, Options{Stream: true, Usage: true}, message.Request{MaxTokens: 7},
		`{"messages":[{"role":"user","content":"a \u00e4 b"}],"model":"theirs","top_p":0.10,"max_completion_tokens":7,"stream":true,"stream_options":{"include_usage":true}}`)
	f(chat, Options{Model: "ours", Extra: map[string]any{"top_p": 1, "seed": 3}}, message.Request{},
		`{"model":"ours","messages":[{"role":"user","content":"a \u00e4 b"}],"max_completion_tokens":7,"seed":3,"top_p":1}`)
	f(`{"messages":[],"temperature":1,"min_tokens":3,"max_tokens":9}`, Options{Model: "m", Temperature: &warm, IgnoreEOS: true}, message.Request{MaxTokens: 9},
		`{"model":"m","messages":[],"max_tokens":9,"temperature":0.5,"ignore_eos":true,"min_tokens":9}`)
	f(`{"messages":[],"temperature":1}`, Options{Model: "m"}, message.Request{MaxTokens: 4}, `{"model":"m","messages":[],"temperature":1,"max_tokens":4}`)

	for _, bad := range []string{"[]", "3", "{", `{"a":}`, "hello"} {
		if _, err := AppendRequest(nil, OpenAIChat, &message.Request{Body: bad}, nil, new(Options)); err == nil {
			t.Errorf("body %s is sent", bad)
		}
		if CheckBody(OpenAIChat, bad) == nil {
			t.Errorf("body %s is right", bad)
		}
	}
}

func TestCheckBody(t *testing.T) {
	f := func(api API, body, want string) {
		t.Helper()
		err := CheckBody(api, body)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s of %s: %v, want %q", body, api, err, want)
		}
	}
	f(OpenAIChat, `{"messages":[]}`, "")
	f(OpenAICompletions, `{"prompt":"x"}`, "")
	f(OpenAIChat, `{"prompt":"x"}`, "the body has prompt, which API openai.chat does not take: want messages")
	f(OpenAICompletions, `{"messages":[]}`, "want prompt")
	f(OpenAIChat, `{"input":"x"}`, "the body has no messages")
}
