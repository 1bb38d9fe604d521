// Package message holds one request to a model before any API has shaped it:
// role-tagged layers of text that is given or still to be made, and the limits
// on the answer. It owns the description of what is asked, never the wire form
// (dialect) and never the words (workload): a layer that is not given is only a
// seed, a length and the name of a generator, so that predicting a run never
// makes text.
package message

import "math"

// Role says who speaks a part of the prompt.
type Role uint8

// The roles that every chat API knows.
const (
	User Role = iota
	System
	Assistant
	Tool
)

// String returns the role's name as chat APIs spell it.
func (r Role) String() string {
	switch r {
	case System:
		return "system"
	case Assistant:
		return "assistant"
	case Tool:
		return "tool"
	default:
		return "user"
	}
}

// Layer says with whom a part is shared, from everyone to nobody.
type Layer uint8

// The layers, from most shared to least. LayerHistory is an earlier answer of
// the server that is sent back to it.
const (
	LayerTurn Layer = iota
	LayerSystem
	LayerGroup
	LayerSession
	LayerHistory
)

// Part is one piece of a prompt. Its text is Text when that is not empty,
// otherwise what generator Generator makes of Seed at the length of Tokens.
// Equal (Generator, Seed, Tokens) always make equal text, which is what lets a
// server's prefix cache find shared layers again.
type Part struct {
	Role      Role
	Layer     Layer
	Text      string
	Generator string
	Seed      uint64
	// Tokens is the asked length in the model's tokens, at least 0. For given
	// text it is the known or estimated length, 0 when unknown.
	Tokens int
	// Media, when not nil, makes the part an image or a sound instead of text; it
	// stands in the message of the parts of its role around it. Text and Generator
	// are empty then, and Tokens is what the model makes of it, 0 when unknown.
	Media *Media
	// Calls are the tools that an Assistant part called, beside Text: nothing is
	// generated for such a part, whose Tokens are those of text and calls. CallID
	// is the call whose result a Tool part is.
	Calls  []Call
	CallID string
}

// MediaKind is a kind of media.
type MediaKind uint8

// The kinds of media.
const (
	Image MediaKind = iota
	Audio
)

// String returns the kind's name, "image" or "audio".
func (k MediaKind) String() string {
	if k == Audio {
		return "audio"
	}
	return "image"
}

// Media describes an image or a sound that is made of a seed and sent inline.
// Equal values are equal bytes.
type Media struct {
	Kind MediaKind
	// Width and Height are the size of an image in pixels, at least 1.
	Width, Height int
	// PNG makes an image a drawing in PNG, not a scene in JPEG.
	PNG bool
	// Seconds is the length of a sound, above 0.
	Seconds float64
	Seed    uint64
}

// Type is the media's MIME type.
func (m *Media) Type() string {
	switch {
	case m.Kind == Audio:
		return "audio/wav"
	case m.PNG:
		return "image/png"
	}
	return "image/jpeg"
}

// The tokens that a common model makes of media: one for 28 x 28 pixels, a started
// square counting whole, as Qwen2-VL and its successors do without a limit on
// pixels (patches of 14, merged two by two; arXiv 2409.12191), and 25 for a second
// of sound, as Qwen2-Audio (frames of 40 ms; arXiv 2407.10759). Models differ
// widely.
const (
	ImageTokenPixels     = 28
	AudioTokensPerSecond = 25
)

// Tokens is what a common model makes of the media, at least 1.
func (m *Media) Tokens() int {
	if m.Kind == Audio {
		return max(1, int(math.Ceil(m.Seconds*AudioTokensPerSecond)))
	}
	across := func(n int) int { return (n + ImageTokenPixels - 1) / ImageTokenPixels }
	return max(1, across(m.Width)*across(m.Height))
}

// Function is a tool that a model may call.
type Function struct {
	Name, Description string
	// Parameters is the JSON Schema of its arguments; empty for none.
	Parameters string
}

// Call is one call of a tool by a model. Arguments is a JSON text.
type Call struct {
	ID, Name, Arguments string
}

// Request is one request before any API. The zero value asks for nothing. It is
// owned by the session machine that made it until its outcome is reported.
type Request struct {
	Parts []Part
	// Body, when not empty, is a whole request body of the API, a JSON object, which
	// is sent as it is but for what the run says of model and stream; Parts then only
	// say how long its prompt is.
	Body string
	// Guessed says that the length of the prompt is an estimate, of given text or of
	// what a model makes of media: nobody asked for it.
	Guessed bool
	// Previous names an earlier answer that the server keeps with all that led to it,
	// where the API has that: the first Known parts need not be sent.
	Previous string
	Known    int
	// MaxTokens is the limit on output tokens; 0 leaves it to the server.
	MaxTokens int
	// Exact asks the server to produce exactly MaxTokens (ignore_eos and
	// min_tokens, where the server has them).
	Exact bool
	// Choices is the number of answers asked for (n); 0 means 1.
	Choices int
	// ResponseSchema is the JSON Schema that the answer must follow (structured
	// output); empty for free text.
	ResponseSchema string
	// Tools are what the model may call; ToolChoice says whether it must: "auto",
	// "required" or "none"; empty leaves that to the server.
	Tools      []Function
	ToolChoice string
	// ReasoningEffort is sent as the API spells it ("low", "medium", "high", ...);
	// empty leaves it to the server.
	ReasoningEffort string
	// ReasoningTokens is how many of the output tokens are expected to be
	// reasoning. It is never sent: who simulates a server splits its answer there.
	ReasoningTokens int
	// Again is true when later requests of the session begin with this prompt,
	// whatever the layers of its parts.
	Again bool
	// Answer is the Seed under which the answer comes back as a LayerHistory part
	// of later requests, 0 when it will not, or not as it was. Who simulates a
	// server knows by it that its cache holds that part's beginning already.
	Answer uint64
}

// TextTokens returns what of PromptTokens is text where there are media beside it,
// and 0 where there are none.
func (r *Request) TextTokens() int {
	n, media := 0, false
	for i := range r.Parts {
		if r.Parts[i].Media != nil {
			media = true
			continue
		}
		n += r.Parts[i].Tokens
	}
	if !media {
		return 0
	}
	return n
}

// PromptTokens returns the asked prompt length in tokens, the sum over parts,
// without what the server's chat template adds.
func (r *Request) PromptTokens() int {
	n := 0
	for i := range r.Parts {
		n += r.Parts[i].Tokens
	}
	return n
}

// Renderer makes the text of parts. Implementations must be safe for concurrent
// use and deterministic in the part alone.
type Renderer interface {
	// AppendText appends the text of p to dst and returns the extended slice.
	AppendText(dst []byte, p *Part) []byte
}

// MediaRenderer is a Renderer that makes media too, under the same rules.
type MediaRenderer interface {
	Renderer
	// AppendMedia appends the file of m in standard base64.
	AppendMedia(dst []byte, m *Media) []byte
}
