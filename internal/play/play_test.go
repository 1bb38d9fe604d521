package play

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll/internal/memconn"
)

// TestWire checks what goes over the wire, byte for byte and at its time.
func TestWire(t *testing.T) {
	tests := []struct{ name, response, want string }{
		{
			"chunked", `{"status":200,"headers":[["A","b"]],"framing":"chunked","headers_at_ms":5,"writes":[{"at_ms":10,"text":"hello"},{"at_ms":20,"pre":"<","repeat":{"text":"ab","n":3},"post":">"}],"end":{"at_ms":30,"how":"eof"}}`,
			"5:HTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n|10:5\r\nhello\r\n|20:8\r\n<ababab>\r\n|30:0\r\n\r\n|",
		},
		{
			"length", `{"status":404,"headers":[],"framing":"length","writes":[{"b64":"aGk="},{"at_ms":1,"text":"!"}],"end":{"how":"eof"}}`,
			"0:HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nhi|1:!|",
		},
		{
			"a length that lies", `{"status":200,"headers":[["content-length","9"]],"framing":"length","writes":[{"text":"hi"}],"end":{"at_ms":7,"how":"fin"}}`,
			"0:HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi|7:EOF",
		},
		{
			"close", `{"status":200,"headers":[],"framing":"close","writes":[{"at_ms":2,"text":"hi"}],"end":{"at_ms":3,"how":"eof"}}`,
			"0:HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n|2:hi|3:EOF",
		},
		{
			"reset", `{"status":200,"headers":[],"framing":"chunked","writes":[],"end":{"at_ms":4,"how":"rst"}}`,
			"0:HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n|4:read mem client-1->here:80: read: connection reset by peer",
		},
		{
			"hold", `{"status":200,"headers":[],"framing":"chunked","writes":[],"end":{"at_ms":60000,"how":"hold"}}`,
			"0:HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n|60000:EOF",
		},
		{"drop", `{"accept":"drop","status":0,"headers":[],"framing":"close","writes":[],"end":{"how":"fin"}}`, "0:EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := Parse([]byte(`{"format":"llm-play/1","responses":[` + tt.response + `]}`))
				if err != nil {
					t.Fatal(err)
				}
				l := memconn.Listen("here:80")
				p := Serve(l, s)
				c, err := l.Dial(t.Context(), "tcp", "here:80")
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				_, _ = io.WriteString(c, "POST /v1 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
				var got strings.Builder
				buf := make([]byte, 4096)
				_ = c.SetReadDeadline(start.Add(2 * time.Minute))
				for {
					synctest.Wait()
					n, err := c.Read(buf)
					at := time.Since(start).Milliseconds()
					if err != nil {
						if at < 120_000 {
							got.WriteString(strings.Join([]string{itoa(at), err.Error()}, ":"))
						}
						break
					}
					got.WriteString(itoa(at) + ":" + string(buf[:n]) + "|")
				}
				// What is written at one time is read at once.
				if got.String() != tt.want {
					t.Errorf("got  %q\nwant %q", got.String(), tt.want)
				}
				_ = c.Close()
				p.Close()
			})
		})
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// TestCounts serves two requests on one connection and one on another, each with
// its own response, and sees a client leave.
func TestCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := `{"status":200,"headers":[],"framing":"length","writes":[{"text":"1"}],"end":{"how":"eof"}}`
		hold := `{"status":200,"headers":[],"framing":"chunked","writes":[],"end":{"at_ms":5000,"how":"hold"}}`
		s, err := Parse([]byte(`{"format":"llm-play/1","request":{"path":"/p"},"responses":[` + strings.Join([]string{one, hold, one, hold}, ",") + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		l := memconn.Listen("here:80")
		p := Serve(l, s)
		if p.URL() != "http://here:80/p" {
			t.Errorf("URL %q", p.URL())
		}
		start := time.Now()
		for range 2 {
			c, _ := l.Dial(t.Context(), "tcp", "")
			_, _ = io.WriteString(c, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
			synctest.Wait()
			_, _ = io.WriteString(c, "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
			time.Sleep(time.Second)
			_ = c.Close()
			synctest.Wait()
		}
		got := p.Requests()
		if len(got) != 4 || p.Connections() != 2 {
			t.Fatalf("%d requests on %d connections", len(got), p.Connections())
		}
		if got[1].Conn != 0 || got[2].Conn != 1 || string(got[1].Body) != "abc" || got[0].Method != "GET" || got[1].Path != "/b" {
			t.Errorf("%+v", got)
		}
		if gone := got[1].Gone.Sub(start); gone != time.Second {
			t.Errorf("client left at %v", gone)
		}
		if !got[0].Gone.IsZero() || len(got[0].Wrote) != 1 {
			t.Errorf("%+v", got[0])
		}
		p.Close()
	})
}

// TestRealSocket is the same player on a real listener.
func TestRealSocket(t *testing.T) {
	s, want, err := Case("001")
	if err != nil || want["status"] != "ok" {
		t.Fatal(err, want)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := Serve(l, s)
	defer p.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	played, err := s.Responses[0].Body()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r.Body); err != nil || r.StatusCode != 200 || !bytes.Equal(got, played) {
		t.Errorf("status %d, %q, %v; want %q", r.StatusCode, got, err, played)
	}
}

// TestBadFiles names what is wrong.
func TestBadFiles(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                             "parse play file",
		`{"format":"llm-play/2"}`:       `format "llm-play/2"`,
		`{"format":"llm-play/1"}`:       "no responses",
		`{"format":"llm-play/1","x":1}`: "unknown field",
		`{"format":"llm-play/1","responses":[{"framing":"x"}]}`:                                                `framing "x"`,
		`{"format":"llm-play/1","responses":[{"framing":"close","end":{"how":"x"}}]}`:                          `end "x"`,
		`{"format":"llm-play/1","responses":[{"framing":"close","end":{"how":"fin"},"writes":[{"b64":"%"}]}]}`: "b64",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, _, err := Case("999"); err == nil {
		t.Error("case 999 exists")
	}
	for _, name := range Cases() {
		if _, _, err := Case(name); err != nil {
			t.Error(err)
		}
	}
}

// TestNobody holds an address to refusing, and to being nobody else's.
func TestNobody(t *testing.T) {
	addr := Nobody(t)
	for range 3 {
		if c, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial: %v, %v", c, err)
		}
	}
	if l, err := net.Listen("tcp", addr); err == nil {
		_ = l.Close()
		t.Error("another can listen there")
	}
}
