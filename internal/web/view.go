package web

import "net/http"

// storeCache holds what was opened last.
type storeCache struct{}

func (c *storeCache) forget(string) {}

func (s *Server) getRun(w http.ResponseWriter, r *http.Request) error {
	saved, err := s.openRun(r.PathValue("id"))
	if err != nil {
		return err
	}
	sum := summaryOf(saved)
	text, _ := saved.Scenario() // a run without one can be looked at
	return writeJSON(w, http.StatusOK, map[string]any{"run": s.makeRow(saved, sum), "summary": sum, "scenario": string(text)})
}
