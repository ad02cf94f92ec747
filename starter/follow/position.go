package follow

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// marks track the position of a reader of a run's events, so that it can resume there, also in
// another process. A run is a tree of histories that grow concurrently, so a position in it
// consists of a position in each of them.
//
// The follower's lock guards them. All methods do nothing for nil.
type marks struct {
	root string
	// from is the position at which the reader resumes, next the position after the next notice.
	from, next Position
	// reached are the tracks that have reached the run of from.
	reached map[string]bool
	// parents are the keys of tracks' parents, children the numbers of their open children, by key.
	parents  map[string]string
	children map[string]int
	// done are the tracks that have been reported completely.
	done map[string]bool
	// current is the track whose event is being reported, at the position in it.
	current *track
	at      mark
}

// Position is a position in the events of a run.
type Position struct {
	// Open are the positions in the histories being read, by workflow id without the root's
	// prefix. A child that started before its parent's position and is missing here has been
	// reported completely, with all its descendants.
	Open map[string]mark `json:"o"`
	// Requests and Answers are the latest that were reported.
	Requests latest `json:"q,omitzero"`
	Answers  latest `json:"a,omitzero"`
}

// mark is a position in a history: after all earlier events and the first Reported notices of the event.
type mark struct {
	Run      string `json:"r"`
	Event    int64  `json:"e"`
	Reported int    `json:"t,omitempty"`
}

type latest struct {
	At  time.Time `json:"at"`
	IDs []string  `json:"ids"`
}

// maxEventID is the maximum length of an event's id: clients return it in a header.
const maxEventID = 32 << 10

func newMarks(root string, from Position) *marks {
	open := map[string]mark{}
	maps.Copy(open, from.Open)
	return &marks{root: root, from: from, next: Position{Open: open, Requests: from.Requests, Answers: from.Answers}, reached: map[string]bool{},
		parents: map[string]string{}, children: map[string]int{}, done: map[string]bool{}}
}

// ParsePosition parses a result of [Follower.Position]; "" is the beginning.
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
		err = errors.New("it has no position")
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

// runOf returns the run id of a track in a Position; for a child, its last 12 characters are sufficient.
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

// advance moves the position forward, never back, and reports whether it did.
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

// addChild adds a child, and reports whether it has been reported completely: then it is not read.
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

// close ends a track. Its position remains while a child is open, because a reader finds the child through it.
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

// has reports whether an item was reported before from, and records it otherwise.
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

// After returns the position after an event of the run itself and after all earlier answers.
func After(run string, event int64) Position {
	return Position{Open: map[string]mark{"": {Run: run, Event: event, Reported: 1 << 30}}, Answers: latest{At: time.Now()}}
}

// RunID returns the run id of the position, "" at the beginning.
func (p *Position) RunID() string { return p.Open[""].Run }

// Restart moves the position to the beginning of the retained history.
func (p *Position) Restart() { p.Open = nil }

// order serializes the events of concurrently read histories by their times, so that the events of a closed
// run always have the same order. All methods do nothing for nil.
type order struct {
	mu sync.Mutex
	// heads are the heads of the histories being read, in the order in which their tracks started.
	heads []*head
	// moves counts the changes of heads.
	moves int
}

// head is the time of the next event of a history, zero while unknown. turn signals its reader to report it.
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

// await waits until no other track can have an event before at. It does not wait for a history that makes
// no progress, such as one that is still growing.
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

// leave removes a track, so that the others no longer wait for its events.
func (o *order) leave(t *track) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.heads = slices.DeleteFunc(o.heads, func(h *head) bool { return h == t.head })
	o.next()
}

// next signals the reader of the earliest event, if it is known.
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
