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

// may reports whether a caller may see a run.
func may(caller *config.Token, owner contract.Principal) bool {
	switch {
	case caller == nil:
		return true
	case slices.Contains(caller.Scopes, config.ScopeAdminister) && (caller.Tenant == "" || caller.Tenant == owner.Tenant):
		return true
	}
	return owner == contract.Principal{Name: caller.Name, Tenant: caller.Tenant}
}

// owned are the runs that the caller of a request may see.
type owned struct{ Runs }

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

// Start says nothing of a run of somebody else that has the id.
func (o owned) Start(ctx context.Context, s *Start) (*Run, bool, error) {
	run, existed, err := o.Runs.Start(ctx, s)
	if existed && err == nil && !may(callerIn(ctx), run.Owner) {
		return nil, false, NewProblem(RunExists, "choose another id", "the id %q is taken", s.ID)
	}
	return run, existed, err
}

// List leaves out the runs of others.
func (o owned) List(ctx context.Context, wanted runs.Filter, token string) ([]Run, string, error) {
	if caller := callerIn(ctx); caller != nil {
		wanted.Owned = func(owner contract.Principal) bool { return may(caller, owner) }
	}
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
	return NewProblem(Forbidden, "ask the operator for a token with the scope, principals: {"+caller.Name+": {scopes: ["+scope+"]}}", "the token of %s has no scope %s", caller.Name, scope)
}

// mayStart refuses a flow that the caller may not start: with patterns, flows of the server's folder alone.
func mayStart(caller *config.Token, name string) error {
	if caller == nil || len(caller.Flows) == 0 || name != "" && plan.MatchesAny(caller.Flows, name) {
		return nil
	}
	return NewProblem(Forbidden, "ask the operator for a token that may, principals: {"+caller.Name+": {flows: [...]}}", "the token of %s may not start the flow %q", caller.Name, cmp.Or(name, "of the body"))
}

// answered is who answers: the caller, and whom the body names beside it.
func answered(by string, given *contract.Author) {
	if by != "" && given.By != by {
		given.By, given.OnBehalfOf = by, given.By
	}
}

// limits bound what each caller does at a time.
type limits struct {
	mu      sync.Mutex
	starts  map[string]*rate.Limiter
	streams map[string]int
}

// start counts a start of the caller's.
func (l *limits) start(caller *config.Token) error {
	if caller == nil || caller.Starts == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.starts[caller.Name]
	if of == nil {
		of = rate.NewLimiter(rate.Every(time.Minute/time.Duration(caller.Starts)), caller.Starts)
		l.starts[caller.Name] = of
	}
	if of.Allow() {
		return nil
	}
	return NewProblem(TooMany, "wait a moment; principals: {"+caller.Name+": {starts_per_minute: N}} allows more", "%s starts more than %d runs per minute", caller.Name, caller.Starts).with("Retry-After", "5")
}

// stream counts an event stream of the caller's until it has ended.
func (l *limits) stream(caller *config.Token) (ended func(), err error) {
	if caller == nil || caller.Streams == 0 {
		return func() {}, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams[caller.Name] >= caller.Streams {
		return nil, NewProblem(TooMany, "close another stream; principals: {"+caller.Name+": {event_streams: N}} allows more", "%s holds %d event streams, the most that it may", caller.Name, caller.Streams).with("Retry-After", "5")
	}
	l.streams[caller.Name]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.streams[caller.Name]--
	}, nil
}
