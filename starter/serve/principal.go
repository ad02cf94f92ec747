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

// Each run records its principal. A client sees its own runs; with the scope administer, the runs of its tenant, or all
// runs if it has no tenant. Other runs are reported as not found.

type callerKey struct{}

// callerIn returns the caller in a request's context; nil if the server has no tokens, and serves only its own machine.
func callerIn(ctx context.Context) *config.Token {
	t, _ := ctx.Value(callerKey{}).(*config.Token)
	return t
}

// callerOf returns the name of the caller of a request, "" if the server has no tokens.
func callerOf(r *http.Request) string {
	if t := callerIn(r.Context()); t != nil {
		return t.Name
	}
	return ""
}

// principal returns the principal of the caller, zero for nil.
func principal(caller *config.Token) contract.Principal {
	if caller == nil {
		return contract.Principal{}
	}
	return contract.Principal{Name: caller.Name, Tenant: caller.Tenant}
}

// ownerOf returns a key that is unique to the caller of a request.
func ownerOf(r *http.Request) string {
	p := principal(callerIn(r.Context()))
	return p.Name + "\x00" + p.Tenant
}

// seen returns the owner of the runs that a caller may see, for [runs.Filter].
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

// owned restricts [Runs] to the runs that the caller of a request may see and start.
type owned struct {
	Runs
	limits *limits
}

// Find returns a run that the caller may see.
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

// Start starts a run within the caller's limit of open runs. It does not reveal whether a run with the same id belongs to another caller.
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

// List lists only runs that the caller may see.
func (o owned) List(ctx context.Context, wanted runs.Filter, token string) ([]Run, string, error) {
	wanted.Owner = seen(callerIn(ctx))
	return o.Runs.List(ctx, wanted, token)
}

// NoRun returns the problem of a run that does not exist, or that the client may not see.
func NoRun(id string) *Problem {
	return NewProblem(UnknownRun, "check the id; list runs with GET /runs", "run %.300q not found", id)
}

// needs returns an error if the caller does not have the scope.
func needs(caller *config.Token, scope string) error {
	if caller == nil || scope == "" || slices.Contains(caller.Scopes, scope) {
		return nil
	}
	return NewProblem(Forbidden, "ask the operator for a token with the scope, "+caller.Setting("scopes", "["+scope+"]"), "the token of %s has no scope %s", caller.Name, scope)
}

// mayStart returns an error if the caller may not start a flow: with patterns, it may start only matching flows of the server's folder.
func mayStart(caller *config.Token, name string) error {
	if caller == nil || len(caller.Flows) == 0 || name != "" && plan.MatchesAny(caller.Flows, name) {
		return nil
	}
	return NewProblem(Forbidden, "ask the operator for a token that may, "+caller.Setting("flows", "[...]"), "the token of %s may not start the flow %q", caller.Name, cmp.Or(name, "of the body"))
}

// limits tracks the activity of each caller. The zero value has no callers.
type limits struct {
	mu      sync.Mutex
	callers map[contract.Principal]*activity
}

// activity is the current activity of a caller.
type activity struct {
	starts *rate.Limiter
	// streams counts the open event streams; mu guards it.
	streams int
	// counting is a lock for counting the open runs. fresh are the runs that were started here and may not be in lists
	// yet, because visibility is eventually consistent.
	counting chan struct{}
	fresh    map[string]bool
}

// of returns the activity of a caller. l.mu must be held.
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

// reserve checks a caller's limit of open runs before another is started with an id; failed releases the reservation.
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

// count counts open runs, up to most.
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
		if err == nil && run.IsTurn { // a session is also open between its turns
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

// tooMany returns the problem of a caller that exceeds the limit in a setting.
func tooMany(caller *config.Token, remedy, setting, format string, args ...any) error {
	return NewProblem(TooMany, remedy+"; "+caller.Setting(setting, "N")+" allows more", format, args...).with("Retry-After", "5")
}

// start counts a start of a caller.
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

// stream counts an event stream of a caller until ended is called.
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
