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

// renewal finds the readings that bring something new, of a value that is renewed
// less often than it is read.
type renewal struct {
	// period is the time between renewals, 0 where every reading is of its moment.
	period int64
	since  int64 // when the value was renewed, or read
	value  float64
}

// at returns when a value that was read at t, and at last before, was renewed. ok is
// false when it has not been: it is the one from before, and the next is not due.
func (r *renewal) at(last, t int64, v float64, gap bool) (at int64, ok bool) {
	switch {
	case r.period == 0:
		return t, true
	case v != r.value:
		if gap {
			return t, true
		}
		return last + (t-last)/2, true // somewhere between the two readings
	case t-r.since < r.period+r.period/4:
		return 0, false
	}
	// It must have been, and was as before.
	return r.since + r.period, true
}

// counter makes increases of the readings of a counter.
type counter struct {
	pace
	renewal
	broken bool // a reading is missing since the value was renewed
	based  bool // since is when the value was renewed or read, not just seen
}

// add takes a reading; restarted says that the server is known to have started
// since the last one. ok is false when it says nothing: it is the first, is not
// newer than the last, or repeats a value that has not been renewed yet.
func (c *counter) add(t int64, v float64, restarted bool) (inc increase, ok bool) {
	last, first, fresh, gap := c.next(t)
	if first {
		c.since, c.value, c.based = t, v, c.period == 0
		return inc, false
	}
	if !fresh {
		return inc, false
	}
	c.broken = c.broken || gap
	at, ok := c.at(last, t, v, gap)
	if restarted {
		at, ok = t, true
	}
	if !ok {
		return inc, false
	}
	inc = increase{from: c.since, to: at, by: v - c.value, gap: c.broken}
	if restarted || inc.by < 0 {
		inc.by, inc.restart = v, true
	}
	ok = c.based // else nobody knows how old the first value was
	c.since, c.value, c.broken, c.based = at, v, false, true
	return inc, ok
}

// stretch is a stretch of time for which a value stands.
type stretch struct {
	from, to int64
	v        float64
}

// gauge makes courses of the readings of a gauge. Between two readings each
// stands for the time that is nearer to it; where readings are missing, for half
// the usual time around it. Of a value that is renewed less often than it is read,
// the renewals are the readings; the first value that is seen may be as old as one
// period, and is taken to be half of that.
type gauge struct {
	pace
	renewal
	broken bool
}

// add takes a reading and returns when its value was of, and the stretches of time
// for which it and the one before stand. fresh says whether it is a new one.
func (g *gauge) add(t int64, v float64) (at int64, held [3]stretch, fresh bool) {
	last, first, fresh, gap := g.next(t)
	if !fresh {
		return 0, held, false
	}
	half := max(g.usual, g.period) / 2
	g.broken = g.broken || gap
	if first {
		at = t - g.period/2
	} else if at, fresh = g.renewal.at(last, t, v, gap); !fresh {
		return 0, held, false
	}
	if first || g.broken {
		held[0] = stretch{at - half, at, v}
	} else {
		middle := g.since + (at-g.since)/2
		held[0] = stretch{g.since, middle, g.value}
		held[1] = stretch{middle, at, v}
	}
	held[2] = stretch{at, at + half, v} // until the next one says otherwise
	g.since, g.value, g.broken = at, v, false
	return at, held, true
}
