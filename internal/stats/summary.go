// Package stats holds the formulas of METRICS.md: figures of one request as
// functions of its record, and figures of a window (rates, exact percentiles
// with their intervals, service levels, the verdict on the run) as a Summary
// that a Collector makes of many records. The same records give the same
// summary byte for byte, in whatever order they come and whether they come from
// memory or from disk. It owns definitions; it never reads a clock or a file,
// never averages percentiles, and never writes a figure that is not known.
package stats

import (
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"plimsoll/internal/phrase"
	"plimsoll/internal/plainjson"
)

// SummarySchemaName is the value of the field schema of every Summary.
const SummarySchemaName = "plimsoll.summary/1"

// Summary is the content of summary.json. Pointers are nil, and null in the
// file, where a figure is not known. Times are in the unit of their name.
type Summary struct {
	Schema   string    `json:"schema"`
	Run      RunPart   `json:"run"`
	Load     LoadPart  `json:"load"`
	Requests Requests  `json:"requests"`
	Tokens   Tokens    `json:"tokens"`
	Latency  Latency   `json:"latency_ms"`
	Rates    RatesPart `json:"rates"`
	// SLO is nil when no limits were given.
	SLO    *SLO       `json:"slo"`
	Client ClientPart `json:"client"`
	// Server maps canonical signals to their distributions.
	Server map[string]*Dist `json:"server"`
	// Agreement has the engines' figures beside the client's; absent without telemetry.
	Agreement *Agreement `json:"agreement,omitempty"`
	// Energy is absent when no source stated power or energy.
	Energy *Energy `json:"energy,omitempty"`
	// Workloads has the figures per workload, by its name.
	Workloads map[string]*Group `json:"workloads"`
	// Steps has the figures per level of load when there were several, in
	// order of time; the figures above are then over the windows of all steps.
	Steps    []Step    `json:"steps"`
	Findings []Finding `json:"findings"`
}

// Verdict says whether the figures of a run can be trusted.
type Verdict string

// The verdicts. ClientBound: the figures say more about this client than about
// the service.
const (
	Valid       Verdict = "valid"
	ClientBound Verdict = "client-bound"
	Invalid     Verdict = "invalid"
)

// Effect says what a check that did not pass means.
type Effect string

// The effects, from worst to mildest. A note leaves the verdict as it is.
const (
	MakesInvalid     Effect = "invalid"
	MakesClientBound Effect = "client-bound"
	MakesNote        Effect = "note"
)

// RunPart says which run it was and whether it can be trusted.
type RunPart struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Started is the wall clock time of the run's start in RFC 3339, UTC.
	Started string `json:"started"`
	// DurationS is the length of the whole run, WindowS that of its steady
	// window (of all steps together), which rates refer to.
	DurationS *float64 `json:"duration_s"`
	WindowS   *float64 `json:"window_s"`
	Verdict   Verdict  `json:"verdict"`
	// Reasons are the checks that did not pass, failures first, then by effect.
	Reasons []Reason `json:"reasons"`
	// Checks are all checks that could be made, in a fixed order.
	Checks []Check `json:"checks"`
}

// Reason is a check that did not pass.
type Reason struct {
	Check  string   `json:"check"`
	Value  *float64 `json:"value"`
	Limit  *float64 `json:"limit"`
	Text   string   `json:"text"`
	Effect Effect   `json:"effect"`
	// Said is what Text says, for programs: its code and its values.
	Said phrase.Said `json:"said,omitzero"`
}

// Check is one check of the verdict with its figure. Value is nil when the
// figure could not be measured, and then OK is true.
type Check struct {
	Check string   `json:"check"`
	Value *float64 `json:"value"`
	Limit *float64 `json:"limit"`
	OK    bool     `json:"ok"`
	// AtLeast is the lower end of the 95 % interval of a p99, which must be over the limit
	// before the verdict rests on it; absent of other checks.
	AtLeast *float64 `json:"at_least,omitempty"`
}

// GroupLoad has the requests per second of the window, as LoadPart has them.
type GroupLoad struct {
	OfferedRPS   *float64 `json:"offered_rps"`
	AchievedRPS  *float64 `json:"achieved_rps"`
	CompletedRPS *float64 `json:"completed_rps"`
}

// LoadPart says how much load there was. Rates are per second of the window.
type LoadPart struct {
	OfferedRPS   *float64 `json:"offered_rps"`   // scheduled in the window
	AchievedRPS  *float64 `json:"achieved_rps"`  // started in the window
	CompletedRPS *float64 `json:"completed_rps"` // ended well in the window
	// Users is the number of users of a closed loop, nil in rate-driven runs and
	// when steps had different numbers.
	Users *int `json:"users"`
	// SessionsInFlight and RequestsInFlight are distributions over the time of
	// the window: numbers at equally spaced instants.
	SessionsInFlight *Dist `json:"sessions_in_flight"`
	RequestsInFlight *Dist `json:"requests_in_flight"`
}

// Requests counts the requests scheduled in the window.
type Requests struct {
	Scheduled  int64            `json:"scheduled"`
	Sent       int64            `json:"sent"`
	OK         int64            `json:"ok"`
	Error      int64            `json:"error"`
	Cancelled  int64            `json:"cancelled"`
	Incomplete int64            `json:"incomplete"`
	ByError    map[string]int64 `json:"by_error"`
	// SearchFailed counts the errors of searches before requests, which were then not
	// sent; they are among those by kind, too.
	SearchFailed int64 `json:"search_failed,omitempty"`
}

// Tokens has the token counts of the requests scheduled in the window, and
// rates of the tokens that arrived inside it.
type Tokens struct {
	// Sums over the requests for which the count is known, nil when it is known
	// for none.
	Prompt    *int64 `json:"prompt"`
	Cached    *int64 `json:"cached"`
	Output    *int64 `json:"output"`
	Reasoning *int64 `json:"reasoning"`
	// OutputPerS counts output by the times of its events; prompt tokens arrive
	// with the first token of the answer; reasoning is a part of output.
	PromptPerS    *float64 `json:"prompt_per_s"`
	OutputPerS    *float64 `json:"output_per_s"`
	TotalPerS     *float64 `json:"total_per_s"`
	ReasoningPerS *float64 `json:"reasoning_per_s"`
	// EstimatedShare is the share of OutputPerS that comes from events whose
	// token count nobody reported (cut requests above all) and that were taken
	// to carry as many tokens as the run's other events do.
	EstimatedShare *float64 `json:"estimated_share"`
	// Source counts the ok requests by who counted their output.
	Source Source `json:"source"`
	// TPOTBasis counts the ok requests with a tpot by what it was divided by.
	TPOTBasis Basis `json:"tpot_basis"`
}

// Source counts requests by token source.
type Source struct {
	Server    int64 `json:"server"`
	Tokenizer int64 `json:"tokenizer"`
	None      int64 `json:"none"`
}

// Basis counts requests by the basis of their tpot.
type Basis struct {
	FirstEvent int64 `json:"first_event"`
	NMinus1    int64 `json:"n_minus_1"`
}

// Latency has the latencies in ms of the ok requests scheduled in the window.
// Percentiles are exact; those of ITL and EventGap are over tokens and gaps of
// all requests, within 0.4 %.
type Latency struct {
	TTFT             *Dist `json:"ttft"`
	TTFTFromSchedule *Dist `json:"ttft_from_schedule"`
	TTFC             *Dist `json:"ttfc"`
	TTLT             *Dist `json:"ttlt"`
	E2E              *Dist `json:"e2e"`
	E2EFromSchedule  *Dist `json:"e2e_from_schedule"`
	TPOT             *Dist `json:"tpot"`
	ITL              *Dist `json:"itl"`
	EventGap         *Dist `json:"event_gap"`
	Connect          *Dist `json:"connect"`
	Upload           *Dist `json:"upload"`
	Retrieval        *Dist `json:"retrieval"`
}

// RatesPart has the rates in tokens per second that single requests saw.
type RatesPart struct {
	PromptRate *Dist `json:"prompt_rate"`
	TokenRate  *Dist `json:"token_rate"`
}

// SLO says how the service levels were met.
type SLO struct {
	// Met is true when every limit that was measured is met in every step, nil when
	// none was measured.
	Met *bool `json:"met"`
	// GoodputRPS is the rate of good requests, Attainment their share of all
	// that were scheduled; nil when no limit was measured.
	GoodputRPS *float64 `json:"goodput_rps"`
	Attainment *float64 `json:"attainment"`
	Limits     []Limit  `json:"limits"`
	// Own says that the limits came with the workload, and not from the run.
	Own bool `json:"own,omitempty"`
}

// Limit is one service level and what was measured. Value is in ms. Met is nil when
// there was nothing to measure: no request that the limit is about, or ok ones, none
// of which can have the figure. Value is nil then, and also when it is infinite
// (failed and incomplete requests count as such) and the limit missed. With several
// steps it is that of the worst.
type Limit struct {
	Metric       string   `json:"metric"`
	Stat         string   `json:"stat"`
	Limit        float64  `json:"limit"`
	Value        *float64 `json:"value"`
	Met          *bool    `json:"met"`
	FromSchedule bool     `json:"from_schedule"`
	// Of a workload's own limits: Workload is its name where limits of several stand
	// together, Turn is first or later where it holds for those turns alone, and
	// WithRetrieval says that ttft is counted from the beginning of the retrieval.
	Workload      string `json:"workload,omitempty"`
	Turn          string `json:"turn,omitempty"`
	WithRetrieval bool   `json:"with_retrieval,omitempty"`
}

// ClientPart says how the measuring client itself did.
type ClientPart struct {
	SendLag *Dist `json:"send_lag_ms"`
	// ReadLag is over the mean read lags of requests, ReadLagMax the largest of
	// any read.
	ReadLag    *Dist    `json:"read_lag_ms"`
	ReadLagMax *float64 `json:"read_lag_max_ms"`
	// Timestamps is kernel or user, nil when nothing was received.
	Timestamps        *string  `json:"timestamps"`
	BoundedEventShare *float64 `json:"bounded_event_share"`
	CanaryLag         *Dist    `json:"canary_lag_ms"`
	CPUShare          *float64 `json:"cpu_share"`
	GCPause           *Dist    `json:"gc_pause_ms"`
	OpenConnections   *int64   `json:"open_connections"`
	// DroppedRecords and DroppedSamples count what a full queue lost.
	DroppedRecords int64 `json:"dropped_records"`
	DroppedSamples int64 `json:"dropped_samples"`
}

// Group has the figures of one workload.
type Group struct {
	Load     GroupLoad `json:"load"`
	Requests Requests  `json:"requests"`
	Tokens   Tokens    `json:"tokens"`
	Latency  Latency   `json:"latency_ms"`
	Rates    RatesPart `json:"rates"`
	// SLO judges the limits that come with the workload, those of the run where it
	// has none.
	SLO *SLO `json:"slo"`
}

// Step has the figures of one level of load.
type Step struct {
	// Users or Rate is what was asked for, the other nil, or both of workloads with the
	// one beside workloads with the other.
	Users *int     `json:"users"`
	Rate  *float64 `json:"rate"`
	// StartS is when its steady window began in seconds of the run, WindowS its
	// length, Complete whether it lasted as long as asked.
	StartS   float64   `json:"start_s"`
	WindowS  float64   `json:"window_s"`
	Complete bool      `json:"complete"`
	Load     LoadPart  `json:"load"`
	Requests Requests  `json:"requests"`
	Tokens   Tokens    `json:"tokens"`
	Latency  Latency   `json:"latency_ms"`
	Rates    RatesPart `json:"rates"`
	SLO      *SLO      `json:"slo"`
	// Server is Server of the summary for this level; absent without telemetry.
	Server map[string]*Dist `json:"server,omitempty"`
}

// Energy is the electrical energy that the accelerators used in the steady window,
// all that were read, whether they served or not.
type Energy struct {
	// Joules is the energy of the window, MeanW the mean power. Source is counter
	// where devices count their energy, power where it had to be made of readings of
	// power. Devices is their number.
	Joules  *float64 `json:"joules"`
	MeanW   *float64 `json:"mean_w"`
	Source  string   `json:"source"`
	Devices int64    `json:"devices"`
	// Per ok request that ended, and per output token that arrived, in the window.
	JPerRequest     *float64 `json:"j_per_request"`
	JPerOutputToken *float64 `json:"j_per_output_token"`
	// IdleW is the power before the first request; the figures below leave as much
	// out for the whole window. nil when it was not read then.
	IdleW                    *float64 `json:"idle_w"`
	AboveIdleJoules          *float64 `json:"above_idle_joules"`
	AboveIdleJPerRequest     *float64 `json:"above_idle_j_per_request"`
	AboveIdleJPerOutputToken *float64 `json:"above_idle_j_per_output_token"`
}

// Finding is one line of the diagnosis.
type Finding struct {
	Cause      string   `json:"cause"`
	Confidence *float64 `json:"confidence"`
	Text       string   `json:"text"`
}

// Dist is a distribution. All fields but Count are nil when Count is 0; Std is
// nil below two values. Percentiles are by nearest rank.
type Dist struct {
	Count int64    `json:"count"`
	Mean  *float64 `json:"mean"`
	Std   *float64 `json:"std"`
	Min   *float64 `json:"min"`
	P1    *float64 `json:"p1"`
	P5    *float64 `json:"p5"`
	P25   *float64 `json:"p25"`
	P50   *float64 `json:"p50"`
	P75   *float64 `json:"p75"`
	P90   *float64 `json:"p90"`
	P95   *float64 `json:"p95"`
	P99   *float64 `json:"p99"`
	P999  *float64 `json:"p999"`
	Max   *float64 `json:"max"`
	// CI95 maps the name of a percentile to its 95 % interval. An end is null
	// when no value is that extreme; a percentile is absent, and the map nil,
	// when the window has too few independent blocks of time for its requests.
	CI95 map[string]Interval `json:"ci95"`
	// Enough says per percentile whether there are enough requests for it.
	Enough map[string]bool `json:"enough"`
}

// Interval is a pair of bounds, each nil when it is not known.
type Interval [2]*float64

// Marshal returns s as the content of summary.json, indented, with a newline at
// its end. The same Summary always gives the same bytes.
func (s *Summary) Marshal() ([]byte, error) {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode summary: %w", err)
	}
	return append(plainjson.Escape(b), '\n'), nil
}

// ParseSummary reads the content of a summary.json.
func ParseSummary(b []byte) (*Summary, error) {
	s := new(Summary)
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("decode summary: %w", err)
	}
	if s.Schema != SummarySchemaName {
		return nil, fmt.Errorf("decode summary: schema is %q, want %q", s.Schema, SummarySchemaName)
	}
	return s, nil
}

// SummarySchema returns the JSON Schema of summary.json.
func SummarySchema() ([]byte, error) {
	s, err := jsonschema.For[Summary](nil)
	if err != nil {
		return nil, fmt.Errorf("derive schema of summary: %w", err)
	}
	s.Title = "The figures of a Plimsoll run"
	allowNullMaps(s)
	s.Properties["schema"].Enum = []any{SummarySchemaName}
	s.Properties["run"].Properties["verdict"].Enum = []any{Valid, ClientBound, Invalid}
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode schema of summary: %w", err)
	}
	return append(b, '\n'), nil
}

// allowNullMaps lets the maps of every Dist below s be null.
func allowNullMaps(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	for name, p := range s.Properties {
		if (name == "ci95" || name == "enough") && p.Type == "object" {
			p.Type, p.Types = "", []string{"null", "object"}
		}
		allowNullMaps(p)
	}
	allowNullMaps(s.AdditionalProperties)
	allowNullMaps(s.Items)
}
