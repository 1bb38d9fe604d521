package stream

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
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

const sse = `"status":200,"headers":[["Content-Type","text/event-stream"]]`

// TestFailures plays servers that misbehave and checks what the exchange is
// called, when it ended and how many events came before.
func TestFailures(t *testing.T) {
	big := strings.Repeat("x", 300<<10)
	tests := []struct {
		name, response string
		req            Request
		cfg            Config
		want           Failure
		text           string // part of Err
		events         int
		end            float64 // ms, -1: not checked
	}{
		{
			name:     "length too long",
			response: `{"status":200,"headers":[["Content-Type","text/event-stream"],["Content-Length","999"]],"framing":"length","writes":[{"at_ms":5,"text":"data: a\n\n"}],"end":{"at_ms":9,"how":"fin"}}`,
			want:     FailTruncated, text: "after 9 bytes", events: 1, end: 9,
		},
		{
			name:     "chunked end missing",
			response: `{` + sse + `,"framing":"chunked","writes":[{"at_ms":5,"text":"data: a\n\ndata: b\n"}],"end":{"at_ms":9,"how":"fin"}}`,
			want:     FailTruncated, events: 1, end: 9,
		},
		{
			name:     "reset in the body",
			response: `{` + sse + `,"framing":"chunked","writes":[{"at_ms":5,"text":"data: a\n\n"}],"end":{"at_ms":9,"how":"rst"}}`,
			want:     FailReset, text: "reset", events: 1, end: 9,
		},
		{
			name:     "no header in time",
			response: `{` + sse + `,"headers_at_ms":5000,"framing":"chunked","end":{"at_ms":5000,"how":"eof"}}`,
			req:      Request{HeaderTimeout: 700 * time.Millisecond, IdleTimeout: time.Millisecond},
			want:     FailHeaderTimeout, text: "700ms", end: 700,
		},
		{
			name:     "header but never a body",
			response: `{` + sse + `,"framing":"chunked","end":{"at_ms":500000,"how":"hold"}}`,
			req:      Request{HeaderTimeout: time.Second, IdleTimeout: 3 * time.Second},
			want:     FailIdleTimeout, text: "3s", end: 3000,
		},
		{
			name:     "comments hold the idle limit off, not the total one",
			response: `{` + sse + `,"framing":"chunked","writes":[{"at_ms":900,"text":":\n\n"},{"at_ms":1800,"text":":\n\n"},{"at_ms":2700,"text":":\n\n"}],"end":{"at_ms":9000,"how":"hold"}}`,
			req:      Request{IdleTimeout: time.Second, TotalTimeout: 3 * time.Second},
			want:     FailTotalTimeout, text: "3s", end: 3000,
		},
		{
			name:     "total limit before the header",
			response: `{` + sse + `,"headers_at_ms":5000,"framing":"chunked","end":{"at_ms":5000,"how":"eof"}}`,
			req:      Request{TotalTimeout: 40 * time.Millisecond},
			want:     FailTotalTimeout, end: 40,
		},
		{
			name:     "redirect",
			response: `{"status":307,"headers":[["Location","http://other/v1"]],"framing":"length","end":{"how":"eof"}}`,
			want:     FailRedirect, text: "http://other/v1",
		},
		{
			name:     "unknown encoding",
			response: `{"status":200,"headers":[["Content-Type","text/event-stream"],["Content-Encoding","br"]],"framing":"chunked","writes":[{"text":"?"}],"end":{"how":"eof"}}`,
			want:     FailProtocol, text: "content-encoding br",
		},
		{
			name:     "not gzip at all",
			response: `{"status":200,"headers":[["Content-Type","text/event-stream"],["Content-Encoding","gzip"]],"framing":"chunked","writes":[{"text":"data: not gzip, really\n\n"}],"end":{"how":"eof"}}`,
			want:     FailProtocol, text: "gzip",
		},
		{
			name:     "header too large",
			response: `{"status":200,"headers":[["X-Big","` + big + `"]],"framing":"length","end":{"how":"eof"}}`,
			want:     FailProtocol, text: "header", end: 0,
		},
		{
			name:     "chunk size is no number",
			response: `{` + sse + `,"framing":"chunked","writes":[{"text":"data: a\n\n"},{"at_ms":1,"raw":true,"text":"zz\r\n"}],"end":{"at_ms":1,"how":"eof"}}`,
			want:     FailProtocol, text: "chunk", events: 1, end: 1,
		},
		{
			name:     "body over the limit",
			response: `{` + sse + `,"framing":"chunked","writes":[{"text":"data: 1\n\ndata: 2\n\ndata: 3"}],"end":{"how":"hold"}}`,
			cfg:      Config{MaxBody: 20},
			want:     FailTooLarge, text: "20 bytes", events: 2,
		},
		{
			name:     "endless line",
			response: `{` + sse + `,"framing":"chunked","writes":[{"pre":"data: ","repeat":{"text":"x","n":300000},"post":"\n\n"}],"end":{"how":"hold"}}`,
			cfg:      Config{MaxBody: 100_000},
			want:     FailTooLarge, text: "100000 bytes",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubbleOf(t, tt.response, tt.cfg, func(t *testing.T, c *Client, p *play.Server) {
				r := tt.req
				r.URL, r.Body = p.URL(), []byte("{}")
				s := exchange(t.Context(), c, &r, nil)
				if s.x.Failure != tt.want || !strings.Contains(s.x.Err, tt.text) || len(s.events) != tt.events {
					t.Errorf("failure %v %q with %d events, want %v %q with %d", s.x.Failure, s.x.Err, len(s.events), tt.want, tt.text, tt.events)
				}
				if got := ms(s.x.End - s.x.Start); got != tt.end {
					t.Errorf("end at %v ms, want %v", got, tt.end)
				}
				if s.x.Sent < s.x.Start || s.x.Sent > s.x.End {
					t.Errorf("sent at %d, which is not between %d and %d: the server had all of it", s.x.Sent, s.x.Start, s.x.End)
				}
				synctest.Wait()
				if n := c.OpenConnections(); n != 0 {
					t.Errorf("%d connections still open", n)
				}
				if tt.want != FailRedirect && s.x.Reads == 0 && s.x.Headers != unset {
					t.Error("reads were not counted")
				}
			})
		})
	}
}

func bubbleOf(t *testing.T, response string, cfg Config, f func(t *testing.T, c *Client, p *play.Server)) {
	t.Helper()
	bubble(t, script(t, response), cfg, f)
}

// TestCancel ends exchanges from outside, before and after the header.
func TestCancel(t *testing.T) {
	for _, at := range []time.Duration{50 * time.Millisecond, 150 * time.Millisecond} {
		response := `{` + sse + `,"headers_at_ms":100,"framing":"chunked","writes":[{"at_ms":101,"text":"data: a\n\n"}],"end":{"at_ms":9000,"how":"hold"}}`
		bubbleOf(t, response, Config{}, func(t *testing.T, c *Client, p *play.Server) {
			ctx, cancel := context.WithTimeout(t.Context(), at)
			defer cancel()
			s := exchange(ctx, c, &Request{URL: p.URL(), Body: []byte("{}")}, nil)
			if s.x.Failure != FailCancelled || ms(s.x.End-s.x.Start) != ms(int64(at)) {
				t.Errorf("%v: failure %v %q at %v ms", at, s.x.Failure, s.x.Err, ms(s.x.End-s.x.Start))
			}
			synctest.Wait()
			got := p.Requests()[0]
			if gone := got.Gone.Sub(got.Read); gone != at {
				t.Errorf("server saw the connection close after %v, want %v", gone, at)
			}
		})
	}
}

// TestEarlyResponse answers before the request has been read, with an error and
// a close, while the client still sends.
func TestEarlyResponse(t *testing.T) {
	response := `{"early":true,"status":413,"headers":[["Content-Type","application/json"]],"framing":"length","writes":[{"text":"{\"error\":\"too big\"}"}],"end":{"at_ms":1,"how":"eof"}}`
	bubbleOf(t, response, Config{}, func(t *testing.T, c *Client, p *play.Server) {
		s := exchange(t.Context(), c, &Request{URL: p.URL(), Body: bytes.Repeat([]byte("a"), 4<<20)}, nil)
		if s.x.Failure != NoFailure || s.x.Status != 413 || !s.x.EarlyResponse || s.body != `{"error":"too big"}` {
			t.Errorf("failure %v %q, status %d, early %v, body %q", s.x.Failure, s.x.Err, s.x.Status, s.x.EarlyResponse, s.body)
		}
		if s.x.Sent != unset || s.x.SentBytes >= 4<<20 {
			t.Errorf("sent %d bytes at %d", s.x.SentBytes, s.x.Sent)
		}
		if s.x.Resends != 0 || len(p.Requests()) != 1 {
			t.Errorf("%d resends, %d requests", s.x.Resends, len(p.Requests()))
		}
		synctest.Wait()
		if n := c.OpenConnections(); n != 0 {
			t.Errorf("%d connections still open", n)
		}
	})
}

// dozing is a connection whose reader is held up for some time.
type dozing struct {
	*memconn.Conn
	by time.Duration
}

func (d dozing) Read(p []byte) (int, error) {
	time.Sleep(d.by)
	return d.Conn.Read(p)
}

// dozed runs f against a server of one connection whose client reads 2 s late.
func dozed(t *testing.T, serve func(l *memconn.Listener) (stop func()), f func(t *testing.T, c *Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := memconn.Listen("player:80")
		stop := serve(l)
		c, err := New(Config{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := l.Dial(ctx, network, addr)
			return dozing{conn.(*memconn.Conn), 2 * time.Second}, err
		}})
		if err != nil {
			t.Fatal(err)
		}
		f(t, c)
		c.Close()
		stop()
		time.Sleep(time.Minute) // whoever sleeps comes to an end
	})
}

// TestEarlyResponseReadLate has a reader that is held up for longer than the server
// holds the connection: the failed write waits for the answer, which is there.
func TestEarlyResponseReadLate(t *testing.T) {
	player := script(t, `{"early":true,"status":413,"headers":[],"framing":"length","writes":[{"text":"too big"}],"end":{"at_ms":1,"how":"eof"}}`)
	dozed(t, func(l *memconn.Listener) func() { return play.Serve(l, player).Close }, func(t *testing.T, c *Client) {
		s := exchange(t.Context(), c, &Request{URL: "http://player/v1", Body: make([]byte, 4<<20)}, nil)
		if s.x.Failure != NoFailure || s.x.Status != 413 || !s.x.EarlyResponse || s.body != "too big" {
			t.Errorf("%v %q, status %d, early %v, body %q", s.x.Failure, s.x.Err, s.x.Status, s.x.EarlyResponse, s.body)
		}
	})
}

// TestGarbageReadLate is a server that says what is no HTTP and closes: the write that
// failed for it waits until that is read, and for nothing else.
func TestGarbageReadLate(t *testing.T) {
	dozed(t, func(l *memconn.Listener) func() {
		go func() {
			if conn, err := l.Accept(); err == nil {
				fmt.Fprint(conn, "SSH-2.0-x\r\n")
				_ = conn.Close()
			}
		}()
		return func() { _ = l.Close() }
	}, func(t *testing.T, c *Client) {
		s := exchange(t.Context(), c, &Request{URL: "http://player/v1", Body: make([]byte, 4<<20)}, nil)
		if s.x.Failure == NoFailure || ms(s.x.End-s.x.Start) != 2000 {
			t.Errorf("%v %q after %v ms", s.x.Failure, s.x.Err, ms(s.x.End-s.x.Start))
		}
	})
}

// TestPartialChunk sends one HTTP chunk in pieces: an event that is complete
// inside it must not wait for the rest.
func TestPartialChunk(t *testing.T) {
	response := `{` + sse + `,"framing":"chunked","writes":[
		{"at_ms":10,"raw":true,"text":"32\r\ndata: one\n\nda"},
		{"at_ms":20,"raw":true,"text":"ta: two\n\ndata: thr"},
		{"at_ms":30,"raw":true,"text":"ee\n\ndata:4\n\n:"},
		{"at_ms":40,"raw":true,"text":"12345\n\r\n6;ext=1\r\n"},
		{"at_ms":50,"raw":true,"text":"data: "},
		{"at_ms":60,"raw":true,"text":"\r"},
		{"at_ms":70,"raw":true,"text":"\n3\r\n5\n\n"},
		{"at_ms":80,"raw":true,"text":"\r\n"}],"end":{"at_ms":90,"how":"eof"}}`
	bubbleOf(t, response, Config{}, func(t *testing.T, c *Client, p *play.Server) {
		s := exchange(t.Context(), c, &Request{URL: p.URL(), Body: []byte("{}")}, nil)
		got := fmt.Sprint(s.events)
		want := "[{ one 10 2} { two 20 3} { three 30 4} { 4 30 4} { 5 70 8}]"
		if got != want || s.x.Failure != NoFailure || ms(s.x.End-s.x.Start) != 90 {
			t.Errorf("%v %q, end %v: %s, want %s", s.x.Failure, s.x.Err, ms(s.x.End-s.x.Start), got, want)
		}
	})
}

// TestInformational skips 103 and counts the header from the final answer.
func TestInformational(t *testing.T) {
	raw(t, func(c net.Conn) {
		fmt.Fprint(c, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
		time.Sleep(30 * time.Millisecond)
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: x\n\n\r\n0\r\nTrail: er\r\n\r\n")
	}, func(t *testing.T, c *Client) {
		s := exchange(t.Context(), c, &Request{URL: "http://raw/v1", Body: []byte("{}")}, nil)
		if s.x.Failure != NoFailure || len(s.events) != 1 || ms(s.x.Headers-s.x.Start) != 30 {
			t.Errorf("%v %q: %v, headers at %v", s.x.Failure, s.x.Err, s.events, ms(s.x.Headers-s.x.Start))
		}
		synctest.Wait()
		s = exchange(t.Context(), c, &Request{URL: "http://raw/v1", Body: []byte("{}")}, nil)
		if s.x.Failure != NoFailure || !s.x.Reused {
			t.Errorf("second: %v %q, reused %v", s.x.Failure, s.x.Err, s.x.Reused)
		}
	})
}

// TestHeaderBreaksOff closes inside the header, on a fresh and on a reused
// connection: a byte has come, so nothing is sent again.
func TestHeaderBreaksOff(t *testing.T) {
	n := 0
	raw(t, func(c net.Conn) {
		n++
		if n == 2 {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nConte")
			_ = c.Close()
			return
		}
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	}, func(t *testing.T, c *Client) {
		for i, want := range []Failure{NoFailure, FailTruncated, NoFailure} {
			s := exchange(t.Context(), c, &Request{URL: "http://raw/v1", Body: []byte("{}")}, nil)
			if s.x.Failure != want || s.x.Resends != 0 || s.x.Reused != (i == 1) {
				t.Errorf("%d: %v %q, %d resends, reused %v", i, s.x.Failure, s.x.Err, s.x.Resends, s.x.Reused)
			}
		}
	})
}

// TestResetInsideTheHeader tells a reset from a close.
func TestResetInsideTheHeader(t *testing.T) {
	raw(t, func(c net.Conn) {
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nConte")
		_ = c.(interface{ Reset() error }).Reset()
	}, func(t *testing.T, c *Client) {
		s := exchange(t.Context(), c, &Request{URL: "http://raw/v1", Body: []byte("{}")}, nil)
		if s.x.Failure != FailReset || !strings.Contains(s.x.Err, "header") {
			t.Errorf("%v %q", s.x.Failure, s.x.Err)
		}
	})
}

// TestCompressedNothing sends members of no bytes for as long as it may: what
// is transferred is bounded too.
func TestCompressedNothing(t *testing.T) {
	var member bytes.Buffer
	if err := gzip.NewWriter(&member).Close(); err != nil {
		t.Fatal(err)
	}
	b64 := base64.StdEncoding.EncodeToString(bytes.Repeat(member.Bytes(), 10_000))
	response := `{"status":200,"headers":[["Content-Type","text/event-stream"],["Content-Encoding","gzip"]],"framing":"chunked","writes":[{"b64":"` + b64 + `"}],"end":{"at_ms":9000,"how":"hold"}}`
	bubbleOf(t, response, Config{MaxBody: 100_000}, func(t *testing.T, c *Client, p *play.Server) {
		s := exchange(t.Context(), c, &Request{URL: p.URL(), Body: []byte("{}")}, nil)
		if s.x.Failure != FailTooLarge || !strings.Contains(s.x.Err, "100000 bytes as transferred") || s.x.End != s.x.Start {
			t.Errorf("%v %q after %v ms", s.x.Failure, s.x.Err, ms(s.x.End-s.x.Start))
		}
	})
}

// TestBodyOfARefusal reads no more of an error page than a message needs.
func TestBodyOfARefusal(t *testing.T) {
	response := `{"status":502,"headers":[["Content-Type","text/html"]],"framing":"chunked","writes":[{"pre":"<html>","repeat":{"text":"x","n":4000000}}],"end":{"at_ms":9000,"how":"hold"}}`
	bubbleOf(t, response, Config{}, func(t *testing.T, c *Client, p *play.Server) {
		s := exchange(t.Context(), c, &Request{URL: p.URL(), Body: []byte("{}")}, nil)
		if s.x.Failure != FailTooLarge || s.x.Status != 502 || len(s.body) > maxErrorBody+1 || !strings.HasPrefix(s.body, "<html>x") {
			t.Errorf("%v %q, status %d, body of %d bytes", s.x.Failure, s.x.Err, s.x.Status, len(s.body))
		}
	})
}

// TestWhiteSpaceWithoutEnd settles the framing of a body that never begins.
func TestWhiteSpaceWithoutEnd(t *testing.T) {
	response := `{` + sse + `,"framing":"chunked","writes":[{"repeat":{"text":"\n","n":20000}},{"at_ms":50,"text":"data: a\n\n"}],"end":{"at_ms":60,"how":"eof"}}`
	bubbleOf(t, response, Config{}, func(t *testing.T, c *Client, p *play.Server) {
		var x Exchange
		c.Do(t.Context(), &x, &Request{URL: p.URL(), Body: []byte("{}")})
		if x.Failure != NoFailure || x.Framing != FrameSSE || c.cfg.Now() != x.Start {
			t.Errorf("%v %q, framing %d after %v ms", x.Failure, x.Err, x.Framing, ms(c.cfg.Now()-x.Start))
		}
		if !x.Next() || string(x.Ev.Data) != "a" || x.Next() {
			t.Errorf("event %q", x.Ev.Data)
		}
	})
}

// TestMemoryOfAllExchanges bounds what endless lines fill together, and gives
// it back.
func TestMemoryOfAllExchanges(t *testing.T) {
	response := `{` + sse + `,"framing":"chunked","writes":[{"pre":"data: ","repeat":{"text":"x","n":6000000}}],"end":{"at_ms":9000,"how":"hold"}}`
	bubbleOf(t, response, Config{}, func(t *testing.T, c *Client, p *play.Server) {
		c.maxHeld = 20 << 20
		var wg sync.WaitGroup
		var full, silent atomic.Int64
		for i := range 8 {
			wg.Go(func() {
				// One after the other: of those that grow at once none need get its room.
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				s := exchange(t.Context(), c, &Request{URL: p.URL(), Body: []byte("{}"), IdleTimeout: time.Second}, nil)
				switch s.x.Failure {
				case FailResource:
					full.Add(1)
				case FailIdleTimeout:
					silent.Add(1)
				default:
					t.Errorf("%v %q", s.x.Failure, s.x.Err)
				}
				s.x.Close()
			})
		}
		wg.Wait()
		// One line takes 8 MiB: two of them fit.
		if silent.Load() != 2 || full.Load() != 6 {
			t.Errorf("%d exchanges found no room, %d did, want 6 and 2", full.Load(), silent.Load())
		}
		if n := c.held.Load(); n != 0 {
			t.Errorf("%d bytes are still counted", n)
		}
	})
}

// raw serves every request of one connection at a time with what answer writes.
func raw(t *testing.T, answer func(c net.Conn), f func(t *testing.T, c *Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := memconn.Listen("raw:80")
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					buf := make([]byte, 64<<10)
					for {
						if _, err := conn.Read(buf); err != nil {
							_ = conn.Close()
							return
						}
						answer(conn)
					}
				}()
			}
		}()
		c, err := New(Config{Dial: l.Dial})
		if err != nil {
			t.Fatal(err)
		}
		f(t, c)
		c.Close()
		_ = l.Close()
	})
}

// TestLengthTooShort sends more than the stated length: the rest belongs to
// nobody, and its connection serves no other request.
func TestLengthTooShort(t *testing.T) {
	for _, framing := range []string{
		"Content-Type: application/json\r\ncontent-LENGTH:   2\r\n\r\n{}, and more",
		"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\nand more",
	} {
		raw(t, func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\n"+framing) }, func(t *testing.T, c *Client) {
			for range 2 {
				s := exchange(t.Context(), c, &Request{URL: "http://raw/v1", Body: []byte("{}")}, nil)
				if s.x.Failure != NoFailure || s.body != "{}" || s.x.Reused {
					t.Errorf("%v %q, body %q, reused %v", s.x.Failure, s.x.Err, s.body, s.x.Reused)
				}
			}
			synctest.Wait()
			if n := c.OpenConnections(); n != 0 {
				t.Errorf("%d connections open", n)
			}
		})
	}
}

// TestIdleConnections is what happens between requests: bytes nobody asked for
// and a server that closes cost the connection and nothing else.
func TestIdleConnections(t *testing.T) {
	for name, after := range map[string]func(net.Conn){
		"bytes": func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 408 Request Timeout\r\n\r\n") },
		"close": func(c net.Conn) { _ = c.Close() },
		"old":   func(net.Conn) {},
	} {
		t.Run(name, func(t *testing.T) {
			raw(t, func(c net.Conn) {
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				time.Sleep(100 * time.Millisecond)
				after(c)
			}, func(t *testing.T, c *Client) {
				for range 2 {
					s := exchange(t.Context(), c, &Request{URL: "http://raw/v1", Body: []byte("{}")}, nil)
					if s.x.Failure != NoFailure || s.x.Reused || s.x.Resends != 0 {
						t.Errorf("%v %q, reused %v, %d resends", s.x.Failure, s.x.Err, s.x.Reused, s.x.Resends)
					}
					time.Sleep(DefaultKeepAlive + time.Second)
					if n := c.OpenConnections(); n != 0 {
						t.Errorf("%d connections open", n)
					}
				}
			})
		})
	}
}

// TestNoBody is an answer without one, and one that wants another protocol.
func TestNoBody(t *testing.T) {
	raw(t, func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 204 No Content\r\n\r\n") }, func(t *testing.T, c *Client) {
		for i := range 3 {
			s := exchange(t.Context(), c, &Request{URL: "http://raw/v1", Body: []byte("{}")}, nil)
			if s.x.Failure != NoFailure || s.x.Status != 204 || s.x.Reused != (i > 0) || s.body != "" || s.x.End == unset {
				t.Errorf("%v %q, status %d, reused %v", s.x.Failure, s.x.Err, s.x.Status, s.x.Reused)
			}
		}
	})
	raw(t, func(c net.Conn) {
		fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
	}, func(t *testing.T, c *Client) {
		s := exchange(t.Context(), c, &Request{URL: "http://raw/v1", Body: []byte("{}")}, nil)
		if s.x.Failure != FailProtocol || !strings.Contains(s.x.Err, "101") {
			t.Errorf("%v %q", s.x.Failure, s.x.Err)
		}
	})
}

// TestInvalidRequest fails before anything is sent, on a reused connection too,
// and is not taken for a dead connection.
func TestInvalidRequest(t *testing.T) {
	raw(t, func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") }, func(t *testing.T, c *Client) {
		var x Exchange
		for i, r := range []*Request{{}, {Header: http.Header{"X": {"a\nb"}}}, {Method: "A B"}} {
			r.URL, r.Body = "http://raw/", []byte("{}")
			c.Do(t.Context(), &x, r)
			x.Body()
			if want := []Failure{NoFailure, FailProtocol, FailProtocol}[i]; x.Failure != want || x.Resends != 0 {
				t.Errorf("%d: %v %q, %d resends", i, x.Failure, x.Err, x.Resends)
			}
		}
	})
}

// TestUnknownEncodingOfAnError keeps the status, and no garbage.
func TestUnknownEncodingOfAnError(t *testing.T) {
	response := `{"status":502,"headers":[["Content-Encoding","br"],["Content-Type","text/html"]],"framing":"length","writes":[{"text":"???"}],"end":{"how":"eof"}}`
	bubbleOf(t, response, Config{}, func(t *testing.T, c *Client, p *play.Server) {
		s := exchange(t.Context(), c, &Request{URL: p.URL(), Body: []byte("{}")}, nil)
		if s.x.Failure != NoFailure || s.x.Status != 502 || s.body != "" {
			t.Errorf("%v %q, status %d, body %q", s.x.Failure, s.x.Err, s.x.Status, s.body)
		}
	})
}

// TestStuckUpload is a server that never reads the request: the header limit
// then counts from the last progress.
func TestStuckUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memconn.Listen("deaf:80")
		c, err := New(Config{Dial: l.Dial})
		if err != nil {
			t.Fatal(err)
		}
		s := exchange(t.Context(), c, &Request{URL: "http://deaf/", Body: make([]byte, 1<<20), HeaderTimeout: 2 * time.Second}, nil)
		if s.x.Failure != FailHeaderTimeout || ms(s.x.End-s.x.Start) != 2000 || s.x.Sent != unset || s.x.SentBytes >= 1<<20 {
			t.Errorf("%v %q at %v ms, sent %d bytes", s.x.Failure, s.x.Err, ms(s.x.End-s.x.Start), s.x.SentBytes)
		}
		_ = l.Close()
	})
}

// TestHandshakesArePaced lets 20 requests connect at once, 3 at a time.
func TestHandshakesArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most := 0, 0
		c, err := New(Config{MaxHandshakes: 3, Dial: func(context.Context, string, string) (net.Conn, error) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			now--
			mu.Unlock()
			return nil, syscall.ECONNREFUSED
		}})
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				s := exchange(t.Context(), c, &Request{URL: "http://x/", TotalTimeout: 5 * time.Second}, nil)
				if s.x.Failure != FailConnectRefused && s.x.Failure != FailTotalTimeout {
					t.Errorf("%v %q", s.x.Failure, s.x.Err)
				}
			})
		}
		group.Wait()
		if most != 3 {
			t.Errorf("%d connects at once, want 3", most)
		}
	})
}

// odd is a connection whose stamps are off by some time.
type odd struct {
	*memconn.Conn
	by time.Duration
}

func (o odd) LastStamp() (time.Time, bool) { return time.Now().Add(o.by), true }

// TestWallStep gets impossible receive times and takes user times instead.
func TestWallStep(t *testing.T) {
	for by, step := range map[time.Duration]bool{time.Nanosecond: true, -61 * time.Second: true, -time.Second: false} {
		synctest.Test(t, func(t *testing.T) {
			l := memconn.Listen("player:80")
			p := play.Serve(l, getCase(t, "008"))
			c, err := New(Config{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := l.Dial(ctx, network, addr)
				return odd{conn.(*memconn.Conn), by}, err
			}})
			if err != nil {
				t.Fatal(err)
			}
			s := exchange(t.Context(), c, &Request{URL: p.URL(), Body: []byte("{}")}, nil)
			if s.x.WallStep != step || s.x.KernelTimes == step || s.x.Failure != NoFailure {
				t.Errorf("%v: wall step %v, kernel times %v, %v %q", by, s.x.WallStep, s.x.KernelTimes, s.x.Failure, s.x.Err)
			}
			want := 100.0
			if !step {
				want = 100 + ms(int64(by))
			}
			if s.events[0].MS != want {
				t.Errorf("%v: first event at %v ms, want %v", by, s.events[0].MS, want)
			}
			c.Close()
			p.Close()
		})
	}
}

// TestDialFailures gives errors of dialling their names.
func TestDialFailures(t *testing.T) {
	tests := []struct {
		err  error
		want Failure
		fix  string // what else it says: the limit that was met
	}{
		{&net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}, FailDNS, ""},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, FailConnectRefused, ""},
		{&net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}, FailConnectRefused, ""},
		{&net.OpError{Op: "dial", Err: syscall.ETIMEDOUT}, FailConnectTimeout, ""},
		{&net.OpError{Op: "dial", Err: syscall.EMFILE}, FailResource, "ulimit -n"},
		{&net.OpError{Op: "dial", Err: syscall.EADDRNOTAVAIL}, FailResource, "net.ipv4.ip_local_port_range"},
		{errors.New("odd"), FailProtocol, ""},
	}
	for _, tt := range tests {
		c := newClient(t, Config{Dial: func(context.Context, string, string) (net.Conn, error) { return nil, tt.err }})
		var x Exchange
		c.Do(t.Context(), &x, &Request{URL: "http://x/"})
		if x.Failure != tt.want || !strings.Contains(x.Err, "connect to x:80") {
			t.Errorf("%v: failure %v %q, want %v", tt.err, x.Failure, x.Err, tt.want)
		}
		if !strings.Contains(x.Err, tt.fix) {
			t.Errorf("%v: %q does not say %q", tt.err, x.Err, tt.fix)
		}
		if x.End == unset || x.Next() || x.Body() != nil {
			t.Errorf("%v: a failed exchange has an end and no body", tt.err)
		}
	}
}

// TestConnectTimeout bounds a dial that never returns.
func TestConnectTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Config{ConnectTimeout: 3 * time.Second, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		if err != nil {
			t.Fatal(err)
		}
		var x Exchange
		c.Do(t.Context(), &x, &Request{URL: "http://x/"})
		if x.Failure != FailConnectTimeout || ms(x.End-x.Start) != 3000 {
			t.Errorf("failure %v %q at %v ms", x.Failure, x.Err, ms(x.End-x.Start))
		}
		c.Do(t.Context(), &x, &Request{URL: "http://x/", TotalTimeout: time.Second})
		if x.Failure != FailTotalTimeout || ms(x.End-x.Start) != 1000 {
			t.Errorf("failure %v %q at %v ms", x.Failure, x.Err, ms(x.End-x.Start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		c.Do(ctx, &x, &Request{URL: "http://x/", TotalTimeout: time.Second})
		if x.Failure != FailCancelled || ms(x.End-x.Start) != 20 {
			t.Errorf("failure %v %q at %v ms", x.Failure, x.Err, ms(x.End-x.Start))
		}
	})
}
