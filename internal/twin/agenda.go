package twin

// The classes of events of one instant, in order: what ends at an instant has
// ended before what is due at it, and a step that begins at it sees both.
const (
	classEnd = iota
	classDue
	classCut
	classBegin
)

// wake is something that is due in virtual time.
type wake struct {
	id int32 // its number in the agenda, from 1; 0 before it was ever there
	// One of these is set.
	instance *instance
	session  *session
	task     func()
}

type entry struct {
	at    int64
	order uint64
	id    int32
}

// agenda is a heap of what is due, by time, then class, then the order in which
// it was put there; instances go by their index instead, so that how far ahead
// one has planned changes nothing. A wake is there at most once.
//
// A node has four children, and the places are in a row of their own: moving
// entries touches nothing but the heap and that row, which stay in the
// processor's cache when what they stand for does not.
type agenda struct {
	heap []entry
	seq  uint64
	// wakes are all that were ever here, places where they are in heap, from 1, or 0;
	// both by number.
	wakes  []*wake
	places []int32
}

// set puts w at an instant, whether it was on the agenda or not.
func (a *agenda) set(w *wake, at int64, class uint64) {
	if w.id == 0 {
		if len(a.wakes) == 0 {
			a.wakes, a.places = append(a.wakes, nil), append(a.places, 0)
		}
		w.id = int32(len(a.wakes))
		a.wakes, a.places = append(a.wakes, w), append(a.places, 0)
	}
	a.seq++
	order := a.seq
	if w.instance != nil {
		order = uint64(w.instance.index)
	}
	e := entry{at, class<<60 | order, w.id}
	i := int(a.places[w.id]) - 1
	if i < 0 {
		i = len(a.heap)
		a.heap = append(a.heap, e)
	}
	a.put(i, e)
}

// due is when w is due, false when it is not on the agenda.
func (a *agenda) due(w *wake) (at int64, ok bool) {
	if w.id == 0 || a.places[w.id] == 0 {
		return 0, false
	}
	return a.heap[a.places[w.id]-1].at, true
}

// next is when the first wake is due, false when there is none.
func (a *agenda) next() (at int64, ok bool) {
	if len(a.heap) == 0 {
		return 0, false
	}
	return a.heap[0].at, true
}

func (a *agenda) remove(w *wake) {
	if w.id != 0 && a.places[w.id] != 0 {
		a.drop(int(a.places[w.id]) - 1)
	}
}

// pop takes the first wake off the agenda.
func (a *agenda) pop() (w *wake, at int64) {
	e := a.heap[0]
	a.drop(0)
	return a.wakes[e.id], e.at
}

// drop takes out the entry at place i.
func (a *agenda) drop(i int) {
	a.places[a.heap[i].id] = 0
	last := len(a.heap) - 1
	moved := a.heap[last]
	a.heap = a.heap[:last]
	if i < last {
		a.put(i, moved)
	}
}

func (a *entry) before(b *entry) bool {
	return a.at < b.at || a.at == b.at && a.order < b.order
}

// put puts e where it belongs, given that place i is free and all others are in
// order.
func (a *agenda) put(i int, e entry) {
	const children = 4
	h := a.heap
	from := i
	for i > 0 {
		p := (i - 1) / children
		if !e.before(&h[p]) {
			break
		}
		h[i] = h[p]
		a.places[h[i].id] = int32(i + 1)
		i = p
	}
	for i == from {
		c := children*i + 1
		if c >= len(h) {
			break
		}
		for o := c + 1; o < min(children*i+children+1, len(h)); o++ {
			if h[o].before(&h[c]) {
				c = o
			}
		}
		if !h[c].before(&e) {
			break
		}
		h[i] = h[c]
		a.places[h[i].id] = int32(i + 1)
		i, from = c, c
	}
	h[i] = e
	a.places[e.id] = int32(i + 1)
}

// fifo is a queue of sessions.
type fifo struct {
	items []*session
	head  int
}

func (f *fifo) len() int { return len(f.items) - f.head }

func (f *fifo) push(u *session) { f.items = append(f.items, u) }

func (f *fifo) pop() *session {
	u := f.items[f.head]
	f.items[f.head] = nil
	f.head++
	if f.head > 64 && 2*f.head > len(f.items) {
		f.items = append(f.items[:0], f.items[f.head:]...)
		f.head = 0
	}
	return u
}

// remove takes u out of the queue, in which it is at most once.
func (f *fifo) remove(u *session) {
	for i := f.head; i < len(f.items); i++ {
		if f.items[i] == u {
			f.items = append(f.items[:i], f.items[i+1:]...)
			return
		}
	}
}
