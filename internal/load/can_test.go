package load

import (
	"strings"
	"testing"

	"plimsoll/internal/dialect"
	"plimsoll/internal/play"
	"plimsoll/internal/workload"
	"plimsoll/internal/workload/content"
)

// asking is a population that needs something more.
type asking struct {
	Population
	needs workload.Needs
}

func (n asking) Needs() workload.Needs { return n.needs }

// What no body can hold is refused before anything is sent.
func TestWhatIsNeverSentIsRefused(t *testing.T) {
	f := func(api dialect.API, needs workload.Needs, want string) {
		t.Helper()
		g := newRig(t, &play.Script{})
		cfg := g.cfg
		cfg.API, cfg.Renderer = api, new(content.Renderer)
		cfg.Population = asking{g.population, needs}
		r, err := newRun(t.Context(), cfg)
		if err == nil {
			r.close()
		}
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s, %s: error %v, want %q", api, needs, err, want)
		}
	}
	all := workload.NeedMedia | workload.NeedTools | workload.NeedSchema | workload.NeedEffort
	f(dialect.OpenAIChat, all, "")
	f(dialect.OpenAIChat, 1<<12, "need 12")
	f(dialect.OpenAICompletions, all, "openai.completions has no form for what the users send; openai.chat has: workload: it needs images or sound, tools,")
	f(dialect.OpenAICompletions, workload.NeedSchema|workload.NeedEffort, "")
}
