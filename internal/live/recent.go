package live

import (
	"math"
	"strconv"

	"plimsoll/internal/detail"
	"plimsoll/internal/histogram"
	"plimsoll/internal/phrase"
	"plimsoll/internal/record"
	"plimsoll/internal/stats"
)

// lookback is how many seconds the figures of the header and what is held against
// limits are of.
const lookback = 10

// recent are the values of the last seconds.
type recent struct {
	values [lookback]histogram.Histogram
	// infinite counts requests that failed: they are over every limit.
	infinite [lookback]uint64
	second   int64 // the newest
	sum      histogram.Histogram
}

// advance makes a second the newest.
func (r *recent) advance(second int64) {
	for n := max(r.second+1, second-lookback+1); n <= second; n++ {
		r.values[n%lookback].Reset()
		r.infinite[n%lookback] = 0
	}
	r.second = max(r.second, second)
}

func (r *recent) add(v int64) { r.values[r.second%lookback].Record(v) }

func (r *recent) fail() { r.infinite[r.second%lookback]++ }

// all returns the values of the last seconds, until the next call, and how many
// others are infinite.
func (r *recent) all() (*histogram.Histogram, uint64) {
	r.sum.Reset()
	var infinite uint64
	for i := range r.values {
		if r.values[i].Count() > 0 {
			r.sum.Merge(&r.values[i])
		}
		infinite += r.infinite[i]
	}
	return &r.sum, infinite
}

// quantile returns a quantile, nil without values.
func (r *recent) quantile(q float64) *detail.Ms {
	h, _ := r.all()
	if h.Count() == 0 {
		return nil
	}
	v := detail.ToMs(h.Quantile(q))
	return &v
}

// A state of which a mark tells must hold for firm seconds in a row before it is
// said to have begun or ended, so that a figure that dances about its limit is no
// row of marks; and it has not ended before the figure is calm times its limit.
// Fewer values than leastValues say nothing.
const (
	firm        = 3
	calm        = 0.95
	leastValues = 5
)

// stretch is something that holds for a while and then no longer.
type stretch struct {
	on    bool
	count int   // seconds in a row in which it was the other way round
	since int64 // ns, the first of them
}

// look takes what one second says: whether it holds (yes), holds no longer (no), or
// neither. It returns whether the state changed, and when.
func (s *stretch) look(now int64, yes, no bool) (changed bool, at int64) {
	other := yes
	if s.on {
		other = no
	}
	if !other {
		s.count = 0
		return false, 0
	}
	if s.count++; s.count == 1 {
		s.since = now
	}
	if s.count < firm {
		return false, 0
	}
	s.on, s.count = !s.on, 0
	return true, s.since
}

// limit is one limit and what it is held against.
type limit struct {
	stats.Level
	name string // of the figure
	// decides says that the run is judged by it, and not a workload alone.
	decides bool
	recent  recent
	// lacking says that a request ended well without the figure.
	lacking bool
	// value is the statistic of the last seconds in ns as it was looked at last, Inf
	// where failures make it so, where known says that there is one.
	value float64
	known bool
	stretch
	mark int // index of its mark while it is on
}

// newLimits readies the limits of a run.
func newLimits(in *stats.Input) []*limit {
	var out []*limit
	for _, l := range in.AllLevels() {
		name, _ := l.Figure(in.RateDriven)
		out = append(out, &limit{Level: l, name: name, decides: in.Decides(&l)})
	}
	return out
}

// of returns the figure of a request in ns, for itl its mean.
func (l *limit) of(r *record.Request) (int64, bool) {
	v, ok := l.figure(r)
	if search, has := stats.Retrieval(r); ok && l.WithRetrieval {
		if !has {
			return 0, false
		}
		v += search
	}
	return v, ok
}

func (l *limit) figure(r *record.Request) (int64, bool) {
	switch l.name {
	case "ttft":
		return stats.TTFT(r)
	case "ttft_from_schedule":
		return stats.TTFTFromSchedule(r)
	case "ttfc":
		return stats.TTFC(r)
	case "ttlt":
		return stats.TTLT(r)
	case "e2e":
		return stats.E2E(r)
	case "e2e_from_schedule":
		return stats.E2EFromSchedule(r)
	}
	if r.Flags&record.BufferedStream != 0 {
		return 0, false // the spacing is a proxy's, not the server's
	}
	if l.name == "tpot" {
		v, _, ok := stats.TPOT(r)
		return int64(math.Round(v)), ok
	}
	var sum, n int64
	ok := stats.ITL(r, func(gap int64, tokens int32) { sum, n = sum+gap, n+int64(tokens) })
	return sum / max(n, 1), ok && n > 0
}

// add takes a request that ended, and says whether it kept the limit. Those of the
// steady window are held against it together.
func (l *limit) add(r *record.Request) bool {
	if !l.About(r.Workload, r.Turn > 0) {
		return true
	}
	v, ok := l.of(r)
	steady := r.Phase == record.Steady
	switch r.Status {
	case record.Failed, record.Incomplete:
		if steady {
			l.recent.fail()
		}
		return false
	case record.OK, record.Cancelled:
	}
	l.lacking = l.lacking || steady && !ok && r.Status == record.OK
	switch {
	case !ok || !steady:
	case l.name == "itl":
		h := &l.recent.values[l.recent.second%lookback]
		stats.ITL(r, func(gap int64, tokens int32) { h.RecordShared(gap, uint64(tokens)) })
	default:
		l.recent.add(v)
	}
	return r.Status == record.OK && (!ok || v <= int64(l.Value))
}

// look works out the statistic of the last seconds. Too few values say nothing, and
// failures say nothing of a figure that no request has.
func (l *limit) look() {
	h, infinite := l.recent.all()
	if l.known = h.Count()+infinite >= leastValues && (h.Count() > 0 || !l.lacking); l.known {
		l.value = stats.PooledStat([]*histogram.Histogram{h}, int64(h.Count()), int64(infinite), l.Stat)
	}
}

// missed says whether the limit is.
func (l *limit) missed() bool { return l.known && l.value > float64(l.Value) }

// judge says whether it has come to be missed, or to be met, and since when.
func (l *limit) judge(now int64) (changed bool, at int64) {
	return l.stretch.look(now, l.missed(), l.known && l.value <= calm*float64(l.Value))
}

// header says it in a snapshot.
func (l *limit) header() LimitNow {
	out := LimitNow{}
	if l.known {
		out.Met = new(!l.missed())
		if !math.IsInf(l.value, 1) {
			out.Value = new(detail.Ms(l.value / 1e6))
		}
	}
	return out
}

// over says what is over the limit.
func (l *limit) over() (string, phrase.Said) {
	figure, of, limit := phrase.Quote(l.Metric+" "+l.Stat), phrase.Text(l.Of()), phrase.Quote(l.Value.String())
	if math.IsInf(l.value, 1) {
		return saysInfinite.Say(figure, of, limit)
	}
	return saysOver.Say(figure, of, limit, phrase.Number(l.value/1e6, "ms"))
}

// figure writes a number with three significant digits, whole parts kept whole.
func figure(v float64) string {
	digits := 0
	if a := math.Abs(v); a > 0 && a < 100 {
		digits = min(2-int(math.Floor(math.Log10(a))), 6)
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}
