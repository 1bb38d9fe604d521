package dialect

import (
	"bytes"

	"plimsoll/internal/record"
)

// MessageLimit is the length in bytes to which error texts are cut.
const MessageLimit = 512

const (
	// nameLimit is the length to which finish reasons and error types are cut,
	// maxCalls bounds the tool calls put together of one answer, templateLimit
	// the bytes remembered of the last chunk, keepLimit the text capacity that
	// is kept from one answer to the next.
	nameLimit     = 64
	maxCalls      = 256
	templateLimit = 4096
	keepLimit     = 1 << 20
)

// Decoder reads the events or the body of one answer. It is reusable (Reset) and
// belongs to one goroutine. A chunk of the usual form costs no allocation; what
// the scanner does not understand goes to encoding/json and is counted.
type Decoder struct {
	api  API
	keep bool

	chunk chunk
	marks []Mark
	res   Result
	// output is true when any mark was seen; seen and ended are sets of the
	// choices that were seen and that gave a reason.
	output      bool
	seen, ended choices
	usage       Usage

	text, reasoning, refusal [][]byte
	calls                    []callText

	// The last chunk that held exactly one text, without that text and without
	// its running counts. A chunk with the same bytes around them means the same
	// but for them: literals[from:to] lies before each hole and the rest of
	// literals behind the last.
	learnt   bool
	literals []byte
	holes    [4]hole
	nHoles   int
	mark     Mark
	into     pieceKind
}

// hole is a part of a chunk that differs from one chunk to the next.
type hole struct {
	to   int // the end in Decoder.literals of what lies before it
	kind holeKind
}

type holeKind uint8

const (
	holeText   holeKind = iota
	holeCount           // completion tokens
	holeDigits          // a number that does not matter
)

// choices is a set of indices of choices.
type choices [4]uint64

func (c *choices) add(i uint8) { c[i/64] |= 1 << (i % 64) }

type callText struct {
	index               int32
	id, name, arguments []byte
}

// Reset makes d ready for the next answer of api. With keepText the answer's
// text is kept for Result.
func (d *Decoder) Reset(api API, keepText bool) {
	d.api, d.keep = api, keepText
	d.chunk.reset()
	d.marks = d.marks[:0]
	d.res = Result{}
	d.output, d.learnt = false, false
	d.seen, d.ended = choices{}, choices{}
	d.usage = Usage{record.Unknown, record.Unknown, record.Unknown, record.Unknown}
	d.text, d.reasoning, d.refusal = recycle(d.text), recycle(d.reasoning), recycle(d.refusal)
	d.calls = d.calls[:0]
}

// recycle empties the texts and keeps their capacity, but for huge ones.
func recycle(t [][]byte) [][]byte {
	for i := range t {
		if cap(t[i]) > keepLimit {
			t[i] = nil
		}
		t[i] = t[i][:0]
	}
	return t[:0]
}

// Event reads one event of a stream: name is the SSE event field, empty where
// there was none, data its joined data lines. Both are only read during the
// call. An event that is no JSON at all makes Result.Bad true.
func (d *Decoder) Event(name, data []byte) Delta {
	d.marks = d.marks[:0]
	if d.api == OpenAIResponses {
		return d.response(name, data)
	}
	if len(name) == 0 && d.learnt {
		if cumulative, ok := d.fast(data); ok {
			return Delta{Marks: d.marks, Cumulative: cumulative}
		}
	}
	out := Delta{Cumulative: record.Unknown}
	switch string(name) {
	case "error":
		d.fail(data)
		out.Err = true
		return out
	case "ping", "heartbeat", "keepalive", "keep-alive":
		return out
	}
	d.event(data, &out, true)
	out.Marks = d.marks
	return out
}

// event reads data, which may be several documents on lines of their own when
// split is true: servers that forget the empty line between two events.
func (d *Decoder) event(data []byte, out *Delta, split bool) {
	data = trim(data)
	switch string(data) {
	case "", "null":
		return
	case "[DONE]":
		d.res.Done = true
		out.Terminal = true
		return
	}
	d.chunk.reset()
	if !d.chunk.walk(data, d.api, false) || !d.chunk.sound(data) {
		d.chunk.reset()
		d.res.Fallbacks++
		if !d.chunk.parse(data, d.api, false) {
			if split && bytes.IndexByte(data, '\n') >= 0 {
				for line := range bytes.SplitSeq(data, []byte{'\n'}) {
					d.event(line, out, false)
				}
				return
			}
			d.res.Bad = true
			return
		}
		d.commit(data, out)
		return
	}
	d.commit(data, out)
	d.learn(data)
}

// Body reads a whole body that is not a stream. Its marks carry the whole
// output of each choice. A body that is neither an answer nor an error object
// of this API makes Result.Bad true.
func (d *Decoder) Body(data []byte) Delta {
	d.marks = d.marks[:0]
	out := Delta{Cumulative: record.Unknown}
	data = trim(data)
	if d.api == OpenAIResponses {
		return d.responseBody(data)
	}
	d.chunk.reset()
	if !d.chunk.walk(data, d.api, true) || !d.chunk.sound(data) {
		d.chunk.reset()
		d.res.Fallbacks++
		if !d.chunk.parse(data, d.api, true) {
			d.res.Bad = true
			return out
		}
	}
	c := &d.chunk
	if !c.hasChoices && c.err == nil && !c.isError {
		if c.message == nil && c.detail == nil {
			d.res.Bad = true
			return out
		}
		c.isError = true // {"detail": ...} and {"message": ...} of frameworks
	}
	d.commit(data, &out)
	out.Marks = d.marks
	return out
}

// trim takes white space and a byte order mark off both ends.
func trim(b []byte) []byte {
	if len(b) > 0 && b[0] > ' ' && b[0] < 0x80 && b[len(b)-1] > ' ' {
		return b
	}
	return bytes.TrimSpace(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")))
}

// sound reports whether every escape in the chunk's texts is one of JSON's.
func (c *chunk) sound(data []byte) bool {
	for i := range c.pieces {
		if p := &c.pieces[i]; p.escaped {
			if _, ok := textLen(data[p.start:p.end]); !ok {
				return false
			}
		}
	}
	return true
}

// commit adds the chunk to the answer and its marks to d.marks.
func (d *Decoder) commit(data []byte, out *Delta) {
	c := &d.chunk
	if c.hasUsage {
		d.usage.merge(c.usage)
		if c.usage.Completion > 0 { // zeros are sent by servers that do not know yet
			out.Cumulative = max(out.Cumulative, c.usage.Completion)
		}
	}
	if c.isError || c.err != nil {
		d.failChunk(out)
	}
	for i := range c.choices {
		f := c.choices[i].finish
		d.seen.add(c.choices[i].index)
		if f == "" {
			continue
		}
		d.ended.add(c.choices[i].index)
		if c.choices[i].index == 0 && d.res.Finish == "" {
			d.res.Finish = f
		}
		if f == "error" || f == "abort" { // the server's own word for a failed answer
			d.setError("finish_reason "+f, f)
			out.Err = true
		}
	}
	for i := range c.pieces {
		p := &c.pieces[i]
		n := p.textLen(data)
		ch := &c.choices[p.choice]
		if d.keep {
			d.store(data, p, ch.index)
		}
		channel := pieceChannel[p.kind]
		if n == 0 || channel == 0 {
			continue
		}
		d.output = true
		// Pieces of one choice lie side by side, and one event makes one mark
		// of a choice.
		if k := len(d.marks) - 1; k >= 0 && i > 0 && d.marks[k].Choice == ch.index {
			d.marks[k].Channel |= channel
			d.marks[k].TextBytes += uint32(n)
			continue
		}
		d.marks = append(d.marks, Mark{Choice: ch.index, Channel: channel, TextBytes: uint32(n)})
	}
}

// textLen is the decoded length of p.
func (p *piece) textLen(data []byte) int {
	if p.decoded {
		return len(p.text)
	}
	raw := data[p.start:p.end]
	if !p.escaped && plain(raw) {
		return len(raw)
	}
	n, _ := textLen(raw)
	return n
}

// appendTo appends the decoded text of p.
func (p *piece) appendTo(dst, data []byte) []byte {
	if p.decoded {
		return append(dst, p.text...)
	}
	raw := data[p.start:p.end]
	if !p.escaped && plain(raw) {
		return append(dst, raw...)
	}
	dst, _ = appendText(dst, raw)
	return dst
}

// plain reports whether raw, which has no backslash, is its own text.
func plain(raw []byte) bool {
	var or byte
	for _, c := range raw {
		or |= c
	}
	return or < 0x80 || validUTF8(raw)
}

func (d *Decoder) store(data []byte, p *piece, choice uint8) {
	switch p.kind {
	case pieceContent:
		t := of(&d.text, choice)
		*t = p.appendTo(*t, data)
	case pieceReasoning:
		t := of(&d.reasoning, choice)
		*t = p.appendTo(*t, data)
	case pieceRefusal:
		t := of(&d.refusal, choice)
		*t = p.appendTo(*t, data)
	default:
		if choice != 0 || p.size() == 0 {
			return
		}
		c := d.call(data, p)
		if c == nil {
			return
		}
		switch p.kind {
		case pieceCallID:
			c.id = p.appendTo(c.id[:0], data)
		case pieceCallName:
			c.name = p.appendTo(c.name, data)
		default:
			c.arguments = p.appendTo(c.arguments, data)
		}
	}
}

// of returns the text of choice, making room for it.
func of(t *[][]byte, choice uint8) *[]byte {
	for len(*t) <= int(choice) {
		if len(*t) < cap(*t) {
			*t = (*t)[:len(*t)+1] // with its old capacity
		} else {
			*t = append(*t, nil)
		}
	}
	return &(*t)[choice]
}

// call finds the tool call that p belongs to. Servers that give no index send
// whole calls: there a new id begins a new call.
func (d *Decoder) call(data []byte, p *piece) *callText {
	if p.call != noCall {
		for i := range d.calls {
			if d.calls[i].index == p.call {
				return &d.calls[i]
			}
		}
		return d.addCall(p.call)
	}
	if len(d.calls) > 0 {
		last := &d.calls[len(d.calls)-1]
		switch p.kind {
		case pieceCallID:
			id := p.appendTo(nil, data)
			if len(last.id) == 0 || bytes.Equal(last.id, id) {
				return last
			}
			return d.addCall(noCall)
		default:
			return last
		}
	}
	return d.addCall(noCall)
}

func (d *Decoder) addCall(index int32) *callText {
	if len(d.calls) >= maxCalls {
		return nil
	}
	d.calls = append(d.calls, callText{index: index})
	return &d.calls[len(d.calls)-1]
}

// learn remembers the bytes around the only text of a chunk.
func (d *Decoder) learn(data []byte) {
	c := &d.chunk
	if len(c.choices) != 1 || len(c.pieces) != 1 || c.choices[0].finish != "" || c.err != nil || c.isError || c.nNumbers > len(c.numbers) {
		return
	}
	p := &c.pieces[0]
	channel := pieceChannel[p.kind]
	if channel == 0 || channel == record.ToolCall || p.decoded || len(data)-(p.end-p.start) > templateLimit {
		return
	}
	d.literals, d.nHoles = d.literals[:0], 0
	from, n := 0, 0
	for text := true; text || n < c.nNumbers; {
		start, end, kind := p.start, p.end, holeText
		if !text || n < c.nNumbers && c.numbers[n].start < p.start {
			start, end, kind = c.numbers[n].start, c.numbers[n].end, holeDigits
			if c.numbers[n].counts {
				kind = holeCount
			}
			n++
		} else {
			text = false
		}
		d.literals = append(d.literals, data[from:start]...)
		d.holes[d.nHoles] = hole{to: len(d.literals), kind: kind}
		d.nHoles++
		from = end
	}
	d.literals = append(d.literals, data[from:]...)
	d.mark = Mark{Choice: c.choices[0].index, Channel: channel}
	d.into = p.kind
	d.learnt = true
}

// fast reads a chunk that has the learnt bytes around its text and counts. It
// changes nothing when it returns false.
func (d *Decoder) fast(data []byte) (cumulative int32, ok bool) {
	at, from := 0, 0
	var raw []byte
	var escaped bool
	completion := record.Unknown
	for i := range d.nHoles {
		h := &d.holes[i]
		n := h.to - from
		if len(data)-at <= n || string(data[at:at+n]) != string(d.literals[from:h.to]) {
			return 0, false
		}
		at, from = at+n, h.to
		switch h.kind {
		case holeText:
			end := 0
			if end, escaped = str(data, at); end < 0 {
				return 0, false
			}
			raw = data[at:end]
			at = end
		case holeCount:
			var n int32
			if n, at = count(data, at); n < 0 {
				return 0, false
			}
			completion = max(completion, n)
		default:
			start := at
			for at < len(data) && data[at] >= '0' && data[at] <= '9' {
				at++
			}
			if at == start {
				return 0, false
			}
		}
	}
	if string(data[at:]) != string(d.literals[from:]) {
		return 0, false
	}
	n := len(raw)
	if escaped || !plain(raw) {
		escaped = true
		if n, ok = textLen(raw); !ok {
			return 0, false
		}
	}
	cumulative = record.Unknown
	if completion > 0 {
		cumulative = completion
	}
	d.usage.Completion = max(d.usage.Completion, completion)
	if n == 0 {
		return cumulative, true
	}
	if d.keep {
		t := d.target()
		if escaped {
			*t, _ = appendText(*t, raw)
		} else {
			*t = append(*t, raw...)
		}
	}
	d.output = true
	d.mark.TextBytes = uint32(n)
	d.marks = append(d.marks, d.mark)
	return cumulative, true
}

func (d *Decoder) target() *[]byte {
	switch d.into {
	case pieceReasoning:
		return of(&d.reasoning, d.mark.Choice)
	case pieceRefusal:
		return of(&d.refusal, d.mark.Choice)
	default:
		return of(&d.text, d.mark.Choice)
	}
}

// Result returns what the answer has said so far. It may be called at any time;
// its texts are copies.
func (d *Decoder) Result() *Result {
	r := &d.res
	r.Usage = d.usage
	r.Finished = d.ended != choices{} && d.ended == d.seen
	if r.Usage.Prompt == 0 { // no prompt is empty: the server did not count
		r.Usage.Prompt = record.Unknown
	}
	if r.Usage.Completion == 0 && d.output { // likewise
		r.Usage.Completion = record.Unknown
	}
	if !d.keep {
		return r
	}
	r.Text, r.Reasoning, r.Refusal = texts(d.text), texts(d.reasoning), texts(d.refusal)
	r.Calls = nil
	for i := range d.calls {
		c := &d.calls[i]
		r.Calls = append(r.Calls, Call{ID: string(c.id), Name: string(c.name), Arguments: string(c.arguments)})
	}
	return r
}

func texts(t [][]byte) []string {
	if len(t) == 0 {
		return nil
	}
	out := make([]string, len(t))
	for i := range t {
		out[i] = string(t[i])
	}
	return out
}
