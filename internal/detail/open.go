package detail

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/stats"
)

// Option changes how Open works.
type Option func(*opening)

type opening struct{ progress func(share float64) }

// Progress makes Open tell how much of the files it has made, 0 to 1, where it has to
// make them; it may be called from no other goroutine than Open's.
func Progress(f func(share float64)) Option { return func(o *opening) { o.progress = f } }

// Open returns the Store of a run on disk. Where its files are missing, damaged or not
// of the run as it is now they are made, which takes some 4 s and 250 MB a million requests.
// Timeline gives the rows of its timeline; nil is for those in its folder. What could
// not be read is left out: a run whose process was killed has what it wrote. Where the
// folder cannot be written to, everything stays in memory. Close it after use.
func Open(r *run.Run, timeline iter.Seq2[[]run.TimelineRow, error], options ...Option) (*Store, error) {
	of, err := stampOf(r)
	if err != nil {
		return nil, fmt.Errorf("open detail: %w", err)
	}
	dir := filepath.Join(r.Dir(), folder)
	if s, err := load(r, dir, of); err == nil {
		return s, nil
	}
	s, err := build(r, timeline, options)
	if err != nil {
		return nil, fmt.Errorf("open detail: %w", err)
	}
	if err := s.write(dir, of); err != nil {
		return s, nil //nolint:nilerr // it is all in memory, and will be made again
	}
	if s, err := load(r, dir, of); err == nil {
		return s, nil
	}
	return s, nil
}

// Make writes the files of a run that has ended, so that Open finds them. Timeline and
// options are those of Open.
func Make(r *run.Run, timeline iter.Seq2[[]run.TimelineRow, error], options ...Option) error {
	of, err := stampOf(r)
	if err != nil {
		return fmt.Errorf("make detail: %w", err)
	}
	s, err := build(r, timeline, options)
	if err == nil {
		err = s.write(filepath.Join(r.Dir(), folder), of)
	}
	if err != nil {
		return fmt.Errorf("make detail: %w", err)
	}
	return nil
}

// Close gives up what a store holds of files. It is not to be used any more.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.signals.file; f != nil && f.f != nil {
		return f.f.Close()
	}
	return nil
}

// stampOf says what a run is now: all that its detail is made of.
func stampOf(r *run.Run) (stamp, error) {
	info := r.Info()
	parts, partsErr := r.Parts()
	about := struct {
		Trouble   []string `json:",omitempty"`
		ID, State string
		Records   int64
		Input     *stats.Input
		Step      int64
		Parts     []run.PartState
		Timeline  int64
		Tail      []byte
	}{ID: info.ID, State: string(info.State), Records: info.Records, Input: info.Input, Parts: parts}
	if info.Alignment != nil {
		about.Step = info.Alignment.StepNS
	}
	var err error
	about.Timeline, about.Tail, err = r.TimelineState()
	// What cannot be looked at cannot be read either, which is told of the run.
	for _, e := range []error{partsErr, err} {
		if e != nil && !errors.Is(e, fs.ErrNotExist) {
			about.Trouble = append(about.Trouble, e.Error())
		}
	}
	b, err := json.Marshal(&about)
	if err != nil {
		return stamp{}, fmt.Errorf("look at run: %w", err)
	}
	return sha256.Sum256(b), nil
}

// load reads the files of a run.
func load(r *run.Run, dir string, of stamp) (*Store, error) {
	s := New(Meta{Dir: r.Dir()})
	if err := s.readRequests(dir, of); err != nil {
		return nil, err
	}
	if err := s.readSeries(dir, of); err != nil {
		return nil, err
	}
	for _, l := range s.lost {
		if r.Check(l.File) == nil {
			_ = s.Close() // read only: nothing can be lost
			return nil, fmt.Errorf("%w: %s can be read by now", errStale, l.File)
		}
	}
	return s, nil
}

// The files of a run that its store is made of, as paths in its folder.
const (
	requestsFolder  = "requests"
	telemetryFolder = "telemetry"
	timelineFile    = "timeline.parquet"
)

// Lost is a file of a run that could not be read, or not to its end.
type Lost struct {
	// File is a path in the run's folder.
	File string `json:"file"`
	Text string `json:"text"`
	// After and Before bound the time of what is missing, in ns; Unset where that is not
	// known.
	After  int64 `json:"after_ns"`
	Before int64 `json:"before_ns"`
}

// Requests says whether records of requests were in it.
func (l *Lost) Requests() bool {
	return l.File == requestsFolder || strings.HasPrefix(l.File, requestsFolder+"/")
}

// Lost says what of a run on disk could not be read.
func (s *Store) Lost() []Lost {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.lost)
}

// lose keeps what could not be read of a folder.
func (s *Store) lose(folder string, notes []run.Note) {
	for _, n := range notes[:min(len(notes), mostLost)] {
		file := folder
		if n.Part != folder {
			file += "/" + n.Part
		}
		s.loseFile(file, n.Text, n.After, n.Before)
	}
}

// loseFile keeps that a file could not be read; where the run lies is nobody's business.
func (s *Store) loseFile(file, text string, after, before int64) {
	text = strings.ReplaceAll(text, s.meta.Dir+string(filepath.Separator), "")
	s.lost = append(s.lost, Lost{File: file, Text: text, After: after, Before: before})
}

// mostLost bounds what is told of one folder.
const mostLost = 200

// build makes the store of a run from its records and its timeline.
func build(r *run.Run, timeline iter.Seq2[[]run.TimelineRow, error], options []Option) (*Store, error) {
	var o opening
	for _, f := range options {
		f(&o)
	}
	if timeline == nil {
		timeline = r.Timeline()
	}
	in, err := r.Input()
	if err != nil {
		return nil, err
	}
	info := r.Info()
	meta := Meta{Dir: r.Dir(), Input: in, Step: second}
	if info.Alignment != nil && info.Alignment.StepNS > 0 {
		meta.Step = info.Alignment.StepNS
	}
	s := New(meta)
	tell := func(share float64) {
		if o.progress != nil {
			o.progress(share)
		}
	}
	s.building = true
	s.cols.grow(int(min(info.Records, mostGrown)))
	for p, q := range r.Placed(needed...) {
		if n := s.cols.rows(); n%4096 == 0 && info.Records > 0 {
			tell(readShare * min(float64(n)/float64(info.Records), 1))
		}
		s.add(q)
		s.placed(p)
	}
	tell(readShare)
	s.lose(requestsFolder, r.Notes())
	if err := r.Check(timelineFile); err != nil {
		// It is made again of the telemetry, if there is any.
		if !errors.Is(err, fs.ErrNotExist) {
			s.loseFile(timelineFile, err.Error(), record.Unset, record.Unset)
		}
		samples := r.Samples()
		for range samples.All() {
		}
		s.lose(telemetryFolder, samples.Notes())
	}
	last := record.Unset
	for rows, err := range timeline {
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil { // what came before it is drawn
			s.loseFile(timelineFile, err.Error(), last, record.Unset)
			break
		}
		s.addRows(rows)
		last = rows[len(rows)-1].T
	}
	tell(alignedShare)
	s.finish()
	return s, nil
}

// The shares of the work that are done once the records are read, and then once the
// timeline is, which may have to be made of the records; the rest is sorting and writing.
const (
	readShare    = 0.6
	alignedShare = 0.8
)

// needed are the columns of records that a store is made of.
var needed = []string{
	"id", "workload", "session", "turn", "user", "step", "phase", "target",
	"t_scheduled", "t_start", "t_sent", "t_headers", "t_first_token", "t_first_content", "t_last_token", "t_end",
	"t_retrieval_start", "t_retrieval_end", "t_first_send", "cap_wait",
	"status", "error_kind", "http_status", "finish_reason", "flags", "reused",
	"prompt_tokens", "cached_tokens", "output_tokens", "streamed_tokens", "first_event_tokens", "streamed", "output_events", "text_bytes",
	"t_first_output", "event_gaps", "event_tokens", "event_choices",
}

// write writes the files into dir.
func (s *Store) write(dir string, of stamp) error {
	// A run that was deleted meanwhile does not come back.
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	sweep(dir)
	return errors.Join(s.writeRequests(dir, of), s.writeSeries(dir, of))
}

// abandonedAfter is the age from which on a file that was never completed is one of a
// process that was killed.
const abandonedAfter = time.Hour

// sweep removes what processes that were killed left behind.
func sweep(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, "*"+aside)) // the pattern is right
	for _, name := range left {
		if fi, err := os.Lstat(name); err == nil && time.Since(fi.ModTime()) > abandonedAfter {
			_ = os.Remove(name) // it is in nobody's way
		}
	}
}

// mostGrown bounds the requests that there is room made for before they are there.
const mostGrown = 10_000_000

// placed says where the record of the request lies that was added last.
func (s *Store) placed(p run.Place) {
	next := uint32(0)
	if n := len(s.cols.place); n > 0 {
		next = s.cols.place[n-1] + 1
	}
	if n := len(s.parts); n == 0 || s.parts[n-1].Name != p.Part {
		s.parts = append(s.parts, part{p.Part, next})
	}
	s.cols.place = append(s.cols.place, s.parts[len(s.parts)-1].First+uint32(p.Row))
}

// finish makes the store that of a run that is over.
func (s *Store) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.open {
		s.closeGaps(&s.open[i])
	}
	s.open, s.bin, s.building = nil, nil, false
	s.settle(math.MaxInt64)
	for _, cells := range s.gaps {
		for i, b := range cells {
			if len(b) > 0 {
				cells[i] = joined(&s.scratch, b)
			}
		}
	}
	s.cols.sort()
	s.lasting = true
}

// sort puts the rows into the order of their schedule, those of one time into that of
// their numbers.
func (c *columns) sort() {
	order := make([]int32, c.rows())
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(c.scheduled[a], c.scheduled[b]), cmp.Compare(c.id[a], c.id[b]))
	})
	c.id, c.scheduled, c.session = permuted(c.id, order), permuted(c.scheduled, order), permuted(c.session, order)
	c.user, c.turn, c.profile = permuted(c.user, order), permuted(c.turn, order), permuted(c.profile, order)
	c.prompt, c.cached, c.output = permuted(c.prompt, order), permuted(c.cached, order), permuted(c.output, order)
	c.tpotTokens = permuted(c.tpotTokens, order)
	if c.place != nil {
		c.place = permuted(c.place, order)
	}
	for i := range c.durations {
		old := &c.durations[i]
		var d durations
		if old.lo == nil {
			continue
		}
		for row, from := range order {
			if v, ok := old.get(int(from)); ok {
				d.put(row, v)
			}
		}
		c.durations[i] = d
	}
}

func permuted[T any](list []T, order []int32) []T {
	out := make([]T, len(list))
	for i, from := range order {
		out[i] = list[from]
	}
	return out
}
