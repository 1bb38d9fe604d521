package stream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

var errTotalTimeout = errors.New("total time-out")

// failWith ends the exchange with the failure that err stands for.
func (x *Exchange) failWith(ctx context.Context, err error) {
	if x.a != nil {
		if f := Failure(x.a.cause.Load()); f != NoFailure {
			x.fail(f, x.limitText(f))
			return
		}
	}
	if ctx.Err() != nil {
		x.fail(FailCancelled, x.limitText(FailCancelled))
		return
	}
	f := classify(err)
	text := err.Error()
	if a := x.a; f == FailProtocol && a != nil && x.Headers == unset && a.any.Load() && !a.headed.Load() && a.c.readDead.Load() {
		f, text = FailTruncated, "response header broke off" // net/http blames its last line
	}
	if a := x.a; f == FailTruncated && a != nil && x.Headers == unset && a.c.wasReset.Load() {
		f, text = FailReset, "connection reset inside the response header" // net/http says EOF
	}
	if f == FailTooLarge {
		text = fmt.Sprintf("body over %d bytes as transferred", x.limit)
	}
	switch {
	case f == FailReset && x.Headers == unset && errors.Is(err, io.EOF):
		text = "connection closed before any byte of a response"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		text += ": no local port is free for this address: use fewer connections at once or more addresses, or widen the range of ports (Linux: net.ipv4.ip_local_port_range)"
	case errors.Is(err, syscall.EMFILE):
		text += ": raise the limit of open files (ulimit -n)"
	case f == FailTruncated && x.Headers != unset:
		text = fmt.Sprintf("body broke off after %d bytes: %v", x.handed, err)
	}
	x.fail(f, strings.TrimPrefix(text, "net/http: "))
}

func (x *Exchange) limitText(f Failure) string {
	var limit int64
	a := x.a
	if a == nil {
		a = &attempt{}
	}
	switch f {
	case FailCancelled:
		return "cancelled"
	case FailHeaderTimeout:
		limit = a.header.Load()
	case FailIdleTimeout:
		limit = a.idle.Load()
	case FailTotalTimeout:
		limit = a.total.Load()
	}
	if limit == 0 {
		return f.String()
	}
	return fmt.Sprintf("%s after %v", f, time.Duration(limit))
}

// classify puts an error of a dial, a round trip or a body into the terms of
// Failure. The order matters: TLS errors wrap those of the socket.
func classify(err error) Failure {
	switch {
	case errors.Is(err, errTotalTimeout):
		return FailTotalTimeout
	case errors.Is(err, errTooLarge):
		return FailTooLarge
	case errors.Is(err, errConnectTimeout):
		return FailConnectTimeout
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return FailCancelled
	}
	for _, e := range [...]error{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return FailResource
		}
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return FailDNS
	}
	if _, ok := errors.AsType[*handshakeError](err); ok {
		return FailTLS
	}
	if _, ok := errors.AsType[*decodeError](err); ok {
		return FailProtocol
	}
	if isTLS(err) {
		return FailTLS
	}
	switch {
	case errors.Is(err, syscall.ETIMEDOUT):
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
			return FailConnectTimeout
		}
		return FailReset
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return FailConnectRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED),
		errors.Is(err, net.ErrClosed):
		return FailReset
	case errors.Is(err, os.ErrDeadlineExceeded):
		return FailConnectTimeout // an address's share of the time; limits on answers work otherwise
	case errors.Is(err, io.ErrUnexpectedEOF):
		return FailTruncated
	case errors.Is(err, io.EOF), strings.Contains(err.Error(), "server closed idle connection"):
		return FailReset
	case strings.Contains(err.Error(), "unexpected EOF"):
		return FailTruncated // a trailer that broke off has no type
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return FailConnectRefused
	}
	return FailProtocol
}

func isTLS(err error) bool {
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return true
	}
	_, ok := errors.AsType[x509.UnknownAuthorityError](err)
	return ok
}
