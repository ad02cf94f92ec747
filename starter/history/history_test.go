package history_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/mock"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/mocks"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/history/historytest"
)

// summary returns where an event happened and what it is.
func summary(e *history.Event) string {
	what := strings.TrimPrefix(fmt.Sprintf("%T", e.Data), "*history.")
	switch d := e.Data.(type) {
	case *history.Started:
		what += " " + d.Type
	case *history.CallScheduled:
		what += " " + d.ID
	case *history.CallCompleted:
		what += " " + d.ID
	case *history.ChildRequested:
		what += " " + d.ID
	case *history.ChildEnded:
		what += " " + d.ID
	case *history.Message:
		what += " " + d.Name
	case *history.Ended:
		what += " " + d.Status.String()
	}
	return e.Run.Place + what
}

// read reads a tree of histories, without workflow tasks and irrelevant events.
func read(t *testing.T, from history.Source, run string) []string {
	t.Helper()
	var out []string
	for e, err := range history.Read(t.Context(), from, "root", run) {
		if err != nil {
			t.Fatal(err)
		}
		switch e.Data.(type) {
		case nil, *history.TaskStarted, *history.TaskCompleted, *history.CallStarted, *history.ChildStarted:
		default:
			out = append(out, summary(&e))
		}
	}
	return out
}

// TestReadTree checks that a child's events follow the event that requested it, in the order of the flow.
func TestReadTree(t *testing.T) {
	got := read(t, historytest.RecordedTree(t, "../../tests", "sub-agent", "a#1_call_1"), "r")
	if len(got) < 10 || got[0] != "Started Flow" {
		t.Fatalf("events = %q", got)
	}
	if !slices.Contains(got, "CallScheduled prepare") || !slices.Contains(got, "CallCompleted prepare") {
		t.Errorf("the call in the workflow task is missing: %q", got)
	}
	inside := slices.IndexFunc(got, func(s string) bool { return strings.HasPrefix(s, "a#1:call_1 › Started Flow") })
	if inside < 0 || !strings.HasPrefix(got[inside-1], "ChildRequested ") {
		t.Errorf("the first sub-agent does not follow its request: %q", got)
	}
	if !slices.Contains(got, "a#1:call_2 › Missing") {
		t.Errorf("the second sub-agent's history is not reported as missing: %q", got)
	}
	if last := got[len(got)-1]; last != "Ended "+enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED.String() {
		t.Errorf("last event = %q", last)
	}
}

// TestReadContinuedRuns checks that the run before continue-as-new is read first, and that only the requested run's history must exist.
func TestReadContinuedRuns(t *testing.T) {
	first, second := historytest.New(t), historytest.New(t)
	first.Begin("", contract.RunInput{Input: "go"})
	first.ContinuedAsNew("r2")
	second.Begin("r1", contract.RunInput{Snapshot: &contract.RunSnapshot{}})
	second.Call("n#1/model/1", contract.ActivityCallModel, contract.ModelInput{}, historytest.Answer(t, "hello"))
	for name, tc := range map[string]struct {
		first *historytest.History
		want  []string
	}{
		"both stored":          {first, []string{"Started Flow", "Ended ContinuedAsNew", "Started Flow", "CallScheduled n#1/model/1", "CallCompleted n#1/model/1"}},
		"first run not stored": {nil, []string{"Missing", "Started Flow", "CallScheduled n#1/model/1", "CallCompleted n#1/model/1"}},
	} {
		t.Run(name, func(t *testing.T) {
			from := historytest.Source(map[string]*historytest.History{"r1": tc.first, "r2": second})
			if diff := cmp.Diff(tc.want, read(t, from, "r2")); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
	for e, err := range history.Read(t.Context(), historytest.Source(nil), "root", "r") {
		if err == nil {
			t.Errorf("read %+v of a history that is not stored", e)
		}
	}
}

// TestRecordedHistoriesDecode checks that all calls and messages of the recorded histories can be decoded.
func TestRecordedHistoriesDecode(t *testing.T) {
	files, err := filepath.Glob("../../tests/testdata/history/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no histories: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		for _, e := range history.Events(history.Run{Workflow: &history.Workflow{}}, historytest.Recorded(t, "../../tests", name).Events) {
			switch d := e.Data.(type) {
			case *history.Started:
				if d.Input == nil && d.Branch == nil {
					t.Errorf("%s: event %d: the input does not decode", name, e.ID)
				}
			case *history.CallScheduled:
				if d.Input == nil && slices.Contains([]string{contract.ActivityCallModel, contract.ActivityCallTool, contract.ActivityEvaluateCondition}, d.Kind) {
					t.Errorf("%s: event %d: the input of %s does not decode", name, e.ID, d.ID)
				}
			case *history.CallCompleted:
				if d.Result == nil && d.Kind != contract.ActivityRunProgram && d.Kind != contract.ActivityCallWebhook && d.TaskQueue == "" {
					t.Errorf("%s: event %d: the result of %s does not decode", name, e.ID, d.ID)
				}
			case *history.Ended:
				if d.Status == enumspb.WORKFLOW_EXECUTION_STATUS_UNSPECIFIED {
					t.Errorf("%s: event %d: no close status", name, e.ID)
				}
			}
		}
	}
}

// TestTailResumes checks that a tail resumes after the last event when reading failed.
func TestTailResumes(t *testing.T) {
	h := historytest.New(t)
	h.Call("n#1/model/1", contract.ActivityCallModel, contract.ModelInput{}, historytest.Answer(t, "hello"))
	h.ContinuedAsNew("r2")
	part := &historytest.History{T: t, Events: h.Events[:2]}
	c := &mocks.Client{}
	c.On("GetWorkflowHistory", mock.Anything, "root", "r", true, mock.Anything).Return(historytest.NewIterator(part, serviceerror.NewUnavailable("gone"))).Once()
	c.On("GetWorkflowHistory", mock.Anything, "root", "r", true, mock.Anything).Return(historytest.NewIterator(h, nil))
	tail := history.NewTail(c, history.Run{Workflow: &history.Workflow{ID: "root"}, RunID: "r"})
	var got []string
	for range 2 {
		for e, err := range tail.Events(t.Context()) {
			if err != nil {
				got = append(got, err.Error())
				continue
			}
			got = append(got, summary(&e))
		}
	}
	want := []string{"CallScheduled n#1/model/1", "CallStarted", "gone", "CallCompleted n#1/model/1", "Ended ContinuedAsNew"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if tail.ContinuedAs != "r2" || tail.Seen != 4 {
		t.Errorf("ContinuedAs = %q after event %d", tail.ContinuedAs, tail.Seen)
	}
}

func TestNames(t *testing.T) {
	for label, want := range map[string]contract.Execution{
		"a#1": {Node: "a", Step: 1}, "a%2Fb#2~3": {Node: "a/b", Step: 2, Occurrence: 3}, "x": {Node: "x"},
	} {
		if got := history.ExecutionOf(label); !cmp.Equal(got, want) {
			t.Errorf("ExecutionOf(%q) = %+v, want %+v", label, got, want)
		}
	}
	if got := history.Label(contract.Execution{Node: "a", Step: 2, Occurrence: 3}); got != "a#2~3" {
		t.Errorf("Label() = %q", got)
	}
	for id, want := range map[string][2]string{
		"a#1/model/2": {"a#1", "2"}, "a#1/model/2/3": {"a#1", "2/3"}, "a%2Fb#1/tool/1.2": {"a/b#1", "1.2"}, "prepare": {"prepare", ""},
	} {
		if node, turn := history.SplitCallID(id); [2]string{node, turn} != want {
			t.Errorf("SplitCallID(%q) = %q, %q, want %q", id, node, turn, want)
		}
	}
}

// TestReadAhead checks that histories of children are read ahead, a few at a time, and returned in the order of the flow, that reading stops
// when the reader stops or on an error, and that a panic reaches the reader.
func TestReadAhead(t *testing.T) {
	const children = 100
	runs := map[string]*historytest.History{"r": historytest.New(t)}
	runs["r"].Begin("", contract.RunInput{})
	var want []string
	for i := range children {
		id := fmt.Sprint("root/n#1:c", i)
		runs["r"].Child(id, contract.WorkflowFlow)
		child := historytest.New(t)
		child.Begin("", contract.RunInput{})
		runs["run of "+id] = child
		want = append(want, id)
	}
	var reads, now, most atomic.Int32
	stored := historytest.Source(runs)
	source := func(fails func(run string) error) history.Source {
		reads.Store(0)
		return func(ctx context.Context, id, run string) ([]*historypb.HistoryEvent, error) {
			reads.Add(1)
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			if err := fails(run); err != nil {
				return nil, err
			}
			return stored(ctx, id, run)
		}
	}
	valid := func(string) error { return nil }
	var got []string
	for e, err := range history.Read(t.Context(), source(valid), "root", "r") {
		if err != nil {
			t.Fatal(err)
		}
		if _, started := e.Data.(*history.Started); started && !e.Run.Root {
			got = append(got, e.Run.ID)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || reads.Load() != children+1 {
		t.Errorf("%d histories were read; children (-want +got):\n%s", reads.Load(), diff)
	}
	if most.Load() > 8 {
		t.Errorf("%d histories were read at the same time", most.Load())
	}
	for range history.Read(t.Context(), source(valid), "root", "r") {
		break
	}
	if n := reads.Load(); n > 20 {
		t.Errorf("%d histories were read for one event", n)
	}
	broken := func(run string) error {
		if strings.HasSuffix(run, ":c3") {
			return errors.New("broken")
		}
		return nil
	}
	var last error
	for _, err := range history.Read(t.Context(), source(broken), "root", "r") {
		last = err
	}
	if last == nil || !strings.HasSuffix(last.Error(), "broken") || reads.Load() > 20 {
		t.Errorf("error = %v after %d histories", last, reads.Load())
	}
	defer func() {
		if p := recover(); p != "a defect" {
			t.Errorf("panic = %v", p)
		}
	}()
	for range history.Read(t.Context(), source(func(run string) error {
		if strings.HasSuffix(run, ":c3") {
			panic("a defect")
		}
		return nil
	}), "root", "r") {
	}
}

// TestCompiledByNode checks that a flow that a node has compiled is not taken for the flow of the run.
func TestCompiledByNode(t *testing.T) {
	h := historytest.New(t)
	h.Begin("", contract.RunInput{})
	for _, id := range []string{"prepare", "a#1/session/1.1"} {
		h.Call(id, contract.ActivityCompileFlow, contract.CompileFlowInput{}, contract.CompileFlowResult{Hash: id})
	}
	var got []any
	for e, err := range history.Read(t.Context(), historytest.Source(map[string]*historytest.History{"r": h}), "root", "r") {
		if err != nil {
			t.Fatal(err)
		}
		if done, ok := e.Data.(*history.CallCompleted); ok {
			got = append(got, done.Result)
		}
	}
	if len(got) != 2 || got[0].(*contract.CompileFlowResult).Hash != "prepare" || got[1] != nil {
		t.Errorf("results = %v", got)
	}
}
