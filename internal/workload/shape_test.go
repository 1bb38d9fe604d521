package workload

import (
	"math"
	"testing"

	"plimsoll/internal/workload/content"
)

// llama8b are the facts of Llama 3.1 8B in bf16.
var llama8b = &Facts{Name: "llama-3.1-8b", ActiveParams: 7.504658432e9, PairFLOPs: 524288, KVBytes: 131072, StepBytes: 1.5009e10}

func near(t *testing.T, what string, got, want, rel float64) {
	t.Helper()
	if math.Abs(got-want) > rel*math.Abs(want) {
		t.Errorf("%s is %g, want %g within %g %%", what, got, want, rel*100)
	}
}

// By hand: two turns, the second of which sends the first again.
func TestShapeByHand(t *testing.T) {
	f, err := Read("hand.yaml", []byte("name: hand\nsession: {turns: 2, think: 4s}\nprompt: {system: 100, turn: 50}\noutput: 11\nslo: {all: [ttft.p95=1s, tpot.p95=100ms]}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := ShapeOf(f, llama8b)
	near(t, "requests", float64(s.Requests), 2*float64(s.Sessions), 0)
	near(t, "prompt", s.Prompt.Mean, (150+211)/2.0, 1e-9)
	near(t, "longest prompt", s.Prompt.Max, 211, 0)
	// The system prompt is new once, in the first of 400 sessions; a second turn has
	// its question alone.
	near(t, "new", s.New.Mean, 50+100.0/800, 1e-9)
	near(t, "reuse", s.Reuse, 1-s.New.Mean/s.Prompt.Mean, 1e-12)
	near(t, "context", s.Context.Mean, 222, 0)
	near(t, "keys and values", s.KVBytes.Mean, 222*131072, 1e-9)
	flops := 2*llama8b.ActiveParams*s.New.Mean + llama8b.PairFLOPs*(50*(100+25)+50*(161+25)+100*50.0/400)/2
	near(t, "prefill", s.PrefillFLOPs, flops, 2e-4)
	moved := 11 * ((150+5.5+211+5.5)/2*131072 + llama8b.StepBytes/ShapeBatch)
	near(t, "decoding", s.DecodeBytes, moved, 1e-9)
	// 1 s + 10 x 100 ms twice, and 4 s between.
	near(t, "requests a second", s.RequestsPerS, 2.0/8, 1e-9)
	near(t, "urgency", s.Urgency, 0.25, 1e-9)
}

// What the files of the library claim to stress, they do, and what they are made
// for is what they do most.
func TestLibraryStressesWhatItSays(t *testing.T) {
	most := map[string]string{
		"legal/contract-review": KV, "finance/financial-modeling": Compute, "finance/strategy-simulation": Scheduler,
		"healthcare/patient-summary": Compute, "research/literature-synthesis": Bandwidth, "research/citation-expansion": KV,
	}
	for _, name := range Names() {
		s := ShapeOf(lookup(t, name), llama8b)
		best := s.Axes[0]
		for _, a := range s.Axes {
			if a.Declared && a.Score < Stressed {
				t.Errorf("%s says that it stresses %s, whose score is %.2f", name, a.Name, a.Score)
			}
			if a.Score > best.Score {
				best = a
			}
		}
		if want := most[name]; want != "" && best.Name != want {
			t.Errorf("%s stresses %s most, want %s", name, best.Name, want)
		}
	}
}

// Each axis of a ladder is that of the rung that loads the part most.
func TestShapeOfLadder(t *testing.T) {
	score := func(text string) float64 {
		f, err := Read("x.yaml", []byte("name: x\noutput: 1\n"+text), nil)
		if err != nil {
			t.Fatal(err)
		}
		return ShapeOf(f, llama8b).Axes[0].Score
	}
	alone := score("prompt: {turn: 8000}\n")
	if got := score("prompt: {turn: 100}\nvary: [{prompt.turn: 8000}, {prompt.turn: 400}]\n"); got != alone || got < Stressed {
		t.Errorf("a ladder up to 8,000 tokens scores %g, its top alone %g", got, alone)
	}
}

func TestFactsOfWindows(t *testing.T) {
	f := &Facts{PairFLOPs: 1, WindowPairFLOPs: 1, Window: 100, KVBytes: 1, WindowKVBytes: 1}
	// Token by token, each sees what is before it, the window at most.
	slow := func(past, n int) float64 {
		sum := 0.0
		for i := range n {
			seen := float64(past+i) + 0.5
			sum += seen + min(seen, 100)
		}
		return sum
	}
	for _, c := range [][2]int{{0, 50}, {0, 300}, {80, 100}, {500, 20}} {
		near(t, "operations", f.flops(float64(c[0]), float64(c[1])), slow(c[0], c[1]), 1e-3)
	}
	near(t, "memory", f.kv(50), 100, 0)
	near(t, "memory", f.kv(500), 600, 0)
}

// What media are reckoned to take on the wire is near what they take.
func TestMediaTakeWhatTheShapeSays(t *testing.T) {
	for _, media := range []string{
		"{kind: image, width: 512, height: 512}", "{kind: image, width: 2048, height: 1024}", "{kind: image, width: 1024, height: 1024, format: png}", "{kind: audio, seconds: 12}",
	} {
		f := mustRead(t, "{name: w, prompt: {turn: 1}, output: 1, media: ["+media+"]}")
		plain := mustRead(t, "{name: w, prompt: {turn: 1}, output: 1}")
		facts := &Facts{}
		said := ShapeOf(f, facts).WireBytes - ShapeOf(plain, facts).WireBytes
		takes := 0.0
		const n = 3
		for i := range uint64(n) {
			parts := NewSessions(1, f).Session(0, i).Start(0).Request.Parts
			takes += float64(len(new(content.Renderer).AppendMedia(nil, parts[0].Media))) / n
		}
		if said < takes/1.4 || said > takes*1.4 {
			t.Errorf("%s takes %.0f bytes, the shape says %.0f", media, takes, said)
		}
	}
}
