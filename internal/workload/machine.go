// Package workload says who the users are and what they do: the library of
// workloads, the content of prompts, and the session machine, which answers
// what a user does next given what has happened. The machine is free of any
// clock: it is driven by the load generator in real time and by the twin in
// virtual time. This package never sends anything and never waits.
package workload

import (
	"plimsoll/internal/message"
	"plimsoll/internal/record"
)

// Kind is what a machine wants done next.
type Kind uint8

// The kinds of action.
const (
	// End: the machine is finished; it must not be called again.
	End Kind = iota
	// Send: send Request, and report its outcome by Done. The request is due at
	// At, or at once when At is not after now.
	Send
	// Wait: call Done again at At with a zero outcome.
	Wait
)

// Action is what a machine wants done next.
type Action struct {
	Kind Kind
	// At is in ns on the run's clock; for Send it is the scheduled time.
	At      int64
	Request *message.Request
	// Session, Turn and Workload label the request.
	Session  uint64
	Turn     uint32
	Workload string
	// CancelAfter, when above 0, abandons the request that many ns after its
	// start.
	CancelAfter int64
}

// Outcome is what became of the request that a machine sent.
type Outcome struct {
	Status record.Status
	// Text is the visible answer; empty when the driver keeps none, and in
	// virtual time, where OutputTokens alone counts.
	Text         string
	OutputTokens int32
	// Ended is the time of the end on the run's clock.
	Ended int64
}

// Machine is one user or one session. Calls must come one at a time.
type Machine interface {
	// Start begins at time now.
	Start(now int64) Action
	// Done reports the outcome of the last action and returns the next.
	Done(now int64, o Outcome) Action
}
