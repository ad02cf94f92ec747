package runtime

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/journal"
	"weft/workflows/workflowtest"
)

// TestStep checks that steps of every outcome are not repeated when their execution resumes in another run.
func TestStep(t *testing.T) {
	denied := &contract.Failure{Class: contract.ClassDenied, Text: "no key"}
	snapshot := &contract.RunSnapshot{Hash: "h"}
	tests := map[string]struct {
		do func(s *journal.Step, out *string) error
		// status is that of the step in the snapshot; restored, if set, checks the state with which the step is
		// executed again.
		status   string
		restored func(s *journal.Step) bool
		want     string
	}{
		"done": {do: func(_ *journal.Step, out *string) error { *out = "yes"; return nil }, status: contract.StepDone, want: "yes"},
		"failed": {do: func(*journal.Step, *string) error {
			return &contract.Failure{Class: contract.ClassRefused, Text: "refused"}
		}, status: contract.StepFailed, want: "refused"},
		"waiting for an operator": {do: func(s *journal.Step, _ *string) error {
			s.Failure, s.Attempts = denied, 2
			return ErrYield
		}, status: contract.StepWaiting, restored: func(s *journal.Step) bool { return s.Attempts == 2 && s.Failure.Text == denied.Text }, want: "again"},
		"suspended": {do: func(s *journal.Step, _ *string) error {
			s.Run = snapshot
			return ErrYield
		}, status: contract.StepSuspended, restored: func(s *journal.Step) bool { return s.Run.Hash == snapshot.Hash }, want: "again"},
		"not started": {do: func(*journal.Step, *string) error { return ErrYield }, restored: func(s *journal.Step) bool { return s.Run == nil }, want: "again"},
		"cancelled":   {do: func(*journal.Step, *string) error { return temporal.NewCanceledError() }, restored: func(s *journal.Step) bool { return s.Run == nil }, want: "again"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			workflowtest.Run(t, func(ctx workflow.Context) {
				r, j := New(ctx), journal.New(nil, nil)
				var out string
				first := r.RunStep(ctx, j, "a", "h", &out, func(s *journal.Step) error { return tc.do(s, &out) })
				steps, err := j.Snapshot()
				if err != nil {
					t.Fatal(err)
				}
				steps = workflowtest.RoundTrip(t, steps)
				if status := slices.Collect(func(yield func(string) bool) {
					for _, s := range steps {
						yield(s.Status)
					}
				}); tc.status == "" && len(status) > 0 || tc.status != "" && !slices.Equal(status, []string{tc.status}) {
					t.Fatalf("steps in the snapshot are %v, want %q", status, tc.status)
				}
				j = journal.New(nil, steps)
				out = ""
				err = r.RunStep(ctx, j, "a", "h", &out, func(s *journal.Step) error {
					if tc.restored == nil || !tc.restored(s) {
						t.Errorf("unexpected execution with %+v", s)
					}
					out = "again"
					return nil
				})
				var f *contract.Failure
				if errors.As(err, &f) {
					out = f.Text
					if diff := cmp.Diff(first.Error(), err.Error()); diff != "" {
						t.Errorf("error of the restored step (-first +restored):\n%s", diff)
					}
				}
				if out != tc.want {
					t.Errorf("got %q, want %q", out, tc.want)
				}
				if err := r.RunStep(ctx, j, "a", "other", &out, nil); contract.FailureOf(err).Class != contract.ClassInternal {
					t.Errorf("same id with another hash: got %v", err)
				}
			})
		})
	}
}

// TestStepsYield checks that no step begins if the run should yield, and that completed steps return their results.
func TestStepsYield(t *testing.T) {
	workflowtest.Run(t, func(ctx workflow.Context) {
		r := New(ctx)
		r.Policy.Asked = true
		j := journal.New(nil, []contract.JournalStep{{ID: "a", Status: contract.StepDone, Result: json.RawMessage(`"yes"`)}})
		var out string
		if err := r.RunStep(ctx, j, "a", "", &out, nil); err != nil || out != "yes" {
			t.Errorf("completed step: got %q, %v", out, err)
		}
		if err := r.RunStep(ctx, j, "b", "", &out, nil); !errors.Is(err, ErrYield) {
			t.Errorf("new step: got %v", err)
		}
	})
}
