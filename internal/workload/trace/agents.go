package trace

import (
	"bufio"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"plimsoll/internal/message"
	"plimsoll/internal/random"
)

// openEndpoints reads the agentic rows of MLCommons endpoints. A request is made
// of all that was said between two answers: a word of the user, or the results of
// tools, whose delay passes before it.
func openEndpoints(_ *Reader, br *bufio.Reader, s *sniff) (source, error) {
	open := map[string]*Record{}
	var order []string // conversations with a request under way, as they came
	row := func(r *Reader, line int, b []byte) error {
		var v struct {
			Conversation id              `json:"conversation_id"`
			Role         string          `json:"role"`
			Content      json.RawMessage `json:"content"`
			System       string          `json:"system"`
			Model        string          `json:"model"`
			Tools        json.RawMessage `json:"tools"`
			ToolCalls    json.RawMessage `json:"tool_calls"`
			Delay        number          `json:"delay_seconds"`
			MaxTokens    number          `json:"max_new_tokens"`
			Results      []struct {
				Content json.RawMessage `json:"content"`
			} `json:"tool_results"`
		}
		if err := r.unmarshal(line, b, &v); err != nil {
			return err
		}
		session := string(v.Conversation)
		if session == "" {
			return r.bad(line, "conversation_id", "missing", "is missing")
		}
		role, ok := roleOf(v.Role)
		if !ok {
			return r.bad(line, "role", "role", shown(v.Role)+" is no role, want user, assistant or tool")
		}
		c, err := r.content(line, v.Content)
		if err != nil {
			return err
		}
		rec := open[session]
		if role == message.Assistant {
			if rec == nil {
				r.remark(line, "answer_first", "role", "an answer that nothing asked for is left out", false)
				return errSkip
			}
			if rec.Answer = c.text; rec.Answer == "" && len(v.ToolCalls) > 0 {
				rec.Answer = string(v.ToolCalls)
			}
			delete(open, session)
			order = slices.DeleteFunc(order, func(s string) bool { return s == session })
			return r.add(*rec)
		}
		if rec == nil {
			rec = new(Record)
			rec.reset(line)
			rec.Session, rec.Delta = session, true
			if r.turns[session] > 0 {
				rec.Delay = 0
			}
			open[session] = rec
			order = append(order, session)
		}
		if v.Delay != "" {
			d, err := r.span(line, "delay_seconds", string(v.Delay), Seconds)
			if err != nil {
				return err
			}
			rec.ToolWait = max(rec.ToolWait, d)
		}
		if rec.Output, err = r.tokens(line, "max_new_tokens", v.MaxTokens); err != nil {
			return err
		}
		if v.System != "" {
			rec.Messages = append(rec.Messages, Message{Role: message.System, Text: v.System})
		}
		if len(v.Tools) > 0 {
			rec.Tools = v.Tools
		}
		rec.Model, rec.Images, rec.Unsent = v.Model, rec.Images+c.images, append(rec.Unsent, c.others...)
		if c.text != "" {
			rec.Messages = append(rec.Messages, Message{Role: role, Text: c.text})
		}
		for i := range v.Results {
			c, err := r.content(line, v.Results[i].Content)
			if err != nil {
				return err
			}
			rec.Images, rec.Unsent = rec.Images+c.images, append(rec.Unsent, c.others...)
			rec.Messages = append(rec.Messages, Message{Role: message.Tool, Text: c.text})
		}
		return nil
	}
	end := func(r *Reader) error {
		for _, session := range order {
			if err := r.add(*open[session]); err != nil && err != errSkip {
				return err
			}
		}
		return nil
	}
	if s.array {
		d := newDocument(br, "", row)
		d.end = end
		return d, nil
	}
	return &jsonLines{lines: lines{br: br}, row: row, end: end}, nil
}

// appliedRow reads the lengths of one whole session.
func appliedRow(r *Reader, line int, b []byte) error {
	var v struct {
		Turns     int       `json:"num_turns"`
		Prompt    int       `json:"input_prompt_length"`
		Answers   []int     `json:"assistant_response_length"`
		Results   []int     `json:"tool_call_output_length"`
		Latency   []float64 `json:"tool_call_latency"`
		LastReply int       `json:"final_assistant_response_length"`
	}
	if err := r.unmarshal(line, b, &v); err != nil {
		return err
	}
	n := len(v.Answers)
	if len(v.Results) != n || len(v.Latency) != n {
		return r.bad(line, "", "lengths", fmt.Sprintf("%d assistant_response_length, %d tool_call_output_length and %d tool_call_latency: want as many of each", n, len(v.Results), len(v.Latency)))
	}
	if v.Turns != 0 && v.Turns != n {
		return r.bad(line, "num_turns", "lengths", fmt.Sprintf("%d, but the lists have %d", v.Turns, n))
	}
	input := v.Prompt
	for i := range n + 1 {
		var rec Record
		rec.reset(line)
		rec.Session = fmt.Sprintf("row %d", line)
		rec.Input, rec.Output = input, v.LastReply
		if i < n {
			rec.Output = v.Answers[i]
		}
		if i > 0 {
			rec.Delay = 0
			d := v.Latency[i-1]
			if !(d >= 0 && d < 1e9) {
				return r.bad(line, "tool_call_latency", "negative_time", fmt.Sprintf("%g, want seconds of at least 0", d))
			}
			rec.ToolWait = int64(d * 1e9)
		}
		if rec.Input < 0 || rec.Output < 0 || rec.Input > maxTokens {
			return r.bad(line, "", "length", fmt.Sprintf("%d input and %d output tokens, want 0 to %d", rec.Input, rec.Output, maxTokens))
		}
		if err := r.add(rec); err != nil {
			return err
		}
		if i < n {
			input += v.Answers[i] + v.Results[i]
		}
	}
	return nil
}

// wekaRequest is one entry of a Weka session: a request, or an agent's own run of
// requests.
type wekaRequest struct {
	T         *float64      `json:"t"`
	Type      string        `json:"type"`
	Agent     string        `json:"agent_id"`
	Model     string        `json:"model"`
	In        int           `json:"in"`
	Out       int           `json:"out"`
	HashIDs   hashes        `json:"hash_ids"`
	APITime   float64       `json:"api_time"`
	ThinkTime *float64      `json:"think_time"`
	Requests  []wekaRequest `json:"requests"`
}

func openWeka(_ *Reader, br *bufio.Reader, s *sniff) (source, error) {
	if s.array {
		return newDocument(br, "", wekaSession), nil
	}
	return newDocument(br, "-", wekaSession), nil
}

// wekaSession reads one session. A request waits for the one before it and for
// the agents that were started in between; an agent starts when the request
// before it has ended.
func wekaSession(r *Reader, n int, b []byte) error {
	var v struct {
		ID       id            `json:"id"`
		Block    int           `json:"block_size"`
		Scope    string        `json:"hash_id_scope"`
		Requests []wekaRequest `json:"requests"`
	}
	if err := r.unmarshal(n, b, &v); err != nil {
		return err
	}
	block := r.block
	if r.opts.BlockTokens == 0 && v.Block > 0 {
		block = v.Block
	}
	if block > maxTokens {
		return r.bad(n, "block_size", "value", fmt.Sprintf("%d, want at most %d", block, maxTokens))
	}
	switch v.Scope {
	case "", "local", "global":
	default:
		return r.bad(n, "hash_id_scope", "value", shown(v.Scope)+", want local or global")
	}
	session := string(v.ID)
	if session == "" || r.turns[session] > 0 {
		session = fmt.Sprintf("%s#%d", session, n)
	}
	w := weka{r: r, n: n, block: block}
	if v.Scope != "global" {
		// Equal ids of two sessions are not equal text.
		w.salt = random.Derive(hashText(session), 1)
	}
	_, err := w.run(session, "", v.Requests, nil, 0)
	return err
}

type weka struct {
	r     *Reader
	n     int
	block int
	salt  uint64
	count int
}

// run adds the requests of one agent, the first of which waits for deps that ended
// at time ended; it returns its last request.
func (w *weka) run(session, parent string, list []wekaRequest, deps []string, ended float64) ([]string, error) {
	for i := range list {
		q := &list[i]
		t := 0.0
		if q.T != nil {
			t = *q.T
		}
		if !(t >= 0 && t < 1e9) || !(q.APITime >= 0 && q.APITime < 1e9) || q.ThinkTime != nil && !(*q.ThinkTime >= 0 && *q.ThinkTime < 1e9) {
			return nil, w.r.bad(w.n, "t", "negative_time", fmt.Sprintf("request %d: times of %g and %g s, want 0 or more", i+1, t, q.APITime))
		}
		if q.Type == "subagent" || len(q.Requests) > 0 {
			if w.count++; w.count > 1<<20 {
				return nil, w.r.bad(w.n, "requests", "length", "more than a million requests in one session")
			}
			name := q.Agent
			if name == "" {
				name = fmt.Sprintf("agent %d", w.count)
			}
			var before []string
			if len(deps) > 0 {
				before = deps[:1:1]
			}
			last, err := w.run(session+"/"+name, session, q.Requests, before, ended)
			if err != nil {
				return nil, err
			}
			if len(last) > 0 && len(deps) > 0 {
				deps = append(deps, last[0])
			}
			continue
		}
		if w.count++; w.count > 1<<20 {
			return nil, w.r.bad(w.n, "requests", "length", "more than a million requests in one session")
		}
		var rec Record
		rec.reset(w.n)
		rec.ID = fmt.Sprintf("%s#%d", session, i)
		rec.Session, rec.Parent, rec.Model, rec.Kind = session, parent, q.Model, q.Type
		rec.Input, rec.Output, rec.Hashes, rec.BlockTokens = q.In, q.Out, q.HashIDs, w.block
		rec.Took = int64(q.APITime * 1e9)
		if rec.Input < 0 || rec.Output < 0 {
			return nil, w.r.bad(w.n, "in", "length", fmt.Sprintf("request %d: %d input and %d output tokens, want 0 or more", i+1, q.In, q.Out))
		}
		if w.salt != 0 {
			for j, h := range rec.Hashes {
				rec.Hashes[j] = random.Derive(w.salt, h)
			}
		}
		rec.Deps, rec.Graph = deps, true
		if len(deps) == 0 {
			rec.At = int64(t * 1e9)
			rec.Graph = false
		} else {
			rec.Delay = max(0, int64((t-ended)*1e9))
			if q.ThinkTime != nil {
				rec.Delay = int64(*q.ThinkTime * 1e9)
			}
		}
		if err := w.r.add(rec); err != nil {
			return nil, err
		}
		deps, ended = []string{rec.ID}, t+q.APITime
	}
	return deps, nil
}

// hashText is the number that a name stands for.
func hashText(s string) uint64 {
	h := uint64(len(s))
	for i := 0; i < len(s); i += 8 {
		var word uint64
		for j := i; j < min(i+8, len(s)); j++ {
			word = word<<8 | uint64(s[j])
		}
		h = random.Derive(h, word)
	}
	return h
}

// openTraceLab reads TraceLab's rounds. A round begins with its last input (a word
// of the user or the result of a tool) and ends with the last thing that the
// model said.
func openTraceLab(_ *Reader, br *bufio.Reader, s *sniff) (source, error) {
	ended := map[string]int64{}
	row := func(r *Reader, line int, b []byte) error {
		var v struct {
			Session   id     `json:"session_id"`
			Round     number `json:"round_index"`
			ID        string `json:"round_id"`
			Model     string `json:"model"`
			Total     number `json:"input_tokens_total"`
			Prefix    number `json:"prefix_tokens"`
			New       number `json:"newly_append_tokens"`
			Output    number `json:"output_tokens"`
			Reasoning number `json:"reasoning_output_tokens"`
			Events    []struct {
				Type string `json:"event_type"`
				At   string `json:"timestamp"`
			} `json:"timing_events"`
		}
		if err := r.unmarshal(line, b, &v); err != nil {
			return err
		}
		var rec Record
		rec.reset(line)
		var err error
		if rec.Input, err = r.tokens(line, "input_tokens_total", v.Total); err != nil {
			return err
		}
		if rec.Prefix, err = r.tokens(line, "prefix_tokens", v.Prefix); err != nil {
			return err
		}
		if rec.Output, err = r.tokens(line, "output_tokens", v.Output); err != nil {
			return err
		}
		if v.Reasoning != "" {
			if rec.Reasoning, err = r.tokens(line, "reasoning_output_tokens", v.Reasoning); err != nil {
				return err
			}
		}
		if rec.Input == Unknown || rec.Output == Unknown {
			return r.bad(line, "input_tokens_total", "missing", "is missing, or output_tokens is")
		}
		if rec.Prefix > rec.Input {
			return r.bad(line, "prefix_tokens", "length", fmt.Sprintf("%d of a prompt of %d", rec.Prefix, rec.Input))
		}
		rec.Session, rec.ID, rec.Model, rec.Kind = string(v.Session), v.ID, v.Model, ""
		last := Unset
		for i := range v.Events {
			e := &v.Events[i]
			t, err := r.time(line, "timing_events.timestamp", e.At, Date)
			if err != nil {
				return err
			}
			if e.Type == "user_message" || e.Type == "tool_result" {
				if rec.At == Unset || t > rec.At {
					rec.At = t
				}
			} else if last == Unset || t > last {
				last = t
			}
		}
		if before, ok := ended[rec.Session]; ok && rec.At != Unset {
			rec.Delay = max(0, rec.At-before)
		}
		if last != Unset && rec.At != Unset && last > rec.At {
			rec.Took = last - rec.At
		}
		if last != Unset && len(ended) < maxSessions {
			ended[rec.Session] = last
		}
		return r.add(rec)
	}
	if s.array {
		return newDocument(br, "", row), nil
	}
	return &jsonLines{lines: lines{br: br}, row: row}, nil
}

// openTraceLabCSV reads TraceLab's workload tables: arrival_time is the session's,
// tool_wait_after_ms passes between the end of a round and the next.
func openTraceLabCSV(r *Reader, br *bufio.Reader, _ *sniff) (source, error) {
	names := map[string]string{
		"session_id": "session", "arrival_time": "timestamp", "round_idx": "round",
		"prefix_len": "prefix", "input_len": "new", "output_len": "output", "tool_wait_after_ms": "wait",
	}
	waits := map[string]int64{}
	t, err := openTable(r, br, func(s string) string { return names[strings.ToLower(strings.TrimSpace(s))] }, "session", "round", "prefix", "new", "output")
	if err != nil {
		return nil, err
	}
	t.row = func(r *Reader, line int, t *table, cells []string) error {
		var rec Record
		rec.reset(line)
		var added int
		var err error
		for _, f := range []struct {
			field string
			to    *int
		}{{"prefix", &rec.Prefix}, {"new", &added}, {"output", &rec.Output}} {
			if *f.to, err = t.count(r, line, cells, f.field); err != nil {
				return err
			}
		}
		rec.Input = rec.Prefix + added
		rec.Session = t.cell(cells, "session")
		if rec.Session == "" {
			return r.bad(line, "session_id", "missing", "is empty")
		}
		wait, later := waits[rec.Session]
		if later {
			rec.Delay, rec.ToolWait = 0, wait
		} else if s := t.cell(cells, "timestamp"); s != "" {
			if rec.At, err = r.time(line, "arrival_time", s, Milli); err != nil {
				return err
			}
		}
		wait = 0
		if s := t.cell(cells, "wait"); s != "" {
			if wait, err = r.span(line, "tool_wait_after_ms", s, Milli); err != nil {
				return err
			}
		}
		if len(waits) < maxSessions {
			waits[rec.Session] = wait
		}
		return r.add(rec)
	}
	return t, nil
}

// openDAG reads AIPerf's sessions that spawn others. All of the file has to be
// known to say who waits for whom.
func openDAG(_ *Reader, br *bufio.Reader, s *sniff) (source, error) {
	d := &dag{sessions: map[string]*dagSession{}}
	if s.array {
		doc := newDocument(br, "", d.row)
		doc.end = d.end
		return doc, nil
	}
	return &jsonLines{lines: lines{br: br}, row: d.row, end: d.end}, nil
}

type dag struct {
	sessions map[string]*dagSession
	order    []*dagSession
}

type dagSession struct {
	id    string
	line  int
	turns []dagTurn
	// after is the turn that starts the session: its record's name.
	after, parent string
	started       bool
	// forked: it goes on from what the parent had said until then.
	forked bool
}

type dagTurn struct {
	raw    json.RawMessage
	Spawns []dagSpawn `json:"spawns"`
	Forks  []dagSpawn `json:"forks"`
	deps   []string
}

// dagSpawn is a session's name, or several with the turn of the parent that waits
// for them.
type dagSpawn struct {
	Children []string
	JoinAt   int // 0 for the next turn
}

// UnmarshalJSON reads either form.
func (s *dagSpawn) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		s.Children = make([]string, 1)
		return json.Unmarshal(b, &s.Children[0])
	}
	var v struct {
		Children []string `json:"children"`
		JoinAt   int      `json:"join_at"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return &valueError{"type", "spawns: " + shown(string(b)) + " is neither a session nor children with join_at"}
	}
	s.Children, s.JoinAt = v.Children, v.JoinAt
	return nil
}

func (d *dag) row(r *Reader, line int, b []byte) error {
	var v struct {
		Session id                `json:"session_id"`
		Turns   []json.RawMessage `json:"turns"`
	}
	if err := r.unmarshal(line, b, &v); err != nil {
		return err
	}
	if v.Session == "" || len(v.Turns) == 0 {
		return r.bad(line, "session_id", "missing", "is missing, or turns are")
	}
	if d.sessions[string(v.Session)] != nil {
		return r.bad(line, "session_id", "twice", shown(string(v.Session))+" is there twice")
	}
	s := &dagSession{id: string(v.Session), line: line, turns: make([]dagTurn, len(v.Turns))}
	for i, raw := range v.Turns {
		if err := r.unmarshal(line, raw, &s.turns[i]); err != nil {
			return err
		}
		s.turns[i].raw = raw
	}
	d.sessions[s.id] = s
	d.order = append(d.order, s)
	return nil
}

func turnID(session string, turn int) string { return fmt.Sprintf("%s#%d", session, turn) }

func (d *dag) end(r *Reader) error {
	for _, s := range d.order {
		for k := range s.turns {
			for i, sp := range append(slices.Clip(s.turns[k].Spawns), s.turns[k].Forks...) {
				for _, name := range sp.Children {
					child := d.sessions[name]
					if child == nil {
						return &Error{File: r.base(), Line: s.line, Field: "spawns", Text: "no session " + shown(name)}
					}
					if child.started {
						return &Error{File: r.base(), Line: s.line, Field: "spawns", Text: "session " + shown(name) + " is spawned twice"}
					}
					child.started, child.after, child.parent = true, turnID(s.id, k), s.id
					child.forked = i >= len(s.turns[k].Spawns)
					join := sp.JoinAt
					if join == 0 {
						join = k + 1
					}
					if join <= k {
						return &Error{File: r.base(), Line: s.line, Field: "join_at", Text: fmt.Sprintf("%d is not after turn %d, which spawns", join, k)}
					}
					if join < len(s.turns) {
						s.turns[join].deps = append(s.turns[join].deps, turnID(name, len(child.turns)-1))
					}
				}
			}
		}
	}
	for _, s := range d.order {
		for k := range s.turns {
			t := &s.turns[k]
			var rec Record
			rec.reset(s.line)
			if err := r.turnText(&rec, t.raw); err != nil {
				if err == errSkip {
					continue
				}
				return err
			}
			rec.ID, rec.Session, rec.Parent, rec.Delta = turnID(s.id, k), s.id, s.parent, true
			switch {
			case k > 0:
				rec.Deps = append([]string{turnID(s.id, k-1)}, t.deps...)
			case s.after != "":
				rec.Deps = []string{s.after}
				rec.Forked = s.forked
			}
			rec.Graph = len(rec.Deps) > 0
			if rec.Graph && rec.Delay == Unset {
				rec.Delay = 0
			}
			if err := r.add(rec); err != nil && err != errSkip {
				return err
			}
		}
	}
	return nil
}

// openOTel reads spans of calls to models. What a call waited for is taken from
// the times: it waits for the calls of its trace that had ended when it started,
// but for those that others of these waited for.
func openOTel(_ *Reader, br *bufio.Reader, s *sniff) (source, error) {
	o := &otel{}
	var d *document
	switch {
	case s.array:
		d = newDocument(br, "", o.row)
	default:
		d = newDocument(br, "-", o.row)
	}
	d.end = o.end
	return d, nil
}

type otel struct{ calls []otelCall }

type otelCall struct {
	rec        Record
	trace      string
	start, end int64
}

// otelAttributes are a map, or a list of keys and typed values.
type otelAttributes map[string]string

// UnmarshalJSON reads either form; values become texts.
func (a *otelAttributes) UnmarshalJSON(b []byte) error {
	*a = otelAttributes{}
	var list []struct {
		Key   string `json:"key"`
		Value map[string]json.RawMessage
	}
	if json.Unmarshal(b, &list) == nil {
		for _, kv := range list {
			for _, v := range kv.Value {
				(*a)[kv.Key] = plain(v)
			}
		}
		return nil
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil {
		return &valueError{"type", "attributes: neither an object nor a list of keys and values"}
	}
	for k, v := range m {
		(*a)[k] = plain(v)
	}
	return nil
}

func plain(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return s
	}
	return string(v)
}

type otelSpan struct {
	TraceID   string         `json:"trace_id"`
	TraceID2  string         `json:"traceId"`
	SpanID    string         `json:"span_id"`
	SpanID2   string         `json:"spanId"`
	Name      string         `json:"name"`
	Start     number         `json:"start_time"`
	End       number         `json:"end_time"`
	StartNano number         `json:"startTimeUnixNano"`
	EndNano   number         `json:"endTimeUnixNano"`
	Attr      otelAttributes `json:"attributes"`
}

func (o *otel) row(r *Reader, n int, b []byte) error {
	var v struct {
		Spans     []otelSpan `json:"spans"`
		Resources []struct {
			Scopes []struct {
				Spans []otelSpan `json:"spans"`
			} `json:"scopeSpans"`
		} `json:"resourceSpans"`
		otelSpan
	}
	if err := r.unmarshal(n, b, &v); err != nil {
		return err
	}
	spans := v.Spans
	for i := range v.Resources {
		for j := range v.Resources[i].Scopes {
			spans = append(spans, v.Resources[i].Scopes[j].Spans...)
		}
	}
	if v.Attr != nil {
		spans = append(spans, v.otelSpan)
	}
	for i := range spans {
		if err := o.span(r, n, &spans[i]); err != nil && err != errSkip {
			return err
		}
	}
	return nil
}

func (o *otel) span(r *Reader, n int, s *otelSpan) error {
	get := func(names ...string) string {
		for _, name := range names {
			if v := s.Attr[name]; v != "" {
				return v
			}
		}
		return ""
	}
	switch op := get("gen_ai.operation.name"); op {
	case "chat", "text_completion", "generate_content", "completion":
	case "":
		if get("gen_ai.request.model", "gen_ai.system", "gen_ai.provider.name") == "" {
			r.toolEvents++
			return errSkip
		}
	default:
		r.toolEvents++ // a tool, an agent as a whole, embeddings
		return errSkip
	}
	var c otelCall
	c.rec.reset(n)
	var err error
	if c.start, err = r.time(n, "start_time", string(first(s.StartNano, s.Start)), Nanoseconds); err != nil {
		return err
	}
	if c.end, err = r.time(n, "end_time", string(first(s.EndNano, s.End)), Nanoseconds); err != nil {
		return err
	}
	if c.end < c.start {
		return r.bad(n, "end_time", "negative_time", fmt.Sprintf("span %s ends %v before it starts", shown(s.Name), time.Duration(c.start-c.end)))
	}
	rec := &c.rec
	rec.At, rec.Took = c.start, c.end-c.start
	rec.ID = s.SpanID + s.SpanID2
	if rec.ID == "" {
		rec.ID = fmt.Sprintf("span %d", len(o.calls))
	}
	c.trace = s.TraceID + s.TraceID2
	if c.trace == "" {
		c.trace = get("exgentic.session.id", "session.id", "gen_ai.conversation.id")
	}
	rec.Model = get("gen_ai.request.model", "gen_ai.response.model")
	if rec.Input, err = r.tokens(n, "gen_ai.usage.input_tokens", number(get("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"))); err != nil {
		return err
	}
	if rec.Output, err = r.tokens(n, "gen_ai.usage.output_tokens", number(get("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "gen_ai.request.max_tokens"))); err != nil {
		return err
	}
	if m := get("gen_ai.input.messages", "gen_ai.prompt"); strings.HasPrefix(m, "[") {
		if err := r.messages(rec, json.RawMessage(m)); err != nil {
			return err
		}
	} else {
		for i := range 1000 {
			at := fmt.Sprintf("gen_ai.prompt.%d.", i)
			role, ok := roleOf(s.Attr[at+"role"])
			if !ok {
				break
			}
			rec.Messages = append(rec.Messages, Message{Role: role, Text: s.Attr[at+"content"]})
		}
	}
	rec.Answer = get("gen_ai.output.text", "gen_ai.completion.0.content")
	if rec.Input == Unknown && len(rec.Messages) == 0 {
		return r.bad(n, "gen_ai.usage.input_tokens", "missing", "span "+shown(s.Name)+" has neither tokens nor messages")
	}
	if len(o.calls) >= maxCalls {
		return &Error{File: r.base(), Line: n, Text: fmt.Sprintf("more than %d calls", maxCalls)}
	}
	o.calls = append(o.calls, c)
	return nil
}

// first returns the first number that is there.
func first(ns ...number) number {
	for _, n := range ns {
		if n != "" {
			return n
		}
	}
	return ""
}

const (
	// maxCalls bounds the spans of a file, which must be known together.
	maxCalls = 1 << 22
	// looksBack is how many calls before it one is compared with.
	looksBack = 256
)

func (o *otel) end(r *Reader) error {
	slices.SortStableFunc(o.calls, func(a, b otelCall) int {
		if a.trace != b.trace {
			return strings.Compare(a.trace, b.trace)
		}
		return int(min(1, max(-1, a.start-b.start)))
	})
	for i := range o.calls {
		c := &o.calls[i]
		// Of what had ended, only what no later of them waited for counts: what ended
		// before another of them began.
		latest := Unset
		for j := i - 1; j >= max(0, i-looksBack) && o.calls[j].trace == c.trace; j-- {
			if p := &o.calls[j]; p.end <= c.start {
				latest = max(latest, p.start)
			}
		}
		ended := Unset
		for j := i - 1; j >= max(0, i-looksBack) && o.calls[j].trace == c.trace; j-- {
			if p := &o.calls[j]; p.end <= c.start && (p.end > latest || p.start == latest) {
				c.rec.Deps = append(c.rec.Deps, p.rec.ID)
				ended = max(ended, p.end)
			}
		}
		slices.Sort(c.rec.Deps)
		if c.rec.Graph = len(c.rec.Deps) > 0; c.rec.Graph {
			c.rec.Delay = c.start - ended
		}
		if err := r.add(c.rec); err != nil && err != errSkip {
			return err
		}
	}
	return nil
}
