package stream

import (
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const unset int64 = math.MinInt64

// conn is a connection as net/http sees it: its bytes are those of HTTP, so it
// stands above TLS. It notes for the attempt under way when bytes came and went.
type conn struct {
	net.Conn // the TLS connection or the sock itself
	sock     *sock
	end      *endpoint
	cc       *http.ClientConn
	remote   string
	used     bool  // has served a request
	idleAt   int64 // when it became idle
	index    int   // in endpoint.idle, -1 when it is not there; guarded by endpoint.mu

	att      atomic.Pointer[attempt]
	readDead atomic.Bool // a read has failed: no answer will come
	peerDead atomic.Bool // and it was not this side that closed
	wasReset atomic.Bool // and the other side reset it
	broken   atomic.Bool // must not be reused
	once     sync.Once
}

var errUnsolicited = errors.New("bytes that nobody asked for")

// Read is called by one goroutine at a time: net/http's read loop up to the
// response header, the goroutine of the exchange for the body.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	a := c.att.Load()
	if a == nil {
		// Idle, or a response that has ended. net/http would log such bytes.
		if n > 0 {
			c.broken.Store(true)
			return 0, errUnsolicited
		}
		if err != nil {
			c.readFailed(err)
		}
		return n, err
	}
	if n > 0 {
		n -= a.read(c, p[:n])
	}
	if err != nil {
		c.readFailed(err)
		a.answer()
	}
	return n, err
}

func (c *conn) readFailed(err error) {
	if !c.broken.Load() {
		c.peerDead.Store(true)
	}
	if errors.Is(err, syscall.ECONNRESET) {
		c.wasReset.Store(true)
	}
	c.readDead.Store(true)
}

// lingerAfterWriteError bounds how long a failed write waits for an answer that the
// server sent before it stopped reading (413 and the like). What breaks the writing
// ends the reading, so that this is a matter of microseconds, but for a client that
// is held up: the answer must not be lost for that.
const lingerAfterWriteError = 10 * time.Second

// Write is called by net/http's write loop. It flushes the header apart from
// the body, which would make two segments of a small request, so the header is
// kept until the body comes.
func (c *conn) Write(p []byte) (int, error) {
	a := c.att.Load()
	if a == nil {
		return c.Conn.Write(p)
	}
	if a.body.untouched() {
		a.head = append(a.head, p...)
		return len(p), nil
	}
	if len(a.head) > 0 {
		p = append(a.head, p...)
		n, err := c.send(a, p)
		n = max(0, n-len(a.head))
		a.head = nil
		return n, err
	}
	return c.send(a, p)
}

// sendBuffers hold the pieces in which bodies are written.
var sendBuffers = sync.Pool{New: func() any { return new([sendPiece]byte) }}

const sendPiece = 32 << 10

// ReadFrom sends a body, the header in front of it.
func (c *conn) ReadFrom(r io.Reader) (total int64, err error) {
	a := c.att.Load()
	buf := sendBuffers.Get().(*[sendPiece]byte)
	defer sendBuffers.Put(buf)
	fill := 0
	if a != nil {
		// A header that does not fit goes ahead.
		if len(a.head) > len(buf)/2 {
			if _, err := c.send(a, a.head); err != nil {
				return 0, err
			}
			a.head = nil
		}
		fill = copy(buf[:], a.head)
		a.head = nil
	}
	for err == nil {
		for fill < len(buf) && err == nil {
			var n int
			n, err = r.Read(buf[fill:])
			fill += n
			total += int64(n)
		}
		if fill > 0 && (err == nil || err == io.EOF) {
			var werr error
			if a != nil {
				_, werr = c.send(a, buf[:fill])
			} else {
				_, werr = c.Conn.Write(buf[:fill])
			}
			if werr != nil {
				return total, werr
			}
			fill = 0
		}
	}
	if err == io.EOF {
		err = nil
	}
	return total, err
}

// send writes a part of the attempt's request and notes when.
func (c *conn) send(a *attempt, p []byte) (int, error) {
	a.writeStart.Store(a.now())
	n, err := c.Conn.Write(p)
	if err == nil {
		a.wrote.Store(a.body.taken())
		if a.body.left() == 0 {
			a.sentAt.Store(a.now())
			a.rearm()
		}
		return n, nil
	}
	c.broken.Store(true)
	if c.readDead.Load() || errors.Is(err, net.ErrClosed) {
		return n, err
	}
	t := time.NewTimer(lingerAfterWriteError)
	defer t.Stop()
	select {
	case <-a.answered:
	case <-t.C:
	}
	if !a.headed.Load() {
		return n, err
	}
	// An answer is there: net/http must not throw it away for this. The
	// connection is marked broken, so nothing else will use it.
	return len(p), nil
}

// Close closes the connection; more than once does no harm.
func (c *conn) Close() error {
	var err error
	c.once.Do(func() {
		c.broken.Store(true)
		err = c.Conn.Close()
		c.end.closed()
		if a := c.att.Load(); a != nil {
			a.answer() // nobody reads any more
		}
	})
	return err
}

// attempt is one sending of one request. It is made anew each time, because
// net/http's goroutines may still hold an old one when the exchange has moved on.
type attempt struct {
	c    *conn
	now  func() int64
	body sendBody

	// The reading side. Written by whoever reads the connection, handed on
	// with the response, and never touched after the response's last byte.
	wire        wire
	bodyLength  int64 // of a body with a length, -1 otherwise
	headersAt   int64
	at, userAt  int64
	batch       uint32
	seq         uint64
	reads       uint32
	kernelReads uint32
	steps       uint32
	lagSum      int64
	lagMax      int64

	any      atomic.Bool // a byte of an answer has come
	headed   atomic.Bool // a whole response header has come
	answered chan struct{}
	once     sync.Once

	// The writing side. head is the request header while it waits for the body.
	head               []byte
	writeStart, sentAt atomic.Int64
	wrote              atomic.Int64 // body bytes handed over

	// The time limits.
	lastByte            atomic.Int64
	start               int64
	header, idle, total atomic.Int64
	inBody              atomic.Bool
	cause               atomic.Uint32

	mu    sync.Mutex // guards the following
	timer *time.Timer
	ended bool
}

func newAttempt(c *conn, now func() int64, start int64, r *Request) *attempt {
	a := &attempt{
		c: c, now: now, start: start, bodyLength: -1,
		headersAt: unset, at: unset, userAt: unset, answered: make(chan struct{}),
	}
	a.body.b = r.Body
	a.writeStart.Store(unset)
	a.sentAt.Store(unset)
	a.header.Store(int64(r.HeaderTimeout))
	a.idle.Store(int64(r.IdleTimeout))
	a.total.Store(int64(r.TotalTimeout))
	return a
}

// read notes the bytes of one read and returns how many of them lie behind the
// end of the response. They are dropped, and the connection with them: net/http
// would print a line about each.
func (a *attempt) read(c *conn, p []byte) (excess int) {
	s := c.sock
	a.at, a.userAt = s.at, s.userAt
	if s.seq != a.seq {
		// Under TLS several reads may come out of one read of the socket.
		a.seq = s.seq
		a.batch = s.batch
		a.reads++
		if s.stamped {
			a.kernelReads++
			lag := s.userAt - s.at
			a.lagSum += lag
			a.lagMax = max(a.lagMax, lag)
		}
		if s.stepped {
			a.steps++
		}
	}
	a.lastByte.Store(s.userAt)
	if !a.any.Load() {
		a.any.Store(true)
	}
	head := a.wire.state == wireHead
	a.wire.feed(p)
	if a.wire.begun {
		a.headersAt = s.at
	}
	if head && a.wire.state != wireHead {
		a.headed.Store(true)
		a.answer()
	}
	if a.bodyLength >= 0 && a.wire.raw >= a.bodyLength || a.bodyLength < 0 && a.wire.state == wireDone {
		// What is read from now on belongs to nobody. net/http begins to read
		// ahead before the exchange sees the end of the body.
		c.att.CompareAndSwap(a, nil)
	}
	if excess = int(min(a.wire.excess, int64(len(p)))); excess > 0 {
		c.broken.Store(true)
	}
	return excess
}

// answer lets a failed write know that there is nothing to wait for any more: a
// whole header has come, or none will.
func (a *attempt) answer() { a.once.Do(func() { close(a.answered) }) }

// framed is told how the body is framed, once the header is known and before
// the body is read.
func (a *attempt) framed(length int64, chunked bool) {
	if chunked {
		return // wire follows it anyway
	}
	a.wire.state = wireBad
	a.bodyLength = length
	if length < 0 {
		a.bodyLength = math.MaxInt64
	}
	if a.wire.raw >= a.bodyLength {
		a.c.att.CompareAndSwap(a, nil)
	} else {
		a.c.att.CompareAndSwap(nil, a) // a body that looked like an ended chunked one
	}
}

// watch starts the time limits that the request has.
func (a *attempt) watch() {
	if a.header.Load()|a.idle.Load()|a.total.Load() == 0 {
		return
	}
	a.mu.Lock()
	if !a.ended {
		a.timer = time.AfterFunc(time.Hour, a.due)
	}
	a.mu.Unlock()
	a.rearm()
}

// rearm sets the timer for the nearest limit.
func (a *attempt) rearm() {
	at, _ := a.deadline()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer == nil || a.ended || at == math.MaxInt64 {
		return
	}
	a.timer.Reset(time.Duration(max(0, at-a.now())))
}

// deadline returns the nearest limit as things stand.
func (a *attempt) deadline() (at int64, f Failure) {
	at = math.MaxInt64
	if d := a.total.Load(); d > 0 {
		at, f = a.start+d, FailTotalTimeout
	}
	if a.inBody.Load() {
		if d := a.idle.Load(); d > 0 && a.lastByte.Load()+d < at {
			at, f = a.lastByte.Load()+d, FailIdleTimeout
		}
		return at, f
	}
	if d := a.header.Load(); d > 0 {
		// Until the request is out, the limit is one on the server's reading.
		since := a.sentAt.Load()
		if since == unset {
			since = max(a.start, a.writeStart.Load())
		}
		if since+d < at {
			at, f = since+d, FailHeaderTimeout
		}
	}
	return at, f
}

// due is the timer's function. A limit that has moved is waited for again, so
// that arriving bytes need not touch the timer.
func (a *attempt) due() {
	at, f := a.deadline()
	if at > a.now() {
		a.rearm()
		return
	}
	if k := a.c.sock.kernel; k != nil && f != FailTotalTimeout && k.waiting() {
		// Bytes have come, this process has not read them yet: the client's
		// lateness is not the server's silence.
		a.mu.Lock()
		if !a.ended {
			a.timer.Reset(time.Millisecond)
		}
		a.mu.Unlock()
		return
	}
	a.kill(f)
}

// kill ends the attempt from outside: the connection is closed, which wakes
// whoever reads or writes it.
func (a *attempt) kill(f Failure) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return
	}
	a.cause.CompareAndSwap(0, uint32(f))
	_ = a.c.Close()
}

// finish ends the time limits and lets go of the request body.
func (a *attempt) finish() {
	a.mu.Lock()
	a.ended = true
	if a.timer != nil {
		a.timer.Stop()
	}
	a.mu.Unlock()
	a.c.att.CompareAndSwap(a, nil)
	a.body.drop()
}

// sendBody is a request body that can be taken away from net/http's write loop,
// which may still be sending when the answer is complete.
type sendBody struct {
	mu  sync.Mutex
	b   []byte
	off int
}

func (s *sendBody) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := copy(p, s.b[s.off:])
	s.off += n
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Close does nothing: the bytes are the caller's.
func (s *sendBody) Close() error { return nil }

func (s *sendBody) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.b) - s.off
}

// untouched reports whether there is a body of which nothing has been read.
func (s *sendBody) untouched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.b) > 0 && s.off == 0
}

func (s *sendBody) taken() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.off)
}

func (s *sendBody) drop() {
	s.mu.Lock()
	s.b, s.off = nil, 0
	s.mu.Unlock()
}
