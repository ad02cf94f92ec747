package conformance

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"go.temporal.io/sdk/activity"

	"weft/activities/contract"
	"weft/tests/harness"
)

// TestLaterVersions checks that runs with inputs from a later build, in shapes that this build does not
// know, fail with a typed error. A failed workflow task would be retried forever.
func TestLaterVersions(t *testing.T) {
	t.Parallel()
	const later = `{"version": 2, "name": "x", "nodes": {"a": "another shape"}, "wonder": [1]}`
	tests := map[string]struct{ workflow, in, prepared, class, text string }{
		"a plan with unknown fields":         {in: `{"v": 1, "flow": {"plan": {"version": 2, "wonder": 1}}, "model": "script"}`},
		"a plan with a different shape":      {in: `{"v": 1, "flow": {"plan": ` + later + `}}`},
		"an agent in a plan":                 {in: `{"v": 1, "model": "script", "flow": {"plan": {"version": 1, "name": "x", "nodes": [], "edges": [], "agents": [{"version": 2, "name": "y"}]}}}`},
		"a sub-flow's plan":                  {in: `{"v": 1, "depth": 1, "flow": {"plan": ` + later + `}}`},
		"a snapshot's plan":                  {in: `{"v": 1, "flow": {}, "snapshot": {"plan": ` + later + `}}`},
		"a branch's plan":                    {workflow: contract.WorkflowBranch, in: `{"v": 1, "node": "a", "plan": ` + later + `}`},
		"a branch's plan with a known shape": {workflow: contract.WorkflowBranch, in: `{"v": 1, "node": "a", "plan": {"version": 2, "nodes": [{"id": "a"}]}, "order": [0]}`},
		"a plan compiled by a later worker":  {in: `{"v": 1, "flow": {"name": "x"}}`, prepared: `{"plan": ` + later + `, "hash": "abc", "model": "script"}`},
		"a compiled plan with a known shape": {in: `{"v": 1, "flow": {"name": "x"}}`, prepared: `{"plan": {"version": 2, "name": "x"}, "hash": "abc", "model": "script"}`},
		"an input with a later version": {in: `{"v": 2, "flow": {"name": "x"}, "wonder": 1}`,
			class: contract.ClassBadRequest, text: "the input's v is 2; this build supports v 1"},
		"an invalid branch input": {workflow: contract.WorkflowBranch, in: `{"v": 1, "node": 7}`, class: contract.ClassBadRequest, text: "the branch's input: "},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			env := harness.NewGraphEnv(t, harness.Fakes{})
			env.RegisterActivityWithOptions(func(context.Context, json.RawMessage) (json.RawMessage, error) {
				return json.RawMessage(tc.prepared), nil
			}, activity.RegisterOptions{Name: contract.ActivityCompileFlow})
			if tc.workflow == "" {
				tc.workflow = contract.WorkflowFlow
			}
			if tc.class == "" {
				tc.class, tc.text = contract.ClassPlanVersion, "the plan's version is 2, but this build supports at most 1; "
			}
			env.ExecuteWorkflow(tc.workflow, json.RawMessage(tc.in))
			f := contract.FailureOf(env.GetWorkflowError())
			if tc.workflow == contract.WorkflowFlow {
				var status contract.Status
				if v, err := env.QueryWorkflow(contract.QueryStatus); err != nil || v.Get(&status) != nil || status.Status != contract.StatusFailed {
					t.Errorf("status = %q, error = %v", status.Status, err)
				}
			}
			if harness.FailureClass(f) != tc.class || !strings.HasPrefix(f.Error(), tc.text) {
				t.Errorf("error = %v, want %s: %s…", f, tc.class, tc.text)
			}
		})
	}
}

// TestInternalInputFields checks that clients cannot set input fields that the interpreter sets for child workflows.
func TestInternalInputFields(t *testing.T) {
	t.Parallel()
	for field, value := range map[string]string{"depth": `3`, "owner": `"somebody"`, "script_ref": `{}`} {
		env := harness.NewGraphEnv(t, harness.Fakes{})
		env.ExecuteWorkflow(contract.WorkflowFlow, json.RawMessage(`{"v": 1, "model": "script", "flow": {"name": "x"}, "`+field+`": `+value+`}`))
		f := contract.FailureOf(env.GetWorkflowError())
		if harness.FailureClass(f) != contract.ClassBadRequest || !strings.HasPrefix(f.Text, field+" is set") {
			t.Errorf("%s: error = %v", field, f)
		}
	}
}
