package twin

import (
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/dialect"
)

// full returns an engine in which n sequences decode for ever.
func full(t testing.TB, n int) (e *Engine, now float64) {
	t.Helper()
	r := NewRoofline(Builtin(), testLayout(t, "llama-3.1-8b", "h100", 1, BF16))
	e, err := NewEngine(EngineConfig{Timer: r, MaxNumSeqs: n, MaxNumBatchedTokens: 8192, Blocks: Unlimited})
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		e.Submit(&Seq{Prompt: 100, Output: 1 << 30})
	}
	for e.decodes < n {
		length, _ := e.Begin(now)
		now += length
		e.End(now, nil)
	}
	return e, now
}

func BenchmarkDecodeStep(b *testing.B) {
	for _, n := range []int{1, 1024} {
		b.Run(map[int]string{1: "1 sequence", 1024: "1024 sequences"}[n], func(b *testing.B) {
			e, now := full(b, n)
			b.ReportAllocs()
			for b.Loop() {
				length, _ := e.Begin(now)
				now += length
				e.End(now, nil)
			}
		})
	}
}

// timesAsLong returns how many times as long as base a run takes: the shortest of
// several of each, which take turns, since a busy machine is slow for a while.
func timesAsLong(base, run func()) float64 {
	best := [2]time.Duration{time.Hour, time.Hour}
	for range 7 {
		for i, f := range [2]func(){base, run} {
			start := time.Now()
			f()
			best[i] = min(best[i], time.Since(start))
		}
	}
	return float64(best[1]) / float64(best[0])
}

// What a step costs in virtual time must not grow with the sequences that only
// decode: that is what the sums are for.
func TestDecodeStepDoesNotGrowWithTheBatch(t *testing.T) {
	steps := func(n int) func() {
		e, now := full(t, n)
		return func() {
			for range 2000 {
				length, _ := e.Begin(now)
				now += length
				e.End(now, nil)
			}
		}
	}
	if many := timesAsLong(steps(1), steps(1024)); many > 5 {
		t.Errorf("a step of 1024 sequences costs %.1f times a step of one", many)
	}
	e, now := full(t, 64)
	if n := testing.AllocsPerRun(1000, func() {
		length, _ := e.Begin(now)
		now += length
		e.End(now, nil)
	}); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
}

// BenchmarkRequests runs whole requests of 512 and 256 tokens, 64 at a time,
// without anybody listening.
func BenchmarkRequests(b *testing.B) {
	r := NewRoofline(Builtin(), testLayout(b, "llama-3.1-8b", "h100", 1, BF16))
	e, err := NewEngine(EngineConfig{Timer: r, MaxNumSeqs: 1024, MaxNumBatchedTokens: 8192, Blocks: 27_000})
	if err != nil {
		b.Fatal(err)
	}
	seqs := make([]Seq, 64)
	now := 0.0
	b.ReportAllocs()
	for b.Loop() {
		for i := range seqs {
			if seqs[i].state == idle {
				seqs[i].Prompt, seqs[i].Output = 512, 256
				seqs[i].Account.Arrival = now
				e.Submit(&seqs[i])
				break
			}
		}
		for done := e.Counters.Finished; e.Counters.Finished == done && e.running.n+e.waiting.n == len(seqs); {
			length, _ := e.Begin(now)
			now += length
			e.End(now, nil)
		}
	}
}

// sink is a connection that is always ready: what is left is the twin's own cost
// of a token.
func sink(t testing.TB, s *Server) (c *conn, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 1<<20)
		for {
			if _, err := client.Read(b); err != nil {
				return
			}
		}
	}()
	c = newConn(s, nc)
	return c, func() {
		nc.Close()
		<-done
		client.Close()
		s.goroutines.Wait()
	}
}

func token(t testing.TB) (emit func(), stop func()) {
	s, err := NewServer(ServerConfig{Step: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	c, stop := sink(t, s)
	r := s.replicas[0]
	a := &answer{
		conn: c, replica: r, stream: true, runningUsage: true, chunked: true, done: make(chan struct{}),
		w: dialect.NewWriter(dialect.OpenAIChat, "chatcmpl-"+strings.Repeat("x", 20), "llama-3.1-8b", 1),
	}
	a.choices = []choice{{answer: a, speech: speech{left: 1 << 40}}}
	seq := &a.choices[0].seq
	seq.Owner = &a.choices[0]
	a.unfinished = 1
	return func() { r.emit(seq, 1, false) }, stop
}

func BenchmarkToken(b *testing.B) {
	emit, stop := token(b)
	defer stop()
	b.ReportAllocs()
	for b.Loop() {
		emit()
	}
}

// A token costs no allocation but its share of the text that is made 512 tokens
// at a time.
func TestTokenAllocatesNothing(t *testing.T) {
	emit, stop := token(t)
	defer stop()
	emit()
	const tokens = 20_000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range tokens {
		emit()
	}
	runtime.ReadMemStats(&after)
	if n := float64(after.Mallocs-before.Mallocs) / tokens; n > 0.05 {
		t.Errorf("%.3f allocations per token", n)
	}
}
