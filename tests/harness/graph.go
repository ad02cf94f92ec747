package harness

import (
	"context"
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

// Fakes implement the interpreter's activities without a model.
type Fakes struct {
	// Delay is the duration of the next model call, in virtual time.
	Delay func() time.Duration
	Judge func(in contract.JudgeInput) (bool, error)
}

// NewGraphEnv returns a Temporal test environment for plans, with virtual time.
func NewGraphEnv(t *testing.T, f Fakes) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	env := newEnv()
	workflows.Register(env)
	env.RegisterActivityWithOptions(AnswerModel, activity.RegisterOptions{Name: contract.ActivityCallModel})
	env.RegisterActivityWithOptions(func(_ context.Context, in contract.JudgeInput) (*contract.JudgeResult, error) {
		yes, err := f.Judge(in)
		return &contract.JudgeResult{Yes: yes}, err
	}, activity.RegisterOptions{Name: contract.ActivityEvaluateCondition})
	if f.Delay != nil {
		env.OnActivity(contract.ActivityCallModel, mock.Anything, mock.Anything).Return(AnswerModel).AfterFn(f.Delay)
	}
	return env
}

func newEnv() *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(NoLog)
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(EnvOptions)
	env.SetTestTimeout(4 * time.Minute)
	return env
}

// EnvOptions are worker options for Temporal's test environment on a busy machine: deadlock detection and
// heartbeats use real time.
var EnvOptions = worker.Options{DeadlockDetectionTimeout: time.Minute, Interceptors: []interceptor.WorkerInterceptor{&longHeartbeats{}}}

type longHeartbeats struct {
	interceptor.WorkerInterceptorBase
}

func (*longHeartbeats) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &longHeartbeatsInbound{interceptor.WorkflowInboundInterceptorBase{Next: next}}
}

type longHeartbeatsInbound struct {
	interceptor.WorkflowInboundInterceptorBase
}

func (r *longHeartbeatsInbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return r.Next.Init(&longHeartbeatsOutbound{interceptor.WorkflowOutboundInterceptorBase{Next: next}})
}

type longHeartbeatsOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
}

func (c *longHeartbeatsOutbound) ExecuteActivity(ctx workflow.Context, kind string, args ...any) workflow.Future {
	return c.Next.ExecuteActivity(workflow.WithHeartbeatTimeout(ctx, time.Minute), kind, args...)
}

// AnswerModel returns the answer of the fake model.
func AnswerModel(ctx context.Context, _ contract.ModelInput) (*contract.ModelResult, error) {
	node, _, _ := strings.Cut(activity.GetInfo(ctx).ActivityID, "#")
	m := contract.Message{Role: contract.RoleAssistant, Text: node + " done"}
	raw, err := m.Encode()
	return &contract.ModelResult{Message: raw, Usage: contract.Usage{Calls: 1}}, err
}

// GraphNode is a node of a graph as the case files describe it.
type GraphNode struct {
	ID    string `json:"id"`
	Defer bool   `json:"defer"`
	Exit  bool   `json:"is_exit_node"`
}

// GraphEdge is an edge of a graph as the case files describe it.
type GraphEdge struct {
	Source    string  `json:"source"`
	Target    string  `json:"target"`
	Condition *string `json:"condition_prompt"`
}

// GraphPlan builds a plan without document validation.
func GraphPlan(name string, nodes []GraphNode, edges []GraphEdge) *plan.Flow {
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

// Executions returns the sorted node#step entries of a trace.
func Executions(s contract.Status) []string {
	var out []string
	for _, e := range s.Executions {
		out = append(out, fmt.Sprintf("%s#%d", e.Node, e.Step))
	}
	slices.Sort(out)
	return out
}

// OneAgent is a flow of one node, the agent b1.
func OneAgent() *plan.Flow {
	return GraphPlan("one", []GraphNode{{ID: "b1", Exit: true}}, []GraphEdge{{Source: plan.Start, Target: "b1"}, {Source: "b1", Target: plan.End}})
}
