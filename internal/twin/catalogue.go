package twin

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"plimsoll/internal/strictyaml"
)

//go:embed catalogue/*.yaml
var catalogueFiles embed.FS

// Confidence says how far a catalogue value can be trusted.
type Confidence string

// The grades of confidence: checked against a primary source or a measurement;
// from a secondary source or recalled; a guess.
const (
	High   Confidence = "high"
	Medium Confidence = "medium"
	Low    Confidence = "low"
)

// Value is one figure of a catalogue with where it comes from. Source is a key
// of the catalogue's sources.
type Value struct {
	V      float64    `yaml:"v" json:"value"`
	Source string     `yaml:"src" json:"source"`
	Conf   Confidence `yaml:"conf" json:"confidence"`
}

// Values is a row of figures with one source.
type Values struct {
	V      []float64  `yaml:"v" json:"value"`
	Source string     `yaml:"src" json:"source"`
	Conf   Confidence `yaml:"conf" json:"confidence"`
}

// GEMM holds the fitted constants of a matrix multiplication of one precision:
// the shares of the peak (EC) and of the memory bandwidth (EM) that it reaches,
// its floor, and the sharpness of the turn between the two (P of a p-norm). An
// Engine, when given, is the scheduler policy of the engine whose kernels these
// are; else they are anybody's.
type GEMM struct {
	Precision Precision  `yaml:"precision" json:"precision"`
	Engine    string     `yaml:"engine" json:"engine,omitempty"`
	EC        float64    `yaml:"ec" json:"ec"`
	EM        float64    `yaml:"em" json:"em"`
	T0us      float64    `yaml:"t0_us" json:"t0_us"`
	P         float64    `yaml:"p" json:"p"`
	Source    string     `yaml:"src" json:"source"`
	Conf      Confidence `yaml:"conf" json:"confidence"`
}

// MoE holds the constants of the grouped multiplications of experts: shares of
// the arithmetic, of the bandwidth with one and with eight or more groups of
// experts, and the floor per layer. Imbalance is how much more than the mean the
// slowest rank has to do, with one, eight, and more groups.
type MoE struct {
	EC        Value  `yaml:"ec" json:"ec"`
	EM        Value  `yaml:"em" json:"em"`
	EMep8     Value  `yaml:"em_ep8" json:"em_ep8"`
	T0us      Value  `yaml:"t0_us" json:"t0_us"`
	Imbalance Values `yaml:"imbalance" json:"imbalance"`
}

// Attention holds the measured behaviour of attention kernels. MFU is the share
// of the bf16 peak that causal prefill reaches at contexts of 1.5k, 3k, 6k, 12k
// and 24k tokens.
type Attention struct {
	MFU           Values `yaml:"mfu" json:"mfu"`
	DecodeFloorUS Value  `yaml:"decode_floor_us" json:"decode_floor_us"`
}

// AllReduce holds measured all-reduce times in us by group size, at the message
// sizes of allReduceBytes, of one engine's kernel; empty where nobody measured.
type AllReduce struct {
	Engine string     `yaml:"engine" json:"engine"`
	TP2    []float64  `yaml:"tp2" json:"tp2,omitempty"`
	TP4    []float64  `yaml:"tp4" json:"tp4,omitempty"`
	TP8    []float64  `yaml:"tp8" json:"tp8,omitempty"`
	Source string     `yaml:"src" json:"source"`
	Conf   Confidence `yaml:"conf" json:"confidence"`
}

// GPU is one accelerator. TFLOPS are dense; memory is GiB, bandwidth TB/s, link
// GB/s in one direction per device inside a scale-up domain of Domain devices.
// A zero FP8 or FP4 means that the device has no such arithmetic.
type GPU struct {
	Name      string   `yaml:"name" json:"name"`
	Title     string   `yaml:"title" json:"title"`
	Aliases   []string `yaml:"aliases" json:"aliases,omitempty"`
	BF16      Value    `yaml:"bf16_tflops" json:"bf16_tflops"`
	FP8       Value    `yaml:"fp8_tflops" json:"fp8_tflops,omitzero"`
	FP4       Value    `yaml:"fp4_tflops" json:"fp4_tflops,omitzero"`
	MemoryGiB Value    `yaml:"memory_gib" json:"memory_gib"`
	Bandwidth Value    `yaml:"bandwidth_tbs" json:"bandwidth_tbs"`
	Link      Value    `yaml:"link_gbs" json:"link_gbs"`
	Domain    Value    `yaml:"domain" json:"domain"`
	TDP       Value    `yaml:"tdp_w" json:"tdp_w"`
	// GEMM, MoE, Attention and AllReduce (in us) are fits to kernels or measured;
	// without them the device takes typical ones.
	GEMM      []GEMM      `yaml:"gemm" json:"gemm,omitempty"`
	MoE       *MoE        `yaml:"moe" json:"moe,omitempty"`
	Attention *Attention  `yaml:"attention" json:"attention,omitempty"`
	AllReduce []AllReduce `yaml:"allreduce" json:"allreduce_us,omitempty"`
}

// The kinds of attention and of feed-forward layers that there is a step model
// for.
const (
	GQA     = "gqa"    // grouped queries, multi-head and multi-query included
	MLA     = "mla"    // multi-head latent attention
	SwiGLU  = "swiglu" // three matrices with a gate
	Experts = "moe"    // routed experts of three matrices each
)

// ModelAttention is the shape of a model's attention.
type ModelAttention struct {
	Kind    string `yaml:"kind" json:"kind"`
	Heads   int    `yaml:"heads" json:"heads"`
	KVHeads int    `yaml:"kv_heads" json:"kv_heads,omitempty"`
	// HeadDim is the size of a head's query and key (of the part without position
	// with mla), ValueDim that of its value where it differs.
	HeadDim  int `yaml:"head_dim" json:"head_dim"`
	ValueDim int `yaml:"value_dim" json:"value_dim,omitempty"`
	// WindowLayers of the layers see the last Window tokens only, with
	// WindowKVHeads KV heads where that differs. Chunked says that the memory keeps
	// the tokens outside the window all the same.
	Window        int  `yaml:"window" json:"window,omitempty"`
	WindowLayers  int  `yaml:"window_layers" json:"window_layers,omitempty"`
	WindowKVHeads int  `yaml:"window_kv_heads" json:"window_kv_heads,omitempty"`
	Chunked       bool `yaml:"chunked" json:"chunked,omitempty"`
	// QueryRank, KVRank and RopeDim are the ranks of mla's projections and the
	// size of its shared positional key.
	QueryRank int `yaml:"q_rank" json:"q_rank,omitempty"`
	KVRank    int `yaml:"kv_rank" json:"kv_rank,omitempty"`
	RopeDim   int `yaml:"rope_dim" json:"rope_dim,omitempty"`
	// IndexHeads of IndexDim choose the TopK tokens that sparse attention reads.
	IndexHeads int `yaml:"index_heads" json:"index_heads,omitempty"`
	IndexDim   int `yaml:"index_dim" json:"index_dim,omitempty"`
	TopK       int `yaml:"top_k" json:"top_k,omitempty"`
}

// FFN is the shape of a model's feed-forward layers. Width is that of dense
// layers, of which a model with experts has DenseLayers; ExpertWidth that of each
// of its Experts, of which Active are routed to, and of its Shared ones.
type FFN struct {
	Kind        string `yaml:"kind" json:"kind"`
	Width       int    `yaml:"width" json:"width,omitempty"`
	DenseLayers int    `yaml:"dense_layers" json:"dense_layers,omitempty"`
	Experts     int    `yaml:"experts" json:"experts,omitempty"`
	Active      int    `yaml:"active" json:"active,omitempty"`
	Shared      int    `yaml:"shared" json:"shared,omitempty"`
	ExpertWidth int    `yaml:"expert_width" json:"expert_width,omitempty"`
}

// Model is the shape of one model. Context is its longest sequence in tokens.
// Tied says that the output head shares its matrix with the embedding,
// ExpertsOnly that its 4-bit form has only its experts quantised, BlockFP8 that its
// fp8 form has a scale per block of weights, with activations quantised as they
// come. Checkpoint is the precision that the model is published in, empty for bf16.
type Model struct {
	Name        string         `yaml:"name" json:"name"`
	ID          string         `yaml:"id" json:"id"`
	Aliases     []string       `yaml:"aliases" json:"aliases,omitempty"`
	Layers      int            `yaml:"layers" json:"layers"`
	Hidden      int            `yaml:"hidden" json:"hidden"`
	Attention   ModelAttention `yaml:"attention" json:"attention"`
	FFN         FFN            `yaml:"ffn" json:"ffn"`
	Vocab       int            `yaml:"vocab" json:"vocab"`
	Tied        bool           `yaml:"tied" json:"tied,omitempty"`
	ExpertsOnly bool           `yaml:"experts_only" json:"experts_only,omitempty"`
	BlockFP8    bool           `yaml:"block_fp8" json:"block_fp8,omitempty"`
	Checkpoint  Precision      `yaml:"checkpoint" json:"checkpoint,omitempty"`
	Context     int            `yaml:"context" json:"context"`
	Source      string         `yaml:"src" json:"source"`
	Conf        Confidence     `yaml:"conf" json:"confidence"`
}

// EngineProfile is what an engine's software adds to a step and takes from
// memory. With Overlap the host works while the device does.
type EngineProfile struct {
	Name    string   `yaml:"name" json:"name"`
	Title   string   `yaml:"title" json:"title"`
	Aliases []string `yaml:"aliases" json:"aliases,omitempty"`
	// Policy is the scheduler's: vllm, sglang or trtllm.
	Policy  string `yaml:"policy" json:"policy"`
	Overlap bool   `yaml:"overlap" json:"overlap"`
	// FusedQuantization says that activations become fp8 inside the kernels before,
	// KVFollowsWeights that keys and values are fp8 when the weights are fp8 or fp4.
	FusedQuantization bool  `yaml:"fused_quantization" json:"fused_quantization,omitempty"`
	KVFollowsWeights  bool  `yaml:"kv_follows_weights" json:"kv_follows_weights,omitempty"`
	HostUS            Value `yaml:"host_us" json:"host_us"`
	HostPerSeqUS      Value `yaml:"host_per_sequence_us" json:"host_per_sequence_us"`
	SerialUS          Value `yaml:"serial_us" json:"serial_us"`
	MemoryUtilization Value `yaml:"memory_utilization" json:"memory_utilization"`
	GraphsGiB         Value `yaml:"graphs_gib" json:"graphs_gib"`
	// A request's path around the engine: what keeps the API process busy once per
	// request, per prompt token and per output token, and what the way to the first
	// token takes besides, keeping nothing busy.
	APIRequestUS Value `yaml:"api_request_us" json:"api_request_us"`
	TokenizeUS   Value `yaml:"tokenize_us_per_token" json:"tokenize_us_per_token"`
	DetokenizeUS Value `yaml:"detokenize_us_per_token" json:"detokenize_us_per_token"`
	APILatencyUS Value `yaml:"api_latency_us" json:"api_latency_us"`
}

// Catalogue is everything that the twin knows by name. It is read-only.
type Catalogue struct {
	Models  []Model
	GPUs    []GPU
	Engines []EngineProfile
	// Sources explains the keys that the values name.
	Sources map[string]string

	defaults kernels
}

// kernels are the typical constants, for devices without their own.
type kernels struct {
	GEMM      []GEMM    `yaml:"gemm"`
	MoE       MoE       `yaml:"moe"`
	Attention Attention `yaml:"attention"`
}

// Builtin returns the catalogue that comes with the program. A broken one is a
// defect of the build, so it panics.
var Builtin = sync.OnceValue(func() *Catalogue {
	c, err := readCatalogue()
	if err != nil {
		panic("BUG: built-in catalogue: " + err.Error())
	}
	return c
})

func readCatalogue() (*Catalogue, error) {
	var gpus struct {
		Sources  map[string]string `yaml:"sources"`
		Defaults kernels           `yaml:"defaults"`
		GPUs     []GPU             `yaml:"gpus"`
	}
	var models struct {
		Sources map[string]string `yaml:"sources"`
		Models  []Model           `yaml:"models"`
	}
	var engines struct {
		Sources map[string]string `yaml:"sources"`
		Engines []EngineProfile   `yaml:"engines"`
	}
	for _, f := range []struct {
		name string
		into any
	}{{"gpus", &gpus}, {"models", &models}, {"engines", &engines}} {
		file := "catalogue/" + f.name + ".yaml"
		data, err := catalogueFiles.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		if err := strictyaml.Unmarshal(file, data, f.into); err != nil {
			return nil, err
		}
	}
	c := &Catalogue{
		Models: models.Models, GPUs: gpus.GPUs, Engines: engines.Engines,
		Sources: map[string]string{userSource: "the user's own file"},
	}
	c.defaults = gpus.Defaults
	for _, m := range []map[string]string{gpus.Sources, models.Sources, engines.Sources} {
		for k, v := range m {
			if old, ok := c.Sources[k]; ok && old != v {
				return nil, fmt.Errorf("source %q has two meanings", k)
			}
			c.Sources[k] = v
		}
	}
	return c, nil
}

// Model finds a model by name, Hugging Face id or alias, however it is spelled. A
// path is of the user's own: YAML in the catalogue's form, a config.json of Hugging
// Face, or a folder with one.
func (c *Catalogue) Model(name string) (*Model, error) {
	if file, ok := fileOf(name); ok {
		return readModel(file)
	}
	names := make([][]string, len(c.Models))
	for i := range c.Models {
		m := &c.Models[i]
		names[i] = append([]string{m.Name, m.ID}, m.Aliases...)
	}
	i, err := find("model", name, names)
	if err != nil {
		return nil, err
	}
	return &c.Models[i], nil
}

// GPU finds an accelerator by name or alias, however it is spelled. A path is of
// the user's own YAML in the catalogue's form.
func (c *Catalogue) GPU(name string) (*GPU, error) {
	if file, ok := fileOf(name); ok {
		return readGPU(file)
	}
	names := make([][]string, len(c.GPUs))
	for i := range c.GPUs {
		g := &c.GPUs[i]
		names[i] = append([]string{g.Name, g.Title}, g.Aliases...)
	}
	i, err := find("gpu", name, names)
	if err != nil {
		return nil, err
	}
	return &c.GPUs[i], nil
}

// Engine finds an engine profile by name or alias; the empty name is the first.
func (c *Catalogue) Engine(name string) (*EngineProfile, error) {
	if name == "" {
		return &c.Engines[0], nil
	}
	names := make([][]string, len(c.Engines))
	for i := range c.Engines {
		e := &c.Engines[i]
		names[i] = append([]string{e.Name}, e.Aliases...)
	}
	i, err := find("engine", name, names)
	if err != nil {
		return nil, err
	}
	return &c.Engines[i], nil
}

// find returns the index of the entry one of whose spellings is name. The first
// spelling of an entry is its name.
func find(what, name string, entries [][]string) (int, error) {
	want := plainName(name)
	if want != "" {
		for i, spellings := range entries {
			for _, s := range spellings {
				if plainName(s) == want {
					return i, nil
				}
			}
		}
	}
	// Without separators it may still mean one entry only: H-100, llama3.18b.
	if joined := strings.ReplaceAll(want, "-", ""); joined != "" {
		found := -1
		for i, spellings := range entries {
			if slices.ContainsFunc(spellings, func(s string) bool { return strings.ReplaceAll(plainName(s), "-", "") == joined }) {
				if found >= 0 {
					found = -1
					break
				}
				found = i
			}
		}
		if found >= 0 {
			return found, nil
		}
	}
	type near struct {
		name string
		d    int
	}
	// A name longer than any in the catalogue is far from all of them; cutting it
	// bounds the work.
	const longest = 80
	want = want[:min(len(want), longest)]
	var all []near
	for _, spellings := range entries {
		best := near{spellings[0], 1 << 30}
		for _, s := range spellings {
			best.d = min(best.d, strictyaml.Distance(want, plainName(s)))
		}
		all = append(all, best)
	}
	slices.SortStableFunc(all, func(a, b near) int { return a.d - b.d })
	var nearest []string
	for _, n := range all[:min(3, len(all))] {
		nearest = append(nearest, n.name)
	}
	return 0, fmt.Errorf("find %s %q: no such name in the catalogue; nearest: %s", what, name, strings.Join(nearest, ", "))
}

// plainName reduces a spelling to what tells models and devices apart: no
// organisation, no vendor, no suffix of tuning or precision, one kind of separator.
func plainName(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	if i := strings.LastIndexByte(s, '/'); i >= 0 {
		s = s[i+1:]
	}
	s = strings.NewReplacer(" ", "-", "_", "-", ":", "-").Replace(s)
	for _, p := range []string{"nvidia-", "amd-", "intel-", "meta-"} {
		s = strings.TrimPrefix(s, p)
	}
	for again := true; again; {
		again = false
		for _, suffix := range []string{
			"-instruct", "-chat", "-hf", "-it",
			"-fp8", "-fp8-dynamic", "-fp8-kv", "-nvfp4", "-mxfp4", "-fp4", "-awq", "-gptq", "-int4", "-int8", "-bf16",
		} {
			if t := strings.TrimSuffix(s, suffix); t != s {
				s, again = t, true
			}
		}
	}
	return s
}
