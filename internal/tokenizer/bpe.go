package tokenizer

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// model is byte-pair encoding: it makes tokens of one piece of text.
type model struct {
	// ids are the tokens by their text; of a byte-level model by their bytes.
	ids map[string]int32
	// merges says which two tokens become which, and the rank of that: lower first.
	merges pairs
	// byteLevel models begin with bytes, the others with characters.
	byteLevel bool
	// bytes are the tokens of single bytes, -1 where there is none: what a
	// byte-level model begins with, what another falls back to.
	bytes [256]int32
	// fallback says that a character without a token becomes tokens of its bytes.
	fallback bool
	// unknown stands for a character without any token, -1 for nothing at all;
	// fuse makes one of several in a row.
	unknown int32
	fuse    bool
	// whole says that a piece that is a token itself needs no merges.
	whole bool
}

// symbol is a token in the making: it ends at end of the word.
type symbol struct {
	id   int32
	next int32  // in long: the next one, -1 none
	prev int32  // in long: the one before, -1 none
	rank uint32 // in short: of the merge with the next one
	end  int
}

// none is the rank of two tokens that do not merge.
const none = ^uint32(0)

// shortWord is the number of symbols up to which looking at all of them again is
// faster than keeping them in a heap (BenchmarkLongWord).
const shortWord = 32

// merger is the memory in which words are merged.
type merger struct {
	symbols []symbol
	heap    []candidate
}

// candidate is a merge that may still be possible: of the symbol at pos with the
// next one.
type candidate struct {
	rank uint32
	pos  int32
}

func (a candidate) before(b candidate) bool {
	return a.rank < b.rank || a.rank == b.rank && a.pos < b.pos
}

// encode returns the tokens of a word, as symbols in order with their ends,
// valid until the next call.
func (g *merger) encode(m *model, word string) []symbol {
	g.symbols = g.symbols[:0]
	if m.whole {
		if id, ok := m.ids[word]; ok {
			g.symbols = append(g.symbols, symbol{id: id, end: len(word)})
			return g.symbols
		}
	}
	if m.byteLevel {
		g.fromBytes(m, word)
	} else {
		g.fromCharacters(m, word)
	}
	if len(g.symbols) <= shortWord {
		g.short(m)
	} else {
		g.long(m)
	}
	return g.symbols
}

func (g *merger) fromBytes(m *model, word string) {
	unknown := false
	for i := range len(word) {
		id := m.bytes[word[i]]
		g.add(m, id, i+1, &unknown)
	}
}

func (g *merger) fromCharacters(m *model, word string) {
	unknown := false
	for i := 0; i < len(word); {
		_, n := utf8.DecodeRuneInString(word[i:])
		id, ok := m.ids[word[i:i+n]]
		switch {
		case ok:
			g.add(m, id, i+n, &unknown)
		case m.fallback:
			for k := range n {
				g.add(m, m.bytes[word[i+k]], i+k+1, &unknown)
			}
		default:
			g.add(m, -1, i+n, &unknown)
		}
		i += n
	}
}

// add appends a symbol; id -1 makes it the unknown token, or nothing.
func (g *merger) add(m *model, id int32, end int, unknown *bool) {
	if id >= 0 {
		*unknown = false
		g.symbols = append(g.symbols, symbol{id: id, end: end})
		return
	}
	if m.unknown < 0 {
		return
	}
	if *unknown && m.fuse {
		g.symbols[len(g.symbols)-1].end = end
		return
	}
	*unknown = true
	g.symbols = append(g.symbols, symbol{id: m.unknown, end: end})
}

// short merges by looking for the best pair again and again.
func (g *merger) short(m *model) {
	s := g.symbols
	rank := func(i int) uint32 {
		if i+1 < len(s) {
			if r, _, ok := m.merges.get(s[i].id, s[i+1].id); ok {
				return r
			}
		}
		return none
	}
	for i := range s {
		s[i].rank = rank(i)
	}
	for {
		best, at := none, -1
		for i := range s {
			if s[i].rank < best {
				best, at = s[i].rank, i
			}
		}
		if at < 0 {
			break
		}
		_, s[at].id, _ = m.merges.get(s[at].id, s[at+1].id)
		s[at].end = s[at+1].end
		s = append(s[:at+1], s[at+2:]...)
		s[at].rank = rank(at)
		if at > 0 {
			s[at-1].rank = rank(at - 1)
		}
	}
	g.symbols = s
}

// long merges with a heap, in n log n steps, to the same end.
func (g *merger) long(m *model) {
	s := g.symbols
	g.heap = g.heap[:0]
	offer := func(i int32) {
		if i >= 0 && s[i].next >= 0 {
			if r, _, ok := m.merges.get(s[i].id, s[s[i].next].id); ok {
				g.push(candidate{r, i})
			}
		}
	}
	for i := range s {
		s[i].prev, s[i].next = int32(i)-1, int32(i)+1
	}
	s[len(s)-1].next = -1
	for i := range s {
		offer(int32(i))
	}
	for len(g.heap) > 0 {
		c := g.pop()
		a := &s[c.pos]
		if a.id < 0 || a.next < 0 {
			continue // merged into the one before it, or the last one now
		}
		b := &s[a.next]
		rank, id, ok := m.merges.get(a.id, b.id)
		if !ok || rank != c.rank {
			continue // one of both has grown since
		}
		a.id, a.end, a.next = id, b.end, b.next
		b.id = -1
		if a.next >= 0 {
			s[a.next].prev = c.pos
		}
		offer(c.pos)
		offer(a.prev)
	}
	kept := s[:0]
	for _, x := range s {
		if x.id >= 0 {
			kept = append(kept, x)
		}
	}
	g.symbols = kept
}

func (g *merger) push(c candidate) {
	g.heap = append(g.heap, c)
	i := len(g.heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !c.before(g.heap[up]) {
			break
		}
		g.heap[i] = g.heap[up]
		i = up
	}
	g.heap[i] = c
}

func (g *merger) pop() candidate {
	top := g.heap[0]
	n := len(g.heap) - 1
	c := g.heap[n]
	g.heap = g.heap[:n]
	i := 0
	for {
		down := 2*i + 1
		if down >= n {
			break
		}
		if down+1 < n && g.heap[down+1].before(g.heap[down]) {
			down++
		}
		if !g.heap[down].before(c) {
			break
		}
		g.heap[i] = g.heap[down]
		i = down
	}
	if n > 0 {
		g.heap[i] = c
	}
	return top
}

// cache remembers words that were encoded. It is bounded: each word has one place,
// and the last one there stays. Safe for concurrent use, without locks.
type cache struct {
	seed  maphash.Seed
	words []atomic.Pointer[word]
}

// word is a word with its tokens and their ends. It never changes.
type word struct {
	text string
	ids  []int32
	ends []uint8
}

const (
	cachedWords = 1 << 15 // of 100 to 200 bytes each: a few MB when full
	cachedBytes = 64      // longer words seldom come back
)

func newCache() cache {
	return cache{maphash.MakeSeed(), make([]atomic.Pointer[word], cachedWords)}
}

func (c *cache) place(text string) *atomic.Pointer[word] {
	return &c.words[maphash.String(c.seed, text)&(cachedWords-1)]
}

// remember makes a word of what was encoded. It keeps no memory of the text.
func remember(text string, symbols []symbol) *word {
	w := &word{text: strings.Clone(text), ids: make([]int32, len(symbols)), ends: make([]uint8, len(symbols))}
	for i, s := range symbols {
		w.ids[i], w.ends[i] = s.id, uint8(s.end)
	}
	return w
}
