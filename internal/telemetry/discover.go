package telemetry

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"plimsoll/internal/clock"
	"plimsoll/internal/signal"
	"plimsoll/internal/stream"
)

const (
	// discoverLimit bounds a whole Discover; one connect may take a discoverConnects'th of it.
	discoverLimit    = 2 * time.Second
	discoverConnects = 4
	// discoverParallel is how many requests are under way at once.
	discoverParallel = 16
	// maxCandidates bounds the URLs that are tried for one target, maxDiscoverTargets the targets.
	maxCandidates      = 96
	maxDiscoverTargets = 64
	// discoverMaxBody bounds a page that is looked at.
	discoverMaxBody = 8 << 20
)

// ownPaths are where servers publish their page beside the API.
var ownPaths = []string{"/metrics", "/v1/metrics", "/prometheus/metrics"}

// hostPages are the usual places of pages on a host, beside those of the tables: a second or third engine, a Prometheus.
var hostPages = []string{":8000/metrics", ":8001/metrics", ":8002/metrics", ":8080/metrics", ":9000/metrics", ":9090/metrics", ":9100/metrics", ":9400/metrics", ":9401/metrics"}

// DiscoverConfig says where to look for telemetry.
type DiscoverConfig struct {
	// Targets are the URLs of the inference endpoints, with or without a path of the API.
	Targets []string
	// Header is that of the inference endpoint. It goes to the same origin only.
	Header http.Header
	// TLS and Proxy are as in Target.
	TLS   *tls.Config
	Proxy string
	// Clock is the run's clock.
	Clock *clock.Clock
	// Tables are what pages are recognised by; nil means the built-in ones.
	Tables []*Table
	// Limit bounds the whole search, a quarter of it one connect; 0 means 2 s.
	Limit time.Duration
	// Dial replaces the dialler (tests); the host then counts as near.
	Dial Dial
}

// Found is one endpoint that was looked at and that answered.
type Found struct {
	// URL is where it is; Kind what answers there.
	URL  string
	Kind Kind
	// State and Why say what came of it.
	State State
	Why   string
	// Sources are the sources recognised on the page, Titles their names for people.
	Sources, Titles []string
	// Missing are the signals that these could give and do not.
	Missing []Missing
	// Own is true for an endpoint at the same origin as the target.
	Own bool
	// Use is whether it says something about this target and should be read: a page with known
	// sources; an engine's on another port only when the target's own origin has none.
	Use bool
}

// Hint says how to get what is missing.
type Hint struct {
	// Source is the source that would be there, for people.
	Source string `json:"source"`
	// Text is what to do.
	Text string `json:"text"`
}

// Discovery is what was found around a target.
type Discovery struct {
	// Found are the endpoints that answered, those of the target itself first.
	Found []Found
	// Hints say how to get what is missing.
	Hints []Hint
	// Near is whether ports of the host were tried: only on this machine and in private networks.
	Near bool
	// Tried is the number of URLs asked.
	Tried int
}

// Targets returns what a Scraper should read of it, with the header that each may be sent.
func (d *Discovery) Targets(cfg DiscoverConfig) []Target {
	var out []Target
	for _, f := range d.Found {
		if f.Use {
			out = append(out, Target{Kind: f.Kind, URL: f.URL, Header: cfg.header(f.URL), TLS: cfg.TLS, Proxy: cfg.Proxy})
		}
	}
	return out
}

// header returns the header for a page, by the rule of the same origin.
func (c *DiscoverConfig) header(page string) http.Header {
	for _, t := range c.Targets {
		if SameOrigin(page, t) {
			return HeaderFor(page, nil, t, c.Header)
		}
	}
	return HeaderFor(page, nil, "", c.Header)
}

// candidate is one URL to try.
type candidate struct {
	url string
	own bool
}

// probed is what came of one candidate.
type probed struct {
	Found
	refused bool
	digest  [sha256.Size]byte
	server  string
	roles   roles
	drains  bool
}

// roles are the kinds of sources on a page.
type roles struct{ engine, gateway, accelerator, host bool }

// Discover looks for telemetry at the target's own origin and, on this machine and in private networks, at the
// usual ports of the target's host; it asks no other host. It sends GETs only, at most one to each URL. What it
// finds is in the order of the candidates, whatever answered first.
func Discover(ctx context.Context, cfg DiscoverConfig) (*Discovery, error) {
	if cfg.Clock == nil {
		return nil, errors.New("telemetry: want a clock")
	}
	if cfg.Limit <= 0 {
		cfg.Limit = discoverLimit
	}
	if cfg.Tables == nil {
		cfg.Tables = Builtin()
	}
	if len(cfg.Targets) > maxDiscoverTargets {
		cfg.Targets = cfg.Targets[:maxDiscoverTargets]
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Limit)
	defer cancel()
	client, err := newClient(cfg.Clock, stream.Config{
		TLS: cfg.TLS, Proxy: cfg.Proxy, Dial: cfg.Dial, MaxBody: discoverMaxBody, ConnectTimeout: cfg.Limit / discoverConnects,
	})
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	defer client.Close()

	d := &Discovery{}
	var all []candidate
	seen := map[string]bool{}
	var hosts []*url.URL
	for _, raw := range cfg.Targets {
		u, err := parsePageURL(raw)
		if err != nil {
			return nil, err
		}
		u.RawQuery, u.RawPath = "", ""
		hosts = append(hosts, u)
		for _, c := range ownCandidates(u, cfg.Tables) {
			if !seen[c.url] {
				seen[c.url] = true
				all = append(all, c)
			}
		}
	}
	// The host's ports after the origins of all targets, each of which is somebody's own.
	for _, u := range hosts {
		if !cfg.near(ctx, u.Hostname()) {
			continue
		}
		d.Near = true
		for _, c := range hostCandidates(u, cfg.Tables) {
			if !seen[c.url] && !slices.ContainsFunc(hosts, func(h *url.URL) bool { return SameOrigin(c.url, h.String()) }) {
				seen[c.url] = true
				all = append(all, c)
			}
		}
	}
	results := cfg.probe(ctx, client, all)
	d.Tried = len(all)
	d.settle(results)
	d.hints(results, cfg.Tables)
	return d, nil
}

// Candidates returns the URLs that Discover would ask, in its order; nothing is sent or looked up. Those of host are
// asked only where the host is this machine or in a private network.
func Candidates(targets []string, tables []*Table) (own, host []string, err error) {
	if tables == nil {
		tables = Builtin()
	}
	if len(targets) > maxDiscoverTargets {
		targets = targets[:maxDiscoverTargets]
	}
	var at []*url.URL
	for _, raw := range targets {
		u, err := parsePageURL(raw)
		if err != nil {
			return nil, nil, err
		}
		u.RawQuery, u.RawPath = "", ""
		at = append(at, u)
		for _, c := range ownCandidates(u, tables) {
			if !slices.Contains(own, c.url) {
				own = append(own, c.url)
			}
		}
	}
	for _, u := range at {
		for _, c := range hostCandidates(u, tables) {
			if !slices.Contains(host, c.url) && !slices.Contains(own, c.url) && !slices.ContainsFunc(at, func(h *url.URL) bool { return SameOrigin(c.url, h.String()) }) {
				host = append(host, c.url)
			}
		}
	}
	return own, host, nil
}

// ownCandidates are the pages that the target's own origin may have: beside the API
// and, where that is below a path, at the root.
func ownCandidates(u *url.URL, tables []*Table) []candidate {
	paths := slices.Clone(ownPaths)
	for _, t := range tables {
		for _, p := range t.Page {
			if _, path := splitPage(p); path != "" && !slices.Contains(paths, strings.TrimRight(path, "/")) {
				paths = append(paths, path)
			}
		}
	}
	base := strings.TrimRight(u.Path, "/")
	// Whatever follows /v1 is the API's.
	if i := strings.Index(base+"/", "/v1/"); i >= 0 {
		base = base[:i]
	}
	var out []candidate
	for _, prefix := range slices.Compact([]string{base, ""}) {
		for _, p := range paths {
			v := *u
			v.Path = prefix + p
			if c := (candidate{v.String(), true}); !slices.Contains(out, c) && len(out) < maxCandidates {
				out = append(out, c)
			}
		}
	}
	return out
}

// hostCandidates are the usual pages of the host, in the order of the ports.
func hostCandidates(u *url.URL, tables []*Table) []candidate {
	pages := slices.Clone(hostPages)
	for _, t := range tables {
		pages = append(pages, t.Page...)
	}
	type place struct {
		port int
		path string
	}
	var places []place
	for _, p := range pages {
		port, path := splitPage(p)
		// A path that only differs by the slash at its end is redirected to where that matters.
		if port != 0 {
			places = append(places, place{port, strings.TrimRight(path, "/")})
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.port, b.port), strings.Compare(a.path, b.path))
	})
	var out []candidate
	for _, p := range slices.Compact(places) {
		v := url.URL{Scheme: "http", Host: net.JoinHostPort(u.Hostname(), strconv.Itoa(p.port)), Path: p.path}
		if c := (candidate{v.String(), false}); !SameOrigin(c.url, u.String()) && len(out) < maxCandidates {
			out = append(out, c)
		}
	}
	return out
}

// splitPage takes ":8000/metrics" apart; what is not of that form gives nothing.
func splitPage(page string) (port int, path string) {
	rest, ok := strings.CutPrefix(page, ":")
	if !ok {
		if strings.HasPrefix(page, "/") {
			return 0, page
		}
		return 0, ""
	}
	text, path, _ := strings.Cut(rest, "/")
	port, err := strconv.Atoi(text)
	if err != nil || port < 1 || port > 65535 {
		return 0, ""
	}
	return port, "/" + path
}

// near says whether a host is this machine or in a private network: ports of a public service are not tried.
func (c *DiscoverConfig) near(ctx context.Context, host string) bool {
	if c.Dial != nil {
		return true
	}
	if c.Proxy != "" {
		return false
	}
	if isLocalhost(host) {
		return true
	}
	addrs := []netip.Addr{}
	if a, err := netip.ParseAddr(host); err == nil {
		addrs = append(addrs, a)
	} else {
		ctx, cancel := context.WithTimeout(ctx, c.Limit/discoverConnects)
		defer cancel()
		if addrs, err = net.DefaultResolver.LookupNetIP(ctx, "ip", host); err != nil {
			return false
		}
	}
	return len(addrs) > 0 && !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !private(a) })
}

// carrierGrade is the shared address space of RFC 6598, which clusters use as private.
var carrierGrade = netip.MustParsePrefix("100.64.0.0/10")

func private(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || carrierGrade.Contains(a)
}

// probe asks all candidates, a few at a time, and returns what came of each.
func (c *DiscoverConfig) probe(ctx context.Context, client *stream.Client, all []candidate) []probed {
	out := make([]probed, len(all))
	next := make(chan int)
	var group sync.WaitGroup
	for range min(discoverParallel, len(all)) {
		group.Go(func() {
			f := fetcher{client: client}
			for i := range next {
				out[i] = c.look(ctx, &f, all[i])
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	group.Wait()
	return out
}

// look asks one candidate.
func (c *DiscoverConfig) look(ctx context.Context, f *fetcher, from candidate) probed {
	out := probed{Found: Found{URL: from.url, Kind: KindPage, Own: from.own}}
	if ctx.Err() != nil {
		out.State, out.Why, out.refused = StateError, "there was no time left to ask", true
		return out
	}
	deadline, _ := ctx.Deadline()
	got := f.get(ctx, from.url, headerOf(c.header(from.url)), time.Until(deadline))
	out.State, out.Why, out.refused, out.server = got.state, got.why, got.refused, got.server
	if got.state != StateOK {
		if got.status == 0 && !from.own {
			out.refused = true // silence at a port that was only tried
		}
		return out
	}
	out.URL = got.url
	out.digest = sha256.Sum256(got.body)
	if looksLikeHTML(got.body) {
		out.State, out.Why = StateNotAPage, "the answer is HTML, a page for people"
		return out
	}
	r := NewReader(Options{Tables: c.Tables, WallZero: c.Clock.Start().UnixNano()})
	if _, err := r.Read(got.body, got.contentType, got.start, got.end, nil); err != nil {
		out.State, out.Why = StateNotAPage, oneLine(err.Error())
		return out
	}
	for _, t := range r.Tables() {
		out.Sources = append(out.Sources, t.Source)
		out.Titles = append(out.Titles, t.Title)
		out.roles.add(t)
		out.drains = out.drains || t.Drains
	}
	out.Missing = r.Missing()
	switch {
	case len(out.Sources) > 0:
		out.Use = true
	case from.own && emptyList(got.body):
		// TensorRT-LLM's statistics of no step at all: what comes later is recognised then.
		out.Use, out.roles.engine, out.drains = true, true, true
		out.Why = "an empty list, as TensorRT-LLM's server gives while it is idle"
	case isPrometheus(got.body):
		out.Kind, out.Titles = KindPrometheus, []string{"Prometheus"}
		out.URL = strings.TrimSuffix(out.URL, "/metrics")
		out.Why = "a Prometheus: name it with kind prometheus to read what it has"
	default:
		out.Why = "it is a page of telemetry, and no table knows what is on it"
	}
	return out
}

// emptyList says whether a body is the JSON list without elements.
func emptyList(b []byte) bool {
	b = bytes.TrimSpace(b)
	return len(b) >= 2 && b[0] == '[' && b[len(b)-1] == ']' && len(bytes.TrimSpace(b[1:len(b)-1])) == 0
}

// add notes what a source tells of.
func (r *roles) add(t *Table) {
	for name := range t.Signals {
		id, ok := signal.Lookup(name)
		if !ok {
			continue
		}
		switch id.Def().Group {
		case signal.Engine:
			r.engine = true
		case signal.Gateway:
			r.gateway = true
		case signal.Accelerator:
			r.accelerator = true
		case signal.Host:
			r.host = true
		}
	}
}

// settle keeps what answered, without what is the same page twice, and decides what to use.
func (d *Discovery) settle(all []probed) {
	engine := false
	for _, p := range all {
		engine = engine || p.Own && p.roles.engine
	}
	pages := map[[sha256.Size]byte]bool{}
	urls := map[string]bool{}
	for _, p := range all {
		if p.refused || urls[p.URL] || !p.Own && p.State != StateOK && p.State != StateAuthFailed {
			continue // something else listens at a port that was only tried
		}
		if p.State == StateOK && len(p.Sources) > 0 {
			if pages[p.digest] {
				continue // the same page under another path or port
			}
			pages[p.digest] = true
		}
		urls[p.URL] = true
		f := p.Found
		switch {
		case !f.Use || !p.roles.engine:
		case !f.Own && engine:
			f.Use, f.Why = false, "an engine on another port, while the target itself gives a page: it may serve others"
		case f.Own && p.drains:
			// Of two pages of one engine the one that can be read without taking anything away.
			for _, q := range all {
				if q.Own && q.Use && q.roles.engine && !q.drains && SameOrigin(q.URL, p.URL) {
					f.Use, f.Why = false, "it has the figures of the same engine as "+shownURL(q.URL)+", and reading it takes them away from others"
				}
			}
		}
		d.Found = append(d.Found, f)
	}
	d.sameOrigin()
}

// sameOrigin drops pages of the target's own origin that repeat the sources of one before, as /metrics
// and /v1/metrics of one server do, and what is no page where one was found.
func (d *Discovery) sameOrigin() {
	found := map[string][]string{} // origin to sources
	for _, f := range d.Found {
		if f.Own && f.State == StateOK {
			if u, err := url.Parse(f.URL); err == nil {
				found[origin(u)] = append(found[origin(u)], "")
			}
		}
	}
	said := map[string]bool{}
	d.Found = slices.DeleteFunc(d.Found, func(f Found) bool {
		u, err := url.Parse(f.URL)
		if err != nil || !f.Own {
			return false
		}
		o := origin(u)
		switch {
		case f.State == StateOK && f.Use:
			key := "of " + strings.Join(f.Sources, ",")
			if slices.Contains(found[o], key) {
				return true
			}
			found[o] = append(found[o], key)
			return false
		case f.State == StateOK:
			return false
		case len(found[o]) > 0 || said[o+string(f.State)]:
			return true // one line says it
		default:
			said[o+string(f.State)] = true
			return false
		}
	})
}

// hints says what would bring what is missing.
func (d *Discovery) hints(all []probed, tables []*Table) {
	var have roles
	own := false
	server := ""
	for _, f := range d.Found {
		own = own || f.Own && f.Use
	}
	for _, p := range all {
		if p.Own && server == "" {
			server = p.server
		}
		if p.State == StateOK && p.Use {
			have.engine = have.engine || p.roles.engine
			have.accelerator = have.accelerator || p.roles.accelerator
			have.host = have.host || p.roles.host
		}
	}
	if !have.engine && !own {
		said := map[string]bool{}
		for _, t := range tables {
			// What counts running requests is an engine, and not a cache or a link beside one.
			if t.Enable == "" || t.Signals[signal.RequestsRunning.String()] == nil || t.Like != "" || said[t.Enable] {
				continue
			}
			said[t.Enable] = true
			if strings.Contains(server, "llama.cpp") != (t.Source == "llamacpp") && server != "" && (strings.Contains(server, "llama.cpp") || t.Source == "llamacpp") {
				continue
			}
			d.Hints = append(d.Hints, Hint{Source: t.Title, Text: t.Enable})
		}
	}
	if d.Near && !have.accelerator {
		d.Hints = append(d.Hints, Hint{Source: "accelerator", Text: "run dcgm-exporter -c 1000 (NVIDIA) or the vendor's exporter on the host: activity of the units, memory, power, clocks"})
	}
	if d.Near && !have.host {
		d.Hints = append(d.Hints, Hint{Source: "host", Text: "run node_exporter on the host: processors, memory, network"})
	}
}
