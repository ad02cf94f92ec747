package main

import (
	"context"
	"slices"
	"strings"

	"weft/activities"
	"weft/activities/contract"
	"weft/worker/config"
)

// Statuses of a list beside those that a run itself knows.
const (
	listTerminated = "terminated"
	listTimedOut   = "timed_out"
)

// statuses are what -status may be, each with Temporal's query. Waiting and idle are known by the
// search attribute alone; such a run is running for Temporal.
var statuses = []struct{ name, query string }{
	{contract.StatusRunning, `ExecutionStatus = "Running"`},
	{contract.StatusWaiting, `ExecutionStatus = "Running" AND ` + contract.AttributeStatus + ` = "` + contract.StatusWaiting + `"`},
	{contract.StatusIdle, `ExecutionStatus = "Running" AND ` + contract.AttributeStatus + ` = "` + contract.StatusIdle + `"`},
	{contract.StatusCompleted, `ExecutionStatus = "Completed"`},
	{contract.StatusFailed, `ExecutionStatus = "Failed"`},
	{contract.StatusCancelled, `ExecutionStatus = "Canceled"`},
	{listTerminated, `ExecutionStatus = "Terminated"`},
	{listTimedOut, `ExecutionStatus = "TimedOut"`},
}

// byAttribute reports whether a status is known by the search attribute alone.
func byAttribute(status string) bool {
	return status == contract.StatusWaiting || status == contract.StatusIdle
}

// statusNames are the names of statuses, in order.
func statusNames() []string {
	var out []string
	for _, s := range statuses {
		out = append(out, s.name)
	}
	return out
}

// filter says which runs a list shows.
type filter struct {
	// query is for Temporal.
	query string
	// name and status, if set, are compared with what Temporal found: a run without search
	// attributes has its name in the memo.
	name, status string
	// limit 0 is all.
	limit int
}

// keep reports whether a run that Temporal found is one of those asked for.
func (f *filter) keep(r *listed) bool {
	return (f.name == "" || r.Flow == f.name) && (f.status == "" || r.Status == f.status)
}

// filter makes of the flags what to ask for. It fails where only a search attribute could
// tell, and the namespace does not have it.
func (a *app) filter(ctx context.Context, t *config.Temporal) (*filter, error) {
	f := &filter{name: contract.Keyword(a.flags.name), status: a.flags.status, limit: a.flags.limit}
	switch {
	case f.status != "":
		i := slices.Index(statusNames(), f.status)
		f.query = statuses[i].query
	case a.flags.all:
		// What continued as new goes on under its id.
		f.query = `ExecutionStatus != "ContinuedAsNew"`
	default:
		f.query = `ExecutionStatus = "Running"`
	}
	if f.name == "" && !byAttribute(f.status) {
		return f, nil
	}
	state, err := activities.NewAttributes(t.Client).Of(ctx, t.Namespace)
	if byAttribute(f.status) && !slices.Contains(state.Registered, contract.AttributeStatus) {
		if err != nil {
			return nil, err
		}
		return nil, bad("-status %s needs the search attribute %s, which namespace %q does not have; add it with: %s",
			f.status, contract.AttributeStatus, t.Namespace, activities.RegisterCommand(t.Namespace, contract.AttributeStatus))
	}
	if f.name != "" && isWord(f.name) && slices.Contains(state.Registered, contract.AttributeFlow) {
		f.query += ` AND (` + contract.AttributeFlow + ` = "` + f.name + `" OR ` + contract.AttributeFlow + ` IS NULL)`
	}
	return f, nil
}

// isWord says that a query can hold the text: Temporal's query language has escapes, but
// the server takes what is escaped for another text.
func isWord(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == '"' || r == '\'' || r == '\\' })
}
