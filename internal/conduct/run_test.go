package conduct

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/clock"
	"plimsoll/internal/load"
	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/scenario"
	"plimsoll/internal/stats"
	"plimsoll/internal/twin"
)

// serveTwin serves a twin of steps of 5 ms and returns its URL.
func serveTwin(t *testing.T) string {
	t.Helper()
	s, err := twin.NewServer(twin.ServerConfig{Step: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() {
		if err := s.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); served.Wait() })
	return "http://" + l.Addr().String()
}

// plan reads a scenario from PATH=VALUE settings.
func plan(t testing.TB, sets ...string) *scenario.Scenario {
	t.Helper()
	var src scenario.Source
	for _, text := range sets {
		s, err := scenario.ParseSet(text)
		if err != nil {
			t.Fatal(err)
		}
		src.Settings = append(src.Settings, s)
	}
	s, err := scenario.Read(src)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func config(t *testing.T, s *scenario.Scenario) *Config {
	return &Config{
		Scenario: s, Root: t.TempDir(), Version: "test",
		LookupEnv: func(string) (string, bool) { return "", false },
		ReadFile:  os.ReadFile,
	}
}

// TestRun: what is kept can be read back, and says the same.
func TestRun(t *testing.T) {
	// The first step has its requests whatever the machine does, the second its window.
	s := plan(t, "target.url="+serveTwin(t), "load.steps=[{users: 2, requests: 20}, {users: 3, duration: 300ms}]", "load.warmup=50ms",
		"users.output-tokens=4", "seed=5", "name=both steps", "tag=team=ops")
	cfg := config(t, s)
	var last Progress
	cfg.Progress = func(p Progress) {
		if p.Making == 0 { // what is told while the panel's part is made is not of the load
			last = p
		}
	}
	res, err := Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if s.Target.Model != "" {
		t.Error("the caller's scenario was changed")
	}
	if !last.Over || last.Share != 1 || last.Counts.OK < 20 {
		t.Errorf("last progress %+v, want one of a run that is over", last)
	}
	saved, err := run.Open(res.Folder)
	if err != nil {
		t.Fatal(err)
	}
	info := saved.Info()
	if info.State != run.Done || info.Name != "both steps" || info.Tags["team"] != "ops" || info.End == nil ||
		info.Verdict != res.Summary.Run.Verdict || info.ScenarioHash == "" || info.Records == 0 {
		t.Errorf("run.json: %+v", info)
	}
	if n := len(info.Input.Steps); n != 2 {
		t.Fatalf("%d steps, want 2", n)
	}
	for i, st := range info.Input.Steps {
		if st.Users != i+2 || i == 1 && st.End-st.Start != int64(300*time.Millisecond) || !st.Complete {
			t.Errorf("step %d: %+v", i, st)
		}
	}
	if info.Input.Steps[1].Start < info.Input.Steps[0].End+int64(50*time.Millisecond) {
		t.Error("the second window begins before its warm-up is over")
	}
	again, _, err := Remake(saved)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(res.Summary, again); d != "" {
		t.Errorf("the summary made again differs:\n%s", d)
	}
	kept, err := saved.Summary()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(res.Summary, kept); d != "" {
		t.Errorf("the summary on disk differs:\n%s", d)
	}
	if kept.Requests.OK < 20 || kept.Requests.Error != 0 || kept.Client.CanaryLag == nil || kept.Client.OpenConnections == nil {
		t.Errorf("summary: %+v, %+v", kept.Requests, kept.Client)
	}
	text, err := saved.Scenario()
	if err != nil {
		t.Fatal(err)
	}
	was, err := scenario.Read(scenario.Source{Name: "scenario.yaml", Data: text})
	if err != nil {
		t.Fatal(err)
	}
	if was.Target.Model != "llama-3.1-8b" || was.Seed != 5 || was.Hash() != info.ScenarioHash {
		t.Errorf("scenario.yaml: model %q, seed %d, hash %s; want that of run.json, %s", was.Target.Model, was.Seed, was.Hash(), info.ScenarioHash)
	}
	var facts Facts
	if err := json.Unmarshal(info.Target, &facts); err != nil {
		t.Fatal(err)
	}
	if len(facts.Connections) != 1 || facts.Connections[0].Opened < 1 || len(facts.Models) != 1 {
		t.Fatalf("target: %+v", facts)
	}
	// Every request went over a connection that was opened or used again.
	if c := facts.Connections[0]; c.Opened+c.Reused != last.Counts.OK || c.Opened > 3 {
		t.Errorf("%d connections were opened and %d used again for %d requests of 3 users at most", c.Opened, c.Reused, last.Counts.OK)
	}
}

// TestRunUnderWay: of a run whose process has gone the windows and all but the
// last seconds are there.
func TestRunUnderWay(t *testing.T) {
	begun := time.Now()
	s := plan(t, "target.url="+serveTwin(t), "load.users=2", "load.duration=100h", "users.output-tokens=4")
	cfg := config(t, s)
	stop := make(chan struct{})
	cfg.Stop = stop
	var done sync.WaitGroup
	done.Go(func() {
		if _, err := Run(context.Background(), cfg); err != nil {
			t.Error(err)
		}
	})
	defer done.Wait()
	defer close(stop)
	var runs []*run.Run
	var sum *stats.Summary
	for sum == nil || sum.Requests.OK < 50 || sum.Run.WindowS == nil {
		if time.Since(begun) > 5*time.Minute {
			t.Fatal("no 50 requests on disk within 5 minutes")
		}
		time.Sleep(50 * time.Millisecond) // real time: parts are closed every few seconds of it
		var err error
		if runs, err = run.List(cfg.Root); err != nil || len(runs) == 0 {
			continue
		}
		if sum, err = runs[0].Summarize(); err != nil {
			t.Fatal(err)
		}
	}
	in := runs[0].Info().Input
	if runs[0].Info().State != run.Running || in.Steps[0].End-in.Steps[0].Start != int64(100*time.Hour) {
		t.Errorf("state %s, window %+v; want a running one of 100 h", runs[0].Info().State, in.Steps[0])
	}
	if sum.Run.Verdict != stats.Invalid || *sum.Run.WindowS > time.Since(begun).Seconds() {
		t.Errorf("summary: %d ok, %s, window of %v s; want what there is, cut at the last record, and invalid", sum.Requests.OK, sum.Run.Verdict, *sum.Run.WindowS)
	}
}

// TestStopBeforeTheLoad: asked to stop while it looks at the target, a run
// leaves nothing behind.
func TestStopBeforeTheLoad(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	cfg := config(t, plan(t, "target.url=http://"+l.Addr().String(), "load.users=1"))
	stop := make(chan struct{})
	close(stop)
	cfg.Stop = stop
	if _, err := Run(context.Background(), cfg); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	if entries, _ := os.ReadDir(cfg.Root); len(entries) > 0 {
		t.Errorf("%d entries in the folder of runs", len(entries))
	}
}

// nowhere makes every name one that nobody knows, whatever this machine asks for names.
func nowhere(t *testing.T) {
	t.Helper()
	was := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = was })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer func() { _ = server.Close() }()
			// A question over a stream is its length and its text, and the answer the same
			// text with other flags.
			var b [514]byte
			if _, err := io.ReadFull(server, b[:2]); err != nil {
				return
			}
			n := 2 + int(binary.BigEndian.Uint16(b[:2]))
			if n > len(b) {
				return
			}
			if _, err := io.ReadFull(server, b[2:n]); err != nil {
				return
			}
			b[4] |= 0x80                          // it is an answer
			b[5] = 3                              // there is no such name
			binary.BigEndian.PutUint16(b[12:], 0) // nothing additional
			_, _ = server.Write(b[:n])
		}()
		return client, nil
	}}
}

func TestPreflight(t *testing.T) {
	nowhere(t)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that refuse its certificate
	secure.StartTLS()
	defer secure.Close()
	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"data":[]}`))
	}))
	defer empty.Close()
	red := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"data":[{"id":"a\u001b[31m"}]}`))
	}))
	defer red.Close()
	refused := "http://127.0.0.1:1"
	f := func(kind record.ErrorKind, want string, sets ...string) {
		t.Helper()
		cfg := config(t, plan(t, append(sets, "load.users=1")...))
		_, err := Run(context.Background(), cfg)
		pe, ok := errors.AsType[*PreflightError](err)
		if !ok || pe.Kind != kind || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one of kind %s with %q", err, kind, want)
		}
		if entries, _ := os.ReadDir(cfg.Root); len(entries) > 0 {
			t.Error("a run was kept")
		}
	}
	f(record.ConnectRefused, "nothing listens there", "target.url="+refused)
	f(record.ConnectRefused, "nothing listens there", "target.url="+refused, "target.model=m")
	f(record.TLSError, "--ca", "target.url="+secure.URL, "target.model=m")
	f(record.TLSError, "--ca", "target.url="+secure.URL)
	f(record.TLSError, "--ca", "target.url="+strings.Replace(empty.URL, "http:", "https:", 1), "target.model=m")
	f(record.HTTPStatusError, "--model", "target.url="+secure.URL, "target.insecure=true")
	f(record.BadBody, "--model", "target.url="+empty.URL)
	f(record.BadBody, `without control characters, got "a\x1b[31m"`, "target.url="+red.URL)
	f(record.DNSError, "name is not known", "target.url=http://no-such-host.invalid", "target.model=m")
	f(record.ConnectRefused, "nothing listens there", "target.url=http://example.invalid", "target.model=m", "target.proxy="+refused)
	f(record.HTTPStatusError, "VLLM_SERVER_DEV_MODE", "target.url="+secure.URL, "target.model=m", "target.insecure=true", "target.reset-prefix-cache=true")
	// The second URL is looked at too.
	f(record.ConnectRefused, "127.0.0.1:1", "target.url="+empty.URL+","+refused, "target.model=m")
}

// TestResetPrefixCache: the one POST that was asked for is made once per target,
// before any other.
func TestResetPrefixCache(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Method+" "+r.URL.Path)
		if r.URL.Path != "/reset_prefix_cache" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer s.Close()
	cfg := config(t, plan(t, "target.url="+s.URL, "target.model=m", "target.reset-prefix-cache=true", "load.users=1", "load.requests=1", "data.telemetry=none"))
	res, err := Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if d := cmp.Diff([]string{"POST /reset_prefix_cache", "POST /v1/chat/completions"}, seen); d != "" {
		t.Errorf("requests (-want +got):\n%s", d)
	}
	if res.Summary.Requests.ByError["overloaded"] != 1 {
		t.Errorf("errors %v, want one overloaded", res.Summary.Requests.ByError)
	}
}

func TestPlanned(t *testing.T) {
	const s = time.Second
	got := planned([]load.Step{
		{Users: 2, Warmup: 5 * s, Duration: 10 * s, Drain: 60 * s},
		{Rate: 4, Warmup: 1 * s, Requests: 20},
		{Users: 3, Warmup: 2 * s, Requests: 7},
		{Users: 9, Duration: s},
	}, int64(s))
	want := []stats.StepInput{
		{Users: 2, Start: int64(6 * s), End: int64(16 * s), Asked: int64(10 * s)},
		{Rate: 4, Start: int64(17 * s), End: int64(22 * s)},
	}
	if len(got) != 3 {
		t.Fatalf("%d steps, want 3: what comes after one of unknown length cannot be known", len(got))
	}
	if d := cmp.Diff(want, got[:2]); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got[2].Users != 3 || got[2].Start != int64(24*s) || got[2].End < int64(1000*time.Hour) {
		t.Errorf("step of unknown length: %+v", got[2])
	}
}

func TestNewPlan(t *testing.T) {
	p, err := NewPlan(plan(t, "target.url=http://h", "load.rate=2,4", "load.requests=100", "load.warmup=10s", "load.drain=5s",
		"users.prompt-tokens=100", "users.output-tokens=10", "seed=1"), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	// 20 + 100 at 2/s, 40 + 100 at 4/s.
	if *p.Requests != 260 || *p.PromptTokens != 26_000 || *p.OutputTokens != 2600 || *p.DurationS != 10+50+10+25 || p.DrainS != 10 {
		t.Errorf("%d requests, %d and %d tokens, %v s, drains %v s", *p.Requests, *p.PromptTokens, *p.OutputTokens, *p.DurationS, p.DrainS)
	}
	if *p.SentBytes < 26_000*4 || *p.SentBytes > 26_000*12 {
		t.Errorf("%d bytes for 26,000 tokens of words", *p.SentBytes)
	}
	p, err = NewPlan(plan(t, "target.url=http://h", "load.users=4", "load.requests=100", "load.warmup=10s"), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if p.Requests != nil || p.DurationS != nil || p.SentBytes != nil {
		t.Error("a closed loop was said to be known beforehand")
	}
}

// TestLastWordSaysThatItStops: a run whose load is over before anybody has heard that it
// was asked to stop says so all the same.
func TestLastWordSaysThatItStops(t *testing.T) {
	closed := make(chan struct{})
	close(closed)
	s := plan(t, "target.url=http://h", "load.users=1")
	w, err := run.Create(t.TempDir(), run.Info{Name: "x", Start: time.Now()}, []byte("name: x\n"), run.Blocking())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for range 64 { // what is heard first is chance
		cfg := config(t, s)
		var last Progress
		cfg.Stop, cfg.Progress = closed, func(p Progress) { last = p }
		k := &keeper{cfg: cfg, scenario: s, plan: steps(s), clock: clock.New(), live: new(load.Live), writer: w, begun: make(chan load.StepResult, 1)}
		k.input.Steps = planned(k.plan, 0)
		k.begun <- load.StepResult{Step: k.plan[0]}
		k.tell(closed)
		if !last.Over || !last.Stopping {
			t.Fatalf("the last word is %+v", last)
		}
	}
}
