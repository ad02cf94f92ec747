package wait_test

import (
	"slices"
	"testing"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/wait"
	"weft/workflows/workflowtest"
)

// TestMessagesAreTakenWhileTheRunWaits has messages come while a run waits for a future, for a condition that they make true, and
// once it is cancelled. Others go on in their order.
func TestMessagesAreTakenWhileTheRunWaits(t *testing.T) {
	var log []string
	workflowtest.Run(t, func(root workflow.Context) {
		channel := workflow.NewBufferedChannel(root, 8)
		plain, cancel := workflow.WithCancel(root)
		var listeners wait.Listeners
		listeners.Add(func() {
			var m string
			for channel.ReceiveAsync(&m) {
				log = append(log, "took "+m)
			}
		}, channel)
		wait.Run(plain, &listeners, func(ctx workflow.Context) {
			future, set := workflow.NewFuture(ctx)
			wait.Go(ctx, "other", func(ctx workflow.Context) {
				_ = wait.Pause(ctx, time.Second, "a second")
				channel.SendAsync("a")
				_ = wait.Pause(ctx, time.Second, "a second")
				set.Set(1, nil)
				channel.SendAsync("b")
				_ = wait.Until(ctx, func() bool { return slices.Contains(log, "took b") })
				log = append(log, "other saw b")
				cancel()
			})
			var n int
			if err := wait.Get(ctx, future, &n); n != 1 || err != nil {
				t.Errorf("got %d, %v", n, err)
			}
			log = append(log, "has the future")
			if err := wait.Until(ctx, func() bool { return slices.Contains(log, "took b") }); err != nil {
				t.Error(err)
			}
			log = append(log, "saw b")
			channel.SendAsync("c")
			if err := wait.Until(ctx, func() bool { return false }); !contract.Cancelled(err) {
				t.Errorf("a cancelled wait gives %v", err)
			}
		})
	})
	want := []string{"took a", "has the future", "took b", "saw b", "other saw b", "took c"}
	if !slices.Equal(log, want) {
		t.Errorf("got  %q\nwant %q", log, want)
	}
}
