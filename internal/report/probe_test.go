package report

import (
	"strings"
	"testing"

	"plimsoll/internal/run"
	"plimsoll/internal/stats"
)

// What a probe came to stands below the report, within its columns, whatever the
// texts hold: each figure with its interval, a mark where it is not clean, and the
// rungs.
func TestProbeIsPrinted(t *testing.T) {
	x := func(v float64) *float64 { return &v }
	p := &run.Probe{
		Probe: "kv/capacity", Question: "How many tokens " + strings.Repeat("and more ", 20) + "?",
		X: run.ProbeAxis{Name: "users", Unit: "users"}, Y: run.ProbeAxis{Name: "tpot", Unit: "ms"},
		Fits: []run.ProbeFit{
			{Name: "kv capacity", Value: x(451394), Lo: x(451000), Hi: x(455776), Unit: "tokens", Text: strings.Repeat("what it means ", 30), OK: true},
			{Name: "hit rate", Value: x(12.3), Unit: "%", Text: "not what was declared", OK: false},
			{Name: "a name that is longer than there is room for it in a column", Text: "there is none\x1b[31m"},
		},
		Points: []run.ProbePoint{{X: 64, Y: 8.5, Lo: x(8.25), Hi: x(8.75), Series: "one at a time", N: 1000}, {X: 128, Y: 9, Series: "a series of a long name indeed", N: 2}},
		Notes:  []string{"evidence: " + strings.Repeat("this and that ", 20)},
	}
	for i := range 100 {
		p.Points = append(p.Points, run.ProbePoint{X: float64(i), Y: 1, Series: "long", N: 1})
	}
	var b strings.Builder
	if err := Text(&b, &Run{Summary: &stats.Summary{}, Probe: p}); err != nil {
		t.Fatal(err)
	}
	out := b.String()
	for i, line := range strings.Split(out, "\n") {
		if n := len([]rune(line)); n > Width {
			t.Errorf("line %d has %d columns: %s", i+1, n, line)
		}
	}
	for _, want := range []string{
		"PROBE      kv/capacity: How many tokens", "451k tokens  [451k to 456k]\n", "12.3 %  !\n", "  -\n", "rungs: x is users; y is tpot, ms",
		"one at a time", "8.25        8.75   1,000\n", "  - evidence: this and that", "and 85 in between, which",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the report lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Error("a text reached the terminal as it is")
	}
	if n := strings.Count(out, "  long "); n != 15 {
		t.Errorf("%d of 100 rungs are printed", n)
	}
	b.Reset()
	if err := Text(&b, &Run{Summary: &stats.Summary{}}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "PROBE") {
		t.Error("a run that is no probe has one")
	}
}
