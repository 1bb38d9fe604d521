package twin

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A station does what its workers would, each job with the first that is free.
func TestStationAgainstWorkers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 6).Draw(t, "workers")
		s := newStation(workers)
		free := make([]float64, workers)
		now, busy, last := 0.0, 0.0, 0.0
		for range rapid.IntRange(1, 50).Draw(t, "jobs") {
			now += rapid.Float64Range(0, 10).Draw(t, "gap")
			cost := rapid.Float64Range(0, 20).Draw(t, "cost")
			first := 0
			for i := range free {
				if free[i] < free[first] {
					first = i
				}
			}
			free[first] = max(free[first], now) + cost
			if got := s.arrive(now, cost); got != free[first] {
				t.Fatalf("done at %v, want %v", got, free[first])
			}
			busy += cost
			last = max(last, free[first])
		}
		if busy > float64(workers)*last*(1+1e-12) {
			t.Fatalf("%v of work by %d workers in %v", busy, workers, last)
		}
	})
}

// What the API process does with a row of steps is what it does step by step.
func TestSentInClosedForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := piece{
			n: rapid.Int64Range(1, 200).Draw(t, "steps"), start: rapid.Float64Range(0, 1e4).Draw(t, "start"),
			first: rapid.Float64Range(50, 200).Draw(t, "first"), cost: rapid.Float64Range(0.1, 300).Draw(t, "cost"),
		}
		p.growth = rapid.Float64Range(-40/float64(p.n), 2).Draw(t, "growth")
		p.before = rapid.Float64Range(0, 2e4).Draw(t, "busy until")
		d := newDesk(StageCosts{OutputToken: p.cost})
		d.api = p.before
		for k := range p.n {
			want := d.step(p.end(k+1), 1)
			if got := p.sent(k + 1); math.Abs(got-want) > 1e-9*want {
				t.Fatalf("step %d of %+v sent at %v, want %v", k+1, p, got, want)
			}
		}
		if n := p.n / 2; n > 0 {
			q := p
			rest := q.split(n)
			rest.before = q.sent(n)
			if got, want := rest.sent(rest.n), p.sent(p.n); math.Abs(got-want) > 1e-9*want {
				t.Fatalf("%+v divided is sent at %v, whole at %v", p, got, want)
			}
		}
	})
}

// Each stage, made slow in turn, is what a loaded cluster waits for: it takes the
// most of the requests' time, requests leave as fast as the stage can work, and the
// mean number in flight is the rate times the mean time.
func TestEachStageCanBeTheBottleneck(t *testing.T) {
	const (
		users, requests = 64, 4000
		prompt, output  = 200, 20
	)
	for _, tt := range []struct {
		name   string
		change func(c *Cluster)
		stage  int // of Values
		rate   float64
	}{
		{"tokenization in the API process", func(c *Cluster) { c.Stages.Request, c.Stages.PromptToken = 10e6, 50e3 }, 1, 1 / 20e-3},
		{"tokenization by three workers", func(c *Cluster) { c.Stages.Tokenizers, c.Stages.PromptToken = 3, 300e3 }, 1, 3 / 60e-3},
		// A prompt takes a step of its own; so do the 19 tokens after it.
		{"prefill", func(c *Cluster) { c.Engine.MaxNumBatchedTokens, c.Engine.MaxNumSeqs = 200, 1 }, 0, 1 / 20e-3},
		{"decode", func(c *Cluster) { c.Engine.MaxNumSeqs, c.Engine.MaxNumBatchedTokens = 64, 64*200 }, 3, 64 / 20e-3},
		{"detokenization", func(c *Cluster) { c.Stages.OutputToken = 2e6 }, 5, 1 / (20 * 2e-3)},
		{"guardrail", func(c *Cluster) { c.Stages.Guards, c.Stages.GuardRequest, c.Stages.GuardToken = 2, 20e6, 1e6 }, 6, 2 / 40e-3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := testCluster(t, ClusterConfig{Step: time.Millisecond})
			tt.change(c)
			k := new(kept)
			p := predict(t, &PredictConfig{
				Cluster: c, Population: synthetic(prompt, output), Sink: k, Stream: true,
				Steps: []Step{{Users: users, Requests: requests, Drain: time.Hour}},
			})
			var sums [9]float64
			total := 0.0
			for i := range k.requests {
				r := &k.requests[i]
				for j, v := range k.stages[i].Values() {
					sums[j] += float64(v)
				}
				total += float64(r.End - r.Start)
				if k.stages[i].Sum() != r.End-r.Start {
					t.Fatalf("stages %+v, latency %d", k.stages[i], r.End-r.Start)
				}
			}
			for j, v := range sums {
				if j != tt.stage && v > sums[tt.stage] {
					t.Errorf("%s takes %.0f %% of the time, %s %.0f %%", StageNames()[j], 100*v/total, StageNames()[tt.stage], 100*sums[tt.stage]/total)
				}
			}
			span := float64(p.End - p.Start)
			if rate := float64(len(k.requests)) / span * 1e9; math.Abs(rate/tt.rate-1) > 0.02 {
				t.Errorf("%.2f requests/s, the stage can do %.2f", rate, tt.rate)
			}
			if want := total / span; math.Abs(p.MeanInFlight/want-1) > 1e-9 {
				t.Errorf("%v in flight, rate times time is %v", p.MeanInFlight, want)
			}
		})
	}
}

// One request alone waits for nobody: its stages are their costs.
func TestStagesOfOneRequest(t *testing.T) {
	c := testCluster(t, ClusterConfig{Step: 10 * time.Millisecond})
	c.Stages = StageCosts{Request: 2e6, PromptToken: 1e4, Latency: 5e6, OutputToken: 3e5, Guards: 1, GuardRequest: 7e6, GuardToken: 1e5}
	k := &kept{events: true}
	predict(t, &PredictConfig{
		Cluster: c, Population: synthetic(100, 4), Sink: k, Stream: true,
		Steps: []Step{{Users: 1, Requests: 1, Drain: time.Hour}},
	})
	want := Stages{Tokenization: 8e6, Prefill: 10e6, Decode: 30e6, Detokenization: 3e5, Guardrail: 7_400_000}
	if k.stages[0] != want {
		t.Errorf("stages %+v, want %+v", k.stages[0], want)
	}
	r := &k.requests[0]
	for i, at := range []int64{18_300_000, 28_300_000, 38_300_000, 48_300_000} {
		if r.Events[i].At != at {
			t.Errorf("token %d at %d, want %d", i, r.Events[i].At, at)
		}
	}
	if r.FirstToken != 18_300_000 || r.LastToken != 48_300_000 || r.End != 55_700_000 {
		t.Errorf("first %d, last %d, end %d", r.FirstToken, r.LastToken, r.End)
	}
}

func TestStageCostsAreChecked(t *testing.T) {
	for _, c := range []StageCosts{{Request: -1}, {OutputToken: math.NaN()}, {Guards: -1}, {Tokenizers: 1 << 30}, {Latency: math.Inf(1)}} {
		if c.check() == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
	if err := (&StageCosts{Request: 1, Guards: 3}).check(); err != nil {
		t.Error(err)
	}
}
