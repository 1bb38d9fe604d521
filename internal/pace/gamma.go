package pace

import (
	"math"
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
func (g *gamma) First() float64 { return g.r.Float64() * draw(g.r, g.shape+1) / g.shape }

func (g *gamma) Next() float64 { return draw(g.r, g.shape) / g.shape }

// draw draws from the gamma distribution of scale 1 (G. Marsaglia, W. W. Tsang:
// A simple method for generating gamma variables, ACM TOMS 26(3), 2000).
func draw(r *rand.Rand, shape float64) float64 {
	boost := 1.0
	if shape < 1 {
		boost = math.Pow(1-r.Float64(), 1/shape)
		shape++
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for { // nineteen of twenty are taken at once
		x := r.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v *= v * v
		if u := 1 - r.Float64(); math.Log(u) < 0.5*x*x+d-d*v+d*math.Log(v) {
			return d * v * boost
		}
	}
}
