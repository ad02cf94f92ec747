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

// Budget is what a run has spent of its budget, and what of it is Reserved: for calls of models, by an estimate until they have
// told what they took, and for runs and branches below, which have budgets of their own. So parallel calls cannot pass the
// bound together.
type Budget struct {
	run      *Run
	Usage    contract.Usage
	Reserved contract.Budget
	// runs counts the runs under way that models started.
	runs int
	// starts are the times of the last runs that models started.
	starts []time.Time
}

// Bound bounds the run's budget by what the worker allows.
func (b *Budget) Bound(m *contract.BudgetLimits) error {
	if m == nil {
		return nil
	}
	own := b.run.Shared.Budget
	limit := own.Within(m.Most)
	b.run.Shared.Budget, b.run.Shared.Limited = limit, append(b.run.Shared.Limited, own.Cuts(limit)...)
	if limit != nil && limit.Cost > 0 && !m.Priced {
		return contract.Failf(contract.ClassBadRequest, "set prices in the worker's settings, or bound calls or tokens instead",
			"the run's budget is a cost of %s, and the worker has no prices to count it by", money(limit.Cost))
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

// estimate is what a call is expected to take: the average so far, and at least the tokens of the conversation, four bytes each.
func (b *Budget) estimate(bytes int) contract.Budget {
	out := contract.Budget{Calls: 1, Tokens: bytes / 4}
	if n := b.Usage.Calls; n > 0 {
		out.Tokens = max(out.Tokens, (b.Usage.Input+b.Usage.Output)/n)
		out.Cost = b.Usage.Cost / int64(n)
	}
	return out
}

// left is what is neither spent nor Reserved; where nothing bounds, it means nothing.
func (b *Budget) left() contract.Budget {
	minus := func(a, b int64) int64 { return a - b }
	return b.run.Shared.Budget.Each(b.Usage.Spent(), minus).Each(b.Reserved, minus)
}

// reserve reserves what a call may need, until release. Its error is a [contract.Failure] of class budget_exceeded.
func (b *Budget) reserve(x *Execution, bytes int) (release func(), err error) {
	limit := b.run.Shared.Budget
	if !limit.Bounds() {
		return func() {}, nil
	}
	need, left := b.estimate(bytes), b.left()
	stopped := ""
	if n := b.Usage.Stopped; n > 0 {
		stopped = fmt.Sprintf(" (%d of them stopped)", n)
	}
	over := func(format string, args ...any) error {
		return b.run.Fail(x, contract.ClassBudget, "give the run a larger budget, or its nodes less to do",
			"the budget allows no other model call: %s; spent: %d calls%s, %d tokens and a cost of %s; reserved: %d calls and %d tokens",
			fmt.Sprintf(format, args...), b.Usage.Made(), stopped, b.Usage.Input+b.Usage.Output, money(b.Usage.Cost), b.Reserved.Calls, b.Reserved.Tokens)
	}
	switch {
	case limit.Calls != 0 && left.Calls < need.Calls:
		return nil, over("none of %d calls is left", max(0, limit.Calls))
	case limit.Tokens != 0 && left.Tokens < max(1, need.Tokens):
		return nil, over("%d of %d tokens are left, and the call is estimated at %d", max(0, left.Tokens), max(0, limit.Tokens), need.Tokens)
	case limit.Cost != 0 && b.Usage.Unpriced > 0:
		return nil, b.run.Fail(x, contract.ClassBudget, "add a price for the model to prices in the worker's settings",
			"the budget is a cost of %s, and %d calls went to a model without a price", money(max(0, limit.Cost)), b.Usage.Unpriced)
	case limit.Cost != 0 && left.Cost < max(1, need.Cost):
		return nil, over("a cost of %s of %s is left, and the call is estimated at %s", money(max(0, left.Cost)), money(max(0, limit.Cost)), money(need.Cost))
	}
	return b.Earmark(need, 1), nil
}

// reserveSecond reserves one more call for an answer that cannot be read, if the budget has one even when each of so many others
// has one. It reports once where there is none.
func (b *Budget) reserveSecond(others int) (release func(), once bool) {
	limit := b.run.Shared.Budget
	if !limit.Bounds() || limit.Calls == 0 {
		return func() {}, false
	}
	if b.left().Calls <= others {
		return func() {}, true
	}
	return b.Earmark(contract.Budget{Calls: 1}, 1), false
}

// budgeted reserves what a call of a model may spend for as long as it takes, waits included.
func (r *Run) budgeted(next invoker) invoker {
	return func(ctx workflow.Context, c *Call) error {
		if c.Model == nil {
			return next(ctx, c)
		}
		release, err := r.Budget.reserve(c.At, c.Model.Bytes)
		if err != nil {
			return err
		}
		if c.Model.Once != nil {
			var more func()
			more, *c.Model.Once = r.Budget.reserveSecond(c.Model.Others)
			defer more()
		}
		defer release()
		return next(ctx, c)
	}
}

// Charge counts what a run below this one has spent since it went on with carry.
func (b *Budget) Charge(carry *contract.RunSnapshot, out *contract.RunResult, err error) {
	all := SpentIn(out, err)
	switch {
	case all == nil:
	case carry == nil:
		b.Usage.Add(*all)
	default:
		b.Usage.Add(all.Less(carry.Usage))
	}
}

// SpentIn is what a run below has spent in all, whether it ended or came back; nil where it does not say.
func SpentIn(out *contract.RunResult, err error) *contract.Usage {
	f := FailedBelow(err)
	switch {
	case f != nil:
		return f.Usage
	case err != nil || out.Yielded != nil && out.Yielded.Plan == nil: // or it had not begun
		return nil
	case out.Yielded != nil:
		return &out.Yielded.Usage
	}
	return &out.Usage
}

// FailedBelow is the failure of a run or a branch below, with what it had done; nil where there is none, or a cancelled one
// does not say.
func FailedBelow(err error) *contract.Failure {
	if !contract.Cancelled(err) {
		return contract.FailureOf(err)
	}
	var stopped *temporal.CanceledError
	var f contract.Failure
	if !errors.As(err, &stopped) || !stopped.HasDetails() || stopped.Details(&f) != nil {
		return nil
	}
	return &f
}

// Earmark reserves an amount until release; with a negative sign it gives it back.
func (b *Budget) Earmark(part contract.Budget, sign int) (release func()) {
	b.Reserved = b.Reserved.Each(part, func(a, b int64) int64 { return a + int64(sign)*b })
	return func() { b.Earmark(part, -sign) }
}

// Share reserves the allowance of a run below, one of n that start together, until release; nil where nothing bounds. One that
// goes on with carry has what it had.
func (b *Budget) Share(carry *contract.RunSnapshot, n int) (part *contract.Budget, release func()) {
	var left contract.Budget
	var spent contract.Usage
	switch {
	case carry != nil && carry.Shared.Budget.Bounds():
		// Others may have spent of what it has left since it came back.
		left, spent = *carry.Shared.Budget.Less(carry.Usage).Within(b.Portion(1)), carry.Usage
	case b.run.Shared.Budget.Bounds():
		left = b.Portion(n)
	default:
		return nil, func() {}
	}
	release = b.Earmark(left.Each(contract.Budget{}, func(a, b int64) int64 { return max(a, b) }), 1)
	return left.Plus(spent), release
}

// none is the allowance of a child for which nothing is left: 0 would be no bound.
const none = -1

// Portion is the n-th part of what is left.
func (b *Budget) Portion(n int) contract.Budget {
	limit := b.run.Shared.Budget
	out := limit.Each(b.left(), func(bound, left int64) int64 {
		switch {
		case bound == 0:
			return 0
		case left < int64(n):
			return none
		}
		return left / int64(n)
	})
	part := func(bound int) int { return max(min(bound, 1), bound/n) }
	out.AtOnce, out.PerSecond = part(limit.AtOnce), part(limit.PerSecond)
	return out
}

// MayStart reports whether a model may start another run.
func (b *Budget) MayStart() bool {
	return b.run.Shared.Budget == nil || b.run.Shared.Budget.Runs == 0 || b.left().Runs > 0
}

// Begin counts a run that a model starts, until release. It waits until the run may start and be under way beside others.
func (b *Budget) Begin(ctx workflow.Context, fresh bool) (release func(), err error) {
	limit := b.run.Shared.Budget
	free := func() bool { return limit == nil || limit.AtOnce == 0 || b.runs < limit.AtOnce }
	if err := wait.Until(ctx, func() bool { return free() || b.run.Policy.ShouldYield(ctx, 0) }); err != nil {
		return nil, err
	}
	if !free() {
		return nil, ErrYield
	}
	b.runs++
	release = func() { b.runs-- }
	if fresh {
		if err = b.CountRun(ctx); err != nil {
			release()
		}
	}
	return release, err
}

// CountRun counts a run that a model starts, and waits while as many as allowed have started in the last second.
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
	return wait.Pause(ctx, pause, "too many runs start")
}

// Declare counts a run that the flow itself declares. Its error is a [contract.Failure] of class budget_exceeded.
func (b *Budget) Declare(x *Execution) error {
	if limit := b.run.Shared.Budget; limit != nil && limit.Declared != 0 && b.left().Declared < 1 {
		return b.run.Fail(x, contract.ClassBudget,
			"let the flow declare fewer branches, elements or flows, or raise budget.declared_runs in the worker's settings",
			"the budget allows the flow no other run: %d of %d are started or reserved", b.Usage.Declared+b.Reserved.Declared, max(0, limit.Declared))
	}
	b.Usage.Declared++
	return nil
}

// money renders millionths.
func money(micros int64) string {
	return fmt.Sprintf("%d.%06d", micros/1_000_000, micros%1_000_000)
}
