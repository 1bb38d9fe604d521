package cli

import (
	"math"
	"strings"

	"plimsoll/internal/workload"
)

// The size of a radar in characters, which are about twice as high as wide.
const (
	radarWidth, radarHeight = 62, 21
	radarX, radarY          = 30, 10
	radarRadius             = 9.0
)

// radar draws the axes of one or two shapes over each other: # is the first, o the
// second, @ both, and the dots are a tenfold and a hundredfold of a plain question
// and the axes' ends.
func radar(shapes ...*workload.Shape) []string {
	var grid [radarHeight][radarWidth]rune
	for y := range grid {
		for x := range grid[y] {
			grid[y][x] = ' '
		}
	}
	n := len(shapes[0].Axes)
	at := func(axis int, score float64) (x, y float64) {
		angle := 2*math.Pi*float64(axis)/float64(n) - math.Pi/2
		return radarX + 2*radarRadius*score*math.Cos(angle), radarY + radarRadius*score*math.Sin(angle)
	}
	put := func(x, y float64, r rune) {
		cell := &grid[int(math.Round(y))][int(math.Round(x))]
		switch {
		case r == '.' && *cell != ' ':
		case r == 'o' && *cell == '#':
			*cell = '@'
		default:
			*cell = r
		}
	}
	line := func(x0, y0, x1, y1 float64, r rune) {
		steps := math.Ceil(max(math.Abs(x1-x0), 2*math.Abs(y1-y0), 1))
		for i := 0.0; i <= steps; i++ {
			put(x0+(x1-x0)*i/steps, y0+(y1-y0)*i/steps, r)
		}
	}
	for i := range n {
		x, y := at(i, 1)
		for s := 0.0; s <= 1; s += 1.0 / 9 {
			put(radarX+(x-radarX)*s, radarY+(y-radarY)*s, '.')
		}
	}
	for k, s := range shapes {
		for i := range n {
			x0, y0 := at(i, s.Axes[i].Score)
			x1, y1 := at((i+1)%n, s.Axes[(i+1)%n].Score)
			line(x0, y0, x1, y1, []rune{'#', 'o'}[k])
		}
	}
	for i := range n {
		x, y := at(i, 1)
		name := []rune(shapes[0].Axes[i].Name)
		left, row := int(math.Round(x)), int(math.Round(y))
		switch {
		case math.Abs(x-radarX) < 1:
			left -= len(name) / 2
			row--
		case x < radarX && y < radarY:
			left -= len(name) + 1
		case x > radarX && y < radarY:
			left += 2
		default:
			left -= len(name) / 2
			row++
		}
		for j, r := range name {
			if x := left + j; x >= 0 && x < radarWidth && row >= 0 && row < radarHeight {
				grid[row][x] = r
			}
		}
	}
	out := make([]string, 0, radarHeight)
	for _, row := range grid {
		out = append(out, strings.TrimRight(string(row[:]), " "))
	}
	return out
}
