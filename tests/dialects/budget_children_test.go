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

// callCounter is an activity registry that counts the calls of all activities that call models.
type callCounter struct {
	worker.ActivityRegistry
	calls *atomic.Int32
}

func (a callCounter) RegisterActivityWithOptions(fn any, o activity.RegisterOptions) {
	switch real := fn.(type) {
	case func(context.Context, contract.ModelInput, *contract.Grant) (*contract.ModelResult, error):
		fn = counting(a.calls, real)
	case func(context.Context, contract.JudgeInput, *contract.Grant) (*contract.JudgeResult, error):
		fn = counting(a.calls, real)
	case func(context.Context, contract.CondenseInput, *contract.Grant) (*contract.CondenseResult, error):
		fn = counting(a.calls, real)
	case func(context.Context, contract.SummariseInput, *contract.Grant) (*contract.SummariseResult, error):
		fn = counting(a.calls, real)
	}
	a.ActivityRegistry.RegisterActivityWithOptions(fn, o)
}

func counting[In, Out any](n *atomic.Int32, real func(context.Context, In, *contract.Grant) (*Out, error)) func(context.Context, In, *contract.Grant) (*Out, error) {
	return func(ctx context.Context, in In, g *contract.Grant) (*Out, error) {
		n.Add(1)
		return real(ctx, in, g)
	}
}

// spender is a flow whose model calls are not only those of its own nodes.
type spender struct {
	harness.TestRun
	// calls is the number of model calls of the run and its children.
	calls int
	// concurrent reports whether calls are concurrent, so that a failure may stop others.
	concurrent bool
	// tolerant reports whether the flow can succeed although a part of it exceeded the budget.
	tolerant bool
}

func spenders(t *testing.T) map[string]spender {
	llmNode := "n: {component_type: LlmNode, llm_config: '@m', prompt_template: p, outputs: [{title: v, type: string}]}"
	subflow := func(kind, path string) harness.TestRun {
		return harness.TestRun{Document: specDoc(t, flowOf("[]", "n: {component_type: "+kind+", subflow: '@sub'}", path, "[{title: v, type: string, default: none}]")+
			"sub: {outputs: [{title: v, type: string, default: none}], nodes: {s1: {component_type: StartNode}, c: "+strings.TrimPrefix(llmNode, "n: ")+", d: "+strings.TrimPrefix(llmNode, "n: ")+
			", e1: {component_type: EndNode, outputs: [{title: v, type: string}]}}, go: [s1 > c > d > e1]}\n"),
			Script: "rules: [{say: '{\"v\": \"x\"}'}]", SetInput: func(in *contract.RunInput) { in.Input = "" }}
	}
	mapFlow := func(kind string) harness.TestRun {
		return harness.TestRun{Document: specDoc(t, `
flow: {nodes: {s: {component_type: StartNode, inputs: [{title: xs, type: array, items: {type: integer}}]}, each: {component_type: `+kind+`, subflow: "@sub"}, e: {component_type: EndNode, outputs: [{title: vs, type: array, items: {type: string}}]}},
  go: [s > each > e], data: [s.xs > each.iterated_x, each.collected_v > e.vs]}
sub: {nodes: {s1: {component_type: StartNode, inputs: [{title: x, type: integer}]}, c: `+strings.TrimPrefix(llmNode, "n: ")+`, e1: {component_type: EndNode, outputs: [{title: v, type: string}]}}, go: [s1 > c > e1]}`),
			Script: "rules: [{say: '{\"v\": \"x\"}'}]", SetInput: func(in *contract.RunInput) { in.Input, in.Params = "", json.RawMessage(`{"xs":[1,2,3,4]}`) }}
	}
	writer := agentWithHooks(t, "block")
	writer.Flow.Hooks.After = nil
	return map[string]spender{
		"nested sub-agents": {calls: 5, tolerant: true, TestRun: harness.TestRun{Document: harness.SubAgentFlow, Script: `rules:
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: outer}}]}
- {node: s, turn: 1, match: outer, call: [{tool: call_sub_agent, arguments: {user_question: inner}}]}
- {say: done}`}},
		"concurrent sub-agents": {calls: 4, concurrent: true, tolerant: true, TestRun: harness.TestRun{Document: harness.SubAgentFlow, Script: `rules:
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: x}}, {tool: call_sub_agent, arguments: {user_question: y}}]}
- {say: done}`}},
		"concurrent judges": {calls: 7, concurrent: true, TestRun: harness.TestRun{Document: harness.JudgedLoop, Script: `rules:
- {question: "again?", step: 2, yes: false}
- {question: "done?", step: 2, yes: true}
- {question: "again?", yes: true}
- {question: "done?", yes: false}
- {say: round}`}},
		"a condensed value": {calls: 3, TestRun: harness.TestRun{Document: harness.OneNode(""), Script: `rules:
- {kind: condense, say: the gist}
- {turn: 1, call: [{tool: set_state_filtered, arguments: {key: k, value: "` + strings.Repeat("long ", 1000) + `"}}]}
- {say: done}`}},
		"a summarised conversation": {calls: 8, TestRun: harness.TestRun{Script: strings.ReplaceAll(harness.TalkerScript, "WORD", "word"), SetInput: func(in *contract.RunInput) {
			in.Flow = contract.FlowRef{Plan: talker(&plan.Context{How: plan.ContextSummarise, Messages: 4, Keep: 2, Summary: &plan.DefaultSummary})}
		}}},
		"a subflow":             {calls: 2, TestRun: subflow("FlowNode", "n")},
		"a caught subflow":      {calls: 2, tolerant: true, TestRun: subflow("CatchExceptionNode", "n.caught_exception_branch > e, n")},
		"a sequential map":      {calls: 4, TestRun: mapFlow("MapNode")},
		"a parallel map":        {calls: 4, concurrent: true, TestRun: mapFlow("ParallelMapNode")},
		"a manager and workers": {calls: 5, concurrent: true, tolerant: true, TestRun: harness.TestRun{Document: harness.AgentspecWorkers, Script: workersScript}},
		"a session":             {calls: 3, tolerant: true, TestRun: turns(t, harness.AgentFlow("talker"), `rules: [{say: well}]`)},
		"a child session": {calls: 5, tolerant: true, TestRun: turns(t, harness.Orchestrator(), `rules:
- {node: helper, say: helped}
- {node: boss, turn: 1, call: [{tool: start_agent_session, arguments: {agent_name: helper, parameters: {prompt: x}}}]}
- {say: done}`)},
		"a hook before a run": {calls: 2, TestRun: harness.TestRun{Script: "rules:\n- {node: guard, json: {action: continue}}\n- {say: Written.}\n", SetInput: func(in *contract.RunInput) {
			in.Flow, in.Params = contract.FlowRef{Plan: writer.Flow, Source: &writer.Source}, json.RawMessage(`{"topic":"abc","prompt":"Go."}`)
		}}},
	}
}

// turns returns a session of three turns.
func turns(t *testing.T, f *plan.Flow, script string) harness.TestRun {
	return harness.TestRun{Script: script,
		SetInput: func(in *contract.RunInput) {
			in.Flow, in.Params, in.Session = contract.FlowRef{Plan: f}, json.RawMessage(`{"prompt":"one"}`), true
		},
		BeforeStart: func(p harness.Outcome) {
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

// TestBudgetOfChildren checks that all that a run starts is charged to its budget: no more calls are made than it allows, all are
// counted, and the failure of an exhausted budget names a node.
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

// spend runs the flow with a budget of calls; 0 means no budget.
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
	if used.Calls > n || used.Made() < n || !s.concurrent && used.Stopped > 0 {
		t.Errorf("%d calls were made, usage = %+v", n, used)
	}
	if calls == 0 || calls >= s.calls {
		if p.Err != nil || n != s.calls {
			t.Errorf("%d calls were made, want %d: %v", n, s.calls, p.Err)
		}
		return
	}
	if n > calls {
		t.Errorf("%d calls were made, the budget allows %d", n, calls)
	}
	switch {
	case p.Err == nil && !s.tolerant:
		t.Errorf("the run succeeded with %d calls", n)
	case p.Err != nil && (p.Err.Class != contract.ClassBudget || p.Err.Node == "" || p.Err.Remedy == "" || !strings.Contains(p.Err.Text, " left")):
		t.Errorf("failure = %+v", p.Err)
	}
}

// TestStoppedCallsAreCounted checks that a call that is stopped because another branch failed is counted as stopped, in branches and
// in parallel flows, since its provider may charge for it.
func TestStoppedCallsAreCounted(t *testing.T) {
	t.Parallel()
	flow := func(name string) string {
		return fmt.Sprintf("f%s: {nodes: {s%s: {component_type: StartNode}, %s: {component_type: LlmNode, llm_config: '@m', prompt_template: p}, e%s: {component_type: EndNode}}, go: [s%s > %s > e%s]}\n", name, name, name, name, name, name, name)
	}
	parallel := specDoc(t, flowOf("[]", "n: {component_type: ParallelFlowNode, subflows: ['@fn1', '@fn2']}", "n", "[]")+flow("n1")+flow("n2"))
	for name, r := range map[string]harness.TestRun{
		"branches": {SetInput: func(in *contract.RunInput) { in.Flow = contract.FlowRef{Plan: fan(2)} }},
		"flows":    {Document: parallel},
	} {
		t.Run(name, func(t *testing.T) {
			c := collision{started: make(chan struct{}), end: make(chan struct{})}
			t.Cleanup(func() { close(c.end) })
			r.Script = "rules: [{say: fine}]"
			r.Wrap = func(w worker.ActivityRegistry) worker.ActivityRegistry {
				c.ActivityRegistry = w
				return c
			}
			p := r.Execute(t)
			if p.Err == nil || p.Err.Class != contract.ClassRefused || p.Err.Node != "n1" {
				t.Fatalf("failure = %+v", p.Err)
			}
			if p.Status.Usage.Stopped != 1 {
				t.Errorf("usage = %+v, want a stopped call", p.Status.Usage)
			}
		})
	}
}

// collision fails the call of n1 once that of n2 is running, which ignores its cancellation.
type collision struct {
	worker.ActivityRegistry
	started, end chan struct{}
}

func (c collision) RegisterActivityWithOptions(fn any, o activity.RegisterOptions) {
	if real, ok := fn.(func(context.Context, contract.ModelInput, *contract.Grant) (*contract.ModelResult, error)); ok {
		fn = func(ctx context.Context, in contract.ModelInput, g *contract.Grant) (*contract.ModelResult, error) {
			switch id := activity.GetInfo(ctx).ActivityID; {
			case strings.HasPrefix(id, "n1#"):
				<-c.started
				return nil, (&contract.Failure{Class: contract.ClassRefused, Text: "no"}).ApplicationError()
			case strings.HasPrefix(id, "n2#"):
				close(c.started)
				<-c.end
			}
			return real(ctx, in, g)
		}
	}
	c.ActivityRegistry.RegisterActivityWithOptions(fn, o)
}

// TestBudgetOfHookAfterRun checks that the hook after a run has the rest of the run's budget.
func TestBudgetOfHookAfterRun(t *testing.T) {
	t.Parallel()
	for budget, want := range map[int]int32{1: 1, 2: 2} {
		res := agentWithHooks(t, "block")
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
						t.Errorf("hook %s ended with %v", info.WorkflowExecution.ID, err)
					}
				})
			}}.Execute(t)
		if p.Err != nil || made.Load() > want {
			t.Errorf("with a budget of %d calls, %d were made: %v", budget, made.Load(), p.Err)
		}
	}
}

// TestBudgetAfterTurnHook checks that the hook after a turn takes no budget from later turns.
func TestBudgetAfterTurnHook(t *testing.T) {
	t.Parallel()
	res := agentWithHooks(t, "block")
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
		t.Fatalf("result = %+v, %v", p.Result, p.Err)
	}
	for _, turn := range p.Result.Turns {
		if turn.Status != contract.TurnCompleted {
			t.Errorf("turn %d: status %s: %v", turn.N, turn.Status, turn.Failure)
		}
	}
}

// TestStoppedCallsOfHookBeforeRun checks that a call of the hook before a run is counted as stopped if the run is cancelled.
func TestStoppedCallsOfHookBeforeRun(t *testing.T) {
	t.Parallel()
	res := agentWithHooks(t, "block")
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
		t.Errorf("usage = %+v, want a stopped call", got)
	}
}

// cancelling cancels the run while a model call is running, which ignores its cancellation.
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
