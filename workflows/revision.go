package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/workflows/wait"
)

// revision is set by the linker in builds that a test of deploys makes: their interpreter does
// something else than the one before, as a later release's would, behind workflow.GetVersion.
var revision string

// revise is what such an interpreter does besides: a timer before a run's first node.
func revise(ctx workflow.Context) error {
	if revision == "" || workflow.GetVersion(ctx, "revision", workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return nil
	}
	return wait.Pause(ctx, time.Millisecond, "revision")
}
