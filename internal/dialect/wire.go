package dialect

// Writer writes the answers of a server of these APIs: chunks of a stream as
// whole server-sent events, whole bodies, and error objects. It is what the
// simulated server speaks. A Writer is made per answer by NewWriter and may be
// used by one goroutine; its methods append and return the extended slice.
type Writer struct {
	api  API
	head string // of every chunk, up to the choices
	id   string
	tail string // of a body: created and model
	// r is of the Responses API alone.
	r *responding
}

// WriterUsage is a token account to send; Cached and Reasoning are sent when
// they are at least 0.
type WriterUsage struct {
	Prompt, Completion, Cached, Reasoning int
}

// Answer is one choice of a whole body.
type Answer struct {
	Text, Reasoning, Finish string
	Calls                   []Call
}

// NewWriter returns a writer for one answer with that id; created is in Unix
// seconds.
func NewWriter(api API, id, model string, created int64) *Writer {
	w := &Writer{api: api, id: string(appendQuoted(nil, id))}
	stamp := `,"created":`
	if api == OpenAIResponses {
		stamp = `,"created_at":`
	}
	b := appendInt([]byte(stamp), created)
	b = appendQuoted(append(b, `,"model":`...), model)
	w.tail = string(b)
	object := "chat.completion.chunk"
	if api == OpenAICompletions {
		object = "text_completion"
	}
	b = append([]byte(`data: {"id":`), w.id...)
	b = append(b, `,"object":"`...)
	b = append(b, object...)
	b = append(b, '"')
	b = append(b, w.tail...)
	w.head = string(append(b, `,"choices":[`...))
	return w
}

func (w *Writer) open(dst []byte, choice int) []byte {
	dst = append(dst, w.head...)
	dst = appendInt(append(dst, `{"index":`...), int64(choice))
	if w.api == OpenAICompletions {
		return append(dst, `,"text":`...)
	}
	return append(dst, `,"delta":{`...)
}

// end closes the chunk of one choice. An empty finish is null.
func (w *Writer) end(dst []byte, finish string, u *WriterUsage) []byte {
	if w.api != OpenAICompletions {
		dst = append(dst, '}')
	}
	dst = append(dst, `,"logprobs":null,"finish_reason":`...)
	if finish == "" {
		dst = append(dst, "null"...)
	} else {
		dst = appendQuoted(dst, finish)
	}
	dst = append(dst, '}', ']')
	return endChunk(dst, u)
}

func endChunk(dst []byte, u *WriterUsage) []byte {
	if u != nil {
		dst = appendUsage(append(dst, `,"usage":`...), u)
	}
	return append(dst, "}\n\n"...)
}

func appendUsage(dst []byte, u *WriterUsage) []byte {
	dst = appendInt(append(dst, `{"prompt_tokens":`...), int64(u.Prompt))
	dst = appendInt(append(dst, `,"total_tokens":`...), int64(u.Prompt+u.Completion))
	dst = appendInt(append(dst, `,"completion_tokens":`...), int64(u.Completion))
	if u.Cached >= 0 {
		dst = appendInt(append(dst, `,"prompt_tokens_details":{"cached_tokens":`...), int64(u.Cached))
		dst = append(dst, '}')
	}
	if u.Reasoning >= 0 {
		dst = appendInt(append(dst, `,"completion_tokens_details":{"reasoning_tokens":`...), int64(u.Reasoning))
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// AppendRole appends the first chunk of a choice, which has a role and no
// output; completions and responses have none, so that nothing is appended.
func (w *Writer) AppendRole(dst []byte, choice int, u *WriterUsage) []byte {
	if w.api == OpenAICompletions || w.r != nil {
		return dst
	}
	dst = append(w.open(dst, choice), `"role":"assistant","content":""`...)
	return w.end(dst, "", u)
}

// AppendText appends a chunk with output text. u, when not nil, is the running
// usage. A finish that is not empty ends the choice in the same chunk.
func (w *Writer) AppendText(dst []byte, choice int, text, finish string, u *WriterUsage) []byte {
	if w.r != nil {
		if dst = w.say(dst, itemMessage, text); finish != "" {
			dst = w.ended(dst, finish)
		}
		return dst
	}
	dst = w.open(dst, choice)
	if w.api != OpenAICompletions {
		dst = append(dst, `"content":`...)
	}
	return w.end(appendQuoted(dst, text), finish, u)
}

// AppendReasoning appends a chunk with reasoning text; completions have no such
// channel and get it as text.
func (w *Writer) AppendReasoning(dst []byte, choice int, text string, u *WriterUsage) []byte {
	if w.r != nil {
		return w.say(dst, itemReasoning, text)
	}
	dst = w.open(dst, choice)
	if w.api != OpenAICompletions {
		dst = append(dst, `"reasoning_content":`...)
	}
	return w.end(appendQuoted(dst, text), "", u)
}

// AppendCall appends a chunk with a piece of tool call number call: the first
// has ID and Name, the later ones only Arguments. Completions have none.
func (w *Writer) AppendCall(dst []byte, choice, call int, c *Call, u *WriterUsage) []byte {
	if w.r != nil {
		if c.ID != "" {
			dst = w.openItem(dst, itemCall, *c)
		}
		return w.say(dst, itemCall, c.Arguments)
	}
	dst = append(w.open(dst, choice), `"tool_calls":[`...)
	dst = appendCall(dst, call, c)
	return w.end(append(dst, ']'), "", u)
}

func appendCall(dst []byte, call int, c *Call) []byte {
	dst = appendInt(append(dst, `{"index":`...), int64(call))
	if c.ID != "" {
		dst = appendQuoted(append(dst, `,"id":`...), c.ID)
		dst = append(dst, `,"type":"function"`...)
	}
	dst = append(dst, `,"function":{`...)
	if c.Name != "" {
		dst = append(appendQuoted(append(dst, `"name":`...), c.Name), ',')
	}
	dst = appendQuoted(append(dst, `"arguments":`...), c.Arguments)
	return append(dst, '}', '}')
}

// AppendFinish appends the chunk that ends a choice.
func (w *Writer) AppendFinish(dst []byte, choice int, finish string, u *WriterUsage) []byte {
	if w.r != nil {
		return w.ended(dst, finish)
	}
	dst = w.open(dst, choice)
	if w.api == OpenAICompletions {
		dst = append(dst, '"', '"')
	}
	return w.end(dst, finish, u)
}

// AppendUsage appends the last chunk of a stream that asked for usage: no
// choices, the whole account. Every stream of the Responses API ends with it: the
// whole response.
func (w *Writer) AppendUsage(dst []byte, u *WriterUsage) []byte {
	if w.r != nil {
		return w.conclude(dst, u)
	}
	return endChunk(append(append(dst, w.head...), ']'), u)
}

// AppendDone appends the terminal event, which the Responses API has not.
func (w *Writer) AppendDone(dst []byte) []byte {
	if w.r != nil {
		return dst
	}
	return append(dst, "data: [DONE]\n\n"...)
}

// AppendBody appends a whole answer that is not a stream. A response has one choice
// and always an account.
func (w *Writer) AppendBody(dst []byte, answers []Answer, u *WriterUsage) []byte {
	if w.r != nil {
		return w.appendWhole(dst, &answers[0], u)
	}
	dst = append(append(dst, `{"id":`...), w.id...)
	if w.api == OpenAICompletions {
		dst = append(dst, `,"object":"text_completion"`...)
	} else {
		dst = append(dst, `,"object":"chat.completion"`...)
	}
	dst = append(append(dst, w.tail...), `,"choices":[`...)
	for i := range answers {
		a := &answers[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendInt(append(dst, `{"index":`...), int64(i))
		if w.api == OpenAICompletions {
			dst = appendQuoted(append(dst, `,"text":`...), a.Text)
		} else {
			dst = appendMessage(dst, a)
		}
		dst = appendQuoted(append(dst, `,"logprobs":null,"finish_reason":`...), a.Finish)
		dst = append(dst, '}')
	}
	dst = append(dst, ']')
	if u != nil {
		dst = appendUsage(append(dst, `,"usage":`...), u)
	}
	return append(dst, '}')
}

func appendMessage(dst []byte, a *Answer) []byte {
	dst = append(dst, `,"message":{"role":"assistant","content":`...)
	if a.Text == "" && len(a.Calls) > 0 {
		dst = append(dst, "null"...)
	} else {
		dst = appendQuoted(dst, a.Text)
	}
	if a.Reasoning != "" {
		dst = appendQuoted(append(dst, `,"reasoning_content":`...), a.Reasoning)
	}
	if len(a.Calls) > 0 {
		dst = append(dst, `,"tool_calls":[`...)
		for i := range a.Calls {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendCall(dst, i, &a.Calls[i])
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// AppendError appends an error object; param is the field that it is about, "" for
// none, code an HTTP status. It is the body of a failed response; in a stream it is an
// event of its own.
func AppendError(dst []byte, message, kind, param string, code int) []byte {
	dst = appendQuoted(append(dst, `{"error":{"message":`...), message)
	dst = append(appendQuoted(append(dst, `,"type":`...), kind), `,"param":`...)
	if param == "" {
		dst = append(dst, "null"...)
	} else {
		dst = appendQuoted(dst, param)
	}
	dst = appendInt(append(dst, `,"code":`...), int64(code))
	return append(dst, '}', '}')
}

// AppendModels appends a model list; created is in Unix seconds.
func AppendModels(dst []byte, models []string, created int64) []byte {
	dst = append(dst, `{"object":"list","data":[`...)
	for i, m := range models {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendQuoted(append(dst, `{"id":`...), m)
		dst = appendInt(append(dst, `,"object":"model","created":`...), created)
		dst = append(dst, `,"owned_by":"plimsoll"}`...)
	}
	return append(dst, ']', '}')
}
