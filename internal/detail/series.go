package detail

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"plimsoll/internal/signal"
)

// seriesFile is the pyramid of the signals of a run on disk: for each level the blocks
// of all series, of which those that a question is about are read.
//
// A block is the number of its first cell, of its cells, and its columns: of the grid's
// own cells their values; of longer ones their minimum, maximum, sum and weight.
type seriesFile struct {
	// memory holds the file where it is small, f is it where it is not.
	memory []byte
	f      *os.File
	// steps are the lengths of the cells of the levels in ns, ascending. at has for each
	// level where the block of each series begins, and where the last one ends.
	steps []int64
	at    [][]int64
	// most is how many cells a block of each level has at most.
	most []uint64
	// weights is for each series that of the number of its observations, -1 for none.
	weights []int32
	free    sync.Pool // of *blockScratch
}

// blockScratch is what reading blocks needs, to be used again.
type blockScratch struct {
	b       []byte
	columns [4][]float64
	weights [4][]float64
}

// ReadAt reads bytes of the file.
func (f *seriesFile) ReadAt(p []byte, at int64) (int, error) {
	if f.f != nil {
		return f.f.ReadAt(p, at)
	}
	return bytes.NewReader(f.memory).ReadAt(p, at)
}

// inMemory is the size up to which the file is kept in memory.
const inMemory = 64 << 20

// The forms of a column.
const (
	formSame   = iota // one value for all cells
	formWhole         // whole numbers of 16 bits
	formSingle        // values that 32 bits hold without loss
	formDouble
)

// appendColumn appends the values of a column in the shortest form without loss.
func appendColumn(b []byte, values []float64) []byte {
	same, whole, single := true, true, true
	first := math.Float64bits(values[0])
	for _, v := range values {
		same = same && math.Float64bits(v) == first
		whole = whole && v >= 0 && v <= math.MaxUint16 && v == math.Trunc(v)
		single = single && (float64(float32(v)) == v || v != v)
	}
	switch {
	case same:
		return binary.LittleEndian.AppendUint64(append(b, formSame), first)
	case whole:
		b = append(b, formWhole)
		for _, v := range values {
			b = binary.LittleEndian.AppendUint16(b, uint16(v))
		}
	case single:
		b = append(b, formSingle)
		for _, v := range values {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
		}
	default:
		b = append(b, formDouble)
		for _, v := range values {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
	}
	return b
}

// readValues reads a column of n values into out, which is extended, and returns what
// follows it.
func readValues(b []byte, n int, out []float64) (values []float64, rest []byte, ok bool) {
	if len(b) == 0 {
		return nil, nil, false
	}
	form, b := b[0], b[1:]
	size, ok := map[byte]int{formWhole: 2, formSingle: 4, formDouble: 8}[form]
	if form == formSame {
		if len(b) < 8 {
			return nil, nil, false
		}
		v := math.Float64frombits(binary.LittleEndian.Uint64(b))
		for range n {
			out = append(out, v)
		}
		return out, b[8:], true
	}
	if !ok || len(b) < n*size {
		return nil, nil, false
	}
	for i := range n {
		switch form {
		case formWhole:
			out = append(out, float64(binary.LittleEndian.Uint16(b[2*i:])))
		case formSingle:
			out = append(out, float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))))
		default:
			out = append(out, math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:])))
		}
	}
	return out, b[n*size:], true
}

// writeSeries writes the signals of a run that is over, in the order of the catalogue.
func (s *Store) writeSeries(dir string, of stamp) error {
	name := filepath.Join(dir, seriesFileIs)
	w, err := create(name, seriesKind, of)
	if err != nil {
		return err
	}
	g := &s.signals
	order := make([]int, len(g.keys))
	for i := range order {
		order[i] = i
	}
	rank := func(name string) int {
		if id, ok := signal.Lookup(name); ok {
			return int(id)
		}
		return signal.Count
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := &g.keys[a], &g.keys[b]
		return cmp.Or(cmp.Compare(rank(x.Signal), rank(y.Signal)), cmp.Compare(x.Signal, y.Signal), cmp.Compare(x.Stat, y.Stat),
			cmp.Compare(x.Source, y.Source), cmp.Compare(x.Labels, y.Labels), cmp.Compare(x.Workload, y.Workload))
	})
	steps := []int64{g.step}
	for _, k := range levels {
		if l := int64(k) * second; l > g.step && l%g.step == 0 {
			steps = append(steps, l)
		}
	}
	at := make([][]int64, len(steps))
	var b []byte
	var columns [4][]float64
	for l, step := range steps {
		for _, id := range order {
			at[l] = append(at[l], w.at)
			c := &g.courses[id]
			if len(c.values) == 0 {
				continue
			}
			b = b[:0]
			if l == 0 {
				b = binary.AppendVarint(b, c.first)
				b = binary.AppendUvarint(b, uint64(len(c.values)))
				w.bytes(appendColumn(b, c.values))
				continue
			}
			from := floor(c.first*g.step, step)
			to := floor((c.first+int64(len(c.values))-1)*g.step, step) + 1
			sums := make([]sum, to-from)
			g.sums(id, buckets{from * step, step, len(sums)}, sums)
			for i := range columns {
				columns[i] = columns[i][:0]
			}
			for i := range sums {
				a := &sums[i]
				for j, v := range []float64{a.min, a.max, a.sum, a.weight} {
					columns[j] = append(columns[j], v)
				}
			}
			b = binary.AppendVarint(b, from)
			b = binary.AppendUvarint(b, uint64(len(sums)))
			for i := range columns {
				b = appendColumn(b, columns[i])
			}
			w.bytes(b)
		}
		at[l] = append(at[l], w.at)
	}
	meta := w.at
	texts := map[string]int{}
	for i := range g.keys {
		k := &g.keys[i]
		for _, t := range []string{k.Signal, k.Stat, k.Source, k.Labels, k.Workload} {
			texts[t] = 0
		}
	}
	list := slices.Sorted(maps.Keys(texts))
	w.uint(uint64(len(list)))
	for i, t := range list {
		texts[t] = i
		w.text(t)
	}
	w.uint(uint64(b2i(g.any)))
	w.int(g.first)
	w.int(g.last)
	w.uint(uint64(len(order)))
	for _, id := range order {
		k := &g.keys[id]
		for _, t := range []string{k.Signal, k.Stat, k.Source, k.Labels, k.Workload} {
			w.uint(uint64(texts[t]))
		}
	}
	w.uint(uint64(len(steps)))
	for l, step := range steps {
		w.int(step)
		last := int64(0)
		for _, p := range at[l] {
			w.uint(uint64(p - last))
			last = p
		}
	}
	w.bytes(binary.LittleEndian.AppendUint64(nil, uint64(meta)))
	return w.commit(name)
}

// readSeries reads what there is of the signals of a run into s.
func (s *Store) readSeries(dir string, of stamp) (err error) {
	f, size, err := openFile(filepath.Join(dir, seriesFileIs))
	if err != nil {
		return err
	}
	file := &seriesFile{f: f}
	defer func() {
		if err != nil || size <= inMemory {
			_ = f.Close() // read only: nothing can be lost
		}
	}()
	var source io.Reader = f
	if size <= inMemory {
		if file.memory, err = io.ReadAll(io.LimitReader(f, size)); err != nil {
			return err
		}
		file.f = nil
		source, size = bytes.NewReader(file.memory), int64(len(file.memory))
	}
	// All of it once, for the checksum; then what is known of the blocks.
	r := newReader(source, size, seriesKind, of)
	for r.err == nil && r.left > 8 {
		r.into(r.buf[:min(int64(len(r.buf)), r.left-8)])
	}
	tail := r.bytes(8)
	if err := r.end(); err != nil {
		return err
	}
	meta := int64(min(binary.LittleEndian.Uint64(tail), math.MaxInt64))
	if meta > size-12 {
		return fmt.Errorf("%w: series at %d of %d", errDamaged, meta, size)
	}
	return s.readIndex(file, meta, size-12)
}

// readIndex reads which series there are and where their blocks lie.
func (s *Store) readIndex(file *seriesFile, meta, end int64) error {
	r := readerOf(io.NewSectionReader(file, meta, end-meta), end-meta)
	texts := make([]string, r.count(1))
	for i := range texts {
		texts[i] = r.text()
	}
	g := &s.signals
	g.any = r.uint() != 0
	g.first, g.last = r.int(), r.int()
	if g.any && (g.first > g.last || g.first < -mostCells || g.last > mostCells) {
		r.fail("cells from %d to %d", g.first, g.last)
	}
	n := r.count(5)
	g.keys, g.series, g.index = make([]Key, n), make([]Series, n), make(map[Key]int, n)
	text := func() string {
		i := r.uint()
		if i >= uint64(len(texts)) {
			r.fail("text %d of %d", i, len(texts))
			return ""
		}
		return texts[i]
	}
	for i := range n {
		k := Key{text(), text(), text(), text(), text()}
		g.keys[i], g.series[i], g.index[k] = k, describe(i, k), i
	}
	for range min(r.count(1), len(levels)+1) {
		step := r.int()
		at := make([]int64, n+1)
		last := int64(0)
		for i := range at {
			last += int64(min(r.uint(), math.MaxInt32))
			at[i] = last
		}
		if r.err == nil && (step <= 0 || step%s.meta.Step != 0 || last > meta) {
			r.fail("a level of cells of %d ns up to %d", step, last)
		}
		file.steps, file.at = append(file.steps, step), append(file.at, at)
		file.most = append(file.most, uint64((g.last-g.first)*s.meta.Step/max(step, 1)+2))
	}
	if r.err == nil && (r.left != 0 || len(file.steps) == 0 || file.steps[0] != s.meta.Step) {
		r.fail("levels that are none")
	}
	if r.err != nil {
		return r.err
	}
	file.weights = make([]int32, n)
	for i, k := range g.keys {
		file.weights[i] = -1
		if k.Stat == "mean" {
			k.Stat = "rate"
			if j, ok := g.index[k]; ok {
				file.weights[i] = int32(j)
			}
		}
	}
	g.file = file
	return nil
}

// level returns the highest level whose cells buckets are made of.
func (f *seriesFile) level(b buckets) int {
	l := len(f.steps) - 1
	for l > 0 && (b.step%f.steps[l] != 0 || b.from%f.steps[l] != 0) {
		l--
	}
	return l
}

// block reads the columns of a block into to and returns its first cell and the number
// of its cells.
func (f *seriesFile) block(s *blockScratch, level, id, columns int, to *[4][]float64) (first int64, n int, ok bool) {
	from, end := f.at[level][id], f.at[level][id+1]
	if from >= end {
		return 0, 0, false
	}
	var b []byte
	if f.f == nil {
		if end > int64(len(f.memory)) {
			return 0, 0, false
		}
		b = f.memory[from:end]
	} else {
		if int64(cap(s.b)) < end-from {
			s.b = make([]byte, end-from)
		}
		b = s.b[:end-from]
		if _, err := f.f.ReadAt(b, from); err != nil {
			return 0, 0, false
		}
	}
	first, k := binary.Varint(b)
	if k <= 0 {
		return 0, 0, false
	}
	b = b[k:]
	count, k := binary.Uvarint(b)
	if k <= 0 || count > f.most[level] || first < -mostCells || first > mostCells {
		return 0, 0, false
	}
	b = b[k:]
	for i := range columns {
		if to[i], b, ok = readValues(b, int(count), to[i][:0]); !ok {
			return 0, 0, false
		}
	}
	return first, int(count), true
}

// sums adds to out what the cells of a series come to in each bucket. What cannot be
// read is unknown.
func (f *seriesFile) sums(id int, b buckets, out []sum) {
	s, _ := f.free.Get().(*blockScratch)
	if s == nil {
		s = new(blockScratch)
	}
	defer f.free.Put(s)
	level := f.level(b)
	step := f.steps[level]
	columns := 4
	if level == 0 {
		columns = 1
	}
	first, n, ok := f.block(s, level, id, columns, &s.columns)
	if !ok {
		return
	}
	c, weights := &s.columns, []float64(nil)
	var weightsFrom int64
	if level == 0 && f.weights[id] >= 0 {
		if from, _, ok := f.block(s, 0, int(f.weights[id]), 1, &s.weights); ok {
			weightsFrom, weights = from, s.weights[0]
		}
	}
	start, per := floor(b.from, step), b.step/step
	for i := max(start, first); i < min(start+int64(b.n)*per, first+int64(n)); i++ {
		j := i - first
		to := &out[(i-start)/per]
		if level > 0 {
			to.merge(sum{c[0][j], c[1][j], c[2][j], c[3][j]})
			continue
		}
		v, weight := c[0][j], 1.0
		if k := i - weightsFrom; k >= 0 && k < int64(len(weights)) && weights[k] == weights[k] {
			weight = weights[k]
		}
		if v == v && weight > 0 {
			to.add(v, weight)
		}
	}
}
