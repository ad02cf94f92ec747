package workflows

import (
	"testing"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// TestHearBeforeListeners takes in a signal that comes in the task in which a run ends, before
// the coroutine that listens goes on.
func TestHearBeforeListeners(t *testing.T) {
	inWorkflow(t, func(ctx workflow.Context) {
		r := newRun(ctx)
		if err := workflow.Sleep(ctx, time.Second); err != nil { // the listener waits by now
			t.Error(err)
		}
		p, err := converter.GetDefaultDataConverter().ToPayloads(contract.Inbound{Seq: 4, Text: "to all"})
		if err != nil {
			t.Error(err)
		}
		steer, ok := r.steer.(workflow.Channel)
		if !ok || !steer.SendAsync(p) {
			t.Fatal("the channel takes nothing")
		}
		r.hear()
		if len(r.inbox) != 1 || r.inbox[0].Text != "to all" {
			t.Errorf("heard %+v", r.inbox)
		}
	})
}
