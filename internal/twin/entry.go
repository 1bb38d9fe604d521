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
		texts[i] = number(v)
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
	if g.GEMM != nil {
		for _, f := range []struct {
			name string
			fit  *GEMM
		}{{"gemm bf16", g.GEMM.BF16}, {"gemm fp8", g.GEMM.FP8}} {
			if f.fit != nil {
				text := fmt.Sprintf("eC %v eM %v t0 %v us p %v", f.fit.EC, f.fit.EM, f.fit.T0us, f.fit.P)
				e.Figures = append(e.Figures, Figure{f.name, text, f.fit.Source, f.fit.Conf})
			}
		}
	}
	if a := g.Attention; a != nil {
		e.row("prefill share", a.MFU.V, a.MFU.Source, a.MFU.Conf)
		e.value("decode floor", a.DecodeFloorUS, "us")
	}
	if a := g.AllReduce; a != nil {
		e.row("reduce tp2 us", a.TP2, a.Source, a.Conf)
		e.row("reduce tp4 us", a.TP4, a.Source, a.Conf)
		e.row("reduce tp8 us", a.TP8, a.Source, a.Conf)
	}
	return e
}

// Entry lists the model's values.
func (m *Model) Entry() Entry {
	e := Entry{Name: m.Name, Title: m.ID}
	add := func(name string, value any) {
		e.Figures = append(e.Figures, Figure{name, fmt.Sprint(value), m.Source, m.Conf})
	}
	add("layers", m.Layers)
	add("hidden", m.Hidden)
	add("attention", m.Attention.Kind)
	add("heads", m.Attention.Heads)
	add("KV heads", m.Attention.KVHeads)
	add("head size", m.Attention.HeadDim)
	add("feed-forward", fmt.Sprintf("%s %d", m.FFN.Kind, m.FFN.Width))
	add("vocabulary", m.Vocab)
	add("tied head", m.Tied)
	add("context", m.Context)
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
