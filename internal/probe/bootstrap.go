package probe

import (
	"math"
	"math/rand/v2"
	"slices"
)

// draws is the number of resamples of a bootstrap.
const draws = 999

// bootstrap is a figure of the medians of groups. Its interval is that of the figure
// over resamples of the members of each group, from a fixed seed, so that equal
// records have equal intervals. The resampled median of a group is moved away from
// the group's by what few members make it too near: the root of n / (n-1), and
// Student's quantile over the normal one.
func bootstrap(groups [][]float64, of func(medians []float64) float64) estimate {
	least := math.MaxInt
	mid, own, wide := make([]float64, len(groups)), make([]float64, len(groups)), make([]float64, len(groups))
	sorted := make([][]float64, len(groups))
	for i, g := range groups {
		if len(g) == 0 {
			return unknown
		}
		least = min(least, len(g))
		sorted[i] = slices.Sorted(slices.Values(g))
		own[i] = middle(sorted[i])
		if n := float64(len(g)); n > 1 {
			wide[i] = math.Sqrt(n/(n-1)) * studentT((1+confidence)/2, n-1) / normal((1+confidence)/2)
		}
	}
	copy(mid, own)
	value := of(mid)
	e := estimate{value, math.NaN(), math.NaN()}
	if least < 3 || math.IsInf(value, 0) || math.IsNaN(value) {
		return e
	}
	r := rand.New(rand.NewPCG(uint64(len(groups)), draws))
	all := make([]float64, 0, draws)
	for range draws {
		for i, g := range sorted {
			mid[i] = own[i] + wide[i]*(resampledMedian(g, r)-own[i])
		}
		if v := of(mid); !math.IsNaN(v) {
			all = append(all, v)
		}
	}
	slices.Sort(all)
	if len(all) < draws*9/10 {
		return e
	}
	cut := int((1 - confidence) / 2 * float64(len(all)))
	e.lo, e.hi = min(value, all[cut]), max(value, all[len(all)-1-cut])
	return e
}

func middle(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// resampledMedian is the median of as many members as there are, drawn with
// replacement: the member at the middle rank of as many ranks, drawn.
func resampledMedian(sorted []float64, r *rand.Rand) float64 {
	n := len(sorted)
	if n > 200 {
		// The middle rank of so many is normal: no need to draw them all.
		k := float64(n)/2 + r.NormFloat64()*math.Sqrt(float64(n))/2
		return sorted[min(max(int(k), 0), n-1)]
	}
	ranks := make([]int, n)
	for range n {
		ranks[r.IntN(n)]++
	}
	// The two ranks in the middle of the drawn ones.
	a, b, seen := -1, -1, 0
	for i, k := range ranks {
		seen += k
		if a < 0 && seen > (n-1)/2 {
			a = i
		}
		if seen > n/2 {
			b = i
			break
		}
	}
	return (sorted[a] + sorted[b]) / 2
}
