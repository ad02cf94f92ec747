package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"weft/activities/contract"
	"weft/tests/harness"
)

// TestEndToEndCutAnswers checks that a call whose response is cut off is attempted at most three times, and that the run's
// usage includes all attempts.
func TestEndToEndCutAnswers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cuts  int64
		usage contract.Usage
		class string
	}{
		"the third response is complete": {2, contract.Usage{Calls: 1, Cut: 2, Input: 300, Output: 19}, ""},
		"no response is complete":        {100, contract.Usage{Cut: 3, Input: 300, Output: 15}, contract.ClassUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				end, output := "", 5
				if calls.Add(1) > tt.cuts {
					end, output = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n", 9
				}
				fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"text\"}}]}\n\n%sdata: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":%d}}\n\n", end, output)
			}))
			t.Cleanup(srv.Close)
			s := harness.StartServer(t, "-db", t.TempDir()+"/cut.db", "-port=0")
			harness.StartWorker(t, s.Address, "WEFT_PROVIDERS_FAKE_KIND=compatible", "WEFT_PROVIDERS_FAKE_BASE_URL="+srv.URL+"/v1")
			h := &harness.Worker{Client: harness.Dial(t, s.Address), Queue: contract.TaskQueue}
			run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(""), Name: "flow.json"}, Model: "fake/m", Input: "go", OnError: contract.OnErrorFail})
			var out contract.RunResult
			f := contract.FailureOf(run.Get(context.Background(), &out))
			got := out.Usage
			if f != nil && f.Usage != nil {
				got = *f.Usage
			}
			if (f == nil) != (tt.class == "") || f != nil && f.Class != tt.class || int64(got.Cut) != min(tt.cuts, 3) ||
				got.Calls != tt.usage.Calls || got.Input != tt.usage.Input || got.Output != tt.usage.Output || calls.Load() != 3 {
				t.Errorf("%d calls, usage %+v, want %+v; %v", calls.Load(), got, tt.usage, f)
			}
		})
	}
}
