// Package gguf writes language models whose answer is known: a GGUF file of
// about a megabyte that makes a real engine say a given list of tokens and then
// stop. It owns the file format as far as llama-family models need it, and the
// weights that turn a script into a model. It never trains, samples or reads a
// model, and needs no weights of anybody.
//
// The format's facts (version 3, little endian, key-values, tensor table,
// 32-byte alignment) are those of ggml's docs/gguf.md.
package gguf

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// Script is what a model says, whatever it is asked.
type Script struct {
	// Pieces are the tokens of the answer, in order; each may occur only once,
	// because the token just said is all that the model remembers. A piece of
	// one byte that is not a printable ASCII character becomes a byte token, so
	// a character may be split over tokens: "\xc3", "\xa9".
	// A prompt whose last token is one of the pieces is answered from there on.
	Pieces []string
	// Loop begins again after the last piece instead of stopping.
	Loop bool
	// ContextLength is the declared context in tokens; 0 means 8192.
	ContextLength uint32
}

// Text returns the whole answer.
func (s Script) Text() string { return strings.Join(s.Pieces, "") }

// Tokens returns how many tokens an engine counts for one whole answer: the
// pieces and the end token, which llama.cpp and Ollama count too.
func (s Script) Tokens() int { return len(s.Pieces) + 1 }

// Kinds of key-values and of vocabulary entries, by their numbers in the file.
const (
	kindUint32  = uint32(4)
	kindFloat32 = uint32(6)
	kindBool    = uint32(7)
	kindString  = uint32(8)
	kindArray   = uint32(9)

	tokenNormal  = int32(1)
	tokenUnknown = int32(2)
	tokenControl = int32(3)
	tokenByte    = int32(6)

	alignment = 32
)

// Special tokens, by position in the vocabulary. Bytes follow them.
const (
	unknown = iota
	begin
	padding
	turnStart
	turnEnd
	firstByte
)

// vocabulary is a SentencePiece vocabulary: special tokens, every byte, every
// printable ASCII character, then the pieces. No two characters merge unless
// the script holds their pair, so a prompt of n ASCII characters is n tokens.
type vocabulary struct {
	tokens []string
	scores []float32
	kinds  []int32
	index  map[string]int
}

func (v *vocabulary) add(s string, kind int32) {
	if _, ok := v.index[s]; ok {
		return
	}
	v.index[s] = len(v.tokens)
	v.tokens = append(v.tokens, s)
	v.kinds = append(v.kinds, kind)
	score := float32(0)
	if kind == tokenNormal {
		score = -float32(len(v.tokens)) // earlier entries merge first
	}
	v.scores = append(v.scores, score)
}

// spell returns the vocabulary entry of a piece.
func spell(piece string) string {
	if len(piece) == 1 && (piece[0] < ' ' || piece[0] > '~') {
		return fmt.Sprintf("<0x%02X>", piece[0])
	}
	return strings.ReplaceAll(piece, " ", "▁")
}

func newVocabulary(pieces []string) *vocabulary {
	v := &vocabulary{index: map[string]int{}}
	v.add("<unk>", tokenUnknown)
	for _, s := range []string{"<s>", "</s>", "<|im_start|>", "<|im_end|>"} {
		v.add(s, tokenControl)
	}
	for b := range 256 {
		v.add(fmt.Sprintf("<0x%02X>", b), tokenByte)
	}
	for c := ' '; c <= '~'; c++ {
		v.add(spell(string(c)), tokenNormal)
	}
	for _, p := range pieces {
		v.add(spell(p), tokenNormal)
	}
	return v
}

type tensor struct {
	name string
	dims []uint64 // fastest first
	data []float32
}

// Write writes the model that says s. It fails for a script that no such model
// can say: empty, a piece twice, or a piece of several bytes that is not UTF-8.
func Write(w io.Writer, s Script) error {
	if len(s.Pieces) == 0 {
		return fmt.Errorf("write model: the script is empty")
	}
	seen := map[string]bool{}
	for i, p := range s.Pieces {
		switch {
		case p == "":
			return fmt.Errorf("write model: piece %d is empty", i)
		case seen[p]:
			return fmt.Errorf("write model: piece %d %q occurs twice; want each once", i, p)
		case len(p) > 1 && !utf8.ValidString(p):
			return fmt.Errorf("write model: piece %d %q is not UTF-8; split it into single bytes", i, p)
		}
		seen[p] = true
	}
	v := newVocabulary(s.Pieces)
	width := (len(s.Pieces) + 1 + 63) / 64 * 64
	tensors := weights(v, s, width)

	b := bufio.NewWriterSize(w, 1<<20)
	at, err := header(b, v, s, width, tensors)
	if err != nil {
		return fmt.Errorf("write model: %w", err)
	}
	pad := func() {
		for ; at%alignment != 0; at++ {
			b.WriteByte(0)
		}
	}
	pad()
	for _, t := range tensors {
		if err := binary.Write(b, binary.LittleEndian, t.data); err != nil {
			return fmt.Errorf("write model: tensor %s: %w", t.name, err)
		}
		at += int64(4 * len(t.data))
		pad()
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write model: %w", err)
	}
	return nil
}

// weights makes the model: one layer that adds nothing, so that what is left is
// "embedding of the last token, normalised, times output matrix". Token k of the
// script embeds as unit vector k+1 and every other token as unit vector 0; the
// output row of token k reads dimension k. So each piece has one certain
// successor, and any prompt that does not end in a piece leads to the first.
func weights(v *vocabulary, s Script, width int) []tensor {
	d, n := uint64(width), uint64(len(v.tokens))
	ones := make([]float32, width)
	for i := range ones {
		ones[i] = 1
	}
	square := make([]float32, width*width)
	half := square[:width*width/2]

	embedding := make([]float32, len(v.tokens)*width)
	output := make([]float32, len(v.tokens)*width)
	for i := range v.tokens {
		embedding[i*width] = 1
	}
	// A unit vector has a root mean square of 1/sqrt(width), so it comes out of
	// the norm sqrt(width) long: this makes the logit 60, e^60 times the rest.
	certain := float32(60 / math.Sqrt(float64(width)))
	for k, p := range s.Pieces {
		t := v.index[spell(p)]
		embedding[t*width] = 0
		embedding[t*width+k+1] = 1
		output[t*width+k] = certain
	}
	after := turnEnd
	if s.Loop {
		after = v.index[spell(s.Pieces[0])]
	}
	output[after*width+len(s.Pieces)] = certain

	return []tensor{
		{"token_embd.weight", []uint64{d, n}, embedding},
		{"blk.0.attn_norm.weight", []uint64{d}, ones},
		{"blk.0.attn_q.weight", []uint64{d, d}, square},
		{"blk.0.attn_k.weight", []uint64{d, d / 2}, half},
		{"blk.0.attn_v.weight", []uint64{d, d / 2}, half},
		{"blk.0.attn_output.weight", []uint64{d, d}, square},
		{"blk.0.ffn_norm.weight", []uint64{d}, ones},
		{"blk.0.ffn_gate.weight", []uint64{d, d}, square},
		{"blk.0.ffn_up.weight", []uint64{d, d}, square},
		{"blk.0.ffn_down.weight", []uint64{d, d}, square},
		{"output_norm.weight", []uint64{d}, ones},
		{"output.weight", []uint64{d, n}, output},
	}
}

// header writes everything before the tensors' data and returns its length.
func header(w io.Writer, v *vocabulary, s Script, width int, tensors []tensor) (int64, error) {
	context := s.ContextLength
	if context == 0 {
		context = 8192
	}
	const heads = 4
	values := []struct {
		key   string
		value any
	}{
		{"general.architecture", "llama"},
		{"general.name", "scripted"},
		{"general.file_type", uint32(0)}, // F32
		{"llama.context_length", context},
		{"llama.embedding_length", uint32(width)},
		{"llama.block_count", uint32(1)},
		{"llama.feed_forward_length", uint32(width)},
		{"llama.rope.dimension_count", uint32(width / heads)},
		{"llama.attention.head_count", uint32(heads)},
		{"llama.attention.head_count_kv", uint32(heads / 2)},
		{"llama.attention.layer_norm_rms_epsilon", float32(1e-5)},
		{"llama.vocab_size", uint32(len(v.tokens))},
		{"tokenizer.ggml.model", "llama"},
		{"tokenizer.ggml.pre", "default"},
		{"tokenizer.ggml.tokens", v.tokens},
		{"tokenizer.ggml.scores", v.scores},
		{"tokenizer.ggml.token_type", v.kinds},
		{"tokenizer.ggml.bos_token_id", uint32(begin)},
		{"tokenizer.ggml.eos_token_id", uint32(turnEnd)},
		{"tokenizer.ggml.unknown_token_id", uint32(unknown)},
		{"tokenizer.ggml.padding_token_id", uint32(padding)},
		{"tokenizer.ggml.add_bos_token", true},
		{"tokenizer.ggml.add_eos_token", false},
		// Else an engine puts a space before every prompt, and llama-server's
		// grammars fail on such a vocabulary.
		{"tokenizer.ggml.add_space_prefix", false},
	}
	e := &encoder{w: w}
	e.raw([]byte("GGUF"))
	e.put(uint32(3))
	e.put(uint64(len(tensors)))
	e.put(uint64(len(values)))
	for _, kv := range values {
		e.text(kv.key)
		e.value(kv.value)
	}
	var offset uint64
	for _, t := range tensors {
		e.text(t.name)
		e.put(uint32(len(t.dims)))
		e.put(t.dims)
		e.put(uint32(0)) // F32
		e.put(offset)
		offset += (uint64(4*len(t.data)) + alignment - 1) / alignment * alignment
	}
	return e.n, e.err
}

// encoder writes little-endian values, counts bytes and keeps the first error.
type encoder struct {
	w   io.Writer
	n   int64
	err error
}

func (e *encoder) raw(b []byte) {
	if e.err != nil {
		return
	}
	n, err := e.w.Write(b)
	e.n, e.err = e.n+int64(n), err
}

func (e *encoder) put(v any) {
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		panic(fmt.Sprintf("BUG: %T has no fixed size", v))
	}
	e.raw(b)
}

func (e *encoder) text(s string) {
	e.put(uint64(len(s)))
	e.raw([]byte(s))
}

func (e *encoder) value(v any) {
	switch v := v.(type) {
	case uint32:
		e.put(kindUint32)
		e.put(v)
	case float32:
		e.put(kindFloat32)
		e.put(v)
	case bool:
		e.put(kindBool)
		e.put(v)
	case string:
		e.put(kindString)
		e.text(v)
	case []string:
		e.array(kindString, len(v))
		for _, s := range v {
			e.text(s)
		}
	case []float32:
		e.array(kindFloat32, len(v))
		e.put(v)
	case []int32:
		e.array(5, len(v))
		e.put(v)
	default:
		panic(fmt.Sprintf("BUG: no kind for %T", v))
	}
}

func (e *encoder) array(kind uint32, n int) {
	e.put(kindArray)
	e.put(kind)
	e.put(uint64(n))
}
