package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// file is a tokenizer.json, as far as it matters. What it says of truncation and
// padding is left aside: the server decides how long a prompt may be.
type file struct {
	Added         []addedToken `json:"added_tokens"`
	Normalizer    *component   `json:"normalizer"`
	PreTokenizer  *component   `json:"pre_tokenizer"`
	PostProcessor *component   `json:"post_processor"`
	Model         *bpe         `json:"model"`
}

type addedToken struct {
	Content    string `json:"content"`
	ID         int32  `json:"-"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
}

// component is a normalizer, pre-tokenizer or post-processor: the fields of all
// kinds that are known.
type component struct {
	Type          string      `json:"type"`
	Normalizers   []component `json:"normalizers"`
	PreTokenizers []component `json:"pretokenizers"`
	Processors    []component `json:"processors"`

	Pattern *struct {
		String *string `json:"String"`
		Regex  *string `json:"Regex"`
	} `json:"pattern"`
	Content          string   `json:"content"`
	Prepend          string   `json:"prepend"`
	Behavior         behavior `json:"behavior"`
	Invert           bool     `json:"invert"`
	AddPrefixSpace   *bool    `json:"add_prefix_space"`
	UseRegex         *bool    `json:"use_regex"`
	Replacement      string   `json:"replacement"`
	PrependScheme    string   `json:"prepend_scheme"`
	Split            *bool    `json:"split"`
	IndividualDigits bool     `json:"individual_digits"`

	Single []struct {
		SpecialToken *struct {
			ID string `json:"id"`
		} `json:"SpecialToken"`
	} `json:"single"`
	SpecialTokens map[string]struct {
		IDs []int32 `json:"ids"`
	} `json:"special_tokens"`
}

type bpe struct {
	Type         string     `json:"type"`
	Dropout      *float64   `json:"dropout"`
	Unknown      *string    `json:"unk_token"`
	Prefix       *string    `json:"continuing_subword_prefix"`
	Suffix       *string    `json:"end_of_word_suffix"`
	Fuse         bool       `json:"fuse_unk"`
	Fallback     bool       `json:"byte_fallback"`
	IgnoreMerges bool       `json:"ignore_merges"`
	Vocab        vocabulary `json:"vocab"`
	Merges       mergeList  `json:"merges"`
}

// maxToken bounds ids, so that a table by id cannot be made huge by one number.
const maxToken = math.MaxInt32 - 1

// vocabulary is an object of token to id. A hundred thousands of them are read
// four times faster than encoding/json would.
type vocabulary map[string]int32

// UnmarshalJSON reads the object; encoding/json has checked the syntax.
func (v *vocabulary) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '{' {
		return errors.New("vocab: want an object of token to id")
	}
	*v = make(vocabulary, bytes.Count(b, []byte{','})+1)
	s := scanner{b: b, i: 1}
	for s.more('}') {
		token, err := s.text()
		if err != nil {
			return err
		}
		s.skip(':')
		id, err := s.number()
		if err != nil {
			return fmt.Errorf("vocab: token %.40q: %w", token, err)
		}
		(*v)[token] = id
	}
	return nil
}

// distinct refuses two tokens of one id: which text it stands for is not known.
func (v vocabulary) distinct() error {
	ids := slices.Sorted(maps.Values(v))
	for i := 1; i < len(ids); i++ {
		if ids[i] != ids[i-1] {
			continue
		}
		var tokens []string
		for token, id := range v {
			if id == ids[i] {
				tokens = append(tokens, token)
			}
		}
		slices.Sort(tokens)
		return fmt.Errorf("vocab: tokens %.40q and %.40q have the same id, %d", tokens[0], tokens[1], ids[i])
	}
	return nil
}

// mergeList is a list of merges, each "a b" or ["a", "b"].
type mergeList [][2]string

// UnmarshalJSON reads the list; encoding/json has checked the syntax.
func (m *mergeList) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '[' {
		return errors.New("merges: want a list")
	}
	s := scanner{b: b, i: 1}
	for s.more(']') {
		var pair [2]string
		ok := true
		switch s.b[s.i] {
		case '"':
			text, err := s.text()
			if err != nil {
				return err
			}
			pair[0], pair[1], ok = strings.Cut(text, " ")
			ok = ok && !strings.Contains(pair[1], " ")
		case '[':
			s.i++
			n := 0
			for s.more(']') {
				text, err := s.text()
				if err != nil {
					return err
				}
				if n < 2 {
					pair[n] = text
				}
				n++
			}
			ok = n == 2
		default:
			ok = false
		}
		if !ok {
			return fmt.Errorf(`merges: entry %d: want "a b" or ["a", "b"]`, len(*m))
		}
		*m = append(*m, pair)
	}
	return nil
}

// scanner walks over JSON whose syntax was checked.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) blank() {
	for s.i < len(s.b) && strings.IndexByte(" \t\r\n", s.b[s.i]) >= 0 {
		s.i++
	}
}

// more steps to the next element and says whether there is one before the end.
func (s *scanner) more(end byte) bool {
	s.blank()
	if s.i < len(s.b) && s.b[s.i] == ',' {
		s.i++
		s.blank()
	}
	if s.i >= len(s.b) || s.b[s.i] == end {
		s.i++
		return false
	}
	return true
}

func (s *scanner) skip(c byte) {
	s.blank()
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
	}
	s.blank()
}

// text reads a string.
func (s *scanner) text() (string, error) {
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		return "", errors.New("want a string")
	}
	from := s.i
	escaped := false
	for s.i++; s.i < len(s.b) && s.b[s.i] != '"'; s.i++ {
		if s.b[s.i] == '\\' {
			escaped = true
			s.i++
		}
	}
	s.i = min(s.i+1, len(s.b))
	if !escaped {
		return string(s.b[from+1 : s.i-1]), nil
	}
	var out string
	err := json.Unmarshal(s.b[from:s.i], &out)
	return out, err
}

// number reads an id.
func (s *scanner) number() (int32, error) {
	from, n := s.i, 0
	for ; s.i < len(s.b) && strings.IndexByte(",}] \t\r\n", s.b[s.i]) < 0; s.i++ {
		c := s.b[s.i]
		if c < '0' || c > '9' || n > maxToken/10 {
			return 0, fmt.Errorf("id %.20q: want a number from 0 to %d", s.b[from:], maxToken)
		}
		n = n*10 + int(c-'0')
	}
	if s.i == from || n > maxToken {
		return 0, fmt.Errorf("id %.20q: want a number from 0 to %d", s.b[from:], maxToken)
	}
	return int32(n), nil
}

// unsupported names what is not known, and what is.
func unsupported(what, kind, known string) error {
	if kind == "" {
		return fmt.Errorf("%s: no type is given; supported: %s", what, known)
	}
	return fmt.Errorf("%s %q is not supported; supported: %s", what, kind, known)
}

const (
	knownModels        = "BPE"
	knownNormalizers   = "NFC, NFD, NFKC, NFKD, Replace, Prepend, Sequence"
	knownPreTokenizers = "ByteLevel, Split, Metaspace, Digits, Punctuation, Whitespace, WhitespaceSplit, Sequence"
	knownProcessors    = "TemplateProcessing, ByteLevel, RobertaProcessing, BertProcessing, Sequence"
)

func readJSON(data []byte) (*Tokenizer, error) {
	var kind struct {
		Model *struct {
			Type string `json:"type"`
		} `json:"model"`
		Class  *string         `json:"tokenizer_class"`
		Config json.RawMessage `json:"config"`
	}
	// First what it is, so that other files and models are refused by their names
	// and not by what their fields hold.
	if err := json.Unmarshal(data, &kind); err != nil {
		return nil, jsonError(err)
	}
	switch {
	case kind.Model == nil && kind.Class != nil:
		return nil, errors.New("this is a tokenizer_config.json; give the tokenizer.json beside it")
	case kind.Model == nil && kind.Config != nil:
		return nil, errors.New("a tekken.json is not supported; give a tokenizer.json")
	case kind.Model == nil:
		return nil, errors.New("model: missing; want a tokenizer.json or a file of tiktoken ranks")
	case kind.Model.Type != "BPE" && kind.Model.Type != "":
		return nil, unsupported("model", kind.Model.Type, knownModels)
	}
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, jsonError(err)
	}
	t := &Tokenizer{words: newCache()}
	if err := t.normalizer(f.Normalizer, 0); err != nil {
		return nil, err
	}
	if err := t.preTokenizer(f.PreTokenizer, 0); err != nil {
		return nil, err
	}
	if err := t.fill(f.Model); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if err := t.addTokens(f.Added, f.Model); err != nil {
		return nil, err
	}
	extra, err := specials(f.PostProcessor, 0)
	if err != nil {
		return nil, err
	}
	t.extra = extra
	return t, nil
}

func jsonError(err error) error {
	if s, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("byte %d: %w", s.Offset, err)
	}
	return err
}

// maxDepth bounds sequences within sequences.
const maxDepth = 8

func (t *Tokenizer) normalizer(c *component, depth int) error {
	if c == nil {
		return nil
	}
	switch c.Type {
	case "NFC":
		t.normalize = append(t.normalize, form{norm.NFC})
	case "NFD":
		t.normalize = append(t.normalize, form{norm.NFD})
	case "NFKC":
		t.normalize = append(t.normalize, form{norm.NFKC})
	case "NFKD":
		t.normalize = append(t.normalize, form{norm.NFKD})
	case "Prepend":
		t.normalize = append(t.normalize, prepend{text: c.Prepend})
	case "Replace":
		switch p := c.Pattern; {
		case p != nil && p.String != nil && *p.String != "":
			t.normalize = append(t.normalize, replace{*p.String, c.Content})
		case p != nil && p.Regex != nil:
			e, err := newEngine(*p.Regex)
			if err != nil {
				return fmt.Errorf("normalizer Replace: %w", err)
			}
			t.normalize = append(t.normalize, substitute{e, c.Content})
		default:
			return errors.New("normalizer Replace: want a pattern with a String or a Regex")
		}
	case "Sequence":
		if depth > maxDepth {
			return errors.New("normalizer: too many sequences within each other")
		}
		for i := range c.Normalizers {
			if err := t.normalizer(&c.Normalizers[i], depth+1); err != nil {
				return err
			}
		}
	default:
		return unsupported("normalizer", c.Type, knownNormalizers)
	}
	return nil
}

func (t *Tokenizer) preTokenizer(c *component, depth int) error {
	if c == nil {
		return nil
	}
	if t.model.byteLevel {
		return fmt.Errorf("pre-tokenizer %s behind ByteLevel is not supported: ByteLevel must be the last", c.Type)
	}
	// What is put before a text is put before each piece of a stage before.
	lead := func(s step) error {
		if len(t.stages) > 0 {
			return fmt.Errorf("pre-tokenizer %s that adds a prefix behind other pre-tokenizers is not supported", c.Type)
		}
		t.lead = append(t.lead, s)
		return nil
	}
	switch c.Type {
	case "ByteLevel":
		if c.AddPrefixSpace == nil || *c.AddPrefixSpace {
			if err := lead(prepend{text: " ", unlessThere: true}); err != nil {
				return err
			}
		}
		if c.UseRegex == nil || *c.UseRegex {
			t.stages = append(t.stages, quick{gpt2, basicPlane()})
		}
		t.model.byteLevel = true
	case "Split":
		switch c.Behavior {
		case removed, isolated, mergedWithPrevious, mergedWithNext, contiguous:
		default:
			return unsupported("pre-tokenizer Split: behavior", string(c.Behavior), "Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous")
		}
		switch p := c.Pattern; {
		case p != nil && p.Regex != nil:
			if next, ok := patterns[*p.Regex]; ok && c.Behavior == isolated {
				t.stages = append(t.stages, quick{next, basicPlane()})
				return nil
			}
			e, err := newEngine(*p.Regex)
			if err != nil {
				return fmt.Errorf("pre-tokenizer Split: %w", err)
			}
			t.stages = append(t.stages, delimited{e, c.Behavior, c.Invert})
		case p != nil && p.String != nil && *p.String != "":
			t.stages = append(t.stages, delimited{literal(*p.String), c.Behavior, c.Invert})
		default:
			return errors.New("pre-tokenizer Split: want a pattern with a String or a Regex")
		}
	case "Metaspace":
		return t.metaspace(c, lead)
	case "Digits":
		how := contiguous
		if c.IndividualDigits {
			how = isolated
		}
		t.stages = append(t.stages, delimited{each(digit), how, false})
	case "Punctuation":
		if c.Behavior == "" {
			c.Behavior = isolated
		}
		t.stages = append(t.stages, delimited{each(punctuation), c.Behavior, false})
	case "WhitespaceSplit":
		t.stages = append(t.stages, delimited{each(blank), removed, false})
	case "Whitespace":
		t.stages = append(t.stages, wordsOnly{})
	case "Sequence":
		if depth > maxDepth {
			return errors.New("pre-tokenizer: too many sequences within each other")
		}
		for i := range c.PreTokenizers {
			if err := t.preTokenizer(&c.PreTokenizers[i], depth+1); err != nil {
				return err
			}
		}
	default:
		return unsupported("pre-tokenizer", c.Type, knownPreTokenizers)
	}
	return nil
}

func (t *Tokenizer) metaspace(c *component, lead func(step) error) error {
	if utf8.RuneCountInString(c.Replacement) != 1 {
		return fmt.Errorf("pre-tokenizer Metaspace: replacement %q: want one character", c.Replacement)
	}
	scheme := c.PrependScheme
	switch {
	case scheme == "" && c.AddPrefixSpace != nil && !*c.AddPrefixSpace:
		scheme = "never"
	case scheme == "":
		scheme = "always"
	}
	if len(t.stages) > 0 {
		return errors.New("pre-tokenizer Metaspace behind other pre-tokenizers is not supported")
	}
	t.lead = append(t.lead, replace{" ", c.Replacement})
	switch scheme {
	case "never":
	case "always", "first":
		if err := lead(prepend{text: c.Replacement, onlyFirst: scheme == "first", unlessThere: true}); err != nil {
			return err
		}
	default:
		return unsupported("pre-tokenizer Metaspace: prepend_scheme", scheme, "always, first, never")
	}
	if c.Split == nil || *c.Split {
		t.stages = append(t.stages, delimited{literal(c.Replacement), mergedWithNext, false})
	}
	return nil
}

// specials returns how many special tokens a post-processor puts around one text.
func specials(c *component, depth int) (int, error) {
	if c == nil {
		return 0, nil
	}
	n := 0
	switch c.Type {
	case "ByteLevel":
	case "RobertaProcessing", "BertProcessing":
		n = 2
	case "TemplateProcessing":
		for _, p := range c.Single {
			if p.SpecialToken != nil {
				n += len(c.SpecialTokens[p.SpecialToken.ID].IDs)
			}
		}
	case "Sequence":
		if depth > maxDepth {
			return 0, errors.New("post-processor: too many sequences within each other")
		}
		for i := range c.Processors {
			k, err := specials(&c.Processors[i], depth+1)
			if err != nil {
				return 0, err
			}
			n += k
		}
	default:
		return 0, unsupported("post-processor", c.Type, knownProcessors)
	}
	return n, nil
}

// fill makes the model.
func (t *Tokenizer) fill(b *bpe) error {
	m := &t.model
	for name, s := range map[string]*string{"continuing_subword_prefix": b.Prefix, "end_of_word_suffix": b.Suffix} {
		if s != nil && *s != "" {
			return fmt.Errorf("%s %q is not supported", name, *s)
		}
	}
	if b.Dropout != nil && *b.Dropout != 0 {
		return fmt.Errorf("dropout %v is not supported: it makes tokens by chance", *b.Dropout)
	}
	if len(b.Vocab) == 0 {
		return errors.New("vocab: missing or empty")
	}
	if err := b.Vocab.distinct(); err != nil {
		return err
	}
	m.unknown, m.fuse, m.whole, m.fallback = -1, b.Fuse, b.IgnoreMerges, b.Fallback
	if b.Unknown != nil {
		id, ok := b.Vocab[*b.Unknown]
		if !ok {
			return fmt.Errorf("unk_token %q is not in the vocab", *b.Unknown)
		}
		m.unknown = id
	}
	m.merges = newPairs(len(b.Merges))
	for rank, pair := range b.Merges {
		a, okA := b.Vocab[pair[0]]
		c, okB := b.Vocab[pair[1]]
		id, ok := b.Vocab[pair[0]+pair[1]]
		if !okA || !okB || !ok {
			return fmt.Errorf("merges: entry %d (%.40q, %.40q): both and what they make must be in the vocab", rank, pair[0], pair[1])
		}
		m.merges.put(a, c, uint32(rank), id)
	}
	for i := range m.bytes {
		m.bytes[i] = -1
	}
	if m.byteLevel {
		return m.fillBytes(b)
	}
	m.ids = b.Vocab
	if m.fallback {
		for i := range m.bytes {
			id, ok := m.ids[fmt.Sprintf("<0x%02X>", i)]
			if !ok {
				return fmt.Errorf("byte_fallback: token <0x%02X> is not in the vocab", i)
			}
			m.bytes[i] = id
		}
	}
	t.seams(b)
	return nil
}

// fillBytes turns the tokens of a byte-level vocabulary, in which a character
// stands for each byte, into the bytes themselves.
func (m *model) fillBytes(b *bpe) error {
	m.ids = make(map[string]int32, len(b.Vocab))
	var buf []byte
next:
	for token, id := range b.Vocab {
		buf = buf[:0]
		for _, r := range token {
			c, ok := byteOf(r)
			if !ok {
				continue next // no text can become it
			}
			buf = append(buf, c)
		}
		m.ids[string(buf)] = id
		if len(buf) == 1 {
			m.bytes[buf[0]] = id
		}
	}
	if m.fallback && slices.Contains(m.bytes[:], -1) {
		return errors.New("byte_fallback with ByteLevel and an alphabet that lacks bytes is not supported")
	}
	return nil
}

// byteOf returns the byte for which a character stands in byte-level vocabularies:
// printable ones of Latin 1 stand for themselves, the others got the characters
// from U+0100 on, in their order.
func byteOf(r rune) (byte, bool) {
	switch {
	case '!' <= r && r <= '~', 0xa1 <= r && r <= 0xac, 0xae <= r && r <= 0xff:
		return byte(r), true
	case 0x100 <= r && r <= 0x120:
		return byte(r - 0x100), true
	case 0x121 <= r && r <= 0x142:
		return byte(r - 0x121 + 0x7f), true
	case r == 0x143:
		return 0xad, true
	}
	return 0, false
}

// seams adds a stage that splits before ▁, for models that keep whole texts in one
// piece and have few tokens that go on with a ▁.
func (t *Tokenizer) seams(b *bpe) {
	if _, ok := b.Vocab[metaspace]; !ok || b.IgnoreMerges {
		return
	}
	joined := map[rune]bool{'▁': true}
	for _, pair := range b.Merges {
		if !strings.Contains(pair[0], metaspace) && !strings.Contains(pair[1], metaspace) {
			continue
		}
		before := rune(-1)
		for _, r := range pair[0] + pair[1] {
			if r == '▁' && before >= 0 {
				joined[before] = true
			}
			before = r
		}
	}
	t.stages = append(t.stages, seams{joined})
}

// addTokens makes the matchers of added tokens. Like the reference it gives them
// ids itself: that of the same token in the vocabulary, else the next one; in
// files of real models these are the ids that stand there.
func (t *Tokenizer) addTokens(list []addedToken, b *bpe) error {
	at := map[string]int{}
	var kept []addedToken
	next := int32(len(b.Vocab))
	for i, a := range list {
		if a.Content == "" {
			continue
		}
		if !utf8.ValidString(a.Content) {
			return fmt.Errorf("added_tokens: entry %d (%.40q): not UTF-8", i, a.Content)
		}
		if k, ok := at[a.Content]; ok { // what is said last holds
			a.ID = kept[k].ID
			kept[k] = a
			continue
		}
		if id, ok := b.Vocab[a.Content]; ok {
			a.ID = id
		} else {
			a.ID = next
		}
		next = max(next, a.ID+1)
		at[a.Content] = len(kept)
		kept = append(kept, a)
	}
	var given, normalized []added
	for _, a := range kept {
		token := added{text: a.Content, id: a.ID, word: a.SingleWord, lstrip: a.LStrip, rstrip: a.RStrip}
		if !a.Normalized {
			given = append(given, token)
			continue
		}
		for _, s := range t.normalize {
			token.text = s.apply(token.text, behindToken, nil)
		}
		if token.text != "" {
			normalized = append(normalized, token)
		}
	}
	t.given, t.normalized = newMatcher(given), newMatcher(normalized)
	return nil
}
