package detail

import (
	"sync"

	"plimsoll/internal/run"
)

// seriesFile is the pyramid of the signals of a run on disk.
type seriesFile struct{}

func (f *seriesFile) sums(id int, b buckets, out []sum) {}

// part is where the records of a stretch of rows lie.
type part struct {
	name  string
	first uint32
}

// locator opens the run's folder when a record of it is asked for.
type locator struct {
	mu  sync.Mutex
	run *run.Run
}

func (l *locator) open(dir string) (*run.Run, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run == nil {
		r, err := run.Open(dir)
		if err != nil {
			return nil, err
		}
		l.run = r
	}
	return l.run, nil
}
