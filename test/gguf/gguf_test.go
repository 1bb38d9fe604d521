package gguf_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plimsoll/test/gguf"
)

// model is a file read back: its key-values and its tensors.
type model struct {
	values  map[string]any
	dims    map[string][]uint64
	tensors map[string][]float32
}

// reader reads a GGUF file as the format's description says, independently of
// the writer.
type reader struct {
	t *testing.T
	b []byte
	i int
}

func (r *reader) take(n int) []byte {
	r.t.Helper()
	if r.i+n > len(r.b) {
		r.t.Fatalf("file of %d bytes ends at %d+%d", len(r.b), r.i, n)
	}
	r.i += n
	return r.b[r.i-n : r.i]
}
func (r *reader) u32() uint32  { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *reader) u64() uint64  { return binary.LittleEndian.Uint64(r.take(8)) }
func (r *reader) f32() float32 { return math.Float32frombits(r.u32()) }
func (r *reader) str() string  { return string(r.take(int(r.u64()))) }

func (r *reader) value(kind uint32) any {
	switch kind {
	case 4, 5:
		return r.u32()
	case 6:
		return r.f32()
	case 7:
		return r.take(1)[0] == 1
	case 8:
		return r.str()
	case 9:
		inner := r.u32()
		var out []any
		for range r.u64() {
			out = append(out, r.value(inner))
		}
		return out
	}
	r.t.Fatalf("unknown kind %d at %d", kind, r.i)
	return nil
}

func read(t *testing.T, b []byte) model {
	t.Helper()
	r := &reader{t: t, b: b}
	if magic := string(r.take(4)); magic != "GGUF" {
		t.Fatalf("magic %q", magic)
	}
	if v := r.u32(); v != 3 {
		t.Fatalf("version %d", v)
	}
	tensors, values := r.u64(), r.u64()
	m := model{map[string]any{}, map[string][]uint64{}, map[string][]float32{}}
	for range values {
		k := r.str()
		m.values[k] = r.value(r.u32())
	}
	offsets := map[string]uint64{}
	for range tensors {
		name := r.str()
		for range r.u32() {
			m.dims[name] = append(m.dims[name], r.u64())
		}
		if kind := r.u32(); kind != 0 {
			t.Fatalf("tensor %s has type %d, want F32", name, kind)
		}
		offsets[name] = r.u64()
	}
	data := (r.i + 31) / 32 * 32
	for name, dims := range m.dims {
		n := uint64(1)
		for _, d := range dims {
			n *= d
		}
		if offsets[name]%32 != 0 {
			t.Fatalf("tensor %s starts at %d, not aligned", name, offsets[name])
		}
		r.i = data + int(offsets[name])
		for range n {
			m.tensors[name] = append(m.tensors[name], r.f32())
		}
	}
	return m
}

// say walks the model as an engine does when its layers add nothing: norm of the
// last token's embedding, output matrix, largest logit.
func (m model) say(t *testing.T, last, limit int) (tokens []string, certain float64) {
	t.Helper()
	vocabulary := m.values["tokenizer.ggml.tokens"].([]any)
	end := int(m.values["tokenizer.ggml.eos_token_id"].(uint32))
	width := int(m.dims["token_embd.weight"][0])
	certain = 1
	for len(tokens) < limit {
		x := m.tensors["token_embd.weight"][last*width : (last+1)*width]
		var squares float64
		for _, f := range x {
			squares += float64(f * f)
		}
		norm := math.Sqrt(squares/float64(width) + 1e-5)
		best, top, sum := -1, math.Inf(-1), 0.0
		for tok := range vocabulary {
			logit := 0.0
			for j, f := range x {
				logit += float64(f) / norm * float64(m.tensors["output.weight"][tok*width+j])
			}
			if logit > top {
				best, top = tok, logit
			}
			sum += math.Exp(logit)
		}
		certain = min(certain, math.Exp(top)/sum)
		if best == end {
			return tokens, certain
		}
		tokens = append(tokens, vocabulary[best].(string))
		last = best
	}
	return tokens, certain
}

func TestWriteSaysItsScript(t *testing.T) {
	long := make([]string, 150)
	for i := range long {
		long[i] = fmt.Sprintf(" word%d", i)
	}
	for name, c := range map[string]struct {
		script gguf.Script
		want   []string
	}{
		"words":       {gguf.Script{Pieces: []string{"The", " quick", " fox", "."}}, []string{"The", "▁quick", "▁fox", "."}},
		"split bytes": {gguf.Script{Pieces: []string{"caf", "\xc3", "\xa9", "\n"}}, []string{"caf", "<0xC3>", "<0xA9>", "<0x0A>"}},
		"one":         {gguf.Script{Pieces: []string{"x"}}, []string{"x"}},
		"many":        {gguf.Script{Pieces: long}, strings.Split(strings.ReplaceAll(strings.Join(long, ","), " ", "▁"), ",")},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := gguf.Write(&b, c.script); err != nil {
				t.Fatal(err)
			}
			m := read(t, b.Bytes())
			got, certain := m.say(t, 1, len(c.want)+3)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("said (-want +got):\n%s", diff)
			}
			if certain < 1-1e-12 {
				t.Errorf("least probability of the next token %v", certain)
			}
			if n := c.script.Tokens(); n != len(c.want)+1 {
				t.Errorf("Tokens() = %d, want %d and the end", n, len(c.want))
			}
			for name, w := range m.tensors {
				if strings.HasPrefix(name, "blk.") && len(m.dims[name]) == 2 {
					for _, f := range w {
						if f != 0 {
							t.Fatalf("layer weight %s is not zero", name)
						}
					}
				}
			}
		})
	}
}

func TestWriteLoops(t *testing.T) {
	var b bytes.Buffer
	if err := gguf.Write(&b, gguf.Script{Pieces: []string{"a ", "b ", "c "}, Loop: true}); err != nil {
		t.Fatal(err)
	}
	got, _ := read(t, b.Bytes()).say(t, 1, 7)
	if diff := cmp.Diff([]string{"a▁", "b▁", "c▁", "a▁", "b▁", "c▁", "a▁"}, got); diff != "" {
		t.Errorf("said (-want +got):\n%s", diff)
	}
}

func TestWriteRefuses(t *testing.T) {
	for want, pieces := range map[string][]string{
		"is empty":     nil,
		"piece 1 is":   {"a", ""},
		"occurs twice": {"a", "b", "a"},
		"not UTF-8":    {"a\xc3"},
	} {
		if err := gguf.Write(&bytes.Buffer{}, gguf.Script{Pieces: pieces}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", pieces, err, want)
		}
	}
}
