package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"plimsoll/internal/conduct"
	"plimsoll/internal/detail"
	"plimsoll/internal/live"
	"plimsoll/internal/phrase"
	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/scenario"
	"plimsoll/internal/signal"
	"plimsoll/internal/stats"
	"plimsoll/internal/telemetry"
)

// savedScenario reads the scenario of a run. Where it names a variable the name stays:
// what that holds now is not what it held then, and may be a key.
func savedScenario(text []byte) (*scenario.Scenario, error) {
	return scenario.Read(scenario.Source{Name: scenarioFile, Data: text, Getenv: func(name string) (string, bool) { return "${" + name + "}", true }})
}

// workloadNames are the workloads of a scenario in their order, which is that of
// their colours.
func workloadNames(s *scenario.Scenario) []string {
	if s == nil {
		return []string{}
	}
	if len(s.Users.Workload) == 0 {
		return []string{scenario.Synthetic}
	}
	names := make([]string, 0, len(s.Users.Workload))
	for _, w := range s.Users.Workload {
		names = append(names, w.Name)
	}
	return names
}

// Document returns all that a panel needs of a run on disk beside its lanes and
// requests, which are in s.
func Document(r *run.Run, s *detail.Store) (detail.RunDoc, error) {
	info := r.Info()
	text, _ := r.Scenario() // a run without one can be looked at
	saved, _ := savedScenario(text)
	summary, sumErr := r.Summary()
	from, to := s.Span()
	out := detail.RunDoc{
		Run: RunRow(filepath.Base(r.Dir()), folder(r.Dir())), Summary: summary, Span: detail.Span{From: detail.ToMs(from), To: detail.ToMs(to)},
		Phases: []detail.Phase{}, SLO: []detail.SLO{}, Workloads: workloadsOf(workloadNames(saved), s.Workloads()), Marks: []detail.Mark{},
		Missing: MissingLanes(s.Series(), &info), Scenario: string(text),
	}
	if p, err := r.Probe(); err == nil {
		out.Probe = p
	}
	damaged := unread(r, s, &out, sumErr)
	in, err := r.Input()
	if err != nil {
		out.Marks = damaged
		return out, nil // nothing is known of its windows
	}
	var warmup time.Duration
	if saved != nil {
		warmup = saved.Load.Warmup
		if ms, ok := planned(&saved.Load); ok {
			out.PlannedMs = &ms
		}
	}
	out.Phases = Phases(in.Steps, warmup, to)
	out.SLO = detail.Limits(&in)
	noticed, _ := r.Marks() // only a run that was watched has them
	out.Marks = append(marks(&info, saved, &in, summary, out.Phases, noticed), damaged...)
	return out, nil
}

// unread says what of a run on disk is damaged, so that nobody takes what is left for
// all of it.
func unread(r *run.Run, s *detail.Store, doc *detail.RunDoc, sumErr error) []detail.Mark {
	out := []detail.Mark{}
	from, to := s.Span()
	between := func(from, to int64, p *phrase.Phrase, values ...phrase.Value) {
		end := detail.ToMs(to)
		text, said := p.Say(values...)
		out = append(out, detail.Mark{T: detail.ToMs(from), To: &end, Kind: "note", Severity: "fail", Text: text, Said: said})
	}
	tell := func(p *phrase.Phrase, values ...phrase.Value) { between(from, to, p, values...) }
	if sumErr != nil && !errors.Is(sumErr, fs.ErrNotExist) {
		tell(saysMadeAgain, phrase.Text(sumErr.Error()))
	}
	if p := doc.Run.Problem; p != nil && p.File != summaryFile {
		tell(saysPart, phrase.Quote(p.File), phrase.Text(p.Text))
	}
	_, probeErr := r.Probe()
	_, marksErr := r.Marks()
	for _, of := range []struct {
		file string
		err  error
	}{{"marks.json", marksErr}, {"probe.json", probeErr}} {
		if of.err != nil && !errors.Is(of.err, fs.ErrNotExist) {
			tell(saysPart, phrase.Quote(of.file), phrase.Text(Reason(of.err)))
		}
	}
	lost, records := s.Lost(), true
	for _, l := range lost {
		records = records && !l.Requests()
		first, last := from, to
		if l.After != record.Unset {
			first = max(first, min(l.After, to))
		}
		if l.Before != record.Unset {
			last = max(first, min(l.Before, to))
		}
		between(first, last, saysPart, phrase.Quote(l.File), phrase.Text(l.Text))
	}
	if summary := doc.Summary; summary != nil && records && int64(s.Len()) < summary.Requests.Scheduled {
		tell(saysFewRecords, phrase.Count(s.Len()), phrase.Count(summary.Requests.Scheduled))
	}
	return out
}

// maxRowName bounds what is shown of a name or a tag. A scenario's are no
// longer: one that is, is of a file that something else wrote.
const maxRowName = 1000

// workloadsOf are the workloads that were planned, and behind them those that came.
func workloadsOf(plan, came []string) []string {
	out := slices.Clone(plan)
	for _, w := range came {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	if len(out) > 1 {
		out = slices.DeleteFunc(out, func(w string) bool { return w == "" || w == scenario.Synthetic && !slices.Contains(came, w) })
	}
	return out
}

// planned is how long the load was meant to last without drains, where that is
// known.
func planned(l *scenario.Load) (detail.Ms, bool) {
	if len(l.Stages) > 0 {
		var all time.Duration
		for _, s := range l.Stages {
			all += s.Length
		}
		return detail.ToMs(int64(all + l.Warmup)), true
	}
	levels := max(len(l.Users), len(l.Rate), 1)
	return detail.ToMs(int64(levels) * int64(l.Warmup+l.Duration)), l.Duration > 0
}

// Phases are the phases of the steps of a run that has come as far as end, in ns: the
// warm-up before each window and the drain behind it. None is what passes before the
// load begins, when prompts are made.
func Phases(steps []stats.StepInput, warmup time.Duration, end int64) []detail.Phase {
	out := []detail.Phase{}
	put := func(name string, step int, from, to int64) {
		if from >= to || from >= end {
			return
		}
		p := detail.Phase{Name: name, Step: step, From: detail.ToMs(from)}
		t := detail.ToMs(min(to, end))
		p.To = &t
		out = append(out, p)
	}
	at := int64(0)
	for i, s := range steps {
		if s.Start >= s.End {
			continue // it never began
		}
		begin := max(at, s.Start-int64(warmup))
		if i > 0 {
			put("drain", i-1, at, begin)
		}
		put("warmup", i, begin, s.Start)
		put("steady", i, s.Start, s.End)
		at = s.End
	}
	if n := len(out); n > 0 {
		put("drain", out[n-1].Step, at, end)
	}
	return out
}

// What marks of a run on disk say.
var (
	saysMadeAgain  = phrase.New("report.made_again", "the figures are made again of the records, since the summary cannot be read: {why}")
	saysPart       = phrase.New("report.part", "{part} cannot be read: {why}")
	saysFewRecords = phrase.New("report.records", "records of only {read} of at least {requests} requests can be read")
	saysSteady     = phrase.New("report.steady", "steady window")
	saysStep       = phrase.New("report.step", "step {step}: {load}")
	saysUnread     = phrase.New("report.unread", "{source} was not read")
	saysAnew       = phrase.New("report.anew", "{source} started anew")
)

// mostMarks bounds those of one kind.
const mostMarks = 200

// marks are what happened in a run: steps, what its verdict is for, what was lost, and
// what was noticed while it was watched.
func marks(info *run.Info, saved *scenario.Scenario, in *stats.Input, summary *stats.Summary, phases []detail.Phase, noticed []run.Mark) []detail.Mark {
	out := []detail.Mark{}
	for _, p := range phases {
		if p.Name != "steady" {
			continue
		}
		m := detail.Mark{T: p.From, To: p.To, Kind: "phase", Severity: "info"}
		m.Text, m.Said = saysSteady.Say()
		if len(in.Steps) > 1 {
			s := &in.Steps[p.Step]
			level := Plural(s.Users, "user")
			if s.Users == 0 {
				level = Figure(s.Rate) + arriving(saved)
			}
			m.Kind = "step"
			m.Text, m.Said = saysStep.Say(phrase.Count(p.Step+1), phrase.Text(level))
		}
		out = append(out, m)
	}
	if len(in.Steps) == 0 {
		return out
	}
	for _, m := range noticed {
		mark := detail.Mark{T: detail.ToMs(m.FromNS), Kind: m.Kind, Severity: m.Severity, Text: m.Text, Said: m.Said}
		if m.ToNS != nil {
			mark.To = new(detail.ToMs(*m.ToNS))
		}
		out = append(out, mark)
	}
	start, end := detail.ToMs(in.Steps[0].Start), detail.ToMs(in.Steps[len(in.Steps)-1].End)
	if summary != nil {
		for _, r := range summary.Run.Reasons {
			severity := "fail"
			if r.Effect == stats.MakesNote {
				severity = "note"
			}
			out = append(out, detail.Mark{T: start, To: &end, Kind: "note", Severity: severity, Text: r.Text, Said: r.Said})
		}
		for _, f := range summary.Findings {
			out = append(out, detail.Mark{T: start, To: &end, Kind: "finding", Severity: "note", Text: f.Text})
		}
	}
	// Of an interrupted run the state says all that there is to say.
	if info.State != run.Done && info.Message != "" && info.Message != string(run.Interrupted) {
		out = append(out, detail.Mark{T: detail.ToMs(in.Duration), Kind: "note", Severity: "fail", Text: info.Message})
	}
	if a := info.Alignment; a != nil {
		n := 0
		for _, s := range a.Sources {
			for _, g := range s.Gaps {
				if n++; n > mostMarks {
					break
				}
				to := detail.ToMs(g.ToNS)
				text, said := saysUnread.Say(phrase.Quote(s.Name))
				out = append(out, detail.Mark{T: detail.ToMs(g.FromNS), To: &to, Kind: "lost", Severity: "note", Text: text, Said: said})
			}
			for _, t := range s.Restarts[:min(len(s.Restarts), mostMarks)] {
				text, said := saysAnew.Say(phrase.Quote(s.Name))
				out = append(out, detail.Mark{T: detail.ToMs(t), Kind: "lost", Severity: "note", Text: text, Said: said})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b detail.Mark) int { return cmp.Compare(a.T, b.T) })
	return out
}

// MissingLanes says which lanes of a run on disk have nothing among series, why, and
// what would fill them.
func MissingLanes(series []detail.Series, info *run.Info) []detail.Missing {
	var have [signal.Count]bool
	groups := make(map[string]bool)
	for i := range series {
		// What a machine says of itself that only measures is under its own name.
		if id, ok := signal.Lookup(series[i].Signal); ok && series[i].Source == "" {
			have[id] = true
			groups[laneGroups[id.Def().Group]] = true
		}
	}
	var facts conduct.Facts
	_ = json.Unmarshal(info.Target, &facts) // what cannot be read gives no hints
	hints := make([]telemetry.Hint, len(facts.Hints))
	for i, h := range facts.Hints {
		hints[i] = telemetry.Hint(h)
	}
	all := live.Missing(info.Telemetry, hints...)
	if info.Input != nil && info.Input.Virtual {
		all = live.Predicted() // nothing was to be read
	}
	return slices.DeleteFunc(all, func(m detail.Missing) bool {
		if m.Signal == "" {
			return groups[m.Group]
		}
		id, ok := signal.Lookup(m.Signal)
		return ok && have[id]
	})
}

// laneGroups are the groups of signals as the panel names them.
var laneGroups = map[signal.Group]string{
	signal.Engine: "engine", signal.Accelerator: "accelerator", signal.Network: "network", signal.Host: "host",
}
