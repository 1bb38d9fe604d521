package conduct

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"plimsoll/internal/clock"
	"plimsoll/internal/scenario"
	"plimsoll/internal/telemetry"
)

// Tables reads the user's own telemetry tables; none give nil.
func Tables(files []string, readFile func(string) ([]byte, error)) ([]*telemetry.Table, error) {
	var out []*telemetry.Table
	for _, name := range files {
		data, err := readFile(name)
		if err != nil {
			return nil, fmt.Errorf("data.telemetry-tables: %w", err)
		}
		t, err := telemetry.LoadTable(name, data)
		if err != nil {
			return nil, fmt.Errorf("data.telemetry-tables: %w", err)
		}
		out = append(out, t)
	}
	return out, nil
}

// pages is what a scenario says of telemetry, ready to be read.
type pages struct {
	data *scenario.Data
	// tables are all that pages are recognised by, nil for the built-in ones alone.
	tables []*telemetry.Table
	// auto says that the endpoints' hosts are searched, named are the pages that
	// the user named, in their order.
	auto  bool
	named []telemetry.Target
	// urls are the endpoints of the load.
	urls   []string
	access *Access
	limits Limits
}

// newPages prepares the telemetry of a scenario. Nothing is sent. The secrets of
// pages become secrets of access.
func newPages(s *scenario.Scenario, access *Access, lookup func(string) (string, bool), readFile func(string) ([]byte, error)) (*pages, error) {
	p := &pages{data: &s.Data, urls: s.Target.URL, access: access}
	if s.Data.TelemetryOff() {
		return p, nil
	}
	own, err := Tables(s.Data.TelemetryTables, readFile)
	if err != nil {
		return nil, err
	}
	if own != nil {
		p.tables = append(telemetry.Builtin(), own...)
	}
	for i := range s.Data.Telemetry {
		page := &s.Data.Telemetry[i]
		if page.URL == scenario.Auto {
			p.auto = true
			continue
		}
		t, err := p.target(page, fmt.Sprintf("data.telemetry[%d]", i), lookup, readFile)
		if err != nil {
			return nil, err
		}
		p.named = append(p.named, t)
	}
	return p, nil
}

// target returns how a named page is read. The key of the endpoint goes to the
// same origin alone.
func (p *pages) target(page *scenario.Page, path string, lookup func(string) (string, bool), readFile func(string) ([]byte, error)) (telemetry.Target, error) {
	a, err := newAccess(path, &scenario.Target{
		URL: []string{page.URL}, APIKeyEnv: page.APIKeyEnv, Header: page.Header,
		CA: page.CA, Cert: page.Cert, Key: page.Key, Insecure: page.Insecure, Proxy: p.access.Proxy,
	}, lookup, readFile)
	if err != nil {
		return telemetry.Target{}, err
	}
	for _, secret := range a.secrets {
		p.access.hide(secret)
	}
	t := telemetry.Target{
		Kind: telemetry.KindPage, URL: page.URL, Header: a.Header, TLS: a.TLS, Proxy: a.Proxy, Match: page.Match,
	}
	if page.Kind == scenario.PagePrometheus {
		t.Kind = telemetry.KindPrometheus
	}
	for _, endpoint := range p.urls {
		if telemetry.SameOrigin(page.URL, endpoint) {
			t.Header = telemetry.HeaderFor(page.URL, a.Header, endpoint, p.access.Header)
			if t.TLS == nil {
				t.TLS = p.access.TLS
			}
			break
		}
	}
	return t, nil
}

// search is what Discover is asked.
func (p *pages) search(c *clock.Clock) telemetry.DiscoverConfig {
	return telemetry.DiscoverConfig{
		Targets: p.urls, Header: p.access.Header, TLS: p.access.TLS, Proxy: p.access.Proxy, Clock: c, Tables: p.tables, Limit: p.limits.Search,
	}
}

// find returns everything to read: what was found around the endpoints, the pages
// that the user named, and this machine itself. The discovery is nil when there
// was none.
func (p *pages) find(ctx context.Context, c *clock.Clock) ([]telemetry.Target, *telemetry.Discovery, error) {
	if p.data.TelemetryOff() {
		return nil, nil, nil
	}
	var out []telemetry.Target
	var found *telemetry.Discovery
	if p.auto {
		cfg := p.search(c)
		d, err := telemetry.Discover(ctx, cfg)
		if err != nil {
			return nil, nil, err
		}
		found = d
		for _, t := range d.Targets(cfg) {
			if !slices.ContainsFunc(p.named, func(n telemetry.Target) bool { return telemetry.SamePage(n.URL, t.URL) }) {
				out = append(out, t)
			}
		}
	}
	out = append(out, p.named...)
	return append(out, telemetry.Target{Kind: telemetry.KindHost}), found, nil
}

// Limits are bounds of what a run waits for of telemetry; 0 means the usual ones.
type Limits struct {
	// Edge and Stop bound the readings before the first request and after the last, Stop
	// those after the last where the run was asked to stop: 6 s and 1 s.
	Edge, Stop time.Duration
	// Read bounds one reading, Search the search for pages: 5 s at the edges and 10 s
	// between them, and 2 s.
	Read, Search time.Duration
}

// readings is the telemetry of one run while it goes on; nil reads nothing. Whatever the servers do, it neither fails the run nor holds it up for
// longer than Limits.Edge at either end.
type readings struct {
	limits  Limits
	scraper *telemetry.Scraper
	tap     *tap
	every   time.Duration
	clock   *clock.Clock
	self    int // the index of this machine among the sources
}

// newReadings prepares to read targets. Where the samples go is set before begin.
func newReadings(targets []telemetry.Target, p *pages, c *clock.Clock) (*readings, error) {
	r := &readings{tap: new(tap), every: p.data.TelemetryInterval, clock: c, limits: p.limits}
	if r.limits.Edge == 0 {
		r.limits.Edge = 6 * time.Second
	}
	if r.limits.Stop == 0 {
		r.limits.Stop = time.Second
	}
	r.self = slices.IndexFunc(targets, func(t telemetry.Target) bool { return t.Kind == telemetry.KindHost })
	var err error
	r.scraper, err = telemetry.New(telemetry.Config{
		Targets: targets, Clock: c, Sink: r.tap, Tables: p.tables, Every: p.data.TelemetryInterval,
		ReadFile: os.ReadFile, AskClocks: true, Timeout: p.limits.Read, Edge: p.limits.Read,
	})
	return r, err
}

// host returns the index of this machine among the sources.
func (r *readings) host() int {
	if r == nil {
		return 0
	}
	return r.self
}

// begin reads the totals before the first request, unless stop is closed, and goes
// on reading. Ctx is that of the run.
func (r *readings) begin(ctx context.Context, stop <-chan struct{}) {
	if r == nil {
		return
	}
	edge, cancel := context.WithTimeout(ctx, r.limits.Edge)
	defer cancel()
	go func() {
		select {
		case <-stop:
			cancel()
		case <-edge.Done():
		}
	}()
	r.scraper.Baseline(edge)
	r.scraper.Start(ctx)
}

// end reads the totals after the last request and stops reading. Where the user
// waits for the end it takes less long.
func (r *readings) end(ctx context.Context, stop <-chan struct{}) {
	if r == nil {
		return
	}
	limit := r.limits.Edge
	select {
	case <-stop:
		limit = r.limits.Stop
	default:
	}
	edge, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r.scraper.Final(edge)
	r.scraper.Close()
}

// info returns what became of each source, without the secrets of access, which
// servers repeat.
func (r *readings) info(access *Access) []telemetry.SourceInfo {
	if r == nil {
		return nil
	}
	out := r.scraper.Info()
	for i := range out {
		s := &out[i]
		s.Why = access.Redact(s.Why)
		for j := range s.Gaps {
			s.Gaps[j].Why = access.Redact(s.Gaps[j].Why)
		}
		for j := range s.Problems {
			s.Problems[j].Text = access.Redact(s.Problems[j].Text)
		}
	}
	return out
}

// now returns what the servers said in the last readings, nil for nothing.
func (r *readings) now() *ServerNow {
	if r == nil {
		return nil
	}
	return r.tap.now(r.clock.Now() - int64(max(5*time.Second, 3*r.every)))
}
