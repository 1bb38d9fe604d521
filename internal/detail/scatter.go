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

// yFigure returns how the figure called name is read of a row: ms or tokens.
func (v *view) yFigure(name string) (func(row int) (float64, bool), error) {
	if of, ok := tokenFields[name]; ok {
		return func(row int) (float64, bool) { n := of(&v.columns, row); return float64(n), n >= 0 }, nil
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
	return func(row int) (float64, bool) {
		ns, ok := v.known(row, f)
		return ns / perMS, ok
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
	rows, _, err := v.find(&q)
	if err != nil {
		return Scatter{}, err
	}
	out := Scatter{Matched: len(rows), YLog: true, Points: Points{N: []int64{}, X: Times{}, Y: Times{}, C: []int{}}}
	color := func(row int32) int { return min(int(v.workload[row]), mostColors-1) }
	switch q.Color {
	case "", "workload":
		out.Colors = append([]string{}, v.workloads[:min(len(v.workloads), mostColors)]...)
	case "status":
		out.Colors = statusNames()
		color = func(row int32) int { return int(v.status(int(row))) }
	default:
		return Scatter{}, &QueryError{"color", "there is no colour by " + q.Color, "want workload or status"}
	}
	dots := make([]dot, 0, len(rows))
	for _, row := range rows {
		if y, ok := figure(int(row)); ok {
			dots = append(dots, dot{row, y})
		}
	}
	out.Without = len(rows) - len(dots)
	put := func(d dot) {
		out.Points.N = append(out.Points.N, int64(v.id[d.row]))
		out.Points.X = append(out.Points.X, float64(v.scheduled[d.row])/perMS)
		out.Points.Y = append(out.Points.Y, d.y)
		out.Points.C = append(out.Points.C, color(d.row))
	}
	if len(dots) <= mostDots {
		for _, d := range dots {
			put(d)
		}
		return out, nil
	}
	out.Tiles = v.tiles(dots, width, height, len(out.Colors), color, put)
	return out, nil
}

// tile is one cell of the grid of tiles.
type tile struct {
	n         int64
	low, high dot
}

// tiles puts dots into tiles of equal size, on a logarithmic scale of y; what is not
// above 0 lies in the lowest. It calls put with the extreme points.
func (v *view) tiles(dots []dot, width, height, colors int, color func(int32) int, put func(dot)) *Tiles {
	x0, x1 := int64(math.MaxInt64), int64(math.MinInt64)
	y0, y1 := math.Inf(1), math.Inf(-1)
	for _, d := range dots {
		t := v.scheduled[d.row]
		x0, x1 = min(x0, t), max(x1, t)
		if d.y > 0 {
			y0, y1 = min(y0, d.y), max(y1, d.y)
		}
	}
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
	dx := max((x1-x0)/int64(nx)+1, 1)
	// Rows by logarithm: the bounds are compared, which is much faster.
	edges := make([]float64, ny+1)
	for j := range edges {
		edges[j] = y0 * math.Pow(y1/y0, float64(j)/float64(ny))
	}
	edges[0], edges[ny] = y0, y1
	row := func(y float64) int {
		lo, hi := 0, ny-1
		for lo < hi {
			if m := (lo + hi + 1) / 2; y >= edges[m] {
				lo = m
			} else {
				hi = m - 1
			}
		}
		return lo
	}
	all := make([]tile, nx*ny)
	counts := make([]int64, nx*ny*colors)
	for _, d := range dots {
		i := row(d.y)*nx + int((v.scheduled[d.row]-x0)/dx)
		t := &all[i]
		if t.n == 0 || d.y < t.low.y {
			t.low = d
		}
		if t.n == 0 || d.y > t.high.y {
			t.high = d
		}
		t.n++
		counts[i*colors+color(d.row)]++
	}
	type entry struct {
		tile, color int
		n           int64
	}
	var list []entry
	for i := range all {
		t := &all[i]
		if t.n == 0 {
			continue
		}
		put(t.low)
		if t.high.row != t.low.row {
			put(t.high)
		}
		for c := range colors {
			if n := counts[i*colors+c]; n > 0 {
				list = append(list, entry{i, c, n})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b entry) int { return cmp.Compare(b.n, a.n) })
	out := new(Tiles)
	for _, e := range list {
		i, j := e.tile%nx, e.tile/nx
		left := x0 + int64(i)*dx
		out.X0 = append(out.X0, float64(left)/perMS)
		out.X1 = append(out.X1, float64(left+dx)/perMS)
		out.Y0 = append(out.Y0, edges[j])
		out.Y1 = append(out.Y1, edges[j+1])
		out.C = append(out.C, e.color)
		out.Count = append(out.Count, e.n)
	}
	return out
}
