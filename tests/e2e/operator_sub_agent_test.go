package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"weft/activities"
	"weft/activities/contract"
	"weft/activities/llm"
	"weft/tests/harness"
	"weft/worker/host"
	"weft/workflows"
	"weft/workflows/plan"
)

// expiredKey wraps the activities of a worker. It rejects selected calls until the key is renewed, and judges a
// loop's conditions so that it repeats until stopped is set.
type expiredKey struct {
	worker.ActivityRegistry
	// needsKey and tooLong report whether the call with an activity id needs the key, or exceeds the model's context.
	needsKey, tooLong func(id string) bool

	mu       sync.Mutex
	renewed  bool
	stopped  bool
	rejected int
	done     map[string]int
}

// call counts a call and returns its error, if any.
func (e *expiredKey) call(ctx context.Context) error {
	id := activity.GetInfo(ctx).ActivityID
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.tooLong != nil && e.tooLong(id):
		return (&contract.Failure{Class: contract.ClassContextLength, Text: "too long"}).ApplicationError()
	case e.needsKey(id) && !e.renewed:
		e.rejected++
		return (&contract.Failure{Class: contract.ClassDenied, Text: "the key has expired"}).ApplicationError()
	}
	if strings.HasPrefix(id, "a#") {
		e.done[id]++
	}
	return nil
}

func (e *expiredKey) RegisterActivityWithOptions(fn any, o activity.RegisterOptions) {
	switch real := fn.(type) {
	case func(context.Context, contract.ModelInput, *contract.Grant) (*contract.ModelResult, error):
		fn = func(ctx context.Context, in contract.ModelInput, g *contract.Grant) (*contract.ModelResult, error) {
			if err := e.call(ctx); err != nil {
				return nil, err
			}
			return real(ctx, in, g)
		}
	case func(context.Context, contract.SummariseInput, *contract.Grant) (*contract.SummariseResult, error):
		fn = func(ctx context.Context, in contract.SummariseInput, g *contract.Grant) (*contract.SummariseResult, error) {
			if err := e.call(ctx); err != nil {
				return nil, err
			}
			return real(ctx, in, g)
		}
	case func(context.Context, contract.JudgeInput, *contract.Grant) (*contract.JudgeResult, error):
		fn = func(_ context.Context, in contract.JudgeInput, _ *contract.Grant) (*contract.JudgeResult, error) {
			e.mu.Lock()
			defer e.mu.Unlock()
			return &contract.JudgeResult{Yes: e.stopped == (in.Question == "enough?"), Usage: contract.Usage{Calls: 1}}, nil
		}
	}
	e.ActivityRegistry.RegisterActivityWithOptions(fn, o)
}

// start starts a worker with the wrapped activities.
func (e *expiredKey) start(t *testing.T) *harness.Worker {
	t.Helper()
	h := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
	models, err := llm.Open(llm.Settings{Default: "script"})
	if err != nil {
		t.Fatal(err)
	}
	w := worker.New(h.Client, h.Queue, worker.Options{StickyScheduleToStartTimeout: 2 * time.Second, DeadlockDetectionTimeout: time.Minute})
	workflows.Register(w)
	e.ActivityRegistry, e.done = w, map[string]int{}
	activities.New(activities.Deps{Models: models, Source: activities.NewClientSource(h.Client), Compile: harness.Compile, Begin: host.Begin}).Register(e)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	h.Worker = w
	return h
}

// deepFork returns a flow whose node m calls a sub-agent with two parallel branches: an agent that calls a built-in
// tool repeatedly, and a loop.
func deepFork(c *plan.Context) *plan.Flow {
	again, enough := "again?", "enough?"
	sub := harness.GraphPlan("sub", []harness.GraphNode{{ID: "a"}, {ID: "b"}, {ID: "j", Defer: true, Exit: true}}, []harness.GraphEdge{
		{Source: plan.Start, Target: "a"}, {Source: plan.Start, Target: "b"}, {Source: "b", Target: "b", Condition: &again},
		{Source: "b", Target: "j", Condition: &enough}, {Source: "a", Target: "j"}, {Source: "j", Target: plan.End}})
	sub.ID, sub.Limits.MaxSteps = "sub", 10_000
	sub.Nodes[0].Agent.Builtins, sub.Nodes[0].Agent.Context = []string{plan.BuiltinSetState}, c
	f := harness.GraphPlan("deep", []harness.GraphNode{{ID: "m", Exit: true}}, []harness.GraphEdge{{Source: plan.Start, Target: "m"}, {Source: "m", Target: plan.End}})
	f.Connections = []plan.Connection{{ID: "helper", Kind: plan.ConnectionAgent, Agent: "sub"}}
	f.Nodes[0].Agent.Tools = []plan.Tool{{Name: "call_sub_agent", As: "call_sub_agent", Connection: "helper"}}
	f.Agents = []plan.Flow{*sub}
	return f
}

// TestEndToEndWaitsForOperatorInSubAgent checks that a branch of a sub-agent whose key expires during a conversation
// waits with a single request while its run continues as new repeatedly. Once the key is renewed, it continues at
// the rejected call, and no call is executed twice.
func TestEndToEndWaitsForOperatorInSubAgent(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		context *plan.Context
		e       *expiredKey
	}{
		"a model call": {nil, &expiredKey{needsKey: func(id string) bool { return strings.HasPrefix(id, "a#1/model/4") }}},
		"a summary": {&plan.Context{How: plan.ContextSummarise, Messages: 4, Keep: 2, Summary: &plan.DefaultSummary},
			&expiredKey{needsKey: func(id string) bool { return strings.HasPrefix(id, "a#1/summary/") }}},
		"a call with a truncated conversation": {&plan.Context{How: plan.ContextTruncate},
			&expiredKey{needsKey: func(id string) bool { return strings.Contains(id, "/less") }, tooLong: func(id string) bool { return id == "a#1/model/4" }}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := tc.e
			h := e.start(t)
			f := deepFork(tc.context)
			if problems := f.Check(); len(problems) > 0 {
				t.Fatal(problems)
			}
			rules := strings.ReplaceAll(strings.ReplaceAll(harness.TalkerScript, "- {turn", "- {node: a, turn"), "WORD", "word")
			run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, MaxEvents: 1, MaxSteps: 10_000,
				Script: harness.Script(t, strings.Replace(rules, "rules:", "rules:\n- {node: m, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: go}}]}", 1))})
			q := h.WaitForRequests(t, run.GetID(), 1)[0]
			if q.Kind != contract.RequestRetry || q.Node != "a" || !strings.HasPrefix(q.Execution, "m#1:") || q.Failure == nil || q.Failure.Class != contract.ClassDenied {
				t.Errorf("open request = %+v", q)
			}
			// Whenever the parent continues as new, the branch is suspended and started again.
			latest := q.Run.Run
			harness.WaitFor(t, "the branch to continue in other runs", func() bool {
				open := h.Status(t, run.GetID()).Requests
				if len(open) > 0 && open[0].Run.Run != latest {
					latest = open[0].Run.Run
					return open[0].Run.Run != q.Run.Run
				}
				return false
			})
			if open := h.Status(t, run.GetID()).Requests; len(open) != 1 || open[0].ID != q.ID || !open[0].OpenedAt.Equal(q.OpenedAt) {
				t.Errorf("open requests = %+v,\nwant %+v", open, q)
			}
			e.mu.Lock()
			if e.rejected != 1 {
				t.Errorf("%d calls with the expired key, want 1", e.rejected)
			}
			e.renewed = true
			e.mu.Unlock()
			if _, err := h.Update(t, run.GetID(), contract.RequestRetry, contract.RetryAnswer{ID: q.ID}); err != nil {
				t.Fatal(err)
			}
			harness.WaitFor(t, "the agent to finish", func() bool {
				e.mu.Lock()
				defer e.mu.Unlock()
				n := 0
				for id := range e.done {
					if strings.HasPrefix(id, "a#1/model/") {
						n++
					}
				}
				return n == 5
			})
			e.mu.Lock()
			e.stopped = true
			e.mu.Unlock()
			out, err := harness.Result(t, run)
			if err != nil || out.ResultText == nil || *out.ResultText != "done" {
				t.Fatalf("result = %+v, %v", out, err)
			}
			for id, n := range e.done {
				if n != 1 {
					t.Errorf("%s was executed %d times", id, n)
				}
			}
		})
	}
}
