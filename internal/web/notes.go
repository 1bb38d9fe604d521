package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"plimsoll/internal/report"
	"plimsoll/internal/run"
)

const (
	notesFile = "notes.json"
	maxNote   = 20_000
	maxName   = 200
	maxTags   = 50
	maxTag    = 100
)

// RunPatch is the body of a PATCH of a run: what is absent stays.
type RunPatch struct {
	Note *string            `json:"note,omitempty"`
	Name *string            `json:"name,omitempty"`
	Tags map[string]*string `json:"tags,omitempty"`
}

func (s *Server) patchRun(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	saved, err := s.openRun(id)
	if err != nil {
		return err
	}
	var p RunPatch
	if err := readJSON(r, &p); err != nil {
		return err
	}
	unlock, err := s.lock(r.Context(), id)
	if err != nil {
		return err
	}
	s.notes.Lock()
	err = s.addNotes(saved, &p)
	s.notes.Unlock()
	unlock()
	if err != nil {
		return cmp.Or(s.gone(id), err)
	}
	row := s.row(id)
	if row == nil {
		return noRun(id)
	}
	return writeJSON(w, http.StatusOK, row)
}

// lockTime bounds how long a change of a run waits for others, lockEvery is how often it
// looks whether they are done.
const (
	lockTime  = 5 * time.Second
	lockEvery = 2 * time.Millisecond
)

// lock lets one change of a run's notes happen at a time, in this process and any other
// that serves the folder: two at once would each lose what the other says. The lock is
// one of the run's folder, so that nothing is left of it when a process is killed.
func (s *Server) lock(ctx context.Context, id string) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	d, err := s.root.Open(id)
	if err != nil {
		return nil, cmp.Or(s.gone(id), fmt.Errorf("lock run %s: %w", id, err))
	}
	for {
		ok, err := tryLock(d)
		if ok {
			return func() { _ = d.Close() }, nil // which unlocks it
		}
		if err != nil {
			_ = d.Close() // it was only locked
			return nil, fmt.Errorf("lock run %s: %w", id, err)
		}
		select {
		case <-ctx.Done():
			_ = d.Close() // likewise
			return nil, &Problem{Status: http.StatusConflict, Text: "others are changing what is noted of the run", Fix: "try again"}
		case <-time.After(lockEvery):
		}
	}
}

// addNotes keeps what a patch says beside a run, whose lock is held.
func (s *Server) addNotes(saved *run.Run, p *RunPatch) error {
	damaged := false
	n, err := saved.Remarks()
	switch {
	case errors.Is(err, fs.ErrNotExist): // none yet
		n = run.Remarks{Schema: run.NotesSchemaName}
	case err != nil:
		if _, unread := errors.AsType[*fs.PathError](err); unread { // nobody knows what is in it
			return &Problem{Status: http.StatusInternalServerError, Field: notesFile, Text: fmt.Sprintf("%s cannot be read: %s", notesFile, report.Reason(err)), Fix: "let the user who runs plimsoll read it (chmod, chown)"}
		}
		n, damaged = run.Remarks{Schema: run.NotesSchemaName}, true
	}
	if p.Note != nil {
		if len(*p.Note) > maxNote {
			return wrong("note", "a note of %d bytes is longer than %d", len(*p.Note), maxNote)
		}
		n.Note = *p.Note
	}
	if p.Name != nil {
		if len(*p.Name) > maxName {
			return wrong("name", "a name of %d bytes is longer than %d", len(*p.Name), maxName)
		}
		n.Name = *p.Name
	}
	for k, v := range p.Tags {
		if k == "" || len(k) > maxTag || v != nil && len(*v) > maxTag {
			return wrong("tags", "a tag has a name of 1 to %d bytes and a value of at most %d", maxTag, maxTag)
		}
		if n.Tags == nil {
			n.Tags = map[string]*string{}
		}
		n.Tags[k] = v
	}
	if len(n.Tags) > maxTags {
		return wrong("tags", "more than %d tags", maxTags)
	}
	b, err := json.MarshalIndent(&n, "", "  ")
	if err != nil {
		return fmt.Errorf("encode notes: %w", err)
	}
	name := filepath.Base(saved.Dir()) + "/" + notesFile
	if damaged {
		return s.writeOver(name, append(b, '\n'), func() error { return s.keepOld(name) })
	}
	return s.write(name, append(b, '\n'))
}

// keepOld gives a file that cannot be read another name, under which there is none.
func (s *Server) keepOld(name string) error {
	old := name + ".old"
	for i := 2; ; i++ {
		if _, err := s.root.Lstat(old); errors.Is(err, fs.ErrNotExist) {
			return s.root.Rename(name, old)
		} else if err != nil {
			return err
		}
		old = name + ".old" + strconv.Itoa(i)
	}
}

// write makes a file below the folder of runs hold b, or leaves it as it was.
func (s *Server) write(name string, b []byte) error {
	return s.writeOver(name, b, func() error { return nil })
}

// writeOver is write that calls before when nothing is left but to put the new file into
// the place of the old one.
func (s *Server) writeOver(name string, b []byte, before func() error) error {
	s.sweepAside(path.Dir(name))
	// Another server may write the same file: each has a name of its own until it is whole.
	aside := name + "." + rand.Text() + ".tmp"
	f, err := s.root.OpenFile(aside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = f.Write(b)
	err = cmp.Or(err, f.Sync())
	if err = cmp.Or(err, f.Close()); err == nil {
		err = before()
	}
	if err == nil {
		err = s.root.Rename(aside, name)
	}
	if err != nil {
		_ = s.root.Remove(aside) // the first error is told
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// asideName is what a file is called that is not whole yet, asideTime the age from which
// on it is one of a process that was killed.
var asideName = regexp.MustCompile(`\.[A-Z2-7]{26}\.tmp$`)

const asideTime = time.Hour

// sweepAside removes what servers that were killed left in a folder.
func (s *Server) sweepAside(dir string) {
	d, err := s.root.Open(dir)
	if err != nil {
		return
	}
	entries, _ := d.ReadDir(maxEntries) // as many as can be read
	_ = d.Close()                       // it was only read
	for _, e := range entries {
		if !asideName.MatchString(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		if fi, err := e.Info(); err == nil && time.Since(fi.ModTime()) > asideTime {
			_ = s.root.Remove(dir + "/" + e.Name()) // it is in nobody's way
		}
	}
}
