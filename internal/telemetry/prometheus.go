package telemetry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll/internal/signal"
	"plimsoll/internal/stream"
)

const (
	// promLookback is how far back the first query of raw samples reaches: it shows the scrape interval
	// and the last values before the run.
	promLookback = 5 * time.Minute
	// promNamesEvery is how often the names that a Prometheus knows are asked for.
	promNamesEvery = time.Minute
	// maxPromNames bounds the names in one query.
	maxPromNames = 2000
	// maxInstances bounds the endpoints behind one Prometheus.
	maxInstances = 4096
	// maxPromInterval is the longest scrape interval that is believed.
	maxPromInterval = 5 * time.Minute
	// maxSettle is how long the last reading waits for the Prometheus' own next one, where that is so near.
	maxSettle = 4 * time.Second
	// ingestDelay is how long after its scrape a sample can be had.
	ingestDelay = 300 * time.Millisecond
	// maxPoints bounds the steps of one range query, below the API's own 11,000.
	maxPoints = 10_000
)

// prometheus reads from a Prometheus, or what speaks its API. It asks for raw samples, by an instant
// query with a range: they bear the time of the Prometheus' own scrape, and a value that is
// merely carried forward (up to 5 min) is never taken for a new one. Queries of the user's go to query_range with
// the Prometheus' own scrape interval as step.
type prometheus struct {
	s      *Scraper
	fetch  fetcher
	base   string
	header http.Header
	match  string // label matchers, ready to stand in braces after a comma
	every  time.Duration
	own    []promQuery
	source int

	names     []string // to ask for
	namesAt   int64
	instances map[string]*promInstance
	interval  int64 // of the Prometheus, ns; 0 until it is known
	reach     int64 // unix ns up to which samples have been read
	ahead     int64 // the Prometheus' unix ns less the run's ns
	nextAt    int64 // the run's time before which nothing new is to be had
	tables    []*Table
	unknown   bool // it has been said that no table knows anything
	room      func() bool
}

// promInstance is one endpoint that the Prometheus scrapes.
type promInstance struct {
	reader *Reader
	newest int64 // unix ms of the newest sample that was handed on
}

// promQuery is a query of the user's.
type promQuery struct {
	Query
	id     signal.ID
	ids    map[string]int32
	newest map[int32]int64
}

func newPrometheus(s *Scraper, client *stream.Client, t Target, source int) (*prometheus, error) {
	u, err := parsePageURL(t.URL)
	if err != nil {
		return nil, err
	}
	if u.RawQuery != "" {
		return nil, fmt.Errorf("telemetry url %q: a Prometheus is given by its base URL, without a query; put selectors into match", shownURL(t.URL))
	}
	base := strings.TrimRight(u.Path, "/")
	for _, end := range []string{"/api/v1/query_range", "/api/v1/query", "/api/v1", "/metrics", "/graph"} {
		if rest, ok := strings.CutSuffix(base, end); ok {
			base = rest
			break
		}
	}
	u.Path, u.RawPath = base, ""
	p := &prometheus{
		s: s, fetch: fetcher{client: client}, base: u.String(), header: t.Header.Clone(), every: t.Every, source: source,
		instances: map[string]*promInstance{}, tables: s.cfg.Tables, room: s.room(KindPrometheus),
	}
	if p.header == nil {
		p.header = http.Header{}
	}
	p.header.Set("Accept", "application/json")
	p.header.Set("Content-Type", "application/x-www-form-urlencoded")
	if p.tables == nil {
		p.tables = Builtin()
	}
	for _, name := range slices.Sorted(maps.Keys(t.Match)) {
		if !labelName.MatchString(name) {
			return nil, fmt.Errorf("telemetry %s: match: %q is no label name", shownURL(t.URL), name)
		}
		p.match += "," + name + "=" + strconv.Quote(t.Match[name])
	}
	for _, q := range t.Queries {
		if q.Name == "" || strings.TrimSpace(q.Expr) == "" {
			return nil, fmt.Errorf("telemetry %s: queries: want a name and an expression", shownURL(t.URL))
		}
		id, _ := signal.Lookup(q.Name)
		p.own = append(p.own, promQuery{Query: q, id: id, ids: map[string]int32{}, newest: map[int32]int64{}})
	}
	return p, nil
}

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// settle waits until the Prometheus has scraped everything once more after the load, where that is soon.
func (p *prometheus) settle(ctx context.Context) {
	p.nextAt = 0
	if p.interval == 0 {
		return
	}
	now := p.s.cfg.Clock.Now()
	until := now
	for _, inst := range p.instances {
		// The first scrape after now, on the clock of the run.
		next := inst.newest*1e6 - p.ahead
		if next < now {
			next += (now - next + p.interval - 1) / p.interval * p.interval
		}
		if next += int64(ingestDelay); next-now <= int64(maxSettle) {
			until = max(until, next)
		}
	}
	_ = p.s.cfg.Clock.SleepUntil(ctx, until)
}

// read asks for what is new. While the Prometheus can have nothing new it is not asked at all.
func (p *prometheus) read(ctx context.Context, sink signal.Sink, timeout time.Duration, r *reading) {
	now := p.s.cfg.Clock.Now()
	if now < p.nextAt {
		r.state, r.start, r.end, r.idle = StateOK, now, now, true
		return
	}
	deadline := now + int64(timeout)
	left := func() time.Duration { return time.Duration(max(deadline-p.s.cfg.Clock.Now(), int64(time.Millisecond))) }
	r.ownTimes = true

	server, ok := p.serverTime(ctx, left(), r)
	if !ok {
		return
	}
	if p.names == nil || now-p.namesAt > int64(promNamesEvery) {
		if !p.askNames(ctx, server, left(), r) {
			return
		}
		p.namesAt = now
	}
	if len(p.names) > 0 && !p.askSamples(ctx, server, left(), sink, r) {
		return
	}
	for i := range p.own {
		if !p.askQuery(ctx, &p.own[i], server, left(), sink, r) {
			return
		}
	}
	p.reach = server
	if p.interval > 0 {
		r.updateEvery = p.interval
		// Nothing new before the interval has passed; a quarter early, so that no sample waits for long.
		p.nextAt = now + p.interval - p.interval/4
	}
	for _, key := range slices.Sorted(maps.Keys(p.instances)) {
		for _, t := range p.instances[key].reader.Tables() {
			if !slices.Contains(r.sources, t.Source) {
				r.sources = append(r.sources, t.Source)
			}
		}
	}
	if len(r.sources) == 0 && len(p.own) == 0 && !p.unknown {
		p.unknown = true
		r.problem(0, "this Prometheus has no series that a table knows"+matching(p.match), 1)
	}
}

func matching(match string) string {
	if match == "" {
		return ""
	}
	return " with {" + match[1:] + "}"
}

// ask sends one request to the API and returns the data of its answer.
func (p *prometheus) ask(ctx context.Context, path string, form url.Values, timeout time.Duration, r *reading) (json.RawMessage, *fetched, bool) {
	method, target, body := http.MethodPost, p.base+path, []byte(form.Encode())
	if strings.HasPrefix(path, "/api/v1/label/") {
		method, target, body = http.MethodGet, target+"?"+form.Encode(), nil
	}
	f := p.fetch.do(ctx, method, target, p.header, body, timeout)
	state, why := f.state, f.why
	r.more(&f, p.fetch.rtt)
	if state == StateError && (f.status == http.StatusBadRequest || f.status == http.StatusUnprocessableEntity || f.status == http.StatusServiceUnavailable) {
		r.state, r.why = StateError, "it refused the query: "+why
		return nil, &f, false
	}
	if state != StateOK {
		if state == StateAbsent {
			r.why = why + "; want the base URL of a Prometheus, before /api/v1"
		}
		return nil, &f, false
	}
	if f.cut {
		r.state, r.why = StateError, fmt.Sprintf("the answer is larger than %d bytes; narrow it with match", p.s.limit(KindPrometheus))
		return nil, &f, false
	}
	data, warnings, err := promData(f.body)
	if err != nil {
		r.state, r.why = StateNotAPage, oneLine(err.Error())
		return nil, &f, false
	}
	for _, w := range warnings {
		r.problem(0, "Prometheus warns: "+oneLine(w), 1)
	}
	return data, &f, true
}

// more adds a request to a reading of several.
func (r *reading) more(f *fetched, rtt int64) {
	start, cost, bytes, asked := r.start, r.cost, r.bytes, r.requests
	r.fetched(f, rtt)
	if asked > 0 {
		r.start = start
	}
	r.cost, r.bytes, r.requests = r.cost+cost, r.bytes+bytes, asked+1
}

// promData takes the envelope off an answer.
func promData(body []byte) (data json.RawMessage, warnings []string, err error) {
	if looksLikeHTML(body) {
		return nil, nil, errors.New("the answer is HTML, not that of a Prometheus' API")
	}
	var env struct {
		Status   string
		Data     json.RawMessage
		Error    string
		Warnings []string
	}
	if err := json.Unmarshal(body, &env); err != nil {
		return nil, nil, errors.New("the answer is not that of a Prometheus' API: " + err.Error())
	}
	if env.Status != "success" {
		if env.Error == "" {
			return nil, nil, errors.New("the answer is not that of a Prometheus' API")
		}
		return nil, nil, errors.New("it answered: " + env.Error)
	}
	return env.Data, env.Warnings[:min(len(env.Warnings), MaxNotes)], nil
}

// serverTime asks for the Prometheus' own time, which every further query is about.
func (p *prometheus) serverTime(ctx context.Context, timeout time.Duration, r *reading) (unix int64, ok bool) {
	data, f, ok := p.ask(ctx, "/api/v1/query", url.Values{"query": {"time()"}}, timeout, r)
	if !ok {
		return 0, false
	}
	at, err := promScalar(data)
	if err != nil {
		r.state, r.why = StateNotAPage, oneLine(err.Error())
		return 0, false
	}
	r.clock(ClockTime, f, at, 1e6)
	p.ahead = at - f.end
	return at, true
}

// promScalar reads the evaluation time of a scalar, in unix ns.
func promScalar(data []byte) (int64, error) {
	var s struct {
		ResultType string
		Result     []json.RawMessage
	}
	if err := json.Unmarshal(data, &s); err != nil || s.ResultType != "scalar" || len(s.Result) != 2 {
		return 0, errors.New("the answer to time() is no scalar")
	}
	var v string
	if err := json.Unmarshal(s.Result[1], &v); err != nil {
		return 0, errors.New("the answer to time() is no number")
	}
	t, err := strconv.ParseFloat(v, 64)
	if err != nil || !(t > 9e8 && t < 1e10) { // 1998 to 2286
		return 0, fmt.Errorf("the answer to time() is %q", v)
	}
	return int64(math.Round(t*1e3)) * 1e6, nil
}

// askNames finds the names that the tables can use.
func (p *prometheus) askNames(ctx context.Context, server int64, timeout time.Duration, r *reading) bool {
	form := url.Values{"start": {promTime(server - int64(promLookback))}, "end": {promTime(server)}}
	if p.match != "" {
		form.Set("match[]", "{"+p.match[1:]+"}")
	}
	data, _, ok := p.ask(ctx, "/api/v1/label/__name__/values", form, timeout, r)
	if !ok {
		return false
	}
	var all []string
	if err := json.Unmarshal(data, &all); err != nil {
		r.state, r.why = StateNotAPage, "the answer to the names of series is no list"
		return false
	}
	p.names = wanted(all, p.tables)
	if len(p.names) > maxPromNames {
		r.problem(0, fmt.Sprintf("more than %d names are known to tables; the rest is left out, narrow it with match", maxPromNames), 1)
		p.names = p.names[:maxPromNames]
	}
	return true
}

// wanted returns the names of which some table reads series, in order, and a few of those by which
// pages are recognised.
func wanted(all []string, tables []*Table) []string {
	exact := map[string]bool{"process_start_time_seconds": true}
	var prefixes, signs []string
	for _, t := range tables {
		if t.Format == "json" {
			continue
		}
		for i, list := range [][]Selector{t.Families(), t.Detect, t.Not} {
			for _, f := range list {
				switch {
				case !f.Prefix:
					// Pages leave _total out or put it on.
					exact[f.Name], exact[f.Name+"_total"] = true, true
					exact[strings.TrimSuffix(f.Name, "_total")] = true
				case i == 0:
					prefixes = append(prefixes, f.Name)
				default:
					signs = append(signs, f.Name)
				}
			}
		}
	}
	out := []string{}
	seen := map[string]int{} // by sign
	for _, name := range all {
		ok := exact[name]
		for i := 0; !ok && i < len(prefixes); i++ {
			ok = strings.HasPrefix(name, prefixes[i])
		}
		for i := 0; !ok && i < len(signs); i++ {
			if strings.HasPrefix(name, signs[i]) && seen[signs[i]] < maxSigns {
				seen[signs[i]]++
				ok = true
			}
		}
		if ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// maxSigns bounds the names that are asked for only because a page is recognised by how they begin.
const maxSigns = 8

// promTime is a time as the API takes it.
func promTime(unix int64) string { return strconv.FormatFloat(float64(unix/1e6)/1e3, 'f', 3, 64) }

// promSeconds is a range or step as the API takes it: whole seconds, at least 1.
func promSeconds(ns int64) string {
	return strconv.FormatInt(max(1, (ns+int64(time.Second)-1)/int64(time.Second)), 10) + "s"
}

// promSeries is one series of an answer with its samples in the order of time.
type promSeries struct {
	name   string
	labels []Label // without __name__
	key    string  // of its instance
	points []promPoint
}

// promPoint is one sample: unix ms and value.
type promPoint struct {
	ms    int64
	value float64
}

// promMatrix reads the series of an answer. What cannot be used of it is left out and counted.
func promMatrix(data []byte, maxSeries int) (out []promSeries, odd promOdd, err error) {
	var head struct {
		ResultType string
		Result     json.RawMessage
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, odd, errors.New("the answer has no result that is understood: " + err.Error())
	}
	var scalar promPoint
	var result []struct {
		Metric     map[string]string
		Values     []promPoint
		Value      *promPoint
		Histograms []json.RawMessage
	}
	var into any = &result
	switch head.ResultType {
	case "matrix", "vector":
	case "scalar":
		into = &scalar
	default:
		return nil, odd, fmt.Errorf("the answer is of type %q, want matrix or vector", oneLine(head.ResultType))
	}
	if err := json.Unmarshal(head.Result, into); err != nil {
		return nil, odd, errors.New("the answer has no result that is understood: " + err.Error())
	}
	if head.ResultType == "scalar" {
		switch scalar.ms {
		case notTime:
			return nil, odd, errors.New("the answer is a scalar without a time and a value")
		case notNumber:
			return nil, promOdd{nan: 1}, nil
		}
		return []promSeries{{points: []promPoint{scalar}}}, odd, nil
	}
	if len(result) > maxSeries {
		return nil, odd, fmt.Errorf("the answer has %d series, more than %d; narrow it with match", len(result), maxSeries)
	}
	for _, x := range result {
		s := promSeries{name: x.Metric["__name__"]}
		for _, name := range slices.Sorted(maps.Keys(x.Metric)) {
			if name != "__name__" {
				s.labels = append(s.labels, Label{Name: name, Value: x.Metric[name]})
			}
		}
		s.key = x.Metric["job"] + "\xff" + x.Metric["instance"]
		if len(x.Histograms) > 0 {
			odd.native++
		}
		if x.Value != nil {
			x.Values = append(x.Values, *x.Value)
		}
		s.points = x.Values[:0]
		for _, p := range x.Values {
			switch {
			case p.ms == notTime:
				odd.bad++
			case p.ms == notNumber:
				odd.nan++
			case len(s.points) > 0 && s.points[len(s.points)-1].ms >= p.ms:
				// Out of order: an answer that has been merged from several places.
			default:
				s.points = append(s.points, p)
			}
		}
		if len(s.points) > 0 {
			out = append(out, s)
		}
	}
	if len(out) == 0 && odd.bad > 0 {
		return nil, odd, errors.New("none of the samples of the answer has a time and a value")
	}
	return out, odd, nil
}

// promOdd counts what of an answer cannot be used: samples whose value is no number, samples that are none, and
// series of native histograms.
type promOdd struct{ nan, bad, native int }

// tell adds problems of it to r, with who before them.
func (o promOdd) tell(r *reading, who string) {
	for _, x := range []struct {
		n    int
		text string
	}{
		{o.nan, "values that are NaN or infinite are left out"},
		{o.bad, "samples without a time and a value are left out"},
		{o.native, "native histograms are not read"},
	} {
		if x.n > 0 {
			r.problem(0, who+x.text, int64(x.n))
		}
	}
}

// notTime and notNumber are the instants of samples that are none, before all times that are believed.
const (
	notTime   = math.MinInt64
	notNumber = math.MinInt64 + 1
)

// UnmarshalJSON reads a pair of a time in s and a number in quotes. Answers have millions of them, so that it makes
// nothing; a pair that is none is one with an instant that says so, for the others are good all the same.
func (p *promPoint) UnmarshalJSON(b []byte) error {
	*p = promPoint{ms: notTime}
	b, ok := bytes.CutPrefix(b, []byte("["))
	b, ended := bytes.CutSuffix(b, []byte("]"))
	at, v, two := bytes.Cut(b, []byte(","))
	if !ok || !ended || !two {
		return nil
	}
	t, err := strconv.ParseFloat(view(bytes.TrimSpace(at)), 64)
	if err != nil || !(t > -1e11 && t < 1e11) {
		return nil
	}
	v = bytes.TrimSpace(v)
	if len(v) < 2 || v[0] != '"' || v[len(v)-1] != '"' {
		return nil
	}
	x, err := strconv.ParseFloat(view(v[1:len(v)-1]), 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange):
	case !finite(x):
		p.ms = notNumber
	default:
		*p = promPoint{ms: int64(math.Round(t * 1e3)), value: x}
	}
	return nil
}

// askSamples asks for the raw samples since the last reading and hands them on, endpoint by
// endpoint and instant by instant.
func (p *prometheus) askSamples(ctx context.Context, server int64, timeout time.Duration, sink signal.Sink, r *reading) bool {
	window, first := int64(promLookback), p.reach == 0
	if !first {
		// What comes late is still seen two intervals on.
		window = server - p.reach + 2*max(p.interval, int64(time.Second))
		window = min(max(window, int64(time.Second)), int64(promLookback))
	}
	quoted := make([]string, len(p.names))
	for i, n := range p.names {
		quoted[i] = regexp.QuoteMeta(n)
	}
	query := "{__name__=~" + strconv.Quote(strings.Join(quoted, "|")) + p.match + "}[" + promSeconds(window) + "]"
	data, _, ok := p.ask(ctx, "/api/v1/query", url.Values{"query": {query}, "time": {promTime(server)}}, timeout, r)
	if !ok {
		return false
	}
	if !p.s.parse(ctx) {
		r.state = StateError
		return false
	}
	defer p.s.parsed()
	series, odd, err := promMatrix(data, p.s.cfg.MaxSeries)
	if err != nil {
		r.state, r.why = StateNotAPage, oneLine(err.Error())
		return false
	}
	odd.tell(r, "")
	r.series += len(series)
	if d := spacing(series); d > 0 {
		p.interval = d
	}
	p.hand(series, first, sink, r)
	return true
}

// spacing returns the scrape interval that samples show: the median time between two of one series, over the
// series, rounded to a whole second where it is within a twentieth of one. 0 when none has two.
func spacing(series []promSeries) int64 {
	var all []int64
	for _, s := range series {
		for i := 1; i < len(s.points) && i < 64; i++ {
			all = append(all, s.points[i].ms-s.points[i-1].ms)
		}
		if len(all) > 100_000 {
			break
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	d := all[len(all)/2] * int64(time.Millisecond)
	if d <= 0 || d > int64(maxPromInterval) {
		return 0
	}
	if whole := (d + int64(time.Second)/2) / int64(time.Second) * int64(time.Second); whole > 0 {
		if off := d - whole; max(off, -off) <= d/20 {
			d = whole
		}
	}
	return d
}

// hand gives samples to the readers of their endpoints: all of one instant together, the instants
// in order. Of the first answer only the newest instant is taken, the state before the run.
func (p *prometheus) hand(series []promSeries, first bool, sink signal.Sink, r *reading) {
	byInstance := map[string][]*promSeries{}
	for i := range series {
		byInstance[series[i].key] = append(byInstance[series[i].key], &series[i])
	}
	zero := p.s.cfg.Clock.Start().UnixNano()
	var points []Point
	for _, key := range slices.Sorted(maps.Keys(byInstance)) {
		group := byInstance[key]
		inst := p.instances[key]
		if inst == nil {
			if len(p.instances) >= maxInstances {
				r.problem(0, fmt.Sprintf("more than %d endpoints behind this Prometheus: the rest is left out", maxInstances), 1)
				return
			}
			inst = &promInstance{newest: math.MinInt64, reader: NewReader(Options{
				Tables: p.tables, MaxSeries: p.s.cfg.MaxSeries, Source: func(*Table) int { return p.source }, Room: p.room,
				Keep: map[string][]string{"instance": {"instance"}, "job": {"job"}},
			})}
			p.instances[key] = inst
		}
		var times []int64
		for _, s := range group {
			for _, x := range s.points {
				if x.ms > inst.newest {
					times = append(times, x.ms)
				}
			}
		}
		groups := instants(times, p.interval/4/int64(time.Millisecond))
		if first && len(groups) > 1 {
			groups = groups[len(groups)-1:]
		}
		for _, g := range groups {
			points = points[:0]
			for _, s := range group {
				i, _ := slices.BinarySearchFunc(s.points, g[1]+1, func(x promPoint, ms int64) int { return cmp.Compare(x.ms, ms) })
				if i > 0 && s.points[i-1].ms >= g[0] {
					points = append(points, Point{Name: s.name, Labels: s.labels, Value: s.points[i-1].value})
				}
			}
			info, err := inst.reader.ReadPoints(points, g[0]*1e6-zero, g[1]*1e6-zero, sink)
			series := r.series
			r.read(&info)
			r.series = series
			if err != nil && !errors.Is(err, ErrNotAPage) {
				r.problem(0, oneLine(err.Error()), 1)
			}
			inst.newest = g[1]
		}
	}
}

// instants puts times into groups that are one reading each. A Prometheus gives all series of one scrape one time,
// unless the exporter states times of its own, which are near each other: apart they would be pieces of a page.
func instants(times []int64, near int64) (out [][2]int64) {
	slices.Sort(times)
	for _, t := range times {
		if n := len(out); n > 0 && t-out[n-1][0] <= near {
			out[n-1][1] = t
			continue
		}
		out = append(out, [2]int64{t, t})
	}
	return out
}

// askQuery asks for the values of a query of the user's since the last reading.
func (p *prometheus) askQuery(ctx context.Context, q *promQuery, server int64, timeout time.Duration, sink signal.Sink, r *reading) bool {
	step := p.interval
	if step == 0 {
		step = max(int64(p.every), int64(time.Second))
	}
	step = (step + int64(time.Second) - 1) / int64(time.Second) * int64(time.Second)
	from := server
	if p.reach != 0 {
		from = max(p.reach-step, server-step*maxPoints)
	}
	form := url.Values{
		"query": {q.Expr}, "step": {promSeconds(step)},
		"start": {promTime(from / step * step)}, "end": {promTime(server / step * step)},
		// Not an official parameter: a Prometheus that knows it does not carry values forward for five minutes.
		"lookback_delta": {promSeconds(2 * step)},
	}
	data, f, ok := p.ask(ctx, "/api/v1/query_range", form, timeout, r)
	if !ok {
		if f.status == http.StatusBadRequest || f.status == http.StatusUnprocessableEntity {
			// The expression is at fault, not the source.
			r.problem(0, fmt.Sprintf("query %s: it is refused", oneLine(q.Name)), 1)
			r.state, r.why = StateOK, ""
			return true
		}
		return false
	}
	series, odd, err := promMatrix(data, p.s.cfg.MaxSeries)
	if err != nil {
		r.problem(0, fmt.Sprintf("query %s: %s", oneLine(q.Name), oneLine(err.Error())), 1)
		return true
	}
	odd.tell(r, fmt.Sprintf("query %s: ", oneLine(q.Name)))
	zero := p.s.cfg.Clock.Start().UnixNano()
	var samples []signal.Sample
	for i := range series {
		s := &series[i]
		labels := joinLabels(s.labels)
		id, ok := q.ids[labels]
		if !ok {
			if !p.room() {
				r.problem(0, noRoom, 1)
				continue
			}
			decl := signal.Series{Signal: q.id, Labels: labels}
			if q.id == signal.None {
				decl.Raw = q.Name
			}
			id = sink.Declare(decl)
			q.ids[labels] = id
			q.newest[id] = math.MinInt64
		}
		samples = samples[:0]
		for _, x := range s.points {
			if x.ms <= q.newest[id] {
				continue
			}
			at := x.ms*1e6 - zero
			samples = append(samples, signal.Sample{Series: id, Start: at, End: at, Value: x.value})
			q.newest[id] = x.ms
		}
		if len(samples) > 0 {
			sink.Add(samples)
		}
	}
	r.series += len(series)
	return true
}

// joinLabels writes labels, which are in order, as signal.Series wants them.
func joinLabels(labels []Label) string {
	var b strings.Builder
	for i, l := range labels {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(l.Name + "=" + strings.NewReplacer(",", ";", "=", ":", "\n", " ").Replace(l.Value))
	}
	return b.String()
}
