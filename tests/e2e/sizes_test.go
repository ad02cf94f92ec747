package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/worker/store"
	"weft/workflows/plan"
)

// fullSize selects the full sizes; make sizes sets it.
var fullSize = os.Getenv("WEFT_SIZES") != ""

// sizeCase is a run with a large part, of size n.
type sizeCase struct {
	// short is n by default, full is n with WEFT_SIZES.
	short, full int
	store       bool
	input       func(t *testing.T, n int) contract.RunInput
	// whileOpen, if set, is called after the run has started.
	whileOpen func(t *testing.T, h *harness.Worker, run client.WorkflowRun, n int)
	// result is the text or data of the result. If fullClass is set, the run instead fails with this class at node in full
	// size.
	result          func(n int) string
	fullClass, node string
	// calls is the number of model calls. minContinued is the least number of times that the run continues as new in full size.
	calls        func(n int) int
	minContinued int
}

// TestEndToEndSizes checks that runs with a large part complete, or fail at the expected node with the expected class.
// No run is terminated, no workflow task fails, and no model call is repeated.
func TestEndToEndSizes(t *testing.T) {
	t.Parallel()
	joined := func(int) string { return "joined" }
	oneEach := func(n int) int { return n + 1 }
	cases := map[string]sizeCase{
		"branches of 200 KB": {short: 20, full: 200, calls: oneEach, result: joined,
			input: func(t *testing.T, n int) contract.RunInput { return wideFlow(t, n, sayRule("", 200_000)) }},
		"branches of 200 KB with a store": {short: 20, full: 200, store: true, calls: oneEach, result: joined,
			input: func(t *testing.T, n int) contract.RunInput { return wideFlow(t, n, sayRule("", 200_000)) }},
		"branches with 500 KB of input": {short: 12, full: 120, calls: oneEach, result: joined,
			input: func(t *testing.T, n int) contract.RunInput {
				in := wideFlow(t, n, sayRule("", 10))
				in.State = shortValues(500, 980)
				return in
			}},
		"one long response among short ones": {short: 60, full: 120, calls: oneEach, result: joined,
			input: func(t *testing.T, n int) contract.RunInput {
				return wideFlow(t, n, sayRule("node: b7, ", 800_000), sayRule("", 10))
			}},
		"terminal branches that exceed a history": {short: 4, full: 40, minContinued: 1, result: joined, calls: oneEach,
			input: func(t *testing.T, n int) contract.RunInput {
				in := wideFlow(t, n, sayRule("", 1_800_000))
				for i := range in.Flow.Plan.Edges {
					if e := &in.Flow.Plan.Edges[i]; e.To == "join" {
						e.To = plan.End
					}
				}
				in.Flow.Plan.Edges = append(in.Flow.Plan.Edges, plan.Edge{ID: "last", From: plan.Start, To: "join"})
				return in
			}},
		"sub-agents that exceed their reservations": {short: 3, full: 40, calls: func(n int) int { return n + 2 }, result: joined, input: subAgents},
		"sub-agents that exceed a history": {short: 3, full: 60, calls: func(n int) int { return n + 2 }, result: joined, input: subAgents,
			fullClass: contract.ClassStateTooLarge, node: "a"},
		"sub-agents with a store": {short: 3, full: 60, store: true, calls: func(n int) int { return n + 2 }, result: joined, input: subAgents},
		"a map": {short: 100, full: 10_000, calls: func(int) int { return 0 }, result: total,
			input: func(t *testing.T, n int) contract.RunInput { return mapFlow(t, n, passElement) }},
		"a map of children": {short: 20, full: 5000, minContinued: 1, calls: func(int) int { return 0 }, result: total,
			input: func(t *testing.T, n int) contract.RunInput {
				in := mapFlow(t, n, passElement)
				f, err := harness.Compile(in.Flow)
				if err != nil {
					t.Fatal(err)
				}
				in.Flow = contract.FlowRef{Plan: harness.WithChildBranches(f.Plan)}
				return in
			}},
		"a map whose results exceed a history": {short: 4, full: 60, minContinued: 1, calls: func(n int) int { return n }, result: total,
			input: func(t *testing.T, n int) contract.RunInput {
				in := mapFlow(t, n, modelElement)
				f, err := harness.Compile(in.Flow)
				if err != nil {
					t.Fatal(err)
				}
				f.Plan.Node("each").Call.AtOnce = n
				in.Flow, in.Script = contract.FlowRef{Plan: f.Plan}, harness.Script(t, "rules: ["+sayRule("", 900_000)+"]")
				return in
			}},
		"a map of long conversations": {short: 3, full: 12, calls: func(n int) int { return n }, result: total,
			input: func(t *testing.T, n int) contract.RunInput {
				in := mapFlow(t, n, messagesElement)
				f, err := harness.Compile(in.Flow)
				if err != nil {
					t.Fatal(err)
				}
				in.Flow, in.Script = contract.FlowRef{Plan: harness.WithChildBranches(f.Plan)}, harness.Script(t, "rules: ["+sayRule("", 800_000)+"]")
				return in
			}},
		"an agent's turns of 6 KiB": {short: 50, full: 1000, calls: func(n int) int { return n }, result: joined,
			input: func(t *testing.T, n int) contract.RunInput {
				return contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(`,"max_iterations":10000`), Name: "flow.json"}, Script: harness.Script(t, fmt.Sprintf(`rules:
- {turn: %d, say: joined}
- {call: [{tool: set_state, arguments: {key: k, value: %s}}]}`, n, strings.Repeat("v", 6<<10)))}
			}},
		"a session's turns of 6 KiB": {short: 20, full: 1000, calls: oneEach, whileOpen: sendPrompts,
			result: func(int) string { return strings.Repeat("w", 6<<10) },
			input: func(t *testing.T, _ int) contract.RunInput {
				return contract.RunInput{Flow: contract.FlowRef{Plan: harness.AgentFlow("talker")}, Params: json.RawMessage(`{"prompt":"one"}`), Session: true,
					Script: harness.Script(t, "rules: ["+sayRule("", 6<<10)+"]")}
			}},
		"signals": {short: 900, full: 9_000, minContinued: 1, calls: func(int) int { return 1 }, whileOpen: sendSignals, result: joined,
			input: func(t *testing.T, _ int) contract.RunInput {
				return contract.RunInput{Flow: contract.FlowRef{Plan: askFlow(2)}, Script: harness.Script(t, `rules: [{say: joined}]`)}
			}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := tc.full
			if !fullSize {
				t.Parallel()
				n = tc.short
			}
			v := newStoreEnv(t)
			if !tc.store {
				v.settings = store.Settings{}
			}
			v.startWorker(t, true, true)
			h := &harness.Worker{Client: v.dial(t), Queue: v.queue}
			start := time.Now()
			run := h.Start(t, tc.input(t, n))
			first := run.GetRunID()
			if tc.whileOpen != nil {
				tc.whileOpen(t, h, run, n)
			}
			out, err := harness.Result(t, run)
			f := contract.FailureOf(err)
			switch {
			case fullSize && tc.fullClass != "":
				if f == nil || f.Class != tc.fullClass || f.Node != tc.node || f.Remedy == "" {
					t.Errorf("run ended with %.300v, %.500v", out, err)
				}
			case err != nil:
				t.Errorf("run failed: %.500v", err)
			case out.Usage.Calls != tc.calls(n) || harness.ResultText(out) != tc.result(n):
				t.Errorf("%.100q after %d model calls, want %.100q after %d", harness.ResultText(out), out.Usage.Calls, tc.result(n), tc.calls(n))
			}
			took := time.Since(start)
			totals := walkRuns(t, h.Client, run.GetID(), first)
			t.Logf("%d: %s, %+v", n, took.Round(time.Second/10), totals)
			if totals.calls > tc.calls(n) || err == nil && totals.calls != tc.calls(n) {
				t.Errorf("%d model calls were scheduled, want %d", totals.calls, tc.calls(n))
			}
			if fullSize && totals.continued < tc.minContinued {
				t.Errorf("run continued as new %d times, want at least %d", totals.continued, tc.minContinued)
			}
		})
	}
}

// sayRule returns a script rule that makes a model return n bytes.
func sayRule(when string, n int) string {
	return fmt.Sprintf(`{%ssay: "%s"}`, when, strings.Repeat("w", n))
}

// wideFlow returns the input of a flow with n branches and a join that returns "joined".
func wideFlow(t *testing.T, n int, rules ...string) contract.RunInput {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("b", i)
	}
	return contract.RunInput{Flow: contract.FlowRef{Plan: harness.FanIn("wide", names...)},
		Script: harness.Script(t, "rules:\n- {node: join, say: joined}\n- "+strings.Join(rules, "\n- "))}
}

// subAgents returns the input of an agent that calls n sub-agents in parallel and returns "joined". Each sub-agent
// returns the maximum size of a tool result.
func subAgents(t *testing.T, n int) contract.RunInput {
	calls := strings.Repeat("{tool: call_sub_agent, arguments: {user_question: q}}, ", n)
	doc := strings.Replace(harness.SubAgentFlow, `"prompt":"ask"`, `"prompt":"ask","max_iterations":1000`, 1)
	return contract.RunInput{Flow: contract.FlowRef{Text: doc, Name: "flow.json"}, Script: harness.Script(t, fmt.Sprintf(`rules:
- {node: a, turn: 1, call: [%s]}
- {node: a, say: joined}
- %s`, calls, sayRule("", 900_000)))}
}

// The sub-flows of a map: one returns its number, one also a model's response, and one appends messages to its
// conversation.
const (
	passElement = `{"component_type":"Flow","name":"one","start_node":{"$component_ref":"s1"},"nodes":[{"$component_ref":"s1"},{"$component_ref":"e1"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"a","from_node":{"$component_ref":"s1"},"to_node":{"$component_ref":"e1"}}]}`
	modelElement = `{"component_type":"Flow","name":"one","start_node":{"$component_ref":"s1"},"nodes":[{"$component_ref":"s1"},{"$component_ref":"say"},{"$component_ref":"e2"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"a","from_node":{"$component_ref":"s1"},"to_node":{"$component_ref":"say"}},
{"component_type":"ControlFlowEdge","name":"b","from_node":{"$component_ref":"say"},"to_node":{"$component_ref":"e2"}}]}`
	messagesElement = `{"component_type":"Flow","name":"one","start_node":{"$component_ref":"s1"},"nodes":[{"$component_ref":"s1"},{"$component_ref":"say"},
{"$component_ref":"m1"},{"$component_ref":"m2"},{"$component_ref":"m3"},{"$component_ref":"e1"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"a","from_node":{"$component_ref":"s1"},"to_node":{"$component_ref":"say"}},
{"component_type":"ControlFlowEdge","name":"b","from_node":{"$component_ref":"say"},"to_node":{"$component_ref":"m1"}},
{"component_type":"ControlFlowEdge","name":"c","from_node":{"$component_ref":"m1"},"to_node":{"$component_ref":"m2"}},
{"component_type":"ControlFlowEdge","name":"d","from_node":{"$component_ref":"m2"},"to_node":{"$component_ref":"m3"}},
{"component_type":"ControlFlowEdge","name":"e","from_node":{"$component_ref":"m3"},"to_node":{"$component_ref":"e1"}}]}`
)

// mapFlow returns the input of a flow that adds up the numbers below n, each returned by a sub-flow.
func mapFlow(t *testing.T, n int, element string) contract.RunInput {
	xs := make([]int, n)
	for i := range xs {
		xs[i] = i
	}
	return contract.RunInput{Params: harness.EncodeJSON(t, map[string]any{"xs": xs}), Flow: contract.FlowRef{Name: "flow.json", Text: `{"component_type":"Flow","agentspec_version":"26.1.2","name":"mapped","start_node":{"$component_ref":"start"},
"nodes":[{"$component_ref":"start"},{"$component_ref":"each"},{"$component_ref":"end"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"1","from_node":{"$component_ref":"start"},"to_node":{"$component_ref":"each"}},
{"component_type":"ControlFlowEdge","name":"2","from_node":{"$component_ref":"each"},"to_node":{"$component_ref":"end"}}],
"data_flow_connections":[{"component_type":"DataFlowEdge","name":"3","source_node":{"$component_ref":"start"},"source_output":"xs","destination_node":{"$component_ref":"each"},"destination_input":"iterated_x"},
{"component_type":"DataFlowEdge","name":"4","source_node":{"$component_ref":"each"},"source_output":"collected_x","destination_node":{"$component_ref":"end"},"destination_input":"total"}],
"$referenced_components":{
"m":{"component_type":"OpenAiConfig","name":"m","model_id":"m"},
"start":{"component_type":"StartNode","name":"start","inputs":[{"title":"xs","type":"array","items":{"type":"integer"}}]},
"each":{"component_type":"ParallelMapNode","name":"each","reducers":{"x":"sum"},"subflow":{"$component_ref":"one"}},
"end":{"component_type":"EndNode","name":"end","outputs":[{"title":"total","type":"integer"}]},
"s1":{"component_type":"StartNode","name":"s1","inputs":[{"title":"x","type":"integer"}]},
"say":{"component_type":"LlmNode","name":"say","llm_config":{"$component_ref":"m"},"prompt_template":"Say {{x}}","outputs":[{"title":"words","type":"string"}]},
"m1":{"component_type":"OutputMessageNode","name":"m1","message":"{{x}}, first: {{words}}"},
"m2":{"component_type":"OutputMessageNode","name":"m2","message":"{{x}}, then: {{words}}"},
"m3":{"component_type":"OutputMessageNode","name":"m3","message":"{{x}}, last: {{words}}"},
"e1":{"component_type":"EndNode","name":"e1","outputs":[{"title":"x","type":"integer"}]},
"e2":{"component_type":"EndNode","name":"e2","outputs":[{"title":"x","type":"integer"},{"title":"words","type":"string"}]},
"one":` + element + `}}`}}
}

// total returns the result of [mapFlow].
func total(n int) string { return fmt.Sprintf(`{"total":%d}`, n*(n-1)/2) }

// sendPrompts sends a session n prompts in addition to its first, and closes it.
func sendPrompts(t *testing.T, h *harness.Worker, run client.WorkflowRun, n int) {
	for i := range n {
		h.Prompt(t, run.GetID(), fmt.Sprint("p", i), "more")
	}
	if _, err := h.Update(t, run.GetID(), contract.UpdateCloseSession, map[string]any{}); err != nil {
		t.Fatal(err)
	}
}

// sendSignals sends n signals to a run with two open requests, and then answers those.
func sendSignals(t *testing.T, h *harness.Worker, run client.WorkflowRun, n int) {
	open := h.WaitForRequests(t, run.GetID(), 2)
	var wg sync.WaitGroup
	const senders = 6
	for s := range senders {
		wg.Go(func() {
			for i := s; i < n; i += senders {
				if err := h.Client.SignalWorkflow(t.Context(), run.GetID(), "", contract.RequestMessage, map[string]any{"id": fmt.Sprint("nobody", i), "text": "hello"}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, q := range open {
		sendUpdate(t, h, run.GetID(), contract.RequestMessage, map[string]any{"id": q.ID, "text": "yes"}, nil)
	}
}

// runTotals counts what the runs of a tree have done.
type runTotals struct {
	runs, continued, calls, fetched int
	// largest is the size of the largest history.
	largest int
}

// walkRuns reads the histories of a run, of its continuations and of all their children.
func walkRuns(t *testing.T, c client.Client, id, run string) (all runTotals) {
	t.Helper()
	for run != "" {
		all.runs++
		all.largest = max(all.largest, historyBytes(t, c, id, run))
		next := ""
		for _, e := range harness.Events(t, c, id, run) {
			switch e.GetEventType() {
			case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
				t.Errorf("%s ended with %s", id, e.GetEventType())
			case enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED:
				// The server itself fails a task during which it has buffered 2 MiB of results, and schedules the next.
				switch f := e.GetWorkflowTaskFailedEventAttributes(); f.Cause {
				case enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND, enumspb.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND:
				default:
					t.Errorf("workflow task of %s failed: %.300v", id, f)
				}
			case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
				next = e.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
				all.continued++
			case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
				switch e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() {
				case contract.ActivityCallModel, contract.ActivityEvaluateCondition:
					all.calls++
				case contract.ActivityFetchResult:
					all.fetched++
				}
			case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED:
				w := e.GetChildWorkflowExecutionStartedEventAttributes().GetWorkflowExecution()
				child := walkRuns(t, c, w.GetWorkflowId(), w.GetRunId())
				all.runs, all.calls, all.fetched, all.largest = all.runs+child.runs, all.calls+child.calls, all.fetched+child.fetched, max(all.largest, child.largest)
			}
		}
		run = next
	}
	return all
}
