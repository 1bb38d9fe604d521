// Package play serves recorded or composed responses byte for byte at given
// times, over any net.Listener, for tests: files of the format llm-play/1. It
// writes HTTP by hand, so that it can lie as servers do. It is never part of
// the product and knows nothing of what the bytes mean.
package play

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Script is one file of the format llm-play/1.
type Script struct {
	Format  string `json:"format"`
	Request struct {
		Method string `json:"method"`
		Path   string `json:"path"`
		API    string `json:"api"`
		Stream bool   `json:"stream"`
	} `json:"request"`
	// Responses are used one per request; the last repeats.
	Responses []Response `json:"responses"`
	Note      string     `json:"note,omitempty"`
}

// Response is one answer. All times are ms from the moment at which the whole
// request had been read.
type Response struct {
	// Accept "drop" closes the connection when the request has arrived.
	Accept  string      `json:"accept,omitempty"`
	Status  int         `json:"status"`
	Headers [][2]string `json:"headers"`
	// HeadersAt is when the header goes out; Framing is chunked, length (of all
	// writes, unless the headers state another) or close.
	HeadersAt float64 `json:"headers_at_ms"`
	Framing   string  `json:"framing"`
	Writes    []Write `json:"writes"`
	End       struct {
		At float64 `json:"at_ms"`
		// How: eof (proper end), fin (closed early), rst, hold (silence until
		// At, then closed).
		How string `json:"how"`
	} `json:"end"`
	// Early answers before the request's body has been read; times count from
	// the end of its header.
	Early bool `json:"early,omitempty"`
}

// Write is one flush: one HTTP chunk, or one write of the plain body.
type Write struct {
	At     float64 `json:"at_ms"`
	Text   string  `json:"text,omitempty"`
	B64    string  `json:"b64,omitempty"`
	Pre    string  `json:"pre,omitempty"`
	Repeat *struct {
		Text string `json:"text"`
		N    int    `json:"n"`
	} `json:"repeat,omitempty"`
	Post string `json:"post,omitempty"`
	// Raw writes the bytes as they are, without chunk framing.
	Raw bool `json:"raw,omitempty"`
}

// Bytes returns the payload.
func (w *Write) Bytes() ([]byte, error) {
	if w.B64 != "" {
		b, err := base64.StdEncoding.DecodeString(w.B64)
		if err != nil {
			return nil, fmt.Errorf("decode b64 of write at %v ms: %w", w.At, err)
		}
		return b, nil
	}
	if w.Repeat != nil {
		return []byte(w.Pre + strings.Repeat(w.Repeat.Text, w.Repeat.N) + w.Post), nil
	}
	return []byte(w.Text + w.Pre + w.Post), nil
}

// Body returns the whole body of the response.
func (r *Response) Body() ([]byte, error) {
	var out []byte
	for i := range r.Writes {
		b, err := r.Writes[i].Bytes()
		if err != nil {
			return nil, err
		}
		out = append(out, b...)
	}
	return out, nil
}

// Parse reads a script.
func Parse(data []byte) (*Script, error) {
	var s Script
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return nil, fmt.Errorf("parse play file: %w", err)
	}
	if s.Format != "llm-play/1" {
		return nil, fmt.Errorf("parse play file: format %q, want llm-play/1", s.Format)
	}
	if len(s.Responses) == 0 {
		return nil, errors.New("parse play file: no responses")
	}
	for i := range s.Responses {
		r := &s.Responses[i]
		switch r.Framing {
		case "chunked", "length", "close":
		default:
			return nil, fmt.Errorf("parse play file: response %d: framing %q, want chunked, length or close", i, r.Framing)
		}
		switch r.End.How {
		case "eof", "fin", "rst", "hold":
		default:
			return nil, fmt.Errorf("parse play file: response %d: end %q, want eof, fin, rst or hold", i, r.End.How)
		}
		if _, err := r.Body(); err != nil {
			return nil, fmt.Errorf("parse play file: response %d: %w", i, err)
		}
	}
	return &s, nil
}

//go:embed testdata/cases
var cases embed.FS

// Cases returns the names of the cases that have a play file, in order.
func Cases() []string {
	entries, err := cases.ReadDir("testdata/cases")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Case returns the play file of a case and its expected values, by its whole
// name or its number.
func Case(name string) (*Script, map[string]any, error) {
	for _, n := range Cases() {
		if n != name && !strings.HasPrefix(n, name+"-") {
			continue
		}
		dir := path.Join("testdata/cases", n)
		data, err := cases.ReadFile(path.Join(dir, "input.play.json"))
		if err != nil {
			return nil, nil, err
		}
		s, err := Parse(data)
		if err != nil {
			return nil, nil, fmt.Errorf("case %s: %w", n, err)
		}
		want := map[string]any{}
		if data, err = cases.ReadFile(path.Join(dir, "expected.json")); err != nil {
			return nil, nil, err
		}
		if err := json.Unmarshal(data, &want); err != nil {
			return nil, nil, fmt.Errorf("case %s: %w", n, err)
		}
		return s, want, nil
	}
	return nil, nil, fmt.Errorf("no case %q", name)
}

// Received is one request as the server saw it.
type Received struct {
	Method, Path string
	Header       http.Header
	Body         []byte
	// Conn counts the server's connections from 0; Read is when the whole
	// request had been read, Wrote when each write had been handed over.
	Conn  int
	Read  time.Time
	Wrote []time.Time
	// Gone is when the client closed the connection before the response had
	// ended; zero when it did not.
	Gone time.Time
}

// Server plays one script.
type Server struct {
	script *Script
	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	received []*Received
	conns    map[net.Conn]int
	accepted int
	listener net.Listener
}

// Serve plays s on every connection that l accepts, in the background, until Close.
func Serve(l net.Listener, s *Script) *Server {
	p := &Server{script: s, conns: map[net.Conn]int{}, listener: l}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			n := p.accepted
			p.accepted++
			p.conns[c] = n
			p.mu.Unlock()
			p.group.Go(func() {
				p.conn(c, n)
				_ = c.Close()
				p.mu.Lock()
				delete(p.conns, c)
				p.mu.Unlock()
			})
		}
	})
	return p
}

// Close closes the listener and every connection, and waits for the server's
// goroutines.
func (p *Server) Close() {
	p.cancel()
	_ = p.listener.Close()
	p.mu.Lock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.group.Wait()
}

// URL returns the address of the server with the path of the script's request.
func (p *Server) URL() string { return "http://" + p.listener.Addr().String() + p.script.Request.Path }

// Requests returns what has been received so far.
func (p *Server) Requests() []Received {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]Received, 0, len(p.received))
	for _, r := range p.received {
		c := *r
		c.Wrote = append([]time.Time(nil), r.Wrote...)
		out = append(out, c)
	}
	return out
}

// Connections returns how many connections have been accepted.
func (p *Server) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// conn serves one connection until it ends.
func (p *Server) conn(c net.Conn, n int) {
	br := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		rec := &Received{Method: req.Method, Path: req.URL.Path, Header: req.Header, Conn: n}
		p.mu.Lock()
		i := len(p.received)
		p.received = append(p.received, rec)
		p.mu.Unlock()
		resp := &p.script.Responses[min(i, len(p.script.Responses)-1)]
		if !resp.Early {
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return
			}
			p.mu.Lock()
			rec.Body = body
			p.mu.Unlock()
		}
		p.mu.Lock()
		rec.Read = time.Now()
		p.mu.Unlock()
		if !p.respond(c, br, resp, rec) || resp.Early {
			return
		}
	}
}

// respond plays one response and reports whether the connection may go on.
func (p *Server) respond(c net.Conn, br *bufio.Reader, r *Response, rec *Received) bool {
	if r.Accept == "drop" {
		return false
	}
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	gone := make(chan struct{})
	if r.Early {
		close(gone) // the request is still coming: its reader cannot be watched
	} else {
		// The client's next byte is a new request; an error is its leaving.
		go func() {
			defer close(gone)
			if _, err := br.Peek(1); err != nil {
				p.mu.Lock()
				if rec.Gone.IsZero() && ctx.Err() == nil {
					rec.Gone = time.Now()
				}
				p.mu.Unlock()
				cancel()
			}
		}()
	}
	ok := p.write(ctx, c, r, rec)
	cancel()
	if !ok {
		_ = c.Close()
	}
	<-gone
	return ok
}

func (p *Server) write(ctx context.Context, c net.Conn, r *Response, rec *Received) bool {
	body, err := r.Body()
	if err != nil {
		panic("BUG: Parse lets this through: " + err.Error())
	}
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\n", r.Status, http.StatusText(r.Status))
	stated := false
	for _, h := range r.Headers {
		head += h[0] + ": " + h[1] + "\r\n"
		stated = stated || http.CanonicalHeaderKey(h[0]) == "Content-Length"
	}
	switch r.Framing {
	case "chunked":
		head += "Transfer-Encoding: chunked\r\n"
	case "length":
		if !stated {
			head += "Content-Length: " + strconv.Itoa(len(body)) + "\r\n"
		}
	case "close":
		head += "Connection: close\r\n"
	}
	if !until(ctx, rec.Read, r.HeadersAt) {
		return false
	}
	if _, err := io.WriteString(c, head+"\r\n"); err != nil {
		return false
	}
	for i := range r.Writes {
		w := &r.Writes[i]
		if !until(ctx, rec.Read, w.At) {
			return false
		}
		b, _ := w.Bytes()
		if r.Framing == "chunked" && !w.Raw {
			b = []byte(strconv.FormatInt(int64(len(b)), 16) + "\r\n" + string(b) + "\r\n")
		}
		if _, err := c.Write(b); err != nil {
			return false
		}
		p.mu.Lock()
		rec.Wrote = append(rec.Wrote, time.Now())
		p.mu.Unlock()
	}
	if !until(ctx, rec.Read, r.End.At) {
		return false
	}
	switch r.End.How {
	case "rst":
		reset(c)
		return false
	case "fin", "hold":
		return false
	}
	switch r.Framing {
	case "chunked":
		_, err = io.WriteString(c, "0\r\n\r\n")
		return err == nil
	case "close":
		return false
	}
	return true
}

// until waits for a number of ms after start; false when the exchange is over.
func until(ctx context.Context, start time.Time, ms float64) bool {
	wait := time.Until(start.Add(time.Duration(ms * float64(time.Millisecond))))
	if wait <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// reset closes a connection with RST.
func reset(c net.Conn) {
	switch c := c.(type) {
	case interface{ Reset() error }:
		_ = c.Reset()
	case *net.TCPConn:
		_ = c.SetLinger(0)
		_ = c.Close()
	default:
		_ = c.Close()
	}
}
