package stats

import (
	"cmp"
	"slices"

	"plimsoll/internal/phrase"
)

// What the checks say that did not pass, by the name of the check.
var (
	saysFailures       = phrase.New("failures", "{failed} of {requests} requests failed; they are in no latency")
	saysRefused        = phrase.New("failures.refused", "{failed} of {requests} requests were refused, as a server does with what is longer than its context; they are in no latency")
	saysEmptyWindow    = phrase.New("empty_window", "the steady window of {empty} of {steps} steps has no requests")
	saysShortWindow    = phrase.New("short_window", "the run ended early: the steady window of {short} of {steps} steps is shorter than asked, and all figures are of the {measured} that were measured")
	saysShortOf        = phrase.New("short_window.of", "the run ended early: the steady window of {short} of {steps} steps is shorter than asked, and all figures are of the {measured} that were measured, of {asked} that were asked for")
	saysNoSuccess      = phrase.New("no_success", "none of {requests} requests succeeded: there is nothing to measure")
	saysDroppedRecords = phrase.New("dropped_records", "{dropped} records are missing: they could not be written in time, or not be read again")
	saysDroppedSamples = phrase.New("dropped_samples", "{dropped} telemetry samples were dropped because they could not be written in time")
	saysSendLag        = phrase.New("send_lag", "requests were sent late: p99 of the send lag is {lag}, with 95 % confidence at least {least}, and may be {limit}")
	saysFewSent        = phrase.New("send_lag.few", "p99 of the send lag is {lag} and may be {limit}, but of {requests} requests only {late} were later than that: it takes {needed} to be no chance")
	saysCanaryLag      = phrase.New("canary_lag", "this client was slow to read: p99 of the canary's lag is {lag}, with 95 % confidence at least {least}, and may be {limit}")
	saysFewRead        = phrase.New("canary_lag.few", "p99 of the canary's lag is {lag} and may be {limit}, but of {readings} readings only {late} were later than that: it takes {needed} to be no chance")
	saysCPU            = phrase.New("cpu", "this client used {cpu} of its cores and has no kernel times to tell its own delays by")
	saysBounded        = phrase.New("bounded_events", "{share} of the events came in a read with later ones: itl and event_gap are only bounds")
	saysFellBehind     = phrase.New("achieved_rate.client", "only {share} of the scheduled requests were started in time: the client fell behind")
	saysFewBehind      = phrase.New("achieved_rate.few", "of {requests} scheduled requests {late} were not started in time: it takes {needed} to be no chance")
	saysHeldBack       = phrase.New("achieved_rate.cap", "only {share} of the scheduled requests were started in time: the cap in flight held requests back, so the server was the limit")
	saysTokenCount     = phrase.New("token_count", "server and tokenizer count the output differently: by {share} in the median")
	saysMoreEvents     = phrase.New("more_events_than_tokens", "{requests} requests had more output events than output tokens")
	saysOutputLength   = phrase.New("output_length", "{share} of the answers stopped short of the asked length; ignore-eos asks for exactly that many tokens")
	saysPromptLength   = phrase.New("prompt_length", "prompts differ from the asked length by {share} on average")
	saysBuffered       = phrase.New("buffered_stream", "{share} of the answers came in one burst at their end: something between buffers them, and their itl and tpot are in no pass or fail")
	saysMorePrompt     = phrase.New("engine_tokens.more_prompt", "server figures are not attributable to this run: the servers counted {share} more: something else uses these servers too (prompt tokens)")
	saysFewerPrompt    = phrase.New("engine_tokens.fewer_prompt", "server figures are not attributable to this run: the servers counted {share} fewer: not every replica is read, or not all was counted (prompt tokens)")
	saysMoreOutput     = phrase.New("engine_tokens.more_output", "server figures are not attributable to this run: the servers counted {share} more: something else uses these servers too (output tokens)")
	saysFewerOutput    = phrase.New("engine_tokens.fewer_output", "server figures are not attributable to this run: the servers counted {share} fewer: not every replica is read, or not all was counted (output tokens)")
	saysEngineLatency  = phrase.New("engine_latency", "the mean {figure} of this client is {below} below the engine's own, which cannot be: they are not of the same requests or one clock is wrong")
	saysPrefixCache    = phrase.New("prefix_cache", "{cached} of the prompt tokens came from a cache, {meant} were meant to: ttft is that of another workload")
	saysTPOTFloor      = phrase.New("tpot_floor", "half of the requests have a tpot of at most {tpot}, less than the {floor} that reading the weights of the declared model takes on the declared GPUs: cached answers, another model, or speculation that is not declared")
)

// millis and portion are figures in a sentence that is only said where they are known.
func millis(v *float64) phrase.Value  { return phrase.Number(or0(v), "ms") }
func portion(v *float64) phrase.Value { return phrase.Share(or0(v)) }

// The limits of the verdict, from METRICS.md.
const (
	maxSendLagMS     = 5
	maxSendLagShare  = 0.01 // of the mean e2e
	maxCPUShare      = 0.85
	maxBoundedShare  = 0.05
	minAchievedShare = 0.99
	maxCountOff      = 0.02
	maxShortShare    = 0.05
	maxPromptOff     = 0.05
	maxBufferedShare = 0.05
)

// MaxCanaryLagMS is the lag of the canary in ms from which p99 on a run is
// client-bound.
const MaxCanaryLagMS = 5

// SendLagLimitMS is the send lag in ms from which p99 on a run is client-bound
// whose responses take e2e ms in the mean, 0 when that is not known.
func SendLagLimitMS(e2e float64) float64 { return max(maxSendLagMS, maxSendLagShare*e2e) }

// verdict makes all checks that records and client can answer.
func (c *Collector) verdict(s *Summary, f *figures) {
	r, g := &s.Run, f.group
	r.Verdict = Valid
	r.Reasons, r.Checks = []Reason{}, []Check{}
	check := func(name string, value, limit *float64, ok bool, effect Effect, why *phrase.Phrase, values ...phrase.Value) {
		r.Checks = append(r.Checks, Check{Check: name, Value: value, Limit: limit, OK: ok})
		if ok {
			return
		}
		text, said := why.Say(values...)
		r.Reasons = append(r.Reasons, Reason{name, value, limit, text, effect, said})
		switch effect {
		case MakesInvalid:
			r.Verdict = Invalid
		case MakesClientBound:
			if r.Verdict == Valid {
				r.Verdict = ClientBound
			}
		case MakesNote:
		}
	}
	count := func(n int64) *float64 { return known(float64(n)) }
	share := func(n, of int64) *float64 {
		if of == 0 {
			return nil
		}
		return known(float64(n) / float64(of))
	}
	// above says whether a figure that is known is over its limit.
	above := func(v *float64, limit float64) bool { return v != nil && *v > limit }

	failed := saysFailures
	if c.in.Virtual {
		failed = saysRefused // nothing fails otherwise in virtual time
	}
	check("failures", count(g.req.Error), known(0), g.req.Error == 0, MakesNote,
		failed, phrase.Count(g.req.Error), phrase.Count(g.req.Scheduled))

	empty, short, asked := 0, 0, int64(0)
	for i, st := range c.in.Steps {
		asked += st.Asked
		var n int64
		for _, w := range c.groups[i] {
			n += w.req.Scheduled
		}
		if n == 0 || st.End <= st.Start {
			empty++
		} else if !st.Complete {
			short++
		}
	}
	check("empty_window", count(int64(empty)), known(0), empty == 0 && len(c.in.Steps) > 0, MakesInvalid,
		saysEmptyWindow, phrase.Count(empty), phrase.Count(len(c.in.Steps)))
	tooShort, ofHowMuch := saysShortWindow, []phrase.Value{phrase.Count(short), phrase.Count(len(c.in.Steps)), phrase.Number(float64(f.window)/perS, "s")}
	if !slices.ContainsFunc(c.in.Steps, func(s StepInput) bool { return s.Asked == 0 }) {
		tooShort, ofHowMuch = saysShortOf, append(ofHowMuch, phrase.Number(float64(asked)/perS, "s"))
	}
	check("short_window", count(int64(short)), known(0), short == 0, MakesInvalid, tooShort, ofHowMuch...)
	check("no_success", count(g.req.OK), known(1), g.req.OK > 0 || g.req.Scheduled == 0, MakesInvalid,
		saysNoSuccess, phrase.Count(g.req.Scheduled))
	check("dropped_records", count(c.in.Client.DroppedRecords), known(0), c.in.Client.DroppedRecords == 0, MakesInvalid,
		saysDroppedRecords, phrase.Count(c.in.Client.DroppedRecords))
	check("dropped_samples", count(c.in.Client.DroppedSamples), known(0), c.in.Client.DroppedSamples == 0, MakesInvalid,
		saysDroppedSamples, phrase.Count(c.in.Client.DroppedSamples))

	// A few values say little of their p99: one hiccup is p99 of thirty.
	late := func(name string, p99 *float64, limit float64, t *tail, why, few *phrase.Phrase) {
		over := above(p99, limit)
		bounds := []phrase.Value{millis(p99), phrase.Number(limit, "ms")}
		switch {
		case !over || t.proves():
			check(name, p99, &limit, !over, MakesClientBound, why, bounds[0], millis(t.least), bounds[1])
		default:
			check(name, p99, &limit, false, MakesNote, few, append(bounds, t.few()...)...)
		}
		r.Checks[len(r.Checks)-1].AtLeast = t.least
	}
	late("send_lag", s.Client.SendLag.P99, SendLagLimitMS(or0(s.Latency.E2E.Mean)), &f.sendLag, saysSendLag, saysFewSent)

	var canary *float64
	if s.Client.CanaryLag != nil {
		canary = s.Client.CanaryLag.P99
	}
	read := tailOfHistogram(c.in.Client.CanaryLag, MaxCanaryLagMS)
	late("canary_lag", canary, MaxCanaryLagMS, &read, saysCanaryLag, saysFewRead)
	cpu := s.Client.CPUShare
	user := s.Client.Timestamps != nil && *s.Client.Timestamps == "user"
	check("cpu", cpu, known(maxCPUShare), !user || !above(cpu, maxCPUShare), MakesClientBound,
		saysCPU, portion(cpu))
	bounded := s.Client.BoundedEventShare
	check("bounded_events", bounded, known(maxBoundedShare), !above(bounded, maxBoundedShare), MakesNote,
		saysBounded, portion(bounded))

	// The step that fell furthest behind decides, of those in which that is no chance.
	var achieved *float64
	var behind tail
	held, sure := false, false
	for i := range c.in.Steps {
		var n, late, capped int64
		for _, w := range c.groups[i] {
			n, late, capped = n+w.req.Scheduled, late+w.late, capped+w.capHeld
		}
		v, t, byCap := share(n-late, n), tail{n: n, over: late}, 2*capped >= late
		proven := !byCap && t.proves()
		if v != nil && (achieved == nil || proven && !sure || proven == sure && *v < *achieved) {
			achieved, behind, held, sure = v, t, byCap, proven
		}
	}
	inTime := achieved == nil || *achieved >= minAchievedShare
	switch {
	case held:
		check("achieved_rate", achieved, known(minAchievedShare), inTime, MakesNote, saysHeldBack, portion(achieved))
	case inTime || sure:
		check("achieved_rate", achieved, known(minAchievedShare), inTime, MakesClientBound, saysFellBehind, portion(achieved))
	default:
		check("achieved_rate", achieved, known(minAchievedShare), false, MakesNote, saysFewBehind, behind.few()...)
	}

	var off *float64
	if g.countOff.Count() > 0 {
		off = known(float64(g.countOff.Quantile(0.5)) / 1e6)
	}
	check("token_count", off, known(maxCountOff), !above(off, maxCountOff), MakesNote,
		saysTokenCount, portion(off))
	check("more_events_than_tokens", count(g.moreEvents), known(0), g.moreEvents == 0, MakesNote,
		saysMoreEvents, phrase.Count(g.moreEvents))
	shorter := share(g.short, g.short+g.long)
	check("output_length", shorter, known(maxShortShare), !above(shorter, maxShortShare), MakesNote,
		saysOutputLength, portion(shorter))
	var promptOff *float64
	if g.promptOff.n > 0 {
		promptOff = known(float64(g.promptOff.sum) / 1e9 / float64(g.promptOff.n))
	}
	check("prompt_length", promptOff, known(maxPromptOff), !above(promptOff, maxPromptOff), MakesNote,
		saysPromptLength, portion(promptOff))
	buffered := share(g.buffered, g.req.OK)
	check("buffered_stream", buffered, known(maxBufferedShare), !above(buffered, maxBufferedShare), MakesNote,
		saysBuffered, portion(buffered))

	if !c.in.Virtual {
		c.serverChecks(s, check)
	}

	slices.SortStableFunc(r.Reasons, func(a, b Reason) int {
		return cmp.Compare(severity(a), severity(b))
	})
}

// severity orders reasons: failures first, then by effect.
func severity(r Reason) int {
	switch {
	case r.Check == "failures":
		return 0
	case r.Effect == MakesInvalid:
		return 1
	case r.Effect == MakesClientBound:
		return 2
	default:
		return 3
	}
}

func or0(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}
