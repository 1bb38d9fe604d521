package load

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/play"
	"plimsoll/internal/random"
	"plimsoll/internal/record"
	"plimsoll/internal/workload"
)

// alternating is a server that answers by the letters of pattern, again and
// again for n requests: o is an answer after 10 ms, x a failure after 2.
func alternating(pattern string, n int) *play.Script {
	s := answering(10 * time.Millisecond)
	ok, bad := s.Responses[0], refusing(500, `{"error":{"message":"boom"}}`).Responses[0]
	s.Responses = nil
	for i := range n {
		if pattern[i%len(pattern)] == 'x' {
			s.Responses = append(s.Responses, bad)
		} else {
			s.Responses = append(s.Responses, ok)
		}
	}
	return s
}

func TestErrorShareStopsTheRun(t *testing.T) {
	f := func(pattern string, share float64, stopped StopReason, requests int) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, alternating(pattern, 600))
			g.cfg.MaxErrorShare = share
			g.cfg.Steps = []Step{{Users: 1, Requests: 500, Drain: time.Second}, {Users: 1, Requests: 1, Drain: time.Second}}
			g.run()
			if g.res.Stopped != stopped || len(g.records) != requests {
				t.Errorf("%s over %g: stopped by %v after %d requests, want %v after %d", pattern, share, g.res.Stopped, len(g.records), stopped, requests)
			}
			if stopped == ErrorShare && (len(g.res.Steps) != 1 || g.res.Steps[0].Complete || !strings.Contains(g.res.Message, "HTTP 500: boom")) {
				t.Errorf("result is %+v", g.res)
			}
		})
	}
	f("x", 0.5, ErrorShare, 51)
	f("x", 0.1, ErrorShare, 11)
	f("xo", 0.5, Completed, 501) // 50 of 100 is not over a half
	f("xxo", 0.5, ErrorShare, 76)
	f("x", 1, Completed, 501) // from 1 on there is no guard
	f("x", 0, Completed, 501)
	f(strings.Repeat("o", 300)+strings.Repeat("x", 300), 0.5, ErrorShare, 351) // the last 100, not all
}

// A key or a path that is refused stops at once, with one message.
func TestRefusalsStopAtOnce(t *testing.T) {
	f := func(status int, stopped StopReason, want string) {
		t.Helper()
		for _, step := range []Step{{Users: 50, Duration: time.Hour}, {Rate: 200, Duration: time.Hour}} {
			step.Drain = time.Minute
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, refusing(status, `{"error":{"message":"no such thing"}}`))
				g.cfg.Steps = []Step{step, step}
				g.run()
				if g.res.Stopped != stopped || !strings.Contains(g.res.Message, want) || !strings.Contains(g.res.Message, "no such thing") {
					t.Errorf("HTTP %d: stopped by %v: %s", status, g.res.Stopped, g.res.Message)
				}
				if len(g.records) > 50 {
					t.Errorf("HTTP %d: %d requests", status, len(g.records))
				}
				if end := g.res.End - g.res.Start; end > 20*ms {
					t.Errorf("HTTP %d: ended after %d ns", status, end)
				}
			})
		}
	}
	f(401, KeyRefused, "the key was refused (HTTP 401")
	f(403, KeyRefused, "the key was refused (HTTP 403")
	f(404, PathRefused, "does not know this path or model (HTTP 404")
	f(405, PathRefused, "does not know this path or model (HTTP 405")
}

// What is in flight when a key is refused is cancelled, not waited for; and the
// first reason to stop holds.
func TestARefusalCancelsTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := answering(10 * time.Second)
		script.Responses = append(script.Responses, refusing(403, `{}`).Responses[0])
		g := newRig(t, script)
		g.cfg.Steps = []Step{{Rate: 10, Duration: time.Hour, Drain: time.Hour}}
		g.run()
		if diff := cmp.Diff(map[string]int{"error auth": 1, "cancelled": 1}, g.count()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if g.res.Stopped != KeyRefused || g.res.End-g.res.Start != 102*ms {
			t.Errorf("stopped by %v after %d ns", g.res.Stopped, g.res.End-g.res.Start)
		}
	})
}

func TestTheFirstReasonHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(10*time.Second))
		g.population.Prompt, g.population.Output = random.Dist{A: 20}, random.Dist{A: 30}
		g.cfg.MaxTotalTokens = 120
		g.cfg.Steps = []Step{{Rate: 10, Duration: time.Hour, Drain: time.Hour}}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		time.AfterFunc(time.Second+leadTime, stop)
		g.runContext(ctx)
		if g.res.Stopped != TokenLimit || !strings.Contains(g.res.Message, "max-total-tokens") {
			t.Errorf("stopped by %v: %s", g.res.Stopped, g.res.Message)
		}
		// The interrupt still ended the drain.
		if diff := cmp.Diff(map[string]int{"cancelled": 3}, g.count()); diff != "" || g.res.End-g.res.Start != 1000*ms {
			t.Errorf("ended after %d ns (-want +got):\n%s", g.res.End-g.res.Start, diff)
		}
	})
}

// The tokens of all requests never exceed the limit, those in flight included.
func TestTokenLimit(t *testing.T) {
	for _, users := range []int{1, 7} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, answering(10*time.Millisecond)) // 7 + 2 tokens by its own account
			g.population.Prompt, g.population.Output = random.Dist{A: 20}, random.Dist{A: 30}
			g.cfg.MaxTotalTokens = 1000
			g.cfg.Steps = []Step{{Users: users, Duration: time.Hour, Drain: time.Second}}
			g.run()
			if g.res.Stopped != TokenLimit || !strings.Contains(g.res.Message, "max-total-tokens") {
				t.Errorf("stopped by %v: %s", g.res.Stopped, g.res.Message)
			}
			n := g.count()
			// Each costs 9 in the end, and 50 must be free when it is sent.
			most := (1000-50)/9 + 1
			if n["ok"] > most || n["ok"] < most-50*users/9-1 {
				t.Errorf("%d users: requests ended as %v, want up to %d", users, n, most)
			}
			for _, r := range g.records {
				if r.Status == record.Cancelled && r.Start != record.Unset {
					t.Error("a request in flight was cancelled for the limit")
				}
			}
		})
	}
}

// The end of the context cancels what is in flight; what was measured stays.
func TestInterrupt(t *testing.T) {
	f := func(step Step, slots int, cancel func(*rig, context.CancelFunc), want map[string]int, end int64) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, answering(400*time.Millisecond))
			g.cfg.MaxInFlight = slots
			g.cfg.Steps = []Step{step, step}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			time.AfterFunc(time.Second+leadTime, func() { cancel(g, stop) })
			soft := make(chan struct{})
			g.cfg.Stop = soft
			if end > 1000 {
				time.AfterFunc(time.Second+leadTime, func() { close(soft) })
			}
			g.runContext(ctx)
			if diff := cmp.Diff(want, g.count()); diff != "" {
				t.Errorf("%+v: (-want +got):\n%s", step, diff)
			}
			if g.res.Stopped != Interrupted || g.res.End-g.res.Start != end*ms || len(g.res.Steps) != 1 {
				t.Errorf("%+v: stopped by %v after %d ns", step, g.res.Stopped, g.res.End-g.res.Start)
			}
			s := g.res.Steps[0]
			if s.Complete || s.SteadyEnd-s.Start != 1000*ms {
				t.Errorf("step is %+v", s)
			}
		})
	}
	hard := func(_ *rig, stop context.CancelFunc) { stop() }
	soft := func(*rig, context.CancelFunc) {}
	minute := Step{Users: 3, Duration: time.Minute, Drain: time.Minute}
	// Each user has two answers by 800 ms and a third request in flight.
	f(minute, 0, hard, map[string]int{"ok": 6, "cancelled": 3}, 1000)
	f(minute, 0, soft, map[string]int{"ok": 9}, 1200)
	// At the cap of one: two answers, one in flight, two waiting.
	f(minute, 1, hard, map[string]int{"ok": 2, "cancelled": 3}, 1000)
	f(minute, 1, soft, map[string]int{"ok": 3, "cancelled": 2}, 1200)
	f(Step{Users: 1, Requests: 100, Drain: time.Minute}, 0, hard, map[string]int{"ok": 2, "cancelled": 1}, 1000)
	f(Step{Users: 1, Requests: 100, Drain: time.Minute}, 0, soft, map[string]int{"ok": 3}, 1200)
}

func TestInterruptOfAnOpenLoop(t *testing.T) {
	for _, slots := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, answering(400*time.Millisecond))
			g.cfg.MaxInFlight = slots
			g.cfg.Steps = []Step{{Rate: 10, Duration: time.Minute, Drain: time.Minute}}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			time.AfterFunc(950*time.Millisecond+leadTime, stop)
			g.runContext(ctx)
			want := map[string]int{"ok": 6, "cancelled": 4}
			if slots == 1 {
				want = map[string]int{"ok": 2, "cancelled": 8}
			}
			if diff := cmp.Diff(want, g.count()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, r := range g.byScheduled() {
				if r.Status == record.Cancelled && r.End-g.res.Start != 950*ms {
					t.Errorf("request of %d ms was cancelled at %d ns", (r.Scheduled-g.res.Start)/ms, r.End-g.res.Start)
				}
			}
		})
	}
}

// A run that was stopped before it began measures nothing and says so.
func TestInterruptBeforeTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(time.Millisecond))
		ctx, stop := context.WithCancel(t.Context())
		stop()
		g.runContext(ctx)
		if len(g.records) != 0 || g.res.Stopped != Interrupted {
			t.Errorf("%d records, stopped by %v", len(g.records), g.res.Stopped)
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	f := func(change func(*Config), want string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, answering(time.Millisecond))
			change(&g.cfg)
			res, err := Run(t.Context(), g.cfg)
			if err == nil || res != nil || err.Error() != want {
				t.Errorf("error is %v, want %s", err, want)
			}
			if n := len(g.server.Requests()); n != 0 {
				t.Errorf("%d requests were sent", n)
			}
		})
	}
	step := func(s Step) func(*Config) { return func(c *Config) { c.Steps = []Step{s} } }
	f(func(c *Config) { c.URLs = nil }, "load: url: none is given")
	f(func(c *Config) { c.Steps = nil }, "load: steps: none is given")
	f(func(c *Config) { c.MaxInFlight = -1 }, "load: max-in-flight: want 0 or more, got -1")
	f(func(c *Config) { c.Population = needy{} }, "load: workload: it needs need 15, which is not carried out here: leave that out of the workload")
	f(step(Step{Requests: 1}), "load: step 0: want either users or a rate above 0, or users beside streams, got users 0 and rate 0")
	f(step(Step{Users: 1, Rate: 1, Requests: 1}), "load: step 0: want either users or a rate above 0, or users beside streams, got users 1 and rate 1")
	f(step(Step{Users: 1}), "load: step 0: want either a duration or a number of requests, got 0s and 0")
	f(step(Step{Rate: 1e9, Requests: 1}), "load: step 0: rate: want at most 1e+06, got 1e+09")
	f(step(Step{Users: 1, Requests: 1, Drain: -1}), "load: step 0: warmup and drain: want 0 or more, got 0s and -1ns")
	f(step(Step{Rate: 1, Arrival: "gauss", Requests: 1}), `load: step 0: arrival: unknown process "gauss", want one of constant, poisson, gamma`)
	f(func(c *Config) { c.Options.Extra = map[string]any{"x": make(chan int)} }, `load: make request body: extra field "x": json: unsupported type: chan int`)
}

// needy is a population that needs what nobody does.
type needy struct{ scripted }

func (needy) Needs() workload.Needs { return 1 << 15 }
