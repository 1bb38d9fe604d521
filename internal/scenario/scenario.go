// Package scenario is the file that says what to run: its types, defaults,
// strict reading with every error at its line and column, its JSON Schema and
// its hash. It decides nothing about how a run is done and never touches the
// network.
package scenario

import "time"

// Scenario is one run as it was asked for. Every field has the name of its
// command-line flag.
type Scenario struct {
	Name   string            `yaml:"name,omitempty"`
	Tags   map[string]string `yaml:"tag,omitempty"`
	Seed   uint64            `yaml:"seed"`
	Target Target            `yaml:"target"`
	Users  Users             `yaml:"users"`
	Load   Load              `yaml:"load"`
	Guards Guards            `yaml:"guards"`
	Data   Data              `yaml:"data"`
}

// Target says where requests go and how they are shaped.
type Target struct {
	// URL is one or more endpoints, used in turn.
	URL       []string          `yaml:"url"`
	Model     string            `yaml:"model,omitempty"`
	API       string            `yaml:"api"`
	APIKeyEnv string            `yaml:"api-key-env,omitempty"`
	Header    map[string]string `yaml:"header,omitempty"`
	ExtraBody map[string]any    `yaml:"extra-body,omitempty"`
	NoStream  bool              `yaml:"no-stream,omitempty"`
	// Temperature nil leaves it to the server.
	Temperature *float64 `yaml:"temperature,omitempty"`
	IgnoreEOS   bool     `yaml:"ignore-eos,omitempty"`
	// Usage asks for usage in the stream: final, running or none.
	Usage            string        `yaml:"usage"`
	Tokenizer        string        `yaml:"tokenizer,omitempty"`
	CA               string        `yaml:"ca,omitempty"`
	Cert             string        `yaml:"cert,omitempty"`
	Key              string        `yaml:"key,omitempty"`
	Insecure         bool          `yaml:"insecure,omitempty"`
	Proxy            string        `yaml:"proxy,omitempty"`
	ConnectTimeout   time.Duration `yaml:"connect-timeout"`
	HeaderTimeout    time.Duration `yaml:"header-timeout,omitempty"`
	IdleTimeout      time.Duration `yaml:"idle-timeout,omitempty"`
	Timeout          time.Duration `yaml:"timeout,omitempty"`
	NewConnection    bool          `yaml:"new-connection,omitempty"`
	ResetPrefixCache bool          `yaml:"reset-prefix-cache,omitempty"`
}

// Users says who the users are.
type Users struct {
	// Workload is the name of a built-in workload; empty means the synthetic
	// one made of PromptTokens and OutputTokens.
	Workload     string `yaml:"workload,omitempty"`
	PromptTokens Dist   `yaml:"prompt-tokens"`
	OutputTokens Dist   `yaml:"output-tokens"`
}

// Load says how much load is applied and for how long. Exactly one of Users
// and Rate is not empty; several values are run one step after another.
type Load struct {
	Users      []int     `yaml:"users,omitempty"`
	Rate       []float64 `yaml:"rate,omitempty"` // requests per second
	Arrival    string    `yaml:"arrival,omitempty"`
	Burstiness float64   `yaml:"burstiness,omitempty"`
	// Duration is the length of the steady window of each step, Requests the
	// number of requests of it; one of the two bounds a step.
	Duration    time.Duration `yaml:"duration,omitempty"`
	Requests    int           `yaml:"requests,omitempty"`
	Warmup      time.Duration `yaml:"warmup,omitempty"`
	Drain       time.Duration `yaml:"drain"`
	MaxInFlight int           `yaml:"max-in-flight,omitempty"`
}

// Guards say when a run is stopped and what is expected of it.
type Guards struct {
	SLO            []Limit `yaml:"slo,omitempty"`
	MaxErrorShare  float64 `yaml:"max-error-share"`
	MaxTotalTokens int64   `yaml:"max-total-tokens,omitempty"`
}

// Data says where the run is kept.
type Data struct {
	Out      string `yaml:"out"`
	SaveText bool   `yaml:"save-text,omitempty"`
	// Telemetry is auto, none, or URLs.
	Telemetry []string `yaml:"telemetry,omitempty"`
}

// Limit is one service level: a statistic of a metric must be at most Value.
// Its text form is ttft.p95=500ms.
type Limit struct {
	Metric string // ttft, ttfc, ttlt, e2e, tpot, itl
	Stat   string // mean, p50 .. p999, max
	Value  time.Duration
}

// Dist is a distribution of token counts. Its text forms are 512,
// uniform:100..900, normal:512,64, lognormal:p50=400,p99=4000.
type Dist struct {
	Kind string // fixed, uniform, normal, lognormal
	// A and B are the value; low and high; mean and deviation; median and 99th
	// percentile.
	A, B float64
	// Min and Max clip what is drawn; 0 means no clip (at least 1 always).
	Min, Max float64
}
