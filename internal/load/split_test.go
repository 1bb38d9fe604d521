package load

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"plimsoll/internal/play"
	"plimsoll/internal/record"
	"plimsoll/internal/stats"
)

// plan is an answer whose n tokens are made one every gap ms: events are the
// number of tokens each carries, an event goes out when its last token is made,
// and it is written in the pieces that cuts ask for.
type plan struct {
	gap    float64
	events []int
	// held is for each event whether it is held back and sent with the next.
	held []bool
	// cuts are the shares at which an event's bytes are split over two writes;
	// 0 for no split.
	cuts []float64
}

func drawPlan(t *rapid.T) plan {
	p := plan{gap: float64(rapid.IntRange(1, 50).Draw(t, "gap"))}
	p.events = rapid.SliceOfN(rapid.IntRange(1, 6), 2, 40).Draw(t, "events")
	for i := range p.events {
		// The first event and the last are on time: a merge that delays one of
		// them changes what anybody could measure.
		held := i > 0 && i < len(p.events)-1 && rapid.IntRange(0, 3).Draw(t, "held") == 0
		cut := 0.0
		if rapid.IntRange(0, 3).Draw(t, "cut") == 0 {
			cut = rapid.Float64Range(0.01, 0.99).Draw(t, "at")
		}
		p.held, p.cuts = append(p.held, held), append(p.cuts, cut)
	}
	return p
}

// script plays p. With running the server tells its count in every event.
func (p *plan) script(running bool) *play.Script {
	var writes []play.Write
	at, n, waiting := 100.0, 0, ""
	for i, k := range p.events {
		before := at + p.gap*float64(n)
		n += k
		now := at + p.gap*float64(n)
		event := chunk(strings.Repeat("x", k))
		if running {
			event = strings.TrimSuffix(event, "}\n\n") + fmt.Sprintf(`,"usage":{"prompt_tokens":3,"completion_tokens":%d}}`+"\n\n", n)
		}
		cut := p.cuts[i]
		if waiting != "" {
			cut = 0 // or what was held back might come in a read of its own
		}
		event = waiting + event
		waiting = ""
		switch {
		case p.held[i]:
			waiting = event
		case cut > 0:
			k := max(1, int(cut*float64(len(event))))
			writes = append(writes, play.Write{At: (before + now) / 2, Text: event[:k]}, play.Write{At: now, Text: event[k:]})
		default:
			writes = append(writes, play.Write{At: now, Text: event})
		}
	}
	end := at + p.gap*float64(n+1)
	writes = append(writes, play.Write{At: end, Text: fmt.Sprintf(endForm, 3, n, n+3)})
	return respond(play.Response{Status: 200, Headers: events, Framing: "chunked", Writes: writes}, "eof", end)
}

// However tokens are put into events and events into reads, the sums are the
// same and so is the time per token.
func TestSplitsOfTokensConserveSumsAndTPOT(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt)
		running := rapid.Bool().Draw(rt, "running")
		wrong := ""
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, p.script(running))
			g.run()
			wrong = p.wrong(g.only(), running)
		})
		if wrong != "" {
			rt.Fatalf("%+v: %s", p, wrong)
		}
	})
}

// wrong says what of r is not as p was, "" when all is.
func (p *plan) wrong(r *record.Request, running bool) string {
	n := 0
	for _, k := range p.events {
		n += k
	}
	if r.Status != record.OK || len(r.Events) != len(p.events) || int(r.Output) != n || int(r.StreamedTokens) != n {
		return fmt.Sprintf("%v, %d events, %d tokens, %d streamed; want %d and %d", r.Status, len(r.Events), r.Output, r.StreamedTokens, len(p.events), n)
	}
	if int(r.TextBytes) != n || len(r.Text[0]) != n {
		return fmt.Sprintf("%d and %d bytes of text, want %d", r.TextBytes, len(r.Text[0]), n)
	}
	sum, known := 0, true
	for i, e := range r.Events {
		if e.Bounded != p.held[i] {
			return fmt.Sprintf("event %d is bounded: %v", i, e.Bounded)
		}
		known = known && e.Tokens != record.Unknown
		sum += int(e.Tokens)
	}
	if running && (!known || sum != n) {
		return fmt.Sprintf("the events carry %d tokens, want %d", sum, n)
	}
	gaps := int64(0)
	stats.EventGaps(r, func(gap int64) { gaps += gap })
	if gaps != r.LastToken-r.FirstToken {
		return fmt.Sprintf("gaps add up to %d ns, want %d", gaps, r.LastToken-r.FirstToken)
	}
	tpot, basis, ok := stats.TPOT(r)
	if running && (!ok || basis != record.BasisFirstEvent) {
		return fmt.Sprintf("tpot has the basis %v", basis)
	}
	// Without a running count one token too many may be a silent end token, or be
	// in the first event: nobody can know.
	if certain := running || n == len(p.events); certain && ok && math.Abs(tpot/1e6-p.gap) > 1e-6 {
		return fmt.Sprintf("tpot is %v ms, want %v; the first event has %d tokens", tpot/1e6, p.gap, r.FirstEventTokens)
	}
	return ""
}
