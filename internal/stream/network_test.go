package stream

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll/internal/play"
)

// hello answers with the remote address of the connection.
func hello(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"from":%q,"proto":%q}`, r.RemoteAddr, r.Proto)
}

func server(t *testing.T, f http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s
}

func quietTLS(t *testing.T, f http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(f)
	s.EnableHTTP2 = true // offered, and not taken
	s.Config.ErrorLog = newDiscardLog()
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// TestTLS is case 070 and checks that kernel times survive TLS.
func TestTLS(t *testing.T) {
	srv := quietTLS(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\n", r.Proto)
	})
	get := func(cfg Config) *seen {
		return exchange(t.Context(), newClient(t, cfg), &Request{URL: srv.URL, Body: []byte("{}")}, nil)
	}
	s := get(Config{})
	if s.x.Failure != FailTLS || !strings.Contains(s.x.Err, "certificate signed by unknown authority") {
		t.Errorf("default: %v %q", s.x.Failure, s.x.Err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	for name, conf := range map[string]*tls.Config{"ca": {RootCAs: pool}, "insecure": {InsecureSkipVerify: true}} {
		s := get(Config{TLS: conf})
		if s.x.Failure != NoFailure || len(s.events) != 1 || s.events[0].Data != "HTTP/1.1" {
			t.Errorf("%s: %v %q, %v", name, s.x.Failure, s.x.Err, s.events)
		}
		if kernelTimesHere && !s.x.KernelTimes {
			t.Errorf("%s: no kernel times", name)
		}
	}
	plain := server(t, hello)
	s = exchange(t.Context(), newClient(t, Config{}), &Request{URL: strings.Replace(plain.URL, "http:", "https:", 1)}, nil)
	if s.x.Failure != FailTLS || !strings.Contains(s.x.Err, "HTTP response to HTTPS client") && !strings.Contains(s.x.Err, "TLS") {
		t.Errorf("TLS to a plain server: %v %q", s.x.Failure, s.x.Err)
	}
}

// TestProxy goes through a proxy, plain and by a tunnel.
func TestProxy(t *testing.T) {
	plain, secure := server(t, hello), quietTLS(t, hello)
	var seenAbs, seenConnect, seenAuth atomic.Int64
	proxy := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") == "Basic dTpw" { // u:p
			seenAuth.Add(1)
		}
		if r.Method == http.MethodConnect {
			seenConnect.Add(1)
			up, err := net.Dial("tcp", r.Host)
			if err != nil {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			down, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			fmt.Fprint(down, "HTTP/1.1 200 Connection established\r\n\r\n")
			go func() {
				_, _ = io.Copy(up, rw)
				_ = up.Close()
			}()
			_, _ = io.Copy(down, up)
			_ = down.Close()
			return
		}
		if r.URL.IsAbs() {
			seenAbs.Add(1)
		}
		hello(w, r)
	})
	c := newClient(t, Config{Proxy: strings.Replace(proxy.URL, "http://", "http://u:p@", 1), TLS: &tls.Config{InsecureSkipVerify: true}})
	for _, url := range []string{plain.URL + "/v1", secure.URL + "/v1", secure.URL + "/v1"} {
		if s := exchange(t.Context(), c, &Request{URL: url, Body: []byte("{}")}, nil); s.x.Failure != NoFailure || !strings.Contains(s.body, "HTTP/1.1") {
			t.Errorf("%s: %v %q %q", url, s.x.Failure, s.x.Err, s.body)
		}
	}
	if seenAbs.Load() != 1 || seenConnect.Load() != 1 || seenAuth.Load() != 2 {
		t.Errorf("absolute %d, connect %d, authorised %d; want 1, 1, 2", seenAbs.Load(), seenConnect.Load(), seenAuth.Load())
	}
	s := exchange(t.Context(), c, &Request{URL: "https://127.0.0.1:1/v1"}, nil)
	if s.x.Failure == NoFailure || !strings.Contains(s.x.Err, "502") {
		t.Errorf("refused tunnel: %v %q", s.x.Failure, s.x.Err)
	}
	if _, err := New(Config{Proxy: "socks5://x:1"}); err == nil || !strings.Contains(err.Error(), "socks5") {
		t.Errorf("socks5: %v", err)
	}
}

// TestRoundRobin is case 068: a name with three addresses gets the connections
// in turn, and a connection keeps its requests.
func TestRoundRobin(t *testing.T) {
	// Nobody is answered before all six are there, so that each has a connection
	// of its own.
	var here atomic.Int64
	all := make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if here.Add(1) == 6 {
			close(all)
		}
		<-all
		hello(w, r)
	}))
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	srv.Listener = l
	srv.Start()
	defer srv.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	c := newClient(t, Config{Resolve: func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3")}, nil
	}})
	var mu sync.Mutex
	requests := map[string]int{}
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			var x Exchange
			for range 100 {
				c.Do(t.Context(), &x, &Request{URL: "http://several:" + port + "/", Body: []byte("{}")})
				x.Body()
				if x.Failure != NoFailure {
					t.Errorf("%v %q", x.Failure, x.Err)
					return
				}
				mu.Lock()
				requests[x.Remote]++
				mu.Unlock()
			}
		})
	}
	group.Wait()
	e := c.Endpoints()[0]
	if len(e.Addresses) == 0 || e.Opened > 6 {
		t.Errorf("%+v", e)
	}
	least, most := int64(1<<60), int64(0)
	for i := 1; i <= 3; i++ {
		n := e.Addresses[fmt.Sprintf("127.0.0.%d:%s", i, port)]
		least, most = min(least, n), max(most, n)
	}
	if most-least > 1 {
		t.Errorf("connections by address %v, want them even", e.Addresses)
	}
	for addr, n := range requests {
		if want := int(e.Addresses[addr]) * 100; n != want {
			t.Errorf("%s got %d requests on %d connections, want %d", addr, n, e.Addresses[addr], want)
		}
	}
	t.Logf("connections %v, requests %v", e.Addresses, requests)
}

// TestSecondFamily keeps to the family that answers when a name has both.
func TestSecondFamily(t *testing.T) {
	srv := server(t, hello)
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	c := newClient(t, Config{NewConnection: true, Resolve: func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("::1"), netip.MustParseAddr("127.0.0.1")}, nil
	}})
	for range 4 {
		s := exchange(t.Context(), c, &Request{URL: "http://both:" + port}, nil)
		if s.x.Failure != NoFailure || s.x.Reused {
			t.Errorf("%v %q, reused %v", s.x.Failure, s.x.Err, s.x.Reused)
		}
	}
	if e := c.Endpoints()[0]; e.Opened != 4 || len(c.ends["http://both:"+port].addrs) != 1 {
		t.Errorf("%+v", e)
	}
}

// TestRefused dials a port that nobody listens on.
func TestRefused(t *testing.T) {
	url := "http://" + play.Nobody(t)
	s := exchange(t.Context(), newClient(t, Config{}), &Request{URL: url}, nil)
	if s.x.Failure != FailConnectRefused || !strings.Contains(s.x.Err, "refused") {
		t.Errorf("%v %q", s.x.Failure, s.x.Err)
	}
	for _, bad := range []string{"ftp://x", "http://", ":", "http://a b/"} {
		s := exchange(t.Context(), newClient(t, Config{}), &Request{URL: bad}, nil)
		if s.x.Failure != FailProtocol || s.x.Err == "" {
			t.Errorf("%q: %v %q", bad, s.x.Failure, s.x.Err)
		}
	}
}

// TestConnectionLimit is case 112: no more connections than requests at once.
func TestConnectionLimit(t *testing.T) {
	srv := server(t, hello)
	c := newClient(t, Config{})
	var group sync.WaitGroup
	for range 64 {
		group.Go(func() {
			var x Exchange
			for range 16 {
				c.Do(t.Context(), &x, &Request{URL: srv.URL, Body: []byte("{}")})
				if x.Body(); x.Failure != NoFailure {
					t.Errorf("%v %q", x.Failure, x.Err)
				}
			}
		})
	}
	group.Wait()
	e := c.Endpoints()[0]
	// A few more than 64 on a machine that is too busy: net/http gives up a
	// connection when its writer does not report within 50 ms of the response.
	if e.Opened > 64+4 || e.Opened+e.Reused != 64*16 || e.Stale != 0 || e.IdleDeaths != 0 {
		t.Errorf("%+v, want at most 64 opened and 1024 requests", e)
	}
	if n := c.OpenConnections(); n > e.Opened || n < e.Opened-4 {
		t.Errorf("%d connections open, %+v", n, e)
	}
	most := c.MostConnections()
	if most > e.Opened || most < c.OpenConnections() {
		t.Errorf("at most %d connections, %+v", most, e)
	}
	c.Close()
	if n := c.OpenConnections(); n != 0 {
		t.Errorf("%d connections open after Close", n)
	}
	if n := c.MostConnections(); n != most {
		t.Errorf("at most %d connections after Close, %d before", n, most)
	}
}

// TestSocketFailures breaks streams with RST and FIN on a real socket.
func TestSocketFailures(t *testing.T) {
	for response, want := range map[string]Failure{
		`{` + sse + `,"framing":"chunked","writes":[{"at_ms":5,"text":"data: a\n\n"}],"end":{"at_ms":15,"how":"rst"}}`: FailReset,
		`{` + sse + `,"framing":"chunked","writes":[{"at_ms":5,"text":"data: a\n\n"}],"end":{"at_ms":15,"how":"fin"}}`: FailTruncated,
		`{` + sse + `,"framing":"close","writes":[{"at_ms":5,"text":"data: a\n\n"}],"end":{"at_ms":15,"how":"eof"}}`:   NoFailure,
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		p := play.Serve(l, script(t, response))
		s := exchange(t.Context(), newClient(t, Config{}), &Request{URL: p.URL(), Body: []byte("{}")}, nil)
		if s.x.Failure != want || len(s.events) != 1 || s.events[0].Data != "a" {
			t.Errorf("%s: %v %q %v", response, s.x.Failure, s.x.Err, s.events)
		}
		p.Close()
	}
}

// TestKernelLag delays the reader and finds the arrival times untouched: what a
// kernel time is for. The events lie far enough apart not to be merged.
func TestKernelLag(t *testing.T) {
	if !kernelTimesHere {
		t.Skip("no kernel receive times on this system")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	response := `{` + sse + `,"framing":"chunked","writes":[{"at_ms":1,"text":"data: a\n\n"},{"at_ms":30,"text":"data: b\n\n"},{"at_ms":31,"text":"data: c\n\n"}],"end":{"at_ms":31,"how":"eof"}}`
	p := play.Serve(l, script(t, response))
	defer p.Close()
	start := time.Now()
	c := newClient(t, Config{Start: start})
	var x Exchange
	c.Do(t.Context(), &x, &Request{URL: p.URL(), Body: []byte("{}")})
	var events []Event
	for x.Next() {
		events = append(events, x.Ev)
		if len(events) == 1 {
			time.Sleep(150 * time.Millisecond) // real time: the kernel's clock is what is tested
		}
	}
	if x.Failure != NoFailure || len(events) != 3 || !x.KernelTimes {
		t.Fatalf("%v %q, %d events, kernel %v", x.Failure, x.Err, len(events), x.KernelTimes)
	}
	last := p.Requests()[0].Wrote[2].Sub(start)
	for _, ev := range events[1:] {
		// The segment that waited carries the time of its newest byte, which
		// was there 100 ms before anybody read it.
		// On a busy machine the writer may be late too: it is its time that
		// counts, and the stamp lies nearer to it than to the read.
		waited, late := ev.UserAt-int64(last), ev.At-int64(last)
		if waited < int64(40*time.Millisecond) {
			t.Skipf("the writer was so late that event %q waited only %v", ev.Data, time.Duration(waited))
		}
		if late > waited/2 {
			t.Errorf("event %q stamped %v after it was written, read after %v", ev.Data, time.Duration(late), time.Duration(waited))
		}
	}
	if events[1].Read != events[2].Read || events[0].Read == events[1].Read {
		t.Errorf("reads %d %d %d: the last two came out of one", events[0].Read, events[1].Read, events[2].Read)
	}
	if x.ReadLagMax < events[2].UserAt-events[2].At || x.ReadLagSum < x.ReadLagMax {
		t.Errorf("read lag max %d, sum %d", x.ReadLagMax, x.ReadLagSum)
	}
}

// TestEarlyErrorOverSocket sends 413 and closes while the client still writes.
func TestEarlyErrorOverSocket(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			br := bufio.NewReader(conn)
			for line := "x"; err == nil && strings.TrimSpace(line) != ""; {
				line, err = br.ReadString('\n')
			}
			fmt.Fprint(conn, "HTTP/1.1 413 Content Too Large\r\nContent-Type: text/plain\r\nContent-Length: 7\r\nConnection: close\r\n\r\ntoo big")
			time.Sleep(20 * time.Millisecond) // real time: the client is to be stuck in its write
			_ = conn.Close()                  // with unread bytes: a reset
		}
	}()
	c := newClient(t, Config{})
	for range 4 {
		s := exchange(t.Context(), c, &Request{URL: "http://" + l.Addr().String(), Body: bytes.Repeat([]byte("x"), 16<<20)}, nil)
		if s.x.Failure != NoFailure || s.x.Status != 413 || s.body != "too big" || !s.x.EarlyResponse {
			t.Fatalf("%v %q, status %d, body %q, early %v", s.x.Failure, s.x.Err, s.x.Status, s.body, s.x.EarlyResponse)
		}
	}
}

// TestKeepAliveLie is a server that closes after every stream while it says
// keep-alive: no request may fail, none may be repeated unseen, and in the end
// connections are not reused any more.
func TestKeepAliveLie(t *testing.T) {
	var served atomic.Int64
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				req, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				served.Add(1)
				fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nKeep-Alive: timeout=5, max=100\r\nTransfer-Encoding: chunked\r\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
			}()
		}
	}()
	c := newClient(t, Config{})
	var resends atomic.Int64
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 50 {
				s := exchange(t.Context(), c, &Request{URL: "http://" + l.Addr().String(), Body: []byte("{}")}, done)
				if s.x.Failure != NoFailure || len(s.events) != 1 {
					t.Errorf("%v %q", s.x.Failure, s.x.Err)
				}
				resends.Add(int64(s.x.Resends))
			}
		})
	}
	group.Wait()
	e := c.Endpoints()[0]
	if served.Load() != 200 || e.Stale != resends.Load() {
		t.Errorf("served %d of 200, %d resends seen, %+v", served.Load(), resends.Load(), e)
	}
	if e.IdleDeaths+e.Stale == 0 {
		t.Errorf("nobody noticed: %+v", e)
	}
	t.Logf("%+v", e)
}

// TestCancelAnywhere cancels exchanges at any moment of their lives, from many
// goroutines, and looks for failures of another kind, connections left open and
// answers that reached the wrong request.
func TestCancelAnywhere(t *testing.T) {
	srv := server(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for range 5 {
			fmt.Fprintf(w, "data: %s\n\n", body)
			w.(http.Flusher).Flush()
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	})
	c := newClient(t, Config{})
	var group sync.WaitGroup
	var ok, cancelled atomic.Int64
	for worker := range 8 {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 1))
			var x Exchange
			for i := range 60 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(4000))*time.Microsecond)
				want := fmt.Sprintf("%d-%d", worker, i)
				c.Do(ctx, &x, &Request{URL: srv.URL, Body: []byte(want), IdleTimeout: time.Minute, TotalTimeout: time.Minute})
				for x.Failure == NoFailure && x.Next() {
					got := string(x.Ev.Data)
					if got == "[DONE]" {
						x.Close()
						break
					}
					if got != want {
						t.Errorf("an event of %s in the stream of %s", got, want)
					}
				}
				switch x.Failure {
				case NoFailure:
					ok.Add(1)
				case FailCancelled:
					cancelled.Add(1)
				default:
					t.Errorf("%v %q", x.Failure, x.Err)
				}
				cancel()
			}
		})
	}
	group.Wait()
	e := c.Endpoints()[0]
	t.Logf("%d ok, %d cancelled, %+v", ok.Load(), cancelled.Load(), e)
	if ok.Load()+cancelled.Load() != 8*60 || c.OpenConnections() > 8 {
		t.Errorf("%d ok, %d cancelled, %d connections open", ok.Load(), cancelled.Load(), c.OpenConnections())
	}
}

func newDiscardLog() *log.Logger { return log.New(io.Discard, "", 0) }
