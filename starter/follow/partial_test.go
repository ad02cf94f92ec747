package follow

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
)

func TestNewSuffix(t *testing.T) {
	for name, tc := range map[string]struct {
		before, now, want string
		skipped           bool
	}{
		"first":                 {"", "Once", "Once", false},
		"appended":              {"Once", "Once upon", " upon", false},
		"unchanged":             {"Once", "Once", "", false},
		"start cut off":         {"Once upon a", "upon a time", " time", false},
		"multi-byte characters": {"aé", "éü", "ü", false},
		"text missed":           {"Once", "a time", "a time", true},
	} {
		if got, skipped := newEnd(tc.before, tc.now); got != tc.want || skipped != tc.skipped {
			t.Errorf("%s: %q, %v; want %q, %v", name, got, skipped, tc.want, tc.skipped)
		}
	}
}

// pending returns the description of a run with one running call that has sent the heartbeat b.
func pending(t *testing.T, attempt int32, b contract.Heartbeat) *workflowservice.DescribeWorkflowExecutionResponse {
	h := historytest.New(t)
	p := &workflowpb.PendingActivityInfo{ActivityId: "tell#1/model/1", State: enumspb.PENDING_ACTIVITY_STATE_STARTED, Attempt: attempt, HeartbeatDetails: h.Payload(b)}
	if attempt > 1 {
		p.LastFailure = rateLimited
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{PendingActivities: []*workflowpb.PendingActivityInfo{p}}
}

// describeAll follows a run with a running model call through the given descriptions and returns
// the follower.
func describeAll(t *testing.T, to progress.Report, all ...*workflowservice.DescribeWorkflowExecutionResponse) *Follower {
	t.Helper()
	h := &historytest.History{T: t, Start: time.Now()}
	h.Scheduled("tell#1/model/1", contract.ActivityCallModel, contract.ModelInput{})
	c := &mocks.Client{}
	for _, d := range all {
		c.On("DescribeWorkflowExecution", mock.Anything, "root", "r").Return(d, nil).Once()
	}
	f := New(target("root", "r", c), to)
	track := newTrack("root", "r", "")
	f.tracks["root"] = track
	f.event(track, &history.Events(history.Run{Workflow: &history.Workflow{}}, h.Events)[0])
	for range all {
		due := f.due()
		if f.showsText() != (len(due) == 1) {
			t.Fatalf("%d runs to describe, but showsText() = %v", len(due), f.showsText())
		}
		f.describe(context.Background(), track)
	}
	return f
}

// TestPartialAnswersAsObjects checks that a partial answer is reported as it grows, and from its start again on a new attempt.
func TestPartialAnswersAsObjects(t *testing.T) {
	var out bytes.Buffer
	describeAll(t, objects{&out},
		pending(t, 1, contract.Heartbeat{Attempt: 1}),
		pending(t, 1, contract.Heartbeat{Attempt: 1, Text: "Once"}),
		pending(t, 1, contract.Heartbeat{Attempt: 1, Text: "Once"}),
		pending(t, 1, contract.Heartbeat{Attempt: 1, Text: "Once upon\x1b[2J"}),
		pending(t, 2, contract.Heartbeat{Attempt: 1, Text: "Once upon\x1b[2J a"}), // of the previous attempt
		pending(t, 2, contract.Heartbeat{Attempt: 2, Text: "Twice"}),
		pending(t, 2, contract.Heartbeat{Attempt: 2, Text: "a time"}))
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

// TestPartialAnswersAreNotLines checks that plain lines contain no partial answers, so that the run is not described for them.
func TestPartialAnswersAreNotLines(t *testing.T) {
	var out bytes.Buffer
	describeAll(t, lines{&out}, pending(t, 1, contract.Heartbeat{Attempt: 1, Text: "Once"}))
	if want := "    0.0s  tell#1                    started\n"; out.String() != want {
		t.Errorf("lines = %q, want %q", out.String(), want)
	}
}

// TestUnreadableHeartbeats checks that a heartbeat written by another codec is ignored.
func TestUnreadableHeartbeats(t *testing.T) {
	var out bytes.Buffer
	d := pending(t, 1, contract.Heartbeat{Attempt: 1, Text: "Once"})
	d.PendingActivities[0].HeartbeatDetails = &commonpb.Payloads{Payloads: []*commonpb.Payload{{Metadata: map[string][]byte{"encoding": []byte("binary/encrypted")}}}}
	describeAll(t, objects{&out}, d)
	if strings.Contains(out.String(), `"text"`+":"+`"Once`) || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("objects = %s", out.String())
	}
}

// TestWaitingIsReported checks that a call that waits for a rate limit is reported once, and again when it waits for something else.
func TestWaitingIsReported(t *testing.T) {
	const turn = "waiting 3s for its turn (providers.p.requests_per_minute)"
	var out bytes.Buffer
	describeAll(t, objects{&out},
		pending(t, 1, contract.Heartbeat{Attempt: 1, Waiting: turn}),
		pending(t, 1, contract.Heartbeat{Attempt: 1, Waiting: turn}),
		pending(t, 1, contract.Heartbeat{Attempt: 1, Waiting: "waiting for one of the 2 calls to end\x1b[2J"}),
		pending(t, 1, contract.Heartbeat{Attempt: 1}))
	if got := out.String(); strings.Count(got, "requests_per_minute") != 1 || strings.Count(got, "one of the 2 calls to end") != 1 || strings.Contains(got, "\x1b") || strings.Contains(got, "fail") {
		t.Errorf("objects = %s", got)
	}
}
