// Package probe makes results of the library's probes: the steps that one runs,
// how far up its ladder it goes, and what the records of a run come to, as a figure
// with its interval. It owns the fits and how sure they are. A fit is a function of
// the scenario, the records and the timeline alone. It never sends anything,
// carries no run out (conduct) and draws nothing (report).
package probe

import (
	"fmt"
	"iter"
	"math"
	"strings"

	"plimsoll/internal/conduct"
	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/scenario"
	"plimsoll/internal/workload"
)

// kind is one probe.
type kind struct {
	question string
	x, y     run.ProbeAxis
	// steps is the ladder, nil for that of the workload's file.
	steps func() []scenario.LoadStep
	// users are those of each rung of the file's ladder, requests the number of
	// requests of a rung for so many users.
	users    []int
	requests func(users int) int
	// newConnection says that each request has a connection of its own.
	newConnection bool
	// climbs says that each rung asks for more than the one before: after one that
	// was refused there is none that will not be.
	climbs bool
	// events says that the fit looks at every token.
	events bool
	// enough says whether the steps so far, of which the last has just ended, will do;
	// nil goes up to the top.
	enough func(d *data, last int) bool
	// fit fills in the points, the fits and the notes.
	fit func(d *data, out *run.Probe)
}

// kinds are the probes by name.
var kinds = map[string]*kind{
	"gpu-hbm/prefill-ladder":        &prefillLadder,
	"gpu-hbm/decode-ladder":         &decodeLadder,
	"gpu-hbm/interference":          &interference,
	"architecture/expert-routing":   &expertRouting,
	"architecture/attention-window": &attentionWindow,
	"architecture/predictability":   &predictability,
	"architecture/reasoning":        &reasoning,
	"architecture/media":            &media,
	"kv/capacity":                   &capacity,
	"kv/prefix-reuse":               &prefixReuse,
	"kv/eviction":                   &eviction,
	"kv/growth":                     &growth,
	"fabric/fan-out":                &fanOut,
	"fabric/payload":                &payload,
	"fabric/churn":                  &churn,
	"fabric/transfer":               &transfer,
	"fabric/parallel-latency":       &parallelLatency,
}

// of returns the probe that a scenario runs, nil when it runs none: a probe is a
// workload that is given alone.
func of(s *scenario.Scenario) (*kind, string) {
	if len(s.Users.Workload) != 1 {
		return nil, ""
	}
	name := s.Users.Workload[0].Name
	return kinds[name], name
}

// Of returns the name of the probe that a scenario runs, "" when it runs none.
func Of(s *scenario.Scenario) string {
	if k, name := of(s); k != nil {
		return name
	}
	return ""
}

// Complete returns what gives a scenario that names a probe alone the steps of the
// probe, or a workload with a ladder the steps of that: each of its rungs, in a
// step of its own, for each number of users (or each rate) that the scenario asks for. A length that the
// scenario asks for is that of every step. ReadFile reads the workloads that are
// files.
func Complete(readFile func(string) ([]byte, error)) func(*scenario.Scenario) map[string]string {
	return func(s *scenario.Scenario) map[string]string {
		l := &s.Load
		if len(s.Users.Workload) != 1 || len(l.Steps) > 0 || len(l.Stages) > 0 {
			return nil
		}
		k, name := of(s)
		set := map[string]string{}
		if k != nil && k.newConnection {
			s.Target.NewConnection = true
			set["target.new-connection"] = "the probe " + name
		}
		if k != nil && k.climbs && s.Guards.MaxErrorShare == scenario.Default().Guards.MaxErrorShare {
			// A rung that is refused is the end of the ladder, and not a failure.
			s.Guards.MaxErrorShare = 1
			set["guards.max-error-share"] = "the probe " + name
		}
		var steps []scenario.LoadStep
		if k != nil && k.steps != nil && len(l.Users) == 0 && len(l.Rate) == 0 {
			steps = k.steps()
		} else {
			f, err := workload.Open(name, readFile, nil)
			if err != nil {
				return set // whoever makes the users says so, with the names that there are
			}
			steps = rungs(f, k, l)
		}
		if len(steps) == 0 {
			return set
		}
		if l.Duration > 0 || l.Requests > 0 {
			for i := range steps {
				steps[i].Duration, steps[i].Requests = 0, 0
			}
		}
		l.Steps, l.Users, l.Rate = steps, nil, nil
		set["load.steps"] = "the ladder of " + name
		return set
	}
}

// Ladder returns the steps that a workload runs which is given alone and without a load,
// as Complete makes them; nil for one that has none. ReadFile reads the workloads that are
// files.
func Ladder(name string, readFile func(string) ([]byte, error)) []scenario.LoadStep {
	s := scenario.Default()
	s.Users.Workload = []scenario.Share{{Name: name, Weight: 1}}
	Complete(readFile)(s)
	return s.Load.Steps
}

// rungs are the steps of the ladder of a file: for each rung each level of the load.
func rungs(f *workload.File, k *kind, l *scenario.Load) []scenario.LoadStep {
	var levels []scenario.LoadStep
	for _, n := range l.Users {
		levels = append(levels, scenario.LoadStep{Users: n})
	}
	for _, r := range l.Rate {
		levels = append(levels, scenario.LoadStep{Rate: r})
	}
	if len(levels) == 0 {
		users := []int{1}
		if k != nil && len(k.users) > 0 {
			users = k.users
		}
		for _, n := range users {
			levels = append(levels, scenario.LoadStep{Users: n})
		}
	}
	var out []scenario.LoadStep
	for _, rung := range f.Rungs() {
		set := map[string]string{}
		for _, field := range rung {
			set[field.Path] = field.Value
		}
		for _, st := range levels {
			st.Set = set
			if k != nil && k.requests != nil {
				st.Requests = k.requests(max(st.Users, 1))
			}
			out = append(out, st)
		}
	}
	return out
}

// fit returns what the records of a run come to, nil when the scenario is no probe's.
// Timeline has the rows of the run's timeline, nil where there is none; early says that
// the run was ended before its time.
func fit(s *scenario.Scenario, requests iter.Seq[*record.Request], timeline iter.Seq2[[]run.TimelineRow, error], early bool) (*run.Probe, error) {
	k, _ := of(s)
	if k == nil {
		return nil, nil
	}
	d := newData(s, k)
	d.early = early
	for r := range requests {
		d.add(r)
	}
	if timeline != nil {
		if err := d.readSignals(timeline); err != nil {
			return nil, err
		}
	}
	return d.fit(), nil
}

// Keep fits what a run of a probe comes to and keeps it beside its records; nil for
// the folders of other runs.
func Keep(s *scenario.Scenario, folder string) (*run.Probe, error) {
	if Of(s) == "" {
		return nil, nil
	}
	saved, err := run.Open(folder)
	if err != nil {
		return nil, err
	}
	p, err := OfRun(saved)
	if err != nil || p == nil {
		return nil, err
	}
	return p, saved.WriteProbe(p)
}

// OfRun returns what a run on disk comes to, from its scenario, its records and its
// timeline; nil when it ran no probe. Nothing is written.
func OfRun(saved *run.Run) (*run.Probe, error) {
	text, err := saved.Scenario()
	if err != nil {
		return nil, err
	}
	s, err := scenario.Read(scenario.Source{Name: "scenario.yaml", Data: text, Getenv: func(name string) (string, bool) {
		return "${" + name + "}", true // what it holds now is not what it held then
	}})
	if err != nil {
		return nil, fmt.Errorf("read scenario of run: %w", err)
	}
	if Of(s) == "" {
		return nil, nil
	}
	var timeline iter.Seq2[[]run.TimelineRow, error]
	if len(saved.Info().Telemetry) > 0 {
		timeline = conduct.Timeline(saved)
	}
	p, err := fit(s, saved.Requests(), timeline, saved.Info().State != run.Done || saved.Info().Message != "")
	if err != nil {
		return nil, err
	}
	for _, n := range saved.Notes() {
		note(p, "not all records could be read: %s: %s", n.Part, n.Text)
	}
	return p, nil
}

// fit makes the result of what has been gathered.
func (d *data) fit() *run.Probe {
	k, name := of(d.scenario)
	out := &run.Probe{
		Schema: run.ProbeSchemaName, Probe: name, Question: k.question, X: k.x, Y: k.y,
		Points: []run.ProbePoint{}, Fits: []run.ProbeFit{}, Notes: []string{},
	}
	d.arrange()
	k.fit(d, out)
	failed, cut, first := 0, 0, ""
	for _, st := range d.steps {
		for i := range st.requests {
			switch r := &st.requests[i]; r.status {
			case record.Failed:
				if failed++; first == "" {
					first = r.message
				}
			case record.Incomplete, record.Cancelled:
				cut++
			case record.OK:
			}
		}
	}
	if failed > 0 {
		text := fmt.Sprintf("failed, and in no figure: %s", plural(failed, "requests"))
		if first != "" {
			text += "; the first: " + first
		}
		note(out, "%s", text)
	}
	if cut > 0 {
		note(out, "cut by the end of their step: %s", plural(cut, "requests"))
	}
	switch n := d.ran(); {
	case d.early:
		note(out, "the run was ended early, in step %d of %d", max(n, 1), len(d.steps))
	case n < len(d.steps):
		note(out, "the ladder was left after %d of %d steps: what was looked for had been found, or nothing more could be", n, len(d.steps))
	}
	return out
}

// note adds a note.
func note(out *run.Probe, format string, args ...any) {
	out.Notes = append(out.Notes, fmt.Sprintf(format, args...))
}

// number returns a figure for a document: three digits after the point of the
// fifth significant one would be noise.
func number(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	if x != 0 {
		scale := math.Pow(10, 6-math.Ceil(math.Log10(math.Abs(x))))
		x = math.Round(x*scale) / scale
	}
	return &x
}

// result adds a figure. It is clean when it has a value and an interval, and ok.
func result(out *run.Probe, name string, e estimate, unit string, ok bool, format string, args ...any) {
	f := run.ProbeFit{Name: name, Unit: unit, Text: fmt.Sprintf(format, args...), Value: number(e.value), OK: ok && e.known()}
	if e.known() && e.bounded() {
		f.Lo, f.Hi = number(e.lo), number(e.hi)
	}
	out.Fits = append(out.Fits, f)
}

// point adds what was measured at a rung.
func point(out *run.Probe, series string, x float64, y estimate, n int) {
	if !y.known() || math.IsNaN(x) {
		return
	}
	p := run.ProbePoint{X: *number(x), Y: *number(y.value), Series: series, N: n}
	if y.bounded() {
		p.Lo, p.Hi = number(y.lo), number(y.hi)
	}
	out.Points = append(out.Points, p)
}

// plural names a number of things by the name of several.
func plural(n int, things string) string {
	if n == 1 {
		return "1 " + strings.TrimSuffix(things, "s")
	}
	return fmt.Sprintf("%s %s", count(float64(n)), things)
}
