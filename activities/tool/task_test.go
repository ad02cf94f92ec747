package tool

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/tests/programs"
)

// TestTasks checks a call that becomes a task, which other workers poll until it is finished.
func TestTasks(t *testing.T) {
	for name, tc := range map[string]struct {
		states []string
		cancel bool
		failed bool
		want   string
		// requests lists the methods requested of the server, old those with protocol version 2025-11-25.
		requests, old string
	}{
		"completed": {states: []string{"working", "completed"}, want: "printed",
			requests: "tools/call tasks/get tasks/get", old: "tools/call tasks/get tasks/get tasks/result"},
		"failed": {states: []string{"failed"}, failed: true, want: "out of paper", requests: "tools/call tasks/get", old: "tools/call tasks/get tasks/result"},
		"cancelled by the server": {states: []string{"cancelled"}, failed: true, want: "cancelled the task",
			requests: "tools/call tasks/get", old: "tools/call tasks/get"},
		"cancelled by the client": {states: []string{"working"}, cancel: true, failed: true, want: "was cancelled",
			requests: "tools/call tasks/cancel", old: "tools/call tasks/cancel"},
		"lost": {states: []string{"working", "lost"}, failed: true, want: "outcome unknown",
			requests: "tools/call tasks/get tasks/get", old: "tools/call tasks/get tasks/get"},
		"input required": {states: []string{"input_required", "completed"}, want: "printed",
			requests: "tools/call tasks/get tasks/update tasks/get", old: "tools/call tasks/get tasks/result tasks/get tasks/result"},
	} {
		for _, modern := range []bool{false, true} {
			t.Run(name+map[bool]string{true: "/2026-07-28", false: "/2025-11-25"}[modern], func(t *testing.T) {
				srv := &programs.TaskServer{Modern: modern, Support: "required", States: tc.states, PollMillis: 1500}
				web := start(t, srv)
				worker := func() *Tools { return open(t, Connection{URL: web.URL}) }
				in := call("search", `{}`)
				specs, err := worker().List(withTimeout(t, time.Minute), in.Connection)
				if err != nil || specs[0].AsTask == modern {
					t.Fatalf("tools %+v, %v", specs, err)
				}
				in.AsTask = specs[0].AsTask
				got, err := worker().Call(withTimeout(t, time.Minute), in, Meta{})
				if err != nil || got.Task == nil || got.Task.ID != "t1" || got.Task.PollMillis != 1500 {
					t.Fatalf("call returned %+v, %v", got, err)
				}
				for in.TaskID, in.CancelTask = "t1", tc.cancel; got.Task != nil; {
					if in.Input = nil; got.Input != nil {
						in.Input = &contract.ToolAnswers{Answers: map[string]json.RawMessage{got.Input.Questions[0].Key: json.RawMessage(`{"action":"accept","content":{"size":"A4"}}`)}}
					}
					if got, err = worker().Call(withTimeout(t, time.Minute), in, Meta{Session: got.Session}); err != nil {
						t.Fatal(err)
					}
				}
				if got.Failed != tc.failed || !strings.Contains(got.Text, tc.want) {
					t.Errorf("result is %+v, want %q", got, tc.want)
				}
				want := strings.Fields(map[bool]string{true: tc.requests, false: tc.old}[modern])
				if got := srv.Requests(); !slices.Equal(got, want) {
					t.Errorf("requests %q, want %q", got, want)
				}
			})
		}
	}
}
