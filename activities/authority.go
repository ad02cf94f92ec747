package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/workflows/plan"
)

// Runs is a [Source] that looks up the origin of a run: its first run id, and its parent, which is nil if there is none.
type Runs interface {
	Origin(ctx context.Context, run contract.Run) (first string, above *contract.Run, err error)
}

func (s *clientSource) Origin(ctx context.Context, run contract.Run) (string, *contract.Run, error) {
	out, err := s.client.DescribeWorkflowExecution(ctx, run.Workflow, run.Run)
	if err != nil {
		return "", nil, err
	}
	info := out.GetWorkflowExecutionInfo()
	if p := info.GetParentExecution(); p != nil {
		return info.GetFirstRunId(), &contract.Run{Workflow: p.GetWorkflowId(), Run: p.GetRunId()}, nil
	}
	return info.GetFirstRunId(), nil, nil
}

type grantKey struct{}

// granted returns the verified grant of the run that makes a call; nil outside a worker.
func granted(ctx context.Context) *contract.Grant {
	g, _ := ctx.Value(grantKey{}).(*contract.Grant)
	return g
}

// authorized wraps an activity so that it takes the grant of its run and verifies it.
func authorized[In, Out any](a *Activities, fn Activity[In, Out]) func(context.Context, In, *contract.Grant) (Out, error) {
	return func(ctx context.Context, in In, g *contract.Grant) (Out, error) {
		if err := a.verify(ctx, g); err != nil {
			var none Out
			return none, a.toActivityError(ctx, err)
		}
		ctx = context.WithValue(ctx, grantKey{}, g)
		if g != nil {
			c := tool.Caller{Run: g.Root.Run}
			if g.Principal != nil {
				c.Tenant = g.Principal.Tenant
			}
			ctx = tool.WithCaller(ctx, c)
		}
		return fn(ctx, in)
	}
}

// verify refuses a call unless a worker made the grant for the run that makes the call, or for a run above it.
func (a *Activities) verify(ctx context.Context, g *contract.Grant) error {
	refused := func(why string) error {
		return &contract.Failure{Class: contract.ClassBadRequest, Text: "the call is refused: " + why, Remedy: "start a run of type " + contract.WorkflowFlow}
	}
	info := activity.GetInfo(ctx)
	switch {
	case info.WorkflowExecution.ID == "":
		return refused("it is not made by a run")
	case a.deps.Keys == nil: // a test
		return nil
	case g == nil:
		return refused("its run has no grant")
	case !g.Sealed(a.deps.Keys):
		return refused(fmt.Sprintf("its grant is not sealed by a key of this worker (the key %q)", g.Key))
	}
	own := contract.Run{Workflow: info.WorkflowExecution.ID, Run: info.WorkflowExecution.RunID}
	below, err := a.belongs(ctx, own, g.Root)
	if err == nil && !below {
		return refused(fmt.Sprintf("its grant belongs to another run, %s", g.Root.Workflow))
	}
	return err
}

// belongs reports whether a run is the root or below it. It asks the server once for each run.
func (a *Activities) belongs(ctx context.Context, run, root contract.Run) (bool, error) {
	key := "below:" + run.Run + "/" + root.Run
	if _, known := a.cache.get(key); run == root || known {
		return true, nil
	}
	runs, ok := a.deps.Source.(Runs)
	for at := &run; ok && at != nil; {
		if *at == root {
			a.cache.put(cached{key: key})
			return true, nil
		}
		first, above, err := runs.Origin(ctx, *at)
		var missing *serviceerror.NotFound
		switch {
		case errors.As(err, &missing):
			return false, nil
		case err != nil:
			return false, &contract.Failure{Class: contract.ClassUnavailable, Text: fmt.Sprintf("look up the parent of run %s: %v", at.Workflow, err)}
		}
		if at.Workflow == root.Workflow && first == root.Run {
			above = &root
		}
		at = above
	}
	return false, nil
}

// mayList refuses a connection whose tools the run may not call.
func (a *Activities) mayList(ctx context.Context, in *contract.CatalogueInput) error {
	if in.All {
		return a.mayCall(ctx, in.Connection, "", "")
	}
	for _, name := range in.Names {
		if err := a.mayCall(ctx, in.Connection, name, ""); err != nil {
			return err
		}
	}
	return nil
}

// mayCall refuses a tool of a connection, or with an empty name the connection, that the run's grant does not cover or the
// policy no longer allows.
func (a *Activities) mayCall(ctx context.Context, c plan.Connection, name, called string) error {
	if c.Kind == plan.ConnectionAgent || c.Kind == plan.ConnectionClient {
		return nil
	}
	g, p, err := a.authority(ctx)
	if g == nil || err != nil {
		return err
	}
	if c.ID == "" && c.Address() == "" {
		if c, err = a.deps.Tools.Resolve(c, name); err != nil {
			return err
		}
	}
	id, remedy, setting := cmp.Or(c.ID, (&plan.Tool{Name: name}).BoundTo()), "bind it in the flow", ""
	if p != nil {
		setting = p.MissingSetting(id, cmp.Or(called, c.Address()), name)
	}
	switch {
	case setting != "":
		remedy = allow + setting
	case slices.ContainsFunc(a.deps.Tools.References(c, name), func(r plan.Reach) bool { return g.Covers(r.ID, r.Address, name) }):
		return nil
	case g.Within != nil:
		remedy = "bind it at the node whose model defines the agent"
		if p != nil {
			remedy += fmt.Sprintf("; %spolicies: {%s: {agent_connections: [%q]}}", allow, p.Name, id)
		}
	}
	return &contract.Failure{Class: contract.ClassConnection, Text: fmt.Sprintf("tool %q of connection %q is not granted to this run", name, id), Remedy: remedy}
}

// mayAsk refuses a model that the run's grant does not cover or the policy no longer allows.
func (a *Activities) mayAsk(ctx context.Context, models string) error {
	g, p, err := a.authority(ctx)
	if g == nil || err != nil {
		return err
	}
	refused := func(model, remedy string) error {
		return &contract.Failure{Class: contract.ClassDenied, Text: fmt.Sprintf("the model %s is not granted to this run", model), Remedy: remedy}
	}
	if a.deps.Models.Scripted(models) && !(g.Scripts && (p == nil || p.Scripts)) {
		return refused(models, allow+scripts(p))
	}
	if m := g.MissingModel(models); m != "" {
		return refused(m, "name it in the flow")
	}
	for _, m := range plan.SplitModels(models) {
		if p != nil && !p.HasModel(m) {
			return refused(m, allow+fmt.Sprintf("policies: {%s: {models: [%q]}}", p.Name, m))
		}
	}
	return nil
}

// mayRun refuses a program that the run's grant does not cover or the policy no longer allows.
func (a *Activities) mayRun(ctx context.Context) error {
	g, p, err := a.authority(ctx)
	if g == nil || err != nil || g.Programs && (p == nil || p.Programs) {
		return err
	}
	f := &contract.Failure{Class: contract.ClassDenied, Text: "programs are not granted to this run", Remedy: "run one in the flow"}
	if p != nil {
		f.Remedy = allow + fmt.Sprintf("policies: {%s: {programs: true}}", p.Name)
	}
	return f
}

// allow begins the remedy that names a setting.
const allow = "to allow it, set in the worker's weft.yaml: "

// scripts returns the setting that allows scripted models.
func scripts(p *contract.Policy) string {
	if p == nil {
		return "flows: {scripts: true}"
	}
	return fmt.Sprintf("policies: {%s: {scripts: true}}", p.Name)
}

// authority returns the grant of the run that makes a call, nil outside a worker, and the policy in force for it, nil if the
// worker has none.
func (a *Activities) authority(ctx context.Context) (*contract.Grant, *contract.Policy, error) {
	g := granted(ctx)
	if g == nil {
		return nil, nil, nil
	}
	p, err := contract.PolicyFor(a.deps.Policies, g.Principal, g.Flow)
	return g, p, err
}
