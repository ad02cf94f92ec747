package runtime

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/wait"
)

// Budget tracks what a run has spent of its budget and what is reserved: an estimate for each model call in progress, and the budgets
// of child runs and branches. Reservations prevent parallel calls from exceeding the limits together.
type Budget struct {
	run      *Run
	Usage    contract.Usage
	Reserved contract.Budget
	// active counts the runs in progress that models have started.
	active int
	// starts are the start times of the last runs that models have started.
	starts []time.Time
}

// Bound reduces the run's budget to the worker's limits.
func (b *Budget) Bound(m *contract.BudgetLimits) error {
	if m == nil {
		return nil
	}
	declared := b.run.Shared.Budget
	limit := declared.Within(m.Most)
	b.run.Shared.Budget, b.run.Shared.Limited = limit, append(b.run.Shared.Limited, declared.Cuts(limit)...)
	if limit != nil && limit.Cost > 0 && !m.Priced {
		return contract.Failf(contract.ClassBadRequest, "set prices in the worker's settings, or limit calls or tokens instead",
			"the run's budget is a cost of %s, but the worker has no prices", money(limit.Cost))
	}
	return nil
}

// BeginTurn sets the budget of calls for a session's next turn.
func (b *Budget) BeginTurn() {
	if s := &b.run.Shared; s.TurnCalls > 0 {
		s.Budget = s.Budget.Within(contract.Budget{Calls: s.TurnCalls})
		s.Budget.Calls = b.Usage.Made() + b.Reserved.Calls + s.TurnCalls
	}
}

// estimate returns the expected usage of a call: the average so far, but at least the conversation's tokens, of four bytes each.
func (b *Budget) estimate(bytes int) contract.Budget {
	out := contract.Budget{Calls: 1, Tokens: bytes / 4}
	if n := b.Usage.Calls; n > 0 {
		out.Tokens = max(out.Tokens, (b.Usage.Input+b.Usage.Output)/n)
		out.Cost = b.Usage.Cost / int64(n)
	}
	return out
}

// remaining returns what is neither spent nor reserved. Values without a limit are meaningless.
func (b *Budget) remaining() contract.Budget {
	minus := func(a, b int64) int64 { return a - b }
	return b.run.Shared.Budget.Each(b.Usage.Spent(), minus).Each(b.Reserved, minus)
}

// reserve reserves the estimated usage of a call until release is called. It fails with class budget_exceeded.
func (b *Budget) reserve(x *Execution, bytes int) (release func(), err error) {
	limit := b.run.Shared.Budget
	if !limit.Bounds() {
		return func() {}, nil
	}
	need, remaining := b.estimate(bytes), b.remaining()
	stopped := ""
	if n := b.Usage.Stopped; n > 0 {
		stopped = fmt.Sprintf(" (%d of them stopped)", n)
	}
	exceeded := func(format string, args ...any) error {
		return b.run.Fail(x, contract.ClassBudget, "increase the run's budget, or reduce the work of its nodes",
			"the budget allows no other model call: %s; spent: %d calls%s, %d tokens and a cost of %s; reserved: %d calls and %d tokens",
			fmt.Sprintf(format, args...), b.Usage.Made(), stopped, b.Usage.Input+b.Usage.Output, money(b.Usage.Cost), b.Reserved.Calls, b.Reserved.Tokens)
	}
	switch {
	case limit.Calls != 0 && remaining.Calls < need.Calls:
		return nil, exceeded("none of %d calls is left", max(0, limit.Calls))
	case limit.Tokens != 0 && remaining.Tokens < max(1, need.Tokens):
		return nil, exceeded("%d of %d tokens are left, and the call is estimated at %d", max(0, remaining.Tokens), max(0, limit.Tokens), need.Tokens)
	case limit.Cost != 0 && b.Usage.Unpriced > 0:
		return nil, b.run.Fail(x, contract.ClassBudget, "add a price for the model to prices in the worker's settings",
			"the budget is a cost of %s, but %d calls went to a model without a price", money(max(0, limit.Cost)), b.Usage.Unpriced)
	case limit.Cost != 0 && remaining.Cost < max(1, need.Cost):
		return nil, exceeded("a cost of %s of %s is left, and the call is estimated at %s", money(max(0, remaining.Cost)), money(max(0, limit.Cost)), money(need.Cost))
	}
	return b.Earmark(need, 1), nil
}

// reserveRetry reserves a second call in case the answer is invalid, if the budget has one left after one for each of the other calls.
// once reports that it has not.
func (b *Budget) reserveRetry(others int) (release func(), once bool) {
	limit := b.run.Shared.Budget
	if !limit.Bounds() || limit.Calls == 0 {
		return func() {}, false
	}
	if b.remaining().Calls <= others {
		return func() {}, true
	}
	return b.Earmark(contract.Budget{Calls: 1}, 1), false
}

// withBudget reserves the estimated usage of a model call while it is in progress, including its waits.
func (r *Run) withBudget(next invoker) invoker {
	return func(ctx workflow.Context, c *Call) error {
		if c.Model == nil {
			return next(ctx, c)
		}
		release, err := r.Budget.reserve(c.At, c.Model.Bytes)
		if err != nil {
			return err
		}
		if c.Model.Once != nil {
			var releaseRetry func()
			releaseRetry, *c.Model.Once = r.Budget.reserveRetry(c.Model.Others)
			defer releaseRetry()
		}
		defer release()
		return next(ctx, c)
	}
}

// Charge adds what a child run has spent since it was resumed with snapshot, or in total if snapshot is nil.
func (b *Budget) Charge(snapshot *contract.RunSnapshot, out *contract.RunResult, err error) {
	usage := ChildUsage(out, err)
	switch {
	case usage == nil:
	case snapshot == nil:
		b.Usage.Add(*usage)
	default:
		b.Usage.Add(usage.Less(snapshot.Usage))
	}
}

// ChildUsage returns the total usage of a child run that has ended or yielded, nil if it is unknown.
func ChildUsage(out *contract.RunResult, err error) *contract.Usage {
	f := ChildFailure(err)
	switch {
	case f != nil:
		return f.Usage
	case err != nil || out.Yielded != nil && out.Yielded.Plan == nil: // yielded before it began
		return nil
	case out.Yielded != nil:
		return &out.Yielded.Usage
	}
	return &out.Usage
}

// ChildFailure returns the failure of a child run or a branch, with its usage and messages; nil if err is nil or a cancellation
// without details.
func ChildFailure(err error) *contract.Failure {
	if !contract.Cancelled(err) {
		return contract.FailureOf(err)
	}
	var cancelled *temporal.CanceledError
	var f contract.Failure
	if !errors.As(err, &cancelled) || !cancelled.HasDetails() || cancelled.Details(&f) != nil {
		return nil
	}
	return &f
}

// Earmark reserves an amount until release is called; with sign -1 it returns the amount.
func (b *Budget) Earmark(amount contract.Budget, sign int) (release func()) {
	b.Reserved = b.Reserved.Each(amount, func(a, b int64) int64 { return a + int64(sign)*b })
	return func() { b.Earmark(amount, -sign) }
}

// Share reserves a budget for a child run, one of n that start together, until release is called; nil means unlimited. A child
// that is resumed with snapshot keeps its budget, as far as it is still available.
func (b *Budget) Share(snapshot *contract.RunSnapshot, n int) (share *contract.Budget, release func()) {
	var allowance contract.Budget
	var spent contract.Usage
	switch {
	case snapshot != nil && snapshot.Shared.Budget.Bounds():
		// Others may have spent from its remaining budget since it yielded.
		allowance, spent = *snapshot.Shared.Budget.Less(snapshot.Usage).Within(b.Portion(1)), snapshot.Usage
	case b.run.Shared.Budget.Bounds():
		allowance = b.Portion(n)
	default:
		return nil, func() {}
	}
	release = b.Earmark(allowance.Each(contract.Budget{}, func(a, b int64) int64 { return max(a, b) }), 1)
	return allowance.Plus(spent), release
}

// exhausted is the limit of a child for which nothing is left; 0 would mean unlimited.
const exhausted = -1

// Portion returns an n-th of the remaining budget.
func (b *Budget) Portion(n int) contract.Budget {
	limit := b.run.Shared.Budget
	out := limit.Each(b.remaining(), func(bound, left int64) int64 {
		switch {
		case bound == 0:
			return 0
		case left < int64(n):
			return exhausted
		}
		return left / int64(n)
	})
	part := func(bound int) int { return max(min(bound, 1), bound/n) }
	out.AtOnce, out.PerSecond = part(limit.AtOnce), part(limit.PerSecond)
	return out
}

// MayStart reports whether a model may start another run.
func (b *Budget) MayStart() bool {
	return b.run.Shared.Budget == nil || b.run.Shared.Budget.Runs == 0 || b.remaining().Runs > 0
}

// Begin counts a run that a model starts as active until release is called. It waits until the limits allow another active run and,
// if isNew, another start.
func (b *Budget) Begin(ctx workflow.Context, isNew bool) (release func(), err error) {
	limit := b.run.Shared.Budget
	free := func() bool { return limit == nil || limit.AtOnce == 0 || b.active < limit.AtOnce }
	if err := wait.Until(ctx, func() bool { return free() || b.run.Policy.ShouldYield(ctx, 0) }); err != nil {
		return nil, err
	}
	if !free() {
		return nil, ErrYield
	}
	b.active++
	release = func() { b.active-- }
	if isNew {
		if err = b.CountRun(ctx); err != nil {
			release()
		}
	}
	return release, err
}

// CountRun counts the start of a run by a model, and waits while the limit of starts per second is reached.
func (b *Budget) CountRun(ctx workflow.Context) error {
	b.Usage.Runs++
	limit := b.run.Shared.Budget
	if limit == nil || limit.PerSecond == 0 {
		return nil
	}
	now, pause := workflow.Now(ctx), time.Duration(0)
	if n := len(b.starts) - limit.PerSecond; n >= 0 {
		b.starts = b.starts[n:]
		pause = max(0, b.starts[0].Add(time.Second).Sub(now))
	}
	b.starts = append(b.starts, now.Add(pause))
	if pause == 0 {
		return nil
	}
	return wait.Sleep(ctx, pause, "limit of run starts per second")
}

// Declare counts a run that the flow itself declares. It fails with class budget_exceeded.
func (b *Budget) Declare(x *Execution) error {
	if limit := b.run.Shared.Budget; limit != nil && limit.Declared != 0 && b.remaining().Declared < 1 {
		return b.run.Fail(x, contract.ClassBudget,
			"reduce the flow's branches, elements or subflows, or raise budget.declared_runs in the worker's settings",
			"the budget allows the flow no further run: %d of %d are started or reserved", b.Usage.Declared+b.Reserved.Declared, max(0, limit.Declared))
	}
	b.Usage.Declared++
	return nil
}

// money formats an amount in millionths.
func money(micros int64) string {
	return fmt.Sprintf("%d.%06d", micros/1_000_000, micros%1_000_000)
}
