package twin

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"
)

// traced is one request of a trace of hashed prompts.
type traced struct {
	at       float64
	prompt   int
	output   int
	content  []Extent
	repeated int // whole blocks at its beginning that an earlier row has too
}

const tracedBlock = 512

// readTrace reads rows of Mooncake's conversation trace: the prompt of each is a
// list of blocks of 512 tokens, by their hashes with all before them.
func readTrace(t testing.TB) []traced {
	t.Helper()
	data, err := os.ReadFile("testdata/mooncake_conversation_300.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var all []traced
	seen := map[uint64]bool{}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		var row struct {
			Timestamp float64  `json:"timestamp"`
			Input     int      `json:"input_length"`
			Output    int      `json:"output_length"`
			IDs       []uint64 `json:"hash_ids"`
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		r := traced{at: row.Timestamp * 1e6, prompt: row.Input, output: max(row.Output, 1)}
		left := row.Input
		for i, id := range row.IDs {
			n := min(left, tracedBlock)
			left -= n
			r.content = append(r.content, Extent{ID: id + 1, Tokens: n})
			if r.repeated == i && n == tracedBlock && seen[id] {
				r.repeated++
			}
			seen[id] = true
		}
		all = append(all, r)
	}
	return all
}

// replayTrace runs a trace through an engine with steps of one length, skipping what
// is alike. done, when not nil, is called for each sequence that has finished.
func replayTrace(e *Engine, all []traced, seqs []Seq, done func(i int, s *Seq)) {
	now, next := 0.0, 0
	for {
		for next < len(all) && all[next].at <= now {
			s := &seqs[next]
			*s = Seq{Prompt: all[next].prompt, Output: all[next].output, Content: all[next].content, Owner: next, Account: Account{Arrival: now}}
			e.Submit(s)
			next++
		}
		length, ok := e.Begin(now)
		if !ok {
			if next == len(all) {
				return
			}
			now = all[next].at
			continue
		}
		n := e.Ahead()
		if next < len(all) {
			n = max(1, min(n, int64((all[next].at-now)/length)+1))
		}
		e.Leap(n)
		now += float64(n) * length
		e.End(now, nil)
		for _, s := range e.Done() {
			if done != nil {
				done(s.Owner.(int), s)
			}
		}
	}
}

// With memory for everything, a request finds exactly the blocks that an earlier
// one has sent, but for a last block that would leave nothing to compute.
func TestTraceHits(t *testing.T) {
	all := readTrace(t)
	e, err := NewEngine(EngineConfig{
		Timer: FixedStep(10 * time.Millisecond), MaxNumSeqs: 1 << 20, MaxNumBatchedTokens: Unlimited,
		Blocks: 1 << 30, BlockTokens: tracedBlock, PrefixCache: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	hits := 0
	replayTrace(e, all, make([]Seq, len(all)), func(i int, s *Seq) {
		want := min(all[i].repeated, (all[i].prompt-1)/tracedBlock)
		if got := s.Account.Cached / tracedBlock; got != want {
			t.Errorf("row %d: %d blocks found, want %d", i, got, want)
		}
		hits += want
	})
	if hits < len(all) {
		t.Errorf("%d hits in %d rows: the sample shows nothing", hits, len(all))
	}
}

// The cache is made of extents: blocks of a 32nd of the size may not cost much
// more.
func TestSmallBlocksCostLittle(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector has costs of its own")
	}
	all := readTrace(t)
	replay := func(block int) func() {
		seqs := make([]Seq, len(all))
		return func() {
			e, err := NewEngine(EngineConfig{
				Timer: FixedStep(20 * time.Millisecond), MaxNumSeqs: 1024, MaxNumBatchedTokens: 8192,
				Blocks: 3 << 20 / block, BlockTokens: block, PrefixCache: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			replayTrace(e, all, seqs, nil)
		}
	}
	if small := timesAsLong(replay(tracedBlock), replay(tracedBlock/32)); small > 4 {
		t.Errorf("blocks of 16 tokens cost %.1f times blocks of 512", small)
	} else {
		t.Logf("blocks of 16 tokens cost %.2f times blocks of 512", small)
	}
}

// BenchmarkTrace is the cost of a request with a prompt of 12,000 tokens that
// shares much with others, at the trace's own blocks and at vLLM's.
func BenchmarkTrace(b *testing.B) {
	all := readTrace(b)
	for _, bm := range []struct {
		name   string
		block  int
		memory int // tokens; less than the trace has
	}{{"512-token blocks", 512, 3 << 20}, {"16-token blocks", 16, 3 << 20}} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			seqs := make([]Seq, len(all))
			var c Counters
			for b.Loop() {
				e, err := NewEngine(EngineConfig{
					Timer: FixedStep(20 * time.Millisecond), MaxNumSeqs: 1024, MaxNumBatchedTokens: 8192,
					Blocks: bm.memory / bm.block, BlockTokens: bm.block, PrefixCache: true,
				})
				if err != nil {
					b.Fatal(err)
				}
				replayTrace(e, all, seqs, nil)
				c = e.Counters
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(all)), "ns/request")
			b.ReportMetric(float64(c.PrefixHits)/float64(c.PrefixQueries), "hit-rate")
		})
	}
}
