package load

import (
	"sync"
	"sync/atomic"

	"plimsoll/internal/record"
	"plimsoll/internal/stream"
)

// errorKinds is the number of error kinds that record knows.
const errorKinds = int(record.ClientResource) + 1

// Live are the counters of a run while it goes on. It is updated per request
// and per socket read, never per token. The zero value is ready; it must not be
// copied.
type Live struct {
	scheduled, sent, inFlight      atomic.Int64
	ok, failed, cancelled, incompl atomic.Int64
	byKind                         [errorKinds]atomic.Int64
	promptTokens                   atomic.Int64
	users, sessions                atomic.Int64
	step                           atomic.Int64
	client                         atomic.Pointer[stream.Client]

	// flows are the counters of the workloads, in the order in which they came; the
	// list is replaced, never changed. other is of workers that carry nothing out yet.
	flows   atomic.Pointer[[]*flow]
	flowsMu sync.Mutex // one at a time replaces flows
	other   flow
	firsts  firsts
}

// flow are the counters of one workload.
type flow struct {
	workload string
	index    int
	// sent are requests started, inFlight those of them that have not ended, decoding
	// those of these that have had output.
	sent, inFlight, decoding, outputTokens atomic.Int64
}

// flow returns the counters of a workload.
func (l *Live) flow(workload string) *flow {
	find := func() *flow {
		list := l.flows.Load()
		if list == nil {
			return nil
		}
		for _, f := range *list {
			if f.workload == workload {
				return f
			}
		}
		return nil
	}
	if f := find(); f != nil {
		return f
	}
	l.flowsMu.Lock()
	defer l.flowsMu.Unlock()
	if f := find(); f != nil {
		return f
	}
	var list []*flow
	if old := l.flows.Load(); old != nil {
		list = append(list, *old...)
	}
	f := &flow{workload: workload, index: len(list)}
	list = append(list, f)
	l.flows.Store(&list)
	return f
}

// Flow is a workload at one moment.
type Flow struct {
	Workload string
	// Sent are its requests started, InFlight those of them that have not yet ended,
	// Decoding those of these that have had output.
	Sent, InFlight, Decoding int64
	// OutputTokens is that of Snapshot.
	OutputTokens int64
}

// Flows appends the workloads of which a request was started, in that order,
// which does not change.
func (l *Live) Flows(dst []Flow) []Flow {
	if list := l.flows.Load(); list != nil {
		for _, f := range *list {
			dst = append(dst, Flow{f.workload, f.sent.Load(), f.inFlight.Load(), f.decoding.Load(), f.outputTokens.Load()})
		}
	}
	return dst
}

// First is the first output of a request that may still be running, and may yet
// fail. Times are ns.
type First struct {
	// Flow is the index of its workload in Flows.
	Flow int
	// At is when it came, on the run's clock; TTFT and FromSchedule are the times to
	// it from the start of the request and from its schedule.
	At, TTFT, FromSchedule int64
}

// mostFirsts bounds the first tokens that wait to be taken: as many as come in some
// seconds of the fastest runs. What is more is left out, of a provisional figure.
const mostFirsts = 1 << 16

// firsts are the first tokens that nobody has taken yet.
type firsts struct {
	wanted atomic.Bool
	mu     sync.Mutex // guards list
	list   []First
}

// TakeFirsts appends the first tokens since the last call, and from the first call
// on they are kept.
func (l *Live) TakeFirsts(dst []First) []First {
	l.firsts.wanted.Store(true)
	l.firsts.mu.Lock()
	defer l.firsts.mu.Unlock()
	dst = append(dst, l.firsts.list...)
	l.firsts.list = l.firsts.list[:0]
	return dst
}

func (f *firsts) add(v First) {
	f.mu.Lock()
	if len(f.list) < mostFirsts {
		f.list = append(f.list, v)
	}
	f.mu.Unlock()
}

// Snapshot is a Live at one moment. The counters are read one after another, so
// their sums may be off by the requests that changed state meanwhile.
type Snapshot struct {
	// Scheduled counts requests that have become due, Sent those that were
	// started.
	Scheduled, Sent                   int64
	OK, Failed, Cancelled, Incomplete int64
	// ByKind counts failures by record.ErrorKind.
	ByKind [errorKinds]int64
	// InFlight is the number of requests started and not yet ended.
	InFlight int64
	// OutputTokens counts output as far as it is known: one per output event
	// while a request runs, corrected by its real count when it ends.
	// PromptTokens are those of ended requests.
	OutputTokens, PromptTokens int64
	// Users is the number of users at work, or of sessions in an open loop.
	Users int64
	// Sessions is the number of sessions between their first request and the end of
	// their last.
	Sessions int64
	// Step is the index of the step under way.
	Step int64
	// OpenConnections is the number of connections open now, idle ones included.
	OpenConnections int64
}

// Ended returns the number of requests that have ended in any way.
func (s *Snapshot) Ended() int64 { return s.OK + s.Failed + s.Cancelled + s.Incomplete }

// Snapshot returns the counters as they are now.
func (l *Live) Snapshot() Snapshot {
	s := Snapshot{
		Scheduled: l.scheduled.Load(), Sent: l.sent.Load(), InFlight: l.inFlight.Load(),
		OK: l.ok.Load(), Failed: l.failed.Load(), Cancelled: l.cancelled.Load(), Incomplete: l.incompl.Load(),
		OutputTokens: l.other.outputTokens.Load(), PromptTokens: l.promptTokens.Load(),
		Users: l.users.Load(), Sessions: l.sessions.Load(), Step: l.step.Load(),
	}
	if c := l.client.Load(); c != nil {
		s.OpenConnections = c.OpenConnections()
	}
	if list := l.flows.Load(); list != nil {
		for _, f := range *list {
			s.OutputTokens += f.outputTokens.Load()
		}
	}
	for i := range s.ByKind {
		s.ByKind[i] = l.byKind[i].Load()
	}
	return s
}

// MostConnections returns the largest number of connections that were open at once.
func (l *Live) MostConnections() int64 {
	if c := l.client.Load(); c != nil {
		return c.MostConnections()
	}
	return 0
}

// ended counts one ended request.
func (l *Live) ended(r *record.Request) {
	switch r.Status {
	case record.OK:
		l.ok.Add(1)
	case record.Failed:
		l.failed.Add(1)
		if int(r.Error) < errorKinds {
			l.byKind[r.Error].Add(1)
		}
	case record.Cancelled:
		l.cancelled.Add(1)
	case record.Incomplete:
		l.incompl.Add(1)
	}
}
