package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
)

// prepare settles plan and model. Where the input has both, and declares no inputs, no activity
// is needed.
func (p *preparation) prepare(ctx workflow.Context, in *contract.RunInput) error {
	if in.V != contract.Version {
		return contract.WrongVersion(in.V)
	}
	p.run.Flow, p.run.Shared.Model, p.run.Shared.Depth, p.run.Shared.Budget = in.Flow.Plan, modelOf(in), in.Depth, in.Budget
	if in.Flow.Source != nil {
		p.run.Source = *in.Flow.Source
	}
	declared := ""
	if p.begins() {
		hash, err := p.run.Flow.Hash()
		if err != nil {
			return err
		}
		declared = hash // what the inputs make of the flow is the same flow
	}
	if p.run.Flow == nil || p.run.Shared.Model == "" || declared != "" {
		if err := p.inquire(ctx, in); err != nil {
			return err
		}
	}
	if err := p.check(ctx, in.MaxPayload); err != nil {
		return err
	}
	if declared != "" {
		p.run.Hash = declared
	}
	return nil
}

// modelOf is the model that a run is for: its own, or that of the plan that it brings.
func modelOf(in *contract.RunInput) string {
	if in.Model == "" && in.Flow.Plan != nil {
		return in.Flow.Plan.Model
	}
	return in.Model
}

// inquire has an activity compile, begin, and choose a model, as far as the input leaves it open.
func (p *preparation) inquire(ctx workflow.Context, in *contract.RunInput) error {
	request := contract.CompileFlowInput{Flow: in.Flow, Model: in.Model}
	var raw json.RawMessage
	c := &runtime.Call{Activity: contract.ActivityCompileFlow, Args: []any{&request}, What: "the document", Options: runtime.PrepareOptions,
		ID: "prepare", Summary: "compile the flow, choose the model", Out: &raw}
	switch {
	case p.begins():
		request = contract.CompileFlowInput{Flow: contract.FlowRef{Plan: p.run.Flow}, Model: p.run.Shared.Model, Params: in.Params, Scope: in.Scope, Input: in.Input, Unchecked: in.Unchecked}
		if p.run.Hash != "" {
			c.ID, c.Summary = "begin", "check the inputs"
		}
	case p.run.Flow != nil:
		request.Flow = contract.FlowRef{}
	}
	if in.Depth == 0 {
		request.Root = startFacts(ctx)
	}
	if err := p.run.Invoke(ctx, c); err != nil {
		return err
	}
	out, err := contract.ReadPrepared(raw)
	if err != nil {
		return err
	}
	p.run.Shared.Model, p.Public = out.Model, out.Publish
	p.run.Allow(out.MaxPayload)
	if err := p.run.Budget.Bound(out.BudgetLimits); err != nil {
		return err
	}
	if p.run.Flow == nil {
		p.run.Flow, p.run.Source, p.run.Hash = out.Plan, out.Source, out.Hash
		if p.begins() {
			// Only now is it known that the flow wants what the run was given.
			return p.inquire(ctx, in)
		}
		return nil
	}
	if out.Plan != nil {
		p.run.Flow = out.Plan
	}
	if out.Input != nil {
		in.Input = *out.Input
	}
	return nil
}

// begins reports whether the flow declares inputs, so that what the run is given makes its text.
func (p *preparation) begins() bool {
	return p.run.Flow != nil && p.run.Flow.Inputs != nil && p.run.Flow.Version <= plan.Version
}

// check refuses a plan that the interpreter cannot run. The verdict is recorded, so that a
// stricter check in a later build cannot fail a run that has started. So is the worker's
// store, unless the run above has settled it (most).
func (p *preparation) check(ctx workflow.Context, most int) error {
	var problems []string
	refused := false
	if p.run.Hash == "" {
		var v verdict
		recorded := workflow.SideEffect(ctx, func(workflow.Context) any { return p.judgePlan(ctx) })
		if err := recorded.Get(&v); err != nil {
			return err
		}
		problems, refused = v.Problems, v.Refused
		p.run.Allow(v.MaxPayload)
		if err := p.run.Budget.Bound(v.BudgetLimits); err != nil {
			return err
		}
		if p.Public == nil {
			p.Public = v.Publish
		}
	}
	if most > 0 {
		p.run.Allow(most)
	}
	if refused {
		return refusal()
	}
	if later := laterPlan(p.run.Flow); later != nil {
		return later
	}
	if len(problems) > 0 {
		return &contract.Failure{Class: contract.ClassInvalidFlow, Text: strings.Join(problems, "; "), Diagnostics: problems,
			Remedy: "make the plan with the starter or the adapter of this build"}
	}
	if p.run.Hash == "" {
		hash, err := p.run.Flow.Hash()
		if err != nil {
			return err
		}
		p.run.Hash = hash
	}
	own := *p.run.Flow
	p.run.Flow, p.run.Graph = &own, schedule.NewGraph(&own)
	return nil
}

// laterPlan is the failure of a plan of a later build, or one with such a plan in it, else nil.
func laterPlan(f *plan.Flow) *contract.Failure {
	if f == nil {
		return nil
	}
	version := f.Version
	for i := range f.Agents {
		version = max(version, f.Agents[i].Version)
	}
	return contract.LaterPlan(version)
}

// refusal is the failure of a run whose plan the worker does not take.
func refusal() *contract.Failure {
	return &contract.Failure{Class: contract.ClassInvalidFlow,
		Text:   "the run brings a plan of its own, but its worker runs the flows of its folder alone (flows.accept: named)",
		Remedy: "start the run with the name of a flow instead, or ask the worker's operator to set flows.accept: any"}
}

// judgePlan gives what is recorded of the plan.
func (p *preparation) judgePlan(ctx workflow.Context) verdict {
	if p.run.Flow == nil {
		return verdict{Problems: []string{"there is no plan"}}
	}
	v := verdict{Problems: p.run.Flow.Check(), MaxPayload: p.settings.MaxPayload, BudgetLimits: p.settings.BudgetLimits,
		Refused: p.settings.RefusePlans && workflow.GetInfo(ctx).ParentWorkflowExecution == nil}
	if start := startFacts(ctx); p.Public == nil && p.run.Shared.Depth == 0 && (len(start.Attributes) > 0 || len(p.settings.Webhooks) > 0) {
		v.Publish = &contract.Publish{Attributes: start.Attributes, Webhooks: p.settings.Webhooks}
	}
	return v
}

// inputs refuses params that the flow does not declare, and values of placeholders that it does
// not replace.
func (p *preparation) inputs(in *contract.RunInput) error {
	if s := string(in.Scope); s != "" && s != "null" && p.run.Flow.Inputs == nil {
		return &contract.Failure{Class: contract.ClassBadRequest,
			Text:   fmt.Sprintf("the run brings a scope, but the flow %q, of the dialect %s, declares no inputs", p.run.Flow.Name, p.run.Flow.Dialect),
			Remedy: "leave the scope out"}
	}
	if params := string(in.Params); params == "" || params == "null" || p.run.Flow.Inputs != nil || p.run.Flow.Values != nil && p.run.Flow.Values.Named {
		return nil
	}
	return &contract.Failure{Class: contract.ClassBadRequest,
		Text:   fmt.Sprintf("the run brings params, but the flow %q, of the dialect %s, declares no inputs", p.run.Flow.Name, p.run.Flow.Dialect),
		Remedy: "give the text with input, and values for the nodes with state"}
}

// bring puts the run's own connections before the flow's.
func (p *preparation) bring(connections []contract.DataConnection) error {
	var own []plan.Connection
	for i := range connections {
		c, err := connections[i].Connection()
		if err != nil {
			f := &contract.Failure{Class: contract.ClassBadRequest, Text: err.Error(), Remedy: "correct the run's input"}
			if errors.Is(err, contract.ErrSecret) {
				f.Remedy = contract.InHistory + "; " + f.Remedy
			}
			return f
		}
		if i := slices.IndexFunc(p.run.Flow.Connections, func(its plan.Connection) bool { return its.ID == c.ID }); i >= 0 {
			c.WholeResults = p.run.Flow.Connections[i].WholeResults // what its agents see is the flow's
		}
		own = append(own, c)
	}
	p.run.Flow.Connections = append(own, p.run.Flow.Connections...)
	return nil
}

// accept stores what the run was given, and makes the view with which it begins.
func (p *preparation) accept(in *contract.RunInput) (*contract.View, error) {
	if in.MaxSteps > 0 {
		p.run.Flow.Limits.MaxSteps = in.MaxSteps
	}
	if err := p.bring(in.DataConnections); err != nil {
		return nil, err
	}
	text, given, err := p.inputOf(in)
	if err != nil {
		return nil, err
	}
	m := contract.InputMessage(text, in.Images)
	if p.run.Shared.Input, err = p.run.Transcript.Write(p.run.Transcript.Open("input"), m); err != nil {
		return nil, err
	}
	p.run.Shared.MaxEvents = in.MaxEvents
	if len(m.Text) <= runtime.MaxInline && len(m.Images) == 0 {
		p.run.Shared.Text = m.Text
	}
	if err := p.remember(in.History); err != nil {
		return nil, err
	}
	p.run.Shared.Script = in.ScriptRef
	if len(in.Script) > 0 {
		ref := p.run.Transcript.Keep(in.Script)
		p.run.Shared.Script = &ref
	}
	first := &contract.View{}
	if err := p.writeInput(first, in, given); err != nil {
		return nil, err
	}
	for _, key := range workflow.DeterministicKeys(in.State) {
		if d := plan.Depth(in.State[key]); d > runtime.MaxDepth {
			return nil, &contract.Failure{Class: contract.ClassBadRequest, Text: fmt.Sprintf("the input's state key %q nests %d deep, at most %d are stored", key, d, runtime.MaxDepth)}
		}
		e, err := p.run.Transcript.Value(key, in.State[key], contract.Stamp{Exec: plan.Start})
		if err != nil {
			return nil, err
		}
		schedule.SetEntry(first, e)
	}
	if n, limit := schedule.StateBytes(first), p.run.Flow.Limits.MaxStateBytes; n > limit {
		return nil, &contract.Failure{Class: contract.ClassTooLarge, Text: fmt.Sprintf("the input's state holds %d bytes, at most %d are allowed", n, limit)}
	}
	return first, nil
}

// remember stores the conversation before the run.
func (p *preparation) remember(history []contract.ChatMessage) error {
	if len(history) == 0 {
		return nil
	}
	raw, err := json.Marshal(history)
	if err != nil {
		return err
	}
	chat, err := p.run.Transcript.Write(p.run.Transcript.Open("chat"), &contract.Message{Role: contract.RoleUser, Text: string(raw)})
	p.run.Shared.Chat = &chat
	return err
}

// preparation settles what a run needs before its entry.
type preparation struct {
	run *runtime.Run
	// settings are for [workflow.SideEffect] alone.
	settings Settings
	// Public is what the run publishes; nil for nothing.
	Public *contract.Publish
}
