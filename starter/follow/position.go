package follow

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// marks say how far a reader of a run's events has come, so that it can go on there: in
// another process, too. A run is a tree of histories that grow side by side, so a place in it
// is one place in each of them.
//
// A follower's mu guards them. All methods do nothing for nil.
type marks struct {
	root string
	// from is the position at which the reader goes on, next the one after the next report.
	from, next Position
	// reached are the tracks that have come to the run that the reader knows.
	reached map[string]bool
	// parents are the tracks that started others, children how many of theirs are open, by key.
	parents  map[string]string
	children map[string]int
	// done are the tracks of which everything was reported.
	done map[string]bool
	// current is the track whose event is being reported, at the place in it.
	current *track
	at      mark
}

// Position is a place in a run.
type Position struct {
	// Open are the places in the histories that are read, by workflow id, without the root's
	// in front. Of a child that began before its parent's place and is not here, and of all
	// below it, everything was reported.
	Open map[string]mark `json:"o"`
	// Requests and Answers are the last that were reported.
	Requests latest `json:"q,omitzero"`
	Answers  latest `json:"a,omitzero"`
}

// mark is a place in a history: Reported notices of the event, and all of the events before it.
type mark struct {
	Run      string `json:"r"`
	Event    int64  `json:"e"`
	Reported int    `json:"t,omitempty"`
}

type latest struct {
	At  time.Time `json:"at"`
	IDs []string  `json:"ids"`
}

// maxEventID bounds an event's id: it comes back in a header.
const maxEventID = 32 << 10

func newMarks(root string, from Position) *marks {
	open := map[string]mark{}
	maps.Copy(open, from.Open)
	return &marks{root: root, from: from, next: Position{Open: open, Requests: from.Requests, Answers: from.Answers}, reached: map[string]bool{},
		parents: map[string]string{}, children: map[string]int{}, done: map[string]bool{}}
}

// ParsePosition parses what [Follower.Position] returned; "" is the beginning.
func ParsePosition(id string) (Position, error) {
	var r Position
	if id == "" {
		return r, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(id)
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err == nil && r.Open == nil {
		err = fmt.Errorf("it names no place")
	}
	return r, err
}

func (m *marks) id() string {
	raw, err := json.Marshal(m.next)
	if err != nil || len(raw) > maxEventID {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

func (m *marks) key(t *track) string { return strings.TrimPrefix(t.id, m.root) }

// runOf is how a Position names the run of a track; among those of one child the end will do.
func (m *marks) runOf(t *track) string {
	if t.id != m.root && len(t.run) > 12 {
		return t.run[len(t.run)-12:]
	}
	return t.run
}

func (m *marks) enter(t *track, event int64) {
	if m == nil {
		return
	}
	m.current, m.at = t, mark{Run: m.runOf(t), Event: event}
	if m.from.Open[m.key(t)].Run == m.at.Run {
		m.reached[t.id] = true
	}
	m.advance()
}

func (m *marks) leave() {
	if m != nil {
		m.current = nil
	}
}

func (m *marks) isKnown() bool {
	if m == nil || m.current == nil {
		return false
	}
	m.at.Reported++
	return !m.advance()
}

// advance moves the reader's place forward, never back, and reports whether it did.
func (m *marks) advance() bool {
	key := m.key(m.current)
	if was, known := m.from.Open[key]; known {
		switch {
		case m.at.Run != was.Run && !m.reached[m.current.id]:
			return false
		case m.at.Run == was.Run && (m.at.Event < was.Event || m.at.Event == was.Event && m.at.Reported <= was.Reported):
			return false
		}
	}
	m.next.Open[key] = m.at
	return true
}

// addChild adds a child, and reports whether the reader has all of it: then it is not read.
func (m *marks) addChild(parent *track, event int64, child *track) bool {
	if m == nil {
		return false
	}
	if _, known := m.from.Open[m.key(child)]; !known {
		was, known := m.from.Open[m.key(parent)]
		if known && (m.runOf(parent) == was.Run && event <= was.Event || m.runOf(parent) != was.Run && !m.reached[parent.id]) {
			return true
		}
	}
	if _, known := m.next.Open[m.key(child)]; !known {
		m.next.Open[m.key(child)] = mark{Run: m.runOf(child)}
	}
	m.parents[m.key(child)] = m.key(parent)
	m.children[m.key(parent)]++
	return false
}

// close ends a track. While a child is open the track's place stays: a reader finds the child through it.
func (m *marks) close(t *track) {
	if m == nil {
		return
	}
	m.done[m.key(t)] = true
	for key := m.key(t); key != "" && m.done[key] && m.children[key] == 0; key = m.parents[key] {
		delete(m.next.Open, key)
		m.children[m.parents[key]]--
	}
}

func (m *marks) knowsRequest(at time.Time, id string) bool {
	return m != nil && m.next.Requests.has(at, id, &m.from.Requests)
}

func (m *marks) knowsAnswer(at time.Time, id string) bool {
	return m != nil && m.next.Answers.has(at, id, &m.from.Answers)
}

// has reports whether the reader has a thing, and notes that it will.
func (l *latest) has(at time.Time, id string, from *latest) bool {
	if at.Before(from.At) || at.Equal(from.At) && slices.Contains(from.IDs, id) {
		return true
	}
	switch {
	case at.After(l.At):
		*l = latest{At: at, IDs: []string{id}}
	case at.Equal(l.At):
		l.IDs = append(slices.Clone(l.IDs), id)
	}
	return false
}

// After returns the position behind an event of the run itself, and behind all earlier answers.
func After(run string, event int64) Position {
	return Position{Open: map[string]mark{"": {Run: run, Event: event, Reported: 1 << 30}}, Answers: latest{At: time.Now()}}
}

// RunID is the id of the run of the chain at which the position is, "" at the beginning.
func (p *Position) RunID() string { return p.Open[""].Run }

// Restart moves the position to the beginning of what the server keeps.
func (p *Position) Restart() { p.Open = nil }

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
