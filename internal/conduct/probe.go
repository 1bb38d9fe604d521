package conduct

import (
	"context"
	"fmt"
)

// Probe is what an API showed it can do. Null means that it could not be told.
type Probe struct {
	Model string `json:"model"`
	// Streaming: a stream was asked for and came as a stream.
	Streaming *bool `json:"streaming"`
	// Usage: token counts at the end of a stream; RunningUsage: in its events.
	Usage        *bool `json:"usage"`
	RunningUsage *bool `json:"running_usage"`
	// ExactLength: exactly as many tokens as asked for.
	ExactLength *bool `json:"exact_length"`
	// NonStream: one body when no stream is asked for, with usage.
	NonStream *bool `json:"non_stream"`
	// Reasoning: a reasoning field was seen.
	Reasoning *bool `json:"reasoning"`
	// Done: the stream ended with its terminal event.
	Done  *bool   `json:"done"`
	Tries []Tried `json:"tries"`
}

// Tried is one probe as it went.
type Tried struct {
	What         string   `json:"what"`
	Status       string   `json:"status"`
	HTTPStatus   *int     `json:"http_status"`
	Error        *Problem `json:"error"`
	Events       int      `json:"events"`
	OutputTokens *int32   `json:"output_tokens"`
	PromptTokens *int32   `json:"prompt_tokens"`
	Finish       string   `json:"finish_reason,omitempty"`
	TTFTMS       *float64 `json:"ttft_ms"`
	E2EMS        *float64 `json:"e2e_ms"`
}

// Lines says what a probe found, one thing a line.
func (p *Probe) Lines() []string {
	word := func(b *bool) string {
		switch {
		case b == nil:
			return "not known"
		case *b:
			return "yes"
		}
		return "no"
	}
	out := []string{
		fmt.Sprintf("streaming %s, usage at the end %s, running usage %s", word(p.Streaming), word(p.Usage), word(p.RunningUsage)),
		fmt.Sprintf("exact length %s, one body %s, reasoning field %s, [DONE] %s",
			word(p.ExactLength), word(p.NonStream), word(p.Reasoning), word(p.Done)),
	}
	for _, t := range p.Tries {
		s := t.What + ": " + t.Status
		if t.Error != nil {
			s += ", " + t.Error.Kind
			if t.Error.Text != "" {
				s += ", " + t.Error.Text
			}
		}
		if t.OutputTokens != nil {
			s += fmt.Sprintf(", %d tokens", *t.OutputTokens)
		}
		if t.Events > 0 {
			s += fmt.Sprintf(" in %d events", t.Events)
		}
		if t.Finish != "" {
			s += ", finish " + t.Finish
		}
		if t.TTFTMS != nil {
			s += fmt.Sprintf(", first token %.1f ms", *t.TTFTMS)
		}
		out = append(out, s)
	}
	return out
}

func (k *checker) probe(ctx context.Context) {}
