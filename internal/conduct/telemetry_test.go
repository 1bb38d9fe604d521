package conduct

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll/internal/load"
	"plimsoll/internal/run"
	"plimsoll/internal/signal"
	"plimsoll/internal/telemetry"
)

// patient waits for pages as long as a test may take.
var patient = Limits{Edge: time.Hour, Stop: time.Hour, Read: time.Hour, Search: time.Hour}

// hanging is a page that has one gauge the first times it is asked, and then never comes;
// closing the server ends it. It tells of each time that it is asked.
func hanging(t *testing.T, answers int) (url string, asked <-chan struct{}) {
	t.Helper()
	tell := make(chan struct{}, 1)
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) <= int64(answers) {
			_, _ = io.WriteString(w, "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\"} 1\n")
			return
		}
		select {
		case tell <- struct{}{}:
		default:
		}
		<-r.Context().Done()
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL + "/metrics", tell
}

// running is what a page says of a server at work.
var running = regexp.MustCompile(`(?m)^vllm:num_requests_running\S* [1-9]`)

// TestTelemetryIsKept: what the servers say is on disk, in the summary and
// beside the client's figures, which agree with it to the token.
func TestTelemetryIsKept(t *testing.T) {
	url := serveTwin(t)
	// The load goes on until the server was seen at work in seven different seconds: then
	// there are readings well within its window.
	stop := make(chan struct{})
	var once sync.Once
	var mu sync.Mutex
	seen := map[int64]bool{}
	began := time.Now()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		res, err := http.Get(url + "/metrics") //nolint:noctx // bounded by the test
		if err != nil {
			t.Error(err)
			return
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = w.Write(b)
		if !running.Match(b) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if seen[int64(time.Since(began)/time.Second)] = true; len(seen) == 7 {
			once.Do(func() { close(stop) })
		}
	}))
	defer page.Close()
	cfg := config(t, plan(t, "target.url="+url, "load.users=4", "load.duration=10m", "users.output-tokens=20", "target.ignore-eos=true",
		"data.telemetry="+page.URL+"/metrics", "data.telemetry-interval=100ms"))
	cfg.Stop, cfg.Limits = stop, patient
	res, err := Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := run.Open(res.Folder)
	if err != nil {
		t.Fatal(err)
	}
	sources := saved.Info().Telemetry
	if len(sources) != 2 || sources[0].State != telemetry.StateOK || sources[0].Scrapes < 7 || sources[1].Kind != telemetry.KindHost {
		t.Fatalf("sources %+v, want the page and this machine", sources)
	}
	g := res.Summary.Agreement
	if g == nil || g.Attributable == nil || !*g.Attributable || *g.OutputTokens.Engine != *g.OutputTokens.Client || *g.PromptTokens.Engine != *g.PromptTokens.Client {
		text, _ := json.Marshal(g)
		t.Errorf("agreement %s, want the same tokens on both sides", text)
	}
	if d := res.Summary.Server[signal.RequestsRunning.String()]; d == nil || d.Mean == nil || *d.Mean <= 0 || *d.Mean > 4 {
		t.Errorf("requests running %+v, want up to 4", d)
	}
	on := map[string]bool{}
	for rows, err := range Timeline(saved) {
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			on[r.Signal] = true
		}
	}
	for _, want := range []signal.ID{signal.ClientOutputTokens, signal.ClientCPU, signal.GenerationTokens, signal.KVCacheUsage, signal.HostCPU} {
		if !on[want.String()] {
			t.Errorf("%s is not on the timeline", want)
		}
	}
	if saved.Info().Alignment == nil || saved.Info().Samples == 0 {
		t.Errorf("run.json says nothing of %d samples", saved.Info().Samples)
	}
}

// TestStopBesideAPageThatHangs: who stops a run waits for no page, whether the load
// had begun or not. Each reading may take an hour here: who waited would wait that long.
func TestStopBesideAPageThatHangs(t *testing.T) {
	url := serveTwin(t)
	for _, answers := range []int{0, 1} { // the page hangs before the load, or beside it
		page, asked := hanging(t, answers)
		cfg := config(t, plan(t, "target.url="+url, "load.users=1", "load.duration=100h", "load.drain=2s", "users.output-tokens=4", "data.telemetry="+page))
		stop := make(chan struct{})
		cfg.Stop, cfg.Limits = stop, Limits{Edge: time.Hour, Read: time.Hour}
		begun := make(chan struct{})
		if answers > 0 {
			var once sync.Once
			cfg.Progress = func(p Progress) {
				if p.Counts.OK > 0 {
					once.Do(func() { close(begun) })
				}
			}
		} else {
			close(begun)
		}
		go func() {
			<-asked
			<-begun
			close(stop)
		}()
		var res *Result
		done := make(chan error, 1)
		go func() {
			var err error
			res, err = Run(context.Background(), cfg)
			done <- err
		}()
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(5 * time.Minute):
			t.Fatalf("a page that hangs after %d readings holds the run up", answers)
		}
		if got := res.Stopped; got != load.Interrupted || answers > 0 && res.Summary.Requests.OK == 0 {
			t.Errorf("behind %d readings it ended %v with %+v", answers, got, res.Summary.Requests)
		}
	}
}

// TestRunBesideAPageThatHangs: such a page holds up the beginning and the end as long as
// it may, fails nothing, and is told of.
func TestRunBesideAPageThatHangs(t *testing.T) {
	page, _ := hanging(t, 0)
	cfg := config(t, plan(t, "target.url="+serveTwin(t), "load.users=2", "load.requests=20", "users.output-tokens=4", "data.telemetry="+page))
	cfg.Limits = Limits{Read: 50 * time.Millisecond}
	res, err := Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := run.Open(res.Folder)
	if err != nil {
		t.Fatal(err)
	}
	sources := saved.Info().Telemetry
	if res.Stopped != load.Completed || res.Summary.Requests.OK != 20 || len(sources) != 2 || sources[0].State != telemetry.StateError || sources[0].Scrapes != 0 {
		t.Errorf("it ended %v with %+v, sources %+v", res.Stopped, res.Summary.Requests, sources)
	}
}

// TestOwnKeysOfPages: the endpoint's key goes to its own origin alone, unless a page
// has its own.
func TestOwnKeysOfPages(t *testing.T) {
	s := plan(t, "target.url=http://127.0.0.1:8000/v1", "target.api-key-env=KEY", "target.header.X-Team=a", "load.users=1",
		"data.telemetry=[auto, http://127.0.0.1:8000/metrics, http://127.0.0.1:9400/metrics, {url: http://127.0.0.1:9090, kind: prometheus, api-key-env: PROM, match: {job: x}, header: {X-Scope-OrgID: b}}]")
	lookup := func(name string) (string, bool) {
		v, ok := map[string]string{"KEY": "key-of-target", "PROM": "key-of-prom"}[name]
		return v, ok
	}
	access, err := NewAccess(&s.Target, lookup, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPages(s, access, lookup, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !p.auto || len(p.named) != 3 {
		t.Fatalf("%+v, want auto and 3 pages", p)
	}
	for i, want := range []struct{ key, team string }{{"Bearer key-of-target", "a"}, {"", ""}, {"Bearer key-of-prom", ""}} {
		h := p.named[i].Header
		if h.Get("Authorization") != want.key || h.Get("X-Team") != want.team {
			t.Errorf("%s gets %v", p.named[i].URL, h)
		}
	}
	prom := p.named[2]
	if prom.Kind != telemetry.KindPrometheus || prom.Match["job"] != "x" || prom.Header.Get("X-Scope-OrgID") != "b" {
		t.Errorf("prometheus %+v", prom)
	}
	if got := access.Redact("a key-of-prom b key-of-target"); got != "a *** b ***" {
		t.Errorf("redacted to %q", got)
	}
}
