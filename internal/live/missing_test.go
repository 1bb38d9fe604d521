package live

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/detail"
	"plimsoll/internal/telemetry"
)

// page is a source that gave a page.
func page(t *testing.T, index int, name, text string) telemetry.SourceInfo {
	t.Helper()
	r, err := telemetry.ReadPage([]byte(text), "text/plain; version=0.0.4")
	if err != nil {
		t.Fatal(err)
	}
	return telemetry.SourceInfo{Index: index, Name: name, Kind: telemetry.KindPage, State: telemetry.StateOK, Sources: r.Sources, Missing: r.Missing, Scrapes: 1, Up: true}
}

const (
	enginePage = `# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
# TYPE vllm:prefix_cache_queries counter
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 10
# TYPE vllm:prefix_cache_hits counter
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 5
`
	gpuPage = `# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",Hostname="h"} 50
# TYPE DCGM_FI_DEV_FB_USED gauge
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-1",Hostname="h"} 1000
# TYPE DCGM_FI_DEV_POWER_USAGE gauge
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-1",Hostname="h"} 400
`
	profPage = `# TYPE DCGM_FI_PROF_SM_ACTIVE gauge
DCGM_FI_PROF_SM_ACTIVE{gpu="1",UUID="GPU-2",Hostname="h"} 0.5
`
)

// TestMissing: every lane that stays empty says why, and nothing that is there does.
func TestMissing(t *testing.T) {
	here := telemetry.SourceInfo{Index: 9, Name: "localhost", Kind: telemetry.KindHost, State: telemetry.StateOK, Up: true}
	f := func(name string, infos []telemetry.SourceInfo, want map[string]string) {
		t.Helper()
		got := map[string]string{}
		for _, m := range Missing(infos) {
			key := strings.TrimSuffix(m.Group+" "+m.Signal, " ")
			if _, twice := got[key]; twice {
				t.Errorf("%s: %q is there twice", name, key)
			}
			got[key] = m.Why + " | " + m.Fix
		}
		for k, text := range want {
			if g, ok := got[k]; !ok || !strings.Contains(g, text) {
				t.Errorf("%s: %q is %q, want %q in it", name, k, g, text)
			}
		}
		for k := range got {
			if _, ok := want[k]; !ok {
				t.Errorf("%s: %q is missing: %s", name, k, got[k])
			}
		}
	}
	f("off", nil, map[string]string{"engine": "turned off", "accelerator": "turned off", "network": "turned off", "host": "turned off"})
	nobody := map[string]string{
		"engine": "no page of an engine", "accelerator": "start dcgm-exporter", "network": "start node_exporter", "host": "start node_exporter",
	}
	f("nothing but this machine", []telemetry.SourceInfo{here}, nobody)
	refused := telemetry.SourceInfo{Name: "a:8000", Kind: telemetry.KindPage, State: telemetry.StateAuthFailed}
	with := func(key, text string) map[string]string {
		out := map[string]string{}
		for k, v := range nobody {
			out[k] = v
		}
		out[key] = text
		return out
	}
	f("a key is asked for", []telemetry.SourceInfo{refused, here}, with("engine", "a:8000: a key is asked for | name the variable"))
	engine := page(t, 0, "a:8000", enginePage)
	want := with("engine preemptions", "vllm: the page has no vllm:num_preemptions")
	delete(want, "engine")
	want["engine queue_time"], want["engine prefill_time"], want["engine decode_time"] = "vllm: ", "vllm: ", "vllm: "
	f("an engine", []telemetry.SourceInfo{engine, refused, here}, want)
	gpu := page(t, 1, "a:9400", gpuPage)
	delete(want, "accelerator")
	want["accelerator sm_active"] = "add DCGM_FI_PROF_SM_ACTIVE to the exporter's csv"
	want["accelerator tensor_active"], want["accelerator dram_active"] = "profiling fields need", "profiling fields need"
	f("profiling is off", []telemetry.SourceInfo{engine, gpu}, want)
	links := page(t, 2, "a:9400", gpuPage+"# TYPE DCGM_FI_PROF_NVLINK_TX_BYTES gauge\nDCGM_FI_PROF_NVLINK_TX_BYTES{gpu=\"0\",UUID=\"GPU-1\",Hostname=\"h\"} 5\n")
	delete(want, "network")
	want["network net_tx"] = "start node_exporter"
	f("links of accelerators alone", []telemetry.SourceInfo{engine, links}, want)
	delete(want, "network net_tx")
	want["network"] = "start node_exporter"
	// One device of several with the fields is enough for a lane.
	delete(want, "accelerator sm_active")
	f("profiling is off on one", []telemetry.SourceInfo{engine, gpu, page(t, 2, "b:9400", profPage)}, want)
	hints := []telemetry.Hint{{Source: "vLLM", Text: "leave --disable-log-stats out"}, {Source: "accelerator", Text: "run dcgm-exporter -c 1000"}}
	for _, m := range Missing([]telemetry.SourceInfo{here}, hints...) {
		if want := map[string]string{"engine": hints[0].Text, "accelerator": hints[1].Text}[m.Group]; want != "" && m.Fix != want {
			t.Errorf("with hints the fix of %s is %q", m.Group, m.Fix)
		}
	}
	if slices.ContainsFunc(Missing(nil), func(m detail.Missing) bool { return m.Fix == "" }) {
		t.Error("a group without a way to fill it")
	}
}
