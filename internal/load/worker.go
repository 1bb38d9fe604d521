package load

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"unicode/utf8"

	"plimsoll/internal/dialect"
	"plimsoll/internal/message"
	"plimsoll/internal/record"
	"plimsoll/internal/stream"
	"plimsoll/internal/workload"
)

// The client's own cap on the length of an answer: some servers ignore the
// limit they are given and would go on for as long as their context lasts.
// capFactor times the asked output, and capSlack on top of it, is far from what
// any server that honours the limit sends; capUnasked holds where none was
// asked for.
const (
	capFactor  = 4
	capSlack   = 256
	capUnasked = 1 << 20
	// capBytes is the text of one of them at most, on average: the longest tokens of
	// today's vocabularies are runs of 128 bytes.
	capBytes = 256
)

// messageLimit is the length in bytes to which record.Request.Message is cut;
// bodyLimit the length in characters of what is quoted of an error page.
const (
	messageLimit = 512
	bodyLimit    = 200
)

// worker carries out one request after another. It belongs to one goroutine and
// keeps its buffers from one request to the next.
type worker struct {
	run  *run
	ex   stream.Exchange
	dec  dialect.Decoder
	rec  record.Request
	req  stream.Request
	body []byte
	jobs chan *job // of a worker of an open loop

	// choices is the number of answers asked for, limit the number of output
	// marks at which they are cut off.
	choices, limit int
	// tokens is the number of output events after which the user has had enough,
	// and abandon gives the exchange up then.
	tokens  int
	abandon context.CancelFunc
	// Of the last event: its read and the index of its first mark.
	lastRead uint32
	lastMark int
	// piece is true when the body ended inside an event and nothing before it
	// was bad.
	piece bool
	// flow are the live counters of the request's workload, decoding says whether
	// it is counted there as one that has had output, and counted are the output
	// tokens that they have had from it.
	flow     *flow
	decoding bool
	counted  int64
	// freed is when the user had waited for the end of an answer that was whole
	// before; Unset when the answer's end is all there was to wait for.
	freed int64
}

func (r *run) newWorker() *worker {
	w := &worker{run: r, flow: &r.live.other}
	w.req.Method = http.MethodPost
	w.req.Header = r.header
	w.req.HeaderTimeout = r.cfg.HeaderTimeout
	w.req.IdleTimeout = r.cfg.IdleTimeout
	w.req.TotalTimeout = r.cfg.TotalTimeout
	return w
}

// begin fills in what is known of a request before it is sent.
func (w *worker) begin(s *step, a *workload.Action, user uint32, phase record.Phase) {
	r := &w.rec
	r.Reset()
	r.Session, r.Turn, r.User, r.Step, r.Agent = a.Session, a.Turn, user, s.res.Index, w.run.cfg.Agent
	r.Workload = a.Workload
	r.Phase = phase
	r.Scheduled = a.At
	r.AskedStream = w.run.cfg.Options.Stream
	if !a.Request.Guessed {
		r.AskedPrompt = int32(a.Request.PromptTokens())
	}
	r.AskedText = int32(a.Request.TextTokens())
	if a.Lost {
		r.Flags |= record.AfterFailure
	}
	w.choices = max(a.Request.Choices, 1)
	r.AskedOutput = int32(a.Request.MaxTokens)
	r.AskedExact = a.Request.Exact || w.run.cfg.Options.IgnoreEOS
	w.limit = capUnasked
	if a.Request.MaxTokens > 0 {
		w.limit = capFactor*a.Request.MaxTokens*w.choices + capSlack
	}
	w.tokens, w.abandon = math.MaxInt, nil
	if a.CancelTokens > 0 {
		w.tokens = int(a.CancelTokens)
	}
	w.counted = 0
	w.freed = record.Unset
}

// exchange sends body and follows the answer to its end. The record is complete
// but for what its step says about it.
func (w *worker) exchange(ctx context.Context, body []byte) {
	c := &w.run.cfg
	r, ex := &w.rec, &w.ex
	r.Target = uint32(r.ID % uint64(len(c.URLs)))
	w.req.URL, w.req.Body = c.URLs[r.Target], body
	w.dec.Reset(c.API, w.run.keepText)

	w.run.client.Do(ctx, ex, &w.req)
	if ex.Failure == stream.NoFailure {
		switch {
		case ex.Status < 200 || ex.Status > 299:
			w.refused()
		case ex.Framing == stream.FrameBody:
			w.whole()
		default:
			w.events()
		}
	} else {
		w.failed()
	}
	ex.Close()
	w.collect()
	if c.inspect != nil {
		c.inspect(w.dec.Result())
	}
}

// events reads a stream. This is the hot path: an event costs its framing, its
// decoding and one append per mark.
func (w *worker) events() {
	r, ex := &w.rec, &w.ex
	r.Streamed = true
	w.lastRead, w.lastMark = 0, 0
	var flushed int
	last := record.Unset // when the last event came
	w.piece = false
	for ex.Next() {
		ev := &ex.Ev
		if ev.Open {
			w.piece = !w.dec.Result().Bad
		}
		d := w.dec.Event(ev.Name, ev.Data)
		if last != record.Unset && ev.Read == w.lastRead {
			for i := w.lastMark; i < len(r.Events); i++ {
				r.Events[i].Bounded = true
			}
		} else if n := len(r.Events); n > flushed {
			w.flow.outputTokens.Add(int64(n - flushed))
			flushed = n
		}
		w.lastRead, w.lastMark = ev.Read, len(r.Events)
		// Each read is mapped onto the clock by itself, to some 50 ns: one stamp
		// read twice may come out the other way round.
		ev.At = max(ev.At, last)
		last = ev.At
		if r.FirstEvent == record.Unset {
			r.FirstEvent = ev.At
		}
		if len(d.Marks) > 0 {
			w.marks(ev, &d)
		}
		if len(r.Events) >= w.tokens {
			w.left(flushed)
			return
		}
		if d.Terminal {
			r.End = ev.At
			break
		}
		r.StreamEvents++
		if d.Err {
			r.End = ev.At
			break
		}
		if len(r.Events) > w.limit || int(d.Cumulative) > w.limit || r.TextBytes > int64(w.limit)*capBytes {
			w.flow.outputTokens.Add(int64(len(r.Events) - flushed))
			w.counted = int64(len(r.Events))
			what := fmt.Sprintf("cut off after %d output events", len(r.Events))
			switch {
			case len(r.Events) > w.limit:
			case int(d.Cumulative) <= w.limit:
				what = fmt.Sprintf("cut off after %d bytes of text in %d output events", r.TextBytes, len(r.Events))
			default:
				what = fmt.Sprintf("its usage says %d tokens after %d output events", d.Cumulative, len(r.Events))
			}
			w.fail(record.BadBody, fmt.Sprintf("the server ignored the output limit: %s, %d tokens were asked for", what, r.AskedOutput))
			r.End = ev.At
			return
		}
	}
	w.flow.outputTokens.Add(int64(len(r.Events) - flushed))
	w.counted = int64(len(r.Events))
	w.streamEnded(last)
}

// left ends an exchange whose user has seen enough. The connection is closed at
// once: that is how the server hears of it.
func (w *worker) left(flushed int) {
	r, ex := &w.rec, &w.ex
	at := ex.Ev.At
	w.abandon()
	for ex.Next() { // what had been read already
	}
	n := len(r.Events)
	w.flow.outputTokens.Add(int64(n - flushed))
	w.counted = int64(n)
	r.Status, r.End = record.Cancelled, at
}

// marks appends the output marks of one event.
func (w *worker) marks(ev *stream.Event, d *dialect.Delta) {
	r := &w.rec
	if r.FirstToken == record.Unset {
		r.FirstToken = ev.At
		w.first()
	}
	r.LastToken = ev.At
	for i := range d.Marks {
		m := &d.Marks[i]
		if m.Channel&record.Content != 0 && r.FirstContent == record.Unset {
			r.FirstContent = ev.At
		}
		r.TextBytes += int64(m.TextBytes)
		r.Events = append(r.Events, record.Event{
			At: ev.At, Cumulative: d.Cumulative, Tokens: record.Unknown,
			Read: ev.Read, TextBytes: m.TextBytes, Choice: m.Choice, Channel: m.Channel,
		})
	}
}

// first counts a request as one that has had output.
func (w *worker) first() {
	w.decoding = true
	w.flow.decoding.Add(1)
	if l := w.run.live; l.firsts.wanted.Load() {
		r := &w.rec
		l.firsts.add(First{w.flow.index, r.FirstToken, r.FirstToken - w.ex.Start, r.FirstToken - r.Scheduled})
	}
}

// streamEnded decides how a stream ended whose last event came at last.
func (w *worker) streamEnded(last int64) {
	r, ex, res := &w.rec, &w.ex, w.dec.Result()
	r.Finish = res.Finish
	switch {
	case res.ErrorMessage != "" || res.ErrorType != "":
		w.failInBand(res)
	case res.Bad && w.piece:
		w.fail(record.TruncatedStream, fmt.Sprintf("the body ended inside an event, after %d whole ones", r.StreamEvents-1))
	case res.Bad:
		w.fail(record.DecodeError, "an event of the stream is not JSON of this API")
	case res.Done:
		if !res.Finished {
			r.Flags |= record.NoFinishReason
		}
	case ex.Failure == stream.NoFailure && res.Finished:
		r.Flags |= record.NoDone
	case ex.Failure == stream.NoFailure && ex.ReceivedBytes == 0:
		w.fail(record.BadBody, "the body is empty")
	case ex.Failure == stream.NoFailure:
		w.fail(record.TruncatedStream, fmt.Sprintf("the stream ended after %d events with neither [DONE] nor a finish reason", r.StreamEvents))
	case res.Finished && w.choices == 1 && broken(ex.Failure):
		// The answer is whole; only its ending is not as the protocol wants it.
		r.Flags |= record.NoDone
		r.End, w.freed = last, ex.End
	default:
		w.failed()
	}
}

// broken reports whether f is an end of the connection or silence, after which
// a finished answer still counts.
func broken(f stream.Failure) bool {
	return f == stream.FailTruncated || f == stream.FailReset || f == stream.FailIdleTimeout
}

// whole reads a body that is not a stream.
func (w *worker) whole() {
	r, ex := &w.rec, &w.ex
	data := ex.Body()
	if ex.Failure != stream.NoFailure {
		w.failed()
		return
	}
	d := w.dec.Body(data)
	res := w.dec.Result()
	r.Finish = res.Finish
	for i := range d.Marks {
		r.TextBytes += int64(d.Marks[i].TextBytes)
	}
	switch {
	case res.ErrorMessage != "" || res.ErrorType != "":
		w.failInBand(res)
	case len(data) == 0:
		w.fail(record.BadBody, "the body is empty")
	case res.Bad:
		w.fail(record.BadBody, "the body is no answer of this API: "+quote(data))
	case r.AskedStream:
		r.Flags |= record.NotStreamed
	}
}

// refused reads the body of an answer whose status is no success.
func (w *worker) refused() {
	ex := &w.ex
	var data []byte
	if ex.Framing == stream.FrameBody {
		data = ex.Body()
		w.dec.Body(data)
	} else {
		for ex.Next() {
			w.dec.Event(ex.Ev.Name, ex.Ev.Data)
		}
	}
	res := w.dec.Result()
	text := res.ErrorMessage
	if text == "" {
		text = quote(data)
	}
	kind := record.HTTPStatusError
	switch ex.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		kind = record.AuthError
	case http.StatusTooManyRequests:
		kind = record.RateLimited
	case http.StatusServiceUnavailable, 529: // 529: "site is overloaded", as Anthropic sends it
		kind = record.Overloaded
	}
	if overloaded(res) {
		kind = record.Overloaded
	}
	msg := fmt.Sprintf("HTTP %d", ex.Status)
	if text != "" {
		msg += ": " + text
	}
	if after := ex.Header.Get("Retry-After"); after != "" {
		msg += " (Retry-After: " + after + ")"
	}
	w.fail(kind, msg)
}

// overloaded reports whether an error object says that the server is.
func overloaded(res *dialect.Result) bool {
	return res.ErrorType == "overloaded_error"
}

func (w *worker) failInBand(res *dialect.Result) {
	kind := record.InBandError
	if overloaded(res) {
		kind = record.Overloaded
	}
	msg := res.ErrorMessage
	if msg == "" {
		msg = res.ErrorType
	}
	w.fail(kind, msg)
}

// failureKinds are the error kinds of a transport's failures.
var failureKinds = [...]record.ErrorKind{
	stream.FailDNS:            record.DNSError,
	stream.FailConnectRefused: record.ConnectRefused,
	stream.FailConnectTimeout: record.ConnectTimeout,
	stream.FailTLS:            record.TLSError,
	stream.FailReset:          record.ConnectionReset,
	stream.FailTruncated:      record.TruncatedStream,
	stream.FailHeaderTimeout:  record.HeaderTimeout,
	stream.FailIdleTimeout:    record.IdleTimeout,
	stream.FailTotalTimeout:   record.TotalTimeout,
	stream.FailRedirect:       record.RedirectError,
	stream.FailProtocol:       record.BadBody,
	stream.FailTooLarge:       record.BadBody,
	stream.FailResource:       record.ClientResource,
}

// failed records the exchange's own failure.
func (w *worker) failed() {
	ex := &w.ex
	if ex.Failure == stream.FailCancelled {
		w.rec.Status = record.Cancelled
		return
	}
	if int(ex.Failure) >= len(failureKinds) || failureKinds[ex.Failure] == record.NoError {
		panic(fmt.Sprintf("BUG: no error kind for failure %d", ex.Failure))
	}
	w.fail(failureKinds[ex.Failure], ex.Err)
}

// fail makes the request a failure.
func (w *worker) fail(kind record.ErrorKind, message string) {
	w.rec.Status, w.rec.Error, w.rec.Message = record.Failed, kind, cut(message, messageLimit)
}

// disbelieve takes back a server's count of output tokens that no answer of the asked
// length can have: it would be all that the token rates of a run tell of.
func (w *worker) disbelieve() {
	r := &w.rec
	if int(r.Output) <= w.limit {
		return
	}
	if r.Status == record.OK {
		w.fail(record.BadBody, fmt.Sprintf("the server ignored the output limit: its usage says %d tokens, %d were asked for", r.Output, r.AskedOutput))
	}
	r.Output, r.Reasoning = record.Unknown, record.Unknown
	for i := range r.Events {
		if e := &r.Events[i]; int(e.Cumulative) > w.limit {
			e.Cumulative = record.Unknown
		}
	}
}

// collect moves what the exchange and the decoder know into the record.
func (w *worker) collect() {
	r, ex, res := &w.rec, &w.ex, w.dec.Result()
	r.Start, r.Connected, r.Sent, r.Headers, r.FirstSend = ex.Start, ex.Connected, ex.Sent, ex.Headers, ex.FirstSend
	if r.End == record.Unset {
		if r.End = ex.End; r.End == record.Unset {
			r.End = w.run.cfg.Clock.Now()
		}
		if len(r.Events) > 0 {
			r.End = max(r.End, r.LastToken) // see events: the same stamp twice
		}
	}
	r.HTTPStatus = uint16(ex.Status)
	r.Remote, r.Reused, r.Resends = ex.Remote, ex.Reused, uint8(ex.Resends)
	r.KernelTimes = ex.KernelTimes
	r.Reads = uint32(ex.Reads)
	if ex.KernelTimes && ex.Reads > 0 {
		r.ReadLagMean, r.ReadLagMax = ex.ReadLagSum/int64(ex.Reads), ex.ReadLagMax
	}
	r.SentBytes, r.ReceivedBytes = ex.SentBytes, ex.ReceivedBytes
	if ex.EarlyResponse {
		r.Flags |= record.EarlyResponse
	}
	if ex.WallStep {
		r.Flags |= record.WallClockStep
	}

	r.Prompt, r.Cached, r.Output, r.Reasoning = res.Usage.Prompt, res.Usage.Cached, res.Usage.Completion, res.Usage.Reasoning
	w.disbelieve()
	r.Fallbacks = res.Fallbacks
	if w.run.keepText {
		r.Text = res.Text
		if len(res.Reasoning) > 0 {
			r.ReasoningText = res.Reasoning[0]
		}
		if len(res.Refusal) > 0 {
			r.RefusalText = res.Refusal[0]
		}
	}
	r.Resolve(w.run.cfg.Tokenizer)
}

// outcome is what the machine is told.
func (w *worker) outcome() workload.Outcome {
	o := workload.Outcome{Status: w.rec.Status, OutputTokens: w.rec.Output, Ended: w.rec.End}
	if w.freed != record.Unset {
		// The server kept it waiting: the next request is not late for that.
		o.Ended = max(w.freed, w.rec.End)
	}
	if w.run.cfg.API == dialect.OpenAIResponses {
		o.Kept, o.ID = true, w.dec.Result().ID
	}
	if w.rec.Reasoning != record.Unknown {
		o.ReasoningTokens = w.rec.Reasoning
	}
	if len(w.rec.Text) > 0 {
		o.Text = w.rec.Text[0]
	}
	if w.run.keepText && w.rec.Status == record.OK {
		for _, c := range w.dec.Result().Calls {
			o.Calls = append(o.Calls, message.Call{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
		}
	}
	return o
}

// quote returns the text of an error page for a message: without tags, with
// single spaces, cut.
func quote(data []byte) string {
	var b strings.Builder
	depth, space, n := 0, false, 0
	for len(data) > 0 && n < bodyLimit {
		c, size := utf8.DecodeRune(data)
		data = data[size:]
		switch {
		case c == '<':
			depth, space = 1, true
		case c == '>' && depth > 0:
			depth = 0
		case depth > 0:
		case c <= ' ':
			space = true
		default:
			if space && n > 0 {
				b.WriteByte(' ')
				n++
			}
			space = false
			b.WriteRune(c)
			n++
		}
	}
	return b.String()
}

// cut shortens s to at most n bytes without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
