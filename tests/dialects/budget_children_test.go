package dialects

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows/plan"
)

// callCounter counts what goes to models, whatever it is for.
type callCounter struct {
	worker.ActivityRegistry
	made *atomic.Int32
}

func (a callCounter) RegisterActivityWithOptions(fn any, o activity.RegisterOptions) {
	switch real := fn.(type) {
	case func(context.Context, contract.ModelInput, *contract.Grant) (*contract.ModelResult, error):
		fn = counting(a.made, real)
	case func(context.Context, contract.JudgeInput, *contract.Grant) (*contract.JudgeResult, error):
		fn = counting(a.made, real)
	case func(context.Context, contract.CondenseInput, *contract.Grant) (*contract.CondenseResult, error):
		fn = counting(a.made, real)
	case func(context.Context, contract.SummariseInput, *contract.Grant) (*contract.SummariseResult, error):
		fn = counting(a.made, real)
	}
	a.ActivityRegistry.RegisterActivityWithOptions(fn, o)
}

func counting[In, Out any](n *atomic.Int32, real func(context.Context, In, *contract.Grant) (*Out, error)) func(context.Context, In, *contract.Grant) (*Out, error) {
	return func(ctx context.Context, in In, g *contract.Grant) (*Out, error) {
		n.Add(1)
		return real(ctx, in, g)
	}
}

// spender is a flow that spends in another way than by its own nodes.
type spender struct {
	harness.TestRun
	// calls are those that the whole run makes.
	calls int
	// beside says that calls are made beside each other, so that one may stop others.
	beside bool
	// absorbs says that the flow can end well although a part of it had nothing left.
	absorbs bool
}

func spenders(t *testing.T) map[string]spender {
	one := "n: {component_type: LlmNode, llm_config: '@m', prompt_template: p, outputs: [{title: v, type: string}]}"
	called := func(kind, ways string) harness.TestRun {
		return harness.TestRun{Document: specDoc(t, flowOf("[]", "n: {component_type: "+kind+", subflow: '@sub'}", ways, "[{title: v, type: string, default: none}]")+
			"sub: {outputs: [{title: v, type: string, default: none}], nodes: {s1: {component_type: StartNode}, c: "+strings.TrimPrefix(one, "n: ")+", d: "+strings.TrimPrefix(one, "n: ")+
			", e1: {component_type: EndNode, outputs: [{title: v, type: string}]}}, go: [s1 > c > d > e1]}\n"),
			Script: "rules: [{say: '{\"v\": \"x\"}'}]", SetInput: func(in *contract.RunInput) { in.Input = "" }}
	}
	mapped := func(kind string) harness.TestRun {
		return harness.TestRun{Document: specDoc(t, `
flow: {nodes: {s: {component_type: StartNode, inputs: [{title: xs, type: array, items: {type: integer}}]}, each: {component_type: `+kind+`, subflow: "@sub"}, e: {component_type: EndNode, outputs: [{title: vs, type: array, items: {type: string}}]}},
  go: [s > each > e], data: [s.xs > each.iterated_x, each.collected_v > e.vs]}
sub: {nodes: {s1: {component_type: StartNode, inputs: [{title: x, type: integer}]}, c: `+strings.TrimPrefix(one, "n: ")+`, e1: {component_type: EndNode, outputs: [{title: v, type: string}]}}, go: [s1 > c > e1]}`),
			Script: "rules: [{say: '{\"v\": \"x\"}'}]", SetInput: func(in *contract.RunInput) { in.Input, in.Params = "", json.RawMessage(`{"xs":[1,2,3,4]}`) }}
	}
	writer := hooked(t, "block")
	writer.Flow.Hooks.After = nil
	return map[string]spender{
		"a sub-agent with one of its own": {calls: 5, absorbs: true, TestRun: harness.TestRun{Document: harness.SubAgentFlow, Script: `rules:
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: outer}}]}
- {node: s, turn: 1, match: outer, call: [{tool: call_sub_agent, arguments: {user_question: inner}}]}
- {say: done}`}},
		"sub-agents beside each other": {calls: 4, beside: true, absorbs: true, TestRun: harness.TestRun{Document: harness.SubAgentFlow, Script: `rules:
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: x}}, {tool: call_sub_agent, arguments: {user_question: y}}]}
- {say: done}`}},
		"judges beside each other": {calls: 7, beside: true, TestRun: harness.TestRun{Document: harness.JudgedLoop, Script: `rules:
- {question: "again?", step: 2, yes: false}
- {question: "done?", step: 2, yes: true}
- {question: "again?", yes: true}
- {question: "done?", yes: false}
- {say: round}`}},
		"a value is condensed": {calls: 3, TestRun: harness.TestRun{Document: harness.OneNode(""), Script: `rules:
- {kind: condense, say: the gist}
- {turn: 1, call: [{tool: set_state_filtered, arguments: {key: k, value: "` + strings.Repeat("long ", 1000) + `"}}]}
- {say: done}`}},
		"a conversation is summarised": {calls: 8, TestRun: harness.TestRun{Script: strings.ReplaceAll(harness.TalkerScript, "WORD", "word"), SetInput: func(in *contract.RunInput) {
			in.Flow = contract.FlowRef{Plan: talker(&plan.Context{How: plan.ContextSummarise, Messages: 4, Keep: 2, Summary: &plan.DefaultSummary})}
		}}},
		"a flow in a flow":      {calls: 2, TestRun: called("FlowNode", "n")},
		"a flow that is caught": {calls: 2, absorbs: true, TestRun: called("CatchExceptionNode", "n.caught_exception_branch > e, n")},
		"a map, one by one":     {calls: 4, TestRun: mapped("MapNode")},
		"a map, all at once":    {calls: 4, beside: true, TestRun: mapped("ParallelMapNode")},
		"workers of a manager":  {calls: 5, beside: true, absorbs: true, TestRun: harness.TestRun{Document: harness.AgentspecWorkers, Script: workersScript}},
		"turns of a session":    {calls: 3, absorbs: true, TestRun: turns(t, harness.AgentFlow("talker"), `rules: [{say: well}]`)},
		"a session below": {calls: 5, absorbs: true, TestRun: turns(t, harness.Orchestrator(), `rules:
- {node: helper, say: helped}
- {node: boss, turn: 1, call: [{tool: start_agent_session, arguments: {agent_name: helper, parameters: {prompt: x}}}]}
- {say: done}`)},
		"a hook before the run": {calls: 2, TestRun: harness.TestRun{Script: "rules:\n- {node: guard, json: {action: continue}}\n- {say: Written.}\n", SetInput: func(in *contract.RunInput) {
			in.Flow, in.Params = contract.FlowRef{Plan: writer.Flow, Source: &writer.Source}, json.RawMessage(`{"topic":"abc","prompt":"Go."}`)
		}}},
	}
}

// turns is a session of three turns.
func turns(t *testing.T, f *plan.Flow, script string) harness.TestRun {
	return harness.TestRun{Script: script,
		SetInput: func(in *contract.RunInput) {
			in.Flow, in.Params, in.Session = contract.FlowRef{Plan: f}, json.RawMessage(`{"prompt":"one"}`), true
		},
		Started: func(p harness.Outcome) {
			steps := []func(harness.Outcome){
				func(p harness.Outcome) { resume(t, p, "u2", `{"prompt":"two"}`) },
				func(p harness.Outcome) { resume(t, p, "u3", `{"prompt":"three"}`) },
				stop(t),
			}
			for i, step := range steps {
				harness.AtTime(p.Env, time.Duration(i+1)*time.Hour, func() { step(p) })
			}
		}}
}

const workersScript = `rules:
- {node: team, turn: 1, call: [{tool: send_message, arguments: {recipient: counter, message: "How many?"}}, {tool: send_message, arguments: {recipient: library, message: "What is tea?"}}]}
- {node: team/counter, call: [{tool: submit_result, arguments: {n: 3}}]}
- {node: team/library, call: [{tool: handoff_conversation, arguments: {recipient: reader}}]}
- {node: team/reader, say: "A leaf."}
- {node: team, turn: 2, call: [{tool: submit_result, arguments: {answer: a leaf}}]}`

// What is below a run spends of the run's budget, whatever it is: no more calls are made than it
// allows, all are counted, and where nothing is left, that is said of a node.
func TestBudgetOfChildren(t *testing.T) {
	t.Parallel()
	for name, s := range spenders(t) {
		for calls := range s.calls {
			t.Run(fmt.Sprintf("%s/%d", name, calls), func(t *testing.T) {
				t.Parallel()
				s.spend(t, calls)
			})
		}
		t.Run(name+"/ample", func(t *testing.T) {
			t.Parallel()
			s.spend(t, 50*s.calls)
		})
	}
}

// spend runs the flow with so many calls, 0 for no bound.
func (s spender) spend(t *testing.T, calls int) {
	var made atomic.Int32
	r, set := s.TestRun, s.SetInput
	r.Wrap = func(w worker.ActivityRegistry) worker.ActivityRegistry { return callCounter{w, &made} }
	r.SetInput = func(in *contract.RunInput) {
		if set != nil {
			set(in)
		}
		if calls > 0 {
			in.Budget = &contract.Budget{Calls: calls}
		}
	}
	p := r.Execute(t)
	n, used := int(made.Load()), p.Status.Usage
	if used.Calls > n || used.Made() < n || !s.beside && used.Stopped > 0 {
		t.Errorf("%d calls were made, and the usage is %+v", n, used)
	}
	if calls == 0 || calls >= s.calls {
		if p.Err != nil || n != s.calls {
			t.Errorf("%d calls were made, want %d: %v", n, s.calls, p.Err)
		}
		return
	}
	if n > calls {
		t.Errorf("%d calls were made, and the budget allows %d", n, calls)
	}
	switch {
	case p.Err == nil && !s.absorbs:
		t.Errorf("the run ended well with %d calls", n)
	case p.Err != nil && (p.Err.Class != contract.ClassBudget || p.Err.Node == "" || p.Err.Remedy == "" || !strings.Contains(p.Err.Text, " left")):
		t.Errorf("the failure is %+v", p.Err)
	}
}

// A call that is stopped because another branch has failed is counted apart, wherever it was
// made: its provider may charge it.
func TestStoppedCallsAreCounted(t *testing.T) {
	t.Parallel()
	part := func(name string) string {
		return fmt.Sprintf("f%s: {nodes: {s%s: {component_type: StartNode}, %s: {component_type: LlmNode, llm_config: '@m', prompt_template: p}, e%s: {component_type: EndNode}}, go: [s%s > %s > e%s]}\n", name, name, name, name, name, name, name)
	}
	beside := specDoc(t, flowOf("[]", "n: {component_type: ParallelFlowNode, subflows: ['@fn1', '@fn2']}", "n", "[]")+part("n1")+part("n2"))
	for name, r := range map[string]harness.TestRun{
		"branches": {SetInput: func(in *contract.RunInput) { in.Flow = contract.FlowRef{Plan: fan(2)} }},
		"flows":    {Document: beside},
	} {
		t.Run(name, func(t *testing.T) {
			c := collision{begun: make(chan struct{}), end: make(chan struct{})}
			t.Cleanup(func() { close(c.end) })
			r.Script = "rules: [{say: fine}]"
			r.Wrap = func(w worker.ActivityRegistry) worker.ActivityRegistry {
				c.ActivityRegistry = w
				return c
			}
			p := r.Execute(t)
			if p.Err == nil || p.Err.Class != contract.ClassRefused || p.Err.Node != "n1" {
				t.Fatalf("the failure is %+v", p.Err)
			}
			if p.Status.Usage.Stopped != 1 {
				t.Errorf("the usage is %+v, want a stopped call", p.Status.Usage)
			}
		})
	}
}

// collision lets the call of n1 fail once that of n2 is running, which hears of nothing.
type collision struct {
	worker.ActivityRegistry
	begun, end chan struct{}
}

func (c collision) RegisterActivityWithOptions(fn any, o activity.RegisterOptions) {
	if real, ok := fn.(func(context.Context, contract.ModelInput, *contract.Grant) (*contract.ModelResult, error)); ok {
		fn = func(ctx context.Context, in contract.ModelInput, g *contract.Grant) (*contract.ModelResult, error) {
			switch id := activity.GetInfo(ctx).ActivityID; {
			case strings.HasPrefix(id, "n1#"):
				<-c.begun
				return nil, (&contract.Failure{Class: contract.ClassRefused, Text: "no"}).ApplicationError()
			case strings.HasPrefix(id, "n2#"):
				close(c.begun)
				<-c.end
			}
			return real(ctx, in, g)
		}
	}
	c.ActivityRegistry.RegisterActivityWithOptions(fn, o)
}

// The hook after a run has what the run has left, and no more.
func TestBudgetOfTheHookAfterARun(t *testing.T) {
	t.Parallel()
	for budget, want := range map[int]int32{1: 1, 2: 2} {
		res := hooked(t, "block")
		res.Flow.Hooks.Before = nil
		var made atomic.Int32
		p := harness.TestRun{Script: "rules: [{say: fine}]", Wrap: func(w worker.ActivityRegistry) worker.ActivityRegistry { return callCounter{w, &made} },
			SetInput: func(in *contract.RunInput) {
				in.Flow, in.Params = contract.FlowRef{Plan: res.Flow, Source: &res.Source}, json.RawMessage(`{"topic":"abc","prompt":"Go."}`)
				in.Budget = &contract.Budget{Calls: budget}
			},
			Prepare: func(env *testsuite.TestWorkflowEnvironment) {
				env.SetOnChildWorkflowCompletedListener(func(info *workflow.Info, _ converter.EncodedValue, err error) {
					if f := contract.FailureOf(err); budget == 1 && (f == nil || f.Class != contract.ClassBudget) {
						t.Errorf("the hook %s ended with %v", info.WorkflowExecution.ID, err)
					}
				})
			}}.Execute(t)
		if p.Err != nil || made.Load() > want {
			t.Errorf("with a budget of %d calls, %d were made: %v", budget, made.Load(), p.Err)
		}
	}
}

// The hook after a turn takes nothing from the turns behind it.
func TestBudgetBehindTheHookAfterATurn(t *testing.T) {
	t.Parallel()
	res := hooked(t, "block")
	res.Flow.Hooks.Before = nil
	r := turns(t, res.Flow, "rules: [{say: fine}]")
	set := r.SetInput
	r.SetInput = func(in *contract.RunInput) {
		set(in)
		in.Flow.Source, in.Params = &res.Source, json.RawMessage(`{"topic":"abc","prompt":"one"}`)
		in.Budget = &contract.Budget{Calls: 10, Tokens: 1_000_000}
	}
	p := r.Execute(t)
	if p.Err != nil || len(p.Result.Turns) != 3 {
		t.Fatalf("%+v, %v", p.Result, p.Err)
	}
	for _, turn := range p.Result.Turns {
		if turn.Status != contract.TurnCompleted {
			t.Errorf("turn %d is %s: %v", turn.N, turn.Status, turn.Failure)
		}
	}
}

// What the hook before a run has under way when the run is cancelled is counted, too.
func TestStoppedCallsOfTheHookBeforeARunAreCounted(t *testing.T) {
	t.Parallel()
	res := hooked(t, "block")
	c := cancelling{end: make(chan struct{})}
	t.Cleanup(func() { close(c.end) })
	r := harness.TestRun{Script: "rules: [{say: fine}]", SetInput: func(in *contract.RunInput) {
		in.Flow, in.Params = contract.FlowRef{Plan: res.Flow, Source: &res.Source}, json.RawMessage(`{"topic":"abc","prompt":"Go."}`)
	}}
	r.Wrap = func(w worker.ActivityRegistry) worker.ActivityRegistry {
		c.ActivityRegistry, c.env = w, w.(*testsuite.TestWorkflowEnvironment)
		return c
	}
	p := r.Execute(t)
	if p.Err == nil || p.Err.Class != contract.ClassCancelled {
		t.Fatalf("the run ended with %+v", p.Err)
	}
	if got := p.Status.Usage; got.Stopped != 1 || got.Calls != 0 {
		t.Errorf("the usage is %+v, want a stopped call", got)
	}
}

// cancelling cancels the run while a model's call is running, which hears of nothing.
type cancelling struct {
	worker.ActivityRegistry
	env *testsuite.TestWorkflowEnvironment
	end chan struct{}
}

func (c cancelling) RegisterActivityWithOptions(fn any, o activity.RegisterOptions) {
	if _, ok := fn.(func(context.Context, contract.ModelInput, *contract.Grant) (*contract.ModelResult, error)); ok {
		fn = func(context.Context, contract.ModelInput, *contract.Grant) (*contract.ModelResult, error) {
			c.env.CancelWorkflow()
			<-c.end
			return nil, context.Canceled
		}
	}
	c.ActivityRegistry.RegisterActivityWithOptions(fn, o)
}
