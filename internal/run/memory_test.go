package run

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"syscall"
	"testing"
	"time"

	"plimsoll/internal/record"
)

// fill makes r the i-th of many requests that look like those of a run: 50
// events some 20 ms apart.
func fill(r *record.Request, i int) {
	r.Reset()
	at := int64(i) * 100_000
	r.ID, r.Session, r.User, r.Workload = uint64(i), uint64(i), uint32(i%1000), "synthetic"
	r.Phase, r.Remote, r.Finish = record.Steady, "127.0.0.1:8000", "length"
	r.Scheduled, r.Start, r.Connected, r.Sent = at, at+30_000, at+30_000, at+90_000
	at += 80e6
	r.Headers, r.FirstEvent, r.FirstToken, r.FirstContent = at, at, at, at
	r.KernelTimes, r.ReadLagMean, r.ReadLagMax, r.Reads = true, 40_000+int64(i%977), 900_000, 52
	r.Streamed, r.AskedStream, r.StreamEvents = true, true, 53
	r.Prompt, r.Output, r.StreamedTokens, r.FirstEventTokens, r.AskedPrompt, r.AskedOutput = 512, 50, 50, 1, 512, 50
	r.Source, r.Basis, r.HTTPStatus, r.Reused = record.SourceServer, record.BasisFirstEvent, 200, true
	r.SentBytes, r.ReceivedBytes, r.TextBytes = 2300, 13000, 220
	x := uint64(i) * 0x9e3779b97f4a7c15
	for j := range 50 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		r.Events = append(r.Events, record.Event{
			At: at, Cumulative: record.Unknown, Tokens: 1, Read: uint32(j + 2), TextBytes: uint32(2 + x%7), Channel: record.Content,
		})
		at += 20e6 + int64(x>>44) - 1<<19
	}
	r.LastToken, r.End = r.Events[49].At, at
}

// peak returns the most memory that the runtime held at once while f ran, seen
// every millisecond.
func peak(f func()) uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	stop, done := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		for {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64()-sample[1].Value.Uint64())
			select {
			case <-stop:
				done <- most
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	f()
	close(stop)
	return <-done
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestMemoryOfManyRows writes requests with 50 events each as fast as the disk
// takes them. PLIMSOLL_ROWS=10000000 makes it the full size.
func TestMemoryOfManyRows(t *testing.T) {
	if raceEnabled || testing.CoverMode() != "" {
		t.Skip("memory is not what it is")
	}
	rows := 100_000
	if s := os.Getenv("PLIMSOLL_ROWS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		rows = n
	} else if testing.Short() {
		rows = 30_000
	}
	const limit = 150 << 20
	runtime.GC()
	debug.FreeOSMemory()
	w, err := Create(t.TempDir(), info("many"), nil, Blocking())
	if err != nil {
		t.Fatal(err)
	}
	if rows < 1_000_000 {
		w.mergeParts = 4 // so that a merge is under way here too
	}
	before := cpu()
	most := peak(func() {
		r := new(record.Request)
		for i := range rows {
			fill(r, i)
			w.Add(r)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	})
	used := cpu() - before
	var size int64
	parts, _, err := listParts(w.Dir() + "/" + requestsDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		st, err := os.Stat(w.Dir() + "/" + requestsDir + "/" + p.name())
		if err != nil {
			t.Fatal(err)
		}
		size += st.Size()
	}
	t.Logf("%d rows in %d parts: %d MiB at most, %.0f rows per CPU second, %.1f bytes per row",
		rows, len(parts), most>>20, float64(rows)/used.Seconds(), float64(size)/float64(rows))
	if most > limit {
		t.Errorf("memory reached %d MiB, want at most %d", most>>20, limit>>20)
	}
	if w.Dropped() != 0 || w.requests.rows != int64(rows) {
		t.Errorf("%d records, %d dropped, want %d and 0", w.requests.rows, w.Dropped(), rows)
	}
}

func BenchmarkAdd(b *testing.B) {
	w, err := Create(b.TempDir(), info("bench"), nil, Blocking())
	if err != nil {
		b.Fatal(err)
	}
	r := new(record.Request)
	fill(r, 1)
	b.ReportAllocs()
	for b.Loop() {
		w.Add(r)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}
