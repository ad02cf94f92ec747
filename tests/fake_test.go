package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows"
	"weft/workflows/plan"
)

// fakes answer the interpreter's activities by name, without a model.
type fakes struct {
	// delay is how long the next model call takes, in virtual time.
	delay func() time.Duration
	// judge answers a condition.
	judge func(in contract.JudgeInput) (bool, error)
}

// graphEnv runs plans in Temporal's test environment, where time is virtual.
func graphEnv(t *testing.T, f fakes) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(unhurried)
	env.SetTestTimeout(4 * time.Minute)
	workflows.Register(env)
	env.RegisterActivityWithOptions(answerAs, activity.RegisterOptions{Name: contract.ActivityModel})
	env.RegisterActivityWithOptions(func(_ context.Context, in contract.JudgeInput) (*contract.JudgeResult, error) {
		yes, err := f.judge(in)
		return &contract.JudgeResult{Yes: yes}, err
	}, activity.RegisterOptions{Name: contract.ActivityJudge})
	if f.delay != nil {
		env.OnActivity(contract.ActivityModel, mock.Anything, mock.Anything).Return(answerAs).AfterFn(f.delay)
	}
	return env
}

// unhurried are workers in Temporal's test environment on a machine that may be busy: time is virtual
// there but for deadlocks and heartbeats.
var unhurried = worker.Options{DeadlockDetectionTimeout: time.Minute, Interceptors: []interceptor.WorkerInterceptor{&slow{}}}

type slow struct {
	interceptor.WorkerInterceptorBase
}

func (*slow) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &slowRun{interceptor.WorkflowInboundInterceptorBase{Next: next}}
}

type slowRun struct {
	interceptor.WorkflowInboundInterceptorBase
}

func (r *slowRun) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return r.Next.Init(&slowCalls{interceptor.WorkflowOutboundInterceptorBase{Next: next}})
}

type slowCalls struct {
	interceptor.WorkflowOutboundInterceptorBase
}

func (c *slowCalls) ExecuteActivity(ctx workflow.Context, kind string, args ...any) workflow.Future {
	return c.Next.ExecuteActivity(workflow.WithHeartbeatTimeout(ctx, time.Minute), kind, args...)
}

// answerAs is what the fake model says.
func answerAs(ctx context.Context, _ contract.ModelInput) (*contract.ModelResult, error) {
	node, _, _ := strings.Cut(activity.GetInfo(ctx).ActivityID, "#")
	m := contract.Message{Role: contract.RoleAssistant, Text: node + " done"}
	raw, err := m.Encode()
	return &contract.ModelResult{Message: raw, Usage: contract.Usage{Calls: 1}}, err
}

// nodeOf names the node of a model call, as far as the call says it itself.
func nodeOf(in contract.ModelInput) string {
	var p contract.Profile
	if len(in.Profile.Body) == 0 || json.Unmarshal(in.Profile.Body, &p) != nil {
		return ""
	}
	return p.Node
}

// runPlan runs a plan and returns its result, status and error.
func runPlan(t *testing.T, env *testsuite.TestWorkflowEnvironment, f *plan.Flow) (*contract.RunResult, contract.Status, error) {
	t.Helper()
	env.ExecuteWorkflow(contract.WorkflowFlow, contract.RunInput{
		V: contract.Version, Flow: contract.FlowRef{Plan: f}, Input: "input", Model: "script",
	})
	if !env.IsWorkflowCompleted() {
		t.Fatal("the run did not end")
	}
	var status contract.Status
	v, err := env.QueryWorkflow(contract.QueryStatus)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Get(&status); err != nil {
		t.Fatal(err)
	}
	if err := env.GetWorkflowError(); err != nil {
		return nil, status, err
	}
	var out contract.RunResult
	if err := env.GetWorkflowResult(&out); err != nil {
		t.Fatal(err)
	}
	return &out, status, nil
}

// graphNode is a node of a graph as the case files describe it.
type graphNode struct {
	ID    string `json:"id"`
	Defer bool   `json:"defer"`
	Exit  bool   `json:"is_exit_node"`
}

// graphEdge is an edge of a graph as the case files describe it.
type graphEdge struct {
	Source    string  `json:"source"`
	Target    string  `json:"target"`
	Condition *string `json:"condition_prompt"`
}

// graphPlan builds a plan past document validation.
func graphPlan(name string, nodes []graphNode, edges []graphEdge) *plan.Flow {
	f := &plan.Flow{Version: plan.Version, Name: name, Dialect: "continuum", Limits: plan.DefaultLimits, Policy: plan.DefaultPolicy}
	for _, n := range nodes {
		f.Nodes = append(f.Nodes, plan.Node{ID: n.ID, Name: n.ID, Kind: plan.KindAgent, Exit: n.Exit, Deferred: n.Defer,
			Agent: &plan.Agent{Prompt: n.ID, System: n.ID, MaxCalls: 10, MaxErrors: 3}})
	}
	for i, e := range edges {
		edge := plan.Edge{ID: fmt.Sprintf("e%d", i+1), From: e.Source, To: e.Target}
		if e.Condition != nil {
			edge.Question = *e.Condition
		}
		f.Edges = append(f.Edges, edge)
	}
	return f
}

// executions lists node#step of a trace, sorted.
func executions(s contract.Status) []string {
	var out []string
	for _, e := range s.Executions {
		out = append(out, fmt.Sprintf("%s#%d", e.Node, e.Step))
	}
	slices.Sort(out)
	return out
}

func mustJSON(t *testing.T, raw []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(raw, v); err != nil {
		t.Fatal(err)
	}
}

// quiet drops Temporal's log.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}
