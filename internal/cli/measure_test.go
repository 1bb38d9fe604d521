package cli

import (
	"errors"
	"testing"

	"plimsoll/internal/conduct"
	"plimsoll/internal/load"
	"plimsoll/internal/stats"
)

// TestExitCode: the first of 130, 1, 4, 3, 0 that applies.
func TestExitCode(t *testing.T) {
	f := func(want int, stopped load.StopReason, ok int64, v stats.Verdict, slo *stats.SLO) {
		t.Helper()
		r := &conduct.Result{Stopped: stopped, Summary: &stats.Summary{SLO: slo}}
		r.Summary.Requests.OK, r.Summary.Run.Verdict = ok, v
		if got := codeOf(r); got != want {
			t.Errorf("%v, %d ok, %s, %+v: exit code %d, want %d", stopped, ok, v, slo, got, want)
		}
	}
	met, missed, unmeasured := &stats.SLO{Met: new(true)}, &stats.SLO{Met: new(false)}, &stats.SLO{}
	f(0, load.Completed, 9, stats.Valid, nil)
	f(0, load.Completed, 9, stats.Valid, met)
	f(0, load.Completed, 9, stats.Valid, unmeasured) // a limit that nothing was measured for is no miss
	f(3, load.Completed, 9, stats.Valid, missed)
	f(4, load.Completed, 9, stats.ClientBound, missed)
	f(4, load.Completed, 9, stats.Invalid, met)
	f(1, load.Completed, 0, stats.Invalid, missed)
	f(4, load.TokenLimit, 9, stats.Invalid, nil)
	f(1, load.ErrorShare, 9, stats.Invalid, missed)
	f(1, load.KeyRefused, 0, stats.Invalid, nil)
	f(1, load.PathRefused, 9, stats.Valid, nil)
	f(130, load.Interrupted, 0, stats.Invalid, missed)
	f(130, load.Interrupted, 9, stats.Valid, nil)

	full := &conduct.Result{Stopped: load.Interrupted, Broken: errors.New("disk full"), Summary: new(stats.Summary)}
	full.Summary.Run.Verdict = stats.Valid
	if got := codeOf(full); got != 1 {
		t.Errorf("nothing kept: exit code %d, want 1", got)
	}
	full.Summary.Requests.OK = 9
	if got := codeOf(full); got != 4 {
		t.Errorf("not all kept: exit code %d, want 4", got)
	}
}
