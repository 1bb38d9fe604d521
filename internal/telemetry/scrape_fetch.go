package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"plimsoll/internal/clock"
	"plimsoll/internal/stream"
)

const (
	// DefaultMaxBody is how much of a page is read; the largest seen of a real server has half a MB.
	DefaultMaxBody = 8 << 20
	// DefaultMaxAnswer is how large the answer of a Prometheus may be, which has many pages of many endpoints.
	DefaultMaxAnswer = 32 << 20
	// DefaultMaxSeries bounds the series of one page: 80 engines of 600 series.
	DefaultMaxSeries = 50_000
	// maxRedirects bounds how often an endpoint may send to another path of its own.
	maxRedirects = 3
)

// pageAccept asks for the text format, which every exporter has.
const pageAccept = "text/plain;version=0.0.4, application/json;q=0.5, */*;q=0.1"

// Dial opens a connection; it has the signature of net.Dialer.DialContext.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// fetcher fetches from one endpoint, over one connection that it keeps. It
// belongs to one goroutine at a time.
type fetcher struct {
	client *stream.Client
	x      stream.Exchange
	req    stream.Request
	rtt    int64 // the shortest time to connect that was seen, 0 before the first
}

// newClient makes what connects for any number of fetchers.
func newClient(c *clock.Clock, cfg stream.Config) (*stream.Client, error) {
	cfg.Start, cfg.Now = c.Start(), c.Now
	// Each endpoint has one connection at most: hosts that swallow connects must not hold up the others.
	cfg.MaxHandshakes = MaxTargets
	return stream.New(cfg)
}

// fetched is what came of one request.
type fetched struct {
	state       State
	why         string
	body        []byte // valid until the next request
	contentType string
	url         string // where it came from after redirects
	server      string // the Server header
	status      int
	cut         bool // the body goes on behind MaxBody
	refused     bool // nobody listens
	reused      bool

	start, end int64 // the request on a ready connection, ns on the run's clock
	began      int64 // connecting included
	wire       int64 // bytes of the body as transferred
	date       int64 // Date header in s since 1970, 0 without
}

// took is the server's and the network's time for the answer without connecting, in ns.
func (f *fetched) took() int64 { return f.end - f.start }

// get fetches a page. It never asks twice for one that was answered, since reading
// some pages empties them.
func (f *fetcher) get(ctx context.Context, target string, header http.Header, timeout time.Duration) fetched {
	return f.do(ctx, http.MethodGet, target, header, nil, timeout)
}

// do sends one request and follows redirects within the origin.
func (f *fetcher) do(ctx context.Context, method, target string, header http.Header, body []byte, timeout time.Duration) fetched {
	deadline := time.Now().Add(timeout)
	for hop := 0; ; hop++ {
		f.req = stream.Request{
			Method: method, URL: target, Header: header, Body: body,
			TotalTimeout: time.Until(deadline),
		}
		if f.req.TotalTimeout <= 0 {
			f.req.TotalTimeout = time.Nanosecond
		}
		f.client.Do(ctx, &f.x, &f.req)
		out := f.outcome()
		out.url = target
		next, ok := f.redirect(target)
		if !ok {
			return out
		}
		switch {
		case !SameOrigin(target, next):
			out.state, out.why = StateError, fmt.Sprintf("it redirects to another origin, which is refused; give that URL instead: %s", shownURL(next))
			return out
		case hop >= maxRedirects:
			out.state, out.why = StateError, fmt.Sprintf("more than %d redirects", maxRedirects)
			return out
		}
		target = next
	}
}

// redirect returns where the answer sends to.
func (f *fetcher) redirect(from string) (string, bool) {
	switch f.x.Status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return "", false
	}
	base, err := url.Parse(from)
	if err != nil {
		return "", false
	}
	to, err := base.Parse(f.x.Header.Get("Location"))
	if err != nil || f.x.Header.Get("Location") == "" {
		return "", false
	}
	to.Fragment = ""
	return to.String(), true
}

// outcome reads the body and puts the exchange into telemetry's terms.
func (f *fetcher) outcome() fetched {
	x := &f.x
	out := fetched{status: x.Status, began: x.Start}
	if x.Failure == stream.NoFailure {
		out.body = x.Body()
	}
	out.start, out.end, out.reused = x.Connected, x.End, x.Reused
	if out.start < out.began { // it never connected
		out.start = out.began
	}
	if !x.Reused && x.Connected > x.Start {
		if d := x.Connected - x.Start; f.rtt == 0 || d < f.rtt {
			f.rtt = d
		}
	}
	out.wire = x.ReceivedBytes
	if x.Header != nil {
		out.contentType = x.Header.Get("Content-Type")
		out.server = x.Header.Get("Server")
		if t, err := http.ParseTime(x.Header.Get("Date")); err == nil {
			out.date = t.Unix()
		}
	}
	switch {
	case x.Failure == stream.FailTooLarge && x.Status == http.StatusOK:
		// What came is used, up to the last whole line.
		out.body = x.Body()
		if i := bytes.LastIndexByte(out.body, '\n'); i >= 0 {
			out.body = out.body[:i+1]
		}
		out.cut, out.state = true, StateOK
	case x.Failure != stream.NoFailure && x.Failure != stream.FailRedirect:
		out.state, out.why = StateError, failureText(x)
		out.refused = x.Failure == stream.FailConnectRefused
	case x.Status == http.StatusOK:
		out.state = StateOK
	case x.Status == http.StatusUnauthorized, x.Status == http.StatusForbidden, x.Status == http.StatusProxyAuthRequired:
		out.state, out.why = StateAuthFailed, fmt.Sprintf("status %d: it wants a key or another one", x.Status)
	case x.Status == http.StatusNotFound, x.Status == http.StatusGone, x.Status == http.StatusMethodNotAllowed, x.Status == http.StatusNotImplemented:
		out.state, out.why = StateAbsent, fmt.Sprintf("status %d: the server has no such page", x.Status)
	default:
		out.state, out.why = StateError, fmt.Sprintf("status %d", x.Status)
	}
	if out.state != StateOK {
		out.body = nil
	}
	if out.end < out.start {
		out.end = out.start
	}
	return out
}

// failureText says in one line why nothing came.
func failureText(x *stream.Exchange) string {
	switch x.Failure {
	case stream.FailConnectRefused:
		return "nobody listens there"
	case stream.FailTooLarge:
		return "the answer is too large"
	case stream.FailTotalTimeout:
		return "time-out: no whole answer within " + time.Duration(x.End-x.Start).Round(time.Millisecond).String()
	}
	if x.Err == "" {
		return x.Failure.String()
	}
	return oneLine(x.Failure.String() + ": " + x.Err)
}

// headerOf returns the header of a request for a page.
func headerOf(own http.Header) http.Header {
	h := own.Clone()
	if h == nil {
		h = http.Header{}
	}
	if h.Get("Accept") == "" {
		h.Set("Accept", pageAccept)
	}
	return h
}

// SameOrigin says whether two URLs have the same scheme, host and port: what a key
// for one may be sent to.
func SameOrigin(a, b string) bool {
	x, errX := url.Parse(a)
	y, errY := url.Parse(b)
	return errX == nil && errY == nil && x.Host != "" && origin(x) == origin(y)
}

// SamePage says whether two URLs name one page: without a path that is /metrics, and
// this machine is the same under its name and its address.
func SamePage(a, b string) bool {
	x, errX := url.Parse(a)
	y, errY := url.Parse(b)
	if errX != nil || errY != nil {
		return a == b
	}
	for _, u := range []*url.URL{x, y} {
		if isLocalhost(u.Hostname()) {
			u.Host = "127.0.0.1" + u.Host[len(u.Hostname()):]
		}
		if u.Path = strings.TrimRight(u.Path, "/"); u.Path == "" {
			u.Path = "/metrics"
		}
	}
	return origin(x) == origin(y) && x.Path == y.Path && x.RawQuery == y.RawQuery
}

// isLocalhost says whether a host is named as this machine itself, which nobody has to
// be asked about (RFC 6761, 6.3).
func isLocalhost(host string) bool {
	return strings.EqualFold(strings.TrimSuffix(host, "."), "localhost")
}

// origin returns scheme://host:port in one spelling.
func origin(u *url.URL) string {
	scheme := strings.ToLower(u.Scheme)
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// HeaderFor returns the header fields for a telemetry endpoint: its own, and those of the
// inference endpoint (the key among them) only where it is the same origin. Own fields win. The result is the caller's.
func HeaderFor(page string, own http.Header, target string, key http.Header) http.Header {
	out := http.Header{}
	if SameOrigin(page, target) {
		for k, v := range key {
			out[http.CanonicalHeaderKey(k)] = append([]string(nil), v...)
		}
	}
	for k, v := range own {
		out[http.CanonicalHeaderKey(k)] = append([]string(nil), v...)
	}
	// What belongs to the body of a request of the load is none of a page's business.
	for _, k := range []string{"Content-Type", "Content-Length", "Accept", "Accept-Encoding"} {
		if _, ok := own[k]; !ok {
			out.Del(k)
		}
	}
	return out
}

// parsePageURL checks the URL of an endpoint.
func parsePageURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return nil, fmt.Errorf("telemetry url %q: %w", shownURL(raw), err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("telemetry url %q: want http://HOST[:PORT]/PATH or https://HOST[:PORT]/PATH", shownURL(raw))
	case u.Hostname() == "":
		return nil, fmt.Errorf("telemetry url %q: it has no host; want %s://HOST[:PORT]/PATH", shownURL(raw), u.Scheme)
	case u.User != nil:
		return nil, fmt.Errorf("telemetry url %q: it holds a user name or password; put the key into a variable and name it with api-key-env, or into header", shownURL(raw))
	}
	u.Fragment = ""
	return u, nil
}

// shownURL returns a URL as it may be printed and kept: without user, password
// and the values of its query.
func shownURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		base, _, _ := strings.Cut(raw, "?")
		if _, after, ok := strings.Cut(base, "@"); ok {
			base = "..." + after
		}
		return oneLine(base)
	}
	if u.User != nil {
		u.User = url.User("...")
	}
	if u.RawQuery != "" {
		u.RawQuery = "..."
	}
	u.Fragment = ""
	return oneLine(u.String())
}
