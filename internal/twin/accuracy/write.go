package accuracy

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// write prints the report: what was done, the groups that count, those that do
// not, and the medians as the last line.
func (rep *Report) write(w io.Writer, rows int, took time.Duration) {
	fmt.Fprintf(w, "# %d rows read; counted are: %s.\n", rows, Filter)
	fmt.Fprintf(w, "# Lengths of aic: rows are uniform from 0.8 to 1.0 of the nominal where the mean of the row says so, else within 5 %% of the mean;\n# those of other rows are all equal.\n")
	fmt.Fprintf(w, "# Requests take the way around the engine that its profile says: API process, tokenization, detokenization.\n")
	fmt.Fprintf(w, "# A closed loop starts all users at once and makes 10 requests per user; an open loop sends at even distances, with the source's cap of sessions.\n")
	fmt.Fprintf(w, "# Constants are the catalogue's. Only the overhead per step (oh, us) may be chosen, of %v, and only by the TPOT of the other dense groups of the\n", candidates)
	fmt.Fprintf(w, "# same engine profile (*): when there are %d of them or more, none with more than two thirds of their rows, and they gain more than 0.5 points. Else it is the\n", minOthers)
	fmt.Fprintf(w, "# catalogue's. No group's own rows choose anything for it: leave one group out.\n")
	fmt.Fprintf(w, "# Errors are medians of |twin/measured - 1| in %%, the signed median in brackets. E2E is TTFT + TPOT x (OSL-1) where the file has none.\n")
	print := func(g *Group) {
		star := " "
		if g.Chosen {
			star = "*"
		}
		out := ""
		if len(g.Out) > 0 {
			out = "  left out: " + reasons(g.Out)
		}
		fmt.Fprintf(w, "%-74s rows=%-3d of %-3d oh=%4.0f%s tpot=%5.1f (%+5.1f) ttft=%5.1f (%+6.1f) e2e=%5.1f (%+5.1f)%s\n", g.Key, g.Used, g.Rows, g.Overhead, star,
			100*g.TPOT, 100*g.TPOTBias, 100*g.TTFT, 100*g.TTFTBias, 100*g.E2E, 100*g.E2EBias, out)
	}
	groups := slices.Clone(rep.Groups)
	slices.SortFunc(groups, func(a, b *Group) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	fmt.Fprintf(w, "\n# dense groups, counted\n")
	var bad []*Group
	for _, g := range groups {
		if g.Counts() {
			print(g)
			if !(g.TPOT <= 0.12 && g.E2E <= 0.12 && g.TTFT <= 0.25) {
				bad = append(bad, g)
			}
		}
	}
	// A group that was not run, as mixtures of low confidence are not, has no errors.
	shown := func(g *Group) bool { return g.Used > 0 && len(g.byOverhead) > 0 }
	fmt.Fprintf(w, "\n# mixture-of-experts groups: they need calibration, and have no target\n")
	for _, g := range groups {
		if g.Class == "moe" && shown(g) {
			print(g)
		}
	}
	// What of dense groups does not count, too: nobody should have to ask whether a
	// device or an engine was left out or was not there.
	fmt.Fprintf(w, "\n# dense groups of fewer than %d rows, not counted\n", minRows)
	for _, g := range groups {
		if g.Class == "dense" && !g.Low && shown(g) && !g.Counts() {
			print(g)
		}
	}
	fmt.Fprintf(w, "\n# dense groups of confidence C or D, not counted: what is wrong with them stands in the notes of the rows\n")
	for _, g := range groups {
		if g.Class == "dense" && g.Low && shown(g) {
			print(g)
		}
	}
	fmt.Fprintf(w, "\n# groups of which nothing is shown\n")
	for _, g := range groups {
		if !shown(g) {
			why := g.Class
			if why == "dense" {
				why = "no rows left"
			}
			if g.Low {
				why += ", confidence C or D"
			}
			if len(g.Out) > 0 {
				why += "; " + reasons(g.Out)
			}
			fmt.Fprintf(w, "%-74s rows=%-3d %s\n", g.Key, g.Rows, why)
		}
	}
	if len(rep.Skipped) > 0 {
		fmt.Fprintf(w, "# rows in no group: %s\n", reasons(rep.Skipped))
	}
	fmt.Fprintf(w, "\n# bad groups (TPOT or E2E above 12 %%, or TTFT above 25 %%): %d\n", len(bad))
	slices.SortStableFunc(bad, func(a, b *Group) int { return cmp.Compare(b.TPOT+b.E2E+b.TTFT, a.TPOT+a.E2E+a.TTFT) })
	for _, g := range bad {
		print(g)
	}
	tpot, ttft, e2e, n := rep.Medians()
	fmt.Fprintf(w, "# took %.1f s\n", took.Seconds())
	fmt.Fprintf(w, "median_ape tpot=%.3f ttft=%.3f e2e=%.3f groups=%d\n", tpot, ttft, e2e, n)
}

// reasons writes counts by reason, in order of the reasons.
func reasons(m map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%d %s", m[k], k))
	}
	return strings.Join(parts, ", ")
}
