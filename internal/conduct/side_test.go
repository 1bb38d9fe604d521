package conduct

import (
	"math"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"plimsoll/internal/load"
	"plimsoll/internal/pace"
	"plimsoll/internal/random"
	"plimsoll/internal/scenario"
	"plimsoll/internal/stats"
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
	capped := map[bool]bool{}
	f := func(name string, slots int, users []int, st ...load.Step) []moment {
		t.Helper()
		moments := sameSchedule(t, name, sideBySideOf(t, users), slots, st...)
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
		return moments
	}
	f("rates", 0, nil, load.Step{Rate: 27, Streams: streams, Warmup: 300 * ms, Duration: 2 * time.Second, Drain: time.Minute})
	f("a number of sessions", 0, nil, load.Step{Rate: 27, Streams: streams, Warmup: 200 * ms, Requests: 30, Drain: time.Minute})
	f("a cap", 3, nil, load.Step{Rate: 27, Streams: streams, Duration: 2 * time.Second, Drain: time.Minute})
	f("users", 0, []int{2, 3}, load.Step{Users: 5, Warmup: 100 * ms, Duration: 2 * time.Second, Drain: time.Minute})
	mixed := streams[:1]
	f("users beside a rate", 0, []int{3, 0}, load.Step{Users: 3, Rate: 20, Streams: mixed, Warmup: 300 * ms, Duration: 2 * time.Second, Drain: time.Minute})
	f("a rate beside users", 0, []int{0, 3}, load.Step{Users: 3, Rate: 20, Streams: mixed, Duration: 2 * time.Second, Drain: time.Minute})
	f("both under a drain limit", 0, []int{3, 0}, load.Step{Users: 3, Rate: 20, Streams: mixed, Duration: 1000 * ms, Drain: 100 * ms})
	f("a number of requests of both", 0, []int{1, 0}, load.Step{Users: 1, Rate: 20, Streams: mixed, Warmup: 100 * ms, Requests: 30, Drain: time.Minute})
	f("one mix after another", 0, []int{2, 0},
		load.Step{Users: 2, Rate: 20, Streams: mixed, Duration: 700 * ms, Drain: time.Minute},
		load.Step{Users: 2, Rate: 20, Streams: mixed, Duration: 700 * ms, Drain: time.Minute})
	// Under a cap who of both gets a slot that becomes free is decided by who waited
	// longer.
	for _, m := range f("both under a cap", 3, []int{1, 0}, load.Step{Users: 1, Rate: 20, Streams: mixed, Duration: 1500 * ms, Drain: time.Minute}) {
		if m.CapWait > 0 {
			capped[m.AskedPrompt < 50] = true
		}
	}
	if !capped[true] || !capped[false] {
		t.Errorf("the cap held back %v, want some of users and of rates", capped)
	}
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

// Users of one workload stand beside the rates of others in one prediction: the rates
// come whatever the users do, each workload has figures of its own, and the same seed
// makes the same.
func TestUsersBesideRates(t *testing.T) {
	mix := []string{"seed=3", "load.duration=200s", "load.workloads=[{workload: healthcare/clinical-reasoning, users: 4}, " +
		"{workload: synthetic, rate: 3, arrival: constant}, {workload: healthcare/patient-summary, rate: 0.1, arrival: constant, shape: 'spikes:to=11,every=100s,for=10s'}]"}
	s := plan(t, append(mix, "target.url="+SimulatedURL)...)
	st := steps(s)[0]
	if st.Users != 4 || len(st.Streams) != 2 || st.Rate != 3.1 || !s.RateDriven() {
		t.Fatalf("the step is %+v", st)
	}
	p, err := NewPlan(s, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	ps := p.Steps[0]
	want := []PlanPart{
		{Workload: "healthcare/clinical-reasoning", Users: 4},
		{Workload: "synthetic", Rate: 3, Arrival: "constant"},
		{Workload: "healthcare/patient-summary", Rate: 0.1, Arrival: "constant", Shape: "spikes:to=11,every=1m40s,for=10s"},
	}
	if ps.Users != 4 || ps.Rate != 3.1 || *ps.DurationS != 200 || ps.Requests != nil || !slices.Equal(ps.Workloads, want) {
		t.Errorf("the plan is %+v", ps)
	}
	if p.MeanPrompt < 1000 {
		t.Errorf("the mean prompt of %g tokens is not of all workloads", p.MeanPrompt)
	}
	predict := func() map[string]*stats.Group {
		res, err := Predict(t.Context(), predictConfig(t, "", mix...))
		if err != nil {
			t.Fatal(err)
		}
		if l := res.Summary.Load; l.Users == nil || *l.Users != 4 {
			t.Errorf("users are %v, want 4", l.Users)
		}
		return res.Summary.Workloads
	}
	w := predict()
	// 0.1 a second for 200 s, and ten times as much more for 20 s of it.
	for name, n := range map[string]int64{"synthetic": 600, "healthcare/patient-summary": 40} {
		g := w[name]
		if g == nil || g.Requests.Scheduled < n-1 || g.Requests.Scheduled > n+1 {
			t.Fatalf("%s: %+v, want %d", name, g, n)
		}
		if got := *g.Load.OfferedRPS; math.Abs(got-float64(g.Requests.Scheduled)/200) > 1e-9 {
			t.Errorf("%s: %g requests a second are offered", name, got)
		}
	}
	if g := w["healthcare/clinical-reasoning"]; g == nil || g.Requests.OK < 10 || *g.Load.AchievedRPS <= 0 {
		t.Errorf("the users' requests are %+v", g)
	}
	if diff := gocmp.Diff(w, predict()); diff != "" {
		t.Errorf("the same seed makes something else (-first +second):\n%s", diff)
	}
	st.Duration, st.Requests = 0, 50
	if got := window(&st); got != 0 {
		t.Errorf("a number of requests of users and rates is foretold to take %v, which depends on the answers", got)
	}
}
