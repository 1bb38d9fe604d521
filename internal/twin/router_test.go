package twin

import (
	"testing"

	"pgregory.net/rapid"
)

// The least loaded replica is the one that looking at all of them finds, the first
// of equals; in turn is in turn.
func TestRouters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "replicas")
		least, err := NewRouter("least-loaded", n)
		if err != nil {
			t.Fatal(err)
		}
		turns, err := NewRouter("", n)
		if err != nil {
			t.Fatal(err)
		}
		load := make([]int, n)
		var held []int
		for i := range 60 {
			if len(held) > 0 && rapid.Bool().Draw(t, "leaves") {
				j := rapid.IntRange(0, len(held)-1).Draw(t, "who")
				load[held[j]]--
				least.Left(held[j])
				held = append(held[:j], held[j+1:]...)
			}
			want := 0
			for k := range load {
				if load[k] < load[want] {
					want = k
				}
			}
			if got := least.Pick(nil); got != want {
				t.Fatalf("replica %d of loads %v, want %d", got, load, want)
			}
			load[want]++
			held = append(held, want)
			if got := turns.Pick(nil); got != i%n {
				t.Fatalf("request %d goes to replica %d of %d", i, got, n)
			}
		}
	})
}
