package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plimsoll/internal/clock"
	"plimsoll/internal/detail"
	"plimsoll/internal/load"
	"plimsoll/internal/record"
	"plimsoll/internal/scenario"
	"plimsoll/internal/signal"
	"plimsoll/internal/stats"
	"plimsoll/internal/telemetry"
)

// stage is a run that is played to a Watch under fake time.
type stage struct {
	t     *testing.T
	w     *Watch
	clock *clock.Clock
	next  uint64
}

// nowhere is a sink that keeps nothing.
type nowhere struct{ n int32 }

func (s *nowhere) Declare(signal.Series) int32 { s.n++; return s.n - 1 }
func (s *nowhere) Add([]signal.Sample)         {}

// newStage begins to watch a run of one step of an hour of 4 users.
func newStage(t *testing.T, change func(*Run)) *stage {
	c := clock.NewFake()
	s := &stage{t: t, w: New(), clock: c}
	r := Run{
		Row: detail.RunRow{ID: "x"}, Start: c.Start(), Now: c.Now, Live: new(load.Live),
		Plan: []load.Step{{Users: 4, Duration: time.Hour}},
	}
	if change != nil {
		change(&r)
	}
	s.w.Begin(r)
	return s
}

// request ends a request now that took a time.
func (s *stage) request(ttft, e2e time.Duration, status record.Status) *record.Request {
	r := new(record.Request)
	r.Reset()
	now := s.clock.Now()
	r.ID, r.Workload, r.Phase, r.Status, r.Streamed = s.next, "w", record.Steady, status, true
	s.next++
	r.Start = now - int64(e2e)
	r.Scheduled, r.Connected, r.Sent, r.End = r.Start, r.Start, r.Start, now
	if status == record.OK {
		r.FirstToken, r.LastToken = r.Start+int64(ttft), now
		r.FirstEvent, r.FirstContent, r.Headers = r.FirstToken, r.FirstToken, r.FirstToken
		r.Output, r.StreamedTokens, r.FirstEventTokens, r.Source = 2, 2, 1, record.SourceServer
		r.Events = []record.Event{{At: r.FirstToken, Tokens: 1, Channel: record.Content}, {At: r.LastToken, Tokens: 1, Channel: record.Content}}
	} else if status == record.Failed {
		r.Error, r.Message = record.RateLimited, "HTTP 429"
	}
	return r
}

// read returns what a reader gets that begins after a number, to the end.
func read(t *testing.T, r *Reader) []*Snapshot {
	t.Helper()
	var out []*Snapshot
	for {
		s, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Error(err)
			return out
		}
		out = append(out, s)
	}
}

// TestSnapshotsLieOnTheGrid: one a second of the run's clock, a quarter after it, whatever the
// load does.
func TestSnapshotsLieOnTheGrid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(370 * time.Millisecond) // the clock of the run starts anywhere
		s := newStage(t, nil)
		type seen struct {
			n  int64
			t  detail.Ms
			at int64
		}
		got := make(chan []seen)
		go func() {
			var list []seen
			r := s.w.Reader(0)
			for {
				x, err := r.Next(t.Context())
				if err != nil {
					got <- list
					return
				}
				list = append(list, seen{x.N, x.T, s.clock.Now()})
			}
		}()
		time.Sleep(5*time.Second + 600*time.Millisecond)
		s.w.End(nil, nil)
		list := <-got
		var want []seen
		for k := range int64(5) {
			want = append(want, seen{k + 1, detail.Ms(1000 * (k + 1)), (k+1)*second + quarter})
		}
		want = append(want, seen{6, 5600, 5600 * int64(time.Millisecond)})
		if !slices.Equal(list, want) {
			t.Errorf("snapshots are %+v, want %+v", list, want)
		}
	})
}

// TestReadersMissNothing: a reader that goes away and comes back by number has each snapshot
// once, one that is too slow is told so and goes on with the newest.
func TestReadersMissNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		next := func(r *Reader) (int64, error) {
			x, err := r.Next(t.Context())
			if err != nil {
				return 0, err
			}
			return x.N, nil
		}
		quick, slow := s.w.Reader(0), s.w.Reader(0)
		var last int64
		for range 10 {
			n, err := next(quick)
			if err != nil || n != last+1 {
				t.Fatalf("snapshot %d, %v, after %d", n, err, last)
			}
			last = n
		}
		time.Sleep(20*time.Second + 100*time.Millisecond)
		again := s.w.Reader(last)
		for range 25 {
			n, err := next(again)
			if err != nil || n != last+1 {
				t.Fatalf("snapshot %d, %v, after %d", n, err, last)
			}
			last = n
		}
		if n, err := next(slow); n != 1 || err != nil {
			t.Fatalf("the slow reader has %d, %v", n, err)
		}
		time.Sleep(Kept*time.Second + 100*time.Millisecond)
		newest := s.w.ring.Newest().N
		if _, err := next(slow); !errors.Is(err, ErrResync) {
			t.Fatalf("%d snapshots later it is %v", newest-1, err)
		}
		if n, err := next(slow); n != newest || err != nil {
			t.Fatalf("it goes on with %d, %v, the newest is %d", n, err, newest)
		}
		// The oldest that is kept is still there.
		if n, err := next(s.w.Reader(newest - Kept)); n != newest-Kept+1 || err != nil {
			t.Fatalf("the oldest is %d, %v", n, err)
		}
		if n, err := next(s.w.Reader(-1)); n != newest || err != nil {
			t.Fatalf("from now on begins with %d, %v", n, err)
		}
		if _, err := next(s.w.Reader(newest + 5)); !errors.Is(err, ErrResync) {
			t.Fatalf("a number of another run gives %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := s.w.Reader(newest).Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a reader that gives up gets %v", err)
		}
		waiting := s.w.Reader(newest)
		s.w.End(nil, nil)
		rest := read(t, waiting)
		if len(rest) != 1 || rest[0].N != newest+1 {
			t.Fatalf("after the end there are %d more", len(rest))
		}
	})
}

// marks returns the marks of a kind as they are in the end.
func (s *stage) marks(kind string) []detail.Mark {
	var out []detail.Mark
	for _, m := range s.w.Doc().Marks {
		if m.Kind == kind {
			out = append(out, m)
		}
	}
	return out
}

// TestLimitsWithHysteresis: a limit is crossed once it has been over for three seconds, and kept
// again once the figure has been well within it for as long; what dances about it is one
// mark.
func TestLimitsWithHysteresis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, func(r *Run) {
			r.Input.Limits = []scenario.Limit{{Metric: "ttft", Stat: "p95", Value: 500 * time.Millisecond}}
		})
		play := func(seconds int, ttft func(i int) time.Duration) {
			for i := range seconds {
				for range 10 {
					s.w.Record(s.request(ttft(i), 2*time.Second, record.OK))
				}
				time.Sleep(time.Second)
			}
		}
		always := func(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }
		time.Sleep(100 * time.Millisecond) // not when it is looked
		play(20, always(300*time.Millisecond))
		if m := s.marks("threshold"); len(m) != 0 {
			t.Fatalf("within the limit there is %+v", m)
		}
		play(1, always(900*time.Millisecond)) // more than one in twenty of the last 10 s
		play(30, always(300*time.Millisecond))
		play(20, always(900*time.Millisecond))
		play(30, func(i int) time.Duration { // p95 goes between 490 and 510 ms
			return time.Duration(490+20*(i/10%2)) * time.Millisecond
		})
		play(30, always(300*time.Millisecond))
		got := s.marks("threshold")
		if len(got) != 2 {
			t.Fatalf("%d marks: %+v", len(got), got)
		}
		for i, m := range got {
			if m.Severity != "fail" || !strings.HasPrefix(m.Text, "ttft p95 is over 500ms: ") || m.To == nil {
				t.Errorf("mark %d is %+v", i, m)
			}
		}
		// The first held as long as the second of slow requests was looked back on, the
		// second until the figure had calmed down.
		if from, to := got[0].T, *got[0].To; from < 20000 || from > 21000 || to < 29000 || to > 32000 {
			t.Errorf("the first is from %v to %v", from, to)
		}
		if from, to := got[1].T, *got[1].To; from < 51000 || from > 52000 || to < 102000+8000 || to > 102000+13000 {
			t.Errorf("the second is from %v to %v", from, to)
		}
		s.w.End(nil, nil)
		// Whoever reads snapshots sees each mark when it comes and when it has ended.
		var begun, ended int
		for _, x := range read(t, s.w.Reader(0)) {
			for _, m := range x.Marks {
				if m.Kind == "threshold" && m.To == nil {
					begun++
				} else if m.Kind == "threshold" {
					ended++
				}
			}
		}
		if begun != 2 || ended != 2 {
			t.Errorf("snapshots tell of %d beginnings and %d ends", begun, ended)
		}
	})
}

// TestLimitsOfWorkloadsAreJudged: the limits that come with a workload are held against its
// requests and turns alone, in the head and by marks, whether the run is judged by them or
// not, and only then do they count in its goodput. What no request has is not judged.
func TestLimitsOfWorkloadsAreJudged(t *testing.T) {
	for _, counts := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			limit := func(metric string, v time.Duration) []scenario.Limit {
				return []scenario.Limit{{Metric: metric, Stat: "p95", Value: v}}
			}
			s := newStage(t, func(r *Run) {
				r.Input.Limits = limit("e2e", time.Minute)
				r.Input.Workloads = map[string]stats.WorkloadLimits{
					"docs": {First: limit("ttft", time.Second), Later: limit("ttft", 200*time.Millisecond), All: limit("tpot", time.Millisecond)},
				}
				r.Input.WorkloadsCount = counts
			})
			time.Sleep(110 * time.Millisecond) // never when it is looked
			for i := range 120 {
				r := s.request(500*time.Millisecond, 2*time.Second, record.OK)
				r.Workload, r.Turn = "docs", uint32(i%2)
				r.Events, r.StreamedTokens, r.Output = r.Events[:1], 1, 1 // there is no tpot of one token
				s.w.Record(r)
				s.w.Record(s.request(900*time.Millisecond, 2*time.Second, record.OK)) // of another workload
				if i%10 == 0 {
					bad := s.request(0, time.Second, record.Failed) // which says nothing of tpot
					bad.Workload = "docs"
					s.w.Record(bad)
				}
				time.Sleep(100 * time.Millisecond)
			}
			h := s.w.ring.Newest().Header
			doc := s.w.Doc()
			var got []string
			for i, l := range h.Limits {
				word := "not measured"
				if l.Met != nil {
					word = map[bool]string{true: "met", false: "missed"}[*l.Met]
				}
				got = append(got, doc.SLO[i].Text+" "+word)
			}
			want := []string{
				"e2e.p95=1m missed", // one in twenty failed
				"ttft.p95=1s of first turns of docs missed", "ttft.p95=200ms of later turns of docs missed", "tpot.p95=1ms of docs not measured",
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("limits (-want +got)\n%s", d)
			}
			if v := h.Limits[2].Value; v == nil || *v < 498 || *v > 502 {
				t.Errorf("later turns of docs have %v, want 500 ms", v)
			}
			if h.Limits[1].Value != nil {
				t.Errorf("first turns of docs have %v although one in six failed", *h.Limits[1].Value)
			}
			// One in ten of docs fails beside those that are late.
			if good := *h.GoodputRPS; counts && (good < 14 || good > 16) || !counts && (good < 19 || good > 21) {
				t.Errorf("%.3g good requests a second, limits of workloads count: %v", good, counts)
			}
			if m := s.marks("threshold"); !slices.ContainsFunc(m, func(m detail.Mark) bool {
				return strings.HasPrefix(m.Text, "ttft p95 of later turns of docs is over 200ms: 500 ms")
			}) {
				t.Errorf("marks: %+v", m)
			}
			s.w.End(nil, nil)
		})
	}
}

// TestFailuresAreMarked: the first one, and a share of the last hundred that is too large.
func TestFailuresAreMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		for i := range 60 {
			for j := range 10 {
				status := record.OK
				if i >= 20 && i < 40 && j == 0 {
					status = record.Failed
				}
				s.w.Record(s.request(time.Millisecond, 2*time.Millisecond, status))
			}
			time.Sleep(time.Second)
		}
		notes, shares := s.marks("note"), s.marks("threshold")
		if len(notes) != 1 || notes[0].T != 20000 || notes[0].Text != "first failure: rate_limited: HTTP 429" || notes[0].Severity != "fail" {
			t.Errorf("notes are %+v", notes)
		}
		if len(shares) != 1 || !strings.HasSuffix(shares[0].Text, " % of the last requests failed") || shares[0].To == nil {
			t.Fatalf("marks are %+v", shares)
		}
		if share := s.w.ring.Newest().Header.FailureShare; share == nil || *share != 0 {
			t.Errorf("the share in the end is %v", share)
		}
		s.w.End(nil, nil)
	})
}

// TestSourcesAreLostAndFound: a page that no longer answers is a mark with an end.
func TestSourcesAreLostAndFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, func(r *Run) {
			r.Every = time.Second
			now := r.Now
			r.Sources = func() []telemetry.SourceInfo {
				at := now() / second
				return []telemetry.SourceInfo{
					{Index: 0, Name: "a:8000", State: telemetry.StateOK, Sources: []string{"vllm"}, Up: at < 10 || at >= 30},
					{Index: 1, Name: "b:8000", State: telemetry.StateOK, Sources: []string{"vllm"}, Up: at != 15}, // once is nothing
					{Index: 2, Name: "c:9400", State: telemetry.StateError},                                       // never was there
				}
			}
		})
		time.Sleep(40 * time.Second)
		got := s.marks("lost")
		if len(got) != 1 || got[0].T != 10000 || got[0].To == nil || *got[0].To != 30000 || got[0].Text != "telemetry lost: a:8000" {
			t.Errorf("marks are %+v", got)
		}
		if missing := s.w.Doc().Missing; !slices.ContainsFunc(missing, func(m detail.Missing) bool { return m.Group == "accelerator" && m.Signal == "" && m.Fix != "" }) {
			t.Errorf("missing is %+v", missing)
		}
		s.w.End(nil, nil)
	})
}

// TestPhasesAreMarked follows two steps with warm-ups through their phases.
func TestPhasesAreMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := []load.Step{
			{Users: 4, Warmup: 2 * time.Second, Duration: 5 * time.Second},
			{Rate: 2.5, Arrival: "poisson", Requests: 7},
		}
		s := newStage(t, func(r *Run) { r.Plan = plan })
		step := func(i int, to int64) load.StepResult {
			now := s.clock.Now()
			x := load.StepResult{Step: plan[i], Index: uint32(i), Start: now, SteadyStart: now + int64(plan[i].Warmup), SteadyEnd: to}
			s.w.Step(x, stats.Input{})
			return x
		}
		phase := func(want string) {
			t.Helper()
			if got := s.w.ring.Newest(); got.Phase != want {
				t.Errorf("at %v the phase is %q, want %q", got.T, got.Phase, want)
			}
		}
		time.Sleep(1500 * time.Millisecond)
		phase("")
		first := step(0, 1500*1e6+7*second)
		time.Sleep(time.Second)
		phase("warmup")
		time.Sleep(3 * time.Second)
		phase("steady")
		time.Sleep(4 * time.Second) // 9.5 s
		phase("drain")
		first.End = s.clock.Now()
		last := step(1, math.MaxInt64)
		time.Sleep(2 * time.Second)
		phase("steady")
		s.w.Progress(Progress{Draining: true, Share: 0.5, Left: -1})
		time.Sleep(2 * time.Second)
		phase("drain")
		if x := s.w.ring.Newest(); x.Share == nil || *x.Share != 0.5 || x.Left != nil || x.Step != 1 || x.Steps != 2 {
			t.Errorf("the newest is %+v", x)
		}
		last.SteadyEnd, last.End = s.clock.Now()-1e9, s.clock.Now()
		s.w.End(nil, []load.StepResult{first, last})
		doc := s.w.Doc()
		var got []string
		for _, p := range doc.Phases {
			to := "?"
			if p.To != nil {
				to = fmt.Sprint(*p.To)
			}
			got = append(got, fmt.Sprint(p.Name, " ", p.From, " ", to))
		}
		want := []string{"warmup 1500 3500", "steady 3500 8500", "drain 8500 9500", "steady 9500 12500", "drain 12500 13500"}
		if !slices.Equal(got, want) {
			t.Errorf("phases are %q, want %q", got, want)
		}
		var texts []string
		for _, m := range doc.Marks {
			texts = append(texts, m.Kind+" "+m.Text)
		}
		wantTexts := []string{
			"step step 1 of 2, warm-up: 4 users", "phase step 1 of 2, steady", "phase step 1 of 2, drain",
			"step step 2 of 2, steady: 2.50 requests/s, poisson", "phase step 2 of 2, drain",
		}
		if !slices.Equal(texts, wantTexts) {
			t.Errorf("marks are %q, want %q", texts, wantTexts)
		}
	})
}

// TestTotalsAreThoseOfTheSummary plays requests of all kinds, which end in any order: what the
// bands and the store of a watch have counted in the end is what the summary of the same
// records says.
func TestTotalsAreThoseOfTheSummary(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			const seconds = 20
			limits := []scenario.Limit{{Metric: "e2e", Stat: "p50", Value: 700 * time.Millisecond}, {Metric: "tpot", Stat: "mean", Value: 300 * time.Millisecond}}
			in := stats.Input{Limits: limits, Steps: []stats.StepInput{{Users: 4, Start: 2 * second, End: 15 * second, Complete: true}}, Duration: seconds * second}
			s := newStage(t, func(r *Run) { r.Input = in })
			var all []*record.Request
			bands := map[string]int64{}
			good := int64(0)
			for range rapid.IntRange(0, 60).Draw(rt, "requests") {
				time.Sleep(time.Duration(rapid.IntRange(0, seconds*1000/60).Draw(rt, "wait")) * time.Millisecond)
				status := rapid.SampledFrom([]record.Status{record.OK, record.OK, record.OK, record.Failed, record.Cancelled, record.Incomplete}).Draw(rt, "status")
				e2e := time.Duration(rapid.IntRange(2, 3000).Draw(rt, "e2e")) * time.Millisecond
				e2e = min(e2e, time.Duration(s.clock.Now()))
				r := s.request(e2e/2, e2e, status)
				r.Workload = rapid.SampledFrom([]string{"chat", "rag"}).Draw(rt, "workload")
				if r.Phase = record.Warmup; r.Scheduled >= 2*second {
					r.Phase = record.Steady
				}
				s.w.Record(r)
				all = append(all, r)
				if status == record.OK {
					bands["e2e"]++
					bands["tpot"]++
					bands["itl"]++
					if e2e <= 700*time.Millisecond && e2e/2 <= 300*time.Millisecond {
						good++
					}
				}
			}
			summary := stats.Summarize(in, slices.Values(all))
			s.w.End(summary, nil)
			f := s.w.Store().Figures(in.Steps[0].Start, in.Steps[0].End)
			if d := cmp.Diff(summary.Requests, f.Requests); d != "" {
				t.Fatalf("requests (-summary +store)\n%s", d)
			}
			if a, b := summary.Tokens.Output, f.Tokens.Output; (a == nil) != (b == nil) || a != nil && *a != *b {
				t.Fatalf("tokens %v, want %v", b, a)
			}
			if a, b := summary.SLO.GoodputRPS, f.GoodputRPS; (a == nil) != (b == nil) || a != nil && *a != *b {
				t.Fatalf("goodput %v, want %v", b, a)
			}
			final := map[Band]int64{}
			for _, x := range read(t, s.w.Reader(0)) {
				for _, b := range x.Bands {
					final[Band{Figure: b.Figure, Workload: b.Workload, T: b.T}] = b.Count
				}
			}
			got := map[string]int64{}
			for k, n := range final {
				if k.Workload == "" {
					got[k.Figure] += n
				}
			}
			if d := cmp.Diff(bands, got); d != "" {
				t.Fatalf("bands (-want +got)\n%s", d)
			}
			if s.w.good != good {
				t.Fatalf("%d good requests, want %d", s.w.good, good)
			}
		})
	})
}

// TestQueuesAreBounded: what nobody has looked at is bounded, and what is left out is counted
// and shown.
func TestQueuesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := nowhere{n: 3} // others have declared series of theirs
		w := New()
		sink := w.Sink(&below)
		c := clock.NewFake()
		s := &stage{t: t, w: w, clock: c}
		w.Begin(Run{Start: c.Start(), Now: c.Now, Live: new(load.Live), Plan: []load.Step{{Users: 1, Duration: time.Hour}}})
		time.Sleep(time.Second + 300*time.Millisecond)
		r := s.request(time.Millisecond, 2*time.Millisecond, record.OK)
		for range mostRequests + 7 {
			w.Record(r)
		}
		long := s.request(time.Millisecond, 2*time.Millisecond, record.OK)
		long.Events = make([]record.Event, mostEvents)
		id := sink.Declare(signal.Series{Signal: signal.RequestsRunning})
		batch := make([]signal.Sample, 1000)
		for i := range batch {
			batch[i] = signal.Sample{Series: id, Start: c.Now(), End: c.Now() + int64(i), Value: 1}
		}
		for range mostSamples/len(batch) + 1 {
			sink.Add(batch)
		}
		want := int64(7 + (mostSamples/len(batch)+1)*len(batch) - mostSamples)
		time.Sleep(time.Second)
		if got := w.ring.Newest().Dropped; got != want {
			t.Errorf("%d are dropped, want %d", got, want)
		}
		if n := w.Store().Len(); n != mostRequests {
			t.Errorf("the store has %d requests, want %d", n, mostRequests)
		}
		// Room is there again, but for requests with more events than any room.
		w.Record(r)
		w.Record(long)
		w.Record(r)
		time.Sleep(time.Second)
		if got := w.ring.Newest().Dropped; got != want+1 {
			t.Errorf("%d are dropped, want %d", got, want+1)
		}
		w.End(nil, nil)
		if n := w.Store().Len(); n != mostRequests+2 {
			t.Errorf("the store has %d requests, want %d", n, mostRequests+2)
		}
	})
}

// TestWorkloadsBeginWhereTheRunDoes: those that are planned have their requests in flight and
// their arrivals from the first second on, which is none until they start.
func TestWorkloadsBeginWhereTheRunDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, func(r *Run) { r.Workloads = []string{"early", "late"} })
		r := s.w.Reader(0)
		time.Sleep(3500 * time.Millisecond)
		s.w.End(nil, nil)
		at := map[string][]float64{}
		names := map[int]string{}
		for _, snapshot := range read(t, r) {
			for _, x := range snapshot.Added {
				if x.Workload != "" {
					names[int(x.ID)] = x.Signal + " of " + x.Workload
				}
			}
			for _, c := range snapshot.Cells {
				if name := names[int(c.Series)]; name != "" && c.T < 3000 {
					at[name] = append(at[name], c.Value)
				}
			}
		}
		for _, name := range []string{
			"client.requests_in_flight of early", "client.requests_in_flight of late", "client.requests_sent of early", "client.requests_sent of late",
		} {
			if !slices.Equal(at[name], []float64{0, 0, 0}) {
				t.Errorf("%s are %v, want none in each of three seconds", name, at[name])
			}
		}
	})
}
