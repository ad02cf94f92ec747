// Package prepare determines what a run needs before its first node: plan and model, inputs, the initial state, and
// the tools that its connections offer.
package prepare

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
)

// Prepare determines plan and model. If the input has both and the flow declares no inputs, no activity is needed.
func (p *Preparation) Prepare(ctx workflow.Context, in *contract.RunInput) error {
	if in.V != contract.Version {
		return contract.WrongVersion(in.V)
	}
	p.Run.Flow, p.Run.Shared.Model, p.Run.Shared.Depth, p.Run.Shared.Budget = in.Flow.Plan, in.Model, in.Depth, in.Budget
	if in.Flow.Plan != nil {
		p.Run.Shared.Model = cmp.Or(in.Model, in.Flow.Plan.Model)
	}
	p.Run.Shared.Grant, p.Run.Shared.ServerSessions, p.Run.Shared.Entries, p.Run.Shared.Script = in.Grant, in.ServerSessions, in.Entries, in.ScriptRef
	if len(in.Script) > 0 {
		ref := p.Run.Transcript.Keep(in.Script)
		p.Run.Shared.Script = &ref
	}
	if in.Flow.Source != nil {
		p.Run.Source = *in.Flow.Source
	}
	declared := ""
	if p.declaresInputs() {
		var err error
		if declared, err = p.Run.Flow.Hash(); err != nil {
			return err
		}
	}
	if p.Run.Flow == nil || p.Run.Shared.Model == "" || declared != "" {
		if err := p.compile(ctx, in); err != nil {
			return err
		}
	}
	err := p.check(ctx, in)
	p.Run.Hash = cmp.Or(declared, p.Run.Hash) // applying the inputs does not change the flow's identity
	return err
}

// compile runs the activity that compiles the flow, applies its inputs and chooses a model, as far as the input leaves this open.
func (p *Preparation) compile(ctx workflow.Context, in *contract.RunInput) error {
	request := contract.CompileFlowInput{Flow: in.Flow, Model: in.Model}
	var raw json.RawMessage
	c := &runtime.Call{Activity: contract.ActivityCompileFlow, Args: []any{&request}, What: "the document", Options: compileOptions, Local: runtime.LocalCompile,
		ID: "prepare", Summary: "compile the flow, choose the model", Out: &raw}
	switch {
	case p.declaresInputs():
		request = contract.CompileFlowInput{Flow: contract.FlowRef{Plan: p.Run.Flow}, Model: p.Run.Shared.Model, Params: in.Params, Scope: in.Scope, Input: in.Input, Unchecked: in.Unchecked}
		if p.Run.Hash != "" {
			c.ID, c.Summary = "begin", "check the inputs"
		}
	case p.Run.Flow != nil:
		request.Flow = contract.FlowRef{}
	}
	if in.Depth == 0 {
		request.Root = startFacts(ctx)
	}
	if err := p.Run.Invoke(ctx, c); err != nil {
		return err
	}
	out, err := contract.ReadCompiledFlow(raw)
	if err != nil {
		return err
	}
	p.Run.Shared.Model, p.Public = out.Model, out.Publish
	if p.Run.Flow == nil {
		p.Run.Flow, p.Run.Source, p.Run.Hash = out.Plan, out.Source, out.Hash
		if p.declaresInputs() {
			// Only the compiled flow shows that it declares inputs.
			return p.compile(ctx, in)
		}
		return nil
	}
	p.applyInputs(in, out)
	return nil
}

// applyInputs stores the flow and the text that result from applying the inputs.
func (p *Preparation) applyInputs(in *contract.RunInput, out *contract.CompileFlowResult) {
	if out.Plan != nil {
		p.Run.Flow = out.Plan
	}
	if out.Input != nil {
		in.Input = *out.Input
	}
}

// Replace replaces the run's parameters with those returned by the hook before the run. They are not checked, and placeholders,
// which have been replaced before, are not affected.
func (p *Preparation) Replace(ctx workflow.Context, in *contract.RunInput, params json.RawMessage) error {
	request := contract.CompileFlowInput{Flow: contract.FlowRef{Plan: p.Run.Flow}, Model: p.Run.Shared.Model, Params: params, Unchecked: true, Replaced: true}
	var out contract.CompileFlowResult
	err := p.Run.Invoke(ctx, &runtime.Call{Activity: contract.ActivityCompileFlow, Args: []any{&request}, What: "the parameters of the hook before the run",
		Options: compileOptions, Local: runtime.LocalCompile, ID: "hooked", Summary: "take the hook's parameters", Out: &out})
	if err == nil {
		p.applyInputs(in, &out)
		p.Run.Graph = schedule.NewGraph(p.Run.Flow)
	}
	return err
}

// compileOptions are the options of the activity that compiles; its timeouts are short, because the run waits for it.
var compileOptions = workflow.ActivityOptions{
	StartToCloseTimeout:    time.Minute,
	ScheduleToCloseTimeout: 10 * time.Minute,
	HeartbeatTimeout:       time.Duration(plan.DefaultPolicy.HeartbeatSeconds) * time.Second,
	WaitForCancellation:    true,
	RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second},
}

// declaresInputs reports whether the flow declares inputs, from which the run's text is made.
func (p *Preparation) declaresInputs() bool {
	return p.Run.Flow != nil && p.Run.Flow.Inputs != nil
}

// check rejects a plan that the interpreter cannot run. The verdict and a root run's authority are recorded, so that a stricter
// check in a later build cannot fail a run that has started.
func (p *Preparation) check(ctx workflow.Context, in *contract.RunInput) error {
	var v verdict
	if p.Run.Hash == "" || in.Depth == 0 {
		if err := runtime.SideEffect(ctx, func() any { return p.newVerdict(ctx, in) }, &v); err != nil {
			return err
		}
	}
	p.Run.Hash, p.Public, p.recorded = cmp.Or(p.Run.Hash, v.Hash), cmp.Or(p.Public, v.Publish), v.Authority
	if in.MaxPayload > 0 { // the limit of the parent run's store
		p.Run.Allow(in.MaxPayload)
	}
	invalid := failureOf(v.Problems, contract.ClassInvalidFlow, "compile the plan with the starter of this build")
	if err := cmp.Or(LaterPlan(p.Run.Flow), invalid); err != nil {
		return err
	}
	flow := *p.Run.Flow
	p.Run.Flow, p.Run.Graph = &flow, schedule.NewGraph(&flow)
	return nil
}

// failureOf returns the failure for problems, nil if there are none.
func failureOf(problems []string, class, remedy string) error {
	if len(problems) == 0 {
		return nil
	}
	return &contract.Failure{Class: class, Text: strings.Join(problems, "; "), Diagnostics: problems, Remedy: remedy}
}

// LaterPlan returns the failure of a plan that, or a sub-agent of which, is of a later build's version, else nil.
func LaterPlan(f *plan.Flow) error {
	if f == nil {
		return nil
	}
	version := f.Version
	for i := range f.Agents {
		version = max(version, f.Agents[i].Version)
	}
	return contract.LaterPlan(version)
}

// newVerdict returns the verdict to record for a run before its first node.
func (p *Preparation) newVerdict(ctx workflow.Context, in *contract.RunInput) (v verdict) {
	if p.Run.Flow == nil {
		return verdict{Problems: []string{"missing plan"}}
	}
	if p.Run.Hash == "" {
		v.Problems = p.Run.Flow.Check()
		v.Hash, _ = p.Run.Flow.Hash() // check reports the error
		if p.Public == nil && in.Depth == 0 {
			v.Publish = &contract.Publish{Attributes: startFacts(ctx).Attributes, Webhooks: p.Settings.Webhooks}
		}
	}
	if in.Depth == 0 && len(v.Problems) == 0 {
		v.Authority = p.newAuthority(in)
	}
	return v
}

// Preparation determines what a run needs before its first node.
type Preparation struct {
	Run *runtime.Run
	// Settings may be read only in a [runtime.SideEffect].
	Settings Settings
	// Public determines what a root run publishes; nil in a child run.
	Public *contract.Publish
	// recorded is a root run's authority as recorded in its history.
	recorded *authority
	// runConnections are the connections of the run's input.
	runConnections []plan.Connection
}

// startFacts returns what the start request has set. Decisions must use recorded facts only, because the server omits attributes
// that have been removed since.
func startFacts(ctx workflow.Context) *contract.StartFacts {
	info := workflow.GetInfo(ctx)
	_, named := info.Memo.GetFields()[contract.MemoFlow]
	_, hashed := info.Memo.GetFields()[contract.MemoHash]
	out := &contract.StartFacts{Memo: named && hashed}
	set := workflow.GetTypedSearchAttributes(ctx)
	for _, name := range contract.Attributes {
		if set.ContainsKey(temporal.NewSearchAttributeKeyKeyword(name)) {
			out.Attributes = append(out.Attributes, name)
		}
	}
	return out
}

// verdict is the recorded result of checking a run's plan: for a plan of the input its problems, its hash and what the run
// publishes; for a root run whose plan is valid, its authority.
type verdict struct {
	Problems  []string          `json:"problems,omitempty"`
	Hash      string            `json:"hash,omitempty"`
	Publish   *contract.Publish `json:"publish,omitempty"`
	Authority *authority        `json:"authority,omitempty"`
}

// Settings are the settings of a worker for the runs that start on it. Each run records them, and keeps them on other workers.
type Settings struct {
	// MaxPayload is the largest payload in bytes that the worker's store accepts; 0 means that there is no store.
	MaxPayload int
	// BudgetLimits limit what runs may spend; nil: unlimited.
	BudgetLimits *contract.BudgetLimits
	// Named restricts the worker to the unchanged flows of its own folder.
	Named bool
	// Webhooks are notified of root runs.
	Webhooks []contract.Webhook
	// Keys seal grants: the first one signs. Policies restrict them. Without policies, Scripts allows models scripted by clients.
	Keys []contract.SealKey
	// Bounds, if set, limit the flows of root runs.
	Bounds   *plan.Bounds
	Policies []contract.Policy
	Scripts  bool
	// Models, if set, validates the models of flows.
	Models Models
}

// Models are the models that a worker can call.
type Models interface {
	// CheckModel returns the failure of a model whose provider is not configured, else nil.
	CheckModel(ref string) *contract.Failure
}
