package align

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/run"
	"plimsoll/internal/signal"
	"plimsoll/internal/telemetry"
)

// TestRun makes the timeline of a run on disk: the same rows as from memory.
func TestRun(t *testing.T) {
	in := steady(2*sec, 18*sec)
	start := time.Unix(1_700_000_000, 0).UTC()
	w, err := run.Create(t.TempDir(), run.Info{Name: "x", Start: start, Input: &in, Telemetry: []telemetry.SourceInfo{
		{Index: 0, Name: "localhost", Kind: telemetry.KindHost}, {Index: 1, Name: "a:8000", Kind: telemetry.KindPage},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := new(memory)
	for i := int64(-1); i < 20; i++ {
		m.say(i*sec, of(running, 1, "engine=0"), float64(i%4))
		m.say(i*sec, of(generation, 1, "engine=0"), float64(100*i))
		observe(m, i*sec, 1, "engine=0", signal.TTFT, []float64{0.1, math.Inf(1)}, make([]float64, i+1))
	}
	sink := w.Sink()
	for _, d := range m.series {
		sink.Declare(d)
	}
	sink.Add(m.samples)
	list := requests(request(0, sec, 2*sec, 5*sec, 30), request(1, 3*sec, 4*sec, 9*sec, 60))
	for r := range list {
		w.Add(r)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := run.Open(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	got, err := Run(r)
	if err != nil {
		t.Fatal(err)
	}
	var rows []run.TimelineRow
	for batch, err := range r.Timeline() {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, batch...)
	}
	want, wantRows := build(t, Input{Start: start, Run: in, Samples: m, Requests: list, Sources: []Source{{Name: "localhost", Client: true}, {Name: "a:8000"}}})
	if !slices.Equal(rows, wantRows) {
		t.Errorf("rows (-want +got):\n%s", cmp.Diff(wantRows, rows))
	}
	if diff := cmp.Diff(want, got); diff != "" || got.Alignment.Rows != int64(len(rows)) || len(got.Server) == 0 {
		t.Errorf("result with %d rows (-want +got):\n%s", got.Alignment.Rows, diff)
	}

	// A part that is damaged is told, and the rest used.
	parts, err := filepath.Glob(filepath.Join(w.Dir(), "telemetry", "part-*.parquet"))
	if err != nil || len(parts) != 1 {
		t.Fatalf("parts %v, %v", parts, err)
	}
	if err := os.Truncate(parts[0], 1000); err != nil {
		t.Fatal(err)
	}
	got, err = Run(r)
	if err != nil || len(got.Alignment.Notes) != 1 {
		t.Errorf("with a damaged part: %v, %v", got, err)
	}
}

// TestRunWithoutWindows has a run.json that says nothing of them.
func TestRunWithoutWindows(t *testing.T) {
	w, err := run.Create(t.TempDir(), run.Info{Name: "x"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := run.Open(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(r); err == nil {
		t.Error("no error")
	}
	if left, _ := filepath.Glob(filepath.Join(w.Dir(), "timeline*")); left != nil {
		t.Errorf("left behind: %v", left)
	}
}
