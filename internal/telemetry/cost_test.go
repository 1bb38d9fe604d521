package telemetry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"plimsoll/internal/signal"
)

// counting is a sink that costs nothing.
type counting struct{ declared, samples int }

func (c *counting) Declare(signal.Series) int32 {
	c.declared++
	return int32(c.declared - 1)
}

func (c *counting) Add(s []signal.Sample) { c.samples += len(s) }

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "pages", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// grown returns the page with every whole number that ends a line of a total one greater, which is what
// happens between two readings: the text of the values changes, that of the series does not.
func grown(page []byte, by int) []byte {
	var b bytes.Buffer
	for line := range strings.Lines(string(page)) {
		text := strings.TrimSuffix(line, "\n")
		i := strings.LastIndexByte(text, ' ')
		if strings.HasPrefix(text, "#") || i < 0 {
			b.WriteString(line)
			continue
		}
		var v float64
		if _, err := fmt.Sscan(text[i+1:], &v); err != nil {
			b.WriteString(line)
			continue
		}
		fmt.Fprintf(&b, "%s %v\n", text[:i], v+float64(by))
	}
	return b.Bytes()
}

func BenchmarkRead(b *testing.B) {
	for _, name := range []string{"vllm_v1.t1.prom", "vllm_v1_dp2_spec_nixl_mfu_multiproc.prom", "dcgm_prof_h100_decode_bound.prom", "sglang.prom", "node_exporter.prom"} {
		b.Run(name, func(b *testing.B) {
			page := readFile(b, name)
			r, sink := NewReader(Options{}), &counting{}
			info, err := r.Read(page, "", 0, 1, sink)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Read(page, "", 0, 1, sink); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(info.Series), "ns/series")
		})
	}
}

// BenchmarkSources is one round of 64 sources of about 600 series, whose figures change from round to round.
func BenchmarkSources(b *testing.B) {
	page := readFile(b, "vllm_v1.t1.prom")
	for line := range bytes.Lines(page) {
		if bytes.Contains(line, []byte(`engine="0"`)) && bytes.Contains(line, []byte("request_")) {
			page = append(page, bytes.Replace(line, []byte(`engine="0"`), []byte(`engine="1"`), 1)...)
		}
	}
	pages := [][]byte{page, grown(page, 1), grown(page, 2)}
	var readers []*Reader
	sink, series := &counting{}, 0
	for range 64 {
		r := NewReader(Options{})
		info, err := r.Read(page, "", 0, 1, sink)
		if err != nil {
			b.Fatal(err)
		}
		readers, series = append(readers, r), info.Series
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for _, r := range readers {
			if _, err := r.Read(pages[n%3], "", 0, 1, sink); err != nil {
				b.Fatal(err)
			}
		}
		n++
	}
	b.ReportMetric(float64(series), "series/source")
}

// BenchmarkWalk is the plain walk over a page with labels, for comparison.
func BenchmarkWalk(b *testing.B) {
	page := readFile(b, "vllm_v1.t1.prom")
	b.ReportAllocs()
	for b.Loop() {
		walk(b, page)
	}
}

func walk(t testing.TB, page []byte) (n int) {
	p := textparse.NewPromParser(page, labels.NewSymbolTable(), false)
	var l labels.Labels
	for {
		e, err := p.Next()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		if e == textparse.EntrySeries {
			p.Series()
			p.Labels(&l)
			n++
		}
	}
}

// TestNothingIsAllocatedPerSeries reads pages of one engine and of eight: what a reading allocates must not depend on the
// number of series.
func TestNothingIsAllocatedPerSeries(t *testing.T) {
	if race {
		t.Skip("the race detector allocates")
	}
	one := readFile(t, "vllm_v1.t1.prom")
	eight := bytes.Clone(one)
	for i := 1; i < 8; i++ {
		for line := range bytes.Lines(one) {
			if bytes.Contains(line, []byte(`engine="0"`)) {
				eight = append(eight, bytes.Replace(line, []byte(`engine="0"`), fmt.Appendf(nil, `engine="%d"`, i), 1)...)
			}
		}
	}
	for _, tolerant := range []bool{false, true} {
		var allocs [2]float64
		var series, samples [2]int
		for i, page := range [][]byte{one, eight} {
			pages := [][]byte{page, grown(page, 1), grown(page, 2)}
			r, sink := NewReader(Options{}), &counting{}
			r.tolerant = tolerant
			for _, p := range pages {
				info, err := r.Read(p, "", 0, 1, sink)
				if err != nil {
					t.Fatal(err)
				}
				series[i], samples[i] = info.Series, info.Samples
			}
			n := 0
			allocs[i] = testing.AllocsPerRun(20, func() {
				if _, err := r.Read(pages[n%3], "", 0, 1, sink); err != nil {
					t.Fatal(err)
				}
				n++
			})
		}
		if series[0] < 300 || series[1] < 7*series[0] || samples[1] < 7*samples[0] {
			t.Fatalf("%v series give %v samples: the pages do not say what this test is about", series, samples)
		}
		if allocs[0] != allocs[1] || allocs[0] > 12 {
			t.Errorf("tolerant %v: pages of %v series allocate %v times, want the same few", tolerant, series, allocs)
		}
	}
}

// TestReadingCostsAsMuchAsParsing compares with the plain walk over the same page in the same run: recognising
// series, mapping them and making samples must not cost more than it does to build the labels.
func TestReadingCostsAsMuchAsParsing(t *testing.T) {
	if race || testing.Short() {
		t.Skip("ratios of time mean nothing here")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	page := readFile(t, "vllm_v1.t1.prom")
	r, sink := NewReader(Options{}), &counting{}
	if _, err := r.Read(page, "", 0, 1, sink); err != nil {
		t.Fatal(err)
	}
	best := 10.0
	for range 8 {
		read := took(func() {
			if _, err := r.Read(page, "", 0, 1, sink); err != nil {
				t.Fatal(err)
			}
		})
		plain := took(func() { walk(t, page) })
		best = min(best, read/plain)
	}
	t.Logf("a reading costs %.2f of a walk with labels", best)
	if best > 1.2 {
		t.Errorf("a reading costs %.2f of a walk with labels, want at most 1.2", best)
	}
}

// took returns how long f takes, the best of several runs of it.
func took(f func()) float64 {
	best := time.Hour
	for range 20 {
		start := time.Now()
		f()
		best = min(best, time.Since(start))
	}
	return best.Seconds()
}
