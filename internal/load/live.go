package load

import (
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
	outputTokens, promptTokens     atomic.Int64
	users, sessions                atomic.Int64
	step                           atomic.Int64
	client                         atomic.Pointer[stream.Client]
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
		OutputTokens: l.outputTokens.Load(), PromptTokens: l.promptTokens.Load(),
		Users: l.users.Load(), Sessions: l.sessions.Load(), Step: l.step.Load(),
	}
	s.OpenConnections = l.OpenConnections()
	for i := range s.ByKind {
		s.ByKind[i] = l.byKind[i].Load()
	}
	return s
}

// OpenConnections returns the number of connections open now, idle ones
// included.
func (l *Live) OpenConnections() int64 {
	if c := l.client.Load(); c != nil {
		return c.OpenConnections()
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
