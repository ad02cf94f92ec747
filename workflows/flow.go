package workflows

import (
	"encoding/json"
	"fmt"
	"strings"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// Register makes a worker run both workflow types.
func Register(w worker.WorkflowRegistry) {
	w.RegisterWorkflowWithOptions(Flow, workflow.RegisterOptions{Name: contract.WorkflowFlow})
	w.RegisterWorkflowWithOptions(Branch, workflow.RegisterOptions{Name: contract.WorkflowBranch})
}

// Flow runs a flow from START until nothing lives, and returns what its exit nodes gave.
//
// It fails, without retry, with a [contract.Failure] that names node, place and remedy. A
// cancelled run tells its children and ends as cancelled.
//
// Its input is a [contract.RunInput]; it is taken as it came, so that what is wrong with it
// can be said.
func Flow(ctx workflow.Context, raw json.RawMessage) (*contract.RunResult, error) {
	in, err := contract.ReadInput(raw)
	if err != nil {
		return nil, wire(err)
	}
	if in.Carry != nil && workflow.GetInfo(ctx).ContinuedExecutionRunID == "" {
		return nil, (&contract.Failure{Class: contract.ClassBadRequest, Text: "carry is set, but no run came before this one",
			Remedy: "leave carry to the interpreter"}).Wire()
	}
	f := flowRun{run: newRun(ctx), status: "running"}
	f.root = f.store.workflow
	if err := f.answer(ctx, f.report, f.known); err != nil {
		return nil, wire(err)
	}
	out, err := f.play(ctx, in)
	switch {
	case err == nil:
		f.status = "completed"
	case workflow.IsContinueAsNewError(err):
	case contract.Cancelled(err):
		f.status = "cancelled"
	default:
		f.status = "failed"
	}
	return out, wire(err)
}

// flowRun is a run of a whole flow.
type flowRun struct {
	*run
	sched  *scheduler
	hash   string
	status string
	trace  []contract.Execution
	// answers are those at the run's entry.
	answers   []contract.Answer
	conflicts []contract.Conflict
	// ended are the views of branches that have ended.
	ended []arrival
	// dropped counts executions that the trace no longer holds; runs, how often the run has
	// continued as new.
	dropped, runs int
}

func (f *flowRun) play(ctx workflow.Context, in *contract.RunInput) (*contract.RunResult, error) {
	f.pace = newPace(ctx, in.MaxEvents)
	if in.Carry != nil {
		f.restore(in.Carry)
		if err := f.drive(ctx); err != nil {
			return nil, err
		}
		return f.result()
	}
	if err := f.prepare(ctx, in); err != nil {
		return nil, err
	}
	if err := f.inputs(in); err != nil {
		return nil, err
	}
	first, err := f.accept(in)
	if err != nil {
		return nil, err
	}
	if err := f.connect(ctx); err != nil {
		return nil, err
	}
	if err := f.enter(ctx, first); err != nil {
		return nil, err
	}
	if err := f.drive(ctx); err != nil {
		return nil, err
	}
	return f.result()
}

// prepare settles plan and model. Where the input has both, no activity is needed.
func (f *flowRun) prepare(ctx workflow.Context, in *contract.RunInput) error {
	if in.V != contract.Version {
		return &contract.Failure{Class: contract.ClassBadRequest, Text: fmt.Sprintf("the input's v is %d", in.V),
			Remedy: fmt.Sprintf("this build understands v %d", contract.Version)}
	}
	f.flow, f.shared.Model, f.shared.Depth = in.Flow.Plan, in.Model, in.Depth
	if in.Flow.Source != nil {
		f.source = *in.Flow.Source
	}
	if f.flow == nil || f.shared.Model == "" {
		actx := workflow.WithActivityOptions(ctx, prepareOptions)
		var out contract.PrepareResult
		request := contract.PrepareInput{Flow: in.Flow, Model: in.Model}
		if f.flow != nil {
			request.Flow = contract.FlowRef{}
		}
		if err := f.guard.admit(ctx, "the document", request); err != nil {
			return err
		}
		if err := workflow.ExecuteActivity(actx, contract.ActivityPrepare, request).Get(ctx, &out); err != nil {
			return err
		}
		if f.flow == nil {
			f.flow, f.source, f.hash = out.Plan, out.Source, out.Hash
		}
		f.shared.Model = out.Model
	}
	return f.check(ctx)
}

// check refuses a plan that the interpreter cannot run. The verdict is recorded, so that a
// stricter check in a later build cannot fail a run that has started.
func (f *flowRun) check(ctx workflow.Context) error {
	var problems []string
	if f.hash == "" {
		verdict := workflow.SideEffect(ctx, func(workflow.Context) any {
			if f.flow == nil {
				return []string{"there is no plan"}
			}
			return f.flow.Check()
		})
		if err := verdict.Get(&problems); err != nil {
			return err
		}
	}
	if len(problems) > 0 {
		class := contract.ClassInvalidFlow
		if f.flow != nil && f.flow.Version > plan.Version {
			class = contract.ClassPlanVersion
		}
		return &contract.Failure{Class: class, Text: strings.Join(problems, "; "), Diagnostics: problems,
			Remedy: "make the plan with the starter or the adapter of this build"}
	}
	if f.hash == "" {
		hash, err := f.flow.Hash()
		if err != nil {
			return err
		}
		f.hash = hash
	}
	own := *f.flow
	f.flow, f.g = &own, newGraph(&own)
	f.sched = newScheduler(f.g)
	return nil
}

// inputs refuses params that the flow does not declare.
func (f *flowRun) inputs(in *contract.RunInput) error {
	if p := string(in.Params); p == "" || p == "null" {
		return nil
	}
	return &contract.Failure{Class: contract.ClassBadRequest,
		Text:   fmt.Sprintf("the run brings params, but the flow %q, of the dialect %s, declares no inputs", f.flow.Name, f.flow.Dialect),
		Remedy: "give the text with input, and values for the nodes with state"}
}

// maxInline is the size up to which something that history has already is sent again, so
// that it can be seen where it is used and no worker has to ask for it.
const maxInline = 1 << 10

// accept stores what the run was given, and makes the view with which it begins.
func (f *flowRun) accept(in *contract.RunInput) (*contract.View, error) {
	if in.MaxSteps > 0 {
		f.flow.Limits.MaxSteps = in.MaxSteps
	}
	var own []plan.Connection
	for i := range in.DataConnections {
		c, err := in.DataConnections[i].Connection()
		if err != nil {
			return nil, &contract.Failure{Class: contract.ClassBadRequest, Text: err.Error(), Remedy: "correct the run's input"}
		}
		own = append(own, c)
	}
	f.flow.Connections = append(own, f.flow.Connections...)
	text := in.Input
	if text == "" {
		text = "(no input was given)"
	}
	var err error
	if f.shared.Input, err = f.store.write(f.store.open("input"), &contract.Message{Role: contract.RoleUser, Text: text}); err != nil {
		return nil, err
	}
	f.shared.MaxEvents = in.MaxEvents
	if len(text) <= maxInline {
		f.shared.Text = text
	}
	if len(in.History) > 0 {
		raw, err := json.Marshal(in.History)
		if err != nil {
			return nil, err
		}
		chat, err := f.store.write(f.store.open("chat"), &contract.Message{Role: contract.RoleUser, Text: string(raw)})
		if err != nil {
			return nil, err
		}
		f.shared.Chat = &chat
	}
	f.shared.Script = in.ScriptRef
	if len(in.Script) > 0 {
		ref := f.store.keep(in.Script)
		f.shared.Script = &ref
	}
	first := &contract.View{}
	for _, key := range workflow.DeterministicKeys(in.State) {
		if d := contract.Depth(in.State[key]); d > maxDepth {
			return nil, &contract.Failure{Class: contract.ClassBadRequest, Text: fmt.Sprintf("the input's state key %q nests %d deep, at most %d are stored", key, d, maxDepth)}
		}
		e, err := f.store.value(key, in.State[key], contract.Stamp{Exec: plan.Start})
		if err != nil {
			return nil, err
		}
		set(first, e)
	}
	if n, limit := stateBytes(first), f.flow.Limits.MaxStateBytes; n > limit {
		return nil, &contract.Failure{Class: contract.ClassTooLarge, Text: fmt.Sprintf("the input's state holds %d bytes, at most %d are allowed", n, limit)}
	}
	return first, nil
}

// enter takes the edges out of START.
func (f *flowRun) enter(ctx workflow.Context, first *contract.View) error {
	taken, answers, err := f.route(ctx, source{node: plan.Start, id: plan.Start, view: first}, f.g.starts)
	if err != nil {
		if contract.Cancelled(err) {
			return err
		}
		fail := contract.FailureOf(err)
		if fail.At == "" {
			fail.Node, fail.At = plan.Start, f.source.At(plan.EdgePath(f.g.starts[0]))
		}
		return fail
	}
	f.answers = answers
	return f.arrive(taken, 1, "", first)
}

// arrive hands taken edges to the scheduler.
func (f *flowRun) arrive(taken []int, n int, lineage string, view *contract.View) error {
	if node := f.sched.arrive(taken, n, f.flow.Limits.MaxSteps, lineage, *view); node >= 0 {
		return f.stepLimit(f.flow, node, f.trace)
	}
	return nil
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
	all := append([]arrival{}, f.ended...)
	if f.sched != nil {
		for _, list := range [][]*execution{f.sched.running, f.sched.pending, f.sched.armed} {
			for _, x := range list {
				all = append(all, x.arrivals...)
			}
		}
	}
	if len(all) == 0 {
		return contract.View{}
	}
	v, _ := join(all)
	return v
}

// report answers the query status.
func (f *flowRun) report() contract.Status {
	s := contract.Status{Status: f.status, Model: f.shared.Model, Conflicts: f.conflicts, Usage: f.usage}
	s.Executions, s.Dropped = lean(f.trace, f.dropped)
	if f.sched != nil {
		s.Running, s.Waiting, s.Armed = f.sched.names()
	}
	return s
}
