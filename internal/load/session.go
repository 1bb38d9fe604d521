package load

import (
	"fmt"
	"sync"

	"plimsoll/internal/record"
	"plimsoll/internal/workload"
)

// visit is what is known of a machine's way through a step beside its actions.
type visit struct {
	user uint32
	// branch is true for a branch of a session: the session is counted already.
	branch bool
	// open is true between the first request of a session and the end of its last,
	// number says which.
	open   bool
	number uint64
	// last is what became of the last request; ended is when the machine was told
	// something last.
	last  workload.Outcome
	ended int64
}

// drive runs a machine from action a to its end or that of the step, and returns
// whether it came to its own end.
func (s *step) drive(w *worker, m workload.Machine, a workload.Action, v *visit) bool {
	clock := s.run.cfg.Clock
	defer v.leave(s)
	for {
		switch a.Kind {
		case workload.End:
			return true
		case workload.Wait:
			if a.At >= s.res.SteadyEnd || clock.SleepUntil(s.more, a.At) != nil {
				return false
			}
			// A wait ends when it was to end: who is told late is not asked for more.
			v.ended = max(a.At, v.ended)
			a = m.Done(max(a.At, clock.Now()), workload.Outcome{})
		case workload.Send:
			if s.run.soft.Err() != nil {
				return false
			}
			if !s.ask(w, m, &a, v) {
				return false
			}
			a = v.told(s, m, w.outcome())
		case workload.Fork:
			s.run.pantry.foresee(m)
			if a.At >= s.res.SteadyEnd || clock.SleepUntil(s.more, a.At) != nil {
				return false
			}
			o, ok := s.fork(a.Branches, max(a.At, v.ended), v)
			if !ok {
				return false
			}
			v.ended = o.Ended
			a = m.Done(o.Ended, o)
		}
	}
}

// ask prepares a request, waits until it is due and carries it out. It returns
// false when it does not belong to the step any more.
func (s *step) ask(w *worker, m workload.Machine, a *workload.Action, v *visit) bool {
	if a.Retrieval != nil {
		return s.searchAndAsk(w, m, a, v)
	}
	phase, ok := s.admit(a)
	if !ok {
		return false
	}
	w.begin(s, a, v.user, phase)
	w.body = s.run.render(w.body, m, a)
	fits := w.fits()
	defer func() { w.body = s.run.release(w.body) }()
	s.run.pantry.foresee(m)
	if s.run.cfg.Clock.SleepUntil(s.run.soft, a.At) != nil {
		return false
	}
	w.rec.ID = s.due(phase)
	v.enter(s, a.Session)
	if fits && s.slot(&w.rec, a) {
		s.send(w, a, w.body)
	}
	s.finish(w)
	return true
}

// searchAndAsk is ask of a request with a retrieval, whose time is known when that
// has ended.
func (s *step) searchAndAsk(w *worker, m workload.Machine, a *workload.Action, v *visit) bool {
	if a.At >= s.res.SteadyEnd || s.more.Err() != nil {
		return false
	}
	w.body = s.run.render(w.body, m, a)
	defer func() { w.body = s.run.release(w.body) }()
	s.run.pantry.foresee(m)
	found, ok := s.retrieve(a)
	if !ok {
		return false
	}
	phase, ok := s.admit(a)
	if !ok {
		return false
	}
	w.begin(s, a, v.user, phase)
	w.rec.ID = s.due(phase)
	v.enter(s, a.Session)
	switch {
	case !w.fits():
	case !found.note(w):
		if why, message := s.run.guard.ended(&w.rec, 0); why != Completed {
			s.run.stop(why, message, true)
		}
	case s.slot(&w.rec, a):
		s.send(w, a, w.body)
	}
	s.finish(w)
	return true
}

// told tells a machine what became of its request and returns what comes next.
func (v *visit) told(s *step, m workload.Machine, o workload.Outcome) workload.Action {
	v.last, v.ended = o, o.Ended
	a := m.Done(o.Ended, o)
	if a.Kind == workload.End || a.Kind == workload.Send && a.Session != v.number {
		v.leave(s)
	}
	return a
}

// enter counts a session whose first request is due.
func (v *visit) enter(s *step, number uint64) {
	if !v.open && !v.branch {
		v.open, v.number = true, number
		s.run.live.sessions.Add(1)
	}
}

// leave counts the end of a session.
func (v *visit) leave(s *step) {
	if v.open {
		v.open = false
		s.run.live.sessions.Add(-1)
	}
}

// fork runs branches side by side from a time on. It returns what they came to
// together, and whether all came to their own end.
func (s *step) fork(branches []workload.Machine, at int64, parent *visit) (workload.Outcome, bool) {
	visits := make([]visit, len(branches))
	ended := make([]bool, len(branches))
	var all sync.WaitGroup
	for i, m := range branches {
		v := &visits[i]
		*v = visit{user: parent.user, branch: true, ended: at}
		all.Go(func() {
			a := m.Start(at)
			if n := s.run.branches.Add(1); n > int64(s.run.sessions) {
				s.run.branches.Add(-1)
				ended[i] = s.crowded(a, v)
				return
			}
			w, _ := s.run.spare.Get().(*worker)
			if w == nil {
				w = s.run.newWorker()
			}
			ended[i] = s.drive(w, m, a, v)
			s.run.spare.Put(w)
			s.run.branches.Add(-1)
		})
	}
	all.Wait()
	o := workload.Outcome{Ended: at}
	for i := range visits {
		v := &visits[i]
		if !ended[i] {
			return o, false
		}
		o.Join(&v.last, v.ended)
	}
	return o, true
}

// crowded fails the first request of a branch that finds too many at work, and
// ends the branch with it.
func (s *step) crowded(a workload.Action, v *visit) bool {
	if a.Kind != workload.Send {
		return false
	}
	phase, ok := s.admit(&a)
	if !ok {
		return false
	}
	w := s.run.newWorker()
	w.begin(s, &a, v.user, phase)
	w.rec.ID = s.due(phase)
	w.fail(record.ClientResource, fmt.Sprintf("%d branches of sessions are at work already, and one process carries out no more", s.run.sessions))
	s.finish(w)
	v.last = w.outcome()
	v.ended = v.last.Ended
	return true
}
