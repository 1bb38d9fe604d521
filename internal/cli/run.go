package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"

	"plimsoll/internal/conduct"
	"plimsoll/internal/probe"
	"plimsoll/internal/report"
	"plimsoll/internal/scenario"
)

// scenarioFlags are the flags of run that make a scenario: each has the name of
// its field. Their values are text: the scenario reads, checks and refuses them exactly as it does those of
// a file.
type scenarioFlags struct {
	URL         []string `name:"url" sep:"none" placeholder:"URL[,URL]" group:"target" help:"The endpoint: a base, with or without /v1, or a full path. Several are used in turn."`
	Model       string   `name:"model" placeholder:"NAME" group:"target" help:"The model to ask for. Without it the model list is asked for its first."`
	API         string   `name:"api" placeholder:"NAME" group:"target" help:"openai.chat (default), openai.completions or openai.responses."`
	NoStream    bool     `name:"no-stream" group:"target" help:"Ask for one body instead of a stream."`
	Usage       string   `name:"usage" placeholder:"WHEN" group:"target" help:"Ask for token counts in a stream: final (default), running or none."`
	Tokenizer   string   `name:"tokenizer" placeholder:"FILE" group:"target" help:"The model's tokenizer.json, or tiktoken's ranks as ENCODING:FILE: counts output tokens where the server does not."`
	Temperature string   `name:"temperature" placeholder:"X" group:"target" help:"Sampling temperature; left to the server by default."`
	Hardware    string   `name:"hardware" placeholder:"[Nx]GPU[,P]" group:"target" help:"What one replica runs on, as h100 or 2xh100,fp8: answers faster than its memory are noted."`
	IgnoreEOS   toggle   `name:"ignore-eos" group:"target" help:"Ask for exactly as many tokens as wanted (vllm, sglang, trtllm)."`
	ExtraBody   string   `name:"extra-body" placeholder:"JSON" group:"target" help:"Further fields of the request body, as a JSON object."`
	accessFlags
	ConnectTimeout   string `name:"connect-timeout" placeholder:"D" group:"target" help:"Limit for name, connect and TLS (default 10s)."`
	HeaderTimeout    string `name:"header-timeout" placeholder:"D" group:"target" help:"Limit from the request sent to the response header (default 10m)."`
	IdleTimeout      string `name:"idle-timeout" placeholder:"D" group:"target" help:"Limit for silence within a response (default 2m)."`
	Timeout          string `name:"timeout" placeholder:"D" group:"target" help:"Limit for a whole request (default 1h)."`
	NewConnection    bool   `name:"new-connection" group:"target" help:"A new connection for every request."`
	ResetPrefixCache bool   `name:"reset-prefix-cache" group:"target" help:"POST /reset_prefix_cache before the run (vllm)."`

	Workload     []string `name:"workload" sep:"none" placeholder:"NAME[=WEIGHT],..." group:"users" help:"Workloads of the library, or files, instead of the two lengths below; several share the users or sessions by weight."`
	PromptTokens string   `name:"prompt-tokens" placeholder:"DIST" group:"users" help:"Prompt length: 512, uniform:100..900, normal:512,64 or lognormal:p50=400,p99=4000 (default 512)."`
	OutputTokens string   `name:"output-tokens" placeholder:"DIST" group:"users" help:"Output length, likewise (default 128)."`
	Lengths      string   `name:"lengths" placeholder:"HOW" group:"users" help:"exact asks the server before the run how long its tokens are, where there is no tokenizer; estimated (default) does not."`
	replayFlags

	Users       string `name:"users" placeholder:"N[,N...]" group:"load" help:"Users that each wait for their answer. A list is run one step after another."`
	Rate        string `name:"rate" placeholder:"R[,R...]" group:"load" help:"Requests a second, whatever the answers do, instead of users."`
	Arrival     string `name:"arrival" placeholder:"KIND" group:"load" help:"How a rate arrives: poisson (default), constant or gamma."`
	Burstiness  string `name:"burstiness" placeholder:"X" group:"load" help:"Of gamma arrivals: 1 is poisson, less is burstier, more is more even."`
	Shape       string `name:"shape" placeholder:"SHAPE" group:"load" help:"How the rate goes: ramp:from=0.1,to=3,over=5m, spikes:to=5,every=1m,for=5s, market-open:to=10,after=30s,fade=1m, diurnal:low=0.5,high=1.5,period=1h or on-off:on=10s,off=20s."`
	Stages      string `name:"stages" placeholder:"FILE" group:"load" help:"Stages instead of a rate and a duration: a file of lines as 30s:10 or 1m:10..50, or the stages with commas."`
	Duration    string `name:"duration" placeholder:"D" group:"load" help:"Length of the steady window of each step (default 1m)."`
	Requests    string `name:"requests" placeholder:"N" group:"load" help:"Number of requests of each step, instead of a duration."`
	Warmup      string `name:"warmup" placeholder:"D" group:"load" help:"Load before the window, not in the figures."`
	Drain       string `name:"drain" placeholder:"D" group:"load" help:"How long to wait at the end for requests of the window (default 1m)."`
	MaxInFlight string `name:"max-in-flight" placeholder:"N" group:"load" help:"Cap on requests in flight."`
	Seed        string `name:"seed" placeholder:"N" group:"load" help:"Equal seeds make equal prompts, lengths and arrivals."`

	SLO            []string `name:"slo" sep:"none" placeholder:"LIMIT,..." group:"guards" help:"What is expected: ttft.p95=500ms,tpot.mean=40ms. Missed: exit code 3."`
	MaxErrorShare  string   `name:"max-error-share" placeholder:"X" group:"guards" help:"Stop when more than this share of the last 100 requests failed (default 0.5)."`
	MaxTotalTokens string   `name:"max-total-tokens" placeholder:"N" group:"guards" help:"Stop when this many tokens have been used."`

	Name              string   `name:"name" placeholder:"S" group:"data" help:"Name of the run."`
	Tag               []string `name:"tag" sep:"none" placeholder:"K=V" group:"data" help:"A label of the run; may be repeated."`
	Out               string   `name:"out" placeholder:"DIR" group:"data" help:"Folder of runs (default runs)."`
	SaveText          bool     `name:"save-text" group:"data" help:"Keep the answers too."`
	Telemetry         string   `name:"telemetry" placeholder:"URL,..." group:"data" help:"auto (default: looked for on the endpoint's host), none, or pages to read; auto may stand beside pages."`
	TelemetryInterval string   `name:"telemetry-interval" placeholder:"D" group:"data" help:"Time between two readings, 100ms to 1m (default 1s)."`
	TelemetryTables   []string `name:"telemetry-tables" sep:"none" placeholder:"FILE,..." group:"data" help:"Files that say what the names on pages of other sources mean."`
	Set               []string `name:"set" sep:"none" placeholder:"PATH=VALUE" group:"data" help:"Set any field of the scenario; may be repeated."`

	// Fields of later versions: the scenario says so, better than an unknown flag
	// would.
	Agents string `name:"agents" hidden:""`
}

// settings returns the fields of a scenario that the flags on the command line
// set, in the order in which they were given.
func settings(kctx *kong.Context) ([]scenario.Setting, error) {
	var out []scenario.Setting
	seen := map[string]int{} // values of a repeated flag already taken
	for _, at := range kctx.Path {
		f := at.Flag
		if f == nil {
			continue
		}
		var text string
		values, many := f.Target.Interface().([]string)
		switch {
		case many:
			i := seen[f.Name]
			seen[f.Name]++
			if i >= len(values) {
				continue
			}
			text = values[i]
		case f.IsBool():
			text = fmt.Sprint(f.Target.Bool())
		default:
			text = fmt.Sprint(f.Target.Interface())
		}
		if f.Name == "set" {
			s, err := scenario.ParseSet(text)
			if err != nil {
				return nil, err
			}
			out = append(out, s)
			continue
		}
		path, ok := scenario.FlagPath(f.Name)
		if !ok {
			continue
		}
		out = append(out, scenario.Setting{Path: path, Value: text, Origin: "--" + f.Name, Add: many})
	}
	return out, nil
}

// readScenario makes the scenario of a file (none for "") and settings.
func (a *app) readScenario(name string, sets []scenario.Setting) (*scenario.Scenario, error) {
	return a.readScenarioFor(name, sets, "")
}

// readScenarioFor is readScenario with a URL for scenarios that name none.
func (a *app) readScenarioFor(name string, sets []scenario.Setting, url string) (*scenario.Scenario, error) {
	if err := a.stageFiles(sets); err != nil {
		return nil, err
	}
	src := scenario.Source{Name: name, Settings: sets, Getenv: a.env.lookup, URL: url, Complete: probe.Complete(a.env.readFile)}
	if name != "" {
		data, err := a.env.readFile(name)
		if err != nil {
			if strings.Contains(name, "://") {
				return nil, usagef("read scenario %s: want a file; an endpoint is named by --url", report.Printable(name))
			}
			return nil, usagef("read scenario: %w", err)
		}
		if data == nil {
			data = []byte{}
		}
		src.Data = data
		if name == "-" {
			src.Name = "stdin"
		}
	}
	s, err := scenario.Read(src)
	if err != nil {
		return nil, &coded{code: exitUsage, err: err, hint: "see plimsoll run --help, plimsoll schema"}
	}
	return s, nil
}

// stageFiles puts the stages of a file where --stages names one.
func (a *app) stageFiles(sets []scenario.Setting) error {
	for i := range sets {
		set := &sets[i]
		if set.Path != "load.stages" || set.Origin != "--stages" || strings.HasPrefix(set.Value, "[") {
			continue
		}
		first, _, _ := strings.Cut(set.Value, ",")
		if _, err := scenario.ParseStage(first); err == nil {
			continue
		}
		data, err := a.env.readFile(set.Value)
		if err != nil {
			return usagef("--stages: want a file, or stages as in 30s:10,1m:10..50: %w", err)
		}
		stages, err := scenario.ReadStages(report.Printable(set.Value), data)
		if err != nil {
			return usagef("--stages: %w", err)
		}
		texts := make([]string, len(stages))
		for i, s := range stages {
			texts[i] = s.String()
		}
		set.Value = strings.Join(texts, ",")
	}
	return nil
}

type runCmd struct {
	Scenario string `arg:"" optional:"" help:"A scenario file (YAML); - is standard input. Flags win over the file."`
	scenarioFlags
	DryRun bool   `name:"dry-run" group:"guards" help:"Print the plan: every field with where it came from, requests, tokens, bytes, duration. Sends nothing."`
	Quiet  bool   `name:"quiet" group:"output" help:"No progress."`
	Live   bool   `name:"live" group:"output" help:"On a terminal, more than a line of progress: latencies, tokens, the servers and this client, once a second."`
	Serve  string `name:"serve" placeholder:"ADDR" group:"output" help:"Show the run in a panel at this address while it goes on, as 127.0.0.1:8315; it stays there afterwards until Ctrl-C."`
	outputFlag
}

func (*runCmd) Help() string {
	return `Exit codes: 0 done and every SLO met, 1 the run failed, 2 wrong usage or scenario, 3 an SLO was missed, 4 the client was the limit or the run is invalid, 130 interrupted (what was measured is kept).

Ctrl-C once: nothing new is started, what is in flight may end. Twice: at once.`
}

func (*runCmd) Examples() []string {
	return []string{
		"plimsoll run --url http://127.0.0.1:8000 --users 4 --duration 30s",
		"plimsoll run --url http://127.0.0.1:8000 --rate 2,4,8 --duration 1m \\",
		"    --prompt-tokens uniform:100..900 --slo ttft.p95=500ms",
		"plimsoll run chat.yaml --set load.users=16 --dry-run",
		"plimsoll run --url http://127.0.0.1:8000 --trace conversation.jsonl --speed 2",
		"plimsoll run --url http://127.0.0.1:8000 --workload kv/capacity",
		"plimsoll run chat.yaml --serve 127.0.0.1:8315",
	}
}

func (c *runCmd) Run(a *app, kctx *kong.Context) error {
	sets, err := settings(kctx)
	if err != nil {
		return usagef("run: %w", err)
	}
	s, err := a.readScenario(c.Scenario, sets)
	if err != nil {
		return err
	}
	if s.Name == "" && c.Scenario != "" && c.Scenario != "-" {
		base := filepath.Base(c.Scenario)
		s.Name = strings.TrimSuffix(base, filepath.Ext(base))
	}
	if c.DryRun {
		plan, err := conduct.NewPlan(s, a.env.readFile, a.env.path("."))
		if err != nil {
			return usagef("run: %w", err)
		}
		if c.Output == "json" {
			return a.printJSON(plan)
		}
		return a.printPlan(plan)
	}
	return a.measure(s, c.Output, showing{quiet: c.Quiet, block: c.Live, serve: c.Serve, stay: true})
}

func (a *app) printPlan(p *conduct.Plan) error {
	var b strings.Builder
	path, value := len("field"), len("value")
	for _, f := range p.Fields {
		path, value = max(path, len(f.Path)), max(value, len(f.Value))
	}
	path, value = min(path, 26), min(value, 30)
	room := report.Width - path - value - 4
	row := func(x, y, z string) {
		x, y, z = report.Printable(x), report.Printable(y), report.Printable(z)
		if n := len([]rune(z)); n > room && len([]rune(y)) <= value && strings.ContainsRune(z, filepath.Separator) {
			// The end of a path and the line are what a reader needs.
			if r := []rune(z); room > 12 {
				z = "…" + string(r[n-room+1:])
			}
		}
		line := report.Pad(x, path) + "  " + report.Pad(y, value) + "  " + z
		if len([]rune(y)) > value || len([]rune(line)) > report.Width {
			// A long value has lines of its own.
			b.WriteString(report.Pad(x, path) + "  " + report.Cut(z, report.Width-path-2) + "\n")
			for _, l := range report.Wrap(y, report.Width-4) {
				b.WriteString("    " + l + "\n")
			}
			return
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	row("field", "value", "from")
	for _, f := range p.Fields {
		row(f.Path, f.Value, f.Origin)
	}
	b.WriteString("\n")
	line := func(name, text string) {
		for _, l := range report.Wrap(report.Printable(text), report.Width-11) {
			b.WriteString(report.Pad(name, 10) + l + "\n")
			name = ""
		}
	}
	for i, u := range p.Endpoints {
		name := ""
		if i == 0 {
			name = "sends to"
		}
		line(name, u)
	}
	for i, u := range p.Searches {
		name := ""
		if i == 0 {
			name = "searches"
		}
		line(name, u)
	}
	for i, text := range describeReading(p) {
		name := ""
		if i == 0 {
			name = "telemetry"
		}
		line(name, text)
	}
	if l := p.Lengths; l != nil {
		line("lengths", fmt.Sprintf("%d texts (%s; about %s tokens) are counted before the run by POST %s, else as requests for one token",
			l.Texts, strings.Join(l.Generators, ", "), report.Count(l.Tokens), l.Tokenize))
	}
	if p.Replay != nil {
		for i, text := range append(describeReplay(p.Replay), p.Replay.Notices...) {
			name := ""
			if i == 0 {
				name = p.Replay.Kind
			}
			line(name, text)
		}
	}
	for i, st := range p.Steps {
		name := ""
		if i == 0 {
			name = "load"
		}
		if i == 12 && len(p.Steps) > 13 {
			line("", fmt.Sprintf("and %d more steps", len(p.Steps)-i))
			break
		}
		line(name, describeStep(&st))
		for j := range st.Workloads {
			line("", "  "+describePart(&st.Workloads[j]))
		}
	}
	if p.Requests == nil {
		line("requests", "as many as the answers leave time for")
		line("each", fmt.Sprintf("about %s prompt and %s output tokens, %s sent",
			report.Figure(p.MeanPrompt), report.Figure(p.MeanOutput), report.Bytes(int64(p.MeanBody))))
	} else if p.PromptTokens == nil || p.OutputTokens == nil {
		line("requests", "about "+report.Count(*p.Requests))
		line("tokens", "as many as the answers make of them")
	} else {
		line("requests", "about "+report.Count(*p.Requests))
		line("tokens", fmt.Sprintf("about %s prompt (without chat template) and at most %s output",
			report.Count(*p.PromptTokens), report.Count(*p.OutputTokens)))
		if p.SentBytes != nil {
			line("bytes", "about "+report.Bytes(*p.SentBytes)+" sent")
		}
	}
	if p.MaxTotalTokens > 0 {
		line("", "stopped before "+report.Count(p.MaxTotalTokens)+" tokens are used")
	}
	drain := "; up to " + report.Seconds(p.DrainS) + " more to drain"
	if p.DrainS == 0 {
		drain = ""
	}
	if p.DurationS != nil {
		line("duration", report.Seconds(*p.DurationS)+drain)
	} else {
		line("duration", "until the last answer"+drain)
	}
	line("hash", p.Hash)
	line("sent", "nothing")
	_, err := fmt.Fprint(a.env.Stdout, b.String())
	return err
}

// describePart says the load of one of several workloads.
func describePart(w *conduct.PlanPart) string {
	text := report.Printable(w.Workload) + ": "
	if w.Users > 0 {
		return text + report.Plural(w.Users, "user")
	}
	text += report.Figure(w.Rate) + " sessions/s, " + w.Arrival
	if w.Burstiness != 0 {
		text += " of burstiness " + report.Figure(w.Burstiness)
	}
	if w.Shape != "" {
		text += ", " + w.Shape
	}
	return text
}

func describeStep(st *conduct.PlanStep) string {
	var s string
	if st.Users > 0 {
		s = report.Plural(st.Users, "user")
	}
	if st.Users > 0 && st.Rate > 0 {
		s += " and "
	}
	if st.Rate == 0 {
		// Users alone.
	} else if st.Trace {
		s = "at the times of the trace, " + report.Figure(st.Rate) + " requests/s on average"
	} else {
		unit := " requests/s, "
		if st.Sessions {
			unit = " sessions/s, "
		}
		s += report.Figure(st.Rate) + unit + st.Arrival
		if st.Burstiness != 0 {
			s += " of burstiness " + report.Figure(st.Burstiness)
		}
		if st.Shape != "" {
			s += ", " + st.Shape
		}
	}
	if st.WarmupS > 0 {
		s += ", " + report.Seconds(st.WarmupS) + " warm-up"
	}
	if st.DurationS != nil {
		s += ", " + report.Seconds(*st.DurationS) + " measured"
	} else {
		s += ", until its requests are done"
	}
	if st.Requests != nil {
		s += ", about " + report.Plural(*st.Requests, "request")
	}
	return s
}
