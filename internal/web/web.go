// Package web is the panel as a browser sees it: the REST API over a folder of
// runs, the event stream of the run under way, and the files of the front end. It
// owns routes, their limits and who may call them, and starts runs the way the
// command line does. It never computes a figure of a run (detail, stats) and never
// draws; names and answers of models leave it as JSON, never as markup.
package web

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"plimsoll/internal/assets"
	"plimsoll/internal/report"
)

// Config says what is served, and to whom.
type Config struct {
	// Root is the folder of runs, made when it is not there.
	Root string
	// Version is that of this program.
	Version string
	// Listen is the address that the server listens on, host:port as the listener has
	// it. Requests must name it, or a loopback name when it is a loopback address.
	Listen string
	// Hosts are further names by which the server may be called, as that of a proxy
	// in front of it.
	Hosts []string
	// Token is asked of every request when it is not empty. New refuses an address
	// that others can reach without one.
	Token string
	// LookupEnv returns environment variables. A scenario that comes by REST may name
	// those that begin with PLIMSOLL_, that end with _API_KEY, and those of AllowEnv.
	LookupEnv func(name string) (string, bool)
	AllowEnv  []string
	// Files is the folder that holds every file which such a scenario may name; "" for
	// none.
	Files string
	// ReadOnly refuses whatever changes something: runs are looked at only.
	ReadOnly bool
}

// Server is an http.Handler. It is safe for concurrent use.
type Server struct {
	cfg     Config
	root    *os.Root
	guard   guard
	panel   *panel
	front   report.Front
	mux     *http.ServeMux
	rows    rowCache
	stores  storeCache
	work    work
	notes   sync.Mutex // held while notes are written, for file systems without locks
	limits  limits
	streams chan struct{} // one place for each event stream
	// predicting has a place for each prediction that is made at once.
	predicting chan struct{}
	// ctx ends with Close, wait is done when what it ended is over.
	ctx  context.Context
	end  context.CancelFunc
	wait sync.WaitGroup
}

// New returns a server over a folder of runs. Close it after use.
func New(cfg Config) (*Server, error) {
	if cfg.LookupEnv == nil {
		cfg.LookupEnv = func(string) (string, bool) { return "", false }
	}
	var err error
	if cfg.Root, err = filepath.Abs(cfg.Root); err != nil {
		return nil, fmt.Errorf("open folder of runs: %w", err)
	}
	if err := os.MkdirAll(cfg.Root, 0o755); err != nil {
		return nil, fmt.Errorf("make folder of runs: %w", err)
	}
	g, err := newGuard(&cfg)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(cfg.Root)
	if err != nil {
		return nil, fmt.Errorf("open folder of runs: %w", err)
	}
	files, _ := assets.Panel()
	s := &Server{
		cfg: cfg, root: root, guard: g, panel: newPanel(files), mux: http.NewServeMux(),
		front:  report.Front{Script: files["report.js"], Style: files["report.css"]},
		limits: usual, streams: make(chan struct{}, usual.streams), predicting: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
	}
	if !cfg.ReadOnly {
		s.sweep()
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	for _, r := range s.routes() {
		s.mux.Handle(r.method+" "+r.path, s.handler(&r))
	}
	s.mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		problem := &Problem{Status: http.StatusNotFound, Text: "no such address: " + r.URL.Path, Fix: "see /api/openapi.json"}
		if allowed := s.methods(r); allowed != "" {
			w.Header().Set("Allow", allowed)
			problem.Status, problem.Text = http.StatusMethodNotAllowed, r.Method+" is not possible on "+r.URL.Path
			problem.Fix = "one of " + allowed
		}
		problem.write(w)
	})
	s.mux.Handle("/", s.panel)
	return s, nil
}

// Close asks a run that was started here to end, as an interrupt would, waits for its
// end and ends all streams. When ctx ends the run is ended at once.
func (s *Server) Close(ctx context.Context) error {
	if w, _, halt := s.work.current(); halt != nil {
		w.Stop()
		defer context.AfterFunc(ctx, halt)()
	}
	s.end()
	s.wait.Wait()
	s.stores.closeAll()
	return s.root.Close()
}

// route is one method of one address of the API.
type route struct {
	method, path string
	// changes says that it needs the right to change something.
	changes bool
	// stream says that its answer has no end of its own.
	stream bool
	serve  func(w http.ResponseWriter, r *http.Request) error
}

// routes are all addresses under /api.
func (s *Server) routes() []route {
	get := func(path string, serve func(w http.ResponseWriter, r *http.Request) error) route {
		return route{method: "GET", path: path, serve: serve}
	}
	change := func(method, path string, serve func(w http.ResponseWriter, r *http.Request) error) route {
		return route{method: method, path: path, changes: true, serve: serve}
	}
	return []route{
		get("/api/version", s.getVersion),
		get("/api/openapi.json", s.openAPI),
		{method: "POST", path: "/api/logout", serve: s.logout},
		get("/api/runs", s.listRuns),
		change("POST", "/api/runs", s.startRun),
		get("/api/runs/{id}", s.getRun),
		change("PATCH", "/api/runs/{id}", s.patchRun),
		change("DELETE", "/api/runs/{id}", s.deleteRun),
		{method: "GET", path: "/api/runs/{id}/events", stream: true, serve: s.events},
		change("POST", "/api/runs/{id}/stop", s.stopRun),
		get("/api/runs/{id}/report.html", s.getReport),
		get("/api/runs/{id}/opening", s.getOpening),
		get("/api/runs/{id}/series", s.getSeries),
		get("/api/runs/{id}/data", s.getData),
		get("/api/runs/{id}/bands", s.getBands),
		get("/api/runs/{id}/heat", s.getHeat),
		get("/api/runs/{id}/envelope", s.getEnvelope),
		get("/api/runs/{id}/figures", s.getFigures),
		get("/api/runs/{id}/requests", s.getRequests),
		get("/api/runs/{id}/requests/{n}", s.getRequest),
		get("/api/runs/{id}/scatter", s.getScatter),
		get("/api/runs/{id}/common", s.getCommon),
		get("/api/schema", s.schema),
		get("/api/scenarios", s.listScenarios),
		get("/api/scenarios/{name}", s.getScenario),
		change("PUT", "/api/scenarios/{name}", s.putScenario),
		change("DELETE", "/api/scenarios/{name}", s.deleteScenario),
		{method: "POST", path: "/api/scenarios/check", serve: s.checkScenario},
		get("/api/compare", s.compare),
		get("/api/workloads", s.listWorkloads),
		get("/api/workloads/{family}/{name}", s.getWorkload),
		get("/api/twin/catalogue", s.catalogue),
		{method: "POST", path: "/api/twin/predict", serve: s.predict},
	}
}

// methods lists the methods that the address of a request has.
func (s *Server) methods(r *http.Request) string {
	list := ""
	for _, m := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		probe := &http.Request{Method: m, URL: r.URL, Host: r.Host}
		if _, pattern := s.mux.Handler(probe); pattern != "" && pattern != "/api/" && pattern != "/" {
			if list != "" {
				list += ", "
			}
			list += m
		}
	}
	return list
}

// answerTime bounds how long writing an answer may take that is no stream.
const answerTime = 30 * time.Second

// handler is one route with its limits.
func (s *Server) handler(rt *route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rt.changes && s.cfg.ReadOnly {
			(&Problem{Status: http.StatusForbidden, Text: "this panel only shows runs", Fix: "start plimsoll serve without --read-only"}).write(w)
			return
		}
		if !rt.stream {
			// Fails where the writer is no connection, as in tests.
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTime))
		}
		w.Header().Set("Cache-Control", "no-store")
		if !rt.stream {
			w.Header().Set("Vary", "Accept-Encoding")
			if acceptsGzip(r) && !near(r) {
				w = zipping{w}
			}
		}
		if err := rt.serve(w, r); err != nil {
			problemOf(err).write(w)
		}
	})
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.guard.headers(w.Header())
	if s.guard.refuse(w, r) {
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	s.mux.ServeHTTP(w, r)
}

// Problem is why an answer is no success.
type Problem struct {
	// Status is that of HTTP.
	Status int `json:"-"`
	// Text says what is wrong, Field where, Fix what to do.
	Text  string `json:"text"`
	Field string `json:"field,omitempty"`
	Fix   string `json:"fix,omitempty"`
	// Errors are those of a scenario, beside the problem itself.
	Errors []ScenarioError `json:"-"`
}

// Error returns the text.
func (p *Problem) Error() string { return p.Text }

// refusal is the body of such an answer.
type refusal struct {
	Error *Problem `json:"error"`
	// Errors are those of a scenario or a filter, each with its place.
	Errors []ScenarioError `json:"errors,omitempty"`
}

func (p *Problem) write(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	_ = writeJSON(w, p.Status, refusal{p, p.Errors}) // the connection is gone: nobody to tell
}

// problemOf makes a problem of any error.
func problemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if big, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &Problem{Status: http.StatusRequestEntityTooLarge, Text: fmt.Sprintf("the body is larger than %d bytes", big.Limit)}
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &Problem{Status: http.StatusInsufficientStorage, Text: "the disk with the folder of runs is full: nothing was changed", Fix: "make room on it, as by deleting runs"}
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return &Problem{Status: http.StatusInternalServerError, Text: err.Error(), Fix: "let the user who runs plimsoll write to the folder of runs"}
	case errors.Is(err, os.ErrNotExist):
		return &Problem{Status: http.StatusNotFound, Text: err.Error()}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &Problem{Status: http.StatusServiceUnavailable, Text: "ended before there was an answer"}
	}
	return &Problem{Status: http.StatusInternalServerError, Text: err.Error()}
}

// wrong is the problem of a request that says something that cannot be.
func wrong(field, format string, args ...any) *Problem {
	return &Problem{Status: http.StatusBadRequest, Field: field, Text: fmt.Sprintf(format, args...)}
}

// writeJSON writes v as the answer. What would be markup in a page is escaped.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	writeBytes(w, status, b)
	return nil
}

func writeBytes(w http.ResponseWriter, status int, b []byte) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	send(w, status, append(b, '\n'))
}

// send writes a whole answer, compressed where that is worth it.
func send(w http.ResponseWriter, status int, b []byte) {
	if _, ok := w.(zipping); ok && len(b) >= zipFrom {
		b = zipped(b, gzip.BestSpeed)
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // the connection is gone: nobody to tell
}

// zipFrom is the length from which on an answer is compressed, in bytes.
const zipFrom = 4 << 10

// zipping writes answers to a client that takes them compressed.
type zipping struct{ http.ResponseWriter }

// Unwrap returns the writer of the connection, as http.ResponseController asks for it.
func (z zipping) Unwrap() http.ResponseWriter { return z.ResponseWriter }

// near says whether a client is on this machine: bytes cost nothing on the way there,
// and the time of the processors is for the load.
func near(r *http.Request) bool { return Loopback(r.RemoteAddr) }

// maxBody bounds the body of a request, in bytes.
const maxBody = 1 << 20

// readJSON decodes the body of a request into v.
func readJSON(r *http.Request, v any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		if big, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return big
		}
		p := wrong("", "read the body: %v", err)
		p.Fix = "JSON as /api/openapi.json describes it"
		return p
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return wrong("", "read the body: more than one JSON value")
	}
	return nil
}

// version says what is served.
type version struct {
	Version string `json:"version"`
	// Panel is the version of the contract between front end and server.
	Panel int `json:"panel"`
	// ReadOnly says that nothing can be changed.
	ReadOnly bool `json:"readonly"`
	// Token says that a token is asked for, and that there is a cookie to forget.
	Token bool `json:"token"`
}

// panelVersion is that of the contract between front end and server.
const panelVersion = 1

func (s *Server) getVersion(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, version{s.cfg.Version, panelVersion, s.cfg.ReadOnly, s.guard.asked})
}
