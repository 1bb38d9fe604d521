package conduct

import (
	"time"

	"plimsoll/internal/load"
	"plimsoll/internal/record"
	"plimsoll/internal/twin"
)

// meterEvery is how many requests pass between two looks at the clock.
const meterEvery = 1024

// meter tells of the progress of the passes of a prediction. Its clock is this
// machine's, for the person who waits; nothing that is predicted depends on it.
type meter struct {
	p             *predictor
	next          twin.Sink
	pass, passes  int
	start, last   time.Time
	interval      time.Duration
	n, tokens     int64 // of this pass
	lastN, lastTk int64
	total         int64         // requests of the plan, 0 when they cannot be known
	length        time.Duration // of the plan, 0 when it cannot be known
	counts        load.Snapshot
}

func newMeter(p *predictor) *meter {
	m := &meter{p: p, start: time.Now(), interval: progressInterval}
	m.last = m.start
	for _, st := range p.plan {
		m.total += int64(st.Requests)
		m.length += st.Warmup + st.Duration
		if st.Requests == 0 {
			m.total = -1 << 62
		}
		if st.Duration == 0 {
			m.length = -1 << 62
		}
	}
	return m
}

// begin readies the meter for the next pass, whose requests go on to sink.
func (m *meter) begin(sink twin.Sink) twin.Sink {
	m.next, m.n, m.tokens, m.lastN, m.lastTk, m.counts = sink, 0, 0, 0, 0, load.Snapshot{}
	m.pass++
	return m
}

// Record passes a request on.
func (m *meter) Record(f *twin.Finished) {
	m.next.Record(f)
	r := &f.Request
	m.n++
	m.tokens += int64(max(r.Output, 0))
	switch r.Status {
	case record.OK:
		m.counts.OK++
	case record.Failed:
		m.counts.Failed++
	case record.Cancelled:
		m.counts.Cancelled++
	case record.Incomplete:
		m.counts.Incomplete++
	}
	if m.n%meterEvery != 0 || m.p.cfg.Progress == nil {
		return
	}
	now := time.Now()
	span := now.Sub(m.last)
	if span < m.interval {
		return
	}
	step := min(int(r.Step), len(m.p.plan)-1)
	c := Progress{
		Model: m.p.scenario.Target.Model, Phase: record.Steady, Step: step, Steps: len(m.p.plan),
		Users: m.p.plan[step].Users, Rate: m.p.plan[step].Rate, Elapsed: now.Sub(m.start), Share: -1, Left: -1, Counts: m.counts,
		EndedPerS: float64(m.n-m.lastN) / span.Seconds(), TokensPerS: float64(m.tokens-m.lastTk) / span.Seconds(),
	}
	m.last, m.lastN, m.lastTk = now, m.n, m.tokens
	of := -1.0
	switch {
	case m.total > 0:
		of = float64(m.n) / float64(m.total)
	case m.length > 0:
		of = float64(r.End) / float64(m.length)
	}
	if of >= 0 && m.passes > 0 {
		c.Share = (float64(m.pass-1) + min(of, 1)) / float64(m.passes)
		if c.Share > 0 {
			c.Left = time.Duration(float64(c.Elapsed) * (1 - c.Share) / c.Share)
		}
	}
	m.p.cfg.Progress(c)
}
