package follow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/mock"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/history/historytest"
	"weft/starter/progress"
	"weft/starter/runs/runstest"
)

// TestFollowerReportsRequests checks what the follower reports for a series of statuses.
func TestFollowerReportsRequests(t *testing.T) {
	zone := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = zone })
	var out bytes.Buffer
	f := New(target("r", "", nil), lines{&out})
	open := runstest.Requests()
	begin := open[0].OpenedAt
	f.begin, f.requests.read = begin, begin.Add(2*time.Hour)
	open[1].Execution = "a#1:call_1/b%2Fc#2"
	late := begin.Add(time.Hour)
	f.updateRequests(&contract.Status{Requests: open, Answered: []contract.Answered{{ID: "old", Kind: contract.RequestConfirm, At: begin}}}, f.requests.open)
	f.updateRequests(&contract.Status{Requests: open}, f.requests.open)
	f.updateRequests(&contract.Status{Requests: open[3:], Answered: []contract.Answered{
		{ID: "old", Kind: contract.RequestConfirm, At: begin},
		{ID: open[0].ID, Kind: open[0].Kind, At: late},
		{ID: open[1].ID, Kind: open[1].Kind, At: begin.Add(90 * time.Second), Hash: "h", Author: contract.Author{By: "kim"}},
		{ID: open[2].ID, Kind: open[2].Kind, At: begin.Add(91 * time.Second), Hash: "h"},
	}}, f.requests.open)
	want := `    0.0s                            confirm old: needs no new answer
    0.0s  a#1                       waits for confirm: a wants to call pay (until 2026-01-02 04:04:05); answer with: starter confirm r 'a#1/confirm/1.1-0000aaaa' -yes | starter confirm r 'a#1/confirm/1.1-0000aaaa' -no -reason TEXT
   60.0s  a#1 › b/c#2               waits for tool_result: run look_up; answer with: starter tool-result r 'a#1/client/1.2-1111aaaa' -result JSON | starter tool-result r 'a#1/client/1.2-1111aaaa' -error TEXT
  120.0s  b#2                       waits for retry: no[2J key; answer with: starter retry r 'b#2/model/1~1-2222bbbb' | starter retry r 'b#2/model/1~1-2222bbbb' -give-up -reason TEXT
  180.0s                            waits for message: Which month?; answer with: starter message r -request 'it'\''s/ask-3333bbbb' TEXT
 3600.0s  a#1                       confirm a#1/confirm/1.1-0000aaaa: no answer in time
   90.0s  a#1 › b/c#2               tool_result a#1/client/1.2-1111aaaa: answered by kim
   91.0s  b#2                       retry b#2/model/1~1-2222bbbb: answered
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	out.Reset()
	f.updateRequests(&contract.Status{}, f.requests.open)
	if got := out.String(); !strings.HasSuffix(got, "message it's/ask-3333bbbb: closed: no longer needed\n") || len(f.requests.open) != 0 {
		t.Errorf("a request that is no longer open is reported as %q", got)
	}
}

// TestFollowerReportsReopenedRequests checks that a request that is opened again after its answer is reported again.
func TestFollowerReportsReopenedRequests(t *testing.T) {
	var out bytes.Buffer
	f := New(target("r", "", nil), lines{&out})
	open := runstest.Requests()[:1]
	f.begin, f.requests.read = open[0].OpenedAt, open[0].OpenedAt.Add(2*time.Hour)
	answered := contract.Answered{ID: open[0].ID, Kind: open[0].Kind, At: f.begin.Add(time.Minute), Hash: "h"}
	f.updateRequests(&contract.Status{Requests: open}, f.requests.open)
	f.updateRequests(&contract.Status{Answered: []contract.Answered{answered}}, f.requests.open)
	open[0].Reopened, open[0].OpenedAt = 1, f.begin.Add(2*time.Minute)
	f.updateRequests(&contract.Status{Requests: open}, f.requests.open)
	answered.Reopened, answered.At = 1, f.begin.Add(3*time.Minute)
	f.updateRequests(&contract.Status{Answered: []contract.Answered{answered}}, f.requests.open)
	if got := out.String(); strings.Count(got, "waits for confirm") != 2 || strings.Count(got, ": answered\n") != 2 {
		t.Errorf("two requests and two answers are reported as\n%s", got)
	}
}

// TestFollowerReportsRequestsOfHistory follows a run that has ended: its memo has the requests, its status has the answers.
func TestFollowerReportsRequestsOfHistory(t *testing.T) {
	q := contract.Request{ID: "ask#2/ask-1", Kind: contract.RequestMessage, Node: "ask", Step: 2, Execution: "ask#2", Text: "How old?", Run: contract.Run{Workflow: "root"}}
	h := historytest.New(t)
	h.Begin("", contract.RunInput{V: contract.Version, Input: "x"})
	q.OpenedAt = h.Start
	later := q
	later.ID, later.Text, later.OpenedAt = "ask#5/ask-2", "And now?", h.Start.Add(time.Minute)
	h.Open(0, q)
	h.Open(0)
	record := contract.ThreadRecord{Thread: contract.ConversationThread, Execution: "ask#2"}
	for _, m := range []contract.Message{{Role: contract.RoleAssistant, Text: q.Text}, {Role: contract.RoleUser, Text: "42"}} {
		raw := h.Message(m)
		record.Messages = append(record.Messages, contract.TailEntry{SHA: contract.SHA(raw), Message: raw})
	}
	h.Add(enumspb.EVENT_TYPE_MARKER_RECORDED, &historypb.MarkerRecordedEventAttributes{Details: map[string]*commonpb.Payloads{"data": h.Payload(record)}})
	var out bytes.Buffer
	f := New(target("root", "r", nil), objects{&out})
	answered := contract.Answered{ID: q.ID, Kind: q.Kind, Hash: "h", At: h.Start.Add(200 * time.Millisecond), Author: contract.Author{By: "kim"}}
	status := &contract.Status{Requests: []contract.Request{later}, Answered: []contract.Answered{answered}}
	f.updateRequests(status, nil) // before anything was read
	track := newTrack("root", "r", "")
	for _, e := range history.Events(history.Run{Workflow: &history.Workflow{}}, h.Events) {
		f.requests.read = e.Time
		f.event(track, &e)
	}
	f.updateRequests(status, f.requests.open)
	f.updateRequests(&contract.Status{Answered: status.Answered}, nil) // queried before the second request was opened
	var got []progress.Notice
	for _, line := range bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n")) {
		var n progress.Notice
		if err := json.Unmarshal(line, &n); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		n.Seconds, n.Text, n.Commands = 0, "", nil
		got = append(got, n)
	}
	want := []progress.Notice{
		{Event: progress.EventRequest, Time: later.OpenedAt, Node: "ask#2", Request: &later},
		{Event: progress.EventRequest, Time: q.OpenedAt, Node: "ask#2", Request: &q},
		{Event: progress.EventMessage, Time: h.Start.Add(300 * time.Millisecond), Node: "ask#2", Message: &contract.Message{Role: contract.RoleAssistant, Text: q.Text}},
		{Event: progress.EventMessage, Time: h.Start.Add(300 * time.Millisecond), Node: "ask#2", Message: &contract.Message{Role: contract.RoleUser, Text: "42"}},
		{Event: progress.EventAnswered, Time: answered.At, Node: "ask#2", Request: &q},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestFollowerReportsAnswersWithoutWorker checks that the answers of a closed run without a worker are read from its history and reported in order.
func TestFollowerReportsAnswersWithoutWorker(t *testing.T) {
	ask := contract.Request{ID: "ask#2/ask-1", Kind: contract.RequestMessage, Execution: "ask#2", Text: "How old?"}
	may := contract.Request{ID: "a#3/confirm/1.1-2", Kind: contract.RequestConfirm, Execution: "a#3", Text: "May it?"}
	h := historytest.New(t)
	h.Begin("", contract.RunInput{V: contract.Version, Input: "x"})
	ask.OpenedAt, may.OpenedAt = h.Start, h.Start
	h.Open(0, ask, may)
	h.Signalled(contract.RequestMessage, contract.MessageAnswer{Text: "42", Author: contract.Author{By: "kim"}})
	h.Add(enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED, &historypb.WorkflowTaskStartedEventAttributes{})
	h.Open(0, may)
	h.Call("a#3/model/1", contract.ActivityCallModel, contract.ModelInput{}, historytest.Answer(t, "Done."))
	h.Add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, &historypb.WorkflowExecutionCompletedEventAttributes{Result: h.Payload(contract.RunResult{})})
	c := &mocks.Client{}
	c.On("QueryWorkflow", mock.Anything, mock.Anything, mock.Anything, mock.Anything).Return(nil, errors.New("no worker"))
	c.On("QueryWorkflow", mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).Return(nil, errors.New("no worker"))
	c.On("DescribeWorkflowExecution", mock.Anything, mock.Anything, mock.Anything).Return(nil, errors.New("no worker"))
	c.On("GetWorkflowHistory", mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).Return(func(context.Context, string, string, bool, enumspb.HistoryEventFilterType) client.HistoryEventIterator {
		return historytest.NewIterator(h, nil)
	})
	var out bytes.Buffer
	if _, err := New(target("root", "r", c), lines{&out}).Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		_, text, _ := strings.Cut(line, "  ")
		got = append(got, strings.Join(strings.Fields(text), " "))
	}
	i := slices.IndexFunc(got, func(line string) bool { return strings.Contains(line, "ask-1: answered by kim") })
	j := slices.IndexFunc(got, func(line string) bool { return strings.Contains(line, "model call") })
	if i < 0 || j < i || !strings.HasSuffix(got[len(got)-1], "confirm a#3/confirm/1.1-2: closed: no longer needed") {
		t.Errorf("events:\n%s", out.String())
	}
}
