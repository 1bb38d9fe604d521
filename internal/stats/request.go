package stats

import "plimsoll/internal/record"

// between returns to - from and whether both points were reached.
func between(from, to int64) (int64, bool) {
	if from == record.Unset || to == record.Unset {
		return 0, false
	}
	return to - from, true
}

// TTFT is the time to first token in ns: from t_start to t_first_token. It is
// not known without output and without streaming.
func TTFT(r *record.Request) (int64, bool) {
	if !r.Streamed {
		return 0, false
	}
	return between(r.Start, r.FirstToken)
}

// TTFTFromSchedule is the time in ns from t_scheduled to t_first_token: what
// the user of an open system waits.
func TTFTFromSchedule(r *record.Request) (int64, bool) {
	if !r.Streamed {
		return 0, false
	}
	return between(r.Scheduled, r.FirstToken)
}

// TTFTWithRetrieval is TTFT plus Retrieval in ns, for turns that have both.
func TTFTWithRetrieval(r *record.Request) (int64, bool) {
	t, ok := TTFT(r)
	v, has := Retrieval(r)
	if !ok || !has {
		return 0, false
	}
	return t + v, true
}

// searchFailed says that the search before a request failed, so that the request was
// not sent, and not because the client could not.
func searchFailed(r *record.Request) bool {
	return r.Status == record.Failed && r.Start == record.Unset && r.RetrievalEnd != record.Unset && r.Error != record.ClientResource
}

// MediaTokens is what the server counted for the images and sounds of a prompt: all
// of it but the text, for want of anything better, so that a chat template is in it.
// It is not known where the server counted no prompt, where there were none, or where
// the whole prompt came to no more than its text was reckoned at: then the error of
// that reckoning is larger than the media.
func MediaTokens(r *record.Request) (int32, bool) {
	if r.AskedText <= 0 || r.Prompt <= r.AskedText {
		return 0, false
	}
	return r.Prompt - r.AskedText, true
}

// TTFC is the time to first visible content in ns: from t_start to
// t_first_content.
func TTFC(r *record.Request) (int64, bool) {
	if !r.Streamed {
		return 0, false
	}
	return between(r.Start, r.FirstContent)
}

// TTLT is the time to last token in ns: from t_start to t_last_token.
func TTLT(r *record.Request) (int64, bool) { return between(r.Start, r.LastToken) }

// E2E is the time of the whole response in ns: from t_start to t_end. It is not
// known of requests that are not ok.
func E2E(r *record.Request) (int64, bool) {
	if r.Status != record.OK {
		return 0, false
	}
	return between(r.Start, r.End)
}

// E2EFromSchedule is the time in ns from t_scheduled to t_end of an ok request.
func E2EFromSchedule(r *record.Request) (int64, bool) {
	if r.Status != record.OK {
		return 0, false
	}
	return between(r.Scheduled, r.End)
}

// Retrieval is the length in ns of the retrieval step of a turn that had one.
func Retrieval(r *record.Request) (int64, bool) { return between(r.RetrievalStart, r.RetrievalEnd) }

// Connect is the time in ns from t_start to t_connected; 0 when a connection
// was at hand.
func Connect(r *record.Request) (int64, bool) { return between(r.Start, r.Connected) }

// Upload is the time in ns from t_connected to t_sent.
func Upload(r *record.Request) (int64, bool) { return between(r.Connected, r.Sent) }

// SendLag is how late the client was in ns: from t_scheduled to t_start, less
// the time under a cap that the user asked for. A request that was sent again,
// because its reused connection died without an answer, counts from its first
// sending: the wait for that death is the server's.
func SendLag(r *record.Request) (int64, bool) {
	start := r.Start
	if r.FirstSend != record.Unset {
		start = r.FirstSend
	}
	v, ok := between(r.Scheduled, start)
	return v - r.CapWait, ok
}

// ReadLag is the mean over the reads of the time in ns from the kernel's
// receive time of a read to its end in user space.
func ReadLag(r *record.Request) (int64, bool) {
	if !r.KernelTimes || r.ReadLagMean == record.Unset {
		return 0, false
	}
	return r.ReadLagMean, true
}

// severalChoices says whether the output belongs to more than one choice.
func severalChoices(r *record.Request) bool {
	for i := range r.Events {
		if r.Events[i].Choice != 0 {
			return true
		}
	}
	return false
}

// TPOTParts returns the time in ns and the number of tokens whose quotient is
// TPOT, and what the number is based on: BasisNone when it is not known.
func TPOTParts(r *record.Request) (span int64, tokens int32, basis record.TPOTBasis) {
	return tpotOf(r, len(r.Events))
}

// tpotOf is TPOTParts of a request with so many output events.
func tpotOf(r *record.Request, events int) (span int64, tokens int32, basis record.TPOTBasis) {
	span, ok := between(r.FirstToken, r.LastToken)
	if !ok || !r.Streamed || r.StreamedTokens < 2 || events < 2 || severalChoices(r) {
		return 0, 0, record.BasisNone
	}
	first, basis := int32(1), record.BasisNMinus1
	if r.FirstEventTokens >= 0 {
		first, basis = r.FirstEventTokens, record.BasisFirstEvent
	}
	if tokens = r.StreamedTokens - first; tokens < 1 {
		return 0, 0, record.BasisNone
	}
	return span, tokens, basis
}

// TPOT is the time per output token after the first event in ns:
// (t_last_token - t_first_token) / (streamed tokens - tokens of the first
// event), with 1 for the latter when it is unknown; basis says which it was. It
// is not known below two streamed tokens, when one event brought all output,
// and for several choices, whose tokens run side by side.
func TPOT(r *record.Request) (ns float64, basis record.TPOTBasis, ok bool) {
	span, tokens, basis := TPOTParts(r)
	if basis == record.BasisNone {
		return 0, basis, false
	}
	return float64(span) / float64(tokens), basis, true
}

// EventGaps calls yield with the time in ns from each output event to the next
// of the same choice, in order of arrival.
func EventGaps(r *record.Request, yield func(gap int64)) {
	if !severalChoices(r) {
		for i := 1; i < len(r.Events); i++ {
			yield(r.Events[i].At - r.Events[i-1].At)
		}
		return
	}
	var last [256]int64
	var seen [256]bool
	for i := range r.Events {
		e := &r.Events[i]
		if seen[e.Choice] {
			yield(e.At - last[e.Choice])
		}
		seen[e.Choice], last[e.Choice] = true, e.At
	}
}

// ITL calls yield with each time in ns between successive output events of a
// choice and the number of tokens that the later one brought, which is at least
// 1: the inter-token latency is gap / tokens, counted tokens times. The time
// before an event that completed no token counts towards the next one. It
// returns false without calling yield when the tokens of an event that closes a
// gap are unknown, or when there are no gaps.
func ITL(r *record.Request, yield func(gap int64, tokens int32)) bool {
	return ITLTimes(r, func(_, gap int64, tokens int32) { yield(gap, tokens) })
}

// ITLTimes is ITL that also says when each gap ended.
func ITLTimes(r *record.Request, yield func(at, gap int64, tokens int32)) bool {
	if !r.Streamed || len(r.Events) < 2 {
		return false
	}
	several := severalChoices(r)
	var seen [256]bool
	gaps := false
	for i := range r.Events {
		e := &r.Events[i]
		if seen[e.Choice] {
			if e.Tokens < 0 {
				return false
			}
			gaps = gaps || e.Tokens > 0
		}
		seen[e.Choice] = true
	}
	if !gaps {
		return false
	}
	if !several {
		last := r.Events[0].At
		for i := 1; i < len(r.Events); i++ {
			if e := &r.Events[i]; e.Tokens > 0 {
				yield(e.At, e.At-last, e.Tokens)
				last = e.At
			}
		}
		return true
	}
	var last [256]int64
	clear(seen[:])
	for i := range r.Events {
		e := &r.Events[i]
		if !seen[e.Choice] {
			seen[e.Choice], last[e.Choice] = true, e.At
		} else if e.Tokens > 0 {
			yield(e.At, e.At-last[e.Choice], e.Tokens)
			last[e.Choice] = e.At
		}
	}
	return true
}

// PromptRate is prompt_tokens / ttft in tokens per second: the user's view of
// prefill speed.
func PromptRate(r *record.Request) (float64, bool) {
	t, ok := TTFT(r)
	if !ok || t <= 0 || r.Prompt < 0 {
		return 0, false
	}
	return float64(r.Prompt) / (float64(t) / 1e9), true
}

// TokenRate is 1 / tpot in tokens per second: the speed that one user sees.
func TokenRate(r *record.Request) (float64, bool) {
	t, _, ok := TPOT(r)
	if !ok || t <= 0 {
		return 0, false
	}
	return 1e9 / t, true
}

// E2EPerToken is e2e / output_tokens in ns. A percentile of it inverted is what
// some peers call interactivity; the percentile of the inverted rates is not.
func E2EPerToken(r *record.Request) (float64, bool) {
	t, ok := E2E(r)
	if !ok || r.Output < 1 {
		return 0, false
	}
	return float64(t) / float64(r.Output), true
}
