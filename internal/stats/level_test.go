package stats

import (
	"strconv"
	"strings"
	"testing"

	"plimsoll/internal/record"
)

// A limit on what never happened, or cannot be, is neither met nor missed, and leaves
// attainment and goodput to the other limits.
func TestLimitsThatNothingWasMeasuredFor(t *testing.T) {
	oneToken := func(n int) (rs []*record.Request) {
		for i := range n {
			rs = append(rs, streamed(int64(i)*100*ms, 50*ms))
		}
		return rs
	}
	failed := func() *record.Request {
		r := streamed(sec)
		r.Status, r.Error, r.End = record.Failed, record.Overloaded, 2*sec
		return r
	}
	f := func(name string, limits string, rs []*record.Request, met, each, attainment string) {
		t.Helper()
		in := window(10 * sec)
		in.Limits = limitsOf(t, strings.Split(limits, ",")...)
		s := summarize(in, rs...)
		var got []string
		for _, l := range s.SLO.Limits {
			got = append(got, words(l.Met))
			if l.Met == nil && l.Value != nil {
				t.Errorf("%s: %s has a value without having been measured", name, l.Metric)
			}
		}
		share := "null"
		if a := s.SLO.Attainment; a != nil {
			share = strconv.FormatFloat(*a, 'f', 2, 64)
		}
		if words(s.SLO.Met) != met || strings.Join(got, ", ") != each || share != attainment {
			t.Errorf("%s: %s (%s), attainment %s, want %s (%s), %s", name, words(s.SLO.Met), strings.Join(got, ", "), share, met, each, attainment)
		}
		if (s.SLO.GoodputRPS == nil) != (attainment == "null") {
			t.Errorf("%s: goodput %v beside attainment %s", name, deref(s.SLO.GoodputRPS), share)
		}
		if strings.Contains(marshal(s), `"met": null`) != (strings.Contains(each, "not") || met == "not measured") {
			t.Errorf("%s: what was not measured is not null in JSON", name)
		}
		strict(t, s)
	}
	choices := streamed(0, 50*ms, 60*ms, 70*ms)
	choices.Events[1].Choice = 1
	whole := streamed(0, 50*ms)
	whole.Streamed, whole.Events, whole.FirstToken, whole.LastToken, whole.FirstContent = false, nil, record.Unset, record.Unset, record.Unset

	f("tpot of one token", "ttft.p95=100ms,tpot.p95=1ms,itl.p95=1ms", oneToken(10), "met", "met, not measured, not measured", "1.00")
	f("nothing but tpot of one token", "tpot.p95=1ms", oneToken(10), "not measured", "not measured", "null")
	f("tpot of several choices", "ttft.p95=10ms,tpot.max=1ms", []*record.Request{choices}, "missed", "missed, not measured", "0.00")
	f("ttft of whole answers", "ttft.p95=10ms,e2e.p95=1s", []*record.Request{whole}, "met", "not measured, met", "1.00")
	f("a failure says nothing of a figure that cannot be", "tpot.p95=1ms,ttft.mean=100ms", append(oneToken(9), failed()), "missed", "not measured, missed", "0.90")
	f("but everything where all failed", "tpot.p95=1ms", []*record.Request{failed()}, "missed", "missed", "0.00")
	f("no request", "ttft.p95=1s", nil, "not measured", "not measured", "null")
}

// Limits for turns that never came are not measured, in the workload as in the run.
func TestLimitsOfTurnsThatNeverCame(t *testing.T) {
	in := window(10 * sec)
	in.Workloads = map[string]WorkloadLimits{"docs": {First: limitsOf(t, "ttft.p95=800ms"), Later: limitsOf(t, "ttft.p95=200ms")}, "none": {All: limitsOf(t, "e2e.max=1s")}}
	in.WorkloadsCount = true
	s := summarize(in, turn("docs", 0, 0, 700*ms), turn("docs", 0, sec, 750*ms))
	for name, o := range map[string]*SLO{"the run": s.SLO, "docs": s.Workloads["docs"].SLO} {
		if words(o.Met) != "met" || words(o.Limits[0].Met) != "met" || words(o.Limits[1].Met) != "not measured" {
			t.Errorf("%s: %s of %+v", name, words(o.Met), o.Limits)
		}
		is(t, name+": attainment", o.Attainment, known(1))
	}
	if l := s.SLO.Limits[2]; words(l.Met) != "not measured" {
		t.Errorf("a workload without a share: %+v", l)
	}
}

// Over several steps a limit has the worst in which it was measured, for a workload as
// for the run.
func TestUnmeasuredStepsAreNotTheWorst(t *testing.T) {
	in := Input{Steps: []StepInput{{Users: 1, Start: 0, End: 10 * sec, Complete: true}, {Users: 2, Start: 10 * sec, End: 20 * sec, Complete: true}, {Users: 3, Start: 20 * sec, End: 30 * sec, Complete: true}}}
	in.Workloads = map[string]WorkloadLimits{"docs": {Later: limitsOf(t, "ttft.p95=200ms")}}
	in.WorkloadsCount = true
	var rs []*record.Request
	for i := range 12 {
		r := turn("docs", uint32(i/4%2), int64(i)*2500*ms, 100*ms) // later turns in the second step alone
		r.Step = uint32(i / 4)
		rs = append(rs, r)
	}
	s := summarize(in, rs...)
	if words(s.SLO.Met) != "met" || words(s.Steps[0].SLO.Met) != "not measured" || words(s.Steps[1].SLO.Met) != "met" {
		t.Errorf("the run %s, the first step %s, the second %s", words(s.SLO.Met), words(s.Steps[0].SLO.Met), words(s.Steps[1].SLO.Met))
	}
	is(t, "the only value", s.SLO.Limits[0].Value, known(100))
	rs[5].FirstToken += 900 * ms // one of four, and of twelve
	rs[5].End += 900 * ms
	s = summarize(in, rs...)
	for name, o := range map[string]*SLO{"the run": s.SLO, "docs": s.Workloads["docs"].SLO} {
		is(t, name, o.Limits[0].Value, known(1000))
	}
}
