package backend

import (
	"encoding/json"
	"testing"

	"weft/activities/contract"
	"weft/starter/follow"
	"weft/starter/progress"
	"weft/starter/runs"
	"weft/starter/serve"
)

// TestPartialAnswerEvents checks that the event of a partial answer has no id, because clients cannot resume from it.
func TestPartialAnswerEvents(t *testing.T) {
	var got []*serve.Event
	report := &eventReport{send: func(e *serve.Event) error { got = append(got, e); return nil }}
	f := follow.New(&runs.Run{Connection: &runs.Connection{}, ID: "root", RunID: "r"}, report)
	f.Resume(follow.Position{})
	report.follower = f
	f.Notify(progress.Notice{Event: progress.EventText, Node: "tell#1", Call: "model call 1", Attempt: 2, Skipped: true}, "%s", "a time")
	f.Notify(progress.Notice{Event: progress.EventModel, Node: "tell#1", Call: "model call 1"}, "done")
	if e := got[0]; !report.ReadsText() || e.ID != "" || e.Text != "a time" || !e.Skipped || e.Attempt != 2 || e.Call != "model call 1" {
		t.Errorf("event of a partial answer = %+v", e)
	}
	if e := got[1]; e.ID == "" || e.Skipped || e.Text != "done" {
		t.Errorf("event of a complete answer = %+v", e)
	}
}

// TestEventFields checks that an event over HTTP has all fields of the same event of -output jsonl, except event, time and seconds.
func TestEventFields(t *testing.T) {
	var got *serve.Event
	report := &eventReport{send: func(e *serve.Event) error { got = e; return nil }}
	report.follower = follow.New(&runs.Run{Connection: &runs.Connection{}, ID: "root", RunID: "r"}, report)
	report.follower.Resume(follow.Position{})
	n := progress.Notice{Event: progress.EventMessage, Node: "n#1", Call: "tool", Attempt: 2, Model: "m", Usage: &contract.Usage{Calls: 1},
		Request: &contract.Request{ID: "q"}, Message: &contract.Message{Role: contract.RoleAssistant, Text: "Hello"}, Skipped: true, Text: "assistant: Hello"}
	report.Notify(n)
	notice, event := fields(t, n), fields(t, got)
	for _, name := range []string{"event", "time", "seconds"} {
		delete(notice, name)
	}
	for name, v := range notice {
		if string(event[name]) != string(v) {
			t.Errorf("%s = %s, want %s", name, event[name], v)
		}
	}
}

func fields(t *testing.T, v any) (out map[string]json.RawMessage) {
	t.Helper()
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}
