package workload

import (
	"fmt"
	"slices"
)

// Parallel is a population of several, each with users or arrivals of its own. What
// its parts' users and sessions say is what they would say alone, but for their
// numbers, which are unique in the run.
type Parallel struct {
	parts []Population
	// Of each part: the number of its first user in the run and in the part's own
	// numbering, and the same of its first session.
	first, own []uint32
	session    []uint64
}

// streamShift keeps the sessions of streams apart, of which there are at most
// MaxStreams.
const (
	streamShift = 36
	MaxStreams  = 1 << (stepShift - streamShift)
)

// StreamNumber is the number by which a Parallel knows session n of part.
func StreamNumber(part int, n uint64) uint64 { return uint64(part)<<streamShift | n }

// NewParallel returns the population of parts, at most MaxStreams. Users is the number
// of users of each, nil when they have arrivals.
func NewParallel(parts []Population, users []int) (*Parallel, error) {
	if len(parts) == 0 || len(parts) > MaxStreams || users != nil && len(users) != len(parts) {
		return nil, fmt.Errorf("put workloads side by side: want 1 to %d, each with its users or none, got %d with %d", MaxStreams, len(parts), len(users))
	}
	p := &Parallel{parts: parts}
	var inRun, inPart uint32
	for i, part := range parts {
		shared := uint64(1) // so many neighbours share a text: none of them are parted
		if s, ok := part.(*Sessions); ok {
			shared = max(shared, uint64(s.file.Prompt.Group.Users))
		}
		inPart = uint32((uint64(inPart) + shared - 1) / shared * shared)
		p.first, p.own = append(p.first, inRun), append(p.own, inPart)
		p.session = append(p.session, (uint64(i)<<streamShift+shared-1)/shared*shared)
		if users != nil {
			inRun += uint32(users[i])
			inPart += uint32(users[i])
		}
	}
	return p, nil
}

// User returns the machine of one endless user.
func (p *Parallel) User(step, user uint32) Machine {
	i, found := slices.BinarySearch(p.first, user)
	if !found {
		i--
	}
	return p.parts[i].User(step, p.own[i]+user-p.first[i])
}

// Session returns the machine of one session.
func (p *Parallel) Session(step uint32, n uint64) Machine {
	i := int(n >> streamShift % uint64(len(p.parts)))
	return p.parts[i].Session(step, p.session[i]+n&(1<<streamShift-1))
}

// Needs says what the machines of any may ask for.
func (p *Parallel) Needs() Needs {
	var n Needs
	for _, part := range p.parts {
		n |= NeedsOf(part)
	}
	return n
}
