package test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/play"
	"plimsoll/test/process"
)

const (
	eventStream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	event       = `data: {"choices":[{"index":0,"delta":{"content":"one "},"finish_reason":null}]}` + "\n\n"
)

// serveStatus answers every request with one whole response and closes.
func serveStatus(status int, kind, body string, header ...string) func(net.Conn) {
	return func(c net.Conn) {
		if request(c) {
			fmt.Fprintf(c, "HTTP/1.1 %d X\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n%s\r\n%s", status, kind, len(body), strings.Join(header, ""), body)
		}
	}
}

func chunk(c net.Conn, s string) { fmt.Fprintf(c, "%x\r\n%s\r\n", len(s), s) }

// Each kind of bad endpoint ends the run in time, and is counted by its kind.
func TestBadEndpoints(t *testing.T) {
	t.Parallel()
	// What cannot be reached at all is said before the run begins.
	for name, c := range map[string]struct{ url, kind string }{
		"down":         {"http://" + play.Nobody(t), "connect_refused"},
		"no such name": {"http://" + strings.Repeat("n", 64) + ".invalid", "dns"}, // no name: nobody has to be asked, or may be slow to say no
		"not TLS":      {strings.Replace(listen(t, http.NotFoundHandler()), "http:", "https:", 1), "tls"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			r := process.Run(t, dir, limit, shape(c.url, "--users", "2", "--requests", "6", "--connect-timeout", "1m")...)
			if r.Code != 1 || !strings.Contains(r.Stderr, c.kind) {
				t.Errorf("exit %d, want 1 and %s\n%s", r.Code, c.kind, r.Stderr)
			}
			if _, err := os.Stat(filepath.Join(dir, "runs")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("there is a folder of runs, or %v", err)
			}
		})
	}

	for name, c := range map[string]struct {
		url  string
		kind string
		once bool // one refusal stops the run
	}{
		"never answers": {raw(t, hang), "header_timeout", false},
		"stalls":        {raw(t, func(c net.Conn) { request(c); io.WriteString(c, eventStream); chunk(c, event); hang(c) }), "idle_timeout", false},
		"lies on length": {raw(t, func(c net.Conn) {
			request(c)
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9999\r\n\r\n%s", event)
		}), "truncated_stream", false},
		"ends early": {raw(t, func(c net.Conn) { request(c); io.WriteString(c, eventStream); chunk(c, event) }), "truncated_stream", false},
		"ends unfinished": {raw(t, func(c net.Conn) {
			request(c)
			io.WriteString(c, eventStream)
			chunk(c, event)
			io.WriteString(c, "0\r\n\r\n")
		}), "truncated_stream", false},
		"resets":   {raw(t, func(c net.Conn) { request(c); c.(*net.TCPConn).SetLinger(0) }), "connection_reset", false},
		"HTML":     {raw(t, serveStatus(200, "text/html", "<html><body>please log in</body></html>")), "bad_body", false},
		"not HTTP": {raw(t, func(c net.Conn) { request(c); io.WriteString(c, "SSH-2.0-OpenSSH_9.2\r\n") }), "bad_body", false},
		"500":      {raw(t, serveStatus(500, "application/json", `{"error":{"message":"boom"}}`)), "http_status", false},
		"429":      {raw(t, serveStatus(429, "application/json", `{"error":{"message":"slow down"}}`, "Retry-After: 1\r\n")), "rate_limited", false},
		"503":      {raw(t, serveStatus(503, "application/json", `{"error":{"message":"busy"}}`)), "overloaded", false},
		"redirect": {raw(t, serveStatus(302, "text/plain", "", "Location: /elsewhere\r\n")), "redirect", false},
		"error in band": {raw(t, func(c net.Conn) {
			request(c)
			io.WriteString(c, eventStream)
			chunk(c, event)
			chunk(c, "data: {\"error\":{\"message\":\"boom\",\"code\":500}}\n\n")
			io.WriteString(c, "0\r\n\r\n")
		}), "in_band_error", false},
		"key refused":  {raw(t, serveStatus(401, "application/json", `{"error":{"message":"bad key"}}`)), "auth", true},
		"no such path": {raw(t, serveStatus(404, "application/json", `{"error":{"message":"not found"}}`)), "http_status", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			args := shape(c.url, "--users", "2", "--requests", "6", "--max-error-share", "1")
			// No limit is short but the one that is to be met: this machine may be busy.
			switch c.kind {
			case "header_timeout":
				args = append(args, "--header-timeout", "500ms")
			case "idle_timeout":
				args = append(args, "--idle-timeout", "500ms")
			}
			r := process.Run(t, dir, limit, args...)
			if r.Code != 1 {
				t.Errorf("exit %d, want 1\n%s", r.Code, r.Stderr)
			}
			s := process.ReadSummary(t, process.OnlyRun(t, filepath.Join(dir, "runs")))
			want := map[string]int{c.kind: s.Requests.Error}
			if len(s.Requests.ByError) != 1 || s.Requests.ByError[c.kind] != s.Requests.Error || s.Requests.OK != 0 {
				t.Errorf("requests %+v, want all of kind %v", s.Requests, want)
			}
			switch n := s.Requests.Error; {
			case c.once && n > 2: // two users may be refused at once
				t.Errorf("%d refused requests before the run stopped", n)
			case !c.once && n != 6:
				t.Errorf("%d requests failed, want 6", n)
			}
			if s.Run.Verdict == "valid" && s.Requests.OK == 0 {
				t.Errorf("a run without one answer is called valid")
			}
			if d := s.Latency["ttft"]; d != nil && d.Count > 0 {
				t.Errorf("failed requests have %d figures of ttft", d.Count)
			}
		})
	}
}

// A server that goes away while it is measured: its answers count, and every
// later request is a refused connection.
func TestEndpointGoesDown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := process.Listen(t) // at a port that nobody is given when it has gone down
	done := make(chan struct{})
	go func() {
		defer close(done)
		answered := 0
		for answered < 3 {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if request(c) { // the look before the run sends nothing
				if answered++; answered == 3 {
					l.Close() // before the client can have the end of the last answer, and connect again
				}
				io.WriteString(c, eventStream)
				chunk(c, event)
				chunk(c, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
				io.WriteString(c, "0\r\n\r\n")
			}
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	process.Run(t, dir, limit, shape("http://"+l.Addr().String(), "--users", "1", "--requests", "8", "--new-connection", "--max-error-share", "1")...)
	s := process.ReadSummary(t, process.OnlyRun(t, filepath.Join(dir, "runs")))
	if s.Requests.OK != 3 || s.Requests.Error != 5 || s.Requests.ByError["connect_refused"] != 5 {
		t.Errorf("requests %+v, want 3 ok and 5 refused connections", s.Requests)
	}
}

// A server that answers before it has read the request is measured, and said.
func TestAnswerBeforeRequest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	url := raw(t, func(c net.Conn) {
		// What waits on this side stays far below the size of the request, however long the answer takes.
		_ = c.(*net.TCPConn).SetReadBuffer(128 << 10)
		one := make([]byte, 1)
		if _, err := io.ReadFull(c, one); err != nil { // the connection is in use; no more is read
			return
		}
		body := event + `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" +
			`data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}` + "\n\ndata: [DONE]\n\n"
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
		hang(c)
	})
	args := shape(url, "--users", "1", "--requests", "3", "--set", "users.prompt-tokens=2000000")
	r := process.Run(t, dir, limit, args...)
	run := process.OnlyRun(t, filepath.Join(dir, "runs"))
	rows := process.Rows(t, run)
	if len(rows) != 3 {
		t.Fatalf("%d rows, want 3; exit %d\n%s", len(rows), r.Code, r.Stderr)
	}
	for _, row := range rows {
		if flags, _ := row["flags"].([]any); !slices.Contains(flags, any("early_response")) {
			t.Errorf("not flagged early_response: %v", row)
		}
	}
}

// Over the error share the run stops by itself.
func TestErrorShareStopsTheRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	url := raw(t, serveStatus(500, "text/plain", "no"))
	r := process.Run(t, dir, limit, shape(url, "--users", "4", "--duration", "1h")...)
	s := process.ReadSummary(t, process.OnlyRun(t, filepath.Join(dir, "runs")))
	// More than half of a window of 100 has failed with the 51st; three more may be under way.
	if r.Code != 1 || s.Requests.Error < 51 || s.Requests.Error > 54 || !strings.Contains(r.Stderr, "max-error-share") {
		t.Errorf("exit %d, requests %+v; want 1 after 51 failures\n%s", r.Code, s.Requests, r.Stderr)
	}
}
