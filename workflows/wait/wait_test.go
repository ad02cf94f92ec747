package wait_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/wait"
	"weft/workflows/workflowtest"
)

// TestMessagesWhileWaiting checks that messages are received while a run waits for a future, for a condition that they satisfy, and
// after its cancellation. Coroutines resume in their order.
func TestMessagesWhileWaiting(t *testing.T) {
	var log []string
	workflowtest.Run(t, func(root workflow.Context) {
		channel := workflow.NewBufferedChannel(root, 8)
		ctx, cancel := workflow.WithCancel(root)
		var listeners wait.Listeners
		listeners.Add(func() {
			var m string
			for channel.ReceiveAsync(&m) {
				log = append(log, "received "+m)
			}
		}, channel)
		wait.Run(ctx, &listeners, func(ctx workflow.Context) {
			future, set := workflow.NewFuture(ctx)
			wait.Go(ctx, "other", func(ctx workflow.Context) {
				_ = wait.Sleep(ctx, time.Second, "a second")
				channel.SendAsync("a")
				_ = wait.Sleep(ctx, time.Second, "a second")
				set.Set(1, nil)
				channel.SendAsync("b")
				_ = wait.Until(ctx, func() bool { return slices.Contains(log, "received b") })
				log = append(log, "other saw b")
				cancel()
			})
			var n int
			if err := wait.Get(ctx, future, &n); n != 1 || err != nil {
				t.Errorf("got %d, %v", n, err)
			}
			log = append(log, "future is ready")
			if err := wait.Until(ctx, func() bool { return slices.Contains(log, "received b") }); err != nil {
				t.Error(err)
			}
			log = append(log, "saw b")
			if err := wait.Until(ctx, func() bool { return false }); !contract.Cancelled(err) {
				t.Errorf("wait after cancellation: %v", err)
			}
			channel.SendAsync("c")
			disconnected, _ := workflow.NewDisconnectedContext(ctx)
			if err := wait.Until(disconnected, func() bool { return slices.Contains(log, "received c") }); err != nil {
				t.Error(err)
			}
		})
	})
	want := []string{"received a", "future is ready", "received b", "saw b", "other saw b", "received c"}
	if !slices.Equal(log, want) {
		t.Errorf("got  %q\nwant %q", log, want)
	}
}

// TestCoroutineOrder starts more coroutines than run before the SDK yields, half of them from other coroutines, and has each wait
// for the one that was started after it.
func TestCoroutineOrder(t *testing.T) {
	const n = 300
	var ended []int
	workflowtest.Run(t, func(root workflow.Context) {
		wait.Run(root, &wait.Listeners{}, func(ctx workflow.Context) {
			left := n
			for i := range n / 2 {
				wait.Go(ctx, "outer", func(ctx workflow.Context) {
					wait.Go(ctx, "inner", func(workflow.Context) { left-- })
					if err := wait.Until(ctx, func() bool { return left == i+1 }); err != nil {
						t.Error(err)
					}
					ended = append(ended, i)
					left--
				})
			}
			if err := wait.Until(ctx, func() bool { return left == 0 }); err != nil {
				t.Error(err)
			}
		})
	})
	want := make([]int, 0, n/2)
	for i := n/2 - 1; i >= 0; i-- {
		want = append(want, i)
	}
	if !slices.Equal(ended, want) {
		t.Errorf("coroutines ended in the order %v", ended)
	}
}

// TestUnwindAtEnd checks that, if coroutines wait when a run ends, their deferred functions are called, but not the code after the wait.
func TestUnwindAtEnd(t *testing.T) {
	var log []string
	workflowtest.Run(t, func(root workflow.Context) {
		wait.Run(root, &wait.Listeners{}, func(ctx workflow.Context) {
			for _, name := range []string{"a", "b"} {
				wait.Go(ctx, name, func(ctx workflow.Context) {
					defer func() { log = append(log, name) }()
					defer func() { _ = wait.Until(ctx, func() bool { return false }) }()
					_ = wait.Until(ctx, func() bool { return false })
					log = append(log, "after the wait")
				})
			}
			_ = wait.Sleep(ctx, time.Second, "a second")
		})
	})
	if want := []string{"a", "b"}; !slices.Equal(log, want) {
		t.Errorf("got %q, want %q", log, want)
	}
}

// TestCoroutinePanic checks that the panic of a coroutine, while another one waits, propagates to the workflow.
func TestCoroutinePanic(t *testing.T) {
	env := workflowtest.Env()
	env.ExecuteWorkflow(func(root workflow.Context) error {
		wait.Run(root, &wait.Listeners{}, func(ctx workflow.Context) {
			wait.Go(ctx, "waits", func(ctx workflow.Context) { _ = wait.Until(ctx, func() bool { return false }) })
			wait.Go(ctx, "panics", func(workflow.Context) { panic("no such thing") })
			_ = wait.Sleep(ctx, time.Second, "a second")
		})
		return nil
	})
	if err := env.GetWorkflowError(); err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("got %v", err)
	}
}
