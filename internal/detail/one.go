package detail

import (
	"errors"
	"fmt"
	"slices"

	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/signal"
)

// ErrNoRequest says that a run has no request of a number.
var ErrNoRequest = errors.New("no such request")

// rowOf returns the row of request n.
func (v *view) rowOf(n int64) (int, bool) {
	if n < 0 {
		return 0, false
	}
	// Rows are in about the order of numbers: near by is where to look first.
	at := min(int(n), len(v.id)-1)
	for d := 0; d < len(v.id); d++ {
		if i := at - d; i >= 0 && int64(v.id[i]) == n {
			return i, true
		}
		if i := at + d; i < len(v.id) && int64(v.id[i]) == n {
			return i, true
		}
		if at-d < 0 && at+d >= len(v.id) {
			break
		}
	}
	return 0, false
}

// Request returns request n with its events, which are read from the run's folder, and
// what the servers said meanwhile. The error wraps ErrNoRequest when there is none. Of a
// request whose record is not on disk yet, or no more, or cannot be read, there is what
// Requests knows.
func (s *Store) Request(n int) (One, error) {
	v := s.view()
	row, ok := v.rowOf(int64(n))
	if !ok {
		err := fmt.Errorf("find request %d: %w", n, ErrNoRequest)
		for _, l := range s.Lost() {
			if l.Requests() {
				return One{}, fmt.Errorf("%w: it may be in %s, which cannot be read", err, l.File)
			}
		}
		return One{}, err
	}
	out := One{Row: v.row(row), Flags: record.Flags(v.of(row).flags).Names()}
	if out.Flags == nil {
		out.Flags = []string{}
	}
	r, err := s.record(&v, row)
	switch {
	case err == nil:
		out.fill(r)
	case errors.Is(err, run.ErrNoRecord):
		r = v.fromColumns(row)
		out.fill(r)
		out.Whole = false
	default: // its part is damaged: what the columns know is known still
		r = v.fromColumns(row)
		out.fill(r)
		out.Whole, out.Lost = false, new(err.Error())
	}
	from, to := r.Start, r.End
	if from == record.Unset {
		from = binTime(r)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if to == record.Unset {
		to = max(s.latest, from)
	}
	out.Server = s.signals.during(from, to)
	out.Engine = s.signals.engine(from, to)
	return out, nil
}

// record reads the record of a row.
func (s *Store) record(v *view, row int) (*record.Request, error) {
	if s.meta.Dir == "" {
		return nil, run.ErrNoRecord
	}
	r, err := s.located.open(s.meta.Dir)
	if err != nil {
		return nil, err
	}
	if v.place == nil {
		return r.FindRequest(uint64(v.id[row]))
	}
	s.mu.RLock()
	parts := s.parts
	s.mu.RUnlock()
	n := v.place[row]
	i, exact := slices.BinarySearchFunc(parts, n, func(p part, n uint32) int { return int(int64(p.First) - int64(n)) })
	if !exact {
		i--
	}
	if i < 0 {
		return nil, run.ErrNoRecord
	}
	q, err := r.RequestAt(run.Place{Part: parts[i].Name, Row: int64(n - parts[i].First)})
	if err == nil && q.ID != uint64(v.id[row]) {
		err = fmt.Errorf("%s is not what it was", parts[i].Name)
	}
	return q, err
}

// fromColumns makes a record of what the columns know.
func (v *view) fromColumns(row int) *record.Request {
	r := new(record.Request)
	r.Reset()
	r.Scheduled = v.scheduled[row]
	if d, ok := v.durations[colDelay].get(row); ok {
		r.Start = r.Scheduled + d
	}
	if t, ok := v.end(row); ok {
		r.End = t
	}
	after := func(f figure, p *int64) {
		if d, ok := v.value(row, f); ok && r.Start != record.Unset {
			*p = r.Start + int64(d)
		}
	}
	after(figTTFT, &r.FirstToken)
	after(figTTFC, &r.FirstContent)
	after(figTTLT, &r.LastToken)
	return r
}

// fill takes over what a record says.
func (o *One) fill(r *record.Request) {
	o.Whole = true
	o.Points = map[string]*Ms{
		"scheduled": msOrNil(r.Scheduled), "start": msOrNil(r.Start), "connected": msOrNil(r.Connected), "sent": msOrNil(r.Sent),
		"headers": msOrNil(r.Headers), "first_event": msOrNil(r.FirstEvent), "first_token": msOrNil(r.FirstToken),
		"first_content": msOrNil(r.FirstContent), "last_token": msOrNil(r.LastToken), "end": msOrNil(r.End),
		"retrieval_start": msOrNil(r.RetrievalStart), "retrieval_end": msOrNil(r.RetrievalEnd),
	}
	o.Message, o.KernelTimes, o.Remote, o.Text = r.Message, r.KernelTimes, r.Remote, r.Text
	o.Events = Events{T: make(Times, len(r.Events)), Tokens: make([]*int, len(r.Events)), Bounded: make([]bool, len(r.Events))}
	for i := range r.Events {
		e := &r.Events[i]
		o.Events.T[i], o.Events.Bounded[i] = float64(e.At)/perMS, e.Bounded
		if e.Tokens >= 0 {
			n := int(e.Tokens)
			o.Events.Tokens[i] = &n
		}
	}
}

// over returns what the cells of a series that touch [from, to] come to.
func (g *signals) over(id int, from, to int64) sum {
	b := buckets{from: floor(from, g.step) * g.step}
	b.step, b.n = (floor(to, g.step)+1)*g.step-b.from, 1
	out := make([]sum, 1)
	g.sums(id, b, out)
	return out[0]
}

// during returns what the signals of all servers together come to from one time to
// another.
func (g *signals) during(from, to int64) []ServerStat {
	out := []ServerStat{}
	for id, k := range g.keys {
		if k.Source != "" || k.Labels != "" || k.Workload != "" || !slices.Contains([]string{"value", "rate", "mean", "max"}, k.Stat) {
			continue
		}
		if of, ok := signal.Lookup(k.Signal); ok && (of.Def().Group == signal.Client || of.Def().Group == signal.Scrape || of.Def().Kind == signal.Constant) {
			continue
		}
		a := g.over(id, from, to)
		if a.weight == 0 {
			continue
		}
		out = append(out, ServerStat{Signal: k.Signal, Stat: k.Stat, Unit: g.series[id].Unit, Mean: known(a.mean()), Max: known(a.max)})
	}
	return out
}

// engine returns what the engines observed from one time to another, nil when they
// say nothing.
func (g *signals) engine(from, to int64) *EngineTimes {
	out, any := new(EngineTimes), false
	for of, at := range map[signal.ID]**float64{signal.QueueTime: &out.QueueMs, signal.PrefillTime: &out.PrefillMs, signal.DecodeTime: &out.DecodeMs} {
		id, ok := g.index[Key{Signal: of.String(), Stat: "mean"}]
		if !ok {
			continue
		}
		if a := g.over(id, from, to); a.weight > 0 {
			*at, any = known(a.mean()*1000), true
		}
	}
	if !any {
		return nil
	}
	return out
}
