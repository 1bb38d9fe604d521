package run

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/signal"
)

// someSeries are n series of several sources: counters, gauges, buckets and
// values under the server's own name.
func someSeries(n int) []signal.Series {
	out := make([]signal.Series, n)
	for i := range out {
		s := signal.Series{Source: i % 7, Labels: "engine=" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))}
		switch i % 4 {
		case 0:
			s.Signal = signal.RequestsRunning
		case 1:
			s.Signal, s.Field, s.Bound = signal.TTFT, signal.TotalBucket, float64(i)
		case 2:
			s.Signal, s.Field, s.Bound = signal.TTFT, signal.TotalBucket, math.Inf(1)
		case 3:
			s.Raw, s.Labels = "vllm:something", ""
			s.Source = i
		}
		out[i] = s
	}
	return out
}

// scrape is one reading of all series.
func scrape(at int64, n int) []signal.Sample {
	out := make([]signal.Sample, n)
	for i := range out {
		out[i] = signal.Sample{Series: int32(i), Start: at, End: at + 3e6, Value: float64(at/1e9) + float64(i)/2}
	}
	return out
}

// flush makes the sink write what it has as a part, and waits for it.
func flush(t testing.TB, s *Sink) {
	t.Helper()
	s.kick <- struct{}{}
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Millisecond) { // real time: the disk is real
		s.mu.Lock()
		empty := s.blocks == 0
		s.mu.Unlock()
		if empty || s.w.Err() != nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the writer does not write")
		}
	}
}

func readSamples(t testing.TB, dir string) (out []signal.Sample, series []signal.Series, notes []Note) {
	t.Helper()
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := r.Samples()
	for b := range s.All() {
		out = append(out, b...)
	}
	return out, s.Series(), s.Notes()
}

func TestSamplesComeBack(t *testing.T) {
	w, err := Create(t.TempDir(), info("telemetry"), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.mergeParts = 3
	s := w.Sink()
	if w.Sink() != s {
		t.Error("a run has two sinks")
	}
	series := someSeries(300)
	for i, d := range series {
		if got := s.Declare(d); got != int32(i) {
			t.Fatalf("series %d has index %d", i, got)
		}
	}
	if got := s.Declare(series[17]); got != 17 {
		t.Errorf("a series declared again has index %d", got)
	}
	var want []signal.Sample
	for i := range int64(40) {
		b := scrape(i*1e9-5e9, len(series)) // some are before the start of the run
		want = append(want, b...)
		s.Add(b)
		clear(b[:1]) // the slice is the caller's again
		want[len(want)-len(b)] = scrape(i*1e9-5e9, 1)[0]
		if i%5 == 4 {
			flush(t, s)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, gotSeries, notes := readSamples(t, w.Dir())
	if diff := cmp.Diff(want, got); diff != "" || notes != nil {
		t.Errorf("samples (-want +got), notes %v:\n%s", notes, diff)
	}
	if diff := cmp.Diff(series, gotSeries); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	entries, err := os.ReadDir(filepath.Join(w.Dir(), telemetryDir))
	if err != nil {
		t.Fatal(err)
	}
	merged := false
	for _, e := range entries {
		p, ok := parsePart(e.Name())
		merged = merged || ok && p.first != p.last
	}
	if !merged {
		t.Errorf("nothing was merged: %v", entries)
	}
	r, err := Open(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if i := r.Info(); i.Samples != int64(len(want)) || i.DroppedSamples != 0 {
		t.Errorf("run.json says %d samples, %d dropped", i.Samples, i.DroppedSamples)
	}
	n := 0
	for range r.Samples().All() {
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d batches after the first", n)
	}
}

func TestRunWithoutTelemetry(t *testing.T) {
	dir := write(t, t.TempDir(), 10)
	got, series, notes := readSamples(t, dir)
	if got != nil || series != nil || notes != nil {
		t.Errorf("%d samples of %d series, notes %v", len(got), len(series), notes)
	}
	if _, err := os.Stat(filepath.Join(dir, telemetryDir)); err == nil {
		t.Error("there is a folder for telemetry")
	}
}

// TestDamagedSamples cuts a part short: the others are read, and the loss is told.
func TestDamagedSamples(t *testing.T) {
	w, err := Create(t.TempDir(), info("telemetry"), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := w.Sink()
	for _, d := range someSeries(10) {
		s.Declare(d)
	}
	for i := range int64(3) {
		s.Add(scrape(i*1e9, 10))
		flush(t, s)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(w.Dir(), telemetryDir, "part-000002.parquet")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 9, len(whole) / 2, len(whole) - 1} {
		if err := os.WriteFile(name, whole[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		got, series, notes := readSamples(t, w.Dir())
		if len(got) != 20 || len(series) != 10 || len(notes) != 1 || notes[0].Part != "part-000002.parquet" {
			t.Errorf("cut to %d bytes: %d samples, %d series, notes %v", n, len(got), len(series), notes)
		}
	}
}

// TestFullSink adds more than the queue holds while nothing is written.
func TestFullSink(t *testing.T) {
	hold := make(chan struct{})
	w, err := Create(t.TempDir(), info("telemetry"), nil)
	if err != nil {
		t.Fatal(err)
	}
	create := w.create
	w.create = func(name string) (file, error) {
		<-hold
		return create(name)
	}
	s := w.Sink()
	for _, d := range someSeries(100) {
		s.Declare(d)
	}
	const all = (sampleBlocks + 10) * sampleBlock / 100
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range all / 4 {
				s.Add(scrape(int64(g*all+i)*1e6, 100))
			}
		})
	}
	wg.Wait()
	if s.Dropped() == 0 {
		t.Error("nothing was dropped")
	}
	s.mu.Lock()
	blocks := s.blocks
	s.mu.Unlock()
	if blocks > sampleBlocks {
		t.Errorf("%d blocks wait", blocks)
	}
	close(hold)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, _, _ := readSamples(t, w.Dir())
	if n := int64(len(got)) + s.Dropped(); n != all/4*4*100 {
		t.Errorf("%d written and %d dropped of %d", len(got), s.Dropped(), all/4*4*100)
	}
	r, err := Open(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if i := r.Info(); i.Samples != int64(len(got)) || i.DroppedSamples != s.Dropped() {
		t.Errorf("run.json says %d and %d dropped", i.Samples, i.DroppedSamples)
	}
}

// TestSinkOfAFailingDisk counts what cannot be written.
func TestSinkOfAFailingDisk(t *testing.T) {
	w, err := Create(t.TempDir(), info("telemetry"), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.create = func(string) (file, error) { return nil, os.ErrPermission }
	s := w.Sink()
	for _, d := range someSeries(10) {
		s.Declare(d)
	}
	s.Add(scrape(0, 10))
	flush(t, s)
	<-w.Failed()
	s.Add(scrape(1e9, 10))
	if err := w.Close(); err == nil {
		t.Error("no error")
	}
	if s.Dropped() != 20 {
		t.Errorf("%d dropped, want 20", s.Dropped())
	}
}

// TestCostOfSamples holds the writing of a sample to a small multiple of what
// copying it takes, and to no allocation of its own.
func TestCostOfSamples(t *testing.T) {
	if raceEnabled || testing.CoverMode() != "" {
		t.Skip("costs are not what they are")
	}
	const n, scrapes = 2000, 100
	w, err := Create(t.TempDir(), info("telemetry"), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := w.Sink()
	for _, d := range someSeries(n) {
		s.Declare(d)
	}
	b := scrape(0, n)
	s.Add(b)
	flush(t, s)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := cpu()
	for i := range int64(scrapes) {
		for j := range b {
			b[j].Start, b[j].End = i*1e9, i*1e9+2e6
			if j%2 == 0 {
				b[j].Value++
			}
		}
		s.Add(b)
		if i%20 == 19 {
			flush(t, s)
		}
	}
	used := cpu() - start
	runtime.ReadMemStats(&after)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var size int64
	entries, err := os.ReadDir(filepath.Join(w.Dir(), telemetryDir))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += fi.Size()
	}
	per := float64(after.Mallocs-before.Mallocs) / (n * scrapes)
	t.Logf("a sample takes %.0f ns, %.3f allocations, %.1f bytes on disk", float64(used)/(n*scrapes), per, float64(size)/(n*(scrapes+1)))
	if per > 0.1 {
		t.Errorf("a sample takes %.2f allocations, want at most 0.1", per)
	}
	if perByte := float64(size) / (n * (scrapes + 1)); perByte > 12 {
		t.Errorf("a sample takes %.1f bytes, want at most 12", perByte)
	}
	idle := &Sink{w: &Writer{}, kick: make(chan struct{}, 1), queue: make([][]signal.Sample, 0, sampleBlocks)}
	for range sampleBlocks {
		idle.free = append(idle.free, make([]signal.Sample, 0, sampleBlock))
	}
	if a := testing.AllocsPerRun(10, func() { idle.Add(b) }); a > 0 {
		t.Errorf("queueing takes %v allocations", a)
	}

	r, err := Open(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	read, rows := r.Samples(), 0
	start = cpu()
	for batch := range read.All() {
		rows += len(batch)
	}
	t.Logf("reading takes %.0f ns per sample", float64(cpu()-start)/float64(rows))
	if rows != n*(scrapes+1) || slices.Contains(read.known, false) {
		t.Errorf("read %d rows", rows)
	}
}
