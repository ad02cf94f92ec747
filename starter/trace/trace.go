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
	// ID is the run's, Name its flow's.
	ID    string  `json:"id"`
	Name  string  `json:"name"`
	Spans []*Span `json:"spans"`
	// Missing are the ids of workflows whose histories are not kept any more.
	Missing []string `json:"-"`
	// FromHistory reports whether no worker has told of nodes that make no calls.
	FromHistory bool `json:"-"`
}

// Object is an object of the extension: an event, or a component that runs.
type Object map[string]any

// Span is a part of the run. Times are nanoseconds since 1970; the end of an open one is null.
type Span struct {
	ID          string         `json:"id"`
	Type        string         `json:"type"`
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Metadata    map[string]any `json:"metadata"`
	// ParentID is the id of the span around it, null for the first one.
	ParentID  *string  `json:"parent_id"`
	StartTime int64    `json:"start_time"`
	EndTime   *int64   `json:"end_time"`
	Events    []Object `json:"events"`
	// One of these is what runs.
	Flow           Object `json:"flow,omitempty"`
	Agent          Object `json:"agent,omitempty"`
	Swarm          Object `json:"swarm,omitempty"`
	ManagerWorkers Object `json:"managerworkers,omitempty"`
	Node           Object `json:"node,omitempty"`
	LLMConfig      Object `json:"llm_config,omitempty"`
	Tool           Object `json:"tool,omitempty"`

	// place is that of the flow, exec the execution of a node.
	place, exec string
	// runs reports whether the span is of a flow with a run of its own, inside whether a flow runs inside the run of a node,
	// as an element of a map.
	runs, inside bool
	// text is the last text that a model or a node's tool gave, submitted the last arguments by which an agent was to end.
	text, submitted string
	// returns are the values that a tool is declared to return, component identifies what runs, step is a node's.
	returns   []plan.Out
	component *plan.Component
	step      int
	// timed reports whether history has a time of the execution, ended whether it has ended as nodes do.
	timed, ended bool
	// described reports whether the nodes of a flow are.
	described bool
	// done is how it ended, inputs and outputs are its values, where that is known.
	done            *contract.Execution
	inputs, outputs Object
}

// nextBranch is the branch of nodes and flows that have one.
const nextBranch = "next"

// Masked replaces sensitive content.
const Masked = "** MASKED **"

// Options say what to export.
type Options struct {
	// Content exports prompts, answers, arguments, results, inputs, outputs and texts of errors, which are masked otherwise.
	Content bool
	// NodeRuns, if set, returns what the workers know of the executions of a flow. What they do not tell is concluded from
	// history, which has no event of a node that makes no call.
	NodeRuns func(ctx context.Context, tree *runtree.Tree, of *runtree.Workflow) ([]runs.NodeRun, error)
}

// Read builds the trace of a run from its histories and those of its descendants.
func Read(ctx context.Context, from history.Source, id, run string, o Options) (*Trace, error) {
	r := &reader{Options: o, out: &Trace{ID: id}, tree: runtree.New(id, run), byID: map[string]*Span{}, nodes: map[string][]*Span{}, spans: map[string]*Span{}, calls: map[*history.Call]*Span{}, made: map[string][]*Span{}, threads: map[string][]*contract.Message{}, profiles: map[string]*contract.Profile{}, started: map[*history.Workflow]bool{}}
	asked, threads := audit.NewReader(id), transcript.NewReader()
	// added are the entries of the conversations of flows, and the places of these.
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
		// To the node that made it, or to the flow if that was in the run that was forked.
		if s := cmp.Or(r.byID[x.place+label(x.Execution)], r.byID[flowID(x.place)]); s != nil {
			s.add("ConversationMessageAdded", x.Time, Object{"message": r.sensitive(messageOf(x.Message))})
		}
	}
	for _, q := range asked.Trail().Requests {
		r.request(q)
	}
	r.executions(ctx)
	r.raisedAround()
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
	// byID are the spans; that of a flow has the place of the flow as its id, that of a node node#step behind it.
	byID map[string]*Span
	// nodes are the executions in each flow, by its place.
	nodes map[string][]*Span
	spans map[string]*Span
	calls map[*history.Call]*Span
	// made are the spans of the calls of each node, and of the flows that it called, by the node's id.
	made map[string][]*Span
	// threads are the conversations by their names, profiles what calls of models repeat by its hash.
	threads  map[string][]*contract.Message
	profiles map[string]*contract.Profile
	// started are the workflows that are flows.
	started map[*history.Workflow]bool
}

func (r *reader) settle() {
	slices.SortStableFunc(r.out.Spans, func(a, b *Span) int {
		return cmp.Or(cmp.Compare(a.StartTime, b.StartTime), cmp.Compare(r.depth(a), r.depth(b)), cmp.Compare(a.step, b.step))
	})
	// The first event of a span begins it, the last one ends it.
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
			s.EndTime = around.EndTime // a call that was under way when its run ended
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

// sensitive is a value, or what stands for it.
func (r *reader) sensitive(v any) any {
	if !r.Content {
		return Masked
	}
	return v
}

// span returns the span of an id, and begins it if there is none.
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

// add adds an event with its attributes, and those of what runs.
func (s *Span) add(kind string, at time.Time, attributes Object) {
	e := Object{"type": kind, "name": kind, "description": "", "metadata": map[string]any{}, "timestamp": at.UnixNano()}
	maps.Copy(e, attributes)
	s.Events = append(s.Events, e)
}

// identified is a component by what the document says of it, or else by an id and a name.
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
			if s.exec == "" { // a node has the exception of its flow
				r.raised(s, e.Time, d.Failure)
			}
			r.over(s, e.Time)
		}
	case *history.CallCancelled:
		if s := r.calls[d.Call]; s != nil {
			r.over(s, e.Time)
		}
	case *history.Said:
		if strings.Contains(d.Execution, "#") {
			r.over(r.node(e.Run.Place, history.Unescape(d.Execution), e.Time), e.Time)
		}
	}
}

// over notes that a span is over, and that what it is in was under way until then: all but flows with an end of their own.
func (r *reader) over(s *Span, at time.Time) {
	for s.end(at); s.ParentID != nil; {
		if s = r.spans[*s.ParentID]; s.exec == "" && !s.inside {
			return
		}
		s.end(at)
	}
}

func flowID(place string) string { return strings.TrimSuffix(place, " › ") }

// flow begins the span of a flow, inside that of the node that called it.
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
		r.made[parent] = append(r.made[parent], s)
		if s.runs = in != nil; s.runs {
			s.inputs = values("input", &in.Input, in.Params)
		}
	}
}

// label is an execution of a node as spans have it.
func label(exec string) string {
	x, member := executionOf(exec)
	return history.Label(x) + plaintext.If(member != "", ":%s", member)
}

// node returns the span of an execution of a node, with a time at which it was under way, or without one.
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
		s.step = s.of().Step
		r.nodes[place] = append(r.nodes[place], s)
	case !at.IsZero() && (!s.timed || n < s.StartTime): // a person was asked before the first call
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
		return // of a branch, or of a run that continues as another
	}
	r.over(s, e.Time)
	switch {
	case d.Failure != nil:
		r.raised(s, e.Time, d.Failure)
		if node := r.failed(e.Run.Place, history.FailureOf(d.Failure), e.Time); node != nil {
			r.over(node, e.Time)
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

// values are what a node or flow is given, or gives: values by their names, or one value or text under a name.
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
