package trace

import (
	"encoding/json"
	"fmt"
	"strconv"

	"plimsoll/internal/message"
)

// ownLine is a record in this program's own form: one JSON object a line. Times
// are ns, hashes are texts so that no program that reads them as floats makes two
// of them equal.
type ownLine struct {
	AtNS      *int64          `json:"at_ns"`
	ID        string          `json:"id,omitempty"`
	Input     *int            `json:"input_tokens,omitempty"`
	Output    *int            `json:"output_tokens,omitempty"`
	Reasoning int             `json:"reasoning_tokens,omitempty"`
	Session   string          `json:"session,omitempty"`
	Parent    string          `json:"parent_session,omitempty"`
	Forked    bool            `json:"forked,omitempty"`
	Deps      []string        `json:"after,omitempty"`
	DelayNS   *int64          `json:"delay_ns,omitempty"`
	ToolNS    int64           `json:"tool_wait_ns,omitempty"`
	TookNS    int64           `json:"took_ns,omitempty"`
	Hashes    []string        `json:"hashes,omitempty"`
	Block     int             `json:"block_tokens,omitempty"`
	Prefix    *int            `json:"prefix_tokens,omitempty"`
	Delta     bool            `json:"delta,omitempty"`
	Messages  []ownMessage    `json:"messages,omitempty"`
	Answer    string          `json:"answer,omitempty"`
	Tools     json.RawMessage `json:"tools,omitempty"`
	Body      json.RawMessage `json:"body,omitempty"`
	Model     string          `json:"model,omitempty"`
	Kind      string          `json:"kind,omitempty"`
	Images    int             `json:"images,omitempty"`
	Unsent    []string        `json:"not_sent,omitempty"`
	Cancelled bool            `json:"cancelled,omitempty"`
	Cached    *int            `json:"cached_tokens,omitempty"`
}

type ownMessage struct {
	Role string `json:"role"`
	Text string `json:"text"`
}

func ownRow(r *Reader, line int, b []byte) error {
	var v ownLine
	if err := r.unmarshal(line, b, &v); err != nil {
		return err
	}
	var rec Record
	rec.reset(line)
	if v.AtNS != nil {
		at, err := r.time(line, "at_ns", strconv.FormatInt(*v.AtNS, 10), Nanoseconds)
		if err != nil {
			return err
		}
		rec.At = at
	}
	for _, f := range []struct {
		name string
		from *int
		to   *int
	}{
		{"input_tokens", v.Input, &rec.Input},
		{"output_tokens", v.Output, &rec.Output},
		{"prefix_tokens", v.Prefix, &rec.Prefix},
		{"cached_tokens", v.Cached, &rec.Cached},
	} {
		if f.from == nil {
			continue
		}
		if *f.from < 0 || *f.from > maxTokens {
			return r.bad(line, f.name, "length", fmt.Sprintf("%d, want 0 to %d", *f.from, maxTokens))
		}
		*f.to = *f.from
	}
	if v.DelayNS != nil {
		rec.Delay = *v.DelayNS
	}
	if (v.DelayNS != nil && *v.DelayNS < 0) || v.ToolNS < 0 || v.TookNS < 0 {
		return r.bad(line, "delay_ns", "negative_time", "a length of time is below 0")
	}
	if v.Reasoning < 0 || v.Images < 0 || v.Block < 0 || v.Block > maxTokens {
		return r.bad(line, "", "length", "a count is below 0")
	}
	if len(v.Hashes) > 0 && v.Block == 0 {
		return r.bad(line, "block_tokens", "missing", "is missing beside hashes")
	}
	for _, s := range v.Hashes {
		h, err := parseHash(s)
		if err != nil {
			return r.bad(line, "hashes", "hash", shown(s)+" is not a whole number of up to 64 bits")
		}
		rec.Hashes = append(rec.Hashes, h)
	}
	for _, m := range v.Messages {
		role, ok := roleOf(m.Role)
		if !ok {
			return r.bad(line, "messages.role", "role", shown(m.Role)+" is no role, want system, user, assistant or tool")
		}
		rec.Messages = append(rec.Messages, Message{Role: role, Text: m.Text})
	}
	if rec.Input == Unknown && len(rec.Messages) == 0 && len(v.Body) == 0 {
		return r.bad(line, "input_tokens", "missing", "is missing, and there are no messages and no body")
	}
	if len(v.Body) > 0 {
		// Checked like any other body: the file may come from anywhere.
		var of Record
		of.reset(line)
		if err := r.payload(&of, v.Body); err != nil {
			return err
		}
		rec.Body, rec.Messages = of.Body, of.Messages
	}
	rec.ID, rec.Session, rec.Parent, rec.Forked = v.ID, v.Session, v.Parent, v.Forked
	rec.Deps, rec.Graph = v.Deps, len(v.Deps) > 0
	rec.ToolWait, rec.Took, rec.BlockTokens, rec.Reasoning = v.ToolNS, v.TookNS, v.Block, v.Reasoning
	rec.Delta, rec.Answer, rec.Tools = v.Delta, v.Answer, v.Tools
	rec.Model, rec.Kind, rec.Images, rec.Unsent, rec.Cancelled = v.Model, v.Kind, v.Images, v.Unsent, v.Cancelled
	return r.add(rec)
}

// own returns the record in this program's form.
func own(rec *Record) *ownLine {
	v := &ownLine{
		ID: rec.ID, Reasoning: rec.Reasoning, Session: rec.Session, Parent: rec.Parent, Forked: rec.Forked,
		ToolNS: rec.ToolWait, TookNS: rec.Took, Block: rec.BlockTokens, Delta: rec.Delta, Answer: rec.Answer,
		Tools: rec.Tools, Body: rec.Body, Model: rec.Model, Kind: rec.Kind, Images: rec.Images, Unsent: rec.Unsent, Cancelled: rec.Cancelled,
	}
	if rec.Graph {
		v.Deps = rec.Deps
	}
	if rec.At != Unset {
		v.AtNS = &rec.At
	}
	if rec.Delay != Unset {
		v.DelayNS = &rec.Delay
	}
	for _, f := range []struct {
		from *int
		to   **int
	}{{&rec.Input, &v.Input}, {&rec.Output, &v.Output}, {&rec.Prefix, &v.Prefix}, {&rec.Cached, &v.Cached}} {
		if *f.from != Unknown {
			*f.to = f.from
		}
	}
	for _, h := range rec.Hashes {
		v.Hashes = append(v.Hashes, strconv.FormatUint(h, 10))
	}
	if len(rec.Body) == 0 {
		for _, m := range rec.Messages {
			v.Messages = append(v.Messages, ownMessage{Role: roleName(m.Role), Text: m.Text})
		}
	}
	return v
}

func roleName(r message.Role) string { return r.String() }
