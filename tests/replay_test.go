package tests

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows"
)

// histories is where recorded histories are kept: one run a file, NAME.json for the root and
// NAME@CHILD.json for its children.
const histories = "testdata/history"

// TestReplay runs today's workflow code against every recorded history.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob(histories + "/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no histories under %s: %v", histories, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			replay(t, raw)
		})
	}
}

func replay(t *testing.T, raw []byte) {
	t.Helper()
	history, err := client.HistoryFromJSON(strings.NewReader(string(raw)), client.HistoryJSONOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first := history.Events[0].GetWorkflowExecutionStartedEventAttributes()
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DisableDeadlockDetection: true}) // machines are busy
	if err != nil {
		t.Fatal(err)
	}
	workflows.Register(replayer)
	err = replayer.ReplayWorkflowHistoryWithOptions(quiet{}, history, worker.ReplayWorkflowHistoryOptions{
		OriginalExecution: workflow.Execution{ID: first.GetWorkflowId(), RunID: first.GetOriginalExecutionRunId()},
	})
	if err != nil {
		t.Error(err)
	}
}

// recording is a run whose history is recorded; profile is the dialect's reading.
type recording struct{ doc, script, input, profile string }

// recordings are the runs whose histories are recorded.
var recordings = map[string]recording{
	"agent-tools": {doc: oneNode(`,"max_iterations":3`), script: `rules:
- {turn: 1, call: [{tool: set_state, arguments: {key: k, value: 1}}, {tool: get_state, arguments: {keys: [k]}}]}
- {turn: 2, call: [{tool: list_state_keys}, {tool: list_state_keys}]}
- {say: spent}`},
	"agent-output": {doc: strings.Replace(oneNode(""), `{"type":1}`, `{"type":2,"payload":{"format":"JSON","output_schema":{"type":"object","required":["n"]}}}`, 1),
		script: `rules: [{turn: 1, say: "{}"}, {say: "{\"n\": 1}"}]`},
	"agent-condense": {doc: oneNode(""), script: `rules:
- {kind: condense, say: short}
- {turn: 1, call: [{tool: set_state_filtered, arguments: {key: k, value: "` + strings.Repeat("long ", 1000) + `"}}]}
- {say: done}`},
	"fork-deferred-join": {doc: forkAndJoin, script: `rules:
- {node: a, turn: 1, call: [{tool: set_state, arguments: {key: k, value: a}}]}
- {node: b, turn: 1, call: [{tool: set_state, arguments: {key: k, value: b}}]}
- {node: b, turn: 2, delay: 200ms, say: b}
- {say: done}`, input: strings.Repeat("a long input ", 200)},
	"fork-plain-join": {doc: strings.Replace(forkAndJoin, `"defer":true,`, "", 1), script: `rules: [{say: done}]`},
	"loop":            {doc: judgedLoop, script: `rules: [{question: "again?", step: 3, yes: false}, {question: "again?", yes: true}, {question: "done?", step: 3, yes: true}, {question: "done?", yes: false}, {say: ok}]`},
	"no-exit":         {doc: judgedLoop, script: `rules: [{kind: judge, yes: false}, {say: ok}]`},
	"step-limit":      {doc: judgedLoop, script: `rules: [{question: "again?", yes: true}, {question: "done?", yes: false}, {say: ok}]`},
	"sub-agent": {doc: bundle, script: `rules:
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}, {tool: call_sub_agent, arguments: {user_question: two}}]}
- {say: done}`},
	"sub-agent-inline": {doc: oneNode(""), script: `rules:
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: q, agent_def: {name: S, nodes: [{id: s, name: S, prompt: p}], edges: [{id: e1, source: START, target: s}, {id: e2, source: s, target: END}]}}}]}
- {say: done}`},
	"published": {doc: oneNode(""), script: `rules: [{say: done}]`},
	"koog-loop": {doc: koogLoop, input: "a verse", script: `rules:
- {node: write, turn: 1, say: I would rather talk}
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
	"koog-conversation": {doc: koogShared, profile: "koog", input: "topic", script: `rules:
- {node: begin, turn: 1, say: hello}
- {node: begin, call: [{tool: finalize_task_result, arguments: {__wrapped_value__: "7"}}]}
- {node: "both.left", call: [{tool: finalize_task_result, arguments: {__wrapped_value__: left}}]}
- {node: "both.right", match: plan the next steps, say: a thought}
- {node: "both.right", say: right}
- {node: end, contains: a thought, call: [{tool: finalize_task_result, arguments: {isCorrect: false, feedback: f}}]}
- {node: "left", call: [{tool: finalize_task_result, arguments: {__wrapped_value__: left}}]}`},
	"agentspec-mixed":  {doc: agentspecMixed, script: agentspecMixedScript},
	"agentspec-talk":   {doc: agentspecTalk, script: agentspecTalkScript},
	"agentspec-swarm":  {doc: agentspecSwarm, script: agentspecSwarmScript},
	"agentspec-team":   {doc: agentspecWorkers, script: agentspecWorkersScript},
	"agentspec-digest": {doc: agentspecDigest, script: agentspecDigestScript},
	"branch-fails":     {doc: forkAndJoin, script: `rules: [{node: a, fail: {class: refused, text: not that}}, {delay: 20s, say: late}]`},
}

// koogLoop verifies and mends once; its first node is reminded to call a tool.
const koogLoop = `{"id":"loop","version":"1","defaultModel":"openai/gpt-4o","agents":[{"name":"write","type":"task","params":{"task":"write"}},
{"name":"check","type":"verify","params":{"task":"check"}},{"name":"say","type":"transform","params":{"transformations":[{"value":"input.feedback"}]}},
{"name":"fix","type":"task","params":{"task":"fix"}}],
"transitions":[{"from":"write","to":"check"},{"from":"check","to":"__finish__","condition":{"variable":"input.success","operation":"equals","value":true},"transformation":{"value":"output.input"}},
{"from":"check","to":"say","condition":{"variable":"input.success","operation":"not","value":true}},{"from":"say","to":"fix"},{"from":"fix","to":"check"}]}`

// koogParallel lets two agents run beside each other and goes on with what both gave.
const koogParallel = `{"id":"parallel","version":"1","defaultModel":"openai/gpt-4o","agents":[{"name":"all","type":"parallel","params":{"agents":["one","two"]}},
{"name":"one","type":"task","params":{"task":"one"}},{"name":"two","type":"react","params":{"task":"two"}},{"name":"last","type":"task","params":{"task":"last"}}],
"transitions":[{"from":"all","to":"last"}]}`

// koogShared is one conversation of all agents, which forks, and goes on with one of the forks.
const koogShared = `{"id":"shared","version":"1","defaultModel":"ollama/qwq","agents":[{"name":"begin","type":"task","config":{"maxIterations":200},"params":{"task":"begin"}},
{"name":"both","type":"parallel","params":{"agents":["left","right"],"merge":{"variable":"results.1.output","operation":"equals","value":"never looked at"}}},
{"name":"left","type":"task","params":{"task":"left"}},{"name":"right","type":"react","params":{"task":"right"}},{"name":"end","type":"verify","params":{"task":"end"}}],
"transitions":[{"from":"begin","to":"both","condition":{"variable":"output.data","operation":"equals","value":7}},{"from":"both","to":"end"}]}`

// judgedLoop goes round until a judge lets it out.
const judgedLoop = `{"name":"loop","nodes":[{"id":"a","name":"A","prompt":"p"},{"id":"x","name":"X","prompt":"p","is_exit_node":true}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"again","source":"a","target":"a","condition_prompt":"again?"},
{"id":"out","source":"a","target":"x","condition_prompt":"done?"},{"id":"e4","source":"x","target":"END"}]}`

// TestEndToEndRecord runs the recordings on a real server and replays what they leave. With
// WEFT_RECORD=1 it writes the histories that are not there yet.
func TestEndToEndRecord(t *testing.T) {
	h := newHand(t, 0)
	for name, r := range recordings {
		t.Run(name, func(t *testing.T) {
			run := h.start(t, contract.RunInput{Flow: contract.FlowRef{Text: r.doc, Name: "flow.json", Profile: r.profile}, Input: r.input, Script: script(t, r.script)})
			_, _ = resultOf(t, run) // some are meant to fail
			save(t, h.client, name, run.GetID(), run.GetRunID())
		})
	}
}

// save replays a run's history and those of its children, and writes them if asked to.
func save(t *testing.T, c client.Client, name, id, run string) {
	t.Helper()
	list := events(t, c, id, run)
	raw, err := temporalproto.CustomJSONMarshalOptions{Indent: " "}.Marshal(&historypb.History{Events: list})
	if err != nil {
		t.Fatal(err)
	}
	raw = anonymous(t, raw)
	replay(t, raw)
	file := filepath.Join(histories, name+".json")
	if _, err := os.Stat(file); os.Getenv("WEFT_RECORD") != "" && err != nil {
		if err := os.WriteFile(file, raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range list {
		if a := e.GetChildWorkflowExecutionStartedEventAttributes(); a != nil {
			_, child, _ := strings.Cut(a.WorkflowExecution.WorkflowId, "/")
			closed(t, c, a.WorkflowExecution.WorkflowId, a.WorkflowExecution.RunId)
			save(t, c, name+"@"+strings.NewReplacer("/", "+", ":", "_").Replace(child), a.WorkflowExecution.WorkflowId, a.WorkflowExecution.RunId)
		}
	}
}

// closed waits until a run has ended.
func closed(t *testing.T, c client.Client, id, run string) {
	waitFor(t, id+" to end", func() bool {
		d, err := c.DescribeWorkflowExecution(context.Background(), id, run)
		return err == nil && d.WorkflowExecutionInfo.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	})
}

// anonymous takes the names of machines and processes out of a history.
func anonymous(t *testing.T, raw []byte) []byte {
	t.Helper()
	var v any
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	var walk func(v any)
	walk = func(v any) {
		switch x := v.(type) {
		case map[string]any:
			delete(x, "identity")
			if x["kind"] == "TASK_QUEUE_KIND_STICKY" {
				x["name"] = "sticky"
			}
			for _, v := range x {
				walk(v)
			}
		case []any:
			for _, i := range x {
				walk(i)
			}
		}
	}
	walk(v)
	out, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}

// TestEndToEndRecordRequests records a run that waits: a sub-agent in a branch for a person and
// for its client, beside a branch that is told something.
func TestEndToEndRecordRequests(t *testing.T) {
	h := confirmed(t)
	run := h.start(t, contract.RunInput{Flow: contract.FlowRef{Text: patience, Name: "flow.json"}, DataConnections: mailTools(),
		Script: script(t, `rules:
- {question: "again?", step: 2, yes: false}
- {question: "enough?", step: 2, yes: true}
- {question: "again?", yes: true}
- {question: "enough?", yes: false}
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}, {tool: set_state, arguments: {key: k, value: 1}}]}
- {node: s, turn: 1, call: [{tool: send_mail, arguments: {to: ann}}]}
- {node: b, delay: 500ms, say: ok}
- {say: ok}`)})
	id := run.GetID()
	if _, err := h.update(t, id, contract.RequestMessage, map[string]any{"text": "hurry", "node": "b", "key": "k1"}); err != nil {
		t.Fatal(err)
	}
	q := h.open(t, id, 1)[0]
	if _, err := h.update(t, id, contract.RequestConfirm, map[string]any{"id": q.ID, "approve": true, "arguments": map[string]any{"to": "bob"}}); err != nil {
		t.Fatal(err)
	}
	first := q.ID
	waitFor(t, "the client to be asked", func() bool {
		open := h.status(t, id).Requests
		if len(open) == 1 {
			q = open[0]
		}
		return q.ID != first
	})
	for range 2 {
		if err := h.client.SignalWorkflow(context.Background(), id, "", q.Kind, map[string]any{"id": q.ID, "result": map[string]any{"sent": true}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := resultOf(t, run); err != nil {
		t.Fatal(err)
	}
	save(t, h.client, "requests", id, run.GetRunID())
}
