package report

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"plimsoll/internal/record"
	"plimsoll/internal/scenario"
	"plimsoll/internal/stats"
)

// TestOddRuns: whatever a run consists of, its report has no figure of nothing, no table
// without a row and no line beyond the margin.
func TestOddRuns(t *testing.T) {
	each := func(n int, change func(i int, r *record.Request)) []*record.Request {
		var rs []*record.Request
		for i := range n {
			r := answer(uint64(i), int64(i)*500*ms, 50*ms, 10*ms, 8)
			change(i, r)
			rs = append(rs, r)
		}
		return rs
	}
	whole := func(r *record.Request) {
		r.Streamed, r.AskedStream, r.Events = false, false, nil
		r.FirstToken, r.FirstContent, r.LastToken = record.Unset, record.Unset, record.Unset
		r.StreamedTokens, r.FirstEventTokens = record.Unknown, record.Unknown
	}
	for name, rs := range map[string][]*record.Request{
		"nothing":     nil,
		"one request": each(1, func(int, *record.Request) {}),
		"all cancelled": each(20, func(_ int, r *record.Request) {
			at := r.Scheduled
			r.Reset()
			r.Phase, r.Workload, r.Scheduled, r.Start, r.End, r.Status = record.Steady, "synthetic", at, at, at+20*ms, record.Cancelled
		}),
		"warm-ups only": each(20, func(_ int, r *record.Request) { r.Phase = record.Warmup }),
		"one of two workloads failed": each(20, func(i int, r *record.Request) {
			if r.Workload = "a"; i%2 == 0 {
				*r = *broken(r.ID, r.Scheduled, record.Overloaded)
				r.Workload = "b"
			}
		}),
		"several choices": each(20, func(_ int, r *record.Request) { r.Events[1].Choice = 1 }),
		"embeddings": each(20, func(_ int, r *record.Request) {
			whole(r)
			r.Output, r.AskedOutput, r.TextBytes, r.Source = record.Unknown, 0, 0, record.SourceNone
		}),
		"whole answers": each(20, func(_ int, r *record.Request) { whole(r) }),
	} {
		in, _ := closed(1)
		in.Limits = []scenario.Limit{{Metric: "ttft", Stat: "p95", Value: time.Second}, {Metric: "tpot", Stat: "mean", Value: time.Second}}
		s := stats.Summarize(in, slices.Values(rs))
		var b bytes.Buffer
		if err := Text(&b, &Run{Summary: s}); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		lines := strings.Split(text, "\n")
		for i, l := range lines {
			if utf8.RuneCountInString(l) > Width {
				t.Errorf("%s: %d columns: %s", name, utf8.RuneCountInString(l), l)
			}
			if strings.HasSuffix(l, " max") || strings.HasSuffix(l, " min") {
				if i+1 >= len(lines) || !strings.HasPrefix(lines[i+1], "  ") {
					t.Errorf("%s: a table without a row: %s", name, l)
				}
			}
		}
		for _, bad := range []string{"NaN", "Inf", "<nil>", "%!"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s: the report has %s:\n%s", name, bad, text)
			}
		}
		if _, err := s.Marshal(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, r := range rs {
			if _, err := json.Marshal(NewRow(r)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if s.Requests.OK == 0 && !strings.Contains(text, "INVALID: these figures cannot be used") {
			t.Errorf("%s: nothing was measured, and the report does not say so:\n%s", name, text)
		}
	}
}
