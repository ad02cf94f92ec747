package runtime

import (
	"testing"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/wait"
	"weft/workflows/workflowtest"
)

// TestReceiveSignalsAtEnd checks that a run receives a signal that arrives in its last workflow task, after its last wait.
func TestReceiveSignalsAtEnd(t *testing.T) {
	workflowtest.Run(t, func(ctx workflow.Context) {
		r := New(ctx)
		r.Requests.Listen(ctx, func(ctx workflow.Context) {
			if err := wait.Sleep(ctx, time.Second, "before"); err != nil {
				t.Error(err)
			}
			p, err := converter.GetDefaultDataConverter().ToPayloads(contract.Inbound{Seq: 4, Text: "to all"})
			if err != nil {
				t.Error(err)
			}
			steer, ok := r.Requests.steer.(workflow.Channel)
			if !ok || !steer.SendAsync(p) {
				t.Fatal("channel rejects the signal")
			}
			r.Requests.ReceiveSignals(ctx)
			if len(r.Requests.UnreadMessages) != 1 || r.Requests.UnreadMessages[0].Text != "to all" {
				t.Errorf("unread messages = %+v", r.Requests.UnreadMessages)
			}
		})
	})
}
