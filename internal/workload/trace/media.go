package trace

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"plimsoll/internal/message"
)

// contentPart is one piece of a message's content.
type contentPart struct {
	Type       string          `json:"type"`
	Text       string          `json:"text"`
	Content    json.RawMessage `json:"content"`
	ImageURL   json.RawMessage `json:"image_url"`
	InputImage json.RawMessage `json:"input_image"`
	VideoURL   json.RawMessage `json:"video_url"`
	AudioURL   json.RawMessage `json:"audio_url"`
	File       json.RawMessage `json:"file"`
	FileURL    json.RawMessage `json:"file_url"`
	Source     json.RawMessage `json:"source"`
	Image      json.RawMessage `json:"image"`
	URL        json.RawMessage `json:"url"`
}

// reference returns the address in a field that holds one, as a text or as an
// object with a url.
func reference(b json.RawMessage) (string, bool) {
	if len(b) == 0 || string(b) == "null" {
		return "", false
	}
	var s string
	if json.Unmarshal(b, &s) == nil {
		return s, true
	}
	var o struct {
		URL      *string `json:"url"`
		FileURI  *string `json:"file_uri"`
		FileData *string `json:"file_data"`
		Path     *string `json:"path"`
	}
	if json.Unmarshal(b, &o) != nil {
		return "", false
	}
	for _, p := range []*string{o.URL, o.FileURI, o.Path, o.FileData} {
		if p != nil {
			return *p, true
		}
	}
	return "", false
}

// said is what a message says: its text, how many pictures come with it, and the
// types of the parts that are neither.
type said struct {
	text   string
	images int
	others []string
}

// content reads what a message says.
func (r *Reader) content(line int, b json.RawMessage) (out said, err error) {
	if len(b) == 0 || string(b) == "null" {
		return out, nil
	}
	if json.Unmarshal(b, &out.text) == nil {
		return out, nil
	}
	var parts []contentPart
	var raw []json.RawMessage
	if json.Unmarshal(b, &parts) != nil || json.Unmarshal(b, &raw) != nil {
		return out, r.bad(line, "content", "type", "is neither a text nor a list of parts")
	}
	var sb strings.Builder
	for i := range parts {
		p := &parts[i]
		images := 0
		for _, f := range []struct {
			name  string
			value json.RawMessage
			image bool
		}{
			{"image_url", p.ImageURL, true},
			{"input_image", p.InputImage, true},
			{"image", p.Image, true},
			{"video_url", p.VideoURL, false},
			{"audio_url", p.AudioURL, false},
			{"file", p.File, false},
			{"file_url", p.FileURL, false},
			{"source", p.Source, p.Type == "image"},
			{"url", p.URL, false},
		} {
			ref, ok := reference(f.value)
			if f.image && len(f.value) > 0 {
				images++
			}
			if ok {
				if err := r.refuse(line, f.name, ref); err != nil {
					return out, err
				}
			}
		}
		if err := r.references(line, "content", raw[i]); err != nil {
			return out, err
		}
		text := p.Text
		if text == "" && len(p.Content) > 0 {
			// The result of a tool, or a part of a span.
			in, err := r.content(line, p.Content)
			if err != nil {
				return out, err
			}
			text, images = in.text, images+in.images
			out.others = append(out.others, in.others...)
		}
		if images == 0 && text == "" && !isText(p.Type) {
			out.others = append(out.others, p.Type)
		}
		out.images += images
		if text != "" {
			if sb.Len() > 0 {
				sb.WriteByte('\n')
			}
			sb.WriteString(text)
		}
	}
	out.text = sb.String()
	return out, nil
}

// isText says whether a part of this type is words, which may be none.
func isText(kind string) bool {
	return kind == "" || kind == "text" || kind == "input_text" || kind == "output_text" || kind == "tool_result"
}

// parameters are fields of a request's body that rows of text have too, where nothing
// carries them: a run says these itself.
var parameters = strings.Fields(`temperature top_p top_k min_p seed stop n logprobs top_logprobs presence_penalty frequency_penalty
	repetition_penalty logit_bias min_tokens ignore_eos response_format guided_json guided_regex guided_choice guided_grammar
	structured_outputs tool_choice parallel_tool_calls reasoning_effort reasoning modalities chat_template_kwargs extra_body extra`)

// beside looks at what stands beside the text of a row: pictures and the like, which
// are checked and counted, and parameters of the request, which are counted.
func (r *Reader) beside(rec *Record, b []byte) error {
	row, err := r.parameters(rec, b)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(row)) {
		v := row[name]
		if !media(name) || string(v) == "null" {
			continue
		}
		if err := r.references(rec.Line, name, v); err != nil {
			return err
		}
		n := 1
		var list []json.RawMessage
		if json.Unmarshal(v, &list) == nil {
			n = len(list)
		}
		if strings.HasPrefix(name, "im") || strings.HasPrefix(name, "pic") || strings.HasPrefix(name, "photo") {
			rec.Images += n
		} else if n > 0 {
			rec.Unsent = append(rec.Unsent, name)
		}
	}
	return nil
}

// parameters counts the parameters of a request that a row has, and returns its fields.
func (r *Reader) parameters(rec *Record, b []byte) (row map[string]json.RawMessage, err error) {
	if err := r.unmarshal(rec.Line, b, &row); err != nil {
		return nil, err
	}
	for _, name := range parameters {
		if v, ok := row[name]; ok && string(v) != "null" {
			rec.Unsent = append(rec.Unsent, name)
		}
	}
	return row, nil
}

// wordless refuses a record of which nothing is left to send: it has neither text
// nor a length. One of pictures alone has something, if a run makes pictures. field
// is where the text should be.
func (r *Reader) wordless(rec *Record, field string) error {
	if !rec.hasNothing() || rec.Images > 0 {
		return nil
	}
	text := "is empty: nothing of the row would be sent"
	if len(rec.Unsent) > 0 {
		text = "has no text: nothing of the row would be sent, for " + strings.Join(slices.Compact(slices.Sorted(slices.Values(rec.Unsent))), ", ") + " is not"
	}
	return r.bad(rec.Line, field, "missing", text)
}

// chatMessage is one message in the form of the chat APIs.
type chatMessage struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls json.RawMessage `json:"tool_calls"`
	// Parts is how one API spells the content.
	Parts json.RawMessage `json:"parts"`
}

// roleOf returns the role of a name, in any of the styles that data sets have.
func roleOf(name string) (message.Role, bool) {
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "user", "human", "prompter", "input":
		return message.User, true
	case "assistant", "gpt", "chatgpt", "bing", "bard", "model", "ai", "bot", "output", "chatbot":
		return message.Assistant, true
	case "system", "developer":
		return message.System, true
	case "tool", "function", "function_response", "observation":
		return message.Tool, true
	}
	return message.User, false
}

// messages reads a list of messages into rec.
func (r *Reader) messages(rec *Record, b json.RawMessage) error {
	var list []chatMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return r.bad(rec.Line, "messages", "type", "is not a list of messages with role and content")
	}
	if len(list) == 0 {
		return r.bad(rec.Line, "messages", "missing", "is empty")
	}
	for i := range list {
		m := &list[i]
		role, ok := roleOf(m.Role)
		if !ok {
			return r.bad(rec.Line, "messages.role", "role", shown(m.Role)+" is no role, want system, user, assistant or tool")
		}
		body := m.Content
		if len(body) == 0 {
			body = m.Parts
		}
		if (len(body) == 0 || string(body) == "null") && role != message.Assistant {
			return r.bad(rec.Line, "messages.content", "missing", fmt.Sprintf("of message %d (%s) is missing", i+1, m.Role))
		}
		c, err := r.content(rec.Line, body)
		if err != nil {
			return err
		}
		if c.text == "" && len(m.ToolCalls) > 0 && string(m.ToolCalls) != "null" {
			c.text = string(m.ToolCalls)
		}
		rec.Images += c.images
		rec.Unsent = append(rec.Unsent, c.others...)
		rec.Messages = append(rec.Messages, Message{Role: role, Text: c.text})
	}
	return nil
}
