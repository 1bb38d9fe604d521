package twin

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/record"
	"plimsoll/internal/workload"
)

// ledger is the twin's own account of a workload.
type ledger struct {
	requests, cancelled int
	prompt, output      float64
	prefill, decode     float64 // ns
	starts              []int64
	first, longest      map[uint64]int32 // prompts of each session
	refused             string
}

func (l *ledger) Record(f *Finished) {
	r := &f.Request
	l.requests++
	switch r.Status {
	case record.Cancelled:
		l.cancelled++
	case record.Failed:
		l.refused = r.Message
	default:
	}
	l.starts = append(l.starts, r.Start)
	if r.Prompt > 0 {
		l.prompt += float64(r.Prompt)
		if _, ok := l.first[r.Session]; !ok {
			l.first[r.Session] = r.Prompt
		}
		l.longest[r.Session] = max(l.longest[r.Session], r.Prompt)
	}
	l.output += float64(max(r.Output, 0))
	l.prefill += float64(f.Stages.Prefill)
	l.decode += float64(f.Stages.Decode)
}

// grown is how much longer the longest prompt of a session is than its first.
func (l *ledger) grown() float64 {
	sum, n := 0.0, 0.0
	for s, first := range l.first {
		if l.longest[s] > first {
			sum += float64(l.longest[s]) / float64(first)
			n++
		}
	}
	return sum / max(n, 1)
}

// dispersion is the variance over the mean of the starts in tenths of a second, 1
// for arrivals at random.
func (l *ledger) dispersion() float64 {
	counts := map[int64]float64{}
	var end int64
	for _, at := range l.starts {
		counts[at/100e6]++
		end = max(end, at/100e6)
	}
	var sum, squares float64
	for i := range end + 1 {
		sum += counts[i]
		squares += counts[i] * counts[i]
	}
	n := float64(end + 1)
	mean := sum / n
	return (squares/n - mean*mean) / mean
}

// What each industry workload is made for shows in the twin's own account, and its
// prompts are found again in the cache as often as its shape says, within 2 points.
func TestWorkloadsStressWhatTheySay(t *testing.T) {
	cluster := testCluster(t, ClusterConfig{Model: "llama-3.1-8b", GPU: "h200"})
	for _, name := range workload.Names() {
		switch family, _, _ := strings.Cut(name, "/"); family {
		case "legal", "finance", "healthcare", "research":
		default:
			continue
		}
		t.Run(name, func(t *testing.T) {
			f, err := workload.Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			l := &ledger{first: map[uint64]int32{}, longest: map[uint64]int32{}}
			p := predict(t, &PredictConfig{
				Cluster: cluster, Population: workload.NewSessions(3, f), Sink: l, Stream: true, Exact: true, Seed: 3,
				Steps: []Step{{Users: 8, Duration: time.Hour, Drain: 24 * time.Hour}},
			})
			if l.refused != "" {
				t.Errorf("refused: %s", l.refused)
			}
			shape := workload.ShapeOf(f, cluster.Model.Facts(""))
			c := &p.Counters
			reuse := float64(c.PrefixHits) / float64(c.PrefixQueries)
			if math.Abs(reuse-shape.Reuse) > 0.02 {
				t.Errorf("%.2f %% of the prompts were cached, the shape says %.2f %%", 100*reuse, 100*shape.Reuse)
			}
			n := float64(l.requests)
			fresh := (l.prompt/n)*(1-reuse) + 1
			output, decoding := l.output/n, l.decode/(l.prefill+l.decode)
			got := fmt.Sprintf("%d requests, %d cancelled: %.0f new tokens, %.0f of output, %.1f %% of the time decoding, prompts grow %.2f-fold, dispersion %.1f",
				l.requests, l.cancelled, fresh, output, 100*decoding, l.grown(), l.dispersion())
			t.Log(got)
			ok := true
			switch name {
			case "legal/contract-review": // computes far more of prompts than of answers, and its sessions grow
				ok = fresh > 8*output && l.grown() > 1.05
			case "finance/financial-modeling": // both
				ok = fresh > 20_000 && output > 2000
			case "finance/strategy-simulation": // bursts of short requests, which at random would have a dispersion of 1
				ok = l.dispersion() > 3 && output < 130 && l.prompt/n < 1500
			case "healthcare/patient-summary", "healthcare/patient-summary-images":
				ok = fresh > 50*output
			case "healthcare/clinical-reasoning": // decodes, and its memory persists
				ok = decoding > 0.9 && reuse > 0.8 && l.grown() > 1.5
			case "research/literature-synthesis":
				ok = decoding > 0.95 && output > 4500
			case "research/citation-expansion":
				ok = reuse > 0.9 && l.grown() > 4
			}
			if !ok {
				t.Errorf("it does not stress what it is for: %s", got)
			}
		})
	}
}
