package twin

import (
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"sync"

	"plimsoll/internal/dialect"
)

// prompt is what one or more choices answer.
type prompt struct {
	text   string
	tokens int
	// content is what the prefix cache knows it by, blocks how its text goes on.
	content []Extent
	blocks  blocks
}

// blocks divides a text into KV blocks, token by token, as it comes. Texts that
// begin alike have the same blocks up to where they differ.
type blocks struct {
	size int
	// inner is the hash of the last n tokens, which fill no block yet, chain that of
	// all full blocks, of which there are full.
	inner, chain uint64
	n, full      int
}

// add takes the next token, by its hash, and is true when it fills a block.
func (b *blocks) add(token uint64) (id uint64, full bool) {
	b.inner = mix(b.inner, token)
	if b.n++; b.n < b.size {
		return 0, false
	}
	id = b.inner
	b.chain = mix(b.chain, id)
	b.inner, b.n = 0, 0
	b.full++
	return id, true
}

// answers remembers who said what: a prompt that goes on where an answer ended is
// found in the prefix cache as that answer, which was cached without its text. It
// forgets the oldest.
type answers struct {
	mu    sync.Mutex // guards what follows
	known map[uint64]told
	order []uint64 // of known, the oldest first
	size  int      // what they take, in extents
}

// told is a text that a sequence has: a prompt and its answer, up to a whole
// number of blocks.
type told struct {
	content []Extent
	full    int
}

// maxTold bounds what is remembered, in extents, of which 4 Mi take 64 MiB: those of
// the texts, and what finding a text takes beside them (its place in the map and in the
// order, its length), which for short prompts is most of it.
const (
	maxTold      = 4 << 20
	toldOverhead = 8
)

func (t *told) size() int { return len(t.content) + toldOverhead }

func (a *answers) put(chain uint64, t told) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil {
		a.known = map[uint64]told{}
	}
	if _, ok := a.known[chain]; ok {
		return // equal prompts have equal answers, by equal names
	}
	a.known[chain] = t
	a.order = append(a.order, chain)
	a.size += t.size()
	for a.size > maxTold && len(a.order) > 1 {
		oldest := a.known[a.order[0]]
		a.size -= oldest.size()
		delete(a.known, a.order[0])
		a.order = a.order[1:]
	}
}

// tell remembers a choice's text, when it is complete.
func (c *choice) tell(a *answers) {
	b := &c.blocks
	if n := b.full*b.size - c.seq.Prompt; n > 0 {
		content := append(slices.Clip(c.seq.Content), Extent{ID: c.seq.Answer, Tokens: n})
		a.put(b.chain, told{content, b.full})
	}
}

// teller builds a prompt out of its tokens.
type teller struct {
	s *Server
	prompt
	found told
}

// teller begins a prompt; one with another salt shares no block with it.
func (s *Server) teller(salt string) *teller {
	t := &teller{s: s, prompt: prompt{blocks: blocks{size: s.cluster.Engine.BlockTokens}}}
	if salt != "" {
		t.blocks.inner = maphash.String(s.hash, salt)
	}
	return t
}

// caching is whether the engines have a prefix cache.
func (s *Server) caching() bool { return s.cluster.Engine.PrefixCache }

func (t *teller) token(piece string) {
	t.tokens++
	if !t.s.caching() {
		return
	}
	id, full := t.blocks.add(maphash.String(t.s.hash, piece))
	if !full {
		return
	}
	t.content = append(t.content, Extent{ID: id, Tokens: t.blocks.size})
	t.s.answers.mu.Lock()
	if told, ok := t.s.answers.known[t.blocks.chain]; ok {
		t.found = told
	}
	t.s.answers.mu.Unlock()
}

func (t *teller) said(text string) {
	for text != "" {
		n := nextPiece(text)
		t.token(text[:n])
		text = text[n:]
	}
}

// shown takes an image or a sound: as many tokens as a common model makes of one of
// its size, which are known by its bytes. It returns its name.
func (t *teller) shown(m *dialect.ServerMedia) string {
	name := strconv.FormatUint(hashText(m.Data), 36)
	for i := range min(m.Media.Tokens(), t.s.context) { // what is longer is refused
		t.token(name + " " + strconv.Itoa(i))
	}
	return name
}

// end is the prompt.
func (t *teller) end() prompt {
	if t.blocks.n > 0 {
		// What begins a block may be gone on with.
		t.content = append(t.content, Extent{ID: mix(t.blocks.inner, uint64(t.blocks.n)), Tokens: t.blocks.n})
	}
	if t.found.full > 0 {
		t.content = append(slices.Clone(t.found.content), t.content[t.found.full:]...)
	}
	return t.prompt
}

// The tokens that a chat template adds: one at the start, four before each
// message and one after, and four before the answer. It is the shape of Llama 3's.
const (
	templateTokens        = 5
	templateMessageTokens = 5
	headerTokens          = 4
)

func (t *teller) header(role string) {
	for i := range headerTokens {
		t.token([...]string{"<|start|>", "<|" + role, "|>", "\n\n"}[i])
	}
}

// message takes a message in, and writes it down in text.
func (t *teller) message(text *strings.Builder, m *dialect.ServerMessage) {
	text.WriteString(m.Role)
	text.WriteByte('\n')
	text.WriteString(m.Text)
	text.WriteByte('\n')
	t.header(m.Role)
	from := 0
	for i := range m.Media {
		at := m.Media[i].At
		t.said(m.Text[from:at])
		from = at
		text.WriteString(t.shown(&m.Media[i]))
	}
	t.said(m.Text[from:])
	t.token("<|end|>")
}

func (s *Server) promptsOf(api dialect.API, r *dialect.ServerRequest) []prompt {
	if api != dialect.OpenAICompletions {
		t := s.teller(r.Salt)
		var b strings.Builder
		t.token("<|begin|>")
		if r.Instructions != "" {
			t.message(&b, &dialect.ServerMessage{Role: "system", Text: r.Instructions})
		}
		for i := range r.Messages {
			t.message(&b, &r.Messages[i])
		}
		t.header("assistant")
		t.text = b.String()
		return []prompt{t.end()}
	}
	all := make([]prompt, len(r.Prompts))
	for i, text := range r.Prompts {
		t := s.teller(r.Salt)
		t.text = text
		t.said(text)
		if text == "" {
			t.content = nil // ids, or nothing: it still has the token that starts a text
			t.tokens = max(1, r.PromptTokens[i])
		}
		all[i] = t.end()
	}
	return all
}
