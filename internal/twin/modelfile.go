package twin

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"plimsoll/internal/infile"
	"plimsoll/internal/strictyaml"
)

// maxModelFile bounds a file that describes a model or a device.
const maxModelFile = 4 << 20

// userSource is the source of values from the user's own files.
const userSource = "user"

// fileOf returns the file that a name means, when it means one: a path that ends
// like one or begins like one, or a folder with a config.json.
func fileOf(name string) (string, bool) {
	low := strings.ToLower(name)
	for _, end := range []string{".json", ".yaml", ".yml"} {
		if strings.HasSuffix(low, end) {
			return name, true
		}
	}
	if fi, err := os.Stat(name); err == nil && fi.IsDir() {
		config := filepath.Join(name, "config.json")
		if _, err := os.Stat(config); err == nil || isPath(name) {
			return config, true
		}
	}
	return name, isPath(name)
}

func isPath(name string) bool {
	for _, p := range []string{"./", "../", "/"} {
		if strings.HasPrefix(filepath.ToSlash(name), p) {
			return true
		}
	}
	return false
}

func readSmall(file string) ([]byte, error) { return infile.Read(file, maxModelFile, nil) }

// readModel reads a model from the user's file: a config.json of Hugging Face, or
// YAML in the form of the catalogue with one model.
func readModel(file string) (*Model, error) {
	data, err := readSmall(file)
	if err != nil {
		return nil, fmt.Errorf("read model: %w", err)
	}
	if strings.HasSuffix(strings.ToLower(file), ".json") {
		m, err := parseConfig(data)
		if err != nil {
			return nil, fmt.Errorf("read model %s: %w", file, err)
		}
		if m.Name == "" {
			m.Name = filepath.Base(filepath.Dir(file))
			if m.Name == "." || m.Name == string(filepath.Separator) {
				m.Name = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
			}
			m.ID = m.Name
		}
		return m, nil
	}
	var own struct {
		Sources map[string]string `yaml:"sources"`
		Models  []Model           `yaml:"models"`
	}
	if err := strictyaml.Unmarshal(file, data, &own); err != nil {
		return nil, err
	}
	if len(own.Models) != 1 {
		return nil, fmt.Errorf("read model %s: %d entries under models; want one", file, len(own.Models))
	}
	m := &own.Models[0]
	if m.Name == "" {
		return nil, fmt.Errorf("read model %s: the model has no name", file)
	}
	if m.ID == "" {
		m.ID = m.Name
	}
	m.Source, m.Conf = userSource, orMedium(m.Conf)
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("read model %s: %w", file, err)
	}
	return m, nil
}

func orMedium(c Confidence) Confidence {
	if c == "" {
		return Medium
	}
	return c
}

// readGPU reads a device from the user's YAML file, in the form of the catalogue
// with one device. What it must have is arithmetic, memory and bandwidth.
func readGPU(file string) (*GPU, error) {
	data, err := readSmall(file)
	if err != nil {
		return nil, fmt.Errorf("read gpu: %w", err)
	}
	var own struct {
		Sources map[string]string `yaml:"sources"`
		GPUs    []GPU             `yaml:"gpus"`
	}
	if err := strictyaml.Unmarshal(file, data, &own); err != nil {
		return nil, err
	}
	if len(own.GPUs) != 1 {
		return nil, fmt.Errorf("read gpu %s: %d entries under gpus; want one", file, len(own.GPUs))
	}
	g := &own.GPUs[0]
	if g.Name == "" {
		return nil, fmt.Errorf("read gpu %s: the device has no name", file)
	}
	if g.Domain.V == 0 {
		g.Domain.V = 1
	}
	if g.Link.V == 0 {
		g.Link.V = 32 // PCIe 4
		g.Link.Conf = Low
	}
	var bad []string
	for _, v := range []struct {
		name string
		v    *Value
		need bool
	}{
		{"bf16_tflops", &g.BF16, true},
		{"memory_gib", &g.MemoryGiB, true},
		{"bandwidth_tbs", &g.Bandwidth, true},
		{"fp8_tflops", &g.FP8, false},
		{"fp4_tflops", &g.FP4, false},
		{"link_gbs", &g.Link, false},
		{"domain", &g.Domain, false},
		{"tdp_w", &g.TDP, false},
	} {
		if !(v.v.V >= 0 && v.v.V < 1e9) || v.need && v.v.V == 0 {
			bad = append(bad, v.name)
		}
		v.v.Source, v.v.Conf = userSource, orMedium(v.v.Conf)
	}
	if len(bad) > 0 {
		return nil, fmt.Errorf("read gpu %s: %s must be given and above 0", file, strings.Join(bad, ", "))
	}
	if err := g.checkKernels(); err != nil {
		return nil, fmt.Errorf("read gpu %s: %w", file, err)
	}
	return g, nil
}

// checkKernels returns what is wrong with a device's own constants, and gives them
// a source.
func (g *GPU) checkKernels() error {
	share := func(x float64) bool { return x > 0 && x <= 1 }
	for i := range g.GEMM {
		f := &g.GEMM[i]
		f.Source, f.Conf = userSource, orMedium(f.Conf)
		if _, err := ParsePrecision(string(f.Precision)); err != nil {
			return fmt.Errorf("gemm: %w", err)
		}
		if !share(f.EC) || !share(f.EM) || !(f.T0us >= 0 && f.T0us < 1e6) || !(f.P >= 1 && f.P <= 100) {
			return fmt.Errorf("gemm %s: want ec and em in (0, 1], t0_us of 0 or more, p from 1 to 100", f.Precision)
		}
	}
	if a := g.Attention; a != nil {
		a.MFU.Source, a.MFU.Conf = userSource, orMedium(a.MFU.Conf)
		a.DecodeFloorUS.Source, a.DecodeFloorUS.Conf = userSource, orMedium(a.DecodeFloorUS.Conf)
		if len(a.MFU.V) != len(prefillContexts) || !slices.ContainsFunc(a.MFU.V, share) || slices.ContainsFunc(a.MFU.V, func(x float64) bool { return !share(x) }) {
			return fmt.Errorf("attention.mfu: want %d shares in (0, 1]", len(prefillContexts))
		}
		if !(a.DecodeFloorUS.V >= 0 && a.DecodeFloorUS.V < 1e6) {
			return errors.New("attention.decode_floor_us: want 0 or more")
		}
	}
	if m := g.MoE; m != nil {
		if !share(m.EC.V) || !share(m.EM.V) || !share(m.EMep8.V) || !(m.T0us.V >= 0 && m.T0us.V < 1e6) || len(m.Imbalance.V) != 3 ||
			slices.ContainsFunc(m.Imbalance.V, func(x float64) bool { return !(x >= 1 && x < 1000) }) {
			return errors.New("moe: want ec, em and em_ep8 in (0, 1], t0_us of 0 or more, and three imbalances of 1 or more")
		}
	}
	for i := range g.AllReduce {
		a := &g.AllReduce[i]
		a.Source, a.Conf = userSource, orMedium(a.Conf)
		for _, row := range [][]float64{a.TP2, a.TP4, a.TP8} {
			if len(row) != 0 && len(row) != len(allReduceBytes) || slices.ContainsFunc(row, func(x float64) bool { return !(x > 0 && x < 1e9) }) {
				return fmt.Errorf("allreduce: want %d times above 0 per row", len(allReduceBytes))
			}
		}
	}
	return nil
}

// architecture is what is particular to the models of one model_type.
type architecture struct {
	mla, moe bool
	tied     bool // unless the file says otherwise
}

// architectures are the values of model_type that there is a step model for.
var architectures = map[string]architecture{
	"llama": {}, "mistral": {}, "ministral": {}, "mistral3": {}, "qwen2": {}, "qwen3": {}, "phi3": {}, "granite": {}, "olmo2": {}, "olmo3": {},
	"glm4": {}, "smollm3": {}, "exaone": {}, "exaone4": {}, "seed_oss": {}, "internlm3": {},
	"gemma": {tied: true}, "gemma2": {tied: true}, "gemma3": {tied: true}, "gemma3_text": {tied: true}, "cohere": {tied: true}, "cohere2": {tied: true},
	"mixtral": {moe: true}, "qwen2_moe": {moe: true}, "qwen3_moe": {moe: true}, "gpt_oss": {moe: true}, "glm4_moe": {moe: true}, "olmoe": {moe: true},
	"minimax_m2": {moe: true}, "minimax_m3": {moe: true}, "llama4": {moe: true}, "llama4_text": {moe: true}, "mimo_v2_flash": {moe: true},
	"step3p5": {moe: true}, "dots1": {moe: true}, "ernie4_5_moe": {moe: true}, "granitemoe": {moe: true},
	"deepseek_v2": {mla: true, moe: true}, "deepseek_v3": {mla: true, moe: true}, "deepseek_v32": {mla: true, moe: true},
	"kimi_k2": {mla: true, moe: true}, "kimi_k25": {mla: true, moe: true}, "glm_moe_dsa": {mla: true, moe: true},
}

// hfConfig are the fields of a config.json that a step model needs, under all
// their names.
type hfConfig struct {
	ModelType     string    `json:"model_type"`
	Architectures []string  `json:"architectures"`
	Name          string    `json:"_name_or_path"`
	Text          *hfConfig `json:"text_config"`

	Layers  int   `json:"num_hidden_layers"`
	Hidden  int   `json:"hidden_size"`
	Heads   int   `json:"num_attention_heads"`
	KVHeads int   `json:"num_key_value_heads"`
	HeadDim int   `json:"head_dim"`
	Width   int   `json:"intermediate_size"`
	Vocab   int   `json:"vocab_size"`
	Context int   `json:"max_position_embeddings"`
	Tied    *bool `json:"tie_word_embeddings"`

	Window        *int     `json:"sliding_window"`
	ChunkSize     int      `json:"attention_chunk_size"`
	UseWindow     *bool    `json:"use_sliding_window"`
	WindowPattern int      `json:"sliding_window_pattern"`
	LayerTypes    []string `json:"layer_types"`
	// MiMo says it layer by layer, with its own heads.
	HybridPattern []int `json:"hybrid_layer_pattern"`
	WindowKVHeads int   `json:"swa_num_key_value_heads"`
	NoRopeLayers  []int `json:"no_rope_layers"`
	// AttnTypes has a 0 for layers of linear attention (MiniMax).
	AttnTypes []int `json:"attn_type_list"`

	QueryRank  int `json:"q_lora_rank"`
	KVRank     int `json:"kv_lora_rank"`
	NopeDim    int `json:"qk_nope_head_dim"`
	RopeDim    int `json:"qk_rope_head_dim"`
	ValueDim   int `json:"v_head_dim"`
	IndexHeads int `json:"index_n_heads"`
	IndexDim   int `json:"index_head_dim"`
	TopK       int `json:"index_topk"`

	NumExperts    int             `json:"num_experts"`
	RoutedExperts int             `json:"n_routed_experts"`
	LocalExperts  int             `json:"num_local_experts"`
	Active        int             `json:"num_experts_per_tok"`
	ExpertWidth   int             `json:"moe_intermediate_size"`
	Shared        *int            `json:"n_shared_experts"`
	SharedToo     int             `json:"num_shared_experts"`
	SharedWidth   int             `json:"shared_expert_intermediate_size"`
	FirstDense    int             `json:"first_k_dense_replace"`
	SparseStep    int             `json:"decoder_sparse_step"`
	DenseOnly     []int           `json:"mlp_only_layers"`
	LayerFreq     json.RawMessage `json:"moe_layer_freq"`
	Interleave    int             `json:"interleave_moe_layer_step"`
	DenseWidth    int             `json:"intermediate_size_mlp"`

	Quantization *struct {
		Method string `json:"quant_method"`
		Block  []int  `json:"weight_block_size"`
	} `json:"quantization_config"`
}

// kindOf returns the model_type of the class that a config.json without one names,
// "" for none that is known: LlamaForCausalLM is llama.
func kindOf(class string) string {
	class, _, _ = strings.Cut(strings.ToLower(class), "for")
	for kind := range architectures {
		if strings.ReplaceAll(kind, "_", "") == class {
			return kind
		}
	}
	return ""
}

// parseConfig makes a model of a config.json of Hugging Face.
func parseConfig(data []byte) (*Model, error) {
	var c hfConfig
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("parse config.json: %w", err)
	}
	outer := c
	kind := c.ModelType
	if c.Text != nil && c.Layers == 0 {
		// A model of several media: the language part is inside.
		c = *c.Text
		if _, ok := architectures[c.ModelType]; ok {
			kind = c.ModelType
		}
		if c.Tied == nil {
			c.Tied = outer.Tied
		}
		if c.Quantization == nil {
			c.Quantization = outer.Quantization
		}
	}
	if kind == "" && len(outer.Architectures) > 0 {
		kind = kindOf(outer.Architectures[0])
		c.ModelType = kind
	}
	f, known := architectures[kind]
	name := kind
	if name == "" {
		name = "?"
	}
	if len(outer.Architectures) > 0 {
		name += " (" + outer.Architectures[0] + ")"
	}
	m := &Model{Name: plainName(outer.Name), ID: outer.Name, Source: userSource, Conf: High}
	m.Layers, m.Hidden, m.Vocab, m.Context = c.Layers, c.Hidden, c.Vocab, c.Context
	m.Tied = f.tied
	if c.Tied != nil {
		m.Tied = *c.Tied
	}
	a := &m.Attention
	a.Heads = c.Heads
	if f.mla {
		a.Kind = MLA
		a.HeadDim, a.RopeDim, a.ValueDim = c.NopeDim, c.RopeDim, c.ValueDim
		a.QueryRank, a.KVRank = c.QueryRank, c.KVRank
		a.IndexHeads, a.IndexDim, a.TopK = c.IndexHeads, c.IndexDim, c.TopK
	} else {
		a.Kind = GQA
		a.KVHeads, a.HeadDim = c.KVHeads, c.HeadDim
		if a.KVHeads == 0 {
			a.KVHeads = c.Heads // as the library does
		}
		if a.HeadDim == 0 && c.Heads > 0 {
			a.HeadDim = c.Hidden / c.Heads
		}
		if c.ValueDim != a.HeadDim {
			a.ValueDim = c.ValueDim
		}
		c.windows(a)
	}
	c.feedForward(m, f.moe)
	if q := c.Quantization; q != nil {
		m.BlockFP8 = q.Method == "fp8" && len(q.Block) > 0
		// A method that is no precision's name (compressed-tensors, modelopt) does not
		// say how many bits there are.
		if p := precisionNames[q.Method]; p != BF16 {
			m.Checkpoint = p
		}
	}
	m.ExpertsOnly = kind == "gpt_oss" || kind == "kimi_k2" || kind == "kimi_k25"

	missing := c.missing(f, m)
	strange, err := c.strangeLayers(data)
	if err != nil {
		return nil, fmt.Errorf("architecture %s: %w", name, err)
	}
	switch {
	case strange != "":
		return nil, fmt.Errorf("architecture %s: the file has %s, and there is no step model for layers of linear attention or of state spaces; known are %s", name, strange, knownArchitectures())
	case !known && len(missing) > 0:
		return nil, fmt.Errorf("architecture %s: no step model for it, and the file has no %s; known are %s", name, strings.Join(missing, ", "), knownArchitectures())
	case !known:
		return nil, fmt.Errorf("architecture %s: no step model for it; known are %s. If it is like one of them, describe it in YAML as docs/twin-model.md says", name, knownArchitectures())
	case len(missing) > 0:
		return nil, fmt.Errorf("architecture %s: the file has no %s", name, strings.Join(missing, ", "))
	}
	if m.Name == "" {
		// Errors of check should not name a model that has no name yet.
		m.Name = kind
		defer func() { m.Name = "" }()
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	return m, nil
}

func knownArchitectures() string { return strings.Join(slices.Sorted(maps.Keys(architectures)), ", ") }

// missing names the fields without which there is no step time.
func (c *hfConfig) missing(f architecture, m *Model) []string {
	var missing []string
	need := func(name string, n int) {
		if n <= 0 {
			missing = append(missing, name)
		}
	}
	need("num_hidden_layers", c.Layers)
	need("hidden_size", c.Hidden)
	need("num_attention_heads", c.Heads)
	need("vocab_size", c.Vocab)
	need("max_position_embeddings", c.Context)
	if f.mla {
		need("kv_lora_rank", c.KVRank)
		need("qk_nope_head_dim", c.NopeDim)
		need("qk_rope_head_dim", c.RopeDim)
		need("v_head_dim", c.ValueDim)
	}
	if f.moe {
		need("num_experts (or n_routed_experts, num_local_experts)", m.FFN.Experts)
		need("num_experts_per_tok", m.FFN.Active)
		need("moe_intermediate_size (or intermediate_size)", m.FFN.ExpertWidth)
	} else {
		need("intermediate_size", c.Width)
	}
	return missing
}

// stateFields are fields of models some of whose layers keep a state of fixed size
// instead of keys and values (Qwen3-Next, Jamba, Nemotron-H, Kimi Linear, MiniMax-01,
// Falcon-H1, Mamba): the step model would take all for attention.
var stateFields = []string{
	"attn_layer_period", "full_attention_interval", "hybrid_override_pattern", "layers_block_type", "linear_attn_config", "linear_num_key_heads",
	"linear_num_value_heads", "mamba_d_state", "mamba_d_ssm", "mamba_num_heads", "ssm_cfg", "ssm_state_size", "state_size", "rnn_state_size",
}

// strangeLayers names what says that some layers are none that there is a step model
// for. The error is of a list of layers that has not one kind for each.
func (c *hfConfig) strangeLayers(data []byte) (string, error) {
	var all struct {
		Fields map[string]json.RawMessage `json:"text_config"`
	}
	var outer map[string]json.RawMessage
	_ = json.Unmarshal(data, &outer) // it was read before
	_ = json.Unmarshal(data, &all)
	for _, name := range stateFields {
		for _, fields := range []map[string]json.RawMessage{outer, all.Fields} {
			if v, ok := fields[name]; ok && string(v) != "null" {
				return name, nil
			}
		}
	}
	if i := slices.Index(c.AttnTypes, 0); i >= 0 {
		return fmt.Sprintf("linear attention in layer %d (attn_type_list)", i), nil
	}
	for _, kind := range c.LayerTypes {
		if !slices.Contains([]string{"full_attention", "sliding_attention", "chunked_attention", "attention"}, kind) {
			return fmt.Sprintf("layers of kind %q (layer_types)", kind), nil
		}
	}
	for _, list := range []struct {
		name string
		n    int
	}{{"layer_types", len(c.LayerTypes)}, {"hybrid_layer_pattern", len(c.HybridPattern)}, {"attn_type_list", len(c.AttnTypes)}} {
		if list.n != 0 && c.Layers > 0 && list.n != c.Layers {
			return "", fmt.Errorf("%s has %d entries for num_hidden_layers %d", list.name, list.n, c.Layers)
		}
	}
	return "", nil
}

// windows finds the layers that see only a window.
func (c *hfConfig) windows(a *ModelAttention) {
	window := 0
	if c.Window != nil {
		window = *c.Window
	}
	if c.UseWindow != nil && !*c.UseWindow {
		window = 0
	}
	sliding := func(layers int) {
		if window > 0 && layers > 0 {
			a.Window, a.WindowLayers = window, layers
		}
	}
	count := func(kind string) (n int) {
		for _, t := range c.LayerTypes {
			if t == kind {
				n++
			}
		}
		return n
	}
	switch {
	case len(c.HybridPattern) > 0:
		n := 0
		for _, x := range c.HybridPattern {
			n += min(max(x, 0), 1)
		}
		sliding(n)
		if c.WindowKVHeads != a.KVHeads {
			a.WindowKVHeads = c.WindowKVHeads
		}
	case c.ChunkSize > 0:
		n := count("chunked_attention")
		if n == 0 {
			// Every fourth layer sees everything.
			n = c.Layers - c.Layers/4
			if len(c.NoRopeLayers) > 0 {
				n = 0
				for _, rope := range c.NoRopeLayers {
					n += min(max(rope, 0), 1)
				}
			}
		}
		window = c.ChunkSize
		sliding(n)
		a.Chunked = a.Window > 0
	case len(c.LayerTypes) > 0:
		sliding(count("sliding_attention"))
	case c.WindowPattern > 1:
		sliding(c.Layers - c.Layers/c.WindowPattern)
	case c.ModelType == "gemma3" || c.ModelType == "gemma3_text":
		sliding(c.Layers - c.Layers/6)
	case c.ModelType == "gemma2":
		sliding(c.Layers / 2)
	case c.ModelType == "gpt_oss":
		sliding(c.Layers / 2)
	default:
		sliding(c.Layers)
	}
}

// feedForward finds the experts.
func (c *hfConfig) feedForward(m *Model, moe bool) {
	f := &m.FFN
	if !moe {
		*f = FFN{Kind: SwiGLU, Width: c.Width}
		return
	}
	*f = FFN{Kind: Experts, Active: c.Active, Experts: max(c.NumExperts, c.RoutedExperts, c.LocalExperts), ExpertWidth: c.ExpertWidth, Shared: c.SharedToo}
	width := c.Width
	if f.ExpertWidth == 0 {
		f.ExpertWidth = c.Width
		width = c.DenseWidth
	}
	if c.Shared != nil {
		f.Shared = *c.Shared
	}
	if c.SharedWidth > 0 && f.ExpertWidth > 0 && f.Shared == 0 {
		f.Shared = (c.SharedWidth + f.ExpertWidth - 1) / f.ExpertWidth
	}
	if (c.ModelType == "llama4" || c.ModelType == "llama4_text") && f.Shared == 0 {
		f.Shared = 1
	}
	var freq []int
	f.DenseLayers = c.FirstDense
	switch {
	case json.Unmarshal(c.LayerFreq, &freq) == nil && len(freq) > 0:
		f.DenseLayers = 0
		for _, x := range freq {
			if x == 0 {
				f.DenseLayers++
			}
		}
	case c.Interleave > 1:
		f.DenseLayers = c.Layers - c.Layers/c.Interleave
	case c.SparseStep > 1:
		f.DenseLayers = c.Layers - c.Layers/c.SparseStep
	case len(c.DenseOnly) > 0:
		f.DenseLayers = len(c.DenseOnly)
	}
	if f.DenseLayers > 0 {
		f.Width = width
	}
}
