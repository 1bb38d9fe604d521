package test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/play"
	"plimsoll/test/process"
)

// Exporters that are dead, that hang and that are slow leave the times at which
// requests are sent, and what is measured, as they are.
func TestTelemetryLeavesTheLoadAlone(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, 10, 2*time.Millisecond)
	dead := "http://" + play.Nobody(t) + "/metrics"
	hanging := listen(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	slow := listen(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 5 {
			time.Sleep(100 * time.Millisecond)
			_, _ = w.Write([]byte("x 1\n"))
		}
	}))
	start := func(telemetry string) (*process.Process, string) {
		dir := t.TempDir()
		return process.Start(t, dir, shape(e.url, "--rate", "100", "--arrival", "constant", "--duration", "5s",
			"--telemetry-interval", "100ms", "--telemetry", telemetry)...), filepath.Join(dir, "runs")
	}
	end := func(p *process.Process, runs string) (process.Summary, process.Result) {
		r := p.Wait(limit)
		if r.Code != 0 && r.Code != 4 { // 4: the machine was too busy for a verdict
			t.Fatalf("exit %d\n%s", r.Code, r.Stderr)
		}
		return process.ReadSummary(t, process.OnlyRun(t, runs)), r
	}
	// A run without telemetry is made at the same time, so that whatever else the machine does delays both. What is not
	// disturbed is late by about the same, in one of three pairs at least: one of the two may stand still. A sender that
	// waits for a page would wait for 500 ms in each.
	for try := 1; ; try++ {
		alone, at := start("none")
		watched, there := start(strings.Join([]string{dead, hanging + "/metrics", slow + "/metrics"}, ","))
		without, base := end(alone, at)
		with, r := end(watched, there)
		if a, b := without.Requests, with.Requests; a.OK != 500 || a.Scheduled != 500 || b.OK != 500 || b.Scheduled != 500 {
			t.Fatalf("requests %+v, without telemetry %+v", with.Requests, without.Requests)
		}
		for _, want := range []string{"nobody listens there", "SOURCES"} {
			if !strings.Contains(r.Stdout, want) {
				t.Errorf("the report does not say %q:\n%s", want, r.Stdout)
			}
		}
		a, b := *without.Client.SendLag.P50, *with.Client.SendLag.P50
		said := fmt.Sprintf("send lag p50 %.3f ms and %v in all; without telemetry %.3f ms and %v", b, r.Took, a, base.Took)
		t.Log(said)
		// Nobody waits for them longer than once before and once after the load.
		if b <= 2*a+20 && r.Took <= base.Took+15*time.Second {
			break
		}
		if try == 3 {
			t.Error(said)
			break
		}
	}
}
