package probe

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"plimsoll/internal/run"
	"plimsoll/internal/twin"
)

// The twins that the accuracy is shown on: models with and without experts, windows
// and latent attention, several accelerators, engines and numbers of them.
var twins = []twin.ClusterConfig{
	{},
	{Model: "llama-3.1-70b", GPU: "h200", TP: 4},
	{Model: "llama-3.1-8b", GPU: "l4"},
	{Model: "llama-3.1-8b", GPU: "a100", Engine: "sglang"},
	{Model: "llama-3.1-8b", GPU: "b200", Engine: "trtllm"},
	{Model: "llama-3.1-8b", GPU: "h100", Precision: "fp8", KVFP8: true},
	{Model: "qwen3-30b-a3b", GPU: "h100"},
	{Model: "gpt-oss-120b", GPU: "h100"},
}

func label(c twin.ClusterConfig) string {
	return strings.Join([]string{c.Model, c.GPU, c.Engine, string(c.Precision), fmt.Sprint(c.TP)}, " ")
}

// off is how far a figure is from the truth, relatively.
func off(t *testing.T, f run.ProbeFit, truth float64) float64 {
	t.Helper()
	if f.Value == nil {
		t.Fatalf("%s has no value: %s", f.Name, f.Text)
	}
	return math.Abs(*f.Value/truth - 1)
}

// kv/capacity finds the KV memory of the twin within 5 %, whatever its engine does
// when there is no more of it: take it back, or have requests wait.
func TestCapacityIsTheTwinsMemory(t *testing.T) {
	more := append([]twin.ClusterConfig{
		{Model: "llama-3.1-8b", GPU: "h100", MemoryUtilization: 0.5},
		{Model: "llama-3.1-8b", GPU: "h100", MemoryUtilization: 0.35, Engine: "trtllm"},
		{Model: "llama-3.1-8b", GPU: "h100", MemoryUtilization: 0.4, Engine: "sglang"},
		{Model: "llama-3.1-8b", GPU: "h100", MaxNumBatchedTokens: 2048},
	}, twins...)
	for _, c := range more {
		t.Run(label(c), func(t *testing.T) {
			p, res := simulated(t, c, "kv/capacity")
			truth := float64(res.Cluster.KVTokens())
			f := find(t, p, "kv capacity")
			if d := off(t, f, truth); d > 0.05 || !f.OK {
				t.Errorf("%.0f tokens, the twin has %.0f: %.1f %% off; %s", *f.Value, truth, 100*d, f.Text)
			}
			// The twin's own account says what ended it.
			preempted, said := res.Prediction.Counters.Preemptions > 0, strings.Contains(f.Text, "preemption")
			if preempted != said {
				t.Errorf("the twin took memory back: %v; the probe says %q", preempted, f.Text)
			}
			if !strings.Contains(strings.Join(p.Notes, " "), "from the client's figures alone") {
				t.Errorf("the evidence is not stated: %q", p.Notes)
			}
		})
	}
}

// A cap of the number of sequences is not taken for the memory: longer contexts find
// it all the same, and where they are refused nothing is claimed.
func TestCapacityKnowsACapOfSequences(t *testing.T) {
	for _, c := range []twin.ClusterConfig{{GPU: "l4", MaxNumSeqs: 24}, {MemoryUtilization: 0.35, MaxNumSeqs: 40, Engine: "trtllm"}} {
		p, res := simulated(t, c, "kv/capacity")
		if f, truth := find(t, p, "kv capacity"), float64(res.Cluster.KVTokens()); off(t, f, truth) > 0.05 {
			t.Errorf("%d sequences at most: %v tokens, the twin has %v; %s", c.MaxNumSeqs, *f.Value, truth, f.Text)
		}
	}
	for _, c := range []twin.ClusterConfig{{MaxNumSeqs: 24, MaxModelLen: 8192}, {MaxNumSeqs: 40, MaxModelLen: 4096, Engine: "trtllm"}} {
		p, res := simulated(t, c, "kv/capacity")
		f := find(t, p, "kv capacity")
		if f.OK || f.Value != nil || !strings.Contains(f.Text, fmt.Sprintf("At most %d sequences", c.MaxNumSeqs)) {
			t.Errorf("%d sequences at most: %v, %v; %s", c.MaxNumSeqs, f.Value, f.OK, f.Text)
		}
		if res.Prediction.Counters.Preemptions > 0 || res.Prediction.PeakKV > 0.9 {
			t.Errorf("the twin's memory was full after all: %+v", res.Prediction)
		}
	}
}

// prefill-ladder finds the speed of prefill within 5 %: what a further token takes by
// the twin's own step time (with prompts so short that there is no attention to speak
// of) and by its tokenizer.
func TestPrefillSpeedIsTheTwins(t *testing.T) {
	for _, c := range twins {
		if strings.HasPrefix(c.Model, "qwen3") {
			// Experts are read anew up to thousands of tokens: there is no one speed, and the
			// interval says so.
			p, _ := simulated(t, c, "gpu-hbm/prefill-ladder")
			if f := find(t, p, "prefill speed"); *f.Hi / *f.Lo < 1.3 {
				t.Errorf("%s: a speed of %v to %v where there is none", label(c), *f.Lo, *f.Hi)
			}
			continue
		}
		t.Run(label(c), func(t *testing.T) {
			p, res := simulated(t, c, "gpu-hbm/prefill-ladder")
			e := res.Cluster.Engine
			step := func(tokens int) float64 {
				b := twin.Batch{Sampled: 1}
				for range tokens / 256 {
					b.Chunks = append(b.Chunks, twin.Chunk{New: 256})
				}
				return e.Timer.StepTime(&b)
			}
			n := e.MaxNumBatchedTokens
			perToken := (step(n)-step(n/2))/float64(n-n/2) + res.Cluster.Stages.PromptToken
			if d := off(t, find(t, p, "prefill speed"), 1e9/perToken); d > 0.05 {
				t.Errorf("%.0f tokens/s, the twin does %.0f: %.1f %% off", *find(t, p, "prefill speed").Value, 1e9/perToken, 100*d)
			}
		})
	}
}

// decode-ladder finds its knee within one rung: where the twin's own steps, and the
// process that sends what they make, bring half of the tokens a second that their
// slope at the top allows.
func TestKneeIsTheTwins(t *testing.T) {
	found := 0
	for _, c := range twins {
		t.Run(label(c), func(t *testing.T) {
			p, res := simulated(t, c, "gpu-hbm/decode-ladder")
			e, stages := res.Cluster.Engine, res.Cluster.Stages
			context := 516.0 // in the middle of an answer
			most := min(float64(e.MaxNumSeqs), float64(res.Cluster.KVTokens())/1016)
			time := func(n float64) float64 {
				b := twin.Batch{Decodes: int(n), KV: int64(n * context), Sampled: int(n)}
				return max(e.Timer.StepTime(&b), n*stages.OutputToken)
			}
			top := math.Exp2(math.Floor(math.Log2(most))) // the last rung that fits
			slope := (time(top) - time(top/2)) / (top / 2)
			knee := 1.0
			for knee < top && time(knee) > 2*slope*knee {
				knee++
			}
			f := find(t, p, "knee")
			if knee >= top {
				if f.Value != nil {
					t.Errorf("a knee at %v, the twin has none up to %v", *f.Value, top)
				}
				return
			}
			found++
			if f.Value == nil || math.Abs(math.Log2(*f.Value/knee)) > 1 {
				t.Errorf("the knee is at %v, the twin's at %v: %s", f.Value, knee, f.Text)
			}
		})
	}
	if found < 4 {
		t.Errorf("only %d of the twins have a knee on the ladder", found)
	}
}

// prefix-reuse finds what the workload declares within 2 points, which is what the
// twin counts.
func TestReuseIsWhatIsDeclared(t *testing.T) {
	for _, c := range twins {
		t.Run(label(c), func(t *testing.T) {
			p, res := simulated(t, c, "kv/prefix-reuse")
			rungs := 0
			for declared := range map[string]float64{"0": 0, "25": 25, "50": 50, "75": 75, "95": 95} {
				f := find(t, p, "hit rate at "+declared+" %")
				rungs++
				var want float64
				fmt.Sscan(declared, &want)
				if math.Abs(*f.Value-want) > 2 || !f.OK {
					t.Errorf("%s: %v", f.Name, *f.Value)
				}
			}
			if f := find(t, p, "largest difference"); *f.Value > 2 {
				t.Errorf("largest difference %v", *f.Value)
			}
			// All in all it is what the twin counts, but for the first of each rung.
			k := res.Prediction.Counters
			if share := float64(k.PrefixHits) / float64(k.PrefixQueries); math.Abs(share-0.49) > 0.03 {
				t.Errorf("the twin found %.3f of all prompts", share)
			}
			if f := find(t, p, "worth of reuse"); !f.OK {
				t.Errorf("reuse is worth nothing: %s", f.Text)
			}
		})
	}
	// Without a cache nothing is found.
	p, _ := simulated(t, twin.ClusterConfig{NoPrefixCache: true}, "kv/prefix-reuse")
	if f := find(t, p, "largest difference"); f.OK {
		t.Errorf("without a cache: %+v", f)
	}
}

// grown says whether a probe calls anything a growth.
func grown(p *run.Probe) bool {
	for _, f := range p.Fits {
		if strings.HasPrefix(f.Name, "growth of ") && !f.OK {
			return true
		}
	}
	return false
}

// growth finds a leak of 1 % a minute in ten minutes with every seed, and says how
// large it is; where there is none it finds one with at most three seeds of 300.
func TestGrowthFindsLeaksAndNothingElse(t *testing.T) {
	with, without := 50, 300
	if testing.Short() {
		with, without = 16, 80
	}
	ten := "load.duration=10m"
	covered, n := 0, 0
	for seed := range with {
		c := twins[seed%len(twins)]
		c.Slowdown = 0.01
		p, _ := simulated(t, c, "kv/growth", ten, fmt.Sprint("seed=", seed+1))
		if !grown(p) {
			t.Errorf("seed %d, %s: the leak was not found: %+v", seed+1, label(c), p.Fits)
		}
		f := find(t, p, "growth of tpot")
		n++
		if *f.Lo <= 1 && 1 <= *f.Hi {
			covered++
		}
	}
	// The interval is of the whole tpot, of which nearly all is steps.
	if float64(covered) < 0.8*float64(n) {
		t.Errorf("only %d of %d intervals have the leak in them", covered, n)
	}
	wrong := 0
	for seed := range without {
		p, _ := simulated(t, twins[seed%len(twins)], "kv/growth", ten, fmt.Sprint("seed=", seed+1))
		if grown(p) {
			wrong++
			t.Logf("seed %d: %+v", seed+1, p.Fits)
		}
	}
	if wrong > without/100 {
		t.Errorf("%d of %d seeds without a leak have one", wrong, without)
	}
}

// At a rate, too, where requests come at random.
func TestGrowthAtARate(t *testing.T) {
	for seed := range 20 {
		set := []string{"load.duration=10m", "load.rate=3", fmt.Sprint("seed=", seed+1)}
		if p, _ := simulated(t, twin.ClusterConfig{}, "kv/growth", set...); grown(p) {
			t.Errorf("seed %d: a leak where there is none: %+v", seed+1, p.Fits)
		}
	}
	p, _ := simulated(t, twin.ClusterConfig{Slowdown: 0.05}, "kv/growth", "load.duration=10m", "load.rate=3")
	if !grown(p) {
		t.Errorf("a leak of 5 %% a minute was not found: %+v", p.Fits)
	}
}

// interference finds how long a step with a chunk of the long prompt is: the twin's
// own step time of its last and longest chunk.
func TestStallIsTheTwinsStep(t *testing.T) {
	for _, c := range []twin.ClusterConfig{{}, {Model: "llama-3.1-70b", GPU: "h200", TP: 4}, {Model: "llama-3.1-8b", GPU: "l4"}, {MaxNumBatchedTokens: 2048}} {
		p, res := simulated(t, c, "gpu-hbm/interference")
		n := res.Cluster.Engine.MaxNumBatchedTokens
		b := twin.Batch{Decodes: 16, KV: 16 * 1000, Sampled: 17, Chunks: []twin.Chunk{{New: n - 16, Past: 32768 - n}}}
		truth := res.Cluster.Engine.Timer.StepTime(&b) / 1e6
		if d := off(t, find(t, p, "stall"), truth); d > 0.05 {
			t.Errorf("%s: %v ms, the twin's step is %v", label(c), *find(t, p, "stall").Value, truth)
		}
	}
}

// parallel-latency finds the twin's own step, what of it the weights do not take, and
// what context adds to it: launches, the host and what devices send each other are all
// in the twin's account, with one device and with eight. What many users add is less
// than so many at once would: they begin one after another.
func TestStepBeyondTheWeightsIsTheTwins(t *testing.T) {
	for _, c := range []twin.ClusterConfig{
		{Model: "llama-3.1-8b", GPU: "h100", TP: 1},
		{Model: "llama-3.1-8b", GPU: "h100", TP: 4},
		{Model: "llama-3.1-8b", GPU: "h100", TP: 8},
		{Model: "llama-3.1-70b", GPU: "h200", TP: 4},
		{Model: "llama-3.1-70b", GPU: "b200", TP: 8, Engine: "trtllm"},
	} {
		p, res := simulated(t, c, "fabric/parallel-latency", fmt.Sprintf("target.hardware=%dx%s", c.TP, c.GPU), "target.model="+c.Model)
		e, stages := res.Cluster.Engine, res.Cluster.Stages
		// In the middle of an answer.
		step := func(users int, prompt float64) float64 {
			b := twin.Batch{Decodes: users, KV: int64(float64(users) * (prompt + 128)), Sampled: users}
			return max(e.Timer.StepTime(&b), float64(users)*stages.OutputToken) / 1e6
		}
		var short, long float64
		for _, q := range p.Points {
			var n float64
			if _, err := fmt.Sscan(strings.ReplaceAll(strings.TrimPrefix(q.Series, "prompts of "), ",", ""), &n); err != nil {
				t.Fatal(err)
			}
			if short == 0 || n < short {
				short = n
			}
			long = max(long, n)
		}
		m, err := twin.Builtin().Model(c.Model)
		if err != nil {
			t.Fatal(err)
		}
		g, err := twin.Builtin().GPU(c.GPU)
		if err != nil {
			t.Fatal(err)
		}
		weights := 1e3 * 2 * m.ActiveParams() / float64(c.TP) / (g.Bandwidth.V * 1e12)
		for name, truth := range map[string]float64{
			"step":                 step(1, short),
			"above the roofline":   step(1, short) - weights,
			"long prompts, 1 user": (step(1, long) - step(1, short)) * 1000 / (long - short),
		} {
			f := find(t, p, name)
			if f.Value == nil || math.Abs(*f.Value-truth) > 0.05*truth+1e-6 || !f.OK {
				t.Errorf("%s: %s is %+v, the twin's %.4g", label(c), name, f, truth)
			}
		}
		if f, most := find(t, p, fmt.Sprintf("many users, prompts of %.0f", short)), step(64, short)-step(1, short); *f.Value < 0.3*most || *f.Value > 1.05*most {
			t.Errorf("%s: 64 users add %v ms, so many at once %.4g", label(c), *f.Value, most)
		}
	}
}

// eviction finds the twin's memory, in order between two rungs and at random within a
// text or so.
func TestEvictionFindsTheTwinsMemory(t *testing.T) {
	for _, c := range append([]twin.ClusterConfig{{GPU: "l4"}}, twins...) {
		if strings.HasPrefix(c.Model, "gpt-oss") {
			continue // with windows there is no one number of tokens: it depends on the lengths
		}
		t.Run(label(c), func(t *testing.T) {
			p, res := simulated(t, c, "kv/eviction", "seed=2")
			truth := float64(res.Cluster.KVTokens())
			if truth > 512*8192/2 {
				t.Skipf("%.0f tokens of memory: the ladder ends before it is full", truth)
			}
			f := find(t, p, "falls at")
			if f.Value == nil || *f.Lo > 1.02*truth || *f.Hi < 0.98*truth {
				t.Errorf("in order: %+v; the twin has %.0f", f, truth)
			}
			if f := find(t, p, "cache"); f.Value == nil || math.Abs(*f.Value-truth) > max(0.1*truth, 8192) || !f.OK {
				t.Errorf("at random: %+v; the twin has %.0f", f, truth)
			}
		})
	}
}

// transfer finds nothing where nothing is handed over.
func TestNothingIsHandedOver(t *testing.T) {
	for _, c := range twins {
		p, _ := simulated(t, c, "fabric/transfer")
		later, wait := find(t, p, "share of ttft"), find(t, p, "wait for the second")
		if math.Abs(*later.Value) > 1 || *wait.Value > 0.01 || !strings.Contains(strings.Join(p.Notes, " "), "neither shows") {
			t.Errorf("%s: %v %% of ttft, %v ms: %q", label(c), *later.Value, *wait.Value, p.Notes)
		}
	}
}
