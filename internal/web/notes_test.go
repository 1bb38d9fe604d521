package web

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll/internal/detail"
)

// TestDamagedNotesAreKept writes notes over ones that cannot be read: those are kept, as
// the line of the run says, however often that happens.
func TestDamagedNotesAreKept(t *testing.T) {
	s := newServer(t, nil)
	id := predicted(t, s.cfg.Root)
	dir := filepath.Join(s.cfg.Root, id)
	name := filepath.Join(dir, notesFile)
	for i, old := range []string{`{"schema": "plimsoll.notes/1", "note": "three days`, `{"schema": "plimsoll.notes/9", "note": "of another"}`} {
		if err := os.WriteFile(name, []byte(old), 0o644); err != nil {
			t.Fatal(err)
		}
		fix := ""
		if p := get[runList](t, s, "/api/runs").Runs[0].Problem; p != nil && p.File == notesFile {
			fix = p.Fix
		}
		// One that is refused leaves all as it is.
		if status, _, b := call(t, s, "PATCH", "/api/runs/"+id, `{"name": "`+strings.Repeat("x", maxName+1)+`"}`); status != http.StatusBadRequest {
			t.Errorf("a name that is too long: %d %s", status, b)
		}
		if b, err := os.ReadFile(name); err != nil || string(b) != old {
			t.Errorf("after a patch that was refused: %q, %v", b, err)
		}
		if status, _, b := call(t, s, "PATCH", "/api/runs/"+id, `{"note": "anew"}`); status != http.StatusOK {
			t.Fatalf("a note over a damaged one: %d %s", status, b)
		}
		kept := [...]string{notesFile + ".old", notesFile + ".old2"}[i]
		if b, err := os.ReadFile(filepath.Join(dir, kept)); err != nil || string(b) != old {
			t.Errorf("%s holds %q, %v: want what was damaged", kept, b, err)
		}
		if i == 0 && !strings.Contains(fix, "is kept as "+kept) || fix == "" {
			t.Errorf("the line of the run says %q", fix)
		}
		if row := get[runList](t, s, "/api/runs").Runs[0]; row.Note != "anew" || row.Problem != nil {
			t.Errorf("after the note: %+v", row)
		}
	}
}

// TestNotesOfTwoServers: servers of one folder, as two processes have them, and many
// clients of each add to the notes of one run at once; what each said is there.
func TestNotesOfTwoServers(t *testing.T) {
	a := newServer(t, nil)
	b := newServer(t, func(c *Config) { c.Root = a.cfg.Root })
	id := predicted(t, a.cfg.Root)
	const each = 20
	var wg sync.WaitGroup
	for i, s := range []*Server{a, b, a, b} {
		wg.Go(func() {
			for k := i / 2; k < each; k += 2 {
				tag := fmt.Sprintf("s%d-%d", i%2, k)
				for { // 409 says that others were first for too long
					status, _, body := call(t, s, "PATCH", "/api/runs/"+id, fmt.Sprintf(`{"tags": {%q: "x"}}`, tag))
					if status == http.StatusOK {
						break
					}
					if status != http.StatusConflict {
						t.Errorf("%s: %d %s", tag, status, body)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if row := get[runList](t, a, "/api/runs").Runs[0]; len(row.Tags) != 2*each {
		t.Errorf("%d tags of %d are there: %v", len(row.Tags), 2*each, row.Tags)
	}
	onlyNotes(t, filepath.Join(a.cfg.Root, id))
}

// onlyNotes says whether nothing lies beside the notes of a run that writing them left.
func onlyNotes(t *testing.T, dir string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, notesFile+"?*"))
	if err != nil || len(left) != 0 {
		t.Errorf("%v is left beside the notes, %v", left, err)
	}
}

// TestLocked asks for a change while another process holds the lock, and stops waiting.
func TestLocked(t *testing.T) {
	a := newServer(t, nil)
	b := newServer(t, func(c *Config) { c.Root = a.cfg.Root })
	id := predicted(t, a.cfg.Root)
	unlock, err := a.lock(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if status, _, body := call(t, b, "PATCH", "/api/runs/"+id, `{"note": "x"}`); status != http.StatusConflict || !strings.Contains(string(body), "try again") {
			t.Errorf("with the lock held: %d %s", status, body)
		}
	}()
	if get[runList](t, b, "/api/runs").Runs[0].Note != "" { // nobody else waits
		t.Error("a note that nobody wrote")
	}
	<-done
	unlock()
	if status, _, body := call(t, b, "PATCH", "/api/runs/"+id, `{"note": "x"}`); status != http.StatusOK {
		t.Errorf("with the lock free: %d %s", status, body)
	}
}

// TestDeleteAgainstAll lets many clients of two servers delete runs while others open
// them, note something of them and list them: each is deleted once, nobody sees half of
// one, and none comes back.
func TestDeleteAgainstAll(t *testing.T) {
	a := newServer(t, nil)
	b := newServer(t, func(c *Config) { c.Root = a.cfg.Root })
	first := predicted(t, a.cfg.Root)
	ids := append(copies(t, a, first, 7), first)
	var deleted [8]atomic.Int64
	stop := make(chan struct{})
	var others, deleting sync.WaitGroup
	for _, s := range []*Server{a, b} {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, row := range get[runList](t, s, "/api/runs").Runs {
					if row.State == detail.Unreadable || row.Problem != nil || row.Requests == nil || row.Workloads == nil {
						t.Errorf("half of a run is listed: %+v", row)
					}
				}
			}
		})
		for i, id := range ids {
			others.Go(func() {
				for n := 0; ; n++ {
					status, _, body := 0, http.Header(nil), []byte(nil)
					if n%2 == 0 {
						status, _, body = call(t, s, "GET", "/api/runs/"+id, "")
					} else {
						status, _, body = call(t, s, "PATCH", "/api/runs/"+id, `{"note": "x"}`)
					}
					switch {
					case status == http.StatusNotFound && strings.Contains(string(body), "there is no run "+id):
						return
					case status == http.StatusOK && strings.Contains(string(body), "cannot be read"):
						t.Errorf("a run that is deleted reads as damaged: %.400s", body)
						return
					case status != http.StatusOK && status != http.StatusConflict:
						t.Errorf("while it is deleted: %d %s", status, body)
						return
					}
				}
			})
			for range 3 {
				deleting.Go(func() {
					time.Sleep(time.Duration(i) * 10 * time.Millisecond) // real time: each at another moment of the others
					status, _, body := call(t, s, "DELETE", "/api/runs/"+id+"?confirm="+id, "")
					switch status {
					case http.StatusNoContent:
						deleted[i].Add(1)
					case http.StatusNotFound:
					default:
						t.Errorf("DELETE: %d %s", status, body)
					}
				})
			}
		}
	}
	deleting.Wait()
	close(stop)
	others.Wait()
	for i := range ids {
		if n := deleted[i].Load(); n != 1 {
			t.Errorf("run %d was deleted %d times", i, n)
		}
	}
	left, err := os.ReadDir(a.cfg.Root)
	if err != nil || len(left) > 1 || len(left) == 1 && left[0].Name() != deletedDir {
		t.Errorf("%v is left of the runs, %v", left, err)
	}
	if left, err := os.ReadDir(filepath.Join(a.cfg.Root, deletedDir)); err == nil && len(left) != 0 {
		t.Errorf("%v is left of deleted runs", left)
	}
}

// TestSweepAside: what a killed server left of a file that it wrote is removed once it is
// old, and nothing else.
func TestSweepAside(t *testing.T) {
	s := newServer(t, nil)
	id := predicted(t, s.cfg.Root)
	if status, _, b := call(t, s, "PUT", "/api/scenarios/x", `{"scenario": "a"}`); status != http.StatusOK {
		t.Fatalf("store a scenario: %d %s", status, b)
	}
	const random = "ABCDEFGHIJKLMNOPQRSTUVWX27"
	old := time.Now().Add(-2 * asideTime)
	want := map[string]bool{}
	for _, dir := range []string{id, scenariosDir} {
		for name, gone := range map[string]bool{"notes.json." + random + ".tmp": true, "notes.json." + random[1:] + "A.tmp": false, "my.tmp": false, random + ".tmp.yaml": false} {
			path := filepath.Join(s.cfg.Root, dir, name)
			if err := os.WriteFile(path, []byte("half"), 0o644); err != nil {
				t.Fatal(err)
			}
			want[path] = gone
			if strings.Contains(name, random[1:]+"A") {
				continue // one that is being written
			}
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	next := newServer(t, func(c *Config) { c.Root = s.cfg.Root })
	get[detail.RunDoc](t, next, "/api/runs/"+id)
	for path, gone := range want {
		if _, err := os.Lstat(path); os.IsNotExist(err) != gone {
			t.Errorf("%s: %v, want gone %v", path, err, gone)
		}
	}
}
