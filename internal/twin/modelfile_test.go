package twin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The shapes of published configurations, and the entry of the catalogue that each
// must give.
var configs = map[string]string{
	"llama-3.1-8b": `{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
		"num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072, "tie_word_embeddings": false}`,
	"qwen3-0.6b": `{"model_type": "qwen3", "num_hidden_layers": 28, "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
		"intermediate_size": 3072, "vocab_size": 151936, "max_position_embeddings": 40960, "tie_word_embeddings": true, "sliding_window": null, "use_sliding_window": false}`,
	"qwen2.5-7b": `{"model_type": "qwen2", "num_hidden_layers": 28, "hidden_size": 3584, "num_attention_heads": 28, "num_key_value_heads": 4,
		"intermediate_size": 18944, "vocab_size": 152064, "max_position_embeddings": 32768, "sliding_window": 131072, "use_sliding_window": false, "tie_word_embeddings": false}`,
	"gemma-3-27b": `{"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "text_config": {"model_type": "gemma3_text", "num_hidden_layers": 62,
		"hidden_size": 5376, "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "intermediate_size": 21504, "vocab_size": 262208,
		"max_position_embeddings": 131072, "sliding_window": 1024}}`,
	"mixtral-8x7b": `{"model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
		"num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000, "max_position_embeddings": 32768, "sliding_window": null}`,
	"qwen3-30b-a3b": `{"model_type": "qwen3_moe", "num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
		"intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [],
		"vocab_size": 151936, "max_position_embeddings": 40960, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}`,
	"gpt-oss-120b": `{"model_type": "gpt_oss", "num_hidden_layers": 36, "hidden_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
		"intermediate_size": 2880, "num_local_experts": 128, "num_experts_per_tok": 4, "sliding_window": 128, "vocab_size": 201088, "max_position_embeddings": 131072,
		"layer_types": [` + strings.Repeat(`"sliding_attention", "full_attention", `, 17) + `"sliding_attention", "full_attention"]}`,
	"deepseek-v3": `{"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128, "num_key_value_heads": 128,
		"q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048,
		"n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "moe_layer_freq": 1, "vocab_size": 129280,
		"max_position_embeddings": 163840, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}`,
	"deepseek-v3.2": `{"model_type": "deepseek_v32", "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512,
		"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048, "intermediate_size": 18432,
		"moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "vocab_size": 129280,
		"max_position_embeddings": 163840, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}`,
	"llama-4-scout": `{"model_type": "llama4", "architectures": ["Llama4ForConditionalGeneration"], "text_config": {"model_type": "llama4_text", "num_hidden_layers": 48,
		"hidden_size": 5120, "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
		"num_local_experts": 16, "num_experts_per_tok": 1, "interleave_moe_layer_step": 1, "attention_chunk_size": 8192, "vocab_size": 202048, "max_position_embeddings": 10485760}}`,
	"llama-4-maverick": `{"model_type": "llama4", "text_config": {"model_type": "llama4_text", "num_hidden_layers": 48, "hidden_size": 5120, "num_attention_heads": 40,
		"num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 8192, "intermediate_size_mlp": 16384, "num_local_experts": 128, "num_experts_per_tok": 1,
		"interleave_moe_layer_step": 2, "attention_chunk_size": 8192, "vocab_size": 202048, "max_position_embeddings": 1048576}}`,
	"mimo-v2-flash": `{"model_type": "mimo_v2_flash", "num_hidden_layers": 48, "hidden_size": 4096, "num_attention_heads": 64, "num_key_value_heads": 4, "swa_num_key_value_heads": 8,
		"head_dim": 192, "v_head_dim": 128, "intermediate_size": 16384, "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": null, "num_experts_per_tok": 8,
		"sliding_window": 128, "hybrid_layer_pattern": [0` + strings.Repeat(", 1", 39) + strings.Repeat(", 0", 8) + `], "moe_layer_freq": [0` + strings.Repeat(", 1", 47) + `],
		"vocab_size": 152576, "max_position_embeddings": 262144, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}`,
}

func TestConfigsOfModels(t *testing.T) {
	for name, config := range configs {
		want, err := Builtin().Model(name)
		if err != nil {
			t.Fatal(err)
		}
		folder := filepath.Join(t.TempDir(), "My-Model")
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "config.json"), []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{folder, filepath.Join(folder, "config.json")} {
			got, err := Builtin().Model(path)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if got.Name != "My-Model" {
				t.Errorf("%s: the model of folder My-Model is named %q", name, got.Name)
			}
			got.Name, got.ID, got.Aliases, got.Source, got.Conf = want.Name, want.ID, want.Aliases, want.Source, want.Conf
			// What a file of bf16 weights does not say.
			got.BlockFP8, got.Checkpoint = want.BlockFP8, want.Checkpoint
			if got.Attention.Kind == MLA {
				got.Attention.KVHeads = 0
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s (-catalogue +config):\n%s", name, d)
			}
		}
	}
	m, err := parseConfig([]byte(configs["deepseek-v3"]))
	if err != nil || !m.BlockFP8 || m.Checkpoint != FP8 {
		t.Errorf("fp8 by block: %v, %v", m, err)
	}
}

// The class says what a file without model_type is of.
func TestConfigWithoutType(t *testing.T) {
	for class, want := range map[string]string{
		"LlamaForCausalLM": "llama", "Qwen3MoeForCausalLM": "qwen3_moe", "DeepseekV3ForCausalLM": "deepseek_v3", "GptOssForCausalLM": "gpt_oss",
		"Gemma3ForConditionalGeneration": "gemma3", "MambaForCausalLM": "", "": "",
	} {
		if got := kindOf(class); got != want {
			t.Errorf("%s: %q, want %q", class, got, want)
		}
	}
	m, err := parseConfig([]byte(`{"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192}`))
	if err != nil || m.Attention.KVHeads != 8 || m.Context != 8192 {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestConfigsThatCannotBeModelled(t *testing.T) {
	for config, want := range map[string]string{
		`{"model_type": "mamba", "architectures": ["MambaForCausalLM"], "num_hidden_layers": 48, "hidden_size": 1536, "vocab_size": 50280}`:                                        "architecture mamba (MambaForCausalLM): no step model for it, and the file has no num_attention_heads, max_position_embeddings, intermediate_size; known are cohere",
		`{"model_type": "bert2", "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100, "max_position_embeddings": 512, "intermediate_size": 64}`: "architecture bert2: no step model for it; known are",
		`{"model_type": "llama", "num_hidden_layers": 32}`: "architecture llama: the file has no hidden_size, num_attention_heads, vocab_size, max_position_embeddings, intermediate_size",
		`{"model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128, "vocab_size": 129280, "max_position_embeddings": 163840, "intermediate_size": 18432}`:                    "the file has no kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim, num_experts (or n_routed_experts, num_local_experts), num_experts_per_tok",
		`{"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 5, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072}`: "32 attention heads do not divide over 5 KV heads",
		`{"model_type": "qwen3_next", "architectures": ["Qwen3NextForCausalLM"], "full_attention_interval": 4}`:                                                                                                           "architecture qwen3_next (Qwen3NextForCausalLM): the file has full_attention_interval, and there is no step model for layers of linear attention or of state spaces",
		`{"model_type": "jamba", "attn_layer_period": 8, "num_hidden_layers": 32}`:                                                                                                                                        "the file has attn_layer_period, and there is no step model",
		`{"model_type": "llama", "num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"]}`:                                                                                                          `layers of kind "linear_attention" (layer_types)`,
		`{"model_type": "minimax_m2", "num_hidden_layers": 2, "attn_type_list": [1, 0]}`:                                                                                                                                  "linear attention in layer 1 (attn_type_list)",
		`{"model_type": "qwen3_vl", "text_config": {"model_type": "qwen3", "num_hidden_layers": 2, "linear_num_value_heads": 32}}`:                                                                                        "the file has linear_num_value_heads",
		`{"model_type": "gemma3_text", "num_hidden_layers": 3, "sliding_window": 512, "layer_types": ["sliding_attention"]}`:                                                                                              "layer_types has 1 entries for num_hidden_layers 3",
		`{}`:                            "architecture ?",
		`{"a`:                           "parse config.json",
		`{"num_hidden_layers": "many"}`: "parse config.json",
	} {
		if _, err := parseConfig([]byte(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q in it", config, err, want)
		}
	}
}

func TestFilesOfTheUser(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	model := write("own.yaml", `models:
  - name: own-3b
    layers: 28
    hidden: 3072
    attention: {kind: gqa, heads: 24, kv_heads: 8, head_dim: 128}
    ffn: {kind: swiglu, width: 8192}
    vocab: 128256
    tied: true
    context: 8192
`)
	gpu := write("gpu.yaml", `gpus:
  - name: own-chip
    bf16_tflops: {v: 500}
    memory_gib: {v: 64}
    bandwidth_tbs: {v: 2}
    gemm:
      - {precision: bf16, ec: 0.7, em: 0.8, t0_us: 5, p: 3}
`)
	c, err := NewCluster(ClusterConfig{Model: model, GPU: gpu})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "parameters", c.Model.Params(), 3.21e9, 0.005)
	if c.Layout.GPU.Link.V != 32 || c.Context != 8192 {
		t.Errorf("link %v, context %d", c.Layout.GPU.Link, c.Context)
	}
	for text, want := range map[string]string{
		"gpus:\n  - name: x\n    bf16_tflops: {v: 500}\n": "memory_gib, bandwidth_tbs must be given and above 0",
		"gpus: []\n": "0 entries under gpus; want one",
		"gpus:\n  - name: x\n    bf16_tflop: {v: 500}\n": "gpus[0].bf16_tflop: unknown field",
		"gpus:\n  - name: x\n    bf16_tflops: {v: 1}\n    memory_gib: {v: 1}\n    bandwidth_tbs: {v: 1}\n    gemm:\n      - {precision: bf16, ec: 7}\n": "want ec and em in (0, 1]",
	} {
		if _, err := Builtin().GPU(write("bad.yaml", text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"models:\n  - name: x\n    layers: 4\n":                                                      "no step model for attention",
		"models:\n  - name: x\n    layers: 4\n    attention: {kind: gqa}\n    ffn: {kind: swiglu}\n": "hidden, vocab, context, attention.heads, attention.head_dim, attention.kv_heads, ffn.width must be given and above 0",
	} {
		if _, err := Builtin().Model(write("bad.yaml", text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", text, err, want)
		}
	}
	if _, err := Builtin().Model("./nowhere"); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func FuzzConfig(f *testing.F) {
	for _, c := range configs {
		f.Add([]byte(c))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseConfig(data)
		if err != nil {
			return
		}
		if m.Params() <= 0 || m.ActiveParams() > 1e21 {
			t.Errorf("%v parameters from %s", m.Params(), data)
		}
	})
}
