package runtime

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/transcript"
)

// Publish writes into history what threads have that it does not name yet: that of two in the same event, if there is room.
func (r *Run) Publish(ctx workflow.Context, x *Execution, threads ...*transcript.Thread) error {
	out, err := r.Conversation.Records(contract.ThreadRecord{Execution: x.ID, Below: x.Below}, threads...)
	if err != nil {
		return err
	}
	for _, one := range out {
		raw, err := contract.Encode(one)
		if err == nil {
			err = r.Sizes.admit(ctx, "what was said", len(raw))
		}
		if err != nil {
			return err
		}
		workflow.SideEffect(ctx, func(workflow.Context) any { return payload(raw, false) })
	}
	return nil
}

// PublishEntries publishes the flow's conversation where all its entries go into history, also those of what failed or was
// cancelled.
func (r *Run) PublishEntries(ctx workflow.Context, x *Execution) error {
	if r.Conversation.Thread == nil || !r.Shared.Entries {
		return nil
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	return r.Publish(ctx, x, r.Conversation.Thread)
}

// Spend counts against the flow's meter.
func (r *Run) Spend(x *Execution, n int) error {
	c, m := &r.Conversation, r.Flow.Meter
	if m == nil || n == 0 {
		return nil
	}
	c.Spent += n
	if cost := x.Node.Cost; cost != nil && cost.Forked {
		c.Fork(x.Node.ID).Spent += n
	}
	return r.withinMeter(x, m.Base-1)
}

// SpendEnd counts the run's last step, where an edge to its end is taken.
func (r *Run) SpendEnd(x *Execution, taken []int) error {
	if r.Flow.Meter == nil || !slices.ContainsFunc(taken, func(e int) bool { return r.Flow.Edges[e].To == plan.End }) {
		return nil
	}
	return r.withinMeter(x, r.Flow.Meter.Base)
}

// withinMeter fails where the run has spent more than its flow's meter allows; base is what it spends beside its nodes.
func (r *Run) withinMeter(x *Execution, base int) error {
	m := r.Flow.Meter
	if r.Conversation.SpentFor(x.Node)+base <= m.Limit {
		return nil
	}
	return r.Fail(x, contract.ClassStepLimit, "give the loop a condition that ends it, or raise the flow's limit", "%s", m.Text)
}
