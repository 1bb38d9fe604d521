package trace_test

import (
	"testing"
	"time"

	"plimsoll/internal/record"
	"plimsoll/internal/twin"
	"plimsoll/internal/workload/trace"
)

// sums adds up what the simulated server found in its cache and how late requests
// were.
type sums struct {
	n, prompt, cached, output int64
	late                      int64
	bad                       int
	scheduled                 []int64
}

func (s *sums) Record(f *twin.Finished) {
	r := &f.Request
	s.n++
	s.prompt += int64(r.Prompt)
	s.cached += int64(r.Cached)
	s.output += int64(r.Output)
	s.late = max(s.late, r.Start-r.Scheduled)
	s.scheduled = append(s.scheduled, r.Scheduled)
	if r.Status != record.OK {
		s.bad++
	}
}

// predict replays a trace against an engine with memory for everything.
func predict(t *testing.T, p *trace.Replay, block int) *sums {
	t.Helper()
	c, err := twin.NewCluster(twin.ClusterConfig{Step: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	c.Engine.PrefixCache, c.Engine.BlockTokens, c.Engine.Blocks = true, block, 1<<30
	s := new(sums)
	_, err = twin.Predict(t.Context(), &twin.PredictConfig{
		Cluster: c, Population: p, Sink: s, Stream: true, Exact: true,
		Steps: []twin.Step{{Users: p.Groups(), Duration: p.Span() + time.Hour, Drain: time.Hour}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Replayed against a cache that never forgets, the conversation trace finds again
// exactly what inspecting it says, and every request starts when it should.
func TestMooncakeOnTheTwin(t *testing.T) {
	tr, err := trace.Load("testdata/published/mooncake_conversation.jsonl.gz", trace.Options{}, trace.Selection{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := trace.NewReplay(tr, trace.ReplayOptions{Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	s := predict(t, p, 512)
	b := tr.Summary.Blocks
	if s.n != int64(len(tr.Records)) || s.bad > 0 {
		t.Fatalf("%d of %d requests, %d not ok", s.n, len(tr.Records), s.bad)
	}
	if s.cached != b.HitTokens || s.prompt != b.InputTokens {
		t.Errorf("%d of %d prompt tokens were found, want %d of %d", s.cached, s.prompt, b.HitTokens, b.InputTokens)
	}
	t.Logf("hit rate %.4f of tokens, %.4f of blocks", float64(s.cached)/float64(s.prompt), b.HitRate)
	if s.late != 0 {
		t.Errorf("a request started %d ns late", s.late)
	}
	starts := map[int64]int{}
	for i := range tr.Records {
		starts[tr.Records[i].At]++
	}
	for _, at := range s.scheduled {
		starts[at]--
	}
	for at, n := range starts {
		if n != 0 {
			t.Errorf("%d requests too few at %d ns", n, at)
		}
	}
}

func TestAzureOnTheTwin(t *testing.T) {
	for _, name := range []string{"code", "conv"} {
		tr, err := trace.Load("testdata/published/azure_2023_"+name+".csv.gz", trace.Options{}, trace.Selection{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := trace.NewReplay(tr, trace.ReplayOptions{Speed: 2})
		if err != nil {
			t.Fatal(err)
		}
		s := predict(t, p, 16)
		var in, out int64
		for i := range tr.Records {
			in += int64(tr.Records[i].Input)
			out += int64(tr.Records[i].Output)
		}
		if s.n != int64(len(tr.Records)) || s.bad > 0 || s.prompt != in || s.output != out || s.cached != 0 || s.late != 0 {
			t.Errorf("%s: %+v, want %d requests of %d and %d tokens, none found again, none late", name, s.n, len(tr.Records), in, out)
		}
	}
}
