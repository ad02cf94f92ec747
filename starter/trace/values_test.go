package trace_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"weft/activities/contract"
	"weft/specadapter"
	"weft/starter/history/historytest"
	"weft/starter/trace"
	"weft/workflows/plan"
)

// TestValues checks inputs and outputs of tools, nodes and flows, with the names of the document: each element of a map has a span
// of its flow even if it makes no call, and an ApiNode has no span of a tool.
func TestValues(t *testing.T) {
	const doc = `{"agentspec_version": "26.1.2", "component_type": "Flow", "name": "all", "id": "flow-1", "start_node": {"$component_ref": "s"},
"nodes": [{"$component_ref": "s"}, {"$component_ref": "t"}, {"$component_ref": "api"}, {"$component_ref": "m"}, {"$component_ref": "e"}],
"control_flow_connections": [
 {"component_type": "ControlFlowEdge", "name": "1", "from_node": {"$component_ref": "s"}, "to_node": {"$component_ref": "t"}},
 {"component_type": "ControlFlowEdge", "name": "2", "from_node": {"$component_ref": "t"}, "to_node": {"$component_ref": "api"}},
 {"component_type": "ControlFlowEdge", "name": "3", "from_node": {"$component_ref": "api"}, "to_node": {"$component_ref": "m"}},
 {"component_type": "ControlFlowEdge", "name": "4", "from_node": {"$component_ref": "m"}, "to_node": {"$component_ref": "e"}}],
"data_flow_connections": [
 {"component_type": "DataFlowEdge", "name": "5", "source_node": {"$component_ref": "s"}, "source_output": "x", "destination_node": {"$component_ref": "t"}, "destination_input": "x"},
 {"component_type": "DataFlowEdge", "name": "6", "source_node": {"$component_ref": "t"}, "source_output": "list", "destination_node": {"$component_ref": "m"}, "destination_input": "iterated_k"}],
"$referenced_components": {
 "s": {"component_type": "StartNode", "name": "s", "inputs": [{"title": "x", "type": "integer"}, {"title": "y", "type": "string", "default": "why"}]},
 "t": {"component_type": "ToolNode", "name": "t", "tool": {"component_type": "MCPTool", "name": "find", "description": "Finds.", "client_transport": {"component_type": "StreamableHTTPTransport", "name": "web", "url": "http://x"},
  "inputs": [{"title": "x", "type": "integer"}], "outputs": [{"title": "list", "type": "array", "items": {"type": "string"}}, {"title": "n", "type": "integer"}]}},
 "api": {"component_type": "ApiNode", "name": "api", "url": "http://y", "http_method": "GET", "outputs": [{"title": "answer", "type": "string"}]},
 "m": {"component_type": "MapNode", "name": "m", "subflow": {"component_type": "Flow", "name": "sub", "start_node": {"$component_ref": "s2"}, "data_flow_connections": null,
  "nodes": [{"$component_ref": "s2"}, {"$component_ref": "b"}, {"$component_ref": "e1"}, {"$component_ref": "e2"}],
  "control_flow_connections": [
   {"component_type": "ControlFlowEdge", "name": "7", "from_node": {"$component_ref": "s2"}, "to_node": {"$component_ref": "b"}},
   {"component_type": "ControlFlowEdge", "name": "8", "from_node": {"$component_ref": "b"}, "from_branch": "one", "to_node": {"$component_ref": "e1"}},
   {"component_type": "ControlFlowEdge", "name": "9", "from_node": {"$component_ref": "b"}, "from_branch": "default", "to_node": {"$component_ref": "e2"}}]}},
 "s2": {"component_type": "StartNode", "name": "s2", "inputs": [{"title": "k", "type": "string"}]},
 "b": {"component_type": "BranchingNode", "name": "b", "mapping": {"a": "one"}, "inputs": [{"title": "k", "type": "string"}]},
 "e1": {"component_type": "EndNode", "name": "e1", "outputs": [{"title": "k", "type": "string"}]},
 "e2": {"component_type": "EndNode", "name": "e2", "outputs": [{"title": "k", "type": "string"}]},
 "e": {"component_type": "EndNode", "name": "e"}}}`
	res, diags := specadapter.Load("all.json", []byte(doc), specadapter.Options{})
	if res == nil {
		t.Fatal(diags)
	}
	flow := res.Flow
	at := slices.IndexFunc(flow.Connections, func(c plan.Connection) bool { return c.Kind == plan.ConnectionMCP })
	h := historytest.New(t)
	h.Begin("", contract.RunInput{V: contract.Version, Flow: contract.FlowRef{Plan: flow}, Params: json.RawMessage(`{"x":12345678901234567890}`)})
	h.Call("t#2/tool/1.1", contract.ActivityCallTool, contract.ToolInput{Connection: flow.Connections[at], Name: "find", As: "find", Arguments: json.RawMessage(`{"x":12345678901234567890}`)}, historytest.ToolMessage(t, `{"list":["a","z"],"n":2}`, false))
	h.Call("api#3/tool/1.1", contract.ActivityCallTool, contract.ToolInput{Connection: plan.Connection{Kind: plan.ConnectionHTTP}, Name: "api", As: "api"}, historytest.ToolMessage(t, `{"answer":"yes"}`, false))
	h.Add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, &historypb.WorkflowExecutionCompletedEventAttributes{Result: h.Payload(contract.RunResult{ResultNode: "e", ResultData: json.RawMessage(`{}`)})})
	out, err := trace.Read(t.Context(), historytest.Source(map[string]*historytest.History{"r": h}), "root", "r", trace.Options{Content: true})
	if err != nil {
		t.Fatal(err)
	}
	check(t, out)
	var got []string
	for _, s := range out.Spans {
		for _, e := range s.Events {
			for _, key := range []string{"inputs", "outputs", "output"} {
				if v, ok := e[key]; ok {
					raw, err := json.Marshal(v)
					if err != nil {
						t.Fatal(err)
					}
					component := slices.DeleteFunc([]trace.Object{s.Flow, s.Node, s.Tool}, func(o trace.Object) bool { return o == nil })[0]
					got = append(got, strings.TrimSpace(fmt.Sprint(s.ID, " ", component["component_type"], " ", component["id"], " ", key, " ", string(raw), " ", e["branch_selected"])))
				}
			}
		}
	}
	want := []string{
		`root Flow flow-1 inputs {"x":12345678901234567890,"y":"why"} <nil>`, `root Flow flow-1 outputs {} next`,
		`s#1 StartNode s inputs {"x":12345678901234567890,"y":"why"} <nil>`, `s#1 StartNode s outputs {"x":12345678901234567890,"y":"why"} next`,
		`t#2 ToolNode t inputs {"x":12345678901234567890} <nil>`, `t#2 ToolNode t outputs {"list":["a","z"],"n":2} next`,
		`t#2/tool/1.1 MCPTool ` + flow.Connections[at].ID + `/find inputs {"x":12345678901234567890} <nil>`, `t#2/tool/1.1 MCPTool ` + flow.Connections[at].ID + `/find output {"list":["a","z"],"n":2} <nil>`,
		`api#3 ApiNode api inputs {} <nil>`, `api#3 ApiNode api outputs {"answer":"yes"} next`,
		`m#4 MapNode m inputs {"iterated_k":["a","z"]} <nil>`, `m#4 MapNode m outputs {} next`, `e#5 EndNode e inputs {} <nil>`, `e#5 EndNode e outputs {} next`,
	}
	for i, k := range []string{"a", "z"} {
		prefix, end, branch := fmt.Sprint("m#4:", i+1), []string{"e1", "e2"}[i], []string{"one", "default"}[i]
		id := flow.Agents[0].ID
		want = append(want, fmt.Sprintf(`%s Flow %s inputs {"k":"%s"} <nil>`, prefix, id, k), fmt.Sprintf(`%s Flow %s outputs {"k":"%s"} next`, prefix, id, k),
			fmt.Sprintf(`%s › s2#1 StartNode s2 inputs {"k":"%s"} <nil>`, prefix, k), fmt.Sprintf(`%s › s2#1 StartNode s2 outputs {"k":"%s"} next`, prefix, k),
			fmt.Sprintf(`%s › b#2 BranchingNode b inputs {"k":"%s"} <nil>`, prefix, k), fmt.Sprintf(`%s › b#2 BranchingNode b outputs {} %s`, prefix, branch),
			fmt.Sprintf(`%s › %s#3 EndNode %[2]s inputs {"k":"%s"} <nil>`, prefix, end, k), fmt.Sprintf(`%s › %s#3 EndNode %[2]s outputs {"k":"%s"} next`, prefix, end, k))
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}
