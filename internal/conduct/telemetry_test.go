package conduct

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"plimsoll/internal/load"
	"plimsoll/internal/run"
	"plimsoll/internal/signal"
	"plimsoll/internal/telemetry"
)

// hanging is a page that never comes; closing the server ends it.
func hanging(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL + "/metrics"
}

// TestTelemetryIsKept: what the servers say is on disk, in the summary and
// beside the client's figures, which agree with it to the token.
func TestTelemetryIsKept(t *testing.T) {
	url := serveTwin(t)
	cfg := config(t, plan(t, "target.url="+url, "load.users=4", "load.duration=3s", "load.warmup=100ms", "users.output-tokens=20", "target.ignore-eos=true",
		"data.telemetry="+url+"/metrics,"+hanging(t), "data.telemetry-interval=100ms"))
	res, err := Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := run.Open(res.Folder)
	if err != nil {
		t.Fatal(err)
	}
	sources := saved.Info().Telemetry
	if len(sources) != 3 || sources[0].State != telemetry.StateOK || sources[0].Scrapes < 5 || sources[1].State != telemetry.StateError || sources[2].Kind != telemetry.KindHost {
		t.Fatalf("sources %+v, want the page, the one that hangs and this machine", sources)
	}
	g := res.Summary.Agreement
	if g == nil || g.Attributable == nil || !*g.Attributable || *g.OutputTokens.Engine != *g.OutputTokens.Client || *g.PromptTokens.Engine != *g.PromptTokens.Client {
		text, _ := json.Marshal(g)
		t.Errorf("agreement %s, want the same tokens on both sides", text)
	}
	if d := res.Summary.Server[signal.RequestsRunning.String()]; d == nil || d.Mean == nil || *d.Mean <= 0 || *d.Mean > 4 {
		t.Errorf("requests running %+v, want up to 4", d)
	}
	seen := map[string]bool{}
	for rows, err := range Timeline(saved) {
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			seen[r.Signal] = true
		}
	}
	for _, want := range []signal.ID{signal.ClientOutputTokens, signal.ClientCPU, signal.GenerationTokens, signal.KVCacheUsage, signal.HostCPU} {
		if !seen[want.String()] {
			t.Errorf("%s is not on the timeline", want)
		}
	}
	if saved.Info().Alignment == nil || saved.Info().Samples == 0 {
		t.Errorf("run.json says nothing of %d samples", saved.Info().Samples)
	}
}

// TestStopBesideAPageThatHangs: who stops a run waits for no page, whether the load
// had begun or not.
func TestStopBesideAPageThatHangs(t *testing.T) {
	url := serveTwin(t)
	page := hanging(t)
	tries := 0
	for _, after := range []time.Duration{300 * time.Millisecond, 4 * time.Second, 4 * time.Second, 4 * time.Second} {
		cfg := config(t, plan(t, "target.url="+url, "load.users=1", "load.duration=10m", "load.drain=2s", "users.output-tokens=4", "data.telemetry="+page))
		stop := make(chan struct{})
		cfg.Stop = stop
		var stopped time.Time
		time.AfterFunc(after, func() { stopped = time.Now(); close(stop) })
		res, err := Run(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if res.Stopped != load.Interrupted {
			t.Errorf("stopped after %v: %v", after, res.Stopped)
		}
		if d := time.Since(stopped); d > 6*time.Second {
			// Real time: a machine that stands still holds up one of three at most.
			if tries++; tries == 3 {
				t.Errorf("stopped after %v, it took %v to end, as three times before", after, d)
			}
		} else if after > time.Second {
			break
		}
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
