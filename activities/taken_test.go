package activities

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"weft/activities/contract"
)

// TestAnswersUnderWay checks that the next attempt counts the usage of an answer during which an attempt was lost.
func TestAnswersUnderWay(t *testing.T) {
	before := contract.Usage{Cut: 1, Input: 100, Output: 3}
	now := contract.Usage{Cut: 1, Input: 40, Output: 2}
	both := contract.Usage{Cut: 2, Input: 140, Output: 5}
	cutOff := &contract.Failure{Class: contract.ClassUnavailable, Usage: &now}
	for name, tt := range map[string]struct {
		does func(h *heartbeats)
		want *contract.Usage
	}{
		"no answer started":        {func(*heartbeats) {}, &before},
		"an answer started":        {func(h *heartbeats) { h.setInFlight(contract.Usage{Cut: 1}); h.setInFlight(now) }, &both},
		"the answer completes":     {func(h *heartbeats) { h.setInFlight(now); h.settle(nil) }, nil},
		"the answer is cut":        {func(h *heartbeats) { h.setInFlight(now); _ = h.withTruncated(cutOff) }, &both},
		"two answers are cut":      {func(h *heartbeats) { _ = h.withTruncated(cutOff); h.setInFlight(now) }, &contract.Usage{Cut: 3, Input: 180, Output: 7}},
		"the attempt times out":    {func(h *heartbeats) { h.setInFlight(now); _ = h.withTruncated(context.DeadlineExceeded) }, &both},
		"an error without answers": {func(h *heartbeats) { _ = h.withTruncated(&contract.Failure{Class: contract.ClassUnavailable}) }, &before},
	} {
		t.Run(name, func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			suite.SetLogger(quiet{})
			env := suite.NewTestActivityEnvironment()
			env.SetHeartbeatDetails(contract.Heartbeat{Attempt: 1, Spent: &before})
			a := New(Deps{})
			env.RegisterActivityWithOptions(func(ctx context.Context) (*contract.Usage, error) {
				h := a.heartbeat(ctx)
				defer h.stop()
				tt.does(h)
				return h.lostUsage(), nil
			}, activity.RegisterOptions{Name: "work"})
			v, err := env.ExecuteActivity("work")
			if err != nil {
				t.Fatal(err)
			}
			var got *contract.Usage
			if v.HasValue() {
				if err := v.Get(&got); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestUsageOfTimeouts checks that a call whose last attempt timed out counts the usage of truncated answers in its last heartbeat.
func TestUsageOfTimeouts(t *testing.T) {
	spent := contract.Usage{Cut: 2, Input: 140}
	late := temporal.NewHeartbeatTimeoutError(contract.Heartbeat{Attempt: 3, Spent: &spent})
	f := contract.FailureOf(late)
	if diff := cmp.Diff(&spent, f.Usage); diff != "" || f.Class != contract.ClassTimeout {
		t.Errorf("%+v (-want +got):\n%s", f, diff)
	}
	for _, err := range []error{temporal.NewHeartbeatTimeoutError(), temporal.NewHeartbeatTimeoutError(contract.Heartbeat{})} {
		if f := contract.FailureOf(err); f.Usage != nil || f.Class != contract.ClassTimeout {
			t.Errorf("%v: %+v", err, f)
		}
	}
	if f := contract.FailureOf(errors.New("x")); f.Usage != nil {
		t.Error(f)
	}
}

// TestHeartbeatUsage checks that heartbeats contain the usage of the current answer.
func TestHeartbeatUsage(t *testing.T) {
	took := contract.Usage{Cut: 1, Input: 7}
	all := watchedFor(t, 500*time.Millisecond, nil, func(tell, _ func(string), seen func() []contract.Heartbeat) {
		tell("text")
		for end := time.Now().Add(time.Minute); len(seen()) == 0 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		}
	}, func(h *heartbeats) { h.setInFlight(took) })
	if len(all) == 0 || !cmp.Equal(all[0].Spent, &took) {
		t.Errorf("%+v", all)
	}
}
