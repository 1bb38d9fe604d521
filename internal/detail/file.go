package detail

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"plimsoll/internal/run"
	"plimsoll/internal/stats"
)

const (
	// folder is that of the files in a run's folder.
	folder       = "detail"
	requestsFile = "requests.bin"
	requestsKind = "pl.requests"
	seriesFileIs = "series.bin"
	seriesKind   = "pl.series"
)

// part is where the records of a stretch of rows lie.
type part struct {
	Name  string `json:"name"`
	First uint32 `json:"first"`
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

// head is what the file of requests says before its columns.
type head struct {
	Input     stats.Input `json:"input"`
	StepNS    int64       `json:"step_ns"`
	Workloads []string    `json:"workloads"`
	Finishes  []string    `json:"finishes"`
	Longest   int64       `json:"longest_ns"`
	Latest    int64       `json:"latest_ns"`
	Tokens    int64       `json:"tokens"`
	Events    int64       `json:"events"`
	Edges     []int64     `json:"edges_ns"`
	Parts     []part      `json:"parts"`
	// Whole are the figures over all steady windows.
	Whole *Figures `json:"whole"`
	Lost  []Lost   `json:"lost,omitempty"`
}

// writeRequests writes the requests of a run that is over.
func (s *Store) writeRequests(dir string, of stamp) error {
	name := filepath.Join(dir, requestsFile)
	c := &s.cols
	for _, f := range latencies {
		s.orders[f] = c.ascending(f)
	}
	if f := s.Figures(0, 0); f.Steady {
		s.whole = &f
	}
	v := s.view()
	s.countGood(&v)
	w, err := create(name, requestsKind, of)
	if err != nil {
		return err
	}
	h, err := json.Marshal(head{
		s.meta.Input, s.meta.Step, s.workloads.list, s.finishes.list, s.longest, s.latest, s.tokens, s.events, s.grid.edges, s.parts, s.whole, s.lost,
	})
	if err != nil {
		w.err = err
	}
	w.text(string(h))
	column(w, c.id)
	column(w, c.scheduled)
	column(w, c.session)
	column(w, c.user)
	column(w, c.turn)
	column(w, c.profile)
	w.uint(uint64(len(c.profiles)))
	for i := range c.profiles {
		p := &c.profiles[i]
		for _, v := range []uint16{p.step, p.workload, p.target, p.flags, p.http, uint16(p.kind), uint16(p.err), uint16(p.finish)} {
			w.uint(uint64(v))
		}
	}
	column(w, c.prompt)
	column(w, c.cached)
	column(w, c.output)
	column(w, c.tpotTokens)
	column(w, c.place)
	for i := range c.durations {
		d := &c.durations[i]
		column(w, d.lo)
		column(w, d.hi)
		w.uint(uint64(len(d.far)))
		for _, f := range d.far {
			w.uint(uint64(f.row))
			w.int(f.v)
		}
	}
	for i, f := range latencies {
		same := 0
		for j, g := range latencies[:i] {
			if slices.Equal(s.orders[f], s.orders[g]) {
				same = j + 1
			}
		}
		if w.uint(uint64(same)); same == 0 {
			column(w, s.orders[f])
		}
	}
	w.uint(uint64(len(s.goods)))
	for _, cells := range s.goods {
		column(w, cells)
	}
	w.uint(uint64(len(s.cells)))
	for _, cells := range s.cells {
		w.uint(uint64(len(cells)))
		for i := range cells {
			k := &cells[i]
			for _, v := range []int64{k.tokens, k.prompt, int64(k.events), int64(k.bodies), int64(k.outputs), int64(k.prompts)} {
				w.int(v)
			}
		}
	}
	for _, level := range append([][]gapCells{s.gaps}, s.coarseGaps()...) {
		w.uint(uint64(len(level)))
		for _, cells := range level {
			w.uint(uint64(len(cells)))
			for _, b := range cells {
				w.uint(uint64(len(b)))
			}
			for _, b := range cells {
				w.bytes(b)
			}
		}
	}
	return w.commit(name)
}

// coarseGaps joins the gaps of a run that is over in longer cells, those of levels.
func (s *Store) coarseGaps() [][]gapCells {
	out := make([][]gapCells, len(levels))
	for l, k := range levels {
		length := int64(k) * second
		out[l] = make([]gapCells, len(s.gaps))
		if length%s.grid.step != 0 || length == s.grid.step {
			continue
		}
		for of, cells := range s.gaps {
			if len(cells) == 0 {
				continue
			}
			for from := int64(0); from < int64(len(cells))*s.grid.step; from += length {
				first, last := s.grid.cell(from), s.grid.cell(from+length)
				h := &s.scratch
				h.Reset()
				for _, b := range cells[min(first, len(cells)):min(last, len(cells))] {
					mergeAll(h, b)
				}
				var b []byte
				if h.Count() > 0 {
					b, _ = h.AppendBinary(nil) // it never fails
				}
				out[l][of] = append(out[l][of], b)
			}
		}
	}
	return out
}

// readRequests reads the requests of a run into s, an empty store.
func (s *Store) readRequests(dir string, of stamp) error {
	f, size, err := openFile(filepath.Join(dir, requestsFile))
	if err != nil {
		return err
	}
	defer f.Close() // read only: nothing can be lost
	r := newReader(f, size, requestsKind, of)
	var h head
	text := r.text()
	if r.err != nil {
		return r.err
	}
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return fmt.Errorf("%w: head: %v", errDamaged, err)
	}
	if h.StepNS <= 0 || h.StepNS > math.MaxInt64/(4*mostCells) || !slices.IsSorted(h.Edges) {
		return fmt.Errorf("%w: a grid of %d ns", errDamaged, h.StepNS)
	}
	if most := 2 * mostCells * h.StepNS; h.Latest > most || h.Longest < 0 || h.Longest > most || h.Input.Duration > most {
		return fmt.Errorf("%w: requests that last until %d ns", errDamaged, h.Latest)
	}
	s.meta.Input, s.meta.Step = h.Input, h.StepNS
	for _, w := range h.Workloads {
		s.workloads.of(w, mostWorkloads)
	}
	for _, w := range h.Finishes {
		s.finishes.of(w, mostFinishes)
	}
	s.longest, s.latest, s.tokens, s.events, s.parts, s.whole = h.Longest, h.Latest, h.Tokens, h.Events, h.Parts, h.Whole
	s.lost = h.Lost
	s.grid = cellGrid{step: h.StepNS, edges: h.Edges}
	s.signals.step = h.StepNS
	c := &s.cols
	c.id, c.scheduled, c.session = readColumn[uint32](r), readColumn[int64](r), readColumn[uint64](r)
	c.user, c.turn, c.profile = readColumn[uint32](r), readColumn[uint32](r), readColumn[uint32](r)
	c.profiles = make([]profile, r.count(8))
	for i := range c.profiles {
		p := &c.profiles[i]
		for _, to := range []*uint16{&p.step, &p.workload, &p.target, &p.flags, &p.http} {
			*to = uint16(r.uint())
		}
		for _, to := range []*uint8{&p.kind, &p.err, &p.finish} {
			*to = uint8(r.uint())
		}
	}
	c.prompt, c.cached, c.output = readColumn[int32](r), readColumn[int32](r), readColumn[int32](r)
	c.tpotTokens, c.place = readColumn[int32](r), readColumn[uint32](r)
	for i := range c.durations {
		d := &c.durations[i]
		d.lo, d.hi = readColumn[uint32](r), readColumn[uint8](r)
		d.far = make([]farValue, r.count(2))
		for j := range d.far {
			d.far[j] = farValue{int32(min(r.uint(), math.MaxInt32)), r.int()}
		}
	}
	for i, f := range latencies {
		switch same := r.uint(); {
		case same > uint64(i):
			r.fail("the order of %s is that of none", figureNames[f])
		case same > 0:
			s.orders[f] = s.orders[latencies[same-1]]
		default:
			s.orders[f] = readColumn[uint32](r)
			if s.orders[f] == nil {
				s.orders[f] = []uint32{} // known to be empty
			}
		}
	}
	if n := r.count(1); n > 0 {
		s.goods = make([][]uint32, n)
		for i := range s.goods {
			s.goods[i] = readColumn[uint32](r)
		}
	}
	s.cells = make([][]cell, r.count(1))
	for i := range s.cells {
		s.cells[i] = make([]cell, r.count(6))
		for j := range s.cells[i] {
			s.cells[i][j] = cell{r.int(), r.int(), int32(r.int()), int32(r.int()), int32(r.int()), int32(r.int())}
		}
	}
	for l := range len(levels) + 1 {
		level := make([]gapCells, r.count(1))
		for of := range level {
			cells := make(gapCells, r.count(1))
			total := int64(0)
			lengths := make([]int64, len(cells))
			for j := range lengths {
				lengths[j] = int64(r.count(1))
				if total += lengths[j]; total > r.left {
					r.fail("gaps of %d bytes", total)
					break
				}
			}
			all := r.bytes(total)
			for j, n := range lengths {
				if r.err != nil {
					break
				}
				cells[j], all = all[:n:n], all[n:]
			}
			level[of] = cells
		}
		if l == 0 {
			s.gaps = level
		} else {
			s.coarse = append(s.coarse, level)
		}
	}
	if err := r.end(); err != nil {
		return err
	}
	s.settledTo = math.MaxInt64
	s.lasting = true
	return s.check()
}

// check makes sure that nothing in the columns leads outside of them.
func (s *Store) check() error {
	c := &s.cols
	n := c.rows()
	for _, l := range []int{
		len(c.id), len(c.session), len(c.user), len(c.turn), len(c.profile), len(c.prompt), len(c.cached), len(c.output), len(c.tpotTokens),
	} {
		if l != n {
			return fmt.Errorf("%w: columns of %d and %d rows", errDamaged, l, n)
		}
	}
	if len(c.place) != 0 && len(c.place) != n {
		return fmt.Errorf("%w: %d places of %d rows", errDamaged, len(c.place), n)
	}
	for i := range c.profiles {
		if p := &c.profiles[i]; int(p.workload) >= len(s.workloads.list) || int(p.finish) >= len(s.finishes.list) {
			return fmt.Errorf("%w: a name that is not there", errDamaged)
		}
	}
	for i := range n {
		if int(c.profile[i]) >= len(c.profiles) {
			return fmt.Errorf("%w: profile %d of %d", errDamaged, c.profile[i], len(c.profiles))
		}
		if i > 0 && c.scheduled[i] < c.scheduled[i-1] {
			return fmt.Errorf("%w: row %d is earlier than that before", errDamaged, i)
		}
	}
	for i := range c.durations {
		d := &c.durations[i]
		if len(d.lo) != len(d.hi) || len(d.lo) > n {
			return fmt.Errorf("%w: durations of %d rows", errDamaged, len(d.lo))
		}
		far := 0
		for row := range d.lo {
			if d.hi[row] != math.MaxUint8 || d.lo[row] != durationFar&math.MaxUint32 {
				continue
			}
			if far >= len(d.far) || int(d.far[far].row) != row {
				return fmt.Errorf("%w: the long duration of row %d is missing", errDamaged, row)
			}
			far++
		}
		if far != len(d.far) {
			return fmt.Errorf("%w: %d long durations, want %d", errDamaged, len(d.far), far)
		}
	}
	for f, order := range s.orders {
		for _, row := range order {
			if int(row) >= n {
				return fmt.Errorf("%w: row %d in the order of %s", errDamaged, row, figureNames[f])
			}
		}
	}
	if len(s.goods) > len(s.workloads.list) {
		return fmt.Errorf("%w: good requests of %d workloads", errDamaged, len(s.goods))
	}
	if len(s.cells) > len(s.workloads.list) {
		return fmt.Errorf("%w: cells of %d workloads", errDamaged, len(s.cells))
	}
	for i := range s.parts {
		if i > 0 && s.parts[i].First < s.parts[i-1].First {
			return fmt.Errorf("%w: parts out of order", errDamaged)
		}
	}
	return nil
}

// openFile opens a file, which must be one, and returns its size.
func openFile(name string) (*os.File, int64, error) {
	fi, err := os.Lstat(name)
	if err != nil {
		return nil, 0, err
	}
	if !fi.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%w: %s is no file", errDamaged, name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	if fi, err = f.Stat(); err != nil {
		_ = f.Close() // read only: nothing can be lost
		return nil, 0, err
	}
	return f, fi.Size(), nil
}
