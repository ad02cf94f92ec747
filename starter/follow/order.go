package follow

import (
	"context"
	"slices"
	"sync"
	"time"
)

// order has the events of histories that are read beside each other reported by their times, so that each reading of a closed
// run gives the same. All methods do nothing for nil.
type order struct {
	mu sync.Mutex
	// heads are those of the histories that are read, in the order in which their tracks began.
	heads []*head
	// moves counts the changes of heads.
	moves int
}

// head is the event that is to be reported next of a history: zero while that is not known. turn tells its reader that it may.
type head struct {
	at   time.Time
	turn chan struct{}
}

// enter adds a track.
func (o *order) enter(t *track) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	t.head = &head{turn: make(chan struct{}, 1)}
	o.heads = append(o.heads, t.head)
}

// await waits until no other track has an event before that of a time, or may still have one. It does not wait for a history
// that still grows.
func (o *order) await(ctx context.Context, t *track, at time.Time) {
	if o == nil {
		return
	}
	for seen := o.move(t, at); ; {
		select {
		case <-t.head.turn:
			return
		case <-ctx.Done():
			return
		case <-time.After(childLag):
			o.mu.Lock()
			moves := o.moves
			o.mu.Unlock()
			if moves == seen {
				return
			}
			seen = moves
		}
	}
}

// move notes the next event of a track.
func (o *order) move(t *track, at time.Time) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case <-t.head.turn: // of the event before
	default:
	}
	t.head.at = at
	o.next()
	return o.moves
}

// leave takes a track out, whose events the others do not wait for any more.
func (o *order) leave(t *track) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.heads = slices.DeleteFunc(o.heads, func(h *head) bool { return h == t.head })
	o.next()
}

// next gives the turn to the first event, if that is known.
func (o *order) next() {
	o.moves++
	if len(o.heads) == 0 {
		return
	}
	first := slices.MinFunc(o.heads, func(a, b *head) int { return a.at.Compare(b.at) })
	if first.at.IsZero() {
		return
	}
	select {
	case first.turn <- struct{}{}:
	default:
	}
}
