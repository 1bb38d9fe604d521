// Package stream makes one HTTP exchange: dial, TLS, request, response framing
// (one body, server-sent events, newline-delimited JSON) and the time of every
// read, taken by the kernel where the platform gives it. It knows nothing of
// language models: what an event means is the dialect's business, and it never
// repeats a request that any byte of an answer has been seen for.
package stream

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// Failure says why an exchange did not complete. The zero value is success.
type Failure uint8

// The failures, in the terms of a transport.
const (
	NoFailure Failure = iota
	FailDNS
	FailConnectRefused
	FailConnectTimeout
	FailTLS
	FailReset         // the peer reset or broke the connection
	FailTruncated     // the body ended before its framing said so
	FailHeaderTimeout // no response header in time
	FailIdleTimeout   // no byte of the body in time
	FailTotalTimeout
	FailRedirect  // a redirect, which is never followed
	FailProtocol  // malformed HTTP or a body that cannot be decoded
	FailTooLarge  // the body limit was reached
	FailResource  // descriptors, ports or memory of this machine
	FailCancelled // the caller's context ended
)

var failureNames = [...]string{
	"", "dns", "connect_refused", "connect_timeout", "tls", "reset", "truncated", "header_timeout",
	"idle_timeout", "total_timeout", "redirect", "protocol", "too_large", "resource", "cancelled",
}

// String returns a short name, "" for NoFailure.
func (f Failure) String() string {
	if int(f) < len(failureNames) {
		return failureNames[f]
	}
	return "unknown"
}

// Config says how a Client connects. The zero value is usable.
type Config struct {
	// Start is the wall and monotonic instant that all times count from; the
	// zero value means the moment of New. Now returns the ns since then; nil
	// means the time since Start.
	Start time.Time
	Now   func() int64
	// Dial replaces the dialler (tests, fake time). Connections that have a
	// method LastStamp() (time.Time, bool) give receive times.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLS is cloned; nil means the system's roots.
	TLS *tls.Config
	// Proxy is a proxy URL, "" for none. The environment is never consulted.
	Proxy string
	// ConnectTimeout bounds name resolution, connect and TLS handshake; 0: 10 s.
	ConnectTimeout time.Duration
	// KeepAlive is how long an idle connection is kept; 0 means 4 s, below the
	// 5 s after which common servers close.
	KeepAlive time.Duration
	// NewConnection makes a new connection for every request.
	NewConnection bool
	// MaxHandshakes bounds connects under way at once; 0 means 128.
	MaxHandshakes int
	// MaxBody bounds the bytes of one response body, decoded and as transferred;
	// 0 means 64 MiB. Of an answer with a status of 400 or more at most 1 MiB is
	// read, and the buffers of all exchanges together stay below 1 GiB.
	MaxBody int64
	// NoKernelTimes turns kernel receive times off.
	NoKernelTimes bool
	// Resolve replaces the system's resolver (tests). Without it Dial is given names.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
}

// Request is one request to send. Body is read only and must stay unchanged
// until the exchange has ended.
type Request struct {
	Method string
	URL    string
	Header http.Header
	Body   []byte
	// HeaderTimeout bounds the time from the last byte sent to the response
	// header, IdleTimeout the silence between bytes of the body, TotalTimeout
	// all of it from the start. 0 means no limit.
	HeaderTimeout, IdleTimeout, TotalTimeout time.Duration
}

// Framing says how a body is divided into events.
type Framing uint8

// The framings. FrameBody is one body that is not divided.
const (
	FrameBody Framing = iota
	FrameSSE
	FrameNDJSON
)

// Event is one complete event of a stream. Name and Data are valid until the
// next call to Next.
type Event struct {
	Name []byte // SSE event field, empty when there was none
	Data []byte // SSE data lines joined by \n, or one NDJSON line
	// At is when the last byte of the event arrived (kernel time if
	// Exchange.KernelTimes), UserAt when user space had read it.
	At, UserAt int64
	// Read is the index of the socket read that completed the event. Several
	// events with one Read are bounded but for the last of them.
	Read uint32
	// Open is true of a last event that nothing ended but the end of the body:
	// whole where a server leaves the last blank line out, else a piece.
	Open bool
}
