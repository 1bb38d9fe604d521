package twin

import (
	"math"

	"plimsoll/internal/workload"
)

// Facts are what the shape of a workload needs to know of the model, with weights
// in a precision and keys and values in two bytes each.
func (m *Model) Facts(p Precision) *workload.Facts {
	if p == "" {
		p = m.published(m.Name)
	}
	l := &Layout{Model: m, Precision: p, TP: 1, PP: 1, DP: 1}
	a := &m.Attention
	window := float64(a.WindowLayers)
	full := float64(m.Layers) - window
	pair := 2 * float64(a.Heads) * float64(a.HeadDim+a.valueDim())
	f := &workload.Facts{
		Name: m.Name, ActiveParams: m.ActiveParams(),
		PairFLOPs: full * pair, KVBytes: full * l.kvLayerBytes(),
	}
	if window > 0 {
		f.Window, f.WindowPairFLOPs, f.WindowKVBytes = a.Window, window*pair, window*l.windowBytes()
	}
	// Of a mixture, a step reads the experts that one of its tokens goes to.
	read := 1.0
	if m.FFN.Experts > 0 {
		read = 1 - math.Pow(1-float64(m.FFN.Active)/float64(m.FFN.Experts), workload.ShapeBatch)
	}
	routed := float64(m.moeLayers()*m.FFN.Experts) * m.expertParams() * p.bytesPerWeight()
	f.StepBytes = l.weightBytes() - (1-read)*routed
	if !m.Tied {
		// The embedding is looked up, not read.
		f.StepBytes -= 2 * float64(m.Hidden) * float64(m.Vocab)
	}
	return f
}
