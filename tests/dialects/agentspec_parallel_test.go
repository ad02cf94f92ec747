package dialects

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"

	"weft/activities/contract"
	"weft/tests/harness"
)

// TestAgentSpecParallelRequests checks requests of concurrent branches: each answer, in any order, goes to the branch that opened
// the request, and the results are in the order of the list.
func TestAgentSpecParallelRequests(t *testing.T) {
	t.Parallel()
	const doc = `{"component_type":"Flow","agentspec_version":"25.4.2","name":"f","start_node":{"$component_ref":"s"},
"nodes":[{"$component_ref":"s"},{"$component_ref":"each"},{"$component_ref":"e"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"1","from_node":{"$component_ref":"s"},"to_node":{"$component_ref":"each"}},
{"component_type":"ControlFlowEdge","name":"2","from_node":{"$component_ref":"each"},"to_node":{"$component_ref":"e"}}],
"data_flow_connections":[{"component_type":"DataFlowEdge","name":"1","source_node":{"$component_ref":"s"},"source_output":"names","destination_node":{"$component_ref":"each"},"destination_input":"iterated_name"},
{"component_type":"DataFlowEdge","name":"2","source_node":{"$component_ref":"each"},"source_output":"collected_word","destination_node":{"$component_ref":"e"},"destination_input":"words"},
{"component_type":"DataFlowEdge","name":"3","source_node":{"$component_ref":"each"},"source_output":"collected_age","destination_node":{"$component_ref":"e"},"destination_input":"ages"}],
"$referenced_components":{
"s":{"component_type":"StartNode","name":"s","inputs":[{"title":"names","type":"array","items":{"type":"string"},"default":["Ann","Bob","Cid"]}]},
"each":{"component_type":"ParallelMapNode","name":"each","subflow":{"$component_ref":"one"}},
"e":{"component_type":"EndNode","name":"e","outputs":[{"title":"words","type":"array","items":{"type":"string"}},{"title":"ages","type":"array","items":{"type":"integer"}}]},
"one":{"component_type":"Flow","name":"one","start_node":{"$component_ref":"o1"},"nodes":[{"$component_ref":"o1"},{"$component_ref":"o2"},{"$component_ref":"o3"},{"$component_ref":"o4"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"o1","from_node":{"$component_ref":"o1"},"to_node":{"$component_ref":"o2"}},
{"component_type":"ControlFlowEdge","name":"o2","from_node":{"$component_ref":"o2"},"to_node":{"$component_ref":"o3"}},{"component_type":"ControlFlowEdge","name":"o3","from_node":{"$component_ref":"o3"},"to_node":{"$component_ref":"o4"}}]},
"o1":{"component_type":"StartNode","name":"o1","inputs":[{"title":"name","type":"string"}]},
"o2":{"component_type":"InputMessageNode","name":"ask","message":"{{name}}?","outputs":[{"title":"word","type":"string"}]},
"o3":{"component_type":"ToolNode","name":"look","tool":{"component_type":"ClientTool","name":"age_of","inputs":[{"title":"name","type":"string"}],"outputs":[{"title":"age","type":"integer"}]}},
"o4":{"component_type":"EndNode","name":"o4","outputs":[{"title":"word","type":"string"},{"title":"age","type":"integer"}]}}}`
	ages := map[string]string{"Ann": "30", "Bob": "40", "Cid": "50"}
	maxOpen := 0
	p := harness.TestRun{Document: doc, Prepare: func(env *testsuite.TestWorkflowEnvironment) {
		for i := range 24 {
			harness.AtTime(env, time.Duration(i+1)*time.Hour, func() {
				var now contract.Status
				harness.Query(t, env, contract.QueryStatus, &now)
				maxOpen = max(maxOpen, len(now.Requests))
				if len(now.Requests) == 0 {
					return
				}
				// Answer the most recent request first.
				r := now.Requests[len(now.Requests)-1]
				if r.Kind == contract.RequestMessage {
					env.SignalWorkflow(contract.RequestMessage, contract.MessageAnswer{ID: r.ID, Text: "I am " + r.Text[:3]})
					return
				}
				var args struct{ Name string }
				if err := json.Unmarshal(r.Arguments, &args); err != nil {
					t.Error(err)
				}
				env.SignalWorkflow(contract.RequestToolResult, contract.ToolResultAnswer{ID: r.ID, Result: json.RawMessage(ages[args.Name])})
			})
		}
	}}.Execute(t)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	if want := `{"words":["I am Ann","I am Bob","I am Cid"],"ages":[30,40,50]}`; string(p.Result.ResultData) != want {
		t.Errorf("outputs = %s, want %s", p.Result.ResultData, want)
	}
	if maxOpen < 3 {
		t.Errorf("at most %d requests were open at once, want 3", maxOpen)
	}
}

// TestEndToEndMapContinues checks that a map over more elements than fit into one history continues as new, and that none of its
// workflow tasks fails because of unhandled events of child runs, which end while they are asked to yield.
func TestEndToEndMapContinues(t *testing.T) {
	t.Parallel()
	const n = 60
	doc := specDoc(t, `
flow: {nodes: {s: {component_type: StartNode, inputs: [{title: xs, type: array, items: {type: integer}}]}, each: {component_type: ParallelMapNode, subflow: "@one", reducers: {x: sum}}, e: {component_type: EndNode, outputs: [{title: total, type: integer}]}},
  go: [s > each > e], data: [s.xs > each.iterated_x, each.collected_x > e.total]}
one: {nodes: {s1: {component_type: StartNode, inputs: [{title: x, type: integer}]}, e1: {component_type: EndNode, outputs: [{title: x, type: integer}]}}, go: [s1 > e1]}`)
	var xs []int
	for i := range n {
		xs = append(xs, i)
	}
	params, err := json.Marshal(map[string]any{"xs": xs})
	if err != nil {
		t.Fatal(err)
	}
	f, err := harness.Compile(contract.FlowRef{Text: doc, Name: "flow.json"})
	if err != nil {
		t.Fatal(err)
	}
	h := harness.NewWorker(t, 0)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: harness.WithChildBranches(f.Plan)}, Params: params, MaxEvents: 100})
	out, err := harness.Result(t, run)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf(`{"total":%d}`, n*(n-1)/2); string(out.ResultData) != want {
		t.Errorf("outputs = %s, want %s", out.ResultData, want)
	}
	runs, id := 0, run.GetRunID()
	for ; id != ""; runs++ {
		list := harness.Events(t, h.Client, run.GetID(), id)
		for _, e := range list {
			if a := e.GetWorkflowTaskFailedEventAttributes(); a != nil {
				t.Errorf("run %d from the end: a workflow task failed: %s", runs, a.Cause)
			}
		}
		id = list[0].GetWorkflowExecutionStartedEventAttributes().ContinuedExecutionRunId
	}
	if runs < 3 {
		t.Errorf("%d runs, want 3 or more", runs)
	}
}
