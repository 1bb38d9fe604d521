package web

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/clock"
	"plimsoll/internal/detail"
	"plimsoll/internal/live"
	"plimsoll/internal/load"
)

// limited is a server on a socket with limits of its own.
func limited(t *testing.T, change func(*limits)) (*Server, string) {
	t.Helper()
	s := newServer(t, nil)
	s.limits.beat = 100 * time.Millisecond
	if change != nil {
		change(&s.limits)
	}
	s.streams = make(chan struct{}, s.limits.streams)
	return s, serve(t, s.Serve)
}

func dial(t *testing.T, base string) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestSlowClients sends headers and bodies byte by byte, and nothing at all.
func TestSlowClients(t *testing.T) {
	_, base := limited(t, func(l *limits) { l.header, l.body = 200*time.Millisecond, 300*time.Millisecond })
	host := strings.TrimPrefix(base, "http://")
	for name, text := range map[string]string{
		"nothing": "", "half a header": "GET /api/runs HTTP/1.1\r\nHost: " + host + "\r\nX-Slow: ",
		"half a body": "POST /api/scenarios/check HTTP/1.1\r\nHost: " + host + "\r\nX-Plimsoll: 1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"scenario\": \"",
	} {
		c := dial(t, base)
		stop := make(chan struct{})
		go func() {
			_, _ = io.WriteString(c, text) // the other side may be gone
			for {
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
					if text == "" {
						continue
					}
					if _, err := io.WriteString(c, "a"); err != nil {
						return
					}
				}
			}
		}()
		b, err := io.ReadAll(c)
		close(stop)
		if ne, ok := err.(net.Error); ok && ne.Timeout() { //nolint:errorlint // of this connection
			t.Errorf("%s: the connection was kept open: %q", name, b)
		}
	}
	// Fast enough, and too large.
	_, base = limited(t, nil)
	c := dial(t, base)
	if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Large: %s\r\n\r\n", strings.Repeat("x", 2*maxHeader)); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil || !strings.Contains(line, "431") {
		t.Errorf("a header of %d bytes: %q, %v", 2*maxHeader, line, err)
	}
}

// TestConnections opens more connections than there may be.
func TestConnections(t *testing.T) {
	_, base := limited(t, func(l *limits) { l.connections = 3 })
	ask := func(c net.Conn) (*http.Response, error) {
		_, err := fmt.Fprintf(c, "GET /api/version HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if err != nil {
			return nil, err
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil {
			_, _ = io.Copy(io.Discard, res.Body) // only whether there is one
			_ = res.Body.Close()
		}
		return res, err
	}
	var open []net.Conn
	for range 3 {
		c := dial(t, base)
		if res, err := ask(c); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("a connection that there may be: %v", err)
		}
		open = append(open, c)
	}
	if _, err := ask(dial(t, base)); err == nil {
		t.Error("a fourth connection of three is answered")
	}
	if res, err := ask(open[0]); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("a connection that was there before: %v", err)
	}
	if err := open[1].Close(); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) { // real time: the place is freed when the socket says so
		if _, err := ask(dial(t, base)); err == nil {
			break
		}
		if time.Since(begin) > 5*time.Second {
			t.Fatal("the place of a closed connection stays taken")
		}
	}
}

// TestStreams opens more event streams than there may be, which outlive the time for
// a request and say that they are there.
func TestStreams(t *testing.T) {
	s, base := limited(t, func(l *limits) { l.streams, l.body = 2, 600*time.Millisecond })
	w := live.New()
	id := "20260101T000000Z-x"
	c := clock.New()
	w.Begin(live.Run{
		Row: detail.RunRow{ID: id, Tags: map[string]string{}}, Start: c.Start(), Now: c.Now, Live: new(load.Live), Plan: []load.Step{{Users: 1, Duration: time.Hour}},
	})
	s.Watch(w)
	for _, target := range []string{
		"", "/series", "/figures", "/requests", "/scatter", "/scatter?color=status", "/common?y=ttft&ymin=1", "/bands", "/heat", "/envelope?signal=sm_active", "/data?series=0",
	} {
		// What is not there yet is an empty list, not null: the document says so.
		if status, _, b := call(t, s, "GET", "/api/runs/"+id+target, ""); status != http.StatusOK {
			t.Errorf("GET %s before the first request: %d %s", target, status, b)
		}
	}
	url := base + "/api/runs/" + id + "/events"
	var open []*http.Response
	for range 2 {
		res, err := http.Get(url) //nolint:noctx // bounded by the server, which the test ends
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		open = append(open, res)
	}
	third, err := http.Get(url) //nolint:noctx // likewise
	if err != nil {
		t.Fatal(err)
	}
	_ = third.Body.Close()
	if third.StatusCode != http.StatusServiceUnavailable || third.Header.Get("Retry-After") == "" {
		t.Errorf("a third stream of two: %s", third.Status)
	}
	began := time.Now()
	beats := 0
	for in := bufio.NewScanner(open[0].Body); time.Since(began) < 3*s.limits.body; {
		if !in.Scan() {
			t.Fatalf("the stream ended after %v: %v", time.Since(began), in.Err())
		}
		if strings.HasPrefix(in.Text(), ":") {
			beats++
		}
	}
	if beats < 3 {
		t.Errorf("%d signs of life in %v", beats, time.Since(began))
	}
	w.End(nil, nil)
	w.Close()
	rest, err := io.ReadAll(open[1].Body)
	if err != nil || !strings.Contains(string(rest), "event: end") {
		t.Errorf("the end of the stream: %v in %q", err, rest)
	}
}
