package run

import (
	"encoding/json"
	"fmt"
	"time"

	"plimsoll/internal/plainjson"
	"plimsoll/internal/stats"
	"plimsoll/internal/telemetry"
)

// InfoSchemaName is the value of the field schema of run.json.
const InfoSchemaName = "plimsoll.run/1"

// State says how far a run has come.
type State string

// The states. A run whose process was killed stays Running; readers take what
// is there.
const (
	Running     State = "running"
	Done        State = "done"
	Interrupted State = "interrupted"
	Failed      State = "failed"
)

// Info is the content of run.json. Create fills in Schema, ID and State.
type Info struct {
	Schema string `json:"schema"`
	// ID is the name of the run's folder, Name what the user called it, as typed.
	ID   string            `json:"id"`
	Name string            `json:"name"`
	Tags map[string]string `json:"tags,omitempty"`

	State State `json:"state"`
	// Message says in a sentence why a run was interrupted or failed.
	Message string `json:"message,omitempty"`

	Version string `json:"version"`
	Host    Host   `json:"host"`
	Clocks  Clocks `json:"clocks"`
	// Target is what the check of the endpoint found, null when it was not made.
	Target json.RawMessage `json:"target"`
	Agents int             `json:"agents"`
	// ScenarioHash identifies the scenario as it was run.
	ScenarioHash string `json:"scenario_hash,omitempty"`

	Start time.Time `json:"start"`
	// End is nil until the run has ended.
	End     *time.Time    `json:"end"`
	Verdict stats.Verdict `json:"verdict,omitempty"`
	// Records counts the requests on disk, DroppedRecords those that a full
	// queue lost; both are final once the run has ended.
	Records        int64 `json:"records"`
	DroppedRecords int64 `json:"dropped_records"`
	// Samples counts the telemetry samples on disk, DroppedSamples those that a full
	// queue lost; both are final once the run has ended.
	Samples        int64 `json:"samples,omitempty"`
	DroppedSamples int64 `json:"dropped_samples,omitempty"`
	// Telemetry has one entry for each source that was read, in the order that samples
	// name them by; it is final once the run has ended.
	Telemetry []telemetry.SourceInfo `json:"telemetry,omitempty"`
	// Alignment says what the making of the timeline found out about the telemetry.
	Alignment *Alignment `json:"alignment,omitempty"`
	// Replay says which trace or data set was replayed, and how; nil for none.
	Replay *Replay `json:"replay,omitempty"`
	// Lengths says how the lengths of prompts were made right; nil when they were
	// estimated.
	Lengths *Lengths `json:"lengths,omitempty"`
	// Input is what the figures depend on beside the records. While the run is
	// under way it holds the plan.
	Input *stats.Input `json:"input"`
}

// The kinds of a Replay.
const (
	ReplayTrace   = "trace"
	ReplayDataset = "dataset"
)

// Replay is a trace or a data set, and how it was replayed. Times of the trace are
// in seconds, before Speed divides them; null is not given.
type Replay struct {
	Kind   string `json:"kind"`
	File   string `json:"file"`
	Format string `json:"format"`
	// Requests and Sessions are those of the part that was taken, LeftOut counts the
	// rows of the file that were not right or had nothing to send.
	Requests int `json:"requests"`
	Sessions int `json:"sessions"`
	LeftOut  int `json:"left_out,omitempty"`
	// SpanS is the time from the first start to the last, after Speed.
	SpanS   *float64 `json:"span_s,omitempty"`
	Timing  string   `json:"timing,omitempty"`
	Speed   float64  `json:"speed"`
	GapCapS *float64 `json:"gap_cap_s,omitempty"`
	FromS   *float64 `json:"from_s,omitempty"`
	UntilS  *float64 `json:"until_s,omitempty"`
	Spread  bool     `json:"spread,omitempty"`
	// Answers says whose answers later turns had in their history.
	Answers string `json:"answers"`
	// Text says all that in a sentence.
	Text string `json:"text"`
	// LateRequests could not start at their recorded times since what they waited for
	// had not ended. NotSent were not made since an earlier turn had failed.
	LateRequests int64    `json:"late_requests,omitempty"`
	LateMeanMS   *float64 `json:"late_mean_ms,omitempty"`
	LateMaxMS    *float64 `json:"late_max_ms,omitempty"`
	NotSent      int64    `json:"not_sent,omitempty"`
	Notices      []string `json:"notices,omitempty"`
}

// What the lengths of prompts were made right by.
const (
	LengthsTokenizer = "tokenizer" // the model's own, given by the user
	LengthsTokenize  = "tokenize"  // the server's, POST /tokenize
	LengthsUsage     = "usage"     // what the server counted of requests before the run
)

// Lengths says how prompts got their lengths.
type Lengths struct {
	By string `json:"by"`
	// Texts is the number of texts that were counted before the run, Probes that of
	// the requests for it, PromptTokens what the server computed for them.
	Texts        int   `json:"texts,omitempty"`
	Probes       int   `json:"probes,omitempty"`
	PromptTokens int64 `json:"prompt_tokens,omitempty"`
	// BytesPerToken is what was found, by generator, TemplateTokens what the server's
	// chat template adds to a prompt, which no asked length includes.
	BytesPerToken  map[string]float64 `json:"bytes_per_token,omitempty"`
	TemplateTokens float64            `json:"template_tokens,omitempty"`
	// Error is the mean of |counted - asked| / asked over the requests of the window,
	// without what the template adds; nil when nobody counted.
	Error *float64 `json:"error,omitempty"`
}

// Host is the machine that measured.
type Host struct {
	Name   string `json:"name,omitempty"`
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	CPUs   int    `json:"cpus"`
	Kernel string `json:"kernel,omitempty"`
	Go     string `json:"go"`
	PID    int    `json:"pid"`
}

// Clocks says what the times of the records mean: ns on the monotonic clock
// since Start of the run.
type Clocks struct {
	Source string `json:"source"`
	// KernelTimes says whether the platform gives kernel receive times.
	KernelTimes bool `json:"kernel_times"`
}

func (i *Info) marshal() ([]byte, error) {
	b, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode run.json: %w", err)
	}
	return append(plainjson.Escape(b), '\n'), nil
}

// Alignment says how the telemetry of a run lies on the run's clock.
type Alignment struct {
	// StepNS is the length of a cell of the timeline, Rows its number of rows.
	StepNS int64 `json:"step_ns"`
	Rows   int64 `json:"rows"`
	// Sources has one entry for each source, Signals one for each gauge.
	Sources []SourceTimes `json:"sources,omitempty"`
	Signals []SignalTimes `json:"signals,omitempty"`
	Notes   []string      `json:"notes,omitempty"`
}

// SourceTimes says how a source keeps time.
type SourceTimes struct {
	Source int    `json:"source"`
	Name   string `json:"name"`
	// Readings is how often it was read, ReadEveryNS the usual time between two.
	Readings    int64 `json:"readings"`
	ReadEveryNS int64 `json:"read_every_ns,omitempty"`
	// RenewedEveryNS is how often it renews what it states, 0 when that cannot be told.
	// With RenewedAtLeast it may be oftener than it was read.
	RenewedEveryNS int64 `json:"renewed_every_ns,omitempty"`
	RenewedAtLeast bool  `json:"renewed_at_least,omitempty"`
	// OffsetNS is how far its wall clock is ahead of the client's at the end of the
	// run, UncertaintyNS by how much that may be wrong on either side; nil when
	// nothing bounds it.
	OffsetNS      *int64 `json:"offset_ns,omitempty"`
	UncertaintyNS *int64 `json:"uncertainty_ns,omitempty"`
	ClockReadings int    `json:"clock_readings,omitempty"`
	// ClockSteps are when one of the two clocks was set.
	ClockSteps []int64 `json:"clock_steps_ns,omitempty"`
	// ClockUnsteady says that readings of its clock contradict one another again and
	// again, so that its offset is not known.
	ClockUnsteady bool `json:"clock_unsteady,omitempty"`
	// Restarts are the first readings after the server's process started anew.
	Restarts []int64 `json:"restarts_ns,omitempty"`
	// TwoServers says that counters fall again and again: servers answer in turn
	// under one name, and neither's rates can be told.
	TwoServers bool `json:"two_servers,omitempty"`
	// Gaps are stretches without a reading, the first few of GapCount.
	Gaps     []TimeSpan `json:"gaps,omitempty"`
	GapCount int64      `json:"gap_count,omitempty"`
}

// TimeSpan is a stretch of time on the run's clock.
type TimeSpan struct {
	FromNS int64 `json:"from_ns"`
	ToNS   int64 `json:"to_ns"`
}

// SignalTimes says how often one gauge is renewed. One that never
// changes may stand still: a gauge that is written only while an engine works, or
// one that its server declares and never sets.
type SignalTimes struct {
	Source   int    `json:"source"`
	Signal   string `json:"signal"`
	Labels   string `json:"labels,omitempty"`
	Readings int64  `json:"readings"`
	Changes  int64  `json:"changes"`
	// RenewedEveryNS and RenewedAtLeast are as those of the source.
	RenewedEveryNS int64 `json:"renewed_every_ns,omitempty"`
	RenewedAtLeast bool  `json:"renewed_at_least,omitempty"`
}
