package telemetry

import (
	"bytes"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll/internal/clock"
	"plimsoll/internal/signal"
)

// countingSink counts, as a sink that costs nothing.
type countingSink struct{ series, samples int }

func (s *countingSink) Declare(signal.Series) int32 { s.series++; return int32(s.series - 1) }
func (s *countingSink) Add(x []signal.Sample)       { s.samples += len(x) }

// serveBytes answers every request on a loopback socket with one page, in as few instructions as can be: what a benchmark of
// the client should not measure.
func serveBytes(tb testing.TB, page string) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	answer := []byte(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nDate: Mon, 30 Nov 2026 12:00:00 GMT\r\nContent-Length: %d\r\n\r\n%s", len(page), page))
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				var buf [4096]byte
				n := 0
				for {
					m, err := c.Read(buf[n:])
					if err != nil {
						return
					}
					if n += m; bytes.HasSuffix(buf[:n], []byte("\r\n\r\n")) {
						if _, err := c.Write(answer); err != nil {
							return
						}
						n = 0
					}
				}
			}()
		}
	}()
	return "http://" + l.Addr().String() + "/metrics"
}

// enginePage is a page of an engine with at least n series, of several data-parallel ranks.
func enginePage(tb testing.TB, n int) string {
	tb.Helper()
	var b strings.Builder
	families := []string{"time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds", "iteration_tokens_total"}
	series := 0
	line := func(format string, args ...any) {
		fmt.Fprintf(&b, format, args...)
		series++
	}
	for engine := 0; series < n; engine++ {
		for _, g := range []string{"num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"} {
			line("vllm:%s{engine=\"%d\",model_name=\"meta-llama/Llama-3.1-8B-Instruct\"} 0.5\n", g, engine)
		}
		for _, c := range []string{"prompt_tokens_total", "generation_tokens_total", "num_preemptions_total", "prefix_cache_queries_total", "prefix_cache_hits_total"} {
			line("vllm:%s{engine=\"%d\",model_name=\"meta-llama/Llama-3.1-8B-Instruct\"} 1.234567e+06\n", c, engine)
		}
		for _, h := range families {
			for i := range 20 {
				line("vllm:%s_bucket{engine=\"%d\",le=\"%g\",model_name=\"meta-llama/Llama-3.1-8B-Instruct\"} %d\n", h, engine, float64(i+1)/4, 100*i)
			}
			line("vllm:%s_bucket{engine=\"%d\",le=\"+Inf\",model_name=\"meta-llama/Llama-3.1-8B-Instruct\"} 2000\n", h, engine)
			line("vllm:%s_sum{engine=\"%d\",model_name=\"meta-llama/Llama-3.1-8B-Instruct\"} 321.5\n", h, engine)
			line("vllm:%s_count{engine=\"%d\",model_name=\"meta-llama/Llama-3.1-8B-Instruct\"} 2000\n", h, engine)
		}
	}
	return b.String()
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkScrape reads 64 pages of 600 series over loopback sockets: what a second of a run with 64 sources costs. cpu-ms/op has the
// servers' writes in it.
func BenchmarkScrape(b *testing.B) {
	page := enginePage(b, 600)
	targets := make([]Target, 64)
	for i := range targets {
		targets[i].URL = serveBytes(b, page)
	}
	var sink sharedSink
	s, err := New(Config{Clock: clock.New(), Sink: &sink, Targets: targets})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	s.Baseline(b.Context())
	b.ReportAllocs()
	before := cpuTime()
	n := 0
	for b.Loop() {
		s.once(b.Context(), false)
		n++
	}
	b.ReportMetric(float64(cpuTime()-before)/float64(n)/1e6, "cpu-ms/op")
	for _, i := range s.Info() {
		if i.State != StateOK || i.Failures > 0 || i.Series < 600 {
			b.Fatalf("%+v", i)
		}
	}
}

// sharedSink takes what several sources say.
type sharedSink struct{ sinkLog }

func (s *sharedSink) Add([]signal.Sample) {}

// TestScrapeBudget bounds what one reading of a known page allocates: some for the exchange, nothing for its 600 series. The reading
// in the middle of many counts: one that had to connect anew, since this process was held up, costs more.
func TestScrapeBudget(t *testing.T) {
	small, large := enginePage(t, 100), enginePage(t, 1500)
	var allocs, size [2]uint64
	for i, page := range []string{small, large} {
		s := newScraper(t, Config{Clock: clock.New(), Sink: &countingSink{}, Targets: []Target{{URL: serveBytes(t, page)}}})
		read := func() { s.sources[0].read(t.Context(), time.Hour, false) }
		for range 20 {
			read()
		}
		const n = 51
		var mallocs, taken []uint64
		for range n {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			read()
			runtime.ReadMemStats(&after)
			mallocs = append(mallocs, after.Mallocs-before.Mallocs)
			taken = append(taken, after.TotalAlloc-before.TotalAlloc)
		}
		if info := s.Info()[0]; info.State != StateOK || info.Scrapes < 20+n-5 {
			t.Fatalf("%+v", info)
		}
		slices.Sort(mallocs)
		slices.Sort(taken)
		allocs[i], size[i] = mallocs[n/2], taken[n/2]
	}
	t.Logf("allocations per reading: %d of %d series, %d of %d; bytes %d and %d", allocs[0], strings.Count(small, "\n"), allocs[1], strings.Count(large, "\n"), size[0], size[1])
	if allocs[1] > 150 || allocs[1] > allocs[0]+30 {
		t.Errorf("%d allocations for a small page, %d for a large one: want at most 150, and none per series", allocs[0], allocs[1])
	}
	if size[1] > 64<<10 {
		t.Errorf("%d bytes allocated for a reading: want at most 64 KiB", size[1])
	}
}
