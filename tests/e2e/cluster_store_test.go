package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/tests/harness"
)

// TestEndToEndClusterStoreFull fills the disk of the claim-check store under load. It checks that calls whose
// responses are offloaded are retried until there is space, and that no run fails.
func TestEndToEndClusterStoreFull(t *testing.T) {
	harness.ClusterDir(t)
	disk := smallDisk(t, "32m")
	v := newStoreEnv(t)
	v.settings.Dir = filepath.Join(disk, "store")
	v.model = largeModel(t, 300_000)
	v.startWorker(t, true, true)
	c := v.dial(t)
	const runs = 20
	startRun := func() func() error {
		run := v.start(t, c, contract.RunInput{Flow: contract.FlowRef{Plan: harness.OneAgent()}, Model: "large/m", Input: fmt.Sprint(time.Now().UnixNano())})
		return func() error {
			out, err := harness.Result(t, run)
			if err != nil || len(*out.ResultText) < 300_000 {
				return fmt.Errorf("%s: %.300v, %w", run.GetID(), out, err)
			}
			return nil
		}
	}
	free := fillDisk(t, disk)
	var waits []func() error
	for range runs {
		waits = append(waits, startRun())
	}
	failure := waitRetry(t, c, v.start(t, c, contract.RunInput{Flow: contract.FlowRef{Plan: harness.OneAgent()}, Model: "large/m", Input: "another"})).GetLastFailure()
	if !strings.Contains(failure.GetMessage(), "no space left") || failure.GetApplicationFailureInfo().GetType() != contract.ClassUnavailable {
		t.Errorf("call failed with %v", failure)
	}
	free()
	for _, wait := range waits {
		if err := wait(); err != nil {
			t.Error(err)
		}
	}
}
