package dialect

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	_ "image/jpeg" // for the size of an image
	_ "image/png"
	"io"
	"reflect"
	"slices"
	"strings"

	"plimsoll/internal/message"
)

// ServerRequest is a request body as a server reads it.
type ServerRequest struct {
	Model  string
	Stream bool
	// IncludeUsage asks for the final usage chunk, ContinuousUsage for usage in
	// every chunk.
	IncludeUsage, ContinuousUsage bool
	// Messages are the chat's messages, or the items of a response's input: text parts
	// joined, calls in the message of the assistant that made them.
	Messages []ServerMessage
	// Prompts are the prompts of a completions request; PromptTokens their
	// lengths where they came as token ids, else 0.
	Prompts      []string
	PromptTokens []int
	// MaxTokens and MinTokens are 0 when not given. MaxTokens is
	// max_completion_tokens where that is given.
	MaxTokens, MinTokens int
	// N is the number of choices, at least 1.
	N         int
	IgnoreEOS bool
	Stop      []string
	// Temperature and Seed are nil when not given.
	Temperature *float64
	Seed        *int64
	// Tools is the number of tools offered, ToolNames the names of those that are
	// functions; ToolChoice is the choice when it is a word ("auto", "none", "required"),
	// ToolName the function when it names one.
	Tools      int
	ToolNames  []string
	ToolChoice string
	ToolName   string
	// Thinking is whether the chat template is asked to let the model think, nil
	// when nothing is said; Effort is reasoning_effort, "" when not given.
	Thinking *bool
	Effort   string
	// KeepStop asks for the stop text at the end of the answer.
	KeepStop bool
	// Schema is the JSON Schema that the answer is to follow, "" for free text.
	Schema string
	// Salt keeps the prompt apart from those with another in the prefix cache.
	Salt string
	// Instructions, Previous, Store and Echo are of the Responses API alone: what comes
	// before the messages, and is of this request only; the name of the response that it
	// goes on from, "" for none; whether this one may be gone on from; the fields of the
	// request that the response repeats, as JSON without braces.
	Instructions, Previous string
	Store                  bool
	Echo                   string
}

// ServerMessage is one message of a chat. Text holds its text parts and, behind
// them, the names and arguments of the tools that it calls.
type ServerMessage struct {
	Role, Text string
	// Media are its images and sounds.
	Media []ServerMedia
}

// ServerMedia is an image or a sound as a server finds it in a body.
type ServerMedia struct {
	// Media has the kind and the size, and no seed.
	Media message.Media
	// Data is the file in base64, At the length of the message's text before it.
	Data string
	At   int
}

// RequestError says what is wrong with a request body; a server answers it with
// status 400.
type RequestError struct {
	// Field is the offending field, "" for the body as a whole.
	Field, Reason string
}

// Error returns the text for the error object.
func (e *RequestError) Error() string {
	if e.Field == "" {
		return e.Reason
	}
	return e.Field + ": " + e.Reason
}

// bodyError says what is wrong with a body in the words of JSON, not of Go.
func bodyError(err error) string {
	e, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err.Error()
	}
	want := e.Type.String()
	switch e.Type.Kind() {
	case reflect.Struct:
		want = "an object"
	case reflect.Slice:
		want = "a list"
	case reflect.Bool:
		want = "true or false"
	case reflect.Int64:
		want = "a whole number"
	case reflect.Float64:
		want = "a number"
	case reflect.String:
		want = "a string"
	}
	if e.Field == "" {
		return fmt.Sprintf("want %s, got %s", want, e.Value)
	}
	// The path has the names of embedded structs in it, which no body has.
	field := strings.TrimPrefix(strings.TrimPrefix(e.Field, "responsesFields."), "unsupported.")
	return fmt.Sprintf("%s: want %s, got %s", field, want, e.Value)
}

// wireRequest is the body of a request to any of the APIs.
type wireRequest struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions struct {
		IncludeUsage         bool `json:"include_usage"`
		ContinuousUsageStats bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
		Calls   []struct {
			Function struct {
				Name      string `json:"name"`
				Arguments string `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"messages"`
	Prompt              json.RawMessage   `json:"prompt"`
	MaxTokens           *int64            `json:"max_tokens"`
	MaxCompletionTokens *int64            `json:"max_completion_tokens"`
	MinTokens           int64             `json:"min_tokens"`
	N                   *int64            `json:"n"`
	IgnoreEOS           bool              `json:"ignore_eos"`
	Stop                json.RawMessage   `json:"stop"`
	Temperature         *float64          `json:"temperature"`
	Seed                *int64            `json:"seed"`
	Tools               []json.RawMessage `json:"tools"`
	ToolChoice          json.RawMessage   `json:"tool_choice"`
	Effort              string            `json:"reasoning_effort"`
	KeepStop            bool              `json:"include_stop_str_in_output"`
	Template            struct {
		EnableThinking *bool `json:"enable_thinking"`
		Thinking       *bool `json:"thinking"`
	} `json:"chat_template_kwargs"`
	Salt     string          `json:"cache_salt"`
	Response json.RawMessage `json:"response_format"`
	responsesFields
	unsupported
}

// unsupported are the fields that would change an answer and that the simulated server
// cannot follow. What only steers the choice of words changes nothing there.
type unsupported struct {
	LogProbs       json.RawMessage `json:"logprobs"`
	TopLogProbs    json.RawMessage `json:"top_logprobs"`
	PromptLogProbs json.RawMessage `json:"prompt_logprobs"`
	EchoPrompt     json.RawMessage `json:"echo"`
	Suffix         json.RawMessage `json:"suffix"`
	BestOf         json.RawMessage `json:"best_of"`
	Beams          json.RawMessage `json:"use_beam_search"`
	Embeds         json.RawMessage `json:"prompt_embeds"`
	GuidedJSON     json.RawMessage `json:"guided_json"`
	GuidedRegex    json.RawMessage `json:"guided_regex"`
	GuidedChoice   json.RawMessage `json:"guided_choice"`
	GuidedGrammar  json.RawMessage `json:"guided_grammar"`
	Structured     json.RawMessage `json:"structured_outputs"`
	StopIDs        json.RawMessage `json:"stop_token_ids"`
	ReturnIDs      json.RawMessage `json:"return_token_ids"`
	IDsAsText      json.RawMessage `json:"return_tokens_as_token_ids"`
	Truncate       json.RawMessage `json:"truncate_prompt_tokens"`
	Continue       json.RawMessage `json:"continue_final_message"`
	KVTransfer     json.RawMessage `json:"kv_transfer_params"`
	Priority       json.RawMessage `json:"priority"`
	Modalities     []string        `json:"modalities"`
	AudioOut       json.RawMessage `json:"audio"`
	Include        json.RawMessage `json:"include"`
}

// refuse says which field cannot be followed, nil for none.
func (u *unsupported) refuse() error {
	asked := func(raw json.RawMessage, zero bool) bool {
		switch string(bytes.Join(bytes.Fields(raw), nil)) {
		case "", "null", "false", `""`, "[]", "{}":
			return false
		case "0":
			return zero
		}
		return true
	}
	const (
		chances = "no probabilities are computed here"
		guided  = "not read here: ask for JSON with response_format"
		ids     = "tokens have no ids here that stand for a text"
	)
	for _, f := range [...]struct {
		name  string
		value json.RawMessage
		zero  bool // 0 asks for something
		why   string
	}{
		{"logprobs", u.LogProbs, true, chances},
		{"top_logprobs", u.TopLogProbs, false, chances},
		{"prompt_logprobs", u.PromptLogProbs, true, chances},
		{"echo", u.EchoPrompt, false, "a prompt is not sent back here"},
		{"suffix", u.Suffix, false, "suffix is not currently supported"},
		{"use_beam_search", u.Beams, false, "there are no beams here"},
		{"prompt_embeds", u.Embeds, false, "prompts are texts or token ids here"},
		{"guided_json", u.GuidedJSON, false, guided},
		{"guided_regex", u.GuidedRegex, false, guided},
		{"guided_choice", u.GuidedChoice, false, guided},
		{"guided_grammar", u.GuidedGrammar, false, guided},
		{"structured_outputs", u.Structured, false, guided},
		{"stop_token_ids", u.StopIDs, false, ids},
		{"return_token_ids", u.ReturnIDs, false, ids},
		{"return_tokens_as_token_ids", u.IDsAsText, false, ids},
		{"truncate_prompt_tokens", u.Truncate, false, "a prompt is taken whole or not at all here"},
		{"continue_final_message", u.Continue, false, "an answer is a message of its own here"},
		{"kv_transfer_params", u.KVTransfer, false, "keys and values are not handed over here"},
		{"priority", u.Priority, false, "requests come in turn: priority scheduling is not enabled"},
		{"audio", u.AudioOut, false, "answers are text here"},
		{"include", u.Include, false, "nothing can be added to a response here"},
	} {
		if asked(f.value, f.zero) {
			return &RequestError{f.name, f.why}
		}
	}
	if n := string(bytes.TrimSpace(u.BestOf)); asked(u.BestOf, false) && n != "1" {
		return &RequestError{"best_of", "only the answers that are sent are made here: use n"}
	}
	for _, m := range u.Modalities {
		if m != "text" {
			return &RequestError{"modalities", fmt.Sprintf("answers are text here, got %q", m)}
		}
	}
	return nil
}

// schemaOf returns the schema that an answer is to follow, "" for none: field is where
// the format stands, inside where that has its schema.
func schemaOf(field string, raw json.RawMessage, inside bool) (string, error) {
	if null(raw) {
		return "", nil
	}
	var w struct {
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"schema"`
		Inside struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	}
	if err := json.Unmarshal(raw, &w); err != nil {
		return "", &RequestError{field, bodyError(err)}
	}
	switch w.Type {
	case "text":
		return "", nil
	case "json_object":
		return `{"type":"object"}`, nil
	case "json_schema":
		schema := w.Schema
		if inside {
			schema = w.Inside.Schema
		}
		if null(schema) {
			return "", &RequestError{field, "a json_schema has a schema"}
		}
		return string(schema), nil
	}
	return "", &RequestError{field, fmt.Sprintf("type must be text, json_object or json_schema, got %q", w.Type)}
}

// efforts are the words for how much a model is to think: those of the APIs and
// engines together, the least first.
var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// checkEffort refuses a word that is none of efforts; "" says nothing.
func checkEffort(field, word string) error {
	if word == "" || slices.Contains(efforts, strings.ToLower(word)) {
		return nil
	}
	return &RequestError{field, fmt.Sprintf("must be one of %s, got %.40q", strings.Join(efforts, ", "), word)}
}

// ParseRequest reads the body of a request to api as a server does. The error
// is a *RequestError.
func ParseRequest(api API, body []byte) (*ServerRequest, error) {
	var w wireRequest
	if err := json.Unmarshal(body, &w); err != nil {
		return nil, &RequestError{Reason: "read request body: " + bodyError(err)}
	}
	if err := w.refuse(); err != nil {
		return nil, err
	}
	r := &ServerRequest{
		Salt: w.Salt, Model: w.Model, Stream: w.Stream,
		IncludeUsage: w.StreamOptions.IncludeUsage, ContinuousUsage: w.StreamOptions.ContinuousUsageStats,
		N: 1, IgnoreEOS: w.IgnoreEOS, Temperature: w.Temperature, Seed: w.Seed,
		Tools: len(w.Tools), ToolChoice: text(w.ToolChoice), Thinking: w.Template.EnableThinking, Effort: w.Effort, KeepStop: w.KeepStop,
	}
	if r.Thinking == nil {
		r.Thinking = w.Template.Thinking
	}
	if err := checkEffort("reasoning_effort", w.Effort); err != nil {
		return nil, err
	}
	for _, t := range w.Tools {
		if name := functionName(api, t); name != "" {
			r.ToolNames = append(r.ToolNames, name)
		}
	}
	if r.ToolChoice == "" && !null(w.ToolChoice) {
		if r.ToolName = functionName(api, w.ToolChoice); r.ToolName == "" {
			return nil, &RequestError{"tool_choice", "must be a word or name a function"}
		}
	}
	limit, field := w.MaxTokens, "max_tokens"
	switch {
	case api == OpenAIResponses:
		limit, field = w.MaxOutputTokens, "max_output_tokens"
	case w.MaxCompletionTokens != nil:
		limit, field = w.MaxCompletionTokens, "max_completion_tokens"
	}
	if limit != nil {
		if *limit < 1 || *limit > 1<<31-1 {
			return nil, &RequestError{field, fmt.Sprintf("must be at least 1, got %d", *limit)}
		}
		r.MaxTokens = int(*limit)
	}
	if w.MinTokens < 0 || r.MaxTokens > 0 && w.MinTokens > int64(r.MaxTokens) || w.MinTokens > 1<<31-1 {
		return nil, &RequestError{"min_tokens", fmt.Sprintf("must be between 0 and %s, got %d", field, w.MinTokens)}
	}
	r.MinTokens = int(w.MinTokens)
	if w.N != nil {
		if *w.N < 1 || *w.N > 128 {
			return nil, &RequestError{"n", fmt.Sprintf("must be between 1 and 128, got %d", *w.N)}
		}
		r.N = int(*w.N)
	}
	if !null(w.Stop) && json.Unmarshal(w.Stop, &r.Stop) != nil {
		var s string
		if json.Unmarshal(w.Stop, &s) != nil {
			return nil, &RequestError{"stop", "must be a string or a list of strings"}
		}
		r.Stop = []string{s}
	}
	var err error
	if r.Schema, err = schemaOf("response_format", w.Response, true); err != nil {
		return nil, err
	}
	switch api {
	case OpenAICompletions:
		err = r.prompts(w.Prompt)
	case OpenAIResponses:
		err = r.response(&w)
	default:
		err = r.chat(&w)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// chat reads the messages of a chat.
func (r *ServerRequest) chat(w *wireRequest) error {
	if len(w.Messages) == 0 {
		return &RequestError{"messages", "must be a list of at least one message"}
	}
	for i, m := range w.Messages {
		t, media, err := contentOf(m.Content)
		if err != nil {
			return &RequestError{fmt.Sprintf("messages[%d].content", i), err.Error()}
		}
		var b strings.Builder // one, because thousands of calls may follow
		b.WriteString(t)
		for _, c := range m.Calls {
			b.WriteString(CallText(c.Function.Name, c.Function.Arguments))
		}
		r.Messages = append(r.Messages, ServerMessage{Role: m.Role, Text: b.String(), Media: media})
	}
	return nil
}

// CallText is how a call of a function stands in the text of a message.
func CallText(name, arguments string) string { return " " + name + arguments }

// functionName returns the name in {"function":{"name":...}}, in the Responses API
// that in {"type":"function","name":...}, "" without one.
func functionName(api API, raw json.RawMessage) string {
	var w struct {
		Type     string `json:"type"`
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if json.Unmarshal(raw, &w) != nil {
		return ""
	}
	if api != OpenAIResponses {
		return w.Function.Name
	}
	if w.Type != "function" {
		return ""
	}
	return w.Name
}

// contentOf reads what a message says: a text, or a list of texts and media.
func contentOf(raw json.RawMessage) (string, []ServerMedia, error) {
	if null(raw) { // an assistant's message that is all tool calls
		return "", nil, nil
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s, nil, nil
	}
	var list []struct {
		Type    string          `json:"type"`
		Text    string          `json:"text"`
		Refusal string          `json:"refusal"`
		Image   json.RawMessage `json:"image_url"`
		Audio   *struct {
			Data   string `json:"data"`
			Format string `json:"format"`
		} `json:"input_audio"`
	}
	if json.Unmarshal(raw, &list) != nil {
		return "", nil, errors.New("must be a string or a list of parts")
	}
	var b strings.Builder
	var media []ServerMedia
	for i := range list {
		p := &list[i]
		var m ServerMedia
		var err error
		switch p.Type {
		case "text", "input_text", "output_text", "refusal", "": // some leave out the type of a text
			b.WriteString(p.Text)
			b.WriteString(p.Refusal)
			continue
		case "image_url", "input_image":
			m, err = imageOf(urlOf(p.Image))
		case "input_audio":
			if p.Audio == nil {
				return "", nil, fmt.Errorf("part %d: input_audio: want data and format", i)
			}
			m, err = soundOf(p.Audio.Data, p.Audio.Format)
		default:
			return "", nil, fmt.Errorf("part %d: type %q is not read here, want text, an image or a sound", i, p.Type)
		}
		if err != nil {
			return "", nil, fmt.Errorf("part %d: %w", i, err)
		}
		m.At = b.Len()
		media = append(media, m)
	}
	return b.String(), media, nil
}

// urlOf reads the place of an image: {"url":...} in a chat, a string in a response.
func urlOf(raw json.RawMessage) string {
	var w struct {
		URL string `json:"url"`
	}
	if json.Unmarshal(raw, &w) == nil {
		return w.URL
	}
	return text(raw)
}

// imageOf reads the size of an image that came inline.
func imageOf(url string) (ServerMedia, error) {
	kind, data, ok := strings.Cut(url, ";base64,")
	if !ok || !strings.HasPrefix(kind, "data:") {
		return ServerMedia{}, errors.New("image_url: nothing is fetched here: send the image as data:TYPE;base64,DATA")
	}
	c, format, err := image.DecodeConfig(base64.NewDecoder(base64.StdEncoding, strings.NewReader(data)))
	if err != nil {
		return ServerMedia{}, fmt.Errorf("image_url: read the image: %w", err)
	}
	return ServerMedia{Media: message.Media{Kind: message.Image, Width: c.Width, Height: c.Height, PNG: format == "png"}, Data: data}, nil
}

// soundOf reads the length of a sound that came inline: WAV whose header stands in
// the usual order.
func soundOf(data, format string) (ServerMedia, error) {
	const header = 44
	b := make([]byte, header)
	if format != "wav" {
		return ServerMedia{}, fmt.Errorf("input_audio: format %q is not read here, want wav", format)
	}
	if _, err := io.ReadFull(base64.NewDecoder(base64.StdEncoding, strings.NewReader(data)), b); err != nil {
		return ServerMedia{}, fmt.Errorf("input_audio: read the sound: %w", err)
	}
	perSecond := binary.LittleEndian.Uint32(b[28:])
	if string(b[:4]) != "RIFF" || string(b[36:40]) != "data" || perSecond == 0 {
		return ServerMedia{}, errors.New("input_audio: it is no WAV file")
	}
	// What is there, whatever the header says.
	bytes := min(int(binary.LittleEndian.Uint32(b[40:])), base64.StdEncoding.DecodedLen(len(data))-header)
	return ServerMedia{Media: message.Media{Kind: message.Audio, Seconds: float64(bytes) / float64(perSecond)}, Data: data}, nil
}

// prompts reads the four forms of a prompt: a text, token ids, or a list of
// either.
func (r *ServerRequest) prompts(raw json.RawMessage) error {
	raw = bytes.TrimSpace(raw)
	var one string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &one) == nil {
		r.Prompts, r.PromptTokens = []string{one}, []int{0}
		return nil
	}
	var texts []string
	if len(raw) > 0 && raw[0] == '[' && json.Unmarshal(raw, &texts) == nil && len(texts) > 0 {
		r.Prompts, r.PromptTokens = texts, make([]int, len(texts))
		return nil
	}
	var ids []int64
	if json.Unmarshal(raw, &ids) == nil && len(ids) > 0 {
		r.Prompts, r.PromptTokens = []string{""}, []int{len(ids)}
		return nil
	}
	var lists [][]int64
	if json.Unmarshal(raw, &lists) == nil && len(lists) > 0 {
		for _, l := range lists {
			r.Prompts, r.PromptTokens = append(r.Prompts, ""), append(r.PromptTokens, len(l))
		}
		return nil
	}
	return &RequestError{"prompt", "must be a text, token ids, or a list of either"}
}
