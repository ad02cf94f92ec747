package replay

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/tests/harness"
)

// TestEndToEndContinueAsNew checks that runs that continue as new between all nodes and turns have the
// same results and the same numbers of calls as others.
func TestEndToEndContinueAsNew(t *testing.T) {
	t.Parallel()
	for _, cache := range []int{0, 1} {
		h := harness.NewWorker(t, cache)
		for name, r := range recordings {
			if name == "step-limit" {
				continue // slow: the server limits continue-as-new to once per second
			}
			if cache == 1 && name != "agent-tools" && name != "fork-deferred-join" && name != "sub-agent" {
				continue
			}
			t.Run(fmt.Sprintf("%s, cache %d", name, cache), func(t *testing.T) {
				t.Parallel()
				in := contract.RunInput{Flow: contract.FlowRef{Text: r.doc, Name: "flow.json", Profile: r.profile}, Input: r.input, Script: harness.Script(t, r.script)}
				plain, plainErr := harness.Result(t, h.Start(t, in))
				in.MaxEvents = 1
				run := h.Start(t, in)
				continued, continuedErr := harness.Result(t, run)
				if diff := cmp.Diff(plain, continued); diff != "" {
					t.Errorf("result (-plain +continued):\n%s", diff)
				}
				if (plainErr == nil) != (continuedErr == nil) || plainErr != nil && contract.FailureOf(plainErr).Error() != contract.FailureOf(continuedErr).Error() {
					t.Errorf("plain: %v\ncontinued: %v", plainErr, continuedErr)
				}
			})
		}
	}
}
