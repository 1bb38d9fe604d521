package twin

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Whatever is still known of recent steps is what their pieces say, step by step.
func TestRecent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r recent
		var pieces []piece
		step, at, api := rapid.Int64Range(1, 1000).Draw(t, "step"), 1e6, 0.0
		hits := 0
		for range rapid.IntRange(1, 40).Draw(t, "pieces") {
			p := piece{
				step: step, n: rapid.Int64Range(1, 1200).Draw(t, "n"), start: at,
				first:  rapid.Float64Range(1e4, 1e6).Draw(t, "first"),
				growth: rapid.Float64Range(-20, 20).Draw(t, "growth"),
				before: api, cost: rapid.SampledFrom([]float64{0, 1e3, 3e5}).Draw(t, "cost"),
			}
			if rapid.IntRange(0, 5).Draw(t, "apart") == 0 {
				p.step, p.n, p.apart = step-1, 1, true
			} else {
				step += p.n
			}
			at = p.end(p.n)
			api = max(api, p.sent(p.n))
			pieces = append(pieces, p)
			r.add(pieces[len(pieces)-1:])

			first := rapid.Int64Range(max(step-900, 1), step).Draw(t, "first step")
			last := rapid.Int64Range(first, step+2).Draw(t, "last step")
			got, ok := r.appendTimes([]int64{7}, first, last)
			if !ok {
				continue
			}
			hits++
			in := instance{past: pieces}
			if diff := cmp.Diff(in.appendTimes([]int64{7}, first, last, maxKV), got); diff != "" {
				t.Fatalf("steps %d to %d (-pieces +recent):\n%s", first, last, diff)
			}
			if int64(len(got)) != last-first+2 {
				t.Fatalf("steps %d to %d: %d times", first, last, len(got)-1)
			}
		}
		// The latest steps are always known.
		if _, ok := r.appendTimes(nil, r.next-1, r.next-1); r.next > 0 && !ok {
			t.Fatal("the last step is not known")
		}
	})
}

// An answer that is longer than what is kept makes room for the next of its kind.
func TestRecentGrows(t *testing.T) {
	var r recent
	p := piece{step: 1, n: 1, first: 10}
	for range 3 * leastRecent {
		r.add([]piece{p})
		p.step, p.start = p.step+1, p.end(1)
	}
	ask := func() bool {
		got, ok := r.appendTimes(nil, r.next-2*leastRecent, r.next-1)
		return ok && got[0] == 10*(r.next-2*leastRecent) && got[len(got)-1] == 10*(r.next-1)
	}
	if ask() {
		t.Fatal("more is kept than asked for")
	}
	for range 2 * leastRecent {
		r.add([]piece{p})
		p.step, p.start = p.step+1, p.end(1)
	}
	if !ask() {
		t.Fatalf("%d steps are not known, of room for %d", 2*leastRecent, len(r.times))
	}
	for range 20 {
		r.appendTimes(nil, 1, r.next-1)
	}
	if len(r.times) > mostRecent {
		t.Fatalf("room for %d steps, above %d", len(r.times), mostRecent)
	}
}
