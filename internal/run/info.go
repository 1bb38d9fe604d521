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
	// Input is what the figures depend on beside the records. While the run is
	// under way it holds the plan.
	Input *stats.Input `json:"input"`
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
