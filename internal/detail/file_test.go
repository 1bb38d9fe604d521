package detail

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/stats"
)

// answers are what a store says to a bit of everything, as JSON.
func answers(t interface{ Fatal(...any) }, s *Store, in stats.Input) string {
	from, to := int64(1.7e9), int64(6.2e9)
	out := map[string]any{
		"figures": s.Figures(0, 0), "part": s.Figures(from, to), "before": s.Figures(1, in.Steps[0].Start),
		"bands": s.Bands(BandFigures(), "", 0, 0, 30), "bands of one": s.Bands([]string{"itl", "e2e"}, "workload 1", from, to, 30),
		"heat": s.Heat("ttft", "", 0, 0, 30), "heat itl": s.Heat("itl", "", 0, 0, 30),
		"workloads": len(s.Workloads()),
	}
	put := func(name string, v any, err error) {
		if err != nil {
			t.Fatal(name, err)
		}
		out[name] = v
	}
	for _, q := range []Query{
		{}, {Sort: "-ttft", Limit: 3, Offset: 1}, {Filter: "-status:ok"}, {Filter: "ttft>200ms workload:1", Sort: "session"}, {From: from, To: to, Sort: "end"},
	} {
		q.Color = "status" // the order of workloads is that in which they came
		rows, err := s.Requests(q)
		put(fmt.Sprintf("rows %+v", q), rows, err)
		sc, err := s.Scatter(q, "tpot", 300, 100)
		put(fmt.Sprintf("scatter %+v", q), sc, err)
		common, err := s.Common(q, Box{Y: "ttft", YMin: 100, YMax: math.NaN()})
		put(fmt.Sprintf("common %+v", q), common, err)
	}
	b, err := json.MarshalIndent(out, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// someCells adds cells of some signals, and returns them.
func someCells(r *rand.Rand, s *Store, n int) {
	for i := range n {
		t := int64(i-2) * second
		for g := range 3 {
			k := Key{Signal: "sm_active", Stat: "value", Source: "node", Labels: fmt.Sprintf("gpu=%d", g)}
			if r.IntN(5) > 0 {
				s.AddCell(t, k, float64(r.IntN(128))/128) // sums are exact, in whatever order
			}
		}
		s.AddCell(t, Key{Signal: "requests_running", Stat: "value"}, float64(r.IntN(30)))
		s.AddCell(t, Key{Signal: "queue_time", Stat: "mean"}, float64(r.IntN(1024))/1024)
		s.AddCell(t, Key{Signal: "queue_time", Stat: "rate"}, float64(r.IntN(10)))
		if i > 5 {
			s.AddCell(t, Key{Signal: "kv_capacity", Stat: "value", Source: "node"}, 4096)
		}
	}
}

// courses are what a store says of its signals, by name.
func courses(s *Store, points int) map[string]string {
	out := map[string]string{}
	for _, d := range s.Series() {
		g := s.Data([]int{d.ID}, 0, 0, points)
		c := g.Series[d.ID]
		b, _ := json.Marshal(c)
		g.Series = nil
		out[fmt.Sprintf("%s %s %s %s", d.Signal, d.Stat, d.Source, d.Labels)] = fmt.Sprintf("%+v %s", g, b)
	}
	e := s.Envelope("sm_active", "value", 0, 0, points)
	if e.Worst != nil {
		e.Worst.Series, e.Worst.Value = 0, math.Round(e.Worst.Value*1e6)/1e6 // sums in another order
	}
	b, _ := json.Marshal(e)
	out["envelope"] = string(b)
	return out
}

func TestFilesHoldTheStore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		in, list := someRun(r, rapid.IntRange(0, 60).Draw(t, "requests"), rapid.IntRange(1, 3).Draw(t, "steps"))
		cells := rapid.SampledFrom([]int{0, 1, 9, 700, 1300}).Draw(t, "cells")
		s := storeOf(in, list)
		someCells(r, s, cells)
		s.finish()
		grown := map[int]map[string]string{}
		for _, points := range []int{2, 20, 2000} {
			grown[points] = courses(s, points)
		}
		want := answers(t, s, in)
		dir, err := os.MkdirTemp("", "detail")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		of := stamp{1, 2, 3}
		if err := s.write(dir, of); err != nil {
			t.Fatal(err)
		}
		back := New(Meta{})
		if err := errors.Join(back.readRequests(dir, of), back.readSeries(dir, of)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, answers(t, back, in)); diff != "" {
			t.Fatalf("of files (-in memory +of files):\n%s", diff)
		}
		for points, want := range grown {
			if diff := cmp.Diff(want, courses(back, points)); diff != "" {
				t.Fatalf("signals on %d points (-in memory +of files):\n%s", points, diff)
			}
		}
		if err := New(Meta{}).readRequests(dir, stamp{}); !errors.Is(err, errStale) {
			t.Fatalf("of another state: error %v", err)
		}
	})
}

// A run that goes on says the same at its end as one that is read from disk.
func TestOpenSaysWhatTheRunSaid(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	in, list := someRun(r, 400, 2)
	saved, _ := saveRun(t, in, list)
	live := storeOf(in, list)
	live.finish()
	want := answers(t, live, in)
	for _, again := range []string{"made", "found"} {
		s, err := Open(saved, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, answers(t, s, in)); diff != "" {
			t.Errorf("%s (-as it grew +opened):\n%s", again, diff)
		}
		summary, err := saved.Summarize()
		if err != nil {
			t.Fatal(err)
		}
		if diff := sameFigures(summaryFigures(summary), s.Figures(in.Steps[0].Start, in.Steps[1].End)); diff != "" {
			t.Errorf("%s (-summary +figures):\n%s", again, diff)
		}
		for i := range 50 {
			one, err := s.Request(i)
			if err != nil {
				t.Fatal(err)
			}
			if q := list[indexOf(list, uint64(i))]; !one.Whole || len(one.Events.T) != len(q.Events) || one.Row.N != int64(i) || one.Row.Status != q.Status.String() {
				t.Errorf("request %d is %+v with %d events, want %d", i, one.Row, len(one.Events.T), len(q.Events))
			}
		}
		if _, err := s.Request(1 << 30); !errors.Is(err, ErrNoRequest) {
			t.Errorf("request that is none: error %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func indexOf(list []*record.Request, id uint64) int {
	for i, q := range list {
		if q.ID == id {
			return i
		}
	}
	return -1
}

// saveRun writes a run to disk.
func saveRun(t testing.TB, in stats.Input, list []*record.Request) (*run.Run, string) {
	t.Helper()
	start := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	w, err := run.Create(t.TempDir(), run.Info{Name: "some", Start: start, Input: &in}, []byte("name: some\n"), run.Blocking())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range list {
		w.Add(q)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Update(func(i *run.Info) { i.State, i.End, i.Input = run.Done, &start, &in }); err != nil {
		t.Fatal(err)
	}
	saved, err := run.Open(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	return saved, w.Dir()
}

func TestDamagedFilesAreMadeAgain(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	in, list := someRun(r, 100, 1)
	saved, dir := saveRun(t, in, list)
	if err := Make(saved, nil); err != nil {
		t.Fatal(err)
	}
	of, err := stampOf(saved)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{requestsFile, seriesFileIs} {
		path := filepath.Join(dir, folder, name)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for what, bad := range map[string][]byte{
			"cut": good[:len(good)/2], "empty": {}, "longer": append(append([]byte{}, good...), 0),
			"one bit": flipped(good, len(good)*2/3), "another version": flipped(good, kindBytes), "in its checksum": flipped(good, len(good)-1),
		} {
			if err := os.WriteFile(path, bad, 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := load(saved, filepath.Join(dir, folder), of); err == nil {
				t.Errorf("%s, %s: no error", name, what)
			}
			s, err := Open(saved, nil)
			if err != nil {
				t.Fatalf("%s, %s: %v", name, what, err)
			}
			if s.Len() != len(list) {
				t.Errorf("%s, %s: %d requests, want %d", name, what, s.Len(), len(list))
			}
			if now, err := os.ReadFile(path); err != nil || string(now) != string(good) {
				t.Errorf("%s, %s: not made again (error %v)", name, what, err)
			}
		}
	}
}

func flipped(b []byte, at int) []byte {
	out := append([]byte{}, b...)
	out[at] ^= 4
	return out
}

// A process that was killed while it wrote leaves a file that nobody reads and the next
// one removes.
func TestKilledWhileWriting(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	in, list := someRun(r, 30, 1)
	saved, dir := saveRun(t, in, list)
	if err := Make(saved, nil); err != nil {
		t.Fatal(err)
	}
	path := func(name string) string { return filepath.Join(dir, folder, name) }
	old, fresh := path(requestsFile+".1"+aside), path(seriesFileIs+".2"+aside)
	for _, name := range []string{old, fresh} {
		if err := os.WriteFile(name, []byte("half of it"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-2 * abandonedAfter)
	if err := errors.Join(os.Chtimes(old, long, long), os.Remove(path(seriesFileIs))); err != nil {
		t.Fatal(err)
	}
	s, err := Open(saved, nil)
	if err != nil || s.Len() != len(list) {
		t.Fatalf("%d requests, error %v, want %d", s.Len(), err, len(list))
	}
	defer s.Close()
	if _, err := os.Stat(path(seriesFileIs)); err != nil {
		t.Errorf("not made again: %v", err)
	}
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was left an age ago is still there: error %v", err)
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Errorf("what another process writes is gone: %v", err)
	}
}

// How much is made is told in shares that grow, and not when there is nothing to make.
func TestOpenTellsOfItsProgress(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	in, list := someRun(r, 100, 1)
	saved, _ := saveRun(t, in, list)
	for _, made := range []bool{true, false} {
		var shares []float64
		s, err := Open(saved, nil, Progress(func(share float64) { shares = append(shares, share) }))
		if err != nil {
			t.Fatal(err)
		}
		if made != (len(shares) > 1) || !slices.IsSorted(shares) || made && (shares[0] < 0 || shares[len(shares)-1] > 1) {
			t.Errorf("to be made %v: shares %v", made, shares)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Many readers at once hear what one hears.
func TestReadersAtOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	in, list := someRun(r, 300, 2)
	saved, _ := saveRun(t, in, list)
	if err := Make(saved, nil); err != nil {
		t.Fatal(err)
	}
	open := func() *Store {
		s, err := Open(saved, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	want := answers(t, open(), in)
	s := open()
	var said [8]string
	var readers sync.WaitGroup
	for i := range said {
		readers.Go(func() { said[i] = answers(t, s, in) })
	}
	readers.Wait()
	for i, got := range said {
		if got != want {
			t.Errorf("reader %d (-alone +at once):\n%s", i, cmp.Diff(want, got))
		}
	}
}

// Where nothing can be written the store is in memory.
func TestOpenWithoutFiles(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	in, list := someRun(r, 30, 1)
	saved, dir := saveRun(t, in, list)
	if err := os.WriteFile(filepath.Join(dir, folder), []byte("in the way"), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := Open(saved, nil)
	if err != nil || s.Len() != len(list) {
		t.Errorf("%d requests, error %v, want %d", s.Len(), err, len(list))
	}
}

// A file whose checksum is right may still hold anything.
func FuzzReadRequests(f *testing.F) {
	r := rand.New(rand.NewPCG(13, 14))
	in, list := someRun(r, 5, 1)
	s := storeOf(in, list)
	someCells(r, s, 12)
	s.finish()
	dir := f.TempDir()
	if err := s.write(dir, stamp{}); err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{requestsFile, seriesFileIs} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:len(b)-4], name == requestsFile)
	}
	f.Fuzz(func(t *testing.T, b []byte, requests bool) {
		dir := t.TempDir()
		name, kind := seriesFileIs, seriesKind
		if requests {
			name, kind = requestsFile, requestsKind
		}
		w, err := create(filepath.Join(dir, name), kind, stamp{})
		if err != nil {
			t.Fatal(err)
		}
		const head = kindBytes + 4 + 32
		w.bytes(b[min(head, len(b)):])
		if err := w.commit(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		s := New(Meta{})
		if requests {
			if s.readRequests(dir, stamp{}) != nil {
				return
			}
		} else if s.readSeries(dir, stamp{}) != nil {
			return
		}
		s.lasting = true
		s.Figures(0, 0)
		s.Bands(BandFigures(), "", 0, 0, 50)
		s.Heat(itl, "", 0, 0, 50)
		s.Data([]int{0, 1, 2, 3, 4, 5, 6, 7}, 0, 0, 50)
		s.Envelope("sm_active", "value", 0, 0, 50)
		if _, err := s.Requests(Query{Sort: "-e2e"}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Common(Query{}, Box{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Scatter(Query{}, "ttft", 100, 100); err != nil {
			t.Fatal(err)
		}
	})
}
