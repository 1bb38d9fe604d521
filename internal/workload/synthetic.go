package workload

import (
	"fmt"
	"math/rand/v2"
	"time"

	"plimsoll/internal/message"
	"plimsoll/internal/random"
	"plimsoll/internal/scenario"
)

// SyntheticName is the name of the workload made of two distributions.
const SyntheticName = "synthetic"

// Synthetic is the workload of single questions: every session is one request
// whose prompt and output lengths are drawn from two distributions, and no two
// requests share any part of their prompts. What a user or session draws
// depends on the seed, the step and its own number alone. It may be used from
// many goroutines at once; the machines it makes may not.
type Synthetic struct {
	// Name labels the requests; empty means SyntheticName.
	Name string
	// Seed is the run's seed.
	Seed uint64
	// Prompt and Output are the lengths in tokens. An Output that always draws
	// 0 leaves the length to the server.
	Prompt, Output random.Dist
	// Exact asks for exactly the drawn output length.
	Exact bool
	// Think is the time from the end of a user's request to the user's next.
	Think time.Duration
}

// NewSynthetic returns the workload that users describe.
func NewSynthetic(seed uint64, users *scenario.Users, exact bool) (*Synthetic, error) {
	prompt, err := Dist(users.PromptTokens)
	if err != nil {
		return nil, fmt.Errorf("prompt-tokens: %w", err)
	}
	output, err := Dist(users.OutputTokens)
	if err != nil {
		return nil, fmt.Errorf("output-tokens: %w", err)
	}
	return &Synthetic{Seed: seed, Prompt: prompt, Output: output, Exact: exact}, nil
}

// Labels of the streams that are derived from the run's seed. Users and
// sessions of one number must not draw alike.
const (
	labelUser    = 1
	labelSession = 2
)

// Numbers of sessions are unique in a run, whose steps follow one another, and
// stay below 2^53, so that programs that read them as floats lose nothing: 1,024
// steps of 1,048,576 users of 4 million sessions each.
const (
	userShift = 22
	stepShift = userShift + 20
)

// User returns the machine of one endless user.
func (s *Synthetic) User(step, user uint32) Machine {
	first := uint64(step)<<stepShift | uint64(user)<<userShift
	return new(single).begin(s, labelUser, step, uint64(user), first, -1)
}

// Session returns the machine of one session, which is one request.
func (s *Synthetic) Session(step uint32, session uint64) Machine {
	return s.Reuse(new(single), step, session)
}

// Reuse returns the machine that Session does, in the memory of one of a Synthetic
// that nobody calls any more.
func (s *Synthetic) Reuse(old Machine, step uint32, session uint64) Machine {
	return old.(*single).begin(s, labelSession, step, session, uint64(step)<<stepShift|session, 1)
}

// single is a machine of sessions of one request each.
type single struct {
	s    *Synthetic
	src  rand.PCG
	r    rand.Rand // of src
	next uint64    // the next session's number
	left int       // sessions left, negative for no end
	req  message.Request
	part [1]message.Part
}

// begin makes m a machine of left sessions from the number first on, which draws
// from the stream of the number n under a label and a step.
func (m *single) begin(s *Synthetic, label uint64, step uint32, n, first uint64, left int) *single {
	m.s, m.next, m.left = s, first, left
	random.Seed(&m.src, random.Derive(random.Derive(s.Seed, label, uint64(step)), n))
	m.r = *rand.New(&m.src)
	return m
}

// Start begins at time now.
func (m *single) Start(now int64) Action { return m.send(now) }

// Done goes on to the next session after the think time.
func (m *single) Done(_ int64, o Outcome) Action {
	return m.send(o.Ended + int64(m.s.Think))
}

// Foresee yields the prompt of the next session.
func (m *single) Foresee(yield func(p *message.Part), _ func(func())) {
	next := single{s: m.s, src: m.src, left: m.left}
	next.r = *rand.New(&next.src)
	if a := next.send(0); a.Kind == Send {
		yield(&a.Request.Parts[0])
	}
}

func (m *single) send(at int64) Action {
	if m.left == 0 {
		return Action{Kind: End}
	}
	m.left--
	prompt, output := m.s.Prompt.Int(&m.r, 1), m.s.Output.Int(&m.r, 0)
	if m.s.Output.A != 0 || m.s.Output.B != 0 {
		output = max(output, 1)
	}
	m.part[0] = message.Part{
		Role: message.User, Layer: message.LayerTurn,
		Generator: WordsGenerator, Seed: m.r.Uint64(), Tokens: prompt,
	}
	m.req = message.Request{Parts: m.part[:], MaxTokens: output, Exact: m.s.Exact && output > 0}
	name := m.s.Name
	if name == "" {
		name = SyntheticName
	}
	a := Action{Kind: Send, At: at, Request: &m.req, Session: m.next, Workload: name}
	m.next++
	return a
}
