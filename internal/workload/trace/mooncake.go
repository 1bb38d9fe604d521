package trace

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"plimsoll/internal/message"
	"plimsoll/internal/strictyaml"
)

// mooncakeLine is a row of a Mooncake trace and of all that was made of the form:
// text, messages or a whole payload instead of lengths (AIPerf), sessions with
// delays, requests that wait for others and for tools (Dynamo agentic).
type mooncakeLine struct {
	Timestamp   number `json:"timestamp"`
	CreatedTime number `json:"created_time"`
	Input       number `json:"input_length"`
	InputTokens number `json:"input_tokens"`
	Output      number `json:"output_length"`
	OutTokens   number `json:"output_tokens"`
	HashIDs     hashes `json:"hash_ids"`

	Text        *string         `json:"text_input"`
	Prompt      *string         `json:"prompt"`
	Messages    json.RawMessage `json:"messages"`
	MessageMode string          `json:"message_mode"`
	Tools       json.RawMessage `json:"tools"`
	Payload     json.RawMessage `json:"payload"`
	Model       string          `json:"model"`

	// What GuideLLM's data files have.
	PromptCount number `json:"prompt_tokens_count"`
	OutputCount number `json:"output_tokens_count"`

	// What a row of a body without a model has.
	MaxTokens number `json:"max_tokens"`
	MaxNew    number `json:"max_completion_tokens"`

	// What only --column names.
	Images number `json:"-"`
	Took   number `json:"-"`

	RequestID   id              `json:"request_id"`
	Session     id              `json:"session_id"`
	WaitFor     []id            `json:"wait_for"`
	Delay       number          `json:"delay"`
	DelayMS     number          `json:"delay_ms"`
	ToolWait    number          `json:"tool_wait_ms"`
	PrefixReset bool            `json:"prefix_reset"`
	Kind        json.RawMessage `json:"type"`
}

func mooncakeRow(r *Reader, line int, b []byte) error {
	var v mooncakeLine
	if err := r.unmarshal(line, b, &v); err != nil {
		return err
	}
	if len(r.opts.Columns) > 0 {
		if err := r.renamed(line, b, &v); err != nil {
			return err
		}
	}
	var rec Record
	rec.reset(line)
	var err error
	named := func(column, field string) string {
		if name := r.opts.Columns[column]; name != "" {
			return name
		}
		return field
	}
	stamp, field := v.Timestamp, named("timestamp", "timestamp")
	if stamp == "" && v.CreatedTime != "" {
		stamp, field = v.CreatedTime, "created_time"
	}
	if stamp != "" {
		if rec.At, err = r.time(line, field, string(stamp), r.format.unit); err != nil {
			return err
		}
	}
	if rec.Input, err = r.count(line, count{named("input", "input_length"), v.Input}, count{"input_tokens", v.InputTokens}, count{"prompt_tokens_count", v.PromptCount}); err != nil {
		return err
	}
	if rec.Output, err = r.count(line, count{named("output", "output_length"), v.Output}, count{"output_tokens", v.OutTokens}, count{"output_tokens_count", v.OutputCount},
		count{"max_tokens", v.MaxTokens}, count{"max_completion_tokens", v.MaxNew}); err != nil {
		return err
	}
	if rec.Images, err = r.count(line, count{named("images", "images"), v.Images}); err != nil {
		return err
	}
	rec.Images = max(0, rec.Images)
	if v.Took != "" {
		if rec.Took, err = r.span(line, named("took", "took"), string(v.Took), Seconds); err != nil {
			return err
		}
	}
	rec.ID, rec.Session = string(v.RequestID), string(v.Session)
	for _, d := range v.WaitFor {
		rec.Deps = append(rec.Deps, string(d))
	}
	rec.Graph = len(rec.Deps) > 0
	for _, d := range []count{{"delay_ms", v.DelayMS}, {"delay", v.Delay}} {
		if d.n != "" {
			if rec.Delay, err = r.span(line, d.field, string(d.n), r.unit()); err != nil {
				return err
			}
		}
	}
	if v.ToolWait != "" {
		if rec.ToolWait, err = r.span(line, "tool_wait_ms", string(v.ToolWait), Milli); err != nil {
			return err
		}
	}
	rec.Hashes, rec.Tools, rec.Model = v.HashIDs, v.Tools, v.Model
	var kind string
	if json.Unmarshal(v.Kind, &kind) == nil {
		rec.Kind = kind
	}
	// A row says in exactly one way what its prompt is.
	var ways []string
	if v.Text != nil || v.Prompt != nil {
		text, field := v.Text, "text_input"
		if text == nil {
			text, field = v.Prompt, named("prompt", "prompt")
		}
		ways = append(ways, field)
		rec.Messages = []Message{{Role: message.User, Text: *text}}
	}
	if len(v.Messages) > 0 {
		ways = append(ways, "messages")
		if err := r.messages(&rec, v.Messages); err != nil {
			return err
		}
	}
	if len(v.Payload) > 0 {
		ways = append(ways, "payload")
		if err := r.payload(&rec, v.Payload); err != nil {
			return err
		}
	}
	switch {
	case len(ways) > 1:
		return r.bad(line, ways[1], "input_mode", "stands beside "+ways[0]+": a row has one of input_length, text_input, messages and payload")
	case len(ways) == 0 && rec.Input == Unknown:
		return r.promptless(line, b)
	case len(ways) == 1 && len(rec.Hashes) > 0:
		return r.bad(line, "hash_ids", "input_mode", "stand beside "+ways[0]+": hashes are for rows with input_length alone")
	}
	if len(ways) == 1 && ways[0] != "payload" {
		if err := r.beside(&rec, b); err != nil {
			return err
		}
		field := ways[0]
		if field == "messages" {
			field = "messages.content"
		}
		input := rec.Input
		rec.Input = Unknown // a length beside a text says nothing of an empty one
		if err := r.wordless(&rec, field); err != nil {
			return err
		}
		rec.Input = input
	}
	switch v.MessageMode {
	case "", "history":
	case "delta":
		rec.Delta = true
	default:
		return r.bad(line, "message_mode", "value", shown(v.MessageMode)+", want history or delta")
	}
	if rec.At == Unset && rec.Delay == Unset && len(rec.Deps) == 0 && rec.Session != "" && r.turns[rec.Session] > 0 {
		r.remark(line, "no_delay", "", "a later turn has neither a time nor a delay: it follows at once", false)
		rec.Delay = 0
	}
	return r.add(rec)
}

// promptless is what a row without a prompt leads to: the field that is missing, and
// the one that may be it under a name with a slip.
func (r *Reader) promptless(line int, b []byte) error {
	want := []string{"input_length", "text_input", "messages", "payload"}
	switch r.format.name {
	case "jsonl":
		want = []string{"prompt", "messages"}
	case "guidellm":
		want = []string{"prompt", "messages", "input_length"}
	}
	var row map[string]json.RawMessage
	if err := r.unmarshal(line, b, &row); err != nil {
		return err
	}
	missing := func(field string) string {
		others := slices.DeleteFunc(slices.Clone(want), func(s string) bool { return s == field })
		return "is missing, and there is no " + either(others)
	}
	for _, name := range slices.Sorted(maps.Keys(row)) {
		if near := strictyaml.Nearest(name, want); near != "" {
			return r.bad(line, near, "missing", missing(near)+"; the row has "+shown(name)+": "+near+" may be meant")
		}
	}
	return r.bad(line, want[0], "missing", missing(want[0]))
}

// either lists names of which one is wanted.
func either(names []string) string {
	n := len(names) - 1
	if n < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:n], ", ") + " or " + names[n]
}

// renamed reads the fields that the user named.
func (r *Reader) renamed(line int, b []byte, v *mooncakeLine) error {
	var fields map[string]json.RawMessage
	if err := r.unmarshal(line, b, &fields); err != nil {
		return err
	}
	for field, name := range r.opts.Columns {
		raw, ok := fields[name]
		if !ok {
			return r.bad(line, name, "missing", "is missing, and was named for "+field)
		}
		var err error
		switch field {
		case "timestamp":
			err = json.Unmarshal(raw, &v.Timestamp)
		case "input":
			err = json.Unmarshal(raw, &v.Input)
		case "output":
			err = json.Unmarshal(raw, &v.Output)
		case "session":
			err = json.Unmarshal(raw, &v.Session)
		case "prompt":
			err = json.Unmarshal(raw, &v.Prompt)
		case "model":
			err = json.Unmarshal(raw, &v.Model)
		case "id":
			err = json.Unmarshal(raw, &v.RequestID)
		case "kind":
			v.Kind = raw
		case "images":
			err = json.Unmarshal(raw, &v.Images)
		case "took":
			err = json.Unmarshal(raw, &v.Took)
		}
		if err != nil {
			return r.bad(line, name, "type", "is of the wrong type for "+field)
		}
	}
	return nil
}

// bailianRow reads a row of a Qwen-Bailian trace. Turns of a chat name their
// parent; the chain up to the root is the session, and as a child may come before
// its parent's other children, only roots and parents are remembered.
func bailianRow(r *Reader, line int, b []byte) error {
	var v struct {
		ChatID    id     `json:"chat_id"`
		Parent    id     `json:"parent_chat_id"`
		Timestamp number `json:"timestamp"`
		Input     number `json:"input_length"`
		Output    number `json:"output_length"`
		Type      string `json:"type"`
		Turn      number `json:"turn"`
		HashIDs   hashes `json:"hash_ids"`
	}
	if err := r.unmarshal(line, b, &v); err != nil {
		return err
	}
	var rec Record
	rec.reset(line)
	var err error
	if rec.At, err = r.time(line, "timestamp", string(v.Timestamp), r.format.unit); err != nil {
		return err
	}
	if rec.Input, err = r.tokens(line, "input_length", v.Input); err != nil {
		return err
	}
	if rec.Output, err = r.tokens(line, "output_length", v.Output); err != nil {
		return err
	}
	switch {
	case v.ChatID == "":
		return r.bad(line, "chat_id", "missing", "is missing")
	case rec.Input == Unknown:
		return r.bad(line, "input_length", "missing", "is missing")
	case rec.Output == Unknown:
		return r.bad(line, "output_length", "missing", "is missing")
	}
	rec.ID, rec.Kind, rec.Hashes = string(v.ChatID), v.Type, v.HashIDs
	rec.Session = rec.ID
	if v.Parent != "" && v.Parent != "-1" {
		if r.chats == nil {
			r.chats = map[string]string{}
		}
		root, known := r.chats[string(v.Parent)]
		if !known {
			root = string(v.Parent)
			if r.turns[root] == 0 {
				r.remark(line, "orphan", "parent_chat_id", shown(root)+" is not in the file before this row: the row begins a session of its own", false)
				root = rec.ID
			}
		}
		rec.Session = root
		if len(r.chats) < maxSessions {
			r.chats[rec.ID] = root
		}
	}
	return r.add(rec)
}

// dynamoRow reads an event of a Dynamo request trace. Events are written when a
// request has ended, so the rows are not in order of their beginnings.
func dynamoRow(r *Reader, line int, b []byte) error {
	var w struct {
		Event json.RawMessage `json:"event"`
	}
	if err := r.unmarshal(line, b, &w); err != nil {
		return err
	}
	if len(w.Event) > 0 {
		b = w.Event
	}
	var v struct {
		Type    string `json:"event_type"`
		Context struct {
			Session id `json:"session_id"`
			Parent  id `json:"parent_session_id"`
		} `json:"agent_context"`
		Request *struct {
			ID        id     `json:"request_id"`
			Model     string `json:"model"`
			Received  number `json:"request_received_ms"`
			Total     number `json:"total_time_ms"`
			Input     number `json:"input_tokens"`
			Output    number `json:"output_tokens"`
			Reasoning number `json:"reasoning_tokens"`
			Cached    number `json:"cached_tokens"`
			Replay    *struct {
				Block  int    `json:"trace_block_size"`
				Length number `json:"input_length"`
				Hashes hashes `json:"input_sequence_hashes"`
			} `json:"replay"`
		} `json:"request"`
	}
	if err := r.unmarshal(line, b, &v); err != nil {
		return err
	}
	if v.Type != "request_end" {
		r.toolEvents++
		return errSkip
	}
	q := v.Request
	if q == nil {
		return r.bad(line, "request", "missing", "is missing in a request_end event")
	}
	var rec Record
	rec.reset(line)
	var err error
	if rec.At, err = r.time(line, "request_received_ms", string(q.Received), Milli); err != nil {
		return err
	}
	if rec.Input, err = r.tokens(line, "input_tokens", q.Input); err != nil {
		return err
	}
	if rec.Output, err = r.tokens(line, "output_tokens", q.Output); err != nil {
		return err
	}
	if rec.Cached, err = r.tokens(line, "cached_tokens", q.Cached); err != nil {
		return err
	}
	if q.Reasoning != "" {
		if rec.Reasoning, err = r.tokens(line, "reasoning_tokens", q.Reasoning); err != nil {
			return err
		}
	}
	if q.Total != "" {
		if rec.Took, err = r.span(line, "total_time_ms", string(q.Total), Milli); err != nil {
			return err
		}
	}
	rec.ID, rec.Model = string(q.ID), q.Model
	rec.Session, rec.Parent = string(v.Context.Session), string(v.Context.Parent)
	if rec.Output == 0 {
		return r.add(rec) // counted there, whether or not it has a replay part
	}
	if q.Replay == nil {
		r.noReplay++
		r.remark(line, "no_replay", "", "no replay part: the prompt's blocks are not known", true)
		return errSkip
	}
	rec.Hashes, rec.BlockTokens = q.Replay.Hashes, q.Replay.Block
	if r.opts.BlockTokens > 0 {
		rec.BlockTokens = r.opts.BlockTokens
	}
	if rec.BlockTokens < 0 || rec.BlockTokens > maxTokens {
		return r.bad(line, "trace_block_size", "value", fmt.Sprintf("%d, want 1 or more", rec.BlockTokens))
	}
	if q.Replay.Length != "" {
		if rec.Input, err = r.tokens(line, "input_length", q.Replay.Length); err != nil {
			return err
		}
	}
	if rec.Input == Unknown {
		return r.bad(line, "input_length", "missing", "is missing")
	}
	return r.add(rec)
}
