package stats

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"plimsoll/internal/record"
	"plimsoll/internal/scenario"
)

// readCase reads the input and the right values of a case.
func readCase(t *testing.T, name string, in, want any) {
	t.Helper()
	for file, v := range map[string]any{"input.json": in, "expected.json": want} {
		b, err := os.ReadFile(filepath.Join("testdata", "cases", name, file))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, v); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
}

// near says whether a figure is v, to the digits that cases are given with.
func near(got *float64, v float64) bool {
	return got != nil && math.Abs(*got-v) <= 1e-6*math.Max(1, math.Abs(v))
}

// is fails unless got is want, null included.
func is(t *testing.T, name string, got, want *float64) {
	t.Helper()
	if want == nil {
		if got != nil {
			t.Errorf("%s is %v, want null", name, *got)
		}
		return
	}
	if !near(got, *want) {
		t.Errorf("%s is %v, want %v", name, deref(got), *want)
	}
}

func deref(v *float64) any {
	if v == nil {
		return nil
	}
	return *v
}

// answered returns an ok request that streamed tokens from first to last ms, as
// if in equal steps.
func answered(first, last float64, tokens int) *record.Request {
	var at []int64
	for i := range tokens {
		f := 0.0
		if tokens > 1 {
			f = float64(i) / float64(tokens-1)
		}
		at = append(at, int64((first+f*(last-first))*1e6))
	}
	return streamed(0, at...)
}

func TestCaseSingleTokenRequests(t *testing.T) {
	var in struct {
		Records []struct {
			First  *float64 `json:"ttft_ms"`
			Last   *float64 `json:"last_token_ms"`
			Tokens int      `json:"output_tokens"`
		}
	}
	var want struct {
		TPOT     []*float64 `json:"tpot_ms"`
		Mean     float64    `json:"tpot_mean_ms"`
		Count    int64      `json:"tpot_count"`
		Requests int64
	}
	readCase(t, "080-single-token-requests", &in, &want)
	var rs []*record.Request
	for i, c := range in.Records {
		r := streamed(0)
		r.End = 300 * ms
		if c.First != nil {
			r = answered(*c.First, *c.Last, c.Tokens)
		}
		rs = append(rs, r)
		var got *float64
		if v, _, ok := TPOT(r); ok {
			got = known(v / 1e6)
		}
		is(t, "tpot of request "+string(rune('0'+i)), got, want.TPOT[i])
	}
	s := summarize(window(sec), rs...)
	is(t, "mean of tpot", s.Latency.TPOT.Mean, &want.Mean)
	if s.Latency.TPOT.Count != want.Count || s.Requests.Scheduled != want.Requests {
		t.Errorf("tpot of %d of %d requests, want %d of %d", s.Latency.TPOT.Count, s.Requests.Scheduled, want.Count, want.Requests)
	}
}

func TestCaseTokensPerSecondNeedsOutputOnly(t *testing.T) {
	var in struct {
		Duration float64 `json:"duration_s"`
		Usage    struct {
			Prompt     int32 `json:"prompt_tokens"`
			Completion int32 `json:"completion_tokens"`
			Details    struct {
				Reasoning int32 `json:"reasoning_tokens"`
			} `json:"completion_tokens_details"`
		}
	}
	var want struct {
		Output    float64 `json:"output_tok_s"`
		Input     float64 `json:"input_tok_s"`
		Total     float64 `json:"total_tok_s"`
		Reasoning float64 `json:"reasoning_tok_s"`
	}
	readCase(t, "085-tokens-per-second-needs-output-only", &in, &want)
	visible := int(in.Usage.Completion - in.Usage.Details.Reasoning)
	whole, hidden, all := streamed(0), answered(100, 9000, visible), answered(100, 9000, int(in.Usage.Completion))
	whole.Streamed, whole.End, whole.TextBytes = false, 5*sec, 100
	for name, r := range map[string]*record.Request{"one body": whole, "reasoning not streamed": hidden, "reasoning streamed": all} {
		r.Prompt, r.Output, r.Reasoning, r.Source = in.Usage.Prompt, in.Usage.Completion, in.Usage.Details.Reasoning, record.SourceServer
		tk := summarize(window(int64(in.Duration*1e9)), r).Tokens
		is(t, name+": output/s", tk.OutputPerS, &want.Output)
		is(t, name+": prompt/s", tk.PromptPerS, &want.Input)
		is(t, name+": total/s", tk.TotalPerS, &want.Total)
		is(t, name+": reasoning/s", tk.ReasoningPerS, &want.Reasoning)
	}
}

func TestCaseReasoningUnitsMustMatch(t *testing.T) {
	var in struct {
		First      float64 `json:"ttft_ms"`
		Last       float64 `json:"last_token_ms"`
		Completion int32   `json:"completion_tokens"`
		Reasoning  int32   `json:"reasoning_tokens"`
		Bundled    int32   `json:"first_event_cumulative"`
	}
	var want struct {
		TPOT      *float64 `json:"tpot_ms"`
		Corrected *float64 `json:"tpot_corrected_ms"`
		Content   *float64 `json:"tpot_content_only_ms"`
	}
	readCase(t, "086-reasoning-units-must-match", &in, &want)
	f := func(streamed, first int32, basis record.TPOTBasis, want *float64) {
		t.Helper()
		r := answered(in.First, in.Last, 5) // the number of events says nothing
		r.Output, r.Reasoning, r.StreamedTokens, r.FirstEventTokens = in.Completion, in.Reasoning, streamed, first
		v, b, ok := TPOT(r)
		var got *float64
		if ok {
			got = known(v / 1e6)
		}
		is(t, "tpot", got, want)
		if b != basis {
			t.Errorf("basis is %v, want %v", b, basis)
		}
	}
	f(in.Completion, record.Unknown, record.BasisNMinus1, want.TPOT)
	f(in.Completion, in.Bundled, record.BasisFirstEvent, want.Corrected)
	f(in.Completion-in.Reasoning, in.Bundled, record.BasisNone, want.Content)
	f(in.Completion-in.Reasoning, record.Unknown, record.BasisNone, want.Content)
	f(record.Unknown, in.Bundled, record.BasisNone, nil)
}

func TestCaseCoordinatedOmission(t *testing.T) {
	var in struct {
		Schedule    []int64 `json:"schedule_ms"`
		Service     int64   `json:"service_ms"`
		Concurrency int     `json:"max_concurrency"`
	}
	var want struct {
		Service      []float64 `json:"latency_service_ms"`
		FromSchedule []float64 `json:"latency_from_schedule_ms"`
		Delay        float64   `json:"mean_dispatch_delay_ms"`
		Mean         float64   `json:"mean_from_schedule_ms"`
	}
	readCase(t, "087-coordinated-omission", &in, &want)
	var rs []*record.Request
	free := int64(0)
	for i, at := range in.Schedule {
		start := max(at, free)
		free = start + in.Service
		r := streamed(start*ms, in.Service*ms)
		r.Scheduled, r.CapWait = at*ms, (start-at)*ms
		rs = append(rs, r)
		for name, f := range map[string]struct {
			get  func(*record.Request) (int64, bool)
			want float64
		}{"e2e": {E2E, want.Service[i]}, "e2e_from_schedule": {E2EFromSchedule, want.FromSchedule[i]}, "ttft_from_schedule": {TTFTFromSchedule, want.FromSchedule[i]}, "send_lag": {SendLag, 0}} {
			if v, ok := f.get(r); !ok || float64(v)/1e6 != f.want {
				t.Errorf("%s of request %d is %d, %v, want %v ms", name, i, v, ok, f.want)
			}
		}
	}
	inp := window(sec)
	inp.RateDriven, inp.MaxInFlight = true, in.Concurrency
	inp.Limits = []scenario.Limit{{Metric: "e2e", Stat: "max", Value: 3300 * 1e6}, {Metric: "ttft", Stat: "mean", Value: 1899 * 1e6}}
	s := summarize(inp, rs...)
	is(t, "mean from schedule", s.Latency.E2EFromSchedule.Mean, &want.Mean)
	is(t, "dispatch delay", known(*s.Latency.E2EFromSchedule.Mean-*s.Latency.E2E.Mean), &want.Delay)
	// The verdict on service levels uses the figures from the schedule.
	if l := s.SLO.Limits; !l[0].FromSchedule || !*l[0].Met || !near(l[0].Value, 3300) || !l[1].FromSchedule || *l[1].Met || !near(l[1].Value, want.Mean) {
		t.Errorf("limits are %+v", l)
	}
	// A cap that the user asked for is not the client's lateness: requests that
	// it kept past the window make the server the limit.
	for _, r := range s.Run.Reasons {
		if r.Effect != MakesNote {
			t.Errorf("reason %+v", r)
		}
	}
	if s.Run.Verdict != Valid {
		t.Errorf("verdict is %s", s.Run.Verdict)
	}
}

func TestCaseScheduleDrift(t *testing.T) {
	var in struct {
		Rate     int64
		Requests int64
		Cost     int64 `json:"send_cost_ms"`
	}
	var want struct {
		Last     float64 `json:"last_send_ms"`
		Achieved float64 `json:"achieved_rate"`
		Drifting float64 `json:"drifting_last_send_ms"`
	}
	readCase(t, "088-schedule-drift", &in, &want)
	gap := 1000 / in.Rate * ms
	run := func(step int64) (*Summary, float64) {
		var rs []*record.Request
		for i := range in.Requests {
			r := streamed(i*step, ms)
			r.Scheduled = i * gap
			rs = append(rs, r)
		}
		w := window(in.Requests * gap)
		w.Steps[0].Users, w.Steps[0].Rate, w.RateDriven = 0, float64(in.Rate), true
		return summarize(w, rs...), float64(rs[len(rs)-1].Start) / 1e6
	}
	s, last := run(gap)
	if last != want.Last {
		t.Errorf("last send is at %v ms, want %v", last, want.Last)
	}
	is(t, "offered", s.Load.OfferedRPS, &want.Achieved)
	is(t, "achieved", s.Load.AchievedRPS, &want.Achieved)
	is(t, "completed", s.Load.CompletedRPS, &want.Achieved)
	if s.Run.Verdict != Valid {
		t.Errorf("verdict is %s: %+v", s.Run.Verdict, s.Run.Reasons)
	}
	s, last = run(gap + in.Cost*ms)
	if last != want.Drifting {
		t.Errorf("last drifting send is at %v ms, want %v", last, want.Drifting)
	}
	is(t, "offered when drifting", s.Load.OfferedRPS, &want.Achieved)
	// 715 sends at multiples of 7 ms are before 5 s.
	is(t, "achieved when drifting", s.Load.AchievedRPS, known(143))
	if s.Run.Verdict != ClientBound || !hasReason(s, "achieved_rate") || !hasReason(s, "send_lag") {
		t.Errorf("verdict when drifting is %s: %+v", s.Run.Verdict, s.Run.Reasons)
	}
}

func hasReason(s *Summary, check string) bool {
	return slices.ContainsFunc(s.Run.Reasons, func(r Reason) bool { return r.Check == check })
}

func TestCaseStartBurst(t *testing.T) {
	var in struct {
		Rate  int64
		Ready int64 `json:"client_ready_ms"`
	}
	var want struct {
		First int64 `json:"requests_in_first_second"`
		Bad   int64 `json:"bad_client"`
	}
	readCase(t, "089-start-burst", &in, &want)
	var good, bad []*record.Request
	for i := range 3 * in.Rate {
		at := i * 1000 / in.Rate * ms
		good = append(good, streamed(at, ms))
		// One that was not ready sends the backlog at once: the sends of its
		// first second are those due in the first two and a half.
		late := streamed(max(at, in.Ready*ms), ms)
		late.Scheduled = at
		bad = append(bad, late)
	}
	in1 := window(sec)
	is(t, "started in the first second", summarize(in1, good...).Load.AchievedRPS, known(float64(want.First)))
	in1.Steps[0].Start, in1.Steps[0].End = in.Ready*ms, in.Ready*ms+sec
	s := summarize(in1, bad...)
	is(t, "started in a bad client's first second", s.Load.AchievedRPS, known(float64(want.Bad)))
	if s.Run.Verdict != ClientBound {
		t.Errorf("verdict on the bad client is %s", s.Run.Verdict)
	}
}

func TestCaseStagesAreNotAveraged(t *testing.T) {
	var in struct {
		Stages []struct {
			Rate     int64
			Duration int64 `json:"duration_s"`
		}
	}
	var want struct {
		Requests []int64 `json:"requests_per_stage"`
	}
	readCase(t, "091-stages-are-not-averaged", &in, &want)
	inp := Input{RateDriven: true}
	var rs []*record.Request
	at := int64(0)
	for i, st := range in.Stages {
		end := at + st.Duration*sec
		inp.Steps = append(inp.Steps, StepInput{Rate: float64(st.Rate), Start: at, End: end, Complete: true})
		for k := int64(0); at+k*sec/st.Rate < end; k++ {
			// Requests of the last seconds of a stage end in the next.
			r := streamed(at+k*sec/st.Rate, int64(i+1)*100*ms, 5*sec)
			r.Step = uint32(i)
			rs = append(rs, r)
		}
		at = end
	}
	s := summarize(inp, rs...)
	for i, st := range s.Steps {
		if st.Requests.Scheduled != want.Requests[i] {
			t.Errorf("stage %d has %d requests, want %d", i, st.Requests.Scheduled, want.Requests[i])
		}
		is(t, "offered", st.Load.OfferedRPS, known(float64(in.Stages[i].Rate)))
		is(t, "ttft", st.Latency.TTFT.P99, known(float64(i+1)*100))
		is(t, "rate", st.Rate, known(float64(in.Stages[i].Rate)))
	}
	if len(s.Steps) != len(in.Stages) || s.Requests.Scheduled != 9000 {
		t.Errorf("%d steps, %d requests", len(s.Steps), s.Requests.Scheduled)
	}
}

func TestCaseOutputShorterThanAsked(t *testing.T) {
	var in struct {
		Asked int32
	}
	var want struct {
		Total int64 `json:"total_output_tokens"`
		Short int64 `json:"short_outputs"`
	}
	readCase(t, "094-output-shorter-than-asked", &in, &want)
	var rs []*record.Request
	for _, n := range []int{128, 128, 31, 128} {
		r := answered(10, 500, n)
		r.AskedOutput, r.AskedExact = 128, true
		rs = append(rs, r)
	}
	s := summarize(window(sec), rs...)
	if s.Tokens.Output == nil || *s.Tokens.Output != want.Total {
		t.Errorf("output is %v, want %d", s.Tokens.Output, want.Total)
	}
	for _, r := range s.Run.Reasons {
		if r.Check == "output_length" {
			is(t, "share", r.Value, known(float64(want.Short)/4))
			return
		}
	}
	t.Errorf("no note on the output length in %+v", s.Run.Reasons)
}

func TestCasePercentilesMustNotBeAveraged(t *testing.T) {
	var in struct {
		Agents map[string]struct {
			N  int
			MS int64
		}
	}
	var want struct {
		P50  float64
		P99  float64
		P995 float64 `json:"p99_5"`
	}
	readCase(t, "097-percentiles-must-not-be-averaged", &in, &want)
	var rs []*record.Request
	for name, a := range in.Agents {
		for range a.N {
			r := streamed(0, a.MS*ms)
			r.Agent = uint32(name[0] - 'A')
			rs = append(rs, r)
		}
	}
	inp := window(2 * sec)
	for _, p := range []struct {
		stat string
		want float64
	}{{"p50", want.P50}, {"p99", want.P99}, {"p99.5", want.P995}, {"p995", want.P995}, {"max", 1000}} {
		inp.Limits = []scenario.Limit{{Metric: "ttft", Stat: p.stat, Value: 1e12}}
		s := summarize(inp, rs...)
		is(t, p.stat, s.SLO.Limits[0].Value, &p.want)
		is(t, "p50", s.Latency.TTFT.P50, &want.P50)
		is(t, "p99", s.Latency.TTFT.P99, &want.P99)
		is(t, "max", s.Latency.TTFT.Max, known(1000))
	}
}

func TestCaseRequestsCutAtTheEnd(t *testing.T) {
	var in struct {
		Window []int64 `json:"window_s"`
		A      struct {
			End    int64
			Tokens int
			Every  int64 `json:"every_ms"`
		}
		B struct {
			Start  int64
			Tokens int `json:"tokens_by_window_end"`
			Needs  int
		}
	}
	var want struct {
		Rate                       float64 `json:"tok_s_window"`
		Success, Cancelled, Errors int64
	}
	readCase(t, "100-requests-cut-at-the-end", &in, &want)
	every := func(n int, from, gap int64) (at []int64) {
		for i := range n {
			at = append(at, from+int64(i)*gap)
		}
		return at
	}
	a := streamed(0, every(in.A.Tokens, in.A.Every*ms, in.A.Every*ms-ms)...)
	// B is cut by the user at the end of the window; nobody has counted it.
	cut := streamed(in.B.Start*sec, every(in.B.Tokens, 50*ms, 95*ms)...)
	cut.Status, cut.Output, cut.StreamedTokens, cut.FirstEventTokens, cut.Source = record.Cancelled, record.Unknown, record.Unknown, record.Unknown, record.SourceNone
	cut.End = in.Window[1] * sec
	for i := range cut.Events {
		cut.Events[i].Tokens = record.Unknown
	}
	s := summarize(window(in.Window[1]*sec), a, cut)
	is(t, "output/s", s.Tokens.OutputPerS, &want.Rate)
	is(t, "estimated share", s.Tokens.EstimatedShare, known(50.0/130))
	if r := s.Requests; r.OK != want.Success || r.Cancelled != want.Cancelled || r.Error != want.Errors {
		t.Errorf("requests are %+v", r)
	}
	if s.Latency.E2E.Count != 1 || s.Latency.TTFT.Count != 1 || s.Latency.ITL.Count != int64(in.A.Tokens-1) {
		t.Errorf("latencies of %d, %d and %d, want those of A alone", s.Latency.E2E.Count, s.Latency.TTFT.Count, s.Latency.ITL.Count)
	}
	// The default is to drain: B ends in its own time, and what arrives after
	// the window is in no rate.
	drained := streamed(in.B.Start*sec, every(in.B.Needs, 50*ms, 100*ms)...)
	s = summarize(window(in.Window[1]*sec), a, drained)
	is(t, "output/s with drain", s.Tokens.OutputPerS, &want.Rate)
	is(t, "estimated share with drain", s.Tokens.EstimatedShare, known(0))
	is(t, "completed with drain", s.Load.CompletedRPS, known(0.1))
	if s.Requests.OK != 2 || s.Latency.E2E.Count != 2 {
		t.Errorf("drained: %+v, %d latencies", s.Requests, s.Latency.E2E.Count)
	}
}

func TestCaseFailedRequestsOutOfLatency(t *testing.T) {
	var in struct {
		Duration int64   `json:"duration_s"`
		TTFT     []int64 `json:"ok_ttft_ms"`
		Errors   int
	}
	var want struct {
		P50     float64 `json:"ttft_p50_ms"`
		Count   int64   `json:"ttft_count"`
		Share   float64 `json:"success_rate"`
		Rate    float64 `json:"success_rps"`
		Attempt float64 `json:"attempt_rps"`
	}
	readCase(t, "101-failed-requests-out-of-latency", &in, &want)
	var rs []*record.Request
	for _, v := range in.TTFT {
		rs = append(rs, streamed(0, v*ms))
	}
	for range in.Errors {
		// Also one that claims to have had a token at once.
		r := streamed(0, 0)
		r.Status, r.Error, r.End = record.Failed, record.HTTPStatusError, ms
		rs = append(rs, r)
	}
	inp := window(in.Duration * sec)
	inp.Limits = []scenario.Limit{{Metric: "ttft", Stat: "p50", Value: 1e9}}
	s := summarize(inp, rs...)
	is(t, "p50", s.Latency.TTFT.P50, &want.P50)
	is(t, "min", s.Latency.TTFT.Min, known(100))
	is(t, "completed", s.Load.CompletedRPS, &want.Rate)
	is(t, "achieved", s.Load.AchievedRPS, &want.Attempt)
	is(t, "attainment", s.SLO.Attainment, &want.Share)
	is(t, "goodput", s.SLO.GoodputRPS, &want.Rate)
	if s.Latency.TTFT.Count != want.Count || s.Requests.ByError["http_status"] != int64(in.Errors) {
		t.Errorf("%d latencies, errors %v", s.Latency.TTFT.Count, s.Requests.ByError)
	}
	// In a service level the failed ones are infinite: 7 of 10 are over p50.
	if *s.SLO.Met || s.SLO.Limits[0].Value != nil {
		t.Errorf("limits are %+v", s.SLO.Limits)
	}
	if len(s.Run.Reasons) == 0 || s.Run.Reasons[0].Check != "failures" {
		t.Errorf("reasons are %+v, want failures first", s.Run.Reasons)
	}
}

func TestCaseRequestOrPooledITL(t *testing.T) {
	var in struct {
		R1 struct{ N, MS int64 }
		R2 []struct{ N, MS int64 }
	}
	var want struct {
		N    int64     `json:"pooled_n"`
		P99  float64   `json:"pooled_p99_ms"`
		Max  float64   `json:"pooled_max_ms"`
		TPOT []float64 `json:"tpot_ms"`
	}
	readCase(t, "103-request-itl-or-pooled-itl", &in, &want)
	in2 := append([]struct{ N, MS int64 }{in.R1}, in.R2...)
	var rs []*record.Request
	for i, part := range [][]struct{ N, MS int64 }{in2[:1], in2[1:]} {
		at := []int64{100 * ms}
		for _, p := range part {
			for range p.N {
				at = append(at, at[len(at)-1]+p.MS*ms)
			}
		}
		r := streamed(0, at...)
		rs = append(rs, r)
		if v, _, ok := TPOT(r); !ok || !near(known(v/1e6), want.TPOT[i]) {
			t.Errorf("tpot of request %d is %v, want %v", i, v/1e6, want.TPOT[i])
		}
	}
	s := summarize(window(10*sec), rs...)
	for name, d := range map[string]*Dist{"itl": s.Latency.ITL, "event_gap": s.Latency.EventGap} {
		if d.Count != want.N {
			t.Errorf("%s counts %d, want %d", name, d.Count, want.N)
		}
		if math.Abs(*d.P99-want.P99) > 0.004*want.P99 {
			t.Errorf("p99 of %s is %v, want %v within 0.4 %%", name, *d.P99, want.P99)
		}
		is(t, "max of "+name, d.Max, &want.Max)
		is(t, "mean of "+name, d.Mean, known(14.95))
	}
	is(t, "min of tpot", s.Latency.TPOT.Min, &want.TPOT[0])
	is(t, "max of tpot", s.Latency.TPOT.Max, &want.TPOT[1])
}

func TestCasePercentileFirstThenInvert(t *testing.T) {
	var in struct {
		Records []struct {
			E2E float64 `json:"e2e_s"`
			Out int32
		}
	}
	var want struct{ P50, P100 float64 }
	readCase(t, "104-e2e-normalized-interactivity", &in, &want)
	var per []sample
	for _, c := range in.Records {
		r := streamed(0)
		r.End, r.Output = int64(c.E2E*1e9), c.Out
		v, ok := E2EPerToken(r)
		if !ok {
			t.Fatal("unknown")
		}
		per = append(per, sample{v: v})
	}
	d := distOf(per, perS, blocking{})
	is(t, "p50", known(1 / *d.P50), &want.P50)
	is(t, "p100", known(1 / *d.Max), &want.P100)
}

func TestCaseNaNInJSON(t *testing.T) {
	var in struct {
		Samples  []float64
		Tokens   int
		Duration int64 `json:"duration_s"`
	}
	var want struct {
		Std  *float64 `json:"stddev"`
		TPOT *float64 `json:"tpot_ms"`
		Rate *float64
	}
	readCase(t, "160-nan-inf-in-json", &in, &want)
	r := answered(in.Samples[0], in.Samples[0], in.Tokens)
	s := summarize(window(in.Duration*sec), r)
	is(t, "deviation", s.Latency.TTFT.Std, want.Std)
	is(t, "tpot", s.Latency.TPOT.Mean, want.TPOT)
	for name, v := range map[string]*float64{
		"output/s": s.Tokens.OutputPerS, "prompt/s": s.Tokens.PromptPerS, "total/s": s.Tokens.TotalPerS,
		"offered": s.Load.OfferedRPS, "achieved": s.Load.AchievedRPS, "completed": s.Load.CompletedRPS,
	} {
		is(t, name, v, want.Rate)
	}
	if s.Run.Verdict != Invalid {
		t.Errorf("verdict on an empty window is %s", s.Run.Verdict)
	}
	strict(t, s)
}

func TestCaseZeroSuccesses(t *testing.T) {
	var in struct {
		Requests int
	}
	var want struct {
		Success int64
		Errors  map[string]int64
		P50     *float64 `json:"ttft_p50_ms"`
	}
	readCase(t, "161-zero-successes", &in, &want)
	var rs []*record.Request
	for i := range in.Requests {
		r := streamed(int64(i) * 10 * ms)
		r.Connected, r.Sent = record.Unset, record.Unset
		r.Status, r.Error, r.End = record.Failed, record.ConnectRefused, r.Start+ms
		rs = append(rs, r)
	}
	inp := window(sec)
	inp.Limits = []scenario.Limit{{Metric: "itl", Stat: "p99", Value: 1e9}, {Metric: "tpot", Stat: "mean", Value: 1e9}}
	s := summarize(inp, rs...)
	if s.Requests.OK != want.Success || s.Requests.ByError["connect_refused"] != want.Errors["connect_refused"] || s.Requests.Sent != 0 {
		t.Errorf("requests are %+v", s.Requests)
	}
	is(t, "ttft", s.Latency.TTFT.P50, want.P50)
	for name, d := range map[string]*Dist{"ttft": s.Latency.TTFT, "e2e": s.Latency.E2E, "itl": s.Latency.ITL, "connect": s.Latency.Connect} {
		if d.Count != 0 || d.Mean != nil || d.Max != nil {
			t.Errorf("%s is %+v", name, d)
		}
	}
	if s.Run.Verdict != Invalid || s.Run.Reasons[0].Check != "failures" || !hasReason(s, "no_success") {
		t.Errorf("verdict is %s for %+v", s.Run.Verdict, s.Run.Reasons)
	}
	if *s.SLO.Met || *s.SLO.Limits[0].Met || *s.SLO.Limits[1].Met {
		t.Errorf("limits are %+v", s.SLO.Limits)
	}
	strict(t, s)
}
