package tokenizer_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"plimsoll/internal/tokenizer"
)

// cpuTime is what this process has used so far.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure runs f as a benchmark of size bytes each, and reports what it costs in
// time of the processor too: the machine may be shared.
func measure(b *testing.B, size int, f func()) {
	b.SetBytes(int64(size))
	var used time.Duration
	for b.Loop() {
		began := cpuTime(b)
		f()
		used += cpuTime(b) - began
	}
	b.ReportMetric(float64(size)*float64(b.N)/1e6/used.Seconds(), "MB/cpu-s")
}

// pages is text as people write it: this project's documentation and code.
func pages(t testing.TB) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"../../docs/*.md", "../../*.md", "../../internal/*/*.go"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(paths), err)
		}
		for _, p := range paths {
			b, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, string(b))
		}
	}
	return out
}

// BenchmarkLoad loads each family's vocabulary.
func BenchmarkLoad(b *testing.B) {
	for _, family := range families {
		b.Run(family, func(b *testing.B) {
			for b.Loop() {
				load(b, family)
			}
		})
	}
}

// BenchmarkEncode encodes documentation and code with each family's vocabulary:
// words that were seen before, and each text once by a tokenizer that has seen
// none of it.
func BenchmarkEncode(b *testing.B) {
	texts := pages(b)
	size, largest := 0, ""
	for _, text := range texts {
		size += len(text)
		if len(text) > len(largest) {
			largest = text
		}
	}
	for _, family := range families {
		var ids, ends []int32
		encode := func(tok *tokenizer.Tokenizer) {
			for _, text := range texts {
				ids = tok.Encode(ids[:0], text)
			}
		}
		b.Run(family+"/cold", func(b *testing.B) {
			var used time.Duration
			for b.Loop() {
				tok := load(b, family)
				began := cpuTime(b)
				encode(tok)
				used += cpuTime(b) - began
			}
			b.ReportMetric(float64(size)*float64(b.N)/1e6/used.Seconds(), "MB/cpu-s")
		})
		b.Run(family+"/warm", func(b *testing.B) {
			tok := load(b, family)
			encode(tok)
			measure(b, size, func() { encode(tok) })
		})
		b.Run(family+"/ends", func(b *testing.B) {
			tok := load(b, family)
			encode(tok)
			measure(b, size, func() {
				for _, text := range texts {
					ends = tok.AppendEnds(ends[:0], text)
				}
			})
		})
		b.Run(family+"/cut", func(b *testing.B) {
			tok := load(b, family)
			n := tok.Count(largest) / 2
			measure(b, len(largest)/2, func() { tok.Cut(largest, n) })
		})
	}
}
