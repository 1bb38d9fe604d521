package align

import (
	"math"
	"slices"
	"strings"
	"time"

	"plimsoll/internal/clock"
	"plimsoll/internal/histogram"
	"plimsoll/internal/signal"
	"plimsoll/internal/telemetry"
)

// thinned keeps a bounded, even selection of many values, for their median.
type thinned struct {
	list   [32]int64
	n      int
	stride int64
	seen   int64
}

func (t *thinned) add(v int64) {
	if t.stride == 0 {
		t.stride = 1
	}
	t.seen++
	if t.seen%t.stride != 0 {
		return
	}
	if t.n == len(t.list) {
		for i := range t.n / 2 {
			t.list[i] = t.list[2*i+1]
		}
		t.n /= 2
		t.stride *= 2
	}
	t.list[t.n] = v
	t.n++
}

// median returns the middle value, 0 when there is none.
func (t *thinned) median() int64 {
	if t.n == 0 {
		return 0
	}
	s := t.list
	slices.Sort(s[:t.n])
	return s[t.n/2]
}

// track is what a first look at all readings says of one series.
type track struct {
	n           int64
	first, last int64
	value       float64
	before      int64 // the last time between readings
	longest     int64 // the longest that may be none but the usual
	between     thinned
	changed     int64
	changes     []change
	falls       int64 // how often it became less
}

func (k *track) add(t int64, v float64) {
	if k.n == 0 {
		k.n, k.first, k.last, k.value = 1, t, t, v
		return
	}
	if t <= k.last {
		return
	}
	d := t - k.last
	if k.before > 0 && float64(d) <= late*float64(k.before) {
		k.longest = max(k.longest, d)
	}
	k.before = d
	k.between.add(d)
	if v != k.value {
		k.changed++
		if v < k.value {
			k.falls++
		}
		k.keep(change{k.last, t})
	}
	k.n++
	k.last, k.value = t, v
}

// note is add without what finds periods, which takes much memory in each of many series.
func (k *track) note(t int64, v float64) {
	if k.n == 0 {
		k.first = t
	} else if t <= k.last {
		return
	} else if v != k.value {
		k.changed++
	}
	k.n++
	k.last, k.value = t, v
}

// share returns the share of readings that brought another value.
func (k *track) share() float64 {
	if k.n < 2 {
		return 0
	}
	return float64(k.changed) / float64(k.n-1)
}

// keep remembers the latest changes.
func (k *track) keep(c change) {
	if len(k.changes) == keptChanges { // half of them go at once, so that it is rare
		k.changes = append(k.changes[:0], k.changes[keptChanges/2:]...)
	}
	k.changes = append(k.changes, c)
}

// origin is what a first look says of one source.
type origin struct {
	ticks    track // its readings, each a change when any of its values changed
	tick     int64 // the reading that is under way
	any      bool
	changed  bool
	offset   *clock.Offset
	starts   map[string]float64 // when its processes started, by labels
	restarts []int64            // the first readings after it started anew
	gaps     []gapOf
	moreGaps *histogram.Histogram // the lengths of those beyond the kept, nil for none
	shift    bool                 // its samples bear times of its own clock
	relayed  bool                 // all of them do
	last     int64                // its newest sample
	cached   bool                 // aheadBy is known
	aheadOf  int64                // the second that it is of
	aheadBy  int64
}

// gapOf is a stretch without a reading.
type gapOf struct{ from, to int64 }

// keptGaps bounds what is told of one source.
const keptGaps = 32

// survey is a first look at all samples of a run.
type survey struct {
	in        *Input
	series    []signal.Series
	tracks    []track
	origins   []origin
	first     int64
	last      int64
	any       bool
	strangers int64 // samples of times that no run has
	// behind is how far behind the newest sample others are, at most.
	behind int64
	// brief says that of series only what is needed at once is kept: the run still goes on.
	brief bool
}

// observer finds clock readings among the series.
type observer struct {
	kind       []telemetry.ClockKind // by series, empty for what is none
	resolution []int64
}

// know looks at the series that are new.
func (o *observer) know(series []signal.Series) {
	for _, s := range series[len(o.kind):] {
		kind, resolution := telemetry.ClockKind(""), int64(0)
		if s.Signal == signal.None && s.Raw == telemetry.ClockSeries {
			for pair := range strings.SplitSeq(s.Labels, ",") {
				name, value, _ := strings.Cut(pair, "=")
				switch name {
				case "kind":
					kind = telemetry.ClockKind(value)
				case "resolution":
					if d, err := time.ParseDuration(value); err == nil {
						resolution = int64(d)
					}
				}
			}
			if resolution == 0 {
				resolution = int64(time.Millisecond)
				if kind == telemetry.ClockDate {
					resolution = int64(time.Second)
				}
			}
		}
		o.kind, o.resolution = append(o.kind, kind), append(o.resolution, resolution)
	}
}

// observe takes a clock reading of a source.
func (o *observer) observe(offset *clock.Offset, s *signal.Sample) {
	if !(s.Value > 0 && s.Value < 1e10) { // up to the year 2286
		return
	}
	whole, part := math.Modf(s.Value)
	stamp := int64(whole)*1e9 + int64(part*1e9)
	switch o.kind[s.Series] {
	case telemetry.ClockDate, telemetry.ClockTime:
		offset.Observe(s.Start, s.End, stamp, o.resolution[s.Series])
	case telemetry.ClockSample:
		offset.ObserveAtLeast(s.End, stamp)
	}
}

// survey looks at all samples once, twice where sources have times of their own:
// their clocks must be known before anything else.
func newSurvey(in *Input) *survey {
	v := &survey{in: in, origins: make([]origin, len(in.Sources))}
	for i := range in.Sources {
		v.origin(i).shift, v.origin(i).relayed = in.Sources[i].OwnTimes, in.Sources[i].Relayed
	}
	var o observer
	clocks := func() {
		for batch := range in.Samples.All() {
			o.know(in.Samples.Series())
			for i := range batch {
				s := &batch[i]
				if o.kind[s.Series] != "" {
					o.observe(v.origin(in.Samples.Series()[s.Series].Source).offset, s)
				}
			}
		}
	}
	own := slices.ContainsFunc(in.Sources, func(s Source) bool { return s.OwnTimes })
	if own {
		clocks()
	}
	for batch := range in.Samples.All() {
		series := in.Samples.Series()
		o.know(series)
		for len(v.tracks) < len(series) {
			v.tracks = append(v.tracks, track{})
		}
		for i := range batch {
			s := &batch[i]
			d := &series[s.Series]
			g := v.origin(d.Source)
			if o.kind[s.Series] != "" {
				if !own {
					o.observe(g.offset, s)
				}
				continue
			}
			if d.Signal == signal.None {
				continue
			}
			v.add(g, d, s)
		}
	}
	v.series = in.Samples.Series()
	for i := range v.origins {
		v.origins[i].end()
	}
	return v
}

// origin returns the source of index i.
func (v *survey) origin(i int) *origin {
	for len(v.origins) <= i {
		v.origins = append(v.origins, origin{})
	}
	g := &v.origins[i]
	if g.offset == nil {
		g.offset = clock.NewOffset(v.in.Start)
	}
	return g
}

// stated says whether a sample bears a time of the source's own clock. All of a
// Prometheus do; of pages those whose time is one instant. What is said of the
// reading itself never does.
func (g *origin) stated(s *signal.Sample, d *signal.Series) bool {
	return g.shift && (g.relayed || s.Start == s.End) && d.Signal.Def().Group != signal.Scrape
}

// at returns when the value of a sample held, in ns of the run's clock.
func (g *origin) at(s *signal.Sample, d *signal.Series) int64 {
	t := s.Start + (s.End-s.Start)/2
	if g.stated(s, d) {
		return t - g.ahead(t)
	}
	return t
}

// ahead returns how far the source's clock was ahead at time t, 0 when that is not
// known. It is worked out once a second: clocks drift by less than 0.1 ms in that.
func (g *origin) ahead(t int64) int64 {
	if second := floor(t, 1e9); !g.cached || second != g.aheadOf {
		offset, _, _ := g.offset.At(t)
		g.cached, g.aheadOf, g.aheadBy = true, second, offset
	}
	return g.aheadBy
}

// strange says whether a time that a source stated cannot be one of the run: its
// clock is off by more than an hour, and by how much is not known.
func (v *survey) strange(t int64) bool {
	const hour = int64(time.Hour)
	return t < -hour || v.in.Run.Duration > 0 && t > v.in.Run.Duration+hour
}

func (v *survey) add(g *origin, d *signal.Series, s *signal.Sample) {
	t := g.at(s, d)
	if g.stated(s, d) && v.strange(t) {
		v.strangers++
		return
	}
	g.last = max(g.last, t)
	if !v.any || t < v.first {
		v.first = t
	}
	if !v.any || t > v.last {
		v.last = t
	}
	v.any = true
	v.behind = max(v.behind, v.last-t)
	k := &v.tracks[s.Series]
	if d.Field == signal.TotalBucket || d.Field == signal.TotalSum {
		k.n++ // what holds for the count of a distribution holds for all of it
		return
	}
	if d.Signal == signal.EngineStart {
		g.started(d.Labels, t, s.Value)
	}
	before := k.changed
	if v.brief {
		k.note(t, s.Value)
	} else {
		k.add(t, s.Value)
	}
	if g.stated(s, d) || g.relayed && d.Signal.Def().Group == signal.Scrape {
		return // its readings are not the scraper's
	}
	if !g.any || t > g.tick {
		g.end()
		g.any, g.tick, g.changed = true, t, false
	}
	if k.changed > before && d.Signal.Def().Group != signal.Scrape {
		g.changed = true
	}
}

// end takes the reading that is under way into account.
func (g *origin) end() {
	if !g.any {
		return
	}
	v := g.ticks.value
	if g.changed {
		v++
	}
	if n := g.ticks.n; n > 0 && (n < 3 || float64(g.tick-g.ticks.last) > late*float64(max(g.ticks.between.median(), g.ticks.before))) {
		if len(g.gaps) < keptGaps {
			g.gaps = append(g.gaps, gapOf{g.ticks.last, g.tick})
		} else {
			if g.moreGaps == nil {
				g.moreGaps = new(histogram.Histogram)
			}
			g.moreGaps.Record(g.tick - g.ticks.last)
		}
	}
	g.ticks.add(g.tick, v)
}

// started notes the start time that a server states: another one is a restart.
func (g *origin) started(labels string, t int64, v float64) {
	if g.starts == nil {
		g.starts = make(map[string]float64)
	}
	before, known := g.starts[labels]
	g.starts[labels] = v
	if known && math.Abs(v-before) > 1 && (len(g.restarts) == 0 || g.restarts[len(g.restarts)-1] < t) {
		g.restarts = append(g.restarts, t)
	}
}

// restarted says whether the source started anew after one reading and not after
// another.
func (g *origin) restarted(after, upTo int64) bool {
	i, _ := slices.BinarySearch(g.restarts, after+1)
	return i < len(g.restarts) && g.restarts[i] <= upTo
}

// usual returns the usual time between readings of a series.
func (v *survey) usual(series int32) int64 {
	k := &v.tracks[series]
	if m := k.between.median(); m > 0 {
		return m
	}
	if m := v.origins[v.series[series].Source].ticks.between.median(); m > 0 {
		return m
	}
	return int64(time.Second) // one reading only: what is asked for by default
}

// updates returns how often the value of a series is renewed: by its own changes
// or, where those tell nothing, by those of all values of its source.
func (v *survey) updates(series int32) updates {
	k := &v.tracks[series]
	if u := findPeriod(k.changes, v.usual(series), k.share()); u.period > 0 {
		return u
	}
	return v.origins[v.series[series].Source].updates()
}

// missing returns the gaps, now that the usual time between readings is known, and
// how many there were.
func (g *origin) missing() (gaps []gapOf, count int64) {
	longest := late * float64(g.ticks.between.median())
	for _, x := range g.gaps {
		if float64(x.to-x.from) > longest {
			gaps = append(gaps, x)
		}
	}
	count = int64(len(gaps))
	if h := g.moreGaps; h != nil {
		count += int64(h.Count() - h.CountAtMost(int64(longest)))
	}
	return gaps, count
}

// updates returns how often the source renews what it states.
func (g *origin) updates() updates {
	return findPeriod(g.ticks.changes, g.ticks.between.median(), g.ticks.share())
}
