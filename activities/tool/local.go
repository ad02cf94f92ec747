package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/activities/tool/delivery"
	"weft/workflows/plan"
)

type local struct {
	at *target
	// lifetime is done when the worker stops.
	lifetime context.Context
	cancel   context.CancelFunc
}

func dialLocal(ctx context.Context, at *target) (remote, error) {
	l := &local{at: at}
	// ctx bounds the dial, not the session.
	l.lifetime, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return l, nil
}

func (l *local) usable(bool) bool { return true }

func (l *local) close() { l.cancel() }

func (l *local) list(context.Context, *plan.Connection) ([]contract.ToolSpec, error) {
	var specs []contract.ToolSpec
	for _, f := range l.at.settings.Functions {
		spec := f.spec
		spec.Repeatable, spec.Pure = !f.noRetry, f.pure
		specs = append(specs, spec)
	}
	slices.SortFunc(specs, func(a, b contract.ToolSpec) int { return strings.Compare(a.Name, b.Name) })
	return specs, nil
}

// outcome is the outcome of a call of a function.
type outcome struct {
	Result
	err error
}

var errSlow = errors.New("the function's own timeout")

func (l *local) call(ctx context.Context, in contract.ToolInput, m Meta) (Result, error) {
	f := l.at.settings.function(in.Name)
	if f == nil {
		// The function was listed, so another worker of the task queue has it: this is a rolling deployment.
		return Result{}, l.at.failure(contract.ClassUnavailable,
			fmt.Sprintf("this worker has no function %q; it has: %s", in.Name, l.at.settings.functionNames()),
			"deploy the same build to all workers of the task queue")
	}
	if problem := f.validate(in.Arguments); problem != "" {
		return Result{Text: problem, Failed: true}, nil
	}
	run, cancel := context.WithCancelCause(context.WithValue(ctx, idempotencyKeyType{}, m.IdempotencyKey))
	defer cancel(nil)
	stop := context.AfterFunc(l.lifetime, func() { cancel(errStopping) })
	defer stop()
	if f.timeout > 0 {
		var stopTimer context.CancelFunc
		run, stopTimer = context.WithTimeoutCause(run, f.timeout, errSlow)
		defer stopTimer()
	}
	delivery.MarkSent(ctx, true)
	done := make(chan outcome, 1)
	go f.runGuarded(run, in, m, done)
	var o outcome
	select {
	case o = <-done:
	case <-run.Done():
		select {
		case o = <-done: // it completed at the same time
		default:
			o.err = run.Err()
		}
	}
	return l.reply(run, f, o)
}

// runGuarded calls the function, recovers its panics, and sends the outcome to done.
func (f *Function) runGuarded(ctx context.Context, in contract.ToolInput, m Meta, done chan<- outcome) {
	o := outcome{err: errors.New("the tool ended without a result")} // if it calls runtime.Goexit
	defer func() {
		if v := recover(); v != nil {
			o = outcome{err: fmt.Errorf("the tool panicked: %s", short(fmt.Sprint(v)))}
			if m.Panicked != nil {
				m.Panicked(v, debug.Stack())
			}
		}
		done <- o
	}()
	r, err := f.invoke(ctx, in.Arguments)
	o = outcome{r, err}
}

// reply converts an outcome to a result for the model, or to an error if the call was cancelled or timed out or the
// function returned a failure.
func (l *local) reply(run context.Context, f *Function, o outcome) (Result, error) {
	if o.err == nil {
		return o.Result, nil
	}
	if run.Err() != nil {
		if errors.Is(context.Cause(run), errSlow) {
			return Result{}, l.at.failure(contract.ClassTimeout, fmt.Sprintf("function %q: no result within %s", f.spec.Name, f.timeout.Round(time.Millisecond)),
				"raise its tool.Timeout if it needs longer")
		}
		return Result{}, context.Cause(run)
	}
	if failure, ok := errors.AsType[*contract.Failure](o.err); ok {
		return Result{}, failure
	}
	return Result{Text: cmp.Or(o.err.Error(), "the tool failed"), Failed: true}, nil
}

func (s *Settings) function(name string) *Function {
	if i := slices.IndexFunc(s.Functions, func(f Function) bool { return f.spec.Name == name }); i >= 0 {
		return &s.Functions[i]
	}
	return nil
}

func (s *Settings) functionNames() string {
	var names []string
	for _, f := range s.Functions {
		names = append(names, f.spec.Name)
	}
	slices.Sort(names)
	return cmp.Or(strings.Join(names, ", "), "none")
}

func (s *Settings) checkFunctions(p *problems) {
	seen := map[string]bool{}
	for _, f := range s.Functions {
		if f.invoke == nil {
			p.add("function %q: not created by tool.Func", f.spec.Name)
			continue
		}
		for _, problem := range f.problems {
			p.add("function %q: %s", f.spec.Name, problem)
		}
		p.addIf(seen[f.spec.Name], "function %q: duplicate name; rename one of the functions", f.spec.Name)
		seen[f.spec.Name] = true
	}
}
