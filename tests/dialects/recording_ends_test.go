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

// endsFlow says something, and then needs an operator.
const endsFlow = `
flow: {nodes: {s: {component_type: StartNode, inputs: [{title: n, type: integer, default: 1}]}, m: {component_type: OutputMessageNode, message: Hello.}, a: {component_type: ApiNode, url: URL, http_method: GET, outputs: [{title: r, type: string}]}, e: {component_type: EndNode}}, go: [s > m > a > e]}
`

// TestEndToEndRecordedEnds records runs that come to another end than their last node, and plays them: what was said before is
// compared, too.
func TestEndToEndRecordedEnds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		params string
		// answer is what ends the run, or goes on with it, once it waits for an operator.
		answer func(h *harness.Worker, id string) error
		status string
	}{
		"inputs that do not fit": {params: `{"n": "many"}`, status: contract.StatusFailed},
		"cancelled": {status: contract.StatusCancelled, answer: func(h *harness.Worker, id string) error {
			return h.Client.CancelWorkflow(t.Context(), id, "")
		}},
		"terminated": {status: rehearse.Terminated, answer: func(h *harness.Worker, id string) error {
			return h.Client.TerminateWorkflow(t.Context(), id, "", "enough")
		}},
		"given up": {status: contract.StatusFailed, answer: func(h *harness.Worker, id string) error {
			_, err := h.Update(t, id, contract.RequestRetry, contract.RetryAnswer{ID: h.OpenRequests(t, id, 1)[0].ID, GiveUp: true})
			return err
		}},
		"made again": {status: contract.StatusCompleted, answer: func(h *harness.Worker, id string) error {
			_, err := h.Update(t, id, contract.RequestRetry, contract.RetryAnswer{ID: h.OpenRequests(t, id, 1)[0].ID})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if asked.Add(1) == 1 {
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
				h.OpenRequests(t, run.GetID(), 1)
				if err := tc.answer(h, run.GetID()); err != nil {
					t.Fatal(err)
				}
			}
			_, _ = harness.Result(t, run) // the recording has its end
			rec := h.PlayRecording(t, run.GetID(), run.GetRunID())
			if said := slices.Equal(rec.Expect.Said, []string{"Hello."}); rec.Expect.Status != tc.status || said != (tc.answer != nil) {
				t.Fatalf("%+v", rec.Expect)
			}
			if tc.answer == nil {
				return
			}
			rec.Expect.Said[0] = "Good evening."
			if rep, err := rehearse.Play(rec); err != nil || rep.OK || rep.First.What != "the message of a node" {
				t.Errorf("%+v, %v", rep, err)
			}
		})
	}
}
