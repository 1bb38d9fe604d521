package workload

import (
	"math"
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/message"
	"plimsoll/internal/record"
)

// asked is one request of a session that was carried out.
type asked struct {
	action Action
	parts  []message.Part
	req    message.Request
	branch bool
	ended  int64
}

func (a *asked) tokens(l message.Layer) int {
	n := 0
	for i := range a.parts {
		if a.parts[i].Layer == l {
			n += a.parts[i].Tokens
		}
	}
	return n
}

// answer is what a server does in these tests.
type answer func(a *Action) Outcome

// promptly answers at the asked length, at once, without text.
func promptly(a *Action) Outcome {
	at := a.At
	if a.Retrieval != nil {
		at += a.Retrieval.Duration
	}
	o := Outcome{OutputTokens: int32(a.Request.MaxTokens), Ended: at + 1e9}
	if a.CancelAt > 0 && o.Ended > a.CancelAt {
		o.Status, o.Ended = record.Cancelled, a.CancelAt
	}
	return o
}

// carryOut drives a machine to its end, or for some requests.
func carryOut(t testing.TB, m Machine, at int64, most int, say answer) []asked {
	t.Helper()
	return carry(t, m, m.Start(at), most, say, false)
}

func carry(t testing.TB, m Machine, a Action, most int, say answer, branch bool) []asked {
	var out []asked
	for len(out) < most {
		switch a.Kind {
		case End:
			return out
		case Send:
			parts := slices.Clone(a.Request.Parts)
			o := say(&a)
			req := *a.Request
			req.Parts = parts // the machine's own change with its next action
			out = append(out, asked{a, parts, req, branch, o.Ended})
			a = m.Done(o.Ended, o)
		case Fork:
			var all Outcome
			machines := slices.Clone(a.Branches)
			for _, b := range machines {
				got := carry(t, b, b.Start(a.At), 10, say, true)
				if len(got) != 1 {
					t.Fatalf("a branch made %d requests", len(got))
				}
				out = append(out, got...)
				all.Ended = max(all.Ended, got[0].ended)
			}
			a = m.Done(all.Ended, all)
		case Wait:
			t.Fatal("waits are not expected here")
		}
	}
	return out
}

func lookup(t testing.TB, name string) *File {
	t.Helper()
	f, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// sample is many values with what they should be.
type sample []float64

func (s sample) quantile(q float64) float64 {
	slices.Sort(s)
	return s[int(q*float64(len(s)-1))]
}

func (s sample) mean() float64 {
	sum := 0.0
	for _, x := range s {
		sum += x
	}
	return sum / float64(len(s))
}

// between holds all of a sample inside of bounds that it comes near to, and its
// mean or median at a value.
func between(t *testing.T, what string, s sample, low, high float64) {
	t.Helper()
	slices.Sort(s)
	if s[0] < low || s[len(s)-1] > high {
		t.Errorf("%s: %g to %g, want %g to %g", what, s[0], s[len(s)-1], low, high)
	}
	if span := high - low; s[0] > low+0.1*span || s[len(s)-1] < high-0.1*span {
		t.Errorf("%s: only %g to %g of %g to %g", what, s[0], s[len(s)-1], low, high)
	}
}

func evenly(t *testing.T, what string, s sample, low, high float64) {
	t.Helper()
	between(t, what, s, low, high)
	// Four standard errors of a uniform mean.
	n := float64(len(s))
	if got, want := s.mean(), (low+high)/2; math.Abs(got-want) > 4*((high-low+1)/math.Sqrt(12)/math.Sqrt(n))+1e-9 {
		t.Errorf("%s: mean %g of %.0f, want %g", what, got, n, want)
	}
}

func always(t *testing.T, what string, s sample, x float64) {
	t.Helper()
	if len(s) == 0 {
		t.Errorf("%s: never", what)
	}
	for _, v := range s {
		if v != x {
			t.Fatalf("%s: %g, want %g", what, v, x)
		}
	}
}

func median(t *testing.T, what string, s sample, want, tolerance float64) {
	t.Helper()
	if got := s.quantile(0.5); math.Abs(got-want) > tolerance*want {
		t.Errorf("%s: median %g, want %g", what, got, want)
	}
}

// Each vertical sends what the table of WORKLOADS.md says: turns, pauses, lengths.
func TestLibrarySendsWhatItSays(t *testing.T) {
	const sessions = 3000
	for _, name := range Names() {
		if family, _, _ := strings.Cut(name, "/"); !slices.Contains([]string{"legal", "finance", "healthcare", "research"}, family) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			f := lookup(t, name)
			if f.Name != name {
				t.Errorf("its file says %q", f.Name)
			}
			s := NewSessions(5, f)
			var turns, system, docs, documents, question, first, later, think, branches, branchQ, branchOut, join, media, retrieval, passages, reasoning, context sample
			add := func(s *sample, x int) { *s = append(*s, float64(x)) }
			for n := range uint64(sessions) {
				got := carryOut(t, s.Session(0, n), 0, 1000, promptly)
				last := -1
				width := 0
				var ended int64
				for i := range got {
					g := &got[i]
					add(&system, g.tokens(message.LayerSystem))
					if int(g.action.Turn) != last {
						last = int(g.action.Turn)
						if last > 0 {
							think = append(think, float64(g.action.At-ended)/1e9)
						}
						width = 0
					}
					ended = max(ended, g.ended)
					if g.branch {
						width++
						add(&branchQ, g.tokens(message.LayerTurn))
						add(&branchOut, g.req.MaxTokens)
						continue
					}
					if f.Fork != nil {
						add(&branches, width)
						add(&join, g.req.MaxTokens)
						add(&context, g.req.PromptTokens())
					}
					if i == 0 || f.Fork != nil && last == 0 {
						count, length := 0, 0
						for _, p := range g.parts {
							if p.Layer == message.LayerSession && p.Media == nil && p.Generator == f.Prompt.Session.Content {
								count++
								length += p.Tokens
							}
							if p.Media != nil {
								add(&media, p.Media.Width*p.Media.Height)
							}
						}
						add(&documents, count)
						add(&docs, length)
						add(&first, g.req.MaxTokens)
					} else {
						add(&later, g.req.MaxTokens)
					}
					add(&reasoning, g.req.ReasoningTokens)
					fresh := 0
					for _, p := range g.parts[lastHistory(g.parts):] {
						if p.Layer == message.LayerTurn && (f.Retrieval == nil || p.Generator != f.Retrieval.Content) {
							fresh += p.Tokens
						}
					}
					add(&question, fresh)
					if g.action.Retrieval != nil {
						retrieval = append(retrieval, float64(g.action.Retrieval.Duration)/1e6)
						add(&passages, g.action.Retrieval.Passages)
					}
				}
				add(&turns, last+1)
			}
			switch name {
			case "legal/contract-review":
				evenly(t, "turns", turns, 4, 8)
				median(t, "think", think, 20, 0.05)
				always(t, "system", system, 1200)
				between(t, "document", docs, 6000, 96000)
				median(t, "document", docs, 20000, 0.05)
				evenly(t, "question", question, 80, 200)
				always(t, "first answer", first, 600)
				always(t, "later answers", later, 250)
			case "legal/case-research":
				evenly(t, "turns", turns, 2, 4)
				median(t, "think", think, 15, 0.05)
				always(t, "system", system, 900)
				always(t, "documents", documents, 0)
				median(t, "search", retrieval, 400, 0.05)
				always(t, "passages", passages, 8)
				always(t, "answer", append(first, later...), 900)
			case "finance/financial-modeling":
				evenly(t, "turns", turns, 1, 2)
				always(t, "think", think, 30)
				always(t, "system", system, 1500)
				evenly(t, "documents", documents, 4, 8)
				always(t, "question", question, 200)
				median(t, "answer", append(first, later...), 2500, 0.02)
			case "finance/strategy-simulation":
				evenly(t, "turns", turns, 20, 60)
				always(t, "think", think, 0) // every answer is given up at the next tick
				always(t, "system", system, 400)
				always(t, "documents", documents, 0)
				evenly(t, "question", question, 300, 800)
				evenly(t, "answer", append(first, later...), 60, 120)
			case "healthcare/patient-summary", "healthcare/patient-summary-images":
				always(t, "turns", turns, 1)
				always(t, "system", system, 800)
				evenly(t, "document", docs, 12000, 48000)
				always(t, "question", question, 60)
				always(t, "answer", first, 450)
				if f.Media != nil {
					always(t, "pixels of an image", media, 1024*1024)
				}
			case "healthcare/clinical-reasoning":
				evenly(t, "turns", turns, 6, 10)
				if m := think.mean(); math.Abs(m-3.5) > 0.05 || think.quantile(0) < 2 || think.quantile(1) > 5 {
					t.Errorf("think: %g to %g, mean %g", think.quantile(0), think.quantile(1), m)
				}
				always(t, "system", system, 1000)
				always(t, "document", docs, 3000)
				evenly(t, "findings", question, 300, 600)
				always(t, "answer", append(first, later...), 800)
				always(t, "reasoning", reasoning, 500)
			case "research/literature-synthesis":
				always(t, "turns", turns, 1)
				always(t, "system", system, 600)
				always(t, "document", docs, 6000)
				always(t, "question", question, 100)
				evenly(t, "answer", first, 4000, 6000)
			case "research/citation-expansion":
				evenly(t, "rounds", turns, 3, 5)
				always(t, "think", think, 1)
				always(t, "system", system, 700)
				evenly(t, "branches", branches, 4, 8)
				always(t, "question of a branch", branchQ, 200)
				always(t, "answer of a branch", branchOut, 300)
				always(t, "answer of a join", join, 900)
				if most := context.quantile(1); most > 60_000 || most < 58_000 {
					t.Errorf("the longest context is %g, want 60k", most)
				}
			default:
				t.Error("no test knows its table")
			}
		})
	}
}

// lastHistory is where the last answer ends.
func lastHistory(parts []message.Part) int {
	for i := len(parts) - 1; i >= 0; i-- {
		if parts[i].Layer == message.LayerHistory {
			return i + 1
		}
	}
	return 0
}
