package workflows

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"weft/workflows/plan"
	"weft/workflows/workflowtest"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
	"weft/workflows/schedule/scheduletest"
	"weft/workflows/session"
)

// singleNodeRun returns a run of a flow with one exit node, whose output has n bytes. The store takes payloads of
// up to limit bytes; zero means that there is no store.
func singleNodeRun(ctx workflow.Context, limit, n int) *flowRun {
	flow := scheduletest.Sketch("START>a a>END")
	flow.Nodes[0].Exit = true
	r := runtime.New(ctx)
	r.Flow, r.Graph = flow, schedule.NewGraph(flow)
	r.Allow(limit)
	said := strings.Repeat("x", n)
	f := newFlowRun(r)
	f.session = session.New(r, f, &contract.RunInput{})
	f.sched, f.trace = schedule.New(r.Graph), []contract.Execution{{Node: "a", Step: 1, Text: &said}}
	return f
}

// TestSizeLimits checks each size limit with values too large for Temporal, and with values too large for the run's store.
func TestSizeLimits(t *testing.T) {
	const limit = 8 << 20
	tests := map[string]struct {
		send  func(ctx workflow.Context, limit, n int) error
		class string
	}{
		"call arguments": {func(ctx workflow.Context, limit, n int) error {
			return singleNodeRun(ctx, limit, 0).run.Sizes.Admit(ctx, "the call", strings.Repeat("x", n))
		}, contract.ClassTooLarge},
		"run result": {func(ctx workflow.Context, limit, n int) error {
			_, err := singleNodeRun(ctx, limit, n).Result()
			return err
		}, contract.ClassTooLarge},
		"branch result": {func(ctx workflow.Context, limit, n int) error {
			f := singleNodeRun(ctx, limit, 0)
			c := &chain{run: f.run, strand: "s", view: &contract.View{}, current: &runtime.Execution{Node: &f.run.Flow.Nodes[0], Step: 1}}
			schedule.SetEntry(c.view, contract.StateEntry{Key: "k", Value: json.RawMessage(`"` + strings.Repeat("x", n) + `"`), By: contract.Stamp{Strand: "s"}})
			_, err := branchResult(ctx, c, &contract.BranchInput{}, c.result(nil))
			return err
		}, contract.ClassTooLarge},
		"snapshot": {func(ctx workflow.Context, limit, n int) error {
			err := singleNodeRun(ctx, limit, n).ContinueAsNew(ctx)
			if workflow.IsContinueAsNewError(err) {
				return nil
			}
			return err
		}, contract.ClassStateTooLarge},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for _, size := range []struct {
				limit, n int
				fails    bool
			}{
				{0, contract.MaxPayload - 10_000, false},
				{0, contract.MaxPayload + 10_000, true},
				{limit, contract.MaxPayload + 10_000, false},
				{limit, limit - 20_000, false},
				{limit, limit + 20_000, true},
			} {
				env := workflowtest.Env()
				env.SetCurrentHistoryLength(runtime.LastEvents + 1)
				var err error
				env.ExecuteWorkflow(func(ctx workflow.Context) error { err = tc.send(ctx, size.limit, size.n); return nil })
				if env.GetWorkflowError() != nil {
					t.Fatal(env.GetWorkflowError())
				}
				if !size.fails {
					if err != nil {
						t.Errorf("%d bytes with a store limit of %d: %v", size.n, size.limit, err)
					}
					continue
				}
				var f *contract.Failure
				if !errors.As(err, &f) || f.Class != tc.class || f.Remedy == "" || !strings.Contains(f.Text, "bytes, at most") {
					t.Errorf("%d bytes with a store limit of %d: %+v", size.n, size.limit, err)
				}
			}
		})
	}
}

// TestResultOmitsOutputs checks that the outputs of exit nodes are omitted from a result that would otherwise go to the
// store, where only clients with access to it could read it, or exceed the size that the parent has reserved.
func TestResultOmitsOutputs(t *testing.T) {
	for name, tc := range map[string]struct {
		answer, share int
		omitted       bool
	}{
		"short answer":                       {answer: 1000},
		"long answer":                        {answer: contract.MaxPayload * 2 / 3, omitted: true},
		"both copies fit the reservation":    {answer: 1000, share: 4000},
		"both copies exceed the reservation": {answer: 1000, share: 1500, omitted: true},
	} {
		t.Run(name, func(t *testing.T) {
			workflowtest.Run(t, func(ctx workflow.Context) {
				f := singleNodeRun(ctx, 64<<20, tc.answer)
				f.run.Sizes.ResultShare = tc.share
				out, err := f.Result()
				if err != nil || len(*out.ResultText) != tc.answer || len(out.ExitOutputs) != 1 || (out.ExitOutputs[0].OmittedBytes == tc.answer) != tc.omitted {
					t.Errorf("%.100v, %v", out, err)
				}
				if n, _ := contract.Size(out); n > contract.MaxPayload {
					t.Errorf("result has %d bytes", n)
				}
			})
		})
	}
}

// TestStoreSetAtStart checks that the payload limit is that of the worker on which the root run starts, for all of its child runs.
func TestStoreSetAtStart(t *testing.T) {
	const limit = 5 << 20
	flow := scheduletest.Sketch("START>a START>b a>END b>END")
	flow.Policy.Branches = plan.BranchesAsChildren
	in := contract.RunInput{V: contract.Version, Model: "m", Flow: contract.FlowRef{Plan: flow}}
	child := in
	child.Depth, child.MaxPayload, child.Grant = 1, 3<<20, &contract.Grant{}
	tests := map[string]struct {
		worker Settings
		in     contract.RunInput
		want   int
	}{
		"worker with a store":              {Settings{MaxPayload: limit}, in, limit},
		"worker without a store":           {Settings{}, in, 0},
		"sub-agent has its parent's limit": {Settings{MaxPayload: limit}, child, 3 << 20},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			env := workflowtest.Env()
			tc.worker.Register(env)
			var got []int
			env.OnWorkflow(contract.WorkflowBranch, mock.Anything, mock.Anything).Return(func(_ workflow.Context, raw converter.RawValue) (*contract.BranchResult, error) {
				in, err := contract.ReadBranchInput(raw.Payload().GetData())
				if err != nil {
					return nil, err
				}
				got = append(got, in.Shared.MaxPayload)
				return &contract.BranchResult{Executions: []contract.Execution{{Node: in.Node, Step: in.Step}}}, nil
			})
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				return workflow.ExecuteChildWorkflow(ctx, contract.WorkflowFlow, tc.in).Get(ctx, nil)
			})
			if err := env.GetWorkflowError(); err != nil {
				t.Fatal(err)
			}
			if len(got) != 2 || got[0] != tc.want || got[1] != tc.want {
				t.Errorf("payload limits of branches = %v, want %d", got, tc.want)
			}
		})
	}
	if _, err := contract.ReadInput([]byte(`{"v":1,"flow":{"text":"x"},"max_payload":9}`)); err == nil || !strings.Contains(err.Error(), "max_payload is 9, but only the interpreter may set it") {
		t.Errorf("max_payload set by a client: %v", err)
	}
}
