package detail

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strconv"

	"plimsoll/internal/record"
)

// mostBars bounds what Common returns, mostValues the values of one field that are
// told apart.
const (
	mostBars   = 20
	mostValues = 4096
	userGroups = 8
	// leastLift is by how much a share must be above that of the rest.
	leastLift = 0.01
)

// trait is a field by which requests are compared: a number for each value, and the
// name of each number. A negative number is no value.
type trait struct {
	field string
	of    func(row int) int
	name  func(i int) string
}

// traits returns the fields of v.
func (v *view) traits() []trait {
	list := func(names []string) func(int) string { return func(i int) string { return names[i] } }
	number := func(i int) string { return strconv.Itoa(i) }
	of16 := func(col []uint16) func(int) int { return func(row int) int { return int(col[row]) } }
	of32 := func(col []uint32) func(int) int { return func(row int) int { return int(min(col[row], mostValues-1)) } }
	users := uint32(0)
	for _, u := range v.user {
		users = max(users, u)
	}
	width := users/userGroups + 1
	class := func(col []int32) func(int) int {
		return func(row int) int {
			if col[row] < 0 {
				return -1
			}
			return bits.Len32(uint32(col[row]))
		}
	}
	return []trait{
		{"workload", of16(v.workload), list(v.workloads)},
		{"status", func(row int) int { return int(v.status(row)) }, func(i int) string { return record.Status(i).String() }},
		{"error", func(row int) int { return int(v.err[row]) - 1 }, func(i int) string { return record.ErrorKind(i + 1).String() }},
		{"phase", func(row int) int { return int(v.phase(row)) }, func(i int) string { return record.Phase(i).String() }},
		{"step", of16(v.step), number},
		{"turn", of32(v.turn), number},
		{"target", of16(v.target), number},
		{"user", func(row int) int { return int(v.user[row] / width) }, func(i int) string { return between(int64(i)*int64(width), int64(i+1)*int64(width)-1) }},
		{"prompt", class(v.prompt), powers},
		{"cached", class(v.cached), powers},
		{"output", class(v.output), powers},
		{"reused", func(row int) int { return int(v.kind[row] & kindReused) }, func(i int) string {
			if i == 0 {
				return "new connection"
			}
			return "reused connection"
		}},
		{"http", func(row int) int { return int(min(v.http[row], mostValues-1)) - 1 }, func(i int) string { return strconv.Itoa(i + 1) }},
		{"finish", func(row int) int { return int(v.finish[row]) }, func(i int) string { return v.finishes[i] }},
	}
}

// powers names the numbers of so many binary digits.
func powers(digits int) string {
	if digits == 0 {
		return "0"
	}
	return between(1<<(digits-1), 1<<digits-1)
}

func between(low, high int64) string {
	if low == high {
		return strconv.FormatInt(low, 10)
	}
	return fmt.Sprintf("%d..%d", low, high)
}

// Common returns what the requests in a box have more often than the others
// that a query takes. Requests without the figure of the box are outside. The error is
// a *FilterError or a *QueryError.
func (s *Store) Common(q Query, box Box) (Common, error) {
	v := s.view()
	figure, err := v.yFigure(cmp.Or(box.Y, figureNames[figTTFT]))
	if err != nil {
		return Common{}, err
	}
	rows, _, err := v.find(&q)
	if err != nil {
		return Common{}, err
	}
	in := func(row int) bool {
		if t := v.scheduled[row]; (box.XMin != 0 || box.XMax != 0) && (t < box.XMin || t > box.XMax) {
			return false
		}
		y, ok := figure(row)
		return ok && !(y < box.YMin) && !(y > box.YMax)
	}
	inside := make([]bool, len(rows))
	out := Common{Bars: []Bar{}}
	for i, row := range rows {
		if inside[i] = in(int(row)); inside[i] {
			out.Selected++
		}
	}
	out.Rest = len(rows) - out.Selected
	if out.Selected == 0 {
		return out, nil
	}
	put := func(field, value string, selected, rest int) {
		b := Bar{Field: field, Value: value, Selected: selected, Rest: rest, SelectedShare: float64(selected) / float64(out.Selected)}
		if out.Rest > 0 {
			b.RestShare = float64(rest) / float64(out.Rest)
		}
		if b.SelectedShare-b.RestShare > leastLift {
			out.Bars = append(out.Bars, b)
		}
	}
	var counts [2][]int
	for _, t := range v.traits() {
		counts[0], counts[1] = counts[0][:0], counts[1][:0]
		for i, row := range rows {
			k := t.of(int(row))
			if k < 0 {
				continue
			}
			for len(counts[0]) <= k {
				counts[0], counts[1] = append(counts[0], 0), append(counts[1], 0)
			}
			side := 0
			if inside[i] {
				side = 1
			}
			counts[side][k]++
		}
		for k := range counts[0] {
			if rest, selected := counts[0][k], counts[1][k]; rest+selected > 0 {
				put(t.field, t.name(k), selected, rest)
			}
		}
	}
	var flags [2][16]int
	for i, row := range rows {
		side := 0
		if inside[i] {
			side = 1
		}
		for f := v.flags[row]; f != 0; f &= f - 1 {
			flags[side][bits.TrailingZeros16(f)]++
		}
	}
	for i := range flags[0] {
		if rest, selected := flags[0][i], flags[1][i]; rest+selected > 0 {
			for _, name := range record.Flags(1 << i).Names() {
				put("flag", name, selected, rest)
			}
		}
	}
	// What sets them apart most comes first; of equal ones those of more requests.
	slices.SortStableFunc(out.Bars, func(a, b Bar) int {
		return cmp.Or(
			cmp.Compare(b.SelectedShare-b.RestShare, a.SelectedShare-a.RestShare),
			cmp.Compare(b.Selected, a.Selected),
		)
	})
	out.Bars = out.Bars[:min(len(out.Bars), mostBars)]
	return out, nil
}
