package services

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/tests/harness"
	"weft/tests/programs"
)

// TestEndToEndTasks checks that a call that has become a task survives a replacement of the only worker and continue-as-new.
func TestEndToEndTasks(t *testing.T) {
	t.Parallel()
	for version, modern := range map[string]bool{"2025-11-25": false, "2026-07-28": true} {
		for _, cancel := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, cancelled %t", version, cancel), func(t *testing.T) {
				t.Parallel()
				states, events := slices.Repeat([]string{"working"}, 8), 0
				if !cancel {
					states, events = append(states, "completed"), 40
				}
				srv := &programs.TaskServer{Modern: modern, Support: "required", States: states, PollMillis: 200}
				web := httptest.NewServer(srv)
				t.Cleanup(web.Close)
				h, replace := toolWorker(t, tool.Connection{URL: web.URL})
				requestCount := func(method string) (n int) {
					for _, m := range srv.Requests() {
						if m == method {
							n++
						}
					}
					return n
				}
				f := withTools(harness.OneAgent(), "search")
				run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, MaxEvents: events, Script: harness.Script(t, `rules:
- {turn: 1, call: [{tool: search}]}
- {contains: printed, say: done}
- {say: "no result"}`)})
				harness.WaitFor(t, "polling of the task", func() bool { return requestCount("tasks/get") > 1 })
				replace()
				if cancel {
					if err := h.Client.CancelWorkflow(context.Background(), run.GetID(), ""); err != nil {
						t.Fatal(err)
					}
					harness.WaitFor(t, "the cancellation of the task", func() bool { return requestCount("tasks/cancel") == 1 })
					if _, err := harness.Result(t, run); harness.ErrorType(err) != contract.ClassCancelled && !strings.Contains(fmt.Sprint(err), "cancel") {
						t.Errorf("got error %v, want a cancellation", err)
					}
					return
				}
				out, err := harness.Result(t, run)
				if err != nil {
					t.Fatal(err)
				}
				if n := harness.RunCount(t, h.Client, h.Client.GetWorkflow(context.Background(), run.GetID(), "")); *out.ResultText != "done" || n < 2 || requestCount("tools/call") != 1 {
					t.Errorf("result text = %q after %d runs; requests: %q", *out.ResultText, n, srv.Requests())
				}
			})
		}
	}
}
