package stats

import (
	"strings"
	"testing"

	"plimsoll/internal/record"
)

const ms, sec = int64(1e6), int64(1e9)

// window is an Input with one step from 0 to end.
func window(end int64) Input {
	return Input{ID: "x", Name: "x", Steps: []StepInput{{Users: 1, Start: 0, End: end, Complete: true}}}
}

// streamed returns an ok request of the steady window that was due and started
// at the given time and streamed one token at each of the given times after it.
func streamed(start int64, at ...int64) *record.Request {
	r := new(record.Request)
	r.Reset()
	r.Phase, r.Workload = record.Steady, "w"
	r.Scheduled, r.Start, r.Connected, r.Sent = start, start, start, start
	r.Streamed, r.AskedStream = true, true
	for _, t := range at {
		r.Events = append(r.Events, record.Event{At: start + t, Tokens: 1, Cumulative: record.Unknown, Channel: record.Content})
	}
	if n := len(at); n > 0 {
		r.Headers = start + at[0]
		r.FirstEvent, r.FirstToken, r.FirstContent = r.Headers, r.Headers, r.Headers
		r.LastToken, r.End = start+at[n-1], start+at[n-1]
		r.Output, r.StreamedTokens, r.FirstEventTokens = int32(n), int32(n), 1
		r.Source, r.Basis = record.SourceServer, record.BasisFirstEvent
	}
	return r
}

func summarize(in Input, rs ...*record.Request) *Summary {
	c := NewCollector(in)
	for _, r := range rs {
		c.Add(r)
	}
	return c.Summary()
}

func TestSummaryIsStrictJSON(t *testing.T) {
	s := summarize(window(sec), streamed(0, 100*ms, 200*ms))
	b, err := s.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), "NaN") {
		t.Errorf("NaN in %s", b)
	}
	if _, err := ParseSummary(b); err != nil {
		t.Error(err)
	}
	t.Logf("%s", b)
	sc, err := SummarySchema()
	t.Logf("%s %v", sc[:300], err)
}
