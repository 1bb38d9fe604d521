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
)

// work is the one run that may be under way.
type work struct {
	mu sync.Mutex
	// watch looks at it; nil when there is none.
	watch *live.Watch
	// halt ends it at once; nil when it was begun elsewhere.
	halt context.CancelFunc
}

// Watch shows a run that is begun elsewhere in this process: it can be looked at and
// stopped here, and no other is started until its end.
func (s *Server) Watch(w *live.Watch) {
	s.work.mu.Lock()
	defer s.work.mu.Unlock()
	s.work.watch, s.work.halt = w, nil
}

// current returns the watch over the run under way, nil when there is none.
func (k *work) current() (w *live.Watch, halt context.CancelFunc) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.watch != nil && k.halt == nil {
		select {
		case <-k.watch.Ended():
			k.watch = nil // nobody else says so
		default:
		}
	}
	return k.watch, k.halt
}

// watchOf returns the watch over a run under way in this process, nil for any other.
func (s *Server) watchOf(id string) *live.Watch {
	w, _ := s.work.current()
	if w == nil || w.ID() != id || id == "" {
		return nil
	}
	select {
	case <-w.Ended():
		return nil // on disk there is more
	default:
		return w
	}
}

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
	sc, err := s.readScenario(in.Scenario)
	if err == nil {
		// What can be said of it before anything is sent.
		_, err = conduct.NewPlan(sc, s.readFile, "")
	}
	if err != nil {
		return &Problem{Status: http.StatusBadRequest, Field: "scenario", Text: "the scenario is not right", Errors: scenarioErrors(err)}
	}
	watch := live.New()
	ctx, halt := context.WithCancel(context.Background())
	if err := s.work.begin(watch, halt); err != nil {
		halt()
		return err
	}
	c := http.NewResponseController(w)
	_ = c.SetWriteDeadline(time.Now().Add(startTime + answerTime)) // fails in tests
	_ = c.SetReadDeadline(time.Time{})
	ended := make(chan error, 1)
	s.wait.Go(func() {
		defer halt()
		_, err := conduct.Run(ctx, &conduct.Config{
			Scenario: sc, Root: s.cfg.Root, Version: s.cfg.Version, LookupEnv: s.lookup, ReadFile: s.readFile, Watch: watch, Stop: watch.Asked(),
		})
		s.work.over(watch)
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
		return startProblem(err)
	case <-r.Context().Done():
		// Nobody waits for it any more: it goes on and can be found in the list.
		return r.Context().Err()
	case <-time.After(startTime):
		return &Problem{Status: http.StatusGatewayTimeout, Text: "the run has not begun yet", Fix: "look for it in the list of runs"}
	}
}

// begin takes the one place that there is.
func (k *work) begin(w *live.Watch, halt context.CancelFunc) error {
	now, _ := k.current()
	k.mu.Lock()
	defer k.mu.Unlock()
	if now != nil && k.watch == now {
		text := "a run is being started"
		if id := now.ID(); id != "" {
			text = "run " + id + " is under way"
		}
		return &Problem{Status: http.StatusConflict, Text: text, Fix: "wait for its end, or stop it: two at once would measure each other"}
	}
	if k.watch != nil {
		return &Problem{Status: http.StatusConflict, Text: "another run is being started"}
	}
	k.watch, k.halt = w, halt
	return nil
}

// over frees the place.
func (k *work) over(w *live.Watch) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.watch == w {
		k.watch, k.halt = nil, nil
	}
}

// startProblem is why a run could not be started.
func startProblem(err error) *Problem {
	p := &Problem{Status: http.StatusInternalServerError, Text: err.Error()}
	switch {
	case errors.Is(err, context.Canceled):
		p.Status, p.Text = http.StatusConflict, "the run was stopped before it began"
	default:
		if _, ok := errors.AsType[*conduct.UsageError](err); ok {
			p.Status, p.Field = http.StatusBadRequest, "scenario"
			p.Errors = []ScenarioError{{Text: err.Error()}}
		} else if _, ok := errors.AsType[*conduct.PreflightError](err); ok {
			p.Status, p.Field = http.StatusBadGateway, "target"
			p.Text = fmt.Sprintf("the target does not answer as it should: %v", err)
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
		if s.stamp(id) == "" {
			return noRun(id)
		}
		return &Problem{Status: http.StatusConflict, Text: "the run is not under way in this process"}
	}
	watch.Stop()
	return writeJSON(w, http.StatusAccepted, runID{id})
}
