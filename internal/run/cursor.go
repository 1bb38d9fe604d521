package run

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"

	"plimsoll/internal/record"
)

// cursor reads one column of a row group, a row at a time: its pages are decoded whole,
// and no value is copied on the way to the record.
type cursor struct {
	column *column
	pages  parquet.Pages
	page   parquet.Page // the one that is read, nil before the first
	kind   parquet.Kind
	// most is the definition level of a value that is not null.
	most byte
	list bool

	// Of the page: where it is among its levels and among its values, which lack nulls.
	definition, repetition []byte
	level, levels          int
	value                  int
	int64s                 []int64
	int32s                 []int32
	bits                   []byte
	text                   []byte
	ends                   []uint32
	words                  parquet.Dictionary // whose numbers are in int32s
}

// errShort says that a column ends before the rows do.
var errShort = errors.New("a column ends early")

// cursors returns one for each column of g that is known and wanted.
func (l *layout) cursors(g parquet.RowGroup, wanted func(name string) bool) []*cursor {
	var out []*cursor
	chunks := g.ColumnChunks()
	for i, c := range l.leaves {
		if c == nil || !wanted(c.name) {
			continue
		}
		leaf := l.levels[i]
		out = append(out, &cursor{
			column: c, pages: chunks[i].Pages(), kind: leaf.Node.Type().Kind(),
			most: byte(leaf.MaxDefinitionLevel), list: leaf.MaxRepetitionLevel > 0,
		})
	}
	return out
}

// next goes to the next page.
func (c *cursor) next() error {
	c.release()
	p, err := c.pages.ReadPage()
	if err != nil {
		return err
	}
	c.page = p
	c.definition, c.repetition = p.DefinitionLevels(), p.RepetitionLevels()
	c.level, c.levels, c.value = 0, int(p.NumValues()), 0
	if len(c.definition) > 0 && len(c.definition) < c.levels || len(c.repetition) > 0 && len(c.repetition) < c.levels {
		return errShort
	}
	d := p.Data()
	if c.words = p.Dictionary(); c.words != nil {
		c.int32s = d.Int32()
		return nil
	}
	switch c.kind {
	case parquet.Int64:
		c.int64s = d.Int64()
	case parquet.Int32:
		c.int32s = d.Int32()
	case parquet.Boolean:
		c.bits = d.Boolean()
	case parquet.ByteArray:
		c.text, c.ends = d.ByteArray()
	default:
		return fmt.Errorf("a column of kind %s", c.kind)
	}
	return nil
}

func (c *cursor) release() {
	if c.page != nil {
		parquet.Release(c.page)
		c.page = nil
	}
}

// close gives up the pages.
func (c *cursor) close() {
	c.release()
	_ = c.pages.Close() // read only: nothing can be lost
}

// take returns the next value of the page that is not null.
func (c *cursor) take() (v parquet.Value, err error) {
	i := c.value
	c.value++
	switch {
	case c.words != nil:
		if i >= len(c.int32s) || c.int32s[i] < 0 || int(c.int32s[i]) >= c.words.Len() {
			return v, errShort
		}
		return c.words.Index(c.int32s[i]), nil
	case c.kind == parquet.Int64:
		if i < len(c.int64s) {
			return parquet.Int64Value(c.int64s[i]), nil
		}
	case c.kind == parquet.Int32:
		if i < len(c.int32s) {
			return parquet.Int32Value(c.int32s[i]), nil
		}
	case c.kind == parquet.Boolean:
		if i/8 < len(c.bits) {
			return parquet.BooleanValue(c.bits[i/8]>>(i%8)&1 != 0), nil
		}
	case i+1 < len(c.ends):
		if from, to := c.ends[i], c.ends[i+1]; from <= to && int(to) <= len(c.text) {
			return parquet.ByteArrayValue(c.text[from:to]), nil
		}
	}
	return v, errShort
}

// readList reads a list of the next row into r at once, where it lies in one page before
// others and has no nulls; false says that it has to be read entry by entry.
func (c *cursor) readList(r *record.Request) bool {
	end := c.level + 1
	for end < c.levels && c.repetition[end] != 0 {
		end++
	}
	if end >= c.levels {
		return false
	}
	for _, d := range c.definition[c.level:end] {
		if d != c.most {
			return false
		}
	}
	from, to := c.value, c.value+end-c.level
	switch {
	case c.column.int64s != nil && c.kind == parquet.Int64 && c.words == nil && to <= len(c.int64s):
		c.column.int64s(r, c.int64s[from:to])
	case c.column.int32s != nil && c.kind == parquet.Int32 && c.words == nil && to <= len(c.int32s):
		c.column.int32s(r, c.int32s[from:to])
	default:
		return false
	}
	c.level, c.value = end, to
	return true
}

// read reads the column's values of the next row into r.
func (c *cursor) read(r *record.Request) error {
	if c.list && c.level < c.levels && len(c.repetition) > 0 && len(c.definition) > 0 && c.readList(r) {
		return nil
	}
	for n, at := 0, 0; ; n++ {
		for c.level == c.levels {
			err := c.next()
			if errors.Is(err, io.EOF) && n > 0 {
				return nil
			}
			if errors.Is(err, io.EOF) {
				return errShort
			}
			if err != nil {
				return err
			}
		}
		if n > 0 && (len(c.repetition) == 0 || c.repetition[c.level] == 0) {
			return nil // the next row begins
		}
		null := len(c.definition) > 0 && c.definition[c.level] < c.most
		if c.level++; !null {
			v, err := c.take()
			if err != nil {
				return err
			}
			if c.column.at == nil {
				c.column.get(r, v)
			} else {
				c.column.at(r, at, v)
				at++
			}
		}
		if !c.list {
			return nil
		}
	}
}

// readRecords calls yield with the records of g, of which only the columns wanted are
// known; more is false when yield ended it. A record is valid until the next one.
func (l *layout) readRecords(g parquet.RowGroup, r *record.Request, wanted func(name string) bool, yield func(*record.Request) bool) (more bool, err error) {
	list := l.cursors(g, wanted)
	defer func() {
		for _, c := range list {
			c.close()
		}
	}()
	for range g.NumRows() {
		r.Reset()
		for _, c := range list {
			if err := c.read(r); err != nil {
				return false, fmt.Errorf("column %s: %w", c.column.name, err)
			}
		}
		follow(r.Events, r.FirstToken)
		if !yield(r) {
			return false, nil
		}
	}
	return true, nil
}
