package workflows

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/agent"
	"weft/workflows/argument"
	"weft/workflows/inbox"
	"weft/workflows/journal"
	"weft/workflows/node"
	"weft/workflows/plan"
	"weft/workflows/prepare"
	"weft/workflows/publish"
	"weft/workflows/route"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
	"weft/workflows/session"
	"weft/workflows/wait"
)

// Settings are a worker's settings for the runs that start on it.
type Settings prepare.Settings

// Register registers all workflow types at the worker of a test or a rehearsal: without a store, with scripted models.
func Register(w worker.WorkflowRegistry) { Settings{Scripts: true}.Register(w) }

// Register registers all workflow types at a worker.
func (s Settings) Register(w worker.WorkflowRegistry) {
	w.RegisterWorkflowWithOptions(s.Flow, workflow.RegisterOptions{Name: contract.WorkflowFlow})
	w.RegisterWorkflowWithOptions(s.Branch, workflow.RegisterOptions{Name: contract.WorkflowBranch})
	w.RegisterWorkflowWithOptions(HeldResult, workflow.RegisterOptions{Name: contract.WorkflowHeldResult})
	w.RegisterWorkflowWithOptions(publish.WebhookDelivery, workflow.RegisterOptions{Name: contract.WorkflowWebhookDelivery})
}

// Flow runs a flow from START until no branch is live, and returns the results of its exit nodes.
//
// It fails, without retry, with a [contract.Failure] that holds node, position and remedy. A
// cancelled run cancels its children and ends as cancelled.
//
// Its input is a [contract.RunInput], which it decodes itself to report errors precisely.
func (s Settings) Flow(ctx workflow.Context, raw converter.RawValue) (*contract.RunResult, error) {
	f := newFlowRun(runtime.New(ctx))
	f.prep.Settings, f.pub.Status = prepare.Settings(s), contract.StatusRunning
	f.run.Root = f.run.Transcript.Workflow
	in, err := readInput(ctx, raw)
	if err != nil {
		f.pub.Status = contract.StatusFailed
		return nil, runtime.ToApplicationError(cmp.Or(f.run.Answer(ctx, f.status, f.combinedView), err))
	}
	f.session = session.New(f.run, f, in)
	f.runner = node.New(f.run, agent.Kind{Sessions: f.session.Children}, agent.ToolKind{}, nestedFlows{})
	var out *contract.RunResult
	if err = f.serve(ctx, in); err == nil {
		f.run.Requests.Listen(ctx, func(ctx workflow.Context) { out, err = f.complete(ctx, in) })
	}
	return out, runtime.ToApplicationError(err)
}

// complete runs the flow to its end, and publishes the outcome.
func (f *flowRun) complete(ctx workflow.Context, in *contract.RunInput) (*contract.RunResult, error) {
	f.run.Sizes.ResultShare, f.run.Policy.Limit = in.MaxResultBytes, in.MaxEvents
	out, err := f.execute(ctx, in)
	f.run.Requests.AwaitSignals(ctx)
	if f.inbox != nil {
		f.ending = true // answers must no longer wait for the flow to become known
		f.inbox.Drain(ctx)
		f.inbox.AwaitIdle(ctx)
		if err == nil && !f.session.On() {
			f.inbox.Drain(ctx)
			out, err = f.Result() // messages may have arrived since
		}
	}
	if err == nil && !f.session.Conversing() {
		finishHook(ctx, f.run, out, 1)
	}
	switch {
	case err == nil:
		f.pub.Publish(ctx, contract.StatusCompleted)
	case workflow.IsContinueAsNewError(err):
	case contract.Cancelled(err):
		f.pub.Publish(ctx, contract.StatusCancelled)
	default:
		f.pub.Publish(ctx, contract.StatusFailed)
		workflow.SetCurrentDetails(ctx, failureDetails(contract.FailureOf(err))+details(f))
	}
	f.pub.Finish(ctx, out, err)
	f.pub.AwaitDeliveries(ctx)
	if err == nil {
		var held *contract.HeldResult
		if held, err = f.run.Hold(ctx, out); held != nil {
			out = &contract.RunResult{Held: held}
		}
	}
	f.run.Requests.Listeners.Take() // messages received while the run did not wait
	return out, withUsage(f, in, err)
}

// withUsage adds usage and messages to the error of a child run, for its parent.
func withUsage(f *flowRun, in *contract.RunInput, err error) error {
	if err == nil || in.Depth == 0 || workflow.IsContinueAsNewError(err) {
		return err
	}
	if failed := prepare.RepairThread(f.run); failed != nil {
		return failed
	}
	out := *contract.FailureOf(err)
	out.Usage = &f.run.Budget.Usage
	if c := ownConversation(f); c != nil {
		out.Messages = c.Messages
	}
	if contract.Cancelled(err) {
		return temporal.NewCanceledError(*out.Bounded())
	}
	return &out
}

// readInput decodes the input of a run, and rejects fields that only another run may set.
func readInput(ctx workflow.Context, raw converter.RawValue) (*contract.RunInput, error) {
	argument.AssertReadable(ctx, raw)
	body, err := argument.JSON(raw, "the run's input", `{"v": 1, "flow": …}`)
	if err != nil {
		return nil, err
	}
	in, err := contract.ReadInput(body)
	if err != nil {
		return nil, err
	}
	info := workflow.GetInfo(ctx)
	root := info.ParentWorkflowExecution == nil && info.ContinuedExecutionRunID == ""
	if in.Snapshot != nil && info.ContinuedExecutionRunID == "" && (in.Depth == 0 || root) {
		return nil, contract.Failf(contract.ClassBadRequest, "remove snapshot", "snapshot is set, but the run does not continue another one")
	}
	if !root {
		return in, nil
	}
	if err := contract.CheckRunID(info.WorkflowExecution.ID); err != nil {
		return nil, contract.Failf(contract.ClassBadRequest, "start the run with another workflow id", "%v", err)
	}
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"depth", in.Depth != 0}, {"owner", in.Owner != ""}, {"first_run", in.FirstRun != ""}, {"script_ref", in.ScriptRef != nil},
		{"grant", in.Grant != nil}, {"server_sessions", len(in.ServerSessions) > 0},
	} {
		if field.set {
			return nil, contract.Failf(contract.ClassBadRequest, "remove "+field.name, "%s is set, but the run has no parent", field.name)
		}
	}
	return in, nil
}

// flowRun is a run of an entire flow.
type flowRun struct {
	run *runtime.Run
	// session runs the turns of a session; it is off in most runs.
	session *session.Session
	sched   *schedule.Scheduler
	// ending is set once the flow has ended.
	ending bool
	trace  []contract.Execution
	// entry is set until the edges out of START are taken.
	entry *contract.EntryState
	// yielded is the snapshot with which a sub-agent continues in another run.
	yielded *contract.RunSnapshot
	// answers are those to the conditions at START, entered the ids of the edges taken there.
	answers   []contract.Answer
	entered   []string
	conflicts []contract.Conflict
	branches  branches
	// stale is set if the details in the Web UI are outdated.
	stale  bool
	runner *node.Runner
	// inbox is nil if another run owns the requests of this one.
	inbox *inbox.Inbox
	// dropped counts executions that the trace no longer holds; runs counts how often the run has continued as new.
	dropped, runs int
	// nested is set if the flow runs in the run of the node that calls it.
	nested bool
	prep   prepare.Preparation
	pub    publish.Publisher
}

// serve registers queries and messages. It makes the run the owner of its tree's requests, unless its input names another owner.
func (f *flowRun) serve(ctx workflow.Context, in *contract.RunInput) error {
	if err := cmp.Or(f.run.Answer(ctx, f.status, f.combinedView), f.run.Requests.ReceiveServerRequests(ctx, in.Flow.Plan), f.session.Serve(ctx)); err != nil {
		return err
	}
	info := workflow.GetInfo(ctx)
	f.run.Shared.FirstRun = cmp.Or(in.FirstRun, info.FirstRunID, info.WorkflowExecution.RunID)
	f.run.Shared.Owner, f.run.Shared.OnError = in.Owner, in.OnError
	if in.Snapshot != nil {
		f.run.Shared.Owner, f.run.Shared.OnError = in.Snapshot.Shared.Owner, in.Snapshot.Shared.OnError
	}
	if f.run.Shared.Owner != "" && f.run.Shared.Owner != f.run.Transcript.Workflow {
		return nil
	}
	f.run.Shared.Owner = f.run.Transcript.Workflow
	f.inbox = inbox.New(f.run, f)
	f.pub.Changed = workflow.NewBufferedChannel(ctx, 1)
	f.run.Requests.Listeners.Add(func() { f.pub.List(ctx, f.inbox.Requests) }, f.pub.Changed)
	if in.Snapshot != nil {
		f.inbox.Restore(ctx, in.Snapshot.Inbox)
	}
	return f.inbox.Serve(ctx)
}

// execute runs the flow to its end, or until the run continues as new or yields.
func (f *flowRun) execute(ctx workflow.Context, in *contract.RunInput) (*contract.RunResult, error) {
	var err error
	if in.Snapshot == nil || in.Snapshot.Plan == nil {
		err = f.prepare(ctx, in)
	} else {
		f.restore(in.Snapshot)
		if in.Budget != nil || f.nested {
			f.run.Shared.Budget = in.Budget // other runs may have spent from the remaining budget
		}
	}
	if err == nil && !f.nested {
		if err = f.session.Prepare(); err == nil {
			err = revise(ctx)
		}
	}
	if err == nil && f.session.On() {
		return f.session.Play(ctx)
	}
	if err == nil {
		err = f.Turn(ctx, 1, nil)
	}
	if err != nil {
		return f.HandOver(ctx, err)
	}
	return f.Result()
}

// enter follows the edges out of START.
func (f *flowRun) enter(ctx workflow.Context) error {
	exit, err := f.evaluateEntry(ctx)
	if err != nil {
		return err
	}
	first := f.entry.View
	f.answers, f.entered, f.entry = exit.Answers, route.IDs(f.run.Flow, exit.Taken), nil
	return f.asFailure(f.sched.Arrive(exit.Taken, 1, "", first))
}

// evaluateEntry decides which edges out of START are taken. A fork takes the edges of the original run.
func (f *flowRun) evaluateEntry(ctx workflow.Context) (exit runtime.Exit, err error) {
	if k := f.run.Log.Fork; k != nil {
		return runtime.Exit{Answers: k.Entry.Answers, Taken: f.run.Graph.Edges(k.Entry.Taken)}, nil
	}
	j := journal.New(nil, f.entry.Steps)
	// The id contains the turn, so that its calls differ from those of earlier turns.
	x := &runtime.Execution{Run: f.run, Node: &plan.Node{ID: plan.Start}, ID: turnID(plan.Start, f.run.Shared.Turn), View: &f.entry.View, Journal: j, Edges: f.run.Graph.Starts}
	err = route.Leave(ctx, x, nil, "")
	if errors.Is(err, runtime.ErrYield) {
		var failed error
		f.entry.Steps, failed = j.Snapshot()
		return exit, cmp.Or(failed, err)
	}
	if fail := contract.FailureOf(err); fail != nil && !contract.Cancelled(err) && fail.At == "" {
		fail.Node, fail.At = plan.Start, f.run.Source.At(plan.EdgePath(f.run.Graph.Starts[0]))
		return exit, fail
	}
	return x.Exit, err
}

// combinedView returns the merged view of all branches, for the query.
func (f *flowRun) combinedView() contract.View { return f.sched.MergedView() }

// Opened notifies webhooks of a new request.
func (f *flowRun) Opened(ctx workflow.Context, req *contract.Request) { f.pub.Opened(ctx, req) }

// Closed notifies webhooks of an answer.
func (f *flowRun) Closed(ctx workflow.Context, a *contract.Answered) { f.pub.Closed(ctx, a) }

// Changed publishes the run's status, for example after its requests have changed.
func (f *flowRun) Changed(ctx workflow.Context) {
	if f.inbox != nil && f.pub.Alive() {
		status := contract.StatusRunning
		if f.session.Idle {
			status = contract.StatusIdle
		}
		if len(f.inbox.Requests) > 0 {
			status = contract.StatusWaiting
		}
		f.pub.Publish(ctx, status)
		f.pub.Changed.SendAsync(true) // several changes are written at once
	}
	f.updateDetails(ctx)
}

// status answers the query status.
func (f *flowRun) status() contract.Status {
	s := contract.Status{Status: f.pub.Status, Flow: contract.LabelOf(f.run.Flow), Model: f.run.Shared.Model, Conflicts: f.conflicts,
		Usage: f.run.Budget.Usage, Budget: (*contract.Allowance)(f.run.Shared.Budget), Limited: f.run.Shared.Limited,
		Rejected: f.run.Requests.Rejected, RejectionReasons: f.run.Requests.RejectionReasons, Tasks: f.run.Requests.Tasks}
	s.Executions, s.Dropped = statusTrace(slices.Concat(traces(f)...), f.dropped)
	s.Running, s.Waiting, s.PendingJoins = f.sched.IDs(f.sched.Running), f.sched.IDs(f.sched.Waiting), f.sched.IDs(f.sched.Joins)
	s.Waits = f.sched.Waits()
	for i, x := range f.sched.Running {
		if c := chainOf(f, x); c != nil {
			s.Usage.Add(c.run.Budget.Usage)
			s.Running[i] = cmp.Or(c.currentID, s.Running[i])
		}
	}
	if len(f.entered) > 0 || len(f.answers) > 0 {
		s.Entry = &contract.Execution{Node: plan.Start, Answers: f.answers, Taken: f.entered}
	}
	if t := f.run.Conversation.Thread; t != nil {
		var all []json.RawMessage
		for i := range t.Entries {
			all = append(all, t.Entries[i].Raw)
		}
		s.Conversation = contract.LastMessages(all)
	}
	if f.session.On() {
		s.Session = f.session.Status()
	}
	if f.inbox != nil {
		f.inbox.Status(&s)
		if !f.pub.Alive() {
			s.Requests, s.MoreRequests = nil, 0 // no longer pending
		}
	}
	return s
}

// newFlowRun returns a flow run that has not begun.
func newFlowRun(r *runtime.Run) *flowRun {
	f := &flowRun{run: r, prep: prepare.Preparation{Run: r}, pub: publish.Publisher{Run: r},
		sched: schedule.New(schedule.NewGraph(&plan.Flow{}))} // until the flow is known
	f.branches = branches{flow: f, byExecution: map[*schedule.Execution]*branchRun{}}
	return f
}

// prepare prepares a new run up to its entry.
func (f *flowRun) prepare(ctx workflow.Context, in *contract.RunInput) error {
	text := in.Input
	var err error
	if f.nested { // a part of a validated plan
		f.run.Hash, err = in.Flow.Plan.Hash()
	}
	if err == nil {
		err = f.prep.Prepare(ctx, in)
	}
	if err != nil {
		return err
	}
	f.sched, f.pub.Public = schedule.New(f.run.Graph), f.prep.Public
	if err := f.prep.Authorize(in); err != nil {
		return err
	}
	f.pub.Introduce(ctx, in.Session)
	if f.run.Flow.Hooks != nil || f.run.Flow.StartsSessions() {
		f.run.Shared.Scope = in.Scope
	}
	// The hook before the run may stop it or change its parameters.
	params, err := beforeHook(ctx, f.run, in.Params, text, 1, nil)
	if err == nil && params != nil {
		err = f.prep.Replace(ctx, in, params)
		f.sched = schedule.New(f.run.Graph)
	}
	if err != nil {
		return err
	}
	first, err := f.prep.Accept(in)
	if err != nil {
		return err
	}
	if err := startFork(f, in.Fork); err != nil {
		return err
	}
	f.entry = &contract.EntryState{View: *first}
	return f.prep.Connect(ctx)
}

// Begin starts the run again at START, with another input in the same conversation.
func (f *flowRun) Begin(n int, prompt *contract.Prompt) error {
	if err := prepare.RepairThread(f.run); err != nil {
		return err
	}
	view := f.combinedView()
	view.Outputs = nil
	schedule.ForgetVersions(&view)
	f.dropped += len(f.trace)
	f.trace, f.answers, f.conflicts, f.yielded = nil, nil, nil, nil
	f.sched.Reset()
	f.entry = &contract.EntryState{View: view}
	f.prep.SetInput(fmt.Sprintf("input~%d", n), prompt.Text, prompt.Media)
	return nil
}

// Turn runs the flow from START, or from where it stopped, until no branch is live. If prompt is set, it first runs the hook before
// the turn; the hook before the first turn ran when the run began.
func (f *flowRun) Turn(ctx workflow.Context, n int, prompt *contract.Prompt) error {
	if prompt != nil {
		text, err := turnHook(ctx, f.run, n, prompt.Text)
		if err != nil {
			return err
		}
		if text != prompt.Text {
			f.prep.SetInput(fmt.Sprintf("input~%d/hook", n), text, prompt.Media)
		}
	}
	if f.entry != nil {
		if err := f.enter(ctx); err != nil {
			return err
		}
	}
	err := f.drive(ctx)
	if err != nil && !errors.Is(err, runtime.ErrYield) && !workflow.IsContinueAsNewError(err) {
		f.cancelTasks(ctx)
	}
	return err
}

// Show publishes the run's status. If a turn has ended, it notifies webhooks and starts the hook after the turn.
func (f *flowRun) Show(ctx workflow.Context, ended *contract.Turn, out *contract.RunResult) {
	if ended == nil {
		f.Changed(ctx)
		return
	}
	f.pub.TurnFinished(ctx, ended, out)
	if ended.Status == contract.TurnCompleted && len(ended.Callbacks) == 0 {
		finishHook(ctx, f.run, out, ended.N)
	}
}

// revision is set by the linker in builds for a test of deployments: such an interpreter differs
// from its predecessor as a later release would, guarded by workflow.GetVersion.
var revision string

// revise is the difference of such an interpreter: a timer before a run's first node.
func revise(ctx workflow.Context) error {
	if revision == "" || workflow.GetVersion(ctx, "revision", workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return nil
	}
	return wait.Sleep(ctx, time.Millisecond, "revision")
}
