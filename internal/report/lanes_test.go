package report

import (
	"encoding/json"
	"testing"

	"plimsoll/internal/detail"
	"plimsoll/internal/run"
	"plimsoll/internal/stats"
	"plimsoll/internal/telemetry"
)

// TestMissingLanes: what is among the series is not missing, whatever the sources say; the
// machine that measures is no server; and what to do comes from the check of the endpoint.
func TestMissingLanes(t *testing.T) {
	info := &run.Info{
		Input:     &stats.Input{},
		Target:    json.RawMessage(`{"telemetry_hints": [{"source": "accelerator", "text": "run dcgm-exporter -c 1000"}]}`),
		Telemetry: []telemetry.SourceInfo{{Name: "localhost", Kind: telemetry.KindHost, State: telemetry.StateOK}},
	}
	series := []detail.Series{
		{Signal: "requests_running", Stat: "value"},
		{Signal: "requests_running", Stat: "value", Source: "a:8000"},
		{Signal: "host_cpu", Stat: "rate", Source: "localhost"},
	}
	got := map[string]string{}
	for _, m := range MissingLanes(series, info) {
		got[m.Group+m.Signal] = m.Fix
	}
	if _, ok := got["engine"]; ok {
		t.Error("the engine is there, and is said to be missing")
	}
	if fix := got["accelerator"]; fix != "run dcgm-exporter -c 1000" {
		t.Errorf("the fix of the accelerators is %q", fix)
	}
	if _, ok := got["host"]; !ok || len(got) != 3 {
		t.Errorf("missing are %v, want accelerator, network and host", got)
	}
	info.Input.Virtual = true
	list := MissingLanes(nil, info)
	for _, m := range list {
		if m.Said.Code != "missing.predicted" || m.Signal != "" {
			t.Errorf("a prediction lacks %+v", m)
		}
	}
	if len(list) != 4 {
		t.Errorf("%d groups of a prediction have nothing, want engine, accelerator, network and host", len(list))
	}
}
