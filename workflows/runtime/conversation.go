package runtime

import (
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
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
