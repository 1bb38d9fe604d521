package run

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"plimsoll/internal/record"
)

const (
	partPrefix = "part-"
	partSuffix = ".parquet"
	// pageBytes is how much of a column is kept in memory before it is
	// compressed; there are some seventy columns.
	pageBytes = 32 << 10
	// rowsAtOnce is the number of rows that are handed on together.
	rowsAtOnce = 64
	// valuesAtOnce ends them early, when they have so many events.
	valuesAtOnce = 1 << 14
)

// partRange is the range of part numbers that a file holds: one, or those that
// were merged.
type partRange struct{ first, last int }

func (p partRange) name() string {
	if p.first == p.last {
		return fmt.Sprintf("%s%06d%s", partPrefix, p.first, partSuffix)
	}
	return fmt.Sprintf("%s%06d-%06d%s", partPrefix, p.first, p.last, partSuffix)
}

// parsePart reads the name of a part.
func parsePart(name string) (partRange, bool) {
	s, ok := strings.CutPrefix(name, partPrefix)
	if !ok {
		return partRange{}, false
	}
	if s, ok = strings.CutSuffix(s, partSuffix); !ok {
		return partRange{}, false
	}
	a, b, two := strings.Cut(s, "-")
	if !two {
		b = a
	}
	first, err1 := strconv.Atoi(a)
	last, err2 := strconv.Atoi(b)
	if err1 != nil || err2 != nil || first < 1 || last < first {
		return partRange{}, false
	}
	return partRange{first, last}, true
}

// listParts returns the parts in dir in order of number. Files that are not
// complete are left out, and so are those whose content is in a merged one too
// (a merge that was killed before it removed them); covered has these.
func listParts(dir string) (parts, covered []partRange, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("list parts: %w", err)
	}
	for _, e := range entries {
		if p, ok := parsePart(e.Name()); ok && p.name() == e.Name() {
			parts = append(parts, p)
		}
	}
	// A range comes before those that begin with it and end earlier.
	slices.SortFunc(parts, func(a, b partRange) int {
		if a.first != b.first {
			return a.first - b.first
		}
		return b.last - a.last
	})
	end := 0
	kept := parts[:0]
	for _, p := range parts {
		if p.last <= end {
			covered = append(covered, p)
			continue
		}
		end = p.last
		kept = append(kept, p)
	}
	return kept, covered, nil
}

// file is what a part is written to.
type file interface {
	io.Writer
	io.WriterAt
	Name() string
	Sync() error
	Close() error
}

// newParquet returns a writer of parts to w.
func newParquet(w io.Writer) *parquet.GenericWriter[row] {
	return parquet.NewGenericWriter[row](w, append(parquetOptions(pageBytes), schema)...)
}

// parquetOptions are what all files of a run have in common; page is the size of a
// page in bytes.
func parquetOptions(page int) []parquet.WriterOption {
	return []parquet.WriterOption{
		parquet.DefaultEncodingFor(parquet.Int64, &parquet.DeltaBinaryPacked), // tags cannot say so of pointers
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}),
		parquet.PageBufferSize(page),
		parquet.DataPageStatistics(false),
		parquet.CreatedBy("plimsoll", "1", ""),
	}
}

// openPart opens the part called name, which must be as it was written. rows is
// the number of rows that it says to have, -1 when it says nothing.
func openPart(name string) (f *os.File, pf *parquet.File, rows int64, err error) {
	return openPartTo(name, false)
}

// openPartTo is openPart for a reader who wants single rows, or all of them.
func openPartTo(name string, single bool) (f *os.File, pf *parquet.File, rows int64, err error) {
	f, err = os.Open(name)
	if err != nil {
		return nil, nil, -1, err
	}
	defer func() {
		if err != nil {
			_ = f.Close() // read only: nothing can be lost
		}
	}()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, nil, -1, err
	}
	if rows, err = verify(f, size); err != nil {
		return nil, nil, rows, err
	}
	pf, err = parquet.OpenFile(f, size, parquet.SkipPageIndex(!single), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(16<<10))
	return f, pf, rows, err
}

// readPart calls yield with each record of a part until it returns false, of which only
// the columns wanted are known. It
// returns how many rows could not be read, -1 when not even that is known, and
// why. A damaged part is an error and gives no rows.
func readPart(name string, wanted func(column string) bool, yield func(*record.Request) bool) (lost int64, err error) {
	f, pf, lost, err := openPart(name)
	if err != nil {
		return lost, fmt.Errorf("read part %s: %w", filepath.Base(name), err)
	}
	defer f.Close() // read only: nothing can be lost
	l, err := layoutOf(pf.Schema())
	if err != nil {
		return lost, fmt.Errorf("read part %s: %w", filepath.Base(name), err)
	}
	r := new(record.Request)
	for _, g := range pf.RowGroups() {
		more, err := l.readRecords(g, r, wanted, func(r *record.Request) bool {
			lost--
			return yield(r)
		})
		if err != nil {
			return lost, fmt.Errorf("read part %s: %w", filepath.Base(name), err)
		}
		if !more {
			return 0, nil // ended by the caller
		}
	}
	if lost != 0 {
		return lost, fmt.Errorf("read part %s: it has %d rows less than it says", filepath.Base(name), lost)
	}
	return 0, nil
}

// readGroup calls yield with the rows of g; more is false when yield ended it.
func readGroup(g parquet.RowGroup, rows []parquet.Row, yield func(parquet.Row) bool) (more bool, err error) {
	rr := g.Rows()
	defer rr.Close() // read only: nothing can be lost
	for {
		n, err := rr.ReadRows(rows)
		for _, row := range rows[:n] {
			if !yield(row) {
				return false, nil
			}
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if n == 0 {
			return false, io.ErrNoProgress
		}
	}
}
