package align

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/signal"
	"plimsoll/internal/stats"
	"plimsoll/internal/telemetry"
)

// memory is a sink that keeps samples.
type memory struct {
	series  []signal.Series
	index   map[signal.Series]int32
	samples []signal.Sample
}

func (m *memory) Declare(d signal.Series) int32 {
	if m.index == nil {
		m.index = make(map[signal.Series]int32)
	}
	if i, ok := m.index[d]; ok {
		return i
	}
	m.index[d] = int32(len(m.series))
	m.series = append(m.series, d)
	return m.index[d]
}

func (m *memory) Add(s []signal.Sample) { m.samples = append(m.samples, s...) }

func (m *memory) Series() []signal.Series { return m.series }

func (m *memory) All() iter.Seq[[]signal.Sample] {
	return func(yield func([]signal.Sample) bool) {
		for b := range slices.Chunk(m.samples, 7) {
			if !yield(b) {
				return
			}
		}
	}
}

// say adds one value, read between t-1ms and t+1ms.
func (m *memory) say(t int64, d signal.Series, v float64) {
	m.Add([]signal.Sample{{Series: m.Declare(d), Start: t - ms, End: t + ms, Value: v}})
}

// build makes the timeline of an input, whose rows it collects.
func build(t testing.TB, in Input) (*Result, []run.TimelineRow) {
	t.Helper()
	var rows []run.TimelineRow
	in.Rows = func(r []run.TimelineRow) error {
		rows = append(rows, r...)
		return nil
	}
	if in.Start.IsZero() {
		in.Start = time.Unix(1_700_000_000, 0)
	}
	out, err := Build(in)
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(rows); i++ {
		if rows[i].T < rows[i-1].T {
			t.Fatalf("row %d is of %d, after %d", i, rows[i].T, rows[i-1].T)
		}
	}
	for _, r := range rows {
		if math.IsNaN(r.Value) || math.IsInf(r.Value, 0) {
			t.Fatalf("%+v", r)
		}
	}
	seen := make(map[run.TimelineRow]bool)
	for _, r := range rows {
		r.Value = 0
		if seen[r] {
			t.Fatalf("two rows for %+v", r)
		}
		seen[r] = true
	}
	return out, rows
}

// at returns the values of one course, by second; what has none is absent.
func at(rows []run.TimelineRow, name, stat, source, labels string) map[int64]float64 {
	out := make(map[int64]float64)
	for _, r := range rows {
		if r.Signal == name && r.Stat == stat && r.Source == source && r.Labels == labels && r.Workload == "" {
			out[r.T/sec] = r.Value
		}
	}
	return out
}

func steady(from, to int64) stats.Input {
	return stats.Input{Duration: to, Steps: []stats.StepInput{{Users: 1, Start: from, End: to, Complete: true}}}
}

func near(got, want float64) bool {
	return math.Abs(got-want) <= 1e-9*max(1, math.Abs(want))
}

func equal(t *testing.T, what string, got map[int64]float64, want map[int64]float64) {
	t.Helper()
	for k, v := range want {
		if g, ok := got[k]; !ok || !near(g, v) {
			t.Errorf("%s at %d is %v (%v), want %v", what, k, g, ok, v)
		}
	}
	for k, v := range got {
		if _, ok := want[k]; !ok {
			t.Errorf("%s at %d is %v, want none", what, k, v)
		}
	}
}

var (
	running    = signal.Series{Signal: signal.RequestsRunning}
	waiting    = signal.Series{Signal: signal.RequestsWaiting}
	kv         = signal.Series{Signal: signal.KVCacheUsage}
	generation = signal.Series{Signal: signal.GenerationTokens}
	hits       = signal.Series{Signal: signal.PrefixCacheHits}
	queries    = signal.Series{Signal: signal.PrefixCacheQueries}
	power      = signal.Series{Signal: signal.Power}
	energy     = signal.Series{Signal: signal.Energy}
)

func of(s signal.Series, source int, labels string) signal.Series {
	s.Source, s.Labels = source, labels
	return s
}

// TestDataParallelRanks is case 122: two engines behind one page.
func TestDataParallelRanks(t *testing.T) {
	var want struct {
		Running   float64 `json:"running"`
		Tokens    float64 `json:"tokens"`
		KVMax     float64 `json:"kv_max"`
		KVMean    float64 `json:"kv_mean"`
		Imbalance float64 `json:"imbalance"`
	}
	read(t, "testdata/122-dp-ranks/expected.json", &want)
	m := new(memory)
	for i := range int64(11) {
		at := i*sec + 200*ms
		for engine, x := range []struct{ running, kv, tokens float64 }{{30, 0.9, 1000}, {10, 0.3, 3000}} {
			labels := fmt.Sprintf("engine=%d", engine)
			m.say(at, of(running, 0, labels), x.running)
			m.say(at, of(kv, 0, labels), x.kv)
			m.say(at, of(generation, 0, labels), x.tokens*float64(i)) // so many a second
		}
	}
	out, rows := build(t, Input{Run: steady(2*sec, 8*sec), Samples: m, Sources: []Source{{Name: "a:8000"}}})
	const second = 5
	for _, c := range []struct {
		name, stat string
		want       float64
	}{
		{"requests_running", "value", want.Running},
		{"requests_running", "imbalance", want.Imbalance},
		{"generation_tokens", "rate", want.Tokens},
		{"kv_cache_usage", "value", want.KVMean},
		{"kv_cache_usage", "max", want.KVMax},
	} {
		for _, source := range []string{"", "a:8000"} {
			if got, ok := at(rows, c.name, c.stat, source, "")[second]; !ok || !near(got, c.want) {
				t.Errorf("%s %s of %q is %v, %v, want %v", c.name, c.stat, source, got, ok, c.want)
			}
		}
	}
	if got := at(rows, "requests_running", "value", "a:8000", "engine=1")[second]; got != 10 {
		t.Errorf("engine 1 runs %v", got)
	}
	for name, mean := range map[string]float64{
		"requests_running": want.Running, "requests_running_imbalance": want.Imbalance, "generation_tokens": want.Tokens,
		"kv_cache_usage": want.KVMean, "kv_cache_usage_max": want.KVMax,
	} {
		d := out.Server[name]
		if d == nil || d.Mean == nil || !near(*d.Mean, mean) || d.Count != 6 || !near(*d.P99, mean) {
			t.Errorf("%s is %+v, want a mean of %v", name, d, mean)
		}
	}
	if _, ok := out.Server["generation_tokens_max"]; ok {
		t.Error("counters have a maximum")
	}
}

// TestRestartAndGap has a counter that is reset and one with a missing reading.
func TestRestartAndGap(t *testing.T) {
	m := new(memory)
	for i, v := range []float64{100, 175, 20, 35, 35, 35} { // case 121
		m.say(int64(i)*sec, of(generation, 0, ""), v)
	}
	for i, v := range []float64{100, -1, -1, 175, 180, 190} {
		if v >= 0 {
			m.say(int64(i)*sec, of(generation, 1, ""), v)
			m.say(int64(i)*sec, of(running, 1, ""), v)
		}
	}
	out, rows := build(t, Input{Run: steady(0, 5*sec), Samples: m, Sources: []Source{{Name: "a"}, {Name: "b"}}})
	equal(t, "a", at(rows, "generation_tokens", "rate", "a", ""), map[int64]float64{0: 75, 1: 20, 2: 15, 3: 0, 4: 0})
	equal(t, "b", at(rows, "generation_tokens", "rate", "b", ""), map[int64]float64{3: 5, 4: 10})
	// In a gap nobody knows a gauge either, but half a second around a reading.
	equal(t, "running", at(rows, "requests_running", "value", "b", ""), map[int64]float64{-1: 100, 0: 100, 2: 175, 3: 175, 4: 180, 5: 190})
	// Where one of two is not known, so is the sum.
	equal(t, "both", at(rows, "generation_tokens", "rate", "", ""), map[int64]float64{3: 5, 4: 10})
	// Over the window the rise through the gap is known.
	if d := out.Server["generation_tokens"]; d == nil || !near(*d.Mean, 110.0/5+90.0/5) {
		t.Errorf("generation tokens: %v, want %v", *d.Mean, 110.0/5+90.0/5)
	}
	if g := out.Alignment.Sources[1]; g.GapCount != 1 || len(g.Gaps) != 1 || g.Gaps[0] != (run.TimeSpan{FromNS: 0, ToNS: 3 * sec}) {
		t.Errorf("gaps are %+v", g)
	}
}

// TestManyGaps has more gaps than are kept, and then a period beside which half of them are none.
func TestManyGaps(t *testing.T) {
	m := new(memory)
	at := int64(0)
	say := func(n int, step int64) {
		for range n {
			at += step
			m.say(at, of(running, 0, ""), 1)
		}
	}
	for range 50 {
		say(3, sec)
		say(1, 2*sec)
		say(3, sec)
		say(1, 9*sec)
	}
	count := func() (int, int64) {
		out, _ := build(t, Input{Run: steady(0, at), Samples: m, Sources: []Source{{Name: "a"}}})
		s := out.Alignment.Sources[0]
		return len(s.Gaps), s.GapCount
	}
	if kept, n := count(); kept != keptGaps-2 || n != 100 { // the first two times tell no period yet, and keep their place
		t.Errorf("%d of %d gaps, want %d of 100", kept, n, keptGaps-2)
	}
	say(2000, 2*sec)
	if kept, n := count(); kept != keptGaps/2-1 || n != 50 {
		t.Errorf("with a longer period %d of %d gaps, want %d of 50", kept, n, keptGaps/2-1)
	}
}

// TestStartTimeTellsARestart has a server whose counters overtook what they were.
func TestStartTimeTellsARestart(t *testing.T) {
	m := new(memory)
	for i, v := range []float64{100, 110, 130, 140} {
		start := 1.7e9
		if i >= 2 {
			start += 60
		}
		m.say(int64(i)*sec, of(generation, 0, "engine=0"), v)
		m.say(int64(i)*sec, signal.Series{Signal: signal.EngineStart}, start)
	}
	out, rows := build(t, Input{Run: steady(0, 3*sec), Samples: m, Sources: []Source{{Name: "a"}}})
	equal(t, "rate", at(rows, "generation_tokens", "rate", "", ""), map[int64]float64{0: 10, 1: 130, 2: 10})
	if r := out.Alignment.Sources[0].Restarts; len(r) != 1 || r[0] != 2*sec {
		t.Errorf("restarts at %v", r)
	}
}

// TestRatio makes the hit ratio of counters, weighted over engines.
func TestRatio(t *testing.T) {
	m := new(memory)
	for i := range int64(6) {
		f := float64(i)
		m.say(i*sec, of(hits, 0, "engine=0"), 90*f)
		m.say(i*sec, of(queries, 0, "engine=0"), 100*f)
		m.say(i*sec, of(hits, 0, "engine=1"), 0)
		m.say(i*sec, of(queries, 0, "engine=1"), 300*f)
		// Another source only states the ratio.
		m.say(i*sec, signal.Series{Source: 1, Signal: signal.SpecAcceptance}, 0.7)
		// Nothing was looked up: no ratio.
		m.say(i*sec, of(hits, 2, ""), 0)
		m.say(i*sec, of(queries, 2, ""), 0)
	}
	out, rows := build(t, Input{Run: steady(0, 5*sec), Samples: m, Sources: []Source{{Name: "a"}, {Name: "b"}, {Name: "c"}}})
	for _, c := range []struct {
		stat, source, labels string
		want                 float64
	}{{"value", "a", "engine=0", 0.9}, {"value", "a", "engine=1", 0}, {"value", "a", "", 90.0 / 400}, {"max", "", "", 0.9}, {"value", "", "", 90.0 / 400}} {
		if got, ok := at(rows, "prefix_cache_hit_ratio", c.stat, c.source, c.labels)[2]; !ok || !near(got, c.want) {
			t.Errorf("%+v: %v, %v", c, got, ok)
		}
	}
	if len(at(rows, "prefix_cache_hit_ratio", "value", "c", "")) > 0 {
		t.Error("a ratio of nothing")
	}
	if d := out.Server["prefix_cache_hit_ratio"]; !near(*d.Mean, 90.0/400) || !near(*out.Server["prefix_cache_hit_ratio_max"].Mean, 0.9) {
		t.Errorf("ratio is %v", *d.Mean)
	}
	if d := out.Server["spec_acceptance"]; !near(*d.Mean, 0.7) {
		t.Errorf("stated ratio is %v", *d.Mean)
	}
}

// observe adds a histogram: sum, count and cumulative buckets.
func observe(m *memory, t int64, source int, labels string, id signal.ID, bounds []float64, values []float64) {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	d := signal.Series{Source: source, Signal: id, Labels: labels}
	put := func(f signal.Field, bound, v float64) {
		d.Field, d.Bound = f, bound
		m.say(t, d, v)
	}
	put(signal.TotalSum, 0, sum)
	put(signal.TotalCount, 0, float64(len(values)))
	for _, b := range bounds {
		n := 0
		for _, v := range values {
			if v <= b {
				n++
			}
		}
		put(signal.TotalBucket, b, float64(n))
	}
}

func TestDistributions(t *testing.T) {
	inf := math.Inf(1)
	m := new(memory)
	bounds := []float64{0.1, 0.2, 0.5, inf}
	var a, b []float64
	for i := range int64(6) {
		observe(m, i*sec, 0, "engine=0", signal.TTFT, bounds, a)
		observe(m, i*sec, 0, "engine=1", signal.TTFT, bounds, b)
		observe(m, i*sec, 1, "", signal.TTFT, bounds, nil)
		a = append(a, 0.15, 0.15, 0.3, 0.3)     // four a second
		b = append(b, 0.05, 0.15, 0.15, 0.9)    // and as many, one of them beyond the buckets
		_ = append([]float64(nil), a[len(a)-1]) // values are totals: nothing is taken back
	}
	out, rows := build(t, Input{Run: steady(sec, 4*sec), Samples: m, Sources: []Source{{Name: "a"}, {Name: "b"}}})
	mean := (0.15*2 + 0.3*2 + 0.05 + 0.15*2 + 0.9) / 8
	for _, c := range []struct {
		stat, source, labels string
		want                 float64
	}{
		{"rate", "", "", 8},
		{"mean", "", "", mean},
		{"p50_low", "", "", 0.1},
		{"p50_high", "", "", 0.2},
		{"p95_low", "", "", 0.5},
		{"rate", "a", "engine=0", 4},
		{"mean", "a", "engine=0", 0.225},
		{"mean", "a", "engine=1", 0.3125},
		{"rate", "b", "", 0},
	} {
		if got, ok := at(rows, "ttft", c.stat, c.source, c.labels)[2]; !ok || !near(got, c.want) {
			t.Errorf("%+v: %v, %v", c, got, ok)
		}
	}
	for _, c := range []struct{ stat, source string }{{"p95_high", ""}, {"mean", "b"}} {
		if got, ok := at(rows, "ttft", c.stat, c.source, "")[2]; ok {
			t.Errorf("%+v: %v, want none", c, got)
		}
	}
	d := out.Server["ttft"]
	if d.Count != 24 || !near(*d.Mean, mean) || d.Min != nil || d.Max != nil || d.Std != nil {
		t.Errorf("%+v", d)
	}
	// One of 8 is at most 0.1, five at most 0.2: the middle is 3/4 of the way.
	if ci := d.CI95["p50"]; *ci[0] != 0.1 || *ci[1] != 0.2 || !near(*d.P50, 0.175) {
		t.Errorf("p50 is %v in [%v, %v]", *d.P50, *ci[0], *ci[1])
	}
	if ci := d.CI95["p95"]; *ci[0] != 0.5 || ci[1] != nil || d.P95 != nil {
		t.Errorf("p95 is %v in %v", d.P95, ci)
	}
}

// TestDistributionsThatSayLittle have all observations in one bucket, closed or
// open, buckets that differ between engines, and none.
func TestDistributionsThatSayLittle(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		name     string
		a, b     []float64 // bounds of two engines
		value    float64
		interval bool
		upper    bool
	}{
		{"closed", []float64{0.1, 0.5, inf}, []float64{0.1, 0.5, inf}, 0.3, true, true},
		{"open", []float64{0.1, 0.5, inf}, []float64{0.1, 0.5, inf}, 7, false, false},
		{"one bucket", []float64{inf}, []float64{inf}, 7, false, false},
		{"different", []float64{0.1, 0.5, inf}, []float64{0.1, 0.4, inf}, 0.3, false, false},
		{"none", nil, nil, 0.3, false, false},
	} {
		m := new(memory)
		var values []float64
		for i := range int64(6) {
			observe(m, i*sec, 0, "engine=0", signal.E2E, c.a, values)
			observe(m, i*sec, 0, "engine=1", signal.E2E, c.b, values)
			values = append(values, c.value, c.value)
		}
		out, rows := build(t, Input{Run: steady(0, 5*sec), Samples: m})
		d := out.Server["e2e"]
		if d == nil || d.Count != 20 || !near(*d.Mean, c.value) {
			t.Errorf("%s: %+v", c.name, d)
			continue
		}
		ci, ok := d.CI95["p95"]
		if ok != c.interval || ok && (ci[1] != nil) != c.upper || d.P50 != nil || d.P95 != nil {
			t.Errorf("%s: p95 %v in %v", c.name, d.P95, ci)
		}
		if _, ok := at(rows, "e2e", "p95_low", "", "")[2]; ok != c.interval {
			t.Errorf("%s: bounds on the timeline: %v", c.name, ok)
		}
	}
}

// TestStatedLatency has one source with a histogram and one that states a mean of
// its own: they are not mixed.
func TestStatedLatency(t *testing.T) {
	m := new(memory)
	var values []float64
	for i := range int64(6) {
		observe(m, i*sec, 1, "", signal.KVTransferTime, []float64{0.1, 1, math.Inf(1)}, values)
		values = append(values, 0.05, 0.5)
		m.say(i*sec, signal.Series{Signal: signal.KVTransferTime, Labels: "engine=0"}, 0.25)
	}
	out, rows := build(t, Input{Run: steady(0, 5*sec), Samples: m, Sources: []Source{{Name: "a"}, {Name: "b"}}})
	if d := out.Server["kv_transfer_time"]; d == nil || d.Count != 10 || !near(*d.Mean, 0.275) {
		t.Errorf("%+v", d)
	}
	if v := at(rows, "kv_transfer_time", "value", "a", "engine=0")[2]; v != 0.25 {
		t.Errorf("stated: %v", v)
	}
	if v := at(rows, "kv_transfer_time", "mean", "", "")[2]; !near(v, 0.275) {
		t.Errorf("all: %v", v)
	}
}

// TestStandingGauges has an engine that stopped with 106 requests in its gauges
// (vLLM #22545): nobody is there, and no token moves.
func TestStandingGauges(t *testing.T) {
	m := new(memory)
	for i := range int64(20) {
		v, tokens := 0.0, 0.0
		if i >= 3 {
			v, tokens = 106, 100*float64(min(i, 10)-3) // it works until second 10
		}
		m.say(i*sec+ms, of(running, 0, "engine=0"), v)
		m.say(i*sec+ms, of(kv, 0, "engine=0"), v/120)
		m.say(i*sec+ms, of(generation, 0, "engine=0"), tokens)
		m.say(i*sec+ms, of(running, 1, "engine=0"), v) // no counters: nothing to tell by
	}
	in := Input{Run: steady(0, 19*sec), Samples: m, Sources: []Source{{Name: "a"}, {Name: "b"}}}
	in.Requests = requests(request(0, 3*sec, 6*sec, 10*sec, 100))
	_, rows := build(t, in)
	got := at(rows, "requests_running", "value", "a", "engine=0")
	for i := range int64(20) {
		v, ok := got[i]
		switch {
		case i < 3 && (!ok || v != 0):
			t.Errorf("second %d: %v, %v: an idle engine runs none", i, v, ok)
		case i >= 3 && i <= 10 && v != 106:
			t.Errorf("second %d: %v, %v", i, v, ok)
		case i >= 13 && i < 19 && ok:
			t.Errorf("second %d: %v stands still", i, v)
		}
	}
	if v := at(rows, "requests_running", "value", "b", "engine=0")[15]; v != 106 {
		t.Errorf("without counters: %v", v)
	}
	// A request that waits long for its first token is reason enough to believe it.
	in.Requests = requests(request(0, 3*sec, 18*sec, 19*sec, 100))
	_, rows = build(t, in)
	if v := at(rows, "requests_running", "value", "a", "engine=0")[15]; v != 106 {
		t.Errorf("with a request in flight: %v", v)
	}
}

// TestCachedExporter has a device whose page is renewed every 10 s but read every
// second: power is 100 W, then 500 W.
func TestCachedExporter(t *testing.T) {
	m := new(memory)
	const renewed, phase, up = 10 * sec, 3700 * ms, 43700 * ms
	at0 := func(t int64) int64 { return (t-phase+1000*renewed)/renewed*renewed + phase - 1000*renewed }
	joules := func(t int64) float64 { return 5000 + float64(t)/1e9*100 + max(0, float64(t-up))/1e9*400 }
	for i := range int64(120) {
		t := i * sec
		m.say(t, of(energy, 0, "gpu=0,uuid=GPU-1"), joules(at0(t)))
		w := 100.0
		if at0(t) > up {
			w = 500
		}
		m.say(t, of(power, 0, "gpu=0,uuid=GPU-1"), w)
		m.say(t, of(power, 1, "gpu=9,uuid=GPU-1"), w) // another exporter states the same
	}
	in := Input{Run: steady(60*sec, 110*sec), Samples: m, Sources: []Source{{Name: "dcgm"}, {Name: "smi"}}}
	in.Requests = requests(request(0, 50*sec, 60*sec, 80*sec, 1000), request(1, 50*sec, 61*sec, 81*sec, 1000))
	out, rows := build(t, in)
	s := out.Alignment.Sources[0]
	if off := math.Abs(float64(s.RenewedEveryNS)/float64(renewed) - 1); off > 0.1 || s.RenewedAtLeast {
		t.Errorf("renewed every %d", s.RenewedEveryNS)
	}
	rate := at(rows, "energy", "rate", "dcgm", "gpu=0,uuid=GPU-1")
	watts := at(rows, "power", "value", "dcgm", "gpu=0,uuid=GPU-1")
	for i := int64(5); i < 110; i++ {
		want := 100.0
		if i >= 44 {
			want = 500
		}
		if i != 43 && math.Abs(rate[i]-want) > 0.12*want { // renewals are seen to half a second
			t.Errorf("second %d: %v W, want %v", i, rate[i], want)
		}
		if got := watts[i]; got != want && (i < 44 || i >= 49) { // the first renewal after it is at 53.7 s
			t.Errorf("second %d: %v W on the page, want %v", i, got, want)
		}
	}
	if v := at(rows, "power", "value", "", "")[80]; v != 500 {
		t.Errorf("power is %v: the device counts twice", v)
	}
	e := out.Energy
	if e == nil || e.Devices != 1 || e.Source != "counter" || math.Abs(*e.Joules-25000) > 1 || math.Abs(*e.MeanW-500) > 1 {
		t.Fatalf("energy is %+v", e)
	}
	if !near(*e.JPerRequest, *e.Joules/2) || !near(*e.JPerOutputToken, *e.Joules/2000) {
		t.Errorf("%v J per request, %v per token", *e.JPerRequest, *e.JPerOutputToken)
	}
	if !near(*e.IdleW, 100) { // all that the page shows before the first request
		t.Errorf("idle is %v", *e.IdleW)
	}
	if got := *e.AboveIdleJoules; !near(got, *e.Joules-*e.IdleW*50) {
		t.Errorf("above idle: %v", got)
	}
}

func TestEnergyFromPower(t *testing.T) {
	m := new(memory)
	for i := int64(-5); i < 60; i++ {
		for gpu := range 2 {
			w := 80.0
			if i > 0 {
				w = 300 + 100*float64(gpu)
			}
			m.say(i*sec, of(power, 0, fmt.Sprintf("gpu=%d", gpu)), w)
		}
	}
	in := Input{Run: steady(10*sec, 50*sec), Samples: m, Requests: requests(request(0, 100*ms, 11*sec, 20*sec, 500))}
	out, _ := build(t, in)
	e := out.Energy
	if e == nil || e.Devices != 2 || e.Source != "power" || !near(*e.Joules, 700*40) || !near(*e.IdleW, 160) || !near(*e.AboveIdleJoules, 540*40) ||
		!near(*e.JPerOutputToken, 700*40/500.0) || !near(*e.AboveIdleJPerRequest, 540*40) {
		t.Errorf("%+v", e)
	}
	m.samples = m.samples[:40] // power is known for a part of the window only
	if out, _ := build(t, in); out.Energy != nil {
		t.Errorf("%+v", out.Energy)
	}
	if out, _ := build(t, Input{Run: steady(0, sec), Requests: in.Requests}); out.Energy != nil || len(out.Server) > 0 {
		t.Errorf("without telemetry: %+v", out)
	}
}

// TestOwnTimes has a source whose samples bear its own clock, which is 90 s ahead:
// a step in its gauge must lie where the client's clock has it.
func TestOwnTimes(t *testing.T) {
	m := new(memory)
	const ahead, behind = 90 * sec, 1700 * ms // samples are 1.7 s old when they are read
	start := time.Unix(1_700_000_000, 0)
	date := m.Declare(signal.Series{Raw: telemetry.ClockSeries, Labels: "kind=time"})
	gauge := m.Declare(running)
	for i := range int64(60) {
		now := i * sec
		m.Add([]signal.Sample{{Series: date, Start: now, End: now + 4*ms, Value: float64(start.UnixNano()+now+2*ms+ahead) / 1e9}})
		v := 1.0
		if now-behind >= 30*sec {
			v = 2
		}
		m.Add([]signal.Sample{{Series: gauge, Start: now - behind + ahead, End: now - behind + ahead, Value: v}})
	}
	out, rows := build(t, Input{Start: start, Run: steady(0, 60*sec), Samples: m, Sources: []Source{{Name: "npu", OwnTimes: true}}})
	got := at(rows, "requests_running", "value", "", "")
	for i := int64(1); i < 58; i++ {
		want := 1.0
		if i >= 30 {
			want = 2
		}
		if got[i] != want {
			t.Errorf("second %d: %v, want %v", i, got[i], want)
		}
	}
	s := out.Alignment.Sources[0]
	if s.OffsetNS == nil || math.Abs(float64(*s.OffsetNS-ahead)) > float64(20*ms) || *s.UncertaintyNS > 20*ms || s.ClockReadings != 60 {
		t.Errorf("offset is %v +- %v", s.OffsetNS, s.UncertaintyNS)
	}
}

// TestJumpingClock: of a source whose clock jumps about no offset is stated, and the
// times of its readings by this machine's clock stay.
func TestJumpingClock(t *testing.T) {
	m := new(memory)
	start := time.Unix(1_700_000_000, 0)
	date := m.Declare(signal.Series{Raw: telemetry.ClockSeries, Labels: "kind=date"})
	gauge := m.Declare(running)
	for i := range int64(16) {
		now := i * sec
		jump := []int64{0, 3600, -3600, 365 * 24 * 3600}[i%4]
		m.Add([]signal.Sample{{Series: date, Start: now, End: now + ms, Value: float64(start.Unix() + i + jump)}})
		m.Add([]signal.Sample{{Series: gauge, Start: now, End: now + ms, Value: 2}})
	}
	out, rows := build(t, Input{Start: start, Run: steady(0, 16*sec), Samples: m, Sources: []Source{{Name: "vllm"}}})
	if s := out.Alignment.Sources[0]; !s.ClockUnsteady || s.OffsetNS != nil || s.UncertaintyNS != nil || s.ClockReadings != 16 {
		t.Errorf("unsteady %v, offset %v, %d readings", s.ClockUnsteady, s.OffsetNS, s.ClockReadings)
	}
	if got := at(rows, "requests_running", "value", "", ""); len(got) != 16 {
		t.Errorf("%d cells have a value, want 16", len(got))
	}
}

// TestStrangeTimes has an exporter that states times of another century now and then.
func TestStrangeTimes(t *testing.T) {
	m := new(memory)
	for i := range int64(30) {
		g := m.Declare(of(running, 0, ""))
		for _, at := range []int64{-1_700_000_000 * sec, i * sec, 300_000_000 * sec} {
			m.Add([]signal.Sample{{Series: g, Start: at, End: at, Value: 4}})
		}
		m.say(i*sec, of(waiting, 1, ""), 1)
	}
	out, rows := build(t, Input{Run: steady(0, 30*sec), Samples: m, Sources: []Source{{Name: "a", OwnTimes: true}, {Name: "b"}}})
	if len(rows) > 1000 || len(out.Alignment.Notes) != 1 {
		t.Errorf("%d rows, notes %q", len(rows), out.Alignment.Notes)
	}
	if v := at(rows, "requests_running", "value", "a", "")[10]; v != 4 {
		t.Errorf("what is right is lost: %v", v)
	}
}

// TestThisMachineIsNoServer keeps the client's own host, and what a Prometheus
// hands on, out of the sums.
func TestThisMachineIsNoServer(t *testing.T) {
	m := new(memory)
	load := signal.Series{Signal: signal.HostLoad}
	for i := range int64(10) {
		m.say(i*sec, of(load, 0, ""), 8)
		m.say(i*sec, of(load, 1, ""), 2)
		m.say(i*sec, of(running, 1, ""), 5)
		m.say(i*sec, of(running, 2, "instance=b"), 5)
		m.say(i*sec, of(waiting, 2, "instance=b"), 3)
	}
	out, rows := build(t, Input{Run: steady(0, 9*sec), Samples: m, Sources: []Source{{Name: "localhost", Client: true}, {Name: "b"}, {Name: "prom", Relayed: true}}})
	for name, want := range map[string]float64{"host_load": 2, "requests_running": 5, "requests_waiting": 3} {
		if got := at(rows, name, "value", "", "")[4]; got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
		if got := *out.Server[name].Mean; got != want {
			t.Errorf("mean of %s is %v, want %v", name, got, want)
		}
	}
	if got := at(rows, "host_load", "value", "localhost", "")[4]; got != 8 {
		t.Errorf("the client's own load is %v", got)
	}
}

// request is one whose answer comes as events of one token, from first to last.
func request(id uint64, start, first, end int64, tokens int) *record.Request {
	r := new(record.Request)
	r.Reset()
	r.ID, r.Session, r.User, r.Workload = id, id, uint32(id), "w"
	r.Scheduled, r.Start, r.Sent, r.FirstToken, r.LastToken, r.End = start, start, start, first, end, end
	r.Status, r.Streamed, r.Phase = record.OK, true, record.Steady
	r.Prompt, r.Output, r.StreamedTokens, r.FirstEventTokens = 100, int32(tokens), int32(tokens), 1
	r.Source, r.Basis = record.SourceServer, record.BasisFirstEvent
	for i := range tokens {
		at := first
		if tokens > 1 {
			at += (end - first) * int64(i) / int64(tokens-1)
		}
		r.Events = append(r.Events, record.Event{At: at, Tokens: 1, Cumulative: record.Unknown, Channel: record.Content})
	}
	return r
}

func requests(list ...*record.Request) iter.Seq[*record.Request] { return slices.Values(list) }

// TestHighestClock: what a device can do at most is not the highest that it did.
func TestHighestClock(t *testing.T) {
	m := new(memory)
	for i := range int64(6) {
		for gpu, mhz := range map[string]float64{"gpu=0": 1500, "gpu=1": 1700} {
			m.say(i*sec, signal.Series{Signal: signal.SMClock, Labels: gpu}, mhz*1e6)
			m.say(i*sec, signal.Series{Signal: signal.SMClockMax, Labels: gpu}, 1980e6)
		}
	}
	out, _ := build(t, Input{Run: steady(0, 5*sec), Samples: m, Sources: []Source{{Name: "a"}}})
	for name, want := range map[string]float64{"sm_clock": 1600e6, "sm_clock_max": 1980e6} {
		if d := out.Server[name]; d == nil || !near(*d.Mean, want) || !near(*d.Max, want) {
			t.Errorf("%s is %+v, want %v", name, d, want)
		}
	}
	if out.Server["sm_clock_max_max"] != nil {
		t.Error("the highest of the highest")
	}
}

// TestGatewaysInARow: a frontend and its workers see the same requests, and what it says
// of their memory is theirs.
func TestGatewaysInARow(t *testing.T) {
	m := new(memory)
	for i := range int64(10) {
		for source, n := range []float64{4, 5, 9, 9} { // two workers, the frontend, and a Prometheus that reads it
			m.say(i*sec, signal.Series{Source: source, Signal: signal.GatewayInFlight}, n)
			m.say(i*sec, signal.Series{Source: source, Signal: signal.GatewayRequests}, n*float64(i))
		}
		for source, tokens := range []float64{1000, 1000, 2000} {
			m.say(i*sec, signal.Series{Source: source, Signal: signal.KVCapacity}, tokens)
		}
		m.say(i*sec, signal.Series{Source: 2, Signal: signal.MaxConcurrency}, 256)
	}
	worker := Source{Name: "w", Gateway: "worker"}
	out, rows := build(t, Input{Run: steady(0, 9*sec), Samples: m, Sources: []Source{
		worker, worker, {Name: "front", Gateway: "front", Front: true}, {Name: "prom", Relayed: true},
	}})
	for name, want := range map[string]float64{"gateway.requests_in_flight": 9, "gateway.requests": 9, "kv_capacity": 2000, "max_concurrency": 256} {
		if got := *out.Server[name].Mean; !near(got, want) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if got := at(rows, "kv_capacity", "value", "front", "")[4]; got != 2000 {
		t.Errorf("the frontend's own word is %v", got)
	}
	// Without a frontend all workers count.
	out, _ = build(t, Input{Run: steady(0, 9*sec), Samples: m, Sources: []Source{worker, worker, {Client: true}, {Client: true}}})
	if got := *out.Server["gateway.requests_in_flight"].Mean; !near(got, 9) {
		t.Errorf("%v in flight in two workers", got)
	}
	// Two unlike gateways, neither of which is one alone: the first.
	out, _ = build(t, Input{Run: steady(0, 9*sec), Samples: m, Sources: []Source{worker, {Gateway: "other"}, {Client: true}, {Client: true}}})
	if got := *out.Server["gateway.requests_in_flight"].Mean; !near(got, 4) {
		t.Errorf("%v in flight in the first", got)
	}
	infos := []telemetry.SourceInfo{
		{Index: 0, Sources: []string{"dynamo-worker", "vllm"}, Gateways: []string{"dynamo-worker"}},
		{Index: 1, Sources: []string{"dynamo-frontend"}, Gateways: []string{"dynamo-frontend"}},
	}
	if got := Sources(infos); got[0].Front || got[0].Gateway != "dynamo-worker" || !got[1].Front || got[1].Gateway != "dynamo-frontend" {
		t.Errorf("%+v", got)
	}
}

// Labels that change with every reading do not fill what is told of gauges.
func TestManyGauges(t *testing.T) {
	m := &memory{}
	for i := range 2 * mostSignals {
		m.say(int64(i+1)*1e6, of(signal.Series{Signal: signal.RequestsRunning}, 0, fmt.Sprintf("engine=%d", i)), 1)
	}
	m.say(1e9, of(signal.Series{Signal: signal.RequestsRunning}, 1, "engine=0"), 1)
	res, _ := build(t, Input{Run: steady(0, 2e9), Sources: []Source{{Name: "churn"}, {Name: "good"}}, Samples: m})
	per := map[int]int{}
	for _, s := range res.Alignment.Signals {
		per[s.Source]++
	}
	if per[0] != mostSignals || per[1] != 1 {
		t.Errorf("told of %v gauges", per)
	}
	if n := res.Alignment.Notes; len(n) != 1 || !strings.Contains(n[0], "churn") || !strings.Contains(n[0], "512 of 1024") {
		t.Errorf("notes %q", n)
	}
}
