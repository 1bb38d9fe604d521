package telemetry

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"plimsoll/test/process"
)

// A run with an engine, its accelerators, a host and a Prometheus that reads them
// too ends with the signals of all of them, and counts nothing twice.
func TestRealSources(t *testing.T) {
	t.Parallel()
	node := startNode(t)
	_, twin := process.Twin(t)
	prom := startPrometheus(t, map[string]string{"node": node.url, "twin": twin})
	process.Until(t, "Prometheus has read both pages", func() bool {
		v := prom.ask(t, "up")
		return len(v) == 2 && v[0] == 1 && v[1] == 1
	})
	dir := t.TempDir()
	write(t, filepath.Join(dir, "s.yaml"), fmt.Appendf(nil, `target:
  url: %s
users:
  prompt-tokens: 100
  output-tokens: 40
load:
  users: 6
  duration: 20s
  warmup: 2s
data:
  telemetry:
    - %[1]s/metrics
    - %[1]s/dcgm/metrics
    - %s/metrics
    - {url: %q, kind: prometheus}
`, twin, node.url, prom.url))
	f := measure(t, filepath.Join(dir, "s.yaml"))
	f.sameTokens(t, twin+"/metrics")
	for url, want := range map[string]string{twin + "/metrics": "vllm", twin + "/dcgm/metrics": "dcgm", node.url + "/metrics": "node", prom.url: "vllm"} {
		s := f.info.Source(t, url)
		if !good(s) || !slices.Contains(s.Sources, want) {
			t.Errorf("%s: want %s, %+v", url, want, s)
		}
	}
	for _, signal := range []string{
		"requests_running", "prompt_tokens", "generation_tokens", "ttft", "itl", "kv_cache_usage", "step_tokens", // the engine
		"gpu_util", "dram_active", "power", "energy", "fb_used", // its accelerator
		"host_cpu", "host_cpus", "host_mem_available", "host_mem_total", "host_load", "tcp_segments_out", // the host
	} {
		if d := f.summary.Server[signal]; d == nil || d.Mean == nil || *d.Mean <= 0 {
			t.Errorf("the summary says of %s: %+v", signal, d)
		}
	}
	// Each source has its courses on the grid, and together they are not counted twice.
	line := f.timeline(t)
	for _, name := range []string{
		"client.requests_in_flight value", "client.ttft p95", "client.output_tokens rate",
		"requests_running value", "generation_tokens rate", "ttft mean", "gpu_util value", "power value", "host_cpu rate", "host_mem_available value",
		"generation_tokens rate " + f.info.Source(t, twin+"/metrics").Name, "generation_tokens rate " + f.info.Source(t, prom.url).Name,
		"host_cpu rate " + f.info.Source(t, node.url+"/metrics").Name, "host_cpu rate " + f.info.Source(t, prom.url).Name,
	} {
		if n := len(line[name]); n < 8 {
			t.Errorf("the timeline has %d cells of %s", n, name)
		}
	}
	if got, want := line["generation_tokens rate"].total(), f.sum(t, "output_tokens"); f.info.Source(t, twin+"/metrics").Up && math.Abs(got-want) > 2*line["generation_tokens rate"].most() {
		t.Errorf("the timeline has %v generated tokens, the client %v", got, want)
	}
	// Six users decode without a break, and the engine decodes nobody else.
	if d := f.summary.Server["requests_running"]; d != nil && d.Mean != nil && (*d.Mean < 2 || *d.Max > 6) {
		t.Errorf("%v requests ran on average, %v at most: want nearly 6", *d.Mean, *d.Max)
	}
	if t.Failed() {
		t.Logf("the report:\n%s", f.Stdout)
	}
}

// llama.cpp's server and the client count the same tokens, though events are
// fewer than tokens and prompts come from the cache in part.
func TestLlamaServer(t *testing.T) {
	t.Parallel()
	e := startLlama(t, "--metrics")
	f := measure(t, "--url", e.url, "--model", "scripted", "--users", "3", "--prompt-tokens", "40", "--output-tokens", "64", "--duration", "15s", "--warmup", "500ms",
		"--telemetry", "auto", "--telemetry-interval", "500ms")
	f.sameTokens(t, e.url+"/metrics")
	if s := f.info.Source(t, e.url+"/metrics"); !good(s) || !slices.Contains(s.Sources, "llamacpp") {
		t.Errorf("source %+v", s)
	}
	for _, r := range f.rows {
		if r.Number(t, "output_tokens") != float64(script.Tokens()) {
			t.Fatalf("row %v: want %d tokens", r, script.Tokens())
		}
	}
	for _, signal := range []string{"requests_running", "prompt_tokens", "prompt_tokens_computed", "generation_tokens", "engine_steps"} {
		if d := f.summary.Server[signal]; d == nil || d.Mean == nil || *d.Mean <= 0 {
			t.Errorf("the summary says of %s: %+v", signal, d)
		}
	}
	page := get(t, e.url+"/metrics")
	if got, want := f.sum(t, "output_tokens"), total(t, page, "llamacpp:tokens_predicted_total"); got != want {
		t.Errorf("the client counts %v output tokens, the page %v", got, want)
	}
}
