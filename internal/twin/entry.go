package twin

import (
	"fmt"
	"strconv"
	"strings"
)

// Figure is one value of an entry of the catalogue as a person reads it.
type Figure struct {
	Name, Value string
	Source      string
	Conf        Confidence
}

// Entry is one entry of the catalogue as a person reads it: every value with
// where it comes from.
type Entry struct {
	Name, Title string
	Figures     []Figure
}

func (e *Entry) value(name string, v Value, unit string) {
	if v.Source == "" {
		return
	}
	e.Figures = append(e.Figures, Figure{name, strings.TrimSpace(number(v.V) + " " + unit), v.Source, v.Conf})
}

func (e *Entry) row(name string, values []float64, source string, conf Confidence) {
	if len(values) == 0 {
		return
	}
	texts := make([]string, len(values))
	for i, v := range values {
		if texts[i] = number(v); v >= 100 {
			texts[i] = strconv.FormatFloat(v, 'f', 0, 64) // a row of seven must fit a terminal
		}
	}
	e.Figures = append(e.Figures, Figure{name, strings.Join(texts, " "), source, conf})
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// Entry lists the device's values.
func (g *GPU) Entry() Entry {
	e := Entry{Name: g.Name, Title: g.Title}
	e.value("bf16", g.BF16, "TFLOPS")
	e.value("fp8", g.FP8, "TFLOPS")
	e.value("fp4", g.FP4, "TFLOPS")
	e.value("memory", g.MemoryGiB, "GiB")
	e.value("bandwidth", g.Bandwidth, "TB/s")
	e.value("link", g.Link, "GB/s")
	e.value("domain", g.Domain, "devices")
	e.value("power", g.TDP, "W")
	for _, f := range g.GEMM {
		name := "gemm " + string(f.Precision)
		if f.Engine != "" {
			name += " " + f.Engine
		}
		text := fmt.Sprintf("eC %v eM %v t0 %v us p %v", f.EC, f.EM, f.T0us, f.P)
		e.Figures = append(e.Figures, Figure{name, text, f.Source, f.Conf})
	}
	if m := g.MoE; m != nil {
		e.value("experts ec", m.EC, "")
		e.value("experts em", m.EM, "")
		e.value("experts em ep8", m.EMep8, "")
		e.value("experts floor", m.T0us, "us")
		e.row("expert imbalance", m.Imbalance.V, m.Imbalance.Source, m.Imbalance.Conf)
	}
	if a := g.Attention; a != nil {
		e.row("prefill share", a.MFU.V, a.MFU.Source, a.MFU.Conf)
		e.value("decode floor", a.DecodeFloorUS, "us")
	}
	for _, a := range g.AllReduce {
		e.row("reduce tp2 us "+a.Engine, a.TP2, a.Source, a.Conf)
		e.row("reduce tp4 us "+a.Engine, a.TP4, a.Source, a.Conf)
		e.row("reduce tp8 us "+a.Engine, a.TP8, a.Source, a.Conf)
	}
	return e
}

// Entry lists the model's values.
func (m *Model) Entry() Entry {
	e := Entry{Name: m.Name, Title: m.ID}
	add := func(name string, value any) {
		e.Figures = append(e.Figures, Figure{name, fmt.Sprint(value), m.Source, m.Conf})
	}
	some := func(name string, n int) {
		if n != 0 {
			add(name, n)
		}
	}
	a, f := m.Attention, m.FFN
	add("parameters", fmt.Sprintf("%.4g B", m.Params()/1e9))
	add("active", fmt.Sprintf("%.4g B", m.ActiveParams()/1e9))
	add("layers", m.Layers)
	add("hidden", m.Hidden)
	add("attention", a.Kind)
	add("heads", a.Heads)
	some("KV heads", a.KVHeads)
	add("head size", a.HeadDim)
	some("value size", a.ValueDim)
	some("window", a.Window)
	some("window layers", a.WindowLayers)
	some("window KV heads", a.WindowKVHeads)
	some("query rank", a.QueryRank)
	some("KV rank", a.KVRank)
	some("position size", a.RopeDim)
	some("index heads", a.IndexHeads)
	some("index size", a.IndexDim)
	some("index top-k", a.TopK)
	add("feed-forward", f.Kind)
	some("width", f.Width)
	some("dense layers", f.DenseLayers)
	some("experts", f.Experts)
	some("active experts", f.Active)
	some("shared experts", f.Shared)
	some("expert width", f.ExpertWidth)
	add("vocabulary", m.Vocab)
	add("tied head", m.Tied)
	add("context", m.Context)
	if m.Checkpoint != "" {
		add("published in", m.Checkpoint)
	}
	return e
}

// Entry lists the engine's values.
func (p *EngineProfile) Entry() Entry {
	e := Entry{Name: p.Name, Title: p.Title}
	e.value("host", p.HostUS, "us per step")
	e.value("host, each", p.HostPerSeqUS, "us per sequence")
	e.value("serial", p.SerialUS, "us per step")
	e.value("memory share", p.MemoryUtilization, "")
	e.value("graphs", p.GraphsGiB, "GiB")
	e.value("request", p.APIRequestUS, "us")
	e.value("tokenize", p.TokenizeUS, "us per token")
	e.value("detokenize", p.DetokenizeUS, "us per token")
	e.value("first token", p.APILatencyUS, "us")
	return e
}

// String describes the attention in a word: query and KV heads, the window of the
// layers that have one.
func (a *ModelAttention) String() string {
	s := fmt.Sprintf("%d/%d", a.Heads, a.KVHeads)
	if a.Kind == MLA {
		s = fmt.Sprintf("%d latent", a.Heads)
	}
	switch {
	case a.IndexHeads > 0:
		s += fmt.Sprintf(" top %d", a.TopK)
	case a.WindowLayers > 0:
		s += fmt.Sprintf(" window %d", a.Window)
	}
	return s
}

// String describes the feed-forward layers in a word: their width, or of how many
// experts of which width how many are active.
func (f *FFN) String() string {
	if f.Kind != Experts {
		return fmt.Sprint(f.Width)
	}
	s := fmt.Sprintf("%d of %d", f.Active, f.Experts)
	if f.Shared > 0 {
		s += fmt.Sprintf("+%d", f.Shared)
	}
	return fmt.Sprintf("%s x %d", s, f.ExpertWidth)
}
