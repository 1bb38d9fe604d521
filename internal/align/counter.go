package align

// late is how many times the usual time between two readings may pass before the
// time between them counts as a gap: one reading that is missing is one.
const late = 1.5

// pace tells readings that follow one another from those with a gap between.
type pace struct {
	usual  int64 // the usual time between readings in ns
	before int64 // the last time between readings
	seen   int64 // the last reading
	any    bool
}

// next takes the time of a reading and says whether it is a new one, and whether
// there is a gap before it. A source that is read less often from now on has a
// gap once: the next such time is no longer than the one before.
func (p *pace) next(t int64) (last int64, first, fresh, gap bool) {
	if !p.any {
		p.any, p.seen = true, t
		return t, true, true, false
	}
	if t <= p.seen {
		return p.seen, false, false, false
	}
	last = p.seen
	between := t - last
	gap = float64(between) > late*float64(max(p.usual, p.before))
	p.seen, p.before = t, between
	return last, false, true, gap
}

// increase is by how much a counter rose between two instants.
type increase struct {
	from, to int64
	by       float64
	// gap: readings are missing in between, so that nobody knows when it rose.
	gap bool
	// restart: the counter began anew in between; what it had counted since the
	// reading before is lost, and by is what it has counted since.
	restart bool
}

// counter makes increases of the readings of a counter.
type counter struct {
	pace
	// period is the time between renewals where that is longer than the time between
	// readings, else 0.
	period int64
	since  int64 // when the value was read that the next increase counts from
	value  float64
	broken bool
}

// add takes a reading; restarted says that the server is known to have started
// since the last one. ok is false when it says nothing: it is the first, is not
// newer than the last, or repeats a value that has not been renewed yet.
func (c *counter) add(t int64, v float64, restarted bool) (inc increase, ok bool) {
	last, first, fresh, gap := c.next(t)
	if first {
		c.since, c.value = t, v
		return inc, false
	}
	if !fresh {
		return inc, false
	}
	c.broken = c.broken || gap
	at := t
	if c.period > 0 && !restarted {
		if v == c.value {
			// A renewal that left it as it was is taken for one when it must have come.
			if t-c.since < c.period+c.period/4 {
				return inc, false
			}
		} else if !gap {
			at = last + (t-last)/2 // renewed somewhere between the two readings
		}
	}
	inc = increase{from: c.since, to: at, by: v - c.value, gap: c.broken}
	if restarted || inc.by < 0 {
		inc.by, inc.restart = v, true
	}
	c.since, c.value, c.broken = at, v, false
	return inc, true
}

// gauge makes courses of the readings of a gauge. Between two readings each
// stands for the time that is nearer to it; where readings are missing, for half
// the usual time around it.
type gauge struct {
	pace
	value float64
}

// stretch is a stretch of time for which a value stands.
type stretch struct {
	from, to int64
	v        float64
}

// add takes a reading and returns the stretches of time for which it and the one
// before stand. fresh says whether it is a new one.
func (g *gauge) add(t int64, v float64) (held [3]stretch, fresh bool) {
	last, first, fresh, gap := g.next(t)
	if !fresh {
		return held, false
	}
	half := g.usual / 2
	if first || gap {
		held[0] = stretch{t - half, t, v}
	} else {
		middle := last + (t-last)/2
		held[0] = stretch{last, middle, g.value}
		held[1] = stretch{middle, t, v}
	}
	held[2] = stretch{t, t + half, v} // until the next one says otherwise
	g.value = v
	return held, true
}
