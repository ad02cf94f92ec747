package prepare

import (
	"encoding/json"
	"testing"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/runtime"
	"weft/workflows/workflowtest"
)

// TestReservedStateKeys checks that the initial state cannot set keys that would override the run's params or value.
func TestReservedStateKeys(t *testing.T) {
	for name, tc := range map[string]struct {
		values   *plan.Values
		key      string
		rejected bool
	}{
		"key of a param":      {&plan.Values{Named: true}, plan.InKey("x"), true},
		"key of the value":    {&plan.Values{}, contract.ValueKey, true},
		"another key":         {&plan.Values{Named: true}, "x", false},
		"flow without values": {nil, "$x", false},
	} {
		t.Run(name, func(t *testing.T) {
			workflowtest.Run(t, func(ctx workflow.Context) {
				p := &Preparation{Run: runtime.New(ctx)}
				p.Run.Flow = &plan.Flow{Limits: plan.DefaultLimits, Values: tc.values}
				_, err := p.Accept(&contract.RunInput{Input: "text", Params: json.RawMessage(`{"x": 1}`), State: map[string]json.RawMessage{tc.key: json.RawMessage("2")}})
				if (err != nil) != tc.rejected || err != nil && contract.FailureOf(err).Class != contract.ClassBadRequest {
					t.Errorf("error is %v", err)
				}
			})
		})
	}
}
