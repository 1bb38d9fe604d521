package load

import (
	"testing"
	"testing/synctest"
	"time"
)

// Whoever is asked for more steps has seen all of the steps before, and what it
// does not want is not run, in a run that is complete all the same.
func TestMoreEndsTheLadder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, answering(100*time.Millisecond))
		step := Step{Users: 2, Requests: 4, Drain: time.Second}
		g.cfg.Steps = []Step{step, step, step, step}
		var asked, seen []int
		g.cfg.More = func(step int) bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			asked, seen = append(asked, step), append(seen, len(g.records))
			return step < 2
		}
		g.run()
		if len(asked) != 2 || asked[0] != 1 || asked[1] != 2 || seen[0] != 4 || seen[1] != 8 {
			t.Errorf("asked %v when %v requests had been recorded, want [1 2] and [4 8]", asked, seen)
		}
		if len(g.res.Steps) != 2 || g.res.Stopped != Completed || len(g.records) != 8 {
			t.Errorf("%d steps, %d requests, stopped %v", len(g.res.Steps), len(g.records), g.res.Stopped)
		}
	})
}
