package align

import (
	"math"
	"slices"
)

// change is when a value was replaced: after from and not after to, in ns.
type change struct{ from, to int64 }

const (
	// keptChanges bounds what is kept of one series for finding its period.
	keptChanges = 64
	// leastEvidence is how much likelier, as a logarithm, a period must make the
	// changes that were seen than no order at all: a factor of 8,000.
	leastEvidence = 9
	// leastReadings is how many readings a period must be long: below, almost any
	// changes lie on some lattice.
	leastReadings = 1.75
	// mostJitter is the range in which renewals may stray, as a share of the period.
	mostJitter = 0.3
	// leastShare is the share of renewals that must bring another value.
	leastShare = 0.45
)

// updates is what is known of how often a value is renewed.
type updates struct {
	// period is the time between renewals in ns. With atMost it is the time between
	// readings: the value is renewed at least as often, as far as can be seen. 0
	// when nothing is known.
	period int64
	atMost bool
}

// findPeriod returns how often a value is renewed that changed at the given times
// while it was read every scrape ns: an exporter that refreshes its page every
// 30 s changes only then, one that answers with the value of the moment changes
// whenever the value does. changes are all changes of some stretch, oldest first;
// share is the share of readings that brought another value than the one before.
//
// A period is found where the changes lie on a lattice of time that leaves most
// readings without one: for each candidate the likelihood of the changes on the
// lattice is compared with that of changes strewn over the readings. Renewals
// that left the value as it was are points of the lattice without a change. There
// are at most keptChanges of them.
func findPeriod(changes []change, scrape int64, share float64) updates {
	n := len(changes)
	if n < 3 || scrape <= 0 {
		return updates{}
	}
	span := float64(changes[n-1].to - changes[0].to)
	if share > 0.8 {
		return updates{period: scrape, atMost: true}
	}
	if span < 3*float64(scrape) || share <= 0 {
		return updates{}
	}
	null := logLikelihood(float64(n-1), float64(n-1)/share, share)
	// Two changes are at least one period apart, but for where their readings lay,
	// and with that many renewals that bring another value some are at most two.
	least := int64(math.MaxInt64)
	for i := 1; i < n; i++ {
		least = min(least, changes[i].to-changes[i-1].to)
	}
	from := max(leastReadings*float64(scrape), float64(least-scrape)/2*0.97, leastShare*0.97*span/float64(n-1))
	to := (float64(least) + float64(scrape)) * (1 + mostJitter)
	w := winding{scrape: float64(scrape)}
	w.set(changes)
	best, found := 0.0, 0.0
	for _, p := range w.periods(from, to, span) {
		points := math.Round(span / p)
		if float64(n-1)/points < leastShare {
			continue
		}
		freedom, ok := w.check(p)
		if !ok {
			continue
		}
		full := min(float64(n-1)/points, 0.999)
		evidence := logLikelihood(float64(n-1), points, full) - freedom - null
		if evidence > best+1e-9 {
			best, found = evidence, p
		}
	}
	if best < leastEvidence && !regular(changes, scrape) {
		return updates{}
	}
	if found == 0 {
		return updates{}
	}
	return updates{period: int64(found)}
}

// logLikelihood of n out of m trials with chance p each.
func logLikelihood(n, m, p float64) float64 {
	out := 0.0
	if n > 0 {
		out += n * math.Log(p)
	}
	if m > n && p < 1 {
		out += (m - n) * math.Log1p(-p)
	}
	return out
}

// regular says of few changes that they are a period by their distances alone:
// all the same to a tenth, and each many readings long.
func regular(changes []change, scrape int64) bool {
	least, most := int64(math.MaxInt64), int64(0)
	for i := 1; i < len(changes); i++ {
		g := changes[i].to - changes[i-1].to
		least, most = min(least, g), max(most, g)
	}
	return least >= 8*scrape && most-least <= 2*scrape && float64(most-least) <= 0.15*float64(least)
}

// winding winds time up on circles, to see on which of them the changes come
// together.
type winding struct {
	scrape  float64
	all     []float64 // the middles of the changes
	certain []float64 // of those between two readings, with none missing
	space   []float64
	few     int // how many may be left out
}

func (w *winding) set(changes []change) {
	zero, usual := changes[0].to, changes[0].to-changes[0].from
	for _, c := range changes {
		usual = min(usual, c.to-c.from)
	}
	for _, c := range changes {
		m := float64(c.from-zero+c.to-zero) / 2
		w.all = append(w.all, m)
		if 2*(c.to-c.from) <= 3*usual {
			w.certain = append(w.certain, m)
		}
	}
	w.few = len(w.certain) / 40
}

// wound returns where on a circle of length p the changes are, in order.
func (w *winding) wound(p float64) []float64 {
	w.space = w.space[:0]
	for _, m := range w.certain {
		w.space = append(w.space, m-p*math.Floor(m/p))
	}
	slices.Sort(w.space)
	return w.space
}

// arcs calls yield with the arcs that hold all changes but a few: where they
// begin and how long they are.
func (w *winding) arcs(p float64, yield func(from, length float64)) {
	s := w.wound(p)
	n := len(s)
	for i := range n {
		j := i + n - w.few - 1
		length := s[j%n] - s[i]
		if j >= n {
			length += p
		}
		if length < p {
			yield(s[i], length)
		}
	}
}

// arc returns the length of the shortest arc.
func (w *winding) arc(p float64) float64 {
	shortest := p
	w.arcs(p, func(_, length float64) { shortest = min(shortest, length) })
	return shortest
}

// check returns how much choice the lattice of period p leaves to the changes:
// the sum of the logarithms of the numbers of readings at which each could have
// been seen. ok is false when they stray too far, or when one period would have
// had more than one renewal.
func (w *winding) check(p float64) (freedom float64, ok bool) {
	arc := w.arc(p)
	stray := max(0, arc-w.scrape)
	if stray > mostJitter*p {
		return 0, false
	}
	limit, found := 1.02*arc+1, math.Inf(1)
	w.arcs(p, func(from, length float64) {
		if length > limit {
			return
		}
		// Cut the circle in the middle of what is left: a period goes from cut to cut.
		cut, point := from-(p-length)/2, from+length/2
		double, last, sum := 0, math.Inf(-1), 0.0
		for _, m := range w.all {
			k := math.Floor((m - cut) / p)
			if k <= last {
				double++
			}
			last = k
			choice := 1 + stray/w.scrape
			// Between two readings by a hair: either could have seen it.
			if w.scrape/2-math.Abs(m-(point+k*p)) < stray/2+0.02*w.scrape {
				choice++
			}
			sum += math.Log(choice)
		}
		if double <= w.few {
			found = min(found, sum)
		}
	})
	return found, !math.IsInf(found, 1)
}

// periods returns the lengths between from and to of the circles on which the
// changes lie closest together, for their length.
func (w *winding) periods(from, to, span float64) []float64 {
	const kept, fine = 8, 12
	type found struct{ p, score float64 }
	var out []found
	var before [2]found
	i := 0
	look := func(f found) { // at the one in the middle of three
		if i >= 2 && before[1].score <= before[0].score && before[1].score <= f.score {
			out = append(out, before[1])
		}
		before[0], before[1] = before[1], f
		i++
	}
	step := func(p float64) float64 { return 0.2 * p * p / span } // a fifth of a period at the far end
	for p := from - 2*step(from); p <= to+2*step(to); p += step(p) {
		if p > 0 {
			look(found{p, w.arc(p) / p})
		}
	}
	slices.SortFunc(out, func(a, b found) int {
		switch {
		case a.score < b.score:
			return -1
		case a.score > b.score:
			return 1
		}
		return 0
	})
	periods := make([]float64, 0, kept)
	for _, f := range out[:min(kept, len(out))] {
		// Twice finer each time around the best.
		d := step(f.p)
		for range 3 {
			best := f
			for k := -fine; k <= fine; k++ {
				p := f.p + d*float64(k)/fine
				if s := w.arc(p) / p; p > 0 && s < best.score {
					best = found{p, s}
				}
			}
			f, d = best, d*2/fine
		}
		periods = append(periods, f.p)
	}
	return periods
}
