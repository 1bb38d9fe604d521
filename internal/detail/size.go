package detail

import "unsafe"

// Size returns about how many bytes of memory a store holds.
func (s *Store) Size() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c := &s.cols
	n := held(c.id) + held(c.scheduled) + held(c.session) + held(c.user) + held(c.turn) + held(c.profile) + held(c.profiles) +
		held(c.prompt) + held(c.cached) + held(c.output) + held(c.tpotTokens) + held(c.place)
	for i := range c.durations {
		d := &c.durations[i]
		n += held(d.lo) + held(d.hi) + held(d.far)
	}
	for i, order := range s.orders {
		shared := false // with a figure before
		for _, other := range s.orders[:i] {
			shared = shared || len(order) > 0 && len(other) > 0 && &order[0] == &other[0]
		}
		if !shared {
			n += held(order)
		}
	}
	for _, cells := range s.cells {
		n += held(cells)
	}
	for _, cells := range s.goods {
		n += held(cells)
	}
	gaps := func(level []gapCells) {
		for _, cells := range level {
			n += held(cells)
			for _, b := range cells {
				n += int64(len(b)) // cells of a file share one array
			}
		}
	}
	gaps(s.gaps)
	for _, level := range s.coarse {
		gaps(level)
	}
	for i := range s.signals.courses {
		n += held(s.signals.courses[i].values)
	}
	if f := s.signals.file; f != nil {
		n += held(f.memory)
		for _, at := range f.at {
			n += held(at)
		}
	}
	return n + held(s.signals.keys) + held(s.signals.series)
}

// held is how many bytes the array of a list takes.
func held[T any](list []T) int64 {
	var v T
	return int64(cap(list)) * int64(unsafe.Sizeof(v))
}
