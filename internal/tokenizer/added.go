package tokenizer

import "unicode/utf8"

// added is a token that is looked for in the text before anything else, such as
// <|im_start|>.
type added struct {
	text           string
	id             int32
	word           bool // only where no letter stands beside it
	lstrip, rstrip bool // takes the white space on that side with it
}

// matcher finds added tokens: at the first place where one stands, the longest.
type matcher struct {
	tokens []added
	first  [256]bool // bytes with which one begins
	nodes  pairs     // (node, byte) to node
	final  []int32   // by node: the token that ends there, -1 none
}

func newMatcher(tokens []added) *matcher {
	if len(tokens) == 0 {
		return nil
	}
	m := &matcher{tokens: tokens, nodes: newPairs(16 * len(tokens)), final: []int32{-1}}
	for i, t := range tokens {
		m.first[t.text[0]] = true
		node := int32(0)
		for _, b := range []byte(t.text) {
			_, next, ok := m.nodes.get(node, int32(b))
			if !ok {
				next = int32(len(m.final))
				m.final = append(m.final, -1)
				m.nodes.put(node, int32(b), 0, next)
			}
			node = next
		}
		m.final[node] = int32(i)
	}
	return m
}

// match is an added token in a text, with the white space that it takes.
type match struct {
	span
	id int32
}

// find appends the matches in s, ascending. m may be nil.
func (m *matcher) find(dst []match, s string) []match {
	if m == nil {
		return dst
	}
	taken := 0
	for i := 0; i < len(s); {
		if !m.first[s[i]] {
			i++
			continue
		}
		token, to := m.longest(s, i)
		if token == nil {
			i++
			continue
		}
		from := i
		i = to
		if token.word && (beside(utf8.DecodeLastRuneInString(s[:from])) || beside(utf8.DecodeRuneInString(s[to:]))) {
			continue
		}
		if token.lstrip {
			for from > taken {
				r, n := utf8.DecodeLastRuneInString(s[:from])
				if !blank(r) {
					break
				}
				from -= n
			}
		}
		if token.rstrip {
			for to < len(s) {
				r, n := utf8.DecodeRuneInString(s[to:])
				if !blank(r) {
					break
				}
				to += n
			}
		}
		dst = append(dst, match{span{from, to}, token.id})
		taken = to
	}
	return dst
}

func beside(r rune, n int) bool { return n > 0 && wordly(r) }

func (m *matcher) longest(s string, i int) (*added, int) {
	node, token, to := int32(0), int32(-1), 0
	for ; i < len(s); i++ {
		_, next, ok := m.nodes.get(node, int32(s[i]))
		if !ok {
			break
		}
		node = next
		if m.final[node] >= 0 {
			token, to = m.final[node], i+1
		}
	}
	if token < 0 {
		return nil, 0
	}
	return &m.tokens[token], to
}
