// Package pace says when requests start in an open loop: sequences of absolute
// times since the start of a step, drawn from a seed. It is pure: it reads no
// clock, waits for nothing and knows nothing of who sends, so that a schedule
// is the same however many workers carry it out and however late they are.
//
// A schedule is made of two independent things. Gaps is how regular arrivals
// are, in units of the mean gap (a renewal process of rate 1). A Curve is how
// their rate goes over time: it turns an expected number of arrivals into the
// time by which that many are expected, the inverse of the integral of the
// rate. Any regularity can so be had at any rate over time.
package pace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"plimsoll/internal/random"
)

// Gaps yields the gaps of a renewal process of rate 1.
type Gaps interface {
	// First returns the time of the first arrival, in mean gaps from the start.
	First() float64
	// Next returns the gap to the next arrival, at least 0.
	Next() float64
}

// Curve is the inverse of an integrated rate.
type Curve interface {
	// Time returns the ns since the start by which n arrivals are expected, and
	// false when so many never are. It does not fall as n rises.
	Time(n float64) (int64, bool)
}

// Schedule is a sequence of arrivals. It is not safe for concurrent use: one
// dispatcher draws from it.
type Schedule struct {
	gaps  Gaps
	curve Curve
	n     float64
	last  int64
	begun bool

	// Of a schedule of several: the times of the next arrivals, negative when there
	// are none, the numbers drawn of each, and which the last was of.
	parts  []*Schedule
	coming []int64
	drawn  []uint64
	of     int
}

// New returns the schedule of gaps along curve.
func New(gaps Gaps, curve Curve) *Schedule {
	return &Schedule{gaps: gaps, curve: curve}
}

// Merge returns the arrivals of several schedules, which are its own from then on,
// in order of time; of arrivals at one time those of the first schedule come first.
func Merge(parts ...*Schedule) *Schedule {
	s := &Schedule{parts: parts, coming: make([]int64, len(parts)), drawn: make([]uint64, len(parts))}
	for i := range parts {
		s.draw(i)
	}
	return s
}

// draw looks for the next arrival of a part.
func (s *Schedule) draw(i int) {
	t, ok := s.parts[i].Next()
	if !ok {
		t = -1
	}
	s.coming[i] = t
}

// Last says of which of the merged schedules the last arrival was, and its number
// among those of that schedule, from 0. It is asked after Next.
func (s *Schedule) Last() (part int, n uint64) { return s.of, s.drawn[s.of] - 1 }

// next is Next of several.
func (s *Schedule) next() (int64, bool) {
	s.of = -1
	for i, t := range s.coming {
		if t >= 0 && (s.of < 0 || t < s.coming[s.of]) {
			s.of = i
		}
	}
	if s.of < 0 {
		return 0, false
	}
	t := s.coming[s.of]
	s.drawn[s.of]++
	s.draw(s.of)
	return t, true
}

// Next returns the time of the next arrival in ns since the start of the
// schedule, and false when there is none any more. Times never fall.
func (s *Schedule) Next() (int64, bool) {
	if s.parts != nil {
		return s.next()
	}
	if s.begun {
		s.n += s.gaps.Next()
	} else {
		s.n, s.begun = s.gaps.First(), true
	}
	t, ok := s.curve.Time(s.n)
	s.last = max(s.last, t) // a curve may round two neighbours past each other
	return s.last, ok
}

// Even is arrivals at equal distances, the first at once.
type Even struct{}

// First returns 0.
func (Even) First() float64 { return 0 }

// Next returns 1.
func (Even) Next() float64 { return 1 }

// poisson has exponential gaps, the first one included: nothing is special
// about the start.
type poisson struct{ r *rand.Rand }

// Poisson returns the gaps of a Poisson process, drawn from seed.
func Poisson(seed uint64) Gaps { return &poisson{random.Stream(random.Derive(seed, labelGaps))} }

// labelGaps keeps the arrivals of a seed apart from other uses of it.
const labelGaps = 0x61727269 // "arri"

func (p *poisson) First() float64 { return p.Next() }
func (p *poisson) Next() float64  { return p.r.ExpFloat64() }

// Rate is a constant rate in arrivals per second, above 0.
type Rate float64

// Time returns n divided by the rate. The product is formed last and from the
// whole count, so that no rounding adds up: arrival k of a rate r is at k/r to
// the nearest ns, after any number of arrivals.
func (r Rate) Time(n float64) (int64, bool) {
	t := math.Round(n / float64(r) * 1e9)
	if !(t < math.MaxInt64) || r <= 0 {
		return 0, false
	}
	return int64(t), true
}

// Times is the curve of arrivals that are given: with Even gaps, arrival k is at
// the k-th time. It is not modified and may be used by several schedules at once.
type Times struct{ at []int64 }

// At returns the arrivals at times in ns since the start, which must be at least 0
// and not fall. They are not copied.
func At(times []int64) (*Times, error) {
	last := int64(0)
	for i, t := range times {
		if t < last {
			return nil, fmt.Errorf("arrival times: number %d is at %d ns, want at least %d", i, t, last)
		}
		last = t
	}
	return &Times{at: times}, nil
}

// Time returns the n-th of the times, and false when there are no more.
func (t *Times) Time(n float64) (int64, bool) {
	i := int(n)
	if n < 0 || i >= len(t.at) {
		return 0, false
	}
	return t.at[i], true
}

// Len is the number of times.
func (t *Times) Len() int { return len(t.at) }

// Last is the last of the times, 0 when there are none.
func (t *Times) Last() int64 {
	if len(t.at) == 0 {
		return 0
	}
	return t.at[len(t.at)-1]
}

// Stream is one of several processes of arrivals that go on side by side. The fields
// are those by which a step of load describes its own.
type Stream struct {
	Rate       float64
	Arrival    string
	Burstiness float64
	Shape      *Shape
}

// Check says what is wrong with a stream.
func (s *Stream) Check() error {
	if !(s.Rate > 0) || math.IsInf(s.Rate, 0) {
		return fmt.Errorf("rate: want a number above 0, got %g", s.Rate)
	}
	if _, err := ByName(s.Arrival, s.Burstiness, 0); err != nil {
		return err
	}
	if s.Shape != nil {
		return s.Shape.Check()
	}
	return nil
}

// Names are the arrival processes of streams, each once, in words; own when there are
// no streams.
func Names(own string, streams []Stream) string {
	var names []string
	for _, s := range streams {
		if !slices.Contains(names, s.Arrival) {
			names = append(names, s.Arrival)
		}
	}
	if len(names) == 0 {
		return own
	}
	return strings.Join(names, " and ")
}

// SideBySide returns the arrivals of streams, which pass Check, as one schedule. Each
// draws from a seed of its own, so that it does not depend on the others.
func SideBySide(streams []Stream, seed uint64, warmup time.Duration) *Schedule {
	parts := make([]*Schedule, len(streams))
	for i, s := range streams {
		gaps, err := ByName(s.Arrival, s.Burstiness, random.Derive(seed, uint64(i)))
		if err != nil {
			panic("BUG: " + err.Error())
		}
		parts[i] = New(gaps, Along(s.Rate, warmup, s.Shape))
	}
	return Merge(parts...)
}

// Arrivals are the names of the arrival processes that ByName knows.
func Arrivals() []string { return []string{"constant", "poisson", "gamma"} }

// ByName returns the gaps called name, drawn from seed where they are random;
// the empty name means constant. Burstiness is that of Gamma; 0 means 1, which
// is Poisson's, and the other processes take no other.
func ByName(name string, burstiness float64, seed uint64) (Gaps, error) {
	if name != "gamma" && burstiness != 0 && burstiness != 1 {
		return nil, fmt.Errorf("burstiness: only gamma arrivals have one, not %q", name)
	}
	switch name {
	case "", "constant":
		return Even{}, nil
	case "poisson":
		return Poisson(seed), nil
	case "gamma":
		if burstiness == 0 {
			burstiness = 1
		}
		if !(burstiness >= MinBurstiness && burstiness <= MaxBurstiness) {
			return nil, fmt.Errorf("burstiness: want a number from %g to %g, got %g", float64(MinBurstiness), float64(MaxBurstiness), burstiness)
		}
		return Gamma(burstiness, seed), nil
	}
	if i := slices.IndexFunc(Arrivals(), func(s string) bool { return strings.HasPrefix(s, strings.ToLower(name)) }); i >= 0 {
		return nil, fmt.Errorf("arrival: unknown process %q, did you mean %q", name, Arrivals()[i])
	}
	return nil, fmt.Errorf("arrival: unknown process %q, want one of %s", name, strings.Join(Arrivals(), ", "))
}
