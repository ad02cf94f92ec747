package dialects

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/specadapter"
	"weft/starter/history"
	"weft/starter/transcript"
	"weft/tests/harness"
	"weft/workflows/plan"
)

// subflows are the flows that a node runs in [TestEndToEndSubflowConversations].
var subflows = `
one: {nodes: {s1: {component_type: StartNode, inputs: [{title: q, type: string}]}, a1: AGENT, e1: {component_type: EndNode, outputs: [{title: r, type: string}]}}, go: [s1 > a1 > e1], data: [a1.r > e1.r]}
first: {nodes: {s2: {component_type: StartNode}, a2: AGENT, e2: {component_type: EndNode}}, go: [s2 > a2 > e2]}
second: {nodes: {s3: {component_type: StartNode}, m3: {component_type: OutputMessageNode, message: Between.}, a3: AGENT, e3: {component_type: EndNode}}, go: [s3 > m3 > a3 > e3]}
broken: {nodes: {s4: {component_type: StartNode}, m4: {component_type: OutputMessageNode, message: Before.}, a4: AGENT, t4: {component_type: ToolNode, tool: {component_type: ServerTool, name: broken}}, e4: {component_type: EndNode}}, go: [s4 > m4 > a4 > t4 > e4]}
below: {nodes: {s5: {component_type: StartNode}, m5: {component_type: OutputMessageNode, message: Above.}, p5: {component_type: ParallelFlowNode, subflows: ['@broken']}, e5: {component_type: EndNode}}, go: [s5 > m5 > p5 > e5]}
elements: {nodes: {s6: {component_type: StartNode}, n6: {component_type: MapNode, subflow: '@element', inputs: [{title: iterated_q, type: array, items: {type: string}, default: [a, b]}]}, e6: {component_type: EndNode}}, go: [s6 > n6 > e6]}
element: {nodes: {s7: {component_type: StartNode, inputs: [{title: q, type: string}]}, m7: {component_type: OutputMessageNode, message: Element.}, t7: {component_type: ToolNode, tool: {component_type: ServerTool, name: broken}}, e7: {component_type: EndNode}}, go: [s7 > m7 > t7 > e7]}
many: {nodes: {s8: {component_type: StartNode}, n8: {component_type: ParallelMapNode, subflow: '@element', inputs: [{title: iterated_q, type: array, items: {type: string}, default: [a]}]}, e8: {component_type: EndNode}}, go: [s8 > n8 > e8]}
`

const subflowAgent = "{component_type: AgentNode, agent: {component_type: Agent, name: a, llm_config: '@m', human_in_the_loop: false, system_prompt: A, outputs: [{title: r, type: string}]}}"

// TestEndToEndSubflowConversations checks that the conversation of a run has all messages of its subflows, in the run itself or in
// child workflows, with and without continue-as-new, including those of failed flows, and that it can be read from history.
func TestEndToEndSubflowConversations(t *testing.T) {
	t.Parallel()
	h := yieldWorker(t, harness.TestRun{Functions: []tool.Function{tool.Func("broken", "", func(context.Context, struct{}) (any, error) { return nil, errors.New("out of paper") })}})
	options := specadapter.Options{}
	options.UnboundTools = map[string]bool{"broken": true}
	tests := map[string]struct {
		node string
		want []string
	}{
		"a map":                              {"{component_type: MapNode, subflow: '@one'}", []string{"by a1", "by a1"}},
		"a parallel map":                     {"{component_type: ParallelMapNode, subflow: '@one'}", []string{"by a1", "by a1"}},
		"parallel flows":                     {"{component_type: ParallelFlowNode, subflows: ['@first', '@second']}", []string{"by a2", "Between.", "by a3"}},
		"nothing to catch":                   {"{component_type: CatchExceptionNode, subflow: '@second'}", []string{"Between.", "by a3"}},
		"a caught failure":                   {"{component_type: CatchExceptionNode, subflow: '@broken'}", []string{"Before.", "by a4", "out of paper"}},
		"a caught failure of a nested flow":  {"{component_type: CatchExceptionNode, subflow: '@below'}", []string{"Above.", "Before.", "by a4", "out of paper"}},
		"a caught failure in a map":          {"{component_type: CatchExceptionNode, subflow: '@elements'}", []string{"Element.", "out of paper"}},
		"a caught failure in a parallel map": {"{component_type: CatchExceptionNode, subflow: '@many'}", []string{"Element.", "out of paper"}},
		"a failure that ends the run":        {"{component_type: ParallelFlowNode, subflows: ['@broken']}", []string{"Before.", "by a4", "out of paper"}},
	}
	for name, tc := range tests {
		doc := "flow: {nodes: {s: {component_type: StartNode, inputs: [{title: qs, type: array, items: {type: string}, default: [a, b]}]}, n: " + tc.node + ", e: {component_type: EndNode}}, go: [s > n > e"
		switch {
		case strings.Contains(tc.node, "Catch"):
			doc += ", n.caught_exception_branch > e]}"
		case strings.Contains(tc.node, "Map"):
			doc += "], data: [s.qs > n.iterated_q]}"
		default:
			doc += "]}"
		}
		res, diags := specadapter.Load("flow.json", []byte(specDoc(t, doc+strings.ReplaceAll(subflows, "AGENT", subflowAgent))), options)
		if res == nil {
			t.Fatal(diags)
		}
		for _, policy := range []string{"", plan.BranchesAsChildren} {
			for _, events := range []int{0, 1} {
				t.Run(fmt.Sprint(name, policy, events), func(t *testing.T) {
					t.Parallel()
					flow := *res.Flow
					flow.Policy.Branches = policy
					run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: &flow, Source: &res.Source}, MaxEvents: events, OnError: contract.OnErrorFail,
						Script: harness.Script(t, subflowScript)})
					if out, err := harness.Result(t, run); (err != nil) != strings.HasSuffix(name, "the run") {
						t.Fatal(out, err)
					}
					if got := conversationTexts(h.Status(t, run.GetID()).Conversation); !slices.Equal(got, tc.want) {
						t.Errorf("conversation in the status = %q, want %q", got, tc.want)
					}
					compareTranscript(t, h, run.GetID(), run.GetRunID(), tc.want)
					h.PlayRecording(t, run.GetID(), run.GetRunID())
				})
			}
		}
	}
}

const subflowScript = `rules:
- {node: a1, call: [{tool: submit_result, arguments: {r: by a1}}]}
- {node: a2, call: [{tool: submit_result, arguments: {r: by a2}}]}
- {node: a3, call: [{tool: submit_result, arguments: {r: by a3}}]}
- {node: a4, call: [{tool: submit_result, arguments: {r: by a4}}]}
`

// compareTranscript compares the conversation in a closed run's history, and checks that no thread lacks a message.
func compareTranscript(t *testing.T, h *harness.Worker, id, last string, want []string) {
	t.Helper()
	read, err := transcript.Read(t.Context(), history.From(h.Client), id, last)
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range read.Threads() {
		var messages []contract.Message
		for i, m := range thread.Messages {
			if m == nil {
				t.Errorf("message %d of %s is not in the history", i, thread.Thread)
				m = &contract.Message{}
			}
			messages = append(messages, *m)
		}
		if got := conversationTexts(messages); thread.Thread == contract.ConversationThread && !slices.Equal(got, want) {
			t.Errorf("conversation in the transcript = %q, want %q", got, want)
		}
	}
}

// conversationTexts returns the messages of nodes and users, and the results that agents submitted.
func conversationTexts(messages []contract.Message) (out []string) {
	for _, m := range messages {
		if len(m.Calls) == 0 && m.Text != "Begin." {
			out = append(out, strings.TrimSuffix(strings.TrimPrefix(m.Text, `{"r":"`), `"}`))
		}
	}
	return out
}
