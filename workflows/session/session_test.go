package session

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/runtime"
	"weft/workflows/subsession"
	"weft/workflows/workflowtest"
)

// TestTrimFailedTurns checks that old failures are reduced to their class and a short text, and that the last failure remains complete.
func TestTrimFailedTurns(t *testing.T) {
	s, answer := &Session{}, contract.Answer{Execution: "a#1", Edge: "e", Question: strings.Repeat("q", 300)}
	for i := range 1200 {
		s.state.Turns = append(s.state.Turns, contract.Turn{N: i + 1, Status: contract.TurnFailed,
			Failure: &contract.Failure{Class: contract.ClassNoExit, Text: strings.Repeat("t", 2000), Answers: []contract.Answer{answer, answer}}})
		s.trim()
	}
	if n, err := contract.Size(s.state.Turns); err != nil || len(s.state.Turns) != maxTurns || n > 1<<20 {
		t.Errorf("%d turns with %d bytes: %v", len(s.state.Turns), n, err)
	}
	first, last := s.state.Turns[0].Failure, s.state.Turns[maxTurns-1].Failure
	if first.Class != contract.ClassNoExit || first.Text == "" || first.Answers != nil || len(last.Text) != 2000 || len(last.Answers) != 2 {
		t.Errorf("first failure is %.300v, last failure is %.300v", first, last)
	}
}

// TestDuplicateFields checks that prompt and close_session Updates with a duplicate field are rejected.
func TestDuplicateFields(t *testing.T) {
	s := &Session{state: contract.SessionState{IsSession: true}}
	if _, err := s.admit(json.RawMessage(`{"prompt": "on", "prompt": "off"}`)); err == nil || !strings.Contains(err.Error(), `"prompt" appears twice`) {
		t.Errorf("prompt: error is %v", err)
	}
	if err := (closing{s}).Admit(json.RawMessage(`{"reason": "a", "reason": "b"}`)); err == nil || !strings.Contains(err.Error(), `"reason" appears twice`) {
		t.Errorf("close_session: error is %v", err)
	}
}

// TestSnapshotRestoresSession checks that a snapshot restores a session in which every field is set.
func TestSnapshotRestoresSession(t *testing.T) {
	const rebuilt, ended = "the next run rebuilds it", "only a session that has ended has it"
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	workflowtest.Run(t, func(ctx workflow.Context) {
		r := runtime.New(ctx)
		old := &Session{run: r, Children: subsession.New(r, []contract.ChildSession{{ChildStatus: contract.ChildStatus{ID: "c", Agent: "b", Created: at}}}, []contract.ChildTurn{{Session: "c"}}),
			state: contract.SessionState{IsSession: true, Parent: "p", Turns: []contract.Turn{{N: 1}}, Count: 1, Queue: []contract.Prompt{{ID: "i"}},
				Spent: contract.Usage{Calls: 1}, Stop: &contract.CloseSessionInput{Reason: "r"}}}
		restored := New(runtime.New(ctx), nil, &contract.RunInput{Snapshot: &contract.RunSnapshot{Session: workflowtest.RoundTrip(t, old.Snapshot())}})
		workflowtest.CompareFields(t, old, restored, workflowtest.IgnoredFields{"run": rebuilt, "host": rebuilt, "Children": "compared below", "Idle": rebuilt, "leaving": rebuilt, "endedAt": ended,
			"end": rebuilt, "prompt": "the hook processes it before the turn can yield"})
		if !reflect.DeepEqual(old.Children.Snapshot(), restored.Children.Snapshot()) || !reflect.DeepEqual(old.Children.Callbacks, restored.Children.Callbacks) {
			t.Errorf("child sessions are %+v", restored.Children)
		}
	})
}
