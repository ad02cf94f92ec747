package schedule

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/schedule/scheduletest"
)

// suspended returns a scheduler with one suspended execution.
func suspended(f *plan.Flow, node string, step int) (*Scheduler, *Execution) {
	s := New(NewGraph(f))
	s.Restore(&contract.RunSnapshot{Live: []contract.ExecutionState{{Node: node, Step: step, Occurrence: 1}}})
	return s, s.Suspended[0]
}

// snapshot returns the state from which another scheduler continues.
func snapshot(s *Scheduler, maxRan int) *contract.RunSnapshot {
	c := &contract.RunSnapshot{}
	s.Snapshot(c, maxRan)
	return c
}

// TestSnapshotCounts checks that a snapshot over the limit of counts omits those of steps before all live executions.
func TestSnapshotCounts(t *testing.T) {
	f := scheduletest.Sketch("START>a a>a")
	f.Limits.MaxSteps = 10_000
	s, _ := suspended(f, "a", 890)
	for i := range 900 {
		s.CountRan(0, i+1)
	}
	if n := len(snapshot(s, 1000).Ran); n != 900 {
		t.Errorf("snapshot has %d counts, want 900", n)
	}
	for i := range 4100 {
		s.CountRan(0, i+901)
	}
	s.Suspended[0].Step = 4990
	if got := snapshot(s, 1000).Ran; len(got) != 11 || got[0].Step != 4990 {
		t.Errorf("snapshot has the counts %+v", got)
	}
	if n := len(snapshot(s, 0).Ran); n != 5000 {
		t.Errorf("without a limit: snapshot has %d counts, want 5000", n)
	}
}

// TestSnapshotRestoresScheduler compares each field of a scheduler with that of one restored from its snapshot. Each must be set:
// the loss of a zero value would not be detected.
func TestSnapshotRestoresScheduler(t *testing.T) {
	f := scheduletest.Sketch("START>a a>b b>j START>j j>k j>b k>END", "j", "k")
	s, x := suspended(f, "a", 1)
	view := contract.View{}
	write(&view, "a#1", 1, "k", "v")
	x.Lineage, x.Arrivals, x.Suspended = "l", []contract.ArrivalState{{Edge: 1, Lineage: "l", View: view}}, &contract.SuspendedExecution{Outcome: &contract.NodeOutcome{SHA: "s"}}
	x.Continues = true
	for edge, step := range map[int]int{2: 2, 5: 7, 3: 3} {
		if err := s.Arrive([]int{edge}, step, "l", view); err != nil {
			t.Fatal(err)
		}
	}
	s.CountRan(1, 1)
	s.Ended = []contract.ArrivalState{{View: view}}

	restored := New(s.g)
	restored.Restore(snapshot(s, 0))
	fields := reflect.ValueOf(s).Elem()
	for i := range fields.NumField() {
		if fields.Field(i).IsZero() {
			t.Errorf("Scheduler.%s is zero: set it in this test", fields.Type().Field(i).Name)
		}
	}
	fields = reflect.ValueOf(x).Elem()
	for i := range fields.NumField() {
		if name := fields.Type().Field(i).Name; fields.Field(i).IsZero() && name != "blocker" && name != "recorded" && name != "Node" && name != "id" {
			t.Errorf("Execution.%s is zero: set it in this test", name)
		}
	}
	_, _ = s.Waits(), s.ready(nil) // recompute blockers
	_, _ = restored.Waits(), restored.ready(nil)
	if diff := cmp.Diff(s, restored, cmp.AllowUnexported(Scheduler{}, Execution{}, Graph{})); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
}

func TestMergedView(t *testing.T) {
	s, x := suspended(scheduletest.Sketch("START>a START>b a>END b>c c>d d>END"), "d", 3)
	start := &contract.View{}
	SetEntry(start, contract.StateEntry{Key: "k", Value: []byte(`"start"`), By: contract.Stamp{Exec: plan.Start}})
	a, c := child(start), child(start)
	write(a, "a#1", 1, "k", "a")
	write(a, "a#1", 1, "only-a", "a")
	write(c, "b#1", 2, "k", "c")
	s.Ended = arrivals(a)
	x.Arrivals = arrivals(c)
	if got := s.MergedView(); state(&got) != "k=c only-a=a" {
		t.Errorf("with the versions of all branches: %q", state(&got))
	}
	view, _ := s.Begin(x) // d is the only live branch, so versions are discarded
	x.Arrivals = arrivals(&view)
	if got := s.MergedView(); state(&got) != "k=c only-a=a" {
		t.Errorf("with d as the only branch: %q", state(&got))
	}
	write(&x.Arrivals[0].View, "d#3", 3, "k", "d")
	if got := s.MergedView(); state(&got) != "k=d only-a=a" {
		t.Errorf("after a write of d: %q", state(&got))
	}
}
