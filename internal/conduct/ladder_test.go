package conduct

import (
	"slices"
	"testing"

	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/scenario"
	"plimsoll/internal/stats"
	"plimsoll/internal/twin"
)

// upTo stops before a step, and keeps what it saw.
type upTo struct {
	step    int
	prompts map[uint32][]int32
	users   map[string][]uint32
	events  int
}

func (s *upTo) Record(r *record.Request) {
	s.prompts[r.Step] = append(s.prompts[r.Step], r.Prompt)
	s.users[r.Workload] = append(s.users[r.Workload], r.User)
	s.events += len(r.Events)
}

func (s *upTo) More(step int) bool { return step < s.step }

// Each step has its own users and fields of the workload; a steering that leaves
// steps out leaves a run that is valid and complete without them, on disk too.
func TestStepsOfTheirOwn(t *testing.T) {
	const steps = `[{users: 1, requests: 3, set: {prompt.turn: 512}}, {users: 7, requests: 14, set: {prompt.turn: 2048}, parts: [{weight: 2}, {set: {prompt.turn: 100}}, {workload: kv/growth, weight: 4, set: {prompt.turn: 77, output: 3}}]}, {users: 2, requests: 4}, {users: 3, requests: 4}]`
	var last *upTo
	cfg := predictConfig(t, t.TempDir(), "users.workload=gpu-hbm/prefill-ladder", "target.api=openai.completions", "load.steps="+steps)
	cfg.Cluster = twin.ClusterConfig{}
	cfg.Steer = func() Steering {
		last = &upTo{step: 3, prompts: map[uint32][]int32{}, users: map[string][]uint32{}}
		return last
	}
	res, err := Predict(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if s := res.Summary; s.Run.Verdict != stats.Valid || len(s.Steps) != 3 || s.Requests.OK != 3+14+4 {
		t.Errorf("%v %v, %d steps, %d ok", s.Run.Verdict, s.Run.Reasons, len(s.Steps), s.Requests.OK)
	}
	sorted := func(v []int32) []int32 { slices.Sort(v); return slices.Compact(v) }
	for step, want := range map[uint32][]int32{0: {512}, 1: {77, 100, 2048}, 2: {512}} {
		if got := sorted(last.prompts[step]); !slices.Equal(got, want) {
			t.Errorf("prompts of step %d are %v, want %v", step, got, want)
		}
	}
	growth := last.users["kv/growth"]
	slices.Sort(growth)
	if got := slices.Compact(growth); !slices.Equal(got, []uint32{3, 4, 5, 6}) {
		t.Errorf("users of the part of weight 4 are %v, want 3 to 6 of 7", got)
	}
	if last.events == 0 {
		t.Error("the steering saw no events")
	}
	saved, err := run.Open(res.Folder)
	if err != nil {
		t.Fatal(err)
	}
	again, err := saved.Summarize()
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Steps) != 3 || again.Run.Verdict != stats.Valid {
		t.Errorf("from the records: %d steps, %v", len(again.Steps), again.Run.Verdict)
	}
	// The saved scenario says all of the steps, and its prompts are the same.
	text, err := saved.Scenario()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewPlan(reread(t, text), nil, ""); err != nil {
		t.Error(err)
	}
}

// What a step sets must be of the workload.
func TestStepsThatSetNothing(t *testing.T) {
	for _, step := range []string{`{users: 1, requests: 1, set: {prompt.trun: 5}}`, `{users: 1, requests: 1, parts: [{workload: kv/gorwth}]}`} {
		cfg := predictConfig(t, "", "users.workload=gpu-hbm/prefill-ladder", "load.steps=["+step+"]")
		if _, err := Predict(t.Context(), cfg); err == nil {
			t.Errorf("%s was taken", step)
		}
	}
}

func reread(t *testing.T, text []byte) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Read(scenario.Source{Name: "scenario.yaml", Data: text})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
