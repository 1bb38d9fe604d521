package stats

import (
	"math"
	"slices"
	"time"

	"plimsoll/internal/histogram"
	"plimsoll/internal/record"
)

const (
	perMS = 1e6 // ns in a ms
	perS  = 1e9 // ns in a s
)

// part is a choice of steps and workloads; -1 means all of them.
type part struct{ step, workload int }

// steps returns the indexes of the chosen steps.
func (c *Collector) steps(p part) []int {
	if p.step >= 0 {
		return []int{p.step}
	}
	out := make([]int, len(c.in.Steps))
	for i := range out {
		out[i] = i
	}
	return out
}

// window returns the length of the chosen windows together in ns.
func (c *Collector) window(p part) int64 {
	var w int64
	for _, s := range c.steps(p) {
		w += c.in.Steps[s].End - c.in.Steps[s].Start
	}
	return w
}

// merged returns the sum of the chosen groups, and their histograms per block
// of each chosen step.
func (c *Collector) merged(p part) *group {
	m := new(group)
	for at, s := range c.steps(p) {
		for w, g := range c.groups[s] {
			if p.workload >= 0 && w != p.workload {
				continue
			}
			m.merge(g, at)
		}
	}
	return m
}

// merge adds g, whose blocks become those of the at-th step of m.
func (m *group) merge(g *group, at int) {
	m.req.Scheduled += g.req.Scheduled
	m.req.Sent += g.req.Sent
	m.req.OK += g.req.OK
	m.req.Error += g.req.Error
	m.req.Cancelled += g.req.Cancelled
	m.req.Incomplete += g.req.Incomplete
	m.req.SearchFailed += g.req.SearchFailed
	for i := range g.byError {
		m.byError[i] += g.byError[i]
	}
	m.prompt.merge(g.prompt)
	m.cached.merge(g.cached)
	m.output.merge(g.output)
	m.reasoning.merge(g.reasoning)
	m.source.Server += g.source.Server
	m.source.Tokenizer += g.source.Tokenizer
	m.source.None += g.source.None
	m.basis.FirstEvent += g.basis.FirstEvent
	m.basis.NMinus1 += g.basis.NMinus1
	m.promptOff.merge(g.promptOff)
	m.short += g.short
	m.long += g.long
	m.moreEvents += g.moreEvents
	m.countOff.Merge(&g.countOff)
	m.outputs += g.outputs
	m.bounded += g.bounded
	m.kernel += g.kernel
	m.user += g.user
	m.readLagMax = max(m.readLagMax, g.readLagMax)
	m.buffered += g.buffered
	m.late += g.late
	m.capHeld += g.capHeld
	m.started += g.started
	m.completed += g.completed
	m.promptIn.merge(g.promptIn)
	m.outputIn.merge(g.outputIn)
	m.reasoningIn.merge(g.reasoningIn)
	m.eventsUncounted += g.eventsUncounted
	m.bodiesUncounted += g.bodiesUncounted
	m.gapRequests += g.gapRequests
	m.itlRequests += g.itlRequests
	for _, h := range []struct {
		to   *[]*histogram.Histogram
		from []*histogram.Histogram
	}{{&m.gaps, g.gaps}, {&m.gaps, g.plain}, {&m.itls, g.itls}, {&m.itls, g.plain}, {&m.itlsBuffered, g.itlsBuffered}} {
		if h.from == nil {
			continue
		}
		for len(*h.to) < (at+1)*windowBlocks {
			*h.to = append(*h.to, nil)
		}
		for b, from := range h.from {
			if from == nil {
				continue
			}
			to := &(*h.to)[at*windowBlocks+b]
			if *to == nil {
				*to = new(histogram.Histogram)
			}
			(*to).Merge(from)
		}
	}
}

// samples returns metric m of the requests scheduled in the chosen windows,
// only the ok ones unless all is set. They are valid until the next call.
func (c *Collector) samples(p part, m metric, all bool) []sample {
	n := 0
	if p.step < 0 && p.workload < 0 {
		for _, k := range c.chunks {
			n += k.n
		}
	}
	out := c.scratch[:0]
	if cap(out) < 2*n {
		out = make([]sample, 0, 2*n) // twice, so that there is room to sort
	}
	c.rows(p, func(k *chunk, i int, block uint16) {
		if all || k.status[i] == record.OK {
			if v, ok := k.value(m, i); ok {
				out = append(out, sample{v, block})
			}
		}
	})
	c.scratch = out
	return out
}

// rows calls yield with each request scheduled in the chosen windows.
func (c *Collector) rows(p part, yield func(k *chunk, i int, block uint16)) {
	for _, k := range c.chunks {
		for i := range k.n {
			s := k.step[i]
			if s == notSteady || p.step >= 0 && int(s) != p.step || p.workload >= 0 && int(k.workload[i]) != p.workload {
				continue
			}
			block := uint16(k.block[i])
			if p.step < 0 {
				block += s * windowBlocks
			}
			yield(k, i, block)
		}
	}
}

// figures are the parts that the whole run, a step and a workload have alike.
type figures struct {
	Group
	group    *group
	blocking blocking
	window   int64
	sendLag  tail
}

// figures computes the figures of the chosen part.
func (c *Collector) figures(p part) *figures {
	f := &figures{group: c.merged(p), window: c.window(p)}
	e2e := c.samples(p, mE2E, false)
	sortSamples(e2e)
	mean := math.NaN()
	if len(e2e) > 0 {
		mean = *distOfSorted(e2e, 1, blocking{}).Mean
	}
	var windows []int64
	for _, s := range c.steps(p) {
		windows = append(windows, c.in.Steps[s].End-c.in.Steps[s].Start)
	}
	if len(windows)*windowBlocks < math.MaxUint16 {
		f.blocking = blockingFor(mean, windows)
	}
	e2eDist := distOfSorted(e2e, perMS, f.blocking)
	f.Requests = f.group.requests()
	f.Tokens = c.tokenFigures(f.group, f.window)

	ms := func(m metric) *Dist { return distOf(c.samples(p, m, false), perMS, f.blocking) }
	unless := func(differs bool, same *Dist, m metric) *Dist {
		if differs {
			return ms(m)
		}
		d := *same
		return &d
	}
	ttft := ms(mTTFT)
	tpots := c.samples(p, mTPOT, false)
	tpot := distOf(tpots, perMS, f.blocking)
	tokenRate := distOfSorted(inverse(tpots), 1, f.blocking)
	itls := mergeBlocks(f.group.itls, f.group.itlsBuffered)
	f.Latency = Latency{
		TTFT: ttft, TTFTFromSchedule: unless(c.differ.schedule, ttft, mTTFTFromSchedule),
		TTFC: unless(c.differ.content, ttft, mTTFC), TTLT: unless(c.differ.end, e2eDist, mTTLT),
		E2E: e2eDist, E2EFromSchedule: unless(c.differ.schedule, e2eDist, mE2EFromSchedule), TPOT: tpot,
		ITL:      distOfHistograms(itls, f.group.itlRequests, perMS, f.blocking),
		EventGap: distOfHistograms(f.group.gaps, f.group.gapRequests, perMS, f.blocking),
		Connect:  ms(mConnect), Upload: ms(mUpload), Retrieval: ms(mRetrieval),
	}
	f.Rates = RatesPart{
		PromptRate: distOf(c.samples(p, mPromptRate, false), 1, f.blocking),
		TokenRate:  tokenRate,
	}
	f.SLO = c.slo(p, f)
	return f
}

// inverse makes the times per token of sorted samples tokens per second, sorted.
// Times of 0 have no such rate and are left out.
func inverse(s []sample) []sample {
	for len(s) > 0 && s[0].v <= 0 {
		s = s[1:]
	}
	slices.Reverse(s)
	for i := range s {
		s[i].v = 1e9 / s[i].v
	}
	return s
}

// mergeBlocks returns per block the sum of a and b.
func mergeBlocks(a, b []*histogram.Histogram) []*histogram.Histogram {
	out := make([]*histogram.Histogram, max(len(a), len(b)))
	for i := range out {
		h := new(histogram.Histogram)
		for _, p := range [][]*histogram.Histogram{a, b} {
			if i < len(p) {
				h.Merge(p[i])
			}
		}
		if h.Count() > 0 {
			out[i] = h
		}
	}
	return out
}

// requests returns the counts with the kinds of error by name.
func (m *group) requests() Requests {
	r := m.req
	r.ByError = make(map[string]int64)
	for i, n := range m.byError {
		if n > 0 {
			r.ByError[ErrorName(record.ErrorKind(i))] += n
		}
	}
	return r
}

// tokenFigures returns sums and rates; window is in ns.
func (c *Collector) tokenFigures(g *group, window int64) Tokens {
	t := Tokens{
		Prompt: g.prompt.orNil(), Cached: g.cached.orNil(), Output: g.output.orNil(), Reasoning: g.reasoning.orNil(),
		Source: g.source, TPOTBasis: g.basis,
	}
	if window <= 0 {
		return t
	}
	s := float64(window) / perS
	if g.promptIn.n > 0 {
		t.PromptPerS = known(float64(g.promptIn.sum) / s)
	}
	if g.reasoningIn.n > 0 {
		t.ReasoningPerS = known(float64(g.reasoningIn.sum) / s)
	}
	came := Arrived{
		Tokens: g.outputIn.sum, Events: g.eventsUncounted, Bodies: g.bodiesUncounted, Any: g.started > 0 || g.outputIn.n > 0,
	}
	out, estimated, ok := came.total(c.tokens, c.events)
	if ok {
		t.OutputPerS = known(out / s)
		if out > 0 {
			t.EstimatedShare = known(estimated / out)
		}
	}
	if t.PromptPerS != nil && t.OutputPerS != nil {
		t.TotalPerS = known(float64(g.promptIn.sum)/s + out/s)
	}
	return t
}

// rates are the rates of the requests of a part.
func (f *figures) rates() GroupLoad {
	if f.window <= 0 {
		return GroupLoad{}
	}
	s := float64(f.window) / perS
	return GroupLoad{
		OfferedRPS: known(float64(f.group.req.Scheduled) / s), AchievedRPS: known(float64(f.group.started) / s),
		CompletedRPS: known(float64(f.group.completed) / s),
	}
}

// loadPart returns the rates and what was in flight.
func (c *Collector) loadPart(p part, f *figures, sessions []grid) LoadPart {
	r := f.rates()
	l := LoadPart{OfferedRPS: r.OfferedRPS, AchievedRPS: r.AchievedRPS, CompletedRPS: r.CompletedRPS}
	var requests, alive histogram.Histogram
	users := -1
	for _, s := range c.steps(p) {
		c.grids[s].counts(requests.Record)
		sessions[s].counts(alive.Record)
		u := c.in.Steps[s].Users
		if users >= 0 && u != users {
			u = 0
		}
		users = u
	}
	if users > 0 {
		l.Users = &users
	}
	l.RequestsInFlight, l.SessionsInFlight = distOfHistogram(&requests, 1), distOfHistogram(&alive, 1)
	return l
}

// Summary returns the figures of all requests added so far.
func (c *Collector) Summary() *Summary {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { c.scratch = nil }()
	s := &Summary{
		Schema: SummarySchemaName,
		Run:    RunPart{ID: c.in.ID, Name: c.in.Name, Started: c.in.Started.UTC().Format(time.RFC3339Nano)},
		Server: map[string]*Dist{}, Workloads: map[string]*Group{}, Steps: []Step{}, Findings: []Finding{},
	}
	if c.in.Duration > 0 {
		s.Run.DurationS = known(float64(c.in.Duration) / perS)
	} else if c.lastEnd > 0 {
		s.Run.DurationS = known(float64(c.lastEnd) / perS)
	}
	all := part{-1, -1}
	f := c.figures(all)
	if f.window > 0 {
		s.Run.WindowS = known(float64(f.window) / perS)
	}
	sessions := c.sessionGrids()
	s.Load = c.loadPart(all, f, sessions)
	s.Requests, s.Tokens, s.Latency, s.Rates, s.SLO = f.Requests, f.Tokens, f.Latency, f.Rates, f.SLO
	s.Client = c.clientPart(all, f)

	for _, name := range c.in.Named {
		c.named(name)
	}
	for w, name := range c.workloads {
		if name == "" {
			continue
		}
		g := f.Group
		g.Load = f.rates()
		switch own := (part{-1, w}); {
		case len(c.workloads) > 1:
			of := c.figures(own)
			g = of.Group
			g.Load = of.rates()
		case len(c.in.Workloads) > 0:
			g.SLO = c.slo(own, &figures{group: f.group, window: f.window})
		}
		s.Workloads[name] = &g
	}
	if len(c.in.Steps) > 1 {
		for i, in := range c.in.Steps {
			p := part{i, -1}
			sf := c.figures(p)
			st := Step{
				StartS: float64(in.Start) / perS, WindowS: float64(sf.window) / perS, Complete: in.Complete,
				Load: c.loadPart(p, sf, sessions), Requests: sf.Requests, Tokens: sf.Tokens,
				Latency: sf.Latency, Rates: sf.Rates, SLO: sf.SLO,
			}
			if in.Users > 0 {
				st.Users = &in.Users
			}
			if in.Users == 0 || in.Rate > 0 {
				st.Rate = known(in.Rate)
			}
			s.Steps = append(s.Steps, st)
		}
	}
	c.verdict(s, f)
	return s
}

func (c *Collector) clientPart(p part, f *figures) ClientPart {
	if c.in.Virtual {
		return ClientPart{SendLag: &Dist{}, ReadLag: &Dist{}}
	}
	g, ci := f.group, c.in.Client
	lags := c.samples(p, mSendLag, true)
	sendLag := distOf(lags, perMS, f.blocking)
	f.sendLag = tailOf(lags, SendLagLimitMS(or0(f.Latency.E2E.Mean)))
	cp := ClientPart{
		SendLag:        sendLag,
		ReadLag:        distOf(c.samples(p, mReadLag, true), perMS, blocking{}),
		CPUShare:       ci.CPUShare,
		DroppedRecords: ci.DroppedRecords, DroppedSamples: ci.DroppedSamples,
		OpenConnections: ci.OpenConnections,
	}
	if cp.ReadLag.Count > 0 {
		cp.ReadLagMax = known(float64(g.readLagMax) / perMS)
	}
	if ci.CanaryLag != nil {
		cp.CanaryLag = distOfHistogram(ci.CanaryLag, perMS)
	}
	if ci.GCPause != nil {
		cp.GCPause = distOfHistogram(ci.GCPause, perMS)
	}
	// One answer without kernel times makes the figures a mix: say the worse.
	switch {
	case g.user > 0:
		cp.Timestamps = new(string)
		*cp.Timestamps = "user"
	case g.kernel > 0:
		cp.Timestamps = new(string)
		*cp.Timestamps = "kernel"
	}
	if g.outputs > 0 {
		cp.BoundedEventShare = known(float64(g.bounded) / float64(g.outputs))
	}
	return cp
}
