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

func TestLastLines(t *testing.T) {
	for text, want := range map[string][]string{
		"":                              nil,
		"\n \n":                         nil,
		"one":                           {"one"},
		"one\ntwo\n\nthree\n":           {"two", "three"},
		"0123456789abc":                 {"…456789abc"},
		"0123456789abc\nx":              {"012345678…", "x"},
		"0123456789":                    {"0123456789"},
		"日本語日本語\nx":                     {"日本語日…", "x"},
		"日本語日本語":                        {"…語日本語"},
		"日本語日本":                         {"日本語日本"},
		"a\r\x1b[2Kb\u2028c\x1b]0;x\ad": {"[2Kb", "c]0;xd"},
		"\u202ea\u200b\u009b2J\xff end": {"a2J\uFFFD end"},
	} {
		got := lastLines(text, 10)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("lastLines(%q) (-want +got):\n%s", text, diff)
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
	var got []notice
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		var n notice
		if err := json.Unmarshal([]byte(line), &n); err != nil {
			t.Fatal(err)
		}
		if n.Event == eventStarted {
			continue
		}
		n.Time, n.Seconds = time.Time{}, 0
		if n.Event == eventAttempt {
			n.Text = ""
		}
		got = append(got, n)
	}
	text := func(attempt int32, text string, skipped bool) notice {
		return notice{Event: eventText, Node: "tell#1", Call: "model call 1", Attempt: attempt, Text: text, Skipped: skipped}
	}
	want := []notice{text(1, "Once", false), text(1, " upon\x1b[2J", false), {Event: eventAttempt, Node: "tell#1", Call: "model call 1", Attempt: 1},
		text(2, "Twice", false), text(2, "a time", true)}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(notice{})); diff != "" {
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
	f.tell(notice{Event: eventText, Node: "tell#1", Call: "model call 1", Attempt: 2, Skipped: true}, "%s", "a time")
	f.tell(notice{Event: eventModel, Node: "tell#1", Call: "model call 1"}, "done")
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

// stillLive is a table of one running node that nobody draws.
func stillLive(width, height int) *live {
	now := time.Now()
	l := &live{app: &app{}, now: func() time.Time { return now }, done: map[string]bool{}, size: func() (int, int) { return width, height }}
	l.tell(notice{Event: eventStarted, Node: "tell#1", Time: now, Text: "started"})
	return l
}

func TestPartialAnswersUnderTheirRow(t *testing.T) {
	l := stillLive(24, 24)
	answer := notice{Event: eventText, Node: "tell#1", Call: "model call 1", Attempt: 1, whole: "It was\na dark and stormy\x1b[2J night"}
	l.tell(answer)
	if diff := cmp.Diff([]string{"  │ It was", "  │ …and stormy[2J night"}, l.table()[1:3]); diff != "" {
		t.Errorf("the lines below the row (-want +got):\n%s", diff)
	}
	answer.Attempt, answer.whole = 2, "Again"
	l.tell(answer)
	if got := l.table()[1]; got != "  │ attempt 2: Again" {
		t.Errorf("the line of a second attempt is %q", got)
	}
	l.tell(notice{Event: eventModel, Node: "tell#1", Call: "model call 1", Time: l.now(), Text: `model call 1: "Again"`})
	if got := l.table(); len(got) != 2 {
		t.Errorf("of a whole answer there is still a part: %q", got)
	}
}

// The table with all partial answers is not higher than the screen.
func TestPartialAnswersHaveBounds(t *testing.T) {
	for height, want := range map[int]int{24: maxRows + 1, 12: 11, 5: 9} {
		l := stillLive(80, height)
		for _, node := range strings.Fields("tell#1 b#1 c#1 d#1 e#1 f#1 g#1 h#1") {
			l.tell(notice{Event: eventStarted, Node: node, Time: l.now(), Text: "started"})
			l.tell(notice{Event: eventText, Node: node, whole: "one\ntwo\nthree"})
		}
		if got := len(l.table()); got != want {
			t.Errorf("on %d lines the table has %d, want %d", height, got, want)
		}
	}
}

// A partial answer does not draw over what somebody types.
func TestPartialAnswersWaitForTyping(t *testing.T) {
	l := stillLive(80, 24)
	l.tell(notice{Event: eventRequest, Node: "ask#1", Time: l.now(), Request: &contract.Request{Kind: contract.RequestMessage}})
	l.dirty = false
	l.tell(notice{Event: eventText, Node: "tell#1", whole: "one"})
	if l.dirty {
		t.Error("the table is to be drawn while somebody types")
	}
}
