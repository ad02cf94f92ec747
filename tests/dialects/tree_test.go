package dialects

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
)

// Tree summarizes the histories of a run, of the runs that continue it and of all their descendants.
type Tree struct {
	// Scheduled counts how often each activity was scheduled, by its workflow's id relative to the root's, its own
	// id and its type. Branches are left out of workflow ids, since an execution may run in a branch or in its
	// parent, and so are activities whose ids the SDK generated.
	Scheduled map[string]int
	// Runs counts the histories; Longest is the number of events of the longest one.
	Runs, Longest int
}

// ReadTree reads the histories of a run and of all its descendants until they end. first is the id of its first run.
func ReadTree(ctx context.Context, c client.Client, id, first string) (*Tree, error) {
	tree := &Tree{Scheduled: map[string]int{}}
	type execution struct{ id, run string }
	for left := []execution{{id, first}}; len(left) > 0; left = left[1:] {
		x, n := left[0], 0
		it := c.GetWorkflowHistory(ctx, x.id, x.run, true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for ; it.HasNext(); n++ {
			e, err := it.Next()
			if err != nil {
				return nil, fmt.Errorf("read the history of %s: %w", x.id, err)
			}
			if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
				tree.count(strings.TrimPrefix(x.id, id), a.ActivityId, a.ActivityType.Name)
			}
			if a := e.GetChildWorkflowExecutionStartedEventAttributes(); a != nil {
				left = append(left, execution{a.WorkflowExecution.WorkflowId, a.WorkflowExecution.RunId})
			}
			if a := e.GetWorkflowExecutionContinuedAsNewEventAttributes(); a != nil {
				left = append(left, execution{x.id, a.NewExecutionRunId})
			}
		}
		tree.Runs++
		tree.Longest = max(tree.Longest, n)
	}
	return tree, nil
}

func (tree *Tree) count(path, id, kind string) {
	if _, err := strconv.Atoi(id); err == nil {
		return
	}
	var parts []string
	for part := range strings.SplitSeq(path, "/") {
		if strings.Contains(part, ":") {
			parts = append(parts, part)
		}
	}
	tree.Scheduled[strings.Join(append(parts, id, kind), " ")]++
}
