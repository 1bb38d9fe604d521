package clock

import (
	"math"
	"slices"
	"time"
)

const (
	// maxDrift is how much faster one wall clock is taken to run than another:
	// quartz is good to some 20 to 30 ppm on each side, and a disciplined clock is
	// far better.
	maxDrift = 50e-6
	// offsetWindow is the time within which bounds are kept together.
	offsetWindow = int64(10 * time.Second)
	// stepAfter is how many readings in a row must contradict what was known before
	// the other clock is taken to have been set, rather than one answer to be old.
	stepAfter = 3
	// wildShare of the readings that could tell may contradict all others without any
	// order before the other clock is taken to be none: old answers of a cache are rarer.
	wildShare = 0.25
	// stepShare is the share of readings at which a clock may be set, likewise: one that
	// is set every ten readings runs by nothing.
	stepShare = 0.1
)

// Offset finds how far another host's wall clock is ahead of this one's, from
// what the other clock showed at instants that are known to lie between two
// times of the run. Each reading bounds the offset from both sides; the bounds
// of many are cut with one another, and widened by what clocks may drift in
// between. So the result is no average: the offset lies inside its uncertainty
// as long as no clock was set and none drifts by more than 50 ppm. Of a clock whose
// readings contradict one another again and again nothing is known (Unsteady).
//
// All times are ns of the run's clock, whose relation to this host's wall clock is
// the one at its start. The zero value is not ready for use. Not safe for
// concurrent use.
type Offset struct {
	wall     int64 // unix time of the run's time 0
	windows  []bound
	now      bound // what all windows since the last step say of the last reading's time
	readings int
	steps    []int64
	against  []bound // readings in a row that contradict the windows
	told     int     // readings that could have contradicted, or did
	wild     int     // those that did, and were no step
}

// bound is what is known of the offset at one instant.
type bound struct{ at, lo, hi int64 }

// moved returns b as it is at time t.
func (b bound) moved(t int64) bound {
	slack := int64(math.Ceil(math.Abs(float64(t-b.at)) * maxDrift))
	out := bound{at: t, lo: b.lo, hi: b.hi}
	if b.lo != math.MinInt64 {
		out.lo -= slack
	}
	if b.hi != math.MaxInt64 {
		out.hi += slack
	}
	return out
}

// NewOffset returns an Offset of which nothing is known, for a run whose clock
// started at start (Clock.Start).
func NewOffset(start time.Time) *Offset { return &Offset{wall: start.UnixNano()} }

// Observe takes one reading: at some instant from sent to received the other
// clock showed between stamp and stamp+resolution, both in ns since 1970. For a
// Date header the resolution is one second: it names the second that had begun.
// Readings come in about the order of time.
func (o *Offset) Observe(sent, received, stamp, resolution int64) {
	if received < sent || resolution < 0 {
		return
	}
	o.add(bound{at: sent + (received-sent)/2, lo: stamp - (o.wall + received), hi: stamp + resolution - (o.wall + sent)})
}

// ObserveAtLeast takes a reading that bounds from one side only: before received
// the other clock had shown at least stamp, in ns since 1970. That is what the
// time of a sample on a page says.
func (o *Offset) ObserveAtLeast(received, stamp int64) {
	o.add(bound{at: received, lo: stamp - (o.wall + received), hi: math.MaxInt64})
}

func (o *Offset) add(b bound) {
	o.readings++
	sides := b.hi != math.MaxInt64
	if sides {
		o.told++
	}
	if len(o.windows) == 0 {
		o.windows = append(o.windows, b)
		o.now = b
		return
	}
	if now := o.now.moved(b.at); b.lo > now.hi || b.hi < now.lo {
		if !sides { // a bound from one side that agrees tells nothing, this one does
			o.told++
		}
		o.contradict(b)
		return
	}
	if sides { // an old sample agrees with any clock and is no word against a step
		o.against = o.against[:0]
	}
	o.cut(b)
}

// cut adds a reading that agrees to the windows.
func (o *Offset) cut(b bound) {
	o.now = o.now.moved(b.at)
	o.now.lo, o.now.hi = max(o.now.lo, b.lo), min(o.now.hi, b.hi)
	w := &o.windows[len(o.windows)-1]
	if b.at < w.at+offsetWindow {
		m := b.moved(w.at)
		lo, hi := max(w.lo, m.lo), min(w.hi, m.hi)
		if lo > hi { // only by the slack: both are as good
			lo = lo/2 + hi/2
			hi = lo
		}
		w.lo, w.hi = lo, hi
		return
	}
	o.windows = append(o.windows, b)
}

// contradict counts a reading that cannot be true together with those before:
// several in a row mean that one of the clocks was set.
func (o *Offset) contradict(b bound) {
	o.wild++
	for _, a := range o.against {
		if m := a.moved(b.at); b.lo > m.hi || b.hi < m.lo {
			o.against = o.against[:0] // nor with the last one: of no use yet
			break
		}
	}
	o.against = append(o.against, b)
	if len(o.against) < stepAfter {
		return
	}
	o.wild -= len(o.against)
	o.steps = append(o.steps, o.against[0].at)
	o.windows = append(o.windows, o.against[0])
	o.now = o.against[0]
	for _, a := range o.against[1:] {
		o.cut(a)
	}
	o.against = o.against[:0]
}

// after returns the index of the first window after the first n steps.
func (o *Offset) after(n int) int {
	if n == 0 {
		return 0
	}
	i, _ := slices.BinarySearchFunc(o.windows, o.steps[n-1], func(b bound, t int64) int {
		if b.at < t {
			return -1
		}
		return 1
	})
	return i
}

// within returns what windows say of time t.
func within(windows []bound, t int64) bound {
	out := bound{at: t, lo: math.MinInt64, hi: math.MaxInt64}
	for _, w := range windows {
		m := w.moved(t)
		out.lo, out.hi = max(out.lo, m.lo), min(out.hi, m.hi)
	}
	return out
}

// At returns how far the other clock was ahead of this one's at time t, in ns,
// and by how much that may be wrong on either side; ok is false when nothing
// bounds it from both sides, and when the clock is not steady.
func (o *Offset) At(t int64) (offset, uncertainty int64, ok bool) {
	if o.Unsteady() {
		return 0, 0, false
	}
	n := 0
	for n < len(o.steps) && o.steps[n] <= t {
		n++
	}
	from, to := o.after(n), len(o.windows)
	if n < len(o.steps) {
		to = o.after(n + 1)
	}
	b := within(o.windows[from:to], t)
	if b.lo == math.MinInt64 || b.hi == math.MaxInt64 {
		return 0, 0, false
	}
	if b.lo > b.hi { // by the slack of drift
		b.lo, b.hi = b.hi, b.lo
	}
	half := (b.hi - b.lo + 1) / 2
	return b.lo + half, half, true
}

// Unsteady says that the readings are not those of one clock that runs: too many of
// them contradict the others without being a step, or it is set all the time. So it
// is with a clock that jumps, and with several servers behind one name.
func (o *Offset) Unsteady() bool {
	return o.wild >= stepAfter && float64(o.wild) > wildShare*float64(o.told) ||
		len(o.steps) >= stepAfter && float64(len(o.steps)) > stepShare*float64(o.told)
}

// Readings returns how many readings were taken.
func (o *Offset) Readings() int { return o.readings }

// Steps returns when one of the two clocks was set, as far as the readings tell.
// The slice is not to be changed.
func (o *Offset) Steps() []int64 { return o.steps }

// Probe returns when, after a time, a request should be sent whose answer takes
// rtt to come, so that a clock that shows whole seconds says most: such that the
// answer is made just when, by the middle of what is known, a second begins.
// Every such reading halves the uncertainty until it is about half of rtt. ok is
// false while nothing is known: then any time is good.
func (o *Offset) Probe(after, rtt int64) (send int64, ok bool) {
	offset, _, ok := o.At(after)
	if !ok {
		return after, false
	}
	const second = int64(time.Second)
	made := after + rtt/2
	ahead := (o.wall + made + offset) % second
	if ahead < 0 {
		ahead += second
	}
	if ahead > 0 {
		made += second - ahead
	}
	return made - rtt/2, true
}
