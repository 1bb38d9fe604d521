package cli

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"

	"plimsoll/internal/dialect"
)

// serve starts one of the servers that the scripts name:
//
//	vllm    the passive face of one engine
//	chat    streaming chat, one word each 2 ms, usage as asked; no completions
//	held    chat that holds every answer back behind its first word until it is let go
//	plain   chat that ignores stream and usage options, and its own length
//	broken  chat that answers every POST with 500
//	half    chat that breaks off every stream in the middle
//	locked  wants the key s3cret, and repeats one that it refuses
//	query   wants the key s3cret in the query of every URL
//	nosy    a telemetry page that repeats the key that came with it
//	html    a web site, not an API
//	silent  accepts connections and says nothing
//
// The last two are to be found by their URL, to see what they have in hand.
func serve(name string) (url string, stop func()) {
	mux := http.NewServeMux()
	models := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(dialect.AppendModels(nil, []string{"test-model"}, 1))
	}
	mux.HandleFunc("GET /v1/models", models)
	chat := func(s chatServer) { mux.Handle("POST /v1/chat/completions", s) }
	var h http.Handler = mux
	switch name {
	case "vllm":
		mux = http.NewServeMux()
		h = mux
		mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Server", "uvicorn")
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"llama-3.1-8b","owned_by":"vllm","max_model_len":8192},{"id":"a\u001b[31mb"}]}`)
		})
		mux.HandleFunc("POST /v1/chat/completions", func(http.ResponseWriter, *http.Request) {})
		mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"version":"0.11.0"}`)
		})
		mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
		mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\"} 0\n")
		})
	case "chat":
		chat(chatServer{gap: 2 * time.Millisecond})
	case "held":
		hold := newHeld()
		chat(chatServer{gap: time.Millisecond, hold: hold})
		s := httptest.NewServer(h)
		heldBy.Store(s.URL, hold)
		return s.URL, func() { hold.release(); s.Close() }
	case "plain":
		chat(chatServer{gap: time.Millisecond, plain: true})
	case "half":
		chat(chatServer{gap: time.Millisecond, half: true})
	case "broken":
		mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write(dialect.AppendError(nil, "out of \x1b[31mluck", "server_error", "", 500))
		})
	case "locked":
		h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer s3cret" {
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = w.Write(dialect.AppendError(nil, "no such key: "+r.Header.Get("Authorization"), "auth", "", 401))
				return
			}
			if r.Method == http.MethodPost {
				chatServer{gap: time.Millisecond}.ServeHTTP(w, r)
				return
			}
			models(w, r)
		})
	case "query":
		h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.RawQuery != "key=s3cret":
				w.WriteHeader(http.StatusUnauthorized)
			case r.Method == http.MethodPost && r.URL.Path == "/v1/chat/completions":
				chatServer{gap: time.Millisecond}.ServeHTTP(w, r)
			case r.URL.Path == "/v1/models":
				models(w, r)
			default:
				w.WriteHeader(http.StatusNotFound)
			}
		})
	case "nosy":
		mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "it got ["+r.Header.Get("Authorization")+"]\nvllm:num_requests_running{engine=\"0\"} 1\n")
		})
	case "html":
		h = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<html>hello</html>")
		})
	case "silent":
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		hold := newHeld()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				hold.take(c.Close)
			}
		}()
		url := "http://" + l.Addr().String()
		heldBy.Store(url, hold)
		return url, func() { _ = l.Close(); hold.release() }
	default:
		panic("no server " + name)
	}
	s := httptest.NewServer(h)
	return s.URL, s.Close
}

// heldBy has the servers that hold something, by their URL.
var heldBy sync.Map

// held is what a server has in hand.
type held struct {
	free chan struct{} // closed when everything is let go
	once sync.Once

	mu   sync.Mutex
	n    int
	left []func() error // what is done then
}

func newHeld() *held { return &held{free: make(chan struct{})} }

// take adds one that is held, and what is done when it is let go.
func (h *held) take(done func() error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n++
	h.left = append(h.left, done)
}

// drop takes one away that has gone by itself.
func (h *held) drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n--
}

// count returns how many are held.
func (h *held) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n
}

// release lets everything go, and holds nothing from now on.
func (h *held) release() {
	h.once.Do(func() {
		close(h.free)
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, done := range h.left {
			_ = done()
		}
	})
}

// chatServer answers chats with as many words as were asked for, 8 by default.
type chatServer struct {
	gap         time.Duration
	plain, half bool
	hold        *held // nil holds nothing
}

func (s chatServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	req, err := dialect.ParseRequest(dialect.OpenAIChat, body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write(dialect.AppendError(nil, err.Error(), "invalid_request_error", "", 400))
		return
	}
	n := req.MaxTokens
	if n == 0 || s.plain {
		n = 8
	}
	out := dialect.NewWriter(dialect.OpenAIChat, "chatcmpl-1", req.Model, 1)
	account := func(done int) *dialect.WriterUsage {
		return &dialect.WriterUsage{Prompt: len(body) / 6, Completion: done, Cached: -1, Reasoning: -1}
	}
	if !req.Stream || s.plain {
		text := ""
		for i := range n {
			text += " w" + strconv.Itoa(i)
		}
		var u *dialect.WriterUsage
		if !s.plain {
			u = account(n)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(out.AppendBody(nil, []dialect.Answer{{Text: text, Finish: "length"}}, u))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush := func(b []byte) {
		_, _ = w.Write(b)
		w.(http.Flusher).Flush()
	}
	running := func(done int) *dialect.WriterUsage {
		if !req.ContinuousUsage {
			return nil
		}
		return account(done)
	}
	flush(out.AppendRole(nil, 0, running(0)))
	for i := range n {
		if s.hold != nil && i == 1 {
			s.hold.take(func() error { return nil })
			select {
			case <-s.hold.free:
			case <-r.Context().Done():
			}
			s.hold.drop()
		}
		select {
		case <-time.After(s.gap):
		case <-r.Context().Done():
			return
		}
		flush(out.AppendText(nil, 0, " w"+strconv.Itoa(i), "", running(i+1)))
		if s.half && i == n/2 {
			panic(http.ErrAbortHandler)
		}
	}
	b := out.AppendFinish(nil, 0, "length", running(n))
	if req.IncludeUsage {
		b = out.AppendUsage(b, account(n))
	}
	flush(out.AppendDone(b))
}
