package detail

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/stats"
)

// manyRequests calls add with n requests of some events each, in a window of an hour.
func manyRequests(n, events int, add func(*record.Request)) stats.Input {
	r := rand.New(rand.NewPCG(1, 2))
	span := int64(3600e9)
	in := stats.Input{ID: "many", Steps: []stats.StepInput{{Users: 5, Start: 10e9, End: span - 5e9, Complete: true}}, Duration: span + 20e9}
	names := []string{"chat", "legal/contract-review", "rag"}
	q := new(record.Request)
	for i := range n {
		q.Reset()
		t := int64(float64(i) / float64(n) * float64(span))
		q.ID, q.Session, q.User, q.Turn, q.Workload = uint64(i), uint64(i/5), uint32(i%500), uint32(i%5), names[i%3]
		q.Phase = record.Steady
		if t < in.Steps[0].Start || t >= in.Steps[0].End {
			q.Phase = record.Warmup
		}
		q.Scheduled, q.Start = t, t+int64(r.ExpFloat64()*1e5)
		q.Connected, q.Sent = q.Start, q.Start+50000
		q.Streamed, q.AskedStream, q.HTTPStatus, q.Finish, q.Reused = true, true, 200, "stop", true
		q.Prompt = int32(r.IntN(4000))
		at := q.Start + int64(2e7+r.ExpFloat64()*1e8)
		q.Headers = at
		for range events {
			at += int64(8e6 + r.ExpFloat64()*1e6)
			q.Events = append(q.Events, record.Event{At: at, Tokens: 1, Cumulative: record.Unknown, Channel: record.Content})
		}
		q.FirstEvent, q.FirstToken, q.FirstContent, q.LastToken, q.End = q.Events[0].At, q.Events[0].At, q.Events[0].At, at, at+1000
		q.Output, q.StreamedTokens, q.FirstEventTokens, q.Source, q.Basis = int32(events), int32(events), 1, record.SourceServer, record.BasisFirstEvent
		if r.IntN(200) == 0 {
			q.Status, q.Error = record.Failed, record.RateLimited
		}
		add(q)
	}
	return in
}

// manyOnDisk is a store of n requests as it is read from its files.
func manyOnDisk(t testing.TB, n int) *Store {
	t.Helper()
	in := manyRequests(0, 0, nil)
	s := New(Meta{Input: in})
	manyRequests(n, 10, s.AddRequest)
	s.finish()
	dir := t.TempDir()
	if err := s.write(dir, stamp{}); err != nil {
		t.Fatal(err)
	}
	back := New(Meta{})
	if err := back.readRequests(dir, stamp{}); err != nil {
		t.Fatal(err)
	}
	if err := back.readSeries(dir, stamp{}); err != nil {
		t.Fatal(err)
	}
	return back
}

// A request of a run on disk costs about 100 bytes, orders included.
func TestMemoryOfRequests(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("memory is not what it is")
	}
	const n = 200_000
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	s := manyOnDisk(t, n)
	per := float64(heap()-before) / n
	t.Logf("%.1f bytes a request", per)
	if per > 120 { // of which some 20 are the cells of an hour
		t.Errorf("%.1f bytes a request, want at most 120", per)
	}
	if said := float64(s.Size()) / n; said < per*0.8 || said > per*1.2 {
		t.Errorf("it says that it holds %.1f bytes a request, and holds %.1f", said, per)
	}
	runtime.KeepAlive(s)
}

// Adding a request allocates what stays of it: its columns, and the binary form of its
// gaps.
func TestAddAllocatesLittle(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	s := New(Meta{})
	var list []*record.Request
	manyRequests(2000, 40, func(q *record.Request) {
		c := *q
		c.Events = slices.Clone(q.Events)
		list = append(list, &c)
	})
	for _, q := range list[:1000] {
		s.AddRequest(q)
	}
	i := 1000
	if n := testing.AllocsPerRun(900, func() { s.AddRequest(list[i]); i++ }); n > 8 {
		t.Errorf("%v allocations a request, want at most 8", n)
	}
}

// cpu is the processor time of this process so far.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Opening the files costs a small part of making them, and no question about requests as
// much as opening them.
func TestQuestionsCostLittle(t *testing.T) {
	if testing.Short() || raceEnabled || testing.CoverMode() != "" {
		t.Skip("costs are not what they are")
	}
	const n = 300_000
	in := manyRequests(0, 0, nil)
	s := New(Meta{Input: in})
	start := cpu()
	manyRequests(n, 40, s.AddRequest)
	s.finish()
	dir := t.TempDir()
	if err := s.write(dir, stamp{}); err != nil {
		t.Fatal(err)
	}
	made := cpu() - start
	least := func(of func()) time.Duration {
		best := time.Duration(1 << 62)
		for range 5 {
			start := cpu()
			of()
			best = min(best, cpu()-start)
		}
		return best
	}
	var back *Store
	opened := least(func() {
		back = New(Meta{})
		if err := back.readRequests(dir, stamp{}); err != nil {
			t.Fatal(err)
		}
	})
	if opened > made/8 {
		t.Errorf("opening takes %v, making %v: want an eighth", opened, made)
	}
	ask := func(name string, times float64, of func()) {
		took := least(of)
		t.Logf("%s: %v, %.2f times opening", name, took, float64(took)/float64(opened))
		if float64(took) > times*float64(opened) {
			t.Errorf("%s takes %v, opening %v: want at most %.1f times that", name, took, opened, times)
		}
	}
	t.Logf("made in %v, opened in %v", made, opened)
	ask("figures", 0.1, func() { back.Figures(0, 0) })
	ask("figures of a part", 3, func() { back.Figures(100e9, 3000e9) })
	ask("bands", 0.8, func() { back.Bands([]string{"ttft", "tpot", "itl", "e2e"}, "", 0, 0, 600) })
	ask("bands of a workload", 0.8, func() { back.Bands([]string{"ttft", "tpot", "itl", "e2e"}, "rag", 0, 0, 600) })
	ask("heat", 0.8, func() { back.Heat("ttft", "", 0, 0, 600) })
	ask("requests", 0.8, func() { _, _ = back.Requests(Query{Sort: "-ttft", Limit: 200}) })
	const filter = "-status:error prompt>1k turn<4 -workload:rag"
	ask("scatter", 0.8, func() { _, _ = back.Scatter(Query{}, "ttft", 1000, 240) })
	ask("scatter of some", 0.8, func() { _, _ = back.Scatter(Query{Filter: filter}, "ttft", 1000, 240) })
	ask("common", 0.8, func() { _, _ = back.Common(Query{}, Box{Y: "ttft", YMin: 300, YMax: 1e9}) })
	ask("common of some", 0.8, func() { _, _ = back.Common(Query{Filter: filter}, Box{Y: "ttft", YMin: 300, YMax: 1e9}) })
}

// One goroutine adds while others ask everything.
func TestOneWriterManyReaders(t *testing.T) {
	in := manyRequests(0, 0, nil)
	s := New(Meta{Input: in})
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				s.Figures(0, 0)
				s.Bands(BandFigures(), "chat", 0, 0, 60)
				s.Heat(itl, "", 0, 0, 60)
				s.Data([]int{0, 1}, 0, 0, 60)
				s.Envelope("sm_active", "value", 0, 0, 60)
				_, _ = s.Requests(Query{Filter: "ttft>100ms", Sort: "-e2e"})
				_, _ = s.Scatter(Query{}, "ttft", 100, 100)
				_, _ = s.Common(Query{}, Box{Y: "ttft", YMin: 100, YMax: 1e9})
				_, _ = s.Request(17)
				s.SeriesFrom(1)
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	i := 0
	manyRequests(3000, 5, func(q *record.Request) {
		s.AddRequest(q)
		s.AddCell(q.Scheduled/second*second, Key{Signal: "sm_active", Stat: "value", Source: "node", Labels: fmt.Sprint("gpu=", i%7)}, 0.5)
		if i++; i%500 == 0 {
			s.SetInput(in)
		}
	})
	close(done)
	readers.Wait()
	if s.Len() != 3000 {
		t.Errorf("%d requests", s.Len())
	}
}

func BenchmarkAddRequest(b *testing.B) {
	s := New(Meta{})
	var list []*record.Request
	manyRequests(1000, 40, func(q *record.Request) {
		c := *q
		c.Events = slices.Clone(q.Events)
		list = append(list, &c)
	})
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		s.AddRequest(list[i%len(list)])
		i++
	}
}

// The questions of the panel to a run of a million requests: of all of it, of a part
// and with filters.
func BenchmarkQuestions(b *testing.B) {
	s := manyOnDisk(b, 1_000_000)
	const from, to = 100e9, 3000e9
	bands := []string{"ttft", "tpot", "itl", "e2e"}
	box := Box{Y: "ttft", YMin: 300, YMax: 1e9}
	filters := map[string]string{"": "", " by workload": "workload:chat", " by figure": "ttft<200ms", " by many": "-status:error prompt>1k turn<4 -workload:rag"}
	ask := map[string]func(){
		"figures of a part":   func() { s.Figures(from, to) },
		"bands":               func() { s.Bands(bands, "", 0, 0, 600) },
		"bands of a part":     func() { s.Bands(bands, "", from, to, 600) },
		"bands of a minute":   func() { s.Bands(bands, "", 1000e9, 1060e9, 600) },
		"bands of a workload": func() { s.Bands(bands, "chat", 0, 0, 600) },
		"heat":                func() { s.Heat("ttft", "", 0, 0, 600) },
		"heat of a part":      func() { s.Heat("ttft", "", from, to, 600) },
		"rows":                func() { _, _ = s.Requests(Query{Sort: "-ttft", Limit: 200}) },
		"scatter by status":   func() { _, _ = s.Scatter(Query{Color: "status"}, "e2e", 1000, 240) },
		"common of a long range": func() {
			_, _ = s.Common(Query{}, Box{Y: "ttft", XMin: from, XMax: to, YMin: math.NaN(), YMax: math.NaN()})
		},
	}
	for name, f := range filters {
		ask["scatter"+name] = func() { _, _ = s.Scatter(Query{Filter: f}, "ttft", 1000, 240) }
		ask["scatter of a part"+name] = func() { _, _ = s.Scatter(Query{Filter: f, From: from, To: to}, "ttft", 1000, 240) }
		ask["common"+name] = func() { _, _ = s.Common(Query{Filter: f}, box) }
		ask["common of a part"+name] = func() { _, _ = s.Common(Query{Filter: f, From: from, To: to}, box) }
	}
	for _, name := range slices.Sorted(maps.Keys(ask)) {
		of := ask[name]
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			start := cpu()
			for b.Loop() {
				of()
			}
			b.ReportMetric(float64(cpu()-start)/1e6/float64(b.N), "cpu-ms/op")
		})
	}
}

// Thousands of devices over an hour, of files as of a run on disk.
func BenchmarkEnvelope(b *testing.B) {
	s := New(Meta{})
	const members, cells = 4096, 3600
	r := rand.New(rand.NewPCG(1, 2))
	for m := range members {
		k := Key{Signal: "sm_active", Stat: "value", Source: fmt.Sprint("node", m/8), Labels: fmt.Sprint("gpu=", m%8)}
		for i := range cells {
			s.AddCell(int64(i)*second, k, r.Float64())
		}
	}
	s.finish()
	dir := b.TempDir()
	if err := s.writeSeries(dir, stamp{}); err != nil {
		b.Fatal(err)
	}
	back := New(Meta{})
	if err := back.readSeries(dir, stamp{}); err != nil {
		b.Fatal(err)
	}
	back.lasting = true
	b.ReportAllocs()
	for b.Loop() {
		back.Envelope("sm_active", "value", 0, 0, 600)
	}
	_ = back.Close() // read only
}

// diskRun is a run of n requests on disk.
func diskRun(t testing.TB, n, events int) *run.Run {
	t.Helper()
	in := manyRequests(0, 0, nil)
	start := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	w, err := run.Create(t.TempDir(), run.Info{Name: "many", Start: start, Input: &in}, []byte("name: many\n"), run.Blocking())
	if err != nil {
		t.Fatal(err)
	}
	manyRequests(n, events, w.Add)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Update(func(i *run.Info) { i.State, i.End, i.Input, i.Records = run.Done, &start, &in, int64(n) }); err != nil {
		t.Fatal(err)
	}
	saved, err := run.Open(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	return saved
}

// Making the files allocates for pages and cells, not for each request, and takes not many
// times what reading the records does.
func TestMakingCostsLittle(t *testing.T) {
	if testing.Short() || raceEnabled || testing.CoverMode() != "" {
		t.Skip("costs are not what they are")
	}
	const n = 100_000
	r := diskRun(t, n, 20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := Make(r, nil); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	allocs, size := float64(after.Mallocs-before.Mallocs)/n, float64(after.TotalAlloc-before.TotalAlloc)/n
	t.Logf("%.3f allocations and %.0f bytes a request", allocs, size)
	if allocs > 1.5 || size > 1500 {
		t.Errorf("%.3f allocations and %.0f bytes a request, want at most 1.5 and 1500", allocs, size)
	}
	best := math.Inf(1)
	for range 4 { // of some tries the one that the machine disturbed least
		start := cpu()
		for range r.Placed(needed...) { //nolint:revive // only the reading counts
		}
		read := cpu() - start
		start = cpu()
		if err := Make(r, nil); err != nil {
			t.Fatal(err)
		}
		best = min(best, float64(cpu()-start)/float64(read))
	}
	t.Logf("making takes %.1f times reading", best)
	if best > 4 {
		t.Errorf("making takes %.1f times what reading the records does, want at most 4", best)
	}
}

func BenchmarkMake(b *testing.B) {
	const n = 200_000
	r := diskRun(b, n, 20)
	b.ReportAllocs()
	start := cpu()
	for b.Loop() {
		if err := Make(r, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpu()-start)/float64(b.N)/n, "cpu-ns/request")
}
