package test

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll/test/process"
)

// Exporters that are dead, that hang and that are slow leave the times at which
// requests are sent, and what is measured, as they are.
func TestTelemetryLeavesTheLoadAlone(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, 10, 2*time.Millisecond)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := "http://" + l.Addr().String() + "/metrics"
	l.Close()
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
	without, base, _ := measure("none")
	with, took, report := measure(strings.Join([]string{dead, hanging + "/metrics", slow + "/metrics"}, ","))
	if with.Requests.OK != without.Requests.OK || with.Requests.OK != with.Requests.Scheduled {
		t.Errorf("requests %+v, without telemetry %+v", with.Requests, without.Requests)
	}
	a, b := without.Client.SendLag, with.Client.SendLag
	t.Logf("send lag p50 %.3f ms, p99 %.3f ms; without telemetry %.3f and %.3f ms", *b.P50, *b.P99, *a.P50, *a.P99)
	// What is not disturbed is late by the same. The latest are those that met the machine's other work: other tests run
	// beside this one.
	if *b.P50 > *a.P50+0.5 {
		t.Errorf("send lag p50 %.3f ms, p99 %.3f ms; without telemetry %.3f and %.3f ms", *b.P50, *b.P99, *a.P50, *a.P99)
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
