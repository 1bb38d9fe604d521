package twin

// Stages is where the time of one request went, in ns. They sum to the time from
// its start to its end.
type Stages struct {
	// Queue is the time until the engine first worked on the request, less
	// tokenization.
	Queue int64
	// Tokenization is the time that its prompt took to become tokens, waiting for
	// a worker included.
	Tokenization int64
	// Prefill is the time from there to the first token, Decode from the first
	// token to the last, both less what preemption took.
	Prefill, Decode int64
	// Preempted is the time from each loss of its memory until the lost tokens had
	// been computed again.
	Preempted int64
	// Detokenization and Guardrail are what the answer waited for after the
	// engine had made its tokens.
	Detokenization, Guardrail int64
	// Network and Transfer are the time on wires and between engines; nothing is
	// simulated that costs either yet.
	Network, Transfer int64
}

// StageNames are the names of the stages in the order of Values.
func StageNames() []string {
	return []string{"queue", "tokenization", "prefill", "decode", "preempted", "detokenization", "guardrail", "network", "transfer"}
}

// Values returns the stages in the order of StageNames.
func (s *Stages) Values() [9]int64 {
	return [9]int64{s.Queue, s.Tokenization, s.Prefill, s.Decode, s.Preempted, s.Detokenization, s.Guardrail, s.Network, s.Transfer}
}

// Sum is the time of the whole request.
func (s *Stages) Sum() int64 {
	var sum int64
	for _, v := range s.Values() {
		sum += v
	}
	return sum
}

// stagesOf divides the time from start to end of a request by its account. A
// request that was cut has its last stage cut.
func stagesOf(a *Account, start, end int64) Stages {
	// within returns the instant t, or end when it never came.
	within := func(came bool, t float64, from int64) int64 {
		if !came {
			return end
		}
		return min(max(int64(t), from), end)
	}
	entered := within(true, a.Arrival, start)
	admitted := within(a.Steps > 0 || a.Admitted > 0, a.Admitted, entered)
	first := within(a.First > 0, a.First, admitted)
	finished := within(a.Finished > 0 && !a.Cancelled, a.Finished, first)
	sent := within(a.Sent > 0, a.Sent, finished)
	early := min(max(int64(a.PreemptedEarly), 0), first-admitted)
	late := min(max(int64(a.Preempted)-int64(a.PreemptedEarly), 0), finished-first)
	return Stages{
		Tokenization: entered - start, Queue: admitted - entered, Prefill: first - admitted - early, Decode: finished - first - late,
		Preempted: early + late, Detokenization: sent - finished, Guardrail: end - sent,
	}
}
