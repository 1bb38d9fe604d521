package load

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plimsoll/internal/message"
	"plimsoll/internal/record"
	"plimsoll/internal/stats"
	"plimsoll/internal/workload"
)

// scripted is a population whose machines do what a list says.
type scripted struct {
	do  []workload.Action // At is the time after the last outcome
	log *outcomes
}

// outcomes are what machines were told.
type outcomes struct {
	mu    sync.Mutex
	lines []string
}

func (o *outcomes) add(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = append(o.lines, fmt.Sprintf(format, args...))
}

func (s scripted) User(_, user uint32) workload.Machine { return &scriptedMachine{s, 0, uint64(user)} }

func (s scripted) Session(_ uint32, n uint64) workload.Machine {
	return &scriptedMachine{s, 0, n}
}

type scriptedMachine struct {
	scripted
	at int
	id uint64
}

func (m *scriptedMachine) Start(now int64) workload.Action { return m.next(now) }

func (m *scriptedMachine) Done(now int64, o workload.Outcome) workload.Action {
	m.log.add("%d: %v %d %q at %d", m.id, o.Status, o.OutputTokens, o.Text, (now-int64(leadTime))/ms)
	if o.Ended != 0 && o.Ended != now {
		m.log.add("ended at %d, told at %d", o.Ended, now)
	}
	return m.next(now)
}

func (m *scriptedMachine) next(now int64) workload.Action {
	if m.at == len(m.do) {
		return workload.Action{Kind: workload.End}
	}
	a := m.do[m.at]
	m.at++
	a.At += now
	if a.CancelAt > 0 {
		a.CancelAt += now
	}
	a.Turn, a.Session, a.Workload = uint32(m.at), m.id, "scripted"
	if a.Kind == workload.Send {
		a.Request = &message.Request{Parts: []message.Part{{Text: "hello"}}, MaxTokens: 5}
	}
	return a
}

// A session of two turns with a wait between them, the second abandoned.
func TestMachinesAreDriven(t *testing.T) {
	script := []workload.Action{
		{Kind: workload.Wait, At: 50 * ms},
		{Kind: workload.Send},
		{Kind: workload.Wait, At: 200 * ms},
		{Kind: workload.Send, At: 30 * ms, CancelAfter: 120 * ms},
	}
	want := []string{
		`0: ok 0 "" at 50`,
		`0: ok 2 "one two" at 350`,
		`0: ok 0 "" at 550`,
		`0: cancelled -1 "" at 700`,
	}
	for _, step := range []Step{{Users: 1, Duration: time.Minute}, {Rate: 1.0 / 60, Duration: time.Minute}} {
		step.Drain = time.Minute
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, answering(300*time.Millisecond))
			var log outcomes
			g.cfg.Population = scripted{script, &log}
			g.cfg.Steps = []Step{step}
			g.run()
			if diff := cmp.Diff(want, log.lines); diff != "" {
				t.Errorf("%+v: what the machine was told (-want +got):\n%s", step, diff)
			}
			rs := g.byID()
			if len(rs) != 2 || rs[0].Turn != 2 || rs[1].Turn != 4 || rs[1].Status != record.Cancelled || rs[1].Error != record.NoError {
				t.Fatalf("%+v: records are %+v", step, rs)
			}
			start := g.res.Steps[0].Start
			if rs[1].Scheduled-start != 580*ms || rs[1].End-rs[1].Start != 120*ms || rs[1].Workload != "scripted" {
				t.Errorf("the second request is %+v", rs[1])
			}
			// The server is told of the abandoned request by its connection.
			time.Sleep(time.Second)
			if q := g.server.Requests(); len(q) != 2 || q[1].Gone.IsZero() {
				t.Error("the server was not told")
			}
		})
	}
}

// Later turns that fall behind the window are not begun.
func TestTurnsEndWithTheWindow(t *testing.T) {
	script := slices.Repeat([]workload.Action{{Kind: workload.Send}}, 10)
	for _, step := range []Step{{Users: 2, Duration: time.Second}, {Rate: 2, Duration: time.Second}} {
		step.Drain = time.Minute
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, answering(300*time.Millisecond))
			var log outcomes
			g.cfg.Population = scripted{script, &log}
			g.cfg.Steps = []Step{step}
			g.run()
			for _, r := range g.records {
				if r.Scheduled >= g.res.Steps[0].SteadyEnd || r.Status != record.OK {
					t.Errorf("request at %d is %v", r.Scheduled, r.Status)
				}
			}
			// Users 0, 300, 600, 900 each; sessions at 0 and at 500.
			if want := map[bool]int{true: 8, false: 6}[step.Users > 0]; len(g.records) != want {
				t.Errorf("%+v: %d requests, want %d", step, len(g.records), want)
			}
		})
	}
}

// Whatever is asked for, certain things hold of every run.
func TestAnyRunIsSound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var step Step
		if rapid.Bool().Draw(rt, "open") {
			step.Rate = rapid.Float64Range(0.5, 80).Draw(rt, "rate")
			step.Arrival = rapid.SampledFrom([]string{"constant", "poisson"}).Draw(rt, "arrival")
		} else {
			step.Users = rapid.IntRange(1, 12).Draw(rt, "users")
		}
		if rapid.Bool().Draw(rt, "timed") {
			step.Duration = time.Duration(rapid.IntRange(1, 3000).Draw(rt, "duration")) * time.Millisecond
		} else {
			step.Requests = rapid.IntRange(1, 60).Draw(rt, "requests")
		}
		step.Warmup = time.Duration(rapid.IntRange(0, 1000).Draw(rt, "warmup")) * time.Millisecond
		step.Drain = time.Duration(rapid.IntRange(0, 2000).Draw(rt, "drain")) * time.Millisecond
		slots := rapid.IntRange(0, 6).Draw(rt, "cap")
		service := time.Duration(rapid.IntRange(1, 900).Draw(rt, "service")) * time.Millisecond
		think := time.Duration(rapid.IntRange(0, 300).Draw(rt, "think")) * time.Millisecond
		var wrong []string
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, answering(service))
			g.cfg.MaxInFlight = slots
			g.population.Think = think
			g.cfg.Steps = []Step{step}
			g.run()
			wrong = g.unsound(slots, think)
			if t.Failed() {
				wrong = append(wrong, "see above")
			}
		})
		if wrong != nil {
			rt.Fatalf("%+v, cap %d, service %v: %v", step, slots, service, wrong)
		}
	})
}

// unsound says what does not hold of a run.
func (g *rig) unsound(slots int, think time.Duration) (wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	s := &g.res.Steps[0]
	if g.res.Stopped != Completed || !s.Complete {
		bad("stopped by %v, complete %v", g.res.Stopped, s.Complete)
	}
	type change struct {
		at int64
		by int
	}
	var changes []change
	last := map[uint32]*record.Request{}
	ids := map[uint64]bool{}
	steady := 0
	for i, r := range g.byID() {
		if r.ID != uint64(i) || ids[r.ID] {
			bad("request %d has the number %d", i, r.ID)
		}
		ids[r.ID] = true
		phase := record.Steady
		if r.Scheduled < s.SteadyStart {
			phase = record.Warmup
		} else {
			steady++
		}
		if r.Phase != phase || r.Scheduled >= s.SteadyEnd && s.SteadyEnd > s.SteadyStart && s.Users == 0 {
			bad("request at %d is %v, the window %d to %d", r.Scheduled, r.Phase, s.SteadyStart, s.SteadyEnd)
		}
		if r.Status != record.OK && r.Status != record.Incomplete {
			bad("request %d is %v: %s", r.ID, r.Status, r.Message)
		}
		if r.Start == record.Unset {
			if r.Status != record.Incomplete {
				bad("request %d was never sent and is %v", r.ID, r.Status)
			}
			continue
		}
		// Under fake time the client is never late but for the cap.
		if lag, _ := stats.SendLag(r); lag != 0 || slots == 0 && r.CapWait != 0 {
			bad("request %d has a send lag of %d and waited %d", r.ID, lag, r.CapWait)
		}
		changes = append(changes, change{r.Start, 1}, change{r.End, -1})
		if p := last[r.User]; s.Users > 0 && p != nil && r.Scheduled != p.End+int64(think) {
			bad("request %d of user %d is scheduled at %d, the one before ended at %d", r.ID, r.User, r.Scheduled, p.End)
		}
		last[r.User] = r
	}
	if uint64(steady) != s.Steady || s.Requests > 0 && steady != s.Requests {
		bad("%d requests in the window, %d counted, %d asked for", steady, s.Steady, s.Requests)
	}
	slices.SortFunc(changes, func(a, b change) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.by - b.by // an end makes room for a start at the same time
	})
	n := 0
	for _, c := range changes {
		if n += c.by; slots > 0 && n > slots {
			bad("%d requests in flight", n)
			break
		}
	}
	return wrong
}

// Case 092: the warm-up and the window share no prompt, and neither do users.
func TestWarmupSharesNoPrompts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(50*time.Millisecond))
		g.cfg.Steps = []Step{
			{Users: 5, Warmup: time.Second, Duration: time.Second, Drain: time.Second},
			{Rate: 30, Warmup: time.Second, Duration: time.Second, Drain: time.Second},
		}
		g.run()
		seen := map[string]bool{}
		for _, p := range g.prompts() {
			head := p[:20] // a prefix cache must not find even the start again
			if seen[head] {
				t.Errorf("%q begins as one before", p)
			}
			seen[head] = true
		}
		if len(seen) != len(g.records) || len(seen) < 200 {
			t.Errorf("%d prompts of %d requests", len(seen), len(g.records))
		}
	})
}
