// Package record holds what was seen of one request: its clock points, its
// timeline of output events, its token counts with their source, and how it
// ended, as plain values. It owns these types and the resolution of tokens per
// event; it never computes a figure (stats), knows no file format (run) and no
// API (dialect).
package record

import "math"

// Unset is the value of a clock point that was not reached. All clock points
// are nanoseconds on the run's monotonic clock, 0 being the run's start instant.
const Unset int64 = math.MinInt64

// Unknown is the value of a token count that nobody reported.
const Unknown int32 = -1

// Phase is the part of a run (or of one of its steps) in which a request was
// scheduled.
type Phase uint8

// The phases of a run, in order of time. Figures are of Steady.
const (
	Warmup Phase = iota
	Steady
	Drain
)

// Channel is a set of the ways in which an event carried generated output.
type Channel uint8

// The output channels of METRICS.md; structural events have none of them.
const (
	Content Channel = 1 << iota
	Reasoning
	ToolCall
	Refusal
)

// Event is one output event of a stream: a mark of one choice. Structural
// events (role, usage, ping) are never recorded as events.
type Event struct {
	// At is when the event's last byte arrived.
	At int64
	// Cumulative is the server's running count of completion tokens as of this
	// event, Unknown when it sent none.
	Cumulative int32
	// Tokens is the number of tokens the event carried, Unknown until resolved
	// and when it cannot be known.
	Tokens int32
	// Read is the index of the socket read that completed the event.
	Read uint32
	// TextBytes is the length of the decoded output text of this mark.
	TextBytes uint32
	// Choice is the index of the choice (n > 1), saturating at 255.
	Choice uint8
	// Channel says what the event carried.
	Channel Channel
	// Bounded is true when a later event completed in the same read, so that At
	// is only an upper bound.
	Bounded bool
}

// Request is one request as it was seen. A zero value is not valid: use Reset.
type Request struct {
	// ID counts requests of the run from 0 in the order they were started.
	ID uint64
	// Session, Turn and User say whose request this is. Step is the index of
	// the load step (a list of users or rates), Agent that of the generator.
	Session uint64
	User    uint32
	Turn    uint32
	Step    uint32
	Agent   uint32
	// Workload is the name of the workload that made the request.
	Workload string
	// Target is the index of the URL it was sent to; Remote the address.
	Target uint32
	Remote string
	Phase  Phase

	// Clock points, see METRICS.md. Unset when not reached.
	Scheduled, Start, Connected, Sent, Headers int64
	FirstEvent, FirstToken, FirstContent       int64
	LastToken, End                             int64
	RetrievalStart, RetrievalEnd               int64
	// FirstSend is the Start of an attempt that died on a reused connection
	// before any byte came and was sent again; Unset when there was none.
	FirstSend int64
	// CapWait is the time in ns spent waiting under a cap that the user asked
	// for (max in flight), between Scheduled and Start.
	CapWait int64

	// KernelTimes says whether the K clock points are kernel receive times.
	KernelTimes bool
	// ReadLagMean and ReadLagMax are the user-space time of a read less its
	// kernel time, in ns, over the Reads reads; Unset without kernel times.
	ReadLagMean, ReadLagMax int64
	Reads                   uint32

	// Streamed says whether the answer came as a stream, AskedStream whether
	// one was asked for.
	Streamed, AskedStream bool
	// StreamEvents counts all complete stream events, structural ones included.
	StreamEvents uint32
	// Events are the output events in order of arrival.
	Events []Event

	// AskedPrompt and AskedOutput are the token counts that the workload wanted,
	// 0 when it did not say. AskedExact: exactly AskedOutput was asked for.
	AskedPrompt, AskedOutput int32
	// AskedText is the length of the prompt's text in tokens where it has images or
	// sounds beside it, 0 where it has none: what the server counts beyond it is
	// theirs.
	AskedText  int32
	AskedExact bool
	// Token counts; Unknown where nobody reported them. Output includes
	// Reasoning. TokenizerOutput is the tokenizer's count of the joined text
	// where a tokenizer was at hand, kept beside the server's.
	Prompt, Cached, Output, Reasoning, TokenizerOutput int32
	Source                                             TokenSource
	// StreamedTokens is Output without reasoning tokens that were counted but
	// never streamed; Unknown when that cannot be known.
	StreamedTokens int32
	// FirstEventTokens is the number of tokens of the first output event,
	// Unknown when that cannot be known; Basis follows from it.
	FirstEventTokens int32
	Basis            TPOTBasis

	Status     Status
	Error      ErrorKind
	HTTPStatus uint16
	// Finish is the finish reason of choice 0 as the server spelt it, "" when
	// it gave none.
	Finish string
	// Message is a short text of what went wrong, cut to 512 bytes.
	Message string
	Flags   Flags
	// Resends counts sends repeated on a fresh connection (0 or 1), Reused says
	// whether the request ran on a connection that had served another.
	Resends uint8
	Reused  bool
	// SentBytes and ReceivedBytes are body bytes, TextBytes those of the
	// decoded output in all channels.
	SentBytes, ReceivedBytes, TextBytes int64
	// Fallbacks counts events that the fast scanner handed to encoding/json.
	Fallbacks uint32
	// Text is the answer per choice; kept only when asked for (--save-text),
	// ReasoningText and RefusalText, of choice 0, likewise.
	Text                       []string
	ReasoningText, RefusalText string
}

// Reset makes r a request of which nothing has been seen yet. It keeps the
// capacity of the Events slice.
func (r *Request) Reset() {
	ev := r.Events[:0]
	*r = Request{
		Events:    ev,
		Scheduled: Unset, Start: Unset, Connected: Unset, Sent: Unset, Headers: Unset,
		FirstEvent: Unset, FirstToken: Unset, FirstContent: Unset,
		LastToken: Unset, End: Unset, RetrievalStart: Unset, RetrievalEnd: Unset,
		FirstSend: Unset, ReadLagMean: Unset, ReadLagMax: Unset,
		Prompt: Unknown, Cached: Unknown, Output: Unknown, Reasoning: Unknown,
		TokenizerOutput: Unknown, StreamedTokens: Unknown, FirstEventTokens: Unknown,
	}
}
