package run

import (
	"encoding/binary"
	"math"

	"plimsoll/internal/record"
)

// The queue between the requests that end and the writer holds records as
// bytes: a record in memory takes 40 bytes per event, one here about 6. The form
// lives no longer than the process, so it has no version.

// Bits of an event's first byte: which of its fields are as usual.
const (
	evBounded   = 1 << iota
	evChoice    // a choice other than 0
	evChannel   // a channel other than content
	evToken     // exactly one token
	evNoToken   // unknown tokens
	evRunning   // a running count
	evOtherRead // not the read after that of the last event
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
		r.AskedPrompt, r.AskedOutput, r.Prompt, r.Cached, r.Output, r.Reasoning, r.TokenizerOutput,
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

	e.uint(uint64(len(r.Events)))
	at, read := int64(0), uint32(0)
	for i := range r.Events {
		v := &r.Events[i]
		var f byte
		if v.Bounded {
			f |= evBounded
		}
		if v.Choice != 0 {
			f |= evChoice
		}
		if v.Channel != record.Content {
			f |= evChannel
		}
		switch v.Tokens {
		case 1:
			f |= evToken
		case record.Unknown:
			f |= evNoToken
		}
		if v.Cumulative != record.Unknown {
			f |= evRunning
		}
		if v.Read != read+1 {
			f |= evOtherRead
		}
		e.b = append(e.b, f)
		e.int(v.At - at)
		e.uint(uint64(v.TextBytes))
		if f&evChoice != 0 {
			e.b = append(e.b, v.Choice)
		}
		if f&evChannel != 0 {
			e.b = append(e.b, byte(v.Channel))
		}
		if f&(evToken|evNoToken) == 0 {
			e.int(int64(v.Tokens))
		}
		if f&evRunning != 0 {
			e.int(int64(v.Cumulative))
		}
		if f&evOtherRead != 0 {
			e.int(int64(v.Read) - int64(read))
		}
		at, read = v.At, v.Read
	}
	return e.b
}

// decoder reads what encoder wrote. The bytes never leave the process, so a
// malformed one is a bug and panics by a slice bound.
type decoder struct {
	b []byte
	// names keeps one copy of each of the strings that repeat.
	names map[string]string
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
		&r.AskedPrompt, &r.AskedOutput, &r.Prompt, &r.Cached, &r.Output, &r.Reasoning, &r.TokenizerOutput,
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

	r.Events = r.Events[:0]
	at, read := int64(0), uint32(0)
	for range d.uint() {
		f := d.byte()
		v := record.Event{
			At: at + d.int(), TextBytes: uint32(d.uint()), Bounded: f&evBounded != 0,
			Channel: record.Content, Tokens: 1, Cumulative: record.Unknown, Read: read + 1,
		}
		if f&evChoice != 0 {
			v.Choice = d.byte()
		}
		if f&evChannel != 0 {
			v.Channel = record.Channel(d.byte())
		}
		switch {
		case f&evNoToken != 0:
			v.Tokens = record.Unknown
		case f&evToken == 0:
			v.Tokens = int32(d.int())
		}
		if f&evRunning != 0 {
			v.Cumulative = int32(d.int())
		}
		if f&evOtherRead != 0 {
			v.Read = uint32(int64(read) + d.int())
		}
		r.Events = append(r.Events, v)
		at, read = v.At, v.Read
	}
}
