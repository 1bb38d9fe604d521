package load

import (
	"fmt"
	"sync"

	"plimsoll/internal/record"
)

// window is the number of requests over which the error share is taken.
const window = 100

// guard watches the ended requests and says when a run must stop. Its mutex is
// held for a few instructions, once before and once after a request.
type guard struct {
	maxShare float64
	maxTotal int64

	mu     sync.Mutex
	failed [window]bool // whether the request failed, a ring
	at     int
	seen   int // requests taken into account since the start
	errors int
	// spent are the tokens of ended requests, reserved those that the ones in
	// flight were asked for.
	spent, reserved int64
}

// reserve takes the tokens that a request asks for out of the budget, and
// returns why the run must stop when there are not enough left.
func (g *guard) reserve(asked int64) string {
	if g.maxTotal <= 0 {
		return ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.spent+g.reserved+asked > g.maxTotal {
		return fmt.Sprintf("max-total-tokens: %d tokens are used and %d asked for by requests in flight; one more request of %d could exceed %d",
			g.spent, g.reserved, asked, g.maxTotal)
	}
	g.reserved += asked
	return ""
}

// ended accounts for an ended request, for which asked was reserved, and returns
// why the run must stop.
func (g *guard) ended(r *record.Request, asked int64) (StopReason, string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.maxTotal > 0 {
		g.reserved -= asked
		g.spent += tokens(r)
	}
	if r.Status != record.OK && r.Status != record.Failed {
		return Completed, ""
	}
	bad := r.Status == record.Failed
	if g.failed[g.at] {
		g.errors--
	}
	if g.failed[g.at] = bad; bad {
		g.errors++
	}
	g.at = (g.at + 1) % window
	g.seen++
	if bad {
		switch r.HTTPStatus {
		case 401, 403:
			return KeyRefused, "the key was refused (" + r.Message + "): name the environment variable that holds the right one with api-key-env"
		case 404, 405:
			return PathRefused, "the endpoint does not know this path or model (" + r.Message + "): check url, api and model"
		}
	}
	// Fewer than a whole window of requests is enough when even a window filled
	// up with successes would be over the limit.
	if g.maxShare > 0 && g.maxShare < 1 && float64(g.errors) > g.maxShare*window {
		return ErrorShare, fmt.Sprintf("%d of the last %d requests failed, more than max-error-share %g of %d allows; the last failure: %s: %s",
			g.errors, min(g.seen, window), g.maxShare, window, r.Error, r.Message)
	}
	return Completed, ""
}

// tokens is what a request has cost as far as it is known: the server's account,
// else what it was asked for and what was seen of its output.
func tokens(r *record.Request) int64 {
	if r.Start == record.Unset {
		return 0
	}
	n := int64(r.Prompt)
	if r.Prompt == record.Unknown {
		n = int64(r.AskedPrompt)
	}
	if r.Output != record.Unknown {
		return n + int64(r.Output)
	}
	return n + int64(len(r.Events))
}
