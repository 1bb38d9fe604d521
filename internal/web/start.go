package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"plimsoll/internal/conduct"
)

// work is the run under way that was started here.
type work struct {
	mu sync.Mutex
	// busy is true from the request that starts a run until its end, id is known
	// once its folder is there.
	busy bool
	id   string
	// halt ends the run: softly at the first call.
	halt func()
}

// isLive says whether a run is under way in this process.
func (s *Server) isLive(id string) bool {
	s.work.mu.Lock()
	defer s.work.mu.Unlock()
	return s.work.busy && s.work.id == id
}

// stop ends the run under way softly, if there is one.
func (k *work) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.busy && k.halt != nil {
		k.halt()
	}
}

// startTime bounds what may pass until a run has its folder: the look at the target
// and at the pages of telemetry.
const startTime = 2 * time.Minute

// begun is how the start of a run went.
type begun struct {
	id  string
	err error
}

func (s *Server) startRun(w http.ResponseWriter, r *http.Request) error {
	var in scenarioText
	if err := readJSON(r, &in); err != nil {
		return err
	}
	sc, err := s.readScenario(in.Scenario)
	if err == nil {
		// What can be said of it before anything is sent.
		_, err = conduct.NewPlan(sc, s.readFile)
	}
	if err != nil {
		return &Problem{Status: http.StatusBadRequest, Field: "scenario", Text: "the scenario is not right", Errors: scenarioErrors(err)}
	}
	stop := make(chan struct{})
	if err := s.work.begin(sync.OnceFunc(func() { close(stop) })); err != nil {
		return err
	}
	c := http.NewResponseController(w)
	_ = c.SetWriteDeadline(time.Now().Add(startTime + answerTime)) // as above
	_ = c.SetReadDeadline(time.Time{})
	started := make(chan begun, 1)
	s.wait.Go(func() {
		_, err := conduct.Run(context.Background(), &conduct.Config{
			Scenario: sc, Root: s.cfg.Root, Version: s.cfg.Version, LookupEnv: s.lookup, ReadFile: s.readFile, Stop: stop,
			Progress: func(p conduct.Progress) {
				id := filepath.Base(p.Folder)
				if s.work.name(id) {
					started <- begun{id: id}
				}
			},
		})
		if !s.work.over() {
			started <- begun{err: err}
		}
	})
	select {
	case b := <-started:
		if b.err != nil {
			return startProblem(b.err)
		}
		w.Header().Set("Location", "/api/runs/"+b.id)
		return writeJSON(w, http.StatusCreated, map[string]string{"id": b.id})
	case <-r.Context().Done():
		// Nobody waits for it any more: it goes on and can be found in the list.
		return r.Context().Err()
	case <-time.After(startTime):
		return &Problem{Status: http.StatusGatewayTimeout, Text: "the run has not begun yet", Fix: "look for it in the list of runs"}
	}
}

// begin takes the one place that there is.
func (k *work) begin(halt func()) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.busy {
		text := "a run is being started"
		if k.id != "" {
			text = "run " + k.id + " is under way"
		}
		return &Problem{Status: http.StatusConflict, Text: text, Fix: "wait for its end, or stop it: two at once would measure each other"}
	}
	k.busy, k.id, k.halt = true, "", halt
	return nil
}

// name says what the run is called, and returns true the first time.
func (k *work) name(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.id != "" {
		return false
	}
	k.id = id
	return true
}

// over frees the place. It returns whether the run had begun.
func (k *work) over() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	had := k.id != ""
	k.busy, k.id, k.halt = false, "", nil
	return had
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
	if !s.isLive(id) {
		if s.stamp(id) == "" {
			return noRun(id)
		}
		return &Problem{Status: http.StatusConflict, Text: "the run is not under way in this process"}
	}
	s.work.stop()
	return writeJSON(w, http.StatusAccepted, map[string]string{"id": id})
}
