package tokenizer

import "math/bits"

// pairs maps two small numbers to what they become: the merge of two tokens, or
// the next node of a trie. A map of Go costs three times the time and the memory
// for half a million merges.
type pairs struct {
	slots []slot
	shift uint
	n     int
}

type slot struct {
	key  uint64 // 1 + what was put; 0 marks a free slot
	rank uint32
	id   int32
}

// newPairs makes a table with room for n pairs before it grows.
func newPairs(n int) pairs {
	size := uint(bits.Len(uint(max(n, 4)) * 3 / 2))
	return pairs{slots: make([]slot, 1<<size), shift: 64 - size}
}

func key(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) + 1 }

// home spreads keys by Fibonacci hashing.
func (p *pairs) home(k uint64) int { return int(k * 0x9e3779b97f4a7c15 >> p.shift) }

// put sets what a and b become, over what they became before. Neither is
// negative.
func (p *pairs) put(a, b int32, rank uint32, id int32) {
	if p.n >= len(p.slots)*3/4 {
		old := p.slots
		*p = newPairs(len(old))
		for _, s := range old {
			if s.key != 0 {
				p.set(s)
			}
		}
	}
	p.set(slot{key(a, b), rank, id})
}

func (p *pairs) set(s slot) {
	for i := p.home(s.key); ; i = (i + 1) & (len(p.slots) - 1) {
		switch p.slots[i].key {
		case s.key:
			p.slots[i] = s
			return
		case 0:
			p.slots[i] = s
			p.n++
			return
		}
	}
}

// get returns what a and b become; ok is false where they become nothing.
func (p *pairs) get(a, b int32) (rank uint32, id int32, ok bool) {
	k := key(a, b)
	for i := p.home(k); ; i = (i + 1) & (len(p.slots) - 1) {
		switch s := &p.slots[i]; s.key {
		case k:
			return s.rank, s.id, true
		case 0:
			return 0, 0, false
		}
	}
}
