package harness

import (
	"encoding/json"
	"strings"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// SubAgentFlow is a document whose node may call a sub-agent, which may call itself.
const SubAgentFlow = `{"data_connections":[
{"id":"helper","type":2,"name":"Helper","description":"knows things","config":{"agent_id":"sub"}}],
"agents":[
{"id":"main","name":"Main","generation_prompt":"","response_format":{"type":1},"execution_plan":"","nodes":[
{"id":"a","name":"A","prompt":"ask","is_exit_node":true,"tools":[{"name":"call_sub_agent","data_connection_id":"helper"}]}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"e2","source":"a","target":"END"}]},
{"id":"sub","name":"Sub","generation_prompt":"","response_format":{"type":1},"execution_plan":"","nodes":[
{"id":"s","name":"S","prompt":"answer","is_exit_node":true,"tools":[{"name":"call_sub_agent","data_connection_id":"helper"}]}],
"edges":[{"id":"e1","source":"START","target":"s"},{"id":"e2","source":"s","target":"END"}]}]}`

// WithChildBranches makes all branches of a flow run as child workflows.
func WithChildBranches(f *plan.Flow) *plan.Flow {
	f.Policy.Branches = plan.BranchesAsChildren
	for i := range f.Agents {
		WithChildBranches(&f.Agents[i])
	}
	return f
}

// ChildBranches is [ForkAndJoin] with limits so high that branches run as child workflows.
var ChildBranches = strings.ReplaceAll(ForkAndJoin, `"prompt":`, `"max_iterations":100,"prompt":`)

// ForkAndJoin writes a state key in two branches and reads it after the join.
const ForkAndJoin = `{"name":"fork","nodes":[
{"id":"a","name":"A","prompt":"p"},{"id":"b","name":"B","prompt":"p"},{"id":"j","name":"J","prompt":"p","defer":true,"is_exit_node":true}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"e2","source":"START","target":"b"},
{"id":"e3","source":"a","target":"j"},{"id":"e4","source":"b","target":"j"},{"id":"e5","source":"j","target":"END"}]}`

// TalkerScript makes an agent call tools in four turns.
const TalkerScript = `rules:
- {kind: condense, say: the gist}
- {turn: 1, call: [{tool: set_state, arguments: {key: a, value: "WORD"}}]}
- {turn: 2, call: [{tool: set_state, arguments: {key: b, value: "WORD"}}, {tool: set_state, arguments: {key: c, value: "WORD"}}]}
- {turn: 3, call: [{tool: set_state, arguments: {key: d, value: "WORD"}}]}
- {turn: 4, call: [{tool: set_state, arguments: {key: e, value: "WORD"}}]}
- {say: done}`

// ClientConnection is a connection with one tool that the run's client executes.
func ClientConnection(name string, limit int) []contract.DataConnection {
	return []contract.DataConnection{{ID: "web", Kind: plan.ConnectionClient, Tools: []plan.ClientTool{{Name: name, Timeout: plan.Seconds(limit)}}}}
}

// ClientTools binds a node to the tool of ClientConnection.
const ClientTools = `,"tools":[{"name":"look_up","data_connection_id":"web"}]`

// FanIn is a plan whose branches all lead to one deferred join.
func FanIn(name string, branches ...string) *plan.Flow {
	nodes := []GraphNode{{ID: "join", Defer: true, Exit: true}}
	edges := []GraphEdge{{Source: "join", Target: plan.End}}
	for _, id := range branches {
		nodes = append(nodes, GraphNode{ID: id})
		edges = append(edges, GraphEdge{Source: plan.Start, Target: id}, GraphEdge{Source: id, Target: "join"})
	}
	f := GraphPlan(name, nodes, edges)
	for i := range f.Nodes {
		f.Nodes[i].Agent.Builtins = plan.Builtins
	}
	return f
}

// OneNode is a document with the node a, which produces the result.
func OneNode(node string) string {
	return `{"name":"one","generation_prompt":"","response_format":{"type":1},"execution_plan":"","nodes":[
{"id":"a","name":"A","prompt":"do it","is_exit_node":true` + node + `}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"e2","source":"a","target":"END"}]}`
}

// SearchTool binds a node to the tool search of the connection web.
const SearchTool = `,"tools":[{"name":"search","data_connection_id":"web"}]`

// JudgedLoop loops until a condition holds.
const JudgedLoop = `{"name":"loop","nodes":[{"id":"a","name":"A","prompt":"p"},{"id":"x","name":"X","prompt":"p","is_exit_node":true}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"again","source":"a","target":"a","condition_prompt":"again?"},
{"id":"out","source":"a","target":"x","condition_prompt":"done?"},{"id":"e4","source":"x","target":"END"}]}`

// MailConnection are tools that the run's client executes.
func MailConnection() []contract.DataConnection {
	return []contract.DataConnection{{ID: "web", Kind: plan.ConnectionClient, Tools: []plan.ClientTool{
		{Name: "send_mail", Description: "Sends a mail.",
			Schema: json.RawMessage(`{"type":"object","required":["to"],"properties":{"to":{"type":"string"}}}`),
			Result: json.RawMessage(`{"type":"object","required":["sent"],"properties":{"sent":{"type":"boolean"}}}`)},
		{Name: "look_up"},
	}}}
}

// MailTools binds a node to the tools of MailConnection.
const MailTools = `,"tools":[{"name":"send_mail","data_connection_id":"web"},{"name":"look_up","data_connection_id":"web"}]`

// WaitingFork is a fork: one branch calls a sub-agent, which waits for a user; the other loops
// forever.
const WaitingFork = `{"data_connections":[
{"id":"helper","type":2,"name":"Helper","description":"knows things","config":{"agent_id":"sub"}},
{"id":"web","type":1,"name":"Web","description":"","config":{"url":"https://tools.example.com/mcp"}}],
"agents":[
{"id":"main","name":"Main","generation_prompt":"","response_format":{"type":1},"execution_plan":"","nodes":[
{"id":"a","name":"A","prompt":"ask","tools":[{"name":"call_sub_agent","data_connection_id":"helper"}]},
{"id":"b","name":"B","prompt":"busy"},
{"id":"j","name":"J","prompt":"join","defer":true,"is_exit_node":true}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"e2","source":"START","target":"b"},
{"id":"again","source":"b","target":"b","condition_prompt":"again?"},{"id":"enough","source":"b","target":"j","condition_prompt":"enough?"},
{"id":"e3","source":"a","target":"j"},{"id":"e5","source":"j","target":"END"}]},
{"id":"sub","name":"Sub","generation_prompt":"","response_format":{"type":1},"execution_plan":"","nodes":[
{"id":"s","name":"S","prompt":"answer","is_exit_node":true,"tools":[{"name":"send_mail","data_connection_id":"web"}]}],
"edges":[{"id":"e1","source":"START","target":"s"},{"id":"e2","source":"s","target":"END"}]}]}`

// AskFlow is a flow that asks the user and continues with the answer.
func AskFlow() *plan.Flow {
	f := GraphPlan("asking", []GraphNode{{ID: "ask"}, {ID: "paint"}}, nil)
	f.Nodes[0].Kind, f.Nodes[0].Agent, f.Nodes[0].Ask = plan.KindAsk, nil, &plan.Ask{Text: "Which colour?"}
	f.Edges = []plan.Edge{{ID: "e1", From: plan.Start, To: "ask"}, {ID: "e2", From: "ask", To: "paint"}, {ID: "e3", From: "paint", To: plan.End}}
	f.Nodes[1].Exit = true
	return f
}

// KoogShared is a conversation of all agents that is forked and continued with one of the forks.
const KoogShared = `{"id":"shared","version":"1","defaultModel":"ollama/qwq","agents":[{"name":"begin","type":"task","config":{"maxIterations":200},"params":{"task":"begin"}},
{"name":"both","type":"parallel","params":{"agents":["left","right"],"merge":{"variable":"results.1.output","operation":"equals","value":"never looked at"}}},
{"name":"left","type":"task","params":{"task":"left"}},{"name":"right","type":"react","params":{"task":"right"}},{"name":"end","type":"verify","params":{"task":"end"}}],
"transitions":[{"from":"begin","to":"both","condition":{"variable":"output.data","operation":"equals","value":7}},{"from":"both","to":"end"}]}`

// KoogSharedScript is the model's script for KoogShared.
const KoogSharedScript = `rules:
- {node: begin, turn: 1, say: hello}
- {node: begin, call: [{tool: finalize_task_result, arguments: {__wrapped_value__: "7"}}]}
- {node: "both.left", call: [{tool: finalize_task_result, arguments: {__wrapped_value__: left}}]}
- {node: "both.right", match: plan the next steps, say: a thought}
- {node: "both.right", say: right}
- {node: end, contains: a thought, call: [{tool: finalize_task_result, arguments: {isCorrect: false, feedback: f}}]}
- {node: "left", call: [{tool: finalize_task_result, arguments: {__wrapped_value__: left}}]}`
