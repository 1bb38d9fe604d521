package stats

import (
	"cmp"
	"slices"

	"plimsoll/internal/phrase"
)

// What the checks say that did not pass, by the name of the check.
var (
	saysFailures       = phrase.New("failures", "{failed} of {requests} requests failed; they are in no latency")
	saysEmptyWindow    = phrase.New("empty_window", "the steady window of {empty} of {steps} steps has no requests")
	saysShortWindow    = phrase.New("short_window", "the steady window of {short} of {steps} steps is shorter than asked")
	saysNoSuccess      = phrase.New("no_success", "none of {requests} requests succeeded: there is nothing to measure")
	saysDroppedRecords = phrase.New("dropped_records", "{dropped} records are missing: they could not be written in time, or not be read again")
	saysDroppedSamples = phrase.New("dropped_samples", "{dropped} telemetry samples were dropped because they could not be written in time")
	saysSendLag        = phrase.New("send_lag", "requests were sent late: p99 of the send lag is {lag}")
	saysCanaryLag      = phrase.New("canary_lag", "this client was slow to read: p99 of the canary's lag is {lag}")
	saysCPU            = phrase.New("cpu", "this client used {cpu} of its cores and has no kernel times to tell its own delays by")
	saysBounded        = phrase.New("bounded_events", "{share} of the events came in a read with later ones: itl and event_gap are only bounds")
	saysFellBehind     = phrase.New("achieved_rate.client", "only {share} of the scheduled requests were started in time: the client fell behind")
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
		r.Checks = append(r.Checks, Check{name, value, limit, ok})
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

	check("failures", count(g.req.Error), known(0), g.req.Error == 0, MakesNote,
		saysFailures, phrase.Count(g.req.Error), phrase.Count(g.req.Scheduled))

	empty, short := 0, 0
	for i, st := range c.in.Steps {
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
	check("short_window", count(int64(short)), known(0), short == 0, MakesInvalid,
		saysShortWindow, phrase.Count(short), phrase.Count(len(c.in.Steps)))
	check("no_success", count(g.req.OK), known(1), g.req.OK > 0 || g.req.Scheduled == 0, MakesInvalid,
		saysNoSuccess, phrase.Count(g.req.Scheduled))
	check("dropped_records", count(c.in.Client.DroppedRecords), known(0), c.in.Client.DroppedRecords == 0, MakesInvalid,
		saysDroppedRecords, phrase.Count(c.in.Client.DroppedRecords))
	check("dropped_samples", count(c.in.Client.DroppedSamples), known(0), c.in.Client.DroppedSamples == 0, MakesInvalid,
		saysDroppedSamples, phrase.Count(c.in.Client.DroppedSamples))

	lagLimit := SendLagLimitMS(or0(s.Latency.E2E.Mean))
	lag := s.Client.SendLag.P99
	check("send_lag", lag, &lagLimit, !above(lag, lagLimit), MakesClientBound,
		saysSendLag, millis(lag))

	var canary *float64
	if s.Client.CanaryLag != nil {
		canary = s.Client.CanaryLag.P99
	}
	check("canary_lag", canary, known(MaxCanaryLagMS), !above(canary, MaxCanaryLagMS), MakesClientBound,
		saysCanaryLag, millis(canary))
	cpu := s.Client.CPUShare
	user := s.Client.Timestamps != nil && *s.Client.Timestamps == "user"
	check("cpu", cpu, known(maxCPUShare), !user || !above(cpu, maxCPUShare), MakesClientBound,
		saysCPU, portion(cpu))
	bounded := s.Client.BoundedEventShare
	check("bounded_events", bounded, known(maxBoundedShare), !above(bounded, maxBoundedShare), MakesNote,
		saysBounded, portion(bounded))

	// The step that fell furthest behind decides.
	var achieved *float64
	held := false
	for i := range c.in.Steps {
		var n, late, capped int64
		for _, w := range c.groups[i] {
			n, late, capped = n+w.req.Scheduled, late+w.late, capped+w.capHeld
		}
		if v := share(n-late, n); v != nil && (achieved == nil || *v < *achieved) {
			achieved, held = v, 2*capped >= late
		}
	}
	effect, why := MakesClientBound, saysFellBehind
	if held {
		effect, why = MakesNote, saysHeldBack
	}
	check("achieved_rate", achieved, known(minAchievedShare), achieved == nil || *achieved >= minAchievedShare, effect,
		why, portion(achieved))

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
