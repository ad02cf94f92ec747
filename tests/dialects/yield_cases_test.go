package dialects

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"weft/activities"
	"weft/activities/contract"
	"weft/activities/tool"
	"weft/tests/harness"
	"weft/workflows"
)

// yieldCases returns flows with features that the examples do not use.
func yieldCases(t *testing.T) []yieldFlow {
	t.Helper()
	found := func(args string) (string, bool) { return "found " + args, false }
	worker := yieldWorker(t, harness.TestRun{
		Tools: map[string]func(string) (string, bool){"search": found, "pay": found, "send": found,
			"long": func(string) (string, bool) { return `{"items":["` + strings.Repeat("x", 3000) + `"],"n":7}`, false }},
		ToolSettings: tool.Settings{Tools: map[string]string{"pay": "web"}, Confirm: map[string]tool.ConfirmRule{
			"money": {Tools: []string{"pay"}}, "nobody": {Tools: []string{"send"}, Timeout: 4 * time.Second}}},
	})
	mail, denied := harness.NewConfirmingWorker(t), deniedWorker(t)
	flow := func(name, doc, script string) yieldFlow {
		return yieldFlow{name: name, worker: worker, in: contract.RunInput{
			Flow: contract.FlowRef{Text: doc, Name: "flow.json"}, Script: harness.Script(t, script)}}
	}
	fork := flow("a client in a branch and in children", harness.WaitingFork, `rules:
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
	operator := flow("an operator", harness.SubAgentFlow, `rules:
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}, {tool: set_state, arguments: {key: k, value: 1}}]}
- {say: ok}`)
	operator.worker = denied
	judge := flow("an operator for a judge", harness.JudgedLoop, `rules:
- {question: "again?", yes: false}
- {question: "done?", yes: true}
- {say: ok}`)
	judge.worker = denied
	budget := flow("a budget", harness.SubAgentFlow, `rules:
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}]}
- {node: a, turn: 2, call: [{tool: call_sub_agent, arguments: {user_question: two}}]}
- {node: s, turn: 1, call: [{tool: set_state, arguments: {key: k, value: 1}}]}
- {say: ok}`)
	budget.in.Budget = &contract.Budget{Calls: 4}
	session := flow("a session", harness.OneNode(`,"tools":[{"name":"search","data_connection_id":"web"},{"name":"pay","data_connection_id":"web"}]`), `rules:
- {match: look it up, call: [{tool: search, arguments: {n: 5}}]}
- {match: pay it, call: [{tool: pay, arguments: {n: 1}}, {tool: pay, arguments: {n: 2}}]}
- {say: ok}`)
	session.in.Input, session.in.Session, session.prompts = "hello", true, []string{"look it up", "pay it"}
	boss := flow("child sessions", "", `rules:
- {node: boss, match: ^one$, call: [{tool: start_agent_session, arguments: {agent_name: helper, mode: sync, parameters: {prompt: look}}}, {tool: start_agent_session, arguments: {agent_name: helper, mode: sync, parameters: {prompt: look twice}}}]}
- {node: boss, match: ^two$, call: [{tool: start_agent_session, arguments: {agent_name: lead, mode: sync, parameters: {prompt: look}}}]}
- {say: heard}`)
	boss.in.Flow, boss.in.Params, boss.in.Session, boss.prompts = contract.FlowRef{Plan: harness.Orchestrator()}, json.RawMessage(`{"prompt":"one"}`), true, []string{"two"}
	ask := flow("an ask node", "", `rules: [{contains: "Yes", say: painted}]`)
	ask.in.Flow = contract.FlowRef{Plan: harness.AskFlow()}
	shared := flow("koog: one conversation", harness.KoogShared, harness.KoogSharedScript)
	shared.in.Flow.Profile, shared.in.Input = "koog", "topic"
	out := []yieldFlow{operator, judge, budget, session, boss, ask, shared}
	for name, c := range specCases {
		out = append(out, yieldFlow{name: "agentspec/" + name, worker: worker, in: c.input(t, name), results: c.results})
	}
	for name, guard := range map[string]string{"continues": "{action: continue}", "blocks": "{action: block, block_reason: not today}"} {
		res := agentWithHooks(t, "block")
		f := flow("a hook that "+name, "", "rules:\n- {node: guard, json: "+guard+"}\n- {say: Written.}\n")
		f.in.Flow, f.in.Params = contract.FlowRef{Plan: res.Flow, Source: &res.Source}, json.RawMessage(`{"topic":"abc","prompt":"Go."}`)
		out = append(out, f)
	}
	return append(out,
		fork, client, team,
		flow("no answer", harness.OneNode(`,"tools":[{"name":"send","data_connection_id":"web"},{"name":"search","data_connection_id":"web"}]`), `rules:
- {turn: 1, call: [{tool: send, arguments: {n: 1}}, {tool: search, arguments: {n: 1}}]}
- {say: ok}`),
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
		flow("a join that fails", harness.ForkAndJoin, `rules: [{node: j, fail: {class: refused, text: not that}}, {say: ok}]`),
		flow("sub-agents", harness.SubAgentFlow, `rules:
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}, {tool: call_sub_agent, arguments: {user_question: two}}]}
- {node: a, turn: 2, call: [{tool: call_sub_agent, arguments: {user_question: three}}]}
- {node: s, match: two, call: [{tool: call_sub_agent, arguments: {user_question: deeper}}]}
- {node: s, say: known}
- {say: ok}`),
		flow("concurrent calls", harness.OneNode(`,"tools":[{"name":"search","data_connection_id":"web"},{"name":"pay","data_connection_id":"web"},{"name":"long","data_connection_id":"web"}]`), `rules:
- {kind: condense, say: the gist}
- {turn: 1, call: [{tool: search, arguments: {n: 1}}, {tool: search, arguments: {n: 2}}, {tool: pay, arguments: {n: 3}}, {tool: pay, arguments: {n: 2}}, {tool: set_state, arguments: {key: k, value: 1}}]}
- {turn: 2, call: [{tool: get_state, arguments: {keys: [k]}}, {tool: pay, arguments: {n: 4}}]}
- {turn: 3, call: [{tool: long}]}
- {turn: 4, call: [{tool: set_state_filtered, arguments: {key: n, tool_name: long, description: the number}}]}
- {say: ok}`),
		flow("JSON with a repair", strings.Replace(harness.OneNode(""), `{"type":1}`, `{"type":2,"payload":{"format":"JSON","output_schema":{"type":"object","required":["n"]}}}`, 1), `rules:
- {turn: 1, say: "many"}
- {say: '{"n":1}'}`),
		flow("JSON of the last node", formatWithoutExit, `rules:
- {kind: judge, yes: false, reason: enough}
- {turn: 1, call: [{tool: set_state, arguments: {key: k, value: 1}}]}
- {turn: 2, say: plain}
- {turn: 3, say: more}
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
	)
}

// denying makes the first model call with each activity id fail as denied, so that the run waits for an
// operator.
type denying struct{ worker.ActivityRegistry }

func (d denying) RegisterActivityWithOptions(fn any, o activity.RegisterOptions) {
	if o.Name == contract.ActivityCallModel || o.Name == contract.ActivityEvaluateCondition {
		real := reflect.ValueOf(fn)
		fn = reflect.MakeFunc(real.Type(), func(args []reflect.Value) []reflect.Value {
			if id := activity.GetInfo(args[0].Interface().(context.Context)).ActivityID; strings.Contains(id, "~") {
				return real.Call(args)
			}
			err := (&contract.Failure{Class: contract.ClassDenied, Text: "the key has expired"}).ApplicationError()
			return []reflect.Value{reflect.Zero(real.Type().Out(0)), reflect.ValueOf(&err).Elem()}
		}).Interface()
	}
	d.ActivityRegistry.RegisterActivityWithOptions(fn, o)
}

// deniedWorker starts a worker whose activities are [denying].
func deniedWorker(t *testing.T) *harness.Worker {
	t.Helper()
	h := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("denied-%d", time.Now().UnixNano())}
	h.Worker = harness.RunWorkerWith(t, h.Client, h.Queue, workflows.Settings{}, activities.Deps{},
		func(r worker.ActivityRegistry) worker.ActivityRegistry { return denying{r} })
	t.Cleanup(h.Worker.Stop)
	return h
}

// yieldTeam is a manager whose workers have a tool that requires confirmation.
const yieldTeam = `{"component_type":"ManagerWorkers","agentspec_version":"25.4.2","name":"team","outputs":[{"title":"answer","type":"string"}],
"group_manager":{"component_type":"Agent","name":"boss","llm_config":{"$component_ref":"m"},"system_prompt":"Ask."},
"workers":[
{"component_type":"Agent","name":"stock","description":"d","llm_config":{"$component_ref":"m"},"system_prompt":"x","tools":[{"$component_ref":"pay"}]},
{"component_type":"Agent","name":"poet","description":"d","llm_config":{"$component_ref":"m"},"system_prompt":"x","tools":[{"$component_ref":"pay"}]}],
"$referenced_components":{"m":{"component_type":"OpenAiConfig","name":"m","model_id":"m"},
"pay":{"component_type":"ServerTool","name":"pay","description":"pays","inputs":[{"title":"n","type":"number"}],"outputs":[{"title":"n","type":"string"}]}}}`
