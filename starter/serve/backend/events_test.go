package backend

import (
	"testing"

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
