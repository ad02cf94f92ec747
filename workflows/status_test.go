package workflows

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"weft/workflows/workflowtest"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/inbox"
	"weft/workflows/runtime"
	"weft/workflows/session"
)

// TestStatusSize checks that the status of runs with many long requests fits a payload. The text consists of characters
// that are escaped to six bytes each in JSON.
func TestStatusSize(t *testing.T) {
	long := strings.Repeat("<", 8000)
	tests := map[string]func(f *flowRun){
		"questions": func(f *flowRun) {
			for i := range 300 {
				f.inbox.Requests = append(f.inbox.Requests, contract.Request{ID: fmt.Sprint("q", i), Kind: contract.RequestMessage, Text: long})
			}
		},
		"confirmations": func(f *flowRun) {
			for i := range 300 {
				f.inbox.Requests = append(f.inbox.Requests, contract.Request{ID: fmt.Sprint("q", i), Kind: contract.RequestConfirm, Arguments: json.RawMessage(`{"x":"` + long + `"}`)})
			}
		},
		"everything": func(f *flowRun) {
			for i := range 300 {
				f.inbox.Requests = append(f.inbox.Requests, contract.Request{ID: fmt.Sprint("q", i), Text: long})
				f.run.Requests.UnreadMessages = append(f.run.Requests.UnreadMessages, contract.Inbound{Text: strings.Repeat("<", runtime.MaxName)})
				f.conflicts = append(f.conflicts, contract.Conflict{Key: "k", Value: json.RawMessage(`"` + long[:1000] + `"`)})
			}
			f.trace = traceWithAnswers(1000, 500)
		},
	}
	for name, fill := range tests {
		t.Run(name, func(t *testing.T) {
			env := workflowtest.Env()
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				f := singleNodeRun(ctx, 0, 0)
				f.inbox = inbox.New(f.run, f)
				f.pub.Status = contract.StatusWaiting
				f.session = session.New(f.run, f, &contract.RunInput{})
				fill(f)
				return f.run.Answer(ctx, f.status, f.combinedView)
			})
			v, err := env.QueryWorkflow(contract.QueryStatus)
			if err != nil {
				t.Fatal(err)
			}
			var s contract.Status
			if err := v.Get(&s); err != nil {
				t.Fatal(err)
			}
			if n, err := contract.Size(s); err != nil || n > contract.MaxPayload {
				t.Errorf("status has %d bytes, %v", n, err)
			}
			if len(s.Requests) < 10 || len(s.Requests)+s.MoreRequests != 300 || s.Requests[0].ID != "q0" {
				t.Errorf("status has %d requests and omits %d", len(s.Requests), s.MoreRequests)
			}
		})
	}
}
