package twin

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// crowd opens n streams of endless answers and reads each a few times a second, so
// that what is measured is the server and not its clients. reads is how often it has
// read, leave ends it.
func crowd(t testing.TB, url string, n, tokens int) (reads *atomic.Int64, leave func()) {
	t.Helper()
	reads = new(atomic.Int64)
	conns := make([]net.Conn, n)
	body := fmt.Sprintf(`{"prompt":"x","stream":true,"max_tokens":%d,"ignore_eos":true}`, tokens)
	request := fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	for i := range conns {
		nc, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = nc
		if _, err := io.WriteString(nc, request); err != nil {
			t.Fatal(err)
		}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		buf := make([]byte, 64<<10)
		for {
			for i, nc := range conns {
				if i%50 == 0 {
					select {
					case <-stop:
						return
					case <-time.After(400 * time.Millisecond / time.Duration(n/50+1)):
					}
				}
				_ = nc.SetReadDeadline(time.Now().Add(time.Microsecond))
				_, _ = nc.Read(buf) // what there is, if anything
				reads.Add(1)
			}
		}
	}()
	return reads, func() {
		close(stop)
		<-stopped
		for _, nc := range conns {
			nc.Close()
		}
	}
}

// BenchmarkStreams holds 2,000 streams at 20 tokens a second and tells how late
// the steps are, and what a token costs, reading it included.
func BenchmarkStreams(b *testing.B) {
	for _, replicas := range []int{1, 8} {
		b.Run(fmt.Sprintf("replicas=%d", replicas), func(b *testing.B) {
			const n = 2000
			s, url := start(b, ServerConfig{Step: 50 * time.Millisecond, Replicas: replicas, MaxModelLen: 100_000})
			_, leave := crowd(b, url, n, 90_000)
			defer leave()
			eventually(b, "all streams run", func() bool { return s.Stats().Running == n })
			for _, r := range s.replicas {
				r.logMu.Lock()
				r.late.Reset()
				r.last.Reset()
				r.logMu.Unlock()
			}
			before, ok := processTime()
			tokens := s.Stats().OutputTokens
			began := time.Now()
			for b.Loop() {
				time.Sleep(3 * time.Second) // real time: a server in real time is measured
			}
			st := s.Stats()
			after, _ := processTime()
			made := st.OutputTokens - tokens
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(made)/time.Since(began).Seconds(), "tokens/s")
			us := func(ns int64) float64 { return float64(ns) / 1e3 }
			b.ReportMetric(us(st.Late.Quantile(.5)), "late-p50-us")
			b.ReportMetric(us(st.Late.Quantile(.99)), "late-p99-us")
			b.ReportMetric(us(st.LateLast.Quantile(.5)), "last-p50-us")
			b.ReportMetric(us(st.LateLast.Quantile(.99)), "last-p99-us")
			if ok && made > 0 {
				b.ReportMetric(us(int64(after-before))/float64(made), "cpu-us/token")
			}
		})
	}
}

// Many streams get all their tokens in time, and a token costs no memory.
func TestManyStreams(t *testing.T) {
	const n, step = 300, 10 * time.Millisecond
	s, url := start(t, ServerConfig{Step: step, MaxModelLen: 100_000})
	reads, leave := crowd(t, url, n, 90_000)
	defer leave()
	eventually(t, "all streams run", func() bool { return s.Stats().Running == n })
	var before, after runtime.MemStats
	tokens, steps, read := s.Stats().OutputTokens, s.Stats().Steps, reads.Load()
	runtime.ReadMemStats(&before)
	eventually(t, "100 steps pass", func() bool { return s.replicas[0].state.steps.Load() >= steps+100 })
	runtime.ReadMemStats(&after)
	read = reads.Load() - read
	st := s.Stats()
	made := st.OutputTokens - tokens
	if made < 99*n {
		t.Errorf("%d tokens in %d steps of %d streams", made, st.Steps-steps, n)
	}
	// Text is made some hundred tokens at a time. The clients take memory for what they
	// could not read, in time and not by tokens: an error, and their share of a timer.
	if a := (float64(after.Mallocs-before.Mallocs) - 2*float64(read)) / float64(made); a > 0.05 {
		t.Errorf("%.3f allocations per token", a)
	}
	if st.SlowClients > 0 || st.Aborted > 0 {
		t.Errorf("%d slow clients, %d aborted", st.SlowClients, st.Aborted)
	}
	t.Logf("%d reads, %d tokens, %d allocations; steps late by p50 %v p99 %v, last tokens by p50 %v p99 %v", read, made, after.Mallocs-before.Mallocs, time.Duration(st.Late.Quantile(.5)), time.Duration(st.Late.Quantile(.99)), time.Duration(st.LateLast.Quantile(.5)), time.Duration(st.LateLast.Quantile(.99)))
}
