package live

import (
	"testing"

	"plimsoll/internal/load"
	"plimsoll/internal/pace"
)

func TestLevel(t *testing.T) {
	f := func(s load.Step, sessions bool, want string) {
		t.Helper()
		if got := Level(&s, sessions); got != want {
			t.Errorf("%+v is %q, want %q", s, got, want)
		}
	}
	f(load.Step{Users: 1}, false, "1 user")
	f(load.Step{Users: 20}, false, "20 users")
	f(load.Step{Rate: 3}, false, "3.00 requests/s, constant")
	f(load.Step{Rate: 3, Arrival: "poisson"}, false, "3.00 requests/s, poisson")
	streams := []pace.Stream{{Rate: 2, Arrival: "poisson"}, {Rate: 1, Arrival: "gamma", Burstiness: 0.5}, {Rate: 0.5, Arrival: "poisson"}}
	f(load.Step{Rate: 3.5, Streams: streams}, false, "3.50 requests/s, poisson and gamma")
	f(load.Step{Rate: 3, Arrival: "poisson"}, true, "3.00 sessions/s, poisson")
	f(load.Step{Users: 20, Rate: 3.5, Streams: streams}, true, "20 users and 3.50 sessions/s, poisson and gamma")
}
