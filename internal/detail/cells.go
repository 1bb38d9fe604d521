package detail

import (
	"math"
	"slices"

	"plimsoll/internal/histogram"
	"plimsoll/internal/record"
	"plimsoll/internal/stats"
)

// cellGrid numbers the cells in which arrivals and gaps are counted: those of the
// grid, cut where a steady window begins or ends, so that the cells of a window are
// the window exactly.
type cellGrid struct {
	step int64
	// edges are the ends of windows that do not lie on the grid, ascending.
	edges []int64
}

func newCellGrid(step int64, steps []stats.StepInput) cellGrid {
	g := cellGrid{step: step}
	for _, s := range steps {
		for _, t := range []int64{s.Start, s.End} {
			if t > 0 && t%step != 0 {
				g.edges = append(g.edges, t)
			}
		}
	}
	slices.Sort(g.edges)
	g.edges = slices.Compact(g.edges)
	return g
}

// cell returns the number of the cell of time t, which is 0 for times before 0.
func (g *cellGrid) cell(t int64) int {
	if t < 0 {
		return 0
	}
	n, exact := slices.BinarySearch(g.edges, t)
	if exact {
		n++
	}
	return int(min(t/g.step+int64(n), mostCells))
}

// start returns when the cell of time t begins.
func (g *cellGrid) start(t int64) int64 {
	begin := t / g.step * g.step
	n, exact := slices.BinarySearch(g.edges, t)
	if exact {
		return t
	}
	if n > 0 {
		begin = max(begin, g.edges[n-1])
	}
	return begin
}

// end returns when the cell of time t ends.
func (g *cellGrid) end(t int64) int64 {
	end := (t/g.step + 1) * g.step
	n, exact := slices.BinarySearch(g.edges, t)
	if exact {
		n++
	}
	if n < len(g.edges) {
		end = min(end, g.edges[n])
	}
	return end
}

// within returns the cells that lie whole in [from, to) and the length of them all.
func (g *cellGrid) within(from, to int64) (first, last int, length int64) {
	from, to = max(from, 0), max(to, 0)
	a, b := from, g.start(to)
	if g.start(from) != from {
		a = g.end(from)
	}
	if a >= b {
		return 0, 0, 0
	}
	return g.cell(a), g.cell(b), b - a
}

// mostCells bounds what a wrong time can make a store allocate: 48 days of seconds.
const mostCells = 1 << 22

// cell is the output of one workload that arrived in one cell.
type cell struct {
	tokens, prompt int64
	// events and bodies are those of which nobody counted the tokens.
	events, bodies int32
	// outputs and prompts count the requests that had a part in the sums.
	outputs, prompts int32
}

func (c *cell) merge(o *cell) {
	c.tokens, c.prompt = c.tokens+o.tokens, c.prompt+o.prompt
	c.events, c.bodies = c.events+o.events, c.bodies+o.bodies
	c.outputs, c.prompts = c.outputs+o.outputs, c.prompts+o.prompts
}

// cellAt returns the cell of a workload at time t.
func (s *Store) cellAt(workload int, t int64) *cell {
	for len(s.cells) <= workload {
		s.cells = append(s.cells, nil)
	}
	i := s.grid.cell(t)
	for len(s.cells[workload]) <= i {
		s.cells[workload] = append(s.cells[workload], cell{})
	}
	return &s.cells[workload][i]
}

// arrive counts what arrived for r, when it arrived.
func (s *Store) arrive(r *record.Request, workload int) {
	if r.Start == record.Unset {
		return
	}
	if at, ok := stats.PromptArrival(r); ok && r.Prompt >= 0 {
		c := s.cellAt(workload, at)
		c.prompt += int64(r.Prompt)
		c.prompts++
	}
	counted := len(r.Events) > 0
	sum := int64(0)
	for i := range r.Events {
		if r.Events[i].Tokens < 0 {
			counted = false
			break
		}
		sum += int64(r.Events[i].Tokens)
	}
	if counted {
		s.tokens, s.events = s.tokens+sum, s.events+int64(len(r.Events))
	}
	var c *cell
	from, until := int64(0), int64(0) // the time of cell c
	at := func(t int64) *cell {
		if t < from || t >= until {
			c = s.cellAt(workload, t)
			from, until = s.grid.start(max(t, 0)), s.grid.end(max(t, 0))
		}
		return c
	}
	if stats.Arrivals(r, 0, func(t int64, tokens float64) {
		k := at(t)
		k.tokens += int64(tokens)
		k.outputs++
	}) {
		return
	}
	if len(r.Events) == 0 {
		at(r.End).bodies++
		return
	}
	for i := range r.Events {
		at(r.Events[i].At).events++
	}
}

// gapCells are the times between tokens of one workload: for each cell the joined
// binary forms of the histograms of requests scheduled in it.
type gapCells [][]byte

// The gaps of a workload are kept apart by what they count for: those of buffered
// streams are held against no limit, and those of requests outside of the steady
// windows are in no figure of these.
const (
	gapsBuffered = 1
	gapsOutside  = 2
	gapsKinds    = 4
)

// gapsOf is where the gaps of a request are, and the time under which they are filed.
// One of a steady window is filed inside it, whatever its schedule says.
func (s *Store) gapsOf(r *record.Request, workload int, t int64) (of int, at int64) {
	of = gapsKinds * workload
	if r.Flags&record.BufferedStream != 0 {
		of |= gapsBuffered
	}
	if steps := s.meta.Input.Steps; r.Phase == record.Steady && int(r.Step) < len(steps) {
		return of, max(min(t, filedUntil(steps, int(r.Step))-1), steps[r.Step].Start)
	}
	return of | gapsOutside, t
}

// filedUntil is before when the gaps of a step are filed: the end of its window or,
// where windows overlap by some ns, the start of the next.
func filedUntil(steps []stats.StepInput, step int) int64 {
	end := steps[step].End
	if step+1 < len(steps) && steps[step+1].Start > steps[step].Start {
		end = min(end, steps[step+1].Start)
	}
	return end
}

// unsettled are the gaps of a request whose neighbours by schedule are still in
// flight.
type unsettled struct {
	scheduled, end int64
	of             int // which gapCells
	gaps           []byte
}

// mostUnsettled is how long in ns a request may be filed by its end at most.
const mostUnsettled = 900 * second

// joinedGaps is the size from which on the histograms of a cell are put together.
const joinedGaps = 16 << 10

// settled returns the time before which requests are filed by schedule: until then
// those have ended that take no longer than the longest so far. It never falls, though
// the longest becomes longer.
func (s *Store) settled() int64 {
	if s.lasting {
		return math.MaxInt64
	}
	return s.settledTo
}

// addGaps counts the times between the tokens of r.
func (s *Store) addGaps(r *record.Request, workload int, t, end int64) {
	s.settle((max(s.latest, 0) - min(s.longest, mostUnsettled)) / s.meta.Step * s.meta.Step)
	if r.Status != record.OK || len(r.Events) < 2 {
		return
	}
	if s.building {
		of, t := s.gapsOf(r, workload, t)
		h := s.openGaps(of, s.grid.cell(t))
		stats.ITL(r, func(gap int64, tokens int32) { h.RecordShared(gap, uint64(tokens)) })
		return
	}
	h := &s.scratch
	h.Reset()
	if !stats.ITL(r, func(gap int64, tokens int32) { h.RecordShared(gap, uint64(tokens)) }) {
		return
	}
	b, _ := h.AppendBinary(nil) // it never fails
	of, t := s.gapsOf(r, workload, t)
	u := unsettled{t, end, of, b}
	if t < s.settledTo {
		s.file(&u)
		return
	}
	s.unsettled = append(s.unsettled, u)
}

// settle files what was scheduled before t by its schedule.
func (s *Store) settle(t int64) {
	if t <= s.settledTo {
		return
	}
	s.settledTo = t
	kept := s.unsettled[:0]
	for i := range s.unsettled {
		if u := &s.unsettled[i]; u.scheduled >= t {
			kept = append(kept, *u)
		} else {
			s.file(u)
		}
	}
	clear(s.unsettled[len(kept):])
	s.unsettled = kept
}

// openCell is a cell of gaps that is added to while a run is read from disk.
type openCell struct {
	of, cell int
	gaps     histogram.Histogram
}

// openCells is how many of them there are, each of some 20 kB: those that end at about
// the same time.
const openCells = 64

// openGaps returns the gaps of a cell, to which more can be added until the next call.
func (s *Store) openGaps(of, cell int) *histogram.Histogram {
	if s.open == nil {
		s.open = make([]openCell, openCells)
	}
	c := &s.open[(cell*gapsKinds+of)%openCells]
	if c.of != of || c.cell != cell {
		s.closeGaps(c)
		c.of, c.cell = of, cell
	}
	return &c.gaps
}

// closeGaps puts the gaps of an open cell where they belong.
func (s *Store) closeGaps(c *openCell) {
	if c.gaps.Count() == 0 {
		return
	}
	s.bin, _ = c.gaps.AppendBinary(s.bin[:0]) // it never fails
	s.put(c.of, c.cell, s.bin)
	c.gaps.Reset()
}

// file puts gaps into the cell of their schedule.
func (s *Store) file(u *unsettled) { s.put(u.of, s.grid.cell(u.scheduled), u.gaps) }

// put adds gaps to a cell.
func (s *Store) put(of, cell int, gaps []byte) {
	for len(s.gaps) <= of {
		s.gaps = append(s.gaps, nil)
	}
	for len(s.gaps[of]) <= cell {
		s.gaps[of] = append(s.gaps[of], nil)
	}
	c := &s.gaps[of][cell]
	if len(*c)+len(gaps) > joinedGaps {
		*c = joined(&s.scratch, *c)
	}
	*c = append(*c, gaps...)
}

// joined puts the histograms in b together.
func joined(h *histogram.Histogram, b []byte) []byte {
	h.Reset()
	mergeAll(h, b)
	out, _ := h.AppendBinary(nil) // it never fails
	return out
}

// mergeAll adds all histograms in b; what cannot be read leaves none.
func mergeAll(h *histogram.Histogram, b []byte) {
	for len(b) > 0 {
		rest, err := h.MergeBinary(b)
		if err != nil {
			return
		}
		b = rest
	}
}
