// Package scenario is the file that says what to run: its types, defaults,
// strict reading with every error at its line and column, its JSON Schema and
// its hash. It decides nothing about how a run is done, never touches the
// network, and never keeps the value of a secret in what it writes.
package scenario

import (
	"slices"
	"time"

	"plimsoll/internal/strictyaml"
)

// Scenario is one run as it was asked for. Every field has the name of its
// command-line flag.
type Scenario struct {
	Name string            `yaml:"name,omitempty"`
	Tags map[string]string `yaml:"tag,omitempty"`
	// Seed fixes prompts, lengths and arrivals. Read draws one, from 1 on, when
	// none is given, so that two runs never send the same prompts by accident;
	// 0 means that none has been drawn yet.
	Seed   uint64 `yaml:"seed,omitempty"`
	Target Target `yaml:"target"`
	Users  Users  `yaml:"users"`
	Load   Load   `yaml:"load"`
	Guards Guards `yaml:"guards"`
	Data   Data   `yaml:"data"`

	origin origins
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
	Usage string `yaml:"usage"`
	// Tokenizer is the file of the model's tokenizer, perhaps with an encoding
	// before it, as in kimi:tiktoken.model; empty when there is none.
	Tokenizer string `yaml:"tokenizer,omitempty"`
	CA        string `yaml:"ca,omitempty"`
	Cert      string `yaml:"cert,omitempty"`
	Key       string `yaml:"key,omitempty"`
	Insecure  bool   `yaml:"insecure,omitempty"`
	// Hardware is what one replica runs on, as 2xh100 or h100,fp8; empty when
	// nobody said.
	Hardware Hardware `yaml:"hardware,omitempty"`
	Proxy    string   `yaml:"proxy,omitempty"`
	// The time limits of one request: until a connection is ready; from the
	// last byte sent to the response header; of silence between bytes of the
	// body; of all of it. 0 is no limit, except that a connection always has
	// one.
	ConnectTimeout   time.Duration `yaml:"connect-timeout"`
	HeaderTimeout    time.Duration `yaml:"header-timeout"`
	IdleTimeout      time.Duration `yaml:"idle-timeout"`
	Timeout          time.Duration `yaml:"timeout"`
	NewConnection    bool          `yaml:"new-connection,omitempty"`
	ResetPrefixCache bool          `yaml:"reset-prefix-cache,omitempty"`
}

// Users says who the users are.
type Users struct {
	// Workload are the workloads of the run and their weights, by name or by file;
	// none means the synthetic one made of PromptTokens and OutputTokens (Read makes
	// none of that name alone).
	Workload []Share `yaml:"workload,omitempty"`
	// Of a replay the first is empty, and so is the second unless it was given.
	PromptTokens Dist `yaml:"prompt-tokens,omitempty"`
	OutputTokens Dist `yaml:"output-tokens,omitempty"`
	// Lengths is LengthsExact when prompts are to have exactly the asked lengths
	// though there is no tokenizer; empty is LengthsEstimated.
	Lengths string `yaml:"lengths,omitempty"`
	Replay  `yaml:",inline"`
}

// Load says how much load is applied and for how long. Exactly one of Users,
// Rate, Stages, Steps and Workloads is not empty; several users or rates are run one step
// after another, all stages are one step.
type Load struct {
	Users []int     `yaml:"users,omitempty"`
	Rate  []float64 `yaml:"rate,omitempty"` // requests per second
	// Arrival is how a rate arrives, constant, poisson or gamma; empty with users.
	Arrival string `yaml:"arrival,omitempty"`
	// Burstiness is the shape of the distribution of gamma's gaps: 1 is poisson,
	// less is burstier; 0 with the others.
	Burstiness float64 `yaml:"burstiness,omitempty"`
	// Shape is how the rate goes over the window, as multiples of it.
	Shape Shape `yaml:"shape,omitempty"`
	// Stages have rates and lengths of their own, instead of Rate and Duration.
	Stages []Stage `yaml:"stages,omitempty"`
	// Duration is the length of the steady window of each step, Requests the
	// number of requests of it; exactly one of the two is not 0.
	Duration time.Duration `yaml:"duration,omitempty"`
	Requests int           `yaml:"requests,omitempty"`
	Warmup   time.Duration `yaml:"warmup,omitempty"`
	// Drain is how long to wait after the window for its requests to end; those
	// that have not are incomplete. 0 waits for none.
	Drain time.Duration `yaml:"drain"`
	// MaxInFlight 0 is no cap.
	MaxInFlight int `yaml:"max-in-flight,omitempty"`
	// Steps are levels of load that differ in more than their users or rates.
	Steps []LoadStep `yaml:"steps,omitempty"`
	// Workloads are the workloads of the run, each with users or a rate of its own, also
	// some with the one beside some with the other, side by side in one step. Read makes
	// users.workload of them.
	Workloads []LoadPart `yaml:"workloads,omitempty"`
}

// LoadPart is a workload with users or a rate of its own. What it does not say of how
// the rate arrives is that of the load.
type LoadPart struct {
	Workload   string  `yaml:"workload"`
	Users      int     `yaml:"users,omitempty"`
	Rate       float64 `yaml:"rate,omitempty"`
	Arrival    string  `yaml:"arrival,omitempty"`
	Burstiness float64 `yaml:"burstiness,omitempty"`
	Shape      Shape   `yaml:"shape,omitempty"`
}

// Arrivals returns how the rate of a workload of l arrives and goes.
func (w *LoadPart) Arrivals(l *Load) (arrival string, burstiness float64, shape Shape) {
	arrival, burstiness, shape = w.Arrival, w.Burstiness, w.Shape
	if arrival == "" {
		if arrival = l.Arrival; burstiness == 0 {
			burstiness = l.Burstiness
		}
	}
	if shape == (Shape{}) {
		shape = l.Shape
	}
	return arrival, burstiness, shape
}

// LoadStep is one of the steps of a load, with users or a rate of its own. What
// it does not say of its length and its warm-up is that of the load.
type LoadStep struct {
	Users    int           `yaml:"users,omitempty"`
	Rate     float64       `yaml:"rate,omitempty"`
	Duration time.Duration `yaml:"duration,omitempty"`
	Requests int           `yaml:"requests,omitempty"`
	Warmup   time.Duration `yaml:"warmup,omitempty"`
	// Set are fields of the workload, by path, that are something else in this
	// step, as the rungs of a workload have them.
	Set map[string]string `yaml:"set,omitempty"`
	// Parts, when there are any, are who the users or sessions of the step are,
	// instead of users.workload.
	Parts []StepPart `yaml:"parts,omitempty"`
}

// StepPart is a part of the users or sessions of a step. They are dealt out in
// turn: of as many as the weights come to, each part has as many as its own.
type StepPart struct {
	// Workload is a name of the library, or a file; the one of users.workload when
	// it is not said.
	Workload string `yaml:"workload,omitempty"`
	// Weight is 1 when it is not said.
	Weight int `yaml:"weight,omitempty"`
	// Set are fields of the workload, over those that the step sets.
	Set map[string]string `yaml:"set,omitempty"`
}

// Sessions says whether users go through sessions, so that a rate is one of sessions,
// each of as many requests as it has.
func (s *Scenario) Sessions() bool { return len(s.Users.Workload) > 0 || s.Users.Dataset != "" }

// RateDriven says whether requests have a schedule of their own, whatever the
// answers do, or some of them: a rate or that of a trace.
func (s *Scenario) RateDriven() bool { return s.Users.Trace != "" || s.Load.RateDriven() }

// RateDriven says whether requests, or some of them, come at a rate, whatever the
// answers do.
func (l *Load) RateDriven() bool {
	return len(l.Rate) > 0 || len(l.Stages) > 0 || len(l.Steps) > 0 && l.Steps[0].Rate > 0 ||
		slices.ContainsFunc(l.Workloads, func(w LoadPart) bool { return w.Rate > 0 })
}

// Guards say when a run is stopped and what is expected of it.
type Guards struct {
	// SLO are the limits that decide about the run.
	SLO []Limit `yaml:"slo,omitempty"`
	// MaxErrorShare is of the last 100 requests, above 0 and at most 1.
	MaxErrorShare float64 `yaml:"max-error-share"`
	// MaxTotalTokens counts prompt and output tokens; 0 is no limit.
	MaxTotalTokens int64 `yaml:"max-total-tokens,omitempty"`
}

// Limits are the limits of SLO that have a value, and whether those of the workloads
// count too.
func (g *Guards) Limits() (own []Limit, workloads bool) {
	for _, l := range g.SLO {
		if l.Metric == OfWorkloads {
			workloads = true
			continue
		}
		own = append(own, l)
	}
	return own, workloads
}

// Data says where the run is kept and what is read beside it.
type Data struct {
	Out      string `yaml:"out"`
	SaveText bool   `yaml:"save-text,omitempty"`
	// Telemetry is where the servers say something about themselves: nothing but
	// None, or pages, of which one may be Auto.
	Telemetry []Page `yaml:"telemetry"`
	// TelemetryInterval is the time from one reading of a page to the next.
	TelemetryInterval time.Duration `yaml:"telemetry-interval,omitempty"`
	// TelemetryTables are files that say what the names on further pages mean.
	TelemetryTables []string `yaml:"telemetry-tables,omitempty"`
}

// Page is one telemetry endpoint and how to reach it. In a file it may be its
// URL alone.
type Page struct {
	// URL is the page, or the base of a Prometheus; Auto or None alone.
	URL string `yaml:"url,short"`
	// Kind is PageExposition when empty.
	Kind string `yaml:"kind,omitempty"`
	// Match are labels that a Prometheus' series must have.
	Match map[string]string `yaml:"match,omitempty"`
	// APIKeyEnv names the variable with the key that is sent as a bearer token.
	APIKeyEnv string            `yaml:"api-key-env,omitempty"`
	Header    map[string]string `yaml:"header,omitempty"`
	CA        string            `yaml:"ca,omitempty"`
	Cert      string            `yaml:"cert,omitempty"`
	Key       string            `yaml:"key,omitempty"`
	Insecure  bool              `yaml:"insecure,omitempty"`
}

// TelemetryOff says whether nothing is to be read.
func (d *Data) TelemetryOff() bool {
	return len(d.Telemetry) == 0 || d.Telemetry[0].URL == None
}

// The values that some fields choose from.
const (
	APIChat        = "openai.chat"
	APICompletions = "openai.completions"
	APIResponses   = "openai.responses"

	ArrivalConstant = "constant"
	ArrivalPoisson  = "poisson"
	ArrivalGamma    = "gamma"

	UsageFinal   = "final"
	UsageRunning = "running"
	UsageNone    = "none"

	// Auto and None stand for the URLs of telemetry pages.
	Auto = "auto"
	None = "none"

	PageExposition = "page"
	PagePrometheus = "prometheus"

	// Synthetic is the name of the workload that PromptTokens and OutputTokens
	// make.
	Synthetic = "synthetic"
)

// Arrivals are the processes by which a rate may arrive.
var Arrivals = []string{ArrivalConstant, ArrivalPoisson, ArrivalGamma}

// DefaultDuration is the steady window of a step when neither a duration nor a
// number of requests is given.
const DefaultDuration = time.Minute

// The bounds of the burstiness of gamma arrivals, those of package pace.
const (
	MinBurstiness = 0.01
	MaxBurstiness = 1000
)

// The bounds of the time from one reading of telemetry to the next.
const (
	MinTelemetryInterval = 100 * time.Millisecond
	MaxTelemetryInterval = time.Minute
)

// Default returns a scenario with every default filled in. It is not complete:
// it has no URL and no load. The time-outs bound every wait without cutting an
// answer that is still arriving: a queue in an overloaded server may hold a
// request for minutes, but a body that has begun is not silent for two.
func Default() *Scenario {
	return &Scenario{
		Target: Target{
			API:            APIChat,
			Usage:          UsageFinal,
			ConnectTimeout: 10 * time.Second,
			HeaderTimeout:  10 * time.Minute,
			IdleTimeout:    2 * time.Minute,
			// A server that sends comments for ever never falls silent: without
			// this a number of requests might never be done.
			Timeout: time.Hour,
		},
		Users: Users{
			PromptTokens: Dist{Kind: Fixed, A: 512},
			OutputTokens: Dist{Kind: Fixed, A: 128},
		},
		Load:   Load{Drain: time.Minute},
		Guards: Guards{MaxErrorShare: 0.5},
		Data:   Data{Out: "runs", Telemetry: []Page{{URL: Auto}}, TelemetryInterval: time.Second},
	}
}

// origins remembers where the values of a scenario came from.
type origins struct {
	doc *strictyaml.Document
	// derived holds the fields that Read filled in because of others, with the
	// reason.
	derived map[string]string
	// raw holds the text of fields that name environment variables.
	raw map[string]string
}
