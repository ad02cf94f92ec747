package runtime

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"weft/workflows/workflowtest"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// TestStep does steps that end in every way, has the execution go on in another run, and does them again.
func TestStep(t *testing.T) {
	denied := &contract.Failure{Class: contract.ClassDenied, Text: "no key"}
	rest := &contract.RunSnapshot{Hash: "h"}
	tests := map[string]struct {
		do func(s *JournalStep, out *string) error
		// status is that of the step as it travels; again reports whether it is done again, and is told what
		// it goes on with.
		status string
		again  func(s *JournalStep) bool
		want   string
	}{
		"done": {do: func(_ *JournalStep, out *string) error { *out = "yes"; return nil }, status: contract.StepDone, want: "yes"},
		"failed": {do: func(*JournalStep, *string) error {
			return &contract.Failure{Class: contract.ClassRefused, Text: "refused"}
		}, status: contract.StepFailed, want: "refused"},
		"waiting for an operator": {do: func(s *JournalStep, _ *string) error {
			s.Failure, s.Attempts = denied, 2
			return ErrYield
		}, status: contract.StepWaiting, again: func(s *JournalStep) bool { return s.Attempts == 2 && s.Failure.Text == denied.Text }, want: "again"},
		"suspended": {do: func(s *JournalStep, _ *string) error {
			s.Run = rest
			return ErrYield
		}, status: contract.StepSuspended, again: func(s *JournalStep) bool { return s.Run.Hash == rest.Hash }, want: "again"},
		"not begun": {do: func(*JournalStep, *string) error { return ErrYield }, again: func(s *JournalStep) bool { return s.Run == nil }, want: "again"},
		"cancelled": {do: func(*JournalStep, *string) error { return temporal.NewCanceledError() }, again: func(s *JournalStep) bool { return s.Run == nil }, want: "again"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			workflowtest.Run(t, func(ctx workflow.Context) {
				r, j := New(ctx), NewJournal(nil, nil)
				var out string
				first := r.RunStep(ctx, j, "a", "h", &out, func(s *JournalStep) error { return tc.do(s, &out) })
				steps, err := j.Snapshot()
				if err != nil {
					t.Fatal(err)
				}
				steps = workflowtest.Travels(t, steps)
				if status := slices.Collect(func(yield func(string) bool) {
					for _, s := range steps {
						yield(s.Status)
					}
				}); tc.status == "" && len(status) > 0 || tc.status != "" && !slices.Equal(status, []string{tc.status}) {
					t.Fatalf("the steps that travel are %v, want %q", status, tc.status)
				}
				j = NewJournal(nil, steps)
				out = ""
				err = r.RunStep(ctx, j, "a", "h", &out, func(s *JournalStep) error {
					if tc.again == nil || !tc.again(s) {
						t.Errorf("it is done again, with %+v", s)
					}
					out = "again"
					return nil
				})
				var f *contract.Failure
				if errors.As(err, &f) {
					out = f.Text
					if diff := cmp.Diff(first.Error(), err.Error()); diff != "" {
						t.Errorf("it fails otherwise:\n%s", diff)
					}
				}
				if out != tc.want {
					t.Errorf("it gives %q, want %q", out, tc.want)
				}
				if err := r.RunStep(ctx, j, "a", "other", &out, nil); contract.FailureOf(err).Class != contract.ClassInternal {
					t.Errorf("another question under the same id gives %v", err)
				}
			})
		})
	}
}

// TestStepsWaitForTheNextRun begins no step where the run should yield, and answers those that are done.
func TestStepsWaitForTheNextRun(t *testing.T) {
	workflowtest.Run(t, func(ctx workflow.Context) {
		r := New(ctx)
		r.Policy.Asked = true
		j := NewJournal(nil, []contract.JournalStep{{ID: "a", Status: contract.StepDone, Result: json.RawMessage(`"yes"`)}})
		var out string
		if err := r.RunStep(ctx, j, "a", "", &out, nil); err != nil || out != "yes" {
			t.Errorf("a step that is done gives %q, %v", out, err)
		}
		if err := r.RunStep(ctx, j, "b", "", &out, nil); !errors.Is(err, ErrYield) {
			t.Errorf("a new step gives %v", err)
		}
	})
}

// TestJournalWeight counts what travels, from boundary to boundary, with that of agents below.
func TestJournalWeight(t *testing.T) {
	root := NewJournal(nil, nil)
	root.Boundary(100)
	below := NewJournal(root, []contract.JournalStep{{ID: "a", Status: contract.StepDone, Result: json.RawMessage(`"12345678"`)}})
	if n := below.Weight(); n != 110 {
		t.Errorf("with a step below the weight is %d", n)
	}
	below.Boundary(30)
	if n := root.Weight(); n != 130 {
		t.Errorf("behind a boundary below the weight is %d", n)
	}
	root.Boundary(140)
	if n := root.Weight(); n != 140 || len(root.steps) != 0 {
		t.Errorf("behind a boundary the weight is %d, with %d steps", n, len(root.steps))
	}
}
