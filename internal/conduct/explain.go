package conduct

import (
	"plimsoll/internal/histogram"
	"plimsoll/internal/twin"
)

// ExplanationSchemaName is the value of the field schema of every Explanation.
const ExplanationSchemaName = "plimsoll.explain/1"

// Explanation says where the time of the ok requests of the steady windows went.
type Explanation struct {
	Schema string `json:"schema"`
	// Requests is their number, MeanMS their mean latency from start to end.
	Requests int64    `json:"requests"`
	MeanMS   *float64 `json:"mean_ms"`
	// Stages are in the order in which a request meets them. Their means sum to
	// MeanMS.
	Stages []StageShare `json:"stages"`

	total  int64
	sums   []int64
	counts []histogram.Histogram
}

// StageShare is one stage of all requests; percentiles are over requests, within
// 0.4 %, and nil, like the mean, when there were none. Share is of the sum of all
// latencies.
type StageShare struct {
	Stage  string   `json:"stage"`
	MeanMS *float64 `json:"mean_ms"`
	P50MS  *float64 `json:"p50_ms"`
	P95MS  *float64 `json:"p95_ms"`
	Share  *float64 `json:"share"`
}

func newExplanation() *Explanation {
	names := twin.StageNames()
	return &Explanation{Schema: ExplanationSchemaName, sums: make([]int64, len(names)), counts: make([]histogram.Histogram, len(names))}
}

func (e *Explanation) add(s *twin.Stages) {
	e.Requests++
	for i, v := range s.Values() {
		e.total += v
		e.sums[i] += v
		e.counts[i].Record(v)
	}
}

// settle makes the figures of what was added.
func (e *Explanation) settle() {
	e.Stages = e.Stages[:0]
	n := float64(e.Requests)
	if n > 0 {
		e.MeanMS = new(float64(e.total) / n / 1e6)
	}
	for i, name := range twin.StageNames() {
		s := StageShare{Stage: name}
		if n > 0 {
			h := &e.counts[i]
			s.MeanMS = new(float64(e.sums[i]) / n / 1e6)
			s.P50MS, s.P95MS = new(float64(h.Quantile(0.5))/1e6), new(float64(h.Quantile(0.95))/1e6)
			if e.total > 0 {
				s.Share = new(float64(e.sums[i]) / float64(e.total))
			}
		}
		e.Stages = append(e.Stages, s)
	}
}
