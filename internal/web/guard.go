package web

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
)

// NewToken returns a token of 256 random bits.
func NewToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Loopback says whether the host of an address, host:port, is this machine for
// itself.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && loopbackName(host)
}

func loopbackName(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// ChangeHeader is the header field that a request which changes something must have
// when it says nothing of its origin: no page of another site can send it without
// being asked first.
const ChangeHeader = "X-Plimsoll"

// guard decides who may call.
type guard struct {
	loopback bool
	host     string   // the host listened on; "" for all of them
	hosts    []string // further names
	token    [sha256.Size]byte
	asked    bool // a token is
	cookie   string
}

func newGuard(cfg *Config) (guard, error) {
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return guard{}, fmt.Errorf("listen address %q: want HOST:PORT: %w", cfg.Listen, err)
	}
	g := guard{loopback: loopbackName(host), host: host, asked: cfg.Token != "", token: sha256.Sum256([]byte(cfg.Token)), cookie: "plimsoll-" + port}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		g.host = ""
	}
	for _, h := range cfg.Hosts {
		g.hosts = append(g.hosts, strings.ToLower(h))
	}
	if !g.loopback && !g.asked {
		return guard{}, fmt.Errorf("listen on %s: others can reach that address, so a token is needed", cfg.Listen)
	}
	return g, nil
}

// policy is the content security policy: everything comes from this server, nothing
// is written into a page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'"

// headers are those of every answer.
func (g *guard) headers(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("X-Frame-Options", "DENY")
}

// refuse answers a request that may not be answered otherwise, and says so.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request) bool {
	if p := g.check(r); p != nil {
		p.write(w)
		return true
	}
	if !g.asked {
		return false
	}
	if given := r.URL.Query().Get("token"); given != "" && r.Method == http.MethodGet && !api(r) && g.right(given) {
		g.setCookie(w, r, given, 0)
		w.Header().Set("Cache-Control", "no-store")
		// Not in the history, nor in a link that is passed on.
		rest := r.URL.Query()
		rest.Del("token")
		http.Redirect(w, r, (&url.URL{Path: path.Clean("/" + r.URL.Path), RawQuery: rest.Encode()}).String(), http.StatusSeeOther)
		return true
	}
	if scheme, bearer, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") && g.right(strings.TrimSpace(bearer)) {
		return false
	}
	for _, c := range r.CookiesNamed(g.cookie) {
		if g.right(c.Value) {
			return false
		}
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="plimsoll"`)
	(&Problem{
		Status: http.StatusUnauthorized, Text: "a token is needed",
		Fix: "open the address that plimsoll printed when it started, which has the token, or send it as Authorization: Bearer TOKEN",
	}).write(w)
	return true
}

// setCookie makes the browser keep the token, or forget it when age is below 0.
func (g *guard) setCookie(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name: g.cookie, Value: value, MaxAge: age, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.Header.Get("X-Forwarded-Proto") == "https",
	})
}

func (s *Server) logout(w http.ResponseWriter, r *http.Request) error {
	s.guard.setCookie(w, r, "", -1)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// api says whether a request is for the API, not for a page.
func api(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/api/") }

// right compares a token in a time that does not depend on where it differs.
func (g *guard) right(given string) bool {
	sum := sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
}

// check refuses requests that come from pages of other sites: a name that was bound
// to this address, an origin that is not this server's, a form.
func (g *guard) check(r *http.Request) *Problem {
	forbidden := func(format string, args ...any) *Problem {
		return &Problem{Status: http.StatusForbidden, Text: fmt.Sprintf(format, args...)}
	}
	if !g.hostKnown(r) {
		p := forbidden("this server is not called %q", r.Host)
		p.Fix = "call it by the address that it listens on, or start it with --host NAME"
		return p
	}
	origin := r.Header.Get("Origin")
	if origin != "" && !sameOrigin(origin, r.Host) {
		return forbidden("a page of %q may not call this server", origin)
	}
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "none", "same-origin":
	default:
		if api(r) && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
			return forbidden("a page of another site may not call this server")
		}
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return nil
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return &Problem{Status: http.StatusMethodNotAllowed, Text: fmt.Sprintf("method %q is not known here", r.Method)}
	}
	if origin == "" && r.Header.Get(ChangeHeader) == "" {
		p := forbidden("a %s without an Origin needs the header %s", r.Method, ChangeHeader)
		p.Fix = ChangeHeader + ": 1"
		return p
	}
	if r.ContentLength != 0 {
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
			return &Problem{Status: http.StatusUnsupportedMediaType, Text: "the body must be JSON", Fix: "Content-Type: application/json"}
		}
	}
	return nil
}

// hostKnown says whether a request names this server. A name is only one of those
// given or a loopback name: any other may have been bound to this address by the
// page that calls. An address cannot be.
func (g *guard) hostKnown(r *http.Request) bool {
	host := r.Host
	if h, port, err := net.SplitHostPort(host); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return false
		}
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	switch {
	case host == "":
		return false
	case slices.Contains(g.hosts, host), g.loopback && loopbackName(host):
		return true
	case g.host != "":
		return host == strings.ToLower(g.host)
	}
	// All addresses of this machine are listened on: the one that was called.
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	called, _, err := net.SplitHostPort(local.String())
	if err != nil {
		return false
	}
	want, err1 := netip.ParseAddr(called)
	got, err2 := netip.ParseAddr(host)
	if err1 != nil || err2 != nil {
		// localhost reaches only the loopback address.
		return err1 == nil && want.Unmap().IsLoopback() && loopbackName(host)
	}
	return want.Unmap().WithZone("") == got.Unmap().WithZone("")
}

// sameOrigin says whether an Origin is that of the server which a request names.
func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && strings.EqualFold(u.Host, host) &&
		u.User == nil && u.Path == "" && u.RawQuery == "" && u.Fragment == ""
}
