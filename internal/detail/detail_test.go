package detail

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plimsoll/internal/record"
	"plimsoll/internal/scenario"
	"plimsoll/internal/stats"
)

// someRequest is a request with everything that can go wrong with one.
func someRequest(r *rand.Rand, id uint64, scheduled int64) *record.Request {
	q := new(record.Request)
	q.Reset()
	q.ID, q.Session, q.User, q.Turn = id, id/3, uint32(id%7), uint32(id%3)
	q.Workload = fmt.Sprintf("workload %d", r.IntN(3))
	q.Target = uint32(r.IntN(3))
	q.Phase, q.Scheduled = record.Steady, scheduled
	q.Start = scheduled
	if r.IntN(2) == 0 {
		q.Start += int64(r.ExpFloat64() * 3e6)
	}
	if r.IntN(8) == 0 {
		q.CapWait = (q.Start - q.Scheduled) / 2
	}
	q.Connected, q.Sent = q.Start+1000, q.Start+5000
	q.Reused = r.IntN(2) == 0
	q.KernelTimes, q.ReadLagMean, q.ReadLagMax, q.Reads = true, 1000, 5000, 3
	q.HTTPStatus, q.Finish, q.Streamed, q.AskedStream = 200, []string{"stop", "length", ""}[r.IntN(3)], r.IntN(10) > 0, true
	q.Prompt, q.Cached = int32(r.IntN(5000)), int32(r.IntN(100))
	if r.IntN(9) == 0 {
		q.RetrievalStart, q.RetrievalEnd = q.Start-int64(5e6), q.Start-int64(1e6)
	}
	q.Headers = q.Start + int64(1e6+r.ExpFloat64()*2e8)
	at := q.Headers
	events := r.IntN(30)
	counted := r.IntN(4) > 0
	for range events {
		at += int64(r.ExpFloat64() * 3e7)
		e := record.Event{At: at, Cumulative: record.Unknown, Tokens: record.Unknown, Channel: record.Content, TextBytes: 3}
		if counted {
			e.Tokens = int32(1 + r.IntN(2))
		}
		q.Events = append(q.Events, e)
	}
	q.TextBytes = int64(3 * events)
	if events > 0 {
		q.FirstEvent, q.FirstToken, q.FirstContent, q.LastToken = q.Events[0].At, q.Events[0].At, q.Events[0].At, at
		if r.IntN(3) == 0 {
			q.FirstContent = q.Events[events/2].At
		}
		if counted {
			q.FirstEventTokens = q.Events[0].Tokens
			for _, e := range q.Events {
				q.StreamedTokens = max(q.StreamedTokens, 0) + e.Tokens
			}
			q.Output, q.Source, q.Basis = q.StreamedTokens, record.SourceServer, record.BasisFirstEvent
		} else if r.IntN(2) == 0 {
			q.Output = int32(events)
		}
		if r.IntN(12) == 0 {
			q.Flags |= record.BufferedStream
		}
	}
	q.End = at + 2000
	switch r.IntN(9) {
	case 0:
		q.Status, q.Error = record.Failed, []record.ErrorKind{record.RateLimited, record.TruncatedStream}[r.IntN(2)]
	case 1:
		q.Status = record.Cancelled
	case 2:
		q.Status = record.Incomplete
		q.End = record.Unset
	case 3:
		if events == 0 {
			q.Start, q.Connected, q.Sent, q.Headers, q.End, q.Status = record.Unset, record.Unset, record.Unset, record.Unset, record.Unset, record.Incomplete
		}
	}
	return q
}

// someRun is a run of some steps, its requests in the order of their ends.
func someRun(r *rand.Rand, n, steps int) (stats.Input, []*record.Request) {
	in := stats.Input{ID: "some", Name: "some", Started: time.Unix(0, 0).UTC(), RateDriven: r.IntN(2) == 0}
	limits := func(most int) (out []scenario.Limit) {
		for i, metric := range scenario.SLOMetrics {
			if r.IntN(most) == 0 {
				out = append(out, scenario.Limit{Metric: metric, Stat: []string{"p95", "mean", "max", "p50"}[i%4], Value: time.Duration(r.ExpFloat64() * 3e8)})
			}
		}
		return out
	}
	in.Limits = limits(2)
	if r.IntN(2) == 0 {
		in.Workloads = map[string]stats.WorkloadLimits{
			"workload 1": {First: limits(3), Later: limits(3), All: limits(3), WithRetrieval: r.IntN(2) == 0},
			"workload 9": {All: limits(3)}, // never comes
		}
		in.WorkloadsCount = r.IntN(2) == 0
	}
	var list []*record.Request
	at := int64(0)
	for step := range steps {
		warm := at + int64(max(0, r.Float64()*3e9-1e9))
		end := warm + int64(1e9+r.Float64()*9e9)
		in.Steps = append(in.Steps, stats.StepInput{Users: step + 1, Start: warm, End: end, Complete: true})
		for range n {
			t := at + int64(r.Float64()*float64(end-at))
			steady := t >= warm
			switch r.IntN(20) { // the phase is the load's to say, not the clock's
			case 0:
				steady = false
			case 1:
				t, steady = end+int64(r.ExpFloat64()*1e8), true
			}
			q := someRequest(r, uint64(len(list)), t)
			q.Step = uint32(step)
			if !steady {
				q.Phase = record.Warmup
			}
			list = append(list, q)
		}
		at = end + int64(r.Float64()*1e9)
		if r.IntN(3) == 0 {
			at = end - 1 // windows that meet, and more
		}
	}
	in.Duration = at
	for _, q := range list {
		in.Duration = max(in.Duration, q.End)
	}
	byEnd(list)
	return in, list
}

func byEnd(list []*record.Request) {
	end := func(q *record.Request) int64 {
		if q.End == record.Unset {
			return 1 << 62
		}
		return q.End
	}
	for i := range list { // few enough
		for j := i; j > 0 && end(list[j]) < end(list[j-1]); j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
}

func storeOf(in stats.Input, list []*record.Request) *Store {
	s := New(Meta{Input: in})
	for _, q := range list {
		s.AddRequest(q)
	}
	return s
}

// summaryFigures are the figures of a summary in the shape of Figures.
func summaryFigures(s *stats.Summary) Figures {
	out := Figures{
		Requests: s.Requests, Latency: map[string]*Stat{}, SLO: []stats.Limit{}, Workloads: map[string]WorkloadFigure{},
		Tokens:     TokenFigures{s.Tokens.Prompt, s.Tokens.Cached, s.Tokens.Output, s.Tokens.OutputPerS, s.Tokens.PromptPerS},
		OfferedRPS: s.Load.OfferedRPS, AchievedRPS: s.Load.AchievedRPS, CompletedRPS: s.Load.CompletedRPS,
	}
	for name, d := range map[string]*stats.Dist{
		"ttft": s.Latency.TTFT, "ttfc": s.Latency.TTFC, "tpot": s.Latency.TPOT, "itl": s.Latency.ITL, "e2e": s.Latency.E2E,
		"ttft_from_schedule": s.Latency.TTFTFromSchedule, "e2e_from_schedule": s.Latency.E2EFromSchedule, "send_lag": s.Client.SendLag,
	} {
		out.Latency[name] = nil
		if d.Count > 0 {
			out.Latency[name] = statOf(d)
		}
	}
	if s.SLO != nil {
		out.GoodputRPS, out.Attainment = s.SLO.GoodputRPS, s.SLO.Attainment
		out.SLO = s.SLO.Limits
	}
	for name, g := range s.Workloads {
		if g.Requests.Scheduled > 0 {
			out.Workloads[name] = WorkloadFigure{g.Requests.Scheduled, g.Requests.Error, g.Latency.TTFT.P95, g.Latency.TPOT.P95, g.Tokens.OutputPerS, g.SLO}
		}
	}
	return out
}

// sameFigures compares without the range.
func sameFigures(a, b Figures) string {
	a.From, a.To, a.Steady, a.WindowS, a.TokenWindowS = 0, 0, false, 0, 0
	b.From, b.To, b.Steady, b.WindowS, b.TokenWindowS = 0, 0, false, 0, 0
	return cmp.Diff(a, b)
}

// While a run goes on a range ends with what is known: whoever asks beyond that, as a
// page does whose axis is longer than the run, gets the same rates.
func TestFiguresOfTheFuture(t *testing.T) {
	in, list := someRun(rand.New(rand.NewPCG(1, 0)), 60, 1)
	in.Steps, in.Duration = nil, 0
	s := storeOf(in, list)
	_, now := s.Span()
	want := s.Figures(0, now)
	if want.CompletedRPS == nil || *want.CompletedRPS <= 0 || want.Tokens.OutputPerS == nil {
		t.Fatalf("no rates of a run under way: %+v", want)
	}
	if d := cmp.Diff(want, s.Figures(0, now+60e9)); d != "" {
		t.Errorf("a range that goes on for a minute (-until now +beyond):\n%s", d)
	}
	if f := s.Figures(now+1e9, now+2e9); f.Requests.Scheduled != 0 || f.WindowS > 1e-9 {
		t.Errorf("a range that has not begun: %+v", f)
	}
}

func TestFiguresAreThoseOfTheSummary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		in, list := someRun(r, rapid.IntRange(0, 60).Draw(t, "requests"), rapid.IntRange(1, 3).Draw(t, "steps"))
		c := stats.NewCollector(in)
		for _, q := range list {
			c.Add(q)
		}
		want := summaryFigures(c.Summary())
		s := storeOf(in, list)
		if diff := sameFigures(want, s.Figures(in.Steps[0].Start, in.Steps[len(in.Steps)-1].End)); diff != "" {
			t.Fatalf("before the end (-summary +figures):\n%s", diff)
		}
		s.finish()
		start, end := in.Steps[0].Start, in.Steps[len(in.Steps)-1].End
		for name, from := range map[string][2]int64{
			"the whole run": {0, 0}, "the steady windows": {start, end},
			"the steady windows as JSON has them": {(start + 500) / 1000 * 1000, (end + 500) / 1000 * 1000},
		} {
			if diff := sameFigures(want, s.Figures(from[0], from[1])); diff != "" {
				t.Fatalf("after the end, %s (-summary +figures):\n%s", name, diff)
			}
		}
	})
}
