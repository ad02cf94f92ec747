package dialects

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/specadapter"
	"weft/tests/harness"
	"weft/workflows/plan"
)

// orderFlows holds flows whose map elements run concurrently, with two calls each, until one of them fails.
const orderFlows = `
flow: {nodes: {s: {component_type: StartNode, inputs: [{title: qs, type: array, items: {type: string}, default: [fast, bad, slow]}]}, c: NODE, m: {component_type: OutputMessageNode, message: After.}, e: {component_type: EndNode}}, go: [s > c > m > e, c.caught_exception_branch > m], data: [s.qs > c.qs]}
mid: {nodes: {s2: {component_type: StartNode, inputs: [{title: qs, type: array, items: {type: string}}]}, p: {component_type: ParallelMapNode, subflow: '@one'}, e2: {component_type: EndNode}}, go: [s2 > p > e2], data: [s2.qs > p.iterated_q]}
out: {nodes: {s3: {component_type: StartNode, inputs: [{title: qs, type: array, items: {type: string}}]}, p3: {component_type: ParallelFlowNode, subflows: ['@mid', '@other']}, e3: {component_type: EndNode}}, go: [s3 > p3 > e3], data: [s3.qs > p3.qs]}
other: {nodes: {s4: {component_type: StartNode}, t4: {component_type: ToolNode, tool: {component_type: ServerTool, name: first, inputs: [{title: q, type: string, default: slow}]}}, e4: {component_type: EndNode}}, go: [s4 > t4 > e4]}
one: {nodes: {s1: {component_type: StartNode, inputs: [{title: q, type: string}]}, t1: {component_type: ToolNode, tool: {component_type: ServerTool, name: first, inputs: [{title: q, type: string}]}}, t2: {component_type: ToolNode, tool: {component_type: ServerTool, name: second, inputs: [{title: q, type: string}]}}, e1: {component_type: EndNode}}, go: [s1 > t1 > t2 > e1], data: [s1.q > t1.q, s1.q > t2.q]}
`

// orderTools returns the tools of [orderFlows]: bad fails once fast has made its second call, and slow ends after that, or
// when it is cancelled.
func orderTools() []tool.Function {
	type input struct {
		Q string `json:"q"`
	}
	started, failed := make(chan struct{}), make(chan struct{})
	var startOnce, failOnce sync.Once
	call := func(second bool) func(ctx context.Context, in input) (string, error) {
		return func(ctx context.Context, in input) (string, error) {
			wait := failed
			switch {
			case in.Q == "bad":
				wait = started
				defer failOnce.Do(func() { close(failed) })
			case in.Q == "fast" && !second:
				return "", nil
			case in.Q == "fast":
				startOnce.Do(func() { close(started) })
			}
			select {
			case <-wait:
			case <-ctx.Done():
				return "", ctx.Err()
			}
			if in.Q == "bad" {
				return "", errors.New("out of paper")
			}
			return "", nil
		}
	}
	return []tool.Function{tool.Func("first", "", call(false), tool.RetryNever()), tool.Func("second", "", call(true), tool.RetryNever())}
}

// TestEndToEndRecordedOrder plays recordings of runs in which one branch fails while others run: the same calls must be in
// progress at that point, whether branches are child workflows or not.
func TestEndToEndRecordedOrder(t *testing.T) {
	t.Parallel()
	host := specadapter.Options{}
	host.UnboundTools = map[string]bool{"first": true, "second": true}
	for name, node := range map[string]string{
		"a map":            "{component_type: CatchExceptionNode, subflow: '@mid'}",
		"a map and a flow": "{component_type: CatchExceptionNode, subflow: '@out'}",
		"not caught":       "{component_type: FlowNode, subflow: '@out'}",
	} {
		doc := strings.ReplaceAll(orderFlows, "NODE", node)
		if !strings.Contains(node, "Catch") {
			doc = strings.ReplaceAll(doc, ", c.caught_exception_branch > m", "")
		}
		res, diags := specadapter.Load("flow.json", []byte(specDoc(t, doc)), host)
		if res == nil {
			t.Fatal(diags)
		}
		for _, policy := range []string{"", plan.BranchesAsChildren} {
			t.Run(name+policy, func(t *testing.T) {
				t.Parallel()
				h := yieldWorker(t, harness.TestRun{Functions: orderTools()})
				flow := *res.Flow
				flow.Policy.Branches = policy
				run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: &flow, Source: &res.Source}, OnError: contract.OnErrorFail})
				if _, err := harness.Result(t, run); (err == nil) != strings.Contains(node, "Catch") {
					t.Fatal(err)
				}
				h.PlayRecording(t, run.GetID(), run.GetRunID())
			})
		}
	}
}
