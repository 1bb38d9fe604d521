package dialect

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"

	"plimsoll/internal/record"
)

func validUTF8(b []byte) bool { return utf8.Valid(b) }

type object = map[string]json.RawMessage

// parse is walk by encoding/json: slower, and with a tolerance for odd values
// that would make the scanner long. Keys are matched exactly, the last of two
// equal keys counts. It is false when data is no JSON object.
func (c *chunk) parse(data []byte, api API, body bool) bool {
	if body && len(data) > 0 && data[0] == '[' { // some send their error objects in a list
		var list []json.RawMessage
		if json.Unmarshal(data, &list) != nil || len(list) == 0 {
			return false
		}
		data = list[0]
		var o object
		if json.Unmarshal(data, &o) != nil || null(o["error"]) {
			return false
		}
	}
	var o object
	if json.Unmarshal(data, &o) != nil || o == nil {
		return false
	}
	c.err = some(o["error"])
	c.message, c.detail = some(o["message"]), some(o["detail"])
	c.code, c.kind = some(o["code"]), some(o["type"])
	c.isError = text(o["object"]) == "error"
	c.parseUsage(o["usage"])
	var groq object
	if json.Unmarshal(o["x_groq"], &groq) == nil {
		c.parseUsage(groq["usage"])
	}
	if null(o["choices"]) {
		return true
	}
	var list []json.RawMessage
	if json.Unmarshal(o["choices"], &list) != nil {
		return false
	}
	c.hasChoices = true
	for pos, raw := range list {
		var o object
		if json.Unmarshal(raw, &o) != nil || o == nil {
			continue
		}
		c.parseChoice(o, pos, api, body)
	}
	return true
}

func (c *chunk) parseChoice(o object, pos int, api API, body bool) {
	n := int32(len(c.choices))
	c.choices = append(c.choices, choice{index: saturate(pos)})
	if x := countOf(o["index"]); x >= 0 {
		c.choices[n].index = saturate(int(x))
	}
	c.choices[n].finish = finishReason([]byte(text(o["finish_reason"])))
	c.parseUsage(o["usage"])
	if c.err == nil {
		c.err = some(o["error"])
	}
	if api == OpenAICompletions {
		c.parseText(o["text"], piece{kind: pieceContent, choice: n})
		return
	}
	raw := o["delta"]
	if body {
		raw = o["message"]
	}
	var m object
	if json.Unmarshal(raw, &m) != nil {
		return
	}
	c.parseText(m["content"], piece{kind: pieceContent, choice: n})
	c.parseText(m["refusal"], piece{kind: pieceRefusal, choice: n})
	c.parseText(m["reasoning_content"], piece{kind: pieceReasoning, choice: n, rank: 0})
	c.parseText(m["reasoning"], piece{kind: pieceReasoning, choice: n, rank: 1})
	c.parseText(m["reasoning_text"], piece{kind: pieceReasoning, choice: n, rank: 2})
	c.parseText(m["thinking"], piece{kind: pieceReasoning, choice: n, rank: 3})
	var calls []json.RawMessage
	if json.Unmarshal(m["tool_calls"], &calls) == nil {
		for _, raw := range calls {
			var o object
			if json.Unmarshal(raw, &o) != nil || o == nil {
				continue
			}
			call := int32(noCall)
			if x := countOf(o["index"]); x >= 0 {
				call = x
			}
			if !null(o["id"]) {
				c.addText(text(o["id"]), piece{kind: pieceCallID, choice: n, call: call})
			}
			c.parseFunction(o["function"], n, call)
		}
	}
	c.parseFunction(m["function_call"], n, 0)
}

func (c *chunk) parseFunction(raw json.RawMessage, n, call int32) {
	var f object
	if json.Unmarshal(raw, &f) != nil {
		return
	}
	c.addText(text(f["name"]), piece{kind: pieceCallName, choice: n, call: call})
	args := text(f["arguments"])
	if a := some(f["arguments"]); args == "" && a != nil && a[0] == '{' {
		args = string(a) // an object where a string belongs
	}
	c.addText(args, piece{kind: pieceCallArguments, choice: n, call: call})
}

func (c *chunk) addText(s string, p piece) {
	p.decoded, p.text = true, s
	c.add(p)
}

// parseText adds a string, or a list of parts: {"type":"text","text":...} and
// {"type":"thinking","thinking":...}, the latter a string or again such a list.
func (c *chunk) parseText(raw json.RawMessage, p piece) {
	if len(raw) == 0 {
		return
	}
	switch raw[0] {
	case '"':
		c.addText(text(raw), p)
	case '[':
		content, thinking := parts(raw, 0)
		if thinking != "" {
			c.addText(thinking, piece{kind: pieceReasoning, choice: p.choice, rank: 4})
		}
		c.addText(content, p)
	}
}

func parts(raw json.RawMessage, depth int) (content, thinking string) {
	var list []object
	if depth > 2 || json.Unmarshal(raw, &list) != nil {
		return "", ""
	}
	for _, o := range list {
		content += text(o["text"])
		t := o["thinking"]
		thinking += text(t)
		if len(t) > 0 && t[0] == '[' {
			inner, _ := parts(t, depth+1)
			thinking += inner
		}
	}
	return content, thinking
}

func (c *chunk) parseUsage(raw json.RawMessage) {
	var o, prompt, completion object
	if json.Unmarshal(raw, &o) != nil || o == nil {
		return
	}
	_ = json.Unmarshal(o["prompt_tokens_details"], &prompt) // absent details are nil maps
	_ = json.Unmarshal(o["completion_tokens_details"], &completion)
	c.hasUsage = true
	c.usage.merge(Usage{
		Prompt:     countOf(o["prompt_tokens"]),
		Completion: countOf(o["completion_tokens"]),
		Cached:     max(countOf(prompt["cached_tokens"]), countOf(o["cached_tokens"]), countOf(o["prompt_cache_hit_tokens"])),
		Reasoning:  max(countOf(completion["reasoning_tokens"]), countOf(o["reasoning_tokens"])),
	})
}

// countOf is raw as a count: a whole number of at most 2^31-1, else Unknown.
func countOf(raw json.RawMessage) int32 {
	if len(raw) == 0 || raw[0] == '"' {
		return record.Unknown
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f < 0 || f > math.MaxInt32 || f != math.Trunc(f) {
		return record.Unknown
	}
	return int32(f)
}

// text is raw as a string, "" when it is none.
func text(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

func null(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func some(raw json.RawMessage) []byte {
	if null(raw) {
		return nil
	}
	return raw
}

// failChunk takes the error of a chunk. Values that say "no error" are none as
// long as the chunk is otherwise one of an answer.
func (d *Decoder) failChunk(out *Delta) {
	c := &d.chunk
	if !c.isError {
		switch string(bytes.Join(bytes.Fields(c.err), nil)) {
		case "{}", `""`, "false", "0", "[]":
			if c.hasChoices || c.hasUsage {
				return
			}
		}
	}
	out.Err = true
	message, kind := errorText(c.err)
	if message == "" {
		message = loose(c.message)
	}
	if message == "" {
		message = loose(c.detail)
	}
	if kind == "" && c.kind != nil {
		kind = text(c.kind)
	}
	if kind == "" && c.code != nil {
		kind = text(c.code)
	}
	d.setError(message, kind)
}

// fail takes the data of an event that is named an error, whatever it holds.
func (d *Decoder) fail(data []byte) {
	data = trim(data)
	d.chunk.reset()
	var out Delta
	if d.chunk.parse(data, d.api, false) {
		if d.chunk.err == nil {
			d.chunk.isError = true
		}
		d.failChunk(&out)
	}
	if d.res.ErrorMessage == "" {
		d.setError(loose(data), "")
	}
}

// setError keeps the first error of an answer.
func (d *Decoder) setError(message, kind string) {
	if d.res.ErrorMessage != "" {
		return
	}
	if message == "" {
		message = "error without a message"
	}
	d.res.ErrorMessage, d.res.ErrorType = cut(message, MessageLimit), cut(kind, nameLimit)
}

// errorText reads the value of "error": an object or a string.
func errorText(raw []byte) (message, kind string) {
	var o object
	if json.Unmarshal(raw, &o) != nil {
		return loose(raw), ""
	}
	for _, k := range [...]string{"message", "msg", "detail", "error"} {
		if message = loose(some(o[k])); message != "" {
			break
		}
	}
	if message == "" && len(o) > 0 {
		message = string(raw)
	}
	for _, k := range [...]string{"type", "code", "status"} {
		if kind = text(o[k]); kind != "" {
			break
		}
	}
	return message, kind
}

// loose is a string as its text and anything else as it stands.
func loose(raw []byte) string {
	if len(raw) > 0 && raw[0] == '"' {
		return text(raw)
	}
	return string(raw)
}
