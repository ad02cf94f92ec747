package contract

import (
	"encoding/json"
	"slices"
	"strings"

	"weft/workflows/plan"
)

// BranchInput starts a run of workflow type Branch: a chain of nodes beside others.
type BranchInput struct {
	V int `json:"v"`
	// Root is the workflow id of the flow's run; ids of children begin with it.
	Root string `json:"root"`
	// Plan is the part of the flow that the chain can reach.
	Plan   *plan.Flow  `json:"plan"`
	Source plan.Source `json:"source"`
	// Node, Step, Occurrence and Lineage are the chain's first execution.
	Node       string `json:"node"`
	Step       int    `json:"step"`
	Occurrence int    `json:"occurrence,omitempty"`
	Lineage    string `json:"lineage,omitempty"`
	// Order holds the declaration order of Plan's nodes in the whole flow.
	Order []int `json:"order"`
	// Edges holds the index of Plan's edges in the whole flow.
	Edges []int `json:"edges"`
	// Suspended, if set, is what the first execution goes on with.
	Suspended *SuspendedExecution `json:"suspended,omitempty"`
	// Inbox are messages for the agents of the chain.
	Inbox []Inbound `json:"inbox,omitempty"`
	// Others are the nodes that other live branches can reach: the chain comes back
	// before it runs one.
	Others []string `json:"others,omitempty"`
	// Ran counts executions of nodes that the chain can reach, at steps behind its first.
	Ran  []Count `json:"ran,omitempty"`
	View View    `json:"view"`
	// Values are the stored bytes of the view's long values that workflow code reads itself.
	Values []json.RawMessage `json:"values,omitempty"`
	// Conversation is what the flow's run passes on of its conversation and its meter.
	Conversation *Conversation `json:"conversation,omitempty"`
	// Shared is what all branches of a run use.
	Shared Shared `json:"shared"`
	// MaxResultBytes is how many bytes the chain brings back without asking; 0 means any. Exits means that
	// the flow has exit nodes, so that nobody wants the text of another from here.
	MaxResultBytes int  `json:"max_result_bytes,omitempty"`
	Exits          bool `json:"exits,omitempty"`
}

// Shared is what all executions of a run use: settled before the first node.
type Shared struct {
	Model string     `json:"model"`
	Depth int        `json:"depth,omitempty"`
	Input ContentRef `json:"input"`
	// MaxEvents is that of [RunInput].
	MaxEvents int `json:"max_events,omitempty"`
	// Owner is the workflow id of the run that owns all requests of the tree; OnError is wait
	// or fail, see [RunInput].
	Owner string `json:"owner"`
	// FirstRun is the first run id of the run at the root of the tree, for idempotency keys.
	FirstRun string `json:"first_run"`
	OnError  string `json:"on_error,omitempty"`
	// MaxPayload is the largest payload in bytes that the store takes, found out once when
	// the run started; 0 means that the run has no store.
	MaxPayload int `json:"max_payload,omitempty"`
	// Entries: each entry of the conversation is in history by the end of the execution that adds it, and before somebody is
	// waited for. Runs that an earlier build began do without.
	Entries bool `json:"entries,omitempty"`
	// Budget is what the run, or this part of it, may spend; absent: without bound. A
	// negative field leaves nothing to spend.
	Budget *Budget `json:"budget,omitempty"`
	// TurnCalls, if positive, are the calls of models that the worker allows each turn of a session.
	TurnCalls int `json:"turn_calls,omitempty"`
	// Text is the input itself where it is short.
	Text   string      `json:"text,omitempty"`
	Script *ContentRef `json:"script,omitempty"`
	// Scope is that of [RunInput], for the hooks of a flow that has some.
	Scope json.RawMessage `json:"scope,omitempty"`
	// Turn is the number of a session's turn, from 1; 0 in other runs.
	Turn int `json:"turn,omitempty"`
	// Chat is the conversation before the run, if there was one.
	Chat *ContentRef `json:"chat,omitempty"`
	// Limited says what of the plan the worker's settings cut.
	Limited []string `json:"limited,omitempty"`
	Grant   *Grant   `json:"grant,omitempty"`
	// Connections are the resolved connections, by the id that the flow uses.
	Connections []ResolvedConnection `json:"connections,omitempty"`
	// ServerSessions are those of the tree's servers, by [ResolvedConnection.Server].
	ServerSessions map[string]ServerSession `json:"server_sessions,omitempty"`
	// NodeSessions are those that have served the agents of the flow's nodes, by node, then by agent and server: a node that
	// runs again hears of a loss that others were told of.
	NodeSessions map[string]map[string]ServerSession `json:"node_sessions,omitempty"`
}

// InputPart is the run's input as part of a message: itself where it is short, so that no
// worker has to ask for it.
func (s *Shared) InputPart() Part {
	if s.Text != "" {
		return Part{Text: s.Text}
	}
	return Part{Ref: &ContentRef{SHA: s.Input.SHA}}
}

// Sessions are ServerSessions, to be changed: one map for all that runs in one run, as NodeSessions.
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
	// ID is the id that tools name. It is "tool:NAME" for a tool without a connection.
	ID         string          `json:"id"`
	Connection plan.Connection `json:"connection"`
	// Catalogue is absent for connections of kind agent.
	Catalogue *ContentRef `json:"catalogue,omitempty"`
	CallRules
}

// Server is the same for all connections of a tree of runs that lead to one server.
func (r *ResolvedConnection) Server() string { return r.Connection.ID + " " + r.Connection.Address() }

// CallRules are what a worker says of the calls of a connection's tools.
type CallRules struct {
	// Repeatable are the tools whose calls are repeated where their outcome is unknown.
	Repeatable []string `json:"repeatable,omitempty"`
	// Pure are the tools whose calls have no effect and ask nobody but their worker.
	Pure []string `json:"pure,omitempty"`
	// AsTasks are the tools whose calls are asked for as tasks.
	AsTasks []string `json:"as_tasks,omitempty"`
	// HoldSeconds is how long, in all, a server can be left without answers that asks while it holds a call; 0: it cannot ask.
	HoldSeconds int `json:"hold_seconds,omitempty"`
	// Resources: models may read the resources that results of the tools link to.
	Resources bool `json:"resources,omitempty"`
	// AskUnknown: a person decides whether a call of another tool is repeated then.
	AskUnknown bool `json:"ask_unknown,omitempty"`
	// Confirm are the tools whose calls need a person's yes.
	Confirm []ConfirmRule `json:"confirm,omitempty"`
	// ExternalActivity, if set, says how the run calls the connection's one tool itself.
	ExternalActivity *ExternalActivity `json:"external_activity,omitempty"`
}

// Repeats reports whether a call of a tool is repeated where its outcome is unknown.
func (r *CallRules) Repeats(tool string) bool { return slices.Contains(r.Repeatable, tool) }

// IsPure reports whether a call of a tool has no effect and asks nobody but its worker.
func (r *CallRules) IsPure(tool string) bool { return slices.Contains(r.Pure, tool) }

// Count says how often a node ran at a step.
type Count struct {
	Node string `json:"node"`
	Step int    `json:"step"`
	N    int    `json:"n"`
}

// View is what an execution knows: what its causal ancestors wrote and answered.
type View struct {
	// State is sorted by key, Outputs by node id, Versions by strand.
	State    []StateEntry  `json:"state,omitempty"`
	Outputs  []NodeOutput  `json:"outputs,omitempty"`
	Versions VersionVector `json:"version_vector,omitempty"`
}

// Stamp says which execution did a thing. A strand is a run of executions one behind the
// other; Seq counts what was done in it.
type Stamp struct {
	Strand string `json:"strand"`
	Seq    int    `json:"seq"`
	Step   int    `json:"step"`
	// Exec is the execution's id, node#step.
	Exec string `json:"exec"`
}

// StateEntry is a key's value and who wrote it. A long value is kept as a message's text,
// named by SHA, so that a branch that starts does not carry it; Size is its length.
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
	// Name is the node's name; Order its place among the flow's declarations.
	Name  string `json:"name,omitempty"`
	Order int    `json:"order"`
	// SHA names the output's message.
	SHA string `json:"sha256"`
	By  Stamp  `json:"by"`
}

// VersionVector says how much of each strand a view knows; of one that is not in it, nothing.
type VersionVector []StrandVersion

// StrandVersion is the last Seq of a strand that a view knows.
type StrandVersion struct {
	Strand string `json:"strand"`
	Seq    int    `json:"seq"`
}

// BranchResult is what a chain comes back with.
type BranchResult struct {
	Offloading `json:"-"`
	// Held is that of a [RunResult].
	Held *HeldResult `json:"held,omitempty"`
	// Executions are in order; the last one took Edges.
	Executions []Execution `json:"executions"`
	// Edges are the indices, in the whole flow, of the edges that the last execution took.
	Edges []int `json:"edges,omitempty"`
	// View holds what the chain itself wrote and answered; Messages are the stored bytes of its
	// outputs and long values. They come back by value: a join weeks later must not depend
	// on a closed run.
	View     View              `json:"view"`
	Messages []json.RawMessage `json:"messages,omitempty"`
	// Yielded, if set, is the execution with which the chain goes on behind Executions: from its middle or, if it is not
	// Suspended, from its beginning.
	Yielded *ExecutionState `json:"yielded,omitempty"`
	// Unread are the messages that no model call has had, by their Seq alone.
	UnreadMessages []Inbound `json:"unread_messages,omitempty"`
	// ServerSessions and NodeSessions are those of [Shared] as the chain leaves them.
	ServerSessions map[string]ServerSession            `json:"server_sessions,omitempty"`
	NodeSessions   map[string]map[string]ServerSession `json:"node_sessions,omitempty"`
	// Conversation is what the chain adds to the conversation and to the meter.
	Conversation *Conversation `json:"conversation,omitempty"`
	Usage        Usage         `json:"usage"`
}

// Conversation is the part of a run that is one for all its nodes: the conversation that they share,
// and what they have spent.
type Conversation struct {
	Messages []ThreadMessage `json:"messages,omitempty"`
	// Forks are the conversations of parallel nodes, until a merge picks one.
	Forks []Fork `json:"forks,omitempty"`
	// Spent counts against the flow's meter; Reminded counts reminders by node.
	Spent    int        `json:"spent,omitempty"`
	Reminded []Reminded `json:"reminded,omitempty"`
	// Inherited is how many of Messages came from the run above.
	Inherited int `json:"inherited,omitempty"`
	// Sent is what models are sent of the conversation.
	Sent []Sent `json:"sent,omitempty"`
}

// latest are the last messages of a conversation that have so many bytes. No result of a call stands there without the call.
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

// Fork is what was said in a parallel node, behind what its fork began with, and what it spent
// of the flow's meter.
type Fork struct {
	Node     string          `json:"node"`
	Messages []ThreadMessage `json:"messages"`
	Spent    int             `json:"spent,omitempty"`
}

// Reminded says how often a node's model was reminded to call a tool.
type Reminded struct {
	Node string `json:"node"`
	N    int    `json:"n"`
}

// ValueKey is the state key of the value that flows along the edges of a flow with values.
const ValueKey = "$value"

// Reserved reports whether a state key is the interpreter's own; models neither see nor write it.
func Reserved(key string) bool { return strings.HasPrefix(key, "$") }

// Execution is one execution of a node, as the trace keeps it.
type Execution struct {
	Node string `json:"node"`
	Step int    `json:"step"`
	// Occurrence is 2 for the second execution with the same node and step, and so on.
	Occurrence int `json:"occurrence,omitempty"`
	// NoRoute means that the node has edges and that all conditions were false.
	NoRoute bool     `json:"no_route,omitempty"`
	Answers []Answer `json:"answers,omitempty"`
	// Taken are the ids of the edges that the execution took, in declaration order.
	Taken []string `json:"taken,omitempty"`
	// Recorded means that another run did it, from which this one was forked.
	Recorded bool `json:"recorded,omitempty"`
	// Branch is the one by which a node with several left.
	Branch string `json:"branch,omitempty"`
	// Exhausted means that the budget of tool calls ended the node.
	Exhausted bool `json:"iterations_exhausted,omitempty"`
	// Truncated means that the model stopped at its length limit.
	Truncated bool `json:"truncated,omitempty"`
	// OmittedMessages is how many messages of its conversation the model was no longer sent at the end.
	OmittedMessages int `json:"omitted_messages,omitempty"`
	// Unfit is the failure of a run whose result the output would be.
	Unfit *Failure `json:"unfit,omitempty"`
	// Output is kept for exit nodes and for the last execution of a chain.
	Text *string         `json:"text,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
}

// Status answers the query status. Where one answer of a query has no room for all of it, there are fewer
// conflicts, executions, waits and messages, and then requests.
type Status struct {
	// Status is running, waiting, idle, completed, failed or cancelled.
	Status string `json:"status"`
	// Flow says which flow that is, once it is known.
	Flow  *FlowLabel `json:"flow,omitempty"`
	Model string     `json:"model,omitempty"`
	// Running are the executions under way, node#step; those of children come with the
	// name of the chain's first.
	Running      []string `json:"running,omitempty"`
	Waiting      []string `json:"waiting,omitempty"`
	PendingJoins []string `json:"pending_joins,omitempty"`
	// Tasks are those of Running that wait for a task which the call of a tool has become, each as "node#step tool", or for
	// a limit that all workers share.
	Tasks []string `json:"tasks,omitempty"`
	// Waits say for whom each of Waiting and PendingJoins waits.
	Waits []Wait `json:"waits,omitempty"`
	// Entry is what was decided at START, once it is decided.
	Entry *Execution `json:"entry,omitempty"`
	// Executions are the last ones, without their outputs: 1,000, with 512 KiB of answers to conditions;
	// Dropped is how many came before.
	Executions []Execution `json:"executions"`
	Dropped    int         `json:"dropped,omitempty"`
	// Conflicts are concurrent writes of one key that met at a join, the latest 256 KiB of them.
	Conflicts []Conflict `json:"conflicts,omitempty"`
	Usage     Usage      `json:"usage"`
	// Budget bounds the usage; absent: nothing does.
	Budget *Allowance `json:"budget,omitempty"`
	// Limited says what of the plan the worker's settings cut.
	Limited []string `json:"limited,omitempty"`
	// Requests are what the run waits for, in the order in which they were opened.
	Requests []Request `json:"requests,omitempty"`
	// MoreRequests counts those behind them that an answer of a query does not hold. They are
	// listed when the first ones have their answers.
	MoreRequests int `json:"more_requests,omitempty"`
	// Answered are the last requests that have their answers.
	Answered []Answered `json:"answered,omitempty"`
	// Inbox are messages that no model call has had yet, long ones shortened.
	Inbox []Inbound `json:"inbox,omitempty"`
	// Conversation are the last messages of the flow's conversation, 20 at most, shortened; the transcript has all.
	Conversation []Message `json:"conversation,omitempty"`
	// Session is set for a session, and for a run that has started some.
	Session *SessionStatus `json:"session,omitempty"`
	// Rejected counts signals that were no answer to anything; RejectionReasons says why, of the last
	// ten.
	Rejected         int      `json:"rejected,omitempty"`
	RejectionReasons []string `json:"rejection_reasons,omitempty"`
}

// Fitting is a status as the answer of a query holds it: what has no room is left out, last the requests behind the first.
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

// FlowLabel is what a flow's document says of itself, for readers.
type FlowLabel struct {
	Name string `json:"name"`
	// Version and Description are the author's, empty where there are none; long ones are
	// shortened.
	Version     string `json:"version,omitempty"`
	Description string `json:"description,omitempty"`
}

// LabelOf gives a flow's label; nil for none.
func LabelOf(f *plan.Flow) *FlowLabel {
	if f == nil {
		return nil
	}
	return &FlowLabel{Name: shorter(f.Name), Version: shorter(f.Revision), Description: shorter(f.Description)}
}

// Wait is an execution that waits for others which could still arrive at its node.
type Wait struct {
	Execution string `json:"execution"`
	// For are the executions that could still arrive, node#step; of a branch under way it is
	// the first one of its chain, of one that waits itself its own.
	For []string `json:"for"`
}

// Conflict is two concurrent writes of one key; Kept won. Value is what Dropped wrote, SHA
// names it where it is long.
type Conflict struct {
	Key     string          `json:"key"`
	Kept    Stamp           `json:"kept"`
	Dropped Stamp           `json:"dropped"`
	Value   json.RawMessage `json:"value,omitempty"`
	SHA     string          `json:"sha256,omitempty"`
}
