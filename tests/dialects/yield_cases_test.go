package dialects

import (
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/tests/harness"
)

// yieldCases are flows with what the examples do not have.
func yieldCases(t *testing.T) []yieldFlow {
	t.Helper()
	found := func(args string) (string, bool) { return "found " + args, false }
	worker := yieldWorker(t, harness.TestRun{
		Tools: map[string]func(string) (string, bool){"search": found, "pay": found,
			"long": func(string) (string, bool) { return `{"items":["` + strings.Repeat("x", 3000) + `"],"n":7}`, false }},
		ToolSettings: tool.Settings{Tools: map[string]string{"pay": "web"}, Confirm: map[string]tool.ConfirmRule{"money": {Tools: []string{"pay"}}}},
	})
	mail := harness.NewConfirmingWorker(t)
	flow := func(name, doc, script string) yieldFlow {
		return yieldFlow{name: name, worker: worker, in: contract.RunInput{
			Flow: contract.FlowRef{Text: doc, Name: "flow.json"}, Script: harness.Script(t, script)}}
	}
	fork := flow("a client in a branch and below", harness.WaitingFork, `rules:
- {question: "again?", step: 3, yes: false}
- {question: "enough?", step: 3, yes: true}
- {question: "again?", yes: true}
- {question: "enough?", yes: false}
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}, {tool: call_sub_agent, arguments: {user_question: two}}]}
- {node: s, turn: 1, call: [{tool: send_mail, arguments: {to: ann}}]}
- {say: ok}`)
	fork.worker, fork.in.DataConnections, fork.in.MaxSteps = mail, harness.MailConnection(), 10
	client := flow("a client's tools", harness.OneNode(harness.MailTools), `rules:
- {turn: 1, call: [{tool: send_mail, arguments: {to: ann}}, {tool: look_up, arguments: {n: 1}}, {tool: send_mail, arguments: {to: "2"}}]}
- {turn: 2, call: [{tool: send_mail, arguments: {to: bob}}]}
- {say: ok}`)
	client.worker, client.in.DataConnections = mail, harness.MailConnection()
	team := flow("a team that asks", yieldTeam, `rules:
- {node: team, match: ^Hello, call: [{tool: send_message, arguments: {recipient: stock, message: how many}}, {tool: send_message, arguments: {recipient: poet, message: a verse}}]}
- {node: team/stock, match: ^how many, call: [{tool: pay, arguments: {n: 1}}, {tool: pay, arguments: {n: 2}}]}
- {node: team/stock, say: we have 7}
- {node: team/poet, turn: 1, call: [{tool: pay, arguments: {n: 3}}]}
- {node: team/poet, say: a rhyme}
- {node: team, match: a rhyme, say: "Is it enough?"}
- {node: team, match: ^Yes, call: [{tool: submit_result, arguments: {answer: "7"}}]}`)
	team.messages = []string{"Hello"}
	return []yieldFlow{
		fork, client, team,
		flow("fork and join", harness.ForkAndJoin, `rules:
- {node: a, turn: 1, call: [{tool: set_state, arguments: {key: k, value: 1}}, {tool: list_state_keys}]}
- {node: j, turn: 1, call: [{tool: get_state, arguments: {keys: [k]}}]}
- {say: ok}`),
		flow("judged loop", harness.JudgedLoop, `rules:
- {question: "again?", step: 3, yes: false}
- {question: "again?", yes: true}
- {question: "done?", step: 3, yes: true}
- {question: "done?", yes: false}
- {say: ok}`),
		flow("no exit", harness.JudgedLoop, `rules: [{kind: judge, yes: false}, {say: ok}]`),
		flow("a branch that fails", harness.ForkAndJoin, `rules: [{node: a, fail: {class: refused, text: not that}}, {say: ok}]`),
		flow("sub-agents", harness.SubAgentFlow, `rules:
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}, {tool: call_sub_agent, arguments: {user_question: two}}]}
- {node: a, turn: 2, call: [{tool: call_sub_agent, arguments: {user_question: three}}]}
- {node: s, match: two, call: [{tool: call_sub_agent, arguments: {user_question: deeper}}]}
- {node: s, say: known}
- {say: ok}`),
		flow("calls beside each other", harness.OneNode(`,"tools":[{"name":"search","data_connection_id":"web"},{"name":"pay","data_connection_id":"web"},{"name":"long","data_connection_id":"web"}]`), `rules:
- {kind: condense, say: the gist}
- {turn: 1, call: [{tool: search, arguments: {n: 1}}, {tool: search, arguments: {n: 2}}, {tool: pay, arguments: {n: 3}}, {tool: pay, arguments: {n: 2}}, {tool: set_state, arguments: {key: k, value: 1}}]}
- {turn: 2, call: [{tool: get_state, arguments: {keys: [k]}}, {tool: pay, arguments: {n: 4}}]}
- {turn: 3, call: [{tool: long}]}
- {turn: 4, call: [{tool: set_state_filtered, arguments: {key: n, tool_name: long, description: the number}}]}
- {say: ok}`),
		flow("JSON with a repair", strings.Replace(harness.OneNode(""), `{"type":1}`, `{"type":2,"payload":{"format":"JSON","output_schema":{"type":"object","required":["n"]}}}`, 1), `rules:
- {turn: 1, say: "many"}
- {say: '{"n":1}'}`),
		flow("agentspec: all kinds of nodes", harness.AgentspecMixed, harness.AgentspecMixedScript),
		flow("agentspec: one conversation", harness.AgentspecConversation, harness.AgentspecConversationScript),
		flow("agentspec: swarm", harness.AgentspecSwarm, harness.AgentspecSwarmScript),
		flow("agentspec: workers", harness.AgentspecWorkers, harness.AgentspecWorkersScript),
		flow("agentspec: summaries", harness.AgentspecDigest, harness.AgentspecDigestScript),
		flow("agentspec: a map of agents that ask", harness.AgentspecPayroll, `rules:
- {match: ^Ann, call: [{tool: pay, arguments: {n: 1}}]}
- {match: ^Bob, call: [{tool: pay, arguments: {n: 2}}]}
- {match: ^Cid, call: [{tool: pay, arguments: {n: 3}}]}
- {call: [{tool: submit_result, arguments: {word: fine}}]}`),
	}
}

// yieldTeam is a manager whose workers have a tool that needs a yes.
const yieldTeam = `{"component_type":"ManagerWorkers","agentspec_version":"25.4.2","name":"team","outputs":[{"title":"answer","type":"string"}],
"group_manager":{"component_type":"Agent","name":"boss","llm_config":{"$component_ref":"m"},"system_prompt":"Ask."},
"workers":[
{"component_type":"Agent","name":"stock","description":"d","llm_config":{"$component_ref":"m"},"system_prompt":"x","tools":[{"$component_ref":"pay"}]},
{"component_type":"Agent","name":"poet","description":"d","llm_config":{"$component_ref":"m"},"system_prompt":"x","tools":[{"$component_ref":"pay"}]}],
"$referenced_components":{"m":{"component_type":"OpenAiConfig","name":"m","model_id":"m"},
"pay":{"component_type":"ServerTool","name":"pay","description":"pays","inputs":[{"title":"n","type":"number"}],"outputs":[{"title":"n","type":"string"}]}}}`
