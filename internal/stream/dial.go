package stream

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// resolveFor is how long the addresses of a name are used before it is
// resolved again.
const resolveFor = 30 * time.Second

// dial makes a connection that is ready for a request. The limit counts from
// here: waiting for a turn to connect is not the server's doing.
func (e *endpoint) dial(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.c.cfg.ConnectTimeout, errConnectTimeout)
	defer cancel()
	raw, err := e.connect(noDeadline{ctx})
	if err != nil {
		return nil, e.dialError(ctx, err)
	}
	s := newSock(raw, e.c.epoch, !e.c.cfg.NoKernelTimes)
	c := &conn{Conn: s, sock: s, end: e, index: -1, remote: raw.RemoteAddr().String()}
	transport := e.c.direct
	if e.c.proxy != nil {
		if e.c.proxy.Scheme == "https" {
			conf := &tls.Config{}
			if e.c.cfg.TLS != nil {
				conf = e.c.cfg.TLS.Clone()
			}
			conf.ServerName = e.c.proxy.Hostname()
			conf.NextProtos = []string{"http/1.1"}
			if err := c.handshake(ctx, conf); err != nil {
				return nil, e.dialError(ctx, err)
			}
		}
		if e.tls == nil {
			transport = e.c.viaProxy
		} else if err := c.tunnel(ctx, e.c.proxy, e.hostPort); err != nil {
			return nil, e.dialError(ctx, err)
		}
	}
	if e.tls != nil {
		if err := c.handshake(ctx, e.tls); err != nil {
			return nil, e.dialError(ctx, err)
		}
	}
	e.c.opened()
	// The scheme is always http: whatever TLS there is has been done. The
	// values of this context end with this call, so that a connection does not
	// keep the request that made it.
	c.cc, err = transport.NewClientConn(context.WithValue(context.Background(), connKey{}, c), "http", e.hostPort)
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("connect to %s: %w", e.hostPort, err)
	}
	e.mu.Lock()
	e.stats.Opened++
	if e.open == nil {
		e.open = map[string]int64{}
	}
	e.open[c.remote]++
	e.mu.Unlock()
	return c, nil
}

// noDeadline hides when a context ends, but not that it does. The net package
// would set that time on the socket, which then fails a moment before the
// context does, and nobody could tell which limit it was.
type noDeadline struct{ context.Context }

// Deadline says that there is none.
func (noDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }

var errConnectTimeout = errors.New("connect time-out")

// dialError names what was tried, and the time-out when that was the reason.
func (e *endpoint) dialError(ctx context.Context, err error) error {
	if context.Cause(ctx) == errConnectTimeout {
		return fmt.Errorf("connect to %s: not ready within %v: %w", e.hostPort, e.c.cfg.ConnectTimeout, errConnectTimeout)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("connect to %s: %w", e.hostPort, err)
}

// connect opens the socket: to the proxy where there is one.
func (e *endpoint) connect(ctx context.Context) (net.Conn, error) {
	host, port, hostPort := e.host, e.port, e.hostPort
	if p := e.c.proxy; p != nil {
		host, port = p.Hostname(), p.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[p.Scheme]
		}
		hostPort = net.JoinHostPort(host, port)
	}
	if e.c.cfg.Dial != nil && e.c.cfg.Resolve == nil {
		return e.c.cfg.Dial(ctx, "tcp", hostPort)
	}
	addrs, first, err := e.addresses(ctx, host)
	if err != nil {
		return nil, err
	}
	var firstErr error
	for i := range addrs {
		addr := addrs[(first+i)%len(addrs)]
		share := e.c.cfg.ConnectTimeout / time.Duration(len(addrs))
		if i == len(addrs)-1 {
			share = 0
		}
		c, err := e.c.dialShare(ctx, net.JoinHostPort(addr.String(), port), share)
		if err == nil {
			e.prefer(addr)
			return c, nil
		}
		if firstErr == nil {
			firstErr = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, firstErr
}

// dialShare dials within share, so that an address that swallows packets leaves
// time for the others. 0 is no limit but the context's.
func (c *Client) dialShare(ctx context.Context, hostPort string, share time.Duration) (net.Conn, error) {
	if c.cfg.Dial == nil {
		d := net.Dialer{Timeout: share}
		return d.DialContext(ctx, "tcp", hostPort)
	}
	if share > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, share)
		defer cancel()
	}
	return c.cfg.Dial(ctx, "tcp", hostPort)
}

// addresses returns the addresses of host and which of them has its turn.
func (e *endpoint) addresses(ctx context.Context, host string) ([]netip.Addr, int, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, 0, nil
	}
	now := e.c.cfg.Now()
	e.mu.Lock()
	if len(e.addrs) > 0 && now-e.resolvedAt < int64(resolveFor) {
		addrs, turn := e.addrs, e.turn
		e.turn++
		e.mu.Unlock()
		return addrs, turn % len(addrs), nil
	}
	e.mu.Unlock()
	resolve := e.c.cfg.Resolve
	if resolve == nil {
		resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	addrs, err := resolve(ctx, host)
	if err != nil {
		return nil, 0, err
	}
	if len(addrs) == 0 {
		return nil, 0, &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.addrs) == 0 || now-e.resolvedAt >= int64(resolveFor) {
		e.addrs, e.resolvedAt = addrs, now
	}
	turn := e.turn
	e.turn++
	return e.addrs, turn % len(e.addrs), nil
}

// prefer keeps to the family of an address that answered: a name with both
// families is mostly one server, often listening on one of them.
func (e *endpoint) prefer(addr netip.Addr) {
	e.mu.Lock()
	defer e.mu.Unlock()
	same := make([]netip.Addr, 0, len(e.addrs))
	for _, a := range e.addrs {
		if a.Is4() == addr.Is4() {
			same = append(same, a)
		}
	}
	if len(same) > 0 && len(same) < len(e.addrs) {
		e.addrs = same
	}
}

// handshake puts TLS on top of the connection.
func (c *conn) handshake(ctx context.Context, conf *tls.Config) error {
	t := tls.Client(c.Conn, conf)
	if err := t.HandshakeContext(ctx); err != nil {
		_ = c.Conn.Close()
		return &handshakeError{err}
	}
	c.Conn = t
	return nil
}

// handshakeError is an error of TLS, by whatever type it came.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return "TLS handshake: " + e.err.Error() }
func (e *handshakeError) Unwrap() error { return e.err }

// tunnel asks a proxy for a connection to hostPort.
func (c *conn) tunnel(ctx context.Context, proxy *url.URL, hostPort string) error {
	stop := context.AfterFunc(ctx, func() { _ = c.Conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	head := "CONNECT " + hostPort + " HTTP/1.1\r\nHost: " + hostPort + "\r\n"
	if u := proxy.User; u != nil {
		pass, _ := u.Password()
		head += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+pass)) + "\r\n"
	}
	fail := func(err error) error {
		_ = c.Conn.Close()
		return fmt.Errorf("proxy %s: %w", proxy.Host, err)
	}
	if _, err := c.Conn.Write([]byte(head + "\r\n")); err != nil {
		return fail(err)
	}
	// The server behind the proxy says nothing before it is spoken to, so
	// nothing is lost in the buffer.
	resp, err := http.ReadResponse(bufio.NewReader(c.Conn), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return fail(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fail(fmt.Errorf("CONNECT %s answered %s", hostPort, resp.Status))
	}
	return nil
}
