package conduct

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"plimsoll/internal/dialect"
	"plimsoll/internal/scenario"
)

// Endpoint returns the full URL of an API. The user's URL may be a base, a base
// with its version ("/v1"), or the full path of the endpoint.
func Endpoint(raw string, api dialect.API) (string, error) {
	base, version, full, err := split(raw)
	if err != nil {
		return "", err
	}
	path := api.Path()
	if path == "" {
		return "", fmt.Errorf("url %q: no path is known for api %q", shown(raw), api)
	}
	if full != "" {
		if full != api {
			return "", fmt.Errorf("url %q: it is an endpoint of api %s, but api is %s; leave the path out or set api to %s", shown(raw), full, api, full)
		}
		return raw, nil
	}
	if version != "" {
		path = "/" + version + strings.TrimPrefix(path, "/v1")
	}
	return withPath(base, path), nil
}

// Base returns the URL without an API's path and version: what "/health" and
// "/metrics" are relative to. It is for showing: a query, which may hold a key,
// is not in it.
func Base(raw string) (string, error) {
	base, _, _, err := split(raw)
	if err != nil {
		return "", err
	}
	return shown(withPath(base, "")), nil
}

// shown returns a URL as it may be printed and kept: a query, which may hold a
// key, as "?...".
func shown(raw string) string {
	base, _, found := strings.Cut(raw, "?")
	if found {
		base += "?..."
	}
	return base
}

func withPath(u *url.URL, path string) string {
	v := *u
	v.Path = u.Path + path
	v.RawPath = ""
	return v.String()
}

// split takes a target URL apart: the base without trailing slash, the version
// ("v1") when the user wrote one, and the API when the URL names its endpoint.
func split(raw string) (base *url.URL, version string, full dialect.API, err error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err
		}
		return nil, "", "", fmt.Errorf("url %q: %w", shown(raw), err)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, "", "", fmt.Errorf("url %q: want http://HOST[:PORT] or https://HOST[:PORT]", shown(raw))
	case u.Host == "" || u.Hostname() == "":
		return nil, "", "", fmt.Errorf("url %q: it has no host; want %s://HOST[:PORT]", shown(raw), u.Scheme)
	case u.User != nil:
		return nil, "", "", fmt.Errorf("url %s: it holds a user name or password; put the key into a variable and name it with api-key-env", shown(u.Redacted()))
	case u.Fragment != "":
		return nil, "", "", fmt.Errorf("url %q: a fragment (#%s) is never sent; leave it out", shown(raw), u.Fragment)
	}
	v := *u
	v.RawPath = ""
	v.Path = strings.TrimRight(v.Path, "/")
	// The longer path first: /v1/chat/completions also ends in /completions.
	for _, api := range dialect.APIs() {
		if p, ok := strings.CutSuffix(v.Path, strings.TrimPrefix(api.Path(), "/v1")); ok {
			v.Path, full = p, api
			break
		}
	}
	i := strings.LastIndexByte(v.Path, '/')
	if last := v.Path[i+1:]; isVersion(last) {
		version = last
		v.Path = v.Path[:max(i, 0)]
	}
	return &v, version, full, nil
}

// isVersion says whether a path segment is an API version: v1, v2, v1beta.
func isVersion(s string) bool {
	return len(s) >= 2 && s[0] == 'v' && s[1] >= '0' && s[1] <= '9'
}

// Access is what is needed to talk to a target: header fields and TLS.
type Access struct {
	Header http.Header
	TLS    *tls.Config
	Proxy  string
	// secrets are what must not be written, the longest first.
	secrets []string
}

// minSecret is the length below which a value is too short to be a secret, and
// too likely to be a part of any text.
const minSecret = 5

// Redact returns text without the secrets of the target: servers repeat a key
// that they refuse.
func (a *Access) Redact(text string) string {
	for _, s := range a.secrets {
		text = strings.ReplaceAll(text, s, "***")
	}
	return text
}

// hide adds a value, and what stands behind a scheme in it (Bearer KEY), to the
// secrets.
func (a *Access) hide(value string) {
	parts := append(strings.Fields(value), value)
	for _, s := range parts {
		if len(s) >= minSecret && !strings.EqualFold(s, "bearer") && !strings.EqualFold(s, "basic") && !slices.Contains(a.secrets, s) {
			a.secrets = append(a.secrets, s)
		}
	}
	slices.SortFunc(a.secrets, func(x, y string) int { return len(y) - len(x) })
}

// NewAccess makes the header fields and the TLS configuration of a target. The
// key comes from the variable that the target names.
func NewAccess(t *scenario.Target, lookup func(string) (string, bool), readFile func(string) ([]byte, error)) (*Access, error) {
	return newAccess("target", t, lookup, readFile)
}

// newAccess is NewAccess for the group of fields at path.
func newAccess(path string, t *scenario.Target, lookup func(string) (string, bool), readFile func(string) ([]byte, error)) (*Access, error) {
	a := &Access{Header: make(http.Header), Proxy: t.Proxy}
	if t.APIKeyEnv != "" {
		key, ok := lookup(t.APIKeyEnv)
		key = strings.TrimSpace(key)
		if !ok || key == "" {
			return nil, fmt.Errorf("%s.api-key-env: the variable %s is not set; export it or leave api-key-env out", path, t.APIKeyEnv)
		}
		if strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return nil, fmt.Errorf("%s.api-key-env: the value of %s holds a control character", path, t.APIKeyEnv)
		}
		a.Header.Set("Authorization", "Bearer "+key)
		a.hide(key)
	}
	for k, v := range t.Header {
		a.Header.Set(k, v)
		if Secret(k) {
			a.hide(v)
		}
	}
	for _, raw := range t.URL {
		if u, err := url.Parse(raw); err == nil {
			for _, vs := range u.Query() {
				for _, v := range vs {
					a.hide(v)
				}
			}
		}
	}
	if t.CA == "" && t.Cert == "" && t.Key == "" && !t.Insecure {
		return a, nil
	}
	a.TLS = &tls.Config{InsecureSkipVerify: t.Insecure} //nolint:gosec // asked for by name, and reported
	if t.CA != "" {
		pem, err := readFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("%s.ca: %w", path, err)
		}
		a.TLS.RootCAs = x509.NewCertPool()
		if !a.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s.ca: %s holds no PEM certificate", path, t.CA)
		}
	}
	if (t.Cert == "") != (t.Key == "") {
		return nil, fmt.Errorf("%s.cert: want both cert and key, or neither", path)
	}
	if t.Cert != "" {
		certPEM, err := readFile(t.Cert)
		if err != nil {
			return nil, fmt.Errorf("%s.cert: %w", path, err)
		}
		keyPEM, err := readFile(t.Key)
		if err != nil {
			return nil, fmt.Errorf("%s.key: %w", path, err)
		}
		pair, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			return nil, fmt.Errorf("%s.cert: %s with %s: %w", path, t.Cert, t.Key, err)
		}
		a.TLS.Certificates = []tls.Certificate{pair}
	}
	return a, nil
}

// secretHeaders are never written anywhere.
var secretHeaders = []string{"authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie", "set-cookie"}

// Secret says whether a header field holds something that is never written.
func Secret(name string) bool {
	n := strings.ToLower(name)
	return slices.Contains(secretHeaders, n) || strings.HasSuffix(n, "-key") || strings.HasSuffix(n, "token") || strings.Contains(n, "secret")
}
