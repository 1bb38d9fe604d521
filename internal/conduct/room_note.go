package conduct

import (
	"fmt"

	"plimsoll/internal/scenario"
	"plimsoll/internal/workload"
)

// note says what of a workload does not fit.
func (r *room) note(s *scenario.Scenario, says string) string {
	text := fmt.Sprintf("%s: %d of %d requests that were drawn are too long, the longest of %d tokens with its answer, and %s: a server refuses them", r.workload, r.over, r.requests, r.most, says)
	switch {
	case r.full > 0 && r.drawn > 1:
		text += fmt.Sprintf("; of %d of its %d steps that is all", r.full, r.drawn)
	case r.workload == workload.SyntheticName:
		text += "; give users.prompt-tokens a max"
	case r.open && s.Sessions():
		text += "; session.max-context in its file ends a session before it grows too long"
	}
	return text
}
