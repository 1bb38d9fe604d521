package twin

import "math"

// Work is what one device did: the mean over the devices of a replica.
type Work struct {
	// FLOPs are floating point operations of matrices, Tensor the seconds that the
	// tensor cores would take for them at the full peak of each one's precision.
	FLOPs, Tensor float64
	// ReadBytes and WriteBytes are of the device's memory, LinkBytes what was sent
	// to other devices; as much came from there.
	ReadBytes, WriteBytes, LinkBytes float64
	// Busy is the seconds in which some kernel ran.
	Busy float64
}

// add adds so many times w.
func (s *Work) add(w *Work, times float64) {
	s.FLOPs += times * w.FLOPs
	s.Tensor += times * w.Tensor
	s.ReadBytes += times * w.ReadBytes
	s.WriteBytes += times * w.WriteBytes
	s.LinkBytes += times * w.LinkBytes
	s.Busy += times * w.Busy
}

// Meter tells what a step makes the devices do. It counts what has to be computed
// and moved, not how long it takes: the shares of the peaks that follow are what a
// device's own counters would show. It is read-only.
type Meter struct {
	steps   *Roofline
	devices float64
	// Per token: FLOPs and seconds of tensor cores at the peak over all devices
	// outside attention and head, and the same per sampled token for the head.
	tokenFLOPs, tokenTensor float64
	headFLOPs, headTensor   float64
	bf16                    float64 // FLOP/s
	decodePair              float64 // FLOPs per token of context and layer, on one device
	// On one device: bytes of weights that each step reads, of all its experts, of
	// the head, and of activations per token that are written and read again.
	weights, experts, head, activations float64
	expertCount, active                 float64
	reads                               float64 // how often a step reads the weights
	layers, kvWrite, index              float64
	// Bytes sent per token by one device, per replica's token.
	link float64
}

// NewMeter returns the meter of a layout whose step time is r.
func NewMeter(c *Catalogue, l *Layout, r *Roofline) *Meter {
	m := l.Model
	a := &m.Attention
	tp, pp, dp := float64(l.TP), float64(l.PP), float64(l.DP)
	h, vocab := float64(m.Hidden), float64(m.Vocab)
	layers, moe := float64(m.Layers), float64(m.moeLayers())
	dense, quant, bf16 := c.format(l, l.dense()), c.format(l, l.Precision), c.format(l, BF16)
	matrices := m.attentionTotal() + m.denseParams() + moe*float64(m.FFN.Shared)*m.expertParams()
	routed := moe * float64(m.FFN.Active) * m.expertParams()
	router := m.routerParams()
	k := &Meter{
		steps: r, devices: float64(l.Devices()),
		tokenFLOPs:  2 * (matrices + routed + router),
		tokenTensor: 2 * (matrices/dense.peak + routed/quant.peak + router/bf16.peak),
		headFLOPs:   2 * h * vocab, headTensor: 2 * h * vocab / bf16.peak,
		bf16:        bf16.peak,
		expertCount: float64(m.FFN.Experts), active: float64(m.FFN.Active),
		reads:  pp, // each stage once for every part of the batch
		layers: layers, index: float64(a.indexBytes()),
	}
	k.head = 2 * h * vocab / tp
	k.experts = moe * float64(m.FFN.Experts) * m.expertParams() * l.Precision.bytesPerWeight() / (tp * dp * pp)
	k.weights = (matrices*l.dense().bytesPerWeight() + 2*router) / (tp * pp)
	heads := float64(a.Heads) / tp
	k.decodePair = 2 * heads * float64(a.HeadDim+a.valueDim())
	if a.Kind == MLA {
		k.decodePair = 2 * heads * float64(2*a.KVRank+a.RopeDim)
	}
	k.kvWrite = (r.full*r.kvLayerBytes + r.cut*r.windowBytes) / (dp * pp)
	// Point-wise kernels, per token: half of it read, half written.
	width := (layers - moe) * float64(m.FFN.Width)
	if moe > 0 {
		width += moe * float64(m.FFN.Active+m.FFN.Shared) * float64(m.FFN.ExpertWidth)
	}
	k.activations = (layers*(16*h+4*(heads*float64(a.HeadDim)+l.shard(max(1, a.KVHeads))*float64(a.HeadDim))) + 6*width/tp) / (dp * pp)
	if l.TP > 1 {
		n := 2*layers + 1
		if l.DP > 1 {
			n -= moe
		}
		k.link += n * 2 * (tp - 1) / tp * 2 * h / (dp * pp)
	}
	if group := tp * dp; l.DP > 1 {
		share := (group - 1) / group
		if l.EP > 1 {
			k.link += moe * float64(m.FFN.Active) * (h*quant.activation + 2*h) / group * share / pp
		} else {
			k.link += moe * 4 * h * share / pp
		}
	}
	if l.PP > 1 {
		k.link += 2 * h * (pp - 1) / pp / (tp * dp)
	}
	return k
}

// Work returns what a step makes each device do.
func (k *Meter) Work(b *Batch) Work {
	r := k.steps
	tokens, samples := float64(b.tokens()), float64(b.Sampled)
	parts := float64(r.ranks * r.stages)
	var w Work
	w.FLOPs = (tokens*k.tokenFLOPs + samples*k.headFLOPs) / k.devices
	w.Tensor = (tokens*k.tokenTensor + samples*k.headTensor) / k.devices

	attention := 0.0 // FLOPs
	kv := float64(b.KV)
	switch {
	case r.topK > 0:
		attention += r.full * (kv*r.indexFlops + float64(b.Windowed)*k.decodePair)
		w.ReadBytes += r.full * (kv*k.index + float64(b.Windowed)*(r.kvLayerBytes-k.index))
	default:
		attention += k.decodePair * (r.full*kv + r.cut*float64(b.Windowed))
		w.ReadBytes += r.full*kv*r.kvLayerBytes + r.cut*float64(b.Windowed)*r.windowBytes
	}
	for _, c := range b.Chunks {
		s := float64(c.New + c.Past)
		if r.topK > 0 {
			attention += r.full * (pairs(c, math.Inf(1))*r.indexFlops + pairs(c, float64(r.topK))*r.pairFlops)
			w.ReadBytes += r.full * s * r.kvLayerBytes
			continue
		}
		attention += r.full * pairs(c, math.Inf(1)) * r.pairFlops
		w.ReadBytes += r.full * s * r.kvLayerBytes
		if r.cut > 0 {
			attention += r.cut * pairs(c, float64(r.window)) * r.pairFlops
			w.ReadBytes += r.cut * min(s, float64(r.window+c.New)) * r.windowBytes
		}
	}
	w.ReadBytes /= parts
	w.FLOPs += attention / parts
	w.Tensor += attention / parts / k.bf16

	if tokens > 0 {
		w.ReadBytes += k.reads * k.weights
		if k.experts > 0 {
			touched := -math.Expm1(tokens / float64(r.stages) * math.Log1p(-k.active/k.expertCount))
			w.ReadBytes += k.reads * k.experts * touched
		}
	}
	if samples > 0 {
		w.ReadBytes += k.head
	}
	w.ReadBytes += tokens * k.activations / 2
	w.WriteBytes = tokens * (k.activations/2 + k.kvWrite)
	w.LinkBytes = tokens * k.link
	device, _ := r.times(b)
	w.Busy = device
	return w
}

// utilization is the share of a device's memory that the engine takes.
func (l *Layout) utilization() float64 {
	if l.MemoryUtilization > 0 {
		return l.MemoryUtilization
	}
	return l.Engine.MemoryUtilization.V
}
