package serve

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"weft/activities/contract"
	"weft/starter/runs"
	"weft/worker/config"
	"weft/workflows/plan"

	"golang.org/x/time/rate"
)

// Each run carries who started it. A client sees its own runs; with the scope administer those of its tenant, or without a
// tenant all. A run of somebody else is not found.

type callerKey struct{}

// callerIn is who sent the request of a context; nil where the server has no tokens, and serves its own machine alone.
func callerIn(ctx context.Context) *config.Token {
	t, _ := ctx.Value(callerKey{}).(*config.Token)
	return t
}

// callerOf is the name of who sent a request, empty where the server has no tokens.
func callerOf(r *http.Request) string {
	if t := callerIn(r.Context()); t != nil {
		return t.Name
	}
	return ""
}

// principal is whose token was sent, empty where the server has none.
func principal(caller *config.Token) contract.Principal {
	if caller == nil {
		return contract.Principal{}
	}
	return contract.Principal{Name: caller.Name, Tenant: caller.Tenant}
}

// ownerOf tells who sent a request from everybody else.
func ownerOf(r *http.Request) string {
	p := principal(callerIn(r.Context()))
	return p.Name + "\x00" + p.Tenant
}

// seen is whose runs a caller may see, as [runs.Filter] has it.
func seen(caller *config.Token) *contract.Principal {
	own := principal(caller)
	if caller == nil {
		return nil
	}
	if slices.Contains(caller.Scopes, config.ScopeAdminister) {
		if own.Name = ""; own.Tenant == "" {
			return nil
		}
	}
	return &own
}

func may(caller *config.Token, owner contract.Principal) bool {
	return (&runs.Filter{Owner: seen(caller)}).MatchesOwner(owner)
}

// owned are the runs that the caller of a request may see, and start.
type owned struct {
	Runs
	limits *limits
}

// Find does not find a run of somebody else.
func (o owned) Find(ctx context.Context, id string) (*Run, error) {
	run, err := o.Runs.Find(ctx, id)
	if err != nil || callerIn(ctx) == nil {
		return run, err
	}
	owner := run.Owner
	if root, _, below := strings.Cut(id, "/"); below {
		above, err := o.Runs.Find(ctx, root)
		if err != nil {
			return nil, err
		}
		owner = above.Owner
	}
	if !may(callerIn(ctx), owner) {
		return nil, NoRun(id)
	}
	return run, nil
}

// Start says nothing of a run of somebody else that has the id, and refuses one more than the caller may have open.
func (o owned) Start(ctx context.Context, s *Start) (*Run, bool, error) {
	if err := o.limits.start(callerIn(ctx)); err != nil {
		return nil, false, err
	}
	failed, err := o.limits.reserve(ctx, o.Runs, callerIn(ctx), s.ID)
	if err != nil {
		return nil, false, err
	}
	run, existed, err := o.Runs.Start(ctx, s)
	if existed || err != nil {
		failed()
	}
	if existed && err == nil && !may(callerIn(ctx), run.Owner) {
		return nil, false, NewProblem(RunExists, "use another id", "the id %q is already used", s.ID)
	}
	return run, existed, err
}

// List leaves out the runs of others.
func (o owned) List(ctx context.Context, wanted runs.Filter, token string) ([]Run, string, error) {
	wanted.Owner = seen(callerIn(ctx))
	return o.Runs.List(ctx, wanted, token)
}

// NoRun is the problem of a run that there is not, or not for this client.
func NoRun(id string) *Problem {
	return NewProblem(UnknownRun, "check the id; list runs with GET /runs", "run %.300q not found", id)
}

// needs refuses a caller without a scope.
func needs(caller *config.Token, scope string) error {
	if caller == nil || scope == "" || slices.Contains(caller.Scopes, scope) {
		return nil
	}
	return NewProblem(Forbidden, "ask the operator for a token with the scope, "+caller.Setting("scopes", "["+scope+"]"), "the token of %s has no scope %s", caller.Name, scope)
}

// mayStart refuses a flow that the caller may not start: with patterns, flows of the server's folder alone.
func mayStart(caller *config.Token, name string) error {
	if caller == nil || len(caller.Flows) == 0 || name != "" && plan.MatchesAny(caller.Flows, name) {
		return nil
	}
	return NewProblem(Forbidden, "ask the operator for a token that may, "+caller.Setting("flows", "[...]"), "the token of %s may not start the flow %q", caller.Name, cmp.Or(name, "of the body"))
}

// limits bound what each caller does at a time. The zero value has no callers.
type limits struct {
	mu      sync.Mutex
	callers map[contract.Principal]*activity
}

// activity is what a caller does.
type activity struct {
	starts *rate.Limiter
	// streams counts the open event streams; mu guards it.
	streams int
	// counting has an entry while somebody counts the open runs. Fresh are those that were started here, which lists may not
	// have yet: visibility is a little late.
	counting chan struct{}
	fresh    map[string]bool
}

// of returns what a caller does. The caller holds mu.
func (l *limits) of(caller *config.Token) *activity {
	who := principal(caller)
	if l.callers[who] == nil {
		if l.callers == nil {
			l.callers = map[contract.Principal]*activity{}
		}
		l.callers[who] = &activity{counting: make(chan struct{}, 1), fresh: map[string]bool{},
			starts: rate.NewLimiter(rate.Every(time.Minute/time.Duration(max(caller.Starts, 1))), caller.Starts)}
	}
	return l.callers[who]
}

const countTime = 5 * time.Second

// reserve counts the open runs of a caller's before another is started with an id; failed takes that back.
func (l *limits) reserve(ctx context.Context, all Runs, caller *config.Token, id string) (failed func(), err error) {
	if caller == nil || caller.Open == 0 {
		return func() {}, nil
	}
	l.mu.Lock()
	of, own := principal(caller), l.of(caller)
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	select {
	case own.counting <- struct{}{}:
		defer func() { <-own.counting }()
	case <-ctx.Done():
		return nil, NewProblem(Busy, "retry later", "the open runs of %s could not be counted within %v", caller.Name, countTime)
	}
	n, err := own.count(ctx, all, &of, caller.Open)
	if err != nil {
		return nil, err
	}
	if n >= caller.Open {
		return nil, tooMany(caller, "wait until one has closed, or cancel one", "open_runs", "%s has %d open runs, which is its limit", caller.Name, n)
	}
	if own.fresh[id] {
		return func() {}, nil // another start of the run counts it
	}
	own.fresh[id] = true
	return func() {
		own.counting <- struct{}{}
		delete(own.fresh, id)
		<-own.counting
	}, nil
}

// count counts up to most open runs.
func (o *activity) count(ctx context.Context, all Runs, of *contract.Principal, most int) (n int, err error) {
	for token := ""; ; {
		page, next, err := all.List(ctx, runs.Filter{Owner: of, Limit: most}, token)
		if err != nil {
			return 0, err
		}
		for i := range page {
			delete(o.fresh, page[i].ID)
		}
		if n, token = n+len(page), next; next == "" || n >= most {
			break
		}
	}
	for id := range o.fresh {
		if n+len(o.fresh) < most {
			break
		}
		run, err := all.Find(ctx, id)
		open := isNotFound(err) || err == nil && run.Closed == nil
		if err == nil && run.Kept { // a session is open between its turns, too
			_, open, err = all.Turns(ctx, run)
		}
		if err != nil && !isNotFound(err) {
			return 0, err
		}
		if !open {
			delete(o.fresh, id)
		}
	}
	return n + len(o.fresh), nil
}

// tooMany is the problem of a caller that does more than the setting allows.
func tooMany(caller *config.Token, remedy, setting, format string, args ...any) error {
	return NewProblem(TooMany, remedy+"; "+caller.Setting(setting, "N")+" allows more", format, args...).with("Retry-After", "5")
}

// start counts a start of the caller's.
func (l *limits) start(caller *config.Token) error {
	if caller == nil || caller.Starts == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of(caller).starts.Allow() {
		return nil
	}
	return tooMany(caller, "wait a moment", "starts_per_minute", "%s starts more than %d runs per minute", caller.Name, caller.Starts)
}

// stream counts an event stream of the caller's until it has ended.
func (l *limits) stream(caller *config.Token) (ended func(), err error) {
	if caller == nil || caller.Streams == 0 {
		return func() {}, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.of(caller)
	if own.streams >= caller.Streams {
		return nil, tooMany(caller, "close another stream", "event_streams", "%s has %d open event streams, which is its limit", caller.Name, caller.Streams)
	}
	own.streams++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		own.streams--
	}, nil
}
