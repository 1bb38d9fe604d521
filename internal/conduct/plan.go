package conduct

import (
	"fmt"
	"math"

	"plimsoll/internal/dialect"
	"plimsoll/internal/load"
	"plimsoll/internal/pace"
	"plimsoll/internal/run"
	"plimsoll/internal/scenario"
	"plimsoll/internal/stats"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/workload"
)

// Plan is what a scenario would do, worked out without sending anything.
// Numbers that depend on how fast the answers come are nil.
type Plan struct {
	Schema string `json:"schema"` // plimsoll.plan/1
	Hash   string `json:"hash"`
	// Fields are all fields of the scenario with where their values come from.
	Fields []PlanField `json:"fields"`
	// Endpoints are the URLs that requests would go to, without queries.
	Endpoints []string `json:"endpoints"`
	// Searches are the URLs that workloads ask before their turns, likewise.
	Searches []string   `json:"searches,omitempty"`
	Steps    []PlanStep `json:"steps"`
	// Replay is the trace or data set that is replayed, nil for none.
	Replay *run.Replay `json:"replay,omitempty"`
	// Lengths says what is sent before the run to make the lengths of prompts exact;
	// nil for nothing.
	Lengths *PlanLengths `json:"lengths,omitempty"`
	// Requests counts all requests, warm-up included. Tokens and bytes are those
	// of as many requests of average length; nil with workloads of sessions, of which
	// the means below are those of first requests.
	Requests     *int64 `json:"requests"`
	PromptTokens *int64 `json:"prompt_tokens"`
	OutputTokens *int64 `json:"output_tokens"`
	SentBytes    *int64 `json:"sent_bytes"`
	// MeanPrompt and MeanOutput are tokens, MeanBody is bytes of one request,
	// from a sample of the requests that the seed makes.
	MeanPrompt float64 `json:"mean_prompt_tokens"`
	MeanOutput float64 `json:"mean_output_tokens"`
	MeanBody   float64 `json:"mean_body_bytes"`
	// DurationS is the length without drains, DrainS what all drains may add.
	DurationS *float64 `json:"duration_s"`
	DrainS    float64  `json:"drain_s"`
	// MaxTotalTokens is the guard, 0 for none.
	MaxTotalTokens int64 `json:"max_total_tokens"`
	// Telemetry are the pages that the user named, which are read every
	// TelemetryEveryS seconds; so are those found at the URLs of TelemetrySearch and, on
	// this machine and in private networks, of TelemetryHost, each of which is asked once.
	Telemetry       []string `json:"telemetry"`
	TelemetrySearch []string `json:"telemetry_search"`
	TelemetryHost   []string `json:"telemetry_host"`
	TelemetryEveryS float64  `json:"telemetry_every_s"`
}

// PlanLengths are the questions about lengths: Texts texts of at most so many tokens
// in all, to Tokenize where that is answered, else as requests for one token each.
type PlanLengths struct {
	Generators []string `json:"generators"`
	Texts      int      `json:"texts"`
	Tokens     int      `json:"tokens"`
	Tokenize   string   `json:"tokenize"`
}

// PlanField is one field of the scenario.
type PlanField struct {
	Path   string `json:"path"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// PlanStep is one level of load: of users, of a rate, or of both side by side.
type PlanStep struct {
	Users   int     `json:"users,omitempty"`
	Rate    float64 `json:"rate,omitempty"`
	Arrival string  `json:"arrival,omitempty"`
	// Sessions says that Rate is one of sessions, each of as many requests as it has.
	Sessions bool `json:"sessions,omitempty"`
	// Trace says that the times are those of a trace, of which Rate is the mean.
	Trace bool `json:"trace,omitempty"`
	// Burstiness is that of gamma arrivals, Shape how the rate goes, as the scenario
	// has it; of stages, whose mean is Rate, the stages.
	Burstiness float64  `json:"burstiness,omitempty"`
	Shape      string   `json:"shape,omitempty"`
	WarmupS    float64  `json:"warmup_s"`
	DurationS  *float64 `json:"duration_s"`
	Requests   *int64   `json:"requests"`
	// Workloads are what users and rate are of, where each workload has its own.
	Workloads []PlanPart `json:"workloads,omitempty"`
}

// PlanPart is a workload with users or a rate of its own.
type PlanPart struct {
	Workload   string  `json:"workload"`
	Users      int     `json:"users,omitempty"`
	Rate       float64 `json:"rate,omitempty"`
	Arrival    string  `json:"arrival,omitempty"`
	Burstiness float64 `json:"burstiness,omitempty"`
	Shape      string  `json:"shape,omitempty"`
}

// sampled is how many requests the averages of a plan are of.
const (
	sampledLengths = 2000
	sampledBodies  = 40
)

// NewPlan works out what a scenario would do. ReadFile reads the files that it names,
// dir is the Dir of Config.
func NewPlan(s *scenario.Scenario, readFile func(string) ([]byte, error), dir string) (*Plan, error) {
	p := &Plan{Schema: "plimsoll.plan/1", Hash: s.Hash(), MaxTotalTokens: s.Guards.MaxTotalTokens}
	for _, f := range s.Plan() {
		p.Fields = append(p.Fields, PlanField{Path: f.Path, Value: f.Text, Origin: f.Origin})
	}
	var err error
	if p.Endpoints, err = endpoints(s); err != nil {
		return nil, err
	}
	for i, u := range p.Endpoints {
		p.Endpoints[i] = shown(u)
	}
	if _, err := checkHardware(s); err != nil {
		return nil, err
	}
	if err := p.telemetry(s); err != nil {
		return nil, err
	}
	counter, err := loadTokenizer(&s.Target, readFile)
	if err != nil {
		return nil, err
	}
	src := &sources{readFile: readFile, dir: dir}
	defer src.close()
	users, err := newCrowd(s, src, counter)
	if err != nil {
		return nil, err
	}
	if err := load.Refuse(users.Population); err != nil {
		return nil, err
	}
	if err := serviceLevels(new(stats.Input), s, src); err != nil {
		return nil, err
	}
	for _, u := range src.searches {
		p.Searches = append(p.Searches, shown(u))
	}
	p.Replay = users.planned()
	if s.Users.Lengths == scenario.LengthsExact && s.Target.Tokenizer == "" {
		root, err := Base(s.Target.URL[0])
		if err != nil {
			return nil, fmt.Errorf("target.url: %w", err)
		}
		l := &PlanLengths{Generators: users.generators(), Tokenize: root + "/tokenize"}
		l.Texts = len(l.Generators) * len(calibrationTokens)
		for _, n := range calibrationTokens {
			l.Tokens += n * len(l.Generators)
		}
		p.Lengths = l
	}
	if err := p.sample(s, users); err != nil {
		return nil, err
	}
	total, known := 0.0, true
	length, bounded := 0.0, true
	for _, st := range users.steps(s) {
		ps := PlanStep{Users: st.Users, Rate: st.Rate, Arrival: pace.Names(st.Arrival, st.Streams), Burstiness: st.Burstiness, Shape: s.Load.Shape.String(), WarmupS: st.Warmup.Seconds(), Trace: st.Times != nil, Sessions: st.Rate > 0 && s.Sessions()}
		if len(s.Load.Stages) > 0 {
			ps.Shape = stagesText(s.Load.Stages)
		}
		if len(st.Streams) > 0 {
			ps.Shape = "" // each has its own
		}
		for _, w := range s.Load.Workloads {
			one := PlanPart{Workload: w.Workload, Users: w.Users, Rate: w.Rate}
			if w.Rate > 0 {
				var how scenario.Shape
				one.Arrival, one.Burstiness, how = w.Arrivals(&s.Load)
				one.Shape = how.String()
			}
			ps.Workloads = append(ps.Workloads, one)
		}
		if st.Duration > 0 || st.Users == 0 {
			length := window(&st).Seconds()
			ps.DurationS = &length
		}
		switch {
		case st.Rate > 0 && st.Requests == 0 && s.Sessions():
			// So many sessions; of how many requests each nobody has counted.
		case st.Rate > 0 && st.Users == 0:
			n := requests(&st)
			ps.Requests = &n
		case st.Requests > 0 && st.Warmup == 0:
			n := int64(st.Requests)
			ps.Requests = &n
		}
		if ps.Requests == nil {
			known = false
		} else {
			total += float64(*ps.Requests)
		}
		if ps.DurationS == nil {
			bounded = false
		} else {
			length += ps.WarmupS + *ps.DurationS
		}
		p.DrainS += st.Drain.Seconds()
		p.Steps = append(p.Steps, ps)
	}
	if bounded {
		p.DurationS = &length
	}
	if known {
		n := int64(total)
		p.Requests = &n
	}
	if known && users.replay != nil && s.Users.Trace != "" {
		p.traced(users.replay)
	} else if known && !s.Sessions() { // the first requests of sessions are no average
		prompt, output, sent := int64(math.Round(total*p.MeanPrompt)), int64(math.Round(total*p.MeanOutput)), int64(math.Round(total*p.MeanBody))
		p.PromptTokens, p.OutputTokens, p.SentBytes = &prompt, &output, &sent
	}
	return p, nil
}

// CheckAccess says what Run would say, before it sends anything, of keys, certificates and
// tables of telemetry, which are no part of a plan.
func CheckAccess(s *scenario.Scenario, lookup func(string) (string, bool), readFile func(string) ([]byte, error)) error {
	access, err := NewAccess(&s.Target, lookup, readFile)
	if err != nil {
		return err
	}
	_, err = newPages(s, access, lookup, readFile)
	return err
}

// traced adds up the tokens of a trace, unless its prompts grow by what is answered.
func (p *Plan) traced(r *replay) {
	prompt, output, ok := r.Tokens()
	if !ok {
		return
	}
	p.PromptTokens, p.OutputTokens = &prompt, &output
	n := float64(r.requests)
	if p.MeanPrompt > 0 {
		// Bytes go with the length of the prompts.
		p.SentBytes = new(int64(math.Round(p.MeanBody / p.MeanPrompt * float64(prompt))))
	}
	p.MeanPrompt, p.MeanOutput = float64(prompt)/n, float64(output)/n
}

// telemetry lists the GETs of telemetry.
func (p *Plan) telemetry(s *scenario.Scenario) error {
	p.Telemetry, p.TelemetrySearch, p.TelemetryHost = []string{}, []string{}, []string{}
	if s.Data.TelemetryOff() {
		return nil
	}
	p.TelemetryEveryS = s.Data.TelemetryInterval.Seconds()
	for _, t := range s.Data.Telemetry {
		if t.URL != scenario.Auto {
			p.Telemetry = append(p.Telemetry, shown(t.URL))
			continue
		}
		own, host, err := telemetry.Candidates(s.Target.URL, nil)
		if err != nil {
			return fmt.Errorf("target.url: %w", err)
		}
		p.TelemetrySearch = own
		if s.Target.Proxy == "" {
			p.TelemetryHost = append(p.TelemetryHost, host...)
		}
	}
	return nil
}

// sample takes the averages of some of the requests that the seed makes.
func (p *Plan) sample(s *scenario.Scenario, users *crowd) error {
	opt := options(s)
	if opt.Model == "" {
		opt.Model = "model"
	}
	var body []byte
	var prompt, output, sent, lengths, bodies int
	next := users.first(s)
	for i := range uint64(sampledLengths) {
		a := next(i).Start(0)
		if a.Kind != workload.Send {
			continue // a session that begins with something else
		}
		lengths++
		prompt += a.Request.PromptTokens()
		output += a.Request.MaxTokens
		if i >= sampledBodies {
			continue
		}
		bodies++
		var err error
		body, err = dialect.AppendRequest(body[:0], dialect.API(s.Target.API), a.Request, users.renderer, &opt)
		if err != nil {
			return fmt.Errorf("make a request body: %w", err)
		}
		sent += len(body)
	}
	p.MeanPrompt = float64(prompt) / float64(max(lengths, 1))
	p.MeanOutput = float64(output) / float64(max(lengths, 1))
	p.MeanBody = float64(sent) / float64(max(bodies, 1))
	return nil
}

// endpoints returns the whole URLs of a scenario's target.
func endpoints(s *scenario.Scenario) ([]string, error) {
	out := make([]string, 0, len(s.Target.URL))
	for _, raw := range s.Target.URL {
		u, err := Endpoint(raw, dialect.API(s.Target.API))
		if err != nil {
			return nil, fmt.Errorf("target.url: %w", err)
		}
		out = append(out, u)
	}
	return out, nil
}

// options are how each body is shaped.
func options(s *scenario.Scenario) dialect.Options {
	t := &s.Target
	return dialect.Options{
		Model:        t.Model,
		Stream:       !t.NoStream,
		Usage:        !t.NoStream && t.Usage != scenario.UsageNone,
		RunningUsage: !t.NoStream && t.Usage == scenario.UsageRunning,
		Temperature:  t.Temperature,
		IgnoreEOS:    t.IgnoreEOS,
		Extra:        t.ExtraBody,
	}
}

// sideBySide is the step of workloads with users or rates of their own.
func sideBySide(st load.Step, l *scenario.Load) load.Step {
	for _, w := range l.Workloads {
		st.Users += w.Users
		if w.Rate == 0 {
			continue
		}
		st.Rate += w.Rate
		s := pace.Stream{Rate: w.Rate}
		var how scenario.Shape
		s.Arrival, s.Burstiness, how = w.Arrivals(l)
		s.Shape = shape(how)
		st.Streams = append(st.Streams, s)
	}
	st.Arrival, st.Burstiness, st.Shape = "", 0, nil
	return st
}

// steps are the levels of load of a scenario, in order.
func steps(s *scenario.Scenario) []load.Step {
	l := &s.Load
	base := load.Step{
		Arrival: l.Arrival, Burstiness: l.Burstiness, Shape: shape(l.Shape), Warmup: l.Warmup, Duration: l.Duration, Requests: l.Requests,
		Drain: l.Drain,
	}
	var out []load.Step
	if len(l.Steps) > 0 {
		return ladderSteps(base, l)
	}
	if len(l.Stages) > 0 {
		return []load.Step{staged(base, l.Stages)}
	}
	if len(l.Workloads) > 0 {
		return []load.Step{sideBySide(base, l)}
	}
	for _, n := range l.Users {
		st := base
		st.Users = n
		out = append(out, st)
	}
	for _, r := range l.Rate {
		st := base
		st.Rate = r
		out = append(out, st)
	}
	return out
}
