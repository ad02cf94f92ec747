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

// settle does what comes before the run's entry.
func (f *flowRun) settle(ctx workflow.Context, in *contract.RunInput) error {
	text := in.Input
	if err := f.prepare(ctx, in); err != nil {
		return err
	}
	if err := f.inputs(in); err != nil {
		return err
	}
	f.introduce(ctx)
	if err := f.before(ctx, in, text); err != nil {
		return err
	}
	first, err := f.accept(in)
	if err != nil {
		return err
	}
	if err := f.takeFork(ctx, in.Fork); err != nil {
		return err
	}
	f.entry = &contract.EntryState{View: *first}
	return f.connect(ctx)
}

// prepare settles plan and model. Where the input has both, and declares no inputs, no activity
// is needed.
func (f *flowRun) prepare(ctx workflow.Context, in *contract.RunInput) error {
	if in.V != contract.Version {
		return contract.WrongVersion(in.V)
	}
	f.run.Flow, f.run.Shared.Model, f.run.Shared.Depth, f.run.Shared.Budget = in.Flow.Plan, modelOf(in), in.Depth, in.Budget
	if in.Flow.Source != nil {
		f.run.Source = *in.Flow.Source
	}
	declared := ""
	if f.begins() {
		hash, err := f.run.Flow.Hash()
		if err != nil {
			return err
		}
		declared = hash // what the inputs make of the flow is the same flow
	}
	if f.run.Flow == nil || f.run.Shared.Model == "" || declared != "" {
		if err := f.inquire(ctx, in); err != nil {
			return err
		}
	}
	if err := f.check(ctx, in.MaxPayload); err != nil {
		return err
	}
	if declared != "" {
		f.run.Hash = declared
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
func (f *flowRun) inquire(ctx workflow.Context, in *contract.RunInput) error {
	request := contract.CompileFlowInput{Flow: in.Flow, Model: in.Model}
	var raw json.RawMessage
	c := &runtime.Call{Activity: contract.ActivityCompileFlow, Args: []any{&request}, What: "the document", Options: runtime.PrepareOptions,
		ID: "prepare", Summary: "compile the flow, choose the model", Out: &raw}
	switch {
	case f.begins():
		request = contract.CompileFlowInput{Flow: contract.FlowRef{Plan: f.run.Flow}, Model: f.run.Shared.Model, Params: in.Params, Scope: in.Scope, Input: in.Input, Unchecked: in.Unchecked}
		if f.run.Hash != "" {
			c.ID, c.Summary = "begin", "check the inputs"
		}
	case f.run.Flow != nil:
		request.Flow = contract.FlowRef{}
	}
	if in.Depth == 0 {
		request.Root = startFacts(ctx)
	}
	if err := f.run.Invoke(ctx, c); err != nil {
		return err
	}
	out, err := contract.ReadPrepared(raw)
	if err != nil {
		return err
	}
	f.run.Shared.Model, f.public = out.Model, out.Publish
	f.run.Allow(out.MaxPayload)
	if err := f.run.Budget.Bound(out.BudgetLimits); err != nil {
		return err
	}
	if f.run.Flow == nil {
		f.run.Flow, f.run.Source, f.run.Hash = out.Plan, out.Source, out.Hash
		if f.begins() {
			// Only now is it known that the flow wants what the run was given.
			return f.inquire(ctx, in)
		}
		return nil
	}
	if out.Plan != nil {
		f.run.Flow = out.Plan
	}
	if out.Input != nil {
		in.Input = *out.Input
	}
	return nil
}

// begins reports whether the flow declares inputs, so that what the run is given makes its text.
func (f *flowRun) begins() bool {
	return f.run.Flow != nil && f.run.Flow.Inputs != nil && f.run.Flow.Version <= plan.Version
}

// check refuses a plan that the interpreter cannot run. The verdict is recorded, so that a
// stricter check in a later build cannot fail a run that has started. So is the worker's
// store, unless the run above has settled it (most).
func (f *flowRun) check(ctx workflow.Context, most int) error {
	var problems []string
	refused := false
	if f.run.Hash == "" {
		var v verdict
		recorded := workflow.SideEffect(ctx, func(workflow.Context) any { return f.judgePlan(ctx) })
		if err := recorded.Get(&v); err != nil {
			return err
		}
		problems, refused = v.Problems, v.Refused
		f.run.Allow(v.MaxPayload)
		if err := f.run.Budget.Bound(v.BudgetLimits); err != nil {
			return err
		}
		if f.public == nil {
			f.public = v.Publish
		}
	}
	if most > 0 {
		f.run.Allow(most)
	}
	if refused {
		return refusal()
	}
	if later := laterPlan(f.run.Flow); later != nil {
		return later
	}
	if len(problems) > 0 {
		return &contract.Failure{Class: contract.ClassInvalidFlow, Text: strings.Join(problems, "; "), Diagnostics: problems,
			Remedy: "make the plan with the starter or the adapter of this build"}
	}
	if f.run.Hash == "" {
		hash, err := f.run.Flow.Hash()
		if err != nil {
			return err
		}
		f.run.Hash = hash
	}
	own := *f.run.Flow
	f.run.Flow, f.run.Graph = &own, schedule.NewGraph(&own)
	f.sched = schedule.New(f.run.Graph)
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
func (f *flowRun) judgePlan(ctx workflow.Context) verdict {
	if f.run.Flow == nil {
		return verdict{Problems: []string{"there is no plan"}}
	}
	v := verdict{Problems: f.run.Flow.Check(), MaxPayload: f.settings.MaxPayload, BudgetLimits: f.settings.BudgetLimits,
		Refused: f.settings.RefusePlans && workflow.GetInfo(ctx).ParentWorkflowExecution == nil}
	if start := startFacts(ctx); f.public == nil && f.run.Shared.Depth == 0 && (len(start.Attributes) > 0 || len(f.settings.Webhooks) > 0) {
		v.Publish = &contract.Publish{Attributes: start.Attributes, Webhooks: f.settings.Webhooks}
	}
	return v
}

// inputs refuses params that the flow does not declare, and values of placeholders that it does
// not replace.
func (f *flowRun) inputs(in *contract.RunInput) error {
	if s := string(in.Scope); s != "" && s != "null" && f.run.Flow.Inputs == nil {
		return &contract.Failure{Class: contract.ClassBadRequest,
			Text:   fmt.Sprintf("the run brings a scope, but the flow %q, of the dialect %s, declares no inputs", f.run.Flow.Name, f.run.Flow.Dialect),
			Remedy: "leave the scope out"}
	}
	if p := string(in.Params); p == "" || p == "null" || f.run.Flow.Inputs != nil || f.run.Flow.Values != nil && f.run.Flow.Values.Named {
		return nil
	}
	return &contract.Failure{Class: contract.ClassBadRequest,
		Text:   fmt.Sprintf("the run brings params, but the flow %q, of the dialect %s, declares no inputs", f.run.Flow.Name, f.run.Flow.Dialect),
		Remedy: "give the text with input, and values for the nodes with state"}
}

// bring puts the run's own connections before the flow's.
func (f *flowRun) bring(connections []contract.DataConnection) error {
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
		if i := slices.IndexFunc(f.run.Flow.Connections, func(its plan.Connection) bool { return its.ID == c.ID }); i >= 0 {
			c.WholeResults = f.run.Flow.Connections[i].WholeResults // what its agents see is the flow's
		}
		own = append(own, c)
	}
	f.run.Flow.Connections = append(own, f.run.Flow.Connections...)
	return nil
}

// accept stores what the run was given, and makes the view with which it begins.
func (f *flowRun) accept(in *contract.RunInput) (*contract.View, error) {
	if in.MaxSteps > 0 {
		f.run.Flow.Limits.MaxSteps = in.MaxSteps
	}
	if err := f.bring(in.DataConnections); err != nil {
		return nil, err
	}
	text, given, err := f.inputOf(in)
	if err != nil {
		return nil, err
	}
	m := contract.InputMessage(text, in.Images)
	if f.run.Shared.Input, err = f.run.Transcript.Write(f.run.Transcript.Open("input"), m); err != nil {
		return nil, err
	}
	f.run.Shared.MaxEvents = in.MaxEvents
	if len(m.Text) <= runtime.MaxInline && len(m.Images) == 0 {
		f.run.Shared.Text = m.Text
	}
	if err := f.remember(in.History); err != nil {
		return nil, err
	}
	f.run.Shared.Script = in.ScriptRef
	if len(in.Script) > 0 {
		ref := f.run.Transcript.Keep(in.Script)
		f.run.Shared.Script = &ref
	}
	first := &contract.View{}
	if err := f.writeInput(first, in, given); err != nil {
		return nil, err
	}
	for _, key := range workflow.DeterministicKeys(in.State) {
		if d := plan.Depth(in.State[key]); d > runtime.MaxDepth {
			return nil, &contract.Failure{Class: contract.ClassBadRequest, Text: fmt.Sprintf("the input's state key %q nests %d deep, at most %d are stored", key, d, runtime.MaxDepth)}
		}
		e, err := f.run.Transcript.Value(key, in.State[key], contract.Stamp{Exec: plan.Start})
		if err != nil {
			return nil, err
		}
		schedule.SetEntry(first, e)
	}
	if n, limit := schedule.StateBytes(first), f.run.Flow.Limits.MaxStateBytes; n > limit {
		return nil, &contract.Failure{Class: contract.ClassTooLarge, Text: fmt.Sprintf("the input's state holds %d bytes, at most %d are allowed", n, limit)}
	}
	return first, nil
}

// remember stores the conversation before the run.
func (f *flowRun) remember(history []contract.ChatMessage) error {
	if len(history) == 0 {
		return nil
	}
	raw, err := json.Marshal(history)
	if err != nil {
		return err
	}
	chat, err := f.run.Transcript.Write(f.run.Transcript.Open("chat"), &contract.Message{Role: contract.RoleUser, Text: string(raw)})
	f.run.Shared.Chat = &chat
	return err
}
