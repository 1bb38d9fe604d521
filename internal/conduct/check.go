package conduct

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"syscall"
	"time"

	"plimsoll/internal/clock"
	"plimsoll/internal/dialect"
	"plimsoll/internal/record"
	"plimsoll/internal/signal"
	"plimsoll/internal/telemetry"
)

// Facts is what is known of an endpoint. Absent values are null in JSON: not
// seen is not the same as not there.
type Facts struct {
	Schema string    `json:"schema"` // plimsoll.check/1
	URL    string    `json:"url"`
	Base   string    `json:"base"`
	At     time.Time `json:"at"`

	Reachable bool     `json:"reachable"`
	Error     *Problem `json:"error"`
	Address   string   `json:"address,omitempty"`
	// ConnectMS is the time of the TCP connect, TLS not included.
	ConnectMS *float64 `json:"connect_ms"`
	TLS       *TLS     `json:"tls"`
	Protocol  string   `json:"protocol,omitempty"`
	// Header holds the fields of the first answer that say something about the
	// server.
	Header map[string]string `json:"header,omitempty"`

	// Engine is a guess, EngineFrom what it rests on.
	Engine     string `json:"engine,omitempty"`
	EngineFrom string `json:"engine_from,omitempty"`
	Version    string `json:"version,omitempty"`

	// Models is nil when there is no model list.
	Models    []Model     `json:"models"`
	APIs      []APIFact   `json:"apis"`
	Telemetry []Telemetry `json:"telemetry"`
	// Hints say how to get telemetry that was not found. TelemetryTried counts the
	// URLs that were asked for it, which are not in Sent.
	Hints          []telemetry.Hint `json:"telemetry_hints,omitempty"`
	TelemetryTried int              `json:"telemetry_tried"`
	// Connections says what became of those of a run; absent in a check.
	Connections []Connections `json:"connections,omitempty"`
	// Sent lists every request that was made to find this out.
	Sent []Sent `json:"sent"`
}

// Connections is what became of the connections to one host and port.
type Connections struct {
	Host string `json:"host"`
	// Opened counts connections, Reused the requests sent on one that had served
	// another.
	Opened int64 `json:"opened"`
	Reused int64 `json:"reused"`
	// IdleDeaths counts those that the server closed while they were idle.
	// SentAgain counts requests whose connection died before any answer and that
	// were sent again on a fresh one.
	IdleDeaths int64 `json:"idle_deaths"`
	SentAgain  int64 `json:"sent_again"`
	// LateEnds counts bodies that stayed open after the end of the answer.
	LateEnds int64 `json:"late_ends"`
	// ReuseOff is true when so many died that none was reused any more.
	ReuseOff bool `json:"reuse_off"`
	// Addresses counts the connections by remote address.
	Addresses map[string]int64 `json:"addresses"`
}

// json returns f for run.json.
func (f *Facts) json() json.RawMessage {
	b, err := json.Marshal(f)
	if err != nil {
		panic("BUG: facts cannot be encoded: " + err.Error())
	}
	return b
}

// Problem is why something failed, by the error kinds of the contract.
type Problem struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// TLS is what the handshake said.
type TLS struct {
	Version  string    `json:"version"`
	Cipher   string    `json:"cipher"`
	Subject  string    `json:"subject"`
	Issuer   string    `json:"issuer"`
	Expires  time.Time `json:"expires"`
	Verified bool      `json:"verified"`
}

// Model is one entry of the model list.
type Model struct {
	ID         string `json:"id"`
	OwnedBy    string `json:"owned_by,omitempty"`
	MaxContext *int64 `json:"max_model_len,omitempty"`
}

// APIFact is what is known of one API.
type APIFact struct {
	API  string `json:"api"`
	Path string `json:"path"`
	// GetStatus is the status that a GET of the path was answered with.
	GetStatus *int `json:"get_status"`
	// There is null when a GET cannot tell: many servers answer 404 to a GET of
	// a path that only takes POST.
	There *bool  `json:"there"`
	Text  string `json:"text"`
	Probe *Probe `json:"probe,omitempty"`
}

// Telemetry is an endpoint of telemetry that was looked at and that answered.
type Telemetry struct {
	URL string `json:"url"`
	// Kind is page or prometheus, State ok, auth_failed, absent, not_a_page or error.
	Kind  telemetry.Kind  `json:"kind"`
	State telemetry.State `json:"state"`
	// Sources are the sources recognised on it, Titles their names for people.
	Sources []string `json:"sources"`
	Titles  []string `json:"titles"`
	// Own is true for a page of the endpoint itself, rather than of another port of its host.
	Own bool `json:"own"`
	// Used says whether a run would read it.
	Used bool `json:"used"`
	// Missing are the signals that its sources could give and do not.
	Missing []telemetry.Missing `json:"missing,omitempty"`
	Text    string              `json:"text,omitempty"`
}

// Sent is one request that was made.
type Sent struct {
	Method string   `json:"method"`
	Path   string   `json:"path"`
	Status *int     `json:"status"`
	MS     *float64 `json:"ms"`
	Error  *Problem `json:"error,omitempty"`
}

// CheckConfig says what to check and how long to wait.
type CheckConfig struct {
	URL    string
	Access *Access
	// Timeout bounds each GET; 0 means 5 s. Who waits longer for one also waits longer for
	// the search for telemetry, 2 s otherwise.
	Timeout time.Duration
	// Probe allows a few requests to the model, ProbeTimeout bounds each; 0
	// means 30 s. Model is the model they ask for; empty means the first of the
	// model list.
	Probe        bool
	ProbeTimeout time.Duration
	Model        string
	// Tables are further tables by which telemetry is recognised.
	Tables []*telemetry.Table
}

// factsSchema is the value of the field schema of Facts.
const factsSchema = "plimsoll.check/1"

// getLimit bounds a GET of a check that says nothing else.
const getLimit = 5 * time.Second

// maxPage bounds what is read of one page.
const maxPage = 8 << 20

type checker struct {
	cfg *CheckConfig
	// root is what paths are added to, base the same for showing.
	root   *url.URL
	base   string
	client *http.Client
	facts  *Facts
}

type page struct {
	status int
	header http.Header
	body   []byte
	kind   record.ErrorKind
	err    error
}

// newChecker prepares to look at an endpoint: its base, the version and the API
// that its URL names, and a function that closes what was opened.
func newChecker(cfg *CheckConfig) (k *checker, version string, full dialect.API, done func(), err error) {
	base, version, full, err := split(cfg.URL)
	if err != nil {
		return nil, "", "", nil, err
	}
	if version == "" {
		version = "v1"
	}
	c := *cfg
	if c.Timeout <= 0 {
		c.Timeout = getLimit
	}
	if c.ProbeTimeout <= 0 {
		c.ProbeTimeout = 30 * time.Second
	}
	if c.Access == nil {
		c.Access = &Access{Header: make(http.Header)}
	}
	tr := &http.Transport{TLSClientConfig: c.Access.TLS, DisableCompression: true, TLSHandshakeTimeout: c.Timeout}
	if c.Access.Proxy != "" {
		pu, err := url.Parse(c.Access.Proxy)
		if err != nil {
			return nil, "", "", nil, fmt.Errorf("proxy %q: %w", c.Access.Proxy, err)
		}
		tr.Proxy = http.ProxyURL(pu)
	}
	name := shown(withPath(base, ""))
	k = &checker{
		cfg: &c, root: base, base: name,
		facts: &Facts{Schema: factsSchema, URL: shown(cfg.URL), Base: name, At: time.Now().UTC()},
	}
	k.client = &http.Client{
		Transport:     tr,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return k, version, full, tr.CloseIdleConnections, nil
}

// Check finds out what an endpoint can do. It retries nothing. An endpoint that
// is down is a fact, not an error; errors are those of the configuration.
func Check(ctx context.Context, cfg *CheckConfig) (*Facts, error) {
	k, version, full, done, err := newChecker(cfg)
	if err != nil {
		return nil, err
	}
	defer done()
	f := k.facts
	p := k.get(ctx, "/"+version+"/models")
	if p.err != nil {
		f.Error = &Problem{Kind: p.kind.String(), Text: p.err.Error()}
		return f, nil
	}
	f.Reachable = true
	f.Header = telling(p.header)
	f.Models = parseModels(p)
	k.apis(ctx, version, full)
	if v := k.get(ctx, "/version"); v.err == nil && v.status == http.StatusOK {
		f.Version = parseVersion(v.body)
	}
	k.get(ctx, "/health")
	if err := k.telemetry(ctx); err != nil {
		return nil, err
	}
	if cfg.Probe && ctx.Err() == nil {
		k.probe(ctx)
	}
	return f, nil
}

func (k *checker) get(ctx context.Context, path string) page {
	return k.request(ctx, http.MethodGet, path)
}

// request makes one request without a body and notes it. A redirect is not
// followed.
func (k *checker) request(ctx context.Context, method, path string) page {
	return k.requestBody(ctx, method, path, nil)
}

// requestBody is request with a JSON body, nil for none.
func (k *checker) requestBody(ctx context.Context, method, path string, body io.Reader) page {
	first := len(k.facts.Sent) == 0
	ctx, cancel := context.WithTimeout(ctx, k.cfg.Timeout)
	defer cancel()
	var dial, dialled time.Time
	if first {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			ConnectStart: func(string, string) { dial = time.Now() },
			ConnectDone: func(_, addr string, err error) {
				if err == nil {
					dialled = time.Now()
					k.facts.Address = addr
				}
			},
			TLSHandshakeDone: func(s tls.ConnectionState, err error) {
				if err == nil {
					k.facts.TLS = describeTLS(&s, k.cfg.Access.TLS)
				}
			},
		})
	}
	began := time.Now()
	req, err := http.NewRequestWithContext(ctx, method, withPath(k.root, path), body)
	if err != nil {
		return page{err: err, kind: record.ClientResource}
	}
	for name, vs := range k.cfg.Access.Header {
		req.Header[name] = vs
	}
	if h := req.Header.Get("Host"); h != "" {
		req.Host = h
	}
	req.Header.Set("User-Agent", "plimsoll")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	s := Sent{Method: method, Path: path}
	res, err := k.client.Do(req)
	var p page
	if err == nil {
		p.status, p.header = res.StatusCode, res.Header
		p.body, err = io.ReadAll(io.LimitReader(res.Body, maxPage))
		res.Body.Close()
		s.Status = &p.status
		if first {
			k.facts.Protocol = res.Proto
			if !dialled.IsZero() {
				ms := float64(dialled.Sub(dial)) / 1e6
				k.facts.ConnectMS = &ms
			}
		}
	}
	if err != nil {
		p.err = plain(err)
		p.kind = errorKind(err)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			p.err = fmt.Errorf("no answer within %s", k.cfg.Timeout)
		}
		s.Error = &Problem{Kind: p.kind.String(), Text: p.err.Error()}
	}
	ms := float64(time.Since(began)) / 1e6
	s.MS = &ms
	k.facts.Sent = append(k.facts.Sent, s)
	return p
}

// plain takes the "Get URL:" off an error of net/http.
func plain(err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		return ue.Err
	}
	return err
}

func errorKind(err error) record.ErrorKind {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return record.DNSError
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return record.TLSError
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return record.TLSError
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return record.TLSError
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return record.ConnectRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF):
		return record.ConnectionReset
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.EADDRNOTAVAIL):
		return record.ClientResource
	}
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		if oe, ok := errors.AsType[*net.OpError](err); ok && oe.Op == "dial" {
			return record.ConnectTimeout
		}
		return record.HeaderTimeout
	}
	if strings.Contains(err.Error(), "tls: ") || strings.Contains(err.Error(), "HTTP response to HTTPS client") {
		return record.TLSError
	}
	return record.BadBody
}

func describeTLS(s *tls.ConnectionState, cfg *tls.Config) *TLS {
	t := &TLS{
		Version: tls.VersionName(s.Version), Cipher: tls.CipherSuiteName(s.CipherSuite),
		Verified: cfg == nil || !cfg.InsecureSkipVerify,
	}
	if len(s.PeerCertificates) > 0 {
		c := s.PeerCertificates[0]
		t.Subject, t.Issuer, t.Expires = c.Subject.String(), c.Issuer.String(), c.NotAfter.UTC()
	}
	return t
}

// telling keeps the header fields that say something about the server.
func telling(h http.Header) map[string]string {
	out := map[string]string{}
	for name := range h {
		l := strings.ToLower(name)
		switch {
		case Secret(name):
		case l == "server", l == "via", l == "openai-version", strings.HasPrefix(l, "x-"), strings.HasPrefix(l, "cf-"):
			out[name] = h.Get(name)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func parseModels(p page) []Model {
	if p.err != nil || p.status != http.StatusOK {
		return nil
	}
	var list struct {
		Data []struct {
			ID      string          `json:"id"`
			OwnedBy json.RawMessage `json:"owned_by"`
			MaxLen  json.RawMessage `json:"max_model_len"`
		} `json:"data"`
	}
	if json.Unmarshal(p.body, &list) != nil || list.Data == nil {
		return nil
	}
	models := make([]Model, 0, len(list.Data))
	for _, d := range list.Data {
		m := Model{ID: d.ID}
		_ = json.Unmarshal(d.OwnedBy, &m.OwnedBy) // of no use when it is no text
		// A length that is no whole number is not known; the list is one all the same.
		if n := new(int64); len(d.MaxLen) > 0 && json.Unmarshal(d.MaxLen, n) == nil && *n > 0 {
			m.MaxContext = n
		}
		models = append(models, m)
	}
	return models
}

func parseVersion(body []byte) string {
	var v struct {
		Version string `json:"version"`
	}
	if json.Unmarshal(body, &v) == nil {
		return v.Version
	}
	return ""
}

// apis looks at the path of each API with a GET, which no API takes: what
// matters is how it is refused.
func (k *checker) apis(ctx context.Context, version string, full dialect.API) {
	for _, api := range dialect.APIs() {
		path := "/" + version + strings.TrimPrefix(api.Path(), "/v1")
		a := APIFact{API: string(api), Path: path}
		p := k.get(ctx, path)
		yes := true
		switch {
		case p.err != nil:
			a.Text = "GET failed: " + p.err.Error()
		default:
			a.GetStatus = &p.status
			switch {
			case p.status == http.StatusMethodNotAllowed:
				a.There, a.Text = &yes, "there (a GET is refused with 405, as it should be)"
			case p.status == http.StatusUnauthorized || p.status == http.StatusForbidden:
				a.Text = fmt.Sprintf("a key is asked for (%d); set one with --api-key-env", p.status)
			case p.status == http.StatusNotFound:
				a.Text = "unknown: a GET is answered 404, which some servers also do for a path that takes POST"
			case p.status == http.StatusBadRequest || p.status == http.StatusUnprocessableEntity:
				a.There, a.Text = &yes, fmt.Sprintf("there (a GET is refused with %d)", p.status)
			default:
				a.Text = fmt.Sprintf("unknown: a GET is answered %d", p.status)
			}
		}
		if api == full && a.There == nil {
			a.Text += "; the URL names it"
		}
		k.facts.APIs = append(k.facts.APIs, a)
	}
}

// telemetry looks for telemetry around the endpoint.
func (k *checker) telemetry(ctx context.Context) error {
	cfg := telemetry.DiscoverConfig{
		Targets: []string{k.cfg.URL}, Header: k.cfg.Access.Header, TLS: k.cfg.Access.TLS, Proxy: k.cfg.Access.Proxy, Clock: clock.New(),
	}
	if k.cfg.Timeout > getLimit {
		cfg.Limit = 2 * k.cfg.Timeout / 5
	}
	if k.cfg.Tables != nil {
		cfg.Tables = append(telemetry.Builtin(), k.cfg.Tables...)
	}
	d, err := telemetry.Discover(ctx, cfg)
	if err != nil {
		return err
	}
	k.facts.discovered(d)
	return nil
}

// discovered notes the telemetry around an endpoint, and guesses the engine by it.
func (f *Facts) discovered(d *telemetry.Discovery) {
	f.TelemetryTried = d.Tried
	for _, p := range d.Found {
		t := Telemetry{URL: p.URL, Kind: p.Kind, State: p.State, Sources: p.Sources, Titles: p.Titles, Own: p.Own, Used: p.Use, Missing: p.Missing, Text: p.Why}
		if t.Sources == nil {
			t.Sources, t.Titles = []string{}, append([]string{}, p.Titles...)
		}
		f.Telemetry = append(f.Telemetry, t)
	}
	f.Hints = append(f.Hints, d.Hints...)
	f.guess()
}

// isEngine says whether a source speaks for an inference engine.
func isEngine(source string) bool {
	t := telemetry.Lookup(source)
	return t != nil && t.Signals[signal.RequestsRunning.String()] != nil
}

// guess names the engine from what was seen, best evidence first.
func (f *Facts) guess() {
	if f.byTelemetry(true) {
		return
	}
	for _, m := range f.Models {
		switch m.OwnedBy {
		case "vllm", "sglang", "llamacpp":
			f.Engine, f.EngineFrom = strings.Replace(m.OwnedBy, "llamacpp", "llama.cpp", 1), "owned_by in the model list"
			return
		case "library":
			f.Engine, f.EngineFrom = "ollama", "owned_by in the model list"
			return
		}
	}
	if s := f.Header["Server"]; s != "" {
		l := strings.ToLower(s)
		for _, name := range []string{"llama.cpp", "vllm", "sglang", "ollama", "tensorrt", "triton"} {
			if strings.Contains(l, name) {
				f.Engine, f.EngineFrom = name, "the Server header"
				return
			}
		}
	}
	f.byTelemetry(false)
}

// byTelemetry names the engine whose telemetry a run would read: of the endpoint
// itself or, which says less, of another port of its host.
func (f *Facts) byTelemetry(own bool) bool {
	for _, t := range f.Telemetry {
		if !t.Used || t.Own != own {
			continue
		}
		for i, name := range t.Sources {
			if isEngine(name) {
				f.Engine, f.EngineFrom = t.Titles[i], "its telemetry"
				if !own {
					f.EngineFrom = "telemetry at another port of its host"
				}
				return true
			}
		}
	}
	return false
}
