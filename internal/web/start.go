package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"plimsoll/internal/conduct"
	"plimsoll/internal/live"
	"plimsoll/internal/probe"
	"plimsoll/internal/scenario"
)

// work is the one run that may be under way.
type work struct {
	mu sync.Mutex
	// watch looks at it, done is closed when all of it is on disk.
	watch *live.Watch
	done  <-chan struct{}
	// halt ends it at once; nil when it was begun elsewhere.
	halt context.CancelFunc
	// past are the snapshots of the run that ended last, for pastTime at most or until
	// another begins: a client whose connection broke off before the end misses nothing.
	past   *live.Ring
	pastID string
}

// Watch shows a run that is begun elsewhere in this process: it can be looked at and
// stopped here, and no other is started until its end.
func (s *Server) Watch(w *live.Watch) {
	s.work.mu.Lock()
	defer s.work.mu.Unlock()
	s.work.take(w, w.Ended(), nil)
}

// current returns the watch over the run under way, nil when there is none.
func (k *work) current() (w *live.Watch, done <-chan struct{}, halt context.CancelFunc) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now()
}

// take puts a run into the one place that there is, with the lock held.
func (k *work) take(w *live.Watch, done <-chan struct{}, halt context.CancelFunc) {
	k.watch, k.done, k.halt = w, done, halt
	k.past, k.pastID = nil, ""
}

// snapshots returns those of the run under way, or of the one that ended last, nil for
// any other run, and what is closed when all of the run is on disk.
func (k *work) snapshots(id string) (ring *live.Ring, done <-chan struct{}, over bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w, done, _ := k.now()
	switch {
	case id == "":
	case w != nil && w.ID() == id:
		return w.Ring(), done, false
	case k.pastID == id:
		return k.past, done, true
	}
	return nil, nil, true
}

// now is current, with the lock held.
func (k *work) now() (w *live.Watch, done <-chan struct{}, halt context.CancelFunc) {
	if k.watch != nil {
		select {
		case <-k.done:
			past := k.watch.Ring()
			k.past, k.pastID = past, k.watch.ID()
			time.AfterFunc(pastTime, func() {
				k.mu.Lock()
				defer k.mu.Unlock()
				if k.past == past {
					k.past, k.pastID = nil, ""
				}
			})
			k.watch, k.halt = nil, nil
		default:
		}
	}
	return k.watch, k.done, k.halt
}

// begin takes the one place that there is until done is closed.
func (k *work) begin(w *live.Watch, done <-chan struct{}, halt context.CancelFunc) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now, _, _ := k.now(); now != nil {
		text := "a run is being started"
		if id := now.ID(); id != "" {
			text = "run " + id + " is under way"
		}
		return &Problem{Status: http.StatusConflict, Text: text, Fix: "wait for its end, or stop it: two at once would measure each other"}
	}
	k.take(w, done, halt)
	return nil
}

// watchOf returns the watch over a run under way in this process, nil for any other:
// on disk there is more.
func (s *Server) watchOf(id string) *live.Watch {
	if w, _, _ := s.work.current(); w != nil && id != "" && w.ID() == id {
		return w
	}
	return nil
}

// pastTime is how long snapshots are kept behind the end of a run: as long as those of
// one under way.
const pastTime = live.Kept * time.Second

// startTime bounds what may pass until a run has its folder: the look at the target
// and at the pages of telemetry.
const startTime = 2 * time.Minute

// runID names a run.
type runID struct {
	ID string `json:"id"`
}

func (s *Server) startRun(w http.ResponseWriter, r *http.Request) error {
	var in scenarioText
	if err := readJSON(r, &in); err != nil {
		return err
	}
	sc, _, wrong, _ := s.examine(in.Scenario)
	if len(wrong) > 0 {
		return &Problem{Status: http.StatusBadRequest, Field: "scenario", Text: "the scenario is not right", Errors: wrong}
	}
	watch := live.New()
	ctx, halt := context.WithCancel(context.Background())
	done := make(chan struct{})
	if err := s.work.begin(watch, done, halt); err != nil {
		halt()
		return err
	}
	c := http.NewResponseController(w)
	_ = c.SetWriteDeadline(time.Now().Add(startTime + answerTime)) // fails in tests
	_ = c.SetReadDeadline(time.Time{})
	ended := make(chan error, 1)
	s.wait.Go(func() {
		defer halt()
		_, err := s.conduct(ctx, sc, watch)
		close(done)
		ended <- err
	})
	select {
	case <-watch.Begun():
		w.Header().Set("Location", "/api/runs/"+watch.ID())
		return writeJSON(w, http.StatusCreated, runID{watch.ID()})
	case err := <-ended:
		if err == nil { // so short that it has begun, too
			return writeJSON(w, http.StatusCreated, runID{watch.ID()})
		}
		return startProblem(sc, err)
	case <-r.Context().Done():
		// Nobody waits for it any more: it goes on and can be found in the list.
		return r.Context().Err()
	case <-time.After(startTime):
		return &Problem{Status: http.StatusGatewayTimeout, Text: "the run has not begun yet", Fix: "look for it in the list of runs"}
	}
}

// conduct carries out a run as the command line does.
func (s *Server) conduct(ctx context.Context, sc *scenario.Scenario, watch *live.Watch) (*conduct.Result, error) {
	cfg := &conduct.Config{
		Scenario: sc, Root: s.cfg.Root, Version: s.cfg.Version, LookupEnv: s.lookup, ReadFile: s.readFile, Watch: watch, Stop: watch.Asked(),
	}
	if steering := probe.NewSteering(sc); steering != nil {
		cfg.Steer = func() conduct.Steering { return steering }
	}
	res, err := conduct.Run(ctx, cfg)
	if err == nil {
		_, err = probe.Keep(sc, res.Folder)
	}
	return res, err
}

// startProblem is why a run could not be started.
func startProblem(sc *scenario.Scenario, err error) *Problem {
	p := &Problem{Status: http.StatusInternalServerError, Text: err.Error()}
	switch {
	case errors.Is(err, context.Canceled):
		p.Status, p.Text = http.StatusConflict, "the run was stopped before it began"
	default:
		if _, ok := errors.AsType[*conduct.UsageError](err); ok {
			p.Status, p.Field = http.StatusBadRequest, "scenario"
			p.Errors = scenarioErrors(sc, err)
		} else if e, ok := errors.AsType[*conduct.PreflightError](err); ok {
			p.Status, p.Field = http.StatusBadGateway, "target"
			p.Text = fmt.Sprintf("the target does not answer as it should: %s", e.What())
			p.Fix = e.Fix
		}
	}
	return p
}

func (s *Server) stopRun(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if err := checkID(id); err != nil {
		return err
	}
	watch := s.watchOf(id)
	if watch == nil {
		if _, is := s.stamp(id); !is {
			return noRun(id)
		}
		return &Problem{Status: http.StatusConflict, Text: "the run is not under way in this process"}
	}
	watch.Stop()
	return writeJSON(w, http.StatusAccepted, runID{id})
}
