package workflows

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"weft/workflows/workflowtest"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/schedule"
)

// TestStatusAnswerFits asks for the status of runs that have much of everything, in signs that take six
// bytes each in a payload.
func TestStatusAnswerFits(t *testing.T) {
	long := strings.Repeat("<", 8000)
	tests := map[string]func(f *flowRun){
		"questions": func(f *flowRun) {
			for i := range 300 {
				f.inbox.requests = append(f.inbox.requests, contract.Request{ID: fmt.Sprint("q", i), Kind: contract.RequestMessage, Text: long})
			}
		},
		"calls to allow": func(f *flowRun) {
			for i := range 300 {
				f.inbox.requests = append(f.inbox.requests, contract.Request{ID: fmt.Sprint("q", i), Kind: contract.RequestConfirm, Arguments: json.RawMessage(`{"x":"` + long + `"}`)})
			}
		},
		"all together": func(f *flowRun) {
			for i := range 300 {
				f.inbox.requests = append(f.inbox.requests, contract.Request{ID: fmt.Sprint("q", i), Text: long})
				f.inbox.unread = append(f.inbox.unread, contract.Inbound{Text: strings.Repeat("<", maxName)})
				f.conflicts = append(f.conflicts, contract.Conflict{Key: "k", Value: json.RawMessage(`"` + long[:1000] + `"`)})
			}
			f.trace = judgedTrace(1000, 500)
		},
	}
	for name, fill := range tests {
		t.Run(name, func(t *testing.T) {
			env := workflowtest.Env()
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				f := lone(ctx, 0, 0)
				f.inbox = newInbox(f.run, f)
				f.status = contract.StatusWaiting
				f.session = &session{run: f.run, host: f, view: f}
				fill(f)
				return f.run.answer(ctx, f.report, f.known)
			})
			v, err := env.QueryWorkflow(contract.QueryStatus)
			if err != nil {
				t.Fatal(err)
			}
			var s contract.Status
			if err := v.Get(&s); err != nil {
				t.Fatal(err)
			}
			if n, err := size(s); err != nil || n > maxPayload {
				t.Errorf("the answer is %d bytes, %v", n, err)
			}
			if len(s.Requests) < 10 || len(s.Requests)+s.MoreRequests != 300 || s.Requests[0].ID != "q0" {
				t.Errorf("%d requests are shown, %d not", len(s.Requests), s.MoreRequests)
			}
		})
	}
}

// TestFitting leaves out what is least missed, and nothing of a status that fits.
func TestFitting(t *testing.T) {
	large := strings.Repeat("x", 100_000)
	full := func() contract.Status {
		s := contract.Status{Dropped: 5, Executions: make([]contract.Execution, 8), Conflicts: make([]contract.Conflict, 4), Requests: make([]contract.Request, 4), Inbox: make([]contract.Inbound, 2)}
		for i := range s.Executions {
			s.Executions[i].Step = i
		}
		return s
	}
	tests := map[string]struct {
		grow                                                   func(s *contract.Status)
		conflicts, executions, dropped, unread, requests, more int
	}{
		"all fits": {func(*contract.Status) {}, 4, 8, 5, 2, 4, 0},
		"conflicts": {func(s *contract.Status) {
			s.Conflicts[0].Key = strings.Repeat(large, 20)
		}, 2, 8, 5, 2, 4, 0},
		"executions": {func(s *contract.Status) {
			for i := range s.Executions {
				s.Executions[i].Branch = strings.Repeat(large, 5)
			}
		}, 0, 2, 11, 2, 4, 0},
		"messages": {func(s *contract.Status) { s.Inbox[0].Text = strings.Repeat(large, 20) }, 0, 0, 13, 0, 4, 0},
		"requests": {func(s *contract.Status) { s.Requests[2].Text = strings.Repeat(large, 20) }, 0, 0, 13, 0, 2, 2},
		"one":      {func(s *contract.Status) { s.Requests[0].Text = strings.Repeat(large, 20) }, 0, 0, 13, 0, 1, 3},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := full()
			tc.grow(&s)
			s = fitting(s)
			if len(s.Conflicts) != tc.conflicts || len(s.Executions) != tc.executions || s.Dropped != tc.dropped || len(s.Inbox) != tc.unread || len(s.Requests) != tc.requests || s.MoreRequests != tc.more {
				t.Errorf("%d conflicts, %d executions, %d dropped, %d messages, %d requests and %d more", len(s.Conflicts), len(s.Executions), s.Dropped, len(s.Inbox), len(s.Requests), s.MoreRequests)
			}
			if n := len(s.Executions); n > 0 && s.Executions[n-1].Step != 7 {
				t.Errorf("the last execution is of step %d", s.Executions[n-1].Step)
			}
		})
	}
}

// TestAnswersInSignsThatGrow asks for a state and a plan whose signs take six bytes each in a payload.
func TestAnswersInSignsThatGrow(t *testing.T) {
	long := strings.Repeat("<", 200_000)
	env := workflowtest.Env()
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		r := newRun(ctx)
		r.flow = &plan.Flow{Description: strings.Repeat(long, 2)}
		var v contract.View
		for i := range 3 {
			e, err := r.transcript.value(fmt.Sprint("k", i), json.RawMessage(`"`+long+`"`), contract.Stamp{})
			if err != nil {
				return err
			}
			schedule.SetEntry(&v, e)
		}
		return r.answer(ctx, func() contract.Status { return contract.Status{} }, func() contract.View { return v })
	})
	answer, err := env.QueryWorkflow(contract.QueryState)
	if err != nil {
		t.Fatal(err)
	}
	var state map[string]string
	if err := answer.Get(&state); err != nil || state["k0"] != long || state["k2"] != "(1200002 bytes, not shown here)" {
		t.Errorf("%d keys, k2 is %.50q, %v", len(state), state["k2"], err)
	}
	if n, _ := size(state); n > maxPayload {
		t.Errorf("the state is %d bytes", n)
	}
	if _, err := env.QueryWorkflow(contract.QueryPlan); err == nil || !strings.Contains(err.Error(), "the plan is 24") || !strings.Contains(err.Error(), "the run's input has it") {
		t.Errorf("the plan gives %v", err)
	}
}
