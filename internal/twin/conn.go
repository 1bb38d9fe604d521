package twin

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	// maxQueued is how many bytes a client may be behind before it is dropped:
	// about a thousand events beyond what the kernel's buffers hold.
	maxQueued = 256 << 10
	// maxHeader and maxBody bound a request.
	maxHeader = 64 << 10
	maxBody   = 32 << 20
	// idleTimeout ends a connection without a request, requestTimeout one whose
	// request does not arrive, writeTimeout one that takes nothing.
	idleTimeout    = 5 * time.Minute
	requestTimeout = 2 * time.Minute
	writeTimeout   = time.Minute
)

var errTooLong = errors.New("request is too long")

// conn is one client connection. Its reader is a goroutine of its own; its
// writer is whoever has something to say, the engine included, which must never
// wait: what the kernel does not take at once is queued, and a goroutine that
// lives as long as the queue sends it.
type conn struct {
	srv *Server
	nc  net.Conn
	// dcgm says that it came to the listener of the accelerators' page.
	dcgm bool
	// left is how many more bytes the reader accepts.
	left int64

	mu       sync.Mutex // guards the fields below; taken before Server.mu
	raw      syscall.RawConn
	queue    []byte
	flushing bool
	dead     bool
	// closing ends the connection when everything is sent.
	closing bool

	// The arguments and results of try, which is made once so that a write
	// allocates nothing.
	out   []byte
	wrote int
	try   func(fd uintptr) bool
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{srv: s, nc: nc}
	if sc, ok := nc.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			c.raw = raw
		}
	}
	c.try = func(fd uintptr) bool {
		c.wrote = writeNow(fd, c.out)
		return true
	}
	return c
}

// Read reads at most as much as is left; it is the reader's.
func (c *conn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errTooLong
	}
	if int64(len(p)) > c.left {
		p = p[:c.left]
	}
	n, err := c.nc.Read(p)
	c.left -= int64(n)
	c.srv.counters.received.Add(int64(n))
	return n, err
}

// send sends p without waiting. p may be reused when it returns. False means
// that the client has gone.
func (c *conn) send(p []byte) bool { return c.sendUpTo(p, maxQueued) }

func (c *conn) sendUpTo(p []byte, limit int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead || c.closing {
		return false
	}
	if !c.flushing && c.raw != nil {
		c.out, c.wrote = p, 0
		if c.raw.Write(c.try) != nil || c.wrote < 0 {
			c.shut()
			return false
		}
		c.srv.counters.sent.Add(int64(c.wrote))
		p = p[c.wrote:]
		c.out = nil
	}
	if len(p) == 0 {
		return true
	}
	if len(c.queue)+len(p) > limit {
		c.srv.counters.slowClients.Add(1)
		c.shut()
		return false
	}
	c.queue = append(c.queue, p...)
	if !c.flushing {
		c.flushing = true
		c.srv.goroutines.Go(c.flush)
	}
	return true
}

// flush sends the queue, waiting for the client, until it is empty.
func (c *conn) flush() {
	var spare []byte
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.queue) > 0 && !c.dead {
		p := c.queue
		c.queue = spare[:0]
		c.mu.Unlock()
		// A failing deadline shows in the write.
		_ = c.nc.SetWriteDeadline(time.Now().Add(writeTimeout))
		n, err := c.nc.Write(p)
		c.srv.counters.sent.Add(int64(n))
		c.mu.Lock()
		spare = p
		if err != nil {
			if isTimeout(err) && !c.dead {
				c.srv.counters.slowClients.Add(1)
			}
			c.shut()
		}
	}
	c.flushing = false
	c.queue = nil // a queue that was needed once is rarely needed again
	if c.closing {
		c.shut()
	}
	_ = c.nc.SetWriteDeadline(time.Time{})
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// finish closes the connection when everything is sent.
func (c *conn) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing = true
	if !c.flushing {
		c.shut()
	}
}

// drop closes the connection at once, unless it is about to close by itself.
func (c *conn) drop(always bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if always || !c.closing {
		c.shut()
	}
}

// shut closes the connection; its reader, which notices, gives up the answer.
// The caller holds mu.
func (c *conn) shut() {
	if c.dead {
		return
	}
	c.dead = true
	c.queue = nil
	_ = c.nc.Close()
	c.srv.forget(c)
}

// drain ends what is sent and reads what the client is still sending, for a
// while: closing at once would reset the connection and take the answer away
// with it.
func (c *conn) drain() {
	c.mu.Lock()
	if half, ok := c.nc.(interface{ CloseWrite() error }); ok && !c.flushing && !c.dead {
		_ = half.CloseWrite() // the read below sees any error
	}
	c.mu.Unlock()
	c.left = 2 * maxBody
	_ = c.nc.SetReadDeadline(time.Now().Add(2 * time.Second)) // an error shows at the next read
	_, _ = io.Copy(io.Discard, c)
	c.finish()
}

// isClosed is true for the errors with which a client that goes away shows.
func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || isTimeout(err)
}
