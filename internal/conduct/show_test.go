package conduct

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/detail"
	"plimsoll/internal/live"
	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/signal"
	"plimsoll/internal/stats"
)

// snapshots returns all snapshots of a run that has begun, when it has ended.
func snapshots(t *testing.T, w *live.Watch) []*live.Snapshot {
	t.Helper()
	var out []*live.Snapshot
	for r := w.Reader(0); ; {
		s, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
}

// irregularity returns how far in seconds the readings of the servers were off their
// pace of a second at most, what a reading took included.
func irregularity(t *testing.T, saved *run.Run) float64 {
	t.Helper()
	samples, last, most := saved.Samples(), int64(-1), int64(0)
	for batch := range samples.All() {
		series := samples.Series()
		for _, x := range batch {
			if series[x.Series].Signal != signal.GenerationTokens || x.Start == last {
				continue
			}
			if last >= 0 {
				most = max(most, x.Start-last-1e9, last+1e9-x.Start)
			}
			most, last = max(most, x.End-x.Start), x.Start
		}
	}
	if last < 0 {
		t.Fatal("the servers were not read")
	}
	return float64(most) / 1e9
}

// shownTokens are the tokens of one answer of TestWatchedRun.
const shownTokens = 300

// stopWhenShown stops a run of answers of shownTokens when its snapshots have shown all
// there is to show: answers that ended, tokens of answers under way in the window, that
// its limit is missed, and what the servers said of three seconds of it that are over by
// two more.
func stopWhenShown(w *live.Watch) error {
	defer w.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	r := w.Reader(0)
	names := map[int]string{}
	said := map[int64]bool{} // seconds of the window
	underWay, missed := false, false
	for steady := int64(-1); ; {
		s, err := r.Next(ctx)
		if err != nil {
			return fmt.Errorf("tokens under way were shown: %v, that the limit is missed: %v, seconds of the servers: %v: %w", underWay, missed, said, err)
		}
		if s.Phase != "steady" {
			continue
		}
		if steady < 0 {
			steady = s.T.NS()
		}
		for _, a := range s.Added {
			names[a.ID] = a.Signal
		}
		over := 0
		for _, c := range s.Cells {
			if names[c.Series] == "generation_tokens" && c.T.NS() >= steady {
				said[c.T.NS()] = true
			}
		}
		for at := range said {
			if at+4e9 < s.T.NS() {
				over++
			}
		}
		underWay = underWay || s.Header.InFlight > 0 && s.Header.OutputTokens > shownTokens*s.Header.OK
		missed = missed || slices.ContainsFunc(s.Marks, func(m detail.Mark) bool { return m.Kind == "threshold" })
		if underWay && missed && over >= 3 && s.Header.OK > 0 {
			return nil
		}
	}
}

// TestWatchedRun: what is shown while a run goes on moves while its requests run, adds up to what is
// kept of it in the end, and is the timeline where it is complete.
func TestWatchedRun(t *testing.T) {
	url := serveTwin(t)
	cfg := config(t, plan(t, "target.url="+url, "load.users=6", "load.duration=100h", "load.warmup=500ms", fmt.Sprintf("users.output-tokens=%d", shownTokens), "target.ignore-eos=true",
		"data.telemetry="+url+"/metrics", "guards.slo=ttft.p95=1ns", "name=shown"))
	cfg.Watch, cfg.Limits = live.New(), patient
	if cfg.Watch.ID() != "" || cfg.Watch.Store() != nil {
		t.Fatal("there is a run before it has begun")
	}
	w := cfg.Watch
	watched := make(chan error, 1)
	go func() { watched <- stopWhenShown(w) }()
	res, err := Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-watched; err != nil {
		t.Fatal(err)
	}
	<-w.Ended()
	list := snapshots(t, w)
	last := list[len(list)-1]
	if last.Verdict == nil || *last.Verdict != string(res.Summary.Run.Verdict) || last.Dropped != 0 {
		t.Errorf("the last snapshot is %s", last.JSON())
	}
	saved, err := run.Open(res.Folder)
	if err != nil {
		t.Fatal(err)
	}

	// All requests, of whatever phase.
	var want live.Header
	longest, bands := int64(0), map[string]int64{}
	for r := range saved.Requests() {
		want.Scheduled++
		if r.Start != record.Unset {
			want.Sent++
		}
		switch r.Status {
		case record.OK:
			want.OK++
		case record.Failed:
			want.Failures++
		case record.Cancelled:
			want.Cancelled++
		case record.Incomplete:
			want.Incomplete++
		}
		want.OutputTokens += int64(max(r.Output, 0))
		longest = max(longest, r.End-r.Start)
		bands["ttft"]++
		bands["e2e"]++
		bands["tpot"]++
		stats.ITL(r, func(_ int64, tokens int32) { bands["itl"] += int64(tokens) })
	}
	got := last.Header
	if d := cmp.Diff(want, live.Header{
		Scheduled: got.Scheduled, Sent: got.Sent, OK: got.OK, Failures: got.Failures, Cancelled: got.Cancelled, Incomplete: got.Incomplete,
		OutputTokens: got.OutputTokens,
	}); d != "" || want.OK == 0 {
		t.Errorf("in the end the header says (-want +got)\n%s", d)
	}
	if got.InFlight != 0 || got.Users != 0 || got.Sessions != 0 {
		t.Errorf("after the end there are %+v", got)
	}
	// Answers take longer than a second, and tokens are counted as they come.
	if longest < int64(time.Second) {
		t.Fatalf("the longest answer took %v", time.Duration(longest))
	}
	tokens := int64(0)
	for _, s := range list {
		if s.Header.OutputTokens > tokens && s.Header.OutputPerS <= 0 {
			t.Errorf("%d tokens were %d before, and none come: %s", s.Header.OutputTokens, tokens, s.JSON())
		}
		tokens = s.Header.OutputTokens
	}
	// Bands come again when they change; the last ones count everything once.
	final := map[[3]any]int64{}
	for _, s := range list {
		for _, b := range s.Bands {
			final[[3]any{b.Figure, b.Workload, b.T}] = b.Count
		}
	}
	counts := map[string]int64{}
	for k, n := range final {
		counts[k[0].(string)] += n
	}
	if d := cmp.Diff(bands, counts); d != "" {
		t.Errorf("bands count (-want +got)\n%s", d)
	}

	// What the panel computes of the steady window is the summary.
	in := saved.Info().Input
	w.Store().SetInput(*in)
	f := w.Store().Figures(in.Steps[0].Start, in.Steps[0].End)
	if d := cmp.Diff(res.Summary.Requests, f.Requests); d != "" {
		t.Errorf("the store's requests of the window (-summary +store)\n%s", d)
	}
	if f.Tokens.Output == nil || *f.Tokens.Output != *res.Summary.Tokens.Output {
		t.Errorf("the store's tokens are %+v, the summary's %+v", f.Tokens, res.Summary.Tokens)
	}

	// Cells of the servers are the timeline's.
	type key struct{ signal, stat, source, labels string }
	timeline := map[key]map[int64]float64{}
	for rows, err := range Timeline(saved) {
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			k := key{r.Signal, r.Stat, r.Source, r.Labels}
			if timeline[k] == nil {
				timeline[k] = map[int64]float64{}
			}
			timeline[k][r.T] = r.Value
		}
	}
	names := map[int]key{}
	compared := 0
	irregular := irregularity(t, saved)
	for _, s := range list {
		for _, a := range s.Added {
			names[a.ID] = key{a.Signal, a.Stat, a.Source, a.Labels}
		}
		for _, c := range s.Cells {
			k, ok := names[c.Series]
			if !ok {
				t.Fatalf("a cell of series %d, which nobody told of", c.Series)
			}
			if k.signal != "generation_tokens" && k.signal != "requests_running" || c.T.NS() < in.Steps[0].Start || c.T.NS()+2e9 > in.Steps[0].End {
				continue
			}
			v, ok := timeline[k][c.T.NS()]
			most := 0.0
			for _, v := range timeline[k] {
				most = max(most, v)
			}
			// What is shown is provisional: between readings that came late it is drawn with what
			// was known of their pace by then.
			if !ok || math.Abs(v-c.Value) > most*min(2, max(1e-9, 2*irregular)) {
				t.Errorf("%+v at %v was shown as %v, the timeline says %v (%v); readings were up to %.3f s off", k, c.T, c.Value, v, ok, irregular)
			}
			compared++
		}
	}
	if compared < 2 {
		t.Errorf("only %d cells of the servers are compared", compared)
	}

	// What was noticed is kept beside the records.
	marks, err := saved.Marks()
	if err != nil || !slices.ContainsFunc(marks, func(m run.Mark) bool {
		return m.Kind == "threshold" && m.Severity == "fail" && strings.HasPrefix(m.Text, "ttft p95 is over 1ns: ") && m.FromNS >= in.Steps[0].Start && m.ToNS == nil
	}) {
		t.Errorf("marks are %+v (%v)", marks, err)
	}

	doc := w.Doc()
	if doc.Live || doc.Run.Name != "shown" || doc.Run.Model == "" || doc.Run.Load != "6 users" || len(doc.Phases) != 3 || doc.Summary == nil || doc.PlannedMs == nil || *doc.PlannedMs != 100*3600*1000+500 {
		t.Errorf("the document is %+v", doc)
	}
}

// TestWatchStopsTheRun: who watches may end it softly.
func TestWatchStopsTheRun(t *testing.T) {
	cfg := config(t, plan(t, "target.url="+serveTwin(t), "load.users=2", "load.duration=1h", "users.output-tokens=4"))
	w := live.New()
	cfg.Watch = w
	go func() {
		<-w.Begun()
		for r := w.Reader(0); ; {
			if x, err := r.Next(context.Background()); err != nil || x.Header.OK > 0 {
				break
			}
		}
		w.Stop()
		w.Stop()
	}()
	res, err := Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if res.Summary.Requests.OK == 0 || res.Summary.Requests.Error != 0 || res.Message != "interrupted" {
		t.Errorf("stopped, it is %q with %+v", res.Message, res.Summary.Requests)
	}
	stopping := false
	for _, s := range snapshots(t, w) {
		stopping = stopping || s.Stopping
	}
	if !stopping {
		t.Error("no snapshot says that the run is stopping")
	}
}

// TestWatchOfNoRun: a run that does not begin leaves its watch as it was.
func TestWatchOfNoRun(t *testing.T) {
	cfg := config(t, plan(t, "target.url=http://127.0.0.1:1", "load.users=2", "target.model=m"))
	cfg.Watch = live.New()
	if _, err := Run(context.Background(), cfg); err == nil {
		t.Fatal("it ran")
	}
	select {
	case <-cfg.Watch.Begun():
		t.Error("it has begun")
	case <-cfg.Watch.Ended():
		t.Error("it has ended")
	default:
	}
}

// TestDamagedTimeline: a timeline that is none any more is made again.
func TestDamagedTimeline(t *testing.T) {
	in := stats.Input{Steps: []stats.StepInput{{Users: 1, End: 1e9, Complete: true}}}
	w, err := run.Create(t.TempDir(), run.Info{Name: "damaged", Start: time.Now(), Input: &in}, []byte("name: damaged\n"), run.Blocking())
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(w.Dir(), "timeline.parquet"), []byte("no timeline"), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	saved, err := run.Open(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range Timeline(saved) {
		if err != nil {
			t.Fatal(err)
		}
	}
}
