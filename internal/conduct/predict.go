package conduct

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"plimsoll/internal/dialect"
	"plimsoll/internal/load"
	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/scenario"
	"plimsoll/internal/stats"
	"plimsoll/internal/twin"
)

// SimulatedURL stands for the endpoint in a scenario that is only predicted. The
// name is reserved: no request can ever reach it.
const SimulatedURL = "http://twin.invalid"

// PredictConfig says what to predict and where to keep it.
type PredictConfig struct {
	// Scenario is complete and valid. Its target is the twin, whatever its URL.
	Scenario *scenario.Scenario
	Cluster  twin.ClusterConfig
	// Router names how requests are spread over the replicas.
	Router string
	// Root is the folder of runs; "" keeps nothing on disk.
	Root string
	// Version is that of this program, for run.json.
	Version string
	// ReadFile reads the workloads that are files; nil when there can be none.
	ReadFile func(name string) ([]byte, error)
	// Dir is as that of Config.
	Dir string
	// Steer, when not nil, makes what decides how many of the steps are run, anew
	// for each pass.
	Steer func() Steering
	// Explain asks for where the time went; Each, when not nil, is called for every
	// request that was sent, in order of its end.
	Explain bool
	Each    func(r *record.Request, s *twin.Stages, replica int)
	// Note is that of Config.
	Note func(text string)
	// Progress, when not nil, is called about once a second of this machine's time
	// while the prediction lasts and what the panel draws of it is made.
	Progress func(Progress)
}

// PredictResult is a prediction.
type PredictResult struct {
	// Result has no folder when nothing was kept.
	Result
	// Prediction is what the twin says of itself, Cluster what was simulated.
	Prediction *twin.Prediction
	Cluster    *twin.Cluster
	// Replay says what was replayed, and how it went; nil for nothing.
	Replay *run.Replay
	// Explanation is nil unless it was asked for.
	Explanation *Explanation
}

// virtualStart is the wall clock at the start of virtual time: always the same, so
// that equal scenarios have equal summaries.
var virtualStart = time.Unix(0, 0).UTC()

// Predict carries out a scenario against a simulated cluster in virtual time. What
// it returns and writes depends on the scenario, its seed and the cluster alone,
// apart from the name of the folder. A *UsageError says that the cluster cannot
// be, or cannot serve the scenario.
func Predict(ctx context.Context, cfg *PredictConfig) (*PredictResult, error) {
	own := *cfg.Scenario
	s := &own
	cluster, err := twin.NewCluster(cfg.Cluster)
	if err != nil {
		return nil, &UsageError{Err: err}
	}
	if err := fitsContext(s, cluster); err != nil {
		return nil, &UsageError{Err: err}
	}
	if err := countsOnly(s.Target.ExtraBody); err != nil {
		return nil, &UsageError{Err: err}
	}
	src := &sources{readFile: cfg.ReadFile, dir: cfg.Dir, done: ctx.Done()}
	defer src.close()
	users, err := newCrowd(s, src, nil)
	if err != nil {
		return nil, scenarioError(err)
	}
	if users.replay != nil {
		if err := users.replay.fit(s, cluster.Context, true); err != nil {
			return nil, &UsageError{Err: err}
		}
	}
	plan := users.steps(s)
	notes, err := users.room(s, len(plan), cluster.Context, fmt.Sprintf("the context of %s is %d tokens here", cluster.Model.Name, cluster.Context))
	if err != nil {
		return nil, &UsageError{Err: err}
	}
	tellNotes(cfg.Note, notes)
	s.Target.Model = cluster.Model.Name
	if s.Name == "" {
		s.Name = "predict"
	}
	p := &predictor{cfg: cfg, scenario: s, cluster: cluster, plan: plan, users: users}
	p.twin = twin.PredictConfig{
		Cluster: cluster, Router: cfg.Router, Seed: s.Seed, Population: users.Population, MaxInFlight: s.Load.MaxInFlight,
		MaxErrorShare: s.Guards.MaxErrorShare, MaxTotalTokens: s.Guards.MaxTotalTokens,
		Stream: !s.Target.NoStream, Template: dialect.API(s.Target.API) != dialect.OpenAICompletions, Exact: s.Target.IgnoreEOS,
	}
	for _, st := range p.plan {
		p.twin.Steps = append(p.twin.Steps, twin.Step(st))
	}
	p.input = stats.Input{
		ID: p.id(), Name: s.Name, Started: virtualStart, RateDriven: s.RateDriven(),
		MaxInFlight: s.Load.MaxInFlight, Virtual: true,
	}
	if err := serviceLevels(&p.input, s, src); err != nil {
		return nil, &UsageError{Err: err}
	}
	return p.run(ctx)
}

// fitsContext refuses lengths that the cluster could never serve. Distributions
// without an upper end are refused request by request, as a server would.
func fitsContext(s *scenario.Scenario, c *twin.Cluster) error {
	if len(s.Users.Workload) > 0 || s.Users.Replayed() != "" {
		return nil // what does not fit is refused request by request
	}
	longest := func(d scenario.Dist) float64 {
		switch {
		case d.Max != 0:
			return d.Max
		case d.Kind == scenario.Uniform:
			return d.B
		case d.Kind == scenario.Fixed || d.Kind == "":
			return d.A
		}
		return 0
	}
	prompt, output := longest(s.Users.PromptTokens), longest(s.Users.OutputTokens)
	if n := prompt + output; n > float64(c.Context) {
		return fmt.Errorf("prompt-tokens up to %.0f and output-tokens up to %.0f are %.0f tokens: the context of %s is %d tokens here (%d by the model, %d fit the KV memory of a replica)",
			prompt, output, n, c.Model.Name, c.Context, c.Model.Context, c.KVTokens())
	}
	return nil
}

// countsOnly refuses further fields of the body that would make a server compute
// something else than the prediction does; others (temperature, user) change nothing.
func countsOnly(body map[string]any) error {
	for _, name := range []string{
		"n", "best_of", "use_beam_search", "stop", "stop_token_ids", "ignore_eos", "min_tokens", "max_tokens", "max_completion_tokens", "max_output_tokens",
		"tools", "tool_choice", "stream",
	} {
		v, ok := body[name]
		if !ok || v == nil || name == "n" && fmt.Sprint(v) == "1" {
			continue
		}
		fix := "take it out of the scenario, or try it against plimsoll twin serve"
		switch name {
		case "n", "best_of":
			fix = "a prediction has one answer to a request: take it out and have as many times the users or the rate"
		case "min_tokens", "max_tokens", "max_completion_tokens", "max_output_tokens":
			fix = "say it with users.output-tokens"
		case "ignore_eos":
			fix = "say it with target.ignore-eos"
		case "stream":
			fix = "say it with target.no-stream"
		}
		return fmt.Errorf("target.extra-body: %s %v is not simulated; %s", name, v, fix)
	}
	return nil
}

// predictor is one prediction under way.
type predictor struct {
	cfg      *PredictConfig
	scenario *scenario.Scenario
	cluster  *twin.Cluster
	plan     []load.Step
	users    *crowd
	twin     twin.PredictConfig
	input    stats.Input
	meter    *meter
}

// id names the prediction by what it depends on.
func (p *predictor) id() string {
	h := sha256.New()
	// Encoding a struct of strings and numbers does not fail.
	b, _ := json.Marshal(struct {
		Scenario string
		Seed     uint64
		Cluster  twin.ClusterConfig
		Router   string
	}{p.scenario.Hash(), p.scenario.Seed, p.cluster.Config, p.cfg.Router})
	h.Write(b)
	return "twin-" + hex.EncodeToString(h.Sum(nil)[:6])
}

// quiet is a sink for a pass of which only the windows are wanted.
type quiet struct{}

func (quiet) Record(*twin.Finished) {}

// pass runs the twin once, and returns the windows as they went; with an error only
// when it was interrupted.
func (p *predictor) pass(ctx context.Context, sink twin.Sink) (*twin.Prediction, []stats.StepInput, error) {
	if p.users.replay != nil {
		p.users.replay.Restart()
	}
	c := p.twin
	st := newSteer(p.cfg.Steer)
	if c.More = st.more(); st != nil {
		sink = steered{sink, st}
	}
	c.Sink = p.meter.begin(sink)
	pr, err := twin.Predict(ctx, &c)
	if err != nil {
		return nil, nil, &UsageError{Err: err}
	}
	went := make([]load.StepResult, 0, len(pr.Steps))
	for _, s := range pr.Steps {
		went = append(went, load.StepResult{
			Step: load.Step(s.Step), Index: s.Index, Start: s.Start, SteadyStart: s.SteadyStart, SteadyEnd: s.SteadyEnd, End: s.End,
			Scheduled: s.Scheduled, Steady: s.Steady, Complete: s.Complete,
		})
	}
	if pr.Stopped == twin.Interrupted {
		err = context.Cause(ctx)
	}
	return pr, st.went(p.plan, went, pr.End, pr.Stopped == twin.Completed), err
}

// run predicts. The figures need the windows while the requests come. Where the
// end of a window is only known afterwards, a first pass finds it out; so it does
// for what is kept on disk, since a guard may stop any run before its time.
func (p *predictor) run(ctx context.Context) (*PredictResult, error) {
	in := &p.input
	p.meter = newMeter(p)
	p.meter.passes = 1
	var err error
	if start, end, ok := twin.FirstWindow(&p.twin); ok && len(p.plan) == 1 && p.cfg.Root == "" && p.cfg.Each == nil {
		in.Steps = []stats.StepInput{{Users: p.plan[0].Users, Rate: p.plan[0].Rate, Start: start, End: end, Asked: asked(&p.plan[0]), Complete: true}}
	} else {
		p.meter.passes = 2
		if _, in.Steps, err = p.pass(ctx, quiet{}); err != nil {
			return nil, errors.Join(err, p.leaveTrace(ctx))
		}
	}
	for range 2 {
		t, err := p.newTally()
		if err != nil {
			return nil, err
		}
		pr, went, err := p.pass(ctx, t)
		if err != nil {
			return nil, errors.Join(err, t.interrupt(went))
		}
		if slices.Equal(went, in.Steps) {
			return p.conclude(pr, t)
		}
		in.Steps = went
		p.meter.passes++
	}
	panic("BUG: two passes of one prediction differ")
}

// leaveTrace keeps a folder that says that the prediction was interrupted before
// there was anything to keep. Other errors leave none.
func (p *predictor) leaveTrace(ctx context.Context) error {
	if ctx.Err() == nil || p.cfg.Root == "" {
		return nil
	}
	t, err := p.newTally()
	if err != nil {
		return err
	}
	return t.interrupt(p.input.Steps)
}

// conclude sums up a pass whose windows were those expected.
func (p *predictor) conclude(pr *twin.Prediction, t *tally) (*PredictResult, error) {
	in := &p.input
	if t.explanation != nil {
		t.explanation.settle()
	}
	in.Duration = pr.End - pr.Start
	t.collector.SetDuration(in.Duration)
	out := &PredictResult{Prediction: pr, Cluster: p.cluster, Explanation: t.explanation}
	out.Message = pr.Message
	switch pr.Stopped {
	case twin.Completed, twin.Interrupted:
	case twin.TooManyRefused:
		out.Stopped = load.ErrorShare
	case twin.TokenLimit:
		out.Stopped = load.TokenLimit
	}
	out.ID, out.Summary = in.ID, t.collector.Summary()
	if r := p.users.replay; r != nil {
		out.Replay = r.ended()
	}
	if t.writer == nil {
		return out, nil
	}
	out.Folder = t.writer.Dir()
	if t.explanation != nil {
		b, err := json.MarshalIndent(t.explanation, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("encode explain.json: %w", err)
		}
		if err := t.writer.WriteFile("explain.json", append(b, '\n')); err != nil {
			return nil, err
		}
	}
	if out.Replay != nil {
		if err := t.writer.Update(func(i *run.Info) { i.Replay = out.Replay }); err != nil {
			return nil, err
		}
	}
	_, err := conclude(t.writer, in, &out.Result, time.Now().UTC(), p.target(), nil, t.writer.Close(), making(p.cfg.Progress, progressInterval))
	return out, err
}

// target describes the cluster for run.json.
func (p *predictor) target() json.RawMessage {
	b, err := json.Marshal(map[string]any{"twin": map[string]any{
		"text": p.cluster.Describe(), "config": p.cluster.Config, "router": p.cfg.Router, "context": p.cluster.Context,
		"kv_tokens": p.cluster.KVTokens(), "max_num_seqs": p.cluster.Engine.MaxNumSeqs,
		"max_num_batched_tokens": p.cluster.Engine.MaxNumBatchedTokens,
	}})
	if err != nil {
		panic("BUG: a cluster cannot be encoded: " + err.Error())
	}
	return b
}

// tally takes the requests of one pass.
type tally struct {
	p           *predictor
	collector   *stats.Collector
	writer      *run.Writer // nil when nothing is kept
	explanation *Explanation
}

func (p *predictor) newTally() (*tally, error) {
	t := &tally{p: p, collector: stats.NewCollector(p.input)}
	if p.cfg.Explain {
		t.explanation = newExplanation()
	}
	if p.cfg.Root == "" {
		return t, nil
	}
	text, err := p.scenario.Marshal()
	if err != nil {
		return nil, fmt.Errorf("write the scenario: %w", err)
	}
	t.writer, err = run.Create(p.cfg.Root, run.Info{
		Name: p.scenario.Name, Tags: p.scenario.Tags, Version: p.cfg.Version, Host: host(), Target: p.target(),
		Clocks: run.Clocks{Source: "virtual"},
		Agents: 1, ScenarioHash: p.scenario.Hash(), Start: time.Now().UTC(), Replay: p.users.planned(), Input: &p.input,
	}, text, run.Blocking())
	return t, err
}

// interrupt ends what a pass has written when it was ended early, with the windows as
// far as they went.
func (t *tally) interrupt(went []stats.StepInput) error {
	if t.writer == nil {
		return nil
	}
	in := t.p.input
	in.Steps = went
	return errors.Join(t.writer.Close(), t.writer.Update(func(i *run.Info) {
		i.State, i.Message, i.Input = run.Interrupted, "interrupted before the prediction was over", &in
	}))
}

// Record counts and keeps one request.
func (t *tally) Record(f *twin.Finished) {
	r := &f.Request
	t.collector.AddTimeline(r, f)
	if t.explanation != nil && r.Status == record.OK && r.Phase == record.Steady {
		t.explanation.add(&f.Stages)
	}
	if t.p.cfg.Each != nil && r.Start != record.Unset {
		t.p.cfg.Each(r, &f.Stages, f.Replica())
	}
	if t.writer != nil {
		f.Events()
		t.writer.Add(r)
	}
}
