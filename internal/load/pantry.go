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
// A text that is the beginning of another is cut from that, which is kept, too: one
// whose length only an answer tells is made ahead at the greatest that it may have.
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

// errand is what a machine's next requests bring: each part with its place in kept.
type errand struct {
	parts    []message.Part
	elements []*list.Element
	works    []func()
}

// dish is what a text or a medium depends on.
type dish struct {
	generator string
	seed      uint64
	tokens    int
	media     message.Media
}

// serving is a dish that is ordered, or being made when it is begun: data is there
// when ready is closed.
type serving struct {
	dish  dish
	begun bool
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
					p.cook(&o.parts[i], o.elements[i])
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

// cutter is a renderer some of whose texts are beginnings of others.
type cutter interface {
	// Whole returns the part whose text that of p is the beginning of, and whether it
	// is another.
	Whole(p *message.Part) (message.Part, bool)
	// AppendCut appends the text of p, given that of Whole. It makes none.
	AppendCut(dst, text []byte, p *message.Part) []byte
}

// whole is Whole of a renderer that may have none.
func (p *pantry) whole(part *message.Part) (message.Part, bool) {
	if c, ok := p.inner.(cutter); ok && part.Media == nil {
		return c.Whole(part)
	}
	return *part, false
}

// worth says whether a part is kept.
func (p *pantry) worth(part *message.Part) bool {
	if part.Media != nil || part.Text != "" || len(part.Calls) > 0 {
		return part.Media != nil
	}
	w, _ := p.whole(part)
	return max(w.Tokens, part.Tokens) >= pantryTokens
}

// foresee has made what the next requests of a machine bring. What finds no place in
// the queue is made when it is needed.
func (p *pantry) foresee(m workload.Machine) {
	if f, ok := m.(workload.Foreseer); ok {
		var o errand
		f.Foresee(func(part *message.Part) { p.want(&o, part) }, func(do func()) { o.works = append(o.works, do) })
		p.send(o)
	}
}

// expect has made what a request brings that is not prepared yet.
func (p *pantry) expect(m workload.Machine, r *message.Request) {
	if _, ok := m.(workload.Foreseer); ok {
		var o errand
		for i := range r.Parts {
			p.want(&o, &r.Parts[i])
		}
		p.send(o)
	}
}

// want puts a part on an errand.
func (p *pantry) want(o *errand, part *message.Part) {
	if p.worth(part) && len(o.parts) < pantryWaiting {
		o.parts = append(o.parts, *part)
	}
}

// send sends out for what is not there yet, if there is place in the queue.
func (p *pantry) send(o errand) {
	p.mu.Lock()
	o.parts = slices.DeleteFunc(o.parts, func(part message.Part) bool {
		d := dishOf(&part)
		if p.kept[d] != nil {
			return true
		}
		o.elements = append(o.elements, p.place(d))
		return false
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
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range o.elements {
		if s := e.Value.(*serving); !s.begun && p.kept[s.dish] == e {
			p.remove(e)
		}
	}
}

func dishOf(p *message.Part) dish {
	if p.Media != nil {
		return dish{media: *p.Media}
	}
	return dish{generator: p.Generator, seed: p.Seed, tokens: p.Tokens}
}

// place makes room for a dish. The lock is held.
func (p *pantry) place(d dish) *list.Element {
	e := p.order.PushFront(&serving{dish: d, ready: make(chan struct{})})
	p.kept[d] = e
	p.bytes += servingBytes
	return e
}

// remove forgets a dish. The text of what is still being made counts nothing yet. The
// lock is held.
func (p *pantry) remove(e *list.Element) {
	s := p.order.Remove(e).(*serving)
	delete(p.kept, s.dish)
	p.bytes -= int64(len(s.data)) + servingBytes
}

// cook makes what was ordered, unless somebody could not wait for it or it is not
// wanted any more.
func (p *pantry) cook(part *message.Part, e *list.Element) {
	p.mu.Lock()
	s := e.Value.(*serving)
	if s.begun || p.kept[s.dish] != e {
		p.mu.Unlock()
		return
	}
	s.begun = true
	p.mu.Unlock()
	p.fill(part, e)
}

// take returns the text or the file of a part, which is not to be changed.
func (p *pantry) take(part *message.Part) []byte {
	d := dishOf(part)
	p.mu.Lock()
	e, ok := p.kept[d]
	if !ok {
		e = p.place(d)
	}
	p.order.MoveToFront(e)
	s := e.Value.(*serving)
	begun := s.begun
	s.begun = true
	p.mu.Unlock()
	if !begun {
		return p.fill(part, e)
	}
	<-s.ready
	return s.data
}

// fill makes what whoever calls it has begun.
func (p *pantry) fill(part *message.Part, e *list.Element) []byte {
	s := e.Value.(*serving)
	data := p.produce(nil, part)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.data = data
	close(s.ready)
	if p.kept[s.dish] != e {
		return data // forgotten while it was made
	}
	p.bytes += int64(len(data))
	for p.bytes > p.limit && p.order.Len() > 1 {
		p.remove(p.order.Back())
	}
	return data
}

// produce appends what a part brings, which is not there yet.
func (p *pantry) produce(dst []byte, part *message.Part) []byte {
	if part.Media != nil {
		return p.inner.(message.MediaRenderer).AppendMedia(dst, part.Media)
	}
	if w, cut := p.whole(part); cut {
		return p.inner.(cutter).AppendCut(dst, p.take(&w), part)
	}
	return p.inner.AppendText(dst, part)
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

// lastTime is a pantry for a request that no other begins with: of the text at its end,
// its turn's own, nothing is kept.
type lastTime struct {
	*pantry
	own []message.Part
}

// lastTime returns one for a request of parts.
func (p *pantry) lastTime(parts []message.Part) *lastTime {
	n := len(parts)
	for n > 0 && parts[n-1].Layer == message.LayerTurn {
		n--
	}
	return &lastTime{p, parts[n:]}
}

// AppendText appends the text of a part.
func (l *lastTime) AppendText(dst []byte, part *message.Part) []byte {
	d := dishOf(part)
	if !l.worth(part) || !slices.ContainsFunc(l.own, func(own message.Part) bool { return own.Media == nil && dishOf(&own) == d }) {
		return l.pantry.AppendText(dst, part)
	}
	l.mu.Lock()
	e, ok := l.kept[d]
	begun := false
	if ok {
		begun = e.Value.(*serving).begun
		l.remove(e)
	}
	l.mu.Unlock()
	if !begun {
		return l.produce(dst, part)
	}
	s := e.Value.(*serving)
	<-s.ready
	return append(dst, s.data...)
}
