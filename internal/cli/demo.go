package cli

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"plimsoll/internal/report"
	"plimsoll/internal/scenario"
	"plimsoll/internal/twin"
)

// The demo's engine and what is expected of it.
const (
	demoModel  = "llama-3.1-8b"
	demoGPU    = "h100"
	demoGPUs   = 2
	demoSLO    = "ttft.p95=2s,tpot.p95=50ms"
	demoWarmup = 5 * time.Second
	demoPanel  = "127.0.0.1:0"
	// demoFull is the window in which demoUsers arrive as often as they say. In a
	// shorter one they arrive more often, so that there is something of each.
	demoFull = 20 * time.Second
)

// demoUsers are the demo's users: long documents, chains of thought, branches that
// share a context, and decisions that arrive in bursts.
var demoUsers = []struct {
	workload string
	rate     float64 // sessions a second
	bursts   bool
}{
	{"legal/contract-review", 0.2, false},
	{"healthcare/clinical-reasoning", 0.25, false},
	{"research/citation-expansion", 0.06, false},
	{"finance/strategy-simulation", 0.1, true},
}

// demoLoad is the load.workloads of a demo whose window is so long.
func demoLoad(window time.Duration) string {
	scale := max(1, demoFull.Seconds()/window.Seconds())
	var b strings.Builder
	for i, u := range demoUsers {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "{workload: %s, rate: %.6g", u.workload, u.rate*scale)
		if u.bursts { // three in the window, and some of a fourth
			fmt.Fprintf(&b, `, shape: "spikes:to=6,every=%v,for=%v"`, window*3/10, window*3/50)
		}
		b.WriteString("}")
	}
	return "[" + b.String() + "]"
}

type demoCmd struct {
	Duration  time.Duration `name:"duration" default:"50s" placeholder:"D" help:"Length of the measured window."`
	Out       string        `name:"out" default:"runs" placeholder:"DIR" help:"Folder of runs."`
	Seed      uint64        `name:"seed" default:"1" placeholder:"N" help:"Equal seeds make equal questions at equal times."`
	NoBrowser bool          `name:"no-browser" help:"Open no browser; the panel's address is printed."`
	Quiet     bool          `name:"quiet" group:"output" help:"No progress."`
	outputFlag
}

func (*demoCmd) Help() string {
	return "The twin listens on a free port of this machine alone. Users of four workloads of the library arrive: reviews of contracts, clinical reasoning, citations that are expanded, and market decisions in bursts; what is printed at the end is what \"plimsoll run\" prints for a real endpoint. Meanwhile a panel shows it in the browser, and stays until Ctrl-C where a person watches."
}

func (*demoCmd) Examples() []string {
	return []string{"plimsoll demo", "plimsoll demo --duration 10s --quiet"}
}

func (c *demoCmd) Run(a *app) error {
	if c.Duration <= 0 {
		return usagef("demo: --duration %s: want a duration above 0", c.Duration)
	}
	url, stop, err := startTwin(a.hard, twin.ServerConfig{Model: demoModel, GPU: demoGPU, TP: demoGPUs, Seed: c.Seed})
	if err != nil {
		return err
	}
	defer stop()
	set := func(path, value string) scenario.Setting {
		return scenario.Setting{Path: path, Value: value, Origin: "demo"}
	}
	s, err := a.readScenario("", []scenario.Setting{
		set("name", "demo"),
		set("seed", fmt.Sprint(c.Seed)),
		set("target.url", url),
		set("target.ignore-eos", "true"),
		set("load.workloads", demoLoad(c.Duration)),
		set("load.warmup", min(demoWarmup, c.Duration/4).String()),
		set("load.duration", c.Duration.String()),
		set("load.drain", "20s"),
		set("guards.slo", demoSLO),
		set("data.out", c.Out),
		set("data.telemetry", url+"/metrics,"+url+"/dcgm/metrics,"+url+"/node/metrics"),
		set("target.hardware", fmt.Sprintf("%dx%s", demoGPUs, demoGPU)),
	})
	if err != nil {
		return err
	}
	if !c.Quiet {
		_, _ = fmt.Fprintf(a.env.Stderr, "a simulated %s on %d %s at %s, users of %d workloads for %s\n",
			demoModel, demoGPUs, demoGPU, url, len(demoUsers), c.Duration)
	}
	// Who reads its output from a pipe, or is a machine that tests, waits for its end.
	_, ci := a.env.lookup("CI")
	person := a.env.StdoutTTY && !ci
	err = a.measure(s, c.Output, showing{quiet: c.Quiet, serve: demoPanel, browse: person && !c.NoBrowser, stay: person})
	code, ok := err.(exitCode) //nolint:errorlint // measure returns it bare
	if !ok {
		return err
	}
	if c.Output == "text" {
		program := cmp.Or(report.Printable(a.env.Program), "plimsoll")
		out := ""
		if c.Out != "runs" {
			out = " --out " + report.Printable(c.Out)
		}
		_, _ = fmt.Fprintf(a.env.Stdout, "\nthis again      %[1]s report latest%[2]s\nyour endpoint   %[1]s run --url http://HOST:PORT --users 4 --duration 30s\n", program, out)
	}
	if code == exitMissed {
		// The demo's service levels are not the user's.
		return nil
	}
	return code
}

// startTwin serves a twin on a free loopback port until ctx ends or stop is
// called, which waits for its end.
func startTwin(ctx context.Context, cfg twin.ServerConfig) (url string, stop func(), err error) {
	s, err := twin.NewServer(cfg)
	if err != nil {
		return "", nil, fmt.Errorf("start the twin: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("start the twin: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		// It ends with its context; until then a failure to accept shows in the run.
		_ = s.Serve(ctx, l)
	}()
	return "http://" + l.Addr().String(), func() { cancel(); <-done }, nil
}
