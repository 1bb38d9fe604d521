package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/clock"
)

// found is what a test says of an endpoint.
type found struct {
	URL     string
	State   State
	Sources string
	Use     bool
}

func briefly(d *Discovery) []found {
	var out []found
	for _, f := range d.Found {
		out = append(out, found{f.URL, f.State, strings.Join(f.Sources, " "), f.Use})
	}
	return out
}

const nodePage = "# TYPE node_load1 gauge\nnode_load1 1.5\n# TYPE node_memory_MemAvailable_bytes gauge\nnode_memory_MemAvailable_bytes 5\n# TYPE node_network_receive_bytes_total counter\nnode_network_receive_bytes_total{device=\"eth0\"} 5\n# TYPE node_cpu_seconds_total counter\nnode_cpu_seconds_total{cpu=\"0\",mode=\"user\"} 4\n"

const dcgmPage = "# TYPE DCGM_FI_DEV_POWER_USAGE gauge\nDCGM_FI_DEV_POWER_USAGE{gpu=\"0\",UUID=\"GPU-1\",device=\"nvidia0\",Hostname=\"n\"} 300\n# TYPE DCGM_FI_DEV_GPU_UTIL gauge\nDCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-1\",device=\"nvidia0\",Hostname=\"n\"} 90\n"

// TestDiscover finds the engine at the target's own origin, the exporters of its host and a Prometheus; it leaves another engine's page
// out, sends the key to the own origin only and asks each URL once.
func TestDiscover(t *testing.T) {
	fake(t, func(t *testing.T, net *servers, c *clock.Clock) {
		var mu sync.Mutex
		asked := map[string]int{}
		leaked := []string{}
		page := func(addr, path, body string) {
			net.handle(addr, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				asked[addr+r.URL.Path]++
				if addr != "h:8000" && r.Header.Get("Authorization")+r.URL.RawQuery != "" || r.Method != http.MethodGet {
					leaked = append(leaked, addr+r.URL.String())
				}
				if addr == "h:8000" && r.Header.Get("Authorization") != "Bearer k" {
					leaked = append(leaked, "no key: "+r.URL.String())
				}
				mu.Unlock()
				if r.URL.Path != path && r.URL.Path != "/v1"+path {
					http.NotFound(w, r)
					return
				}
				text(w, body)
			})
		}
		page("h:8000", "/metrics", running(1))
		page("h:8080", "/metrics", running(2))
		page("h:9090", "/metrics", "# TYPE prometheus_tsdb_head_series gauge\nprometheus_tsdb_head_series 9\n")
		page("h:9100", "/metrics", nodePage)
		page("h:9400", "/metrics", dcgmPage)
		page("h:9000", "/metrics", "# TYPE my_app gauge\nmy_app 1\n")
		net.handle("h:5000", func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		net.handle("h:4000", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401) })
		began := c.Now()
		cfg := DiscoverConfig{
			Targets: []string{"http://h:8000/v1/chat/completions?key=secret"}, Clock: c, Dial: net.Dial,
			Header: http.Header{"Authorization": {"Bearer k"}},
		}
		d, err := Discover(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Duration(c.Now() - began); took > 2*time.Second {
			t.Errorf("took %v", took)
		}
		want := []found{
			{"http://h:8000/metrics", StateOK, "vllm", true},
			{"http://h:4000/metrics", StateAuthFailed, "", false},
			{"http://h:8080/metrics", StateOK, "vllm", false},
			{"http://h:9000/metrics", StateOK, "", false},
			{"http://h:9090", StateOK, "", false},
			{"http://h:9100/metrics", StateOK, "node", true},
			{"http://h:9400/metrics", StateOK, "dcgm", true},
		}
		if diff := cmp.Diff(want, briefly(d)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for url, n := range asked {
			if n != 1 {
				t.Errorf("%s was asked %d times", url, n)
			}
		}
		if len(leaked) > 0 {
			t.Errorf("%v", leaked)
		}
		for _, a := range net.dialled() {
			if !strings.HasPrefix(a, "h:") {
				t.Errorf("dialled %s", a)
			}
		}
		targets := d.Targets(cfg)
		if len(targets) != 3 || targets[0].Header.Get("Authorization") != "Bearer k" || targets[1].Header.Get("Authorization") != "" {
			t.Errorf("%+v", targets)
		}
		for _, h := range d.Hints {
			if h.Source == "host" || h.Source == "accelerator" || h.Source == "vLLM" {
				t.Errorf("hint for what is there: %+v", h)
			}
		}
	})
}

// TestDiscoverNothing tells of a server without telemetry what would enable it, and takes an engine on another port for the target's when it
// has none of its own.
func TestDiscoverNothing(t *testing.T) {
	fake(t, func(t *testing.T, net *servers, c *clock.Clock) {
		net.handle("h:30000", func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) })
		d, err := Discover(t.Context(), DiscoverConfig{Targets: []string{"http://h:30000/v1"}, Clock: c, Dial: net.Dial})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]found{{"http://h:30000/metrics", StateAbsent, "", false}}, briefly(d)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for _, want := range []string{"host", "accelerator", "vLLM"} {
			if !slices.ContainsFunc(d.Hints, func(h Hint) bool { return h.Source == want && h.Text != "" }) {
				t.Errorf("no hint for %s: %+v", want, d.Hints)
			}
		}
		net.handle("h:8000", func(w http.ResponseWriter, _ *http.Request) { text(w, running(1)) })
		d, err = Discover(t.Context(), DiscoverConfig{Targets: []string{"http://h:30000/v1"}, Clock: c, Dial: net.Dial})
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Targets(DiscoverConfig{}); len(got) != 1 || got[0].URL != "http://h:8000/metrics" {
			t.Errorf("%+v", got)
		}
	})
}

// TestDiscoverSlow keeps to its limit whatever the host does.
func TestDiscoverSlow(t *testing.T) {
	fake(t, func(t *testing.T, net *servers, c *clock.Clock) {
		for port := range 65 {
			net.handle(fmt.Sprintf("h:%d", 8000+port), func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		}
		for _, limit := range []time.Duration{0, 300 * ms} {
			began := c.Now()
			d, err := Discover(t.Context(), DiscoverConfig{Targets: []string{"http://h:8000"}, Clock: c, Dial: net.Dial, Limit: limit})
			if err != nil {
				t.Fatal(err)
			}
			if limit == 0 {
				limit = 2 * time.Second
			}
			if took := time.Duration(c.Now() - began); took > limit {
				t.Errorf("took %v", took)
			}
			for _, f := range d.Found {
				if f.State != StateError || f.Use {
					t.Errorf("%+v", f)
				}
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if d, err := Discover(ctx, DiscoverConfig{Targets: []string{"http://h:8000"}, Clock: c, Dial: net.Dial}); err != nil || len(d.Found) > 1 {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// TestNear tries ports only of this machine and of private networks.
func TestNear(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1": true, "::1": true, "10.1.2.3": true, "192.168.0.9": true, "172.16.9.9": true, "169.254.1.1": true, "100.64.3.4": true, "fd00::1": true,
		"8.8.8.8": false, "2001:4860::1": false, "172.32.0.1": false, "localhost": true,
	} {
		if got := (&DiscoverConfig{Limit: time.Minute}).near(t.Context(), host); got != want {
			t.Errorf("%s: %v", host, got)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, host := range []string{"localhost", "LocalHost."} {
		if !(&DiscoverConfig{}).near(over, host) {
			t.Errorf("%s is not near without time to ask for its address", host)
		}
	}
	if (&DiscoverConfig{Proxy: "http://p"}).near(t.Context(), "127.0.0.1") {
		t.Error("through a proxy nothing is near")
	}
}

// TestSplitPage takes the tables' places apart.
func TestSplitPage(t *testing.T) {
	for in, want := range map[string]struct {
		port int
		path string
	}{":8000/metrics": {8000, "/metrics"}, ":9000": {9000, "/"}, "/v1/metrics": {0, "/v1/metrics"}, "x": {}, ":x/": {}, ":70000/m": {}, "": {}} {
		if port, path := splitPage(in); port != want.port || path != want.path {
			t.Errorf("%q: %d %q", in, port, path)
		}
	}
}

// TestDiscoverTwoPages has one engine with two pages: of TensorRT-LLM's the one is used that reading does not empty, and the other
// alone where there is no such; of a page that is served twice one.
func TestDiscoverTwoPages(t *testing.T) {
	trt := "# TYPE trtllm_num_requests_running gauge\ntrtllm_num_requests_running{model_name=\"m\",engine_type=\"pytorch\"} 3\n# TYPE trtllm_generation_tokens_total counter\ntrtllm_generation_tokens_total{model_name=\"m\",engine_type=\"pytorch\"} 4\n"
	for _, x := range []struct {
		name  string
		pages map[string]string // by host and path
		want  []string          // used
	}{
		{"idle and prometheus", map[string]string{"h:8000/metrics": "[]", "h:8000/prometheus/metrics": trt}, []string{"http://h:8000/prometheus/metrics"}},
		{"busy and prometheus", map[string]string{"h:8000/metrics": `[{"iter":1,"iterLatencyMS":2,"inflightBatchingStats":{"numScheduledRequests":1}}]`, "h:8000/prometheus/metrics": trt}, []string{"http://h:8000/prometheus/metrics"}},
		{"idle", map[string]string{"h:8000/metrics": "[ ]\n"}, []string{"http://h:8000/metrics"}},
		{"busy", map[string]string{"h:8000/metrics": `[{"iter":1,"iterLatencyMS":2,"inflightBatchingStats":{"numScheduledRequests":1}}]`}, []string{"http://h:8000/metrics"}},
		{"twice", map[string]string{"h:8000/metrics": running(1), "h:8000/v1/metrics": running(2), "h:9000/metrics": running(1)}, []string{"http://h:8000/metrics"}},
		{"below a path", map[string]string{"h:8000/llm/metrics": running(1), "h:8000/metrics": "{}"}, []string{"http://h:8000/llm/metrics"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			fake(t, func(t *testing.T, net *servers, c *clock.Clock) {
				for _, addr := range []string{"h:8000", "h:9000"} {
					net.handle(addr, func(w http.ResponseWriter, r *http.Request) {
						body, ok := x.pages[addr+r.URL.Path]
						if !ok {
							http.NotFound(w, r)
							return
						}
						_, _ = fmt.Fprint(w, body)
					})
				}
				cfg := DiscoverConfig{Targets: []string{"http://h:8000/llm/v1"}, Clock: c, Dial: net.Dial}
				d, err := Discover(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, target := range d.Targets(cfg) {
					got = append(got, target.URL)
				}
				if diff := cmp.Diff(x.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s\n%+v", diff, d.Found)
				}
			})
		})
	}
}

// TestDiscoverReplicas has two targets on one host: each gives its own page, and no port is tried for one that is the other's.
func TestDiscoverReplicas(t *testing.T) {
	fake(t, func(t *testing.T, net *servers, c *clock.Clock) {
		net.handle("h:8000", func(w http.ResponseWriter, _ *http.Request) { text(w, running(1)) })
		net.handle("h:8001", func(w http.ResponseWriter, _ *http.Request) { text(w, running(2)) })
		cfg := DiscoverConfig{Targets: []string{"http://h:8000", "http://h:8001/v1"}, Clock: c, Dial: net.Dial}
		d, err := Discover(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		want := []found{{"http://h:8000/metrics", StateOK, "vllm", true}, {"http://h:8001/metrics", StateOK, "vllm", true}}
		if diff := cmp.Diff(want, briefly(d)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
