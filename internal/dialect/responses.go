package dialect

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"plimsoll/internal/message"
	"plimsoll/internal/record"
)

// The Responses API names its events by type, within the data and beside it, keeps
// answers for those who refer to them by id, and ends with an event that has the
// account.

// appendResponse appends the fields of a request of the Responses API. Of a request
// with Previous only the parts from Known on are sent.
func (w *bodyWriter) appendResponse(req *message.Request, r message.Renderer, o *Options) (err error) {
	parts := req.Parts
	if req.Previous != "" {
		parts = parts[min(req.Known, len(parts)):]
		if w.field("previous_response_id") {
			w.dst = appendQuoted(w.dst, req.Previous)
		}
	}
	if w.field("input") {
		if w.dst, err = appendInput(w.dst, parts, r); err != nil {
			return err
		}
	}
	// Who will not be referred to need not be kept.
	if w.field("store") {
		w.dst = strconv.AppendBool(w.dst, req.Again || req.Previous != "")
	}
	if req.MaxTokens > 0 && w.field("max_output_tokens") {
		w.dst = appendInt(w.dst, int64(req.MaxTokens))
	}
	if req.ReasoningEffort != "" && w.field("reasoning") {
		w.dst = append(appendQuoted(append(w.dst, `{"effort":`...), req.ReasoningEffort), '}')
	}
	if req.ResponseSchema != "" && w.field("text") {
		if !json.Valid([]byte(req.ResponseSchema)) {
			return fmt.Errorf("make request body: the schema of the answer is not JSON: %q", req.ResponseSchema)
		}
		w.dst = append(w.dst, `{"format":{"type":"json_schema","name":"answer","schema":`...)
		w.dst = append(append(w.dst, req.ResponseSchema...), "}}"...)
	}
	if len(req.Tools) > 0 && w.field("tools") {
		if w.dst, err = appendTools(w.dst, req.Tools, true); err != nil {
			return err
		}
	}
	return nil
}

// appendInput appends the items of an input.
func appendInput(dst []byte, parts []message.Part, r message.Renderer) ([]byte, error) {
	dst = append(dst, '[')
	for i := 0; i < len(parts); {
		j := messageEnd(parts, i)
		if i > 0 {
			dst = append(dst, ',')
		}
		p := &parts[i]
		var err error
		switch {
		case p.CallID != "":
			dst = appendQuoted(append(dst, `{"type":"function_call_output","call_id":`...), p.CallID)
			dst, err = appendParts(append(dst, `,"output":"`...), parts[i:j], r)
			dst = append(dst, `"}`...)
		case len(p.Calls) > 0:
			for k := range p.Calls {
				if k > 0 {
					dst = append(dst, ',')
				}
				dst = appendQuoted(append(dst, `{"type":"function_call","call_id":`...), p.Calls[k].ID)
				dst = appendQuoted(append(dst, `,"name":`...), p.Calls[k].Name)
				dst = append(appendQuoted(append(dst, `,"arguments":`...), p.Calls[k].Arguments), '}')
			}
		case hasMedia(parts[i:j]):
			dst = append(append(append(dst, `{"role":"`...), p.Role.String()...), `","content":`...)
			dst, err = appendContents(dst, parts[i:j], r, true)
			dst = append(dst, '}')
		default:
			dst = append(append(append(dst, `{"role":"`...), p.Role.String()...), `","content":"`...)
			dst, err = appendParts(dst, parts[i:j], r)
			dst = append(dst, `"}`...)
		}
		if err != nil {
			return dst, err
		}
		i = j
	}
	return append(dst, ']'), nil
}

// responseEvent is what an event of the Responses API may say.
type responseEvent struct {
	Type, Delta string
	Index       int32 `json:"output_index"`
	Item        responseItem
	Response    response
	// Of an event of the type error.
	Code, Message string
}

type responseItem struct {
	Type      string
	CallID    string `json:"call_id"`
	Name      string
	Arguments string
	Content   []struct{ Type, Text, Refusal string }
	Summary   []struct{ Text string }
}

type response struct {
	ID, Object, Status string
	Output             []responseItem
	Incomplete         *struct{ Reason string } `json:"incomplete_details"`
	Error              *struct{ Code, Message string }
	Usage              *struct {
		Input        *int32 `json:"input_tokens"`
		Output       *int32 `json:"output_tokens"`
		InputDetails struct {
			Cached *int32 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
		OutputDetails struct {
			Reasoning *int32 `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	}
}

// response reads one event. Text costs no allocation; what comes once in an answer
// goes to encoding/json.
func (d *Decoder) response(name, data []byte) Delta {
	out := Delta{Cumulative: record.Unknown}
	data = trim(data)
	switch string(data) {
	case "", "null":
		return out
	case "[DONE]":
		d.res.Done, out.Terminal = true, true
		return out
	}
	kind, p, ok := d.delta(name, data)
	if ok && p.kind == pieceCallID { // none that carries text
		switch string(kind) {
		case "response.created", "response.completed", "response.incomplete", "response.failed", "response.output_item.added", "error", "":
			ok = false
		}
		if ok {
			return out
		}
	} else if ok {
		d.chunk.reset()
		d.chunk.choices = append(d.chunk.choices, choice{})
		d.chunk.pieces = append(d.chunk.pieces, p)
		if d.chunk.sound(data) {
			d.commit(data, &out)
			out.Marks = d.marks
			return out
		}
		d.res.Fallbacks++
	}
	var e responseEvent
	bad := json.Unmarshal(data, &e) != nil
	if kind := or(e.Type, string(name)); (kind == "error" && (bad || e.Message == "")) || kind == "" {
		// An error object has one form in all APIs, and some send it under no name.
		if d.failed(data, kind == "error") {
			out.Err = true
			return out
		}
	}
	if bad {
		d.res.Bad = true
		return out
	}
	e.Type = or(e.Type, string(name))
	d.told(&e, &out)
	out.Marks = d.marks
	return out
}

// pieceOf is what the text of an event is; an id is none.
func pieceOf(kind []byte) pieceKind {
	switch string(kind) {
	case "response.output_text.delta":
		return pieceContent
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
		return pieceReasoning
	case "response.refusal.delta":
		return pieceRefusal
	case "response.function_call_arguments.delta":
		return pieceCallArguments
	}
	return pieceCallID
}

// failed takes an error object in the data of an event; false says that there is none.
// Of an event that is named an error whatever it holds is one.
func (d *Decoder) failed(data []byte, named bool) bool {
	d.chunk.reset()
	if !named && (!d.chunk.parse(data, OpenAIChat, false) || d.chunk.err == nil) {
		return false
	}
	d.fail(data)
	return true
}

// delta looks for the type of an event, which is its name where the data has none, and
// for the place of its text. It is false for what it does not understand.
func (d *Decoder) delta(name, b []byte) (kind []byte, p piece, ok bool) {
	kind, p.call = name, noCall
	i := space(b, 0)
	if i >= len(b) || b[i] != '{' {
		return nil, p, false
	}
	i, done := empty(b, i+1, '}')
	has := false
	for !done {
		k, v := key(b, i)
		if v < 0 {
			return nil, p, false
		}
		end := skip(b, v)
		if end < 0 {
			return nil, p, false
		}
		switch string(k) {
		case "type":
			if b[v] == '"' {
				kind = b[v+1 : end-1]
			}
		case "delta":
			if has = b[v] == '"'; has {
				p.start, p.end = v+1, end-1
				_, p.escaped = str(b, v+1)
			}
		case "output_index":
			if n, _ := count(b, v); n >= 0 {
				p.call = n
			}
		}
		i, done = next(b, end, '}')
	}
	if i < 0 || space(b, i) != len(b) {
		return nil, p, false
	}
	if p.kind = pieceOf(kind); p.kind != pieceCallID && !has {
		return nil, p, false
	}
	return kind, p, true
}

// told takes in an event that came through encoding/json.
func (d *Decoder) told(e *responseEvent, out *Delta) {
	d.chunk.reset()
	c := &d.chunk
	c.choices = append(c.choices, choice{})
	say := func(kind pieceKind, call int32, text string) {
		if text != "" {
			c.pieces = append(c.pieces, piece{kind: kind, call: call, decoded: true, text: text})
		}
	}
	if kind := pieceOf([]byte(e.Type)); kind != pieceCallID {
		say(kind, e.Index, e.Delta)
	}
	switch e.Type {
	case "response.created":
		d.res.ID = e.Response.ID
	case "response.output_item.added":
		if e.Item.Type == "function_call" {
			say(pieceCallID, e.Index, e.Item.CallID)
			say(pieceCallName, e.Index, e.Item.Name)
		}
	case "response.completed", "response.incomplete":
		d.concluded(&e.Response)
		d.res.Done, out.Terminal = true, true
	case "response.failed":
		out.Err = true
		if e.Response.Error != nil {
			e.Code, e.Message = e.Response.Error.Code, e.Response.Error.Message
		}
		d.setError(or(e.Message, "the response failed"), or(e.Code, "failed"))
		return
	case "error":
		out.Err = true
		d.setError(or(e.Message, "an error event"), or(e.Code, "error"))
		return
	}
	d.commit(nil, out)
}

func or(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// concluded puts the end of a response into the chunk.
func (d *Decoder) concluded(r *response) {
	c := &d.chunk
	d.res.ID = or(r.ID, d.res.ID)
	c.choices[0].finish = "stop"
	if r.Status == "incomplete" {
		c.choices[0].finish = "length"
		if r.Incomplete != nil && r.Incomplete.Reason != "" && r.Incomplete.Reason != "max_output_tokens" {
			c.choices[0].finish = cut(r.Incomplete.Reason, nameLimit)
		}
	}
	for i := range r.Output {
		if r.Output[i].Type == "function_call" && r.Status != "incomplete" {
			c.choices[0].finish = "tool_calls"
		}
	}
	u := r.Usage
	if u == nil {
		return
	}
	tokens := func(n *int32) int32 {
		if n == nil || *n < 0 || *n == math.MaxInt32 {
			return record.Unknown
		}
		return *n
	}
	c.hasUsage = true
	c.usage = Usage{tokens(u.Input), tokens(u.InputDetails.Cached), tokens(u.Output), tokens(u.OutputDetails.Reasoning)}
}

// responseBody reads a whole response.
func (d *Decoder) responseBody(data []byte) Delta {
	out := Delta{Cumulative: record.Unknown}
	var r response
	if json.Unmarshal(data, &r) != nil || r.Object != "response" {
		// An error object has one form in all APIs.
		d.api = OpenAIChat
		out = d.Body(data)
		d.api = OpenAIResponses
		d.res.Bad = d.res.Bad || d.res.ErrorMessage == "" && d.res.ErrorType == ""
		return out
	}
	d.chunk.reset()
	c := &d.chunk
	c.choices = append(c.choices, choice{})
	if r.Status == "failed" || r.Error != nil {
		message, code := "the response failed", "failed"
		if r.Error != nil {
			message, code = or(r.Error.Message, message), or(r.Error.Code, code)
		}
		d.setError(message, code)
		out.Err = true
		return out
	}
	say := func(kind pieceKind, call int, text string) {
		if text != "" {
			c.pieces = append(c.pieces, piece{kind: kind, call: int32(call), decoded: true, text: text})
		}
	}
	for i := range r.Output {
		o := &r.Output[i]
		switch o.Type {
		case "function_call":
			say(pieceCallID, i, o.CallID)
			say(pieceCallName, i, o.Name)
			say(pieceCallArguments, i, o.Arguments)
		case "reasoning":
			for _, s := range o.Summary {
				say(pieceReasoning, i, s.Text)
			}
			for _, s := range o.Content {
				say(pieceReasoning, i, s.Text)
			}
		default:
			for _, s := range o.Content {
				say(pieceContent, i, s.Text)
				say(pieceRefusal, i, s.Refusal)
			}
		}
	}
	d.concluded(&r)
	d.res.Done = true
	d.commit(nil, &out)
	out.Marks = d.marks
	return out
}
