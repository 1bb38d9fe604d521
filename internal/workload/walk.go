package workload

import "slices"

// Walk carries a machine out from time 0 with what say makes of each of its requests,
// those of a fork one after another. It ends with the machine, or with the first request
// of which say returns false. What say is given is only valid until it returns.
func Walk(m Machine, say func(a *Action) (o Outcome, more bool)) {
	for a := m.Start(0); ; {
		switch a.Kind {
		case End:
			return
		case Send:
			o, more := say(&a)
			if !more {
				return
			}
			a = m.Done(o.Ended, o)
		case Fork:
			var all Outcome
			for _, b := range slices.Clone(a.Branches) {
				for next := b.Start(a.At); next.Kind != End; {
					o, more := say(&next)
					if !more {
						return
					}
					all.Ended = max(all.Ended, o.Ended)
					next = b.Done(o.Ended, o)
				}
			}
			a = m.Done(all.Ended, all)
		case Wait:
			a = m.Done(a.At, Outcome{})
		default:
			panic("BUG: action of an unknown kind")
		}
	}
}

// Promptly is the outcome of a request that is answered at once, at the asked length.
func Promptly(a *Action) Outcome {
	o := Outcome{OutputTokens: int32(a.Request.MaxTokens), ReasoningTokens: int32(a.Request.ReasoningTokens), Ended: a.At + 1}
	if a.Retrieval != nil {
		o.Ended += a.Retrieval.Duration
	}
	return o
}
