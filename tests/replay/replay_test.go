package replay

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/tests/harness"
)

// TestReplay replays every recorded history with the current workflow code.
func TestReplay(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(harness.Histories + "/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no histories under %s: %v", harness.Histories, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			harness.Replay(t, raw)
		})
	}
}

// recording is a run whose history is recorded; profile is the profile of its dialect.
type recording struct{ doc, script, input, profile string }

// recordings are the runs whose histories are recorded.
var recordings = map[string]recording{
	"agent-tools": {doc: harness.OneNode(`,"max_iterations":3`), script: `rules:
- {turn: 1, call: [{tool: set_state, arguments: {key: k, value: 1}}, {tool: get_state, arguments: {keys: [k]}}]}
- {turn: 2, call: [{tool: list_state_keys}, {tool: list_state_keys}]}
- {say: spent}`},
	"agent-output": {doc: strings.Replace(harness.OneNode(""), `{"type":1}`, `{"type":2,"payload":{"format":"JSON","output_schema":{"type":"object","required":["n"]}}}`, 1),
		script: `rules: [{turn: 1, say: "{}"}, {say: "{\"n\": 1}"}]`},
	"agent-condense": {doc: harness.OneNode(""), script: `rules:
- {kind: condense, say: short}
- {turn: 1, call: [{tool: set_state_filtered, arguments: {key: k, value: "` + strings.Repeat("long ", 1000) + `"}}]}
- {say: done}`},
	"fork-deferred-join": {doc: harness.ForkAndJoin, script: `rules:
- {node: a, turn: 1, call: [{tool: set_state, arguments: {key: k, value: a}}]}
- {node: b, turn: 1, call: [{tool: set_state, arguments: {key: k, value: b}}]}
- {node: b, turn: 2, delay: 200ms, say: b}
- {say: done}`, input: strings.Repeat("a long input ", 200)},
	"fork-plain-join": {doc: strings.Replace(harness.ForkAndJoin, `"defer":true,`, "", 1), script: `rules: [{say: done}]`},
	"loop":            {doc: harness.JudgedLoop, script: `rules: [{question: "again?", step: 3, yes: false}, {question: "again?", yes: true}, {question: "done?", step: 3, yes: true}, {question: "done?", yes: false}, {say: ok}]`},
	"no-exit":         {doc: harness.JudgedLoop, script: `rules: [{kind: judge, yes: false}, {say: ok}]`},
	"step-limit":      {doc: harness.JudgedLoop, script: `rules: [{question: "again?", yes: true}, {question: "done?", yes: false}, {say: ok}]`},
	"sub-agent": {doc: harness.SubAgentFlow, script: `rules:
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}, {tool: call_sub_agent, arguments: {user_question: two}}]}
- {say: done}`},
	"sub-agent-inline": {doc: harness.OneNode(""), script: `rules:
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: q, agent_def: {name: S, nodes: [{id: s, name: S, prompt: p}], edges: [{id: e1, source: START, target: s}, {id: e2, source: s, target: END}]}}}]}
- {say: done}`},
	"published": {doc: harness.OneNode(""), script: `rules: [{say: done}]`},
	"koog-loop": {doc: koogLoop, input: "a verse", script: `rules:
- {node: write, turn: 1, say: I would rather not}
- {node: write, call: [{tool: finalize_task_result, arguments: {value: [1, 2.5]}}]}
- {node: check, step: 2, call: [{tool: finalize_task_result, arguments: {isCorrect: false, feedback: longer}}]}
- {node: fix, turn: 1, call: [{tool: finalize_task_result, arguments: {values: 1}}]}
- {node: fix, call: [{tool: finalize_task_result, arguments: {value: ` + strings.Repeat("much longer ", 200) + `}}]}
- {node: check, call: [{tool: finalize_task_result, arguments: {isCorrect: true}}]}`},
	"koog-parallel": {doc: koogParallel, input: "topic", script: `rules:
- {node: "all.one", call: [{tool: finalize_task_result, arguments: {value: 1}}]}
- {node: "all.two", turn: 1, say: a thought}
- {node: "all.two", turn: 2, say: two}
- {node: last, contains: '[{"name":"one","output":1},{"name":"two","output":"two"}]', call: [{tool: finalize_task_result, arguments: {value: 2.0}}]}`},
	"koog-no-route": {doc: strings.Replace(koogLoop, `"value":true`, `"value":"yes"`, 1), input: "a verse", script: `rules:
- {node: write, call: [{tool: finalize_task_result, arguments: {value: x}}]}
- {node: check, call: [{tool: finalize_task_result, arguments: {isCorrect: true}}]}`},
	"koog-conversation": {doc: harness.KoogShared, profile: "koog", input: "topic", script: harness.KoogSharedScript},
	"agentspec-mixed":   {doc: harness.AgentspecMixed, script: harness.AgentspecMixedScript},
	"agentspec-talk":    {doc: harness.AgentspecConversation, script: harness.AgentspecConversationScript},
	"agentspec-swarm":   {doc: harness.AgentspecSwarm, script: harness.AgentspecSwarmScript},
	"agentspec-team":    {doc: harness.AgentspecWorkers, script: harness.AgentspecWorkersScript},
	"agentspec-digest":  {doc: harness.AgentspecDigest, script: harness.AgentspecDigestScript},
	"children-join":     {doc: strings.Replace(harness.ChildBranches, `"defer":true,`, "", 1), script: `rules: [{say: done}]`},
	"child-fails":       {doc: harness.ChildBranches, script: `rules: [{node: a, fail: {class: refused, text: not that}}, {delay: 20s, say: late}]`},
	"branch-fails":      {doc: harness.ForkAndJoin, script: `rules: [{node: a, fail: {class: refused, text: not that}}, {delay: 20s, say: late}]`},
}

// koogLoop verifies a result and fixes it once; its first node is reminded to call a tool.
const koogLoop = `{"id":"loop","version":"1","defaultModel":"openai/gpt-4o","agents":[{"name":"write","type":"task","params":{"task":"write"}},
{"name":"check","type":"verify","params":{"task":"check"}},{"name":"say","type":"transform","params":{"transformations":[{"value":"input.feedback"}]}},
{"name":"fix","type":"task","params":{"task":"fix"}}],
"transitions":[{"from":"write","to":"check"},{"from":"check","to":"__finish__","condition":{"variable":"input.success","operation":"equals","value":true},"transformation":{"value":"output.input"}},
{"from":"check","to":"say","condition":{"variable":"input.success","operation":"not","value":true}},{"from":"say","to":"fix"},{"from":"fix","to":"check"}]}`

// koogParallel runs two agents concurrently and continues with both results.
const koogParallel = `{"id":"parallel","version":"1","defaultModel":"openai/gpt-4o","agents":[{"name":"all","type":"parallel","params":{"agents":["one","two"]}},
{"name":"one","type":"task","params":{"task":"one"}},{"name":"two","type":"react","params":{"task":"two"}},{"name":"last","type":"task","params":{"task":"last"}}],
"transitions":[{"from":"all","to":"last"}]}`

// TestEndToEndRecord executes the recordings on a Temporal server and replays their histories. With
// WEFT_RECORD=1 it writes the missing files.
func TestEndToEndRecord(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	for name, r := range recordings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: r.doc, Name: "flow.json", Profile: r.profile}, Input: r.input, Script: harness.Script(t, r.script)})
			_, _ = harness.Result(t, run) // some are expected to fail
			harness.Record(t, h.Client, name, run.GetID(), run.GetRunID())
		})
	}
}

// TestEndToEndRecordRequests records a run that waits: a sub-agent in one branch for a confirmation and
// for a tool result of the client, while the other branch receives a message.
func TestEndToEndRecordRequests(t *testing.T) {
	t.Parallel()
	h := harness.NewConfirmingWorker(t)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.WaitingFork, Name: "flow.json"}, DataConnections: harness.MailConnection(),
		Script: harness.Script(t, `rules:
- {question: "again?", step: 2, yes: false}
- {question: "enough?", step: 2, yes: true}
- {question: "again?", yes: true}
- {question: "enough?", yes: false}
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}, {tool: set_state, arguments: {key: k, value: 1}}]}
- {node: s, turn: 1, call: [{tool: send_mail, arguments: {to: ann}}]}
- {node: b, delay: 500ms, say: ok}
- {say: ok}`)})
	id := run.GetID()
	if _, err := h.Update(t, id, contract.RequestMessage, map[string]any{"text": "hurry", "node": "b", "key": "k1"}); err != nil {
		t.Fatal(err)
	}
	q := h.WaitForRequests(t, id, 1)[0]
	if _, err := h.Update(t, id, contract.RequestConfirm, map[string]any{"id": q.ID, "approve": true, "arguments": map[string]any{"to": "bob"}}); err != nil {
		t.Fatal(err)
	}
	first := q.ID
	harness.WaitFor(t, "the request to the client", func() bool {
		open := h.Status(t, id).Requests
		if len(open) == 1 {
			q = open[0]
		}
		return q.ID != first
	})
	for range 2 {
		if err := h.Client.SignalWorkflow(context.Background(), id, "", q.Kind, map[string]any{"id": q.ID, "result": map[string]any{"sent": true}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := harness.Result(t, run); err != nil {
		t.Fatal(err)
	}
	harness.Record(t, h.Client, "requests", id, run.GetRunID())
}
