package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"plimsoll/internal/signal"
	"plimsoll/internal/stats"
	"plimsoll/internal/telemetry"
)

// pair is a figure of the engine with the client's own of the same.
type pair struct {
	name           string
	engine, client *float64
}

// besideName is the width of the names in the table of pairs.
const besideName = 34

// mean returns the mean of a server signal, nil when it is not known.
func (t *text) mean(id signal.ID) *float64 {
	if d := t.s.Server[id.String()]; d != nil {
		return d.Mean
	}
	return nil
}

// inMS turns seconds into ms.
func inMS(v *float64) *float64 {
	if v == nil {
		return nil
	}
	x := *v * 1e3
	return &x
}

func meanOf(d *stats.Dist) *float64 {
	if d == nil {
		return nil
	}
	return d.Mean
}

// server writes what the servers said of themselves.
func (t *text) server(r *Run) {
	if len(t.s.Server) == 0 && len(r.Sources) == 0 {
		return
	}
	t.besideEngine()
	for _, g := range groupNames {
		t.serverGroup(g.name, g.group)
	}
	t.energy(r)
	t.sources(r)
}

// attributable says whether the servers' figures are of this run's requests; it is
// not known to be otherwise.
func (t *text) attributable() bool {
	for _, r := range t.s.Run.Reasons {
		if r.Check == "engine_tokens" {
			return false
		}
	}
	return true
}

// besideEngine writes the engine's figures and the client's side by side.
func (t *text) besideEngine() {
	l, k := &t.s.Latency, &t.s.Tokens
	pairs := []pair{
		{"requests in flight", t.mean(signal.RequestsRunning), meanOf(t.s.Load.RequestsInFlight)},
		{"prompt tokens/s", t.mean(signal.PromptTokens), k.PromptPerS},
		{"output tokens/s", t.mean(signal.GenerationTokens), k.OutputPerS},
		{"ttft mean, ms", inMS(t.mean(signal.TTFT)), meanOf(l.TTFT)},
		{"tpot mean, ms", inMS(t.mean(signal.TPOT)), meanOf(l.TPOT)},
		{"itl mean, ms", inMS(t.mean(signal.ITL)), meanOf(l.ITL)},
		{"e2e mean, ms", inMS(t.mean(signal.E2E)), meanOf(l.E2E)},
	}
	if w := t.mean(signal.RequestsWaiting); w != nil && pairs[0].engine != nil {
		x := *w + *pairs[0].engine
		pairs[0].engine = &x
	}
	first := true
	for _, p := range pairs {
		if p.engine == nil {
			continue
		}
		if first {
			first = false
			title := "BESIDE THE ENGINE"
			if !t.attributable() {
				title += " (not attributable)"
			}
			t.b.WriteString("\n" + Pad(title, besideName) + PadLeft("engine", 10) + PadLeft("client", 10) + PadLeft("apart", 10) + "\n")
		}
		client, apart := "-", ""
		if p.client != nil {
			client, apart = compact(*p.client), signed(*p.client-*p.engine)
		}
		t.b.WriteString(Pad("  "+p.name, besideName) + PadLeft(compact(*p.engine), 10) + PadLeft(client, 10) + PadLeft(apart, 10) + "\n")
	}
	if !first {
		t.b.WriteString("    engine: requests running and waiting, tokens that it counted, means of its\n" +
			"    histograms; client: those of this run; apart: client less engine\n")
	}
}

func signed(v float64) string {
	s := compact(v)
	if v > 0 && s != "0" {
		s = "+" + s
	}
	return s
}

var serverColumns = []string{"mean", "p50", "p95", "max"}

// serverGroup writes the signals of one group.
func (t *text) serverGroup(title string, g signal.Group) {
	first := true
	for _, d := range signal.All() {
		v := t.s.Server[d.Name]
		if d.Group != g || v == nil || v.Count == 0 || v.Mean == nil {
			continue
		}
		if first {
			first = false
			t.b.WriteString("\n" + Pad(strings.ToUpper(title), courseName+1))
			for _, c := range serverColumns {
				t.b.WriteString(PadLeft(c, courseValue+1))
			}
			t.b.WriteString("\n")
		}
		unit := d.Unit
		if d.Kind == signal.Counter {
			unit = rateUnit(&d)
		}
		most := math.Abs(*v.Mean)
		if v.Max != nil {
			most = max(most, math.Abs(*v.Max))
		}
		u, scale := commonUnit(unit, d.Combine == signal.Max, most)
		line := Pad("  "+d.Name, courseName+1)
		for _, c := range serverColumns {
			cell := "-"
			if x := quantile(v, c); x != nil {
				cell = compact(*x * scale)
			}
			line += PadLeft(cell, courseValue+1)
		}
		t.b.WriteString(Cut(strings.TrimRight(line+" "+u, " "), Width) + "\n")
	}
}

// rateUnit is the unit of a counter's growth.
func rateUnit(d *signal.Def) string {
	switch {
	case d.ID == signal.HostCPU || d.ID == signal.EngineCPU:
		return "cores"
	case d.Unit == "J":
		return "W"
	}
	return d.Unit + "/s"
}

// Energy is what the run used.
type Energy struct {
	// PerRequest and PerToken are joules per ok request and per output token, nil when
	// unknown. Of says of what they are.
	PerRequest, PerToken *float64
	// Idle is the power in W before the first request, nil when unknown.
	Idle *float64
	Of   string
}

func (t *text) energy(r *Run) {
	e := r.Energy
	if e == nil {
		return
	}
	var parts []string
	if e.PerRequest != nil {
		parts = append(parts, Figure(*e.PerRequest)+" J per request")
	}
	if e.PerToken != nil {
		parts = append(parts, Figure(*e.PerToken)+" J per output token")
	}
	if len(parts) == 0 {
		return
	}
	lines := []string{strings.Join(parts, ", ")}
	if e.Of != "" {
		lines = append(lines, e.Of)
	}
	if e.Idle != nil {
		lines = append(lines, prefixed(*e.Idle, "W")+" before the first request, which is in these figures")
	}
	t.section("ENERGY", lines...)
}

// sources writes what became of each source.
func (t *text) sources(r *Run) {
	name := "SOURCES"
	for i := range r.Sources {
		if i == 0 {
			t.b.WriteString("\n")
		}
		indent := 0
		for _, line := range sourceLines(&r.Sources[i]) {
			for _, l := range Wrap(Printable(line), Width-margin-2) {
				t.b.WriteString(Pad(name, margin+indent) + l + "\n")
				name, indent = "", 2
			}
		}
	}
}

func sourceLines(s *telemetry.SourceInfo) []string {
	name := s.Name
	if s.URL != "" {
		name = s.URL
	}
	if s.Kind == telemetry.KindHost {
		name = "this machine (/proc)"
	}
	if len(s.Sources) > 0 && s.Kind != telemetry.KindHost {
		name = strings.Join(s.Sources, ", ") + " at " + name
	}
	var parts []string
	switch {
	case s.State == telemetry.StateOK:
		parts = append(parts, fmt.Sprintf("%s every %s", plural(s.Scrapes, "reading"), nanos(s.Period)))
		if s.Failures > 0 {
			parts = append(parts, Count(s.Failures)+" FAILED")
		}
		if s.Skipped > 0 {
			parts = append(parts, Count(s.Skipped)+" left out")
		}
		if s.Period > s.PeriodAsked {
			parts = append(parts, "not every "+nanos(s.PeriodAsked)+" since that costs the server too much")
		}
		if s.UpdateEvery > 0 {
			parts = append(parts, "renewed every "+nanos(s.UpdateEvery))
		}
		if s.Kind != telemetry.KindHost {
			parts = append(parts, fmt.Sprintf("%s series in %s", Count(int64(s.Series)), nanos(s.MeanTime)))
		}
		if s.ClockOffset != nil {
			c := "clock " + leading(*s.ClockOffset) + nanos(abs(*s.ClockOffset))
			if s.ClockUncertainty != nil {
				c += ", give or take " + nanos(*s.ClockUncertainty)
			}
			parts = append(parts, c)
		}
		if s.Restarts > 0 {
			parts = append(parts, plural(s.Restarts, "restart"))
		}
		if s.GapCount > 0 {
			parts = append(parts, plural(s.GapCount, "gap"))
		}
		if !s.Up && s.Why != "" {
			parts = append(parts, "last: "+s.Why)
		}
		if s.Drains {
			parts = append(parts, "reading takes the values from other readers")
		}
	default:
		parts = append(parts, strings.ToUpper(string(s.State))+": "+s.Why, plural(s.Failures, "reading")+" failed")
	}
	out := []string{name + ": " + strings.Join(parts, "; ")}
	const shown = 3
	for i, p := range s.Problems {
		if i == shown {
			out = append(out, fmt.Sprintf("and %s more; run.json has them", Count(int64(len(s.Problems)-shown))))
			break
		}
		line := p.Text
		if p.Line > 0 {
			line = fmt.Sprintf("line %d: %s", p.Line, p.Text)
		}
		if p.Count > 1 {
			line += fmt.Sprintf(" (%s times)", Count(p.Count))
		}
		out = append(out, line)
	}
	return out
}

func nanos(ns int64) string { return Seconds(time.Duration(ns).Seconds()) }

func abs(v int64) int64 { return max(v, -v) }

// leading is how far ahead or behind: + or -.
func leading(v int64) string {
	if v < 0 {
		return "-"
	}
	return "+"
}
