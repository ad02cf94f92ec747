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

// A partial answer is no place from which a client could go on; what is behind it is.
func TestPartialAnswersAsEvents(t *testing.T) {
	var got []*serve.Event
	report := &eventReport{send: func(e *serve.Event) error { got = append(got, e); return nil }}
	f := follow.New(&runs.Run{Connection: &runs.Connection{}, ID: "root", RunID: "r"}, report)
	f.Resume(follow.Position{})
	report.follower = f
	f.Notify(progress.Notice{Event: progress.EventText, Node: "tell#1", Call: "model call 1", Attempt: 2, Skipped: true}, "%s", "a time")
	f.Notify(progress.Notice{Event: progress.EventModel, Node: "tell#1", Call: "model call 1"}, "done")
	if e := got[0]; !report.ReadsText() || e.ID != "" || e.Text != "a time" || !e.Skipped || e.Attempt != 2 || e.Call != "model call 1" {
		t.Errorf("the event of a partial answer is %+v", e)
	}
	if e := got[1]; e.ID == "" || e.Skipped || e.Text != "done" {
		t.Errorf("the event of an answer is %+v", e)
	}
}

// An event over HTTP has the fields of the same event of -output jsonl, under its own names for the kind and the time.
func TestEventsHaveWhatNoticesHave(t *testing.T) {
	var got *serve.Event
	report := &eventReport{send: func(e *serve.Event) error { got = e; return nil }}
	report.follower = follow.New(&runs.Run{Connection: &runs.Connection{}, ID: "root", RunID: "r"}, report)
	report.follower.Resume(follow.Position{})
	n := progress.Notice{Event: progress.EventMessage, Node: "n#1", Call: "tool", Attempt: 2, Model: "m", Usage: &contract.Usage{Calls: 1},
		Request: &contract.Request{ID: "q"}, Message: &contract.Message{Role: contract.RoleAssistant, Text: "Hello"}, Skipped: true, Text: "assistant: Hello"}
	report.Notify(n)
	own, other := fields(t, n), fields(t, got)
	for _, name := range []string{"event", "time", "seconds"} {
		delete(own, name)
	}
	for name, v := range own {
		if string(other[name]) != string(v) {
			t.Errorf("%s is %s, want %s", name, other[name], v)
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
