package trace

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/parquet-go/parquet-go"
	parquettype "github.com/parquet-go/parquet-go/format"
)

// parquetMagic begins (and ends) a Parquet file.
const parquetMagic = "PAR1"

// isParquet says whether a file is one, and goes back to its beginning.
func isParquet(f *os.File) bool {
	var head [len(parquetMagic)]byte
	n, _ := f.ReadAt(head[:], 0) // what cannot be read here will be said to be so
	return string(head[:n]) == parquetMagic
}

// parquetLines are the rows of a Parquet file as text, so that every format of rows
// can come in one: as CSV when each column holds single values, as JSON lines when
// there are lists or groups. Times are dates, as in the file's own type; NaN is null.
type parquetLines struct {
	name   string
	schema parquet.Node
	flat   *csv.Writer // nil for JSON lines
	rows   *parquet.GenericReader[any]
	got    []any
	left   bytes.Buffer
	err    error
}

func openParquet(f io.ReaderAt, size int64, name string) (p *parquetLines, err error) {
	p = &parquetLines{name: name, got: make([]any, 64)}
	defer p.broken(&err)
	// The library takes as much memory as the last bytes of the file say.
	var end [8]byte
	if _, err := f.ReadAt(end[:], max(0, size-8)); err != nil || string(end[4:]) != parquetMagic || int64(binary.LittleEndian.Uint32(end[:])) > size-12 {
		return nil, fmt.Errorf("read trace %s: Parquet: its end is missing: the file is cut off or broken", name)
	}
	file, err := parquet.OpenFile(f, size, parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return nil, fmt.Errorf("read trace %s: Parquet: %w", name, err)
	}
	p.schema, p.rows = file.Schema(), parquet.NewGenericReader[any](file)
	var names []string
	for _, f := range p.schema.Fields() {
		names = append(names, f.Name())
		if !f.Leaf() || f.Repeated() {
			return p, nil
		}
	}
	p.flat = csv.NewWriter(&p.left)
	return p, p.row(names)
}

// row writes a line of a table.
func (p *parquetLines) row(cells []string) error {
	err := p.flat.Write(cells)
	p.flat.Flush()
	return err
}

// cell is a value in a table.
func cell(v any) string {
	switch x := v.(type) {
	case nil:
		return ""
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

// broken makes an error of a panic: the library has them for files that contradict
// themselves.
func (p *parquetLines) broken(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("read trace %s: Parquet: the file contradicts itself: %v", p.name, r)
	}
}

// Read reads some of the lines.
func (p *parquetLines) Read(b []byte) (int, error) {
	for p.left.Len() == 0 {
		if p.err != nil {
			return 0, p.err
		}
		p.err = p.more()
	}
	return p.left.Read(b)
}

// more makes lines of the next rows.
func (p *parquetLines) more() (err error) {
	defer p.broken(&err)
	clear(p.got)
	n, err := p.rows.Read(p.got)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read trace %s: Parquet: %w", p.name, err)
	}
	for _, row := range p.got[:n] {
		value := jsonOf(p.schema, row)
		if p.flat != nil {
			of, _ := value.(map[string]any)
			var cells []string
			for _, f := range p.schema.Fields() {
				cells = append(cells, cell(of[f.Name()]))
			}
			if err := p.row(cells); err != nil {
				return err
			}
			continue
		}
		line, jerr := json.Marshal(value)
		if jerr != nil {
			return fmt.Errorf("read trace %s: Parquet: %w", p.name, jerr)
		}
		p.left.Write(line)
		p.left.WriteByte('\n')
	}
	if n == 0 && err == nil {
		return io.ErrNoProgress
	}
	return err
}

// jsonOf makes of a value what JSON has for it.
func jsonOf(node parquet.Node, v any) any {
	switch x := v.(type) {
	case []any:
		for i := range x {
			x[i] = jsonOf(elementOf(node), x[i])
		}
		return x
	case map[string]any:
		if !node.Leaf() {
			for _, f := range node.Fields() {
				if inner, ok := x[f.Name()]; ok {
					x[f.Name()] = jsonOf(f, inner)
				}
			}
		}
		return x
	case float32:
		return finite(float64(x))
	case float64:
		return finite(x)
	case []byte:
		return string(x)
	}
	if !node.Leaf() {
		return v
	}
	n, whole := v.(int64)
	logical := node.Type().LogicalType()
	if !whole || logical == nil {
		return v
	}
	switch t := logical.Value.(type) {
	case *parquettype.IntType:
		if !t.IsSigned {
			return uint64(n)
		}
	case *parquettype.TimestampType:
		if t.Unit.Value != nil {
			unit := int64(t.Unit.Value.Duration())
			perSecond := int64(time.Second) / unit
			return time.Unix(n/perSecond, n%perSecond*unit).UTC().Format(time.RFC3339Nano)
		}
	}
	return v
}

// elementOf returns what a list is a list of.
func elementOf(node parquet.Node) parquet.Node {
	for range 2 { // the group of a LIST, and what repeats in it
		if node.Leaf() || len(node.Fields()) != 1 {
			break
		}
		node = node.Fields()[0]
	}
	return node
}

func finite(x float64) any {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return x
}

// Close releases what the reader holds.
func (p *parquetLines) Close() error { return p.rows.Close() }
