package runs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"weft/activities/contract"
	"weft/starter/plaintext"
	"weft/starter/usage"
)

// Request is an open request with the commands that answer it.
type Request struct {
	// WorkflowID is the run to which an answer is sent.
	WorkflowID string `json:"workflow_id"`
	Flow       string `json:"flow,omitempty"`
	// Seconds is the time since it was opened.
	Seconds float64 `json:"seconds"`
	// Commands are the command lines that answer it; words in capital letters are placeholders.
	Commands []string `json:"commands"`
	contract.Request
}

// Request describes a request of the run.
func (r *Run) Request(flow string, q *contract.Request, now time.Time) Request {
	reworded := *q
	reworded.Text = r.Reworded(q.Text)
	return Request{WorkflowID: r.ID, Flow: flow, Request: reworded, Commands: r.Commands(q), Seconds: max(0, now.Sub(q.OpenedAt).Round(time.Millisecond).Seconds())}
}

// Commands returns the command lines that answer a request.
func (r *Run) Commands(q *contract.Request) []string {
	line := r.Starter + CommandOf(q.Kind) + " " + r.Quoted() + " " + plaintext.ShellQuote(q.ID)
	switch q.Kind {
	case contract.RequestConfirm:
		return []string{line + " -yes", line + " -no -reason TEXT"}
	case contract.RequestToolResult:
		return []string{line + " -result JSON", line + " -error TEXT"}
	case contract.RequestRetry:
		return []string{line, line + " -give-up -reason TEXT"}
	}
	return []string{r.Starter + "message " + r.Quoted() + " -request " + plaintext.ShellQuote(q.ID) + " TEXT"}
}

// CommandOf returns the command that answers requests of a kind.
func CommandOf(kind string) string { return strings.ReplaceAll(kind, "_", "-") }

// Choose returns the id of the request that an answer of a kind is for. ref is the id, or a prefix
// or suffix of it; "" selects the only request of the kind.
func (r *Run) Choose(kind, ref string, st *contract.Status) (string, error) {
	open := st.Requests
	found := matching(kind, ref, open)
	switch {
	case ref == "" && len(found) == 0:
		return "", usage.Errorf("the run %q has no open request of kind %s%s", r.ID, kind, r.Listing(open))
	case ref == "" && len(found) > 1:
		return "", usage.Errorf("the run %q has %d open requests of kind %s; specify one%s", r.ID, len(found), kind, r.Listing(open))
	case len(found) == 0 && slices.ContainsFunc(st.Answered, func(x contract.Answered) bool { return x.ID == ref }):
		return ref, nil // the run reports whether the answer differs from the first
	case len(found) == 0:
		return "", usage.Errorf("the run %q has no open request %q%s", r.ID, ref, r.Listing(open))
	case len(found) > 1:
		return "", usage.Errorf("%q matches %d open requests of the run %q; use a longer prefix or suffix%s", ref, len(found), r.ID, r.Listing(open))
	case found[0].Kind != kind:
		return "", usage.Errorf("the request %q is of kind %s, which %s cannot answer; use: %s", found[0].ID, found[0].Kind, CommandOf(kind),
			strings.Join(r.Commands(found[0]), "\n  or: "))
	}
	return found[0].ID, nil
}

// matching returns the requests whose id is, begins with or ends with ref; if ref is "", all requests of the kind.
func matching(kind, ref string, open []contract.Request) []*contract.Request {
	var found []*contract.Request
	for i := range open {
		q := &open[i]
		switch {
		case q.ID == ref:
			return []*contract.Request{q}
		case ref == "" && q.Kind == kind, ref != "" && (strings.HasPrefix(q.ID, ref) || strings.HasSuffix(q.ID, ref)):
			found = append(found, q)
		}
	}
	return found
}

const maxListed = 10

// Listing formats open requests for an error message.
func (r *Run) Listing(open []contract.Request) string {
	if len(open) == 0 {
		return "; it has no open requests"
	}
	var b strings.Builder
	b.WriteString("; open:")
	for i, q := range open {
		if i == maxListed {
			fmt.Fprintf(&b, "\n  and %d more, see: %srequests %s", len(open)-i, r.Starter, r.Quoted())
			break
		}
		fmt.Fprintf(&b, "\n  %s  %s  (%s)", q.Kind, plaintext.Lines(q.ID), plaintext.Line(q.Text, 100))
	}
	return b.String()
}

// requestsTimeout is the query timeout for each run in a list.
const requestsTimeout = 5 * time.Second

// RequestList holds the open requests of runs.
type RequestList struct {
	Requests []Request `json:"requests"`
	// Silent are the runs whose worker does not answer.
	Silent []SilentRun `json:"silent"`
}

// SilentRun is a run whose worker does not answer.
type SilentRun struct {
	Run   string `json:"run"`
	Flow  string `json:"flow,omitempty"`
	Error string `json:"error"`
}

// Requests returns the open requests of runs, in the order of the list, from their memos. It queries the runs whose memo is
// incomplete or cannot be read.
func (c *Connection) Requests(ctx context.Context, list []Summary) *RequestList {
	out := &RequestList{Requests: []Request{}, Silent: []SilentRun{}}
	now := time.Now()
	for i := range list {
		s := &list[i]
		r := &Run{Connection: c, ID: s.ID, Queue: s.Queue, Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, QueryTimeout: requestsTimeout}
		var open []contract.Request
		if s.Requests != nil {
			open = s.Requests.Requests
		}
		if s.Requests == nil || s.Requests.More > 0 {
			answer, err := r.QueryStatus(ctx)
			if err != nil {
				out.Silent = append(out.Silent, SilentRun{Run: s.ID, Flow: s.Flow, Error: err.Error()})
			} else {
				open = answer.Requests
			}
		}
		for j := range open {
			out.Requests = append(out.Requests, r.Request(s.Flow, &open[j], now))
		}
	}
	return out
}
