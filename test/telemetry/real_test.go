package telemetry

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"plimsoll/test/process"
)

// What the other tests expect of the real parts is what they say without
// Plimsoll, read by hand.
func TestParts(t *testing.T) {
	t.Run("llama-server", func(t *testing.T) {
		e := startLlama(t, "--metrics")
		for i := range 3 {
			r, err := http.Post(e.url+"/v1/completions", "application/json", strings.NewReader(fmt.Sprintf(`{"prompt":"question %d","max_tokens":64}`, i)))
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			if r.StatusCode != http.StatusOK {
				t.Fatalf("completion: %s", r.Status)
			}
		}
		page := get(t, e.url+"/metrics")
		if got, want := total(t, page, "llamacpp:tokens_predicted_total"), float64(3*script.Tokens()); got != want {
			t.Errorf("%v tokens predicted, want %v", got, want)
		}
		// begin, and ten characters; what is alike in two prompts may come from the cache.
		if got := total(t, page, "llamacpp:prompt_tokens_total") + total(t, page, "llamacpp:prompt_tokens_cached_total"); got != 3*11 {
			t.Errorf("%v prompt tokens, want 33", got)
		}
	})
	t.Run("prometheus", func(t *testing.T) {
		n := startNode(t)
		_, twin := process.Twin(t)
		p := startPrometheus(t, map[string]string{"node": n.url, "twin": twin})
		process.Until(t, "Prometheus has read both pages", func() bool {
			v := p.ask(t, "up")
			return len(v) == 2 && v[0] == 1 && v[1] == 1
		})
		// Where one of them stands still, Prometheus has nothing of it until the next reading.
		process.Until(t, "Prometheus says that no request of the twin is running", func() bool {
			v := p.ask(t, `vllm:num_requests_running`)
			return len(v) == 1 && v[0] == 0
		})
		process.Until(t, "Prometheus says what time it is at node_exporter", func() bool {
			v := p.ask(t, `timestamp(node_time_seconds) - node_time_seconds`)
			return len(v) == 1 && v[0] > -1 && v[0] < 10
		})
	})
}

// Without --metrics there is no page: check says which flag makes one, and a run
// goes on without.
func TestLlamaServerWithoutMetrics(t *testing.T) {
	t.Parallel()
	e := startLlama(t)
	c := process.Must(t, t.TempDir(), limit, "check", e.url)
	if !strings.Contains(c.Stdout, "--metrics") {
		t.Errorf("check does not say how to turn metrics on:\n%s", c.Stdout)
	}
	f := measure(t, "--url", e.url, "--model", "scripted", "--users", "2", "--prompt-tokens", "40", "--output-tokens", "64", "--duration", "2s", "--telemetry", e.url+"/metrics")
	if s := f.info.Source(t, e.url+"/metrics"); s.State != "absent" {
		t.Errorf("source %+v, want absent", s)
	}
	if f.summary.Requests.OK == 0 || f.summary.Server["generation_tokens"] != nil {
		t.Errorf("%d requests, server %+v", f.summary.Requests.OK, f.summary.Server)
	}
}
