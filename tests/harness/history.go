package harness

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"weft/activities/textutil"
	"weft/starter/history"
	"weft/starter/recording"
	"weft/worker/rehearse"
	"weft/workflows"
	"weft/workflows/limiter"
)

// RunCount counts the runs of a chain of continued runs.
func RunCount(t *testing.T, c client.Client, run client.WorkflowRun) int {
	t.Helper()
	n, id := 1, run.GetRunID() // the last run, once the result is available
	for {
		before := Events(t, c, run.GetID(), id)[0].GetWorkflowExecutionStartedEventAttributes().ContinuedExecutionRunId
		if before == "" {
			return n
		}
		n, id = n+1, before
	}
}

// Histories is the folder of recorded histories, with one file per run: NAME.json for the root and
// NAME@CHILD.json for its children.
const Histories = "../testdata/history"

// Replay runs the workflow code against a recorded history.
func Replay(t *testing.T, raw []byte) {
	t.Helper()
	history, err := client.HistoryFromJSON(strings.NewReader(string(raw)), client.HistoryJSONOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first := history.Events[0].GetWorkflowExecutionStartedEventAttributes()
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DisableDeadlockDetection: true}) // machines may be busy
	if err != nil {
		t.Fatal(err)
	}
	workflows.Register(replayer)
	limiter.Register(replayer)
	err = replayer.ReplayWorkflowHistoryWithOptions(NoLog, history, worker.ReplayWorkflowHistoryOptions{
		OriginalExecution: workflow.Execution{ID: first.GetWorkflowId(), RunID: first.GetOriginalExecutionRunId()},
	})
	if err != nil {
		t.Error(err)
	}
}

// Record replays the histories of a run and its children, and writes them if requested.
func Record(t *testing.T, c client.Client, name, id, run string) {
	t.Helper()
	list := Events(t, c, id, run)
	raw, err := temporalproto.CustomJSONMarshalOptions{Indent: " "}.Marshal(&historypb.History{Events: list})
	if err != nil {
		t.Fatal(err)
	}
	raw = anonymize(t, raw)
	Replay(t, raw)
	file := filepath.Join(Histories, name+".json")
	if _, err := os.Stat(file); os.Getenv("WEFT_RECORD") != "" && err != nil {
		if err := os.WriteFile(file, raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range list {
		if a := e.GetChildWorkflowExecutionStartedEventAttributes(); a != nil {
			_, child, _ := strings.Cut(a.WorkflowExecution.WorkflowId, "/")
			id, run := a.WorkflowExecution.WorkflowId, a.WorkflowExecution.RunId
			WaitFor(t, id+" to end", func() bool {
				d, err := c.DescribeWorkflowExecution(context.Background(), id, run)
				return err == nil && d.WorkflowExecutionInfo.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
			})
			Record(t, c, name+"@"+strings.NewReplacer("/", "+", ":", "_").Replace(child), id, run)
		}
	}
}

// anonymize removes the names of machines and processes from a history.
func anonymize(t *testing.T, raw []byte) []byte {
	t.Helper()
	v, ok := textutil.DecodeExact(raw)
	if !ok {
		t.Fatalf("not JSON: %.100s", raw)
	}
	var walk func(v any)
	walk = func(v any) {
		switch x := v.(type) {
		case map[string]any:
			delete(x, "identity")
			if x["kind"] == "TASK_QUEUE_KIND_STICKY" {
				x["name"] = "sticky"
			}
			for _, v := range x {
				walk(v)
			}
		case []any:
			for _, i := range x {
				walk(i)
			}
		}
	}
	walk(v)
	out, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}

// Events returns the complete history of a run.
func Events(t testing.TB, c client.Client, id, run string) []*historypb.HistoryEvent {
	t.Helper()
	var out []*historypb.HistoryEvent
	it := c.GetWorkflowHistory(context.Background(), id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// PlayRecording records a closed run and plays the recording, which must reproduce the run.
func (h *Worker) PlayRecording(t *testing.T, id, run string) *rehearse.Recording {
	t.Helper()
	raw, _, err := recording.Record(t.Context(), history.From(h.Client), id, run, nil)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := rehearse.Read("run.yaml", raw)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := rehearse.Play(rec)
	if err != nil {
		t.Fatal(err)
	}
	if !rep.OK {
		t.Errorf("the recording differs from the run: %+v\n%s", rep.First, raw)
	}
	return rec
}
