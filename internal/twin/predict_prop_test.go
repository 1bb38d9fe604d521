package twin

import (
	"context"
	"math"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plimsoll/internal/random"
	"plimsoll/internal/record"
	"plimsoll/internal/workload"
)

// smallModels are the models that fit an L40S, of whatever architecture.
var smallModels = sync.OnceValue(func() []string {
	var names []string
	for _, m := range Builtin().Models {
		if _, err := NewCluster(ClusterConfig{Model: m.Name, GPU: "l40s", MaxNumBatchedTokens: 2048, MaxNumSeqs: 64}); err == nil {
			names = append(names, m.Name)
		}
	}
	return names
})

// drawScenario draws a cluster and a load that is over soon. Memory is often so
// short that sequences are preempted.
func drawScenario(t *rapid.T) *PredictConfig {
	model := rapid.SampledFrom(smallModels()).Draw(t, "model")
	seqs := rapid.SampledFrom([]int{1, 2, 4, 16, 64}).Draw(t, "max seqs")
	// In every third scenario many answers outgrow the memory together.
	tight := rapid.IntRange(0, 2).Draw(t, "tight") == 0
	if tight {
		seqs = 64
	}
	cl, err := NewCluster(ClusterConfig{
		Model: model, GPU: rapid.SampledFrom([]string{"h100", "h200", "l40s"}).Draw(t, "gpu"),
		Replicas: rapid.IntRange(1, 4).Draw(t, "replicas"), MaxNumSeqs: seqs,
		MaxNumBatchedTokens: rapid.SampledFrom([]int{64, 300, 2048}).Draw(t, "budget"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if blocks := rapid.SampledFrom([]int{0, 0, 60, 200}).Draw(t, "blocks"); blocks > 0 {
		cl.Engine.Blocks = blocks
	}
	if tight {
		cl.Engine.Blocks = 60
	}
	if rapid.IntRange(0, 3).Draw(t, "windows") == 0 && cl.Engine.Window == 0 {
		if w := cl.Engine.Timer.(*Roofline).Window(); w > 0 {
			cl.Engine.Window = w
		} else {
			cl.Engine.Window = rapid.IntRange(1, 200).Draw(t, "window")
		}
		cl.Engine.FullBlocks, cl.Engine.WindowBlocks = rapid.IntRange(0, 3).Draw(t, "full"), rapid.IntRange(1, 5).Draw(t, "in windows")
	}
	cl.Engine.Policy = rapid.SampledFrom([]Policy{VLLM, VLLM, TRTLLM, SGLang}).Draw(t, "policy")
	cl.Engine.PrefixCache = rapid.Bool().Draw(t, "prefix cache")
	cl.Engine.ByPriority = cl.Engine.Policy == VLLM && rapid.Bool().Draw(t, "by priority")
	if size := rapid.SampledFrom([]int{0, 0, 1, 7, 64}).Draw(t, "block"); size > 0 {
		cl.Engine.BlockTokens = size
		cl.Engine.Blocks = max(1, cl.Engine.Blocks*blockTokens/size)
	}
	if e := &cl.Engine; e.Window > 0 {
		e.PrefixCache = e.PrefixCache && e.FullBlocks > 0
		if e.Blocks < 1000 {
			e.Blocks *= max(2, (e.FullBlocks+e.WindowBlocks)/2)
		}
	}
	cl.Context = min(cl.Context, cl.Engine.Longest())
	dist := func(name string, longest int) random.Dist {
		n := rapid.IntRange(1, longest).Draw(t, name)
		switch rapid.IntRange(0, 2).Draw(t, name+" kind") {
		case 0:
			return random.Dist{Kind: random.Fixed, A: float64(n)}
		case 1:
			return random.Dist{Kind: random.Uniform, A: 1, B: float64(n)}
		}
		return random.Dist{Kind: random.Lognormal, A: float64(n), B: 3 * float64(n)}
	}
	if rapid.Bool().Draw(t, "stages") {
		cost := func(name string, most float64) float64 {
			return rapid.SampledFrom([]float64{0, 0, most / 100, most}).Draw(t, name)
		}
		cl.Stages = StageCosts{
			Request: cost("request", 30e6), PromptToken: cost("prompt token", 1e5), Latency: cost("latency", 5e6),
			OutputToken: cost("output token", 3e6), GuardRequest: cost("guard", 50e6), GuardToken: cost("guard token", 1e6),
			Tokenizers: rapid.IntRange(0, 3).Draw(t, "tokenizers"), Guards: rapid.IntRange(0, 3).Draw(t, "guards"),
		}
	}
	prompt, output := dist("prompt", 400), dist("output", 500)
	if tight {
		prompt, output = random.Dist{Kind: random.Uniform, A: 1, B: 40}, random.Dist{Kind: random.Uniform, A: 100, B: 300}
	}
	p := &workload.Synthetic{
		Seed: rapid.Uint64Range(1, 1000).Draw(t, "seed"), Prompt: prompt, Output: output,
		Exact: rapid.Bool().Draw(t, "exact"),
		Think: time.Duration(rapid.SampledFrom([]int{0, 0, 3, 700}).Draw(t, "think")) * time.Millisecond,
	}
	cfg := &PredictConfig{
		Cluster: cl, Seed: p.Seed, Population: p, Stream: rapid.Bool().Draw(t, "stream"),
		Router:      rapid.SampledFrom(Routers()).Draw(t, "router"),
		MaxInFlight: rapid.SampledFrom([]int{0, 0, 1, 5}).Draw(t, "cap"),
		Template:    rapid.Bool().Draw(t, "template"),

		MaxTotalTokens: rapid.SampledFrom([]int64{0, 0, 0, 1000, 20_000}).Draw(t, "tokens"),
		MaxErrorShare:  rapid.SampledFrom([]float64{0, 0.1, 0.5}).Draw(t, "errors"),
	}
	for range rapid.IntRange(1, 2).Draw(t, "steps") {
		s := Step{Drain: time.Duration(rapid.SampledFrom([]int{0, 1, 3600}).Draw(t, "drain")) * time.Second}
		if rapid.Bool().Draw(t, "open") {
			s.Rate = rapid.Float64Range(0.5, 50).Draw(t, "rate")
			s.Arrival = rapid.SampledFrom([]string{"constant", "poisson"}).Draw(t, "arrival")
		} else {
			s.Users = rapid.IntRange(1, 40).Draw(t, "users")
		}
		if rapid.Bool().Draw(t, "timed") {
			s.Duration = time.Duration(rapid.IntRange(1, 8000).Draw(t, "duration")) * time.Millisecond
		} else {
			s.Requests = rapid.IntRange(1, 80).Draw(t, "requests")
		}
		s.Warmup = time.Duration(rapid.SampledFrom([]int{0, 0, 500}).Draw(t, "warmup")) * time.Millisecond
		cfg.Steps = append(cfg.Steps, s)
	}
	return cfg
}

// nearly says whether two times are equal to 1e-9, or to the ns that a record's
// times are cut to.
func nearly(a, b int64) bool {
	d := math.Abs(float64(a - b))
	return a == b || a != record.Unset && b != record.Unset && d <= 1+1e-9*math.Abs(float64(a))
}

// compareStepping predicts with and without skipping and demands the same. It
// returns how often the driver had to look at something.
func compareStepping(t rapid.TB, ctx context.Context, cfg *PredictConfig) (p, q *Prediction) {
	run := func(stepping bool) (*Prediction, *kept) {
		k := &kept{events: true}
		c := *cfg
		c.Sink, c.stepping = k, stepping
		p, err := Predict(ctx, &c)
		if err != nil {
			t.Fatal(err)
		}
		return p, k
	}
	var a, b *kept
	p, a = run(false)
	q, b = run(true)
	if len(a.requests) != len(b.requests) {
		t.Fatalf("%d requests, %d when stepped", len(a.requests), len(b.requests))
	}
	if diff := cmp.Diff(q.Counters, p.Counters); diff != "" {
		t.Fatalf("counters (-stepped +skipped):\n%s", diff)
	}
	for i := range a.requests {
		x, y := &a.requests[i], &b.requests[i]
		for _, v := range [][2]int64{
			{x.Scheduled, y.Scheduled},
			{x.Start, y.Start},
			{x.FirstToken, y.FirstToken},
			{x.LastToken, y.LastToken},
			{x.End, y.End},
			{int64(x.ID), int64(y.ID)},
			{int64(x.Status), int64(y.Status)},
			{int64(x.Output), int64(y.Output)},
			{int64(len(x.Events)), int64(len(y.Events))},
		} {
			if !nearly(v[0], v[1]) {
				t.Fatalf("request %d:\nskipped %+v\nstepped %+v", i, x, y)
			}
		}
		for j := range x.Events {
			if !nearly(x.Events[j].At, y.Events[j].At) {
				t.Fatalf("request %d: token %d at %d, stepped at %d", i, j, x.Events[j].At, y.Events[j].At)
			}
		}
		for j, v := range a.stages[i].Values() {
			if w := b.stages[i].Values()[j]; !nearly(v, w) && math.Abs(float64(v-w)) > 2+1e-9*float64(x.End) {
				t.Fatalf("request %d: %s is %d, stepped %d", i, StageNames()[j], v, w)
			}
		}
	}
	return p, q
}

func TestSkippedEqualsStepped(t *testing.T) {
	skipped, steps := int64(0), int64(0)
	rapid.Check(t, func(rt *rapid.T) {
		p, q := compareStepping(rt, t.Context(), drawScenario(rt))
		skipped, steps = skipped+p.Events, steps+q.Events
	})
	if skipped*3 > steps*2 {
		t.Errorf("%d events with skipping, %d without: hardly anything was skipped", skipped, steps)
	}
	// Memory for three and a half of sixteen: preemption all the time.
	cl := testCluster(t, ClusterConfig{MaxNumSeqs: 16, MaxNumBatchedTokens: 2048, Replicas: 2})
	cl.Engine.Blocks, cl.Context = 200, 3200
	p, _ := compareStepping(t, t.Context(), &PredictConfig{
		Cluster: cl, Population: synthetic(100, 800), Stream: true, Steps: []Step{{Users: 32, Requests: 100, Drain: time.Hour}},
	})
	if p.Counters.Preemptions < 20 {
		t.Errorf("%d preemptions", p.Counters.Preemptions)
	}
}

func TestPredictionConserves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawScenario(t)
		k := &kept{events: true}
		cfg.Sink = k
		p, err := Predict(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		var steady, scheduled, inFlight uint64
		var outputs, prompts, finished int64
		ids := map[uint64]bool{}
		last := int64(0)
		for i := range k.requests {
			r, s := &k.requests[i], &k.stages[i]
			scheduled++
			if r.Phase == record.Steady {
				steady++
			}
			if ids[r.ID] {
				t.Fatalf("two requests have the number %d", r.ID)
			}
			ids[r.ID] = true
			if r.End < last {
				t.Fatalf("request %d ended at %d, after one that ended at %d", r.ID, r.End, last)
			}
			last = r.End
			if r.Start == record.Unset {
				if r.Status == record.OK || len(r.Events) > 0 {
					t.Fatalf("never sent: %+v", r)
				}
				continue
			}
			inFlight += uint64(r.End - r.Start)
			if got := s.Sum(); got != r.End-r.Start {
				t.Fatalf("stages %+v sum to %d, the request took %d", s, got, r.End-r.Start)
			}
			for j, v := range s.Values() {
				if v < 0 {
					t.Fatalf("stage %s is %d", StageNames()[j], v)
				}
			}
			if r.Scheduled > r.Start || r.Start-r.Scheduled != r.CapWait {
				t.Fatalf("scheduled at %d, started at %d, held for %d", r.Scheduled, r.Start, r.CapWait)
			}
			at := r.Start
			for j := range r.Events {
				if r.Events[j].At <= at || r.Events[j].At > r.End {
					t.Fatalf("token %d at %d after %d, end %d", j, r.Events[j].At, at, r.End)
				}
				at = r.Events[j].At
			}
			if r.Status == record.OK {
				finished++
				outputs += int64(r.Output)
				prompts += int64(r.Prompt)
				if cfg.Stream && (len(r.Events) != int(r.Output) || r.Events[0].At != r.FirstToken || at != r.LastToken) {
					t.Fatalf("%d events: %+v", len(r.Events), r)
				}
				if r.AskedExact && r.Output != r.AskedOutput || r.Output > r.AskedOutput {
					t.Fatalf("%d tokens of %d", r.Output, r.AskedOutput)
				}
			}
			// What record makes of the events by itself is what is there already.
			whole := *r
			whole.Events = append([]record.Event(nil), r.Events...)
			if r.Status != record.Failed && len(r.Events) > 0 {
				whole.Resolve(nil)
				// cmp is slow, and there are thousands of tokens.
				if !reflect.DeepEqual(r, &whole) {
					t.Fatalf("resolved (-driver +record):\n%s", cmp.Diff(r, &whole))
				}
			}
		}
		var stepSteady, stepScheduled uint64
		for _, s := range p.Steps {
			stepSteady += s.Steady
			stepScheduled += s.Scheduled
		}
		if steady != stepSteady || scheduled != stepScheduled {
			t.Fatalf("%d requests, %d steady; the steps say %d and %d", scheduled, steady, stepScheduled, stepSteady)
		}
		c := p.Counters
		if c.Finished < finished || c.OutputTokens < outputs || c.PromptTokens < prompts {
			t.Fatalf("counters %+v; %d finished with %d prompt and %d output tokens", c, finished, prompts, outputs)
		}
		if int(scheduled) == int(finished) && (c.Finished != finished || c.OutputTokens != outputs || c.PromptTokens != prompts) {
			t.Fatalf("counters %+v; %d finished with %d prompt and %d output tokens", c, finished, prompts, outputs)
		}
		// Little's law: the mean number in flight is the rate times the mean time.
		if span := float64(p.End - p.Start); span > 0 {
			if want := float64(inFlight) / span; math.Abs(p.MeanInFlight-want) > 1e-9*(1+want) {
				t.Fatalf("%v in flight, want %v", p.MeanInFlight, want)
			}
			if p.MeanRunning > p.MeanInFlight*(1+1e-6)+1e-6 && scheduled == uint64(finished) {
				t.Fatalf("%v running of %v in flight", p.MeanRunning, p.MeanInFlight)
			}
		}
	})
}
