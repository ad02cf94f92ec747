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

// lone is a run of a flow with one exit node, which has said n bytes.
func lone(ctx workflow.Context, most, n int) *flowRun {
	flow := scheduletest.Sketch("START>a a>END")
	flow.Nodes[0].Exit = true
	r := runtime.New(ctx)
	r.Flow, r.Graph = flow, schedule.NewGraph(flow)
	r.Allow(most)
	said := strings.Repeat("x", n)
	f := newFlowRun(r)
	f.session = session.New(r, f, &contract.RunInput{})
	f.sched, f.trace = schedule.New(r.Graph), []contract.Execution{{Node: "a", Step: 1, Text: &said}}
	return f
}

// TestEveryGuard sends through each guard what is too large for Temporal and what is too
// large for the run's store.
func TestEveryGuard(t *testing.T) {
	const most = 8 << 20
	guards := map[string]struct {
		send  func(ctx workflow.Context, most, n int) error
		class string
	}{
		"the arguments of a call": {func(ctx workflow.Context, most, n int) error {
			return lone(ctx, most, 0).run.Sizes.Admit(ctx, "the call", strings.Repeat("x", n))
		}, contract.ClassTooLarge},
		"the result of a run": {func(ctx workflow.Context, most, n int) error {
			_, err := lone(ctx, most, n).Result()
			return err
		}, contract.ClassTooLarge},
		"a branch result": {func(ctx workflow.Context, most, n int) error {
			f := lone(ctx, most, 0)
			c := &chain{run: f.run, strand: "s", view: &contract.View{}, current: &runtime.Execution{Node: &f.run.Flow.Nodes[0], Step: 1}}
			schedule.SetEntry(c.view, contract.StateEntry{Key: "k", Value: json.RawMessage(`"` + strings.Repeat("x", n) + `"`), By: contract.Stamp{Strand: "s"}})
			_, err := branchResult(ctx, c, &contract.BranchInput{}, c.result(nil))
			return err
		}, contract.ClassTooLarge},
		"a snapshot": {func(ctx workflow.Context, most, n int) error {
			err := lone(ctx, most, n).ContinueAsNew(ctx)
			if workflow.IsContinueAsNewError(err) {
				return nil
			}
			return err
		}, contract.ClassStateTooLarge},
	}
	for name, tc := range guards {
		t.Run(name, func(t *testing.T) {
			for _, size := range []struct {
				most, n int
				fails   bool
			}{
				{0, contract.MaxPayload - 10_000, false},
				{0, contract.MaxPayload + 10_000, true},
				{most, contract.MaxPayload + 10_000, false},
				{most, most - 20_000, false},
				{most, most + 20_000, true},
			} {
				env := workflowtest.Env()
				env.SetCurrentHistoryLength(runtime.LastEvents + 1)
				var err error
				env.ExecuteWorkflow(func(ctx workflow.Context) error { err = tc.send(ctx, size.most, size.n); return nil })
				if env.GetWorkflowError() != nil {
					t.Fatal(env.GetWorkflowError())
				}
				if !size.fails {
					if err != nil {
						t.Errorf("%d bytes with a store of %d: %v", size.n, size.most, err)
					}
					continue
				}
				var f *contract.Failure
				if !errors.As(err, &f) || f.Class != tc.class || f.Remedy == "" || !strings.Contains(f.Text, "bytes, at most") {
					t.Errorf("%d bytes with a store of %d: %+v", size.n, size.most, err)
				}
			}
		})
	}
}

// TestResultStaysReadable leaves exits' outputs out before a result goes to the store, where
// only clients with the store can read it, and before it is beyond what the run above has reserved.
func TestResultStaysReadable(t *testing.T) {
	for name, tc := range map[string]struct {
		answer, share int
		omitted       bool
	}{
		"a short answer":                 {answer: 1000},
		"a long answer":                  {answer: contract.MaxPayload * 2 / 3, omitted: true},
		"twice an answer in the share":   {answer: 1000, share: 4000},
		"twice an answer beyond a share": {answer: 1000, share: 1500, omitted: true},
	} {
		t.Run(name, func(t *testing.T) {
			workflowtest.Run(t, func(ctx workflow.Context) {
				f := lone(ctx, 64<<20, tc.answer)
				f.run.Sizes.ResultShare = tc.share
				out, err := f.Result()
				if err != nil || len(*out.ResultText) != tc.answer || len(out.ExitOutputs) != 1 || (out.ExitOutputs[0].OmittedBytes == tc.answer) != tc.omitted {
					t.Errorf("%.100v, %v", out, err)
				}
				if n, _ := contract.Size(out); n > contract.MaxPayload {
					t.Errorf("the result is %d bytes", n)
				}
			})
		})
	}
}

// TestStoreIsAFactOfTheRun: the worker on which a run starts decides, for all of its runs.
func TestStoreIsAFactOfTheRun(t *testing.T) {
	const most = 5 << 20
	flow := scheduletest.Sketch("START>a START>b a>END b>END")
	flow.Policy.Branches = plan.BranchesAsChildren
	in := contract.RunInput{V: contract.Version, Model: "m", Flow: contract.FlowRef{Plan: flow}}
	below := in
	below.Depth, below.MaxPayload, below.Grant = 1, 3<<20, &contract.Grant{}
	tests := map[string]struct {
		worker Settings
		in     contract.RunInput
		want   int
	}{
		"a worker with a store":                 {Settings{MaxPayload: most}, in, most},
		"a worker without one":                  {Settings{}, in, 0},
		"a sub-agent has that of the run above": {Settings{MaxPayload: most}, below, 3 << 20},
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
				t.Errorf("branches have %v, want %d", got, tc.want)
			}
		})
	}
	if _, err := contract.ReadInput([]byte(`{"v":1,"flow":{"text":"x"},"max_payload":9}`)); err == nil || !strings.Contains(err.Error(), "max_payload is 9, but only the interpreter may set it") {
		t.Errorf("a client's max_payload: %v", err)
	}
}
