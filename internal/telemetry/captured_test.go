package telemetry

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The pages of real programs say what stands on them, worked out by hand; what
// they lack is missing and never 0.
func TestCapturedPages(t *testing.T) {
	for _, tt := range []struct {
		file    string
		source  string
		series  int
		signals map[string]float64
		missing []string
	}{
		{"llama.t0.prom", "llamacpp", 15, map[string]float64{
			"requests_running": 0, "requests_waiting": 0, "prompt_tokens": 0, "generation_tokens": 0, "engine_steps": 0,
		}, []string{"prefix_cache_hit_ratio", "itl", "kv_cache_usage", "ttft"}},
		{"llama.t1.prom", "llamacpp", 15, map[string]float64{
			"requests_running": 0, "requests_waiting": 0,
			// What came from the cache is not in prompt_tokens_total.
			"prompt_tokens": 61641 + 1150, "prompt_tokens_cached": 1150, "prompt_tokens_computed": 61641, "prefix_cache_hit_ratio": 1150.0 / (61641 + 1150),
			"generation_tokens": 5478, "itl": 3.6574 / 5478, "engine_steps": 2824,
		}, []string{"kv_cache_usage", "ttft", "queue_time", "e2e"}},
		{"node.t1.prom", "node", 507, map[string]float64{
			// All modes but idle and iowait, of both processors.
			"host_cpu":  1046.52 + 146.41 + 39.43 + 991.74 + 6382.36 + 1097.25 + 148.97 + 40.83 + 1016.17 + 6218.51,
			"host_cpus": 2, "host_load": 2.3, "host_mem_available": 24299352064, "host_mem_total": 25276510208,
			"host_pressure_cpu": 6831.516558, "host_pressure_io": 80.977718, "host_pressure_memory": 0.297678,
			"net_rx": 807537224, "net_tx": 2791679, "net_errors": 0, // eth0: the rest is down, or itself
			"tcp_retransmits": 359479, "tcp_segments_out": 122125556, "tcp_listen_drops": 0,
		}, []string{"net_speed", "rdma_tx"}}, // its speed is -125000
		{"prometheus.t1.prom", "", 391, nil, nil},
	} {
		t.Run(tt.file, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join("testdata", "captured", tt.file))
			if err != nil {
				t.Fatal(err)
			}
			r, err := ReadPage(b, "text/plain; version=0.0.4")
			if err != nil {
				t.Fatal(err)
			}
			want := []string{tt.source}
			if tt.source == "" {
				want = nil
			}
			if !slices.Equal(r.Sources, want) || r.Info.Series != tt.series {
				t.Errorf("sources %q, %d series, want %q and %d", r.Sources, r.Info.Series, want, tt.series)
			}
			for name, want := range tt.signals {
				if got, ok := r.Signals[name]; !ok || math.Abs(got-want) > 1e-9*math.Abs(want) {
					t.Errorf("%s: %v (%v), want %v", name, got, ok, want)
				}
			}
			for _, name := range tt.missing {
				if got, ok := r.Signals[name]; ok {
					t.Errorf("%s: %v, want nothing", name, got)
				}
				if !slices.ContainsFunc(r.Missing, func(m Missing) bool { return m.Signal == name && m.Why != "" }) && name != "prefix_cache_hit_ratio" && name != "itl" {
					t.Errorf("%s: nothing says why it is missing", name)
				}
			}
			if tt.source == "" && len(r.Signals) > 0 {
				t.Errorf("a page of no known source has signals: %v", r.Signals)
			}
		})
	}
}
