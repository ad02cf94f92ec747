package contract

import (
	"encoding/json"
	"slices"
	"strings"

	"weft/workflows/plan"
)

// BranchInput starts a run of workflow type Branch: a chain of nodes that runs in parallel with others.
type BranchInput struct {
	V int `json:"v"`
	// Root is the workflow id of the flow's run; ids of child workflows begin with it.
	Root string `json:"root"`
	// Plan is the part of the flow that is reachable from the chain.
	Plan   *plan.Flow  `json:"plan"`
	Source plan.Source `json:"source"`
	// Node, Step, Occurrence and Lineage identify the chain's first execution.
	Node       string `json:"node"`
	Step       int    `json:"step"`
	Occurrence int    `json:"occurrence,omitempty"`
	Lineage    string `json:"lineage,omitempty"`
	// Order holds the positions of Plan's nodes among the declarations of the complete flow.
	Order []int `json:"order"`
	// Edges holds the indices of Plan's edges in the complete flow.
	Edges []int `json:"edges"`
	// Suspended, if set, is the state from which the first execution continues.
	Suspended *SuspendedExecution `json:"suspended,omitempty"`
	// Inbox holds messages for the agents of the chain.
	Inbox []Inbound `json:"inbox,omitempty"`
	// Others are the nodes that other live branches can reach: the chain returns before it runs one of them.
	Others []string `json:"others,omitempty"`
	// Ran counts executions of nodes reachable from the chain, at later steps than its first.
	Ran  []Count `json:"ran,omitempty"`
	View View    `json:"view"`
	// Values are the stored bytes of the view's long values that workflow code reads.
	Values []json.RawMessage `json:"values,omitempty"`
	// Conversation is the state of the conversation and the meter of the flow's run.
	Conversation *Conversation `json:"conversation,omitempty"`
	// Shared is shared by all branches of a run.
	Shared Shared `json:"shared"`
	// MaxResultBytes is [RunInput.MaxResultBytes]. Exits means that the flow has exit nodes, so that texts of other nodes
	// are not needed in the result.
	MaxResultBytes int  `json:"max_result_bytes,omitempty"`
	Exits          bool `json:"exits,omitempty"`
}

// Shared is what all executions of a run share, determined before the first node.
type Shared struct {
	Model string     `json:"model"`
	Depth int        `json:"depth,omitempty"`
	Input ContentRef `json:"input"`
	// MaxEvents is [RunInput.MaxEvents].
	MaxEvents int `json:"max_events,omitempty"`
	// Owner is the workflow id of the run that owns all requests of the tree; OnError is wait or fail, see
	// [RunInput.OnError].
	Owner string `json:"owner"`
	// FirstRun is the first run id of the root run, for idempotency keys.
	FirstRun string `json:"first_run"`
	OnError  string `json:"on_error,omitempty"`
	// MaxPayload is the largest payload that the store accepts, in bytes, determined once when the run started; 0 means
	// that the run has no store.
	MaxPayload int `json:"max_payload,omitempty"`
	// Entries means that each entry of the conversation is recorded in history by the end of the execution that adds it,
	// and before the run waits for an answer. It is false in runs started by an earlier build.
	Entries bool `json:"entries,omitempty"`
	// Budget is what the run, or this part of it, may spend; nil means no limit. A negative field means that nothing is
	// left.
	Budget *Budget `json:"budget,omitempty"`
	// TurnCalls, if positive, is how many model calls the worker allows per turn of a session.
	TurnCalls int `json:"turn_calls,omitempty"`
	// Text is the input itself if it is short.
	Text   string      `json:"text,omitempty"`
	Script *ContentRef `json:"script,omitempty"`
	// Scope is [RunInput.Scope], for a flow's hooks.
	Scope json.RawMessage `json:"scope,omitempty"`
	// Turn is the number of a session's turn, from 1; 0 if the run is not a session.
	Turn int `json:"turn,omitempty"`
	// Chat is the conversation before the run, if any.
	Chat *ContentRef `json:"chat,omitempty"`
	// Limited lists the limits of the plan that the worker's settings reduced.
	Limited []string `json:"limited,omitempty"`
	Grant   *Grant   `json:"grant,omitempty"`
	// Connections are the resolved connections, by the id that the flow uses.
	Connections []ResolvedConnection `json:"connections,omitempty"`
	// ServerSessions are the sessions with the tree's servers, by [ResolvedConnection.Server].
	ServerSessions map[string]ServerSession `json:"server_sessions,omitempty"`
	// NodeSessions are the sessions that served the agents of the flow's nodes, by node, then by agent and server, so
	// that a node that runs again learns of a session lost in the meantime.
	NodeSessions map[string]map[string]ServerSession `json:"node_sessions,omitempty"`
}

// InputPart returns the run's input as part of a message, by value if it is short, so that no worker has to fetch it.
func (s *Shared) InputPart() Part {
	if s.Text != "" {
		return Part{Text: s.Text}
	}
	return Part{Ref: &ContentRef{SHA: s.Input.SHA}}
}

// Sessions returns ServerSessions for modification. It and NodeSessions are shared by all executions in one run.
func (s *Shared) Sessions() map[string]ServerSession {
	if s.ServerSessions == nil {
		s.ServerSessions = map[string]ServerSession{}
	}
	if s.NodeSessions == nil {
		s.NodeSessions = map[string]map[string]ServerSession{}
	}
	return s.ServerSessions
}

// ResolvedConnection is a connection with the catalogue listed at the run's start.
type ResolvedConnection struct {
	// ID is the id that tools refer to, "tool:NAME" for a tool without a connection.
	ID         string          `json:"id"`
	Connection plan.Connection `json:"connection"`
	// Catalogue is absent for connections of kind agent.
	Catalogue *ContentRef `json:"catalogue,omitempty"`
	CallRules
}

// Server identifies the server: it is equal for all connections to one server in a tree of runs.
func (r *ResolvedConnection) Server() string { return r.Connection.ID + " " + r.Connection.Address() }

// CallRules are a worker's rules for calls of a connection's tools.
type CallRules struct {
	// Repeatable are the tools whose calls are repeated if their outcome is unknown.
	Repeatable []string `json:"repeatable,omitempty"`
	// Pure are the tools whose calls have no effect and involve only the worker.
	Pure []string `json:"pure,omitempty"`
	// AsTasks are the tools whose calls are requested as tasks.
	AsTasks []string `json:"as_tasks,omitempty"`
	// HoldSeconds is how long, in total, a server may wait for answers to requests that it sends while a call is in
	// progress; 0 means that it cannot send any.
	HoldSeconds int `json:"hold_seconds,omitempty"`
	// Resources allows models to read the resources that tool results link to.
	Resources bool `json:"resources,omitempty"`
	// AskUnknown means that a user decides whether calls of other tools are repeated if their outcome is unknown.
	AskUnknown bool `json:"ask_unknown,omitempty"`
	// Confirm are the tools whose calls need approval.
	Confirm []ConfirmRule `json:"confirm,omitempty"`
	// ExternalActivity, if set, specifies how the run itself calls the connection's only tool.
	ExternalActivity *ExternalActivity `json:"external_activity,omitempty"`
}

// Repeats reports whether a call of a tool is repeated if its outcome is unknown.
func (r *CallRules) Repeats(tool string) bool { return slices.Contains(r.Repeatable, tool) }

// IsPure reports whether a call of a tool has no effect and involves only the worker.
func (r *CallRules) IsPure(tool string) bool { return slices.Contains(r.Pure, tool) }

// Count is how often a node ran at a step.
type Count struct {
	Node string `json:"node"`
	Step int    `json:"step"`
	N    int    `json:"n"`
}

// View is what an execution can see: what its causal ancestors wrote and returned.
type View struct {
	// State is sorted by key, Outputs by node id, Versions by strand.
	State    []StateEntry  `json:"state,omitempty"`
	Outputs  []NodeOutput  `json:"outputs,omitempty"`
	Versions VersionVector `json:"version_vector,omitempty"`
}

// Stamp identifies the execution that produced something. A strand is a sequence of executions; Seq counts events in it.
type Stamp struct {
	Strand string `json:"strand"`
	Seq    int    `json:"seq"`
	Step   int    `json:"step"`
	// Exec is the execution's id, node#step.
	Exec string `json:"exec"`
}

// StateEntry is a key's value and the execution that wrote it. A long value is stored as a message's text, named by SHA,
// so that it is not copied into every branch; Size is its length.
type StateEntry struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value,omitempty"`
	SHA   string          `json:"sha256,omitempty"`
	Size  int             `json:"size,omitempty"`
	By    Stamp           `json:"by"`
}

// NodeOutput is the latest output of a node.
type NodeOutput struct {
	Node string `json:"node"`
	// Name is the node's name; Order is its position among the flow's declarations.
	Name  string `json:"name,omitempty"`
	Order int    `json:"order"`
	// SHA is the hash of the output's message.
	SHA string `json:"sha256"`
	By  Stamp  `json:"by"`
}

// VersionVector is how much of each strand a view includes; strands that are not listed are not included at all.
type VersionVector []StrandVersion

// StrandVersion is the last Seq of a strand that a view includes.
type StrandVersion struct {
	Strand string `json:"strand"`
	Seq    int    `json:"seq"`
}

// BranchResult is the result of a run of workflow type Branch.
type BranchResult struct {
	Offloading `json:"-"`
	// Held is [RunResult.Held].
	Held *HeldResult `json:"held,omitempty"`
	// Executions are in order; the last one took Edges.
	Executions []Execution `json:"executions"`
	// Edges are the indices, in the complete flow, of the edges that the last execution took.
	Edges []int `json:"edges,omitempty"`
	// View holds what the chain itself wrote and returned; Messages are the stored bytes of its outputs and long values.
	// They are returned by value, so that a join weeks later does not depend on a closed run.
	View     View              `json:"view"`
	Messages []json.RawMessage `json:"messages,omitempty"`
	// Yielded, if set, is the execution with which the chain continues after Executions: from its middle or, if it is not
	// Suspended, from its beginning.
	Yielded *ExecutionState `json:"yielded,omitempty"`
	// UnreadMessages are the messages that no model call has read, as their Seq only.
	UnreadMessages []Inbound `json:"unread_messages,omitempty"`
	// ServerSessions and NodeSessions are those of [Shared] when the chain ends.
	ServerSessions map[string]ServerSession            `json:"server_sessions,omitempty"`
	NodeSessions   map[string]map[string]ServerSession `json:"node_sessions,omitempty"`
	// Conversation is what the chain adds to the conversation and to the meter.
	Conversation *Conversation `json:"conversation,omitempty"`
	Usage        Usage         `json:"usage"`
}

// Conversation is the state that all nodes of a run share: the common conversation, and what they have spent.
type Conversation struct {
	Messages []ThreadMessage `json:"messages,omitempty"`
	// Forks are the conversations of parallel nodes, until a merge picks one.
	Forks []Fork `json:"forks,omitempty"`
	// Spent counts toward the flow's meter; Reminded counts reminders by node.
	Spent    int        `json:"spent,omitempty"`
	Reminded []Reminded `json:"reminded,omitempty"`
	// Inherited is how many of Messages come from the parent run.
	Inherited int `json:"inherited,omitempty"`
	// Sent is what models are sent of the conversation.
	Sent []Sent `json:"sent,omitempty"`
}

// latest returns the last messages of a conversation that fit in the given number of bytes. It never includes the result
// of a call without the call.
func latest(messages []ThreadMessage, bytes int) []ThreadMessage {
	from, begin := len(messages), len(messages)
	for from > 0 {
		if bytes -= len(messages[from-1].Raw); bytes < 0 {
			break
		}
		from--
		if m, err := DecodeMessage(messages[from].Raw); err == nil && m.CallID == "" {
			begin = from
		}
	}
	return messages[begin:]
}

// Fork holds the messages of a parallel node since the fork, and what it spent of the flow's meter.
type Fork struct {
	Node     string          `json:"node"`
	Messages []ThreadMessage `json:"messages"`
	Spent    int             `json:"spent,omitempty"`
}

// Reminded is how often a node's model was reminded to call a tool.
type Reminded struct {
	Node string `json:"node"`
	N    int    `json:"n"`
}

// ValueKey is the state key of the value that is passed along the edges of a flow with values.
const ValueKey = "$value"

// Reserved reports whether a state key belongs to the interpreter; models can neither see nor write it.
func Reserved(key string) bool { return strings.HasPrefix(key, "$") }

// Execution is the record of one execution of a node.
type Execution struct {
	Node string `json:"node"`
	Step int    `json:"step"`
	// Occurrence is 2 for the second execution with the same node and step, and so on.
	Occurrence int `json:"occurrence,omitempty"`
	// NoRoute means that the node has edges but all conditions were false.
	NoRoute bool     `json:"no_route,omitempty"`
	Answers []Answer `json:"answers,omitempty"`
	// Taken are the ids of the edges that the execution took, in declaration order.
	Taken []string `json:"taken,omitempty"`
	// Recorded means that it was executed in another run, from which this one was forked.
	Recorded bool `json:"recorded,omitempty"`
	// Branch is the branch that a node with several branches took.
	Branch string `json:"branch,omitempty"`
	// Exhausted means that the node ended because its budget of tool calls was spent.
	Exhausted bool `json:"iterations_exhausted,omitempty"`
	// Truncated means that the model stopped at its length limit.
	Truncated bool `json:"truncated,omitempty"`
	// OmittedMessages is how many messages of its conversation were no longer sent to the model at the end.
	OmittedMessages int `json:"omitted_messages,omitempty"`
	// Unfit is the failure of the run if this execution's output would be its result.
	Unfit *Failure `json:"unfit,omitempty"`
	// Text and Data are the output, stored for exit nodes and for the last execution of a chain.
	Text *string         `json:"text,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
}

// Status is the result of the query status. If it is too large for a query result, conflicts, executions, waits and
// messages are omitted first, then requests.
type Status struct {
	// Status is running, waiting, idle, completed, failed or cancelled.
	Status string `json:"status"`
	// Flow describes the flow, once it is known.
	Flow  *FlowLabel `json:"flow,omitempty"`
	Model string     `json:"model,omitempty"`
	// Running are the executions in progress, node#step; those of child workflows are listed under the first execution of
	// their chain.
	Running      []string `json:"running,omitempty"`
	Waiting      []string `json:"waiting,omitempty"`
	PendingJoins []string `json:"pending_joins,omitempty"`
	// Tasks are the executions in Running that wait for a tool's task, as "node#step tool", or for a limit shared by all
	// workers.
	Tasks []string `json:"tasks,omitempty"`
	// Waits lists the executions that each of Waiting and PendingJoins waits for.
	Waits []Wait `json:"waits,omitempty"`
	// Entry is the outcome of START, once it is decided.
	Entry *Execution `json:"entry,omitempty"`
	// Executions are the last 1,000 executions, without outputs and with at most 512 KiB of answers to conditions;
	// Dropped counts earlier ones.
	Executions []Execution `json:"executions"`
	Dropped    int         `json:"dropped,omitempty"`
	// Conflicts are concurrent writes to one key that met at a join, the latest 256 KiB of them.
	Conflicts []Conflict `json:"conflicts,omitempty"`
	Usage     Usage      `json:"usage"`
	// Budget limits the usage; absent means no limit.
	Budget *Allowance `json:"budget,omitempty"`
	// Limited lists the limits of the plan that the worker's settings reduced.
	Limited []string `json:"limited,omitempty"`
	// Requests are what the run waits for, in the order in which they were opened.
	Requests []Request `json:"requests,omitempty"`
	// MoreRequests counts further requests that do not fit in a query result. They are listed once earlier ones are
	// answered.
	MoreRequests int `json:"more_requests,omitempty"`
	// Answered are the most recently answered requests.
	Answered []Answered `json:"answered,omitempty"`
	// Inbox are messages that no model call has read yet, long ones shortened.
	Inbox []Inbound `json:"inbox,omitempty"`
	// Conversation holds the last messages of the flow's conversation, at most 20, shortened; the transcript has all.
	Conversation []Message `json:"conversation,omitempty"`
	// Session is set for a session, and for a run that has started sessions.
	Session *SessionStatus `json:"session,omitempty"`
	// Rejected counts invalid signals; RejectionReasons are the reasons for the last ten.
	Rejected         int      `json:"rejected,omitempty"`
	RejectionReasons []string `json:"rejection_reasons,omitempty"`
}

// Fitting returns the status reduced to what fits in a query result.
func (s Status) Fitting() Status {
	for n, err := Size(s); err == nil && n > MaxPayload; n, err = Size(s) {
		switch {
		case len(s.Conversation) > 0:
			s.Conversation = nil
		case len(s.Conflicts) > 0:
			s.Conflicts = s.Conflicts[(len(s.Conflicts)+1)/2:]
		case len(s.Executions) > 0:
			half := (len(s.Executions) + 1) / 2
			s.Executions, s.Dropped = s.Executions[half:], s.Dropped+half
		case len(s.Waits)+len(s.Inbox) > 0:
			s.Waits, s.Inbox = nil, nil
		case len(s.Requests) > 1:
			half := len(s.Requests) / 2
			s.MoreRequests += len(s.Requests) - half
			s.Requests = s.Requests[:half]
		default:
			return s
		}
	}
	return s
}

// FlowLabel is a flow's description in its document, for display.
type FlowLabel struct {
	Name string `json:"name"`
	// Version and Description are the author's, empty if absent; long ones are shortened.
	Version     string `json:"version,omitempty"`
	Description string `json:"description,omitempty"`
}

// LabelOf returns a flow's label, or nil if f is nil.
func LabelOf(f *plan.Flow) *FlowLabel {
	if f == nil {
		return nil
	}
	return &FlowLabel{Name: shorter(f.Name), Version: shorter(f.Revision), Description: shorter(f.Description)}
}

// Wait is an execution that waits for others that could still arrive at its node.
type Wait struct {
	Execution string `json:"execution"`
	// For are the executions that could still arrive, node#step: for a branch in progress, the first execution of its
	// chain; for one that waits itself, its own.
	For []string `json:"for"`
}

// Conflict is two concurrent writes to one key. Kept took precedence; Value is what Dropped wrote, or SHA refers to it if
// it is long.
type Conflict struct {
	Key     string          `json:"key"`
	Kept    Stamp           `json:"kept"`
	Dropped Stamp           `json:"dropped"`
	Value   json.RawMessage `json:"value,omitempty"`
	SHA     string          `json:"sha256,omitempty"`
}
