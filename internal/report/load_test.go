package report

import (
	"strings"
	"testing"

	"plimsoll/internal/scenario"
)

func TestDescribeLoad(t *testing.T) {
	f := func(l scenario.Load, want string) {
		t.Helper()
		if got := DescribeLoad(&scenario.Scenario{Load: l}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f(scenario.Load{Users: []int{1}}, "1 user")
	f(scenario.Load{Users: []int{1, 4}}, "1, 4 users")
	f(scenario.Load{Rate: []float64{5}, Arrival: "poisson"}, "5.00 requests/s, poisson")
	f(scenario.Load{Steps: []scenario.LoadStep{{Users: 1}, {Users: 1}}}, "2 steps of 1 user")
	f(scenario.Load{Steps: []scenario.LoadStep{{Users: 4}, {Users: 1024}, {Users: 1}}}, "3 steps of 1 to 1,024 users")
	f(scenario.Load{Steps: []scenario.LoadStep{{Rate: 2}, {Rate: 0.5}}, Arrival: "constant"}, "2 steps of 0.500 to 2.00 requests/s, constant")
	f(scenario.Load{Arrival: "poisson", Workloads: []scenario.LoadPart{{Workload: "a", Rate: 0.2}, {Workload: "b", Rate: 1, Arrival: "constant"}}},
		"a 0.200 sessions/s poisson, b 1.00 sessions/s constant")
	f(scenario.Load{Steps: []scenario.LoadStep{{Rate: 2}}, Arrival: "constant"}, "1 step of 2.00 requests/s, constant")

	sessions := scenario.Scenario{Users: scenario.Users{Workload: []scenario.Share{{Name: "legal/contract-review", Weight: 1}}}}
	for _, l := range []scenario.Load{{Rate: []float64{5}, Arrival: "poisson"}, {Steps: []scenario.LoadStep{{Rate: 5}}, Arrival: "poisson"}} {
		sessions.Load = l
		if got, want := strings.TrimPrefix(DescribeLoad(&sessions), "1 step of "), "5.00 sessions/s, poisson"; got != want {
			t.Errorf("of sessions: got %q, want %q", got, want)
		}
	}
}
