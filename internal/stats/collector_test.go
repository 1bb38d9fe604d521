package stats

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"plimsoll/internal/histogram"
	"plimsoll/internal/record"
	"plimsoll/internal/scenario"
)

const ms, sec = int64(1e6), int64(1e9)

// window is an Input with one step from 0 to end.
func window(end int64) Input {
	return Input{ID: "x", Name: "x", Steps: []StepInput{{Users: 1, Start: 0, End: end, Complete: true}}}
}

// streamed returns an ok request of the steady window that was due and started
// at the given time and streamed one token at each of the given times after it.
func streamed(start int64, at ...int64) *record.Request {
	r := new(record.Request)
	r.Reset()
	r.Phase, r.Workload = record.Steady, "w"
	r.Scheduled, r.Start, r.Connected, r.Sent = start, start, start, start
	r.Streamed, r.AskedStream = true, true
	for _, t := range at {
		r.Events = append(r.Events, record.Event{At: start + t, Tokens: 1, Cumulative: record.Unknown, Channel: record.Content})
	}
	if n := len(at); n > 0 {
		r.Headers = start + at[0]
		r.FirstEvent, r.FirstToken, r.FirstContent = r.Headers, r.Headers, r.Headers
		r.LastToken, r.End = start+at[n-1], start+at[n-1]
		r.Output, r.StreamedTokens, r.FirstEventTokens = int32(n), int32(n), 1
		r.Source, r.Basis = record.SourceServer, record.BasisFirstEvent
	}
	return r
}

func summarize(in Input, rs ...*record.Request) *Summary {
	c := NewCollector(in)
	for _, r := range rs {
		c.Add(r)
	}
	return c.Summary()
}

func marshal(s *Summary) string {
	b, err := s.Marshal()
	if err != nil {
		panic(err)
	}
	return string(b)
}

var resolvedSchema = sync.OnceValues(func() (*jsonschema.Resolved, error) {
	b, err := SummarySchema()
	if err != nil {
		return nil, err
	}
	s := new(jsonschema.Schema)
	if err := json.Unmarshal(b, s); err != nil {
		return nil, err
	}
	return s.Resolve(nil)
})

// strict fails unless s is JSON that fits its schema and can be read back.
func strict(t testing.TB, s *Summary) {
	t.Helper()
	b := marshal(s)
	resolved, err := resolvedSchema()
	if err != nil {
		t.Fatal(err)
	}
	var v any
	d := json.NewDecoder(strings.NewReader(b))
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	if err := resolved.Validate(v); err != nil {
		t.Errorf("the summary does not fit its schema: %v", err)
	}
	back, err := ParseSummary([]byte(b))
	if err != nil {
		t.Fatal(err)
	}
	if again := marshal(back); again != b {
		t.Errorf("read back it is %s", again)
	}
	if bytes.Contains([]byte(b), []byte("NaN")) {
		t.Error("it has NaN")
	}
}

func TestSchemaRefusesOtherFiles(t *testing.T) {
	resolved, err := resolvedSchema()
	if err != nil {
		t.Fatal(err)
	}
	b := marshal(summarize(window(sec), streamed(0, ms)))
	for old, change := range map[string]string{
		`"plimsoll.summary/1"`: `"other/1"`, `"valid"`: `"perfect"`, `"scheduled": 1`: `"scheduled": null`, `"name": "x"`: `"nom": "x"`,
	} {
		var v any
		if err := json.Unmarshal([]byte(strings.Replace(b, old, change, 1)), &v); err != nil {
			t.Fatal(err)
		}
		if resolved.Validate(v) == nil {
			t.Errorf("%s instead of %s fits", change, old)
		}
	}
	for _, b := range []string{"", "{}", "[1]", `{"schema": "plimsoll.summary/2"}`, b[:len(b)/2]} {
		if _, err := ParseSummary([]byte(b)); err == nil {
			t.Errorf("%.30q is a summary", b)
		}
	}
}

// TestMemoryPerRequest holds the collector to what a run of ten million
// requests can afford.
func TestMemoryPerRequest(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const n = 200_000
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	in := window(1000 * sec)
	before := heap()
	c := NewCollector(in)
	r := streamed(0, 100*ms, 120*ms, 140*ms)
	r.KernelTimes, r.ReadLagMean, r.ReadLagMax = true, 1000, 2000
	for i := range n {
		r.ID, r.Session = uint64(i), uint64(i)
		c.Add(r)
	}
	per := float64(heap()-before) / n
	t.Logf("%.1f bytes per request", per)
	if per > 100 {
		t.Errorf("%.1f bytes per request, want at most 100", per)
	}
	if s := c.Summary(); s.Requests.OK != n || s.Latency.E2E.Count != n {
		t.Errorf("%d requests, %d latencies", s.Requests.OK, s.Latency.E2E.Count)
	}
}

// TestLongAndNegativeTimes covers durations that do not fit the columns.
func TestLongAndNegativeTimes(t *testing.T) {
	long := streamed(0, 2000*sec, 5000*sec)
	early := streamed(10*sec, -5*ms, 5*ms)
	s := summarize(window(20*sec), long, early)
	is(t, "max of ttft", s.Latency.TTFT.Max, known(2e6))
	is(t, "min of ttft", s.Latency.TTFT.Min, known(-5))
	is(t, "max of e2e", s.Latency.E2E.Max, known(5e6))
	is(t, "max of tpot", s.Latency.TPOT.Max, known(3e6))
}

func TestAddAllocatesLittle(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	c := NewCollector(window(sec))
	r := streamed(0, 100*ms, 120*ms, 140*ms)
	for range 2 * chunkRows {
		c.Add(r)
	}
	// A chunk's columns are allocated once per chunk.
	if n := testing.AllocsPerRun(5000, func() { c.Add(r) }); n > 0.1 {
		t.Errorf("%v allocations per request", n)
	}
}

func BenchmarkAdd(b *testing.B) {
	c := NewCollector(window(sec))
	at := make([]int64, 100)
	for i := range at {
		at[i] = 100*ms + int64(i)*5*ms
	}
	r := streamed(0, at...)
	b.ReportAllocs()
	for b.Loop() {
		c.Add(r)
	}
}

func TestClientFigures(t *testing.T) {
	lag, pause := new(histogram.Histogram), new(histogram.Histogram)
	lag.RecordN(100_000, 99)
	lag.Record(3*ms + 1)
	pause.Record(200_000)
	share, open := 0.25, int64(7)
	in := window(sec)
	in.Client = ClientInput{CanaryLag: lag, GCPause: pause, CPUShare: &share, OpenConnections: &open, DroppedRecords: 3, DroppedSamples: 4}
	a, b, failed := streamed(0, 10*ms, 20*ms), streamed(0, 10*ms), streamed(0)
	a.KernelTimes, a.ReadLagMean, a.ReadLagMax = true, 50_000, 900_000
	b.KernelTimes, b.ReadLagMean, b.ReadLagMax = true, 150_000, 160_000
	a.Scheduled, b.Scheduled, b.CapWait = -2*ms, -9*ms, 8*ms
	a.Events[0].Bounded = true
	failed.Status, failed.Error, failed.Scheduled = record.Failed, record.ConnectRefused, -5*ms
	c := summarize(in, a, b, failed).Client
	// How late the client sent is a figure of failed requests too.
	is(t, "mean of send_lag", c.SendLag.Mean, known(8.0/3))
	is(t, "max of send_lag", c.SendLag.Max, known(5))
	is(t, "mean of read_lag", c.ReadLag.Mean, known(0.1))
	is(t, "read_lag_max", c.ReadLagMax, known(0.9))
	is(t, "bounded_event_share", c.BoundedEventShare, known(1.0/3))
	is(t, "max of canary_lag", c.CanaryLag.Max, known(3.000001))
	is(t, "min of gc_pause", c.GCPause.Min, known(0.2))
	is(t, "cpu_share", c.CPUShare, &share)
	if *c.OpenConnections != open || c.DroppedRecords != 3 || c.DroppedSamples != 4 || *c.Timestamps != "kernel" {
		t.Errorf("client is %+v", c)
	}
	b.KernelTimes = false
	c = summarize(in, a, b, failed).Client
	if *c.Timestamps != "user" || c.ReadLag.Count != 1 {
		t.Errorf("with user times: %s, %d read lags", *c.Timestamps, c.ReadLag.Count)
	}
	c = summarize(window(sec), failed).Client
	if c.Timestamps != nil || c.ReadLagMax != nil || c.BoundedEventShare != nil || c.CanaryLag != nil || c.CPUShare != nil || c.OpenConnections != nil {
		t.Errorf("of nothing received: %+v", c)
	}
}

// TestInputSurvivesJSON: run.json keeps the input, and the summary made again
// must not differ by a digit.
func TestInputSurvivesJSON(t *testing.T) {
	lag := new(histogram.Histogram)
	lag.Record(123_457)
	share := 1.0 / 3
	in := window(sec)
	in.Started = time.Date(2026, 11, 30, 10, 0, 0, 123_456_789, time.UTC)
	in.Steps[0].Users, in.Steps[0].Rate, in.RateDriven, in.MaxInFlight = 0, 10.0/3, true, 5
	in.Duration, in.Limits = 3*sec+1, []scenario.Limit{{Metric: "ttft", Stat: "p95", Value: 123456789}}
	in.Client = ClientInput{CanaryLag: lag, CPUShare: &share, DroppedSamples: 1}
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var back Input
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	r := streamed(0, 100*ms, 133*ms)
	if got, want := marshal(summarize(back, r)), marshal(summarize(in, r)); got != want {
		t.Errorf("after JSON: %s\nwant %s", got, want)
	}
}

func TestSharedTokensOfUncountedEventsAddUp(t *testing.T) {
	// 10 tokens in 3 events that nobody divided, over two windows.
	in := Input{Steps: []StepInput{{Users: 1, Start: 0, End: sec, Complete: true}, {Users: 2, Start: sec, End: 2 * sec, Complete: true}}}
	r := streamed(0, 500*ms, 900*ms, 1500*ms)
	r.Output, r.StreamedTokens, r.Reasoning = 10, 10, 4
	for i := range r.Events {
		r.Events[i].Tokens = record.Unknown
	}
	s := summarize(in, r)
	is(t, "first window", s.Steps[0].Tokens.OutputPerS, known(6))
	is(t, "second window", s.Steps[1].Tokens.OutputPerS, known(4))
	is(t, "first window's reasoning", s.Steps[0].Tokens.ReasoningPerS, known(2))
	is(t, "both", s.Tokens.OutputPerS, known(5))
}

func TestUncountedBodyMakesTheRateUnknown(t *testing.T) {
	a, b := streamed(0, 100*ms), streamed(0)
	b.Streamed, b.End, b.TextBytes, b.Output = false, 500*ms, 20, record.Unknown
	if s := summarize(window(sec), a, b); s.Tokens.OutputPerS != nil {
		t.Errorf("output/s is %v though a body was not counted", *s.Tokens.OutputPerS)
	}
	b.End = 2 * sec // outside the window
	is(t, "output/s", summarize(window(sec), a, b).Tokens.OutputPerS, known(1))
}

func TestSessionsLiveThroughTheirPauses(t *testing.T) {
	// Two requests of one session with 400 ms of thinking between them.
	a, b := streamed(0, 100*ms), streamed(500*ms, 100*ms)
	a.Session, b.Session = 1, 1
	l := summarize(window(sec), a, b).Load
	is(t, "requests in flight", l.RequestsInFlight.Mean, known(0.2))
	is(t, "sessions in flight", l.SessionsInFlight.Mean, known(0.6))
	if l.Users == nil || *l.Users != 1 {
		t.Errorf("users are %v", l.Users)
	}
}

// BenchmarkSummary is of a million requests.
func BenchmarkSummary(b *testing.B) {
	const n = 1_000_000
	c := NewCollector(window(1000 * sec))
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		at := int64(rnd.ExpFloat64() * 1e8)
		r := streamed(int64(i)*ms, at, at+20*ms, at+40*ms)
		r.ID, r.Session = uint64(i), uint64(i)
		c.Add(r)
	}
	b.ReportAllocs()
	for b.Loop() {
		c.Summary()
	}
}
