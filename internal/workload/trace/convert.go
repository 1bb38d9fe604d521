package trace

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
)

// mooncakeOut is a row as Convert writes it: what Mooncake's readers know, then
// what its agentic form adds.
type mooncakeOut struct {
	Timestamp json.RawMessage `json:"timestamp,omitempty"`
	Input     *int            `json:"input_length,omitempty"`
	Output    *int            `json:"output_length,omitempty"`
	HashIDs   []uint64        `json:"hash_ids,omitempty"`
	Text      *string         `json:"text_input,omitempty"`
	Messages  []chatOut       `json:"messages,omitempty"`
	Mode      string          `json:"message_mode,omitempty"`
	Payload   json.RawMessage `json:"payload,omitempty"`
	Tools     json.RawMessage `json:"tools,omitempty"`
	RequestID string          `json:"request_id,omitempty"`
	Session   string          `json:"session_id,omitempty"`
	WaitFor   []string        `json:"wait_for,omitempty"`
	Delay     json.RawMessage `json:"delay,omitempty"`
	ToolWait  json.RawMessage `json:"tool_wait_ms,omitempty"`
}

type chatOut struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// millis writes ns as ms, whole where they are.
func millis(ns int64) json.RawMessage {
	if ns%1e6 == 0 {
		return strconv.AppendInt(nil, ns/1e6, 10)
	}
	s := strconv.AppendInt(nil, ns/1e6, 10)
	frac := fmt.Sprintf(".%06d", ns%1e6)
	for frac[len(frac)-1] == '0' {
		frac = frac[:len(frac)-1]
	}
	return append(s, frac...)
}

// Converted says what Convert wrote.
type Converted struct {
	Requests int `json:"requests"`
	// BlockTokens is that of the hashes, 0 without.
	BlockTokens int `json:"block_tokens"`
	// Lost says what the form cannot hold.
	Lost []string `json:"lost"`
	// Notices are those of the reading.
	Notices []string `json:"notices"`
}

// writer writes records in one form.
type writer struct {
	w      *bufio.Writer
	enc    *json.Encoder
	target string
	// ids numbers hashes in the order of their appearance: Mooncake's readers may
	// hold them in floats, which cannot tell hashes of 64 bits apart.
	ids  map[uint64]uint64
	next uint64
	out  Converted
	lost map[string]bool
}

func newWriter(w io.Writer, target string) (*writer, error) {
	if target != "mooncake" && target != "plimsoll" {
		return nil, fmt.Errorf("convert trace: form %q is not known, want mooncake or plimsoll", target)
	}
	c := &writer{w: bufio.NewWriterSize(w, 1<<16), target: target, ids: map[uint64]uint64{}, lost: map[string]bool{}}
	c.enc = json.NewEncoder(c.w)
	c.enc.SetEscapeHTML(false)
	return c, nil
}

func (c *writer) lose(what string) {
	if !c.lost[what] {
		c.lost[what] = true
		c.out.Lost = append(c.out.Lost, what)
	}
}

func (c *writer) write(rec *Record) error {
	c.out.Requests++
	if len(rec.Hashes) > 0 {
		c.out.BlockTokens = rec.BlockTokens
	}
	if c.target == "plimsoll" {
		return c.enc.Encode(own(rec))
	}
	v := mooncakeOut{Payload: rec.Body, RequestID: rec.ID, Session: rec.Session}
	if rec.At != Unset {
		v.Timestamp = millis(rec.At)
	}
	if rec.Delay != Unset && (rec.At == Unset || rec.Graph) {
		v.Delay = millis(rec.Delay)
	}
	if rec.ToolWait > 0 {
		v.ToolWait = millis(rec.ToolWait)
	}
	if rec.Graph {
		v.WaitFor = rec.Deps
		if rec.At != Unset {
			v.Timestamp = nil // a row waits for others or for the clock
		}
	}
	if rec.Output != Unknown {
		v.Output = &rec.Output
	}
	switch {
	case len(rec.Body) > 0:
	case len(rec.Messages) == 1 && rec.Session == "" && rec.Messages[0].Role == 0:
		v.Text = &rec.Messages[0].Text
	case len(rec.Messages) > 0:
		for _, m := range rec.Messages {
			v.Messages = append(v.Messages, chatOut{roleName(m.Role), m.Text})
		}
		v.Tools = rec.Tools
		if rec.Delta {
			v.Mode = "delta"
		}
	case rec.Input == Unknown:
		c.lose("requests of nothing but media")
		c.out.Requests--
		return nil
	default:
		if rec.Input == 0 {
			c.lose("prompts of 0 tokens, written as 1")
			rec.Input = 1
		}
		v.Input = &rec.Input
		if rec.Output == Unknown {
			c.lose("output lengths that the file does not say, written as 1")
			rec.Output = 1
			v.Output = &rec.Output
		}
		if len(rec.Hashes) > 0 {
			want := (rec.Input + rec.BlockTokens - 1) / rec.BlockTokens
			for i, h := range rec.Hashes {
				if i < want {
					v.HashIDs = append(v.HashIDs, c.number(h))
				}
			}
			for len(v.HashIDs) < want {
				// What no hash covers is nobody else's: a new id.
				v.HashIDs = append(v.HashIDs, c.next)
				c.next++
			}
		}
		if rec.Delta {
			c.lose("that rows hold only what is new: the form has that for messages alone")
		}
	}
	for _, f := range []struct {
		what string
		is   bool
	}{
		{"images", rec.Images > 0 && len(rec.Body) == 0},
		{"what is neither text nor images", len(rec.Unsent) > 0},
		{"which requests were cancelled", rec.Cancelled},
		{"reasoning tokens", rec.Reasoning > 0},
		{"recorded answers", rec.Answer != ""},
		{"models", rec.Model != "" && len(rec.Body) == 0},
		{"prefix lengths", rec.Prefix != Unknown},
		{"recorded durations", rec.Took > 0},
	} {
		if f.is {
			c.lose(f.what)
		}
	}
	return c.enc.Encode(&v)
}

func (c *writer) number(h uint64) uint64 {
	n, ok := c.ids[h]
	if !ok {
		n = c.next
		c.next++
		c.ids[h] = n
	}
	return n
}

// Convert writes the trace at path in another form, its times from 0. A trace that
// is in order of its times is read twice and never held as a whole.
func Convert(w io.Writer, path, target string, opts Options, sel Selection) (*Converted, error) {
	c, err := newWriter(w, target)
	if err != nil {
		return nil, err
	}
	begin, ordered, err := scan(path, opts)
	if err != nil {
		return nil, err
	}
	if !ordered || sel != (Selection{}) {
		t, err := Load(path, opts, sel)
		if err != nil {
			return nil, err
		}
		for i := range t.Records {
			if err := c.write(&t.Records[i]); err != nil {
				return nil, fmt.Errorf("convert trace: %w", err)
			}
		}
		c.out.Notices = t.Summary.Notices
	} else {
		r, err := Open(path, opts)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		for {
			rec, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return nil, err
			}
			if rec.At != Unset {
				rec.At -= begin
			}
			if err := c.write(&rec); err != nil {
				return nil, fmt.Errorf("convert trace: %w", err)
			}
		}
		c.out.Notices = r.Notices()
	}
	if err := c.w.Flush(); err != nil {
		return nil, fmt.Errorf("convert trace: %w", err)
	}
	if b := c.out.BlockTokens; target == "mooncake" && b != 0 && b != 512 {
		c.out.Notices = append(c.out.Notices, fmt.Sprintf("hashes are of %d tokens: tell its reader, which expects 512 (--block-size %d)", b, b))
	}
	return &c.out, nil
}

// scan reads a trace for the first time: when it begins, and whether its rows are
// in order and wait for nobody.
func scan(path string, opts Options) (begin int64, ordered bool, err error) {
	r, err := Open(path, opts)
	if err != nil {
		return 0, false, err
	}
	defer r.Close()
	begin, latest, n := Unset, Unset, 0
	ordered = true
	for {
		rec, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, false, err
		}
		n++
		if rec.Graph {
			ordered = false
		}
		if rec.At == Unset {
			continue
		}
		if rec.At < latest {
			ordered = false
		}
		latest = rec.At
		if begin == Unset || rec.At < begin {
			begin = rec.At
		}
	}
	if n == 0 {
		return 0, false, fmt.Errorf("read trace %s: no request is left", r.base())
	}
	return begin, ordered, nil
}
