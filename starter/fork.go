package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/starter/compare"
	"weft/starter/history"
	"weft/starter/impact"
	"weft/starter/plaintext"
	"weft/starter/runtree"
	"weft/starter/why"
	"weft/worker/config"
	"weft/workflows/plan"
)

// fork starts a run that goes on from a node of another: what came before it is taken from
// there, and is not run again.
func (a *app) fork(ctx context.Context, args []string) error {
	if a.flags.from == "" {
		return bad("missing -from; usage: starter fork ID -from NODE")
	}
	if err := checkID(a.flags.id); err != nil {
		return err
	}
	if err := a.flags.checkPair(); err != nil {
		return err
	}
	set, err := a.readSet()
	if err != nil {
		return err
	}
	temporal, about, err := a.find(ctx, args[0])
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	old, err := runtree.Read(ctx, history.From(temporal.Client), args[0], about.run)
	if err != nil {
		return err
	}
	in, err := a.forkInput(ctx, temporal, about, old, set)
	if err != nil {
		return err
	}
	id, queue := cmp.Or(a.flags.id, newID(in.Flow.Plan.Name)), cmp.Or(a.flags.taskQueue, about.queue)
	run, err := launch(ctx, temporal, client.StartWorkflowOptions{ID: id, TaskQueue: queue, Priority: a.flags.inheritedPriority(about.shares), WorkflowExecutionErrorWhenAlreadyStarted: true,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL}, in)
	var open *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &open) {
		return bad("a run with the id %q is already open; choose another -id", id)
	}
	if err != nil {
		return fmt.Errorf("start the run %q: %w", id, err)
	}
	if k := in.Fork; k != nil {
		a.say("fork: %s continues from %s#%d of %s with %d recorded executions", id, plaintext.Line(k.Node, 200), k.Step, args[0], len(k.Past))
	} else {
		a.say("fork: %s restarts %s with the same input", id, args[0])
	}
	if a.flags.detach {
		a.detached(id)
		return nil
	}
	return a.followFork(ctx, temporal, args[0], run, queue)
}

// followFork follows a fork to its end, and shows it beside the run from which it came.
func (a *app) followFork(ctx context.Context, temporal *config.Temporal, old string, run client.WorkflowRun, queue string) error {
	f := a.newFollower(temporal, run.GetID(), run.GetRunID(), queue)
	ended := f.toTheEnd(ctx)
	var code coded
	if errors.As(ended, &code) && code == exitDetached {
		return ended
	}
	if table, err := a.besides(ctx, temporal, old, run.GetID()); err == nil && !a.flags.asJSON() {
		fmt.Fprint(a.mask.Writer(a.stderr), compare.Text(table))
	} else {
		a.say("compare them with: starter compare %s %s", plaintext.ShellQuote(old), plaintext.ShellQuote(run.GetID()))
	}
	return ended
}

// checkID refuses what cannot be a workflow's id.
func checkID(id string) error {
	if i := strings.IndexFunc(id, func(r rune) bool { return r < ' ' || r > '~' }); i >= 0 || len(id) > maxID {
		return bad("-id %.100q cannot be an id: want printable ASCII, at most %d bytes", id, maxID)
	}
	return nil
}

// readSet reads the values that the node is to see.
func (a *app) readSet() (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	for _, text := range a.flags.sets {
		p, err := readPair("-set", text)
		switch {
		case err != nil:
			return nil, err
		case out[p.key] != nil:
			return nil, bad("-set sets %q twice; remove one of them", p.key)
		case contract.Reserved(p.key):
			return nil, bad("-set names %q; keys that begin with $ are the flow's own", p.key)
		}
		out[p.key] = p.raw
	}
	return out, nil
}

// forkInput is what the new run is started with: what the old one was, with what is changed.
func (a *app) forkInput(ctx context.Context, t *config.Temporal, about about, old *runtree.Tree, set map[string]json.RawMessage) (*contract.RunInput, error) {
	root := old.Workflows[0]
	switch {
	case root.Branch || root.Input != nil && root.Input.Depth > 0:
		return nil, bad("%q belongs to another run; fork that run at the node that started it", root.ID)
	case root.Input == nil || root.Flow == nil:
		return nil, bad("the run %q cannot be forked: its first history is gone, or it never had a plan", root.ID)
	}
	in, err := a.changed(root)
	if err != nil {
		return nil, err
	}
	at, err := a.forkPoint(ctx, t, about, old)
	if err != nil {
		return nil, err
	}
	past, err := pastOf(ctx, t, about, old)
	if err != nil {
		return nil, err
	}
	again := behind(at, root.Flow, in.Flow.Plan)
	past = slices.DeleteFunc(past, func(p pastIn) bool { return again(&p.Execution) })
	if err := a.holds(root, in.Flow.Plan, at, past); err != nil {
		return nil, err
	}
	replaced, content, err := a.instead(in.Flow.Plan, past, at)
	if err != nil {
		return nil, err
	}
	if in.Session || in.Flow.Plan.StartsSessions() {
		return in, wholeTurn(root.ID, at, len(past), len(set))
	}
	in.Fork = &contract.ForkedFrom{From: contract.Run{Workflow: root.ID, Run: root.RunID}, Node: at.Node, Step: at.Step, Set: set, Replaced: replaced, Content: content}
	if in.Fork.Entry, err = a.entry(ctx, t, about, root, in.Flow.Plan); err != nil {
		return nil, err
	}
	if err := fillFork(ctx, t, about, in.Fork, past); err != nil {
		return nil, err
	}
	return in, fits(root.ID, at, in)
}

// entry is what was decided at START, by the edges of the flow that goes on.
func (a *app) entry(ctx context.Context, t *config.Temporal, about about, root *runtree.Workflow, flow *plan.Flow) (contract.Execution, error) {
	out, err := entryOf(ctx, t, about, root)
	if err != nil {
		return out, err
	}
	taken, missing := impact.KeptEdges(root.Flow, flow, out.Taken)
	if missing != "" {
		return out, bad("%s has no edge %q, by which the run came from START; keep it, or start the flow again", a.flags.flow, missing)
	}
	out.Taken = taken
	return out, nil
}

// fits refuses what is too large for the input of a run.
func fits(id string, at contract.Execution, in *contract.RunInput) error {
	encoded, err := json.Marshal(in)
	if err != nil {
		return bad("encode the run's input: %v", err)
	}
	if len(encoded) > maxInput {
		return bad("the run %q cannot be forked at %s: what comes before it is %d bytes, at most %d can be carried over; fork at an earlier node",
			id, history.Label(at), len(encoded), maxInput)
	}
	return nil
}

// wholeTurn refuses a fork of a run that takes turns, where it is not of its beginning: what its
// sessions below know cannot be taken along. From its beginning it is a start like any other.
func wholeTurn(id string, at contract.Execution, past, set int) error {
	switch {
	case past > 0 || at.Step > 1:
		return bad("the run %q takes turns, and what its sessions know cannot be taken into another run at %s; fork it at %s#1, its beginning, or send it another prompt", id, history.Label(at), at.Node)
	case set > 0:
		return bad("-set needs a fork behind the first node; %q is restarted with its own input: remove it", id)
	}
	return nil
}

// changed is the old run's input with the flow, model and script that are asked for.
func (a *app) changed(root *runtree.Workflow) (*contract.RunInput, error) {
	in := *root.Input
	in.Fork, in.Components, in.ComponentIDs = nil, nil, nil
	switch {
	case a.flags.flow != "":
		cfg, err := a.load()
		if err != nil {
			return nil, err
		}
		res, err := a.compile(cfg, a.flags.flow, true)
		if err != nil {
			return nil, err
		}
		in.Flow = contract.FlowRef{Plan: res.Flow, Source: &res.Source}
	case in.Flow.Plan == nil && root.Compiled != nil:
		in.Flow = contract.FlowRef{Plan: root.Compiled.Plan, Source: &root.Compiled.Source}
	case in.Flow.Plan == nil:
		return nil, bad("the run %q cannot be forked: its flow never compiled", root.ID)
	}
	if a.flags.maxSteps > 0 {
		in.MaxSteps = a.flags.maxSteps
	}
	return &in, a.remodel(&in, root)
}

// remodel puts the script and the model that are asked for into a run's input.
func (a *app) remodel(in *contract.RunInput, root *runtree.Workflow) error {
	in.Model = cmp.Or(in.Model, root.Model) // a worker's default may be another by now
	script, err := a.readScript()
	if err != nil {
		return err
	}
	if script != nil {
		in.Script = script
	}
	if a.flags.model == "" && script == nil {
		return nil
	}
	model, err := a.chooseModel()
	in.Model = cmp.Or(model, in.Model)
	return err
}

// forkPoint finds the execution that is to run anew.
func (a *app) forkPoint(ctx context.Context, t *config.Temporal, about about, old *runtree.Tree) (contract.Execution, error) {
	var none contract.Execution
	all, err := a.facts(ctx, t, about, old)
	if err != nil {
		return none, err
	}
	found, err := chosen(all, a.flags.from)
	if err != nil {
		return none, err
	}
	if found[0].Workflow != old.Workflows[0] {
		return none, bad("the node %q belongs to the sub-agent at %s; fork at the node that called it", a.flags.from, strings.TrimSuffix(found[0].Workflow.Place, " › "))
	}
	want := history.ExecutionOf(a.flags.from)
	var labels []string
	for _, n := range found[0].Report().Nodes {
		for _, x := range n.Executions {
			joins := slices.ContainsFunc(x.Waits, func(w why.Wait) bool { return w.Kind == why.WaitJoin })
			if !joins && (want.Step == 0 || x.Execution == a.flags.from) {
				labels = append(labels, x.Execution)
			}
		}
	}
	switch len(labels) {
	case 0:
		return none, bad("the run %q has not started %q, so there is nothing to fork; see: starter why %s %s", args0(old), a.flags.from, plaintext.ShellQuote(args0(old)), plaintext.ShellQuote(a.flags.from))
	case 1:
		return history.ExecutionOf(why.Escaped(labels[0])), nil
	}
	return none, bad("%q ran %d times; say which with -from %s", a.flags.from, len(labels), strings.Join(labels, " or "))
}

func args0(t *runtree.Tree) string { return t.Workflows[0].ID }

// behind reports for an execution whether they must run again: the one that is forked, and all that
// its node can lead to behind it, in the old flow or in the new one.
func behind(at contract.Execution, flows ...*plan.Flow) func(*contract.Execution) bool {
	reach := map[string]bool{}
	todo := []string{at.Node}
	for len(todo) > 0 {
		node := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, f := range flows {
			for _, e := range f.Edges {
				if e.From == node && !reach[e.To] {
					reach[e.To] = true
					todo = append(todo, e.To)
				}
			}
		}
	}
	return func(x *contract.Execution) bool {
		return x.Node == at.Node && x.Step == at.Step && max(x.Nth, 1) == max(at.Nth, 1) || reach[x.Node] && x.Step > at.Step
	}
}

// holds refuses a flow that has no place for what is recorded, and says what of an edited flow
// has no effect because it lies before the fork.
func (a *app) holds(root *runtree.Workflow, flow *plan.Flow, at contract.Execution, past []pastIn) error {
	if flow.Node(at.Node) == nil {
		return bad("%s has no node %q, where the fork starts; keep it, or fork at another", a.flags.flow, at.Node)
	}
	for i := range past {
		if p := &past[i]; flow.Node(p.Node) == nil {
			return bad("%s has no node %q, which ran before %s (%s); keep it, or fork at it", a.flags.flow, p.Node, history.Label(at), root.Source.At(plan.NodePath(p.Node)))
		}
	}
	warned := map[string]bool{}
	for i := range past {
		p := &past[i]
		taken, missing := impact.KeptEdges(root.Flow, flow, p.Taken)
		if missing != "" {
			return bad("%s has no edge %q, by which the run left %s; keep it, or fork at %s", a.flags.flow, missing, history.Label(p.Execution), p.Node)
		}
		p.Taken = taken
		if !warned[p.Node] && !impact.SameNode(root.Flow, flow, p.Node) {
			a.say("warning: the node %s is another in %s, but ran before %s: its recorded result is taken", plaintext.Line(p.Node, 200), a.flags.flow, history.Label(at))
		}
		warned[p.Node] = true
	}
	return nil
}
