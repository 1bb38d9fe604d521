package detail

import (
	"math"
	"slices"
	"sort"

	"plimsoll/internal/record"
	"plimsoll/internal/stats"
)

// durations is a column of durations in ns at 5 bytes each: all but a few of a run's
// are between 0 and 18 minutes. What does not fit goes to a list. Rows behind its
// end are null, so that a column in which nothing is known costs nothing.
type durations struct {
	lo  []uint32
	hi  []uint8
	far []farValue // ascending by row
}

type farValue struct {
	row int32
	v   int64
}

const (
	durationNull = 1<<40 - 1
	durationFar  = 1<<40 - 2
)

// put sets the value of row, which is beyond all that were put before.
func (d *durations) put(row int, v int64) {
	for len(d.lo) < row {
		d.lo, d.hi = append(d.lo, math.MaxUint32), append(d.hi, math.MaxUint8)
	}
	if v < 0 || v >= durationFar {
		d.far = append(d.far, farValue{int32(row), v})
		v = durationFar
	}
	d.lo, d.hi = append(d.lo, uint32(v)), append(d.hi, uint8(v>>32))
}

func (d *durations) get(row int) (int64, bool) {
	if row < len(d.lo) {
		if v := int64(d.hi[row])<<32 | int64(d.lo[row]); v < durationFar {
			return v, true
		}
		return d.rare(row)
	}
	return 0, false
}

// rare is get for what is null or did not fit.
func (d *durations) rare(row int) (int64, bool) {
	if d.lo[row] == durationNull&math.MaxUint32 {
		return 0, false
	}
	i := sort.Search(len(d.far), func(i int) bool { return int(d.far[i].row) >= row })
	return d.far[i].v, true
}

// orZero is get for a column in which null means 0.
func (d *durations) orZero(row int) int64 {
	v, _ := d.get(row)
	return v
}

// The durations that are kept of a request, in ns.
const (
	colDelay   = iota // t_scheduled to t_start
	colEnd            // t_scheduled to t_end
	colTTFT           // t_start to t_first_token, of streams
	colTTLT           // t_start to t_last_token
	colContent        // t_first_token to t_first_content, 0 left out
	colHeld           // what of the delay was not the client's lateness, 0 left out
	colRetrieval
	colITL // mean inter-token latency, only where a limit asks for it
	numDurations
)

// The bits of a row's kind.
const (
	kindStatus   = 3 // record.Status
	kindPhase    = 3 << 2
	kindStreamed = 1 << 4
	kindReused   = 1 << 5
	kindContent  = 1 << 6 // t_first_content was reached
	kindSent     = 1 << 7 // it was sent, or answered
)

// profile is what many requests have in common: of it a run has some tens or hundreds,
// so that a question about it is one about these.
type profile struct {
	step, workload, target uint16
	flags, http            uint16
	kind, err, finish      uint8
}

func (p *profile) status() record.Status { return record.Status(p.kind & kindStatus) }

func (p *profile) phase() record.Phase { return record.Phase(p.kind & kindPhase >> 2) }

// columns are the requests of a run, some 80 bytes each. Copies of the struct stay
// as they are while the original grows.
type columns struct {
	id        []uint32
	scheduled []int64
	session   []uint64
	user      []uint32
	turn      []uint32
	// profile is the number of each request's among profiles. Only what adds reads numbers,
	// where each of them is.
	profile    []uint32
	profiles   []profile
	numbers    map[profile]uint32
	prompt     []int32
	cached     []int32
	output     []int32
	tpotTokens []int32 // what tpot is divided by, 0 where it is not known
	durations  [numDurations]durations
	// place is the row's number in the order of the parts on disk; nil while the run
	// goes on.
	place []uint32
}

func (c *columns) rows() int { return len(c.scheduled) }

// saturate cuts v to what fits.
func saturate[T ~uint8 | ~uint16 | ~uint32](v uint64) T { return T(min(v, uint64(^T(0)))) }

// add appends a request. Workload and finish are indexes; withITL says whether the
// mean inter-token latency is kept.
func (c *columns) add(r *record.Request, workload uint16, finish uint8, withITL bool) {
	row := c.rows()
	t := binTime(r)
	kind := uint8(r.Status)&kindStatus | uint8(r.Phase)<<2&kindPhase
	if r.Streamed {
		kind |= kindStreamed
	}
	if r.Reused {
		kind |= kindReused
	}
	if r.FirstContent != record.Unset {
		kind |= kindContent
	}
	if r.Sent != record.Unset || r.Headers != record.Unset {
		kind |= kindSent
	}
	_, tokens, _ := stats.TPOTParts(r)
	if r.Start == record.Unset {
		tokens = 0
	}
	c.id = append(c.id, saturate[uint32](r.ID))
	c.scheduled = append(c.scheduled, t)
	c.session = append(c.session, r.Session)
	c.user, c.turn = append(c.user, r.User), append(c.turn, r.Turn)
	c.profile = append(c.profile, c.number(profile{
		step: saturate[uint16](uint64(r.Step)), workload: workload, target: saturate[uint16](uint64(r.Target)),
		flags: uint16(r.Flags), http: r.HTTPStatus, kind: kind, err: uint8(r.Error), finish: finish,
	}))
	c.prompt, c.cached, c.output = append(c.prompt, r.Prompt), append(c.cached, r.Cached), append(c.output, r.Output)
	c.tpotTokens = append(c.tpotTokens, tokens)

	put := func(col int, v int64, ok bool) {
		if ok {
			c.durations[col].put(row, v)
		}
	}
	delay := r.Start - t
	put(colDelay, delay, r.Start != record.Unset)
	put(colEnd, r.End-t, r.End != record.Unset)
	ttft, ok := stats.TTFT(r)
	put(colTTFT, ttft, ok)
	ttlt, ok := stats.TTLT(r)
	put(colTTLT, ttlt, ok)
	put(colContent, r.FirstContent-r.FirstToken,
		r.FirstContent != record.Unset && r.FirstToken != record.Unset && r.FirstContent != r.FirstToken)
	lag, ok := stats.SendLag(r)
	put(colHeld, delay-lag, ok && delay != lag && r.Start != record.Unset)
	v, ok := stats.Retrieval(r)
	put(colRetrieval, v, ok)
	if withITL && r.Flags&record.BufferedStream == 0 {
		var sum, n int64
		if stats.ITL(r, func(gap int64, tokens int32) { sum, n = sum+gap, n+int64(tokens) }) {
			put(colITL, (sum+n/2)/n, true)
		}
	}
}

// grow makes room for n requests.
func (c *columns) grow(n int) {
	c.id, c.scheduled, c.session = slices.Grow(c.id, n), slices.Grow(c.scheduled, n), slices.Grow(c.session, n)
	c.user, c.turn, c.profile = slices.Grow(c.user, n), slices.Grow(c.turn, n), slices.Grow(c.profile, n)
	c.prompt, c.cached, c.output = slices.Grow(c.prompt, n), slices.Grow(c.cached, n), slices.Grow(c.output, n)
	c.tpotTokens, c.place = slices.Grow(c.tpotTokens, n), slices.Grow(c.place, n)
}

// number returns that of a profile.
func (c *columns) number(p profile) uint32 {
	n, ok := c.numbers[p]
	if !ok {
		if c.numbers == nil {
			c.numbers = make(map[profile]uint32)
		}
		n = uint32(len(c.profiles))
		c.profiles, c.numbers[p] = append(c.profiles, p), n
	}
	return n
}

// of returns the profile of a row.
func (c *columns) of(row int) *profile { return &c.profiles[c.profile[row]] }

// perProfile returns what say says of each profile, as 0 or 1.
func (c *columns) perProfile(say func(p *profile) bool) []uint8 {
	out := make([]uint8, len(c.profiles))
	for i := range c.profiles {
		out[i] = bit(say(&c.profiles[i]))
	}
	return out
}

// binTime is the time that a request is filed under: when it was scheduled or, where
// that is not known, began or ended.
func binTime(r *record.Request) int64 {
	for _, t := range []int64{r.Scheduled, r.Start, r.End} {
		if t != record.Unset {
			return t
		}
	}
	return 0
}

// figure is a duration that every request may have.
type figure uint8

const (
	figTTFT figure = iota
	figTTFC
	figTPOT
	figE2E
	figTTFTFromSchedule
	figE2EFromSchedule
	figTTLT
	figRetrieval
	figSendLag
	figMeanITL
	numFigures
)

// figureNames are those of METRICS.md; the mean inter-token latency of a request is
// only for limits.
var figureNames = [numFigures]string{
	"ttft", "ttfc", "tpot", "e2e", "ttft_from_schedule", "e2e_from_schedule", "ttlt", "retrieval", "send_lag", "",
}

// figureOf returns the figure called name.
func figureOf(name string) (figure, bool) {
	i := slices.Index(figureNames[:], name)
	return figure(i), i >= 0 && name != ""
}

// value returns figure f of a row in ns, whatever its status: e2e is the time until
// the end of a request that failed, too. Those that only ok requests have are cut by
// shown.
func (c *columns) value(row int, f figure) (float64, bool) {
	switch f {
	case figTTFT:
		v, ok := c.durations[colTTFT].get(row)
		return float64(v), ok
	case figTTFC:
		v, ok := c.durations[colTTFT].get(row)
		return float64(v + c.durations[colContent].orZero(row)), ok && c.of(row).kind&kindContent != 0
	case figTPOT:
		n := c.tpotTokens[row]
		if n == 0 {
			return 0, false
		}
		first, _ := c.durations[colTTFT].get(row)
		last, _ := c.durations[colTTLT].get(row)
		return float64(last-first) / float64(n), true
	case figE2E:
		v, ok := c.durations[colEnd].get(row)
		delay, has := c.durations[colDelay].get(row)
		return float64(v - delay), ok && has
	case figTTFTFromSchedule:
		v, ok := c.durations[colTTFT].get(row)
		delay, has := c.durations[colDelay].get(row)
		return float64(v + delay), ok && has
	case figE2EFromSchedule:
		v, ok := c.durations[colEnd].get(row)
		_, has := c.durations[colDelay].get(row)
		return float64(v), ok && has
	case figTTLT:
		v, ok := c.durations[colTTLT].get(row)
		return float64(v), ok
	case figRetrieval:
		v, ok := c.durations[colRetrieval].get(row)
		return float64(v), ok
	case figSendLag:
		v, ok := c.durations[colDelay].get(row)
		return float64(v - c.durations[colHeld].orZero(row)), ok
	case figMeanITL:
		v, ok := c.durations[colITL].get(row)
		return float64(v), ok
	case numFigures:
	}
	panic("BUG: unknown figure")
}

// shown is value for showing: e2e is that of ok requests alone.
func (c *columns) shown(row int, f figure) (float64, bool) {
	if (f == figE2E || f == figE2EFromSchedule) && c.of(row).status() != record.OK {
		return 0, false
	}
	return c.value(row, f)
}

// end returns when the request of a row ended.
func (c *columns) end(row int) (int64, bool) {
	v, ok := c.durations[colEnd].get(row)
	return c.scheduled[row] + v, ok
}
