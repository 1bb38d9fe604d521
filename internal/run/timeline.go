package run

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/parquet-go/parquet-go"
)

// TimelineRow is one figure of one cell of the grid. A figure that is not known
// has no row.
type TimelineRow struct {
	// T is when the cell begins, in ns of the run's clock.
	T int64 `parquet:"t_ns"`
	// Signal is the canonical name, or the server's own.
	Signal string `parquet:"signal,dict"`
	// Stat says which figure: value, rate, mean, max, p50, ...
	Stat string `parquet:"stat,dict"`
	// Source is the name of the source, empty (null in the file) for the client's own
	// figures and for all sources together.
	Source string `parquet:"source,dict,optional"`
	// Labels tell engines, devices and ports of one source apart; empty (null) for
	// all of them together.
	Labels string `parquet:"labels,dict,optional"`
	// Workload is empty (null) for all workloads together.
	Workload string `parquet:"workload,dict,optional"`
	// Value is the figure, in the signal's unit, per second for a rate.
	Value float64 `parquet:"value"`
}

const (
	// timelineGroup is the number of rows of a group of the file.
	timelineGroup = 1 << 18
	timelineBatch = 1024
)

// TimelineWriter writes timeline.parquet. It is for one goroutine. The file has
// its name once Close has succeeded.
type TimelineWriter struct {
	name    string
	f       *os.File
	sum     *summer
	parquet *parquet.GenericWriter[TimelineRow]
	rows    int64
	inGroup int
}

// CreateTimeline begins a new timeline of the run, which takes the place of an
// earlier one. It may be called after Close of the run's Writer.
func (r *Run) CreateTimeline() (*TimelineWriter, error) { return createTimeline(r.dir) }

func createTimeline(dir string) (*TimelineWriter, error) {
	w := &TimelineWriter{name: filepath.Join(dir, timelineFile)}
	f, err := os.CreateTemp(dir, timelineFile+".*"+tmpSuffix)
	if err != nil {
		return nil, fmt.Errorf("write timeline: %w", err)
	}
	w.f, w.sum = f, newSummer(f)
	w.parquet = parquet.NewGenericWriter[TimelineRow](w.sum, parquetOptions(8*pageBytes)...)
	return w, nil
}

// Add appends rows, which come in the order of T. The slice is not kept.
func (w *TimelineWriter) Add(rows []TimelineRow) error {
	for len(rows) > 0 {
		n := min(len(rows), timelineBatch)
		if _, err := w.parquet.Write(rows[:n]); err != nil {
			return fmt.Errorf("write timeline: %w", err)
		}
		rows, w.rows, w.inGroup = rows[n:], w.rows+int64(n), w.inGroup+n
		if w.inGroup >= timelineGroup {
			w.inGroup = 0
			if err := w.parquet.Flush(); err != nil {
				return fmt.Errorf("write timeline: %w", err)
			}
		}
	}
	return nil
}

// Rows returns how many rows were added.
func (w *TimelineWriter) Rows() int64 { return w.rows }

// Close completes the file and gives it its name. On an error there is no new
// timeline, and an earlier one stays.
func (w *TimelineWriter) Close() (err error) {
	defer func() {
		if err != nil {
			w.Discard()
			err = fmt.Errorf("write timeline: %w", err)
		}
	}()
	w.parquet.SetKeyValueMetadata(checksumKey, checksumValue(w.rows))
	if err := w.parquet.Close(); err != nil {
		return err
	}
	if err := w.sum.seal(w.f); err != nil {
		return err
	}
	if err := w.f.Chmod(0o644); err != nil {
		return err
	}
	return commit(w.f, w.name)
}

// Discard removes what was written. It is for use instead of Close.
func (w *TimelineWriter) Discard() {
	_ = w.f.Close() // it is no more of use
	_ = os.Remove(w.f.Name())
}

// Timeline returns the rows of timeline.parquet in the order of their time, many
// at once; a slice is valid until the next one. The error, which comes last and
// alone, wraps fs.ErrNotExist when the run has none.
func (r *Run) Timeline() iter.Seq2[[]TimelineRow, error] {
	return func(yield func([]TimelineRow, error) bool) {
		if err := r.timeline(func(rows []TimelineRow) bool { return yield(rows, nil) }); err != nil {
			yield(nil, fmt.Errorf("read timeline of run: %w", err))
		}
	}
}

func (r *Run) timeline(yield func([]TimelineRow) bool) error {
	f, pf, _, err := openPart(filepath.Join(r.dir, timelineFile))
	if err != nil {
		return err
	}
	defer f.Close() // read only: nothing can be lost
	reader := parquet.NewGenericReader[TimelineRow](pf)
	defer reader.Close() // read only: nothing can be lost
	rows := make([]TimelineRow, timelineBatch)
	for {
		n, err := reader.Read(rows)
		if n > 0 && !yield(rows[:n]) {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrNoProgress
		}
	}
}
