package align

import (
	"plimsoll/internal/signal"
	"plimsoll/internal/stats"
)

// Totals returns what the servers counted from the first reading of each series to
// its last, over all of them: what the client's own totals are compared with. It is
// nil when no engine counted anything. A counter that begins anew counts from 0.
func Totals(samples Samples, sources []Source) *stats.ServerInput {
	type total struct {
		last, sum float64
		any       bool
	}
	var totals []total
	for batch := range samples.All() {
		for i := range batch {
			s := &batch[i]
			for int(s.Series) >= len(totals) {
				totals = append(totals, total{})
			}
			t := &totals[s.Series]
			switch {
			case !t.any:
				t.any = true
			case s.Value < t.last:
				t.sum += s.Value
			default:
				t.sum += s.Value - t.last
			}
			t.last = s.Value
		}
	}
	series := samples.Series()
	of := func(i int) Source {
		if i < len(sources) {
			return sources[i]
		}
		return Source{}
	}
	// What a source states itself counts instead of what another hands on.
	direct := map[signal.ID]bool{}
	for i := range series {
		if o := of(series[i].Source); !o.Client && !o.handsOn(series[i].Signal) && i < len(totals) && totals[i].any {
			direct[series[i].Signal] = true
		}
	}
	sum := func(id signal.ID, field signal.Field) *float64 {
		var v *float64
		for i := range series {
			d, o := &series[i], of(series[i].Source)
			if d.Signal != id || d.Field != field || i >= len(totals) || !totals[i].any || o.Client || o.handsOn(id) && direct[id] {
				continue
			}
			if v == nil {
				v = new(float64)
			}
			*v += totals[i].sum
		}
		return v
	}
	mean := func(id signal.ID) *stats.Mean {
		s, n := sum(id, signal.TotalSum), sum(id, signal.TotalCount)
		if s == nil || n == nil {
			return nil
		}
		return &stats.Mean{Sum: *s, Count: *n}
	}
	out := &stats.ServerInput{
		TTFT: mean(signal.TTFT), TPOT: mean(signal.TPOT), E2E: mean(signal.E2E),
		PromptTokens: sum(signal.PromptTokens, signal.Value), OutputTokens: sum(signal.GenerationTokens, signal.Value),
	}
	share := func(part, whole signal.ID) *float64 {
		p, w := sum(part, signal.Value), sum(whole, signal.Value)
		if p == nil || w == nil || *w <= 0 {
			return nil
		}
		return known(*p / *w)
	}
	out.PrefixHitRatio = share(signal.PrefixCacheHits, signal.PrefixCacheQueries)
	// Each step of a sequence gives one token and those accepted of its draft.
	if accepted := sum(signal.SpecAcceptedTokens, signal.Value); accepted != nil && out.OutputTokens != nil && *out.OutputTokens > *accepted {
		out.TokensPerStep = known(*out.OutputTokens / (*out.OutputTokens - *accepted))
	}
	if *out == (stats.ServerInput{}) {
		return nil
	}
	return out
}
