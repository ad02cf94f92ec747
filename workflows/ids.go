package workflows

import "weft/workflows/schedule"

// escapeID and boundID make ids of workflows and activities.
func escapeID(id string) string { return schedule.EscapeID(id) }
func boundID(id string) string  { return schedule.BoundID(id) }

func executionID(node string, step, nth int) string { return schedule.ExecutionID(node, step, nth) }
