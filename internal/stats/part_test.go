package stats

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// The distribution of values that are not kept is that of values that are.
func TestAscendingIsTheDistribution(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-1e12, 1e12), 0, 3000).Draw(t, "values")
		slices.Sort(values)
		var samples []sample
		a := NewAscending(int64(len(values)))
		for _, v := range values {
			samples = append(samples, sample{v: v})
			a.Add(v)
		}
		want := distOfSorted(samples, perMS, blocking{})
		if diff := cmp.Diff(want, a.Dist(perMS), cmpopts.IgnoreFields(Dist{}, "Std")); diff != "" {
			t.Fatalf("(-kept +not kept):\n%s", diff)
		}
	})
}
