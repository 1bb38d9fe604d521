package telemetry

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"plimsoll/internal/run"
	"plimsoll/internal/signal"
	"plimsoll/test/process"
)

// The twin's counters and the client's records are of the same tokens, to the
// token, warm-up and drain included; and the engine's own times are within the client's.
func TestTokensAgree(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"one engine":   {"--replicas", "1"},
		"five engines": {"--replicas", "5", "--router", "least-loaded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, twin := process.Twin(t, args...)
			f := measure(t, "--url", twin, "--users", "6", "--prompt-tokens", "lognormal:p50=60,p99=400", "--output-tokens", "uniform:5..60", "--duration", "15s", "--warmup", "1s",
				"--telemetry", "auto,"+twin+"/dcgm/metrics", "--telemetry-interval", "500ms")
			f.sameTokens(t, twin+"/metrics")
			whole := f.info.Source(t, twin+"/metrics").Up // the reading after the run too
			page := get(t, twin+"/metrics")
			if p, o := total(t, page, "vllm:prompt_tokens_total"), total(t, page, "vllm:generation_tokens_total"); whole && (*f.info.Input.Server.Prompt != p || *f.info.Input.Server.Output != o) {
				t.Errorf("run.json says %v and %v tokens, the page %v and %v", *f.info.Input.Server.Prompt, *f.info.Input.Server.Output, p, o)
			}
			for name, own := range map[string]*process.Mean{"ttft_ms": f.info.Input.Server.TTFT, "e2e_ms": f.info.Input.Server.E2E} {
				if own == nil || whole && own.Count != float64(len(f.rows)) {
					t.Errorf("the engine's %s is of %+v, want %d requests", name, own, len(f.rows))
					continue
				}
				if mine, its := f.sum(t, name), 1000*own.Sum; mine < its || its == 0 {
					t.Errorf("%s adds up to %.3f ms, the engine's to %.3f", name, mine, its)
				}
			}
			// And so do their courses, cell by cell of 1 s: the client's to the token; the server's cells at both ends of the
			// run are rates of the part of them that lies between two readings.
			line := f.timeline(t)
			for name, want := range map[string]float64{"output_tokens": f.sum(t, "output_tokens"), "prompt_tokens": f.sum(t, "prompt_tokens")} {
				if got := line["client."+name+" rate"].total(); math.Abs(got-want) > 1e-6*want {
					t.Errorf("the client's %s add up to %v over the timeline, want %v", name, got, want)
				}
				its := line[strings.Replace(name, "output", "generation", 1)+" rate"]
				if got := its.total(); whole && math.Abs(got-want) > 2*its.most() {
					t.Errorf("the server's %s add up to %v over the timeline, want %v", name, got, want)
				}
			}
			for _, signal := range []string{"requests_running", "kv_cache_usage", "generation_tokens", "gpu_util", "power"} {
				if d := f.summary.Server[signal]; d == nil || d.Mean == nil || *d.Mean <= 0 {
					t.Errorf("the summary says of %s: %+v", signal, d)
				}
			}
		})
	}
}

// The offset of a source's clock lies inside what is said of it, whether its pages say
// the time or only its Date header does. It is found within 20 ms where this machine
// answers at once: the test reads the same pages to see whether it does.
func TestClockOffset(t *testing.T) {
	t.Parallel()
	for _, shift := range []time.Duration{-26 * time.Hour, -1337 * time.Millisecond, -3 * time.Millisecond, 480 * time.Millisecond, 370 * 24 * time.Hour} {
		t.Run(shift.String(), func(t *testing.T) {
			t.Parallel()
			_, twin := process.Twin(t, "--step", "50ms", "--replicas", "1", fmt.Sprintf("--clock-shift=%v", shift))
			answers := readBeside(t, twin+"/metrics")
			f := measure(t, "--url", twin, "--users", "2", "--prompt-tokens", "20", "--output-tokens", "20", "--duration", "20s", "--warmup", "0s",
				"--telemetry", twin+"/metrics,"+twin+"/node/metrics")
			quick := answers()
			for _, page := range []string{"/metrics", "/node/metrics"} {
				s := f.info.Times(t, twin+page)
				if s.Offset == nil || s.Uncertainty == nil {
					t.Errorf("%s: no offset of the clock: %+v", page, s)
					continue
				}
				off, within := time.Duration(*s.Offset), time.Duration(*s.Uncertainty)
				t.Logf("%s: %v is found to be %v +- %v", page, shift, off, within)
				if (off - shift).Abs() > within {
					t.Errorf("%s: offset %v +- %v, the truth, %v, is outside", page, off, within, shift)
				}
				if tight := within <= 100*time.Millisecond && (off-shift).Abs() <= 20*time.Millisecond; quick && !tight {
					t.Errorf("%s: offset %v +- %v, want %v within 20 ms", page, off, within, shift)
				}
			}
		})
	}
}

// readBeside reads a page every 100 ms until the returned function is called, which says
// whether nine of ten answers took less than 5 ms.
func readBeside(t *testing.T, url string) func() bool {
	stop, took := make(chan struct{}), make(chan []time.Duration, 1)
	go func() {
		var all []time.Duration
		defer func() { took <- all }()
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
			began := time.Now()
			r, err := http.Get(url)
			if err != nil {
				all = append(all, time.Hour)
				continue
			}
			_, err = io.Copy(io.Discard, r.Body)
			r.Body.Close()
			if err != nil {
				all = append(all, time.Hour)
				continue
			}
			all = append(all, time.Since(began))
		}
	}()
	return func() bool {
		close(stop)
		all := <-took
		slices.Sort(all)
		if len(all) == 0 {
			return false
		}
		nine := all[len(all)*9/10]
		t.Logf("%d answers of %s, nine of ten within %v", len(all), url, nine)
		return nine < 5*time.Millisecond
	}
}

// How often a source renews what it states is found within a tenth, though it is read at
// other times, and of a source that is always new that it is new whenever it is read: where
// the readings on disk show that it was renewed in time and read as often as it should be.
// What else may come is for the tests of package align.
func TestUpdatePeriod(t *testing.T) {
	t.Parallel()
	for _, period := range []time.Duration{1300 * time.Millisecond, 2 * time.Second, 4 * time.Second} {
		t.Run(period.String(), func(t *testing.T) {
			t.Parallel()
			_, twin := process.Twin(t, fmt.Sprintf("--dcgm-interval=%v", period))
			f := measure(t, "--url", twin, "--rate", "6", "--prompt-tokens", "60", "--output-tokens", "40", "--duration", "24s", "--warmup", "0s",
				"--telemetry", twin+"/dcgm/metrics,"+twin+"/node/metrics", "--telemetry-interval", "500ms")
			s := f.info.Times(t, twin+"/dcgm/metrics")
			t.Logf("%v is found to be %v", period, time.Duration(s.RenewedEvery))
			for _, page := range []string{"/dcgm/metrics", "/node/metrics"} {
				if s := f.info.Source(t, twin+page); s.Failures > 0 || s.Skipped > 0 || s.BackoffCount > 0 {
					t.Logf("this machine could not read as often as it should: %+v", s)
					return
				}
			}
			if seen := f.renewals(t, s.Source); !onLattice(seen, period) {
				t.Logf("the twin did not renew its page every %v, as %v shows", period, seen)
				return
			}
			if off := (time.Duration(s.RenewedEvery) - period).Abs(); off > period/10 || s.AtLeast {
				t.Errorf("renewed every %v (at least: %v), want %v within a tenth", time.Duration(s.RenewedEvery), s.AtLeast, period)
			}
			if s := f.info.Times(t, twin+"/node/metrics"); !s.AtLeast || time.Duration(s.RenewedEvery) > 600*time.Millisecond {
				t.Errorf("a page that is always new: %+v", s)
			}
		})
	}
}

// between are two moments in ns between which something happened.
type between struct{ from, to int64 }

// renewals returns when a source of energy stated another value than before.
func (f *finished) renewals(t *testing.T, source int) (out []between) {
	t.Helper()
	saved, err := run.Open(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	samples, series := saved.Samples(), int32(-1)
	var before signal.Sample
	for batch := range samples.All() {
		for _, x := range batch {
			if d := samples.Series()[x.Series]; d.Source != source || d.Signal != signal.Energy || series >= 0 && x.Series != series {
				continue
			}
			if series >= 0 && x.Value != before.Value {
				out = append(out, between{before.Start, x.End})
			}
			series, before = x.Series, x
		}
	}
	if len(out) == 0 {
		t.Fatalf("of source %d there are no readings of energy: %v", source, samples.Notes())
	}
	return out
}

// onLattice says whether all may have happened at multiples of a period, from some moment on.
func onLattice(all []between, period time.Duration) bool {
	p := int64(period)
	return slices.ContainsFunc(all, func(last between) bool { // the end of one of them is the latest moment that all have in common
		return !slices.ContainsFunc(all, func(x between) bool { return ((last.to-x.from)%p+p)%p > x.to-x.from })
	})
}

// A twin that is started anew in the middle of a run: the restart is noticed, and the
// server's account is that of the last page of its first life and the last of its second,
// to the token: never a negative rate, never the first life's tokens twice.
func TestRestart(t *testing.T) {
	t.Parallel()
	addr := process.FreeAddr(t)
	serve := func() *process.Process { return process.TwinAt(t, addr, "--step", "20ms", "--replicas", "1") }
	twin := serve()

	// The run reads the twin's page through the test, which so knows what it was told.
	var mu sync.Mutex
	var told []float64 // tokens by page; the next is asked for when the one before was taken in
	page := exporter(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		res, err := http.Get("http://" + addr + "/metrics")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		n := 0.0 // a twin that has done nothing may have no such series
		if strings.Contains(string(b), "vllm:generation_tokens_total{") {
			n = total(t, string(b), "vllm:generation_tokens_total")
		}
		w.Header().Set("Content-Type", plainText)
		w.Header()["Date"] = nil // or it would ask for the time as well
		if _, err := w.Write(b); err == nil {
			told = append(told, n)
		}
	})
	last := func() (pages int, tokens float64) {
		mu.Lock()
		defer mu.Unlock()
		if len(told) == 0 {
			return 0, 0
		}
		return len(told), told[len(told)-1]
	}

	dir := t.TempDir()
	r := process.Start(t, dir, "run", "--out", "runs", "--url", "http://"+addr, "--rate", "20", "--arrival", "constant", "--prompt-tokens", "20", "--output-tokens", "20", "--ignore-eos",
		"--duration", "1h", "--max-error-share", "1", "--telemetry", page, "--telemetry-interval", "100ms")
	const enough = 4000
	r.Until("the run loads the twin", func() bool { _, n := last(); return n > enough })
	twin.Signal(syscall.SIGKILL)
	twin.Wait(limit)
	lives, first := last()
	serve()
	r.Until("the run loads the second twin", func() bool { n, tokens := last(); return n > lives+20 && tokens > 400 })
	pages, _ := last()
	r.Signal(syscall.SIGINT)
	f := finished{Result: r.Wait(limit)}
	if f.Code != 130 {
		t.Fatalf("exit %d\n%s\n%s", f.Code, f.Stderr, f.Stdout)
	}
	f.read(t, filepath.Join(dir, "runs"))
	s := f.info.Source(t, page)
	if s.Restarts != 1 || s.State != "ok" {
		t.Errorf("source %+v, want one restart", s)
	}
	if q := f.summary.Requests; q.OK == 0 {
		t.Errorf("requests %+v", q)
	}
	in := f.info.Input.Server
	if in == nil || in.Output == nil {
		t.Fatalf("run.json does not say what the server counted")
	}
	// Of the last pages of the second life the end of the run may have cut one short, and the one after it may have come too late.
	mu.Lock()
	ends := told[pages-2:]
	mu.Unlock()
	if !slices.Contains(ends, *in.Output-first) {
		t.Errorf("the server is said to have counted %v output tokens, want %v of its first life and one of %v of its second", *in.Output, first, ends)
	}
	course := f.timeline(t)["generation_tokens rate"] // no rate is below 0
	d := f.summary.Server["generation_tokens"]
	if d == nil || d.Min == nil || *d.Min < 0 || len(course) < 3 {
		t.Fatalf("generation_tokens %+v a second, a course of %d cells", d, len(course))
	}
	// In a cell of 1 s are twelve readings of every 100 ms at most.
	step, before := 0.0, 0.0
	mu.Lock()
	for i, n := range told {
		if i == lives {
			before = 0
		}
		step, before = max(step, n-before), n
	}
	mu.Unlock()
	if most := course.most(); most > 12*step {
		t.Errorf("%v tokens in one second, but never more than %v from one reading to the next", most, step)
	} else if course.total() > *in.Output+4*most {
		// The four cells at the ends and beside the restart are not covered in full, and may say too much.
		t.Errorf("over the timeline there are %v tokens, the server counted %v", course.total(), *in.Output)
	}
	if said := process.Must(t, dir, limit, "report", f.dir).Stdout; !strings.Contains(said, "restart") {
		t.Errorf("the report does not speak of the restart:\n%s", said)
	}
}
