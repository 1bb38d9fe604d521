package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/internal/record"
	"plimsoll/internal/scenario"
)

// What follows computes the figures a second time, slowly and straight from the
// words of METRICS.md, and shares nothing with the code under test.

// run is a random small run.
type randomRun struct {
	in Input
	rs []*record.Request
}

func randomRuns() *rapid.Generator[randomRun] {
	return rapid.Custom(func(t *rapid.T) randomRun {
		var out randomRun
		at := rapid.Int64Range(0, 3).Draw(t, "first start") * sec
		for i := range rapid.IntRange(1, 3).Draw(t, "steps") {
			length := rapid.Int64Range(1, 20*sec).Draw(t, "length")
			s := StepInput{Start: at, End: at + length, Complete: true}
			if i == 0 || out.in.Steps[0].Users > 0 {
				s.Users = rapid.IntRange(1, 3).Draw(t, "users")
			} else {
				s.Rate = 2
			}
			out.in.Steps = append(out.in.Steps, s)
			at += length + rapid.Int64Range(0, 2).Draw(t, "pause")*sec
		}
		out.in.RateDriven = rapid.Bool().Draw(t, "rate driven")
		for range rapid.IntRange(0, 3).Draw(t, "limits") {
			out.in.Limits = append(out.in.Limits, scenario.Limit{
				Metric: rapid.SampledFrom([]string{"ttft", "ttfc", "ttlt", "e2e", "tpot"}).Draw(t, "metric"),
				Stat:   rapid.SampledFrom([]string{"mean", "p50", "p90", "p99", "p999", "max"}).Draw(t, "stat"),
				Value:  time.Duration(rapid.Int64Range(0, 4*sec).Draw(t, "limit")),
			})
		}
		end := at
		for i := range rapid.IntRange(0, 40).Draw(t, "requests") {
			out.rs = append(out.rs, randomRequest(t, i, out.in.Steps, end))
		}
		return out
	})
}

func randomRequest(t *rapid.T, i int, steps []StepInput, end int64) *record.Request {
	within := func(name string, d int64) int64 { return rapid.Int64Range(0, d).Draw(t, name) }
	r := new(record.Request)
	r.Reset()
	r.ID = uint64(i)
	r.Workload = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "workload")
	r.Session = uint64(within("session", 8))
	r.Scheduled = within("scheduled", end)
	r.Phase = record.Warmup
	for s, st := range steps {
		if r.Scheduled >= st.Start && r.Scheduled < st.End {
			r.Phase, r.Step = record.Steady, uint32(s)
		}
	}
	r.Status = rapid.SampledFrom([]record.Status{record.OK, record.OK, record.OK, record.Failed, record.Cancelled, record.Incomplete}).Draw(t, "status")
	if r.Status == record.Failed {
		r.Error = record.ErrorKind(rapid.IntRange(1, int(record.ClientResource)).Draw(t, "error"))
	}
	if r.Status != record.OK && rapid.Bool().Draw(t, "never started") {
		return r
	}
	r.Start = r.Scheduled + within("delay", 300*ms)
	r.CapWait = min(within("cap wait", 400*ms), r.Start-r.Scheduled)
	if rapid.IntRange(0, 9).Draw(t, "sent again") == 0 {
		r.Resends, r.FirstSend = 1, r.Start-within("first send", r.Start-r.Scheduled-r.CapWait)
	}
	r.Connected = r.Start + within("connect", 50*ms)
	r.Sent = r.Connected + within("upload", 50*ms)
	last := r.Sent
	r.Streamed = rapid.Bool().Draw(t, "streamed")
	r.KernelTimes = rapid.Bool().Draw(t, "kernel")
	if r.KernelTimes {
		r.ReadLagMean, r.ReadLagMax = within("lag", ms), within("lag max", 3*ms)
	}
	r.Prompt = int32(within("prompt", 1000)) - 1
	if rapid.Bool().Draw(t, "retrieval") {
		r.RetrievalStart = r.Start - 100*ms
		r.RetrievalEnd = r.RetrievalStart + within("retrieval time", 100*ms)
	}
	if r.Streamed {
		known := rapid.Bool().Draw(t, "tokens known")
		total := int32(0)
		for range rapid.IntRange(0, 12).Draw(t, "events") {
			last += within("gap", 400*ms)
			e := record.Event{At: last, Tokens: record.Unknown, Cumulative: record.Unknown, Channel: record.Content, Bounded: rapid.Bool().Draw(t, "bounded")}
			if known {
				e.Tokens = int32(rapid.IntRange(0, 3).Draw(t, "tokens"))
				total += e.Tokens
			}
			r.Events = append(r.Events, e)
		}
		if n := len(r.Events); n > 0 {
			r.Headers = r.Events[0].At
			r.FirstEvent, r.FirstToken, r.LastToken = r.Headers, r.Headers, r.Events[n-1].At
			if rapid.Bool().Draw(t, "content") {
				r.FirstContent = r.Events[rapid.IntRange(0, n-1).Draw(t, "first content")].At
			}
			if known {
				r.Output, r.StreamedTokens, r.FirstEventTokens = total, total, r.Events[0].Tokens
				r.Source = record.SourceTokenizer
			} else if rapid.Bool().Draw(t, "usage") {
				r.Output = int32(within("output", 30))
				r.StreamedTokens, r.Source = r.Output, record.SourceServer
			}
		}
	} else {
		r.Output = int32(within("output", 30)) - 1
	}
	if r.Output > 0 {
		r.Reasoning = int32(within("reasoning", int64(r.Output)))
	}
	r.End = last + within("tail", 100*ms)
	return r
}

func nullable(ok bool, v float64) *float64 {
	if !ok {
		return nil
	}
	return &v
}

// naiveDist returns count, mean, deviation and nearest ranks of values.
func naiveDist(vs []float64) map[string]*float64 {
	vs = slices.Clone(vs)
	slices.Sort(vs)
	n := len(vs)
	out := map[string]*float64{}
	for name, q := range map[string]int{"p1": 10, "p5": 50, "p25": 250, "p50": 500, "p75": 750, "p90": 900, "p95": 950, "p99": 990, "p999": 999} {
		var got *float64
		for _, v := range vs { // the least value that at least q of all are not above
			below := 0
			for _, w := range vs {
				if w <= v {
					below++
				}
			}
			if below*1000 >= q*n {
				got = &v
				break
			}
		}
		out[name] = got
	}
	mean := 0.0
	for _, v := range vs {
		mean += v / float64(n)
	}
	sq := 0.0
	for _, v := range vs {
		sq += (v - mean) * (v - mean)
	}
	out["mean"] = nullable(n > 0, mean)
	out["std"] = nullable(n > 1, math.Sqrt(sq/float64(n-1)))
	out["min"], out["max"] = nullable(n > 0, 0), nullable(n > 0, 0)
	if n > 0 {
		*out["min"], *out["max"] = vs[0], vs[n-1]
	}
	return out
}

func compareDist(t *rapid.T, name string, d *Dist, vs []float64, tolerance float64) {
	if d.Count != int64(len(vs)) {
		t.Fatalf("%s counts %d, want %d", name, d.Count, len(vs))
	}
	got := map[string]*float64{
		"mean": d.Mean, "std": d.Std, "min": d.Min, "p1": d.P1, "p5": d.P5, "p25": d.P25, "p50": d.P50, "p75": d.P75,
		"p90": d.P90, "p95": d.P95, "p99": d.P99, "p999": d.P999, "max": d.Max,
	}
	slack := 1e-9
	if tolerance > 1e-9 {
		slack = 1.1e-6 // a token's share of a gap is a whole number of ns
	}
	for stat, want := range naiveDist(vs) {
		g := got[stat]
		if (g == nil) != (want == nil) {
			t.Fatalf("%s of %s is %v, want %v", stat, name, deref(g), deref(want))
		}
		if g == nil || stat == "std" && tolerance > 1e-9 {
			continue // the deviation of pooled values has its own test
		}
		if math.Abs(*g-*want) > tolerance*math.Abs(*want)+slack {
			t.Fatalf("%s of %s is %v, want %v", stat, name, *g, *want)
		}
	}
	for stat, pair := range d.CI95 {
		for _, v := range pair {
			if v != nil && (*v < *d.Min || *v > *d.Max) {
				t.Fatalf("interval of %s of %s is %v", stat, name, pair)
			}
		}
		if lo, hi, p := pair[0], pair[1], got[stat]; lo != nil && *lo > *p || hi != nil && *hi < *p {
			t.Fatalf("interval of %s of %s is %v, %v, without %v", stat, name, deref(lo), deref(hi), *p)
		}
	}
}

func compareRate(t *rapid.T, name string, got *float64, want float64) {
	if got == nil || math.Abs(*got-want) > 1e-9*math.Max(1, math.Abs(want)) {
		t.Fatalf("%s is %v, want %v", name, deref(got), want)
	}
}

// chosen says whether r was scheduled in one of the windows and has workload w.
func chosen(r *record.Request, w string) bool {
	return r.Phase == record.Steady && (w == "" || r.Workload == w)
}

func naiveFigure(r *record.Request, metric string, rateDriven bool) *float64 {
	diff := func(a, b int64) *float64 {
		return nullable(a != record.Unset && b != record.Unset, float64(b-a))
	}
	ok := r.Status == record.OK
	switch metric {
	case "ttft":
		if !r.Streamed {
			return nil
		}
		if rateDriven {
			return diff(r.Scheduled, r.FirstToken)
		}
		return diff(r.Start, r.FirstToken)
	case "ttfc":
		if !r.Streamed {
			return nil
		}
		return diff(r.Start, r.FirstContent)
	case "ttlt":
		return diff(r.Start, r.LastToken)
	case "e2e":
		if !ok {
			return nil
		}
		if rateDriven {
			return diff(r.Scheduled, r.End)
		}
		return diff(r.Start, r.End)
	case "connect":
		return diff(r.Start, r.Connected)
	case "upload":
		return diff(r.Connected, r.Sent)
	case "retrieval":
		return diff(r.RetrievalStart, r.RetrievalEnd)
	case "tpot":
		span := diff(r.FirstToken, r.LastToken)
		if !r.Streamed || span == nil || len(r.Events) < 2 || r.StreamedTokens < 2 {
			return nil
		}
		first := int32(1)
		if r.FirstEventTokens != record.Unknown {
			first = r.FirstEventTokens
		}
		return nullable(r.StreamedTokens > first, *span/float64(r.StreamedTokens-first))
	}
	panic(metric)
}

func TestFiguresAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := randomRuns().Draw(t, "run")
		s := summarize(run.in, run.rs...)
		inWindow := func(at int64) bool {
			for _, st := range run.in.Steps {
				if at != record.Unset && at >= st.Start && at < st.End {
					return true
				}
			}
			return false
		}
		var length float64
		for _, st := range run.in.Steps {
			length += float64(st.End-st.Start) / 1e9
		}
		names := []string{""}
		for name := range s.Workloads {
			names = append(names, name)
		}
		for _, name := range names {
			lat, rates, tokens := s.Latency, s.Rates, s.Tokens
			if name != "" {
				g := s.Workloads[name]
				lat, rates, tokens = g.Latency, g.Rates, g.Tokens
			}
			values := map[string][]float64{}
			var promptRate, tokenRate, itl, gaps []float64
			for _, r := range run.rs {
				if !chosen(r, name) || r.Status != record.OK {
					continue
				}
				for _, m := range []string{"ttft", "ttfc", "ttlt", "e2e", "tpot", "connect", "upload", "retrieval"} {
					if v := naiveFigure(r, m, false); v != nil {
						values[m] = append(values[m], *v/1e6)
					}
				}
				for _, m := range []string{"ttft", "e2e"} {
					if v := naiveFigure(r, m, true); v != nil {
						values[m+"_from_schedule"] = append(values[m+"_from_schedule"], *v/1e6)
					}
				}
				if v := naiveFigure(r, "ttft", false); v != nil && *v > 0 && r.Prompt >= 0 {
					promptRate = append(promptRate, float64(r.Prompt) / *v * 1e9)
				}
				if v := naiveFigure(r, "tpot", false); v != nil && *v > 0 {
					tokenRate = append(tokenRate, 1e9 / *v)
				}
				waiting := int64(0)
				whole := !slices.ContainsFunc(r.Events[min(1, len(r.Events)):], func(e record.Event) bool { return e.Tokens < 0 })
				for i := 1; i < len(r.Events); i++ {
					gap := r.Events[i].At - r.Events[i-1].At
					gaps = append(gaps, float64(gap)/1e6)
					waiting += gap
					if n := r.Events[i].Tokens; whole && n > 0 {
						for range n {
							itl = append(itl, float64(waiting)/float64(n)/1e6)
						}
						waiting = 0
					}
				}
			}
			for m, d := range map[string]*Dist{
				"ttft": lat.TTFT, "ttft_from_schedule": lat.TTFTFromSchedule, "ttfc": lat.TTFC, "ttlt": lat.TTLT, "e2e": lat.E2E,
				"e2e_from_schedule": lat.E2EFromSchedule, "tpot": lat.TPOT, "connect": lat.Connect, "upload": lat.Upload, "retrieval": lat.Retrieval,
			} {
				compareDist(t, name+" "+m, d, values[m], 1e-12)
			}
			compareDist(t, name+" prompt_rate", rates.PromptRate, promptRate, 1e-12)
			compareDist(t, name+" token_rate", rates.TokenRate, tokenRate, 1e-12)
			compareDist(t, name+" event_gap", lat.EventGap, gaps, 0.004)
			compareDist(t, name+" itl", lat.ITL, itl, 0.004)

			// What arrived inside the windows, event by event.
			var prompt, output, known, knownEvents, unknownEvents float64
			uncounted := false
			for _, r := range run.rs {
				all := len(r.Events) > 0 && !slices.ContainsFunc(r.Events, func(e record.Event) bool { return e.Tokens < 0 })
				for _, e := range r.Events {
					if all {
						known, knownEvents = known+float64(e.Tokens), knownEvents+1
					}
				}
				if name != "" && r.Workload != name {
					continue
				}
				at := r.FirstToken
				if at == record.Unset {
					at = r.End
				}
				if r.Prompt >= 0 && inWindow(at) {
					prompt += float64(r.Prompt)
				}
				for i, e := range r.Events {
					switch {
					case !inWindow(e.At):
					case all:
						output += float64(e.Tokens)
					case r.Output >= 0:
						// The i-th of n events completes tokens up to Output*(i+1)/n.
						n := int64(len(r.Events))
						output += float64(int64(r.Output)*int64(i+1)/n - int64(r.Output)*int64(i)/n)
					default:
						unknownEvents++
					}
				}
				if len(r.Events) == 0 && r.Output >= 0 && inWindow(r.End) {
					output += float64(r.Output)
				}
			}
			if unknownEvents > 0 && knownEvents == 0 {
				uncounted = true
			} else if unknownEvents > 0 {
				output += unknownEvents * known / knownEvents
			}
			if tokens.PromptPerS != nil {
				compareRate(t, name+" prompt/s", tokens.PromptPerS, prompt/length)
			} else if prompt != 0 {
				t.Fatalf("%s prompt/s is null, want %v", name, prompt/length)
			}
			switch {
			case uncounted && tokens.OutputPerS != nil:
				t.Fatalf("%s output/s is %v though nobody counted", name, *tokens.OutputPerS)
			case tokens.OutputPerS != nil:
				compareRate(t, name+" output/s", tokens.OutputPerS, output/length)
			case !uncounted && output != 0:
				t.Fatalf("%s output/s is null, want %v", name, output/length)
			}
		}

		// Counts, rates and what was in flight.
		var want Requests
		var started, completed float64
		want.ByError = map[string]int64{}
		for _, r := range run.rs {
			if inWindow(r.Start) {
				started++
			}
			if r.Status == record.OK && inWindow(r.End) {
				completed++
			}
			if r.Phase != record.Steady {
				continue
			}
			want.Scheduled++
			if r.Start != record.Unset {
				want.Sent++
			}
			switch r.Status {
			case record.OK:
				want.OK++
			case record.Failed:
				want.Error++
				want.ByError[r.Error.String()]++
			case record.Cancelled:
				want.Cancelled++
			case record.Incomplete:
				want.Incomplete++
			}
		}
		if fmt.Sprint(s.Requests) != fmt.Sprint(want) {
			t.Fatalf("requests are %+v, want %+v", s.Requests, want)
		}
		compareRate(t, "offered", s.Load.OfferedRPS, float64(want.Scheduled)/length)
		compareRate(t, "achieved", s.Load.AchievedRPS, started/length)
		compareRate(t, "completed", s.Load.CompletedRPS, completed/length)
		var requests, sessions []float64
		for _, st := range run.in.Steps {
			w := st.End - st.Start
			n := min(max(w/1e8, 100), 36_000)
			for i := range n {
				at := st.Start + int64((float64(i)+0.5)*float64(w)/float64(n))
				flying, alive := 0.0, map[uint64][2]int64{}
				for _, r := range run.rs {
					if r.Start != record.Unset && r.Start <= at && at < r.End {
						flying++
					}
					end := r.End
					if end == record.Unset {
						end = r.Scheduled
					}
					span, ok := alive[r.Session]
					if !ok {
						span = [2]int64{r.Scheduled, end}
					}
					alive[r.Session] = [2]int64{min(span[0], r.Scheduled), max(span[1], end)}
				}
				requests = append(requests, flying)
				lives := 0.0
				for _, span := range alive {
					if span[0] <= at && at < span[1] {
						lives++
					}
				}
				sessions = append(sessions, lives)
			}
		}
		compareDist(t, "requests in flight", s.Load.RequestsInFlight, requests, 1e-9)
		compareDist(t, "sessions in flight", s.Load.SessionsInFlight, sessions, 1e-9)
		strictRapid(t, s)
	})
}

func strictRapid(t *rapid.T, s *Summary) {
	b := marshal(s)
	back, err := ParseSummary([]byte(b))
	if err != nil {
		t.Fatal(err)
	}
	if marshal(back) != b {
		t.Fatal("the summary changes when it is read back")
	}
}

func TestSLOAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := randomRuns().Filter(func(r randomRun) bool { return len(r.in.Limits) > 0 }).Draw(t, "run")
		run.in.Steps = run.in.Steps[:1] // with several the worst step counts
		s := summarize(run.in, run.rs...)
		inf := math.Inf(1)
		good, scheduled, met := 0, 0, true
		var within []*record.Request
		for _, r := range run.rs {
			if r.Phase == record.Steady && r.Step == 0 {
				within = append(within, r)
			}
		}
		for _, r := range within {
			scheduled++
			ok := r.Status == record.OK
			for _, l := range run.in.Limits {
				if v := naiveFigure(r, l.Metric, run.in.RateDriven); v != nil && *v > float64(l.Value) {
					ok = false
				}
			}
			if ok {
				good++
			}
		}
		for i, l := range run.in.Limits {
			limit := float64(l.Value)
			var vs []float64
			for _, r := range within {
				v := naiveFigure(r, l.Metric, run.in.RateDriven)
				switch {
				case r.Status == record.Failed || r.Status == record.Incomplete:
					vs = append(vs, inf)
				case v != nil:
					vs = append(vs, *v)
				case r.Status == record.Cancelled && l.Metric != "tpot" && r.End != record.Unset:
					from := r.Start
					if run.in.RateDriven && (l.Metric == "ttft" || l.Metric == "e2e") {
						from = r.Scheduled
					}
					if float64(r.End-from) > limit {
						vs = append(vs, inf)
					}
				}
			}
			slices.Sort(vs)
			got := s.SLO.Limits[i]
			want := inf
			if len(vs) > 0 {
				sum := 0.0
				for _, v := range vs {
					sum += v
				}
				switch l.Stat {
				case "mean":
					want = sum / float64(len(vs))
				case "max":
					want = vs[len(vs)-1]
				default:
					q := map[string]int{"p50": 500, "p90": 900, "p99": 990, "p999": 999}[l.Stat]
					want = vs[(q*len(vs)+999)/1000-1]
				}
			}
			if math.IsInf(want, 1) {
				if got.Value != nil || got.Met {
					t.Fatalf("limit %d is %v, want infinite or unknown", i, got)
				}
				met = false
				continue
			}
			if got.Value == nil || math.Abs(*got.Value*1e6-want) > 1e-6*math.Max(1, want) {
				t.Fatalf("%s.%s is %v, want %v", l.Metric, l.Stat, deref(got.Value), want/1e6)
			}
			if math.Abs(want-limit) > 1 && got.Met != (want <= limit) {
				t.Fatalf("%s.%s of %v within %v: met is %v", l.Metric, l.Stat, want, limit, got.Met)
			}
			met = met && got.Met
		}
		if s.SLO.Met != met {
			t.Fatalf("met is %v, want %v", s.SLO.Met, met)
		}
		if scheduled > 0 {
			compareRate(t, "attainment", s.SLO.Attainment, float64(good)/float64(scheduled))
		} else if s.SLO.Attainment != nil {
			t.Fatalf("attainment of nothing is %v", *s.SLO.Attainment)
		}
		st := run.in.Steps[0]
		compareRate(t, "goodput", s.SLO.GoodputRPS, float64(good)/(float64(st.End-st.Start)/1e9))
	})
}

func TestOrderOfRecordsDoesNotShow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := randomRuns().Draw(t, "run")
		want := marshal(summarize(run.in, run.rs...))
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		r.Shuffle(len(run.rs), func(i, j int) { run.rs[i], run.rs[j] = run.rs[j], run.rs[i] })
		if got := marshal(summarize(run.in, run.rs...)); got != want {
			t.Fatalf("in another order: %s\nwant %s", got, want)
		}
	})
}
