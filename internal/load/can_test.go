package load

import (
	"strings"
	"testing"

	"plimsoll/internal/play"
	"plimsoll/internal/workload"
)

// asking is a population that needs something more.
type asking struct {
	Population
	needs workload.Needs
}

func (n asking) Needs() workload.Needs { return n.needs }

// What no body can hold is refused before anything is sent.
func TestWhatIsNeverSentIsRefused(t *testing.T) {
	f := func(needs workload.Needs, want bool) {
		t.Helper()
		g := newRig(t, &play.Script{})
		cfg := g.cfg
		cfg.Population = asking{g.population, needs}
		_, err := newRun(t.Context(), cfg)
		if refused := err != nil && strings.Contains(err.Error(), "not carried out here"); refused != want {
			t.Errorf("%s: error %v", needs, err)
		}
	}
	f(workload.NeedMedia, true)
	f(workload.NeedTools, true)
	f(workload.NeedMedia|workload.NeedText, true)
	f(workload.NeedSchema, false)
	f(workload.NeedEffort, false)
}
