// Package run is one run on disk: a folder with the scenario, run.json, the
// requests as Parquet parts that are closed every few seconds while the run goes
// on, and the summary. It owns the file formats, and that a killed process or a
// lost power line costs at most the last seconds: what has its name is whole. It
// never computes a figure (stats) and never waits for the disk on behalf of a
// request.
package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"plimsoll/internal/record"
	"plimsoll/internal/stats"
)

// Run is a run on disk, open for reading. It may still be under way: then it
// has what was written when it is read.
type Run struct {
	dir   string
	info  Info
	notes []Note
}

// Note says what of a run could not be read.
type Note struct {
	// Part is the file's name.
	Part string
	// Lost is the number of records that are lost, -1 when the file does not
	// tell.
	Lost int64
	Text string
	// After and Before bound the time, in ns of the run's clock, of what is lost: that of
	// the nearest records before and behind it. Unset where there are none, and where
	// nobody looked.
	After, Before int64
}

// span is the time of the records of one part.
type span struct {
	part        string
	first, last int64
}

// spans are those of parts in the order in which they are read.
type spans []span

// add notes that a part has a record of a time.
func (s *spans) add(part string, t int64) {
	if n := len(*s); n == 0 || (*s)[n-1].part != part {
		*s = append(*s, span{part, t, t})
		return
	}
	last := &(*s)[len(*s)-1]
	last.first, last.last = min(last.first, t), max(last.last, t)
}

// bound fills in between which records lies what is lost. Names of parts are in the order
// of time.
func (s spans) bound(notes []Note) []Note {
	for i := range notes {
		n := &notes[i]
		for _, p := range s {
			switch {
			case p.part < n.Part && (n.After == record.Unset || p.last > n.After):
				n.After = p.last
			case p.part > n.Part && (n.Before == record.Unset || p.first < n.Before):
				n.Before = p.first
			}
		}
	}
	return notes
}

// Open opens the run in the folder dir.
func Open(dir string) (*Run, error) {
	b, err := readFile(filepath.Join(dir, infoFile))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("open run %s: no %s there: want the folder of one run: %w", dir, infoFile, err)
		}
		return nil, fmt.Errorf("open run: %w", err)
	}
	r := &Run{dir: dir}
	if err := json.Unmarshal(b, &r.info); err != nil {
		return nil, fmt.Errorf("open run: decode %s: %w", filepath.Join(dir, infoFile), err)
	}
	if r.info.Schema != InfoSchemaName {
		return nil, fmt.Errorf("open run: %s: schema is %q, want %q", filepath.Join(dir, infoFile), r.info.Schema, InfoSchemaName)
	}
	return r, nil
}

// Dir returns the run's folder.
func (r *Run) Dir() string { return r.dir }

// Info returns the content of run.json.
func (r *Run) Info() Info { return r.info }

// Scenario returns the content of scenario.yaml.
func (r *Run) Scenario() ([]byte, error) {
	b, err := readFile(filepath.Join(r.dir, scenarioFile))
	if err != nil {
		return nil, fmt.Errorf("read scenario of run: %w", err)
	}
	return b, nil
}

// Summary returns the saved summary. The error wraps fs.ErrNotExist when the
// run was not ended properly.
func (r *Run) Summary() (*stats.Summary, error) {
	b, err := readFile(filepath.Join(r.dir, summaryFile))
	if err != nil {
		return nil, fmt.Errorf("read summary of run: %w", err)
	}
	return stats.ParseSummary(b)
}

// Requests returns the records on disk in the order in which they were written,
// which is about that of their ends. A record is valid until the next one.
// Parts that are not complete are skipped, and so are damaged ones, of which
// Notes tells afterwards. Parts that a running
// writer merges meanwhile are neither missed nor read twice.
func (r *Run) Requests() iter.Seq[*record.Request] {
	return func(yield func(*record.Request) bool) {
		r.notes = r.eachPart(requestsDir, func(name string, skip int64) (rows, lost int64, more bool, err error) {
			more = true
			lost, err = readPart(name, everything, func(q *record.Request) bool {
				if skip > 0 {
					skip--
					return true
				}
				rows++
				more = yield(q)
				return more
			})
			return rows, lost, more, err
		})
	}
}

// everything wants all columns.
func everything(string) bool { return true }

// eachPart calls read with the name of each part in a folder of the run and the
// number of its first rows that were read before, under another name. read
// returns how many rows it took, how many could not be read and whether to go on.
// What could not be read is told in the notes; a missing folder holds nothing.
func (r *Run) eachPart(folder string, read func(name string, skip int64) (rows, lost int64, more bool, err error)) (notes []Note) {
	dir := filepath.Join(r.dir, folder)
	parts, _, err := listParts(dir)
	if err != nil {
		return append(notes, Note{Part: folder, Lost: -1, Text: err.Error(), After: record.Unset, Before: record.Unset})
	}
	done := make(map[partRange]int64) // rows
	relisted := 0
	for i := 0; i < len(parts); i++ {
		p := parts[i]
		var skip int64
		for q, n := range done {
			if p.first <= q.first && q.last <= p.last {
				skip += n
			}
		}
		rows, lost, more, err := read(filepath.Join(dir, p.name()), skip)
		if !more {
			return notes
		}
		done[p] += rows
		if errors.Is(err, fs.ErrNotExist) && relisted < 100 {
			relisted++
			if now, _, err := listParts(dir); err == nil {
				parts = slices.DeleteFunc(now, func(q partRange) bool { return q.last < p.first })
				i = -1
				continue
			}
		}
		if err != nil {
			notes = append(notes, Note{Part: p.name(), Lost: lost, Text: err.Error(), After: record.Unset, Before: record.Unset})
		}
	}
	return notes
}

// Notes says what the last full pass over Requests could not read; nil when it
// read everything.
func (r *Run) Notes() []Note { return r.notes }

// Summarize makes the summary again from the records, with the input that Input
// returns.
func (r *Run) Summarize() (*stats.Summary, error) {
	in, err := r.Input()
	if err != nil {
		return nil, err
	}
	return r.SummarizeAs(in), nil
}

// Input returns what the summary depends on beside the records, as run.json holds
// it. Of a run that was killed that is the plan, cut at the last moment of which
// there is a record.
func (r *Run) Input() (stats.Input, error) {
	if r.info.Input == nil {
		return stats.Input{}, fmt.Errorf("summarize run %s: run.json says nothing of its windows", r.info.ID)
	}
	in := *r.info.Input
	in.Steps = slices.Clone(in.Steps)
	if r.info.State == Running {
		last := int64(0)
		for q := range r.Requests() {
			if q.End != record.Unset {
				last = max(last, q.End)
			}
		}
		in.Cut(last)
	}
	return in, nil
}

// SummarizeAs makes the summary from the records with an input. Records in damaged
// parts count as dropped, which makes the run invalid.
func (r *Run) SummarizeAs(in stats.Input) *stats.Summary {
	c := stats.NewCollector(in)
	for q := range r.Requests() {
		c.Add(q)
	}
	for _, n := range r.notes { // what cannot be read is as good as dropped
		in.Client.DroppedRecords += max(n.Lost, 1)
	}
	c.SetClient(in.Client)
	return c.Summary()
}

// List returns the runs in root, oldest first. Folders that are no runs are left
// out.
func List(root string) ([]*Run, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	var runs []*Run
	for _, e := range entries {
		if r, err := Open(filepath.Join(root, e.Name())); err == nil {
			runs = append(runs, r)
		}
	}
	slices.SortStableFunc(runs, func(a, b *Run) int {
		if c := a.info.Start.Compare(b.info.Start); c != 0 {
			return c
		}
		return strings.Compare(a.info.ID, b.info.ID)
	})
	return runs, nil
}
