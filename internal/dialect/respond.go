package dialect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// responsesFields are the fields of the Responses API that others do not have.
type responsesFields struct {
	Input           json.RawMessage `json:"input"`
	Instructions    *string         `json:"instructions"`
	MaxOutputTokens *int64          `json:"max_output_tokens"`
	Previous        *string         `json:"previous_response_id"`
	Store           *bool           `json:"store"`
	Reasoning       json.RawMessage `json:"reasoning"`
	Format          json.RawMessage `json:"text"`
	Metadata        json.RawMessage `json:"metadata"`
	TopP            *float64        `json:"top_p"`
	Background      bool            `json:"background"`
	Conversation    json.RawMessage `json:"conversation"`
}

// response reads what is of the Responses API alone.
func (r *ServerRequest) response(w *wireRequest) error {
	switch {
	case r.N > 1:
		return &RequestError{"n", "a response is one answer"}
	case w.Background:
		return &RequestError{"background", "a response is made while its client waits, not in the background"}
	case !null(w.Conversation):
		return &RequestError{"conversation", "no conversations are kept here: name the response before with previous_response_id"}
	case !null(w.Prompt):
		return &RequestError{"prompt", "prompt template is not supported"}
	}
	r.Store = w.Store == nil || *w.Store
	if w.Instructions != nil {
		r.Instructions = *w.Instructions
	}
	if w.Previous != nil {
		r.Previous = *w.Previous
	}
	if !null(w.Reasoning) {
		var reasoning struct {
			Effort string `json:"effort"`
		}
		if err := json.Unmarshal(w.Reasoning, &reasoning); err != nil {
			return &RequestError{"reasoning", bodyError(err)}
		}
		if err := checkEffort("reasoning.effort", reasoning.Effort); err != nil {
			return err
		}
		r.Effort = reasoning.Effort
	}
	if len(r.ToolNames) < r.Tools {
		return &RequestError{"tools", "only functions with a name can be called here"}
	}
	if !null(w.Format) {
		var text struct {
			Format json.RawMessage `json:"format"`
		}
		if err := json.Unmarshal(w.Format, &text); err != nil {
			return &RequestError{"text", bodyError(err)}
		}
		var err error
		if r.Schema, err = schemaOf("text.format", text.Format, false); err != nil {
			return err
		}
	}
	r.Echo = echo(w)
	return r.items(w.Input)
}

// items reads an input: a text, or a list of messages, calls and what came of them.
func (r *ServerRequest) items(raw json.RawMessage) error {
	raw = bytes.TrimSpace(raw)
	if len(raw) > 0 && raw[0] == '"' {
		r.Messages = []ServerMessage{{Role: "user", Text: text(raw)}}
		return nil
	}
	var list []struct {
		Type      string          `json:"type"`
		Role      string          `json:"role"`
		Content   json.RawMessage `json:"content"`
		Name      string          `json:"name"`
		Arguments string          `json:"arguments"`
		CallID    string          `json:"call_id"`
		Output    json.RawMessage `json:"output"`
	}
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return &RequestError{"input", "must be a text or a list of at least one item"}
	}
	var said strings.Builder // a message with the calls behind it, which may be thousands
	finish := func() {
		if said.Len() > 0 {
			r.Messages[len(r.Messages)-1].Text = said.String()
			said.Reset()
		}
	}
	for i := range list {
		item := &list[i]
		at := func(field string) string { return fmt.Sprintf("input[%d].%s", i, field) }
		m := ServerMessage{Role: item.Role}
		var err error
		field := "content"
		switch item.Type {
		case "message", "":
			switch item.Role {
			case "user", "assistant", "system", "developer":
			default:
				return &RequestError{at("role"), fmt.Sprintf("must be user, assistant, system or developer, got %q", item.Role)}
			}
			m.Text, m.Media, err = contentOf(item.Content)
		case "function_call":
			if item.Name == "" || item.CallID == "" {
				return &RequestError{at("type"), "a function_call has a name and a call_id"}
			}
			call := CallText(item.Name, item.Arguments)
			// Calls are of the message before them, as in a chat.
			if n := len(r.Messages); n > 0 && r.Messages[n-1].Role == "assistant" {
				if said.Len() == 0 {
					said.WriteString(r.Messages[n-1].Text)
				}
				said.WriteString(call)
				continue
			}
			m.Role, m.Text = "assistant", call
		case "function_call_output":
			if item.CallID == "" {
				return &RequestError{at("call_id"), "must name the call that the output is of"}
			}
			m.Role, field = "tool", "output"
			m.Text, m.Media, err = contentOf(item.Output)
		case "reasoning": // templates leave out what was thought before
			continue
		default:
			return &RequestError{at("type"), fmt.Sprintf("%q is not read here, want message, function_call, function_call_output or reasoning", item.Type)}
		}
		if err != nil {
			return &RequestError{at(field), err.Error()}
		}
		finish()
		r.Messages = append(r.Messages, m)
	}
	finish()
	if len(r.Messages) == 0 {
		return &RequestError{"input", "must hold more than reasoning"}
	}
	return nil
}

// echo returns the fields of a request that its response repeats.
func echo(w *wireRequest) string {
	var b []byte
	field := func(name string, value any, otherwise string) {
		if b != nil {
			b = append(b, ',')
		}
		b = append(appendQuoted(b, name), ':')
		if raw, ok := value.(json.RawMessage); ok && null(raw) {
			b = append(b, otherwise...)
			return
		}
		v, err := json.Marshal(value)
		if err != nil {
			panic("BUG: what was read as JSON cannot be written: " + err.Error())
		}
		if string(v) == "null" {
			v = []byte(otherwise)
		}
		b = append(b, v...)
	}
	field("instructions", w.Instructions, "null")
	field("max_output_tokens", w.MaxOutputTokens, "null")
	field("metadata", w.Metadata, "{}")
	field("parallel_tool_calls", true, "")
	field("previous_response_id", w.Previous, "null")
	field("reasoning", w.Reasoning, "null")
	field("store", w.Store, "true")
	field("temperature", w.Temperature, "1")
	field("text", w.Format, `{"format":{"type":"text"}}`)
	field("tool_choice", w.ToolChoice, `"auto"`)
	field("tools", w.Tools, "[]")
	field("top_p", w.TopP, "1")
	field("truncation", "disabled", "")
	return string(b)
}

// responding is the state of a stream of the Responses API: events have numbers, and
// what was said is said again at the end of each item and of the whole.
type responding struct {
	echo string
	// suffix is what the ids of its items end with, before their number.
	suffix string
	seq    int64
	// item is the number of the item under way, kind what it is, "" for none; id is its
	// id, call what it calls, text what it has said.
	item int
	kind itemKind
	id   string
	call Call
	text []byte
	// output holds the items that have ended.
	output []byte
	finish string
}

// itemKind is what an item of an output is, by the beginning of its id.
type itemKind string

const (
	noItem        itemKind = ""
	itemReasoning itemKind = "rs_"
	itemMessage   itemKind = "msg_"
	itemCall      itemKind = "fc_"
)

// NewResponseWriter returns a writer for one answer of the Responses API with that id;
// created is in Unix seconds, echo what the request has the response repeat
// (ServerRequest.Echo). Its answer has one choice.
func NewResponseWriter(id, model string, created int64, echo string) *Writer {
	w := NewWriter(OpenAIResponses, id, model, created)
	w.r = &responding{echo: echo, suffix: strings.TrimPrefix(id, "resp_") + "-"}
	return w
}

// AppendCreated appends the events at the start of a stream, before there is any
// output; only the Responses API has some.
func (w *Writer) AppendCreated(dst []byte) []byte {
	if w.r == nil {
		return dst
	}
	for _, name := range [...]string{"response.created", "response.in_progress"} {
		dst = w.r.event(dst, name)
		dst = w.appendResponse(append(dst, `,"response":`...), nil)
		dst = append(dst, "}\n\n"...)
	}
	return dst
}

// event begins an event.
func (r *responding) event(dst []byte, name string) []byte {
	dst = append(append(dst, "event: "...), name...)
	dst = append(append(append(dst, "\ndata: {\"type\":\""...), name...), `","sequence_number":`...)
	dst = appendInt(dst, r.seq)
	r.seq++
	return dst
}

// place appends where in the output an event belongs.
func (r *responding) place(dst []byte) []byte {
	dst = appendInt(append(dst, `,"output_index":`...), int64(r.item))
	return appendQuoted(append(dst, `,"item_id":`...), r.id)
}

// part begins an event of the part of an item.
func (r *responding) part(dst []byte, name string) []byte {
	dst = r.place(r.event(dst, name))
	if r.kind != itemCall {
		dst = append(dst, `,"content_index":0`...)
	}
	return dst
}

// say appends a piece of text to an item, and begins it where it is another than the
// one before.
func (w *Writer) say(dst []byte, kind itemKind, text string) []byte {
	r := w.r
	if r.kind != kind {
		dst = w.openItem(dst, kind, Call{})
	}
	if text == "" {
		return dst
	}
	name := "response.output_text.delta"
	switch kind {
	case itemReasoning:
		name = "response.reasoning_text.delta"
	case itemCall:
		name = "response.function_call_arguments.delta"
	case itemMessage, noItem:
	}
	dst = r.part(dst, name)
	dst = appendQuoted(append(dst, `,"delta":`...), text)
	if kind == itemMessage {
		dst = append(dst, `,"logprobs":[]`...)
	}
	r.text = append(r.text, text...)
	return append(dst, "}\n\n"...)
}

// openItem ends the item before and begins another.
func (w *Writer) openItem(dst []byte, kind itemKind, call Call) []byte {
	dst = w.closeItem(dst, "completed")
	r := w.r
	r.begin(kind, call)
	dst = appendInt(append(r.event(dst, "response.output_item.added"), `,"output_index":`...), int64(r.item))
	dst = append(r.appendItem(append(dst, `,"item":`...), "in_progress", false), "}\n\n"...)
	switch kind {
	case itemReasoning:
		dst = append(r.part(dst, "response.reasoning_part.added"), `,"part":{"type":"reasoning_text","text":""}}`+"\n\n"...)
	case itemMessage:
		dst = append(r.part(dst, "response.content_part.added"), `,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}`+"\n\n"...)
	case itemCall, noItem:
	}
	return dst
}

// begin makes kind the item under way.
func (r *responding) begin(kind itemKind, call Call) {
	r.kind, r.call, r.text = kind, call, r.text[:0]
	r.id = string(kind) + r.suffix + strconv.Itoa(r.item)
}

// closeItem ends the item under way, if there is one.
func (w *Writer) closeItem(dst []byte, status string) []byte {
	r := w.r
	text := func(name, field string) {
		dst = appendQuoted(append(append(append(r.part(dst, name), `,"`...), field...), `":`...), string(r.text))
		if r.kind == itemMessage {
			dst = append(dst, `,"logprobs":[]`...)
		}
		dst = append(dst, "}\n\n"...)
	}
	switch r.kind {
	case noItem:
		return dst
	case itemReasoning:
		text("response.reasoning_text.done", "text")
		dst = append(r.appendPart(append(r.part(dst, "response.reasoning_part.done"), `,"part":`...)), "}\n\n"...)
	case itemMessage:
		text("response.output_text.done", "text")
		dst = append(r.appendPart(append(r.part(dst, "response.content_part.done"), `,"part":`...)), "}\n\n"...)
	case itemCall:
		text("response.function_call_arguments.done", "arguments")
	}
	dst = appendInt(append(r.event(dst, "response.output_item.done"), `,"output_index":`...), int64(r.item))
	dst = append(r.appendItem(append(dst, `,"item":`...), status, true), "}\n\n"...)
	r.end(status)
	return dst
}

// end puts the item under way into the output.
func (r *responding) end(status string) {
	if r.item > 0 {
		r.output = append(r.output, ',')
	}
	r.output = r.appendItem(r.output, status, true)
	r.kind, r.item = noItem, r.item+1
}

// appendPart appends the text of the item under way as its only part.
func (r *responding) appendPart(dst []byte) []byte {
	if r.kind == itemReasoning {
		return append(appendQuoted(append(dst, `{"type":"reasoning_text","text":`...), string(r.text)), '}')
	}
	return append(appendQuoted(append(dst, `{"type":"output_text","annotations":[],"logprobs":[],"text":`...), string(r.text)), '}')
}

// appendItem appends the item under way, with what it has said.
func (r *responding) appendItem(dst []byte, status string, whole bool) []byte {
	dst = appendQuoted(append(dst, `{"id":`...), r.id)
	dst = appendQuoted(append(dst, `,"status":`...), status)
	switch r.kind {
	case itemCall:
		dst = appendQuoted(append(dst, `,"type":"function_call","call_id":`...), r.call.ID)
		dst = appendQuoted(append(dst, `,"name":`...), r.call.Name)
		return append(appendQuoted(append(dst, `,"arguments":`...), string(r.text)), '}')
	case itemReasoning:
		dst = append(dst, `,"type":"reasoning","summary":[],"content":[`...)
	case itemMessage, noItem:
		dst = append(dst, `,"type":"message","role":"assistant","content":[`...)
	}
	if whole {
		dst = r.appendPart(dst)
	}
	return append(dst, ']', '}')
}

// status is how a response ended that gives that reason.
func (r *responding) status() string {
	if r.finish == "length" {
		return "incomplete"
	}
	return "completed"
}

// ended notes the reason of the end, and ends the item under way.
func (w *Writer) ended(dst []byte, finish string) []byte {
	w.r.finish = finish
	return w.closeItem(dst, w.r.status())
}

// appendResponse appends the response as it is: under way without u.
func (w *Writer) appendResponse(dst []byte, u *WriterUsage) []byte {
	r := w.r
	dst = append(append(append(dst, `{"id":`...), w.id...), `,"object":"response"`...)
	dst = append(dst, w.tail...)
	status := "in_progress"
	if u != nil {
		status = r.status()
	}
	dst = appendQuoted(append(dst, `,"status":`...), status)
	if dst = append(dst, `,"background":false,"error":null,"incomplete_details":`...); status == "incomplete" {
		dst = append(dst, `{"reason":"max_output_tokens"}`...)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(append(dst, ','), r.echo...)
	dst = append(append(append(dst, `,"output":[`...), r.output...), `],"usage":`...)
	if u == nil {
		return append(dst, "null}"...)
	}
	dst = appendInt(append(dst, `{"input_tokens":`...), int64(u.Prompt))
	dst = appendInt(append(dst, `,"input_tokens_details":{"cached_tokens":`...), int64(max(0, u.Cached)))
	dst = appendInt(append(dst, `},"output_tokens":`...), int64(u.Completion))
	dst = appendInt(append(dst, `,"output_tokens_details":{"reasoning_tokens":`...), int64(max(0, u.Reasoning)))
	dst = appendInt(append(dst, `},"total_tokens":`...), int64(u.Prompt+u.Completion))
	return append(dst, "}}"...)
}

// conclude appends the last event of a stream.
func (w *Writer) conclude(dst []byte, u *WriterUsage) []byte {
	dst = w.r.event(dst, "response."+w.r.status())
	return append(w.appendResponse(append(dst, `,"response":`...), u), "}\n\n"...)
}

// appendWhole appends a response that is not a stream.
func (w *Writer) appendWhole(dst []byte, a *Answer, u *WriterUsage) []byte {
	r := w.r
	r.finish = a.Finish
	add := func(kind itemKind, call Call, text string) {
		if r.kind != noItem {
			r.end("completed")
		}
		r.begin(kind, call)
		r.text = append(r.text, text...)
	}
	if a.Reasoning != "" {
		add(itemReasoning, Call{}, a.Reasoning)
	}
	if a.Text != "" || a.Reasoning == "" && len(a.Calls) == 0 {
		add(itemMessage, Call{}, a.Text)
	}
	for _, c := range a.Calls {
		add(itemCall, c, c.Arguments)
	}
	r.end(r.status())
	return w.appendResponse(dst, u)
}
