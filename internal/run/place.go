package run

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/parquet-go/parquet-go"

	"plimsoll/internal/record"
)

// Place says where the record of a request lies: in which part, and in which row of
// it, counted from 0. It holds as long as the run's parts are not merged, which they
// are no more once the run has ended.
type Place struct {
	Part string
	Row  int64
}

// ErrNoRecord says that there is no such record on disk.
var ErrNoRecord = errors.New("no such record on disk")

// Placed returns the records as Requests does, each with its place. Only the named columns
// of requests/part-*.parquet are read; without a name it is all of them.
func (r *Run) Placed(columns ...string) iter.Seq2[Place, *record.Request] {
	wanted := everything
	if len(columns) > 0 {
		wanted = func(name string) bool { return slices.Contains(columns, name) }
	}
	return func(yield func(Place, *record.Request) bool) {
		var times spans
		r.notes = r.eachPart(requestsDir, func(name string, skip int64) (rows, lost int64, more bool, err error) {
			more = true
			p := Place{Part: filepath.Base(name), Row: -1}
			lost, err = readPart(name, wanted, func(q *record.Request) bool {
				p.Row++
				if p.Row < skip {
					return true
				}
				rows++
				if q.End != record.Unset {
					times.add(p.Part, q.End)
				}
				more = yield(p, q)
				return more
			})
			return rows, lost, more, err
		})
		r.notes = times.bound(r.notes)
	}
}

// PartState says what a part was when it was last looked at.
type PartState struct {
	Name string
	Size int64
}

// Parts returns the parts that hold the requests, in order.
func (r *Run) Parts() ([]PartState, error) {
	dir := filepath.Join(r.dir, requestsDir)
	parts, _, err := listParts(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	out := make([]PartState, 0, len(parts))
	for _, p := range parts {
		fi, err := os.Stat(filepath.Join(dir, p.name()))
		if err != nil {
			return nil, fmt.Errorf("list parts: %w", err)
		}
		out = append(out, PartState{p.name(), fi.Size()})
	}
	return out, nil
}

// Check says why a file of the run, requests/PART, telemetry/PART or timeline.parquet,
// cannot be read; nil when it is as it was written. The error wraps fs.ErrNotExist when
// there is none.
func (r *Run) Check(file string) error {
	dir, part := path.Split(file)
	if _, ok := parsePart(part); file != timelineFile && (!ok || dir != requestsDir+"/" && dir != telemetryDir+"/") {
		return fmt.Errorf("check %q: no such file of a run", file)
	}
	f, _, _, err := openPart(filepath.Join(r.dir, filepath.FromSlash(file)))
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	return f.Close()
}

// TimelineState returns the size of timeline.parquet and the last bytes of it, in
// which its checksum is; the error wraps fs.ErrNotExist when there is none.
func (r *Run) TimelineState() (size int64, tail []byte, err error) {
	f, err := os.Open(filepath.Join(r.dir, timelineFile))
	if err != nil {
		return 0, nil, fmt.Errorf("look at timeline: %w", err)
	}
	defer f.Close() // read only: nothing can be lost
	if size, err = f.Seek(0, io.SeekEnd); err != nil {
		return 0, nil, fmt.Errorf("look at timeline: %w", err)
	}
	const most = 64 << 10
	tail = make([]byte, min(size, most))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil {
		return 0, nil, fmt.Errorf("look at timeline: %w", err)
	}
	return size, tail, nil
}

// RequestAt returns the record at a place, without reading those before it. The error
// wraps ErrNoRecord when there is none.
func (r *Run) RequestAt(p Place) (*record.Request, error) {
	if _, ok := parsePart(p.Part); !ok || p.Row < 0 {
		return nil, fmt.Errorf("read record %d of %q: %w", p.Row, p.Part, ErrNoRecord)
	}
	q, err := readRow(filepath.Join(r.dir, requestsDir, p.Part), func(pf *parquet.File) (int64, error) { return p.Row, nil })
	if err != nil {
		return nil, fmt.Errorf("read record %d of %s: %w", p.Row, p.Part, err)
	}
	return q, nil
}

// FindRequest returns the record of a request by its ID, looking through the parts from
// the newest back. The error wraps ErrNoRecord when there is none, as of one that ended
// a few seconds ago.
func (r *Run) FindRequest(id uint64) (*record.Request, error) {
	dir := filepath.Join(r.dir, requestsDir)
	parts, _, err := listParts(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, p := range slices.Backward(parts) {
		q, err := readRow(filepath.Join(dir, p.name()), func(pf *parquet.File) (int64, error) { return rowOf(pf, id) })
		switch {
		case err == nil:
			return q, nil
		case errors.Is(err, ErrNoRecord), errors.Is(err, fs.ErrNotExist), errors.Is(err, errDamaged):
			continue // merged meanwhile, or not in this one
		}
		return nil, fmt.Errorf("find record %d: %w", id, err)
	}
	return nil, fmt.Errorf("find record %d: %w", id, ErrNoRecord)
}

// rowOf returns the row of a part that has an ID.
func rowOf(pf *parquet.File, id uint64) (int64, error) {
	at, ok := pf.Schema().Lookup("id")
	if !ok || at.Node.Type().Kind() != parquet.Int64 {
		return 0, ErrNoRecord
	}
	before := int64(0)
	for _, g := range pf.RowGroups() {
		found, n := int64(-1), 0
		err := eachPage(g.ColumnChunks()[at.ColumnIndex], func(v data) {
			if i := slices.Index(v.Int64(), int64(id)); i >= 0 && found < 0 {
				found = int64(n + i)
			}
		}, &n, g.NumRows())
		if err != nil {
			return 0, err
		}
		if found >= 0 {
			return before + found, nil
		}
		before += g.NumRows()
	}
	return 0, ErrNoRecord
}

// readRow returns the record in the row of a part that which tells.
func readRow(name string, which func(*parquet.File) (int64, error)) (*record.Request, error) {
	f, pf, _, err := openPartTo(name, true)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only: nothing can be lost
	at, err := which(pf)
	if err != nil {
		return nil, err
	}
	l, err := layoutOf(pf.Schema())
	if err != nil {
		return nil, err
	}
	for _, g := range pf.RowGroups() {
		if at >= g.NumRows() {
			at -= g.NumRows()
			continue
		}
		rows := g.Rows()
		defer rows.Close() // read only: nothing can be lost
		if err := rows.SeekToRow(at); err != nil {
			return nil, err
		}
		one := make([]parquet.Row, 1)
		n, err := rows.ReadRows(one)
		if n == 0 {
			if err == nil || errors.Is(err, io.EOF) {
				err = ErrNoRecord
			}
			return nil, err
		}
		q := new(record.Request)
		l.read(q, one[0])
		return q, nil
	}
	return nil, ErrNoRecord
}
