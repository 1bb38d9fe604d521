package record

// Status says how a request ended.
type Status uint8

// The statuses of METRICS.md. Incomplete: the run's drain limit ended it.
const (
	OK Status = iota
	Failed
	Cancelled
	Incomplete
)

var statusNames = [...]string{"ok", "error", "cancelled", "incomplete"}

// String returns the status as reports and files spell it.
func (s Status) String() string { return name(statusNames[:], int(s)) }

// ErrorKind says why a request failed. It is a small enum, never a Go error.
type ErrorKind uint8

// The error kinds of the contract; NoError for requests that did not fail.
const (
	NoError ErrorKind = iota
	HTTPStatusError
	AuthError
	RateLimited
	Overloaded
	InBandError
	TruncatedStream
	ConnectionReset
	ConnectRefused
	ConnectTimeout
	DNSError
	TLSError
	IdleTimeout
	HeaderTimeout
	TotalTimeout
	DecodeError
	BadBody
	RedirectError
	ClientResource
)

var errorNames = [...]string{
	"", "http_status", "auth", "rate_limited", "overloaded", "in_band_error",
	"truncated_stream", "connection_reset", "connect_refused", "connect_timeout", "dns", "tls",
	"idle_timeout", "header_timeout", "total_timeout", "decode", "bad_body", "redirect", "client_resource",
}

// String returns the kind as reports and files spell it, "" for NoError.
func (k ErrorKind) String() string { return name(errorNames[:], int(k)) }

// TokenSource says who counted the output tokens.
type TokenSource uint8

// The sources of an output token count.
const (
	SourceNone TokenSource = iota
	SourceServer
	SourceTokenizer
)

var sourceNames = [...]string{"none", "server", "tokenizer"}

// String returns the source as reports and files spell it.
func (s TokenSource) String() string { return name(sourceNames[:], int(s)) }

// TPOTBasis says what the tpot of a request was divided by.
type TPOTBasis uint8

// The bases: the tokens after the first event where that event's tokens are
// known, otherwise the usual n minus 1.
const (
	BasisNone TPOTBasis = iota
	BasisFirstEvent
	BasisNMinus1
)

var basisNames = [...]string{"none", "first_event", "n_minus_1"}

// String returns the basis as reports and files spell it.
func (b TPOTBasis) String() string { return name(basisNames[:], int(b)) }

// Flags is a set of notes on one request.
type Flags uint32

// The flags. Each has the name that reports print.
const (
	// EarlyResponse: the response began before the request was sent whole.
	EarlyResponse Flags = 1 << iota
	// NoDone: a stream ended by finish reason without its terminal event.
	NoDone
	// NoFinishReason: a stream ended by its terminal event without a reason.
	NoFinishReason
	// MultiTokenEvents: events and tokens differ in number.
	MultiTokenEvents
	// BufferedStream: all output came in the last 5 % of the request.
	BufferedStream
	// NotStreamed: a stream was asked for, one body came.
	NotStreamed
	// NoOutput: success without any output in any channel.
	NoOutput
	// WallClockStep: a kernel time was impossible, user times were taken.
	WallClockStep
	// MoreEventsThanTokens: more output events than output tokens.
	MoreEventsThanTokens
	// ShortOutput: fewer tokens than asked for exactly.
	ShortOutput
	// AfterFailure: an earlier request of the session failed, and what it asked is
	// not in the history.
	AfterFailure
)

var flagNames = [...]string{
	"early_response", "no_done", "no_finish_reason", "multi_token_events", "buffered_stream",
	"not_streamed", "no_output", "wall_clock_step", "more_events_than_tokens", "short_output", "after_failure",
}

// Names returns the names of the set flags, nil when there are none.
func (f Flags) Names() []string {
	var out []string
	for i, n := range flagNames {
		if f&(1<<i) != 0 {
			out = append(out, n)
		}
	}
	return out
}

var phaseNames = [...]string{"warmup", "steady", "drain"}

// String returns the phase as reports and files spell it.
func (p Phase) String() string { return name(phaseNames[:], int(p)) }

func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "unknown"
}
