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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll/internal/memconn"
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
		if kernelTimesHere && !s.x.KernelTimes && !s.x.WallStep {
			t.Errorf("%s: no kernel times", name)
		}
	}
	plain := server(t, hello)
	s = exchange(t.Context(), newClient(t, Config{}), &Request{URL: strings.Replace(plain.URL, "http:", "https:", 1)}, nil)
	if s.x.Failure != FailTLS || !strings.Contains(s.x.Err, "HTTP response to HTTPS client") && !strings.Contains(s.x.Err, "TLS") {
		t.Errorf("TLS to a plain server: %v %q", s.x.Failure, s.x.Err)
	}
}

// dialer connects to servers in memory.
type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// served runs f in fake time beside HTTP servers in memory by host:port; nobody else listens.
func served(t *testing.T, servers map[string]http.HandlerFunc, f func(t *testing.T, dial dialer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		listeners := map[string]*memconn.Listener{}
		for addr, h := range servers {
			srv := httptest.NewUnstartedServer(h)
			_ = srv.Listener.Close() // a real one
			listeners[addr] = memconn.Listen(addr)
			srv.Listener = listeners[addr]
			srv.Config.ErrorLog = newDiscardLog()
			if strings.HasSuffix(addr, ":443") {
				srv.StartTLS()
			} else {
				srv.Start()
			}
			defer srv.Close()
		}
		f(t, func(ctx context.Context, network, addr string) (net.Conn, error) {
			if l := listeners[addr]; l != nil {
				return l.Dial(ctx, network, addr)
			}
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		})
	})
}

// TestProxy goes through a proxy, plain and by a tunnel.
func TestProxy(t *testing.T) {
	var seenAbs, seenConnect, seenAuth atomic.Int64
	var up dialer
	proxy := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") == "Basic dTpw" { // u:p
			seenAuth.Add(1)
		}
		if r.Method == http.MethodConnect {
			seenConnect.Add(1)
			up, err := up(r.Context(), "tcp", r.Host)
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
	}
	served(t, map[string]http.HandlerFunc{"plain:80": hello, "secure:443": hello, "proxy:3128": proxy}, func(t *testing.T, dial dialer) {
		up = dial
		c, err := New(Config{Dial: dial, Proxy: "http://u:p@proxy:3128", TLS: &tls.Config{InsecureSkipVerify: true}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for i, url := range []string{"http://plain/v1", "https://secure/v1", "https://secure/v1"} {
			s := exchange(t.Context(), c, &Request{URL: url, Body: []byte("{}")}, nil)
			if s.x.Failure != NoFailure || !strings.Contains(s.body, "HTTP/1.1") || s.x.Reused != (i == 2) {
				t.Errorf("%s: %v %q %q, reused %v", url, s.x.Failure, s.x.Err, s.body, s.x.Reused)
			}
		}
		if seenAbs.Load() != 1 || seenConnect.Load() != 1 || seenAuth.Load() != 2 {
			t.Errorf("absolute %d, connect %d, authorised %d; want 1, 1, 2", seenAbs.Load(), seenConnect.Load(), seenAuth.Load())
		}
		s := exchange(t.Context(), c, &Request{URL: "https://nobody/v1"}, nil)
		if s.x.Failure == NoFailure || !strings.Contains(s.x.Err, "502") {
			t.Errorf("refused tunnel: %v %q", s.x.Failure, s.x.Err)
		}
	})
	if _, err := New(Config{Proxy: "socks5://x:1"}); err == nil || !strings.Contains(err.Error(), "socks5") {
		t.Errorf("socks5: %v", err)
	}
}

// slowly is hello after 10 ms, so that those who come at once are there at once.
func slowly(w http.ResponseWriter, r *http.Request) {
	time.Sleep(10 * time.Millisecond)
	hello(w, r)
}

// TestRoundRobin is case 068: a name with three addresses gets the connections
// in turn, and a connection keeps its requests.
func TestRoundRobin(t *testing.T) {
	addrs := []string{"127.0.0.1:80", "127.0.0.2:80", "127.0.0.3:80"}
	servers := map[string]http.HandlerFunc{}
	var resolved []netip.Addr
	for _, a := range addrs {
		servers[a] = slowly
		resolved = append(resolved, netip.MustParseAddrPort(a).Addr())
	}
	served(t, servers, func(t *testing.T, dial dialer) {
		c, err := New(Config{Dial: dial, Resolve: func(context.Context, string) ([]netip.Addr, error) { return slices.Clone(resolved), nil }})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var mu sync.Mutex
		requests := map[string]int{}
		var group sync.WaitGroup
		for range 6 {
			group.Go(func() {
				var x Exchange
				first := ""
				for i := range 100 {
					c.Do(t.Context(), &x, &Request{URL: "http://several/", Body: []byte("{}")})
					x.Body()
					if i == 0 {
						first = x.Remote
					}
					if x.Failure != NoFailure || x.Reused != (i > 0) || x.Remote != first {
						t.Errorf("%v %q, reused %v, from %s, the first from %s", x.Failure, x.Err, x.Reused, x.Remote, first)
						return
					}
					mu.Lock()
					requests[x.Remote]++
					mu.Unlock()
					time.Sleep(time.Millisecond) // all connections are idle before anybody takes one
				}
			})
		}
		group.Wait()
		for _, a := range addrs {
			if e := c.Endpoints()[0]; e.Addresses[a] != 2 || requests[a] != 200 {
				t.Errorf("%s got %d connections and %d requests, want 2 and 200", a, e.Addresses[a], requests[a])
			}
		}
	})
}

// TestSecondFamily keeps to the family that answers when a name has both.
func TestSecondFamily(t *testing.T) {
	served(t, map[string]http.HandlerFunc{"127.0.0.1:80": hello}, func(t *testing.T, dial dialer) {
		var dialled []string
		c, err := New(Config{NewConnection: true, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dialled = append(dialled, addr)
			return dial(ctx, network, addr)
		}, Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("::1"), netip.MustParseAddr("127.0.0.1")}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for range 4 {
			s := exchange(t.Context(), c, &Request{URL: "http://both/"}, nil)
			if s.x.Failure != NoFailure || s.x.Reused {
				t.Errorf("%v %q, reused %v", s.x.Failure, s.x.Err, s.x.Reused)
			}
		}
		if want := append([]string{"[::1]:80"}, slices.Repeat([]string{"127.0.0.1:80"}, 4)...); !slices.Equal(dialled, want) {
			t.Errorf("dialled %q, want %q", dialled, want)
		}
	})
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
	const users, each = 64, 16
	served(t, map[string]http.HandlerFunc{"server:80": slowly}, func(t *testing.T, dial dialer) {
		c, err := New(Config{Dial: dial})
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		for range users {
			group.Go(func() {
				var x Exchange
				for range each {
					c.Do(t.Context(), &x, &Request{URL: "http://server/", Body: []byte("{}")})
					if x.Body(); x.Failure != NoFailure {
						t.Errorf("%v %q", x.Failure, x.Err)
					}
				}
			})
		}
		group.Wait()
		if e := c.Endpoints()[0]; e.Opened != users || e.Reused != users*(each-1) || e.Stale != 0 || e.IdleDeaths != 0 {
			t.Errorf("%+v, want %d opened for %d requests", e, users, users*each)
		}
		if now, most := c.OpenConnections(), c.MostConnections(); now != users || most != users {
			t.Errorf("%d connections open, at most %d, want %d", now, most, users)
		}
		c.Close()
		if now, most := c.OpenConnections(), c.MostConnections(); now != 0 || most != users {
			t.Errorf("%d connections open after Close, at most %d", now, most)
		}
	})
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
// kernel time is for.
func TestKernelLag(t *testing.T) {
	if !kernelTimesHere {
		t.Skip("no kernel receive times on this system")
	}
	on, written := make(chan struct{}), make(chan struct{})
	srv := server(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, text := range []string{"a", "b", "c"} {
			fmt.Fprintf(w, "data: %s\n\n", text)
			w.(http.Flusher).Flush()
			if text == "a" {
				<-on
			}
		}
		close(written)
	})
	c := newClient(t, Config{})
	var x Exchange
	c.Do(t.Context(), &x, &Request{URL: srv.URL, Body: []byte("{}")})
	var events []Event
	if x.Next() {
		events = append(events, x.Ev)
	}
	close(on)
	<-written
	there := c.cfg.Now() // all of it is with the kernel
	const wait = 100 * time.Millisecond
	time.Sleep(wait) // real time: the kernel's clock is what is tested
	for x.Next() {
		events = append(events, x.Ev)
	}
	if x.WallStep {
		t.Log("the wall clock was set")
		return
	}
	if x.Failure != NoFailure || len(events) != 3 || !x.KernelTimes {
		t.Fatalf("%v %q, %d events, kernel %v", x.Failure, x.Err, len(events), x.KernelTimes)
	}
	for _, ev := range events[1:] {
		// However long it was until somebody read it: the stamp lies before the wait,
		// but for what two clocks differ by.
		if waited := ev.UserAt - there; waited < int64(wait) || ev.At > there+waited/10 {
			t.Errorf("event %d is stamped %v after it was there, read after %v", ev.Read, time.Duration(ev.At-there), time.Duration(waited))
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
				c.Do(ctx, &x, &Request{URL: srv.URL, Body: []byte(want), IdleTimeout: time.Hour, TotalTimeout: time.Hour})
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
