package web

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll/internal/clock"
	"plimsoll/internal/detail"
	"plimsoll/internal/live"
	"plimsoll/internal/load"
	"plimsoll/internal/memconn"
)

// limited is a server with limits of its own on a network in memory, of a bubble.
func limited(t *testing.T, change func(*limits)) (*Server, *memconn.Listener) {
	t.Helper()
	s := newServer(t, nil)
	s.limits.beat = 100 * time.Millisecond
	if change != nil {
		change(&s.limits)
	}
	s.streams = make(chan struct{}, s.limits.streams)
	l := memconn.Listen("panel:80")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, l
}

// dial opens a connection that is closed when the test ends.
func dial(t *testing.T, l *memconn.Listener) net.Conn {
	t.Helper()
	c, err := l.Dial(t.Context(), "tcp", "panel:80")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestSlowClients sends headers and bodies byte by byte, and nothing at all.
func TestSlowClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const header, body = 200 * time.Millisecond, 5 * time.Second
		_, l := limited(t, func(l *limits) { l.header, l.body = header, body })
		f := func(name, text string, limit time.Duration) {
			t.Helper()
			c := dial(t, l)
			began := time.Now()
			go func() {
				for _, err := io.WriteString(c, text); err == nil; _, err = io.WriteString(c, "a") {
					if text == "" {
						return
					}
					time.Sleep(20 * time.Millisecond)
				}
			}()
			b, err := io.ReadAll(c)
			if d := time.Since(began); d < limit || d > limit+time.Second {
				t.Errorf("%s: the connection was closed after %v, want %v and what its end takes: %q, %v", name, d, limit, b, err)
			}
		}
		f("nothing", "", header)
		f("half a header", "GET /api/runs HTTP/1.1\r\nHost: panel\r\nX-Slow: ", header)
		f("half a body", "POST /api/scenarios/check HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Plimsoll: 1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"scenario\": \"", body)
		// Fast enough, and too large.
		_, l = limited(t, nil)
		c := dial(t, l)
		if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Large: %s\r\n\r\n", strings.Repeat("x", 2*maxHeader)); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil || !strings.Contains(line, "431") {
			t.Errorf("a header of %d bytes: %q, %v", 2*maxHeader, line, err)
		}
	})
}

// TestConnections opens more connections than there may be.
func TestConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l := limited(t, func(l *limits) { l.connections = 3 })
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
			c := dial(t, l)
			if res, err := ask(c); err != nil || res.StatusCode != http.StatusOK {
				t.Fatalf("a connection that there may be: %v", err)
			}
			open = append(open, c)
		}
		if _, err := ask(dial(t, l)); err == nil {
			t.Error("a fourth connection of three is answered")
		}
		if res, err := ask(open[0]); err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("a connection that was there before: %v", err)
		}
		if err := open[1].Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // until the server has seen it
		if _, err := ask(dial(t, l)); err != nil {
			t.Errorf("the place of a closed connection stays taken: %v", err)
		}
	})
}

// TestStreams opens more event streams than there may be, which outlive the time for
// a request and say that they are there.
func TestStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := limited(t, func(l *limits) { l.streams, l.body = 2, 600*time.Millisecond })
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
		client := &http.Client{Transport: &http.Transport{DialContext: l.Dial}}
		defer client.CloseIdleConnections()
		url := "http://127.0.0.1/api/runs/" + id + "/events"
		var open []*http.Response
		for range 2 {
			res, err := client.Get(url) //nolint:noctx // bounded by the server, which the test ends
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			open = append(open, res)
		}
		third, err := client.Get(url) //nolint:noctx // likewise
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
		if beats < 10 { // 18, but for those that news took the place of
			t.Errorf("%d signs of life in %v", beats, time.Since(began))
		}
		w.End(nil, nil)
		w.Close()
		rest, err := io.ReadAll(open[1].Body)
		if err != nil || !strings.Contains(string(rest), "event: end") {
			t.Errorf("the end of the stream: %v in %q", err, rest)
		}
	})
}
