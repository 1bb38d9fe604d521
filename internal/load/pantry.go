package load

import (
	"container/list"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"plimsoll/internal/message"
	"plimsoll/internal/workload"
)

const (
	// pantryTokens is the length from which a text is worth keeping: a shorter one
	// is made in less time than it takes to look elsewhere for it. Traces have blocks
	// of 16 tokens, and hundreds of them in a prompt.
	pantryTokens = 16
	// pantryBytes bounds what is kept, servingBytes is what each text takes beside
	// itself.
	pantryBytes  = 256 << 20
	servingBytes = 512
	// pantryOrders bounds the requests of which something waits to be made,
	// pantryWaiting the parts of all of them.
	pantryOrders  = 1024
	pantryWaiting = 1 << 16
)

// pantry keeps long texts and media that sessions have said or will say, so that a
// context that comes back with every turn is not made again each time, and what a
// turn adds is made while the answer before it is still coming. It is a renderer:
// what it does not have it makes at once. What has not been used longest goes first.
type pantry struct {
	inner  message.Renderer
	limit  int64
	orders chan errand
	cooks  sync.WaitGroup
	// waiting counts the parts of the orders.
	waiting atomic.Int64

	mu    sync.Mutex // guards what follows
	kept  map[dish]*list.Element
	order list.List // of *serving, the last used first
	bytes int64
}

// errand is what a machine's next requests bring.
type errand struct {
	parts []message.Part
	works []func()
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
	p := &pantry{inner: inner, limit: limit, orders: make(chan errand, pantryOrders), kept: map[dish]*list.Element{}}
	for range max(1, runtime.GOMAXPROCS(0)/4) {
		p.cooks.Go(func() {
			for o := range p.orders {
				for _, do := range o.works {
					do()
				}
				for i := range o.parts {
					p.take(&o.parts[i])
				}
				p.waiting.Add(-int64(len(o.parts)))
			}
		})
	}
	return p
}

func (p *pantry) close() {
	close(p.orders)
	p.cooks.Wait()
}

// whole is a renderer that makes more of some parts than it uses.
type whole interface {
	// Makes returns the length of the text that is made for a part, in tokens.
	Makes(p *message.Part) int
}

// worth says whether a part is kept.
func (p *pantry) worth(part *message.Part) bool {
	if part.Media != nil || part.Text != "" || len(part.Calls) > 0 {
		return part.Media != nil
	}
	tokens := part.Tokens
	if w, ok := p.inner.(whole); ok {
		tokens = w.Makes(part)
	}
	return tokens >= pantryTokens
}

// foresee has made what the next requests of a machine bring. What finds no place in
// the queue is made when it is needed.
func (p *pantry) foresee(m workload.Machine) {
	f, ok := m.(workload.Foreseer)
	if !ok {
		return
	}
	var o errand
	f.Foresee(func(part *message.Part) {
		if p.worth(part) && len(o.parts) < pantryWaiting {
			o.parts = append(o.parts, *part)
		}
	}, func(do func()) { o.works = append(o.works, do) })
	p.mu.Lock()
	o.parts = slices.DeleteFunc(o.parts, func(part message.Part) bool {
		_, ok := p.kept[dishOf(&part)]
		return ok
	})
	p.mu.Unlock()
	n := int64(len(o.parts))
	if n == 0 && o.works == nil {
		return
	}
	if p.waiting.Add(n) <= pantryWaiting {
		select {
		case p.orders <- o:
			return
		default:
		}
	}
	p.waiting.Add(-n)
}

func dishOf(p *message.Part) dish {
	if p.Media != nil {
		return dish{media: *p.Media}
	}
	return dish{generator: p.Generator, seed: p.Seed, tokens: p.Tokens}
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
	p.bytes += servingBytes
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

// drop forgets what has not been used longest. The text of what is still being made
// counts nothing yet.
func (p *pantry) drop() {
	e := p.order.Back()
	s := e.Value.(*serving)
	p.order.Remove(e)
	delete(p.kept, s.dish)
	p.bytes -= int64(len(s.data)) + servingBytes
}

// AppendText appends the text of a part.
func (p *pantry) AppendText(dst []byte, part *message.Part) []byte {
	if !p.worth(part) {
		return p.inner.AppendText(dst, part)
	}
	return append(dst, p.take(part)...)
}

// AppendMedia appends the file of m in base64.
func (p *pantry) AppendMedia(dst []byte, m *message.Media) []byte {
	return append(dst, p.take(&message.Part{Media: m})...)
}
