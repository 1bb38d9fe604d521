package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/internal/record"
	"plimsoll/internal/stats"
)

// write makes a run of n requests with a part after each of the given numbers of
// them, and returns its folder.
func write(t testing.TB, root string, n int, parts ...int) string {
	t.Helper()
	w, err := Create(root, info("x"), []byte("name: x\n"))
	if err != nil {
		t.Fatal(err)
	}
	r := new(record.Request)
	for i := range n {
		fill(r, i)
		w.Add(r)
		if slices.Contains(parts, i+1) {
			endPart(t, w)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return w.Dir()
}

// endPart makes the writer write what it has as a part, and waits for it.
func endPart(t testing.TB, w *Writer) {
	t.Helper()
	w.kick <- struct{}{}
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Millisecond) { // real time: the disk is real
		w.mu.Lock()
		empty := w.queued == 0
		w.mu.Unlock()
		if empty || w.Err() != nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the writer does not write")
		}
	}
}

func ids(t testing.TB, dir string) (out []uint64, notes []Note) {
	t.Helper()
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for q := range r.Requests() {
		out = append(out, q.ID)
	}
	return out, r.Notes()
}

func upTo(n int) (out []uint64) {
	for i := range n {
		out = append(out, uint64(i))
	}
	return out
}

func partNames(t testing.TB, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, requestsDir))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestPartsInOrder(t *testing.T) {
	dir := write(t, t.TempDir(), 500, 100, 101, 350)
	if got := partNames(t, dir); !slices.Equal(got, []string{"part-000001.parquet", "part-000002.parquet", "part-000003.parquet", "part-000004.parquet"}) {
		t.Errorf("parts are %v", got)
	}
	got, notes := ids(t, dir)
	if !slices.Equal(got, upTo(500)) || notes != nil {
		t.Errorf("read %d requests, notes %v", len(got), notes)
	}
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range r.Requests() {
		if n++; n == 3 {
			break
		}
	}
	if n != 3 || r.Notes() != nil {
		t.Errorf("a pass that was ended has notes %v", r.Notes())
	}
	if b, err := r.Scenario(); err != nil || string(b) != "name: x\n" {
		t.Errorf("scenario is %q, %v", b, err)
	}
	if _, err := r.Summary(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("summary: %v", err)
	}
}

func TestFilesThatAreNotCompleteAreSkipped(t *testing.T) {
	dir := write(t, t.TempDir(), 100, 50)
	for _, name := range []string{"part-000003.parquet.tmp", "part-000001-000002.parquet.tmp", "part-x.parquet", "notes.txt", "part-3.parquet", "part-000009-000004.parquet"} {
		if err := os.WriteFile(filepath.Join(dir, requestsDir, name), []byte("PAR1 and no more"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, notes := ids(t, dir)
	if !slices.Equal(got, upTo(100)) || notes != nil {
		t.Errorf("read %d requests, notes %v", len(got), notes)
	}
}

// TestDamagedParts cuts a part short and flips its bytes. Whatever is done to
// it, the other parts are read whole, and nothing that was lost goes unsaid.
func TestDamagedParts(t *testing.T) {
	dir := write(t, t.TempDir(), 90, 30, 60)
	name := filepath.Join(dir, requestsDir, "part-000002.parquet")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var want record.Request
	check := func(what string) {
		t.Helper()
		r, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		first, second, third := 0, 0, 0
		for q := range r.Requests() {
			switch {
			case q.ID < 30 && q.End > 0:
				first++
			case q.ID >= 60 && q.ID < 90:
				third++
			default:
				second++
			}
		}
		if first < 30 || third < 30 {
			t.Fatalf("%s: read %d and %d of the other parts", what, first, third)
		}
		if total := first + second + third; total < 90 && (len(r.Notes()) != 1 || r.Notes()[0].Part != "part-000002.parquet") {
			t.Fatalf("%s: read %d of 90, notes %v", what, total, r.Notes())
		} else if len(r.Notes()) == 1 && r.Notes()[0].Lost >= 0 && total+int(r.Notes()[0].Lost) < 90 {
			t.Fatalf("%s: read %d of 90, notes %v", what, total, r.Notes())
		}
	}
	fill(&want, 0)
	r := rand.New(rand.NewPCG(1, 2))
	put := func(b []byte) {
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int{0, 1, 3, 4, 8, 12, 100, len(whole) / 2, len(whole) - 100, len(whole) - 8, len(whole) - 5, len(whole) - 1} {
		put(whole[:n])
		check(fmt.Sprintf("cut to %d of %d bytes", n, len(whole)))
		if _, notes := ids(t, dir); len(notes) != 1 {
			t.Errorf("cut to %d bytes: notes %v", n, notes)
		}
	}
	flips := 120
	if testing.Short() {
		flips = 30
	}
	for i := range flips {
		b := slices.Clone(whole)
		at := r.IntN(len(b))
		if i%2 == 0 { // more of them where the metadata is
			at = len(b) - 1 - r.IntN(min(len(b), 6000))
		}
		b[at] ^= byte(1 << r.IntN(8))
		put(b)
		check(fmt.Sprintf("flipped a bit of byte %d of %d", at, len(b)))
	}
	put(whole)
	if got, notes := ids(t, dir); len(got) != 90 || notes != nil {
		t.Errorf("whole again: %d, %v", len(got), notes)
	}
}

// A disk that takes so many bytes in all.
type smallDisk struct {
	*os.File
	left *atomic.Int64
}

func (d smallDisk) Write(b []byte) (int, error) {
	if d.left.Add(-int64(len(b))) < 0 {
		return 0, syscall.ENOSPC
	}
	return d.File.Write(b)
}

func TestFullDiskStopsTheRunAndKeepsWhatIsThere(t *testing.T) {
	var left atomic.Int64
	left.Store(100 << 10)
	w, err := Create(t.TempDir(), info("full"), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.create = func(name string) (file, error) {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		return smallDisk{f, &left}, err
	}
	r := new(record.Request)
	const n = 2000
	for i := range n {
		fill(r, i)
		w.Add(r)
		if i%100 == 99 {
			endPart(t, w)
		}
	}
	select {
	case <-w.Failed():
	default:
		t.Fatal("the writer has not failed")
	}
	err = w.Close()
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "write requests") {
		t.Errorf("error is %v", err)
	}
	got, notes := ids(t, w.Dir())
	if len(got) == 0 || len(got)%100 != 0 || !slices.Equal(got, upTo(len(got))) || notes != nil {
		t.Errorf("kept %d, notes %v", len(got), notes)
	}
	if int64(len(got))+w.Dropped() != n {
		t.Errorf("kept %d and dropped %d of %d", len(got), w.Dropped(), n)
	}
	run, err := Open(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if i := run.Info(); i.Records != int64(len(got)) || i.DroppedRecords != w.Dropped() {
		t.Errorf("run.json says %d and %d", i.Records, i.DroppedRecords)
	}
	for _, name := range partNames(t, w.Dir()) {
		if strings.HasSuffix(name, tmpSuffix) {
			t.Errorf("left behind %s", name)
		}
	}
}

func TestFolderThatCannotBeWritten(t *testing.T) {
	root := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(root, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(root, info("x"), nil); err == nil || !strings.Contains(err.Error(), root) {
		t.Errorf("error is %v", err)
	}
	// The folder vanishes while the run goes on.
	w, err := Create(t.TempDir(), info("x"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(w.Dir()); err != nil {
		t.Fatal(err)
	}
	r := new(record.Request)
	fill(r, 0)
	w.Add(r)
	if err := w.Close(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
	if w.Dropped() != 1 {
		t.Errorf("dropped %d", w.Dropped())
	}
}

// TestSlowDiskDropsAndCounts holds the disk still until the queue is full.
func TestSlowDiskDropsAndCounts(t *testing.T) {
	w, err := Create(t.TempDir(), info("slow"), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.queueBytes = 2 << 20
	still := make(chan struct{})
	create := w.create
	w.create = func(name string) (file, error) {
		<-still
		return create(name)
	}
	r := new(record.Request)
	n := 0
	for w.Dropped() < 100 {
		fill(r, n)
		w.Add(r)
		if n++; n > 10_000_000 {
			t.Fatal("the queue has no end")
		}
	}
	w.mu.Lock()
	queued := w.queued
	w.mu.Unlock()
	if queued > w.queueBytes {
		t.Errorf("%d bytes are queued", queued)
	}
	close(still)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.requests.rows+w.Dropped() != int64(n) || w.Dropped() != 100 {
		t.Errorf("%d records and %d dropped of %d", w.requests.rows, w.Dropped(), n)
	}
}

func TestAddFromManyGoroutines(t *testing.T) {
	w, err := Create(t.TempDir(), info("many"), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.mergeParts = 3
	const each = 500
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := new(record.Request)
			for i := range each {
				fill(r, g*each+i)
				w.Add(r)
				if i%100 == 0 {
					select {
					case w.kick <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, notes := ids(t, w.Dir())
	slices.Sort(got)
	if !slices.Equal(got, upTo(8*each)) || notes != nil {
		t.Errorf("read %d, notes %v", len(got), notes)
	}
}

func TestMergeKeepsRowsAndOrder(t *testing.T) {
	dir := write(t, t.TempDir(), 300, 50, 100, 150, 200)
	requests := filepath.Join(dir, requestsDir)
	parts, _, err := listParts(requests)
	if err != nil {
		t.Fatal(err)
	}
	if err := merge(requestParts, requests, parts[1:4]); err != nil {
		t.Fatal(err)
	}
	if got := partNames(t, dir); !slices.Equal(got, []string{"part-000001.parquet", "part-000002-000004.parquet", "part-000005.parquet"}) {
		t.Errorf("parts are %v", got)
	}
	want := new(record.Request)
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for q := range r.Requests() {
		fill(want, n)
		if fmt.Sprintf("%+v", *q) != fmt.Sprintf("%+v", *want) {
			t.Fatalf("request %d is %+v, want %+v", n, q, want)
		}
		n++
	}
	if n != 300 || r.Notes() != nil {
		t.Errorf("read %d, notes %v", n, r.Notes())
	}
}

// TestMergeMayBeKilled leaves behind what a merge that was killed would leave.
func TestMergeMayBeKilled(t *testing.T) {
	root := t.TempDir()
	dir := write(t, root, 200, 50, 100, 150)
	requests := filepath.Join(dir, requestsDir)
	saved := map[string][]byte{}
	for _, name := range partNames(t, dir) {
		b, err := os.ReadFile(filepath.Join(requests, name))
		if err != nil {
			t.Fatal(err)
		}
		saved[name] = b
	}
	parts, _, err := listParts(requests)
	if err != nil {
		t.Fatal(err)
	}
	if err := merge(requestParts, requests, parts[:3]); err != nil {
		t.Fatal(err)
	}
	for removed := range 4 { // it had removed so many of the parts
		for i, p := range parts[:3] {
			if i >= removed {
				if err := os.WriteFile(filepath.Join(requests, p.name()), saved[p.name()], 0o644); err != nil {
					t.Fatal(err)
				}
			} else if err := os.Remove(filepath.Join(requests, p.name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
		if got, notes := ids(t, dir); !slices.Equal(got, upTo(200)) || notes != nil {
			t.Errorf("after %d removals: read %d, notes %v", removed, len(got), notes)
		}
	}
	// A damaged part is not merged away.
	dir = write(t, root, 200, 50, 100, 150)
	requests = filepath.Join(dir, requestsDir)
	if err := os.WriteFile(filepath.Join(requests, "part-000002.parquet"), []byte("PAR1"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := merge(requestParts, requests, parts[:3]); err == nil {
		t.Error("merged a damaged part")
	}
	if got, notes := ids(t, dir); len(got) != 150 || len(notes) != 1 {
		t.Errorf("read %d, notes %v", len(got), notes)
	}
}

func TestPartsThatAreMergedWhileTheyAreRead(t *testing.T) {
	dir := write(t, t.TempDir(), 300, 50, 100, 150, 200)
	requests := filepath.Join(dir, requestsDir)
	parts, _, err := listParts(requests)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []uint64
	for q := range r.Requests() {
		got = append(got, q.ID)
		if q.ID == 70 {
			if err := merge(requestParts, requests, parts[:4]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !slices.Equal(got, upTo(300)) || r.Notes() != nil {
		t.Errorf("read %d, notes %v", len(got), r.Notes())
	}
}

// said is what a child has printed so far.
type said struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// lines returns how many whole lines it has; the last may be cut.
func (s *said) lines() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.b.String(), "\n")
}

// TestKilledRunKeepsItsParts kills a process that writes and looks at what is
// there. The child says on its standard output what it has given to its writer.
func TestKilledRunKeepsItsParts(t *testing.T) {
	const every = 100 * time.Millisecond
	const some = 200 // much less than a part's worth
	if dir := os.Getenv("PLIMSOLL_TEST_WRITE"); dir != "" {
		w, err := Create(dir, info("killed"), nil, Blocking(), func(w *Writer) { w.partEvery, w.mergeParts = every, 4 })
		if err != nil {
			t.Fatal(err)
		}
		r := new(record.Request)
		for i := range 1_000_000 {
			fill(r, i)
			w.Add(r)
			fmt.Println(i)
			if i == some-1 {
				if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Millisecond) // real time: the process is to be killed while it writes
		}
		return
	}
	root := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestKilledRunKeepsItsParts$")
	child.Env = append(os.Environ(), "PLIMSOLL_TEST_WRITE="+root)
	out := new(said)
	child.Stdout = out
	next, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	// parts returns how many have been written, those that were put together included.
	parts := func() int {
		dirs, err := filepath.Glob(filepath.Join(root, "*", requestsDir))
		if err != nil || len(dirs) != 1 {
			return 0
		}
		list, _, err := listParts(dirs[0])
		if err != nil || len(list) == 0 {
			return 0
		}
		return list[len(list)-1].last
	}
	// What was given to the writer before it began a part is on disk when the part is: the
	// second one that ends from now on was begun from now on.
	await := func(is func() bool) {
		t.Helper()
		for begin := time.Now(); !is(); time.Sleep(5 * time.Millisecond) { // real time: the child is another process
			if time.Since(begin) > 5*time.Minute {
				_ = child.Process.Kill()
				t.Fatalf("the child does not write: %d requests, %d parts", out.lines(), parts())
			}
		}
	}
	// What waits is written although nothing comes after it.
	await(func() bool { return out.lines() >= some })
	await(func() bool {
		runs, err := List(root)
		if err != nil || len(runs) != 1 {
			return false
		}
		got, _ := ids(t, runs[0].Dir())
		return len(got) == some
	})
	if _, err := next.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	await(func() bool { return out.lines() > 2*some && parts() > 8 }) // some are put together
	before, since := out.lines(), parts()
	await(func() bool { return parts() >= since+2 })
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	ended := out.lines()
	runs, err := List(root)
	if err != nil || len(runs) != 1 {
		t.Fatalf("runs are %v, %v", runs, err)
	}
	if runs[0].Info().State != Running {
		t.Errorf("state is %s", runs[0].Info().State)
	}
	got, notes := ids(t, runs[0].Dir())
	if before == 0 || len(got) < before || len(got) > ended || !slices.Equal(got, upTo(len(got))) || notes != nil {
		t.Errorf("read %d requests of %d that ended, %d of them before two parts were written; notes %v", len(got), ended, before, notes)
	}
	t.Logf("%d ended, %d read, %d due, files %d", ended, len(got), before, len(partNames(t, runs[0].Dir())))
}

func TestLossIsBoundedByThePartInterval(t *testing.T) {
	if partEvery > 3*time.Second || partEvery < 2*time.Second {
		t.Errorf("parts are closed every %v, want 2 to 3 s", partEvery)
	}
}

func TestSummaryFromDiskIsThatFromMemory(t *testing.T) {
	root := t.TempDir()
	for seed := range 20 {
		in := stats.Input{
			Name: "x", Started: info("x").Start, Duration: 1e15,
			Steps: []stats.StepInput{{Users: 3, Start: 0, End: 5e14, Complete: true}, {Users: 4, Start: 5e14, End: 1e15}},
		}
		want := rapid.SliceOfN(requests(), 1, 200).Example(seed)
		i := info("x")
		i.Input = &in
		w, err := Create(root, i, nil)
		if err != nil {
			t.Fatal(err)
		}
		in.ID = w.ID()
		c := stats.NewCollector(in)
		for n, r := range want {
			r.Step %= 3
			c.Add(r)
			w.Add(r)
			if n%50 == 49 {
				endPart(t, w)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		memory, err := c.Summary().Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Update(func(i *Info) { i.State = Done }); err != nil {
			t.Fatal(err)
		}
		if err := w.WriteSummary(memory); err != nil {
			t.Fatal(err)
		}
		run, err := Open(w.Dir())
		if err != nil {
			t.Fatal(err)
		}
		again, err := run.Summarize()
		if err != nil {
			t.Fatal(err)
		}
		disk, err := again.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if string(disk) != string(memory) {
			t.Fatalf("seed %d: from disk %s\nfrom memory %s", seed, disk, memory)
		}
		saved, err := run.Summary()
		if err != nil {
			t.Fatal(err)
		}
		if b, err := saved.Marshal(); err != nil || string(b) != string(memory) {
			t.Fatalf("seed %d: saved as %s, %v", seed, b, err)
		}
	}
}

func TestKilledRunIsSummarizedUpToItsLastRecord(t *testing.T) {
	i := info("x")
	i.Input = &stats.Input{Steps: []stats.StepInput{{Users: 1, Start: 0, End: 60e9, Complete: true}}}
	w, err := Create(t.TempDir(), i, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := new(record.Request)
	for i := range 1000 {
		fill(r, i)
		w.Add(r)
	}
	last := float64(r.End) / 1e9
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	run, err := Open(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := run.Summarize()
	if err != nil {
		t.Fatal(err)
	}
	if s.Requests.OK != 1000 || *s.Run.WindowS < last || *s.Run.WindowS > last+0.1 || s.Run.Verdict != stats.Invalid {
		t.Errorf("%d ok in a window of %v s, verdict %s, want 1000 in %v s, invalid", s.Requests.OK, *s.Run.WindowS, s.Run.Verdict, last)
	}
	if run.info.Input.Steps[0].End != 60e9 {
		t.Error("the plan has been changed")
	}
}

func TestDamageMakesTheSummaryInvalid(t *testing.T) {
	i := info("x")
	i.Input = &stats.Input{Steps: []stats.StepInput{{Users: 1, Start: 0, End: 2e9, Complete: true}}}
	w, err := Create(t.TempDir(), i, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := new(record.Request)
	for i := range 100 {
		fill(r, i)
		w.Add(r)
		if i == 60 {
			endPart(t, w)
		}
	}
	if err := errors.Join(w.Close(), w.Update(func(i *Info) { i.State = Done })); err != nil {
		t.Fatal(err)
	}
	summary := func() *stats.Summary {
		run, err := Open(w.Dir())
		if err != nil {
			t.Fatal(err)
		}
		s, err := run.Summarize()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := summary(); s.Requests.OK != 100 || s.Run.Verdict != stats.Valid {
		t.Fatalf("%d ok, %s: %+v", s.Requests.OK, s.Run.Verdict, s.Run.Reasons)
	}
	name := filepath.Join(w.Dir(), requestsDir, "part-000002.parquet")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[100] ^= 1
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if s := summary(); s.Requests.OK != 61 || s.Run.Verdict != stats.Invalid || s.Client.DroppedRecords != 39 {
		t.Errorf("%d ok, %d missing, %s: %+v", s.Requests.OK, s.Client.DroppedRecords, s.Run.Verdict, s.Run.Reasons)
	}
}

func TestFileNames(t *testing.T) {
	var in struct{ Names []string }
	var want map[string]any
	for file, v := range map[string]any{"input.json": &in, "expected.json": &want} {
		b, err := os.ReadFile(filepath.Join("testdata", "cases", "163-model-names-as-file-names", file))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, v); err != nil {
			t.Fatal(err)
		}
	}
	root := t.TempDir()
	for _, name := range append(in.Names, "plain-name_1.0", "a\x00b", "....", "nul.txt", "com1", "x/../../y", "end.", strings.Repeat("é", 200)) {
		got := FileName(name)
		for text, prefix := range want {
			if text == name && text != "stays_inside" && (!strings.HasPrefix(got, prefix.(string)) || len(got) != len(prefix.(string))+8) {
				t.Errorf("%q becomes %q, want %s and 8 digits", name, got, prefix)
			}
		}
		if got == "" || len(got) > maxNameBytes+10 || strings.Trim(got, ".") != got || strings.ContainsFunc(got, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", r)
		}) {
			t.Errorf("%q becomes %q", name, got)
		}
		w, err := Create(root, info(name), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if filepath.Dir(w.Dir()) != root {
			t.Errorf("%q is kept in %s", name, w.Dir())
		}
		r, err := Open(w.Dir())
		if err != nil {
			t.Fatal(err)
		}
		// JSON has no bytes that are no text.
		if r.Info().Name != strings.ToValidUTF8(name, "\ufffd") {
			t.Errorf("the name is kept as %q, want %q", r.Info().Name, name)
		}
	}
	for a, b := range map[string]string{"a/b": "a:b", "": ".", "CON": "_CON"} {
		if FileName(a) == FileName(b) {
			t.Errorf("%q and %q both become %q", a, b, FileName(a))
		}
	}
	if got := FileName("plain-name_1.0"); got != "plain-name_1.0" {
		t.Errorf("a good name becomes %q", got)
	}
}

func TestRunsOfOneSecondAreKeptApart(t *testing.T) {
	root := t.TempDir()
	seen := map[string]bool{}
	for range 5 {
		dir := write(t, root, 1)
		if seen[dir] {
			t.Fatalf("%s twice", dir)
		}
		seen[dir] = true
	}
	if err := os.Mkdir(filepath.Join(root, "no run"), 0o755); err != nil {
		t.Fatal(err)
	}
	runs, err := List(root)
	if err != nil || len(runs) != 5 {
		t.Fatalf("listed %d, %v", len(runs), err)
	}
	if got := runs[0].Info(); got.ID != "20261130T100000Z-x" || got.Schema != InfoSchemaName {
		t.Errorf("first is %+v", got)
	}
	if _, err := Open(filepath.Join(root, "no run")); err == nil || !strings.Contains(err.Error(), "run.json") {
		t.Errorf("error is %v", err)
	}
}

// TestColumnNames keeps the names that other programs read.
func TestColumnNames(t *testing.T) {
	have := map[string]bool{}
	for _, path := range schema.Columns() {
		have[path[0]] = true
	}
	for _, name := range strings.Fields(`t_scheduled t_start t_connected t_sent t_headers t_first_event t_first_token t_first_content
		t_last_token t_end t_retrieval_start t_retrieval_end output_tokens prompt_tokens cached_tokens reasoning_tokens token_source
		tpot_basis status error_kind http_status finish_reason event_gaps event_tokens workload session turn user agent step phase flags`) {
		if !have[name] {
			t.Errorf("no column %s", name)
		}
	}
	l, err := layoutOf(schema)
	if err != nil {
		t.Fatal(err)
	}
	bound := map[string]bool{}
	for i, c := range l.leaves {
		if c == nil {
			t.Errorf("nothing writes column %v", schema.Columns()[i])
			continue
		}
		bound[c.name] = true
	}
	for _, c := range columns() {
		if !bound[c.name] {
			t.Errorf("column %s is in no schema", c.name)
		}
	}
}
