package align

import (
	"iter"
	"math"
	"slices"

	"plimsoll/internal/histogram"
	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/signal"
	"plimsoll/internal/stats"
)

// The client's figures of one cell are made of the records, which come in about
// the order of their ends. A cell is complete once nothing that comes later can
// reach back to it; a first look at the records says how far that is.

// span is a stretch of cells in which a user or a session was there.
type span struct {
	id       uint64
	workload uint32
	from, to int64 // ns
}

// spans puts stretches of the same user or session and workload together. It keeps
// 32 bytes for each, and works through them whenever there are twice as many as
// before.
type spans struct {
	list []span
	next int // the number at which to put together again
}

func (s *spans) add(v span) {
	s.list = append(s.list, v)
	if s.next == 0 {
		s.next = 1 << 16
	}
	if len(s.list) >= s.next {
		s.join()
		s.next = max(s.next, 2*len(s.list))
	}
}

func (s *spans) join() {
	slices.SortFunc(s.list, func(a, b span) int {
		switch {
		case a.id < b.id:
			return -1
		case a.id > b.id:
			return 1
		}
		return int(a.workload) - int(b.workload)
	})
	n := 0
	for _, v := range s.list {
		if n > 0 && s.list[n-1].id == v.id && s.list[n-1].workload == v.workload {
			last := &s.list[n-1]
			last.from, last.to = min(last.from, v.from), max(last.to, v.to)
			continue
		}
		s.list[n] = v
		n++
	}
	s.list = s.list[:n]
}

// crowd is how many were there, in ns of time spent per cell.
type crowd struct {
	step    int64
	first   int64   // index of the first cell
	partial []int64 // ns spent in cells that were not spent whole
	change  []int32 // by how much the number of those that spent it whole changes
}

func newCrowd(step, first, cells int64) *crowd {
	return &crowd{step: step, first: first, partial: make([]int64, cells+1), change: make([]int32, cells+1)}
}

func (c *crowd) add(from, to int64) {
	from = max(from, c.first*c.step)
	to = min(to, (c.first+int64(len(c.partial))-1)*c.step)
	if from >= to {
		return
	}
	a, b := from/c.step, to/c.step // no time is before the first cell, which is not before the start
	if a == b {
		c.partial[a-c.first] += to - from
		return
	}
	c.partial[a-c.first] += (a+1)*c.step - from
	c.partial[b-c.first] += to - b*c.step
	c.change[a+1-c.first]++
	c.change[b-c.first]--
}

// clientCell is what is counted for one workload in one cell.
type clientCell struct {
	inFlight, waiting, decoding    int64 // ns spent in part
	dInFlight, dWaiting, dDecoding int32 // change of the number that spend all of it
	scheduled, sent, ok, failed    int32
	cancelled                      int32
	prompt, output                 float64
	ttft, tpot, e2e, send, read    []int64
	itl                            histogram.Histogram
}

func (c *clientCell) reset() {
	c.itl.Reset()
	*c = clientCell{ttft: c.ttft[:0], tpot: c.tpot[:0], e2e: c.e2e[:0], send: c.send[:0], read: c.read[:0], itl: c.itl}
}

// client makes the client's rows.
type client struct {
	step      int64
	end       int64 // when the run ended
	workloads []string
	index     map[string]int // of workloads, from 1 on; 0 is all of them
	perEvent  float64
	prompts   bool // whether anybody counted prompt tokens
	outputs   bool
	behind    int64
	users     []*crowd
	sessions  []*crowd
	nUsers    []int32
	nSessions []int32
	running   [][3]int32 // in flight, waiting, decoding since before the cell, by workload

	cells map[int64][]clientCell // open cells, by index
	free  [][]clientCell
	// Of the steady windows: requests that ended well, output tokens that came.
	windows      []window
	okInside     float64
	tokensInside float64
	firstAt      int64 // when the first request was scheduled

	next    func() (*record.Request, bool)
	stop    func()
	reached int64 // the latest end so far
	done    bool
}

// latest returns the last point of time that a record states, and the earliest.
func latest(r *record.Request) (earliest, last int64) {
	earliest, last = int64(math.MaxInt64), int64(math.MinInt64)
	for _, t := range []int64{r.Scheduled, r.Start, r.FirstToken, r.LastToken, r.End} {
		if t != record.Unset {
			earliest, last = min(earliest, t), max(last, t)
		}
	}
	return earliest, last
}

// newClient takes a first look at the records.
func newClient(in *Input, step int64) *client {
	c := &client{step: step, index: make(map[string]int), cells: make(map[int64][]clientCell), firstAt: math.MaxInt64}
	for _, w := range in.Run.Steps {
		c.windows = append(c.windows, window{w.Start, w.End})
	}
	var tokens, events int64
	var users, sessions spans
	reached := int64(0)
	for r := range in.Requests {
		w, known := c.index[r.Workload]
		if !known {
			w = len(c.workloads) + 1
			c.index[r.Workload] = w
			c.workloads = append(c.workloads, r.Workload)
		}
		earliest, last := latest(r)
		if last < earliest {
			continue
		}
		c.firstAt = min(c.firstAt, earliest)
		reached = max(reached, last)
		c.behind = max(c.behind, reached-earliest)
		c.end = max(c.end, last)
		from, to := r.Scheduled, r.End
		if from == record.Unset {
			from = earliest
		}
		if to == record.Unset {
			to = last
		}
		users.add(span{uint64(r.User), uint32(w), from, to})
		sessions.add(span{r.Session, uint32(w), from, to})
		c.prompts = c.prompts || r.Prompt >= 0
		c.outputs = c.outputs || r.Output >= 0
		n, counted := int64(0), len(r.Events) > 0
		for i := range r.Events {
			if r.Events[i].Tokens < 0 {
				counted = false
				break
			}
			n += int64(r.Events[i].Tokens)
		}
		if counted {
			tokens, events = tokens+n, events+int64(len(r.Events))
			c.outputs = true
		}
	}
	if events > 0 {
		c.perEvent = float64(tokens) / float64(events)
	}
	c.end = max(c.end, in.Run.Duration)
	n := 1
	if len(c.workloads) > 1 {
		n += len(c.workloads)
	} else {
		clear(c.index) // one workload is all of them
	}
	c.nUsers, c.nSessions, c.running = make([]int32, n), make([]int32, n), make([][3]int32, n)
	cells := c.end/step + 1
	there := func(s *spans) []*crowd {
		s.join()
		out := make([]*crowd, n)
		for i := range out {
			out[i] = newCrowd(step, 0, cells)
		}
		for i := 0; i < len(s.list); {
			all := s.list[i]
			for ; i < len(s.list) && s.list[i].id == all.id; i++ {
				v := &s.list[i]
				all.from, all.to = min(all.from, v.from), max(all.to, v.to)
				if n > 1 {
					out[v.workload].add(v.from, v.to)
				}
			}
			out[0].add(all.from, all.to)
		}
		return out
	}
	c.users, c.sessions = there(&users), there(&sessions)
	c.next, c.stop = iter.Pull(in.Requests)
	return c
}

// close gives up what is left of the records.
func (c *client) close() { c.stop() }

// cell returns the open cell of time t, for all workloads.
func (c *client) cell(t int64) []clientCell {
	i := floor(t, c.step)
	cell, ok := c.cells[i]
	if !ok {
		if n := len(c.free); n > 0 {
			cell, c.free = c.free[n-1], c.free[:n-1]
		} else {
			cell = make([]clientCell, len(c.running))
		}
		c.cells[i] = cell
	}
	return cell
}

// each calls do with the cells of time t of all workloads and of the given one.
func (c *client) each(t int64, w int, do func(*clientCell)) {
	if t < 0 || t == record.Unset {
		return
	}
	cell := c.cell(t)
	do(&cell[0])
	if w > 0 {
		do(&cell[w])
	}
}

// during counts time spent from one instant to another.
func (c *client) during(from, to int64, w int, part func(*clientCell) *int64, change func(*clientCell) *int32) {
	from = max(from, 0)
	if from >= to {
		return
	}
	a, b := from/c.step, to/c.step
	if a == b {
		c.each(from, w, func(k *clientCell) { *part(k) += to - from })
		return
	}
	c.each(from, w, func(k *clientCell) { *part(k) += (a+1)*c.step - from })
	c.each((a+1)*c.step, w, func(k *clientCell) { *change(k)++ })
	c.each(b*c.step, w, func(k *clientCell) { *change(k)--; *part(k) += to - b*c.step })
}

// steady says whether t is in a steady window.
func (c *client) steady(t int64) bool {
	for _, w := range c.windows {
		if t >= w.start && t < w.end {
			return true
		}
	}
	return false
}

// add counts one record.
func (c *client) add(r *record.Request) {
	w := c.index[r.Workload]
	c.each(r.Scheduled, w, func(k *clientCell) { k.scheduled++ })
	c.each(r.Start, w, func(k *clientCell) { k.sent++ })
	end := r.End
	if end == record.Unset {
		end = c.end
	} else {
		c.each(end, w, func(k *clientCell) {
			switch r.Status {
			case record.OK:
				k.ok++
			case record.Failed:
				k.failed++
			case record.Cancelled:
				k.cancelled++
			case record.Incomplete:
			}
		})
	}
	if r.Start != record.Unset {
		c.during(r.Start, end, w, func(k *clientCell) *int64 { return &k.inFlight }, func(k *clientCell) *int32 { return &k.dInFlight })
		first := end
		if r.FirstToken != record.Unset {
			first = min(r.FirstToken, end)
			c.during(first, end, w, func(k *clientCell) *int64 { return &k.decoding }, func(k *clientCell) *int32 { return &k.dDecoding })
		}
		c.during(r.Start, first, w, func(k *clientCell) *int64 { return &k.waiting }, func(k *clientCell) *int32 { return &k.dWaiting })
	}
	if at, ok := stats.PromptArrival(r); ok && r.Prompt >= 0 {
		c.each(at, w, func(k *clientCell) { k.prompt += float64(r.Prompt) })
	}
	if r.Status == record.OK && r.End != record.Unset && c.steady(r.End) {
		c.okInside++
	}
	stats.Arrivals(r, c.perEvent, func(at int64, tokens float64) {
		if c.steady(at) {
			c.tokensInside += tokens
		}
		c.each(at, w, func(k *clientCell) { k.output += tokens })
	})
	if v, ok := stats.SendLag(r); ok {
		c.each(r.Start, w, func(k *clientCell) { k.send = append(k.send, v) })
	}
	if v, ok := stats.ReadLag(r); ok {
		c.each(r.End, w, func(k *clientCell) { k.read = append(k.read, v) })
	}
	if r.Status != record.OK {
		return
	}
	if v, ok := stats.TTFT(r); ok {
		c.each(r.FirstToken, w, func(k *clientCell) { k.ttft = append(k.ttft, v) })
	}
	if v, ok := stats.E2E(r); ok {
		c.each(r.End, w, func(k *clientCell) { k.e2e = append(k.e2e, v) })
	}
	if v, _, ok := stats.TPOT(r); ok {
		c.each(r.End, w, func(k *clientCell) { k.tpot = append(k.tpot, int64(math.Round(v))) })
	}
	stats.ITLTimes(r, func(at, gap int64, tokens int32) {
		c.each(at, w, func(k *clientCell) { k.itl.RecordShared(gap, uint64(tokens)) })
	})
}

// advance reads records until cell i is complete.
func (c *client) advance(i int64) {
	until := (i+1)*c.step + c.behind
	for !c.done && c.reached < until {
		r, ok := c.next()
		if !ok {
			c.done = true
			return
		}
		_, last := latest(r)
		c.reached = max(c.reached, last)
		c.add(r)
	}
}

// busy says whether any request was in flight in cell i, which must be complete.
func (c *client) busy(i int64) bool {
	if i < 0 {
		return false
	}
	cell, ok := c.cells[i]
	return c.running[0][0] > 0 || ok && (cell[0].inFlight > 0 || cell[0].dInFlight > 0 || cell[0].sent > 0)
}

// rows appends the rows of cell i, which must be complete; cells come in order.
func (c *client) rows(i int64, rows []run.TimelineRow) []run.TimelineRow {
	t := i * c.step
	covered := min(c.end-t, c.step)
	if i < 0 || covered <= 0 {
		return rows
	}
	cell, open := c.cells[i]
	if !open {
		cell = c.cell(t)
	}
	delete(c.cells, i)
	for w := range cell {
		k := &cell[w]
		name := ""
		if w > 0 {
			if name = c.workloads[w-1]; name == "" {
				continue
			}
		}
		put := func(id signal.ID, stat string, v float64) {
			rows = append(rows, run.TimelineRow{T: t, Signal: id.String(), Stat: stat, Workload: name, Value: v})
		}
		there := func(id signal.ID, crowd *crowd, n *int32) {
			*n += crowd.change[i]
			put(id, statValue, (float64(crowd.partial[i])+float64(*n)*float64(c.step))/float64(covered))
		}
		there(signal.ClientUsers, c.users[w], &c.nUsers[w])
		there(signal.ClientSessions, c.sessions[w], &c.nSessions[w])
		on := &c.running[w]
		for j, s := range []struct {
			id     signal.ID
			part   int64
			change int32
		}{
			{signal.ClientInFlight, k.inFlight, k.dInFlight},
			{signal.ClientWaitingFirst, k.waiting, k.dWaiting},
			{signal.ClientDecoding, k.decoding, k.dDecoding},
		} {
			on[j] += s.change
			put(s.id, statValue, (float64(s.part)+float64(on[j])*float64(c.step))/float64(covered))
		}
		rate := func(id signal.ID, v float64) { put(id, statRate, v/(float64(c.step)/1e9)) }
		rate(signal.ClientScheduled, float64(k.scheduled))
		rate(signal.ClientSent, float64(k.sent))
		rate(signal.ClientOK, float64(k.ok))
		rate(signal.ClientErrors, float64(k.failed))
		rate(signal.ClientCancelled, float64(k.cancelled))
		if c.prompts {
			rate(signal.ClientPromptTokens, k.prompt)
		}
		if c.outputs {
			rate(signal.ClientOutputTokens, k.output)
		}
		for _, d := range []struct {
			id     signal.ID
			values []int64
		}{
			{signal.ClientTTFT, k.ttft},
			{signal.ClientTPOT, k.tpot},
			{signal.ClientE2E, k.e2e},
			{signal.ClientSendLag, k.send},
			{signal.ClientReadLag, k.read},
		} {
			if len(d.values) == 0 {
				continue
			}
			slices.Sort(d.values)
			sum := 0.0
			for _, v := range d.values {
				sum += float64(v)
			}
			n := len(d.values)
			put(d.id, statMean, sum/float64(n)/1e9)
			for _, q := range quantiles {
				put(d.id, q.name, float64(d.values[q.rank(n)-1])/1e9)
			}
			put(d.id, statMax, float64(d.values[n-1])/1e9)
		}
		if k.itl.Count() > 0 {
			put(signal.ClientITL, statMean, k.itl.Mean()/1e9)
			for _, q := range quantiles {
				put(signal.ClientITL, q.name, float64(k.itl.Quantile(q.q))/1e9)
			}
			put(signal.ClientITL, statMax, float64(k.itl.Max())/1e9)
		}
		k.reset()
	}
	c.free = append(c.free, cell)
	return rows
}

// quantile is one of those that the timeline has, with its name.
type quantile struct {
	name      string
	low, high string // of the bounds of its bucket
	q         float64
	mil       int // in thousandths, so that ranks are whole arithmetic
}

// rank returns its nearest rank among n values, 1 being the smallest.
func (q quantile) rank(n int) int { return max((n*q.mil+999)/1000, 1) }

var quantiles = [...]quantile{
	{"p50", "p50_low", "p50_high", 0.5, 500},
	{"p95", "p95_low", "p95_high", 0.95, 950},
	{"p99", "p99_low", "p99_high", 0.99, 990},
}

// The stats of a row.
const (
	statValue     = "value"
	statRate      = "rate"
	statMean      = "mean"
	statMax       = "max"
	statImbalance = "imbalance"
)

// floor returns the index of the cell of time t.
func floor(t, step int64) int64 {
	i := t / step
	if t%step < 0 {
		i--
	}
	return i
}
