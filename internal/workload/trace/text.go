package trace

import (
	"encoding/json"
	"fmt"
	"strings"

	"plimsoll/internal/message"
)

// payload reads a request body: what is known of it is taken, and the body itself
// is kept, to be sent as it is.
func (r *Reader) payload(rec *Record, b json.RawMessage) error {
	var v struct {
		Model     string          `json:"model"`
		Messages  json.RawMessage `json:"messages"`
		Prompt    json.RawMessage `json:"prompt"`
		Input     json.RawMessage `json:"input"`
		System    json.RawMessage `json:"system"`
		MaxTokens number          `json:"max_tokens"`
		MaxNew    number          `json:"max_completion_tokens"`
		MaxOutput number          `json:"max_output_tokens"`
		Tools     json.RawMessage `json:"tools"`
		Effort    string          `json:"reasoning_effort"`
	}
	if err := r.unmarshal(rec.Line, b, &v); err != nil {
		return err
	}
	rec.Body, rec.Model, rec.Tools = append(json.RawMessage(nil), b...), v.Model, v.Tools
	if len(v.System) > 0 {
		c, err := r.content(rec.Line, v.System)
		if err != nil {
			return err
		}
		if c.text != "" {
			rec.Messages = append(rec.Messages, Message{Role: message.System, Text: c.text})
		}
	}
	switch {
	case len(v.Messages) > 0:
		if err := r.messages(rec, v.Messages); err != nil {
			return err
		}
	case len(v.Prompt) > 0:
		if err := r.texts(rec, "prompt", v.Prompt); err != nil {
			return err
		}
	case len(v.Input) > 0:
		// The Responses API has messages here, embeddings have texts.
		var list []chatMessage
		if json.Unmarshal(v.Input, &list) == nil && len(list) > 0 && list[0].Role != "" {
			if err := r.messages(rec, v.Input); err != nil {
				return err
			}
		} else if err := r.texts(rec, "input", v.Input); err != nil {
			return err
		}
	default:
		return r.bad(rec.Line, "", "missing", "the body has no messages, prompt or input")
	}
	rec.Unsent = nil // the body has it all
	if err := r.references(rec.Line, "", b); err != nil {
		return err
	}
	if rec.Output == Unknown {
		n, err := r.count(rec.Line, count{"max_tokens", v.MaxTokens}, count{"max_completion_tokens", v.MaxNew}, count{"max_output_tokens", v.MaxOutput})
		if err != nil {
			return err
		}
		rec.Output = n
	}
	return nil
}

// texts reads a text or a list of texts as one prompt.
func (r *Reader) texts(rec *Record, field string, b json.RawMessage) error {
	var t one
	if json.Unmarshal(b, &t) != nil {
		var ids []int64
		if json.Unmarshal(b, &ids) == nil {
			rec.Input = len(ids)
			return nil
		}
		return r.bad(rec.Line, field, "type", "is neither a text, a list of texts nor a list of token ids")
	}
	text := strings.Join(t, "\n")
	if text == "" {
		return r.bad(rec.Line, field, "missing", "is empty")
	}
	rec.Messages = append(rec.Messages, Message{Role: message.User, Text: text})
	return nil
}

func payloadRow(r *Reader, line int, b []byte) error {
	var rec Record
	rec.reset(line)
	if err := r.payload(&rec, b); err != nil {
		return err
	}
	return r.add(rec)
}

// batchRow reads a row of an OpenAI batch input file.
func batchRow(r *Reader, line int, b []byte) error {
	var v struct {
		ID       string          `json:"custom_id"`
		Method   string          `json:"method"`
		URL      string          `json:"url"`
		Body     json.RawMessage `json:"body"`
		Response json.RawMessage `json:"response"`
	}
	if err := r.unmarshal(line, b, &v); err != nil {
		return err
	}
	if len(v.Body) == 0 {
		if len(v.Response) > 0 {
			return &Error{File: r.base(), Line: line, Field: "response", Text: "this is the output of a batch, want its input file (custom_id, method, url, body)"}
		}
		return r.bad(line, "body", "missing", "is missing")
	}
	if v.Method != "" && !strings.EqualFold(v.Method, "POST") {
		return r.bad(line, "method", "value", shown(v.Method)+", want POST")
	}
	if strings.Contains(v.URL, "://") {
		return r.bad(line, "url", "value", shown(v.URL)+" is a whole URL, want a path such as /v1/chat/completions: requests go to the target of the run")
	}
	var rec Record
	rec.reset(line)
	rec.ID, rec.Kind = v.ID, v.URL
	if err := r.payload(&rec, v.Body); err != nil {
		return err
	}
	return r.add(rec)
}

// sageMakerRow reads a row of SageMaker's data capture, which holds JSON in texts.
func sageMakerRow(r *Reader, line int, b []byte) error {
	var v struct {
		Capture struct {
			In struct {
				Data     string `json:"data"`
				Encoding string `json:"encoding"`
			} `json:"endpointInput"`
			Out struct {
				Data string `json:"data"`
			} `json:"endpointOutput"`
		} `json:"captureData"`
		Meta struct {
			ID   string `json:"eventId"`
			Time string `json:"inferenceTime"`
		} `json:"eventMetadata"`
	}
	if err := r.unmarshal(line, b, &v); err != nil {
		return err
	}
	var rec Record
	rec.reset(line)
	rec.ID = v.Meta.ID
	var err error
	if rec.At, err = r.time(line, "inferenceTime", v.Meta.Time, Date); err != nil {
		return err
	}
	if e := v.Capture.In.Encoding; e != "" && !strings.EqualFold(e, "json") {
		return r.bad(line, "encoding", "value", shown(e)+", want JSON")
	}
	if err := r.payload(&rec, json.RawMessage(v.Capture.In.Data)); err != nil {
		return err
	}
	var out struct {
		Usage struct {
			Prompt     number `json:"prompt_tokens"`
			Completion number `json:"completion_tokens"`
		} `json:"usage"`
	}
	if json.Unmarshal([]byte(v.Capture.Out.Data), &out) == nil {
		if n, err := r.tokens(line, "prompt_tokens", out.Usage.Prompt); err == nil && n >= 0 {
			rec.Input = n
		}
		if n, err := r.tokens(line, "completion_tokens", out.Usage.Completion); err == nil && n >= 0 {
			rec.Output = n
		}
	}
	return r.add(rec)
}

// promptRow reads JSON lines with prompt or messages.
func promptRow(r *Reader, line int, b []byte) error { return mooncakeRow(r, line, b) }

// turnText is one turn of AIPerf's single_turn, multi_turn and random_pool rows.
type turnText struct {
	Text      *string         `json:"text"`
	Texts     one             `json:"texts"`
	Image     one             `json:"image"`
	Images    one             `json:"images"`
	Audio     one             `json:"audio"`
	Audios    one             `json:"audios"`
	Video     one             `json:"video"`
	Videos    one             `json:"videos"`
	Timestamp number          `json:"timestamp"`
	Delay     number          `json:"delay"`
	Role      string          `json:"role"`
	Model     string          `json:"model"`
	Output    number          `json:"output_length"`
	MaxTokens number          `json:"max_tokens"`
	Session   id              `json:"session_id"`
	Messages  json.RawMessage `json:"messages"`
	Tools     json.RawMessage `json:"tools"`
}

// turnText reads a turn, which b is.
func (r *Reader) turnText(rec *Record, b []byte) error {
	var v turnText
	err := r.unmarshal(rec.Line, b, &v)
	if err != nil {
		return err
	}
	if v.Timestamp != "" {
		if rec.At, err = r.time(rec.Line, "timestamp", string(v.Timestamp), Milli); err != nil {
			return err
		}
	}
	if v.Delay != "" {
		if rec.Delay, err = r.span(rec.Line, "delay", string(v.Delay), Milli); err != nil {
			return err
		}
	}
	if rec.Output, err = r.count(rec.Line, count{"output_length", v.Output}, count{"max_tokens", v.MaxTokens}); err != nil {
		return err
	}
	for _, m := range []struct {
		field string
		refs  one
		image bool
	}{
		{"image", v.Image, true},
		{"images", v.Images, true},
		{"audio", v.Audio, false},
		{"audios", v.Audios, false},
		{"video", v.Video, false},
		{"videos", v.Videos, false},
	} {
		for _, ref := range m.refs {
			if format, data, ok := strings.Cut(ref, ","); ok && (format == "wav" || format == "mp3") && m.field[0] == 'a' {
				ref = "data:audio/" + format + ";base64," + data
			}
			if err := r.refuse(rec.Line, m.field, ref); err != nil {
				return err
			}
			if m.image {
				rec.Images++
			} else {
				rec.Unsent = append(rec.Unsent, m.field)
			}
		}
	}
	if len(v.Messages) > 0 {
		if err := r.messages(rec, v.Messages); err != nil {
			return err
		}
	} else {
		texts := v.Texts
		if v.Text != nil {
			texts = append(one{*v.Text}, texts...)
		}
		role, ok := roleOf(v.Role)
		if v.Role == "" {
			role, ok = message.User, true
		}
		if !ok {
			return r.bad(rec.Line, "role", "role", shown(v.Role)+" is no role, want system, user, assistant or tool")
		}
		if len(texts) == 0 && rec.Images == 0 && len(rec.Unsent) == 0 {
			return r.bad(rec.Line, "text", "missing", "is missing, and there are no texts, images or messages")
		}
		if len(texts) > 0 {
			rec.Messages = append(rec.Messages, Message{Role: role, Text: strings.Join(texts, "\n")})
		}
	}
	if _, err := r.parameters(rec, b); err != nil {
		return err
	}
	if err := r.wordless(rec, "text"); err != nil {
		return err
	}
	if v.Model != "" {
		rec.Model = v.Model
	}
	rec.Tools, rec.Session = v.Tools, string(v.Session)
	return nil
}

func singleTurnRow(r *Reader, line int, b []byte) error {
	var rec Record
	rec.reset(line)
	if err := r.turnText(&rec, b); err != nil {
		return err
	}
	rec.Delta = rec.Session != ""
	return r.add(rec)
}

func multiTurnRow(r *Reader, line int, b []byte) error {
	var v struct {
		Session id                `json:"session_id"`
		Turns   []json.RawMessage `json:"turns"`
	}
	if err := r.unmarshal(line, b, &v); err != nil {
		return err
	}
	if len(v.Turns) == 0 {
		return r.bad(line, "turns", "missing", "are missing")
	}
	session := string(v.Session)
	if session == "" {
		session = fmt.Sprintf("row %d", line)
	}
	for i := range v.Turns {
		var rec Record
		rec.reset(line)
		if err := r.turnText(&rec, v.Turns[i]); err != nil {
			return err
		}
		rec.Session, rec.Delta = session, true
		if i > 0 && rec.At == Unset && rec.Delay == Unset {
			rec.Delay = 0
		}
		if err := r.add(rec); err != nil {
			return err
		}
	}
	return nil
}

// conversationRow reads ShareGPT, LMSYS-Chat and WildChat rows. Turns are found by
// their roles, not by their places: what the model said before the user's first
// word is dropped, a system text is kept.
func conversationRow(r *Reader, line int, b []byte) error {
	type said struct {
		From    string          `json:"from"`
		Value   json.RawMessage `json:"value"`
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	var v struct {
		ID            id     `json:"id"`
		Conversation  id     `json:"conversation_id"`
		Hash          id     `json:"conversation_hash"`
		Model         string `json:"model"`
		Conversations []said `json:"conversations"`
		Single        []said `json:"conversation"`
		System        string `json:"system"`
	}
	if err := r.unmarshal(line, b, &v); err != nil {
		return err
	}
	list := v.Conversations
	if len(list) == 0 {
		list = v.Single
	}
	session := string(v.ID)
	for _, s := range []id{v.Conversation, v.Hash} {
		if session == "" {
			session = string(s)
		}
	}
	if session == "" || r.turns[session] > 0 {
		session = fmt.Sprintf("%s#%d", session, line)
	}
	var fresh []Message
	if v.System != "" {
		fresh = append(fresh, Message{Role: message.System, Text: v.System})
	}
	var turns []Record
	for i := range list {
		m := &list[i]
		name, body := m.From, m.Value
		if name == "" {
			name = m.Role
		}
		if len(body) == 0 {
			body = m.Content
		}
		role, ok := roleOf(name)
		if !ok {
			r.remark(line, "role", "", shown(name)+" is no role that is known: taken as a word of the user", false)
		}
		c, err := r.content(line, body)
		if err != nil {
			return err
		}
		if role == message.Assistant {
			if n := len(turns); n > 0 && len(fresh) == 0 {
				if turns[n-1].Answer != "" {
					turns[n-1].Answer += "\n"
				}
				turns[n-1].Answer += c.text
			}
			continue
		}
		fresh = append(fresh, Message{Role: role, Text: c.text})
		if role == message.System {
			continue
		}
		if n := len(turns); n > 0 && turns[n-1].Answer == "" {
			// Two words of the user in a row are one turn.
			turns[n-1].Messages = append(turns[n-1].Messages, fresh...)
			turns[n-1].Images += c.images
			turns[n-1].Unsent = append(turns[n-1].Unsent, c.others...)
			fresh = nil
			continue
		}
		var rec Record
		rec.reset(line)
		rec.Session, rec.Model, rec.Delta, rec.Messages, rec.Images, rec.Unsent = session, v.Model, true, fresh, c.images, c.others
		if len(turns) > 0 {
			rec.Delay = 0
		}
		turns = append(turns, rec)
		fresh = nil
	}
	if len(turns) == 0 {
		r.empty++
		r.remark(line, "empty", "", "a conversation without a word of the user", true)
		return errSkip
	}
	var beside Record
	beside.reset(line)
	if err := r.beside(&beside, b); err != nil {
		return err
	}
	turns[0].Images += beside.Images
	turns[0].Unsent = append(turns[0].Unsent, beside.Unsent...)
	for i := range turns {
		if len(turns[i].Unsent) > 0 {
			if err := r.wordless(&turns[i], "content"); err != nil {
				return err
			}
		}
	}
	for i := range turns {
		if err := r.add(turns[i]); err != nil {
			return err
		}
	}
	return nil
}

// inputsRow reads one session of AIPerf's inputs.json.
func inputsRow(r *Reader, n int, b []byte) error {
	var v struct {
		Session  id                `json:"session_id"`
		Payloads []json.RawMessage `json:"payloads"`
	}
	if err := r.unmarshal(n, b, &v); err != nil {
		return err
	}
	if len(v.Payloads) == 0 {
		return r.bad(n, "payloads", "missing", "are missing")
	}
	session := string(v.Session)
	if session == "" {
		session = fmt.Sprintf("row %d", n)
	}
	for i, p := range v.Payloads {
		var rec Record
		rec.reset(n)
		rec.Session = session
		if i > 0 {
			rec.Delay = 0
		}
		if err := r.payload(&rec, p); err != nil {
			return err
		}
		if err := r.add(rec); err != nil {
			return err
		}
	}
	return nil
}
