package run

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/parquet-go/parquet-go"

	"plimsoll/internal/signal"
)

// sampleRow states the columns of telemetry/part-*.parquet: one row per value
// that a source stated. Times are ns on the run's clock: the start and end of the
// request that fetched the value, or twice the source's own time.
type sampleRow struct {
	TStart int64 `parquet:"t_start_ns"`
	TEnd   int64 `parquet:"t_end_ns"`
	// Source is the place of the source in the list telemetry of run.json.
	Source int32 `parquet:"source,dict"`
	// Signal is the canonical name, or the server's own where there is none.
	Signal string `parquet:"signal,dict"`
	// Field is value, or sum, count or bucket of a distribution.
	Field string `parquet:"field,dict"`
	// LE is the upper bound of a bucket.
	LE     *float64 `parquet:"le"`
	Labels string   `parquet:"labels,dict,optional"`
	Value  float64  `parquet:"value"`
	// Series numbers the courses of the run: equal in rows that are alike in all but
	// time and value.
	Series int32 `parquet:"series"`
	// Raw says that Signal is no canonical name.
	Raw bool `parquet:"raw"`
}

// Columns that are read by their place, in the order of sampleRow.
const (
	sampleTStart = 0
	sampleTEnd   = 1
	sampleValue  = 7
	sampleSeries = 8
)

const (
	// sampleBlock is the number of samples that are queued together.
	sampleBlock = 4096
	// sampleBlocks bounds what waits for the writer: 12 MiB, half a million
	// samples, which 64 sources of 600 series state in 13 s.
	sampleBlocks = 96
	// partSamples ends a part early.
	partSamples = 32 * sampleBlock
	// maxSeries bounds what a damaged or hostile file makes a reader keep.
	maxSeries = 1 << 24
)

func newSampleParquet(w io.Writer) *parquet.GenericWriter[sampleRow] {
	return parquet.NewGenericWriter[sampleRow](w,
		append(parquetOptions(2*pageBytes), parquet.DefaultEncodingFor(parquet.Int32, &parquet.DeltaBinaryPacked))...)
}

// Sink takes the samples of a run's telemetry and writes them beside its
// requests. It never waits for the disk: what a full queue cannot take is dropped
// and counted. It is safe for concurrent use; nothing may be added after the
// Writer's Close.
type Sink struct {
	w *Writer

	// mu guards what follows. It is taken before the Writer's.
	mu      sync.Mutex
	series  []signal.Series
	index   map[signal.Series]int32
	queue   [][]signal.Sample // full blocks and the one being filled
	free    [][]signal.Sample
	blocks  int // of the queue and of those that are being written
	dropped int64
	closed  bool

	kick     chan struct{}
	quit     chan struct{}
	finished chan struct{}

	// Of the writing goroutine alone, until finished.
	folder  folder
	parquet *parquet.GenericWriter[sampleRow]
	rows    []sampleRow
	known   []signal.Series // a copy of series as far as the writer has seen them
}

var _ signal.Sink = (*Sink)(nil)

// Sink returns where the telemetry of the run goes. The folder for it is made
// when it is first asked for. Not to be called after Close.
func (w *Writer) Sink() *Sink {
	w.sinkOnce.Do(func() {
		s := &Sink{
			w: w, index: make(map[signal.Series]int32),
			kick: make(chan struct{}, 1), quit: make(chan struct{}), finished: make(chan struct{}),
			folder: newFolder(w, telemetryDir, sampleParts), rows: make([]sampleRow, 1024),
		}
		if err := os.Mkdir(s.folder.dir, 0o755); err != nil {
			w.fail(fmt.Errorf("make folder of telemetry: %w", err))
		}
		w.sink = s
		go s.write()
	})
	if w.sink == nil {
		panic("BUG: telemetry for a run that has been closed")
	}
	return w.sink
}

// Declare makes a series known and returns its index. A series that is known has
// the index that it had.
func (s *Sink) Declare(d signal.Series) int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok := s.index[d]; ok {
		return i
	}
	i := int32(len(s.series))
	s.series = append(s.series, d)
	s.index[d] = i
	return i
}

// Add queues samples for writing; the slice is not kept.
func (s *Sink) Add(samples []signal.Sample) {
	failed := s.w.Err() != nil
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		panic("BUG: a sample was added to a run after Close")
	}
	if failed {
		s.dropped += int64(len(samples))
		return
	}
	for len(samples) > 0 {
		n := len(s.queue)
		if n == 0 || len(s.queue[n-1]) == sampleBlock {
			if s.blocks == sampleBlocks {
				s.dropped += int64(len(samples))
				break
			}
			block := make([]signal.Sample, 0, sampleBlock)
			if f := len(s.free); f > 0 {
				block, s.free = s.free[f-1], s.free[:f-1]
			}
			s.queue = append(s.queue, block)
			s.blocks++
			n++
		}
		b := s.queue[n-1]
		room := min(sampleBlock-len(b), len(samples))
		s.queue[n-1] = append(b, samples[:room]...)
		samples = samples[room:]
	}
	if len(s.queue) >= partSamples/sampleBlock {
		select {
		case s.kick <- struct{}{}:
		default:
		}
	}
}

// Dropped returns how many samples have been dropped so far.
func (s *Sink) Dropped() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped
}

// Series returns the series declared so far, in the order of their indexes.
func (s *Sink) Series() []signal.Series {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]signal.Series(nil), s.series...)
}

// close writes what is queued and ends the writing.
func (s *Sink) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	close(s.quit)
	<-s.finished
}

// write is the writing goroutine.
func (s *Sink) write() {
	defer close(s.finished)
	tick := time.NewTicker(s.w.partEvery)
	defer tick.Stop()
	for closing := false; !closing; {
		select {
		case <-s.quit:
			closing = true
		case <-tick.C:
		case <-s.kick:
		}
		for {
			blocks := s.take()
			if len(blocks) == 0 {
				break
			}
			s.writePart(blocks)
			s.folder.mergeSome()
			if !closing && len(blocks) < partSamples/sampleBlock {
				break
			}
		}
	}
	s.folder.wait()
}

// take returns the oldest blocks of the queue, at most a part's worth.
func (s *Sink) take() [][]signal.Sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.queue), partSamples/sampleBlock)
	blocks := append([][]signal.Sample(nil), s.queue[:n]...)
	s.queue = append(s.queue[:0], s.queue[n:]...)
	s.known = append(s.known, s.series[len(s.known):]...)
	return blocks
}

// writePart writes blocks as one part, or counts what is in them as dropped.
func (s *Sink) writePart(blocks [][]signal.Sample) {
	err := s.w.Err()
	if err == nil {
		err = s.folder.put(func(name string) (int64, error) { return s.writeFile(name, blocks) })
		if err != nil {
			s.w.fail(fmt.Errorf("write telemetry: %w", err))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range blocks {
		if err != nil {
			s.dropped += int64(len(b))
		}
		s.free = append(s.free, b[:0])
		s.blocks--
	}
}

func (s *Sink) writeFile(name string, blocks [][]signal.Sample) (rows int64, err error) {
	defer func() {
		if err != nil {
			s.parquet = nil // half a part is in it
		}
	}()
	return sealed(s.w.create, name, func(to io.Writer) (int64, error) {
		if s.parquet == nil {
			s.parquet = newSampleParquet(to)
		} else {
			s.parquet.Reset(to)
		}
		rows, n := int64(0), 0
		flush := func() error {
			_, err := s.parquet.Write(s.rows[:n])
			rows, n = rows+int64(n), 0
			return err
		}
		for _, b := range blocks {
			for i := range b {
				d := &s.known[b[i].Series]
				r := &s.rows[n]
				*r = sampleRow{
					TStart: b[i].Start, TEnd: b[i].End, Value: b[i].Value, Series: b[i].Series,
					Source: int32(d.Source), Signal: d.Raw, Raw: d.Signal == signal.None, Field: d.Field.String(), Labels: d.Labels,
				}
				if d.Signal != signal.None {
					r.Signal = d.Signal.String()
				}
				if d.Field == signal.TotalBucket {
					r.LE = &d.Bound
				}
				if n++; n == len(s.rows) {
					if err := flush(); err != nil {
						return rows, err
					}
				}
			}
		}
		if err := flush(); err != nil {
			return rows, err
		}
		s.parquet.SetKeyValueMetadata(checksumKey, checksumValue(rows))
		return rows, s.parquet.Close()
	})
}

// Samples is the telemetry of a run on disk.
type Samples struct {
	run    *Run
	series []signal.Series
	known  []bool
	notes  []Note
	batch  []signal.Sample
}

// Samples returns the telemetry of the run.
func (r *Run) Samples() *Samples { return &Samples{run: r} }

// Series returns the series that samples have named so far, by their index. The
// slice is not to be changed.
func (s *Samples) Series() []signal.Series { return s.series }

// Notes says what the last full pass could not read; nil when it read everything.
func (s *Samples) Notes() []Note { return s.notes }

// All returns the samples on disk, many at once, in the order in which they were
// written: that of time within each series. A slice is valid until the next one.
// Series has what they name. A run without telemetry has none.
func (s *Samples) All() iter.Seq[[]signal.Sample] {
	return func(yield func([]signal.Sample) bool) {
		s.notes = nil
		if _, err := os.Stat(filepath.Join(s.run.dir, telemetryDir)); errors.Is(err, fs.ErrNotExist) {
			return
		}
		var times spans
		s.notes = s.run.eachPart(telemetryDir, func(name string, skip int64) (rows, lost int64, more bool, err error) {
			more = true
			lost, err = s.readPart(name, func(batch []signal.Sample) bool {
				if skip >= int64(len(batch)) {
					skip -= int64(len(batch))
					return true
				}
				batch = batch[skip:]
				skip = 0
				rows += int64(len(batch))
				for _, i := range []int{0, len(batch) - 1} {
					times.add(filepath.Base(name), batch[i].End)
				}
				more = yield(batch)
				return more
			})
			return rows, lost, more, err
		})
		s.notes = times.bound(s.notes)
	}
}

// readPart calls yield with the samples of a part until it returns false. It
// returns how many rows could not be read, -1 when not even that is known.
func (s *Samples) readPart(name string, yield func([]signal.Sample) bool) (lost int64, err error) {
	fail := func(err error) (int64, error) {
		return lost, fmt.Errorf("read part %s: %w", filepath.Base(name), err)
	}
	f, pf, lost, err := openPart(name)
	if err != nil {
		return fail(err)
	}
	defer f.Close() // read only: nothing can be lost
	if err := sameColumns(pf.Schema()); err != nil {
		return fail(err)
	}
	for _, g := range pf.RowGroups() {
		batch, err := s.readGroup(g)
		if err != nil {
			return fail(err)
		}
		lost -= int64(len(batch))
		if !yield(batch) {
			return 0, nil // ended by the caller
		}
	}
	if lost != 0 {
		return fail(fmt.Errorf("it has %d rows less than it says", lost))
	}
	return 0, nil
}

// sameColumns says whether the columns that are read by their place are there.
func sameColumns(s *parquet.Schema) error {
	schema := parquet.SchemaOf(new(sampleRow))
	got := s.Columns()
	for i, path := range schema.Columns() {
		if i >= len(got) || got[i][0] != path[0] {
			return fmt.Errorf("column %d is not %s", i, path[0])
		}
		want, _ := schema.Lookup(path...)
		if is, ok := s.Lookup(got[i]...); !ok || is.Node.Type().Kind() != want.Node.Type().Kind() {
			return fmt.Errorf("column %s is no %s", path[0], want.Node.Type())
		}
	}
	return nil
}

// readGroup returns the samples of a group of rows and notes their series.
func (s *Samples) readGroup(g parquet.RowGroup) ([]signal.Sample, error) {
	n := g.NumRows()
	if n < 0 || n > 1<<24 {
		return nil, fmt.Errorf("a group of %d rows", n)
	}
	if int64(cap(s.batch)) < n {
		s.batch = make([]signal.Sample, n)
	}
	out := s.batch[:n]
	chunks := g.ColumnChunks()
	at := 0
	err := errors.Join(
		eachPage(chunks[sampleTStart], func(v data) {
			for i, t := range v.Int64() {
				out[at+i].Start = t
			}
		}, &at, n),
		eachPage(chunks[sampleTEnd], func(v data) {
			for i, t := range v.Int64() {
				out[at+i].End = t
			}
		}, &at, n),
		eachPage(chunks[sampleValue], func(v data) {
			for i, x := range v.Double() {
				out[at+i].Value = x
			}
		}, &at, n),
		eachPage(chunks[sampleSeries], func(v data) {
			for i, x := range v.Int32() {
				out[at+i].Series = x
			}
		}, &at, n),
	)
	if err != nil {
		return nil, err
	}
	for i := range out {
		x := out[i].Series
		if x < 0 || x >= maxSeries {
			return nil, fmt.Errorf("series %d of row %d", x, i)
		}
		if int(x) >= len(s.known) || !s.known[x] {
			return out, s.declare(g)
		}
	}
	return out, nil
}

// declare notes the series of all rows of a group.
func (s *Samples) declare(g parquet.RowGroup) error {
	rows := make([]parquet.Row, rowsAtOnce)
	var bad error
	_, err := readGroup(g, rows, func(row parquet.Row) bool {
		i := row[sampleSeries].Int32()
		for int(i) >= len(s.known) {
			s.known, s.series = append(s.known, false), append(s.series, signal.Series{})
		}
		if s.known[i] {
			return true
		}
		d := signal.Series{Source: int(row[2].Int32()), Labels: string(row[6].ByteArray())}
		name := string(row[3].ByteArray())
		if raw := row[9].Boolean(); raw {
			d.Raw = name
		} else if id, ok := signal.Lookup(name); ok {
			d.Signal = id
		} else {
			d.Raw = name // of another version
		}
		switch field := string(row[4].ByteArray()); field {
		case signal.Value.String():
		case signal.TotalSum.String():
			d.Field = signal.TotalSum
		case signal.TotalCount.String():
			d.Field = signal.TotalCount
		case signal.TotalBucket.String():
			d.Field, d.Bound = signal.TotalBucket, row[5].Double()
		default:
			bad = fmt.Errorf("field is %q", field)
			return false
		}
		s.known[i], s.series[i] = true, d
		return true
	})
	return errors.Join(err, bad)
}

// data is what a page holds.
type data interface {
	Int64() []int64
	Int32() []int32
	Double() []float64
}

// eachPage calls read with each page of a column that has exactly rows values;
// at is where the values of the page begin.
func eachPage(c parquet.ColumnChunk, read func(data), at *int, rows int64) error {
	*at = 0
	pages := c.Pages()
	defer pages.Close() // read only: nothing can be lost
	for {
		p, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		n := p.NumValues()
		if int64(*at)+n > rows {
			parquet.Release(p)
			return fmt.Errorf("a column has more than %d values", rows)
		}
		d := p.Data()
		read(&d)
		*at += int(n)
		parquet.Release(p)
	}
	if int64(*at) != rows {
		return fmt.Errorf("a column has %d values, want %d", *at, rows)
	}
	return nil
}
