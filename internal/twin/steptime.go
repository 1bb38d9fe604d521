package twin

import (
	"math"
	"math/bits"
	"time"
)

// Chunk is a piece of a prompt that one step computes: New tokens after Past
// tokens whose keys and values are there already.
type Chunk struct{ New, Past int }

// Batch is the work of one step.
type Batch struct {
	// Decodes is the number of sequences that get their next token, KV the sum of
	// their contexts, the token of this step included.
	Decodes int
	KV      int64
	Chunks  []Chunk
	// Sampled is the number of sequences that a token is sampled for: decodes and
	// the chunks that end a prompt.
	Sampled int
}

// tokens is the number of tokens that go through the linear layers.
func (b *Batch) tokens() int {
	n := b.Decodes
	for _, c := range b.Chunks {
		n += c.New
	}
	return n
}

// StepTimer says how long a step lasts. Implementations are pure functions of
// the batch and safe for concurrent use.
type StepTimer interface {
	// StepTime returns nanoseconds, above 0. It is not rounded, so that sums over
	// many steps carry no bias.
	StepTime(b *Batch) float64
}

// FixedStep is a step of one length, whatever it computes.
type FixedStep time.Duration

// StepTime returns the fixed length.
func (f FixedStep) StepTime(*Batch) float64 { return float64(f) }

// Roofline is the step time of dense models from FLOPs and bytes, with fitted
// shares of both peaks (the survey's section 2). All tokens of a step go through
// the same matrix multiplications, so decoding beside a long prompt is nearly
// free: times of prefill and decode are never added.
//
// What depends on the number of tokens is tabulated per token. What decoding
// attention costs is a continuous function of the KV sum alone, straight between
// breakpoints that are whole numbers (kvPoint), so that stretches of equal steps
// can be summed in closed form.
type Roofline struct {
	// linear[T] is the time in s of everything that T tokens cost outside
	// attention, over all layers; head[S] that of sampling S tokens.
	linear, head []float64
	// attention[i] is the decoding attention in s over all layers at kvPoint(i).
	attention []float64

	layers       float64
	heads, dim   float64
	flops        float64
	bandwidth    float64
	kvLayerBytes float64
	mfu          []float64

	overlap              bool
	host, perSeq, serial float64

	at func(tokens int) float64
	in func(samples int) float64
}

// prefillContexts are the centres of the bins that Attention.MFU was measured in.
var prefillContexts = []float64{1536, 3072, 6144, 12288, 24576}

// allReduceBytes are the message sizes of the tables in AllReduce.
var allReduceBytes = []float64{16 << 10, 128 << 10, 512 << 10, 2 << 20, 8 << 20, 32 << 20, 128 << 20}

const (
	// attentionLaunch is the floor of a prefill attention call per layer.
	attentionLaunch = 8e-6
	// elementwiseFloor is the time of a layer's point-wise kernels on few tokens,
	// elementwiseShare the share of the bandwidth that they reach on many.
	elementwiseFloor, elementwiseShare = 8e-6, 0.55
	// Decoding attention reaches u(x) of the bandwidth at x bytes per layer.
	decodeShareBase, decodeShareGain, decodeShareHalf, decodeShareCap = 0.02, 0.9, 45e6, 0.89
	// samplingShare is the share of the bandwidth that sampling reaches over three
	// passes of fp32 logits.
	samplingShare = 0.5
	// Where no all-reduce was measured: latency and share of the link, guesses of
	// the order of the measured ones.
	allReduceLatency, allReduceShare = 8e-6, 0.7
)

// NewRoofline tabulates the step time of a layout.
func NewRoofline(c *Catalogue, l *Layout) *Roofline {
	m, g, tp := l.Model, l.GPU, float64(l.TP)
	att := c.defaults.Attention
	if g.Attention != nil {
		att = *g.Attention
	}
	r := &Roofline{
		layers:       float64(m.Layers),
		heads:        float64(m.Attention.Heads) / tp,
		dim:          float64(m.Attention.HeadDim),
		flops:        g.BF16.V * 1e12,
		bandwidth:    g.Bandwidth.V * 1e12,
		kvLayerBytes: l.kvTokenBytes() / float64(m.Layers),
		mfu:          att.MFU.V,
		overlap:      l.Engine.Overlap,
		host:         l.Engine.HostUS.V * 1e-6,
		perSeq:       l.Engine.HostPerSeqUS.V * 1e-6,
		serial:       l.Engine.SerialUS.V * 1e-6,
	}

	bf16, peak, weight := c.gemm(g, BF16), r.flops, 2.0
	linear := bf16
	if l.Precision == FP8 {
		linear, peak, weight = c.gemm(g, FP8), g.FP8.V*1e12, 1
	}
	h, f, d := float64(m.Hidden), float64(m.FFN.Width), r.dim
	q, kv := r.heads*d, float64(l.kvHeads())*d
	elementwise := (16*h + 6*f/tp + 4*(q+kv)) / (elementwiseShare * r.bandwidth)
	r.at = func(tokens int) float64 {
		if tokens == 0 {
			return 0
		}
		t := float64(padTokens(tokens))
		one := func(n, k float64) float64 { return linear.time(t, n, k, peak, r.bandwidth, weight, weight) }
		layer := one(q+2*kv, h) + one(h, q) + one(2*f/tp, h) + one(h, f/tp)
		layer += elementwise*t + elementwiseFloor
		reduce := 0.0
		if l.TP > 1 {
			reduce = g.allReduce(l.TP, t*h*2)
		}
		return r.layers*(layer+2*reduce) + reduce
	}
	vocab := float64(m.Vocab)
	r.in = func(samples int) float64 {
		if samples == 0 {
			return 0
		}
		s := float64(samples)
		return bf16.time(s, vocab/tp, h, r.flops, r.bandwidth, 2, 2) + 12*s*vocab/(samplingShare*r.bandwidth)
	}
	r.linear = make([]float64, l.MaxNumBatchedTokens+1)
	for t := range r.linear {
		r.linear[t] = r.at(t)
	}
	r.head = make([]float64, l.MaxNumSeqs+1)
	for s := range r.head {
		r.head[s] = r.in(s)
	}
	floor := att.DecodeFloorUS.V * 1e-6
	r.attention = make([]float64, kvPoints)
	for i := range r.attention {
		x := float64(kvPoint(i)) * r.kvLayerBytes
		if x > 0 {
			u := min(decodeShareCap, decodeShareBase+decodeShareGain*x/(x+decodeShareHalf))
			r.attention[i] = r.layers * max(floor, x/(r.bandwidth*u))
		}
	}
	return r
}

// gemm returns the device's fit for a precision, else the default.
func (c *Catalogue) gemm(g *GPU, p Precision) *GEMM {
	own, fallback := (*GEMM)(nil), c.defaults.GEMM.BF16
	if g.GEMM != nil {
		own = g.GEMM.BF16
	}
	if p == FP8 {
		own, fallback = nil, c.defaults.GEMM.FP8
		if g.GEMM != nil {
			own = g.GEMM.FP8
		}
	}
	if own != nil {
		return own
	}
	return fallback
}

// time returns the seconds of an m x k by k x n multiplication with w bytes per
// weight and a bytes per activation: a p-norm of the time that the arithmetic
// and the memory would take alone, over a floor.
func (f *GEMM) time(m, n, k, peak, bandwidth, w, a float64) float64 {
	compute := 2 * m * n * k / (peak * f.EC)
	memory := (n*k*w + m*k*a + 2*m*n) / (bandwidth * f.EM)
	if f.P == 1 {
		return f.T0us*1e-6 + compute + memory
	}
	return f.T0us*1e-6 + math.Pow(math.Pow(compute, f.P)+math.Pow(memory, f.P), 1/f.P)
}

// allReduce returns the seconds of an all-reduce of so many bytes over tp
// devices.
func (g *GPU) allReduce(tp int, size float64) float64 {
	var table []float64
	if a := g.AllReduce; a != nil {
		switch tp {
		case 2:
			table = a.TP2
		case 4:
			table = a.TP4
		case 8:
			table = a.TP8
		}
	}
	if len(table) == 0 {
		n := float64(tp)
		return allReduceLatency + 2*(n-1)/n*size/(g.Link.V*1e9*allReduceShare)
	}
	return 1e-6 * logInterpolate(allReduceBytes, table, max(size, allReduceBytes[0]))
}

// padTokens rounds a batch up to the sizes that engines capture as graphs: 1, 2,
// 4, then multiples of 8 up to 512. Larger batches run at their own size.
func padTokens(t int) int {
	switch {
	case t <= 2 || t > 512:
		return t
	case t <= 4:
		return 4
	default:
		return (t + 7) &^ 7
	}
}

// The breakpoints of the KV sum: every number up to 32, then 16 to an octave, up
// to 2^48 tokens. Between two of them the attention time is off by less than
// 0.1 %.
const kvPoints = 16 * (48 - 3)

// kvPoint returns the i-th breakpoint, kvIndex the last one that is not above kv.
func kvPoint(i int) int64 {
	if i < 32 {
		return int64(i)
	}
	return int64(16+i&15) << (i>>4 - 1)
}

func kvIndex(kv int64) int {
	if kv < 32 {
		return int(kv)
	}
	e := bits.Len64(uint64(kv)) - 5
	return e<<4 + int(kv>>e)
}

// decodeAttention returns the seconds of decoding attention over all layers.
func (r *Roofline) decodeAttention(kv int64) float64 {
	i := kvIndex(kv)
	if i >= kvPoints-1 {
		return r.attention[kvPoints-1]
	}
	x0, x1 := kvPoint(i), kvPoint(i+1)
	return r.attention[i] + (r.attention[i+1]-r.attention[i])*float64(kv-x0)/float64(x1-x0)
}

// prefillAttention returns the seconds of a step's chunks over all layers,
// without the launch.
func (r *Roofline) prefillAttention(chunks []Chunk) float64 {
	sum := 0.0
	for _, c := range chunks {
		n, p := float64(c.New), float64(c.Past)
		flops := 4 * r.heads * r.dim * (n*p + n*n/2)
		sum += max(flops/(r.flops*r.prefillMFU(n+p)), (n+p)*r.kvLayerBytes/r.bandwidth)
	}
	return sum * r.layers
}

// prefillMFU returns the share of the peak at a context, between the measured
// bins straight in the logarithm of the context, outside them the outer bin's.
func (r *Roofline) prefillMFU(context float64) float64 {
	last := len(prefillContexts) - 1
	context = min(max(context, prefillContexts[0]), prefillContexts[last])
	return logInterpolate(prefillContexts, r.mfu, context)
}

// StepTime returns the time of a step in ns: what the device and the host take,
// one behind the other or at once.
func (r *Roofline) StepTime(b *Batch) float64 {
	device, host := r.times(b)
	if r.overlap {
		return 1e9 * (max(device, host) + r.serial)
	}
	return 1e9 * (device + host + r.serial)
}

// times returns the seconds that the device and the host work on a step.
func (r *Roofline) times(b *Batch) (device, host float64) {
	tokens := b.tokens()
	if tokens < len(r.linear) {
		device = r.linear[tokens]
	} else {
		device = r.at(tokens)
	}
	if b.Sampled < len(r.head) {
		device += r.head[b.Sampled]
	} else {
		device += r.in(b.Sampled)
	}
	if b.Decodes > 0 {
		device += r.decodeAttention(b.KV)
	}
	if len(b.Chunks) > 0 {
		device += r.prefillAttention(b.Chunks) + r.layers*attentionLaunch
	}
	return device, r.host + r.perSeq*float64(b.Decodes+len(b.Chunks))
}
