package limiter

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// replies collects the results of Updates.
type replies struct {
	t   *testing.T
	got []*contract.LimitReply
}

func (a *replies) Accept()          {}
func (a *replies) Reject(err error) { a.t.Error(err) }
func (a *replies) Complete(v any, err error) {
	out, _ := v.(*contract.LimitReply)
	if a.got = append(a.got, out); err != nil {
		a.t.Error(err)
	}
}

func TestLimiterEndsWhenIdle(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	a := &replies{t: t}
	n := 0
	reserve := func(key string) func() {
		return func() {
			n++
			env.UpdateWorkflow(contract.UpdateReserve, fmt.Sprint(n), a, contract.LimitRequest{Worker: "w", Requests: 1, Calls: []contract.LimitedCall{{Key: key}}})
		}
	}
	env.RegisterDelayedCallback(reserve("a"), time.Second)
	env.RegisterDelayedCallback(reserve("b"), 2*time.Second)
	env.RegisterDelayedCallback(reserve("b"), 70*time.Second)
	env.ExecuteWorkflow(Limiter, contract.LimiterInput{})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	if len(a.got) != 3 || a.got[0].Turns[0].Ask || !a.got[1].Turns[0].Ask || a.got[2].Turns[0].Ask {
		t.Errorf("replies = %+v", a.got)
	}
}

func TestLimiterContinuesAsNew(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	a := &replies{t: t}
	for i := range maxUpdates {
		env.RegisterDelayedCallback(func() {
			env.UpdateWorkflow(contract.UpdateReserve, time.Duration(i).String(), a, contract.LimitRequest{Worker: "w", Requests: 60})
		}, time.Duration(i+1)*time.Second)
	}
	env.ExecuteWorkflow(Limiter, contract.LimiterInput{})
	var next *workflow.ContinueAsNewError
	if err := env.GetWorkflowError(); !errors.As(err, &next) {
		t.Fatalf("workflow error = %v, want continue-as-new", err)
	}
}

func TestLimiterEndsWithoutLimits(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	a := &replies{t: t}
	env.RegisterDelayedCallback(func() {
		env.UpdateWorkflow(contract.UpdateReserve, "1", a, contract.LimitRequest{Worker: "w", Calls: []contract.LimitedCall{{Key: "a"}}})
	}, time.Second)
	env.ExecuteWorkflow(Limiter, contract.LimiterInput{})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	if len(a.got) != 1 || !a.got[0].Free || a.got[0].Turns[0].Ask {
		t.Errorf("replies = %+v", a.got)
	}
}
