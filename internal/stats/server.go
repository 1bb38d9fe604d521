package stats

import (
	"math"

	"plimsoll/internal/phrase"
	"plimsoll/internal/record"
)

// ServerInput is what the servers counted between a reading before the first
// request of the run and one after its last, warm-ups and drains included, over
// all their replicas. Nil is not known.
type ServerInput struct {
	// TTFT, TPOT and E2E are the engine's own histograms of them.
	TTFT *Mean `json:"ttft"`
	TPOT *Mean `json:"tpot"`
	E2E  *Mean `json:"e2e"`
	// PromptTokens, with cached ones, and OutputTokens are what it counted.
	PromptTokens *float64 `json:"prompt_tokens"`
	OutputTokens *float64 `json:"output_tokens"`
	// PrefixHitRatio is the share of looked-up prompt tokens that its prefix cache
	// held, 0 to 1.
	PrefixHitRatio *float64 `json:"prefix_hit_ratio"`
	// TokensPerStep is how many tokens speculation let a step give on average, 1
	// without.
	TokensPerStep *float64 `json:"tokens_per_step"`
}

// Mean is the sum of some values and their number.
type Mean struct {
	Sum   float64 `json:"sum"` // in seconds
	Count float64 `json:"count"`
}

// The limits of the checks against the servers' own figures.
const (
	maxTokensApart = 0.02
	maxReuseOff    = 0.05
	// maxBelowMS is what rounding and the resolution of clocks may make of two equal
	// times.
	maxBelowMS = 1
	// maxCutShare is the share of requests without an end of their own above which
	// the means of whole responses are of different requests, and that of requests
	// given up before their first token above which the means of ttft are.
	maxCutShare = 0.01
)

// own is what this client did in all of the run, warm-ups included: what the
// servers' counters are compared with.
type own struct {
	ttft, tpot, e2e total // ns
	// prompt and output are tokens of the ok requests, mostPrompt and mostOutput
	// those that the others may have used at most.
	prompt, output         total
	mostPrompt, mostOutput int64
	ok, cut                int64
	// unseen are the requests that ended here before a first token was seen, though the
	// server may have made and counted one.
	unseen int64
	// uncounted are ok requests without a count, open others whose tokens have no
	// known bound.
	uncountedPrompt, uncountedOutput bool
	openPrompt, openOutput           bool
}

func (o *own) add(r *record.Request, events int) {
	v, first := TTFT(r)
	switch {
	case first:
		o.ttft.add(v)
	case r.Streamed && r.Sent != record.Unset && r.HTTPStatus < 400:
		o.unseen++
	}
	if v, ok := E2E(r); ok {
		o.e2e.add(v)
	}
	if span, tokens, _ := tpotOf(r, events); tokens > 0 && r.Status == record.OK {
		o.tpot.add((span + int64(tokens)/2) / int64(tokens))
	}
	if r.Status == record.OK {
		o.ok++
		if r.Prompt >= 0 {
			o.prompt.add(int64(r.Prompt))
		} else {
			o.uncountedPrompt = true
		}
		if r.Output >= 0 {
			o.output.add(int64(r.Output))
		} else {
			o.uncountedOutput = true
		}
		return
	}
	if r.Sent == record.Unset && r.Headers == record.Unset {
		return // the server has not seen it
	}
	o.cut++
	most := func(counted, asked int32, sum *int64, open *bool) {
		switch {
		case asked > 0:
			*sum += int64(max(asked, counted))
		case counted >= 0:
			*sum += int64(counted)
			*open = true
		default:
			*open = true
		}
	}
	most(r.Prompt, r.AskedPrompt, &o.mostPrompt, &o.openPrompt)
	most(r.Output, r.AskedOutput, &o.mostOutput, &o.openOutput)
}

// apart returns by which share a server's count lies outside what this client can
// have used, negative when it counted less; false when it cannot be said.
func apart(server *float64, mine total, most int64, uncounted, open bool) (float64, bool) {
	if server == nil || uncounted || mine.sum <= 0 {
		return 0, false
	}
	low := float64(mine.sum)
	// Prompts are asked for without the chat template: the bound has room for it.
	high := low + 1.1*float64(most)
	switch {
	case *server < low:
		return (*server - low) / low, true
	case *server > high && !open:
		return (*server - high) / low, true
	}
	return 0, true
}

// Agreement has figures of the engines and of this client of all of the run, from
// the reading before the first request to the one after the last, warm-ups and
// drains included. Pointers are nil where a figure is not known.
type Agreement struct {
	PromptTokens Pair `json:"prompt_tokens"` // sums
	OutputTokens Pair `json:"output_tokens"`
	TTFT         Pair `json:"ttft_ms"` // means in ms
	TPOT         Pair `json:"tpot_ms"`
	E2E          Pair `json:"e2e_ms"`
	// Attributable says whether the engines' tokens are those of this client, nil
	// when that is not known.
	Attributable *bool `json:"attributable"`
}

// Pair is one figure by the engines and by this client.
type Pair struct {
	Engine *float64 `json:"engine"`
	Client *float64 `json:"client"`
}

// agreement puts the figures side by side; nil when nothing was read.
func (c *Collector) agreement() *Agreement {
	in, o := c.in.Server, &c.own
	if in == nil {
		return nil
	}
	sum := func(server *float64, mine total) Pair {
		p := Pair{Engine: server}
		if mine.n > 0 {
			p.Client = known(float64(mine.sum))
		}
		return p
	}
	mean := func(server *Mean, mine total) Pair {
		var p Pair
		if server != nil && server.Count > 0 {
			p.Engine = known(1e3 * server.Sum / server.Count)
		}
		if mine.n > 0 {
			p.Client = known(float64(mine.sum) / perMS / float64(mine.n))
		}
		return p
	}
	return &Agreement{
		PromptTokens: sum(in.PromptTokens, o.prompt), OutputTokens: sum(in.OutputTokens, o.output),
		TTFT: mean(in.TTFT, o.ttft), TPOT: mean(in.TPOT, o.tpot), E2E: mean(in.E2E, o.e2e),
	}
}

type checkFunc func(name string, value, limit *float64, ok bool, effect Effect, why *phrase.Phrase, values ...phrase.Value)

// serverChecks compares the client's figures with the servers' own.
func (c *Collector) serverChecks(s *Summary, check checkFunc) {
	in, o := c.in.Server, &c.own
	if in == nil {
		in = new(ServerInput)
	}
	var off *float64
	what := saysMorePrompt
	for _, t := range []struct {
		server          *float64
		mine            total
		most            int64
		uncounted, open bool
		more, fewer     *phrase.Phrase
	}{
		{in.PromptTokens, o.prompt, o.mostPrompt, o.uncountedPrompt, o.openPrompt, saysMorePrompt, saysFewerPrompt},
		{in.OutputTokens, o.output, o.mostOutput, o.uncountedOutput, o.openOutput, saysMoreOutput, saysFewerOutput},
	} {
		v, ok := apart(t.server, t.mine, t.most, t.uncounted, t.open)
		if ok && (off == nil || math.Abs(v) > math.Abs(*off)) {
			off = known(v)
			if what = t.more; v < 0 {
				what = t.fewer
			}
		}
	}
	attributable := off == nil || math.Abs(*off) <= maxTokensApart
	if s.Agreement = c.agreement(); off != nil {
		s.Agreement.Attributable = &attributable
	}
	check("engine_tokens", off, known(maxTokensApart), attributable, MakesNote,
		what, phrase.Share(math.Abs(or0(off))))

	// Means of other clients' requests, or of some replicas, say nothing of ours.
	var below *float64
	of := ""
	if attributable {
		for _, t := range []struct {
			name   string
			server *Mean
			mine   total
			fair   bool
		}{
			{"ttft", in.TTFT, o.ttft, float64(o.unseen) <= maxCutShare*float64(o.ttft.n)},
			{"e2e", in.E2E, o.e2e, float64(o.cut) <= maxCutShare*float64(o.ok)},
		} {
			if t.server == nil || t.server.Count <= 0 || t.mine.n == 0 || !t.fair {
				continue
			}
			v := 1e3*t.server.Sum/t.server.Count - float64(t.mine.sum)/perMS/float64(t.mine.n)
			if below == nil || v > *below {
				below, of = known(v), t.name
			}
		}
	}
	check("engine_latency", below, known(maxBelowMS), below == nil || *below <= maxBelowMS, MakesNote,
		saysEngineLatency, phrase.Quote(of), millis(below))

	reuse := in.PrefixHitRatio
	if k := s.Tokens; k.Cached != nil && k.Prompt != nil && *k.Prompt > 0 {
		reuse = known(float64(*k.Cached) / float64(*k.Prompt))
	}
	var reuseOff *float64
	if reuse != nil && c.in.IntendedReuse != nil {
		reuseOff = known(math.Abs(*reuse - *c.in.IntendedReuse))
	}
	check("prefix_cache", reuseOff, known(maxReuseOff), reuseOff == nil || *reuseOff <= maxReuseOff, MakesNote,
		saysPrefixCache, portion(reuse), portion(c.in.IntendedReuse))

	var tpot *float64
	limit := c.in.TPOTFloorMS
	if limit != nil {
		if s.Latency.TPOT != nil {
			tpot = s.Latency.TPOT.P50
		}
		if n := in.TokensPerStep; n != nil && *n > 1 {
			limit = known(*limit / *n)
		}
	}
	check("tpot_floor", tpot, limit, tpot == nil || *tpot >= or0(limit), MakesNote,
		saysTPOTFloor, millis(tpot), millis(limit))
}
