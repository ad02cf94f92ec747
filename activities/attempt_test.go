package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/tool"
	"weft/workflows/plan"
)

// TestAttempts counts the requests to a server over the attempts of a call. A call is repeated only if the tool is
// repeatable or the server declined the request.
func TestAttempts(t *testing.T) {
	reset := func(w http.ResponseWriter) { panic(http.ErrAbortHandler) }
	busy := func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	tests := map[string]struct {
		answers []func(http.ResponseWriter) // of the first attempts; nil: the worker dies during the attempt
		repeat  bool
		unknown bool
		calls   int32
	}{
		"answered":                          {calls: 1},
		"declined twice":                    {answers: []func(http.ResponseWriter){busy, busy}, calls: 3},
		"reset":                             {answers: []func(http.ResponseWriter){reset}, unknown: true, calls: 1},
		"declined, then reset":              {answers: []func(http.ResponseWriter){busy, reset}, unknown: true, calls: 2},
		"reset, repeatable":                 {answers: []func(http.ResponseWriter){reset}, repeat: true, calls: 2},
		"the worker died":                   {answers: []func(http.ResponseWriter){nil}, unknown: true},
		"declined, then the worker died":    {answers: []func(http.ResponseWriter){busy, nil}, unknown: true, calls: 1},
		"the worker died, repeatable":       {answers: []func(http.ResponseWriter){nil}, repeat: true, calls: 1},
		"the worker died twice, repeatable": {answers: []func(http.ResponseWriter){nil, nil}, repeat: true, calls: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var calls, attempts atomic.Int32
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				calls.Add(1)
				if n := int(attempts.Load()); n <= len(tc.answers) {
					tc.answers[n-1](w)
					return
				}
				fmt.Fprint(w, "done")
			}))
			defer web.Close()
			tools, err := tool.Open(tool.Settings{AllowLoopback: true})
			if err != nil {
				t.Fatal(err)
			}
			defer tools.Close()
			a := New(Deps{Tools: tools, Models: modelsOf(t, llm.Settings{Default: "script"})})
			var suite testsuite.WorkflowTestSuite
			suite.SetLogger(quiet{})
			env := suite.NewTestWorkflowEnvironment()
			env.RegisterActivityWithOptions(func(ctx context.Context, in contract.ToolInput) (*contract.ToolResult, error) {
				if n := int(attempts.Add(1)); n <= len(tc.answers) && tc.answers[n-1] == nil {
					return nil, temporal.NewApplicationError("the worker died", contract.ClassUnavailable)
				}
				return a.CallTool(ctx, in)
			}, activity.RegisterOptions{Name: contract.ActivityCallTool})
			env.ExecuteWorkflow(func(ctx workflow.Context) (string, error) {
				ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute, HeartbeatTimeout: 30 * time.Second})
				var out contract.ToolResult
				err := workflow.ExecuteActivity(ctx, contract.ActivityCallTool, contract.ToolInput{Name: "book", As: "book", Repeat: tc.repeat, Arguments: json.RawMessage(`{}`),
					Connection: plan.Connection{ID: "http:book", Kind: plan.ConnectionHTTP, URL: web.URL,
						Requests: []plan.Request{{Name: "book", Method: "POST", Path: "/bookings"}}}}).Get(ctx, &out)
				return string(out.Message), err
			})
			err = env.GetWorkflowError()
			if tc.unknown != (err != nil) || err != nil && !contract.FailureOf(err).OutcomeUnknown {
				t.Errorf("error %v, want an unknown outcome: %v", err, tc.unknown)
			}
			var text string
			if err == nil && (env.GetWorkflowResult(&text) != nil || !strings.Contains(text, "done")) {
				t.Errorf("result %q", text)
			}
			if n := calls.Load(); n != tc.calls {
				t.Errorf("%d calls, want %d", n, tc.calls)
			}
		})
	}
}
