package record

// Counter tells where the tokens of a text end. Implementations must be safe
// for concurrent use.
type Counter interface {
	// AppendEnds appends the byte offset behind each token of text, ascending,
	// the last being len(text), and returns the extended slice. Offsets may lie
	// inside a character.
	AppendEnds(dst []int32, text string) []int32
}

// bufferedGap is the gap in ns below which two events count as having come
// together, for the flag BufferedStream: no decoder makes a token every 0.1 ms,
// while a proxy that lets go of a whole answer puts its events into few reads.
const bufferedGap = 100_000

const resolvedFlags = MultiTokenEvents | MoreEventsThanTokens | BufferedStream | ShortOutput | NoOutput

// Resolve settles, once the request has ended, what each output event carried
// and what follows from it: Output where only a tokenizer can tell, Source,
// StreamedTokens, FirstEventTokens, Basis, TokenizerOutput, Tokens of every
// event, and the flags MultiTokenEvents, MoreEventsThanTokens, BufferedStream,
// ShortOutput and NoOutput. tok may be nil; it is used where the request's text
// was kept whole. Output must hold the server's count, or Unknown.
//
// Tokens per event come from the differences of the server's running count,
// else from the tokenizer over the joined text (a token belongs to the event
// that brought its last byte, so that a character that was held back counts
// where it was released), else they are 1 each where the numbers agree, one
// token less being allowed for an end token that was counted but has no text.
// Otherwise they are Unknown. An event may carry 0 tokens.
//
// With several choices (n > 1) Events are the marks of all of them. The time
// per token of such a request is not defined, since its answers overlap: Basis
// is BasisNone and FirstEventTokens Unknown. Tokens of its events may still be
// known, for gaps within one choice.
func (r *Request) Resolve(tok Counter) {
	r.Flags &^= resolvedFlags
	if r.Source == SourceTokenizer {
		r.Output = Unknown // of an earlier Resolve
	}
	r.Basis, r.FirstEventTokens, r.StreamedTokens = BasisNone, Unknown, Unknown
	var seen Channel
	choices := 1
	for i := range r.Events {
		e := &r.Events[i]
		e.Tokens = Unknown
		seen |= e.Channel
		choices = max(choices, int(e.Choice)+1)
	}
	whole := r.countText(tok)
	switch {
	case r.Output != Unknown:
		r.Source = SourceServer
	case r.TokenizerOutput != Unknown:
		r.Output, r.Source = r.TokenizerOutput, SourceTokenizer
	default:
		r.Source = SourceNone
	}
	r.StreamedTokens = r.streamed(seen)
	silent := int32(0)
	if r.Source == SourceServer && r.Finish != "" && r.Finish != "length" {
		silent = int32(choices) // each answer may end with a token without text
	}
	known := r.running(choices, silent)
	if !known && whole {
		known = r.fromText(tok)
	}
	if !known {
		known = r.oneEach(silent)
	}
	r.conclude(choices, known, silent)
}

// streamed is Output without the reasoning that was counted but never sent.
func (r *Request) streamed(seen Channel) int32 {
	n := int32(len(r.Events))
	if !r.Streamed || n == 0 || r.Output == Unknown {
		return Unknown
	}
	if r.Source == SourceTokenizer || seen&Reasoning != 0 || r.Reasoning <= 0 {
		return r.Output
	}
	visible := r.Output - r.Reasoning
	if visible < 0 {
		return Unknown // the count of output leaves the reasoning out, or is wrong
	}
	if n <= visible {
		return visible
	}
	// More events than visible tokens: the reasoning came inside the content,
	// which is certain only where the numbers agree.
	if n == r.Output || n == r.Output-1 {
		return r.Output
	}
	return Unknown
}

// running takes tokens from the differences of the running count. An event
// without a count shares the next difference with the one that has it. It
// reports whether all events are known.
func (r *Request) running(choices int, silent int32) bool {
	n := len(r.Events)
	hidden := int32(0) // counted before the first event
	if r.StreamedTokens != Unknown {
		hidden = r.Output - r.StreamedTokens
	}
	if choices > 1 {
		// Servers differ in whether the count is of one choice or of all: only
		// a count that rises at every mark up to the total is of all.
		last := hidden
		for i := range r.Events {
			if c := r.Events[i].Cumulative; c <= last {
				return false
			}
			last = r.Events[i].Cumulative
		}
		if last != r.Output {
			return false
		}
	}
	before, from := hidden, 0
	known := n > 0
	for i := range r.Events {
		c := r.Events[i].Cumulative
		if c == Unknown {
			continue
		}
		if c < before { // no running count after all
			for j := range r.Events {
				r.Events[j].Tokens = Unknown
			}
			return false
		}
		if !r.share(from, i+1, c-before, i == n-1, silent) {
			known = false
		}
		before, from = c, i+1
	}
	if from == 0 {
		return false
	}
	if from < n {
		if r.StreamedTokens == Unknown || !r.share(from, n, r.Output-before, true, silent) {
			return false
		}
	}
	return known
}

// share gives events from up to before to their part of tokens, if it is
// certain.
func (r *Request) share(from, to int, tokens int32, last bool, silent int32) bool {
	n := int32(to - from)
	each := int32(1)
	switch {
	case n == 1 && (!last || r.Events[from].Cumulative != Unknown):
		each = tokens
	case tokens == n, last && silent > 0 && tokens == n+silent:
	default:
		return false
	}
	for i := from; i < to; i++ {
		r.Events[i].Tokens = each
	}
	return true
}

// oneEach gives every event one token where the numbers agree. Where there was
// a running count that settled nothing, no end token is taken for granted.
func (r *Request) oneEach(silent int32) bool {
	n := int32(len(r.Events))
	for i := range r.Events {
		if r.Events[i].Cumulative != Unknown {
			silent = 0
			break
		}
	}
	if n == 0 || r.StreamedTokens == Unknown || n != r.StreamedTokens && (silent == 0 || n != r.StreamedTokens-silent) {
		return false
	}
	for i := range r.Events {
		r.Events[i].Tokens = 1
	}
	return true
}

// countText sets TokenizerOutput and reports whether the kept text is the whole
// output. Tool calls are not in it, and neither is reasoning or a refusal of
// any choice but the first.
func (r *Request) countText(tok Counter) bool {
	r.TokenizerOutput = Unknown
	if tok == nil {
		return false
	}
	total := len(r.ReasoningText) + len(r.RefusalText)
	for _, t := range r.Text {
		total += len(t)
	}
	if total == 0 || int64(total) != r.TextBytes {
		return false
	}
	var ends []int32
	n := 0
	count := func(text string) {
		if text != "" {
			ends = tok.AppendEnds(ends[:0], text)
			n += len(ends)
		}
	}
	count(r.ReasoningText)
	count(r.RefusalText)
	for _, t := range r.Text {
		count(t)
	}
	r.TokenizerOutput = int32(n)
	return true
}

// fromText takes tokens from the tokenizer over each joined text.
func (r *Request) fromText(tok Counter) bool {
	lengths := func(choice int, channel Channel) int {
		n := 0
		for i := range r.Events {
			if e := &r.Events[i]; int(e.Choice) == choice && e.Channel == channel {
				n += int(e.TextBytes)
			}
		}
		return n
	}
	if lengths(0, Reasoning) != len(r.ReasoningText) || lengths(0, Refusal) != len(r.RefusalText) {
		return false // also when one event held two channels
	}
	for choice, t := range r.Text {
		if lengths(choice, Content) != len(t) {
			return false
		}
	}
	var ends []int32
	spread := func(choice int, channel Channel, text string) {
		if text == "" {
			return
		}
		ends = tok.AppendEnds(ends[:0], text)
		at, offset := 0, int32(0)
		for i := range r.Events {
			e := &r.Events[i]
			if int(e.Choice) != choice || e.Channel != channel {
				continue
			}
			offset += int32(e.TextBytes)
			from := at
			for at < len(ends) && ends[at] <= offset {
				at++
			}
			e.Tokens = int32(at - from)
		}
	}
	spread(0, Reasoning, r.ReasoningText)
	spread(0, Refusal, r.RefusalText)
	for choice, t := range r.Text {
		spread(choice, Content, t)
	}
	return len(r.Events) > 0
}

// conclude sets what follows from the events' tokens.
func (r *Request) conclude(choices int, known bool, silent int32) {
	n := int32(len(r.Events))
	if n == 0 {
		if r.Status == OK && r.TextBytes == 0 {
			r.Flags |= NoOutput
		}
	} else if choices == 1 {
		if first := r.Events[0].Tokens; first > 0 && (r.StreamedTokens == Unknown || first <= r.StreamedTokens) {
			r.FirstEventTokens = first
		}
		switch {
		case n < 2 || r.StreamedTokens < 2 || r.StreamedTokens == r.FirstEventTokens:
		case r.FirstEventTokens != Unknown:
			r.Basis = BasisFirstEvent
		default:
			r.Basis = BasisNMinus1
		}
	}
	if r.StreamedTokens != Unknown {
		if n > r.StreamedTokens {
			r.Flags |= MoreEventsThanTokens
		}
		if !known && n != r.StreamedTokens {
			r.Flags |= MultiTokenEvents
		}
	}
	for i := range r.Events {
		if r.Events[i].Tokens > 1 {
			r.Flags |= MultiTokenEvents
			break
		}
	}
	if r.Status == OK && r.AskedExact && r.Output != Unknown && int64(r.Output) < int64(r.AskedOutput)*int64(choices) && n <= r.Output {
		r.Flags |= ShortOutput
	}
	if r.buffered() {
		r.Flags |= BufferedStream
	}
}

// buffered reports whether all output came inside the last 5 % of the request
// and most of it at once: a long prompt with a short answer is no such stream.
func (r *Request) buffered() bool {
	n := len(r.Events)
	if n < 2 || r.Start == Unset || r.End == Unset {
		return false
	}
	if 20*(r.End-r.Events[0].At) > r.End-r.Start {
		return false
	}
	together := 0
	for i := 1; i < n; i++ {
		if r.Events[i].At-r.Events[i-1].At < bufferedGap {
			together++
		}
	}
	return 2*together >= n-1
}
