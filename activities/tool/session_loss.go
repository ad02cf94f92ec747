package tool

import (
	"errors"
	"sync"

	"weft/activities/contract"
)

// sessionLostText tells a model that a server may have lost state of its earlier calls: a page, a transaction, a
// login.
const sessionLostText = "The session with this tool's server was lost, and a new one has begun: what earlier calls left in it is gone. " +
	"This call was not made. Do again what it needs, if anything, and then repeat it."

// mostUsers bounds how many callers are remembered; of more the oldest are forgotten.
const mostUsers = 10_000

// sessionLosses record which session has served which caller, so that a caller is told of a new one.
type sessionLosses struct {
	mu          sync.Mutex
	recent, old map[string]int
}

// sessionChanged reports, once, whether a caller was served by another session than this one.
func (l *sessionLosses) sessionChanged(caller string, e *entry) bool {
	if caller == "" {
		return false
	}
	place := caller + "\n" + e.key
	l.mu.Lock()
	defer l.mu.Unlock()
	before, known := l.recent[place]
	if !known {
		before, known = l.old[place]
	}
	if !known || before == e.serial {
		return false
	}
	l.note(place, e.serial)
	return true
}

// record records that a session has served a caller, if the server can keep state in it. A call without an
// answer leaves no state.
func (l *sessionLosses) record(caller string, e *entry, err error) {
	var f *contract.Failure
	answered := err == nil || errors.Is(err, errTooLarge) || errors.As(err, &f) && !contract.Retryable(f.Class)
	s, ok := e.server.(*session)
	if caller == "" || !ok || !answered || !s.hasState() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note(caller+"\n"+e.key, e.serial)
}

// note keeps where a caller is served. The lock is held.
func (l *sessionLosses) note(place string, serial int) {
	if l.recent == nil || len(l.recent) >= mostUsers/2 {
		l.recent, l.old = map[string]int{}, l.recent
	}
	l.recent[place] = serial
}
