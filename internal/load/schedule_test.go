package load

import (
	"context"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/message"
	"plimsoll/internal/pace"
	"plimsoll/internal/random"
	"plimsoll/internal/record"
	"plimsoll/internal/stats"
	"plimsoll/internal/workload"
)

const ms = int64(time.Millisecond)

// times are the clock points of one request in ms since its step's start.
type times struct {
	User                  uint32
	Scheduled, Start, End float64
	Phase                 string
}

// timetable returns the records' times in order of schedule, then of user.
func (g *rig) timetable() []times {
	var out []times
	start := g.res.Steps[0].Start
	at := func(p int64) float64 { return float64(p-start) / 1e6 }
	for _, r := range g.records {
		out = append(out, times{r.User, at(r.Scheduled), at(r.Start), at(r.End), r.Phase.String()})
	}
	slices.SortFunc(out, func(a, b times) int {
		if a.Scheduled != b.Scheduled {
			return int(a.Scheduled*1e3) - int(b.Scheduled*1e3)
		}
		return int(a.User) - int(b.User)
	})
	return out
}

// Two users against a server that always takes 300 ms: every request begins
// when the one before it has ended, to the nanosecond, and what was scheduled in
// the window is waited for.
func TestClosedLoopMakesTheScheduleItShould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(300*time.Millisecond))
		g.cfg.Steps = []Step{{Users: 2, Warmup: 500 * time.Millisecond, Duration: time.Second, Drain: time.Second}}
		g.run()
		var want []times
		for k := range 5 {
			for u := range uint32(2) {
				at := float64(300 * k)
				phase := "steady"
				if at < 500 {
					phase = "warmup"
				}
				want = append(want, times{u, at, at, at + 300, phase})
			}
		}
		if diff := cmp.Diff(want, g.timetable()); diff != "" {
			t.Errorf("schedule (-want +got):\n%s", diff)
		}
		s := g.res.Steps[0]
		if s.SteadyStart-s.Start != 500*ms || s.SteadyEnd-s.Start != 1500*ms || s.End-s.Start != 1500*ms {
			t.Errorf("window is %+v", s)
		}
		if s.Scheduled != 10 || s.Steady != 6 || !s.Complete {
			t.Errorf("step is %+v", s)
		}
		if e := g.res.Endpoints; len(e) != 1 || e[0].Opened != 2 || e[0].Reused != 8 {
			t.Errorf("endpoints are %+v, want a connection for each user", e)
		}
	})
}

func TestThinkTimeIsBetweenEndAndSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(300*time.Millisecond))
		g.population.Think = 150 * time.Millisecond
		g.cfg.Steps = []Step{{Users: 1, Requests: 3, Drain: time.Second}}
		g.run()
		want := []times{{0, 0, 0, 300, "steady"}, {0, 450, 450, 750, "steady"}, {0, 900, 900, 1200, "steady"}}
		if diff := cmp.Diff(want, g.timetable()); diff != "" {
			t.Errorf("schedule (-want +got):\n%s", diff)
		}
		// The window has the last answer whole.
		if s := g.res.Steps[0]; s.SteadyEnd-s.Start != 1200*ms+1 || !s.Complete {
			t.Errorf("step is %+v", s)
		}
	})
}

// The arrivals of an open loop are those of the seed, whatever the server does
// and however many requests are in flight.
func TestOpenLoopFollowsTheSeedAlone(t *testing.T) {
	f := func(arrival string, service time.Duration, slots int) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, answering(service))
			g.cfg.Seed = 99
			g.cfg.MaxInFlight = slots
			g.cfg.Steps = []Step{{Rate: 40, Arrival: arrival, Warmup: 200 * time.Millisecond, Duration: 2 * time.Second, Drain: time.Hour}}
			g.run()
			gaps, err := pace.ByName(arrival, 0, random.Derive(99, labelArrivals, 0))
			if err != nil {
				t.Fatal(err)
			}
			var want, got []int64
			for s := pace.New(gaps, pace.Rate(40)); ; {
				at, _ := s.Next()
				if at >= 2200*ms {
					break
				}
				want = append(want, at)
			}
			prompts := map[int32]bool{}
			for _, r := range g.byID() {
				got = append(got, r.Scheduled-g.res.Steps[0].Start)
				prompts[r.AskedPrompt] = true
				if slots == 0 && r.Start != r.Scheduled {
					t.Errorf("request %d was started %d ns late", r.ID, r.Start-r.Scheduled)
				}
				if lag, _ := stats.SendLag(r); lag != 0 {
					t.Errorf("send lag of request %d is %d", r.ID, lag)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s arrivals at service %v (-want +got):\n%s", arrival, service, diff)
			}
			if len(prompts) < 10 {
				t.Errorf("prompt lengths are %v", prompts)
			}
		})
	}
	for _, arrival := range pace.Arrivals() {
		f(arrival, time.Millisecond, 0)
		f(arrival, 700*time.Millisecond, 0)
		f(arrival, 700*time.Millisecond, 3)
	}
}

// Pinned: a run can be repeated with a later version of the program.
func TestArrivalsArePinned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(time.Millisecond))
		g.cfg.Seed, g.population.Seed = 99, 99
		g.cfg.Steps = []Step{{Rate: 40, Arrival: "poisson", Requests: 4, Drain: time.Second}}
		g.run()
		var got []int64
		for _, r := range g.byID() {
			got = append(got, r.Scheduled-g.res.Steps[0].Start, int64(r.AskedPrompt))
		}
		if diff := cmp.Diff([]int64{29471744, 52, 66032795, 25, 66862711, 12, 79822149, 43}, got); diff != "" {
			t.Errorf("arrivals and prompt lengths (-want +got):\n%s", diff)
		}
	})
}

// Over real sockets the schedule of a closed loop is the end of the request
// before, by the kernel's time of its last byte, and not when the client came
// round to it.
func TestClosedLoopOverSockets(t *testing.T) {
	for _, kernel := range []bool{true, false} {
		g := newSocketRig(t, answering(5*time.Millisecond))
		g.cfg.Stream.NoKernelTimes = !kernel
		g.cfg.Steps = []Step{{Users: 1, Requests: 10, Drain: time.Minute}}
		g.run()
		rs := g.byID()
		fresh := int64(0)
		for i, r := range rs {
			if i > 0 && r.Scheduled != rs[i-1].End {
				t.Errorf("request %d is scheduled at %d, the one before ended at %d", i, r.Scheduled, rs[i-1].End)
			}
			if want := kernel && runtime.GOOS == "linux" && r.Flags&record.WallClockStep == 0; r.KernelTimes != want || (r.ReadLagMean != record.Unset) != want || r.Reads == 0 && want {
				t.Errorf("kernel times %v: %v with a read lag of %d over %d reads", kernel, r.KernelTimes, r.ReadLagMean, r.Reads)
			}
			if r.ReadLagMax < r.ReadLagMean || r.Reused && i == 0 || r.Remote != g.addr {
				t.Errorf("request %d: %+v", i, r)
			}
			if !r.Reused {
				fresh++
			}
		}
		// A client that is held up may lose a connection between two requests.
		if e := g.res.Endpoints; len(e) != 1 || e[0].Opened != fresh || e[0].Reused != 10-fresh {
			t.Errorf("endpoints are %+v, %d requests had a new connection", e, fresh)
		}
	}
}

// Case 087.
func TestCoordinatedOmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(500*time.Millisecond))
		g.cfg.MaxInFlight = 1
		g.cfg.Steps = []Step{{Rate: 10, Requests: 8, Drain: time.Minute}}
		g.run()
		var want struct {
			Service  []float64 `json:"latency_service_ms"`
			Schedule []float64 `json:"latency_from_schedule_ms"`
			Delay    float64   `json:"mean_dispatch_delay_ms"`
			Mean     float64   `json:"mean_from_schedule_ms"`
		}
		expect(t, "087-coordinated-omission", &want)
		var service, schedule []float64
		var delay, mean float64
		for _, r := range g.byID() {
			e2e, _ := stats.E2E(r)
			from, _ := stats.E2EFromSchedule(r)
			service, schedule = append(service, float64(e2e)/1e6), append(schedule, float64(from)/1e6)
			delay += float64(r.Start-r.Scheduled) / 8e6
			mean += float64(from) / 8e6
			// All of the delay is the cap's and none the client's.
			if r.CapWait != r.Start-r.Scheduled {
				t.Errorf("request %d waited %d ns under the cap, started %d ns late", r.ID, r.CapWait, r.Start-r.Scheduled)
			}
			if lag, ok := stats.SendLag(r); !ok || lag != 0 {
				t.Errorf("send lag is %d", lag)
			}
		}
		if diff := cmp.Diff(want.Service, service); diff != "" {
			t.Errorf("service (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want.Schedule, schedule); diff != "" {
			t.Errorf("from schedule (-want +got):\n%s", diff)
		}
		if delay != want.Delay || mean != want.Mean {
			t.Errorf("means are %v and %v, want %v and %v", delay, mean, want.Delay, want.Mean)
		}
		if s := g.res.Steps[0]; s.SteadyEnd-s.SteadyStart != 800*ms || !s.Complete {
			t.Errorf("step is %+v", s)
		}
	})
}

// Case 088: a send that costs 2 ms does not move the next one.
func TestRateDoesNotDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(time.Millisecond))
		dial := g.cfg.Stream.Dial
		g.cfg.Stream.NewConnection = true
		g.cfg.Stream.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			time.Sleep(2 * time.Millisecond)
			return dial(ctx, network, addr)
		}
		g.cfg.Steps = []Step{{Rate: 200, Requests: 1000, Drain: time.Minute}}
		g.run()
		var want struct {
			Last     int64   `json:"last_send_ms"`
			Rate     float64 `json:"achieved_rate"`
			Drifting int64   `json:"drifting_last_send_ms"`
		}
		expect(t, "088-schedule-drift", &want)
		start := g.res.Steps[0].Start
		for i, r := range g.byID() {
			if at := r.Start - start; at != int64(i)*5*ms {
				t.Fatalf("request %d started at %d ns", i, at)
			}
			if connect, _ := stats.Connect(r); connect != 2*ms {
				t.Fatalf("connect took %d ns", connect)
			}
		}
		if last := g.byID()[999].Start - start; last != want.Last*ms {
			t.Errorf("the last send is at %d ns, want %d ms", last, want.Last)
		}
		s := g.res.Steps[0]
		if rate := float64(s.Steady) / (float64(s.SteadyEnd-s.SteadyStart) / 1e9); rate != want.Rate {
			t.Errorf("rate is %v, want %v", rate, want.Rate)
		}
	})
}

// slow is a renderer that takes its time: the first text first, all others each.
type slow struct {
	first, each time.Duration
	begun       chan struct{}
}

func (s *slow) AppendText(dst []byte, p *message.Part) []byte {
	select {
	case <-s.begun:
		time.Sleep(s.first)
	default:
		time.Sleep(s.each)
	}
	return workload.Words{}.AppendText(dst, p)
}

// Case 089: a client that takes 1.5 s to get ready starts its clock then.
func TestNoBurstAtTheStart(t *testing.T) {
	f := func(step Step, each time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, answering(10*time.Millisecond))
			begun := make(chan struct{}, 1)
			begun <- struct{}{}
			g.cfg.Renderer = &slow{1500 * time.Millisecond, each, begun}
			g.cfg.Steps = []Step{step}
			g.run()
			var want struct {
				N   int `json:"requests_in_first_second"`
				Bad int `json:"bad_client"`
			}
			expect(t, "089-start-burst", &want)
			start, n := g.res.Steps[0].Start, 0
			if start < 1500*ms {
				t.Errorf("the step started at %d ns, before the client was ready", start)
			}
			for _, r := range g.records {
				if r.Start != r.Scheduled {
					t.Errorf("request %d started %d ns late", r.ID, r.Start-r.Scheduled)
				}
				if r.Start-start < int64(time.Second) {
					n++
				}
			}
			if step.Rate > 0 && n != want.N {
				t.Errorf("%d requests in the first second, want %d", n, want.N)
			}
		})
	}
	f(Step{Rate: 10, Duration: 3 * time.Second, Drain: time.Second}, 0)
	// Ten prompts a second that take 50 ms each are made ahead, one by one.
	f(Step{Rate: 10, Duration: 3 * time.Second, Drain: time.Second}, 50*time.Millisecond)
	// All users have their first prompt when the time comes.
	f(Step{Users: 20, Requests: 20, Drain: time.Second}, 50*time.Millisecond)
}

// A late send keeps its time: the lateness is the client's and is recorded.
func TestLateSendsAreNeverRebased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(time.Millisecond))
		// The clock oversleeps by 30 ms once, at 200 ms.
		g.cfg.Clock = &oversleeping{Clock: g.cfg.Clock, after: 200 * ms, by: 30 * ms}
		g.cfg.Steps = []Step{{Rate: 100, Requests: 40, Drain: time.Second}}
		g.run()
		late := 0
		for i, r := range g.byID() {
			if at := r.Scheduled - g.res.Steps[0].Start; at != int64(i)*10*ms {
				t.Fatalf("request %d is scheduled at %d ns", i, at)
			}
			if r.CapWait != 0 {
				t.Errorf("request %d waited under a cap that is not there", i)
			}
			if lag, _ := stats.SendLag(r); lag > 0 {
				late++
				if lag > 30*ms || lag%(10*ms) != 0 {
					t.Errorf("send lag of request %d is %d ns", i, lag)
				}
			}
		}
		if late != 3 {
			t.Errorf("%d requests were late, want those of 30 ms", late)
		}
	})
}

// oversleeping is a clock that wakes late once.
type oversleeping struct {
	Clock
	after, by int64
	done      atomic.Bool
}

func (o *oversleeping) SleepUntil(ctx context.Context, t int64) error {
	if t > o.after+20*ms && t < o.after+40*ms && o.done.CompareAndSwap(false, true) {
		t += o.by
	}
	return o.Clock.SleepUntil(ctx, t)
}

func TestStepsRunOneAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(300*time.Millisecond))
		g.cfg.Steps = []Step{
			{Users: 1, Duration: time.Second, Drain: time.Second},
			{Users: 3, Duration: time.Second, Drain: time.Second},
			{Rate: 20, Duration: time.Second, Drain: time.Second},
		}
		var begun []uint32
		g.cfg.Begun = func(s StepResult) {
			begun = append(begun, s.Index)
			if n := len(g.records); n != map[uint32]int{0: 0, 1: 4, 2: 16}[s.Index] || s.Start < g.cfg.Clock.Now() {
				t.Errorf("step %d began with %d records, at %d", s.Index, n, s.Start)
			}
		}
		g.run()
		if len(g.res.Steps) != 3 || len(begun) != 3 {
			t.Fatalf("%d steps, of which %v were announced", len(g.res.Steps), begun)
		}
		n := map[uint32]uint64{}
		prompts := map[string]bool{}
		for _, r := range g.records {
			s := g.res.Steps[r.Step]
			if r.Scheduled < s.Start || r.End > s.End {
				t.Errorf("request %d of step %d lies outside of it", r.ID, r.Step)
			}
			n[r.Step]++
		}
		for _, p := range g.prompts() {
			prompts[p] = true
		}
		for i, s := range g.res.Steps {
			if s.Index != uint32(i) || n[s.Index] != s.Scheduled {
				t.Errorf("step %+v has %d records", s, n[s.Index])
			}
			if i > 0 && s.Start < g.res.Steps[i-1].End {
				t.Errorf("step %d began before the one before it had ended", i)
			}
		}
		if want := map[uint32]uint64{0: 4, 1: 12, 2: 20}; cmp.Diff(want, n) != "" {
			t.Errorf("requests by step are %v, want %v", n, want)
		}
		if len(prompts) != 36 {
			t.Errorf("%d different prompts in 36 requests: a step must not find the cache of another", len(prompts))
		}
	})
}

func TestURLsAreUsedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(10*time.Millisecond))
		g.cfg.URLs = []string{g.url("a"), g.url("b"), g.url("c")}
		g.cfg.Steps = []Step{{Users: 4, Requests: 31, Drain: time.Second}}
		g.run()
		n := map[uint32]int{}
		for i, r := range g.byID() {
			if r.ID != uint64(i) || r.Target != uint32(i%3) {
				t.Errorf("request %d has number %d and target %d", i, r.ID, r.Target)
			}
			n[r.Target]++
		}
		if diff := cmp.Diff(map[uint32]int{0: 11, 1: 10, 2: 10}, n); diff != "" {
			t.Error(diff)
		}
	})
}

// A cap in a closed loop is recorded like one in an open loop.
func TestCapInAClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(100*time.Millisecond))
		g.cfg.MaxInFlight = 2
		g.cfg.Steps = []Step{{Users: 6, Requests: 6, Drain: time.Second}}
		g.run()
		var waits []int64
		for _, r := range g.byID() {
			waits = append(waits, r.CapWait/ms)
			if lag, _ := stats.SendLag(r); lag != 0 {
				t.Errorf("send lag is %d", lag)
			}
		}
		slices.Sort(waits) // of users who come in one instant any may be first
		if diff := cmp.Diff([]int64{0, 0, 100, 100, 200, 200}, waits); diff != "" {
			t.Errorf("waits under the cap (-want +got):\n%s", diff)
		}
	})
}

// The drain limit cuts what has not ended, started or not, and counts it.
func TestDrainLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(700*time.Millisecond))
		g.cfg.MaxInFlight = 2
		g.cfg.Steps = []Step{{Rate: 10, Duration: time.Second, Drain: 500 * time.Millisecond}}
		g.run()
		var got []string
		for _, r := range g.byScheduled() {
			got = append(got, r.Status.String())
			if r.Status == record.Incomplete && r.End-g.res.Steps[0].Start != 1500*ms {
				t.Errorf("request %d was cut at %d ns", r.ID, r.End-g.res.Steps[0].Start)
			}
			if r.Status == record.Incomplete && r.Start == record.Unset && r.Sent != record.Unset {
				t.Errorf("request %d was sent without a start", r.ID)
			}
		}
		// Two at a time: 0 and 100 end at 700 and 800, the next two at 1400 and
		// 1500; the last of these meets the limit and may fall on either side.
		if len(got) != 10 {
			t.Fatalf("%d records, want 10", len(got))
		}
		for i, s := range got {
			if want := map[bool]string{true: "ok", false: "incomplete"}[i < 3]; s != want && i != 3 {
				t.Errorf("request %d is %s, want %s", i, s, want)
			}
		}
		live := g.live.Snapshot()
		if live.OK+live.Incomplete != 10 || live.Scheduled != 10 || live.InFlight != 0 || live.Users != 0 {
			t.Errorf("live is %+v", live)
		}
	})
}

// More sessions than one process carries out fail as its own doing, and the
// schedule goes on.
func TestTooManySessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(950*time.Millisecond))
		g.cfg.limit = func(r *run) { r.sessions = 3 }
		g.cfg.Steps = []Step{{Rate: 10, Requests: 14, Drain: time.Minute}}
		g.run()
		var got []string
		for _, r := range g.byID() {
			got = append(got, r.Error.String())
			if r.Error == record.ClientResource && (r.Start != record.Unset || !strings.Contains(r.Message, "3 sessions")) {
				t.Errorf("request %d: start %d, %s", r.ID, r.Start, r.Message)
			}
		}
		want := slices.Concat(slices.Repeat([]string{""}, 3), slices.Repeat([]string{"client_resource"}, 7), slices.Repeat([]string{""}, 3), []string{"client_resource"})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// However little may be prepared ahead, the schedule is kept.
func TestLittleIsPreparedAhead(t *testing.T) {
	for _, slots := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, answering(100*time.Millisecond))
			g.cfg.limit = func(r *run) { r.ahead = 1000 }
			g.cfg.MaxInFlight = slots
			g.population.Prompt = random.Dist{A: 400}
			g.cfg.Steps = []Step{{Rate: 50, Duration: 4 * time.Second, Drain: time.Minute}}
			g.run()
			for i, r := range g.byID() {
				if r.Scheduled-g.res.Steps[0].Start != int64(i)*20*ms || r.Status != record.OK {
					t.Fatalf("request %d is scheduled at %d and ended as %v", i, r.Scheduled, r.Status)
				}
				if lag, _ := stats.SendLag(r); lag != 0 {
					t.Fatalf("request %d has a send lag of %d", i, lag)
				}
			}
			if len(g.records) != 200 {
				t.Errorf("%d requests", len(g.records))
			}
		})
	}
}

func TestDrainWaitsForTheSlowest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(30*time.Second))
		g.cfg.Steps = []Step{{Rate: 5, Duration: time.Second, Drain: time.Minute}}
		g.run()
		for _, r := range g.records {
			if r.Status != record.OK {
				t.Errorf("request %d is %v", r.ID, r.Status)
			}
		}
		if s := g.res.Steps[0]; s.SteadyEnd-s.Start != 1000*ms || s.End-s.Start != 30_800*ms || !s.Complete {
			t.Errorf("step is %+v", s)
		}
	})
}

// given returns a step whose sessions start at times in ms.
func given(t *testing.T, requests int, ms ...int64) Step {
	t.Helper()
	for i := range ms {
		ms[i] *= int64(time.Millisecond)
	}
	at, err := pace.At(ms)
	if err != nil {
		t.Fatal(err)
	}
	return Step{Rate: 1, Times: at, Requests: requests, Drain: time.Second}
}

// Sessions that start at given times do so, the last one too, and the window lasts
// until the last request has ended.
func TestGivenTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(300*time.Millisecond))
		s := given(t, 4, 0, 100, 100, 700)
		s.Warmup = 50 * time.Millisecond
		g.cfg.Steps = []Step{s}
		g.run()
		want := []times{{0, 0, 0, 300, "warmup"}, {1, 100, 100, 400, "steady"}, {2, 100, 100, 400, "steady"}, {3, 700, 700, 1000, "steady"}}
		if diff := cmp.Diff(want, g.timetable()); diff != "" {
			t.Errorf("schedule (-want +got):\n%s", diff)
		}
		if s := g.res.Steps[0]; !s.Complete || s.SteadyStart-s.Start != 50*ms || s.SteadyEnd-s.Start != 1000*ms+1 || s.Scheduled != 4 || s.Steady != 3 {
			t.Errorf("step is %+v", s)
		}
	})
}

// Later turns come when they are due, however long after the last session has
// started; only then is the rest drained.
func TestGivenTimesWaitForLaterTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(300*time.Millisecond))
		var log outcomes
		g.cfg.Population = needing{scripted{[]workload.Action{{Kind: workload.Send}, {Kind: workload.Send, At: 5000 * ms}}, &log}, workload.NeedText}
		g.cfg.Steps = []Step{given(t, 4, 0, 100)}
		g.run()
		var starts []float64
		for _, r := range g.timetable() {
			starts = append(starts, r.Start)
		}
		if diff := cmp.Diff([]float64{0, 100, 5300, 5400}, starts); diff != "" {
			t.Errorf("starts (-want +got):\n%s", diff)
		}
		if s := g.res.Steps[0]; !s.Complete || s.Steady != 4 || s.SteadyEnd-s.Start != 5700*ms+1 {
			t.Errorf("step is %+v", s)
		}
	})
}

// What has not ended by the drain limit after the last start is incomplete.
func TestGivenTimesAreDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(3*time.Second))
		g.cfg.Steps = []Step{given(t, 2, 0, 2500)}
		g.run()
		want := []times{{0, 0, 0, 3000, "steady"}, {1, 2500, 2500, 3500, "steady"}}
		if diff := cmp.Diff(want, g.timetable()); diff != "" {
			t.Errorf("schedule (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]int{"ok": 1, "incomplete": 1}, g.count()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
