package telemetry

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/clock"
)

// miniProm answers like a Prometheus that scrapes the given series.
type miniProm struct {
	now    func() time.Time
	series []miniSeries
	auth   string
	asked  []string
	fail   bool
}

type miniSeries struct {
	labels map[string]string
	// first is the time of the first sample; one follows every interval until last.
	first, last time.Time
	every       time.Duration
	value       func(t time.Time) float64
}

func (m *miniProm) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	q := r.Form.Get("query")
	m.asked = append(m.asked, r.Method+" "+r.URL.Path+" "+q)
	refuse := func(status int, text string) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"status": "error", "errorType": "x", "error": text})
	}
	if m.auth != "" && r.Header.Get("Authorization") != m.auth {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if m.fail {
		refuse(503, "starting")
		return
	}
	give := func(data any) { _ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": data}) }
	stamp := func(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }
	at := m.now()
	if s := r.Form.Get("time"); s != "" {
		f, _ := strconv.ParseFloat(s, 64)
		at = time.UnixMilli(int64(math.Round(f * 1e3)))
	}
	switch {
	case q == "time()":
		give(map[string]any{"resultType": "scalar", "result": []any{stamp(at), strconv.FormatFloat(stamp(at), 'f', -1, 64)}})
	case strings.HasSuffix(r.URL.Path, "/api/v1/label/__name__/values"):
		var names []string
		for _, s := range m.series {
			names = append(names, s.labels["__name__"])
		}
		slices.Sort(names)
		give(slices.Compact(names))
	case strings.HasSuffix(r.URL.Path, "/api/v1/query"):
		x := regexp.MustCompile(`^\{__name__=~("(?:[^"\\]|\\.)*")(?:,job="([^"]*)")?\}\[(\d+)s\]$`).FindStringSubmatch(q)
		if x == nil {
			refuse(400, "parse error: "+q)
			return
		}
		names, err := strconv.Unquote(x[1])
		if err != nil {
			refuse(400, err.Error())
			return
		}
		re, err := regexp.Compile("^(?:" + names + ")$")
		if err != nil {
			refuse(400, err.Error())
			return
		}
		n, _ := strconv.Atoi(x[3])
		var result []any
		for _, s := range m.series {
			if !re.MatchString(s.labels["__name__"]) || x[2] != "" && s.labels["job"] != x[2] {
				continue
			}
			var values []any
			for t := s.first; !t.After(at) && !t.After(s.last); t = t.Add(s.every) {
				if t.After(at.Add(-time.Duration(n) * time.Second)) {
					values = append(values, []any{stamp(t), strconv.FormatFloat(s.value(t), 'g', -1, 64)})
				}
			}
			if values != nil {
				result = append(result, map[string]any{"metric": s.labels, "values": values})
			}
		}
		give(map[string]any{"resultType": "matrix", "result": result})
	case strings.HasSuffix(r.URL.Path, "/api/v1/query_range"):
		from, _ := strconv.ParseFloat(r.Form.Get("start"), 64)
		to, _ := strconv.ParseFloat(r.Form.Get("end"), 64)
		step, _ := strconv.Atoi(strings.TrimSuffix(r.Form.Get("step"), "s"))
		if step == 0 || q == "broken(" {
			refuse(400, "bad")
			return
		}
		var values []any
		for t := from; t <= to; t += float64(step) {
			values = append(values, []any{t, strconv.FormatFloat(math.Mod(t, 1000), 'f', -1, 64)})
		}
		give(map[string]any{"resultType": "matrix", "result": []any{map[string]any{"metric": map[string]string{"pod": "p,1", "a": "b"}, "values": values}}})
	default:
		w.WriteHeader(404)
	}
}

// TestPrometheus reads two vLLM servers behind a Prometheus that scrapes every 5 s: each sample once, at the Prometheus' own
// time of it; one server goes away and leaves no repeated values; another job is left out.
func TestPrometheus(t *testing.T) {
	fake(t, func(t *testing.T, net *servers, c *clock.Clock) {
		zero := c.Start()
		since := func(t time.Time) float64 { return math.Round(t.Sub(zero).Seconds()) }
		var p miniProm
		p.now = func() time.Time { return time.Now() }
		p.auth = "Bearer k"
		add := func(name, job, instance string, first time.Duration, last time.Duration, value func(time.Time) float64) {
			p.series = append(p.series, miniSeries{
				labels: map[string]string{"__name__": name, "job": job, "instance": instance, "engine": "0", "model_name": "m"},
				first:  zero.Add(first), last: zero.Add(last), every: 5 * time.Second, value: value,
			})
		}
		hour := time.Hour
		running := func(t time.Time) float64 { return 10 + since(t) }
		add("vllm:num_requests_running", "llm", "a:8000", -600*time.Second+1200*ms, hour, running)
		add("vllm:num_requests_running", "llm", "b:8000", -600*time.Second+3400*ms, 14*time.Second, running)
		add("vllm:num_requests_running", "other", "c:8000", -600*time.Second+2*time.Second, hour, running)
		add("up", "llm", "a:8000", -600*time.Second, hour, since)
		add("vllm:generation_tokens_total", "llm", "a:8000", -600*time.Second+1200*ms, hour, func(t time.Time) float64 {
			if since(t) > 10 && since(t) < 14 {
				return math.NaN()
			}
			return 1000 + since(t)
		})
		net.handle("prom:9090", p.ServeHTTP)
		var sink sinkLog
		s := newScraper(t, Config{
			Clock: c, Sink: &sink, Dial: net.Dial,
			Targets: []Target{{
				URL: "http://prom:9090/base/api/v1", Kind: KindPrometheus, Match: map[string]string{"job": "llm"},
				Header:  http.Header{"Authorization": {"Bearer k"}},
				Queries: []Query{{Name: "mine", Expr: "sum(x)"}, {Name: "bad", Expr: "broken("}},
			}},
		})
		s.Baseline(t.Context())
		s.Start(t.Context())
		sleep(c, 23*time.Second)
		s.Final(t.Context())

		sec := time.Second
		// Of what was before only the newest, then each once.
		want := []at{instant(-3800*ms, 6)}
		for i := range 6 {
			w := 1200*ms + time.Duration(i)*5*sec
			want = append(want, instant(w, 10+math.Round(w.Seconds())))
		}
		if diff := cmp.Diff(want, sink.of(0, "requests_running", "engine=0,instance=a:8000,job=llm")); diff != "" {
			t.Errorf("a (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]at{instant(-1600*ms, 8), instant(3400*ms, 13), instant(8400*ms, 18), instant(13400*ms, 23)}, sink.of(0, "requests_running", "engine=0,instance=b:8000,job=llm")); diff != "" {
			t.Errorf("b (-want +got):\n%s", diff)
		}
		if n := len(sink.of(0, "requests_running", "*")); n != len(want)+4 {
			t.Errorf("%d samples of requests_running in all", n)
		}
		// A value that is no number is a gap, never 0 and never carried forward.
		tokens := sink.of(0, "generation_tokens", "*")
		if len(tokens) != len(want)-1 || slices.ContainsFunc(tokens, func(x at) bool { return x.Start == 11200*ms || x.Value < 990 }) {
			t.Errorf("tokens: %v", tokens)
		}
		mine := sink.of(0, "mine", "a=b,pod=p;1")
		for i, x := range mine {
			if i > 0 && x.Start-mine[i-1].Start != 5*sec || x.Start != x.End {
				t.Errorf("query: %v", mine)
				break
			}
		}
		if len(mine) < 5 {
			t.Errorf("query: %v", mine)
		}
		info := s.Info()[0]
		if info.State != StateOK || info.UpdateEvery != int64(5*sec) || !info.OwnTimes || !slices.Equal(info.Sources, []string{"vllm"}) || info.GapCount != 0 || info.Name != "prom:9090/base/api/v1" {
			t.Errorf("%+v", info)
		}
		if len(info.Clock) == 0 || info.Clock[0] != (ClockReading{Start: 0, End: 0, Server: zero.UnixNano(), Resolution: 1e6, Kind: ClockTime}) {
			t.Errorf("clock: %+v", info.Clock)
		}
		if !slices.ContainsFunc(info.Problems, func(p SourceProblem) bool { return strings.Contains(p.Text, "query bad") }) {
			t.Errorf("problems: %+v", info.Problems)
		}
		// It is asked when it can have something new, not at every point of the grid: five times, and before and after.
		if n := strings.Count(strings.Join(p.asked, "\n"), "time()"); n < 6 || n > 9 {
			t.Errorf("asked %d times", n)
		}
		for _, q := range p.asked {
			if strings.Contains(q, "|up|") || strings.Contains(q, `"up"`) {
				t.Errorf("asked for a name that no table knows: %s", q)
			}
		}
	})
}

// instant is a sample whose time is known exactly.
func instant(t time.Duration, v float64) at { return at{t, t, v} }

// TestPrometheusStates tells a wrong key, a page of something else and a Prometheus that starts apart.
func TestPrometheusStates(t *testing.T) {
	for _, x := range []struct {
		name string
		h    http.Handler
		want State
		why  string
	}{
		{"key", &miniProm{auth: "Bearer x"}, StateAuthFailed, "401"},
		{"starting", &miniProm{fail: true}, StateError, "503"},
		{"no prometheus", http.NotFoundHandler(), StateAbsent, "before /api/v1"},
		{"html", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }), StateNotAPage, "HTML"},
		{"other json", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"a":1}`) }), StateNotAPage, "not that of a Prometheus"},
		{"no scalar", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
		}), StateNotAPage, "scalar"},
	} {
		t.Run(x.name, func(t *testing.T) {
			fake(t, func(t *testing.T, net *servers, c *clock.Clock) {
				if p, ok := x.h.(*miniProm); ok {
					p.now = time.Now
				}
				net.handle("prom:9090", x.h.ServeHTTP)
				s := newScraper(t, Config{Clock: c, Sink: &sinkLog{}, Dial: net.Dial, Targets: []Target{{URL: "http://prom:9090", Kind: KindPrometheus}}})
				s.Baseline(t.Context())
				if info := s.Info()[0]; info.State != x.want || !strings.Contains(info.Why, x.why) {
					t.Errorf("%+v, want %s %q", info, x.want, x.why)
				}
			})
		})
	}
}

// TestPromMatrix reads answers as they come and names what is wrong with those that it cannot read.
func TestPromMatrix(t *testing.T) {
	for _, x := range []struct {
		in          string
		series      int
		nan, native int
		bad         int
		err         string
	}{
		{`{"resultType":"matrix","result":[]}`, 0, 0, 0, 0, ""},
		{`{"resultType":"matrix","result":[{"metric":{"__name__":"x","job":"j"},"values":[[1.5,"1"],[2.5,"NaN"],[3.5,"+Inf"],[4,"2e3"]]}]}`, 1, 2, 0, 0, ""},
		{`{"resultType":"vector","result":[{"metric":{},"value":[1,"1"]},{"metric":{"a":"b"},"value":[1,"-Inf"]}]}`, 1, 1, 0, 0, ""},
		{`{"resultType":"scalar","result":[1700000000.123,"4"]}`, 1, 0, 0, 0, ""},
		{`{"resultType":"scalar","result":[1700000000.123,"NaN"]}`, 0, 1, 0, 0, ""},
		{`{"resultType":"matrix","result":[{"metric":{"__name__":"h"},"histograms":[[1,{"count":"2"}]]}]}`, 0, 0, 1, 0, ""},
		{`{"resultType":"matrix","result":[{"metric":{},"values":[[2,"1"],[1,"5"],[2,"6"],[3,"7"]]}]}`, 1, 0, 0, 0, ""},
		{`{"resultType":"matrix","result":[{"metric":{},"values":[[1e300,"1"],[-1,"2"],["x",5],null,[1],{},[2,"1e400"],[3,"1e308"],[4,"5","6"],[5,"1\\u0030"]]}]}`, 1, 1, 0, 7, ""},
		{`{"resultType":"scalar","result":[1,2]}`, 0, 0, 0, 0, "scalar"},
		{`{"resultType":"string","result":[1,"x"]}`, 0, 0, 0, 0, `type "string"`},
		{`{"resultType":"matrix","result":[{"metric":{},"values":[["x","1"]]}]}`, 0, 0, 0, 1, "none of the samples"},
		{`{"resultType":"matrix","result":[{"metric":{},"values":[[1,1]]}]}`, 0, 0, 0, 1, "none of the samples"},
		{`{"resultType":"matrix","result":[{"metric":{},"values":[[1,"one"]]}]}`, 0, 0, 0, 1, "none of the samples"},
		{`{"resultType":"matrix","result":[{},{},{},{}]}`, 0, 0, 0, 0, "4 series, more than 3"},
		{`[]`, 0, 0, 0, 0, "no result"},
		{``, 0, 0, 0, 0, "no result"},
	} {
		s, odd, err := promMatrix([]byte(x.in), 3)
		if len(s) != x.series || odd.nan != x.nan || odd.native != x.native || odd.bad != x.bad || (err == nil) != (x.err == "") || err != nil && !strings.Contains(err.Error(), x.err) {
			t.Errorf("%s: %v, %+v, %v", x.in, s, odd, err)
		}
	}
	s, _, _ := promMatrix([]byte(`{"resultType":"matrix","result":[{"metric":{},"values":[[2,"1"],[1,"5"],[2,"6"],[3,"7"]]}]}`), 3)
	if diff := cmp.Diff([]promPoint{{2000, 1}, {3000, 7}}, s[0].points, cmp.AllowUnexported(promPoint{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSpacing finds the scrape interval in samples with jitter, holes and few of them.
func TestSpacing(t *testing.T) {
	mk := func(times ...int64) []promSeries {
		s := promSeries{}
		for _, x := range times {
			s.points = append(s.points, promPoint{ms: x})
		}
		return []promSeries{s}
	}
	for _, x := range []struct {
		in   []promSeries
		want time.Duration
	}{
		{nil, 0},
		{mk(1000), 0},
		{mk(1000, 16000), 15 * time.Second},
		{mk(0, 15003, 30001, 60000, 75004, 89998), 15 * time.Second},
		{mk(0, 500, 1000, 1500), 500 * time.Millisecond},
		{mk(0, 1300, 2600), 1300 * time.Millisecond},
		{mk(0, 3_600_000), 0},
	} {
		if got := spacing(x.in); got != int64(x.want) {
			t.Errorf("%v: %v, want %v", x.in, time.Duration(got), x.want)
		}
	}
}

// TestInstants keeps what one page says together, also where its exporter states times of its own.
func TestInstants(t *testing.T) {
	for _, x := range []struct {
		times []int64
		near  int64
		want  [][2]int64
	}{
		{nil, 0, nil},
		{[]int64{5000, 5000, 10000}, 0, [][2]int64{{5000, 5000}, {10000, 10000}}},
		{[]int64{10000, 5400, 5000, 6250, 6251, 9990}, 1250, [][2]int64{{5000, 6250}, {6251, 6251}, {9990, 10000}}},
	} {
		if diff := cmp.Diff(x.want, instants(x.times, x.near)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", x.times, diff)
		}
	}
}

// TestWanted chooses names that tables read.
func TestWanted(t *testing.T) {
	all := []string{"up", "vllm:num_requests_running", "vllm:request_queue_time_seconds_sum", "vllm:request_queue_time_seconds_bucket", "go_goroutines", "process_start_time_seconds"}
	got := wanted(all, Builtin())
	want := []string{"process_start_time_seconds", "vllm:num_requests_running", "vllm:request_queue_time_seconds_bucket", "vllm:request_queue_time_seconds_sum"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// FuzzPromAnswer takes anything for an answer: it is read or refused, and what is read is finite and in order.
func FuzzPromAnswer(f *testing.F) {
	f.Add([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"x","instance":"a"},"values":[[1.5,"1"],[2.5,"NaN"]]}]}}`))
	f.Add([]byte(`{"status":"success","data":{"resultType":"scalar","result":[1700000000.123,"1700000000.123"]}}`))
	f.Add([]byte(`{"status":"error","errorType":"bad_data","error":"invalid parameter"}`))
	f.Add([]byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1e300,"1e999"]}]},"warnings":["w"]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		data, _, err := promData(b)
		if err != nil {
			return
		}
		_, _ = promScalar(data)
		series, _, err := promMatrix(data, 1000)
		if err != nil {
			return
		}
		for _, s := range series {
			for i, p := range s.points {
				if math.IsNaN(p.value) || math.IsInf(p.value, 0) || i > 0 && p.ms <= s.points[i-1].ms {
					t.Fatalf("%q gave %v", b, s.points)
				}
			}
			_ = joinLabels(s.labels)
		}
		spacing(series)
	})
}
