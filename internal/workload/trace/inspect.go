package trace

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"plimsoll/internal/random"
)

// The bounds of what Inspect keeps of a file.
const (
	maxTimes  = 16 << 20 // arrival times, for gaps and order
	maxBlocks = 24 << 20 // distinct blocks
	maxCounts = 1 << 20  // distinct lengths, occupied seconds
	maxNodes  = 4 << 20  // requests that wait for others
)

// Lengths is the distribution of one kind of length, in tokens. Percentiles are
// interpolated between neighbouring values.
type Lengths struct {
	Count int     `json:"count"`
	Mean  float64 `json:"mean"`
	Min   int     `json:"min"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	Max   int     `json:"max"`
}

// Blocks is how much of the prompts an earlier one has had, with a cache that
// never forgets.
type Blocks struct {
	BlockTokens int `json:"block_tokens"`
	Total       int `json:"total"`
	Distinct    int `json:"distinct"`
	// Hit counts the blocks at the beginnings of prompts that an earlier prompt
	// began with too, HitRate is their share.
	Hit     int     `json:"hit"`
	HitRate float64 `json:"hit_rate"`
	// TokenHitRate is the share of prompt tokens that an engine would not have to
	// compute: whole blocks, but never the last token of a prompt.
	TokenHitRate float64 `json:"token_hit_rate"`
	HitTokens    int64   `json:"hit_tokens"`
	InputTokens  int64   `json:"input_tokens"`
	// Inconsistent are the first few ids that follow different ids in different
	// prompts, InconsistentCount how many: such an id cannot stand for all of a
	// prompt up to its end, and shares less than equal ids suggest.
	Inconsistent      []uint64 `json:"inconsistent_ids,omitempty"`
	InconsistentCount int      `json:"inconsistent_count"`
	// MaxHash is the largest id, 0 where ids are local to a session.
	MaxHash uint64 `json:"max_hash"`
	// FitsBlock is a block size that all rows with hashes fit, when they do not fit
	// the one that was used; 0 for none.
	FitsBlock int `json:"fits_block,omitempty"`
}

// Skipped counts rows that are left out, by the reason.
type Skipped struct {
	ZeroOutput int `json:"zero_output"`
	BadRow     int `json:"bad_row"`
	NoReplay   int `json:"no_replay"`
	Empty      int `json:"empty"`
}

// Summary is what is known of a trace before anything is sent. What the file does
// not say is null.
type Summary struct {
	Schema   string `json:"schema"`
	File     string `json:"file"`
	Format   string `json:"format"`
	Detected string `json:"detected"`
	TimeUnit Unit   `json:"time_unit,omitempty"`
	// Requests are those that would be sent.
	Requests   int     `json:"requests"`
	Skipped    Skipped `json:"skipped"`
	ToolEvents int     `json:"tool_events"`

	// Timed is the number of requests with a time of their own.
	Timed int `json:"timed"`
	// OffsetS is what was taken off all times, in seconds, so that they begin at 0;
	// for dates it is the Unix time.
	OffsetS *float64 `json:"offset_s"`
	SpanS   *float64 `json:"span_s"`
	// Rate is the number of requests over the span, PeakPerSecond the most in one
	// second counted from the first request.
	Rate          *float64 `json:"rate_per_s"`
	PeakPerSecond *int     `json:"peak_per_s"`
	// GapCV is the deviation of the gaps between requests over their mean: 1 for a
	// Poisson process. LongestGapS is the longest.
	GapCV       *float64 `json:"gap_cv"`
	LongestGapS *float64 `json:"longest_gap_s"`
	// Instants counts the different times, LargestGroup the most requests at one.
	Instants     *int `json:"instants"`
	LargestGroup *int `json:"largest_group"`
	// Head is the rate of the first tenth of the span over that of its busiest
	// tenth.
	Head   *float64 `json:"head_over_peak"`
	Sorted bool     `json:"sorted"`

	Input     *Lengths `json:"input_tokens"`
	Output    *Lengths `json:"output_tokens"`
	Reasoning *Lengths `json:"reasoning_tokens"`
	// WithText counts the requests whose prompt is given as text, TextBytes is the
	// length of all of it.
	WithText  int   `json:"with_text"`
	TextBytes int64 `json:"text_bytes"`
	Images    int   `json:"images"`
	// Unsent counts what came beside text and images and is not sent, by its name: types of
	// parts of messages and parameters of requests. Bodies are sent as they are.
	Unsent    map[string]int `json:"not_sent,omitempty"`
	Cancelled int            `json:"cancelled"`

	// Sessions have more than one request each; Turns are the requests of each.
	Sessions int      `json:"sessions"`
	Turns    *Lengths `json:"turns"`
	// Cumulative says whether each row of a session holds the whole prompt: cumulative,
	// delta, or empty where there is none. Proven says that the hashes show it.
	TurnsAre    string `json:"turns_are,omitempty"`
	TurnsProven bool   `json:"turns_proven"`
	Dependent   int    `json:"dependent"`

	Blocks   *Blocks        `json:"blocks"`
	Models   map[string]int `json:"models,omitempty"`
	Kinds    map[string]int `json:"kinds,omitempty"`
	Problems []Problem      `json:"problems"`
	Notices  []string       `json:"notices"`

	// busiest is the rate of the busiest tenth of the span.
	busiest float64
}

// SummarySchema names the form of Summary as JSON.
const SummarySchema = "plimsoll.trace/1"

// tally is the exact distribution of whole numbers, as counts.
type tally struct {
	n      map[int]int
	count  int
	sum    float64
	coarse bool
}

func (t *tally) add(v int) {
	if t.n == nil {
		t.n = map[int]int{}
	}
	t.count++
	t.sum += float64(v)
	if _, ok := t.n[v]; !ok && len(t.n) >= maxCounts {
		// More different lengths than any trace has: three digits are kept.
		t.coarse = true
		for step := 1; ; step *= 10 {
			if v < 1000*step {
				v -= v % step
				break
			}
		}
	}
	t.n[v]++
}

func (t *tally) lengths() *Lengths {
	if t.count == 0 {
		return nil
	}
	values := slices.Sorted(maps.Keys(t.n))
	l := &Lengths{Count: t.count, Mean: t.sum / float64(t.count), Min: values[0], Max: values[len(values)-1]}
	at := func(rank int) float64 {
		for _, v := range values {
			if rank -= t.n[v]; rank < 0 {
				return float64(v)
			}
		}
		return float64(l.Max)
	}
	q := func(p float64) float64 {
		x := p * float64(t.count-1)
		lo := at(int(x))
		return lo + (at(min(int(x)+1, t.count-1))-lo)*(x-math.Floor(x))
	}
	l.P50, l.P90, l.P95, l.P99 = q(0.5), q(0.9), q(0.95), q(0.99)
	return l
}

// reuse finds out how much of each prompt an earlier one began with. A block is
// known by itself and by all before it, as in an engine.
type reuse struct {
	chains map[uint64]struct{}
	// before is the id that stands before an id, as first seen, plus a mark for the
	// beginning of a prompt; wrong are ids with several.
	before map[uint64]uint64
	wrong  map[uint64]bool
	out    Blocks
	lost   bool
	// lo and hi are the block sizes that all rows so far fit.
	lo, hi int
}

// beginning stands before the first block of a prompt.
const beginning = 0x626567696e

func (u *reuse) add(rec *Record) (hits int) {
	if u.chains == nil {
		u.chains, u.before, u.wrong = map[uint64]struct{}{}, map[uint64]uint64{}, map[uint64]bool{}
		u.out.BlockTokens = rec.BlockTokens
		u.lo, u.hi = 1, math.MaxInt
	}
	if rec.BlockTokens != u.out.BlockTokens {
		u.out.BlockTokens = 0 // several sizes
	}
	u.out.InputTokens += int64(rec.Input)
	chain, prev, run := uint64(0), uint64(beginning), true
	for i, h := range rec.Hashes {
		chain = random.Derive(chain, h)
		_, seen := u.chains[chain]
		run = run && seen
		if run {
			hits++
		}
		if !seen {
			if len(u.chains) < maxBlocks {
				u.chains[chain] = struct{}{}
			} else {
				u.lost = true
			}
		}
		key := prev
		if i > 0 {
			key = random.Derive(prev)
		}
		if p, ok := u.before[h]; !ok {
			if len(u.before) < maxBlocks {
				u.before[h] = key
			}
		} else if p != key && !u.wrong[h] && len(u.wrong) < maxCounts {
			u.wrong[h] = true
			if len(u.out.Inconsistent) < examples {
				u.out.Inconsistent = append(u.out.Inconsistent, h)
			}
		}
		u.out.MaxHash = max(u.out.MaxHash, h)
		prev = h
	}
	u.out.Total += len(rec.Hashes)
	u.out.Hit += hits
	u.out.HitTokens += int64(min(hits*rec.BlockTokens, (rec.Input-1)/rec.BlockTokens*rec.BlockTokens))
	return hits
}

// sized learns from a row which block sizes it would fit.
func (u *reuse) sized(n, input int) {
	if u.lo == 0 {
		u.lo, u.hi = 1, math.MaxInt
	}
	if n == 0 || input <= 0 {
		return
	}
	u.lo = max(u.lo, (input+n-1)/n)
	if n > 1 {
		u.hi = min(u.hi, (input-1)/(n-1))
	}
}

// inspector collects what Summary says.
type inspector struct {
	s                                Summary
	in, out, reasoning, turns        tally
	times                            []int64
	manyTimes                        bool
	first, last, latest              int64
	reuse                            reuse
	sessions                         map[string]int
	previous                         map[string]row // the session's last row
	grew, cut                        int            // rows whose hashes begin with those of the row before, or do not
	lengths                          bool           // rows of one session that have lengths alone
	deltas                           bool
	spread                           bool // requests of one instant are
	later                            bool // blocks are looked at when all is sorted
	nodes                            []node
	manyNodes, manySessions, hasDeps bool
	// whole are the notices that are true of the whole trace alone, not of a part.
	whole []string
}

// node is a request in the graph of who waits for whom.
type node struct {
	id   string
	line int
	deps []string
}

// Inspect reads a whole trace and says what is in it. Rows that are not right are
// counted instead of ending it, whatever the options say.
func Inspect(path string, opts Options) (*Summary, error) {
	opts.OnBadRow = Skip
	r, err := Open(path, opts)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	s, err := InspectReader(r)
	if err != nil || s.Sorted || s.Blocks == nil {
		return s, err
	}
	// Which prompt was the first to have a block depends on the order: such a trace
	// is read again and sorted.
	again, err := Open(path, opts)
	if err != nil {
		return nil, err
	}
	defer again.Close()
	again.inspecting = true
	t, err := LoadReader(again, Selection{})
	if err != nil {
		return nil, err
	}
	return t.Summary, nil
}

// InspectReader reads the rest of r and says what is in it.
func InspectReader(r *Reader) (*Summary, error) {
	i := newInspector()
	for {
		rec, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		i.add(r, &rec)
	}
	return i.summary(r), nil
}

func newInspector() *inspector {
	return &inspector{sessions: map[string]int{}, previous: map[string]row{}, s: Summary{Sorted: true, Models: map[string]int{}, Kinds: map[string]int{}, Unsent: map[string]int{}}}
}

func (i *inspector) add(r *Reader, rec *Record) {
	s := &i.s
	s.Requests++
	if rec.At != Unset {
		if s.Timed == 0 {
			i.first, i.last = rec.At, rec.At
		} else if rec.At < i.latest {
			s.Sorted = false
		}
		i.latest = rec.At
		i.first, i.last = min(i.first, rec.At), max(i.last, rec.At)
		s.Timed++
		if len(i.times) < maxTimes {
			i.times = append(i.times, rec.At)
		} else {
			i.manyTimes = true
		}
	}
	if rec.Input != Unknown {
		i.in.add(rec.Input)
	}
	if rec.Output != Unknown {
		i.out.add(rec.Output)
	}
	if rec.Reasoning > 0 {
		i.reasoning.add(rec.Reasoning)
	}
	if len(rec.Messages) > 0 {
		s.WithText++
		for j := range rec.Messages {
			s.TextBytes += int64(len(rec.Messages[j].Text))
		}
	}
	s.Images += rec.Images
	if rec.Cancelled {
		s.Cancelled++
	}
	tick(s.Models, rec.Model)
	tick(s.Kinds, rec.Kind)
	for _, name := range rec.Unsent {
		tick(s.Unsent, name)
	}
	if len(rec.Hashes) > 0 && rec.Input > 0 && !i.later {
		i.reuse.add(rec)
	}
	if rec.Session != "" {
		if n, ok := i.sessions[rec.Session]; ok || len(i.sessions) < maxSessions {
			i.sessions[rec.Session] = n + 1
			if n > 0 {
				i.grow(rec)
			}
			if len(rec.Hashes) > 0 {
				i.previous[rec.Session] = row{len(rec.Hashes), chainOf(rec.Hashes), chainOf(rec.Hashes[:len(rec.Hashes)-1])}
			}
		} else {
			i.manySessions = true
		}
		i.deltas = i.deltas || rec.Delta
	}
	if rec.Graph {
		s.Dependent++
		i.hasDeps = true
	}
	if rec.ID != "" && r.format.graph {
		if len(i.nodes) < maxNodes {
			i.nodes = append(i.nodes, node{rec.ID, rec.Line, rec.Deps})
		} else {
			i.manyNodes = true
		}
	}
}

// grow looks at a later turn.
func (i *inspector) grow(rec *Record) {
	if len(rec.Messages) == 0 {
		i.lengths = true
	}
	before := i.previous[rec.Session]
	if before.blocks == 0 || len(rec.Hashes) == 0 {
		return
	}
	// The last block of a turn may not have been full, and then has another hash.
	h, n := rec.Hashes, before.blocks
	if len(h) >= n && chainOf(h[:n]) == before.whole || n > 1 && len(h) >= n-1 && chainOf(h[:n-1]) == before.most {
		i.grew++
	} else {
		i.cut++
	}
}

// row is what is remembered of a prompt: how many blocks it had, what they and
// all but the last of them were.
type row struct {
	blocks      int
	whole, most uint64
}

func chainOf(ids []uint64) uint64 {
	chain := uint64(0)
	for _, h := range ids {
		chain = random.Derive(chain, h)
	}
	return chain
}

// tick counts one under a name.
func tick(m map[string]int, name string) {
	if name == "" {
		return
	}
	if _, ok := m[name]; !ok && len(m) >= 100 {
		name = "others"
	}
	m[name]++
}

// Counts writes numbers and what they are of, by name.
func Counts(of map[string]int) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		out = append(out, fmt.Sprintf("%d %s", of[name], name))
	}
	return strings.Join(out, ", ")
}

func ptr[T any](v T) *T { return &v }

func (i *inspector) summary(r *Reader) *Summary {
	s := &i.s
	s.Schema, s.File = SummarySchema, r.base()
	s.Format, s.Detected = r.Format()
	s.TimeUnit = r.format.unit
	if r.opts.TimeUnit != UnitAuto {
		s.TimeUnit = r.opts.TimeUnit
	}
	s.Skipped = Skipped{ZeroOutput: r.zeroOutput, BadRow: r.badRows, NoReplay: r.noReplay, Empty: r.empty}
	if r.opts.KeepZeroOutput {
		s.Skipped.ZeroOutput = 0
	}
	s.ToolEvents = r.toolEvents
	s.Input, s.Output, s.Reasoning = i.in.lengths(), i.out.lengths(), i.reasoning.lengths()
	if i.in.coarse || i.out.coarse {
		r.notice("there are more than %d different lengths: percentiles have three digits", maxCounts)
	}
	if s.Timed > 0 {
		s.OffsetS = ptr(float64(r.firstTime+i.first) / 1e9)
		i.timing(r)
	} else if s.Requests > 0 {
		r.notice("no row has a time: it is a data set, and needs users or a rate")
	}
	if !s.Sorted {
		r.notice("rows are not in order of their times: they are sorted before they are sent")
	}
	if b := &i.reuse; b.chains != nil && b.out.Total > 0 {
		o := &b.out
		o.Distinct = len(b.chains)
		o.InconsistentCount = len(b.wrong)
		o.HitRate = float64(o.Hit) / float64(o.Total)
		o.TokenHitRate = float64(o.HitTokens) / float64(o.InputTokens)
		slices.Sort(o.Inconsistent)
		if b.lost {
			r.notice("more than %d different blocks: the prefix reuse is a lower bound", maxBlocks)
		}
		if o.InconsistentCount > 0 {
			r.notice("%d hash ids follow different ids in different rows (%s): they cannot stand for whole prefixes, and less is shared than equal ids suggest", o.InconsistentCount, someIDs(o.Inconsistent, o.InconsistentCount))
		}
		if r.format.floor {
			o.MaxHash = 0 // ids are local to their session, and were made global
		}
		if o.MaxHash > 1<<53 {
			r.notice("hashes go above 2^53: programs that read them as floats take different blocks for the same")
		}
		s.Blocks = o
	}
	if p := r.problems["hash_count"]; p != nil {
		if size := r.fitting(); size > 0 {
			r.notice("all rows would fit a block size of %d: --block-size %d", size, size)
			if s.Blocks != nil {
				s.Blocks.FitsBlock = size
			}
		}
	}
	i.conversations(r)
	if i.hasDeps && !i.manyNodes {
		for _, e := range checkGraph(i.nodes, r.dropped) {
			r.remark(e.Line, e.code, e.Field, e.Text, false)
		}
	}
	if len(s.Models) == 0 {
		s.Models = nil
	}
	if len(s.Kinds) == 0 {
		s.Kinds = nil
	}
	if len(s.Unsent) == 0 {
		s.Unsent = nil
	}
	s.Problems = append([]Problem{}, r.Problems()...)
	s.Notices = append([]string{}, r.Notices()...)
	return s
}

func someIDs(ids []uint64, n int) string {
	var sb strings.Builder
	for i, h := range ids {
		if i > 0 {
			sb.WriteString(", ")
		}
		fmt.Fprint(&sb, h)
	}
	if n > len(ids) {
		sb.WriteString(", ...")
	}
	return sb.String()
}

// conversations sums up the sessions.
func (i *inspector) conversations(r *Reader) {
	s := &i.s
	for _, n := range i.sessions {
		i.turns.add(n)
		if n > 1 {
			s.Sessions++
		}
	}
	if i.manySessions {
		r.notice("more than %d sessions: those after are not counted", maxSessions)
	}
	if s.Turns = i.turns.lengths(); s.Sessions == 0 {
		s.Turns = nil
		return
	}
	switch {
	case i.deltas:
		s.TurnsAre = "delta"
	default:
		s.TurnsAre = "cumulative"
	}
	switch {
	case i.grew > 0 && i.cut == 0:
		s.TurnsProven = !i.deltas
		if i.deltas {
			r.remark(0, "delta_of_cumulative", "", "the rows of a session are said to hold only what is new, but their hashes begin with those of the row before", false)
		}
	case i.grew == 0 && i.cut == 0 && i.lengths && r.opts.Turns == "" && !i.deltas && s.WithText < s.Requests && !r.prefixed():
		r.notice("rows of one session are taken to hold the whole prompt each; --turns delta if they hold only what is new")
	}
}

// prefixed says whether the format itself says what turns hold.
func (r *Reader) prefixed() bool {
	switch r.format.name {
	case "tracelab", "tracelab-csv", "weka", "dynamo", "bailian", "applied-compute":
		return true
	}
	return false
}

const (
	// hasty and long are beyond what a trace of one service is: its times may be in
	// another unit.
	hasty = 1000 // requests/s
	long  = 24 * 3600
	// quiet is the share of the busiest part's rate below which the head of a trace
	// says little of the rest.
	quiet = 0.1
	// parts is how many the span is divided into to find its busiest part, and
	// enough how many requests that part must have to be judged by.
	parts  = 10
	enough = 20
)

// Quiet returns the rate of a slice over that of the trace's busiest part, and
// whether a run of the slice alone would measure an idle service.
func Quiet(rate, peak float64) (ratio float64, warn bool) {
	if !(peak > 0) {
		return 1, false
	}
	ratio = rate / peak
	return ratio, ratio < quiet
}

// timing sums up the times.
func (i *inspector) timing(r *Reader) {
	s := &i.s
	span := float64(i.last-i.first) / 1e9
	s.SpanS = ptr(span)
	if off := *s.OffsetS; off > 0 && r.timeKind != dateTime {
		r.notice("times begin at %s: %s are taken off all of them, so that the first request is sent at 0", trim(off)+" s", trim(off)+" s")
	}
	if span > 0 {
		s.Rate = ptr(float64(s.Timed) / span)
		unit := string(s.TimeUnit)
		switch {
		case *s.Rate > hasty && s.Timed > 100:
			r.notice("%s requests/s: are the times really in %s? --time-unit says what they are in", trim(*s.Rate), unit)
		case span > long && r.timeKind == dateTime:
			i.noticeWhole(r, "the trace lasts %s h; a window of it may be enough", trim(span/3600))
		case span > long:
			r.notice("the trace lasts %s h: are the times really in %s? --time-unit says what they are in; a window of it may be enough", trim(span/3600), unit)
		case s.Timed > 2 && *s.Rate > 100 && r.timeKind == relativeTime && i.in.count > 0 && s.TimeUnit == Milli && r.fractions > s.Timed/2:
			r.notice("most times have fractions of a millisecond: they may be seconds; --time-unit s")
		}
	} else if s.Timed > 1 {
		r.notice("all %d requests have the same time", s.Timed)
	}
	if i.manyTimes {
		r.notice("more than %d rows: gaps and peaks are of the first", maxTimes)
	}
	times := i.times
	if !s.Sorted {
		times = slices.Clone(times)
		slices.Sort(times)
	}
	instants, group, largest := 0, 0, 0
	second, inSecond, peak := int64(-1), 0, 0
	var mean, m2, longest float64
	var tenth [parts]int
	for k, t := range times {
		if k == 0 || t != times[k-1] {
			instants++
			group = 0
		}
		group++
		largest = max(largest, group)
		if sec := (t - i.first) / 1e9; sec != second {
			second, inSecond = sec, 0
		}
		inSecond++
		peak = max(peak, inSecond)
		if k > 0 {
			g := float64(t - times[k-1])
			d := g - mean
			mean += d / float64(k)
			m2 += d * (g - mean)
			longest = max(longest, g)
		}
		if span > 0 {
			tenth[min(parts-1, int(float64(t-i.first)/(span*1e9)*parts))]++
		}
	}
	s.Instants, s.LargestGroup, s.PeakPerSecond = &instants, &largest, &peak
	if n := len(times) - 1; n > 1 && mean > 0 {
		s.GapCV = ptr(math.Sqrt(m2/float64(n)) / mean)
		s.LongestGapS = ptr(longest / 1e9)
	}
	if span > 0 {
		s.busiest = float64(slices.Max(tenth[:])) / (span / parts)
	}
	if most := slices.Max(tenth[:]); most >= enough {
		head, warn := Quiet(float64(tenth[0]), float64(most))
		s.Head = &head
		if warn {
			i.noticeWhole(r, "the trace begins quietly: its first tenth has %s %% of the rate of its busiest tenth, and a run of its head alone would measure an idle service; take another window of it", trim(head*100))
		}
	}
	if text := together(s.Timed, instants, largest, i.spread); text != "" {
		i.noticeWhole(r, "%s", text)
	}
}

// noticeWhole is a notice of the whole trace.
func (i *inspector) noticeWhole(r *Reader, format string, args ...any) {
	r.notice(format, args...)
	i.whole = append(i.whole, fmt.Sprintf(format, args...))
}

// together says that requests stand on few instants, empty when they do not.
func together(timed, instants, largest int, spread bool) string {
	if largest <= 1 || instants <= 1 || largest*instants < timed || float64(timed)/float64(instants) < 2 {
		return ""
	}
	what := "exact replay sends them together; --spread distributes them over the step"
	if spread {
		what = "they are distributed over the step"
	}
	return fmt.Sprintf("%d requests stand on %d instants, up to %d on one: %s", timed, instants, largest, what)
}

// trim writes a number with up to 4 digits.
func trim(v float64) string {
	if math.Abs(v) >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}

// checkGraph says what is wrong with who waits for whom: names that are not in the
// file, names that are there twice, circles.
func checkGraph(nodes []node, dropped map[string][]string) []*Error {
	var out []*Error
	at := make(map[string]int, len(nodes))
	for i := range nodes {
		if j, twice := at[nodes[i].id]; twice {
			out = append(out, &Error{Line: nodes[i].line, Field: "request_id", code: "twice", Text: fmt.Sprintf("%s is there twice, in line %d too", shown(nodes[i].id), nodes[j].line)})
			continue
		}
		at[nodes[i].id] = i
	}
	waits := make([]int, len(nodes))
	next := make([][]int, len(nodes))
	for i := range nodes {
		for _, d := range nodes[i].deps {
			j, ok := at[d]
			if !ok {
				if _, left := dropped[d]; !left {
					out = append(out, &Error{Line: nodes[i].line, Field: "wait_for", code: "unknown_id", Text: shown(d) + " is no request of the trace"})
				}
				continue
			}
			waits[i]++
			next[j] = append(next[j], i)
		}
	}
	var ready []int
	for i, n := range waits {
		if n == 0 {
			ready = append(ready, i)
		}
	}
	done := 0
	for len(ready) > 0 {
		i := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		done++
		for _, j := range next[i] {
			if waits[j]--; waits[j] == 0 {
				ready = append(ready, j)
			}
		}
	}
	if done < len(nodes) {
		for i, n := range waits {
			if n > 0 {
				out = append(out, &Error{Line: nodes[i].line, Field: "wait_for", code: "circle", Text: fmt.Sprintf("%s waits for itself, by way of others (%d requests are in the circle or behind it)", shown(nodes[i].id), len(nodes)-done)})
				break
			}
		}
	}
	return out
}
