package twin

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Kernel constants of the catalogue against the published tables that they come
// from: a sample of them is in testdata (see its README).
func TestKernelConstants(t *testing.T) {
	f, err := os.Open("testdata/kernels.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{"RTXPRO6000": "rtx-pro-6000", "rtx_pro_6000_server": "rtx-pro-6000", "a100_sxm": "a100", "h100_sxm": "h100", "h200_sxm": "h200", "b200_sxm": "b200", "b300_sxm": "b300"}
	precisions := map[string]Precision{"bf16": BF16, "fp8": FP8, "fp8_block": FP8Block, "nvfp4": FP4}
	kinds := map[string]int{}
	for _, row := range rows[1:] {
		kind, hardware, engine, key := row[0], row[1], row[2], row[3]
		name := names[hardware]
		if name == "" {
			name = strings.ToLower(hardware)
		}
		g, err := Builtin().GPU(name)
		if err != nil {
			t.Fatal(err)
		}
		p := map[string]float64{}
		for _, part := range strings.Split(row[4], ";") {
			k, v, _ := strings.Cut(part, "=")
			if p[k], err = strconv.ParseFloat(v, 64); err != nil {
				t.Fatalf("%v: %v", row, err)
			}
		}
		kinds[kind]++
		switch kind {
		case "gemm_pnorm":
			fit := Builtin().gemm(g, precisions[key], engine)
			got := [4]float64{fit.EC, fit.EM, fit.T0us, fit.P}
			if want := [4]float64{p["eC"], p["eM"], p["t0_us"], p["p"]}; got != want {
				t.Errorf("%s %s %s: %v, the table has %v", hardware, engine, key, got, want)
			}
		case "attn_prefill_mfu":
			for i, k := range []string{"isl1_2k", "isl2_4k", "isl4_8k", "isl8_16k", "isl16k_up"} {
				if got := g.Attention.MFU.V[i]; got != p[k] {
					t.Errorf("%s: prefill share %v at %s, the table has %v", hardware, got, k, p[k])
				}
			}
		case "custom_allreduce":
			tp, err := strconv.Atoi(key[len(key)-1:])
			if err != nil {
				t.Fatal(err)
			}
			near(t, fmt.Sprintf("%s %s all-reduce of %v bytes over %d in us", hardware, engine, p["bytes"], tp), 1e6*g.allReduce(engine, tp, p["bytes"]), p["us"], 1e-9)
		default:
			t.Errorf("%s: what is it?", kind)
		}
	}
	if kinds["gemm_pnorm"] < 20 || kinds["custom_allreduce"] < 50 || kinds["attn_prefill_mfu"] < 5 {
		t.Errorf("the sample has %v rows", kinds)
	}
}

// The all-reduce table of the survey, which is rounded, at sizes between the
// breakpoints: straight in the logarithms, so never off the neighbours.
func TestAllReduceBetweenMeasurements(t *testing.T) {
	g, err := Builtin().GPU("h100")
	if err != nil {
		t.Fatal(err)
	}
	last := 0.0
	for size := 1e3; size < 1e9; size *= 1.1 {
		got := g.allReduce("vllm", 8, size)
		if got < last {
			t.Fatalf("%.0f bytes take %v s, less %v", size, got, last)
		}
		last = got
	}
	// Sixteen devices were not measured: the link's time and a latency.
	near(t, "16 devices", g.allReduce("vllm", 16, 450e6), 8e-6+2*15.0/16*450e6/(450e9*0.7), 1e-9)
}

// Touched experts and the time of reading them, worked by hand for Qwen3-235B in
// bf16 on 8 H200: 94 layers of 128 experts of 3 x 4096 x 1536.
func TestExpertsByHand(t *testing.T) {
	l := testLayout(t, "qwen3-235b-a22b", "h200", 8, BF16)
	l.EP = 1
	if err := l.check(); err != nil {
		t.Fatal(err)
	}
	r := NewRoofline(Builtin(), l)
	// One token touches exactly 8 experts: 8 x 18.87e6 x 2 B over 8 devices is 37.7 MB,
	// at 0.78 of 4.8 TB/s 10.08 us; a floor of 50 us; a router of 4096 x 128.
	expert := 3 * 4096 * 1536.0
	router := Builtin().gemm(l.GPU, BF16, "vllm").time(1, 128, 4096, 989e12, 4.8e12, 2, 2)
	small := 6 * 8 * 1536.0 / 8 / (0.55 * 4.8e12)
	acts := 8 * (2*2*4096 + 4*1536) / 8.0
	want := 94 * (50e-6 + (expert*2+acts)/(4.8e12*0.78) + router + small)
	near(t, "one token through the experts", r.moe(1), want, 1e-6)
	// 64 tokens touch 128 x (1 - (1 - 1/16)^64) = 125.9 of them.
	touched := 128 * (1 - math.Pow(1-8.0/128, 64))
	near(t, "touched by 64 tokens", touched, 125.94, 1e-3)
	router = Builtin().gemm(l.GPU, BF16, "vllm").time(64, 128, 4096, 989e12, 4.8e12, 2, 2)
	want = 94 * (50e-6 + (touched*expert*2/8+64*acts)/(4.8e12*0.78) + router + 64*small)
	near(t, "64 tokens through the experts", r.moe(64), want, 1e-6)
	// 8,192 tokens are bound by arithmetic: 2 x 8192 x 8 x 18.87e6 / 8 devices.
	flops := 2 * 8192 * 8 * expert / 8
	if got, floor := r.moe(8192), 94*flops/(989e12*0.4); got < floor || got > 1.5*floor {
		t.Errorf("8192 tokens take %v s, the arithmetic alone %v", got, floor)
	}
	// Eight groups of experts hold as many bytes per device, but reach less of the
	// bandwidth, and the slowest rank has more to do.
	ep := *l
	ep.EP = 8
	if err := ep.check(); err != nil {
		t.Fatal(err)
	}
	if a, b := NewRoofline(Builtin(), &ep), r; a.moe(64) <= b.moe(64) || a.moe(8192) <= b.moe(8192) {
		t.Error("eight groups of experts are no slower than one")
	}
}

// The latent of MLA is read once per token for all heads, on every device: 1,152
// bytes in bf16 per layer. At a large KV sum the bandwidth's cap bounds it.
func TestLatentAttentionByHand(t *testing.T) {
	l := testLayout(t, "deepseek-v3", "h200", 8, FP8)
	if err := l.check(); err != nil {
		t.Fatal(err)
	}
	if l.Precision != FP8Block {
		t.Errorf("fp8 of DeepSeek-V3 is %s, want fp8_block", l.Precision)
	}
	near(t, "bytes per token and layer", l.kvLayerBytes(), 1152, 1e-9)
	r := NewRoofline(Builtin(), l)
	kv := int64(4 << 20)
	memory := 61 * float64(kv) * 1152 / (4.8e12 * 0.89)
	flops := 61 * float64(kv) * 2 * 16 * 1088 / (989e12 * 0.6)
	near(t, "decoding", r.decodeAttention(&Batch{Decodes: 1000, KV: kv}), max(memory, flops), 0.01)
	// Without absorption a chunk multiplies 192 + 128 per head and pair.
	got := r.prefillAttention([]Chunk{{New: 8192}})
	near(t, "prefill", got, 61*2*16*320*8192*8192/2/(989e12*r.prefillMFU(8192)), 1e-6)
}

// Of sparse attention the index reads everything, the rest at most top-k tokens.
func TestSparseAttention(t *testing.T) {
	step := func(model string, context int64) float64 {
		l := testLayout(t, model, "b200", 8, FP8)
		if err := l.check(); err != nil {
			t.Fatal(err)
		}
		r := NewRoofline(Builtin(), l)
		b := &Batch{Decodes: 64, KV: 64 * context, Sampled: 64}
		if w := int64(r.Window()); w > 0 {
			b.Windowed = 64 * min(context, w)
		}
		return r.StepTime(b)
	}
	if dense, sparse := step("deepseek-v3", 100_000), step("deepseek-v3.2", 100_000); sparse > 0.8*dense {
		t.Errorf("at 100,000 tokens a step takes %.1f ms, sparse %.1f", dense/1e6, sparse/1e6)
	}
	if a, b := step("deepseek-v3.2", 10_000), step("deepseek-v3.2", 100_000); b < a {
		t.Errorf("sparse attention to more tokens is quicker: %v, %v", a, b)
	}
}

// A layer with a window costs no more at 100,000 tokens than at the window.
func TestWindowsAreFlat(t *testing.T) {
	l := testLayout(t, "gpt-oss-120b", "h100", 1, FP4)
	if err := l.check(); err != nil {
		t.Fatal(err)
	}
	r := NewRoofline(Builtin(), l)
	at := func(context int64) float64 {
		return r.decodeAttention(&Batch{Decodes: 32, KV: 32 * context, Windowed: 32 * min(context, 128)})
	}
	all := NewRoofline(Builtin(), func() *Layout {
		o := *l
		m := *l.Model
		m.Attention.Window, m.Attention.WindowLayers = 0, 0
		o.Model = &m
		return &o
	}())
	full := all.decodeAttention(&Batch{Decodes: 32, KV: 32 * 100_000})
	near(t, "attention at 100,000 tokens", at(100_000)-at(128)/2, full/2, 0.02)
}

// Every precision that a device has makes a memory-bound step of a large dense
// model faster by what its weights are smaller, at most.
func TestPrecisions(t *testing.T) {
	step := func(p Precision) float64 {
		l := testLayout(t, "llama-3.1-70b", "b200", 2, p)
		if err := l.check(); err != nil {
			t.Fatal(err)
		}
		return NewRoofline(Builtin(), l).StepTime(&Batch{Decodes: 1, KV: 1000, Sampled: 1})
	}
	bf16 := step(BF16)
	for p, share := range map[Precision]float64{FP8: 0.5, INT8: 0.5, FP4: 0.28, INT4: 0.26} {
		if got := step(p); got < bf16*share || got > bf16*0.99 {
			t.Errorf("%s: a step of %.2f ms, bf16 %.2f", p, got/1e6, bf16/1e6)
		}
	}
	// Weight-only is no quicker where arithmetic bounds the step.
	big := func(p Precision) float64 {
		l := testLayout(t, "llama-3.1-70b", "h100", 8, p)
		if err := l.check(); err != nil {
			t.Fatal(err)
		}
		return NewRoofline(Builtin(), l).StepTime(&Batch{Chunks: []Chunk{{New: 8192}}, Sampled: 1})
	}
	if a, b := big(BF16), big(INT4); b < a {
		t.Errorf("8192 tokens with 4-bit weights take %.1f ms, bf16 %.1f", b/1e6, a/1e6)
	}
	if a, b := big(BF16), big(FP8); b > a {
		t.Errorf("8192 tokens in fp8 take %.1f ms, bf16 %.1f", b/1e6, a/1e6)
	}
}

// A pipeline shares the weights and the memory but reads every layer's weights for
// each part of the batch.
func TestPipelineAndRanks(t *testing.T) {
	flat := testLayout(t, "llama-3.1-70b", "h100", 4, BF16)
	deep := testLayout(t, "llama-3.1-70b", "h100", 4, BF16)
	deep.PP = 2
	for _, l := range []*Layout{flat, deep} {
		if err := l.check(); err != nil {
			t.Fatal(err)
		}
	}
	a, err := flat.memory()
	if err != nil {
		t.Fatal(err)
	}
	b, err := deep.memory()
	if err != nil {
		t.Fatal(err)
	}
	if b.KVTokens < 2*a.KVTokens {
		t.Errorf("two stages hold %d tokens, one %d", b.KVTokens, a.KVTokens)
	}
	few := &Batch{Decodes: 64, KV: 64 * 1000, Sampled: 64}
	x, y := NewRoofline(Builtin(), flat), NewRoofline(Builtin(), deep)
	near(t, "a round of 64 tokens through two stages", y.StepTime(few), x.StepTime(few), 0.12)

	// Ranks attend to their own sequences: more memory for latents, which TP copies.
	tp := testLayout(t, "deepseek-v3", "h200", 8, FP8)
	dp := testLayout(t, "deepseek-v3", "h200", 1, FP8)
	dp.DP, dp.EP = 8, 8
	for _, l := range []*Layout{tp, dp} {
		l.MaxNumBatchedTokens = 2048
		if err := l.check(); err != nil {
			t.Fatal(err)
		}
	}
	if a, err = tp.memory(); err != nil {
		t.Fatal(err)
	}
	if b, err = dp.memory(); err != nil {
		t.Fatal(err)
	}
	if b.KVTokens < 2*a.KVTokens {
		t.Errorf("eight ranks hold %d tokens, one of eight devices %d", b.KVTokens, a.KVTokens)
	}
	load := &Batch{Decodes: 512, KV: 512 * 8000, Sampled: 512}
	if s, p := NewRoofline(Builtin(), tp).decodeAttention(load), NewRoofline(Builtin(), dp).decodeAttention(load); p > s/4 {
		t.Errorf("attention of eight ranks takes %.2f ms, of one %.2f", 1e3*p, 1e3*s)
	}
	// But no chunk is split over ranks.
	if s, p := NewRoofline(Builtin(), tp).prefillAttention([]Chunk{{New: 2048}}), NewRoofline(Builtin(), dp).prefillAttention([]Chunk{{New: 2048}}); p < 7*s {
		t.Errorf("a prompt's attention takes %.2f ms on one rank, %.2f on eight devices", 1e3*p, 1e3*s)
	}
}

func TestImpossibleParallelism(t *testing.T) {
	for _, tt := range []struct {
		model  string
		change func(*Layout)
		want   string
	}{
		{"llama-3.1-70b", func(l *Layout) { l.EP = 2 }, "ep 2: llama-3.1-70b has no experts"},
		{"llama-3.1-70b", func(l *Layout) { l.DP = 2 }, "dp 2: llama-3.1-70b has no experts for its ranks to share; use replicas"},
		{"llama-3.1-70b", func(l *Layout) { l.PP = 81 }, "pp 81: llama-3.1-70b has 80 layers"},
		{"llama-3.1-70b", func(l *Layout) { l.PP = -1 }, "pp -1: want at least 1"},
		{"mixtral-8x7b", func(l *Layout) { l.TP, l.EP = 4, 3 }, "ep 3 does not divide the 4 devices of tp x dp; use one of 1, 2, 4"},
		{"mixtral-8x7b", func(l *Layout) { l.TP, l.DP, l.EP = 8, 2, 16 }, "ep 16 does not divide the 8 experts of mixtral-8x7b"},
		{"qwen3-30b-a3b", func(l *Layout) { l.TP, l.DP = 4, 7 }, "the expert width 768 of qwen3-30b-a3b does not divide over 28 devices (tp x dp / ep); raise ep"},
		{"llama-3.1-8b", func(l *Layout) { l.Precision = FP4 }, "precision fp4: h100 has no fp4 arithmetic; use int4"},
	} {
		l := testLayout(t, tt.model, "h100", 1, BF16)
		tt.change(l)
		if err := l.check(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q in it", tt.model, err, tt.want)
		}
	}
}

// What devices say to each other, by hand: two all-reduces per layer and one more,
// and one message between two stages of a pipeline.
func TestCommunicationByHand(t *testing.T) {
	l := testLayout(t, "llama-3.1-8b", "h100", 2, BF16)
	if err := l.Check(); err != nil {
		t.Fatal(err)
	}
	slow := *l
	g := *l.GPU
	g.AllReduce = slices.Clone(g.AllReduce)
	for i := range g.AllReduce {
		row := slices.Clone(g.AllReduce[i].TP2)
		for j := range row {
			row[j] *= 2
		}
		g.AllReduce[i].TP2 = row
	}
	slow.GPU = &g
	const tokens = 1024 // 8 MB in bf16, a size of the table
	more := NewRoofline(Builtin(), &slow).at(tokens) - NewRoofline(Builtin(), l).at(tokens)
	near(t, "65 all-reduces of 1,024 tokens", more, 65*l.GPU.allReduce("vllm", 2, tokens*4096*2), 1e-9)

	l = testLayout(t, "llama-3.1-8b", "h100", 1, BF16)
	l.PP = 4
	if err := l.Check(); err != nil {
		t.Fatal(err)
	}
	slow, g = *l, *l.GPU
	g.Link.V /= 2
	slow.GPU = &g
	more = NewRoofline(Builtin(), &slow).at(4*tokens) - NewRoofline(Builtin(), l).at(4*tokens)
	// A round has a quarter of the tokens in each of four stages, three messages of 8 MiB
	// at 0.78 of 450 GB/s.
	near(t, "three messages between stages", more, 3*tokens*4096*2/(450e9*0.78), 1e-9)
}

// Power is what the documentation says: 0.29 and 0.66 times the memory's activity of
// the device's, and what the tensor cores do, at most all of it.
func TestPowerByHand(t *testing.T) {
	g, err := Builtin().GPU("h100")
	if err != nil {
		t.Fatal(err)
	}
	half := Work{ReadBytes: 3.35e12 * 0.4, WriteBytes: 3.35e12 * 0.1, Tensor: 0.02}
	near(t, "at half the bandwidth", g.power(&half, 1), 700*(0.29+0.66*0.5+0.02*tensorPower), 1e-9)
	near(t, "in twice the time", g.power(&half, 2), 700*(0.29+0.66*0.25+0.01*tensorPower), 1e-9)
	if tensorPower != 1 {
		t.Errorf("the tensor cores' share is %v, the documentation says all of their activity", tensorPower)
	}
}
