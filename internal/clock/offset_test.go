package clock

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// remote is another host: its wall clock is off by offset and drifts.
type remote struct {
	start  time.Time
	offset int64
	drift  float64
}

// shows returns the other clock's time, in ns since 1970, at time t of the run.
func (r remote) shows(t int64) int64 {
	return r.start.UnixNano() + t + r.ahead(t)
}

func (r remote) ahead(t int64) int64 { return r.offset + int64(float64(t)*r.drift) }

// answer asks the other host at time t and returns when the stamp was made, and
// when the answer came. Each way takes at least least and has a tail.
func answer(rng *rand.Rand, t, least int64) (made, received int64) {
	way := func() int64 { return least + int64(rng.ExpFloat64()*float64(least)) }
	made = t + way()
	return made, made + way()
}

const ms = int64(time.Millisecond)

// TestOffsetIsInsideItsUncertainty asks a shifted and drifting clock over ways
// of random length, which answers with whole seconds or with fine times.
func TestOffsetIsInsideItsUncertainty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		r := remote{
			start:  time.Unix(1_700_000_000, rapid.Int64Range(0, 999_999_999).Draw(t, "fraction")),
			offset: rapid.Int64Range(-5_000_000*ms, 5_000_000*ms).Draw(t, "offset"),
			drift:  rapid.Float64Range(-40e-6, 40e-6).Draw(t, "drift"),
		}
		way := rapid.Int64Range(50_000, 4*ms).Draw(t, "way")
		whole := rapid.Bool().Draw(t, "whole seconds")
		o := NewOffset(r.start)
		last := int64(0)
		for i := range rapid.IntRange(30, 300).Draw(t, "readings") {
			at := int64(i) * int64(time.Second)
			if whole && i%3 == 0 { // now and then a request of its own
				if send, ok := o.Probe(at, 2*way); ok {
					at = send
				}
			}
			made, received := answer(rng, at, way)
			stamp, resolution := r.shows(made), int64(0)
			if whole {
				resolution = int64(time.Second)
				stamp = stamp / resolution * resolution
			}
			o.Observe(at, received, stamp, resolution)
			last = received
			offset, uncertainty, ok := o.At(last)
			if !ok {
				t.Fatalf("nothing is known after %d readings", i+1)
			}
			// A drift within the reading itself is not part of the bounds.
			if off := offset - r.ahead(last); off > uncertainty+ms/10 || off < -uncertainty-ms/10 {
				t.Fatalf("reading %d: offset is %d, found %d +- %d", i, r.ahead(last), offset, uncertainty)
			}
		}
		for _, at := range []int64{0, last / 2, last} {
			offset, uncertainty, ok := o.At(at)
			if off := offset - r.ahead(at); !ok || off > 20*ms || off < -20*ms || uncertainty > 20*ms {
				t.Errorf("at %d: offset is %d, found %d +- %d, %v", at, r.ahead(at), offset, uncertainty, ok)
			}
		}
		if len(o.Steps()) > 0 {
			t.Errorf("found steps at %v", o.Steps())
		}
	})
}

// TestOffsetFromAFixedGrid has whole seconds only and requests that always come
// at the same place in a second: then half a second is all that can be known.
func TestOffsetFromAFixedGrid(t *testing.T) {
	r := remote{start: time.Unix(1_700_000_000, 300_000_000), offset: 2_345 * ms}
	o := NewOffset(r.start)
	for i := range int64(60) {
		at := i * int64(time.Second)
		o.Observe(at, at+2*ms, r.shows(at+ms)/1e9*1e9, 1e9)
	}
	offset, uncertainty, ok := o.At(60e9)
	if !ok || uncertainty < 400*ms || uncertainty > 510*ms {
		t.Errorf("found %d +- %d, %v", offset, uncertainty, ok)
	}
	if off := offset - r.offset; off > uncertainty || off < -uncertainty {
		t.Errorf("offset is %d, found %d +- %d", r.offset, offset, uncertainty)
	}
	// Eight requests at chosen times are enough.
	for i := range int64(8) {
		at, ok := o.Probe((60+i)*1e9, 2*ms)
		if !ok || at < (60+i)*1e9 || at > (61+i)*1e9 {
			t.Fatalf("probe %d is at %d", i, at)
		}
		o.Observe(at, at+2*ms, r.shows(at+ms)/1e9*1e9, 1e9)
	}
	offset, uncertainty, _ = o.At(68e9)
	if off := offset - r.offset; uncertainty > 7*ms || off > uncertainty || off < -uncertainty {
		t.Errorf("offset is %d, found %d +- %d", r.offset, offset, uncertainty)
	}
}

func TestOffsetOfAClockThatWasSet(t *testing.T) {
	o := NewOffset(time.Unix(1_700_000_000, 0))
	wall := int64(1_700_000_000) * 1e9
	read := func(at, ahead int64) { o.Observe(at, at+ms, wall+at+ms/2+ahead, 0) }
	for i := range int64(20) {
		read(i*1e9, 5e9)
	}
	read(20e9, 1e9) // one old answer is no step
	read(21e9, 5e9)
	if len(o.Steps()) != 0 {
		t.Fatalf("one old answer made steps %v", o.Steps())
	}
	for i := int64(22); i < 40; i++ {
		read(i*1e9, -3e9)
	}
	if s := o.Steps(); len(s) != 1 || s[0] < 22e9 || s[0] > 23e9 {
		t.Errorf("steps are %v, want one at 22 s", s)
	}
	for _, c := range []struct{ at, want int64 }{{0, 5e9}, {15e9, 5e9}, {30e9, -3e9}, {50e9, -3e9}} {
		if offset, u, ok := o.At(c.at); !ok || offset < c.want-ms || offset > c.want+ms || u > 2*ms {
			t.Errorf("at %d: %d +- %d, %v, want %d", c.at, offset, u, ok, c.want)
		}
	}
	if o.Readings() != 40 {
		t.Errorf("%d readings", o.Readings())
	}
}

// TestOffsetOfAClockThatIsNone has clocks that jump: whatever was read first, it is not
// their offset.
func TestOffsetOfAClockThatIsNone(t *testing.T) {
	const hour, year = 3600e9, 365 * 24 * 3600e9
	wall := int64(1_700_000_000) * 1e9
	for name, c := range map[string]struct {
		ahead      func(i int64) int64
		resolution int64
		unsteady   bool
	}{
		"by an hour each time": {func(i int64) int64 { return i * hour }, 0, true},
		"and back":             {func(i int64) int64 { return []int64{0, hour, -hour, year}[i%4] }, 1e9, true},
		"by a year, back":      {func(i int64) int64 { return i % 2 * year }, 1e9, true},
		"every third time":     {func(i int64) int64 { return i % 3 / 2 * hour }, 0, true},
		"set all the time":     {func(i int64) int64 { return i / 4 * hour }, 0, true},
		"set now and then":     {func(i int64) int64 { return i / 20 * hour }, 0, false},
		"old now and then":     {func(i int64) int64 { return i % 8 / 7 * -60e9 }, 1e9, false},
		"steady":               {func(int64) int64 { return hour }, 1e9, false},
	} {
		o := NewOffset(time.Unix(1_700_000_000, 0))
		for i := range int64(60) {
			at := i * 300 * ms
			stamp := wall + at + ms/2 + c.ahead(i)
			if c.resolution > 0 {
				stamp -= stamp % c.resolution
			}
			o.Observe(at, at+ms, stamp, c.resolution)
			o.ObserveAtLeast(at+ms, wall+at-year) // old samples tell nothing, and excuse nothing
		}
		_, _, ok := o.At(15e9)
		_, probe := o.Probe(15e9, ms)
		if o.Unsteady() != c.unsteady || ok == c.unsteady || probe == c.unsteady {
			t.Errorf("%s: unsteady %v, an offset %v, a probe %v", name, o.Unsteady(), ok, probe)
		}
	}
}

func TestOffsetFromOneSide(t *testing.T) {
	o := NewOffset(time.Unix(1_700_000_000, 0))
	if _, _, ok := o.At(0); ok {
		t.Error("something is known from nothing")
	}
	if at, ok := o.Probe(7, 1); ok || at != 7 {
		t.Errorf("the first probe is at %d, %v", at, ok)
	}
	o.ObserveAtLeast(1e9, 1_700_000_002e9)
	if offset, u, ok := o.At(1e9); ok {
		t.Errorf("found %d +- %d from a lower bound", offset, u)
	}
	o.Observe(2e9, 2e9, 1_700_000_003e9, 1e9)
	if offset, u, ok := o.At(2e9); !ok || offset < 1_499*ms || offset > 1_501*ms || u > 501*ms {
		t.Errorf("found %d +- %d, %v", offset, u, ok)
	}
	o.Observe(3e9, 2e9, 0, 0) // a reading that ends before it begins says nothing
	if o.Readings() != 2 {
		t.Errorf("%d readings", o.Readings())
	}
}

// TestOffsetOfALongRun keeps the bounds of a day in little memory.
func TestOffsetOfALongRun(t *testing.T) {
	r := remote{start: time.Unix(1_700_000_000, 0), offset: -400 * ms, drift: 30e-6}
	o := NewOffset(r.start)
	rng := rand.New(rand.NewPCG(1, 2))
	const day = 86_400
	for i := range int64(day) {
		at := i * 1e9
		made, received := answer(rng, at, ms)
		o.Observe(at, received, r.shows(made), 0)
	}
	if n := len(o.windows); n > day/9 {
		t.Errorf("%d windows for %d readings", n, day)
	}
	for _, at := range []int64{0, day / 2 * 1e9, day * 1e9} {
		offset, u, ok := o.At(at)
		if off := offset - r.ahead(at); !ok || off > 5*ms || off < -5*ms || u > 5*ms {
			t.Errorf("at %d: offset is %d, found %d +- %d", at, r.ahead(at), offset, u)
		}
	}
	if len(o.Steps()) > 0 {
		t.Errorf("found steps at %v", o.Steps())
	}
}
