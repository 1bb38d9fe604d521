// Package trace reads what users once did (traces of real services, captures
// of agents, data sets of prompts) into one record per request, says what a
// file holds before anything is sent, and replays it as session machines. It
// owns the formats, their units of time and the meaning of their hashes. It
// sends nothing, never fetches or opens what a row points at, and never decides
// how fast a run goes beyond the plan that it is given.
package trace

import (
	"encoding/json"
	"fmt"
	"math"

	"plimsoll/internal/message"
)

// Unset is the value of a time that a row does not give.
const Unset int64 = math.MinInt64

// Unknown is the value of a count that a row does not give.
const Unknown = -1

// maxTokens bounds a length: more tokens than this in one request are an error
// of the file.
const maxTokens = 1 << 30

// Message is one message of a row's prompt, as the file gives it.
type Message struct {
	Role message.Role
	Text string
}

// Record is one request of a trace. What a format does not have stays at its
// zero value, Unset or Unknown. Slices and strings belong to whoever got the
// record.
type Record struct {
	// Line is the line or, in files that have none, the number of the row, from 1.
	Line int
	// ID names the request for Deps; empty when nothing refers to it.
	ID string
	// At is when the request was made, in ns since the first record read; after
	// Load since the earliest. Unset when only Deps and Delay say when.
	At int64
	// Input and Output are lengths in tokens, Unknown when the file has text or
	// nothing. Reasoning is the part of Output that was reasoning.
	Input, Output, Reasoning int
	// Session joins the rows of one conversation, whose turns follow one another;
	// empty for a request of its own. Parent is the session that started it.
	Session, Parent string
	// Forked: the session's history begins with that of the request it waits for.
	Forked bool
	// Turn counts the rows of the session from 0.
	Turn int
	// Deps are the requests that must have ended before this one starts, beside
	// the turn before it, unless Graph is set: then they are all.
	Deps  []string
	Graph bool
	// Delay is the time in ns from the end of what a row waits for to its start,
	// Unset when the file does not say. ToolWait is waited in addition.
	Delay, ToolWait int64
	// Took is how long the request took when it was recorded, in ns; 0 unknown.
	Took int64
	// Hashes are the blocks of the prompt, each BlockTokens long; what they do not
	// cover at its end is nobody else's. Each stands for all of the prompt up to
	// the end of its block.
	Hashes      []uint64
	BlockTokens int
	// Prefix is the number of tokens that the prompt has in common with the turn
	// before it, Unknown when the file does not say.
	Prefix int
	// Delta: Messages, or Input, are only what this turn adds to the history.
	Delta    bool
	Messages []Message
	// Answer is the recorded answer, empty when there is none.
	Answer string
	// Tools are the definitions that the request brings, as JSON.
	Tools json.RawMessage
	// Body is a whole request body, to be sent as it is.
	Body  json.RawMessage
	Model string
	// Kind is what the file calls this sort of request.
	Kind string
	// Images counts the images that came with the prompt.
	Images int
	// Unsent are the names of what came beside text and images and is not sent: types
	// of parts (input_audio) and parameters of the request (temperature). A Body is
	// sent as it is and has none.
	Unsent []string
	// Cancelled: the user abandoned it.
	Cancelled bool
	// Cached is the number of prompt tokens that were found in a cache when it was
	// recorded, Unknown mostly.
	Cached int
}

// reset makes r an empty record of a line.
func (r *Record) reset(line int) {
	*r = Record{Line: line, At: Unset, Input: Unknown, Output: Unknown, Delay: Unset, Prefix: Unknown, Cached: Unknown}
}

// hasNothing says whether the record has neither text nor a body nor a length: if it
// is sent at all, then for its images.
func (r *Record) hasNothing() bool {
	for i := range r.Messages {
		if r.Messages[i].Text != "" {
			return false
		}
	}
	return len(r.Body) == 0 && len(r.Hashes) == 0 && r.Input == Unknown
}

// Unit is a unit of time.
type Unit string

// The units. UnitAuto is the format's own.
const (
	UnitAuto    Unit = ""
	Nanoseconds Unit = "ns"
	Micro       Unit = "us"
	Milli       Unit = "ms"
	Seconds     Unit = "s"
	// Date is a date and time in ISO form.
	Date Unit = "date"
)

// scale returns the unit in ns, 0 for dates.
func (u Unit) scale() int64 {
	switch u {
	case Nanoseconds:
		return 1
	case Micro:
		return 1e3
	case Milli:
		return 1e6
	case Seconds:
		return 1e9
	}
	return 0
}

// Policy says what becomes of a row that is not right.
type Policy string

// The policies. Fail is the default: one error, before anything is sent.
const (
	Fail Policy = "fail"
	Skip Policy = "skip"
	// Fix makes a row's hashes fit its length, and skips what cannot be mended.
	Fix Policy = "fix"
)

// Options say how a file is read. The zero value detects everything.
type Options struct {
	// Format is a name of Formats; empty detects it from the content.
	Format string
	// TimeUnit replaces the format's own.
	TimeUnit Unit
	// OnBadRow is Fail when empty.
	OnBadRow Policy
	// KeepZeroOutput keeps rows without output, as requests for one token; they
	// are failures in most traces and are left out.
	KeepZeroOutput bool
	// BlockTokens replaces the format's number of tokens per hash.
	BlockTokens int
	// Columns says which column or field of a table holds what: keys are
	// timestamp, input, output, session, prompt, model, id, kind, images, took.
	Columns map[string]string
	// OutputKnown says that whoever reads the trace knows how long the answers are
	// of rows that do not say it.
	OutputKnown bool
	// Turns says what rows of one session hold: cumulative (the whole prompt),
	// delta (what is new), or empty for what the file says.
	Turns string
	// Seed is that of formats that are generators (ServeGen).
	Seed uint64
	// Limit stops after that many records, 0 for none.
	Limit int
	// Done, when closed, ends the reading with context.Canceled; nil for never.
	Done <-chan struct{}
}

func (o *Options) check() error {
	switch o.TimeUnit {
	case UnitAuto, Nanoseconds, Micro, Milli, Seconds:
	default:
		return fmt.Errorf("time-unit: want ns, us, ms or s, got %q", o.TimeUnit)
	}
	switch o.OnBadRow {
	case "", Fail, Skip, Fix:
	default:
		return fmt.Errorf("on-bad-row: want fail, skip or fix, got %q", o.OnBadRow)
	}
	switch o.Turns {
	case "", "cumulative", "delta":
	default:
		return fmt.Errorf("turns: want cumulative or delta, got %q", o.Turns)
	}
	if o.BlockTokens < 0 || o.BlockTokens > maxTokens {
		return fmt.Errorf("block-size: want 1 to %d tokens, got %d", maxTokens, o.BlockTokens)
	}
	for k := range o.Columns {
		if !isColumn(k) {
			return fmt.Errorf("column %q: want one of %s", k, columnNames())
		}
	}
	return nil
}

// Error is what is wrong with a row: where it stands and what would be right.
type Error struct {
	File string
	Line int
	// Field is the name in the file, empty for the row as a whole.
	Field string
	Text  string
	// code groups errors of a kind.
	code string
}

func (e *Error) Error() string {
	s := "read trace " + e.File
	if e.Line > 0 {
		s += fmt.Sprintf(":%d", e.Line)
	}
	if e.Field != "" {
		s += ": " + e.Field
	}
	return s + ": " + e.Text
}
