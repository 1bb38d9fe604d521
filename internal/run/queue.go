package run

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"plimsoll/internal/record"
)

// The queue between the requests that end and the writer holds records as
// bytes: a record in memory takes 40 bytes per event, one here 4 to 6. Events
// are held by column, as they are written, and a column in which they are all
// the same takes two bytes. The form lives no longer than the process, so it has
// no version.

// Forms of a column of the events, its first byte.
const (
	formSame  = 0 // every event has the value that follows
	formByte  = 1 // one byte per event
	formWord  = 4 // 4 bytes per event, little endian
	formTwice = 8 // 8 bytes per event
)

type encoder struct{ b []byte }

func (e *encoder) uint(v uint64)   { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) int(v int64)     { e.b = binary.AppendVarint(e.b, v) }
func (e *encoder) string(s string) { e.uint(uint64(len(s))); e.b = append(e.b, s...) }

// point writes a clock point as its distance from base; Unset is told by the
// largest distance, which no run has.
func (e *encoder) point(v, base int64) {
	if v == record.Unset {
		e.int(math.MaxInt64)
		return
	}
	e.int(v - base)
}

// bools packs up to 8 booleans.
func (e *encoder) bools(vs ...bool) {
	var b byte
	for i, v := range vs {
		if v {
			b |= 1 << i
		}
	}
	e.b = append(e.b, b)
}

// appendRequest appends r to b.
func appendRequest(b []byte, r *record.Request) []byte {
	e := encoder{b}
	e.uint(r.ID)
	e.uint(r.Session)
	for _, v := range []uint32{r.User, r.Turn, r.Step, r.Agent, r.Target, r.Reads, r.StreamEvents, r.Fallbacks, uint32(r.Flags)} {
		e.uint(uint64(v))
	}
	for _, s := range []string{r.Workload, r.Remote, r.Finish, r.Message, r.ReasoningText, r.RefusalText} {
		e.string(s)
	}
	e.uint(uint64(len(r.Text)))
	for _, s := range r.Text {
		e.string(s)
	}
	base := int64(0)
	for _, t := range []int64{
		r.Scheduled, r.Start, r.Connected, r.Sent, r.Headers, r.FirstEvent, r.FirstToken, r.FirstContent,
		r.LastToken, r.End, r.RetrievalStart, r.RetrievalEnd, r.FirstSend,
	} {
		e.point(t, base)
		if t != record.Unset {
			base = t
		}
	}
	e.int(r.CapWait)
	e.point(r.ReadLagMean, 0)
	e.point(r.ReadLagMax, 0)
	for _, v := range []int32{
		r.AskedPrompt, r.AskedOutput, r.AskedText, r.Prompt, r.Cached, r.Output, r.Reasoning, r.TokenizerOutput,
		r.StreamedTokens, r.FirstEventTokens,
	} {
		e.int(int64(v))
	}
	for _, v := range []int64{r.SentBytes, r.ReceivedBytes, r.TextBytes} {
		e.int(v)
	}
	e.b = append(e.b, byte(r.Phase), byte(r.Source), byte(r.Basis), byte(r.Status), byte(r.Error), r.Resends)
	e.uint(uint64(r.HTTPStatus))
	e.bools(r.KernelTimes, r.Streamed, r.AskedStream, r.AskedExact, r.Reused)

	e.events(r.Events)
	return e.b
}

// events appends the columns of ev.
func (e *encoder) events(ev []record.Event) {
	e.uint(uint64(len(ev)))
	if len(ev) == 0 {
		return
	}
	a := &ev[0]
	e.int(a.At)
	e.uint(uint64(a.Read))
	// Bits are set in which two events differ, or a step from the usual.
	var (
		gaps                             uint64
		reads, textBytes                 uint32
		tokens, cumulative               int32
		choices, channels                uint8
		bounded                          bool
		lastAt, lastRead, allAt, oneRead = a.At, a.Read, a.Bounded, uint32(1)
	)
	for i := 1; i < len(ev); i++ {
		v := &ev[i]
		gaps |= uint64(v.At - lastAt)
		reads |= (v.Read - lastRead) ^ oneRead
		textBytes |= v.TextBytes ^ a.TextBytes
		tokens |= v.Tokens ^ a.Tokens
		cumulative |= v.Cumulative ^ a.Cumulative
		choices |= v.Choice ^ a.Choice
		channels |= uint8(v.Channel ^ a.Channel)
		bounded = bounded || v.Bounded != allAt
		lastAt, lastRead = v.At, v.Read
	}
	e.gaps(ev, gaps)
	e.column(reads == 0, oneRead, ev[1:], func(v *record.Event) uint32 {
		// Events lie in one slice, so that the one before is known by a.
		step := v.Read - a.Read
		a = v
		return step
	})
	a = &ev[0]
	e.column(tokens == 0, uint32(a.Tokens), ev, func(v *record.Event) uint32 { return uint32(v.Tokens) })
	e.column(cumulative == 0, uint32(a.Cumulative), ev, func(v *record.Event) uint32 { return uint32(v.Cumulative) })
	e.column(textBytes == 0, a.TextBytes, ev, func(v *record.Event) uint32 { return v.TextBytes })
	e.column(choices == 0, uint32(a.Choice), ev, func(v *record.Event) uint32 { return uint32(v.Choice) })
	e.column(channels == 0, uint32(a.Channel), ev, func(v *record.Event) uint32 { return uint32(v.Channel) })
	e.column(!bounded, one(a.Bounded), ev, func(v *record.Event) uint32 { return one(v.Bounded) })
}

func one(v bool) uint32 {
	if v {
		return 1
	}
	return 0
}

// gaps appends the times between events; bits has those that are set in one.
func (e *encoder) gaps(ev []record.Event, bits uint64) {
	n := len(ev) - 1
	last := ev[0].At
	if bits>>32 != 0 {
		e.b = append(e.b, formTwice)
		for i := range ev[1:] {
			at := ev[i+1].At
			e.b = binary.LittleEndian.AppendUint64(e.b, uint64(at-last))
			last = at
		}
		return
	}
	e.b = append(e.b, formWord)
	from := len(e.b)
	e.b = slices.Grow(e.b, 4*n)[:from+4*n]
	to := e.b[from:]
	for i := range ev[1:] {
		at := ev[i+1].At
		binary.LittleEndian.PutUint32(to[4*i:], uint32(at-last))
		last = at
	}
}

// column appends what f says of each event, or v once if that is the same.
func (e *encoder) column(same bool, v uint32, ev []record.Event, f func(*record.Event) uint32) {
	if same {
		e.b = append(e.b, formSame)
		e.uint(uint64(v))
		return
	}
	form := len(e.b)
	e.b = append(e.b, formWord)
	from := len(e.b)
	e.b = slices.Grow(e.b, 4*len(ev))[:from+4*len(ev)]
	to := e.b[from:]
	bits := uint32(0)
	for i := range ev {
		v := f(&ev[i])
		bits |= v
		binary.LittleEndian.PutUint32(to[4*i:], v)
	}
	if bits < 1<<8 { // the low byte of each is all of it
		e.b[form] = formByte
		for i := range ev {
			to[i] = to[4*i]
		}
		e.b = e.b[:from+len(ev)]
	}
}

// decoder reads what encoder wrote. The bytes never leave the process, so a
// malformed one is a bug and panics by a slice bound.
type decoder struct {
	b []byte
	// names keeps one copy of each of the strings that repeat.
	names  map[string]string
	arrays arrays
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	d.b = d.b[n:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	d.b = d.b[n:]
	return v
}

func (d *decoder) byte() byte {
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) string() string {
	n := d.uint()
	s := d.b[:n]
	d.b = d.b[n:]
	return string(s)
}

// maxNames bounds the strings that are kept once.
const maxNames = 1 << 12

func (d *decoder) name() string {
	n := d.uint()
	s := d.b[:n]
	d.b = d.b[n:]
	if v, ok := d.names[string(s)]; ok {
		return v
	}
	v := string(s)
	if len(d.names) < maxNames {
		d.names[v] = v
	}
	return v
}

func (d *decoder) point(base int64) int64 {
	if v := d.int(); v != math.MaxInt64 {
		return base + v
	}
	return record.Unset
}

// next reads one record into r.
func (d *decoder) next(r *record.Request) {
	d.arrays.reset()
	var t timeline
	d.request(r)
	d.timeline(&t)
	r.Events = slices.Grow(r.Events[:0], t.n)[:t.n]
	at, read := t.first, uint32(0)
	for i := range r.Events {
		if i > 0 {
			at += t.gaps[i-1]
		}
		read += uint32(entry(t.reads, i, 1))
		r.Events[i] = record.Event{
			At: at, Read: read, Tokens: entry(t.tokens, i, record.Unknown), Cumulative: entry(t.cumulative, i, record.Unknown),
			TextBytes: uint32(entry(t.textBytes, i, 0)), Choice: uint8(entry(t.choices, i, 0)),
			Channel: record.Channel(entry(t.channels, i, int32(record.Content))), Bounded: entry(t.bounded, i, false),
		}
	}
}

func entry[T any](list []T, i int, usual T) T {
	if i < len(list) {
		return list[i]
	}
	return usual
}

// request reads all of one record but its events, which come behind, into r.
func (d *decoder) request(r *record.Request) {
	r.ID, r.Session = d.uint(), d.uint()
	var flags uint32
	for _, p := range []*uint32{&r.User, &r.Turn, &r.Step, &r.Agent, &r.Target, &r.Reads, &r.StreamEvents, &r.Fallbacks, &flags} {
		*p = uint32(d.uint())
	}
	r.Flags = record.Flags(flags)
	r.Workload, r.Remote, r.Finish = d.name(), d.name(), d.name()
	r.Message, r.ReasoningText, r.RefusalText = d.string(), d.string(), d.string()
	r.Text = nil
	for range d.uint() {
		r.Text = append(r.Text, d.string())
	}
	base := int64(0)
	for _, p := range []*int64{
		&r.Scheduled, &r.Start, &r.Connected, &r.Sent, &r.Headers, &r.FirstEvent, &r.FirstToken, &r.FirstContent,
		&r.LastToken, &r.End, &r.RetrievalStart, &r.RetrievalEnd, &r.FirstSend,
	} {
		*p = d.point(base)
		if *p != record.Unset {
			base = *p
		}
	}
	r.CapWait = d.int()
	r.ReadLagMean, r.ReadLagMax = d.point(0), d.point(0)
	for _, p := range []*int32{
		&r.AskedPrompt, &r.AskedOutput, &r.AskedText, &r.Prompt, &r.Cached, &r.Output, &r.Reasoning, &r.TokenizerOutput,
		&r.StreamedTokens, &r.FirstEventTokens,
	} {
		*p = int32(d.int())
	}
	r.SentBytes, r.ReceivedBytes, r.TextBytes = d.int(), d.int(), d.int()
	r.Phase, r.Source, r.Basis = record.Phase(d.byte()), record.TokenSource(d.byte()), record.TPOTBasis(d.byte())
	r.Status, r.Error, r.Resends = record.Status(d.byte()), record.ErrorKind(d.byte()), d.byte()
	r.HTTPStatus = uint16(d.uint())
	f := d.byte()
	r.KernelTimes, r.Streamed, r.AskedStream, r.AskedExact, r.Reused = f&1 != 0, f&2 != 0, f&4 != 0, f&8 != 0, f&16 != 0
}

// timeline has the events of a record by column, as a row has them: lists are
// nil where every event is as usual.
type timeline struct {
	n     int
	first int64 // when the first event came
	gaps  []int64
	// reads are the differences of the indexes, without the ones at the end.
	reads                                            []int32
	tokens, cumulative, textBytes, choices, channels []int32
	bounded                                          []bool
}

// timeline reads the events behind a record into t. Its lists are valid until
// the arrays are reset.
func (d *decoder) timeline(t *timeline) {
	n := int(d.uint())
	*t = timeline{n: n}
	if n == 0 {
		return
	}
	t.first = d.int()
	read := int32(uint32(d.uint()))
	if form, n := d.byte(), n-1; n > 0 {
		t.gaps = take(&d.arrays.longs, n)
		if form == formWord {
			from := d.b[: 4*n : 4*n]
			for i := range t.gaps {
				t.gaps[i] = int64(binary.LittleEndian.Uint32(from[4*i:]))
			}
			d.b = d.b[4*n:]
		} else {
			for i := range t.gaps {
				t.gaps[i] = int64(binary.LittleEndian.Uint64(d.b[8*i:]))
			}
			d.b = d.b[8*n:]
		}
	}
	if d.same(1) {
		t.reads = take(&d.arrays.ints, 1)
	} else {
		t.reads = take(&d.arrays.ints, n)
		d.column(t.reads[1:])
		for n > 1 && t.reads[n-1] == 1 {
			n--
		}
		t.reads = t.reads[:n]
	}
	t.reads[0] = read
	t.tokens = d.list(t.n, record.Unknown)
	t.cumulative = d.list(t.n, record.Unknown)
	t.textBytes = d.list(t.n, 0)
	t.choices = d.list(t.n, 0)
	t.channels = d.list(t.n, int32(record.Content))
	if l := d.list(t.n, 0); l != nil {
		t.bounded = take(&d.arrays.bools, t.n)
		for i, v := range l {
			t.bounded[i] = v != 0
		}
	}
}

// list reads a column of n events, nil when they are all as usual.
func (d *decoder) list(n int, usual int32) []int32 {
	if d.same(usual) {
		return nil
	}
	l := take(&d.arrays.ints, n)
	d.column(l)
	return l
}

// same reads a column if every event has the value v.
func (d *decoder) same(v int32) bool {
	if d.b[0] != formSame {
		return false
	}
	u, n := binary.Uvarint(d.b[1:])
	if int32(uint32(u)) != v {
		return false
	}
	d.b = d.b[1+n:]
	return true
}

// column reads a column into dst.
func (d *decoder) column(dst []int32) {
	switch form := d.byte(); form {
	case formSame:
		v := int32(uint32(d.uint()))
		for i := range dst {
			dst[i] = v
		}
	case formByte:
		from := d.b[:len(dst)]
		for i := range dst {
			dst[i] = int32(from[i])
		}
		d.b = d.b[len(dst):]
	case formWord:
		from := d.b[:4*len(dst)]
		for i := range dst {
			dst[i] = int32(binary.LittleEndian.Uint32(from[4*i:]))
		}
		d.b = d.b[4*len(dst):]
	default:
		panic(fmt.Sprintf("BUG: a column of the queue has form %d", form))
	}
}

// arrays hold the lists of several timelines.
type arrays struct {
	longs []int64
	ints  []int32
	bools []bool
}

func (a *arrays) reset() { a.longs, a.ints, a.bools = a.longs[:0], a.ints[:0], a.bools[:0] }

// arrayLen is the least size of one array, and what it grows to without need.
const arrayLen, arrayMost = 1 << 12, 1 << 17

// take returns n more entries of list. Those taken before stay where they are
// when there is no room.
func take[T any](list *[]T, n int) []T {
	l := *list
	if cap(l)-len(l) < n {
		l = make([]T, 0, max(n, min(2*cap(l), arrayMost), arrayLen))
	}
	*list = l[:len(l)+n]
	return l[len(l) : len(l)+n : len(l)+n]
}
