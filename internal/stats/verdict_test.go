package stats

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/histogram"
	"plimsoll/internal/record"
	"plimsoll/internal/scenario"
)

// healthy returns n ok requests spread over 10 s, each 100 ms long.
func healthy(n int) []*record.Request {
	var rs []*record.Request
	for i := range n {
		r := streamed(int64(i)*10*sec/int64(n), 50*ms, 100*ms)
		r.KernelTimes, r.ReadLagMean, r.ReadLagMax = true, 1000, 2000
		r.Prompt, r.AskedPrompt, r.AskedOutput = 100, 100, 2
		rs = append(rs, r)
	}
	return rs
}

func TestVerdict(t *testing.T) {
	lags := func(v time.Duration, n uint64) *histogram.Histogram {
		h := new(histogram.Histogram)
		h.RecordN(int64(100*time.Microsecond), 1000-n)
		h.RecordN(int64(v), n)
		return h
	}
	each := func(rs []*record.Request, f func(r *record.Request)) {
		for _, r := range rs {
			f(r)
		}
	}
	share := 0.9
	f := func(name string, change func(in *Input, rs []*record.Request), want Verdict, reasons string) {
		t.Helper()
		in, rs := window(10*sec), healthy(200)
		change(&in, rs)
		s := summarize(in, rs...)
		var got []string
		for _, r := range s.Run.Reasons {
			got = append(got, r.Check)
			if r.Text == "" || strings.Contains(r.Text, "%!") {
				t.Errorf("%s: text %q", name, r.Text)
			}
		}
		if s.Run.Verdict != want || strings.Join(got, " ") != reasons {
			t.Errorf("%s: %s for %q, want %s for %q", name, s.Run.Verdict, got, want, reasons)
		}
		for _, c := range s.Run.Checks {
			if c.OK == hasReason(s, c.Check) {
				t.Errorf("%s: check %+v does not agree with the reasons", name, c)
			}
		}
		strict(t, s)
	}
	f("nothing", func(*Input, []*record.Request) {}, Valid, "")
	f("a good canary", func(in *Input, _ []*record.Request) { in.Client.CanaryLag = lags(time.Second, 9) }, Valid, "")
	f("a late canary", func(in *Input, _ []*record.Request) { in.Client.CanaryLag = lags(6*time.Millisecond, 18) }, ClientBound, "canary_lag")
	f("a canary that was late too seldom to tell", func(in *Input, _ []*record.Request) { in.Client.CanaryLag = lags(6*time.Millisecond, 17) }, Valid, "canary_lag")
	f("late sends", func(_ *Input, rs []*record.Request) {
		each(rs[:6], func(r *record.Request) { r.Scheduled -= 6 * ms })
	}, ClientBound, "send_lag")
	f("late sends that may be chance", func(_ *Input, rs []*record.Request) {
		each(rs[:5], func(r *record.Request) { r.Scheduled -= 6 * ms })
	}, Valid, "send_lag")
	f("few late sends", func(_ *Input, rs []*record.Request) {
		each(rs[:2], func(r *record.Request) { r.Scheduled -= 6 * ms })
	}, Valid, "")
	f("late sends beside long requests", func(_ *Input, rs []*record.Request) {
		each(rs, func(r *record.Request) { r.Scheduled -= 6 * ms; r.End += sec })
	}, Valid, "")
	f("a cap that was asked for", func(in *Input, rs []*record.Request) {
		in.MaxInFlight = 10
		each(rs, func(r *record.Request) { r.Scheduled -= 600 * ms; r.CapWait = 600 * ms })
	}, Valid, "")
	f("a busy client with kernel times", func(in *Input, _ []*record.Request) { in.Client.CPUShare = &share }, Valid, "")
	f("a busy client without", func(in *Input, rs []*record.Request) {
		in.Client.CPUShare = &share
		rs[0].KernelTimes = false
	}, ClientBound, "cpu")
	f("bounded events", func(_ *Input, rs []*record.Request) {
		each(rs[:21], func(r *record.Request) { r.Events[0].Bounded = true })
	}, Valid, "bounded_events")
	f("few bounded events", func(_ *Input, rs []*record.Request) {
		each(rs[:20], func(r *record.Request) { r.Events[0].Bounded = true })
	}, Valid, "")
	f("a client that falls behind", func(_ *Input, rs []*record.Request) {
		each(rs[194:], func(r *record.Request) { r.Start = 11 * sec })
	}, ClientBound, "send_lag achieved_rate")
	f("a client that may have fallen behind by chance", func(_ *Input, rs []*record.Request) {
		each(rs[195:], func(r *record.Request) { r.Start = 11 * sec })
	}, Valid, "send_lag achieved_rate")
	f("a cap that holds requests back", func(in *Input, rs []*record.Request) {
		in.MaxInFlight = 10
		each(rs[190:], func(r *record.Request) { r.CapWait = 11*sec - r.Start; r.Start = 11 * sec })
	}, Valid, "achieved_rate")
	f("requests that a cap never let go", func(in *Input, rs []*record.Request) {
		in.MaxInFlight = 10
		each(rs[190:], func(r *record.Request) {
			r.Reset()
			r.Phase, r.Scheduled, r.Status = record.Steady, 9*sec, record.Incomplete
		})
	}, Valid, "achieved_rate")
	f("a failure", func(_ *Input, rs []*record.Request) { rs[0].Status, rs[0].Error = record.Failed, record.Overloaded }, Valid, "failures")
	// A search that failed is no lateness of the client; a place that was not to be had is.
	f("failed searches", func(_ *Input, rs []*record.Request) {
		each(rs[:20], func(r *record.Request) {
			*r = record.Request{Phase: record.Steady, Scheduled: r.Scheduled, Start: record.Unset, Status: record.Failed, Error: record.ConnectRefused, RetrievalStart: r.Scheduled, RetrievalEnd: r.Scheduled}
		})
	}, Valid, "failures")
	f("no place after searches", func(_ *Input, rs []*record.Request) {
		each(rs[:20], func(r *record.Request) {
			*r = record.Request{Phase: record.Steady, Scheduled: r.Scheduled, Start: record.Unset, Status: record.Failed, Error: record.ClientResource, RetrievalStart: r.Scheduled, RetrievalEnd: r.Scheduled}
		})
	}, ClientBound, "failures achieved_rate")
	f("a short window", func(in *Input, rs []*record.Request) {
		in.Steps[0].Complete = false
		rs[0].Status, rs[0].Error = record.Failed, record.Overloaded
		in.Client.CanaryLag = lags(time.Second, 20)
	}, Invalid, "failures short_window canary_lag")
	f("a window as long as asked", func(in *Input, _ []*record.Request) { in.Steps[0].Asked = 10 * sec }, Valid, "")
	f("an empty window", func(_ *Input, rs []*record.Request) {
		each(rs, func(r *record.Request) { r.Phase = record.Warmup })
	}, Invalid, "empty_window")
	f("dropped records", func(in *Input, _ []*record.Request) { in.Client.DroppedRecords = 1 }, Invalid, "dropped_records")
	f("dropped samples", func(in *Input, _ []*record.Request) { in.Client.DroppedSamples = 1 }, Invalid, "dropped_samples")
	f("another tokenizer", func(_ *Input, rs []*record.Request) {
		each(rs, func(r *record.Request) {
			r.Output, r.TokenizerOutput, r.AskedOutput = 100, 97, 100
		})
	}, Valid, "token_count")
	f("nearly the same tokenizer", func(_ *Input, rs []*record.Request) {
		each(rs, func(r *record.Request) { r.Output, r.TokenizerOutput, r.AskedOutput = 100, 98, 100 })
	}, Valid, "")
	f("more events than tokens", func(_ *Input, rs []*record.Request) { rs[5].Flags |= record.MoreEventsThanTokens }, Valid, "more_events_than_tokens")
	f("short outputs", func(_ *Input, rs []*record.Request) {
		each(rs[:11], func(r *record.Request) { r.AskedOutput = 3 })
	}, Valid, "output_length")
	f("few short outputs", func(_ *Input, rs []*record.Request) {
		each(rs[:10], func(r *record.Request) { r.AskedOutput = 3 })
	}, Valid, "")
	f("other prompts", func(_ *Input, rs []*record.Request) {
		each(rs, func(r *record.Request) { r.Prompt = 94 })
	}, Valid, "prompt_length")
	f("nearly the same prompts", func(_ *Input, rs []*record.Request) {
		each(rs, func(r *record.Request) { r.Prompt = 105 })
	}, Valid, "")
	f("buffered streams", func(_ *Input, rs []*record.Request) {
		each(rs[:11], func(r *record.Request) { r.Flags |= record.BufferedStream })
	}, Valid, "buffered_stream")
}

// One hiccup of thirty requests is their p99, and no evidence: what is said then has
// both the figure and what it takes.
func TestOneHiccupIsNoVerdict(t *testing.T) {
	in, rs := window(10*sec), healthy(30)
	canary := new(histogram.Histogram)
	canary.RecordN(int64(100*time.Microsecond), 100)
	canary.RecordN(int64(8*time.Millisecond), 2)
	in.Client.CanaryLag = canary
	rs[17].Scheduled -= 6 * ms
	s := summarize(in, rs...)
	text := ""
	for _, r := range s.Run.Reasons {
		text += r.Text + "\n"
	}
	want := "p99 of the send lag is 6.00 ms and may be 5.00 ms, but of 30 requests only 1 were later than that: it takes 3 to be no chance\n" +
		"p99 of the canary's lag is 8.00 ms and may be 5.00 ms, but of 102 readings only 2 were later than that: it takes 4 to be no chance\n"
	if s.Run.Verdict != Valid || text != want {
		t.Errorf("%s:\n%s", s.Run.Verdict, cmp.Diff(want, text))
	}
	for _, i := range []int{3, 11} {
		rs[i].Scheduled -= 7 * ms
	}
	s = summarize(in, rs...)
	if got, want := s.Run.Reasons[0].Text, "requests were sent late: p99 of the send lag is 7.00 ms, with 95 % confidence at least 6.00 ms, and may be 5.00 ms"; s.Run.Verdict != ClientBound || got != want {
		t.Errorf("%s: %s", s.Run.Verdict, got)
	}
	for _, c := range s.Run.Checks {
		if c.Check == "send_lag" {
			is(t, "at least", c.AtLeast, known(6))
		}
	}
	strict(t, s)
}

// TestVerdictRates plays clients whose true p99 of the send lag is known: one within the
// limit, by however little, is called the limit of its run at most once in 40 times,
// whatever the number of requests, while p99 itself would say so of most small runs; one
// that is late for a tenth or a fifth of its requests is found.
func TestVerdictRates(t *testing.T) {
	const runs = 1000
	rate := func(n int, share float64) (bound, naive float64) {
		for seed := range uint64(runs) {
			r := rand.New(rand.NewPCG(seed, uint64(n)))
			lags := make([]sample, n)
			for i := range lags {
				lags[i].v = float64(ms) * r.Float64()
				if r.Float64() < share {
					lags[i].v = float64(6 * ms)
				}
			}
			sortSamples(lags)
			if x := tailOf(lags, maxSendLagMS); x.proves() {
				bound++
				if *x.least <= maxSendLagMS {
					t.Fatalf("%d of %d late: a verdict, and the interval begins at %v ms", x.over, n, *x.least)
				}
			}
			if lags[q99.rank(int64(n))-1].v > float64(maxSendLagMS*ms) {
				naive++
			}
		}
		return bound / runs, naive / runs
	}
	for _, n := range []int{5, 30, 100, 300, 3000} {
		// 2.5 %, and three standard errors of a thousand runs.
		if bound, _ := rate(n, 0.0099); bound > 0.025+3*math.Sqrt(0.025*0.975/runs) {
			t.Errorf("%d requests, p99 within the limit: %.1f %% of the runs are client-bound", n, 100*bound)
		}
	}
	if _, naive := rate(30, 0.0099); naive < 0.2 {
		t.Errorf("p99 of 30 requests alone is over the limit in %.1f %% of the runs: there was nothing to mend", 100*naive)
	}
	for n, share := range map[int]float64{30: 0.2, 100: 0.1, 300: 0.05, 3000: 0.02} {
		if bound, _ := rate(n, share); bound < 0.9 {
			t.Errorf("%d requests, %.0f %% of them late: found in %.1f %% of the runs", n, 100*share, 100*bound)
		}
	}
}

func TestBufferedStreamsAreInNoPassOrFail(t *testing.T) {
	var rs []*record.Request
	for i := range 10 {
		r := streamed(int64(i)*100*ms, 1000*ms, 1050*ms, 1100*ms)
		if i < 8 {
			r = streamed(int64(i)*100*ms, 1700*ms, 1700*ms, 1700*ms)
			r.Flags |= record.BufferedStream
		}
		rs = append(rs, r)
	}
	in := window(sec)
	in.Limits = []scenario.Limit{
		{Metric: "itl", Stat: "p50", Value: 10 * time.Millisecond},
		{Metric: "tpot", Stat: "p50", Value: 10 * time.Millisecond},
		{Metric: "ttft", Stat: "max", Value: 2 * time.Second},
	}
	s := summarize(in, rs...)
	is(t, "tpot as reported", s.Latency.TPOT.P50, known(0))
	is(t, "itl as reported", s.Latency.ITL.P50, known(0))
	for i, want := range []float64{50, 50, 1700} {
		is(t, "limit on "+in.Limits[i].Metric, s.SLO.Limits[i].Value, &want)
		if *s.SLO.Limits[i].Met != (i == 2) {
			t.Errorf("limit %+v", s.SLO.Limits[i])
		}
	}
	// The eight are good by their ttft, the two are over the limits.
	is(t, "attainment", s.SLO.Attainment, known(0.8))
}

func TestFailuresAreInfiniteInPooledLimits(t *testing.T) {
	var rs []*record.Request
	for i := range 10 {
		r := streamed(int64(i)*100*ms, 100*ms, 110*ms, 120*ms)
		if i == 9 {
			r = streamed(int64(i)*100*ms, 100*ms, 110*ms)
			r.Status, r.Error = record.Failed, record.TruncatedStream
		}
		rs = append(rs, r)
	}
	in := window(sec)
	for _, stat := range []string{"p50", "p90", "p95", "mean", "max"} {
		in.Limits = append(in.Limits, scenario.Limit{Metric: "itl", Stat: stat, Value: 20 * time.Millisecond})
	}
	s := summarize(in, rs...)
	for i, met := range []bool{true, true, false, false, false} {
		if l := s.SLO.Limits[i]; *l.Met != met || (l.Value == nil) == met {
			t.Errorf("limit %+v, want met %v", l, met)
		}
	}
}

func TestStepsAreJudgedByTheWorst(t *testing.T) {
	in := Input{Steps: []StepInput{{Users: 1, Start: 0, End: 10 * sec, Complete: true}, {Users: 2, Start: 10 * sec, End: 20 * sec, Complete: true}}}
	in.Limits = []scenario.Limit{{Metric: "ttft", Stat: "p95", Value: 100 * time.Millisecond}}
	var rs []*record.Request
	for i := range 100 {
		rs = append(rs, streamed(int64(i)*90*ms, 50*ms, 60*ms))
	}
	for i := range 4 { // too few to show in p95 over both
		r := streamed(10*sec+int64(i)*sec, 500*ms, 600*ms)
		r.Step = 1
		rs = append(rs, r)
	}
	s := summarize(in, rs...)
	is(t, "p95 over both", s.Latency.TTFT.P95, known(50))
	is(t, "worst p95", s.SLO.Limits[0].Value, known(500))
	if *s.SLO.Met || *s.SLO.Limits[0].Met || !*s.Steps[0].SLO.Met || *s.Steps[1].SLO.Met {
		t.Errorf("slo is %+v", s.SLO)
	}
	is(t, "attainment", s.SLO.Attainment, known(100.0/104))
	if s.Load.Users != nil || *s.Steps[1].Users != 2 {
		t.Errorf("users are %v and %v", s.Load.Users, s.Steps[1].Users)
	}
	strict(t, s)
}

func TestParseStat(t *testing.T) {
	for s, want := range map[string]int{"mean": 0, "max": 0, "p50": 500, "p5": 50, "p05": 50, "p99": 990, "p999": 999, "p99.9": 999, "p97.5": 975, "p995": 995} {
		if got, err := ParseStat(s); err != nil || got != want {
			t.Errorf("%s is %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "p", "median", "p0", "p100", "p1000", "p99.99", "p99.", "p-5", "P50", "p5x"} {
		if got, err := ParseStat(s); err == nil {
			t.Errorf("%q is %d", s, got)
		}
	}
}

func TestCutOfAKilledRun(t *testing.T) {
	in := Input{Steps: []StepInput{{Start: 0, End: 10 * sec, Complete: true}, {Start: 12 * sec, End: 22 * sec, Complete: true}, {Start: 24 * sec, End: 34 * sec, Complete: true}}}
	in.Cut(15 * sec)
	if len(in.Steps) != 2 || !in.Steps[0].Complete || in.Steps[1].Complete || in.Steps[1].End != 15*sec || in.Duration != 15*sec {
		t.Errorf("cut to %+v", in)
	}
}

func TestServerChecks(t *testing.T) {
	f := func(name string, change func(in *Input, si *ServerInput, rs []*record.Request) []*record.Request, reasons string, values map[string]float64) {
		t.Helper()
		// 200 requests of 100 prompt and 2 output tokens, ttft 50 ms, e2e 100 ms.
		in, rs := window(10*sec), healthy(200)
		si := &ServerInput{
			TTFT: &Mean{Sum: 200 * 0.049, Count: 200}, E2E: &Mean{Sum: 200 * 0.099, Count: 200},
			PromptTokens: known(20_000), OutputTokens: known(400), PrefixHitRatio: known(0.01), TokensPerStep: known(1),
		}
		in.IntendedReuse, in.TPOTFloorMS = known(0), known(10)
		in.Server = si
		rs = change(&in, si, rs)
		s := summarize(in, rs...)
		var got []string
		for _, r := range s.Run.Reasons {
			if r.Check == "failures" || r.Check == "output_length" {
				continue
			}
			got = append(got, r.Check)
			if r.Effect != MakesNote || strings.Contains(r.Text, "%!") {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if strings.Join(got, " ") != reasons {
			t.Errorf("%s: %q, want %q", name, got, reasons)
		}
		for _, c := range s.Run.Checks {
			want, ok := values[c.Check]
			if !ok {
				continue
			}
			switch {
			case math.IsNaN(want):
				if c.Value != nil {
					t.Errorf("%s: %s is %v, want unknown", name, c.Check, *c.Value)
				}
			case c.Value == nil || math.Abs(*c.Value-want) > 1e-9:
				t.Errorf("%s: %s is %v, want %v", name, c.Check, or0(c.Value), want)
			}
		}
		strict(t, s)
	}
	unknown := math.NaN()
	same := func(_ *Input, _ *ServerInput, rs []*record.Request) []*record.Request { return rs }
	f("all agree", same, "", map[string]float64{"engine_tokens": 0, "engine_latency": -1, "prefix_cache": 0.01, "tpot_floor": 50})
	f("nothing is known of the servers", func(in *Input, _ *ServerInput, rs []*record.Request) []*record.Request {
		in.Server, in.TPOTFloorMS, in.IntendedReuse = nil, nil, nil
		return rs
	}, "", map[string]float64{"engine_tokens": unknown, "engine_latency": unknown, "prefix_cache": unknown, "tpot_floor": unknown})
	f("others use the servers", func(_ *Input, si *ServerInput, rs []*record.Request) []*record.Request {
		si.OutputTokens = known(409)
		return rs
	}, "engine_tokens", map[string]float64{"engine_tokens": 0.0225, "engine_latency": unknown})
	f("others hardly use them", func(_ *Input, si *ServerInput, rs []*record.Request) []*record.Request {
		si.OutputTokens = known(408)
		return rs
	}, "", map[string]float64{"engine_tokens": 0.02})
	f("one of two replicas is read", func(_ *Input, si *ServerInput, rs []*record.Request) []*record.Request {
		si.PromptTokens, si.OutputTokens = known(10_000), known(200)
		return rs
	}, "engine_tokens", map[string]float64{"engine_tokens": -0.5, "engine_latency": unknown})
	f("warm-ups are the client's too", func(_ *Input, si *ServerInput, rs []*record.Request) []*record.Request {
		for _, r := range rs[:50] {
			r.Phase = record.Warmup
		}
		return rs
	}, "", map[string]float64{"engine_tokens": 0, "engine_latency": -1})
	f("what was cut may have been counted", func(_ *Input, si *ServerInput, rs []*record.Request) []*record.Request {
		for _, r := range rs[:50] {
			r.Status, r.Output, r.AskedOutput = record.Cancelled, record.Unknown, 10
		}
		// 150 whole ones, and up to 50 of 100 and 10 tokens.
		si.PromptTokens, si.OutputTokens = known(18_000), known(300+300)
		return rs
	}, "", map[string]float64{"engine_tokens": 0})
	f("but not more than all of it", func(_ *Input, si *ServerInput, rs []*record.Request) []*record.Request {
		for _, r := range rs[:50] {
			r.Status, r.Output, r.AskedOutput = record.Cancelled, record.Unknown, 10
		}
		si.PromptTokens, si.OutputTokens = known(18_000), known(300+550+30)
		return rs
	}, "engine_tokens", map[string]float64{"engine_tokens": 0.1})
	f("one answer without a count", func(_ *Input, si *ServerInput, rs []*record.Request) []*record.Request {
		rs[0].Prompt, rs[0].Output, rs[0].Source = record.Unknown, record.Unknown, record.SourceNone
		return rs
	}, "", map[string]float64{"engine_tokens": unknown})
	f("an engine slower than what its users see", func(_ *Input, si *ServerInput, rs []*record.Request) []*record.Request {
		si.E2E.Sum = 200 * 0.1012
		return rs
	}, "engine_latency", map[string]float64{"engine_latency": 1.2})
	f("the same but for rounding", func(_ *Input, si *ServerInput, rs []*record.Request) []*record.Request {
		si.E2E.Sum = 200 * 0.1009
		return rs
	}, "", nil)
	f("whole responses of other requests", func(_ *Input, si *ServerInput, rs []*record.Request) []*record.Request {
		for _, r := range rs[:3] {
			r.Status = record.Incomplete
		}
		si.E2E.Sum = 200 * 0.2
		return rs
	}, "", map[string]float64{"engine_latency": -1})
	givenUp := func(n int, unsent bool, status uint16) func(*Input, *ServerInput, []*record.Request) []*record.Request {
		return func(_ *Input, si *ServerInput, rs []*record.Request) []*record.Request {
			for _, r := range rs[:n] {
				r.Status, r.FirstToken, r.HTTPStatus = record.Cancelled, record.Unset, status
				if unsent {
					r.Sent = record.Unset
				}
			}
			// The engine made their first tokens, late, and nobody read them.
			si.TTFT.Sum = 200 * 0.2
			return rs
		}
	}
	f("first tokens of requests that nobody waited for", givenUp(3, false, 200), "", nil)
	f("but for too few of them", givenUp(1, false, 200), "engine_latency", nil)
	f("nor where the engine had none of them", givenUp(3, true, 0), "engine_latency", nil)
	f("nor where it refused them", givenUp(3, false, 429), "engine_latency", nil)
	f("a cache that was not meant", func(_ *Input, si *ServerInput, rs []*record.Request) []*record.Request {
		si.PrefixHitRatio = known(0.06)
		return rs
	}, "prefix_cache", map[string]float64{"prefix_cache": 0.06})
	f("a cache that was meant", func(in *Input, si *ServerInput, rs []*record.Request) []*record.Request {
		si.PrefixHitRatio, in.IntendedReuse = known(0.5), known(0.52)
		return rs
	}, "", nil)
	f("usage says what was cached", func(_ *Input, si *ServerInput, rs []*record.Request) []*record.Request {
		for _, r := range rs {
			r.Cached = 25
		}
		return rs
	}, "prefix_cache", map[string]float64{"prefix_cache": 0.25})
	f("faster than memory", func(in *Input, _ *ServerInput, rs []*record.Request) []*record.Request {
		in.TPOTFloorMS = known(51)
		return rs
	}, "tpot_floor", map[string]float64{"tpot_floor": 50})
	f("but speculating", func(in *Input, si *ServerInput, rs []*record.Request) []*record.Request {
		in.TPOTFloorMS, si.TokensPerStep = known(51), known(1.5)
		return rs
	}, "", nil)
	f("simulated", func(in *Input, si *ServerInput, rs []*record.Request) []*record.Request {
		in.Virtual, si.OutputTokens = true, known(1)
		return rs
	}, "", nil)
}

func TestAgreement(t *testing.T) {
	in, rs := window(10*sec), healthy(200)
	for _, r := range rs[:20] {
		r.Phase = record.Warmup
	}
	rs[0].Status, rs[0].Error = record.Failed, record.Overloaded
	if s := summarize(in, rs...); s.Agreement != nil {
		t.Errorf("%+v with nobody", s.Agreement)
	}
	in.Server = &ServerInput{OutputTokens: known(398), TTFT: &Mean{Sum: 10, Count: 200}, TPOT: &Mean{}}
	s := summarize(in, rs...)
	yes := true
	want := &Agreement{
		PromptTokens: Pair{Client: known(19_900)}, OutputTokens: Pair{known(398), known(398)},
		TTFT: Pair{known(50), known(50)}, TPOT: Pair{Client: known(50)}, E2E: Pair{Client: known(100)}, Attributable: &yes,
	}
	if d := cmp.Diff(want, s.Agreement); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	strict(t, s)
	in.Server.OutputTokens = known(1000)
	if s := summarize(in, rs...); *s.Agreement.Attributable {
		t.Error("tokens of others are attributed to this run")
	}
}
