package tokenizer

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// encodings are the ways in which text can be split for a file of ranks. Such a
// file does not say which is meant; its name may.
var encodings = []struct {
	name  string
	files []string // what such a file's path holds
	split string
}{
	{"r50k", []string{"r50k", "p50k", "gpt2"}, gpt2Pattern},
	{"cl100k", []string{"cl100k"}, cl100kPattern},
	{"o200k", []string{"o200k"}, o200kPattern},
	{"llama3", []string{"llama3", "llama-3", "llama_3"}, llama3Pattern},
	{"qwen", []string{"qwen"}, qwenPattern},
	{"kimi", []string{"kimi", "moonlight"}, kimiPattern},
}

const knownEncodings = "r50k, cl100k, o200k, llama3, qwen, kimi"

// Load reads a tokenizer from the bytes of a file: a tokenizer.json, or ranks of
// tiktoken (lines of a token in base64 and its rank). name is the path of the file
// and goes into errors. Before the path may stand the encoding of a file of ranks
// and a colon, as in kimi:tiktoken.model; without it the path must tell, as
// o200k_base.tiktoken does. Path returns the path alone.
//
// Load refuses, by name, every model, normalizer and pre-tokenizer that it would
// have to guess at. It keeps nothing of data.
func Load(name string, data []byte) (*Tokenizer, error) {
	path := Path(name)
	var t *Tokenizer
	var err error
	switch start := bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), " \t\r\n"); {
	case len(start) == 0:
		err = errors.New("the file is empty")
	case start[0] == '{':
		if path != name {
			err = errors.New("an encoding is named, which only files of ranks need; this is JSON")
		} else {
			t, err = readJSON(start)
		}
	case bytes.HasPrefix(start, []byte("version https://git-lfs")):
		err = errors.New("this is a pointer of Git LFS, not the file itself")
	case isRanks(start):
		encoding := strings.TrimSuffix(strings.TrimSuffix(name, path), ":")
		t, err = readRanks(encoding, path, start)
	default:
		err = errors.New("neither a tokenizer.json nor tiktoken's ranks; a SentencePiece model (tokenizer.model) is not supported, give the tokenizer.json of the model")
	}
	if err != nil {
		return nil, fmt.Errorf("load tokenizer %s: %w", path, err)
	}
	return t, nil
}

// Path returns the path of the file in the name of a tokenizer, which is all of it
// unless it begins with an encoding and a colon.
func Path(name string) string {
	if before, after, ok := strings.Cut(name, ":"); ok {
		for _, e := range encodings {
			if before == e.name {
				return after
			}
		}
	}
	return name
}

// CheckName returns what is wrong with the name of a tokenizer whose path, as Path
// returns it, is no file: before a colon stands a word that is no encoding. It returns nil
// where it has nothing to say.
func CheckName(name string) error {
	before, after, ok := strings.Cut(Path(name), ":")
	if !ok || Path(name) != name || len(before) < 2 || strings.ContainsAny(before, `/\ `) {
		return nil
	}
	return fmt.Errorf("load tokenizer %s: encoding %q is not known, want one of %s before a colon, or the path alone", after, before, knownEncodings)
}

// isRanks says whether the first line is of a file of ranks.
func isRanks(b []byte) bool {
	line, _, _ := bytes.Cut(b[:min(len(b), 4096)], []byte("\n"))
	_, _, err := readRank(bytes.TrimRight(line, "\r"))
	return err == nil
}

func readRank(line []byte) (token []byte, rank int32, err error) {
	text, number, ok := bytes.Cut(line, []byte(" "))
	if !ok {
		return nil, 0, errors.New("want a token in base64, a space and its rank")
	}
	token, err = base64.StdEncoding.AppendDecode(nil, text)
	if err != nil || len(token) == 0 {
		return nil, 0, fmt.Errorf("token %.40q: want base64", text)
	}
	n, err := strconv.ParseUint(string(number), 10, 31)
	if err != nil || n > maxToken {
		return nil, 0, fmt.Errorf("rank %.20q: want a number from 0 to %d", number, maxToken)
	}
	return token, int32(n), nil
}

func readRanks(encoding, path string, data []byte) (*Tokenizer, error) {
	split := ""
	lower := strings.ToLower(filepath.ToSlash(path))
	for _, e := range encodings {
		if encoding == e.name {
			split = e.split
		}
	}
	for _, e := range encodings {
		for _, part := range e.files {
			if split == "" && strings.Contains(lower, part) {
				split = e.split
			}
		}
	}
	if split == "" {
		return nil, fmt.Errorf("tiktoken's ranks do not say how text is split; write ENCODING:%s with one of %s", path, knownEncodings)
	}
	t := &Tokenizer{words: newCache()}
	t.stages = []stage{quick{patterns[split], basicPlane()}}
	m := &t.model
	*m = model{ids: make(map[string]int32, bytes.Count(data, []byte("\n"))), byteLevel: true, unknown: -1, whole: true}
	for i := range m.bytes {
		m.bytes[i] = -1
	}
	taken := map[int32]int{}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			continue
		}
		token, rank, err := readRank(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if _, ok := m.ids[string(token)]; ok {
			return nil, fmt.Errorf("line %d: token %.40q is there twice", number, token)
		}
		if other, ok := taken[rank]; ok {
			return nil, fmt.Errorf("line %d: rank %d is also on line %d", number, rank, other)
		}
		taken[rank] = number
		m.ids[string(token)] = rank
		if len(token) == 1 {
			m.bytes[token[0]] = rank
		}
	}
	for b, id := range m.bytes {
		if id < 0 {
			return nil, fmt.Errorf("byte 0x%02x has no token", b)
		}
	}
	// Two tokens merge where both together are one, in the order of their ranks: all
	// ways to cut each token in two.
	m.merges = newPairs(2 * len(m.ids))
	for token, rank := range m.ids {
		if len(token) > maxRankToken {
			return nil, fmt.Errorf("token of rank %d has %d bytes, more than %d", rank, len(token), maxRankToken)
		}
		for i := 1; i < len(token); i++ {
			a, okA := m.ids[token[:i]]
			b, okB := m.ids[token[i:]]
			if okA && okB {
				m.merges.put(a, b, uint32(rank), rank)
			}
		}
	}
	return t, nil
}

// maxRankToken bounds the work of one line: the longest token of the known files
// has 128 bytes.
const maxRankToken = 4096
