package telemetry

import (
	"slices"
	"strings"
)

// Kind is what answers at a Target's URL.
type Kind string

// The kinds of targets.
const (
	// KindPage is a page in the exposition format or JSON, the default.
	KindPage Kind = "page"
	// KindPrometheus is a Prometheus or what speaks its query API.
	KindPrometheus Kind = "prometheus"
	// KindHost is this machine itself, without any exporter.
	KindHost Kind = "host"
)

// State is what came of an endpoint.
type State string

// The states. An endpoint that gave a page once stays StateOK: what failed later is counted and is in Gaps.
const (
	// StateUnread is an endpoint that has not been asked yet.
	StateUnread State = "unread"
	// StateOK is an endpoint that gave a page.
	StateOK State = "ok"
	// StateAuthFailed is a refusal for want of a key or a wrong one: status 401, 403 or 407.
	StateAuthFailed State = "auth_failed"
	// StateAbsent is a server without such a page: status 404, 405, 410 or 501.
	StateAbsent State = "absent"
	// StateNotAPage is an answer that is no telemetry, as HTML.
	StateNotAPage State = "not_a_page"
	// StateError is everything else: nobody listens, a time-out, status 500, a redirect to another origin.
	StateError State = "error"
)

// SourceInfo is what run.json keeps of one endpoint: what was found there, how
// reading it went and what it cost. All times are ns on the run's clock.
type SourceInfo struct {
	// Index is the Source of the endpoint's series.
	Index int `json:"index"`
	// Name is host:port with the path where that is not /metrics, or "localhost" for this machine.
	Name string `json:"name"`
	// URL is the page, without what may be a secret; empty for this machine.
	URL string `json:"url,omitempty"`
	// Kind is what answers there.
	Kind Kind `json:"kind"`
	// Sources are the tables by which the page was read, as vllm or dcgm.
	Sources []string `json:"sources,omitempty"`
	// Gateways are those of Sources that stand before engines: routers, proxies, frontends.
	Gateways []string `json:"gateways,omitempty"`
	// State is what came of it, Why more of that for people; empty when all is well.
	State State  `json:"state"`
	Why   string `json:"why,omitempty"`
	// Up is whether the last reading succeeded.
	Up bool `json:"up"`

	// Scrapes counts readings that succeeded, Failures those that did not, and Skipped the
	// points of the grid that passed while an earlier reading was still under way.
	Scrapes  int64 `json:"scrapes"`
	Failures int64 `json:"failures"`
	Skipped  int64 `json:"skipped,omitempty"`
	// PeriodAsked is the time between readings that was asked for, Period the one at the end, in ns.
	PeriodAsked int64 `json:"period_asked_ns"`
	Period      int64 `json:"period_ns"`
	// Backoffs are the changes of the period, the first MaxNotes of them; BackoffCount is how many there were.
	Backoffs     []Backoff `json:"backoffs,omitempty"`
	BackoffCount int64     `json:"backoff_count,omitempty"`
	// Gaps are the stretches without a reading, the first MaxNotes of them; GapCount is how many there were.
	Gaps     []Gap `json:"gaps,omitempty"`
	GapCount int64 `json:"gap_count,omitempty"`

	// MeanTime and MaxTime say how long readings took, in ns, connecting not included.
	MeanTime int64 `json:"mean_time_ns"`
	MaxTime  int64 `json:"max_time_ns"`
	// Bytes and Series are the size of the last page.
	Bytes  int64 `json:"bytes"`
	Series int   `json:"series"`
	// RTT is the shortest time to connect that was seen, in ns: the network's part of a reading. 0 when unknown.
	RTT int64 `json:"rtt_ns,omitempty"`

	// UpdateEvery is the source's own period where it states one, in ns, as the scrape interval of a Prometheus; else 0.
	UpdateEvery int64 `json:"update_every_ns,omitempty"`
	// OwnTimes is true when samples bear times of the source's own clock, which
	// were put on the run's clock as if both walls agreed: the offset still applies.
	OwnTimes bool `json:"own_times,omitempty"`
	// Drains is true when reading takes the values away from other readers.
	Drains bool `json:"drains,omitempty"`
	// Missing are the signals that the sources could give and did not, with what would enable them.
	Missing []Missing `json:"missing,omitempty"`
	// ProcessStart is when the server's process says it started, in ns since 1970; 0 when it does not say.
	ProcessStart int64 `json:"process_start_unix_ns,omitempty"`
	// Restarts counts the times that counters began anew.
	Restarts int64 `json:"restarts,omitempty"`
	// Problems are what was wrong with the pages, each text once, at most MaxNotes of them; ProblemCount counts all.
	Problems     []SourceProblem `json:"problems,omitempty"`
	ProblemCount int64           `json:"problem_count,omitempty"`

	// ClockOffset is the source's wall clock less the client's in ns, Uncertainty the half
	// width of what it can be; nil when unknown. align sets them.
	ClockOffset      *int64 `json:"clock_offset_ns,omitempty"`
	ClockUncertainty *int64 `json:"clock_uncertainty_ns,omitempty"`
	// Clock are readings of the source's clock, at most MaxClockReadings, evenly thinned out. They are
	// not written: the samples under the raw name ClockSeries say the same.
	Clock []ClockReading `json:"-"`
}

// Bounds of what a SourceInfo keeps.
const (
	// MaxNotes bounds each of the lists for people.
	MaxNotes = 32
	// MaxClockReadings bounds SourceInfo.Clock.
	MaxClockReadings = 4096
)

// ClockSeries is the raw name of the series of clock readings: the source's clock in seconds
// since 1970, labelled with how it was read (kind=date, time or sample).
const ClockSeries = "source_clock"

// Backoff is one change of the time between readings.
type Backoff struct {
	// At is when, on the run's clock; Period is the new period in ns.
	At     int64 `json:"at_ns"`
	Period int64 `json:"period_ns"`
	// Why is the reason for people.
	Why string `json:"why"`
}

// Gap is a stretch without a reading: from the last one before it to the first one after it, in ns of
// the run's clock. To is Open while it lasts.
type Gap struct {
	From int64  `json:"from_ns"`
	To   int64  `json:"to_ns"`
	Why  string `json:"why"`
}

// Open is the end of a gap that never ended.
const Open = int64(-1)

// SourceProblem is something wrong with the pages of an endpoint.
type SourceProblem struct {
	// Line is the line of the page where it was first seen, 0 when it is of no line.
	Line int `json:"line,omitempty"`
	// Text says what it is, Count how often it was seen.
	Text  string `json:"text"`
	Count int64  `json:"count"`
}

// ClockKind is how a source's clock was read.
type ClockKind string

// The kinds of clock readings.
const (
	// ClockDate is a Date header: a whole second that had begun when the response was made.
	ClockDate ClockKind = "date"
	// ClockTime is the source's time to the ms or better, taken while it answered.
	ClockTime ClockKind = "time"
	// ClockSample is the newest timestamp on the page: the source's clock showed at least this.
	ClockSample ClockKind = "sample"
)

// ClockReading is what a source's clock showed at some instant of a reading.
type ClockReading struct {
	// Start and End bound that instant, in ns of the run's clock.
	Start, End int64
	// Server is what it showed, in ns since 1970: between Server and Server+Resolution.
	Server, Resolution int64
	// Kind is how it was read.
	Kind ClockKind
}

// notes are the bounded lists of one endpoint.
type notes struct {
	index map[string]int
}

// problem counts one, by its text.
func (n *notes) problem(info *SourceInfo, p SourceProblem) {
	info.ProblemCount += p.Count
	if i, ok := n.index[p.Text]; ok {
		info.Problems[i].Count += p.Count
		return
	}
	if len(info.Problems) >= MaxNotes {
		return
	}
	if n.index == nil {
		n.index = map[string]int{}
	}
	n.index[p.Text] = len(info.Problems)
	info.Problems = append(info.Problems, p)
}

// clockReadings keeps a bounded list: when it is full every other reading goes, and
// from then on only every other one is taken.
type clockReadings struct {
	list   []ClockReading
	stride int
	seen   int
}

func (c *clockReadings) add(r ClockReading) {
	if c.stride == 0 {
		c.stride = 1
	}
	c.seen++
	if c.seen%c.stride != 0 {
		return
	}
	if len(c.list) >= MaxClockReadings {
		kept := c.list[:0]
		for i := 1; i < len(c.list); i += 2 {
			kept = append(kept, c.list[i])
		}
		c.list = kept
		c.stride *= 2
		if c.seen%c.stride != 0 {
			return
		}
	}
	c.list = append(c.list, r)
}

// clone returns a copy that shares nothing that may still change.
func (i *SourceInfo) clone() SourceInfo {
	out := *i
	out.Sources, out.Gateways = slices.Clone(i.Sources), slices.Clone(i.Gateways)
	out.Backoffs = slices.Clone(i.Backoffs)
	out.Gaps = slices.Clone(i.Gaps)
	out.Problems = slices.Clone(i.Problems)
	out.Missing = slices.Clone(i.Missing)
	out.Clock = slices.Clone(i.Clock)
	return out
}

// oneLine makes text of a server fit to be printed: one line, valid, not too long.
func oneLine(text string) string {
	text = strings.ToValidUTF8(text, "?")
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	const longest = 200
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "..."
	}
	return text
}
