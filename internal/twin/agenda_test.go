package twin

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The agenda gives up what is due in order of time, class and its being put there,
// whatever was moved and removed meanwhile.
func TestAgendaAgainstASortedList(t *testing.T) {
	type due struct {
		at    int64
		class uint64
		n     int
		w     *wake
	}
	rapid.Check(t, func(t *rapid.T) {
		var a agenda
		var list []due
		wakes := make([]*wake, rapid.IntRange(1, 30).Draw(t, "wakes"))
		for i := range wakes {
			wakes[i] = new(wake)
		}
		find := func(w *wake) int { return slices.IndexFunc(list, func(d due) bool { return d.w == w }) }
		order := func(x, y due) int {
			return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.class, y.class), cmp.Compare(x.n, y.n))
		}
		for n := range rapid.IntRange(1, 200).Draw(t, "operations") {
			w := rapid.SampledFrom(wakes).Draw(t, "wake")
			i := find(w)
			switch rapid.SampledFrom([]string{"set", "set", "pop", "pop", "remove"}).Draw(t, "operation") {
			case "set":
				d := due{rapid.Int64Range(0, 9).Draw(t, "at"), rapid.Uint64Range(classEnd, classBegin).Draw(t, "class"), n, w}
				a.set(w, d.at, d.class)
				if i >= 0 {
					list[i] = d
				} else {
					list = append(list, d)
				}
			case "remove":
				a.remove(w)
				if i >= 0 {
					list = slices.Delete(list, i, i+1)
				}
			case "pop":
				if len(list) == 0 {
					continue
				}
				slices.SortFunc(list, order)
				if got, at := a.pop(); got != list[0].w || at != list[0].at {
					t.Fatalf("popped %p of %d, want %+v", got, at, list[0])
				}
				list = list[1:]
			}
			for _, w := range wakes {
				at, ok := a.due(w)
				if i := find(w); ok != (i >= 0) || ok && at != list[i].at {
					t.Fatalf("due at %d %v, want %+v", at, ok, list)
				}
			}
			at, ok := a.next()
			if ok != (len(list) > 0) || ok && at != slices.MinFunc(list, order).at {
				t.Fatalf("next is at %d %v, want %+v", at, ok, list)
			}
		}
	})
}
