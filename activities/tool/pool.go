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

// pool holds one session per target for all calls of a worker. Concurrent calls share one dial, which outlives a call's context.
type pool struct {
	dial func(context.Context, *target) (remote, error)
	idle time.Duration
	ctx  context.Context // bounds dials
	stop context.CancelFunc
	work sync.WaitGroup // dials and background closes

	mu      sync.Mutex
	closed  bool
	serials int
	entries map[string]*entry // by target.keyFor
	all     map[*entry]bool   // entries not yet closed, including dropped ones
}

// entry is one session. ready is closed when server or err is set; the rest is guarded by the pool's lock.
type entry struct {
	key string
	// serial is unique among the sessions of the pool.
	serial int
	ready  chan struct{}
	server remote
	err    error

	users   int
	dropped bool // not used for new calls; closed when users is 0
	timer   *time.Timer
}

func newPool(idle time.Duration, dial func(context.Context, *target) (remote, error)) *pool {
	ctx, stop := context.WithCancel(context.Background())
	return &pool{dial: dial, idle: idle, ctx: ctx, stop: stop, entries: map[string]*entry{}, all: map[*entry]bool{}}
}

// Caller identifies who makes a call. Tenants never share sessions; runs do, unless [Connection.Session] is [SessionOfRun].
type Caller struct{ Tenant, Run string }

type callerKey struct{}

// WithCaller returns a context whose calls are made by c.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

func callerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// keyFor returns the pool's key, which is equal for calls of a target that can share a session.
func (t *target) keyFor(ctx context.Context) string {
	c := callerOf(ctx)
	if t.conn.Session != SessionOfRun {
		c.Run = ""
	}
	return t.key + c.Tenant + "\n" + c.Run
}

// acquire returns the session of a target, dialling it if necessary. The caller must release it.
func (p *pool) acquire(ctx context.Context, at *target) (*entry, error) {
	at.tenant = callerOf(ctx).Tenant
	e, err := p.entryFor(at, at.keyFor(ctx))
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

func (p *pool) entryFor(at *target, key string) (*entry, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errStopping
	}
	e := p.entries[key]
	// New calls use the pool's session. A session started by another worker gets an entry of its own.
	if id := at.session.ID; id != "" && at.conn.Transport == TransportHTTP && (e == nil || e.server == nil || identity(e.server).ID != id) {
		key = at.session.poolKey(key)
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
	p.scheduleClose(e)
}

func (p *pool) release(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.users--
	p.scheduleClose(e)
}

// drop removes a session from the pool, so that new calls do not use it. It is closed when its last call ends.
func (p *pool) drop(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(e)
}

// remove implements drop. The lock is held.
func (p *pool) remove(e *entry) {
	e.dropped = true
	if p.entries[e.key] == e {
		delete(p.entries, e.key)
	}
	p.scheduleClose(e)
}

// scheduleClose closes an unused session immediately if it was dropped, otherwise after the idle time. The lock is held.
func (p *pool) scheduleClose(e *entry) {
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

// close closes all sessions, including those in use, and waits until they are closed.
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

// sessionLostText returns the error that informs a model of a lost session. repeated means that the call may have taken effect already.
func sessionLostText(repeated bool) string {
	effect := map[bool]string{true: "; an earlier attempt may have taken effect"}[repeated]
	return "The session with this tool's server was lost, and a new one was started. State that earlier calls left in the session, such as an open page or a login, is lost; " +
		"changes that they made outside the session are not undone. This call was not made in the new session" + effect +
		". Restore the state that it requires, if any, and then repeat the call."
}

// maxCallers bounds how many callers are remembered. The oldest are forgotten first.
const maxCallers = 10_000

// sessionLosses records which session served which caller, so that a caller can be informed of a new one.
type sessionLosses struct {
	mu          sync.Mutex
	recent, old map[string]int
}

// sessionChanged reports whether a caller was last served by a session other than this one. It reports a change only once.
func (l *sessionLosses) sessionChanged(caller string, e *entry) bool {
	if caller == "" {
		return false
	}
	key := caller + "\n" + e.key
	l.mu.Lock()
	defer l.mu.Unlock()
	previous, found := l.recent[key]
	if !found {
		previous, found = l.old[key]
	}
	if !found || previous == e.serial {
		return false
	}
	l.set(key, e.serial)
	return true
}

// record records which session served a caller, if the server can keep state in it. A call without a response leaves no state.
func (l *sessionLosses) record(caller string, e *entry, err error) {
	var f *contract.Failure
	answered := err == nil || errors.Is(err, stream.ErrTooLarge) || errors.As(err, &f) && !contract.Retryable(f.Class)
	s, ok := e.server.(*session)
	if caller == "" || !ok || !answered || !s.hasState() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set(caller+"\n"+e.key, e.serial)
}

// set stores the serial of the session that serves a caller. The lock is held.
func (l *sessionLosses) set(key string, serial int) {
	if l.recent == nil || len(l.recent) >= maxCallers/2 {
		l.recent, l.old = map[string]int{}, l.recent
	}
	l.recent[key] = serial
}

// SessionRef identifies a session in which a server may keep state of earlier calls. The zero value means no session.
type SessionRef struct {
	// ID is assigned by the server over streamable HTTP; otherwise it is a random string of the worker that has the
	// connection. Version is the protocol version.
	ID      string `json:"id"`
	Version string `json:"version,omitempty"`
}

// maxSessionID bounds the length of a session id. A session with a longer id is not continued by other workers.
const maxSessionID = 1 << 10

// poolKey returns the pool's key of a continued session, given the key of new sessions.
func (r *SessionRef) poolKey(key string) string { return key + "\n" + r.ID }

// identity returns the reference to a session, or the zero value if its server keeps no state.
func identity(s remote) SessionRef {
	if s, ok := s.(*session); ok && s.hasState() {
		return s.ref()
	}
	return SessionRef{}
}

// OwnsSessions reports whether only this worker can continue its sessions over a resolved connection, because they depend on a
// process or a network connection of this worker. It returns false for a nil Tools.
func (t *Tools) OwnsSessions(c plan.Connection) bool {
	if t == nil {
		return false
	}
	at, err := t.locate(c, "")
	return err == nil && (at.conn.Transport == TransportStdio || at.conn.Transport == TransportSSE)
}

func (s *session) ref() SessionRef {
	if s.at.conn.Transport != TransportHTTP {
		return SessionRef{ID: s.localID}
	}
	t := s.mcpTransport.transport.(*rawHTTPTransport)
	v, _ := t.version.Load().(string)
	if id := t.GetSessionId(); len(id) <= maxSessionID {
		return SessionRef{ID: id, Version: v}
	}
	return SessionRef{}
}
