package dialect

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"plimsoll/internal/message"
)

// APIs lists the APIs that this build speaks.
func APIs() []API { return []API{OpenAIChat, OpenAICompletions, OpenAIResponses} }

// Path is the API's path below the root of a server, "" for an unknown API.
func (a API) Path() string {
	switch a {
	case OpenAIChat:
		return "/v1/chat/completions"
	case OpenAICompletions:
		return "/v1/completions"
	case OpenAIResponses:
		return "/v1/responses"
	}
	return ""
}

// AppendRequest appends the body of req for api to dst. Neighbouring parts of
// one role are one message, but each call and each result of a tool is one of its
// own; completions get all parts as one text, and know neither media nor tools.
// Media come inline, as data URLs and base64. Where two
// texts meet without white space between them, one space keeps their words
// apart. The fields come in a fixed order, those of o.Extra last and sorted:
// they replace fields of the same name, and one that is nil leaves its field
// out. max_completion_tokens in o.Extra also replaces max_tokens. r makes the
// text of parts that have none and may be nil when all have; media need a
// message.MediaRenderer. The body is valid UTF-8 whatever the texts hold.
func AppendRequest(dst []byte, api API, req *message.Request, r message.Renderer, o *Options) ([]byte, error) {
	if api.Path() == "" {
		return dst, fmt.Errorf("make request body: API %q is not known, want one of %q", api, APIs())
	}
	if api == OpenAICompletions && req.Body == "" {
		if err := onlyText(api, req); err != nil {
			return dst, err
		}
	}
	w := bodyWriter{dst: append(dst, '{'), extra: o.Extra}
	if (req.Body == "" || o.Model != "") && w.field("model") {
		w.dst = appendQuoted(w.dst, o.Model)
	}
	var err error
	switch {
	case req.Body != "":
		err = w.given(req.Body, req.Exact, o)
	case api == OpenAIResponses:
		err = w.appendResponse(req, r, o)
	case api == OpenAIChat:
		if w.field("messages") {
			w.dst, err = appendMessages(w.dst, req.Parts, r)
		}
	case w.field("prompt"):
		w.dst = append(w.dst, '"')
		w.dst, err = appendParts(w.dst, req.Parts, r)
		w.dst = append(w.dst, '"')
	}
	if err != nil {
		return dst, err
	}
	renamed := api == OpenAIResponses // its fields have names of their own
	if _, other := o.Extra["max_completion_tokens"]; other {
		renamed = true
	}
	typed := api != OpenAIResponses
	if req.MaxTokens > 0 && !renamed && !w.have["max_completion_tokens"] && w.field("max_tokens") {
		w.dst = appendInt(w.dst, int64(req.MaxTokens))
	}
	if typed && req.Choices > 1 && w.field("n") {
		w.dst = appendInt(w.dst, int64(req.Choices))
	}
	if typed && req.ReasoningEffort != "" && w.field("reasoning_effort") {
		w.dst = appendQuoted(w.dst, req.ReasoningEffort)
	}
	if typed && req.ResponseSchema != "" && w.field("response_format") {
		if !json.Valid([]byte(req.ResponseSchema)) {
			return dst, fmt.Errorf("make request body: the schema of the answer is not JSON: %q", req.ResponseSchema)
		}
		w.dst = append(w.dst, `{"type":"json_schema","json_schema":{"name":"answer","schema":`...)
		w.dst = append(w.dst, req.ResponseSchema...)
		w.dst = append(w.dst, "}}"...)
	}
	if typed && len(req.Tools) > 0 && w.field("tools") {
		if w.dst, err = appendTools(w.dst, req.Tools, false); err != nil {
			return dst, err
		}
	}
	if len(req.Tools) > 0 && req.ToolChoice != "" && w.field("tool_choice") {
		w.dst = appendQuoted(w.dst, req.ToolChoice)
	}
	if o.Temperature != nil && w.field("temperature") {
		if math.IsNaN(*o.Temperature) || math.IsInf(*o.Temperature, 0) {
			return dst, fmt.Errorf("make request body: temperature %v, want a finite number", *o.Temperature)
		}
		w.dst = strconv.AppendFloat(w.dst, *o.Temperature, 'g', -1, 64)
	}
	if o.Stream && w.field("stream") {
		w.dst = append(w.dst, "true"...)
	}
	if typed && o.Stream && (o.Usage || o.RunningUsage) && w.field("stream_options") {
		w.dst = append(w.dst, `{"include_usage":true`...)
		if o.RunningUsage {
			w.dst = append(w.dst, `,"continuous_usage_stats":true`...)
		}
		w.dst = append(w.dst, '}')
	}
	if exact := req.Exact || o.IgnoreEOS; exact {
		if w.field("ignore_eos") {
			w.dst = append(w.dst, "true"...)
		}
		if req.MaxTokens > 0 && w.field("min_tokens") {
			w.dst = appendInt(w.dst, int64(req.MaxTokens))
		}
	}
	if len(o.Extra) > 0 {
		for _, k := range slices.Sorted(maps.Keys(o.Extra)) {
			v := o.Extra[k]
			if v == nil {
				continue
			}
			b, err := json.Marshal(v)
			if err != nil {
				return dst, fmt.Errorf("make request body: extra field %q: %w", k, err)
			}
			w.comma()
			w.dst = appendQuoted(w.dst, k)
			w.dst = append(w.dst, ':')
			w.dst = append(w.dst, b...)
		}
	}
	return append(w.dst, '}'), nil
}

type bodyWriter struct {
	dst   []byte
	extra map[string]any
	have  map[string]bool // fields of a given body
	some  bool
}

func (w *bodyWriter) comma() {
	if w.some {
		w.dst = append(w.dst, ',')
	}
	w.some = true
}

// field begins a field unless an extra field takes its place.
func (w *bodyWriter) field(name string) bool {
	if _, replaced := w.extra[name]; replaced || w.have[name] {
		return false
	}
	w.comma()
	w.dst = append(w.dst, '"')
	w.dst = append(w.dst, name...)
	w.dst = append(w.dst, '"', ':')
	return true
}

// onlyText says what of a request an API of plain text has no form for.
func onlyText(api API, req *message.Request) error {
	if len(req.Tools) > 0 {
		return fmt.Errorf("make request body: %s has no tools: use %s", api, OpenAIChat)
	}
	for i := range req.Parts {
		switch p := &req.Parts[i]; {
		case p.Media != nil:
			return fmt.Errorf("make request body: %s has no place for an %s: use %s", api, p.Media.Kind, OpenAIChat)
		case len(p.Calls) > 0 || p.CallID != "":
			return fmt.Errorf("make request body: %s has no tools: use %s", api, OpenAIChat)
		}
	}
	return nil
}

// messageEnd returns where the message ends that begins with part i.
func messageEnd(parts []message.Part, i int) int {
	alone := func(p *message.Part) bool { return len(p.Calls) > 0 || p.CallID != "" }
	j := i + 1
	for !alone(&parts[i]) && j < len(parts) && parts[j].Role == parts[i].Role && !alone(&parts[j]) {
		j++
	}
	return j
}

func appendMessages(dst []byte, parts []message.Part, r message.Renderer) ([]byte, error) {
	dst = append(dst, '[')
	for i := 0; i < len(parts); {
		j := messageEnd(parts, i)
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"role":"`...)
		dst = append(dst, parts[i].Role.String()...)
		dst = append(dst, '"')
		if id := parts[i].CallID; id != "" {
			dst = appendQuoted(append(dst, `,"tool_call_id":`...), id)
		}
		dst = append(dst, `,"content":`...)
		var err error
		switch calls := parts[i].Calls; {
		case len(calls) > 0:
			if parts[i].Text == "" {
				dst = append(dst, "null"...)
			} else {
				dst = appendQuoted(dst, parts[i].Text)
			}
			dst = appendCalls(dst, calls)
		case hasMedia(parts[i:j]):
			dst, err = appendContents(dst, parts[i:j], r, false)
		default:
			dst = append(dst, '"')
			dst, err = appendParts(dst, parts[i:j], r)
			dst = append(dst, '"')
		}
		if err != nil {
			return dst, err
		}
		dst = append(dst, '}')
		i = j
	}
	return append(dst, ']'), nil
}

// appendCalls appends the tools that an assistant called.
func appendCalls(dst []byte, calls []message.Call) []byte {
	dst = append(dst, `,"tool_calls":[`...)
	for i := range calls {
		if i > 0 {
			dst = append(dst, ',')
		}
		c := &calls[i]
		dst = appendQuoted(append(dst, `{"id":`...), c.ID)
		dst = appendQuoted(append(dst, `,"type":"function","function":{"name":`...), c.Name)
		dst = appendQuoted(append(dst, `,"arguments":`...), c.Arguments)
		dst = append(dst, "}}"...)
	}
	return append(dst, ']')
}

// appendTools appends what a model may call; flat is the form of the Responses API.
func appendTools(dst []byte, tools []message.Function, flat bool) ([]byte, error) {
	dst = append(dst, '[')
	for i := range tools {
		if i > 0 {
			dst = append(dst, ',')
		}
		t := &tools[i]
		dst = append(dst, `{"type":"function",`...)
		if !flat {
			dst = append(dst, `"function":{`...)
		}
		dst = appendQuoted(append(dst, `"name":`...), t.Name)
		if t.Description != "" {
			dst = appendQuoted(append(dst, `,"description":`...), t.Description)
		}
		if t.Parameters != "" {
			if !json.Valid([]byte(t.Parameters)) {
				return dst, fmt.Errorf("make request body: the parameters of tool %q are not JSON: %q", t.Name, t.Parameters)
			}
			dst = append(append(dst, `,"parameters":`...), t.Parameters...)
		}
		if dst = append(dst, '}'); !flat {
			dst = append(dst, '}')
		}
	}
	return append(dst, ']'), nil
}

func hasMedia(parts []message.Part) bool {
	return slices.ContainsFunc(parts, func(p message.Part) bool { return p.Media != nil })
}

// appendContents appends a message as a list: texts, images, sounds. Typed is the form
// of the Responses API, whose texts and images are those of an input.
func appendContents(dst []byte, parts []message.Part, r message.Renderer, typed bool) ([]byte, error) {
	image, imageEnd, words := `{"type":"image_url","image_url":{"url":"data:`, `"}}`, `{"type":"text","text":"`
	if typed {
		image, imageEnd, words = `{"type":"input_image","image_url":"data:`, `"}`, `{"type":"input_text","text":"`
	}
	dst = append(dst, '[')
	for i := 0; i < len(parts); {
		if i > 0 {
			dst = append(dst, ',')
		}
		if m := parts[i].Media; m != nil {
			made, ok := r.(message.MediaRenderer)
			if !ok {
				return dst, fmt.Errorf("make request body: part %d is an %s and nothing renders media", i, m.Kind)
			}
			if m.Kind == message.Audio {
				dst = made.AppendMedia(append(dst, `{"type":"input_audio","input_audio":{"data":"`...), m)
				dst = append(dst, `","format":"wav"}}`...)
			} else {
				dst = append(append(dst, image...), m.Type()...)
				dst = made.AppendMedia(append(dst, ";base64,"...), m)
				dst = append(dst, imageEnd...)
			}
			i++
			continue
		}
		j := i + 1
		for j < len(parts) && parts[j].Media == nil {
			j++
		}
		dst = append(dst, words...)
		var err error
		if dst, err = appendParts(dst, parts[i:j], r); err != nil {
			return dst, err
		}
		dst = append(dst, `"}`...)
		i = j
	}
	return append(dst, ']'), nil
}

// appendParts appends the texts of parts, joined and escaped.
func appendParts(dst []byte, parts []message.Part, r message.Renderer) ([]byte, error) {
	start := len(dst)
	for i := range parts {
		p := &parts[i]
		seam := len(dst)
		if p.Text != "" {
			dst = appendEscaped(dst, p.Text)
		} else if p.Tokens > 0 || p.Generator != "" {
			if r == nil {
				return dst, fmt.Errorf("make request body: part %d has no text and nothing renders generator %q", i, p.Generator)
			}
			dst = r.AppendText(dst, p)
			if needsEscape(dst[seam:]) {
				raw := string(dst[seam:])
				dst = appendEscaped(dst[:seam], raw)
			}
		}
		if seam > start && len(dst) > seam && !spaceBefore(dst[start:seam]) && !spaceAfter(dst[seam:]) {
			dst = append(dst, 0)
			copy(dst[seam+1:], dst[seam:])
			dst[seam] = ' '
		}
	}
	return dst, nil
}

// spaceBefore reports whether the escaped text b ends with white space,
// spaceAfter whether it begins with it.
func spaceBefore(b []byte) bool {
	n := len(b)
	return b[n-1] == ' ' || n >= 2 && b[n-2] == '\\' && (b[n-1] == 'n' || b[n-1] == 't' || b[n-1] == 'r')
}

func spaceAfter(b []byte) bool {
	return b[0] == ' ' || len(b) >= 2 && b[0] == '\\' && (b[1] == 'n' || b[1] == 't' || b[1] == 'r')
}
