package run

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/parquet-go/parquet-go"

	"plimsoll/internal/record"
)

const (
	// partEvery is the time between parts: with the time to write one, a kill
	// loses less than 5 s.
	partEvery = 2500 * time.Millisecond
	// partBytes closes a part early, so that memory is bounded at any rate.
	partBytes = 4 << 20
	// queueBytes bounds what waits for the writer. It is several seconds of
	// what the writer can take at its fastest.
	queueBytes = 12 << 20
	blockBytes = 1 << 20
	// mergeParts and mergeEvery say when small parts are put together.
	mergeParts = 96
	mergeEvery = time.Hour
)

// Files of a run.
const (
	infoFile     = "run.json"
	scenarioFile = "scenario.yaml"
	summaryFile  = "summary.json"
	requestsDir  = "requests"
	telemetryDir = "telemetry"
	timelineFile = "timeline.parquet"
)

// Writer writes one run. It is safe for concurrent use; nothing may be added
// after Close.
type Writer struct {
	dir string
	// create makes the file of a part; tests put a full disk here.
	create func(name string) (file, error)
	// How parts are made: the constants above, but for tests.
	partEvery  time.Duration
	queueBytes int
	mergeParts int
	block      bool

	// infoMu guards info and the writing of run.json; it is taken before mu.
	infoMu sync.Mutex
	info   Info

	// mu guards what follows.
	mu      sync.Mutex
	room    sync.Cond // the queue has become shorter, or the writer has failed
	queue   [][]byte  // full blocks and the one being filled
	free    [][]byte
	queued  int
	dropped int64
	closed  bool
	err     error

	kick     chan struct{} // a part's worth is queued
	quit     chan struct{} // Close was called
	failed   chan struct{} // closed with the first error
	finished chan struct{} // the writer has ended
	scratch  sync.Pool

	sinkOnce sync.Once
	sink     *Sink // nil until someone asks for it

	// Of the writer goroutine alone, until finished.
	requests folder
}

// Option changes how a run is written.
type Option func(*Writer)

// Blocking makes Add wait for room in the queue instead of dropping the record:
// for records that come from elsewhere than a running test.
func Blocking() Option { return func(w *Writer) { w.block = true } }

// Create makes a new folder of a run in root, named by info.Start and
// info.Name, writes run.json and scenario.yaml, and returns its writer. It never
// touches a folder that exists.
func Create(root string, info Info, scenario []byte, options ...Option) (*Writer, error) {
	info.Schema, info.State = InfoSchemaName, Running
	id, err := makeDir(root, info.Start.UTC().Format("20060102T150405Z")+"-"+FileName(info.Name))
	if err != nil {
		return nil, err
	}
	info.ID = id
	if info.Input != nil {
		in := *info.Input
		in.ID = id
		info.Input = &in
	}
	w := &Writer{
		dir: filepath.Join(root, id), info: info,
		create: func(name string) (file, error) {
			return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		},
		kick: make(chan struct{}, 1), quit: make(chan struct{}),
		failed: make(chan struct{}), finished: make(chan struct{}),
		partEvery: partEvery, queueBytes: queueBytes, mergeParts: mergeParts,
	}
	w.requests = newFolder(w, requestsDir, requestParts)
	w.room.L = &w.mu
	w.scratch.New = func() any { return new([]byte) }
	for _, o := range options {
		o(w)
	}
	if err := os.Mkdir(filepath.Join(w.dir, requestsDir), 0o755); err != nil {
		return nil, fmt.Errorf("make folder of requests: %w", err)
	}
	if err := writeFile(filepath.Join(w.dir, scenarioFile), scenario); err != nil {
		return nil, err
	}
	if err := w.writeInfo(); err != nil {
		return nil, err
	}
	if err := syncDir(root); err != nil {
		return nil, fmt.Errorf("make folder of run: %w", err)
	}
	go w.write()
	return w, nil
}

// Dir returns the folder of the run.
func (w *Writer) Dir() string { return w.dir }

// ID returns the name of the folder, which identifies the run.
func (w *Writer) ID() string { return filepath.Base(w.dir) }

// Add queues a copy of r for writing. When the queue is full, or writing has
// failed, r is dropped and counted.
func (w *Writer) Add(r *record.Request) {
	s := w.scratch.Get().(*[]byte)
	*s = appendRequest((*s)[:0], r)
	w.put(*s)
	w.scratch.Put(s)
}

func (w *Writer) put(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.block && w.queued+len(b) > w.queueBytes && w.err == nil && !w.closed {
		w.room.Wait()
	}
	if w.closed {
		panic("BUG: a record was added to a run after Close")
	}
	if w.err != nil || w.queued+len(b) > w.queueBytes {
		w.dropped++
		return
	}
	n := len(w.queue)
	if n == 0 || cap(w.queue[n-1])-len(w.queue[n-1]) < len(b) {
		var block []byte
		if f := len(w.free); f > 0 && len(b) <= blockBytes {
			block, w.free = w.free[f-1], w.free[:f-1]
		} else {
			block = make([]byte, 0, max(blockBytes, len(b)))
		}
		w.queue = append(w.queue, block)
		n++
	}
	w.queue[n-1] = append(w.queue[n-1], b...)
	w.queued += len(b)
	if w.queued >= partBytes {
		select {
		case w.kick <- struct{}{}:
		default:
		}
	}
}

// take returns the oldest blocks of the queue, at most a part's worth.
func (w *Writer) take() [][]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, size := 0, 0
	for n < len(w.queue) && (n == 0 || size+len(w.queue[n]) <= partBytes) {
		size += len(w.queue[n])
		n++
	}
	blocks := append([][]byte(nil), w.queue[:n]...)
	w.queue = append(w.queue[:0], w.queue[n:]...)
	return blocks
}

// release says that blocks have been written or given up.
func (w *Writer) release(blocks [][]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range blocks {
		w.queued -= len(b)
		if cap(b) == blockBytes && len(w.free) < partBytes/blockBytes {
			w.free = append(w.free, b[:0])
		}
	}
	w.room.Broadcast()
}

// Err returns the error that ended the writing, nil while there is none.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Failed returns a channel that is closed when writing has failed; Err says why.
// The run should be ended: what was written before is kept.
func (w *Writer) Failed() <-chan struct{} { return w.failed }

// Dropped returns how many records have been dropped so far.
func (w *Writer) Dropped() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped
}

func (w *Writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
		close(w.failed)
		w.room.Broadcast()
	}
}

// write is the writer goroutine: the only one that makes parts.
func (w *Writer) write() {
	defer close(w.finished)
	tick := time.NewTicker(w.partEvery)
	defer tick.Stop()
	p := newPartWriter()
	for closing := false; !closing; {
		select {
		case <-w.quit:
			closing = true
		case <-tick.C:
		case <-w.kick:
		}
		for {
			blocks := w.take()
			if len(blocks) == 0 {
				break
			}
			w.writePart(p, blocks)
			w.release(blocks)
			w.requests.mergeSome()
			if !closing && !w.full() {
				break
			}
		}
	}
	w.requests.wait()
}

// full says whether another part's worth is waiting.
func (w *Writer) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queued >= partBytes
}

// writePart writes blocks as one part, or counts what is in them as dropped.
func (w *Writer) writePart(p *partWriter, blocks [][]byte) {
	err := w.Err()
	if err == nil {
		err = w.requests.put(func(name string) (int64, error) { return p.write(w.create, name, blocks) })
		if err == nil {
			return
		}
		w.fail(fmt.Errorf("write requests: %w", err))
	}
	var n int64
	for _, b := range blocks {
		n += p.count(b)
	}
	w.mu.Lock()
	w.dropped += n
	w.mu.Unlock()
}

// folder is one folder of parts and what is known of them. It belongs to one
// goroutine.
type folder struct {
	w        *Writer
	dir      string
	kind     func(io.Writer) parquetWriter
	next     int
	rows     int64
	unmerged []partRange
	mergedAt time.Time
	merging  chan error // nil when no merge is under way
}

func newFolder(w *Writer, name string, kind func(io.Writer) parquetWriter) folder {
	return folder{w: w, dir: filepath.Join(w.dir, name), kind: kind, next: 1, mergedAt: time.Now()}
}

// put makes the next part.
func (f *folder) put(write func(name string) (rows int64, err error)) error {
	r := partRange{f.next, f.next}
	rows, err := write(filepath.Join(f.dir, r.name()))
	if err != nil {
		return err
	}
	f.next++
	f.rows += rows
	f.unmerged = append(f.unmerged, r)
	return nil
}

// mergeSome starts a merge when there are many small parts or the last merge is
// long ago, in a goroutine of its own: parts go on being written meanwhile.
func (f *folder) mergeSome() {
	if f.merging != nil {
		select {
		case err := <-f.merging:
			f.merged(err)
		default:
			return
		}
	}
	if n := len(f.unmerged); f.w.Err() != nil || n < 2 || n < f.w.mergeParts && time.Since(f.mergedAt) < mergeEvery {
		return
	}
	parts := f.unmerged
	f.unmerged = nil
	f.mergedAt = time.Now()
	f.merging = make(chan error, 1)
	go func(done chan<- error) { done <- merge(f.kind, f.dir, parts) }(f.merging)
}

func (f *folder) merged(err error) {
	f.merging = nil
	if err != nil {
		f.w.fail(err)
	}
}

// wait waits for a merge that is under way.
func (f *folder) wait() {
	if f.merging != nil {
		f.merged(<-f.merging)
	}
}

// Update changes run.json.
func (w *Writer) Update(change func(*Info)) error {
	w.infoMu.Lock()
	defer w.infoMu.Unlock()
	change(&w.info)
	return w.writeInfo()
}

func (w *Writer) writeInfo() error {
	b, err := w.info.marshal()
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(w.dir, infoFile), b)
}

// WriteSummary writes summary.json; it may be called after Close.
func (w *Writer) WriteSummary(b []byte) error { return w.WriteFile(summaryFile, b) }

// WriteFile writes a file of the run, such as findings.json, whole or not at
// all. It may be called after Close.
func (w *Writer) WriteFile(name string, b []byte) error {
	return writeFile(filepath.Join(w.dir, filepath.Base(name)), b)
}

// Close writes what is queued, waits for the writers to end, puts the numbers of
// records and samples into run.json and returns the error that ended the writing. No Add may
// come after it. The state of the run is left for Update to set.
func (w *Writer) Close() error {
	w.mu.Lock()
	already := w.closed
	w.closed = true
	w.room.Broadcast()
	w.mu.Unlock()
	if already {
		return w.Err()
	}
	w.sinkOnce.Do(func() {}) // none may be made from now on
	if w.sink != nil {
		w.sink.close()
	}
	close(w.quit)
	<-w.finished
	err := w.Err()
	return errors.Join(err, w.Update(func(i *Info) {
		i.Records, i.DroppedRecords = w.requests.rows, w.dropped
		if w.sink != nil {
			i.Samples, i.DroppedSamples = w.sink.folder.rows, w.sink.Dropped()
		}
	}))
}

// partWriter turns queued blocks into parts. It is reused, since its buffers
// are large.
type partWriter struct {
	parquet *parquet.GenericWriter[row]
	decoder decoder
	// Rows are written together, column by column. They point into the records
	// and timelines, and those into the decoder's arrays.
	records   []record.Request
	timelines []timeline
	rows      []row
	flags     map[record.Flags]string
}

func newPartWriter() *partWriter {
	return &partWriter{
		decoder: decoder{names: make(map[string]string)},
		records: make([]record.Request, rowsAtOnce), timelines: make([]timeline, rowsAtOnce), rows: make([]row, rowsAtOnce),
		flags: make(map[record.Flags]string),
	}
}

// flagNames returns the names of the flags in f with commas between them.
func (p *partWriter) flagNames(f record.Flags) string {
	if f == 0 {
		return ""
	}
	s, ok := p.flags[f]
	if !ok {
		s = strings.Join(f.Names(), ",")
		if len(p.flags) < maxNames {
			p.flags[f] = s
		}
	}
	return s
}

// write makes the part called name of blocks and returns its number of rows.
func (p *partWriter) write(create func(string) (file, error), name string, blocks [][]byte) (rows int64, err error) {
	defer func() {
		if err != nil {
			p.parquet = nil // half a part is in it
		}
	}()
	return sealed(create, name, func(to io.Writer) (int64, error) {
		if p.parquet == nil {
			p.parquet = newParquet(to)
		} else {
			p.parquet.Reset(to)
		}
		rows, n := int64(0), 0
		for _, b := range blocks {
			p.decoder.b = b
			for len(p.decoder.b) > 0 {
				r, t := &p.records[n], &p.timelines[n]
				p.decoder.request(r)
				p.decoder.timeline(t)
				p.rows[n].fill(r, t, p.flagNames(r.Flags))
				if n++; n == len(p.rows) || len(p.decoder.arrays.longs) >= valuesAtOnce {
					if err := p.flush(n); err != nil {
						return rows, err
					}
					rows, n = rows+int64(n), 0
				}
			}
		}
		if err := p.flush(n); err != nil {
			return rows, err
		}
		rows += int64(n)
		p.parquet.SetKeyValueMetadata(checksumKey, checksumValue(rows))
		return rows, p.parquet.Close()
	})
}

// sealed makes the file called name of what fill writes, a Parquet file with a
// place for its checksum, and returns its number of rows. It has its name once
// it is whole and on the disk.
func sealed(create func(string) (file, error), name string, fill func(io.Writer) (int64, error)) (rows int64, err error) {
	f, err := create(name + tmpSuffix)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name()) // what matters is the first error
		}
	}()
	sum := newSummer(f)
	if rows, err = fill(sum); err != nil {
		return rows, err
	}
	if err := sum.seal(f); err != nil {
		return rows, err
	}
	if err := f.Sync(); err != nil {
		return rows, err
	}
	if err := f.Close(); err != nil {
		return rows, err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return rows, err
	}
	return rows, syncDir(filepath.Dir(name))
}

// flush writes the first n rows.
func (p *partWriter) flush(n int) error {
	_, err := p.parquet.Write(p.rows[:n])
	p.decoder.arrays.reset()
	return err
}

// count returns the number of records in a block.
func (p *partWriter) count(b []byte) (n int64) {
	p.decoder.b = b
	for len(p.decoder.b) > 0 {
		p.decoder.next(&p.records[0])
		n++
	}
	return n
}
