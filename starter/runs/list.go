package runs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"weft/activities"
	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/usage"
)

// MemoSession is the memo key of the session id that an HTTP client chose.
const MemoSession = "session_id"

// Summary is a run in a list.
type Summary struct {
	ID string `json:"id"`
	// Flow is empty for a run that has neither the search attribute nor the memo.
	Flow string `json:"flow,omitempty"`
	// Status is one of [StatusNames].
	Status  string     `json:"status"`
	Started time.Time  `json:"started"`
	Closed  *time.Time `json:"closed,omitempty"`
	// Seconds is the duration from the start to the end, or to now.
	Seconds float64 `json:"seconds"`

	// Queue is its task queue, Session the session id that an HTTP client chose.
	Queue   string `json:"-"`
	Session string `json:"-"`
	// Requests are the requests in its memo; nil if the memo cannot be read.
	Requests *contract.OpenRequests `json:"-"`
	// Owner is the principal that started it, as claimed by its client; zero if the client named none.
	Owner contract.Principal `json:"-"`
}

// SummaryOf returns the summary of a workflow execution.
func SummaryOf(info *workflowpb.WorkflowExecutionInfo, now time.Time) Summary {
	s := Summary{ID: info.GetExecution().GetWorkflowId(), Status: history.StatusName(info.GetStatus()), Started: info.GetStartTime().AsTime(), Queue: info.GetTaskQueue(),
		Session: Memo(info, MemoSession), Owner: contract.Principal{Name: Memo(info, contract.MemoPrincipal), Tenant: Memo(info, contract.MemoTenant)}}
	attribute := func(name string) string { return history.Text(info.GetSearchAttributes().GetIndexedFields()[name]) }
	if s.Flow = attribute(contract.AttributeFlow); s.Flow == "" {
		s.Flow = Memo(info, contract.MemoFlow)
	}
	// Temporal reports a waiting run as running.
	if status := attribute(contract.AttributeStatus); s.Status == contract.StatusRunning && inAttribute(status) {
		s.Status = status
	}
	s.Requests = &contract.OpenRequests{}
	if p := info.GetMemo().GetFields()[contract.MemoRequests]; p != nil && converter.GetDefaultDataConverter().FromPayload(p, s.Requests) != nil {
		s.Requests = nil
	}
	end := now
	if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING && info.GetCloseTime() != nil {
		end = info.GetCloseTime().AsTime()
		s.Closed = &end
	}
	s.Seconds = max(0, end.Sub(s.Started).Round(time.Millisecond).Seconds())
	return s
}

// Memo returns a string of a run's memo, or "" if the field is missing or not a string.
func Memo(info *workflowpb.WorkflowExecutionInfo, key string) string {
	return history.Text(info.GetMemo().GetFields()[key])
}

// statuses are the statuses of a list, each with Temporal's query. Temporal reports a waiting or idle run as running.
var statuses = []struct{ name, query string }{
	{contract.StatusRunning, `ExecutionStatus = "Running"`},
	{contract.StatusWaiting, `ExecutionStatus = "Running" AND ` + contract.AttributeStatus + ` = "` + contract.StatusWaiting + `"`},
	{contract.StatusIdle, `ExecutionStatus = "Running" AND ` + contract.AttributeStatus + ` = "` + contract.StatusIdle + `"`},
	{contract.StatusCompleted, `ExecutionStatus = "Completed"`},
	{contract.StatusFailed, `ExecutionStatus = "Failed"`},
	{contract.StatusCancelled, `ExecutionStatus = "Canceled"`},
	{"terminated", `ExecutionStatus = "Terminated"`},
	{"timed_out", `ExecutionStatus = "TimedOut"`},
}

// StatusNames returns the valid statuses of a [Filter].
func StatusNames() []string {
	var out []string
	for _, s := range statuses {
		out = append(out, s.name)
	}
	return out
}

// inAttribute reports whether only a search attribute distinguishes the status from running.
func inAttribute(status string) bool {
	return status == contract.StatusWaiting || status == contract.StatusIdle
}

// Filter selects runs.
type Filter struct {
	// Flow and Status, if set, must match.
	Flow, Status string
	// Closed includes closed runs; Status overrides it.
	Closed bool
	// Waiting excludes runs that have no open requests according to the search attributes of the namespace.
	Waiting bool
	// Limit is the maximum number of runs; 0 means no limit.
	Limit int
	// Owner, if set, is the principal that started the runs; without a name, any principal of the tenant.
	Owner *contract.Principal
}

func (c *Connection) query(ctx context.Context, f *Filter) (string, error) {
	query := `ExecutionStatus = "Running"`
	if f.Closed {
		query = `ExecutionStatus != "ContinuedAsNew"` // such a run continues under its id
	}
	if f.Status != "" {
		query = statuses[slices.Index(StatusNames(), f.Status)].query
	}
	// A workflow with a parent is a sub-agent.
	query = fmt.Sprintf(`WorkflowType = %q AND ParentWorkflowId IS NULL AND %s`, contract.WorkflowFlow, query)
	if f.Flow == "" && f.Owner == nil && !inAttribute(f.Status) && !f.Waiting {
		return query, nil
	}
	state, err := activities.NewAttributes(c.Client).Of(ctx, c.Namespace)
	if inAttribute(f.Status) && !slices.Contains(state.Registered, contract.AttributeStatus) {
		if err != nil {
			return "", err
		}
		return "", usage.Errorf("-status %s requires the search attribute %s, which namespace %q does not have; add it with: %s",
			f.Status, contract.AttributeStatus, c.Namespace, activities.RegisterCommand(c.Namespace, contract.AttributeStatus))
	}
	return query + f.attributes(state.Registered), nil
}

// attributes returns the conditions on the registered search attributes. Runs without a value match them.
func (f *Filter) attributes(registered []string) (query string) {
	owner := f.Owner.Value()
	for _, w := range []struct {
		attribute, value string
		enabled          bool
	}{
		{contract.AttributeStatus, contract.StatusWaiting, f.Waiting}, {contract.AttributeFlow, f.Flow, f.Flow != ""},
		{contract.AttributeTenant, owner.Tenant, f.Owner != nil}, {contract.AttributePrincipal, owner.Name, owner.Name != ""},
	} {
		// Temporal's query language has escapes, but the server does not match escaped values.
		if w.enabled && slices.Contains(registered, w.attribute) && !strings.ContainsFunc(w.value, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' }) {
			query += fmt.Sprintf(` AND (%s = "%s" OR %[1]s IS NULL)`, w.attribute, contract.Keyword(w.value))
		}
	}
	return query
}

// matches reports whether the filter selects a run: the query may return more.
func (f *Filter) matches(s *Summary) bool {
	return (f.Flow == "" || s.Flow == contract.Keyword(f.Flow)) && (f.Status == "" || s.Status == f.Status) && f.MatchesOwner(s.Owner)
}

// MatchesOwner reports whether the filter selects runs of the owner.
func (f *Filter) MatchesOwner(owner contract.Principal) bool {
	return f.Owner == nil || *f.Owner == owner || f.Owner.Name == "" && f.Owner.Tenant == owner.Tenant
}

const pageSize = 200

// List returns runs, the latest first, at most Limit of them, and reports whether there are more.
func (c *Connection) List(ctx context.Context, f Filter) (all []Summary, more bool, err error) {
	query, err := c.query(ctx, &f)
	if err != nil {
		return nil, false, err
	}
	all = []Summary{}
	var token []byte
	for {
		page, next, err := c.retryPage(ctx, &f, query, token, listPauses)
		if err != nil {
			return nil, false, c.tooBusy(err, len(all))
		}
		for _, s := range page {
			if f.Limit > 0 && len(all) == f.Limit {
				return all, true, nil
			}
			all = append(all, s)
		}
		if token = next; len(token) == 0 {
			return all, false, nil
		}
	}
}

// Page returns up to Limit runs from a page token on, at least one if there is any, and the next token.
func (c *Connection) Page(ctx context.Context, f Filter, token []byte) (out []Summary, next []byte, err error) {
	query, err := c.query(ctx, &f)
	for err == nil && len(out) == 0 {
		out, next, err = c.page(ctx, &f, query, token, f.Limit)
		if token = next; len(token) == 0 {
			break
		}
	}
	return out, next, err
}

func (c *Connection) page(ctx context.Context, f *Filter, query string, token []byte, size int) (out []Summary, next []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	page, err := c.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: c.Namespace, PageSize: int32(size), Query: query, NextPageToken: token})
	if err != nil {
		return nil, nil, fmt.Errorf("list the runs in namespace %q at %s: %w", c.Namespace, c.Address, err)
	}
	for _, info := range page.GetExecutions() {
		if s := SummaryOf(info, time.Now()); f.matches(&s) {
			out = append(out, s)
		}
	}
	return out, page.GetNextPageToken(), nil
}

// listPauses are the pauses before retries of a page.
var listPauses = []time.Duration{time.Second, 4 * time.Second}

// retryPage retries a page after pauses if the server is busy, so that the pages read before are not lost.
func (c *Connection) retryPage(ctx context.Context, f *Filter, query string, token []byte, pauses []time.Duration) ([]Summary, []byte, error) {
	for try := 0; ; try++ {
		page, next, err := c.page(ctx, f, query, token, pageSize)
		if err == nil || try == len(pauses) || !Unavailable(err) || Sleep(ctx, pauses[try]) != nil {
			return page, next, err
		}
	}
}

func (c *Connection) tooBusy(err error, read int) error {
	if !Unavailable(err) {
		return err
	}
	return fmt.Errorf("%d runs were read, then Temporal at %s did not respond in time, even after retries (%w); it is busy or unavailable: try later, or list less: starter list -limit 50, -name or -status",
		read, c.Address, err)
}
