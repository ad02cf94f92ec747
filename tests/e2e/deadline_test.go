package e2e

import (
	"fmt"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows/plan"
)

// TestEndToEndAnsweredWithoutWorker checks that an answer counts if its signal arrives before the question's timeout, even if
// no worker is running then and the timeout has expired when one starts.
func TestEndToEndAnsweredWithoutWorker(t *testing.T) {
	t.Parallel()
	answers := map[string]func(q *contract.Request) map[string]any{
		"by id": func(q *contract.Request) map[string]any { return map[string]any{"id": q.ID, "text": "red"} },
		"no id": func(*contract.Request) map[string]any { return map[string]any{"text": "red"} },
	}
	for name, answer := range answers {
		for _, events := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s, max events %d", name, events), func(t *testing.T) {
				for limit := 4; !answeredInTime(t, limit, events, answer); limit *= 2 {
					t.Logf("a timeout of %d seconds is too short for this machine", limit)
					if limit == 64 {
						t.FailNow()
					}
				}
			})
		}
	}
}

// answeredInTime runs the test with a timeout in seconds and reports whether the answer was sent before it fired.
func answeredInTime(t *testing.T, limit, events int, answer func(*contract.Request) map[string]any) bool {
	h := harness.NewWorker(t, 0)
	f := harness.AskFlow()
	f.Nodes[0].Ask.Timeout = plan.Seconds(limit)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, MaxEvents: events, Script: harness.Script(t, `rules: [{contains: red, say: painted}]`)})
	id := run.GetID()
	var open []contract.Request
	harness.WaitFor(t, "the question or its timeout", func() bool {
		s := h.Status(t, id)
		open = s.Requests
		return len(open)+len(s.Answered) > 0
	})
	if len(open) == 0 {
		return false
	}
	h.Worker.Stop()
	if timerFired(t, h, id) {
		return false
	}
	h.Signal(t, id, contract.RequestMessage, answer(&open[0]))
	harness.WaitFor(t, "the timeout", func() bool { return timerFired(t, h, id) })
	h.Worker = harness.RunWorker(t, h.Client, h.Queue, 0, nil)
	defer h.Worker.Stop()
	out, err := harness.Result(t, run)
	if err != nil || *out.ResultText != "painted" {
		t.Errorf("result = %+v, %v; status = %+v", out, err, h.Status(t, id))
	}
	return true
}

// timerFired reports whether the history of the latest run has a fired timer.
func timerFired(t *testing.T, h *harness.Worker, id string) bool {
	t.Helper()
	for _, e := range harness.Events(t, h.Client, id, "") {
		if e.EventType == enumspb.EVENT_TYPE_TIMER_FIRED {
			return true
		}
	}
	return false
}
