package tool

import (
	"errors"
	"sync"

	"weft/activities/contract"
)

// lostText tells a model that a server may have forgotten what its earlier calls left there: the page
// of a browser, a transaction, a login.
const lostText = "The session with this tool's server was lost, and a new one has begun: what earlier calls left in it is gone. " +
	"This call was not made. Do again what it needs, if anything, and then repeat it."

// keeper is a session in which a server can keep something from one call to the next.
type keeper interface{ keeps() bool }

// mostUsers bounds how many callers are remembered; of more the oldest are forgotten.
const mostUsers = 10_000

// losses remember which session has served which caller, so that nobody goes on with another one
// without being told.
type losses struct {
	mu          sync.Mutex
	recent, old map[string]int
}

// moved reports whether a caller's calls have been served by another session than this one, which
// counts as told: this one serves it from now on.
func (l *losses) moved(caller string, e *entry) bool {
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

// served notes that a session has served a caller, if the server can keep something in it. A call
// that came to no answer has left nothing to build on: whoever makes it again has lost nothing.
func (l *losses) served(caller string, e *entry, err error) {
	var f *contract.Failure
	answered := err == nil || errors.Is(err, errTooLarge) || errors.As(err, &f) && !contract.Retryable(f.Class)
	k, ok := e.server.(keeper)
	if caller == "" || !ok || !answered || !k.keeps() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note(caller+"\n"+e.key, e.serial)
}

// note keeps where a caller is served. The lock is held.
func (l *losses) note(place string, serial int) {
	if l.recent == nil || len(l.recent) >= mostUsers/2 {
		l.recent, l.old = map[string]int{}, l.recent
	}
	l.recent[place] = serial
}
