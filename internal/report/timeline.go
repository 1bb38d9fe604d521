package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"slices"

	"plimsoll/internal/plainjson"
	"plimsoll/internal/run"
	"plimsoll/internal/signal"
)

// courseKey names one course of a timeline.
type courseKey struct{ Signal, Stat, Source, Labels, Workload string }

// Timeline is a timeline as courses on one grid.
type Timeline struct {
	// start and step are ns of the run's clock.
	start, step int64
	points      int
	courses     map[courseKey][]reading
}

type reading struct {
	at    int64
	value float64
}

// maxPoints bounds the grid of a damaged file.
const maxPoints = 1 << 22

// ReadTimeline takes up the rows of a timeline. Its error is that of the rows, or
// that they are no timeline.
func ReadTimeline(rows iter.Seq2[[]run.TimelineRow, error]) (*Timeline, error) {
	t := &Timeline{courses: map[courseKey][]reading{}}
	times := map[int64]bool{}
	for batch, err := range rows {
		if err != nil {
			return nil, err
		}
		for i := range batch {
			r := &batch[i]
			k := courseKey{r.Signal, r.Stat, r.Source, r.Labels, r.Workload}
			t.courses[k] = append(t.courses[k], reading{r.T, r.Value})
			times[r.T] = true
		}
	}
	grid := slices.Sorted(maps.Keys(times))
	if len(grid) == 0 {
		return t, nil
	}
	t.start, t.points = grid[0], 1
	for i := 1; i < len(grid); i++ {
		if d := grid[i] - grid[i-1]; t.step == 0 || d < t.step {
			t.step = d
		}
	}
	if t.step > 0 {
		span := grid[len(grid)-1] - t.start
		n := span/t.step + 1
		if span < 0 || n > maxPoints {
			return nil, fmt.Errorf("read timeline: its times are from %d to %d ns, %d ns apart", t.start, grid[len(grid)-1], t.step)
		}
		t.points = int(n)
	}
	return t, nil
}

// values puts a course on the grid, with NaN where nothing is known.
func (t *Timeline) values(cells []reading) []float64 {
	out := make([]float64, t.points)
	for i := range out {
		out[i] = math.NaN()
	}
	for _, c := range cells {
		i := 0
		if t.step > 0 {
			i = int((c.at - t.start) / t.step)
		}
		out[i] = c.value
	}
	return out
}

// statsOf are the figures of a signal that its course is drawn of, the best first.
func statsOf(d *signal.Def) []string {
	switch d.Kind {
	case signal.Counter:
		return []string{"rate", "value"}
	case signal.Distribution:
		return []string{"mean", "p50"}
	case signal.Gauge, signal.Ratio, signal.Constant:
	}
	return []string{"value", "mean", "max"}
}

// beside has for signals of servers the client's figure of the same.
var beside = map[signal.ID]signal.ID{
	signal.RequestsRunning:     signal.ClientInFlight,
	signal.RequestsWaiting:     signal.ClientWaitingFirst,
	signal.PromptTokens:        signal.ClientPromptTokens,
	signal.GenerationTokens:    signal.ClientOutputTokens,
	signal.RequestsFinished:    signal.ClientOK,
	signal.RequestsFailed:      signal.ClientErrors,
	signal.TTFT:                signal.ClientTTFT,
	signal.TPOT:                signal.ClientTPOT,
	signal.ITL:                 signal.ClientITL,
	signal.E2E:                 signal.ClientE2E,
	signal.GatewayInFlight:     signal.ClientInFlight,
	signal.GatewayRequests:     signal.ClientSent,
	signal.GatewayErrors:       signal.ClientErrors,
	signal.GatewayTTFT:         signal.ClientTTFT,
	signal.GatewayTPOT:         signal.ClientTPOT,
	signal.GatewayE2E:          signal.ClientE2E,
	signal.GatewayPromptTokens: signal.ClientPromptTokens,
	signal.GatewayOutputTokens: signal.ClientOutputTokens,
}

// Courses returns one course for each signal of all sources together, or one for
// each source where there is no other, in the order of the catalogue.
func (t *Timeline) Courses() *Courses {
	// What held before the run's clock began is not a part of its course.
	skip := 0
	if t.start < 0 && t.step > 0 {
		skip = int(min((-t.start+t.step-1)/t.step, int64(t.points)))
	}
	out := &Courses{Start: float64(t.start+int64(skip)*t.step) / 1e9, Step: float64(t.step) / 1e9}
	by := map[string][]courseKey{}
	for k := range t.courses {
		if k.Workload == "" {
			by[k.Signal] = append(by[k.Signal], k)
		}
	}
	one := func(d *signal.Def) []Course {
		for _, stat := range statsOf(d) {
			var whole, parts []Course
			keys := by[d.Name]
			slices.SortFunc(keys, func(a, b courseKey) int {
				return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Labels, b.Labels), cmp.Compare(a.Stat, b.Stat))
			})
			for _, k := range keys {
				if k.Stat != stat {
					continue
				}
				c := Course{
					Signal: d.Name, Unit: d.Unit, Group: d.Group, State: d.Combine == signal.Max,
					Values: t.values(t.courses[k])[skip:],
				}
				if stat == "rate" {
					c.Unit = d.RateUnit()
				}
				if k.Source == "" && k.Labels == "" {
					whole = append(whole, c)
					continue
				}
				c.Of = k.Source
				if k.Labels != "" {
					c.Of += " " + k.Labels
				}
				parts = append(parts, c)
			}
			switch {
			case len(whole) > 0:
				return whole
			case len(parts) > 0:
				return parts
			}
		}
		return nil
	}
	shown := map[signal.ID]bool{}
	all := signal.All()
	for i := range all {
		d := &all[i]
		if d.Group == signal.Client {
			continue
		}
		list := one(d)
		if b, ok := beside[d.ID]; ok && len(list) > 0 {
			if c := one(b.Def()); len(c) == 1 {
				list[len(list)-1].Beside = &c[0]
				shown[b] = true
			}
		}
		out.List = append(out.List, list...)
	}
	for i := range all {
		if d := &all[i]; d.Group == signal.Client && !shown[d.ID] {
			out.List = append(out.List, one(d)...)
		}
	}
	return out
}

// courseJSON is one course for programs.
type courseJSON struct {
	Signal   string     `json:"signal"`
	Stat     string     `json:"stat"`
	Unit     *string    `json:"unit"`
	Source   string     `json:"source,omitempty"`
	Labels   string     `json:"labels,omitempty"`
	Workload string     `json:"workload,omitempty"`
	Values   []*float64 `json:"values"`
}

// JSON writes every course of the timeline for programs, null where nothing is
// known.
func (t *Timeline) JSON(w io.Writer) error {
	doc := struct {
		Schema  string       `json:"schema"`
		StartS  float64      `json:"start_s"`
		StepS   float64      `json:"step_s"`
		Signals []courseJSON `json:"signals"`
	}{"plimsoll.courses/1", float64(t.start) / 1e9, float64(t.step) / 1e9, []courseJSON{}}
	keys := slices.SortedFunc(maps.Keys(t.courses), func(a, b courseKey) int {
		return cmp.Or(cmp.Compare(order(a.Signal), order(b.Signal)), cmp.Compare(a.Signal, b.Signal), cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.Labels, b.Labels), cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Stat, b.Stat))
	})
	for _, k := range keys {
		c := courseJSON{Signal: k.Signal, Stat: k.Stat, Source: k.Source, Labels: k.Labels, Workload: k.Workload}
		if id, ok := signal.Lookup(k.Signal); ok {
			unit := id.Def().Unit
			if k.Stat == "rate" {
				unit = id.Def().RateUnit()
			}
			c.Unit = &unit
		}
		for _, v := range t.values(t.courses[k]) {
			if math.IsNaN(v) {
				c.Values = append(c.Values, nil)
				continue
			}
			c.Values = append(c.Values, &v)
		}
		doc.Signals = append(doc.Signals, c)
	}
	b, err := json.Marshal(&doc)
	if err != nil {
		return fmt.Errorf("encode courses: %w", err)
	}
	_, err = w.Write(append(plainjson.Escape(b), '\n'))
	return err
}

// order is the place of a signal in the catalogue; what is in none comes last.
func order(name string) int {
	if id, ok := signal.Lookup(name); ok {
		return int(id)
	}
	return signal.Count
}
