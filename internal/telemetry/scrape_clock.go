package telemetry

import (
	"context"
	"strings"
	"time"

	"plimsoll/internal/clock"
	"plimsoll/internal/signal"
)

// A Date header names only a second, and readings on a fixed grid come at the same
// place of every second: they can tell a clock to half a second and no better. So
// a page is fetched a few times more, at moments at which by what is known a second
// begins there; each such answer halves what is not known.
const (
	// clockGoal is the uncertainty at which no more is asked; it grows again by what
	// clocks drift.
	clockGoal = 8 * time.Millisecond
	// clockCost is how long a page may take to be asked for again for its time: a
	// slow one holds its server up, and would not tell its time well.
	clockCost = 10 * time.Millisecond
	// clockTries bounds how often in a row a page is asked without getting to the goal.
	clockTries = 12
	// clockRest is how long it is left alone then.
	clockRest = 5 * time.Minute
	// dateResolution is what a Date header leaves open: the second that had begun.
	dateResolution = int64(time.Second)
	// keptDate is that of servers that make the header once a second and hand it out
	// until the next, as uvicorn does from a loop that ticks every 0.1 s.
	keptDate = int64(2200 * time.Millisecond)
)

// dates is what is known of the clock of one page's server.
type dates struct {
	offset *clock.Offset
	took   int64 // of the last reading, in ns
	tries  int
	rest   int64 // nothing is asked before this time
}

// resolutionOf returns what the Date header of a server leaves open, in ns.
func resolutionOf(server string) int64 {
	if strings.Contains(server, "uvicorn") {
		return keptDate
	}
	return dateResolution
}

// see takes what a reading showed of the clock.
func (d *dates) see(start time.Time, r *reading) {
	if d.offset == nil {
		d.offset = clock.NewOffset(start)
	}
	d.took = r.end - r.start
	for _, c := range r.clocks {
		if c.Kind == ClockSample {
			d.offset.ObserveAtLeast(c.End, c.Server)
		} else {
			d.offset.Observe(c.Start, c.End, c.Server, c.Resolution)
		}
	}
}

// next returns when the page should be asked for its clock, between now and
// before; ok is false when it should not.
func (d *dates) next(now, before int64) (at int64, ok bool) {
	if d.offset == nil || d.took > int64(clockCost) || now < d.rest {
		return 0, false
	}
	_, uncertainty, known := d.offset.At(now)
	if !known || uncertainty <= max(int64(clockGoal), d.took) {
		d.tries = 0
		return 0, false
	}
	if d.tries++; d.tries > clockTries {
		d.tries, d.rest = 0, now+int64(clockRest)
		return 0, false
	}
	at, ok = d.offset.Probe(now, d.took)
	// Out of the way of the next reading.
	return at, ok && at+4*d.took+int64(time.Millisecond) < before
}

// askClock asks the endpoint for its clock once more before the next reading, if
// that would tell something.
func (src *source) askClock(ctx context.Context, before int64) {
	p, ok := src.reader.(*pageSource)
	if !ok || !src.s.cfg.AskClocks || p.way.fresh {
		return // no page, or one that reading empties
	}
	c := src.s.cfg.Clock
	at, ok := p.dates.next(c.Now(), before)
	if !ok || c.SleepUntil(ctx, at) != nil {
		return
	}
	src.busy.Lock()
	defer src.busy.Unlock()
	f := p.fetch.get(ctx, p.url, p.header, min(src.s.cfg.Timeout, edgeTimeout))
	if f.state != StateOK || f.date == 0 {
		return
	}
	r := reading{start: f.start, end: f.end}
	r.date(&f)
	p.dates.see(c.Start(), &r)
	src.tell(ownSink{src.s.cfg.Sink, src.info.Index}, r.clocks)
	src.mu.Lock()
	defer src.mu.Unlock()
	for _, x := range r.clocks {
		src.clock.add(x)
	}
}

// date takes the Date header of an answer for a reading of the clock.
func (r *reading) date(f *fetched) {
	if f.date != 0 {
		r.clock(ClockDate, f, f.date*1e9, resolutionOf(f.server))
	}
}

// tell hands on what a reading showed of the source's clock.
func (src *source) tell(sink signal.Sink, clocks []ClockReading) {
	for _, c := range clocks {
		labels := "kind=" + string(c.Kind)
		if c.Resolution == keptDate {
			labels += ",resolution=" + time.Duration(keptDate).String()
		}
		id, ok := src.clocks[labels]
		if !ok {
			id = sink.Declare(signal.Series{Raw: ClockSeries, Labels: labels})
			src.clocks[labels] = id
		}
		src.one[0] = signal.Sample{Series: id, Start: c.Start, End: c.End, Value: float64(c.Server) / 1e9}
		sink.Add(src.one[:1])
	}
}
