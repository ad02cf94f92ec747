package history

import (
	workflowpb "go.temporal.io/api/workflow/v1"

	"weft/activities/contract"
)

// HeartbeatOf returns the last heartbeat of a call in progress, or nil.
func HeartbeatOf(p *workflowpb.PendingActivityInfo) *contract.Heartbeat {
	if p.GetHeartbeatDetails() == nil {
		return nil
	}
	return decodedAs[contract.Heartbeat](p.GetHeartbeatDetails())
}

// Waiting returns what a call in progress waits for before it begins, "" if it has begun.
func Waiting(p *workflowpb.PendingActivityInfo) string {
	b := HeartbeatOf(p)
	if b == nil || b.Attempt != p.GetAttempt() {
		return ""
	}
	return b.Waiting
}
