package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

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
	check := func(name string, value, limit *float64, ok bool, effect Effect, format string, args ...any) {
		r.Checks = append(r.Checks, Check{name, value, limit, ok})
		if ok {
			return
		}
		r.Reasons = append(r.Reasons, Reason{name, value, limit, fmt.Sprintf(format, args...), effect})
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
		"%d of %d requests failed; they are in no latency", g.req.Error, g.req.Scheduled)

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
		"the steady window of %d of %d steps has no requests", empty, len(c.in.Steps))
	check("short_window", count(int64(short)), known(0), short == 0, MakesInvalid,
		"the steady window of %d of %d steps is shorter than asked", short, len(c.in.Steps))
	check("no_success", count(g.req.OK), known(1), g.req.OK > 0 || g.req.Scheduled == 0, MakesInvalid,
		"none of %d requests succeeded: there is nothing to measure", g.req.Scheduled)
	check("dropped_records", count(c.in.Client.DroppedRecords), known(0), c.in.Client.DroppedRecords == 0, MakesInvalid,
		"%d records are missing: they could not be written in time, or not be read again", c.in.Client.DroppedRecords)
	check("dropped_samples", count(c.in.Client.DroppedSamples), known(0), c.in.Client.DroppedSamples == 0, MakesInvalid,
		"%d telemetry samples were dropped because they could not be written in time", c.in.Client.DroppedSamples)

	lagLimit := SendLagLimitMS(or0(s.Latency.E2E.Mean))
	lag := s.Client.SendLag.P99
	check("send_lag", lag, &lagLimit, !above(lag, lagLimit), MakesClientBound,
		"requests were sent late: p99 of the send lag is %s ms", three(or0(lag)))

	var canary *float64
	if s.Client.CanaryLag != nil {
		canary = s.Client.CanaryLag.P99
	}
	check("canary_lag", canary, known(MaxCanaryLagMS), !above(canary, MaxCanaryLagMS), MakesClientBound,
		"this client was slow to read: p99 of the canary's lag is %s ms", three(or0(canary)))
	cpu := s.Client.CPUShare
	user := s.Client.Timestamps != nil && *s.Client.Timestamps == "user"
	check("cpu", cpu, known(maxCPUShare), !user || !above(cpu, maxCPUShare), MakesClientBound,
		"this client used %s %% of its cores and has no kernel times to tell its own delays by", three(100*or0(cpu)))
	bounded := s.Client.BoundedEventShare
	check("bounded_events", bounded, known(maxBoundedShare), !above(bounded, maxBoundedShare), MakesNote,
		"%s %% of the events came in a read with later ones: itl and event_gap are only bounds", three(100*or0(bounded)))

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
	effect, who := MakesClientBound, "the client fell behind"
	if held {
		effect, who = MakesNote, "the cap in flight held requests back, so the server was the limit"
	}
	check("achieved_rate", achieved, known(minAchievedShare), achieved == nil || *achieved >= minAchievedShare, effect,
		"only %s %% of the scheduled requests were started in time: %s", three(100*or0(achieved)), who)

	var off *float64
	if g.countOff.Count() > 0 {
		off = known(float64(g.countOff.Quantile(0.5)) / 1e6)
	}
	check("token_count", off, known(maxCountOff), !above(off, maxCountOff), MakesNote,
		"server and tokenizer count the output differently: by %s %% in the median", three(100*or0(off)))
	check("more_events_than_tokens", count(g.moreEvents), known(0), g.moreEvents == 0, MakesNote,
		"%d requests had more output events than output tokens", g.moreEvents)
	shorter := share(g.short, g.short+g.long)
	check("output_length", shorter, known(maxShortShare), !above(shorter, maxShortShare), MakesNote,
		"%s %% of the answers stopped short of the asked length; ignore-eos asks for exactly that many tokens", three(100*or0(shorter)))
	var promptOff *float64
	if g.promptOff.n > 0 {
		promptOff = known(float64(g.promptOff.sum) / 1e9 / float64(g.promptOff.n))
	}
	check("prompt_length", promptOff, known(maxPromptOff), !above(promptOff, maxPromptOff), MakesNote,
		"prompts differ from the asked length by %s %% on average", three(100*or0(promptOff)))
	buffered := share(g.buffered, g.req.OK)
	check("buffered_stream", buffered, known(maxBufferedShare), !above(buffered, maxBufferedShare), MakesNote,
		"%s %% of the answers came in one burst at their end: something between buffers them, and their itl and tpot are in no pass or fail", three(100*or0(buffered)))

	if !c.in.Virtual {
		c.serverChecks(s, check)
	}

	slices.SortStableFunc(r.Reasons, func(a, b Reason) int {
		return cmp.Compare(severity(a), severity(b))
	})
}

// three writes a figure with three significant digits, as the report does.
func three(v float64) string {
	if math.Abs(v) >= 999.5 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strings.TrimSuffix(fmt.Sprintf("%#.3g", v), ".")
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
