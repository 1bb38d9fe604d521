package browser

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"plimsoll/internal/twin"
)

// engine serves a simulated engine with its telemetry until the test ends.
func engine(t *testing.T) string {
	t.Helper()
	s, err := twin.NewServer(twin.ServerConfig{Model: "llama-3.1-8b", GPU: "h100", Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(ctx, l) // it ends with its context
	}()
	t.Cleanup(func() { cancel(); <-done })
	return "http://" + l.Addr().String()
}

// start starts a run from a page, as the panel does, and returns its id.
func (b *tab) start(yaml string) string {
	b.t.Helper()
	return eval[string](b, `fetch('/api/runs', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify({scenario: $1})})
		.then(r => r.json()).then(r => r.id ?? JSON.stringify(r))`, yaml)
}

// scenarioFor is a run against an engine that reads its telemetry.
func scenarioFor(target, load string) string {
	return fmt.Sprintf("name: live on the twin\ntarget: {url: %[1]s, ignore-eos: true}\nusers: {prompt-tokens: 'lognormal:p50=400,p99=4000', output-tokens: 'lognormal:p50=120,p99=800'}\n"+
		"load: %[2]s\nguards: {slo: [ttft.p95=30ms, tpot.mean=20ms]}\ndata: {telemetry: ['%[1]s/metrics', '%[1]s/dcgm/metrics']}\n", target, load)
}

// TestLive watches a run from its start to its end on one page that is never loaded
// again.
func TestLive(t *testing.T) {
	base := panel(t, t.TempDir())
	target := engine(t)
	b := open(t, base, "/", dark)
	b.has("h1")
	id := b.start(scenarioFor(target, "{rate: 6, warmup: 3s, duration: 1h, drain: 10s}"))
	if !strings.HasPrefix(id, "20") {
		t.Fatalf("the run did not start: %s", id)
	}
	b.run(chromedp.Navigate(base + "/runs/" + id))
	b.has(".run-head")
	b.shot("live-first")
	b.has(".lane canvas")
	b.wait("output in the headline", `/[1-9]/.test(document.querySelector('[data-figure="output"] dd')?.innerText ?? '')`)
	b.wait("the steady window", `document.querySelector('.run-line').innerText.includes('steady')`)
	b.wait("the clock of the page goes on", `document.querySelector('.run-line').innerText !== $1`, b.text(".run-line"))
	lanes := eval[[]string](b, "[...document.querySelectorAll('.lane')].map(e => e.dataset.lane)")
	if len(lanes) < 12 {
		t.Errorf("lanes of a live run with telemetry: %q", lanes)
	}
	b.shot("live-steady")
	// The clock stops within the drain; the page turns into that of an ended run.
	const stop = ".run-actions .button:last-child"
	asked := b.text(stop)
	eval[bool](b, "document.querySelector($1).click() ?? true", stop)
	b.wait("the button asks again", "document.querySelector($1).innerText !== $2", stop, asked)
	eval[bool](b, "document.querySelector($1).click() ?? true", stop)
	b.wait("the end", `document.querySelector('.run-line').innerText.includes('interrupted')`)
	b.painted()
	b.shot("live-ended")
	if got := b.text(".verdict"); got == "" {
		t.Error("no verdict at the end")
	}
}

// TestFleet shows 30 replicas of 8 GPUs: envelopes with the worst device by its name.
func TestFleet(t *testing.T) {
	runs := t.TempDir()
	base := panel(t, runs)
	target := engine(t)
	began := time.Now()
	var pages []string
	for replica := range 30 {
		pages = append(pages, exporter(t, replica, began))
	}
	id := ran(t, runs, []int{0, 4}, "run", "--url", target, "--users", "4", "--duration", "8s", "--ignore-eos", "--prompt-tokens", "200", "--output-tokens", "60",
		"--name", "30 replicas of 8", "--telemetry", strings.Join(pages, ","))
	b := open(t, base, "/runs/"+id, dark)
	b.has(".lane canvas")
	worst := eval[string](b, `fetch('/api/runs/'+$1+'/envelope?signal=sm_active').then(r => r.json()).then(r => JSON.stringify([r.members, r.worst?.labels ?? '']))`, id)
	if !strings.HasPrefix(worst, "[240,") || !strings.Contains(worst, "gpu=5") {
		t.Errorf("members and worst of sm_active: %s, want 240 and gpu=5", worst)
	}
	b.wait("the lane", `[...document.querySelectorAll('.lane')].some(e => /sm|SM/.test(e.dataset.lane + e.getAttribute('aria-label')))`)
	eval[bool](b, `([...document.querySelectorAll('.lane')].find(e => /sm|SM/.test(e.dataset.lane + e.getAttribute('aria-label'))).scrollIntoView({block: 'center'}), true)`)
	b.wait("240 devices", `document.body.innerText.includes('240')`)
	time.Sleep(400 * time.Millisecond) // the plot of a lane that has just come into sight
	b.shot("fleet")
}

// exporter serves the page of one replica: its engine and its eight GPUs, of which
// one of one replica does nothing.
func exporter(t *testing.T, replica int, began time.Time) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		at := time.Since(began).Seconds()
		fmt.Fprintf(w, "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=\"m\",engine=\"0\"} %d\n", 3+replica%4)
		fmt.Fprint(w, "# TYPE DCGM_FI_PROF_SM_ACTIVE gauge\n")
		for gpu := range 8 {
			v := 0.7 + 0.15*math.Sin(at+float64(replica*8+gpu)/20)
			if replica == 17 && gpu == 5 {
				v = 0.02
			}
			fmt.Fprintf(w, "DCGM_FI_PROF_SM_ACTIVE{gpu=\"%d\",UUID=\"GPU-%d-%d\",device=\"nvidia%d\",modelName=\"NVIDIA H100\",Hostname=\"node%02d\"} %.4f\n", gpu, replica, gpu, gpu, replica, v)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/metrics"
}
