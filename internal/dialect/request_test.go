package dialect

import (
	"encoding/base64"
	"encoding/json"
	"image"
	"image/png"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/message"
)

// filer makes every medium of one file, and no text.
type filer string

func (f filer) AppendText(dst []byte, _ *message.Part) []byte { return dst }

func (f filer) AppendMedia(dst []byte, _ *message.Media) []byte { return append(dst, f...) }

func body(t *testing.T, api API, req *message.Request, r message.Renderer, o *Options) string {
	t.Helper()
	b, err := AppendRequest(nil, api, req, r, o)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(b) {
		t.Errorf("not valid JSON: %s", b)
	}
	return string(b)
}

// Media stand inline in the message of the parts around them.
func TestAppendMedia(t *testing.T) {
	req := message.Request{Parts: []message.Part{
		{Role: message.System, Text: "s"},
		{Text: "before"},
		{Text: "them"},
		{Media: &message.Media{Kind: message.Image, Width: 2, Height: 1}},
		{Media: &message.Media{Kind: message.Image, PNG: true}},
		{Media: &message.Media{Kind: message.Audio, Seconds: 1}},
		{Text: "after"},
		{Role: message.Assistant, Text: "a"},
		{Media: &message.Media{Kind: message.Image}},
	}}
	want := `{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"before them"},` +
		`{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,AAAA"}},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},` +
		`{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}},{"type":"text","text":"after"}]},{"role":"assistant","content":"a"},` +
		`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,AAAA"}}]}]}`
	if diff := cmp.Diff(want, body(t, OpenAIChat, &req, filer("AAAA"), &Options{Model: "m"})); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
	if _, err := AppendRequest(nil, OpenAIChat, &req, renderer{}, &Options{}); err == nil || !strings.Contains(err.Error(), "part 2 is an image and nothing renders media") {
		t.Errorf("without a renderer of media: %v", err)
	}
}

// Tools are offered, every call and every result is a message of its own.
func TestAppendTools(t *testing.T) {
	req := message.Request{
		Parts: []message.Part{
			{Text: "q"},
			{Role: message.Assistant, Tokens: 9, Calls: []message.Call{{ID: "c1", Name: "f", Arguments: `{"a":"b"}`}, {ID: "c2", Name: "g", Arguments: "{}"}}},
			{Role: message.Tool, CallID: "c1", Text: "one"},
			{Role: message.Tool, CallID: "c2", Text: "two"},
			{Role: message.Assistant, Text: "look", Calls: []message.Call{{ID: "c3", Name: "f", Arguments: "{}"}}},
			{Role: message.Tool, CallID: "c3", Text: "three"},
			{Role: message.Assistant, Text: "done"},
			{Text: "next"},
		},
		Tools:      []message.Function{{Name: "f", Description: "does f", Parameters: `{"type": "object"}`}, {Name: "g"}},
		ToolChoice: "required",
	}
	want := `{"model":"m","messages":[{"role":"user","content":"q"},` +
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":\"b\"}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]},` +
		`{"role":"tool","tool_call_id":"c1","content":"one"},{"role":"tool","tool_call_id":"c2","content":"two"},` +
		`{"role":"assistant","content":"look","tool_calls":[{"id":"c3","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
		`{"role":"tool","tool_call_id":"c3","content":"three"},{"role":"assistant","content":"done"},{"role":"user","content":"next"}],` +
		`"tools":[{"type":"function","function":{"name":"f","description":"does f","parameters":{"type": "object"}}},{"type":"function","function":{"name":"g"}}],"tool_choice":"required"}`
	if diff := cmp.Diff(want, body(t, OpenAIChat, &req, nil, &Options{Model: "m"})); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
	r, err := ParseRequest(OpenAIChat, []byte(want))
	if err != nil {
		t.Fatal(err)
	}
	if m := r.Messages[4]; m.Role != "assistant" || m.Text != "look f{}" {
		t.Errorf("a server reads the call as %+v", m)
	}
	if diff := cmp.Diff([]string{"f", "g"}, r.ToolNames); diff != "" || r.ToolChoice != "required" {
		t.Errorf("a server reads the offer as %v, %q", r.ToolNames, r.ToolChoice)
	}
	req.Tools[0].Parameters = "{"
	if _, err := AppendRequest(nil, OpenAIChat, &req, nil, &Options{}); err == nil || !strings.Contains(err.Error(), `parameters of tool "f" are not JSON`) {
		t.Errorf("parameters that are no JSON: %v", err)
	}
}

// Completions have no form for media and tools, and say so by name.
func TestCompletionsRefuse(t *testing.T) {
	f := func(req message.Request, want string) {
		t.Helper()
		_, err := AppendRequest(nil, OpenAICompletions, &req, filer(""), &Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	f(message.Request{Parts: []message.Part{{Media: &message.Media{Kind: message.Audio}}}}, "openai.completions has no place for an audio: use openai.chat")
	f(message.Request{Parts: []message.Part{{Media: &message.Media{}}}}, "no place for an image")
	f(message.Request{Tools: []message.Function{{Name: "f"}}}, "openai.completions has no tools: use openai.chat")
	f(message.Request{Parts: []message.Part{{CallID: "c", Text: "x"}}}, "has no tools")
}

// A server reads from a body what there is to count: sizes, lengths, places.
func TestServerReadsMedia(t *testing.T) {
	var file strings.Builder
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 56, 29))); err != nil {
		t.Fatal(err)
	}
	data := base64.StdEncoding.EncodeToString([]byte(file.String()))
	req := message.Request{Parts: []message.Part{{Text: "é"}, {Media: &message.Media{PNG: true}}, {Text: "after"}}}
	r, err := ParseRequest(OpenAIChat, []byte(body(t, OpenAIChat, &req, filer(data), &Options{})))
	if err != nil {
		t.Fatal(err)
	}
	want := []ServerMessage{{Role: "user", Text: "éafter", Media: []ServerMedia{{Media: message.Media{Width: 56, Height: 29, PNG: true}, Data: data, At: 2}}}}
	if diff := cmp.Diff(want, r.Messages); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
	if n := r.Messages[0].Media[0].Media.Tokens(); n != 4 {
		t.Errorf("56 x 29 pixels are %d tokens, want 2 x 2", n)
	}
	f := func(part, want string) {
		t.Helper()
		_, err := ParseRequest(OpenAIChat, []byte(`{"messages":[{"role":"user","content":[`+part+`]}]}`))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", part, err, want)
		}
	}
	f(`{"type":"image_url","image_url":{"url":"http://10.0.0.1/x.png"}}`, "messages[0].content: part 0: image_url: nothing is fetched here")
	f(`{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}`, "read the image")
	f(`{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}`, "read the sound")
	f(`{"type":"input_audio","input_audio":{"data":"AAAA","format":"mp3"}}`, `format "mp3" is not read here`)
	f(`{"type":"input_audio","input_audio":{"data":"`+strings.Repeat("AAAA", 20)+`","format":"wav"}}`, "no WAV file")
}
