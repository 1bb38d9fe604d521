package detail

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"plimsoll/internal/record"
)

const (
	defaultLimit = 200
	mostRows     = 10_000
)

// QueryError is what is wrong with a question, other than its filter.
type QueryError struct{ Field, Text, Fix string }

// Error returns the text.
func (e *QueryError) Error() string { return "read query: " + e.Field + ": " + e.Text }

// find returns the rows that a query takes, in the order in which they are kept, and
// how many there are in its range.
func (v *view) find(q *Query) (rows []int32, total int, err error) {
	f, err := parseFilter(q.Filter, v.workloads, v.finishes)
	if err != nil {
		return nil, 0, err
	}
	if f.all() {
		first, last := v.rows(bounds(q.From, q.To))
		rows = make([]int32, 0, last-first)
	}
	total = v.each(q, f, newBlock(), func(first, n int, taken []uint16) {
		rows = slices.Grow(rows, len(taken))
		for _, i := range taken {
			rows = append(rows, int32(first)+int32(i))
		}
	})
	return rows, total, nil
}

// sortNames are the fields that rows can be sorted by beside figures.
var sortNames = []string{"t", "n", "end", "workload", "session", "turn", "user", "step", "phase", "target", "status", "error_kind", "http_status", "finish", "prompt", "cached", "output"}

// sortKey returns what rows are sorted by.
func (v *view) sortKey(name string) (filler, error) {
	if f, ok := figureOf(name); ok {
		return figureFiller(f), nil
	}
	if name == "http_status" {
		name = "http"
	}
	for _, m := range []map[string]filler{rowFields, tokenFields} {
		if fill, ok := m[name]; ok {
			return fill, nil
		}
	}
	if of, ok := profileFields[name]; ok {
		return profileFiller(of), nil
	}
	switch name {
	case "t":
		return func(c *columns, _ *block, first int, out []float64) { whole(c.scheduled[first:first+len(out)], out) }, nil
	case "end":
		return func(c *columns, b *block, first int, out []float64) {
			ends := b.a[:len(out)]
			c.durations[colEnd].load(first, ends)
			sums(ends, c.scheduled[first:first+len(out)], 1)
			whole(ends, out)
		}, nil
	case "phase":
		return profileFiller(func(p *profile) int64 { return int64(p.phase()) }), nil
	case "status":
		return profileFiller(func(p *profile) int64 { return int64(p.status()) }), nil
	case "workload":
		rank := ranks(v.workloads)
		return profileFiller(func(p *profile) int64 { return rank[p.workload] }), nil
	case "finish":
		rank := ranks(v.finishes)
		return profileFiller(func(p *profile) int64 { return rank[p.finish] }), nil
	case "error_kind":
		return profileFiller(func(p *profile) int64 { return int64(p.err) }), nil
	}
	all := append(slices.Clone(sortNames), figureNames[:figMeanITL]...)
	return nil, &QueryError{"sort", fmt.Sprintf("there is no column %q", name), "want one of " + strings.Join(all, ", ") + ", with - before it for the largest first"}
}

// ranks returns the place of each text in the order of the alphabet.
func ranks(list []string) []int64 {
	order := slices.Sorted(slices.Values(list))
	out := make([]int64, len(list))
	for i, s := range list {
		at, _ := slices.BinarySearch(order, s)
		out[i] = int64(at)
	}
	return out
}

// page returns the rows from offset on, at most limit of them, of those sorted by what
// sort says: unknown values last, equal ones by number.
func (v *view) page(rows []int32, sort string, offset, limit int) ([]int32, error) {
	name, down := strings.CutPrefix(cmp.Or(sort, "t"), "-")
	fill, err := v.sortKey(name)
	if err != nil {
		return nil, err
	}
	if offset >= len(rows) || limit <= 0 {
		return nil, nil
	}
	end := min(offset+limit, len(rows))
	if name == "t" && v.sorted && !down {
		return rows[offset:end], nil
	}
	list := make([]keyed, len(rows))
	b := newBlock()
	first, until := 0, 0 // the rows in the block
	for i, row := range rows {
		if int(row) >= until {
			first, until = int(row), min(int(row)+blockRows, v.columns.rows())
			fill(&v.columns, b, first, b.values[:until-first])
		}
		k := b.values[int(row)-first]
		if down {
			k = -k
		}
		if k != k {
			k = math.Inf(1)
		}
		list[i] = keyed{k, v.id[row], row}
	}
	smallest(list, end)
	slices.SortFunc(list[:end], compareKeyed)
	out := make([]int32, 0, end-offset)
	for _, k := range list[offset:end] {
		out = append(out, k.row)
	}
	return out, nil
}

type keyed struct {
	key float64
	id  uint32
	row int32
}

func compareKeyed(a, b keyed) int {
	switch {
	case a.key < b.key:
		return -1
	case a.key > b.key:
		return 1
	case a.id != b.id:
		return cmp.Compare(a.id, b.id)
	}
	return cmp.Compare(a.row, b.row)
}

// smallest reorders list so that the first n are the smallest.
func smallest(list []keyed, n int) {
	lo, hi := 0, len(list)-1
	for lo < hi && n < len(list) {
		p := list[lo+(hi-lo)/2]
		i, j := lo, hi
		for i <= j {
			for compareKeyed(list[i], p) < 0 {
				i++
			}
			for compareKeyed(list[j], p) > 0 {
				j--
			}
			if i <= j {
				list[i], list[j] = list[j], list[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case n-1 <= j:
			hi = j
		case n >= i+1:
			lo = i
		default:
			return
		}
	}
}

// Requests returns the requests that a query takes, a page of them at most. The error
// is a *FilterError or a *QueryError.
func (s *Store) Requests(q Query) (Rows, error) {
	v := s.view()
	rows, total, err := v.find(&q)
	if err != nil {
		return Rows{}, err
	}
	limit := q.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	page, err := v.page(rows, q.Sort, max(q.Offset, 0), min(limit, mostRows))
	if err != nil {
		return Rows{}, err
	}
	out := Rows{Total: total, Matched: len(rows), Rows: make([]RequestRow, len(page))}
	for i, row := range page {
		out.Rows[i] = v.row(int(row))
	}
	return out, nil
}

// row returns the request of a row.
func (v *view) row(row int) RequestRow {
	ms := func(f figure) *Ms {
		ns, ok := v.shown(row, f)
		if !ok {
			return nil
		}
		m := Ms(ns / perMS)
		return &m
	}
	count := func(n int32) *int {
		if n < 0 {
			return nil
		}
		c := int(n)
		return &c
	}
	p := v.of(row)
	out := RequestRow{
		N: int64(v.id[row]), T: ToMs(v.scheduled[row]),
		Workload: v.workloads[p.workload], Session: v.session[row], Turn: int(v.turn[row]), User: int(v.user[row]), Step: int(p.step),
		Phase: p.phase().String(), Target: int(p.target),
		Status: p.status().String(), ErrorKind: record.ErrorKind(p.err).String(), Finish: v.finishes[p.finish],
		TTFT: ms(figTTFT), TTFC: ms(figTTFC), TPOT: ms(figTPOT), E2E: ms(figE2E), TTLT: ms(figTTLT), Retrieval: ms(figRetrieval), SendLag: ms(figSendLag),
		PromptTokens: count(v.prompt[row]), CachedTokens: count(v.cached[row]), OutputTokens: count(v.output[row]),
	}
	if t, ok := v.end(row); ok {
		m := ToMs(t)
		out.End = &m
	}
	if h := int(p.http); h != 0 {
		out.HTTPStatus = &h
	}
	return out
}

// Every returns one in n of the requests that a filter takes, in the order of their
// schedule, at most as many as a page of Requests has.
func (s *Store) Every(filter string, n int) ([]RequestRow, error) {
	v := s.view()
	rows, _, err := v.find(&Query{Filter: filter})
	if err != nil {
		return nil, err
	}
	var out []RequestRow
	for i := 0; i < len(rows) && len(out) < mostRows; i += max(n, 1) {
		out = append(out, v.row(int(rows[i])))
	}
	return out, nil
}
