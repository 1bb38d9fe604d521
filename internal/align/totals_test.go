package align

import (
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/signal"
	"plimsoll/internal/stats"
)

// courses are samples, one batch for each time.
type courses struct {
	series []signal.Series
	values [][]float64 // by time, by series; -1 for no reading
}

func (c *courses) Series() []signal.Series { return c.series }

func (c *courses) All() iter.Seq[[]signal.Sample] {
	return func(yield func([]signal.Sample) bool) {
		for at, row := range c.values {
			var batch []signal.Sample
			for i, v := range row {
				if v >= 0 {
					batch = append(batch, signal.Sample{Series: int32(i), Start: int64(at), End: int64(at), Value: v})
				}
			}
			if !yield(batch) {
				return
			}
		}
	}
}

func TestTotals(t *testing.T) {
	sources := []Source{{Name: "a"}, {Name: "b"}, {Name: "prometheus", Relayed: true}, {Name: "localhost", Client: true}}
	c := &courses{series: []signal.Series{
		{Source: 0, Signal: signal.PromptTokens, Labels: "engine=0"},
		{Source: 0, Signal: signal.PromptTokens, Labels: "engine=1"},
		{Source: 1, Signal: signal.PromptTokens},
		{Source: 2, Signal: signal.PromptTokens}, // says what a and b say
		{Source: 2, Signal: signal.GenerationTokens},
		{Source: 0, Signal: signal.TTFT, Field: signal.TotalSum},
		{Source: 0, Signal: signal.TTFT, Field: signal.TotalCount},
		{Source: 0, Signal: signal.TTFT, Field: signal.TotalBucket, Bound: 1},
		{Source: 0, Signal: signal.PrefixCacheHits},
		{Source: 0, Signal: signal.PrefixCacheQueries},
		{Source: 0, Signal: signal.SpecAcceptedTokens},
		{Source: 3, Signal: signal.HostCPU},
		{Source: 0, Signal: signal.E2E, Field: signal.TotalCount}, // without a sum
	}, values: [][]float64{
		{100, 10, 1000, 1110, 500, 5, 10, 9, 20, 100, 40, 1, 0},
		{150, -1, 1500, 1660, 700, 6, 12, 9, 30, 140, 90, 2, 1},
		{7, 20, 1500, 1527, 900, 7.5, 13, 9, 30, 150, 140, 3, 2}, // engine 0 began anew
		{9, -1, 1600, 1629, 900, 7.5, 13, 9, 30, 150, 140, 4, 3},
	}}
	got := Totals(c, sources)
	want := &stats.ServerInput{
		TTFT:         &stats.Mean{Sum: 2.5, Count: 3},
		PromptTokens: known(50 + 9 + 10 + 600),
		OutputTokens: known(400),
		// 10 of 50.
		PrefixHitRatio: known(0.2),
		// 400 tokens, of which 100 came with others.
		TokensPerStep: known(400.0 / 300),
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := Totals(&courses{series: []signal.Series{{Source: 0, Signal: signal.Power}}, values: [][]float64{{1}, {2}}}, sources); got != nil {
		t.Errorf("%+v of what counts nothing", got)
	}
	if got := Totals(nothing{}, nil); got != nil {
		t.Errorf("%+v of nothing", got)
	}
}
