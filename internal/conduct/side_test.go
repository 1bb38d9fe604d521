package conduct

import (
	"testing"
	"time"

	"plimsoll/internal/load"
	"plimsoll/internal/pace"
	"plimsoll/internal/random"
	"plimsoll/internal/scenario"
	"plimsoll/internal/workload"
)

func sideBySideOf(t *testing.T, users []int) *workload.Parallel {
	t.Helper()
	one := func(name string, prompt float64) workload.Population {
		return &workload.Synthetic{Name: name, Seed: 7, Prompt: random.Dist{Kind: random.Uniform, A: prompt, B: 2 * prompt}, Output: random.Dist{A: 2}, Exact: true}
	}
	p, err := workload.NewParallel([]workload.Population{one("a", 8), one("b", 100)}, users)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Workloads side by side have one schedule in the load generator and in the twin.
func TestSideBySideIsOneSchedule(t *testing.T) {
	ms := time.Millisecond
	streams := []pace.Stream{
		{Rate: 20, Arrival: "gamma", Burstiness: 0.4},
		{Rate: 7, Arrival: "constant", Shape: shape(scenario.Shape{Kind: scenario.Ramp, To: 3, Over: time.Second})},
	}
	f := func(name string, slots int, users []int, st load.Step) {
		t.Helper()
		moments := sameSchedule(t, name, sideBySideOf(t, users), slots, st)
		short, long, sessions := 0, 0, map[uint64]bool{}
		for _, m := range moments {
			if m.AskedPrompt < 50 {
				short++
			} else {
				long++
			}
			if sessions[m.Session] {
				t.Errorf("%s: session %d is there twice", name, m.Session)
			}
			sessions[m.Session] = true
		}
		if short == 0 || long == 0 {
			t.Errorf("%s: %d requests of the one workload and %d of the other", name, short, long)
		}
	}
	f("rates", 0, nil, load.Step{Rate: 27, Streams: streams, Warmup: 300 * ms, Duration: 2 * time.Second, Drain: time.Minute})
	f("a number of sessions", 0, nil, load.Step{Rate: 27, Streams: streams, Warmup: 200 * ms, Requests: 30, Drain: time.Minute})
	f("a cap", 3, nil, load.Step{Rate: 27, Streams: streams, Duration: 2 * time.Second, Drain: time.Minute})
	f("users", 0, []int{2, 3}, load.Step{Users: 5, Warmup: 100 * ms, Duration: 2 * time.Second, Drain: time.Minute})
}

// Each workload arrives at its own rate, and how one arrives does not depend on the
// others.
func TestWorkloadsAtRatesOfTheirOwn(t *testing.T) {
	s := plan(t, "target.url="+SimulatedURL, "seed=3", "load.duration=200s", "load.burstiness=0.5", "load.arrival=gamma",
		"load.workloads=[{workload: healthcare/patient-summary, rate: 0.5, arrival: constant}, {workload: synthetic, rate: 5}]")
	if len(s.Users.Workload) != 2 || s.Users.Workload[1].Name != scenario.Synthetic || !s.Load.RateDriven() {
		t.Fatalf("users are %+v of %+v", s.Users, s.Load)
	}
	again, err := s.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if back, err := scenario.Read(scenario.Source{Name: "s.yaml", Data: again}); err != nil || back.Hash() != s.Hash() {
		t.Errorf("what is written is not read again: %v\n%s", err, again)
	}
	st := steps(s)[0]
	if len(st.Streams) != 2 || st.Streams[0] != (pace.Stream{Rate: 0.5, Arrival: "constant"}) || st.Streams[1] != (pace.Stream{Rate: 5, Arrival: "gamma", Burstiness: 0.5}) || st.Rate != 5.5 {
		t.Fatalf("the step is %+v", st)
	}
	res, err := Predict(t.Context(), predictConfig(t, "", "load.duration=200s",
		"load.workloads=[{workload: healthcare/patient-summary, rate: 0.5, arrival: constant}, {workload: synthetic, rate: 5}]"))
	if err != nil {
		t.Fatal(err)
	}
	// A constant rate is exact; 1,000 poisson arrivals lie within five of their
	// standard deviations.
	w := res.Summary.Workloads
	if n := w["healthcare/patient-summary"].Requests.Scheduled; n != 100 {
		t.Errorf("%d summaries were asked for, want 100", n)
	}
	if n := w["synthetic"].Requests.Scheduled; n < 840 || n > 1160 {
		t.Errorf("%d single questions were asked, want about 1,000", n)
	}
	if p, err := NewPlan(s, nil, ""); err != nil || p.Steps[0].Rate != 5.5 || *p.Steps[0].DurationS != 200 {
		t.Errorf("the plan is %+v, %v", p, err)
	}
	st.Duration, st.Requests = 0, 110
	if got := window(&st); got < 19*time.Second || got > 21*time.Second {
		t.Errorf("110 sessions at 5.5 a second take %v", got)
	}
}
