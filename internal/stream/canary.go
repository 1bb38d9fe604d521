package stream

import (
	"context"
	"math"
	"net"
	"sync"
	"time"

	"plimsoll/internal/histogram"
)

// CanaryEvery is the time between two bytes of the canary.
const CanaryEvery = 10 * time.Millisecond

// Canary tells how late this process reads anything. It writes to a loopback
// connection 100 times a second and reads it through the same path as a
// response: the lag is the time at which the byte was read less the time at
// which the kernel had it. A stalled client and a server's burst look alike in
// the stamps of a stream; the canary tells them apart.
type Canary struct {
	// Kernel is true when the lags are against kernel receive times. Otherwise
	// they say how late a sleep of CanaryEvery ended.
	Kernel bool

	cancel context.CancelFunc
	group  sync.WaitGroup
	now    func() int64

	mu    sync.Mutex // guards the fields below
	lags  histogram.Histogram
	until int64 // what is read before that is not counted
}

// NewCanary starts one; Stop ends it. It has no errors: where no loopback
// connection can be had, or no kernel times, it watches a timer instead.
func NewCanary(cfg Config) *Canary {
	if cfg.Start.IsZero() {
		cfg.Start = time.Now()
	}
	c := &Canary{now: cfg.Now, until: math.MinInt64}
	if c.now == nil {
		c.now = func() int64 { return int64(time.Since(cfg.Start)) }
	}
	var ctx context.Context
	ctx, c.cancel = context.WithCancel(context.Background())
	if !cfg.NoKernelTimes {
		if read, write, err := loopback(); err == nil {
			s := newSock(read, epoch{cfg.Start}, true)
			if s.kernel != nil {
				c.Kernel = true
				c.watchSocket(ctx, s, write)
				return c
			}
			_ = read.Close()
			_ = write.Close()
		}
	}
	c.group.Go(func() { c.watchTimer(ctx) })
	return c
}

// watchSocket writes bytes and records how late they are read.
func (c *Canary) watchSocket(ctx context.Context, s *sock, write net.Conn) {
	context.AfterFunc(ctx, func() {
		_ = write.Close()
		_ = s.Close()
	})
	c.group.Go(func() {
		tick := time.NewTicker(CanaryEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if _, err := write.Write([]byte{0}); err != nil {
				return
			}
		}
	})
	c.group.Go(func() {
		var b [64]byte
		for {
			n, err := s.Read(b[:])
			if err != nil {
				return
			}
			// Bytes that waited together count each: a stall of a second is
			// a hundred late reads, as it is for the streams.
			if s.stamped {
				for range n {
					c.record(s.userAt - s.at)
				}
			}
		}
	})
}

func (c *Canary) watchTimer(ctx context.Context) {
	t := time.NewTimer(0)
	defer t.Stop()
	<-t.C
	for {
		due := time.Now().Add(CanaryEvery)
		t.Reset(CanaryEvery)
		select {
		case <-t.C:
			c.record(int64(time.Since(due)))
		case <-ctx.Done():
			return
		}
	}
}

func (c *Canary) record(lag int64) {
	c.mu.Lock()
	if c.until == math.MinInt64 || c.now() >= c.until {
		c.lags.Record(max(0, lag))
	}
	c.mu.Unlock()
}

// Ignore leaves out what is read before t, in ns on the run's clock: a warm-up
// opens all connections at once, and no figure is of it.
func (c *Canary) Ignore(t int64) {
	c.mu.Lock()
	c.until = t
	c.mu.Unlock()
}

// Lags returns a copy of the lags so far, in ns.
func (c *Canary) Lags() *histogram.Histogram {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lags.Clone()
}

// Stop ends the canary and waits for its goroutines.
func (c *Canary) Stop() {
	c.cancel()
	c.group.Wait()
}

// loopback returns the two ends of a TCP connection to this machine itself.
func loopback() (read, write net.Conn, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = l.Close() }()
	write, err = net.DialTimeout("tcp", l.Addr().String(), DefaultConnectTimeout)
	if err != nil {
		return nil, nil, err
	}
	for {
		read, err = l.Accept()
		if err != nil {
			_ = write.Close()
			return nil, nil, err
		}
		if read.RemoteAddr().String() == write.LocalAddr().String() {
			return read, write, nil
		}
		_ = read.Close() // a stranger's
	}
}
