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
	// Windowed is the sum of the decoding sequences' contexts, each cut to the
	// timer's Window; Growing the number of those that are not cut yet, so that
	// the next step's sum is that much larger. Both are 0 without a window.
	Windowed int64
	Growing  int
	Chunks   []Chunk
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

// Windower is a StepTimer for a model some of whose layers see only the last
// Window tokens. The engine then keeps the sum of the cut contexts, too.
type Windower interface {
	StepTimer
	// Window returns the number of tokens, 0 for none.
	Window() int
}

// FixedStep is a step of one length, whatever it computes.
type FixedStep time.Duration

// StepTime returns the fixed length.
func (f FixedStep) StepTime(*Batch) float64 { return float64(f) }

// Roofline is the step time from FLOPs and bytes, with fitted shares of both peaks
// (the survey's section 2). All tokens of a step go through the same matrix
// multiplications, so decoding beside a long prompt is nearly free: times of
// prefill and decode are never added.
//
// What depends on the number of tokens is tabulated per token. What decoding
// attention costs is a continuous function of the KV sum (and of the sum of the
// contexts cut to a window), straight between breakpoints that are whole numbers
// (kvPoint), so that stretches of equal steps can be summed in closed form.
type Roofline struct {
	// linear[T] is the time in s of everything outside attention and experts that T
	// tokens on one rank cost over all layers, experts[T] that of the experts with
	// what it takes to reach them, of T tokens on all ranks; head[S] that of
	// sampling S tokens.
	linear, experts, head []float64
	// attention[i] is the decoding attention in s over all layers that see
	// everything at a KV sum of kvPoint(i), windowed[i] that of the layers with a
	// window at the sum of the cut contexts.
	attention, windowed []float64

	// ranks attend to sequences of their own, stages work on parts of the batch
	// one behind the other.
	ranks, stages int
	full, cut     float64 // layers without and with a window
	window        int
	flops         float64
	bandwidth     float64
	// Of prefill attention: FLOPs per pair of tokens and layer, and bytes per token.
	pairFlops                 float64
	kvLayerBytes, windowBytes float64
	indexFlops                float64
	topK                      int
	mfu                       []float64

	overlap              bool
	host, perSeq, serial float64

	at  func(tokens int) float64
	moe func(tokens int) float64
	in  func(samples int) float64
}

// With returns the same step time under another engine's host overhead.
func (r *Roofline) With(e *EngineProfile) *Roofline {
	other := *r
	other.overlap = e.Overlap
	other.host, other.perSeq, other.serial = e.HostUS.V*1e-6, e.HostPerSeqUS.V*1e-6, e.SerialUS.V*1e-6
	return &other
}

// Window returns the number of tokens that layers with a window see, 0 without
// such layers.
func (r *Roofline) Window() int { return r.window }

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
	// An all-to-all, all-gather or reduce-scatter of NCCL: latency on few bytes and
	// share of the link on many, read from measured H100 and B200 tables (1 MiB in 16
	// us, 64 MiB in 140 to 220 us).
	exchangeLatency, exchangeShare = 12e-6, 0.65
	// Between the stages of a pipeline: latency, share of the link inside a domain
	// (350 of 450 GB/s measured), and bytes per second between domains (36 GB/s
	// measured on H100).
	stageLatency, stageShare, stageOutside = 10e-6, 0.78, 36e9
	// decodeFlops is the share of the arithmetic that decoding attention reaches
	// where it is bound by it: many query heads per KV head. A guess.
	decodeFlops = 0.6
)

// format is how a multiplication's operands are stored and computed.
type format struct {
	fit                *GEMM
	peak               float64 // FLOP/s
	weight, activation float64 // bytes
}

// format returns the constants of a precision on the layout's device.
func (c *Catalogue) format(l *Layout, p Precision) format {
	g, e := l.GPU, l.Engine
	bf16 := c.gemm(g, BF16, e.Policy)
	f := format{fit: c.gemm(g, p, e.Policy), peak: g.BF16.V * 1e12, weight: p.bytesPerWeight(), activation: 2}
	switch p {
	case FP8, FP8Block:
		f.peak, f.activation = g.FP8.V*1e12, 1
	case FP4:
		if g.FP4.V == 0 {
			// Only experts get here: their weights are expanded, as those of int4.
			f.fit = c.gemm(g, INT4, e.Policy)
			return f
		}
		f.peak, f.activation = g.FP4.V*1e12, 0.5625
	}
	// The fits of fp8 contain a kernel that quantises the activations. Where that is
	// fused into the kernel before, the floor and the turn are those of bf16. fp4 has
	// a scale per 16 elements and keeps its kernel.
	if e.FusedQuantization && p == FP8 {
		fused := *f.fit
		fused.T0us, fused.P = bf16.T0us, bf16.P
		f.fit = &fused
	}
	return f
}

// NewRoofline tabulates the step time of a layout that has passed Check.
func NewRoofline(c *Catalogue, l *Layout) *Roofline {
	m, g, tp := l.Model, l.GPU, float64(l.TP)
	a := &m.Attention
	att := c.defaults.Attention
	if g.Attention != nil {
		att = *g.Attention
	}
	heads, d, v := float64(a.Heads)/tp, float64(a.HeadDim), float64(a.valueDim())
	r := &Roofline{
		ranks: l.DP, stages: l.PP,
		full: float64(m.Layers - a.WindowLayers), cut: float64(a.WindowLayers),
		flops:        g.BF16.V * 1e12,
		bandwidth:    g.Bandwidth.V * 1e12,
		pairFlops:    2 * heads * (d + float64(a.RopeDim) + v),
		kvLayerBytes: l.kvLayerBytes(),
		windowBytes:  l.windowBytes(),
		mfu:          att.MFU.V,
		overlap:      l.Engine.Overlap,
		host:         l.Engine.HostUS.V * 1e-6,
		perSeq:       l.Engine.HostPerSeqUS.V * 1e-6,
		serial:       l.Engine.SerialUS.V * 1e-6,
	}
	switch {
	case a.IndexHeads > 0:
		r.topK, r.window = a.TopK, a.TopK
		r.indexFlops = 2 * float64(a.IndexHeads*a.IndexDim)
	case a.WindowLayers > 0:
		r.window = a.Window
	}

	dense := c.format(l, l.dense())
	bf16 := c.format(l, BF16)
	h, f := float64(m.Hidden), float64(m.FFN.Width)
	shared := float64(m.FFN.Shared * m.FFN.ExpertWidth)
	reads := func(f format, t, n, k float64) float64 {
		return f.fit.time(t, n, k, f.peak, r.bandwidth, f.weight, f.activation)
	}
	moeLayers := float64(m.moeLayers())
	denseLayers := float64(m.Layers) - moeLayers
	attention := func(t, kvHeads float64) float64 {
		if a.Kind == MLA {
			rank, rope, q := float64(a.KVRank), float64(a.RopeDim), float64(a.QueryRank)
			sum := reads(dense, t, heads*(d+v), rank) + reads(dense, t, h, heads*v)
			if q > 0 {
				sum += reads(dense, t, q+rank+rope, h) + reads(dense, t, heads*(d+rope), q)
			} else {
				sum += reads(dense, t, heads*(d+rope)+rank+rope, h)
			}
			if a.IndexHeads > 0 {
				sum += reads(dense, t, float64(a.IndexHeads*a.IndexDim), q) + reads(bf16, t, float64(a.IndexDim+a.IndexHeads), h)
			}
			return sum
		}
		return reads(dense, t, heads*d+kvHeads*(d+v), h) + reads(dense, t, h, heads*v)
	}
	// Bytes of point-wise kernels per token and layer, without the feed-forward part.
	pointwise := 16*h + 4*(heads*d+l.shard(max(1, a.KVHeads))*d)
	share := elementwiseShare * r.bandwidth
	r.at = func(tokens int) float64 {
		if tokens == 0 {
			return 0
		}
		t := float64(padTokens((tokens + l.PP - 1) / l.PP))
		sum := r.full * attention(t, l.shard(a.KVHeads))
		if r.cut > 0 {
			sum += r.cut * attention(t, l.shard(a.windowKVHeads()))
		}
		layers := float64(m.Layers)
		sum += layers * (pointwise*t/share + elementwiseFloor)
		if denseLayers > 0 {
			sum += denseLayers * (reads(dense, t, 2*f/tp, h) + reads(dense, t, h, f/tp) + 6*f/tp*t/share)
		}
		if l.TP > 1 {
			reduce := g.allReduce(l.Engine.Policy, l.TP, t*h*2)
			// With ranks of their own, experts exchange instead of reducing.
			n := 2*layers + 1
			if l.DP > 1 {
				n -= moeLayers
			}
			sum += n * reduce
		}
		if l.PP > 1 {
			link := stageOutside
			if l.Devices() <= int(g.Domain.V) {
				link = g.Link.V * 1e9 * stageShare
			}
			sum += float64(l.PP-1) * (stageLatency + t*h*2/link)
		}
		return sum
	}
	r.moe = c.experts(l, shared, moeLayers, share, dense)
	vocab := float64(m.Vocab)
	r.in = func(samples int) float64 {
		if samples == 0 {
			return 0
		}
		s := math.Ceil(float64(samples) / float64(l.DP))
		return reads(bf16, s, vocab/tp, h) + 12*s*vocab/(samplingShare*r.bandwidth)
	}
	r.linear = tabulate(r.at, l.MaxNumBatchedTokens)
	if r.moe != nil {
		r.experts = tabulate(r.moe, l.MaxNumBatchedTokens)
	}
	r.head = tabulate(r.in, l.MaxNumSeqs)

	floor := att.DecodeFloorUS.V * 1e-6
	parts := float64(l.DP * l.PP)
	// decode returns the seconds per layer of reading and computing so many tokens'
	// keys and values.
	decode := func(tokens, bytes, flops float64) float64 {
		x := tokens * bytes
		if x == 0 {
			return 0
		}
		u := min(decodeShareCap, decodeShareBase+decodeShareGain*x/(x+decodeShareHalf))
		return max(floor, x/(r.bandwidth*u), tokens*flops/(r.flops*decodeFlops))
	}
	// A latent is read once for all heads and multiplied with each, key and value.
	pair := 4 * heads * d
	if a.Kind == MLA {
		pair = 2 * heads * float64(2*a.KVRank+a.RopeDim)
	} else if v != d {
		pair = 2 * heads * (d + v)
	}
	table := func(layers, bytes, flops float64) []float64 {
		t := make([]float64, kvPoints)
		for i := range t {
			t[i] = layers * decode(float64(kvPoint(i))/parts, bytes, flops)
		}
		return t
	}
	switch {
	case a.IndexHeads > 0:
		index := float64(a.indexBytes())
		r.attention = table(r.full, index, r.indexFlops)
		r.windowed = table(r.full, r.kvLayerBytes-index, pair)
	default:
		r.attention = table(r.full, r.kvLayerBytes, pair)
		if r.cut > 0 {
			r.windowed = table(r.cut, r.windowBytes, pair)
		}
	}
	return r
}

func tabulate(f func(int) float64, n int) []float64 {
	t := make([]float64, n+1)
	for i := range t {
		t[i] = f(i)
	}
	return t
}

// experts returns the time in s that a batch spends in and on the way to the
// experts of all layers, nil for a model without.
func (c *Catalogue) experts(l *Layout, shared, layers, share float64, dense format) func(tokens int) float64 {
	m, g := l.Model, l.GPU
	if layers == 0 {
		return nil
	}
	k := c.defaults.MoE
	if g.MoE != nil {
		k = *g.MoE
	}
	quant := c.format(l, l.Precision)
	router := c.format(l, BF16)
	h, f := float64(m.Hidden), float64(m.FFN.ExpertWidth)
	e, active, ep := float64(m.FFN.Experts), float64(m.FFN.Active), float64(l.EP)
	tp, group := float64(l.TP), float64(l.TP*l.DP)
	bandwidth := g.Bandwidth.V * 1e12
	// Between one and eight groups straight in the logarithm of their number.
	x := min(1, math.Log2(ep)/3)
	em := k.EM.V + x*(k.EMep8.V-k.EM.V)
	imbalance := k.Imbalance.V[0] + x*(k.Imbalance.V[1]-k.Imbalance.V[0])
	if l.EP > 8 {
		imbalance = k.Imbalance.V[2]
	}
	link := g.Link.V * 1e9
	// A row is what the experts read: fp8 with its scales, or bf16.
	row := h * quant.activation
	exchange := func(bytes, n float64) float64 {
		return exchangeLatency + bytes*(n-1)/n/(link*exchangeShare)
	}
	return func(tokens int) float64 {
		if tokens == 0 {
			return 0
		}
		t := float64(padTokens((tokens + l.PP - 1) / l.PP))
		// Touched experts, each token choosing its own at random.
		touched := e * -math.Expm1(t*math.Log1p(-active/e))
		flops := 2 * t * active * 3 * h * f / group * imbalance
		bytes := touched/ep*3*h*f*quant.weight*ep/group + t*active*(2*row+2*f*2)/group
		sum := k.T0us.V*1e-6 + max(flops/(quant.peak*k.EC.V), bytes/(bandwidth*em))
		rank := math.Ceil(t / float64(l.DP))
		sum += router.fit.time(rank, e, h, router.peak, bandwidth, 2, 2) + 6*active*f/tp*rank/share
		if shared > 0 {
			sum += dense.fit.time(rank, 2*shared/tp, h, dense.peak, bandwidth, dense.weight, dense.activation) +
				dense.fit.time(rank, h, shared/tp, dense.peak, bandwidth, dense.weight, dense.activation)
		}
		switch {
		case l.DP == 1:
			// All devices have all tokens; their parts are summed by the all-reduce
			// that dense layers have, too.
		case l.EP > 1:
			sum += exchange(t*active*row/group, group) + exchange(t*active*h*2/group, group)
		default:
			sum += exchange(t*h*2, group) + exchange(t*h*2, group)
		}
		return layers * sum
	}
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
// devices, by an engine's own kernel where it was measured.
func (g *GPU) allReduce(engine string, tp int, size float64) float64 {
	var table []float64
	for i := range g.AllReduce {
		a := &g.AllReduce[i]
		row := a.TP8
		switch tp {
		case 2:
			row = a.TP2
		case 4:
			row = a.TP4
		case 8:
		default:
			continue
		}
		if len(row) > 0 && (len(table) == 0 || a.Engine == engine) {
			table = row
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
func (r *Roofline) decodeAttention(b *Batch) float64 {
	t := straight(r.attention, b.KV)
	if r.window > 0 {
		t += straight(r.windowed, b.Windowed)
	}
	return t
}

// straight returns the value at kv of a table over the KV points.
func straight(table []float64, kv int64) float64 {
	i := kvIndex(kv)
	if i >= kvPoints-1 {
		return table[kvPoints-1]
	}
	x0, x1 := kvPoint(i), kvPoint(i+1)
	return table[i] + (table[i+1]-table[i])*float64(kv-x0)/float64(x1-x0)
}

// pairs is the number of pairs of tokens that a chunk attends to when each sees at
// most window tokens up to itself.
func pairs(c Chunk, window float64) float64 {
	n, p := float64(c.New), float64(c.Past)
	all := n*p + n*n/2
	if n+p <= window {
		return all
	}
	// Of the tokens after the window is full each sees window of them.
	grow := max(0, window-p)
	return grow*p + grow*grow/2 + (n-grow)*window
}

// prefillAttention returns the seconds of a step's chunks over all layers,
// without the launch. Each rank has its share of them, but no chunk is split.
func (r *Roofline) prefillAttention(chunks []Chunk) float64 {
	sum, longest := 0.0, 0.0
	for _, c := range chunks {
		s := float64(c.New + c.Past)
		var t float64
		full := func(pairs, bytes, seen float64) float64 {
			return max(pairs*r.pairFlops/(r.flops*r.prefillMFU(seen)), seen*bytes/r.bandwidth)
		}
		switch {
		case r.topK > 0:
			t = r.full * (pairs(c, math.Inf(1))*r.indexFlops/(r.flops*r.prefillMFU(s)) + full(pairs(c, float64(r.topK)), r.kvLayerBytes, min(s, float64(r.topK))))
		default:
			t = r.full * full(pairs(c, math.Inf(1)), r.kvLayerBytes, s)
			if r.cut > 0 {
				t += r.cut * full(pairs(c, float64(r.window)), r.windowBytes, min(s, float64(r.window+c.New)))
			}
		}
		sum += t
		longest = max(longest, t)
	}
	return max(sum/float64(r.ranks), longest) / float64(r.stages)
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
	rank := tokens
	if r.ranks > 1 {
		// The slowest rank has its share of the tokens, or the longest chunk.
		rank = (tokens + r.ranks - 1) / r.ranks
		for _, c := range b.Chunks {
			rank = max(rank, c.New)
		}
	}
	device = look(r.linear, r.at, rank) + look(r.head, r.in, b.Sampled)
	if r.moe != nil {
		device += look(r.experts, r.moe, tokens)
	}
	if b.Decodes > 0 {
		device += r.decodeAttention(b)
	}
	if len(b.Chunks) > 0 {
		device += r.prefillAttention(b.Chunks) + (r.full+r.cut)*attentionLaunch
	}
	return device, r.host + r.perSeq*float64(b.Decodes+len(b.Chunks))
}

// look returns the value of a table, or of its function beyond it.
func look(table []float64, f func(int) float64, i int) float64 {
	if i < len(table) {
		return table[i]
	}
	return f(i)
}
