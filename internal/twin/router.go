package twin

import "fmt"

// Router chooses the replica of each sequence. It is used by one goroutine.
type Router interface {
	// Pick returns the index of the replica that gets s.
	Pick(s *Seq) int
	// Left says that a sequence has left the replica that it was given to.
	Left(replica int)
}

// Routers are the names that NewRouter knows; the first is the default.
func Routers() []string { return []string{"round-robin", "least-loaded"} }

// NewRouter returns the router called name over n replicas; the empty name is the
// default.
func NewRouter(name string, n int) (Router, error) {
	switch name {
	case "", "round-robin":
		return &roundRobin{n: n}, nil
	case "least-loaded":
		return newLeastLoaded(n), nil
	}
	var names [][]string
	for _, r := range Routers() {
		names = append(names, []string{r})
	}
	i, err := find("router", name, names)
	if err != nil {
		return nil, fmt.Errorf("router: %w", err)
	}
	return NewRouter(Routers()[i], n)
}

// roundRobin gives each replica its turn.
type roundRobin struct{ next, n int }

func (r *roundRobin) Pick(*Seq) int {
	i := r.next
	r.next = (i + 1) % r.n
	return i
}

func (r *roundRobin) Left(int) {}

// leastLoaded picks the replica with the fewest sequences, the lowest index among
// equals. The replicas are a heap.
type leastLoaded struct {
	load []int // by replica
	heap []int // replicas
	at   []int // by replica, its place in heap
}

func newLeastLoaded(n int) *leastLoaded {
	l := &leastLoaded{load: make([]int, n), heap: make([]int, n), at: make([]int, n)}
	for i := range n {
		l.heap[i], l.at[i] = i, i
	}
	return l
}

func (l *leastLoaded) Pick(*Seq) int {
	i := l.heap[0]
	l.load[i]++
	l.down(0)
	return i
}

func (l *leastLoaded) Left(replica int) {
	l.load[replica]--
	l.up(l.at[replica])
}

func (l *leastLoaded) less(a, b int) bool {
	return l.load[a] < l.load[b] || l.load[a] == l.load[b] && a < b
}

func (l *leastLoaded) up(i int) {
	for i > 0 && l.less(l.heap[i], l.heap[(i-1)/2]) {
		l.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (l *leastLoaded) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(l.heap); c++ {
			if l.less(l.heap[c], l.heap[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		l.swap(i, least)
		i = least
	}
}

func (l *leastLoaded) swap(i, j int) {
	l.heap[i], l.heap[j] = l.heap[j], l.heap[i]
	l.at[l.heap[i]], l.at[l.heap[j]] = i, j
}
