package stats

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"plimsoll/internal/record"
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
