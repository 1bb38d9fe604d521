package cli

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"plimsoll/internal/report"
	"plimsoll/internal/scenario"
	"plimsoll/internal/twin"
)

type twinCmd struct {
	Predict twinPredictCmd `cmd:"" help:"Predict what a run would measure, in virtual time."`
	Serve   twinServeCmd   `cmd:"" help:"Serve a simulated cluster in real time behind the OpenAI APIs."`
	List    twinListCmd    `cmd:"" help:"What the twin knows by name, with sources and confidence."`
}

type twinServeCmd struct {
	Model        string        `name:"model" default:"llama-3.1-8b" placeholder:"NAME" help:"The model."`
	GPU          string        `name:"gpu" default:"h100" placeholder:"NAME" help:"The accelerator."`
	Engine       string        `name:"engine" default:"vllm" placeholder:"NAME" help:"The engine: vllm, sglang or trtllm."`
	Precision    string        `name:"precision" placeholder:"P" help:"Of the linear layers: bf16, fp8, fp8_block, fp4, int8 or int4; the one that the model is published in, mostly bf16."`
	TP           int           `name:"tp" default:"1" placeholder:"N" help:"Accelerators per replica that share each layer (default 1)."`
	PP           int           `name:"pp" default:"1" placeholder:"N" help:"Groups of accelerators per replica that hold a part of the layers each (default 1)."`
	DP           int           `name:"dp" default:"1" placeholder:"N" help:"Ranks per replica that attend to sequences of their own and share the experts (default 1)."`
	EP           int           `name:"ep" default:"1" placeholder:"N" help:"Groups of experts of a mixture, over the tp x dp accelerators (default 1)."`
	Replicas     int           `name:"replicas" placeholder:"N" help:"Engines behind the address (default 1; with --step 20, whose steps are spread evenly over time)."`
	Router       string        `name:"router" default:"round-robin" placeholder:"NAME" help:"How requests are spread over the replicas: round-robin (default) or least-loaded."`
	MaxNumSeqs   int           `name:"max-num-seqs" placeholder:"N" help:"Sequences that run at once, per replica; the engine's default for the accelerator."`
	MaxNumTokens int           `name:"max-num-batched-tokens" placeholder:"N" help:"Tokens of one step, per replica; likewise."`
	MaxModelLen  int           `name:"max-model-len" placeholder:"N" help:"Longest sequence in tokens; the model's, or what fits the memory."`
	KVFP8        bool          `name:"kv-fp8" help:"Keep keys and values in fp8."`
	Memory       float64       `name:"gpu-memory-utilization" placeholder:"X" help:"Share of the accelerator's memory that the engine takes."`
	NoCache      bool          `name:"no-prefix-cache" help:"Turn the prefix cache off."`
	Step         time.Duration `name:"step" placeholder:"D" help:"Make every step this long, with unlimited memory: a load for tests of clients."`
	stageFlags
	Slowdown     float64       `name:"slowdown" placeholder:"X" help:"A fault: every step takes this share longer for each minute that has passed, as 0.01."`
	PerEvent     int           `name:"tokens-per-event" default:"1" placeholder:"N" help:"Tokens in each event of a stream, but the first and the last."`
	Seed         uint64        `name:"seed" placeholder:"N" help:"Equal seeds and requests make equal answers."`
	DCGMListen   string        `name:"dcgm-listen" placeholder:"ADDR" help:"Serve the accelerators' metrics at /metrics of this address, too; they are always at /dcgm/metrics."`
	DCGMInterval time.Duration `name:"dcgm-interval" default:"1s" placeholder:"D" help:"Time over which the accelerators' metrics are averaged."`
	ClockShift   time.Duration `name:"clock-shift" placeholder:"D" help:"Show a wall clock that is ahead of this machine's by D (behind with a minus): for tests of who reads it."`
	Listen       string        `name:"listen" default:"127.0.0.1:8000" placeholder:"ADDR" help:"Address to listen on."`
}

// mayBeZero are the flags of a cluster whose 0 means 0.
var mayBeZero = map[string]bool{"tokenization": true, "tokenizers": true, "detokenization": true, "guardrail": true, "clock-shift": true, "seed": true}

// nothingGiven refuses a flag of the twin that is given an empty name or 0, which
// would silently be its default. What a scenario has a field for is checked there,
// but for the model, which may be left out of a scenario.
func nothingGiven(kctx *kong.Context) error {
	for _, at := range kctx.Path {
		f := at.Flag
		if f == nil || mayBeZero[f.Name] {
			continue
		}
		if _, ok := scenario.FlagPath(f.Name); ok && f.Name != "model" {
			continue
		}
		switch v := f.Target.Interface().(type) {
		case string:
			if strings.TrimSpace(v) != "" {
				continue
			}
			switch f.Name {
			case "model", "gpu", "engine":
				return fmt.Errorf("--%s %q: want a name, as plimsoll twin list %ss has them", f.Name, v, f.Name)
			case "precision":
				return fmt.Errorf("--%s %q: want bf16, fp8, fp8_block, fp4, int8 or int4", f.Name, v)
			case "router":
				return fmt.Errorf("--%s %q: want %s", f.Name, v, strings.Join(twin.Routers(), " or "))
			}
			return fmt.Errorf("--%s %q: want a value", f.Name, v)
		case int:
			if v == 0 {
				return fmt.Errorf("--%s 0: want at least 1", f.Name)
			}
		case float64:
			if v == 0 {
				return fmt.Errorf("--%s 0: want a share above 0 and at most 1", f.Name)
			}
		case time.Duration:
			if v == 0 {
				return fmt.Errorf("--%s 0s: want more than 0", f.Name)
			}
		}
	}
	return nil
}

// stepReplicas is how many engines share the load of --step. One engine hands
// out the tokens of all streams at one instant: with thousands of streams that
// burst is more than a client beside it can read in a few milliseconds, and the
// test would be of that alone. Real services are many engines out of step.
const stepReplicas = 20

func (*twinServeCmd) Help() string {
	return "Nothing is computed: the time of each scheduler step comes from a model of the hardware. Chat, completions and responses, /v1/models, /tokenize, /health, /metrics as vLLM has them, /dcgm/metrics of the accelerators and /node/metrics of the network are served until Ctrl-C."
}

func (*twinServeCmd) Examples() []string {
	return []string{
		"plimsoll twin serve --model llama-3.1-8b --gpu h100 --replicas 2",
		"plimsoll twin serve --model llama-3.1-70b --gpu h200 --tp 2 --precision fp8",
		"plimsoll twin serve --step 50ms",
	}
}

func (c *twinServeCmd) Run(a *app, kctx *kong.Context) error {
	if err := nothingGiven(kctx); err != nil {
		return usagef("twin serve: %w", err)
	}
	if c.Replicas == 0 && c.Step > 0 {
		c.Replicas = stepReplicas
	}
	stages, err := c.costs(c.Engine, c.Step)
	if err != nil {
		return usagef("twin serve: %w", err)
	}
	cfg := twin.ServerConfig{
		Model: c.Model, GPU: c.GPU, Engine: c.Engine, Precision: twin.Precision(c.Precision),
		TP: c.TP, PP: c.PP, DP: c.DP, EP: c.EP, KVFP8: c.KVFP8, Replicas: c.Replicas, MaxNumSeqs: c.MaxNumSeqs, MaxNumBatchedTokens: c.MaxNumTokens,
		MaxModelLen: c.MaxModelLen, MemoryUtilization: c.Memory, NoPrefixCache: c.NoCache, Step: c.Step, Seed: c.Seed,
		Router: c.Router, TokensPerEvent: c.PerEvent, DCGMInterval: c.DCGMInterval, ClockShift: c.ClockShift, Stages: stages, Slowdown: c.Slowdown,
	}
	var lc net.ListenConfig
	devices := "/dcgm/metrics"
	if c.DCGMListen != "" {
		if c.Step > 0 {
			return usagef("twin serve: --dcgm-listen %s: steps of a fixed length (--step) run on no accelerator: leave one of the two out", c.DCGMListen)
		}
		if cfg.DCGM, err = lc.Listen(a.ctx, "tcp", c.DCGMListen); err != nil {
			return fmt.Errorf("twin serve: %w: name another address with --dcgm-listen", err)
		}
		defer cfg.DCGM.Close()
		devices = fmt.Sprintf("http://%s/metrics and %s", cfg.DCGM.Addr(), devices)
	}
	s, err := twin.NewServer(cfg)
	if err != nil {
		return usagef("twin serve: %w", err)
	}
	l, err := lc.Listen(a.ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("twin serve: %w: name another address with --listen, as in --listen 127.0.0.1:8001", err)
	}
	fmt.Fprintf(a.env.Stdout, "serving %s\nat http://%s (Ctrl-C ends)\n", s.Describe(), l.Addr())
	if c.Step > 0 {
		devices = ""
	} else {
		devices = ", accelerators at " + devices
	}
	fmt.Fprintf(a.env.Stdout, "metrics at /metrics%s, network at /node/metrics\n", devices)
	// Ctrl-C is how a server is meant to end, so it is no interruption.
	if err := s.Serve(a.ctx, l); err != nil {
		return fmt.Errorf("twin serve: %w", err)
	}
	st := s.Stats()
	fmt.Fprintf(a.env.Stdout, "served %s: %s prompt and %s output tokens in %s,\n%s; %s left early, %s too slow\n",
		report.Plural(st.Requests, "request"), report.Count(st.PromptTokens), report.Count(st.OutputTokens), report.Plural(st.Steps, "step"),
		report.Plural(st.Preemptions, "preemption"), report.Plural(st.Aborted, "client"), report.Count(st.SlowClients))
	if st.Steps > 0 {
		fmt.Fprintf(a.env.Stdout, "steps were late by p50 %s, p99 %s, at most %s;\ntheir last tokens by p50 %s, p99 %s\n",
			report.Nanos(st.Late.Quantile(0.5)), report.Nanos(st.Late.Quantile(0.99)), report.Nanos(st.Late.Max()),
			report.Nanos(st.LateLast.Quantile(0.5)), report.Nanos(st.LateLast.Quantile(0.99)))
	}
	return nil
}

type twinListCmd struct {
	Kind string `arg:"" enum:"models,gpus,engines" help:"models, gpus or engines."`
	Name string `arg:"" optional:"" help:"Show one entry with the source of every value."`
	outputFlag
}

func (*twinListCmd) Help() string {
	return "Names may be spelled as you like: llama-3.1-8b is meta-llama/Llama-3.1-8B-Instruct, h100 is H100 SXM."
}

func (*twinListCmd) Examples() []string {
	return []string{
		"plimsoll twin list gpus",
		"plimsoll twin list gpus h100",
		"plimsoll twin list models --output json",
	}
}

func (c *twinListCmd) Run(a *app) error {
	k := twin.Builtin()
	models, gpus, engines := k.Models, k.GPUs, k.Engines
	if c.Name != "" {
		var err error
		switch c.Kind {
		case "models":
			models, err = one(k.Model(c.Name))
		case "gpus":
			gpus, err = one(k.GPU(c.Name))
		default:
			engines, err = one(k.Engine(c.Name))
		}
		if err != nil {
			return usagef("twin list: %w", err)
		}
	}
	if c.Output == "json" {
		list := any(engines)
		switch c.Kind {
		case "models":
			list = models
		case "gpus":
			list = gpus
		}
		return a.printJSON(map[string]any{c.Kind: list, "sources": k.Sources})
	}
	t := tabwriter.NewWriter(a.env.Stdout, 0, 0, 2, ' ', 0)
	row := func(cells ...any) {
		for i, cell := range cells {
			if i > 0 {
				fmt.Fprint(t, "\t")
			}
			fmt.Fprint(t, cell)
		}
		fmt.Fprintln(t)
	}
	switch {
	case c.Name != "":
		var e twin.Entry
		switch c.Kind {
		case "models":
			e = models[0].Entry()
		case "gpus":
			e = gpus[0].Entry()
		default:
			e = engines[0].Entry()
		}
		fmt.Fprintf(a.env.Stdout, "%s: %s\n", e.Name, e.Title)
		row("VALUE", "", "CONFIDENCE", "SOURCE")
		used := map[string]bool{}
		for _, f := range e.Figures {
			row(f.Name, f.Value, f.Conf, f.Source)
			used[f.Source] = true
		}
		if err := t.Flush(); err != nil {
			return err
		}
		for _, s := range slices.Sorted(maps.Keys(used)) {
			for i, l := range report.Wrap(k.Sources[s], report.Width-15) {
				if i > 0 {
					s = ""
				}
				fmt.Fprintf(a.env.Stdout, "%-14s %s\n", s, l)
			}
		}
		return nil
	case c.Kind == "models":
		row("MODEL", "SIZE", "ACTIVE", "EXPERTS", "CONTEXT", "CONFIDENCE")
		for i := range models {
			m := &models[i]
			experts, _, mixture := strings.Cut(m.FFN.String(), " x ")
			active := parameters(m.ActiveParams())
			if !mixture {
				experts, active = "-", "-"
			}
			row(m.Name, parameters(m.Params()), active, experts, report.Count(int64(m.Context)), m.Conf)
		}
	case c.Kind == "gpus":
		row("GPU", "BF16", "FP8", "FP4 TFLOPS", "GIB", "TB/S", "LINK GB/S", "W", "KERNELS")
		for i := range gpus {
			g := &gpus[i]
			kernels := "typical"
			if g.GEMM != nil {
				kernels = "fitted"
			}
			row(g.Name, some(g.BF16), some(g.FP8), some(g.FP4), some(g.MemoryGiB), some(g.Bandwidth), some(g.Link), some(g.TDP), kernels)
		}
	default:
		row("ENGINE", "WHAT IT IS")
		for i := range engines {
			row(engines[i].Name, engines[i].Title)
		}
	}
	return t.Flush()
}

// one makes a list of what was found by name.
func one[T any](found *T, err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	return []T{*found}, nil
}

// parameters writes a number of parameters as people name models.
func parameters(n float64) string {
	if n >= 999.5e9 {
		return fmt.Sprintf("%.3g T", n/1e12)
	}
	return fmt.Sprintf("%.3g B", n/1e9)
}

// some writes a value of the catalogue, - for none.
func some(v twin.Value) string {
	if v.V == 0 {
		return "-"
	}
	return strconv.FormatFloat(v.V, 'g', -1, 64)
}
