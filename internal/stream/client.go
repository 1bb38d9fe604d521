package stream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of Config.
const (
	DefaultConnectTimeout = 10 * time.Second
	DefaultKeepAlive      = 4 * time.Second
	DefaultMaxHandshakes  = 128
	DefaultMaxBody        = 64 << 20
	// The sizes of net/http's two buffers per connection, 4 KiB each by default,
	// which would be a quarter of the memory of an open stream. A token event is
	// some 250 bytes, and bodies pass the write buffer by (conn.ReadFrom).
	readBuffer  = 1 << 10
	writeBuffer = 512
	// maxResponseHeader bounds a response header block.
	maxResponseHeader = 256 << 10
)

// Client makes exchanges over connections that it keeps itself. net/http does
// the protocol on each of them (http.ClientConn); its own pool is not used,
// because it dials behind a request's back and repeats requests silently.
type Client struct {
	cfg        Config
	epoch      epoch
	kernel     io.Closer // see keepStamping
	handshakes chan struct{}
	proxy      *url.URL

	direct, viaProxy *http.Transport

	open    atomic.Int64
	most    atomic.Int64 // of open
	held    atomic.Int64 // bytes of large buffers, at most maxHeld
	maxHeld int64
	mu      sync.RWMutex // guards the fields below
	ends    map[string]*endpoint
	urls    map[string]target
	closed  bool
}

// target is a parsed URL and where its connections come from.
type target struct {
	url *url.URL
	end *endpoint
}

// maxURLs bounds the cache of parsed URLs.
const maxURLs = 4096

// New returns a client. It fails when the configuration makes no sense.
func New(cfg Config) (*Client, error) {
	if cfg.Start.IsZero() {
		if cfg.Now != nil {
			return nil, errors.New("stream: Now is set without Start, so that receive times could not be mapped")
		}
		cfg.Start = time.Now()
	}
	if cfg.Now == nil {
		start := cfg.Start
		cfg.Now = func() int64 { return int64(time.Since(start)) }
	}
	if cfg.ConnectTimeout <= 0 {
		cfg.ConnectTimeout = DefaultConnectTimeout
	}
	if cfg.KeepAlive <= 0 {
		cfg.KeepAlive = DefaultKeepAlive
	}
	if cfg.MaxHandshakes <= 0 {
		cfg.MaxHandshakes = DefaultMaxHandshakes
	}
	if cfg.MaxBody <= 0 {
		cfg.MaxBody = DefaultMaxBody
	}
	c := &Client{
		cfg: cfg, epoch: epoch{cfg.Start}, maxHeld: maxHeld,
		handshakes: make(chan struct{}, cfg.MaxHandshakes),
		ends:       map[string]*endpoint{}, urls: map[string]target{},
	}
	if cfg.Proxy != "" {
		u, err := url.Parse(cfg.Proxy)
		if err != nil {
			return nil, fmt.Errorf("stream: parse proxy %q: %w", cfg.Proxy, err)
		}
		if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("stream: proxy %q: want http://HOST:PORT or https://HOST:PORT", cfg.Proxy)
		}
		c.proxy = u
	}
	c.direct = c.transport(nil)
	if c.proxy != nil {
		c.viaProxy = c.transport(c.proxy)
	}
	if !cfg.NoKernelTimes && cfg.Dial == nil {
		c.kernel = keepStamping()
	}
	return c, nil
}

// transport makes one that wraps connections which are ready already, TLS
// included: it never dials.
func (c *Client) transport(proxy *url.URL) *http.Transport {
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			ready, ok := ctx.Value(connKey{}).(*conn)
			if !ok {
				panic("BUG: net/http dials by itself")
			}
			return ready, nil
		},
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxResponseHeader,
		ReadBufferSize:         readBuffer,
		WriteBufferSize:        writeBuffer,
		Protocols:              new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	if proxy != nil {
		t.Proxy = http.ProxyURL(proxy)
	}
	return t
}

type connKey struct{}

// Close closes idle connections. Exchanges under way are not touched.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	ends := make([]*endpoint, 0, len(c.ends))
	for _, e := range c.ends {
		ends = append(ends, e)
	}
	kernel := c.kernel
	c.kernel = nil
	c.mu.Unlock()
	for _, e := range ends {
		e.closeIdle(true)
	}
	if kernel != nil {
		_ = kernel.Close()
	}
}

// OpenConnections returns the number of connections open now, idle ones included.
func (c *Client) OpenConnections() int64 { return c.open.Load() }

// MostConnections returns the largest number of connections that were open at once.
func (c *Client) MostConnections() int64 { return c.most.Load() }

// opened counts a connection.
func (c *Client) opened() {
	open := c.open.Add(1)
	for most := c.most.Load(); open > most && !c.most.CompareAndSwap(most, open); {
		most = c.most.Load()
	}
}

// EndpointStats is what happened to the connections of one host and port.
type EndpointStats struct {
	// Host is scheme://host:port.
	Host string
	// Opened counts connections made, Reused requests sent on a connection
	// that had served another.
	Opened, Reused int64
	// IdleDeaths counts connections that the server closed after a response or
	// while they were idle, sooner than KeepAlive and though it had said that it
	// keeps them; they cost nothing. Stale
	// counts those that died under a request, which was then sent again.
	IdleDeaths, Stale int64
	// LateEnds counts bodies that the server kept open after the terminal event.
	LateEnds int64
	// ReuseOff is true when so many died that connections are not reused any more.
	ReuseOff bool
	// Addresses counts the connections made to each remote address.
	Addresses map[string]int64
}

// Endpoints returns the statistics of every host and port used so far.
func (c *Client) Endpoints() []EndpointStats {
	c.mu.RLock()
	ends := make([]*endpoint, 0, len(c.ends))
	for _, e := range c.ends {
		ends = append(ends, e)
	}
	c.mu.RUnlock()
	out := make([]EndpointStats, 0, len(ends))
	for _, e := range ends {
		out = append(out, e.snapshot())
	}
	return out
}

// target parses a URL, once.
func (c *Client) target(raw string) (target, error) {
	c.mu.RLock()
	t, ok := c.urls[raw]
	c.mu.RUnlock()
	if ok {
		return t, nil
	}
	u, err := url.Parse(raw)
	if err != nil {
		return target{}, fmt.Errorf("parse URL: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return target{}, fmt.Errorf("URL %q: want http://HOST or https://HOST, with or without a path", raw)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	hostPort := net.JoinHostPort(u.Hostname(), port)
	key := u.Scheme + "://" + hostPort
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.ends[key]
	if e == nil {
		e = &endpoint{c: c, key: key, scheme: u.Scheme, host: u.Hostname(), port: port, hostPort: hostPort}
		if u.Scheme == "https" {
			e.tls = &tls.Config{}
			if c.cfg.TLS != nil {
				e.tls = c.cfg.TLS.Clone()
			}
			if e.tls.ServerName == "" {
				e.tls.ServerName = u.Hostname()
			}
			e.tls.NextProtos = []string{"http/1.1"}
		}
		c.ends[key] = e
	}
	t = target{u, e}
	if len(c.urls) < maxURLs {
		c.urls[raw] = t
	}
	return t, nil
}

// endpoint is one scheme, host and port with its connections.
type endpoint struct {
	c                       *Client
	key, scheme, host, port string
	hostPort                string
	tls                     *tls.Config // nil without TLS

	mu         sync.Mutex // guards the fields below
	idle       []*conn    // the newest mostly last; conn.index is the place in it
	janitor    *time.Timer
	addrs      []netip.Addr // of the resolved name
	resolvedAt int64
	turn       int // round robin over addrs
	stats      EndpointStats
	open       map[string]int64
}

// Reuse is given up when this many connections have died under a request and
// they were at least one in staleShare of the reused ones. llama-server closes
// after every stream while it says keep-alive: a fifth of the requests died of it.
// A server with an ordinary idle time-out stays far below.
const (
	staleCount = 3
	staleShare = 20
	// A server that keeps bodies open after the terminal event is not waited
	// for any more when it did so this often and in one of lateShare requests.
	lateCount = 3
	lateShare = 10
)

func (e *endpoint) snapshot() EndpointStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Host = e.key
	s.Addresses = make(map[string]int64, len(e.open))
	for k, v := range e.open {
		s.Addresses[k] = v
	}
	return s
}

func (e *endpoint) closed() { e.c.open.Add(-1) }

// get returns an idle connection, the preferred one if it is among them, or
// makes one. An exchange prefers the connection it had last, so that a
// connection keeps its user and no address gets more than its share. waited is
// false when it was there at once.
func (e *endpoint) get(ctx context.Context, prefer *conn, fresh bool) (c *conn, waited bool, err error) {
	if !fresh {
		if c := e.takeIdle(prefer); c != nil {
			return c, false, nil
		}
	}
	select {
	case e.c.handshakes <- struct{}{}:
	case <-ctx.Done():
		return nil, true, ctx.Err()
	}
	defer func() { <-e.c.handshakes }()
	if !fresh {
		// Another request may have ended while this one waited for its turn.
		if c := e.takeIdle(prefer); c != nil {
			return c, true, nil
		}
	}
	c, err = e.dial(ctx)
	return c, true, err
}

// takeIdle returns a connection that still lives.
func (e *endpoint) takeIdle(prefer *conn) *conn {
	for {
		e.mu.Lock()
		n := len(e.idle)
		if n == 0 {
			e.mu.Unlock()
			return nil
		}
		c := e.idle[n-1]
		if prefer != nil && prefer.index >= 0 && prefer.index < n && e.idle[prefer.index] == prefer {
			c = prefer
		}
		last := e.idle[n-1]
		e.idle[c.index], last.index = last, c.index
		e.idle[n-1], c.index = nil, -1
		e.idle = e.idle[:n-1]
		e.mu.Unlock()
		old := e.c.cfg.Now()-c.idleAt > int64(e.c.cfg.KeepAlive)
		if !old && !c.readDead.Load() && !c.broken.Load() && c.cc.Err() == nil &&
			(c.sock.kernel == nil || !c.sock.kernel.peerClosed()) {
			return c
		}
		if !old {
			e.mu.Lock()
			e.stats.IdleDeaths++
			e.mu.Unlock()
		}
		e.discard(c)
	}
}

func (e *endpoint) discard(c *conn) {
	_ = c.Close()
	_ = c.cc.Close()
}

// put keeps a connection whose response has been read to its end.
// keeps says whether the server meant to keep it.
func (e *endpoint) put(c *conn, keeps bool) {
	c.used = true
	e.c.mu.RLock()
	closed := e.c.closed
	e.c.mu.RUnlock()
	e.mu.Lock()
	dead := c.broken.Load() || c.readDead.Load() || c.cc.Available() == 0
	if closed || e.c.cfg.NewConnection || e.stats.ReuseOff || dead || !keeps {
		if keeps && c.peerDead.Load() {
			e.stats.IdleDeaths++
		}
		e.mu.Unlock()
		e.discard(c)
		return
	}
	c.idleAt, c.index = e.c.cfg.Now(), len(e.idle)
	e.idle = append(e.idle, c)
	if e.janitor == nil {
		e.janitor = time.AfterFunc(e.c.cfg.KeepAlive, func() { e.closeIdle(false) })
	}
	e.mu.Unlock()
}

// closeIdle closes connections that have been idle for long, or all of them.
func (e *endpoint) closeIdle(all bool) {
	now := e.c.cfg.Now()
	var old []*conn
	e.mu.Lock()
	if e.janitor != nil {
		e.janitor.Stop()
		e.janitor = nil
	}
	kept, oldest := e.idle[:0], now
	for _, c := range e.idle {
		if all || now-c.idleAt >= int64(e.c.cfg.KeepAlive) {
			c.index = -1
			old = append(old, c)
			continue
		}
		oldest = min(oldest, c.idleAt)
		c.index = len(kept)
		kept = append(kept, c)
	}
	clear(e.idle[len(kept):])
	e.idle = kept
	if len(kept) > 0 {
		wait := int64(e.c.cfg.KeepAlive) - (now - oldest)
		e.janitor = time.AfterFunc(time.Duration(wait), func() { e.closeIdle(false) })
	}
	e.mu.Unlock()
	for _, c := range old {
		e.discard(c)
	}
}

// reused counts a request on a connection that had served another.
func (e *endpoint) reused() {
	e.mu.Lock()
	e.stats.Reused++
	e.mu.Unlock()
}

// stale counts a connection that died under a request.
func (e *endpoint) stale() {
	e.mu.Lock()
	e.stats.Stale++
	if e.stats.Stale >= staleCount && e.stats.Stale*staleShare >= e.stats.Reused {
		e.stats.ReuseOff = true
	}
	e.mu.Unlock()
}

// noReuse reports whether connections should be told to close.
func (e *endpoint) noReuse() bool {
	if e.c.cfg.NewConnection {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stats.ReuseOff
}
