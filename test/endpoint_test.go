package test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll/test/process"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

// endpoint is a well-behaved streaming server in this process, by net/http: each
// answer is tokens words, step apart, with usage.
type endpoint struct {
	url     string
	tokens  int
	step    time.Duration
	begun   atomic.Int64  // requests that arrived
	ended   atomic.Int64  // whole answers written
	release chan struct{} // closed when the test ends
}

func newEndpoint(t *testing.T, tokens int, step time.Duration) *endpoint {
	t.Helper()
	e := &endpoint{tokens: tokens, step: step, release: make(chan struct{})}
	e.url = listen(t, http.HandlerFunc(e.serve))
	t.Cleanup(func() { close(e.release) })
	return e
}

// listen serves h on a free loopback port until the test ends.
func listen(t *testing.T, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: process.Patience}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("endpoint: %v", err)
		}
	})
	return "http://" + l.Addr().String()
}

func (e *endpoint) serve(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		http.NotFound(w, r)
		return
	}
	e.begun.Add(1)
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	c := http.NewResponseController(w)
	begin := time.Now()
	for i := range e.tokens {
		select {
		case <-time.After(time.Until(begin.Add(time.Duration(i+1) * e.step))):
		case <-r.Context().Done():
			return
		case <-e.release:
			return
		}
		fmt.Fprintf(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word%d \"},\"finish_reason\":null}]}\n\n", i)
		if c.Flush() != nil {
			return
		}
	}
	fmt.Fprintf(w, "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n")
	fmt.Fprintf(w, "data: {\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":16,\"completion_tokens\":%d,\"total_tokens\":%d}}\n\ndata: [DONE]\n\n", e.tokens, 16+e.tokens)
	e.ended.Add(1) // before anybody can have the end of it
	_ = c.Flush()
}

// raw serves each connection with f, one bad behaviour at a time.
func raw(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				f(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return "http://" + l.Addr().String()
}

// request reads one HTTP request off c and says whether there was one.
func request(c net.Conn) bool {
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err == nil
}

// hang keeps c open until the peer or the test closes it.
func hang(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
