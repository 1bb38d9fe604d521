package telemetry

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

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
			f := measure(t, "--url", twin, "--users", "6", "--prompt-tokens", "lognormal:p50=60,p99=400", "--output-tokens", "uniform:5..60", "--duration", "4s", "--warmup", "1s",
				"--telemetry", "auto,"+twin+"/dcgm/metrics", "--telemetry-interval", "500ms")
			f.sameTokens(t)
			page := get(t, twin+"/metrics")
			if p, o := total(t, page, "vllm:prompt_tokens_total"), total(t, page, "vllm:generation_tokens_total"); *f.info.Input.Server.Prompt != p || *f.info.Input.Server.Output != o {
				t.Errorf("run.json says %v and %v tokens, the page %v and %v", *f.info.Input.Server.Prompt, *f.info.Input.Server.Output, p, o)
			}
			for name, own := range map[string]*process.Mean{"ttft_ms": f.info.Input.Server.TTFT, "e2e_ms": f.info.Input.Server.E2E} {
				if own == nil || own.Count != float64(len(f.rows)) {
					t.Errorf("the engine's %s is of %+v, want %d requests", name, own, len(f.rows))
					continue
				}
				if mine, its := f.sum(t, name)/own.Count, 1000*own.Sum/own.Count; mine < its || its == 0 {
					t.Errorf("mean %s %.3f is below the engine's %.3f", name, mine, its)
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
				if got := its.total(); math.Abs(got-want) > 2*its.most() {
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

// The offset of a source's clock is found within 20 ms, whether its pages say the
// time or only its Date header does, and the truth lies inside the uncertainty.
func TestClockOffset(t *testing.T) {
	t.Parallel()
	for _, shift := range []time.Duration{-26 * time.Hour, -1337 * time.Millisecond, -3 * time.Millisecond, 480 * time.Millisecond, 370 * 24 * time.Hour} {
		t.Run(shift.String(), func(t *testing.T) {
			t.Parallel()
			_, twin := process.Twin(t, "--step", "50ms", "--replicas", "1", fmt.Sprintf("--clock-shift=%v", shift))
			f := measure(t, "--url", twin, "--users", "2", "--prompt-tokens", "20", "--output-tokens", "20", "--duration", "12s", "--warmup", "0s",
				"--telemetry", twin+"/metrics,"+twin+"/node/metrics")
			for _, page := range []string{"/metrics", "/node/metrics"} {
				s := f.info.Times(t, twin+page)
				if s.Offset == nil || s.Uncertainty == nil {
					t.Errorf("%s: no offset of the clock: %+v", page, s)
					continue
				}
				off, within := time.Duration(*s.Offset), time.Duration(*s.Uncertainty)
				t.Logf("%s: %v is found to be %v +- %v", page, shift, off, within)
				if (off-shift).Abs() > 20*time.Millisecond || (off-shift).Abs() > within || within > 100*time.Millisecond {
					t.Errorf("%s: offset %v +- %v, want %v within 20 ms", page, off, within, shift)
				}
			}
		})
	}
}

// How often a source renews what it states is found within a tenth, though it is read at
// other times, and of a source that is always new that it is new whenever it is read.
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
			if off := (time.Duration(s.RenewedEvery) - period).Abs(); off > period/10 || s.AtLeast {
				t.Errorf("renewed every %v (at least: %v), want %v within a tenth", time.Duration(s.RenewedEvery), s.AtLeast, period)
			}
			if s := f.info.Times(t, twin+"/node/metrics"); !s.AtLeast || time.Duration(s.RenewedEvery) > 600*time.Millisecond {
				t.Errorf("a page that is always new: %+v", s)
			}
		})
	}
}

// A twin that is started anew in the middle of a run: the restart is noticed, and
// what the counters lost is small: never a negative rate, never the first life's
// tokens twice.
func TestRestart(t *testing.T) {
	t.Parallel()
	addr := process.FreeAddr(t)
	serve := func() *process.Process {
		return process.TwinAt(t, addr, "--step", "20ms", "--replicas", "1")
	}
	twin := serve()
	dir := t.TempDir()
	r := process.Start(t, dir, "run", "--out", "runs", "--url", "http://"+addr, "--rate", "20", "--arrival", "constant", "--prompt-tokens", "20", "--output-tokens", "20", "--ignore-eos",
		"--duration", "10s", "--warmup", "0s", "--max-error-share", "1", "--telemetry", "http://"+addr+"/metrics", "--telemetry-interval", "100ms")
	r.Until("the run loads the twin", func() bool {
		return strings.Contains(get(t, "http://"+addr+"/metrics"), "vllm:request_success_total")
	})
	time.Sleep(4 * time.Second)
	twin.Signal(syscall.SIGKILL)
	twin.Wait(limit)
	serve()
	f := finished{Result: r.Wait(limit)}
	if f.Code != 0 && f.Code != 4 {
		t.Fatalf("exit %d\n%s\n%s", f.Code, f.Stderr, f.Stdout)
	}
	f.read(t, filepath.Join(dir, "runs"))
	s := f.info.Source(t, "http://"+addr+"/metrics")
	if s.Restarts != 1 || s.State != "ok" || !s.Up {
		t.Errorf("source %+v, want one restart", s)
	}
	if q := f.summary.Requests; q.Error == 0 || q.OK < 120 {
		t.Fatalf("requests %+v: the restart was not in the middle of the run", q)
	}
	in := f.info.Input.Server
	if in == nil || in.Output == nil {
		t.Fatalf("run.json does not say what the server counted")
	}
	// What is lost is what the first life counted after the last reading; what comes
	// on top are tokens of answers that the kill cut short.
	if mine := f.sum(t, "output_tokens"); math.Abs(*in.Output-mine) > 0.1*mine {
		t.Errorf("the server counted %v output tokens in both lives, the client has %v", *in.Output, mine)
	}
	f.timeline(t) // no rate is below 0
	d := f.summary.Server["generation_tokens"]
	if d == nil || d.Min == nil || d.Mean == nil || *d.Min < 0 || *d.Max > 2*20*20 {
		t.Fatalf("generation_tokens %+v a second, want 0 to some 400", d)
	}
	if mine := f.sum(t, "output_tokens") / 10; math.Abs(*d.Mean-mine) > 0.15*mine {
		t.Errorf("the server generated %v tokens a second, the client got %v", *d.Mean, mine)
	}
	if !strings.Contains(f.Stdout, "restart") {
		t.Errorf("the report does not speak of the restart:\n%s", f.Stdout)
	}
}
