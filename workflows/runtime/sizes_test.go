package runtime

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"weft/workflows/workflowtest"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
)

func TestFits(t *testing.T) {
	full := strings.Repeat("x", MaxPayload-2) // two quotes make it full
	if err := Fits("it", full); err != nil {
		t.Errorf("what fits is refused: %v", err)
	}
	f := contract.FailureOf(Fits("the run's result", full+"x"))
	if f.Class != contract.ClassTooLarge || !strings.Contains(f.Text, "the run's result is 1945601 bytes, at most 1945600") || f.Remedy == "" {
		t.Errorf("failure is %+v", f)
	}
	// What Temporal's converter makes of it counts, not its length.
	if err := Fits("it", strings.Repeat("<", MaxPayload/6+1)); err == nil {
		t.Error("what grows on its way is accepted")
	}
	if err := Fits("it", func() {}); err == nil {
		t.Error("what cannot be encoded is accepted")
	}
}

func TestAdmit(t *testing.T) {
	mega, half := strings.Repeat("x", 1<<20), strings.Repeat("x", 900<<10)
	tests := map[string]struct {
		args []string
		// events is how much history grows before each call.
		events int
		waits  int
		fails  int
	}{
		"calls that fit into one task":                 {args: []string{half, half}},
		"a call too many waits for the next task":      {args: []string{half, half, half}, waits: 1},
		"and counts anew from there":                   {args: []string{half, half, half, half, half}, waits: 2},
		"calls of different tasks do not add up":       {args: []string{mega, mega, mega, mega}, events: 5},
		"a call that is too large fails":               {args: []string{mega + mega}, fails: 1},
		"and takes no room from the others":            {args: []string{mega + mega, half, half}, fails: 1},
		"many small ones wait now and then":            {args: strings.Split(strings.Repeat(mega[:300<<10]+" ", 25), " "), waits: 4},
		"small ones do not":                            {args: make([]string, 1000)},
		"a large one fits into a task of its own":      {args: []string{mega[:900<<10] + mega[:900<<10]}},
		"two large ones need a task each":              {args: []string{mega[:900<<10] + mega[:900<<10], mega[:900<<10] + mega[:900<<10]}, waits: 1},
		"a large one does not wait behind a small one": {args: []string{"x", mega[:900<<10] + mega[:900<<10]}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			env := workflowtest.Env()
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				var g Sizes
				waits, fails := 0, 0
				for i, arg := range tc.args {
					env.SetCurrentHistoryLength(3 + i*tc.events)
					before := workflow.Now(ctx)
					if err := g.Admit(ctx, "the call", arg); err != nil {
						fails++
						if f := contract.FailureOf(err); f.Class != contract.ClassTooLarge || !strings.Contains(f.Text, "the call is ") {
							t.Errorf("failure is %+v", f)
						}
					}
					if took := workflow.Now(ctx).Sub(before); took > time.Second {
						t.Errorf("it waited %s", took)
					} else if took > 0 {
						waits++
					}
				}
				if waits != tc.waits || fails != tc.fails {
					t.Errorf("%d waits and %d failures, want %d and %d", waits, fails, tc.waits, tc.fails)
				}
				return nil
			})
			if err := env.GetWorkflowError(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestAdmitSideBySide has many calls wait for the next task at once: it wakes all of them, and
// has no more room than the one before.
func TestAdmitSideBySide(t *testing.T) {
	const calls = 7
	env := workflowtest.Env()
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		var g Sizes
		tasks, left := map[int]int{}, calls
		for range calls {
			workflow.Go(ctx, func(ctx workflow.Context) {
				if err := g.Admit(ctx, "the call", strings.Repeat("x", 900<<10)); err != nil {
					t.Error(err)
				}
				tasks[g.tasks]++
				left--
			})
		}
		if err := workflow.Await(ctx, func() bool { return left == 0 }); err != nil {
			return err
		}
		if len(tasks) != (calls+1)/2 {
			t.Errorf("calls by task: %v", tasks)
		}
		for task, n := range tasks {
			if n > 2 {
				t.Errorf("%d times 900 KiB go with task %d", n, task)
			}
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}

// TestAcceptTakesRoom counts what an Update brings beside what its workflow task sends.
func TestAcceptTakesRoom(t *testing.T) {
	env := workflowtest.Env()
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		var g Sizes
		env.SetCurrentHistoryLength(3)
		g.Accept(ctx, 900<<10)
		if !g.Take(ctx, 900<<10) {
			t.Error("there is no room for an answer beside the Update that brought it")
		}
		if g.room(ctx, 900<<10) || g.Take(ctx, 900<<10) {
			t.Error("there is room for another beside both")
		}
		if !g.room(ctx, 1000) {
			t.Error("there is no room for a small one")
		}
		env.SetCurrentHistoryLength(8)
		if !g.room(ctx, 1<<20) || g.bytes == 0 {
			t.Error("the next task has no room, or asking for it changed something")
		}
		g.Accept(ctx, 1<<20)
		if g.bytes > 1<<20+event {
			t.Errorf("%d bytes of the task before count", g.bytes-1<<20)
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}

func TestAdmitEndsWithTheRun(t *testing.T) {
	workflowtest.Run(t, func(ctx workflow.Context) {
		ctx, cancel := workflow.WithCancel(ctx)
		cancel()
		g := Sizes{bytes: maxTask, task: workflow.GetInfo(ctx).GetCurrentHistoryLength()}
		if err := g.Admit(ctx, "it", "x"); !contract.Cancelled(err) {
			t.Errorf("error is %v", err)
		}
	})
}

func TestWeightBoundsTheSize(t *testing.T) {
	nasty := strings.Repeat("<\x00", 300)
	raw, err := json.Marshal(nasty)
	if err != nil {
		t.Fatal(err)
	}
	ref := contract.ContentRef{Workflow: strings.Repeat("w", 200), Run: strings.Repeat("r", 36), SHA: strings.Repeat("f", 64)}
	for name, v := range map[string]interface{ Weight() int }{
		"a model call": contract.ModelInput{Profile: contract.ProfileRef{ContentRef: ref, Body: raw}, Step: 1 << 30,
			Base: contract.Head{Workflow: ref.Workflow, Run: ref.Run, Thread: nasty, Len: 1 << 30, Hash: ref.SHA},
			Tail: []contract.TailEntry{{SHA: ref.SHA, Message: raw}, {SHA: ref.SHA}}},
		"a tool call": contract.ToolInput{Connection: plan.Connection{ID: nasty, Name: nasty, Kind: "mcp", URL: nasty, Description: nasty}, Name: nasty, Arguments: raw, Call: &ref, CallID: nasty, As: nasty},
		"a question": contract.JudgeInput{Model: nasty, Script: &ref, Question: nasty, Node: nasty, Name: nasty, Output: &ref,
			Input: contract.Part{Text: nasty, Ref: &ref}, State: raw, Long: []contract.LongValue{{Key: nasty, SHA: ref.SHA}}},
	} {
		n, err := Size(v)
		if err != nil {
			t.Fatal(err)
		}
		if v.Weight() < n {
			t.Errorf("%s weighs %d and is %d bytes", name, v.Weight(), n)
		}
	}
}

// TestStoredArgumentsTakeNoRoom lets calls whose arguments go to the store into one task.
func TestStoredArgumentsTakeNoRoom(t *testing.T) {
	workflowtest.Run(t, func(ctx workflow.Context) {
		g := Sizes{most: 8 << 20}
		before := workflow.Now(ctx)
		for range 20 {
			if err := g.Admit(ctx, "the call", strings.Repeat("x", 4<<20)); err != nil {
				t.Error(err)
			}
		}
		if workflow.Now(ctx) != before {
			t.Error("it waited for the next task")
		}
	})
}
