package runtime

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/schedule"
	"weft/workflows/workflowtest"
)

func TestStateQuerySize(t *testing.T) {
	env := workflowtest.Env()
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		r := New(ctx)
		var v contract.View
		for _, key := range []string{"a", "b", "c"} {
			workflowtest.Write(&v, "s", 1, key, strings.Repeat(key, contract.MaxPayload/2-100))
		}
		return r.Answer(ctx, func() contract.Status { return contract.Status{} }, func() contract.View { return v })
	})
	answer, err := env.QueryWorkflow(contract.QueryState)
	if err != nil {
		t.Fatal(err)
	}
	var state map[string]string
	if err := answer.Get(&state); err != nil || len(state) != 3 || state["c"] != "(972702 bytes, not shown here)" || len(state["a"]) != contract.MaxPayload/2-100 {
		t.Errorf("%d keys, c is %.50q, %v", len(state), state["c"], err)
	}
	if n, _ := contract.Size(state); n > contract.MaxPayload {
		t.Errorf("result of the state query is %d bytes", n)
	}
}

// TestEscapedQueryResults checks queries of a state and a plan whose characters are escaped to six bytes each in a payload.
func TestEscapedQueryResults(t *testing.T) {
	long := strings.Repeat("<", 200_000)
	env := workflowtest.Env()
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		r := New(ctx)
		r.Flow = &plan.Flow{Description: strings.Repeat(long, 2)}
		var v contract.View
		for i := range 3 {
			e, err := r.Transcript.Value(fmt.Sprint("k", i), json.RawMessage(`"`+long+`"`), contract.Stamp{})
			if err != nil {
				return err
			}
			schedule.SetEntry(&v, e)
		}
		return r.Answer(ctx, func() contract.Status { return contract.Status{} }, func() contract.View { return v })
	})
	answer, err := env.QueryWorkflow(contract.QueryState)
	if err != nil {
		t.Fatal(err)
	}
	var state map[string]string
	if err := answer.Get(&state); err != nil || state["k0"] != long || state["k2"] != "(1200002 bytes, not shown here)" {
		t.Errorf("%d keys, k2 is %.50q, %v", len(state), state["k2"], err)
	}
	if n, _ := contract.Size(state); n > contract.MaxPayload {
		t.Errorf("result of the state query is %d bytes", n)
	}
	if _, err := env.QueryWorkflow(contract.QueryPlan); err == nil || !strings.Contains(err.Error(), "the plan is 24") || !strings.Contains(err.Error(), "read it from the run's input") {
		t.Errorf("error of the plan query is %v", err)
	}
}

// TestPublishFails checks the error of a message that exceeds the size of a payload: it states the size.
func TestPublishFails(t *testing.T) {
	workflowtest.Run(t, func(ctx workflow.Context) {
		r := New(ctx)
		th := r.Conversation.Open()
		r.Transcript.Write(th, &contract.Message{Role: contract.RoleTool, Text: strings.Repeat("x", contract.MaxPayload)})
		err := r.Publish(ctx, &Execution{ID: "a#1"}, th)
		var failure *contract.Failure
		if !errors.As(err, &failure) || failure.Class != contract.ClassTooLarge || !strings.Contains(err.Error(), "the conversation is 1945") {
			t.Errorf("error is %v", err)
		}
	})
}
