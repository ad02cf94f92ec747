package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/workflows/plan"
)

// The agent loop's tool and its connection in the worker's settings.
const (
	toolName       = "note"
	toolConnection = "web"
	// pureName is a function registered on the worker.
	pureName = "jot"
)

// turnBytes is what one turn of an agent loop adds to the conversation: half as the model's arguments
// of a tool call, half as the tool's result.
const turnBytes = 6 << 10

// start is a workflow type and its input.
type start struct {
	kind  string
	input any
}

// workload is the same work for both sides.
type workload struct {
	// steps is the number of model calls; twinSteps is the twin's, if different.
	steps, twinSteps int
	ours, twin       start
}

// form runs the branches of both sides as child workflows, or as coroutines of one workflow.
func (w workload) form(children bool) workload {
	in := w.ours.input.(contract.RunInput)
	f := *in.Flow.Plan
	if children {
		f.Policy.Branches = plan.BranchesAsChildren
	}
	in.Flow.Plan = &f
	w.ours.input = in
	switch twin := w.twin.input.(type) {
	case twinInput:
		twin.InPlace = !children
		w.twin.input = twin
	case twinMapInput:
		twin.InPlace = !children
		w.twin.input = twin
	}
	return w
}

// formName returns the name of a workload's form.
func formName(children bool) string {
	if children {
		return "child workflows"
	}
	return "one workflow"
}

func systemOf(node string) string {
	return "You are the step " + node + " of a flow. Do your part and say what came out of it in one or two sentences."
}

// graph returns parallel branches, each a chain, and a deferred join, as our plan and as names
// for the twin. Without a join there is one branch.
func graph(name string, branches [][]string, join string, script json.RawMessage) workload {
	const text = "Look into the matter of the benchmark."
	f := newPlan(name)
	steps := 0
	edge := func(from, to string) {
		f.Edges = append(f.Edges, plan.Edge{ID: fmt.Sprintf("e%d", len(f.Edges)+1), From: from, To: to})
	}
	end := plan.End
	if join != "" {
		end = join
	}
	for _, nodes := range branches {
		from := plan.Start
		for _, id := range nodes {
			f.Nodes = append(f.Nodes, node(id))
			edge(from, id)
			from = id
			steps++
		}
		edge(from, end)
	}
	if join != "" {
		f.Nodes = append(f.Nodes, node(join))
		f.Nodes[len(f.Nodes)-1].Deferred = true
		edge(join, plan.End)
		steps++
	}
	f.Nodes[len(f.Nodes)-1].Exit = true
	return workload{steps: steps,
		ours: start{contract.WorkflowFlow, contract.RunInput{V: contract.Version, Flow: contract.FlowRef{Plan: f}, Input: text, Model: llm.ScriptModel, Script: script}},
		twin: start{workflowTwin, twinInput{Model: llm.ScriptModel, Text: text, Script: script, Branches: branches, Join: join}},
	}
}

func newPlan(name string) *plan.Flow {
	f := &plan.Flow{Version: plan.Version, Name: name, Dialect: "continuum", Limits: plan.DefaultLimits, Policy: plan.DefaultPolicy}
	f.Limits.MaxSteps = 10_000
	return f
}

func node(id string) plan.Node {
	return plan.Node{ID: id, Name: id, Kind: plan.KindAgent, Agent: &plan.Agent{Prompt: id, System: systemOf(id), MaxCalls: 100_000, MaxErrors: 3}}
}

// names returns n names with a prefix.
func names(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s%d", prefix, i+1)
	}
	return out
}

// tenCalls is ten sequential model calls.
func tenCalls() workload { return graph("ten", [][]string{names("s", 10)}, "", nil) }

// criticalPath is the duration of the longest of the three chains.
const criticalPath = 700 * time.Millisecond

// threeChains has a slow call at a different position in each branch.
func threeChains() (workload, error) {
	branches := [][]string{names("a", 3), names("b", 3), names("c", 3)}
	var rules []string
	for i, nodes := range branches {
		for k, id := range nodes {
			delay := 100
			if i == k {
				delay = 500
			}
			rules = append(rules, fmt.Sprintf(`{"node":%q,"delay":"%dms","say":"%s is done"}`, id, delay, id))
		}
	}
	script, err := scriptOf(append(rules, `{"say":"all is done"}`)...)
	return graph("chains", branches, "join", script), err
}

// manyBranches is n branches of one call each, and a join.
func manyBranches(n int) (workload, error) {
	branches := make([][]string, n)
	for i, id := range names("item", n) {
		branches[i] = []string{id}
	}
	script, err := scriptOf(`{"say":"the item is dealt with"}`)
	return graph("fork", branches, "join", script), err
}

// waiting is one model call that does not return while the benchmark runs.
func waiting() (workload, error) {
	script, err := scriptOf(`{"delay":"1h","say":"late"}`)
	return graph("waiting", [][]string{{"wait"}}, "", script), err
}

// monologue is an agent whose turns are model calls only: it calls one of the interpreter's
// built-in tools, which is not an activity. It has no twin.
func monologue(turns int) (start, error) {
	n := node("agent")
	n.Agent.Builtins = []string{plan.BuiltinListStateKeys}
	script, err := loopScript(turns, plan.BuiltinListStateKeys, turnBytes)
	return onlyNode(n, "Talk.", llm.ScriptModel, script), err
}

// pureLoop is an agent that calls a pure function of the worker. It has no twin.
func pureLoop(turns int) (start, error) {
	n := node("agent")
	n.Agent.Tools = []plan.Tool{{Name: pureName, As: pureName}}
	script, err := loopScript(turns, pureName, turnBytes/2)
	return onlyNode(n, "Take notes.", llm.ScriptModel, script), err
}

// loopScript calls a tool with an argument of a given size until the model has been called turns times.
func loopScript(turns int, tool string, size int) (json.RawMessage, error) {
	return scriptOf(fmt.Sprintf(`{"turn":%d,"say":"done"}`, turns),
		fmt.Sprintf(`{"call":[{"tool":%q,"arguments":{"text":%q}}]}`, tool, strings.Repeat("x", size)))
}

// onlyNode returns a flow with one node.
func onlyNode(n plan.Node, text, model string, script json.RawMessage) start {
	f := newPlan("loop")
	n.Exit = true
	f.Nodes = []plan.Node{n}
	f.Edges = []plan.Edge{{ID: "e1", From: plan.Start, To: n.ID}, {ID: "e2", From: n.ID, To: plan.End}}
	return start{contract.WorkflowFlow, contract.RunInput{V: contract.Version, Flow: contract.FlowRef{Plan: f}, Input: text, Model: model, Script: script}}
}

// agentLoop is an agent that calls its tool until the model has been called turns times.
func agentLoop(turns int) (workload, error) {
	script, err := loopScript(turns, toolName, turnBytes/2)
	if err != nil {
		return workload{}, err
	}
	n := node("agent")
	n.Agent.Tools = []plan.Tool{{Name: toolName, As: toolName, Connection: toolConnection}}
	const text = "Take notes."
	return workload{steps: turns,
		ours: onlyNode(n, text, llm.ScriptModel, script),
		twin: start{workflowTwinLoop, twinLoopInput{Model: llm.ScriptModel, Text: text, Script: script, Node: n.ID, Tool: toolName, Connection: toolConnection}},
	}, nil
}

// scriptOf parses rules as the starter does.
func scriptOf(rules ...string) (json.RawMessage, error) {
	return llm.ParseScript("bench.script", []byte(`{"rules":[`+strings.Join(rules, ",")+`]}`))
}
