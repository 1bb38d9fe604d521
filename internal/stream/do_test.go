package stream

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// newClient returns a client for real sockets, whose own limits a process that is held
// up does not meet.
func newClient(t *testing.T, cfg Config) *Client {
	t.Helper()
	cfg.ConnectTimeout, cfg.KeepAlive = time.Hour, time.Hour
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestStreamOverSocket reads streams of the standard library's server and checks
// text, times and that what was not reused was made anew.
func TestStreamOverSocket(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 5 {
			fmt.Fprintf(w, "data: %s %d\n\n", body, i)
			w.(http.Flusher).Flush()
			time.Sleep(5 * time.Millisecond) // real time: a real socket
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	}))
	defer srv.Close()
	c := newClient(t, Config{})
	var x Exchange
	fresh := int64(0)
	for round := range 3 {
		c.Do(t.Context(), &x, &Request{URL: srv.URL + "/v1", Body: []byte("hello"), TotalTimeout: time.Hour})
		if x.Failure != NoFailure || x.Status != 200 || x.Framing != FrameSSE {
			t.Fatalf("round %d: failure %v %q, status %d, framing %d", round, x.Failure, x.Err, x.Status, x.Framing)
		}
		var got []string
		last := x.Headers
		for x.Next() {
			got = append(got, string(x.Ev.Data))
			if x.Ev.At < last || x.Ev.UserAt < x.Ev.At {
				t.Errorf("event %q at %d (user %d) after %d", x.Ev.Data, x.Ev.At, x.Ev.UserAt, last)
			}
			last = x.Ev.At
			if string(x.Ev.Data) == "[DONE]" {
				x.Close()
			}
		}
		if len(got) != 6 || got[0] != "hello 0" || got[5] != "[DONE]" {
			t.Fatalf("round %d: events %q", round, got)
		}
		if !(x.Start <= x.Connected && x.Connected <= x.Sent && x.Sent <= x.Headers && x.Headers <= x.End) {
			t.Errorf("clock points out of order: %d %d %d %d %d", x.Start, x.Connected, x.Sent, x.Headers, x.End)
		}
		if x.Failure != NoFailure || x.Reused && round == 0 || x.EarlyResponse {
			t.Errorf("round %d: failure %v, reused %v, early %v", round, x.Failure, x.Reused, x.EarlyResponse)
		}
		if !x.Reused {
			fresh++
		}
		if x.SentBytes != 5 || x.ReceivedBytes != 5*15+14 {
			t.Errorf("sent %d, received %d bytes", x.SentBytes, x.ReceivedBytes)
		}
		if kernelTimesHere && !x.KernelTimes && !x.WallStep {
			t.Errorf("no kernel times: %d reads", x.Reads)
		}
		t.Logf("lag mean %d max %d over %d reads", x.ReadLagSum/int64(max(x.Reads, 1)), x.ReadLagMax, x.Reads)
	}
	// A client that is held up may lose a connection between two requests, to its own
	// limits of some ms: that it reuses one is tested in fake time.
	e := c.Endpoints()[0]
	if n := c.OpenConnections(); n > 1 || e.Opened != fresh || e.Reused != 3-fresh || e.Stale != 0 {
		t.Errorf("%d connections open, %d made for %d requests, %+v", n, fresh, 3, e)
	}
}
