package inbox

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/journal"
	"weft/workflows/runtime"
	"weft/workflows/schedule/scheduletest"
	"weft/workflows/workflowtest"
)

// TestAnnouncedRequests checks that requests with an oversized field are rejected, since any client can
// announce one, and that those of descendant runs are accepted.
func TestAnnouncedRequests(t *testing.T) {
	d := &Inbox{run: newRun(t)}
	long := strings.Repeat("x", 1<<20)
	valid := contract.Request{ID: "q", Kind: contract.RequestConfirm, Run: contract.Run{Workflow: "wf/a#1", Run: "r"}}
	for name, mutate := range map[string]func(q *contract.Request){
		"id": func(q *contract.Request) { q.ID = long }, "kind": func(q *contract.Request) { q.Kind = long },
		"node": func(q *contract.Request) { q.Node = long }, "execution": func(q *contract.Request) { q.Execution = long },
		"at": func(q *contract.Request) { q.At = long }, "text": func(q *contract.Request) { q.Text = long },
		"hash": func(q *contract.Request) { q.Hash = long }, "tool": func(q *contract.Request) { q.Tool = long },
		"name": func(q *contract.Request) { q.Name = long }, "connection": func(q *contract.Request) { q.Connection = long },
		"arguments": func(q *contract.Request) { q.Arguments = json.RawMessage(`"` + long + `"`) },
		"call":      func(q *contract.Request) { q.Call = &contract.ContentRef{SHA: long} },
		"catalogue": func(q *contract.Request) { q.Catalogue = &contract.ContentRef{Workflow: long} },
		"run":       func(q *contract.Request) { q.Run.Run = long }, "workflow": func(q *contract.Request) { q.Run.Workflow = long },
	} {
		q := valid
		mutate(&q)
		if err := d.checkAnnounced(&q); err == nil || len(err.Error()) > 1000 {
			t.Errorf("checkAnnounced() with a long %s = %.200v", name, err)
		}
	}
	q := valid
	q.Failure = &contract.Failure{Class: "denied", Text: long, Remedy: long, At: long, Diagnostics: []string{long}, Data: json.RawMessage(`"` + long + `"`)}
	if err := d.checkAnnounced(&q); err != nil {
		t.Error(err)
	}
	if n, err := contract.Size(q); err != nil || n > 32<<10 {
		t.Errorf("a request with a long failure has %d bytes: %v", n, err)
	}
	f := scheduletest.Sketch("START>a a>END")
	f.Nodes[0].ID = long
	r := newRun(t)
	r.Root, r.Shared.Owner = "wf/a", "wf"
	descendant := r.Requests.Complete(&runtime.Execution{Run: r, Node: &f.Nodes[0], ID: "a#1"}, contract.Request{ID: "a#1/confirm/1.1", Kind: contract.RequestConfirm, Text: long, Tool: long, Name: long, Failure: q.Failure.Shown()})
	descendant.Run.Workflow = "wf/a"
	if err := d.checkAnnounced(&descendant); err != nil {
		t.Errorf("request of a descendant run: %v", err)
	}
}

// TestTooManyRequests checks that an execution fails if it opens a request over the limit of open requests.
func TestTooManyRequests(t *testing.T) {
	workflowtest.Run(t, func(ctx workflow.Context) {
		r := runtime.New(ctx)
		r.Root, r.Shared.Owner = "wf", "wf"
		d := New(r, idleHost{})
		for i := range maxOpen {
			d.Requests = append(d.Requests, contract.Request{ID: fmt.Sprint("r", i), Kind: contract.RequestMessage})
		}
		f := scheduletest.Sketch("START>a a>END")
		x := &runtime.Execution{Run: r, Node: &f.Nodes[0], ID: "a#1", Step: 1, Journal: journal.New(nil, nil)}
		for kind, reply := range map[string]contract.Request{"message": {Kind: contract.RequestMessage}, "confirm": {Kind: contract.RequestConfirm}} {
			reply.ID = "a#1/" + kind
			_, err := r.Requests.Ask(ctx, x, reply)
			full := contract.FailureOf(err)
			if full == nil || full.Class != contract.ClassTooLarge || full.Node != "a" || !strings.Contains(full.Text, "2000 are already open") {
				t.Errorf("%s: got %v", kind, err)
			}
		}
		if len(d.Requests) != maxOpen || r.Requests.Rejected != 2 {
			t.Errorf("%d requests are open, %d rejected", len(d.Requests), r.Requests.Rejected)
		}
	})
}

// TestAnswerSize checks that the limit applies to answers as encoded for the waiting run, where characters
// are escaped that the client may have sent unescaped.
func TestAnswerSize(t *testing.T) {
	d := &Inbox{run: newRun(t), Requests: []contract.Request{{ID: "q", Kind: contract.RequestMessage}, {ID: "c", Kind: contract.RequestToolResult}},
		host: idleHost{}}
	for name, tc := range map[string]struct {
		kind, raw, class string
	}{
		"long text":                 {contract.RequestMessage, `{"id":"q","text":"` + strings.Repeat("x", 1_000_000) + `"}`, ""},
		"text of brackets":          {contract.RequestMessage, `{"id":"q","text":"` + strings.Repeat("<", 400_000) + `"}`, contract.ClassTooLarge},
		"result of ampersands":      {contract.RequestToolResult, `{"id":"c","result":"` + strings.Repeat("&", 400_000) + `"}`, contract.ClassTooLarge},
		"invalid UTF-8":             {contract.RequestMessage, `{"id":"q","text":"` + strings.Repeat("\xff", 400_000) + `"}`, contract.ClassTooLarge},
		"message":                   {contract.RequestMessage, `{"text":"` + strings.Repeat("x", 200_000) + `"}`, ""},
		"message of brackets":       {contract.RequestMessage, `{"text":"` + strings.Repeat("<", 200_000) + `"}`, contract.ClassTooLarge},
		"short message of brackets": {contract.RequestMessage, `{"text":"` + strings.Repeat("<", 2000) + `"}`, ""},
	} {
		if _, err := d.admit(tc.kind, json.RawMessage(tc.raw)); class(err) != tc.class {
			t.Errorf("%s: admit() = %.200v, want class %q", name, err, tc.class)
		}
	}
	d.run.Requests.UnreadMessages = []contract.Inbound{{Text: strings.Repeat("<", 100_000)}}
	if _, err := d.admit(contract.RequestMessage, json.RawMessage(`{"text":"`+strings.Repeat("<", 100_000)+`"}`)); class(err) != contract.ClassTooLarge {
		t.Errorf("admit() of a second message of brackets = %v", err)
	}
}

func class(err error) string {
	if err == nil {
		return ""
	}
	return contract.FailureOf(err).Class
}

// idleHost is a host that has every node and no branches.
type idleHost struct{}

func (idleHost) Opened(workflow.Context, *contract.Request) {}

func (idleHost) Closed(workflow.Context, *contract.Answered) {}

func (idleHost) Changed(workflow.Context) {}

func (idleHost) FindNode(string) (ready, found bool) { return true, true }

func (idleHost) Route(*contract.Inbound) (string, *runtime.ChildRun) { return "", nil }

// newRun returns a run whose workflow has ended.
func newRun(t *testing.T) *runtime.Run {
	t.Helper()
	var r *runtime.Run
	workflowtest.Run(t, func(ctx workflow.Context) { r = runtime.New(ctx) })
	return r
}

// TestSnapshotRestoresInbox checks that a snapshot restores all fields of an inbox.
func TestSnapshotRestoresInbox(t *testing.T) {
	const recreated, notPending = "created by the next run", "empty when a run continues as new"
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	workflowtest.Run(t, func(ctx workflow.Context) {
		old, again := New(runtime.New(ctx), idleHost{}), New(runtime.New(ctx), idleHost{})
		old.Requests, old.answered = []contract.Request{{ID: "r", OpenedAt: at}}, []contract.Answered{{ID: "q", At: at, Run: "r", Reopened: 1, Expired: true}}
		old.remembered, old.run.Requests.UnreadMessages, old.seen, old.seq = []contract.Remembered{{Name: "n"}}, []contract.Inbound{{Seq: 1, Text: "hi"}}, []string{"s"}, 3
		old.run.Requests.Rejected, old.run.Requests.RejectionReasons = 2, []string{"no"}
		again.Restore(ctx, workflowtest.RoundTrip(t, old.Snapshot()))
		workflowtest.CompareFields(t, old, again, workflowtest.IgnoredFields{"run": recreated, "host": recreated, "timers": "recreated from the requests' deadlines", "relays": notPending,
			"processing": notPending, "assigned": notPending, "full": recreated})
		if len(again.run.Requests.UnreadMessages) != 1 || again.run.Requests.Rejected != 2 || len(again.run.Requests.RejectionReasons) != 1 {
			t.Error("the unread messages or the rejected signals were not restored")
		}
	})
}
