package workload

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/random"
	"plimsoll/internal/record"
	"plimsoll/internal/scenario"
)

type sent struct {
	At      int64
	Session uint64
	Prompt  int
	Output  int
	Seed    uint64
}

func drive(m Machine, n int, think int64) []sent {
	var out []sent
	a := m.Start(1000)
	for range n {
		if a.Kind != Send {
			return out
		}
		out = append(out, sent{a.At, a.Session, a.Request.PromptTokens(), a.Request.MaxTokens, a.Request.Parts[0].Seed})
		end := a.At + 500
		a = m.Done(end+think, Outcome{Ended: end})
	}
	return out
}

func TestSyntheticUserIsEndlessAndItsOwn(t *testing.T) {
	s := &Synthetic{
		Seed: 1, Think: 20 * time.Nanosecond,
		Prompt: random.Dist{Kind: random.Uniform, A: 100, B: 900},
		Output: random.Dist{Kind: random.Lognormal, A: 40, B: 400},
	}
	a := drive(s.User(0, 3), 50, 0)
	if len(a) != 50 {
		t.Fatalf("the user ended after %d requests", len(a))
	}
	for i, r := range a {
		if want := int64(1000 + i*520); r.At != want {
			t.Fatalf("request %d is due at %d, want %d", i, r.At, want)
		}
	}
	// Other users at work, and how often they are asked, change nothing.
	other := s.User(0, 2)
	other.Start(0)
	if diff := cmp.Diff(a, drive(s.User(0, 3), 50, 0)); diff != "" {
		t.Errorf("the same user does otherwise (-first +second):\n%s", diff)
	}
	seeds := map[uint64]bool{}
	for step := range uint32(3) {
		for u := range uint32(40) {
			for _, r := range drive(s.User(step, u), 5, 0) {
				if seeds[r.Seed] {
					t.Fatalf("a prompt of step %d user %d came before", step, u)
				}
				seeds[r.Seed] = true
			}
			for _, r := range drive(s.Session(step, uint64(u)), 5, 0) {
				if seeds[r.Seed] {
					t.Fatalf("the prompt of step %d session %d came before", step, u)
				}
				seeds[r.Seed] = true
			}
		}
	}
}

func TestSyntheticSessionIsOneRequest(t *testing.T) {
	s := &Synthetic{Prompt: random.Dist{A: 10}, Output: random.Dist{A: 5}, Exact: true}
	m := s.Session(0, 77)
	a := m.Start(5)
	if a.Kind != Send || a.At != 5 || a.Session != 77 || !a.Request.Exact || a.Request.MaxTokens != 5 {
		t.Fatalf("first action is %+v", a)
	}
	if a = m.Done(9, Outcome{Ended: 8}); a.Kind != End {
		t.Errorf("second action is %+v, want the end", a)
	}
}

func TestDistOfScenario(t *testing.T) {
	got, err := Dist(scenario.Dist{Kind: "lognormal", A: 400, B: 4000, Min: 6, Max: 9000})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(random.Dist{Kind: random.Lognormal, A: 400, B: 4000, Min: 6, Max: 9000}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := NewSynthetic(1, &scenario.Users{PromptTokens: scenario.Dist{Kind: "zipfian"}}, false); err == nil {
		t.Error("an unknown distribution was taken")
	} else if want := `prompt-tokens: unknown distribution "zipfian", want fixed, uniform, normal, lognormal, gamma, zipf, file or a mixture`; err.Error() != want {
		t.Errorf("error is %q, want %q", err, want)
	}
}

// Sessions are told apart over the whole run, steps included, and by programs
// that know only floats.
func TestSessionNumbersAreUnique(t *testing.T) {
	s := &Synthetic{Seed: 1, Prompt: random.Dist{A: 8}, Output: random.Dist{A: 8}}
	seen := map[uint64]string{}
	note := func(n uint64, who string) {
		if n >= 1<<53 {
			t.Errorf("%s has session %d, not exact as a float", who, n)
		}
		if was, ok := seen[n]; ok {
			t.Errorf("%s and %s have the same session %d", was, who, n)
		}
		seen[n] = who
	}
	for _, step := range []uint32{0, 1, 2, 999} {
		for _, user := range []uint32{0, 1, 2, 999_999} {
			m := s.User(step, user)
			a := m.Start(0)
			for i := range 3 {
				note(a.Session, fmt.Sprintf("step %d user %d session %d", step, user, i))
				a = m.Done(0, Outcome{})
			}
		}
	}
	seen = map[uint64]string{}
	for _, step := range []uint32{0, 1, 999} {
		for _, n := range []uint64{0, 1, 1 << 40} {
			note(s.Session(step, n).Start(0).Session, fmt.Sprintf("step %d session %d", step, n))
		}
	}
}

type needy Needs

func (n needy) Needs() Needs { return Needs(n) }

func TestNeedsAreRefusedByName(t *testing.T) {
	f := func(population any, can Needs, want string) {
		t.Helper()
		got := ""
		if err := Refuse(population, can); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("error is %q, want %q", got, want)
		}
	}
	f(&Synthetic{}, 0, "")
	f(needy(NeedFork|NeedText), NeedFork|NeedText|NeedTools, "")
	f(needy(NeedFork|NeedRetrieval|NeedEffort), NeedFork,
		"workload: it needs an emulated retrieval before a request, a reasoning effort, which is not carried out here: leave that out of the workload")
}

// What the branches of a fork came to is the worst of their ends, all that they said,
// and the latest end.
func TestJoin(t *testing.T) {
	o := Outcome{Ended: 10}
	f := func(s record.Status, tokens int32, ended int64, want Outcome) {
		t.Helper()
		o.Join(&Outcome{Status: s, OutputTokens: tokens, Text: "said"}, ended)
		if d := cmp.Diff(want, o); d != "" {
			t.Error(d)
		}
	}
	f(record.OK, 5, 8, Outcome{OutputTokens: 5, Ended: 10})
	f(record.Incomplete, -1, 30, Outcome{Status: record.Incomplete, OutputTokens: 5, Ended: 30})
	f(record.Cancelled, 2, 20, Outcome{Status: record.Incomplete, OutputTokens: 7, Ended: 30})
	f(record.Failed, 0, 31, Outcome{Status: record.Failed, OutputTokens: 7, Ended: 31})
}
