package load

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll/internal/random"
	"plimsoll/internal/workload"
)

// named gives the requests of every other session a workload of its own.
type named struct{ *workload.Synthetic }

func (n named) Session(step uint32, session uint64) workload.Machine {
	s := *n.Synthetic
	s.Name = []string{"even", "odd"}[session%2]
	return s.Session(step, session)
}

// TestLiveTellsOfRequestsThatRun looks at the counters while answers come: the first token
// after 5 s, the end after 10 s, one request a second of two workloads in turn.
func TestLiveTellsOfRequestsThatRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(10*time.Second))
		g.population.Prompt = random.Dist{A: 8}
		g.cfg.Population = named{g.population}
		g.cfg.Steps = []Step{{Rate: 1, Arrival: "constant", Duration: 4 * time.Second, Drain: time.Hour}}
		var start int64
		g.cfg.Begun = func(s StepResult) { start = s.Start }
		g.live.TakeFirsts(nil)
		type look struct {
			flows  []Flow
			firsts []First
			tokens int64
		}
		looks := make(chan look, 1)
		go func() {
			time.Sleep(7*time.Second + 700*time.Millisecond) // before the last two have a token
			looks <- look{g.live.Flows(nil), g.live.TakeFirsts(nil), g.live.Snapshot().OutputTokens}
		}()
		g.run()
		got := <-looks
		n := len(g.records)
		if n != 4 {
			t.Fatalf("%d requests", n)
		}
		want := map[string]Flow{}
		tokens := int64(0)
		var firsts []First
		for i, r := range g.byScheduled() {
			w := want[r.Workload]
			w.Workload = r.Workload
			w.Sent++
			w.InFlight++
			// The moment of the look, on the run's clock.
			if r.FirstToken <= start-int64(leadTime)+int64(7700*time.Millisecond) {
				w.Decoding++
				firsts = append(firsts, First{Flow: i % 2, At: r.FirstToken, TTFT: r.FirstToken - r.Start, FromSchedule: r.FirstToken - r.Scheduled})
			}
			want[r.Workload] = w
		}
		if len(firsts) == 0 || len(firsts) == n {
			t.Fatalf("%d of %d have a token, so that nothing is told apart", len(firsts), n)
		}
		for i, f := range got.flows {
			w := want[f.Workload]
			if f.Sent != w.Sent || f.InFlight != w.InFlight || f.Decoding != w.Decoding || f.Workload != g.byScheduled()[i].Workload {
				t.Errorf("flow %d is %+v, want %+v", i, f, w)
			}
			tokens += f.OutputTokens
		}
		if len(got.flows) != 2 || tokens != got.tokens {
			t.Errorf("%d flows have %d tokens, in all there are %d", len(got.flows), tokens, got.tokens)
		}
		if !slices.Equal(got.firsts, firsts) {
			t.Errorf("first tokens are %+v, want %+v", got.firsts, firsts)
		}
		if rest := g.live.TakeFirsts(nil); len(rest) != n-len(firsts) {
			t.Errorf("%d first tokens afterwards, want %d", len(rest), n-len(firsts))
		}
	})
}
