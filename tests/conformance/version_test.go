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

// TestLaterVersionsAreTyped gives runs what a later build has made, in shapes that this build
// cannot know. A workflow task that fails would be tried again for ever.
func TestLaterVersionsAreTyped(t *testing.T) {
	t.Parallel()
	const later = `{"version": 2, "name": "x", "nodes": {"a": "another shape"}, "wonder": [1]}`
	tests := map[string]struct{ workflow, in, prepared, class, text string }{
		"a plan with fields of later":        {in: `{"v": 1, "flow": {"plan": {"version": 2, "wonder": 1}}, "model": "script"}`},
		"a plan of another shape":            {in: `{"v": 1, "flow": {"plan": ` + later + `}}`},
		"an agent in a plan":                 {in: `{"v": 1, "model": "script", "flow": {"plan": {"version": 1, "name": "x", "nodes": [], "edges": [], "agents": [{"version": 2, "name": "y"}]}}}`},
		"a sub-flow's plan":                  {in: `{"v": 1, "depth": 1, "flow": {"plan": ` + later + `}}`},
		"what a run goes on with":            {in: `{"v": 1, "flow": {}, "snapshot": {"plan": ` + later + `}}`},
		"a branch's plan":                    {workflow: contract.WorkflowBranch, in: `{"v": 1, "node": "a", "plan": ` + later + `}`},
		"a branch's plan in the known shape": {workflow: contract.WorkflowBranch, in: `{"v": 1, "node": "a", "plan": {"version": 2, "nodes": [{"id": "a"}]}, "order": [0]}`},
		"what a later worker compiles":       {in: `{"v": 1, "flow": {"name": "x"}}`, prepared: `{"plan": ` + later + `, "hash": "abc", "model": "script"}`},
		"the same in the known shape":        {in: `{"v": 1, "flow": {"name": "x"}}`, prepared: `{"plan": {"version": 2, "name": "x"}, "hash": "abc", "model": "script"}`},
		"an input of a later contract": {in: `{"v": 2, "flow": {"name": "x"}, "wonder": 1}`,
			class: contract.ClassBadRequest, text: "the input's v is 2; this build supports v 1"},
		"a branch's input of no shape": {workflow: contract.WorkflowBranch, in: `{"v": 1, "node": 7}`, class: contract.ClassBadRequest, text: "the branch's input: "},
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
					t.Errorf("status is %q, error %v", status.Status, err)
				}
			}
			if harness.FailureClass(f) != tc.class || !strings.HasPrefix(f.Error(), tc.text) {
				t.Errorf("the run ended with %v, want %s: %s…", f, tc.class, tc.text)
			}
		})
	}
}

// TestWhatOnlyRunsSet starts runs with fields that the interpreter gives the runs below it.
func TestWhatOnlyRunsSet(t *testing.T) {
	t.Parallel()
	for field, value := range map[string]string{"depth": `3`, "owner": `"somebody"`, "script_ref": `{}`} {
		env := harness.NewGraphEnv(t, harness.Fakes{})
		env.ExecuteWorkflow(contract.WorkflowFlow, json.RawMessage(`{"v": 1, "model": "script", "flow": {"name": "x"}, "`+field+`": `+value+`}`))
		f := contract.FailureOf(env.GetWorkflowError())
		if harness.FailureClass(f) != contract.ClassBadRequest || !strings.HasPrefix(f.Text, field+" is set") {
			t.Errorf("%s: the run ended with %v", field, f)
		}
	}
}
