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
	measure := func(telemetry string) (process.Summary, time.Duration, string) {
		dir := t.TempDir()
		began := time.Now()
		r := process.Run(t, dir, limit, shape(e.url, "--rate", "100", "--arrival", "constant", "--duration", "5s",
			"--telemetry-interval", "100ms", "--telemetry", telemetry)...)
		if r.Code != 0 && r.Code != 4 { // 4: the machine was too busy for a verdict
			t.Fatalf("exit %d with --telemetry %s\n%s", r.Code, telemetry, r.Stderr)
		}
		return process.ReadSummary(t, process.OnlyRun(t, filepath.Join(dir, "runs"))), time.Since(began), r.Stdout
	}
	var base, took time.Duration
	var report string
	// What is not disturbed is late by the same, in one of three pairs at least: other tests run beside this one, and need
	// not be the same beside both runs of a pair. The latest sends are always those that met other work.
	for try := 1; ; try++ {
		var without, with process.Summary
		without, base, _ = measure("none")
		with, took, report = measure(strings.Join([]string{dead, hanging + "/metrics", slow + "/metrics"}, ","))
		if with.Requests.OK != without.Requests.OK || with.Requests.OK != with.Requests.Scheduled {
			t.Fatalf("requests %+v, without telemetry %+v", with.Requests, without.Requests)
		}
		a, b := without.Client.SendLag, with.Client.SendLag
		said := fmt.Sprintf("send lag p50 %.3f ms, p99 %.3f ms; without telemetry %.3f and %.3f ms", *b.P50, *b.P99, *a.P50, *a.P99)
		t.Log(said)
		if *b.P50 <= *a.P50+0.5 {
			break
		}
		if try == 3 {
			t.Error(said)
			break
		}
	}
	// Nobody waits for them longer than once before and once after the load.
	if took > base+15*time.Second {
		t.Errorf("the run took %v, %v without telemetry", took, base)
	}
	for _, want := range []string{"nobody listens there", "SOURCES"} {
		if !strings.Contains(report, want) {
			t.Errorf("the report does not say %q:\n%s", want, report)
		}
	}
}
