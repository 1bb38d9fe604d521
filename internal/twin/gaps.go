package twin

import "plimsoll/internal/histogram"

// tracks is the number of histograms for which gaps can be marked at a time. Who
// asked in one part of a window ends beside those who asked in the next.
const tracks = 2

// patience is how many answers in a row have to be for other histograms until a
// track is given to one of them.
const patience = 4

// gapCounts counts the times between the tokens of many answers at once: all
// sequences that decode in a step share the time since the step before, so an
// answer is only a mark at the piece of its first token and one at that of its
// last, and each piece is counted once, with the number of the answers that lie
// over it.
type gapCounts struct {
	tracks [tracks]track
	// before is when the last token before the first piece was sent, where an answer
	// lies over both.
	before int64
}

// track is what is counted in one histogram.
type track struct {
	target *histogram.Histogram
	// open is the number of answers over the first piece, unused that of answers for
	// other histograms since the last for this one.
	open   int64
	unused int
}

// countPieces counts the gaps of the first n pieces of the past, and unmarks them.
func (in *instance) countPieces(n int) {
	c := &in.gaps
	var times [64]int64
	for i := range in.past[:n] {
		p := &in.past[i]
		if a, b := c.tracks[0].open, c.tracks[1].open; a|b != 0 && !p.apart {
			for k := int64(0); k < p.n; {
				to := min(k+int64(len(times))-1, p.n)
				list := p.appendSent(append(times[:0], c.before), k, to)
				c.before, k = list[len(list)-1], to
				for t := range c.tracks {
					if n := c.tracks[t].open; n > 0 {
						c.tracks[t].target.RecordGapsN(list, uint64(n))
					}
				}
			}
		} else if p.after != [tracks]int32{} {
			c.before = int64(p.sent(p.n))
		}
		for t := range c.tracks {
			c.tracks[t].open += int64(p.after[t])
			p.after[t] = 0
		}
	}
}

// settleGaps counts all that is marked.
func (in *instance) settleGaps() {
	in.countPieces(len(in.past))
	for t := range in.gaps.tracks {
		if in.gaps.tracks[t].open != 0 {
			panic("BUG: an answer is marked at one end only")
		}
	}
}

// track returns the index of the track of h, false when it has none and gets none
// yet.
func (in *instance) track(h *histogram.Histogram) (index int, ok bool) {
	all := &in.gaps.tracks
	oldest, found := 0, -1
	for i := range all {
		all[i].unused++
		if all[i].target == h {
			all[i].unused, found = 0, i
		}
		if all[i].unused > all[oldest].unused {
			oldest = i
		}
	}
	if found >= 0 {
		return found, true
	}
	t := &all[oldest]
	if t.target != nil && t.unused < patience {
		return 0, false
	}
	in.settleGaps()
	*t = track{target: h}
	return oldest, true
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
	t, ok := in.track(h)
	if !ok {
		h.RecordGaps(f.Times())
		return
	}
	in.past[q.first-in.dropped].after[t]++
	in.past[q.last-in.dropped].after[t]--
}
