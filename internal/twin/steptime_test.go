package twin

import (
	"math"
	"strings"
	"testing"
)

func testLayout(t testing.TB, model, gpu string, tp int, precision Precision) *Layout {
	t.Helper()
	c := Builtin()
	m, err := c.Model(model)
	if err != nil {
		t.Fatal(err)
	}
	g, err := c.GPU(gpu)
	if err != nil {
		t.Fatal(err)
	}
	e, err := c.Engine("")
	if err != nil {
		t.Fatal(err)
	}
	seqs, budget := defaultLimits(g)
	return &Layout{Model: m, GPU: g, Engine: e, Precision: precision, TP: tp, PP: 1, DP: 1, EP: 1, MaxNumSeqs: seqs, MaxNumBatchedTokens: budget}
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got/want-1) > tolerance {
		t.Errorf("%s: got %.5g, want %.5g within %.1f %%", what, got, want, 100*tolerance)
	}
}

// vLLM's blog of 2026-04-22 measured, for one user of Llama-3.1-8B on one H100:
// ITL = 6.44 ms + 4.37e-5 ms per token of context. The intercept is made of 129
// matrix multiplications whose fit is good to 7 %.
func TestRooflineAgainstSingleUser(t *testing.T) {
	r := NewRoofline(Builtin(), testLayout(t, "llama-3.1-8b", "h100", 1, BF16))
	at := func(context int64) float64 {
		return r.StepTime(&Batch{Decodes: 1, KV: context, Sampled: 1}) / 1e6
	}
	// Straight line through contexts of the measured range.
	x0, x1 := int64(8_000), int64(96_000)
	slope := (at(x1) - at(x0)) / float64(x1-x0)
	near(t, "slope in ms per token", slope, 4.37e-5, 0.03)
	near(t, "intercept in ms", at(x0)-slope*float64(x0), 6.44, 0.07)
	for _, x := range []int64{1000, 10_000, 50_000, 120_000} {
		near(t, "ITL", at(x), 6.44+4.37e-5*float64(x), 0.07)
	}
}

func TestRooflineParts(t *testing.T) {
	l := testLayout(t, "llama-3.1-8b", "h100", 1, BF16)
	r := NewRoofline(Builtin(), l)
	// Worked by hand: a 4096 x 4096 multiplication of one token reads 33.55 MB of
	// weights: 33.57e6/(3.35e12*0.88) = 11.39 us beside no arithmetic, + 3.6 us.
	bf16 := Builtin().gemm(l.GPU, BF16, "vllm")
	near(t, "gemm", bf16.time(1, 4096, 4096, 989e12, 3.35e12, 2, 2), 14.99e-6, 0.002)
	// 8192 tokens are bound by arithmetic: 2*8192*4096*4096/(989e12*0.81) = 343.1 us.
	near(t, "gemm of a long prompt", bf16.time(8192, 4096, 4096, 989e12, 3.35e12, 2, 2), 346.9e-6, 0.005)

	// A long prompt beside 64 decodes costs far less than both apart.
	mixed := r.StepTime(&Batch{Decodes: 64, KV: 64 * 1000, Chunks: []Chunk{{New: 4096}}, Sampled: 65})
	alone := r.StepTime(&Batch{Chunks: []Chunk{{New: 4096}}, Sampled: 1})
	decode := r.StepTime(&Batch{Decodes: 64, KV: 64 * 1000, Sampled: 64})
	if !(mixed > max(alone, decode) && mixed < alone+0.5*decode) {
		t.Errorf("mixed step %.2f ms, prompt alone %.2f, decode alone %.2f", mixed/1e6, alone/1e6, decode/1e6)
	}
	// A later chunk costs more than the first, by its attention to what came before.
	first := r.StepTime(&Batch{Chunks: []Chunk{{New: 4096}}})
	later := r.StepTime(&Batch{Chunks: []Chunk{{New: 4096, Past: 65536}}})
	// 4*32*128*4096*65536 FLOPs per layer at 0.62 of 989 TFLOPS, 32 layers.
	near(t, "attention to the past", (later-first)/1e9, 32*4*32*128*4096*65536.0/(0.62*989e12), 0.03)
}

func TestRooflineGrowsWithWork(t *testing.T) {
	for _, gpu := range []string{"h100", "l40s", "b200"} {
		r := NewRoofline(Builtin(), testLayout(t, "qwen3-8b", gpu, 1, FP8))
		last := 0.0
		for n := 1; n <= 256; n++ {
			got := r.StepTime(&Batch{Decodes: n, KV: int64(n) * 500, Sampled: n})
			if got < last {
				t.Fatalf("%s: %d decodes take %v ns, one less %v", gpu, n, got, last)
			}
			last = got
		}
		last = 0
		for kv := int64(1); kv < 1<<34; kv += 1 + kv/7 {
			got := r.decodeAttention(&Batch{KV: kv})
			if got < last {
				t.Fatalf("%s: attention to %d tokens takes %v s, to less %v", gpu, kv, got, last)
			}
			last = got
		}
	}
}

func TestKVPoints(t *testing.T) {
	for i := range kvPoints - 1 {
		x, next := kvPoint(i), kvPoint(i+1)
		if next <= x || kvIndex(x) != i || kvIndex(next-1) != i {
			t.Fatalf("point %d is %d, next %d, index %d and %d", i, x, next, kvIndex(x), kvIndex(next-1))
		}
	}
}

func TestTensorParallelism(t *testing.T) {
	step := func(tp int) float64 {
		r := NewRoofline(Builtin(), testLayout(t, "llama-3.1-70b", "h100", tp, FP8))
		return r.StepTime(&Batch{Decodes: 8, KV: 8000, Sampled: 8})
	}
	t2, t4, t8 := step(2), step(4), step(8)
	if !(t2 > t4 && t4 > t8) || t2 > 2*t4 {
		t.Errorf("step of 70B at tp 2, 4, 8: %.2f %.2f %.2f ms", t2/1e6, t4/1e6, t8/1e6)
	}
}

// The block counts are what vLLM reported (collected in published benchmark
// data); the memory that it profiles differs by version and settings, hence the
// tolerance.
func TestMemoryAgainstReportedBlocks(t *testing.T) {
	tests := []struct {
		model, gpu string
		tp, seqs   int
		budget     int
		blocks     int
		tolerance  float64
	}{
		{"llama-3.1-70b", "h100", 4, 1024, 8192, 30425, 0.03},
		{"llama-2-7b", "h100", 1, 256, 2048, 7463, 0.03},
		{"mistral-nemo-12b", "h100", 1, 256, 2048, 19251, 0.05},
		{"mistral-nemo-12b", "h100", 2, 256, 2048, 48009, 0.06},
		{"qwen2.5-7b", "h100", 1, 256, 2048, 65352, 0.05},
		{"yi-34b", "h100", 2, 256, 2048, 20793, 0.06},
		{"llama-3.1-8b", "rtx-4090", 1, 256, 2048, 2588, 0.2},
		// An upper bound: the engine also holds the encoder of images, bf16 attention,
		// and what profiling the largest images takes, of which the twin knows nothing.
		{"llama-4-scout", "h100", 2, 256, 2048, 8253, 0.6},
	}
	for _, tt := range tests {
		l := testLayout(t, tt.model, tt.gpu, tt.tp, BF16)
		if tt.model == "llama-4-scout" {
			l.Precision = FP8
		}
		l.MaxNumSeqs, l.MaxNumBatchedTokens = tt.seqs, tt.budget
		if err := l.check(); err != nil {
			t.Fatal(err)
		}
		mem, err := l.memory()
		if err != nil {
			t.Errorf("%s on %s: %v", tt.model, tt.gpu, err)
			continue
		}
		near(t, tt.model+" on "+tt.gpu+": KV blocks", float64(mem.KVTokens/blockTokens), float64(tt.blocks), tt.tolerance)
	}
}

func TestImpossibleLayouts(t *testing.T) {
	tests := []struct {
		model, gpu string
		tp         int
		precision  Precision
		want       string
	}{
		{"llama-3.1-70b", "h100", 1, BF16, "weights take 131.4 GiB"},
		{"llama-3.1-70b", "h100", 1, BF16, "tp 2 would fit"},
		{"llama-3.1-8b", "h100", 3, BF16, "tp 3 does not divide the 32 attention heads of llama-3.1-8b; use one of 1, 2, 4, 8, 16, 32"},
		{"llama-3.1-8b", "h100", 0, BF16, "tp 0: want at least 1"},
		{"llama-3.1-8b", "h100", 16, BF16, "tp 16: h100 has 8 devices in a scale-up domain"},
		{"llama-3.1-8b", "a100", 1, FP8, "a100 has no fp8 arithmetic; use bf16, int8 or int4"},
		{"llama-3.1-8b", "h100", 1, "int3", `precision "int3": want bf16, fp8, fp8_block, fp4, int8 or int4`},
	}
	for _, tt := range tests {
		l := testLayout(t, tt.model, tt.gpu, 1, BF16)
		l.TP, l.Precision = tt.tp, tt.precision
		err := l.check()
		if err == nil {
			_, err = l.memory()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s on %d %s in %s: error %v, want %q in it", tt.model, tt.tp, tt.gpu, tt.precision, err, tt.want)
		}
	}
}

// Every way out that the error names is one: it can be, and the model fits.
func TestWaysToFit(t *testing.T) {
	c := Builtin()
	for i := range c.Models {
		for j := range c.GPUs {
			l := testLayout(t, c.Models[i].Name, c.GPUs[j].Name, 1, BF16)
			if l.check() != nil || l.fits() {
				continue
			}
			for _, w := range l.roomier() {
				if err := w.check(); err != nil {
					t.Errorf("%s on %s: %v", l.Model.Name, l.GPU.Name, err)
				}
				if _, err := w.memory(); err != nil {
					t.Errorf("%s on %s: %v", l.Model.Name, l.GPU.Name, err)
				}
			}
		}
	}
	for _, tt := range []struct {
		model, gpu string
		tp         int
		want       string
	}{
		{"llama-3.1-70b", "h100", 1, "tp 2 would fit, or fp8, or 1 x b200"},
		{"deepseek-v3", "h100", 8, "pp 4 would fit, or fp8 (as it is published) with pp 2, or 8 x b200"},
		{"gpt-oss-120b", "h100", 1, "tp 4 would fit, or fp4 (as it is published), or 1 x mi325x"},
		{"llama-3.1-405b", "l4", 1, "tp 8 and pp 8 would fit, or fp8 with tp 8 and pp 4"},
	} {
		l := testLayout(t, tt.model, tt.gpu, tt.tp, BF16)
		if err := l.check(); err != nil {
			t.Fatal(err)
		}
		if got := l.fitHint(); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s on %d %s: %q, want %q", tt.model, tt.tp, tt.gpu, got, tt.want)
		}
	}
}

func TestCatalogueNames(t *testing.T) {
	c := Builtin()
	for _, name := range []string{"llama-3.1-8b", "meta-llama/Llama-3.1-8B-Instruct", "Meta-Llama-3.1-8B-Instruct", "LLAMA 3.1 8B", "llama3.1:8b", "nvidia/Llama-3.1-8B-Instruct-FP8", "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", "llama-3.1-8b-nvfp4"} {
		if m, err := c.Model(name); err != nil || m.Name != "llama-3.1-8b" {
			t.Errorf("model %q: %v, %v", name, m, err)
		}
	}
	for name, want := range map[string]string{"h100": "h100", "H100 SXM": "h100", "NVIDIA H100": "h100", "NVIDIA H100 80GB HBM3": "h100", "h100_pcie": "h100-pcie", "MI300X": "mi300x", "H-100": "h100", "MI 300 X": "mi300x"} {
		if g, err := c.GPU(name); err != nil || g.Name != want {
			t.Errorf("gpu %q: %v, %v", name, g, err)
		}
	}
	if m, err := c.Model("llama3.18b"); err != nil || m.Name != "llama-3.1-8b" {
		t.Errorf("llama3.18b: %v, %v", m, err)
	}
	if _, err := c.Model("lama-3.1-7b"); err == nil || !strings.Contains(err.Error(), `"lama-3.1-7b": no such name in the catalogue; nearest: llama-3.1-8b`) {
		t.Errorf("unknown model: %v", err)
	}
	if _, err := c.GPU("h101"); err == nil || !strings.Contains(err.Error(), "nearest: h100") {
		t.Errorf("unknown gpu: %v", err)
	}
	if _, err := c.Model(strings.Repeat("x", 1<<20)); err == nil {
		t.Error("a megabyte of name was found")
	}
}

// Every value has a source that is explained and a grade of confidence, and no
// name means two things.
func TestCatalogueIsComplete(t *testing.T) {
	c := Builtin()
	source := func(where, src string, conf Confidence) {
		t.Helper()
		if c.Sources[src] == "" {
			t.Errorf("%s: source %q is not explained", where, src)
		}
		if conf != High && conf != Medium && conf != Low {
			t.Errorf("%s: confidence %q", where, conf)
		}
	}
	value := func(where string, v Value) {
		t.Helper()
		source(where, v.Source, v.Conf)
		if !(v.V > 0) {
			t.Errorf("%s: %v", where, v.V)
		}
	}
	seen := map[string]string{}
	name := func(kind, entry string, names ...string) {
		for _, n := range names {
			n = kind + plainName(n)
			if other, ok := seen[n]; ok && other != entry {
				t.Errorf("%s is both %s and %s", n, entry, other)
			}
			seen[n] = entry
		}
	}
	for i := range c.GPUs {
		g := &c.GPUs[i]
		name("gpu ", g.Name, append([]string{g.Name, g.Title}, g.Aliases...)...)
		value(g.Name+" bf16", g.BF16)
		value(g.Name+" memory", g.MemoryGiB)
		value(g.Name+" bandwidth", g.Bandwidth)
		value(g.Name+" link", g.Link)
		value(g.Name+" domain", g.Domain)
		value(g.Name+" tdp", g.TDP)
		if m := g.MoE; m != nil {
			value(g.Name+" experts", m.EM)
		}
		for _, v := range []Value{g.FP8, g.FP4} {
			if v.V != 0 {
				value(g.Name+" fp8 or fp4", v)
			}
		}
		for _, f := range g.GEMM {
			source(g.Name+" gemm", f.Source, f.Conf)
		}
		if a := g.Attention; a != nil {
			source(g.Name+" attention", a.MFU.Source, a.MFU.Conf)
			value(g.Name+" decode floor", a.DecodeFloorUS)
			if len(a.MFU.V) != len(prefillContexts) {
				t.Errorf("%s attention: %d utilisations", g.Name, len(a.MFU.V))
			}
		}
		for _, a := range g.AllReduce {
			source(g.Name+" all-reduce", a.Source, a.Conf)
			for _, row := range [][]float64{a.TP2, a.TP4, a.TP8} {
				if len(row) != 0 && len(row) != len(allReduceBytes) {
					t.Errorf("%s all-reduce: %d times", g.Name, len(row))
				}
			}
		}
	}
	for i := range c.Models {
		m := &c.Models[i]
		name("model ", m.Name, append([]string{m.Name, m.ID}, m.Aliases...)...)
		source(m.Name, m.Source, m.Conf)
		if err := m.check(); err != nil {
			t.Error(err)
		}
		if m.Context < 1024 {
			t.Errorf("%s: context %d", m.Name, m.Context)
		}
	}
	for i := range c.Engines {
		e := &c.Engines[i]
		name("engine ", e.Name, append([]string{e.Name}, e.Aliases...)...)
		value(e.Name+" host", e.HostUS)
		value(e.Name+" per sequence", e.HostPerSeqUS)
		value(e.Name+" utilisation", e.MemoryUtilization)
		value(e.Name+" graphs", e.GraphsGiB)
		value(e.Name+" request", e.APIRequestUS)
		value(e.Name+" tokenize", e.TokenizeUS)
		value(e.Name+" detokenize", e.DetokenizeUS)
		value(e.Name+" first token", e.APILatencyUS)
		source(e.Name+" serial", e.SerialUS.Source, e.SerialUS.Conf)
	}
}

func BenchmarkReadCatalogue(b *testing.B) {
	for b.Loop() {
		if _, err := readCatalogue(); err != nil {
			b.Fatal(err)
		}
	}
}
