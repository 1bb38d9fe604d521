package twin

import (
	"math"
	"testing"
)

// The survey's table of architectures: published totals where they are known, else
// the survey's own sums, in 1e9; parameters that a token meets; and KiB of keys and
// values per token in bf16 over all layers.
func TestModelSizes(t *testing.T) {
	tests := []struct {
		model             string
		total, active, kv float64
	}{
		{"llama-3.1-8b", 8.03, 7.5, 128},
		{"llama-3.1-70b", 70.6, 69.5, 320},
		{"llama-3.1-405b", 405.9, 403.7, 504},
		{"qwen3-0.6b", 0.6, 0.6, 112},
		{"qwen3-8b", 8.2, 7.6, 144},
		{"qwen3-32b", 32.8, 32.0, 256},
		{"qwen3-14b", 14.8, 14.0, 160},
		{"qwen3-4b", 4.0, 4.0, 144},
		{"mistral-small-24b", 23.6, 22.9, 160},
		{"gemma-3-27b", 27.0, 27.0, 496},
		{"gemma-3-12b", 11.8, 11.8, 384},
		{"gemma-3-4b", 3.9, 3.9, 136},
		{"llama-2-7b", 6.74, 6.6, 512},
		{"llama-2-70b", 69, 68.7, 320},
		{"llama-3.2-1b", 1.24, 1.24, 32},
		{"llama-3.2-3b", 3.21, 3.21, 112},
		{"mistral-7b", 7.25, 7.1, 128},
		{"mistral-nemo-12b", 12.2, 11.6, 160},
		{"codellama-34b", 33.7, 33.5, 192},
		{"yi-34b", 34.4, 33.9, 240},
		{"qwen2.5-7b", 7.61, 7.1, 56},
		{"qwen2.5-14b", 14.8, 14.0, 192},
		{"qwen2.5-32b", 32.8, 32.0, 256},
		{"qwen2.5-72b", 72.7, 71.5, 320},
		{"qwen3-30b-a3b", 30.5, 3.0, 96},
		{"qwen3-235b-a22b", 235, 21.6, 188},
		{"qwen3-coder-480b-a35b", 480, 34.5, 248},
		{"mixtral-8x7b", 46.7, 12.7, 128},
		{"mixtral-8x22b", 141, 39.0, 224},
		{"gpt-oss-20b", 20.9, 3.6, 48},
		{"gpt-oss-120b", 116.8, 5.1, 72},
		{"deepseek-v3", 671, 36.6, 68.6},
		{"deepseek-v3.2", 671.9, 37.5, 68.6},
		{"kimi-k2", 1026, 31.7, 68.6},
		{"glm-5", 743.9, 40.8, 87.8},
		{"minimax-m2.5", 228.7, 10.4, 248},
		{"minimax-m3", 425.9, 24.5, 120},
		// The survey's 14.6 leaves out that layers with a window have 8 KV heads.
		{"mimo-v2-flash", 308.6, 14.8, 0},
		{"step-3.7-flash", 195.8, 10.3, 180},
		{"llama-4-scout", 107.8, 16.1, 192},
		{"llama-4-maverick", 400.7, 16.1, 192},
		{"glm-4.5", 352.8, 32.9, 368},
		{"glm-4.5-air", 106.9, 12.8, 184},
	}
	// within 0.5 %, or what the table's rounding hides.
	within := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > max(0.005*want, 0.051) {
			t.Errorf("%s: %.4g, the table has %.4g", what, got, want)
		}
	}
	known := map[string]bool{}
	for _, tt := range tests {
		known[tt.model] = true
		l := testLayout(t, tt.model, "b300", 1, BF16)
		m := l.Model
		within(tt.model+" parameters", m.Params()/1e9, tt.total)
		within(tt.model+" active parameters", m.ActiveParams()/1e9, tt.active)
		if tt.kv > 0 {
			a := &m.Attention
			full := l.kvLayerBytes() - float64(a.indexBytes())
			within(tt.model+" KV", (float64(m.Layers-a.WindowLayers)*full+float64(a.WindowLayers)*l.windowBytes())/1024, tt.kv)
		}
	}
	for i := range Builtin().Models {
		if m := &Builtin().Models[i]; !known[m.Name] {
			t.Errorf("%s is in the catalogue, but not in this table", m.Name)
		}
	}
	if n := len(Builtin().GPUs); n < 20 {
		t.Errorf("%d accelerators, want 20", n)
	}
}

// Layers of MiMo-V2-Flash that see everything have 4 KV heads of 192 + 128, those
// with a window 8: 22.5 KiB per token grow with the context.
func TestKVOfMixedLayers(t *testing.T) {
	l := testLayout(t, "mimo-v2-flash", "b300", 1, BF16)
	near(t, "KV that grows", 9*l.kvLayerBytes()/1024, 22.5, 1e-9)
	near(t, "KV in the window", l.windowBytes(), 2*l.kvLayerBytes(), 1e-9)
	l = testLayout(t, "gpt-oss-120b", "h100", 1, FP4)
	near(t, "KV that grows", 18*l.kvLayerBytes()/1024, 36, 1e-9)
	near(t, "KV of a full window in MiB", 18*128*l.windowBytes()/(1<<20), 4.5, 1e-9)
}
