package trace_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"

	"weft/activities/contract"
	"weft/starter/history/historytest"
	"weft/starter/trace"
	"weft/workflows/plan"
)

// TestToolFailure checks that a failed tool call of an agent ends the spans of that agent, of the team, of its node, and of the
// FlowNode that contains the node, with an exception; the span of an agent that had already answered ends normally.
func TestToolFailure(t *testing.T) {
	team := plan.Agent{Ask: &plan.Contacts{Name: "send_message"}, Conversation: "all", Members: []plan.Member{{ID: "wrk"}, {ID: "done"}}}
	tests := map[string]struct {
		flow  plan.Flow
		exec  string
		want  string
		fails string // the node that fails; "" if the manager continues
	}{
		"in a FlowNode": {exec: "f%2Fa#2", fails: "f/a", flow: plan.Flow{Name: "t", Dialect: "agentspec", Nodes: []plan.Node{{ID: "f/s", Name: "s", Kind: plan.KindPass, Pass: &plan.Pass{}}, {ID: "f/a", Name: "a", Kind: plan.KindAgent, Agent: &team}},
			Edges: []plan.Edge{{From: plan.Start, To: "f/s"}, {From: "f/s", To: "f/a"}, {From: "f/a", To: plan.End}}}, want: `root "t"
FlowExecutionSpan root: FlowExecutionStart, ExceptionRaised
  NodeExecutionSpan f#1: NodeExecutionStart, ExceptionRaised
    FlowExecutionSpan f#1/flow: FlowExecutionStart, ExceptionRaised
      NodeExecutionSpan f/s#1: NodeExecutionStart, NodeExecutionEnd
      NodeExecutionSpan f/a#2: NodeExecutionStart, ExceptionRaised
        ManagerWorkersExecutionSpan f/a#2/agent: ManagerWorkersExecutionStart, ExceptionRaised
          LlmGenerationSpan f%2Fa#2/model/1: LlmGenerationRequest, LlmGenerationResponse
          AgentExecutionSpan f/a#2:a>done~1: AgentExecutionStart, AgentExecutionEnd
            LlmGenerationSpan f%2Fa#2:a>done~1/model/1: LlmGenerationRequest, LlmGenerationResponse
          AgentExecutionSpan f/a#2:a>wrk~1: AgentExecutionStart, ExceptionRaised
            LlmGenerationSpan f%2Fa#2:a>wrk~1/model/1: LlmGenerationRequest, LlmGenerationResponse
            ToolExecutionSpan f%2Fa#2:a>wrk~1/tool/1.1: ToolExecutionRequest, ExceptionRaised
`},
		"team without a flow": {exec: "a#1", fails: "a", flow: plan.Flow{Name: "t", Dialect: "agentspec", Nodes: []plan.Node{{ID: "a", Name: "a", Kind: plan.KindAgent, Agent: &team}},
			Edges: []plan.Edge{{From: plan.Start, To: "a"}, {From: "a", To: plan.End}}}, want: `root "t"
ManagerWorkersExecutionSpan root: ManagerWorkersExecutionStart, ExceptionRaised
  LlmGenerationSpan a#1/model/1: LlmGenerationRequest, LlmGenerationResponse
  AgentExecutionSpan a#1:a>done~1: AgentExecutionStart, AgentExecutionEnd
    LlmGenerationSpan a#1:a>done~1/model/1: LlmGenerationRequest, LlmGenerationResponse
  AgentExecutionSpan a#1:a>wrk~1: AgentExecutionStart, ExceptionRaised
    LlmGenerationSpan a#1:a>wrk~1/model/1: LlmGenerationRequest, LlmGenerationResponse
    ToolExecutionSpan a#1:a>wrk~1/tool/1.1: ToolExecutionRequest, ExceptionRaised
`},
	}
	recovers := tests["team without a flow"]
	recovers.fails, recovers.want = "", strings.Replace(recovers.want, "ManagerWorkersExecutionStart, ExceptionRaised", "ManagerWorkersExecutionStart, ManagerWorkersExecutionEnd", 1)+
		"  LlmGenerationSpan a#1/model/2: LlmGenerationRequest, LlmGenerationResponse\n"
	tests["manager that continues"] = recovers
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := historytest.New(t)
			h.Begin("", contract.RunInput{V: contract.Version, Flow: contract.FlowRef{Plan: &tc.flow}})
			raw := h.Message(contract.Message{Role: contract.RoleUser, Text: "Look for it."})
			tail := []contract.TailEntry{{SHA: contract.SHA(raw), Message: raw}}
			call := func(exec, text string, calls ...string) {
				h.Call(exec+"/model/1", contract.ActivityCallModel, contract.ModelInput{Base: contract.Head{Thread: exec}, Tail: tail}, historytest.Answer(t, text, calls...))
			}
			call(tc.exec, "", "send_message")
			call(tc.exec+":a>done~1", "It is there.")
			call(tc.exec+":a>wrk~1", "", "rt")
			failure := &failurepb.Failure{Message: "status 403", FailureInfo: &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{
				Type: contract.ClassDenied, Details: h.Payload(contract.Failure{Class: contract.ClassDenied, Node: tc.fails, Step: int(tc.exec[len(tc.exec)-1] - '0'), Text: "status 403"})}}}
			s := h.Scheduled(tc.exec+":a>wrk~1/tool/1.1", contract.ActivityCallTool, contract.ToolInput{As: "rt"})
			h.Add(enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED, &historypb.ActivityTaskFailedEventAttributes{ScheduledEventId: s, Failure: failure})
			if tc.fails == "" {
				h.Call(tc.exec+"/model/2", contract.ActivityCallModel, contract.ModelInput{}, historytest.Answer(t, "It cannot be had."))
				h.Add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, &historypb.WorkflowExecutionCompletedEventAttributes{Result: h.Payload(contract.RunResult{})})
			} else {
				h.Add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED, &historypb.WorkflowExecutionFailedEventAttributes{Failure: failure})
			}
			out, err := trace.Read(t.Context(), historytest.Source(map[string]*historytest.History{"r": h}), "root", "r", trace.Options{Content: true})
			if err != nil {
				t.Fatal(err)
			}
			check(t, out)
			if all, err := json.Marshal(out); err != nil || strings.Count(string(all), "Look for it.") != 3 {
				t.Errorf("trace = %s, %v, want the prompt of three agents", all, err)
			}
			if diff := cmp.Diff(tc.want, outline(out)); diff != "" {
				t.Errorf("trace (-want +got):\n%s", diff)
			}
		})
	}
}
