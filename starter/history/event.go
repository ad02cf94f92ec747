package history

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
	"weft/starter/plaintext"
	"weft/workflows/plan"
)

// Workflow is one workflow of a tree, with all runs of its continue-as-new chain.
type Workflow struct {
	ID string
	// Place is the path of calls to its sub-agent, each followed by " › "; "" for the root and its branches.
	Place string
	// Root reports whether reading started here.
	Root bool
	// Within is the workflow in whose run an element of a map runs; nil for a real workflow.
	Within *Workflow

	elements map[string]*Workflow
}

// element returns the virtual workflow of a map's element, whose calls have the place in this one.
func (w *Workflow) element(place string) *Workflow {
	if w.elements[place] == nil {
		if w.elements == nil {
			w.elements = map[string]*Workflow{}
		}
		id := strings.TrimSuffix(place, "/")
		w.elements[place] = &Workflow{ID: w.ID + "/" + id, Place: w.Place + plaintext.Line(Unescape(id), 100) + " › ", Within: w}
	}
	return w.elements[place]
}

// Run is one run of a workflow.
type Run struct {
	*Workflow
	RunID string
}

// Event is one event of a run's history.
type Event struct {
	ID   int64
	Time time.Time
	Run  Run
	// Data is a pointer to one of the types of this file, nil for an event that is irrelevant to a flow.
	Data any
}

// Started is the start of a run.
type Started struct {
	Type string
	// Input is the input of a flow, Branch the input of a branch.
	Input  *contract.RunInput
	Branch *contract.BranchInput
	// ContinuedFrom is the id of the run that this one continues, if any.
	ContinuedFrom string
	// Parent is the workflow id of the tree's root, "" for the root.
	Parent string
	// Flow and Hash are the flow's name and the plan's hash in the memo.
	Flow, Hash string
}

// Plan returns the run's plan and its source, nil if the run starts from a document.
func (s *Started) Plan() (*plan.Flow, plan.Source) {
	switch in := s.Input; {
	case s.Branch != nil:
		return s.Branch.Plan, s.Branch.Source
	case in == nil:
	case in.Snapshot != nil:
		return in.Snapshot.Plan, in.Snapshot.Source
	case in.Flow.Source != nil:
		return in.Flow.Plan, *in.Flow.Source
	default:
		return in.Flow.Plan, plan.Source{}
	}
	return nil, plan.Source{}
}

// IsSession reports whether the run accepts prompts.
func (s *Started) IsSession() bool {
	in := s.Input
	return in != nil && (in.Session || in.Snapshot != nil && in.Snapshot.Session != nil && in.Snapshot.Session.IsSession)
}

// Ended is the end of a run.
type Ended struct {
	Status enumspb.WorkflowExecutionStatus
	// Result is the result of a completed flow.
	Result  *contract.RunResult
	Failure *failurepb.Failure
	// Reason is why it was terminated.
	Reason string
	// ContinuedAs is the id of the run that continues this one.
	ContinuedAs string
}

// TaskStarted is the start of a workflow task.
type TaskStarted struct{}

// TaskCompleted is the end of a workflow task.
type TaskCompleted struct{}

// TaskFailed is a workflow task that failed; Temporal retries it.
type TaskFailed struct {
	Cause   enumspb.WorkflowTaskFailedCause
	Failure *failurepb.Failure
}

// CancelRequested is a request to cancel the run.
type CancelRequested struct{}

// Child is a child workflow.
type Child struct {
	// Requested is the id of the event that requested it. The other fields are empty before it starts.
	Requested  int64
	ID, RunID  string
	Type, Call string // Call is node#step:call of a sub-agent, "" for a branch
}

type (
	// ChildRequested marks the position of a child in the order of the flow: children start in
	// random order.
	ChildRequested struct{ *Child }

	// ChildStarted is the start of a child.
	ChildStarted struct{ *Child }
	// ChildNotStarted is a child that could not start.
	ChildNotStarted struct{ ID, Cause string }
	// ChildEnded is the end of a child.
	ChildEnded struct {
		*Child
		Status enumspb.WorkflowExecutionStatus
		// Branch is the result of a branch, Result that of a sub-agent.
		Branch *contract.BranchResult
		Result *contract.RunResult
		// Failure is the failure of a failed or cancelled child.
		Failure *contract.Failure
	}
)

// Message is a signal or an Update that a run received.
type Message struct {
	Name string
	// Update reports whether it was an Update, with UpdateID as its id.
	Update   bool
	UpdateID string
	// Identity is the client identity that Temporal recorded.
	Identity string
	// FromWorkflow reports whether another workflow sent it.
	FromWorkflow bool
	// Body is a pointer to the type that bodies has for Name, or nil.
	Body any
	// Outcome is the outcome of a completed Update. [Read] sets it before it yields the message.
	Outcome *UpdateCompleted

	args *commonpb.Payloads
}

// JSON returns the argument as JSON, and reports whether it could be decoded.
func (m *Message) JSON() (raw json.RawMessage, ok bool) {
	ok = Decode(m.args, &raw)
	return raw, ok
}

// Listed holds the open requests of a root run and its descendants, recorded whenever they change.
type Listed struct{ contract.OpenRequests }

// UpdateCompleted is the outcome of an Update.
type UpdateCompleted struct {
	UpdateID string
	// Message is the Update, nil if it was accepted by an earlier run.
	Message *Message
	Failure *failurepb.Failure
	// Turn is the turn of a session's prompt.
	Turn *contract.Turn
}

// ReplySent is an answer that the root forwarded to a descendant.
type ReplySent struct{ contract.Reply }

// MessagesRecorded holds recorded messages of threads. Place and Run are as in [Call].
type MessagesRecorded struct {
	contract.ThreadRecord
	Place string
	Run   Run
}

func (s *MessagesRecorded) madeIn() Run { return s.Run }

// Threads returns the threads to which messages were added.
func (s *MessagesRecorded) Threads() []contract.ThreadRecord {
	out := []contract.ThreadRecord{s.ThreadRecord}
	if s.Aside != nil {
		out = append(out, *s.Aside)
	}
	return out
}

// RequestExpired is the end of a request's time limit.
type RequestExpired struct{ ID string }

// Missing is a history that the server no longer retains. Its event has no id and no time.
type Missing struct{ Err error }

// ExecutionOf parses node#step, or node#step~n for the node's n-th execution in a step.
func ExecutionOf(exec string) contract.Execution {
	x := ParseLabel(exec)
	x.Node = Unescape(x.Node)
	return x
}

// ParseLabel parses a result of [Label], in which the node is not escaped.
func ParseLabel(label string) contract.Execution {
	node, rest, _ := CutLast(label, "#")
	step, occurrence, _ := strings.Cut(rest, "~")
	x := contract.Execution{Node: node}
	x.Step, _ = strconv.Atoi(step)
	x.Occurrence, _ = strconv.Atoi(occurrence)
	return x
}

// Label formats an execution as node#step.
func Label(x contract.Execution) string {
	return x.Node + "#" + strconv.Itoa(x.Step) + plaintext.If(x.Occurrence > 1, "~%d", x.Occurrence)
}

// SplitCallID splits node#step/kind/turn; the turn of a model call with shortened input has a suffix.
func SplitCallID(id string) (node, turn string) {
	rest, turn, ok := CutLast(id, "/")
	if !ok {
		return plaintext.Line(Unescape(id), 200), ""
	}
	if kind, occurrence, found := CutLast(rest, "/"); found && strings.HasSuffix(kind, "/model") {
		rest, turn = kind, occurrence+"/"+turn
	}
	if node, _, ok := CutLast(rest, "/"); ok {
		return plaintext.Line(Unescape(node), 200), Unescape(turn)
	}
	return plaintext.Line(Unescape(rest), 200), Unescape(turn)
}

// Unescape unescapes the id of a node in the id of a call or workflow.
func Unescape(s string) string {
	if out, err := url.PathUnescape(s); err == nil {
		return out
	}
	return s
}

// CutLast cuts s around the last sep. It returns s, "", false if there is none.
func CutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// StatusName returns the name of a status as the commands print it.
func StatusName(s enumspb.WorkflowExecutionStatus) string {
	switch s {
	case enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return contract.StatusCancelled
	case enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return "timed_out"
	}
	return strings.ToLower(s.String())
}

// FailureText returns the class and message of a failure in one line.
func FailureText(p *failurepb.Failure) string {
	if p == nil {
		return "an unknown failure"
	}
	text := plaintext.Line(p.GetMessage(), 300)
	if class := p.GetApplicationFailureInfo().GetType(); class != "" {
		return plaintext.Line(class, 60) + ": " + text
	}
	return text
}

// FailureOf returns a run's or a call's failure with its details, nil for nil.
func FailureOf(p *failurepb.Failure) *contract.Failure {
	if p == nil {
		return nil
	}
	var f contract.Failure
	if d := p.GetApplicationFailureInfo().GetDetails(); d != nil && Decode(d, &f) && f.Class != "" {
		return &f
	}
	return &contract.Failure{Class: p.GetApplicationFailureInfo().GetType(), Text: plaintext.Line(p.GetMessage(), 2000)}
}

// Error returns a failure as the SDK's error.
func Error(p *failurepb.Failure) error {
	return temporal.GetDefaultFailureConverter().FailureToError(p)
}
