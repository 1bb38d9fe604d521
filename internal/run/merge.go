package run

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/parquet-go/parquet-go"
)

const (
	// mergedRows is the number of rows in a group of a merged file.
	mergedRows = 1 << 15
	// mergedValues is the number of values, nulls included, from which on a part
	// stays in groups of its own: its pages are copied as they are, which takes some
	// twentieth of the time. A group costs about 14 KB beyond its values.
	mergedValues = 1 << 18
)

// parquetWriter is what merged files are written by.
type parquetWriter interface {
	parquet.RowWriter
	WriteRowGroup(g parquet.RowGroup) (int64, error)
	Flush() error
	SetKeyValueMetadata(key, value string)
	Close() error
}

// requestParts and sampleParts make the writers of the two kinds of parts.
func requestParts(w io.Writer) parquetWriter { return newParquet(w) }

func sampleParts(w io.Writer) parquetWriter { return newSampleParquet(w) }

// merge puts parts, which must be neighbours in ascending order, into one file
// and removes them. It may be killed at any moment: until the merged file has
// its name it does not count, and from then on the parts that it holds do not.
// A part that cannot be read stays where it is and nothing is merged.
func merge(kind func(io.Writer) parquetWriter, dir string, parts []partRange) (err error) {
	all := partRange{parts[0].first, parts[len(parts)-1].last}
	name := filepath.Join(dir, all.name())
	f, err := os.OpenFile(name+tmpSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("merge parts: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name()) // what matters is the first error
			err = fmt.Errorf("merge parts %d to %d: %w", all.first, all.last, err)
		}
	}()
	sum := newSummer(f)
	buf := bufio.NewWriterSize(sum, 64<<10)
	w := kind(buf)
	rows := make([]parquet.Row, rowsAtOnce)
	inGroup, total := int64(0), int64(0)
	for _, p := range parts {
		n, whole, err := copyPart(w, filepath.Join(dir, p.name()), rows)
		if err != nil {
			return err
		}
		total += n
		if inGroup += n; whole {
			inGroup = 0
		} else if inGroup >= mergedRows {
			if err := w.Flush(); err != nil {
				return err
			}
			inGroup = 0
		}
	}
	w.SetKeyValueMetadata(checksumKey, checksumValue(total))
	if err := w.Close(); err != nil {
		return err
	}
	if err := buf.Flush(); err != nil {
		return err
	}
	if err := sum.seal(f); err != nil {
		return err
	}
	if err := commit(f, name); err != nil {
		return err
	}
	for _, p := range parts {
		if err := os.Remove(filepath.Join(dir, p.name())); err != nil {
			return err
		}
	}
	return nil
}

// copyPart appends the rows of the part called name to w; whole says that they
// are in groups of their own.
func copyPart(w parquetWriter, name string, rows []parquet.Row) (n int64, whole bool, err error) {
	f, pf, _, err := openPart(name)
	if err != nil {
		return 0, false, err
	}
	defer f.Close() // read only: nothing can be lost
	values := int64(0)
	for _, g := range pf.Metadata().RowGroups {
		for i := range g.Columns {
			values += g.Columns[i].MetaData.NumValues
		}
	}
	whole = values >= mergedValues
	for _, g := range pf.RowGroups() {
		if whole {
			m, err := w.WriteRowGroup(g)
			n += m
			if err != nil {
				return n, whole, err
			}
			continue
		}
		batch := make([]parquet.Row, 1)
		var werr error
		if _, err := readGroup(g, rows, func(row parquet.Row) bool {
			batch[0] = row
			_, werr = w.WriteRows(batch)
			n++
			return werr == nil
		}); err != nil {
			return n, whole, err
		}
		if werr != nil {
			return n, whole, werr
		}
	}
	return n, whole, nil
}
