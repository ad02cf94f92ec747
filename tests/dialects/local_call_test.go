package dialects

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/tests/harness"
	"weft/workflows/runtime"
)

// TestPureFunction checks that functions are called in the workflow task if they are pure and their result is short, and otherwise in an activity.
func TestPureFunction(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", runtime.LocalBytes)
	tests := map[string]struct {
		options  []tool.FunctionOption
		retry    string
		result   string
		err      error
		activity bool
		calls    int32
	}{
		"pure":                             {options: []tool.FunctionOption{tool.Pure()}, result: "7", calls: 1},
		"an error for the model":           {options: []tool.FunctionOption{tool.Pure()}, result: "!no such number", err: errors.New("no such number"), calls: 1},
		"not pure":                         {result: "7", activity: true, calls: 1},
		"a long result":                    {options: []tool.FunctionOption{tool.Pure()}, result: long, activity: true, calls: 2},
		"retries disabled by the operator": {options: []tool.FunctionOption{tool.Pure()}, retry: "never", result: "7", activity: true, calls: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			var scheduled atomic.Bool
			p := harness.TestRun{
				Document: harness.OneNode(`,"tools":[{"name":"count"}]`), Script: `rules: [{turn: 1, call: {tool: count}}, {say: done}]`,
				Functions: []tool.Function{tool.Func("count", "", func(context.Context, struct{}) (string, error) {
					calls.Add(1)
					return tc.result, tc.err
				}, tc.options...)},
				ToolSettings: tool.Settings{MaxResultBytes: 1 << 20, Tools: map[string]string{"count": "here"}, Connections: map[string]tool.Connection{"here": {Transport: tool.TransportLocal, Retry: tc.retry}}},
				Prepare: func(env *testsuite.TestWorkflowEnvironment) {
					env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
						scheduled.Store(scheduled.Load() || info.ActivityType.Name == contract.ActivityCallTool)
					})
				},
			}.Execute(t)
			if p.Err != nil {
				t.Fatal(p.Err)
			}
			if got := strings.Join(toolReplies(t, p, "a#1"), "\n"); got != tc.result || calls.Load() != tc.calls || scheduled.Load() != tc.activity {
				t.Errorf("%d calls, activity scheduled: %v, result %.100q", calls.Load(), scheduled.Load(), got)
			}
		})
	}
}
