package stats

import (
	"time"

	"plimsoll/internal/histogram"
	"plimsoll/internal/scenario"
)

// Input is all that a summary depends on beside the records. It is kept in
// run.json, so that the same summary can be made again from the records on
// disk. Times are ns on the run's clock.
type Input struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Started time.Time `json:"started"`
	// Duration is the length of the whole run, drain included; 0 when unknown.
	Duration int64 `json:"duration"`
	// Steps are the levels of load in order of time; there is at least one.
	Steps []StepInput `json:"steps"`
	// RateDriven says that requests, or some of them, had a schedule of their own (an
	// open loop): then ttft and e2e in a service level mean the figures from the schedule.
	RateDriven bool `json:"rate_driven"`
	// MaxInFlight is the cap in flight that the user asked for, 0 for none.
	MaxInFlight int              `json:"max_in_flight"`
	Limits      []scenario.Limit `json:"limits"`
	// Workloads are the limits that come with workloads, by name. They are judged for
	// the requests of each; WorkloadsCount makes them limits of the run too.
	Workloads      map[string]WorkloadLimits `json:"workloads,omitempty"`
	WorkloadsCount bool                      `json:"workloads_count,omitempty"`
	// Named are the workloads that the run was asked to have: one of which no request
	// came is in the summary, too.
	Named  []string    `json:"named,omitempty"`
	Client ClientInput `json:"client"`
	// Server is what the servers counted, nil when none was read.
	Server *ServerInput `json:"server,omitempty"`
	// IntendedReuse is the share of prompt tokens that the workload means to come
	// from a prefix cache, 0 to 1; nil when nobody knows.
	IntendedReuse *float64 `json:"intended_reuse,omitempty"`
	// TPOTFloorMS is the time in ms that one GPU needs to read its part of the
	// declared model's active weights; nil when nothing is declared.
	TPOTFloorMS *float64 `json:"tpot_floor_ms,omitempty"`
	// Virtual says that no client measured: the requests were simulated, and
	// nothing is known of a client.
	Virtual bool `json:"virtual,omitempty"`
}

// WorkloadLimits are the service levels of one workload.
type WorkloadLimits struct {
	// All hold for every request, First for those of a session's first turn, Later
	// for those of the others.
	All   []scenario.Limit `json:"all,omitempty"`
	First []scenario.Limit `json:"first,omitempty"`
	Later []scenario.Limit `json:"later,omitempty"`
	// WithRetrieval makes ttft count from the beginning of the retrieval.
	WithRetrieval bool `json:"with_retrieval,omitempty"`
}

// StepInput is one level of load.
type StepInput struct {
	// Users is the number of users of a closed loop, Rate the requests per
	// second of an open one; the other is 0 unless there are both side by side.
	Users int     `json:"users"`
	Rate  float64 `json:"rate"`
	// Start and End bound the steady window; End is outside.
	Start int64 `json:"start"`
	End   int64 `json:"end"`
	// Asked is how long the window was to be, 0 where no time was asked for.
	Asked int64 `json:"asked,omitempty"`
	// Complete says whether the window lasted as long as asked.
	Complete bool `json:"complete"`
}

// ClientInput is what the client knows of itself. Nil means not measured.
type ClientInput struct {
	// CanaryLag has the lags of the canary in ns, GCPause the pauses of the
	// garbage collector, both over the run.
	CanaryLag *histogram.Histogram `json:"canary_lag"`
	GCPause   *histogram.Histogram `json:"gc_pause"`
	// CPUShare is the CPU time used over the time of all cores, 0 to 1.
	CPUShare *float64 `json:"cpu_share"`
	// OpenConnections is the largest number of connections open at once.
	OpenConnections *int64 `json:"open_connections"`
	// DroppedRecords and DroppedSamples count what a full queue lost.
	DroppedRecords int64 `json:"dropped_records"`
	DroppedSamples int64 `json:"dropped_samples"`
}

// Cut ends the run at time end: steps that begin later are taken out, the one
// under way is cut and marked incomplete. It is for runs that were killed, of
// which only the plan and the records are left.
func (in *Input) Cut(end int64) {
	for i := range in.Steps {
		s := &in.Steps[i]
		if i > 0 && s.Start >= end {
			in.Steps = in.Steps[:i]
			break
		}
		if s.End > end {
			s.End, s.Complete = max(end, s.Start), false
		}
	}
	if in.Duration == 0 || in.Duration > end {
		in.Duration = end
	}
}
