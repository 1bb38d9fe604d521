package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"plimsoll/internal/conduct"
	"plimsoll/internal/probe"
	"plimsoll/internal/record"
	"plimsoll/internal/report"
	"plimsoll/internal/run"
	"plimsoll/internal/scenario"
	"plimsoll/internal/twin"
)

type twinPredictCmd struct {
	Scenario string `arg:"" optional:"" help:"A scenario file (YAML); - is standard input. Flags win over the file."`

	Model        string        `name:"model" placeholder:"NAME" group:"cluster" help:"The model (default llama-3.1-8b)."`
	GPU          string        `name:"gpu" default:"h100" placeholder:"NAME" group:"cluster" help:"The accelerator."`
	GPUs         int           `name:"gpus" placeholder:"N" group:"cluster" help:"Accelerators in all: with --tp as many replicas as they make, else tp over all of them."`
	TP           int           `name:"tp" placeholder:"N" group:"cluster" help:"Accelerators per replica that share each layer (default 1)."`
	PP           int           `name:"pp" placeholder:"N" group:"cluster" help:"Groups of accelerators per replica that hold a part of the layers each (default 1)."`
	DP           int           `name:"dp" placeholder:"N" group:"cluster" help:"Ranks per replica that attend to sequences of their own and share the experts (default 1)."`
	EP           int           `name:"ep" placeholder:"N" group:"cluster" help:"Groups of experts of a mixture, over the tp x dp accelerators (default 1)."`
	Precision    string        `name:"precision" placeholder:"P" group:"cluster" help:"Of the linear layers: bf16, fp8, fp8_block, fp4, int8 or int4; the one that the model is published in, mostly bf16."`
	KVFP8        bool          `name:"kv-fp8" group:"cluster" help:"Keep keys and values in fp8."`
	Engine       string        `name:"engine" default:"vllm" placeholder:"NAME" group:"cluster" help:"The engine: vllm, sglang or trtllm."`
	Replicas     int           `name:"replicas" placeholder:"N" group:"cluster" help:"Engines behind one router."`
	Router       string        `name:"router" placeholder:"NAME" group:"cluster" help:"How requests are spread over the replicas: round-robin (default) or least-loaded."`
	MaxNumSeqs   int           `name:"max-num-seqs" placeholder:"N" group:"cluster" help:"Sequences that run at once, per replica; the engine's default for the accelerator."`
	MaxNumTokens int           `name:"max-num-batched-tokens" placeholder:"N" group:"cluster" help:"Tokens of one step, per replica; likewise."`
	MaxModelLen  int           `name:"max-model-len" placeholder:"N" group:"cluster" help:"Longest sequence in tokens; the model's, or what fits the memory."`
	Memory       float64       `name:"gpu-memory-utilization" placeholder:"X" group:"cluster" help:"Share of the accelerator's memory that the engine takes."`
	NoCache      bool          `name:"no-prefix-cache" group:"cluster" help:"Turn the prefix cache off."`
	Step         time.Duration `name:"step" placeholder:"D" group:"cluster" help:"Make every step this long, with unlimited memory."`
	Slowdown     float64       `name:"slowdown" placeholder:"X" group:"cluster" help:"A fault: every step takes this share longer for each minute that has passed, as 0.01."`
	stageFlags

	API          string   `name:"api" placeholder:"NAME" group:"users" help:"openai.completions (default without a file), or openai.chat and openai.responses, whose template adds a few tokens to each prompt."`
	NoStream     bool     `name:"no-stream" group:"users" help:"Answers come whole instead of token by token."`
	IgnoreEOS    toggle   `name:"ignore-eos" group:"users" help:"Answers are exactly as long as wanted (the default without a file; --ignore-eos=false for not)."`
	Workload     []string `name:"workload" sep:"none" placeholder:"NAME[=WEIGHT],..." group:"users" help:"Workloads of the library, or files, instead of the two lengths below; several share the users or sessions by weight."`
	PromptTokens string   `name:"prompt-tokens" placeholder:"DIST" group:"users" help:"Prompt length: 512, uniform:100..900, normal:512,64 or lognormal:p50=400,p99=4000."`
	OutputTokens string   `name:"output-tokens" placeholder:"DIST" group:"users" help:"Output length, likewise."`
	replayFlags
	LengthRange string `name:"length-range" placeholder:"LO-HI" group:"users" help:"Spread both lengths evenly between these shares of them, as 0.8-1.0."`

	Users       string `name:"users" placeholder:"N[,N...]" group:"load" help:"Users that each wait for their answer. A list is run one step after another."`
	Rate        string `name:"rate" placeholder:"R[,R...]" group:"load" help:"Requests a second, whatever the answers do, instead of users."`
	Arrival     string `name:"arrival" placeholder:"KIND" group:"load" help:"How a rate arrives: poisson (default), constant or gamma."`
	Burstiness  string `name:"burstiness" placeholder:"X" group:"load" help:"Of gamma arrivals: 1 is poisson, less is burstier, more is more even."`
	Shape       string `name:"shape" placeholder:"SHAPE" group:"load" help:"How the rate goes: ramp:from=0.1,to=3,over=5m, spikes:to=5,every=1m,for=5s, market-open:to=10,after=30s,fade=1m, diurnal:low=0.5,high=1.5,period=1h or on-off:on=10s,off=20s."`
	Stages      string `name:"stages" placeholder:"FILE" group:"load" help:"Stages instead of a rate and a duration: a file of lines as 30s:10 or 1m:10..50, or the stages with commas."`
	Duration    string `name:"duration" placeholder:"D" group:"load" help:"Length of the steady window of each step."`
	Requests    string `name:"requests" placeholder:"N" group:"load" help:"Number of requests of each step, instead of a duration."`
	Warmup      string `name:"warmup" placeholder:"D" group:"load" help:"Load before the window, not in the figures."`
	Drain       string `name:"drain" placeholder:"D" group:"load" help:"How long to wait at the end for requests of the window (default 24h without a file: it costs nothing)."`
	MaxInFlight string `name:"max-in-flight" placeholder:"N" group:"load" help:"Cap on requests in flight."`
	Seed        string `name:"seed" placeholder:"N" group:"load" help:"Equal seeds make equal predictions, to the byte (default 1)."`

	SLO            []string `name:"slo" sep:"none" placeholder:"LIMIT,..." group:"guards" help:"What is expected: ttft.p95=500ms,tpot.mean=40ms. Missed: exit code 3."`
	MaxErrorShare  string   `name:"max-error-share" placeholder:"X" group:"guards" help:"Stop when more than this share of the last 100 requests was refused (default 0.5)."`
	MaxTotalTokens string   `name:"max-total-tokens" placeholder:"N" group:"guards" help:"Stop when this many tokens have been used."`

	Name      string   `name:"name" placeholder:"S" group:"data" help:"Name of the run."`
	Tag       []string `name:"tag" sep:"none" placeholder:"K=V" group:"data" help:"A label of the run; may be repeated."`
	Out       string   `name:"out" placeholder:"DIR" group:"data" help:"Folder of runs (default runs)."`
	NoRecords bool     `name:"no-records" group:"data" help:"Keep nothing on disk: only the figures, much faster."`
	Set       []string `name:"set" sep:"none" placeholder:"PATH=VALUE" group:"data" help:"Set any field of the scenario; may be repeated."`

	Quiet       bool   `name:"quiet" group:"output" help:"No progress."`
	Explain     bool   `name:"explain" group:"output" help:"Print where the time of the requests went instead of the figures."`
	ExplainFile string `name:"explain-file" placeholder:"FILE" group:"output" help:"Write where the time of each request went, one JSON object a line."`
	outputFlag
}

func (*twinPredictCmd) Help() string {
	return `The users and arrivals of "plimsoll run" against simulated engines, in virtual time: a day takes seconds. What the figures are made of is the same, and so is the folder of the run.

Without a file the flags make one point, as in the first example. Exit codes are those of "plimsoll run".`
}

func (*twinPredictCmd) Examples() []string {
	return []string{
		"plimsoll twin predict --model llama-3.1-70b --gpu h200 --tp 4 --users 64 \\",
		"    --prompt-tokens 1024 --output-tokens 1024 --length-range 0.8-1.0 \\",
		"    --requests 640 --output json",
		"plimsoll twin predict --rate 5,10,20 --duration 10m --replicas 2 --no-records",
		"plimsoll twin predict chat.yaml --gpu b200 --explain",
		"plimsoll twin predict --workload kv/capacity --gpu h200 --tp 4",
	}
}

func (c *twinPredictCmd) cluster() (twin.ClusterConfig, error) {
	cfg := twin.ClusterConfig{
		Model: c.Model, GPU: c.GPU, Engine: c.Engine, Precision: twin.Precision(c.Precision), TP: c.TP, Replicas: c.Replicas,
		PP: c.PP, DP: c.DP, EP: c.EP, KVFP8: c.KVFP8,
		MaxNumSeqs: c.MaxNumSeqs, MaxNumBatchedTokens: c.MaxNumTokens, MaxModelLen: c.MaxModelLen,
		MemoryUtilization: c.Memory, NoPrefixCache: c.NoCache, Step: c.Step, Slowdown: c.Slowdown,
	}
	for _, f := range []struct {
		name string
		n    int
	}{{"gpus", c.GPUs}, {"tp", c.TP}, {"pp", c.PP}, {"dp", c.DP}, {"ep", c.EP}, {"replicas", c.Replicas}} {
		if f.n < 0 {
			return cfg, fmt.Errorf("--%s %d: want at least 1", f.name, f.n)
		}
	}
	var err error
	if cfg.Stages, err = c.costs(c.Engine, c.Step); err != nil {
		return cfg, err
	}
	if err := cfg.Spread(c.GPUs); err != nil {
		return cfg, fmt.Errorf("--%w", err)
	}
	return cfg, nil
}

// lengthRange spreads fixed lengths.
func (c *twinPredictCmd) lengthRange(s *scenario.Scenario) error {
	if c.LengthRange == "" {
		return nil
	}
	lo, hi, ok := strings.Cut(c.LengthRange, "-")
	a, err := strconv.ParseFloat(lo, 64)
	b, err2 := strconv.ParseFloat(hi, 64)
	if !ok || err != nil || err2 != nil || !(a > 0 && a <= b && b <= 100) {
		return fmt.Errorf("--length-range %q: want two shares, as in 0.8-1.0", c.LengthRange)
	}
	for _, d := range []struct {
		name string
		d    *scenario.Dist
	}{{"prompt-tokens", &s.Users.PromptTokens}, {"output-tokens", &s.Users.OutputTokens}} {
		if d.d.Kind != scenario.Fixed {
			return fmt.Errorf("--length-range %s: %s is a distribution already; want one number", c.LengthRange, d.name)
		}
		n := d.d.A
		*d.d = scenario.Dist{Kind: scenario.Uniform, A: max(1, math.Ceil(a*n)), B: max(1, math.Floor(b*n))}
		if d.d.A > d.d.B {
			d.d.A = d.d.B
		}
	}
	return s.Validate()
}

func (c *twinPredictCmd) Run(a *app, kctx *kong.Context) error {
	if err := nothingGiven(kctx); err != nil {
		return usagef("twin predict: %w", err)
	}
	sets, err := settings(kctx)
	if err != nil {
		return usagef("twin predict: %w", err)
	}
	if c.Scenario == "" {
		one := func(path, value string) scenario.Setting {
			return scenario.Setting{Path: path, Value: value, Origin: "twin predict"}
		}
		sets = append([]scenario.Setting{
			one("target.api", scenario.APICompletions), one("target.ignore-eos", "true"), one("load.drain", "24h"), one("seed", "1"),
		}, sets...)
	}
	s, err := a.readScenarioFor(c.Scenario, sets, conduct.SimulatedURL)
	if err != nil {
		if e, ok := errors.AsType[*coded](err); ok && e.hint != "" {
			e.hint = "see plimsoll twin predict --help, plimsoll schema"
		}
		return err
	}
	if err := c.lengthRange(s); err != nil {
		return usagef("twin predict: %w", err)
	}
	cluster, err := c.cluster()
	if err != nil {
		return usagef("twin predict: %w", err)
	}
	if cluster.Model == "" {
		cluster.Model = s.Target.Model // "" takes the default
	}
	if probe.Of(s) != "" {
		// A fit that asks what the server runs on is told.
		if err := conduct.DeclareTwin(s, cluster); err != nil {
			return usagef("twin predict: %w", err)
		}
	}
	cfg := &conduct.PredictConfig{
		Scenario: s, Cluster: cluster, Router: c.Router, Version: buildInfo().Version, Explain: c.Explain,
		ReadFile: a.env.readFile, Dir: a.env.path("."),
	}
	if !c.NoRecords {
		cfg.Root = a.env.path(s.Data.Out)
	}
	lines, err := c.explainLines(a, cfg)
	if err != nil {
		return err
	}
	p := newProgress(a.env, c.Quiet)
	p.prepare("preparing the prediction: what users send is read")
	cfg.Progress, cfg.Note = p.show, p.note
	var last *probe.Steering
	if probe.Of(s) != "" {
		cfg.Steer = func() conduct.Steering {
			last = probe.NewSteering(s)
			return last
		}
	}
	res, err := conduct.Predict(a.ctx, cfg)
	p.close()
	err = errors.Join(err, lines())
	switch {
	case err == nil:
	case errors.Is(err, context.Canceled):
		return err
	default:
		if _, ok := errors.AsType[*conduct.UsageError](err); ok {
			return usagef("twin predict: %w", err)
		}
		return fmt.Errorf("twin predict: %w", err)
	}
	var fitted *run.Probe
	switch {
	case last == nil:
	case res.Folder == "":
		fitted = last.Fit()
	default:
		if fitted, err = probe.Keep(s, res.Folder); err != nil {
			return err
		}
	}
	if err := c.print(a, s, res, fitted); err != nil {
		return err
	}
	if res.Message != "" {
		_, _ = fmt.Fprintf(a.env.Stderr, "plimsoll: prediction stopped: %s\n", report.Printable(res.Message))
	}
	return exitCode(codeOf(&res.Result))
}

// explainLines makes the prediction write a line for each request, and returns
// what ends the file.
func (c *twinPredictCmd) explainLines(a *app, cfg *conduct.PredictConfig) (func() error, error) {
	if c.ExplainFile == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(a.env.path(c.ExplainFile))
	if err != nil {
		return nil, usagef("twin predict: write explain-file: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<16)
	names := twin.StageNames()
	var b []byte
	cfg.Each = func(r *record.Request, s *twin.Stages, replica int) {
		b = append(b[:0], `{"id":`...)
		b = strconv.AppendUint(b, r.ID, 10)
		b = append(b, `,"phase":"`+r.Phase.String()+`","status":"`+r.Status.String()+`","replica":`...)
		b = strconv.AppendInt(b, int64(replica), 10)
		b = append(b, `,"start_ns":`...)
		b = strconv.AppendInt(b, r.Start, 10)
		b = append(b, `,"end_ns":`...)
		b = strconv.AppendInt(b, r.End, 10)
		for i, v := range s.Values() {
			b = append(b, `,"`+names[i]+`_ns":`...)
			b = strconv.AppendInt(b, v, 10)
		}
		_, _ = w.Write(append(b, "}\n"...)) // the error comes again from Flush
	}
	return func() error { return errors.Join(w.Flush(), f.Close()) }, nil
}

func (c *twinPredictCmd) print(a *app, s *scenario.Scenario, res *conduct.PredictResult, fitted *run.Probe) error {
	switch {
	case c.Explain && c.Output == "json":
		return a.printJSON(res.Explanation)
	case c.Explain:
		return printExplanation(a.env.Stdout, res)
	case c.Output == "json":
		return a.printSummary(res.Summary, fitted)
	case res.Folder == "":
		about := &report.Run{Summary: res.Summary, Probe: fitted, Colour: a.env.colour(), Model: "simulated: " + res.Cluster.Describe(), Load: report.DescribeLoad(s)}
		showReplay(about, res.Replay)
		return report.Text(a.env.Stdout, about)
	}
	r, err := a.openRun(res.Folder)
	if err != nil {
		return err
	}
	if err := report.Text(a.env.Stdout, r.about); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.env.Stdout, "\nkept in %s\n", report.Printable(a.env.shorten(res.Folder)))
	return err
}

// printExplanation prints where the time went.
func printExplanation(w io.Writer, res *conduct.PredictResult) error {
	e := res.Explanation
	var b strings.Builder
	b.WriteString(res.Cluster.Describe() + "\n")
	if e.MeanMS == nil {
		b.WriteString("no request was answered in the window: there is nothing to explain\n")
		_, err := io.WriteString(w, b.String())
		return err
	}
	fmt.Fprintf(&b, "%s ok, %s ms from start to end in the mean\n\n", report.Plural(e.Requests, "request"), report.Figure(*e.MeanMS))
	row := func(cells ...string) {
		b.WriteString(report.Pad(cells[0], 16))
		for _, c := range cells[1:] {
			fmt.Fprintf(&b, "%12s", c)
		}
		b.WriteByte('\n')
	}
	row("stage", "mean ms", "p50 ms", "p95 ms", "share")
	for _, s := range e.Stages {
		row(s.Stage, report.Figure(*s.MeanMS), report.Figure(*s.P50MS), report.Figure(*s.P95MS), report.Percent(*s.Share))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
