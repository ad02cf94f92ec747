package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/tests/harness"
)

// TestEndToEndLargeBranchResults runs parallel branches whose results exceed what is reserved for each of them, without a
// store. It checks that the run completes if its history has room for all results, and otherwise fails before the server
// terminates it.
func TestEndToEndLargeBranchResults(t *testing.T) {
	if !fullSize {
		t.Skip("run by make sizes")
	}
	t.Parallel()
	tests := map[string]struct {
		branches, bytes int
		class           string
	}{
		"results that fit":        {branches: 30, bytes: 900_000},
		"results that do not fit": {branches: 28, bytes: 1_800_000, class: contract.ClassStateTooLarge},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := &harness.Worker{Client: dialAsWorker(t), Queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
			h.Worker = harness.RunWorker(t, h.Client, h.Queue, 0, nil)
			t.Cleanup(h.Worker.Stop)
			names := make([]string, tc.branches)
			for i := range names {
				names[i] = fmt.Sprint("b", i)
			}
			run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: harness.FanIn("together", names...)},
				Script: harness.Script(t, fmt.Sprintf(`rules: [{node: join, say: joined}, {say: "%s"}]`, strings.Repeat("w", tc.bytes)))})
			out, err := harness.Result(t, run)
			if tc.class != "" {
				if f := contract.FailureOf(err); f == nil || f.Class != tc.class || f.Node == "" || f.Remedy == "" {
					t.Errorf("run ended with %.500v, %v", out, err)
				}
				return
			}
			if err != nil || *out.ResultText != "joined" || out.Usage.Calls != tc.branches+1 {
				t.Errorf("run ended with %.500v, %v", out, err)
			}
		})
	}
}
