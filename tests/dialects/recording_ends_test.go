package dialects

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/specadapter"
	"weft/tests/harness"
	"weft/worker/rehearse"
)

// endsFlow sends a message, and then makes a request that waits for an operator.
const endsFlow = `
flow: {nodes: {s: {component_type: StartNode, inputs: [{title: n, type: integer, default: 1}]}, m: {component_type: OutputMessageNode, message: Hello.}, a: {component_type: ApiNode, url: URL, http_method: GET, outputs: [{title: r, type: string}]}, e: {component_type: EndNode}}, go: [s > m > a > e]}
`

// TestEndToEndRecordedEnds checks that recordings of runs that fail, are cancelled or terminated, or wait for an operator can be
// played, and that the messages sent before the end are compared.
func TestEndToEndRecordedEnds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		params string
		// answer ends or continues the run when it waits for an operator.
		answer func(h *harness.Worker, id string) error
		status string
	}{
		"invalid inputs": {params: `{"n": "many"}`, status: contract.StatusFailed},
		"cancelled": {status: contract.StatusCancelled, answer: func(h *harness.Worker, id string) error {
			return h.Client.CancelWorkflow(t.Context(), id, "")
		}},
		"terminated": {status: rehearse.Terminated, answer: func(h *harness.Worker, id string) error {
			return h.Client.TerminateWorkflow(t.Context(), id, "", "enough")
		}},
		"operator gives up": {status: contract.StatusFailed, answer: func(h *harness.Worker, id string) error {
			_, err := h.Update(t, id, contract.RequestRetry, contract.RetryAnswer{ID: h.WaitForRequests(t, id, 1)[0].ID, GiveUp: true})
			return err
		}},
		"operator retries": {status: contract.StatusCompleted, answer: func(h *harness.Worker, id string) error {
			_, err := h.Update(t, id, contract.RequestRetry, contract.RetryAnswer{ID: h.WaitForRequests(t, id, 1)[0].ID})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if requests.Add(1) == 1 {
					http.Error(w, "who are you?", http.StatusUnauthorized)
				}
			}))
			t.Cleanup(srv.Close)
			res, diags := specadapter.Load("flow.json", []byte(strings.ReplaceAll(specDoc(t, endsFlow), "URL", srv.URL)), specadapter.Options{})
			if res == nil {
				t.Fatal(diags)
			}
			h := yieldWorker(t, harness.TestRun{ToolSettings: tool.Settings{AllowLoopback: true}})
			in := contract.RunInput{Flow: contract.FlowRef{Plan: res.Flow, Source: &res.Source}, OnError: contract.OnErrorWait}
			if tc.params != "" {
				in.Params = []byte(tc.params)
			}
			run := h.Start(t, in)
			if tc.answer != nil {
				h.WaitForRequests(t, run.GetID(), 1)
				if err := tc.answer(h, run.GetID()); err != nil {
					t.Fatal(err)
				}
			}
			_, _ = harness.Result(t, run) // wait for the end of the run
			rec := h.PlayRecording(t, run.GetID(), run.GetRunID())
			if sent := slices.Equal(rec.Expect.Said, []string{"Hello."}); rec.Expect.Status != tc.status || sent != (tc.answer != nil) {
				t.Fatalf("recording expects %+v", rec.Expect)
			}
			if tc.answer == nil {
				return
			}
			rec.Expect.Said[0] = "Good evening."
			if rep, err := rehearse.Play(rec); err != nil || rep.OK || rep.First.What != "the message of a node" {
				t.Errorf("report = %+v, %v; want a different message", rep, err)
			}
		})
	}
}
