package conduct

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"plimsoll/internal/load"
	"plimsoll/internal/record"
	"plimsoll/internal/scenario"
)

// PreflightError says why a run was not started: nothing has been measured and
// nothing is on disk.
type PreflightError struct {
	// Kind is one of the contract's error kinds, NoError where none fits.
	Kind record.ErrorKind
	Err  error
	// Fix says what to do about it.
	Fix string
}

// Error returns what is wrong and, behind a semicolon, the fix.
func (e *PreflightError) Error() string {
	s := e.What()
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

// What returns what is wrong, with its kind, without the fix.
func (e *PreflightError) What() string {
	if e.Kind == record.NoError {
		return e.Err.Error()
	}
	return e.Kind.String() + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *PreflightError) Unwrap() error { return e.Err }

// maxPreflight bounds each look at a target before a run.
const maxPreflight = 10 * time.Second

// preflight looks whether every target can be reached and, when no model is
// named, asks for the list of models and takes the first. It fills in the model
// and returns what it found. All that it sends is that one GET.
func preflight(ctx context.Context, s *scenario.Scenario, access *Access) (*Facts, error) {
	limit := min(maxPreflight, s.Target.ConnectTimeout)
	var facts *Facts
	for i, raw := range s.Target.URL {
		if i == 0 && s.Target.Model == "" {
			f, err := findModel(ctx, s, access, raw)
			if err != nil {
				return nil, err
			}
			facts = f
			continue
		}
		addr, t, err := reach(ctx, raw, access, limit)
		if err != nil {
			return nil, err
		}
		if facts == nil {
			base, err := Base(raw)
			if err != nil {
				return nil, err
			}
			facts = &Facts{
				Schema: factsSchema, URL: shown(raw), Base: base, At: time.Now().UTC(), Reachable: true, Address: addr, TLS: t,
				APIs: []APIFact{}, Telemetry: []Telemetry{}, Sent: []Sent{},
			}
		}
	}
	return facts, nil
}

// findModel takes the first model of the list.
func findModel(ctx context.Context, s *scenario.Scenario, access *Access, raw string) (*Facts, error) {
	k, version, _, done, err := newChecker(&CheckConfig{URL: raw, Access: access, Timeout: maxPreflight})
	if err != nil {
		return nil, &PreflightError{Err: err}
	}
	defer done()
	path := "/" + version + "/models"
	p := k.get(ctx, path)
	at := "GET " + shown(withPath(k.root, path))
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case p.err != nil:
		return nil, &PreflightError{Kind: p.kind, Err: fmt.Errorf("%s: %w", at, p.err), Fix: fixFor(p.kind)}
	case p.status == http.StatusUnauthorized || p.status == http.StatusForbidden:
		return nil, &PreflightError{Kind: record.AuthError, Err: fmt.Errorf("%s: the key was refused (%d)", at, p.status), Fix: keyFix(s)}
	case p.status != http.StatusOK:
		return nil, &PreflightError{
			Kind: record.HTTPStatusError, Err: fmt.Errorf("%s: answered %d, so there is no list to take a model from", at, p.status),
			Fix: "name the model with --model",
		}
	}
	models := parseModels(p)
	if len(models) == 0 || models[0].ID == "" {
		return nil, &PreflightError{Kind: record.BadBody, Err: fmt.Errorf("%s: no list of models in the answer", at), Fix: "name the model with --model, or correct the URL"}
	}
	if err := scenario.CheckText("target.model", models[0].ID); err != nil {
		// It is kept in the run's scenario, which could not be read again.
		return nil, &PreflightError{Kind: record.BadBody, Err: fmt.Errorf("%s: the first model's name: %w", at, err), Fix: "name another with --model"}
	}
	s.Target.Model = models[0].ID
	f := k.facts
	f.Reachable, f.Header, f.Models = true, telling(p.header), models
	f.APIs, f.Telemetry = []APIFact{}, []Telemetry{}
	f.guess()
	return f, nil
}

func keyFix(s *scenario.Scenario) string {
	if s.Target.APIKeyEnv == "" && len(s.Target.Header) == 0 {
		return "name the variable that holds a key with --api-key-env"
	}
	return "look at the key in " + s.Target.APIKeyEnv
}

func fixFor(kind record.ErrorKind) string {
	switch kind {
	case record.ConnectRefused:
		return "nothing listens there: start the server or correct the URL"
	case record.DNSError:
		return "the host's name is not known: correct the URL"
	case record.TLSError:
		return "give the authority with --ca, or use http://"
	case record.ConnectTimeout, record.HeaderTimeout:
		return "no answer in time: look at the address and the firewall"
	default:
		return ""
	}
}

// reach makes one connection to a target, TLS included, and closes it: nothing
// is sent on it.
func reach(ctx context.Context, raw string, access *Access, limit time.Duration) (string, *TLS, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", nil, fmt.Errorf("target.url: %w", err)
	}
	if access.Proxy != "" {
		// Only the proxy can be reached without a request.
		if u, err = url.Parse(access.Proxy); err != nil {
			return "", nil, fmt.Errorf("target.proxy: %w", err)
		}
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	addr := net.JoinHostPort(u.Hostname(), port)
	dctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	fail := func(what string, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		kind := errorKind(err)
		if errors.Is(dctx.Err(), context.DeadlineExceeded) {
			kind, err = record.ConnectTimeout, fmt.Errorf("no connection within %s", limit)
		} else if kind == record.BadBody {
			kind = record.NoError
		}
		return &PreflightError{Kind: kind, Err: fmt.Errorf("%s %s: %w", what, addr, err), Fix: fixFor(kind)}
	}
	var d net.Dialer
	c, err := d.DialContext(dctx, "tcp", addr)
	if err != nil {
		if oe, ok := errors.AsType[*net.OpError](err); ok && oe.Err != nil {
			if _, dns := errors.AsType[*net.DNSError](err); !dns {
				return "", nil, fail("connect to", oe.Err)
			}
		}
		return "", nil, fail("connect to", err)
	}
	defer func() { _ = c.Close() }()
	remote := c.RemoteAddr().String()
	if u.Scheme != "https" {
		return remote, nil, nil
	}
	cfg := access.TLS.Clone()
	if cfg == nil {
		cfg = new(tls.Config)
	}
	if cfg.ServerName == "" {
		cfg.ServerName = u.Hostname()
	}
	t := tls.Client(c, cfg)
	if err := t.HandshakeContext(dctx); err != nil {
		return "", nil, fail("TLS with", err)
	}
	state := t.ConnectionState()
	return remote, describeTLS(&state, access.TLS), nil
}

// spareDescriptors are those that a run needs beside its connections: files of
// the run, the poller, standard streams, the canary.
const spareDescriptors = 64

// descriptors returns how many files the load may need open at once. An open
// loop without a cap has no bound, also beside users: it gets what there is.
func descriptors(st []load.Step, maxInFlight int) int {
	need := 0
	for _, s := range st {
		need = max(need, s.Users)
	}
	if maxInFlight > 0 && (need == 0 || maxInFlight < need) {
		need = maxInFlight
	}
	return need + spareDescriptors
}

// resetPrefixCache asks every target to forget what it has cached.
func resetPrefixCache(ctx context.Context, s *scenario.Scenario, access *Access) error {
	for _, raw := range s.Target.URL {
		k, _, _, done, err := newChecker(&CheckConfig{URL: raw, Access: access, Timeout: maxPreflight})
		if err != nil {
			return &PreflightError{Err: err}
		}
		p := k.request(ctx, http.MethodPost, "/reset_prefix_cache")
		done()
		at := "POST " + shown(withPath(k.root, "/reset_prefix_cache"))
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case p.err != nil:
			return &PreflightError{Kind: p.kind, Err: fmt.Errorf("%s: %w", at, p.err), Fix: fixFor(p.kind)}
		case p.status/100 != 2:
			return &PreflightError{
				Kind: record.HTTPStatusError, Err: fmt.Errorf("%s: answered %d", at, p.status),
				Fix: "leave --reset-prefix-cache out, or start vllm with VLLM_SERVER_DEV_MODE=1",
			}
		}
	}
	return nil
}
