// Package tokenizer counts and cuts text as a model's own tokenizer does: exact
// tokens, where each ends, and the longest prefix of so many. It reads
// tokenizer.json files with byte-pair encoding and tiktoken's rank files, and
// refuses what it does not know by name. It never downloads anything, and never
// estimates.
package tokenizer

import (
	"math"
	"slices"
	"sync"
)

// A Tokenizer makes tokens of text. It is safe for concurrent use; what it learns
// (a bounded number of words) changes no result.
type Tokenizer struct {
	given      *matcher // added tokens that are looked for in the text as it is
	normalized *matcher // and those that are looked for once it is normalized
	normalize  []step
	lead       []step // what the pre-tokenizers do before they split
	stages     []stage
	model      model
	words      cache
	extra      int
	states     sync.Pool
}

// Extra returns how many tokens a server that adds the model's special tokens to
// a plain prompt (an API without chat roles) adds by this file, such as the one
// that begins a text. Rank files do not say; it is 0 for them.
func (t *Tokenizer) Extra() int { return t.extra }

// Encode appends the tokens of text to dst and returns the extended slice. The
// tokens are those of the reference implementation without the special tokens
// that it puts around a text; added tokens within the text are recognized,
// special or not. Bytes that are not UTF-8 count as U+FFFD each. Text is at most
// 2 GiB.
func (t *Tokenizer) Encode(dst []int32, text string) []int32 {
	s := t.state()
	defer t.release(s)
	s.ids = dst
	s.text(text)
	dst, s.ids = s.ids, nil
	return dst
}

// Count returns the number of tokens of text, as Encode makes them.
func (t *Tokenizer) Count(text string) int {
	s := t.state()
	defer t.release(s)
	s.text(text)
	return len(s.ids)
}

// AppendEnds appends the byte offset behind each token of text, ascending, the
// last being len(text), and returns the extended slice. Offsets may lie inside a
// character, and two tokens may end at the same place where the tokenizer makes
// several of one character. Text without a token, which is possible where a model
// has no token for unknown characters, gives none.
func (t *Tokenizer) AppendEnds(dst []int32, text string) []int32 {
	s := t.state()
	defer t.release(s)
	s.track = true
	s.text(text)
	dst = slices.Grow(dst, len(s.ends))
	for _, end := range s.ends {
		dst = append(dst, int32(min(end, math.MaxInt32)))
	}
	return dst
}

// state is the memory of one call.
type state struct {
	t      *Tokenizer
	ids    []int32
	ends   []int // by token, where it ends in the text of the current layer
	track  bool  // ends are wanted
	inside bool  // the text continues another one

	// For Cut: pieces holds how many tokens come before each piece. Full says that
	// enough pieces lie behind the wanted token.
	cutting bool
	wanted  int
	pieces  []int
	behind  int
	full    bool

	merger
	spans [][]span // by stage
	found []match
}

// keptElements is how much of each kind of memory a state keeps for the next call.
const keptElements = 1 << 16

func (t *Tokenizer) state() *state {
	s, ok := t.states.Get().(*state)
	if !ok {
		s = &state{t: t, spans: make([][]span, len(t.stages))}
	}
	return s
}

func (t *Tokenizer) release(s *state) {
	s.ids, s.ends, s.pieces, s.found = kept(s.ids), kept(s.ends), kept(s.pieces), kept(s.found)
	s.symbols, s.heap = kept(s.symbols), kept(s.heap)
	for i := range s.spans {
		s.spans[i] = kept(s.spans[i])
	}
	s.track, s.inside, s.cutting, s.behind, s.full = false, false, false, 0, false
	t.states.Put(s)
}

func kept[T any](s []T) []T {
	if cap(s) > keptElements {
		return nil
	}
	return s[:0]
}

// text encodes a whole text.
func (s *state) text(text string) {
	if !s.track {
		s.given(valid(text, nil))
		return
	}
	var e edits
	s.given(valid(text, &e))
	e.back(s.ends)
	last := 0
	for i, end := range s.ends {
		last = max(last, end)
		s.ends[i] = last
	}
	if n := len(s.ends); n > 0 && !s.full {
		s.ends[n-1] = len(text) // what has no token belongs to the last one
	}
}

// given encodes the text as it is: added tokens, and what lies between them.
func (s *state) given(text string) {
	s.found = s.t.given.find(s.found[:0], text)
	at := 0
	for _, m := range s.found {
		if m.from > at {
			s.layer(text[at:m.from], at, s.where(at), s.t.normalize, s.normal)
		}
		if s.full {
			return
		}
		s.emit(m.id, m.to)
		at = m.to
	}
	if at < len(text) && !s.full {
		s.layer(text[at:], at, s.where(at), s.t.normalize, s.normal)
	}
}

// normal encodes normalized text in the same way.
func (s *state) normal(text string, at place) {
	lead := func(from, to int) {
		if from > 0 {
			at = behindToken
		}
		s.layer(text[from:to], from, at, s.t.lead, func(text string, _ place) {
			if text != "" {
				s.split(0, text, 0)
			}
		})
	}
	from := 0
	for _, m := range s.t.normalized.find(nil, text) {
		if m.from > from {
			lead(from, m.from)
		}
		if s.full {
			return
		}
		s.emit(m.id, m.to)
		from = m.to
	}
	if from < len(text) && !s.full {
		lead(from, len(text))
	}
}

// place is where a section of text stands.
type place int8

const (
	atStart     place = iota // of everything
	behindToken              // an added one
	inside                   // right behind more text
)

func (s *state) where(at int) place {
	switch {
	case at > 0:
		return behindToken
	case s.inside:
		return inside
	}
	return atStart
}

// layer rewrites text, which stands at base, encodes it, and turns the ends of
// the new tokens into those of the text around it.
func (s *state) layer(text string, base int, at place, steps []step, encode func(text string, at place)) {
	token := len(s.ends)
	if !s.track {
		for _, step := range steps {
			text = step.apply(text, at, nil)
		}
		encode(text, at)
		return
	}
	done := make([]edits, len(steps))
	for i, step := range steps {
		text = step.apply(text, at, &done[i])
	}
	encode(text, at)
	ends := s.ends[token:]
	for _, e := range slices.Backward(done) {
		if len(e) > 0 {
			e.back(ends)
		}
	}
	if base > 0 {
		for i := range ends {
			ends[i] += base
		}
	}
}

// split encodes text, which stands at base of its layer, from a stage on.
func (s *state) split(stage int, text string, base int) {
	if stage == len(s.t.stages) {
		s.piece(text, base)
		return
	}
	spans := s.t.stages[stage].split(s.spans[stage][:0], text)
	s.spans[stage] = spans
	for _, p := range spans {
		if s.full {
			return
		}
		s.split(stage+1, text[p.from:p.to], base+p.from)
	}
}

// begin notes that a piece begins.
func (s *state) begin() {
	if !s.cutting {
		return
	}
	s.pieces = append(s.pieces, len(s.ids))
	if len(s.ids) >= s.wanted {
		s.behind++
		s.full = s.behind > piecesBehind
	}
}

// piece encodes one piece of text.
func (s *state) piece(text string, base int) {
	s.begin()
	if len(text) > cachedBytes {
		s.append(s.encode(&s.t.model, text), base)
		return
	}
	home := s.t.words.place(text)
	w := home.Load()
	if w == nil || w.text != text {
		symbols := s.encode(&s.t.model, text)
		if s.inside { // a try of Cut: most of them end within a word
			s.append(symbols, base)
			return
		}
		w = remember(text, symbols)
		home.Store(w)
	}
	s.ids = append(s.ids, w.ids...)
	if s.track {
		for _, end := range w.ends {
			s.ends = append(s.ends, base+int(end))
		}
	}
}

func (s *state) append(symbols []symbol, base int) {
	for _, x := range symbols {
		s.ids = append(s.ids, x.id)
	}
	if s.track {
		for _, x := range symbols {
			s.ends = append(s.ends, base+x.end)
		}
	}
}

// emit appends an added token that ends at end.
func (s *state) emit(id int32, end int) {
	s.begin()
	s.ids = append(s.ids, id)
	if s.track {
		s.ends = append(s.ends, end)
	}
}
