package runtime

import (
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/transcript"
)

// Publish records the entries of threads that are not in history yet: those of two threads in the same event, if they fit.
func (r *Run) Publish(ctx workflow.Context, x *Execution, threads ...*transcript.Thread) error {
	out, err := r.Conversation.Records(contract.ThreadRecord{Execution: x.ID, Below: x.Below}, threads...)
	if err != nil {
		return err
	}
	for _, record := range out {
		raw, err := contract.Encode(record)
		if err == nil {
			err = r.Sizes.admit(ctx, "the conversation", len(raw))
		}
		if err != nil {
			return err
		}
		workflow.SideEffect(ctx, func(workflow.Context) any { return payload(raw, false) })
	}
	return nil
}

// PublishEntries publishes the flow's conversation if the run records all entries, even after a failure or a cancellation.
func (r *Run) PublishEntries(ctx workflow.Context, x *Execution) error {
	if r.Conversation.Thread == nil || !r.Shared.Entries {
		return nil
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	return r.Publish(ctx, x, r.Conversation.Thread)
}
