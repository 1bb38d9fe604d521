package web

import (
	"net/http"
	"strings"

	"plimsoll/internal/detail"
	"plimsoll/internal/stats"
)

// Compared is one figure of several runs.
type Compared struct {
	Metric string `json:"metric"`
	Unit   string `json:"unit"`
	// Better is lower or higher, nil when neither is.
	Better *string    `json:"better"`
	Values []*float64 `json:"values"`
	// CI are 95 % intervals, nil where there is none or one of its ends is open.
	CI []*[2]float64 `json:"ci"`
	// Change is the difference to the first run as a share of its value.
	Change []*float64 `json:"change"`
	// Clear is true where the intervals of a run and the first lie apart, nil where
	// one of them has none.
	Clear []*bool `json:"clear"`
}

// comparison are the figures of several runs side by side.
type comparison struct {
	Runs []detail.RunRow `json:"runs"`
	Rows []Compared      `json:"rows"`
}

// figure is how to get a figure out of a summary, with its interval.
type figure struct {
	metric, unit, better string
	of                   func(*stats.Summary) (*float64, *[2]float64)
}

// latencies are the distributions of requests, by their names in the summary.
var latencies = []struct {
	name string
	of   func(*stats.Latency) *stats.Dist
}{
	{"ttft", func(l *stats.Latency) *stats.Dist { return l.TTFT }},
	{"ttft_from_schedule", func(l *stats.Latency) *stats.Dist { return l.TTFTFromSchedule }},
	{"ttfc", func(l *stats.Latency) *stats.Dist { return l.TTFC }},
	{"tpot", func(l *stats.Latency) *stats.Dist { return l.TPOT }},
	{"itl", func(l *stats.Latency) *stats.Dist { return l.ITL }},
	{"e2e", func(l *stats.Latency) *stats.Dist { return l.E2E }},
	{"e2e_from_schedule", func(l *stats.Latency) *stats.Dist { return l.E2EFromSchedule }},
}

// figures are what runs are compared by, in the order of a table.
func figures() []figure {
	const lower, higher = "lower", "higher"
	plain := func(metric, unit, better string, of func(*stats.Summary) *float64) figure {
		return figure{metric, unit, better, func(s *stats.Summary) (*float64, *[2]float64) { return of(s), nil }}
	}
	count := func(metric, better string, of func(*stats.Requests) int64) figure {
		return plain(metric, "", better, func(s *stats.Summary) *float64 { n := float64(of(&s.Requests)); return &n })
	}
	out := []figure{
		count("requests", "", func(q *stats.Requests) int64 { return q.Scheduled }),
		count("errors", lower, func(q *stats.Requests) int64 { return q.Error }),
		plain("error_share", "share", lower, func(s *stats.Summary) *float64 {
			if s.Requests.Scheduled == 0 {
				return nil
			}
			x := float64(s.Requests.Error) / float64(s.Requests.Scheduled)
			return &x
		}),
		plain("offered", "rps", "", func(s *stats.Summary) *float64 { return s.Load.OfferedRPS }),
		plain("achieved", "rps", "", func(s *stats.Summary) *float64 { return s.Load.AchievedRPS }),
		plain("completed", "rps", higher, func(s *stats.Summary) *float64 { return s.Load.CompletedRPS }),
		plain("goodput", "rps", higher, func(s *stats.Summary) *float64 {
			if s.SLO == nil {
				return nil
			}
			return s.SLO.GoodputRPS
		}),
		plain("attainment", "share", higher, func(s *stats.Summary) *float64 {
			if s.SLO == nil {
				return nil
			}
			return s.SLO.Attainment
		}),
		plain("output tokens", "1/s", higher, func(s *stats.Summary) *float64 { return s.Tokens.OutputPerS }),
		plain("prompt tokens", "1/s", "", func(s *stats.Summary) *float64 { return s.Tokens.PromptPerS }),
	}
	for _, l := range latencies {
		for _, st := range []struct {
			name string
			of   func(*stats.Dist) *float64
		}{
			{"mean", func(d *stats.Dist) *float64 { return d.Mean }},
			{"p50", func(d *stats.Dist) *float64 { return d.P50 }},
			{"p95", func(d *stats.Dist) *float64 { return d.P95 }},
			{"p99", func(d *stats.Dist) *float64 { return d.P99 }},
		} {
			out = append(out, figure{l.name + " " + st.name, "ms", lower, func(s *stats.Summary) (*float64, *[2]float64) {
				d := l.of(&s.Latency)
				if d == nil {
					return nil, nil
				}
				ci, ok := d.CI95[st.name]
				if !ok || ci[0] == nil || ci[1] == nil {
					return st.of(d), nil
				}
				return st.of(d), &[2]float64{*ci[0], *ci[1]}
			}})
		}
	}
	return append(out, plain("energy", "J/token", lower, func(s *stats.Summary) *float64 {
		if s.Energy == nil {
			return nil
		}
		return s.Energy.JPerOutputToken
	}))
}

// maxCompared bounds how many runs are compared at once.
const maxCompared = 8

func (s *Server) compare(w http.ResponseWriter, r *http.Request) error {
	ids := strings.Split(r.URL.Query().Get("runs"), ",")
	if len(ids) < 2 || len(ids) > maxCompared {
		p := wrong("runs", "want 2 to %d runs", maxCompared)
		p.Fix = "runs=ID,ID"
		return p
	}
	var sums []*stats.Summary
	runs := []detail.RunRow{}
	for _, id := range ids {
		o, err := s.open(w, id)
		if err != nil {
			return err
		}
		defer s.stores.release(o) // few
		row := s.row(id)
		if row == nil {
			return noRun(id)
		}
		sums, runs = append(sums, o.summary), append(runs, *row)
	}
	return writeJSON(w, http.StatusOK, comparison{runs, compareSummaries(sums)})
}

// compareSummaries lines up the figures of summaries, nil for a run without one. A
// figure that none has is left out.
func compareSummaries(sums []*stats.Summary) []Compared {
	rows := []Compared{}
	for _, f := range figures() {
		row := Compared{Metric: f.metric, Unit: f.unit}
		if f.better != "" {
			row.Better = &f.better
		}
		known := false
		for i, s := range sums {
			var v, change *float64
			var ci *[2]float64
			var clear *bool
			if s != nil {
				v, ci = f.of(s)
			}
			if i > 0 {
				change = changed(row.Values[0], v)
				if first := row.CI[0]; first != nil && ci != nil {
					apart := ci[0] > first[1] || ci[1] < first[0]
					clear = &apart
				}
			}
			known = known || v != nil
			row.Values, row.CI = append(row.Values, v), append(row.CI, ci)
			row.Change, row.Clear = append(row.Change, change), append(row.Clear, clear)
		}
		if known {
			rows = append(rows, row)
		}
	}
	return rows
}

// changed is the difference of v to the first as a share of that.
func changed(first, v *float64) *float64 {
	if first == nil || v == nil || *first == 0 {
		return nil
	}
	c := *v / *first - 1
	return &c
}
