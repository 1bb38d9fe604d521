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

// tally counts the rows of each value of a field, those of the rest and those selected.
type tally [][2]int

// at returns the counts of value k.
func (t *tally) at(k int) *[2]int {
	for len(*t) <= k {
		*t = append(*t, [2]int{})
	}
	return &(*t)[k]
}

// trait is a field by which requests are compared, which has a number for each value.
type trait struct {
	field string
	name  func(k int) string
	// of returns the number of a profile, which is no value below 0; it is nil of what is
	// counted row by row.
	of     func(p *profile) int
	counts tally
}

// counts are what Common counts of rows.
type counts struct {
	profiles               []([2]int)
	turns, users           [mostValues][2]int
	prompt, cached, output [33][2]int // by the number of binary digits
	width                  uint32     // of a group of users
}

// add counts the rows of a block on one side or the other, as side says of each.
func (c *counts) add(v *view, first int, taken []uint16, side []uint8) {
	for j, i := range taken {
		c.profiles[v.profile[first+int(i)]][side[j]&1]++
	}
	for j, i := range taken {
		c.turns[min(v.turn[first+int(i)], mostValues-1)][side[j]&1]++
	}
	for j, i := range taken {
		c.users[v.user[first+int(i)]/c.width%mostValues][side[j]&1]++ // there are no more than userGroups
	}
	digits := func(column []int32, to *[33][2]int) {
		for j, i := range taken {
			if n := column[first+int(i)]; n >= 0 {
				to[bits.Len32(uint32(n))][side[j]&1]++
			}
		}
	}
	digits(v.prompt, &c.prompt)
	digits(v.cached, &c.cached)
	digits(v.output, &c.output)
}

// traits returns the fields of the rows that were counted.
func (c *counts) traits(v *view) []trait {
	list := func(names []string) func(int) string { return func(k int) string { return names[k] } }
	out := []trait{
		{field: "workload", of: func(p *profile) int { return int(p.workload) }, name: list(v.workloads)},
		{field: "status", of: func(p *profile) int { return int(p.status()) }, name: func(k int) string { return record.Status(k).String() }},
		{field: "error", of: func(p *profile) int { return int(p.err) - 1 }, name: func(k int) string { return record.ErrorKind(k + 1).String() }},
		{field: "phase", of: func(p *profile) int { return int(p.phase()) }, name: func(k int) string { return record.Phase(k).String() }},
		{field: "step", of: func(p *profile) int { return int(p.step) }, name: strconv.Itoa},
		{field: "turn", counts: c.turns[:], name: strconv.Itoa},
		{field: "target", of: func(p *profile) int { return int(p.target) }, name: strconv.Itoa},
		{field: "user", counts: c.users[:], name: func(k int) string {
			return between(int64(k)*int64(c.width), int64(k+1)*int64(c.width)-1)
		}},
		{field: "prompt", counts: c.prompt[:], name: powers},
		{field: "cached", counts: c.cached[:], name: powers},
		{field: "output", counts: c.output[:], name: powers},
		{field: "reused", of: func(p *profile) int { return int(p.kind & kindReused) }, name: func(k int) string {
			if k == 0 {
				return "new connection"
			}
			return "reused connection"
		}},
		{field: "http", of: func(p *profile) int { return int(min(p.http, mostValues-1)) - 1 }, name: func(k int) string { return strconv.Itoa(k + 1) }},
		{field: "finish", of: func(p *profile) int { return int(p.finish) }, name: list(v.finishes)},
	}
	for i := range 16 {
		names := record.Flags(1 << i).Names()
		for _, name := range names {
			out = append(out, trait{field: "flag", name: func(int) string { return name }, of: func(p *profile) int { return int(p.flags>>i&1) - 1 }})
		}
	}
	for i := range out {
		t := &out[i]
		if t.of == nil {
			continue
		}
		for p := range v.profiles {
			n := c.profiles[p]
			if k := t.of(&v.profiles[p]); k >= 0 && n != [2]int{} {
				to := t.counts.at(k)
				to[0], to[1] = to[0]+n[0], to[1]+n[1]
			}
		}
	}
	return out
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
	f, err := parseFilter(q.Filter, v.workloads, v.finishes)
	if err != nil {
		return Common{}, err
	}
	users := uint32(0)
	for _, u := range v.user {
		users = max(users, u)
	}
	c := &counts{profiles: make([][2]int, len(v.profiles)), width: users/userGroups + 1}
	var side [blockRows]uint8
	out, total := Common{Bars: []Bar{}}, 0
	b := newBlock()
	v.each(&q, f, b, func(first, n int, taken []uint16) {
		total += len(taken)
		values := b.values[:n]
		figure(&v.columns, b, first, values)
		for j, i := range taken {
			y := values[i]
			side[j] = bit(y == y) &^ bit(y < box.YMin) &^ bit(y > box.YMax)
		}
		if box.XMin != 0 || box.XMax != 0 {
			for j, i := range taken {
				t := v.scheduled[first+int(i)]
				side[j] &^= bit(t < box.XMin) | bit(t > box.XMax)
			}
		}
		for _, s := range side[:len(taken)] {
			out.Selected += int(s)
		}
		c.add(&v, first, taken, side[:])
	})
	out.Rest = total - out.Selected
	if out.Selected == 0 {
		return out, nil
	}
	for _, t := range c.traits(&v) {
		for k, n := range t.counts {
			if n == [2]int{} {
				continue
			}
			b := Bar{Field: t.field, Value: t.name(k), Selected: n[1], Rest: n[0], SelectedShare: float64(n[1]) / float64(out.Selected)}
			if out.Rest > 0 {
				b.RestShare = float64(n[0]) / float64(out.Rest)
			}
			if b.SelectedShare-b.RestShare > leastLift {
				out.Bars = append(out.Bars, b)
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
