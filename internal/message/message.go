// Package message holds one request to a model before any API has shaped it:
// role-tagged layers of text that is given or still to be made, and the limits
// on the answer. It owns the description of what is asked, never the wire form
// (dialect) and never the words (workload): a layer that is not given is only a
// seed, a length and the name of a generator, so that predicting a run never
// makes text.
package message

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
}

// Request is one request before any API. The zero value asks for nothing. It is
// owned by the session machine that made it until its outcome is reported.
type Request struct {
	Parts []Part
	// MaxTokens is the limit on output tokens; 0 leaves it to the server.
	MaxTokens int
	// Exact asks the server to produce exactly MaxTokens (ignore_eos and
	// min_tokens, where the server has them).
	Exact bool
	// Choices is the number of answers asked for (n); 0 means 1.
	Choices int
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
