package twin

import (
	"runtime"
	"testing"
	"time"

	"plimsoll/internal/random"
	"plimsoll/internal/record"
	"plimsoll/internal/workload"
)

// kept keeps copies of what it is given.
type kept struct {
	events   bool
	requests []record.Request
	stages   []Stages
}

func (k *kept) Record(f *Finished) {
	if k.events {
		f.Events()
	}
	r := f.Request
	r.Events = append([]record.Event(nil), r.Events...)
	k.requests = append(k.requests, r)
	k.stages = append(k.stages, f.Stages)
}

func synthetic(prompt, output int) *workload.Synthetic {
	return &workload.Synthetic{
		Seed:   1,
		Prompt: random.Dist{Kind: random.Fixed, A: float64(prompt)},
		Output: random.Dist{Kind: random.Fixed, A: float64(output)},
		Exact:  true,
	}
}

func testCluster(t testing.TB, cfg ClusterConfig) *Cluster {
	t.Helper()
	c, err := NewCluster(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func predict(t testing.TB, cfg *PredictConfig) *Prediction {
	t.Helper()
	p, err := Predict(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

type counter struct{ n, tokens int64 }

func (c *counter) Record(f *Finished) { c.n++; c.tokens += int64(f.Request.Output) }

// BenchmarkPredict is the cost of a request of 512 and 256 tokens without records.
func BenchmarkPredict(b *testing.B) {
	for _, bm := range []struct {
		name            string
		replicas, users int
	}{{"1 instance", 1, 64}, {"1 instance, 1 user", 1, 1}, {"1000 instances", 1000, 8000}} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			c := new(counter)
			p, err := Predict(b.Context(), &PredictConfig{
				Cluster: testCluster(b, ClusterConfig{Replicas: bm.replicas}), Population: synthetic(512, 256), Sink: c, Stream: true,
				Steps: []Step{{Users: bm.users, Requests: max(b.N, bm.users), Drain: time.Hour}},
			})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(p.Events)/float64(c.n), "events/req")
		})
	}
}

func TestFixedSteps(t *testing.T) {
	k := &kept{events: true}
	p := predict(t, &PredictConfig{
		Cluster: testCluster(t, ClusterConfig{Step: 10 * time.Millisecond}), Population: synthetic(5, 3), Sink: k, Stream: true,
		Steps: []Step{{Users: 2, Requests: 4, Drain: time.Hour}},
	})
	if len(k.requests) != 4 || p.End != 60e6 {
		t.Errorf("%d requests, end %d: %+v", len(k.requests), p.End, k.requests)
	}
	for i := range k.requests {
		r := &k.requests[i]
		if len(r.Events) != 3 || r.FirstToken-r.Start != 10e6 || r.End-r.Start != 30e6 || k.stages[i].Sum() != 30e6 {
			t.Errorf("request %+v", r)
		}
	}
}

// A request without records costs next to no allocation and memory, closed loop or
// open, and a thousand engines cost no more than one.
func TestPredictionIsCheap(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector has costs of its own")
	}
	for _, c := range []struct {
		replicas, users int
		rate            float64
	}{{1, 64, 0}, {50, 400, 0}, {1, 0, 10}, {50, 0, 500}} {
		cfg := &PredictConfig{
			Cluster: testCluster(t, ClusterConfig{Replicas: c.replicas}), Population: synthetic(512, 256), Stream: true, Exact: true,
			Steps: []Step{{Users: c.users, Rate: c.rate, Drain: time.Hour}},
		}
		cost := func(requests int) (allocations, bytes, events float64) {
			cfg.Steps[0].Requests, cfg.Sink = requests, new(countingSink)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			p := predict(t, cfg)
			runtime.ReadMemStats(&after)
			return float64(after.Mallocs - before.Mallocs), float64(after.TotalAlloc - before.TotalAlloc), float64(p.Events)
		}
		// What the first requests need is there for those that follow.
		first, n := 200*c.replicas, 16_000
		a, b, e := cost(first)
		a2, b2, e2 := cost(first + n)
		a, b, e = (a2-a)/float64(n), (b2-b)/float64(n), (e2-e)/float64(n)
		t.Logf("%+v: %.3f allocations, %.1f bytes, %.2f events per request", c, a, b, e)
		if a > 0.1 || b > 100 || e > 6 {
			t.Errorf("a request of %+v costs %.3f allocations, %.1f bytes and %.2f events", c, a, b, e)
		}
	}
}

// What is skipped is most of it: one user's request of 256 tokens is a handful of
// events, not 256 steps.
func TestSkippingSkips(t *testing.T) {
	f := func(users int, limit float64) {
		t.Helper()
		const n = 500
		p := predict(t, &PredictConfig{
			Cluster: testCluster(t, ClusterConfig{}), Population: synthetic(512, 256), Sink: new(counter), Stream: true,
			Steps: []Step{{Users: users, Requests: n, Drain: time.Hour}},
		})
		if got := float64(p.Events) / n; got > limit {
			t.Errorf("%v events for a request of %d users; %d steps in all", got, users, p.Counters.Steps)
		}
		if users == 1 && p.Counters.Steps != 256*n {
			t.Errorf("%d steps", p.Counters.Steps)
		}
	}
	f(1, 8)
	f(64, 3)
}

// needy is a population that needs what no driver does.
type needy struct{ *workload.Synthetic }

func (needy) Needs() workload.Needs { return 1 << 15 }

func TestPredictRefusesWhatItCannotDo(t *testing.T) {
	cfg := &PredictConfig{
		Cluster: testCluster(t, ClusterConfig{}), Population: needy{synthetic(8, 8)}, Sink: new(counter),
		Steps: []Step{{Users: 1, Requests: 1}},
	}
	_, err := Predict(t.Context(), cfg)
	if want := "workload: it needs need 15, which is not carried out here: leave that out of the workload"; err == nil || err.Error() != want {
		t.Errorf("error is %v, want %q", err, want)
	}
}
