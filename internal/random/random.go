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
	// Gamma has mean A and coefficient of variation B (deviation over mean).
	Gamma
	// Zipf gives the whole numbers k from A on, each with a probability in
	// proportion to (k-A+1)^-B, up to Max, which it needs.
	Zipf
	// Empirical gives each of Values with equal probability.
	Empirical
	// Mixture draws from one of Parts, chosen by their weights.
	Mixture
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
	// Values are those of Empirical, in any order.
	Values []float64
	// Parts are those of Mixture.
	Parts []Part
}

// Part is one distribution of a mixture with its weight, above 0; only the
// relation of the weights counts.
type Part struct {
	Weight float64
	Dist   Dist
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
	case Gamma:
		return d.clip(d.gamma(r))
	case Zipf:
		return d.clip(d.zipf(r))
	case Empirical:
		if len(d.Values) == 0 {
			return d.clip(0)
		}
		return d.clip(d.Values[r.IntN(len(d.Values))])
	case Mixture:
		if p := d.pick(r); p != nil {
			return d.clip(p.Float(r))
		}
		return d.clip(0)
	default:
		return d.clip(d.A)
	}
}

// gamma draws: the shape is 1/B², the scale A·B².
func (d *Dist) gamma(r *rand.Rand) float64 {
	if d.B < 1e-6 {
		return d.A // to six figures; and the shape stays a number
	}
	return d.A * d.B * d.B * StandardGamma(r, 1/(d.B*d.B))
}

// StandardGamma draws from the gamma distribution of a shape, above 0, and scale 1
// (G. Marsaglia, W. W. Tsang: A simple method for generating gamma variables, ACM
// TOMS 26(3), 2000).
func StandardGamma(r *rand.Rand, shape float64) float64 {
	boost := 1.0
	if shape < 1 {
		boost = math.Pow(1-r.Float64(), 1/shape) // the draw is of [0, 1)
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

// zipf draws by rejection-inversion (Hörmann, Derflinger: Rejection-inversion to
// generate variates from monotone discrete distributions, 1996).
func (d *Dist) zipf(r *rand.Rand) float64 {
	n := math.Floor(d.Max-d.A) + 1
	if n <= 1 {
		return d.A
	}
	s := d.B
	// area is the integral of x^-s from 1, inverse its inverse.
	area := func(x float64) float64 {
		if s == 1 {
			return math.Log(x)
		}
		return (math.Pow(x, 1-s) - 1) / (1 - s)
	}
	inverse := func(a float64) float64 {
		if s == 1 {
			return math.Exp(a)
		}
		return math.Pow(max(1+a*(1-s), 0), 1/(1-s))
	}
	low, high := area(1.5)-1, area(n+0.5)
	for {
		u := high + r.Float64()*(low-high)
		k := min(max(math.Round(inverse(u)), 1), n)
		if u >= area(k+0.5)-math.Pow(k, -s) {
			return d.A + (k - 1) // as Bounds adds it: a part of A is lost otherwise
		}
	}
}

// pick chooses a part of a mixture, nil when there is none.
func (d *Dist) pick(r *rand.Rand) *Dist {
	sum := 0.0
	for i := range d.Parts {
		sum += d.Parts[i].Weight
	}
	x := r.Float64() * sum
	for i := range d.Parts {
		if x -= d.Parts[i].Weight; x < 0 {
			return &d.Parts[i].Dist
		}
	}
	if len(d.Parts) == 0 {
		return nil
	}
	return &d.Parts[len(d.Parts)-1].Dist
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
	return max(least, int(min(math.Round(d.whole(r)), math.MaxInt32)))
}

// whole draws one value for Int.
func (d *Dist) whole(r *rand.Rand) float64 {
	switch d.Kind {
	case Uniform:
		lo, hi := math.Ceil(d.A), math.Floor(d.B)
		if hi < lo {
			hi = lo
		}
		return d.clip(lo + float64(r.Int64N(int64(hi-lo)+1)))
	case Mixture:
		if p := d.pick(r); p != nil {
			return d.clip(p.whole(r))
		}
	default:
	}
	return d.Float(r)
}

// Bounds returns the smallest and the largest value that can be drawn, as far as
// the distribution has them: 0 and +Inf where it has none.
func (d *Dist) Bounds() (least, most float64) {
	switch d.Kind {
	case Uniform:
		least, most = min(d.A, d.B), max(d.A, d.B)
	case Normal:
		least, most = math.Inf(-1), math.Inf(1)
		if d.B == 0 {
			least, most = d.A, d.A
		}
	case Lognormal, Gamma:
		least, most = 0, math.Inf(1)
		if d.B == 0 || d.Kind == Lognormal && d.sigma() == 0 {
			least, most = d.A, d.A
		}
	case Zipf:
		least, most = d.A, d.A+max(0, math.Floor(d.Max-d.A))
	case Empirical:
		least, most = math.Inf(1), math.Inf(-1)
		for _, x := range d.Values {
			least, most = min(least, x), max(most, x)
		}
		if len(d.Values) == 0 {
			least, most = 0, 0
		}
	case Mixture:
		least, most = math.Inf(1), math.Inf(-1)
		for i := range d.Parts {
			lo, hi := d.Parts[i].Dist.Bounds()
			least, most = min(least, lo), max(most, hi)
		}
		if len(d.Parts) == 0 {
			least, most = 0, 0
		}
	default:
		least, most = d.A, d.A
	}
	return max(d.clip(least), 0), max(d.clip(most), 0)
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
	case Zipf:
		// Beyond a million the sum is too long for what it is worth.
		var sum, weight float64
		for k := range int(min(max(math.Floor(d.Max-d.A)+1, 1), 1e6)) {
			w := math.Pow(float64(k+1), -d.B)
			weight += w
			sum += w * (d.A + float64(k))
		}
		return d.clip(sum / weight)
	case Empirical:
		if len(d.Values) == 0 {
			return d.clip(0)
		}
		sum := 0.0
		for _, x := range d.Values {
			sum += x
		}
		return d.clip(sum / float64(len(d.Values)))
	case Mixture:
		var sum, weight float64
		for i := range d.Parts {
			weight += d.Parts[i].Weight
			sum += d.Parts[i].Weight * d.Parts[i].Dist.Mean()
		}
		if weight == 0 {
			return d.clip(0)
		}
		return d.clip(sum / weight)
	default:
		return d.clip(d.A)
	}
}
