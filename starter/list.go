package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/starter/progress"
	"weft/worker/config"
)

// pageRuns is how many runs are asked for at a time.
const pageRuns = 200

// listed is a run in a list.
type listed struct {
	ID string `json:"id"`
	// Flow is empty for a run that has neither the search attribute nor the memo.
	Flow string `json:"flow,omitempty"`
	// Status is one of those of statuses.
	Status  string     `json:"status"`
	Started time.Time  `json:"started"`
	Closed  *time.Time `json:"closed,omitempty"`
	// Seconds are those from the start to the end, or to now.
	Seconds float64 `json:"seconds"`

	queue, session string
}

// list prints the runs of flows, the youngest first.
func (a *app) list(ctx context.Context, _ []string) error {
	if a.flags.waiting && a.flags.all {
		return bad("-waiting and -all cannot be combined: closed runs wait for nothing")
	}
	temporal, err := a.remote(ctx)
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	if a.flags.waiting {
		return a.waiting(ctx, temporal)
	}
	wanted, err := a.filter(ctx, temporal)
	if err != nil {
		return err
	}
	runs, more, err := findRuns(ctx, temporal, wanted)
	if err != nil {
		return err
	}
	switch a.flags.output {
	case outputJSON:
		a.object(runs)
	case outputLines:
		for _, r := range runs {
			a.object(r)
		}
	default:
		a.table(runs)
	}
	if more {
		a.say("there are more; see them with: -limit %d, or -limit 0 for all", a.flags.limit*4)
	}
	return nil
}

// findRuns gives the runs that are wanted, at most as many, and whether there are more.
func findRuns(ctx context.Context, t *config.Temporal, wanted *filter) (runs []listed, more bool, err error) {
	runs = []listed{}
	request := &workflowservice.ListWorkflowExecutionsRequest{Namespace: t.Namespace, PageSize: pageRuns, Query: rootsQuery(wanted)}
	for {
		page, err := patientPage(ctx, t, request, listPauses)
		if err != nil {
			return nil, false, tooBusy(err, t, len(runs))
		}
		for _, info := range page.GetExecutions() {
			r := runOf(info, time.Now())
			if !wanted.keep(&r) {
				continue
			}
			if wanted.limit > 0 && len(runs) == wanted.limit {
				return runs, true, nil
			}
			runs = append(runs, r)
		}
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			return runs, false, nil
		}
	}
}

// listPauses are those before a page is asked for again.
var listPauses = []time.Duration{time.Second, 4 * time.Second}

// patientPage asks for a page again where the server has no time for it: a long list is a heavy
// question, and what was read of it should not be lost.
func patientPage(ctx context.Context, t *config.Temporal, request *workflowservice.ListWorkflowExecutionsRequest, pauses []time.Duration) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	for again := 0; ; again++ {
		page, err := listPage(ctx, t, request)
		if err == nil || again == len(pauses) || !away(err) || ctx.Err() != nil {
			return page, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pauses[again]):
		}
	}
}

// tooBusy adds to a failure that the server is away or busy what to do.
func tooBusy(err error, t *config.Temporal, read int) error {
	if !away(err) {
		return err
	}
	return fmt.Errorf("%d runs were read, then Temporal at %s did not answer in time, though asked again (%w); it is busy or away: try later, or ask for less: starter list -limit 50, -name or -status",
		read, t.Address, err)
}

// rootsQuery asks Temporal for the runs that are wanted.
func rootsQuery(wanted *filter) string {
	// What is under another run is a sub-agent.
	return fmt.Sprintf(`WorkflowType = %q AND ParentWorkflowId IS NULL AND %s`, contract.WorkflowFlow, wanted.query)
}

func listPage(ctx context.Context, t *config.Temporal, request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	page, err := t.Client.ListWorkflow(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("list the runs in namespace %q at %s: %w", t.Namespace, t.Address, err)
	}
	return page, nil
}

func runOf(info *workflowpb.WorkflowExecutionInfo, now time.Time) listed {
	r := listed{ID: info.GetExecution().GetWorkflowId(), Status: history.StatusName(info.GetStatus()), Started: info.GetStartTime().AsTime(), queue: info.GetTaskQueue(),
		session: text(info.GetMemo().GetFields()[memoSession])}
	if r.Flow = text(info.GetSearchAttributes().GetIndexedFields()[contract.AttributeFlow]); r.Flow == "" {
		r.Flow = text(info.GetMemo().GetFields()[contract.MemoFlow])
	}
	// For Temporal a run that waits is running; once it has ended, Temporal knows best.
	if own := text(info.GetSearchAttributes().GetIndexedFields()[contract.AttributeStatus]); r.Status == contract.StatusRunning && byAttribute(own) {
		r.Status = own
	}
	end := now
	if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING && info.GetCloseTime() != nil {
		end = info.GetCloseTime().AsTime()
		r.Closed = &end
	}
	r.Seconds = max(0, end.Sub(r.Started).Round(time.Millisecond).Seconds())
	return r
}

// text reads a payload that should hold a string; anything else is "".
func text(p *commonpb.Payload) string {
	var s string
	if p == nil || converter.GetDefaultDataConverter().FromPayload(p, &s) != nil {
		return ""
	}
	return s
}

// table prints runs as columns.
func (a *app) table(runs []listed) {
	if len(runs) == 0 {
		what := "open runs; -all lists those that have ended too"
		if a.flags.all || a.flags.status != "" {
			what = "runs"
		}
		if a.flags.name != "" || a.flags.status != "" {
			what = "such " + what
		}
		a.say("there are no %s", what)
		return
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tFLOW\tSTATUS\tSTARTED\tTOOK")
	for _, r := range runs {
		flow := plaintext.Line(r.Flow, 60)
		if flow == "" {
			flow = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", plaintext.Line(r.ID, 200), flow, r.Status, r.Started.Local().Format(time.DateTime), progress.Span(r.Seconds))
	}
	w.Flush()
}
