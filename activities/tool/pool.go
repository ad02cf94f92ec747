package tool

import (
	"context"
	"errors"
	"sync"
	"time"

	"weft/activities/contract"
	"weft/activities/tool/stream"
	"weft/workflows/plan"
)

var errStopping = errors.New("the worker is stopping")

// pool keeps one session per target for all calls of a worker. Concurrent calls share one dial, which no
// call's context ends.
type pool struct {
	dial func(context.Context, *target) (remote, error)
	idle time.Duration
	ctx  context.Context // of sessions that are being dialled
	stop context.CancelFunc
	work sync.WaitGroup // dials, and closes in the background

	mu      sync.Mutex
	closed  bool
	serials int
	entries map[string]*entry // by target.keyFor
	all     map[*entry]bool   // those that still have to be closed, dropped ones included
}

// entry is one session. ready is closed when server or err is set; the rest is guarded by the pool's lock.
type entry struct {
	key string
	// serial tells it from every other session of the pool.
	serial int
	ready  chan struct{}
	server remote
	err    error

	users   int
	dropped bool // no longer offered; closed when users is 0
	timer   *time.Timer
}

func newPool(idle time.Duration, dial func(context.Context, *target) (remote, error)) *pool {
	ctx, stop := context.WithCancel(context.Background())
	return &pool{dial: dial, idle: idle, ctx: ctx, stop: stop, entries: map[string]*entry{}, all: map[*entry]bool{}}
}

// Caller is who has a call made: tenants share no sessions, and runs share none of connections of which each has its own.
type Caller struct{ Tenant, Run string }

type callerKey struct{}

// WithCaller says who has the calls of a context made.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

func callerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// keyFor is the same for calls of a target that can share a session.
func (t *target) keyFor(ctx context.Context) string {
	c := callerOf(ctx)
	if t.conn.Session != SessionOfRun {
		c.Run = ""
	}
	return t.key + c.Tenant + "\n" + c.Run
}

// acquire returns the session of a target, dialling it if need be. The caller releases it.
func (p *pool) acquire(ctx context.Context, at *target) (*entry, error) {
	at.tenant = callerOf(ctx).Tenant
	e, err := p.enter(at, at.keyFor(ctx))
	if err != nil {
		return nil, err
	}
	select {
	case <-e.ready:
	case <-ctx.Done():
		p.release(e)
		return nil, ctx.Err()
	}
	if e.err != nil {
		p.release(e)
		return nil, e.err
	}
	return e, nil
}

func (p *pool) enter(at *target, key string) (*entry, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errStopping
	}
	e := p.entries[key]
	// New calls have the session of the pool. One of another worker's is continued beside it.
	if id := at.session.ID; id != "" && at.conn.Transport == TransportHTTP && (e == nil || e.server == nil || identity(e.server).ID != id) {
		key = at.session.at(key)
		e = p.entries[key]
	}
	if e != nil && e.server != nil && !e.server.usable(e.users == 0) {
		p.remove(e)
		e = nil
	}
	if e == nil {
		p.serials++
		e = &entry{key: key, serial: p.serials, ready: make(chan struct{})}
		p.entries[key] = e
		p.all[e] = true
		p.work.Go(func() { p.open(e, at) })
	}
	e.users++
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
	return e, nil
}

func (p *pool) open(e *entry, at *target) {
	ctx, cancel := context.WithTimeout(p.ctx, at.conn.ConnectTimeout)
	defer cancel()
	s, err := p.dial(ctx, at)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed && err != nil {
		err = errStopping
	}
	e.server, e.err = s, err
	close(e.ready)
	if err != nil {
		p.remove(e)
		return
	}
	p.rest(e)
}

func (p *pool) release(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.users--
	p.rest(e)
}

// drop takes a session out of the offer; it is closed when its last call is over.
func (p *pool) drop(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(e)
}

// remove is drop under the lock.
func (p *pool) remove(e *entry) {
	e.dropped = true
	if p.entries[e.key] == e {
		delete(p.entries, e.key)
	}
	p.rest(e)
}

// rest closes an unused session at once if it was dropped, else after a while. The lock is held.
func (p *pool) rest(e *entry) {
	if e.users > 0 || !p.all[e] || p.closed {
		return
	}
	select {
	case <-e.ready:
	default:
		return
	}
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
	if !e.dropped {
		e.timer = time.AfterFunc(p.idle, func() { p.expire(e) })
		return
	}
	delete(p.all, e)
	if e.server != nil {
		p.work.Go(e.server.close)
	}
}

func (p *pool) expire(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.users == 0 && !e.dropped {
		p.remove(e)
	}
}

// close closes all sessions, used or not, and waits until they are.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stop()
	p.work.Wait()
	p.mu.Lock()
	var open []remote
	for e := range p.all {
		if e.timer != nil {
			e.timer.Stop()
		}
		if e.server != nil {
			open = append(open, e.server)
		}
		delete(p.all, e)
		e.dropped = true
	}
	p.entries = map[string]*entry{}
	p.mu.Unlock()
	var all sync.WaitGroup
	for _, s := range open {
		all.Go(s.close)
	}
	all.Wait()
}

// sessionLost tells a model that a server may have lost state of its earlier calls, and perhaps that this one is repeated.
func sessionLost(repeated bool) string {
	made := map[bool]string{true: "; an earlier attempt may have taken effect"}[repeated]
	return "The session with this tool's server was lost, and a new one has begun. State that earlier calls left in the session, such as an open page or a login, is gone; " +
		"what they changed outside of it is not undone. This call was not made in the new session" + made + ". Do again what it needs, if anything, and then repeat it."
}

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
	answered := err == nil || errors.Is(err, stream.ErrTooLarge) || errors.As(err, &f) && !contract.Retryable(f.Class)
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

// SessionRef names the session of a server that has state of earlier calls. The zero value is none.
type SessionRef struct {
	// ID is the server's over streamable HTTP, else a random text of the worker that has the connection. Version is that of
	// the protocol.
	ID      string `json:"id"`
	Version string `json:"version,omitempty"`
}

// maxSessionID bounds what a server calls a session. A longer one is not continued by other workers.
const maxSessionID = 1 << 10

// at is the key of a session's entry in the pool, beside that of new sessions.
func (r *SessionRef) at(key string) string { return key + "\n" + r.ID }

// identity is the session of a server, none if it keeps no state.
func identity(s remote) SessionRef {
	if s, ok := s.(*session); ok && s.hasState() {
		return s.ref()
	}
	return SessionRef{}
}

// Holds reports whether this worker alone can go on with its sessions over a resolved connection: they end with a process, or
// with a connection, of its own. A nil Tools has none.
func (t *Tools) Holds(c plan.Connection) bool {
	if t == nil {
		return false
	}
	at, err := t.locate(c, "")
	return err == nil && (at.conn.Transport == TransportStdio || at.conn.Transport == TransportSSE)
}

func (s *session) ref() SessionRef {
	if s.at.conn.Transport != TransportHTTP {
		return SessionRef{ID: s.own}
	}
	t := s.mcpTransport.transport.(*rawHTTPTransport)
	v, _ := t.version.Load().(string)
	if id := t.GetSessionId(); len(id) <= maxSessionID {
		return SessionRef{ID: id, Version: v}
	}
	return SessionRef{}
}
