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

// TestEndToEndClusterStoreFull fills the disk of the claim-check store under load: calls whose
// answers go there are made again until there is room, and no run fails.
func TestEndToEndClusterStoreFull(t *testing.T) {
	harness.ClusterDir(t)
	disk := smallDisk(t, "32m")
	v := newStoreEnv(t)
	v.settings.Dir = filepath.Join(disk, "store")
	v.model = largeModel(t, 300_000)
	v.startWorker(t, true, true)
	c := v.dial(t)
	const runs = 20
	begin := func() func() error {
		run := v.start(t, c, contract.RunInput{Flow: contract.FlowRef{Plan: harness.OneAgent()}, Model: "large/m", Input: fmt.Sprint(time.Now().UnixNano())})
		return func() error {
			out, err := harness.Result(t, run)
			if err != nil || len(*out.ResultText) < 300_000 {
				return fmt.Errorf("%s: %.300v, %w", run.GetID(), out, err)
			}
			return nil
		}
	}
	room := fill(t, disk)
	var ends []func() error
	for range runs {
		ends = append(ends, begin())
	}
	first := waitRetry(t, c, v.start(t, c, contract.RunInput{Flow: contract.FlowRef{Plan: harness.OneAgent()}, Model: "large/m", Input: "another"})).GetLastFailure()
	if !strings.Contains(first.GetMessage(), "no space left") || first.GetApplicationFailureInfo().GetType() != contract.ClassUnavailable {
		t.Errorf("the call failed with %v", first)
	}
	room()
	for _, end := range ends {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
}
