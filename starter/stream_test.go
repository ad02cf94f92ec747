package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/mock"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/mocks"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/history/historytest"
	"weft/starter/progress"
	"weft/starter/serve"
	"weft/worker/config"
)

func TestNewEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		before, now, want string
		skipped           bool
	}{
		"the first":             {"", "Once", "Once", false},
		"it grows":              {"Once", "Once upon", " upon", false},
		"nothing new":           {"Once", "Once", "", false},
		"its begin is cut":      {"Once upon a", "upon a time", " time", false},
		"of several characters": {"aé", "éü", "ü", false},
		"some passed by":        {"Once", "a time", "a time", true},
	} {
		if got, skipped := newEnd(tc.before, tc.now); got != tc.want || skipped != tc.skipped {
			t.Errorf("%s: %q, %v; want %q, %v", name, got, skipped, tc.want, tc.skipped)
		}
	}
}

// pending is a run in which one call is under way, with the details of its heartbeat.
func pending(t *testing.T, attempt int32, b contract.Beat) *workflowservice.DescribeWorkflowExecutionResponse {
	h := historytest.New(t)
	p := &workflowpb.PendingActivityInfo{ActivityId: "tell#1/model/1", State: enumspb.PENDING_ACTIVITY_STATE_STARTED, Attempt: attempt, HeartbeatDetails: h.Payload(b)}
	if attempt > 1 {
		p.LastFailure = rateLimited
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{PendingActivities: []*workflowpb.PendingActivityInfo{p}}
}

// looks follows a run in which a model answers, on one look after the other, and gives the
// follower.
func looks(t *testing.T, a *app, all ...*workflowservice.DescribeWorkflowExecutionResponse) *follower {
	t.Helper()
	h := &historytest.History{T: t, Start: time.Now()}
	h.Scheduled("tell#1/model/1", contract.ActivityModel, contract.ModelInput{})
	c := &mocks.Client{}
	for _, d := range all {
		c.On("DescribeWorkflowExecution", mock.Anything, "root", "r").Return(d, nil).Once()
	}
	f := a.newFollower(&config.Temporal{Client: c}, "root", "r")
	track := newTrack("root", "r", "")
	f.tracks["root"] = track
	f.event(track, &history.Events(history.Run{}, h.Events)[0])
	for range all {
		due := f.due()
		if f.reads() != (len(due) == 1) {
			t.Fatalf("%d runs are to be looked at, but whether text is shown is %v", len(due), f.reads())
		}
		f.look(context.Background(), track)
	}
	return f
}

// What a model answers is told as it comes; a new attempt begins anew.
func TestPartialAnswersAsObjects(t *testing.T) {
	var out bytes.Buffer
	looks(t, &app{stdout: &out, flags: flags{output: outputLines}},
		pending(t, 1, contract.Beat{Attempt: 1}),
		pending(t, 1, contract.Beat{Attempt: 1, Text: "Once"}),
		pending(t, 1, contract.Beat{Attempt: 1, Text: "Once"}),
		pending(t, 1, contract.Beat{Attempt: 1, Text: "Once upon\x1b[2J"}),
		pending(t, 2, contract.Beat{Attempt: 1, Text: "Once upon\x1b[2J a"}), // of the attempt before
		pending(t, 2, contract.Beat{Attempt: 2, Text: "Twice"}),
		pending(t, 2, contract.Beat{Attempt: 2, Text: "a time"}))
	var got []progress.Notice
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		var n progress.Notice
		if err := json.Unmarshal([]byte(line), &n); err != nil {
			t.Fatal(err)
		}
		if n.Event == progress.EventStarted {
			continue
		}
		n.Time, n.Seconds = time.Time{}, 0
		if n.Event == progress.EventAttempt {
			n.Text = ""
		}
		got = append(got, n)
	}
	text := func(attempt int32, text string, skipped bool) progress.Notice {
		return progress.Notice{Event: progress.EventText, Node: "tell#1", Call: "model call 1", Attempt: attempt, Text: text, Skipped: skipped}
	}
	want := []progress.Notice{text(1, "Once", false), text(1, " upon\x1b[2J", false), {Event: progress.EventAttempt, Node: "tell#1", Call: "model call 1", Attempt: 1},
		text(2, "Twice", false), text(2, "a time", true)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

// Plain lines say nothing of a partial answer, and nobody asks for it.
func TestPartialAnswersAreNotLines(t *testing.T) {
	var out bytes.Buffer
	looks(t, &app{stderr: &out}, pending(t, 1, contract.Beat{Attempt: 1, Text: "Once"}))
	if want := "    0.0s  tell#1                    started\n"; out.String() != want {
		t.Errorf("lines are %q, want %q", out.String(), want)
	}
}

// A partial answer is no place from which a client could go on; what is behind it is.
func TestPartialAnswersAsEvents(t *testing.T) {
	var got []*serve.Event
	f := &follower{marks: newMarks("root", reading{})}
	f.report = &eventReport{f: f, tellIt: func(e *serve.Event) error { got = append(got, e); return nil }}
	f.tell(progress.Notice{Event: progress.EventText, Node: "tell#1", Call: "model call 1", Attempt: 2, Skipped: true}, "%s", "a time")
	f.tell(progress.Notice{Event: progress.EventModel, Node: "tell#1", Call: "model call 1"}, "done")
	if e := got[0]; !f.reads() || e.ID != "" || e.Text != "a time" || !e.Skipped || e.Attempt != 2 || e.Call != "model call 1" {
		t.Errorf("the event of a partial answer is %+v", e)
	}
	if e := got[1]; e.ID == "" || e.Skipped || e.Text != "done" {
		t.Errorf("the event of an answer is %+v", e)
	}
}

// What another codec wrote is passed over.
func TestPartialAnswersThatNobodyHereCanRead(t *testing.T) {
	var out bytes.Buffer
	d := pending(t, 1, contract.Beat{Attempt: 1, Text: "Once"})
	d.PendingActivities[0].HeartbeatDetails = &commonpb.Payloads{Payloads: []*commonpb.Payload{{Metadata: map[string][]byte{"encoding": []byte("binary/encrypted")}}}}
	looks(t, &app{stdout: &out, flags: flags{output: outputLines}}, d)
	if strings.Contains(out.String(), `"text"`+":"+`"Once`) || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("objects are %s", out.String())
	}
}
