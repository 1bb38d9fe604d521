package telemetry

import (
	"errors"

	"plimsoll/internal/signal"
)

// Options change how pages of one endpoint are read.
type Options struct {
	// Tables are the sources that may be recognised; Builtin when empty. Of two with
	// one source name the later one counts.
	Tables []*Table
	// Source returns the index that samples of a source bear (signal.Series.Source); called once for each source, when it is first seen on
	// the endpoint's pages. By default 0, 1, ... in the order in which they are seen.
	Source func(t *Table) int
	// Keep are labels kept beside those of the tables, as canonical name to names on the page: instance and the like
	// of a source that holds many endpoints.
	Keep map[string][]string
	// WallZero is the unix time in ns at which the run's clock was 0, by which a page's
	// own timestamps become times of the run; with 0 they are left unused.
	WallZero int64
	// MaxSeries bounds the series of one page; 200,000 when 0. What is beyond is left out and is a Problem.
	MaxSeries int
	// Raw says that series that no table maps are kept under their own names as well.
	Raw bool
}

// Reader reads the pages of one endpoint, one after another. It remembers the series that it has
// seen, so that a further page costs little. Not for use by several goroutines at once.
type Reader struct {
	opts Options
}

// NewReader returns a reader that has seen nothing.
func NewReader(o Options) *Reader { return &Reader{opts: o} }

// Problem is something on a page that could not be used; the rest of the page was.
type Problem struct {
	// Line counts from 1; 0 when no line is meant.
	Line int
	// Text says what is wrong, with the beginning of the line.
	Text string
}

// PageInfo says what one page held.
type PageInfo struct {
	// Sources are the source names seen on the endpoint so far, in the order of detection.
	Sources []string
	// Series is the number of series on the page.
	Series int
	// Samples is the number of samples that went to the sink.
	Samples int
	// New is the number of series first seen on this page.
	New int
	// NaN, Duplicate and Malformed count values that are no number, series given twice (the first counts), and lines
	// that are none.
	NaN, Duplicate, Malformed int
	// OutOfRange counts values that cannot be true, by the ranges of the tables.
	OutOfRange int
	// Problems are the first few of what could not be used.
	Problems []Problem
	// Restarts says that at least one counter went down, or the server's start time changed, since the page before.
	Restarts int
	// Timestamps is the number of series with a time of their own, and Newest the newest
	// of those in unix ns.
	Timestamps int
	Newest     int64
	// Start is the unix time in ns at which the server's process says it started, 0 when it does not say.
	Start int64
}

// ErrNotAPage is the error of a body that is no page of telemetry at all, as HTML.
var ErrNotAPage = errors.New("no telemetry page")

// Read reads one page that was fetched between start and end (ns of the run's clock), declares what is new
// and adds its samples to sink, which may be nil. The body is not kept. An error means that nothing was usable.
func (r *Reader) Read(body []byte, contentType string, start, end int64, sink signal.Sink) (PageInfo, error) {
	return PageInfo{}, ErrNotAPage
}

// Label is a name with its value.
type Label struct{ Name, Value string }

// Point is one value of one series of a source that gives no pages, as Prometheus' answer to a query.
type Point struct {
	// Name is the series' name as a page would give it.
	Name string
	// Labels are its labels in any order, le among them for buckets.
	Labels []Label
	// Value is its value.
	Value float64
}

// ReadPoints is Read for values that do not come as a page: points are all values that held between
// start and end. The strings are kept.
func (r *Reader) ReadPoints(points []Point, start, end int64, sink signal.Sink) (PageInfo, error) {
	return PageInfo{}, ErrNotAPage
}

// Missing returns the signals that the tables of the sources seen so far know and the last page did not
// give, in the order of the catalogue.
func (r *Reader) Missing() []Missing { return nil }

// Tables returns the tables of the sources seen so far, in the order of detection.
func (r *Reader) Tables() []*Table { return nil }
