package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"plimsoll/internal/conduct"
	"plimsoll/internal/report"
	"plimsoll/internal/scenario"
)

type checkCmd struct {
	Target string `arg:"" name:"url-or-file" help:"The endpoint: a base, with or without /v1, or a full path. Or a file with a saved telemetry page; - is standard input."`
	Probe  bool   `name:"probe" help:"Also send a few requests to the model. They are listed, they use tokens, and each asks for 16."`
	Model  string `name:"model" placeholder:"NAME" help:"The model that the probes ask for; the first of the model list by default."`
	accessFlags
	TelemetryTables string        `name:"telemetry-tables" placeholder:"FILE,..." group:"data" help:"Files that say what the names on pages of other sources mean."`
	GetTimeout      time.Duration `name:"get-timeout" default:"5s" placeholder:"D" help:"Limit for each GET."`
	ProbeTimeout    time.Duration `name:"probe-timeout" default:"30s" placeholder:"D" help:"Limit for each probe."`
	outputFlag
}

func (*checkCmd) Help() string {
	return "Without --probe only GETs are sent: the model list, the paths of the APIs (to see how a GET is refused), /version and /health, and the usual places of telemetry: on the endpoint itself and, on this machine and in private networks, on the usual ports of its host. Nothing is sent twice."
}

func (*checkCmd) Examples() []string {
	return []string{
		"plimsoll check http://127.0.0.1:8000",
		"plimsoll check https://llm.example.com/v1 --api-key-env LLM_KEY --probe",
		"curl -s http://127.0.0.1:8000/metrics | plimsoll check -",
		"plimsoll check saved.prom --output json",
	}
}

func (c *checkCmd) Run(a *app, kctx *kong.Context) error {
	if c.GetTimeout <= 0 || c.ProbeTimeout <= 0 {
		return usagef("check: want time limits above 0")
	}
	page, isPage, err := a.page(c.Target)
	if err != nil {
		return err
	}
	url := c.Target
	if isPage {
		url = "http://localhost" // of a page nothing is sent
	}
	// Read as a scenario, so that flags mean and are refused the same as in run.
	sets, err := settings(kctx)
	if err != nil {
		return usagef("check: %w", err)
	}
	sets = append(sets,
		scenario.Setting{Path: "target.url", Value: url, Origin: "URL"},
		scenario.Setting{Path: "load.users", Value: "1", Origin: "check"})
	s, err := scenario.Read(scenario.Source{Settings: sets, Getenv: a.env.lookup})
	if err != nil {
		return &coded{code: exitUsage, err: err, hint: "see plimsoll check --help"}
	}
	if isPage {
		return c.page(a, page, s.Data.TelemetryTables)
	}
	if len(s.Target.URL) != 1 {
		return usagef("check: want one URL, got %d", len(s.Target.URL))
	}
	access, err := conduct.NewAccess(&s.Target, a.env.lookup, a.env.readFile)
	if err != nil {
		return usagef("check: %w", err)
	}
	tables, err := conduct.Tables(s.Data.TelemetryTables, a.env.readFile)
	if err != nil {
		return usagef("check: %w", err)
	}
	facts, err := conduct.Check(a.ctx, &conduct.CheckConfig{
		URL: s.Target.URL[0], Access: access, Timeout: c.GetTimeout,
		Probe: c.Probe, ProbeTimeout: c.ProbeTimeout, Model: c.Model, Tables: tables,
	})
	if err != nil {
		return usagef("check: %w", err)
	}
	if a.ctx.Err() != nil {
		return a.ctx.Err()
	}
	if c.Output == "json" {
		err = a.printJSON(facts)
	} else {
		err = writeFacts(a.env.Stdout, facts, c)
	}
	if err == nil && !facts.Reachable {
		return exitCode(exitFailed)
	}
	return err
}

// writeFacts writes what was found for a person to read.
func writeFacts(w io.Writer, f *conduct.Facts, c *checkCmd) error {
	var b strings.Builder
	line := func(name, text string) {
		for i, l := range report.Wrap(report.Printable(text), report.Width-13) {
			if i > 0 {
				name = ""
			}
			b.WriteString(report.Pad(name, 12) + l + "\n")
		}
	}
	line("endpoint", f.URL)
	if !f.Reachable {
		line("reachable", "no: "+f.Error.Kind+", "+f.Error.Text)
		b.WriteString("\n")
		line("sent", sentLine(f, c))
		_, err := io.WriteString(w, b.String())
		return err
	}
	s := "yes"
	if f.Address != "" {
		s += ", " + f.Address
	}
	if f.ConnectMS != nil {
		s += ", connect " + report.Seconds(*f.ConnectMS/1e3)
	}
	line("reachable", s+", "+f.Protocol)
	if t := f.TLS; t != nil {
		s := t.Version + ", " + t.Cipher
		if !t.Verified {
			s += ", NOT verified"
		}
		line("tls", s)
		line("", fmt.Sprintf("%s, by %s, until %s", t.Subject, t.Issuer, t.Expires.Format(time.DateOnly)))
	}
	for _, k := range sortedKeys(f.Header) {
		line("header", k+": "+f.Header[k])
	}
	if f.Engine != "" {
		line("engine", strings.TrimSpace(f.Engine+" "+f.Version)+" (a guess from "+f.EngineFrom+")")
	} else if f.Version != "" {
		line("version", f.Version)
	} else {
		line("engine", "not known")
	}
	switch {
	case f.Models == nil:
		line("models", "no model list; name one with --model")
	case len(f.Models) == 0:
		line("models", "the list is empty")
	}
	for i, m := range f.Models {
		name := ""
		if i == 0 {
			name = "models"
		}
		if i == 10 {
			line("", fmt.Sprintf("and %d more", len(f.Models)-i))
			break
		}
		s := m.ID
		if m.MaxContext != nil {
			s += ", context " + report.Count(*m.MaxContext)
		}
		line(name, s)
	}
	b.WriteString("\n")
	for _, api := range f.APIs {
		line(strings.TrimPrefix(api.API, "openai."), api.Path+": "+api.Text)
		if api.Probe != nil {
			for _, p := range api.Probe.Lines() {
				line("", p)
			}
		}
	}
	writeTelemetry(&b, f)
	b.WriteString("\n")
	line("sent", sentLine(f, c))
	if f.TelemetryTried > 0 {
		line("", fmt.Sprintf("and %d GET to find telemetry, one to each URL", f.TelemetryTried))
	}
	if !c.Probe {
		line("", "streaming, usage and exact lengths: add --probe (sends a few requests)")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func sentLine(f *conduct.Facts, c *checkCmd) string {
	gets, posts := 0, 0
	for _, s := range f.Sent {
		if s.Method == "GET" {
			gets++
		} else {
			posts++
		}
	}
	s := fmt.Sprintf("%d GET (limit %s each)", gets, c.GetTimeout)
	if posts > 0 {
		s += fmt.Sprintf(" and %d POST (limit %s each)", posts, c.ProbeTimeout)
	}
	return s + ", nothing twice"
}

func sortedKeys(m map[string]string) []string {
	return slices.Sorted(maps.Keys(m))
}
