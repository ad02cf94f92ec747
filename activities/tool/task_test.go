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

// TestTasks makes a call that becomes a task, which other workers poll until it has ended.
func TestTasks(t *testing.T) {
	for name, tc := range map[string]struct {
		states []string
		cancel bool
		failed bool
		want   string
		// asked is what was asked of the server, old of one of 2025-11-25.
		asked, old string
	}{
		"completed": {states: []string{"working", "completed"}, want: "printed",
			asked: "tools/call tasks/get tasks/get", old: "tools/call tasks/get tasks/get tasks/result"},
		"failed": {states: []string{"failed"}, failed: true, want: "out of paper", asked: "tools/call tasks/get", old: "tools/call tasks/get tasks/result"},
		"cancelled by the server": {states: []string{"cancelled"}, failed: true, want: "cancelled the task",
			asked: "tools/call tasks/get", old: "tools/call tasks/get"},
		"cancelled by the client": {states: []string{"working"}, cancel: true, failed: true, want: "was cancelled",
			asked: "tools/call tasks/cancel", old: "tools/call tasks/cancel"},
		"lost": {states: []string{"working", "lost"}, failed: true, want: "outcome unknown",
			asked: "tools/call tasks/get tasks/get", old: "tools/call tasks/get tasks/get"},
		"input": {states: []string{"input_required", "completed"}, want: "printed",
			asked: "tools/call tasks/get tasks/update tasks/get", old: "tools/call tasks/get tasks/result tasks/get tasks/result"},
	} {
		for _, modern := range []bool{false, true} {
			t.Run(name+map[bool]string{true: "/2026-07-28", false: "/2025-11-25"}[modern], func(t *testing.T) {
				srv := &programs.TaskServer{Modern: modern, Support: "required", States: tc.states, PollMillis: 1500}
				web := start(t, srv)
				worker := func() *Tools { return open(t, Connection{URL: web.URL}) }
				in := call("search", `{}`)
				specs, err := worker().List(soon(t, time.Minute), in.Connection)
				if err != nil || specs[0].AsTask == modern {
					t.Fatalf("the tool is %+v, %v", specs, err)
				}
				in.AsTask = specs[0].AsTask
				got, err := worker().Call(soon(t, time.Minute), in, Meta{})
				if err != nil || got.Task == nil || got.Task.ID != "t1" || got.Task.PollMillis != 1500 {
					t.Fatalf("the call gives %+v, %v", got, err)
				}
				for in.TaskID, in.CancelTask = "t1", tc.cancel; got.Task != nil; {
					if in.Input = nil; got.Input != nil {
						in.Input = &contract.ToolAnswers{Answers: map[string]json.RawMessage{got.Input.Questions[0].Key: json.RawMessage(`{"action":"accept","content":{"size":"A4"}}`)}}
					}
					if got, err = worker().Call(soon(t, time.Minute), in, Meta{Session: got.Session}); err != nil {
						t.Fatal(err)
					}
				}
				if got.Failed != tc.failed || !strings.Contains(got.Text, tc.want) {
					t.Errorf("the result is %+v, want %q", got, tc.want)
				}
				want := strings.Fields(map[bool]string{true: tc.asked, false: tc.old}[modern])
				if asked := srv.Requests(); !slices.Equal(asked, want) {
					t.Errorf("the server was asked %q, want %q", asked, want)
				}
			})
		}
	}
}
