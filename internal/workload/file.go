package workload

import (
	"plimsoll/internal/message"
	"plimsoll/internal/random"
	"plimsoll/internal/scenario"
)

// File is a workload as its YAML file says it: who the users are and what they
// send. Read makes one; what it holds is checked then.
type File struct {
	// Name labels the requests: lower-case words joined by / and -.
	Name string `yaml:"name"`
	// About says in a sentence who is emulated.
	About string `yaml:"about,omitempty"`
	// Stresses are the parts of the stack that the workload is meant to load, of
	// Stresses.
	Stresses []string `yaml:"stresses,omitempty"`
	// Arrival is how such users arrive, of Arrivals: a hint, not a setting.
	Arrival   string         `yaml:"arrival,omitempty"`
	Session   SessionSpec    `yaml:"session,omitempty"`
	Prompt    PromptSpec     `yaml:"prompt"`
	Output    OutputSpec     `yaml:"output,omitempty"`
	Retrieval *RetrievalSpec `yaml:"retrieval,omitempty"`
	Fork      *ForkSpec      `yaml:"fork,omitempty"`
	Tools     *ToolsSpec     `yaml:"tools,omitempty"`
	Cancel    *CancelSpec    `yaml:"cancel,omitempty"`
	Media     []MediaSpec    `yaml:"media,omitempty"`
	SLO       SLOSpec        `yaml:"slo,omitempty"`
	// Vary are the rungs of a ladder, one after another: what each sets, by path.
	Vary []map[string]string `yaml:"vary,omitempty"`

	compiled compiled
	// rungs are the workloads that Vary makes of this one.
	rungs []*File
}

// The parts of the stack that a workload may stress.
const (
	Compute   = "compute"   // prefill arithmetic
	Bandwidth = "bandwidth" // memory reads of decoding
	KV        = "kv"        // memory for keys and values
	Network   = "network"   // bytes between client and server
	Scheduler = "scheduler" // many short, urgent requests
)

// Stresses lists the parts of the stack, in the order of a radar's axes.
var Stresses = []string{Compute, Bandwidth, KV, Network, Scheduler}

// Arrivals lists the ways in which users of a workload may arrive.
var Arrivals = []string{"users", "rate", "spikes"}

// SessionSpec is one conversation of one user.
type SessionSpec struct {
	// Turns is the number of turns, 1 when it is not said.
	Turns scenario.Count `yaml:"turns,omitempty"`
	// Think is the time from the end of an answer to the next turn; none when it
	// is not said. Instead of it Tick makes turn k due k ticks after the session's
	// start, or when the answer before it has ended, if that is later.
	Think scenario.Delay `yaml:"think,omitempty"`
	Tick  scenario.Delay `yaml:"tick,omitempty"`
	// Pause is the time from the end of a session to the same user's next; like
	// Think when it is not said.
	Pause scenario.Delay `yaml:"pause,omitempty"`
	// History is what becomes of earlier turns: HistoryServer (when it is not
	// said), HistoryRecorded or HistoryNone.
	History string `yaml:"history,omitempty"`
	// OnFailure is what a user does whose request failed: OnFailureGoOn (when it is not
	// said), with the next turn and without that question, or OnFailureEnd, with the
	// next session. Nobody asks again.
	OnFailure string `yaml:"on-failure,omitempty"`
	// MaxContext is the longest prompt with its answer in tokens, a million when it
	// is not said: documents that a fork found are cut so that the rounds to come
	// fit too, and a turn that would still exceed it ends the session. A first turn
	// is sent whatever its length.
	MaxContext int `yaml:"max-context,omitempty"`
}

// What a user does whose request failed.
const (
	OnFailureGoOn = "go-on"
	OnFailureEnd  = "end"
)

// What becomes of earlier turns.
const (
	HistoryServer   = "server"   // the server's own answers are sent back
	HistoryRecorded = "recorded" // generated answers of the asked length are
	HistoryNone     = "none"     // every turn is asked by itself
)

// LayerSpec is text: its length and what it is made of. In a file its length may
// stand alone.
type LayerSpec struct {
	Tokens scenario.Dist `yaml:"tokens,short"`
	// Content names the generator, as content.Parse reads it.
	Content string `yaml:"content,omitempty"`
	// Text is the text itself, the same each time; Tokens is its length then, one
	// for four bytes when it is not said.
	Text string `yaml:"text,omitempty"`
}

func (l *LayerSpec) given() bool { return l.Tokens.Kind != "" }

// GroupSpec is text that some users share.
type GroupSpec struct {
	Tokens  scenario.Dist `yaml:"tokens,short"`
	Content string        `yaml:"content,omitempty"`
	// Users is how many users, or sessions that arrive one after another, share
	// one text. Instead of it Sets is the number of texts that there are, and
	// Order says which of them a session takes: OrderCycle (when it is not said),
	// OrderRandom or OrderZipf, whose exponent is 1.
	Users int    `yaml:"users,omitempty"`
	Sets  int    `yaml:"sets,omitempty"`
	Order string `yaml:"order,omitempty"`
}

// The orders in which sessions take texts of a group.
const (
	OrderCycle  = "cycle"
	OrderRandom = "random"
	OrderZipf   = "zipf"
)

// DocumentsSpec is what one user brings along.
type DocumentsSpec struct {
	// Tokens is the length of each document.
	Tokens  scenario.Dist `yaml:"tokens,short"`
	Content string        `yaml:"content,omitempty"`
	// Documents is their number, 1 when it is not said.
	Documents scenario.Count `yaml:"documents,omitempty"`
}

// PromptSpec are the layers of a prompt, from most shared to least. What is not
// said is not there.
type PromptSpec struct {
	System  LayerSpec     `yaml:"system,omitempty"`
	Group   GroupSpec     `yaml:"group,omitempty"`
	Session DocumentsSpec `yaml:"session,omitempty"`
	Turn    LayerSpec     `yaml:"turn,omitempty"`
}

// OutputSpec is what is asked for.
type OutputSpec struct {
	// Tokens is the length of an answer, reasoning included; not said, it is left
	// to the server. First is that of the first turn, where it differs.
	Tokens scenario.Dist `yaml:"tokens,short"`
	First  scenario.Dist `yaml:"first,omitempty"`
	// Stop is StopExact (when it is not said and a length is) or StopNatural.
	Stop      string         `yaml:"stop,omitempty"`
	Reasoning *ReasoningSpec `yaml:"reasoning,omitempty"`
	// Schema is the JSON Schema of the answer, for structured output.
	Schema string `yaml:"schema,omitempty"`
}

// How an answer ends.
const (
	StopExact   = "exact"   // at the asked length, where the server can do that
	StopNatural = "natural" // where the model ends, at the asked length at most
)

// ReasoningSpec is the reasoning before an answer.
type ReasoningSpec struct {
	// Effort is sent as it is: low, medium, high, or what the server knows.
	Effort string `yaml:"effort,omitempty,short"`
	// Tokens is how many of the answer's tokens it is expected to take.
	Tokens scenario.Dist `yaml:"tokens,omitempty"`
}

// RetrievalSpec is a search before each turn, whose passages come into the
// prompt before the question.
type RetrievalSpec struct {
	// Latency is the length of an emulated search. Instead of it URL is a real
	// endpoint for embeddings or search, asked with the question, and Model the
	// model to name there.
	Latency scenario.Delay `yaml:"latency,omitempty"`
	URL     string         `yaml:"url,omitempty"`
	Model   string         `yaml:"model,omitempty"`
	// Passages is their number, Tokens the length of each.
	Passages scenario.Count `yaml:"passages"`
	Tokens   scenario.Dist  `yaml:"tokens"`
	Content  string         `yaml:"content,omitempty"`
}

// ForkSpec makes every turn a round: sub-queries are asked side by side on the
// session's context, and the turn's own request joins what they found.
type ForkSpec struct {
	Branches scenario.Count `yaml:"branches"`
	// Turn is the question of a branch, Output the length of its answer, Found a
	// document that each branch brings into the context beside its answer.
	Turn   LayerSpec     `yaml:"turn"`
	Output scenario.Dist `yaml:"output,omitempty"`
	Found  LayerSpec     `yaml:"found,omitempty"`
}

// ToolsSpec are tools that the model may call before it answers.
type ToolsSpec struct {
	// Share is the share of turns with calls, Calls their number in such a turn;
	// 1 when they are not said.
	Share *float64       `yaml:"share,omitempty"`
	Calls scenario.Count `yaml:"calls,omitempty"`
	// Choice is sent as tool_choice with a request that should call a tool: auto
	// (when it is not said), required or none.
	Choice string `yaml:"choice,omitempty"`
	// Tokens is the output length of a request that should call a tool.
	Tokens scenario.Dist `yaml:"tokens,omitempty"`
	Offer  []ToolSpec    `yaml:"offer"`
}

// ToolSpec is one tool with its recorded result. Which one is called is drawn.
type ToolSpec struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description,omitempty"`
	// Parameters is the JSON Schema of the arguments, Arguments the recorded ones,
	// which stand in where the server's answer called nothing.
	Parameters string `yaml:"parameters,omitempty"`
	Arguments  string `yaml:"arguments,omitempty"`
	// Result is what comes back, Delay how long that takes.
	Result LayerSpec      `yaml:"result"`
	Delay  scenario.Delay `yaml:"delay,omitempty"`
}

// CancelSpec says which answers the user does not wait for.
type CancelSpec struct {
	// Share is the share of turns, 1 when it is not said.
	Share *float64 `yaml:"share,omitempty"`
	// When is CancelFirstToken, CancelAfterTime or CancelSuperseded; After is the
	// time from the start of the request for the second.
	When  string         `yaml:"when"`
	After scenario.Delay `yaml:"after,omitempty"`
}

// When a user gives up on an answer.
const (
	CancelFirstToken = "first-token"
	CancelAfterTime  = "after"
	CancelSuperseded = "superseded" // at the next tick
)

// MediaSpec are images or sounds that are sent inline.
type MediaSpec struct {
	// Kind is image or audio.
	Kind string `yaml:"kind"`
	// Count is their number, 1 when it is not said.
	Count scenario.Count `yaml:"count,omitempty"`
	// Width and Height are an image's size in pixels, Format FormatJPEG (a scene,
	// when it is not said) or FormatPNG (a chart). Seconds is a sound's length.
	Width   int     `yaml:"width,omitempty"`
	Height  int     `yaml:"height,omitempty"`
	Format  string  `yaml:"format,omitempty"`
	Seconds float64 `yaml:"seconds,omitempty"`
	// Tokens is what one of them counts in a prompt; what a common model makes of it
	// (message.Media.Tokens) when it is not said, which is a guess.
	Tokens  int `yaml:"tokens,omitempty"`
	guessed bool
	// At is where they stand: session (when it is not said), once before the first
	// question, or turn, before each.
	At string `yaml:"at,omitempty"`
}

// The formats of images.
const (
	FormatJPEG = "jpeg"
	FormatPNG  = "png"
)

// media is one of them, of a seed.
func (m *MediaSpec) media(seed uint64) *message.Media {
	kind := message.Image
	if m.Kind == "audio" {
		kind = message.Audio
	}
	return &message.Media{Kind: kind, Width: m.Width, Height: m.Height, PNG: m.Format == FormatPNG, Seconds: m.Seconds, Seed: seed}
}

// SLOSpec are the limits that such users care about.
type SLOSpec struct {
	// All hold for every turn, First for the first, Later for all others.
	All   []scenario.Limit `yaml:"all,omitempty"`
	First []scenario.Limit `yaml:"first,omitempty"`
	Later []scenario.Limit `yaml:"later,omitempty"`
	// WithRetrieval makes ttft count from the beginning of the retrieval.
	WithRetrieval bool `yaml:"with-retrieval,omitempty"`
}

// compiled are the distributions of a file, ready to be drawn from.
type compiled struct {
	turns, branches, documents, passages, calls                    random.Dist
	think, tick, pause, latency, after                             random.Dist
	hasPause                                                       bool
	system, group, document, turn, passage, query, found           random.Dist
	output, first, reasoning, branchOutput, callOutput             random.Dist
	toolResults, toolDelays, mediaCounts                           []random.Dist
	hasOutput, hasFirst, hasReasoning, hasTurn, hasFound, hasCalls bool
	toolShare, cancelShare                                         float64
	needs                                                          Needs
}
