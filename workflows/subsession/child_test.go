package subsession

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/runtime"
	"weft/workflows/schedule/scheduletest"
	"weft/workflows/workflowtest"
)

// TestReportsInAnyOrder delivers the reports of a child session in every permutation, each report twice, and checks that each
// prompt gets the result of its turn once.
func TestReportsInAnyOrder(t *testing.T) {
	turn := func(n int, id, status string, expects bool) contract.ChildTurn {
		return contract.ChildTurn{Session: "c", Turn: contract.Turn{N: n, ID: id, Status: status}, Usage: contract.Usage{Calls: 10 * n}, Expects: expects}
	}
	all := []contract.ChildTurn{
		{Session: "c", Turn: contract.Turn{ID: "a", Status: contract.TurnQueued}},
		turn(2, "a", contract.TurnRunning, false), turn(2, "a", contract.TurnCompleted, true),
		{Session: "c", Turn: contract.Turn{ID: "b", Status: contract.TurnQueued}},
		turn(3, "b", contract.TurnRunning, false), turn(3, "b", contract.TurnCompleted, false),
		{Session: "c", Turn: contract.Turn{ID: "x", Status: contract.TurnFailed, Failure: &contract.Failure{Class: contract.ClassCancelled, Text: "no"}}},
	}
	for name, tc := range map[string]struct {
		settled bool
		modes   [2]string
		done    string
		called  string
		left    int
	}{
		"both sync":                   {modes: [2]string{contract.ModeSync, contract.ModeSync}, done: "a b x", left: 3},
		"sync and callback":           {modes: [2]string{contract.ModeSync, contract.ModeCallback}, done: "a x", called: "b", left: 2},
		"both callback":               {modes: [2]string{contract.ModeCallback, contract.ModeCallback}, done: "x", called: "a b", left: 1},
		"both callback, when settled": {settled: true, modes: [2]string{contract.ModeCallback, contract.ModeCallback}, done: "x", called: "b b", left: 1},
		"both poll":                   {modes: [2]string{contract.ModePoll, contract.ModePoll}, done: "x", left: 1},
	} {
		t.Run(name, func(t *testing.T) {
			workflowtest.Run(t, func(ctx workflow.Context) {
				for order := range permutations(len(all)) {
					r := runtime.New(ctx)
					r.Flow = scheduletest.Sketch("START>a a>END")
					r.Flow.Nodes[0].Agent.CallbackWhenSettled = tc.settled
					c := &childSession{ChildSession: contract.ChildSession{ChildStatus: contract.ChildStatus{ID: "c"}, Orders: []contract.SessionOrder{
						{Session: "c", ID: "a", Mode: tc.modes[0]}, {Session: "c", ID: "b", Mode: tc.modes[1]}, {Session: "c", ID: "x", Mode: contract.ModeSync}}}}
					b := New(r, nil, nil)
					b.list = []*childSession{c}
					for _, i := range order {
						for range 2 {
							report := all[i]
							b.handleReport(&report)
						}
					}
					var called []string
					for _, report := range b.Callbacks {
						called = append(called, report.Turn.ID)
					}
					var done []string
					for _, d := range c.Done {
						done = append(done, d.ID)
					}
					slices.Sort(called)
					slices.Sort(done)
					got := fmt.Sprintf("done %v, called %v, %d left, %s, %d calls", done, called, len(c.Orders), c.Status, r.Budget.Usage.Calls)
					want := fmt.Sprintf("done %v, called %v, %d left, idle, 30 calls", strings.Fields(tc.done), strings.Fields(tc.called), tc.left)
					if got != want {
						t.Errorf("reports in the order %v:\n%s, want\n%s", order, got, want)
						return
					}
				}
			})
		})
	}
}

// TestFailureWithoutReason checks that a report of a failed turn without a failure, which any client can send, is ignored.
func TestFailureWithoutReason(t *testing.T) {
	workflowtest.Run(t, func(ctx workflow.Context) {
		c := &childSession{ChildSession: contract.ChildSession{ChildStatus: contract.ChildStatus{ID: "c"}, Orders: []contract.SessionOrder{{Session: "c", Mode: contract.ModeSync}}}}
		b := New(runtime.New(ctx), nil, nil)
		b.list = []*childSession{c}
		for _, status := range []string{contract.TurnFailed, contract.TurnStopped} {
			b.handleReport(&contract.ChildTurn{Session: "c", Turn: contract.Turn{N: 1, Status: status}})
		}
		if c.Last != nil || c.Done != nil {
			t.Errorf("last turn is %+v, completed turns are %+v; want none", c.Last, c.Done)
		}
	})
}

// TestResetChildUsage checks that a child session that was reset, and so reports less usage than before, is not credited: only usage
// beyond what was reported is counted, in any turn.
func TestResetChildUsage(t *testing.T) {
	workflowtest.Run(t, func(ctx workflow.Context) {
		r := runtime.New(ctx)
		r.Flow = scheduletest.Sketch("START>a a>END")
		c := &childSession{ChildSession: contract.ChildSession{ChildStatus: contract.ChildStatus{ID: "c"}}, reserved: contract.Budget{Calls: 10, Tokens: 100}}
		b := New(r, nil, nil)
		b.list = []*childSession{c}
		r.Budget.Reserved = c.reserved
		report := func(n int, status string, calls, input, stopped int, cost int64) {
			b.handleReport(&contract.ChildTurn{Session: "c", Turn: contract.Turn{N: n, Status: status}, Usage: contract.Usage{Calls: calls, Input: input, Stopped: stopped, Cost: cost}})
		}
		check := func(step string, want contract.Usage, left int) {
			t.Helper()
			if !reflect.DeepEqual(r.Budget.Usage, want) || !reflect.DeepEqual(c.Usage, want) || r.Budget.Reserved.Calls != left {
				t.Errorf("%s: usage %+v, of the session %+v, %d calls reserved; want %+v, %d", step, r.Budget.Usage, c.Usage, r.Budget.Reserved.Calls, want, left)
			}
		}
		report(1, contract.TurnCompleted, 3, 30, 0, 7)
		report(2, contract.TurnCompleted, 5, 50, 1, 9)
		all := contract.Usage{Calls: 5, Input: 50, Stopped: 1, Cost: 9}
		check("before the reset", all, 4)
		report(1, contract.TurnRunning, 0, 0, 0, 0)
		report(1, contract.TurnCompleted, 3, 60, 0, 8)
		all.Input = 60
		check("first turn repeated", all, 4)
		report(2, contract.TurnRunning, 3, 60, 0, 8)
		report(2, contract.TurnCompleted, 7, 90, 1, 12)
		all = contract.Usage{Calls: 7, Input: 90, Stopped: 1, Cost: 12}
		check("second turn repeated", all, 2)
		b.settleUp(c, &contract.RunResult{Usage: contract.Usage{Calls: 1}}, nil)
		check("closed after another reset", all, 0)
	})
}

// permutations returns all permutations of 0 to n-1.
func permutations(n int) func(yield func([]int) bool) {
	return func(yield func([]int) bool) {
		var order []int
		var extend func() bool
		extend = func() bool {
			if len(order) == n {
				return yield(order)
			}
			for i := range n {
				if slices.Contains(order, i) {
					continue
				}
				order = append(order, i)
				if !extend() {
					return false
				}
				order = order[:len(order)-1]
			}
			return true
		}
		extend()
	}
}

// TestSnapshotRestoresChildren checks that a snapshot restores a child session in which every field is set.
func TestSnapshotRestoresChildren(t *testing.T) {
	const rebuilt = "the next run rebuilds it"
	workflowtest.Run(t, func(ctx workflow.Context) {
		old := New(runtime.New(ctx), []contract.ChildSession{{ChildStatus: contract.ChildStatus{ID: "c", Agent: "b", Status: contract.StatusIdle}}}, []contract.ChildTurn{{Session: "c"}})
		restored := New(runtime.New(ctx), workflowtest.RoundTrip(t, old.Snapshot()), workflowtest.RoundTrip(t, old.Callbacks))
		workflowtest.CompareFields(t, old, restored, workflowtest.IgnoredFields{"run": rebuilt, "list": "compared below", "ctx": rebuilt, "runCtx": rebuilt, "end": rebuilt, "turns": rebuilt})
		workflowtest.CompareFields(t, old.list[0], restored.list[0], workflowtest.IgnoredFields{"run": rebuilt, "reserved": "the next run reserves it again"})
	})
}
