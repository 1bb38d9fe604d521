package live

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"plimsoll/internal/detail"
	"plimsoll/internal/load"
	"plimsoll/internal/pace"
	"plimsoll/internal/phrase"
	"plimsoll/internal/record"
	"plimsoll/internal/telemetry"
)

// mostMarks bounds the marks of a run: what comes after is left out.
const mostMarks = 1000

// doc is what the panel is told of the run beside snapshots. The loop writes it.
type doc struct {
	mu      sync.Mutex // guards the fields below
	marks   []detail.Mark
	changed []int // marks that the next snapshot has
	missing []detail.Missing
	list    []detail.Phase
	slo     []detail.SLO
	planned *detail.Ms
}

func (d *doc) begin(w *Watch) {
	d.missing = []detail.Missing{}
	d.slo = detail.Limits(&w.run.Input)
	total := time.Duration(0)
	for i := range w.run.Plan {
		p := &w.run.Plan[i]
		if p.Duration == 0 {
			total = -1
			break
		}
		total += p.Warmup + p.Duration
	}
	if total > 0 {
		ms := detail.ToMs(int64(total))
		d.planned = &ms
	}
	if w.run.Sources == nil {
		d.missing = Missing(nil)
	}
}

// mark adds a mark and returns its index, -1 when there are too many.
func (d *doc) mark(m detail.Mark) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.add(m)
}

func (d *doc) add(m detail.Mark) int {
	if len(d.marks) >= mostMarks {
		return -1
	}
	d.marks = append(d.marks, m)
	d.changed = append(d.changed, len(d.marks)-1)
	return len(d.marks) - 1
}

// until gives a mark its end.
func (d *doc) until(i int, at detail.Ms) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i < 0 {
		return
	}
	d.marks[i].To = &at
	if !slices.Contains(d.changed, i) {
		d.changed = append(d.changed, i)
	}
}

// news returns the marks that are new or changed since the last call.
func (d *doc) news() []detail.Mark {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]detail.Mark, 0, len(d.changed))
	for _, i := range d.changed {
		out = append(out, d.marks[i])
	}
	d.changed = d.changed[:0]
	return out
}

// close ends the phase that goes on, and the marks of what holds to the end.
func (d *doc) close(at detail.Ms) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.list); n > 0 && d.list[n-1].To == nil {
		d.list[n-1].To = &at
	}
}

// phase returns the phase that goes on.
func (d *doc) phase() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.list); n > 0 {
		return d.list[n-1].Name
	}
	return ""
}

// phases works out the phases up to now from the steps that have begun.
func (d *doc) phases(w *Watch, now int64, steps []load.StepResult, draining, over bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.list
	d.list = nil
	enter := func(name string, step uint32, at int64) {
		from := detail.ToMs(at)
		if n := len(d.list); n > 0 {
			d.list[n-1].To = &from
		}
		d.list = append(d.list, detail.Phase{Name: name, Step: int(step), From: from})
	}
	for i := range steps {
		s := &steps[i]
		newest := i == len(steps)-1
		if s.SteadyStart > s.Start {
			enter(record.Warmup.String(), s.Index, s.Start)
		}
		if !newest || over || now >= s.SteadyStart {
			enter(record.Steady.String(), s.Index, s.SteadyStart)
		}
		switch end := s.SteadyEnd; {
		case end != math.MaxInt64 && (!newest || over || now >= end):
			enter(record.Drain.String(), s.Index, end)
		case end == math.MaxInt64 && (draining || !newest):
			// Its end is known when the step is over: until then since when it was seen.
			at := now
			for _, p := range old {
				if p.Name == record.Drain.String() && p.Step == int(s.Index) {
					at = p.From.NS()
				}
			}
			enter(record.Drain.String(), s.Index, at)
		}
		if s.End > s.SteadyEnd {
			at := detail.ToMs(s.End)
			d.list[len(d.list)-1].To = &at
		}
	}
	for i := len(old); i < len(d.list); i++ {
		p := &d.list[i]
		kind, name := "phase", phrase.Text(map[string]string{"warmup": "warm-up", "steady": "steady", "drain": "drain"}[p.Name])
		text, said := saysPhase.Say(name)
		if len(w.run.Plan) > 1 {
			step, steps := phrase.Count(p.Step+1), phrase.Count(len(w.run.Plan))
			text, said = saysStepPhase.Say(step, steps, name)
			if first := i == 0 || d.list[i-1].Step != p.Step; first {
				kind = "step"
				text, said = saysStep.Say(step, steps, name, phrase.Text(Level(&w.run.Plan[p.Step], w.run.Sessions)))
			}
		}
		d.add(detail.Mark{T: p.From, Kind: kind, Severity: "info", Text: text, Said: said})
	}
}

// What marks of phases and sources say.
var (
	saysPhase     = phrase.New("live.phase", "{phase}")
	saysStepPhase = phrase.New("live.step.phase", "step {step} of {steps}, {phase}")
	saysStep      = phrase.New("live.step", "step {step} of {steps}, {phase}: {load}")
	saysLost      = phrase.New("live.lost", "telemetry lost: {source}")
	saysLostWhy   = phrase.New("live.lost.why", "telemetry lost: {source}: {why}")
)

// Level says the load of a step in words; sessions says that a rate is one of sessions.
func Level(s *load.Step, sessions bool) string {
	text := ""
	switch {
	case s.Users == 1:
		text = "1 user"
	case s.Users > 0:
		text = fmt.Sprintf("%d users", s.Users)
	}
	if s.Rate == 0 {
		return text
	}
	if text != "" {
		text += " and "
	}
	arrival := pace.Names(s.Arrival, s.Streams)
	if arrival == "" {
		arrival = "constant"
	}
	if sessions {
		return fmt.Sprintf("%s%s sessions/s, %s", text, figure(s.Rate), arrival)
	}
	return fmt.Sprintf("%s%s requests/s, %s", text, figure(s.Rate), arrival)
}

// source is what was seen of a source of telemetry.
type source struct {
	stretch
	mark int
	up   bool // once
}

// sources looks which sources answer, and what they lack.
func (d *doc) sources(w *Watch, now int64, infos []telemetry.SourceInfo) {
	missing := Missing(infos, w.run.Hints...)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.missing = missing
	for i := range infos {
		in := &infos[i]
		s := w.lost[in.Index]
		if s == nil {
			s = new(source)
			w.lost[in.Index] = s
		}
		s.up = s.up || in.Up
		changed, at := s.look(now, s.up && !in.Up, in.Up)
		switch {
		case !changed:
		case s.on:
			text, said := saysLost.Say(phrase.Quote(in.Name))
			if n := len(in.Gaps); n > 0 && in.Gaps[n-1].Why != "" {
				text, said = saysLostWhy.Say(phrase.Quote(in.Name), phrase.Text(in.Gaps[n-1].Why))
			}
			s.mark = d.add(detail.Mark{T: detail.ToMs(at), Kind: "lost", Severity: "note", Text: text, Said: said})
		case s.mark >= 0:
			back := detail.ToMs(at)
			d.marks[s.mark].To = &back
			d.changed = append(d.changed, s.mark)
		}
	}
}

// Doc returns what a panel needs of the run beside its lanes.
func (w *Watch) Doc() detail.RunDoc {
	if !closed(w.begun) {
		return detail.RunDoc{}
	}
	w.mu.Lock()
	stopping, final := w.progress.Stopping, w.final
	w.mu.Unlock()
	over := closed(w.ended)
	out := detail.RunDoc{Run: w.run.Row, Summary: final, Scenario: w.run.Scenario, Live: !over, Stopping: stopping && !over}
	out.Run.Live, out.Run.State = !over, "running"
	if s := w.ring.Newest(); s != nil {
		h := &s.Header
		ended := h.OK + h.Failures + h.Cancelled + h.Incomplete
		out.Run.Requests, out.Run.Errors = &ended, &h.Failures
		if ended > 0 {
			share := float64(h.Failures) / float64(ended)
			out.Run.ErrorShare = &share
		}
		out.Run.TTFTP95, out.Run.TPOTP95, out.Run.GoodputRPS = (*float64)(h.TTFTP95), (*float64)(h.TPOTP95), h.GoodputRPS
		out.Run.OutputPerS = &h.OutputPerS
		seconds := float64(s.T) / 1e3
		out.Run.DurationS = &seconds
		out.Span.To = s.T
	}
	out.Workloads = w.store.Workloads()
	out.Run.Workloads = out.Workloads
	d := &w.doc
	d.mu.Lock()
	defer d.mu.Unlock()
	out.Phases, out.Marks = slices.Clone(d.list), slices.Clone(d.marks)
	out.PlannedMs, out.SLO, out.Missing = d.planned, d.slo, d.missing
	if out.Phases == nil {
		out.Phases = []detail.Phase{}
	}
	if out.Marks == nil {
		out.Marks = []detail.Mark{}
	}
	return out
}
