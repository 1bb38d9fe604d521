package stats

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/record"
	"plimsoll/internal/scenario"
)

// words says whether a limit is met.
func words(met *bool) string {
	switch {
	case met == nil:
		return "not measured"
	case *met:
		return "met"
	}
	return "missed"
}

func limitsOf(t *testing.T, texts ...string) (out []scenario.Limit) {
	t.Helper()
	for _, s := range texts {
		l, err := scenario.ParseLimit(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, l)
	}
	return out
}

// turn is a request of a workload whose first token comes after ttft.
func turn(workload string, n uint32, start, ttft int64) *record.Request {
	r := streamed(start, ttft, ttft+10*ms)
	r.Workload, r.Turn, r.Session = workload, n, 1
	return r
}

// A workload is judged by its own limits, by turn and with the retrieval where it
// says so, and the run by them only where that is asked for.
func TestWorkloadLimits(t *testing.T) {
	in := window(10 * sec)
	in.Workloads = map[string]WorkloadLimits{
		"docs":   {First: limitsOf(t, "ttft.p95=800ms"), Later: limitsOf(t, "ttft.p95=200ms"), All: limitsOf(t, "tpot.p95=60ms")},
		"search": {All: limitsOf(t, "ttft.p50=500ms"), WithRetrieval: true},
		"gone":   {All: limitsOf(t, "e2e.max=1s")},
	}
	searched := turn("search", 0, sec, 300*ms)
	searched.RetrievalStart, searched.RetrievalEnd = sec-400*ms, sec // 700 ms with it
	quick := turn("search", 0, sec, 100*ms)
	quick.RetrievalStart, quick.RetrievalEnd = sec-400*ms, sec
	gaveUp := turn("search", 1, 2*sec, 0)
	gaveUp.Status, gaveUp.Events = record.Cancelled, nil
	gaveUp.Headers, gaveUp.FirstEvent, gaveUp.FirstToken, gaveUp.FirstContent, gaveUp.LastToken = record.Unset, record.Unset, record.Unset, record.Unset, record.Unset
	gaveUp.RetrievalStart, gaveUp.RetrievalEnd, gaveUp.End = 2*sec-450*ms, 2*sec, 2*sec+100*ms // had waited 550 ms
	rs := []*record.Request{
		turn("docs", 0, 0, 700*ms), turn("docs", 1, sec, 150*ms), turn("docs", 2, 2*sec, 300*ms),
		turn("plain", 0, 0, 900*ms), searched, quick, gaveUp,
	}
	want := func(name string, s *SLO, attainment float64, lines ...string) {
		t.Helper()
		if s == nil {
			t.Errorf("%s: no service levels", name)
			return
		}
		var got []string
		for _, l := range s.Limits {
			v := "null"
			if l.Value != nil {
				v = time.Duration(*l.Value * 1e6).String()
			}
			got = append(got, strings.TrimSpace(strings.Join([]string{l.Workload, l.Turn, l.Metric + "." + l.Stat, v, words(l.Met), map[bool]string{true: "with retrieval"}[l.WithRetrieval]}, " ")))
		}
		if diff := cmp.Diff(lines, got); diff != "" {
			t.Errorf("%s: limits (-want +got):\n%s", name, diff)
		}
		if math.IsNaN(attainment) {
			is(t, name+": attainment", s.Attainment, nil)
			is(t, name+": goodput", s.GoodputRPS, nil)
			return
		}
		is(t, name+": attainment", s.Attainment, &attainment)
	}
	s := summarize(in, rs...)
	if s.SLO != nil || s.Workloads["plain"].SLO != nil {
		t.Error("limits that nobody gave are judged")
	}
	want("docs", s.Workloads["docs"].SLO, 2.0/3, "first ttft.p95 700ms met", "later ttft.p95 300ms missed", "tpot.p95 10ms met")
	want("search", s.Workloads["search"].SLO, 1.0/3, "ttft.p50 700ms missed with retrieval")
	if !s.Workloads["docs"].SLO.Own || words(s.Workloads["docs"].SLO.Met) != "missed" {
		t.Errorf("docs: %+v", s.Workloads["docs"].SLO)
	}

	if s.Workloads["gone"] != nil {
		t.Error("a workload that nobody asked for and that never came is there")
	}

	in.WorkloadsCount = true
	in.Limits = limitsOf(t, "e2e.max=2s")
	in.Named = []string{"docs", "gone", "idle"}
	s = summarize(in, rs...)
	strict(t, s)
	// One that was asked for and never came: zeros, nulls and limits that nobody missed.
	want("gone", s.Workloads["gone"].SLO, math.NaN(), "e2e.max null not measured")
	want("idle", s.Workloads["idle"].SLO, math.NaN(), "e2e.max null not measured")
	if g := s.Workloads["idle"]; g.Requests.Scheduled != 0 || g.Latency.E2E.Count != 0 || g.Latency.E2E.Mean != nil || g.Tokens.Output != nil || *g.Load.OfferedRPS != 0 {
		t.Errorf("idle: %+v", g)
	}
	want("run", s.SLO, 4.0/7, "e2e.max 910ms met", "docs first ttft.p95 700ms met", "docs later ttft.p95 300ms missed", "docs  tpot.p95 10ms met",
		"gone  e2e.max null not measured", "search  ttft.p50 700ms missed with retrieval")
	want("plain", s.Workloads["plain"].SLO, 1, "e2e.max 910ms met")
	if words(s.SLO.Met) != "missed" || s.SLO.Own {
		t.Errorf("the run: %+v", s.SLO)
	}

	// At a rate ttft is what the user waits from the schedule on.
	in = window(10 * sec)
	in.RateDriven = true
	in.Workloads = map[string]WorkloadLimits{"search": {All: limitsOf(t, "ttft.p50=500ms"), WithRetrieval: true}}
	quick.Scheduled -= 150 * ms
	s = summarize(in, quick)
	want("search", s.Workloads["search"].SLO, 0, "ttft.p50 650ms missed with retrieval")
	if v, ok := TTFTWithRetrieval(quick); !ok || v != 500*ms {
		t.Errorf("ttft with retrieval is %d", v)
	}
}

// Case 170: what a server counts beyond the text of a prompt are its images, and
// nothing is known of them where it counts nothing.
func TestImagesCount(t *testing.T) {
	f := func(prompt, text, want int32, known bool) {
		t.Helper()
		r := streamed(0, 10*ms)
		r.Prompt, r.AskedText = prompt, text
		if n, ok := MediaTokens(r); n != want || ok != known {
			t.Errorf("prompt %d with %d of text: media %d, %v, want %d, %v", prompt, text, n, ok, want, known)
		}
	}
	f(894, 10, 884, true)
	f(record.Unknown, 10, 0, false)
	f(894, 0, 0, false) // no media
	f(8, 10, 0, false)  // the text was reckoned too long to tell
}
