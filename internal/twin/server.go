package twin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"plimsoll/internal/clock"
	"plimsoll/internal/dialect"
	"plimsoll/internal/histogram"
	"plimsoll/internal/random"
)

// ServerConfig is what twin serve is asked for. Zero fields take defaults.
type ServerConfig struct {
	// Model, GPU and Engine are names of the catalogue; llama-3.1-8b, h100 and
	// vllm by default.
	Model, GPU, Engine string
	// Precision is bf16 by default.
	Precision Precision
	// TP is the number of devices per replica, Replicas the number of engines
	// behind the address; 1 by default.
	TP, Replicas int
	// PP, DP and EP are as in Layout; 1 by default. KVFP8 keeps keys and values in
	// fp8.
	PP, DP, EP int
	KVFP8      bool
	// MaxNumSeqs and MaxNumBatchedTokens are by default what vLLM takes for the
	// device.
	MaxNumSeqs, MaxNumBatchedTokens int
	// MaxModelLen is the longest sequence in tokens, by default the model's
	// context or what the KV memory holds, whichever is less.
	MaxModelLen int
	// MemoryUtilization is the engine's share of a device's memory.
	MemoryUtilization float64
	// NoPrefixCache turns the prefix cache off.
	NoPrefixCache bool
	// Step, when above 0, makes every step that long, with unlimited memory and,
	// unless they are given, unlimited sequences and tokens per step.
	Step time.Duration
	// Router spreads the requests over the replicas: round-robin, the default, or
	// least-loaded.
	Router string
	// TokensPerEvent is how many tokens a stream's events hold, but for the first
	// and the last: 1 by default.
	TokensPerEvent int
	// DCGM, when not nil, is a listener that answers /metrics with the page of the
	// accelerators. Serve closes it.
	DCGM net.Listener
	// DCGMInterval is the time over which that page averages, 1 s by default.
	DCGMInterval time.Duration
	// ClockShift is how far the wall clock that the server shows is ahead of the
	// machine's: in the Date header, the times of pages and the time of creation. Below
	// 0 it is behind. How time passes stays the same.
	ClockShift time.Duration
	// Slowdown is that of ClusterConfig.
	Slowdown float64
	// Seed varies the text of the answers.
	Seed uint64
	// Stages, when not nil, is what the way around each engine takes instead of what
	// the cluster has.
	Stages *StageCosts
}

// The finish reasons.
const (
	finishStop   = "stop"
	finishLength = "length"
	finishCall   = "tool_calls"
)

// Server is a simulated cluster in real time behind the OpenAI APIs over
// HTTP/1.1. It has its own framing: net/http serves a connection with a buffer
// and a goroutine switch per write, and what the client is measured with may not
// share code with the client.
type Server struct {
	cfg       ServerConfig
	cluster   *Cluster
	model     *Model
	memory    Memory
	context   int
	blocks    int
	replicas  []*replica
	created   int64
	run       string // makes the ids of this run its own
	ids       atomic.Uint64
	router    *sharedRouter
	hash      maphash.Seed // of texts
	answers   answers
	dialogues *dialogues
	meter     *Meter // nil with fixed steps
	devices   devices
	http      *httpFigures

	clock      *clock.Clock
	goroutines sync.WaitGroup

	counters struct {
		connections, requests, refused atomic.Int64
		inFlight, slowClients, aborted atomic.Int64
		sequences, bodies              atomic.Int64
		received, sent                 atomic.Int64 // bytes
	}

	mu    sync.Mutex // guards conns
	conns map[*conn]struct{}
}

// NewServer checks the configuration and builds the engines; nothing runs yet.
// The error says with numbers what cannot be.
func NewServer(cfg ServerConfig) (*Server, error) {
	cl, err := NewCluster(ClusterConfig{
		Model: cfg.Model, GPU: cfg.GPU, Engine: cfg.Engine, Precision: cfg.Precision, TP: cfg.TP, Replicas: cfg.Replicas,
		PP: cfg.PP, DP: cfg.DP, EP: cfg.EP, KVFP8: cfg.KVFP8,
		MaxNumSeqs: cfg.MaxNumSeqs, MaxNumBatchedTokens: cfg.MaxNumBatchedTokens, MaxModelLen: cfg.MaxModelLen,
		MemoryUtilization: cfg.MemoryUtilization, NoPrefixCache: cfg.NoPrefixCache, Step: cfg.Step, Stages: cfg.Stages,
		Slowdown: cfg.Slowdown,
	})
	if err != nil {
		return nil, err
	}
	cfg.Model = cl.Config.Model // what it also answers to
	switch {
	case cfg.TokensPerEvent < 0 || cfg.TokensPerEvent > maxTokensPerEvent:
		return nil, fmt.Errorf("tokens-per-event %d: want 1 to %d", cfg.TokensPerEvent, maxTokensPerEvent)
	case cfg.DCGMInterval < 0 || cfg.DCGMInterval > 0 && cfg.DCGMInterval < 10*time.Millisecond:
		return nil, fmt.Errorf("dcgm-interval %v: want at least 10ms", cfg.DCGMInterval)
	case cfg.DCGMInterval == 0:
		cfg.DCGMInterval = dcgmInterval
	}
	if shift := cfg.ClockShift; shift < -maxClockShift || shift > maxClockShift {
		return nil, fmt.Errorf("clock-shift %v: want at most %v either way", shift, maxClockShift)
	}
	router, err := NewRouter(cfg.Router, cl.Config.Replicas)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, cluster: cl, model: cl.Model, memory: cl.Memory, context: cl.Context, blocks: cl.Engine.Blocks, clock: clock.New(), conns: map[*conn]struct{}{}, router: &sharedRouter{router: router}, http: newHTTPFigures(), hash: maphash.MakeSeed(), dialogues: newDialogues()}
	if roofline, ok := cl.Engine.Timer.(*Roofline); ok && cl.Layout != nil {
		s.meter = NewMeter(Builtin(), cl.Layout, roofline)
	}
	s.created = s.started().Unix()
	s.run = strconv.FormatUint(random.Derive(uint64(s.clock.Start().UnixNano())), 36)
	for i := range cl.Config.Replicas {
		e, err := NewEngine(cl.Engine)
		if err != nil {
			return nil, err
		}
		r := &replica{srv: s, index: i, engine: e, wake: make(chan struct{}, 1), hists: newEngineHists(cl.Context), desk: newDesk(cl.Stages)}
		r.sender.wake = make(chan struct{}, 1)
		r.staged = !r.desk.none()
		r.settle()
		s.replicas = append(s.replicas, r)
	}
	s.devices.to = s.snapshot()
	s.devices.from = s.devices.to
	return s, nil
}

// wall returns what the server takes for the time of day.
func (s *Server) wall() time.Time { return time.Now().Add(s.cfg.ClockShift) }

// started returns when the server started, by its own time of day.
func (s *Server) started() time.Time { return s.clock.Start().Add(s.cfg.ClockShift) }

// Serve answers the connections of l until ctx ends, then closes l and every
// connection and returns nil. It may be called once.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer s.goroutines.Wait()
	defer cancel()
	for _, r := range s.replicas {
		s.goroutines.Go(func() { r.run(ctx) })
		if r.staged {
			s.goroutines.Go(func() { r.send(ctx) })
		}
	}
	if s.meter != nil {
		s.goroutines.Go(func() { s.watchDevices(ctx) })
	}
	defer s.dropAll()
	if d := s.cfg.DCGM; d != nil {
		s.goroutines.Go(func() {
			// A page less is no reason to end the service; the listener's error is that
			// of a socket that was closed.
			_ = s.accept(ctx, d, true)
		})
	}
	return s.accept(ctx, l, false)
}

// accept answers the connections of l until ctx ends.
func (s *Server) accept(ctx context.Context, l net.Listener, dcgm bool) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	wait := time.Millisecond
	for {
		nc, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("accept a connection: %w", err)
			}
			// Out of descriptors, or a client that left in the queue.
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
			wait = min(2*wait, time.Second)
			continue
		}
		wait = time.Millisecond
		c := newConn(s, nc)
		c.dcgm = dcgm
		s.counters.connections.Add(1)
		s.mu.Lock()
		s.conns[c] = struct{}{}
		n := len(s.conns)
		s.mu.Unlock()
		if n > maxConns {
			c.refuse(&exchange{handler: "none", began: s.clock.Now()}, false, http.StatusServiceUnavailable, "ServiceUnavailableError", fmt.Sprintf("%d connections are open; no more are taken", maxConns))
			c.finish()
			continue
		}
		s.goroutines.Go(func() {
			s.serveConn(ctx, c)
			c.drop(false)
		})
	}
}

// sharedRouter is a router that many connections use.
type sharedRouter struct {
	mu     sync.Mutex // guards router
	router Router
}

// pick returns the replica for the sequences of one request.
func (r *sharedRouter) pick(choices []choice) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.router.Pick(&choices[0].seq)
}

// left says that a request has left a replica.
func (r *sharedRouter) left(replica int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.router.Left(replica)
}

func (s *Server) dropAll() {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	for _, c := range all {
		c.drop(true)
	}
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// serveConn reads requests until the client goes away.
func (s *Server) serveConn(ctx context.Context, c *conn) {
	br := bufio.NewReaderSize(c, 4096)
	for ctx.Err() == nil {
		c.left = maxHeader
		x := exchange{handler: "none", method: "none"}
		_ = c.nc.SetReadDeadline(time.Now().Add(idleTimeout)) // an error shows at the next read
		if _, err := br.Peek(1); err != nil {
			return
		}
		_ = c.nc.SetReadDeadline(time.Now().Add(requestTimeout))
		req, err := http.ReadRequest(br)
		x.began = s.clock.Now()
		if err != nil {
			switch {
			case errors.Is(err, errTooLong):
				c.refuse(&x, false, http.StatusRequestHeaderFieldsTooLarge, "BadRequestError", fmt.Sprintf("the header is longer than %d bytes", maxHeader))
				c.drain()
			case !isClosed(err):
				c.refuse(&x, false, http.StatusBadRequest, "BadRequestError", "read request: "+err.Error())
				c.drain()
			}
			return
		}
		s.counters.requests.Add(1)
		c.left = maxBody + 4096
		// A response to HEAD has no body, and every refusal here has one.
		keepAlive := !req.Close && req.ProtoAtLeast(1, 1) && req.Method != http.MethodHead
		if req.ProtoAtLeast(1, 1) && strings.EqualFold(req.Header.Get("Expect"), "100-continue") {
			c.send([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
		}
		x.handler, x.method = handlerOf(req.URL.Path), methodOf(req.Method)
		body, held, err := s.readBody(req)
		x.received = int64(len(body))
		if err != nil {
			s.counters.bodies.Add(-held)
			if errors.Is(err, errTooMuch) {
				c.refuse(&x, false, http.StatusServiceUnavailable, "ServiceUnavailableError", fmt.Sprintf("%d bytes of requests are being read; no more are taken", int64(maxBodies)))
				c.drain()
			} else if errors.Is(err, errTooLong) {
				c.refuse(&x, false, http.StatusRequestEntityTooLarge, "BadRequestError", fmt.Sprintf("the body is longer than %d bytes", maxBody))
				c.drain()
			} else if !isClosed(err) {
				c.refuse(&x, false, http.StatusBadRequest, "BadRequestError", "read body: "+err.Error())
				c.drain()
			}
			return
		}
		a := s.route(c, &x, req, body, keepAlive)
		s.counters.bodies.Add(-held)
		if a == nil {
			if !keepAlive {
				c.finish()
				return
			}
			continue
		}
		body, req = nil, nil
		// Until the answer is complete the reader only watches for the client's
		// leaving. Bytes of a next request wait for the end of this one.
		_ = c.nc.SetReadDeadline(time.Time{})
		select {
		case <-a.done: // release may have set the idle deadline already
			_ = c.nc.SetReadDeadline(time.Now().Add(idleTimeout))
		default:
		}
		c.left = maxHeader
		if _, err := br.Peek(1); err != nil {
			s.abandon(a)
			return
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return
		}
		if !keepAlive {
			return
		}
	}
}

// abandon gives up an answer whose client has gone.
func (s *Server) abandon(a *answer) {
	select {
	case <-a.done:
		return
	default:
	}
	a.replica.cancel(a)
}

var errTooMuch = errors.New("too much is being read")

// readBody reads a body that is not too long, while all bodies that are being read
// together are not. held is what to give back when the body is done with.
func (s *Server) readBody(req *http.Request) (body []byte, held int64, err error) {
	switch {
	case req.ContentLength > maxBody:
		return nil, 0, errTooLong
	case req.Body == http.NoBody:
		return nil, 0, nil
	}
	for limited := io.LimitReader(req.Body, maxBody+1); ; {
		if len(body) == cap(body) {
			// Grown by doubling; a client's word for the length takes no memory.
			grown := make([]byte, len(body), max(4096, 2*cap(body)))
			held += int64(cap(grown) - cap(body))
			if s.counters.bodies.Add(int64(cap(grown)-cap(body))) > maxBodies {
				return nil, held, errTooMuch
			}
			copy(grown, body)
			body = grown
		}
		n, err := limited.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case len(body) > maxBody:
			return nil, held, errTooLong
		case errors.Is(err, io.EOF):
			return body, held, nil
		case err != nil:
			return nil, held, err
		}
	}
}

// respond sends a whole response to x.
func (c *conn) respond(x *exchange, status int, kind string, body []byte, keepAlive bool) {
	h := make([]byte, 0, 256+len(body))
	h = append(h, "HTTP/1.1 "...)
	h = strconv.AppendInt(h, int64(status), 10)
	h = append(append(append(h, ' '), http.StatusText(status)...), "\r\n"...)
	h = appendHeader(h, c.srv.wall(), kind, keepAlive)
	h = append(h, "Content-Length: "...)
	h = strconv.AppendInt(h, int64(len(body)), 10)
	h = append(h, "\r\n\r\n"...)
	// A whole answer may be as long as it is; only one is queued at a time.
	c.sendUpTo(append(h, body...), maxQueued+cap(h))
	c.srv.http.observe(x, status, c.srv.clock.Now()-x.began, len(body))
}

func appendHeader(h []byte, now time.Time, kind string, keepAlive bool) []byte {
	h = append(h, "Server: plimsoll-twin\r\nDate: "...)
	h = now.UTC().AppendFormat(h, http.TimeFormat)
	h = append(append(append(h, "\r\nContent-Type: "...), kind...), "\r\n"...)
	if !keepAlive {
		h = append(h, "Connection: close\r\n"...)
	}
	return h
}

// refuse sends an error in the form of the OpenAI API.
func (c *conn) refuse(x *exchange, keepAlive bool, status int, kind, message string) {
	c.refuseField(x, keepAlive, status, kind, message, "")
}

// refuseField says which field of the request is to blame.
func (c *conn) refuseField(x *exchange, keepAlive bool, status int, kind, message, field string) {
	c.srv.counters.refused.Add(1)
	c.respond(x, status, "application/json", dialect.AppendError(nil, message, kind, field, status), keepAlive)
}

// ask is one request to answer.
type ask struct {
	*exchange
	conn      *conn
	http      *http.Request
	body      []byte
	keepAlive bool
}

func (q *ask) respond(kind string, body []byte) {
	q.conn.respond(q.exchange, http.StatusOK, kind, body, q.keepAlive)
}

func (q *ask) refuse(status int, kind, format string, args ...any) {
	q.conn.refuse(q.exchange, q.keepAlive, status, kind, fmt.Sprintf(format, args...))
}

func (q *ask) bad(format string, args ...any) {
	q.refuse(http.StatusBadRequest, "BadRequestError", format, args...)
}

// malformed refuses a body for what dialect found wrong with it.
func (q *ask) malformed(err error) {
	field := ""
	if e, ok := errors.AsType[*dialect.RequestError](err); ok {
		field = e.Field
	}
	q.conn.refuseField(q.exchange, q.keepAlive, http.StatusBadRequest, "BadRequestError", err.Error(), field)
}

// unknown refuses a model that is not served.
func (s *Server) unknown(q *ask, model string) {
	q.conn.refuseField(q.exchange, q.keepAlive, http.StatusNotFound, "NotFoundError", fmt.Sprintf("The model `%s` does not exist; this server has `%s`.", model, s.model.Name), "model")
}

const (
	kindText    = "text/plain; charset=utf-8"
	kindJSON    = "application/json"
	kindMetrics = "text/plain; version=0.0.4; charset=utf-8"
)

// routes are the paths with their methods and what answers them; an answer that
// is still to come is returned.
var routes = map[string]struct {
	methods string
	answer  func(s *Server, q *ask) *answer
}{
	"/v1/chat/completions": {"POST", func(s *Server, q *ask) *answer { return s.generate(q, dialect.OpenAIChat) }},
	"/v1/completions":      {"POST", func(s *Server, q *ask) *answer { return s.generate(q, dialect.OpenAICompletions) }},
	"/v1/responses":        {"POST", func(s *Server, q *ask) *answer { return s.generate(q, dialect.OpenAIResponses) }},
	"/tokenize":            {"POST", at(func(s *Server, q *ask) { s.tokenize(q) })},
	"/reset_prefix_cache":  {"POST", at(func(s *Server, q *ask) { s.resetCaches(q) })},
	"/v1/models":           {"GET", at(func(s *Server, q *ask) { q.respond(kindJSON, s.models()) })},
	"/health":              {"GET", at(func(_ *Server, q *ask) { q.respond(kindText, nil) })},
	"/ping":                {"GET POST", at(func(_ *Server, q *ask) { q.respond(kindText, nil) })},
	"/version":             {"GET", at(func(_ *Server, q *ask) { q.respond(kindJSON, []byte(`{"version":"plimsoll-twin"}`)) })},
	"/load": {"GET", at(func(s *Server, q *ask) {
		q.respond(kindJSON, fmt.Appendf(nil, `{"server_load":%d}`, s.counters.inFlight.Load()))
	})},
	"/metrics": {"GET", at(func(s *Server, q *ask) {
		if q.conn.dcgm {
			s.devicePage(q)
			return
		}
		q.respond(kindMetrics, s.appendMetrics(nil))
	})},
	"/dcgm/metrics": {"GET", at(func(s *Server, q *ask) { s.devicePage(q) })},
	"/node/metrics": {"GET", at(func(s *Server, q *ask) { q.respond(kindMetrics, s.appendNode(nil)) })},
}

// at is for what is answered at once.
func at(f func(s *Server, q *ask)) func(s *Server, q *ask) *answer {
	return func(s *Server, q *ask) *answer {
		f(s, q)
		return nil
	}
}

// handlerOf is the path by which the HTTP figures know a request, and methodOf its
// method: few, whatever a client sends.
func handlerOf(path string) string {
	path = strings.TrimSuffix(path, "/")
	if _, ok := routes[path]; ok {
		return path
	}
	return "none"
}

func methodOf(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
		return method
	}
	return "other"
}

// route answers a request; an answer that is still to come is returned.
func (s *Server) route(c *conn, x *exchange, req *http.Request, body []byte, keepAlive bool) *answer {
	q := &ask{exchange: x, conn: c, http: req, body: body, keepAlive: keepAlive}
	path := strings.TrimSuffix(req.URL.Path, "/")
	r, ok := routes[path]
	if !ok || c.dcgm && path != "/metrics" && path != "/health" {
		q.refuse(http.StatusNotFound, "NotFoundError", "no such path: %s", req.URL.Path)
		return nil
	}
	if !slices.Contains(strings.Fields(r.methods), req.Method) {
		q.refuse(http.StatusMethodNotAllowed, "MethodNotAllowedError", "%s takes %s, not %s", path, strings.ReplaceAll(r.methods, " ", " or "), req.Method)
		return nil
	}
	return r.answer(s, q)
}

// resetCaches forgets what is cached, of every replica between two steps. A
// replica that serves somebody keeps its cache, as vLLM does.
func (s *Server) resetCaches(q *ask) {
	for _, r := range s.replicas {
		r.mu.Lock()
		r.reset = true
		r.rouse()
		r.mu.Unlock()
	}
	q.respond(kindText, nil)
}

func (s *Server) devicePage(q *ask) {
	if s.meter == nil {
		q.refuse(http.StatusNotFound, "NotFoundError", "steps of a fixed length (--step) run on no accelerator")
		return
	}
	q.respond(kindMetrics, s.appendDevices(nil))
}

// models is the model list, with what vLLM adds to it.
func (s *Server) models() []byte {
	b := dialect.AppendModels(nil, []string{s.model.Name}, s.created)
	tail := fmt.Appendf(nil, `,"root":%q,"parent":null,"max_model_len":%d}]}`, s.model.ID, s.context)
	return append(bytes.TrimSuffix(b, []byte("}]}")), tail...)
}

// maxChoices bounds the sequences of one request, maxSequences those of a
// server, waiting ones included.
const (
	maxChoices   = 1024
	maxSequences = 1 << 18
	// maxConns bounds the connections, maxBodies the memory of bodies that are being
	// read.
	maxConns  = 1 << 17
	maxBodies = 1 << 30
	// maxTokensPerEvent keeps a chunk of a stream below the 64 KiB that its header
	// has room for.
	maxTokensPerEvent = 1024
	// maxClockShift keeps the Date header a date of four digits' years.
	maxClockShift = 10 * 365 * 24 * time.Hour
)

// generate starts an answer, or refuses.
func (s *Server) generate(q *ask, api dialect.API) *answer {
	r, err := dialect.ParseRequest(api, q.body)
	if err != nil {
		q.malformed(err)
		return nil
	}
	if !s.serves(r.Model) {
		s.unknown(q, r.Model)
		return nil
	}
	var before *dialogue
	if r.Previous != "" {
		if before = s.dialogues.find(r.Previous); before == nil {
			q.conn.refuseField(q.exchange, q.keepAlive, http.StatusNotFound, "invalid_request_error", fmt.Sprintf("Response with id '%s' not found.", r.Previous), "previous_response_id")
			return nil
		}
	}
	asked := r.Messages
	r.Messages = append(before.history(), asked...)
	a := s.begin(q, api, r)
	if a == nil {
		s.dialogues.release(before)
		return nil
	}
	a.before, a.asked, a.keeps = before, asked, r.Store
	if a.stream {
		h := append(make([]byte, 0, 256), "HTTP/1.1 200 OK\r\n"...)
		if !a.chunked {
			h = append(h[:0], "HTTP/1.0 200 OK\r\n"...)
		}
		h = appendHeader(h, s.wall(), "text/event-stream; charset=utf-8", q.keepAlive)
		h = append(h, "Cache-Control: no-cache\r\n"...)
		if a.chunked {
			h = append(h, "Transfer-Encoding: chunked\r\n"...)
		}
		h = append(h, "\r\n"...)
		if api == dialect.OpenAIResponses {
			h = append(h, a.close(a.w.AppendCreated(a.begin(nil)))...)
		}
		a.conn.sendUpTo(h, maxQueued+len(h)) // a response says its request again
	}
	a.replica.submit(a)
	return a
}

// begin makes the answer to a request, or refuses; nothing of it runs yet.
func (s *Server) begin(q *ask, api dialect.API, r *dialect.ServerRequest) *answer {
	prompts := s.promptsOf(api, r)
	if n := len(prompts) * r.N; n > maxChoices {
		q.bad("%d prompts with n %d are %d sequences; at most %d", len(prompts), r.N, n, maxChoices)
		return nil
	}
	tool, err := toolOf(api, r)
	if err != nil {
		q.bad("%v", err)
		return nil
	}
	var shape *form
	if r.Schema != "" && tool == "" {
		if shape, err = formOf(r.Schema); err != nil {
			field := "response_format"
			if api == dialect.OpenAIResponses {
				field = "text.format"
			}
			q.malformed(&dialect.RequestError{Field: field, Reason: err.Error()})
			return nil
		}
		if len(r.Stop) > 0 {
			q.malformed(&dialect.RequestError{Field: "stop", Reason: "an answer that follows a schema ends where that does"})
			return nil
		}
	}
	// A conversation has a history, thoughts and calls.
	talks := api != dialect.OpenAICompletions
	thinks := talks && tool == "" && thinkShare(r) > 0
	a := &answer{
		conn: q.conn, ask: *q.exchange, stream: r.Stream, usage: r.IncludeUsage || api == dialect.OpenAIResponses, runningUsage: r.IncludeUsage && r.ContinuousUsage,
		chunked: q.http.ProtoAtLeast(1, 1), keepAlive: q.keepAlive, done: make(chan struct{}), n: r.N, reasoning: -1, cached: -1,
	}
	if s.caching() {
		a.cached = 0
	}
	if thinks {
		a.reasoning = 0
	}
	a.choices = make([]choice, 0, len(prompts)*r.N)
	for _, p := range prompts {
		if p.tokens >= s.context {
			field := ""
			if api == dialect.OpenAIResponses {
				field = "input"
			}
			q.malformed(&dialect.RequestError{Field: field, Reason: fmt.Sprintf("This model's maximum context length is %d tokens. However, the prompt has %d tokens, and at least one is needed for the answer.", s.context, p.tokens)})
			return nil
		}
		limit := r.MaxTokens
		switch {
		case limit == 0 && api == dialect.OpenAICompletions:
			limit = min(16, s.context-p.tokens)
		case limit == 0 || api == dialect.OpenAIResponses:
			// A response that asks for more than there is gets what there is.
			if limit = s.context - p.tokens; r.MaxTokens > 0 {
				limit = min(limit, r.MaxTokens)
			}
		case p.tokens+limit > s.context:
			q.bad("This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the prompt, %d in the answer).", s.context, p.tokens+limit, p.tokens, limit)
			return nil
		}
		a.prompt += p.tokens
		a.limit = max(a.limit, limit)
		for range r.N {
			c := s.choice(r, p, shape, len(a.choices), limit)
			c.answer = a
			c.settle(r, tool, thinks)
			if s.caching() && talks && !thinks && tool == "" && shape == nil && c.speech.cut < 0 {
				// Who sends the answer back may find it in the cache.
				c.seq.Answer = max(1, random.Derive(c.seed, labelAnswer))
				c.blocks, c.remembered = p.blocks, true
			}
			a.choices = append(a.choices, c)
		}
	}
	a.unfinished, a.open, a.leaving = len(a.choices), len(a.choices), len(a.choices)
	if s.counters.sequences.Add(int64(len(a.choices))) > maxSequences {
		s.counters.sequences.Add(-int64(len(a.choices)))
		q.refuse(http.StatusServiceUnavailable, "ServiceUnavailableError", "%d sequences are under way or waiting; no more are taken", maxSequences)
		return nil
	}
	s.counters.inFlight.Add(1)
	a.replica = s.replicas[s.router.pick(a.choices)]
	id := s.run + "-" + strconv.FormatUint(s.ids.Add(1), 10)
	now := s.wall().Unix()
	switch api {
	case dialect.OpenAIResponses:
		a.id = "resp_" + id
		a.w = dialect.NewResponseWriter(a.id, s.model.Name, now, r.Echo)
	case dialect.OpenAIChat:
		a.w = dialect.NewWriter(api, "chatcmpl-"+id, s.model.Name, now)
	default:
		a.w = dialect.NewWriter(api, "cmpl-"+id, s.model.Name, now)
	}
	return a
}

// choice is one sequence for a prompt: its text, and how long it is by itself.
func (s *Server) choice(r *dialect.ServerRequest, p prompt, shape *form, index, limit int) choice {
	seed := textSeed(s.cfg.Seed, p.text, index)
	if r.Seed != nil {
		seed = random.Derive(s.cfg.Seed, uint64(*r.Seed), uint64(index))
	}
	output, finish := limit, finishLength
	if !r.IgnoreEOS {
		natural := naturalAnswer.Int(random.Stream(seed), 1)
		if shape != nil {
			least := shape.least() + int(math.Ceil(float64(shape.least())*thinkShare(r)/(1-thinkShare(r))))
			if natural = max(natural, least); !shape.free {
				natural = least
			}
		}
		if natural = max(natural, r.MinTokens); natural < limit {
			output, finish = natural, finishStop
		}
	}
	return choice{form: shape, closed: r.IgnoreEOS || finish == finishStop, index: index, finish: finish, seed: seed, seq: Seq{Prompt: p.tokens, Output: output, Limit: limit, Content: p.content}, speech: speech{seed: seed, left: output, cut: -1}}
}

// callTokens is the least number of tokens of a call that is complete: the name,
// and arguments that are opened and closed.
const callTokens = 3

// settle gives the choice the shape that was asked for: a call, reasoning before
// the answer, an end at a stop text.
func (c *choice) settle(r *dialect.ServerRequest, tool string, thinks bool) {
	switch {
	case tool != "":
		c.tool = tool
		if c.finish == finishStop {
			c.finish = finishCall
			if c.seq.Output < callTokens {
				// It was shorter than its limit, if only just.
				c.finish = finishLength
			}
		}
		return
	case thinks:
		// At least one token of each, when there are two.
		c.thinking = min(max(1, int(thinkShare(r)*float64(c.seq.Output))), c.seq.Output-1)
		if f := c.form; f != nil && c.closed {
			// The answer needs its tokens to be complete.
			if c.thinking = min(c.thinking, max(0, c.seq.Output-f.least())); !f.free && c.finish == finishStop {
				c.thinking = max(0, c.seq.Output-f.least())
			}
		}
		c.speech.skip = c.thinking
	}
	if len(r.Stop) > 0 {
		if n, cut := c.speech.stopAt(r.Stop, c.thinking, c.seq.Output, r.KeepStop); n > 0 {
			c.finish, c.seq.Output, c.speech.cut = finishStop, n, cut
		}
	}
}

// thinkShare is the share of an answer's tokens that are reasoning, 0 when none
// was asked for. A guess at what the words mean.
func thinkShare(r *dialect.ServerRequest) float64 {
	if r.Thinking != nil && !*r.Thinking {
		return 0
	}
	switch strings.ToLower(r.Effort) {
	case "none":
		return 0
	case "minimal":
		return 0.1
	case "low":
		return 0.25
	case "medium":
		return 0.5
	case "high", "xhigh", "max":
		return 0.75
	}
	if r.Thinking != nil {
		return 0.5
	}
	return 0
}

// toolOf returns the function to call, "" for an answer in words.
func toolOf(api dialect.API, r *dialect.ServerRequest) (string, error) {
	switch {
	case api == dialect.OpenAICompletions || r.ToolName == "" && r.ToolChoice != "required":
		return "", nil
	case len(r.ToolNames) == 0:
		return "", errors.New("tool_choice: a call is asked for, but no function is offered in tools")
	case r.ToolName == "":
		return r.ToolNames[0], nil
	case !slices.Contains(r.ToolNames, r.ToolName):
		return "", fmt.Errorf("tool_choice: %q is not among the functions offered in tools", r.ToolName)
	}
	return r.ToolName, nil
}

// serves is true for every name of the model that it was asked for or has; no
// name at all is the only model.
func (s *Server) serves(name string) bool {
	if name == "" || name == s.cfg.Model {
		return true
	}
	m, err := Builtin().Model(name)
	return err == nil && m == s.model
}

// tokenize answers with the tokens that a prompt would have. Their ids are made
// from their text: equal texts have equal ids, but no id leads back to its text.
func (s *Server) tokenize(q *ask) {
	var probe struct {
		Messages json.RawMessage `json:"messages"`
		Strings  bool            `json:"return_token_strs"`
	}
	api := dialect.OpenAICompletions
	if json.Unmarshal(q.body, &probe) == nil && len(probe.Messages) > 0 {
		api = dialect.OpenAIChat
	}
	r, err := dialect.ParseRequest(api, q.body)
	if err != nil {
		q.malformed(err)
		return
	}
	if !s.serves(r.Model) {
		s.unknown(q, r.Model)
		return
	}
	answer := struct {
		Count   int      `json:"count"`
		Longest int      `json:"max_model_len"`
		Tokens  []int    `json:"tokens"`
		Strings []string `json:"token_strs"`
	}{Longest: s.context, Tokens: []int{}}
	add := func(piece string) {
		answer.Tokens = append(answer.Tokens, int(textSeed(0, piece, 0)%uint64(s.model.Vocab)))
		if probe.Strings {
			answer.Strings = append(answer.Strings, piece)
		}
	}
	for _, p := range s.promptsOf(api, r) {
		answer.Count += p.tokens
		// What a template or an id stands for has no text.
		text, n := p.text, 0
		if api == dialect.OpenAIChat {
			text = ""
			for _, m := range r.Messages {
				text += m.Text
			}
		}
		for ; text != "" && n < p.tokens; n++ {
			add(text[:nextPiece(text)])
			text = text[nextPiece(text):]
		}
		for ; n < p.tokens; n++ {
			add("")
		}
	}
	b, err := json.Marshal(answer)
	if err != nil {
		panic("BUG: write tokens: " + err.Error())
	}
	q.respond(kindJSON, b)
}

// Stats is what a server did so far.
type Stats struct {
	Connections, Requests, Refused int64
	// InFlight is the number of answers under way, Aborted that of answers whose
	// client left, SlowClients that of connections dropped because their client
	// did not read.
	InFlight, Aborted, SlowClients int64
	Running, Waiting               int64
	PromptTokens, OutputTokens     int64
	Preemptions, Steps             int64
	// Late is how long after its scheduled end each step's first token was
	// written, in ns, LateLast the same of its last token; Rebased how often a
	// replica gave up catching up.
	Late     *histogram.Histogram
	LateLast *histogram.Histogram
	Rebased  int64
}

// Stats returns the totals over all replicas. It may be called at any time.
func (s *Server) Stats() Stats {
	c := &s.counters
	st := Stats{
		Connections: c.connections.Load(), Requests: c.requests.Load(), Refused: c.refused.Load(),
		InFlight: c.inFlight.Load(), Aborted: c.aborted.Load(), SlowClients: c.slowClients.Load(),
		Late: new(histogram.Histogram), LateLast: new(histogram.Histogram),
	}
	for _, r := range s.replicas {
		st.Running += r.state.running.Load()
		st.Waiting += r.state.waiting.Load()
		st.PromptTokens += r.state.computed.Load() + r.state.cached.Load()
		st.OutputTokens += r.state.output.Load()
		st.Preemptions += r.state.preemptions.Load()
		st.Steps += r.state.steps.Load()
		st.Rebased += r.state.rebased.Load()
		r.logMu.Lock()
		st.Late.Merge(&r.late)
		st.LateLast.Merge(&r.last)
		r.logMu.Unlock()
	}
	return st
}

// Accounts returns where the time of the latest sequences went, by the twin's
// own schedule, in no particular order.
func (s *Server) Accounts() []Account {
	var all []Account
	for _, r := range s.replicas {
		r.logMu.Lock()
		for i := range r.accounts {
			all = append(all, r.accounts[i].Account)
		}
		r.logMu.Unlock()
	}
	return all
}

// Describe says in one line what is served.
func (s *Server) Describe() string {
	return s.cluster.Describe()
}
