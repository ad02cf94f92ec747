package subsession

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/runtime"
	"weft/workflows/schedule/scheduletest"
	"weft/workflows/wait"
	"weft/workflows/workflowtest"
)

// childStart is the future of a child whose start has succeeded, or failed with err.
type childStart struct {
	workflow.ChildWorkflowFuture
	err error
}

func (c childStart) GetChildWorkflowExecution() workflow.Future { return execution{err: c.err} }

type execution struct {
	workflow.Future
	err error
}

func (e execution) IsReady() bool                   { return true }
func (e execution) Get(workflow.Context, any) error { return e.err }

// TestResumeWhileIDInUse checks a prompt to a session that is being restarted because its workflow id was in use.
func TestResumeWhileIDInUse(t *testing.T) {
	inUse := &temporal.ChildWorkflowExecutionAlreadyStartedError{}
	for name, tc := range map[string]struct {
		restart func(c *childSession)
		want    string
	}{
		"restarted": {restart: func(c *childSession) { c.run = runtime.StartedChild(childStart{}, "c") }},
		"ended":     {restart: func(c *childSession) { c.run, c.Closed = nil, true }, want: `{"error":"Session 'c' has ended"}`},
	} {
		t.Run(name, func(t *testing.T) {
			env := workflowtest.Env()
			sent := 0
			env.OnSignalExternalWorkflow(mock.Anything, "c", mock.Anything, contract.UpdatePrompt, mock.Anything).Return(
				func(_, _, _, _ string, _ any) error { sent++; return nil })
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				r := runtime.New(ctx)
				r.Flow = scheduletest.Sketch("START>a a>END")
				c := &childSession{ChildSession: contract.ChildSession{ChildStatus: contract.ChildStatus{ID: "c"}}, run: runtime.StartedChild(childStart{err: inUse}, "c")}
				b := New(r, nil, nil)
				b.list, b.ctx = []*childSession{c}, ctx
				workflow.Go(ctx, func(ctx workflow.Context) {
					_ = wait.Sleep(ctx, time.Second/2, "restart")
					tc.restart(c)
				})
				out, err := b.Do(ctx, &Call{Tool: plan.SessionResume, Args: json.RawMessage(`{"session_id":"c","parameters":{"prompt":"go on"}}`)})
				if err != nil || out.Reply.Text != tc.want || (out.Order == nil) != (tc.want != "") {
					t.Errorf("got %+v, %v", out, err)
				}
				return nil
			})
			if err := env.GetWorkflowError(); err != nil {
				t.Fatal(err)
			}
			if sent != 1 && tc.want == "" {
				t.Errorf("%d signals sent, want 1", sent)
			}
		})
	}
}
