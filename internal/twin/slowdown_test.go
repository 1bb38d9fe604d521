package twin

import (
	"math"
	"testing"
	"time"
)

// With the fault every step is longer by a share of itself for each minute that has
// passed, and without it nothing changes.
func TestSlowdownOfSteps(t *testing.T) {
	cluster := func(slowdown float64) *Cluster {
		return testCluster(t, ClusterConfig{Step: 10 * time.Millisecond, Slowdown: slowdown})
	}
	tpot := func(slowdown float64) []float64 {
		var k kept
		predict(t, &PredictConfig{
			Cluster: cluster(slowdown), Population: synthetic(16, 101), Stream: true, Exact: true, Sink: &k,
			Steps: []Step{{Users: 1, Duration: 5 * time.Minute, Drain: time.Hour}},
		})
		var out []float64
		for _, r := range k.requests {
			out = append(out, float64(r.LastToken-r.FirstToken)/100, float64(r.FirstToken+r.LastToken)/2)
		}
		return out
	}
	plain := tpot(0)
	for i := 0; i < len(plain); i += 2 {
		if math.Abs(plain[i]-10e6) > 1 {
			t.Fatalf("a step without the fault is %v ns", plain[i])
		}
	}
	slow := tpot(0.05)
	for i := 0; i < len(slow); i += 2 {
		if want := 10e6 * (1 + 0.05*slow[i+1]/60e9); math.Abs(slow[i]-want) > 1e-4*want {
			t.Fatalf("a step at %.1f s is %v ns, want %v", slow[i+1]/1e9, slow[i], want)
		}
	}
	if len(slow) >= len(plain) {
		t.Errorf("%d requests with the fault, %d without", len(slow)/2, len(plain)/2)
	}
	if _, err := NewCluster(ClusterConfig{Slowdown: -1}); err == nil {
		t.Error("a slowdown below 0 was taken")
	}
	if _, err := NewCluster(ClusterConfig{Slowdown: math.NaN()}); err == nil {
		t.Error("a slowdown that is no number was taken")
	}
}

// Whoever is asked for more steps has seen all of the steps before.
func TestMoreEndsThePrediction(t *testing.T) {
	var k kept
	var seen []int
	step := Step{Users: 3, Requests: 6, Drain: time.Hour}
	p := predict(t, &PredictConfig{
		Cluster: testCluster(t, ClusterConfig{}), Population: synthetic(64, 8), Stream: true, Exact: true, Sink: &k,
		Steps: []Step{step, step, step, step},
		More: func(step int) bool {
			seen = append(seen, len(k.requests))
			return step < 3
		},
	})
	if len(p.Steps) != 3 || p.Stopped != Completed || len(k.requests) != 18 {
		t.Errorf("%d steps, %d requests, stopped %v", len(p.Steps), len(k.requests), p.Stopped)
	}
	if len(seen) != 3 || seen[0] != 6 || seen[1] != 12 || seen[2] != 18 {
		t.Errorf("asked when %v requests had been recorded", seen)
	}
}
