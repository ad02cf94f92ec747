// Package trace converts a run's history to a trace of Agent Spec Tracing, the extension of Open Agent Spec.
//
// The extension defines the types of spans and events, their attributes, and which of these are sensitive, but no file format
// for traces. Here a trace is one object with all spans in the order in which they started, each with the id of its parent span.
//
// Start at [Read].
package trace

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"

	"weft/activities/contract"
	"weft/starter/audit"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/starter/runs"
	"weft/starter/runtree"
	"weft/starter/transcript"
	"weft/workflows/plan"
)

// Trace is a run's trace.
type Trace struct {
	// ID is the run's id, Name the flow's name.
	ID    string  `json:"id"`
	Name  string  `json:"name"`
	Spans []*Span `json:"spans"`
	// Missing are the ids of workflows whose histories are no longer retained.
	Missing []string `json:"-"`
	// FromHistory reports that no worker answered: nodes that make no calls may be missing.
	FromHistory bool `json:"-"`
}

// Object is an object of the extension: an event, or a component.
type Object map[string]any

// Span is a part of the run. Times are nanoseconds since 1970; the end of an open one is null.
type Span struct {
	ID          string         `json:"id"`
	Type        string         `json:"type"`
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Metadata    map[string]any `json:"metadata"`
	// ParentID is the id of the enclosing span, null for the first one.
	ParentID  *string  `json:"parent_id"`
	StartTime int64    `json:"start_time"`
	EndTime   *int64   `json:"end_time"`
	Events    []Object `json:"events"`
	// One of these is the component that runs.
	Flow           Object `json:"flow,omitempty"`
	Agent          Object `json:"agent,omitempty"`
	Swarm          Object `json:"swarm,omitempty"`
	ManagerWorkers Object `json:"managerworkers,omitempty"`
	Node           Object `json:"node,omitempty"`
	LLMConfig      Object `json:"llm_config,omitempty"`
	Tool           Object `json:"tool,omitempty"`

	// place is the place of the flow, exec the execution of a node.
	place, exec string
	// runs reports whether the span is of a flow with its own run, inside whether it is of a flow that runs inside a node's run,
	// as an element of a map.
	runs, inside bool
	// text is the last text of a model or a node's tool, submitted the last arguments with which an agent submitted its output.
	text, submitted string
	// returns are the declared outputs of a tool, component identifies the component that runs, step is the step of a node.
	returns   []plan.Out
	component *plan.Component
	step      int
	// timed reports whether history has a time of the execution, ended whether it has ended.
	timed, ended bool
	// described reports whether the nodes of a flow have been described.
	described bool
	// done is how it ended, inputs and outputs are its values, if known.
	done            *contract.Execution
	inputs, outputs Object
}

// nextBranch is the branch of nodes and flows with a single branch.
const nextBranch = "next"

// Masked replaces sensitive content.
const Masked = "** MASKED **"

// Options set what to export.
type Options struct {
	// Content exports prompts, answers, arguments, results, inputs, outputs and error texts, which are masked otherwise.
	Content bool
	// NodeRuns, if set, queries the workers for the executions of a flow. Without an answer, executions are inferred from
	// history, which has no events of nodes that make no calls.
	NodeRuns func(ctx context.Context, tree *runtree.Tree, of *runtree.Workflow) ([]runs.NodeRun, error)
}

// Read builds the trace of a run from its histories and those of its descendants.
func Read(ctx context.Context, from history.Source, id, run string, o Options) (*Trace, error) {
	r := &reader{Options: o, out: &Trace{ID: id}, tree: runtree.New(id, run), byID: map[string]*Span{}, nodes: map[string][]*Span{}, spans: map[string]*Span{}, calls: map[*history.Call]*Span{}, nodeCalls: map[string][]*Span{}, threads: map[string][]*contract.Message{}, profiles: map[string]*contract.Profile{}, started: map[*history.Workflow]bool{}}
	asked, threads := audit.NewReader(id), transcript.NewReader()
	// added are the entries of flows' conversations, with their places.
	type entry struct {
		transcript.Entry
		place string
	}
	var events []history.Event
	var added []entry
	for e, err := range history.Read(ctx, from, id, run) {
		if w := e.Run.Workflow; err == nil && (w.Root || w.Within != nil && w.Within.Root) {
			err = asked.Add(&e)
		}
		if err != nil {
			return nil, err
		}
		r.tree.Add(&e)
		for _, x := range threads.Add(&e) {
			added = append(added, entry{x, e.Run.Place})
		}
		events = append(events, e)
	}
	for _, t := range threads.Threads() {
		r.threads[t.Thread] = t.Messages
	}
	for i := range events {
		r.event(&events[i])
	}
	for _, x := range added {
		// Add it to the node that added it, or to the flow if the node ran in the forked run.
		if s := cmp.Or(r.byID[x.place+label(x.Execution)], r.byID[flowID(x.place)]); s != nil {
			s.add("ConversationMessageAdded", x.Time, Object{"message": r.sensitive(messageOf(x.Message))})
		}
	}
	for _, q := range asked.Trail().Requests {
		r.request(q)
	}
	r.executions(ctx)
	r.propagateExceptions()
	r.settle()
	r.out.Missing = r.tree.Missing
	if f := r.tree.Root().Flow; f != nil {
		r.out.Name = f.Name
	}
	return r.out, nil
}

type reader struct {
	Options
	out  *Trace
	tree *runtree.Tree
	// byID holds the spans by id: the place of a flow, and for a node the place and node#step.
	byID map[string]*Span
	// nodes are the executions in each flow, by its place.
	nodes map[string][]*Span
	spans map[string]*Span
	calls map[*history.Call]*Span
	// nodeCalls are the spans of the calls and called flows of each node, by the node's id.
	nodeCalls map[string][]*Span
	// threads are the conversations by name, profiles the model profiles by hash.
	threads  map[string][]*contract.Message
	profiles map[string]*contract.Profile
	// started are the workflows that are flows.
	started map[*history.Workflow]bool
}

func (r *reader) settle() {
	slices.SortStableFunc(r.out.Spans, func(a, b *Span) int {
		return cmp.Or(cmp.Compare(a.StartTime, b.StartTime), cmp.Compare(r.depth(a), r.depth(b)), cmp.Compare(a.step, b.step))
	})
	// The start event of a span is its first event, the end event its last.
	rank := func(e Object) int {
		switch kind := e["type"].(string); {
		case strings.HasSuffix(kind, "ExecutionStart"):
			return -1
		case strings.HasSuffix(kind, "ExecutionEnd"):
			return 1
		}
		return 0
	}
	for _, s := range r.out.Spans {
		for around := s; s.EndTime == nil && !s.runs && around.ParentID != nil; {
			around = r.spans[*around.ParentID]
			s.EndTime = around.EndTime // a call that was in flight when its run ended
		}
		slices.SortStableFunc(s.Events, func(a, b Object) int {
			return cmp.Or(cmp.Compare(a["timestamp"].(int64), b["timestamp"].(int64)), cmp.Compare(rank(a), rank(b)))
		})
		for i, e := range s.Events {
			e["id"] = fmt.Sprintf("%s/%d", s.ID, i)
		}
	}
}

func (r *reader) depth(s *Span) int {
	n := 0
	for ; s.ParentID != nil; n++ {
		s = r.spans[*s.ParentID]
	}
	return n
}

// sensitive returns a value, masked unless content is exported.
func (r *reader) sensitive(v any) any {
	if !r.Content {
		return Masked
	}
	return v
}

// span returns the span with an id, and begins it if it does not exist.
func (r *reader) span(kind, id, parent, name string, at time.Time) (s *Span, isNew bool) {
	if s = r.byID[id]; s != nil {
		return s, false
	}
	s = &Span{ID: cmp.Or(id, r.out.ID), Type: kind, Name: name, Metadata: map[string]any{}, StartTime: at.UnixNano(), Events: []Object{}}
	if id != "" {
		around := cmp.Or(parent, r.out.ID)
		s.ParentID = &around
	}
	r.byID[id], r.spans[s.ID] = s, s
	r.out.Spans = append(r.out.Spans, s)
	return s, true
}

func (s *Span) end(at time.Time) {
	if n := at.UnixNano(); s.EndTime == nil || *s.EndTime < n {
		s.EndTime = &n
	}
}

// add adds an event with its attributes and the component that runs.
func (s *Span) add(kind string, at time.Time, attributes Object) {
	e := Object{"type": kind, "name": kind, "description": "", "metadata": map[string]any{}, "timestamp": at.UnixNano()}
	maps.Copy(e, attributes)
	s.Events = append(s.Events, e)
}

// identified returns a component with the fields of the document, or else with an id and a name.
func identified(kind string, c *plan.Component, id, name string) Object {
	if c == nil {
		return component(kind, id, name, "")
	}
	return component(kind, cmp.Or(c.ID, id), c.Name, c.Description)
}

func component(kind, id, name, description string) Object {
	return Object{"component_type": kind, "id": id, "name": name, "description": description, "metadata": map[string]any{}}
}

func (r *reader) event(e *history.Event) {
	switch d := e.Data.(type) {
	case *history.Started:
		if d.Type == contract.WorkflowFlow {
			r.started[e.Run.Workflow] = true
			r.flow(e.Run.Place, e.Time, d.Input)
		}
	case *history.Ended:
		r.ended(e, d)
	case *history.CallScheduled:
		r.scheduled(e, d.Call)
	case *history.CallCompleted:
		r.completed(e.Time, d)
	case *history.CallFailed:
		if s := r.calls[d.Call]; s != nil {
			if s.exec == "" { // a node gets the exception of its flow
				r.raised(s, e.Time, d.Failure)
			}
			r.endSpan(s, e.Time)
		}
	case *history.CallCancelled:
		if s := r.calls[d.Call]; s != nil {
			r.endSpan(s, e.Time)
		}
	case *history.MessagesRecorded:
		if strings.Contains(d.Execution, "#") {
			r.endSpan(r.node(e.Run.Place, history.Unescape(d.Execution), e.Time), e.Time)
		}
	}
}

// endSpan ends a span, and extends the enclosing spans to that time, except for flows with their own end.
func (r *reader) endSpan(s *Span, at time.Time) {
	for s.end(at); s.ParentID != nil; {
		if s = r.spans[*s.ParentID]; s.exec == "" && !s.inside {
			return
		}
		s.end(at)
	}
}

func flowID(place string) string { return strings.TrimSuffix(place, " › ") }

// flow begins the span of a flow, inside the span of the node that called it.
func (r *reader) flow(place string, at time.Time, in *contract.RunInput) {
	id := flowID(place)
	parent := ""
	if id != "" {
		around, call, _ := history.CutLast(id, " › ")
		if call == "" {
			around, call = "", id
		} else {
			around += " › "
		}
		exec, _, _ := history.CutLast(call, ":")
		parent = r.node(around, exec, at).ID
	}
	s, isNew := r.span("FlowExecutionSpan", id, parent, "FlowExecution", at)
	if isNew {
		r.nodeCalls[parent] = append(r.nodeCalls[parent], s)
		if s.runs = in != nil; s.runs {
			s.inputs = values("input", &in.Input, in.Params)
		}
	}
}

// label formats an execution of a node for spans.
func label(exec string) string {
	x, member := executionOf(exec)
	return history.Label(x) + plaintext.If(member != "", ":%s", member)
}

// node returns the span of an execution of a node, extended to a time at which it was active unless at is zero.
func (r *reader) node(place, exec string, at time.Time) *Span {
	exec = label(exec)
	if flow := flowID(place); r.byID[flow] == nil {
		r.flow(place, at, nil)
		r.byID[flow].inside = flow != ""
	}
	s, isNew := r.span("NodeExecutionSpan", place+exec, flowID(place), "NodeExecution", at)
	switch n := at.UnixNano(); {
	case isNew:
		s.place, s.exec = place, exec
		s.step = s.execution().Step
		r.nodes[place] = append(r.nodes[place], s)
	case !at.IsZero() && (!s.timed || n < s.StartTime): // a request preceded the first call
		s.StartTime = n
	}
	s.timed = s.timed || !at.IsZero()
	return s
}

func (r *reader) plan(place string) *plan.Flow {
	for _, w := range r.tree.Workflows {
		if w.Place == place && !w.Branch {
			return w.Flow
		}
	}
	return nil
}

func (r *reader) ended(e *history.Event, d *history.Ended) {
	s := r.byID[flowID(e.Run.Place)]
	if s == nil || !e.Run.Root && !r.started[e.Run.Workflow] || d.ContinuedAs != "" {
		return // a branch, or a run that continued as new
	}
	r.endSpan(s, e.Time)
	switch {
	case d.Failure != nil:
		r.raised(s, e.Time, d.Failure)
		if node := r.failed(e.Run.Place, history.FailureOf(d.Failure), e.Time); node != nil {
			r.endSpan(node, e.Time)
			r.raised(node, e.Time, d.Failure)
		}
	case d.Status == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED && d.Result != nil:
		s.ended = true
		for _, x := range d.Result.ExitOutputs {
			done := contract.Execution{Node: x.Node, Step: x.Step, Text: &x.Text, Data: x.Data}
			r.node(e.Run.Place, history.Label(done), time.Time{}).done = &done
		}
		s.outputs = values("output", d.Result.ResultText, d.Result.ResultData)
		s.done = &contract.Execution{Node: d.Result.ResultNode}
	}
}

// values returns inputs or outputs of a node or flow: values by name, or a single value or text with the given name.
func values(name string, text *string, data json.RawMessage) Object {
	var members map[string]json.RawMessage
	switch {
	case len(data) > 0 && json.Unmarshal(data, &members) == nil && members != nil:
		return objectOf(members)
	case len(data) > 0:
		return Object{name: data}
	case text != nil:
		return Object{name: *text}
	}
	return Object{}
}

func (r *reader) raised(s *Span, at time.Time, f *failurepb.Failure) {
	kind := cmp.Or(f.GetApplicationFailureInfo().GetType(), "error")
	for cause := f.GetCause(); cause != nil; cause = cause.GetCause() {
		kind = cmp.Or(cause.GetApplicationFailureInfo().GetType(), kind)
	}
	s.add("ExceptionRaised", at, Object{"exception_type": kind, "exception_message": r.sensitive(history.FailureText(f)), "exception_stacktrace": nil})
}
