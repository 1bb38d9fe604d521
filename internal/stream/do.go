package stream

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"strings"
	"time"
)

// Exchange is one request and its response. The zero value is ready; Do resets
// it, so that one value serves a worker for all its requests. It belongs to one
// goroutine. After Do without Failure: call Next until it returns false (SSE,
// NDJSON) or Body, then Close.
//
// All times are ns on the client's clock; a time that was not reached is
// math.MinInt64.
type Exchange struct {
	// Failure says why the exchange did not complete, Err more of it for people.
	Failure Failure
	Err     string

	// Status and Header are those of the response, 0 and nil without one.
	Status int
	Header http.Header
	// Framing says how the body is divided, judged by its content type and its
	// first bytes. It is final when Do returns.
	Framing Framing
	// Compressed is true when the body came compressed (and was decoded).
	Compressed bool

	// Start is when the sending began, before a connection was taken or
	// dialled; Connected when a connection was ready, equal to Start when one
	// was reused; Sent when the last byte of the request was with the kernel;
	// Headers when the first byte of the response arrived; End when the
	// response was complete or had failed.
	Start, Connected, Sent, Headers, End int64
	// FirstSend is the Start of an attempt that died on a reused connection
	// before any byte came; the request was then sent once more (Resends 1).
	FirstSend int64
	Resends   uint8
	// Reused is true when the connection had served another request. Remote is
	// its other end.
	Reused bool
	Remote string

	// KernelTimes is true when every read came with a receive time. Reads,
	// ReadLagSum and ReadLagMax are of the reads that did: user time of the
	// read less its receive time, in ns.
	KernelTimes            bool
	Reads                  uint32
	ReadLagSum, ReadLagMax int64
	// WallStep is true when a receive time was impossible and user times took
	// its place.
	WallStep bool
	// EarlyResponse is true when the response began before the last part of the
	// request was handed over.
	EarlyResponse bool
	// SentBytes and ReceivedBytes are body bytes as transferred.
	SentBytes, ReceivedBytes int64

	// Ev is the event that Next found.
	Ev Event

	c      *Client
	conn   *conn
	last   *conn // of the exchange before
	keeps  bool  // the server said that it keeps the connection
	a      *attempt
	stop   func() bool
	body   io.ReadCloser
	gz     *gzip.Reader
	fr     framer
	total  int64 // decoded bytes
	handed int64 // payload bytes read from net/http, to compare with wire.payload

	at, userAt   int64 // of the newest byte in the buffer
	batch        uint32
	chunked      bool
	over, tailed bool // the body has ended; what was left has been handed out
	closed       bool
	hidden       bool  // the body is of an unknown encoding
	limit        int64 // on the body, decoded and as transferred
	held         int64 // what of its buffers is counted in Client.held
}

func (x *Exchange) reset() {
	fr := x.fr
	fr.reset()
	gz, last := x.gz, x.last
	*x = Exchange{
		Start: unset, Connected: unset, Sent: unset, Headers: unset, End: unset, FirstSend: unset,
		at: unset, userAt: unset, fr: fr, gz: gz, last: last,
	}
}

// Do sends r and returns when the response header and the first bytes of its
// body are there, or when that has failed: see x.Failure. The end of ctx cancels
// the exchange, in Next and Body too, and closes its connection, so that the
// server sees it.
//
// A request that dies on a reused connection before any byte of an answer is
// sent again, once, on a fresh connection: the server had closed it, and a
// measuring client must neither fail for that nor hide it.
func (c *Client) Do(ctx context.Context, x *Exchange, r *Request) {
	x.Close()
	x.reset()
	x.c, x.limit = c, c.cfg.MaxBody
	x.Start = c.cfg.Now()
	t, err := c.target(r.URL)
	if err != nil {
		x.fail(FailProtocol, err.Error())
		return
	}
	fresh := false
	for {
		err := x.attempt(ctx, t, r, fresh)
		if err == nil {
			break
		}
		if fresh || ctx.Err() != nil || !x.diedReused() {
			x.failWith(ctx, err)
			return
		}
		t.end.stale()
		x.drop()
		x.a = nil
		x.FirstSend, x.Resends = x.Start, x.Resends+1
		x.Start, fresh = c.cfg.Now(), true
		x.Connected, x.Sent = unset, unset
	}
	x.begin()
}

// diedReused reports whether the attempt failed because a connection that had
// served another request was dead: no byte of an answer came, and it was not
// this side that gave up.
func (x *Exchange) diedReused() bool {
	c, a := x.conn, x.a
	return c != nil && a != nil && x.Reused && !a.any.Load() && a.cause.Load() == 0 &&
		(c.readDead.Load() || c.broken.Load() || c.cc.Err() != nil)
}

// attempt sends the request once and waits for the response header.
func (x *Exchange) attempt(ctx context.Context, t target, r *Request, fresh bool) error {
	c := x.c
	dialCtx := ctx
	if r.TotalTimeout > 0 {
		var cancel context.CancelFunc
		limit := r.TotalTimeout - time.Duration(c.cfg.Now()-x.Start)
		dialCtx, cancel = context.WithTimeoutCause(ctx, limit, errTotalTimeout)
		defer cancel()
	}
	conn, waited, err := t.end.get(dialCtx, x.last, fresh)
	if err != nil {
		if ctx.Err() == nil && context.Cause(dialCtx) == errTotalTimeout {
			return fmt.Errorf("%w after %v, before a connection was ready", errTotalTimeout, r.TotalTimeout)
		}
		return err
	}
	x.conn, x.Reused, x.Remote = conn, conn.used, conn.remote
	x.Connected = x.Start
	if waited {
		x.Connected = c.cfg.Now()
	}
	if x.Reused {
		t.end.reused()
	}
	x.last = x.conn

	a := newAttempt(x.conn, c.cfg.Now, x.Start, r)
	x.a = a
	x.conn.att.Store(a)
	x.stop = context.AfterFunc(ctx, func() { a.kill(FailCancelled) })
	a.watch()

	// The request's own context is not the caller's: ending an exchange is done
	// by closing its connection, which net/http cannot mistake for anything.
	resp, err := x.conn.cc.RoundTrip(t.request(r, a))
	if err != nil {
		return err
	}
	x.Status, x.Header, x.keeps = resp.StatusCode, resp.Header, !resp.Close
	if x.Status >= 400 {
		x.limit = min(x.limit, maxErrorBody)
	}
	x.Headers, x.at, x.userAt, x.batch = a.headersAt, a.at, a.userAt, a.batch
	x.sent()
	if x.Status == http.StatusSwitchingProtocols {
		_ = resp.Body.Close()
		return errors.New("status 101: the server switched to another protocol unasked")
	}
	if resp.Body == http.NoBody {
		// net/http has put the connection back already and reads ahead.
		x.End = x.at
		x.over = true
		return nil
	}
	x.body = resp.Body
	x.chunked = len(resp.TransferEncoding) > 0 && resp.TransferEncoding[0] == "chunked"
	a.framed(resp.ContentLength, x.chunked)
	a.inBody.Store(true)
	a.rearm()
	return nil
}

// request puts a request into net/http's terms.
func (t target) request(r *Request, a *attempt) *http.Request {
	h := r.Header
	if h == nil || h.Get("Accept-Encoding") == "" || h.Get("User-Agent") == "" {
		h = h.Clone()
		if h == nil {
			h = http.Header{}
		}
		if h.Get("Accept-Encoding") == "" {
			h.Set("Accept-Encoding", "identity")
		}
		if h.Get("User-Agent") == "" {
			h.Set("User-Agent", "plimsoll")
		}
	}
	method := r.Method
	if method == "" {
		method = http.MethodPost
	}
	q := &http.Request{
		Method: method, URL: t.url, Header: h, Host: h.Get("Host"),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: int64(len(r.Body)), Close: t.end.noReuse(),
	}
	if len(r.Body) > 0 {
		q.Body = &a.body
	}
	return q
}

// sent settles when the request was handed over. net/http's writer may not have
// come round to saying so although the answer is here, so a response is only
// early when it arrived before the last part was even begun.
func (x *Exchange) sent() {
	a := x.a
	sent, begun := a.sentAt.Load(), a.writeStart.Load()
	switch {
	case sent != unset && x.Headers >= begun:
		x.Sent = min(sent, max(x.Headers, begun))
	case sent != unset:
		x.Sent, x.EarlyResponse = sent, true
	case a.body.left() == 0 && x.Headers >= begun:
		x.Sent = x.Headers
	default:
		x.EarlyResponse = true
	}
}

// begin judges the framing of the body by its first bytes.
func (x *Exchange) begin() {
	if x.Status >= 300 && x.Status <= 399 && x.Status != http.StatusNotModified {
		text := fmt.Sprintf("status %d", x.Status)
		if l := x.Header.Get("Location"); l != "" {
			text += " to " + l
		}
		x.fail(FailRedirect, text+": redirects are not followed, use the final URL")
		return
	}
	if x.over {
		x.finish()
		return
	}
	switch enc := strings.ToLower(strings.TrimSpace(x.Header.Get("Content-Encoding"))); enc {
	case "", "identity":
	case "gzip", "x-gzip":
		x.Compressed = true
	default:
		if x.Status >= 400 {
			x.hidden = true // the status says enough
			return
		}
		x.fail(FailProtocol, fmt.Sprintf("content-encoding %s was not asked for and is not known (gzip is)", enc))
		return
	}
	kind, _, _ := mime.ParseMediaType(x.Header.Get("Content-Type"))
	seen := 0
	for {
		b, complete := x.fr.buf, x.complete()
		// Behind the first few bytes only a line's end can settle it, and white
		// space without end will not: nothing is searched over and over.
		if complete || len(b) <= sniffBytes || bytes.IndexByte(b[seen:], '\n') >= 0 {
			blank := len(b) > sniffBytes && len(bytes.TrimLeft(b[:sniffBytes], " \t\r\n")) == 0
			if f, sure := sniff(kind, b, complete || blank); sure {
				x.Framing, x.fr.kind = f, f
				return
			}
		}
		seen = len(b)
		x.fill()
	}
}

// sniffBytes is how much of a body is looked at as it comes.
const sniffBytes = 4 << 10

// complete reports whether all of the body is in the buffer.
func (x *Exchange) complete() bool {
	if x.over || x.a == nil {
		return true
	}
	if x.Compressed {
		return false
	}
	if x.chunked {
		return x.a.wire.state == wireDone && x.handed == x.a.wire.payload
	}
	return x.handed == x.a.bodyLength
}

// sniff judges the framing of a body by its media type and, since servers get
// that wrong, its first bytes. It is not sure while there are too few of them.
func sniff(kind string, b []byte, complete bool) (f Framing, sure bool) {
	b = bytes.TrimLeft(bytes.TrimPrefix(b, byteOrderMark), " \t\r\n")
	if len(b) == 0 && !complete {
		return FrameBody, false
	}
	events, open := looksLikeEvents(b)
	if open && !complete {
		return FrameBody, false
	}
	switch kind {
	case "text/event-stream":
		if len(b) > 0 && (b[0] == '{' || b[0] == '[' || b[0] == '<') {
			return FrameBody, true
		}
		return FrameSSE, true
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines",
		"application/jsonlines", "application/json-lines", "application/stream+json":
		if events {
			return FrameSSE, true
		}
		return FrameNDJSON, true
	case "", "text/plain", "application/octet-stream":
		if events {
			return FrameSSE, true
		}
		if len(b) == 0 || b[0] != '{' {
			return FrameBody, true
		}
		end := bytes.IndexByte(b, '\n')
		switch {
		case end < 0:
			return FrameBody, complete
		case !json.Valid(b[:end]):
			return FrameBody, true
		case !complete || len(bytes.TrimSpace(b[end:])) > 0:
			return FrameNDJSON, true
		}
		return FrameBody, true
	}
	if events {
		return FrameSSE, true
	}
	return FrameBody, true
}

// looksLikeEvents reports whether b begins like server-sent events, or could
// when more of it comes.
func looksLikeEvents(b []byte) (yes, open bool) {
	for _, p := range [...]string{":", "data:", "event:", "id:", "retry:"} {
		if len(b) >= len(p) {
			if string(b[:len(p)]) == p {
				return true, false
			}
		} else if string(b) == p[:len(b)] {
			open = true
		}
	}
	return false, open
}

// Next finds the next event of a stream. It returns false at the end of the
// body and on failure (see Failure), and at once for a body that is not divided.
func (x *Exchange) Next() bool {
	if x.Framing == FrameBody {
		return false
	}
	for {
		if x.fr.next() {
			x.found()
			return true
		}
		if x.over {
			break
		}
		x.fill()
	}
	if x.tailed || x.Failure != NoFailure || x.closed {
		return false
	}
	x.tailed = true
	if !x.fr.last() {
		return false
	}
	x.found()
	x.Ev.Open = true
	return true
}

func (x *Exchange) found() {
	x.Ev = Event{Name: x.fr.name, Data: x.fr.data, At: x.at, UserAt: x.userAt, Read: x.batch}
}

// Body reads the whole body, whatever its framing, and returns what came of it,
// decompressed; nil for the body of an error in an encoding that is not known. It
// is called instead of Next. The bytes are valid until the next
// Do. On failure they are what had come.
func (x *Exchange) Body() []byte {
	for !x.over {
		x.fill()
	}
	if x.hidden {
		return nil
	}
	return x.fr.buf
}

// fill reads more of the body into the framer's buffer.
func (x *Exchange) fill() {
	room := x.fr.room()
	if !x.hold() {
		x.fail(FailResource, fmt.Sprintf("answers under way fill %d MiB of memory: fewer requests at once, or a server that ends its lines", x.c.maxHeld>>20))
		return
	}
	if left := x.limit - x.total; int64(len(room)) > left {
		room = room[:max(left, 1)]
	}
	n, err := 0, error(nil)
	if x.Compressed {
		n, err = x.gunzip(room)
	} else {
		n, err = x.read(room)
	}
	if n > 0 {
		x.total += int64(n)
		x.fr.took(n)
		x.at, x.userAt, x.batch = x.a.at, x.a.userAt, x.a.batch
	}
	switch {
	case err == io.EOF:
		x.over = true
		x.End = x.a.at
		if x.closeDelimited() {
			x.End = x.c.cfg.Now() // the end itself carries no receive time
		}
		x.finish()
	case err != nil:
		x.failWith(context.Background(), err)
	case x.total > x.limit:
		x.fail(FailTooLarge, fmt.Sprintf("body over %d bytes", x.limit))
	}
}

// Of the body of a refusal this much is read.
const maxErrorBody = 1 << 20

// maxHeld bounds the buffers of all exchanges of a client. One body is bounded
// by MaxBody, but a thousand at once must not add up to all memory there is. It
// is a thousand answers of a megabyte, read whole.
const maxHeld = 1 << 30

// hold counts buffers that are larger than usual, and returns false when all
// together have become too large.
func (x *Exchange) hold() bool {
	n := int64(cap(x.fr.buf) + cap(x.fr.join))
	if n <= 2*bufferKeep {
		n = 0
	}
	d := n - x.held
	if d == 0 {
		return true
	}
	x.held = n
	return x.c.held.Add(d) <= x.c.maxHeld || d < 0
}

// release gives back what hold has counted.
func (x *Exchange) release() {
	if x.held != 0 {
		x.c.held.Add(-x.held)
		x.held = 0
	}
}

func (x *Exchange) closeDelimited() bool { return !x.chunked && x.a.bodyLength == math.MaxInt64 }

// read reads payload bytes. Of a chunked body it asks for what has arrived and
// no more, see wire.
func (x *Exchange) read(p []byte) (int, error) {
	w := &x.a.wire
	if !x.chunked || w.state == wireBad {
		n, err := x.body.Read(p)
		x.handed += int64(n)
		return n, err
	}
	n := 0
	if w.payload == x.handed {
		m, err := x.body.Read(p[:1])
		x.handed += int64(m)
		if err != nil || len(p) == 1 {
			return m, err
		}
		n = m
	}
	if here := w.payload - x.handed; here > 0 && w.state != wireBad {
		m, err := x.body.Read(p[n : n+int(min(here, int64(len(p)-n)))])
		x.handed += int64(m)
		return n + m, err
	}
	return n, nil
}

// gunzip reads decoded bytes. The decoder hands out what it has at every flush
// of the server's.
func (x *Exchange) gunzip(p []byte) (int, error) {
	if x.total == 0 && x.handed == 0 {
		var err error
		if x.gz == nil {
			x.gz, err = gzip.NewReader(payload{x})
		} else {
			err = x.gz.Reset(payload{x})
		}
		if err != nil {
			x.gz = nil
			return 0, gzipError(err)
		}
	}
	n, err := x.gz.Read(p)
	return n, gzipError(err)
}

// payload is the body as transferred, as a reader for the decoder.
type payload struct{ x *Exchange }

// Read ends a body whose transferred bytes go on without anything coming out.
func (p payload) Read(b []byte) (int, error) {
	if p.x.handed > p.x.limit {
		return 0, errTooLarge
	}
	return p.x.read(b)
}

var errTooLarge = errors.New("compressed body over the limit")

func gzipError(err error) error {
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) {
		return &decodeError{err}
	}
	return err
}

// decodeError is a body that is not what its encoding says.
type decodeError struct{ err error }

func (e *decodeError) Error() string { return "decode gzip body: " + e.err.Error() }
func (e *decodeError) Unwrap() error { return e.err }

// fail ends the exchange.
func (x *Exchange) fail(f Failure, text string) {
	x.Failure = f
	if len(text) > maxText {
		text = text[:maxText]
	}
	x.Err = strings.ToValidUTF8(text, "?")
	x.End = x.c.cfg.Now()
	x.over = true
	x.drop()
}

// maxText bounds Exchange.Err.
const maxText = 512

// settle takes over what the attempt knows of its reads.
func (x *Exchange) settle() {
	a := x.a
	if a == nil {
		return
	}
	x.SentBytes = a.wrote.Load()
	if x.Sent != unset && !x.EarlyResponse {
		x.SentBytes = a.body.taken() // all of it, whether net/http's writer has come round to saying so or not
	}
	if x.Headers == unset {
		if sent := a.sentAt.Load(); sent != unset && x.End != unset {
			x.Sent = min(sent, x.End) // what is not answered was sent all the same
		}
		return // net/http's goroutine may still be reading
	}
	x.Reads, x.ReadLagSum, x.ReadLagMax = a.kernelReads, a.lagSum, a.lagMax
	x.KernelTimes = a.reads > 0 && a.kernelReads == a.reads
	x.WallStep = a.steps > 0
	x.ReceivedBytes = x.handed
}

// drop ends the attempt and closes its connection.
func (x *Exchange) drop() {
	if x.conn == nil {
		return
	}
	x.settle()
	conn := x.conn
	x.leave()
	// The connection first: net/http would wait for what it cannot get.
	x.conn, x.last = nil, nil
	_ = conn.Close()
	_ = conn.cc.Close()
	if x.body != nil {
		_ = x.body.Close()
		x.body = nil
	}
}

// finish ends the attempt after the last byte of the response and keeps the
// connection for others.
func (x *Exchange) finish() {
	if x.conn == nil {
		return
	}
	x.settle()
	conn := x.conn
	x.leave()
	x.conn = nil
	if x.body != nil {
		_ = x.body.Close()
		x.body = nil
	}
	conn.end.put(conn, x.keeps)
}

func (x *Exchange) leave() {
	if x.stop != nil {
		x.stop()
		x.stop = nil
	}
	if x.a != nil {
		x.a.finish()
	}
}

// closeGrace is how long Close waits for a body to end after the caller has
// seen the terminal event. The end mostly is in the buffer by then.
const closeGrace = 3 * time.Millisecond

// Close ends an exchange whose caller wants no more of it: after the terminal
// event, or to give up. Where the body ends within a few ms the connection is
// kept for the next request, else it is closed. End becomes the time of the last
// event when the body had not ended. It does nothing after the end of the body.
func (x *Exchange) Close() {
	x.release()
	if x.closed || x.c == nil {
		return
	}
	x.closed = true
	if x.over {
		return
	}
	end := x.c.cfg.Now()
	if x.Ev.At != 0 || x.Ev.Data != nil {
		end = x.Ev.At
	}
	e := x.conn.end
	e.mu.Lock()
	s := &e.stats
	wait := !s.ReuseOff && !e.c.cfg.NewConnection &&
		(s.LateEnds < lateCount || s.LateEnds*lateShare < s.Opened+s.Reused)
	e.mu.Unlock()
	if wait || x.complete() {
		x.drain()
	}
	if !x.over {
		x.over = true
		x.drop()
		if wait {
			e.mu.Lock()
			e.stats.LateEnds++
			e.mu.Unlock()
		}
	}
	x.End, x.Failure, x.Err = end, NoFailure, ""
}

// drain reads the rest of the body while it comes at once. The limit is on the
// attempt, not a deadline of the connection, which might outlast it.
func (x *Exchange) drain() {
	a := x.a
	limit := time.AfterFunc(closeGrace, func() { a.kill(FailCancelled) })
	defer limit.Stop()
	var scrap [512]byte
	for range 64 {
		_, err := x.read(scrap[:])
		if err == io.EOF {
			x.over = true
			x.finish()
			return
		}
		if err != nil {
			return
		}
	}
}
