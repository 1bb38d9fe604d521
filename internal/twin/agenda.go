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
	pos int // its place in the agenda, from 1; 0 when it is not there
	// One of these is set.
	instance *instance
	session  *session
	task     func()
}

type entry struct {
	at    int64
	order uint64
	w     *wake
}

// agenda is a heap of what is due, by time, then class, then the order in which
// it was put there; instances go by their index instead, so that how far ahead
// one has planned changes nothing. A wake is there at most once.
type agenda struct {
	heap []entry
	seq  uint64
}

// set puts w at an instant, whether it was on the agenda or not.
func (a *agenda) set(w *wake, at int64, class uint64) {
	a.seq++
	order := a.seq
	if w.instance != nil {
		order = uint64(w.instance.index)
	}
	e := entry{at, class<<60 | order, w}
	i := w.pos - 1
	if i < 0 {
		i = len(a.heap)
		a.heap = append(a.heap, e)
		w.pos = i + 1
	} else {
		a.heap[i] = e
	}
	a.fix(i)
}

func (a *agenda) remove(w *wake) {
	i := w.pos - 1
	if i < 0 {
		return
	}
	w.pos = 0
	last := len(a.heap) - 1
	moved := a.heap[last]
	a.heap[last] = entry{}
	a.heap = a.heap[:last]
	if i < last {
		a.heap[i] = moved
		moved.w.pos = i + 1
		a.fix(i)
	}
}

// pop takes the first wake off the agenda.
func (a *agenda) pop() (w *wake, at int64) {
	e := a.heap[0]
	a.remove(e.w)
	return e.w, e.at
}

func (a *entry) before(b *entry) bool {
	return a.at < b.at || a.at == b.at && a.order < b.order
}

func (a *agenda) fix(i int) {
	h := a.heap
	e := h[i]
	from := i
	for i > 0 {
		p := (i - 1) / 2
		if !e.before(&h[p]) {
			break
		}
		h[i] = h[p]
		h[i].w.pos = i + 1
		i = p
	}
	for i == from {
		c := 2*i + 1
		if c >= len(h) {
			break
		}
		if c+1 < len(h) && h[c+1].before(&h[c]) {
			c++
		}
		if !h[c].before(&e) {
			break
		}
		h[i] = h[c]
		h[i].w.pos = i + 1
		i, from = c, c
	}
	h[i] = e
	e.w.pos = i + 1
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
