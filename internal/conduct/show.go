package conduct

import (
	"runtime"
	"strings"
	"time"

	"plimsoll/internal/detail"
	"plimsoll/internal/live"
	"plimsoll/internal/load"
	"plimsoll/internal/run"
	"plimsoll/internal/scenario"
	"plimsoll/internal/stats"
	"plimsoll/internal/stream"
	"plimsoll/internal/telemetry"
)

// asked is closed when the one who watches asks the run to stop; nil is never.
func (k *keeper) asked() <-chan struct{} {
	if k.cfg.Watch == nil {
		return nil
	}
	return k.cfg.Watch.Asked()
}

// showTo begins to show the run to the one who watches it.
func (k *keeper) showTo(canary *stream.Canary, text string) {
	if k.cfg.Watch == nil {
		return
	}
	s := k.scenario
	tags := s.Tags
	if tags == nil {
		tags = map[string]string{}
	}
	workloads := []string{scenario.Synthetic}
	if list := s.Users.Workload; len(list) > 0 {
		workloads = nil
		for _, w := range list {
			workloads = append(workloads, w.Name)
		}
	}
	r := live.Run{
		Row: detail.RunRow{
			ID: k.writer.ID(), Name: s.Name, Started: k.clock.Start().UTC().Format(time.RFC3339), Model: s.Target.Model,
			Target: k.target.URL, Tags: tags, Load: describe(k.plan, s.Sessions()),
		},
		Dir: k.writer.Dir(), Scenario: text, Start: k.clock.Start(), Now: k.clock.Now, Live: k.live, Plan: k.plan, Input: k.input, Workloads: workloads, Sessions: s.Sessions(),
		Health: func() live.Health {
			h := live.Health{Cores: runtime.GOMAXPROCS(0), Canary: canary.Lags()}
			h.CPU, _ = processTime() // 0 where it is not known
			return h
		},
	}
	if k.readings != nil {
		r.Every = k.readings.every
		for _, h := range k.target.Hints {
			r.Hints = append(r.Hints, telemetry.Hint(h))
		}
		r.Sources = func() []telemetry.SourceInfo { return k.readings.info(k.access) }
	}
	k.cfg.Watch.Begin(r)
}

// shown tells the one who watches how the run ended, and keeps what was noticed
// meanwhile beside the records.
func (k *keeper) shown(summary *stats.Summary, steps []load.StepResult) error {
	w := k.cfg.Watch
	if w == nil {
		return nil
	}
	w.End(summary, steps)
	defer w.Close()
	var marks []run.Mark
	for _, m := range w.Doc().Marks {
		// Phases and gaps of telemetry are known from the run itself.
		if m.Kind != "threshold" && m.Kind != "note" {
			continue
		}
		mark := run.Mark{FromNS: m.T.NS(), Kind: m.Kind, Severity: m.Severity, Text: m.Text, Said: m.Said}
		if m.To != nil {
			mark.ToNS = new(m.To.NS())
		}
		marks = append(marks, mark)
	}
	if len(marks) == 0 {
		return nil
	}
	saved, err := run.Open(k.writer.Dir())
	if err != nil {
		return err
	}
	return saved.WriteMarks(marks)
}

// describe says the load of all steps in words.
func describe(plan []load.Step, sessions bool) string {
	words := make([]string, len(plan))
	for i := range plan {
		words[i] = live.Level(&plan[i], sessions)
	}
	return strings.Join(words, "; ")
}
