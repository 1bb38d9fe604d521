package pace

import (
	"math/rand/v2"

	"plimsoll/internal/random"
)

// The bounds of the burstiness. Below the first a gap in a hundred takes all of
// the time; above the second arrivals are even to 3 %.
const (
	MinBurstiness = 0.01
	MaxBurstiness = 1000
)

// gamma has gaps of a gamma distribution of mean 1.
type gamma struct {
	r     *rand.Rand
	shape float64
}

// Gamma returns gaps of a gamma distribution whose shape is burstiness, drawn
// from seed: 1 is a Poisson process, less is burstier, more is more even. The
// squared coefficient of variation of the gaps is 1/burstiness. The first gap is
// that of a process which has always been going on, so that the rate is the same
// from the start: a burst begins neither at the start nor after it.
func Gamma(burstiness float64, seed uint64) Gaps {
	return &gamma{random.Stream(random.Derive(seed, labelGaps)), burstiness}
}

// First returns the rest of the gap that the start falls into. Long gaps are met
// more often, in proportion to their length, and a gamma distribution weighted by
// length is one whose shape is larger by 1.
func (g *gamma) First() float64 {
	return g.r.Float64() * random.StandardGamma(g.r, g.shape+1) / g.shape
}

func (g *gamma) Next() float64 { return random.StandardGamma(g.r, g.shape) / g.shape }
