package detail

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/internal/record"
	"plimsoll/internal/scenario"
	"plimsoll/internal/stats"
)

// within says whether a request meets every limit that a workload, or the run for "",
// is judged by.
func within(q *record.Request, in *stats.Input, workload string) bool {
	w := in.Workloads[workload]
	own := func(name string, search float64) bool {
		of := in.Workloads[name]
		if !of.WithRetrieval {
			search = 0
		}
		turns := of.First
		if q.Turn > 0 {
			turns = of.Later
		}
		return q.Workload != name || keeps(q, in, of.All, search) && keeps(q, in, turns, search)
	}
	search := -1.0 // no search, no ttft with it
	if v, ok := stats.Retrieval(q); ok {
		search = float64(v) / 1e6
	}
	switch {
	case q.Status != record.OK:
		return false
	case len(w.All)+len(w.First)+len(w.Later) > 0:
		return own(workload, search)
	case !keeps(q, in, in.Limits, 0):
		return false
	case workload == "" && in.WorkloadsCount:
		return own("workload 1", search) && own("workload 9", search)
	}
	return true
}

// keeps says whether a request meets each of some limits, the search of so many ms
// before it counted for ttft.
func keeps(q *record.Request, in *stats.Input, limits []scenario.Limit, search float64) bool {
	for _, l := range limits {
		if l.Metric == "tpot" || l.Metric == itl {
			if q.Flags&record.BufferedStream != 0 {
				continue
			}
		}
		name := l.Metric
		if in.RateDriven && (name == "ttft" || name == "e2e") {
			name += "_from_schedule"
		}
		values, sum := exactly(q, name), 0.0
		for _, v := range values {
			sum += v
		}
		if l.Metric == "ttft" {
			if search < 0 {
				continue
			}
			sum += search * float64(len(values))
		}
		if len(values) > 0 && sum/float64(len(values))*1e6 > float64(l.Value) {
			return false
		}
	}
	return true
}

// Every good request is in the bucket of its schedule, and in no other.
func TestGoodAgainstExact(t *testing.T) {
	some := false
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		in, list := someRun(r, rapid.IntRange(1, 60).Draw(t, "requests"), 1)
		points := rapid.SampledFrom([]int{1, 3, 20, 600}).Draw(t, "points")
		workload := rapid.SampledFrom([]string{"", "workload 1"}).Draw(t, "workload")
		s := storeOf(in, list)
		if rapid.Bool().Draw(t, "over") {
			s.finish()
		}
		from, to := int64(0), int64(0)
		if rapid.Bool().Draw(t, "part") {
			from, to = int64(1.2e9), int64(5.7e9)
		}
		g := s.Bands(nil, workload, from, to, points)
		if len(in.Levels(workload)) == 0 {
			if g.Good != nil {
				t.Fatalf("good requests %v without a limit", g.Good)
			}
			return
		}
		want := make([]int64, g.N)
		known := workload == ""
		for _, q := range list {
			known = known || q.Workload == workload
			i := floor(binTime(q)-g.From.NS(), g.StepMs.NS())
			if i >= 0 && i < int64(g.N) && (workload == "" || q.Workload == workload) && within(q, &in, workload) {
				want[i]++
				some = true
			}
		}
		if known && !slices.Equal(g.Good, want) {
			t.Fatalf("good requests %v, want %v", g.Good, want)
		}
	})
	if !some {
		t.Error("no request of any run was good: nothing was compared")
	}
}

// Whoever asks how large a store is may do so while another has it count.
func TestSizeWhileCounting(t *testing.T) {
	in, list := someRun(rand.New(rand.NewPCG(1, 2)), 50, 2)
	in.Limits = []scenario.Limit{{Metric: "e2e", Stat: "max", Value: time.Second}}
	s := storeOf(in, list)
	s.finish()
	var asked sync.WaitGroup
	asked.Go(func() { s.Size() })
	asked.Go(func() { s.Bands([]string{"e2e"}, "", 0, 0, 10) })
	asked.Wait()
	if len(s.goods) == 0 {
		t.Error("nothing was counted")
	}
}
