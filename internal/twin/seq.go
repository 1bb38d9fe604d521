package twin

// Account is where one sequence's time went, by the engine's own clock: ns since
// the driver's start, except for counts. It is the truth that a measurement from
// outside can be checked against.
type Account struct {
	// Arrival is when the sequence reached the engine, Admitted when it was first
	// scheduled, First when its first token was sampled, Finished when its last
	// was. Queue, prefill and decode are the differences of neighbours; time lost
	// to preemption lies within decode (or prefill) and is told apart in Preempted.
	Arrival, Admitted, First, Finished float64
	// Preempted is the time from each preemption until the tokens that it threw
	// away were computed again.
	Preempted float64
	// PreemptedEarly is the part of Preempted before the first token.
	PreemptedEarly float64
	// Steps is the number of steps that worked on the sequence, Preemptions how
	// often it lost its memory.
	Steps, Preemptions int
	// Prompt and Output are its tokens, Cached those of the prompt that were in the
	// prefix cache when it was first scheduled.
	Prompt, Output, Cached int
	// FirstSent and Sent are when the first and the last token had passed through the
	// API process, for drivers that simulate one; else 0.
	FirstSent, Sent float64
	// Cancelled is true when it was given up before its last token.
	Cancelled bool
}

// seqState is what a sequence waits for.
type seqState uint8

const (
	idle     seqState = iota // not in an engine
	waiting                  // for its first or next chunk, holding no memory
	chunking                 // between the chunks of its prompt
	decoding                 // one token per step
	stalled                  // decoding, but not in the step under way
)

// Seq is one sequence of tokens in an engine. The driver fills the exported
// fields and gives it to Submit; it belongs to the engine until it is finished
// or cancelled, and may be used again after that.
type Seq struct {
	// Prompt is the number of prompt tokens, Output that of tokens to generate;
	// both at least 1.
	Prompt, Output int
	// Limit is the longest that the answer might have become as far as the engine
	// knows (max_tokens); 0 is Output.
	Limit int
	// Priority orders sequences in an engine that serves by priority, the lowest
	// first.
	Priority int
	// Content says what the prompt's text is, from its beginning; what it leaves
	// open is like no other text. Nil is a prompt that shares nothing. It belongs to
	// the engine with the sequence. Answer names the text that is generated, 0 for
	// one that nobody sends back. Texts with another Salt are never equal.
	Content      []Extent
	Answer, Salt uint64
	// Owner is the driver's.
	Owner any
	// Account is written by the engine, Arrival by the driver.
	Account Account

	state seqState
	// computed is the number of tokens with keys and values, blocks the memory
	// that they hold; while decoding both follow from base.
	computed, blocks int
	// made is the number of tokens sampled; while decoding it is tick - base.
	made int
	base int64
	// runs are the parts of the answer that preemptions ended.
	runs []tokenRun
	// redo is when the memory was lost, while tokens are being computed again.
	redo float64
	// planned is the chunk of the current step.
	planned int
	// most is what the policy promised it: the blocks of its prompt, or of its
	// longest possible answer too.
	most int
	// turn is the step, and took the blocks, of its last turn in a step in which not
	// everybody found memory; extra are blocks of a turn that was taken back.
	turn        int64
	took, extra int32
	// start is when a step without decoding made the first token since base, else 0.
	start  float64
	cancel bool

	// first and last are the numbers of the pieces with its first and its last token,
	// in virtual time.
	first, last int64

	// seat is what it has of the prefix cache, nil before it has looked there.
	seat *seat

	next, prev *Seq // in running or waiting
}

// seqList is a doubly linked list in order of service.
type seqList struct {
	head, tail *Seq
	n          int
}

func (l *seqList) pushBack(s *Seq)  { l.insert(s, l.tail) }
func (l *seqList) pushFront(s *Seq) { l.insert(s, nil) }

// insert puts s after another, or at the head.
func (l *seqList) insert(s, after *Seq) {
	s.prev, s.next = after, l.head
	if after != nil {
		s.next = after.next
	}
	if s.next == nil {
		l.tail = s
	} else {
		s.next.prev = s
	}
	if after == nil {
		l.head = s
	} else {
		after.next = s
	}
	l.n++
}

func (l *seqList) remove(s *Seq) {
	if s.prev == nil {
		l.head = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		l.tail = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.next, s.prev = nil, nil
	l.n--
}

// finishHeap orders decoding sequences by the tick of their last token. The ticks
// are in the heap itself, so that no sequence is looked at but the one that moves.
type finishHeap []finishing

type finishing struct {
	tick int64
	seq  *Seq
}

func (s *Seq) finishTick() int64 { return s.base + int64(s.Output) }

func (h *finishHeap) push(s *Seq) {
	*h = append(*h, finishing{s.finishTick(), s})
	h.up(len(*h) - 1)
}

// remove takes s out, at once when it is the first.
func (h *finishHeap) remove(s *Seq) {
	i, last := 0, len(*h)-1
	for (*h)[i].seq != s {
		i++
	}
	h.swap(i, last)
	(*h)[last] = finishing{}
	*h = (*h)[:last]
	if i < last {
		h.down(i)
		h.up(i)
	}
}

func (h finishHeap) swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h finishHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].tick <= h[i].tick {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h finishHeap) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(h); c++ {
			if h[c].tick < h[least].tick {
				least = c
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}
