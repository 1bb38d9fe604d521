package twin

import (
	"fmt"
	"math"
	"strings"
)

// Precision is the number format of a model's linear layers. The output head,
// the embedding, attention and the KV cache stay bf16.
type Precision string

// The precisions that the step model has constants for.
const (
	BF16 Precision = "bf16"
	FP8  Precision = "fp8"
)

const gib = 1 << 30

// bytesPerKV is the size of one KV element: bf16, whatever the weights are.
const bytesPerKV = 2

// blockTokens is the size of a KV block, the default of vLLM.
const blockTokens = 16

// Layout is one replica's hardware: a model in a precision on TP devices, run
// by an engine.
type Layout struct {
	Model     *Model
	GPU       *GPU
	Engine    *EngineProfile
	Precision Precision
	// TP is the number of devices that share each layer, at least 1.
	TP int
	// MaxNumSeqs and MaxNumBatchedTokens size the activations.
	MaxNumSeqs, MaxNumBatchedTokens int
	// MemoryUtilization is the share of a device's memory that the engine takes,
	// 0 for the engine's default.
	MemoryUtilization float64
}

// linearParams is the number of elements of one layer's matrices.
func (m *Model) linearParams() float64 {
	a := m.Attention
	h := float64(m.Hidden)
	q, kv := float64(a.Heads*a.HeadDim), float64(a.KVHeads*a.HeadDim)
	return h*(q+2*kv) + q*h + 3*h*float64(m.FFN.Width)
}

// Params is the number of the model's parameters, embedding included.
func (m *Model) Params() float64 {
	embeddings := 2.0
	if m.Tied {
		embeddings = 1
	}
	return float64(m.Layers)*m.linearParams() + embeddings*float64(m.Hidden)*float64(m.Vocab)
}

// weightBytes is the size of the model's weights over all devices.
func (l *Layout) weightBytes() float64 {
	linear := float64(l.Model.Layers) * l.Model.linearParams()
	return linear*l.bytesPerWeight() + 2*(l.Model.Params()-linear)
}

func (l *Layout) bytesPerWeight() float64 {
	if l.Precision == FP8 {
		return 1
	}
	return 2
}

// kvHeads is the number of KV heads on one device. Below one head per device the
// heads are copied, so they do not shrink any further.
func (l *Layout) kvHeads() int { return max(1, l.Model.Attention.KVHeads/l.TP) }

// kvTokenBytes is the size of one token's keys and values on one device.
func (l *Layout) kvTokenBytes() float64 {
	return 2 * float64(l.kvHeads()*l.Model.Attention.HeadDim) * bytesPerKV * float64(l.Model.Layers)
}

// check returns what makes the layout impossible, with the numbers.
func (l *Layout) check() error {
	m, g := l.Model, l.GPU
	if m.Attention.Kind != "gqa" || m.FFN.Kind != "swiglu" {
		return fmt.Errorf("model %s: no step model for attention %q with feed-forward %q", m.Name, m.Attention.Kind, m.FFN.Kind)
	}
	switch l.Precision {
	case BF16:
	case FP8:
		if g.FP8.V == 0 {
			return fmt.Errorf("precision fp8: %s has no fp8 arithmetic; use bf16", g.Name)
		}
	default:
		return fmt.Errorf("precision %q: want bf16 or fp8", l.Precision)
	}
	if l.TP < 1 {
		return fmt.Errorf("tp %d: want at least 1", l.TP)
	}
	if m.Attention.Heads%l.TP != 0 {
		return fmt.Errorf("tp %d does not divide the %d attention heads of %s; use one of %s", l.TP, m.Attention.Heads, m.Name, divisors(m.Attention.Heads))
	}
	if kv := m.Attention.KVHeads; kv%l.TP != 0 && l.TP%kv != 0 {
		return fmt.Errorf("tp %d neither divides nor is a multiple of the %d KV heads of %s", l.TP, kv, m.Name)
	}
	if m.FFN.Width%l.TP != 0 {
		return fmt.Errorf("tp %d does not divide the feed-forward width %d of %s", l.TP, m.FFN.Width, m.Name)
	}
	if d := int(g.Domain.V); d > 1 && l.TP > d {
		return fmt.Errorf("tp %d: %s has %d devices in a scale-up domain", l.TP, g.Name, d)
	}
	if u := l.MemoryUtilization; u != 0 && !(u > 0 && u <= 1) {
		return fmt.Errorf("memory utilization %v: want a share in (0, 1]", u)
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
	// KVTokens is the number of tokens whose keys and values fit what is left.
	KVTokens int
}

// memory divides a device's memory: what the engine takes, less weights, the
// profiled peak of activations, and what libraries and graphs hold; the rest is
// for keys and values. Its constants are a survey's of published block counts.
func (l *Layout) memory() (Memory, error) {
	mem := l.divideMemory()
	if mem.KVTokens < blockTokens {
		left := mem.Usable - mem.Weights - mem.Activations - mem.Other
		return mem, fmt.Errorf(
			"%s in %s does not fit %d x %s: of %.1f GiB on each the engine may use %.1f GiB, weights take %.1f GiB, activations %.1f GiB, graphs and libraries %.1f GiB, which leaves %.1f GiB for keys and values; %s",
			l.Model.Name, l.Precision, l.TP, l.GPU.Name, l.GPU.MemoryGiB.V, mem.Usable/gib, mem.Weights/gib,
			mem.Activations/gib, mem.Other/gib, left/gib, l.fitHint())
	}
	return mem, nil
}

func (l *Layout) divideMemory() Memory {
	u := l.MemoryUtilization
	if u == 0 {
		u = l.Engine.MemoryUtilization.V
	}
	mem := Memory{
		Usable:  l.GPU.MemoryGiB.V * gib * u,
		Weights: l.weightBytes() / float64(l.TP),
	}
	// Bytes of activations per token and hidden element, halved: they shrink with
	// tp only as far as the sharded part of them does.
	perHidden := 5.0
	switch l.TP {
	case 1:
		perHidden = 10
	case 2:
		perHidden = 6
	}
	mem.Activations = 2*float64(l.MaxNumBatchedTokens)*float64(l.Model.Hidden)*perHidden +
		4*float64(l.MaxNumSeqs)*float64(l.Model.Vocab)/float64(l.TP)
	library := 0.15
	if l.TP > 1 {
		library = 0.6
	}
	mem.Other = (library + l.Engine.GraphsGiB.V) * gib
	left := mem.Usable - mem.Weights - mem.Activations - mem.Other
	mem.KVTokens = max(0, int(left/l.kvTokenBytes()))
	return mem
}

// fitHint names what would make the model fit.
func (l *Layout) fitHint() string {
	wider := *l
	for wider.TP = l.TP + 1; wider.TP <= l.Model.Attention.Heads; wider.TP++ {
		if wider.check() == nil && wider.divideMemory().KVTokens >= blockTokens {
			return fmt.Sprintf("tp %d would fit", wider.TP)
		}
	}
	if l.Precision == BF16 && l.GPU.FP8.V > 0 {
		return "try fp8 or a device with more memory"
	}
	return "use a device with more memory"
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
