package twin

import (
	"container/list"
	"slices"
	"sync"

	"plimsoll/internal/dialect"
)

// maxKept bounds the memory of the conversations that are kept for who goes on from a
// response: their texts and media, and what it takes to find them.
const maxKept = 512 << 20

// What a response and a message cost beside their text, about.
const (
	keptOverhead    = 512
	messageOverhead = 128
)

// dialogue is a conversation up to a response, as a chain: what the one before knows is not
// kept again.
type dialogue struct {
	before   *dialogue
	messages []dialect.ServerMessage
	size     int64
	// users is the number of those who need it: its name, while it can be asked for by
	// name, and each conversation that goes on from it.
	users int
	name  string
	place *list.Element // in dialogues.recent, nil when its name is forgotten
}

// dialogues keeps responses with all that led to them. It forgets those first that
// nobody has named for the longest time.
type dialogues struct {
	limit int64

	mu     sync.Mutex // guards what follows
	named  map[string]*dialogue
	recent list.List // of *dialogue, the one used last in front
	size   int64
}

func newDialogues() *dialogues {
	return &dialogues{limit: maxKept, named: map[string]*dialogue{}}
}

// find returns the conversation up to a response, nil when that is not known. Who has
// it calls release when it is done with.
func (c *dialogues) find(name string) *dialogue {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.named[name]
	if k != nil {
		k.users++
		c.recent.MoveToFront(k.place)
	}
	return k
}

// release gives back what find returned; nil is nothing.
func (c *dialogues) release(k *dialogue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leave(k)
}

// leave counts one user less, and lets go of what nobody needs. The caller holds mu.
func (c *dialogues) leave(k *dialogue) {
	for ; k != nil; k = k.before {
		if k.users--; k.users > 0 {
			return
		}
		c.size -= k.size
	}
}

// put keeps a conversation that goes on from before, which may be nil.
func (c *dialogues) put(name string, before *dialogue, messages []dialect.ServerMessage) {
	k := &dialogue{before: before, messages: messages, users: 1, name: name, size: keptOverhead}
	for i := range messages {
		m := &messages[i]
		k.size += messageOverhead + int64(len(m.Text))
		for j := range m.Media {
			k.size += messageOverhead + int64(len(m.Media[j].Data))
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if before != nil {
		if before.users == 0 {
			return // its client has left meanwhile, and so has what came before
		}
		before.users++
	}
	k.place = c.recent.PushFront(k)
	c.named[name] = k
	c.size += k.size
	for c.size > c.limit && c.recent.Len() > 0 {
		last := c.recent.Remove(c.recent.Back()).(*dialogue)
		last.place = nil
		delete(c.named, last.name)
		c.leave(last)
	}
}

// history returns all messages, the oldest first.
func (k *dialogue) history() []dialect.ServerMessage {
	var parts [][]dialect.ServerMessage
	for ; k != nil; k = k.before {
		parts = append(parts, k.messages)
	}
	slices.Reverse(parts)
	return slices.Concat(parts...)
}
