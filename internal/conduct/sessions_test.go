package conduct

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"plimsoll/internal/load"
	"plimsoll/internal/message"
	"plimsoll/internal/random"
	"plimsoll/internal/record"
	"plimsoll/internal/workload"
)

// doings is a population whose machines do what their number says: requests that
// search, are abandoned in every way, waits, and forks within forks.
type doings struct {
	seed uint64
	// steps is the number of a machine's actions, depth how deep it may fork.
	steps, depth int

	mu    *sync.Mutex
	lines *[]told
}

// told is what a machine was told, and when, ns since its own start.
type told struct {
	Session, Machine uint64
	Step             int
	Status           string
	Ended, Now       int64
}

func newDoings(seed uint64, steps, depth int) *doings {
	return &doings{seed: seed, steps: steps, depth: depth, mu: new(sync.Mutex), lines: new([]told)}
}

func (d *doings) Needs() workload.Needs {
	return workload.NeedFork | workload.NeedCancel | workload.NeedRetrieval
}

func (d *doings) User(step, user uint32) workload.Machine {
	return d.machine(uint64(step)<<32|uint64(user), 0, d.steps, d.depth)
}

func (d *doings) Session(step uint32, n uint64) workload.Machine {
	return d.machine(uint64(step)<<32|n, 0, d.steps, d.depth)
}

func (d *doings) machine(session, number uint64, steps, depth int) *doer {
	return &doer{d: d, r: random.Stream(random.Derive(d.seed, session, number)), session: session, number: number, left: steps, depth: depth}
}

type doer struct {
	d               *doings
	r               *rand.Rand
	session, number uint64
	at              int
	left, depth     int
	begun           int64
	req             message.Request
	part            [1]message.Part
}

func (m *doer) Start(now int64) workload.Action {
	m.begun = now
	return m.next(now)
}

func (m *doer) Done(now int64, o workload.Outcome) workload.Action {
	ended := o.Ended
	if ended != 0 {
		ended -= m.begun
	}
	m.d.mu.Lock()
	*m.d.lines = append(*m.d.lines, told{m.session, m.number, m.at, o.Status.String(), ended, now - m.begun})
	m.d.mu.Unlock()
	return m.next(now)
}

func (m *doer) next(now int64) workload.Action {
	if m.left == 0 {
		return workload.Action{Kind: workload.End}
	}
	m.left--
	m.at++
	// Odd numbers of ns, so that nothing falls together by the round numbers of
	// windows and answers.
	pause := func(most time.Duration) int64 { return 2*m.r.Int64N(int64(most)/2) + 1 }
	a := workload.Action{Kind: workload.Send, At: now, Session: m.session, Turn: uint32(m.number)<<8 | uint32(m.at), Workload: "doings"}
	// Branches begin at one instant: who is first under a cap is nobody's promise.
	if first := m.number != 0 && m.at == 1; m.r.IntN(2) == 0 || first {
		a.At += pause(100 * time.Millisecond)
	}
	switch n := m.r.IntN(10); {
	case n == 0:
		a.Kind, a.At = workload.Wait, now+pause(200*time.Millisecond)
		return a
	case n == 1 && m.depth > 0:
		a.Kind = workload.Fork
		for i := range 1 + m.r.IntN(4) {
			a.Branches = append(a.Branches, m.d.machine(m.session, m.number*8+uint64(m.at)*64+uint64(i)+1, 1+m.r.IntN(2), m.depth-1))
		}
		return a
	}
	if m.r.IntN(3) == 0 {
		a.Retrieval = &workload.Retrieval{Duration: pause(150 * time.Millisecond)}
	}
	switch m.r.IntN(6) {
	case 0:
		a.CancelAfter = pause(350 * time.Millisecond)
	case 1:
		a.CancelAt = a.At + pause(500*time.Millisecond)
		if early := int64(40 * time.Millisecond); a.At-m.begun > early {
			a.CancelAt -= early // virtual time begins at 0, and 0 is never
		}
	case 2:
		a.CancelTokens = 1
	case 3:
		a.CancelAfter, a.CancelTokens = pause(350*time.Millisecond), 2
	}
	m.part[0] = message.Part{Generator: "words", Seed: m.r.Uint64(), Tokens: 8 + m.r.IntN(50)}
	m.req = message.Request{Parts: m.part[:], MaxTokens: 2, Exact: true}
	a.Request = &m.req
	return a
}

// Sessions that fork, search and are abandoned make the same schedule in real and
// in virtual time, and their machines are told the same at the same times.
func TestSessionsMakeOneSchedule(t *testing.T) {
	ms := time.Millisecond
	seen := map[string]int{}
	f := func(name string, depth, slots int, steps ...load.Step) {
		t.Helper()
		for seed := range uint64(12) {
			d := newDoings(seed, 7, depth)
			var all [][]told
			moments := sameSchedule(t, name, &tee{d, &all}, slots, steps...)
			all = append(all, slices.Clone(*d.lines))
			for i := range all {
				slices.SortFunc(all[i], func(a, b told) int {
					if a.Session != b.Session {
						return int(int64(a.Session) - int64(b.Session))
					}
					if a.Machine != b.Machine {
						return int(int64(a.Machine) - int64(b.Machine))
					}
					return a.Step - b.Step
				})
			}
			if len(all) != 2 || gocmp.Diff(all[0], all[1]) != "" {
				t.Errorf("%s, seed %d: machines were told (-load +twin):\n%s", name, seed, gocmp.Diff(all[0], all[len(all)-1]))
			}
			if t.Failed() {
				t.FailNow()
			}
			for _, m := range moments {
				seen[m.Status]++
				switch {
				case m.SearchEnd != record.Unset:
					seen["searched"]++
				case m.SearchStart != record.Unset:
					seen["gave up a search"]++
				}
				if m.Status == "cancelled" && m.Start == record.Unset {
					seen["gave up before"]++
				}
				if m.Turn>>8 != 0 {
					seen["branch"]++
				}
			}
		}
	}
	f("users", 2, 0, load.Step{Users: 3, Warmup: 500 * ms, Duration: 2 * time.Second, Drain: time.Minute})
	f("users who are cut", 2, 0, load.Step{Users: 4, Duration: 1500 * ms, Drain: 70 * ms})
	// Who of several branches gets the last request is nobody's promise.
	f("a user for a number of requests", 0, 0, load.Step{Users: 1, Requests: 5, Drain: time.Minute})
	f("sessions for a number of requests", 0, 0, load.Step{Rate: 4, Arrival: "poisson", Requests: 17, Drain: time.Minute})
	f("sessions", 2, 0, load.Step{Rate: 5, Arrival: "poisson", Warmup: 300 * ms, Duration: 2 * time.Second, Drain: time.Minute})
	f("sessions under a cap", 2, 4, load.Step{Rate: 6, Arrival: "poisson", Duration: 2 * time.Second, Drain: time.Minute})
	f("sessions under a cap that are cut", 2, 3, load.Step{Rate: 6, Arrival: "gamma", Burstiness: 0.4, Duration: 2 * time.Second, Drain: 110 * ms})
	for _, what := range []string{"ok", "cancelled", "incomplete", "searched", "gave up a search", "gave up before", "branch"} {
		if seen[what] < 20 {
			t.Errorf("%d requests of the kind %q: the test says little of them", seen[what], what)
		}
	}
}

// tee sets what the first of two drivers told aside when the second begins.
type tee struct {
	*doings
	all *[][]told
}

func (p *tee) Needs() workload.Needs {
	// The drivers ask once each, before they begin: load first (twice, for its own
	// ends), then the twin.
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(*p.lines) > 0 && len(*p.all) == 0 {
		*p.all = append(*p.all, slices.Clone(*p.lines))
		*p.lines = (*p.lines)[:0]
	}
	return p.doings.Needs()
}
