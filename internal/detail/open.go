package detail

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"slices"

	"plimsoll/internal/run"
)

// Open returns the Store of a run on disk. Timeline gives the rows of its timeline; nil
// is for those in its folder. What could not be read is left out: a run whose process
// was killed has what it wrote.
func Open(r *run.Run, timeline iter.Seq2[[]run.TimelineRow, error]) (*Store, error) {
	if timeline == nil {
		timeline = r.Timeline()
	}
	in, err := r.Input()
	if err != nil {
		return nil, fmt.Errorf("open detail: %w", err)
	}
	meta := Meta{Dir: r.Dir(), Input: in}
	if a := r.Info().Alignment; a != nil {
		meta.Step = a.StepNS
	}
	s := New(meta)
	var places []run.Place
	for p, q := range r.Placed() {
		places = append(places, p)
		s.AddRequest(q)
	}
	for rows, err := range timeline {
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("open detail: %w", err)
		}
		s.addRows(rows)
	}
	s.finish(places)
	return s, nil
}

// finish makes the store that of a run that is over, whose records lie at places, in
// the order in which they were added; places may be nil.
func (s *Store) finish(places []run.Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(math.MaxInt64)
	if places != nil {
		at := make([]uint32, len(places))
		next := uint32(0)
		for i, p := range places {
			if n := len(s.parts); n == 0 || s.parts[n-1].name != p.Part {
				s.parts = append(s.parts, part{p.Part, next})
			}
			at[i] = s.parts[len(s.parts)-1].first + uint32(p.Row)
			next = at[i] + 1
		}
		s.cols.place = at
	}
	s.cols.sort()
	s.lasting = true
}

// sort puts the rows into the order of their schedule, those of one time into that of
// their numbers.
func (c *columns) sort() {
	order := make([]int32, c.rows())
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(c.scheduled[a], c.scheduled[b]), cmp.Compare(c.id[a], c.id[b]))
	})
	c.id, c.scheduled, c.session = permuted(c.id, order), permuted(c.scheduled, order), permuted(c.session, order)
	c.user, c.turn, c.step = permuted(c.user, order), permuted(c.turn, order), permuted(c.step, order)
	c.workload, c.target = permuted(c.workload, order), permuted(c.target, order)
	c.kind, c.err, c.finish = permuted(c.kind, order), permuted(c.err, order), permuted(c.finish, order)
	c.flags, c.http = permuted(c.flags, order), permuted(c.http, order)
	c.prompt, c.cached, c.output = permuted(c.prompt, order), permuted(c.cached, order), permuted(c.output, order)
	c.tpotTokens = permuted(c.tpotTokens, order)
	if c.place != nil {
		c.place = permuted(c.place, order)
	}
	for i := range c.durations {
		old := &c.durations[i]
		var d durations
		if old.lo == nil {
			continue
		}
		for row, from := range order {
			if v, ok := old.get(int(from)); ok {
				d.put(row, v)
			}
		}
		c.durations[i] = d
	}
}

func permuted[T any](list []T, order []int32) []T {
	out := make([]T, len(list))
	for i, from := range order {
		out[i] = list[from]
	}
	return out
}
