package align

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/signal"
	"plimsoll/internal/stats"
	"plimsoll/internal/telemetry"
)

const (
	// mostRows is the number of rows from which on cells become longer: some 100 MB
	// on disk, and a minute to make.
	mostRows = 40_000_000
	// mostSignals bounds of how many gauges of one source it is told how often they are renewed: 64 engines have 400,
	// and what labels that change with every reading make would fill run.json.
	mostSignals = 512
)

// steps are the lengths of cells that a long run may get.
var steps = []time.Duration{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600}

// Samples are the samples of a run, which can be gone through more than once.
type Samples interface {
	// All returns the samples, many at once, in the order of time within each series
	// and in about that order over all of them.
	All() iter.Seq[[]signal.Sample]
	// Series returns the series named so far.
	Series() []signal.Series
}

// Source is what must be known of a source of samples.
type Source struct {
	// Name is how rows call it.
	Name string
	// OwnTimes says that its samples bear times of its own clock, put on the run's
	// clock as if both walls agreed.
	OwnTimes bool
	// Client says that it is the machine that measures, which is never added to the
	// servers.
	Client bool
	// Relayed says that it hands on what others state, as a Prometheus does: what
	// another source states itself counts instead.
	Relayed bool
	// Gateway names the gateway that speaks, empty when none does: two of other names may
	// stand one before the other, and then see the same requests.
	Gateway string
	// Front says that it is a gateway and nothing else: what it says of engines it has
	// from them.
	Front bool
}

// handsOn says whether a source has a signal from others.
func (s *Source) handsOn(id signal.ID) bool {
	return s.Relayed || s.Front && id != signal.None && id.Def().Group == signal.Engine
}

// Input is what a timeline is made of.
type Input struct {
	// Step is the length of a cell in ns, 0 for a second or, in a run that is too
	// long for it, more.
	Step int64
	// Start is the start instant of the run's clock.
	Start time.Time
	// Run has the windows and the length of the run.
	Run stats.Input
	// Sources are those of the samples, in their order.
	Sources []Source
	// Samples is nil without telemetry.
	Samples Samples
	// Requests are the records in about the order of their ends; it is gone through
	// twice and may be nil.
	Requests iter.Seq[*record.Request]
	// Rows takes the rows in the order of time, many at once; the slice is not to be
	// kept. It may be nil. An error ends the making of the timeline.
	Rows func([]run.TimelineRow) error
}

// Result is what the making of a timeline found out.
type Result struct {
	// Alignment says how far clocks are apart, how often values are renewed, and what
	// else must be known of the telemetry.
	Alignment run.Alignment
	// Server has the signals of the servers over the steady windows, for the summary:
	// gauges by time, counters as rates per second, distributions of what the servers
	// observed. Ratios of several engines or devices are means; the highest of them
	// is under the name with _max, how unevenly load was shared under _imbalance.
	Server map[string]*stats.Dist
	// Steps has the same for each level of load, in order.
	Steps []map[string]*stats.Dist
	// Energy is nil when no source states power or energy.
	Energy *stats.Energy
}

// Run makes the timeline of a run on disk: timeline.parquet. The run's Writer must
// be closed.
func Run(r *run.Run) (*Result, error) {
	info := r.Info()
	if info.Input == nil {
		return nil, fmt.Errorf("align run %s: run.json says nothing of its windows", info.ID)
	}
	w, err := r.CreateTimeline()
	if err != nil {
		return nil, err
	}
	samples := r.Samples()
	result, err := Build(Input{
		Start: info.Start, Run: *info.Input, Sources: Sources(info.Telemetry), Samples: samples, Requests: r.Requests(), Rows: w.Add,
	})
	if err != nil {
		w.Discard()
		return nil, fmt.Errorf("align run %s: %w", info.ID, err)
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	for _, n := range samples.Notes() {
		result.Alignment.Notes = append(result.Alignment.Notes, fmt.Sprintf("telemetry/%s could not be read: %s", n.Part, n.Text))
	}
	return result, nil
}

// Sources returns what Build must know of sources that a scraper read.
func Sources(infos []telemetry.SourceInfo) []Source {
	var out []Source
	for i := range infos {
		s := &infos[i]
		for len(out) <= s.Index {
			out = append(out, Source{})
		}
		out[s.Index] = Source{
			Name: s.Name, OwnTimes: s.OwnTimes,
			Client: s.Kind == telemetry.KindHost, Relayed: s.Kind == telemetry.KindPrometheus,
			Gateway: strings.Join(s.Gateways, ","), Front: len(s.Gateways) > 0 && len(s.Gateways) == len(s.Sources),
		}
	}
	return out
}

// nothing is telemetry without a sample.
type nothing struct{}

func (nothing) All() iter.Seq[[]signal.Sample] { return func(func([]signal.Sample) bool) {} }
func (nothing) Series() []signal.Series        { return nil }

// Build makes the timeline. Memory does not grow with the number of samples, and
// with that of requests by some 64 bytes each.
func Build(in Input) (*Result, error) {
	if in.Samples == nil {
		in.Samples = nothing{}
	}
	if in.Requests == nil {
		in.Requests = func(func(*record.Request) bool) {}
	}
	v := newSurvey(&in)
	s := newServer(&in, v)
	end := in.Run.Duration
	if v.any {
		end = max(end, v.last)
	}
	step := in.Step
	if step == 0 {
		step = chooseStep(end-min(v.first, 0), s.rowsPerCell())
	}
	c := newClient(&in, step)
	defer c.close()
	s.quiet = c.firstAt
	s.start(step)
	defer s.stop()
	first, last := int64(0), floor(max(c.end, 1)-1, step)
	if v.any {
		first, last = min(first, floor(v.first-s.reach, step)), max(last, floor(v.last+s.reach, step))
	}
	var rows []run.TimelineRow
	total := int64(0)
	for i := first; i <= last; i++ {
		c.advance(i)
		s.advance(i)
		busy := c.busy(i)
		rows = c.rows(i, rows[:0])
		rows = s.rows(i, busy, rows)
		total += int64(len(rows))
		if in.Rows != nil && len(rows) > 0 {
			if err := in.Rows(rows); err != nil {
				return nil, err
			}
		}
	}
	out := &Result{Alignment: s.alignment()}
	out.Alignment.StepNS, out.Alignment.Rows = step, total
	all := make([]int, len(s.windows))
	for w := range all {
		all[w] = w
		out.Steps = append(out.Steps, s.figures([]int{w}))
	}
	out.Server = s.figures(all)
	out.Energy = s.energy(c)
	return out, nil
}

// chooseStep returns the shortest step with which a run of a length has no more
// rows than are of use.
func chooseStep(length, perCell int64) int64 {
	for _, d := range steps {
		if step := int64(d * time.Second); length/step*(perCell+40) <= mostRows {
			return step
		}
	}
	return int64(steps[len(steps)-1] * time.Second)
}

// alignment says what was found out about the sources.
func (s *server) alignment() run.Alignment {
	var out run.Alignment
	for i := range s.v.origins {
		g := &s.v.origins[i]
		t := run.SourceTimes{Source: i, Name: s.name(i), Readings: g.ticks.n, ReadEveryNS: g.ticks.between.median(), Restarts: g.restarts}
		gaps, count := g.missing()
		t.GapCount = count
		for _, x := range gaps {
			t.Gaps = append(t.Gaps, run.TimeSpan{FromNS: x.from, ToNS: x.to})
		}
		if offset, uncertainty, ok := g.offset.At(s.v.last); ok {
			t.OffsetNS, t.UncertaintyNS = &offset, &uncertainty
		}
		t.ClockReadings, t.ClockSteps = g.offset.Readings(), g.offset.Steps()
		t.ClockUnsteady = g.offset.Unsteady()
		u := g.updates()
		t.RenewedEveryNS, t.RenewedAtLeast = u.period, u.atMost
		if g.falls(s.v) {
			t.TwoServers = true
		}
		if g.ticks.n == 0 { // its samples bear its own times
			for j := range s.v.tracks {
				if k := &s.v.tracks[j]; s.v.series[j].Source == i && k.between.n > 0 && k.n > t.Readings {
					t.Readings, t.ReadEveryNS = k.n, k.between.median()
				}
			}
		}
		out.Sources = append(out.Sources, t)
	}
	told := make([]int, len(s.v.origins))
	for i := range s.courses {
		c := &s.courses[i]
		of := c.main()
		if of < 0 || c.part >= 0 || !c.gaugeLike() || c.id.Def().Group == signal.Scrape {
			continue
		}
		if told[c.source]++; told[c.source] > mostSignals {
			continue
		}
		k := &s.v.tracks[of]
		out.Signals = append(out.Signals, run.SignalTimes{
			Source: c.source, Signal: c.id.String(), Labels: c.labels, Readings: k.n, Changes: k.changed,
			RenewedEveryNS: c.updates.period, RenewedAtLeast: c.updates.atMost,
		})
	}
	slices.SortStableFunc(out.Signals, func(a, b run.SignalTimes) int { return a.Source - b.Source })
	for i, n := range told {
		if n > mostSignals {
			out.Notes = append(out.Notes, fmt.Sprintf("%s: how often values are renewed is said of %d of %d gauges", s.name(i), mostSignals, n))
		}
	}
	if n := s.v.strangers; n > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%d samples state times that are more than an hour outside of the run and are left out", n))
	}
	if s.lateOf > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%d samples came more than %v after newer ones and are not on the timeline", s.lateOf, time.Duration(s.behind)))
	}
	return out
}

// falls says whether the counters of a source become less again and again: two
// servers answer in turn under one name.
func (g *origin) falls(v *survey) bool {
	for i := range v.tracks {
		d := &v.series[i]
		if &v.origins[d.Source] != g || d.Signal == signal.None || d.Signal.Def().Kind != signal.Counter || d.Field != signal.Value {
			continue
		}
		if k := &v.tracks[i]; k.falls >= 5 && k.falls*4 >= k.changed {
			return true
		}
	}
	return false
}

// device is what one device used.
type device struct {
	joules, watts *float64
	idle          *float64 // W before the first request
	counted       bool
}

// energy returns the energy of the steady windows, nil when nobody states any.
func (s *server) energy(c *client) *stats.Energy {
	length := int64(0)
	for _, w := range s.windows {
		length += max(0, w.end-w.start)
	}
	if length == 0 {
		return nil
	}
	devices := make(map[string]*device)
	of := func(j int) *device {
		k := &s.courses[j]
		name := uuid(k.labels)
		if name == "" {
			name = fmt.Sprintf("%d,%s", k.source, k.labels)
		}
		d := devices[name]
		if d == nil {
			d = new(device)
			devices[name] = d
		}
		return d
	}
	// The shares of the windows for which something must be known: a counter is exact
	// where it is known, while readings of power are those of some instants.
	const counted, read = 0.5, 0.8
	for i := range s.groups {
		g := &s.groups[i]
		if g.source >= 0 || g.id != signal.Energy && g.id != signal.Power {
			continue
		}
		for _, j := range g.courses {
			var a, weight acc
			for w := range s.windows {
				b := s.inside[w][s.courses[j].value]
				a.x, a.y = a.x+b.x, a.y+b.y
				b = s.weights[w][j]
				weight.x, weight.y = weight.x+b.x, weight.y+b.y
			}
			d := of(j)
			idle := s.idle[j]
			if g.id == signal.Power {
				idle = s.states[s.courses[j].value].before
			}
			if idle.y > 0 && (g.id == signal.Power || d.idle == nil) {
				d.idle = known(idle.x / idle.y)
			}
			switch {
			case g.id == signal.Energy && a.y >= counted*float64(length):
				d.joules, d.counted = known(a.x/a.y*float64(length)), true
			case g.id == signal.Power && weight.y >= read*float64(length):
				d.watts = known(weight.x / weight.y)
			}
		}
	}
	e := &stats.Energy{Source: "counter"}
	joules, idle, idles := 0.0, 0.0, 0
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		d := devices[name]
		switch {
		case d.joules != nil:
			joules += *d.joules
		case d.watts != nil:
			joules += *d.watts * float64(length) / 1e9
			e.Source = "power"
		default:
			continue
		}
		e.Devices++
		if d.idle != nil {
			idle, idles = idle+*d.idle, idles+1
		}
	}
	if e.Devices == 0 {
		return nil
	}
	e.Joules = known(joules)
	e.MeanW = known(joules / (float64(length) / 1e9))
	per := func(j float64, n float64) *float64 {
		if n <= 0 {
			return nil
		}
		return known(j / n)
	}
	e.JPerRequest, e.JPerOutputToken = per(joules, c.okInside), per(joules, c.tokensInside)
	if idles == int(e.Devices) {
		above := math.Max(0, joules-idle*float64(length)/1e9)
		e.IdleW = known(idle)
		e.AboveIdleJoules = known(above)
		e.AboveIdleJPerRequest, e.AboveIdleJPerOutputToken = per(above, c.okInside), per(above, c.tokensInside)
	}
	return e
}
