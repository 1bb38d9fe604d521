package twin

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plimsoll/internal/dialect"
)

// Whatever comes in whatever order: who is found has the whole of what was said, the
// memory is what those need that are kept or in use, and within its limit but for
// these.
func TestDialogues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDialogues()
		d.limit = 20_000
		type entry struct {
			name  string
			texts []string
		}
		var told []entry // all that were put, whether kept or not
		type user struct {
			k     *dialogue
			texts []string
		}
		var users []user
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0: // a new answer, maybe to who goes on from one
				u := user{}
				if len(users) > 0 {
					u = users[rapid.IntRange(0, len(users)-1).Draw(t, "from")]
				}
				e := entry{fmt.Sprint(len(told)), append(slices.Clip(u.texts), strings.Repeat("x", rapid.IntRange(0, 4000).Draw(t, "length"))+fmt.Sprint(len(told)))}
				d.put(e.name, u.k, []dialect.ServerMessage{{Text: e.texts[len(e.texts)-1]}})
				told = append(told, e)
			case 1:
				if len(told) > 0 {
					e := told[rapid.IntRange(0, len(told)-1).Draw(t, "which")]
					if k := d.find(e.name); k != nil {
						users = append(users, user{k, e.texts})
					}
				}
			default:
				if len(users) > 0 {
					i := rapid.IntRange(0, len(users)-1).Draw(t, "who")
					d.release(users[i].k)
					users = slices.Delete(users, i, i+1)
				}
			}
			need := map[*dialogue]bool{}
			for _, k := range d.named {
				for ; k != nil; k = k.before {
					need[k] = true
				}
			}
			if d.recent.Len() != len(d.named) {
				t.Fatalf("%d names in %d places", len(d.named), d.recent.Len())
			}
			for _, u := range users {
				var got []string
				for _, m := range u.k.history() {
					got = append(got, m.Text)
				}
				if diff := gocmp.Diff(u.texts, got); diff != "" {
					t.Fatalf("history (-want +got):\n%s", diff)
				}
				for k := u.k; k != nil; k = k.before {
					need[k] = true
				}
			}
			sum := int64(0)
			for k := range need {
				sum += k.size
			}
			if sum != d.size || d.size > d.limit && len(d.named) > 0 {
				t.Fatalf("%d bytes are counted, %d needed, %d the limit, %d named", d.size, sum, d.limit, len(d.named))
			}
		}
	})
}

// The one that nobody named for the longest time is forgotten first, and an answer to
// somebody whose history is gone is not kept.
func TestOldDialoguesAreForgotten(t *testing.T) {
	d := newDialogues()
	d.limit = 3 * (keptOverhead + messageOverhead + 1)
	say := []dialect.ServerMessage{{Text: "x"}}
	for _, name := range []string{"a", "b", "c"} {
		d.put(name, nil, say)
	}
	d.release(d.find("a"))
	d.put("d", nil, say)
	if d.find("b") != nil || d.find("a") == nil || d.find("c") == nil {
		t.Error("b was named first and last, and is not the one forgotten")
	}
	k := d.find("d")
	d.release(k)
	d.put("e", nil, say)
	d.put("f", nil, say)
	d.put("g", nil, say)
	d.put("late", k, say)
	if k.users != 0 || d.named["late"] != nil {
		t.Errorf("an answer is kept whose history is gone: %d users", k.users)
	}
}
