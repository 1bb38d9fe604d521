// Package random derives streams of random numbers from a run's seed and draws
// from distributions. A stream depends on nothing but the seed and the labels
// it was derived with, so that adding users, steps or draws elsewhere never
// changes it. The package keeps no state of its own and never reads a clock or
// the system's entropy.
package random

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// golden is 2^64 divided by the golden ratio, the increment of SplitMix64
// (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
const golden = 0x9e3779b97f4a7c15

// mix is the finaliser of SplitMix64: a bijection in which every input bit
// changes every output bit with probability near one half.
func mix(z uint64) uint64 {
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// Derive returns the seed of the stream that labels name under seed. The labels
// are ordered: (1, 2) and (2, 1) name different streams, and so do (1) and
// (1, 0).
func Derive(seed uint64, labels ...uint64) uint64 {
	h := mix(seed + golden)
	for _, l := range labels {
		// The rotation keeps seed and label from being exchangeable.
		h = mix(bits.RotateLeft64(h, 23) ^ mix(l+golden))
	}
	return h
}

// Stream returns the generator of the stream with the given seed.
func Stream(seed uint64) *rand.Rand {
	src := new(rand.PCG)
	Seed(src, seed)
	return rand.New(src)
}

// Seed makes src the source of the stream with the given seed, from its beginning.
func Seed(src *rand.PCG, seed uint64) { src.Seed(seed, mix(seed^golden)) }

// User returns the generator of one user under seed. It depends on the two
// alone.
func User(seed, user uint64) *rand.Rand {
	return Stream(Derive(seed, user))
}

// Kind is the shape of a distribution.
type Kind uint8

// The shapes.
const (
	// Fixed always gives A.
	Fixed Kind = iota
	// Uniform gives values between A and B, both included when whole numbers
	// are drawn.
	Uniform
	// Normal has mean A and standard deviation B.
	Normal
	// Lognormal has median A and 99th percentile B.
	Lognormal
)

// z99 is the 99th percentile of the standard normal distribution.
const z99 = 2.3263478740408408

// Dist is a distribution. The zero value always gives 0.
type Dist struct {
	Kind Kind
	// A and B are the parameters that Kind names.
	A, B float64
	// Min and Max clip what is drawn (values outside become the bound); 0 means
	// that there is no such bound.
	Min, Max float64
}

// clip applies the bounds.
func (d *Dist) clip(x float64) float64 {
	if d.Min != 0 && x < d.Min {
		x = d.Min
	}
	if d.Max != 0 && x > d.Max {
		x = d.Max
	}
	return x
}

// Float draws one value.
func (d *Dist) Float(r *rand.Rand) float64 {
	switch d.Kind {
	case Uniform:
		return d.clip(d.A + (d.B-d.A)*r.Float64())
	case Normal:
		return d.clip(d.A + d.B*r.NormFloat64())
	case Lognormal:
		return d.clip(d.A * math.Exp(d.sigma()*r.NormFloat64()))
	default:
		return d.clip(d.A)
	}
}

// sigma is the deviation of the logarithm.
func (d *Dist) sigma() float64 {
	if d.A <= 0 || d.B <= d.A {
		return 0
	}
	return math.Log(d.B/d.A) / z99
}

// Int draws one whole number, at least least. Every whole number of a uniform
// distribution is equally likely; the others are rounded.
func (d *Dist) Int(r *rand.Rand, least int) int {
	var x float64
	if d.Kind == Uniform {
		lo, hi := math.Ceil(d.A), math.Floor(d.B)
		if hi < lo {
			hi = lo
		}
		x = d.clip(lo + float64(r.Int64N(int64(hi-lo)+1)))
	} else {
		x = d.Float(r)
	}
	return max(least, int(min(math.Round(x), math.MaxInt32)))
}

// Mean returns the mean of the distribution without regard to its bounds, but
// never outside them: an estimate for plans, not a figure.
func (d *Dist) Mean() float64 {
	switch d.Kind {
	case Uniform:
		return d.clip((d.A + d.B) / 2)
	case Lognormal:
		s := d.sigma()
		return d.clip(d.A * math.Exp(s*s/2))
	default:
		return d.clip(d.A)
	}
}
