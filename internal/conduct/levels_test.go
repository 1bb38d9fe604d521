package conduct

import (
	"strings"
	"testing"
)

// The limits of workloads come into the summary of a prediction, and decide about it
// only where the scenario says so.
func TestWorkloadLimits(t *testing.T) {
	f := func(set ...string) *PredictResult {
		t.Helper()
		res, err := Predict(t.Context(), predictConfig(t, "", set...))
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	base := []string{"users.workload=legal/case-research", "load.users=4", "load.duration=2m"}
	s := f(base...).Summary
	w := s.Workloads["legal/case-research"].SLO
	if s.SLO != nil || w == nil || !w.Own || len(w.Limits) != 2 || !w.Limits[0].WithRetrieval || w.Limits[0].Value == nil {
		t.Fatalf("the run has %+v, the workload %+v", s.SLO, w)
	}
	if search := s.Workloads["legal/case-research"].Latency.Retrieval; *w.Limits[0].Value < *search.P50 {
		t.Errorf("ttft of %v ms is without the search of %v", *w.Limits[0].Value, *search.P50)
	}
	s = f(append(base, "guards.slo=workload")...).Summary
	if s.SLO == nil || len(s.SLO.Limits) != 2 || s.SLO.Limits[0].Workload != "legal/case-research" {
		t.Errorf("with slo workload the run has %+v", s.SLO)
	}
	_, err := Predict(t.Context(), predictConfig(t, "", "load.users=1", "load.requests=1", "guards.slo=workload"))
	if err == nil || !strings.Contains(err.Error(), "none of this run has any") {
		t.Errorf("without a workload that has limits: %v", err)
	}
}
