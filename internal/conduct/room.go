package conduct

import (
	"fmt"
	"slices"

	"plimsoll/internal/message"
	"plimsoll/internal/scenario"
	"plimsoll/internal/workload"
)

// How many requests of all steps together are held against the context, how many of one
// user, and how many sessions of a step at most and at least: enough for one request in a
// hundred to show, and for a turn of each part of a step.
const (
	roomRequests    = 20_000
	roomOfMachine   = 300
	maxRoomSessions = 2_000
	minRoomSessions = 40
)

// room is how the requests of one workload compare with a context.
type room struct {
	workload string
	// requests and over count those that were drawn and those that are too long, most
	// is the length of the longest.
	requests, over, most int
	// full are the steps of which every request is too long, drawn those that were
	// looked at.
	full, drawn int
	// least is the shortest: its prompt, its answer, and what most of it is.
	least, prompt, output int
	field                 string
	// open says that the first requests fit, and those that follow in their session do
	// not.
	open bool
}

// room holds what users send against the longest sequence that a model takes, which says
// describes ("the context of x is 8000 tokens"). A workload of which nothing fits is an
// error; of one of which a part does not fit there is a note.
func (c *crowd) room(s *scenario.Scenario, steps, context int, says string) ([]string, error) {
	if c.replay != nil {
		return nil, nil // which is held against it row by row
	}
	var all []*room
	for step := range steps {
		all = c.look(s, step, max(1, steps), context, all)
	}
	var notes []string
	for _, r := range all {
		switch {
		case r.over == 0:
		case r.over == r.requests:
			return nil, r.refuse(s, context, says)
		default:
			notes = append(notes, r.note(s, says))
		}
	}
	return notes, nil
}

// look draws requests of a step.
func (c *crowd) look(s *scenario.Scenario, step, steps, context int, all []*room) []*room {
	next := func(i uint64) workload.Machine { return c.Session(uint32(step), i) }
	if len(s.Load.Workloads) > 0 {
		next = c.first(s)
	}
	before := map[string]room{}
	for _, r := range all {
		before[r.workload] = *r
	}
	left := roomRequests / steps
	for i := range uint64(min(maxRoomSessions, max(minRoomSessions, left))) {
		n := 0
		workload.Walk(next(i), func(a *workload.Action) (workload.Outcome, bool) {
			j := slices.IndexFunc(all, func(r *room) bool { return r.workload == a.Workload })
			if j < 0 {
				j, all = len(all), append(all, &room{workload: a.Workload})
			}
			all[j].add(a, context, n == 0)
			n++
			left--
			return workload.Promptly(a), n < roomOfMachine && left > 0
		})
		if left <= 0 && i >= minRoomSessions {
			break
		}
	}
	for _, r := range all {
		b := before[r.workload]
		if n := r.requests - b.requests; n > 0 {
			r.drawn++
			if r.over-b.over == n {
				r.full++
			}
		}
	}
	return all
}

// add takes one request into account, the first of its session or a later one.
func (r *room) add(a *workload.Action, context int, first bool) {
	prompt, output := a.Request.PromptTokens(), a.Request.MaxTokens
	n := prompt + output
	if r.requests == 0 || n < r.least {
		r.least, r.prompt, r.output, r.field = n, prompt, output, longest(a)
	}
	r.requests++
	r.most = max(r.most, n)
	if n > context {
		r.over++
	}
	if first {
		r.open = r.open || n <= context
	}
}

// longest names the part of a workload's file that makes most of a request.
func longest(a *workload.Action) string {
	sums := map[string]int{"output": a.Request.MaxTokens}
	names := []string{"output"}
	for i := range a.Request.Parts {
		p := &a.Request.Parts[i]
		name := "prompt.turn"
		switch {
		case p.Media != nil:
			name = "media"
		case p.Layer == message.LayerSystem:
			name = "prompt.system"
		case p.Layer == message.LayerGroup:
			name = "prompt.group"
		case p.Layer == message.LayerSession:
			name = "prompt.session"
		case p.Layer == message.LayerHistory:
			name = "session.history"
		case a.Retrieval != nil:
			name = "retrieval" // and the question, which is the lesser part
		}
		if sums[name] == 0 {
			names = append(names, name)
		}
		sums[name] += p.Tokens
	}
	return slices.MaxFunc(names, func(x, y string) int { return sums[x] - sums[y] })
}

// refuse is the error of a workload of which nothing fits.
func (r *room) refuse(s *scenario.Scenario, context int, says string) error {
	if r.workload == workload.SyntheticName {
		field, other := "users.prompt-tokens", r.output
		if r.field == "output" {
			field, other = "users.output-tokens", r.prompt
		}
		fix := "ask a model with a longer context"
		if context > other {
			fix = fmt.Sprintf("want at most %d, or a model with a longer context", context-other)
		}
		return fmt.Errorf("%s: a prompt of %d tokens and an answer of %d are the least that is sent, and %s: %s", field, r.prompt, r.output, says, fix)
	}
	where := "users.workload"
	if len(s.Load.Steps) > 0 {
		where = "load.steps"
	}
	return fmt.Errorf("%s: %s: a prompt of %d tokens and an answer of %d are the least that it sends, most of it by %s, and %s: ask a model with a longer context, or make %s shorter in a file of your own (plimsoll workloads show %s prints this one)",
		where, r.workload, r.prompt, r.output, r.field, says, r.field, r.workload)
}
