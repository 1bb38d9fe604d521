// Package load is the users at work: it starts requests when they are due,
// follows each answer to its end, and hands one record per request to a sink.
// It owns the dispatcher, the users, the cap in flight, deadlines, the drain
// and the guards that stop a run. It never computes a figure (stats), keeps a
// file (run), or looks at a server's telemetry; what is done with a record is
// the business of whoever gave it the sink.
package load

import (
	"context"
	"net/http"
	"time"

	"plimsoll/internal/dialect"
	"plimsoll/internal/message"
	"plimsoll/internal/pace"
	"plimsoll/internal/record"
	"plimsoll/internal/stream"
	"plimsoll/internal/workload"
)

// Clock is the run's clock. *clock.Clock is one.
type Clock interface {
	// Now returns ns since the run's start instant.
	Now() int64
	// SleepUntil returns at t, or earlier with an error when ctx ends.
	SleepUntil(ctx context.Context, t int64) error
}

// Sink receives one record per request. Record is called from many goroutines
// at once; r and everything it refers to is valid only until Record returns.
type Sink interface {
	Record(r *record.Request)
}

// Population makes the users of a closed loop and the sessions of an open one.
// What a machine draws must depend on nothing but the population's seed and the
// numbers given. *workload.Synthetic is one.
type Population interface {
	// User returns the endless machine of one user during one step.
	User(step, user uint32) workload.Machine
	// Session returns the machine of one session, which ends.
	Session(step uint32, session uint64) workload.Machine
}

// Step is one level of load. Exactly one of Users and Rate is above 0, or both with
// Streams; and exactly one of Duration and Requests.
type Step struct {
	// Users is the number of users of a closed loop.
	Users int
	// Rate is the mean number of requests per second of an open loop, Arrival
	// its arrival process: "constant" (also when empty), "poisson", or "gamma" of
	// the Burstiness that pace.Gamma takes. Shape, when not nil, is how the rate
	// goes from the start of the steady window on; Rate is its base.
	Rate       float64
	Arrival    string
	Burstiness float64
	Shape      *pace.Shape
	// Times, when not nil, are when the sessions of an open loop start, instead of
	// all that; Rate is only their mean then, and Requests the number of requests of
	// all sessions, warm-up included. The window lasts until the last of them has
	// ended, and the sessions come to their own ends.
	Times *pace.Times
	// Streams, when there are any, are the arrivals of the parts of the population
	// instead of Arrival, Burstiness and Shape: session n of stream p has the number
	// workload.StreamNumber(p, n). Rate is the sum of theirs. Users beside them are
	// those of other parts; the sessions' users are numbered after them.
	Streams []pace.Stream
	// Warmup is the time from the step's start to the start of its steady
	// window.
	Warmup time.Duration
	// Duration is the length of the steady window.
	Duration time.Duration
	// Requests is the number of requests scheduled in the steady window.
	Requests int
	// Drain bounds the time from the end of the steady window to the end of the
	// requests still in flight; those that have not ended then are incomplete.
	// 0 cuts them at once.
	Drain time.Duration
}

// Config says what to do. Clock, Stream.Now, URLs, API, Population, Renderer,
// Steps and Sink are required.
type Config struct {
	Clock Clock
	// Stream says how connections are made; its Now must be Clock's.
	Stream stream.Config
	// URLs are whole endpoint URLs, used in turn by the requests' numbers.
	URLs []string
	// Header is sent with every request beside Content-Type, which is set here;
	// it holds the key where there is one. It is not modified.
	Header http.Header
	API    dialect.API
	// Options shape each body.
	Options dialect.Options
	// HeaderTimeout, IdleTimeout and TotalTimeout are those of stream.Request;
	// 0 means none.
	HeaderTimeout, IdleTimeout, TotalTimeout time.Duration

	Seed       uint64
	Population Population
	Renderer   message.Renderer
	Steps      []Step
	// MaxInFlight caps the requests in flight over all users or sessions; 0
	// means no cap. The wait under it is recorded as CapWait.
	MaxInFlight int

	// MaxErrorShare stops the run when the share of failed requests among the
	// last 100 is above it; 0 and values from 1 on turn the guard off.
	MaxErrorShare float64
	// MaxTotalTokens stops the run before the prompt and output tokens of all
	// requests together can exceed it; 0 means no limit. Where the workload
	// leaves the output to the server, only what has ended is known of it.
	MaxTotalTokens int64

	// KeepText keeps the answers in the records.
	KeepText bool
	// Tokenizer counts output tokens beside the server; nil when there is none.
	Tokenizer record.Counter
	// Agent labels the records.
	Agent uint32

	Sink Sink
	// Begun is called once for each step that is started, before its first
	// request and not after its end, with the times that are known by then:
	// SteadyEnd is math.MaxInt64 for a window of a number of requests in a closed
	// loop. Nil when nobody asks.
	Begun func(StepResult)
	// More is asked before each step but the first, when everything of the steps
	// before it has been recorded; false ends the run, which is complete then. Nil
	// runs all steps.
	More func(step int) bool
	// Live is updated while the run goes on; nil when nobody looks.
	Live *Live
	// Stop, when closed, ends the run softly: nothing new is started and what
	// is in flight is drained. Ending the context instead cancels what is in
	// flight; either way everything measured so far has been recorded.
	Stop <-chan struct{}

	// For tests: inspect sees what the decoder made of each answer, before its
	// record is handed over; limit may change the limits of the run.
	inspect func(*dialect.Result)
	limit   func(*run)
}

// StopReason says why a run ended.
type StopReason uint8

// The reasons. Completed is the zero value.
const (
	Completed StopReason = iota
	// Interrupted: the context ended or Stop was closed.
	Interrupted
	// ErrorShare: more failures than MaxErrorShare allows.
	ErrorShare
	// TokenLimit: MaxTotalTokens was about to be exceeded.
	TokenLimit
	// KeyRefused: the endpoint answered 401 or 403.
	KeyRefused
	// PathRefused: the endpoint answered 404 or 405.
	PathRefused
)

var stopNames = [...]string{"completed", "interrupted", "error_share", "token_limit", "key_refused", "path_refused"}

// String returns the reason's name.
func (s StopReason) String() string {
	if int(s) < len(stopNames) {
		return stopNames[s]
	}
	return "unknown"
}

// Result is how a run went, beside the records.
type Result struct {
	// Steps are the steps that were started, in order.
	Steps []StepResult
	// Stopped says why the run ended, Message explains it in one sentence; empty
	// when it was completed.
	Stopped StopReason
	Message string
	// Start and End are when the first step started and when the last request
	// had ended, on the run's clock.
	Start, End int64
	// Endpoints are the connections of each host and port.
	Endpoints []stream.EndpointStats
}

// StepResult is one step as it went. Times are on the run's clock.
type StepResult struct {
	Step
	Index uint32
	// Start is the step's own time 0. SteadyStart and SteadyEnd bound its steady
	// window, SteadyEnd excluded; End is when its last request had ended.
	//
	// A window of a number of requests ends, in an open loop, when the next
	// request would have been due (of sessions that need more than plain requests,
	// when its last has become due), and in a closed loop, also beside an open one,
	// with the last end of a request of it. When the run was stopped, the window ends at that time.
	Start, SteadyStart, SteadyEnd, End int64
	// Scheduled counts the requests scheduled in the step, Steady those of them
	// in its steady window.
	Scheduled, Steady uint64
	// Complete is true when the window lasted as long as asked.
	Complete bool
}
