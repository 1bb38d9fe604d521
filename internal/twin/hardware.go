package twin

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Precision is the number format of a model's linear layers. The output head and
// the embedding stay bf16, attention computes in bf16.
type Precision string

// The precisions that the step model has constants for. int8 and int4 are of
// weights only: they are expanded to bf16 on the way into the arithmetic.
const (
	BF16     Precision = "bf16"
	FP8      Precision = "fp8"
	FP8Block Precision = "fp8_block"
	FP4      Precision = "fp4"
	INT8     Precision = "int8"
	INT4     Precision = "int4"
)

// precisionNames are the spellings of precisions.
var precisionNames = map[string]Precision{
	"bf16": BF16, "bfloat16": BF16, "fp16": BF16, "float16": BF16, "half": BF16,
	"fp8": FP8, "float8": FP8, "fp8_e4m3": FP8, "w8a8": FP8,
	"fp8_block": FP8Block, "block_fp8": FP8Block,
	"fp4": FP4, "nvfp4": FP4, "mxfp4": FP4,
	"int8": INT8, "w8a16": INT8,
	"int4": INT4, "uint4": INT4, "w4a16": INT4, "awq": INT4, "gptq": INT4,
}

// ParsePrecision reads a precision however it is spelled; empty is bf16.
func ParsePrecision(s string) (Precision, error) {
	key := strings.ReplaceAll(strings.ToLower(strings.TrimSpace(s)), "-", "_")
	if key == "" {
		return BF16, nil
	}
	if p, ok := precisionNames[key]; ok {
		return p, nil
	}
	return "", fmt.Errorf("precision %q: want bf16, fp8, fp8_block, fp4, int8 or int4", s)
}

// published is the precision of the weights that a name of the model means:
// nvidia/Llama-3.1-8B-Instruct-FP8 says it, others mean the checkpoint of the model.
func (m *Model) published(name string) Precision {
	if _, file := fileOf(name); !file {
		for _, word := range strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("-_/: ", r) }) {
			if p := precisionNames[word]; p != "" && p != BF16 {
				return p
			}
		}
	}
	if m.Checkpoint != "" {
		return m.Checkpoint
	}
	return BF16
}

const gib = 1 << 30

// blockTokens is the size of a KV block, the default of vLLM.
const blockTokens = 16

// Layout is one replica's hardware: a model in a precision, spread over devices
// and run by an engine.
type Layout struct {
	Model     *Model
	GPU       *GPU
	Engine    *EngineProfile
	Precision Precision
	// TP is the number of devices that share each layer, PP that of the groups
	// which hold a part of the layers each, DP that of the ranks which attend to
	// sequences of their own but share the experts. 0 is 1.
	TP, PP, DP int
	// EP is the number of groups of experts, each held by TP x DP / EP devices;
	// 1 (or 0) shards every expert over all of them.
	EP int
	// KVFP8 keeps keys and values in fp8.
	KVFP8 bool
	// MaxNumSeqs and MaxNumBatchedTokens size the activations.
	MaxNumSeqs, MaxNumBatchedTokens int
	// MemoryUtilization is the share of a device's memory that the engine takes,
	// 0 for the engine's default.
	MemoryUtilization float64
}

// Devices is the number of devices of the replica.
func (l *Layout) Devices() int { return max(1, l.TP) * max(1, l.PP) * max(1, l.DP) }

func (a *ModelAttention) valueDim() int {
	if a.ValueDim > 0 {
		return a.ValueDim
	}
	return a.HeadDim
}

func (a *ModelAttention) windowKVHeads() int {
	if a.WindowKVHeads > 0 {
		return a.WindowKVHeads
	}
	return a.KVHeads
}

// attentionParams is the number of elements of a layer's attention matrices.
func (m *Model) attentionParams(window bool) float64 {
	a, h := &m.Attention, float64(m.Hidden)
	n, d, v := float64(a.Heads), float64(a.HeadDim), float64(a.valueDim())
	if a.Kind == MLA {
		rank, rope, q := float64(a.KVRank), float64(a.RopeDim), float64(a.QueryRank)
		query := h * n * (d + rope)
		if q > 0 {
			query = h*q + q*n*(d+rope)
		}
		index := q*float64(a.IndexHeads*a.IndexDim) + h*float64(a.IndexDim+a.IndexHeads)
		if a.IndexHeads == 0 {
			index = 0
		}
		return query + h*(rank+rope) + rank*n*(d+v) + n*v*h + index
	}
	kv := float64(a.KVHeads)
	if window {
		kv = float64(a.windowKVHeads())
	}
	return h*(n*d+kv*(d+v)) + n*v*h
}

// attentionTotal is attentionParams over all layers.
func (m *Model) attentionTotal() float64 {
	w := m.Attention.WindowLayers
	return float64(m.Layers-w)*m.attentionParams(false) + float64(w)*m.attentionParams(true)
}

// moeLayers is the number of layers with experts.
func (m *Model) moeLayers() int {
	if m.FFN.Kind != Experts {
		return 0
	}
	return m.Layers - m.FFN.DenseLayers
}

// denseParams is the number of elements of all dense feed-forward layers.
func (m *Model) denseParams() float64 {
	return float64(m.Layers-m.moeLayers()) * 3 * float64(m.Hidden) * float64(m.FFN.Width)
}

// expertParams is the number of elements of one expert.
func (m *Model) expertParams() float64 { return 3 * float64(m.Hidden) * float64(m.FFN.ExpertWidth) }

// routerParams is the number of elements of all routers.
func (m *Model) routerParams() float64 {
	return float64(m.moeLayers()) * float64(m.Hidden) * float64(m.FFN.Experts)
}

// Params is the number of the model's parameters, embedding included.
func (m *Model) Params() float64 {
	embeddings := 2.0
	if m.Tied {
		embeddings = 1
	}
	return m.attentionTotal() + m.denseParams() + m.routerParams() +
		float64(m.moeLayers()*(m.FFN.Experts+m.FFN.Shared))*m.expertParams() +
		embeddings*float64(m.Hidden)*float64(m.Vocab)
}

// ActiveParams is the number of parameters that one token is multiplied with, the
// output head included and the embedding not.
func (m *Model) ActiveParams() float64 {
	return m.attentionTotal() + m.denseParams() + m.routerParams() +
		float64(m.moeLayers()*(m.FFN.Active+m.FFN.Shared))*m.expertParams() +
		float64(m.Hidden)*float64(m.Vocab)
}

// bytesPerWeight is the size of a quantised weight, scales included.
func (p Precision) bytesPerWeight() float64 {
	switch p {
	case FP8, FP8Block, INT8:
		return 1
	case FP4:
		return 0.5625
	case INT4:
		return 0.5 + 2.0/128 // a bf16 scale per 128 weights
	}
	return 2
}

// dense is the precision of the matrices that are not experts.
func (l *Layout) dense() Precision {
	if l.Model.ExpertsOnly && (l.Precision == FP4 || l.Precision == INT4) {
		return BF16
	}
	return l.Precision
}

// weightBytes is the size of one device's weights. Attention is copied per DP
// rank, experts are spread over all devices of a stage.
func (l *Layout) weightBytes() float64 {
	m, tp := l.Model, float64(l.TP)
	dense := (m.attentionTotal()+m.denseParams())*l.dense().bytesPerWeight() + 2*m.routerParams()
	shared := float64(m.moeLayers()*m.FFN.Shared) * m.expertParams() * l.dense().bytesPerWeight()
	experts := float64(m.moeLayers()*m.FFN.Experts) * m.expertParams() * l.Precision.bytesPerWeight()
	embeddings := 2.0
	if m.Tied {
		embeddings = 1
	}
	ends := embeddings * 2 * float64(m.Hidden) * float64(m.Vocab) / tp
	return ((dense+shared)/tp+experts/(tp*float64(l.DP)))/float64(l.PP) + ends
}

// shard is the number of KV heads on one device. Below one head per device the
// heads are copied, so they do not shrink any further.
func (l *Layout) shard(kvHeads int) float64 { return float64(max(1, kvHeads/l.TP)) }

func (l *Layout) bytesPerKV() float64 {
	if l.KVFP8 {
		return 1
	}
	return 2
}

// kvLayerBytes is the size of one token's keys and values on one device in one
// layer that sees everything, windowBytes in one with a window.
func (l *Layout) kvLayerBytes() float64 {
	a := &l.Model.Attention
	if a.Kind == MLA {
		// The latent is on every device of the group; the index key is fp8.
		return float64(a.KVRank+a.RopeDim)*l.bytesPerKV() + float64(a.indexBytes())
	}
	return l.shard(a.KVHeads) * float64(a.HeadDim+a.valueDim()) * l.bytesPerKV()
}

func (a *ModelAttention) indexBytes() int {
	if a.IndexHeads == 0 {
		return 0
	}
	return a.IndexDim
}

func (l *Layout) windowBytes() float64 {
	a := &l.Model.Attention
	return l.shard(a.windowKVHeads()) * float64(a.HeadDim+a.valueDim()) * l.bytesPerKV()
}

// kvShares is how the memory of a token's keys and values on one device divides: so
// many shares of so many bytes for the layers that see everything, and so many for
// those with a window, which give them back when the token is outside. Without
// windows it is one share.
//
// vLLM makes groups of as many layers as there are of the rarer kind and lets each
// take its blocks from one pool; the last group of a kind may be short of layers and
// takes as much all the same. The other engines have a pool for each kind, in which
// nothing is lost. Layers that see chunks keep everything: vLLM's default for them
// (VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE is 0, spring 2026).
func (l *Layout) kvShares() (full, window int, bytes float64) {
	m := l.Model
	sliding := m.Attention.WindowLayers
	all := m.Layers - sliding
	stages := float64(l.PP)
	if sliding == 0 || m.Attention.Chunked {
		return 1, 0, (float64(all)*l.kvLayerBytes() + float64(sliding)*l.windowBytes()) / stages
	}
	if all == 0 {
		return 0, 1, float64(sliding) * l.windowBytes() / stages
	}
	// Layers of the two kinds can differ in size, by a ratio of small numbers.
	f, w := int(l.kvLayerBytes()), int(l.windowBytes())
	d := gcd(f, w)
	bytes = float64(d)
	if Policy(l.Engine.Policy) == VLLM {
		group := min(all, sliding)
		full, window, bytes = (all+group-1)/group*(f/d), (sliding+group-1)/group*(w/d), bytes*float64(group)
	} else {
		full, window = all*(f/d), sliding*(w/d)
	}
	d = gcd(full, window)
	return full / d, window / d, bytes * float64(d) / stages
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// kvTokenBytes is the memory of one token on one device: of a sequence as long as
// the model allows, whose layers with a window keep only that and the tokens of
// one step.
func (l *Layout) kvTokenBytes() float64 {
	full, window, bytes := l.kvShares()
	kept := min(1, float64(l.Model.Attention.Window+l.MaxNumBatchedTokens)/float64(l.Model.Context))
	return bytes * (float64(full) + float64(window)*kept)
}

// Check fills the zero numbers and returns what makes the layout impossible, with
// the numbers.
func (l *Layout) Check() error { return l.check() }

func (l *Layout) check() error {
	m, g := l.Model, l.GPU
	var err error
	if l.Precision, err = ParsePrecision(string(l.Precision)); err != nil {
		return err
	}
	if err := m.check(); err != nil {
		return err
	}
	if l.Precision == FP8 && m.BlockFP8 {
		l.Precision = FP8Block
	}
	switch {
	case (l.Precision == FP8 || l.Precision == FP8Block) && g.FP8.V == 0:
		return fmt.Errorf("precision fp8: %s has no fp8 arithmetic; use bf16, int8 or int4", g.Name)
	case l.Precision == FP4 && g.FP4.V == 0 && !m.ExpertsOnly:
		return fmt.Errorf("precision fp4: %s has no fp4 arithmetic; use int4, which has the weights in 4 bits and computes in bf16", g.Name)
	}
	for _, n := range []struct {
		name string
		v    *int
	}{{"pp", &l.PP}, {"dp", &l.DP}, {"ep", &l.EP}} {
		if *n.v == 0 {
			*n.v = 1
		}
		if *n.v < 1 {
			return fmt.Errorf("%s %d: want at least 1", n.name, *n.v)
		}
	}
	if l.TP < 1 {
		return fmt.Errorf("tp %d: want at least 1", l.TP)
	}
	heads := m.Attention.Heads
	if heads%l.TP != 0 {
		return fmt.Errorf("tp %d does not divide the %d attention heads of %s; use one of %s", l.TP, heads, m.Name, divisors(heads))
	}
	for _, kv := range []int{m.Attention.KVHeads, m.Attention.windowKVHeads()} {
		if kv > 0 && kv%l.TP != 0 && l.TP%kv != 0 {
			return fmt.Errorf("tp %d neither divides nor is a multiple of the %d KV heads of %s", l.TP, kv, m.Name)
		}
	}
	if m.FFN.Width%l.TP != 0 {
		return fmt.Errorf("tp %d does not divide the feed-forward width %d of %s", l.TP, m.FFN.Width, m.Name)
	}
	if d := int(g.Domain.V); d > 1 && l.TP > d {
		return fmt.Errorf("tp %d: %s has %d devices in a scale-up domain; use tp %d with pp, or replicas", l.TP, g.Name, d, d)
	}
	if m.Layers < l.PP {
		return fmt.Errorf("pp %d: %s has %d layers", l.PP, m.Name, m.Layers)
	}
	switch {
	case m.FFN.Kind != Experts && l.EP > 1:
		return fmt.Errorf("ep %d: %s has no experts", l.EP, m.Name)
	case m.FFN.Kind != Experts && l.DP > 1:
		return fmt.Errorf("dp %d: %s has no experts for its ranks to share; use replicas", l.DP, m.Name)
	case l.TP*l.DP%l.EP != 0:
		return fmt.Errorf("ep %d does not divide the %d devices of tp x dp; use one of %s", l.EP, l.TP*l.DP, divisors(l.TP*l.DP))
	case l.EP > 1 && m.FFN.Experts%l.EP != 0:
		return fmt.Errorf("ep %d does not divide the %d experts of %s", l.EP, m.FFN.Experts, m.Name)
	case m.FFN.Kind == Experts && m.FFN.ExpertWidth%(l.TP*l.DP/l.EP) != 0:
		return fmt.Errorf("the expert width %d of %s does not divide over %d devices (tp x dp / ep); raise ep", m.FFN.ExpertWidth, m.Name, l.TP*l.DP/l.EP)
	}
	if u := l.MemoryUtilization; u != 0 && !(u > 0 && u <= 1) {
		return fmt.Errorf("memory utilization %v: want a share in (0, 1]", u)
	}
	if l.Engine.KVFollowsWeights && (l.Precision == FP8 || l.Precision == FP4) {
		l.KVFP8 = true
	}
	return nil
}

// check returns what is missing or odd in a model's shape.
func (m *Model) check() error {
	a, f := &m.Attention, &m.FFN
	var missing []string
	need := func(name string, n int) {
		if n <= 0 {
			missing = append(missing, name)
		}
	}
	need("layers", m.Layers)
	need("hidden", m.Hidden)
	need("vocab", m.Vocab)
	need("context", m.Context)
	need("attention.heads", a.Heads)
	need("attention.head_dim", a.HeadDim)
	switch a.Kind {
	case GQA:
		need("attention.kv_heads", a.KVHeads)
	case MLA:
		need("attention.kv_rank", a.KVRank)
		need("attention.rope_dim", a.RopeDim)
		if a.IndexHeads > 0 {
			need("attention.index_dim", a.IndexDim)
			need("attention.top_k", a.TopK)
			need("attention.q_rank", a.QueryRank)
		}
	default:
		return fmt.Errorf("model %s: no step model for attention %q, only gqa and mla", m.Name, a.Kind)
	}
	if a.WindowLayers > 0 {
		need("attention.window", a.Window)
	}
	switch f.Kind {
	case SwiGLU:
		need("ffn.width", f.Width)
	case Experts:
		need("ffn.experts", f.Experts)
		need("ffn.active", f.Active)
		need("ffn.expert_width", f.ExpertWidth)
		if f.DenseLayers > 0 {
			need("ffn.width", f.Width)
		}
	default:
		return fmt.Errorf("model %s: no step model for feed-forward %q, only swiglu and moe", m.Name, f.Kind)
	}
	switch {
	case len(missing) > 0:
		return fmt.Errorf("model %s: %s must be given and above 0", m.Name, strings.Join(missing, ", "))
	case a.Kind == GQA && a.Heads%a.KVHeads != 0:
		return fmt.Errorf("model %s: %d attention heads do not divide over %d KV heads", m.Name, a.Heads, a.KVHeads)
	case a.WindowLayers < 0 || f.DenseLayers < 0 || f.Shared < 0 || a.QueryRank < 0 || a.IndexHeads < 0 || a.ValueDim < 0:
		return fmt.Errorf("model %s: sizes below 0", m.Name)
	case a.WindowLayers > m.Layers || f.DenseLayers > m.Layers:
		return fmt.Errorf("model %s: %d window and %d dense layers of %d", m.Name, a.WindowLayers, f.DenseLayers, m.Layers)
	case f.Active > f.Experts:
		return fmt.Errorf("model %s: %d of %d experts active", m.Name, f.Active, f.Experts)
	case m.Layers > 10_000 || m.Hidden > 1<<20 || m.Vocab > 1<<24 || m.Context > 1<<30 || a.Heads > 1<<14 || a.HeadDim > 1<<14 ||
		f.Width > 1<<22 || f.Experts > 1<<14 || f.ExpertWidth > 1<<22 || f.Shared > 1<<10 || a.Window > 1<<24 || a.TopK > 1<<24 ||
		max(a.KVRank, a.QueryRank, a.RopeDim, a.ValueDim, a.IndexHeads, a.IndexDim) > 1<<16:
		return fmt.Errorf("model %s: its sizes are beyond any model", m.Name)
	}
	return nil
}

func divisors(n int) string {
	s := ""
	for d := 1; d <= n; d++ {
		if n%d == 0 {
			if s != "" {
				s += ", "
			}
			s += fmt.Sprint(d)
		}
	}
	return s
}

// Memory is where one device's memory goes, in bytes.
type Memory struct {
	Usable, Weights, Activations, Other float64
	// KVTokens is the number of tokens whose keys and values fit what is left, over
	// all DP ranks; with windows, of sequences as long as the model allows.
	KVTokens int
}

// Memory divides a device's memory: what the engine takes, less weights, the
// profiled peak of activations, and what libraries and graphs hold; the rest is
// for keys and values. Its constants are a survey's of published block counts.
// The layout must have passed Check.
func (l *Layout) Memory() (Memory, error) { return l.memory() }

func (l *Layout) memory() (Memory, error) {
	mem := l.divideMemory()
	if mem.KVTokens < blockTokens {
		return mem, l.tooSmall(mem)
	}
	return mem, nil
}

// tooSmall is the error of a model that does not fit, with where the memory goes.
func (l *Layout) tooSmall(mem Memory) error {
	left := mem.Usable - mem.Weights - mem.Activations - mem.Other
	result := fmt.Sprintf("leaves %s for keys and values", amount(left))
	if left < 0 {
		result = fmt.Sprintf("is %s too much, without any keys and values", amount(-left))
	}
	return fmt.Errorf(
		"%s in %s does not fit %d x %s: of %.1f GiB on each the engine may use %.1f GiB, weights take %.1f GiB, activations %.1f GiB, graphs and libraries %.1f GiB, which %s; %s",
		l.Model.Name, l.Precision, l.Devices(), l.GPU.Name, l.GPU.MemoryGiB.V, mem.Usable/gib, mem.Weights/gib,
		mem.Activations/gib, mem.Other/gib, result, l.fitHint())
}

// amount is a difference of memory, small ones in MiB: nothing is 0.0 too much.
func amount(bytes float64) string {
	if bytes < 0.95*gib {
		return fmt.Sprintf("%.3g MiB", bytes/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", bytes/gib)
}

func (l *Layout) divideMemory() Memory {
	u := l.MemoryUtilization
	if u == 0 {
		u = l.Engine.MemoryUtilization.V
	}
	mem := Memory{Usable: l.GPU.MemoryGiB.V * gib * u, Weights: l.weightBytes()}
	// Bytes of activations per token and hidden element, halved: they shrink with
	// tp only as far as the sharded part of them does.
	perHidden := []float64{10, 6, 5}
	if l.Model.FFN.Kind == Experts {
		perHidden = []float64{22, 13, 10}
	}
	mem.Activations = 2*float64(l.MaxNumBatchedTokens)*float64(l.Model.Hidden)*perHidden[min(l.TP-1, 2)] +
		4*float64(l.MaxNumSeqs)*float64(l.Model.Vocab)/float64(l.TP)
	library := 0.15
	if l.Devices() > 1 {
		library = 0.6
	}
	mem.Other = (library + l.Engine.GraphsGiB.V) * gib
	left := mem.Usable - mem.Weights - mem.Activations - mem.Other
	mem.KVTokens = max(0, int(left/l.kvTokenBytes())) * l.DP
	return mem
}

// fits says whether the layout can be and leaves room for keys and values.
func (l *Layout) fits() bool {
	return l.check() == nil && l.divideMemory().KVTokens >= blockTokens
}

// roomier are layouts that hold the model where this one does not: more devices of
// the kind in the same precision, the precision that the model is published in (or
// fp8, then int4) on as few devices as that takes, and the smallest device of the
// catalogue (of those that are known well) that holds it in the same layout.
func (l *Layout) roomier() []Layout {
	var ways []Layout
	more := func(p Precision) bool {
		for stages := 1; stages <= 16; stages *= 2 {
			for tp := l.TP; tp <= max(8, min(int(l.GPU.Domain.V), 64)); tp++ {
				w := *l
				w.Precision, w.TP, w.PP = p, tp, l.PP*stages
				if w.fits() {
					ways = append(ways, w)
					return true
				}
			}
		}
		return false
	}
	more(l.Precision)
	for _, p := range []Precision{l.Model.Checkpoint, FP8, INT4} {
		if p != "" && p.bytesPerWeight() < l.Precision.bytesPerWeight() && more(p) {
			break
		}
	}
	var best *Layout
	for i := range Builtin().GPUs {
		w := *l
		w.GPU = &Builtin().GPUs[i]
		if w.GPU.BF16.Conf != Low && w.fits() && (best == nil || w.GPU.MemoryGiB.V < best.GPU.MemoryGiB.V) {
			best = &w
		}
	}
	if best != nil {
		ways = append(ways, *best)
	}
	return ways
}

// fitHint names what would make the model fit.
func (l *Layout) fitHint() string {
	ways := l.roomier()
	if len(ways) == 0 {
		return "no layout of up to 16 stages does: use a device with more memory"
	}
	var texts []string
	for i := range ways {
		w := &ways[i]
		var parts, parallel []string
		if w.GPU != l.GPU {
			parts = append(parts, fmt.Sprintf("%d x %s", w.Devices(), w.GPU.Name))
		}
		if w.Precision != l.Precision {
			p := string(w.Precision)
			if w.Precision == FP8Block {
				p = string(FP8) // what one asks for
			}
			if l.Model.Checkpoint != "" && w.Precision.bytesPerWeight() == l.Model.Checkpoint.bytesPerWeight() {
				p += " (as it is published)"
			}
			parts = append(parts, p)
		}
		if w.TP != l.TP {
			parallel = append(parallel, fmt.Sprintf("tp %d", w.TP))
		}
		if w.PP != l.PP {
			parallel = append(parallel, fmt.Sprintf("pp %d", w.PP))
		}
		if len(parallel) > 0 {
			parts = append(parts, strings.Join(parallel, " and "))
		}
		texts = append(texts, strings.Join(parts, " with "))
	}
	return texts[0] + " would fit" + strings.Join(append([]string{""}, texts[1:]...), ", or ")
}

// logInterpolate returns the value at x of the points (xs, ys), straight in the
// logarithms of both between the points, and along the outer segments' slope
// beyond them. xs ascend and all is positive.
func logInterpolate(xs, ys []float64, x float64) float64 {
	i := 1
	for i < len(xs)-1 && x > xs[i] {
		i++
	}
	f := math.Log(x/xs[i-1]) / math.Log(xs[i]/xs[i-1])
	return ys[i-1] * math.Pow(ys[i]/ys[i-1], f)
}

// defaultLimits returns vLLM's defaults of max_num_seqs and
// max_num_batched_tokens for an API server on this device: devices with 70 GiB
// and more, A100 excepted, get the larger ones.
func defaultLimits(g *GPU) (seqs, tokens int) {
	if g.MemoryGiB.V >= 70 && !strings.HasPrefix(g.Name, "a100") {
		return 1024, 8192
	}
	return 256, 2048
}

// gemm returns the fit of a precision for an engine's kernels on the device: its
// own, else anybody's on the device, else the typical one.
func (c *Catalogue) gemm(g *GPU, p Precision, engine string) *GEMM {
	for _, fits := range [][]GEMM{g.GEMM, c.defaults.GEMM} {
		for _, e := range []string{engine, ""} {
			if i := slices.IndexFunc(fits, func(f GEMM) bool { return f.Precision == p && f.Engine == e }); i >= 0 {
				return &fits[i]
			}
		}
		if p == FP8Block {
			// Whatever engine's block kernel is nearer than another device's.
			if i := slices.IndexFunc(fits, func(f GEMM) bool { return f.Precision == p }); i >= 0 {
				return &fits[i]
			}
		}
	}
	panic("BUG: no multiplication constants for " + string(p))
}
