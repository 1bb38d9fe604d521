package workload

import (
	"fmt"
	"math"
	"sort"

	"plimsoll/internal/random"
)

// Population makes the users of a closed loop and the sessions of an open one.
type Population interface {
	User(step, user uint32) Machine
	Session(step uint32, session uint64) Machine
}

// Mix is a population of several, by weight. Who belongs to which depends on the
// weights, the seed and the number alone. Users are shared out evenly: of the first
// n each population has its part, within two. Sessions are shared out at random, so
// that the sessions of each arrive as a process of their own: those of a Poisson
// process at a rate are Poisson processes of its parts.
type Mix struct {
	seed  uint64
	parts []Population
	ends  []float64 // of the parts of 0 to 1
}

// labelMix keeps the choices of a mix apart from other uses of its seed.
const labelMix = 0x6d6978 // "mix"

// NewMix returns the mix of populations by weights, each above 0.
func NewMix(seed uint64, parts []Population, weights []float64) (*Mix, error) {
	if len(parts) == 0 || len(parts) != len(weights) {
		return nil, fmt.Errorf("mix workloads: want a weight for each of %d, got %d", len(parts), len(weights))
	}
	m := &Mix{seed: random.Derive(seed, labelMix), parts: parts}
	sum := 0.0
	for _, w := range weights {
		if !(w > 0) || math.IsInf(w, 0) {
			return nil, fmt.Errorf("mix workloads: want weights above 0, got %g", w)
		}
		sum += w
	}
	end := 0.0
	for _, w := range weights {
		end += w / sum
		m.ends = append(m.ends, end)
	}
	return m, nil
}

// part returns the population whose stretch x of 0 to 1 falls into.
func (m *Mix) part(x float64) Population {
	i := sort.Search(len(m.ends)-1, func(i int) bool { return x < m.ends[i] })
	return m.parts[i]
}

// User returns the machine of one endless user.
func (m *Mix) User(step, user uint32) Machine {
	// The multiples of the golden ratio are the most even sequence there is.
	const golden = 0.6180339887498949
	x := float64(user) * golden
	return m.part(x-math.Floor(x)).User(step, user)
}

// Session returns the machine of one session.
func (m *Mix) Session(step uint32, session uint64) Machine {
	x := random.Derive(m.seed, uint64(step), session)
	return m.part(float64(x>>11)/(1<<53)).Session(step, session)
}

// Needs says what the machines of any may ask for.
func (m *Mix) Needs() Needs {
	var n Needs
	for _, p := range m.parts {
		n |= NeedsOf(p)
	}
	return n
}
