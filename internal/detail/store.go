package detail

import (
	"math"
	"slices"
	"sync"

	"plimsoll/internal/histogram"
	"plimsoll/internal/record"
	"plimsoll/internal/stats"
)

// second is the length in ns of a cell of the grid unless a run is too long for it.
const second = int64(1e9)

// Meta is what must be known of a run beside its requests and cells.
type Meta struct {
	// Dir is the run's folder, in which the records of single requests are looked up;
	// "" when there is none.
	Dir string
	// Input has the windows and the limits. While a run goes on it is the plan.
	Input stats.Input
	// Workloads are those that are known beforehand, in the order of their colours.
	Workloads []string
	// Step is the length of a cell of the grid in ns, 0 for one second.
	Step int64
}

// Store answers the panel's questions about one run. It is safe for concurrent use
// by one goroutine that adds and any number that ask.
type Store struct {
	mu   sync.RWMutex
	meta Meta
	// lasting says that the run is over: requests are in the order of their schedule,
	// and nothing is added any more.
	lasting bool

	cols      columns
	workloads names
	finishes  names
	withITL   bool
	// orders are the rows of an ended run that have a figure, ascending by it; made
	// when they are first needed.
	orders [numFigures][]uint32
	// whole are the figures over all steady windows of an ended run, nil where they are
	// not worked out.
	whole *Figures
	// goods counts the requests of an ended run that are within every limit, by workload
	// and by the cell of their schedule; made when it is first needed, nil without limits.
	goodOnce sync.Once
	goods    [][]uint32
	// longest is the longest time in ns from schedule to end, latest the last end.
	longest, latest int64

	grid cellGrid
	// cells have the output that came, and the gaps between tokens, by workload.
	cells [][]cell
	gaps  []gapCells
	// coarse has for each of levels the same in cells of that length, of a run on disk.
	coarse [][]gapCells
	// tokens and events are those of requests whose tokens per event are known.
	tokens, events int64
	// unsettled are the gaps of requests that may not be filed by schedule yet.
	unsettled []unsettled
	settledTo int64
	scratch   histogram.Histogram
	// building says that the run is read from disk and asked nothing before it is over:
	// gaps are filed by schedule at once, those of open cells when they are closed.
	building bool
	open     []openCell
	bin      []byte

	signals signals
	// lost is what of an ended run could not be read.
	lost []Lost
	// parts are where the records of an ended run lie, ascending by first.
	parts   []part
	located *locator
}

// names is a list of texts with their indexes.
type names struct {
	list  []string
	index map[string]int
}

// of returns the index of text, which is added where there is room for it; what
// comes when there are most of them shares the last.
func (n *names) of(text string, most int) int {
	if i, ok := n.index[text]; ok {
		return i
	}
	if n.index == nil {
		n.index = make(map[string]int)
	}
	if len(n.list) >= most {
		return most - 1
	}
	i := len(n.list)
	n.list = append(n.list, text)
	n.index[text] = i
	return i
}

const (
	mostWorkloads = math.MaxUint16
	mostFinishes  = math.MaxUint8
)

// New returns the empty Store of a run that begins.
func New(meta Meta) *Store {
	if meta.Step <= 0 {
		meta.Step = second
	}
	s := &Store{meta: meta, latest: math.MinInt64, located: new(locator)}
	for _, w := range meta.Workloads {
		s.workloads.of(w, mostWorkloads)
	}
	s.grid = newCellGrid(meta.Step, meta.Input.Steps)
	s.signals.step = meta.Step
	s.withITL = meta.Input.JudgesITL()
	return s
}

// SetInput says what is known by now of the windows of a run that goes on.
func (s *Store) SetInput(in stats.Input) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meta.Input = in
}

// Workloads returns the names of the workloads in the order of their colours.
func (s *Store) Workloads() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return append([]string{}, s.workloads.list...)
}

// Span returns the time in ns that requests and cells are known of: from 0 to the
// last of them. It is empty when nothing is known.
func (s *Store) Span() (from, to int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.span()
}

func (s *Store) span() (from, to int64) {
	to = max(s.latest, s.meta.Input.Duration*b2i(s.lasting), 0)
	if _, end := s.signals.span(); end > to {
		to = end
	}
	return 0, to
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Len returns the number of requests that are known.
func (s *Store) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.cols.rows()
}

// AddRequest adds a request that has ended, whose tokens per event are resolved. r is
// not kept.
func (s *Store) AddRequest(r *record.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(r)
}

func (s *Store) add(r *record.Request) {
	if s.lasting {
		panic("BUG: a request of a run that is over")
	}
	w := s.workloads.of(r.Workload, mostWorkloads)
	s.cols.add(r, uint16(w), uint8(s.finishes.of(r.Finish, mostFinishes)), s.withITL)
	t, end := binTime(r), r.End
	if end == record.Unset {
		end = t
	}
	s.longest, s.latest = max(s.longest, end-t), max(s.latest, end, t)
	s.arrive(r, w)
	s.addGaps(r, w, t, end)
}

// view is what a question about requests needs: it stays as it is while the run goes
// on.
type view struct {
	columns
	workloads, finishes []string
	sorted              bool
	input               stats.Input
	longest             int64
}

func (s *Store) view() view {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return view{
		columns: s.cols, workloads: s.workloads.list[:len(s.workloads.list):len(s.workloads.list)], finishes: s.finishes.list[:len(s.finishes.list):len(s.finishes.list)],
		sorted: s.lasting, input: s.meta.Input, longest: s.longest,
	}
}

// rows returns the rows among which are those filed under a time of [from, to). All of
// them are where the rows are sorted.
func (v *view) rows(from, to int64) (first, last int) {
	if !v.sorted {
		return 0, v.columns.rows()
	}
	first, _ = slices.BinarySearch(v.scheduled, from)
	last, _ = slices.BinarySearch(v.scheduled, to)
	return first, max(first, last)
}

// bounds makes a range of a question one that has an end.
func bounds(from, to int64) (int64, int64) {
	if to <= 0 && from <= 0 || to == 0 {
		to = math.MaxInt64
	}
	return from, max(from, to)
}
