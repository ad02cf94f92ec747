package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/specadapter"
	"weft/specadapter/inputs"
	"weft/starter/compare"
	"weft/starter/fork"
	"weft/starter/history"
	"weft/starter/input"
	"weft/starter/plaintext"
	"weft/starter/progress"
	"weft/starter/runs"
	"weft/starter/runtree"
	"weft/starter/usage"
	"weft/worker/config"
	"weft/workflows/plan"
)

// start runs a flow. It validates all input before it connects to a server.
func (a *app) start(ctx context.Context, _ []string) error {
	if a.flags.Flow == "" {
		return usage.Errorf("missing -flow; usage: starter -flow FILE [-input TEXT|@FILE|-]")
	}
	a.setStage("no run was started")
	if err := runs.CheckID(a.flags.id); err != nil {
		return err
	}
	cfg, err := a.load()
	if err != nil {
		return err
	}
	flow, in, err := a.input(ctx, cfg)
	if err != nil {
		return err
	}
	if a.flags.dev {
		if err := a.joinDev(ctx); err != nil {
			return err
		}
		a.setStage("no run was started")
		if cfg, err = a.load(); err != nil {
			return err
		}
	}
	if err := a.approveCommands(cfg, flow); err != nil {
		return err
	}
	if err := a.sendSecrets(ctx); err != nil {
		return err
	}
	c, err := a.connect(ctx, cfg)
	if err != nil {
		return err
	}
	id := cmp.Or(a.flags.id, runs.NewID(flow.Name))
	a.setStage(fmt.Sprintf("check whether the run was started with: %sstatus %s", a.self(), plaintext.ShellQuote(id)))
	run, err := a.launch(ctx, c, client.StartWorkflowOptions{ID: id, TaskQueue: cfg.TaskQueue, Priority: a.flags.temporalPriority()}, flow, in)
	if err != nil {
		return err
	}
	a.setStage(a.detachedText(id))
	started := fmt.Sprintf("run: %s (task queue %s, namespace %s at %s)", id, cfg.TaskQueue, c.Namespace, c.Address)
	if a.flags.detach {
		a.say("%s", started)
		a.detached(id)
		return nil
	}
	f := a.newFollower(run)
	f.Notify(progress.Notice{Event: progress.EventRun, Run: id}, "%s", started)
	if in.Model != "" {
		f.Model(in.Model)
	}
	if in.Session {
		return f.toFirstTurn(ctx)
	}
	return f.toTheEnd(ctx)
}

func (a *app) launch(ctx context.Context, c *runs.Connection, o client.StartWorkflowOptions, flow *plan.Flow, in *contract.RunInput) (*runs.Run, error) {
	in.Principal = a.principal()
	run, err := c.Start(ctx, o, flow, in)
	switch {
	case runs.Is[*serviceerror.WorkflowExecutionAlreadyStarted](err):
		return nil, usage.Errorf("a run with the id %q is already open; follow it with: %sfollow %s, or choose another -id", o.ID, a.self(), plaintext.ShellQuote(o.ID))
	case err != nil:
		return nil, fmt.Errorf("start the run %q: %w", o.ID, err)
	}
	return run, nil
}

func (a *app) detached(id string) {
	a.show(map[string]string{"status": "running", "run": id}, func() { _ = a.writeUnmasked([]byte(id + "\n")) })
	a.say("%s", a.detachedText(id))
}

func (a *app) reader() *input.Reader { return &input.Reader{Stdin: a.stdin, Say: a.say} }

// examine reads a flow, to start it or only to inspect it. It prints nothing.
func (a *app) examine(file string, starting bool) (*input.Document, error) {
	cfg, err := a.load()
	if err != nil {
		return nil, err
	}
	o := cfg.Reading(a.flags.dialect, a.flags.profile)
	o.Starting = starting
	if a.flags.dev {
		o.PassSecret = a.addSecret
	}
	return a.reader().Load(file, o, &a.flags.Flags)
}

// compile reads a flow and prints its diagnostics. If one of them is an error, it returns exit code 2.
func (a *app) compile(file string, starting bool) (*specadapter.Result, error) {
	d, err := a.examine(file, starting)
	if err != nil {
		return nil, err
	}
	for _, x := range d.Diagnostics {
		a.say("%s", x)
	}
	if d.Result == nil {
		return nil, exitCode(exitBadInput)
	}
	return d.Result, nil
}

func (a *app) model() (string, error) {
	model := a.flags.model
	if model == "" && a.cfg.Flows.Accept != config.AcceptNamed { // otherwise the worker would reject it
		model, _ = a.env.LookupEnv("WEFT_MODEL")
	}
	return input.Model(model, a.flags.Script != "")
}

// input reads a flow and the input of its run. The input contains the flow's plan, or its name if the workers accept only
// named flows.
func (a *app) input(ctx context.Context, cfg *config.Config) (*plan.Flow, *contract.RunInput, error) {
	named := contract.FlowRef{Dialect: a.flags.dialect, Profile: a.flags.profile}
	if cfg.Flows.Accept == config.AcceptNamed {
		if len(a.flags.Components)+len(a.flags.Component) > 0 {
			return nil, nil, usage.Errorf("-components and -component apply to documents, but with flows.accept: named the workers have the flows; remove the flags")
		}
		var err error
		if a.flags.Flow, named.Name, err = input.Named(cfg.Flows, a.flags.Flow); err != nil {
			return nil, nil, err
		}
	}
	res, flowErr := a.compile(a.flags.Flow, true)
	dialect := ""
	if res != nil {
		dialect = res.Flow.Dialect
	}
	values, inputErr := a.reader().Values(&a.flags.Flags, a.flags.has("input"), dialect)
	script, scriptErr := a.reader().Script(a.flags.Script)
	model, modelErr := a.model()
	if err := errors.Join(inputErr, scriptErr, modelErr, a.flags.checkPair()); err != nil {
		if !runs.Is[exitCode](flowErr) { // otherwise it has been printed
			err = errors.Join(flowErr, err)
		}
		return nil, nil, usage.Error{Text: err.Error()}
	}
	if flowErr != nil {
		return nil, nil, flowErr
	}
	if a.flags.session && res.Flow.SingleAgent() == nil {
		return nil, nil, usage.Errorf("the flow %q cannot be a session: it is not a single agent; remove -session", res.Flow.Name)
	}
	if err := values.Check(ctx, res.Flow); err != nil {
		return nil, nil, a.mismatch(err, "-input")
	}
	in := &contract.RunInput{
		V: contract.Version, Input: values.Text, Media: values.Media, Params: values.Params, Scope: values.Scope, Value: values.Value, State: values.State,
		Model: model, Script: script, MaxSteps: a.flags.maxSteps, Budget: a.flags.budget.budget(), OnError: cmp.Or(a.flags.onError, plaintext.If(a.flags.dev, contract.OnErrorFail)), Session: a.flags.session,
		Flow: contract.FlowRef{Plan: res.Flow, Source: &res.Source},
	}
	if named.Name != "" {
		in.Flow = named
	}
	return res.Flow, in, nil
}

func (a *app) mismatch(err error, prompt string) error {
	e, ok := errors.AsType[*inputs.Invalid](err)
	if a.flags.asJSON() && (ok || runs.Is[*inputs.MissingConfig](err)) {
		a.object(err)
	}
	if !ok {
		return usage.Error{Text: err.Error()}
	}
	lines := []string{fmt.Sprintf("the parameters do not match the parameters_schema of %q; -param KEY=TEXT sets a string, KEY:=JSON any other value, %s the prompt", e.AgentName, prompt)}
	if e.Named {
		lines[0] = fmt.Sprintf("the inputs of the run do not match the inputs of %q; -param KEY=TEXT or KEY:=JSON sets one", e.AgentName)
	}
	for _, p := range e.Errors {
		lines = append(lines, "  "+p.Path+": "+p.Message)
	}
	return usage.Error{Text: strings.Join(lines, "\n")}
}

func (a *app) fork(ctx context.Context, args []string) error {
	if a.flags.from == "" {
		return usage.Errorf("missing -from; usage: starter fork ID -from NODE")
	}
	set, err := input.Pairs("-set", a.flags.sets)
	if err := errors.Join(err, runs.CheckID(a.flags.id), a.flags.checkPair()); err != nil {
		return usage.Error{Text: err.Error()}
	}
	r, err := a.find(ctx, args[0])
	if err != nil {
		return err
	}
	old, err := runtree.Read(ctx, history.From(r.Client), r.ID, r.RunID)
	if err != nil {
		return err
	}
	o, err := a.forkOptions()
	if err != nil {
		return err
	}
	o.Set = set
	in, err := fork.Input(ctx, r, old, *o)
	if err != nil {
		return err
	}
	id := cmp.Or(a.flags.id, runs.NewID(in.Flow.Plan.Name))
	run, err := a.launch(ctx, r.Connection, client.StartWorkflowOptions{ID: id, TaskQueue: cmp.Or(a.flags.taskQueue, r.Queue), Priority: a.flags.inheritedPriority(r.Priority)}, in.Flow.Plan, in)
	if err != nil {
		return err
	}
	if k := in.Fork; k != nil {
		a.say("fork: %s continues from %s#%d of %s with %d recorded executions", id, plaintext.Line(k.Node, 200), k.Step, args[0], len(k.Executions))
	} else {
		a.say("fork: %s restarts %s with the same input", id, args[0])
	}
	if a.flags.detach {
		a.detached(id)
		return nil
	}
	return a.followFork(ctx, r, run)
}

func (a *app) forkOptions() (*fork.Options, error) {
	o := &fork.Options{From: a.flags.from, File: a.flags.Flow, MaxSteps: a.flags.maxSteps, Say: a.say}
	var err error
	if a.flags.Flow != "" {
		if o.Flow, err = a.compile(a.flags.Flow, true); err != nil {
			return nil, err
		}
	}
	if o.Script, err = a.reader().Script(a.flags.Script); err != nil {
		return nil, err
	}
	if a.flags.model != "" || o.Script != nil {
		if o.Model, err = a.model(); err != nil {
			return nil, err
		}
	}
	o.Override, err = input.Pairs("-override", a.flags.overrides)
	return o, err
}

func (a *app) followFork(ctx context.Context, old, run *runs.Run) error {
	ended := a.newFollower(run).toTheEnd(ctx)
	if code, ok := errors.AsType[exitCode](ended); ok && code == exitDetached {
		return ended
	}
	if table, err := compared(ctx, old.Connection, old.ID, run.ID); err == nil && !a.flags.asJSON() {
		fmt.Fprint(a.mask.Writer(a.stderr), compare.Text(table))
	} else {
		a.say("compare them with: starter compare %s %s", old.Quoted(), run.Quoted())
	}
	return ended
}
