// Package memconn is a network in memory for tests: connections that buffer and
// merge what is written as TCP does, stamp it when it is written as the kernel
// does on arrival, and wait only in ways that a synctest bubble understands. A
// real socket inside a bubble does not fail, it silently measures nothing, and
// net.Pipe never merges writes. It is never part of the product.
package memconn

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// DefaultBuffer is how many bytes one direction of a connection holds before a
// write blocks.
const DefaultBuffer = 256 << 10

// Conn is one end of a connection in memory. Like a socket it may be read by
// one goroutine and written by another.
type Conn struct {
	in, out       *half
	local, remote Addr

	mu    sync.Mutex
	stamp time.Time // of the last read
}

// Addr is the name of one end.
type Addr string

// Network returns "mem".
func (Addr) Network() string { return "mem" }

// String returns the name.
func (a Addr) String() string { return string(a) }

// half is one direction. The fields are guarded by mu.
type half struct {
	mu       sync.Mutex
	cond     *sync.Cond
	buf      []byte
	segments []segment
	start    int64 // position of buf[0] in all bytes written
	limit    int

	eof    bool // the writer has closed
	reset  bool // the connection was reset
	gone   bool // the reader has closed
	halted bool // the writer's own end is closed

	readBy, writeBy deadline
}

// segment is one write: the position after its last byte and when it came.
type segment struct {
	end int64
	at  time.Time
}

type deadline struct {
	passed bool
	timer  *time.Timer
}

func newHalf() *half {
	h := &half{limit: DefaultBuffer}
	h.cond = sync.NewCond(&h.mu)
	return h
}

// Pipe returns the two ends of a connection.
func Pipe() (client, server *Conn) { return pipe("client", "server") }

func pipe(client, server Addr) (*Conn, *Conn) {
	up, down := newHalf(), newHalf()
	return &Conn{in: down, out: up, local: client, remote: server},
		&Conn{in: up, out: down, local: server, remote: client}
}

// SetBuffer sets how many bytes may wait for the peer before Write blocks.
func (c *Conn) SetBuffer(n int) {
	c.out.mu.Lock()
	c.out.limit = n
	c.out.mu.Unlock()
}

// Read reads what has been written so far, merged; it waits when that is nothing.
func (c *Conn) Read(p []byte) (int, error) {
	h := c.in
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.gone:
			return 0, c.err("read", net.ErrClosed)
		case h.readBy.passed:
			return 0, c.err("read", os.ErrDeadlineExceeded)
		case len(h.buf) > 0 && len(p) > 0:
			return c.take(p), nil
		case h.reset:
			return 0, c.err("read", os.NewSyscallError("read", syscall.ECONNRESET))
		case h.eof:
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		h.cond.Wait()
	}
}

// take copies bytes out and keeps the time of the newest write among them, as
// the kernel gives one time per read.
func (c *Conn) take(p []byte) int {
	h := c.in
	n := copy(p, h.buf)
	h.buf = h.buf[n:] // the rest is moved when append makes room, not for every read
	h.start += int64(n)
	i := 0
	for h.segments[i].end < h.start {
		i++
	}
	c.mu.Lock()
	c.stamp = h.segments[i].at
	c.mu.Unlock()
	if h.segments[i].end == h.start {
		i++
	}
	h.segments = h.segments[:copy(h.segments, h.segments[i:])]
	h.cond.Broadcast() // a writer may have waited for room
	return n
}

// LastStamp returns when the newest byte of the last Read was written.
func (c *Conn) LastStamp() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stamp, !c.stamp.IsZero()
}

// Write hands p over; it waits only when the buffer is full. Writing to a peer
// that has closed resets the connection, as TCP does.
func (c *Conn) Write(p []byte) (int, error) {
	h := c.out
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for {
		switch {
		case h.halted:
			return n, c.err("write", net.ErrClosed)
		case h.eof:
			return n, c.err("write", os.NewSyscallError("write", syscall.EPIPE))
		case h.writeBy.passed:
			return n, c.err("write", os.ErrDeadlineExceeded)
		case h.reset:
			return n, c.err("write", os.NewSyscallError("write", syscall.ECONNRESET))
		case h.gone:
			h.reset = true
			return n, c.err("write", os.NewSyscallError("write", syscall.EPIPE))
		}
		if room := h.limit - len(h.buf); room > 0 && len(p) > 0 {
			k := min(room, len(p))
			h.buf = append(h.buf, p[:k]...)
			h.segments = append(h.segments, segment{h.start + int64(len(h.buf)), time.Now()})
			p = p[k:]
			n += k
			h.cond.Broadcast()
		}
		if len(p) == 0 {
			return n, nil
		}
		h.cond.Wait()
	}
}

// Close closes this end: the peer reads what is on the way and then the end.
// When bytes of the peer's were never read it gets a reset instead, as with TCP.
func (c *Conn) Close() error {
	c.in.mu.Lock()
	unread := len(c.in.buf) > 0
	closed := c.in.gone
	c.in.gone = true
	c.in.cond.Broadcast()
	c.in.mu.Unlock()
	if closed {
		return c.err("close", net.ErrClosed)
	}
	c.out.mu.Lock()
	c.out.eof, c.out.halted = true, true
	if unread {
		c.out.reset = true
	}
	c.out.cond.Broadcast()
	c.out.mu.Unlock()
	return nil
}

// CloseWrite sends the end of the stream and can still read.
func (c *Conn) CloseWrite() error {
	c.out.mu.Lock()
	c.out.eof = true
	c.out.cond.Broadcast()
	c.out.mu.Unlock()
	return nil
}

// Reset breaks the connection: the peer reads what is on the way and then
// ECONNRESET.
func (c *Conn) Reset() error {
	c.out.mu.Lock()
	c.out.reset = true
	c.out.cond.Broadcast()
	c.out.mu.Unlock()
	return c.Close()
}

// LocalAddr and RemoteAddr return the names of the ends.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the name of the other end.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// SetReadDeadline bounds reads, those under way included; the zero time takes
// the bound away.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.set(&c.in.readBy, t)
	return nil
}

// SetWriteDeadline bounds writes, those under way included.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.set(&c.out.writeBy, t)
	return nil
}

func (h *half) set(d *deadline, t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.passed = false
	if !t.IsZero() {
		wait := time.Until(t)
		if wait <= 0 {
			d.passed = true
		} else {
			var timer *time.Timer
			timer = time.AfterFunc(wait, func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				if d.timer == timer {
					d.passed = true
					h.cond.Broadcast()
				}
			})
			d.timer = timer
		}
	}
	h.cond.Broadcast()
}

func (c *Conn) err(op string, err error) error {
	return &net.OpError{Op: op, Net: "mem", Source: c.local, Addr: c.remote, Err: err}
}

// Listener accepts connections in memory. It has no port: whoever holds it dials.
type Listener struct {
	addr Addr

	mu     sync.Mutex // guards the fields below
	cond   *sync.Cond
	queue  []*Conn
	dialed int
	closed bool
}

// Listen returns a listener with a name of its own choice.
func Listen(addr string) *Listener {
	l := &Listener{addr: Addr(addr)}
	l.cond = sync.NewCond(&l.mu)
	return l
}

// Accept waits for a connection.
func (l *Listener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && !l.closed {
		l.cond.Wait()
	}
	if l.closed {
		return nil, &net.OpError{Op: "accept", Net: "mem", Addr: l.addr, Err: net.ErrClosed}
	}
	c := l.queue[0]
	l.queue = l.queue[:copy(l.queue, l.queue[1:])]
	return c, nil
}

// Dial connects to the listener, whatever the network and address. It has the
// signature of net.Dialer.DialContext.
func (l *Listener) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: Addr(address), Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	l.dialed++
	client, server := pipe(Addr(fmt.Sprintf("client-%d", l.dialed)), l.addr)
	l.queue = append(l.queue, server)
	l.cond.Signal()
	return client, nil
}

// Close refuses new connections. Those that were accepted stay; those still
// waiting are reset.
func (l *Listener) Close() error {
	l.mu.Lock()
	l.closed = true
	queue := l.queue
	l.queue = nil
	l.cond.Broadcast()
	l.mu.Unlock()
	for _, c := range queue {
		_ = c.Reset()
	}
	return nil
}

// Addr returns the listener's name.
func (l *Listener) Addr() net.Addr { return l.addr }
