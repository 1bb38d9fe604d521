package live

import (
	"math"
	"slices"
	"time"

	"plimsoll/internal/align"
	"plimsoll/internal/detail"
	"plimsoll/internal/histogram"
	"plimsoll/internal/load"
	"plimsoll/internal/phrase"
	"plimsoll/internal/record"
	"plimsoll/internal/run"
	"plimsoll/internal/signal"
	"plimsoll/internal/stats"
)

// look is what the counters were at a second.
type look struct {
	second int64 // 0 before the first
	at     int64 // ns
	counts load.Snapshot
	flows  []load.Flow
	health Health
	good   int64
	// before has the looks of the last seconds, the newest last.
	before []past
}

// past is what is needed of a look for rates.
type past struct{ at, tokens, good int64 }

// rows knows the series of the store.
type rows struct {
	declared int // series of telemetry
	list     []run.TimelineRow
	// told are the series that a snapshot had, by their index.
	told []bool
	// members counts the series of single sources, engines and devices by signal and
	// stat; single says of a series that it is one.
	members map[[2]string]int
	cells   []Cell
	added   []int
}

// keptBusy is for how many seconds it is known whether the client was busy: longer
// than a source is waited for.
const keptBusy = 130

// mostMembers is how many single engines or devices of one signal are in snapshots;
// of more there are envelopes.
const mostMembers = 32

// set returns the values of the second of t; those of one that is too old go nowhere.
func (w *Watch) set(t int64) *set {
	k := t / second
	if k <= w.look.second-keptSets {
		return new(set)
	}
	s := w.sets[k]
	if s == nil {
		s = new(set)
		w.sets[k] = s
	}
	return s
}

// workload returns the number of a workload, from 1 on: that of the load's counters.
func (w *Watch) workload(name string) int {
	i := slices.IndexFunc(w.look.flows, func(f load.Flow) bool { return f.Workload == name })
	if i < 0 {
		w.look.flows = w.run.Live.Flows(w.look.flows[:0])
		i = slices.IndexFunc(w.look.flows, func(f load.Flow) bool { return f.Workload == name })
	}
	return i + 1 // 0: never started, so that it has no figure but its failure
}

// requestEnded takes a request that has ended.
func (w *Watch) requestEnded(r *record.Request) {
	at := r.End
	if at == record.Unset {
		at = max(r.Start, r.Scheduled)
	}
	w.set(at).request(r, w.workload(r.Workload))
	w.outcomes.add(r.Status == record.Failed)
	if r.Status == record.Failed && !w.firstFail {
		w.firstFail = true
		text, said := saysFirstFailure.Say(phrase.Text(r.Error.String()))
		if r.Message != "" {
			text, said = saysFirstFailed.Say(phrase.Text(r.Error.String()), phrase.Quote(r.Message))
		}
		w.doc.mark(detail.Mark{T: detail.ToMs(at), Kind: "note", Severity: "fail", Text: text, Said: said})
	}
	if v, ok := stats.SendLag(r); ok {
		w.sendLag.add(v)
	}
	if v, ok := stats.E2E(r); ok {
		w.e2e.add(v)
	}
	if v, _, ok := stats.TPOT(r); ok && r.Status == record.OK {
		w.tpot.add(int64(v + 0.5))
	}
	good := r.Status == record.OK
	for _, l := range w.limits {
		if kept := l.add(r); l.decides {
			good = good && kept
		}
	}
	if good {
		w.good++
	}
}

// sample reads the counters at second k.
func (w *Watch) sample(now, k int64) {
	last := w.look
	l := &w.look
	l.second, l.at = k, now
	l.counts = w.run.Live.Snapshot()
	l.flows = w.run.Live.Flows(nil)
	l.good = w.good
	if w.run.Health != nil {
		l.health = w.run.Health()
	}
	if last.second == 0 {
		last.second = k - 1
		last.at = min(now, (k-1)*second) // the first second began with nothing
	}
	l.before = append(l.before, past{l.at, l.counts.OutputTokens, l.good})
	if n := len(l.before); n > lookback+1 {
		l.before = slices.Delete(l.before, 0, n-lookback-1)
	}
	busy := last.counts.InFlight > 0 || l.counts.InFlight > 0 || l.counts.Sent > last.counts.Sent
	for i := last.second; i < k; i++ {
		w.busyAt[i] = busy
		delete(w.busyAt, i-keptBusy)
	}
	for _, r := range []*recent{&w.ttft, &w.tpot, &w.sendLag, &w.e2e, &w.canary} {
		r.advance(k)
	}
	for _, l := range w.limits {
		l.recent.advance(k)
	}
	w.client(&last)
}

// client makes the cells of what the counters say of the second before.
func (w *Watch) client(last *look) {
	l := &w.look
	t := (l.second - 1) * second
	dt := float64(l.at-last.at) / 1e9
	if dt <= 0 {
		return
	}
	put := func(id signal.ID, stat, workload string, v float64) {
		w.cell(t, detail.Key{Signal: id.String(), Stat: stat, Workload: workload}, v)
	}
	a, b := &last.counts, &l.counts
	put(signal.ClientUsers, "value", "", float64(b.Users))
	put(signal.ClientSessions, "value", "", float64(b.Sessions))
	put(signal.ClientInFlight, "value", "", float64(b.InFlight))
	rate := func(id signal.ID, workload string, before, now int64) {
		put(id, "rate", workload, max(0, float64(now-before)/dt))
	}
	rate(signal.ClientScheduled, "", a.Scheduled, b.Scheduled)
	rate(signal.ClientSent, "", a.Sent, b.Sent)
	rate(signal.ClientOK, "", a.OK, b.OK)
	rate(signal.ClientErrors, "", a.Failed, b.Failed)
	rate(signal.ClientCancelled, "", a.Cancelled, b.Cancelled)
	rate(signal.ClientPromptTokens, "", a.PromptTokens, b.PromptTokens)
	rate(signal.ClientOutputTokens, "", a.OutputTokens, b.OutputTokens)
	waiting, decoding := int64(0), int64(0)
	planned := w.store.Workloads()
	for i, f := range l.flows {
		waiting, decoding = waiting+f.InFlight-f.Decoding, decoding+f.Decoding
		if max(len(l.flows), len(planned)) < 2 {
			continue // one workload is all of them
		}
		put(signal.ClientInFlight, "value", f.Workload, float64(f.InFlight))
		put(signal.ClientWaitingFirst, "value", f.Workload, float64(max(0, f.InFlight-f.Decoding)))
		put(signal.ClientDecoding, "value", f.Workload, float64(f.Decoding))
		var before load.Flow
		if i < len(last.flows) {
			before = last.flows[i]
		}
		rate(signal.ClientSent, f.Workload, before.Sent, f.Sent)
		rate(signal.ClientOutputTokens, f.Workload, before.OutputTokens, f.OutputTokens)
	}
	// One that has not begun is at nothing, so that what is stacked begins where the run does.
	for _, name := range planned {
		if len(planned) > 1 && !slices.ContainsFunc(l.flows, func(f load.Flow) bool { return f.Workload == name }) {
			put(signal.ClientInFlight, "value", name, 0)
			put(signal.ClientSent, "rate", name, 0)
		}
	}
	put(signal.ClientWaitingFirst, "value", "", float64(max(0, waiting)))
	put(signal.ClientDecoding, "value", "", float64(decoding))
	h := &l.health
	if h.CPU > 0 && last.health.CPU > 0 && h.Cores > 0 {
		put(signal.ClientCPU, "value", "", max(0, float64(h.CPU-last.health.CPU)/1e9/dt/float64(h.Cores)))
	}
	if h.Canary != nil {
		lags := h.Canary.Clone()
		if w.lastLags != nil && lags.Subtract(w.lastLags) != nil {
			lags.Reset()
		}
		w.lastLags = h.Canary
		w.lags(t, signal.ClientCanaryLag, lags)
		w.canary.values[w.canary.second%lookback].Merge(lags)
	}
}

// lags makes the cells of a distribution of ns, in s.
func (w *Watch) lags(t int64, id signal.ID, h *histogram.Histogram) {
	if h.Count() == 0 {
		return
	}
	for _, s := range []struct {
		stat string
		ns   float64
	}{
		{"mean", h.Mean()},
		{"p50", float64(h.Quantile(0.5))},
		{"p95", float64(h.Quantile(0.95))},
		{"p99", float64(h.Quantile(0.99))},
		{"max", float64(h.Max())},
	} {
		w.cell(t, detail.Key{Signal: id.String(), Stat: s.stat}, s.ns/1e9)
	}
}

// cell adds a value to the store and to the next snapshot.
func (w *Watch) cell(t int64, key detail.Key, v float64) {
	id := w.store.AddCell(t, key, v)
	m := &w.rows
	single := key.Source != ""
	for len(m.told) <= id {
		m.told = append(m.told, false)
	}
	if single {
		if m.members == nil {
			m.members = make(map[[2]string]int)
		}
		of := [2]string{key.Signal, key.Stat}
		n := m.members[of]
		if !m.told[id] && n <= mostMembers {
			n++
			m.members[of] = n
		}
		if n > mostMembers {
			return
		}
	}
	if !m.told[id] {
		m.told[id] = true
		m.added = append(m.added, id)
	}
	m.cells = append(m.cells, Cell{id, detail.ToMs(t), v})
}

// publish makes the snapshot of second k.
func (w *Watch) publish(now, k int64, last bool) {
	w.mu.Lock()
	progress, steps, final := w.progress, w.steps, w.final
	w.mu.Unlock()
	if w.run.Sources != nil {
		infos := w.run.Sources()
		w.running.Sources(align.Sources(infos))
		w.doc.sources(w, k*second, infos)
	}
	w.rows.list = w.running.Rows(now, func(cell int64) bool { return w.busyAt[cell] }, w.rows.list[:0])
	for i := range w.rows.list {
		if r := &w.rows.list[i]; r.T >= 0 {
			w.cell(r.T, detail.Key{Signal: r.Signal, Stat: r.Stat, Source: r.Source, Labels: r.Labels}, r.Value)
		}
	}
	s := &Snapshot{
		T: detail.ToMs(k * second), Steps: len(w.run.Plan), Stopping: progress.Stopping,
		Reasons: []string{}, Said: []phrase.Said{}, Added: []detail.Series{}, Cells: []Cell{}, Bands: []Band{},
		Dropped: w.queue.dropped.Load() + w.tap.dropped.Load(),
	}
	if last {
		s.T = detail.ToMs(now)
	}
	names := make([]string, len(w.look.flows))
	for i, f := range w.look.flows {
		names[i] = f.Workload
	}
	for _, j := range sortedSeconds(w.sets) {
		v := w.sets[j]
		if j >= k && !last {
			break
		}
		if v.dirty {
			s.Bands = v.bands(j, names, s.Bands)
			v.dirty = false
		}
		if j == k-1 {
			w.lags(j*second, signal.ClientSendLag, &v.send)
			w.lags(j*second, signal.ClientReadLag, &v.read)
		}
		if j <= k-keptSets {
			delete(w.sets, j)
		}
	}
	s.Cells = append(s.Cells, w.rows.cells...)
	if len(w.rows.added) > 0 {
		from := slices.Min(w.rows.added)
		all := w.store.SeriesFrom(from)
		for _, id := range w.rows.added {
			s.Added = append(s.Added, all[id-from])
		}
	}
	w.rows.added, w.rows.cells = w.rows.added[:0], w.rows.cells[:0]
	s.Header = w.header()
	if n := len(steps); n > 0 {
		s.Step = int(steps[n-1].Index)
	}
	w.doc.phases(w, k*second, steps, progress.Draining, final != nil || last)
	s.Phase = w.doc.phase()
	if progress.Share >= 0 && len(steps) > 0 {
		s.Share = new(math.Round(1e4*progress.Share) / 1e4)
	}
	if progress.Left >= 0 && len(steps) > 0 {
		left := detail.ToMs(int64(progress.Left / time.Millisecond * time.Millisecond))
		s.Left = &left
	}
	if !last {
		w.judge(s, k*second)
	} else {
		w.doc.close(detail.ToMs(now))
	}
	if final != nil {
		verdict := string(final.Run.Verdict)
		s.Verdict = &verdict
		for _, r := range final.Run.Reasons {
			s.Reasons, s.Said = append(s.Reasons, r.Text), append(s.Said, r.Said)
		}
	}
	s.Marks = w.doc.news()
	w.ring.add(s)
}

// header makes the figures of the page's head.
func (w *Watch) header() Header {
	l := &w.look
	c := &l.counts
	h := Header{
		InFlight: c.InFlight, Users: c.Users, Sessions: c.Sessions, Scheduled: c.Scheduled, Sent: c.Sent,
		OK: c.OK, Failures: c.Failed, Cancelled: c.Cancelled, Incomplete: c.Incomplete, OutputTokens: c.OutputTokens,
		FailureShare: w.outcomes.share(), TTFTP95: w.ttft.quantile(0.95), TPOTP95: w.tpot.quantile(0.95),
		Limits: make([]LimitNow, 0, len(w.limits)),
	}
	decides := false
	for _, l := range w.limits {
		l.look()
		h.Limits = append(h.Limits, l.header())
		decides = decides || l.decides
	}
	first := l.before[0]
	if dt := float64(l.at-first.at) / 1e9; dt > 0 {
		h.OutputPerS = max(0, float64(c.OutputTokens-first.tokens)/dt)
		if decides {
			v := float64(l.good-first.good) / dt
			h.GoodputRPS = &v
		}
	}
	return h
}

// judge looks at what a second says of limits and of this process.
func (w *Watch) judge(s *Snapshot, at int64) {
	for _, l := range w.limits {
		changed, since := l.judge(at)
		if !changed {
			continue
		}
		if l.on {
			text, said := l.over()
			l.mark = w.doc.mark(detail.Mark{T: detail.ToMs(since), Kind: "threshold", Severity: "fail", Text: text, Said: said})
		} else {
			w.doc.until(l.mark, detail.ToMs(since))
		}
	}
	late, on, off := w.clientLate()
	if changed, since := w.late.look(at, on, off); changed {
		if w.late.on {
			text, said := late.mark.Say(late.lag)
			w.lateMark = w.doc.mark(detail.Mark{T: detail.ToMs(since), Kind: "note", Severity: "note", Text: text, Said: said})
		} else {
			w.doc.until(w.lateMark, detail.ToMs(since))
		}
	}
	if w.late.on {
		s.Verdict = new(string(stats.ClientBound))
		text, said := saysWasLate.Say()
		if on {
			text, said = late.reason.Say(late.lag)
		}
		s.Reasons, s.Said = append(s.Reasons, text), append(s.Said, said)
	}
	share := w.outcomes.share()
	enough := share != nil && w.outcomes.n >= leastOutcomes
	if changed, since := w.failing.look(at, enough && *share > failingShare, enough && *share <= failingShare/2); changed {
		if w.failing.on {
			text, said := saysFailing.Say(phrase.Share(*share))
			w.failMark = w.doc.mark(detail.Mark{T: detail.ToMs(since), Kind: "threshold", Severity: "fail", Text: text, Said: said})
		} else {
			w.doc.until(w.failMark, detail.ToMs(since))
		}
	}
}

const (
	// failingShare is the share of the last 100 requests from which on a mark tells
	// of failures, of at least leastOutcomes that have ended.
	failingShare  = 0.05
	leastOutcomes = 20
)

// What marks and reasons say while a run goes on.
var (
	saysFirstFailure = phrase.New("live.first_failure", "first failure: {error}")
	saysFirstFailed  = phrase.New("live.first_failure.message", "first failure: {error}: {message}")
	saysOver         = phrase.New("live.over", "{figure}{of} is over {limit}: {value}")
	saysInfinite     = phrase.New("live.over.infinite", "{figure}{of} is over {limit}: infinite, for requests failed")
	saysFailing      = phrase.New("live.failing", "{share} of the last requests failed")
	saysWasLate      = phrase.New("live.was_late", "this client was late a moment ago")
	saysLateToSend   = lateness{
		mark:   phrase.New("live.late.send", "this client is late: p99 of the send lag is {lag}"),
		reason: phrase.New("live.late.send.reason", "p99 of the send lag is {lag}"),
	}
	saysLateToRead = lateness{
		mark:   phrase.New("live.late.read", "this client is late: p99 of the canary's lag is {lag}"),
		reason: phrase.New("live.late.read.reason", "p99 of the canary's lag is {lag}"),
	}
)

// lateness is in what this process is late, and how much.
type lateness struct {
	mark, reason *phrase.Phrase
	lag          phrase.Value
}

// clientLate says whether the last seconds would make a run client-bound (on), by
// the limits of its verdict, or are well within them (off), and why.
func (w *Watch) clientLate() (why lateness, on, off bool) {
	off = true
	judge := func(what lateness, r *recent, limit float64) {
		h, _ := r.all()
		if h.Count() < leastValues {
			return
		}
		v := float64(h.Quantile(0.99)) / 1e6
		// As for the verdict, one hiccup among few values is no evidence.
		if least := float64(h.AtRank(uint64(stats.TailRank(int64(h.Count()))))) / 1e6; least > limit {
			on, why = true, what
			why.lag = phrase.Number(v, "ms")
		}
		off = off && v <= calm*limit
	}
	h, _ := w.e2e.all()
	mean := 0.0
	if h.Count() > 0 {
		mean = h.Mean() / 1e6
	}
	judge(saysLateToSend, &w.sendLag, stats.SendLagLimitMS(mean))
	judge(saysLateToRead, &w.canary, stats.MaxCanaryLagMS)
	return why, on, off
}
