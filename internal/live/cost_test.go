package live

import (
	"bytes"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"plimsoll/internal/clock"
	"plimsoll/internal/dialect"
	"plimsoll/internal/load"
	"plimsoll/internal/record"
)

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()) // the kernel guesses at the shares, not at the sum
}

// answer is one of n tokens that came every 10 ms.
func answer(n int) *record.Request {
	r := new(record.Request)
	r.Reset()
	r.Workload, r.Phase, r.Streamed, r.Source = "w", record.Steady, true, record.SourceServer
	r.Scheduled, r.Start, r.Connected, r.Sent = 0, 0, 0, 1000
	for i := range n {
		r.Events = append(r.Events, record.Event{At: int64(i+1) * 10_000_000, Tokens: 1, Channel: record.Content, Read: uint32(i)})
	}
	r.FirstToken, r.LastToken, r.End = r.Events[0].At, r.Events[n-1].At, r.Events[n-1].At
	r.Headers, r.FirstEvent, r.FirstContent = r.FirstToken, r.FirstToken, r.FirstToken
	r.Output, r.StreamedTokens, r.FirstEventTokens = int32(n), int32(n), 1
	return r
}

// TestWatchingCostsLittlePerToken compares, in one process and in turn, what a token costs here with
// what it costs to decode it. That is a hundredth of what the load spends on one, which is some
// microseconds with its read, so that this many are within the budget of 3 %. The whole is measured on
// processes.
func TestWatchingCostsLittlePerToken(t *testing.T) {
	if raceEnabled || testing.CoverMode() != "" {
		t.Skip("time is not what it is")
	}
	const tokens, rounds, answers = 200, 15, 400
	r := answer(tokens)
	event := []byte(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}`)
	var dec dialect.Decoder
	decode := func() {
		dec.Reset(dialect.OpenAIChat, false)
		for range tokens {
			if d := dec.Event(nil, event); len(d.Marks) != 1 {
				t.Fatalf("decoded as %+v", d)
			}
		}
	}
	c := clock.New()
	w := New()
	w.Begin(Run{Start: c.Start(), Now: func() int64 { return 0 }, Live: new(load.Live), Plan: []load.Step{{Users: 1, Duration: time.Hour}}})
	close(w.over) // looked at by hand below
	w.done.Wait()
	watch := func() {
		w.Record(r)
		w.batch = w.queue.take(w.batch[:0])
		for _, q := range w.batch {
			w.store.AddRequest(q)
			w.requestEnded(q)
		}
		w.queue.done(w.batch)
	}
	measure := func(f func()) time.Duration {
		begun := cpu()
		for range answers {
			f()
		}
		return cpu() - begun
	}
	var ratios []float64
	var a, b time.Duration
	for range rounds {
		for _, s := range w.sets {
			s.gaps = 0 // as in a new second
		}
		x, y := measure(decode), measure(watch)
		a, b = a+x, b+y
		ratios = append(ratios, float64(y)/float64(x))
	}
	slices.Sort(ratios)
	per := func(d time.Duration) string {
		return fmt.Sprintf("%.0f ns", float64(d)/float64(rounds*answers*tokens))
	}
	t.Logf("watching costs %s a token, decoding %s: %.2f", per(b), per(a), ratios[rounds/2])
	const most = 2.5
	if ratios[rounds/2] > most {
		t.Errorf("watching costs %s a token, decoding %s: %.2f, want at most %v", per(b), per(a), ratios[rounds/2], most)
	}
}

// TestRecordAllocatesNothing: what runs beside the requests finds memory ready.
func TestRecordAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	w, r := New(), answer(200)
	var batch []*record.Request
	once := func() {
		w.Record(r)
		batch = w.queue.take(batch[:0])
		w.queue.done(batch)
	}
	once()
	if n := testing.AllocsPerRun(100, once); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if w.queue.room != mostRequests || w.queue.events != 0 {
		t.Errorf("there is room for %d requests, and %d events are there", w.queue.room, w.queue.events)
	}
}

// TestSnapshotIsOneLine: a line of an event stream ends it.
func TestSnapshotIsOneLine(t *testing.T) {
	s := &Snapshot{Reasons: []string{"a\nb\u2028c"}, Cells: []Cell{{1, 1000.5, 0.25}}}
	b := s.JSON()
	if bytes.ContainsAny(b, "\n\r") || !bytes.Contains(b, []byte(`"cells":[[1,1000.5,0.25]]`)) {
		t.Errorf("%s", b)
	}
	if &b[0] != &s.JSON()[0] {
		t.Error("it is made again for each reader")
	}
}
