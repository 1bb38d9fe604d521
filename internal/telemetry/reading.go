package telemetry

import (
	"maps"
	"slices"

	"plimsoll/internal/signal"
)

// Missing is a canonical signal that a page could give and does not.
type Missing struct {
	// Source is the source whose table knows the signal.
	Source string `json:"source"`
	// Signal is its canonical name.
	Signal string `json:"signal"`
	// Why says why it is missing; never empty.
	Why string `json:"why"`
	// Enable says how to make the server publish it; empty when nothing is known.
	Enable string `json:"enable,omitempty"`
}

// Reading is what one page says at one instant.
type Reading struct {
	// Sources are the sources recognised.
	Sources []string
	// Signals are the canonical signals: gauges and constants combined over instances as the
	// signal combines (of those that combine by mean also NAME_max where there is more than one instance), counters their total,
	// distributions their mean since the server started, ratios part over whole. What is unknown is not there.
	Signals map[string]float64
	// Missing are the signals that the sources could give and this page does not.
	Missing []Missing
	// Info says what the page held.
	Info PageInfo
}

// ReadPage reads one page by the built-in tables and those given; of two with one source name the one given counts.
func ReadPage(body []byte, contentType string, tables ...*Table) (*Reading, error) {
	r := NewReader(Options{Tables: append(Builtin(), tables...)})
	info, err := r.Read(body, contentType, 0, 0, nil)
	if err != nil {
		return nil, err
	}
	return &Reading{Sources: info.Sources, Signals: r.signals(), Missing: r.Missing(), Info: info}, nil
}

// signals combines what the last page gave.
func (r *Reader) signals() map[string]float64 {
	values := map[signal.ID][]float64{}
	sums, counts := map[signal.ID]float64{}, map[signal.ID]float64{}
	for i := range r.plan {
		o := &r.plan[i]
		switch {
		case o.state != stateOK || o.id == signal.None:
		case o.key.field == signal.Value:
			values[o.id] = append(values[o.id], o.last)
		case o.key.field == signal.TotalSum:
			sums[o.id] += o.last
		case o.key.field == signal.TotalCount:
			counts[o.id] += o.last
		}
	}
	out := map[string]float64{}
	for _, d := range signal.All() {
		v := values[d.ID]
		switch {
		case d.Kind == signal.Distribution:
			if sum, ok := sums[d.ID]; ok && counts[d.ID] > 0 {
				out[d.Name] = sum / counts[d.ID]
			}
		case d.Kind == signal.Ratio && len(values[d.Part]) > 0 && total(values[d.Whole]) > 0:
			out[d.Name] = total(values[d.Part]) / total(values[d.Whole])
		case len(v) == 0:
		case d.Combine == signal.Sum:
			out[d.Name] = total(v)
		case d.Combine == signal.Max:
			out[d.Name] = slices.Max(v)
		default:
			out[d.Name] = total(v) / float64(len(v))
			if name := d.Highest(); len(v) > 1 && name != "" {
				out[name] = slices.Max(v)
			}
		}
	}
	// Values near the end of what a float holds have a sum beyond it.
	maps.DeleteFunc(out, func(_ string, v float64) bool { return !finite(v) })
	return out
}

func total(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum
}
