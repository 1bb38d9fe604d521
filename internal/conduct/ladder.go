package conduct

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"plimsoll/internal/load"
	"plimsoll/internal/record"
	"plimsoll/internal/scenario"
	"plimsoll/internal/stats"
	"plimsoll/internal/twin"
	"plimsoll/internal/workload"
)

// Steering looks at a run of several steps while it goes on, and decides how far
// up its ladder of steps it goes. What it decides must depend on the records
// alone, since a prediction is made twice. Calls come one at a time.
type Steering interface {
	// Record sees each request that has ended. r is the run's: what is to be kept
	// must be copied.
	Record(r *record.Request)
	// More says whether the step of that index, from 1 on, is run; the steps after
	// one that is not are not run either, and the run is as complete as without them.
	More(step int) bool
}

// steer makes calls of a Steering come one at a time.
type steer struct {
	mu sync.Mutex
	s  Steering
}

// newSteer returns nil when nobody steers.
func newSteer(make func() Steering) *steer {
	if make == nil {
		return nil
	}
	return &steer{s: make()}
}

func (s *steer) record(r *record.Request) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.s.Record(r)
}

// more is what a driver asks, nil when nobody steers.
func (s *steer) more() func(int) bool {
	if s == nil {
		return nil
	}
	return func(step int) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.s.More(step)
	}
}

// climbed is the plan as far as a run that ended by itself went.
func (s *steer) climbed(plan []load.Step, steps int, completed bool) []load.Step {
	if s == nil || !completed {
		return plan
	}
	return plan[:max(steps, min(len(plan), 1))]
}

// went are the windows of the steps of a run as they went, without those that a
// steering left out.
func (s *steer) went(plan []load.Step, steps []load.StepResult, end int64, completed bool) []stats.StepInput {
	return windows(s.climbed(plan, len(steps), completed), steps, end)
}

// steered lets a Steering see what the twin hands over.
type steered struct {
	next twin.Sink
	s    *steer
}

// Record passes a request on.
func (s steered) Record(f *twin.Finished) {
	s.next.Record(f) // before there are events, which it would count again
	f.Events()
	s.s.record(&f.Request)
}

// ladderSteps are the steps of a load that have users or rates of their own.
func ladderSteps(base load.Step, l *scenario.Load) []load.Step {
	out := make([]load.Step, 0, len(l.Steps))
	for i := range l.Steps {
		s, st := &l.Steps[i], base
		st.Users, st.Rate = s.Users, s.Rate
		if s.Duration > 0 || s.Requests > 0 {
			st.Duration, st.Requests = s.Duration, s.Requests
		}
		if s.Warmup > 0 {
			st.Warmup = s.Warmup
		}
		out = append(out, st)
	}
	return out
}

// ladder is the population of steps with users of their own.
type ladder []deal

// newLadder makes the users of each of the steps of a scenario.
func newLadder(s *scenario.Scenario, src *sources) (ladder, error) {
	own := s.Users.Workload[0].Name
	made := map[string]*workload.Sessions{} // steps with equal users share them
	one := func(name string, sets ...map[string]string) (*workload.Sessions, error) {
		var settings []scenario.Setting
		for _, set := range sets {
			for _, p := range slices.Sorted(maps.Keys(set)) {
				settings = append(settings, scenario.Setting{Path: p, Value: set[p], Origin: "load.steps"})
			}
		}
		key := fmt.Sprint(name, settings)
		if made[key] == nil {
			f, err := openWorkload(name, src, settings...)
			if err != nil {
				return nil, err
			}
			made[key] = workload.NewSessions(s.Seed, f)
		}
		return made[key], nil
	}
	out := make(ladder, len(s.Load.Steps))
	for i := range s.Load.Steps {
		st, d := &s.Load.Steps[i], &out[i]
		parts := st.Parts
		if len(parts) == 0 {
			parts = []scenario.StepPart{{}}
		}
		for _, p := range parts {
			name := p.Workload
			if name == "" {
				name = own
			}
			users, err := one(name, st.Set, p.Set)
			if err != nil {
				return nil, fmt.Errorf("load.steps[%d]: %w", i, err)
			}
			d.parts = append(d.parts, users)
			d.turns += uint64(max(p.Weight, 1))
			d.ends = append(d.ends, d.turns)
		}
	}
	return out, nil
}

// User returns the machine of a user of a step.
func (l ladder) User(step, user uint32) workload.Machine {
	return l[step].part(uint64(user)).User(step, user)
}

// Session returns the machine of a session of a step.
func (l ladder) Session(step uint32, session uint64) workload.Machine {
	return l[step].part(session).Session(step, session)
}

// Needs says what the machines of any step may ask for.
func (l ladder) Needs() workload.Needs {
	var n workload.Needs
	for i := range l {
		for _, p := range l[i].parts {
			n |= p.Needs()
		}
	}
	return n
}

// deal shares the users of one step out to parts in turn.
type deal struct {
	parts []*workload.Sessions
	ends  []uint64 // of the parts' turns
	turns uint64
}

func (d *deal) part(n uint64) *workload.Sessions {
	n %= d.turns
	for i, end := range d.ends {
		if n < end {
			return d.parts[i]
		}
	}
	panic("BUG: a turn beyond the last part")
}
