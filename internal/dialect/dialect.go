// Package dialect turns requests into the bodies of an API and an API's bytes
// into output events, by the API's name. Its wire types serve the client and
// the simulated server alike. It takes and returns bytes: it never opens a
// connection, reads a clock or keeps statistics.
package dialect

import (
	"plimsoll/internal/record"
)

// API is the name of an API as scenarios and cases spell it.
type API string

// The APIs.
const (
	OpenAIChat        API = "openai.chat"
	OpenAICompletions API = "openai.completions"
	OpenAIResponses   API = "openai.responses"
)

// Options say how a request body is shaped beyond the request itself.
type Options struct {
	Model  string
	Stream bool
	// Usage asks for a final usage chunk, RunningUsage for usage in every chunk
	// (stream_options.include_usage, continuous_usage_stats).
	Usage, RunningUsage bool
	// Temperature is sent when not nil.
	Temperature *float64
	// IgnoreEOS asks for exactly as many tokens as requested, whatever the
	// request says.
	IgnoreEOS bool
	// Extra are further top-level fields of the body; they win over all others.
	Extra map[string]any
}

// Mark is one output mark of an event: generated output of one choice.
type Mark struct {
	Choice  uint8
	Channel record.Channel
	// TextBytes is the length of the decoded output text.
	TextBytes uint32
}

// Delta is what one event said.
type Delta struct {
	// Marks are valid until the next call to the decoder; empty for a
	// structural event.
	Marks []Mark
	// Cumulative is the running count of completion tokens, record.Unknown when
	// the event had no usage.
	Cumulative int32
	// Terminal is true for the event after which nothing more is expected
	// ([DONE]); Err for an error object, an event named error and the finish
	// reasons "error" and "abort".
	Terminal, Err bool
}

// Usage is a server's token account, record.Unknown where it said nothing. Of
// several accounts of one answer each field is the greatest, never the sum: a
// server that sends one account per choice (llama-server with n > 1) is taken at
// the larger one. Cached is part of Prompt, Reasoning of Completion. A prompt of
// 0 tokens, and a completion of 0 beside output, are unknown.
type Usage struct {
	Prompt, Cached, Completion, Reasoning int32
}

// Call is one tool call, put together from its deltas.
type Call struct {
	ID, Name, Arguments string
}

// Result is what a whole response said.
type Result struct {
	Usage Usage
	// Finish is the finish reason of choice 0, "" when there was none;
	// Finished is true when every choice that was seen gave one.
	Finish   string
	Finished bool
	// Done is true when the terminal event was seen.
	Done bool
	// ID is the name of a response that a later request may refer to; empty but in the
	// Responses API.
	ID string
	// ErrorMessage and ErrorType come from an error object in the body.
	ErrorMessage, ErrorType string
	// Text, Reasoning and Refusal hold the joined output per choice, Calls the
	// tool calls of choice 0, only when the decoder keeps text.
	Text, Reasoning, Refusal []string
	Calls                    []Call
	// Fallbacks counts events that went to encoding/json.
	Fallbacks uint32
	// Bad is true when the body was no body of this API at all, or an event of
	// a stream was no JSON.
	Bad bool
}
