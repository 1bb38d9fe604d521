package probe

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/scenario"
	"plimsoll/internal/stats"
)

// request is what a fit needs to know of a request. Times are ns on the run's
// clock, record.Unset where they were not reached; durations are ms, NaN where they
// are not known; token counts are below 0 where nobody reported them.
type request struct {
	user     uint32
	workload string
	status   record.Status
	reused   bool
	message  string

	start, connected, sent, first, last, end int64
	ttft, ttfc, tpot, e2e, upload, connect   float64

	prompt, cached, output, reasoning int
	// asked are the tokens of prompt and output that were wanted.
	askedPrompt, askedOutput int
	sentBytes                int64
	// eventCount counts the output events, streamed the tokens in them.
	eventCount, streamed int
	// events are the times and the tokens of the output events, where they are
	// wanted.
	events []event
}

type event struct {
	at     int64
	tokens int
}

// tokens is the length of the prompt: what the server says, else what was wanted.
func (r *request) tokens() int {
	if r.prompt > 0 {
		return r.prompt
	}
	return r.askedPrompt
}

func (r *request) ok() bool { return r.status == record.OK }

// level is one step of the ladder with what was measured in it.
type level struct {
	scenario.LoadStep
	requests []request
}

// data is a run as a fit sees it.
type data struct {
	scenario *scenario.Scenario
	kind     *kind
	steps    []level
	signals  map[string][]sample
	// early says that the run was ended before its time.
	early bool
}

// sample is a figure of one cell of the timeline.
type sample struct {
	at    int64
	value float64
}

// newData is empty.
func newData(s *scenario.Scenario, k *kind) *data {
	d := &data{scenario: s, kind: k}
	l := &s.Load
	one := func(st scenario.LoadStep) {
		if st.Duration == 0 && st.Requests == 0 {
			st.Duration, st.Requests = l.Duration, l.Requests
		}
		d.steps = append(d.steps, level{LoadStep: st})
	}
	for _, st := range l.Steps {
		one(st)
	}
	for _, n := range l.Users {
		one(scenario.LoadStep{Users: n})
	}
	for _, r := range l.Rate {
		one(scenario.LoadStep{Rate: r})
	}
	if len(l.Stages) > 0 {
		one(scenario.LoadStep{})
	}
	return d
}

// add takes a request. Those of the warm-up and of the drain are not looked at.
func (d *data) add(r *record.Request) {
	if int(r.Step) >= len(d.steps) || r.Phase != record.Steady || r.Start == record.Unset {
		return
	}
	ms := func(v int64, ok bool) float64 {
		if !ok {
			return math.NaN()
		}
		return float64(v) / 1e6
	}
	q := request{
		user: r.User, workload: r.Workload, status: r.Status, reused: r.Reused,
		start: r.Start, connected: r.Connected, sent: r.Sent, first: r.FirstToken, last: r.LastToken, end: r.End,
		ttft: ms(stats.TTFT(r)), ttfc: ms(stats.TTFC(r)), e2e: ms(stats.E2E(r)), upload: ms(stats.Upload(r)), connect: ms(stats.Connect(r)),
		tpot: math.NaN(), prompt: int(r.Prompt), cached: int(r.Cached), output: int(r.Output), reasoning: int(r.Reasoning),
		askedPrompt: int(r.AskedPrompt), askedOutput: int(r.AskedOutput), sentBytes: r.SentBytes,
		eventCount: len(r.Events), streamed: int(r.StreamedTokens),
	}
	if r.Status == record.Failed {
		q.message = r.Message
		if q.message == "" {
			q.message = r.Error.String()
		}
	}
	if v, _, ok := stats.TPOT(r); ok {
		q.tpot = v / 1e6
	}
	if d.kind.events {
		q.events = eventsOf(r)
	}
	st := &d.steps[r.Step]
	st.requests = append(st.requests, q)
}

// eventsOf lists the output events of a request. Where it is not known which brought
// how many tokens, all of them are shared out evenly.
func eventsOf(r *record.Request) []event {
	out := make([]event, len(r.Events))
	known := true
	for i, e := range r.Events {
		out[i] = event{e.At, int(e.Tokens)}
		known = known && e.Tokens >= 0
	}
	if known {
		return out
	}
	n, all := len(out), max(int(r.Output), len(out))
	for i := range out {
		out[i].tokens = (i+1)*all/n - i*all/n
	}
	return out
}

// arrange puts the requests of each step into the order of their starts, so that a
// fit does not depend on the order in which they were written.
func (d *data) arrange() {
	for i := range d.steps {
		slices.SortStableFunc(d.steps[i].requests, func(a, b request) int {
			return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.user, b.user), cmp.Compare(a.end, b.end))
		})
	}
}

// ran is the number of steps up to the last that has requests.
func (d *data) ran() int {
	n := 0
	for i := range d.steps {
		if len(d.steps[i].requests) > 0 {
			n = i + 1
		}
	}
	return n
}

// values are a figure of the requests of a step that ended well, without those of
// which it is not known.
func (l *level) values(of func(*request) float64) []float64 {
	var out []float64
	for i := range l.requests {
		if r := &l.requests[i]; r.ok() {
			if v := of(r); !math.IsNaN(v) {
				out = append(out, v)
			}
		}
	}
	return out
}

// good is the number of requests that ended well.
func (l *level) good() int {
	n := 0
	for i := range l.requests {
		if l.requests[i].ok() {
			n++
		}
	}
	return n
}

// prompt is the median length of the prompts, NaN without any.
func (l *level) prompt() float64 {
	return median(l.values(func(r *request) float64 { return float64(r.tokens()) })).value
}

// who names the load of a step.
func (l *level) who() string {
	if l.Rate > 0 {
		return fmt.Sprintf("%.4g a second", l.Rate)
	}
	return plural(l.Users, "users")
}

// label names a step by what it sets.
func (l *level) label() string {
	var parts []string
	for _, p := range slices.Sorted(maps.Keys(l.Set)) {
		parts = append(parts, l.Set[p])
	}
	return strings.Join(parts, ", ")
}

func ttft(r *request) float64 { return r.ttft }
func tpot(r *request) float64 { return r.tpot }

// wanted are the signals that fits look at, with the figure of a cell.
var wanted = map[string]string{
	"requests_waiting": "value", "requests_running": "value", "kv_cache_usage": "value", "kv_capacity": "value", "preemptions": "rate",
	"fb_used": "value", "host_mem_available": "value", "prefix_cache_hit_ratio": "value", "spec_acceptance": "value",
	"kv_transfer_time": "mean",
}

// readSignals keeps what fits look at of a timeline, of all sources together.
func (d *data) readSignals(timeline iter.Seq2[[]run.TimelineRow, error]) error {
	d.signals = map[string][]sample{}
	for rows, err := range timeline {
		if err != nil {
			return fmt.Errorf("read the timeline: %w", err)
		}
		for i := range rows {
			r := &rows[i]
			if r.Source != "" || r.Labels != "" || r.Workload != "" {
				continue
			}
			name := r.Signal
			if name == "e2e" {
				name += "." + r.Stat // the mean of a cell counts by its rate
			} else if wanted[name] != r.Stat {
				continue
			}
			d.signals[name] = append(d.signals[name], sample{r.T, r.Value})
		}
	}
	return nil
}

// during are the samples of a signal from one time to another.
func (d *data) during(signal string, from, to int64) []float64 {
	var out []float64
	for _, s := range d.signals[signal] {
		if s.at >= from && s.at < to {
			out = append(out, s.value)
		}
	}
	return out
}

// engineE2E is the mean time in ms of the requests that engines finished between two
// times, as they say; NaN where they say nothing.
func (d *data) engineE2E(from, to int64) float64 {
	rates := map[int64]float64{}
	for _, s := range d.signals["e2e.rate"] {
		rates[s.at] = s.value
	}
	sum, n := 0.0, 0.0
	for _, s := range d.signals["e2e.mean"] {
		if s.at >= from && s.at < to {
			sum, n = sum+rates[s.at]*s.value, n+rates[s.at]
		}
	}
	return 1000 * sum / n
}

// span is the time from the first start of a step to its last end.
func (l *level) span() (from, to int64) {
	from, to = math.MaxInt64, math.MinInt64
	for i := range l.requests {
		from = min(from, l.requests[i].start)
		if e := l.requests[i].end; e != record.Unset {
			to = max(to, e)
		}
	}
	return from, max(to, from)
}

// Steering is a conduct.Steering for a probe: it gathers what the fits need and
// leaves the ladder when the probe has found what it looks for.
type Steering struct{ d *data }

// NewSteering returns one for the probe that a scenario runs, nil when it runs none.
func NewSteering(s *scenario.Scenario) *Steering {
	k, _ := of(s)
	if k == nil {
		return nil
	}
	return &Steering{newData(s, k)}
}

// Record gathers a request.
func (s *Steering) Record(r *record.Request) { s.d.add(r) }

// More says whether the next step can still tell something.
func (s *Steering) More(step int) bool {
	d := s.d
	last := step - 1
	if last >= len(d.steps) {
		return true
	}
	if d.kind.climbs && 2*d.steps[last].good() < len(d.steps[last].requests) {
		return false // what is longer will be refused too
	}
	if d.kind.enough == nil || len(d.steps[last].requests) == 0 {
		return true
	}
	d.arrange()
	return !d.kind.enough(d, last)
}

// Fit returns what the gathered requests come to, where no run on disk has them.
func (s *Steering) Fit() *run.Probe { return s.d.fit() }

// seconds is a time in s.
func seconds(ns int64) float64 { return time.Duration(ns).Seconds() }
