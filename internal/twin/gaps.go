package twin

import "plimsoll/internal/histogram"

// patience is how many answers in a row have to ask for another histogram until
// the gaps that are shared go there.
const patience = 4

// gapCounts counts the times between the tokens of many answers at once: all
// sequences that decode in a step share the time since the step before, so an
// answer is only a mark at the piece of its first token and one at that of its
// last, and each piece is counted once, with the number of the answers that lie
// over it.
type gapCounts struct {
	// target is where the answers that are marked are counted. others is how many
	// were counted elsewhere since the last.
	target *histogram.Histogram
	others int
	// open is the number of answers over the first piece, before when the last
	// token before it was sent.
	open   int64
	before int64
}

// mark counts an answer from the piece with its first token to that with its
// last, which end with them.
func (in *instance) mark(q *Seq) {
	in.pieces[q.first-in.dropped].after++
	in.pieces[q.last-in.dropped].after--
}

// countPieces counts the gaps of the first n pieces, and unmarks them.
func (in *instance) countPieces(n int) {
	c := &in.gaps
	var times [64]int64
	for i := range in.pieces[:n] {
		p := &in.pieces[i]
		for k := int64(0); c.open > 0 && k < p.n && !p.apart; {
			to := min(k+int64(len(times))-1, p.n)
			list := p.appendSent(append(times[:0], c.before), k, to)
			c.target.RecordGapsN(list, uint64(c.open))
			c.before, k = list[len(list)-1], to
		}
		if p.after != 0 {
			if c.open == 0 {
				c.before = int64(p.sent(p.n))
			}
			c.open += int64(p.after)
			p.after = 0
		}
	}
}

// settleGaps counts all that is marked.
func (in *instance) settleGaps() {
	n := len(in.pieces)
	if in.stepping {
		n = in.plan
	}
	in.countPieces(n)
	if in.gaps.open != 0 {
		panic("BUG: an answer is marked at one end only")
	}
}

// Tokens is the number of tokens that came one by one, 0 for an answer that did
// not come as a stream.
func (f *Finished) Tokens() int {
	if f.seq == nil || !f.Request.Streamed {
		return 0
	}
	return int(f.Request.StreamedTokens)
}

// CountGaps counts the times between the tokens of the answer in h. It may put
// that off until Predict returns; others may count in h meanwhile.
func (f *Finished) CountGaps(h *histogram.Histogram) {
	q, in := f.seq, f.replica
	switch {
	case f.Tokens() < 2:
		return
	case f.until != maxKV || len(q.runs) > 0 || q.start != 0:
		// Its tokens are not of steps in a row, and so it will be for others.
		in.recent.wanted = true
		h.RecordGaps(f.Times())
		return
	}
	c := &in.gaps
	if h != c.target {
		if c.others++; c.target != nil && c.others < patience {
			h.RecordGaps(f.Times())
			return
		}
		in.settleGaps()
		c.target = h
	}
	c.others = 0
	in.mark(q)
}
