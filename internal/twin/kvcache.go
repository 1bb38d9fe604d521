package twin

import "plimsoll/internal/random"

// Extent is a stretch of a sequence's text: the first Tokens tokens of the text
// called ID. Equal IDs are equal texts, whoever sends them, so what tells two
// prompts apart is never the text itself: in virtual time none is made.
type Extent struct {
	ID     uint64
	Tokens int
}

// span is a stretch of a text from its off-th token on.
type span struct {
	id     uint64
	off, n uint32
}

// kvPool is an engine's KV memory with its prefix cache. It counts blocks and
// never lists them: blocks that are held, freed and evicted together are one
// extent, which is split when some of them go another way. What it does is what
// vLLM's block pool does block by block:
//
//   - A block that is full is cached under the hash of its tokens and of all
//     before them. A sequence starts with the cached blocks of its longest known
//     prefix and holds them together with whoever else does.
//   - Blocks that nobody holds are in a queue. A new block is the head of the
//     queue, and what was cached in it is forgotten. A sequence that leaves puts
//     its blocks at the tail, the last one first, so that the end of a text is
//     forgotten before its beginning. A hit takes its blocks out of the queue.
//   - Equal blocks that were computed beside each other stay two blocks; the
//     elder one is found.
//
// SGLang's radix tree (radix) differs in three things:
//
//   - Blocks without text are taken first, whenever they became free.
//   - Who computed what is known already holds the known blocks, and its own are
//     free.
//   - What was looked at least lately is forgotten first: finding a prefix puts it at
//     the tail of the queue, also when there was no room to go on with it.
//
// One thing is finer than there: of the text that is forgotten next only as much goes
// as is wanted, from its end, where SGLang drops the stretch that was added at once.
type kvPool struct {
	block   int
	caching bool
	radix   bool
	// free is the number of blocks in the queue, less debt: those that were taken
	// from its head and have not been unlinked yet. Putting that off until somebody
	// looks a prefix up makes a step's blocks one subtraction.
	free, debt int
	// weight is how many blocks of the memory a cached block of tokens takes: 1
	// but for models with windows, of which only the layers that see everything keep
	// what they have.
	weight int

	head, tail *row
	index      map[uint64]*passage
	serial     uint64
	// path is what the last lookup found.
	path []found

	// Evicted counts cached blocks that were given to somebody else.
	Evicted int64
}

// passage is a stretch of cached text, from the from-th to before the to-th block
// of the texts that begin alike. Nodes form a tree: a node's children go on where
// it ends.
type passage struct {
	serial   uint64 // children are found by it
	key      uint64 // its own key in the index
	parent   *passage
	children int
	from, to int
	spans    []span
	// copies are the blocks that hold it, the eldest first; more than one when
	// equal text was computed at the same time. Each has the node's length.
	copies []*row
}

// row is an extent of blocks: a row of them that are held, freed and evicted
// together. A row of the queue with no text has nothing cached in it.
type row struct {
	text *passage
	n    int // blocks of tokens with a text, else blocks of the memory
	// holders is the number of sequences that hold it, 0 when it is in the queue.
	holders int
	// rest is what was split off its end, for those who held it then.
	rest       *row
	next, prev *row // in the queue
}

// holding is an extent that a sequence holds, with everything that was split
// from it up to its end-th block.
type holding struct {
	row *row
	end int
}

// seat is what a sequence has of the prefix cache: it holds what is cached up to
// its cached-th block, which is the end of text, and in its tokens at the cursor
// at. own names the parts of it that nobody else has.
type seat struct {
	held   []holding
	text   *passage
	cached int
	at     cursor
	own    uint64
}

type found struct {
	text   *passage
	blocks int
}

func newPool(blocks, block int, caching bool) kvPool {
	p := kvPool{block: block, caching: caching, free: blocks, weight: 1}
	if caching {
		p.reset()
	}
	return p
}

// reset forgets everything that is cached. Nobody may hold a block.
func (p *kvPool) reset() {
	p.index, p.debt = map[uint64]*passage{}, 0
	p.head = &row{n: p.free}
	p.tail = p.head
}

// blocksOf is the number of blocks that hold so many tokens.
func (p *kvPool) blocksOf(tokens int) int { return (tokens + p.block - 1) / p.block }

// take takes n blocks, which must be free, from the head of the queue.
func (p *kvPool) take(n int) {
	if p.free -= n; p.free < 0 {
		panic("BUG: more blocks are taken than are free")
	}
	p.debt += n
}

// cursor is a place in a sequence's text: its extents, what of the prompt they
// leave open, then its answer.
type cursor struct {
	i    int // of s.Content; one more for the rest of the prompt, two for the answer
	off  int
	open int // tokens of the prompt that no extent covers
}

func (c *cursor) begin(s *Seq) {
	c.i, c.off, c.open = 0, 0, s.Prompt
	for i := range s.Content {
		c.open -= s.Content[i].Tokens
	}
	if c.open < 0 {
		panic("BUG: the extents of a prompt are longer than the prompt")
	}
}

// next returns what comes at the cursor, at most limit tokens of it, and moves
// there.
func (c *cursor) next(s *Seq, limit int) span {
	for c.i < len(s.Content) && c.off == s.Content[c.i].Tokens {
		c.i, c.off = c.i+1, 0
	}
	if c.i == len(s.Content) && c.off == c.open {
		c.i, c.off = c.i+1, 0
	}
	var sp span
	switch {
	case c.i < len(s.Content):
		e := &s.Content[c.i]
		sp = span{e.ID, uint32(c.off), uint32(min(limit, e.Tokens-c.off))}
	case c.i == len(s.Content):
		sp = span{s.seat.own, uint32(c.off), uint32(min(limit, c.open-c.off))}
	default:
		id := s.Answer
		if id == 0 {
			id = s.seat.own + 1
		}
		sp = span{id, uint32(c.off), uint32(limit)}
	}
	c.off += int(sp.n)
	return sp
}

// mix adds a number to a hash.
func mix(h, x uint64) uint64 {
	h ^= x
	h *= 0x9e3779b97f4a7c15
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	return h ^ h>>29
}

func (sp span) hash(h uint64) uint64 {
	return mix(mix(h, sp.id), uint64(sp.off)<<32|uint64(sp.n))
}

// blockAt returns the key of the block at the cursor after the text called
// serial.
func (p *kvPool) blockAt(s *Seq, c cursor, serial uint64) uint64 {
	h := mix(0x6b76, serial) // "kv"
	for left := p.block; left > 0; {
		sp := c.next(s, left)
		h = sp.hash(h)
		left -= int(sp.n)
	}
	return h
}

// firstBlock is blockAt for a row of spans.
func (p *kvPool) firstBlock(spans []span, serial uint64) uint64 {
	h := mix(0x6b76, serial)
	left := uint32(p.block)
	for i := 0; left > 0; i++ {
		sp := spans[i]
		sp.n = min(sp.n, left)
		h = sp.hash(h)
		left -= sp.n
	}
	return h
}

// root is the serial that a sequence's first block is found by.
func (s *Seq) root() uint64 { return mix(0x73616c74, s.Salt) } // "salt"

// match returns how many blocks, at most limit, of a node are the text at the
// cursor, and moves the cursor over them.
func (p *kvPool) match(s *Seq, c *cursor, t *passage, limit int) int {
	limit = min(limit, t.to-t.from)
	left, same := limit*p.block, 0
	d := *c
	for i := 0; left > 0; i++ {
		want := t.spans[i]
		for want.n > 0 && left > 0 {
			got := d.next(s, min(int(want.n), left))
			if got.id != want.id || got.off != want.off {
				left = 0
				break
			}
			same += int(got.n)
			left -= int(got.n)
			want.off += got.n
			want.n -= got.n
		}
	}
	blocks := same / p.block
	if blocks == limit {
		*c = d
	} else {
		c.skip(s, blocks*p.block)
	}
	return blocks
}

// skip moves over n tokens.
func (c *cursor) skip(s *Seq, n int) {
	for n > 0 {
		n -= int(c.next(s, n).n)
	}
}

// lookup finds the longest cached prefix of s of at most limit blocks: its length
// and how many of its blocks nobody holds. acquire takes them.
func (p *kvPool) lookup(s *Seq, limit int) (blocks, idle int) {
	p.settle()
	p.sit(s)
	p.path = p.path[:0]
	var c cursor
	c.begin(s)
	serial := s.root()
	for blocks < limit {
		t := p.index[p.blockAt(s, c, serial)]
		if t == nil {
			break
		}
		n := p.match(s, &c, t, limit-blocks)
		if n == 0 {
			break // another text with the same hash
		}
		p.path = append(p.path, found{t, n})
		blocks += n
		if t.copies[0].holders == 0 {
			idle += n
		}
		if n < t.to-t.from {
			break
		}
		serial = t.serial
	}
	return blocks, idle
}

// sit gives a sequence its seat.
func (p *kvPool) sit(s *Seq) *seat {
	q := s.seat
	if q == nil {
		q = new(seat)
		s.seat = q
	}
	if q.own == 0 {
		p.serial++
		q.own = random.Derive(0x6f776e, p.serial) &^ 1 // "own"; its successor names the answer
		q.at.begin(s)
	}
	return q
}

// rise makes a sequence's seat as good as new. It holds nothing any more.
func (q *seat) rise() {
	if q != nil {
		*q = seat{held: q.held[:0]}
	}
}

// holds is the number of blocks that a sequence has from the cache or put there.
func (s *Seq) holds() int {
	if s.seat == nil {
		return 0
	}
	return s.seat.cached
}

// acquire makes s, which holds nothing, hold what the last lookup found for it.
func (p *kvPool) acquire(s *Seq) {
	q := p.sit(s)
	q.held, q.text, q.cached = q.held[:0], nil, 0
	q.at.begin(s)
	for _, f := range p.path {
		t := f.text
		if f.blocks < t.to-t.from {
			t = p.split(t, f.blocks)
		}
		e := t.copies[0]
		if e.holders == 0 {
			p.unlink(e)
			p.free -= e.n * p.weight
		}
		e.holders++
		q.held = append(q.held, holding{e, t.to})
		q.text, q.cached = t, t.to
	}
	q.at.skip(s, q.cached*p.block)
}

// touch puts what the last lookup found at the tail of the queue, as far as nobody
// holds it.
func (p *kvPool) touch() {
	for i := len(p.path) - 1; i >= 0; i-- {
		t := p.path[i].text
		if n := p.path[i].blocks; n < t.to-t.from {
			t = p.split(t, n)
		}
		if e := t.copies[0]; e.holders == 0 {
			p.unlink(e)
			p.push(e, e.n)
		}
	}
	p.path = p.path[:0]
}

// register caches the blocks of s up to the upto-th, which s has taken and which
// are full.
func (p *kvPool) register(s *Seq, upto int) {
	if p.radix {
		p.settle() // what should be gone is not to be found
	}
	q := p.sit(s)
	for q.cached < upto {
		serial := s.root()
		if q.text != nil {
			serial = q.text.serial
		}
		more := upto - q.cached
		key := p.blockAt(s, q.at, serial)
		t := p.index[key]
		if t != nil {
			n := p.match(s, &q.at, t, more)
			if n == 0 {
				panic("BUG: two texts with one hash")
			}
			if n < t.to-t.from {
				t = p.split(t, n)
			}
			var e *row
			if p.radix {
				e = t.copies[0]
				if e.holders == 0 {
					p.unlink(e)
					p.free -= n * p.weight
				}
				e.holders++
				p.free += n * p.weight
				p.push(nil, n*p.weight)
			} else {
				e = &row{text: t, n: n, holders: 1}
				t.copies = append(t.copies, e)
			}
			q.held = append(q.held, holding{e, t.to})
			q.text, q.cached = t, t.to
			continue
		}
		t = q.text
		if t == nil || t.children > 0 || len(t.copies) > 1 || t.copies[0].holders > 1 {
			p.serial++
			t = &passage{serial: mix(0x7478, p.serial), key: key, parent: q.text, from: q.cached, to: q.cached}
			if q.text != nil {
				q.text.children++
			}
			e := &row{text: t, holders: 1}
			t.copies = []*row{e}
			p.index[key] = t
			q.held = append(q.held, holding{e, t.to})
			q.text = t
		}
		for left := more * p.block; left > 0; {
			sp := q.at.next(s, left)
			left -= int(sp.n)
			if i := len(t.spans) - 1; i >= 0 && t.spans[i].id == sp.id && t.spans[i].off+t.spans[i].n == sp.off {
				t.spans[i].n += sp.n
			} else {
				t.spans = append(t.spans, sp)
			}
		}
		t.to += more
		t.copies[0].n += more
		q.held[len(q.held)-1].end = t.to
		q.cached = t.to
	}
}

// release takes back what s holds: blocks of the memory in all, for cached tokens
// and for others.
func (p *kvPool) release(s *Seq, blocks int) {
	p.free += blocks
	if !p.caching {
		return
	}
	p.push(nil, blocks-s.holds()*p.weight)
	q := s.seat
	if q == nil {
		return
	}
	for i := len(q.held) - 1; i >= 0; i-- {
		h := q.held[i]
		p.letGo(h.row, h.end)
		q.held[i] = holding{}
	}
	q.held, q.text, q.cached = q.held[:0], nil, 0
	q.at.begin(s)
}

// letGo gives up an extent with what was split from it before the end-th block,
// the end first.
func (p *kvPool) letGo(e *row, end int) {
	if e.text.to < end {
		p.letGo(e.rest, end)
	}
	if e.holders--; e.holders > 0 {
		p.free -= e.n * p.weight
		return
	}
	e.rest = nil
	p.push(e, e.n)
}

// push puts an extent, or n blocks without text, at the tail of the queue.
func (p *kvPool) push(e *row, n int) {
	if n == 0 {
		return
	}
	if e == nil && p.radix {
		p.settle() // not with blocks that came later
		p.pushFront(n)
		return
	}
	if e == nil {
		if p.tail != nil && p.tail.text == nil {
			p.tail.n += n
			return
		}
		e = &row{n: n}
	}
	e.prev, e.next = p.tail, nil
	if p.tail == nil {
		p.head = e
	} else {
		p.tail.next = e
	}
	p.tail = e
}

// pushFront puts n blocks without text at the head of the queue.
func (p *kvPool) pushFront(n int) {
	if p.head != nil && p.head.text == nil {
		p.head.n += n
		return
	}
	e := &row{n: n, next: p.head}
	if p.head == nil {
		p.tail = e
	} else {
		p.head.prev = e
	}
	p.head = e
}

func (p *kvPool) unlink(e *row) {
	if e.prev == nil {
		p.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		p.tail = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.next, e.prev = nil, nil
}

// settle unlinks what was taken from the head of the queue.
func (p *kvPool) settle() {
	for p.debt > 0 {
		e := p.head
		if e.text != nil {
			n := min((p.debt+p.weight-1)/p.weight, e.n)
			p.evict(e, n)
			if p.debt -= n * p.weight; p.debt < 0 {
				// The last block of tokens was more than was wanted.
				p.pushFront(-p.debt)
				p.debt = 0
			}
			continue
		}
		n := min(p.debt, e.n)
		p.debt -= n
		if e.n -= n; e.n == 0 {
			p.unlink(e)
		}
	}
}

// evict forgets the last n blocks of an extent of the queue.
func (p *kvPool) evict(e *row, n int) {
	p.Evicted += int64(n)
	t := e.text
	if n < e.n && len(t.copies) > 1 {
		p.split(t, e.n-n)
		e = e.rest // as its own node and its own extent
		t = e.text
	}
	if n < e.n {
		if t.children > 0 {
			panic("BUG: a text is forgotten before what follows it")
		}
		e.n -= n
		t.to -= n
		t.spans = cut(t.spans, (t.to-t.from)*p.block)
		return
	}
	p.unlink(e)
	for i, c := range t.copies {
		if c == e {
			t.copies = append(t.copies[:i], t.copies[i+1:]...)
			break
		}
	}
	if len(t.copies) > 0 {
		return
	}
	if t.children > 0 {
		panic("BUG: a text is forgotten before what follows it")
	}
	delete(p.index, t.key)
	if t.parent != nil {
		t.parent.children--
	}
}

// split divides a node after n blocks, with every extent that holds it. The node
// becomes the second part, so that it goes on ending where it did; the first part
// is returned.
func (p *kvPool) split(t *passage, n int) *passage {
	p.serial++
	first := &passage{
		serial: mix(0x7478, p.serial), key: t.key, parent: t.parent, children: 1,
		from: t.from, to: t.from + n, copies: make([]*row, len(t.copies)),
	}
	tokens := n * p.block
	first.spans = cut(append([]span(nil), t.spans...), tokens)
	t.spans = after(t.spans, tokens)
	t.parent, t.from = first, first.to
	p.index[first.key] = first
	t.key = p.firstBlock(t.spans, first.serial)
	p.index[t.key] = t
	for i, e := range t.copies {
		rest := &row{text: t, n: e.n - n, holders: e.holders, rest: e.rest}
		e.text, e.n, e.rest = first, n, rest
		first.copies[i], t.copies[i] = e, rest
		if e.holders == 0 {
			// The end of a text goes before its beginning.
			rest.prev, rest.next = e.prev, e
			if e.prev == nil {
				p.head = rest
			} else {
				e.prev.next = rest
			}
			e.prev = rest
		}
	}
	return first
}

// cut keeps the first n tokens of a row of spans.
func cut(spans []span, n int) []span {
	for i := range spans {
		if n <= int(spans[i].n) {
			spans[i].n = uint32(n)
			return spans[:i+1]
		}
		n -= int(spans[i].n)
	}
	panic("BUG: cut of a row of spans beyond its end")
}

// after returns what follows the first n tokens of a row of spans.
func after(spans []span, n int) []span {
	for i := range spans {
		if n < int(spans[i].n) {
			rest := append([]span(nil), spans[i:]...)
			rest[0].off += uint32(n)
			rest[0].n -= uint32(n)
			return rest
		}
		n -= int(spans[i].n)
	}
	panic("BUG: rest of a row of spans beyond its end")
}
