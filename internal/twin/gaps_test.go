package twin

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plimsoll/internal/histogram"
)

// gapSink counts the gaps of answers in some histograms, both ways.
type gapSink struct {
	of               func(f *Finished) int // which one, below 0 for none
	together, one    []histogram.Histogram
	tokens, untimely int
}

func (s *gapSink) Record(f *Finished) {
	if n := f.Tokens(); n != len(f.Times()) {
		s.untimely++
	}
	s.tokens += f.Tokens()
	if i := s.of(f); i >= 0 {
		f.CountGaps(&s.together[i])
		s.one[i].RecordGaps(f.Times())
	}
}

// Gaps that are counted by pieces of many answers are those of each answer.
func TestGapsCountedTogether(t *testing.T) {
	tokens, ctx := 0, t.Context()
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawScenario(t)
		cfg.Stream = true
		const most = 4
		n := rapid.IntRange(1, most).Draw(t, "histograms")
		each := rapid.Uint64Range(1, 40).Draw(t, "requests in a row")
		left := rapid.Bool().Draw(t, "some are not counted")
		s := &gapSink{together: make([]histogram.Histogram, n), one: make([]histogram.Histogram, n)}
		s.of = func(f *Finished) int {
			if left && f.Request.ID%5 == 0 {
				return -1
			}
			return int(f.Request.ID / each % uint64(n))
		}
		cfg.Sink = s
		if _, err := Predict(ctx, cfg); err != nil {
			t.Fatal(err)
		}
		for i := range s.one {
			if diff := cmp.Diff(s.one[i].Buckets(), s.together[i].Buckets()); diff != "" || s.one[i].String() != s.together[i].String() {
				t.Fatalf("histogram %d, one by one %v, together %v:\n%s", i, &s.one[i], &s.together[i], diff)
			}
		}
		if s.untimely > 0 {
			t.Fatalf("%d answers have not as many times as tokens", s.untimely)
		}
		tokens += s.tokens
	})
	if tokens == 0 {
		t.Error("no token was streamed")
	}
}

// countingSink is what a summary needs of the tokens.
type countingSink struct{ gaps histogram.Histogram }

func (s *countingSink) Record(f *Finished) { f.CountGaps(&s.gaps) }

// Tokens cost what their steps do, not each on its own: a request of 16 times the
// tokens has the same events, and 64 answers share the gaps.
func TestTokensShareTheirCost(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector has costs of its own")
	}
	const requests = 6400
	serve := func(output int) func() {
		return func() {
			s := new(countingSink)
			predict(t, &PredictConfig{
				Cluster: testCluster(t, ClusterConfig{}), Population: synthetic(512, output), Sink: s, Stream: true, Exact: true,
				Steps: []Step{{Users: 64, Requests: requests, Drain: time.Hour}},
			})
			if n := s.gaps.Count(); n != uint64(requests*(output-1)) {
				t.Fatalf("%d gaps of %d tokens", n, output)
			}
		}
	}
	if many := timesAsLong(serve(64), serve(1024)); many > 5 {
		t.Errorf("a request of 1,024 tokens costs %.1f times one of 64", many)
	} else {
		t.Logf("a request of 1,024 tokens costs %.2f times one of 64", many)
	}
}
