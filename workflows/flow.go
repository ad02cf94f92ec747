package workflows

import (
	"cmp"
	"errors"
	"fmt"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/schedule"
)

// Settings are what a worker says to the runs that start on it. Each run records them, so
// that it goes on with them on any worker.
type Settings struct {
	// MaxPayload is the largest payload in bytes that the worker's store takes; 0 means that
	// there is none.
	MaxPayload int
	// Means is what runs may spend; absent: what they like.
	BudgetLimits *contract.BudgetLimits
	// RefusePlans keeps clients from bringing plans: the worker runs the flows of its own
	// folder alone.
	RefusePlans bool
	// Webhooks are told of root runs.
	Webhooks []contract.Webhook
}

// Register makes a worker without a store run all workflow types.
func Register(w worker.WorkflowRegistry) { Settings{}.Register(w) }

// Register makes a worker run all workflow types.
func (s Settings) Register(w worker.WorkflowRegistry) {
	w.RegisterWorkflowWithOptions(s.Flow, workflow.RegisterOptions{Name: contract.WorkflowFlow})
	w.RegisterWorkflowWithOptions(s.Branch, workflow.RegisterOptions{Name: contract.WorkflowBranch})
	w.RegisterWorkflowWithOptions(Deliver, workflow.RegisterOptions{Name: contract.WorkflowWebhookDelivery})
}

// Flow runs a flow from START until nothing lives, and returns what its exit nodes gave.
//
// It fails, without retry, with a [contract.Failure] that names node, place and remedy. A
// cancelled run tells its children and ends as cancelled.
//
// Its input is a [contract.RunInput]; it is taken as it came, so that what is wrong with it
// can be said.
func (s Settings) Flow(ctx workflow.Context, raw converter.RawValue) (*contract.RunResult, error) {
	f := flowRun{run: newRun(ctx), settings: s, status: contract.StatusRunning, branches: map[*schedule.Execution]*branchRun{}}
	f.root = f.store.workflow
	in, err := read(ctx, raw)
	if err != nil {
		f.status = contract.StatusFailed
		if unknown := f.answer(ctx, f.report, f.known); unknown != nil {
			return nil, wire(unknown)
		}
		return nil, wire(err)
	}
	f.session = newSession(&f, in)
	if err := f.serve(ctx, in); err != nil {
		return nil, wire(err)
	}
	// Not before: each handler of an Update lets all coroutines go on once.
	f.listen(ctx)
	if err := f.answer(ctx, f.report, f.known); err != nil {
		return nil, wire(err)
	}
	f.resultShare = in.Room
	out, err := f.play(ctx, in)
	if err == nil {
		err = f.bringBack(ctx, "the result of the run "+f.store.workflow, out)
	}
	f.part(ctx)
	if f.inbox != nil {
		f.ending = true // an answer must not wait for a flow that does not come
		f.inbox.drain(ctx)
		if waited := f.inbox.quiet(ctx); err == nil {
			err = waited
		}
		if err == nil && !f.session.on() {
			f.inbox.drain(ctx)
			out, err = f.result() // messages may have come since
		}
	}
	f.over(ctx, out, err)
	return out, wire(f.charged(in, err))
}

// over tells others how the run ended.
func (f *flowRun) over(ctx workflow.Context, out *contract.RunResult, err error) {
	if err == nil && !f.session.conversing() {
		f.after(ctx, out, 1)
	}
	switch {
	case err == nil:
		f.publish(ctx, contract.StatusCompleted)
	case workflow.IsContinueAsNewError(err):
	case contract.Cancelled(err):
		f.publish(ctx, contract.StatusCancelled)
	default:
		f.publish(ctx, contract.StatusFailed)
	}
	f.finish(ctx, out, err)
	f.awaitDeliveries(ctx)
}

// charged is the error of a run below another with what it has spent, which the run above
// counts.
func (f *flowRun) charged(in *contract.RunInput, err error) error {
	if err == nil || in.Depth == 0 || workflow.IsContinueAsNewError(err) {
		return err
	}
	if contract.Cancelled(err) {
		return temporal.NewCanceledError(contract.Failure{Class: contract.ClassCancelled, Usage: &f.usage})
	}
	out := *contract.FailureOf(err)
	out.Usage = &f.usage
	return &out
}

// read decodes what a run is started with, and refuses what only runs may say.
func read(ctx workflow.Context, raw converter.RawValue) (*contract.RunInput, error) {
	assertReadable(ctx, raw)
	body, err := argumentOf(raw, "the run's input", `{"v": 1, "flow": …}`)
	if err != nil {
		return nil, err
	}
	in, err := contract.ReadInput(body)
	if err != nil {
		return nil, err
	}
	info := workflow.GetInfo(ctx)
	if in.Carry != nil && info.ContinuedExecutionRunID == "" && (in.Depth == 0 || info.ParentWorkflowExecution == nil) {
		return nil, &contract.Failure{Class: contract.ClassBadRequest, Text: "carry is set, but no run came before this one",
			Remedy: "leave carry to the interpreter"}
	}
	if name := foreign(in); name != "" && info.ParentWorkflowExecution == nil && info.ContinuedExecutionRunID == "" {
		return nil, &contract.Failure{Class: contract.ClassBadRequest, Text: name + " is set, but no run is above this one",
			Remedy: "leave " + name + " to the interpreter"}
	}
	return in, nil
}

// foreign names what an input has that only a run gives the runs below it, empty if nothing.
func foreign(in *contract.RunInput) string {
	switch {
	case in.Depth != 0:
		return "depth"
	case in.Owner != "":
		return "owner"
	case in.ScriptRef != nil:
		return "script_ref"
	}
	return ""
}

// flowRun is a run of a whole flow.
type flowRun struct {
	*run
	// settings are for [workflow.SideEffect] alone.
	settings Settings
	// session is what makes several turns of a run; it is off in most.
	session *session
	sched   *schedule.Scheduler
	hash    string
	// status is one of the contract's; it is changed by publish alone. public is absent in a
	// run that publishes nothing.
	status string
	ending bool
	public *contract.Publish
	// told are events that the server may not have taken yet.
	deliveries []workflow.Future
	trace      []contract.Execution
	// entry is set until the edges out of START are taken.
	entry *contract.CarriedEntry
	// rest is what a sub-agent goes on with in another run.
	rest *contract.Carry
	// answers are those at the run's entry.
	answers []contract.Answer
	// entered are the ids of the edges taken there.
	entered   []string
	conflicts []contract.Conflict
	// branches are the executions whose chains run as children.
	branches map[*schedule.Execution]*branchRun
	// sent are messages that a branch has got and may come back with unread.
	sent []dispatch
	// assigns says that messages wait for a workflow task with room for them.
	assigns bool
	// dropped counts executions that the trace no longer holds; runs, how often the run has
	// continued as new.
	dropped, runs int
}

// serve makes the run the owner of its tree's requests, unless the run above says who is.
func (f *flowRun) serve(ctx workflow.Context, in *contract.RunInput) error {
	if err := f.session.serve(ctx); err != nil {
		return err
	}
	f.shared.Owner, f.shared.OnError = in.Owner, in.OnError
	if in.Carry != nil {
		f.shared.Owner, f.shared.OnError = in.Carry.Shared.Owner, in.Carry.Shared.OnError
	}
	if f.shared.Owner != "" && f.shared.Owner != f.store.workflow {
		return nil
	}
	f.shared.Owner = f.store.workflow
	f.inbox = &inbox{r: f.run, limits: map[string]workflow.CancelFunc{}, changed: f.turned, steered: f.assign, given: f.given,
		opened: f.opened, closed: f.answered,
		ready: func() bool { return f.g != nil || f.ending }, known: func(node string) bool { return f.g == nil || f.flow.Node(node) != nil }}
	if in.Carry != nil {
		f.inbox.restore(ctx, in.Carry.Desk)
	}
	return f.inbox.serve(ctx)
}

func (f *flowRun) play(ctx workflow.Context, in *contract.RunInput) (*contract.RunResult, error) {
	f.limit = in.MaxEvents
	if in.Carry != nil && in.Carry.Plan != nil {
		f.restore(in.Carry)
		if in.Budget != nil {
			f.shared.Budget = in.Budget // others may have spent of what it had
		}
	} else if err := f.settle(ctx, in); err != nil {
		return f.handOver(ctx, err)
	}
	if err := f.session.settle(); err != nil {
		return nil, err
	}
	if err := f.revise(ctx); err != nil {
		return f.handOver(ctx, err)
	}
	if f.session.on() {
		return f.session.run(ctx)
	}
	if err := f.once(ctx); err != nil {
		return f.handOver(ctx, err)
	}
	return f.result()
}

// once runs the flow from START, or from where it stands, until nothing lives.
func (f *flowRun) once(ctx workflow.Context) error {
	if f.entry != nil {
		if err := f.enter(ctx); err != nil {
			return err
		}
	}
	return f.drive(ctx)
}

// enter takes the edges out of START.
func (f *flowRun) enter(ctx workflow.Context) error {
	first := &f.entry.View
	if k := f.log.fork; k != nil {
		f.answers, f.entered, f.entry = k.Entry.Answers, k.Entry.Taken, nil
		return f.arrive(f.edgesOf(k.Entry.Taken), first)
	}
	id := plan.Start
	if f.shared.Turn > 1 {
		id = fmt.Sprintf("%s~%d", id, f.shared.Turn) // its calls are others than those of the turn before
	}
	j := newJournal(nil, f.entry.Steps)
	taken, answers, err := f.route(ctx, source{node: plan.Start, id: id, view: first}, f.g.Starts(), j)
	if err != nil {
		if errors.Is(err, errYield) {
			steps, failed := j.snapshot()
			f.entry.Steps = steps
			return cmp.Or(failed, err)
		}
		if contract.Cancelled(err) {
			return err
		}
		fail := contract.FailureOf(err)
		if fail.At == "" {
			fail.Node, fail.At = plan.Start, f.source.At(plan.EdgePath(f.g.Starts()[0]))
		}
		return fail
	}
	f.answers, f.entered, f.entry = answers, f.edgeIDs(taken), nil
	return f.arrive(taken, first)
}

// arrive hands the edges that were taken out of START to the scheduler.
func (f *flowRun) arrive(taken []int, view *contract.View) error {
	return f.beyond(f.sched.Arrive(taken, 1, "", *view))
}

// stepLimit is the failure of a run whose next node would be beyond its last step.
func (r *run) stepLimit(flow *plan.Flow, node int, trace []contract.Execution) *contract.Failure {
	id := flow.Nodes[node].ID
	f := &contract.Failure{
		Class: contract.ClassStepLimit, Node: id, Step: flow.Limits.MaxSteps + 1, At: r.source.At(plan.NodePath(id)),
		Text:   fmt.Sprintf("the run would go beyond its limit of %d steps", flow.Limits.MaxSteps),
		Remedy: "give the loop a condition that ends it, or raise the limit (-max-steps)",
	}
	for i := max(0, len(trace)-5); i < len(trace); i++ {
		f.Answers = append(f.Answers, trace[i].Answers...)
	}
	return f
}

// known is the state of all branches together, for the query.
func (f *flowRun) known() contract.View {
	if f.sched == nil {
		return contract.View{}
	}
	return f.sched.Known()
}

// alive reports whether the run has not ended.
func (f *flowRun) alive() bool {
	return f.status == contract.StatusRunning || f.status == contract.StatusWaiting || f.status == contract.StatusIdle
}

// turned shows that requests have come or gone.
func (f *flowRun) turned(ctx workflow.Context) {
	switch {
	case !f.alive():
	case len(f.inbox.requests) > 0:
		f.publish(ctx, contract.StatusWaiting)
	case f.session.idle:
		f.publish(ctx, contract.StatusIdle)
	default:
		f.publish(ctx, contract.StatusRunning)
	}
	f.show(ctx)
}

// report answers the query status.
func (f *flowRun) report() contract.Status {
	s := contract.Status{Status: f.status, Flow: contract.LabelOf(f.flow), Model: f.shared.Model, Conflicts: f.conflicts, Usage: f.usage, Budget: (*contract.Allowance)(f.shared.Budget),
		Rejected: f.rejected, Rejects: f.rejects}
	s.Executions, s.Dropped = lean(f.trace, f.dropped)
	if f.sched != nil {
		s.Running, s.Waiting, s.Armed = f.sched.IDs(f.sched.Running()), f.sched.IDs(f.sched.Waiting()), f.sched.IDs(f.sched.Joins())
		s.Waits = f.sched.Waits()
	}
	if len(f.entered) > 0 || len(f.answers) > 0 {
		s.Entry = &contract.Execution{Node: plan.Start, Answers: f.answers, Taken: f.entered}
	}
	if f.session.on() {
		s.Session = f.session.status()
	}
	if f.inbox != nil {
		f.inbox.status(&s)
		if !f.alive() {
			s.Requests, s.MoreRequests = nil, 0 // nobody waits any more
		}
	}
	return s
}
