package load

import (
	"container/list"
	"runtime"
	"sync"

	"plimsoll/internal/message"
	"plimsoll/internal/workload"
)

const (
	// pantryTokens is the length from which a text is worth keeping: a shorter one
	// is made in less time than it takes to look elsewhere for it.
	pantryTokens = 256
	// pantryBytes bounds what is kept, pantryOrders what waits to be made.
	pantryBytes  = 256 << 20
	pantryOrders = 1024
)

// pantry keeps long texts and media that sessions have said or will say, so that a
// context that comes back with every turn is not made again each time, and what a
// turn adds is made while the answer before it is still coming. It is a renderer:
// what it does not have it makes at once. What has not been used longest goes first.
type pantry struct {
	inner  message.Renderer
	limit  int64
	orders chan message.Part
	cooks  sync.WaitGroup

	mu    sync.Mutex // guards what follows
	kept  map[dish]*list.Element
	order list.List // of *serving, the last used first
	bytes int64
}

// dish is what a text or a medium depends on.
type dish struct {
	generator string
	seed      uint64
	tokens    int
	media     message.Media
}

// serving is a dish that was or is being made: data is there when ready is closed.
type serving struct {
	dish  dish
	ready chan struct{}
	data  []byte
}

// newPantry begins to make what is ordered, until close.
func newPantry(inner message.Renderer, limit int64) *pantry {
	p := &pantry{inner: inner, limit: limit, orders: make(chan message.Part, pantryOrders), kept: map[dish]*list.Element{}}
	for range max(1, runtime.GOMAXPROCS(0)/4) {
		p.cooks.Go(func() {
			for part := range p.orders {
				p.take(&part)
			}
		})
	}
	return p
}

func (p *pantry) close() {
	close(p.orders)
	p.cooks.Wait()
}

// worth says whether a part is kept.
func worth(p *message.Part) bool {
	return p.Media != nil || p.Text == "" && len(p.Calls) == 0 && p.Tokens >= pantryTokens
}

// foresee has made what the next requests of a machine bring. What finds no place in
// the queue is made when it is needed.
func (p *pantry) foresee(m workload.Machine) {
	f, ok := m.(workload.Foreseer)
	if !ok {
		return
	}
	f.Foresee(func(part *message.Part) {
		if !worth(part) || p.has(part) {
			return
		}
		select {
		case p.orders <- *part:
		default:
		}
	})
}

func dishOf(p *message.Part) dish {
	if p.Media != nil {
		return dish{media: *p.Media}
	}
	return dish{generator: p.Generator, seed: p.Seed, tokens: p.Tokens}
}

func (p *pantry) has(part *message.Part) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.kept[dishOf(part)]
	return ok
}

// take returns the text or the file of a part, which is not to be changed.
func (p *pantry) take(part *message.Part) []byte {
	d := dishOf(part)
	p.mu.Lock()
	if e, ok := p.kept[d]; ok {
		p.order.MoveToFront(e)
		p.mu.Unlock()
		s := e.Value.(*serving)
		<-s.ready
		return s.data
	}
	s := &serving{dish: d, ready: make(chan struct{})}
	e := p.order.PushFront(s)
	p.kept[d] = e
	p.mu.Unlock()
	var data []byte
	if part.Media != nil {
		data = p.inner.(message.MediaRenderer).AppendMedia(nil, part.Media)
	} else {
		data = p.inner.AppendText(nil, part)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.data = data
	close(s.ready)
	if p.kept[d] != e {
		return data // forgotten while it was made
	}
	p.bytes += int64(len(data))
	for p.bytes > p.limit && p.order.Len() > 1 {
		p.drop()
	}
	return data
}

// drop forgets what has not been used longest. What is still being made counts
// nothing yet.
func (p *pantry) drop() {
	e := p.order.Back()
	s := e.Value.(*serving)
	p.order.Remove(e)
	delete(p.kept, s.dish)
	p.bytes -= int64(len(s.data))
}

// AppendText appends the text of a part.
func (p *pantry) AppendText(dst []byte, part *message.Part) []byte {
	if !worth(part) {
		return p.inner.AppendText(dst, part)
	}
	return append(dst, p.take(part)...)
}

// AppendMedia appends the file of m in base64.
func (p *pantry) AppendMedia(dst []byte, m *message.Media) []byte {
	return append(dst, p.take(&message.Part{Media: m})...)
}
