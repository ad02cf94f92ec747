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

// Prepare settles plan and model. Where the input has both, and the flow declares no inputs, no activity is needed.
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
	if p.begins() {
		var err error
		if declared, err = p.Run.Flow.Hash(); err != nil {
			return err
		}
	}
	if p.Run.Flow == nil || p.Run.Shared.Model == "" || declared != "" {
		if err := p.inquire(ctx, in); err != nil {
			return err
		}
	}
	err := p.check(ctx, in)
	p.Run.Hash = cmp.Or(declared, p.Run.Hash) // what the inputs make of the flow is the same flow
	return err
}

// inquire has an activity compile, begin, and choose a model, as far as the input leaves it open.
func (p *Preparation) inquire(ctx workflow.Context, in *contract.RunInput) error {
	request := contract.CompileFlowInput{Flow: in.Flow, Model: in.Model}
	var raw json.RawMessage
	c := &runtime.Call{Activity: contract.ActivityCompileFlow, Args: []any{&request}, What: "the document", Options: compileOptions, Local: runtime.LocalCompile,
		ID: "prepare", Summary: "compile the flow, choose the model", Out: &raw}
	switch {
	case p.begins():
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
	out, err := contract.ReadPrepared(raw)
	if err != nil {
		return err
	}
	p.Run.Shared.Model, p.Public = out.Model, out.Publish
	if p.Run.Flow == nil {
		p.Run.Flow, p.Run.Source, p.Run.Hash = out.Plan, out.Source, out.Hash
		if p.begins() {
			// Only now is it known that the flow wants what the run was given.
			return p.inquire(ctx, in)
		}
		return nil
	}
	p.takeInputs(in, out)
	return nil
}

// takeInputs takes over what the inputs make of the flow, and of its text.
func (p *Preparation) takeInputs(in *contract.RunInput, out *contract.CompileFlowResult) {
	if out.Plan != nil {
		p.Run.Flow = out.Plan
	}
	if out.Input != nil {
		in.Input = *out.Input
	}
}

// Replace gives the run the parameters of the hook before it. They are not checked, and placeholders, which have been replaced,
// stay as they are.
func (p *Preparation) Replace(ctx workflow.Context, in *contract.RunInput, params json.RawMessage) error {
	request := contract.CompileFlowInput{Flow: contract.FlowRef{Plan: p.Run.Flow}, Model: p.Run.Shared.Model, Params: params, Unchecked: true, Replaced: true}
	var out contract.CompileFlowResult
	err := p.Run.Invoke(ctx, &runtime.Call{Activity: contract.ActivityCompileFlow, Args: []any{&request}, What: "the parameters of the hook before the run",
		Options: compileOptions, Local: runtime.LocalCompile, ID: "hooked", Summary: "take the hook's parameters", Out: &out})
	if err == nil {
		p.takeInputs(in, &out)
		p.Run.Graph = schedule.NewGraph(p.Run.Flow)
	}
	return err
}

// compileOptions are those of the activity that compiles: short, because nothing else can happen before.
var compileOptions = workflow.ActivityOptions{
	StartToCloseTimeout:    time.Minute,
	ScheduleToCloseTimeout: 10 * time.Minute,
	HeartbeatTimeout:       time.Duration(plan.DefaultPolicy.HeartbeatSeconds) * time.Second,
	WaitForCancellation:    true,
	RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second},
}

// begins reports whether the flow declares inputs, so that what the run is given makes its text.
func (p *Preparation) begins() bool {
	return p.Run.Flow != nil && p.Run.Flow.Inputs != nil
}

// check refuses a plan that the interpreter cannot run. The verdict is recorded, so that a stricter check in a later build cannot
// fail a run that has started, and with it the authority of a root run.
func (p *Preparation) check(ctx workflow.Context, in *contract.RunInput) error {
	var v verdict
	if p.Run.Hash == "" || in.Depth == 0 {
		if err := runtime.SideEffect(ctx, func() any { return p.judge(ctx, in) }, &v); err != nil {
			return err
		}
	}
	p.Run.Hash, p.Public, p.recorded = cmp.Or(p.Run.Hash, v.Hash), cmp.Or(p.Public, v.Publish), v.Authority
	if in.MaxPayload > 0 { // that of the store of the run above
		p.Run.Allow(in.MaxPayload)
	}
	invalid := failureOf(v.Problems, contract.ClassInvalidFlow, "make the plan with the starter or the adapter of this build")
	if err := cmp.Or(LaterPlan(p.Run.Flow), invalid); err != nil {
		return err
	}
	own := *p.Run.Flow
	p.Run.Flow, p.Run.Graph = &own, schedule.NewGraph(&own)
	return nil
}

// failureOf is the failure for problems, nil where there are none.
func failureOf(problems []string, class, remedy string) error {
	if len(problems) == 0 {
		return nil
	}
	return &contract.Failure{Class: class, Text: strings.Join(problems, "; "), Diagnostics: problems, Remedy: remedy}
}

// LaterPlan is the failure of a plan of a later build, or one with such a plan in it, else nil.
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

// judge gives what is recorded of a run before its entry.
func (p *Preparation) judge(ctx workflow.Context, in *contract.RunInput) (v verdict) {
	if p.Run.Flow == nil {
		return verdict{Problems: []string{"there is no plan"}}
	}
	if p.Run.Hash == "" {
		v.Problems = p.Run.Flow.Check()
		v.Hash, _ = p.Run.Flow.Hash() // check reports the error
		if p.Public == nil && in.Depth == 0 {
			v.Publish = &contract.Publish{Attributes: startFacts(ctx).Attributes, Webhooks: p.Settings.Webhooks}
		}
	}
	if in.Depth == 0 && len(v.Problems) == 0 {
		v.Authority = p.authority(in)
	}
	return v
}

// Preparation settles what a run needs before its entry.
type Preparation struct {
	Run *runtime.Run
	// Settings are for [runtime.SideEffect] alone.
	Settings Settings
	// Public is what a root run publishes.
	Public *contract.Publish
	// recorded is what a root run may reach and spend, as its history has it.
	recorded *authority
	// brought are the run's own connections, once they are authorized.
	brought []plan.Connection
}

// startFacts are what the start request has set. Only what is recorded of it may decide anything: the server leaves out
// attributes that were removed since.
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

// verdict is what is recorded of a plan that came with the input: what is wrong with it, its hash, and what the run publishes; and,
// if the plan can run, of a root run's authority.
type verdict struct {
	Problems  []string          `json:"problems,omitempty"`
	Hash      string            `json:"hash,omitempty"`
	Publish   *contract.Publish `json:"publish,omitempty"`
	Authority *authority        `json:"authority,omitempty"`
}

// Settings are those of a worker for the runs that start on it. Each run records them, and goes on with them on any worker.
type Settings struct {
	// MaxPayload is the largest payload in bytes that the worker's store takes; 0 means that there is none.
	MaxPayload int
	// BudgetLimits is what runs may spend; absent: unlimited.
	BudgetLimits *contract.BudgetLimits
	// Named has the worker run the flows of its own folder alone, as they are.
	Named bool
	// Webhooks are told of root runs.
	Webhooks []contract.Webhook
	// Keys seal what runs may reach, the first of them; Policies bound it. Scripts allows, where there are no policies,
	// models that clients script.
	Keys []contract.SealKey
	// Bounds, if set, bind the flows of root runs.
	Bounds   *plan.Bounds
	Policies []contract.Policy
	Scripts  bool
	// Models, if set, knows the providers of the worker.
	Models Models
}

// Models are those that a worker can call.
type Models interface {
	// Unknown returns the failure of a model whose provider there is not, nil for any other.
	Unknown(ref string) *contract.Failure
}
