package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"plimsoll/internal/detail"
	"plimsoll/internal/report"
	"plimsoll/internal/run"
)

// idForm is what the name of a run's folder may be: what run.FileName makes, which
// leads nowhere else and is no hidden file.
var idForm = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}$`)

// checkID refuses what cannot be the name of a run's folder.
func checkID(id string) error {
	if !idForm.MatchString(id) || strings.Contains(id, "..") {
		return &Problem{Status: http.StatusNotFound, Field: "id", Text: fmt.Sprintf("%q cannot be the name of a run", id)}
	}
	return nil
}

// maxEntries bounds how many files of a run are looked at before it is opened.
const maxEntries = 100_000

// openRun opens a run of the folder. One with a link in it is refused: what it leads
// to may lie anywhere.
func (s *Server) openRun(id string) (*run.Run, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	if !s.cfg.ReadOnly {
		s.sweepAside(id)
	}
	if err := s.plain(id); err != nil {
		return nil, cmp.Or(s.gone(id), err)
	}
	r, err := run.Open(filepath.Join(s.cfg.Root, id))
	if err != nil {
		return nil, s.unreadable(id, err)
	}
	return r, nil
}

// unreadable is why a run could not be opened: its row says more of it than the error.
func (s *Server) unreadable(id string, err error) error {
	row := s.row(id)
	if row == nil {
		return noRun(id)
	}
	p := &Problem{Status: http.StatusInternalServerError, Text: fmt.Sprintf("run %s cannot be opened: %v", id, err), Fix: "put back what is damaged from a copy of the run, or delete the run"}
	if row.State == detail.Unreadable && row.Problem != nil {
		p.Field, p.Text, p.Fix = row.Problem.File, fmt.Sprintf("run %s cannot be opened: %s: %s", id, row.Problem.File, row.Problem.Text), row.Problem.Fix
	}
	return p
}

// gone says that there is no such run where it was deleted, maybe while it was read: what
// was read then may be half of it.
func (s *Server) gone(id string) error {
	if _, err := s.root.Lstat(id); errors.Is(err, fs.ErrNotExist) {
		return noRun(id)
	}
	return nil
}

func noRun(id string) *Problem {
	return &Problem{Status: http.StatusNotFound, Field: "id", Text: fmt.Sprintf("there is no run %s", id)}
}

// plain says whether the folder of a run holds nothing but folders and files.
func (s *Server) plain(id string) error {
	fi, err := s.root.Lstat(id)
	if errors.Is(err, fs.ErrNotExist) {
		return noRun(id)
	}
	if err != nil {
		return fmt.Errorf("open run %s: %w", id, err)
	}
	if !fi.IsDir() {
		return noRun(id)
	}
	n := 0
	var walk func(dir string, depth int) error
	walk = func(dir string, depth int) error {
		d, err := s.root.Open(dir)
		if err != nil {
			return fmt.Errorf("open run %s: %w", id, err)
		}
		entries, err := d.ReadDir(maxEntries)
		_ = d.Close() // it was only read
		if err != nil && len(entries) == 0 && !errors.Is(err, io.EOF) {
			return fmt.Errorf("open run %s: %w", id, err)
		}
		for _, e := range entries {
			name := dir + "/" + e.Name()
			if n++; n > maxEntries {
				return &Problem{Status: http.StatusForbidden, Text: fmt.Sprintf("run %s has more than %d files", id, maxEntries), Fix: "take out what is not of the run"}
			}
			switch {
			case e.IsDir():
				if depth == 3 {
					return &Problem{Status: http.StatusForbidden, Text: fmt.Sprintf("run %s has folders too deep in it: %s", id, name), Fix: "take out what is not of the run"}
				}
				if err := walk(name, depth+1); err != nil {
					return err
				}
			case !e.Type().IsRegular():
				return &Problem{Status: http.StatusForbidden, Text: fmt.Sprintf("run %s is not opened: %s is a link or no file", id, strings.TrimPrefix(name, id+"/")), Fix: "put a file or a folder in its place, or delete the run"}
			}
		}
		return nil
	}
	return walk(id, 0)
}

// rowCache keeps the rows of runs until their files change.
type rowCache struct {
	// listing lets one list be made at a time: the others find the rows that it read.
	listing sync.Mutex

	mu   sync.Mutex // guards what follows; taken inside of listing
	rows map[string]cachedRow
	// writes are when files of runs that are not at their end were written, by their paths.
	writes map[string]lastWrite
}

// lastWrite is when a file was written: it had an age when it was first seen like that.
type lastWrite struct {
	changed int64
	seen    time.Time
	age     time.Duration
}

// age is how long a file was not written that was changed at a time of the wall clock. That
// clock may be set while a file is watched, so it counts only until the file is first seen;
// a file of the future was written just then.
func (c *rowCache) age(path string, changed time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, ok := c.writes[path]
	if !ok || w.changed != changed.UnixNano() {
		now := time.Now()
		w = lastWrite{changed.UnixNano(), now, max(now.Sub(changed), 0)}
		if c.writes == nil {
			c.writes = map[string]lastWrite{}
		}
		c.writes[path] = w
	}
	return w.age + time.Since(w.seen)
}

type cachedRow struct {
	stamp stamp
	row   detail.RunRow
}

// rowFiles are the files that a row, or the document of a run, depends on.
var rowFiles = append(report.RowFiles(), "probe.json")

const maxRowFiles = 5

// stamp tells versions of a run's small files apart.
type stamp [maxRowFiles]struct {
	changed, size int64
	mode          fs.FileMode
}

// stamp looks at a run's small files. It is a run when there is its run.json, or what
// only a run has.
func (s *Server) stamp(id string) (of stamp, is bool) {
	// What is found here is only compared, so it does not matter where a link leads to.
	dir := filepath.Join(s.cfg.Root, id) + string(filepath.Separator)
	for i, name := range rowFiles {
		fi, err := os.Lstat(dir + name)
		if err != nil {
			continue
		}
		of[i].changed, of[i].size, of[i].mode = fi.ModTime().UnixNano(), fi.Size(), fi.Mode()
		is = is || name == "run.json" || name == "summary.json"
	}
	if !is {
		// One that begins has the folder for its requests a moment before its run.json.
		fi, err := os.Lstat(dir + "requests")
		is = err == nil && fi.IsDir() && time.Since(fi.ModTime()) > beginTime
	}
	return of, is
}

// beginTime is how long it may take until a run that begins has its run.json.
const beginTime = 5 * time.Second

// runRows are all runs, newest first.
func (s *Server) runRows(ctx context.Context) ([]detail.RunRow, error) {
	s.rows.listing.Lock()
	defer s.rows.listing.Unlock()
	d, err := s.root.Open(".")
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	entries, err := d.ReadDir(-1)
	_ = d.Close() // it was only read
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	var ids []string
	for _, e := range entries {
		if e.IsDir() && checkID(e.Name()) == nil {
			ids = append(ids, e.Name())
		}
	}
	rows := make([]*detail.RunRow, len(ids))
	var wg sync.WaitGroup
	var next atomic.Int64
	for range min(runtime.GOMAXPROCS(0), 8) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(ids) {
					return
				}
				rows[i] = s.row(ids[i])
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err // what was read is kept
	}
	s.rows.keep(ids)
	out := make([]detail.RunRow, 0, len(rows))
	for _, r := range rows {
		if r != nil {
			out = append(out, *r)
		}
	}
	slices.SortFunc(out, func(a, b detail.RunRow) int {
		return cmp.Or(strings.Compare(b.Started, a.Started), strings.Compare(b.ID, a.ID))
	})
	return out, nil
}

// keep forgets runs that are gone.
func (c *rowCache) keep(ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.rows) <= len(ids) {
		return
	}
	kept := make(map[string]cachedRow, len(ids))
	for _, id := range ids {
		if r, ok := c.rows[id]; ok {
			kept[id] = r
		}
	}
	c.rows = kept
	maps.DeleteFunc(c.writes, func(path string, _ lastWrite) bool {
		id, _, _ := strings.Cut(path, "/")
		_, ok := kept[id]
		return !ok
	})
}

// row is one run, nil when it is none. One that cannot be read is one, too.
func (s *Server) row(id string) *detail.RunRow {
	of, is := s.stamp(id)
	if !is {
		return nil
	}
	s.rows.mu.Lock()
	c, ok := s.rows.rows[id]
	s.rows.mu.Unlock()
	if !ok || c.stamp != of {
		c = cachedRow{stamp: of, row: report.RunRow(id, s.opener(id))}
		fi, err := s.root.Lstat(id)
		if err != nil {
			return nil // deleted meanwhile
		}
		if c.row.Started == "" {
			c.row.Started = fi.ModTime().UTC().Format(time.RFC3339Nano)
		}
		s.rows.mu.Lock()
		if s.rows.rows == nil {
			s.rows.rows = map[string]cachedRow{}
		}
		s.rows.rows[id] = c
		s.rows.mu.Unlock()
	}
	out := c.row
	if w := s.watchOf(id); w != nil {
		now := w.Doc().Run
		out.Live, out.DurationS = true, now.DurationS
		out.Requests, out.Errors, out.ErrorShare = now.Requests, now.Errors, now.ErrorShare
		out.TTFTP95, out.TPOTP95, out.OutputPerS, out.GoodputRPS = now.TTFTP95, now.TPOTP95, now.OutputPerS, now.GoodputRPS
	} else {
		out.State = s.state(id, out.State)
	}
	return &out
}

// opener opens files of a run's folder, and nothing that lies elsewhere.
func (s *Server) opener(id string) report.Opener {
	return func(name string) (io.ReadCloser, error) {
		path := id + "/" + name
		fi, err := s.root.Lstat(path)
		if err != nil {
			return nil, err
		}
		if !fi.Mode().IsRegular() {
			return nil, report.ErrNoFile
		}
		// It may be something else by now: nobody waits for a pipe.
		f, err := s.root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		if fi, err = f.Stat(); err == nil && !fi.Mode().IsRegular() {
			err = report.ErrNoFile
		}
		if err != nil {
			_ = f.Close() // read only: nothing can be lost
			return nil, err
		}
		return f, nil
	}
}

// stateKilled is said of a run that by its run.json is under way, but that nobody writes.
const stateKilled = "killed"

// state is what a run's run.json says of how far it is, or that its process was killed.
func (s *Server) state(id, said string) string {
	if said == string(run.Running) && !s.fresh(id, "run.json", "requests", "telemetry") {
		return stateKilled
	}
	return said
}

// runList are runs, the newest first.
type runList struct {
	Runs []detail.RunRow `json:"runs"`
}

func (s *Server) listRuns(w http.ResponseWriter, r *http.Request) error {
	rows, err := s.runRows(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, runList{rows})
}

func (s *Server) deleteRun(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if err := checkID(id); err != nil {
		return err
	}
	if _, is := s.stamp(id); !is {
		return noRun(id)
	}
	if fi, err := s.root.Lstat(id); err != nil || !fi.IsDir() {
		return noRun(id)
	}
	if got := r.URL.Query().Get("confirm"); got != id {
		p := wrong("confirm", "a run is gone for good once it is deleted")
		p.Fix = "confirm=" + id
		return p
	}
	if s.watchOf(id) != nil {
		return &Problem{Status: http.StatusConflict, Text: "the run is still under way", Fix: "stop it first"}
	}
	if s.written(id) {
		return &Problem{Status: http.StatusConflict, Text: "another process seems to be carrying out the run", Fix: fmt.Sprintf("stop it; of one that was killed, wait %v", killedTime)}
	}
	if err := s.remove(id); err != nil {
		return fmt.Errorf("delete run %s: %w", id, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// deletedDir is where runs go that are being deleted, so that nobody ever sees half of
// one.
const deletedDir = ".deleted"

// remove deletes a run for good.
func (s *Server) remove(id string) error {
	gone := deletedDir + "/" + id + "." + rand.Text()
	for try := 0; ; try++ {
		switch err := s.root.Mkdir(deletedDir, 0o755); {
		case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
			gone = deletedDir + "." + id + "." + rand.Text() // a full disk is why runs are deleted
		case err != nil && !errors.Is(err, fs.ErrExist):
			return err
		}
		err := s.root.Rename(id, gone)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if _, err := s.root.Lstat(id); err != nil || try == 3 {
			return noRun(id) // somebody was quicker
		} // another server has swept the folder meanwhile
	}
	s.stores.forget(id)
	// RemoveAll follows no link, neither out of the folder nor within. Another that opened
	// the run before may have put a file into it meanwhile. What cannot be removed is in
	// nobody's way, and is tried again.
	var err error
	for range 5 {
		if err = s.root.RemoveAll(gone); err == nil {
			return nil
		}
	}
	return fmt.Errorf("it is out of the list, but some of its files cannot be removed: %w", err)
}

// sweep removes what is left of runs that were being deleted when a server was ended.
func (s *Server) sweep() {
	left, _ := fs.Glob(s.root.FS(), deletedDir+"*") // the pattern is right
	for _, name := range left {
		if fi, err := s.root.Lstat(name); err == nil && fi.IsDir() {
			_ = s.root.RemoveAll(name) // it is tried again
		}
	}
	s.sweepAside(scenariosDir)
}

// killedTime is how long a run must not have been written, which by its run.json is not
// at its end, to be taken for one whose process was killed. Parts are written every few
// seconds.
const killedTime = time.Minute

// written says whether another process seems to write a run.
func (s *Server) written(id string) bool {
	row := s.row(id)
	if row == nil {
		return false
	}
	if row.State == detail.Unreadable { // its run.json may be of no process
		return s.fresh(id, "requests", "telemetry")
	}
	return row.State == string(run.Running)
}

// fresh says whether any of some files and folders of a run was written lately.
func (s *Server) fresh(id string, names ...string) bool {
	is := false
	for _, name := range names { // each is watched, also where one is enough
		path := id + "/" + name
		if fi, err := s.root.Lstat(path); err == nil && s.rows.age(path, fi.ModTime()) < killedTime {
			is = true
		}
	}
	return is
}
