package telemetry

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll/internal/play"
	"plimsoll/test/process"
)

// exporter serves h at /metrics of a loopback port until the test ends.
func exporter(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", h)
	s := httptest.NewServer(mux)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL + "/metrics"
}

const plainText = "text/plain; version=0.0.4; charset=utf-8"

// badExporters are pages that are no good, with the words by which the report
// has to tell what is wrong with each.
func badExporters(t *testing.T) map[string]struct{ url, says string } {
	released := make(chan struct{})
	t.Cleanup(func() { close(released) })
	hang := func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-released:
		}
	}
	reading := new(atomic.Int64)
	block := []byte(strings.Repeat("endless_metric_total{kind=\"more of the same\"} 1\n", 1<<12))
	return map[string]struct{ url, says string }{
		"dead": {"http://" + play.Nobody(t) + "/metrics", "nobody listens"},
		"401": {exporter(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
		}), "401"},
		"404": {exporter(t, http.NotFound), "404"},
		"500": {exporter(t, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "collector failed", http.StatusInternalServerError)
		}), "500"},
		"HTML": {exporter(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			io.WriteString(w, "<!DOCTYPE html><html><head><title>Log in</title></head><body>please</body></html>")
		}), "HTML"},
		"hanging": {exporter(t, hang), "time"},
		"hanging in the body": {exporter(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", plainText)
			io.WriteString(w, "vllm:num_requests_running{engine=\"0\"} 1\n")
			_ = http.NewResponseController(w).Flush()
			hang(w, r)
		}), "time"},
		"1 GB": {exporter(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", plainText)
			for sent := 0; sent < 1<<30; sent += len(block) {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}), "larger than"},
		"a million series": {exporter(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", plainText)
			b := make([]byte, 0, 24<<20)
			for i := range 1_000_000 {
				b = fmt.Appendf(b, "churn{a=\"%d\"} 1\n", i)
			}
			_, _ = w.Write(b)
		}), "series"},
		"labels that change": {exporter(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", plainText)
			n := reading.Add(1)
			b := make([]byte, 0, 1<<20)
			for i := range 5000 {
				b = fmt.Appendf(b, "vllm:num_requests_running{engine=\"%d-%d\"} 1\n", n, i)
			}
			_, _ = w.Write(b)
		}), "labels change"},
		"garbage": {exporter(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", plainText)
			io.WriteString(w, "vllm:num_requests_running{engine=\"0\" 1\n\x00\xff\xfe{}{}{}\nvllm:num_requests_waiting{engine=\"0\"} NaN\n= = =\n")
		}), "binary"},
		"torn lines": {exporter(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", plainText)
			io.WriteString(w, "# TYPE vllm:num_requests_running flute\nvllm:num_requests_running{engine=\"0\" 1\nvllm:num_requests_waiting{engine=\"0\"} NaN\n= = =\nvllm:kv_cache_usage_perc{engine=\"0\"} 0.25\n")
		}), "vllm:num_requests_running"},
		"cut short": {exporter(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", plainText)
			w.Header().Set("Content-Length", "100000")
			io.WriteString(w, "vllm:num_requests_running{engine=\"0\"} 1\n")
		}), ""},
	}
}

// A run beside exporters that are no good measures what one measures at the same time
// without them, and says of each what is wrong. Each has a twin of its own.
func TestBadExporters(t *testing.T) {
	_, twin := process.Twin(t, "--step", "20ms", "--seed", "7")
	_, other := process.Twin(t, "--step", "20ms", "--seed", "7")
	bad := badExporters(t)
	pages := []string{twin + "/metrics"}
	for _, e := range bad {
		pages = append(pages, e.url)
	}
	start := func(url, telemetry string) (*process.Process, string) {
		dir := t.TempDir()
		return process.Start(t, dir, "run", "--url", url, "--rate", "20", "--arrival", "constant", "--prompt-tokens", "20", "--output-tokens", "20", "--ignore-eos",
			"--duration", "20s", "--warmup", "0s", "--out", "runs", "--telemetry-interval", "500ms", "--telemetry", telemetry), filepath.Join(dir, "runs")
	}
	end := func(p *process.Process, runs string) (process.Result, string, process.Summary) {
		r := p.Wait(limit)
		// The machine may be too busy for a verdict (4).
		if r.Code != 0 && r.Code != 4 {
			t.Fatalf("exit %d\n%s\n%s", r.Code, r.Stderr, r.Stdout)
		}
		run := process.OnlyRun(t, runs)
		return r, run, process.ReadSummary(t, run)
	}
	p, runs := start(twin, strings.Join(pages, ","))
	q, at := start(other, "none")
	r, run, with := end(p, runs)
	alone, _, without := end(q, at)

	if a, b := with.Requests, without.Requests; a.OK != 400 || b.OK != 400 || a.OK != a.Scheduled || a.Error+a.Incomplete+a.Cancelled > 0 {
		t.Errorf("requests %+v beside bad exporters, %+v without", a, b)
	}
	// In 20 s one of the two may stand still for 5 without much effect on the median.
	for _, name := range []string{"ttft", "e2e"} {
		a, b := *without.Latency[name].P50, *with.Latency[name].P50
		t.Logf("%s p50 %.3f ms, without %.3f ms", name, b, a)
		if b > 2*a+20 {
			t.Errorf("%s p50 is %.3f ms beside bad exporters, %.3f ms without", name, b, a)
		}
	}
	t.Logf("%v of processor time and %d MiB, without %v and %d MiB", r.CPU, r.Memory>>20, alone.CPU, alone.Memory>>20)
	// Bodies are capped at 8 MiB each, of which several may be read at once, and what one page may have of series and
	// new labels is capped as well.
	if r.Memory > alone.Memory+256<<20 {
		t.Errorf("it took %d MiB of memory, %d MiB without telemetry", r.Memory>>20, alone.Memory>>20)
	}
	sources := map[string]process.Source{}
	for _, s := range process.ReadInfo(t, run).Telemetry {
		sources[s.URL] = s
	}
	// A busy machine reads it less often.
	if s := sources[twin+"/metrics"]; !good(s) || s.Scrapes < 3 {
		t.Errorf("the good page beside them: %+v", s)
	}
	for name, e := range bad {
		s, ok := sources[e.url]
		if !ok {
			t.Errorf("%s: run.json does not know %s", name, e.url)
			continue
		}
		t.Logf("%s: %d readings, %d failed, now every %v, %d back-offs", name, s.Scrapes, s.Failures, time.Duration(s.Period), s.BackoffCount)
		said := s.Why
		for _, p := range s.Problems {
			said += "\n" + p.Text
		}
		if !strings.Contains(said, e.says) || said == "" {
			t.Errorf("%s: run.json says %q, want something with %q", name, said, e.says)
		}
		host := strings.TrimSuffix(strings.TrimPrefix(e.url, "http://"), "/metrics")
		if !strings.Contains(r.Stdout, host) {
			t.Errorf("%s: the report does not name %s", name, host)
		}
	}
	if t.Failed() {
		t.Logf("the report:\n%s", r.Stdout)
	}
}
