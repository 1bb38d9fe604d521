package detail

import (
	"cmp"
	"math"
	"slices"

	"plimsoll/internal/record"
)

const (
	// mostDots is the number of points that are drawn one by one.
	mostDots = 5000
	// mostTiles bounds the cells of the grid of tiles, so that their extreme points are
	// at most mostDots.
	mostTiles = mostDots / 2
	// tilePixels is the least side of a tile.
	tilePixels = 8
	// mostColors is the number of colours; what comes after shares the last.
	mostColors = 256
)

// yFigure returns how the figure called name is read of rows: ms or tokens.
func (v *view) yFigure(name string) (filler, error) {
	if fill, ok := tokenFields[name]; ok {
		return fill, nil
	}
	f, ok := figureOf(name)
	if !ok {
		_, err := v.sortKey(name)
		if err == nil {
			err = &QueryError{"y", name + " is no figure", "want one of ttft, ttfc, tpot, e2e, ttlt, retrieval, send_lag, prompt, cached, output"}
		}
		if e, ok := err.(*QueryError); ok {
			e.Field = "y"
		}
		return nil, err
	}
	fill := figureFiller(f)
	return func(c *columns, b *block, first int, out []float64) {
		fill(c, b, first, out)
		for i := range out {
			out[i] /= perMS
		}
	}, nil
}

// statusNames are the colours by status.
func statusNames() []string {
	return []string{record.OK.String(), record.Failed.String(), record.Cancelled.String(), record.Incomplete.String()}
}

// dot is a point of a scatter.
type dot struct {
	row int32
	y   float64
}

// Scatter returns the requests that a query takes as points of time and of the figure
// y, in ms or tokens, for a picture of so many pixels: up to 5,000 of them as they are,
// more as tiles with the number of each colour and the lowest and highest point of each
// tile. The error is a *FilterError or a *QueryError.
func (s *Store) Scatter(q Query, y string, width, height int) (Scatter, error) {
	v := s.view()
	figure, err := v.yFigure(y)
	if err != nil {
		return Scatter{}, err
	}
	f, err := parseFilter(q.Filter, v.workloads, v.finishes)
	if err != nil {
		return Scatter{}, err
	}
	out := Scatter{YLog: true, Points: Points{N: []int64{}, X: Times{}, Y: Times{}, C: []int{}}}
	color := func(p *profile) int { return min(int(p.workload), mostColors-1) }
	switch q.Color {
	case "", "workload":
		out.Colors = append([]string{}, v.workloads[:min(len(v.workloads), mostColors)]...)
	case "status":
		out.Colors = statusNames()
		color = func(p *profile) int { return int(p.status()) }
	default:
		return Scatter{}, &QueryError{"color", "there is no colour by " + q.Color, "want workload or status"}
	}
	colors := make([]int, len(v.profiles))
	for i := range colors {
		colors[i] = color(&v.profiles[i])
	}
	put := func(d dot) {
		out.Points.N = append(out.Points.N, int64(v.id[d.row]))
		out.Points.X = append(out.Points.X, float64(v.scheduled[d.row])/perMS)
		out.Points.Y = append(out.Points.Y, d.y)
		out.Points.C = append(out.Points.C, colors[v.profile[d.row]])
	}
	b := newBlock()
	// eachDot calls do with what is taken of every block, and with the figure of its rows.
	eachDot := func(do func(first int, taken []uint16, y []float64)) {
		v.each(&q, f, b, func(first, n int, taken []uint16) {
			y := b.values[:n]
			figure(&v.columns, b, first, y)
			do(first, taken, y)
		})
	}
	// Once for the bounds, and once more for the tiles: that is less than keeping it all.
	in := bounding{x0: math.MaxInt64, x1: math.MinInt64, y0: math.Inf(1), y1: math.Inf(-1)}
	var dots []dot
	eachDot(func(first int, taken []uint16, y []float64) {
		out.Matched += len(taken)
		if in.add(v.scheduled[first:], taken, y); in.n > mostDots {
			return
		}
		for _, i := range taken {
			if y[i] == y[i] {
				dots = append(dots, dot{int32(first) + int32(i), y[i]})
			}
		}
	})
	out.Without = out.Matched - in.n
	if in.n <= mostDots {
		for _, d := range dots {
			put(d)
		}
		return out, nil
	}
	t := newTiling(in, width, height, len(out.Colors))
	eachDot(func(first int, taken []uint16, y []float64) { t.add(&v, first, taken, y, colors) })
	out.Tiles = t.tiles(put)
	return out, nil
}

// bounding is how many points there are, with the bounds of their times, and of their
// figures where these are above 0.
type bounding struct {
	n      int
	x0, x1 int64
	y0, y1 float64
}

// add adds those of the rows taken that have a figure.
func (l *bounding) add(scheduled []int64, taken []uint16, ys []float64) {
	for _, i := range taken {
		y := ys[i]
		if y != y {
			continue
		}
		l.n++
		t := scheduled[i]
		l.x0, l.x1 = min(l.x0, t), max(l.x1, t)
		if y > 0 {
			if y < l.y0 {
				l.y0 = y
			}
			if y > l.y1 {
				l.y1 = y
			}
		}
	}
}

// tile is one cell of the grid of tiles.
type tile struct {
	n         int64
	low, high dot
}

// tiling puts points into tiles of equal size, on a logarithmic scale of y; what is not
// above 0 lies in the lowest.
type tiling struct {
	x0, dx int64
	edges  []float64
	rows   *logRows
	nx     int
	all    []tile
	colors int
	counts []int64 // of each colour of each tile
	// column is that of the last point, which is from one time until another.
	column      int
	from, until int64
}

// newTiling returns the tiling of a picture of so many pixels.
func newTiling(in bounding, width, height, colors int) *tiling {
	y0, y1 := in.y0, in.y1
	if !(y1 > 0) {
		y0, y1 = 1, 2
	}
	if width <= 0 {
		width = 800
	}
	if height <= 0 {
		height = 240
	}
	nx, ny := max(width/tilePixels, 1), max(height/tilePixels, 1)
	for nx*ny > mostTiles {
		if nx > ny {
			nx = (nx + 1) / 2
		} else {
			ny = (ny + 1) / 2
		}
	}
	edges := make([]float64, ny+1)
	for j := range edges {
		edges[j] = y0 * math.Pow(y1/y0, float64(j)/float64(ny))
	}
	edges[0], edges[ny] = y0, y1
	return &tiling{
		x0: in.x0, dx: max((in.x1-in.x0)/int64(nx)+1, 1), edges: edges, rows: rowsOf(edges), nx: nx,
		all: make([]tile, nx*ny), colors: colors, counts: make([]int64, nx*ny*colors),
	}
}

// add adds those of the rows taken that have a figure; colors are those of the profiles.
func (t *tiling) add(v *view, first int, taken []uint16, ys []float64, colors []int) {
	for _, i := range taken {
		y := ys[i]
		if y != y {
			continue
		}
		row := first + int(i)
		if at := v.scheduled[row]; at < t.from || at >= t.until { // rows are about in the order of time
			t.column = int((at - t.x0) / t.dx)
			t.from = t.x0 + int64(t.column)*t.dx
			t.until = t.from + t.dx
		}
		at := t.rows.of(y)*t.nx + t.column
		k := &t.all[at]
		if k.n == 0 || y < k.low.y {
			k.low = dot{int32(row), y}
		}
		if k.n == 0 || y > k.high.y {
			k.high = dot{int32(row), y}
		}
		k.n++
		t.counts[at*t.colors+colors[v.profile[row]]]++
	}
}

// tiles calls put with the extreme points of each tile and returns the tiles.
func (t *tiling) tiles(put func(dot)) *Tiles {
	type entry struct {
		tile, color int
		n           int64
	}
	var entries []entry
	for i := range t.all {
		k := &t.all[i]
		if k.n == 0 {
			continue
		}
		put(k.low)
		if k.high.row != k.low.row {
			put(k.high)
		}
		for c := range t.colors {
			if n := t.counts[i*t.colors+c]; n > 0 {
				entries = append(entries, entry{i, c, n})
			}
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(b.n, a.n) })
	out := new(Tiles)
	for _, e := range entries {
		i, j := e.tile%t.nx, e.tile/t.nx
		left := t.x0 + int64(i)*t.dx
		out.X0 = append(out.X0, float64(left)/perMS)
		out.X1 = append(out.X1, float64(left+t.dx)/perMS)
		out.Y0 = append(out.Y0, t.edges[j])
		out.Y1 = append(out.Y1, t.edges[j+1])
		out.C = append(out.C, e.color)
		out.Count = append(out.Count, e.n)
	}
	return out
}

// logRows finds the row of a figure among rows that ascend by a factor: the first digits
// of its logarithm, which are those of a floating-point number, say about where it is.
type logRows struct {
	edges []float64 // where each row begins, and the last one ends
	base  uint64
	start []int32 // the row of the least figure with these digits
}

// logDigits is how many binary digits of a floating-point number's fraction are left out.
const logDigits = 52 - 7

// rowsOf returns the rows between edges, which are above 0 and ascend.
func rowsOf(edges []float64) *logRows {
	rows := len(edges) - 1
	r := &logRows{edges: edges, base: math.Float64bits(edges[0]) >> logDigits}
	at := 0
	for k := r.base; k <= math.Float64bits(edges[rows])>>logDigits; k++ {
		for least := math.Float64frombits(k << logDigits); at+1 < rows && least >= edges[at+1]; {
			at++
		}
		r.start = append(r.start, int32(at))
	}
	return r
}

// of returns the last row that does not begin above y, the first for what is below all.
func (r *logRows) of(y float64) int {
	if !(y > 0) {
		return 0
	}
	row := 0
	if k := math.Float64bits(y)>>logDigits - r.base; k < uint64(len(r.start)) {
		row = int(r.start[k])
	}
	for row+2 < len(r.edges) && y >= r.edges[row+1] {
		row++
	}
	return row
}
