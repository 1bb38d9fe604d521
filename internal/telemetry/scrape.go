package telemetry

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"plimsoll/internal/clock"
	"plimsoll/internal/signal"
	"plimsoll/internal/stream"
)

const (
	// DefaultEvery is the time between two readings of an endpoint.
	DefaultEvery = time.Second
	// MinEvery is the shortest time between two readings.
	MinEvery = 10 * time.Millisecond
	// DefaultTimeout bounds one reading. Exporters that run a program for each take a second and more.
	DefaultTimeout = 10 * time.Second
	// edgeTimeout is the usual Config.Edge.
	edgeTimeout = 5 * time.Second
	// lastTry bounds the reading after a run of an endpoint that has never given anything.
	lastTry = time.Second
	// MaxTargets bounds the endpoints of a Scraper.
	MaxTargets = 4096
	// MaxCourses bounds the courses of values that all endpoints of a Scraper declare during a run: each takes memory
	// until its end. One page may have its share of them within leastCourses, 13 engines of 600, and mostCourses, 54.
	MaxCourses   = 1 << 17
	leastCourses = 1 << 13
	mostCourses  = 1 << 15

	// A reading that takes longer than slowTime of the server's, or gives more than heavyBytes or heavySeries, costs
	// the server too much at the period asked for (a Python server streams nothing meanwhile: telemetry.md, 31); at twice the period it
	// may cost twice that, so that the share of the server's time that reading takes stays below 50 ms in a second.
	slowTime    = 50 * time.Millisecond
	heavyBytes  = 2 << 20
	heavySeries = 20_000
	// One reading alone may have met a pause of anybody's: it takes slowInRow of them, or one of vastly that much.
	slowInRow = 2
	vastly    = 8
	// The period stays below maxSlower times what was asked for, or below maxPeriod where that is more: a long gap would
	// hide just what slows the server.
	maxSlower = 8
	maxPeriod = 10 * time.Second
	// After goodReadings in a row that half the period would bear as well, the period is
	// halved; each time that turns out wrong the number doubles, up to mostGoodReadings.
	goodReadings     = 5
	mostGoodReadings = 80
	// pythonEvery is the shortest period at which a reading that takes noticeable time is not remarked upon.
	pythonEvery = 250 * time.Millisecond
)

// Target is one endpoint to be read.
type Target struct {
	// Kind is what answers there; KindPage when empty.
	Kind Kind
	// URL is the page (/metrics where it has no path), or the base of a Prometheus ("http://prom:9090", also with a path
	// before /api/v1). Unused for KindHost.
	URL string
	// Header is sent with each reading: keys, X-Scope-OrgID. See HeaderFor.
	Header http.Header
	// TLS has the CA, the client's certificate or InsecureSkipVerify; nil means the system's roots.
	TLS *tls.Config
	// Proxy is the URL of an HTTP proxy, "" for none. The environment is never consulted.
	Proxy string
	// Every is the time between readings; 0 means Config.Every.
	Every time.Duration
	// Match are labels that the series of a Prometheus must have: it may watch more than one service.
	Match map[string]string
	// Queries are further PromQL expressions for a Prometheus.
	Queries []Query
}

// Query is a PromQL expression whose values are kept as a signal.
type Query struct {
	// Name is a canonical signal, or any other name under which the values are kept as they are.
	Name string
	// Expr is the expression; it gives an instant vector or a scalar.
	Expr string
}

// Config says what a Scraper reads and where the values go.
type Config struct {
	// Targets are the endpoints; their order gives the Source of their series.
	Targets []Target
	// Clock is the run's clock. The grid starts at its start instant.
	Clock *clock.Clock
	// Sink takes the series and samples. It is called by several goroutines at once.
	Sink signal.Sink
	// Tables are what pages are read by; nil means the built-in ones.
	Tables []*Table
	// Every is the period of the grid; 0 means DefaultEvery.
	Every time.Duration
	// Timeout bounds one reading; 0 means DefaultTimeout.
	Timeout time.Duration
	// Edge bounds one reading before or after the run, which somebody waits for; 0 means 5 s. Timeout bounds it as well.
	Edge time.Duration
	// MaxBody and MaxSeries bound what is used of one page; 0 means DefaultMaxBody, of a Prometheus' answer
	// DefaultMaxAnswer, and DefaultMaxSeries.
	MaxBody   int64
	MaxSeries int
	// AskClocks asks pages that come quickly a few times more, between the points of the grid, until their Date tells
	// how far the server's clock is away to some ms; nothing else of these answers is used.
	AskClocks bool
	// Dial replaces the dialler (tests, fake time).
	Dial Dial
	// ReadFile reads the files of /proc and /sys for KindHost, which needs it.
	ReadFile func(name string) ([]byte, error)
}

// Scraper reads endpoints on one fixed grid: at multiples of the period since the start of the run's clock, whatever a
// reading takes, so that all sources are sampled at the same instants. One that is late leaves
// points out and is never caught up on. It has one goroutine per endpoint, and parses pages on a quarter of the
// processors at most, one at a time on a small machine: the load comes first, and when a page was fetched is known before.
//
// Call Baseline, Start, Final and Close in this order; Start alone does as well.
type Scraper struct {
	cfg     Config
	sources []*source
	connect connect
	parsing chan struct{} // of those that parse a page
	courses atomic.Int64  // declared by all sources

	cancel  context.CancelFunc
	started int64 // on the run's clock, MaxInt64 before Start
	group   sync.WaitGroup
}

// connect makes what connects, one for all targets with the same way there.
type connect struct {
	mu      sync.Mutex // guards clients
	clients map[way]*stream.Client
}

// way is how a target is reached.
type way struct {
	tls   *tls.Config
	proxy string
	// fresh makes a new connection for each request: one that dies on a connection that was used before would be sent
	// again, which must not happen to a page that reading empties.
	fresh bool
	body  int64 // the limit of one answer
}

// limit returns how large an answer of an endpoint may be.
func (s *Scraper) limit(k Kind) int64 {
	switch {
	case s.cfg.MaxBody > 0:
		return s.cfg.MaxBody
	case k == KindPrometheus:
		return DefaultMaxAnswer
	}
	return DefaultMaxBody
}

// room returns what counts the courses that one source declares.
func (s *Scraper) room(k Kind) func() bool {
	left := min(max(MaxCourses/max(1, len(s.cfg.Targets)), leastCourses), mostCourses)
	if k == KindPrometheus {
		left = MaxCourses // it has the pages of many
	}
	return func() bool {
		if left <= 0 || s.courses.Add(1) > MaxCourses {
			return false
		}
		left--
		return true
	}
}

func (s *Scraper) client(w way) (*stream.Client, error) {
	s.connect.mu.Lock()
	defer s.connect.mu.Unlock()
	if c := s.connect.clients[w]; c != nil {
		return c, nil
	}
	c, err := newClient(s.cfg.Clock, stream.Config{
		TLS: w.tls, Proxy: w.proxy, Dial: s.cfg.Dial, MaxBody: w.body, NewConnection: w.fresh,
		ConnectTimeout: min(s.cfg.Timeout, s.cfg.Edge),
	})
	if err != nil {
		return nil, err
	}
	if s.connect.clients == nil {
		s.connect.clients = map[way]*stream.Client{}
	}
	s.connect.clients[w] = c
	return c, nil
}

// source is one endpoint.
type source struct {
	s      *Scraper
	target Target
	reader sourceReader
	back   backoff

	declared    bool
	up, seconds int32 // the series about the reading itself
	size, count int32
	clocks      map[string]int32 // by labels
	one         [4]signal.Sample

	busy sync.Mutex // held during a reading

	mu     sync.Mutex // guards the fields below
	info   SourceInfo
	notes  notes
	clock  clockReadings
	total  int64 // of the times of readings
	lastOK int64 // the end of the last good reading
	gap    bool  // the last gap is open
}

// reading is one reading of an endpoint.
type reading struct {
	state State
	why   string
	// start and end bound the instant of the values, in ns of the run's clock.
	start, end int64
	// cost is the time that the server took, bytes and series the size.
	cost   int64
	bytes  int64
	series int
	rtt    int64
	url    string // where the page is after redirects, "" when as asked

	// idle is true when nothing new could be had and nothing was asked; requests counts what was sent by a reader that asks more than once.
	idle     bool
	requests int

	sources      []string
	gateways     []string
	missing      func() []Missing
	problems     []SourceProblem
	restarts     int64
	clocks       []ClockReading
	drains       bool
	ownTimes     bool
	updateEvery  int64
	processStart int64
}

// sourceReader reads one kind of endpoint; Declare and Add of sink are called with its own Source already set.
type sourceReader interface {
	read(ctx context.Context, sink signal.Sink, timeout time.Duration, r *reading)
}

// New returns a Scraper; nothing is sent before Baseline or Start. It fails when a target makes no sense.
func New(cfg Config) (*Scraper, error) {
	if cfg.Clock == nil || cfg.Sink == nil {
		return nil, errors.New("telemetry: want a clock and a sink")
	}
	if len(cfg.Targets) > MaxTargets {
		return nil, fmt.Errorf("telemetry: %d endpoints, at most %d can be read", len(cfg.Targets), MaxTargets)
	}
	if cfg.Every == 0 {
		cfg.Every = DefaultEvery
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Edge <= 0 {
		cfg.Edge = edgeTimeout
	}
	if cfg.MaxSeries <= 0 {
		cfg.MaxSeries = DefaultMaxSeries
	}
	s := &Scraper{cfg: cfg, started: math.MaxInt64, parsing: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/4))}
	for i, t := range cfg.Targets {
		if t.Kind == "" {
			t.Kind = KindPage
		}
		if t.Every == 0 {
			t.Every = cfg.Every
		}
		if t.Every < MinEvery {
			return nil, fmt.Errorf("telemetry %s: every %v: want at least %v", shownURL(t.URL), t.Every, MinEvery)
		}
		src := &source{s: s, target: t, back: newBackoff(int64(t.Every))}
		src.info = SourceInfo{
			Index: i, Kind: t.Kind, State: StateUnread,
			PeriodAsked: int64(t.Every), Period: int64(t.Every),
		}
		src.lastOK = math.MinInt64
		if t.Kind == KindHost {
			if cfg.ReadFile == nil {
				return nil, errors.New("telemetry: want ReadFile for the host's own files")
			}
			src.info.Name = "localhost"
			src.reader = newHost(cfg.Clock, cfg.ReadFile)
			s.sources = append(s.sources, src)
			continue
		}
		u, err := parsePageURL(t.URL)
		if err != nil {
			return nil, err
		}
		if t.Kind == KindPage && strings.Trim(u.Path, "/") == "" {
			u.Path, u.RawPath = "/metrics", ""
			t.URL = u.String()
			src.target.URL = t.URL
		}
		src.info.URL = shownURL(t.URL)
		src.info.Name = u.Host
		if p := strings.TrimRight(u.Path, "/"); p != "/metrics" && p != "" {
			src.info.Name += p
		}
		client, err := s.client(way{tls: t.TLS, proxy: t.Proxy, body: s.limit(t.Kind)})
		if err != nil {
			return nil, fmt.Errorf("telemetry %s: %w", src.info.URL, err)
		}
		switch t.Kind {
		case KindPage:
			src.reader = newPage(s, client, t, i)
		case KindPrometheus:
			src.reader, err = newPrometheus(s, client, t, i)
		default:
			err = fmt.Errorf("telemetry %s: kind %q: want page, prometheus or host", src.info.URL, t.Kind)
		}
		if err != nil {
			return nil, err
		}
		s.sources = append(s.sources, src)
	}
	return s, nil
}

// Baseline reads every endpoint once, all at the same time, and returns when each has answered or
// failed, or at the end of ctx: the totals before the first request. What cannot be read is said in Info; it is no error.
func (s *Scraper) Baseline(ctx context.Context) { s.once(ctx, false) }

// Start begins reading on the grid; the end of ctx, Final or Close end it.
func (s *Scraper) Start(ctx context.Context) {
	if s.cancel != nil {
		panic("BUG: Start called twice")
	}
	ctx, s.cancel = context.WithCancel(ctx)
	s.started = s.cfg.Clock.Now()
	for _, src := range s.sources {
		s.group.Go(func() { src.loop(ctx) })
	}
}

// Final ends the reading on the grid and reads every endpoint once more: the totals after the last request.
func (s *Scraper) Final(ctx context.Context) {
	s.stop()
	s.once(ctx, true)
}

// Close ends all reading, waits for it and closes the connections.
func (s *Scraper) Close() {
	s.stop()
	s.connect.mu.Lock()
	defer s.connect.mu.Unlock()
	for _, c := range s.connect.clients {
		c.Close()
	}
}

func (s *Scraper) stop() {
	if s.cancel != nil {
		s.cancel()
	}
	s.group.Wait()
}

func (s *Scraper) once(ctx context.Context, last bool) {
	var group sync.WaitGroup
	for _, src := range s.sources {
		group.Go(func() {
			if f, ok := src.reader.(interface {
				settle(ctx context.Context)
			}); ok && last {
				f.settle(ctx)
			}
			timeout := min(s.cfg.Timeout, s.cfg.Edge)
			if last && src.state() != StateOK {
				timeout = min(timeout, lastTry)
			}
			src.read(ctx, timeout, last)
		})
	}
	group.Wait()
}

// Info returns what is known of every endpoint, in the order of the targets. It may be
// called at any time; the result is the caller's.
func (s *Scraper) Info() []SourceInfo {
	out := make([]SourceInfo, len(s.sources))
	for i, src := range s.sources {
		src.mu.Lock()
		out[i] = src.info.clone()
		out[i].Clock = append([]ClockReading(nil), src.clock.list...)
		src.mu.Unlock()
	}
	return out
}

// loop reads one endpoint at the points of its grid until ctx ends.
func (src *source) loop(ctx context.Context) {
	c := src.s.cfg.Clock
	at, period := int64(math.MinInt64), src.back.period
	for {
		next := gridAfter(c.Now(), src.back.period)
		if at != math.MinInt64 && period == src.back.period {
			if n := (next-at)/period - 1; n > 0 {
				src.skipped(n)
			}
		}
		at, period = next, src.back.period
		if c.SleepUntil(ctx, at) != nil {
			return
		}
		src.read(ctx, src.s.cfg.Timeout, false)
		if ctx.Err() != nil {
			return
		}
		src.askClock(ctx, gridAfter(c.Now(), src.back.period))
	}
}

// gridAfter returns the first multiple of period after now.
func gridAfter(now, period int64) int64 {
	n := now / period
	if now < 0 && now%period != 0 {
		n--
	}
	return (n + 1) * period
}

func (src *source) state() State {
	src.mu.Lock()
	defer src.mu.Unlock()
	return src.info.State
}

func (src *source) skipped(n int64) {
	src.mu.Lock()
	src.info.Skipped += n
	src.mu.Unlock()
}

// read reads the endpoint once and notes what came of it.
func (src *source) read(ctx context.Context, timeout time.Duration, last bool) {
	src.busy.Lock()
	defer src.busy.Unlock()
	if ctx.Err() != nil {
		return
	}
	sink := ownSink{src.s.cfg.Sink, src.info.Index}
	var r reading
	src.reader.read(ctx, sink, timeout, &r)
	if r.idle {
		return
	}
	if ctx.Err() != nil && r.state != StateOK {
		return // the run is over; that it was cut short says nothing of the endpoint
	}
	src.declare(sink)
	src.about(sink, &r)
	change := src.back.after(&r)
	src.note(&r, change, last)
}

// declare makes the series about the reading known.
func (src *source) declare(sink signal.Sink) {
	if src.declared {
		return
	}
	src.declared = true
	src.up = sink.Declare(signal.Series{Signal: signal.ScrapeUp})
	src.seconds = sink.Declare(signal.Series{Signal: signal.ScrapeTime})
	src.size = sink.Declare(signal.Series{Signal: signal.ScrapeBytes})
	src.count = sink.Declare(signal.Series{Signal: signal.ScrapeSeries})
	src.clocks = map[string]int32{}
}

// about hands on the cost and the success of a reading, and what it showed of the source's clock.
func (src *source) about(sink signal.Sink, r *reading) {
	sample := func(series int32, v float64) signal.Sample {
		return signal.Sample{Series: series, Start: r.start, End: r.end, Value: v}
	}
	if r.state != StateOK {
		src.one[0] = sample(src.up, 0)
		sink.Add(src.one[:1])
		return
	}
	src.one = [4]signal.Sample{
		sample(src.up, 1), sample(src.seconds, float64(r.cost)/1e9),
		sample(src.size, float64(r.bytes)), sample(src.count, float64(r.series)),
	}
	sink.Add(src.one[:])
	src.tell(sink, r.clocks)
}

// note writes down what a reading was like.
func (src *source) note(r *reading, change *Backoff, last bool) {
	src.mu.Lock()
	defer src.mu.Unlock()
	i := &src.info
	for _, p := range r.problems {
		src.notes.problem(i, p)
	}
	i.Period = src.back.period
	if change != nil {
		i.BackoffCount++
		if len(i.Backoffs) < MaxNotes {
			i.Backoffs = append(i.Backoffs, *change)
		}
	}
	if r.rtt > 0 {
		i.RTT = r.rtt
	}
	i.Up = r.state == StateOK
	if !i.Up {
		i.Failures++
		i.Why = r.why
		if i.State != StateOK {
			i.State = r.state
		}
		if i.Drains {
			src.notes.problem(i, SourceProblem{Text: "a reading failed: what the server had kept for it may be lost", Count: 1})
		}
		src.openGap(r)
		return
	}
	i.State, i.Why = StateOK, ""
	i.Scrapes++
	src.total += r.cost
	i.MeanTime = src.total / i.Scrapes
	i.MaxTime = max(i.MaxTime, r.cost)
	i.Bytes, i.Series = r.bytes, r.series
	if r.url != "" {
		i.URL = shownURL(r.url)
	}
	if r.missing != nil && (last || i.Scrapes == 1 || !slices.Equal(i.Sources, r.sources)) {
		i.Missing = r.missing()
	}
	i.Sources, i.Gateways = r.sources, r.gateways
	if r.processStart != 0 {
		i.ProcessStart = r.processStart
	}
	i.Restarts += r.restarts
	i.Drains = i.Drains || r.drains
	i.OwnTimes = i.OwnTimes || r.ownTimes
	if r.updateEvery > 0 {
		i.UpdateEvery = r.updateEvery
	}
	for _, c := range r.clocks {
		src.clock.add(c)
	}
	src.closeGap(r)
}

// openGap begins a gap with a failed reading, if none is open.
func (src *source) openGap(r *reading) {
	if src.gap {
		return
	}
	src.gap = true
	src.info.GapCount++
	from := src.lastOK
	if from == math.MinInt64 {
		from = r.start
	}
	if len(src.info.Gaps) < MaxNotes {
		src.info.Gaps = append(src.info.Gaps, Gap{From: from, To: Open, Why: r.why})
	}
}

// closeGap ends the open gap with a good reading, and notes one that came of waiting too long.
func (src *source) closeGap(r *reading) {
	i := &src.info
	switch {
	case src.gap:
		src.gap = false
		if n := len(i.Gaps); n > 0 && i.Gaps[n-1].To == Open {
			i.Gaps[n-1].To = r.start
		}
	case src.lastOK >= src.s.started && r.start-src.lastOK > 2*max(src.back.period, i.UpdateEvery):
		i.GapCount++
		if len(i.Gaps) < MaxNotes {
			i.Gaps = append(i.Gaps, Gap{From: src.lastOK, To: r.start, Why: "readings took longer than the time between them"})
		}
	}
	src.lastOK = r.end
}

// ownSink sets the source of the series that pass.
type ownSink struct {
	signal.Sink
	source int
}

// Declare makes a series of the source known.
func (o ownSink) Declare(s signal.Series) int32 {
	s.Source = o.source
	return o.Sink.Declare(s)
}

// backoff lengthens the time between readings that cost the server too much, and shortens it again.
type backoff struct {
	asked, period int64
	slow          int  // readings in a row that cost too much
	good, need    int  // those that half the period would bear, and how many of them it takes
	recovered     bool // the last change was to read more often
}

func newBackoff(period int64) backoff {
	return backoff{asked: period, period: period, need: goodReadings}
}

// load returns what a reading costs, 1 being as much as may be at the period asked for, and the reason for people.
func (r *reading) load() (float64, string) {
	load, why := 0.0, ""
	more := func(v float64, text func() string) {
		if v > load {
			load = v
			if v > 1 {
				why = text()
			}
		}
	}
	cost := time.Duration(r.cost - r.rtt)
	more(float64(cost)/float64(slowTime), func() string {
		return fmt.Sprintf("reading takes %v", cost.Round(time.Millisecond))
	})
	if r.state == StateOK {
		more(float64(r.bytes)/heavyBytes, func() string { return fmt.Sprintf("the page has %d bytes", r.bytes) })
		more(float64(r.series)/heavySeries, func() string { return fmt.Sprintf("the page has %d series", r.series) })
	}
	return load, why
}

// after takes one reading into account and returns the change of the period, if there is one.
func (b *backoff) after(r *reading) *Backoff {
	load, why := r.load()
	slower := float64(b.period) / float64(b.asked)
	switch {
	case load > slower:
		b.good = 0
		if b.slow++; b.slow < slowInRow && load < vastly*slower {
			return nil
		}
		b.slow = 0
		if 2*b.period > max(maxSlower*b.asked, int64(maxPeriod)) {
			return nil
		}
		if b.recovered { // too early
			b.need, b.recovered = min(2*b.need, mostGoodReadings), false
		}
		b.period *= 2
		return &Backoff{At: r.end, Period: b.period, Why: why + ": read half as often"}
	case b.period > b.asked && r.state == StateOK && load < 0.8*slower/2:
		b.slow = 0
		if b.good++; b.good < b.need {
			return nil
		}
		b.good, b.recovered = 0, true
		b.period = max(b.period/2, b.asked)
		return &Backoff{At: r.end, Period: b.period, Why: "reading is quick again"}
	default:
		b.slow, b.good = 0, 0
		return nil
	}
}

// pageSource reads one exposition page.
type pageSource struct {
	s      *Scraper
	fetch  fetcher
	way    way
	url    string
	header http.Header
	every  time.Duration
	reader *Reader
	warned bool
	dates  dates
	last   int64 // of a page that drains: the number of the last step seen
}

func newPage(s *Scraper, client *stream.Client, t Target, source int) *pageSource {
	return &pageSource{
		s: s, fetch: fetcher{client: client}, way: way{tls: t.TLS, proxy: t.Proxy, body: s.limit(KindPage)}, url: t.URL, header: headerOf(t.Header), every: t.Every,
		reader: NewReader(Options{
			Tables: s.cfg.Tables, MaxSeries: s.cfg.MaxSeries, WallZero: s.cfg.Clock.Start().UnixNano(),
			Source: func(*Table) int { return source }, Room: s.room(KindPage),
		}),
	}
}

func (p *pageSource) read(ctx context.Context, sink signal.Sink, timeout time.Duration, r *reading) {
	f := p.fetch.get(ctx, p.url, p.header, timeout)
	r.fetched(&f, p.fetch.rtt)
	if f.state != StateOK {
		return
	}
	if f.url != p.url {
		p.url, r.url = f.url, f.url // from now on without the detour
	}
	if f.cut {
		r.problem(0, fmt.Sprintf("the page is larger than %d bytes: the rest is not read", p.way.body), 1)
	}
	if !p.way.fresh && looksLikeJSON(f.body) {
		p.way.fresh = true
		if c, err := p.s.client(p.way); err == nil { // it has worked with the same configuration
			p.fetch.client = c
		}
	}
	if looksLikeHTML(f.body) {
		r.state, r.why = StateNotAPage, "the answer is HTML, a page for people"
		return
	}
	if !p.s.parse(ctx) {
		r.state = StateError
		return
	}
	info, err := p.reader.Read(f.body, f.contentType, f.start, f.end, sink)
	p.s.parsed()
	r.read(&info)
	if err != nil {
		r.state, r.why = StateNotAPage, oneLine(err.Error())
		return
	}
	r.known(p.reader)
	if r.drains {
		p.count(f.body, r)
	}
	r.date(&f)
	if t, ok := nodeTime(f.body); ok {
		r.clock(ClockTime, &f, t, 1e6)
	}
	if info.Timestamps > 0 {
		r.ownTimes = true
		r.clock(ClockSample, &f, info.Newest, 1e6)
	}
	p.dates.see(p.s.cfg.Clock.Start(), r)
	if len(r.sources) == 0 && info.Series > 0 {
		text := "no table knows any name on this page"
		if isPrometheus(f.body) {
			text = "this is the page of a Prometheus about itself: give kind prometheus to read what it has of others"
		}
		r.problem(0, text, 1)
	}
	if p.every < pythonEvery && !p.warned && r.cost-r.rtt > int64(p.every)/10 {
		p.warned = true
		r.problem(0, fmt.Sprintf("asked every %v for a page that takes %v: a server that writes it between its answers holds them up for as long",
			p.every, time.Duration(r.cost-r.rtt).Round(100*time.Microsecond)), 1)
	}
}

// count looks for steps that are missing between this page and the one before.
func (p *pageSource) count(body []byte, r *reading) {
	first, last, ok := steps(body)
	if !ok {
		return
	}
	if lost := first - p.last - 1; p.last > 0 && lost > 0 {
		r.problem(0, "steps are missing between two readings: somebody else reads this page too, which takes them away, or the server keeps too few", lost)
	}
	p.last = last
}

// stepName is the number of a step in TensorRT-LLM's statistics.
var stepName = []byte(`"iter"`)

// steps returns the numbers of the first and the last step on a page.
func steps(body []byte) (first, last int64, ok bool) {
	for {
		i := bytes.Index(body, stepName)
		if i < 0 {
			return first, last, ok
		}
		body = bytes.TrimLeft(body[i+len(stepName):], " \t\r\n:")
		n := 0
		for n < len(body) && n < 18 && body[n] >= '0' && body[n] <= '9' {
			n++
		}
		if v, err := strconv.ParseInt(string(body[:n]), 10, 64); err == nil {
			if !ok {
				first, ok = v, true
			}
			last = v
		}
	}
}

// fetched takes over what a request was like.
func (r *reading) fetched(f *fetched, rtt int64) {
	r.state, r.why = f.state, f.why
	r.start, r.end, r.cost, r.rtt = f.start, f.end, f.took(), rtt
	r.bytes = max(f.wire, int64(len(f.body)))
}

// read takes over what the reader says of a page.
func (r *reading) read(info *PageInfo) {
	r.series += info.Series
	r.restarts += int64(info.Restarts)
	if info.Start != 0 {
		r.processStart = info.Start
	}
	for _, p := range info.Problems {
		r.problem(p.Line, oneLine(p.Text), 1)
	}
	for _, x := range []struct {
		n     int
		text  string
		first string
	}{
		{info.NaN, "values that are NaN or infinite are left out", info.FirstNaN},
		{info.Duplicate, "of series that stand on the page twice the first is used", ""},
		{info.OutOfRange, "values that cannot be true are left out", info.FirstOutOfRange},
		{info.NoRoom, noRoom, ""},
	} {
		if x.n == 0 {
			continue
		}
		if x.first != "" {
			x.text += ", first " + oneLine(x.first)
		}
		r.problem(0, x.text, int64(x.n))
	}
}

// noRoom says that a source has more courses of values than one may.
const noRoom = "so many names and labels came up during the run, as where labels change with every reading, that values of new ones are left out"

// known takes over which sources the reader has recognised.
func (r *reading) known(reader *Reader) {
	for _, t := range reader.Tables() {
		r.sources = append(r.sources, t.Source)
		if t.Gateway() {
			r.gateways = append(r.gateways, t.Source)
		}
		r.drains = r.drains || t.Drains
	}
	r.missing = reader.Missing
}

func (r *reading) problem(line int, text string, n int64) {
	r.problems = append(r.problems, SourceProblem{Line: line, Text: text, Count: n})
}

func (r *reading) clock(kind ClockKind, f *fetched, server, resolution int64) {
	r.clocks = append(r.clocks, ClockReading{Start: f.start, End: f.end, Server: server, Resolution: resolution, Kind: kind})
}

// parse waits for the turn to parse a page, and returns false when ctx ends first; parsed gives the turn on.
func (s *Scraper) parse(ctx context.Context) bool {
	select {
	case s.parsing <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *Scraper) parsed() { <-s.parsing }

// looksLikeHTML says whether a body is a page for people: no exposition begins with a tag.
func looksLikeHTML(b []byte) bool {
	b = bytes.TrimLeft(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")), " \t\r\n")
	return len(b) > 0 && b[0] == '<'
}

// looksLikeJSON says whether a body is a list or an object: some of those are emptied by reading. What begins with
// a brace may be an exposition too, which does no harm here.
func looksLikeJSON(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && (b[0] == '[' || b[0] == '{')
}

// isPrometheus says whether a page is that of a Prometheus.
func isPrometheus(body []byte) bool {
	return bytes.Contains(body, []byte("\nprometheus_tsdb_head_series "))
}

// nodeTimeName is the family of the host's own time on the page of node_exporter.
var nodeTimeName = []byte("\nnode_time_seconds ")

// nodeTime returns the source's time in ns since 1970 where the page has it.
func nodeTime(body []byte) (int64, bool) {
	i := bytes.Index(body, nodeTimeName)
	if i < 0 {
		return 0, false
	}
	text := body[i+len(nodeTimeName):]
	if end := bytes.IndexAny(text[:min(len(text), 64)], " \r\n"); end >= 0 {
		text = text[:end]
	}
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(v > 9e8 && v < 1e10) { // 1998 to 2286
		return 0, false
	}
	return int64(v * 1e9), true
}
