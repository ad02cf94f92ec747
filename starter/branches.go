package main

import (
	"context"

	enumspb "go.temporal.io/api/enums/v1"

	"weft/activities/contract"
	"weft/worker/config"
)

// mostBranches bounds the branches that one command asks. Of others their first node is known.
const mostBranches = 100

// withBranches puts into the status of an open run how far its branches have come: the run
// itself knows the first node of each. A branch that has ended meanwhile, or for which nobody
// answers, stays as it is.
func withBranches(ctx context.Context, t *config.Temporal, id string, about about, st *contract.Status) {
	if about.status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING || len(st.Running) == 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	d, err := t.Client.DescribeWorkflowExecution(limited, id, about.run)
	if err != nil {
		return
	}
	runs := map[string]string{}
	for _, c := range d.GetPendingChildren() {
		runs[c.GetWorkflowId()] = c.GetRunId()
	}
	var running []string
	asked := 0
	for _, exec := range st.Running {
		child, known := runs[id+"/"+exec]
		var of contract.Status
		if known && asked < mostBranches {
			asked++
			one := about
			one.run, one.patience = child, closedTimeout
			if ask(limited, t, id+"/"+exec, one, contract.QueryStatus, &of) != nil {
				asked = mostBranches
			}
		}
		if len(of.Running) == 0 {
			running = append(running, exec)
			continue
		}
		running = append(running, of.Running...)
		st.Executions = append(st.Executions, of.Executions...)
	}
	st.Running = running
}
