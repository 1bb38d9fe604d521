package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"plimsoll/internal/run"
	"plimsoll/internal/signal"
	"plimsoll/internal/stats"
	"plimsoll/internal/telemetry"
)

// besideName is the width of the names in the table of pairs.
const besideName = 40

// server writes what the servers said of themselves.
func (t *text) server(r *Run) {
	t.besideEngine()
	for _, g := range groupNames {
		t.serverGroup(g.name, g.group)
	}
	t.energy()
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
	g := t.s.Agreement
	if g == nil {
		return
	}
	rows := []struct {
		name  string
		pair  stats.Pair
		write func(float64) string
	}{
		{"prompt tokens", g.PromptTokens, number},
		{"output tokens", g.OutputTokens, number},
		{"ttft mean, ms", g.TTFT, compact},
		{"tpot mean, ms", g.TPOT, compact},
		{"e2e mean, ms", g.E2E, compact},
	}
	first := true
	for _, r := range rows {
		if r.pair.Engine == nil {
			continue
		}
		if first {
			first = false
			title := "BESIDE THE ENGINE, all of the run"
			t.b.WriteString("\n" + Pad(title, besideName) + PadLeft("engine", 13) + PadLeft("client", 13) + PadLeft("apart", 13) + "\n")
		}
		line := Pad("  "+r.name, besideName) + PadLeft(r.write(*r.pair.Engine), 13)
		if r.pair.Client == nil {
			t.b.WriteString(line + PadLeft("-", 13) + "\n")
			continue
		}
		apart := r.write(math.Abs(*r.pair.Client - *r.pair.Engine))
		switch {
		case apart == "0":
		case *r.pair.Client > *r.pair.Engine:
			apart = "+" + apart
		default:
			apart = "-" + apart
		}
		t.b.WriteString(line + PadLeft(r.write(*r.pair.Client), 13) + PadLeft(apart, 13) + "\n")
	}
	if first {
		return
	}
	note := "warm-up and drain included; apart is client less engine"
	switch {
	case g.Attributable == nil:
		note += "; whether others used the engine is not known"
	case !*g.Attributable:
		note += "; NOT ATTRIBUTABLE: the engine's figures are not of the requests of this run, or not of them alone; see the notes"
	}
	for _, l := range Wrap(note, Width-4) {
		t.b.WriteString("    " + l + "\n")
	}
}

var serverColumns = []string{"mean", "p50", "p95", "max"}

// serverGroup writes the signals of one group: those that did something in a table,
// the others in a line.
func (t *text) serverGroup(title string, g signal.Group) {
	var constant, zero []string
	first := true
	row := func(name string, d *signal.Def, v *stats.Dist) {
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
			unit = d.RateUnit()
		}
		most := math.Abs(*v.Mean)
		if v.Max != nil {
			most = max(most, math.Abs(*v.Max))
		}
		u, scale := commonUnit(unit, d.Combine == signal.Max, most)
		if strings.HasSuffix(name, "_imbalance") {
			u, scale = "", 1 // the highest over the mean
		}
		line := Pad("  "+name, courseName+1)
		for _, c := range serverColumns {
			cell := "-"
			if x := quantile(v, c); x != nil {
				cell = compact(*x * scale)
			}
			line += PadLeft(cell, courseValue+1)
		}
		t.b.WriteString(Cut(strings.TrimRight(line+" "+u, " "), Width) + "\n")
	}
	for _, d := range signal.All() {
		if d.Group != g {
			continue
		}
		for _, name := range []string{d.Name, d.Highest(), d.Name + "_imbalance"} {
			v := t.s.Server[name]
			switch {
			case v == nil || v.Count == 0 || v.Mean == nil:
			case *v.Mean == 0 && (v.Max == nil || *v.Max == 0):
				zero = append(zero, name)
			case d.Kind == signal.Constant && v.Min != nil && v.Max != nil && *v.Min == *v.Max:
				constant = append(constant, name+" "+SignalValue(&d, *v.Mean))
			default:
				row(name, &d, v)
			}
		}
	}
	if len(constant)+len(zero) == 0 {
		return
	}
	if first {
		t.b.WriteString("\n" + strings.ToUpper(title) + "\n")
	}
	for _, l := range []struct{ name, text string }{{"", strings.Join(constant, ", ")}, {"0 throughout: ", strings.Join(zero, ", ")}} {
		if l.text == "" {
			continue
		}
		for _, w := range Wrap(l.name+l.text, Width-4) {
			t.b.WriteString("    " + w + "\n")
		}
	}
}

// energy writes what the accelerators used in the window.
func (t *text) energy() {
	e := t.s.Energy
	if e == nil || e.Joules == nil || e.MeanW == nil {
		return
	}
	per := func(request, token *float64) string {
		var parts []string
		if request != nil {
			parts = append(parts, prefixed(*request, "J")+" per request")
		}
		if token != nil {
			parts = append(parts, prefixed(*token, "J")+" per output token")
		}
		return strings.Join(parts, ", ")
	}
	how := "from readings of power"
	if e.Source == "counter" {
		how = "from counters of energy"
	}
	lines := []string{fmt.Sprintf("%s in the window, %s on average, of %s, %s", prefixed(*e.Joules, "J"), prefixed(*e.MeanW, "W"), Plural(e.Devices, "device"), how)}
	if s := per(e.JPerRequest, e.JPerOutputToken); s != "" {
		lines = append(lines, s)
	}
	if e.IdleW != nil {
		s := "idle before the first request: " + prefixed(*e.IdleW, "W")
		if p := per(e.AboveIdleJPerRequest, e.AboveIdleJPerOutputToken); p != "" {
			s += "; without that " + p
		}
		lines = append(lines, s)
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
		for _, line := range sourceLines(&r.Sources[i], r.Alignment.of(i)) {
			for _, l := range Wrap(Printable(line), Width-margin-2) {
				t.b.WriteString(Pad(name, margin+indent) + l + "\n")
				name, indent = "", 2
			}
		}
	}
}

// Alignment is what was found out about the times of sources.
type Alignment run.Alignment

// of returns what is known of one source, nothing of one that is not known.
func (a *Alignment) of(source int) *run.SourceTimes {
	if a != nil {
		for i := range a.Sources {
			if a.Sources[i].Source == source {
				return &a.Sources[i]
			}
		}
	}
	return new(run.SourceTimes)
}

func sourceLines(s *telemetry.SourceInfo, times *run.SourceTimes) []string {
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
		parts = append(parts, fmt.Sprintf("%s every %s", Plural(s.Scrapes, "reading"), Nanos(s.Period)))
		if s.Failures > 0 {
			parts = append(parts, Count(s.Failures)+" FAILED")
		}
		if s.Skipped > 0 {
			parts = append(parts, Count(s.Skipped)+" left out")
		}
		if s.Period > s.PeriodAsked {
			parts = append(parts, "not every "+Nanos(s.PeriodAsked)+" since that costs the server too much")
		}
		switch every := times.RenewedEveryNS; {
		case every > 0 && !times.RenewedAtLeast && float64(every) > 1.2*float64(s.Period):
			parts = append(parts, "its values are renewed every "+Nanos(every)+" only")
		case s.UpdateEvery > s.Period:
			parts = append(parts, "its values are renewed every "+Nanos(s.UpdateEvery)+" only")
		}
		if times.TwoServers {
			parts = append(parts, "COUNTERS FALL again and again: several servers answer in turn, name each one's page instead")
		}
		if s.Kind != telemetry.KindHost {
			parts = append(parts, fmt.Sprintf("%s series in %s", Count(int64(s.Series)), Nanos(s.MeanTime)))
		}
		if s.ClockOffset != nil {
			c := "clock " + leading(*s.ClockOffset) + Nanos(abs(*s.ClockOffset))
			if s.ClockUncertainty != nil {
				c += ", give or take " + Nanos(*s.ClockUncertainty)
			}
			parts = append(parts, c)
		} else if times.ClockUnsteady {
			parts = append(parts, "its clock is NOT STEADY: readings of it contradict one another, how far it is off is not known")
		}
		if s.Restarts > 0 {
			parts = append(parts, Plural(s.Restarts, "restart"))
		}
		if s.GapCount > 0 {
			parts = append(parts, Plural(s.GapCount, "gap"))
		}
		if !s.Up && s.Why != "" {
			parts = append(parts, "last: "+s.Why)
		}
		if s.Drains {
			parts = append(parts, "reading takes the values from other readers")
		}
	default:
		parts = append(parts, strings.ToUpper(string(s.State))+": "+s.Why, Plural(s.Failures, "reading")+" failed")
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

// Nanos writes a duration in ns for people.
func Nanos(ns int64) string { return Seconds(time.Duration(ns).Seconds()) }

func abs(v int64) int64 { return max(v, -v) }

// leading is how far ahead or behind: + or -.
func leading(v int64) string {
	if v < 0 {
		return "-"
	}
	return "+"
}
