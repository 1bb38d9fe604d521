package twin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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
	// Precision is bf16 (the default) or fp8.
	Precision Precision
	// TP is the number of devices per replica, Replicas the number of engines
	// behind the address; 1 by default.
	TP, Replicas int
	// MaxNumSeqs and MaxNumBatchedTokens are by default what vLLM takes for the
	// device.
	MaxNumSeqs, MaxNumBatchedTokens int
	// MaxModelLen is the longest sequence in tokens, by default the model's
	// context or what the KV memory holds, whichever is less.
	MaxModelLen int
	// MemoryUtilization is the engine's share of a device's memory.
	MemoryUtilization float64
	// Step, when above 0, makes every step that long, with unlimited memory and,
	// unless they are given, unlimited sequences and tokens per step.
	Step time.Duration
	// Seed varies the text of the answers.
	Seed uint64
	// Listen is the address of Serve, 127.0.0.1:8000 by default.
	Listen string
	// Ready, when not nil, is called once by Serve with the bound address.
	Ready func(addr net.Addr)
}

// The finish reasons.
const (
	finishStop   = "stop"
	finishLength = "length"
)

// Server is a simulated cluster in real time behind the OpenAI APIs over
// HTTP/1.1. It has its own framing: net/http serves a connection with a buffer
// and a goroutine switch per write, and what the client is measured with may not
// share code with the client.
type Server struct {
	cfg      ServerConfig
	cluster  *Cluster
	model    *Model
	memory   Memory
	context  int
	blocks   int
	replicas []*replica
	created  int64
	run      string // makes the ids of this run its own
	ids      atomic.Uint64
	turn     atomic.Uint64

	clock      *clock.Clock
	goroutines sync.WaitGroup

	counters struct {
		connections, requests, refused atomic.Int64
		inFlight, slowClients, aborted atomic.Int64
		sequences                      atomic.Int64
	}

	mu    sync.Mutex // guards conns
	conns map[*conn]struct{}
}

// NewServer checks the configuration and builds the engines; nothing runs yet.
// The error says with numbers what cannot be.
func NewServer(cfg ServerConfig) (*Server, error) {
	cl, err := NewCluster(ClusterConfig{
		Model: cfg.Model, GPU: cfg.GPU, Engine: cfg.Engine, Precision: cfg.Precision, TP: cfg.TP, Replicas: cfg.Replicas,
		MaxNumSeqs: cfg.MaxNumSeqs, MaxNumBatchedTokens: cfg.MaxNumBatchedTokens, MaxModelLen: cfg.MaxModelLen,
		MemoryUtilization: cfg.MemoryUtilization, Step: cfg.Step,
	})
	if err != nil {
		return nil, err
	}
	cfg.Model = cl.Config.Model // what it also answers to
	s := &Server{cfg: cfg, cluster: cl, model: cl.Model, memory: cl.Memory, context: cl.Context, blocks: cl.Engine.Blocks, clock: clock.New(), conns: map[*conn]struct{}{}}
	s.created = s.clock.Start().Unix()
	s.run = strconv.FormatUint(random.Derive(uint64(s.clock.Start().UnixNano())), 36)
	for i := range cl.Config.Replicas {
		e, err := NewEngine(cl.Engine)
		if err != nil {
			return nil, err
		}
		r := &replica{srv: s, index: i, engine: e, wake: make(chan struct{}, 1)}
		r.settle()
		s.replicas = append(s.replicas, r)
	}
	return s, nil
}

// Serve builds a server and serves cfg.Listen until ctx ends.
func Serve(ctx context.Context, cfg ServerConfig) error {
	s, err := NewServer(cfg)
	if err != nil {
		return err
	}
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:8000"
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("serve the twin: %w", err)
	}
	if cfg.Ready != nil {
		cfg.Ready(l.Addr())
	}
	return s.Serve(ctx, l)
}

// Serve answers the connections of l until ctx ends, then closes l and every
// connection and returns nil. It may be called once.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer s.goroutines.Wait()
	defer cancel()
	for _, r := range s.replicas {
		s.goroutines.Go(func() { r.run(ctx) })
	}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	defer s.dropAll()
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
		s.counters.connections.Add(1)
		s.mu.Lock()
		s.conns[c] = struct{}{}
		s.mu.Unlock()
		s.goroutines.Go(func() {
			s.serveConn(ctx, c)
			c.drop(false)
		})
	}
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
		_ = c.nc.SetReadDeadline(time.Now().Add(idleTimeout)) // an error shows at the next read
		if _, err := br.Peek(1); err != nil {
			return
		}
		_ = c.nc.SetReadDeadline(time.Now().Add(requestTimeout))
		req, err := http.ReadRequest(br)
		if err != nil {
			switch {
			case errors.Is(err, errTooLong):
				c.refuse(false, http.StatusRequestHeaderFieldsTooLarge, "BadRequestError", fmt.Sprintf("the header is longer than %d bytes", maxHeader))
				c.drain()
			case !isClosed(err):
				c.refuse(false, http.StatusBadRequest, "BadRequestError", "read request: "+err.Error())
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
		body, err := readBody(req)
		if err != nil {
			if errors.Is(err, errTooLong) {
				c.refuse(false, http.StatusRequestEntityTooLarge, "BadRequestError", fmt.Sprintf("the body is longer than %d bytes", maxBody))
				c.drain()
			} else if !isClosed(err) {
				c.refuse(false, http.StatusBadRequest, "BadRequestError", "read body: "+err.Error())
				c.drain()
			}
			return
		}
		a := s.route(c, req, body, keepAlive)
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

func readBody(req *http.Request) ([]byte, error) {
	if req.ContentLength > maxBody {
		return nil, errTooLong
	}
	b, err := io.ReadAll(io.LimitReader(req.Body, maxBody+1))
	if err == nil && len(b) > maxBody {
		return nil, errTooLong
	}
	return b, err
}

// respond sends a whole response.
func (c *conn) respond(status int, kind string, body []byte, keepAlive bool) {
	h := make([]byte, 0, 256+len(body))
	h = append(h, "HTTP/1.1 "...)
	h = strconv.AppendInt(h, int64(status), 10)
	h = append(append(append(h, ' '), http.StatusText(status)...), "\r\n"...)
	h = appendHeader(h, kind, keepAlive)
	h = append(h, "Content-Length: "...)
	h = strconv.AppendInt(h, int64(len(body)), 10)
	h = append(h, "\r\n\r\n"...)
	// A whole answer may be as long as it is; only one is queued at a time.
	c.sendUpTo(append(h, body...), maxQueued+cap(h))
}

func appendHeader(h []byte, kind string, keepAlive bool) []byte {
	h = append(h, "Server: plimsoll-twin\r\nDate: "...)
	h = time.Now().UTC().AppendFormat(h, http.TimeFormat)
	h = append(append(append(h, "\r\nContent-Type: "...), kind...), "\r\n"...)
	if !keepAlive {
		h = append(h, "Connection: close\r\n"...)
	}
	return h
}

// refuse sends an error in the form of the OpenAI API.
func (c *conn) refuse(keepAlive bool, status int, kind, message string) {
	c.srv.counters.refused.Add(1)
	c.respond(status, "application/json", dialect.AppendError(nil, message, kind, status), keepAlive)
}

// route answers a request; an answer that is still to come is returned.
func (s *Server) route(c *conn, req *http.Request, body []byte, keepAlive bool) *answer {
	path := strings.TrimSuffix(req.URL.Path, "/")
	methods := map[string]string{
		"/v1/chat/completions": http.MethodPost, "/v1/completions": http.MethodPost, "/tokenize": http.MethodPost,
		"/v1/models": http.MethodGet, "/health": http.MethodGet, "/metrics": http.MethodGet, "/version": http.MethodGet,
	}
	want, ok := methods[path]
	if !ok {
		c.refuse(keepAlive, http.StatusNotFound, "NotFoundError", "no such path: "+req.URL.Path)
		return nil
	}
	if req.Method != want {
		c.refuse(keepAlive, http.StatusMethodNotAllowed, "MethodNotAllowedError", fmt.Sprintf("%s takes %s, not %s", path, want, req.Method))
		return nil
	}
	switch path {
	case "/v1/models":
		c.respond(http.StatusOK, "application/json", dialect.AppendModels(nil, []string{s.model.Name}, s.created), keepAlive)
	case "/health":
		c.respond(http.StatusOK, "text/plain; charset=utf-8", nil, keepAlive)
	case "/version":
		c.respond(http.StatusOK, "application/json", []byte(`{"version":"plimsoll-twin"}`), keepAlive)
	case "/metrics":
		c.respond(http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", s.appendMetrics(nil), keepAlive)
	case "/tokenize":
		s.tokenize(c, body, keepAlive)
	case "/v1/chat/completions":
		return s.generate(c, req, dialect.OpenAIChat, body, keepAlive)
	case "/v1/completions":
		return s.generate(c, req, dialect.OpenAICompletions, body, keepAlive)
	}
	return nil
}

// maxChoices bounds the sequences of one request, maxSequences those of a
// server, waiting ones included.
const (
	maxChoices   = 1024
	maxSequences = 1 << 18
)

// generate starts an answer, or refuses.
func (s *Server) generate(c *conn, req *http.Request, api dialect.API, body []byte, keepAlive bool) *answer {
	bad := func(format string, args ...any) *answer {
		c.refuse(keepAlive, http.StatusBadRequest, "BadRequestError", fmt.Sprintf(format, args...))
		return nil
	}
	r, err := dialect.ParseRequest(api, body)
	if err != nil {
		return bad("%v", err)
	}
	if !s.serves(r.Model) {
		c.refuse(keepAlive, http.StatusNotFound, "NotFoundError", fmt.Sprintf("The model `%s` does not exist; this server has `%s`.", r.Model, s.model.Name))
		return nil
	}
	prompts := promptsOf(api, r)
	if n := len(prompts) * r.N; n > maxChoices {
		return bad("%d prompts with n %d are %d sequences; at most %d", len(prompts), r.N, n, maxChoices)
	}
	a := &answer{
		conn: c, stream: r.Stream, usage: r.IncludeUsage, runningUsage: r.IncludeUsage && r.ContinuousUsage,
		chunked: req.ProtoAtLeast(1, 1), keepAlive: keepAlive, done: make(chan struct{}),
	}
	a.choices = make([]choice, 0, len(prompts)*r.N)
	for _, p := range prompts {
		if p.tokens >= s.context {
			return bad("This model's maximum context length is %d tokens. However, the prompt has %d tokens, and at least one is needed for the answer.", s.context, p.tokens)
		}
		limit := r.MaxTokens
		switch {
		case limit == 0 && api == dialect.OpenAICompletions:
			limit = min(16, s.context-p.tokens)
		case limit == 0:
			limit = s.context - p.tokens
		case p.tokens+limit > s.context:
			return bad("This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the prompt, %d in the answer).", s.context, p.tokens+limit, p.tokens, limit)
		}
		a.prompt += p.tokens
		for range r.N {
			i := len(a.choices)
			seed := textSeed(s.cfg.Seed, p.text, i)
			if r.Seed != nil {
				seed = random.Derive(s.cfg.Seed, uint64(*r.Seed), uint64(i))
			}
			output, finish := limit, finishLength
			if !r.IgnoreEOS {
				natural := naturalAnswer.Int(random.Stream(seed), 1)
				if natural = max(natural, r.MinTokens); natural < limit {
					output, finish = natural, finishStop
				}
			}
			a.choices = append(a.choices, choice{answer: a, index: i, finish: finish, seq: Seq{Prompt: p.tokens, Output: output}, speech: speech{seed: seed, left: output}})
		}
	}
	a.unfinished = len(a.choices)
	if s.counters.sequences.Add(int64(len(a.choices))) > maxSequences {
		s.counters.sequences.Add(-int64(len(a.choices)))
		c.refuse(keepAlive, http.StatusServiceUnavailable, "ServiceUnavailableError", fmt.Sprintf("%d sequences are under way or waiting; no more are taken", maxSequences))
		return nil
	}
	s.counters.inFlight.Add(1)
	a.replica = s.replicas[s.turn.Add(1)%uint64(len(s.replicas))]
	id := "cmpl-"
	if api == dialect.OpenAIChat {
		id = "chatcmpl-"
	}
	id += s.run + "-" + strconv.FormatUint(s.ids.Add(1), 10)
	a.w = dialect.NewWriter(api, id, s.model.Name, time.Now().Unix())
	if a.stream {
		h := append(make([]byte, 0, 256), "HTTP/1.1 200 OK\r\n"...)
		if !a.chunked {
			h = append(h[:0], "HTTP/1.0 200 OK\r\n"...)
		}
		h = appendHeader(h, "text/event-stream; charset=utf-8", keepAlive)
		h = append(h, "Cache-Control: no-cache\r\n"...)
		if a.chunked {
			h = append(h, "Transfer-Encoding: chunked\r\n"...)
		}
		c.send(append(h, "\r\n"...))
	}
	a.replica.submit(a)
	return a
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

// prompt is what one or more choices answer.
type prompt struct {
	text   string
	tokens int
}

func promptsOf(api dialect.API, r *dialect.ServerRequest) []prompt {
	if api == dialect.OpenAIChat {
		var b strings.Builder
		tokens := templateTokens
		for _, m := range r.Messages {
			b.WriteString(m.Role)
			b.WriteByte('\n')
			b.WriteString(m.Text)
			b.WriteByte('\n')
			tokens += templateMessageTokens + CountTokens(m.Text)
		}
		return []prompt{{b.String(), tokens}}
	}
	all := make([]prompt, len(r.Prompts))
	for i, text := range r.Prompts {
		// An empty prompt still has the token that starts a text.
		all[i] = prompt{text, max(1, r.PromptTokens[i], CountTokens(text))}
	}
	return all
}

// tokenize answers with the number of tokens that a prompt would have.
func (s *Server) tokenize(c *conn, body []byte, keepAlive bool) {
	var probe struct {
		Messages json.RawMessage `json:"messages"`
	}
	api := dialect.OpenAICompletions
	if json.Unmarshal(body, &probe) == nil && len(probe.Messages) > 0 {
		api = dialect.OpenAIChat
	}
	r, err := dialect.ParseRequest(api, body)
	if err != nil {
		c.refuse(keepAlive, http.StatusBadRequest, "BadRequestError", err.Error())
		return
	}
	if !s.serves(r.Model) {
		c.refuse(keepAlive, http.StatusNotFound, "NotFoundError", fmt.Sprintf("The model `%s` does not exist; this server has `%s`.", r.Model, s.model.Name))
		return
	}
	count := 0
	for _, p := range promptsOf(api, r) {
		count += p.tokens
	}
	c.respond(http.StatusOK, "application/json", fmt.Appendf(nil, `{"count":%d,"max_model_len":%d}`, count, s.context), keepAlive)
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
	// written, in ns; Rebased how often a replica gave up catching up.
	Late    *histogram.Histogram
	Rebased int64
}

// Stats returns the totals over all replicas. It may be called at any time.
func (s *Server) Stats() Stats {
	c := &s.counters
	st := Stats{
		Connections: c.connections.Load(), Requests: c.requests.Load(), Refused: c.refused.Load(),
		InFlight: c.inFlight.Load(), Aborted: c.aborted.Load(), SlowClients: c.slowClients.Load(),
		Late: new(histogram.Histogram),
	}
	for _, r := range s.replicas {
		st.Running += r.state.running.Load()
		st.Waiting += r.state.waiting.Load()
		st.PromptTokens += r.state.prompt.Load()
		st.OutputTokens += r.state.output.Load()
		st.Preemptions += r.state.preemptions.Load()
		st.Steps += r.state.steps.Load()
		st.Rebased += r.state.rebased.Load()
		r.logMu.Lock()
		st.Late.Merge(&r.late)
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
		all = append(all, r.accounts...)
		r.logMu.Unlock()
	}
	return all
}

// Describe says in one line what is served.
func (s *Server) Describe() string {
	return s.cluster.Describe()
}
