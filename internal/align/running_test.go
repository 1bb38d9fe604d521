package align

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/internal/run"
	"plimsoll/internal/signal"
)

// replay gives the samples of m to a Running a quarter of a second at a time, as
// they would have come, and returns the rows.
func replay(m *memory, sources []Source, until int64, busy func(int64) bool) []run.TimelineRow {
	r := NewRunning(time.Unix(1_700_000_000, 0), sec, sec)
	r.Sources(sources)
	for _, d := range m.series {
		r.Declare(d)
	}
	samples := slices.Clone(m.samples)
	slices.SortStableFunc(samples, func(a, b signal.Sample) int { return cmp.Compare(a.End, b.End) })
	var rows []run.TimelineRow
	for now := int64(0); now <= until; now += sec / 4 {
		n := 0
		for n < len(samples) && samples[n].End <= now {
			n++
		}
		r.Add(now, samples[:n])
		samples = samples[n:]
		rows = r.Rows(now, busy, rows)
	}
	return rows
}

// TestRunningSaysWhatBuildSays compares the two on samples that are read on a grid, with readings
// that are missing and servers that start anew.
func TestRunningSaysWhatBuildSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const seconds = 40
		sources := []Source{{Name: "a"}, {Name: "b"}, {Name: "me", Client: true}}
		var m memory
		for s := range sources {
			totals := map[signal.Series]float64{}
			declare := func(d signal.Series) signal.Series { d.Source = s; m.Declare(d); return d }
			labels := []string{"engine=0", "engine=1"}[:rapid.IntRange(1, 2).Draw(t, "engines")]
			up := declare(signal.Series{Signal: signal.ScrapeUp})
			missed, late := 0, rapid.Int64Range(2*ms, 90*ms).Draw(t, "late")
			for k := range seconds {
				at := int64(k)*sec + late
				// Good readings first, before which nobody knows what is usual; and no more missing than are waited for.
				if k > 2 && missed < 2 && rapid.IntRange(0, 9).Draw(t, "missed") == 0 {
					missed++
					continue
				}
				missed = 0
				for _, l := range labels {
					restart := k > 2 && rapid.IntRange(0, 19).Draw(t, "restart") == 0
					add := func(d signal.Series, by float64) {
						if d.Labels = l; restart {
							totals[d] = 0
						}
						totals[d] += by
						m.say(at, declare(d), totals[d])
					}
					n := float64(rapid.IntRange(0, 9).Draw(t, "n"))
					m.say(at, declare(signal.Series{Signal: signal.RequestsRunning, Labels: l}), n)
					m.say(at, declare(signal.Series{Signal: signal.KVCacheUsage, Labels: l}), n/10)
					add(signal.Series{Signal: signal.GenerationTokens}, 1+100*n)
					add(signal.Series{Signal: signal.PrefixCacheHits}, n)
					add(signal.Series{Signal: signal.PrefixCacheQueries}, 2*n+1)
					add(signal.Series{Signal: signal.QueueTime, Field: signal.TotalSum}, n/4)
					add(signal.Series{Signal: signal.QueueTime, Field: signal.TotalCount}, n)
					add(signal.Series{Signal: signal.QueueTime, Field: signal.TotalBucket, Bound: 0.25}, n)
				}
				m.say(at, up, 1)
			}
		}
		// The client has requests in flight all the time, so that no gauge only stands still.
		in := Input{Step: sec, Samples: &m, Sources: sources, Start: time.Unix(1_700_000_000, 0), Run: steady(0, seconds*sec), Requests: requests(request(0, 0, sec, seconds*sec, 3))}
		var want []run.TimelineRow
		in.Rows = func(rows []run.TimelineRow) error {
			for _, r := range rows {
				if r.Signal[:min(7, len(r.Signal))] != "client." {
					want = append(want, r)
				}
			}
			return nil
		}
		if _, err := Build(in); err != nil {
			t.Fatal(err)
		}
		got := replay(&m, sources, (seconds+10)*sec, func(int64) bool { return true })

		type key struct {
			T                            int64
			Signal, Stat, Source, Labels string
		}
		index := func(rows []run.TimelineRow) map[key]float64 {
			out := map[key]float64{}
			for _, r := range rows {
				k := key{r.T, r.Signal, r.Stat, r.Source, r.Labels}
				if _, twice := out[k]; twice {
					t.Fatalf("two rows for %+v", k)
				}
				// The ends are where a first look at everything knows better.
				if r.T >= 3*sec && r.T < (seconds-4)*sec {
					out[k] = r.Value
				}
			}
			return out
		}
		a, b := index(got), index(want)
		for k, v := range b {
			if x, ok := a[k]; !ok || !near(x, v) {
				t.Fatalf("%+v is %v (%v), and %v in the end", k, x, ok, v)
			}
		}
		for k, v := range a {
			if _, ok := b[k]; !ok {
				t.Fatalf("%+v is %v, and nothing in the end", k, v)
			}
		}
		if len(b) < 100 {
			t.Fatalf("only %d rows are compared", len(b))
		}
	})
}
