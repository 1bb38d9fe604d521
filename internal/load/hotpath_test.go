package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll/internal/clock"
	"plimsoll/internal/record"
	"plimsoll/internal/workload"
)

// token is an event of a length that is usual for vLLM: 247 bytes with its
// field name and the empty line.
func token(i int) string {
	const form = `data: {"id":"chatcmpl-%s","object":"chat.completion.chunk","created":1767225600,"model":"meta-llama/Llama-3.1-8B-Instruct","choices":[{"index":0,"delta":{"content":" %04d"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	id := strings.Repeat("6f1ed002", 5)
	return fmt.Sprintf(form, id[:247-len(fmt.Sprintf(form, "", 0))], i%10000)
}

// tape is a connection that answers every request with the same bytes, given
// out in pieces of a size, and allocates nothing. It stamps like a kernel.
type tape struct {
	answer []byte
	piece  int

	mu   sync.Mutex
	cond *sync.Cond
	left []byte
	shut bool
}

// newTape answers with a stream of n events in chunks of one event each, as
// engines send them, and gives out size bytes per read.
func newTape(n, size int) *tape {
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	for i := range n {
		e := token(i)
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(e), e)
	}
	end := fmt.Sprintf(endForm, 3, n, n+3)
	fmt.Fprintf(&b, "%x\r\n%s\r\n0\r\n\r\n", len(end), end)
	t := &tape{answer: b.Bytes(), piece: size}
	t.cond = sync.NewCond(&t.mu)
	return t
}

func (t *tape) dial(context.Context, string, string) (net.Conn, error) { return t, nil }

func (t *tape) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if bytes.HasSuffix(p, []byte("}")) { // the end of a request's body
		t.left = t.answer
		t.cond.Broadcast()
	}
	return len(p), nil
}

func (t *tape) Read(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.left) == 0 {
		if t.shut {
			return 0, net.ErrClosed
		}
		t.cond.Wait()
	}
	n := copy(p[:min(len(p), t.piece)], t.left)
	t.left = t.left[n:]
	return n, nil
}

func (t *tape) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shut = true
	t.cond.Broadcast()
	return nil
}

func (t *tape) LastStamp() (time.Time, bool)     { return time.Now(), true }
func (t *tape) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (t *tape) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (t *tape) SetDeadline(time.Time) error      { return nil }
func (t *tape) SetReadDeadline(time.Time) error  { return nil }
func (t *tape) SetWriteDeadline(time.Time) error { return nil }

// one is a worker with a request that can be sent again and again.
type one struct {
	w    *worker
	s    *step
	a    workload.Action
	body []byte
	n    int
}

func newOne(tb testing.TB, n, size int) *one {
	g := configured(clock.NewFake(), "http://tape/v1/chat/completions", "")
	g.cfg.Stream.Dial = newTape(n, size).dial
	g.cfg.KeepText, g.cfg.inspect = false, nil
	r, err := newRun(tb.Context(), g.cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.close)
	o := &one{w: r.newWorker(), s: &step{run: r}, n: n}
	m := g.population.User(0, 0)
	o.a = m.Start(0)
	o.body = r.render(nil, m, &o.a)
	o.send(tb) // buffers grow
	return o
}

func (o *one) send(tb testing.TB) {
	o.w.begin(o.s, &o.a, 0, record.Steady)
	o.w.exchange(o.w.run.hard, o.body)
	if r := &o.w.rec; r.Status != record.OK || len(r.Events) != o.n || r.Fallbacks != 0 {
		tb.Fatalf("ended as %v %q after %d events with %d fallbacks: %s", r.Status, r.Error, len(r.Events), r.Fallbacks, r.Message)
	}
}

// From the connection to the record neither an event nor a read costs an
// allocation: a request of many events allocates what one of few does. In fake time
// no connection is lost to a limit of the client's own, however it is held up.
func TestEventsDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, size := range []int{100, 259, 4096} { // parts of an event, one, several
		perRequest := func(n int) (allocs float64) {
			synctest.Test(t, func(t *testing.T) {
				o := newOne(t, n, size)
				allocs = testing.AllocsPerRun(10, func() { o.send(t) })
			})
			return allocs
		}
		few, many := perRequest(10), perRequest(4010)
		if many-few > 4 {
			t.Errorf("reads of %d bytes: %.0f allocations for 10 events, %.0f for 4010", size, few, many)
		}
	}
}

// cpu returns the time that the process had a processor.
func cpu(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A token event of 247 bytes costs at most half of what checking its JSON would,
// from the connection to the record, net/http's part included. The two are measured in turns and
// in time on a processor, so that whatever else the machine does meets both: the best of up to 100 rounds counts.
func TestEventsAreCheap(t *testing.T) {
	if raceEnabled {
		t.Skip("a ratio of times")
	}
	synctest.Test(t, func(t *testing.T) {
		const n = 4000
		o := newOne(t, n, 1<<20)
		data := []byte(strings.TrimSpace(strings.TrimPrefix(token(1), "data: ")))
		best := 1e9
		for round := 0; round < 100 && (round < 6 || best > 0.5); round++ {
			begun := cpu(t)
			o.send(t)
			ours := cpu(t) - begun
			begun = cpu(t)
			for range n {
				if !json.Valid(data) {
					t.Fatal("not JSON")
				}
			}
			best = min(best, float64(ours)/float64(cpu(t)-begun))
		}
		t.Logf("an event costs %.2f of json.Valid", best)
		if best > 0.5 {
			t.Errorf("an event costs %.2f of json.Valid, want at most 0.5", best)
		}
	})
}

// BenchmarkEvents is the way of one token event from a connection to the record.
func BenchmarkEvents(b *testing.B) {
	const n = 10_000
	o := newOne(b, n, 4096)
	for b.Loop() {
		o.send(b)
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/n, "ns/event")
}

// BenchmarkEventsOneByOne is the same with a read for each event, as most come.
func BenchmarkEventsOneByOne(b *testing.B) {
	const n = 10_000
	o := newOne(b, n, 247+6)
	for b.Loop() {
		o.send(b)
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/n, "ns/event")
}

// BenchmarkJSONValid is the measure for both.
func BenchmarkJSONValid(b *testing.B) {
	data := []byte(strings.TrimSpace(strings.TrimPrefix(token(1), "data: ")))
	for b.Loop() {
		if !json.Valid(data) {
			b.Fatal("not JSON")
		}
	}
}

// BenchmarkRequests is a whole request of one token.
func BenchmarkRequests(b *testing.B) {
	o := newOne(b, 1, 4096)
	b.ReportAllocs()
	for b.Loop() {
		o.send(b)
	}
}

// An open stream, with its user, its connection, net/http's two goroutines and
// its record of some events, fits into a budget: it says how many a machine
// holds.
func TestMemoryOfAnOpenStream(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector needs memory of its own")
	}
	const streams, budget = 400, 48 << 10
	used := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	g := configured(clock.NewFake(), "http://tape/v1/chat/completions", "")
	first := newTape(64, 259)
	first.answer = first.answer[:len(first.answer)-400] // the end never comes
	g.cfg.Stream.Dial = func(context.Context, string, string) (net.Conn, error) {
		c := &tape{answer: first.answer, piece: first.piece}
		c.cond = sync.NewCond(&c.mu)
		return c, nil
	}
	g.cfg.KeepText, g.cfg.inspect = false, nil
	g.cfg.Steps = []Step{{Users: streams, Requests: streams, Drain: time.Hour}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	before := used()
	done := make(chan error, 1)
	go func() {
		_, err := Run(ctx, g.cfg)
		done <- err
	}()
	// All tokens but those of the last read have been counted then. Who has not come to
	// rest yet may hold more: what they all hold in the end counts.
	per := int64(math.MaxInt64)
	for begun := time.Now(); per > budget && time.Since(begun) < 3*time.Minute; time.Sleep(5 * time.Millisecond) { // real time: a bubble has no memory of its own
		if g.live.Snapshot().OutputTokens >= streams*60 {
			per = (used() - before) / streams
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes per open stream", per)
	if per > budget {
		t.Errorf("%d bytes per open stream, want at most %d", per, budget)
	}
}
