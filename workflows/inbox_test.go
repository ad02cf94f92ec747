package workflows

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"weft/workflows/workflowtest"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// TestHearBeforeListeners takes in a signal that comes in the task in which a run ends, before
// the coroutine that listens goes on.
func TestHearBeforeListeners(t *testing.T) {
	workflowtest.Run(t, func(ctx workflow.Context) {
		r := newRun(ctx)
		r.requests.listen(ctx)
		if err := workflow.Sleep(ctx, time.Second); err != nil { // the listener waits by now
			t.Error(err)
		}
		p, err := converter.GetDefaultDataConverter().ToPayloads(contract.Inbound{Seq: 4, Text: "to all"})
		if err != nil {
			t.Error(err)
		}
		steer, ok := r.requests.steer.(workflow.Channel)
		if !ok || !steer.SendAsync(p) {
			t.Fatal("the channel takes nothing")
		}
		r.requests.hear(ctx)
		if len(r.requests.unread) != 1 || r.requests.unread[0].Text != "to all" {
			t.Errorf("heard %+v", r.requests.unread)
		}
	})
}

// TestPasteIsAnAnswer takes what the Web UI shows for each kind as it stands.
func TestPasteIsAnAnswer(t *testing.T) {
	for _, kind := range contract.Requests {
		q := &contract.Request{ID: "a|`b\"\x01<é>\\#1", Kind: kind}
		a, err := readAnswer(kind, json.RawMessage(paste(q)))
		if err != nil || a.id != q.ID {
			t.Errorf("%s: %s gives %+v, %v", kind, paste(q), a, err)
		}
	}
}

func TestPasteStaysInItsCell(t *testing.T) {
	q := &contract.Request{ID: "a|`b\"\x01#1", Kind: contract.RequestConfirm}
	text := paste(q)
	var back struct {
		ID      string `json:"id"`
		Approve bool   `json:"approve"`
	}
	if err := json.Unmarshal([]byte(text), &back); err != nil || back.ID != q.ID || !back.Approve || strings.ContainsAny(text, "|`") {
		t.Errorf("%s: %+v, %v", text, back, err)
	}
}
