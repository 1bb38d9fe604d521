package workload

import (
	"math"
	"testing"
)

// named is a population of nobody, for telling who was asked.
type named struct {
	Population
	name  string
	needs Needs
	asked *string
}

func (n named) User(uint32, uint32) Machine    { *n.asked = n.name; return nil }
func (n named) Session(uint32, uint64) Machine { *n.asked = n.name; return nil }
func (n named) Needs() Needs                   { return n.needs }

func mixOf(t *testing.T, seed uint64, asked *string, weights ...float64) *Mix {
	t.Helper()
	var parts []Population
	for i := range weights {
		parts = append(parts, named{name: string(rune('a' + i)), needs: 1 << i, asked: asked})
	}
	m, err := NewMix(seed, parts, weights)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Users are shared out by weight, the first few too; sessions by weight in the
// mean, each alone by chance, and the same for the same seed.
func TestMixSharesByWeight(t *testing.T) {
	var asked string
	m := mixOf(t, 5, &asked, 3, 1, 6)
	want := map[string]float64{"a": 0.3, "b": 0.1, "c": 0.6}
	users := map[string]float64{}
	for i := range uint32(1000) {
		m.User(0, i)
		users[asked]++
		for name, share := range want {
			if d := users[name] - share*float64(i+1); math.Abs(d) > 2 {
				t.Fatalf("of %d users %g are of %s", i+1, users[name], name)
			}
		}
	}
	const n = 20_000
	again, other := mixOf(t, 5, &asked, 3, 1, 6), mixOf(t, 6, &asked, 3, 1, 6)
	sessions, pairs, same := map[string]float64{}, 0.0, 0.0
	last := ""
	for i := range uint64(n) {
		m.Session(1, i)
		one := asked
		if again.Session(1, i); asked != one {
			t.Fatalf("session %d is of %s and of %s", i, one, asked)
		}
		if other.Session(1, i); asked == one {
			same++
		}
		sessions[one]++
		if one == "a" && last == "a" {
			pairs++
		}
		last = one
	}
	for name, share := range want {
		if d := sessions[name]/n - share; math.Abs(d) > 4*math.Sqrt(share*(1-share)/n) {
			t.Errorf("%.4f of the sessions are of %s, want %g", sessions[name]/n, name, share)
		}
	}
	if d := pairs/n - 0.09; math.Abs(d) > 0.01 {
		t.Errorf("%.4f of the neighbours are both of a, want 0.09: sessions are not independent", pairs/n)
	}
	if d := same/n - (0.09 + 0.01 + 0.36); math.Abs(d) > 0.02 {
		t.Errorf("%.4f of the sessions are of the same workload under another seed", same/n)
	}
	if m.Needs() != 7 {
		t.Errorf("the mix needs %v", m.Needs())
	}
}

func TestMixRefuses(t *testing.T) {
	f := func(n int, weights ...float64) {
		t.Helper()
		if _, err := NewMix(1, make([]Population, n), weights); err == nil {
			t.Errorf("%d populations with the weights %v are mixed", n, weights)
		}
	}
	f(0)
	f(1, 1, 2)
	f(2, 1, 0)
	f(2, 1, math.NaN())
	f(1, math.Inf(1))
}

// Users and sessions side by side have numbers of their own, say what they would
// alone, and those who share a text are not parted.
func TestParallel(t *testing.T) {
	a := NewSessions(1, mustRead(t, "{name: a, prompt: {turn: 5, group: {tokens: 9, users: 4}}, output: 5}"))
	b := NewSessions(1, mustRead(t, "{name: b, prompt: {turn: 7, group: {tokens: 9, users: 3}}, output: 5}"))
	p, err := NewParallel([]Population{a, b}, []int{5, 7})
	if err != nil {
		t.Fatal(err)
	}
	seen, groups := map[uint64]bool{}, map[uint64]int{}
	note := func(m Machine, name string) {
		t.Helper()
		x := m.Start(0)
		if x.Workload != name || seen[x.Session] {
			t.Errorf("session %d of %s, want a new one of %s", x.Session, x.Workload, name)
		}
		seen[x.Session] = true
		groups[x.Request.Parts[0].Seed]++
	}
	for u := range uint32(12) {
		note(p.User(0, u), map[bool]string{true: "a", false: "b"}[u < 5])
	}
	counts := map[int]int{}
	for _, n := range groups {
		counts[n]++
	}
	if counts[4] != 1 || counts[3] != 2 || counts[1] != 2 {
		t.Errorf("groups are of %v", counts)
	}
	clear(groups)
	for n := range uint64(8) {
		note(p.Session(1, StreamNumber(0, n)), "a")
		note(p.Session(1, StreamNumber(1, n)), "b")
	}
	clear(counts)
	for _, n := range groups {
		counts[n]++
	}
	if counts[4] != 2 || counts[3] != 2 || counts[2] != 1 {
		t.Errorf("groups of sessions are of %v", counts)
	}
	if x, y := a.Session(1, 3).Start(0), p.Session(1, StreamNumber(0, 3)).Start(0); x.Session != y.Session || !same(&x.Request.Parts[1], &y.Request.Parts[1]) {
		t.Error("a session beside others says something else than alone")
	}
	p.Session(0, math.MaxUint64) // which nobody sends
	if _, err := NewParallel(make([]Population, MaxStreams+1), nil); err == nil {
		t.Error("too many are taken")
	}
}

func mustRead(t *testing.T, text string) *File {
	t.Helper()
	f, err := Read("t.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Users beside sessions: no number is there twice, and all streams are found.
func TestParallelOfUsersAndSessions(t *testing.T) {
	var parts []Population
	for _, name := range []string{"a", "b", "c", "d"} {
		parts = append(parts, NewSessions(1, mustRead(t, "{name: "+name+", prompt: {turn: 5, group: {tokens: 9, users: 3}}, output: 5}")))
	}
	p, err := NewParallel(parts, []int{0, 40_000, 0, 2}) // 40,000 users: their numbers reach those that a third stream alone would have
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uint64]bool{}
	note := func(m Machine, name string) {
		t.Helper()
		if x := m.Start(0); x.Workload != name || seen[x.Session] {
			t.Fatalf("session %d of %s, want a new one of %s", x.Session, x.Workload, name)
		} else {
			seen[x.Session] = true
		}
	}
	for _, u := range []uint32{0, 1, 16384, 32768, 39_999} {
		note(p.User(0, u), "b")
	}
	note(p.User(0, 40_000), "d")
	note(p.User(0, 40_001), "d")
	for n := range uint64(20) {
		note(p.Session(0, StreamNumber(0, n)), "a")
		note(p.Session(0, StreamNumber(1, n)), "c")
	}
	if _, err := NewParallel(parts, []int{0, MaxMixedUsers, 0, 1}); err == nil {
		t.Error("more users are taken than there are numbers for")
	}
	if _, err := NewParallel(make([]Population, MaxMixedStreams+2), append(make([]int, MaxMixedStreams+1), 1)); err == nil {
		t.Error("more streams are taken than there are numbers for")
	}
}
