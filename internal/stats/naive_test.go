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
		out.in.Limits = randomLimits(t)
		if rapid.Bool().Draw(t, "limits of workloads") {
			out.in.Workloads = map[string]WorkloadLimits{
				"a": {First: randomLimits(t), Later: randomLimits(t), All: randomLimits(t), WithRetrieval: rapid.Bool().Draw(t, "with retrieval")},
				"c": {All: randomLimits(t)}, // never comes
			}
			out.in.WorkloadsCount = rapid.Bool().Draw(t, "they count")
		}
		end := at
		for i := range rapid.IntRange(0, 40).Draw(t, "requests") {
			out.rs = append(out.rs, randomRequest(t, i, out.in.Steps, end))
		}
		return out
	})
}

func randomLimits(t *rapid.T) (out []scenario.Limit) {
	for range rapid.IntRange(0, 3).Draw(t, "limits") {
		out = append(out, scenario.Limit{
			Metric: rapid.SampledFrom([]string{"ttft", "ttfc", "ttlt", "e2e", "tpot"}).Draw(t, "metric"),
			Stat:   rapid.SampledFrom([]string{"mean", "p50", "p90", "p99", "p999", "max"}).Draw(t, "stat"),
			Value:  time.Duration(rapid.Int64Range(0, 4*sec).Draw(t, "limit")),
		})
	}
	return out
}

func randomRequest(t *rapid.T, i int, steps []StepInput, end int64) *record.Request {
	within := func(name string, d int64) int64 { return rapid.Int64Range(0, d).Draw(t, name) }
	r := new(record.Request)
	r.Reset()
	r.ID = uint64(i)
	r.Workload = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "workload")
	r.Session, r.Turn = uint64(within("session", 8)), uint32(within("turn", 2))
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

// naiveLevel is a limit as METRICS.md has it.
type naiveLevel struct {
	scenario.Limit
	workload, turn string
	search         bool
}

func (l *naiveLevel) about(r *record.Request) bool {
	return (l.workload == "" || r.Workload == l.workload) && (l.turn == "" || l.turn == "first" && r.Turn == 0 || l.turn == "later" && r.Turn > 0)
}

func (l *naiveLevel) figure(r *record.Request, rateDriven bool) *float64 {
	v := naiveFigure(r, l.Metric, rateDriven)
	if v == nil || !l.search || l.Metric != "ttft" {
		return v
	}
	search := naiveFigure(r, "retrieval", false)
	if search == nil {
		return nil
	}
	return nullable(true, *v+*search)
}

// naiveLevels are the limits of a workload, of the run for "".
func naiveLevels(in *Input, workload string) (out []naiveLevel) {
	own := func(name string) (out []naiveLevel) {
		w := in.Workloads[name]
		for _, l := range w.First {
			out = append(out, naiveLevel{l, name, "first", w.WithRetrieval})
		}
		for _, l := range w.Later {
			out = append(out, naiveLevel{l, name, "later", w.WithRetrieval})
		}
		for _, l := range w.All {
			out = append(out, naiveLevel{l, name, "", w.WithRetrieval})
		}
		return out
	}
	if list := own(workload); len(list) > 0 {
		return list
	}
	for _, l := range in.Limits {
		out = append(out, naiveLevel{Limit: l})
	}
	if workload == "" && in.WorkloadsCount {
		out = append(append(out, own("a")...), own("c")...)
	}
	return out
}

// naiveStat returns the statistic that a limit is held against: Inf for one that
// failures make infinite, nil for one that was not measured.
func naiveStat(l *naiveLevel, rs []*record.Request, rateDriven bool) *float64 {
	inf, limit := math.Inf(1), float64(l.Value)
	var vs []float64
	measured, without := false, false
	for _, r := range rs {
		if !l.about(r) {
			continue
		}
		v := l.figure(r, rateDriven)
		switch {
		case r.Status == record.Failed || r.Status == record.Incomplete:
			vs = append(vs, inf)
		case v != nil:
			vs = append(vs, *v)
			measured = true
		case r.Status == record.OK:
			without = true
		case l.Metric != "tpot" && r.End != record.Unset: // cancelled
			from := r.Start
			if rateDriven && (l.Metric == "ttft" || l.Metric == "e2e") {
				from = r.Scheduled
			}
			waited := float64(r.End - from)
			if search := naiveFigure(r, "retrieval", false); search != nil && l.search && l.Metric == "ttft" {
				waited += *search
			}
			if waited > limit {
				vs = append(vs, inf)
			}
		}
	}
	if len(vs) == 0 || !measured && without {
		return nil
	}
	slices.Sort(vs)
	sum := 0.0
	for _, v := range vs {
		sum += v
	}
	switch l.Stat {
	case "mean":
		return nullable(true, sum/float64(len(vs)))
	case "max":
		return nullable(true, vs[len(vs)-1])
	}
	q := map[string]int{"p50": 500, "p90": 900, "p99": 990, "p999": 999}[l.Stat]
	return nullable(true, vs[(q*len(vs)+999)/1000-1])
}

func TestSLOAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := randomRuns().Draw(t, "run")
		in := &run.in
		s := summarize(*in, run.rs...)
		of := map[string]*SLO{"": s.SLO}
		for name, g := range s.Workloads {
			of[name] = g.SLO
		}
		for name, got := range of {
			limits := naiveLevels(in, name)
			if (got == nil) != (len(limits) == 0) {
				t.Fatalf("%q has %d limits, judged: %v", name, len(limits), got)
			}
			if got == nil {
				continue
			}
			var length float64
			var all []*record.Request
			steps := make([][]*record.Request, len(in.Steps))
			for i, st := range in.Steps {
				length += float64(st.End-st.Start) / 1e9
				for _, r := range run.rs {
					if r.Phase == record.Steady && int(r.Step) == i && (name == "" || r.Workload == name) {
						steps[i], all = append(steps[i], r), append(all, r)
					}
				}
			}
			good, measured, missed := 0, false, false
			for _, r := range all {
				ok := r.Status == record.OK
				for _, l := range limits {
					if v := l.figure(r, in.RateDriven); v != nil && l.about(r) && *v > float64(l.Value) {
						ok = false
					}
				}
				if ok {
					good++
				}
			}
			for i, l := range limits {
				var want *float64 // of the worst step
				for _, rs := range steps {
					if v := naiveStat(&l, rs, in.RateDriven); v != nil && (want == nil || *v > *want) {
						want = v
					}
				}
				x := got.Limits[i]
				switch {
				case want == nil:
					if x.Value != nil || x.Met != nil {
						t.Fatalf("%q: %+v is %v %v, want not measured", name, l, deref(x.Value), x.Met)
					}
					continue
				case math.IsInf(*want, 1):
					if x.Value != nil || x.Met == nil || *x.Met {
						t.Fatalf("%q: %+v is %v %v, want infinite and missed", name, l, deref(x.Value), x.Met)
					}
				case x.Value == nil || x.Met == nil || math.Abs(*x.Value*1e6-*want) > 1e-6*math.Max(1, *want):
					t.Fatalf("%q: %+v is %v %v, want %v", name, l, deref(x.Value), x.Met, *want/1e6)
				case math.Abs(*want-float64(l.Value)) > 1 && *x.Met != (*want <= float64(l.Value)):
					t.Fatalf("%q: %+v of %v: met is %v", name, l, *want, *x.Met)
				}
				measured, missed = true, missed || !*x.Met
			}
			if (got.Met != nil) != measured || measured && *got.Met == missed {
				t.Fatalf("%q: met is %v, measured %v, missed %v", name, got.Met, measured, missed)
			}
			if !measured {
				if got.Attainment != nil || got.GoodputRPS != nil {
					t.Fatalf("%q: attainment %v and goodput %v of nothing that was measured", name, deref(got.Attainment), deref(got.GoodputRPS))
				}
				continue
			}
			compareRate(t, "attainment", got.Attainment, float64(good)/float64(len(all)))
			compareRate(t, "goodput", got.GoodputRPS, float64(good)/length)
		}
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
