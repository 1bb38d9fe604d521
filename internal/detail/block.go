package detail

import (
	"math"

	"plimsoll/internal/record"
)

// blockRows is how many rows a question looks at together, a column after the other:
// what it works out of them stays in the nearest cache, and no call is made per row.
const blockRows = 1024

// none stands for a duration that is not known.
const none = math.MinInt64

// bit is b as a number, which is made without a jump.
func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// load sets out to the durations of rows from first on, none where there is none.
func (d *durations) load(first int, out []int64) {
	n := min(max(len(d.lo)-first, 0), len(out))
	for i := n; i < len(out); i++ {
		out[i] = none
	}
	if n == 0 {
		return
	}
	lo, hi := d.lo[first:first+n], d.hi[first:first+n]
	out = out[:n]
	for i := range out {
		out[i] = int64(hi[i])<<32 | int64(lo[i])
		if out[i] >= durationFar {
			v, ok := d.rare(first + i)
			if !ok {
				v = none
			}
			out[i] = v
		}
	}
}

// block is what a question works out of up to blockRows rows.
type block struct {
	a, b   [blockRows]int64
	keep   [blockRows]uint8
	taken  [blockRows]uint16
	all    [blockRows]uint16 // 0, 1, 2 and so on
	values [blockRows]float64
}

func newBlock() *block {
	b := new(block)
	for i := range b.all {
		b.all[i] = uint16(i)
	}
	return b
}

// filler sets out to a field of rows from first on, NaN where it is not known. There
// are blockRows of them at most.
type filler func(c *columns, b *block, first int, out []float64)

// whole sets out to whole numbers, NaN where they are none.
func whole(from []int64, out []float64) {
	for i, v := range from {
		out[i] = float64(v)
		if v == none {
			out[i] = nan
		}
	}
}

// sums sets a to a + sign*b where both are known.
func sums(a, b []int64, sign int64) {
	for i, v := range b {
		if a[i] != none && v != none {
			a[i] += sign * v
		} else {
			a[i] = none
		}
	}
}

// fill sets out to figure f of rows from first on in ns, as value does, NaN where it is
// not known.
func (c *columns) fill(f figure, b *block, first int, out []float64) {
	x, y := b.a[:len(out)], b.b[:len(out)]
	load := func(column int, to []int64) { c.durations[column].load(first, to) }
	switch f {
	case figTTFT:
		load(colTTFT, x)
	case figTTFC:
		load(colTTFT, x)
		load(colContent, y)
		for i := range x {
			switch {
			case c.of(first+i).kind&kindContent == 0:
				x[i] = none
			case y[i] != none && x[i] != none:
				x[i] += y[i]
			}
		}
	case figTPOT:
		load(colTTFT, x)
		load(colTTLT, y)
		for i, n := range c.tpotTokens[first : first+len(out)] {
			if x[i] == none {
				x[i] = 0
			}
			if y[i] == none {
				y[i] = 0
			}
			out[i] = nan
			if n != 0 {
				out[i] = float64(y[i]-x[i]) / float64(n)
			}
		}
		return
	case figE2E:
		load(colEnd, x)
		load(colDelay, y)
		sums(x, y, -1)
	case figTTFTFromSchedule:
		load(colTTFT, x)
		load(colDelay, y)
		sums(x, y, 1)
	case figE2EFromSchedule:
		load(colEnd, x)
		load(colDelay, y)
		sums(x, y, 0)
	case figTTLT:
		load(colTTLT, x)
	case figRetrieval:
		load(colRetrieval, x)
	case figSendLag:
		load(colDelay, x)
		load(colHeld, y)
		for i, held := range y {
			if held != none && x[i] != none {
				x[i] -= held
			}
		}
	case figMeanITL:
		load(colITL, x)
	default:
		panic("BUG: unknown figure")
	}
	whole(x, out)
}

// figureFiller is fill of what is shown of a figure: e2e is that of ok requests alone.
func figureFiller(f figure) filler {
	return func(c *columns, b *block, first int, out []float64) {
		c.fill(f, b, first, out)
		if f != figE2E && f != figE2EFromSchedule {
			return
		}
		for i := range out {
			if c.of(first+i).status() != record.OK {
				out[i] = nan
			}
		}
	}
}

// columnFiller is the filler of a column of whole numbers, negative for unknown.
func columnFiller[T number](column func(c *columns) []T) filler {
	return func(c *columns, _ *block, first int, out []float64) {
		for i, v := range column(c)[first : first+len(out)] {
			out[i] = float64(v)
			if v < 0 {
				out[i] = nan
			}
		}
	}
}

// profileFiller is the filler of a number that a profile has, negative for unknown.
func profileFiller(number func(p *profile) int64) filler {
	return func(c *columns, _ *block, first int, out []float64) {
		for i, p := range c.profile[first : first+len(out)] {
			v := number(&c.profiles[p])
			out[i] = float64(v)
			if v < 0 {
				out[i] = nan
			}
		}
	}
}

// each calls do with the rows that a question takes, block by block, ascending: those
// from first on whose distances from it are in taken, of at most n. It returns how many
// rows are in the range of the question.
func (v *view) each(q *Query, f *filter, b *block, do func(first, n int, taken []uint16)) (total int) {
	from, to := bounds(q.From, q.To)
	first, last := v.rows(from, to)
	var takes []uint8
	if len(f.profiles) > 0 {
		takes = v.perProfile(f.takes)
	}
	for ; first < last; first += blockRows {
		n := min(blockRows, last-first)
		keep := b.keep[:n]
		for i := range keep {
			keep[i] = 1
		}
		if !v.sorted {
			for i, t := range v.scheduled[first : first+n] {
				keep[i] = bit(t >= from && t < to)
				total += int(keep[i])
			}
		} else {
			total += n
			if f.all() {
				do(first, n, b.all[:n])
				continue
			}
		}
		if takes != nil {
			for i, p := range v.profile[first : first+n] {
				keep[i] &= takes[p]
			}
		}
		for i := range f.rows {
			f.rows[i].keep(&v.columns, b, first, keep)
		}
		taken := 0
		for i, k := range keep {
			b.taken[taken] = uint16(i)
			taken += int(k)
		}
		if taken > 0 {
			do(first, n, b.taken[:taken])
		}
	}
	return total
}
