package workload

import (
	"fmt"
	"slices"
)

// Parallel is a population of several, each with users or arrivals of its own, some with
// the one beside some with the other. What
// its parts' users and sessions say is what they would say alone, but for their
// numbers, which are unique in the run.
type Parallel struct {
	parts []Population
	// Of each part: the number of its first user in the run and in the part's own
	// numbering, and the same of its first session.
	first, own []uint32
	session    []uint64
	// crowds are the parts with users, streams those with arrivals.
	crowds, streams []int
}

// streamShift keeps the sessions of streams apart, of which there are at most
// MaxStreams. Beside users the streams have the upper half of the numbers of sessions,
// and the users the lower.
const (
	streamShift     = 36
	MaxStreams      = 1 << (stepShift - streamShift)
	MaxMixedStreams = MaxStreams / 2
	MaxMixedUsers   = 1 << (stepShift - 1 - userShift)
)

// StreamNumber is the number by which a Parallel knows session n of a stream: of the
// parts that have arrivals, counted from 0.
func StreamNumber(stream int, n uint64) uint64 { return uint64(stream)<<streamShift | n }

// NewParallel returns the population of parts, at most MaxStreams. Users is the number
// of users of each, 0 for one that has arrivals, nil when all have: of both there are at
// most MaxMixedStreams and MaxMixedUsers.
func NewParallel(parts []Population, users []int) (*Parallel, error) {
	if len(parts) == 0 || len(parts) > MaxStreams || users != nil && len(users) != len(parts) {
		return nil, fmt.Errorf("put workloads side by side: want 1 to %d, each with its users or none, got %d with %d", MaxStreams, len(parts), len(users))
	}
	p := &Parallel{parts: parts}
	all := 0
	for i := range parts {
		if users != nil && users[i] > 0 {
			p.crowds = append(p.crowds, i)
			all += users[i]
		} else {
			p.streams = append(p.streams, i)
		}
	}
	base := uint64(0)
	if len(p.crowds) > 0 && len(p.streams) > 0 {
		if len(p.streams) > MaxMixedStreams || all > MaxMixedUsers {
			return nil, fmt.Errorf("put workloads side by side: want at most %d with a rate beside at most %d users, got %d beside %d", MaxMixedStreams, MaxMixedUsers, len(p.streams), all)
		}
		base = 1 << (stepShift - 1)
	}
	shared := func(part Population) uint64 { // so many neighbours share a text: none of them are parted
		if s, ok := part.(*Sessions); ok {
			return max(1, uint64(s.file.Prompt.Group.Users))
		}
		return 1
	}
	var inRun, inPart uint32
	for _, i := range p.crowds {
		n := shared(parts[i])
		inPart = uint32((uint64(inPart) + n - 1) / n * n)
		p.first, p.own = append(p.first, inRun), append(p.own, inPart)
		inRun += uint32(users[i])
		inPart += uint32(users[i])
	}
	for j, i := range p.streams {
		n := shared(parts[i])
		p.session = append(p.session, (base+uint64(j)<<streamShift+n-1)/n*n)
	}
	return p, nil
}

// User returns the machine of one endless user.
func (p *Parallel) User(step, user uint32) Machine {
	i, found := slices.BinarySearch(p.first, user)
	if !found {
		i--
	}
	return p.parts[p.crowds[i]].User(step, p.own[i]+user-p.first[i])
}

// Session returns the machine of one session. Where all parts have users it is one that
// nobody starts, of any of them.
func (p *Parallel) Session(step uint32, n uint64) Machine {
	i := n >> streamShift
	if len(p.streams) == 0 {
		return p.parts[i%uint64(len(p.parts))].Session(step, n)
	}
	i %= uint64(len(p.streams))
	return p.parts[p.streams[i]].Session(step, p.session[i]+n&(1<<streamShift-1))
}

// Needs says what the machines of any may ask for.
func (p *Parallel) Needs() Needs {
	var n Needs
	for _, part := range p.parts {
		n |= NeedsOf(part)
	}
	return n
}
