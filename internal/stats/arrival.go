package stats

import "plimsoll/internal/record"

// Arrivals calls yield with the moments at which output tokens of r arrived and
// how many did, in order of time: its events, or its end when all came as one
// body. An answer whose events nobody counted is spread over them in equal parts;
// where not even its length is known, an event counts perEvent tokens, which is
// what the run's other events carried in the mean. It returns false when output
// came whose tokens are not known at all, and perEvent is 0. Over windows that
// meet, the sums are those of a Summary's output rates.
func Arrivals(r *record.Request, perEvent float64, yield func(at int64, tokens float64)) bool {
	n := int64(len(r.Events))
	if n == 0 {
		if r.End == record.Unset {
			return true
		}
		if r.Output >= 0 {
			yield(r.End, float64(r.Output))
			return true
		}
		return r.TextBytes == 0
	}
	counted, streamed := true, int64(0)
	for i := range r.Events {
		if r.Events[i].Tokens < 0 {
			counted = false
			break
		}
		streamed += int64(r.Events[i].Tokens)
	}
	switch {
	case counted:
		// Reasoning that was counted but not streamed came before the first event.
		hidden := max(int64(r.Output)-streamed, 0)
		for i := range r.Events {
			yield(r.Events[i].At, float64(int64(r.Events[i].Tokens)+hidden))
			hidden = 0
		}
	case r.Output >= 0:
		v := int64(r.Output)
		for i := range r.Events {
			yield(r.Events[i].At, float64(v*int64(i+1)/n-v*int64(i)/n))
		}
	case perEvent > 0:
		for i := range r.Events {
			yield(r.Events[i].At, perEvent)
		}
	default:
		return false
	}
	return true
}

// PromptArrival is when the prompt of r counts as taken: at its first token, or
// at its end where it has none. It is not known while neither was reached.
func PromptArrival(r *record.Request) (at int64, ok bool) {
	if r.FirstToken != record.Unset {
		return r.FirstToken, true
	}
	return r.End, r.End != record.Unset
}
