// Package workload says who the users are and what they do: the library of
// workloads, the content of prompts, and the session machine, which answers
// what a user does next given what has happened. The machine is free of any
// clock: it is driven by the load generator in real time and by the twin in
// virtual time. This package never sends anything and never waits.
package workload

import (
	"fmt"
	"strings"

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
	// Fork: from At on, or at once, run the machines of Branches side by side,
	// each from its Start to its End, and report by Done when the last has ended.
	// The outcome has the worst status of the last requests of the branches (OK,
	// then Cancelled, Incomplete, Failed), the sum of their OutputTokens, and the
	// latest end. When the step ends before that, Done is not called again.
	Fork
)

// Action is what a machine wants done next.
type Action struct {
	Kind Kind
	// At is in ns on the run's clock; for Send it is the scheduled time.
	At      int64
	Request *message.Request
	// Session, Turn and Workload label the request. Turn counts the user's turns
	// of the session from 0; all requests of one turn have its number.
	Session  uint64
	Turn     uint32
	Workload string
	// CancelAfter, when above 0, abandons the request that many ns after its
	// start.
	CancelAfter int64
	// CancelAt, when above 0, abandons the request at that time on the run's
	// clock, wherever it is then: a request that waits for its retrieval or for a
	// slot is cancelled without having been sent. At a time that is not after At
	// it is not sent at all.
	CancelAt int64
	// CancelTokens, when above 0, abandons the request when that many output
	// events have come. With an answer that is no stream it does nothing.
	CancelTokens int32
	// Retrieval, when not nil, is carried out from At on; the request is due when
	// it has ended.
	Retrieval *Retrieval
	// Lost says that an earlier request of the session failed and is not in its
	// history.
	Lost bool
	// Branches are the machines of a Fork. They are the driver's until Done.
	Branches []Machine
}

// Retrieval is the search that precedes a request: timed as a stage of its own,
// outside of the request. What it finds is not used: the passages are parts of
// the request already.
type Retrieval struct {
	// Duration is the length in ns of an emulated search, used when URL is empty.
	Duration int64
	// URL is the endpoint of a real search: Query is posted to it, as
	// {"model": Model, "input": QUERY} when its path ends in /embeddings, else as
	// {"query": QUERY, "top_k": Passages}.
	URL, Model string
	Query      message.Part
	Passages   int
}

// Outcome is what became of the request that a machine sent.
type Outcome struct {
	Status record.Status
	// Text is the visible answer; empty when the driver keeps none, and in
	// virtual time, where OutputTokens alone counts.
	Text         string
	OutputTokens int32
	// ReasoningTokens are those of OutputTokens that are no part of the visible
	// answer; 0 when nobody says.
	ReasoningTokens int32
	// Calls are the tools that the answer called, as far as the driver keeps them.
	Calls []message.Call
	// Kept says that the server keeps answers, so that a session goes on from the one
	// before by its name, ID, and not at all without it. ID is empty when nobody said.
	Kept bool
	ID   string
	// Ended is the time of the end on the run's clock.
	Ended int64
}

// Join adds to the outcome of a Fork that of the last request of one of its
// branches, which has ended at a time.
func (o *Outcome) Join(last *Outcome, ended int64) {
	if badness(last.Status) > badness(o.Status) {
		o.Status = last.Status
	}
	o.OutputTokens += max(last.OutputTokens, 0)
	o.Ended = max(o.Ended, ended)
}

// badness orders the ends of requests, the worst last.
func badness(s record.Status) int {
	switch s {
	case record.Cancelled:
		return 1
	case record.Incomplete:
		return 2
	case record.Failed:
		return 3
	default:
		return 0
	}
}

// Needs is a set of what machines may ask of their driver beside sending plain
// text and waiting.
type Needs uint16

// The needs.
const (
	// NeedFork: actions of the kind Fork.
	NeedFork Needs = 1 << iota
	// NeedCancel: CancelAfter, CancelAt, CancelTokens.
	NeedCancel
	// NeedRetrieval: an emulated Retrieval; NeedSearch: one at a URL.
	NeedRetrieval
	NeedSearch
	// NeedText: Outcome.Text, as it comes back as history. In virtual time, where
	// tokens stand for it, every driver has it.
	NeedText
	// NeedMedia, NeedTools, NeedSchema and NeedEffort: bodies with media parts,
	// tools and their calls, a response schema, a reasoning effort.
	NeedMedia
	NeedTools
	NeedSchema
	NeedEffort
)

var needNames = [...]string{
	"parallel branches of a session (forks)", "requests abandoned by their users", "an emulated retrieval before a request",
	"a search at a URL before a request", "the server's answers as history", "images or sound", "tools", "structured output", "a reasoning effort",
}

// String lists the needs in words.
func (n Needs) String() string {
	var out []string
	for i := range 16 {
		switch {
		case n&(1<<i) == 0:
		case i < len(needNames):
			out = append(out, needNames[i])
		default:
			out = append(out, fmt.Sprintf("need %d", i))
		}
	}
	return strings.Join(out, ", ")
}

// Needer is a population that says what its machines may ask for. One that does
// not say asks for nothing but Send and Wait of plain text.
type Needer interface{ Needs() Needs }

// NeedsOf returns what the machines of a population may ask for.
func NeedsOf(population any) Needs {
	if n, ok := population.(Needer); ok {
		return n.Needs()
	}
	return 0
}

// Refuse returns an error that names what the machines of a population may ask
// for and a driver cannot do, nil when there is nothing of the kind. A driver
// calls it before the run, so that nothing is left out in silence.
func Refuse(population any, can Needs) error {
	if missing := NeedsOf(population) &^ can; missing != 0 {
		return fmt.Errorf("workload: it needs %s, which is not carried out here: leave that out of the workload", missing)
	}
	return nil
}

// Foreseer is a machine that can say beforehand what its next requests bring.
type Foreseer interface {
	Machine
	// Foresee calls part, between an action that is a Send or a Fork and its Done, with
	// the parts that the requests of its branches and those after it will have if all
	// goes well, as far as they are known by then, and work with what else can be done for them beforehand, by any
	// goroutine and also when the machine goes on. It changes nothing and takes little
	// time. A part is valid until the call returns.
	Foresee(part func(p *message.Part), work func(do func()))
}

// Machine is one user or one session. Calls must come one at a time.
type Machine interface {
	// Start begins at time now.
	Start(now int64) Action
	// Done reports the outcome of the last action and returns the next.
	Done(now int64, o Outcome) Action
}
