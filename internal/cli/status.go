package cli

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"plimsoll/internal/detail"
	"plimsoll/internal/live"
	"plimsoll/internal/report"
)

// status is the block of run --live: what the snapshots of a run say, in lines
// below that of the progress.
type status struct {
	series map[int]detail.Series
	values map[string]float64 // by signal and stat, of all sources and workloads together
	bands  map[string]live.Band
	newest *live.Snapshot
	// courses are the last seconds of what is drawn, by the name of its line, NaN for
	// nothing.
	courses map[string][]float64
}

const (
	// statusLines is how many lines there are.
	statusLines = 9
	// courseWidth is how many seconds are drawn at the end of a line.
	courseWidth = 30
	// bandAge is for how many ms the figures of a second without newer ones are shown.
	bandAge = 10_000
)

func newStatus() *status {
	return &status{
		series: make(map[int]detail.Series), values: make(map[string]float64),
		bands: make(map[string]live.Band), courses: make(map[string][]float64),
	}
}

// add takes the next snapshot.
func (s *status) add(x *live.Snapshot) {
	s.newest = x
	for _, a := range x.Added {
		s.series[a.ID] = a
	}
	for _, c := range x.Cells {
		if a := s.series[c.Series]; a.Source == "" && a.Labels == "" && a.Workload == "" {
			s.values[a.Signal+" "+a.Stat] = c.Value
		}
	}
	fresh := make(map[string]bool)
	for _, b := range x.Bands {
		if b.Workload == "" && b.T >= s.bands[b.Figure].T {
			s.bands[b.Figure] = b
			fresh[b.Figure] = true
		}
	}
	course := func(name string, v float64, known bool) {
		if !known {
			v = math.NaN()
		}
		list := append(s.courses[name], v)
		s.courses[name] = list[max(0, len(list)-courseWidth):]
	}
	for _, name := range []string{"ttft", "tpot", "itl", "e2e"} {
		course(name, float64(s.bands[name].P95), fresh[name])
	}
	tokens, known := s.values["client.output_tokens rate"]
	course("tokens", tokens, known)
}

// blocks are the heights of a course.
var blocks = []rune("▁▂▃▄▅▆▇█")

// draw returns a course as long as there is room for, from nothing to its most.
func draw(list []float64) string {
	most := 0.0
	for _, v := range list {
		if v > most {
			most = v
		}
	}
	var b strings.Builder
	for _, v := range list {
		switch {
		case math.IsNaN(v):
			b.WriteByte(' ')
		case most <= 0:
			b.WriteRune(blocks[0])
		default:
			b.WriteRune(blocks[min(int(v/most*float64(len(blocks))), len(blocks)-1)])
		}
	}
	return b.String()
}

// lines returns the block, statusLines of fewer than 80 columns.
func (s *status) lines() []string {
	out := make([]string, 0, statusLines)
	line := func(name, course string, words ...string) {
		text := report.Pad(name, 10)
		for _, w := range words {
			if w == "" {
				continue
			}
			if len(text) > 10 {
				w = "  " + w
			}
			room := report.Width - 1
			if course != "" {
				room -= courseWidth + 1
			}
			if utf8.RuneCountInString(text)+utf8.RuneCountInString(w) > room {
				break // what matters less comes later
			}
			text += w
		}
		if course != "" {
			text = report.Pad(text, report.Width-1-courseWidth) + course
		}
		out = append(out, strings.TrimRight(text, " "))
	}
	value := func(key, word string, write func(float64) string) string {
		if v, ok := s.values[key]; ok {
			return write(v) + word
		}
		return ""
	}
	count := func(v float64) string { return report.Count(int64(math.Round(v))) }
	var h live.Header
	now := detail.Ms(0)
	if s.newest != nil {
		h, now = s.newest.Header, s.newest.T
	}
	line("load", "", report.Count(h.InFlight)+" in flight", value("client.waiting_first_token value", " of them without a token", count),
		report.Plural(h.Users, "user"), report.Plural(h.Sessions, "session"))
	goodput, share := "", ""
	if h.GoodputRPS != nil {
		goodput = report.Figure(*h.GoodputRPS) + "/s good"
	}
	if h.FailureShare != nil && h.Failures > 0 {
		share = report.Percent(*h.FailureShare) + " of the last"
	}
	line("requests", "", value("client.requests_sent rate", "/s sent", report.Figure), value("client.requests_ok rate", "/s ok", report.Figure), goodput,
		report.Count(h.Failures)+" failed", share)
	for _, name := range []string{"ttft", "tpot", "itl", "e2e"} {
		text := "-"
		if b, ok := s.bands[name]; ok && now-b.T <= bandAge {
			ms := func(v detail.Ms) string { return report.Figure(float64(v)) }
			text = "p50 " + ms(b.P50) + "  p95 " + ms(b.P95) + "  max " + ms(b.Max) + " ms"
		}
		line(name, draw(s.courses[name]), text)
	}
	line("tokens", draw(s.courses["tokens"]), value("client.output_tokens rate", "/s out", report.Figure), value("client.prompt_tokens rate", "/s in", report.Figure))
	server := []string{
		value("requests_running value", " running", count), value("requests_waiting value", " waiting", count),
		value("kv_cache_usage value", " of kv used", report.Percent), value("prefix_cache_hit_ratio value", " of prefixes cached", report.Percent),
	}
	if !slices.ContainsFunc(server, func(w string) bool { return w != "" }) {
		server = []string{"says nothing"}
	}
	line("server", "", server...)
	lag := func(v float64) string { return report.Figure(v*1e3) + " ms" }
	line("client", "", value("client.send_lag p99", " send lag p99", lag), value("client.canary_lag p99", " canary's lag p99", lag), value("client.cpu value", " of its cores", report.Percent))
	return out
}

// tellMark says what a mark is about in one line, "" when the lines show it
// anyway.
func tellMark(m *detail.Mark) string {
	if m.Kind == "phase" || m.Kind == "step" {
		return ""
	}
	at := report.Seconds(float64(m.T) / 1e3)
	if m.To != nil {
		return report.Seconds(float64(*m.To)/1e3) + ": no longer: " + m.Text
	}
	return at + ": " + m.Text
}
