package dialect

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"plimsoll/internal/record"
)

// The scanner walks the bytes of one chunk, notes where the few values that
// matter lie and skips all others without building anything. It does not
// validate what it skips. Each function takes and returns an index into b; -1
// means "not understood", and encoding/json decides.

// pieceKind says what a piece of text is.
type pieceKind uint8

const (
	pieceContent pieceKind = iota
	pieceReasoning
	pieceRefusal
	pieceCallID
	pieceCallName
	pieceCallArguments
)

var pieceChannel = [...]record.Channel{
	pieceContent:       record.Content,
	pieceReasoning:     record.Reasoning,
	pieceRefusal:       record.Refusal,
	pieceCallID:        0, // an id alone is no output
	pieceCallName:      record.ToolCall,
	pieceCallArguments: record.ToolCall,
}

// piece is one string of a chunk: b[start:end], the inside of a JSON string, or
// text when it came through encoding/json.
type piece struct {
	kind pieceKind
	// decoded says that text holds the string, escaped that b[start:end] has a
	// backslash in it.
	decoded, escaped bool
	// rank orders the spellings of reasoning; the lowest that has text wins.
	rank uint8
	// choice is the ordinal in chunk.choices, call the index of the tool call,
	// noCall when the server gave none.
	choice, call int32
	start, end   int
	text         string
}

const noCall = -1

// number is the place b[start:end] of a count; counts says that it is that of
// completion tokens.
type number struct {
	start, end int
	counts     bool
}

type choice struct {
	index  uint8
	finish string
}

// chunk is what one chunk or body said, before it is added to the answer.
type chunk struct {
	choices []choice
	pieces  []piece
	// usage is what this chunk said of tokens; hasUsage, that it did.
	usage    Usage
	hasUsage bool
	// numbers are the places of counts in usage that change from chunk to chunk.
	numbers  [3]number
	nNumbers int
	// hasChoices: the key was there and not null.
	hasChoices bool
	// isError: an error object. err is the raw value of "error", message,
	// detail, code and kind those of the top level.
	isError                          bool
	err, message, detail, code, kind []byte
}

func (c *chunk) reset() {
	c.choices, c.pieces = c.choices[:0], c.pieces[:0]
	c.usage = Usage{record.Unknown, record.Unknown, record.Unknown, record.Unknown}
	c.nNumbers = 0
	c.hasUsage, c.hasChoices, c.isError = false, false, false
	c.err, c.message, c.detail, c.code, c.kind = nil, nil, nil, nil, nil
}

func (u *Usage) merge(v Usage) {
	u.Prompt = max(u.Prompt, v.Prompt)
	u.Cached = max(u.Cached, v.Cached)
	u.Completion = max(u.Completion, v.Completion)
	u.Reasoning = max(u.Reasoning, v.Reasoning)
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// str returns the index of the quote that ends the string whose first byte is
// b[i], and whether there are escapes in it.
func str(b []byte, i int) (end int, escaped bool) {
	for i+8 <= len(b) { // eight bytes at a time
		w := binary.LittleEndian.Uint64(b[i:])
		m := equal(w, '"') | equal(w, '\\')
		if m == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(m) >> 3
		if b[i] == '"' {
			return i, escaped
		}
		escaped = true
		i += 2
	}
	for i < len(b) {
		switch b[i] {
		case '"':
			return i, escaped
		case '\\':
			escaped = true
			i++
		}
		i++
	}
	return -1, escaped
}

// equal sets the top bit of each byte of w that is c. Bytes above the lowest
// such one may be set wrongly; only the lowest counts.
func equal(w uint64, c byte) uint64 {
	const low, high = 0x0101010101010101, 0x8080808080808080
	w ^= low * uint64(c)
	return (w - low) &^ w & high
}

// skip returns the index after the value at b[i].
func skip(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		end, _ := str(b, i+1)
		if end < 0 {
			return -1
		}
		return end + 1
	case '{', '[':
		depth := 0
		for i < len(b) {
			switch b[i] {
			case '{', '[':
				depth++
			case '}', ']':
				depth--
				if depth == 0 {
					return i + 1
				}
			case '"':
				end, _ := str(b, i+1)
				if end < 0 {
					return -1
				}
				i = end
			}
			i++
		}
		return -1
	case 'n':
		return word(b, i, "null")
	case 't':
		return word(b, i, "true")
	case 'f':
		return word(b, i, "false")
	}
	start := i
	for i < len(b) {
		c := b[i]
		if (c < '0' || c > '9') && c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' {
			break
		}
		i++
	}
	if i == start {
		return -1
	}
	return i
}

func word(b []byte, i int, w string) int {
	if len(b)-i < len(w) || string(b[i:i+len(w)]) != w {
		return -1
	}
	return i + len(w)
}

// key reads a key of an object and the colon behind it. With i at the first
// byte after '{' or ',', it returns the key and the index of its value.
// A key with escapes is not understood.
func key(b []byte, i int) (k []byte, val int) {
	i = space(b, i)
	if i >= len(b) || b[i] != '"' {
		return nil, -1
	}
	i++
	end, escaped := str(b, i)
	if end < 0 || escaped {
		return nil, -1
	}
	k = b[i:end]
	i = end + 1
	if i < len(b) && b[i] != ':' {
		i = space(b, i)
	}
	if i >= len(b) || b[i] != ':' {
		return nil, -1
	}
	i++
	if i < len(b) && b[i] <= ' ' {
		i = space(b, i)
	}
	if i >= len(b) {
		return nil, -1
	}
	return k, i
}

// next looks behind a value of an object or array that ends with closing:
// done is true there, otherwise the index after the comma is returned.
func next(b []byte, i int, closing byte) (j int, done bool) {
	if i < 0 || i >= len(b) {
		return -1, true
	}
	if b[i] <= ' ' {
		i = space(b, i)
		if i >= len(b) {
			return -1, true
		}
	}
	switch b[i] {
	case ',':
		return i + 1, false
	case closing:
		return i + 1, true
	}
	return -1, true
}

// empty reports whether the object or array whose first inner byte is b[i] is
// empty, and the index after it.
func empty(b []byte, i int, closing byte) (int, bool) {
	i = space(b, i)
	if i < len(b) && b[i] == closing {
		return i + 1, true
	}
	return i, false
}

// Bits of the keys seen in one object: a second value for one of them is left
// to encoding/json.
const (
	keyChoices = 1 << iota
	keyUsage
	keyError
	keyObject
	keyMessage
	keyDetail
	keyCode
	keyType
	keyGroq
)

// walk scans a whole chunk or body into c.
func (c *chunk) walk(b []byte, api API, body bool) bool {
	i := space(b, 0)
	if i >= len(b) || b[i] != '{' {
		return false
	}
	i, done := empty(b, i+1, '}')
	var seen uint
	for !done {
		k, v := key(b, i)
		if v < 0 {
			return false
		}
		bit := uint(0)
		var end int
		switch string(k) {
		case "choices":
			bit = keyChoices
			end = c.walkChoices(b, v, api, body)
		case "usage":
			bit = keyUsage
			end = c.walkUsage(b, v)
		case "error":
			bit = keyError
			end = skip(b, v)
			if end > 0 && b[v] != 'n' {
				c.err = b[v:end]
			}
		case "object":
			bit = keyObject
			end = skip(b, v)
			if end > 0 && b[v] == '"' {
				if bytes.IndexByte(b[v:end], '\\') >= 0 {
					return false
				}
				c.isError = string(b[v:end]) == `"error"`
			}
		case "message":
			bit = keyMessage
			end = skip(b, v)
			if end > 0 && b[v] != 'n' {
				c.message = b[v:end]
			}
		case "detail":
			bit = keyDetail
			end = skip(b, v)
			if end > 0 && b[v] != 'n' {
				c.detail = b[v:end]
			}
		case "code":
			bit = keyCode
			end = skip(b, v)
			if end > 0 && b[v] != 'n' {
				c.code = b[v:end]
			}
		case "type":
			bit = keyType
			end = skip(b, v)
			if end > 0 && b[v] != 'n' {
				c.kind = b[v:end]
			}
		case "x_groq":
			bit = keyGroq
			end = c.walkGroq(b, v)
		default:
			end = skip(b, v)
		}
		if end < 0 || seen&bit != 0 {
			return false
		}
		seen |= bit
		if i, done = next(b, end, '}'); i < 0 {
			return false
		}
	}
	return space(b, i) == len(b)
}

func (c *chunk) walkGroq(b []byte, i int) int {
	if b[i] != '{' {
		return skip(b, i)
	}
	i, done := empty(b, i+1, '}')
	seen := false
	for !done {
		k, v := key(b, i)
		if v < 0 {
			return -1
		}
		var end int
		if string(k) == "usage" {
			if seen {
				return -1
			}
			seen = true
			end = c.walkUsage(b, v)
		} else {
			end = skip(b, v)
		}
		if i, done = next(b, end, '}'); i < 0 {
			return -1
		}
	}
	return i
}

const (
	keyPrompt = 1 << iota
	keyCompletion
	keyPromptDetails
	keyCompletionDetails
	keyCached
	keyCacheHit
	keyReasoning
)

func (c *chunk) walkUsage(b []byte, i int) int {
	if b[i] != '{' {
		if b[i] == 'n' {
			return word(b, i, "null")
		}
		return -1
	}
	i, done := empty(b, i+1, '}')
	var seen uint
	u := Usage{record.Unknown, record.Unknown, record.Unknown, record.Unknown}
	for !done {
		k, v := key(b, i)
		if v < 0 {
			return -1
		}
		bit := uint(0)
		var end int
		n := record.Unknown
		switch string(k) {
		case "prompt_tokens":
			bit = keyPrompt
			n, end = count(b, v)
			u.Prompt = n
		case "completion_tokens":
			bit = keyCompletion
			n, end = count(b, v)
			u.Completion = n
			c.addNumber(number{v, end, true})
		case "total_tokens":
			if end = skip(b, v); b[v] >= '0' && b[v] <= '9' {
				c.addNumber(number{v, end, false})
			}
		case "prompt_tokens_details":
			bit = keyPromptDetails
			n, end = detail(b, v, "cached_tokens")
			u.Cached = max(u.Cached, n)
		case "completion_tokens_details":
			bit = keyCompletionDetails
			n, end = detail(b, v, "reasoning_tokens")
			u.Reasoning = max(u.Reasoning, n)
		case "cached_tokens":
			bit = keyCached
			n, end = count(b, v)
			u.Cached = max(u.Cached, n)
		case "prompt_cache_hit_tokens":
			bit = keyCacheHit
			n, end = count(b, v)
			u.Cached = max(u.Cached, n)
		case "reasoning_tokens":
			bit = keyReasoning
			n, end = count(b, v)
			u.Reasoning = max(u.Reasoning, n)
		default:
			end = skip(b, v)
		}
		if end < 0 || seen&bit != 0 {
			return -1
		}
		seen |= bit
		if i, done = next(b, end, '}'); i < 0 {
			return -1
		}
	}
	c.hasUsage = true
	c.usage.merge(u)
	return i
}

// addNumber notes a number for learning. Too many, or none, spoil that: the
// chunk is then like no other.
func (c *chunk) addNumber(n number) {
	if c.nNumbers < len(c.numbers) {
		c.numbers[c.nNumbers] = n
	}
	c.nNumbers++
}

// detail reads one count out of a details object, which may be null.
func detail(b []byte, i int, name string) (int32, int) {
	if b[i] != '{' {
		if b[i] == 'n' {
			return record.Unknown, word(b, i, "null")
		}
		return record.Unknown, -1
	}
	i, done := empty(b, i+1, '}')
	n := record.Unknown
	seen := false
	for !done {
		k, v := key(b, i)
		if v < 0 {
			return n, -1
		}
		var end int
		if string(k) == name {
			if seen {
				return n, -1
			}
			seen = true
			n, end = count(b, v)
		} else {
			end = skip(b, v)
		}
		if i, done = next(b, end, '}'); i < 0 {
			return n, -1
		}
	}
	return n, i
}

// count reads a token count: plain digits of at most 2^31-1, or null. Anything
// else is left to encoding/json.
func count(b []byte, i int) (int32, int) {
	start := i
	n := int64(0)
	for i < len(b) && b[i] >= '0' && b[i] <= '9' && i-start < 10 {
		n = n*10 + int64(b[i]-'0')
		i++
	}
	if i == start {
		if b[i] == 'n' {
			return record.Unknown, word(b, i, "null")
		}
		return record.Unknown, -1
	}
	if n > 1<<31-1 || b[start] == '0' && i > start+1 {
		return record.Unknown, -1
	}
	if i < len(b) {
		switch b[i] {
		case ',', '}', ']', ' ', '\n', '\r', '\t':
		default: // fraction, exponent, more digits
			return record.Unknown, -1
		}
	}
	return int32(n), i
}

func (c *chunk) walkChoices(b []byte, i int, api API, body bool) int {
	if b[i] != '[' {
		if b[i] == 'n' {
			return word(b, i, "null")
		}
		return -1
	}
	c.hasChoices = true
	i, done := empty(b, i+1, ']')
	for pos := 0; !done; pos++ {
		i = space(b, i)
		if i >= len(b) {
			return -1
		}
		var end int
		if b[i] == '{' {
			end = c.walkChoice(b, i, pos, api, body)
		} else if b[i] == 'n' {
			end = word(b, i, "null")
		} else {
			return -1
		}
		if i, done = next(b, end, ']'); i < 0 {
			return -1
		}
	}
	return i
}

const (
	keyIndex = 1 << iota
	keyFinish
	keyDelta
	keyText
	keyChoiceUsage
	keyChoiceError
)

func (c *chunk) walkChoice(b []byte, i, pos int, api API, body bool) int {
	n := int32(len(c.choices))
	c.choices = append(c.choices, choice{index: saturate(pos)})
	output := "delta"
	if body {
		output = "message"
	}
	i, done := empty(b, i+1, '}')
	var seen uint
	for !done {
		k, v := key(b, i)
		if v < 0 {
			return -1
		}
		bit := uint(0)
		var end int
		switch string(k) {
		case "index":
			bit = keyIndex
			var x int32
			if x, end = count(b, v); x >= 0 {
				c.choices[n].index = saturate(int(x))
			}
		case "finish_reason":
			bit = keyFinish
			end = c.walkFinish(b, v, n)
		case "text":
			if api != OpenAICompletions {
				end = skip(b, v)
				break
			}
			bit = keyText
			end = c.walkString(b, v, piece{kind: pieceContent, choice: n})
		case "delta", "message":
			if api != OpenAIChat || string(k) != output {
				end = skip(b, v)
				break
			}
			bit = keyDelta
			end = c.walkDelta(b, v, n)
		case "usage":
			bit = keyChoiceUsage
			end = c.walkUsage(b, v)
		case "error":
			bit = keyChoiceError
			end = skip(b, v)
			if end > 0 && b[v] != 'n' && c.err == nil {
				c.err = b[v:end]
			}
		default:
			end = skip(b, v)
		}
		if end < 0 || seen&bit != 0 {
			return -1
		}
		seen |= bit
		if i, done = next(b, end, '}'); i < 0 {
			return -1
		}
	}
	return i
}

func saturate(n int) uint8 { return uint8(min(n, 255)) }

func (c *chunk) walkFinish(b []byte, i int, n int32) int {
	switch b[i] {
	case 'n':
		return word(b, i, "null")
	case '"':
		end, escaped := str(b, i+1)
		if end < 0 || escaped {
			return -1
		}
		c.choices[n].finish = finishReason(b[i+1 : end])
		return end + 1
	}
	return -1
}

// finishReason is the reason as the server spelt it, cut to a sane length, ""
// for the string "null" that some servers send. The usual ones cost nothing.
func finishReason(b []byte) string {
	switch string(b) {
	case "", "null":
		return ""
	case "stop":
		return "stop"
	case "length":
		return "length"
	case "tool_calls":
		return "tool_calls"
	case "content_filter":
		return "content_filter"
	}
	return cut(string(b), nameLimit)
}

// walkString notes a string that carries text; null carries none.
func (c *chunk) walkString(b []byte, i int, p piece) int {
	switch b[i] {
	case '"':
		end, escaped := str(b, i+1)
		if end < 0 {
			return -1
		}
		p.start, p.end, p.escaped = i+1, end, escaped
		c.add(p)
		return end + 1
	case 'n':
		return word(b, i, "null")
	}
	return -1
}

// add notes p. Of several spellings of reasoning the lowest rank with text
// stays.
func (c *chunk) add(p piece) {
	if p.kind == pieceReasoning {
		for j := range c.pieces {
			q := &c.pieces[j]
			if q.kind != pieceReasoning || q.choice != p.choice {
				continue
			}
			if p.size() > 0 && (q.size() == 0 || p.rank < q.rank) {
				*q = p
			}
			return
		}
	}
	c.pieces = append(c.pieces, p)
}

func (p *piece) size() int {
	if p.decoded {
		return len(p.text)
	}
	return p.end - p.start
}

// The spellings of reasoning, by rank.
const (
	keyContent = 1 << iota
	keyRefusal
	keyReasoningContent
	keyReasoningPlain
	keyReasoningText
	keyThinking
	keyToolCalls
)

func (c *chunk) walkDelta(b []byte, i int, n int32) int {
	if b[i] != '{' {
		if b[i] == 'n' {
			return word(b, i, "null")
		}
		return -1
	}
	i, done := empty(b, i+1, '}')
	var seen uint
	for !done {
		k, v := key(b, i)
		if v < 0 {
			return -1
		}
		bit := uint(0)
		var end int
		switch string(k) {
		case "content":
			bit = keyContent
			end = c.walkString(b, v, piece{kind: pieceContent, choice: n})
		case "refusal":
			bit = keyRefusal
			end = c.walkString(b, v, piece{kind: pieceRefusal, choice: n})
		case "reasoning_content":
			bit = keyReasoningContent
			end = c.walkString(b, v, piece{kind: pieceReasoning, choice: n, rank: 0})
		case "reasoning":
			bit = keyReasoningPlain
			end = c.walkString(b, v, piece{kind: pieceReasoning, choice: n, rank: 1})
		case "reasoning_text":
			bit = keyReasoningText
			end = c.walkString(b, v, piece{kind: pieceReasoning, choice: n, rank: 2})
		case "thinking":
			bit = keyThinking
			end = c.walkString(b, v, piece{kind: pieceReasoning, choice: n, rank: 3})
		case "tool_calls":
			bit = keyToolCalls
			end = c.walkCalls(b, v, n)
		case "function_call":
			bit = keyToolCalls // the two together are left to encoding/json
			end = c.walkFunction(b, v, n, 0)
		default:
			end = skip(b, v)
		}
		if end < 0 || seen&bit != 0 {
			return -1
		}
		seen |= bit
		if i, done = next(b, end, '}'); i < 0 {
			return -1
		}
	}
	return i
}

func (c *chunk) walkCalls(b []byte, i int, n int32) int {
	if b[i] != '[' {
		if b[i] == 'n' {
			return word(b, i, "null")
		}
		return -1
	}
	i, done := empty(b, i+1, ']')
	for !done {
		i = space(b, i)
		if i >= len(b) || b[i] != '{' {
			return -1
		}
		end := c.walkCall(b, i, n)
		if i, done = next(b, end, ']'); i < 0 {
			return -1
		}
	}
	return i
}

const (
	keyCallIndex = 1 << iota
	keyCallID
	keyFunction
)

func (c *chunk) walkCall(b []byte, i int, n int32) int {
	i, done := empty(b, i+1, '}')
	first := len(c.pieces)
	call := int32(noCall)
	var seen uint
	for !done {
		k, v := key(b, i)
		if v < 0 {
			return -1
		}
		bit := uint(0)
		var end int
		switch string(k) {
		case "index":
			bit = keyCallIndex
			var x int32
			if x, end = count(b, v); x >= 0 {
				call = x
			}
		case "id":
			bit = keyCallID
			end = c.walkString(b, v, piece{kind: pieceCallID, choice: n})
		case "function":
			bit = keyFunction
			end = c.walkFunction(b, v, n, noCall)
		default:
			end = skip(b, v)
		}
		if end < 0 || seen&bit != 0 {
			return -1
		}
		seen |= bit
		if i, done = next(b, end, '}'); i < 0 {
			return -1
		}
	}
	for j := first; j < len(c.pieces); j++ {
		c.pieces[j].call = call
		if c.pieces[j].kind == pieceCallID { // it tells which call the others belong to
			c.pieces[first], c.pieces[j] = c.pieces[j], c.pieces[first]
		}
	}
	return i
}

const (
	keyName = 1 << iota
	keyArguments
)

func (c *chunk) walkFunction(b []byte, i int, n, call int32) int {
	if b[i] != '{' {
		if b[i] == 'n' {
			return word(b, i, "null")
		}
		return -1
	}
	i, done := empty(b, i+1, '}')
	var seen uint
	for !done {
		k, v := key(b, i)
		if v < 0 {
			return -1
		}
		bit := uint(0)
		var end int
		switch string(k) {
		case "name":
			bit = keyName
			end = c.walkString(b, v, piece{kind: pieceCallName, choice: n, call: call})
		case "arguments":
			bit = keyArguments
			end = c.walkString(b, v, piece{kind: pieceCallArguments, choice: n, call: call})
		default:
			end = skip(b, v)
		}
		if end < 0 || seen&bit != 0 {
			return -1
		}
		seen |= bit
		if i, done = next(b, end, '}'); i < 0 {
			return -1
		}
	}
	return i
}
